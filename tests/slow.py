"""Of many values that a test is run with, some by default, and all with `-m slow`, or in `.ci/run`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """The values as parameters, marked `slow` but for the quick ones."""
    quick = list(quick)
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in values]


THOROUGH = os.environ.get("MCP_REF_THOROUGH") == "1"
"""`.ci/run` sets it."""


def examples(thorough: int) -> int:
    """How many examples Hypothesis makes for a test: so many where it is thorough, and a quarter of them otherwise."""
    return thorough if THOROUGH else max(10, thorough // 4)
