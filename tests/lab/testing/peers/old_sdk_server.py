"""A server made with an early release of the SDK for Python."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("peer")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run()
