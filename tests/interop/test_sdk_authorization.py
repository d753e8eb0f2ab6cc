"""A guarded server of ours, and the client of the official SDK, which gets in by itself: login, and one step up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mcp_ref import AuthorizationServer, Context, Server

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).parent / "peers" / "sdk_login.py"


def test_the_client_of_the_sdk_gets_in_and_asks_for_more_when_it_needs_more() -> None:
    pytest.importorskip("mcp.client.auth", reason="needs the official SDK")
    server = Server("diary")

    @server.tool()
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.subject)

    @server.tool(scopes=["diary:write"])
    def write() -> str:
        return "written"

    login = AuthorizationServer(users={"ada": "pw"}, scopes=["diary:read", "diary:write"])
    with server.serve_http(authorization=login.protection(scopes=["diary:read"])) as http:
        command = [sys.executable, str(PROGRAM), http.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    expected = ["scope diary:read", "whoami ada", "scope diary:read diary:write", "write written"]
    assert done.stdout.splitlines() == expected
