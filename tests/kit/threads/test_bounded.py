"""kit/threads/bounded: what waits is bounded in number and in bytes, and costs nothing where nothing waits."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.kit.threads import bounded
from mcp_ref.kit.threads.bounded import BoundedQueue, Weighed


def got(queue: BoundedQueue, number: int = 1) -> list[Any]:
    items = [queue.get(timeout=0) for _ in range(number)]
    return [queue.unpack(item) if isinstance(item, Weighed) else item for item in items]


def test_a_queue_takes_so_many_items_and_gives_them_in_order() -> None:
    queue = BoundedQueue()
    assert [queue.offer(number, None, 2) for number in range(3)] == [True, True, False]
    queue.put("awaited")
    assert got(queue, 3) == [0, 1, "awaited"]
    assert queue.empty() and queue.offer(3, None, 2) and got(queue) == [3]


def test_a_queue_takes_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MAX_WAITING_SIZE", 10_000)
    queue, text = BoundedQueue(), "x" * 4_000
    queue.put("first")
    assert [queue.offer(number, text, 100) for number in range(4)] == [True, True, False, False]
    assert queue.offer("small", "x", 100), "what fits is taken all the same"
    assert got(queue) == ["first"] and not queue.offer(5, text, 100)
    assert got(queue) == [0] and queue.offer(6, text, 100)
    assert got(queue, 3) == [1, "small", 6]
    assert not queue.offer("huge", text * 10, 100)


@pytest.mark.parametrize("value", [[[]] * 100, {str(number): number for number in range(100)}, "\U0001f600" * 2_000])
def test_many_small_values_and_wide_characters_weigh_as_much_as_they_take(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MAX_WAITING_SIZE", 8_000)
    queue = BoundedQueue()
    assert [queue.offer(0, each, 9) for each in (value, "x" * 7_000)] == [False, True]


def test_what_is_nested_too_deeply_to_be_weighed_has_no_room() -> None:
    nested = list[Any]()
    for _ in range(100_000):
        nested = [nested]
    assert not BoundedQueue().offer(0, nested, 9)
    while nested:
        nested = nested[0]
