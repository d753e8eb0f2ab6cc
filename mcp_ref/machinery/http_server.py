"""A server of HTTP/1, on `http.server`: heads, bodies, connections and their threads. Nothing of MCP.

    server = HttpServer({"/mcp": endpoint}, "127.0.0.1", 8000)      listens until close()
    endpoint(request, reply)                                        answers one request, in the thread of its connection

An endpoint gets a request whose head was read, and a reply. What it refuses by the head alone never takes the room of
its body, which is read when the endpoint looks at it. It calls `reply.send` once, or `reply.open`, `reply.write`
as often as it likes, and `reply.end`. So its rules can be tested with a list for a reply, and it can stand under
another front than this one. What it leaves unanswered is answered with 500; an answer that it leaves unfinished is cut
off.

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
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol, cast

from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.pipes import Wake

log = logging.getLogger(__name__)


# -- requests and replies -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HttpRequest:
    """One request.

    Attributes:
        method: "POST", "GET", ...
        path: the path of the target, without the query.
        headers: names in lower case; a header that came twice has its values joined with ", ".
        content: the whole body, already bounded, or what reads it.
        gone: tells whether the client has hung up; asks the socket.
        peer: who is at the other end, for limits per client: an address.
        query: the query of the target, as it came.
        repeated: the headers that came more than once.
        connection: what endpoints remember from one request to the next on the same connection.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes | Callable[[], bytes] = b""
    gone: Callable[[], bool] = lambda: False
    peer: str = ""
    query: str = ""
    repeated: Collection[str] = ()
    connection: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The whole body.

        Blocks: the first time, until it has arrived. Raises then: HttpRefusal: 413 (too large), 429 or 503 (the bodies
            of other requests take all the room); OSError: the client is gone, or too slow.
        """
        if callable(self.content):
            object.__setattr__(self, "content", self.content())
        return cast(bytes, self.content)


class HttpReply(Protocol):
    """Where the answer to one request goes. Either `send` once, or `open`, any number of `write`, and `end`.

    Threads: one at a time, `abort` excepted; whoever shares a reply between threads has a lock of its own for it.
    """

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a whole answer. Raises OSError if the client is gone."""
        ...

    def open(self, headers: Mapping[str, str]) -> None:
        """Begin an answer of unknown length, with status 200. Raises OSError if the client is gone."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of it at once. Raises OSError if the client is gone or does not read."""
        ...

    def end(self, patience: float | None = None) -> None:
        """End it; the connection may then carry another request. Does nothing if the client is gone.

        Blocks: until the client takes what is left, for `patience` seconds if given; then the connection is closed.
        """
        ...

    def hang_up(self) -> None:
        """End it and close the connection, so that nothing waits behind a handler that goes on."""
        ...

    def abort(self) -> None:
        """Close the connection as it is: whoever writes gets an OSError. Any thread, at any time; never blocks."""
        ...


Endpoint = Callable[[HttpRequest, HttpReply], None]


class HttpRefusal(Exception):
    """A request is refused with an HTTP status.

    Args:
        status: the HTTP status.
        message: said in the body, as the message of a JSON-RPC error without `id`.
        code: the JSON-RPC error code in the body.
        headers: more headers of the answer, such as Allow or WWW-Authenticate.
    """

    def __init__(
        self, status: int, message: str, *, code: int = -32600, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.headers = dict(headers or {})


class Places:
    """At most so many of something at once, in all and for each client.

    Args:
        what: their name in a refusal, such as "sessions".
        most, most_per_client: how many. Who takes several at once takes as many places.

    Threads: any.
    """

    def __init__(self, what: str, most: int, most_per_client: int) -> None:
        self._what, self._most, self._most_per_client = what, most, most_per_client
        self._freed = threading.Condition()  # guards the three fields below
        self._taken = 0
        self._per_client: Counter[str] = Counter()
        self._closed = False

    def take(self, client: str, number: int = 1) -> None:
        """Take a place. Raises HttpRefusal: 503 if all are taken, 429 if this client has taken all of its own."""
        with self._freed:
            if self._per_client[client] + number > self._most_per_client:
                status, whose = 429, " of this client"
            elif self._closed or self._taken + number > self._most:
                status, whose = 503, ""
            else:
                self._taken += number
                self._per_client[client] += number
                return
        raise HttpRefusal(status, f"Too many {self._what}{whose}", headers={"Retry-After": "10"})

    def give_back(self, client: str, number: int = 1) -> None:
        """Give a place back."""
        with self._freed:
            self._taken -= number
            self._per_client[client] -= number
            if not self._per_client[client]:
                del self._per_client[client]
            self._freed.notify_all()

    def close(self, timeout: float = 0) -> None:
        """Stop giving places. Blocks: until all are given back, for at most `timeout` seconds."""
        with self._freed:
            self._closed = True
            self._freed.wait_for(lambda: not self._taken, timeout)


# -- heads --------------------------------------------------------------------------------------------------------


MAX_HEAD = 64 * 1024
"""Bytes that the head of a request may have."""

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_LINE = re.compile(rf"({_TOKEN}) ([!-~]+) HTTP/(\d)\.(\d)\r\n")
_ABSOLUTE = re.compile(r"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
_FIELD = re.compile(rf"({_TOKEN}):[ \t]*((?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?)[ \t]*\r\n")
_NAME = re.compile(_TOKEN)
_VALUE = re.compile(r"[\t -~\x80-\xff]*")


class Head(NamedTuple):
    """The head of a request.

    Attributes:
        method: as it came.
        target: path and query.
        headers: names in lower case; what came twice is joined with ", ".
        repeated: the headers that came more than once.
        chunks: whether the client understands an answer in chunks.
        keep: whether another request may follow on the connection.
        length: bytes of body that follow.
        asks: whether the client waits to be asked for the body.
    """

    method: str
    target: str
    headers: dict[str, str]
    repeated: frozenset[str]
    chunks: bool
    keep: bool
    length: int
    asks: bool


def read_head(readline: Callable[[int], bytes]) -> Head | None:
    """Read the head of the next request; None if the connection ends before it is whole.

    Args:
        readline: reads a line of at most so many bytes.

    Raises: HttpRefusal: 400, 411 (a body in chunks), 414 (too long a line), 431 (too long fields), 505 (not HTTP/1).
        Nothing more can be read from the connection then.
    """
    # 1. The request line.
    line = readline(MAX_HEAD)
    if line == b"\r\n":
        # SHOULD: ignore an empty line before the request (RFC 9112 2.2)
        line = readline(MAX_HEAD)
    if not line.endswith(b"\n"):
        if len(line) >= MAX_HEAD:
            raise HttpRefusal(414, "The request line is too long")
        return None
    matched = _LINE.fullmatch(line.decode("latin-1"))
    if matched is None:
        raise HttpRefusal(400, "The request line is malformed")
    method, target, major, minor = matched.groups()
    if major != "1":
        raise HttpRefusal(505, "This server speaks HTTP/1")
    modern = minor != "0"
    # 2. The fields.
    room = MAX_HEAD - len(line)
    headers: dict[str, str] = {}
    repeated: set[str] = set()
    while (line := readline(max(room, 0) + 1)) != b"\r\n":
        room -= len(line)
        if room < 0:
            raise HttpRefusal(431, "The header fields are too long")
        if not line.endswith(b"\n"):
            return None
        matched = _FIELD.fullmatch(line.decode("latin-1"))
        if matched is None:
            raise HttpRefusal(400, "A header field is malformed")
        name, value = matched[1].lower(), matched[2]
        if name in headers:
            repeated.add(name)
            value = f"{headers[name]}, {value}"
        headers[name] = value
    # 3. What follows from both.
    # MUST: 400 without a Host, or with two (RFC 9112 3.2)
    if "," in headers.get("host", "" if modern else "-") or (modern and "host" not in headers):
        raise HttpRefusal(400, "There must be one Host")
    if target[0] != "/" and (matched := _ABSOLUTE.fullmatch(target)):
        # MUST: accept the absolute form of a target; its host counts, and not the field's (RFC 9112 3.2.2)
        headers["host"], target = matched[1], matched[2] if matched[2].startswith("/") else f"/{matched[2]}"
    options = {option.strip() for option in headers.get("connection", "").lower().split(",")}
    keep = "close" not in options and (modern or "keep-alive" in options)
    asks = modern and headers.get("expect", "").lower() == "100-continue"
    # 4. The length of the body: one number, said once.
    if "transfer-encoding" in headers:
        raise HttpRefusal(411, "Length required")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 18:
        raise HttpRefusal(400, "Content-Length must be one number")
    return Head(method, target, headers, frozenset(repeated), modern, keep, int(length), asks and int(length) > 0)


def write_head(status: int, headers: Mapping[str, str]) -> bytes:
    """The head of an answer. Raises: ValueError: see `check_field`."""
    lines = [_status_and_date(status, int(time.time()))]
    for name, value in headers.items():
        check_field(name, value)
        lines.append(f"{name}: {value}\r\n")
    return ("".join(lines) + "\r\n").encode("latin-1")


def check_field(name: str, value: str) -> None:
    """Raise ValueError if a field's name is not a token, or its value has a line break or another character that a
    header cannot have: it could begin another field, or another answer."""
    if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ValueError(f"not a header field: {name!r}: {value!r}")


@lru_cache(maxsize=32)
def _status_and_date(status: int, second: int) -> str:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nDate: {formatdate(second, usegmt=True)}\r\n"


# -- the server ---------------------------------------------------------------------------------------------------


LINGER_TIMEOUT = 2.0
"""Seconds for which a refused client may go on to send before it is cut off."""

HANG_UP = getattr(select, "POLLRDHUP", 0)
"""The client has ended its sending, on systems that tell so while something it sent waits to be read."""

SMALL_BODY = 64 * 1024
"""Bytes of a body that never wait for room, and that are read even if nobody wants them, to keep the connection."""

ACCEPT_PAUSE = 0.1
"""Seconds without accepting after the system had no descriptor or no thread for one more connection."""


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    """Limits on connections, bodies and waiting.

    Attributes:
        max_message: bytes that a request's body may have; 413 beyond.
        bodies: bytes that the bodies above `SMALL_BODY` of all requests under way may have together; what goes beyond
            is answered with 503. `bodies_per_client`: 429.
        read: seconds in which the head of a request must have arrived, and then its body; an idle connection may wait
            as long for the next one.
        write: seconds in which a client must take a piece of what is sent to it, or its connection is given up.
        connections: how many at once; one more is answered with 503. `connections_per_client`: 429.
    """

    max_message: int = 4 << 20
    bodies: int = 64 << 20
    bodies_per_client: int = 32 << 20
    read: float = 60
    write: float = 30
    connections: int = 2_000
    connections_per_client: int = 1_000


class HttpServer:
    """Serves endpoints at paths; `close()` ends it.

    Args:
        endpoints: by path, such as {"/mcp": endpoint}; any other path is 404.
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
        self._places = Places("connections", self.limits.connections, self.limits.connections_per_client)
        self.room = Places("bytes of requests", self.limits.bodies, self.limits.bodies_per_client)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=512)
        self._listening.setblocking(False)
        self.address: tuple[str, int] = self._listening.getsockname()[:2]
        self._wake = Wake()
        self._wake.open()
        self._lock = threading.Lock()  # guards _connections
        self._connections: set[_Connection] = set()
        self._numbers = itertools.count(1)
        # Daemon: close() joins it; a program that forgets close() must still be able to end.
        self._accepting = threading.Thread(target=self._accept, name="mcp-http-accept", daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        """Take connections and cut off slow ones until the wake pipe is readable; then close what was polled."""
        poll = select.poll()
        poll.register(self._wake.fd, select.POLLIN)
        poll.register(self._listening, select.POLLIN)
        while self._wake.fd not in (ready := [fd for fd, _ in poll.poll(1000 if self._connections else None)]):
            # The time-out of a socket is for one read; this is for the whole request.
            too_long_ago = time.monotonic() - self.limits.read
            for connection in self._snapshot():
                if connection.reading_since < too_long_ago:
                    connection.shut_down()
            if ready and not self._take():
                time.sleep(ACCEPT_PAUSE)
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
        with self._lock:
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

    def _snapshot(self) -> list[_Connection]:
        with self._lock:
            return list(self._connections)

    def forget(self, connection: _Connection) -> None:
        """Called by a connection that has ended."""
        with self._lock:
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
        self._accepting.join(max(1.0, deadline.left() or 0.0))
        connections = self._snapshot()
        for connection in connections:
            connection.shut_down()
        others = [each.thread for each in connections if each.thread is not threading.current_thread()]
        for thread in others:
            thread.join(deadline.left())
        stuck = [thread.name for thread in others if thread.is_alive()]
        for name in stuck:
            log.warning("left behind at close: %s still runs a handler", name)
        return stuck


class _Connection(http.server.BaseHTTPRequestHandler):
    """One accepted socket, and the thread that reads its requests and runs their endpoints.

    `http.server` gives the files and the order of `setup`, `handle` and `finish`.
    """

    rbufsize = 4096  # A head and a usual body; there is one of these for each open connection.
    wbufsize = 0
    disable_nagle_algorithm = True

    def __init__(self, owner: HttpServer, accepted: socket.socket, client: str, number: int) -> None:
        # Without super().__init__, which is the whole life of a connection: its own thread calls that.
        self.owner, self.socket, self.client = owner, accepted, client
        self.reading_since = time.monotonic()
        self._remembered: dict[str, Any] = {}
        # Daemon: a user's handler cannot be stopped, and must not keep the process alive.
        self.thread = threading.Thread(target=self._live, name=f"mcp-http-{number}", daemon=True)

    def _live(self) -> None:
        try:
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
        self.close_connection = False
        while not self.close_connection and (request := self._next()) is not None:
            reply = _SocketReply(self)
            try:
                endpoints = self.owner.endpoints
                (endpoints.get(request.path) or partial(nothing_here, endpoints))(request, reply)
            except HttpRefusal as refusal:
                if not reply.begun:
                    reply.send(refusal.status, refusal.headers)
            except OSError:
                raise
            except Exception:
                log.exception("the endpoint failed")
            finally:
                if self._taken:
                    self.owner.room.give_back(self.client, self._taken)
            if not reply.begun:
                self.close_connection = True
                reply.send(500, {})
            elif not reply.ended:
                # Nobody shall take half an answer for a whole one.
                reply.abort()
            # What nobody wanted to read: see `_SocketReply._begin`.
            if self.unread and self.close_connection:
                self._linger()
            elif self.unread:
                self._read_body()

    def _next(self) -> HttpRequest | None:
        """Read the head of the next request; None if there will be none."""
        self.reading_since, self.unread, self._taken = time.monotonic(), 0, 0
        self.socket.settimeout(self.owner.limits.read)
        try:
            head = read_head(self.rfile.readline)
        except HttpRefusal as refusal:
            # It cannot be read to its end: what follows on the connection is not a request.
            self.command, self.chunks, self.close_connection = "", False, True
            _SocketReply(self).send(refusal.status, refusal.headers)
            self._linger()
            return None
        if head is None:
            return None
        self.reading_since = float("inf")
        self.socket.settimeout(self.owner.limits.write)
        self.unread, self.asks = head.length, head.asks
        self.command, self.chunks, self.close_connection = head.method, head.chunks, not head.keep
        path, _, query = head.target.partition("?")
        content = self._read_body if head.length else b""
        return HttpRequest(
            head.method, path, head.headers, content, self.gone, self.client, query, head.repeated, self._remembered
        )

    def _read_body(self) -> bytes:
        """See `HttpRequest.body`."""
        limits, length = self.owner.limits, self.unread
        if length > limits.max_message:
            raise HttpRefusal(413, "Content too large")
        if length > SMALL_BODY and not self._taken:
            self.owner.room.take(self.client, length)
            self._taken = length
        if self.asks:
            self.put(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.reading_since = time.monotonic()
        self.socket.settimeout(limits.read)
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionError("the client has hung up in mid-body")
        self.unread, self.reading_since = 0, float("inf")
        self.socket.settimeout(limits.write)
        return body

    def _linger(self) -> None:
        """End the connection, although the client goes on to send."""
        deadline = Deadline(min(LINGER_TIMEOUT, self.owner.limits.read))
        # Closed with bytes unread, the connection would be reset, and the client might never see the answer.
        self.socket.shutdown(socket.SHUT_WR)
        while left := deadline.left():
            self.socket.settimeout(left)
            if not self.socket.recv(65536):
                return

    def put(self, data: bytes) -> None:
        """Write all of it; for each piece that the client takes it has the full time again. Raises OSError."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self.socket.send(rest) :]
        except OSError:
            # Part of something was sent: nothing that followed could be understood.
            self.shut_down()
            raise

    def shut_down(self) -> None:
        """Wake whoever reads or writes; no request follows. Only the connection's own thread closes the socket."""
        self.close_connection = True
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It ended by itself.

    def gone(self) -> bool:
        """Whether the client has hung up."""
        return has_hung_up(self.socket)


def has_hung_up(connection: socket.socket) -> bool:
    """Whether the other end of a connection has hung up. (One that has only ended its sending looks the same.)"""
    poll = select.poll()
    try:
        poll.register(connection, select.POLLIN | HANG_UP)
        ready = poll.poll(0)
        if any(event & HANG_UP for _, event in ready):
            return True
        # The socket's own `recv`: that of a TLS connection cannot peek.
        return bool(ready) and socket.socket.recv(connection, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except (OSError, ValueError):
        return True


class _SocketReply:
    """An `HttpReply` on a connection; see there for the methods.

    Attributes:
        begun, ended: how far the answer is.
    """

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self.begun = self.ended = False

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        headers = {**headers, "Content-Length": str(len(body))}
        self._begin(status, headers, b"" if self._connection.command == "HEAD" else body)
        self.ended = True

    def open(self, headers: Mapping[str, str]) -> None:
        if self._connection.chunks:
            headers = {**headers, "Transfer-Encoding": "chunked"}
        else:
            self._connection.close_connection = True
        self._begin(200, headers)

    def _begin(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        connection = self._connection
        if connection.unread > min(SMALL_BODY, connection.owner.limits.max_message) or (
            connection.unread and connection.asks
        ):
            # A body that nobody wanted to read is either short enough to skip, or the end of it all.
            connection.close_connection = True
        if connection.close_connection:
            headers = {**headers, "Connection": "close"}
        elif not connection.chunks:
            headers = {**headers, "Connection": "keep-alive"}
        # In one write: two small ones cost 40 ms where the client delays its acknowledgement.
        data = write_head(status, headers) + body
        self.begun = True
        connection.put(data)

    def write(self, data: bytes) -> None:
        self._connection.put(b"%x\r\n%b\r\n" % (len(data), data) if self._connection.chunks else data)

    def end(self, patience: float | None = None) -> None:
        self.ended = True
        try:
            if self._connection.chunks:
                if patience is not None:
                    self._connection.socket.settimeout(patience)
                self._connection.put(b"0\r\n\r\n")
        except OSError as problem:
            log.debug("a stream's connection is gone: %s", problem)

    def hang_up(self) -> None:
        self.end()
        self.abort()

    def abort(self) -> None:
        self._connection.shut_down()


def nothing_here(paths: Iterable[str], request: HttpRequest, reply: HttpReply) -> None:
    """The endpoint of every path that has none: it says where there are some."""
    text = f"Nothing is served at this path; the server is at {' and '.join(paths)}"
    reply.send(404, {"Content-Type": "text/plain; charset=utf-8"}, text.encode())


def _turn_away(accepted: socket.socket, status: int) -> None:
    """Answer a connection that is one too many, without reading from it and without waiting for it."""
    with accepted:
        try:
            accepted.setblocking(False)
            accepted.send(write_head(status, {"Retry-After": "10", "Content-Length": "0", "Connection": "close"}))
        except OSError as problem:
            log.debug("could not turn a connection away: %s", problem)
