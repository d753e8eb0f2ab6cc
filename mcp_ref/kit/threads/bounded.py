"""BoundedQueue: what a peer sends faster than it is used, in so many pieces of so many bytes together.

The contract: nothing here blocks. `offer` weighs an item, and refuses it if there is no room. What is `put` has room
always, as where the queue is empty: who keeps up pays nothing for the bound.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from mcp_ref.kit.typed.json_text import weigh

MAX_WAITING_SIZE: Final = 64 << 20
"""Bytes that may wait in one queue, beside the first message in it."""


class Weighed(NamedTuple):
    """An item that was offered while others waited: what `get` gives may be one, and is then to be unpacked."""

    item: Any
    weight: int


class BoundedQueue(SimpleQueue[Any]):
    """A queue into which one thread at a time may `offer`, and from which one takes."""

    _came = _went = 0  # bytes of all that was weighed

    def offer(self, item: Any, value: Any, most: int) -> bool:
        """Put an item that holds a value of a peer's; False if `most` wait already, or too many bytes."""
        weight = 0 if value is None else weigh(value)
        if self.qsize() >= most or self._came - self._went + weight > MAX_WAITING_SIZE:
            return False
        self._came += weight
        self.put(Weighed(item, weight))
        return True

    def unpack(self, weighed: Weighed) -> Any:
        """Return what was offered."""
        self._went += weighed.weight
        return weighed.item
