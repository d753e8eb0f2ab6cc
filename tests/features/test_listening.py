"""basic/patterns/subscriptions by every way that has it: many listeners, floods of them, and one that does not read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse, RequestTimeout, Server, text
from mcp_ref.errors import HttpStatusError
from mcp_ref.pages.basic import subscriptions
from mcp_ref.pages.basic.transports.stdio import StdioServerTransport
from tests.eras import envelope
from tests.features.conftest import Connect, address_of, alive, stateless_era, until
from tests.pages.basic.transports.streamable_http import modern, raw
from tests.support.wire import PATIENCE, Background

TOOLS = "notifications/tools/list_changed"

every_way = stateless_era("before, everybody hears of every list, and a session remembers what was subscribed to")


def shop() -> Server:
    server = Server("s", declare=["tools", "prompts", "resources"])
    server.tool("hello")(lambda: "hello")
    return server


def open_listens(server: Server) -> int:
    assert server.stateless is not None
    return len(server.subscriptions)


@every_way
def test_several_subscriptions_of_one_client_are_told_apart(connect: Connect) -> None:
    server = shop()
    client = connect(server)
    with (
        client.listen(tools=True) as tools,
        client.listen(resources=["r://1", "r://2/"]) as some,
        client.listen(tools=True, resources=["r://1"]) as both,
    ):
        assert (tools.honoured, both.honoured["resourceSubscriptions"]) == ({"toolsListChanged": True}, ["r://1"])
        server.resource_updated("r://2/below")
        server.resource_updated("r://1")
        server.resource_updated("r://3")
        server.tool("new")(lambda: "new")
        assert tools.get(PATIENCE).method == TOOLS
        assert [some.get(PATIENCE).params["uri"] for _ in range(2)] == ["r://2/below", "r://1"]
        assert [both.get(PATIENCE).method for _ in range(2)] == ["notifications/resources/updated", TOOLS]
        with pytest.raises(RequestTimeout):
            some.get(0.01)
        assert open_listens(server) == 3
    until(lambda: open_listens(server) == 0)


@every_way
def test_listeners_do_not_take_the_places_of_handlers(connect: Connect) -> None:
    server = Server("s", declare=["tools"], max_workers=1)
    server.tool("hello")(lambda: "hello")
    client = connect(server)
    listening = [client.listen(tools=True).__enter__() for _ in range(8)]
    try:
        assert client.call_tool("hello")["content"] == [text("hello")]
        server.tool("new")(lambda: "new")
        assert [events.get(PATIENCE).method for events in listening] == [TOOLS] * 8
    finally:
        for events in listening:
            events.close()


# -- floods -------------------------------------------------------------------------------------------------------


def entered(client: Client) -> bool:
    """Whether there is room for one more."""
    try:
        with client.listen(tools=True):
            return True
    except (ErrorResponse, HttpStatusError):
        return False


@pytest.mark.parametrize(("limit", "code"), [("max_subscriptions", 503), ("max_subscriptions_per_client", 429)])
def test_over_http_a_flood_is_refused_by_its_status(limit: str, code: int) -> None:
    server = shop()
    options: Any = {limit: 2}
    with server.serve_http(keep_alive=0.1, **options) as service:
        address = address_of(service.url)
        wires = [raw.Wire(address) for _ in range(2)]
        for wire in wires:
            wire.send(modern.post(modern.listening(toolsListChanged=True)))
            assert wire.head()[0] == 200
        for _ in range(3):
            with raw.Wire(address) as wire:
                answer = wire.ask(modern.post(modern.listening(toolsListChanged=True)))
                assert (answer.status, answer.headers["retry-after"]) == (code, "10")
        with Client(service.url, timeout=PATIENCE) as client:
            with pytest.raises((ErrorResponse, HttpStatusError)):
                client.listen(tools=True).__enter__()
            assert client.call_tool("hello")["content"] == [text("hello")]
            wires.pop().close()
            until(lambda: entered(client))
        for wire in wires:
            wire.close()


# -- a listener that does not read --------------------------------------------------------------------------------

LONG = "x" * 2000
URIS = [f"r://{number}/{LONG}" for number in range(2000)]
"""Four megabytes of URIs, more than any buffer on the way holds."""


HELD_UP = 20.0
"""Seconds below which nobody was held up, also where the machine is busy: a writer that waits has thirty."""


def announce(server: Server, uris: list[str]) -> float:
    """Say that all of it has changed, twice; how long that took."""
    before = time.monotonic()
    for uri in uris * 2:
        server.resource_updated(uri)
    return time.monotonic() - before


def test_a_listener_over_stdio_that_does_not_read_holds_up_nobody_else() -> None:
    server = shop()
    there, back = os.pipe(), os.pipe()
    server.connect(StdioServerTransport(read_fd=there[0], write_fd=back[1]))
    line = json.dumps(modern.listening(resourceSubscriptions=URIS[:100])).encode() + b"\n"
    writing = Background(os.write, there[1], line)
    until(lambda: open_listens(server) == 1)
    assert writing.outcome() == len(line)
    with Client(server, timeout=PATIENCE) as client, client.listen(resources=["r://0/"]) as events:
        assert announce(server, URIS[:100]) < PATIENCE
        assert events.get(PATIENCE).params["uri"] == URIS[0]
        assert client.call_tool("hello")["content"] == [text("hello")]
    before = time.monotonic()
    server.close(2)
    assert time.monotonic() - before < PATIENCE
    for descriptor in (there[1], back[0]):
        os.close(descriptor)


@every_way
def test_a_filter_that_is_too_long_is_refused(connect: Connect) -> None:
    client = connect(shop())
    with pytest.raises(ErrorResponse) as refused:
        client.listen(resources=[f"r://{number}" for number in range(subscriptions.MAX_URIS + 1)]).__enter__()
    assert refused.value.code == -32602


@every_way
def test_of_too_many_subscriptions_those_on_top_are_refused(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_OPEN", 3)
    client = connect(shop())
    listening = [client.listen(tools=True).__enter__() for _ in range(3)]
    try:
        for _ in range(3):
            with pytest.raises(ErrorResponse, match="Too many subscriptions"):
                client.listen(tools=True).__enter__()
        # Everything else goes on, and so do those that are there.
        assert client.call_tool("hello")["content"] == [text("hello")]
        listening.pop().close()
        assert alive(client)
        until(lambda: entered(client))
    finally:
        for events in listening:
            events.close()


@every_way
def test_the_filters_of_all_subscriptions_have_so_many_characters(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MAX_LISTENED", 3_100)
    client = connect(shop())
    uris = [f"r://0/{'x' * 1_000}"]
    with (
        client.listen(resources=uris),
        client.listen(resources=uris) as second,
        client.listen(tools=True, resources=uris),
    ):
        with pytest.raises(ErrorResponse, match="Too many subscriptions"):
            client.listen(resources=uris).__enter__()
        second.close()
        assert alive(client)
        until(lambda: entered(client))


def test_a_listener_on_http_that_does_not_read_holds_up_nobody() -> None:
    server = shop()
    with server.serve_http(keep_alive=0.2) as service:
        wire = raw.Wire(address_of(service.url), buffer=4096)
        wire.send(modern.post(modern.listening(resourceSubscriptions=URIS)))
        assert wire.head()[0] == 200
        with Client(service.url, timeout=HELD_UP) as client, client.listen(resources=["r://0/"]) as events:
            assert announce(server, URIS) < HELD_UP
            assert events.get(HELD_UP).params["uri"] == URIS[0]
            assert client.call_tool("hello")["content"] == [text("hello")]
        before = time.monotonic()
        service.close()
        assert time.monotonic() - before < HELD_UP
        wire.close()


IS_OVER = """
import threading
from mcp_ref.connection import connection
from mcp_ref.pages.basic import subscriptions as page
over, opened, ended = threading.Event(), page.Subscriptions.open, connection.Connection.close
page.Subscriptions.open = lambda *given: over.wait(5) and opened(*given)
connection.Connection.close = lambda *given: (over.set(), ended(*given))[1]
"""
"""A request to listen finds its worker only once the server has ended all that it knew of."""


@pytest.mark.parametrize("before", ["", IS_OVER])
def test_a_client_that_closes_its_end_and_reads_on_gets_the_results_of_its_subscriptions(before: str) -> None:
    code = f"{before}\nfrom mcp_ref import Server\nServer('s', declare=['tools']).run()"
    params = {"notifications": {"toolsListChanged": True}, "_meta": envelope()}
    asked = [{"jsonrpc": "2.0", "id": each, "method": subscriptions.LISTEN, "params": params} for each in (7, "x")]
    done = subprocess.run(
        [sys.executable, "-c", code], input="".join(json.dumps(each) + "\n" for each in asked), text=True,
        capture_output=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["id"] for each in said if "result" in each} == {7, "x"}
    assert [each["method"] for each in said if "method" in each].count("notifications/cancelled") == 2
