"""Stateless: answers each request from itself alone, in the stateless era.

Spec:      basic/versioning, basic/index#statelessness, basic/index#_meta, basic/patterns/index (2026-07-28)
Upholds:   spec_notes/basic/versioning.md, spec_notes/basic/patterns/index.md
Not here:  what a method does (each page's module); headers and statuses (streamable_http/server); the session era
           (server/session)

Nothing here belongs to a connection. What a request needs to know of its client stands in its `_meta`; what it may need
to ask is asked in its result, and comes back with another request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_ref import messages
from mcp_ref.agreement import Terms
from mcp_ref.basic.extensions import open_extended, rows_with
from mcp_ref.basic.mrtr import Rounds
from mcp_ref.basic.subscriptions import LISTEN, Subscription, Subscriptions, SubscriptionsListenRequestParams
from mcp_ref.basic.utilities import token_of
from mcp_ref.basic.versioning import Envelope, complete, is_stateless, read_envelope
from mcp_ref.client.elicitation import UrlElicitationRequired
from mcp_ref.errors import LocalProtocolError, MethodNotFound, UnsupportedVersion
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.rates import RateLimited
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.pages import METHODS
from mcp_ref.revisions import Revision
from mcp_ref.server.context import Context
from mcp_ref.server.session import Conversation, Handler
from mcp_ref.server.utilities.caching import CACHEABLE, NO_HINT
from mcp_ref.types import client_capabilities, server_capabilities

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.headers import MirroredHeaders
    from mcp_ref.server.server import Server

_OF_A_REQUEST: Final = frozenset({"notifications/progress", "notifications/message"})
"""The protocol's notifications that belong to a request; the others travel on subscriptions alone."""


class Stateless:
    """A server's answers to requests that stand alone; one for all of its clients.

    Args:
        revisions: those of the server that are of this era, oldest first.

    Threads: any.
    """

    def __init__(self, server: Server, revisions: Sequence[Revision]) -> None:
        self.server, self.revisions = server, {revision.name: revision for revision in revisions}
        self.subscriptions = Subscriptions()
        # Replaced as one, when something was registered since: which revisions and features there are, as rules.
        self._terms: tuple[int, dict[str, Terms]] = (-1, {})

    def answer(
        self,
        incoming: Incoming,
        principal: str | None = None,
        mirrored: MirroredHeaders | None = None,
        source: Hashable = None,
    ) -> JsonObject | Subscription:
        """The result of a request, whole; for `subscriptions/listen` what its transport has to carry.

        Args:
            principal: who asks, if that is known: what is sealed for one is of no use to another.
            mirrored: what the headers say of the request, to be compared with it.
            source: where it came from, such as one channel: whose rate counts while the principal is not known.

        Raises: Refusal, for the first of these that is wrong: a key that `_meta` must have, a header, the version, the
            method, its parameters, a capability that the handler needs.
        """
        method, params = incoming.method, incoming.params
        spoken = [revision.name for revision in reversed(self.server.revisions)]
        # 1. What the request says of itself.
        if method == "initialize" and not is_stateless(method, params):
            # SHOULD: a server without the session era names its versions to a client that sends `initialize`
            # (basic/versioning#backward-compatibility-with-initialization-based-versions)
            raise UnsupportedVersion(str(params.get("protocolVersion", "")), spoken)
        # MUST NOT: take the version, the capabilities or who asks from an earlier request or from the connection
        # (basic/index#statelessness)
        envelope = read_envelope(params)
        if mirrored is not None:
            mirrored.check(method, params, envelope.version)
        # 2. The rules that follow from it, with what the server has now.
        generation, known = self._terms
        if generation != self.server.generation:
            generation, declared = self.server.generation, self.server.introduction().capabilities
            extensions = self.server.extensions
            rows = rows_with(METHODS, extensions.values()) if extensions else METHODS
            known = {
                name: Terms("server", revision, rows, server_capabilities(declared, revision), {})
                for name, revision in self.revisions.items()
            }
            self._terms = (generation, known)
        terms = known.get(envelope.version)
        if terms is None:
            # MUST: a version that is not served is answered with -32022
            # (basic/versioning#protocol-version-negotiation), and over HTTP with 400
            # (basic/transports/streamable-http#protocol-version-header)
            raise UnsupportedVersion(envelope.version, spoken)
        if method == "initialize":
            # SHOULD: whatever error answers `initialize` names the supported versions
            # (basic/versioning#backward-compatibility-with-initialization-based-versions)
            text = f"Method not found: initialize; this server's versions open nothing: {', '.join(spoken)}"
            raise MethodNotFound(text, {"method": method, "supported": spoken})
        # 3. The answer; a subscription's comes at its end.
        call = Call(self, terms, incoming, envelope, principal, mirrored, source)
        if method == LISTEN:
            check = terms.received[method].check
            if check is not None:
                check(params)
            if wait := self.server.limits.take(call.source, method):
                raise RateLimited(wait)
            listen = cast(SubscriptionsListenRequestParams, params)
            if self.server.extensions:
                return open_extended(self.subscriptions, Context(call, incoming), listen)
            return self.subscriptions.open(incoming, listen, terms.local)
        result = call.serve(incoming)
        if method in CACHEABLE and result.get("resultType") != "input_required":
            # MUST: complete results of discovery, the lists and `resources/read` have `ttlMs` and `cacheScope`
            # (server/utilities/caching#cacheable-results)
            result = {**self.server.cache_hints.get(method, NO_HINT), **result}
        return complete(result, self.server.info)


class Call(Conversation):
    """One request while its handler runs. What it says of its client holds for itself alone."""

    def __init__(
        self,
        owner: Stateless,
        terms: Terms,
        incoming: Incoming,
        envelope: Envelope,
        principal: str | None,
        mirrored: MirroredHeaders | None,
        source: Hashable,
    ) -> None:
        self.server, self.terms, self._incoming = owner.server, terms, incoming
        self.client_info, self.log_level = envelope.client_info, envelope.log_level
        self.source = source if principal is None else principal
        # Without headers the request came over a channel of its client's own, such as a pipe, which has a key.
        self.session_key = cast("str | None", source) if principal is None and mirrored is None else principal
        self._declared, self._principal, self._mirrored = envelope.client_capabilities, principal, mirrored
        self._rounds: Rounds | None = None  # made when it is first needed
        self._thread = threading.get_ident()  # runs the handler
        self._over = False

    @cached_property
    def client_capabilities(self) -> JsonObject:  # type: ignore[override]
        """See `Conversation`; as declared in this request."""
        return client_capabilities(self._declared, self.terms.revision)

    def run(self, handler: Handler, incoming: Incoming) -> JsonObject:
        """The handler's result, or the questions in which its run has ended."""
        method, params = incoming.method, incoming.params
        if self._mirrored is not None and method == "tools/call":
            tool = self.server.registries["tools"].get(params["name"])
            if tool is not None:
                self._mirrored.check_arguments(tool.definition["inputSchema"], params.get("arguments") or {})
        if "inputResponses" in params or "requestState" in params:
            # What came back from an earlier round is checked first, whether or not the handler asks for it.
            rounds = self._asking()
            incoming.answers, incoming.state = rounds.responses, rounds.state
        result: JsonObject = {}
        try:
            result = handler(Context(self, incoming), params)
        except UrlElicitationRequired as required:
            # MUST NOT: send -32042 in this revision: the visits that it names become questions
            # (basic/index#error-codes)
            self._asking().ask_urls(required.data["elicitations"])
        except BaseException:
            # An open question counts, and not the exception: a handler that catches everything, and raises something
            # else, cannot make an end of it.
            if self._rounds is None or not self._rounds.needed:
                raise
        if self._rounds is not None or result.get("resultType") == "input_required":
            result = self._asking().outcome(result)
        self._over = True
        return result

    def run_here(self) -> None:
        """See `Conversation`: questions come from this thread alone."""
        self._thread = threading.get_ident()
        if self._rounds is not None:
            self._rounds.thread = self._thread

    def ask(self, method: str, params: JsonObject | None, options: Options | None, incoming: Incoming) -> JsonObject:
        """The answer to a question, if it has come; else the run ends here, and the client is asked."""
        # MUST NOT: a server sends requests: what it asks travels in `inputRequests` of a result (basic/patterns/index#;
        # basic/patterns/mrtr#; basic/transports/stdio#receiving-messages)
        return self._asking().ask(method, params)

    def ask_all(self, asks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Several questions in one result."""
        return self._asking().ask_all(*asks)

    def _asking(self) -> Rounds:
        """What the handler may ask, and the answers that came."""
        if self._over:
            raise LocalProtocolError("the request was answered: its context can ask nothing more")
        if self._rounds is None:
            keys, name = self.server.state_keys, self.server.info["name"]
            capabilities, revision = self.client_capabilities, self.terms.revision
            method, params = self._incoming.method, self._incoming.params
            self._rounds = Rounds(
                keys, name, self._principal, method, params, capabilities, revision, thread=self._thread
            )
        return self._rounds

    def notify(self, method: str, params: JsonObject | None = None, of: Incoming | None = None) -> None:
        """Send a notification that belongs to the request, unless it is one that the request did not ask for."""
        rule = self.terms.notified[method]
        # MUST: the notifications on the stream of a reply relate to its request
        # (basic/transports/streamable-http#receiving-messages)
        # MUST NOT: a server sends `notifications/cancelled` for anything but a subscription
        # (basic/patterns/cancellation#)
        if method in METHODS and method not in _OF_A_REQUEST:
            raise LocalProtocolError(f"{method} does not belong to a request: it travels on subscriptions alone")
        # MUST NOT: send `notifications/message` for a request that names no `logLevel`
        # (server/utilities/logging#per-request-log-level)
        if method == "notifications/message" and self.log_level is None:
            return
        if method == "notifications/progress":
            # MUST: progress is reported with the `progressToken` of an active request
            # (basic/patterns/progress#progress-flow)
            token = token_of(self._incoming.params)
            if token is None or (params or {}).get("progressToken") != token:
                return
        if self.may_notify(method):
            if params is not None and rule.project is not None:
                params = rule.project(params)
            self._incoming.notify(messages.notification(method, params))
