"""Shared by tests: what a process holds of its machine."""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections import Counter
from contextlib import suppress


def descriptors() -> list[str]:
    """What each open descriptor leads to, after what is forgotten has been collected."""
    gc.collect()
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # it was the one that listed them
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return found


def held() -> Counter[object]:
    """The threads of ours, and what is open: `held() - before` is what has come since."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("mcp-")]
    return Counter([*threads, *descriptors()])


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
