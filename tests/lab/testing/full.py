"""A server that has everything a probe asks for, and a client that lists and calls; each runs as a program too."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from mcp_ref import Client, Context, Server

HERE = Path(__file__).resolve()
SERVER_COMMAND = [sys.executable, str(HERE), "serve"]
CLIENT_COMMAND = [sys.executable, str(HERE), "ask", "{target}"]
ANSWERING_COMMAND = [sys.executable, str(HERE), "answer", "{target}"]
HASTY_COMMAND = [sys.executable, str(HERE), "hurry", "{target}"]

server = Server("full", instructions="Everything that a probe asks for.")


@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations={"readOnlyHint": True})
def count(up_to: int, ctx: Context) -> str:
    """Count, and say how far it is."""
    for number in range(3):
        ctx.progress(number, 3)
    return f"{up_to} counted"


@server.tool()
def slow(ctx: Context) -> str:
    """Wait until nobody wants it any more."""
    tick = threading.Event()
    for _ in range(500):
        if ctx.cancelled or tick.wait(0.01):
            break
    return "awake"


@server.resource("note://first")
def first() -> str:
    """A note."""
    return "Remember the milk."


@server.resource("file:///srv/notes/plain.txt")
def plain() -> str:
    """A file."""
    return "plain"


@server.prompt()
def poem(topic: str) -> str:
    """A poem about something."""
    return f"A poem about {topic}."


@server.completion(prompt="poem", argument="topic")
def topics(value: str) -> list[str]:
    """What a poem can be about."""
    return [f"{value}{number}" for number in range(150)]


def ask(words: list[str], seconds: float = 60, *, answers: bool = False) -> None:
    """List what there is, and call a tool."""
    limits: dict[str, Any] = {"timeout": seconds, "connect_timeout": seconds}
    if answers:
        limits["elicit"] = lambda message, schema: {"seat": "aisle"}
    with Client(words[0] if words[0].startswith("http") else words, **limits) as client:
        tools = client.list_tools()
        if tools:
            client.call_tool(tools[-1]["name"], {})


if __name__ == "__main__":
    if sys.argv[1] != "serve":
        ask(sys.argv[2:], 3 if sys.argv[1] == "hurry" else 60, answers=sys.argv[1] != "ask")
    else:
        server.run()
