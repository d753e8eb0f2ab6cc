"""Turns: work that is done one at a time, in a thread of its own, and waited for; and work done for several at once.

Contract: `Turns.take` runs each function in the order of the calls, and returns what it gave, or why there is nothing:
it is bounded, and ends when the handle that it was given is used. A function that is still running then goes on, and
what it gives is thrown away. `at_once` runs a function for each of several things, and is bounded as a whole.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from mcp_ref.errors import RequestTimeout
from mcp_ref.kit.threads.callbacks import CallbackThread
from mcp_ref.kit.threads.deadline import SIGNAL_INTERVAL, Cancel, Deadline

log = logging.getLogger(__name__)

Thing = TypeVar("Thing")


class Turns:
    """Functions that are run one after the other. Threads: any; a function that takes a turn itself is run at once."""

    def __init__(self, thread: str) -> None:
        self._name = thread
        self._lock = threading.Lock()  # guards _thread and _waiting
        self._thread: CallbackThread | None = None
        self._waiting: list[Cancel] = []
        self._here = threading.local()  # whether this thread is having its turn

    def take(self, function: Callable[[], Any], given_up: Cancel, timeout: float | None) -> tuple[Any, str | None]:
        """Return what a function gives, or None and one of "failed", "withdrawn" and "time-out".

        Args:
            given_up: ends the wait; it is used here when the wait ends for whatever reason.

        Blocks: until its turn is over, at most `timeout` seconds.
        """
        outcome: SimpleQueue[tuple[Any, str | None]] = SimpleQueue()

        def have_turn() -> None:
            if given_up.cancelled:
                return
            self._here.has_turn = True
            try:
                outcome.put((function(), None))
            except Exception:
                log.exception("what was shown in the thread %s failed", self._name)
                outcome.put((None, "failed"))
            finally:
                self._here.has_turn = False

        try:
            given_up.attach(lambda reason: outcome.put((None, "withdrawn")))
            if getattr(self._here, "has_turn", False):
                have_turn()
            else:
                with self._lock:
                    self._waiting.append(given_up)
                    self._thread = self._thread or CallbackThread(self._name)
                    self._thread.put(have_turn, "a turn")
            deadline = Deadline(timeout)
            while deadline.left() != 0.0:
                with suppress(Empty):
                    return outcome.get(timeout=deadline.at_most(SIGNAL_INTERVAL))
            return None, "time-out"
        finally:
            # Also by Ctrl-C: what comes later is thrown away.
            given_up("over")
            with self._lock:
                self._waiting = [each for each in self._waiting if each is not given_up]

    def close(self, deadline: Deadline) -> None:
        """Give up all that wait. The thread finds a sentinel; a function that does not return is left behind."""
        with self._lock:
            thread, self._thread, waiting = self._thread, None, self._waiting
        for each in waiting:
            each("closing")
        if thread is not None:
            thread.close(deadline)


def at_once(
    function: Callable[[Thing], Any], things: Iterable[Thing], timeout: float | None
) -> list[tuple[Thing, Any]]:
    """Return what a function gives for each of several things, or the exception that it raises.

    Each has a thread `mcp-at-once` that ends with it. Blocks: at most `timeout` seconds; what takes longer comes to a
    RequestTimeout.
    """
    found: dict[int, Any] = {}

    def run(number: int, thing: Thing) -> None:
        try:
            found[number] = function(thing)
        except Exception as problem:
            found[number] = problem

    chosen, deadline = list(things), Deadline(timeout)
    # Daemon: the function has a time limit of its own.
    threads = [threading.Thread(target=run, args=each, name="mcp-at-once", daemon=True) for each in enumerate(chosen)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline.left())
    late = RequestTimeout("it did not answer in time")
    return [(thing, found.get(number, late)) for number, thing in enumerate(chosen)]
