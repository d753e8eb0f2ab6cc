"""Tests of what authorization costs a reader and a call: functions that a `tools/call` with a valid token runs
through.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jwt", reason="needs the extra auth")

ROOT = Path(__file__).parent.parent.parent.parent.parent
SERVERS = ("resource_server", "verifiers", "dpop")
WALK = """
import sys, time
from tests import walk
from mcp_ref import Client, JwtVerifier, Protection, Server
from mcp_ref.pages.basic.authorization.client import Grant
from mcp_ref.pages.basic.authorization.flow import Token
from tests.pages.basic.authorization.issuer import issuing
from tests.pages.basic.authorization.test_verifiers import EC, jwk, signed

class Given(Grant):
    "Gets one token, as OAuth does once the user has logged in."
    def obtain(self, job):
        found = job.found
        return Token(self.token, "Bearer", time.time() + 600, None, None, found.issuer, found.resource, "c", "login")

server = Server("walk")

@server.tool(scopes=["b"])
def echo() -> str:
    return ""

tracer = walk.Tracer(lines=False)
tracer.start()
with issuing() as issuer:
    issuer.publish("/keys", {"keys": [jwk(EC)]})
    protection = Protection(JwtVerifier(issuer.url), authorization_servers=[issuer.url], scopes=["a"])
    with server.serve_http(authorization=protection) as http:
        auth = Given("walk")
        auth.token = signed(issuer.claims(aud=http.url, exp=int(time.time()) + 600))
        with Client(http.url, auth=auth, revision=sys.argv[1]) as client:
            client.call_tool("echo")
            tracer.begin()
            client.call_tool("echo")
            seen = dict.fromkeys((call["file"], call["name"]) for call in tracer.calls)
for file, name in seen:
    if file.startswith("pages/basic/authorization/"):
        print(file.removeprefix("pages/basic/authorization/").removesuffix(".py"), name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_call_with_a_valid_token_takes_six_functions_in_two_files_more_on_each_side(revision: str) -> None:
    command = [sys.executable, "-c", WALK, revision]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=ROOT, check=True)
    ran = [line.split() for line in done.stdout.splitlines()]
    for side in ([each for each in ran if each[0] in SERVERS], [each for each in ran if each[0] not in SERVERS]):
        assert 0 < len(side) <= 6 and len({file for file, _ in side}) <= 2, side
