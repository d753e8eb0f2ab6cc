"""Events: a server's notifications on their way to the user's callbacks, in order, on one thread.

Spec:      server/utilities/logging, and the list-changed and updated notifications of the server's pages
Upholds:   spec_notes/server/utilities/logging.md, the row on the client
Reads:     basic/deadline
Not here:  which notification goes to which callback (client/client)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from mcp_ref.basic.deadline import Deadline

__all__ = ["MOST_WAITING", "Events"]

log = logging.getLogger(__name__)

MOST_WAITING = 100_000
"""Callbacks that may wait; a server that floods a slow callback loses what comes on top, and the log says so."""


class Events:
    """The thread `mcp-events` of one client.

    Threads: `put` by the transport's reader; `close` by any thread.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()  # guards the start of the thread, and _closed
        self._closed = False
        self._lost = False
        # Daemon: a callback is the user's code, and must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="mcp-events", daemon=True)

    def put(self, callback: Callable[[], None]) -> None:
        """Have the callback run after those that came before. Never blocks; starts the thread the first time."""
        if self._queue.qsize() >= MOST_WAITING:
            if not self._lost:
                log.warning("callbacks are too slow: notifications of the server are dropped")
            self._lost = True
            return
        with self._lock:
            if not self._closed:
                self._queue.put(callback)
                if self._thread.ident is None:
                    self._thread.start()

    def _run(self) -> None:
        while True:
            # Bounded by close(), which sends the sentinel.
            callback = self._queue.get()
            if callback is None:
                return
            try:
                callback()
            except BaseException:
                # Also what is no Exception, such as SystemExit: it ends the callback, not those after it.
                log.exception("a callback for a notification failed")

    def close(self, deadline: Deadline) -> None:
        """End the thread after what is waiting: it finds a sentinel. A callback that lasts longer is left behind."""
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            self._queue.put(None)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(deadline.left())
