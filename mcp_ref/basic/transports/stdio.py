"""stdio: one message a line over standard in and standard out; the server's side, and what both sides share.

Spec:      basic/transports#stdio; basic/lifecycle#stdio; 2026-07-28/basic/transports/stdio
Upholds:   spec_notes/basic/transports.md, the rows on stdio; spec_notes/basic/transports/stdio.md
Reads:     lines, standard_streams, transport (its contract), basic/messages, basic/deadline
Not here:  launching and ending a server (stdio_client, child)

The way of a message: `exchange` -> `send` -> `_write` -> the descriptor; and back: `_read` -> `receive`, in the thread
`mcp-stdio-reader`, which is also the only one that ever calls `lost`: hence once.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Iterator
from typing import Any

from mcp_ref.basic import messages
from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.transports import standard_streams
from mcp_ref.basic.transports.lines import CHUNK, HAS_POLL, LineSplitter, LineTooLong, Wake, milliseconds, seconds
from mcp_ref.basic.transports.transport import Inbox, Receive, Tap
from mcp_ref.errors import McpError, TransportClosed

__all__ = ["CLOSED", "IN_PART", "StdioServerTransport", "StdioTransport"]

JsonObject = dict[str, Any]

log = logging.getLogger(__name__)

CLOSED = "closed by this side"
"""The reason of an end that `close()` brought about."""

IN_PART = "a message was written only in part"
"""The reason of an end that a write brought about which ran out of time, or was interrupted, in mid-line."""

_BLANK = b" \t\r"
_AFTERMATH = 1 << 20  # bytes read at most after the end was announced: no pipe holds more than that
_VERDICT = 1.5  # seconds that a failed write waits for the reader to find out why


class StdioTransport:
    """What both roles share: writing lines with a deadline, and one thread that reads them.

    A subclass opens the two descriptors in `_open`, and gives them back in `_give_back`.
    """

    name = "stdio"

    max_line = 64 * 1024 * 1024
    """Bytes that an inbound line may have; a longer one ends the connection."""

    def __init__(self, tap: Tap | None) -> None:
        self._tap = tap
        self._read_fd = self._write_fd = -1
        self._watched: dict[int, str] = {}  # descriptors whose readiness ends the connection, and what that means
        self._no_reading, self._no_writing = Wake(), Wake()
        self._threads: list[threading.Thread] = []
        self._started = self._closed = False
        # Why nothing can be sent: the first reason stays; of two at once either will do. And what `lost` was told.
        self._broken: str | None = None
        self._reason: str | None = None
        self._told = threading.Event()  # set once _reason is there
        self._write_lock = threading.Lock()  # guards: _write_fd, what is written to it, and the notes of what is sent
        # No fields: these two say whose turn it is. So they may be held during a join; nobody who is joined wants them.
        self._starting = threading.Lock()
        self._closing = threading.Lock()

    # -- beginning -------------------------------------------------------------------------------------------------

    def start(self, receive: Receive, lost: Callable[[McpError], None]) -> None:
        """Begin to deliver each line to `receive`, as bytes without the line break; see `Transport.start`.

        Raises:
            TransportClosed: it was closed before, or there is nothing to talk to; `lost` is not called then.
            RuntimeError: it was started before.
        """
        with self._starting:
            if self._started:
                raise RuntimeError("a transport is started once")
            self._started = True
            self._receive, self._lost = receive, lost
            try:
                self._open_all()
            except BaseException as problem:
                self._end(Deadline(1.0))
                if isinstance(problem, OSError) and not isinstance(problem, TransportClosed):
                    raise TransportClosed(f"the transport could not be started: {problem}") from None
                raise

    def _open_all(self) -> None:
        self._refuse_if_closed()
        # First: had one of the standard descriptors been closed, a pipe of ours would get its number.
        self._open()
        self._no_reading.open()
        self._no_writing.open()
        # Only a descriptor that blocks must be asked for room before each write, and then it has room for this much.
        self._ask_first = HAS_POLL and os.get_blocking(self._write_fd)
        self._portion = select.PIPE_BUF if self._ask_first else None
        if HAS_POLL:
            self._room_poll = select.poll()
            self._room_poll.register(self._write_fd, select.POLLOUT)
            self._room_poll.register(self._no_writing.fd, select.POLLIN)
        self._refuse_if_closed()
        for thread in self._new_threads():
            self._threads.append(thread)
            thread.start()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise TransportClosed(CLOSED)

    def _new_threads(self) -> list[threading.Thread]:
        # Daemon: a program that ends without close() must end, though the peer has not.
        return [threading.Thread(target=self._read, name="mcp-stdio-reader", daemon=True)]

    def _open(self) -> None:
        """Set `_read_fd` and `_write_fd`."""
        raise NotImplementedError

    def _give_back(self, read_fd: int, write_fd: int) -> None:
        """Close the descriptors that are not -1; no thread uses them any more."""
        for fd in (read_fd, write_fd):
            if fd >= 0:
                os.close(fd)

    # -- writing ---------------------------------------------------------------------------------------------------

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """Write a request, and give what arrives in its inbox; see `Transport.exchange`."""
        self.send(message, deadline)
        return inbox.until(deadline)

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """Write one message (or a batch) as one line.

        Blocks: until the peer has read enough for the line to fit, at most until the deadline. A line of which only a
            part could be written ends the connection, since nothing else could follow it.
        Threads: any.
        Raises:
            RequestTimeout: the deadline passed.
            TransportClosed: nothing can be written any more; the text says why.
            LocalProtocolError: it is not JSON; nothing was written.

        Spec: basic/transports#stdio
        """
        # MUST NOT: contain embedded newlines (basic/transports#stdio). The encoder writes none.
        written = self._write(message, messages.encode(message) + b"\n", deadline)
        if not written:
            raise self._refusal(deadline)
        if self._tap is not None:
            self._tap.deliver()

    def _write(self, message: Any, line: bytes, deadline: Deadline) -> bool:
        """Write the line whole, alone; False when the connection is over."""
        # Ctrl-C may land right after a lock was got or bytes were written, and then the result would be gone. So both
        # are called by `map` within `extend`: what C does in one step is either not done or remembered.
        held: list[bool] = []
        written: list[int] = []
        try:
            # Free, as a rule; only else there is a reason to look at the clock.
            held.extend(map(self._write_lock.acquire, (False,)))
            while True not in held:
                held.extend(map(self._write_lock.acquire, (True,), (seconds(deadline),)))
                if not held[-1]:
                    deadline.check("waiting for another message to be written")
            if self._broken is not None or self._write_fd < 0:
                return False
            if self._tap is not None:
                # Before the write: else the answer could be noted first.
                self._tap.note("send", message)
            rest, ready = memoryview(line), not self._ask_first
            while rest:
                if not (ready or self._room(deadline)):
                    return False
                try:
                    written.extend(map(os.write, (self._write_fd,), (rest[: self._portion],)))
                    rest, ready = rest[written[-1] :], not self._ask_first
                except BlockingIOError:
                    ready = False
                except OSError as problem:
                    self._break(f"the peer reads no more ({problem.strerror})")
                    return False
            return True
        finally:
            try:
                if 0 < sum(written) < len(line):
                    self._break(IN_PART)
            finally:
                if True in held:
                    self._write_lock.release()

    def _room(self, deadline: Deadline) -> bool:
        """Wait until the descriptor takes something; False when the connection ended first."""
        # O_NONBLOCK instead would belong to everybody who shares this open file: the terminal, the shell, other
        # processes. So a descriptor that blocks stays so, and is written to in portions that fit once poll sees room.
        while True:
            ready = self._room_poll.poll(milliseconds(deadline))
            if self._broken is not None:
                return False
            if ready:
                return True
            deadline.check("writing: the peer does not read")

    def _break(self, reason: str) -> None:
        """From now on nothing is sent, and the reader ends when it has read what is there."""
        self._broken = self._broken or reason
        self._no_writing.set()
        self._no_reading.set()

    def _refusal(self, deadline: Deadline) -> TransportClosed:
        """Why nothing was written; the reader knows more than the writer, when it has got to the end."""
        if self._threads and not self._closed and self._broken != IN_PART:
            left = deadline.left()
            self._told.wait(_VERDICT if left is None else min(left, _VERDICT))
        return TransportClosed(self._reason or self._broken or "the transport has not been started")

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            found = self._read_lines()
        except (OSError, LineTooLong) as problem:
            found = str(problem)
        except Exception as problem:
            log.exception("the reader of %s failed", self.name)
            found = f"reading failed: {problem!r}"
        self._reason = CLOSED if self._closed else self._ended(found)
        self._told.set()
        self._lost(TransportClosed(self._reason))

    def _read_lines(self) -> str:
        """Hand on lines until the end; says what the end was."""
        splitter, wait = LineSplitter(self.max_line), self._reading_poll()
        aftermath = 0
        while True:
            ready = wait()
            if self._read_fd not in ready or aftermath > _AFTERMATH:
                return next((self._watched[fd] for fd in ready if fd in self._watched), None) or self._broken or CLOSED
            chunk = self._chunk()
            if chunk == b"":
                # Unlike a truncated object, a whole one can be told by its last brace: nothing wrong gets through.
                self._hand_on(splitter.take())
                return "end of input"
            for line in splitter.feed(chunk or b""):
                self._hand_on(line)
            if len(ready) > 1:
                aftermath += len(chunk or b"")

    def _reading_poll(self) -> Callable[[], list[int]]:
        """What waits until there is something to read, or no reason to: it gives the descriptors that are ready."""
        if not HAS_POLL:
            return lambda: [self._read_fd]
        poll = select.poll()
        for fd in (self._read_fd, self._no_reading.fd, *self._watched):
            poll.register(fd, select.POLLIN)
        # Without a bound: the end of the input ends it, or _no_reading, which close() sets.
        return lambda: [fd for fd, _ in poll.poll()]

    def _chunk(self) -> bytes | None:
        """What is there: empty at the end of the input, None when somebody who shares the descriptor was faster."""
        try:
            return os.read(self._read_fd, CHUNK)
        except BlockingIOError:
            return None

    def _hand_on(self, line: bytes) -> None:
        line = line.strip(_BLANK)
        if not line:
            return
        if self._tap is not None:
            self._tap.note("receive", line)
        self._receive(line)
        if self._tap is not None:
            self._tap.deliver()

    def _ended(self, found: str) -> str:
        """Do what the end of reading means for writing; gives the reason as the caller will read it."""
        return found

    # -- ending ----------------------------------------------------------------------------------------------------

    def close(self, deadline: Deadline) -> None:
        """End the connection, and the thread that reads; see `Transport.close`.

        Whoever waits in `send` gets `TransportClosed`. The reader ends, because it waits in `poll` alone, and that
        returns when this is called; `receive`, which it may be in, only routes. A second caller waits for the first.

        Blocks: at most until the deadline.
        Threads: any, also within `lost`.

        Spec: basic/lifecycle#stdio
        """
        self._closed = True
        # Somebody who closes waits for the transport's threads: one of those must not wait for him.
        own = threading.current_thread() in self._threads
        if not self._closing.acquire(timeout=0 if own else seconds(deadline)):
            return
        try:
            # A start() that takes longer than this ends on its own, since _closed is set.
            if self._starting.acquire(timeout=seconds(deadline)):
                try:
                    self._end(deadline)
                finally:
                    self._starting.release()
        finally:
            self._closing.release()

    def _end(self, deadline: Deadline) -> None:
        self._break(CLOSED)
        if self._join(deadline):
            self._release(deadline)
        else:
            log.warning("%s: still busy after close: %s", self.name, [t.name for t in self._threads if t.is_alive()])

    def _join(self, deadline: Deadline) -> bool:
        """Wait for the threads; whether they have ended (one that calls this in `lost` has, for our purpose)."""
        current = threading.current_thread()
        others = [thread for thread in self._threads if thread is not current and thread.ident is not None]
        for thread in others:
            thread.join(deadline.left())
        return not any(thread.is_alive() for thread in others)

    def _release(self, deadline: Deadline) -> None:
        """Give all descriptors back, now that no thread reads."""
        if not self._write_lock.acquire(timeout=seconds(deadline)):
            log.warning("%s: still writing after close", self.name)
            return
        try:
            write_fd, self._write_fd = self._write_fd, -1
        finally:
            self._write_lock.release()
        read_fd, self._read_fd = self._read_fd, -1
        self._give_back(read_fd, write_fd)
        self._no_reading.close()
        self._no_writing.close()


class StdioServerTransport(StdioTransport):
    """The server's side: messages come on standard in, and go to standard out.

    From `start()` to `close()` descriptor 0 is empty and descriptor 1 leads to standard error, so that neither a
    `print`, nor C code, nor a process that a handler starts can write into the messages, or read them away. What was
    printed meanwhile thus is logging. The connection is lost at the end of the input, when nobody reads the output any
    more, and (on Linux) when the process that started this one has ended, even if a third one holds the pipes.

    Args:
        read_fd, write_fd: descriptors to use instead, which become the transport's: `close()` closes them. Nothing else
            is touched then. Both or none.
        tap: is shown every message.

    Spec: basic/transports#stdio
    """

    def __init__(self, *, read_fd: int | None = None, write_fd: int | None = None, tap: Tap | None = None) -> None:
        if (read_fd is None) != (write_fd is None):
            raise ValueError("read_fd and write_fd are given together, or not at all")
        super().__init__(tap)
        self._given = None if read_fd is None or write_fd is None else (read_fd, write_fd)
        self._parent_fd = -1
        self._taken_fd = -1  # standard out as it was, to be put back; _write_fd is the same or was made from it

    def _open(self) -> None:
        if self._given is not None:
            self._read_fd, self._write_fd = self._given
            return
        try:
            self._read_fd, self._taken_fd = standard_streams.take()
        except OSError as problem:
            raise TransportClosed(f"standard in or standard out is not open: {problem}") from None
        self._write_fd = standard_streams.unshared(self._taken_fd)
        self._watch_parent()

    def _watch_parent(self) -> None:
        # Process 1 adopts: as a parent it says nothing about who started us. Without pidfd the input's end must do.
        if hasattr(os, "pidfd_open") and os.getppid() != 1:
            try:
                self._parent_fd = os.pidfd_open(os.getppid())
                self._watched[self._parent_fd] = "the process that started this server is gone"
            except OSError:
                return

    def _ended(self, found: str) -> str:
        # Writing goes on: a client that has no more to say may still want the answers.
        return "the client closed its end" if found == "end of input" else found

    def _give_back(self, read_fd: int, write_fd: int) -> None:
        if self._given is None and read_fd >= 0:
            standard_streams.restore(read_fd, self._taken_fd)
        super()._give_back(read_fd, write_fd)
        super()._give_back(self._parent_fd, -1 if self._taken_fd == write_fd else self._taken_fd)
        self._parent_fd = self._taken_fd = -1
