"""Standard in and standard out, out of everybody's reach while they carry messages.

Spec:      basic/transports#stdio
Upholds:   spec_notes/basic/transports.md, the row on what a server writes to standard out
Reads:     nothing
Not here:  who does this and when (stdio)
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys

__all__ = ["restore", "take", "unshared"]


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
