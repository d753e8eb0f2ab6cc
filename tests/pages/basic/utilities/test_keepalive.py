"""basic/utilities/ping#usage-patterns: pings at an interval, and what silence means."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import Server, TransportClosed
from mcp_ref.connection import keep_alive as page
from mcp_ref.kit.threads.deadline import Deadline
from tests.support.wire import CLIENT_INFO, PATIENCE, Background, opened, to_client, to_server


def test_no_ping_is_sent_where_none_was_asked_for() -> None:
    with opened(Server("s"), "2025-11-25") as wire:
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()
        assert not [thread for thread in threading.enumerate() if thread.name == "mcp-ping"]
    with to_client():
        assert not [thread for thread in threading.enumerate() if thread.name == "mcp-ping"]


def test_no_ping_before_the_session_is_open() -> None:
    with to_server(Server("s", ping_interval=0.001)) as wire:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT_INFO}
        assert "result" in wire.request(1, "initialize", params)
        assert wire.request(2, "ping") == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert wire.silent()
        wire.notify("notifications/initialized")
        assert wire.receive()["method"] == "ping"


@pytest.mark.parametrize(
    "answer", [{"error": {"code": -32601, "message": "what?"}}, {"result": []}, {"result": {"more": 1}}]
)
def test_any_answer_shows_that_the_peer_is_there(answer: object) -> None:
    with to_client(ping_interval=0.2) as (_, wire):
        for _ in range(2):
            ping = wire.receive()
            assert ping["method"] == "ping"
            wire.send({"jsonrpc": "2.0", "id": ping["id"], **answer})  # type: ignore[dict-item]


def test_a_ping_without_an_answer_counts_as_a_lost_connection(caplog: pytest.LogCaptureFixture) -> None:
    with to_client(ping_interval=0.05) as (client, wire):
        call = Background(client.request, "x/y")
        problem = call.outcome()
        assert isinstance(problem, TransportClosed)
        assert "no answer to a ping within 0.05 s" in str(problem)
        with pytest.raises(TransportClosed):
            client.ping()
        wire.receive()
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and "ping" in r.getMessage()]


def test_a_server_gives_a_silent_client_up() -> None:
    server = Server("s", ping_interval=0.05)
    with opened(server, "2025-11-25"):
        (session,) = server.sessions
        assert session.wait(PATIENCE)


def test_the_thread_ends_with_the_conversation_while_a_ping_is_in_flight() -> None:
    with to_client(ping_interval=30) as (client, _):
        client.close(PATIENCE)
        assert not [thread for thread in threading.enumerate() if thread.name == "mcp-ping"]
    with to_client(ping_interval=0.2) as (client, wire):
        assert wire.receive()["method"] == "ping"
        client.close(PATIENCE)
        assert not [thread for thread in threading.enumerate() if thread.name == "mcp-ping"]
        assert isinstance(wire.receive(), ConnectionError)


def test_pings_come_at_the_interval_given_and_have_as_long_to_be_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []

    class Event:
        """Three intervals pass at once."""

        def wait(self, seconds: float) -> bool:
            done.append(seconds)
            return len(done) > 4

        def is_set(self) -> bool:
            return False

    class Asked:
        def request(self, method: str, params: Any, options: Any) -> None:
            done.append((method, options, threading.current_thread().name))

    threads = SimpleNamespace(Event=Event, Thread=threading.Thread, current_thread=threading.current_thread)
    monkeypatch.setattr(page, "threading", threads)
    keep_alive = page.KeepAlive(Asked(), 7.5)  # type: ignore[arg-type]
    keep_alive.start()
    keep_alive.join(Deadline(PATIENCE))
    # The thread that waits out the interval asks, too: two pings are never under way at once.
    ping = ("ping", {"timeout": 7.5}, "mcp-ping")
    assert done == [7.5, ping, 7.5, ping, 7.5]
