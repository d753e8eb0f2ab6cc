"""basic/transports#session-management: ids, identities, caps, idle sessions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mcp_ref.basic.transports.streamable_http.exchange import ServerEnd
from mcp_ref.basic.transports.streamable_http.sessions import HttpSession, HttpSessions
from mcp_ref.machinery.http_server import HttpRefusal

PATIENCE = 5.0


class Talk:
    """A conversation that is only opened and closed."""

    peer: Any = None
    opened = True

    def __init__(self, transport: ServerEnd) -> None:
        self.closed = 0

    def close(self, timeout: float = 5, drain: float = 0) -> list[str]:
        self.closed += 1
        return []


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make(**options: Any) -> tuple[HttpSessions, Clock]:
    clock = Clock()
    chosen: dict[str, Any] = {"idle": 60, "most": 100, "most_per_client": 100, **options}
    return HttpSessions(chosen.pop("connect", Talk), clock=clock, **chosen), clock


def open_one(sessions: HttpSessions, client: str = "a", identity: Any = None) -> HttpSession:
    session = sessions.open(ServerEnd(), identity, client)
    sessions.put_back(session)
    return session


def status_of(act: Any, *arguments: Any) -> int:
    with pytest.raises(HttpRefusal) as refused:
        act(*arguments)
    return refused.value.status


def test_a_session_is_found_by_its_id_alone() -> None:
    sessions, _ = make()
    session = open_one(sessions)
    assert sessions.take(session.id, None) is session
    assert status_of(sessions.take, "other", None) == 404


def test_a_session_is_not_found_by_anybody_else() -> None:
    sessions, _ = make()
    session = open_one(sessions, identity="alice")
    assert status_of(sessions.take, session.id, "mallory") == 404
    assert status_of(sessions.take, session.id, None) == 404
    assert sessions.take(session.id, "alice") is session


def test_there_are_so_many_in_all_and_of_one_client() -> None:
    sessions, _ = make(most=3, most_per_client=2)
    first = open_one(sessions, "a")
    open_one(sessions, "a")
    assert status_of(open_one, sessions, "a") == 429
    open_one(sessions, "b")
    assert status_of(open_one, sessions, "c") == 503
    sessions.end(first)
    open_one(sessions, "a")


def test_the_cap_holds_while_many_open_at_once() -> None:
    entered, leave = threading.Semaphore(0), threading.Event()

    def connect(transport: ServerEnd) -> Talk:
        entered.release()
        assert leave.wait(PATIENCE)
        return Talk(transport)

    sessions, _ = make(connect=connect, most=2)
    threads = [threading.Thread(target=open_one, args=(sessions,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert all(entered.acquire(timeout=PATIENCE) for _ in threads)
    assert status_of(open_one, sessions) == 503
    leave.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(sessions) == 2


def test_a_session_that_cannot_be_begun_counts_for_nothing() -> None:
    def connect(transport: ServerEnd) -> Talk:
        raise RuntimeError("no")

    sessions, _ = make(connect=connect, most=1, most_per_client=1)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            open_one(sessions)
    assert sessions._count == 0 and not sessions._per_client


def test_a_session_that_nobody_uses_ends_and_one_in_use_does_not() -> None:
    sessions, clock = make(idle=60)
    idle, used = open_one(sessions), open_one(sessions)
    sessions.take(used.id, None)
    clock.now = 61
    assert status_of(sessions.take, idle.id, None) == 404
    assert idle.conversation.closed == 1  # type: ignore[attr-defined]
    sessions.put_back(used)
    clock.now = 100
    assert sessions.take(used.id, None) is used


def test_each_use_gives_a_session_its_time_anew() -> None:
    sessions, clock = make(idle=60)
    session = open_one(sessions)
    for clock.now in (50, 100, 150):
        sessions.put_back(sessions.take(session.id, None))


def test_sessions_last_for_ever_where_that_is_wanted() -> None:
    sessions, clock = make(idle=None)
    session = open_one(sessions)
    clock.now = 1e9
    assert sessions.take(session.id, None) is session


def test_a_session_ends_once() -> None:
    sessions, _ = make()
    session = open_one(sessions)
    for _ in range(2):
        sessions.end(session)
    assert session.conversation.closed == 1  # type: ignore[attr-defined]
    assert sessions._count == 0 and not sessions._per_client


def test_after_the_close_there_are_none_and_none_is_opened() -> None:
    sessions, _ = make()
    session = open_one(sessions)
    sessions.close(1)
    sessions.close(1)
    assert session.conversation.closed == 1  # type: ignore[attr-defined]
    assert status_of(open_one, sessions) == 503
    assert len(sessions) == sessions._count == 0
