"""How far a reader walks: the functions and files of one call, one question, one subscription, on both sides."""

from __future__ import annotations

import pytest

from tests.walk import WALKS, measure

BUDGETS = {
    ("call", "stdio", "2025-11-25"): (60, 19),
    ("call", "stdio", "2026-07-28"): (70, 21),
    ("call", "http", "2025-11-25"): (100, 24),
    ("call", "http", "2026-07-28"): (110, 26),
    ("elicit", "stdio", "2025-11-25"): (100, 24),
    ("elicit", "stdio", "2026-07-28"): (130, 28),
    ("elicit", "http", "2025-11-25"): (160, 32),
    ("elicit", "http", "2026-07-28"): (170, 34),
    ("subscribe", "stdio", "2025-11-25"): (90, 22),
    ("subscribe", "stdio", "2026-07-28"): (140, 28),
    ("subscribe", "http", "2025-11-25"): (150, 32),
    ("subscribe", "http", "2026-07-28"): (200, 34),
}
"""For each walk, the most functions and the most files."""


@pytest.mark.parametrize("walk", WALKS, ids=" ".join)
def test_a_walk_stays_within_its_budget(walk: tuple[str, str, str]) -> None:
    functions, files, printed = measure(*walk)
    assert (functions <= BUDGETS[walk][0]) and (files <= BUDGETS[walk][1]), printed
