"""Session: one client's conversation with a server, in the session era.

Over a channel that may carry both eras, such as stdio, a request that stands alone is handed to server/stateless.

Spec:      basic/lifecycle; server/index; basic/versioning#compatibility-matrix (2026-07-28)
Upholds:   spec_notes/basic/lifecycle.md, the rows on the server; the rows on rate limits of each page
Not here:  what a method does (each page's module); registries and several clients (server/server)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_ref import messages
from mcp_ref.agreement import Terms, undeclared
from mcp_ref.basic.lifecycle import Lifecycle, initialize_result, negotiate
from mcp_ref.basic.mrtr import missing_capability
from mcp_ref.basic.subscriptions import Subscription
from mcp_ref.basic.transports.transport import Transport
from mcp_ref.basic.utilities import KeepAlive, answer_ping
from mcp_ref.basic.versioning import complete, is_input_required, is_modern
from mcp_ref.errors import (
    MODERN_ERRORS,
    InternalError,
    InvalidParams,
    McpError,
    MethodNotFound,
    Refusal,
    UrlElicitationRequired,
)
from mcp_ref.incoming import WRITE_TIMEOUT, Incoming
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.outbox import Outbox
from mcp_ref.machinery.rates import RateLimited, TokenBucket
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.pages import METHODS
from mcp_ref.peer import Answerer, Peer
from mcp_ref.revisions import Revision
from mcp_ref.server.context import Context
from mcp_ref.server.resources import covers
from mcp_ref.types import client_capabilities

if TYPE_CHECKING:
    from mcp_ref.server.server import Server

log = logging.getLogger(__name__)

Answer = Callable[[Any, Any], Any]

_FAREWELL = 0.5
"""Seconds in which a client that listens is told that the server closes."""

MOST_ROUNDS = 10
"""Results in which a handler asks for input instead of answering, before the request is given up."""

MAX_ANNOUNCEMENTS = 1_000
"""Announcements that wait for one client. Beyond that, log messages are dropped, and an update below a URI that the
client subscribed to is told as one of that URI."""

MOST_SUBSCRIPTIONS = 10_000
"""URIs that one client may be subscribed to at once; more are refused, so that what it makes us keep stays bounded."""


class Session:
    """One client's conversation with a server; made by `Server.connect`.

    Attributes:
        server: whose handlers answer.
        peer: the messages of this conversation.
        client_info: what the client said of itself; empty before `initialize`.
        log_level: the least level of log messages that the client asked for, or None.
        subscriptions: the URIs that it subscribed to; replaced, never changed in place.

    Threads: `notify`, `wait` and `close` by any thread; `admit`, `answer`, `take` and `lost` belong to the peer.
    """

    def __init__(self, server: Server, transport: Transport, revisions: Sequence[Revision]) -> None:
        self.server, self._transport = server, transport
        self._revisions = [revision for revision in revisions if revision.era == "session"]
        self._stateless = server.stateless if len(self._revisions) < len(revisions) else None
        self.client_info: JsonObject = {}
        self.log_level: str | None = None
        self.subscriptions: frozenset[str] = frozenset()
        self.lifecycle = Lifecycle("server")
        self.may_send = self.lifecycle.send
        self._lock = threading.Lock()  # guards subscriptions (its replacement), _buckets, _dropped and _listening
        self._dropped: set[str] = set()
        self._listening: set[Subscription] = set()
        self._told = threading.Semaphore(0)  # one for each that heard of its end
        self._buckets = {method: TokenBucket(rate) for method, rate in server.rates.items()}
        self._ended = threading.Event()
        self._source = object()  # stands for this channel, and keeps nothing of it alive
        capabilities = server.introduction().capabilities
        terms = Terms("server", revisions[0], METHODS, capabilities, {})
        self.peer = Peer(transport, self, terms, timeout=server.question_timeout, cap=server.max_workers)
        self._announcements: Outbox[tuple[str, JsonObject | None]] = Outbox()
        # Over HTTP the thread that holds a stream of the session writes; without one, a worker.
        run_soon = getattr(transport, "run_soon", self.peer.run_soon)
        self._announcements.on_work(partial(run_soon, self._write_announcements))
        self._keep_alive = KeepAlive(self.peer, server.ping_interval) if server.ping_interval else None

    def start(self) -> None:
        """Begin to receive."""
        self.peer.start()

    @property
    def revision(self) -> Revision:
        """The revision agreed with this client."""
        return self.peer.terms.revision

    @property
    def client_capabilities(self) -> JsonObject:
        """What the client declared, as the revision agreed knows it."""
        return self.peer.terms.remote

    @property
    def opened(self) -> bool:
        """Whether `initialize` was answered with a result."""
        return self.lifecycle.state != "new"

    def resume(self, revision: Revision) -> None:
        """Begin in the middle: take for granted that the session was opened, by a client that declared nothing."""
        self.lifecycle.state = "open"
        self.peer.terms = Terms("server", revision, METHODS, self.peer.terms.local, {})
        self.peer.terms.open = True

    # -- what the peer asks (peer)

    def admit(self, incoming: Incoming) -> JsonObject | Answerer:
        """Decide on a request in the order of arrival: `initialize` and `ping` are answered at once."""
        method, params = incoming.method, incoming.params
        if self._stateless is not None and self._stands_alone(method, params):
            return self.answer
        if method == "initialize":
            check = self.peer.terms.receiving(method).check
            if check is not None:
                check(params)
        self.lifecycle.receive(method, is_request=True)
        if method == "initialize":
            return self._initialize(params)
        # MUST: respond to a ping promptly (basic/utilities/ping#behavior-requirements)
        return dict(answer_ping()) if method == "ping" else self.answer

    def _stands_alone(self, method: str, params: JsonObject) -> bool:
        """Whether a request is of the stateless era; where that is the only one, each is taken for such."""
        return not self._revisions or is_modern(method, params)

    def _initialize(self, params: JsonObject) -> JsonObject:
        """Agree on a revision; from here on the terms are those of both sides."""
        agreed = negotiate(params["protocolVersion"], self._revisions)
        introduction = self.server.introduction()
        result = initialize_result(introduction, agreed)
        remote = client_capabilities(params["capabilities"], agreed)
        self.client_info = params["clientInfo"]
        self.peer.terms = Terms("server", agreed, METHODS, result["capabilities"], remote)
        return result

    def answer(self, incoming: Incoming) -> JsonObject | None:
        """Find the rule and the handler of a request, and run it; None where the answer comes later."""
        method = incoming.method
        if self._stateless is not None and self._stands_alone(method, incoming.params):
            alone = self._stateless.answer(incoming, source=self._source)
            if isinstance(alone, dict):
                return alone
            self._listen(alone)
            return None
        check, project, _ = self.peer.terms.receiving(method)
        handler = self.server.answers.get(method)
        if handler is None:
            raise MethodNotFound(f"Method not found: {method}", {"method": method})
        if check is not None:
            check(incoming.params)
        if method in self._buckets:
            self._spend(method)
        try:
            result = handler(Context(self, incoming), incoming.params)
            if result.get("resultType") == "input_required":
                result = self._ask_and_run(handler, incoming, result)
        except UrlElicitationRequired:
            if self.revision.url_elicitation_error:
                raise
            # Its code means nothing in this revision: a client would take it for an error of the server's own.
            raise InternalError(f"A page must be visited first, which {self.revision} cannot ask for") from None
        except Refusal as refusal:
            if refusal.code in MODERN_ERRORS:
                # These mean something in the other era alone: by them a client takes a server for one of it.
                raise InternalError(refusal.message) from None
            raise
        return project(result) if project is not None else result

    def _listen(self, subscription: Subscription) -> None:
        """Carry a subscription: its answer comes at its end."""
        with self._lock:
            self._listening.add(subscription)
        # Carried by a worker each time that there is something to write, so that it holds up none in between.
        subscription.carry(partial(self.peer.run_soon, partial(self._carry, subscription)))

    def _carry(self, subscription: Subscription) -> None:
        """Write what a subscription has pending; at its end the two messages that the pages ask for, in this order."""
        if subscription.flush():
            # SHOULD: a server that ends a subscription answers the `subscriptions/listen` request with an empty result
            # (basic/patterns/subscriptions#graceful-closure). It goes first: some clients take what comes next for a
            # loss of the subscription and read no further.
            try:
                self.peer.answer(subscription.incoming, complete(subscription.closing(), self.server.info))
                if not subscription.gone:
                    # MUST: over stdio a server ends a subscription with `notifications/cancelled` and the id of its
                    # request (basic/patterns/cancellation#behavior-requirements)
                    self._transport.send(subscription.cancelled_notification(), Deadline(WRITE_TIMEOUT))
            except (McpError, OSError) as problem:
                log.debug("could not say that the subscription %r has ended: %s", subscription.id, problem)
            finally:
                self._told.release()
        elif not subscription.gone:
            return
        with self._lock:
            self._listening.discard(subscription)

    def _ask_and_run(self, handler: Answer, incoming: Incoming, result: JsonObject) -> JsonObject:
        """Ask the client what a handler's result asks for, and run the handler again with the answers, to its end."""
        for _ in range(MOST_ROUNDS):
            ctx = Context(self, incoming)
            asked = result.get("inputRequests") or {}
            incoming.answers = {key: self._put(ctx, question) for key, question in asked.items()}
            # As it would come back from a client: a copy, of what JSON can say.
            incoming.state = messages.decode(messages.encode({"state": result.get("requestState")}))["state"]
            result = handler(ctx, incoming.params)
            if not is_input_required(result):
                return result
        log.error("%s asked for input in %d rounds, and has no end", incoming.method, MOST_ROUNDS)
        raise InternalError("Internal error")

    def _put(self, ctx: Context, question: JsonObject) -> JsonObject:
        """Ask what a handler's result asks for, as the revision agreed can say it."""
        method, params = question["method"], question.get("params") or {}
        missing = missing_capability({"method": method, "params": params}, self.client_capabilities, self.revision)
        if missing is not None:
            raise undeclared(self.revision, missing, f"the client did not declare {missing}")
        if method != "elicitation/create":
            return ctx.request(method, params)
        if params.get("mode") == "url":
            return dict(ctx.elicit_url(params["message"], params["url"]))
        return dict(ctx.elicit(params["message"], params["requestedSchema"]))

    # -- what a Context asks of its conversation (server/context)

    def ask(self, method: str, params: JsonObject | None, options: Options | None, incoming: Incoming) -> JsonObject:
        """Send a question of a handler to the client, and wait for its answer."""
        return self.peer.request(method, params, options, incoming)

    def ask_all(self, asks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Several questions, one after the other."""
        return [ask() for ask in asks]

    def input_response(self, key: str, method: str, incoming: Incoming) -> JsonObject | None:
        """The answer that came for a question of the handler's result; it was checked as it came."""
        answer: JsonObject | None = incoming.answers.get(key)
        return answer

    def set_log_level(self, level: str) -> None:
        """Remember the least level of log messages that the client wants."""
        self.log_level = level

    def _spend(self, method: str) -> None:
        # MUST: rate limit (server/tools#security-considerations, server/utilities/completion#security)
        with self._lock:
            wait = self._buckets[method].take()
        if wait:
            raise RateLimited(wait)

    def take(self, method: str, params: JsonObject) -> None:
        """Note a notification in the order of arrival."""
        try:
            self.lifecycle.receive(method, is_request=False)
            check = self.peer.terms.receiving(method).check
            if check is not None:
                check(params)
        except Refusal as refusal:
            log.debug("ignored the notification %s: %s", method, refusal)
            return
        if method == "notifications/initialized":
            self.peer.terms.open = True
            if self._keep_alive is not None:
                self._keep_alive.start()
        elif method == "notifications/roots/list_changed" and self.server.on_roots_changed is not None:
            self.peer.run(
                partial(self.server.on_roots_changed, Context(self, Incoming(method, method, params, self._transport)))
            )

    def lost(self, reason: McpError) -> None:
        """The client is gone; what its handlers still do ends with `close()`, which whoever connected calls."""
        self.lifecycle.close()
        self._ended.set()

    # -- what the client asked to hear

    def subscribe(self, uri: str) -> None:
        """Add a URI to the subscriptions; InvalidParams where there are `MOST_SUBSCRIPTIONS` of other URIs."""
        with self._lock:
            wanted = self.subscriptions | {uri}
            if len(wanted) > MOST_SUBSCRIPTIONS:
                raise InvalidParams(f"Too many subscriptions: a session has at most {MOST_SUBSCRIPTIONS}", {"uri": uri})
            self.subscriptions = wanted

    def unsubscribe(self, uri: str) -> None:
        """Take a URI out of the subscriptions; nothing happens where it is not one."""
        with self._lock:
            self.subscriptions -= {uri}

    def notify(self, method: str, params: JsonObject | None = None, reply: Incoming | None = None) -> None:
        """Send a notification; one whose method has a rate is dropped when it comes too often.

        Blocks: until it is written. Raises: LocalProtocolError, TransportClosed, RequestTimeout.
        """
        if method in self._buckets:
            try:
                self._spend(method)
            except RateLimited:
                self._drop(method)
                return
        self.peer.notify(method, params, reply)

    def announce(self, method: str, params: JsonObject | None = None) -> None:
        """Have a notification that belongs to no request written by another thread; never blocks.

        One that still waits, with the same method and `uri`, takes up the news; log messages are told one by one.
        """
        uri = (params or {}).get("uri")
        if len(self._announcements) >= MAX_ANNOUNCEMENTS:
            if method == "notifications/message":
                self._drop(method)
                return
            if uri is not None:
                uri = next((above for above in self.subscriptions if covers(above, uri)), uri)
                params = {"uri": uri}
        key = object() if method == "notifications/message" else (method, uri)
        self._announcements.put(key, (method, params))

    def _write_announcements(self) -> None:
        def write(announcement: tuple[str, JsonObject | None]) -> None:
            try:
                self.notify(*announcement)
            except (McpError, OSError) as problem:
                log.debug("could not announce %s: %s", announcement[0], problem)

        self._announcements.flush(write)

    def _drop(self, method: str) -> None:
        with self._lock:
            first = method not in self._dropped
            self._dropped.add(method)
        # Once: whoever passes this log on to the client would otherwise log about logging without end.
        if first:
            log.warning("%s comes too often: some are dropped from here on", method)

    # -- ending

    def _end_listening(self, timeout: float) -> None:
        """End what this client listens to, and give the workers a moment to say so."""
        with self._lock:
            listening = list(self._listening)
        for subscription in listening:
            subscription.end("the server closes")
        listening = [subscription for subscription in listening if not subscription.gone]
        deadline = Deadline(timeout)
        for _ in listening:
            # One that its client gave up tells nothing, and lets the time pass.
            self._told.acquire(timeout=deadline.left())

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the client is gone, at most `timeout` seconds; whether it is."""
        return self._ended.wait(timeout)

    def close(self, timeout: float = 5, drain: float = 0) -> list[str]:
        """End the conversation; returns what handlers would not end. Idempotent; any thread may call it.

        Args:
            timeout: seconds in all.
            drain: of these, the seconds in which handlers may still finish and answer.

        Why each thread ends: see `Peer.close`; `mcp-ping` waits on an event that is set here.
        """
        deadline = Deadline(timeout)
        if self._keep_alive is not None:
            self._keep_alive.stop()
        if self.peer.closed is None:
            self._end_listening(min(drain or _FAREWELL, timeout / 2))
        stuck = self.peer.close(deadline, "the server closed the session", drain)
        if self._keep_alive is not None:
            self._keep_alive.join(deadline)
        self.server.forget(self)
        return stuck
