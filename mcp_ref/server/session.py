"""Session: one client's conversation with a server, in the session era.

Spec:      basic/lifecycle; server/index
Upholds:   spec_notes/basic/lifecycle.md, the rows on the server; the rows on rate limits of each page
Reads:     basic/lifecycle, basic/terms, basic/patterns/request_response
Not here:  what a method does (each page's module); registries and several clients (server/server)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.lifecycle import Lifecycle, client_capabilities, initialize_result, negotiate
from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.patterns.keepalive import KeepAlive
from mcp_ref.basic.patterns.reply import Incoming
from mcp_ref.basic.patterns.request_response import Peer
from mcp_ref.basic.rate_limit import RateLimited, TokenBucket
from mcp_ref.basic.terms import Terms
from mcp_ref.basic.transports.transport import Transport
from mcp_ref.basic.utilities.ping import answer_ping
from mcp_ref.errors import InternalError, InvalidParams, McpError, MethodNotFound, Refusal, UrlElicitationRequired
from mcp_ref.methods import METHODS
from mcp_ref.revisions import Revision
from mcp_ref.server.context import Context

if TYPE_CHECKING:
    from mcp_ref.server.server import Server

__all__ = ["MOST_SUBSCRIPTIONS", "Session"]

log = logging.getLogger(__name__)

MOST_SUBSCRIPTIONS = 10_000
"""URIs that one client may be subscribed to at once; more are refused, so that what it makes us keep stays bounded."""


class Session:
    """One client's conversation with a server; made by `Server.connect`.

    Attributes:
        server: whose handlers answer; `revisions`: those that the transport can carry, oldest first.
        peer: the messages of this conversation.
        client_info: what the client said of itself; empty before `initialize`.
        log_level: the least level of log messages that the client asked for, or None.
        subscriptions: the URIs that it subscribed to; replaced, never changed in place.

    Threads: `notify`, `wait` and `close` by any thread; `admit`, `answer`, `take` and `lost` belong to the peer.
    """

    def __init__(self, server: Server, transport: Transport, revisions: Sequence[Revision]) -> None:
        self.server, self._revisions = server, revisions
        self.client_info: JsonObject = {}
        self.log_level: str | None = None
        self.subscriptions: frozenset[str] = frozenset()
        self.lifecycle = Lifecycle("server")
        self.may_send = self.lifecycle.send
        self._lock = threading.Lock()  # guards subscriptions (its replacement), _buckets and _dropped
        self._dropped: set[str] = set()
        self._buckets = {method: TokenBucket(rate) for method, rate in server.rates.items()}
        self._ended = threading.Event()
        capabilities = server.introduction().capabilities
        terms = Terms("server", revisions[0], METHODS, capabilities, {})
        self.peer = Peer(transport, self, terms, timeout=server.question_timeout, cap=server.max_workers)
        self._keep_alive = KeepAlive(self.peer, server.ping_interval) if server.ping_interval else None

    def start(self) -> None:
        """Begin to receive."""
        self.peer.start()

    @property
    def revision(self) -> Revision:
        """The revision agreed with this client."""
        return self.peer.terms.revision

    @property
    def opened(self) -> bool:
        """Whether `initialize` was answered with a result."""
        return self.lifecycle.state != "new"

    def resume(self, revision: Revision) -> None:
        """Begin in the middle: take for granted that the session was opened, by a client that declared nothing."""
        self.lifecycle.state = "open"
        self.peer.terms = Terms("server", revision, METHODS, self.peer.terms.local, {})
        self.peer.terms.open = True

    # -- what the peer asks (basic/patterns/side)

    def admit(self, method: str, params: JsonObject) -> JsonObject | None:
        """Decide on a request in the order of arrival: `initialize` and `ping` are answered at once."""
        if method == "initialize":
            check = self.peer.terms.receiving(method).check
            if check is not None:
                check(params)
        self.lifecycle.receive(method, is_request=True)
        if method == "initialize":
            return self._initialize(params)
        # MUST: respond to a ping promptly (basic/utilities/ping#behavior-requirements)
        return dict(answer_ping()) if method == "ping" else None

    def _initialize(self, params: JsonObject) -> JsonObject:
        """Agree on a revision; from here on the terms are those of both sides."""
        agreed = negotiate(params["protocolVersion"], self._revisions)
        introduction = self.server.introduction()
        result = initialize_result(introduction, agreed)
        remote = client_capabilities(params["capabilities"], agreed)
        self.client_info = params["clientInfo"]
        self.peer.terms = Terms("server", agreed, METHODS, result["capabilities"], remote)
        return result

    def answer(self, incoming: Incoming) -> JsonObject:
        """Find the rule and the handler of a request, and run it."""
        method = incoming.method
        check, project = self.peer.terms.receiving(method)
        if check is not None:
            check(incoming.params)
        handler = self.server.answers.get(method)
        if handler is None:
            raise MethodNotFound(f"Method not found: {method}", {"method": method})
        if method in self._buckets:
            self._spend(method)
        try:
            result = handler(Context(self, incoming), incoming.params)
        except UrlElicitationRequired:
            if self.revision.url_elicitation_error:
                raise
            # Its code means nothing in this revision: a client would take it for an error of the server's own.
            raise InternalError(f"A page must be visited first, which {self.revision} cannot ask for") from None
        return project(result) if project is not None else result

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
            self.peer.run(partial(self.server.on_roots_changed, Context(self, self.peer.event(method, params))))

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

    def _drop(self, method: str) -> None:
        with self._lock:
            first = method not in self._dropped
            self._dropped.add(method)
        # Once: whoever passes this log on to the client would otherwise log about logging without end.
        if first:
            log.warning("%s comes too often: some are dropped from here on", method)

    # -- ending

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
        stuck = self.peer.close(deadline, "the server closed the session", drain)
        if self._keep_alive is not None:
            self._keep_alive.join(deadline)
        self.server.forget(self)
        return stuck
