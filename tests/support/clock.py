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
