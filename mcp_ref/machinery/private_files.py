"""Files that belong to one user alone: opened only if they do, and replaced as a whole.

Contract: `open_private` follows no link, never waits (for the other end of a pipe, say), and gives a descriptor of a
plain file that nobody else can read or write. After `replace_private` the file is the new one, or still the old one.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any


def open_private(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file. Raises: PermissionError: it is another's, or others may read it, or it is not a file; OSError."""
    descriptor = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError(f"{path} is not a file")
        check_owner(found, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_private(path: Path, most: int) -> Any:
    """The JSON value in a file; None: there is no file. Raises: OSError; ValueError: it is too long, or no JSON."""
    try:
        with open(open_private(path), "rb") as file:
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
    """Write a JSON value to a file of mode 0600 and another name, then rename it: a reader finds the old or the new."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(json.dumps(value).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
