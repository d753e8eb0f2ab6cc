"""2024-11-05/basic/transports#http-with-sse, the server's side: each rule of the page as data, without a socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mcp_ref import Server
from mcp_ref.kit.http.http_exchange import HttpRequest
from mcp_ref.pages.basic.transports.http_sse import SseEndpoint
from mcp_ref.pages.basic.transports.streamable_http.server import EndpointOptions
from tests.pages.basic.transports.streamable_http.raw import until
from tests.pages.basic.transports.streamable_http.replies import PATIENCE, ListReply

HEADERS = {"host": "localhost:1", "content-type": "application/json", "accept": "text/event-stream"}


class Old:
    """The two endpoints, and clients of that time."""

    def __init__(self, server: Server, **options: Any) -> None:
        self.server = server
        chosen = EndpointOptions(**{"keep_alive": 0.01, **options})
        self.endpoint = SseEndpoint(server, "/messages", chosen)
        self._threads: list[threading.Thread] = []

    def listen(self, **headers: str) -> tuple[ListReply, str]:
        """A GET in a thread of its own; its reply, and where it says to POST."""
        reply = ListReply()
        asked = HttpRequest("GET", "/sse", {**HEADERS, **headers}, gone=lambda: reply.broken, peer="127.0.0.1")
        thread = threading.Thread(target=self.endpoint.listen, args=(asked, reply))
        thread.start()
        self._threads.append(thread)
        assert until(lambda: reply.events or reply.ended)
        return reply, reply.events[0].data if reply.events else ""

    def post(self, where: str, message: Any, method: str = "POST", **headers: str) -> ListReply:
        reply, url = ListReply(), urlsplit(where)
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        given = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.endpoint.post(HttpRequest(method, url.path, given, body, query=url.query), reply)
        return reply

    def open(self) -> tuple[ListReply, str]:
        """A stream with a session opened over it."""
        reply, where = self.listen()
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "o", "version": "1"},
        }
        assert self.post(where, request(0, "initialize", params)).status == 202
        assert answers(reply, 1)[0]["result"]["protocolVersion"] == "2024-11-05"
        assert self.post(where, {"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        return reply, where

    def close(self) -> None:
        self.endpoint.close(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert len(self.endpoint._open) == 0 and self.server.sessions == ()


def request(request_id: Any, method: str, params: Any = None) -> Any:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}


def call(name: str, **arguments: Any) -> Any:
    return request(7, "tools/call", {"name": name, "arguments": arguments})


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
    reply, where = old.listen()
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert reply.events[0].event == "endpoint"
    assert where.startswith("/messages?session=")
    assert len(parse_qs(urlsplit(where).query)["session"][0]) >= 32


def test_a_post_is_202_and_its_answer_comes_as_an_event_also_to_what_is_not_a_message(old: Old) -> None:
    reply, where = old.open()
    assert old.post(where, call("echo", text="hi")).status == 202
    assert answers(reply, 2)[1]["result"]["content"][0]["text"] == "hi"
    assert old.post(where, b"{").status == 202
    assert answers(reply, 3)[2]["error"]["code"] == -32700


def test_the_end_of_the_session_ends_the_stream(old: Old, server: Server) -> None:
    reply, where = old.open()
    server.sessions[0].close(PATIENCE)
    assert until(lambda: reply.ended and len(old.endpoint._open) == 0)
    assert old.post(where, call("echo", text="hi")).status == 404


def test_whatever_is_asked_for_the_oldest_revision_is_spoken(old: Old) -> None:
    reply, where = old.listen()
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}
    old.post(where, request(0, "initialize", params))
    assert answers(reply, 1)[0]["result"]["protocolVersion"] == "2024-11-05"


def test_a_post_to_no_session_is_404(old: Old) -> None:
    old.open()
    for where in ("/messages", "/messages?session=", "/messages?session=nobody"):
        assert old.post(where, call("echo", text="hi")).status == 404


def test_the_rules_of_entry_are_those_of_the_other_transport(old: Old) -> None:
    _, where = old.open()
    assert old.post(where, {}, origin="http://evil.example").status == 403
    assert old.post(where, {}, host="evil.example").status == 403
    assert old.post(where, {}, content_type="text/plain").status == 415
    refused = old.post(where, {}, method="GET")
    assert (refused.status, refused.headers["Allow"]) == (405, "POST")
    assert old.listen(accept="application/json")[0].status == 406
    assert old.listen(origin="http://evil.example")[0].status == 403


def test_a_session_belongs_to_who_opened_it(server: Server) -> None:
    old = Old(server, authenticate=lambda request: request.headers.get("authorization"))
    _, where = old.listen(authorization="alice")
    assert old.post(where, request(1, "ping"), authorization="mallory").status == 404
    assert old.post(where, request(1, "ping"), authorization="alice").status == 202
    old.close()


def test_after_the_close_no_stream_is_opened(server: Server) -> None:
    old = Old(server)
    reply, _ = old.open()
    old.close()
    assert reply.ended
    assert old.listen()[0].status == 503
    old.close()


def test_a_client_that_is_gone_before_its_first_event_leaves_nothing(old: Old, server: Server) -> None:
    reply = ListReply()
    reply.broken = True
    old.endpoint.listen(HttpRequest("GET", "/sse", HEADERS), reply)
    assert len(old.endpoint._open) == 0 and server.sessions == ()
