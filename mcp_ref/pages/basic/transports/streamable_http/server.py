"""Streamable HTTP, the server's half: POST, GET and DELETE at one path, in both eras.

Spec:      basic/transports#streamable-http; 2026-07-28/basic/transports/streamable-http; basic/versioning
Upholds:   spec_notes/basic/transports.md, spec_notes/basic/transports/streamable-http.md
Not here:  sockets and threads (kit/http/http_server), the answer to a POST and event streams (streams.py), what
           headers must say (headers.py), what is answered to a method (server/session)

    session era       POST     one message (2025-03-26: or a batch): a request is answered with JSON or a stream, the
                               rest with 202
                      GET      a standing stream; with Last-Event-ID, the rest of a stream that broke off
                      DELETE   the end of the session
    stateless era     POST     a request is answered from itself alone, with JSON or a stream; a notification with 202
                               subscriptions/listen: a stream that lasts until the client or the server ends it

The handler of a request runs in the thread that calls the endpoint; no thread is started here.
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mcp_ref.errors import InternalError, InvalidRequest, Refusal, RemoteProtocolError, UnsupportedVersion
from mcp_ref.kit.http.http_exchange import HttpRefusal, HttpReply, HttpRequest, Quota
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.typed.json_text import weigh_up_to
from mcp_ref.pages.basic.batching import wants_answer
from mcp_ref.pages.basic.lifecycle import MAX_INTRODUCTION
from mcp_ref.pages.basic.subscriptions import LISTEN
from mcp_ref.pages.basic.transports.sse import CONTENT_TYPE
from mcp_ref.pages.basic.transports.streamable_http.cors import for_page
from mcp_ref.pages.basic.transports.streamable_http.headers import (
    LOOPBACK,
    MirroredHeaders,
    check_accept,
    check_content_type,
    check_host_and_origin,
    http_status,
)
from mcp_ref.pages.basic.transports.streamable_http.streams import (
    JSON,
    UNREAD_TIMEOUT,
    Authorize,
    EventStore,
    EventStream,
    HttpSession,
    MemoryEventStore,
    PostReply,
    numbers_of,
)
from mcp_ref.pages.basic.versioning import InvalidEnvelope, complete, is_stateless
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, Revision
from mcp_ref.wire import messages
from mcp_ref.wire.served import ServedRequest

if TYPE_CHECKING:
    from mcp_ref.pages.basic.subscriptions import Subscription
    from mcp_ref.recording.record import Tap
    from mcp_ref.server.server import Server

log = logging.getLogger(__name__)

SESSION_ID = "mcp-session-id"
VERSION = "mcp-protocol-version"

MAX_INTRODUCTIONS = 64 << 20
"""Bytes that the params of `initialize` of all sessions may take together; those of one address, half of it."""

MAX_ENDED = 10
"""Idle sessions that are ended while one request is answered."""

_SESSION_ERA = frozenset(revision.name for revision in SESSION_REVISIONS)


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """The options of an endpoint.

    Attributes:
        hosts: the values of `Host` (without a port) that are let in; None for any. Against DNS rebinding.
        origins: the origins, or hosts of origins, that are let in; None for any. Their pages may read what is answered.
        authenticate: gives the principal, any value that can be compared, or None; raises HttpRefusal (401, 403).
        authorize: called with the principal and the message (None: a GET or DELETE) before anything is done, and with
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


def era_of(message: Any, version: str | None, in_session: bool = False) -> Literal["session", "stateless"]:
    """Return which era a POST is of, at an endpoint that serves both.

    Args:
        message: the body.
        version: the header `MCP-Protocol-Version`, if there is one. A name that the session era does not know is a
            header of the stateless era, unless no era knows it and the request names a session.
        in_session: whether it does.

    Spec: basic/versioning#compatibility-matrix
    """
    if version is not None and version not in _SESSION_ERA and (version in REVISIONS or not in_session):
        return "stateless"
    method = message.get("method") if isinstance(message, dict) else None
    modern = isinstance(method, str) and is_stateless(method, message.get("params"))
    return "stateless" if modern else "session"


class Exchange(NamedTuple):
    """A request that was let in, and its reply.

    Attributes:
        identity: the principal, as `authenticate` gave it; None without authentication.
        message: what a POST brings; None for a GET or DELETE.
        tap: is shown what a stateless exchange, or the session that it begins, sends; None without a trace.
    """

    request: HttpRequest
    reply: HttpReply
    identity: Any
    message: Any
    tap: Tap | None


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
        self._running: set[HttpReply] = set()  # of every request but a subscription; each use of it is one step
        self._draining, self._drained = False, threading.Event()
        self.sessions = SessionEra(server, self.options)
        self.stateless = StatelessEra(server, self.options)

    def __call__(self, request: HttpRequest, reply: HttpReply) -> None:
        """Answer one request. Raises OSError if the client is gone."""
        with_sessions = self.options.sessions and bool(self.sessions.revisions)
        allowed = "POST, GET, DELETE" if with_sessions else "POST"
        if "origin" in request.headers:
            reply = for_page(request, reply, self.options.origins, allowed)
        session = self.sessions.find(request.headers.get(SESSION_ID))
        tap = self._tap() if session is None else session.tap
        with answering(tap, request, reply) as (request, reply):
            # 1. Who asks, and from where? That is in the head; the body is read after it.
            check_host_and_origin(request, self.options.hosts, self.options.origins)
            # SHOULD: authenticate all connections (basic/transports#security-warning)
            identity = None if self.options.authenticate is None else self.options.authenticate(request)
            # 2. A POST brings a message. May the principal send it?
            message = None
            if request.method == "POST":
                check_content_type(request)
                check_accept(request, "application/json", CONTENT_TYPE)
                message = messages.decode(request.body)
            if self.options.authorize is not None:
                check_scopes(self.options.authorize, identity, message)
            # 3. Of which era is it?
            # MUST: one path takes POST, and in the session era GET (basic/transports#streamable-http;
            # basic/transports/streamable-http#)
            if request.method == "POST":
                stateless = self.stateless.revisions and (
                    not self.sessions.revisions
                    or era_of(message, request.headers.get(VERSION), SESSION_ID in request.headers) == "stateless"
                )
                answer = self.stateless.post if stateless else self.sessions.post
            elif with_sessions and request.method in ("GET", "DELETE"):
                answer = self.sessions.get if request.method == "GET" else self.sessions.delete
            else:
                # SHOULD: 405 for GET and DELETE without sessions
                # (2026-07-28/basic/transports/streamable-http#earlier-streamable-http-revisions)
                raise HttpRefusal(405, "Method not allowed", headers={"Allow": allowed})
            # 4. That answers it. Calls are counted; what answers a question of theirs is let in until the end.
            parts = message if isinstance(message, list) else [message]
            calls = any(
                isinstance(each, dict) and "id" in each and each.get("method", LISTEN) != LISTEN for each in parts
            )
            if calls:
                self._running.add(reply)
            try:
                # Put first, look second, as `drain` does it the other way round: one of the two sees the other.
                if calls and self._draining:
                    raise HttpRefusal(503, "The server is shutting down", headers={"Retry-After": "10"})
                answer(Exchange(request, reply, identity, message, tap))
            except HttpRefusal:
                raise
            except Refusal as refusal:
                # MUST: an error has the id of its request, if one could be read (basic/index#error-responses)
                _log_refusal(request, 400, refusal.message)
                error = messages.error(_id_of_request(message), refusal, id_optional=True)
                reply.send(400, JSON, messages.encode(error))
            finally:
                self._running.discard(reply)
                if self._draining and not self._running:
                    self._drained.set()

    def drain(self, timeout: float) -> None:
        """Refuse new calls with 503, and wait for those that run, at most `timeout` seconds."""
        self._draining = True
        if self._running:
            self._drained.wait(timeout)

    def close(self, timeout: float = 5) -> None:
        """End every subscription and every session; at most `timeout` seconds in all."""
        deadline = Deadline(timeout)
        self.stateless.close(timeout / 2)
        self.sessions.close(deadline.left() or 0.0)


def expiry(principal: Any) -> float:
    """Return when the principal's token ends, in seconds since the epoch; its streams end with it."""
    ends = getattr(principal, "expires", None)
    return float("inf") if ends is None else float(ends)


def _id_of_request(message: Any) -> messages.RequestId | None:
    """Return the id of a request, if one could be read; that of a response is one of ours, and names no request."""
    return messages.readable_id(message) if isinstance(message, dict) and "method" in message else None


def _log_refusal(request: HttpRequest, status: int, why: str) -> None:
    log.info("refused %s %.100a of %s: %d %.200a", request.method, request.path, request.peer, status, why)


def check_scopes(authorize: Authorize, identity: Any, message: Any) -> None:
    """Refuse a message for which the principal lacks scopes. Raises: HttpRefusal, which knows the id of its request."""
    try:
        authorize(identity, message, ())
    except HttpRefusal as refusal:
        # MUST: an error has the id of its request, if one could be read (basic/index#error-responses)
        refusal.request_id = _id_of_request(message)
        raise


@contextmanager
def answering(tap: Tap | None, request: HttpRequest, reply: HttpReply) -> Iterator[tuple[HttpRequest, HttpReply]]:
    """Give a request and its reply, as a trace sees them. What is raised to refuse it becomes the answer: a status, and
    a JSON-RPC error in the body, in which nothing of the request is repeated but its id, where it is known."""
    with nullcontext((request, reply)) if tap is None else tap.answering(request, reply) as (request, reply):
        try:
            yield request, reply
            return
        except HttpRefusal as refused:
            refusal = refused
        except Refusal as refused:
            # MUST: input that cannot be accepted is answered with an HTTP error status
            # (basic/transports#sending-messages-to-the-server)
            refusal = HttpRefusal(400, refused.message, code=refused.code)
        # MAY: a JSON-RPC error without `id` in the body of a refusal (basic/transports#sending-messages-to-the-server)
        error = Refusal(refusal.message, code=refusal.code)
        _log_refusal(request, refusal.status, refusal.message)
        body = messages.error(refusal.request_id, error, id_optional=True)
        reply.send(refusal.status, {**JSON, **refusal.headers}, messages.encode(body))


# -- the session era ----------------------------------------------------------------------------------------------


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
        self._places = Quota("sessions", options.max_sessions, options.max_sessions_per_client)
        self._room = Quota("bytes of introductions", MAX_INTRODUCTIONS, MAX_INTRODUCTIONS // 2)
        self._store = options.event_store()
        self._clock = time.monotonic
        self._swept = self._clock()
        self._lock = threading.Lock()  # guards the two fields below, and `used`, `busy` and `ended` of each session
        self._open: OrderedDict[str, HttpSession] = OrderedDict()  # the one that was used last is last
        self._closed = False

    def _connect(self, session: HttpSession, resume: Revision | None = None) -> None:
        # 2024-11-05 is older than this transport; but clients that have both ask for it here, and other servers agree.
        older = [row for row in self._server.revisions if row.http == "sse"] if resume is None else []
        session.conversation = self._server.connect(session, (*older, *self.revisions.values()))
        if resume is not None:
            session.conversation.resume(resume)
        if session.principal is not None:
            # Rates are counted for the principal, in whatever session.
            session.conversation.source = str(session.principal)

    def post(self, exchange: Exchange) -> None:
        """Answer the POST of a message, or a batch."""
        message = exchange.message
        opening = isinstance(message, dict) and message.get("method") == "initialize"
        if not self._options.sessions:
            # A conversation for this POST alone, in the revision that its header names.
            session = HttpSession(exchange.tap, exchange.identity)
            self._connect(session, None if opening else self._version(exchange.request))
            try:
                self._answer(session, exchange)
            finally:
                session.conversation.close(1)
        elif opening and SESSION_ID not in exchange.request.headers:
            self._post_initialize(exchange)
        else:
            with self._used(exchange) as session:
                self._answer(session, exchange)

    def _post_initialize(self, exchange: Exchange) -> None:
        """Open a session, whose id goes with the answer; one that is refused leaves nothing behind."""
        client, weight = exchange.request.peer, weigh_up_to(MAX_INTRODUCTION, exchange.message.get("params"))
        session = HttpSession(exchange.tap, exchange.identity, client, self._options.session_prefix)
        self._take(self._places, client, 1, exchange.identity)
        try:
            self._take(self._room, client, weight, exchange.identity)
            session.weight = weight
            self._connect(session)
        except BaseException:
            self._give_back(session)
            raise

        def headers() -> Mapping[str, str]:
            if session.conversation.lifecycle.state == "new":  # `initialize` was refused
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
            self._answer(session, exchange, headers)
        finally:
            if self._closed or session.id not in self._open:
                self._end(session)

    def _take(self, places: Quota, client: str, number: int, identity: Any) -> None:
        """Take so many places for a session; if all are taken, the longest idle one of the same principal makes room.

        Raises: HttpRefusal: 429 or 503: all of them are in use.
        """
        while True:
            try:
                return places.take(client, number)
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
        self, session: HttpSession, exchange: Exchange, headers: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """Pass a message to the conversation, which answers it in this thread. Raises Refusal: not a message."""
        peer, revision, message = session.conversation.connection, session.conversation.terms.revision, exchange.message
        try:
            if not isinstance(message, list):
                asks = messages.kind_of(message) == "request"
            elif revision.batching and message:
                asks = any(map(wants_answer, message))
            else:
                # MUST: refuse a batch where the revision has none: the body of a POST is one message
                # (2025-06-18/basic/transports#sending-messages-to-the-server)
                raise InvalidRequest("Invalid request: not a message of this revision")
        except RemoteProtocolError:
            # A malformed response, which the peer logs.
            asks = False
        if not asks:
            for each in message if isinstance(message, list) else [message]:
                peer.route(each, session)
            # MUST: 202 without a body answers a POST of notifications and responses
            # (basic/transports#sending-messages-to-the-server)
            exchange.reply.send(202, {})
            return
        post = PostReply(exchange.reply, session.new_stream, revision.priming_event, headers, exchange.request.gone)
        if exchange.identity is not None:
            # Of this request, and not of the session: its token may have other scopes than that which opened it.
            post.principal, post.authorize = exchange.identity, self._options.authorize
        try:
            peer.route(message, post)
        finally:
            if not post.done:
                # Whatever was not answered by now never will be.
                post.skip()

    def get(self, exchange: Exchange) -> None:
        """Answer a GET with a stream, and hold it until one side ends it."""
        request, reply = exchange.request, exchange.reply
        check_accept(request, CONTENT_TYPE)
        with self._used(exchange) as session:
            if session.attached() >= self._options.max_streams_per_session:
                raise HttpRefusal(429, "Too many streams of this session", headers={"Retry-After": "10"})
            last, revision = request.headers.get("last-event-id"), session.conversation.terms.revision
            # MUST: a GET is answered with an event stream, or with 405
            # (basic/transports#listening-for-messages-from-the-server)
            # A server MUST NOT send responses on the stream of a GET, unless it resumes a stream that had a request
            # (basic/transports#listening-for-messages-from-the-server)
            if last is None or not revision.sse_resumption:
                stream = session.new_stream(standing=True)
                stream.attach(reply, prime=revision.priming_event)
            else:
                name, number = numbers_of(last) or ("", 0)
                found = session.stream(name)
                # MAY: honour `Last-Event-ID`, and replay what was sent after that event; a server MUST NOT replay what
                # was sent on another stream (basic/transports#resumability-and-redelivery)
                if found is None or not found.attach(reply, number):
                    raise HttpRefusal(400, "The events after this Last-Event-ID are not kept")
                stream = found
            until = None if exchange.identity is None else partial(expiry, exchange.identity)
            stream.hold(reply, self._options.keep_alive, request.gone, session.write_waiting, until)

    def delete(self, exchange: Exchange) -> None:
        """Answer a DELETE: the end of the session."""
        with self._used(exchange) as session:
            self._end(session)
        exchange.reply.send(200, {})

    # -- the table

    def find(self, session_id: str | None) -> HttpSession | None:
        """Return the session of that id, for the trace; those that nobody used for too long end here."""
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
    def _used(self, exchange: Exchange) -> Iterator[HttpSession]:
        """Give the session that a request names, with its version header checked; it cannot become idle meanwhile."""
        request = exchange.request
        session_id = request.headers.get(SESSION_ID)
        if session_id is None:
            # SHOULD: 400 for a request without `Mcp-Session-Id` (basic/transports#session-management)
            raise HttpRefusal(400, "Mcp-Session-Id is missing")
        with self._lock:
            session = self._open.get(session_id)
            # Somebody else must not learn that it exists.
            if session is None or session.principal != exchange.identity:
                # MUST: 404 for the `Mcp-Session-Id` of a session that is over (basic/transports#session-management)
                raise HttpRefusal(404, "Session not found")
            session.busy += 1
        try:
            if session.conversation.connection.closed is not None:
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
        """Return the revision that the header names; 400 for one that is not spoken here."""
        # SHOULD: assume 2025-03-26 if `MCP-Protocol-Version` is missing (basic/transports#protocol-version-header)
        revision = self.revisions.get(request.headers.get(VERSION, "2025-03-26"))
        # MUST: 400 for an invalid or unsupported `MCP-Protocol-Version` (basic/transports#protocol-version-header)
        if revision is None:
            raise HttpRefusal(400, f"Unsupported MCP-Protocol-Version; this server speaks {', '.join(self.revisions)}")
        return revision

    def _end(self, session: HttpSession, timeout: float = 5) -> None:
        """End a session: its streams end, its handlers are cancelled, its id is unknown from now on. Once."""
        with self._lock:
            first, session.ended = not session.ended, True
            self._open.pop(session.id, None)
        if first:
            self._give_back(session)
            session.conversation.close(timeout)

    def _give_back(self, session: HttpSession) -> None:
        self._places.give_back(session.client)
        self._room.give_back(session.client, session.weight)

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
        self._spoken = [revision.name for revision in reversed(server.revisions)]
        self._places = Quota("subscriptions", options.max_subscriptions, options.max_subscriptions_per_client)
        self._lock = threading.Lock()  # guards the two fields below
        self._held: dict[Subscription, HttpReply] = {}
        self._closed = False

    def post(self, exchange: Exchange) -> None:
        """Answer the POST of a message. Raises: OSError: the client is gone. Refusal: not a message of this era.

        Blocks: as long as the handler does; for a subscription, until it ends.
        """
        request, message, reply = exchange.request, exchange.message, exchange.reply
        try:
            kind = messages.kind_of(message)
        except RemoteProtocolError:
            kind = "response"  # that is malformed
        # MUST: the body is a single request or notification, never a response
        # (basic/transports/streamable-http#sending-messages)
        if kind == "response":
            raise InvalidRequest("Invalid request: in this revision a client sends no responses")
        # MUST: 400 for a version that is not served (basic/transports/streamable-http#protocol-version-header)
        version = request.headers.get(VERSION, self._spoken[0])
        # A request that says its version in `_meta` as well is looked at later: first the two must match.
        if version not in self._spoken and (
            kind == "notification" or not is_stateless(message["method"], message.get("params"))
        ):
            raise UnsupportedVersion(version, self._spoken)
        if kind == "notification":
            # MUST: 202 without a body answers the POST of a notification
            # (basic/transports/streamable-http#sending-messages)
            reply.send(202, {})
            return
        # A request is answered in this thread, unless it is one subscription too many.
        if message["method"] != LISTEN:
            # It is given up if the client hangs up, or the server ends.
            self._answer(exchange, lambda: self._closed or request.gone())
            return
        try:
            self._places.take(request.peer)
        except HttpRefusal as full:
            error = messages.error(message["id"], InternalError(full.message))
            reply.send(full.status, {**JSON, **full.headers}, messages.encode(error))
            return
        try:
            # When the server ends, a subscription is not given up but ended with a result: see `close`.
            self._answer(exchange, request.gone)
        finally:
            self._places.give_back(request.peer)

    def _answer(self, exchange: Exchange, gone: Callable[[], bool]) -> None:
        """Answer a request in this thread. The one place of this era that turns exceptions into errors.

        Args:
            gone: whether it is given up.
        """
        assert self._server.stateless is not None
        request, message, identity = exchange.request, exchange.message, exchange.identity
        post = PostReply(exchange.reply, partial(EventStream, "", None))
        if identity is not None:
            post.principal, post.authorize = identity, self._authorize
        incoming = ServedRequest(message["id"], message["method"], message.get("params") or {}, post, gone)
        principal = None if identity is None else str(identity)
        try:
            mirrored = MirroredHeaders(request.headers, request.repeated, self._server.extensions.values())
            result = self._server.stateless.answer(incoming, principal, mirrored, source=request.peer)
            if not isinstance(result, dict):
                self._hold(result, incoming, exchange.reply, post)
                return
            answer = messages.response(incoming.id, result)
        except Refusal as refusal:
            post.status = http_status(refusal.code, in_envelope=isinstance(refusal, InvalidEnvelope))
            answer = messages.error(incoming.id, refusal)
        except BaseException as problem:
            # Also what is not an Exception, such as SystemExit: it ends the handler, not the thread or the process.
            if incoming.reason is None:
                log.error("%s failed", incoming.method, exc_info=problem)
            # No traceback and no text of ours on the wire: it may hold secrets.
            answer = messages.error(incoming.id, InternalError("Internal error"))
        if incoming.reason is None:
            incoming.finish(answer, Deadline(None))
        else:
            # A server MUST NOT send anything more for a request that was given up
            # (basic/transports/streamable-http#cancellation)
            exchange.reply.abort()

    def _hold(self, subscription: Subscription, incoming: ServedRequest, reply: HttpReply, post: PostReply) -> None:
        """Carry a subscription to its end: its result, or a client that is gone, and so has given it up."""
        with self._lock:
            self._held[subscription] = reply
            closed = self._closed
        try:
            stream = post.open()
            subscription.carry(lambda: stream.wake())  # whoever holds it by then
            if closed:
                subscription.end(_SHUTDOWN)
            until = None if post.principal is None else partial(expiry, post.principal)
            if stream.hold(reply, self._keep_alive, lambda: subscription.gone, subscription.flush, until):
                result = complete(subscription.closing(), self._server.info)
                incoming.finish(messages.response(incoming.id, result), Deadline(None))
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
