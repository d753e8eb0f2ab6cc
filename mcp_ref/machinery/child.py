"""A server as a child process: launching it, its standard error, its exit code, and the signals that end it.

Spec:      basic/transports#stdio; basic/lifecycle#stdio
Upholds:   spec_notes/basic/transports.md, the rows on standard error; spec_notes/basic/lifecycle.md, on shutdown
Not here:  the order of shutdown, and the messages (stdio_client)
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from mcp_ref.errors import TransportClosed
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.pipes import CHUNK, HAS_POLL, LineSplitter, Wake, milliseconds

if TYPE_CHECKING:
    from mcp_ref.basic.transports.transport import Tap

log = logging.getLogger(__name__)

Stderr = Literal["capture", "inherit", "ignore"] | Callable[[str], None]
"""What becomes of a server's standard error: logged, ours, thrown away, or each line given to a function."""


_LAST_LINES = 20
_LAST_BYTES = 8192


def shown(command: Sequence[str]) -> str:
    """A command as a message names it, on one line."""
    text = " ".join(" ".join(command).split())
    return text if len(text) <= 120 else text[:117] + "..."


def merged_environment(changes: Mapping[str, str | None] | None) -> dict[str, str] | None:
    """This process's environment with changes; None as a value takes a variable away. None: just as it is."""
    if changes is None:
        return None
    return {name: value for name, value in {**os.environ, **changes}.items() if value is not None}


class Child:
    """A running process, at the head of a process group of its own.

    Args:
        command: the program and its arguments.
        env: the whole environment; None for ours.
        cwd: its working directory; None for ours.
        stderr: a descriptor for its standard error, or one of the constants of `subprocess`, or None for ours.

    Its standard in and out are pipes, whose other ends `stdin_fd` and `stdout_fd` belong to the caller. Nobody takes
    note of its exit for good before `reap()`: until then its number, and its group's, cannot mean another process.

    Raises: TransportClosed: it could not be started; the text names the command.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        stderr: int | None,
    ) -> None:
        fds: list[int] = []
        try:
            fds += os.pipe()
            fds += os.pipe()
            child_in, self.stdin_fd, self.stdout_fd, child_out = fds
            self._process = _spawn(command, env, cwd, (child_in, child_out, stderr))
        except BaseException as problem:
            for fd in fds:
                os.close(fd)
            if isinstance(problem, OSError):
                raise TransportClosed(f"the server {shown(command)!r} could not be started: {problem}") from None
            raise
        os.close(child_in)
        os.close(child_out)
        self._lock = threading.Lock()  # guards: _forgotten, so that no signal is sent afterwards
        self._forgotten = False
        self._exit_fd = _exit_fd(self._process.pid)

    def exit_code(self, deadline: Deadline) -> int | None:
        """The exit code, negative for a signal; None when it still runs.

        Blocks: until the process exits, at most until the deadline.
        """
        if self._exit_fd < 0 or self._process.returncode is not None:
            try:
                return self._process.wait(deadline.left())
            except subprocess.TimeoutExpired:
                return None
        poll = select.poll()
        poll.register(self._exit_fd, select.POLLIN)
        poll.poll(milliseconds(deadline))
        return self._peek()

    def _peek(self) -> int | None:
        """The exit code of a process that stays unreaped; None when it still runs."""
        try:
            status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            # Somebody else in this process waited for all children: its code is not to be had, and 0 stands for it.
            return self._process.poll()
        if status is None:
            return None
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    def terminate(self) -> None:
        """Ask the group to end: SIGTERM. Windows has no such request: the process is ended."""
        self._send("SIGTERM")

    def kill(self) -> None:
        """End the group: SIGKILL. On Windows the process alone."""
        self._send("SIGKILL")

    def _send(self, name: Literal["SIGTERM", "SIGKILL"]) -> None:
        with self._lock:
            # Once forgotten the number may be another's. Not so earlier: whoever is left of the group keeps it taken.
            if self._forgotten:
                return
            if sys.platform == "win32":
                self._process.terminate()
                return
            try:
                os.killpg(self._process.pid, getattr(signal, name))
            except (ProcessLookupError, PermissionError):
                # Nobody is left; or (macOS) only the process that has exited.
                return

    def reap(self) -> bool:
        """Forget the process if it has exited, so that no zombie stays; whether it had."""
        with self._lock:
            self._forgotten = self._process.poll() is not None
            return self._forgotten

    def close(self) -> None:
        """Give the last descriptor back, when no thread is in `exit_code` any more."""
        if self._exit_fd >= 0:
            os.close(self._exit_fd)
            self._exit_fd = -1


def _spawn(
    command: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
    streams: tuple[int, int, int | None],
) -> subprocess.Popen[bytes]:
    stdin, stdout, stderr = streams
    if sys.platform == "win32":
        group = subprocess.CREATE_NEW_PROCESS_GROUP
        return subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, creationflags=group
        )
    # A session of its own: one signal reaches whatever it starts, and Ctrl-C in our terminal does not reach it.
    return subprocess.Popen(
        command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, start_new_session=True
    )


def _exit_fd(pid: int) -> int:
    """A descriptor that is ready once the process has exited; -1 where the system has none."""
    # Only with one can we wait without reaping; elsewhere the exit is polled, and a number might mean another group.
    if not hasattr(os, "pidfd_open") or not hasattr(os, "waitid"):
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


class StderrReader:
    """Reads what a server says on standard error, in the thread `mcp-stdio-stderr`, and remembers the end of it.

    Args:
        listener: is given each line, in that thread; None: they are logged, at level INFO.
        tap: is shown each line.

    After `open()`, `child_fd` is the end for the child; the caller closes it with `close_child_end()` once the child
    has it.
    """

    # SHOULD NOT: assume that stderr output indicates error conditions (basic/transports#stdio). So: INFO.

    def __init__(self, listener: Callable[[str], None] | None, tap: Tap | None) -> None:
        self._listener = listener
        self._tap = tap
        self._read_fd = self.child_fd = -1
        self._stop = Wake()
        self._tail: deque[str] = deque(maxlen=_LAST_LINES)
        self._failed = False
        # Daemon: a listener is a user's code, which nobody can end.
        self.thread = threading.Thread(target=self._read, name="mcp-stdio-stderr", daemon=True)

    def open(self) -> None:
        """Make the pipes; `close()` gives them back, also when this failed midway."""
        self._read_fd, self.child_fd = os.pipe()
        self._stop.open()

    def close_child_end(self) -> None:
        """Close our copy of the child's end: otherwise there would be no end of input."""
        if self.child_fd >= 0:
            os.close(self.child_fd)
            self.child_fd = -1

    def stop(self) -> None:
        """Have the thread end, also while somebody holds the pipe open."""
        self._stop.set()

    def close(self) -> None:
        """Give the descriptors back, after the thread has ended."""
        self.close_child_end()
        if self._read_fd >= 0:
            os.close(self._read_fd)
            self._read_fd = -1
        self._stop.close()

    def tail(self) -> list[str]:
        """The last lines: at most 20, and 8 KiB."""
        lines: list[str] = []
        size = 0
        for line in reversed(self._tail.copy()):
            size += len(line)
            if size > _LAST_BYTES:
                break
            lines.insert(0, line)
        return lines

    def _read(self) -> None:
        try:
            self._read_lines()
        except OSError as problem:
            log.warning("reading a server's standard error failed: %s", problem)

    def _read_lines(self) -> None:
        splitter = LineSplitter(_LAST_BYTES + CHUNK)
        while self._ready():
            chunk = os.read(self._read_fd, CHUNK)
            for line in splitter.feed(chunk):
                self._hand_on(line)
            # A line without end is handed on in pieces.
            if splitter and (not chunk or len(splitter) >= _LAST_BYTES):
                self._hand_on(splitter.take())
            if not chunk:
                return

    def _ready(self) -> bool:
        """Wait until there is something to read; False when `stop()` was called and there is nothing."""
        if not HAS_POLL:
            return True
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        poll.register(self._stop.fd, select.POLLIN)
        ready = [fd for fd, _ in poll.poll()]
        return self._stop.fd not in ready

    def _hand_on(self, raw: bytes) -> None:
        line = str(raw, "utf-8", "replace").rstrip("\r")
        self._tail.append(line[-_LAST_BYTES:])
        if self._tap is not None:
            self._tap.note("stderr", line)
            self._tap.deliver()
        if self._listener is None:
            log.info("%s", line)
            return
        try:
            self._listener(line)
        except Exception:
            level = logging.DEBUG if self._failed else logging.ERROR
            log.log(level, "the function given for standard error failed", exc_info=True)
            self._failed = True
