"""Files that are opened only if they are plain files, and those that belong to one user alone; replaced as a whole.

Contract: `open_plain` never waits (for the other end of a pipe, say), and gives a descriptor of a plain file;
`open_private` follows no link either, and nobody else can read or write that file. After `replace` the file is the new
one, or still the old one, and nothing but a plain file was replaced: no link, no pipe, no device.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file. Raises: PermissionError: it is not a plain file; OSError."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise PermissionError(f"{path} is not a plain file")


def open_private(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file. Raises: PermissionError: it is another's, or others may read it, or it is not a file; OSError."""
    descriptor = open_plain(path, flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        check_owner(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def lock_file(descriptor: int) -> bool:
    """Lock a file that is open until it is closed, for those who ask for that, too; False while another has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def read_private(path: Path, most: int, opened: Callable[[Path], int] = open_private) -> Any:
    """Return the JSON value in a file; None without a file. Raises: OSError; ValueError: it is too long, or not
    JSON.
    """
    try:
        with open(opened(path), "rb") as file:
            text = file.read(most + 1)
    except FileNotFoundError:
        return None
    if len(text) > most:
        raise ValueError(f"it is longer than {most} bytes")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_owner(found: os.stat_result, path: Path) -> None:
    """Raise PermissionError if a file or folder is another user's, or others may use it. (Windows does not tell.)"""
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077):
        raise PermissionError(f"{path} must belong to this user alone: mode 0700 for a folder, 0600 for a file")


def replace_private(path: Path, value: Any) -> None:
    """Write a JSON value to a file of mode 0600; see `replace`."""
    replace(path, [json.dumps(value)])


def replace(path: Path, texts: Iterable[str], mode: int = 0o600) -> None:
    """Write a file under a name that nobody has, then rename it: a reader finds the old one or the new.

    Raises: OSError, such as PermissionError: what has the name is not a plain file.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise PermissionError(f"{path} is not a plain file, and stays as it is")
    temporary = path.with_name(f".{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(texts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
