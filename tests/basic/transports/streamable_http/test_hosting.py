"""A server on HTTP, whole: sessions, streams and handlers over real sockets, and what is left of them: nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.basic.transports.streamable_http.streams import MemoryEventStore
from mcp_ref.machinery.http_exchange import HttpLimits
from mcp_ref.server.hosting import HttpService
from tests.basic.transports.streamable_http.raw import (
    Answer,
    Wire,
    call,
    descriptors,
    http_threads,
    opened,
    post,
    request,
    until,
)
from tests.basic.transports.streamable_http.replies import BOTH, PATIENCE

NOTE = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}


class Gate:
    """Where a handler says that it has come, and waits."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Semaphore(0), threading.Event()

    def wait(self) -> None:
        self.entered.release()
        assert self.leave.wait(PATIENCE)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.leave.set()


@pytest.fixture
def server(gate: Gate) -> Server:
    server = Server("s")

    @server.tool()
    def echo(text: str) -> str:
        return text

    @server.tool()
    def stubborn(ctx: Context) -> str:
        ctx.progress(1)
        ctx.log("info", "begun")
        gate.wait()
        return "done"

    @server.tool()
    def flood(ctx: Context) -> str:
        gate.entered.release()
        for _ in range(300):
            ctx.log("info", "x" * 100_000)
        return "done"

    @server.tool()
    def ask(ctx: Context) -> str:
        return str(len(ctx.roots()))

    return server


@contextmanager
def hosted(server: Server, stuck: bool = False, **options: Any) -> Iterator[HttpService]:
    before = descriptors()
    service = server.serve_http(**options)
    try:
        yield service
    finally:
        assert stuck or service.close() == []
    assert stuck or (until(lambda: not http_threads()) and server.sessions == ())
    assert stuck or until(lambda: descriptors() <= before)


def address(service: HttpService) -> tuple[str, int]:
    return service._http.address


def get(session: str, **fields: str) -> bytes:
    return request("GET", accept="text/event-stream", mcp_session_id=session, **fields)


def sessions_of(service: HttpService) -> int:
    return sum(len(getattr(endpoint, "sessions", ())) for endpoint in service._endpoints._endpoints)


def test_a_call_and_the_end_of_the_session(server: Server) -> None:
    with hosted(server) as service, Wire(address(service)) as wire:
        session = opened(wire)
        answer = wire.ask(post(call("echo", text="hé"), mcp_session_id=session))
        assert answer.json["result"]["content"][0]["text"] == "hé"
        assert wire.ask(request("DELETE", mcp_session_id=session)).status == 200
        assert wire.ask(post(call("echo", text="hé"), mcp_session_id=session)).status == 404
        assert sessions_of(service) == 0 and server.sessions == ()


@pytest.mark.parametrize(("method", "status"), [("OPTIONS", 405), ("PUT", 405), ("HEAD", 405)])
def test_methods_that_are_none_of_ours(server: Server, method: str, status: int) -> None:
    with hosted(server) as service, Wire(address(service)) as wire:
        wire.send(request(method))
        answer = wire.answer(to_head=method == "HEAD")
        assert (answer.status, answer.headers["allow"]) == (status, "POST, GET, DELETE")


def test_a_foreign_host_is_refused_over_the_wire(server: Server) -> None:
    with hosted(server) as service, Wire(address(service)) as wire:
        assert wire.ask(post({}, host="evil.example")).status == 403


def test_there_is_an_address_of_the_newer_kind(server: Server) -> None:
    import socket

    with hosted(server, host="::1") as service, Wire(address(service), socket.AF_INET6) as wire:
        assert service.url.startswith("http://[::1]:")
        assert wire.ask(post({}, host="evil.example")).status == 403
        opened(wire)


def test_who_listens_for_everybody_is_warned(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with hosted(server):
        assert caplog.text == ""
    with hosted(server, host="0.0.0.0"):
        assert "everybody who can reach this machine" in caplog.text


def test_a_result_that_is_not_json_is_answered_with_an_error(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    @server.tool()
    def broken() -> Any:
        return {"content": [{"type": "text", "text": "x", "_meta": {"set": {1}}}]}

    with hosted(server) as service, Wire(address(service)) as wire:
        session = opened(wire)
        answer = wire.ask(post(call("broken"), mcp_session_id=session))
        assert answer.status == 200
        assert "error" in answer.json or answer.json["result"].get("isError")


# -- streams ------------------------------------------------------------------------------------------------------


def test_a_standing_stream_carries_what_belongs_to_no_request_and_comments(server: Server) -> None:
    with hosted(server, keep_alive=0.01) as service, Wire(address(service)) as wire, Wire(address(service)) as other:
        session = opened(other)
        wire.send(get(session))
        assert wire.head()[1]["content-type"] == "text/event-stream"
        server.tool("later")(lambda: "x")
        came = b""
        while b"list_changed" not in came or b": keep-alive" not in came:
            came += wire.chunk()


def test_a_question_of_a_handler_is_answered_by_another_post(server: Server) -> None:
    with hosted(server) as service, Wire(address(service)) as wire, Wire(address(service)) as other:
        session = opened(other, {"roots": {}})
        wire.send(post(call("ask"), mcp_session_id=session))
        wire.head()
        wire.chunk()
        question = wire.chunk().decode()
        answer = {"jsonrpc": "2.0", "id": Answer(200, {}, question.encode()).messages[0]["id"], "result": {"roots": []}}
        assert other.ask(post(answer, mcp_session_id=session)).status == 202
        assert b'"text":"0"' in wire.chunk()
        assert wire.chunk() == b""


@pytest.mark.parametrize("rude", [True, False])
def test_a_client_that_vanishes_from_its_streams_leaves_the_session_and_nothing_else(
    server: Server, rude: bool
) -> None:
    with hosted(server, keep_alive=0.01) as service, Wire(address(service)) as other:
        session = opened(other)
        for _ in range(20):
            wire = Wire(address(service))
            wire.send(get(session))
            wire.head()
            wire.reset() if rude else wire.close()
        assert until(lambda: len(service._http._connections) == 1)
        assert other.ask(post(call("echo", text="x"), mcp_session_id=session)).status == 200
        end = server.sessions[0].peer.transport
        assert until(lambda: end.attached() == 0)  # type: ignore[attr-defined]


def test_an_answer_that_the_client_did_not_wait_for_is_fetched(server: Server, gate: Gate) -> None:
    with hosted(server) as service, Wire(address(service)) as other:
        session = opened(other)
        wire = Wire(address(service))
        wire.send(post(call("stubborn"), mcp_session_id=session))
        wire.head()
        event_id = wire.chunk().decode().splitlines()[0].removeprefix("id: ")
        wire.reset()
        gate.leave.set()
        answer = other.ask(get(session, last_event_id=event_id))
        assert answer.messages[-1]["result"]["content"][0]["text"] == "done"


def roomy() -> MemoryEventStore:
    return MemoryEventStore(size=100_000_000)


def test_a_client_comes_back_although_its_former_connection_does_not_read(server: Server, gate: Gate) -> None:
    limits = HttpLimits(write=60)
    with hosted(server, limits=limits, event_store=roomy) as service, Wire(address(service)) as other:
        session = opened(other)
        with Wire(address(service), buffer=4096) as wire:
            wire.send(post(call("flood"), mcp_session_id=session))
            wire.head()
            event_id = wire.chunk().decode().splitlines()[0].removeprefix("id: ")
            assert gate.entered.acquire(timeout=PATIENCE)
            other.send(get(session, last_event_id=event_id))
            assert other.head()[0] == 200
        assert service.close(PATIENCE) == []


# -- cancellation -------------------------------------------------------------------------------------------------


def test_a_cancelled_request_holds_up_no_other_on_its_connection(server: Server, gate: Gate) -> None:
    with hosted(server) as service, Wire(address(service)) as other:
        session = opened(other)
        with Wire(address(service)) as wire:
            wire.send(post(call("stubborn"), mcp_session_id=session))
            assert gate.entered.acquire(timeout=PATIENCE)
            assert other.ask(post(NOTE, mcp_session_id=session)).status == 202
            # Its thread is still the handler's.
            assert b'"result"' not in wire.rest()
        gate.leave.set()


# -- many, and the end --------------------------------------------------------------------------------------------


def test_a_thousand_sessions_that_are_left_open_end_with_the_server(server: Server) -> None:
    with hosted(server) as service:
        with Wire(address(service)) as wire:
            for _ in range(1000):
                opened(wire)
            # One more takes the place of the first.
            opened(wire)
        assert sessions_of(service) == len(server.sessions) == 1000
        began = time.monotonic()
        service.close(PATIENCE)
        assert time.monotonic() - began < PATIENCE


def test_many_clients_at_once(server: Server) -> None:
    problems: list[BaseException] = []

    def client(number: int) -> None:
        try:
            with Wire(address(service)) as wire:
                session = opened(wire)
                for count in range(20):
                    answer = wire.ask(post(call("echo", f"{number}.{count}", text=str(number)), mcp_session_id=session))
                    assert answer.json["id"] == f"{number}.{count}"
                    assert answer.json["result"]["content"][0]["text"] == str(number)
                assert wire.ask(request("DELETE", mcp_session_id=session)).status == 200
        except BaseException as problem:
            problems.append(problem)

    with hosted(server) as service:
        threads = [threading.Thread(target=client, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * PATIENCE)
        assert problems == []
        assert sessions_of(service) == 0 and server.sessions == ()


def test_the_end_is_bounded_whatever_clients_and_handlers_do(
    server: Server, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    with hosted(server, stuck=True, limits=HttpLimits(write=60)) as service:
        idle, half, listening, unread, deaf = (Wire(address(service), buffer=4096) for _ in range(5))
        session = opened(idle)
        half.send(b"POST /mcp HTTP/1.1\r\nHo")
        listening.send(get(session))
        listening.head()
        unread.send(post(call("flood"), mcp_session_id=session))
        deaf.send(post(call("stubborn", 2), mcp_session_id=session))
        assert gate.entered.acquire(timeout=PATIENCE) and gate.entered.acquire(timeout=PATIENCE)
        began = time.monotonic()
        stuck = service.close(2)
        assert time.monotonic() - began < 2 + PATIENCE
        assert len(stuck) == 1, "the handler that ignores its cancellation"
        assert all(wire.ended() for wire in (idle, half))
        for wire in (idle, half, listening, unread, deaf):
            wire.close()
        gate.leave.set()
        assert until(lambda: not http_threads())
        assert server.sessions == ()


def test_both_transports_of_a_time_stand_side_by_side(server: Server) -> None:
    options: Any = {"sse_path": "/sse", "keep_alive": 0.01}
    with hosted(server, **options) as service, Wire(address(service)) as wire, Wire(address(service)) as other:
        assert service.sse_url == service.url.replace("/mcp", "/sse")
        opened(other)
        wire.send(request("GET", "/sse", accept="text/event-stream"))
        wire.head()
        where = wire.chunk().decode().splitlines()[1].removeprefix("data: ")
        params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        whole = post(message).replace(b"POST /mcp ", f"POST {where} ".encode())
        assert other.ask(whole).status == 202
        while b'"protocolVersion":"2024-11-05"' not in (chunk := wire.chunk()):
            assert chunk.startswith(b":")
        assert len(server.sessions) == 2
        wire.close()
        assert until(lambda: len(server.sessions) == 1)


def test_a_server_without_a_way_over_http_says_so() -> None:
    with pytest.raises(ValueError, match="no.*way over HTTP"):
        Server("s", revisions=["2024-11-05"]).serve_http()
    with Server("s", revisions=["2024-11-05"]).serve_http(sse_path="/sse") as service, Client(service.url) as client:
        assert (service.url, str(client.revision)) == (service.sse_url, "2024-11-05")


def test_the_client_of_this_package_and_the_server_agree(server: Server) -> None:
    from mcp_ref import Client

    with hosted(server) as service, Client(service.url) as client:
        assert client.call_tool("echo", {"text": BOTH})["content"][0]["text"] == BOTH


@pytest.mark.parametrize("transport", ["http"])
def test_run_serves_until_the_close(server: Server, transport: str) -> None:
    running = threading.Thread(target=server.run, args=(transport,), kwargs={"port": 0})
    running.start()
    assert until(lambda: server.services)
    with Wire(address(server.services[0])) as wire:
        opened(wire)
        server.close(PATIENCE)
    running.join(PATIENCE)
    assert not running.is_alive() and http_threads() == []
