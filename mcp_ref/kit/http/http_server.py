"""A server of HTTP/1, on `http.server`: heads, connections and their threads. Nothing of MCP.

    server = HttpServer({"/mcp": endpoint}, "127.0.0.1", 8000)      bound to its address
    server.start()                                                  serves until close()

What an endpoint is given, and how it answers, is in `http_exchange`. It answers in the thread of its connection.

Requests are read more strictly than `http.server` reads them, so that nothing is understood in two ways (RFC 9110 and
9112). Every wait has a bound, and no bound is renewed by a client that dribbles.

    thread            blocks on                          ended by
    mcp-http-accept   the listening socket               a wake pipe
    mcp-http-n        its socket, or a user's handler    the shutdown of its socket
"""

from __future__ import annotations

import http.server
import itertools
import logging
import re
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from http.client import responses
from typing import Any, NamedTuple

from mcp_ref.kit.http.chunked import check_coding, read_chunked
from mcp_ref.kit.http.http_exchange import (
    SMALL_BODY,
    TOKEN,
    Endpoint,
    HttpLimits,
    HttpRefusal,
    HttpRequest,
    Quota,
    check_field,
    has_hung_up,
    nothing_here,
)
from mcp_ref.kit.process.pipes import WakePipe
from mcp_ref.kit.threads.deadline import Deadline, has_ended

log = logging.getLogger(__name__)


# -- heads --------------------------------------------------------------------------------------------------------


MAX_HEAD = 64 * 1024
"""Bytes that the head of a request may have."""

_LINE = re.compile(rf"({TOKEN}) ([!-~]+) HTTP/(\d)\.(\d)\r\n")
_ABSOLUTE = re.compile(r"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
_FIELD = re.compile(rf"({TOKEN}):[ \t]*((?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?)[ \t]*\r\n")


class Head(NamedTuple):
    """The head of a request.

    Attributes:
        method: as it came.
        target: path and query.
        headers: names in lower case; what came twice is joined with ", ".
        repeated: the headers that came more than once.
        chunks: whether the client understands an answer in chunks.
        keep: whether another request may follow on the connection.
        length: bytes of body that follow; None: they come in chunks.
        asks: whether the client waits to be asked for the body.
    """

    method: str
    target: str
    headers: dict[str, str]
    repeated: frozenset[str]
    chunks: bool
    keep: bool
    length: int | None
    asks: bool


def read_head(readline: Callable[[int], bytes]) -> Head | None:
    """Read the head of the next request; None if the connection ends before it is whole.

    Args:
        readline: reads a line of at most so many bytes.

    Raises: HttpRefusal: 400, 431 (too long a head), 501 (another coding than chunks), 505 (not HTTP/1). Nothing more
        can be read from the connection then.
    """
    # 1. The lines, up to the empty one.
    lines: list[str] = []
    room = MAX_HEAD
    # SHOULD: ignore an empty line before the request (RFC 9112 2.2)
    while (line := readline(room + 1)) != b"\r\n" or not lines:
        room -= len(line)
        if room < 0:
            raise HttpRefusal(431, "The head is too long")
        if not line.endswith(b"\n"):
            return None
        if line != b"\r\n":
            lines.append(line.decode("latin-1"))
    # 2. The request line.
    matched = _LINE.fullmatch(lines[0])
    if matched is None:
        raise HttpRefusal(400, "The request line is malformed")
    method, target, major, minor = matched.groups()
    if major != "1":
        raise HttpRefusal(505, "This server speaks HTTP/1")
    modern = minor != "0"
    # 3. The fields.
    headers: dict[str, str] = {}
    repeated: set[str] = set()
    for text in lines[1:]:
        matched = _FIELD.fullmatch(text)
        if matched is None:
            raise HttpRefusal(400, "A header field is malformed")
        name, value = matched[1].lower(), matched[2]
        if name in headers:
            repeated.add(name)
            value = f"{headers[name]}, {value}"
        headers[name] = value
    # 4. What follows from both.
    # MUST: 400 without a Host, or with two (RFC 9112 3.2)
    if "," in headers.get("host", "" if modern else "-") or (modern and "host" not in headers):
        raise HttpRefusal(400, "There must be one Host")
    if target[0] != "/" and (matched := _ABSOLUTE.fullmatch(target)):
        # MUST: accept the absolute form of a target; its host counts, and not the field's (RFC 9112 3.2.2)
        headers["host"], target = matched[1], matched[2] if matched[2].startswith("/") else f"/{matched[2]}"
    options = {option.strip() for option in headers.get("connection", "").lower().split(",")}
    keep = modern and "close" not in options
    asks = modern and headers.get("expect", "").lower() == "100-continue"
    # 5. The length of the body: one number, said once; or chunks, which HTTP/1.0 does not have.
    size: int | None = None
    if (coding := headers.get("transfer-encoding")) is not None:
        check_coding(coding, headers.get("content-length"))
        if not modern:
            raise HttpRefusal(400, "HTTP/1.0 has no chunks")
    else:
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 18:
            raise HttpRefusal(400, "Content-Length must be one number")
        size = int(length)
    return Head(method, target, headers, frozenset(repeated), modern, keep, size, asks and size != 0)


def write_head(status: int, *headers: Mapping[str, str]) -> bytes:
    """Return the head of an answer. Raises: ValueError: see `check_field`."""
    lines = [f"HTTP/1.1 {status} {responses.get(status, '')}\r\nDate: {formatdate(usegmt=True)}\r\n"]
    for name, value in itertools.chain.from_iterable(each.items() for each in headers):
        check_field(name, value)
        lines.append(f"{name}: {value}\r\n")
    return ("".join(lines) + "\r\n").encode("latin-1")


# -- the server ---------------------------------------------------------------------------------------------------


LINGER_TIMEOUT = 2.0
"""Seconds for which a refused client may go on to send before it is cut off."""

ACCEPT_PAUSE = 0.1
"""Seconds without accepting after the system had no descriptor or no thread for one more connection."""


class HttpServer:
    """Serves endpoints at paths, from `start()` until `close()`; connections that come before are kept waiting.

    Args:
        endpoints: by path, such as {"/mcp": endpoint}; any other path is that of "*", or 404.
        host, port: where to listen; port 0 takes a free one.

    Attributes:
        address: the (host, port) that it listens at.

    Raises: OSError if it cannot listen there.
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
        self._places = Quota("connections", self.limits.connections, self.limits.connections_per_client)
        self.room = Quota("bytes of requests", self.limits.bodies, self.limits.bodies_per_client)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=512)
        self._listening.setblocking(False)
        self.address: tuple[str, int] = self._listening.getsockname()[:2]
        self._wake = WakePipe()
        self._connections: set[_Connection] = set()  # each use of it is one step for all threads
        self._numbers = itertools.count(1)
        # Daemon: close() joins it; a program that forgets close() must still be able to end.
        self._accepting = threading.Thread(target=self._accept, name="mcp-http-accept", daemon=True)

    def start(self) -> None:
        """Begin to serve; once. Apart, so that who closes this server holds it before there is a thread."""
        self._wake.open()
        self._accepting.start()

    def _accept(self) -> None:
        """Take connections and cut off slow ones until the wake pipe is readable; then close what was waited for."""
        selector = selectors.DefaultSelector()
        for each in (self._wake.fd, self._listening.fileno()):
            selector.register(each, selectors.EVENT_READ)

        def ready() -> list[int]:
            return [key.fd for key, _ in selector.select(1 if self._connections else None)]

        while self._wake.fd not in (came := ready()):
            # For the whole request; nothing bounds one read.
            too_long_ago = time.monotonic() - self.limits.read
            for connection in list(self._connections):
                if connection.reading_since < too_long_ago:
                    connection.shut_down()
            if came and not self._take():
                time.sleep(ACCEPT_PAUSE)
        selector.close()
        self._stop_listening()

    def _stop_listening(self) -> None:
        self._listening.close()
        self._wake.close()

    def _take(self) -> bool:
        """Take a connection and start its thread; False if the system has no room for one more."""
        try:
            accepted, address = self._listening.accept()
        except (BlockingIOError, ConnectionError) as problem:
            log.debug("a client has hung up already: %s", problem)
            return True
        except OSError as problem:
            log.warning("could not accept a connection: %s", problem)
            return False
        client = str(address[0])
        try:
            self._places.take(client)
        except HttpRefusal as refusal:
            _turn_away(accepted, refusal.status)
            return True
        connection = _Connection(self, accepted, client, next(self._numbers))
        # Before it starts, so that close() finds it.
        self._connections.add(connection)
        try:
            connection.thread.start()
        except RuntimeError as problem:
            log.warning("could not start a thread: %s", problem)
            self.forget(connection)
            _turn_away(accepted, HTTPStatus.SERVICE_UNAVAILABLE)
            return False
        return True

    def forget(self, connection: _Connection) -> None:
        """Forget a connection that has ended."""
        self._connections.discard(connection)
        self._places.give_back(connection.client)

    def close(self, timeout: float = 5) -> list[str]:
        """Stop listening and end every connection; returns the threads that did not end in time. Idempotent.

        Why each thread ends: the accepting one finds the wake pipe readable; that of a connection has its socket shut
        down under it, and whoever writes to it gets an OSError. One that runs a user's handler ends after it, and is
        left behind as a daemon when the time has passed: close the endpoint first, which cancels handlers.
        """
        deadline = Deadline(timeout)
        self._wake.set()
        # Bounded: it waits for nothing but the pipe.
        has_ended(self._accepting, Deadline(max(1.0, deadline.left() or 0.0)))
        if self._accepting.ident is None:
            self._stop_listening()
        connections = list(self._connections)
        for connection in connections:
            connection.shut_down()
        stuck = [each.thread.name for each in connections if not has_ended(each.thread, deadline)]
        for name in stuck:
            log.warning("left behind at close: %s still runs a handler", name)
        return stuck


class _Connection(http.server.BaseHTTPRequestHandler):
    """One accepted socket, and the thread that reads its requests and runs their endpoints.

    `http.server` gives the file to read from, and the order of `setup`, `handle` and `finish`.

    Attributes:
        owner: the server. client: the address at the other end.
        keep: whether another request may follow.
        reading_since: when the request began that is being read now; infinity while none is.
        remembered: what endpoints remember from one request to the next.
    """

    rbufsize = 4096  # A head and a usual body; there is one of these for each open connection.
    wbufsize = 0
    disable_nagle_algorithm = True  # What is written does not wait for the acknowledgement of what went before.

    def __init__(self, owner: HttpServer, accepted: socket.socket, client: str, number: int) -> None:
        # Without super().__init__, which is the whole life of a connection: its own thread calls that.
        self.owner, self.socket, self.client, self.keep = owner, accepted, client, True
        self.reading_since = time.monotonic()
        self.remembered: dict[str, Any] = {}
        # Daemon: a user's handler cannot be stopped, and must not keep the process alive.
        self.thread = threading.Thread(target=self._live, name=f"mcp-http-{number}", daemon=True)

    def _live(self) -> None:
        try:
            self.limit_writes(self.owner.limits.write)
            super().__init__(self.socket, (self.client, 0), self.owner)  # type: ignore[arg-type]
        except OSError as problem:
            # An idle connection that times out is not an error, and half a request ends with its connection.
            log.debug("a connection ended: %s", problem)
        finally:
            self.socket.close()
            # Last: the server's close() waits for those that it remembers.
            self.owner.forget(self)

    def handle(self) -> None:
        """Answer one request after the other, until one side has had enough."""
        endpoints = self.owner.endpoints
        while self.keep and (read := self._next()) is not None:
            request, reply = read
            try:
                (endpoints.get(request.path) or endpoints.get("*") or partial(nothing_here, endpoints))(request, reply)
            except HttpRefusal as refusal:
                if not reply.begun:
                    reply.send(refusal.status, refusal.headers)
            except OSError:
                raise
            except Exception:
                log.exception("the endpoint failed")
            finally:
                if reply.room:
                    self.owner.room.give_back(self.client, reply.room)
            if not reply.begun:
                self.keep = False
                reply.send(500, {})
            elif not reply.ended:
                # Half an answer must not pass for a whole one.
                reply.abort()
            # What nobody wanted to read: see `_SocketReply._begin`.
            if reply.unread and self.keep:
                reply.read_body()
            elif reply.unread:
                self._linger()

    def _next(self) -> tuple[HttpRequest, _SocketReply] | None:
        """Read the head of the next request; None if there will be none."""
        self.reading_since = time.monotonic()
        try:
            head = read_head(self.rfile.readline)
        except HttpRefusal as refusal:
            # It cannot be read to its end: what follows on the connection is not a request.
            self.put(write_head(refusal.status, {**refusal.headers, "Content-Length": "0", "Connection": "close"}))
            self._linger()
            return None
        if head is None:
            return None
        self.reading_since, self.keep = float("inf"), head.keep
        reply = _SocketReply(self, head)
        content, gone = b"" if head.length == 0 else reply.read_body, partial(has_hung_up, self.socket)
        path, _, query = head.target.partition("?")
        request = HttpRequest(
            head.method, path, head.headers, content, gone, self.client, query, head.repeated, self.remembered
        )
        return request, reply

    def _linger(self) -> None:
        """End the connection, although the client goes on to send."""
        deadline = Deadline(min(LINGER_TIMEOUT, self.owner.limits.read))
        # Closed with bytes unread, the connection would be reset, and the client might never see the answer.
        self.socket.shutdown(socket.SHUT_WR)
        while left := deadline.left():
            self.socket.settimeout(left)
            if not self.socket.recv(65536):
                return

    def limit_writes(self, seconds: float) -> None:
        """Bound each write from now on. Nothing bounds one read: `mcp-http-accept` cuts off a request that is slow."""
        if sys.platform == "linux":
            # Once for all: a time-out of Python's would ask the system before each read and write whether it may.
            limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        else:
            self.socket.settimeout(seconds)

    def put(self, data: bytes) -> None:
        """Write all of it; for each piece that the client takes it has the full time again. Raises OSError."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self.socket.send(rest) :]
        except BlockingIOError:
            self.shut_down()
            raise TimeoutError("the client does not read") from None
        except OSError:
            # Part of something was sent: nothing that followed could be understood.
            self.shut_down()
            raise

    def shut_down(self) -> None:
        """Wake whoever reads or writes; no request follows. Only the connection's own thread closes the socket."""
        self.keep = False
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It ended by itself.


class _SocketReply:
    """An `HttpReply` to a request on a connection, see there for the methods; it also reads the request's body.

    Attributes:
        begun, ended: how far the answer is.
        unread: bytes of the body that are still to be read; of one in chunks that is not known, and more than any.
        room: bytes that it has taken of the room that bodies share.
    """

    def __init__(self, connection: _Connection, head: Head) -> None:
        self._connection, self._head = connection, head
        self.begun = self.ended = False
        self.unread, self.room = sys.maxsize if head.length is None else head.length, 0

    def read_body(self) -> bytes:
        """See `HttpRequest.body`."""
        connection, length = self._connection, self._head.length
        most = connection.owner.limits.max_message
        if length is not None:
            if length > most:
                raise HttpRefusal(413, "Content too large")
            if length > SMALL_BODY:
                self._take_room(length)
        if self._head.asks:
            connection.put(b"HTTP/1.1 100 Continue\r\n\r\n")
        # Once for the whole body, so that chunks do not renew it.
        connection.reading_since = time.monotonic()
        if length is None:
            # It doubles what it takes: a body of small chunks does not ask for room at each of them.
            body = read_chunked(connection.rfile, most, lambda size: self._take_room(size, min(2 * size, most)))
        elif len(body := connection.rfile.read(length)) < length:
            raise ConnectionError("the client has hung up in mid-body")
        self.unread, connection.reading_since = 0, float("inf")
        return body

    def _take_room(self, size: int, wanted: int = 0) -> None:
        """Have room for a body of `size` bytes; where that is not so yet, take it for `wanted`."""
        if size > max(SMALL_BODY, self.room):
            more = max(size, wanted) - self.room
            self._connection.owner.room.take(self._connection.client, more)
            self.room += more

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Write a whole answer, with its length."""
        told = "Content-Length" in headers or status in (204, 304)  # of what HEAD asks about; or without a body
        more = {} if told else {"Content-Length": str(len(body))}
        self._begin(status, headers, more, b"" if self._head.method == "HEAD" else body)
        self.ended = True

    def open(self, headers: Mapping[str, str], status: int = 200) -> None:
        self._begin(status, headers, {"Transfer-Encoding": "chunked"} if self._head.chunks else {})

    def _begin(self, status: int, headers: Mapping[str, str], more: dict[str, str], body: bytes = b"") -> None:
        """Write the head of the answer, and what of the body goes with it."""
        connection = self._connection
        # A body that nobody wanted to read is either short enough to skip, or the end of it all.
        short = min(SMALL_BODY, connection.owner.limits.max_message)
        if self.unread > short or (self.unread and self._head.asks) or headers.get("Connection") == "close":
            connection.keep = False
        if not connection.keep and "Connection" not in headers:
            more = {**more, "Connection": "close"}
        # In one write: two small ones cost 40 ms where the client delays its acknowledgement.
        data = write_head(status, headers, more) + body
        self.begun = True
        connection.put(data)

    def write(self, data: bytes) -> None:
        self._connection.put(b"%x\r\n%b\r\n" % (len(data), data) if self._head.chunks else data)

    def end(self, patience: float | None = None) -> None:
        try:
            if self._head.chunks:
                if patience is not None:
                    self._connection.limit_writes(patience)
                self._connection.put(b"0\r\n\r\n")
                if patience is not None:
                    self._connection.limit_writes(self._connection.owner.limits.write)
        except OSError as problem:
            log.debug("a stream's connection is gone: %s", problem)
        self.ended = True

    def hang_up(self) -> None:
        self.end()
        self._connection.shut_down()

    def abort(self) -> None:
        # Once it has ended, the connection may be carrying another request.
        if not self.ended:
            self._connection.shut_down()


def _turn_away(accepted: socket.socket, status: int) -> None:
    """Answer a connection that is one too many, without reading from it and without waiting for it."""
    with accepted:
        try:
            accepted.setblocking(False)
            accepted.send(write_head(status, {"Retry-After": "10", "Content-Length": "0", "Connection": "close"}))
        except OSError as problem:
            log.debug("could not turn a connection away: %s", problem)
