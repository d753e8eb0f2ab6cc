"""The two tools of the benchmarks, by the official SDK (mcp 2): over stdio, or with arguments over HTTP."""

from __future__ import annotations

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("sdk", log_level="ERROR")


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool(structured_output=False)
async def steps(count: int, ctx: Context) -> str:
    """Report progress so many times."""
    for step in range(1, count + 1):
        await ctx.report_progress(step, count)
    return "done"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]), json_response=sys.argv[2:] == ["json"])
    else:
        server.run()
