"""How far a reader walks: the functions and files of one call, one question, one subscription, on both sides."""

from __future__ import annotations

import pytest

from tests.test_walkthrough import files, trace_a_call, trace_an_answer
from tests.test_walkthrough_http import trace_a_post
from tests.walk import REVISIONS, WALKS, measure

BUDGETS = {
    ("call", "stdio", "2025-11-25"): (60, 19),
    ("call", "stdio", "2026-07-28"): (70, 21),
    ("call", "http", "2025-11-25"): (100, 24),
    ("call", "http", "2026-07-28"): (110, 26),
    ("elicit", "stdio", "2025-11-25"): (100, 24),
    ("elicit", "stdio", "2026-07-28"): (130, 28),
    ("elicit", "http", "2025-11-25"): (160, 32),
    ("elicit", "http", "2026-07-28"): (170, 34),
    ("subscribe", "stdio", "2025-11-25"): (90, 23),
    ("subscribe", "stdio", "2026-07-28"): (140, 28),
    ("subscribe", "http", "2025-11-25"): (150, 32),
    ("subscribe", "http", "2026-07-28"): (200, 34),
}
"""For each walk, the most functions and the most files."""


@pytest.mark.parametrize("walk", WALKS, ids=" ".join)
def test_a_walk_stays_within_its_budget(walk: tuple[str, str, str]) -> None:
    # The shortest of at most three: a lock that another thread holds just then, or a date that is due, takes a function
    # or two more.
    for _ in range(3):
        functions, files, printed = measure(*walk)
        if functions <= BUDGETS[walk][0] and files <= BUDGETS[walk][1]:
            return
    raise AssertionError(printed)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_call_is_at_most_seven_frames_in_four_files_above_its_write(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = trace_a_call(monkeypatch, revision).stack
    assert len(stack) <= 7 and len(files(stack)) <= 4, stack


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_tool_is_at_most_nine_frames_in_five_files_above_the_read(revision: str) -> None:
    # Two threads: the reader, up to where it hands the request over, and the worker that takes it.
    for way in trace_an_answer(revision):
        assert len(way.stack) <= 9 and len(files(way.stack)) <= 5, way.stack


@pytest.mark.parametrize("revision", REVISIONS)
def test_over_http_a_tool_is_at_most_twelve_frames_in_six_files_above_its_request(revision: str) -> None:
    stack = trace_a_post(revision).there.stack
    assert len(stack) <= 12 and len(files(stack)) <= 6, stack
