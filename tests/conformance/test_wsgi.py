"""The official conformance suite against the same server under other WSGI servers, and in four processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.suite import INSTALLED, MISSING
from tests.conformance.test_suite import SERVER_RUNS, judge_server
from tests.redis_server import redis_server
from tests.under_wsgi import under

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not INSTALLED, reason=MISSING),
    pytest.mark.timeout(300),
]

APPLICATION = "tests.conformance.server:application"
STATELESS, SESSIONS = SERVER_RUNS[:2]


@pytest.mark.parametrize("server", ["waitress", "gunicorn"])
def test_the_server_conforms_in_both_eras_under(server: str, tmp_path: Path) -> None:
    with under(server, APPLICATION, threads=50) as running:
        for arguments, scenarios in (STATELESS, SESSIONS):
            judge_server(running.url.replace("127.0.0.1", "localhost"), arguments, scenarios, tmp_path / arguments[1])


def test_the_server_conforms_in_four_processes(tmp_path: Path) -> None:
    """Rounds go on elsewhere, tasks are found anywhere, and changes are told by the bus."""
    with redis_server(tmp_path) as redis:
        env = {"CONFORMANCE_KEYS": "k" * 43, "CONFORMANCE_REDIS": redis.url, "CONFORMANCE_TASKS": f"{tmp_path}/tasks"}
        with under("gunicorn", APPLICATION, workers=4, threads=50, env=env) as running:
            judge_server(running.url.replace("127.0.0.1", "localhost"), *STATELESS, tmp_path / "out")
