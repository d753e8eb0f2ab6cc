"""basic/transports#session-management, the client's side: a session that the server has ended; what is secret."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mcp_ref import Client, RequestTimeout, Server, TransportClosed
from mcp_ref.errors import SessionExpired
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.revisions import SESSION_REVISIONS
from tests.pages.basic.transports.streamable_http.scripted import (
    STREAM_HEAD,
    Asked,
    ScriptedServer,
    content,
    status,
    then,
)
from tests.support.wire import PATIENCE, Background


def opening(session_id: str | None, version: str = "2025-11-25", **capabilities: Any) -> bytes:
    """An answer to `initialize`."""
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}}
    headers = [] if session_id is None else [f"Mcp-Session-Id: {session_id}"]
    return content({"jsonrpc": "2.0", "id": 1, "result": result}, *headers)


def posts(server: ScriptedServer, number: int) -> list[Asked]:
    """So many requests, apart from the GET of a standing stream."""
    found: list[Asked] = []
    while len(found) < number:
        asked = server.request()
        found += [asked] if asked.method == "POST" else []
    return found


def test_the_next_session_is_opened_without_an_id() -> None:
    pong = {"jsonrpc": "2.0", "id": 2, "result": {}}
    answers = [opening("a"), status(202), status(404), opening("b"), status(202), content(pong)]
    with ScriptedServer(post=answers) as server:
        with Client(server.url, revision=SESSION_REVISIONS) as client:
            client.ping()
        asked = posts(server, 6)
    assert [each.json()["method"] for each in asked] == ["initialize", "notifications/initialized", "ping"] * 2
    assert [each.headers.get("mcp-session-id") for each in asked] == [None, "a", "a", None, "b", "b"]
    assert [asked[number].headers.get("mcp-protocol-version") for number in (0, 3)] == [None, None]


def test_an_answer_that_is_refused_with_404_ends_the_call_at_once_and_it_is_not_sent_again() -> None:
    """Another process has the session: the question came from one that does not know it."""
    question = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}

    def ask(wire: Any, asked: Any) -> None:
        wire.send(STREAM_HEAD, b"%x\r\n%b\r\n" % (len(text), text))
        wire.until_gone()

    text = b"data: " + json.dumps(question).encode() + b"\n\n"
    with ScriptedServer(post=[opening("a", tools={}), status(202), ask, status(404)]) as server:
        with Client(server.url, revision="2025-11-25", roots=["/tmp"]) as client:
            called = Background(client.call_tool, "t", {})
            lost = called.outcome()
            assert isinstance(lost, SessionExpired) and lost.sent
            assert "404" in str(lost) and "several processes" in str(lost)
        asked = [each.json().get("method") for each in posts(server, 4)]
        assert asked == ["initialize", "notifications/initialized", "tools/call", None]
        assert "POST" not in [server.request().method for _ in range(server.asked.qsize())]


def test_2024_11_05_over_streamable_http_is_spoken_without_anything_younger(caplog: pytest.LogCaptureFixture) -> None:
    """So answer gateways in front of a server of that time, and other clients accept it."""
    caplog.set_level(logging.INFO)
    first = opening("a", "2024-11-05", tools={})
    listed = content({"jsonrpc": "2.0", "id": 2, "result": {"tools": []}})
    with ScriptedServer(post=[first, status(202), listed, status(202)]) as server:
        with Client(server.url, revision=SESSION_REVISIONS, roots=["/tmp"]) as client:
            assert client.revision.name == "2024-11-05"
            assert client.list_tools() == []
            client.roots_changed()
        asked = posts(server, 4)
    assert [each.headers.get("mcp-session-id") for each in asked] == [None, "a", "a", "a"]
    assert {each.headers.get("mcp-protocol-version") for each in asked} == {None}
    assert caplog.text.count("speaks 2024-11-05 over Streamable HTTP") == 1


SILENT_AT_THE_SECOND = [opening("a"), status(202), status(404), then(wait=True), status(404)]
"""The server ends the session, and is silent when another is to be opened."""


def test_the_time_limit_of_a_call_holds_across_a_session_that_is_opened_again() -> None:
    with ScriptedServer(post=SILENT_AT_THE_SECOND) as server:
        # Nothing bounds the opening itself.
        client = Client(server.url, revision="2025-11-25", connect_timeout=None).connect()
        assert isinstance(Background(client.ping, timeout=0.2).outcome(), RequestTimeout)
        client.close()


def test_so_does_that_of_a_call_which_waits_for_another_call_to_open_the_session() -> None:
    with ScriptedServer(post=SILENT_AT_THE_SECOND) as server:
        client = Client(server.url, revision="2025-11-25", connect_timeout=None).connect()
        patient = Background(client.ping, timeout=None)
        assert posts(server, 4)[-1].json()["method"] == "initialize"
        assert isinstance(Background(client.ping, timeout=0.2).outcome(), RequestTimeout)
        client.close()
        assert isinstance(patient.outcome(), TransportClosed)


def test_the_session_id_stands_in_no_log_and_in_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server("s")
    with server.serve_http() as service, Client(service.url, revision=SESSION_REVISIONS) as client:
        transport: Any = client.session.transport
        session_id = transport.session_id
        client.ping()
        server.sessions[0].close(PATIENCE)
        with pytest.raises(SessionExpired) as expired:
            transport.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, Deadline(PATIENCE))
    assert session_id and caplog.text
    assert session_id not in caplog.text + str(expired.value)
