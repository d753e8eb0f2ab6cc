"""An HTTP request and its reply, as the endpoint sees them: no socket, no `http.server`.

Spec:      basic/transports#streamable-http
Upholds:   spec_notes/basic/transports.md
Not here:  what is answered (endpoint.py), the bytes on the socket (server.py)

The endpoint is a function of a request and a reply, so that each of its rules can be tested with a list for a reply,
and so that it can stand under another front than `http.server`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class HttpRequest:
    """One request, read whole.

    Attributes:
        method: "POST", "GET", ...
        path: the path of the target, without the query.
        headers: names in lower case; a header that came twice has its values joined with ", ".
        body: the whole body, already bounded.
        gone: whether the client has hung up; asks the socket.
        peer: who is at the other end, for limits per client: an address.
        query: the query of the target, as it came.
        repeated: the headers that came more than once.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    gone: Callable[[], bool] = lambda: False
    peer: str = ""
    query: str = ""
    repeated: Collection[str] = ()


class HttpReply(Protocol):
    """Where the answer to one request goes. Either `send` once, or `open`, any number of `write`, and `end`.

    Threads: one at a time, `abort` excepted; whoever shares a reply between threads has a lock of its own for it.
    """

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a whole answer. Raises OSError when the client is gone."""
        ...

    def open(self, headers: Mapping[str, str]) -> None:
        """Begin an answer of unknown length, with status 200. Raises OSError when the client is gone."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of it at once. Raises OSError when the client is gone, or does not read."""
        ...

    def end(self, patience: float | None = None) -> None:
        """End it; the connection may then carry another request. Does nothing when the client is gone.

        Blocks: until the client takes what is left, for `patience` seconds where given; then the connection is closed.
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
    """A request that is refused with an HTTP status before it becomes a message.

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


# -- heads -----------------------------------------------------------------------------------------------


MAX_HEAD = 64 * 1024
"""Bytes that the head of a request may have."""

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_LINE = re.compile(rf"({_TOKEN}) ([!-~]+) HTTP/(\d)\.(\d)\r\n")
_FIELD = re.compile(rf"({_TOKEN}):[ \t]*((?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?)[ \t]*\r\n")
_NAME = re.compile(_TOKEN)
_VALUE = re.compile(r"[\t -~\x80-\xff]*")


class Head(NamedTuple):
    """The head of a request.

    Attributes:
        method, target: as they came.
        headers: names in lower case; what came twice is joined with ", ".
        chunks: whether the client understands an answer in chunks.
        keep: whether another request may follow on the connection.
        asks: whether the client waits to be asked for the body.
        repeated: the headers that came more than once.
    """

    method: str
    target: str
    headers: dict[str, str]
    chunks: bool
    keep: bool
    asks: bool
    repeated: frozenset[str] = frozenset()


def read_head(readline: Callable[[int], bytes]) -> Head | None:
    """Read the head of the next request; None where the connection ends before it is whole.

    Raises: HttpRefusal: 400, 414 (the line is too long), 431 (the fields are), 505 (not HTTP/1). The connection is of
        no use then.
    Blocks: as `readline` does, which is given the most that it may return.
    """
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
        raise HttpRefusal(505, "HTTP/1 is spoken here")
    repeated: set[str] = set()
    headers = _fields(readline, MAX_HEAD - len(line), repeated)
    return None if headers is None else _head(method, target, minor != "0", headers, frozenset(repeated))


def _fields(readline: Callable[[int], bytes], room: int, repeated: set[str]) -> dict[str, str] | None:
    headers: dict[str, str] = {}
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
    return headers


def _head(method: str, target: str, modern: bool, headers: dict[str, str], repeated: frozenset[str]) -> Head:
    # MUST: 400 without a Host, or with two (RFC 9112 3.2)
    if "," in headers.get("host", "" if modern else "-") or (modern and "host" not in headers):
        raise HttpRefusal(400, "There must be one Host")
    options = {option.strip() for option in headers.get("connection", "").lower().split(",")}
    keep = "close" not in options and (modern or "keep-alive" in options)
    asks = modern and headers.get("expect", "").lower() == "100-continue"
    return Head(method, target, headers, modern, keep, asks, repeated)


def body_length(headers: Mapping[str, str], most: int) -> int:
    """How many bytes of body follow the head.

    Raises: HttpRefusal: 411 for a body in chunks, 400 for a length that is not one number, 413 for one above `most`.
    """
    if "transfer-encoding" in headers:
        raise HttpRefusal(411, "Length required")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 18:
        raise HttpRefusal(400, "Content-Length must be one number")
    if int(length) > most:
        raise HttpRefusal(413, "Content too large")
    return int(length)


def write_head(status: int, headers: Mapping[str, str]) -> bytes:
    """The head of an answer.

    Raises: ValueError: a field's name is no token, or its value has a line break or another control character, or one
        that Latin-1 does not have: it could begin another field, or another answer.
    """
    fields = "".join(f"{name}: {_checked(name, value)}\r\n" for name, value in headers.items())
    return f"{_status_line(status)}Date: {_date(int(time.time()))}\r\n{fields}\r\n".encode("latin-1")


def _checked(name: str, value: str) -> str:
    if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ValueError(f"not a header field: {name!r}: {value!r}")
    return value


@lru_cache(maxsize=64)
def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
