"""Child: a process at the head of a process group of its own, its standard error, its exit code and its end.

The contract: nobody takes note of the exit for good before `reap()`, so until then the number of the process, and of
its group, cannot mean another process, and a signal cannot hit a stranger. Every wait has a deadline. The thread that
reads standard error ends with its pipe, or at `stop_reading_stderr()` if somebody else holds that open.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Literal

from mcp_ref.kit.process.pipes import HAS_POLL, InputStopped, LineSplitter, WakePipe, chunks, milliseconds, poll_of
from mcp_ref.kit.threads.deadline import Deadline

log = logging.getLogger(__name__)

DEFAULT_VARIABLES = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TZ", "TMPDIR") + (
    ("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE")
    + ("PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR")
    if sys.platform == "win32"
    else ()
)
"""The part of our environment that a child gets, with `LC_*`: programs need it to run, and none of it is a secret."""

# What cmd.exe takes for more than text in an argument of a batch file.
_BATCH = frozenset('"%!&|<>^\r\n')
_TREE = 5.0  # seconds for Windows to end a process with what it has started
_MAX_LAST_LINES = 20
_MAX_LAST_BYTES = 8192


def environment(
    inherit: bool | Sequence[str], changes: Mapping[str, str | None] | None
) -> tuple[dict[str, str], list[str]]:
    """Return the environment of a child, and the names of the variables of ours that are not in it.

    Args:
        inherit: True: all of ours; names: those, and `DEFAULT_VARIABLES`; False: these alone.
        changes: what to add or to change; None as a value takes a variable away.
    """
    names = {*DEFAULT_VARIABLES, *(() if isinstance(inherit, bool) else inherit)}
    passed = {
        name: value for name, value in os.environ.items() if inherit is True or name in names or name.startswith("LC_")
    }
    env = {name: value for name, value in {**passed, **(changes or {})}.items() if value is not None}
    return env, sorted(os.environ.keys() - env.keys())


def found_on_path(command: Sequence[str], path: str | None) -> list[str]:
    """Return a command with the file that its first word means, as Windows wants it: a bare name finds `.exe` alone
    there, and npx is a `.cmd`.

    Raises: OSError: it is a batch file, and an argument holds what `cmd.exe`, which runs it, would take for an order.
    """
    program, *args = command
    found = shutil.which(program, path=path) or program
    if found.lower().endswith((".bat", ".cmd")) and (odd := next((arg for arg in args if set(arg) & _BATCH), None)):
        raise OSError(f"{found} is a batch file, and cmd.exe would read more than a text in its argument {odd!r}")
    return [found, *args]


class Child:
    """A process: it runs from `start()` on, so whoever made this object holds it by then, and can end it.

    Args:
        command: the program and its arguments.
        inherit, changes: of the environment, see `environment`.
        cwd: its working directory; None for ours.
        stderr: one of the constants of `subprocess` for its standard error, or None for ours, or a function that is
            called with each line, in the thread `mcp-stdio-stderr`.

    Attributes:
        thread: reads standard error, if that goes to a function; to be started, and joined, by the caller.
        launched: whether there is a process.
    """

    def __init__(
        self,
        command: Sequence[str],
        inherit: bool | Sequence[str],
        changes: Mapping[str, str | None] | None,
        cwd: str | os.PathLike[str] | None,
        stderr: int | None | Callable[[str], None],
    ) -> None:
        env, self._withheld = environment(inherit, changes)  # and the variables of ours that it does not get
        self._heard: deque[str] = deque(maxlen=_MAX_LAST_LINES)
        self._failed = False  # whether the function for standard error has raised
        self._stop = WakePipe()
        self._lock = threading.Lock()  # guards: _reaped, so that no signal is sent afterwards
        self._reaped = False
        # A session of its own: one signal reaches whatever it starts; Ctrl-C in our terminal does not reach it.
        own: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            own = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self._options = {"stderr": subprocess.PIPE if callable(stderr) else stderr, "env": env, "cwd": cwd, **own}
        self._command = command
        self._launched: subprocess.Popen[Any] | None = None
        # Daemon: the function is a user's code, which nobody can end.
        thread = threading.Thread(target=self._read_stderr, args=(stderr,), name="mcp-stdio-stderr", daemon=True)
        self.thread = thread if callable(stderr) else None
        self._exit_fd = -1

    def start(self) -> tuple[int, int]:
        """Launch it. Returns the other ends of its standard out and standard in, for the caller to use, and the second
        one to close.

        Raises: OSError: that cannot be done. Whatever it raises, `close()` is still to be called.
        """
        self._stop.open()
        pipe, command = subprocess.PIPE, self._command
        if sys.platform == "win32":
            command = found_on_path(command, self._options["env"].get("PATH"))
        # If Ctrl-C comes before the assignment, the process is forgotten with its pipes, and sees the end of its input.
        process = self._launched = subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, **self._options)
        # Only with a descriptor that is ready at the exit can we wait without reaping; elsewhere the exit is polled,
        # and a number might mean another group.
        if sys.platform == "linux" and hasattr(os, "pidfd_open") and hasattr(os, "waitid"):
            try:
                self._exit_fd = os.pidfd_open(process.pid)
            except OSError:
                pass
        assert process.stdin is not None and process.stdout is not None
        with process.stdin:
            write_fd = os.dup(process.stdin.fileno())
        if sys.platform != "win32" and HAS_POLL:
            # This end of the pipe is ours alone, so nobody else is surprised.
            os.set_blocking(write_fd, False)
        return process.stdout.fileno(), write_fd

    @property
    def launched(self) -> bool:
        """See the class."""
        return self._launched is not None

    @property
    def _process(self) -> subprocess.Popen[Any]:
        assert self._launched is not None
        return self._launched

    def exit_code(self, deadline: Deadline) -> int | None:
        """Return the exit code, negative for a signal; None when it still runs.

        Blocks: until the process exits, at most until the deadline.
        """
        if sys.platform != "linux" or self._exit_fd < 0 or self._process.returncode is not None:
            try:
                return self._process.wait(deadline.left())
            except subprocess.TimeoutExpired:
                return None
        poll_of([self._exit_fd]).poll(milliseconds(deadline))
        try:
            status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            # Somebody else in this process waited for all children: the code is lost, and 0 stands for it.
            return self._process.poll()
        if status is None:
            return None
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    def send(self, name: Literal["SIGTERM", "SIGKILL"]) -> None:
        """Ask the group to end, or end it. Windows knows no such request: the process is ended, and what it started."""
        if sys.platform == "win32":
            # Without the lock: as long as we hold the process, its number stays taken.
            with suppress(OSError, subprocess.TimeoutExpired):
                tree = ["taskkill", "/T", "/F", "/PID", str(self._process.pid)]
                subprocess.run(tree, capture_output=True, check=False, timeout=_TREE)
            self._process.terminate()
            return
        with self._lock:
            # Once reaped, the number may be another's. Not so earlier: whoever is left of the group keeps it taken.
            if self._reaped:
                return
            try:
                os.killpg(self._process.pid, getattr(signal, name))
            except (ProcessLookupError, PermissionError):
                # Nobody is left; or (macOS) only the process that has exited.
                return

    def reap(self) -> bool:
        """Forget the process if it has exited, so that no zombie stays; returns whether it had."""
        with self._lock:
            self._reaped = self._process.poll() is not None
            return self._reaped

    def close(self) -> None:
        """Give the descriptors back, when the thread has ended and no other one is in `exit_code`."""
        if (process := self._launched) is not None:
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        exit_fd, self._exit_fd = self._exit_fd, -1
        if exit_fd >= 0:
            os.close(exit_fd)
        self._stop.close()

    # -- standard error

    def stop_reading_stderr(self) -> None:
        """Tell the thread to end when it has read what is there, even if somebody holds the pipe open."""
        self._stop.set()

    def stderr_tail(self) -> str:
        """Return the last lines of standard error, each after a line break: at most 20, and 8 KiB."""
        lines = list(self._heard.copy())
        while sum(map(len, lines)) > _MAX_LAST_BYTES:
            del lines[0]
        return "".join(f"\n    {line}" for line in lines)

    def how_it_ended(self, code: int, deadline: Deadline, *, wrote_nothing: bool) -> str:
        """Return how it ended, for the user; waits for what is still on its way over standard error."""
        if self.thread not in (None, threading.current_thread()):
            self.thread.join(deadline.left())
        words = self.stderr_tail()
        how = f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
        if wrote_nothing and code == 0 and not words:
            how += " without having sent a message: does the program call server.run()?"
        how += f"; its last words:{words}" if words else ""
        if wrote_nothing and self._withheld:
            # It may have ended for the lack of one of them. Names alone: the values may be secrets.
            how += f"\n    (it did not get these variables of this process: {', '.join(self._withheld)}; see inherit=)"
        return how

    def _read_stderr(self, on_line: Callable[[str], None]) -> None:
        assert self._process.stderr is not None
        fd, splitter = self._process.stderr.fileno(), LineSplitter(1 << 30)
        try:
            for chunk in chain(chunks(fd, {self._stop.fd: "no longer read"}), [b""]):
                lines = [*splitter.feed(chunk)]
                # A line without end is handed on in pieces.
                if splitter and (not chunk or len(splitter) >= _MAX_LAST_BYTES):
                    lines.append(splitter.take())
                for line in (str(line, "utf-8", "replace").rstrip("\r") for line in lines):
                    self._heard.append(line[-_MAX_LAST_BYTES:])
                    try:
                        on_line(line)
                    except Exception:
                        # The user's function may fail: the first time is an error.
                        level = logging.DEBUG if self._failed else logging.ERROR
                        log.log(level, "the function given for standard error failed", exc_info=True)
                        self._failed = True
        except InputStopped:
            return
        except OSError as problem:
            log.warning("reading a server's standard error failed: %s", problem)
