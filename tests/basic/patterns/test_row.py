"""Tests for mcp_ref/peer.py: a stream that one thread reads, and others close."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_ref.errors import RequestCancelled
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.peer import Row, Stream
from tests.wire import PATIENCE, Background

CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def opened() -> tuple[Row, Stream, list[str]]:
    """A stream over a row, and a list that says when what arrives was closed."""
    row, ends = Row(), list[str]()

    def arriving() -> Iterator[Any]:
        try:
            yield from row.until(Deadline(PATIENCE))
        finally:
            ends.append("closed")

    return row, Stream(row, arriving(), Deadline(PATIENCE), lambda reason: None), ends


def test_a_stream_is_closed_while_another_thread_waits_for_its_next_message() -> None:
    # Many times, for it is about the middle of a step: closing a generator there can crash the interpreter.
    for number in range(500):
        row = Row()
        stream = Stream(row, row.until(Deadline(PATIENCE)), Deadline(PATIENCE), lambda reason: None)
        reading = Background(list, stream)
        for _ in range(number % 7):
            row.put(CHANGED)
        stream.close("no longer wanted")
        assert isinstance(reading.outcome(), RequestCancelled)


def test_a_stream_that_nobody_reads_is_closed_with_what_arrives() -> None:
    row, stream, ends = opened()
    messages = iter(stream)
    row.put(CHANGED)
    assert next(messages) == CHANGED
    threads = [threading.Thread(target=stream.close, args=("no longer wanted",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert ends == ["closed"]
    with pytest.raises(RequestCancelled):
        next(messages)
