"""A server as a WSGI application, for the tests of such servers: `gunicorn tests.features.mounted:application`."""

from __future__ import annotations

import json
import os
import threading

from mcp_ref import Context, RedisBus, Server, StateKeys

keys = StateKeys.from_env("MOUNTED_KEYS") if "MOUNTED_KEYS" in os.environ else None
bus = RedisBus(os.environ["MOUNTED_BUS"]) if "MOUNTED_BUS" in os.environ else None
server = Server("mounted", state_keys=keys, bus=bus)
never = threading.Event()
given_up: list[str] = []
"""What calls that were cancelled have left."""


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def process() -> int:
    """Which process answers."""
    return os.getpid()


@server.tool()
def book(city: str, ctx: Context) -> str:
    """Ask, and answer."""
    answer = ctx.elicit("Where?", {"seat": {"type": "string"}})
    return f"{city}: {answer['content']['seat']}"


@server.tool()
def wait(name: str, ctx: Context) -> str:
    """Report progress until it is given up; with the name "quietly" nothing is reported."""
    for number in range(1_000):
        if name != "quietly":
            ctx.progress(number)
        never.wait(0.05)
        if ctx.cancelled:
            given_up.append(name)
            return "given up"
    return "not given up"


@server.tool()
def last_given_up() -> list[str]:
    """What calls that were cancelled have left."""
    return given_up


@server.tool()
def poll(ctx: Context) -> str:
    """Close the stream, and answer on another one."""
    ctx.close_stream(retry=10)
    return "polled"


@server.resource("note://1")
def note() -> str:
    """A note."""
    return "a note"


@server.tool()
def change() -> str:
    """Announce that the note has changed, and the list of tools."""
    server.resource_updated("note://1")
    server.tool("added", replace=True)(lambda: "added")
    return "changed"


application = server.wsgi(**json.loads(os.environ.get("MOUNTED_OPTIONS", "{}")))
