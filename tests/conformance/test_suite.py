"""The official conformance suite, against tests/conformance/server.py and client.py.

Every check of every scenario counts, also of those that the suite does not score; a warning, and a check that was
skipped, count as failures unless EXPLAINED says why they are not. One process at one URL serves the runs of all
revisions. In the two newest the checker is in between: nothing is our fault, and the suite's own is in a table of
spec_notes/conformance.md. `bash .ci/conformance` installs the suite.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from mcp_ref import Server
from mcp_ref.testing import AuthorizationServer
from tests.conformance import judged
from tests.conformance.suite import HERE, INSTALLED, MISSING, NODE, PATIENCE, SUITE, run, serving
from tests.support.machine import free_port

pytestmark = [
    pytest.mark.skipif(not INSTALLED, reason=MISSING),
    pytest.mark.timeout(300),
    pytest.mark.slow,
]

VERIFIED = ("digest", "size", "frontmatter")
SERVER_RUNS = [
    # arguments, how many scenarios count
    (("--requirements", "2026-07-28"), 50),
    (("--requirements", "2025-11-25"), 33),
    (("--spec-version", "2025-06-18"), 27),
    (("--spec-version", "2025-03-26"), 1),
]
CLIENT_SETS = {"2026-07-28": 39, "2025-11-25": 25}
"""How many scenarios there are for a client, those of the extensions, which the suite does not score, included."""

CLIENT_SCENARIOS = [
    ("2025-06-18", "initialize"),
    ("2025-06-18", "tools_call"),
    *(("2025-06-18", f"auth/token-endpoint-auth-{how}") for how in ("basic", "post", "none")),
    ("2025-03-26", "auth/2025-03-26-oauth-metadata-backcompat"),
    ("2025-03-26", "auth/2025-03-26-oauth-endpoint-fallback"),
    *(("2026-07-28", f"sep-2640-client-{what}") for what in ("no-prefetch", *(f"verify-{it}" for it in VERIFIED))),
]
"""Those of the older revisions, and of skills, which are in no set."""

EXPLAINED: dict[tuple[str, str], str] = {
    ("SKIPPED", "ClientMcpMethodHeader_initialize"): "a method of the session era, never sent in the stateless one",
    (
        "SKIPPED",
        "TasksStatusNotificationsScenario",
    ): "skipped by the suite itself; test_tasks.py has tests",
    ("SKIPPED", "ClientMcpMethodHeader_notifications_initialized"): "the same",
}
"""What is neither passed nor failed, by its status and the name of the check, each with its reason."""


def checks(out: Path) -> dict[str, list[dict[str, str]]]:
    """The checks of a run, by the folder of their scenario."""
    return {path.parent.name: json.loads(path.read_text("utf-8")) for path in sorted(out.rglob("checks.json"))}


def bad(out: Path) -> list[str]:
    """The checks that failed; and the warnings, and the checks that were skipped, that are not explained."""
    return [
        f"{scenario}: {check['id']} ({check['name']}): {check['status']}: {check.get('errorMessage')}"
        for scenario, each in checks(out).items()
        for check in each
        if check["status"] not in ("SUCCESS", "INFO") and (check["status"], check["name"]) not in EXPLAINED
    ]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as url:
        yield url.replace("127.0.0.1", "localhost")


def judge_server(url: str, arguments: tuple[str, ...], scenarios: int, out: Path) -> None:
    """Run the suite against the server, and assert that all that counts has passed."""
    code, printed = run("server", "--url", url, *arguments, out=out)
    assert len(checks(out)) == scenarios, printed
    assert bad(out) == [], printed
    assert code == 0, printed


def check_set(found: tuple[list[judged.Found], dict[str, int]], ours: str, revision: str, out: Path, many: int) -> None:
    """Assert of a set of scenarios that all have passed, and that nothing that was found in between is our fault."""
    assert len(checks(out)) == many
    assert bad(out) == []
    findings, events = found
    # One scenario of the suite is skipped by itself.
    silent = {scenario for scenario, number in events.items() if not number}
    assert len(events) == many and silent <= {"tasks-status-notifications"}, events
    other = "client" if ours == "server" else "server"
    assert not [str(each.finding) for each in findings if each.finding.blame != other]
    assert judged.table(findings) == [
        line for line in judged.noted() if line.startswith(f"| {revision}") and f"| {other}: " in line
    ]


@pytest.mark.timeout(600)
def test_the_server_conforms_in_both_eras_at_once_and_is_not_to_blame(url: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as runs:
        of = {
            (revision, many): runs.submit(judged.of_the_server, url, revision, tmp_path / revision)
            for (_, revision), many in SERVER_RUNS[:2]
        }
    for (revision, many), found in of.items():
        check_set(found.result(), "server", revision, tmp_path / revision, many)


@pytest.mark.parametrize(("arguments", "scenarios"), SERVER_RUNS[2:], ids=str)
def test_the_server_conforms_in_older_revisions(
    url: str, tmp_path: Path, arguments: tuple[str, ...], scenarios: int
) -> None:
    judge_server(url, arguments, scenarios, tmp_path)


@pytest.mark.parametrize("scenario", ["enumeration", "manifest", "directory"])
def test_the_server_of_skills_conforms(url: str, tmp_path: Path, scenario: str) -> None:
    arguments = ("--scenario", f"sep-2640-skills-{scenario}", "--spec-version", "2026-07-28", "--force")
    judge_server(url, arguments, 1, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("revision", CLIENT_SETS)
def test_the_client_conforms_and_is_not_to_blame(revision: str, tmp_path: Path) -> None:
    check_set(judged.of_the_client(revision, tmp_path), "client", revision, tmp_path, CLIENT_SETS[revision])


@pytest.mark.parametrize(("revision", "scenario"), CLIENT_SCENARIOS)
def test_the_client_conforms_in_older_revisions_and_with_skills(tmp_path: Path, revision: str, scenario: str) -> None:
    command = f"{sys.executable} {HERE / 'client.py'}"
    code, printed = run(
        "client", "--command", command, "--scenario", scenario, "--spec-version", revision, "--timeout", "30000",
        *(["--force"] if "sep-2640" in scenario else []), out=tmp_path,
    )  # fmt: skip
    assert any(checks(tmp_path).values()), printed
    assert bad(tmp_path) == [], printed
    assert code == 0, printed


def test_the_authorization_server_conforms(tmp_path: Path) -> None:
    login = AuthorizationServer(users={"ada": "pw"}, documents=True)
    port = free_port()
    back = f"http://127.0.0.1:{port}/callback"
    with Server("guarded").serve_http(authorization=login.protection()) as http, requests.Session() as browser:
        base = http.url.removesuffix("/mcp")
        about = {"redirect_uris": [back], "token_endpoint_auth_method": "none"}
        client = browser.post(f"{base}/register", json=about, timeout=PATIENCE).json()["client_id"]
        arguments = ["--url", base, "--client-id", client, "--resource", http.url, "-p", str(port), "-o", str(tmp_path)]
        command = [str(NODE), str(SUITE), "authorization", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as suite:
            try:
                assert suite.stdout is not None
                said = ""
                for line in suite.stdout:
                    said += line
                    # The user is told where to go, and goes there once the suite listens.
                    if line.startswith("Callback server started"):
                        (where,) = re.findall(r"http://\S+/authorize\?\S+", said)
                        (ticket,) = re.findall('name=ticket value="([^"]*)"', browser.get(where, timeout=PATIENCE).text)
                        form = {"ticket": ticket, "user": "ada", "password": "pw", "answer": "allow"}
                        assert browser.post(f"{base}/authorize", form, timeout=PATIENCE).status_code == 200
                assert suite.wait(PATIENCE) == 0, said
            finally:
                suite.kill()
    found_checks = checks(tmp_path)
    assert len(found_checks) == 2 and all(found_checks.values())
    assert not [check for each in found_checks.values() for check in each if check["status"] not in ("SUCCESS", "INFO")]
