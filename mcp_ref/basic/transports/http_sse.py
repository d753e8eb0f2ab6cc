"""HTTP+SSE, the server's side: the transport of 2024-11-05, kept for clients of that time.

Spec:      2024-11-05/basic/transports#http-with-sse; basic/transports#backwards-compatibility of later revisions
Upholds:   spec_notes/basic/transports.md, the rows on HTTP+SSE
Reads:     sse.py, streamable_http (guards, http, streams), basic/patterns/request_response
Not here:  the client's side (http_sse_client)

    GET  /sse                     an event stream; its first event, `endpoint`, names where to POST
    POST /messages?session=ID     one message; 202, and whatever is answered comes as a `message` event

The stream is the session: when it ends, so does the conversation. Handlers run in the peer's workers, because the POST
of a request is over before its answer is there.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs

from mcp_ref.basic import messages
from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.transports.sse import encode_event
from mcp_ref.basic.transports.streamable_http.endpoint import EndpointOptions, refuse
from mcp_ref.basic.transports.streamable_http.guards import (
    check_accept,
    check_content_type,
    check_host,
    check_origin,
)
from mcp_ref.basic.transports.streamable_http.http import HttpRefusal, HttpReply, HttpRequest
from mcp_ref.basic.transports.streamable_http.noting import noted
from mcp_ref.basic.transports.streamable_http.sessions import Conversation
from mcp_ref.basic.transports.streamable_http.streams import PATIENCE, Stream
from mcp_ref.basic.transports.transport import Inbox, Receive, Tap
from mcp_ref.errors import McpError, TransportClosed

__all__ = ["SseEndpoint"]

JsonObject = dict[str, Any]


class _SseTransport:
    """The server's end of one stream; see `Transport`."""

    name = "http+sse"

    def __init__(self, tap: Tap | None) -> None:
        self.id = secrets.token_urlsafe(32)
        self.stream = Stream(self.id, None)
        self.receive: Receive = lambda data: None
        self._tap = tap
        self._lock = threading.Lock()  # guards _lost, which is called once
        self._lost: Callable[[McpError], None] | None = None

    def start(self, receive: Receive, lost: Callable[[McpError], None]) -> None:
        """Remember where messages go; they come from the endpoint's POSTs."""
        self.receive, self._lost = receive, lost

    def send(self, message: Any, deadline: Deadline) -> None:
        """Write one message as an event. Raises: TransportClosed when the client is gone; LocalProtocolError."""
        written = self.stream.write(messages.encode(message))
        if self._tap is not None:
            self._tap.deliver()
        if not written:
            raise TransportClosed("the client has closed the event stream")

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """Send a request; the answer comes by a POST."""
        self.send(message, deadline)
        return inbox.until(deadline)

    def close(self, deadline: Deadline) -> None:
        """End the stream, which frees the thread that holds its connection; then tell the peer, once."""
        left = deadline.left()
        self.stream.end(PATIENCE if left is None else min(PATIENCE, left))
        with self._lock:
            lost, self._lost = self._lost, None
        if lost is not None:
            lost(TransportClosed("the event stream has ended"))


class SseEndpoint:
    """The two endpoints of the transport.

    Args:
        connect: begins a conversation over a transport.
        messages_path: the path of the POST endpoint, said in the `endpoint` event.

    Threads: any number may call `listen` and `post` at once.
    """

    def __init__(
        self,
        connect: Callable[[Any], Conversation],
        messages_path: str,
        options: EndpointOptions,
        tap: Callable[[], Tap | None] = lambda: None,
    ) -> None:
        self.options = options
        self._connect, self._messages_path, self._tap = connect, messages_path, tap
        self._lock = threading.Lock()  # guards the three fields below
        self._sessions: dict[str, tuple[_SseTransport, Conversation, Any]] = {}
        self._per_client: Counter[str] = Counter()  # those that are being opened included
        self._closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    def listen(self, request: HttpRequest, reply: HttpReply) -> None:
        """Answer a GET with the event stream, and hold it until one side ends it."""
        with noted(self._tap(), request, reply) as answering:
            self._listen(request, answering)

    def _listen(self, request: HttpRequest, reply: HttpReply) -> None:
        try:
            identity = self._enter(request, "GET")
            check_accept(request, "text/event-stream")
            transport = _SseTransport(self._tap())
            conversation = self._begin(transport, identity, request.peer)
        except HttpRefusal as refusal:
            refuse(reply, refusal)
            return
        try:
            # MUST: an `endpoint` event with the URI to POST to (2024-11-05/basic/transports#http-with-sse)
            where = encode_event(f"{self._messages_path}?session={transport.id}", event="endpoint")
            transport.stream.attach(reply, first=where)
            transport.stream.hold(reply, self.options.keep_alive, request.gone)
        finally:
            with self._lock:
                del self._sessions[transport.id]
                self._release_locked(request.peer)
            conversation.close(5)

    def _begin(self, transport: _SseTransport, identity: Any, client: str) -> Conversation:
        with self._lock:
            if self._closed or self._per_client.total() >= self.options.sessions:
                raise HttpRefusal(503, "Too many sessions", headers={"Retry-After": "10"})
            if self._per_client[client] >= self.options.sessions_per_client:
                raise HttpRefusal(429, "Too many sessions of this client", headers={"Retry-After": "10"})
            self._per_client[client] += 1
        try:
            conversation = self._connect(transport)
        except BaseException:
            with self._lock:
                self._release_locked(client)
            raise
        with self._lock:
            self._sessions[transport.id] = transport, conversation, identity
            closed = self._closed
        if closed:
            # The stream is over before it begins, and `listen` cleans up.
            conversation.close(0)
        return conversation

    def _release_locked(self, client: str) -> None:
        self._per_client[client] -= 1
        if not self._per_client[client]:
            del self._per_client[client]

    def post(self, request: HttpRequest, reply: HttpReply) -> None:
        """Take one message: 202, and the rest happens on the stream."""
        with noted(self._tap(), request, reply) as answering:
            self._post(request, answering)

    def _post(self, request: HttpRequest, reply: HttpReply) -> None:
        try:
            identity = self._enter(request, "POST")
            check_content_type(request)
            session_id = parse_qs(request.query).get("session", [""])[0]
            found = self._sessions.get(session_id)
            if found is None or found[2] != identity or found[1].peer.closed is not None:
                raise HttpRefusal(404, "Session not found")
        except HttpRefusal as refusal:
            refuse(reply, refusal)
            return
        transport = found[0]
        # Routed first: the client's next message may come over another connection, and must not overtake this one.
        transport.receive(request.body)
        reply.send(202, {"Content-Type": "text/plain"}, b"Accepted")

    def _enter(self, request: HttpRequest, method: str) -> Any:
        check_host(request, self.options.hosts)
        check_origin(request, self.options.origins)
        if request.method != method:
            raise HttpRefusal(405, "Method not allowed", headers={"Allow": method})
        return self.options.authenticate(request)

    def close(self, timeout: float = 5) -> None:
        """End every stream, and with it its conversation; at most `timeout` seconds in all."""
        deadline = Deadline(timeout)
        with self._lock:
            self._closed = True
            sessions = list(self._sessions.values())
        for _, conversation, _ in sessions:
            conversation.close(deadline.left() or 0.0)
