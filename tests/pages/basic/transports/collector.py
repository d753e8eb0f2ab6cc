"""Shared by tests: what the tests of the transports share: the other side of `receive` and `lost`, and a check for
descriptors.
"""

from __future__ import annotations

import json
import os
import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mcp_ref.errors import McpError
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.recording.record import Tap
from tests.support.wire import Background

WAIT = 20.0


def soon() -> Deadline:
    return Deadline(WAIT)


def in_thread(call: Callable[[], object]) -> Callable[[], Any]:
    """Call it in a thread; the function given back waits for its end, and gives what it returned or raised."""
    return Background(call).outcome


class Collector:
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.texts: queue.Queue[bytes] = queue.Queue()
        self.reasons: queue.Queue[McpError] = queue.Queue()
        self.ends = 0

    def receive(self, text: bytes) -> None:
        assert type(text) is bytes
        self.texts.put(text)

    def lost(self, reason: McpError) -> None:
        self.ends += 1
        self.reasons.put(reason)

    def text(self) -> bytes:
        return self.texts.get(timeout=WAIT)

    def message(self) -> Any:
        return json.loads(self.text())

    def reason(self) -> str:
        return str(self.reasons.get(timeout=WAIT))


class Notes(Tap):
    """A tap that remembers: `http` has what stood beside each note."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, Any]] = []
        self.http: list[Any] = []

    def note(self, direction: str, message: Any, http: Any = None) -> None:
        self.notes.append((direction, message))
        self.http.append(http)

    def exchange(self) -> int:
        return 1


@contextmanager
def no_descriptor_leaks() -> Iterator[None]:
    import requests  # noqa: F401  (importing it opens descriptors of its own)

    before = _open()
    yield
    left = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in _open() - before}
    assert not left, f"descriptors left open: {left}"


def _open() -> set[str]:
    """Without the one by which they were listed, whose number the next one gets."""
    return {fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")}
