"""basic/transports/streamable-http of 2026-07-28: the client's side, against servers that are scripted byte by byte."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from mcp_ref.errors import (
    AnswerLost,
    HttpStatusError,
    LocalProtocolError,
    RequestCancelled,
    RequestTimeout,
    SessionExpired,
    TransportClosed,
)
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports.http_sse import SseClientTransport
from mcp_ref.pages.basic.transports.over_http import MirroringTransport
from mcp_ref.pages.basic.transports.streamable_http import headers as mirroring
from mcp_ref.pages.basic.transports.streamable_http.client import HttpClientTransport
from tests.pages.basic.transports.collector import WAIT, soon

from .scripted import (
    STREAM_HEAD,
    Asked,
    ScriptedServer,
    Wire,
    chunk,
    content,
    event,
    head,
    result,
    status,
    stream,
    then,
)
from .test_client import ASSIGNED, INITIALIZE, PROGRESS, Client, Row, _reset, end_a_call

VERSION = "2026-07-28"
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "add", "_meta": {"io.modelcontextprotocol/protocolVersion": VERSION}},
}
NOTE = {"jsonrpc": "2.0", "method": "notifications/odd"}
SESSION_HEADERS = {"mcp-session-id", "last-event-id"}
AT_ONCE = 10.0
"""Seconds within which a server must have noticed; most of them are for a machine that is busy."""


pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def mirror(message: dict[str, Any]) -> Mapping[str, str]:
    return {"MCP-Protocol-Version": VERSION, "Mcp-Method": message["method"]}


class Stateless(Client):
    """A transport that speaks the stateless shape, and as much of a peer as it needs."""

    def __init__(self, server: ScriptedServer | str, mirror: Any = mirror, **options: Any) -> None:
        super().__init__(server, **options)
        self.transport.mirror = mirror


class Gone:
    """An answer that says a beginning, and then waits for the client to hang up."""

    def __init__(self, *beginning: bytes) -> None:
        self._beginning = beginning
        self.begun, self.noticed = threading.Event(), threading.Event()

    def __call__(self, wire: Wire, asked: Asked) -> None:
        # On a busy machine the client may have hung up before.
        with suppress(ConnectionError):
            wire.send(*self._beginning)
        self.begun.set()
        wire.until_gone()
        self.noticed.set()

    def at_once(self) -> bool:
        return self.noticed.wait(AT_ONCE)


# -- what goes out -------------------------------------------------------------------------------------------------


def test_the_headers_are_those_mirrored_from_the_message() -> None:
    with ScriptedServer(post=content(result())) as server:
        with Stateless(server, lambda message: mirroring.mirror(message, VERSION, None)) as client:
            assert client.call(CALL) == [result()]
        asked = server.request("POST")
    assert asked.json() == CALL
    assert asked.headers["mcp-protocol-version"] == VERSION
    assert asked.headers["mcp-method"] == "tools/call"
    assert asked.headers["mcp-name"] == "add"
    assert asked.headers["accept"] == "application/json, text/event-stream"
    assert asked.headers["content-type"] == "application/json"


@pytest.mark.usefixtures("an_end_that_is_there_is_read")
def test_a_notification_is_accepted_and_its_connection_kept() -> None:
    with ScriptedServer(post=[status(202), content(result())]) as server, Stateless(server) as client:
        client.transport.send(NOTE, soon())
        client.call(CALL)
        note, call = server.request(), server.request()
    assert note.headers["mcp-method"] == "notifications/odd"
    assert (note.connection, call.connection) == (1, 1)


@pytest.mark.parametrize("message", [result(), [CALL], [NOTE], {"jsonrpc": "2.0", "error": {"code": 1, "message": ""}}])
def test_responses_and_batches_are_not_sent(message: Any) -> None:
    with ScriptedServer() as server, Stateless(server) as client:
        with pytest.raises(LocalProtocolError, match="one request or notification"):
            client.transport.send(message, soon())
        assert server.asked.empty()


@pytest.mark.usefixtures("an_end_that_is_there_is_read")
def test_an_answered_request_leaves_its_connection_for_the_next() -> None:
    answers = [content(result()), stream(event(PROGRESS), event(result())), content({**result(), "error": 1}, code=404)]
    with ScriptedServer(post=answers) as server, Stateless(server) as client:
        assert client.call(CALL) == [result()]
        assert client.call(CALL) == [PROGRESS, result()]
        with pytest.raises(HttpStatusError):
            client.call(CALL)
        with pytest.raises(HttpStatusError):
            client.call(CALL)
        assert {server.request().connection for _ in range(4)} == {1}


# -- no session ----------------------------------------------------------------------------------------------------


def test_a_session_that_the_server_assigns_is_ignored() -> None:
    not_found = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}
    odd = content(result(), "Mcp-Session-Id: a b\xe9")
    with ScriptedServer(post=[ASSIGNED, odd, content(not_found, code=404), status(404)]) as server:
        with Stateless(server) as client:
            assert client.call(CALL) == [result()]
            assert client.call(CALL) == [result()]
            assert client.transport.session_id is None
            assert client.call(CALL) == [not_found]
            with pytest.raises(HttpStatusError) as caught:
                client.call(CALL)
        asked = [server.request("POST") for _ in range(4)]
        # Neither GET nor DELETE.
        assert server.asked.empty()
    assert caught.value.status == 404
    assert not any(each.headers.keys() & SESSION_HEADERS for each in asked)


def test_one_transport_may_ask_in_one_era_and_go_on_in_the_other() -> None:
    with ScriptedServer(post=[content({}, code=400), ASSIGNED]) as server:
        with Stateless(server) as client:
            assert isinstance(client.transport, MirroringTransport)
            assert client.transport.hangs_up
            with pytest.raises(HttpStatusError):
                client.call(CALL)
            client.transport.mirror = None
            assert not client.transport.hangs_up
            client.open()
            assert client.transport.session_id == "abc"
        asked = [server.request() for _ in range(3)]
    assert [each.method for each in asked] == ["POST", "POST", "DELETE"]
    assert [each.headers.get("mcp-method") for each in asked] == ["tools/call", None, None]
    assert asked[1].json() == INITIALIZE


# -- how a probe was received ----------------------------------------------------------------------------------------


ERROR = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "1"}}


@pytest.mark.parametrize(
    ("code", "request_id"),
    [(200, {"id": 1}), *product([400, 403, 404, 500], [{}, {"id": None}, {"id": 1}])],
)
@pytest.mark.parametrize("kind", [Client, Stateless])
def test_an_error_in_the_body_answers_the_request_whatever_the_status(
    kind: type[Client], code: int, request_id: dict[str, Any]
) -> None:
    error = {"jsonrpc": "2.0", **request_id, "error": ERROR}
    with ScriptedServer(post=content(error, code=code)) as server, kind(server) as client:
        assert client.call(CALL) == [{**error, "id": 1}]
        refused = client.transport.refused
        assert (refused and refused.status) == (None if code == 200 else code)


# -- a reply that is lost ------------------------------------------------------------------------------------------


LOST = {
    "an empty stream": stream(),
    "a stream that ends": stream(event(PROGRESS)),
    "a stream that could be resumed in another era": stream(event(PROGRESS, id="7", retry=1)),
    "a stream that breaks": then(STREAM_HEAD, event(PROGRESS, id="7", retry=1)),
    "a stream that breaks in an event": then(STREAM_HEAD, chunk(b'data: {"jsonrpc"')),
    "a body cut off": then(head(200, "Content-Type: application/json", length=100), b"{"),
    "headers cut off": then(b"HTTP/1.1 200 OK\r\nContent-"),
    "no reply": then(),
    "a reset": _reset,
}


@pytest.mark.parametrize("what", LOST)
def test_a_reply_that_breaks_off_is_lost_and_not_resumed(what: str) -> None:
    with ScriptedServer(post=LOST[what], get=stream(event(result()))) as server, Stateless(server) as client:
        began = time.monotonic()
        with pytest.raises(AnswerLost, match="the answer was lost: .+"):
            client.call(CALL)
        assert time.monotonic() - began < AT_ONCE
        assert server.request("POST").json() == CALL
        assert server.asked.empty()


@pytest.mark.parametrize("kind", [Client, Stateless])
def test_what_nobody_at_the_other_end_has_got_is_not_lost(kind: type[Client]) -> None:
    with ScriptedServer() as server:
        pass
    says = r"no answer from http://127.0.0.1:\d+/mcp: "
    with kind(server) as client, pytest.raises(TransportClosed, match=says) as caught:
        client.call(CALL)
    assert not isinstance(caught.value, AnswerLost | SessionExpired)


# -- giving up is hanging up ---------------------------------------------------------------------------------------


@pytest.fixture
def lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an end of the reply is waited for, it is waited for long."""
    from mcp_ref.kit.http import http_client as calls

    monkeypatch.setattr(calls, "_LINGER_TIMEOUT", 4 * AT_ONCE)


BEGUN = {
    "before the reply": (),
    "in its headers": (b"HTTP/1.1 200 OK\r\nContent-",),
    "in its body": (head(200, "Content-Type: application/json", length=100), b"{"),
    "in a stream that has said nothing": (STREAM_HEAD,),
    "in a stream": (STREAM_HEAD, event(PROGRESS)),
    "in an event": (STREAM_HEAD, b"ff\r\ndata: {"),
}


def begun(where: str) -> Gone:
    return Gone(*BEGUN[where])


@pytest.mark.usefixtures("lingering")
@pytest.mark.parametrize("where", BEGUN)
def test_a_deadline_that_passes_closes_the_connection(where: str) -> None:
    gone = begun(where)
    with ScriptedServer(post=gone) as server, Stateless(server) as client:
        for timeout in (0.1, 1, 5):
            with pytest.raises(RequestTimeout):
                client.call(CALL, timeout=timeout)
            # A busy machine may take longer to begin.
            if gone.begun.is_set():
                break
        assert gone.at_once()


@pytest.mark.parametrize("where", BEGUN)
@pytest.mark.parametrize("end", ["cancel", "close"])
def test_another_thread_that_ends_the_call_closes_the_connection(where: str, end: str) -> None:
    gone = begun(where)
    with ScriptedServer(post=gone) as server, Stateless(server) as client:
        end_a_call(client, end, lambda: gone.begun.wait(WAIT))
        assert gone.at_once()


@pytest.mark.usefixtures("lingering")
@pytest.mark.parametrize("more", [(), (event(PROGRESS), event(result()), b"0\r\n\r\n")])
def test_leaving_the_reply_closes_the_connection(more: tuple[bytes, ...]) -> None:
    """Also where all of the reply has come already: nobody has looked at it."""
    gone = Gone(STREAM_HEAD, event(PROGRESS), *more)
    with ScriptedServer(post=[gone, content(result())]) as server, Stateless(server) as client:

        class Leaving(Row):
            def take(self, deadline: Deadline | None = None) -> bool:
                super().take(deadline)
                if self.found and gone.begun.wait(WAIT):
                    self.found, self.given_up = [], RequestCancelled("enough")
                return self.given_up is not None

        began = time.monotonic()
        with pytest.raises(RequestCancelled):
            client.call(CALL, inbox=Leaving())
        assert gone.at_once()
        assert time.monotonic() - began < AT_ONCE
        assert client.call(CALL) == [result()]
        assert [server.request().connection for _ in range(2)] == [1, 2]


# -- a stream that stays open --------------------------------------------------------------------------------------


def quiet(wire: Wire, seconds: float, *comments: bytes) -> None:
    """Say nothing but comments for so long."""
    for piece in comments or (b"",):
        assert not threading.Event().wait(seconds / (len(comments) or 1))
        wire.send(piece)


@pytest.mark.parametrize("comments", [[], [chunk(b": keep-alive\n\n"), chunk(b":\r\n"), chunk(b":\n")]])
def test_a_lifted_deadline_lets_a_quiet_stream_last(comments: list[bytes]) -> None:
    def answer(wire: Wire, asked: Asked) -> None:
        wire.send(STREAM_HEAD, event(PROGRESS))
        quiet(wire, 0.8, *comments)
        wire.send(event(PROGRESS))
        wire.until_gone()

    with ScriptedServer(post=answer) as server, Stateless(server) as client:
        deadline = Deadline(0.6)
        inbox, join = client.begin(CALL, deadline)
        assert inbox.arrived.get(timeout=WAIT) == PROGRESS
        deadline.lift()
        assert inbox.arrived.get(timeout=WAIT) == PROGRESS
        assert client.texts.qsize() == 2
        inbox.give_up(RequestCancelled("enough"))
        assert isinstance(join(), RequestCancelled)


# -- the options of both HTTP transports -------------------------------------------------------------------------


@pytest.mark.parametrize("transport", [HttpClientTransport, SseClientTransport])
def test_both_transports_take_the_same_options(transport: Any) -> None:
    given = {"headers": {"X-Key": "k"}, "verify": False, "cert": None, "proxies": {}, "trust_env": True, "tap": None}
    transport("http://127.0.0.1/", max_message=1000, **given)
    with pytest.raises(TypeError, match="unexpected keyword argument: proxy"):
        transport("http://127.0.0.1/", proxy="http://proxy/")
    with pytest.raises(ValueError, match="SOCKS"):
        transport("http://127.0.0.1/", proxies={"http": "socks5://proxy/"})
