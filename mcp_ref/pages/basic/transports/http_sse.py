"""HTTP+SSE: the transport of 2024-11-05, kept for the programs of that time. The server's half, the client's half.

Spec:      2024-11-05/basic/transports#http-with-sse; basic/transports#backwards-compatibility of later revisions
Upholds:   spec_notes/basic/transports.md, the rows on HTTP+SSE
Not here:  the format of an event stream (sse.py), sockets (kit/http/http_server, kit/http/http_client)

    GET  /sse                     an event stream; its first event, `endpoint`, names where to POST
    POST /messages?session=ID     one message; 202, and whatever is answered comes as a `message` event

The stream is the session: when it ends, so does the conversation. Handlers run in the peer's workers, because the POST
of a request is over before its answer is there.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import parse_qs

from mcp_ref.errors import McpError, RemoteProtocolError, TransportClosed
from mcp_ref.kit.http.http_call import HttpCall, within
from mcp_ref.kit.http.http_exchange import HttpRefusal, HttpReply, HttpRequest, Quota
from mcp_ref.kit.threads.deadline import CLOSED, Deadline, Interrupted, has_ended
from mcp_ref.pages.basic.transports.sse import CONTENT_TYPE, Event, encode_event
from mcp_ref.pages.basic.transports.streamable_http.client import HttpOptions, HttpTransport, checked_url
from mcp_ref.pages.basic.transports.streamable_http.cors import for_page
from mcp_ref.pages.basic.transports.streamable_http.headers import (
    check_accept,
    check_content_type,
    check_host_and_origin,
)
from mcp_ref.pages.basic.transports.streamable_http.server import EndpointOptions, answering, check_scopes, expiry
from mcp_ref.pages.basic.transports.streamable_http.streams import UNREAD_TIMEOUT, EventStream, HttpReplyBase
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.served import Reply
from mcp_ref.wire.transport import MAX_MESSAGE, Lost, Receive, Transport

if TYPE_CHECKING:
    from mcp_ref.kit.http.http_client import HttpResponse
    from mcp_ref.recording.record import Tap
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Session as ServerSession

log = logging.getLogger(__name__)


class _SseSession(Transport, Reply):
    """The server's end of one stream, which is the session: the `Transport` of its conversation."""

    name = "http+sse"
    private = False
    conversation: ServerSession

    def __init__(self, tap: Tap | None, principal: Any) -> None:
        self.id = secrets.token_urlsafe(32)
        self.tap, self.principal = tap, principal
        self.stream = EventStream(self.id, None)
        self.receive: Receive = lambda data: None
        self._lock = threading.Lock()  # guards _lost, which is called once
        self._lost: Lost | None = None

    def start(self, receive: Receive, lost: Lost) -> None:
        """Remember where messages go; they come from the endpoint's POSTs."""
        self.receive, self._lost = receive, lost

    def send(self, message: Any, deadline: Deadline) -> None:
        """Write one message as an event. Raises: TransportClosed if the client is gone; LocalProtocolError."""
        written = self.stream.write(messages.encode(message))
        if not written:
            raise TransportClosed("the client has closed the event stream")

    def close(self, deadline: Deadline) -> None:
        """End the stream, which frees the thread that holds its connection; then tell the peer, once."""
        self.stream.end(deadline.at_most(UNREAD_TIMEOUT))
        with self._lock:
            lost, self._lost = self._lost, None
        if lost is not None:
            lost(TransportClosed("the event stream has ended"))


class SseEndpoint:
    """The two endpoints of the transport.

    Args:
        messages_path: the path of the POST endpoint, said in the `endpoint` event.
        tap: gives what a connection shows its traffic to.

    Threads: any number may call `listen` and `post` at once.
    """

    def __init__(
        self, server: Server, messages_path: str, options: EndpointOptions, tap: Callable[[], Tap | None] = lambda: None
    ) -> None:
        self._server, self._messages_path, self._options, self._tap = server, messages_path, options, tap
        self.revisions = tuple(revision for revision in server.revisions if revision.http == "sse")
        self._places = Quota("sessions", options.max_sessions, options.max_sessions_per_client)
        self._lock = threading.Lock()  # guards the two fields below
        self._open: dict[str, _SseSession] = {}
        self._closed = False

    def listen(self, request: HttpRequest, reply: HttpReply) -> None:
        """Answer a GET with the event stream, and hold it until one side ends it."""
        tap, reply = self._tap(), for_page(request, reply, self._options.origins, "GET")
        with answering(tap, request, reply) as (request, reply):
            identity = self._enter(request, "GET")
            check_accept(request, CONTENT_TYPE)
            if self._options.authorize is not None:
                self._options.authorize(identity, None, ())
            self._places.take(request.peer)
            try:
                self._hold(_SseSession(tap, identity), request, reply)
            finally:
                self._places.give_back(request.peer)

    def _hold(self, session: _SseSession, request: HttpRequest, reply: HttpReply) -> None:
        """Hold a conversation over a stream, from its beginning until one side ends it."""
        session.conversation = self._server.connect(session, self.revisions)
        if session.principal is not None:
            session.conversation.source = str(session.principal)
        try:
            with self._lock:
                self._open[session.id] = session
                closed = self._closed
            if closed:
                # The stream is over before it begins.
                session.stream.end()
            # MUST: the stream begins with an `endpoint` event that has the URI to POST to
            # (2024-11-05/basic/transports#security-warning)
            where = encode_event(f"{self._messages_path}?session={session.id}", event="endpoint")
            session.stream.attach(reply, first=where)
            # Each POST may bring a newer token.
            until = lambda: expiry(session.principal)  # noqa: E731
            session.stream.hold(reply, self._options.keep_alive, request.gone, lambda: None, until)
        finally:
            with self._lock:
                self._open.pop(session.id, None)
            session.conversation.close(5)

    def post(self, request: HttpRequest, reply: HttpReply) -> None:
        """Take one message: 202, and the rest happens on the stream."""
        # MUST: a server has two endpoints, the event stream (`listen`) and one to POST to
        # (2024-11-05/basic/transports#security-warning)
        reply = for_page(request, reply, self._options.origins, "POST")
        session = self._open.get(parse_qs(request.query).get("session", [""])[0])
        tap = self._tap() if session is None else session.tap
        with answering(tap, request, reply) as (request, reply):
            identity = self._enter(request, "POST")
            check_content_type(request)
            if session is None or session.principal != identity or session.conversation.connection.closed is not None:
                raise HttpRefusal(404, "Session not found")
            # What the head says is right: only now is the body read.
            body = request.body
            if self._options.authorize is not None:
                check_scopes(self._options.authorize, identity, messages.decode(body))
            # Routed first: the client's next message may come over another connection, and must not overtake this one.
            if identity is None:
                session.receive(body)
            else:
                session.principal, asked = identity, HttpReplyBase(session.send)
                asked.principal, asked.authorize = identity, self._options.authorize
                session.conversation.connection.receive(body, asked)
            reply.send(202, {"Content-Type": "text/plain"}, b"Accepted")

    def _enter(self, request: HttpRequest, method: str) -> Any:
        check_host_and_origin(request, self._options.hosts, self._options.origins)
        if request.method != method:
            raise HttpRefusal(405, "Method not allowed", headers={"Allow": method})
        return None if self._options.authenticate is None else self._options.authenticate(request)

    def drain(self, timeout: float) -> None:
        """Refuse new sessions, and let the calls of those that are open end, for at most `timeout` seconds."""
        self._places.close()
        deadline = Deadline(timeout)
        for session in list(self._open.values()):
            session.conversation.close((deadline.left() or 0.0) + 0.1, drain=deadline.left() or 0.0)

    def close(self, timeout: float = 5) -> None:
        """End every stream, and with it its conversation; at most `timeout` seconds in all."""
        deadline = Deadline(timeout)
        self._places.close()
        with self._lock:
            self._closed = True
            sessions = list(self._open.values())
        for session in sessions:
            session.conversation.close(deadline.left() or 0.0)


# -- http sse client -------------------------------------------------------------------------------------


class SseClientTransport(HttpTransport, Transport):
    """The client's side of HTTP+SSE.

    Args:
        url: of the event stream.
        max_message: bytes that an inbound message may have.
        opening: seconds in which the stream must have named the URI to send to; None for no limit.
        options: `headers`, `verify`, `cert`, `proxies`, `trust_env`, `session`, `tap`: see `HttpOptions`.

    Raises: ValueError: the URL is not one of http(s), or a header cannot be sent.
    Threads: `send` and `close` by any; the stream is read by `mcp-sse-listen`.
    """

    name = "http+sse"

    def __init__(
        self, url: str, *, max_message: int = MAX_MESSAGE, opening: float | None = 10, **options: Unpack[HttpOptions]
    ) -> None:
        super().__init__(url, max_message, options)
        self._opening = opening
        self._problem: McpError | None = None  # why the stream has ended
        self._endpoint: str | None = None  # the URI to send to, once it is known
        self._thread: threading.Thread | None = None
        self._call = HttpCall(Deadline(None))

    def start(self, receive: Receive, lost: Lost) -> None:
        """Open the stream, and learn where to send; see `Transport.start`.

        Blocks: until the `endpoint` event has come, at most `opening` seconds.
        Raises: TransportClosed, RequestTimeout, HttpStatusError, RemoteProtocolError (no stream, or a URI elsewhere).
        """
        deadline = self._call.deadline = Deadline(self._opening)
        super().start(receive, lost)
        try:
            self._begin(self._call)
            headers = {"Accept": CONTENT_TYPE, "Cache-Control": "no-store"}
            # In this thread: somebody waits for it, and may have to log in.
            reply = self._open(self._call, "GET", headers, operation="GET")
            self._deliver(reply)
            if reply.status != 200 or reply.content_type != CONTENT_TYPE:
                # So says who has Streamable HTTP at this URL.
                asked = " of 2024-11-05, which later revisions have not," if reply.status in (400, 405, 406) else ""
                raise reply.refusal(f"the event stream{asked}", reply.body(1000) if reply.status >= 400 else b"")
            events = self._deliver_events(reply)
            named = next((event.data for event in events if event.event == "endpoint"), None)
            if named is None:
                raise TransportClosed("the server has ended the event stream")
            if (target := within(self._url, named)) is None:
                # It would get our messages.
                raise RemoteProtocolError(f"the server names another origin to send to, or no URL: {named!r}")
            self._endpoint = checked_url(target)
            deadline.lift()
            # Daemon: a program that ends without close() must end, though the server has not.
            self._thread = threading.Thread(
                target=self._listen, args=(reply, events), name="mcp-sse-listen", daemon=True
            )
            self._thread.start()
        except BaseException as failed:
            with self._lock:
                self._lost = None
            self._end(Deadline(1))
            # The thread has, unless it never began.
            self._end_call(self._call)
            if isinstance(failed, Interrupted):
                raise TransportClosed(CLOSED) from None
            raise

    def _listen(self, reply: HttpResponse, events: Iterator[Event]) -> None:
        """Read the standing stream, in the thread `mcp-sse-listen`: it ends when its call is cut."""
        ended = "client"
        try:
            for _ in events:
                pass
            problem: McpError = TransportClosed("the server has ended the event stream")
            ended = "server"
        except Interrupted:
            problem = TransportClosed(CLOSED)
        except McpError as reason:
            problem, ended = reason, "broken"
        except Exception as reason:
            log.exception("reading the event stream failed")
            problem = TransportClosed(f"reading the event stream failed: {reason}")
        self._note_stream_end(reply, ended)
        self._problem = problem
        self._end_call(self._call)
        self._tell(problem)

    def _tell(self, reason: McpError) -> None:
        """Say once that nothing more will arrive, and only if the peer was told that it had begun."""
        with self._lock:
            lost, self._lost = self._lost, None
        if lost is not None:
            lost(reason)

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """POST one message to the URI that the server has named.

        Blocks: until the server has accepted it, at most until the deadline.
        Raises: TransportClosed, RequestTimeout, HttpStatusError, LocalProtocolError (it is not JSON).
        """
        text, call = messages.encode(message), HttpCall(deadline)
        try:
            self._begin(call)
            if self._endpoint is None or self._problem is not None:
                raise TransportClosed(str(self._problem or CLOSED))
            # MUST: everything that the client sends is POSTed to the URI of the `endpoint` event
            # (2024-11-05/basic/transports#security-warning)
            headers = {"Content-Type": "application/json"}
            reply = self._open(call, "POST", headers, text, message, self._endpoint)
            self._deliver(reply)
            if reply.status == 404:
                # The session is as old as its stream: a server that came back has another, and this one's end is near.
                raise TransportClosed(f"the server has ended the session: {reply.refusal('a message', b'')}")
            if not 200 <= reply.status < 300:
                raise reply.refusal("a message", reply.body(1000))
        except Interrupted:
            raise TransportClosed(CLOSED) from None
        finally:
            self._end_call(call)

    def close(self, deadline: Deadline) -> None:
        """Close the stream, which ends the conversation. Idempotent; any thread may call it.

        All calls are cut. With the call of the stream ends the thread `mcp-sse-listen`; it is joined, and so is
        `mcp-http-clock`.
        """
        self._end(deadline)
        self._tell(TransportClosed(CLOSED))

    def _end(self, deadline: Deadline) -> None:
        with self._lock:
            self._closed, http = True, self._http
        if http is not None:
            http.close(deadline)
            if self._thread is not None:
                has_ended(self._thread, deadline)
