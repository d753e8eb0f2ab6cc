"""stdio, the client's side: launches a server, talks to it, and ends it in the order of the specification.

Spec:      basic/transports#stdio; basic/lifecycle#stdio; 2026-07-28/basic/transports/stdio#shutdown
Upholds:   spec_notes/basic/transports.md, the rows on stdio; spec_notes/basic/transports/stdio.md;
           spec_notes/basic/lifecycle.md, on shutdown
Reads:     stdio (reading and writing), child (the process), basic/deadline
Not here:  when to connect and to close (client/client)
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence

from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.transports.child import Child, Stderr, StderrReader, merged_environment, shown
from mcp_ref.basic.transports.lines import HAS_POLL
from mcp_ref.basic.transports.stdio import CLOSED, IN_PART, StdioTransport
from mcp_ref.basic.transports.transport import Tap

__all__ = ["StdioClientTransport"]

log = logging.getLogger(__name__)

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
