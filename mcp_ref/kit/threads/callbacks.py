"""CallbackThread: one thread in which callbacks of the user run, one after the other.

The contract: `put` never blocks; what it takes runs in the order of the calls, and a callback that raises does not keep
the next from running. At most `MAX_WAITING` wait, with so many bytes as kit/threads/bounded says; more are dropped.
`close` is bounded.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from mcp_ref.kit.threads.bounded import BoundedQueue, Weighed
from mcp_ref.kit.threads.deadline import Deadline, has_ended

log = logging.getLogger(__name__)

MAX_WAITING = 100_000


class CallbackThread:
    """A thread of that name; it starts with the first callback.

    Threads: any.
    """

    def __init__(self, name: str) -> None:
        self._queue = BoundedQueue()
        self._lock = threading.Lock()  # guards the start of the thread, and _closed
        self._closed = self._overflown = False
        # Daemon: a callback is the user's code, and must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def put(self, callback: Callable[[], object], what: str, value: Any = None) -> None:
        """Queue a callback behind those that came before; if too much waits it is dropped, which the log says once.

        Args:
            value: that a peer has sent, and the callback holds.
        """
        with self._lock:
            if self._closed:
                return
            if self._queue.empty():
                self._queue.put(callback)
            elif not self._queue.offer(callback, value, MAX_WAITING):
                if not self._overflown:
                    log.warning("callbacks are too slow: some are dropped (%s), from %s on", self._thread.name, what)
                self._overflown = True
                return
            try:
                if self._thread.ident is None:
                    self._thread.start()
            except RuntimeError as problem:
                # It stays in the queue, and the next one tries again.
                log.warning("could not start a thread: %s", problem)

    def _run(self) -> None:
        # Bounded by close(), which sends the sentinel.
        while (callback := self._queue.get()) is not None:
            if isinstance(callback, Weighed):
                callback = self._queue.unpack(callback)
            try:
                callback()
            except BaseException:
                # SystemExit too ends the callback alone, and not those after it.
                log.exception("a callback failed (%s)", self._thread.name)

    def close(self, deadline: Deadline) -> None:
        """End the thread after what is waiting: it finds a sentinel. A callback that lasts longer is left behind."""
        with self._lock:
            self._closed = True
        self._queue.put(None)
        has_ended(self._thread, deadline)
