"""basic/transports#resumability-and-redelivery: streams that outlive connections, and the store of their events."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref.basic.transports.streamable_http.streams import (
    EVENT_COST,
    EventStream,
    HttpSession,
    MemoryEventStore,
    numbers_of,
)
from tests.basic.transports.streamable_http.replies import PATIENCE, ListReply


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


def test_events_are_numbered_and_name_their_stream(stream: EventStream) -> None:
    reply = ListReply()
    assert stream.attach(reply)
    assert stream.write(b"{}") and stream.write(b"[]", last=True)
    assert [(event.id, event.data) for event in reply.events] == [("s1-1", "{}"), ("s1-2", "[]")]
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert reply.ended and stream.reply is None


def test_without_a_store_events_have_no_ids_and_are_lost_without_a_connection() -> None:
    stream, reply = EventStream("s1", None), ListReply()
    assert not stream.write(b"1")
    stream.attach(reply)
    assert stream.write(b"2")
    assert [(event.id, event.data) for event in reply.events] == [(None, "2")]


def test_what_is_written_without_a_connection_waits(stream: EventStream) -> None:
    first, second = ListReply(), ListReply()
    stream.attach(first)
    stream.write(b"1")
    first.broken = True
    assert stream.write(b"2") and stream.reply is None
    assert stream.write(b"3")
    assert stream.attach(second, 1)
    stream.write(b"4")
    assert [event.data for event in second.events] == ["2", "3", "4"]


def test_another_connection_takes_over_and_ends_the_former(stream: EventStream) -> None:
    first, second = ListReply(), ListReply()
    stream.attach(first, prime=True)
    held = in_thread(lambda: stream.hold(first, PATIENCE, never, nothing))
    stream.attach(second, 1)
    held.join(PATIENCE)
    assert not held.is_alive()
    stream.write(b"1")
    assert first.ended and not first.messages
    assert second.messages == [1]


def test_a_stream_that_has_ended_replays_its_rest_and_ends(stream: EventStream) -> None:
    stream.write(b"1")
    stream.write(b"2", last=True)
    reply = ListReply()
    assert stream.attach(reply, 1)
    assert reply.messages == [2] and reply.ended and stream.reply is None


def test_an_event_that_never_was_cannot_be_resumed_after(stream: EventStream) -> None:
    stream.write(b"1")
    assert not stream.attach(ListReply(), 2)


def test_a_client_that_has_seen_all_can_resume_though_nothing_is_kept() -> None:
    stream, reply = EventStream("s1", MemoryEventStore(size=0)), ListReply()
    stream.write(b"1")
    assert not stream.attach(ListReply(), 0)
    assert stream.attach(reply, 1)
    assert stream.write(b"2") and reply.messages == [2]


def test_a_client_that_is_gone_already_is_attached_to_nothing(stream: EventStream) -> None:
    gone = ListReply()
    gone.broken = True
    assert stream.attach(gone) and stream.reply is None
    stream.hold(gone, PATIENCE, never, nothing)


def test_a_released_stream_says_when_to_come_back_and_goes_on(stream: EventStream) -> None:
    first, second = ListReply(), ListReply()
    stream.attach(first, prime=True)
    stream.release(250)
    assert first.hung_up and first.events[-1].retry == 250
    stream.write(b"1", last=True)
    assert stream.attach(second, 1) and second.messages == [1]
    stream.release(1)


def test_an_end_can_break_the_connection_off(stream: EventStream) -> None:
    reply = ListReply()
    stream.attach(reply)
    stream.end(hang_up=True)
    stream.end()
    # Broken off, not ended: a client whose reply has ended takes the connection for free.
    assert reply.broken and not reply.ended and stream.reply is None


# -- holding ------------------------------------------------------------------------------------------------------


def test_a_quiet_stream_is_kept_alive_with_comments(stream: EventStream) -> None:
    written = threading.Semaphore(0)

    class Counting(ListReply):
        def write(self, data: bytes) -> None:
            assert data.startswith(b":")
            written.release()

    reply = Counting()
    stream.attach(reply)
    held = in_thread(lambda: stream.hold(reply, 0.001, never, nothing))
    assert all(written.acquire(timeout=PATIENCE) for _ in range(3))
    stream.end()
    held.join(PATIENCE)
    assert not held.is_alive() and reply.events == []


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


def test_a_connection_whose_time_is_up_is_closed_and_the_stream_goes_on(stream: EventStream) -> None:
    first, second = ListReply(), ListReply()
    stream.attach(first, prime=True)
    stream.hold(first, PATIENCE, never, nothing, lambda: 0.0)
    assert first.hung_up and stream.write(b"1")
    assert stream.attach(second, 1) and second.messages == [1]


def test_a_client_that_is_gone_is_let_go(stream: EventStream) -> None:
    reply = ListReply()
    stream.attach(reply)
    stream.hold(reply, 0.001, lambda: True, nothing)
    assert stream.reply is None
    stream.attach(reply2 := ListReply())
    reply2.broken = True
    stream.hold(reply2, 0.001, never, nothing)
    assert stream.reply is None


# -- clients that do not read -------------------------------------------------------------------------------------


def test_an_end_does_not_wait_for_a_client_that_does_not_read(stream: EventStream) -> None:
    stuck = StuckReply()
    stream.attach(stuck)
    writing = in_thread(lambda: stream.write(b"1"))
    assert stuck.writing.wait(PATIENCE)
    stream.end(patience=0.01)
    writing.join(PATIENCE)
    assert stuck.aborted.is_set() and not writing.is_alive()


def test_nor_does_its_next_connection(stream: EventStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.basic.transports.streamable_http.streams.UNREAD_TIMEOUT", 0.01)
    stuck, reply = StuckReply(), ListReply()
    stream.attach(stuck)
    writing = in_thread(lambda: stream.write(b"1"))
    assert stuck.writing.wait(PATIENCE)
    assert stream.attach(reply, 0)
    writing.join(PATIENCE)
    assert reply.messages == [1]


def test_each_connection_that_does_not_read_is_given_up_not_only_the_first(
    stream: EventStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_ref.basic.transports.streamable_http.streams.UNREAD_TIMEOUT", 0.01)
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
                if self._left == 2:
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


# -- order --------------------------------------------------------------------------------------------------------


def test_writers_at_once_keep_the_order_of_the_numbers_also_over_connections(stream: EventStream) -> None:
    first, second = ListReply(), ListReply()
    stream.attach(first)
    begin = threading.Barrier(5)

    def write() -> None:
        begin.wait(PATIENCE)
        for number in range(100):
            stream.write(b"%d" % number)

    writers = [in_thread(write) for _ in range(4)]
    begin.wait(PATIENCE)
    first.wait_for(50)
    seen = len(first.events)
    assert stream.attach(second, seen)
    for writer in writers:
        writer.join(PATIENCE)
    ids = [event.id for event in (first.events[:seen] + second.events)]
    assert ids == [f"s1-{number}" for number in range(1, 401)]


# -- the store ----------------------------------------------------------------------------------------------------


def test_the_store_gives_what_came_after_on_one_stream() -> None:
    store = MemoryEventStore()
    for number in range(1, 4):
        store.append("a", number, f"a{number}")
        store.append("b", number, f"b{number}")
    assert store.after("a", 1) == [(2, "a2"), (3, "a3")]
    assert store.after("b", 0) == [(1, "b1"), (2, "b2"), (3, "b3")]
    assert store.after("c", 0) is None


def events(count: int, text: str) -> int:
    """The size of a store that keeps so many events of that text."""
    return count * (sys.getsizeof(text) + EVENT_COST)


def test_the_store_forgets_the_oldest_and_says_so() -> None:
    store = MemoryEventStore(events(3, "xx"))
    for number in range(1, 6):
        store.append("a", number, "xx")
    assert store.after("a", 1) is None
    assert store.after("a", 2) == [(3, "xx"), (4, "xx"), (5, "xx")]


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


def test_an_event_larger_than_the_store_is_not_kept() -> None:
    store = MemoryEventStore(events(1, "x" * 10))
    store.append("a", 1, "x" * 11)
    assert store.after("a", 0) is None
    assert store._size == 0


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
