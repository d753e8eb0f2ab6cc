"""The request that an HTTP endpoint is given, and its reply, whatever serves it: `http_server`, or a WSGI server
(`wsgi`).

    endpoint(request, reply)

An endpoint gets a request whose head was read, and a reply. What it refuses by the head alone never takes the room of
its body, which is read when the endpoint looks at it. It calls `reply.send` once, or `reply.open`, `reply.write`
as often as it likes, and `reply.end`. So its rules can be tested with a list for a reply, and it can stand under any
front. What it leaves unanswered is answered with 500; an answer that it leaves unfinished is cut off.

Nothing of MCP, and no threads. `Quota` and `HttpLimits` are what every front keeps to.
"""

from __future__ import annotations

import re
import select
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

# -- a request, its reply, and a refusal -------------------------------------------------------------------------


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
    """The reply to one request. Call either `send` once, or `open`, any number of `write`, and `end`.

    Threads: one at a time, `abort` excepted; whoever shares a reply between threads has a lock of its own for it.
    """

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a whole answer. Raises OSError if the client is gone."""
        ...

    def open(self, headers: Mapping[str, str], status: int = 200) -> None:
        """Begin an answer of unknown length. Raises OSError if the client is gone."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of the answer at once. Raises OSError if the client is gone or does not read."""
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
        message: said in the body, as the message of a JSON-RPC error.
        code: the JSON-RPC error code in the body.
        headers: more headers of the answer, such as Allow or WWW-Authenticate.

    Attributes:
        request_id: the `id` of that error; None: it has none.
    """

    def __init__(
        self, status: int, message: str, *, code: int = -32600, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.headers = dict(headers or {})
        self.request_id: str | int | None = None


TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
"""The characters of a method and of the name of a field (RFC 9110 5.6.2)."""

_NAME = re.compile(TOKEN)
_VALUE = re.compile(r"[\t -~\x80-\xff]*")


def check_field(name: str, value: str) -> None:
    """Raise ValueError if a field's name is not a token, or its value has a line break or another character that a
    header cannot have: it could begin another field, or another answer."""
    if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ValueError(f"not a header field: {name!r}: {value!r}")


def nothing_here(paths: Iterable[str], request: HttpRequest, reply: HttpReply) -> None:
    """Answer for every path without an endpoint: say where there are some."""
    text = f"Nothing is served at this path; the server is at {' and '.join(paths)}"
    reply.send(404, {"Content-Type": "text/plain; charset=utf-8"}, text.encode())


_DONT_WAIT: int = getattr(socket, "MSG_DONTWAIT", 0)  # without it, only this thread reads what is ready
HANG_UP = getattr(select, "POLLRDHUP", 0)
"""The client has ended its sending, on systems that tell so while something it sent waits to be read."""


def has_hung_up(connection: socket.socket) -> bool:
    """Return whether the other end of a connection has hung up. (One that has only ended its sending looks the
    same.)
    """
    try:
        if sys.platform == "win32" or not hasattr(select, "poll"):
            events = [0 for _ in select.select([connection], [], [], 0)[0]]
        else:
            poll = select.poll()
            poll.register(connection, select.POLLIN | HANG_UP)
            events = [event for _, event in poll.poll(0)]
        if any(event & HANG_UP for event in events):
            return True
        # The socket's own `recv`: that of a TLS connection cannot peek.
        return bool(events) and socket.socket.recv(connection, 1, socket.MSG_PEEK | _DONT_WAIT) == b""
    except BlockingIOError:
        return False
    except (OSError, ValueError):
        return True


# -- limits -------------------------------------------------------------------------------------------------------


SMALL_BODY = 64 * 1024
"""Bytes of a body that never wait for room, and that are read even if nobody wants them, to keep the connection."""


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


class Quota:
    """At most so many of something at once, in all and for each client.

    Args:
        what: their name in a refusal, such as "sessions".
        most, most_per_client: how many. Taking several at once takes as many places.

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
