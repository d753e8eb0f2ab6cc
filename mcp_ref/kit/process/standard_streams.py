"""Standard in and standard out, out of everybody's reach while they carry messages.

The contract: from `StandardStreams()` to `restore()` descriptor 0 is empty and descriptor 1 leads to standard error, so
that neither a `print`, nor C code, nor a child process can write into what goes out, or read what comes in. Both
streams go on under other numbers, which no child process inherits.
"""

from __future__ import annotations

import io
import os
import stat
import sys

from mcp_ref.kit.process.pipes import HAS_POLL, poll_of


class StandardStreams:
    """Descriptors 0 and 1 as they were, under the numbers `read_fd` and `write_fd`.

    Raises: OSError: one of them is not open; nothing was changed.
    """

    def __init__(self) -> None:
        self.read_fd = _copy(0)
        try:
            self.write_fd = _copy(1)
        except OSError:
            os.close(self.read_fd)
            raise
        try:
            os.fstat(2)
        except OSError:
            # The lowest free number is 2, as no other file should get it.
            os.set_inheritable(os.open(os.devnull, os.O_WRONLY), True)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        _flush_prints()

    def restore(self) -> None:
        """Put both back where they were."""
        _flush_prints()
        for fd, number in ((self.read_fd, 0), (self.write_fd, 1)):
            os.dup2(fd, number)
            os.close(fd)


def own_end(write_fd: int) -> int:
    """Return the same pipe under another number, opened again, where that can be had, so that writing to it does not
    block.

    To set O_NONBLOCK on `write_fd` would do it to everybody who shares that open file: the client, other processes. A
    pipe can be opened a second time on Linux; a socket, a terminal or another user's pipe cannot, or should not.
    """
    if HAS_POLL and sys.platform == "linux" and stat.S_ISFIFO(os.fstat(write_fd).st_mode):
        try:
            return os.open(f"/proc/self/fd/{write_fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            pass
    return _copy(write_fd)


def parent_end() -> int | None:
    """Return a descriptor that is ready when the process that started this one has ended; None on a system without
    one.
    """
    # Process 1 adopts: as a parent it says nothing about who started us. Without pidfd the input's end must do.
    if hasattr(os, "pidfd_open") and os.getppid() != 1:
        try:
            parent: int = os.pidfd_open(os.getppid())
            return parent
        except OSError:
            pass
    return None


def _copy(fd: int) -> int:
    """Return another number for a descriptor, above the standard three even if one of those is closed; never
    inherited.
    """
    if sys.platform == "win32":
        return os.dup(fd)
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _flush_prints() -> None:
    """Let out what was printed; from here on each printed line goes out when it ends, not 8 KiB at a time."""
    printed = sys.stdout
    if printed is None or printed.closed:
        return
    # Where nobody reads, to flush would be to wait for ever.
    if HAS_POLL and not poll_of(writable=[1]).poll(0):
        return
    try:
        if isinstance(printed, io.TextIOWrapper):
            printed.reconfigure(line_buffering=True)  # which also flushes
        else:
            printed.flush()
    except OSError:
        pass


def escaped(text: str, kept: str = "") -> str:
    """Return text that is safe on a terminal: control characters as escapes, but for those that are kept."""
    return "".join(char if char.isprintable() or char in kept else ascii(char)[1:-1] for char in text)
