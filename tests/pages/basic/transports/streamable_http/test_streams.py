"""Event streams that outlive connections, and the store of events (basic/transports#resumability-and-redelivery);
what a POST is answered with, and where everything else goes (basic/transports#sending-messages-to-the-server)."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from mcp_ref.errors import LocalProtocolError, TransportClosed
from mcp_ref.pages.basic.transports.streamable_http import streams as page
from mcp_ref.pages.basic.transports.streamable_http.streams import (
    EVENT_COST,
    EventStream,
    HttpSession,
    MemoryEventStore,
    PostReply,
)
from tests.pages.basic.transports.collector import soon
from tests.pages.basic.transports.streamable_http.replies import PATIENCE, ListReply
from tests.support.clock import until
from tests.support.wire import Background

ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {}}
NOTE = {"jsonrpc": "2.0", "method": "notifications/message"}


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


def test_an_end_can_break_the_connection_off(stream: EventStream) -> None:
    reply = ListReply()
    stream.attach(reply)
    stream.end(hang_up=True)
    stream.end()
    # Broken off, not ended: a client whose reply has ended takes the connection for free.
    assert reply.broken and not reply.ended and stream.reply is None


def test_a_connection_that_takes_over_ends_the_former_and_is_not_ended_by_its_time(
    stream: EventStream,
) -> None:
    first, second = ListReply(), ListReply()
    stream.attach(first, prime=True)
    looked = threading.Semaphore(0)
    expires = [float("inf")]

    def until() -> float:
        looked.release()
        return expires[0]

    held = Background(stream.hold, first, PATIENCE, lambda: False, lambda: None, until)
    assert looked.acquire(timeout=PATIENCE)
    expires[0] = 0.0
    # Wakes the thread that held the first one, whose token ends just now.
    stream.attach(second, 1)
    assert held.outcome() is False
    assert stream.write(b"1") and second.messages == [1] and not second.hung_up
    assert first.ended and not first.messages


# -- clients that do not read -------------------------------------------------------------------------------------


def test_an_end_does_not_wait_for_a_client_that_does_not_read(stream: EventStream) -> None:
    stuck = StuckReply()
    stream.attach(stuck)
    writing = Background(lambda: stream.write(b"1"))
    assert stuck.writing.wait(PATIENCE)
    stream.end(patience=0.01)
    assert stuck.aborted.is_set() and writing.outcome() is True


def test_each_connection_that_does_not_read_is_given_up_not_only_the_first(
    stream: EventStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "UNREAD_TIMEOUT", 0.01)
    ending = threading.Event()

    class SlowToEnd(ListReply):
        def end(self, patience: float | None = None) -> None:
            ending.set()
            # By then somebody else has looked for whom to give up, and found nobody.
            assert not stuck.writing.wait(0.1)

    former, stuck = SlowToEnd(), StuckReply()
    stream.attach(former)
    stream.write(b"1")
    resumed = Background(lambda: stream.attach(stuck, 0))
    assert ending.wait(PATIENCE)
    stream.end(patience=0.01)
    assert resumed.outcome() is True
    assert stuck.aborted.is_set()


# -- one writer ---------------------------------------------------------------------------------------------------


def test_what_waits_is_written_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    session = HttpSession(None)
    first, second = ListReply(), ListReply()
    for reply in (first, second):
        session.new_stream(standing=True).attach(reply)
    writing, go_on, order = threading.Event(), threading.Event(), list[str]()
    others: list[Background] = []

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
                    others.append(Background(late))
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
    assert others[0].outcome() is None
    assert order == ["earlier", "later"]


# -- the store ----------------------------------------------------------------------------------------------------


def test_a_stream_that_nobody_will_ask_for_leaves_nothing_in_the_store() -> None:
    store = MemoryEventStore(5 * (sys.getsizeof("xx") + EVENT_COST))
    for number in range(1, 5):
        store.append("a", number, "xx")
        store.append("b", number, "xx")
    store.forget("a")
    store.forget("a")
    assert store.after("a", 3) is None
    assert store.after("b", 2) == [(3, "xx"), (4, "xx")]
    store.forget("b")
    assert (store._size, len(store._events), len(store._last)) == (0, 0, 0)


# -- what a POST is answered with ---------------------------------------------------------------------------------


def session() -> HttpSession:
    """One without a conversation."""
    return HttpSession(None)


def post(reply: ListReply, end: HttpSession | None = None) -> PostReply:
    return PostReply(reply, (end or session()).new_stream, None)


def test_a_request_without_an_answer_ends_the_post_and_its_connection() -> None:
    reply = ListReply()
    posted = post(reply)
    posted.skip()
    posted.send(ANSWER, soon())
    assert reply.ended and reply.hung_up and not reply.messages
    assert reply.headers["Connection"] == "close"


def test_an_answer_to_a_client_that_is_gone_is_an_error_where_it_cannot_be_fetched() -> None:
    reply, end = ListReply(), session()
    reply.broken = True
    with pytest.raises(TransportClosed):
        post(reply, end).send(ANSWER, soon())
    with pytest.raises(TransportClosed):
        post(reply, end).send(NOTE, soon())
    end.store = MemoryEventStore()
    post(reply, end).send(NOTE, soon())


@pytest.mark.parametrize("resumable", [True, False])
def test_a_client_that_hung_up_is_given_up_at_once_only_if_it_cannot_come_back(
    resumable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply, end = ListReply(), session()
    end.store = MemoryEventStore() if resumable else None
    posted = PostReply(reply, end.new_stream, None, gone=lambda: reply.broken)
    posted.open()
    assert not posted.abandoned()
    reply.broken = True
    assert posted.abandoned() is not resumable
    if resumable:
        stream = posted.stream
        assert stream is not None and stream.attach(ListReply(), 0)
        reply.broken = False
        assert not posted.abandoned(), "it came back, and has as long again"
        monkeypatch.setattr(page, "RESUME_TIMEOUT", 0.0)
        stream.end(hang_up=True)
        assert posted.abandoned()


# -- what belongs to no request -----------------------------------------------------------------------------------


def listen(end: HttpSession) -> ListReply:
    """A standing stream, and what waited for it; `send` is what its holder does from then on."""
    reply = ListReply()
    end.new_stream(standing=True).attach(reply)
    end.write_waiting()
    return reply


def send(end: HttpSession, message: Any) -> None:
    end.send(message, soon())
    end.write_waiting()


def test_a_message_goes_on_one_stream_and_on_another_when_that_is_gone() -> None:
    end = session()
    first, second = listen(end), listen(end)
    send(end, NOTE)
    assert (len(first.messages), len(second.messages)) == (0, 1)
    second.broken = True
    send(end, NOTE)
    assert len(first.messages) == 1


def test_so_much_can_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_WAITING", 3)
    end = session()
    for _ in range(3):
        end.send(NOTE, soon())
    with pytest.raises(TransportClosed, match="3 messages wait"):
        end.send(NOTE, soon())


def test_what_is_not_json_is_the_senders_mistake_and_not_the_listeners() -> None:
    end = session()
    with pytest.raises(LocalProtocolError):
        end.send({"n": {1}}, soon())
    assert listen(end).messages == []


def test_streams_that_nobody_reads_are_forgotten_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_STREAMS", 3)
    end = session()
    held = ListReply()
    end.new_stream().attach(held)
    for _ in range(10):
        end.new_stream(standing=True)
    assert list(end._streams) == ["s1", "s10", "s11"]
    assert end.stream("s2") is None and len(end._standing) == 2


def test_a_stream_that_is_opened_too_late_ends_at_once() -> None:
    end = session()
    end.close(soon())
    assert listen(end).ended
    with pytest.raises(TransportClosed):
        end.send(NOTE, soon())


def test_senders_at_once_lose_nothing_while_streams_come_and_go() -> None:
    end, begin, replies = session(), threading.Barrier(5), list[ListReply]()
    firsts = range(0, 4000, 1000)

    def send_many(first: int) -> None:
        begin.wait(PATIENCE)
        for number in range(first, first + 100):
            end.send({"n": number}, soon())

    def held() -> tuple[EventStream, Background]:
        replies.append(ListReply())
        stream = end.new_stream(standing=True)
        stream.attach(replies[-1])
        keep = (PATIENCE, lambda: False, end.write_waiting, lambda: float("inf"))
        return stream, Background(stream.hold, replies[-1], *keep)

    senders = [Background(send_many, first) for first in firsts]
    begin.wait(PATIENCE)
    holders = [held() for _ in range(11)]
    for stream, _ in holders[:-1]:
        stream.end()
    assert [sender.outcome() for sender in senders] == [None] * 4
    assert until(lambda: sum(len(reply.messages) for reply in replies) >= 400)
    end.close(soon())
    assert all(isinstance(holder.outcome(), bool) for _, holder in holders)
    came = [message["n"] for reply in replies for message in reply.messages]
    assert sorted(came) == [n for first in firsts for n in range(first, first + 100)]
    for first in firsts:
        assert sorted(mine := [n for n in came if first <= n < first + 100]) == mine
