"""What the tests of the transports share: the other side of `receive` and `lost`, and a check for descriptors."""

from __future__ import annotations

import json
import os
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp_ref.errors import McpError
from mcp_ref.machinery.deadline import Deadline

WAIT = 20.0


def soon() -> Deadline:
    return Deadline(WAIT)


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


class Notes:
    """A tap that remembers."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, Any]] = []
        self.delivered = 0

    def note(self, direction: str, message: Any, http: Any = None) -> None:
        self.notes.append((direction, message))

    def exchange(self) -> int:
        return 1

    def deliver(self) -> None:
        self.delivered += 1


@contextmanager
def no_descriptor_leaks() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd"))
    yield
    left = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in set(os.listdir("/proc/self/fd")) - before if _is_open(fd)}
    assert not left, f"descriptors left open: {left}"


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")
