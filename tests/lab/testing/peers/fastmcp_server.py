"""A server made with FastMCP."""

from fastmcp import FastMCP

server = FastMCP("peer")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.resource("note://first")
def first() -> str:
    """A note."""
    return "Remember the milk."


@server.prompt
def poem(topic: str) -> str:
    """A poem about something."""
    return topic


server.run(show_banner=False)
