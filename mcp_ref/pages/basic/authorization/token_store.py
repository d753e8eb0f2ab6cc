"""Where a program keeps what only it may know: small JSON objects by name, in memory or in a folder.

Contract: `get`, `put` and `lock` by any thread; `FileStore` also by several processes. What cannot be read counts as
absent; a file that others could read or have put there is refused. A write is whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from mcp_ref.kit.process.private_files import check_owner, lock_file, open_private, read_private, replace_private

_MAX_ENTRY: Final = 1 << 20  # bytes
_LOOK_INTERVAL: Final = 0.05  # seconds between attempts at a lock that another process has


class TokenStore(Protocol):
    """A store of tokens and registrations. A program may bring its own, such as one over the system's keyring."""

    def get(self, name: str) -> dict[str, Any] | None:
        """Return what was put under that name, or None."""

    def put(self, name: str, value: dict[str, Any] | None) -> None:
        """Keep it, in place of what was there; None: forget it."""

    def lock(self, name: str, sleep: Callable[[float], None]) -> Any:
        """Return a context in which no other process renews what has that name; `sleep` waits, and may raise."""


class MemoryStore:
    """Keeps logins for the life of the process. Threads: any."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def get(self, name: str) -> dict[str, Any] | None:
        """See `TokenStore`."""
        text = self._kept.get(name)
        return None if text is None else json.loads(text)

    def put(self, name: str, value: dict[str, Any] | None) -> None:
        """See `TokenStore`."""
        if value is None:
            self._kept.pop(name, None)
        else:
            self._kept[name] = json.dumps(value)

    @contextmanager
    def lock(self, name: str, sleep: Callable[[float], None]) -> Iterator[None]:
        """Do nothing: the threads of a process agree among themselves."""
        yield


class FileStore:
    """Keeps each entry in a file of a folder that only its owner can read.

    Args:
        path: of the folder; it is made, with mode 0700, if it does not exist.

    Raises: PermissionError, from every method: the folder or a file belongs to somebody else, or others may read it.
        OSError: the disk refused.
    Threads: any, and any number of processes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = Path(path)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.lstat(self._folder)
        if not stat.S_ISDIR(found.st_mode):
            raise PermissionError(f"{self._folder} is not a folder")
        check_owner(found, self._folder)

    def get(self, name: str) -> dict[str, Any] | None:
        """See `TokenStore`."""
        try:
            entry = read_private(self._path(name), _MAX_ENTRY)
        except ValueError:
            return None
        # The name is in the entry, so that one file put in another's place is not taken for it.
        value = entry.get("value") if isinstance(entry, dict) and entry.get("name") == name else None
        return value if isinstance(value, dict) else None

    def put(self, name: str, value: dict[str, Any] | None) -> None:
        """See `TokenStore`."""
        path = self._path(name)
        if value is None:
            path.unlink(missing_ok=True)
        else:
            replace_private(path, {"name": name, "value": value})

    @contextmanager
    def lock(self, name: str, sleep: Callable[[float], None]) -> Iterator[None]:
        """Hold the advisory lock of an entry; see `TokenStore`."""
        with open(open_private(self._path(name).with_suffix(".lock"), os.O_RDWR | os.O_CREAT), "rb") as file:
            while not lock_file(file.fileno()):
                sleep(_LOOK_INTERVAL)
            # Closing the file gives the lock up.
            yield

    def _path(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:40]}.json"
