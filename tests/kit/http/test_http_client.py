"""The HTTP client: what is in the query of a URL is told to the server alone; a call that was cut reads no further."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from typing import Any

import pytest
import requests

from mcp_ref.errors import RequestTimeout, TransportClosed
from mcp_ref.kit.http.http_call import HttpCall
from mcp_ref.kit.http.http_client import HttpClient, HttpResponse
from mcp_ref.kit.threads.deadline import Deadline, Interrupted
from tests.pages.basic.transports.collector import WAIT, no_descriptor_leaks
from tests.pages.basic.transports.streamable_http.scripted import Asked, ScriptedServer, Wire, head, status

SECRET = "hunter" + "2"


def asked(url: str, session: bool) -> bytes:
    """Return what is answered to a GET, by a session of the user's or not."""
    return ask(HttpClient(url, {"session": requests.Session() if session else None}))


def ask(http: HttpClient) -> bytes:
    call = HttpCall(Deadline(5))
    try:
        http.begin(call)
        return http.open(call, "GET", {}).body(1000)
    finally:
        http.end(call)
        http.close(Deadline(5))


with_and_without_a_session = pytest.mark.parametrize("session", [False, True])


@with_and_without_a_session
@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.example"])
def test_a_name_that_cannot_be_is_a_host_that_cannot_be_reached(host: str, session: bool) -> None:
    with pytest.raises(TransportClosed, match="label"):
        asked(f"http://{host}/mcp", session)


@with_and_without_a_session
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/mcp", "http://nowhere.invalid/mcp", "http://.invalid/mcp", "broken"]
)
def test_a_traceback_does_not_quote_the_query(url: str, session: bool) -> None:
    with ScriptedServer(GET=lambda wire, asked: None) as broken, pytest.raises(TransportClosed) as caught:
        asked(f"{broken.url if url == 'broken' else url}?token={SECRET}", session)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert url != "broken" or isinstance(caught.value.__cause__, OSError)


def test_a_connection_that_is_given_back_while_its_client_closes_is_closed() -> None:
    class Late(deque[Any]):
        def append(self, conn: Any) -> None:
            http.close(Deadline(5))  # by another thread, just before
            super().append(conn)

    with no_descriptor_leaks(), ScriptedServer(GET=status(200)) as server:
        http = HttpClient(server.url, {})
        http._pool.pool._idle = Late()  # type: ignore[union-attr]
        with pytest.raises(Interrupted):
            ask(http)


@with_and_without_a_session
def test_the_log_of_urllib3_has_no_query_of_ours(session: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(GET=[status(200, body=b"yes")]) as server:
        assert asked(f"{server.url}?token={SECRET}", session) == b"yes"
        assert server.request("GET").path.endswith(SECRET)
    assert '"GET /mcp?... HTTP/1.1" 200' in caplog.text
    assert SECRET not in caplog.text


def test_a_call_that_was_cut_reads_nothing_more_though_there_is_more() -> None:
    class Endless:
        """A response that is unpacked for ever, without a wait that could be cut."""

        status, headers, length_remaining, chunked = 200, dict[str, str](), None, True

        def read1(self, amount: int, decode_content: bool) -> bytes:
            return b" " * 1000

    call = HttpCall(Deadline(None))
    response = HttpResponse(Endless(), call, "POST", True)
    assert response.read()
    call.cut(RequestTimeout("late"))
    with pytest.raises(RequestTimeout):
        response.read()


def test_a_response_whose_end_drips_in_does_not_hold_its_call_up() -> None:
    finished, gone = threading.Event(), threading.Event()

    def drip(wire: Wire, asked: Asked) -> None:
        try:
            wire.send(head(202, "Transfer-Encoding: chunked", length=None))
            for _ in range(500):
                # The length of a chunk, in zeros: as long as it goes on, no wait for the next byte is a long one.
                wire.send(b"0")
                assert not finished.wait(0.01)
            finished.set()
        finally:
            gone.set()

    with ScriptedServer(GET=drip) as server:
        http, call = HttpClient(server.url, {}), HttpCall(Deadline(None))
        try:
            http.begin(call)
            assert http.open(call, "GET", {}).status == 202
        finally:
            http.end(call)
        assert gone.wait(WAIT) and not finished.is_set(), "the client has waited to the end"
        http.close(Deadline(5))
