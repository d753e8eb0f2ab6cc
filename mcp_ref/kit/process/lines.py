"""Lines over two descriptors, such as pipes: one thread reads them, and any may write them, with a deadline.

The contract: a line goes out whole, or the connection is over, for nothing could follow a part of one; also Ctrl-C in
the middle of a write may end it so. Each line that arrives is handed on in order, and the end of reading is told once,
with its reason. `close` is bounded, and no descriptor is closed under a thread that uses it.
"""

from __future__ import annotations

import logging
import os
import threading
from codecs import BOM_UTF8
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from typing import Any

from mcp_ref.errors import RequestTimeout, TransportClosed
from mcp_ref.kit.process.pipes import InputStopped, LineSplitter, LineTooLong, WakePipe, Writable, chunks
from mcp_ref.kit.threads.deadline import CLOSED, Deadline, acquire, has_ended, holding

log = logging.getLogger(__name__)

IN_PART = "a message was written only in part"  # by a write that timed out, or was interrupted, in mid-line

_LAST_TIMEOUT = 0.25  # seconds that a reader gets beyond the deadline, to drop what a flood has left

_VERDICT_TIMEOUT = 1.5  # seconds that a failed write waits for the reader to find out why


class LineTransport:
    """A transport of lines. A subclass opens the descriptors, and says what the end of input means.

    Args:
        tap: is shown every line, if there is one.
        limit: bytes that an inbound line may have; a longer one ends the connection.
    """

    name = "lines"
    encode: Callable[[Any], bytes]  # the text of a message, without a line break

    def __init__(self, tap: Any, limit: int) -> None:
        self._tap, self._limit = tap, limit
        self._read_fd = self._write_fd = -1
        self._no_reading, self._no_writing = WakePipe(), WakePipe()
        self._watched: dict[int, str] = {}  # descriptors whose readiness ends the connection, and what that means
        self._give_back = ExitStack()  # what is to be done when nothing is read or written any more
        self._threads: list[threading.Thread] = []
        self._started = self._closed = self._heard = self._gives_up = False
        # Why nothing can be sent: the first reason stays; of two at once either will do. And what `lost` was told.
        self._broken: str | None = "the transport has not been started"
        self._reason: str | None = None
        self._told = threading.Event()  # set once _reason is there
        self._write_lock = threading.RLock()  # guards: _write_fd, what is written to it, and the notes of what is sent
        # No fields: these two say whose turn it is. So they may be held during a join; nobody who is joined wants them.
        self._starting, self._closing = threading.RLock(), threading.RLock()

    # -- what a subclass says

    def _open(self) -> None:
        """Set `_read_fd` and `_write_fd`; what else is opened is given back by `_give_back`."""
        raise NotImplementedError

    def _release(self) -> None:
        """Give back all that was opened but `_write_fd`. Called again, it goes on where Ctrl-C has ended it."""
        self._no_reading.close()
        self._give_back.close()

    def _skips(self, line: bytes) -> bool:
        """Return whether to skip a line that cannot be a message; else it is handed on, to be refused."""
        return False

    def _why_ended(self, found: str | None) -> str:
        """Return the reason as the user reads it; None was found where the input simply ended."""
        raise NotImplementedError

    # -- beginning

    def start(self, receive: Callable[[bytes], None], lost: Callable[[TransportClosed], None]) -> None:
        """Begin to deliver each line to `receive`, as bytes without the line break; see `Transport.start`."""
        with self._starting:
            if self._started:
                raise RuntimeError("a transport is started once")
            self._started = True
            self._receive, self._lost = receive, lost
            try:
                if not self._closed:
                    # First: had one of the standard descriptors been closed, a pipe of ours would get its number.
                    self._open()
                    self._no_reading.open()
                    self._no_writing.open()
                    self._room = Writable(self._write_fd, self._no_writing)
                    self._broken = None
                if self._closed:
                    raise TransportClosed(CLOSED)
                # Daemon: a program that ends without close() must end, though the peer has not.
                self._threads.append(threading.Thread(target=self._read, name="mcp-stdio-reader", daemon=True))
                for thread in self._threads:
                    thread.start()
            except BaseException as problem:
                self._end(Deadline(1.0))
                if isinstance(problem, OSError) and not isinstance(problem, TransportClosed):
                    raise TransportClosed(f"the transport could not be started: {problem}") from None
                raise

    # -- writing

    def exchange(self, message: Any, pending: Any, deadline: Deadline) -> None:
        """Write a request, and wait until it is over; see `Transport.exchange`."""
        self.send(message, deadline)
        pending.sent = True
        pending.take(deadline)

    def send(self, message: Any, deadline: Deadline) -> None:
        """Write one message as one line; see `Transport.send`.

        Blocks: until the peer has read enough for the line to fit, at most until the deadline.
        """
        line = self.encode(message) + b"\n"
        rest = memoryview(line)
        # 1. Its turn.
        acquire(self._write_lock, deadline, "waiting for another message to be written")
        try:
            # 2. The note, before the write: the answer could be noted first otherwise.
            if self._tap is not None and self._broken is None:
                self._tap.note("send", message)
            # 3. The bytes, as there is room for them.
            try:
                ready = self._broken is not None or not self._room.blocks
                while rest and (ready or self._room.wait(deadline)) and self._broken is None:
                    try:
                        rest = rest[os.write(self._write_fd, rest[: self._room.portion]) :]
                        ready = not self._room.blocks
                    except BlockingIOError:
                        ready = False
                    except OSError as problem:
                        self._break(f"the peer has stopped reading ({problem.strerror})")
            except BaseException as problem:
                # A time-out comes between two writes; Ctrl-C may hide how much was written.
                if len(rest) < len(line) or not isinstance(problem, RequestTimeout):
                    self._break(IN_PART)
                raise
        finally:
            self._write_lock.release()
        # 4. What became of it. The reader knows more than the writer, when it has got to the end.
        if rest:
            if self._threads and not self._closed and self._broken != IN_PART:
                self._told.wait(deadline.at_most(_VERDICT_TIMEOUT))
            raise TransportClosed(self._reason or self._broken or CLOSED)

    def _break(self, reason: str) -> None:
        """Send nothing from now on, and end the reader when it has read what is there."""
        self._broken = self._broken or reason
        self._no_writing.set()
        self._no_reading.set()

    # -- reading

    def _read(self) -> None:
        """Hand on line after line, then say once why they ended: the thread `mcp-stdio-reader`."""
        splitter, bom = LineSplitter(self._limit), BOM_UTF8  # which may stand before the first line
        try:
            # The last line may lack its newline: a whole message ends with a brace, so no part passes for one.
            for chunk in chain(chunks(self._read_fd, {self._no_reading.fd: CLOSED, **self._watched}), (b"\n",)):
                for line in splitter.feed(chunk):
                    if self._gives_up:
                        break
                    line, bom = line.removeprefix(bom).strip(b" \t\r"), b""
                    if line[:1] not in (b"{", b"[") and (not line or self._skips(line)):
                        continue
                    if self._tap is not None:
                        self._tap.note("receive", line)
                    self._heard = True
                    self._receive(line)
            found = None
        except InputStopped as stop:
            found = self._broken or str(stop)
        except (OSError, LineTooLong) as problem:
            found = str(problem)
        except Exception as problem:
            log.exception("the reader of %s failed", self.name)
            found = f"reading failed: {problem!r}"
        self._reason = CLOSED if self._closed else self._why_ended(found)
        self._told.set()
        self._lost(TransportClosed(self._reason))

    # -- ending

    def close(self, deadline: Deadline) -> None:
        """End the connection, and the thread that reads; see `Transport.close`.

        Whoever waits in `send` gets `TransportClosed`. The reader ends, because it waits in `poll` alone, and that
        returns when this is called; `receive`, which it may be in, only routes. A second caller waits for the first.

        Threads: any, also within `lost`.
        """
        self._closed = True
        # Whoever closes waits for the transport's threads: one of those must not wait for it.
        own = threading.current_thread() in self._threads
        try:
            with holding(self._closing, Deadline(0) if own else deadline, "closing"):
                with holding(self._starting, deadline, "closing"):
                    self._end(deadline)
        except RequestTimeout:
            # Another close() is at work; or a start() that takes longer, and ends on its own, since _closed is set.
            return

    def _end(self, deadline: Deadline) -> None:
        """End the threads, then give the descriptors back; what is still used stays open for another `close`."""
        self._break(CLOSED)
        # What is left of a flood is no longer looked at: nobody waits for it.
        self._gives_up = not self._join(deadline)
        if self._gives_up and not self._join(Deadline(_LAST_TIMEOUT)):
            log.warning("%s: still busy after close: %s", self.name, [t.name for t in self._threads if t.is_alive()])
        elif self._close_output(deadline):
            self._release()
        else:
            log.warning("%s: still writing after close", self.name)

    def _close_output(self, deadline: Deadline) -> bool:
        """Close what is written to; False if a write still goes on at the deadline."""
        try:
            with holding(self._write_lock, deadline, "closing"):
                write_fd, self._write_fd = self._write_fd, -1
                if write_fd >= 0:
                    os.close(write_fd)
                self._no_writing.close()
            return True
        except RequestTimeout:
            return False

    def _join(self, deadline: Deadline) -> bool:
        """Wait for the threads. Returns True if they have ended (one that calls this in `lost` counts as ended)."""
        return all(has_ended(thread, deadline) for thread in self._threads)
