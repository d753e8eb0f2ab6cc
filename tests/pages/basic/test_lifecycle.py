# ruff: noqa: E501  (a transcript has one message on a line)
"""basic/lifecycle: the table, negotiation, and the opening conversation of each revision."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, LocalProtocolError, RemoteProtocolError, RequestTimeout, Server
from mcp_ref.errors import InvalidRequest
from mcp_ref.pages.basic.lifecycle import TRANSITIONS, Lifecycle, negotiate, offered_instead
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, find_revision
from tests.support.wire import CLIENT_INFO, SERVER_INFO, connecting, opened, play, to_client, to_server

NAMES = [row.name for row in SESSION_REVISIONS]
STATES = {"client": ("new", "asked", "agreed", "open"), "server": ("new", "answered", "open")}
METHOD_OF = {
    "initialize": ("initialize", True),
    "initialized": ("notifications/initialized", False),
    "ping": ("ping", True),
    "request": ("tools/list", True),
    "notification": ("notifications/message", False),
}
EVENTS = [f"{way} {what}" for way in ("send", "receive") for what in METHOD_OF] + ["agreed", "refused"]


@pytest.mark.parametrize(("role", "state"), [(role, state) for role, states in STATES.items() for state in states])
def test_the_table_alone_says_what_may_be_sent_and_received(role: Any, state: Any) -> None:
    rows = {event: target for (of, before, event), target in TRANSITIONS.items() if (of, before) == (role, state)}
    assert rows.keys() <= set(EVENTS) and {*rows.values()} <= set(STATES[role])
    for event in EVENTS:
        lifecycle = Lifecycle(role)
        lifecycle.state = state
        if event in ("agreed", "refused"):
            assert lifecycle.step(event) is (event in rows)
        else:
            way, what = event.split()
            method, is_request = METHOD_OF[what]
            refused = pytest.raises(LocalProtocolError if way == "send" else InvalidRequest)
            with nullcontext() if event in rows else refused:
                getattr(lifecycle, way)(method, is_request=is_request)
        assert lifecycle.state == rows.get(event, state)


@pytest.mark.parametrize("name", ["1999-01-01", "2026-07-28", "", "draft"])
def test_the_server_answers_with_its_latest_version_otherwise(name: str) -> None:
    assert negotiate(name, SESSION_REVISIONS).name == "2025-11-25"
    assert negotiate(name, SESSION_REVISIONS[:2]).name == "2025-03-26"


def test_the_offer_in_an_error_is_read() -> None:
    offer = {"supported": ["2024-11-05", "2025-03-26", "1999-01-01"], "requested": "2025-11-25"}
    assert offered_instead(offer, SESSION_REVISIONS) is find_revision("2025-03-26")
    for nothing in (None, {}, {"supported": "2024-11-05"}, {"supported": []}, {"supported": [1, None]}):
        assert offered_instead(nothing, SESSION_REVISIONS) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_session_opens_in_every_revision(name: str) -> None:
    server = Server("s", "2", instructions="be kind")
    with Client(server, revision=name) as client:
        assert client.revision.name == name
        assert client.server_info == {"name": "s", "version": "2"}
        assert client.instructions == "be kind"
        assert client.server_capabilities == {"logging": {}}
        client.ping()


@pytest.mark.parametrize("name", NAMES)
def test_the_client_says_that_it_is_initialized_once_it_was_answered(name: str) -> None:
    with connecting(revision=name) as (client, wire, opening):
        asked = wire.receive()
        assert asked["method"] == "initialize" and wire.silent()
        wire.answer(asked["id"], {"protocolVersion": name, "capabilities": {}, "serverInfo": SERVER_INFO})
        assert wire.receive() == {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert opening.outcome() is client and wire.silent()


def test_a_client_disconnects_from_a_server_of_another_revision() -> None:
    client = Client(Server("s", revisions=["2024-11-05"]), revision="2025-11-25")
    with pytest.raises(RemoteProtocolError, match="the server speaks '2024-11-05', and this client 2025-11-25"):
        client.connect()
    with pytest.raises(ConnectionError):
        client.ping()


def test_calls_need_a_connection() -> None:
    with pytest.raises(LocalProtocolError, match="connect"):
        Client(Server("s")).ping()


def test_the_opening_word_for_word() -> None:
    server = Server("demo", "1", info={"title": "Demo", "icons": [{"src": "https://example.com/i.png"}]})
    play(
        server,
        """
        A client opens with the newest revision, and the server agrees.
        C> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
        S< {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"logging":{}},"serverInfo":{"name":"demo","version":"1","title":"Demo","icons":[{"src":"https://example.com/i.png"}]}}}
        C> {"jsonrpc":"2.0","method":"notifications/initialized"}
        C> {"jsonrpc":"2.0","id":"0","method":"ping"}
        S< {"jsonrpc":"2.0","id":"0","result":{}}
        """,
    )


def test_nothing_newer_stands_in_the_opening_of_an_older_revision() -> None:
    info = {"title": "Demo", "icons": [{"src": "https://example.com/i.png"}], "websiteUrl": "https://example.com"}
    server = Server("demo", "1", info=info)
    server.completion(prompt="p", argument="a")(lambda value: [value])
    with opened(server, "2024-11-05") as wire:
        assert wire.opening["serverInfo"] == {"name": "demo", "version": "1"}
        assert "completions" not in wire.opening["capabilities"]
    with opened(server, "2025-06-18") as wire:
        assert wire.opening["serverInfo"] == {"name": "demo", "version": "1", "title": "Demo"}
        assert "completions" in wire.opening["capabilities"]


@pytest.mark.parametrize(
    ("name", "elicitation"), [("2024-11-05", None), ("2025-03-26", None), ("2025-06-18", {}), ("2025-11-25", "both")]
)
def test_initialize_is_shaped_by_the_revision_it_asks_for(name: str, elicitation: Any) -> None:
    with connecting(revision=name, elicit=lambda m, s: {}, open_url=lambda u, m: True) as (_, wire, _):
        params = wire.receive()["params"]
    assert params["protocolVersion"] == name
    expected = {"form": {}, "url": {}} if elicitation == "both" else elicitation
    assert params["capabilities"].get("elicitation") == expected


def test_the_answer_to_initialize_is_of_the_revision_that_it_names() -> None:
    info = {"name": "old", "version": "1", "title": 5}
    answer = {"capabilities": {"tools": {}, "completions": True, "tasks": 1}, "serverInfo": info}
    with connecting(revision=SESSION_REVISIONS) as (client, wire, under_way):
        # Members that the newest revision has, and 2024-11-05 has not, may be anything there.
        wire.answer(wire.receive()["id"], {**answer, "protocolVersion": "2024-11-05"})
        assert under_way.outcome() is client and str(client.revision) == "2024-11-05"
        assert client.server_capabilities == {"tools": {}}
    for named in ("2025-03-26", "2025-06-18", "2025-11-25"):
        with connecting(revision=SESSION_REVISIONS) as (client, wire, under_way):
            wire.answer(wire.receive()["id"], {**answer, "protocolVersion": named})
            assert f"does not fit revision {named}: result.capabilities.completions" in str(under_way.outcome())


def test_initialize_is_never_cancelled_but_the_transport_is_closed() -> None:
    with connecting(revision=SESSION_REVISIONS, connect_timeout=0.3) as (_, wire, opening):
        assert isinstance(opening.outcome(), RequestTimeout)
        assert wire.receive()["method"] == "initialize"
        assert isinstance(wire.receive(), ConnectionError)
        assert wire.silent()


def test_a_request_before_initialize_is_refused_except_ping() -> None:
    play(
        Server("s"),
        """
        C> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
        S< {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid request: tools/list is not allowed while the session is 'new'"}}
        C> {"jsonrpc":"2.0","id":"123","method":"ping"}
        S< {"jsonrpc":"2.0","id":"123","result":{}}
        C> {"jsonrpc":"2.0","id":123,"method":"ping","params":{"_meta":{"x":1}}}
        S< {"jsonrpc":"2.0","id":123,"result":{}}
        """,
    )


OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT_INFO}


def test_a_malformed_initialize_is_invalid_params_naming_the_path_and_may_be_repeated() -> None:
    wrong = {"protocolVersion": 1, "capabilities": [], "clientInfo": {"name": "c"}}
    with to_server(Server("s")) as wire:
        for member, path in (*zip(wrong, wrong, strict=True), ("clientInfo", "clientInfo.version")):
            error = wire.request(member, "initialize", {**OPENING, member: wrong[member]})["error"]
            assert error["code"] == -32602
            assert path in error["data"]["path"]
        assert "protocolVersion" in wire.request(1, "initialize", {})["error"]["data"]["path"]
        assert "result" in wire.request(2, "initialize", OPENING)


def test_requests_that_follow_initialize_at_once_are_answered_after_it() -> None:
    with to_server(Server("s")) as wire:
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENING})
        wire.notify("notifications/initialized")
        wire.send({"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "info"}})
        assert [wire.receive()["id"], wire.receive()["id"]] == [1, 2]


AGREED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": SERVER_INFO}


def test_the_client_reads_an_offer_in_an_error_and_opens_with_it() -> None:
    with connecting(revision=SESSION_REVISIONS) as (client, wire, opening):
        first = wire.receive()
        data = {"supported": ["2024-11-05"], "requested": first["params"]["protocolVersion"]}
        error = {"code": -32602, "message": "Unsupported protocol version", "data": data}
        wire.send({"jsonrpc": "2.0", "id": first["id"], "error": error})
        second = wire.receive()
        assert second["params"]["protocolVersion"] == "2024-11-05"
        wire.answer(second["id"], {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": SERVER_INFO})
        assert wire.receive() == {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert opening.outcome() is client and client.revision.name == "2024-11-05"


def test_an_error_without_an_offer_is_raised_and_the_transport_closed() -> None:
    with connecting(revision=SESSION_REVISIONS) as (_, wire, opening):
        wire.send({"jsonrpc": "2.0", "id": wire.receive()["id"], "error": {"code": -32603, "message": "no"}})
        assert isinstance(opening.outcome(), ErrorResponse)
        assert isinstance(wire.receive(), ConnectionError)


def test_before_initialized_a_client_hears_logs_and_answers_pings_alone() -> None:
    logged: list[Any] = []
    with connecting(revision=SESSION_REVISIONS, roots=[], on_log=logged.append) as (client, wire, opening):
        asked = wire.receive()
        wire.notify("notifications/message", {"level": "info", "data": "warming up"})
        assert wire.request("p", "ping")["result"] == {}
        assert wire.request("r", "roots/list")["error"]["code"] == -32600
        wire.answer(asked["id"], {**AGREED, "capabilities": {"logging": {}}})
        assert opening.outcome() is client
        assert wire.receive()["method"] == "notifications/initialized"
        assert wire.request("s", "roots/list")["result"] == {"roots": []}
    assert logged == [{"level": "info", "data": "warming up"}]


def test_capabilities_are_read_through_the_revision_agreed() -> None:
    """A client that declares `elicitation.url` and agrees on 2025-06-18 has declared form elicitation alone."""
    seen: list[Any] = []
    server = Server("s", revisions=["2025-06-18"])

    @server.tool()
    def look(ctx: Context) -> str:
        seen.append(ctx.peer_capabilities)
        return "seen"

    with Client(server, elicit=lambda m, s: {}, open_url=lambda u, m: True) as client:
        assert client.capabilities == {"elicitation": {}}
        client.call_tool("look")
    assert seen == [{"elicitation": {}}]


def test_capabilities_that_nobody_declared_gate_both_directions() -> None:
    with to_client(capabilities={}) as (client, wire):
        with pytest.raises(LocalProtocolError, match=r"server\.tools"):
            client.list_tools()
        assert wire.request(1, "roots/list")["error"]["code"] == -32601
        assert wire.silent()


@pytest.mark.parametrize(
    ("role", "state", "may_send"),
    [
        ("client", "new", ["initialize"]),
        ("client", "asked", ["ping"]),
        ("server", "answered", ["ping", "notification"]),
    ],
)
def test_before_the_session_is_open_a_client_sends_pings_alone_and_a_server_may_log(
    role: Any, state: Any, may_send: list[str]
) -> None:
    for what, (method, is_request) in (*METHOD_OF.items(), ("own", ("x/own", True))):
        lifecycle = Lifecycle(role)
        lifecycle.state = state
        refused = pytest.raises(LocalProtocolError, match=f"{method} must not be sent while the session is '{state}'")
        with nullcontext() if what in may_send else refused:
            lifecycle.send(method, is_request=is_request)


@pytest.mark.parametrize("name", REVISIONS)
def test_any_revision_can_be_pinned(name: str) -> None:
    server = Server("s", revisions=[name])
    for wanted in (None, name, REVISIONS[name], [name], [*reversed(REVISIONS)]):
        with Client(server, revision=wanted) as client:
            assert client.revision.name == name


@pytest.mark.parametrize("wrong", ["1999-01-01", "", [], ["2025-11-25", "1999-01-01"]])
def test_no_other_revision_can_be_pinned(wrong: Any) -> None:
    with pytest.raises(ValueError, match="2024-11-05, .*, 2026-07-28"):
        Client(["x"], revision=wrong)
    with pytest.raises(ValueError, match="2024-11-05, .*, 2026-07-28"):
        Server("s", revisions=[wrong] if isinstance(wrong, str) else wrong)


def test_what_has_the_name_and_not_the_kind_opens_nothing() -> None:
    with to_server(Server("s", ping_interval=0.001)) as wire:
        wire.notify("initialize", OPENING)
        assert "result" in wire.request(1, "initialize", OPENING)
        assert wire.request(2, "notifications/initialized")["error"]["code"] == -32601
        assert wire.request(3, "ping")["id"] == 3
        assert wire.silent(), "the server does not ping: the session is not open"


def test_a_step_that_changes_nothing_never_undoes_one_that_does() -> None:
    """A handler that logs before `initialized` arrives must not put the state back that it read before."""

    class Racing(Lifecycle):
        writes: list[str] = []

        def __setattr__(self, name: str, value: Any) -> None:
            self.writes.append(value)
            super().__setattr__(name, value)

    lifecycle = Racing("server")
    lifecycle.receive("initialize", is_request=True)
    Racing.writes.clear()
    lifecycle.send("notifications/message", is_request=False)
    assert Racing.writes == []
    lifecycle.receive("notifications/initialized", is_request=False)
    assert Racing.writes == ["open"]
