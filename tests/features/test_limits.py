"""Tests of what is bounded: each limit of spec_notes/limits.md at the limit and one beyond it, with memory where it
matters.
"""

from __future__ import annotations

import base64
import gc
import json
import resource
import socket
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, Command, Context, HttpLimits, HttpRefusal, HttpRequest, Server, Url
from mcp_ref.connection import connection as peer
from mcp_ref.errors import McpError, ParseError, RemoteProtocolError, TransportClosed
from mcp_ref.kit.http.http_exchange import SMALL_BODY
from mcp_ref.kit.threads import bounded
from mcp_ref.kit.typed import json_schema, json_text
from mcp_ref.pages.basic.authorization.metadata import MAX_HEADER
from mcp_ref.pages.basic.authorization.resource_server import Protection
from mcp_ref.pages.basic.lifecycle import MAX_INTRODUCTION
from mcp_ref.pages.basic.transports.streamable_http import server as endpoint
from mcp_ref.pages.basic.transports.streamable_http.server import MAX_ENDED
from mcp_ref.pages.basic.transports.streamable_http.streams import MemoryEventStore
from mcp_ref.server.session import MAX_ANNOUNCEMENTS
from mcp_ref.wire import messages
from tests.pages.basic.transports.streamable_http import modern
from tests.pages.basic.transports.streamable_http.raw import Wire, post, request, until
from tests.pages.basic.transports.streamable_http.replies import BOTH, PATIENCE, Front
from tests.pages.basic.transports.streamable_http.scripted import ScriptedServer, head, then
from tests.peers import a_peer
from tests.support.wire import Background, to_client, to_server

MB = 1 << 20
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INFO = {"name": "c", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENING}


@contextmanager
def using_at_most(size: int) -> Iterator[None]:
    """Give whatever the block does, it never holds more memory than that beyond what there was."""
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        yield
        assert tracemalloc.get_traced_memory()[1] - before <= size
    finally:
        tracemalloc.stop()


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.tool()
    def length(text: str) -> str:
        return str(len(text))

    @server.tool()
    def texts(size: int) -> str:
        return "x" * size

    return server


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "limit"),
    [("[]", json_text.MAX_VALUES), ('""', 1_000), ('"\\"["', 1_000), ("1.5", 1_000), ("[[0]]", 1_000)],
)
def test_a_message_of_too_many_values_is_refused_before_they_are_made(
    value: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_text, "MAX_VALUES", limit)
    each = 1 + value.count("[") * ('"' not in value)
    most = limit // each
    # The outer bracket counts as well, and the last value has no comma.
    assert len(messages.decode(f"[{','.join([value] * most)}]")) == most
    beyond = f"[{','.join([value] * (most + 1))}]"
    with using_at_most(40 * MB), pytest.raises(ParseError, match=f"more than {limit:,} values"):
        messages.decode(beyond)


def test_60_megabytes_of_brackets_take_no_memory() -> None:
    text = "[" + "[]," * (20 * MB) + "0]"
    with using_at_most(1 * MB), pytest.raises(ParseError):
        messages.decode(text)


def test_brackets_and_commas_in_strings_are_text() -> None:
    text = json.dumps({"text": '[{"a":1},\\' * 200_000})
    assert messages.decode(text) == json.loads(text)


# -- bodies that a server receives --------------------------------------------------------------------------------


def length_call(size: int, **fields: str) -> bytes:
    """A `tools/call` whose body has so many bytes, by itself (stateless era), after the head."""
    message = modern.called("length", text="")
    message["params"]["arguments"]["text"] = "x" * (size - len(json.dumps(message)))
    return modern.post(message, **fields)


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 4 * MB), ({"max_message": 10_000}, 10_000), ({"limits": HttpLimits(max_message=10_000)}, 10_000)],
)
def test_a_message_over_http_has_at_most_4_mib_unless_said_otherwise(server: Server, options: Any, most: int) -> None:
    with server.serve_http(**options) as http, Wire(http._http.address) as wire:
        assert wire.ask(length_call(most)).status == 200
        assert wire.ask(length_call(most + 1)).status == 413


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"authorization": "no"}, 401),
        ({"content_type": "text/plain"}, 415),
        ({"accept": "text/html"}, 406),
    ],
)
def test_what_the_head_says_is_judged_before_the_body_is_read(
    server: Server, fields: dict[str, str], status: int
) -> None:
    def authenticate(request: HttpRequest) -> str:
        if request.headers.get("authorization") == "no":
            raise HttpRefusal(401, "No")
        return "somebody"

    with server.serve_http(max_message=64 * MB, authenticate=authenticate) as http, using_at_most(4 * MB):
        wires = [Wire(http._http.address) for _ in range(12)]
        for wire in wires:
            head = {"content_type": "application/json", "accept": BOTH, "content_length": str(60 * MB), **fields}
            # Asked to wait, a client sends no body; another one is answered all the same, and then cut off.
            assert wire.ask(request(expect="100-continue", **head)).status == status
            assert wire.ended()
            wire.socket.close()
        with Wire(http._http.address) as wire:
            head.pop("content_length")
            assert wire.ask(request(body=b"x" * 1000, **head)).status == status
            # A short body is skipped, and the connection goes on.
            assert wire.ask(length_call(1000)).status == 200


def test_bodies_under_way_share_a_budget() -> None:
    entered, leave = threading.Semaphore(0), threading.Event()
    server = Server("s")

    @server.tool()
    def length(text: str) -> str:
        entered.release()
        assert leave.wait(PATIENCE)
        return str(len(text))

    for limits, status in ((HttpLimits(bodies=250_000), 503), (HttpLimits(bodies_per_client=250_000), 429)):
        leave.clear()
        with server.serve_http(limits=limits) as http:
            address = http._http.address
            with Wire(address) as one, Wire(address) as two, Wire(address) as three:
                one.send(length_call(125_000))
                two.send(length_call(125_000))
                assert entered.acquire(timeout=PATIENCE) and entered.acquire(timeout=PATIENCE)
                refused = three.ask(length_call(SMALL_BODY + 1))
                assert (refused.status, refused.headers["retry-after"]) == (status, "10")
                # What is short always has room.
                with Wire(address) as four:
                    four.send(length_call(SMALL_BODY))
                    assert entered.acquire(timeout=PATIENCE)
                    leave.set()
                    assert [wire.answer().status for wire in (one, two, four)] == [200] * 3

            def is_let_in(at: Any = address) -> bool:
                with Wire(at) as wire:
                    return wire.ask(length_call(250_000)).status == 200

            # What was answered gives its room back a moment after the answer was sent.
            until(is_let_in)
            assert entered.acquire(timeout=PATIENCE)


# -- what a client receives ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_client_over_http_takes_so_many_bytes(server: Server, revision: str) -> None:
    with server.serve_http() as http, Client(Url(http.url, options={"max_message": 100_000})) as client:
        assert client.call_tool("texts", {"size": 99_000})["content"]
        with pytest.raises(RemoteProtocolError):
            client.call_tool("texts", {"size": 100_001})
        assert client.call_tool("texts", {"size": 1})["content"]


def test_a_client_over_stdio_takes_lines_of_so_many_bytes(tmp_path: Any) -> None:
    path = tmp_path / "server.py"
    path.write_text(
        "from mcp_ref import Server\nserver = Server('s')\n"
        "@server.tool()\ndef texts(size: int) -> str:\n    return 'x' * size\n"
        "server.run(max_message=10_000)\n"
    )
    with Client(Command([sys.executable, str(path)], inherit=True, max_message=100_000)) as client:
        assert client.call_tool("texts", {"size": 99_000})["content"]
        # That of the server, and then that of the client, which ends the connection.
        with pytest.raises(McpError):
            client.call_tool("texts", {"size": 1, "more": "x" * 10_000})
        with pytest.raises(TransportClosed, match="longer than 100000 bytes"):
            client.call_tool("texts", {"size": 100_001})


# -- sessions -----------------------------------------------------------------------------------------------------


def test_one_session_too_many_takes_the_place_of_the_longest_idle(server: Server) -> None:
    with Front(server, max_sessions_per_client=3, max_sessions=5) as front:
        ids = []
        for _ in range(3):
            front.headers.pop("mcp-session-id", None)
            ids.append(front.open().headers["mcp-session-id"])
        # The first is used, and the second has a stream: the third is the longest idle.
        assert front.ask("POST", PING, mcp_session_id=ids[1]).status == 200
        assert front.ask("POST", PING, mcp_session_id=ids[0]).status == 200
        stream, thread = front.listen(mcp_session_id=ids[1])
        assert until(lambda: stream.headers)
        front.headers.pop("mcp-session-id")
        front.open()
        assert [front.ask("POST", PING, mcp_session_id=each).status for each in ids] == [200, 200, 404]
        # Another address has places of its own, until nobody can have one.
        front.address = "127.0.0.2"
        for _ in range(4):
            front.headers.pop("mcp-session-id")
            front.open()
        assert len(front.endpoint.sessions._open) == 5
        assert front.ask("POST", PING, mcp_session_id=ids[1]).status == 200
        assert front.ask("DELETE", mcp_session_id=ids[1]).status == 200
        thread.join(PATIENCE)


def introducing(capabilities: Any, info: Any = INFO) -> Any:
    return {**INITIALIZE, "params": {**OPENING, "capabilities": capabilities, "clientInfo": info}}


SPARE = MAX_INTRODUCTION - json_text.weigh(introducing({"experimental": {"x": {"a": ""}}})["params"])


@pytest.mark.parametrize("where", ["http", "memory"])
def test_an_introduction_has_so_many_bytes(server: Server, where: str) -> None:
    long = {"name": "c", "version": "1", "description": "x" * MAX_INTRODUCTION}
    deep: Any = {}
    for _ in range(900):
        deep = {"a": deep}
    for message, allowed in [
        (introducing({"experimental": {"x": {"a": "b" * SPARE}}}), True),
        (introducing({"experimental": {"x": {"a": "b" * (SPARE + 1)}}}), False),
        (introducing({"unknown": [[]] * 1000}), False),  # whose text is short, and its values are not
        (introducing({"experimental": {"x": deep}}), False),
        (introducing({}, long), False),
        (introducing({}), True),
    ]:
        if where == "memory":
            with to_server(server) as wire:
                wire.send(message)
                answer = wire.receive()
        else:
            with Front(server) as front:
                answer = front.ask("POST", message, mcp_session_id=None, mcp_protocol_version=None).json
                assert len(front.endpoint.sessions._open) == allowed
                if not allowed:
                    assert not front.endpoint.sessions._room._taken and not front.endpoint.sessions._places._taken
        assert ("result" in answer) == allowed, answer
        assert allowed or answer["error"]["code"] == -32602


@pytest.mark.parametrize("kind", ["values", "wide"])
def test_sessions_with_the_largest_introductions_stay_within_one_bound(
    server: Server, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MAX_INTRODUCTIONS", bound := 2 * MB)  # less than it is, to be quick
    largest: Any = {
        "values": {"x": {"a": [{"a": 1}] * 300}},
        "wide": {"x": {"a": "\U0001f600" + "b" * (SPARE // 4 - 100)}},
    }[kind]
    message = introducing({"experimental": largest})
    assert MAX_INTRODUCTION * 0.8 < json_text.weigh(message["params"]) <= MAX_INTRODUCTION
    with Front(server) as front:
        front.ask("POST", INITIALIZE, mcp_session_id=None, mcp_protocol_version=None)
        tracemalloc.start()
        try:
            for _ in range(32):
                assert front.ask("POST", message, mcp_session_id=None, mcp_protocol_version=None).status == 200
            gc.collect()  # those that made room
            # What a session takes besides is small.
            assert tracemalloc.get_traced_memory()[0] < bound // 2 + MB
        finally:
            tracemalloc.stop()
        sessions = front.endpoint.sessions
        assert 3 < len(sessions._open) < 32 and sessions._room._taken <= bound // 2
        # Others are served, as long as there is room, and by those who go.
        front.address = "127.0.0.2"
        assert front.ask("POST", message, mcp_session_id=None, mcp_protocol_version=None).status == 200
        front.endpoint.close()
        assert not sessions._room._taken


def test_sessions_that_are_in_use_make_no_room(server: Server) -> None:
    with Front(server, max_sessions=1) as front:
        front.open()
        stream, thread = front.listen()
        assert until(lambda: stream.headers)
        refused = front.ask("POST", INITIALIZE, mcp_session_id=None, mcp_protocol_version=None)
        assert (refused.status, refused.headers["Retry-After"]) == (503, "10")
        assert front.ask("DELETE").status == 200
        thread.join(PATIENCE)
        assert front.ask("POST", INITIALIZE, mcp_session_id=None, mcp_protocol_version=None).status == 200


def test_nobody_makes_room_for_another_principal(server: Server) -> None:
    def authenticate(request: HttpRequest) -> str:
        return request.headers["x-who"]

    with Front(server, max_sessions=2, authenticate=authenticate) as front:
        front.headers["x-who"] = "one"
        ones = front.open().headers.pop("mcp-session-id")
        front.headers["x-who"] = "two"
        twos = front.open().headers.pop("mcp-session-id")
        front.open()
        assert front.ask("POST", PING, mcp_session_id=twos).status == 404
        assert front.ask("POST", PING, mcp_session_id=ones, x_who="one").status == 200
        assert front.ask("POST", INITIALIZE, mcp_session_id=None, mcp_protocol_version=None, x_who="3").status == 503


def test_idle_sessions_do_not_all_end_at_one_request(server: Server) -> None:
    with Front(server, idle=60) as front:
        for _ in range(3 * MAX_ENDED):
            front.headers.pop("mcp-session-id", None)
            front.open()
        sessions = front.endpoint.sessions
        stale = front.headers["mcp-session-id"]
        sessions._clock = lambda: time.monotonic() + 120
        assert front.ask("POST", PING, mcp_session_id=stale).status == 404
        assert len(sessions._open) == 2 * MAX_ENDED - 1


# -- events -------------------------------------------------------------------------------------------------------


def test_the_events_of_all_sessions_share_one_bound(server: Server) -> None:
    @server.tool()
    def report(size: int, ctx: Context) -> str:
        ctx.progress(1, message="x" * size)
        return "done"

    params = {"name": "report", "arguments": {"size": 100_000}, "_meta": {"progressToken": 1}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    with Front(server, event_store=lambda: MemoryEventStore(1 * MB)) as front, using_at_most(6 * MB):
        for _ in range(100):
            front.headers.pop("mcp-session-id", None)
            front.open()
            # Nobody comes back for any of it.
            assert front.post(call).messages[-1]["result"]


# -- announcements ------------------------------------------------------------------------------------------------


def test_so_many_announcements_wait_for_a_client_that_does_not_listen(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", declare=["resources"])
    server.resource("r://a")(lambda: "")
    with Front(server) as front, using_at_most(6 * MB):
        front.open()
        assert front.request(1, "logging/setLevel", {"level": "info"}).status == 200
        assert front.request(2, "resources/subscribe", {"uri": "r://a"}).status == 200
        for number in range(MAX_ANNOUNCEMENTS - 1):
            server.log("info", f"{number} " + "x" * 1_000)
        server.resource_updated("r://a/1")
        assert "dropping" not in caplog.text
        # One more log message is lost; of the changes none is, though which it was is told less exactly.
        server.log("info", "one too many")
        assert caplog.text.count("dropping") == 1
        for number in range(10):
            server.resource_updated(f"r://a/{number}")
        stream, thread = front.listen()
        told = [message["params"] for message in stream.wait_for(MAX_ANNOUNCEMENTS + 1, 30)]
        assert told[MAX_ANNOUNCEMENTS - 2]["data"].startswith(f"{MAX_ANNOUNCEMENTS - 2} ")
        assert [each["uri"] for each in told[MAX_ANNOUNCEMENTS - 1 :]] == ["r://a/1", "r://a"]
        assert front.ask("DELETE").status == 200
        thread.join(PATIENCE)


def test_log_messages_for_a_slow_callback_have_so_many_bytes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MAX_WAITING_SIZE", 8 * MB)
    go, heard = threading.Event(), list[int]()

    def slow(params: Any) -> None:
        heard.append(len(params["data"]))
        assert go.wait(PATIENCE)

    with to_client(on_log=slow) as (client, wire), using_at_most((8 + 8) * MB):
        for _ in range(8 + 20):
            wire.notify("notifications/message", {"level": "info", "data": "x" * MB})
        assert caplog.text.count("callbacks are too slow: some are dropped") == 1
        go.set()
        client.close()
        # The one that is told, the first that waits, and what fits.
        assert len(heard) in (8, 9)


def test_reports_of_progress_for_a_slow_callback_have_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MAX_WAITING_SIZE", 8 * MB)
    go, heard = threading.Event(), list[float]()

    def slow(progress: float, *_: object) -> None:
        heard.append(progress)
        assert go.wait(PATIENCE)

    with to_client() as (client, wire), using_at_most((8 + 8) * MB):
        call = Background(client.ping, on_progress=slow)
        asked = wire.receive()["id"]
        for number in range(8 + 20):
            wire.notify("notifications/progress", {"progressToken": asked, "progress": number, "message": "x" * MB})
        wire.answer(asked, {})
        go.set()
        assert call.outcome() is None
    assert heard == list(range(len(heard))) and len(heard) <= 9


def test_requests_whose_handlers_wait_have_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "MAX_IN_FLIGHT_SIZE", 8 * MB)
    go = threading.Event()
    handling = a_peer(lambda incoming: go.wait(PATIENCE) and {}, cap=1)
    with using_at_most(8 * MB + 6 * MB), handling as (_, wire), ExitStack() as at_end:
        at_end.callback(go.set)
        for number in range(30):
            wire.send({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {"a": "x" * MB}})
        refused = [wire.receive() for _ in range(22)]
        assert {each["error"]["code"] for each in refused} == {-32603} and wire.silent()
        go.set()
        assert sorted(wire.receive()["id"] for _ in range(8)) == list(range(8))
        # There is room for others now; what is refused holds nothing of what it asked.
        assert wire.request("again", "tools/list", {"a": "x" * MB})["result"] == {}


# -- many at once -------------------------------------------------------------------------------------------------


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Two for each of 2,000 connections, whose both ends are in this process."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before < 5_000:
        if 0 <= most < 5_000:
            pytest.skip(f"a process may have {most} descriptors here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (5_000, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


@pytest.mark.slow
@pytest.mark.usefixtures("many_descriptors")
def test_2000_connections_are_held_and_one_more_is_refused(server: Server) -> None:
    limits, held = HttpLimits(), list[socket.socket]()

    def connect(address: str) -> socket.socket:
        held.append(socket.create_connection(http._http.address, PATIENCE, (address, 0)))
        return held[-1]

    def status(connection: socket.socket) -> bytes:
        return connection.recv(1000).split()[1]

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = resident()
    with server.serve_http(limits=limits) as http:
        try:
            for address in ("127.0.0.1", "127.0.0.2"):
                for _ in range(limits.connections_per_client):
                    connect(address).sendall(length_call(1000)[:100])
                assert until(lambda: http._http._places._taken % limits.connections_per_client == 0)
                assert status(connect(address)) == b"429"
            assert status(connect("127.0.0.3")) == b"503"
            # Each has a thread; what of its stack was touched counts.
            assert resident() - before < limits.connections * 128 * 1024
            held.pop(0).close()
            assert until(lambda: http._http._places._taken == limits.connections - 1)
            last = connect("127.0.0.1")
            last.sendall(length_call(1000))
            assert status(last) == b"200"
        finally:
            for each in held:
                each.close()


# -- schemas ------------------------------------------------------------------------------------------------------


def test_a_schema_of_just_the_limit_is_used() -> None:
    parts = {"enum": [[]] * (json_schema.MAX_PARTS - 2)}
    assert not json_schema.prepare(parts, what="it").problems([])
    with pytest.raises(json_schema.SchemaRefused, match="parts"):
        json_schema.prepare({"enum": [[]] * (json_schema.MAX_PARTS - 1)}, what="it")
    text = json_schema.MAX_TEXT - len('{"title": ""}')
    assert not json_schema.prepare({"title": "x" * text}, what="it").problems(1)
    with pytest.raises(json_schema.SchemaRefused, match="longer"):
        json_schema.prepare({"title": "x" * (text + 1)}, what="it")
    assert not json_schema.prepare({"pattern": "a" * json_schema.MAX_PATTERN}, what="it").problems(1)
    with pytest.raises(json_schema.SchemaRefused):
        json_schema.prepare({"pattern": "a" * (json_schema.MAX_PATTERN + 1)}, what="it")


# -- authorization ------------------------------------------------------------------------------------------------


def test_a_token_has_so_many_characters() -> None:
    from mcp_ref.pages.basic.authorization.jwt import MAX_TOKEN, header_of

    header = base64.urlsafe_b64encode(b'{"alg":"RS256"}').decode().rstrip("=")
    token = f"{header}.{'x' * (MAX_TOKEN - len(header) - 4)}.AA"
    assert len(token) == MAX_TOKEN and header_of(token) == {"alg": "RS256"}
    assert header_of(token + "A") is None


def test_an_authorization_header_has_so_many_bytes() -> None:
    asked: list[str] = []
    most = "x" * (MAX_HEADER - len("Bearer "))
    server, protection = Server("s"), Protection(asked.append, authorization_servers=["https://auth.example"])  # type: ignore[arg-type]
    with server.serve_http(authorization=protection) as http, Wire(http._http.address) as wire:
        assert wire.ask(post(PING, authorization=f"Bearer {most}")).status == 401
        assert asked == [most]
        assert wire.ask(post(PING, authorization=f"Bearer {most}x")).status == 400
        assert asked == [most]


def test_a_document_has_so_many_bytes() -> None:
    from mcp_ref.kit.http.guarded_fetch import MAX_DOCUMENT, Reach, fetch

    def answer(size: int) -> Any:
        return then(head(200, "Content-Type: application/json", length=size), b"x" * size)

    with ScriptedServer(get=[answer(MAX_DOCUMENT), answer(MAX_DOCUMENT + 1)]) as server:
        assert len(fetch(server.url, Reach("loopback")).body) == MAX_DOCUMENT
        with using_at_most(4 * MB), pytest.raises(RemoteProtocolError, match="more than 1048576 bytes"):
            fetch(server.url, Reach("loopback"))
