"""Standard in and standard out, out of everybody's reach while they carry messages.

Spec:      basic/transports#stdio
Upholds:   spec_notes/basic/transports.md, the row on what a server writes to standard out
Not here:  who does this and when (stdio)
"""

from __future__ import annotations

import io
import logging
import os
import select
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mcp_ref import messages
from mcp_ref.basic.transports.transport import Inbox, Receive, Tap
from mcp_ref.errors import McpError, TransportClosed
from mcp_ref.machinery.child import Child, Stderr, StderrReader, merged_environment, shown
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.pipes import CHUNK, HAS_POLL, LineSplitter, LineTooLong, Wake, milliseconds, seconds
from mcp_ref.messages import JsonObject

log = logging.getLogger(__name__)


def take() -> tuple[int, int]:
    """Give copies of descriptors 0 and 1 that no child process inherits; 0 is then empty, 1 leads to standard error.

    Raises:
        OSError: one of them is not open; nothing was changed.
    """
    read_fd = _copy(0)
    try:
        write_fd = _copy(1)
    except OSError:
        os.close(read_fd)
        raise
    _point(0, os.open(os.devnull, os.O_RDONLY))
    # MUST NOT: anything on stdout that is not a valid MCP message (basic/transports#stdio)
    os.dup2(_stderr(), 1)
    _print_by_line()
    return read_fd, write_fd


def unshared(write_fd: int) -> int:
    """The same pipe, opened anew so that writing to it does not block; `write_fd` itself where that cannot be had.

    To set O_NONBLOCK on `write_fd` would do it to everybody who shares that open file: the client, other processes. A
    pipe can be opened a second time on Linux; a socket, a terminal or another user's pipe cannot, or should not.
    """
    if not (sys.platform == "linux" and stat.S_ISFIFO(os.fstat(write_fd).st_mode)):
        return write_fd
    try:
        return os.open(f"/proc/self/fd/{write_fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return write_fd


def restore(read_fd: int, write_fd: int) -> None:
    """Undo `take()`; the copies stay open, and the caller's."""
    _flush_prints()
    os.dup2(read_fd, 0)
    os.dup2(write_fd, 1)


def _copy(fd: int) -> int:
    """Another number for a descriptor, above the standard three even if one of those is closed; never inherited."""
    if sys.platform == "win32":
        return os.dup(fd)
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _stderr() -> int:
    """Standard error; it leads to nowhere if it was closed, lest another file get the number 2."""
    try:
        os.fstat(2)
    except OSError:
        _point(2, os.open(os.devnull, os.O_WRONLY))
    return 2


def _point(number: int, fd: int) -> None:
    """Make a standard descriptor, which child processes do inherit, mean what `fd` means; `fd` itself is closed."""
    if fd == number:
        os.set_inheritable(fd, True)
        return
    os.dup2(fd, number)
    os.close(fd)


def _print_by_line() -> None:
    """Have each line that is printed reach standard error when it ends; into a pipe it would go 8 KiB at a time."""
    # Setting it flushes what was printed before, hence the question for room.
    if isinstance(sys.stdout, io.TextIOWrapper) and _room_for_prints():
        try:
            sys.stdout.reconfigure(line_buffering=True)
        except OSError:
            return


def _flush_prints() -> None:
    """Let out what was printed and not yet written, while standard out still leads to standard error."""
    if sys.stdout is not None and _room_for_prints():
        try:
            sys.stdout.flush()
        except OSError:
            return


def _room_for_prints() -> bool:
    """Whether standard out takes something now; where nobody reads it, to flush would be to wait for ever."""
    if sys.stdout.closed:
        return False
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    return bool(poll.poll(0))


# -- stdio -----------------------------------------------------------------------------------------------


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
        inbox.sent = True
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
            self._read_fd, self._taken_fd = take()
        except OSError as problem:
            raise TransportClosed(f"standard in or standard out is not open: {problem}") from None
        self._write_fd = unshared(self._taken_fd)
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
            restore(read_fd, self._taken_fd)
        super()._give_back(read_fd, write_fd)
        super()._give_back(self._parent_fd, -1 if self._taken_fd == write_fd else self._taken_fd)
        self._parent_fd = self._taken_fd = -1


# -- stdio client ----------------------------------------------------------------------------------------


_LAST_WORDS = 1.0  # seconds between the end of the output and what is said about it: for the exit code and stderr
_REAP = 0.25  # seconds that the system gets to end what SIGKILL ended, even when the deadline has passed


class StdioClientTransport(StdioTransport):
    """The client's side: a server as a child process, messages over its standard in and out.

    Args:
        command: the program and its arguments, each a string. A single string is refused: no shell takes it apart.
        env: variables to add or to change; None as a value takes one away. The rest of this process's environment is
            passed on as it is, secrets in it too.
        cwd: the server's working directory; None for this process's.
        stderr: what becomes of the server's standard error. "capture": each line is logged at level INFO; "inherit": it
            goes where ours goes; "ignore": nowhere; a function: it is called with each line, in a thread of its own.
            Captured or given to a function, the last 20 lines are quoted when the server ends by itself.
        grace: seconds that `close()` waits after closing standard in, and again after SIGTERM, if its deadline allows.
        tap: is shown every message, and every line of standard error that is captured.

    The process is launched by `start()`, in a session of its own. The connection is lost when the server ends or closes
    its output; the reason given has its exit code and last words. A line that cannot be a message is not one: the first
    is logged as a warning, more of them as debugging.

    Spec: basic/transports#stdio
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Stderr = "capture",
        grace: float = 2.0,
        tap: Tap | None = None,
    ) -> None:
        if isinstance(command, (str, bytes)):
            raise TypeError(f"command is a list of the program and its arguments, not {command!r}")
        if not command:
            raise ValueError("command is empty")
        if not callable(stderr) and stderr not in ("capture", "inherit", "ignore"):
            raise ValueError(f'stderr is "capture", "inherit", "ignore" or a function, not {stderr!r}')
        super().__init__(tap)
        self._command = list(command)
        self._env, self._cwd = env, cwd
        self._stderr = stderr
        self._grace = grace
        self._child: Child | None = None
        self._stderr_reader: StderrReader | None = None
        self._noise = 0

    @property
    def exit_code(self) -> int | None:
        """The server's exit code, negative for a signal; None while it runs, and before `start()`. Threads: any."""
        return None if self._child is None else self._child.exit_code(Deadline(0))

    # -- beginning -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        stderr: int | None = None
        if self._stderr == "ignore":
            stderr = subprocess.DEVNULL
        elif self._stderr != "inherit":
            listener = None if isinstance(self._stderr, str) else self._stderr
            self._stderr_reader = StderrReader(listener, self._tap)
            self._stderr_reader.open()
            stderr = self._stderr_reader.child_fd
        self._child = Child(self._command, merged_environment(self._env), self._cwd, stderr)
        self._read_fd, self._write_fd = self._child.stdout_fd, self._child.stdin_fd
        if self._stderr_reader is not None:
            self._stderr_reader.close_child_end()
        if HAS_POLL:
            # This end of the pipe is ours alone, so nobody else is surprised.
            os.set_blocking(self._write_fd, False)

    def _new_threads(self) -> list[threading.Thread]:
        stderr = [self._stderr_reader.thread] if self._stderr_reader is not None else []
        return [*stderr, *super()._new_threads()]

    # -- reading ---------------------------------------------------------------------------------------------------

    def _hand_on(self, line: bytes) -> None:
        if line.lstrip()[:1] in (b"{", b"[", b""):
            super()._hand_on(line)
            return
        # The server broke a MUST NOT (basic/transports#stdio); what it printed is no reason to lose the session.
        level = logging.DEBUG if self._noise else logging.WARNING
        self._noise += 1
        start = str(line[:200], "utf-8", "replace")
        log.log(level, "the server %r printed what is no message: %r", shown(self._command), start)

    def _ended(self, found: str) -> str:
        """Why the server is gone; its process and its standard error may end a moment after its output."""
        self._break(found)
        # What this side did is no sign that the server ends.
        child, deadline = self._child, Deadline(0.0 if found == IN_PART else _LAST_WORDS)
        code = None if child is None else child.exit_code(deadline)
        name = f"the server {shown(self._command)!r}"
        if code is None:
            what = "it closed its output" if found == "end of input" else found
            return f"{name} can be talked to no more: {what}"
        how = f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
        return f"{name} {how}{self._last_words(deadline)}"

    def _last_words(self, deadline: Deadline) -> str:
        reader = self._stderr_reader
        if reader is None:
            return ""
        if reader.thread is not threading.current_thread():
            reader.thread.join(deadline.left())
        lines = reader.tail()
        return "; its last words:\n" + "\n".join(f"    {line}" for line in lines) if lines else ""

    # -- ending ----------------------------------------------------------------------------------------------------

    def close(self, deadline: Deadline) -> None:
        """End the server and the connection, in the order of the specification; see `Transport.close`.

        Its standard in is closed; what still runs after `grace` seconds gets SIGTERM, then SIGKILL: the server with its
        process group. Meanwhile what it still says is read, so that it is not kept from ending. A part of the group
        that holds the pipes open counts as the server; another is left alone.

        Whoever waits in `send` gets `TransportClosed`. The reader and the reader of standard error end with their
        pipes, and where somebody holds those open, by a pipe of their own which they also wait for. A function given
        for standard error is the only thing that can keep a thread: it is left behind then, and named in a warning.

        Blocks: at most until the deadline, and a quarter of a second for the system to end what SIGKILL ended.
        Threads: any, also within `lost`.

        Spec: basic/lifecycle#stdio
        """
        super().close(deadline)

    def _end(self, deadline: Deadline) -> None:
        # The order is that of basic/lifecycle#stdio. First: no more input.
        self._close_input(deadline)
        if self._child is not None:
            self._end_child(self._child, deadline)
        if self._stderr_reader is not None:
            self._stderr_reader.stop()
        super()._end(self._last(deadline))
        if self._child is not None and not self._child.reap():
            log.warning("the server %r does not end, even by SIGKILL", shown(self._command))

    def _close_input(self, deadline: Deadline) -> None:
        self._broken = self._broken or CLOSED
        # The reader goes on: a server with much to say could not exit otherwise.
        self._no_writing.set()
        if self._write_lock.acquire(timeout=_share(self._grace, deadline)):
            try:
                if self._write_fd >= 0:
                    os.close(self._write_fd)
                self._write_fd = -1
            finally:
                self._write_lock.release()

    def _end_child(self, child: Child, deadline: Deadline) -> None:
        # Second: time to exit, or else SIGTERM.
        if self._gone(child, Deadline(_share(self._grace, deadline))):
            return
        child.terminate()
        # Third: time to exit again, or else SIGKILL.
        if self._gone(child, Deadline(_share(self._grace, deadline))):
            return
        child.kill()
        child.exit_code(self._last(deadline))

    def _gone(self, child: Child, deadline: Deadline) -> bool:
        """Wait until the process has exited and nobody holds its pipes."""
        return child.exit_code(deadline) is not None and self._join(deadline)

    def _last(self, deadline: Deadline) -> Deadline:
        left = deadline.left()
        return Deadline(max(_REAP, self._grace if left is None else left))

    def _give_back(self, read_fd: int, write_fd: int) -> None:
        super()._give_back(read_fd, write_fd)
        if self._stderr_reader is not None:
            self._stderr_reader.close()
        if self._child is not None:
            self._child.close()


def _share(grace: float, deadline: Deadline) -> float:
    """Seconds for one of the waits: the grace, but no more than two fifths of what is left."""
    left = deadline.left()
    return grace if left is None else min(grace, 0.4 * left)
