"""The adapter between `http.server` and an endpoint: sockets, threads, limits, and the bytes of a reply.

Spec:      basic/transports#security-warning; RFC 9110 and 9112 for what is HTTP and not MCP
Upholds:   spec_notes/basic/transports.md, the rows on binding to this machine
Not here:  what is answered (endpoint.py)

    thread            blocks on                          ended by
    mcp-http-accept   the listening socket               a wake pipe
    mcp-http-n        its socket, or a user's handler    the shutdown of its socket
"""

from __future__ import annotations

import http.server
import logging
import select
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self

from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.http_server import (
    Endpoint,
    HttpRefusal,
    HttpReply,
    HttpRequest,
    body_length,
    read_head,
    write_head,
)
from mcp_ref.machinery.pipes import Wake

log = logging.getLogger(__name__)

LINGER = 2.0
"""Seconds for which a refused client may go on to send before it is cut off."""

HANG_UP = getattr(select, "POLLRDHUP", 0)
"""The client has ended its sending, where the system tells that also while something it sent waits to be read."""

PAUSE = 100
"""Milliseconds without accepting, after the system had no descriptor or no thread for one more."""


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    """What one client can take.

    Attributes:
        body: bytes that a request's body may have; 413 beyond.
        read: seconds in which a request must have arrived whole, and an idle connection may wait for the next one.
        write: seconds in which a client must take a piece of what is sent to it, or its connection is given up.
        connections: how many at once; one more is answered with 503. `connections_per_client`: 429.
    """

    body: int = 64 * 1024 * 1024
    read: float = 60
    write: float = 30
    connections: int = 2_000
    connections_per_client: int = 1_000


class HttpServer:
    """Serves endpoints at paths; `close()` ends it.

    Args:
        endpoints: by path, such as {"/mcp": endpoint}; any other path is 404.
        host, port: where to listen; port 0 takes a free one. Anything but this machine is warned about.

    Attributes:
        address: (host, port) in fact.

    Raises: OSError where it cannot listen there.
    Threads: `close` by any thread, any number of times.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        host: str = "127.0.0.1",
        port: int = 0,
        limits: HttpLimits | None = None,
    ) -> None:
        self.endpoints, self.limits = dict(endpoints), limits or HttpLimits()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=512)
        self.address: tuple[str, int] = self._listening.getsockname()[:2]
        if not _is_loopback(self.address[0]):
            # SHOULD: bind to this machine only (basic/transports#security-warning)
            log.warning("listening on %s: everybody who can reach this machine can reach the server", self.address[0])
        self._listening.setblocking(False)
        self._wake = Wake()
        self._wake.open()
        self._lock = threading.Lock()  # guards the two fields below
        self._connections: set[_Connection] = set()
        self._count = 0
        self._accepting = threading.Thread(target=self._accept, name="mcp-http-accept", daemon=True)
        # Daemon: close() joins it; a program that forgets close() must still be able to end.
        self._accepting.start()

    def _accept(self) -> None:
        """Take connections until the wake pipe is readable; what is polled here is closed here."""
        waking, both = select.poll(), select.poll()
        waking.register(self._wake.fd, select.POLLIN)
        both.register(self._wake.fd, select.POLLIN)
        both.register(self._listening, select.POLLIN)
        woken = False
        while not woken:
            ready = both.poll(1000 if self._connections else None)
            woken = any(fd == self._wake.fd for fd, _ in ready)
            self._drop_slow()
            if ready and not woken and not self._take():
                woken = bool(waking.poll(PAUSE))
        self._listening.close()
        self._wake.close()

    def _take(self) -> bool:
        """Take a connection and start its thread; False where the system has no room for one more."""
        try:
            connection, address = self._listening.accept()
        except (BlockingIOError, ConnectionError) as problem:
            log.debug("a client has hung up already: %s", problem)
            return True
        except OSError as problem:
            log.warning("could not accept a connection: %s", problem)
            return False
        client = str(address[0])
        with self._lock:
            status = self._full_locked(client)
            if status is None:
                self._count += 1
                started = _Connection(self, connection, client, self._count)
                self._connections.add(started)
        if status is None:
            return self._start(started)
        _turn_away(connection, status)
        return True

    def _start(self, connection: _Connection) -> bool:
        try:
            connection.start()
        except RuntimeError as problem:
            log.warning("could not start a thread: %s", problem)
            self.forget(connection)
            _turn_away(connection.socket, HTTPStatus.SERVICE_UNAVAILABLE)
            return False
        return True

    def _full_locked(self, client: str) -> HTTPStatus | None:
        if len(self._connections) >= self.limits.connections:
            return HTTPStatus.SERVICE_UNAVAILABLE
        if sum(each.client == client for each in self._connections) >= self.limits.connections_per_client:
            return HTTPStatus.TOO_MANY_REQUESTS
        return None

    def _drop_slow(self) -> None:
        """Shut down those whose request does not get finished: a time-out of the socket is per read, not in all."""
        now = time.monotonic()
        with self._lock:
            slow = [each for each in self._connections if each.reading_since < now - self.limits.read]
        for connection in slow:
            connection.shut_down()

    def forget(self, connection: _Connection) -> None:
        """Called by a connection that has ended."""
        with self._lock:
            self._connections.discard(connection)

    def close(self, timeout: float = 5) -> list[str]:
        """Stop listening and end every connection; returns the threads that did not end in time. Idempotent.

        Why each thread ends: the accepting one finds the wake pipe readable; that of a connection has its socket shut
        down under it, and whoever writes to it gets an OSError. One that runs a user's handler ends after it, and is
        left behind as a daemon when the time has passed: close the endpoint first, which cancels handlers.
        """
        deadline = Deadline(timeout)
        self._wake.set()
        # Bounded: it waits for nothing but the pipe.
        self._accepting.join(max(1.0, deadline.left() or 0.0))
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.shut_down()
        others = [each for each in connections if each is not threading.current_thread()]
        for connection in others:
            connection.join(deadline.left())
        stuck = [connection.name for connection in others if connection.is_alive()]
        for name in stuck:
            log.warning("left behind at close: %s still runs a handler", name)
        return stuck


class _Connection(threading.Thread):
    """One accepted socket, and the thread that reads its requests and runs their handlers."""

    def __init__(self, server: HttpServer, connection: socket.socket, client: str, number: int) -> None:
        # Daemon: a user's handler cannot be stopped, and must not keep the process alive.
        super().__init__(name=f"mcp-http-{number}", daemon=True)
        self.server, self.socket, self.client = server, connection, client
        self.reading_since = time.monotonic()

    def run(self) -> None:
        try:
            _Handler(self.socket, (self.client, 0), self)  # type: ignore[arg-type]
        except OSError as problem:
            log.debug("a connection ended: %s", problem)
        finally:
            self.socket.close()
            # Last: the server's close() waits for those that it remembers.
            self.server.forget(self)

    def shut_down(self) -> None:
        """Wake whoever reads or writes; only the connection's own thread closes the socket."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It ended by itself.

    def gone(self) -> bool:
        """Whether the client has hung up. (A client that has only ended its sending looks the same.)"""
        poll = select.poll()
        try:
            poll.register(self.socket, select.POLLIN | HANG_UP)
            ready = poll.poll(0)
            if any(event & HANG_UP for _, event in ready):
                return True
            return bool(ready) and self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            return True


class _Handler(http.server.BaseHTTPRequestHandler):
    """Reads requests off one connection and has them answered; `http.server` gives the files and the life cycle."""

    rbufsize = 4096  # A head and a usual body; there is one of these for each open connection.
    wbufsize = 0
    disable_nagle_algorithm = True
    server: _Connection  # type: ignore[assignment]  # what `http.server` calls so is only handed through

    def handle(self) -> None:
        """Answer one request after the other, until one side has had enough."""
        try:
            self.close_connection = False
            while not self.close_connection and (request := self._next()) is not None:
                endpoint = self.server.server.endpoints.get(request.path, _nothing_here)
                with _Reply(self) as reply:
                    endpoint(request, reply)
        except OSError as problem:
            # An idle connection that times out is no error, and half a request ends with its connection.
            log.debug("a connection ended: %s", problem)

    def _next(self) -> HttpRequest | None:
        """The next request, whole; None where there will be none."""
        owner, limits = self.server, self.server.server.limits
        owner.reading_since = time.monotonic()
        self.connection.settimeout(limits.read)
        try:
            head = read_head(self.rfile.readline)
            length = 0 if head is None else body_length(head.headers, limits.body)
        except HttpRefusal as refusal:
            self._refuse(refusal)
            return None
        if head is None:
            return None
        if head.asks and length:
            self.put(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self.rfile.read(length) if length else b""
        if len(body) < length:
            return None
        owner.reading_since = float("inf")
        self.connection.settimeout(limits.write)
        self.command, self.chunks, self.close_connection = head.method, head.chunks, not head.keep
        path, _, query = head.target.partition("?")
        return HttpRequest(head.method, path, head.headers, body, owner.gone, owner.client, query, head.repeated)

    def _refuse(self, refusal: HttpRefusal) -> None:
        """Refuse what cannot be read on, and end the connection: what follows on it is no request any more."""
        self.command, self.chunks, self.close_connection = "", False, True
        self.connection.settimeout(min(LINGER, self.server.server.limits.read))
        _Reply(self).send(refusal.status, refusal.headers)
        # Closed with bytes unread, the connection would be reset, and the client might never see the answer.
        self.connection.shutdown(socket.SHUT_WR)
        for _ in range(16):
            if not self.connection.recv(65536):
                return

    def put(self, data: bytes) -> None:
        """Write all of it. Each piece that the client takes gives it the time to read anew. Raises OSError."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self.connection.send(rest) :]
        except OSError:
            # Part of something was sent: nothing that followed could be understood.
            self.close_connection = True
            self.server.shut_down()
            raise


def _nothing_here(request: HttpRequest, reply: HttpReply) -> None:
    """The endpoint of every path that has none."""
    reply.send(404, {})


class _Reply:
    """An `HttpReply` on one connection; whatever becomes of the endpoint, it is whole in the end, or cut off."""

    def __init__(self, handler: _Handler) -> None:
        self._handler = handler
        self._begun = self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> bool:
        if isinstance(problem, OSError) or not isinstance(problem, Exception | None):
            return False
        if problem is not None:
            log.error("the endpoint failed", exc_info=problem)
        if not self._begun:
            self._handler.close_connection = True
            self.send(500, {})
        elif not self._ended:
            # Nobody shall take half an answer for a whole.
            self.abort()
        return True

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        head = self._head(status, {**headers, "Content-Length": str(len(body))})
        self._begun = self._ended = True
        self._handler.put(head if self._handler.command == "HEAD" else head + body)

    def open(self, headers: Mapping[str, str]) -> None:
        if self._handler.chunks:
            headers = {**headers, "Transfer-Encoding": "chunked"}
        else:
            self._handler.close_connection = True
        head = self._head(200, headers)
        self._begun = True
        self._handler.put(head)

    def _head(self, status: int, headers: Mapping[str, str]) -> bytes:
        if self._handler.close_connection:
            headers = {**headers, "Connection": "close"}
        elif not self._handler.chunks:
            headers = {**headers, "Connection": "keep-alive"}
        return write_head(status, headers)

    def write(self, data: bytes) -> None:
        self._handler.put(b"%x\r\n%b\r\n" % (len(data), data) if self._handler.chunks else data)

    def end(self, patience: float | None = None) -> None:
        self._ended = True
        try:
            if self._handler.chunks:
                if patience is not None:
                    self._handler.connection.settimeout(patience)
                self._handler.put(b"0\r\n\r\n")
        except OSError as problem:
            log.debug("a stream's connection is gone: %s", problem)

    def hang_up(self) -> None:
        self.end()
        self.abort()

    def abort(self) -> None:
        self._handler.close_connection = True
        self._handler.server.shut_down()


def _turn_away(connection: socket.socket, status: HTTPStatus) -> None:
    """Answer a connection that is one too many, without reading from it and without waiting for it."""
    with connection:
        try:
            connection.setblocking(False)
            connection.send(write_head(status, {"Retry-After": "10", "Content-Length": "0", "Connection": "close"}))
        except OSError as problem:
            log.debug("could not turn a connection away: %s", problem)


def _is_loopback(host: str) -> bool:
    return host == "::1" or host.startswith("127.")
