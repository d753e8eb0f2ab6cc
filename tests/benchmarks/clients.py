"""Clients of a bare server: ours, the SDK's in an event loop, and the SDK's through such a loop in a background thread.

The target is a URL, or None for the bare server over stdio.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from mcp_ref import Client
from tests.benchmarks.driver import SERVERS

HELLO = {"text": "hi"}


def ours(count: int, url: str | None = None) -> float:
    """Calls a second, one after the other, by `mcp_ref.Client`."""
    with Client(url or SERVERS["bare"], revision="2025-11-25") as client:
        return _rate(count, lambda: client.call_tool("echo", HELLO))


def _sdk_client(url: str | None) -> Any:
    from mcp import Client as SdkClient
    from mcp import StdioServerParameters

    program, *arguments = SERVERS["bare"]
    return SdkClient(url or StdioServerParameters(command=program, args=arguments), mode="legacy")


def sdk_in_a_loop(count: int, url: str | None = None) -> float:
    """Calls a second, one after the other, by `mcp.Client` in a program that is an event loop itself."""

    async def calls() -> float:
        async with _sdk_client(url) as client:
            for _ in range(min(count, 100)):
                await client.call_tool("echo", HELLO)
            began = time.perf_counter()
            for _ in range(count):
                await client.call_tool("echo", HELLO)
            return count / (time.perf_counter() - began)

    return asyncio.run(calls())


def sdk(count: int, url: str | None = None) -> float:
    """Calls a second, one after the other, by `mcp.Client`, as a program without an event loop has to use it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="bench-loop")
    thread.start()

    def wait(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)

    begun: asyncio.Future[Any] = wait(_new_future())
    end: asyncio.Event = wait(_new_event())

    async def session() -> None:
        # The whole context belongs to one task, as the SDK's cancel scopes demand.
        async with _sdk_client(url) as client:
            begun.set_result(client)
            await end.wait()

    running = asyncio.run_coroutine_threadsafe(session(), loop)
    try:
        client = wait(_value_of(begun))
        return _rate(count, lambda: wait(client.call_tool("echo", HELLO)))
    finally:
        loop.call_soon_threadsafe(end.set)
        running.result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def _new_future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def _new_event() -> asyncio.Event:
    return asyncio.Event()


async def _value_of(future: asyncio.Future[Any]) -> Any:
    return await future


def _rate(count: int, call: Callable[[], Any]) -> float:
    for _ in range(min(count, 100)):
        call()
    began = time.perf_counter()
    for _ in range(count):
        call()
    return count / (time.perf_counter() - began)
