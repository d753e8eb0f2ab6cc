"""basic/transports#sending-messages-to-the-server: what a POST is answered with, and where everything else goes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mcp_ref.errors import LocalProtocolError, TransportClosed
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports.streamable_http import streams as page
from mcp_ref.pages.basic.transports.streamable_http.streams import HttpSession, MemoryEventStore, PostReply
from tests.pages.basic.transports.streamable_http.raw import until
from tests.pages.basic.transports.streamable_http.replies import PATIENCE, ListReply

ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {}}
NOTE = {"jsonrpc": "2.0", "method": "notifications/message"}
SOON = Deadline(PATIENCE)


def session() -> HttpSession:
    """One without a conversation."""
    return HttpSession(None)


def post(reply: ListReply, end: HttpSession | None = None) -> PostReply:
    return PostReply(reply, (end or session()).new_stream, None)


def test_a_request_without_an_answer_ends_the_post_and_its_connection() -> None:
    reply = ListReply()
    posted = post(reply)
    posted.skip()
    posted.send(ANSWER, SOON)
    assert reply.ended and reply.hung_up and not reply.messages
    assert reply.headers["Connection"] == "close"


def test_an_answer_to_a_client_that_is_gone_is_an_error_where_it_cannot_be_fetched() -> None:
    reply, end = ListReply(), session()
    reply.broken = True
    with pytest.raises(TransportClosed):
        post(reply, end).send(ANSWER, SOON)
    with pytest.raises(TransportClosed):
        post(reply, end).send(NOTE, SOON)
    end.store = MemoryEventStore()
    post(reply, end).send(NOTE, SOON)


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
    end.send(message, SOON)
    end.write_waiting()


def test_a_message_goes_on_one_stream_and_on_another_when_that_is_gone() -> None:
    end = session()
    first, second = listen(end), listen(end)
    send(end, NOTE)
    assert (len(first.messages), len(second.messages)) == (0, 1)
    second.broken = True
    send(end, NOTE)
    assert len(first.messages) == 1


def test_senders_at_once_lose_nothing_while_streams_come_and_go() -> None:
    end, begin = session(), threading.Barrier(5)
    replies: list[ListReply] = []
    threads: list[threading.Thread] = []

    def send_many(first: int) -> None:
        begin.wait(PATIENCE)
        for number in range(100):
            end.send({"n": first + number}, SOON)

    def hold() -> Any:
        replies.append(ListReply())
        stream = end.new_stream(standing=True)
        stream.attach(replies[-1])
        holder = (replies[-1], PATIENCE, lambda: False, end.write_waiting, lambda: float("inf"))
        threads.append(threading.Thread(target=stream.hold, args=holder))
        threads[-1].start()
        return stream

    for first in (0, 1000, 2000, 3000):
        threads.append(threading.Thread(target=send_many, args=(first,)))
        threads[-1].start()
    begin.wait(PATIENCE)
    for _ in range(10):
        hold().end()
    hold()
    assert until(lambda: sum(len(reply.messages) for reply in replies) >= 400)
    end.close(SOON)
    for thread in threads:
        thread.join(PATIENCE)
    came = [message["n"] for reply in replies for message in reply.messages]
    assert len(came) == len(set(came)) == 400
    for first in (0, 1000, 2000, 3000):
        assert [n for n in came if first <= n < first + 100] == list(range(first, first + 100))


def test_so_much_can_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_WAITING", 3)
    end = session()
    for _ in range(3):
        end.send(NOTE, SOON)
    with pytest.raises(TransportClosed, match="3 messages wait"):
        end.send(NOTE, SOON)


def test_what_is_not_json_is_the_senders_mistake_and_not_the_listeners() -> None:
    end = session()
    with pytest.raises(LocalProtocolError):
        end.send({"n": {1}}, SOON)
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
    end.close(SOON)
    assert listen(end).ended
    with pytest.raises(TransportClosed):
        end.send(NOTE, SOON)
