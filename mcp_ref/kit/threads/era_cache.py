"""Remembered: the era of each server that this process has met, the oldest forgotten first.

The contract: what is put is found again, until it is forgotten or so many others were put. Nothing blocks.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from mcp_ref.kit.threads.bounded_dict import Latest

MAX_SERVERS_REMEMBERED: Final = 1_000


class EraMemory(Latest[Hashable, str]):
    """Remembers the era of each server, by a key that identifies the server. Threads: any."""

    def __init__(self) -> None:
        super().__init__(MAX_SERVERS_REMEMBERED)

    def put(self, server: Hashable | None, era: str | None) -> None:
        """Remember it; None: forget it. A server that cannot be told from others (None) is not remembered."""
        if server is None or era is None:
            self.pop(server, None)
        else:
            self[server] = era


ERAS = EraMemory()
"""The eras that this process knows (SHOULD: keep it for the lifetime of the server process, or of the origin)."""
