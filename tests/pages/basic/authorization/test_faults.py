"""A login with something that fails once, and many threads that need a token at once."""

from __future__ import annotations

import re
import threading
import time
from contextlib import ExitStack
from queue import Queue
from typing import Any

import pytest
import requests

from mcp_ref import AuthorizationError, Cancel, Client, Context, OAuth, RequestCancelled, Server, TransportClosed
from mcp_ref.lab.testing import authorization_server
from mcp_ref.testing import AuthorizationServer
from tests.pages.basic.authorization.world import WAIT, World, answer
from tests.support.wire import Background, at_once

PATHS = [
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "/register",
    "/token",
]
DROP = (0, {}, b"")


def slow(asked: Any) -> Any:
    time.sleep(1.5)
    return DROP


FAULTS: dict[str, Any] = {
    "the connection breaks": DROP,
    "it fails": answer({}, 500),
    "it is overloaded": answer({"error": "temporarily_unavailable"}, 503),
    "it is too slow": slow,
    "it answers with garbage": (200, {"Content-Type": "application/json"}, b"\xff{"),
    "it answers with half of a document": (200, {"Content-Length": "100"}, b"{"),
    "it redirects": answer({}, 302, Location="/elsewhere"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "fault", [each if each == "it fails" else pytest.param(each, marks=pytest.mark.slow) for each in FAULTS]
)
def test_a_fetch_that_fails_once_is_an_error_in_time_and_the_next_call_works(
    world: World, path: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if FAULTS[fault] is slow:
        monkeypatch.setattr("mcp_ref.kit.http.guarded_fetch.FETCH_TIMEOUT", 1.0)
    left = [FAULTS[fault]]

    def once(asked: Any) -> Any:
        made = left.pop() if left else world.usual
        return made(asked) if callable(made) else made

    with world.client() as client:
        world.at[path] = once
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
        # A registration is needed only at another authorization server.
        world.resource["authorization_servers"] = [world.other if path == "/register" else world.issuer]
        began = time.monotonic()
        with pytest.raises(AuthorizationError):
            client.call_tool("t")
        assert time.monotonic() - began < WAIT and left == []
        assert client.call_tool("t")["content"][0]["text"] == "token-2"
    # tests/conftest.py sees that no thread is left, and Python that no socket is.


class Counting(AuthorizationServer):
    """Counts the tokens that it gives, by grant."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.given: list[str] = []

    def _token(self, request: Any, reply: Any) -> None:
        self.given.append(authorization_server._form(request.body)["grant_type"])
        super()._token(request, reply)

    def end_access_tokens(self) -> None:
        """End the tokens that there are; the client does not know."""
        with self._lock:
            for token in self._tokens.values():
                token.until = token.until if token.refreshes else 0


def visit(url: str) -> str:
    """Return what a user does who signs in and allows everything."""
    with requests.Session() as browser:
        page = browser.get(url, timeout=WAIT)
        (ticket,) = re.findall('name=ticket value="([^"]*)"', page.text)
        form = {"ticket": ticket, "user": "ada", "password": "pw", "answer": "allow"}
        return browser.post(page.url.partition("?")[0], form, allow_redirects=False, timeout=WAIT).headers["Location"]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_32_threads_and_an_open_stream_get_a_new_token_once(revision: str) -> None:
    server, login, told = Server("notes"), Counting(users={"ada": "pw"}), Queue[Any]()

    @server.tool()
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.subject)

    with (
        server.serve_http(authorization=login.protection()) as http,
        Client(
            http.url, auth=OAuth("tests", visit=visit), revision=revision, on_change=lambda *change: told.put(change)
        ) as client,
        ExitStack() as stack,
    ):
        if revision == "2026-07-28":
            events = stack.enter_context(client.listen(tools=True))
            reader = threading.Thread(target=lambda: [told.put(event) for event in events])
            reader.start()
            stack.callback(reader.join, WAIT)
            stack.callback(events.close)
        client.call_tool("whoami")
        login.end_access_tokens()
        results = at_once(*[lambda: client.call_tool("whoami")] * 32)
        assert [result["content"][0]["text"] for result in results] == ["ada"] * 32
        assert login.given == ["authorization_code", "refresh_token"]
        # The stream is still told of changes, or has been opened again.
        until = time.monotonic() + 4 * WAIT
        while told.empty() and time.monotonic() < until:
            server.tool(name=f"another-{time.monotonic()}")(lambda: "")
            time.sleep(0.05)
        assert not told.empty()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("how", ["close", "cancel"])
def test_a_fetch_can_be_ended_while_it_waits(world: World, path: str, how: str) -> None:
    reached, go_on, cancel = threading.Event(), threading.Event(), Cancel()

    def wait(asked: Any) -> Any:
        reached.set()
        assert go_on.wait(WAIT)
        return DROP

    with world.client() as client:
        world.at[path] = wait
        world.valid = set()
        world.resource["authorization_servers"] = [world.other if path == "/register" else world.issuer]

        call = Background(client.call_tool, "t", cancel=cancel)
        try:
            assert reached.wait(WAIT)
            if how == "close":
                client.close()
            else:
                cancel()
            assert type(call.outcome()) is (TransportClosed if how == "close" else RequestCancelled)
        finally:
            go_on.set()


def test_the_same_login_works_over_http_with_sse_in_2024_11_05() -> None:
    server, login = Server("notes"), Counting(users={"ada": "pw"})

    @server.tool()
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.subject)

    with server.serve_http(authorization=login.protection(), sse_path="/sse") as http:
        url = f"{http.url.removesuffix('/mcp')}/sse"
        with Client(url, auth=OAuth("tests", visit=visit), revision="2024-11-05") as client:
            assert client.call_tool("whoami")["content"][0]["text"] == "ada"
            login.end_access_tokens()
            assert client.call_tool("whoami")["content"][0]["text"] == "ada"
    assert login.given == ["authorization_code", "refresh_token"]
