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
        import uvicorn

        # As `run` does it; but a connection that waits for its turn on a busy machine is not hung up after 5 seconds.
        app = server.streamable_http_app(json_response=sys.argv[2:] == ["json"])
        uvicorn.run(app, port=int(sys.argv[1]), log_level="error", timeout_keep_alive=60)
    else:
        server.run()
