"""Pipes: what is read from a descriptor, the lines in it, room to write, and a flag that ends the wait for either.

The contract: a descriptor is never closed under a thread that uses it. Whoever reads or writes waits in `poll` for the
descriptor and for a `WakePipe`, so that setting the flag ends the wait; what had come by then is still read.
Windows can neither poll a pipe nor write to one without blocking: there a read is ended by the other end alone.
"""

from __future__ import annotations

import math
import os
import select
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcp_ref.kit.threads.deadline import Deadline

HAS_POLL = hasattr(select, "poll")
_PORTION: int = getattr(select, "PIPE_BUF", 512)  # bytes that a pipe with room takes at once

_MAX_CHUNK = 65536  # bytes asked for in one read: what a pipe holds as a rule
_MAX_LAST_CHUNK = 1 << 20  # bytes asked for in the read after a stop: no pipe holds more


class InputStopped(Exception):
    """The reading was to stop, and all that had come was read; the text says why."""


class LineTooLong(ValueError):
    """A line passed the limit; nothing after it can be trusted to begin a message."""


def milliseconds(deadline: Deadline) -> int:
    """Return what is left, as `poll` takes it: at most a day, after which its caller asks again."""
    return math.ceil(deadline.at_most(86400) * 1000)


def poll_of(readable: Iterable[int] = (), writable: Iterable[int] = ()) -> Any:
    """Return a `select.poll` of these descriptors, where there is one (`HAS_POLL`)."""
    if sys.platform == "win32":
        raise NotImplementedError("pipes cannot be polled here")
    poll = select.poll()
    for fd in readable:
        poll.register(fd, select.POLLIN)
    for fd in writable:
        poll.register(fd, select.POLLOUT)
    return poll


class WakePipe:
    """A flag that any number of threads can wait for, by `poll` or a selector, beside their descriptors.

    It is a pair of sockets, for Windows can select nothing else, with a byte in it that nobody ever takes out. Closing
    the writing end would do as well, but not after a handler has forked: the copy of that end in the other process
    keeps the reading one silent.

    Threads: `set` may be called by any, at any time, also before `open` and after `close`.
    """

    def __init__(self) -> None:
        self.fd = -1
        self._lock = threading.Lock()  # guards what follows, and fd
        self._ends: tuple[socket.socket, ...] = ()  # to read from, and to write to
        self._is_set = False

    def open(self) -> None:
        """Make the pair; `fd` is what to wait for until it can be read."""
        with self._lock:
            self._ends = socket.socketpair()
            self.fd = self._ends[0].fileno()
            if self._is_set:
                self._ends[1].send(b"!")

    def set(self) -> None:
        """Wake everybody who waits for `fd`, now or later."""
        with self._lock:
            if not self._is_set and self._ends:
                self._ends[1].send(b"!")
            self._is_set = True

    def close(self) -> None:
        """Give the pair back, once nobody waits for it any more."""
        with self._lock:
            ends, self._ends, self.fd = self._ends, (), -1
            for end in ends:
                end.close()


class Writable:
    """Tells when a descriptor takes something, so that no write to it waits without a bound.

    A descriptor that blocks stays so: O_NONBLOCK would belong to everybody who shares this open file, such as the
    terminal, the shell, other processes. It is asked for room before each write, and then has room for a portion.

    Args:
        wake: ends every wait.

    Attributes:
        blocks: whether to `wait` before each write, and not only after one that did not fit.
        portion: bytes that may be written then; None: as many as it takes.
    """

    def __init__(self, fd: int, wake: WakePipe) -> None:
        self.blocks = sys.platform != "win32" and HAS_POLL and os.get_blocking(fd)
        self.portion = _PORTION if self.blocks else None
        if HAS_POLL:
            self._poll = poll_of([wake.fd], [fd])

    def wait(self, deadline: Deadline) -> bool:
        """Wait until there is room, or the flag is set; then True. Raises: RequestTimeout."""
        while not self._poll.poll(milliseconds(deadline)):
            deadline.check("writing: the peer does not read")
        return True


def chunks(fd: int, stops: Mapping[int, str]) -> Iterator[bytes]:
    """Yield what comes, as it comes, until the end of the input.

    Args:
        stops: other descriptors; once one of them is ready, what has come already is read, and nothing after it.

    Raises: InputStopped: with what `stops` says of the one that was ready. OSError.
    """
    if HAS_POLL:
        poll = poll_of([fd, *stops])
    while True:
        # Without a limit: the end of the input ends the wait, or one of the stops.
        ready = [each for each, _ in poll.poll()] if HAS_POLL else [fd]
        stopped = [each for each in ready if each != fd]
        if fd in ready:
            chunk = os.read(fd, _MAX_LAST_CHUNK if stopped else _MAX_CHUNK)
            if not chunk:
                return
            yield chunk
        if stopped:
            raise InputStopped(stops[stopped[0]])


class LineSplitter:
    r"""Cuts what is read at each `\n`, and at nothing else.

    Args:
        limit: bytes that a line may have, the line break not counted.
        cut: keep only that many of a longer one, and raise nothing.

    Not `splitlines()`: it also cuts at characters such as U+2028, which may stand in a JSON string.
    """

    def __init__(self, limit: int, *, cut: bool = False) -> None:
        self._limit, self._cut = limit, cut
        self._partial = bytearray()

    def __len__(self) -> int:
        """Return bytes of the line that has begun."""
        return len(self._partial)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield each line that the chunk ends; raises `LineTooLong` after those before the long one."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            if self._partial:
                self._partial += line
                line = self.take()
            if len(line) > self._limit and not self._cut:
                raise self._too_long()
            yield line[: self._limit]
        self._partial += rest
        if len(self._partial) > self._limit:
            if not self._cut:
                raise self._too_long()
            del self._partial[self._limit :]

    def _too_long(self) -> LineTooLong:
        return LineTooLong(f"a line is longer than {self._limit} bytes")

    def take(self) -> bytes:
        """Return the line that has begun, as far as it came; the next byte begins another."""
        line = bytes(self._partial)
        self._partial.clear()
        return line
