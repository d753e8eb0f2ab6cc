"""Conversation: with whom a handler of a server speaks, in either era; and `Session`, in the session era.

Over a channel that may carry both eras, such as stdio, a request that stands alone is handed to server/stateless.

Spec:      basic/lifecycle; server/index; basic/versioning#compatibility-matrix (2026-07-28)
Upholds:   spec_notes/basic/lifecycle.md, the rows on the server; the rows on rate limits of each page
Not here:  what a method does (each page's module); what a handler may do (server/context); registries and several
           clients (server/server)
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from mcp_ref.agreement import Terms
from mcp_ref.basic.keep_alive import KeepAlive
from mcp_ref.basic.lifecycle import Lifecycle, initialize_result, negotiate
from mcp_ref.basic.mrtr import MAX_ROUNDS, ask_now
from mcp_ref.basic.subscriptions import ChannelSubscriptions
from mcp_ref.basic.transports.transport import Transport
from mcp_ref.basic.utilities import answer_ping
from mcp_ref.basic.versioning import is_stateless
from mcp_ref.client.elicitation import UrlElicitationRequired
from mcp_ref.errors import STATELESS_ERRORS, InternalError, InvalidParams, McpError, MethodNotFound, Refusal
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.outbox import Outbox
from mcp_ref.machinery.rates import RateLimited
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.pages import METHODS
from mcp_ref.peer import Answerer, Peer
from mcp_ref.revisions import Revision
from mcp_ref.server import announcing
from mcp_ref.server.context import Context
from mcp_ref.types import client_capabilities

if TYPE_CHECKING:
    from mcp_ref.server.server import Server

log = logging.getLogger(__name__)

FAREWELL_TIMEOUT = 0.5
"""Seconds in which a client that listens is told that the server closes."""


Handler = Callable[[Any, Any], Any]
"""A page's answering half: called with the context and the params, it makes the result."""

_REPLACED_CODES: Final = {
    "session": dict.fromkeys(STATELESS_ERRORS, InternalError.code),
    "stateless": {
        **{code: InternalError.code for code in range(-32099, -32019) if code not in STATELESS_ERRORS},
        -32002: InvalidParams.code,
    },
}
"""What a handler may raise, and nobody may send in that era: codes that mean something in the other era alone, or that
the specification keeps for itself."""


class Conversation:
    """The other side of a handler's questions: a session or, in the stateless era, one request. Both share this."""

    server: Server
    terms: Terms
    client_info: JsonObject
    client_capabilities: JsonObject  # as the revision knows them
    log_level: str | None  # the least level of log messages that the client asked for
    source: Hashable  # whose requests and notifications count together, where a method has a rate
    session_key: str | None  # see `Context.session_key`

    def serve(self, incoming: Incoming) -> JsonObject:
        """The result of a request, as its revision has it. Raises: Refusal, or whatever else the handler raises."""
        # 1. What the revision, the capabilities and the rates let through.
        method, terms, revision = incoming.method, self.terms, self.terms.revision
        check, project, *_ = terms.received[method]
        handler = self.server.answers[revision.era].get(method)
        if handler is None:
            # Also a notification that came with an id, before its params are looked at.
            raise MethodNotFound(f"Method not found: {method}", {"method": method})
        if check is not None:
            check(incoming.params)
        # MUST: servers rate limit tool invocations (server/tools#security-considerations)
        # MUST: servers rate limit completion requests (server/utilities/completion#security)
        if wait := self.server.limits.take(self.source, method):
            raise RateLimited(wait)
        # 2. The handler, and what of its refusals can be said in this revision.
        try:
            result = self.run(handler, incoming)
        except UrlElicitationRequired:
            if not revision.url_elicitation_error:
                # Its code means nothing here: a client would take it for an error of the server's own.
                raise InternalError(f"A page must be visited first, which {revision} cannot ask for") from None
            raise
        except Refusal as refusal:
            # MUST NOT: send an error code that is reserved, or one that was given up, such as -32002 and -32042
            # (2026-07-28/basic/index#error-codes)
            if (code := _REPLACED_CODES[revision.era].get(refusal.code)) is None:
                raise
            data = None if revision.era == "session" else refusal.data
            raise Refusal(refusal.message, data, code=code) from refusal
        # 3. The result, as the revision has it; what asks for input was made for it already.
        if project is None or result.get("resultType") == "input_required":
            return result
        return project(result)

    def may_notify(self, method: str) -> bool:
        """Whether one more notification may be sent now; any that comes too often is dropped."""
        # SHOULD: rate limit log messages (server/utilities/logging#implementation-considerations)
        # SHOULD: rate limit progress, to prevent flooding (basic/utilities/progress#implementation-notes)
        dropped = self.server.limits.take(self.source, method) > 0
        if dropped:
            self.server.limits.note_dropped(method)
        return not dropped

    # -- what differs between the eras

    def run(self, handler: Handler, incoming: Incoming) -> JsonObject:
        """The result of a handler; questions that it asks by its result are put to the client."""
        raise NotImplementedError

    def ask(self, method: str, params: JsonObject | None, options: Options | None, incoming: Incoming) -> JsonObject:
        """The client's answer to a question of the handler."""
        raise NotImplementedError

    def ask_all(self, asks: Sequence[Callable[[], Any]]) -> list[Any]:
        """What each of the callables returns, each of which asks the client."""
        raise NotImplementedError

    def notify(self, method: str, params: JsonObject | None = None, of: Incoming | None = None) -> None:
        """Send a notification, which travels with the reply of the request that it belongs to."""
        raise NotImplementedError


class Session(Conversation):
    """One client's conversation with a server; made by `Server.connect`.

    Threads: `notify`, `announce`, `wait` and `close` by any thread; `admit`, `take` and `lost` belong to the peer.
    """

    # server/announcing
    announce = announcing.queue_for

    def __init__(self, server: Server, transport: Transport, revisions: Sequence[Revision]) -> None:
        self.server, self._transport = server, transport
        self._revisions = [revision for revision in revisions if revision.era == "session"]
        self._stateless = server.stateless if len(self._revisions) < len(revisions) else None
        # Stands for this channel, and keeps nothing of it alive.
        self.source = self.session_key = os.urandom(16).hex()
        self.client_info: JsonObject = {}
        self.client_capabilities: JsonObject = {}
        self.log_level: str | None = None
        self.subscriptions: frozenset[str] = frozenset()  # URIs; replaced, never changed in place
        self.lifecycle = Lifecycle("server")
        self.may_send = self.lifecycle.send
        self._ended = threading.Event()
        self.changing = threading.Lock()  # guards the replacement of `subscriptions`, and _listening
        self._listening: ChannelSubscriptions | None = None
        terms = Terms("server", revisions[0], METHODS, server.introduction().capabilities, {})
        self.peer = Peer(transport, self, terms, timeout=server.question_timeout, cap=server.max_workers)
        self.terms = terms
        self.announcements: Outbox[tuple[str, JsonObject | None]] = Outbox()
        # Over HTTP the thread that holds a stream of the session writes; without one, a worker.
        run_soon = getattr(transport, "run_soon", self.peer.run_soon)
        self.announcements.on_work(partial(run_soon, partial(announcing.write_queued, self)))
        interval = server.ping_interval
        self._keep_alive = None if interval is None else KeepAlive(self.peer, interval)

    def resume(self, revision: Revision) -> None:
        """Begin in the middle: take for granted that the session was opened, by a client that declared nothing."""
        self.lifecycle.state = "open"
        self.terms = self.peer.terms = Terms("server", revision, METHODS, self.terms.local, {})
        self.terms.open = True

    # -- what the client says (the peer asks this)

    def admit(self, incoming: Incoming) -> JsonObject | Answerer:
        """Decide on a request in the order of arrival: `initialize` and `ping` are answered at once."""
        method, params = incoming.method, incoming.params
        # Which era it is of the request itself says; to a server of the stateless era alone, each is of that.
        if self._stateless is not None and (not self._revisions or is_stateless(method, params)):
            return self._serve_alone
        if method != "initialize":
            if not self.terms.open:
                self.lifecycle.receive(method, is_request=True)
            # MUST: respond promptly to a ping, with an empty result (basic/utilities/ping#behavior-requirements)
            return dict(answer_ping()) if method == "ping" else self.serve
        if (check := self.terms.received[method].check) is not None:
            check(params)
        self.lifecycle.receive(method, is_request=True)
        agreed = negotiate(params["protocolVersion"], self._revisions)
        result = initialize_result(self.server.introduction(incoming.owner), agreed)
        self.client_info, remote = params["clientInfo"], client_capabilities(params["capabilities"], agreed)
        self.client_capabilities = remote
        # MUST: both sides use only what was negotiated, from the answer to `initialize` on (basic/lifecycle#operation)
        self.terms = self.peer.terms = Terms("server", agreed, METHODS, result["capabilities"], remote)
        return result

    def take(self, method: str, params: JsonObject) -> None:
        """Note a notification in the order of arrival."""
        try:
            self.lifecycle.receive(method, is_request=False)
            if (check := self.terms.received[method].check) is not None:
                check(params)
        except Refusal as refusal:
            log.debug("ignored the notification %s: %s", method, refusal)
            return
        if method == "notifications/initialized":
            self.terms.open = True
            if self._keep_alive is not None:
                self._keep_alive.start()
        elif method == "notifications/roots/list_changed" and self.server.on_roots_changed is not None:
            ctx = Context(self, Incoming(method, method, params, self._transport))
            self.peer.run(partial(self.server.on_roots_changed, ctx))

    def lost(self, reason: McpError) -> None:
        """The client is gone; what its handlers still do ends with `close()`, which whoever connected calls."""
        self.lifecycle.close()
        self._ended.set()

    # -- requests that stand alone, over the same channel

    def _serve_alone(self, incoming: Incoming) -> JsonObject | None:
        """Answer a request of the stateless era; None for a subscription, whose answer comes at its end."""
        assert self._stateless is not None
        answer = self._stateless.answer(incoming, source=self.source)
        if isinstance(answer, dict):
            return answer
        with self.changing:
            self._listening = self._listening or ChannelSubscriptions(self.peer, self.server.info)
        self._listening.carry(answer)
        return None

    # -- what a handler asks and says (server/context)

    def run(self, handler: Handler, incoming: Incoming) -> JsonObject:
        """The result of a handler. What it asks by a result is put to the client, and then it runs again."""
        for rounds in count():
            ctx = Context(self, incoming)
            result: JsonObject = handler(ctx, incoming.params)
            if result.get("resultType") != "input_required":
                return result
            if rounds == MAX_ROUNDS:
                break
            incoming.answers, incoming.state = ask_now(ctx, result)
        log.error("%s asked for input in %d rounds, and has no end", incoming.method, MAX_ROUNDS)
        raise InternalError("Internal error")

    def ask(self, method: str, params: JsonObject | None, options: Options | None, incoming: Incoming) -> JsonObject:
        """Send a question of a handler to the client, and wait for its answer."""
        return self.peer.request(method, params, options, incoming)

    def ask_all(self, asks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Several questions, one after the other."""
        return [ask() for ask in asks]

    def notify(self, method: str, params: JsonObject | None = None, of: Incoming | None = None) -> None:
        """Send a notification; one that comes too often is dropped."""
        if self.may_notify(method):
            self.peer.notify(method, params, of)

    # -- ending

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the client is gone, at most `timeout` seconds; whether it is."""
        return self._ended.wait(timeout)

    def close(self, timeout: float = 5, drain: float = 0) -> list[str]:
        """End the conversation within `timeout` seconds, as `Peer.close` does; `mcp-ping` waits on an event that is set
        here.

        Args:
            drain: of these, the seconds in which handlers may still finish and answer.
        """
        if self.peer.process != os.getpid():
            return []
        deadline = Deadline(timeout)
        if self._keep_alive is not None:
            self._keep_alive.stop()
        if self.peer.closed is None and self._listening is not None:
            # What this client listens to ends first, and the workers get a moment to say so.
            self._listening.end(min(drain or FAREWELL_TIMEOUT, timeout / 2))
        stuck = self.peer.close(deadline, "the server closed the session", drain)
        if self._keep_alive is not None:
            self._keep_alive.join(deadline)
        self.server.forget(self)
        return stuck
