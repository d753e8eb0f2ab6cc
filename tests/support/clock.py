"""Time in tests: a clock that is moved by hand, and a wait for what no event tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 20.0
"""Seconds that a test waits for something that must happen."""


class Clock:
    """Seconds that pass when the test says so: `now` is set."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def until(look: Callable[[], Any]) -> Any:
    """Look again until there is something to see, and return it."""
    end, pause = time.monotonic() + PATIENCE, threading.Event()
    while not (seen := look()):
        assert time.monotonic() < end, f"it did not come to pass within {PATIENCE} s"
        pause.wait(0.005)
    return seen


def grows_with_its_size(work: Callable[[int], Any], size: int) -> None:
    """Fail where ten times the size takes more than thirty times as long: a square takes a hundred, on any machine."""

    def took(size: int) -> float:
        began = time.process_time()
        work(size)
        return time.process_time() - began

    few, many = took(size // 10), took(size)
    assert many < 30 * few + 0.1, f"{size // 10} took {few:.3f} s, and {size} {many:.3f} s"
