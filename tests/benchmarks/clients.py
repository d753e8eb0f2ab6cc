"""Clients of a bare server: ours, and the SDK's in a program that is an event loop itself.

The target is a URL, or None for the bare server over stdio.
"""

from __future__ import annotations

import asyncio
import time

from mcp_ref import Client
from tests.benchmarks.driver import command

HELLO = {"text": "hi"}


def ours(count: int, url: str | None = None) -> float:
    """Calls a second, one after the other, by `mcp_ref.Client`."""
    with Client(url or command("bare"), revision="2025-11-25") as client:
        for _ in range(min(count, 100)):
            client.call_tool("echo", HELLO)
        began = time.perf_counter()
        for _ in range(count):
            client.call_tool("echo", HELLO)
        return count / (time.perf_counter() - began)


def sdk(count: int, url: str | None = None) -> float:
    """Calls a second, one after the other, by `mcp.Client`."""
    from mcp import Client as SdkClient
    from mcp import StdioServerParameters

    program, *arguments = command("bare")
    target = url or StdioServerParameters(command=program, args=arguments)

    async def calls() -> float:
        async with SdkClient(target, mode="legacy") as client:
            for _ in range(min(count, 100)):
                await client.call_tool("echo", HELLO)
            began = time.perf_counter()
            for _ in range(count):
                await client.call_tool("echo", HELLO)
            return count / (time.perf_counter() - began)

    return asyncio.run(calls())
