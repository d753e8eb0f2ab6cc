"""Ahead: a thread that reads something which can only be read whole, so that it can be waited for for a time.

Spec:      nothing
Upholds:   nothing by itself
Reads:     basic/deadline
Not here:  what is read (basic/patterns/listening)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from mcp_ref.basic.deadline import Deadline

__all__ = ["MOST_AHEAD", "Ahead"]

T = TypeVar("T")

MOST_AHEAD: Final = 1000
"""Items that are read ahead; then reading waits."""

_JOIN: Final = 2.0  # seconds that stop() waits for the thread


class Ahead(Generic[T]):
    """Reads ahead, in a daemon thread.

    Args:
        name: of the thread.
        step: gives the next item, or None at the end; it may block, and raise, which ends the reading. Whoever calls
            `stop` has made it return.

    Threads: any.
    """

    def __init__(self, name: str, step: Callable[[], T | None]) -> None:
        self._step = step
        self._changed = threading.Condition()  # guards the three fields below
        self._items: deque[T] = deque()
        self._end: list[BaseException | None] = []
        self._stopped = False
        # Daemon: a step may run a user's code, which must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _run(self) -> None:
        end: BaseException | None = None
        try:
            while (item := self._step()) is not None and self._keep(item):
                pass
        except BaseException as problem:
            end = problem
        with self._changed:
            self._end.append(end)
            self._changed.notify_all()

    def _keep(self, item: T) -> bool:
        """Put it in the queue, when there is room; False: nobody takes it any more."""
        with self._changed:
            # Bounded by stop().
            self._changed.wait_for(lambda: self._stopped or len(self._items) < MOST_AHEAD)
            self._items.append(item)
            self._changed.notify_all()
            return not self._stopped

    def take(self, deadline: Deadline) -> T | None:
        """The next item; None at the end. Raises RequestTimeout, and, once, what ended the reading."""
        with self._changed:
            while not (self._items or self._end or self._stopped):
                if not self._changed.wait(deadline.left()):
                    deadline.check("waiting for an event")
            if self._stopped:
                return None
            if self._items:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            problem, self._end[0] = self._end[0], None
        if problem is not None:
            raise problem
        return None

    def stop(self) -> None:
        """Give nothing more, and wait for the thread: two seconds at most, and not where it calls this itself."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN)
