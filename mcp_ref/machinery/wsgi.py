"""WSGI (PEP 3333): endpoints under a server that somebody else wrote. Nothing of MCP.

    application = WsgiFront({"/mcp": endpoint}, HttpLimits())       what a WSGI server calls, in a thread of its own

The endpoints are those of machinery/http_server. A request is answered in the thread that brings it: at once by the
body that is returned, piece by piece by `write()`, which servers pass on at once. An iterator would hand over to
another thread for each piece. What WSGI does not say, some servers do, and it is used where it is there:

                    the client is gone                  a connection is closed in mid-answer, or held up no longer
    gunicorn        its socket (`gunicorn.socket`)      its socket
    Werkzeug        its socket (`werkzeug.socket`)      its socket
    waitress        `waitress.client_disconnected`      when the endpoint returns
    any other       when a write fails                  when the endpoint returns
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from mcp_ref.machinery.http_exchange import (
    SMALL_BODY,
    Endpoint,
    HttpLimits,
    HttpRefusal,
    HttpRequest,
    Places,
    check_field,
    has_hung_up,
    nothing_here,
)

log = logging.getLogger(__name__)

Environ = dict[str, Any]
StartResponse = Callable[..., Callable[[bytes], object]]


class WsgiFront:
    """A WSGI application that serves endpoints at paths.

    Args:
        endpoints: by path. A path counts from where the application is mounted, or from the root: mounted at "/mcp", it
            serves what is at "/mcp" there.
        limits: those on bodies, and `write` where the server shows its socket. The others are the server's to set.

    Threads: any number may call it at once.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], limits: HttpLimits) -> None:
        self._endpoints, self.limits = endpoints, limits
        self.room = Places("bytes of requests", limits.bodies, limits.bodies_per_client)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request. Raises OSError, so that the server cuts off an answer that was not completed."""
        # 1. What is asked for, and where. What came twice was joined with a comma by the server.
        below = environ.get("PATH_INFO", "")
        paths = (below or "/", environ.get("SCRIPT_NAME", "") + below)
        path = next((each for each in paths if each in self._endpoints), paths[1])
        headers = {key[5:].replace("_", "-").lower(): environ[key] for key in environ if key.startswith("HTTP_")}
        for key, name in (("CONTENT_TYPE", "content-type"), ("CONTENT_LENGTH", "content-length")):
            if environ.get(key):
                headers[name] = environ[key]
        exchange = _Exchange(self, environ, start_response, headers)
        request = HttpRequest(
            environ["REQUEST_METHOD"], path, headers, exchange.read_body, exchange.gone, exchange.client,
            environ.get("QUERY_STRING", ""),
        )  # fmt: skip
        # 2. The answer.
        try:
            (self._endpoints.get(path) or partial(nothing_here, self._endpoints))(request, exchange)
        except HttpRefusal as refusal:
            if not exchange.begun:
                exchange.send(refusal.status, refusal.headers)
        except OSError as problem:
            log.debug("the client of a request is gone: %s", problem)
        except Exception:
            log.exception("the endpoint failed")
        finally:
            if exchange.taken:
                self.room.give_back(exchange.client, exchange.taken)
        if not exchange.begun:
            exchange.send(500, {})
        elif not exchange.ended and not exchange.gone():
            # Nobody shall take half an answer for a whole one.
            raise BrokenPipeError(errno.EPIPE, "the answer was not completed")
        return exchange.body


class _Exchange:
    """One request under a WSGI server, and the `HttpReply` to it; see there for the methods.

    Attributes:
        client: who is at the other end, as the server says: behind a proxy that may be the proxy.
        taken: bytes of the room for bodies.
        body: what the application returns.
        begun, ended: how far the answer is.
    """

    def __init__(
        self, front: WsgiFront, environ: Environ, start_response: StartResponse, headers: Mapping[str, str]
    ) -> None:
        self._front, self._environ, self._headers, self._start = front, environ, headers, start_response
        self.client, self.taken = environ.get("REMOTE_ADDR", ""), 0
        self.body: list[bytes] = []
        self.begun = self.ended = self._lost = False
        self._write: Callable[[bytes], object] = lambda data: None
        # In HTTP/2 a connection carries others' requests too, and is not ours to close.
        shared = not environ.get("SERVER_PROTOCOL", "").startswith("HTTP/1")
        shown = environ.get("gunicorn.socket") or environ.get("werkzeug.socket")
        self._socket: socket.socket | None = None if shared else shown

    def read_body(self) -> bytes:
        """See `HttpRequest.body`."""
        limits, length = self._front.limits, self._headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 18:
            raise HttpRefusal(400, "Content-Length must be one number")
        size, whole = int(length), "content-length" in self._headers
        if not whole and self._environ.get("wsgi.input_terminated"):
            # The server reads the chunks, and knows where they end.
            size = limits.max_message + 1
        elif not whole and "transfer-encoding" in self._headers:
            raise HttpRefusal(411, "Length required")
        elif size > limits.max_message:
            raise HttpRefusal(413, "Content too large")
        if whole and size > SMALL_BODY:
            self._front.room.take(self.client, size)
            self.taken = size
        try:
            body: bytes = self._environ["wsgi.input"].read(size) if size else b""
        except OSError:
            raise
        except Exception as problem:
            # Each server has exceptions of its own for chunks that are wrong.
            raise HttpRefusal(400, "The body is malformed") from problem
        if len(body) > limits.max_message:
            raise HttpRefusal(413, "Content too large")
        if whole and len(body) < size:
            raise ConnectionError("the client has hung up in mid-body")
        return body

    def gone(self) -> bool:
        """Whether the client has hung up, as far as the server tells."""
        told = self._environ.get("waitress.client_disconnected")
        return self._lost or (self._socket is not None and has_hung_up(self._socket)) or bool(told and told())

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self._begin(status, {**headers, "Content-Length": str(len(body))})
        self.body = [] if self._environ["REQUEST_METHOD"] == "HEAD" else [body]
        self.ended = True

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        # The connection is the server's: its application must not name it (PEP 3333).
        fields = [(name, value) for name, value in headers.items() if name != "Connection"]
        for name, value in fields:
            check_field(name, value)
        self._write = self._start(f"{status} {HTTPStatus(status).phrase}", fields)
        self.begun = True

    def open(self, headers: Mapping[str, str]) -> None:
        self._begin(200, headers)
        if self._socket is not None:
            # A client that does not read holds a thread no longer than this. Servers set it again for each request.
            self._socket.settimeout(self._front.limits.write)
        # The head goes out now, and not with the first event: the client waits for it.
        self.write(b"")

    def write(self, data: bytes) -> None:
        if self._lost or self.ended:
            raise BrokenPipeError(errno.EPIPE, "the connection was given up")
        try:
            self._write(data)
        except Exception as problem:
            # Part of something was sent: nothing that followed could be understood. What is raised is the server's own.
            self._lost = True
            raise ConnectionError(f"the client is gone: {problem!r}") from problem

    def end(self, patience: float | None = None) -> None:
        # The server ends it when the application returns, which whoever holds the stream does now.
        self.ended = True

    def hang_up(self) -> None:
        self.end()
        if self._socket is not None and self._environ["SERVER_PROTOCOL"] == "HTTP/1.1":
            # Both servers that show their socket answer in chunks; this is the last, which they send only later.
            try:
                self._socket.sendall(b"0\r\n\r\n")
            except OSError as problem:
                log.debug("a stream's connection is gone: %s", problem)
        self.abort()

    def abort(self) -> None:
        self._lost = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # It ended by itself.
