"""The listener for the browser: who cannot hold it up, and where it listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from urllib.parse import parse_qs

import pytest

from mcp_ref.errors import RequestTimeout
from mcp_ref.kit.http.http_call import HttpCall
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.authorization import loopback
from mcp_ref.pages.basic.authorization.loopback import Loopback
from tests.pages.basic.transports.streamable_http.raw import until
from tests.support.wire import Background

WAIT = 20.0


@contextmanager
def waiting() -> Iterator[tuple[Loopback, list[str]]]:
    """A listener that waits for the code "right", and what it was given in the end."""
    with closing(Loopback(0, "/callback")) as listener:
        got: list[str] = []
        accept = lambda query: parse_qs(query).get("code") == ["right"]  # noqa: E731
        wait = Background(lambda: got.append(listener.wait(HttpCall(Deadline(None)), WAIT, accept)))
        yield listener, got
        assert wait.outcome() is None


def connected(listener: Loopback) -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.port), WAIT)


def answered(listener: Loopback, head: str) -> bytes:
    """Return what is answered to one request, up to the end of the connection."""
    with connected(listener) as conn:
        head = head.replace("\r\n", "\r\nConnection: close\r\n", 1)
        conn.sendall(head.replace("HOST", f"127.0.0.1:{listener.port}").encode())
        return b"".join(iter(lambda: conn.recv(65_536), b""))


RIGHT = "GET /callback?code=right HTTP/1.1\r\nHost: HOST\r\n\r\n"


def test_a_connection_that_says_nothing_holds_nobody_up_and_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "_HEAD_TIMEOUT", 0.2)
    with waiting() as (listener, got):
        with connected(listener) as silent, connected(listener) as slow:
            slow.sendall(b"GET /callback?code=ri")
            assert silent.recv(1) == b"" == slow.recv(1), "both are closed without an answer"
        assert answered(listener, RIGHT).startswith(b"HTTP/1.1 200")
    assert got == ["code=right"]


def test_connections_that_say_nothing_keep_no_browser_out() -> None:
    with waiting() as (listener, got), ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(connected(listener))
        assert b" 200 " in answered(listener, RIGHT)
    assert got == ["code=right"]


@pytest.mark.parametrize("waits", [0, 1])
def test_a_browser_that_is_back_before_anybody_waits_is_held(waits: int) -> None:
    with closing(Loopback(0, "/callback")) as listener:
        for _ in range(waits):
            with pytest.raises(RequestTimeout):
                listener.wait(HttpCall(Deadline(None)), 0.01, lambda query: True)
        browser = Background(answered, listener, RIGHT)
        # Accepted, and its request is being answered; the first time it waits for that, too.
        assert not waits or until(lambda: listener._server._connections)
        assert listener.wait(HttpCall(Deadline(None)), WAIT, lambda query: True) == "code=right"
        assert browser.outcome().startswith(b"HTTP/1.1 200")


NOT_IT = [
    (RIGHT.replace("HOST", "evil.example"), 400), (RIGHT.replace("Host: HOST\r\n", ""), 400),
    (RIGHT.replace("\r\n\r\n", "\r\nHost: evil.example\r\n\r\n"), 400), (RIGHT.replace("/callback", "/other"), 404),
    (RIGHT.replace("GET", "POST"), 405), (RIGHT.replace("right", "wrong"), 400), ("\x16\x03\x01\x00\r\n\r\n", 400),
    ("GET /callback HTTP/1.1\r\n" + "X: y\r\n" * 11_000, 431),
]  # fmt: skip


def test_what_is_not_the_answer_is_answered_and_forgotten() -> None:
    with waiting() as (listener, got):
        for head, status in NOT_IT:
            page = answered(listener, head)
            assert page.startswith(f"HTTP/1.1 {status}".encode()) and b"evil" not in page and b"wrong" not in page
        assert got == []
        page = answered(listener, RIGHT)
    assert got == ["code=right"]
    # The page is always the same, is kept nowhere, and runs nothing.
    assert b"right" not in page and b"no-store" in page and b"default-src 'none'" in page and b"no-referrer" in page


def test_it_listens_on_this_machine_alone() -> None:
    for host, address in (("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("[::1]", "::1")):
        with closing(Loopback(0, "/callback", host)) as listener:
            assert listener._server.address[0] == address


def test_nobody_comes_back_in_time() -> None:
    with closing(Loopback(0, "/callback")) as listener, pytest.raises(RequestTimeout, match="within 0.05 s"):
        listener.wait(HttpCall(Deadline(None)), 0.05, lambda query: True)
