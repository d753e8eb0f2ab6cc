"""What a host keeps: decisions that were made for always, and the definitions that they were made about.

Spec:      architecture, "Host"; server/tools#security-considerations
Upholds:   spec_notes/architecture.md
Not here:  deciding (host/consent); when definitions are compared (host/host)

Both are JSON objects in files that belong to the user alone, outside of any project. A file that cannot be trusted is
neither used nor written: nothing counts as decided, and every definition as changed, until somebody looks at it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import os
import stat
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

log = logging.getLogger(__name__)

_NOT_SHOWN: Final = ("_meta", "icons")
_MAX_FILE: Final = 64 << 20  # bytes
_MAX_COMPARED: Final = 2_000  # lines of a definition


def user_folder() -> Path:
    """Where a host keeps what is the user's, whatever project it works in."""
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
        except (OSError, ValueError, RecursionError) as problem:
            self.broken = f"{path} is not used: {problem}"
            log.warning("%s", self.broken)

    def _read(self) -> dict[str, Any]:
        if self.path is None:
            return {}
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return {}
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
            if not stat.S_ISREG(found.st_mode) or not mine:
                raise ValueError("it must be a file that belongs to this user alone (mode 0600)")
            values = json.loads(file.read(_MAX_FILE))
        if not isinstance(values, dict) or not all(isinstance(value, self._kind) for value in values.values()):
            raise ValueError("it does not have the form that was written")
        return values

    def put(self, name: str, value: Any) -> None:
        """Keep a value under a name; None forgets it."""
        with self._lock:
            if self.path is not None and self.broken is None:
                with suppress(OSError, ValueError, RecursionError):
                    self.values = {**self.values, **self._read()}  # what another process has put meanwhile
            self.values = {key: each for key, each in {**self.values, name: value}.items() if each is not None}
            if self.path is None or self.broken is not None:
                return
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor, temporary = tempfile.mkstemp(dir=self.path.parent)
                with open(descriptor, "w", encoding="utf-8") as file:
                    json.dump(self.values, file)
                os.replace(temporary, self.path)
            except OSError as problem:
                log.warning("%s cannot be written, and what was decided holds for this run: %s", self.path, problem)


# -- definitions ------------------------------------------------------------------------------------------------------


def fingerprint(value: Any) -> str:
    """What tells one JSON value from any other: SHA-256 of its canonical form. What is only for the eye is left out."""
    if isinstance(value, Mapping):
        value = {key: each for key, each in value.items() if key not in _NOT_SHOWN}
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def difference(before: Any, now: Any) -> list[str]:
    """The lines that two definitions differ in, as `diff -u` shows them, without its head."""
    old, new = (json.dumps(each, indent=2, sort_keys=True, ensure_ascii=False).split("\n") for each in (before, now))
    if max(len(old), len(new)) > _MAX_COMPARED:
        return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    return list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]


class Pins:
    """The definitions that somebody consented to, by the server's way of being started and their name.

    They show what a server says, and not what it does: one that keeps its words and changes its deeds is not found.
    Threads: any.
    """

    def __init__(self, path: Path | None) -> None:
        self._kept = KeptObject(path, dict)
        self._unsure = self._kept.broken is not None

    @property
    def broken(self) -> str | None:
        """Why the file of pins is not used: then every definition counts as changed."""
        return self._kept.broken

    def state(self, bound: str, subject: str, print_now: str) -> str:
        """ "same", "new" or "changed": what a definition is to the one that was consented to."""
        pin = self._kept.values.get(f"{bound[:16]} {subject}")
        if pin is None:
            return "changed" if self._unsure else "new"
        return "same" if pin.get("fingerprint") == print_now else "changed"

    def before(self, bound: str, subject: str) -> Any:
        """The definition that was consented to, or None."""
        return self._kept.values.get(f"{bound[:16]} {subject}", {}).get("definition")

    def pin(self, bound: str, subject: str, print_now: str, definition: Any) -> None:
        """Note that somebody consented to a definition."""
        self._kept.put(f"{bound[:16]} {subject}", {"fingerprint": print_now, "definition": definition})

    def pinned(self, bound: str) -> list[str]:
        """The names of what was consented to of one server."""
        start = f"{bound[:16]} "
        return [key.removeprefix(start) for key in self._kept.values if key.startswith(start)]

    def forget(self, bound: str, subject: str) -> None:
        """Forget one: it counts as new."""
        self._kept.put(f"{bound[:16]} {subject}", None)
