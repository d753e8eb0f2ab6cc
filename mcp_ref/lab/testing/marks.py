"""Marks: a program that was started is ended with all that it has started, also what has left its group."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

_MARK: Final = "MCP_REF_STARTED_FOR"


def marked(mark: str) -> dict[str, str]:
    """Return the environment of a program that `end_marked` ends with all that it has started; the mark is unique."""
    return os.environ | {_MARK: mark}


def end_marked(mark: str) -> None:
    """Kill every process that has the mark in its environment, where /proc shows that."""
    for each in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{_MARK}={mark}\0".encode() in each.read_bytes():
                os.kill(int(each.parent.name), signal.SIGKILL)
