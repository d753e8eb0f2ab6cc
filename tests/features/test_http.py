"""Tests of what HTTP alone has, from end to end: sessions that are lost, streams that break, many clients, nothing
left.

The stateless era has neither sessions nor streams that are resumed: test_losses.py has what it has instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from mcp_ref import Client, Context, ErrorResponse, Server, TransportClosed, text
from mcp_ref.kit.http.http_exchange import HttpLimits
from mcp_ref.pages.client.sampling import reply
from mcp_ref.revisions import SESSION_REVISIONS
from mcp_ref.server.http import HttpService
from tests.features.conftest import address_of, until
from tests.pages.basic.transports.streamable_http.raw import Wire, opened, request
from tests.support.relay import Relay
from tests.support.wire import PATIENCE, Background

STREAMABLE = [revision.name for revision in SESSION_REVISIONS if revision.http == "streamable"]


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
    address = address_of(service.url)
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


# -- sessions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [STREAMABLE[0], STREAMABLE[-1]])
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


def test_a_session_of_the_users_goes_with_a_url_alone() -> None:
    with requests.Session() as session, pytest.raises(ValueError, match="only be used with a URL"):
        Client(Server("s"), session=session)


@pytest.mark.parametrize("revision", [STREAMABLE[0], STREAMABLE[-1]])
def test_a_client_goes_on_after_its_session_was_lost_and_the_server_restarted(revision: str) -> None:
    server, service = serving()
    reopened, heard = SimpleQueue[Any](), SimpleQueue[Any]()
    server.roots_changed(lambda ctx: heard.put(ctx.roots()))
    options = {"on_reopen": lambda: reopened.put(True), "on_change": lambda method, params: heard.put(method)}
    port = urlsplit(service.url).port or 0
    with connected(service.url, revision, roots=[], **options) as client:
        # A notification finds it lost as well as a call.
        end_session(client)
        client.roots_changed()
        assert heard.get(timeout=PATIENCE) == []
        end_session(client)
        assert hello(client)
        # What the server announces reaches the session that was opened again.
        server.tool("new")(lambda: "new")
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"
        for _ in range(2):
            service.close()
            service = server.serve_http(port=port)
            assert hello(client)
        assert [reopened.get(timeout=PATIENCE) for _ in range(4)] == [True] * 4
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


# -- streams ------------------------------------------------------------------------------------------------------


def test_a_question_is_asked_and_answered_though_the_stream_was_closed() -> None:
    def ask(ctx: Context) -> str:
        ctx.close_stream(retry=1)
        return str(ctx.sample("hello", max_tokens=1)["model"])

    server, service = serving(ask)
    with service, connected(service.url, sample=lambda params: reply("hello", model="m")) as client:
        assert client.call_tool("ask")["content"] == [text("m")]


# -- many ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_an_answer_that_breaks_off_anywhere_is_a_lost_connection(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also within its head, which `http.client` takes for a whole one."""
    server = Server("s")
    server.tool("echo")(lambda text: text)
    with server.serve_http() as http, Relay(http.url) as cut:
        with Client(cut.url, revision=revision, timeout=PATIENCE) as client:
            assert client.call_tool("echo", {"text": "a"})["content"]
            for size in range(0, 250, 3):
                cut.after = size
                with pytest.raises(TransportClosed):
                    client.call_tool("echo", {"text": "a" * 500})
                cut.after = None
            assert client.call_tool("echo", {"text": "a"})["content"]
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
