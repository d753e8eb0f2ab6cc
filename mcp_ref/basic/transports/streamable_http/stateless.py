"""The stateless shape of Streamable HTTP: each POST is answered from itself alone.

Spec:      basic/transports/streamable-http, basic/versioning#compatibility-matrix (2026-07-28)
Upholds:   spec_notes/basic/transports/streamable-http.md
Not here:  who is let in, and GET and DELETE (endpoint.py); the order of the checks, and the answer (server/stateless)

    POST of a request        JSON; an event stream from the first notification on; the status says which error it is
    POST of a notification   202
    any other POST           400
    subscriptions/listen     an event stream that this thread holds, until the client closes it or the server ends

There are no sessions, no event ids and no resuming: a client that closes the connection has given its request up. No
thread is started here, and nothing is kept from one POST to the next.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from mcp_ref import messages
from mcp_ref.basic.transports.sse import COMMENT, CONTENT_TYPE, encode_event
from mcp_ref.basic.transports.streamable_http.headers import MirroredHeaders
from mcp_ref.basic.transports.transport import Tap
from mcp_ref.basic.versioning import Mirrored, complete, http_status, is_modern, read_envelope
from mcp_ref.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    Refusal,
    RemoteProtocolError,
    TransportClosed,
    UnsupportedVersion,
)
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.http_server import HttpReply, HttpRequest
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import SESSION_REVISIONS

if TYPE_CHECKING:
    from mcp_ref.basic.subscriptions import Subscription

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds after which a quiet subscription's connection is looked at: has its client hung up?"""

PATIENCE = 1.0
"""Seconds that a client which does not read has to take the end of its subscription."""

STREAM_HEADERS = {
    "Content-Type": CONTENT_TYPE,
    "Cache-Control": "no-cache, no-transform",
    # SHOULD: keep proxies from holding events back (streamable-http#receiving-messages)
    "X-Accel-Buffering": "no",
}

_SESSION_ERA = frozenset(revision.name for revision in SESSION_REVISIONS)


def era_of(message: Any, version: str | None) -> Literal["session", "stateless"]:
    """Which era a POST is of, at an endpoint that serves both.

    Args:
        message: the body.
        version: the header `MCP-Protocol-Version`, if there is one. With a name that the session era does not know it
            is no header of the session era.

    Spec: basic/versioning#compatibility-matrix
    """
    if version is not None and version not in _SESSION_ERA:
        return "stateless"
    method = message.get("method") if isinstance(message, dict) else None
    if isinstance(method, str) and is_modern(method, message.get("params")):
        return "stateless"
    return "session"


class Answering(Protocol):
    """Who answers: `server.stateless.Stateless` is one."""

    def answer(
        self,
        incoming: Incoming,
        principal: str | None = None,
        mirrored: Mirrored | None = None,
        source: Hashable = None,
    ) -> JsonObject | Subscription: ...


class StatelessEndpoint:
    """Answers POSTs of the stateless era, after the guards.

    Args:
        info: the server's `Implementation`.
        supported: the names of all versions that the server speaks, the newest first.
        keep_alive: seconds between the comments on a subscription's stream.
        listens, listens_per_client: how many subscriptions there may be at once, in all and from one address; one more
            is answered with 503 or 429.

    Threads: any number may call it at once.
    """

    def __init__(
        self,
        answering: Answering,
        info: JsonObject,
        supported: Sequence[str],
        *,
        keep_alive: float = 15,
        listens: int = 1_000,
        listens_per_client: int = 500,
        tap: Callable[[], Tap | None] = lambda: None,
    ) -> None:
        self._answering, self._info, self._supported, self._tap = answering, info, supported, tap
        self._keep_alive, self._most, self._most_per_client = keep_alive, listens, listens_per_client
        self._lock = threading.Lock()  # guards the fields below; _fewer is told when one of _held goes
        self._fewer = threading.Condition(self._lock)
        self._clients: Counter[str] = Counter()
        self._held: dict[Subscription, HttpReply] = {}
        self._closed = False

    def __call__(self, request: HttpRequest, message: Any, reply: HttpReply, identity: Any) -> None:
        """Answer the POST of a message. Raises OSError when the client is gone.

        Args:
            identity: who asks, as the authentication has it; None where it does not say.

        Blocks: as long as the handler does; for a subscription, until it ends.
        """
        try:
            is_request = self._is_request(message)
        except Refusal as refusal:
            # The id of a response is one of ours, and names no request of the client.
            named = isinstance(message, dict) and "method" in message
            request_id = messages.readable_id(message) if named else None
            _refuse(reply, 400, messages.error(request_id, refusal, id_optional=True))
            return
        if not is_request:
            self._take(request, reply)
        elif message["method"] == "subscriptions/listen":
            self._listen(request, message, reply, identity)
        else:
            self._answer(request, message, reply, identity, lambda: self._closed or request.gone())

    def _is_request(self, message: Any) -> bool:
        """Whether the body asks for an answer. Raises Refusal for what may not come here."""
        # MUST: a single request or notification, never a response (streamable-http#sending-messages)
        try:
            kind = messages.kind_of(message)
        except RemoteProtocolError:
            kind = "response"
        if kind == "response":
            raise InvalidRequest("Invalid request: in this revision a client sends no responses")
        if kind == "request" and message["method"] == "initialize":
            params = message.get("params") or {}
            if not is_modern("initialize", params):
                # SHOULD: name the versions in the refusal of initialize (basic/versioning#compatibility-matrix)
                raise UnsupportedVersion(str(params.get("protocolVersion", "")), self._supported)
        return kind == "request"

    def _take(self, request: HttpRequest, reply: HttpReply) -> None:
        """Take a notification; there is none that says anything here."""
        version = request.headers.get("mcp-protocol-version")
        if version is None or version in self._supported:
            # MUST: 202 without a body (streamable-http#sending-messages)
            reply.send(202, {})
            return
        # MUST: 400 for a version that is not served (streamable-http#protocol-version-header)
        refusal = UnsupportedVersion(version, self._supported)
        _refuse(reply, 400, messages.error(None, refusal, id_optional=True))

    # -- requests

    def _answer(
        self, request: HttpRequest, message: JsonObject, reply: HttpReply, identity: Any, gone: Callable[[], bool]
    ) -> None:
        """Have a request answered in this thread. The one place of this era that turns exceptions into errors."""
        post = PostAnswer(reply, self._tap)
        params = message.get("params") or {}
        incoming = Incoming(message["id"], message["method"], params, post, gone)
        principal = None if identity is None else str(identity)
        try:
            mirrored = MirroredHeaders(request.headers, request.repeated)
            result = self._answering.answer(incoming, principal, mirrored, source=request.peer)
            if not isinstance(result, dict):
                self._hold(result, incoming, reply, post)
                return
            answer = messages.response(incoming.id, result)
        except Refusal as refusal:
            post.status = _status_of(refusal, params)
            answer = incoming.error(refusal)
        except BaseException as problem:
            # Also what is no Exception, such as SystemExit: it ends the handler, not the thread and not the process.
            if incoming.reason is None:
                log.error("%s failed", incoming.method, exc_info=problem)
            # No traceback and no text of ours on the wire: it may hold secrets.
            answer = incoming.error(InternalError("Internal error"))
        if incoming.reason is None:
            _finish(incoming, answer)
        else:
            # MUST NOT: send any more for a request that was given up (streamable-http#cancellation)
            reply.abort()

    # -- subscriptions

    def _listen(self, request: HttpRequest, message: JsonObject, reply: HttpReply, identity: Any) -> None:
        """`subscriptions/listen`, where there is room for one more."""
        with self._place(request.peer) as status:
            if status is None:
                # Not given up at the server's end, but ended with a result: see `close`.
                self._answer(request, message, reply, identity, request.gone)
                return
        refusal = InternalError("Too many subscriptions")
        _refuse(reply, status, messages.error(message["id"], refusal), {"Retry-After": "10"})

    @contextmanager
    def _place(self, client: str) -> Iterator[int | None]:
        """Take a place for one more subscription, and give it back; or the status of the refusal."""
        with self._lock:
            status = self._full_locked(client)
            if status is None:
                self._clients[client] += 1
        try:
            yield status
        finally:
            if status is None:
                with self._lock:
                    self._clients[client] -= 1
                    if not self._clients[client]:
                        del self._clients[client]

    def _full_locked(self, client: str) -> int | None:
        if self._closed or self._clients.total() >= self._most:
            return 503
        return 429 if self._clients[client] >= self._most_per_client else None

    def _hold(self, subscription: Subscription, incoming: Incoming, reply: HttpReply, post: PostAnswer) -> None:
        """Carry a subscription to its end: its result, or a client that is gone, and so has given it up."""
        wake = threading.Event()
        with self._lock:
            self._held[subscription] = reply
            closed = self._closed
        try:
            subscription.carry(wake.set)
            if closed:
                subscription.end(_SHUTDOWN)
            if self._carry(subscription, post, wake):
                _finish(incoming, messages.response(incoming.id, complete(subscription.closing(), self._info)))
            else:
                incoming.cancel(_GONE)
                reply.abort()
        finally:
            # Last: `close` waits for those that it finds here.
            with self._lock:
                del self._held[subscription]
                self._fewer.notify_all()

    def _carry(self, subscription: Subscription, post: PostAnswer, wake: threading.Event) -> bool:
        """Write what is put, and a comment every so often; whether the closing is due, for there is a client yet."""
        quiet = Deadline(self._keep_alive)
        while True:
            # Cleared first: what is put after the flush wakes again.
            wake.clear()
            if subscription.flush():
                return True
            if subscription.gone:
                return False
            left = quiet.left() or 0.0
            if not left:
                # SHOULD: a comment now and then (streamable-http#receiving-messages)
                if not post.comment():
                    return False
                quiet, left = Deadline(self._keep_alive), self._keep_alive
            wake.wait(min(LOOK, left))

    def close(self, timeout: float = 5) -> None:
        """End every subscription with its result, cancel the handlers that run, and begin no more.

        A client that does not take the end of its subscription has `PATIENCE` to, and is cut off.

        Blocks: at most `timeout` seconds. Idempotent; any thread.
        """
        with self._lock:
            self._closed = True
            held = list(self._held)
        for subscription in held:
            subscription.end(_SHUTDOWN)
        until = time.monotonic() + min(timeout, PATIENCE)
        with self._lock:
            while self._held and (left := until - time.monotonic()) > 0:
                self._fewer.wait(left)
            stuck = list(self._held.values())
        for reply in stuck:
            reply.abort()


_SHUTDOWN = "the server is shutting down"
_GONE = "the client has hung up"


class PostAnswer:
    """The answer to one POST: JSON alone, or an event stream once something goes before it; see `Reply`.

    Attributes:
        status: of an answer that is JSON.

    Threads: one at a time: its `Incoming` sees to that.
    """

    __slots__ = ("_opened", "_reply", "_tap", "status")

    def __init__(self, reply: HttpReply, tap: Callable[[], Tap | None]) -> None:
        self._reply, self._tap = reply, tap
        self.status = 200
        self._opened = False

    def send(self, message: JsonObject, deadline: Deadline) -> None:
        """Send a notification, or the answer, which is the last that is sent.

        Raises: TransportClosed: the client has hung up. LocalProtocolError: it is no JSON; nothing of it was sent.
        """
        body = messages.encode(message)
        last = "method" not in message
        try:
            if last and not self._opened:
                self._reply.send(self.status, _JSON, body)
                return
            if not self._opened:
                self._reply.open(STREAM_HEADERS)
                self._opened = True
            self._reply.write(encode_event(body.decode("utf-8")))
            if last:
                # SHOULD: the response ends the stream (streamable-http#receiving-messages)
                self._reply.end()
        except OSError as problem:
            raise TransportClosed(f"{_GONE}: {problem}") from None
        if (tap := self._tap()) is not None:
            tap.deliver()

    def comment(self) -> bool:
        """Say nothing, so that nobody between here and the client closes the stream; whether the client is there."""
        try:
            self._reply.write(COMMENT)
        except OSError as problem:
            log.debug("%s: %s", _GONE, problem)
            return False
        return True


_JSON = {"Content-Type": "application/json"}


def _finish(incoming: Incoming, answer: JsonObject) -> None:
    try:
        incoming.finish(answer, Deadline(None))
    except LocalProtocolError as problem:
        log.error("the result of %s is not JSON: %s", incoming.method, problem)
        incoming.finish(incoming.error(InternalError("Internal error")), Deadline(None))


def _status_of(refusal: Refusal, params: JsonObject) -> int:
    """The status of a refusal, which may be that of an envelope that cannot be read."""
    in_envelope = False
    if refusal.code == InvalidParams.code:
        try:
            read_envelope(params)
        except InvalidParams:
            in_envelope = True
    return http_status(refusal.code, in_envelope=in_envelope)


def _refuse(reply: HttpReply, status: int, error: JsonObject, headers: JsonObject | None = None) -> None:
    reply.send(status, {**_JSON, **(headers or {})}, messages.encode(error))
