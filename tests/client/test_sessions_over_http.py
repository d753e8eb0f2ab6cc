"""basic/transports#session-management, the client's side: a session that the server has ended; what is secret."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mcp_ref import Client, RemoteProtocolError, RequestTimeout, Server, TransportClosed
from mcp_ref.errors import SessionExpired
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.revisions import SESSION_REVISIONS
from tests.pages.basic.transports.streamable_http.scripted import STREAM_HEAD, ScriptedServer, content, status, then
from tests.support.wire import PATIENCE, Background


def opening(session_id: str | None, version: str = "2025-11-25", **capabilities: Any) -> bytes:
    """An answer to `initialize`."""
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}}
    headers = [] if session_id is None else [f"Mcp-Session-Id: {session_id}"]
    return content({"jsonrpc": "2.0", "id": 1, "result": result}, *headers)


def test_the_next_session_is_opened_without_an_id() -> None:
    pong = {"jsonrpc": "2.0", "id": 2, "result": {}}
    answers = [opening("a"), status(202), status(404), opening("b"), status(202), content(pong)]
    with ScriptedServer(post=answers) as server:
        with Client(server.url, revision=SESSION_REVISIONS) as client:
            client.ping()
        posts = [asked for asked in (server.request() for _ in range(9)) if asked.method == "POST"]
    assert [(asked.json()["method"], asked.headers.get("mcp-session-id")) for asked in posts] == [
        ("initialize", None),
        ("notifications/initialized", "a"),
        ("ping", "a"),
        ("initialize", None),
        ("notifications/initialized", "b"),
        ("ping", "b"),
    ]
    assert {asked.headers.get("mcp-protocol-version") for asked in posts if asked.json()["method"] == "initialize"} == {
        None
    }


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
        asked = [each for each in (server.request() for _ in range(server.asked.qsize())) if each.method == "POST"]
    assert [each.json().get("method") for each in asked] == [
        "initialize", "notifications/initialized", "tools/call", None,
    ]  # fmt: skip


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
        posts = [asked for asked in (server.request() for _ in range(6)) if asked.method == "POST"]
    assert [asked.headers.get("mcp-session-id") for asked in posts] == [None, "a", "a", "a"]
    assert {asked.headers.get("mcp-protocol-version") for asked in posts} == {None}
    assert caplog.text.count("speaks 2024-11-05 over Streamable HTTP") == 1


def test_2024_11_05_over_streamable_http_is_refused_by_a_client_that_does_not_speak_it() -> None:
    with ScriptedServer(post=[opening(None, "2024-11-05")]) as server:
        client = Client(server.url, revision=["2025-03-26", "2025-11-25"])
        with pytest.raises(RemoteProtocolError, match="speaks '2024-11-05', and this client 2025-03-26, 2025-11-25"):
            client.connect()
        client.close()


def test_the_time_limit_of_a_call_holds_across_a_session_that_is_opened_again() -> None:
    """The server ends the session, and is silent when another is to be opened; nothing bounds the opening itself."""
    with ScriptedServer(post=[opening("a"), status(202), status(404), then(wait=True)]) as server:
        client = Client(server.url, revision="2025-11-25", connect_timeout=None).connect()
        assert isinstance(Background(client.ping, timeout=0.2).outcome(), RequestTimeout)
        client.close()


def test_so_does_that_of_a_call_which_waits_for_another_call_to_open_the_session() -> None:
    answers = [opening("a"), status(202), status(404), then(wait=True), status(404)]
    with ScriptedServer(post=answers) as server:
        client = Client(server.url, revision="2025-11-25", connect_timeout=None).connect()
        patient = Background(client.ping, timeout=None)
        arrived: list[str] = []
        while arrived.count("initialize") < 2:
            asked = server.request()
            arrived += [asked.json()["method"]] if asked.method == "POST" else []
        hurried = Background(client.ping, timeout=0.2)
        assert isinstance(hurried.outcome(), RequestTimeout)
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
