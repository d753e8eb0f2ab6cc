"""Endpoints as a WSGI application: what servers pass on, each in its way, and what goes back."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock
from wsgiref.validate import validator

import pytest

from mcp_ref.kit.http.http_exchange import Endpoint, HttpLimits, HttpRefusal, HttpReply, HttpRequest
from mcp_ref.server.wsgi import WsgiFront


class Ends(Exception):
    """The error of a server of its own kind for chunks that are wrong, or a client that is gone."""


class Asked:
    """A request through a WSGI application: what the server got."""

    def __init__(
        self,
        endpoint: Endpoint,
        limits: HttpLimits | None = None,
        checked: bool = False,
        body: Any = b"",
        **environ: Any,
    ) -> None:
        application: Any = WsgiFront({"/mcp": endpoint}, limits or HttpLimits())
        stream = io.BytesIO(body) if isinstance(body, bytes) else body
        environ = {
            "REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": "/mcp", "SERVER_PROTOCOL": "HTTP/1.1",
            "SERVER_NAME": "localhost", "SERVER_PORT": "80", "QUERY_STRING": "",
            "wsgi.version": (1, 0), "wsgi.url_scheme": "http",
            "wsgi.errors": io.StringIO(), "wsgi.input": stream, "wsgi.multithread": True, "wsgi.multiprocess": False,
            "wsgi.run_once": False, "REMOTE_ADDR": "127.0.0.1", **environ,
        }  # fmt: skip
        self.status, self.headers, self.written = "", dict[str, str](), list[bytes]()

        def start(status: str, headers: list[tuple[str, str]], problem: Any = None) -> Callable[[bytes], object]:
            assert not self.status
            self.status, self.headers = status, dict(headers)
            return self.written.append

        self.environ = environ
        returned = (validator(application) if checked else application)(environ, start)
        try:
            self.body = b"".join(returned)
        finally:
            if hasattr(returned, "close"):
                returned.close()


def echo(request: HttpRequest, reply: HttpReply) -> None:
    """Say the body, and what was asked for."""
    reply.send(200, {"Content-Type": "text/plain", "Path": request.path}, request.body)


def stream(request: HttpRequest, reply: HttpReply) -> None:
    reply.open({"Content-Type": "text/event-stream", "Connection": "close"})
    reply.write(b"one")
    reply.write(b"two")
    reply.end()


def half(request: HttpRequest, reply: HttpReply) -> None:
    reply.open({"Content-Type": "text/event-stream"})
    reply.write(b"one")


def fails(request: HttpRequest, reply: HttpReply) -> None:
    raise RuntimeError("no")


def refuses(request: HttpRequest, reply: HttpReply) -> None:
    raise HttpRefusal(403, "no", headers={"Allow": "POST"})


# -- what goes back -----------------------------------------------------------------------------------------------


def test_is_an_application_as_pep_3333_has_it() -> None:
    asked = Asked(echo, checked=True, body=b"hello", CONTENT_LENGTH="5", CONTENT_TYPE="text/plain")
    assert (asked.status, asked.body, asked.headers["Content-Length"]) == ("200 OK", b"hello", "5")
    asked = Asked(stream, checked=True)
    assert (asked.status, asked.body) == ("200 OK", b"")
    # The head at once, then each piece; no header of the connection, which is the server's.
    assert asked.written == [b"", b"one", b"two"]
    assert asked.headers == {"Content-Type": "text/event-stream"}


def test_cuts_off_an_answer_that_was_not_completed_unless_nobody_is_there() -> None:
    with pytest.raises(BrokenPipeError):
        Asked(half)
    assert Asked(half, **{"waitress.client_disconnected": lambda: True}).body == b""


@pytest.mark.parametrize(("endpoint", "status"), [(fails, "500 Internal Server Error"), (refuses, "403 Forbidden")])
def test_answers_for_an_endpoint_that_does_not(endpoint: Endpoint, status: str) -> None:
    assert Asked(endpoint).status == status


def test_takes_what_a_server_raises_in_a_write_for_a_client_that_is_gone() -> None:
    def endpoint(request: HttpRequest, reply: HttpReply) -> None:
        with pytest.raises(OSError, match="Ends"):
            reply.open({})
        assert request.gone()
        with pytest.raises(OSError, match="given up"):
            reply.write(b"more")
        seen.append(True)

    seen: list[bool] = []
    front = WsgiFront({"/mcp": endpoint}, HttpLimits())
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/mcp", "SERVER_PROTOCOL": "HTTP/1.1"}
    assert list(front(environ, lambda *_: Mock(side_effect=Ends("its own")))) == []
    assert seen


# -- what comes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mounted_at", "below", "found"),
    [("", "/mcp", True), ("/api", "/mcp", True), ("/mcp", "", True), ("", "/", False), ("/api", "/", False),
     ("/mcp", "/other", False)],
)  # fmt: skip
def test_a_path_counts_from_the_mount_or_from_the_root(mounted_at: str, below: str, found: bool) -> None:
    asked = Asked(echo, SCRIPT_NAME=mounted_at, PATH_INFO=below)
    assert asked.status == ("200 OK" if found else "404 Not Found")
    assert found or b"the server is at /mcp" in asked.body


@pytest.mark.parametrize(
    ("environ", "status", "body"),
    [
        # gunicorn: the server reads the chunks
        ({"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}, 200, b"x" * 99),
        # waitress: and says how many bytes they were
        ({"CONTENT_LENGTH": "99", "wsgi.input_terminated": True}, 200, b"x" * 99),
        *(({"CONTENT_LENGTH": length}, 200, b"x" * int(length or 0)) for length in ("", "5")),
        *(({"CONTENT_LENGTH": length}, status, b"") for length, status in (("-5", 400), ("5,5", 400), ("101", 413))),
    ],
)
def test_a_body_comes_as_each_server_passes_it(environ: dict[str, Any], status: int, body: bytes) -> None:
    asked = Asked(echo, HttpLimits(max_message=100), body=b"x" * 99, **environ)
    assert (int(asked.status[:3]), asked.body) == (status, body)


def test_chunks_are_read_where_the_server_leaves_them() -> None:
    chunks = b"3\r\nabc\r\n2;x\r\nde\r\n0\r\nA: b\r\n\r\n"
    asked = Asked(echo, checked=True, body=chunks, HTTP_TRANSFER_ENCODING="chunked")
    assert (asked.status, asked.body) == ("200 OK", b"abcde")


def test_a_body_in_chunks_is_read_to_its_limit_and_no_further() -> None:
    stream = io.BytesIO(b"x" * 1_000)
    asked = Asked(echo, HttpLimits(max_message=100), body=stream, **{"wsgi.input_terminated": True})
    assert (asked.status[:3], stream.tell()) == ("413", 101)


def test_a_body_that_breaks_off_is_a_client_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_ref")
    Asked(echo, body=b"half", CONTENT_LENGTH="8")
    assert "the client of a request is gone: the client has hung up in mid-body" in caplog.text


def test_chunks_that_are_wrong_are_answered_400_whatever_the_server_raises() -> None:
    broken = Mock(read=Mock(side_effect=Ends("a chunk without a length")))
    assert Asked(echo, body=broken, **{"wsgi.input_terminated": True}).status == "400 Bad Request"


def test_headers_have_the_names_of_http_again() -> None:
    seen: dict[str, str] = {}

    def endpoint(request: HttpRequest, reply: HttpReply) -> None:
        seen.update(request.headers)
        assert request.query == "a=b"
        reply.send(202, {})

    Asked(endpoint, HTTP_MCP_SESSION_ID="a,b", HTTP_HOST="x", CONTENT_TYPE="application/json", QUERY_STRING="a=b")
    assert seen == {"mcp-session-id": "a,b", "host": "x", "content-type": "application/json"}
