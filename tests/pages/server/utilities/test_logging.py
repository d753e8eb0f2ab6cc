"""server/utilities/logging, between a Client and a Server, in every revision."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, Context, LocalProtocolError, Server
from mcp_ref.pages.basic.versioning import LOG_LEVEL
from mcp_ref.pages.server.utilities.logging import LEVELS
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from tests.eras import open_client, open_server
from tests.support.wire import PATIENCE, opened

OLDER = [row.name for row in SESSION_REVISIONS]

every_revision = pytest.mark.parametrize("name", REVISIONS)

Logged = SimpleQueue[dict[str, Any]]


@pytest.fixture
def server() -> Server:
    """A server with a tool that logs."""
    server = Server("s")

    @server.tool()
    def say(level: str, data: Any = None, ctx: Context = None) -> str:  # type: ignore[assignment]
        ctx.log(level, data, "say")  # type: ignore[arg-type]
        return "said"

    return server


@every_revision
def test_every_level_is_heard_until_the_client_asks_for_less(server: Server, name: str) -> None:
    logged: Logged = SimpleQueue()
    with Client(server, revision=name, on_log=logged.put) as client:
        assert client.server_capabilities["logging"] == {}
        for level in LEVELS:
            client.call_tool("say", {"level": level, "data": {"of": level}})
        heard = [logged.get(timeout=PATIENCE) for _ in LEVELS]
        assert heard == [{"level": level, "logger": "say", "data": {"of": level}} for level in LEVELS]
        client.set_log_level("error")
        for level in LEVELS:
            client.call_tool("say", {"level": level})
        heard = [logged.get(timeout=PATIENCE) for _ in range(4)]
        assert [each["level"] for each in heard] == ["error", "critical", "alert", "emergency"]
        client.set_log_level("debug")
        client.call_tool("say", {"level": "debug", "data": [None, 1, "a"]})
        assert logged.get(timeout=PATIENCE)["data"] == [None, 1, "a"]
    assert logged.empty()


@pytest.mark.parametrize("name", OLDER)
def test_a_level_that_does_not_exist_is_32602(name: str) -> None:
    with opened(Server("s"), name) as wire:
        for number, params in enumerate(({"level": "warn"}, {"level": 3}, {})):
            error = wire.request(number, "logging/setLevel", params)["error"]
            assert (error["code"], error["data"]) == (-32602, {"path": "params.level"})
    with Client(Server("s"), revision=name) as client, pytest.raises(LocalProtocolError, match="unknown log level"):
        client.set_log_level("warn")  # type: ignore[arg-type]


@every_revision
def test_a_message_travels_before_the_answer_of_the_handler_that_logged_and_to_no_other_client(
    server: Server, name: str
) -> None:
    with open_server(server, name) as wire, opened(server, "2025-11-25") as other:
        wanted = {"_meta": {LOG_LEVEL: "info"}} if name not in OLDER else {}
        call = {"name": "say", "arguments": {"level": "alert", "data": "loud"}, **wanted}
        message = {"level": "alert", "data": "loud", "logger": "say"}
        notified = wire.request(1, "tools/call", call)
        assert notified == {"jsonrpc": "2.0", "method": "notifications/message", "params": message}
        assert wire.receive()["result"]["content"] == [{"type": "text", "text": "said"}]
        assert other.silent()


@every_revision
def test_a_client_ignores_a_malformed_message(name: str) -> None:
    logged: Logged = SimpleQueue()
    with open_client(name, {"logging": {}}, on_log=logged.put) as (_, wire):
        for params in ({"level": "warn", "data": 1}, {"level": "info"}, {"data": 1}, {"level": "info", "data": "good"}):
            wire.notify("notifications/message", params)
        assert logged.get(timeout=PATIENCE) == {"level": "info", "data": "good"}


@pytest.mark.parametrize(("level", "data", "why"), [("warn", 1, "unknown log level"), ("info", {1, 2}, "JSON")])
def test_what_cannot_be_logged_is_the_callers_fault_also_where_nobody_listens(level: Any, data: Any, why: str) -> None:
    server = Server("s")
    with pytest.raises(LocalProtocolError, match=why):
        server.log(level, data)
    with opened(server, "2025-11-25") as wire:
        with pytest.raises(LocalProtocolError, match=why):
            server.log(level, data)
        assert wire.silent()


@every_revision
@pytest.mark.parametrize("wanted", [True, False])
def test_a_handler_that_logs_no_json_hears_it_at_once(server: Server, name: str, wanted: bool) -> None:
    @server.tool()
    def wrong(ctx: Context) -> str:
        with pytest.raises(LocalProtocolError, match="JSON"):
            ctx.log("info", {1, 2})
        return "done"

    with Client(server, revision=name) as client:
        client.set_log_level("info" if wanted else "error")
        assert client.call_tool("wrong")["content"] == [{"type": "text", "text": "done"}]
