"""Shared by tests: what a process holds of its machine."""

from __future__ import annotations

import gc
import os
import socket
import threading


def held() -> tuple[list[str], int]:
    """The threads of ours, and how many descriptors are open."""
    gc.collect()
    threads = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("mcp-"))
    return threads, len(os.listdir("/proc/self/fd"))


def free_port() -> int:
    """A port for a program that has to be told one.

    Until this process ends no other one is told it, and the system gives it to nobody: it is below the numbers that
    clients and servers without a number get, and the same number of UDP is taken here, as a sign to other processes.
    """
    for port in range(20_000, 32_000):
        sign = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sign.bind(("127.0.0.1", port))
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            sign.close()
        else:
            sign.detach()  # open until the process ends
            return port
    raise AssertionError("no port is free")
