"""Kept: small JSON objects in a file of the user's own, and what tells one JSON value from another.

Contract: what a `KeptObject` has read is of the kind that was asked for, and from a file that belongs to the user
alone; any other file is neither used nor written, which `broken` says. A write replaces the file as a whole.
`fingerprint` is the same for the same value, whatever the order of its members.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mcp_ref.kit.process.private_files import read_private, replace_private

log = logging.getLogger(__name__)

_MAX_FILE: Final = 64 << 20  # bytes
_MAX_COMPARED: Final = 2_000  # lines


def user_folder() -> Path:
    """Return where a host keeps what is the user's, whatever project it works in."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "mcp_ref"


class KeptObject:
    """A JSON object by name, in a file that is replaced as a whole, or (without a path) in memory.

    Attributes:
        broken: why the file is not used, or None. What is put then holds until this object is gone.

    Two processes that write at once lose at most what one of them put.
    Threads: any.
    """

    def __init__(self, path: Path | None, kind: type) -> None:
        self.path, self._kind, self.broken = path, kind, None if path is None else ""
        self._lock = threading.Lock()  # guards the replacement of values, and is held for the write that belongs to it
        self.values: dict[str, Any] = {}
        try:
            self.values, self.broken = self._read(), None
        except (OSError, ValueError) as problem:
            self.broken = f"{path} is not used: {problem}"
            log.warning("%s", self.broken)

    def _read(self) -> dict[str, Any]:
        values = None if self.path is None else read_private(self.path, _MAX_FILE)
        if values is None:
            return {}
        if not isinstance(values, dict) or not all(isinstance(value, self._kind) for value in values.values()):
            raise ValueError("it does not have the form that was written")
        return values

    def put(self, name: str, value: Any) -> None:
        """Keep a value under a name; None forgets it."""
        with self._lock:
            if self.path is not None and self.broken is None:
                with suppress(OSError, ValueError):
                    self.values = {**self.values, **self._read()}  # what another process has put meanwhile
            self.values = {key: each for key, each in {**self.values, name: value}.items() if each is not None}
            if self.path is None or self.broken is not None:
                return
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                replace_private(self.path, self.values)
            except OSError as problem:
                log.warning("cannot write %s, so what was decided holds for this run only: %s", self.path, problem)


def append_line(path: str | os.PathLike[str], value: Any) -> None:
    """Append a JSON value to a file of the user's own, as a line, in one write: those of several writers do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{json.dumps(value, default=str)}\n".encode())
    finally:
        os.close(descriptor)


def fingerprint(value: Any) -> str:
    """Return what tells one JSON value from any other: SHA-256 of its canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def difference(before: Any, now: Any) -> list[str]:
    """Return the lines in which two values differ, as `diff -u` shows them below its head."""
    old, new = (json.dumps(each, indent=2, sort_keys=True, ensure_ascii=False).split("\n") for each in (before, now))
    if max(len(old), len(new)) > _MAX_COMPARED:
        return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    return list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
