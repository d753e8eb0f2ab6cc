"""Shared by tests: what is not collected here: tests of others, which test_plugin.py runs. And what processes a test
has left.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import pytest_configure as pytest_configure  # the marks of what test_replay plays

collect_ignore = ["shown"]
GRACE = 5.0
SUBREAPER = 36  # of prctl(2): what descendants of this process leave behind becomes a child of this process


def _children() -> set[int]:
    """The processes that this one has started, or that those have left behind, but for zombies."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, *_ = entry.read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(entry.parent.name))
    return found


def _has_ended(pid: int) -> bool:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], GRACE)[0])
    finally:
        os.close(process)


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    prctl, before = ctypes.CDLL(None).prctl, _children()
    prctl(SUBREAPER, 1, 0, 0, 0)
    try:
        yield
        while left := _children() - before:
            assert all(map(_has_ended, left)), f"processes left by the test: {left}"
    finally:
        # Other tests look whether a process is gone: as a child of this one that nobody waits for, it would not be.
        prctl(SUBREAPER, 0, 0, 0, 0)
