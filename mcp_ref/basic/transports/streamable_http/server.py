"""Streamable HTTP, the server's half: POST, GET and DELETE at one path, in both eras.

Spec:      basic/transports#streamable-http; 2026-07-28/basic/transports/streamable-http; basic/versioning
Upholds:   spec_notes/basic/transports.md, spec_notes/basic/transports/streamable-http.md
Not here:  sockets and threads (machinery/http_server), one event stream (streams.py), what headers must say
           (headers.py), what is answered to a method (server/session, server/stateless)

    session era       POST     one message (2025-03-26: or a batch): a request is answered with JSON or a stream, the
                               rest with 202
                      GET      a standing stream; with Last-Event-ID, the rest of a stream that broke off
                      DELETE   the end of the session
    stateless era     POST     a request is answered from itself alone, with JSON or a stream; a notification with 202
                               subscriptions/listen: a stream that lasts until the client or the server ends it

The handler of a request runs in the thread that calls the endpoint; no thread is started here.

A trace is shown of HTTP the request beside a message, the status, the events of a stream:

    {"method": "POST", "headers": {...}}                  a request
    {"status": 202, "headers": {...}}                     an answer; without a message, or with the one in its body
    {"status": 200, "eventId": "s1-2", "retry": 500}      an event of a stream; without a message if it has no data
    {"hangUp": 7}                                         the end of the connection, which gives up the request 7

Each also has "exchange", the number of the HTTP request to which it belongs.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from mcp_ref import messages
from mcp_ref.basic.batching import wants_answer
from mcp_ref.basic.transports.sse import CONTENT_TYPE, EventParser, event_facts
from mcp_ref.basic.transports.streamable_http.headers import (
    LOOPBACK,
    MirroredHeaders,
    check_accept,
    check_content_type,
    check_host_and_origin,
    http_status,
)
from mcp_ref.basic.transports.streamable_http.streams import (
    STREAM_HEADERS,
    UNREAD_TIMEOUT,
    EventStore,
    EventStream,
    MemoryEventStore,
    numbers_of,
)
from mcp_ref.basic.transports.transport import Inbox, Receive
from mcp_ref.basic.versioning import InvalidEnvelope, complete, is_stateless
from mcp_ref.errors import (
    InternalError,
    InvalidRequest,
    LocalProtocolError,
    McpError,
    Refusal,
    RemoteProtocolError,
    TransportClosed,
    UnsupportedVersion,
)
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.http_exchange import HttpRefusal, HttpReply, HttpRequest, Places
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import SESSION_REVISIONS, Revision

if TYPE_CHECKING:
    from mcp_ref.basic.subscriptions import Subscription
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Session
    from mcp_ref.trace.record import Tap

log = logging.getLogger(__name__)

SESSION_ID = "mcp-session-id"
VERSION = "mcp-protocol-version"
JSON = {"Content-Type": "application/json"}

MAX_WAITING = 1_000
"""Messages that wait for a client to open a stream, or to read; one more is refused."""

MAX_STREAMS = 1_000
"""Streams of one session that can be resumed; the oldest that no connection carries is forgotten first."""

RESUME_TIMEOUT = 30.0
"""Seconds after which nobody is expected to come back for a stream that broke off, where that matters."""

MAX_ENDED = 10
"""Idle sessions that are ended while one request is answered."""

_SESSION_ERA = frozenset(revision.name for revision in SESSION_REVISIONS)


Authorize = Callable[[Any, Any, Collection[str]], None]


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """What can be chosen about an endpoint.

    Attributes:
        hosts: the values of `Host` (without a port) that are let in; None for any. Against DNS rebinding.
        origins: the origins, or hosts of origins, that are let in; None for any.
        authenticate: says who asks: any value that can be compared, or None; raises HttpRefusal (401, 403).
        authorize: called with who asks and the message (None: a GET or DELETE) before anything of it is done, and with
            more scopes that a handler needs; raises HttpRefusal (403).
        sessions: whether there are session ids in the session era. Without them each POST stands alone, which any of
            several processes can answer; server requests, subscriptions and GET streams are not offered then.
        session_prefix: begins each session id, so that a proxy can tell by it in which process the session lives.
        idle: seconds after which an unused session ends; None for never.
        max_sessions, max_sessions_per_client, max_streams_per_session: how many there may be. One more session takes
            the place of that of the same principal (without one: of any) that has been unused for longest.
        max_subscriptions, max_subscriptions_per_client: how many `subscriptions/listen` of the stateless era.
        keep_alive: seconds between the comments on a quiet stream.
        event_store: makes the store of the events of all sessions.
    """

    hosts: Collection[str] | None = LOOPBACK
    origins: Collection[str] | None = LOOPBACK
    authenticate: Callable[[HttpRequest], Any] | None = None
    authorize: Authorize | None = None
    sessions: bool = True
    session_prefix: str = ""
    idle: float | None = 3600
    max_sessions: int = 10_000
    max_sessions_per_client: int = 1_000
    max_streams_per_session: int = 16
    max_subscriptions: int = 1_000
    max_subscriptions_per_client: int = 500
    keep_alive: float = 15
    event_store: Callable[[], EventStore] = field(default=MemoryEventStore)


def era_of(message: Any, version: str | None) -> Literal["session", "stateless"]:
    """Which era a POST is of, at an endpoint that serves both.

    Args:
        message: the body.
        version: the header `MCP-Protocol-Version`, if there is one. A name that the session era does not know is never
            a header of the session era.

    Spec: basic/versioning#compatibility-matrix
    """
    if version is not None and version not in _SESSION_ERA:
        return "stateless"
    method = message.get("method") if isinstance(message, dict) else None
    modern = isinstance(method, str) and is_stateless(method, message.get("params"))
    return "stateless" if modern else "session"


class StreamableEndpoint:
    """The MCP endpoint of a server.

    Args:
        tap: gives what a connection shows its traffic to.

    Threads: any number may call it at once.
    """

    def __init__(
        self, server: Server, options: EndpointOptions | None = None, tap: Callable[[], Tap | None] = lambda: None
    ) -> None:
        self.options, self._tap = options or EndpointOptions(), tap
        self.sessions = SessionEra(server, self.options)
        self.stateless = StatelessEra(server, self.options)

    def __call__(self, request: HttpRequest, reply: HttpReply) -> None:
        """Answer one request. Raises OSError if the client is gone."""
        # Who asks again over a connection has read what it was answered before.
        if (delivered := request.connection.pop("delivered", None)) is not None:
            delivered()
        session = self.sessions.find(request.headers.get(SESSION_ID))
        tap = self._tap() if session is None else session.tap
        with noted(tap, request, reply) as (request, reply):
            try:
                # 1. Who asks, and from where? That is in the head; the body is read after it.
                check_host_and_origin(request, self.options.hosts, self.options.origins)
                # SHOULD: authenticate all connections (basic/transports#security-warning)
                identity = None if self.options.authenticate is None else self.options.authenticate(request)
                # 2. A POST brings a message. May who asks send it?
                message = None
                if request.method == "POST":
                    check_content_type(request)
                    check_accept(request, "application/json", CONTENT_TYPE)
                    message = messages.decode(request.body)
                if self.options.authorize is not None:
                    self.options.authorize(identity, message, ())
                # 3. GET and DELETE exist in the session era alone.
                with_sessions = self.options.sessions and bool(self.sessions.revisions)
                if with_sessions and request.method == "GET":
                    self.sessions.get(request, reply, identity)
                elif with_sessions and request.method == "DELETE":
                    self.sessions.delete(request, reply, identity)
                elif request.method != "POST":
                    # SHOULD: 405 for GET and DELETE if there are no sessions
                    # (2026-07-28/basic/transports/streamable-http#earlier-streamable-http-revisions)
                    allowed = "POST, GET, DELETE" if with_sessions else "POST"
                    raise HttpRefusal(405, "Method not allowed", headers={"Allow": allowed})
                else:
                    # 4. A POST is of one of the two eras.
                    # MUST: one path takes POST, and in the session era GET (basic/transports#streamable-http;
                    # basic/transports/streamable-http#)
                    stateless = self.stateless.revisions and (
                        not self.sessions.revisions or era_of(message, request.headers.get(VERSION)) == "stateless"
                    )
                    era = self.stateless if stateless else self.sessions
                    era.post(request, message, reply, identity, tap)
            except HttpRefusal as refused:
                refuse(reply, refused)
            except Refusal as refused:
                # MUST: input that cannot be accepted is answered with an HTTP error status
                # (basic/transports#sending-messages-to-the-server)
                refuse(reply, HttpRefusal(400, refused.message, code=refused.code))

    def close(self, timeout: float = 5) -> None:
        """End every subscription and every session; at most `timeout` seconds in all."""
        deadline = Deadline(timeout)
        self.stateless.close(timeout / 2)
        self.sessions.close(deadline.left() or 0.0)


def expiry(principal: Any) -> Callable[[], float]:
    """Gives when the token of who asks ends, in seconds since the epoch; the streams that it opened end with it."""
    ends = getattr(principal, "expires", None)
    return lambda: float("inf") if ends is None else float(ends)


def refuse(reply: HttpReply, refusal: HttpRefusal) -> None:
    """Answer with a status and a JSON-RPC error without `id` in the body. Nothing of the request is repeated."""
    # MAY: a JSON-RPC error without `id` in the body of a refusal (basic/transports#sending-messages-to-the-server)
    body = {"jsonrpc": "2.0", "error": {"code": refusal.code, "message": refusal.message}}
    reply.send(refusal.status, {**JSON, **refusal.headers}, messages.encode(body))


class Asked:
    """What a reply knows of who asks, for the handler of the request (incoming).

    Attributes:
        principal: who asks, as the authentication said; None if nobody is asked.
        authorize: refuses a request whose principal lacks scopes; None: scopes are not looked at.
    """

    principal: Any = None
    authorize: Authorize | None = None
    _refused: HttpRefusal | None = None

    def require_scopes(self, message: JsonObject, scopes: Collection[str]) -> None:
        """Refuse the request of that method and params unless who asks has these scopes too."""
        if self.authorize is None:
            raise LocalProtocolError("nobody has scopes here: serve with authorization=")
        try:
            self.authorize(self.principal, message, scopes)
        except HttpRefusal as refusal:
            self._refused = refusal
            raise


class PostReply(Asked):
    """The answer to one POST: JSON if the answer comes first, an event stream once something goes before it.

    Args:
        new_stream: makes the stream, once one is needed.
        prime: whether that begins with an event that only has an id (2025-11-25).
        headers: asked for more headers of an answer that is JSON, such as the session id.
        gone: whether the client has hung up.

    Attributes:
        status: of an answer that is JSON.
        done: whether nothing more will be sent.
        stream: the event stream, or None.

    Threads: any; the handler's own, and those in which it reports progress.
    """

    def __init__(
        self,
        reply: HttpReply,
        new_stream: Callable[[], EventStream],
        tap: Tap | None,
        prime: bool = False,
        headers: Callable[[], Mapping[str, str]] = dict,
        gone: Callable[[], bool] = bool,
    ) -> None:
        self._reply, self._new_stream, self._tap = reply, new_stream, tap
        self._prime, self._headers, self._gone = prime, headers, gone
        self._left: Deadline | None = None  # since the client has hung up: when it is not expected back any more
        self.status = 200
        self._lock = threading.Lock()  # guards the two fields below, and is held for the write that belongs to them
        self.stream: EventStream | None = None
        self.done = False

    def send(self, message: Any, deadline: Deadline) -> None:
        """Send a message that belongs to the request: the answer, or something before it.

        Raises: TransportClosed: the client is gone, and cannot come back for it. LocalProtocolError: it is not JSON;
            nothing of it was sent.
        """
        answer = isinstance(message, list) or "method" not in message
        with self._lock:
            if self.done:
                return
            # MUST: answer a request with `application/json` or `text/event-stream`
            # (basic/transports#sending-messages-to-the-server)
            if answer and self.stream is None:
                body = messages.encode(message)
                self.done = True
                status, headers = self.status, {**JSON, **self._headers()}
                refused = self._refused
                if refused is not None and isinstance(message, dict) and message.get("error", {}).get("code") == 403:
                    # SHOULD: 403 with a challenge for a token without the scopes that the operation needs
                    # (basic/authorization#runtime-insufficient-scope-errors)
                    status, headers = refused.status, {**headers, **refused.headers}
                try:
                    self._reply.send(status, headers, body)
                except OSError as problem:
                    raise TransportClosed(f"the client has hung up: {problem}") from None
            else:
                # Encoded before anything is written: what is not JSON can still be answered with an error.
                texts = [messages.encode(each) for each in (message if isinstance(message, list) else [message])]
                stream, self.done = self._open_locked(), answer
                for number, text in enumerate(texts, 1):
                    # SHOULD: the stream of a POST ends with the response
                    # (basic/transports/streamable-http#receiving-messages)
                    if not stream.write(text, last=answer and number == len(texts)):
                        raise TransportClosed("the client has hung up, and cannot resume the stream")
        if self._tap is not None:
            self._tap.deliver()

    def _open_locked(self) -> EventStream:
        if self.stream is None:
            self.stream = self._new_stream()
            self.stream.attach(self._reply, prime=self._prime)
        return self.stream

    def open(self) -> EventStream:
        """Begin an event stream, before there is anything to send."""
        with self._lock:
            return self._open_locked()

    def abandoned(self) -> bool:
        """See `Incoming`. A client that can resume the stream has `RESUME_TIMEOUT` to."""
        stream = self.stream
        if not (self._gone() if stream is None or stream.carried_by(self._reply) else not stream.attached):
            self._left = None
            return False
        if stream is None or not stream.resumable:
            return True
        self._left = self._left or Deadline(RESUME_TIMEOUT)
        return self._left.left() == 0.0

    def skip(self) -> None:
        """End the answer without one: the request was cancelled. The POST ends although its handler may go on.

        The connection ends with it: its thread may be that handler's, and no other request shall wait for it. The
        client can tell, and sends nothing more over it: the head says so, or the reply breaks off.
        """
        with self._lock:
            if self.done:
                return
            self.done = True
            if self.stream is not None:
                self.stream.end(hang_up=True)
                return
            try:
                self._reply.open({**STREAM_HEADERS, "Connection": "close"})
                self._reply.hang_up()
            except OSError as problem:
                log.debug("the client of a cancelled request has hung up: %s", problem)

    def release(self, retry: int | None) -> None:
        """Close the connection but not the stream; the client comes back for the rest after `retry` milliseconds."""
        with self._lock:
            if not self.done:
                # MAY: close the connection once an event with an id was sent
                # (basic/transports#sending-messages-to-the-server)
                self._open_locked().release(retry)


# -- the session era ----------------------------------------------------------------------------------------------


class HttpSession:
    """One session: who may use it, and its event streams. It is the `Transport` of the conversation.

    Args:
        principal: who opens it, as the authentication said; nobody else can use it.
        client: the address that opens it, for limits. prefix: see `EndpointOptions.session_prefix`.

    Attributes:
        id: visible ASCII, from a cryptographic source.
        conversation: set once it is connected, before anything else is done with the session.
        store: where events are kept, once the revision is agreed; None if it cannot resume.
        used, busy, ended: of its table: when it was used last, by how many it is used now, whether it was ended.

    Threads: any. What belongs to no request is written by the thread that holds a standing stream, so that nobody else
        waits for the client.
    """

    name = "http"
    conversation: Session

    def __init__(self, tap: Tap | None, principal: Any = None, client: str = "", prefix: str = "") -> None:
        # SHOULD: a session id is unique and cryptographically secure; MUST: it is visible ASCII
        # (basic/transports#session-management)
        self.id = prefix + secrets.token_urlsafe(32)
        self.tap, self.principal, self.client = tap, principal, client
        self.used, self.busy, self.ended = 0.0, 0, False
        self.store: EventStore | None = None
        self._lost: Callable[[McpError], None] = lambda reason: None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # guards the five fields below
        self._streams: dict[str, EventStream] = {}
        self._standing: list[EventStream] = []
        # A list: it is short, and there is one in each session.
        self._waiting: list[Callable[[], None]] = []
        self._writer: threading.Thread | None = None
        self._closed = False

    # -- Transport

    def start(self, receive: Receive, lost: Callable[[McpError], None]) -> None:
        """Remember whom to tell of the end. Messages come from the endpoint, not from here."""
        self._lost = lost

    def send(self, message: Any, deadline: Deadline) -> None:
        """Queue a message that belongs to no request of the client; never blocks.

        Raises: TransportClosed: the session is over, or too much is waiting. LocalProtocolError: it is not JSON.
        """
        text = messages.encode(message)
        if self._closed:
            raise TransportClosed("the session has ended")
        # What the writer itself adds is bounded by what it writes.
        if len(self._waiting) >= MAX_WAITING and self._writer is not threading.current_thread():
            raise TransportClosed(f"{MAX_WAITING} messages wait for the client to open a stream, or to read")
        self.run_soon(partial(self._write, text))

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """Send a request; the answer comes by a POST of the client."""
        self.send(message, deadline)
        inbox.sent = True
        return inbox.until(deadline)

    def close(self, deadline: Deadline) -> None:
        """End every stream, which frees the threads that hold their connections; then tell the peer, once."""
        with self._lock:
            first, self._closed = not self._closed, True
            streams = list(self._streams.values())
        for stream in streams:
            left = deadline.left()
            stream.end(UNREAD_TIMEOUT if left is None else min(UNREAD_TIMEOUT, left))
            self.forget(stream)
        if first:
            self._lost(TransportClosed("the session has ended"))

    # -- what belongs to no request

    def run_soon(self, job: Callable[[], None]) -> None:
        """Give a job that writes to the thread that holds a standing stream, once there is one. Never blocks."""
        with self._lock:
            self._waiting.append(job)
            stream = self._listening_locked()
        if stream is not None:
            stream.wake()

    def _listening_locked(self) -> EventStream | None:
        # MUST: a message is sent on one of the connected streams, and on no other
        # (basic/transports#multiple-connections)
        return next((stream for stream in reversed(self._standing) if stream.attached), None)

    @property
    def listens(self) -> bool:
        """Whether the client has a standing stream open."""
        with self._lock:
            return self._listening_locked() is not None

    def _write(self, text: bytes) -> None:
        with self._lock:
            stream = self._listening_locked()
        if stream is None or not stream.write(text):
            with self._lock:
                self._waiting.insert(0, partial(self._write, text))

    def write_waiting(self) -> None:
        """Run what waits, in order, while the client has a standing stream open; one thread at a time does."""
        with self._lock:
            if self._writer is not None:
                return
            self._writer = threading.current_thread()
        try:
            while True:
                with self._lock:
                    if not self._waiting or self._listening_locked() is None:
                        # In one step with the look: what comes from here on wakes a holder again.
                        self._writer = None
                        return
                    job = self._waiting.pop(0)
                job()
        finally:
            self._writer = None
            if self.tap is not None:
                self.tap.deliver()

    # -- streams

    def new_stream(self, *, standing: bool = False) -> EventStream:
        """Another stream of this session; a standing one carries what belongs to no request."""
        with self._lock:
            stream = EventStream(f"s{next(self._numbers)}", self.store, standing=standing, within=f"{self.id}/")
            self._streams[stream.name] = stream
            if standing:
                self._standing.append(stream)
            many = len(self._streams) > MAX_STREAMS
            idle = next((each for each in self._streams.values() if not each.attached), None) if many else None
            closed = self._closed
        if idle is not None:
            self.forget(idle)
        if closed:
            stream.end()
        return stream

    def forget(self, stream: EventStream) -> None:
        """Nobody will resume a stream any more."""
        with self._lock:
            self._streams.pop(stream.name, None)
            self._standing = [each for each in self._standing if each is not stream]
        if self.store is not None:
            self.store.forget(stream.kept_as)

    def stream(self, name: str) -> EventStream | None:
        """The stream of that name, or None."""
        return self._streams.get(name)

    def attached(self) -> int:
        """How many connections carry a stream of this session now."""
        with self._lock:
            return sum(stream.attached for stream in self._streams.values())


class SessionEra:
    """POST, GET and DELETE of the session era, and the table of sessions.

    Attributes:
        revisions: those of this era that travel over Streamable HTTP, by name.

    Threads: any number may call it at once.
    """

    def __init__(self, server: Server, options: EndpointOptions) -> None:
        if re.fullmatch(r"[!-~]{0,64}", options.session_prefix) is None:
            raise ValueError("session_prefix is at most 64 visible characters of ASCII")
        self._server, self._options = server, options
        self.revisions = {revision.name: revision for revision in server.revisions if revision.http == "streamable"}
        self._places = Places("sessions", options.max_sessions, options.max_sessions_per_client)
        self._store = options.event_store()
        self._clock = time.monotonic
        self._swept = self._clock()
        self._lock = threading.Lock()  # guards the two fields below, and `used`, `busy` and `ended` of each session
        self._open: OrderedDict[str, HttpSession] = OrderedDict()  # the one that was used last is last
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    def _connect(self, session: HttpSession, resume: Revision | None = None) -> None:
        session.conversation = self._server.connect(session, tuple(self.revisions.values()), resume=resume)
        if session.principal is not None:
            # Rates are counted for who asks, in whatever session.
            session.conversation.source = str(session.principal)

    def post(self, request: HttpRequest, message: Any, reply: HttpReply, identity: Any, tap: Tap | None) -> None:
        """Answer the POST of a message, or a batch."""
        opening = isinstance(message, dict) and message.get("method") == "initialize"
        if not self._options.sessions:
            # A conversation for this POST alone, in the revision that its header names.
            session = HttpSession(tap, identity)
            self._connect(session, None if opening else self._version(request))
            try:
                self._answer(session, request, message, reply, identity)
            finally:
                session.conversation.close(1)
        elif opening and SESSION_ID not in request.headers:
            self._post_initialize(request, message, reply, identity, tap)
        else:
            with self._used(request, identity) as session:
                self._answer(session, request, message, reply, identity)

    def _post_initialize(
        self, request: HttpRequest, message: Any, reply: HttpReply, identity: Any, tap: Tap | None
    ) -> None:
        """A new session, whose id goes with the answer; one that is refused leaves nothing behind."""
        self._take_place(request.peer, identity)
        session = HttpSession(tap, identity, request.peer, self._options.session_prefix)
        try:
            self._connect(session)
        except BaseException:
            self._places.give_back(request.peer)
            raise

        def headers() -> Mapping[str, str]:
            if not session.conversation.opened:
                return {}
            if session.conversation.terms.revision.sse_resumption:
                session.store = self._store
            with self._lock:
                session.used = self._clock()
                self._open[session.id] = session
            # MAY: assign a session id with the answer to initialize, in `Mcp-Session-Id`
            # (basic/transports#session-management)
            return {"Mcp-Session-Id": session.id}

        try:
            self._answer(session, request, message, reply, identity, headers)
        finally:
            if self._closed or session.id not in self._open:
                self._end(session)

    def _take_place(self, client: str, identity: Any) -> None:
        """Take a place for a session; where there is none, the longest idle of the same principal makes room.

        Raises: HttpRefusal: 429 or 503: all of them are in use.
        """
        while True:
            try:
                return self._places.take(client)
            except HttpRefusal as full:
                with self._lock:
                    idle = next((
                        each for each in self._open.values() if not each.busy and each.principal == identity
                        and (each.client == client or full.status == 503)
                    ), None)  # fmt: skip
                if idle is None or self._closed:
                    raise
                self._end(idle, timeout=0)

    def _answer(
        self,
        session: HttpSession,
        request: HttpRequest,
        message: Any,
        reply: HttpReply,
        identity: Any,
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Pass a message to the conversation, which answers it in this thread. Raises Refusal: not a message."""
        peer, revision = session.conversation.peer, session.conversation.terms.revision
        try:
            if not isinstance(message, list):
                asks = messages.kind_of(message) == "request"
            elif revision.batching and message:
                asks = any(map(wants_answer, message))
            else:
                # MUST: the body of a POST is a single message; batches exist in 2025-03-26 alone
                # (2025-06-18/basic/transports#sending-messages-to-the-server)
                raise InvalidRequest("Invalid request: not a message of this revision")
        except RemoteProtocolError:
            # A malformed response, which the peer logs.
            asks = False
        if not asks:
            for each in message if isinstance(message, list) else [message]:
                peer.deliver(each, session)
            # MUST: 202 without a body answers a POST of notifications and responses
            # (basic/transports#sending-messages-to-the-server)
            reply.send(202, {})
            return
        post = PostReply(reply, session.new_stream, session.tap, revision.priming_event, headers, request.gone)
        if identity is not None:
            # Of this request, and not of the session: its token may have other scopes than that which opened it.
            post.principal, post.authorize = identity, self._options.authorize
        try:
            peer.deliver(message, post)
        finally:
            # Whatever was not answered by now never will be.
            post.skip()
        if (stream := post.stream) is not None and stream.ended_on is reply:
            stream.ended_on = None
            request.connection["delivered"] = partial(session.forget, stream)

    def get(self, request: HttpRequest, reply: HttpReply, identity: Any) -> None:
        """Answer a GET with a stream, and hold it until one side ends it."""
        check_accept(request, CONTENT_TYPE)
        with self._used(request, identity) as session:
            if session.attached() >= self._options.max_streams_per_session:
                raise HttpRefusal(429, "Too many streams of this session", headers={"Retry-After": "10"})
            last, revision = request.headers.get("last-event-id"), session.conversation.terms.revision
            # MUST: a GET is answered with an event stream, or with 405
            # (basic/transports#listening-for-messages-from-the-server)
            # MUST NOT: send responses on it, unless it resumes a stream that had a request
            # (basic/transports#listening-for-messages-from-the-server)
            if last is None or not revision.sse_resumption:
                stream = session.new_stream(standing=True)
                stream.attach(reply, prime=revision.priming_event)
            else:
                name, number = numbers_of(last) or ("", 0)
                found = session.stream(name)
                # MAY: honour `Last-Event-ID`, and replay what was sent after that event; MUST NOT: replay what was sent
                # on another stream (basic/transports#resumability-and-redelivery)
                if found is None or not found.attach(reply, number):
                    raise HttpRefusal(400, "The events after this Last-Event-ID are not kept")
                stream = found
            stream.hold(
                reply,
                self._options.keep_alive,
                request.gone,
                session.write_waiting,
                None if identity is None else expiry(identity),
            )
            if stream.ended_on is reply:
                stream.ended_on = None
                request.connection["delivered"] = partial(session.forget, stream)

    def delete(self, request: HttpRequest, reply: HttpReply, identity: Any) -> None:
        """Answer a DELETE: the end of the session."""
        with self._used(request, identity) as session:
            self._end(session)
        reply.send(200, {})

    # -- the table

    def find(self, session_id: str | None) -> HttpSession | None:
        """The session of that id, whoever opened it, for the trace; those that nobody used for too long end here."""
        idle, now = self._options.idle, self._clock()
        named = None if session_id is None else self._open.get(session_id)
        if idle is None:
            return named
        stale: list[HttpSession] = []
        if named is not None and not named.busy and now - named.used > idle:
            stale.append(named)
            named = None
        if now - self._swept >= min(1.0, idle):
            self._swept = now
            with self._lock:
                # A few: not one request for all that were left. The others make room when it is needed.
                unused = (each for each in self._open.values() if not each.busy and now - each.used > idle)
                stale += itertools.islice(unused, MAX_ENDED)
        for session in stale:
            self._end(session, timeout=0)
        return named

    @contextmanager
    def _used(self, request: HttpRequest, identity: Any) -> Iterator[HttpSession]:
        """The session that a request names, with its version header checked; it cannot become idle meanwhile."""
        session_id = request.headers.get(SESSION_ID)
        if session_id is None:
            # SHOULD: 400 for a request without `Mcp-Session-Id` (basic/transports#session-management)
            raise HttpRefusal(400, "Mcp-Session-Id is missing")
        with self._lock:
            session = self._open.get(session_id)
            # Somebody else must not learn that it exists.
            if session is None or session.principal != identity:
                # MUST: 404 for the `Mcp-Session-Id` of a session that is over (basic/transports#session-management)
                raise HttpRefusal(404, "Session not found")
            session.busy += 1
        try:
            if session.conversation.peer.closed is not None:
                self._end(session)
                raise HttpRefusal(404, "Session not found")
            if VERSION in request.headers and session.conversation.terms.revision.version_header:
                self._version(request)
            yield session
        finally:
            with self._lock:
                session.busy -= 1
                session.used = self._clock()
                if not session.ended:
                    self._open.move_to_end(session.id)

    def _version(self, request: HttpRequest) -> Revision:
        """The revision that the header names; 400 for one that is not spoken here."""
        # SHOULD: assume 2025-03-26 if `MCP-Protocol-Version` is missing (basic/transports#protocol-version-header)
        revision = self.revisions.get(request.headers.get(VERSION, "2025-03-26"))
        # MUST: 400 for an invalid or unsupported `MCP-Protocol-Version` (basic/transports#protocol-version-header)
        if revision is None:
            raise HttpRefusal(400, "Unsupported MCP-Protocol-Version")
        return revision

    def _end(self, session: HttpSession, timeout: float = 5) -> None:
        """End a session: its streams end, its handlers are cancelled, its id is unknown from now on. Once."""
        with self._lock:
            first, session.ended = not session.ended, True
            self._open.pop(session.id, None)
        if first:
            self._places.give_back(session.client)
            session.conversation.close(timeout)

    def close(self, timeout: float = 5) -> None:
        """End all sessions, and refuse to open others; at most `timeout` seconds in all."""
        deadline = Deadline(timeout)
        self._places.close()
        with self._lock:
            self._closed = True
            sessions = list(self._open.values())
        for session in sessions:
            self._end(session, deadline.left() or 0.0)


# -- the stateless era --------------------------------------------------------------------------------------------


_SHUTDOWN = "the server is shutting down"


class StatelessEra:
    """POST of the stateless era: nothing is kept from one to the next, and a client that hangs up gives its request up.

    Attributes:
        revisions: those of this era that the server speaks, by name.

    Threads: any number may call it at once.
    """

    def __init__(self, server: Server, options: EndpointOptions) -> None:
        self._server, self._keep_alive, self._authorize = server, options.keep_alive, options.authorize
        self.revisions = {} if server.stateless is None else server.stateless.revisions
        self._places = Places("subscriptions", options.max_subscriptions, options.max_subscriptions_per_client)
        self._lock = threading.Lock()  # guards the two fields below
        self._held: dict[Subscription, HttpReply] = {}
        self._closed = False

    def post(self, request: HttpRequest, message: Any, reply: HttpReply, identity: Any, tap: Tap | None) -> None:
        """Answer the POST of a message. Raises OSError if the client is gone.

        Blocks: as long as the handler does; for a subscription, until it ends.
        """
        try:
            # MUST: the body is a single request or notification, never a response
            # (basic/transports/streamable-http#sending-messages)
            try:
                kind = messages.kind_of(message)
            except RemoteProtocolError:
                kind = "response"
            if kind == "response":
                raise InvalidRequest("Invalid request: in this revision a client sends no responses")
            if kind == "notification":
                # MUST: 400 for a version that is not served (basic/transports/streamable-http#protocol-version-header)
                version = request.headers.get(VERSION)
                supported = [revision.name for revision in reversed(self._server.revisions)]
                if version is not None and version not in supported:
                    raise UnsupportedVersion(version, supported)
                # MUST: 202 without a body answers the POST of a notification
                # (basic/transports/streamable-http#sending-messages)
                reply.send(202, {})
                return
        except Refusal as refusal:
            # The id of a response is one of ours, and names no request of the client.
            named = isinstance(message, dict) and "method" in message
            request_id = messages.readable_id(message) if named else None
            reply.send(400, JSON, messages.encode(messages.error(request_id, refusal, id_optional=True)))
            return
        listens = message["method"] == "subscriptions/listen"
        try:
            if listens:
                self._places.take(request.peer)
        except HttpRefusal as full:
            error = messages.error(message["id"], InternalError(full.message))
            reply.send(full.status, {**JSON, **full.headers}, messages.encode(error))
            return
        try:
            # When the server ends, a subscription is not given up but ended with a result: see `close`.
            gone = request.gone if listens else lambda: self._closed or request.gone()
            post = PostReply(reply, partial(EventStream, "", None), tap)
            if identity is not None:
                post.principal, post.authorize = identity, self._authorize
            incoming = Incoming(message["id"], message["method"], message.get("params") or {}, post, gone)
            self._answer(incoming, request, reply, post, identity)
        finally:
            if listens:
                self._places.give_back(request.peer)

    def _answer(
        self, incoming: Incoming, request: HttpRequest, reply: HttpReply, post: PostReply, identity: Any
    ) -> None:
        """Answer a request in this thread. The one place of this era that turns exceptions into errors."""
        assert self._server.stateless is not None
        principal = None if identity is None else str(identity)
        try:
            mirrored = MirroredHeaders(request.headers, request.repeated, self._server.extensions.values())
            result = self._server.stateless.answer(incoming, principal, mirrored, source=request.peer)
            if not isinstance(result, dict):
                self._hold(result, incoming, reply, post)
                return
            answer = messages.response(incoming.id, result)
        except Refusal as refusal:
            post.status = http_status(refusal.code, in_envelope=isinstance(refusal, InvalidEnvelope))
            answer = incoming.error(refusal)
        except BaseException as problem:
            # Also what is not an Exception, such as SystemExit: it ends the handler, not the thread or the process.
            if incoming.reason is None:
                log.error("%s failed", incoming.method, exc_info=problem)
            # No traceback and no text of ours on the wire: it may hold secrets.
            answer = incoming.error(InternalError("Internal error"))
        if incoming.reason is None:
            incoming.finish(answer, Deadline(None))
        else:
            # MUST NOT: send anything more for a request that was given up
            # (basic/transports/streamable-http#cancellation)
            reply.abort()

    def _hold(self, subscription: Subscription, incoming: Incoming, reply: HttpReply, post: PostReply) -> None:
        """Carry a subscription to its end: its result, or a client that is gone, and so has given it up."""

        def write_waiting() -> None:
            if subscription.flush():
                result = complete(subscription.closing(), self._server.info)
                incoming.finish(messages.response(incoming.id, result), Deadline(None))

        with self._lock:
            self._held[subscription] = reply
            closed = self._closed
        try:
            stream = post.open()
            subscription.carry(stream.wake)
            if closed:
                subscription.end(_SHUTDOWN)
            until = None if post.principal is None else expiry(post.principal)
            stream.hold(reply, self._keep_alive, lambda: subscription.gone, write_waiting, until)
            if not post.done:
                incoming.cancel("the client has hung up")
                reply.abort()
        finally:
            with self._lock:
                del self._held[subscription]

    def close(self, timeout: float = 5) -> None:
        """End every subscription with its result, cancel the handlers that run, and do not begin others.

        A client that does not take the end of its subscription has `UNREAD_TIMEOUT` to, and is cut off.

        Blocks: at most `timeout` seconds. Idempotent; any thread.
        """
        with self._lock:
            self._closed = True
            held = list(self._held)
        for subscription in held:
            subscription.end(_SHUTDOWN)
        self._places.close(min(timeout, UNREAD_TIMEOUT))
        with self._lock:
            unread = list(self._held.values())
        for reply in unread:
            reply.abort()


# -- the trace ----------------------------------------------------------------------------------------------------


@contextmanager
def noted(tap: Tap | None, request: HttpRequest, reply: HttpReply) -> Iterator[tuple[HttpRequest, HttpReply]]:
    """Show the trace, if there is one, what a client has sent; the reply that is given shows it the answer."""
    if tap is None:
        yield request, reply
        return
    answering = NotedReply(reply, tap, request)

    def read() -> bytes:
        body = request.body
        answering.note_request(body)
        tap.deliver()
        return body

    if not callable(request.content):
        read()
    try:
        yield replace(request, content=read), answering
    finally:
        answering.note_request(None)
        answering.note_end("broken")
        tap.deliver()


class NotedReply:
    """An `HttpReply` that shows a trace what goes out, in the order in which it does; see there for the methods.

    It only notes while it writes, since the caller holds a lock then. The endpoint delivers.
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

    def open(self, headers: Mapping[str, str]) -> None:
        self._note(None, status=200, headers=headers)
        self._opened = True
        self._reply.open(headers)

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
