"""What a trace is shown of HTTP: the request beside a message, the status, the events of a stream.

Spec:      basic/transports#streamable-http
Upholds:   nothing by itself: no page speaks of traces
Reads:     http.py, sse.py
Not here:  which headers are shown, and what is hidden of them (trace/redact)

    {"method": "POST", "headers": {...}}                  a request
    {"status": 202, "headers": {...}}                     an answer; without a message, or with the one in its body
    {"status": 200, "eventId": "s1-2", "retry": 500}      an event of a stream; without a message where it has no data
    {"hangUp": 7}                                         the end of the connection, which gives up the request 7
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcp_ref.basic.transports.sse import Event, EventParser
from mcp_ref.basic.transports.streamable_http.http import HttpReply, HttpRequest
from mcp_ref.basic.transports.transport import Tap

__all__ = ["NotedReply", "event_facts", "noted"]

_LONGEST = 1 << 40  # characters of an event: it was made here, and is not refused for its size


@contextmanager
def noted(tap: Tap | None, request: HttpRequest, reply: HttpReply) -> Iterator[HttpReply]:
    """Show the trace, if there is one, what a client has sent; the reply that is given shows it the answer."""
    if tap is None:
        yield reply
        return
    tap.note("receive", request.body or None, {"method": request.method, "headers": request.headers})
    tap.deliver()
    try:
        yield NotedReply(reply, tap, request.method)
    finally:
        tap.deliver()


def event_facts(event: Event) -> dict[str, Any]:
    """What an event has beside its data."""
    facts: dict[str, Any] = {} if event.event == "message" else {"event": event.event}
    if event.id:
        facts["eventId"] = event.id
    if event.retry is not None:
        facts["retry"] = event.retry
    return facts


class NotedReply:
    """An `HttpReply` that shows a trace what goes out, in the order in which it does; see there for the methods.

    It only notes while it writes, since the caller holds a lock then. The endpoint delivers.
    """

    def __init__(self, reply: HttpReply, tap: Tap, method: str) -> None:
        self._reply, self._tap, self._method = reply, tap, method
        self._events = EventParser(_LONGEST)
        self.hang_up, self.end, self.abort = reply.hang_up, reply.end, reply.abort

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a whole answer, with the message in its body, if any."""
        message = body if headers.get("Content-Type") == "application/json" else None
        self._tap.note("send", message or None, {"status": status, "headers": headers})
        self._reply.send(status, headers, body)

    def open(self, headers: Mapping[str, str]) -> None:
        """Begin a stream. The answer to a POST is noted with the first event that it brings."""
        if self._method == "GET":
            self._tap.note("send", None, {"status": 200, "headers": headers})
        self._reply.open(headers)

    def write(self, data: bytes) -> None:
        """Send events, or a comment, which is not noted."""
        for event in self._events.feed(data):
            message = event.data.encode() if event.event == "message" and event.data else None
            self._tap.note("send", message, {"status": 200, **event_facts(event)})
        self._reply.write(data)
