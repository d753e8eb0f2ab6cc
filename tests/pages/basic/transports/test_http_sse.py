"""2024-11-05/basic/transports#http-with-sse, both sides; and basic/transports#backwards-compatibility: which transport
carries which revision, and how two times meet."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mcp_ref import Client, HttpStatusError, RemoteProtocolError, RequestTimeout, Server, TransportClosed
from mcp_ref.client import targets
from mcp_ref.kit.http.http_exchange import HttpRequest
from mcp_ref.pages.basic.transports.http_sse import SseClientTransport, SseEndpoint
from mcp_ref.pages.basic.transports.streamable_http.server import EndpointOptions
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from tests.pages.basic.transports.collector import Collector, soon
from tests.pages.basic.transports.streamable_http.raw import until
from tests.pages.basic.transports.streamable_http.replies import PATIENCE, Front, ListReply
from tests.pages.basic.transports.streamable_http.scripted import (
    STREAM_HEAD,
    ScriptedServer,
    chunk,
    content,
    status,
    then,
)

OLDEST = REVISIONS["2024-11-05"]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
REFUSAL = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}}


class Old(Front):
    """The two endpoints, and clients of that time."""

    def __init__(self, server: Server, **options: Any) -> None:
        super().__init__(server)
        self.server, self._threads = server, list[threading.Thread]()
        self.sse = SseEndpoint(server, "/messages", EndpointOptions(**{"keep_alive": 0.01, **options}))

        def endpoint(request: HttpRequest, reply: ListReply) -> None:
            (self.sse.listen if request.path == "/sse" else self.sse.post)(request, reply)

        self.endpoint = endpoint

    def is_gone(self, reply: ListReply) -> bool:
        return reply.broken

    def stream(self, **headers: str) -> tuple[ListReply, str]:
        """A GET in a thread of its own; its reply, and where it says to POST."""
        reply, thread = self.listen(at="/sse", **headers)
        self._threads.append(thread)
        assert until(lambda: reply.events or reply.ended)
        return reply, reply.events[0].data if reply.events else ""

    def begin(self) -> tuple[ListReply, str]:
        """A stream with a session opened over it."""
        reply, where = self.stream()
        info = {"name": "o", "version": "1"}
        params = {"protocolVersion": "2024-11-05", "capabilities": {"roots": {}}, "clientInfo": info}
        assert self.post(request(0, "initialize", params), at=where).status == 202
        assert answers(reply, 1)[0]["result"]["protocolVersion"] == "2024-11-05"
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, at=where).status == 202
        return reply, where

    def close(self) -> None:
        self.sse.close(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert len(self.sse._open) == 0 and self.server.sessions == ()


def request(request_id: Any, method: str, params: Any = None) -> Any:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}


CALL = request(7, "tools/call", {"name": "echo", "arguments": {"text": "hi"}})


def answers(reply: ListReply, count: int) -> list[Any]:
    """The first so many messages."""
    assert until(lambda: len(reply.events) > count), reply.events
    assert all(event.event == "message" for event in reply.events[1:])
    return [json.loads(event.data) for event in reply.events[1:]]


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.tool()
    def echo(text: str) -> str:
        return text

    return server


@pytest.fixture
def old(server: Server) -> Iterator[Old]:
    old = Old(server)
    yield old
    old.close()


def test_the_first_event_says_where_to_post(old: Old) -> None:
    reply, where = old.stream()
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert reply.events[0].event == "endpoint"
    assert where.startswith("/messages?session=")
    assert len(parse_qs(urlsplit(where).query)["session"][0]) >= 32


def test_a_post_is_202_and_its_answer_comes_as_an_event_also_to_what_is_not_a_message(old: Old) -> None:
    reply, where = old.begin()
    assert old.post(CALL, at=where).status == 202
    assert answers(reply, 2)[1]["result"]["content"][0]["text"] == "hi"
    assert old.post(b"{", at=where).status == 202
    assert answers(reply, 3)[2]["error"]["code"] == -32700


def test_the_end_of_the_session_ends_the_stream(old: Old, server: Server) -> None:
    reply, where = old.begin()
    server.sessions[0].close(PATIENCE)
    assert until(lambda: reply.ended and len(old.sse._open) == 0)
    assert old.post(CALL, at=where).status == 404


def test_whatever_is_asked_for_the_oldest_revision_is_spoken(old: Old) -> None:
    reply, where = old.stream()
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}
    old.post(request(0, "initialize", params), at=where)
    assert answers(reply, 1)[0]["result"]["protocolVersion"] == "2024-11-05"


def test_a_post_to_no_session_is_404(old: Old) -> None:
    old.begin()
    for where in ("/messages", "/messages?session=", "/messages?session=nobody"):
        assert old.post(CALL, at=where).status == 404


def test_the_rules_of_entry_are_those_of_the_other_transport(old: Old) -> None:
    _, where = old.begin()
    assert old.post({}, at=where, origin="http://evil.example").status == 403
    assert old.post({}, at=where, host="evil.example").status == 403
    assert old.post({}, at=where, content_type="text/plain").status == 415
    refused = old.ask("GET", at=where)
    assert (refused.status, refused.headers["Allow"]) == (405, "POST")
    assert old.stream(accept="application/json")[0].status == 406
    assert old.stream(origin="http://evil.example")[0].status == 403


def test_a_session_belongs_to_who_opened_it(server: Server) -> None:
    old = Old(server, authenticate=lambda request: request.headers.get("authorization"))
    _, where = old.stream(authorization="alice")
    assert old.post(request(1, "ping"), at=where, authorization="mallory").status == 404
    assert old.post(request(1, "ping"), at=where, authorization="alice").status == 202
    old.close()


def test_after_the_close_no_stream_is_opened(server: Server) -> None:
    old = Old(server)
    reply, _ = old.begin()
    old.close()
    assert reply.ended
    assert old.stream()[0].status == 503
    old.close()


def test_a_client_that_is_gone_before_its_first_event_leaves_nothing(old: Old, server: Server) -> None:
    reply = ListReply()
    reply.broken = True
    old.ask("GET", b"", reply, at="/sse")
    assert len(old.sse._open) == 0 and server.sessions == ()


# -- the client's side ----------------------------------------------------------------------------------


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


def test_a_client_of_the_oldest_revision_finds_no_event_stream_at_the_new_endpoint() -> None:
    with Server("s").serve_http(sse_path="/sse") as service:
        with pytest.raises((HttpStatusError, TransportClosed)):
            Client(service.url, revision="2024-11-05").connect()
