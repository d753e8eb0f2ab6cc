"""What HTTP alone has, from end to end: sessions that are lost, streams that break, many clients, nothing left.

The stateless era has neither sessions nor streams that are resumed: test_losses.py has what it has instead.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from mcp_ref import Client, Context, ErrorResponse, LocalProtocolError, RequestTimeout, Server, TransportClosed, text
from mcp_ref.client.sampling import reply
from mcp_ref.machinery.http_exchange import HttpLimits
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from mcp_ref.roles.server.hosting import HttpService
from tests.basic.transports.streamable_http.raw import Wire, opened, request
from tests.features.conftest import counts_descriptors, left, until
from tests.features.relay import Relay
from tests.slow import slow_but
from tests.wire import PATIENCE, Background

STREAMABLE = [revision.name for revision in SESSION_REVISIONS if revision.http == "streamable"]
RESUMING, POLLING = STREAMABLE[1:], STREAMABLE[2:]

every_revision = pytest.mark.parametrize("revision", STREAMABLE)


def serving(function: Callable[..., Any] = lambda: "hello", **options: Any) -> tuple[Server, HttpService]:
    """A server whose tools are "hello" and that function, by its name, on HTTP."""
    server = Server("s")
    server.tool("hello")(lambda: "hello")
    if function.__name__ != "<lambda>":
        server.tool()(function)
    return server, server.serve_http(**options)


def connected(url: str, revision: str = STREAMABLE[-1], **options: Any) -> Client:
    return Client(url, revision=revision, **{"timeout": PATIENCE, **options})


def hello(client: Client) -> bool:
    return client.call_tool("hello")["content"] == [text("hello")]


def end_session(client: Client) -> None:
    """End the client's session behind its back, as an operator would."""
    transport: Any = client.session.transport
    headers = {"Mcp-Session-Id": transport.session_id, "MCP-Protocol-Version": str(client.revision)}
    assert requests.delete(transport._url, headers=headers, timeout=PATIENCE).status_code == 200


# -- announcements ------------------------------------------------------------------------------------------------


def test_a_client_that_does_not_read_holds_up_neither_the_announcing_handler_nor_other_clients() -> None:
    def announce() -> str:
        for number in range(200):
            server.log("info", f"{number} " + "x" * 100_000)
        return "told"

    server, service = serving(announce, limits=HttpLimits(write=60))
    heard = SimpleQueue[Any]()
    address = urlsplit(service.url).hostname or "", urlsplit(service.url).port or 0
    with service, Wire(address) as opening, connected(service.url, on_log=heard.put) as client:
        deaf = [Wire(address, buffer=4096) for _ in range(4)]
        for wire in deaf:
            wire.send(request("GET", accept="text/event-stream", mcp_session_id=opened(opening)))
            assert wire.head()[0] == 200
        began = time.monotonic()
        assert client.call_tool("announce")["content"] == [text("told")]
        assert time.monotonic() - began < PATIENCE
        for number in range(200):
            assert heard.get(timeout=PATIENCE)["data"].startswith(f"{number} ")
        for wire in deaf:
            wire.close()


def test_the_same_news_waits_once_for_a_client_that_does_not_listen() -> None:
    server, service = serving()
    server.prompt("prompt")(lambda: "")
    address = urlsplit(service.url).hostname or "", urlsplit(service.url).port or 0
    with service, Wire(address) as wire:
        session = opened(wire)
        for number in range(10):
            server.tool(f"tool{number}")(lambda: "")
            server.prompt(f"prompt{number}")(lambda: "")
        wire.send(request("GET", accept="text/event-stream", mcp_session_id=session))
        assert wire.head()[0] == 200 and wire.chunk().startswith(b"id: ")
        assert [wire.chunk().split(b'"')[-2] for _ in range(2)] == [
            b"notifications/tools/list_changed",
            b"notifications/prompts/list_changed",
        ]


# -- sessions -----------------------------------------------------------------------------------------------------


@every_revision
def test_closing_a_client_ends_its_session(revision: str) -> None:
    server, service = serving()
    with service:
        with connected(service.url, revision) as client, connected(service.url, revision) as other:
            assert hello(client) and hello(other)
            assert len(server.sessions) == 2
        assert server.sessions == ()


@every_revision
def test_of_eight_threads_that_find_the_session_lost_one_opens_another(revision: str) -> None:
    server, service = serving()
    reopened, together = SimpleQueue[Any](), threading.Barrier(8, timeout=PATIENCE)
    with service:
        with connected(service.url, revision, on_reopen=lambda: reopened.put(True)) as client:
            end_session(client)
            assert server.sessions == ()

            def call() -> bool:
                together.wait()
                return hello(client)

            calls = [Background(call) for _ in range(8)]
            assert [each.outcome() for each in calls] == [True] * 8
            assert len(server.sessions) == 1
        assert reopened.qsize() == 1
        assert server.sessions == ()


@every_revision
def test_a_notification_finds_the_session_lost_as_well(revision: str) -> None:
    server, service = serving()
    heard = SimpleQueue[Any]()
    server.roots_changed(lambda ctx: heard.put(ctx.roots()))
    with service, connected(service.url, revision, roots=[]) as client:
        end_session(client)
        client.roots_changed()
        assert heard.get(timeout=PATIENCE) == []


@every_revision
def test_a_call_under_way_in_a_session_that_is_lost_ends_and_is_not_sent_again(revision: str) -> None:
    began, ended = SimpleQueue[Any](), SimpleQueue[Any]()

    def work(ctx: Context) -> str:
        began.put(True)
        until(lambda: ctx.cancelled)
        ended.put(True)
        return "too late"

    server, service = serving(work)
    with service, connected(service.url, revision) as client:
        call = Background(client.call_tool, "work")
        began.get(timeout=PATIENCE)
        end_session(client)
        ended.get(timeout=PATIENCE)
        assert isinstance(call.outcome(), TransportClosed)
        assert hello(client)
        assert (began.qsize(), len(server.sessions)) == (0, 1)


@every_revision
def test_what_was_never_sent_is_not_cancelled(revision: str) -> None:
    server, service = serving()
    events = list[Any]()
    with service:
        with connected(service.url, revision, trace=events.append) as client:
            with pytest.raises(RequestTimeout):
                client.call_tool("hello", timeout=1e-9)
            assert hello(client)
    sent = [event.message["method"] for event in events if event.direction == "send" and event.message]
    assert "notifications/cancelled" not in sent
    assert sent.count("tools/call") == 1


def test_one_time_limit_holds_for_a_session_that_is_opened_again_too() -> None:
    slow, go = threading.Event(), threading.Event()

    def authenticate(request: Any) -> None:
        # The 404 for the session that is gone comes at once; the next `initialize` is not answered.
        if slow.is_set() and "mcp-session-id" not in request.headers:
            go.wait(2 * PATIENCE)

    server, service = serving(authenticate=authenticate)
    with service, connected(service.url, connect_timeout=None) as client:
        end_session(client)
        slow.set()
        began = time.monotonic()
        with pytest.raises(RequestTimeout):
            client.call_tool("hello", timeout=0.3)
        assert time.monotonic() - began < PATIENCE
        go.set()


@every_revision
def test_a_session_of_the_users_carries_a_client(revision: str) -> None:
    server, service = serving(authenticate=lambda request: request.headers.get("authorization"))
    with requests.Session() as session:
        session.auth = ("ann", "secret")
        with service, Client(service.url, session=session, revision=revision, timeout=PATIENCE) as client:
            assert hello(client)
            server.tool("new")(lambda: "new")
            assert [tool["name"] for tool in client.list_tools()] == ["hello", "new"]


def test_a_session_of_the_users_goes_with_a_url_alone() -> None:
    with requests.Session() as session, pytest.raises(ValueError, match="goes with a URL"):
        Client(Server("s"), session=session)


@every_revision
def test_a_client_goes_on_after_the_server_was_restarted(revision: str) -> None:
    server, service = serving()
    reopened = SimpleQueue[Any]()
    port = urlsplit(service.url).port or 0
    with connected(service.url, revision, on_reopen=lambda: reopened.put(True)) as client:
        assert hello(client)
        for _ in range(2):
            service.close()
            service = server.serve_http(port=port)
            assert hello(client)
            assert reopened.get(timeout=PATIENCE)
    service.close()


def test_a_session_that_nobody_uses_ends_and_its_client_opens_another() -> None:
    reopened = SimpleQueue[Any]()
    # A standing stream is a use: it has none here.
    server, service = serving(idle=0.5, max_streams_per_session=0)
    with service, connected(service.url, on_reopen=lambda: reopened.put(True)) as client:
        with connected(service.url) as other:
            until(lambda: other.ping() or len(server.sessions) == 1)
        assert hello(client)
        assert reopened.get(timeout=PATIENCE)


@every_revision
def test_what_the_server_announces_reaches_the_session_that_was_opened_again(revision: str) -> None:
    server, service = serving()
    heard = SimpleQueue[Any]()
    with service, connected(service.url, revision, on_change=lambda method, params: heard.put(method)) as client:
        end_session(client)
        assert hello(client)
        server.tool("new")(lambda: "new")
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"


@every_revision
def test_without_sessions_each_call_stands_alone(revision: str) -> None:
    def ask(ctx: Context) -> str:
        ctx.progress(1, 2)
        ctx.log("info", str(ctx.revision))
        with pytest.raises(LocalProtocolError):
            ctx.sample("nobody is there to ask", max_tokens=1)
        return str(ctx.revision)

    heard, reports = SimpleQueue[Any](), list[Any]()
    server, service = serving(ask, sessions=False)
    options: Any = {"on_log": heard.put, "sample": lambda params: reply("hello", model="m")}
    with service:
        with connected(service.url, revision, **options) as client, connected(service.url, revision) as other:
            result = client.call_tool("ask", on_progress=lambda *report: reports.append(report[:2]))
            assert result["content"] == [text(revision)]
            assert (reports, heard.get(timeout=PATIENCE)["data"]) == ([(1, 2)], revision)
            assert hello(other)
            assert [tool["name"] for tool in client.list_tools()] == ["hello", "ask"]
        # An answer is sent before what belonged to it is put away.
        until(lambda: server.sessions == ())


# -- streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", STREAMABLE)
def test_a_stream_that_breaks_is_resumed_and_nothing_is_lost_or_repeated(revision: str) -> None:
    go = threading.Event()

    def count(ctx: Context) -> str:
        ctx.progress(1)
        assert go.wait(PATIENCE)
        for number in range(2, 6):
            ctx.progress(number)
        return "counted"

    first, reports = threading.Event(), list[float]()

    def report(at: float, *rest: Any) -> None:
        reports.append(at)
        first.set()

    server, service = serving(count)
    with service, Relay(service.url) as relay, connected(relay.url, revision, timeout=2 * PATIENCE) as client:
        call = Background(client.call_tool, "count", on_progress=report)
        assert first.wait(PATIENCE)
        relay.cut()
        go.set()
        assert call.outcome()["content"] == [text("counted")]
        assert reports == [1, 2, 3, 4, 5]
        assert hello(client)


@every_revision
def test_the_standing_stream_is_resumed_too(revision: str) -> None:
    server, service = serving()
    heard = SimpleQueue[Any]()
    with service, Relay(service.url) as relay:
        with connected(relay.url, revision, on_change=lambda method, params: heard.put(method)) as client:
            assert hello(client)
            # There must have been an event: before 2025-11-25 a stream begins with none, and is resumed after one.
            server.tool("new")(lambda: "new")
            assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"
            relay.cut()
            server.remove_tool("new")
            assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"
            assert heard.empty()


@every_revision
def test_a_handler_closes_its_stream_and_the_client_comes_back_for_the_result(revision: str) -> None:
    asked, go = SimpleQueue[Any](), threading.Event()

    def work(ctx: Context) -> str:
        ctx.progress(1)
        ctx.close_stream(retry=20)
        ctx.progress(2)
        assert go.wait(PATIENCE)
        return "done"

    reports = list[float]()
    server, service = serving(
        work, authenticate=lambda request: asked.put((request.method, request.headers.get("last-event-id")))
    )
    with service, connected(service.url, revision) as client:
        call = Background(client.call_tool, "work", on_progress=lambda at, *rest: reports.append(at))
        if revision in POLLING:
            until(lambda: comes_back(asked))
        go.set()
        assert call.outcome()["content"] == [text("done")]
        assert reports == [1, 2]
        assert comes_back(asked) is False


def comes_back(asked: SimpleQueue[Any]) -> bool:
    """Whether there was a GET for the rest of a stream."""
    return any(method == "GET" and last for method, last in (asked.get() for _ in range(asked.qsize())))


def test_a_handler_may_close_its_stream_again_and_again() -> None:
    def work(ctx: Context) -> str:
        for number in range(1, 6):
            ctx.progress(number)
            ctx.close_stream(retry=1)
        return "done"

    reports = list[float]()
    server, service = serving(work)
    with service, connected(service.url) as client:
        for _ in range(5):
            result = client.call_tool("work", on_progress=lambda at, *rest: reports.append(at))
            assert result["content"] == [text("done")]
        assert reports == [1, 2, 3, 4, 5] * 5


def test_a_question_is_asked_and_answered_though_the_stream_was_closed() -> None:
    def ask(ctx: Context) -> str:
        ctx.close_stream(retry=1)
        return str(ctx.sample("hello", max_tokens=1)["model"])

    server, service = serving(ask)
    with service, connected(service.url, sample=lambda params: reply("hello", model="m")) as client:
        assert client.call_tool("ask")["content"] == [text("m")]


@every_revision
def test_a_question_is_given_up_on_the_stream_on_which_it_was_asked(revision: str) -> None:
    stopped = threading.Event()

    def ask(ctx: Context) -> str:
        with pytest.raises(RequestTimeout):
            ctx.sample("hello", max_tokens=1, timeout=0.05)
        return str(stopped.wait(PATIENCE))

    def sample(params: Any, ctx: Any) -> Any:
        until(lambda: ctx.cancelled)
        stopped.set()
        return reply("too late", model="m")

    # This server has no room for a standing stream, so there is no other.
    server, service = serving(ask, max_streams_per_session=0)
    with service, connected(service.url, revision, sample=sample) as client:
        assert client.call_tool("ask")["content"] == [text("True")]


def test_a_server_that_vanishes_fails_what_cannot_be_resumed_and_bounds_the_rest() -> None:
    began = threading.Event()

    def work(ctx: Context) -> str:
        began.set()
        until(lambda: ctx.cancelled)
        return "too late"

    server, service = serving(work)
    with service:
        relay = Relay(service.url)
        with connected(relay.url) as client:
            call = Background(client.call_tool, "work")
            assert began.wait(PATIENCE)
            relay.close()
            assert isinstance(call.outcome(), TransportClosed)
            with pytest.raises(TransportClosed, match="127.0.0.1"):
                client.ping()


# -- many ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_fifty_clients_at_once(revision: str) -> None:
    together = threading.Barrier(50, timeout=PATIENCE)

    def meet(number: int, ctx: Context) -> str:
        together.wait()
        ctx.progress(number)
        return f"{number} {ctx.client_info['name']}"

    server, service = serving(meet, sse_path="/sse", keep_alive=0.2)

    def call(number: int) -> Any:
        url = str(service.sse_url) if REVISIONS[revision].http == "sse" else service.url
        with connected(url, revision, info={"name": f"c{number}"}) as client:
            return client.call_tool("meet", {"number": number}, on_progress=lambda *report: None)["content"]

    with service:
        calls = [Background(call, number) for number in range(50)]
        assert [each.outcome() for each in calls] == [[text(f"{number} c{number}")] for number in range(50)]
        until(lambda: not server.sessions)


@counts_descriptors
@pytest.mark.parametrize("revision", slow_but(["2025-11-25", "2026-07-28"], REVISIONS))
def test_nothing_is_left_of_many_connections(revision: str) -> None:
    def ask(ctx: Context) -> str:
        ctx.log("info", "asking")
        return str(ctx.sample("hello", max_tokens=1)["model"])

    before = left()
    server, service = serving(ask, sse_path="/sse", keep_alive=0.05)
    url = str(service.sse_url) if REVISIONS[revision].http == "sse" else service.url
    options: Any = {"sample": lambda params: reply("hello", model="m"), "on_log": lambda params: None}
    with service:
        listening = left()
        for number in range(50):
            with connected(url, revision, **options) as client:
                assert client.call_tool("ask")["content"] == [text("m")]
                if number % 10 == 0 and revision in STREAMABLE:
                    end_session(client)
        until(lambda: not server.sessions and left() == listening)
    until(lambda: left() == before)


class Cut:
    """A proxy whose next answers break off after so many bytes."""

    def __init__(self, port: int) -> None:
        self.after: int | None = None
        self._port, self._listening = port, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/mcp"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while self._port:
            near, _ = self._listening.accept()
            if self._port:
                far = socket.create_connection(("127.0.0.1", self._port))
                self._threads += [threading.Thread(target=self._pass_on, args=(near, far, False)),
                                  threading.Thread(target=self._pass_on, args=(far, near, True))]  # fmt: skip
                for thread in self._threads[-2:]:
                    thread.start()
            else:
                near.close()

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if answers and self.after is not None:
                    target.sendall(data[: self.after])
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if answers:
            self._threads[self._threads.index(threading.current_thread()) - 1].join()
            source.close()
            target.close()

    def close(self) -> None:
        self._port = 0
        socket.create_connection(self._listening.getsockname()).close()
        for thread in self._threads:
            thread.join(PATIENCE)
        self._listening.close()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_an_answer_that_breaks_off_anywhere_is_a_lost_connection(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also within its head, which `http.client` takes for a whole one."""
    server = Server("s")
    server.tool("echo")(lambda text: text)
    with server.serve_http() as http:
        cut = Cut(http._http.address[1])
        try:
            with Client(cut.url, revision=revision, timeout=PATIENCE) as client:
                assert client.call_tool("echo", {"text": "a"})["content"]
                for size in range(250):
                    cut.after = size
                    with pytest.raises(TransportClosed):
                        client.call_tool("echo", {"text": "a" * 500})
                    cut.after = None
                assert client.call_tool("echo", {"text": "a"})["content"]
        finally:
            cut.close()
    assert not [record for record in caplog.records if record.exc_info]


def test_a_handler_whose_connection_is_gone_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool()
    def report() -> str:
        raise TransportClosed("the client has closed the event stream")

    server.prompt("ask")(report)
    with Client(server) as client:
        assert client.call_tool("report")["isError"]
        with pytest.raises(ErrorResponse):
            client.get_prompt("ask")
    shown = [bool(record.exc_info) for record in caplog.records if record.levelname == "ERROR"]
    assert shown == [False, False]
