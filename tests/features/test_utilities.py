"""basic/utilities by every way: roots that change, batches, cancellation in both directions, time limits."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Cancel, Client, Context, ErrorResponse, RequestCancelled, RequestTimeout, Server, text
from mcp_ref.pages.client.sampling import reply
from tests.features.conftest import WAYS, Connect, newest, session_era, until
from tests.support.wire import PATIENCE, Background


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


# -- roots --------------------------------------------------------------------------------------------------------


@session_era("no server remembers a client's roots: whoever needs them asks in its request")
def test_the_server_hears_that_the_roots_have_changed_and_asks_again(connect: Connect, tmp_path: Path) -> None:
    folders, heard = [tmp_path], SimpleQueue[Any]()
    server = Server("s")

    @server.roots_changed
    def again(ctx: Context) -> None:
        heard.put([root["uri"] for root in ctx.roots()])

    client = connect(server, roots=lambda: folders)
    client.roots_changed()
    assert heard.get(timeout=PATIENCE) == [tmp_path.resolve().as_uri()]
    folders.clear()
    client.roots_changed()
    assert heard.get(timeout=PATIENCE) == []


# -- messages of any kind -----------------------------------------------------------------------------------------


@session_era("no batch has been sent since 2025-06-18", [way for way in WAYS if way.revision.batching])
def test_a_handler_of_a_batch_may_ask_and_report(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def ask(ctx: Context) -> str:
        ctx.progress(1)
        return str(ctx.sample("hello", max_tokens=1)["model"])

    client, reports = connect(server, sample=lambda params: reply("hello", model="m")), list[Any]()
    calls: Any = [("tools/call", {"name": "ask"})] * 3
    results = client.request_batch(calls, {"on_progress": lambda *report: reports.append(report[0])})
    assert results == [{"content": [text("m")]}] * 3
    assert reports == [1] * 3


@newest
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


# -- cancellation -------------------------------------------------------------------------------------------------


@newest
def test_a_handle_gives_a_call_up_while_its_question_is_answered(connect: Connect) -> None:
    server, said = waiting()
    thinking, give_up = Thinking(), Cancel()
    client = connect(server, sample=thinking)
    call = Background(client.call_tool, "wait", cancel=give_up)
    assert said.get(timeout=PATIENCE) == "began"
    assert thinking.asked.wait(PATIENCE)
    give_up("the user closed the window")
    assert isinstance(call.outcome(), RequestCancelled)
    # The question was given up with the call that asked it.
    assert thinking.ended.wait(PATIENCE)
    if connect.alone:
        # No handler waited for the answer, and as nothing was sent again, it has run once.
        assert said.empty()
    else:
        assert said.get(timeout=PATIENCE) == (True, "the user closed the window")
    assert client.call_tool("hello")["content"] == [text("hello")]


@newest
def test_a_call_that_takes_too_long_is_given_up_and_the_server_is_told(connect: Connect) -> None:
    server, cancelled = Server("s"), threading.Event()
    server.tool("hello")(lambda: "hello")

    @server.tool()
    def work(ctx: Context) -> str:
        until(lambda: ctx.cancelled)
        cancelled.set()
        return "too late"

    client = connect(server)
    # On a busy machine a short time may pass before the request is sent: then nobody is told anything.
    for seconds in (0.05, 1, 5):
        with pytest.raises(RequestTimeout):
            client.call_tool("work", timeout=seconds)
        if cancelled.wait(seconds):
            break
    assert cancelled.is_set()
    assert client.call_tool("hello")["content"] == [text("hello")]


def test_what_progress_has_extended_holds_for_later_rounds_too() -> None:
    server, pause = Server("s"), threading.Event()

    @server.tool()
    def work(ctx: Context) -> str:
        for step in range(4):
            ctx.progress(step)
            pause.wait(0.2)
        return str(ctx.sample("hello", max_tokens=1)["model"])

    with Client(server, sample=lambda params: reply("hello", model="m")) as client:
        assert client.call_tool("work", timeout=0.75, max_timeout=PATIENCE)["content"] == [text("m")]
