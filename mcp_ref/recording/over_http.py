"""Recording what a server is asked over HTTP, and what it answers: each request, answer and event becomes a note.

Spec:      basic/transports#streamable-http; 2026-07-28/basic/transports/streamable-http; basic/transports/sse
Not here:  what becomes of the notes (recording/record); what a client notes (streamable_http/client)

    {"method": "POST", "headers": {...}}                  a request
    {"status": 202, "headers": {...}}                     an answer; without a message, or with the one in its body
    {"status": 200, "eventId": "s1-2", "retry": 500}      an event of a stream; without a message if it has no data
    {"method": "GET", "end": "server"}                    the end of a stream: by the server, or it broke

Each also has "exchange", the number of the HTTP request to which it belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_ref.kit.http.http_exchange import HttpReply, HttpRequest
from mcp_ref.pages.basic.transports.sse import EventParser, event_facts
from mcp_ref.wire.messages import JsonObject

if TYPE_CHECKING:
    from mcp_ref.recording.record import Tap


@contextmanager
def answering(tap: Tap, request: HttpRequest, reply: HttpReply) -> Iterator[tuple[HttpRequest, HttpReply]]:
    """Note a request in the trace, and give it with a reply that notes each answer, too."""
    noted = NotedReply(reply, tap, request)

    def read() -> bytes:
        body = request.body
        noted.note_request(body)
        return body

    if not callable(request.content):
        read()
    try:
        yield replace(request, content=read), noted
    finally:
        noted.note_request(None)
        noted.note_end("broken")


class NotedReply:
    """An `HttpReply` that shows a trace what goes out, in the order in which it does; see there for the methods.

    It notes before it writes, while the caller holds a lock.
    """

    def __init__(self, reply: HttpReply, tap: Tap, request: HttpRequest) -> None:
        self._reply, self._tap, self._method, self._opened = reply, tap, request.method, False
        self.exchange = tap.exchange()
        # Until it is noted: with its body, once that was read, or before the answer to one whose body is not wanted.
        self._request: JsonObject | None = {
            "exchange": self.exchange, "method": request.method, "headers": request.headers
        }  # fmt: skip
        # Without a limit: the events were made here, and are not refused for their size.
        self._events = EventParser(1 << 40)
        self.abort = reply.abort

    def note_request(self, body: bytes | None) -> None:
        """Note the request, once."""
        facts, self._request = self._request, None
        if facts is not None:
            self._tap.note("receive", body or None, facts)

    def _note(self, message: bytes | None, **facts: Any) -> None:
        self.note_request(None)
        self._tap.note("send", message or None, {"exchange": self.exchange, **facts})

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        is_message = headers.get("Content-Type") == "application/json"
        self._note(body if is_message else None, status=status, headers=headers)
        self._reply.send(status, headers, body)

    def open(self, headers: Mapping[str, str], status: int = 200) -> None:
        self._note(None, status=status, headers=headers)
        self._opened = True
        self._reply.open(headers, status)

    def end(self, patience: float | None = None) -> None:
        self.note_end("server")
        self._reply.end(patience)

    def hang_up(self) -> None:
        self.note_end("server")
        self._reply.hang_up()

    def note_end(self, who: str) -> None:
        """Note that the event stream has ended, once, if there was one."""
        if self._opened:
            self._opened = False
            self._note(None, method=self._method, end=who)

    def write(self, data: bytes) -> None:
        for event in self._events.feed(data):
            is_message = event.event == "message" and event.data
            self._note(event.data.encode() if is_message else None, status=200, **event_facts(event))
        self._reply.write(data)
