"""How the servers that are made with a release of the official SDK for Python are run: over stdio, or over HTTP."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

try:
    import mcp_types as types
    from mcp.shared.exceptions import MCPError as error
except ImportError:  # the old SDK
    import mcp.types as types
    from mcp.shared.exceptions import McpError

    def error(code: int, message: str, data: Any = None) -> Exception:  # type: ignore[no-redef]
        """Return what a handler raises to refuse a request."""
        return McpError(types.ErrorData(code=code, message=message, data=data))


class AfterStream(Response):
    """Nothing: the answer was the event stream."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        pass


def sse_app(server: Any, options: Any) -> Starlette:
    """The event stream of 2024-11-05."""
    sse = SseServerTransport("/messages/")

    async def listen(request: Any) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, options)
        return AfterStream()

    return Starlette(routes=[Route("/sse", listen), Mount("/messages/", app=sse.handle_post_message)])


def run(server: Any, options: Any, app: Callable[[str], Starlette]) -> None:
    """Serve as the command line says, `[stdio | WAY [PORT]]`; over HTTP it prints the URL first."""
    way, port = [*sys.argv[1:], *["stdio", "0"][len(sys.argv) - 1 :]][:2]
    asyncio.run(stdio(server, options) if way == "stdio" else http(app(way), way, int(port)))


async def stdio(server: Any, options: Any) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


async def http(app: Starlette, way: str, port: int) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    path = "/sse" if way == "sse" else "/mcp"
    print(f"http://127.0.0.1:{listening.getsockname()[1]}{path}", flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="info")).serve([listening])


async def happened(event: asyncio.Event) -> bool:
    """Whether it comes to pass within 5 seconds."""
    try:
        await asyncio.wait_for(event.wait(), 5)
    except TimeoutError:
        return False
    return True
