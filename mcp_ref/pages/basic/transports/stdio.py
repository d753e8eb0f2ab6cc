"""stdio: a server as a child process of its client, one message a line on its standard in and out.

A client launches the server, writes messages to its standard in and reads others from its standard out. To end the
server, the client closes its standard in. Everything else that the server prints goes to standard error.

Spec:      basic/transports#stdio; basic/lifecycle#stdio; basic/transports/stdio (2026-07-28)
Upholds:   spec_notes/basic/transports/stdio.md; spec_notes/basic/transports.md and spec_notes/basic/lifecycle.md, the
           rows on stdio
Not here:  how lines are read and written (kit/process/lines); descriptors 0 and 1 (kit/process/standard_streams); the
           process and its standard error (kit/process/child); the end of a server's handlers (`Server.run`)
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from mcp_ref.errors import TransportClosed
from mcp_ref.kit.process.lines import IN_PART, LineTransport
from mcp_ref.kit.process.standard_streams import StandardStreams, own_end, parent_end
from mcp_ref.kit.threads.arguments import check_command
from mcp_ref.kit.threads.deadline import CLOSED, Deadline
from mcp_ref.wire import messages
from mcp_ref.wire.transport import MAX_MESSAGE

if TYPE_CHECKING:
    from mcp_ref.kit.process.child import Child
    from mcp_ref.recording.record import Tap
    from mcp_ref.wire.messages import JsonObject

log = logging.getLogger(__name__)

Stderr = Literal["capture", "inherit", "ignore"] | Callable[[str], None]
"""The fate of a server's standard error: it is logged, shared with ours, thrown away, or given to a function."""

_STDERR_TIMEOUT = 1.0  # seconds to wait, after the end of a server's output, for its exit code and stderr
_REAP_TIMEOUT = 0.25  # seconds to wait for a process to be gone after SIGKILL, even when the deadline has passed


class StdioTransport(LineTransport):
    """The half of stdio that both roles share: a message is a line."""

    name = "stdio"

    # A message MUST NOT contain embedded newlines (basic/transports#stdio; basic/transports/stdio#)
    # A client MUST NOT write anything but messages to the server's stdin
    # (basic/transports#stdio; basic/transports/stdio#)
    encode = staticmethod(messages.encode)


class StdioServerTransport(StdioTransport):
    """The server's side: messages come on standard in, and go to standard out.

    From `start()` to `close()` descriptor 0 is empty and descriptor 1 leads to standard error, so that neither a
    `print`, nor C code, nor a process that a handler starts can write between the messages, or read any of them. The
    connection is lost at the end of the input, when nobody reads the output any more, and (on Linux) when the process
    that started this one has ended, even if a third process holds the pipes open.

    Args:
        read_fd, write_fd: descriptors to use instead, both or none; `close()` closes them.
        max_message: the longest inbound message, in bytes; a longer one ends the connection.
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
            raise ValueError("give both read_fd and write_fd, or neither")
        super().__init__(tap, max_message)
        self._given = None if read_fd is None or write_fd is None else (read_fd, write_fd)

    def _open(self) -> None:
        if self._given is not None:
            self._read_fd, self._write_fd = self._given
            self._give_back.callback(os.close, self._read_fd)
            return
        try:
            # The server MUST NOT write anything to its stdout that is not a valid MCP message; MAY: it writes to stderr
            # for logging, where all that is printed goes (basic/transports#stdio; basic/transports/stdio#)
            streams = StandardStreams()
        except OSError as problem:
            raise TransportClosed(f"standard in or standard out is not open: {problem}") from None
        self._give_back.callback(streams.restore)
        self._read_fd, self._write_fd = streams.read_fd, own_end(streams.write_fd)
        if (parent_fd := parent_end()) is not None:
            self._watched[parent_fd] = "the process that started this server is gone"
            self._give_back.callback(os.close, parent_fd)

    def _why_ended(self, found: str | None) -> str:
        # Answers can still be written: a client that has closed its end may go on reading.
        return "the client closed its end" if found is None else found


class StdioClientTransport(StdioTransport):
    """The client's side: a server as a child process, messages over its standard in and out.

    Args:
        command, and the others: see `client.targets.Command`.
        tap: is shown every message, and every line of standard error that is captured.

    `start` launches the process, in a session of its own. The connection is lost when the server ends or closes its
    output; the reason has its exit code and last words. A line that cannot be a message is skipped, with a warning.

    `close` ends the server and its process group step by step, as the specification says, and goes on reading
    meanwhile. It may overrun its deadline by half a second. Why each thread ends: its pipe ends, or, if another
    process holds that open, a wake-up ends it. One inside a function given for standard error is left, with a warning.

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
        check_command(command, env)
        if isinstance(inherit, (str, bytes)):
            raise TypeError(f"inherit must be True, False or a list of names, not {inherit!r}")
        if not callable(stderr) and stderr not in ("capture", "inherit", "ignore"):
            raise ValueError(f'stderr must be "capture", "inherit", "ignore" or a function, not {stderr!r}')
        super().__init__(tap, max_message)
        self._command, self._env, self._inherit, self._cwd = list(map(os.fspath, command)), env, inherit, cwd
        self._stderr, self._grace = stderr, grace
        self._child: Child | None = None
        self._ended: list[JsonObject] = []  # the steps of its end that the trace has been shown
        self._noise = False
        text = " ".join(" ".join(self._command).split())
        self._server = f"the server {text if len(text) <= 120 else text[:117] + '...'!r}"

    @property
    def exit_code(self) -> int | None:
        """The server's exit code, negative for a signal; None while it runs, and before `start()`. Threads: any."""
        return self._child.exit_code(Deadline(0)) if self._child is not None and self._child.launched else None

    def _open(self) -> None:
        import subprocess

        from mcp_ref.kit.process.child import Child

        # MAY: the client captures, forwards or ignores what the server writes to stderr (basic/transports#stdio)
        where = {"inherit": None, "ignore": subprocess.DEVNULL}.get(str(self._stderr), self._on_stderr)
        self._child = Child(self._command, self._inherit, self._env, self._cwd, where)
        try:
            self._read_fd, self._write_fd = self._child.start()
        except OSError as problem:
            raise TransportClosed(f"{self._server} could not be started: {problem}") from None
        if self._child.thread is not None:
            self._threads.append(self._child.thread)

    def _release(self) -> None:
        super()._release()
        if self._child is not None:
            self._child.close()

    def _on_stderr(self, line: str) -> None:
        """Handle one line of the server's standard error, in the thread `mcp-stdio-stderr`."""
        self._note("stderr", line)
        if callable(self._stderr):
            self._stderr(line)
        else:
            # A client SHOULD NOT assume that output on stderr means an error; hence INFO (basic/transports#stdio)
            log.info("%s", line)

    def _note(self, *noted: Any) -> None:
        if self._tap is not None:
            self._tap.note(*noted)

    def _note_end(self, **how: Any) -> None:
        """Show the trace a step of the end of the process, once."""
        if self._tap is not None and how not in self._ended:
            self._ended.append(how)
            self._note("receive" if "exit" in how else "send", None, {"process": how})

    def _skips(self, line: bytes) -> bool:
        self._note("receive", line)
        # The server wrote more than messages (basic/transports#stdio): a stray print is no reason to end the session.
        level, self._noise = logging.DEBUG if self._noise else logging.WARNING, True
        log.log(level, "%s printed %r, which is not a message", self._server, str(line[:200], "utf-8", "replace"))
        return True

    def stderr_tail(self) -> str:
        """Return the last lines of the server's standard error, each after a line break."""
        return "" if self._child is None else self._child.stderr_tail()

    def _why_ended(self, found: str | None) -> str:
        self._break(found or "the server closed its output")
        assert self._child is not None
        # MAY: a server ends the connection by closing its output and exiting (basic/lifecycle#stdio). The process and
        # its standard error may end a moment after that, unless it was our own write that broke off.
        deadline = Deadline(0.0 if found == IN_PART else _STDERR_TIMEOUT)
        code = self._child.exit_code(deadline)
        if code is None:
            return f"lost the connection to {self._server}: {found or 'it closed its output'}"
        self._note_end(exit=code)
        return f"{self._server} {self._child.how_it_ended(code, deadline, wrote_nothing=not self._heard)}"

    def _end(self, deadline: Deadline) -> None:
        child = self._child
        if child is None or not child.launched:
            super()._end(deadline)
            return
        # Each wait has the grace, but at most two fifths of the time that is left.
        wait = Deadline(0.4 * deadline.at_most(2.5 * self._grace))
        # SHOULD: the client first closes the input stream to the server (basic/lifecycle#stdio). Reading goes on: a
        # server that still has much to write could not exit otherwise.
        self._broken = self._broken or CLOSED
        self._no_writing.set()
        if self._close_output(wait):
            self._note_end(eof="client")
        # SHOULD: the client waits for the server to exit, sends SIGTERM if it does not within a reasonable time, and
        # SIGKILL if it does not exit after SIGTERM (basic/lifecycle#stdio). It counts as exited only when its pipes are
        # closed, too: a process that it started may hold them open.
        for name in ("SIGTERM", "SIGKILL"):
            wait = Deadline(0.4 * deadline.at_most(2.5 * self._grace))
            if child.exit_code(wait) is not None and self._join(wait):
                break
            self._note_end(signal=int(getattr(signal, name)))
            child.send(name)
        left = deadline.left()
        last = Deadline(max(_REAP_TIMEOUT, self._grace if left is None else left))
        if (code := child.exit_code(last)) is not None:
            self._note_end(exit=code)
        child.stop_reading_stderr()
        super()._end(last)
        if not child.reap():
            log.warning("%s is still running after SIGKILL", self._server)
