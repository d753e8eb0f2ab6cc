"""What becomes of a session over HTTP with the official SDKs: its end, a server that forgets it, broken connections.

What is said while all goes well is in test_conversations, and what becomes of requests without a session is there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any

import pytest

from mcp_ref import Recorder, TransportClosed
from mcp_ref.lab.judge.relay import HttpProxy
from mcp_ref.recording.record import TraceEvent
from tests.interop import programs
from tests.interop.programs import NEW_SDK, OLD_SDK, OURS, TYPESCRIPT, Pair, Served
from tests.interop.talk import WAIT, Drivers, Ours, Theirs
from tests.support.relay import Relay

PEERS = [NEW_SDK, TYPESCRIPT]
REVISIONS = ["2025-03-26", "2025-11-25"]
NEWEST = REVISIONS[-1]
CHANGED = [f"notifications/{page}/list_changed" for page in ("tools", "resources", "prompts")]


def served(peer: str, way: str, port: int = 0) -> Served:
    return Served(programs.their_server(peer, way, port))


def changes(talk: Ours) -> list[str]:
    return [talk.changes.get(timeout=WAIT).method for _ in CHANGED]


# -- the end of a session


@pytest.mark.parametrize("peer", PEERS)
def test_the_end_of_a_session_is_told_to_the_server(peer: str) -> None:
    with served(peer, "http") as server:
        with Ours(server.url, [NEWEST]) as talk:
            assert talk.say("add", {"a": 1, "b": 2}) == "3"
        assert " 200" in server.until("DELETE")


@pytest.mark.parametrize("peer", PEERS)
def test_the_end_of_a_session_is_told_to_our_server(peer: str, drivers: Drivers) -> None:
    seen: list[TraceEvent] = []
    with programs.serving(Pair(peer, OURS, "http")) as target, Recorder(seen.append) as recorder:
        with HttpProxy(target[0], [recorder], lambda text: None) as proxy:
            with Theirs(drivers.of(peer), [proxy.url]) as talk:
                assert talk.say("add", {"a": 1, "b": 2}) == "3"
    ended = [event.http for event in seen if (event.http or {}).get("method") == "DELETE"]
    assert [each.get("status") for each in ended if each] == [None, 200]


@pytest.mark.parametrize("peer", [NEW_SDK, OLD_SDK])
def test_the_end_of_the_event_stream_of_2024_11_05_ends_the_session(peer: str) -> None:
    with served(peer, "sse") as server, Ours(server.url) as talk:
        assert talk.say("add", {"a": 1, "b": 2}) == "3"
        server.stop()
        with pytest.raises(TransportClosed):
            talk.client.call_tool("add", {"a": 1, "b": 2})


# -- a server that has forgotten the session


@pytest.mark.parametrize("peer", PEERS)
def test_a_server_that_was_started_again_gets_a_new_session(peer: str) -> None:
    reopened: Queue[None] = Queue()
    with served(peer, "http") as server:
        with Ours(server.url, [NEWEST], on_reopen=lambda: reopened.put(None)) as talk:
            assert talk.say("grow") == "grown"
            assert changes(talk) == CHANGED
            server.stop()
            with pytest.raises(TransportClosed):
                talk.client.ping()
            with served(peer, "http", server.port):
                assert talk.say("add", {"a": 1, "b": 2}) == "3"
                reopened.get(timeout=WAIT)
                # Its standing stream is open too.
                assert talk.say("grow") == "grown"
                assert changes(talk) == CHANGED
                assert talk.tell("sample")["model"] == "small-1"
            assert reopened.empty()


# -- connections that break


@pytest.fixture(params=PEERS)
def resumable(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param, "resumable") as server:
        yield server


def paused(talk: Ours, interrupt: Any, **arguments: Any) -> list[Any]:
    """Call a tool that waits, interrupt it after its first progress, let it go on: its progress, and what it says."""
    seen: Queue[Any] = Queue()
    with ThreadPoolExecutor(1) as threads:
        said = threads.submit(talk.say, "pause", arguments, on_progress=lambda *step: seen.put(step[0]))
        first = seen.get(timeout=WAIT)
        interrupt()
        assert talk.say("go_on") == "go on"
        return [first, seen.get(timeout=WAIT), said.result(WAIT)]


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_answer_is_fetched_over_another_connection_when_one_breaks(resumable: Served, revision: str) -> None:
    with Relay(resumable.url) as proxy, Ours(proxy.url, [revision]) as talk:
        assert paused(talk, proxy.cut) == [1, 2, "went on"]


def test_an_answer_is_fetched_when_the_server_has_closed_the_stream(resumable: Served) -> None:
    with Ours(resumable.url, [NEWEST]) as talk:
        assert paused(talk, lambda: None, hang_up=True) == [1, 2, "went on"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_the_standing_stream_missed_is_told_later(resumable: Served, revision: str) -> None:
    with Relay(resumable.url) as proxy, Ours(proxy.url, [revision]) as talk:
        assert talk.say("grow") == "grown"
        assert changes(talk) == CHANGED
        proxy.cut()
        assert talk.say("grow") == "shrunk"
        assert changes(talk) == CHANGED
