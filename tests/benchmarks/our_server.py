"""The two tools of the benchmarks, by mcp_ref: over stdio, or with an argument over HTTP."""

from __future__ import annotations

import sys

from mcp_ref import Context, Server

server = Server("ours")


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def steps(count: int, ctx: Context) -> str:
    """Report progress so many times."""
    for step in range(1, count + 1):
        ctx.progress(step, count)
    return "done"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("http", port=int(sys.argv[1]))
    else:
        server.run()
