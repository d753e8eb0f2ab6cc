"""Outbox: what waits to be written to one peer, at most one message for each key.

The contract: `put` never blocks, whether or not the peer reads. A message whose key still waits is replaced where it
stands, so what waits is bounded by the number of keys. `wake`, given once, is called when there is something to
write; the thread that it wakes calls `flush`, which may block. Nothing that was put is lost, and no message is written
after a later one of the same key.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """The messages that wait for one peer, oldest first.

    Attributes:
        waiting: they, by their keys. For others to count only.

    Threads: any. `wake` and `write` are called without a lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the fields below
        self.waiting: OrderedDict[Hashable, T] = OrderedDict()
        self._wake: Callable[[], None] | None = None
        self._woken = False  # `wake` was called, and the flush that it asked for has not begun
        self._flushing = False
        self._closed = False
        self._end_due = False  # it was closed, and no flush has said yet that all is written

    def on_work(self, wake: Callable[[], None]) -> None:
        """Say how a flush is asked for; `wake` is called at once if something waits already.

        Args:
            wake: has `flush` called soon by a thread that may block. It is called by any thread and must not block; it
                is not called again before that flush begins.
        """
        self._wake = wake
        self._wake_if_needed()

    def put(self, key: Hashable, message: T) -> None:
        """Queue a message to be written; it takes the place of the one with the same key that still waits.

        Nothing happens once the outbox was closed or discarded.
        """
        with self._lock:
            if not self._closed:
                self.waiting[key] = message
        self._wake_if_needed()

    def flush(self, write: Callable[[T], None]) -> bool:
        """Write what waits until nothing does. While another thread flushes, this returns at once.

        Returns: True for one flush alone: the outbox was closed, and all that was put is written.
        Blocks: as long as `write` does.
        Raises: what `write` raises; the outbox is then discarded.
        """
        with self._lock:
            self._woken = False
            if self._flushing:
                return False
            self._flushing = True
        while True:
            with self._lock:
                if not self.waiting:
                    # In one step with the look: whatever is put from here on wakes another flush.
                    self._flushing = False
                    ended, self._end_due = self._end_due, False
                    return ended
                _, message = self.waiting.popitem(last=False)
            try:
                write(message)
            except BaseException:
                with self._lock:
                    self._flushing = False
                self.discard()
                raise

    def close(self) -> bool:
        """Take nothing more; what waits is still written. Returns whether it was open until now."""
        with self._lock:
            first, self._closed = not self._closed, True
            self._end_due = self._end_due or first
        if first:
            self._wake_if_needed()
        return first

    def discard(self) -> None:
        """Take nothing more and forget what waits: the peer is gone. Whoever flushes is woken to find that out."""
        with self._lock:
            self._closed, self._end_due = True, False
            self.waiting.clear()
        self._wake_if_needed()

    def _wake_if_needed(self) -> None:
        """Ask for a flush, unless one is under way, or was asked for, or would find nothing to do."""
        with self._lock:
            if self._wake is None or self._woken or self._flushing or not (self.waiting or self._closed):
                return
            self._woken = True
            wake = self._wake
        wake()
