"""A server on HTTP, whole: sessions, streams and handlers over real sockets, and what is left of them: nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.kit.http.http_exchange import HttpLimits
from mcp_ref.server.http import HttpService
from tests.pages.basic.transports.streamable_http.raw import (
    Wire,
    call,
    descriptors,
    http_threads,
    opened,
    post,
    request,
)
from tests.pages.basic.transports.streamable_http.replies import PATIENCE
from tests.support.clock import until

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@contextmanager
def hosted(server: Server, **options: Any) -> Iterator[HttpService]:
    """A service, of which nothing is left in the end."""
    before = descriptors()
    service = server.serve_http(**options)
    try:
        yield service
    finally:
        assert service.close() == []
    assert until(lambda: not http_threads()) and server.sessions == ()
    assert until(lambda: descriptors() <= before)


def address(service: HttpService) -> tuple[str, int]:
    return service._http.address


def get(session: str, **fields: str) -> bytes:
    return request("GET", accept="text/event-stream", mcp_session_id=session, **fields)


def test_who_listens_for_everybody_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    with hosted(Server("s")):
        assert caplog.text == ""
    with hosted(Server("s"), host="0.0.0.0"):
        assert "everybody who can reach this machine" in caplog.text


def test_a_standing_stream_carries_what_belongs_to_no_request_and_comments() -> None:
    server = Server("s")
    server.tool("earlier")(lambda: "x")
    with hosted(server, keep_alive=0.01) as service, Wire(address(service)) as wire, Wire(address(service)) as other:
        session = opened(other)
        wire.send(get(session))
        assert wire.head()[1]["content-type"] == "text/event-stream"
        server.tool("later")(lambda: "x")
        came = b""
        while b"list_changed" not in came or b": keep-alive" not in came:
            came += wire.chunk()


@pytest.mark.parametrize("rude", [True, False])
def test_a_client_that_vanishes_from_its_streams_leaves_the_session_and_nothing_else(rude: bool) -> None:
    server = Server("s")
    with hosted(server, keep_alive=0.01) as service, Wire(address(service)) as other:
        session = opened(other)
        for _ in range(20):
            wire = Wire(address(service))
            wire.send(get(session))
            wire.head()
            wire.reset() if rude else wire.close()
        assert until(lambda: len(service._http._connections) == 1)
        assert other.ask(post(PING, mcp_session_id=session)).status == 200
        end = server.sessions[0].connection.transport
        assert until(lambda: end.attached() == 0)  # type: ignore[attr-defined]


def test_the_end_is_bounded_whatever_clients_and_handlers_do() -> None:
    server, entered, leave = Server("s"), threading.Semaphore(0), threading.Event()

    @server.tool()
    def stubborn(ctx: Context) -> str:
        entered.release()
        assert leave.wait(PATIENCE)
        return "done"

    @server.tool()
    def flood(ctx: Context) -> str:
        entered.release()
        for _ in range(300):
            ctx.log("info", "x" * 100_000)
        return "done"

    service = server.serve_http(limits=HttpLimits(write=60))
    idle, half, listening, unread, deaf = (Wire(address(service), buffer=4096) for _ in range(5))
    session = opened(idle)
    half.send(b"POST /mcp HTTP/1.1\r\nHo")
    listening.send(get(session))
    listening.head()
    unread.send(post(call("flood"), mcp_session_id=session))
    deaf.send(post(call("stubborn", 2), mcp_session_id=session))
    assert entered.acquire(timeout=PATIENCE) and entered.acquire(timeout=PATIENCE)
    began = time.monotonic()
    stuck = service.close(0.3)
    assert time.monotonic() - began < PATIENCE
    assert len(stuck) == 1, "the handler that ignores its cancellation"
    assert all(wire.ended() for wire in (idle, half))
    for wire in (idle, half, listening, unread, deaf):
        wire.close()
    leave.set()
    assert until(lambda: not http_threads())
    assert server.sessions == ()


def test_a_server_without_a_way_over_http_says_so() -> None:
    with pytest.raises(ValueError, match="no revision.*can be served"):
        Server("s", revisions=["2024-11-05"]).serve_http()
    with Server("s", revisions=["2024-11-05"]).serve_http(sse_path="/sse") as service, Client(service.url) as client:
        assert (service.url, str(client.revision)) == (service.sse_url, "2024-11-05")


def test_run_serves_until_the_close() -> None:
    server = Server("s")
    running = threading.Thread(target=server.run, args=("http",), kwargs={"port": 0})
    running.start()
    assert until(lambda: server.services)
    with Wire(address(server.services[0])) as wire:
        opened(wire)
        server.close(PATIENCE)
    running.join(PATIENCE)
    assert not running.is_alive() and http_threads() == []
