"""Ctrl-C at each moment of a function, one after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

import pytest

TraceFunction = Callable[[FrameType, str, Any], Any]

on_python_3_11 = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="the moments are found by tracing opcodes as CPython 3.11 does"
)


class InterruptAt:
    """A trace function that raises at the n-th moment of some functions at which Python would handle Ctrl-C.

    It raises before the next instruction, and Python at the end of the one before. Where only one of the two is in a
    `try` or `with`, which the other has left or not entered, that is not the same, and no moment.
    """

    MOMENTS = ("CALL", "JUMP_BACKWARD", "RESUME")

    def __init__(self, moment: int, codes: Callable[[CodeType], bool]) -> None:
        self.left = moment
        self.last: tuple[FrameType | None, int, str] = (None, 0, "")
        self.codes = codes

    def __call__(self, frame: FrameType, event: str, arg: object) -> TraceFunction | None:
        if not self.codes(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        return self.step

    def step(self, frame: FrameType, event: str, arg: object) -> TraceFunction:
        if event == "opcode":
            (before, offset, name), now = self.last, frame.f_lasti
            if name.startswith(self.MOMENTS):
                handlers = _handlers(frame.f_code)
                self.left -= before is not frame or handlers.get(offset) == handlers.get(now)
            self.last = frame, now, dis.opname[frame.f_code.co_code[now]]
            if self.left == 0:
                raise KeyboardInterrupt
        return self.step


@cache
def _handlers(code: CodeType) -> dict[int, int]:
    """By the offset of an instruction, where an exception in it leads, if that is in the same function."""
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return {offset: each.target for each in entries for offset in range(each.start, each.end, 2)}


@contextmanager
def interrupted(moment: int, codes: Callable[[CodeType], bool]) -> Iterator[InterruptAt]:
    """Interrupt what the block does at that moment of the functions chosen; if it is over before, some are `left`."""
    before, interrupting = sys.gettrace(), InterruptAt(moment, codes)
    sys.settrace(interrupting)
    try:
        yield interrupting
    finally:
        sys.settrace(before)
