"""Outbox: what waits for one peer, coalesced, without anybody waiting for that peer."""

from __future__ import annotations

import pytest

from mcp_ref.machinery.outbox import Outbox


class Woken:
    """How often a flush was asked for."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def outbox() -> Outbox[str]:
    return Outbox()


def test_a_message_takes_the_place_of_the_one_with_its_key(outbox: Outbox[str]) -> None:
    for key, message in (("a", "a1"), ("b", "b1"), ("a", "a2")):
        outbox.put(key, message)
    written: list[str] = []
    assert len(outbox) == 2
    assert outbox.flush(written.append) is False
    assert written == ["a2", "b1"] and len(outbox) == 0


def test_asks_for_one_flush_however_much_is_put(outbox: Outbox[str]) -> None:
    woken = Woken()
    outbox.on_work(woken)
    assert woken.times == 0
    for key in "abc":
        outbox.put(key, key)
    assert woken.times == 1
    outbox.flush(lambda message: None)
    outbox.put("a", "again")
    assert woken.times == 2


def test_asks_for_a_flush_at_once_if_something_waits_already(outbox: Outbox[str]) -> None:
    woken = Woken()
    outbox.put("a", "a")
    outbox.on_work(woken)
    assert woken.times == 1


def test_what_is_put_during_a_flush_is_written_by_it(outbox: Outbox[str]) -> None:
    woken, written = Woken(), []
    outbox.on_work(woken)
    outbox.put("a", "a")

    def write(message: str) -> None:
        written.append(message)
        if message == "a":
            outbox.put("b", "b")
            assert outbox.flush(written.append) is False

    outbox.flush(write)
    assert written == ["a", "b"] and woken.times == 1


def test_a_closed_outbox_writes_what_waits_and_says_its_end_once(outbox: Outbox[str]) -> None:
    woken, written = Woken(), []
    outbox.on_work(woken)
    outbox.put("a", "a")
    assert outbox.close() and not outbox.close()
    outbox.put("b", "b")
    assert outbox.flush(written.append) is True
    assert outbox.flush(written.append) is False
    assert written == ["a"] and woken.times == 1


def test_a_discarded_outbox_writes_nothing_and_has_no_end(outbox: Outbox[str]) -> None:
    outbox.put("a", "a")
    outbox.close()
    outbox.discard()
    outbox.put("b", "b")
    assert outbox.flush(lambda message: pytest.fail(message)) is False


def test_a_write_that_fails_discards_what_is_left(outbox: Outbox[str]) -> None:
    outbox.put("a", "a")
    outbox.put("b", "b")
    with pytest.raises(ZeroDivisionError):
        outbox.flush(lambda message: 1 / 0)  # type: ignore[arg-type,return-value]
    assert outbox.flush(lambda message: pytest.fail(message)) is False
