"""The official conformance suite, against tests/conformance/server.py and client.py.

Every check of every scenario counts, also of those that the suite does not score; a warning, and a check that was
skipped, count as failures unless EXPLAINED says why they are not. One process at one URL serves the runs of all
revisions. `bash .ci/conformance` installs the suite.
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
from tests.conformance.suite import ENVIRONMENT, HERE, INSTALLED, MISSING, NODE, PATIENCE, ROOT, SUITE, serving
from tests.support.machine import free_port

pytestmark = [
    pytest.mark.skipif(not INSTALLED, reason=MISSING),
    pytest.mark.timeout(300),
    pytest.mark.slow,
]

SERVER_RUNS = [
    # arguments, how many scenarios count
    (("--requirements", "2026-07-28"), 50),
    (("--requirements", "2025-11-25"), 33),
    (("--spec-version", "2025-06-18"), 27),
    (("--spec-version", "2025-03-26"), 1),
]

_TOKEN_ENDPOINT = ["auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none"]
_AUTHORIZATION = [
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/pre-registration",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    *_TOKEN_ENDPOINT,
]
CLIENT_SCENARIOS = {
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ],
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ],
    "2025-06-18": ["initialize", "tools_call"],
}
"""Those without authorization; 2025-03-26 has none other."""

AUTHORIZATION_SCENARIOS = {
    "2026-07-28": [
        *_AUTHORIZATION,
        "auth/offline-access-scope",
        "auth/offline-access-not-supported",
        "auth/iss-supported",
        "auth/iss-not-advertised",
        "auth/iss-supported-missing",
        "auth/iss-wrong-issuer",
        "auth/iss-unexpected",
        "auth/iss-normalized",
        "auth/resource-mismatch",
        "auth/metadata-issuer-mismatch",
        "auth/authorization-server-migration",
    ],
    "2025-11-25": _AUTHORIZATION,
    "2025-06-18": _TOKEN_ENDPOINT,
    "2025-03-26": ["auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"],
}
"""Every scenario of authorization that the suite scores."""

_EXTENSIONS = [
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
    "auth/dpop",
    "auth/dpop-nonce",
]
EXTENSIONS = {"2026-07-28": _EXTENSIONS, "2025-11-25": _EXTENSIONS}
"""Those of extensions, which it does not score, and runs only with `--force`."""

EXPLAINED: dict[tuple[str, str], str] = {
    ("SKIPPED", "ClientMcpMethodHeader_initialize"): "a method of the session era, never sent in the stateless one",
    (
        "SKIPPED",
        "TasksStatusNotificationsScenario",
    ): "skipped by the suite itself; test_tasks.py has tests",
    ("SKIPPED", "ClientMcpMethodHeader_notifications_initialized"): "the same",
}
"""What is neither passed nor failed, by its status and the name of the check, each with its reason."""


def run(*arguments: str, out: Path) -> tuple[int, str]:
    """Run the suite; its exit code, and what it prints."""
    command = [str(NODE), str(SUITE), *arguments, "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT, cwd=ROOT)
    return done.returncode, done.stdout + done.stderr


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


@pytest.mark.parametrize(("arguments", "scenarios"), SERVER_RUNS, ids=lambda value: str(value))
def test_the_server_conforms(url: str, tmp_path: Path, arguments: tuple[str, ...], scenarios: int) -> None:
    judge_server(url, arguments, scenarios, tmp_path)


@pytest.mark.parametrize("scenario", ["enumeration", "manifest", "directory"])
def test_the_server_of_skills_conforms(url: str, tmp_path: Path, scenario: str) -> None:
    arguments = ("--scenario", f"sep-2640-skills-{scenario}", "--spec-version", "2026-07-28", "--force")
    judge_server(url, arguments, 1, tmp_path)


@pytest.mark.parametrize("scenario", ["no-prefetch", "verify-digest", "verify-size", "verify-frontmatter"])
def test_the_client_of_skills_conforms(tmp_path: Path, scenario: str) -> None:
    judge_client("2026-07-28", f"sep-2640-client-{scenario}", tmp_path, "--force")


def test_the_server_conforms_in_both_eras_at_once(url: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as runs:
        judged = [
            runs.submit(judge_server, url, arguments, scenarios, tmp_path / arguments[1])
            for arguments, scenarios in SERVER_RUNS[:2]
        ]
    for each in judged:
        each.result(PATIENCE)


def judge_client(revision: str, scenario: str, out: Path, *more: str) -> None:
    """Run a scenario against the client, and assert that it ran, and that all of it has passed."""
    command = f"{sys.executable} {HERE / 'client.py'}"
    code, printed = run(
        "client", "--command", command, "--scenario", scenario, "--spec-version", revision, "--timeout", "30000", *more,
        out=out,
    )  # fmt: skip
    assert any(checks(out).values()), printed
    assert bad(out) == [], printed
    assert code == 0, printed


@pytest.mark.parametrize(
    ("revision", "scenario"), [(revision, name) for revision, names in CLIENT_SCENARIOS.items() for name in names]
)
def test_the_client_conforms(tmp_path: Path, revision: str, scenario: str) -> None:
    judge_client(revision, scenario, tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("revision", AUTHORIZATION_SCENARIOS)
def test_the_client_conforms_with_authorization(tmp_path: Path, revision: str) -> None:
    with ThreadPoolExecutor(4) as runs:
        judged = {
            name: runs.submit(judge_client, revision, name, tmp_path / name.replace("/", "-"), *more)
            for names, more in ((AUTHORIZATION_SCENARIOS[revision], ()), (EXTENSIONS.get(revision, []), ("--force",)))
            for name in names
        }
    for each in judged.values():
        each.result()


@pytest.mark.slow
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
