"""basic/transports#resumability-and-redelivery: streams that outlive connections, and the store of their events."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref.pages.basic.transports.streamable_http.streams import (
    EVENT_COST,
    EventStream,
    HttpSession,
    MemoryEventStore,
    numbers_of,
)
from tests.pages.basic.transports.streamable_http.replies import PATIENCE, ListReply


def in_thread(target: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def never() -> bool:
    return False


def nothing() -> None:
    pass


class StuckReply(ListReply):
    """A client that does not read: a write ends when the connection is aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.aborted = threading.Event(), threading.Event()

    def write(self, data: bytes) -> None:
        self.writing.set()
        assert self.aborted.wait(PATIENCE)
        raise BrokenPipeError("aborted")

    def abort(self) -> None:
        self.aborted.set()


@pytest.fixture
def stream() -> EventStream:
    return EventStream("s1", MemoryEventStore())


# -- connections --------------------------------------------------------------------------------------------------


def test_another_connection_takes_over_and_ends_the_former(stream: EventStream) -> None:
    first, second = ListReply(), ListReply()
    stream.attach(first, prime=True)
    held = in_thread(lambda: stream.hold(first, PATIENCE, never, nothing, lambda: float("inf")))
    stream.attach(second, 1)
    held.join(PATIENCE)
    assert not held.is_alive()
    stream.write(b"1")
    assert first.ended and not first.messages
    assert second.messages == [1]


def test_an_end_can_break_the_connection_off(stream: EventStream) -> None:
    reply = ListReply()
    stream.attach(reply)
    stream.end(hang_up=True)
    stream.end()
    # Broken off, not ended: a client whose reply has ended takes the connection for free.
    assert reply.broken and not reply.ended and stream.reply is None


# -- holding ------------------------------------------------------------------------------------------------------


def test_a_connection_whose_time_is_up_does_not_end_the_one_that_took_over(stream: EventStream) -> None:
    first, second = ListReply(), ListReply()
    stream.attach(first, prime=True)
    looked = threading.Semaphore(0)
    expires = [float("inf")]

    def until() -> float:
        looked.release()
        return expires[0]

    held = in_thread(lambda: stream.hold(first, PATIENCE, never, nothing, until))
    assert looked.acquire(timeout=PATIENCE)
    expires[0] = 0.0
    # Wakes the thread that held the first one, whose token ends just now.
    stream.attach(second, 1)
    held.join(PATIENCE)
    assert not held.is_alive()
    assert stream.write(b"1") and second.messages == [1] and not second.hung_up


# -- clients that do not read -------------------------------------------------------------------------------------


def test_an_end_does_not_wait_for_a_client_that_does_not_read(stream: EventStream) -> None:
    stuck = StuckReply()
    stream.attach(stuck)
    writing = in_thread(lambda: stream.write(b"1"))
    assert stuck.writing.wait(PATIENCE)
    stream.end(patience=0.01)
    writing.join(PATIENCE)
    assert stuck.aborted.is_set() and not writing.is_alive()


def test_each_connection_that_does_not_read_is_given_up_not_only_the_first(
    stream: EventStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_ref.pages.basic.transports.streamable_http.streams.UNREAD_TIMEOUT", 0.01)
    ending = threading.Event()

    class SlowToEnd(ListReply):
        def end(self, patience: float | None = None) -> None:
            ending.set()
            # By then somebody else has looked for whom to give up, and found nobody.
            assert not stuck.writing.wait(0.1)

    former, stuck = SlowToEnd(), StuckReply()
    stream.attach(former)
    stream.write(b"1")
    resumed = in_thread(lambda: stream.attach(stuck, 0))
    assert ending.wait(PATIENCE)
    stream.end(patience=0.01)
    resumed.join(PATIENCE)
    assert stuck.aborted.is_set() and not resumed.is_alive()


# -- one writer ---------------------------------------------------------------------------------------------------


def test_what_waits_is_written_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    session = HttpSession(None)
    first, second = ListReply(), ListReply()
    for reply in (first, second):
        session.new_stream(standing=True).attach(reply)
    writing, go_on, order = threading.Event(), threading.Event(), list[str]()
    others: list[threading.Thread] = []

    def slow() -> None:
        writing.set()
        assert go_on.wait(PATIENCE)
        order.append("earlier")

    class Interrupting:
        """The lock of the session: once a thread has found nothing to write, another one begins before it goes on."""

        def __init__(self, lock: Any) -> None:
            self._lock, self._left = lock, 0

        def __enter__(self) -> None:
            self._lock.acquire()

        def __exit__(self, *raised: object) -> None:
            self._lock.release()
            if threading.current_thread() is threading.main_thread():
                self._left += 1
                if self._left == 1:
                    others.append(in_thread(late))
                    assert writing.wait(PATIENCE)

    def late() -> None:
        session.run_soon(slow)
        session.write_waiting()

    monkeypatch.setattr(session, "_lock", Interrupting(session._lock))
    session.write_waiting()
    # A third one leaves the writing to the second.
    session.run_soon(lambda: order.append("later"))
    session.write_waiting()
    go_on.set()
    others[0].join(PATIENCE)
    assert order == ["earlier", "later"]


# -- the store ----------------------------------------------------------------------------------------------------


def events(count: int, text: str) -> int:
    """The size of a store that keeps so many events of that text."""
    return count * (sys.getsizeof(text) + EVENT_COST)


def test_the_store_stays_bounded_whatever_the_number_of_streams() -> None:
    store = MemoryEventStore(events(10, "x" * 10))
    for number in range(1000):
        store.append(f"s{number}", 1, "x" * 10)
    assert len(store._events) == len(store._last) == 10


def test_a_stream_that_nobody_will_ask_for_leaves_nothing_in_the_store() -> None:
    store = MemoryEventStore(events(5, "xx"))
    for number in range(1, 5):
        store.append("a", number, "xx")
        store.append("b", number, "xx")
    store.forget("a")
    store.forget("a")
    assert store.after("a", 3) is None
    assert store.after("b", 2) == [(3, "xx"), (4, "xx")]
    store.forget("b")
    assert (store._size, len(store._events), len(store._last)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("s1-2", ("s1", 2)),
        ("a-b-3", ("a-b", 3)),
        ("s1", None),
        ("-2", None),
        ("s1-", None),
        ("s1-x", None),
        ("s1-²", None),
    ],
)
def test_an_event_id_names_a_stream_and_a_number(text: str, numbers: tuple[str, int] | None) -> None:
    assert numbers_of(text) == numbers
