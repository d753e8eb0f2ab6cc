"""The server's end of one HTTP session, and its answer to one POST.

Spec:      basic/transports#streamable-http
Not here:  which request gets which answer (endpoint.py), one event stream (streams.py)

A trace is shown of HTTP the request beside a message, the status, the events of a stream:

    {"method": "POST", "headers": {...}}                  a request
    {"status": 202, "headers": {...}}                     an answer; without a message, or with the one in its body
    {"status": 200, "eventId": "s1-2", "retry": 500}      an event of a stream; without a message where it has no data
    {"hangUp": 7}                                         the end of the connection, which gives up the request 7

Each also has "exchange", the number of the HTTP request to which it belongs.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcp_ref import messages
from mcp_ref.basic.transports.sse import EventParser, event_facts
from mcp_ref.basic.transports.streamable_http.streams import PATIENCE, STREAM_HEADERS, EventStore, Stream, numbering
from mcp_ref.basic.transports.transport import Inbox, Receive, Tap
from mcp_ref.errors import McpError, TransportClosed
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.http_server import HttpReply, HttpRequest
from mcp_ref.messages import JsonObject

log = logging.getLogger(__name__)

_LONGEST_NOTED = 1 << 40  # characters of an event: it was made here, and is not refused for its size


@contextmanager
def noted(tap: Tap | None, request: HttpRequest, reply: HttpReply) -> Iterator[HttpReply]:
    """Show the trace, if there is one, what a client has sent; the reply that is given shows it the answer."""
    if tap is None:
        yield reply
        return
    answering = NotedReply(reply, tap, request.method)
    facts = {"exchange": answering.exchange, "method": request.method, "headers": request.headers}
    tap.note("receive", request.body or None, facts)
    tap.deliver()
    try:
        yield answering
    finally:
        tap.deliver()


class NotedReply:
    """An `HttpReply` that shows a trace what goes out, in the order in which it does; see there for the methods.

    It only notes while it writes, since the caller holds a lock then. The endpoint delivers.
    """

    def __init__(self, reply: HttpReply, tap: Tap, method: str) -> None:
        self._reply, self.tap, self._method = reply, tap, method
        self.exchange = tap.exchange()
        self._events = EventParser(_LONGEST_NOTED)
        self.hang_up, self.end, self.abort = reply.hang_up, reply.end, reply.abort

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a whole answer, with the message in its body, if any."""
        message = body if headers.get("Content-Type") == "application/json" else None
        self.tap.note("send", message or None, {"exchange": self.exchange, "status": status, "headers": headers})
        self._reply.send(status, headers, body)

    def open(self, headers: Mapping[str, str]) -> None:
        """Begin a stream. The answer to a POST is noted with the first event that it brings."""
        if self._method == "GET":
            self.tap.note("send", None, {"exchange": self.exchange, "status": 200, "headers": headers})
        self._reply.open(headers)

    def write(self, data: bytes) -> None:
        """Send events, or a comment, which is not noted."""
        for event in self._events.feed(data):
            message = event.data.encode() if event.event == "message" and event.data else None
            self.tap.note("send", message, {"exchange": self.exchange, "status": 200, **event_facts(event)})
        self._reply.write(data)


MOST_PENDING = 1_000
"""Messages that wait for the client to open a stream; one more is refused."""

MOST_STREAMS = 1_000
"""Streams of one session that can be resumed; the oldest that nobody reads is forgotten first."""


class ServerEnd:
    """The server's end of one HTTP session; see `Transport`.

    Threads: any. Every wait is somebody else's: a write waits for the socket of the connection that it goes to.
    """

    name = "http"

    def __init__(self, tap: Tap | None = None) -> None:
        self.tap = tap
        self._lock = threading.Lock()  # guards what follows
        self._streams: OrderedDict[str, Stream] = OrderedDict()
        self._standing: list[Stream] = []
        self._pending: deque[bytes] = deque()
        self._flushing = threading.Lock()  # held for the writes of what was pending, so that it keeps its order
        self._names = numbering("s")
        self._store: EventStore | None = None
        self._lost: Callable[[McpError], None] | None = None
        self._closed = False

    # -- Transport

    def start(self, receive: Receive, lost: Callable[[McpError], None]) -> None:
        """Remember whom to tell of the end. Messages come from the endpoint, not from here."""
        self._lost = lost

    def send(self, message: Any, deadline: Deadline) -> None:
        """Write a message that belongs to no request of the client; it waits where no stream is open.

        Raises: TransportClosed: the session is over, or too much is waiting. LocalProtocolError: it is not JSON.
        """
        text = messages.encode(message)
        with self._lock:
            if self._closed:
                raise TransportClosed("the session has ended")
            if len(self._pending) >= MOST_PENDING:
                raise TransportClosed(f"the client has no stream open, and {MOST_PENDING} messages wait for one")
            self._pending.append(text)
        self.flush()

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """Send a request; the answer comes by a POST of the client."""
        self.send(message, deadline)
        inbox.sent = True
        return inbox.until(deadline)

    def close(self, deadline: Deadline) -> None:
        """End every stream, which frees the threads that hold their connections; then tell the peer, once."""
        with self._lock:
            first, self._closed = not self._closed, True
            streams = [*self._streams.values()]
        for stream in streams:
            left = deadline.left()
            stream.end(PATIENCE if left is None else min(PATIENCE, left))
        if first and self._lost is not None:
            self._lost(TransportClosed("the session has ended"))

    # -- streams

    def keep_events(self, store: EventStore | None) -> None:
        """Say where events are kept, once the revision is agreed; None where it cannot resume."""
        self._store = store

    def new_stream(self, *, standing: bool = False) -> Stream:
        """Another stream of this session; a standing one carries what belongs to no request."""
        with self._lock:
            stream = Stream(next(self._names), self._store, standing=standing)
            self._streams[stream.name] = stream
            if standing:
                self._standing.append(stream)
            if len(self._streams) > MOST_STREAMS:
                self._forget_locked()
            closed = self._closed
        if closed:
            stream.end()
        return stream

    def _forget_locked(self) -> None:
        """Forget the oldest stream that no connection carries."""
        name = next((name for name, stream in self._streams.items() if not stream.attached), None)
        if name is not None:
            gone = self._streams.pop(name)
            self._standing = [stream for stream in self._standing if stream is not gone]

    def stream(self, name: str) -> Stream | None:
        """The stream of that name, or None."""
        return self._streams.get(name)

    def attached(self) -> int:
        """How many connections carry a stream of this session now."""
        with self._lock:
            return sum(stream.attached for stream in self._streams.values())

    def flush(self) -> None:
        """Write what belongs to no request, in order, while the client has a standing stream open."""
        with self._flushing:
            while (taken := self._take()) is not None:
                text, stream = taken
                if not stream.write(text):
                    with self._lock:
                        self._pending.appendleft(text)
        self.deliver()

    def _take(self) -> tuple[bytes, Stream] | None:
        """The message whose turn it is, and the stream that it goes on; None without either."""
        with self._lock:
            # MUST: on one of the connected streams, and no other (basic/transports#multiple-connections)
            stream = next((each for each in reversed(self._standing) if each.attached), None)
            return None if stream is None or not self._pending else (self._pending.popleft(), stream)

    def deliver(self) -> None:
        """Have the trace take what replies have noted; to be called without a lock."""
        if self.tap is not None:
            self.tap.deliver()


class PostReply:
    """The answer to one POST that holds a request, or a batch with requests; see `basic/patterns/reply.Reply`.

    Args:
        headers: of the answer to `initialize`: the session id.
        prime: whether a stream begins with an event that only has an id (2025-11-25).

    Threads: any; the handler's own, and those in which it reports progress.
    """

    def __init__(
        self, reply: HttpReply, transport: ServerEnd, headers: Callable[[], Mapping[str, str]], prime: bool
    ) -> None:
        self._reply, self._transport = reply, transport
        self._headers, self._prime = headers, prime
        self._lock = threading.Lock()  # guards what follows, and is held for the write that belongs to it
        self._stream: Stream | None = None
        self._done = False

    def send(self, message: Any, deadline: Deadline) -> None:
        """Send a message that belongs to the request: the answer, or something before it.

        Raises: TransportClosed: the answer could not be sent and cannot be fetched later. LocalProtocolError: it is no
            JSON, and nothing of it was sent.
        """
        answer = isinstance(message, list) or "method" not in message
        with self._lock:
            if self._done:
                return
            if answer and self._stream is None:
                self._answer_locked(messages.encode(message))
            else:
                self._write_locked(message, answer)
        self._transport.deliver()

    def _answer_locked(self, body: bytes) -> None:
        self._done = True
        try:
            self._reply.send(200, {"Content-Type": "application/json", **self._headers()}, body)
        except OSError as problem:
            raise TransportClosed(f"the client has hung up: {problem}") from None

    def _write_locked(self, message: Any, answer: bool) -> None:
        # Encoded before anything is noted: what is not JSON can still be answered with an error.
        texts = [messages.encode(part) for part in (message if isinstance(message, list) else [message])]
        stream, self._done = self._open_locked(), answer
        for number, text in enumerate(texts, 1):
            if not stream.write(text, last=answer and number == len(texts)):
                raise TransportClosed("the client has hung up, and this revision cannot resume")

    def _open_locked(self) -> Stream:
        if self._stream is None:
            self._stream = self._transport.new_stream()
            self._stream.attach(self._reply, prime=self._prime)
        return self._stream

    def skip(self) -> None:
        """End the answer without one: the request was cancelled. The POST ends although its handler may go on.

        The connection ends with it: its thread may be that handler's, and no other request shall wait for it. The
        client can tell, and sends nothing more over it: the head says so, or the reply breaks off.
        """
        with self._lock:
            if self._done:
                return
            self._done = True
            if self._stream is None:
                self._hang_up_locked()
            else:
                self._stream.end(hang_up=True)

    def _hang_up_locked(self) -> None:
        try:
            self._reply.open({**STREAM_HEADERS, "Connection": "close"})
            self._reply.hang_up()
        except OSError as problem:
            log.debug("the client of a cancelled request has hung up: %s", problem)

    finish = skip
    """Called when the handler has returned: whatever was not answered by then never will be."""

    def release(self, retry: int | None) -> None:
        """Close the connection but not the stream; the client comes back for the rest after `retry` milliseconds."""
        with self._lock:
            if not self._done:
                self._open_locked().release(retry)
