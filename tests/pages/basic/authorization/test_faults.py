"""A login with something that fails once, and many threads that need a token at once."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from itertools import count
from queue import Queue
from typing import Any
from urllib.parse import parse_qs

import pytest

from mcp_ref import (
    AuthorizationError,
    Cancel,
    Client,
    Context,
    OAuth,
    RequestCancelled,
    Server,
    TransportClosed,
    text_of,
)
from mcp_ref.testing import AuthorizationServer
from tests.pages.basic.authorization.world import WAIT, World, answer
from tests.slow import slow_but
from tests.support.clock import until
from tests.support.wire import Background, at_once

PATHS = ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/register", "/token"]
DROP = (0, {}, b"")


FAULTS: dict[str, Any] = {"the connection breaks": DROP, "it fails": answer({}, 500), "it is too slow": None}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fault", slow_but(["the connection breaks", "it fails"], FAULTS))
def test_a_fetch_that_fails_once_is_an_error_in_time_and_the_next_call_works(
    world: World, path: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def fails(asked: Any) -> Any:
        del world.at[path]
        return FAULTS[fault] or (over.wait(WAIT) and DROP)

    with world.client() as client:
        world.at[path] = fails
        world.next_token()
        # A registration is needed only at another authorization server.
        world.trust(world.other if path == "/register" else world.issuer)
        with monkeypatch.context() as patch:
            if fault == "it is too slow":
                patch.setattr("mcp_ref.kit.http.guarded_fetch.FETCH_TIMEOUT", 1.0)
            with pytest.raises(AuthorizationError):
                client.call_tool("t")
        assert path not in world.at and client.call_tool("t")["content"][0]["text"] == "token-2"
        over.set()
    # tests/conftest.py sees that no thread is left, and Python that no socket is.
    # tests/conftest.py sees that no thread is left, and Python that no socket is.


def serving() -> tuple[Server, AuthorizationServer, list[str]]:
    """A server that says who asks, its authorization server, and the grants by which that has given tokens."""
    server, login, given = Server("notes"), AuthorizationServer(users={"ada": "pw"}), list[str]()
    give = login._token

    def token(request: Any, reply: Any) -> None:
        given.append(parse_qs(request.body.decode())["grant_type"][0])
        give(request, reply)

    login._token = token  # type: ignore[method-assign]

    @server.tool()
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.subject)

    return server, login, given


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_32_threads_and_an_open_stream_get_a_new_token_once(revision: str) -> None:
    (server, login, given), told, numbers = serving(), Queue[Any](), count()
    options: Any = {"revision": revision, "on_change": lambda *change: told.put(change)}
    with (
        server.serve_http(authorization=login.protection()) as http,
        Client(http.url, auth=OAuth("tests", visit=login.sign_in("ada")), **options) as client,
        ExitStack() as stack,
    ):
        if revision == "2026-07-28":
            events = stack.enter_context(client.listen(tools=True))
            stack.callback(Background(lambda: [told.put(event) for event in events]).outcome)
            stack.callback(events.close)
        client.call_tool("whoami")
        login.expire()
        results = at_once(*[lambda: client.call_tool("whoami")] * 32)
        assert [result["content"][0]["text"] for result in results] == ["ada"] * 32
        assert given == ["authorization_code", "refresh_token"]
        # The stream is still told of changes, or has been opened again.
        until(lambda: server.tool(name=f"another-{next(numbers)}")(lambda: "") and not told.empty())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("how", "kind"), [("close", TransportClosed), ("cancel", RequestCancelled)])
def test_a_fetch_can_be_ended_while_it_waits(world: World, path: str, how: str, kind: type[Exception]) -> None:
    reached, go_on, cancel = threading.Event(), threading.Event(), Cancel()

    def wait(asked: Any) -> Any:
        reached.set()
        assert go_on.wait(WAIT)
        return DROP

    with world.client() as client:
        world.at[path] = wait
        world.valid = set()
        world.trust(world.other if path == "/register" else world.issuer)
        call = Background(client.call_tool, "t", cancel=cancel)
        try:
            assert reached.wait(WAIT)
            (client.close if how == "close" else cancel)()
            assert type(call.outcome()) is kind
        finally:
            go_on.set()


def test_the_same_login_works_over_http_with_sse_in_2024_11_05() -> None:
    server, login, given = serving()
    with server.serve_http(authorization=login.protection(), sse_path="/sse") as http:
        auth = OAuth("tests", visit=login.sign_in("ada"))
        with Client(http.sse_url, auth=auth, revision="2024-11-05") as client:
            assert text_of(client.call_tool("whoami")) == "ada"
            login.expire()
            assert text_of(client.call_tool("whoami")) == "ada"
    assert given == ["authorization_code", "refresh_token"]
