"""The MCP endpoint of Streamable HTTP: a function of a request and a reply. The guards, and the session era.

Spec:      basic/transports#streamable-http (2025-03-26, 2025-06-18, 2025-11-25)
Upholds:   spec_notes/basic/transports.md, spec_notes/basic/transports/streamable-http.md
Not here:  POSTs of the stateless era (stateless.py), sockets and threads (server.py), what is answered to a method
           (server/session)

    POST    of the stateless era, where that is served: see stateless.py
    POST    one message (2025-03-26: or a batch): a request is answered with JSON or a stream, the rest with 202
    GET     a standing stream; with Last-Event-ID, the rest of a stream that broke off
    DELETE  the end of the session

The handler of a request runs in the thread that calls the endpoint; no thread is started here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_ref import messages
from mcp_ref.basic.transports.streamable_http.exchange import NotedReply, PostReply, ServerEnd, noted
from mcp_ref.basic.transports.streamable_http.headers import (
    LOOPBACK,
    check_accept,
    check_content_type,
    check_host,
    check_origin,
)
from mcp_ref.basic.transports.streamable_http.sessions import Conversation, HttpSession, HttpSessions
from mcp_ref.basic.transports.streamable_http.stateless import StatelessEndpoint, era_of
from mcp_ref.basic.transports.streamable_http.streams import EventStore, MemoryEventStore, Stream, numbers_of
from mcp_ref.basic.transports.transport import Tap
from mcp_ref.errors import Refusal, RemoteProtocolError
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.http_server import HttpRefusal, HttpReply, HttpRequest
from mcp_ref.peer import Peer
from mcp_ref.revisions import REVISIONS, Revision

SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """What can be chosen about an endpoint.

    Attributes:
        hosts: the values of `Host` (without a port) that are let in; None for any. Against DNS rebinding.
        origins: the origins, or hosts of origins, that are let in; None for any.
        authenticate: says who asks: any value that can be compared, or None; raises HttpRefusal (401, 403).
        stateless: no session ids in the session era: each POST stands alone. No server requests, subscriptions or GET
            streams then.
        idle: seconds after which an unused session ends; None for never.
        sessions, sessions_per_client, streams_per_session: how many there may be.
        listens, listens_per_client: how many subscriptions of the stateless era there may be at once.
        keep_alive: seconds between the comments on a quiet stream.
        event_store: makes the store of a session's events.
    """

    hosts: Collection[str] | None = LOOPBACK
    origins: Collection[str] | None = LOOPBACK
    authenticate: Callable[[HttpRequest], Any] = lambda request: None
    stateless: bool = False
    idle: float | None = 3600
    sessions: int = 10_000
    sessions_per_client: int = 1_000
    streams_per_session: int = 16
    listens: int = 1_000
    listens_per_client: int = 500
    keep_alive: float = 15
    event_store: Callable[[], EventStore] = field(default=MemoryEventStore)


class StreamableEndpoint:
    """One MCP endpoint.

    Args:
        connect: begins a conversation over a transport; `resume` does so without the opening, for stateless mode.
        revisions: those of the session era that can be spoken here; None for all that this transport can carry.
        stateless: answers the POSTs of the stateless era; None where that is not spoken.

    Threads: any number may call it at once.
    """

    def __init__(
        self,
        connect: Callable[[ServerEnd], Conversation],
        resume: Callable[[ServerEnd, Revision], Conversation],
        options: EndpointOptions,
        tap: Callable[[], Tap | None] = lambda: None,
        revisions: Sequence[Revision] | None = None,
        stateless: StatelessEndpoint | None = None,
    ) -> None:
        self.options = options
        self._connect, self._resume, self._tap = connect, resume, tap
        if revisions is None:
            revisions = [revision for revision in REVISIONS.values() if revision.http == "streamable"]
        self._revisions = {revision.name: revision for revision in revisions}
        self._stateless = stateless
        self._methods: dict[str, Callable[[HttpRequest, HttpReply, Any], None]] = {"POST": self._post}
        if self._revisions and not options.stateless:
            self._methods |= {"GET": self._get, "DELETE": self._delete}
        self.sessions = HttpSessions(
            connect, idle=options.idle, most=options.sessions, most_per_client=options.sessions_per_client
        )

    def __call__(self, request: HttpRequest, reply: HttpReply) -> None:
        """Answer one request. Raises OSError when the client is gone."""
        session = self.sessions.find(request.headers.get(SESSION_HEADER))
        tap = self._tap() if session is None else session.transport.tap
        with noted(tap, request, reply) as answering:
            self._serve(request, answering)

    def _serve(self, request: HttpRequest, reply: HttpReply) -> None:
        try:
            check_host(request, self.options.hosts)
            check_origin(request, self.options.origins)
            identity = self.options.authenticate(request)
            answer = self._methods.get(request.method)
            if answer is None:
                # SHOULD: 405 for GET and DELETE where there are no sessions
                # (2026-07-28/basic/transports/streamable-http#earlier-streamable-http-revisions)
                raise HttpRefusal(405, "Method not allowed", headers={"Allow": ", ".join(self._methods)})
            answer(request, reply, identity)
        except HttpRefusal as refusal:
            refuse(reply, refusal)

    def close(self, timeout: float = 5) -> None:
        """End every subscription and every session; at most `timeout` seconds in all."""
        deadline = Deadline(timeout)
        if self._stateless is not None:
            self._stateless.close(timeout / 2)
        self.sessions.close(deadline.left() or 0.0)

    # -- POST

    def _post(self, request: HttpRequest, reply: HttpReply, identity: Any) -> None:
        check_content_type(request)
        check_accept(request, "application/json", "text/event-stream")
        message = _read(request.body)
        version = request.headers.get(VERSION_HEADER)
        if self._stateless is not None and (not self._revisions or era_of(message, version) == "stateless"):
            self._stateless(request, message, reply, identity)
        elif self.options.stateless:
            self._post_alone(request, reply, message)
        elif SESSION_HEADER not in request.headers and _method(message) == "initialize":
            self._open(request, reply, message, identity)
        else:
            session = self._session(request, identity)
            try:
                self._answer(session.conversation.peer, session.transport, message, reply, dict)
            finally:
                self.sessions.put_back(session)

    def _open(self, request: HttpRequest, reply: HttpReply, message: Any, identity: Any) -> None:
        """`initialize`: a new session, whose id goes with the answer; one that is refused leaves nothing behind."""
        tap = reply.tap if isinstance(reply, NotedReply) else None
        session = self.sessions.open(ServerEnd(tap), identity, request.peer)
        peer = session.conversation.peer
        opened = False

        def headers() -> Mapping[str, str]:
            nonlocal opened
            opened = session.conversation.opened
            if not opened:
                return {}
            if peer.terms.revision.sse_resumption:
                session.transport.keep_events(self.options.event_store())
            # MAY: assign a session id with the answer to initialize (basic/transports#session-management)
            return {"Mcp-Session-Id": session.id}

        try:
            self._answer(peer, session.transport, message, reply, headers)
        finally:
            self.sessions.put_back(session)
            if not opened:
                self.sessions.end(session)

    def _post_alone(self, request: HttpRequest, reply: HttpReply, message: Any) -> None:
        """Stateless mode: a conversation for this POST alone, in the revision that its header names."""
        transport = ServerEnd(self._tap())
        if _method(message) == "initialize":
            conversation = self._connect(transport)
        else:
            conversation = self._resume(transport, self._version(request))
        try:
            self._answer(conversation.peer, transport, message, reply, dict)
        finally:
            conversation.close(1)

    def _answer(
        self,
        peer: Peer,
        transport: ServerEnd,
        message: Any,
        reply: HttpReply,
        headers: Callable[[], Mapping[str, str]],
    ) -> None:
        revision = peer.terms.revision
        if not _holds_request(message, revision):
            _deliver(peer, message, transport)
            # MUST: 202 without a body (basic/transports#sending-messages-to-the-server)
            reply.send(202, {})
            return
        post = PostReply(reply, transport, headers, revision.priming_event)
        try:
            peer.deliver(message, post)
        finally:
            post.finish()

    # -- GET and DELETE

    def _get(self, request: HttpRequest, reply: HttpReply, identity: Any) -> None:
        check_accept(request, "text/event-stream")
        session = self._session(request, identity)
        try:
            if session.transport.attached() >= self.options.streams_per_session:
                raise HttpRefusal(429, "Too many streams of this session", headers={"Retry-After": "10"})
            stream = self._stream(session, request, reply)
            stream.hold(reply, self.options.keep_alive, request.gone)
        finally:
            self.sessions.put_back(session)

    def _stream(self, session: HttpSession, request: HttpRequest, reply: HttpReply) -> Stream:
        """The stream that a GET asks for, attached: the rest of one that broke off, or a new standing one."""
        last = request.headers.get("last-event-id")
        revision = session.conversation.peer.terms.revision
        if last is None or not revision.sse_resumption:
            stream = session.transport.new_stream(standing=True)
            stream.attach(reply, prime=revision.priming_event)
            session.transport.flush()
            return stream
        name, number = numbers_of(last) or ("", 0)
        found = session.transport.stream(name)
        # MUST NOT: replay what was sent on another stream (basic/transports#resumability-and-redelivery)
        if found is None or not found.attach(reply, number):
            raise HttpRefusal(400, "The events after this Last-Event-ID are not kept")
        session.transport.flush()
        return found

    def _delete(self, request: HttpRequest, reply: HttpReply, identity: Any) -> None:
        session = self._session(request, identity)
        self.sessions.put_back(session)
        self.sessions.end(session)
        reply.send(200, {})

    # -- sessions and versions

    def _session(self, request: HttpRequest, identity: Any) -> HttpSession:
        """The session that a request names, with its version header checked."""
        session_id = request.headers.get(SESSION_HEADER)
        if session_id is None:
            # SHOULD: 400 without the session id (basic/transports#session-management)
            raise HttpRefusal(400, "Mcp-Session-Id is missing")
        session = self.sessions.take(session_id, identity)
        over = session.conversation.peer.closed is not None
        try:
            if over:
                # MUST: 404 once a session is over (basic/transports#session-management)
                raise HttpRefusal(404, "Session not found")
            if VERSION_HEADER in request.headers and session.conversation.peer.terms.revision.version_header:
                self._version(request)
        except HttpRefusal:
            self.sessions.put_back(session)
            if over:
                self.sessions.end(session)
            raise
        return session

    def _version(self, request: HttpRequest) -> Revision:
        """The revision that the header names; 400 for one that is not spoken here."""
        # SHOULD: assume 2025-03-26 where there is no header (basic/transports#protocol-version-header)
        revision = self._revisions.get(request.headers.get(VERSION_HEADER, "2025-03-26"))
        # MUST: 400 for an invalid or unsupported version (basic/transports#protocol-version-header)
        if revision is None:
            raise HttpRefusal(400, "Unsupported MCP-Protocol-Version")
        return revision


def _read(body: bytes) -> Any:
    try:
        return messages.decode(body)
    except Refusal as refusal:
        raise HttpRefusal(400, refusal.message, code=refusal.code) from None


def _method(message: Any) -> Any:
    return message.get("method") if isinstance(message, dict) else None


def _holds_request(message: Any, revision: Revision) -> bool:
    """Whether the body asks for an answer; 400 for what is no message of the revision."""
    if isinstance(message, list):
        if not revision.batching or not message:
            raise HttpRefusal(400, "Invalid request: not a message of this revision")
        # An entry that is no message at all gets an error in the array.
        return any(_is_request(each) for each in message)
    try:
        return messages.kind_of(message) == "request"
    except RemoteProtocolError:
        return False  # a malformed response; the peer logs it
    except Refusal as refusal:
        raise HttpRefusal(400, refusal.message, code=refusal.code) from None


def _is_request(message: Any) -> bool:
    try:
        return messages.kind_of(message) == "request"
    except RemoteProtocolError:
        return False
    except Refusal:
        return True


def _deliver(peer: Peer, message: Any, transport: ServerEnd) -> None:
    """Hand over what gets no answer: notifications and responses."""
    for each in message if isinstance(message, list) else [message]:
        peer.deliver(each, transport)


def refuse(reply: HttpReply, refusal: HttpRefusal) -> None:
    """Answer with a status and, in the body, a JSON-RPC error without `id`. Nothing of the request is repeated."""
    body = {"jsonrpc": "2.0", "error": {"code": refusal.code, "message": refusal.message}}
    headers = {"Content-Type": "application/json", **refusal.headers}
    reply.send(refusal.status, headers, messages.encode(body))
