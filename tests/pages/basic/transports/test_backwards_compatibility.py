"""basic/transports#backwards-compatibility: which transport carries which revision, and how two times meet."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_ref import Client, HttpStatusError, RemoteProtocolError, RequestTimeout, Server, TransportClosed
from mcp_ref.client import targets
from mcp_ref.pages.basic.transports.http_sse import SseClientTransport
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from tests.pages.basic.transports.collector import Collector, soon
from tests.pages.basic.transports.streamable_http.replies import PATIENCE
from tests.pages.basic.transports.streamable_http.scripted import (
    STREAM_HEAD,
    ScriptedServer,
    chunk,
    content,
    status,
    then,
)

OLDEST = REVISIONS["2024-11-05"]
NEWEST = REVISIONS["2026-07-28"]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
REFUSAL = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}}


@contextmanager
def hosted(*revisions: str) -> Iterator[Any]:
    server = Server("s", revisions=revisions) if revisions else Server("s")
    server.tool("hello")(lambda: "hello")
    service = server.serve_http(sse_path="/sse")
    try:
        yield service
    finally:
        service.close(PATIENCE)


# -- HTTP+SSE, the client's side ----------------------------------------------------------------------------------


def endpoint_event(uri: str) -> bytes:
    return chunk(f"event: endpoint\ndata: {uri}\n\n".encode())


def test_every_message_of_the_client_is_a_post_to_the_uri_that_the_server_named() -> None:
    answer = then(STREAM_HEAD, endpoint_event("/post?session=1"), wait=True)
    with ScriptedServer(get=answer, post=status(202)) as server:
        transport, collector = SseClientTransport(server.url, headers={"X-Key": "k"}), Collector()
        transport.start(collector.receive, collector.lost)
        transport.send(PING, soon())
        transport.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, soon())
        transport.close(soon())
        first, *later = [server.request() for _ in range(3)]
    assert (first.method, first.path, first.headers["accept"]) == ("GET", "/mcp", "text/event-stream")
    assert [(each.method, each.path, each.headers["x-key"]) for each in later] == [("POST", "/post?session=1", "k")] * 2
    assert later[0].json() == PING


@pytest.mark.parametrize("named", ["http://other.example/post", "//other.example/post", "http://[::1", "http://a:b/"])
def test_a_uri_of_another_origin_is_not_posted_to(named: str) -> None:
    answer = then(STREAM_HEAD, endpoint_event(named), wait=True)
    with ScriptedServer(get=answer) as server:
        collector = Collector()
        with pytest.raises(RemoteProtocolError, match="another origin"):
            SseClientTransport(server.url).start(collector.receive, collector.lost)


def test_a_start_that_is_interrupted_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(reply: Any) -> Any:
        raise KeyboardInterrupt

    with ScriptedServer(get=then(STREAM_HEAD, wait=True)) as server:
        transport, collector = SseClientTransport(server.url), Collector()
        monkeypatch.setattr(transport, "_deliver_events", interrupted)
        with pytest.raises(KeyboardInterrupt):
            transport.start(collector.receive, collector.lost)
        assert not [thread for thread in threading.enumerate() if thread.name in ("mcp-sse-listen", "mcp-http-clock")]
    assert collector.ends == 0


@pytest.mark.parametrize("revision", ["2024-11-05", None])
def test_a_stream_that_names_no_uri_is_waited_for_as_long_as_the_connection(revision: str | None) -> None:
    began = time.monotonic()
    with ScriptedServer(get=then(STREAM_HEAD, wait=True), post=status(405)) as server:
        with pytest.raises(RequestTimeout, match="timed out"):
            Client(server.url, revision=revision, connect_timeout=0.2).connect()
    assert time.monotonic() - began < 8  # it was 10 s, whatever the client's limit


def test_a_server_that_came_back_and_knows_the_session_no_longer_is_a_lost_connection() -> None:
    answer = then(STREAM_HEAD, endpoint_event("/post?session=1"), wait=True)
    with ScriptedServer(get=answer, post=[status(404), status(403)]) as server:
        transport, collector = SseClientTransport(server.url), Collector()
        transport.start(collector.receive, collector.lost)
        with pytest.raises(TransportClosed, match="ended the session.* 404"):
            transport.send(PING, soon())
        with pytest.raises(HttpStatusError, match="403"):
            transport.send(PING, soon())
        transport.close(soon())


# -- two times meet -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("newest", "statuses"),
    [
        ("2025-03-26", {400, 401, 404, 405, 410, 499}),
        ("2025-06-18", {400, 401, 404, 405, 410, 499}),
        ("2025-11-25", {400, 404, 405}),
    ],
)
def test_which_statuses_lead_to_the_older_transport(newest: str, statuses: set[int]) -> None:
    spoken = tuple(revision for revision in SESSION_REVISIONS if revision.order <= REVISIONS[newest].order)
    first, second = targets.http_routes(targets.Url("http://localhost/mcp"), spoken, lambda name: None, soon())
    assert {code for code in (200, 302, 400, 401, 404, 405, 410, 499, 500, 503) if first.falls_back(code)} == statuses
    assert second.revisions == (OLDEST,)


@pytest.mark.parametrize("code", [400, 405])
@pytest.mark.parametrize("body", [{**REFUSAL, "id": 1}, "nothing here"])
def test_a_client_that_is_refused_tries_the_older_transport_at_the_same_url(code: int, body: Any) -> None:
    with ScriptedServer(post=content(body, code=code), get=status(404)) as server:
        with pytest.raises(HttpStatusError, match="event stream.*404"):
            Client(server.url).connect()
        probe, post, get = server.request("POST"), server.request("POST"), server.request()
    assert probe.json()["method"] == "server/discover"
    assert (post.json()["method"], post.json()["params"]["protocolVersion"]) == ("initialize", "2025-11-25")
    assert (get.method, get.path, get.headers["accept"]) == ("GET", "/mcp", "text/event-stream")


def test_a_server_serves_clients_of_both_times_at_once() -> None:
    with (
        hosted() as service,
        Client(service.url) as new,
        Client(service.url, revision=SESSION_REVISIONS) as other,
        Client(service.sse_url, revision="2024-11-05") as old,
    ):
        assert (new.revision, other.revision, old.revision) == (NEWEST, SESSION_REVISIONS[-1], OLDEST)
        assert [client.list_tools()[0]["name"] for client in (new, other, old)] == ["hello"] * 3


def test_a_client_of_the_oldest_revision_finds_no_event_stream_at_the_new_endpoint() -> None:
    with hosted() as service:
        with pytest.raises((HttpStatusError, TransportClosed)):
            Client(service.url, revision="2024-11-05").connect()


def test_a_server_listens_on_this_machine_unless_it_is_told_otherwise() -> None:
    with hosted() as service:
        assert service.url.startswith("http://127.0.0.1:")
