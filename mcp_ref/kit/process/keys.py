"""Secret keys that several processes share: from a file that is read again when it changes, or from the environment.

    keys_in(text, where)    the keys in a text, checked
    KeyFile(path)()         those in a file, as it is now

A key is 32 random bytes or more, written in base64 or hexadecimal, as `openssl rand -base64 32` writes one. Keys stand
one a line, or with spaces between, the one in use first. What follows a "#" is a comment. The characters are the key:
nothing is decoded.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from mcp_ref.kit.threads.warn_once import Complaints

log = logging.getLogger(__name__)

_KEY = re.compile(r"[A-Za-z0-9+/_-]{43,}={0,2}")


def keys_in(text: str, where: str) -> tuple[bytes, ...]:
    """Return the keys in a text. Raises ValueError, which names `where` and no key: it has none, or a short one."""
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    for number, word in enumerate(words, 1):
        if _KEY.fullmatch(word) is None:
            raise ValueError(
                f"key {number} in {where} is not 32 random bytes in base64, as `openssl rand -base64 32` makes"
            )
    if not words:
        raise ValueError(f"no key was found in {where}; `openssl rand -base64 32` makes one")
    return tuple(word.encode("ascii") for word in words)


class KeyFile:
    """The keys in a file; calling it gives them as they are now.

    Replace the file by renaming another one, so that nobody reads half of it. While it cannot be read, or has something
    else in it, the keys that were read last count, and the log says so, once.

    Raises: OSError, ValueError: the file cannot be read, or has no keys.
    Threads: any.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path, self._complain = Path(path), Complaints(log)
        self._keys, self._state = keys_in(self._path.read_text("ascii"), str(path)), self._look()

    def _look(self) -> tuple[int, int, int]:
        state = self._path.stat()
        return state.st_mtime_ns, state.st_ino, state.st_size

    def __call__(self) -> tuple[bytes, ...]:
        """Return the keys. One look at the file's time, so that a new key counts at once, and in every process."""
        try:
            if (state := self._look()) != self._state:
                self._keys, self._state = keys_in(self._path.read_text("ascii"), str(self._path)), state
        except (OSError, ValueError) as problem:
            self._complain("the keys that were read before still count: %s", problem)
        return self._keys
