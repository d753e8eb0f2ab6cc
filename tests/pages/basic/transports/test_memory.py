"""basic/transports#custom-transports: the transport between two sides in one process."""

from __future__ import annotations

import json
import threading

import pytest

from mcp_ref.errors import McpError, RequestTimeout, TransportClosed
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports import memory
from mcp_ref.pages.basic.transports.memory import pair
from mcp_ref.wire.transport import Transport
from tests.support.wire import Background

from .collector import WAIT, Collector, Notes, soon


def started() -> tuple[Transport, Transport, Collector, Collector]:
    ours, theirs = pair()
    here, there = Collector(), Collector()
    ours.start(here.receive, here.lost)
    theirs.start(there.receive, there.lost)
    return ours, theirs, here, there


def test_a_message_reaches_the_other_side_in_both_directions():
    ours, theirs, here, there = started()
    ours.send({"id": 1}, soon())
    theirs.send([{"id": 2}], soon())
    assert there.message() == {"id": 1}
    assert here.message() == [{"id": 2}]


def test_nothing_is_shared_with_the_sender_but_its_thread():
    ours, theirs = pair()
    came: list[tuple[bytes, threading.Thread]] = []
    theirs.start(lambda text: came.append((text, threading.current_thread())), lambda reason: None)
    message = {"params": {"a": 1}}
    ours.send(message, soon())
    message["params"]["a"] = 2
    assert came == [(b'{"params":{"a":1}}', threading.current_thread())]


def test_so_many_are_kept_for_a_side_that_has_not_started_and_come_first_and_in_order(monkeypatch):
    monkeypatch.setattr(memory, "_MAX_KEPT", 3)
    ours, theirs = pair()
    there = Collector()
    for number in range(3):
        ours.send({"id": number}, soon())
    with pytest.raises(TransportClosed, match="wait for the other side to start"):
        ours.send({}, soon())
    theirs.start(there.receive, there.lost)
    ours.send({"id": 3}, soon())
    assert [there.message()["id"] for _ in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("closer", [0, 1])
def test_closing_one_side_ends_both_once(closer):
    ours, theirs, here, there = started()
    for _ in range(2):
        (ours, theirs)[closer].close(soon())
    (theirs, ours)[closer].close(soon())
    assert (here.ends, there.ends) == (1, 1)
    assert isinstance(here.reasons.get(timeout=WAIT), TransportClosed)
    for side in (ours, theirs):
        with pytest.raises(TransportClosed):
            side.send({}, soon())


def test_lost_is_called_outside_all_locks():
    ours, theirs = pair()
    seen: list[str] = []

    def lost(reason: McpError) -> None:
        with pytest.raises(TransportClosed):
            ours.send({}, soon())
        ours.close(soon())
        seen.append(str(reason))

    ours.start(lambda text: None, lost)
    theirs.close(soon())
    assert len(seen) == 1


def test_a_side_that_starts_after_the_end_gets_what_was_sent_and_then_is_lost():
    ours, theirs = pair()
    ours.send({"id": 1}, soon())
    ours.close(soon())
    events: list[object] = []
    theirs.start(lambda text: events.append(json.loads(text)), events.append)
    assert events[0] == {"id": 1}
    assert isinstance(events[1], TransportClosed)
    assert len(events) == 2


def test_both_taps_see_each_message_in_order():
    mine, other = Notes(), Notes()
    ours, theirs = pair(mine, other)
    ours.send({"id": 1}, soon())
    ours.start(lambda text: None, lambda reason: None)
    theirs.start(lambda text: None, lambda reason: None)
    theirs.send({"id": 2}, soon())
    assert mine.notes == [("send", {"id": 1}), ("receive", b'{"id":2}')]
    assert other.notes == [("receive", b'{"id":1}'), ("send", {"id": 2})]


def test_a_lock_that_ctrl_c_has_left_held_does_not_stop_the_next_message():
    ours, theirs, here, there = started()
    theirs._lock.acquire()
    ours.send({"id": 1}, soon())
    assert there.message() == {"id": 1}
    ours.close(soon())
    theirs.close(soon())


def test_waiting_for_a_delivery_is_bounded():
    ours, theirs = pair()
    delivering, go_on = threading.Event(), threading.Event()
    theirs.start(lambda text: bool(delivering.set() or go_on.wait(WAIT)), lambda reason: None)
    sending = Background(ours.send, {}, soon())
    try:
        assert delivering.wait(WAIT)
        with pytest.raises(RequestTimeout, match="another message is being delivered"):
            ours.send({}, Deadline(0.01))
        ours.close(Deadline(0.01))
    finally:
        go_on.set()
        sending.outcome()
