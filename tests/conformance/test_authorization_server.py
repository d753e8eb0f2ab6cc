"""The official suite against our small authorization server: `conformance authorization`, with us as its user."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from pathlib import Path

import pytest
import requests

from mcp_ref import Server
from mcp_ref.testing import AuthorizationServer
from tests.conformance.suite import INSTALLED, MISSING, NODE, SUITE
from tests.support.machine import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not INSTALLED, reason=MISSING),
]


def test_every_check_of_an_authorization_server_succeeds(tmp_path: Path) -> None:
    port = str(free_port())
    login = AuthorizationServer(users={"ada": "pw"}, scopes=["read"], documents=True)
    with Server("s").serve_http(authorization=login.protection()) as http:
        base = http.url.removesuffix("/mcp")
        callback = {"redirect_uris": [f"http://127.0.0.1:{port}/callback"], "token_endpoint_auth_method": "none"}
        client = requests.post(f"{base}/register", json=callback, timeout=10).json()["client_id"]
        command = [str(NODE), str(SUITE), "authorization", "--url", base, "--client-id", client, "-p", port]
        command += ["--resource", http.url, "-o", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as suite:
            assert suite.stdout is not None
            for line in suite.stdout:
                if found := re.search(r"http://\S+/authorize\?\S+", line):
                    visit(found[0])
            suite.wait(30)
    checks = [check for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text())]
    assert len(checks) >= 2
    assert {check["id"]: check["status"] for check in checks if check["status"] not in ("SUCCESS", "INFO")} == {}


def visit(url: str) -> None:
    """Be the user: sign in, allow it, and go back to the client once it listens."""
    with requests.Session() as browser:
        page = browser.get(url, timeout=10)
        ticket = re.search('name=ticket value="([^"]*)"', page.text)
        assert ticket is not None, page.text
        form = {"ticket": ticket[1], "user": "ada", "password": "pw", "answer": "allow"}
        place = browser.post(page.url.partition("?")[0], data=form, allow_redirects=False, timeout=10)
        for _ in range(50):
            try:
                browser.get(place.headers["Location"], timeout=10)
                return
            except requests.ConnectionError:
                threading.Event().wait(0.1)
    raise AssertionError("the suite does not listen")
