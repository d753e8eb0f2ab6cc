"""stdio: a server as a child process of its client, one message a line on its standard in and out.

A client launches the server, writes requests to its standard in and reads from its standard out; closing standard in is
how it says goodbye. Whatever the server has to say beside that goes to standard error.

Spec:      basic/transports#stdio; basic/lifecycle#stdio; basic/transports/stdio (2026-07-28)
Upholds:   spec_notes/basic/transports/stdio.md; spec_notes/basic/transports.md and spec_notes/basic/lifecycle.md, the
           rows on stdio
Not here:  lines out of bytes, and what wakes a reader (machinery/pipes); descriptors 0 and 1
           (machinery/standard_streams); the process and its standard error (machinery/child)
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from mcp_ref import messages
from mcp_ref.basic.transports.transport import MAX_MESSAGE, Inbox, Lost, Receive
from mcp_ref.errors import RequestTimeout, TransportClosed
from mcp_ref.machinery.arguments import check_command
from mcp_ref.machinery.deadline import CLOSED, Deadline, has_ended, hold
from mcp_ref.machinery.forks import opened_elsewhere
from mcp_ref.machinery.pipes import HAS_POLL, InputStopped, LineSplitter, LineTooLong, Room, Wake, chunks
from mcp_ref.machinery.standard_streams import StandardStreams, own_end
from mcp_ref.messages import JsonObject

if TYPE_CHECKING:
    from mcp_ref.machinery.child import Child
    from mcp_ref.trace.record import Tap

log = logging.getLogger(__name__)

IN_PART = "a message was written only in part"  # by a write that timed out, or was interrupted, in mid-line

Stderr = Literal["capture", "inherit", "ignore"] | Callable[[str], None]
"""What becomes of a server's standard error: logged, ours, thrown away, or each line given to a function."""

_VERDICT_TIMEOUT = 1.5  # seconds that a failed write waits for the reader to find out why
_LAST_WORDS_TIMEOUT = 1.0  # seconds between the end of a server's output and what is said of it: exit code and stderr
_REAP_TIMEOUT = 0.25  # seconds that the system gets to end what SIGKILL ended, even when the deadline has passed


class StdioTransport:
    """What both roles share: writing lines with a deadline, and one thread that reads them.

    A subclass opens what it needs in `_open`, and says in `_why_ended` what the end of reading means.
    """

    name = "stdio"

    def __init__(self, tap: Tap | None, max_message: int) -> None:
        self._tap, self._limit, self._process = tap, max_message, os.getpid()
        self._read_fd = self._write_fd = -1
        self._no_reading, self._no_writing = Wake(), Wake()
        self._watched: dict[int, str] = {}  # descriptors whose readiness ends the connection, and what that means
        self._threads: list[threading.Thread] = []
        self._started = self._closed = self._heard = False
        # Why nothing can be sent: the first reason stays; of two at once either will do. And what `lost` was told.
        self._broken: str | None = None
        self._reason: str | None = None
        self._told = threading.Event()  # set once _reason is there
        self._write_lock = threading.Lock()  # guards: _write_fd, what is written to it, and the notes of what is sent
        # No fields: these two say whose turn it is. So they may be held during a join; nobody who is joined wants them.
        self._starting, self._closing = threading.Lock(), threading.Lock()

    # -- beginning

    def start(self, receive: Receive, lost: Lost) -> None:
        """Begin to deliver each line to `receive`, as bytes without the line break; see `Transport.start`."""
        with self._starting:
            if self._started:
                raise RuntimeError("a transport is started once")
            self._started, self._process = True, os.getpid()
            self._receive, self._lost = receive, lost
            try:
                if not self._closed:
                    # First: had one of the standard descriptors been closed, a pipe of ours would get its number.
                    self._open()
                    self._no_reading.open()
                    self._no_writing.open()
                    self._room = Room(self._write_fd, self._no_writing)
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

    def _open(self) -> None:
        """Set `_read_fd` and `_write_fd`."""
        raise NotImplementedError

    def _release(self) -> None:
        """Give back all that was opened but `_write_fd`. Called again, it goes on where Ctrl-C has ended it."""
        self._no_reading.close()

    # -- writing

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """Write a request, and give what arrives in its inbox; see `Transport.exchange`."""
        self.send(message, deadline)
        inbox.sent = True
        return inbox.until(deadline)

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """Write one message (or a batch) as one line.

        Blocks: until the peer has read enough for the line to fit, at most until the deadline. A line of which only a
            part could be written ends the connection, since nothing else could follow it.
        Raises: see `Transport.send`.
        """
        if self._process != os.getpid():
            raise opened_elsewhere("the transport", self._process)
        # MUST NOT: a message contains embedded newlines; the encoder writes none (basic/transports#stdio;
        # basic/transports/stdio#)
        # MUST NOT: a client writes anything but messages to the server's standard in (basic/transports#stdio;
        # basic/transports/stdio#)
        line = messages.encode(message) + b"\n"
        # As in `hold`: what a call has done must be known, however close to it Ctrl-C comes.
        held: list[bool] = []
        written: list[int] = []
        try:
            # 1. Its turn.
            hold(self._write_lock, held, deadline, "waiting for another message to be written")
            rest = memoryview(line if self._broken is None and self._write_fd >= 0 else b"")
            # 2. The note, before the write: the answer could be noted first otherwise.
            if rest and self._tap is not None:
                self._tap.note("send", message)
            # 3. The bytes, as there is room for them.
            ready = bool(rest) and not self._room.blocks
            while rest and (ready or self._room.wait(deadline)) and self._broken is None:
                try:
                    written.extend(map(os.write, (self._write_fd,), (rest[: self._room.portion],)))
                    rest, ready = rest[written[-1] :], not self._room.blocks
                except BlockingIOError:
                    ready = False
                except OSError as problem:
                    self._break(f"the peer has stopped reading ({problem.strerror})")
                    break
        finally:
            try:
                if 0 < sum(written) < len(line):
                    self._break(IN_PART)
            finally:
                if held:
                    self._write_lock.release()
        # 4. What became of it. The reader knows more than the writer, when it has got to the end.
        if sum(written) < len(line):
            if self._threads and not self._closed and self._broken != IN_PART:
                self._told.wait(deadline.at_most(_VERDICT_TIMEOUT))
            raise TransportClosed(self._reason or self._broken or "the transport has not been started")
        if self._tap is not None:
            self._tap.deliver()

    def _break(self, reason: str) -> None:
        """From now on nothing is sent, and the reader ends when it has read what is there."""
        self._broken = self._broken or reason
        self._no_writing.set()
        self._no_reading.set()

    # -- reading

    def _read(self) -> None:
        """The thread `mcp-stdio-reader`: hand on line after line, then say once why they ended."""
        splitter = LineSplitter(self._limit)
        try:
            # The last line may lack its newline: a whole message ends with a brace, so no part passes for one.
            for chunk in chain(chunks(self._read_fd, {self._no_reading.fd: CLOSED, **self._watched}), (b"\n",)):
                for line in splitter.feed(chunk):
                    line = line.strip(b" \t\r")
                    if line[:1] not in (b"{", b"[") and (not line or self._is_noise(line)):
                        continue
                    if self._tap is not None:
                        self._tap.note("receive", line)
                    self._heard = True
                    self._receive(line)
                    if self._tap is not None:
                        self._tap.deliver()
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

    def _is_noise(self, line: bytes) -> bool:
        """Whether to skip a line that cannot be a message; else it is handed on, to be refused."""
        return False

    def _why_ended(self, found: str | None) -> str:
        """The reason as the user reads it; None was found where the input simply ended."""
        raise NotImplementedError

    # -- ending

    def close(self, deadline: Deadline) -> None:
        """End the connection, and the thread that reads; see `Transport.close`.

        Whoever waits in `send` gets `TransportClosed`. The reader ends, because it waits in `poll` alone, and that
        returns when this is called; `receive`, which it may be in, only routes. A second caller waits for the first.

        Threads: any, also within `lost`.
        """
        if self._process != os.getpid():
            return
        self._closed = True
        closing: list[bool] = []
        starting: list[bool] = []
        try:
            # Whoever closes waits for the transport's threads: one of those must not wait for it.
            own = threading.current_thread() in self._threads
            hold(self._closing, closing, Deadline(0) if own else deadline, "closing")
            hold(self._starting, starting, deadline, "closing")
            self._end(deadline)
        except RequestTimeout:
            # Another close() is at work; or a start() that takes longer, and ends on its own, since _closed is set.
            return
        finally:
            try:
                if starting:
                    self._starting.release()
            finally:
                if closing:
                    self._closing.release()

    def _end(self, deadline: Deadline) -> None:
        """End the threads, then give the descriptors back; what is still used stays open for another `close`."""
        self._break(CLOSED)
        if not self._join(deadline):
            log.warning("%s: still busy after close: %s", self.name, [t.name for t in self._threads if t.is_alive()])
        elif self._close_output(deadline):
            self._release()
        else:
            log.warning("%s: still writing after close", self.name)

    def _close_output(self, deadline: Deadline) -> bool:
        """Close what is written to; False if a write still goes on at the deadline."""
        held: list[bool] = []
        try:
            hold(self._write_lock, held, deadline, "closing")
            write_fd, self._write_fd = self._write_fd, -1
            if write_fd >= 0:
                os.close(write_fd)
            self._no_writing.close()
            return True
        except RequestTimeout:
            return False
        finally:
            if held:
                self._write_lock.release()

    def _join(self, deadline: Deadline) -> bool:
        """Wait for the threads; whether they have ended (one that calls this in `lost` has, for our purpose)."""
        return all(has_ended(thread, deadline) for thread in self._threads)


# -- the server's half --------------------------------------------------------------------------------------------


class StdioServerTransport(StdioTransport):
    """The server's side: messages come on standard in, and go to standard out.

    From `start()` to `close()` descriptor 0 is empty and descriptor 1 leads to standard error, so that neither a
    `print`, nor C code, nor a process that a handler starts can write into the messages, or read them away. What was
    printed meanwhile thus is logging. The connection is lost at the end of the input, when nobody reads the output any
    more, and (on Linux) when the process that started this one has ended, even if a third one holds the pipes.

    Args:
        read_fd, write_fd: descriptors to use instead, which become the transport's: `close()` closes them. Nothing else
            is touched then. Both or none.
        max_message: bytes that an inbound message may have; a longer one ends the connection.
        tap: is shown every message.

    Spec: basic/transports#stdio
    """

    def __init__(
        self,
        *,
        read_fd: int | None = None,
        write_fd: int | None = None,
        max_message: int = MAX_MESSAGE,
        tap: Tap | None = None,
    ) -> None:
        if (read_fd is None) != (write_fd is None):
            raise ValueError("read_fd and write_fd are given together, or not at all")
        super().__init__(tap, max_message)
        self._given = None if read_fd is None or write_fd is None else (read_fd, write_fd)
        self._give_back = ExitStack()  # what is to be done when nothing is read or written any more

    def _open(self) -> None:
        if self._given is not None:
            self._read_fd, self._write_fd = self._given
            self._give_back.callback(os.close, self._read_fd)
            return
        try:
            # MUST NOT: the server writes anything to its stdout that is not a valid MCP message; MAY: it writes to
            # stderr for logging, where all that is printed goes (basic/transports#stdio; basic/transports/stdio#)
            streams = StandardStreams()
        except OSError as problem:
            raise TransportClosed(f"standard in or standard out is not open: {problem}") from None
        self._give_back.callback(streams.restore)
        self._read_fd, self._write_fd = streams.read_fd, own_end(streams.write_fd)
        # Process 1 adopts: as a parent it says nothing about who started us. Without pidfd the input's end must do.
        if hasattr(os, "pidfd_open") and os.getppid() != 1:
            try:
                parent_fd = os.pidfd_open(os.getppid())
            except OSError:
                return
            self._watched[parent_fd] = "the process that started this server is gone"
            self._give_back.callback(os.close, parent_fd)

    def _release(self) -> None:
        super()._release()
        self._give_back.close()

    def _why_ended(self, found: str | None) -> str:
        # Writing goes on: a client that has nothing left to say may still want the answers.
        return "the client closed its end" if found is None else found


# -- the client's half --------------------------------------------------------------------------------------------


class StdioClientTransport(StdioTransport):
    """The client's side: a server as a child process, messages over its standard in and out.

    Args:
        command: the program and its arguments, each a string. A single string is refused: no shell takes it apart.
        tap: is shown every message, and every line of standard error that is captured.
        The others: see `client.config.Command`.

    The process is launched by `start()`, in a session of its own. The connection is lost when the server ends or closes
    its output; the reason given has its exit code and last words. A line that cannot be a message is skipped: the first
    is logged as a warning, more of them as debugging.

    `close` ends the server in the order of the specification. Its standard in is closed; what still runs after `grace`
    seconds gets SIGTERM, then SIGKILL: the server with its process group. Meanwhile what it still says is read, so that
    it is not kept from ending. A part of the group that holds the pipes open counts as the server; another is left
    alone. The reader and the reader of standard error end with their pipes, and where somebody holds those open, by a
    pipe of their own which they also wait for. A function given for standard error is the only thing that can keep a
    thread: it is left behind then, and named in a warning. Beyond the deadline it takes a quarter of a second, for the
    system to end what SIGKILL ended.

    Spec: basic/transports#stdio, basic/lifecycle#stdio
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        inherit: bool | Sequence[str] = False,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Stderr = "capture",
        grace: float = 2.0,
        max_message: int = MAX_MESSAGE,
        tap: Tap | None = None,
    ) -> None:
        check_command(command)
        if isinstance(inherit, (str, bytes)):
            raise TypeError(f"inherit is True, False or a list of names, not {inherit!r}")
        if not callable(stderr) and stderr not in ("capture", "inherit", "ignore"):
            raise ValueError(f'stderr is "capture", "inherit", "ignore" or a function, not {stderr!r}')
        super().__init__(tap, max_message)
        self._command, self._env, self._inherit, self._cwd = list(command), env, inherit, cwd
        self._withheld: list[str] = []  # variables of ours that the server did not get
        self._stderr, self._grace = stderr, grace
        self._child: Child | None = None
        self._ended: list[str] = []  # how the trace was told that the process ends
        self._noise = 0
        text = " ".join(" ".join(command).split())
        self._server = f"the server {text if len(text) <= 120 else text[:117] + '...'!r}"

    @property
    def exit_code(self) -> int | None:
        """The server's exit code, negative for a signal; None while it runs, and before `start()`. Threads: any."""
        return self._child.exit_code(Deadline(0)) if self._child is not None and self._child.launched else None

    def _open(self) -> None:
        import subprocess

        from mcp_ref.machinery.child import Child, environment

        env, self._withheld = environment(self._inherit, self._env)
        # MAY: the client captures, forwards or ignores what the server writes to stderr (basic/transports#stdio)
        where = {"inherit": None, "ignore": subprocess.DEVNULL}.get(str(self._stderr), self._hear)
        self._child = Child(self._command, env, self._cwd, where)
        try:
            self._child.start()
        except OSError as problem:
            raise TransportClosed(f"{self._server} could not be started: {problem}") from None
        if self._child.thread is not None:
            self._threads.append(self._child.thread)
        self._read_fd, self._write_fd = self._child.stdout.fileno(), os.dup(self._child.stdin.fileno())
        self._child.stdin.close()
        if HAS_POLL:
            # This end of the pipe is ours alone, so nobody else is surprised.
            os.set_blocking(self._write_fd, False)

    def _release(self) -> None:
        super()._release()
        if self._child is not None:
            self._child.close()

    def _hear(self, line: str) -> None:
        """The thread `mcp-stdio-stderr`: one line of the server's standard error."""
        if self._tap is not None:
            self._tap.note("stderr", line)
            self._tap.deliver()
        if callable(self._stderr):
            self._stderr(line)
        else:
            # SHOULD NOT: assume that output on stderr means an error; hence INFO (basic/transports#stdio)
            log.info("%s", line)

    def _note_end(self, how: str, value: Any) -> None:
        """Show the trace how the process ends, each step once."""
        if self._tap is not None and how not in self._ended:
            self._ended.append(how)
            self._tap.note("send" if how != "exit" else "receive", None, {"process": {how.partition(" ")[0]: value}})
            self._tap.deliver()

    def _is_noise(self, line: bytes) -> bool:
        if self._tap is not None:
            self._tap.note("receive", line)
            self._tap.deliver()
        # The server broke a MUST NOT (basic/transports#stdio); what it printed is not a reason to lose the session.
        level = logging.DEBUG if self._noise else logging.WARNING
        self._noise += 1
        log.log(
            level, "%s printed something that is not a message: %r", self._server, str(line[:200], "utf-8", "replace")
        )
        return True

    def last_words(self) -> str:
        """The last lines of the server's standard error, each after a line break."""
        return "" if self._child is None else "".join(f"\n    {line}" for line in self._child.last_words())

    def _why_ended(self, found: str | None) -> str:
        self._break(found or "the server closed its output")
        assert self._child is not None
        # The process and its standard error may end a moment after its output. What this side did does not tell.
        deadline = Deadline(0.0 if found == IN_PART else _LAST_WORDS_TIMEOUT)
        code = self._child.exit_code(deadline)
        if code is not None:
            self._note_end("exit", code)
        if code is None:
            return f"lost the connection to {self._server}: {found or 'it closed its output'}"
        if self._child.thread not in (None, threading.current_thread()):
            self._child.thread.join(deadline.left())
        words = self.last_words()
        how = f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
        if not self._heard and code == 0 and not words:
            how += " and has said nothing: does the program call server.run()?"
        how += f"; its last words:{words}" if words else ""
        if not self._heard and self._withheld:
            # It may have ended for the lack of one of them. Names alone: the values may be secrets.
            how += f"\n    (without these variables of this process: {', '.join(self._withheld)}; see inherit=)"
        return f"{self._server} {how}"

    def _end(self, deadline: Deadline) -> None:
        def patience() -> Deadline:
            """For one of the waits: the grace, but at most two fifths of what is left."""
            return Deadline(0.4 * deadline.at_most(2.5 * self._grace))

        child = self._child
        if child is None or not child.launched:
            super()._end(deadline)
            return
        # SHOULD: the client first closes the input stream to the server (basic/lifecycle#stdio). Reading goes on: a
        # server with much to say could not exit otherwise.
        self._broken = self._broken or CLOSED
        self._no_writing.set()
        if self._close_output(patience()):
            self._note_end("eof", "client")
        # SHOULD: the client waits for the server to exit, sends SIGTERM if it does not within a reasonable time, and
        # SIGKILL if it does not exit after SIGTERM (basic/lifecycle#stdio). To have exited is also to have let go of
        # the pipes.
        for name in ("SIGTERM", "SIGKILL"):
            wait = patience()
            if child.exit_code(wait) is not None and self._join(wait):
                break
            self._note_end(f"signal {name}", int(getattr(signal, name)))
            child.send(name)
        left = deadline.left()
        last = Deadline(max(_REAP_TIMEOUT, self._grace if left is None else left))
        if (code := child.exit_code(last)) is not None:
            self._note_end("exit", code)
        child.stop_hearing()
        super()._end(last)
        if not child.reap():
            log.warning("%s does not end, even by SIGKILL", self._server)
