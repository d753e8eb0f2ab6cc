"""stdio: a server as a child process of its client, one message a line on its standard in and out.

A client launches the server, writes requests to its standard in and reads from its standard out; closing standard in is
how it says goodbye. Whatever the server has to say beside that goes to standard error.

Spec:      basic/transports#stdio; basic/lifecycle#stdio; basic/transports/stdio (2026-07-28)
Upholds:   spec_notes/basic/transports/stdio.md; spec_notes/basic/transports.md and spec_notes/basic/lifecycle.md, the
           rows on stdio
Not here:  how lines are read and written (machinery/lines); descriptors 0 and 1 (machinery/standard_streams); the
           process and its standard error (machinery/child)
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

from mcp_ref import messages
from mcp_ref.basic.transports.transport import MAX_MESSAGE
from mcp_ref.errors import TransportClosed
from mcp_ref.machinery.arguments import check_command
from mcp_ref.machinery.deadline import CLOSED, Deadline
from mcp_ref.machinery.lines import IN_PART, LineTransport
from mcp_ref.machinery.pipes import HAS_POLL
from mcp_ref.machinery.standard_streams import StandardStreams, own_end

if TYPE_CHECKING:
    from mcp_ref.machinery.child import Child
    from mcp_ref.trace.record import Tap

log = logging.getLogger(__name__)

Stderr = Literal["capture", "inherit", "ignore"] | Callable[[str], None]
"""What becomes of a server's standard error: logged, ours, thrown away, or each line given to a function."""

_LAST_WORDS_TIMEOUT = 1.0  # seconds between the end of a server's output and what is said of it: exit code and stderr
_REAP_TIMEOUT = 0.25  # seconds that the system gets to end what SIGKILL ended, even when the deadline has passed


class StdioTransport(LineTransport):
    """What both roles share: a message is a line."""

    name = "stdio"

    # MUST NOT: a message contains embedded newlines; the encoder writes none (basic/transports#stdio;
    # basic/transports/stdio#)
    # MUST NOT: a client writes anything but messages to the server's standard in (basic/transports#stdio;
    # basic/transports/stdio#)
    encode = staticmethod(messages.encode)


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
        The others: see `roles.client.config.Command`.

    The process is launched by `start()`, in a session of its own. The connection is lost when the server ends or closes
    its output; the reason given has its exit code and last words. A line that cannot be a message is skipped: the first
    is logged as a warning, more of them as debugging.

    `close` ends the server in the order of the specification: its standard in is closed; what still runs after `grace`
    seconds gets SIGTERM, then SIGKILL, with its process group. What it says meanwhile is read, so that it is not kept
    from ending. Why each thread ends: with its pipe, or where somebody else holds that open, by a pipe of its own. Only
    a function given for standard error can keep a thread: it is left behind then, and named in a warning. Beyond the
    deadline it takes a quarter of a second, for the system to end what SIGKILL ended.

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

        from mcp_ref.machinery.child import Child

        # MAY: the client captures, forwards or ignores what the server writes to stderr (basic/transports#stdio)
        where = {"inherit": None, "ignore": subprocess.DEVNULL}.get(str(self._stderr), self._hear)
        self._child = Child(self._command, self._inherit, self._env, self._cwd, where)
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
        return "" if self._child is None else self._child.last_words()

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
        return f"{self._server} {self._child.epitaph(code, deadline, said_nothing=not self._heard)}"

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
