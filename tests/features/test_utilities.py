"""basic/utilities by every way: ping, cancellation in both directions, time limits."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import (
    Cancel,
    Context,
    ErrorResponse,
    InputRefused,
    LocalProtocolError,
    RequestCancelled,
    RequestTimeout,
    Server,
    text,
)
from mcp_ref.client.sampling import reply
from tests.features.conftest import NEWEST, Connect, hearing, newest, session_era, stateless_era, until
from tests.wire import PATIENCE, Background


def waiting() -> tuple[Server, SimpleQueue[Any]]:
    """A server whose tool `wait` runs until it is cancelled, and the queue in which it says so."""
    server, said = Server("s"), SimpleQueue[Any]()
    server.tool("hello")(lambda: "hello")

    @server.tool()
    def wait(ctx: Context) -> str:
        said.put("began")
        try:
            # Cancelling the call ends this wait: it is a question of the call's handler.
            ctx.sample("never answered", max_tokens=1)
        except RequestCancelled as reason:
            said.put((ctx.cancelled, str(reason)))
            raise
        return "not cancelled"

    return server, said


class Thinking:
    """A client's `sample` that goes on until its question is given up."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.ended = threading.Event()

    def __call__(self, params: Any, ctx: Any) -> Any:
        self.asked.set()
        until(lambda: ctx.cancelled)
        self.ended.set()
        return reply("too late", model="m")


# -- ping ---------------------------------------------------------------------------------------------------------


@session_era("ping was removed: each request says that its server is there")
def test_each_side_pings_the_other(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def ping(ctx: Context) -> str:
        return str(ctx.request("ping"))

    client = connect(server)
    client.ping()
    assert client.call_tool("ping")["content"] == [text("{}")]
    [session] = server.sessions
    # Outside of a call: over HTTP on the standing stream.
    assert session.peer.request("ping", None, {"timeout": PATIENCE}) == {}


@stateless_era("before, each side pings the other")
def test_neither_side_pings(connect: Connect) -> None:
    server = Server("s", ping_interval=0.01)

    @server.tool()
    def ping(ctx: Context) -> str:
        with pytest.raises(LocalProtocolError):
            ctx.request("ping")
        return "not sent"

    pinged = SimpleQueue[str]()
    client = connect(server, ping_interval=0.01, trace=lambda event: note(pinged, event))
    with pytest.raises(LocalProtocolError, match="ping"):
        client.ping()
    assert client.call_tool("ping")["content"] == [text("not sent")]
    assert pinged.empty()


@session_era("ping was removed")
def test_a_ping_is_answered_while_every_handler_is_busy(connect: Connect) -> None:
    server, go = Server("s", max_workers=1), threading.Event()
    began = threading.Event()

    @server.tool()
    def work() -> str:
        began.set()
        return str(go.wait(PATIENCE))

    client = connect(server)
    call = Background(client.call_tool, "work")
    assert began.wait(PATIENCE)
    client.ping()
    go.set()
    assert call.outcome()["content"] == [text("True")]


@session_era("ping was removed: a lost connection is opened again by the next request", NEWEST)
def test_pings_at_intervals_keep_a_connection_that_is_alive(connect: Connect) -> None:
    server, pinged = Server("s", ping_interval=0.5), SimpleQueue[str]()
    client = connect(server, ping_interval=0.3, trace=lambda event: note(pinged, event))
    assert {pinged.get(timeout=PATIENCE) for _ in range(3)} >= {"send"}
    until(lambda: pinged.get(timeout=PATIENCE) == "receive")
    client.ping()


def note(pinged: SimpleQueue[str], event: Any) -> None:
    if isinstance(event.message, dict) and event.message.get("method") == "ping":
        pinged.put(event.direction)


# -- messages of any kind -----------------------------------------------------------------------------------------


def test_a_batch_is_answered_where_the_revision_has_batches(connect: Connect) -> None:
    server = Server("s")
    server.tool("hello")(lambda: "hello")
    client = connect(server)
    calls: Any = [("ping", None), ("tools/call", {"name": "hello"}), ("prompts/get", {"name": "none"}), ("ping", {})]
    if not connect.revision.batching:
        with pytest.raises(LocalProtocolError, match="batch"):
            client.request_batch(calls)
        return
    with pytest.raises(LocalProtocolError, match="prompts"):
        client.request_batch(calls)
    pong, result, unknown, last = client.request_batch([*calls[:2], ("example/nothing", None), calls[3]])
    assert (pong, result, last) == ({}, {"content": [text("hello")]}, {})
    assert isinstance(unknown, ErrorResponse) and unknown.code == -32601


def test_a_handler_of_a_batch_may_ask_and_report(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def ask(ctx: Context) -> str:
        ctx.progress(1)
        return str(ctx.sample("hello", max_tokens=1)["model"])

    client, reports = connect(server, sample=lambda params: reply("hello", model="m")), list[Any]()
    if connect.revision.batching:
        calls: Any = [("tools/call", {"name": "ask"})] * 3
        results = client.request_batch(calls, {"on_progress": lambda *report: reports.append(report[0])})
        assert results == [{"content": [text("m")]}] * 3
        assert reports == [1] * 3


def test_what_the_protocol_does_not_name_passes_as_it_is(connect: Connect) -> None:
    server, heard = Server("s", experimental={"example": {"x": 1}}), SimpleQueue[Any]()
    server.tool("hello")(lambda: "hello")

    @server.tool()
    def meta(ctx: Context) -> str:
        ctx.notify("example/said", {"n": None})
        return str(ctx.meta.get("example.com/k"))

    client = connect(server, on_change=lambda *message: heard.put(message))
    assert client.server_capabilities["experimental"] == {"example": {"x": 1}}
    assert client.call_tool("meta", meta={"example.com/k": "v"})["content"] == [text("v")]
    assert heard.get(timeout=PATIENCE) == ("example/said", {"n": None})
    with pytest.raises(ErrorResponse) as unknown:
        client.request("example/ask", {"n": 1})
    assert unknown.value.code == -32601


@stateless_era("before, the server logs to all who are there")
def test_outside_of_a_request_the_server_logs_to_nobody(connect: Connect) -> None:
    server, heard = Server("s"), SimpleQueue[Any]()
    server.tool("hello")(lambda: "hello")
    client = connect(server, on_log=heard.put)
    with hearing(client, tools=True):
        server.log("warning", "the roof is on fire")
        assert client.call_tool("hello")["content"] == [text("hello")]
    assert heard.empty()


@session_era("a log message belongs to the request that asked for it, and there is nobody else to tell")
def test_the_server_logs_to_all_who_are_there(connect: Connect) -> None:
    server, first, second = Server("s"), SimpleQueue[Any](), SimpleQueue[Any]()
    connect(server, on_log=first.put).ping()
    connect(server, on_log=second.put).ping()
    server.log("warning", "the roof is on fire")
    for heard in (first, second):
        assert heard.get(timeout=PATIENCE) == {"level": "warning", "data": "the roof is on fire"}


# -- cancellation -------------------------------------------------------------------------------------------------


@session_era("a handler is not there any more while its question is answered")
def test_a_handle_gives_a_call_up_and_the_server_is_told_why(connect: Connect) -> None:
    server, said = waiting()
    thinking, give_up = Thinking(), Cancel()
    client = connect(server, sample=thinking)
    call = Background(client.call_tool, "wait", cancel=give_up)
    assert said.get(timeout=PATIENCE) == "began"
    assert thinking.asked.wait(PATIENCE)
    give_up("the user closed the window")
    assert isinstance(call.outcome(), RequestCancelled)
    assert said.get(timeout=PATIENCE) == (True, "the user closed the window")
    # The question was given up with the call that asked it.
    assert thinking.ended.wait(PATIENCE)
    assert client.call_tool("hello")["content"] == [text("hello")]


@stateless_era("before, the handler of the call waits meanwhile, and is cancelled too")
def test_a_handle_gives_a_call_up_while_its_question_is_answered(connect: Connect) -> None:
    server, said = waiting()
    thinking, give_up = Thinking(), Cancel()
    client = connect(server, sample=thinking)
    call = Background(client.call_tool, "wait", cancel=give_up)
    assert thinking.asked.wait(PATIENCE)
    give_up("the user closed the window")
    assert isinstance(call.outcome(), RequestCancelled)
    assert thinking.ended.is_set()
    # Nothing was sent again, so the handler has run once.
    assert [said.get(timeout=PATIENCE), said.empty()] == ["began", True]
    assert client.call_tool("hello")["content"] == [text("hello")]


def test_a_handle_gives_up_a_call_whose_handler_works(connect: Connect) -> None:
    server, began, cancelled = Server("s"), threading.Event(), threading.Event()
    server.tool("hello")(lambda: "hello")

    @server.tool()
    def work(ctx: Context) -> str:
        began.set()
        until(lambda: ctx.cancelled)
        cancelled.set()
        return "too late"

    client, give_up = connect(server), Cancel()
    call = Background(client.call_tool, "work", cancel=give_up)
    assert began.wait(PATIENCE)
    give_up("the user closed the window")
    assert isinstance(call.outcome(), RequestCancelled)
    assert cancelled.wait(PATIENCE)
    assert client.call_tool("hello")["content"] == [text("hello")]


def test_a_call_that_takes_too_long_is_given_up_and_the_server_is_told(connect: Connect) -> None:
    server, cancelled = Server("s"), threading.Event()
    server.tool("hello")(lambda: "hello")

    @server.tool()
    def work(ctx: Context) -> str:
        until(lambda: ctx.cancelled)
        cancelled.set()
        return "too late"

    client = connect(server)
    with pytest.raises(RequestTimeout):
        client.call_tool("work", timeout=0.05)
    assert cancelled.wait(PATIENCE)
    assert client.call_tool("hello")["content"] == [text("hello")]


@session_era("no handler waits for an answer: what it asked stands in its result, and lives as long as the state")
def test_a_question_that_takes_too_long_is_given_up_and_the_client_is_told(connect: Connect) -> None:
    server, thinking = Server("s"), Thinking()

    @server.tool()
    def ask(ctx: Context) -> str:
        with pytest.raises(RequestTimeout):
            ctx.sample("hello", max_tokens=1, timeout=0.05)
        return str(thinking.ended.wait(PATIENCE))

    client = connect(server, sample=thinking)
    assert client.call_tool("ask")["content"] == [text("True")]


@session_era("no handler waits for an answer")
def test_a_handler_gives_its_question_up_with_a_handle(connect: Connect) -> None:
    server, thinking, give_up = Server("s"), Thinking(), Cancel()

    @server.tool()
    def ask(ctx: Context) -> str:
        with pytest.raises(RequestCancelled):
            ctx.sample("hello", max_tokens=1, cancel=give_up)
        return str(thinking.ended.wait(PATIENCE))

    client = connect(server, sample=thinking)
    call = Background(client.call_tool, "ask")
    assert thinking.asked.wait(PATIENCE)
    give_up()
    assert call.outcome()["content"] == [text("True")]


@newest
def test_progress_keeps_a_call_alive_up_to_its_maximum(connect: Connect) -> None:
    server, pause = Server("s"), threading.Event()

    @server.tool()
    def work(ctx: Context, steps: int) -> str:
        for step in range(steps):
            ctx.progress(step)
            pause.wait(0.2)
        return "done"

    client = connect(server)
    assert client.call_tool("work", {"steps": 4}, timeout=0.75, max_timeout=PATIENCE)["content"] == [text("done")]
    with pytest.raises(RequestTimeout):
        client.call_tool("work", {"steps": 50}, timeout=0.75, max_timeout=0.8)
    pause.set()


@newest
def test_what_progress_has_extended_holds_for_later_rounds_too(connect: Connect) -> None:
    server, pause = Server("s"), threading.Event()

    @server.tool()
    def work(ctx: Context) -> str:
        for step in range(4):
            ctx.progress(step)
            pause.wait(0.2)
        return str(ctx.sample("hello", max_tokens=1)["model"])

    client = connect(server, sample=lambda params: reply("hello", model="m"))
    assert client.call_tool("work", timeout=0.75, max_timeout=PATIENCE)["content"] == [text("m")]
    pause.set()


@newest
def test_the_time_of_a_call_stands_still_while_the_user_answers(connect: Connect) -> None:
    server, thinking = Server("s"), threading.Event()

    @server.tool()
    def ask(ctx: Context) -> str:
        return str(ctx.sample("hello", max_tokens=1)["model"])

    def sample(params: Any) -> Any:
        thinking.wait(1.1)
        return reply("hello", model="m")

    client = connect(server, sample=sample)
    assert client.call_tool("ask", timeout=1)["content"] == [text("m")]


@session_era("a question that is not answered is not asked again: the call ends at the client, see the next test")
def test_an_error_of_the_client_reaches_the_handler_that_asked(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def ask(ctx: Context) -> str:
        with pytest.raises(ErrorResponse) as problem:
            ctx.sample("hello", max_tokens=1)
        return str(problem.value.code)

    def sample(params: Any) -> Any:
        raise RuntimeError("no model here")

    assert connect(server, sample=sample).call_tool("ask")["content"] == [text("-32603")]


@stateless_era("before, the handler gets the error, and goes on")
def test_an_error_of_the_client_ends_its_call(connect: Connect) -> None:
    server = Server("s")
    server.tool("hello")(lambda: "hello")

    @server.tool()
    def ask(ctx: Context) -> str:
        return str(ctx.sample("hello", max_tokens=1)["model"])

    def sample(params: Any) -> Any:
        raise RuntimeError("no model here")

    client = connect(server, sample=sample)
    with pytest.raises(InputRefused, match="no model here") as refused:
        client.call_tool("ask")
    assert isinstance(refused.value.__cause__, RuntimeError)
    assert client.call_tool("hello")["content"] == [text("hello")]
