"""An HTTP request and its reply, as the endpoint sees them: no socket, no `http.server`.

Spec:      basic/transports#streamable-http
Upholds:   spec_notes/basic/transports.md
Reads:     nothing
Not here:  what is answered (endpoint.py), the bytes on the socket (server.py)

The endpoint is a function of a request and a reply, so that each of its rules can be tested with a list for a reply,
and so that it can stand under another front than `http.server`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Endpoint", "HttpRefusal", "HttpReply", "HttpRequest"]


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
