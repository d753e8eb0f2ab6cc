"""Ctrl-C at each moment of a function, one after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest

TraceFunction = Callable[[FrameType, str, Any], Any]

on_python_3_11 = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="the moments are found by tracing opcodes as CPython 3.11 does"
)


class InterruptAt:
    """A trace function that raises at the n-th moment of some functions at which Python would handle Ctrl-C."""

    MOMENTS = ("CALL", "JUMP_BACKWARD", "RESUME")

    def __init__(self, moment: int, codes: Callable[[CodeType], bool]) -> None:
        self.left = moment
        self.last = ""
        self.codes = codes

    def __call__(self, frame: FrameType, event: str, arg: object) -> TraceFunction | None:
        if not self.codes(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        return self.step

    def step(self, frame: FrameType, event: str, arg: object) -> TraceFunction:
        if event == "opcode":
            self.left -= self.last.startswith(self.MOMENTS)
            self.last = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if self.left == 0:
                raise KeyboardInterrupt
        return self.step


@contextmanager
def interrupted(moment: int, codes: Callable[[CodeType], bool]) -> Iterator[InterruptAt]:
    """Interrupt what the block does at that moment of the functions chosen; if it is over before, some are `left`."""
    before, interrupting = sys.gettrace(), InterruptAt(moment, codes)
    sys.settrace(interrupting)
    try:
        yield interrupting
    finally:
        sys.settrace(before)
