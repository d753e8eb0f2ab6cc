"""The benchmark of other servers and several processes runs. Its marks are in spec_notes/scaling.md."""

from __future__ import annotations

import shutil

import pytest

from tests.benchmarks import processes


@pytest.mark.slow
def test_every_call_of_wrk_is_answered_under_each_server() -> None:
    pytest.importorskip("gunicorn")
    pytest.importorskip("waitress")
    if shutil.which("wrk") is None:
        pytest.skip("no wrk: bash .ci/system-packages, or apt-get install wrk")
    # It raises if an answer has another status than 200, or a connection breaks.
    found = processes.measure(1, 1, 16, [name for name in processes.CONTESTANTS if "nothing" not in name])
    assert all(turn.rate > 0 for turn in found.values())
