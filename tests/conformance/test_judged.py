"""The official conformance suite with the checker in between: nothing is our fault; the suite's own is in a table."""

from __future__ import annotations

import pytest

from tests.conformance import judged
from tests.conformance.suite import INSTALLED, MISSING, serving

pytestmark = [
    pytest.mark.skipif(not INSTALLED, reason=MISSING),
    pytest.mark.timeout(600),
    pytest.mark.slow,
]

SCENARIOS = {"server": {"2025-11-25": 33, "2026-07-28": 50}, "client": {"2025-11-25": 25, "2026-07-28": 39}}


@pytest.mark.parametrize("revision", judged.SETS)
@pytest.mark.parametrize("ours", ["server", "client"])
def test_what_the_checker_finds_in_the_suite_is_noted_and_never_our_fault(ours: str, revision: str) -> None:
    if ours == "server":
        with serving() as url:
            found, events = judged.of_the_server(url, revision)
    else:
        found, events = judged.of_the_client(revision)
    # One scenario of the suite is skipped by itself.
    silent = {scenario for scenario, number in events.items() if not number}
    assert len(events) == SCENARIOS[ours][revision] and silent <= {"tasks-status-notifications"}, events
    other = "client" if ours == "server" else "server"
    assert not [str(each.finding) for each in found if each.finding.blame != other]
    assert judged.table(found) == [
        line for line in judged.noted() if line.startswith(f"| {revision}") and f"| {other}: " in line
    ]
