"""Of many values that a test is run with, some by default, and all with `-m slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """The values as parameters, marked `slow` but for the quick ones."""
    quick = list(quick)
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in values]
