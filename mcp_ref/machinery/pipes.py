"""Lines out of bytes, and a flag that `poll` can wait for: what both ends of stdio are made of.

Spec:      basic/transports#stdio
Upholds:   spec_notes/basic/transports.md, the rows on the framing of stdio
Not here:  who reads and who writes them (stdio, stdio_client)
"""

from __future__ import annotations

import math
import os
import select
import threading
from collections.abc import Iterator

from mcp_ref.machinery.deadline import Deadline

CHUNK = 65536
"""Bytes asked for in one read: what a pipe holds."""

# Windows can neither poll a pipe nor write to one without blocking: there a read is ended by the other end alone.
HAS_POLL = hasattr(select, "poll")

_LONG = 86400.0


class LineTooLong(ValueError):
    """A line passed the limit; nothing after it can be trusted to begin a message."""


class LineSplitter:
    r"""Cuts what is read at each `\n`, and at nothing else.

    Args:
        limit: bytes that a line may have, the line break not counted.

    Not `splitlines()`: it also cuts at characters such as U+2028, which may stand in a JSON string.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial = bytearray()

    def __len__(self) -> int:
        """Bytes of the line that has begun."""
        return len(self._partial)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Each line that the chunk ends; raises `LineTooLong` after those before the long one."""
        *ends, rest = chunk.split(b"\n")
        for line in ends:
            if self._partial:
                self._partial += line
                line = self.take()
            self._check(line)
            yield line
        self._partial += rest
        self._check(self._partial)

    def take(self) -> bytes:
        """The line that has begun, as far as it came; the next byte begins another."""
        line = bytes(self._partial)
        self._partial.clear()
        return line

    def _check(self, line: bytes | bytearray) -> None:
        if len(line) > self._limit:
            raise LineTooLong(f"a line is longer than {self._limit} bytes")


class Wake:
    """A flag that any number of threads can wait for with `poll`, beside their descriptors.

    It is a pipe with a byte in it that nobody ever takes out. Closing the writing end would do as well, but not after a
    handler has forked: the copy of that end in the other process keeps the pipe silent.

    Threads: `set` may be called by any, at any time, also before `open` and after `close`.
    """

    def __init__(self) -> None:
        self.fd = -1
        self._lock = threading.Lock()  # guards: fd, _write_fd, _is_set
        self._write_fd = -1
        self._is_set = False

    def open(self) -> None:
        """Make the pipe; `fd` is what to poll for reading."""
        with self._lock:
            self.fd, self._write_fd = os.pipe()
            if self._is_set:
                os.write(self._write_fd, b"!")

    def set(self) -> None:
        """Wake everybody who polls `fd`, now or later."""
        with self._lock:
            if not self._is_set and self._write_fd >= 0:
                os.write(self._write_fd, b"!")
            self._is_set = True

    def close(self) -> None:
        """Give the pipe back, once nobody polls it any more."""
        with self._lock:
            if self.fd >= 0:
                os.close(self.fd)
                os.close(self._write_fd)
            self.fd = self._write_fd = -1


def seconds(deadline: Deadline) -> float:
    """What is left, as `Lock.acquire(timeout=...)` takes it: -1 for no limit."""
    left = deadline.left()
    return -1.0 if left is None else min(left, _LONG)


def milliseconds(deadline: Deadline) -> int | None:
    """What is left, as `poll` takes it: None for no limit; at most a day, after which its caller asks anew."""
    left = deadline.left()
    return None if left is None else math.ceil(min(left, _LONG) * 1000)
