"""Guarded servers and clients that get in, one side of ours and the other of an official SDK.

What the others do differently, and what these tests therefore expect or leave out:

- The SDK for Python 2.3, as a server: it checks no audience unless told to, names no `scope` in its challenges, answers
  `invalid_token` without a token, and its authorization server wants `client_id` in the form of every client
  and ends its issuer with a slash. As a client it does not insist on PKCE in the metadata.
- The SDK for TypeScript 1.32, as a client: it steps up by its refresh token if it has one, which cannot widen a grant.
  As a server: its authorization server ends its issuer with a slash, and sends no `iss`.
- Version 2.4, as a client: it checks no `state`, and leaves that to the program.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_ref import Client, Context, OAuth, Server
from mcp_ref.testing import AuthorizationServer
from tests.interop.programs import Served, free_port, sdk, typescript
from tests.interop.test_oidc_provider import INTROSPECTS, WAIT, Browser, said

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).parent / "peers" / "sdk_login.py"


@pytest.fixture
def url() -> Iterator[str]:
    """A guarded server of ours, with its own authorization server."""
    server = Server("diary")

    @server.tool()
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.subject)

    @server.tool(scopes=["diary:write"])
    def write() -> str:
        return "written"

    login = AuthorizationServer(users={"ada": "pw"}, scopes=["diary:read", "diary:write"])
    with server.serve_http(authorization=login.protection(scopes=["diary:read"])) as http:
        yield http.url


@pytest.mark.parametrize("peer", ["python 2", "typescript 1", "typescript 2"])
def test_the_client_of_an_sdk_gets_in_and_asks_for_more_when_it_needs_more(peer: str, url: str) -> None:
    if peer == "python 2":
        pytest.importorskip("mcp.client.auth", reason="needs the official SDK")
        command = [sys.executable, str(PROGRAM), url]
    else:
        package = "sdk" if peer == "typescript 1" else "client"
        command = typescript("ts_login.mjs", package, url, package=package)
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    expected = ["scope diary:read", "whoami ada", "scope diary:read diary:write", "write written"]
    assert done.stdout.splitlines() == expected


def test_our_client_gets_in_at_a_server_of_the_sdk_for_python_and_refreshes_its_token() -> None:
    browser, port = Browser(), free_port()
    command, url = [*sdk(), str(PROGRAM.parent / "sdk_guarded.py"), str(port)], f"http://127.0.0.1:{port}/mcp"
    with (
        Served(command, announced="INFO:     Uvicorn running", url=url) as served,
        Client(served.url, auth=OAuth("My script", visit=browser.visit)) as client,
    ):
        until = time.monotonic() + 4
        while time.monotonic() < until:
            assert said(client, "whoami") == "ada notes:read"
    browser.close()
    assert len(browser.asked) == 1


def test_our_client_gets_in_at_a_server_of_the_sdk_for_typescript_1_that_is_its_own_authorization_server() -> None:
    browser, asked = Browser(), list[str]()

    def visit(url: str) -> str:
        asked.append(url)
        return browser.visit(url)

    with Served(typescript("ts_guarded.mjs", "sdk", str(free_port()))) as served:
        with Client(served.url, auth=OAuth("My script", visit=visit), timeout=WAIT) as client:
            assert said(client, "whoami") == "true notes:read"
    browser.close()
    assert len(asked) == 1 and browser.asked[0]["resource"] == served.url


def test_our_client_gets_in_at_a_server_of_the_sdk_for_typescript_2_and_steps_up() -> None:
    port, issuing = free_port(), free_port()
    issuer, browser = f"http://127.0.0.1:{issuing}", Browser()
    clients = {"AS_CLIENTS": json.dumps([INTROSPECTS]), "AS_TOKENS": "opaque"}
    command = typescript("as.mjs", str(issuing), f"http://127.0.0.1:{port}/mcp", package="../oidc-provider")
    with Served(command, clients), Served(typescript("ts_guarded.mjs", "server", str(port), issuer)) as served:
        with Client(served.url, auth=OAuth("My script", visit=browser.visit), timeout=WAIT) as client:
            assert said(client, "whoami") == "ada notes:read"
            assert said(client, "write") == "written"
    browser.close()
    assert [asked["scope"].split() for asked in browser.asked] == [
        ["notes:read", "offline_access"],
        ["notes:read", "offline_access", "notes:write"],
    ]
