"""Ends that come in the middle, by every way: each waits for a bounded time, and says clearly what happened."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, Context, LocalProtocolError, Server, TransportClosed, text
from mcp_ref.pages.client.sampling import reply
from tests.features.conftest import Connect, alive, counts_descriptors, newest, until
from tests.support.machine import held
from tests.support.wire import PATIENCE, Background


def busy() -> tuple[Server, SimpleQueue[Any], SimpleQueue[Any]]:
    """A server whose tool `work` goes on until it is cancelled; queues of what began, and of what ended."""
    server, began, ended = Server("s"), SimpleQueue[Any](), SimpleQueue[Any]()

    @server.tool()
    def work(ctx: Context) -> str:
        began.put(True)
        until(lambda: ctx.cancelled)
        ended.put(True)
        return "too late"

    return server, began, ended


def three_calls(client: Client, began: SimpleQueue[Any]) -> list[Background]:
    """Calls of `work` whose handlers have begun."""
    calls = [Background(client.call_tool, "work") for _ in range(3)]
    for _ in calls:
        began.get(timeout=PATIENCE)
    return calls


@newest
def test_a_server_that_ends_in_mid_call_fails_it_with_a_reason(connect: Connect) -> None:
    server, began, ended = busy()
    client = connect(server)
    calls = three_calls(client, began)
    connect.end(server)
    for call in calls:
        problem = call.outcome()
        assert isinstance(problem, TransportClosed) and str(problem)
        ended.get(timeout=PATIENCE)
    if connect.alone and connect.transport == "memory":
        # A target that can be connected to again is: in this era nothing is lost with a connection.
        assert alive(client)
        return
    with pytest.raises(TransportClosed):
        alive(client)


@newest
def test_closing_a_client_ends_its_calls_and_their_handlers(connect: Connect) -> None:
    server, began, ended = busy()
    client = connect(server)
    calls = three_calls(client, began)
    before = time.monotonic()
    client.close()
    assert time.monotonic() - before < PATIENCE
    for call in calls:
        assert isinstance(call.outcome(), TransportClosed)
    with pytest.raises(TransportClosed):
        alive(client)
    if connect.transport == "stdio":
        # The end of the input cancels nothing: what was asked may still be answered until the server is closed.
        connect.end(server)
    for _ in calls:
        ended.get(timeout=PATIENCE)


@newest
def test_a_server_that_ends_while_it_asks_ends_the_answering_too(connect: Connect) -> None:
    server, asked, answered = Server("s"), threading.Event(), threading.Event()

    @server.tool()
    def ask(ctx: Context) -> str:
        return str(ctx.sample("hello", max_tokens=1)["model"])

    def sample(params: Any, ctx: Any) -> Any:
        asked.set()
        answered.wait(PATIENCE)
        return reply("too late", model="m")

    client = connect(server, sample=sample)
    call = Background(client.call_tool, "ask")
    assert asked.wait(PATIENCE)
    connect.end(server)
    if connect.alone:
        # Nobody waits at the server: the user goes on, and it is the next round that finds nobody there.
        answered.set()
    found = call.outcome()
    answered.set()
    if connect.alone and connect.transport == "memory":
        assert found["content"] == [text("m")]
    else:
        # The handler has ended with its question, and its word may just get through.
        assert isinstance(found, TransportClosed) or "closed the session" in found["content"][0]["text"]


@newest
def test_both_sides_close_at_once_and_twice(connect: Connect) -> None:
    server, began, ended = busy()
    client = connect(server)
    call = Background(client.call_tool, "work")
    began.get(timeout=PATIENCE)
    closing = [Background(client.close), Background(server.close), Background(client.close), Background(server.close)]
    assert [each.outcome() for each in closing] == [None, [], None, []]
    assert isinstance(call.outcome(), TransportClosed)
    client.close()
    server.close()
    assert server.sessions == ()


@newest
def test_who_connects_a_second_time_is_refused_and_spoils_nothing(connect: Connect) -> None:
    server = Server("s")
    server.tool("hello")(lambda: "hello")
    client = connect(server)
    for again in (client.connect, client.__enter__):
        with pytest.raises(LocalProtocolError, match="connect only once"):
            again()
    assert client.list_tools()


def test_of_threads_that_connect_at_once_one_does_and_the_client_is_open() -> None:
    client = Client(Server("s"))
    tries = [Background(client.connect) for _ in range(4)]
    outcomes = [each.outcome() for each in tries]
    assert sum(isinstance(each, LocalProtocolError) for each in outcomes) == 3
    assert alive(client)
    client.close()


@newest
@counts_descriptors
def test_nothing_is_left_of_connections_that_were_closed(connect: Connect) -> None:
    before = held()
    server = Server("s")

    @server.tool()
    def ask(ctx: Context) -> str:
        ctx.log("info", "asking")
        return str(ctx.sample("hello", max_tokens=1)["model"])

    for _ in range(3):
        client = connect(server, sample=lambda params: reply("", model="m"), on_log=lambda params: None)
        client.call_tool("ask")
        client.close()
    connect.close()
    assert server.sessions == ()
    # Only what is new counts: what an earlier test left may end meanwhile.
    until(lambda: not held() - before)
