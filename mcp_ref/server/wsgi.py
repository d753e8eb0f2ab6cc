"""A server as a WSGI application (PEP 3333): under waitress or gunicorn, or mounted in another application.

Spec:      basic/transports#streamable-http; 2026-07-28/basic/transports/streamable-http
Upholds:   spec_notes/scaling.md
Not here:  the endpoints (streamable_http/server)
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_ref.kit.http import http_exchange
from mcp_ref.kit.http.chunked import check_coding, read_chunked
from mcp_ref.kit.http.http_exchange import Endpoint, HttpLimits, HttpRefusal, HttpRequest
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.server.http import Endpoints, HttpOptions, begin_service, service_ended

if TYPE_CHECKING:
    from mcp_ref.server.server import Server


log = logging.getLogger(__name__)


Environ = dict[str, Any]
StartResponse = Callable[..., Callable[[bytes], object]]


class WsgiFront:
    """A WSGI application that serves endpoints at paths.

    Args:
        endpoints: by path. A path counts from where the application is mounted, or from the root: mounted at "/mcp", it
            serves what is at "/mcp" there.
        limits: `max_message`, and `write` where the server shows its socket. The others are the server's to set: as
            many bodies as it has threads may be in memory at once.

    Threads: any number may call it at once.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], limits: HttpLimits) -> None:
        self._endpoints, self._limits = endpoints, limits

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request. Raises OSError, so that the server cuts off an answer that was not completed."""
        # 1. What is asked for, and where. What came twice was joined with a comma by the server.
        below = environ.get("PATH_INFO", "")
        paths = (below or "/", environ.get("SCRIPT_NAME", "") + below)
        path = next((each for each in paths if each in self._endpoints), paths[1])
        headers = {key[5:].replace("_", "-").lower(): environ[key] for key in environ if key.startswith("HTTP_")}
        headers["content-type"] = environ.get("CONTENT_TYPE", "")
        reply = _WsgiReply(environ, start_response, self._limits.write)
        client, query = environ.get("REMOTE_ADDR", ""), environ.get("QUERY_STRING", "")
        read = partial(_read_body, environ, self._limits.max_message)
        request = HttpRequest(environ["REQUEST_METHOD"], path, headers, read, reply.gone, client, query)
        # 2. The answer.
        try:
            (self._endpoints.get(path) or partial(http_exchange.nothing_here, self._endpoints))(request, reply)
        except HttpRefusal as refusal:
            if not reply.begun:
                reply.send(refusal.status, refusal.headers)
        except OSError as problem:
            log.debug("the client of a request is gone: %s", problem)
        except Exception:
            log.exception("the endpoint failed")
        if not reply.begun:
            reply.send(500, {})
        elif not reply.ended and not reply.gone():
            # Nobody shall take half an answer for a whole one.
            raise BrokenPipeError(errno.EPIPE, "the answer was not completed")
        return reply.body


def _read_body(environ: Environ, most: int) -> bytes:
    """See `HttpRequest.body`."""
    stream, said = environ["wsgi.input"], environ.get("CONTENT_LENGTH") or None
    try:
        if "HTTP_TRANSFER_ENCODING" in environ and not environ.get("wsgi.input_terminated"):
            # Not every server reads the chunks.
            check_coding(environ["HTTP_TRANSFER_ENCODING"], said)
            return read_chunked(stream, most)
        if said:
            if (size := int(said)) < 0:
                raise ValueError("negative")
        else:
            # Where the server reads the chunks, it knows where they end.
            size = most + 1 if environ.get("wsgi.input_terminated") else 0
        if size > most and said:
            raise HttpRefusal(413, "Content too large")
        body: bytes = stream.read(size) if size > 0 else b""
    except (OSError, HttpRefusal):
        raise
    except Exception as problem:
        # Each server has exceptions of its own for a length, or chunks, that are wrong.
        raise HttpRefusal(400, "The body is malformed") from problem
    if len(body) > most:
        raise HttpRefusal(413, "Content too large")
    if said and len(body) < size:
        raise ConnectionError("the client has hung up in mid-body")
    return body


class _WsgiReply:
    """An `HttpReply` under a WSGI server; see there for the methods.

    Attributes:
        body: what the application returns.
        begun, ended: how far the answer is.
    """

    def __init__(self, environ: Environ, start_response: StartResponse, timeout: float) -> None:
        self._environ, self._start, self._timeout = environ, start_response, timeout
        self.body: list[bytes] = []
        self.begun = self.ended = self._lost = False
        self._write: Callable[[bytes], object] = lambda data: None
        shown = environ.get("gunicorn.socket") or environ.get("werkzeug.socket")
        # In HTTP/2 a connection carries others' requests too, and is not ours to close.
        self._socket: socket.socket | None = shown if environ.get("SERVER_PROTOCOL", "").startswith("HTTP/1") else None

    def gone(self) -> bool:
        """Return whether the client has hung up, as far as the server tells."""
        told = self._environ.get("waitress.client_disconnected", lambda: False)
        return self._lost or told() or (self._socket is not None and http_exchange.has_hung_up(self._socket))

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self._begin(status, {**headers, "Content-Length": str(len(body))})
        self.body = [] if self._environ["REQUEST_METHOD"] == "HEAD" else [body]
        self.ended = True

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        # The connection is the server's: its application must not name it (PEP 3333).
        fields = [(name, value) for name, value in headers.items() if name != "Connection"]
        for name, value in fields:
            http_exchange.check_field(name, value)
        self._write = self._start(f"{status} {HTTPStatus(status).phrase}", fields)
        self.begun = True

    def open(self, headers: Mapping[str, str], status: int = 200) -> None:
        self._begin(status, headers)
        if self._socket is not None:
            # A client that does not read holds a thread no longer than this. Servers set it again for each request.
            self._socket.settimeout(self._timeout)
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
        try:
            if self._socket is not None and self._environ["SERVER_PROTOCOL"] == "HTTP/1.1":
                # Both servers that show their socket answer in chunks; this is the last, which they send only later.
                self._socket.sendall(b"0\r\n\r\n")
        except OSError as problem:
            log.debug("a stream's connection is gone: %s", problem)
        self.abort()

    def abort(self) -> None:
        self._lost = True
        try:
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It ended by itself.


class WsgiApplication:
    """The application that `Server.wsgi` returns; a WSGI server calls it once for each request.

    Attributes:
        protection: what guards it, or None.

    Threads: any.
    """

    def __init__(self, server: Server, options: HttpOptions) -> None:
        self._server = server
        self._endpoints = endpoints = Endpoints(server, "localhost", options)
        self.protection = endpoints.protection
        if self.protection is not None:
            if self.protection.resource is None:
                raise ValueError("a WSGI application does not know the URL that clients use: give resource=")
            where = urlsplit(self.protection.resource)
            endpoints.open(f"{where.scheme}://{where.netloc}")
        self._front = WsgiFront(endpoints.routes, endpoints.limits)
        self._starting = threading.Lock()  # guards _process
        self._process: int | None = None  # in which it serves
        self._closed = False

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request, in the thread that calls. Blocks: as long as the handler, or the stream, lasts."""
        if self._process != os.getpid():
            self._serve(environ)
        return self._front(environ, start_response)

    def _serve(self, environ: Environ) -> None:
        """Begin to serve, in this process, unless another thread has."""
        with self._starting:
            if self._process != os.getpid():
                begin_service(self._server, lambda: self)
                self._server.one_of_many = bool(environ.get("wsgi.multiprocess"))
                if self._server.one_of_many and self._endpoints.has_sessions:
                    log.warning("several processes serve, and a session lives in one: give sessions=False, or pin them")
                self._process = os.getpid()
                atexit.register(self.close, 1.0)

    def close(self, timeout: float = 5) -> list[str]:
        """End every session, stream and subscription of this process. The threads are the WSGI server's: none is left.

        Idempotent; any thread. It is called when the process ends, if not before.
        """
        with self._starting:
            if self._process != os.getpid() or self._closed:
                return []
            self._closed = True
        atexit.unregister(self.close)
        deadline = Deadline(timeout)
        self._endpoints.close(deadline.left() or 0.0)
        service_ended(self._server, self, deadline.left() or 0.0)
        return []
