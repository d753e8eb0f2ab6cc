"""Marks: a program that was started is ended with all that it has started, also what has left its group."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_MARK: Final = "MCP_REF_STARTED_FOR"
_MAX_SCANS: Final = 100  # each takes some milliseconds; what is killed is gone after one or two


def marked(mark: str) -> dict[str, str]:
    """Return the environment of a program that `end_marked` ends with all that it has started; the mark is unique."""
    return os.environ | {_MARK: mark}


def end_marked(mark: str, process: subprocess.Popen[Any] | None = None) -> None:
    """Kill a process and its group, or (Windows) what it has started; and, where /proc shows them, all that have the
    mark.
    """
    if sys.platform == "win32":
        if process is not None:
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False)
        return
    if process is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, 9)
    own = f"{_MARK}={mark}\0".encode()
    # Until a scan finds none: a program that is just being started shows its variables a moment later.
    for _ in range(_MAX_SCANS):
        found = False
        for each in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if own in each.read_bytes():
                    found = True
                    os.kill(int(each.parent.name), 9)
        if not found:
            break
