"""Remembered: the era of each server that this process has met, the oldest forgotten first.

The contract: what is put is found again, until it is forgotten or so many others were put. Nothing blocks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from typing import Final

MAX_SERVERS_REMEMBERED: Final = 1_000


class EraMemory:
    """The eras of servers, by whatever tells servers apart. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _eras
        self._eras: dict[Hashable, str] = {}

    def get(self, server: Hashable | None) -> str | None:
        """The era of a server, or None."""
        return self._eras.get(server)

    def put(self, server: Hashable | None, era: str | None) -> None:
        """Remember it; None: forget it. A server that cannot be told from others (None) is not remembered."""
        with self._lock:
            self._eras.pop(server, None)
            if server is not None and era is not None:
                self._eras[server] = era
            if len(self._eras) > MAX_SERVERS_REMEMBERED:
                del self._eras[next(iter(self._eras))]


ERAS = EraMemory()
"""What this process knows (SHOULD: keep it for the lifetime of the server process, or of the origin)."""

if hasattr(os, "register_at_fork"):
    # Begun again: its lock may be held by a thread that the new process does not have.
    os.register_at_fork(after_in_child=ERAS.__init__)  # type: ignore[misc]
