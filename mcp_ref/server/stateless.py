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
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_ref import messages
from mcp_ref.agreement import Terms
from mcp_ref.basic.mrtr import Rounds
from mcp_ref.basic.subscriptions import LISTEN, Subscription, Subscriptions, SubscriptionsListenRequestParams
from mcp_ref.basic.utilities import token_of
from mcp_ref.basic.versioning import Envelope, Mirrored, complete, is_input_required, is_modern, read_envelope
from mcp_ref.errors import (
    MODERN_ERRORS,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    Refusal,
    UnsupportedVersion,
    UrlElicitationRequired,
)
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.rates import RateLimited, TokenBucket
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.pages import METHODS
from mcp_ref.revisions import Revision
from mcp_ref.server.context import Context
from mcp_ref.server.utilities.caching import CACHEABLE, hinted
from mcp_ref.types import client_capabilities, server_capabilities

if TYPE_CHECKING:
    from mcp_ref.server.server import Server

_OF_A_REQUEST: Final = frozenset({"notifications/progress", "notifications/message"})
"""The protocol's notifications that belong to a request; the others travel on subscriptions alone."""

_REPLACED: Final = {
    **{code: InternalError.code for code in range(-32099, -32019) if code not in MODERN_ERRORS},
    -32002: InvalidParams.code,
}
"""What stands here for codes that a handler may raise and nobody may send: those of the session era, and those that the
specification keeps for itself."""

_MOST_PRINCIPALS = 10_000
"""Of so many clients the rate is remembered; the one that was quiet the longest is forgotten first."""


class Stateless:
    """A server's answers to requests that stand alone; one for all of its clients.

    Args:
        revisions: those of the server that are of this era, oldest first.

    Attributes:
        subscriptions: the open `subscriptions/listen` of all clients.

    Threads: any.
    """

    def __init__(self, server: Server, revisions: Sequence[Revision]) -> None:
        self.server, self.revisions = server, {revision.name: revision for revision in revisions}
        self.subscriptions = Subscriptions()
        self._lock = threading.Lock()  # guards _buckets
        self._buckets: OrderedDict[tuple[Hashable, str], TokenBucket] = OrderedDict()
        # Replaced as one, when something was registered since: which revisions and features there are, as rules.
        self._terms: tuple[int, dict[str, Terms]] = (-1, {})

    @property
    def newest(self) -> Revision:
        """The newest revision of this era that the server speaks."""
        return list(self.revisions.values())[-1]

    def answer(
        self,
        incoming: Incoming,
        principal: str | None = None,
        mirrored: Mirrored | None = None,
        source: Hashable = None,
    ) -> JsonObject | Subscription:
        """The result of a request, whole; for `subscriptions/listen` what its transport has to carry.

        Args:
            principal: who asks, where that is known: what is sealed for one is of no use to another.
            mirrored: what the headers say of the request, to be compared with it.
            source: where it came from, such as one channel: whose rate counts while the principal is not known.

        Blocks: as long as the handler does.
        Raises: Refusal, for the first of these that is wrong: a key that `_meta` must have, a header, the version, the
            method, its parameters, a capability that the handler needs.
        """
        method, params = incoming.method, incoming.params
        envelope, terms = self._read(method, params, mirrored)
        check, project, _ = terms.receiving(method)
        handler = self.server.answers.get(method)
        if handler is None and method != LISTEN:
            # A notification that came with an id; before its parameters are looked at.
            raise MethodNotFound(f"Method not found: {method}", {"method": method})
        if check is not None:
            check(params)
        counted = source if principal is None else principal
        self.spend(counted, method)
        if handler is None:
            return self.subscriptions.open(incoming, cast(SubscriptionsListenRequestParams, params), terms.local)
        if mirrored is not None and method == "tools/call":
            self._check_arguments(mirrored, params)
        call = _Call(self, terms, incoming, envelope, principal, counted)
        result: JsonObject = {}
        try:
            result = handler(Context(call, incoming), params)
        except BaseException as problem:
            call.ended_by(problem)
        finally:
            call.over = True
        return self._completed(method, call.outcome(result), project)

    def _read(self, method: str, params: JsonObject, mirrored: Mirrored | None) -> tuple[Envelope, Terms]:
        """What a request says of itself, and the rules that follow from that."""
        if method == "initialize" and not is_modern(method, params):
            # SHOULD: name the versions to a client that can only show them (basic/versioning)
            raise UnsupportedVersion(str(params.get("protocolVersion", "")), self._spoken())
        envelope = read_envelope(params)
        if mirrored is not None:
            mirrored.check(method, params, envelope.version)
        terms = self._terms_of(envelope.version)
        if method == "initialize":
            raise self._no_opening()
        return envelope, terms

    def _completed(
        self, method: str, result: JsonObject, project: Callable[[JsonObject], JsonObject] | None
    ) -> JsonObject:
        """A result as it goes out."""
        if not is_input_required(result):
            result = result if project is None else project(result)
            # MUST: hints on what can be cached (server/utilities/caching#cacheable-results)
            result = hinted(result, self.server.cache_hint(method)) if method in CACHEABLE else result
        # MUST: the result says of which kind it is (basic/index#resulttype)
        return complete(result, self.server.info)

    def _terms_of(self, version: str) -> Terms:
        """The rules of a version, with what the server has now; UnsupportedVersion where it is not spoken."""
        generation, terms = self._terms
        if generation != self.server.generation:
            generation = self.server.generation
            declared = self.server.introduction().capabilities
            terms = {
                name: Terms("server", revision, METHODS, server_capabilities(declared, revision), {})
                for name, revision in self.revisions.items()
            }
            self._terms = (generation, terms)
        found = terms.get(version)
        if found is None:
            # MUST: -32022 with the versions that are spoken (basic/versioning#protocol-version-negotiation)
            raise UnsupportedVersion(version, self._spoken())
        return found

    def _spoken(self) -> list[str]:
        return [revision.name for revision in reversed(self.server.revisions)]

    def _no_opening(self) -> MethodNotFound:
        spoken = self._spoken()
        # SHOULD: name the versions in any error to `initialize` (basic/versioning)
        text = f"Method not found: initialize; nothing is opened in the versions of this server: {', '.join(spoken)}"
        return MethodNotFound(text, {"method": "initialize", "supported": spoken})

    def _check_arguments(self, mirrored: Mirrored, params: JsonObject) -> None:
        tool = self.server.registered("tools").get(params["name"])
        if tool is not None:
            mirrored.check_arguments(tool.definition["inputSchema"], params.get("arguments") or {})

    def spend(self, client: Hashable, method: str) -> None:
        """Take one of the requests, or notifications, of that method that a client may send; RateLimited if none."""
        rate = self.server.rates.get(method)
        if rate is None:
            return
        with self._lock:
            key = (client, method)
            bucket = self._buckets.pop(key, None) or TokenBucket(rate)
            self._buckets[key] = bucket
            if len(self._buckets) > _MOST_PRINCIPALS:
                self._buckets.popitem(last=False)
            wait = bucket.take()
        if wait:
            raise RateLimited(wait)


class _Call:
    """One request while its handler runs: the conversation that a `Context` speaks with in this era."""

    def __init__(
        self,
        owner: Stateless,
        terms: Terms,
        incoming: Incoming,
        envelope: Envelope,
        principal: str | None,
        counted: Hashable,
    ) -> None:
        self.server, self.revision, self._owner, self._terms = owner.server, terms.revision, owner, terms
        self.client_info, self.log_level = envelope.client_info, envelope.log_level
        self.client_capabilities = client_capabilities(envelope.client_capabilities, terms.revision)
        self._incoming, self._counted = incoming, counted
        self.over = False
        # What came back from an earlier round is looked at first, whether or not the handler asks for it.
        self._rounds = Rounds(
            owner.server.state_keys,
            principal,
            incoming.method,
            incoming.params,
            self.client_capabilities,
            terms.revision,
        )
        if "inputResponses" in incoming.params or "requestState" in incoming.params:
            incoming.answers, incoming.state = self._rounds.responses, self._rounds.state

    def ended_by(self, problem: BaseException) -> None:
        """Raise what ended the handler, unless that was a question: what is open then counts, and not the exception.

        So a handler that catches everything, and raises something else, cannot make an end of an open question.
        """
        if isinstance(problem, UrlElicitationRequired):
            # MUST NOT: -32042 in this revision; what it says becomes questions (basic/index#error-codes)
            self._rounds.ask_urls(problem.data["elicitations"])
        elif not self._rounds.needed:
            if isinstance(problem, Refusal) and problem.code in _REPLACED:
                # MUST NOT: the codes of earlier versions, and of none (basic/index#error-codes)
                raise Refusal(problem.message, problem.data, code=_REPLACED[problem.code]) from problem
            raise problem

    def outcome(self, result: JsonObject) -> JsonObject:
        """The handler's result, or the questions in which its run has ended, whatever it has returned."""
        if self._rounds.needed:
            return self._rounds.result()
        return self._rounds.seal_result(result) if is_input_required(result) else result

    # -- what a Context asks of its conversation (server/context)

    def ask(self, method: str, params: JsonObject | None, options: Options | None, incoming: Incoming) -> JsonObject:
        """The answer to a question, where it has come; else the run ends here, and the client is asked."""
        self._check_runs()
        return self._rounds.ask(method, params)

    def ask_all(self, asks: Sequence[Any]) -> list[Any]:
        """Several questions in one result."""
        self._check_runs()
        return self._rounds.ask_all(*asks)

    def _check_runs(self) -> None:
        if self.over:
            raise LocalProtocolError("the request was answered: its context can ask nothing more")

    def input_response(self, key: str, method: str, incoming: Incoming) -> JsonObject | None:
        """One of the answers that came, checked."""
        return self._rounds.response(key, method)

    def notify(self, method: str, params: JsonObject | None = None, incoming: Incoming | None = None) -> None:
        """Send a notification that belongs to the request, unless it is one that the request did not ask for."""
        rule = self._terms.notified.get(method) or self._terms.sending(method, "notification")
        # MUST: what travels with a reply relates to its request (basic/transports/streamable-http#receiving-messages)
        if method in METHODS and method not in _OF_A_REQUEST:
            raise LocalProtocolError(f"{method} belongs to no request: it travels on subscriptions alone")
        if not self._wants(method, params or {}):
            return
        try:
            self._owner.spend(self._counted, method)
        except RateLimited:
            return
        if params is not None and rule.project is not None:
            params = rule.project(params)
        self._incoming.notify(messages.notification(method, params))

    def _wants(self, method: str, params: JsonObject) -> bool:
        if method == "notifications/message":
            # MUST NOT: for a request that names no level (server/utilities/logging#per-request-log-level)
            return self.log_level is not None
        if method == "notifications/progress":
            # MUST: only with the token of a request in flight (basic/patterns/progress#progress-flow)
            token = token_of(self._incoming.params)
            return token is not None and params.get("progressToken") == token
        return True

    def set_log_level(self, level: str) -> None:
        """Never called: `logging/setLevel` does not exist in this era."""
        raise LocalProtocolError(f"in {self.revision} a log level belongs to one request")

    def subscribe(self, uri: str) -> None:
        """Never called: `resources/subscribe` does not exist in this era."""
        raise LocalProtocolError(f"in {self.revision} there is subscriptions/listen")

    unsubscribe = subscribe
