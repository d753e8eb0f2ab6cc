"""What a trace shows, by every way: each message once, in the order of the wire."""

from __future__ import annotations

from typing import Any

from mcp_ref import Context, Server
from mcp_ref.client.sampling import reply
from tests.features.conftest import Connect


def test_a_client_shows_its_traffic_by_every_transport_alike(connect: Connect) -> None:
    server, events = Server("s"), list[Any]()

    @server.tool()
    def ask(ctx: Context) -> str:
        ctx.progress(1)
        return str(ctx.sample("hello", max_tokens=1)["model"])

    client = connect(server, trace=events.append, sample=lambda params: reply("hello", model="m"))
    client.call_tool("ask", on_progress=lambda *report: None)
    client.close()
    connect.close()
    assert {(event.transport, event.peer) for event in events} == {(connect.transport, "server")}
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    shown = [(event.direction, said(event.message)) for event in events if event.message is not None]
    assert shown == (STATELESS if connect.alone else SESSION)


SESSION = [
    ("send", "initialize"),
    ("receive", "result"),
    ("send", "notifications/initialized"),
    ("send", "tools/call"),
    ("receive", "notifications/progress"),
    ("receive", "sampling/createMessage"),
    ("send", "result"),
    ("receive", "result"),
]

STATELESS = [
    ("send", "server/discover"),
    ("receive", "complete"),
    *[("send", "tools/call"), ("receive", "notifications/progress"), ("receive", "input_required")],
    *[("send", "tools/call"), ("receive", "notifications/progress"), ("receive", "complete")],
]
"""The question is a result, and its answer another call, for which the handler runs again."""


def said(message: Any) -> str:
    """The method, or which kind of answer."""
    if "method" in message:
        return str(message["method"])
    return "error" if "error" in message else str(message["result"].get("resultType", "result"))
