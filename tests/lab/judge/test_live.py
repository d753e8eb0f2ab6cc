"""A third of the seeded violations, live: `mcp-ref check` stands between client and server, and finds just those."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.lab.judge import live

PLAYED = {"stdio": 150, "http": 40}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("over", PLAYED)
def test_finds_a_violation_as_it_happens_and_says_nothing_else(over: str) -> None:
    command = [sys.executable, "-m", "tests.lab.judge.live", over]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) >= PLAYED[over]
    assert not [row for row in rows if row["found"] != [row["rule"]]]


def test_a_third_of_what_can_be_played_is_played() -> None:
    seeds = [seed for seed, _, _ in live.third()]
    for over in PLAYED:
        assert sum(seed.over == over for seed in seeds) >= PLAYED[over]
