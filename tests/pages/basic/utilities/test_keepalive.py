"""basic/utilities/ping#usage-patterns: pings at an interval, and what silence means."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import Server, TransportClosed
from mcp_ref.connection import keep_alive as page
from mcp_ref.errors import ErrorResponse, RemoteProtocolError
from mcp_ref.kit.threads.deadline import Deadline
from tests.support.wire import CLIENT_INFO, PATIENCE, Background, opened, to_client, to_server


def pinging() -> bool:
    return "mcp-ping" in [thread.name for thread in threading.enumerate()]


def test_no_ping_is_sent_where_none_was_asked_for() -> None:
    with opened(Server("s"), "2025-11-25") as wire, to_client():
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent() and not pinging()


def test_no_ping_before_the_session_is_open() -> None:
    with to_server(Server("s", ping_interval=0.001)) as wire:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT_INFO}
        assert "result" in wire.request(1, "initialize", params)
        assert wire.request(2, "ping") == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert wire.silent()
        wire.notify("notifications/initialized")
        assert wire.receive()["method"] == "ping"


def test_pings_come_at_the_interval_given_and_any_answer_shows_that_the_peer_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []
    answers = iter([None, ErrorResponse(-32601, "what?"), RemoteProtocolError("a result is an object"), None])

    class Event:
        """Intervals pass at once, until all pings are answered."""

        def wait(self, seconds: float) -> bool:
            done.append(seconds)
            return len(done) > 8

        def is_set(self) -> bool:
            return False

    class Asked:
        def request(self, method: str, params: Any, options: Any) -> None:
            done.append((method, options, threading.current_thread().name))
            if answer := next(answers):
                raise answer

    threads = SimpleNamespace(Event=Event, Thread=threading.Thread, current_thread=threading.current_thread)
    monkeypatch.setattr(page, "threading", threads)
    keep_alive = page.KeepAlive(Asked(), 7.5)  # type: ignore[arg-type]
    keep_alive.start()
    keep_alive.join(Deadline(PATIENCE))
    # The thread that waits out the interval asks, too: two pings are never under way at once.
    ping = ("ping", {"timeout": 7.5}, "mcp-ping")
    assert done == [7.5, *[ping, 7.5] * 4]


def test_a_ping_without_an_answer_counts_as_a_lost_connection(caplog: pytest.LogCaptureFixture) -> None:
    with to_client(ping_interval=0.05) as (client, _):
        problem = Background(client.request, "x/y").outcome()
        assert isinstance(problem, TransportClosed)
        assert "no answer to a ping within 0.05 s" in str(problem)
        with pytest.raises(TransportClosed):
            client.ping()
    assert [each.levelname for each in caplog.records if "no answer to a ping" in each.message] == ["WARNING"]
    server = Server("s", ping_interval=0.05)
    with opened(server, "2025-11-25"):
        (session,) = server.sessions
        assert session.wait(PATIENCE)


@pytest.mark.parametrize("interval", [30, 0.2], ids=["between two pings", "while one is in flight"])
def test_the_thread_ends_with_the_conversation(interval: float) -> None:
    with to_client(ping_interval=interval) as (client, wire):
        assert pinging() if interval == 30 else wire.receive()["method"] == "ping"
        client.close(PATIENCE)
        assert not pinging()
        assert isinstance(wire.receive(), ConnectionError)
