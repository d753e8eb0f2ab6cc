"""Conversation: what a client and a server say to each other, in either era, and who answers a server's questions.

Spec:      basic/lifecycle; basic/versioning, server/discover (2026-07-28); the notifications of the server's pages
Upholds:   spec_notes/basic/lifecycle.md and spec_notes/basic/versioning.md, the rows on the client;
           spec_notes/client/roots.md, spec_notes/client/sampling.md, spec_notes/client/elicitation.md, on its limits
Not here:  methods (each page); which way is tried (client/connecting); headers (streamable_http/headers)

    open       the request opening(...) until both have a version in common, then agree(...): these two differ by era
    ask        connection.request(...), by Client.request
    take       a notification of the server: checked, noted, and passed to the callback that it belongs to
    answer     a question of the server: by the function that the user gave

A client has one conversation at a time. If it ends, the client may open another one: a new object.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_ref.connection.connection import Answerer, Connection
from mcp_ref.connection.keep_alive import KeepAlive
from mcp_ref.errors import ErrorResponse, McpError, MethodNotFound, Refusal, UnsupportedVersion
from mcp_ref.kit.threads.bounded_dict import Latest
from mcp_ref.kit.threads.deadline import Cancel, Deadline, Rate, RateLimited, RateLimits
from mcp_ref.pages.basic import utilities
from mcp_ref.pages.basic.extensions import kinds_of, rows_with
from mcp_ref.pages.basic.lifecycle import Lifecycle, accept_answer, declared_in, initialize_params, offered_instead
from mcp_ref.pages.basic.transports.over_http import MirroringTransport, SessionTransport
from mcp_ref.pages.basic.utilities import answer_ping
from mcp_ref.pages.basic.versioning import SERVER_INFO, envelope
from mcp_ref.pages.client import elicitation, roots, sampling
from mcp_ref.pages.client.elicitation import ElicitationCompleteParams, elicitation_complete
from mcp_ref.pages.server.utilities.caching import INVALIDATED_BY
from mcp_ref.pages.table import METHODS
from mcp_ref.revisions import FIRST_STREAMABLE, Revision
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method
from mcp_ref.wire.negotiated import Negotiated
from mcp_ref.wire.served import ServedRequest
from mcp_ref.wire.transport import Transport
from mcp_ref.wire.types import client_capabilities, server_capabilities

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.pages.basic.transports.streamable_http.headers import RequestHeaders


log = logging.getLogger(__name__)


DEFAULT_RATE: Final = Rate(per_second=100, burst=2_000)
"""More than a user or a model can answer; a program that answers for them meets it in a loop without end."""
DEFAULT_RATES: Final[Mapping[str, Rate]] = MappingProxyType(
    dict.fromkeys(("sampling/createMessage", "elicitation/create"), DEFAULT_RATE)
)
"""How often a server may ask."""


class ClientContext(utilities.HandlerContext):
    """The question of a server that a user's function answers; handed to a function that takes one argument more.

    Attributes:
        revision, capabilities: the revision in use with the server, and what this client declared in it.
        server_info: the `Implementation` of the server that asks, for the user to see who it is.

    Threads: any, while the function runs.
    """

    def __init__(self, conversation: Conversation, incoming: ServedRequest) -> None:
        self._connection, self.incoming = conversation.connection, incoming
        terms = conversation.connection.terms
        self.revision, self.capabilities = terms.revision, terms.local
        # MUST: let the user see which server asks (client/elicitation#user-interaction-model)
        self.server_info = conversation.server_info
        self.last_progress: float | None = None

    def on_cancel(self, callback: Callable[[str | None], None]) -> None:
        """Call `callback(reason)` when the question is given up; at once if it was already."""
        self.incoming.attach(callback)

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """See `HandlerContext`."""
        self._connection.notify(method, params, self.incoming)


class Answers:
    """The user's functions that answer a server's questions."""

    def __init__(
        self,
        source: Any,
        sample: Callable[..., Any] | None,
        elicit: Callable[..., Any] | None,
        open_url: Callable[..., Any] | None,
        rates: Mapping[str, Rate] | None,
    ) -> None:
        self._limits = RateLimits({**DEFAULT_RATES, **(rates or {})})
        self.elicitors = elicitation.Elicitors(Latest(elicitation.MAX_VISITS), elicit, open_url)
        self.capabilities: JsonObject = {}  # what the client can declare because of what it was given
        self._answers: dict[str, Callable[[Any, Any], Any]] = {}
        # MUST: a client that was given roots declares `roots`, and one with a model `sampling`
        # (client/roots#capabilities; client/sampling#capabilities)
        if source is not None:
            if isinstance(source, str | os.PathLike):
                raise TypeError(f"roots must be a list of folders, or a function that returns them, not {source!r}")
            if not callable(source):
                roots.all_roots(source)  # what can be no root is refused now, not when the server asks
            self.capabilities["roots"] = {"listChanged": True}
            self._answers["roots/list"] = partial(roots.roots_list, source)
        if sample is not None:
            self.capabilities["sampling"] = {}
            self._answers["sampling/createMessage"] = partial(sampling.sampling_create_message, sample)
        if modes := {mode: JsonObject() for mode, given in (("form", elicit), ("url", open_url)) if given is not None}:
            # MUST: a client with elicitation declares it, with at least one mode (client/elicitation#capabilities)
            self.capabilities["elicitation"] = modes
            self._answers["elicitation/create"] = partial(elicitation.elicitation_create, self.elicitors)

    def __call__(self, ctx: ClientContext, incoming: ServedRequest) -> JsonObject:
        """Return the result of a question of the server. Raises: Refusal, or the user's exception."""
        method = incoming.method
        if method not in self._answers:
            raise MethodNotFound(f"Method not found: {method}", {"method": method})
        # SHOULD: a client limits how often the server may ask (client/sampling#security-considerations)
        if wait := self._limits.take(None, method):
            raise RateLimited(wait)
        result: JsonObject = self._answers[method](ctx, incoming.params)
        return result


CLOSING_TIMEOUT: Final = 1.0
"""Seconds for ending a conversation that has failed, or that another one has replaced."""


class Conversation:
    """One conversation with a server, `Session` or `Stateless`: the part that both eras share.

    Args:
        client: whose conversation it is: its functions answer, its callbacks hear, its limits hold.
        revisions: those that the client speaks over this transport, all of one era, oldest first.
        peer: None; or what has carried another conversation over this transport, which this one takes over.

    Threads: `open` by one; `close` by any; the others belong to the peer.
    """

    def __init__(
        self,
        client: Client,
        transport: Transport,
        revisions: tuple[Revision, ...],
        connection: Connection | None = None,
    ) -> None:
        self.client, self.transport, self.revisions = client, transport, revisions
        self.server_info: JsonObject = {}
        self.instructions: str | None = None
        self.lifecycle = Lifecycle("client")
        self.on_lost: Callable[[Conversation, McpError], None] | None = None
        self._started = connection is not None
        terms = self.terms(revisions[-1])
        self.connection = connection or Connection(transport, self, terms, timeout=client.timeout, clock=client.clock)
        self.connection.side, self.connection.terms = self, terms

    @property
    def revision(self) -> Revision:
        """The revision in use with the server."""
        return self.connection.terms.revision

    def terms(self, revision: Revision, remote: JsonObject | None = None) -> Negotiated:
        """Return the rules with a server of those capabilities; None: before it has said what it can do."""
        raise NotImplementedError

    def opening(self, asked: Revision) -> tuple[str, JsonObject | None]:
        """Return the request that opens the conversation in that revision, whose rules hold from now on."""
        raise NotImplementedError

    def agree(self, result: JsonObject, deadline: Deadline) -> None:
        """Go on in the revision that the server's answer leads to, or raise if the two have none in common."""
        raise NotImplementedError

    def open(self, deadline: Deadline) -> None:
        """Find the version that both sides speak, and learn what the server can do; raises as a request does.

        A conversation that fails so is still to be closed.
        """
        if not self._started:
            self.connection.start()
        asked = self.revisions[-1]
        try:
            result = self.connection.request(*self.opening(asked), deadline=deadline)
        except ErrorResponse as refusal:
            # SHOULD: retry with a version of both that the refusal names in `data.supported`
            # (basic/versioning#protocol-version-negotiation). Servers of the session era are known to refuse so too.
            instead = offered_instead(refusal.data, self.revisions)
            if instead is None or (instead is asked and refusal.code != UnsupportedVersion.code):
                raise
            self.lifecycle.step("refused")
            result = self.connection.request(*self.opening(instead), deadline=deadline)
        self.agree(result, deadline)

    def close(self, deadline: Deadline, reason: str = "the client was closed") -> None:
        """End the conversation, by any thread, any number of times."""
        self.connection.close(deadline, reason)

    def lost(self, reason: McpError) -> None:
        """Note that the server is gone; calls fail from here on, and `close()` is still to be called."""
        if self.on_lost is not None:
            self.on_lost(self, reason)

    def admit(self, incoming: ServedRequest) -> JsonObject | Answerer:
        """Decide on a request of the server in the order of arrival; a ping is answered at once."""
        if self.lifecycle.state != "open":
            self.lifecycle.receive(incoming.method, is_request=True)
        return dict(answer_ping()) if incoming.method == "ping" else self.answer

    def answer(self, incoming: ServedRequest) -> JsonObject:
        """Return the answer of the user's function to a question of the server."""
        terms, method = self.connection.terms, incoming.method
        check, project, *_ = terms.received[method]
        if check is not None:
            check(incoming.params)
        result = self.client.answers(ClientContext(self, incoming), incoming)
        return project(result) if project is not None else result

    def take(self, method: str, params: JsonObject) -> None:
        """Note a notification of the server in the order of arrival, and pass it to its callback."""
        client = self.client
        try:
            if self.lifecycle.state != "open":
                self.lifecycle.receive(method, is_request=False)
            check = self.connection.terms.received[method].check
            if check is not None:
                check(params)
        except MethodNotFound:
            log.debug("a notification that was not agreed on: %s", method)
            if method in METHODS:
                return
        except Refusal as refusal:
            self.connection.complain("ignored a malformed notification: %s: %s", method, refusal)
            return
        if method == "notifications/tools/list_changed":
            client.tool_definitions = {}
        if self.connection.terms.revision.era == "stateless" and method in INVALIDATED_BY and client.cache is not None:
            client.cache.changed(method, params)
        if method == "notifications/elicitation/complete" and not elicitation_complete(
            client.answers.elicitors, cast(ElicitationCompleteParams, params)
        ):
            return
        if method == "notifications/message":
            if client.on_log is not None:
                client.events.put(partial(client.on_log, params), method, params)
        elif client.on_change is not None and method != "notifications/subscriptions/acknowledged":
            client.events.put(partial(client.on_change, method, params), method, params)


class Session(Conversation):
    """The conversation in the session era: it opens with `initialize`, and what is agreed then holds to its end."""

    def __init__(
        self,
        client: Client,
        transport: Transport,
        revisions: tuple[Revision, ...],
        connection: Connection | None = None,
    ) -> None:
        super().__init__(client, transport, revisions, connection)
        if isinstance(transport, MirroringTransport):
            transport.mirror = None
        interval = client.ping_interval
        self._keep_alive = None if interval is None else KeepAlive(self.connection, interval)

    def terms(self, revision: Revision, remote: JsonObject | None = None) -> Negotiated:
        """See `Conversation`. The server may log before it has answered (basic/lifecycle#initialization)."""
        capabilities = self.client.introduction.capabilities
        if remote is None:
            return Negotiated("client", revision, METHODS, capabilities, {"logging": {}})
        return Negotiated("client", revision, METHODS, declared_in(self.client.introduction, revision), remote)

    def opening(self, asked: Revision) -> tuple[str, JsonObject | None]:
        """Return the request that opens a session: `initialize`, proposing a revision."""
        self.connection.terms = self.terms(asked)
        return "initialize", initialize_params(self.client.introduction, asked)

    def agree(self, result: JsonObject, deadline: Deadline) -> None:
        """Take the server's version, and send `notifications/initialized`."""
        http = isinstance(self.transport, SessionTransport)
        older = [row for row in self.client.revisions if http and row.http == "sse" and row not in self.revisions]
        agreed = accept_answer(result, (*self.revisions, *older))
        # Gateways to old servers answer 2024-11-05 over Streamable HTTP, which is younger: the messages are those of
        # 2024-11-05, and go as when that transport began.
        carried_as = FIRST_STREAMABLE if agreed in older else agreed
        if agreed in older:
            log.info("the server speaks %s over Streamable HTTP, which is younger", agreed)
        self.server_info, self.instructions = result["serverInfo"], result.get("instructions")
        self.connection.terms = self.terms(agreed, server_capabilities(result["capabilities"], agreed))
        self.lifecycle.step("agreed")
        if isinstance(self.transport, SessionTransport):
            self.transport.agreed(carried_as)
        # MUST: after `initialize` was answered the client sends `notifications/initialized`
        # (basic/lifecycle#initialization)
        self.connection.notify("notifications/initialized", deadline=deadline)
        if isinstance(self.transport, SessionTransport):
            self.transport.opened(carried_as)
        if self._keep_alive is not None:
            self._keep_alive.start()

    def close(self, deadline: Deadline, reason: str = "the client was closed") -> None:
        """See `Conversation`; the thread `mcp-ping` waits on an event that is set here."""
        if self._keep_alive is not None:
            self._keep_alive.stop()
        super().close(deadline, reason)
        if self._keep_alive is not None:
            self._keep_alive.join(deadline)


class Stateless(Conversation):
    """The conversation in the stateless era: every request stands alone, and nothing is agreed on."""

    def __init__(
        self,
        client: Client,
        transport: Transport,
        revisions: tuple[Revision, ...],
        connection: Connection | None = None,
    ) -> None:
        super().__init__(client, transport, revisions, connection)
        # Without a lifecycle, anything may be sent and received from the first moment.
        self.lifecycle.state = "open"
        # Gives up the questions that are being answered.
        self.closing = Cancel()
        self._headers: RequestHeaders | None = None
        if isinstance(transport, MirroringTransport):
            from mcp_ref.pages.basic.transports.streamable_http.headers import RequestHeaders

            self._headers = RequestHeaders(self.connection, self.client.extensions.values())
            transport.mirror = self._headers.mirror

    def terms(self, revision: Revision, remote: JsonObject | None = None) -> Negotiated:
        """See `Conversation`."""
        introduction = self.client.introduction
        local = client_capabilities(introduction.capabilities, revision)
        said = envelope(revision, introduction.info, local)
        extensions, kinds = self.client.extensions, None
        rows: Mapping[str, Method] = METHODS
        if extensions or self.client.result_types:
            # What an extension brings counts where the server has it too.
            shared = (remote or {}).get("extensions") or {}
            both = [each for name, each in extensions.items() if name in shared]
            rows, kinds = rows_with(METHODS, extensions.values()), kinds_of(both, self.client.result_types)
        return Negotiated("client", revision, rows, local, remote or {}, said, kinds)

    def opening(self, asked: Revision) -> tuple[str, JsonObject | None]:
        """Return the request `server/discover`."""
        self.connection.terms = self.terms(asked)
        # SHOULD: begin with `server/discover`, in the newest version
        # (2026-07-28/basic/transports/stdio#backward-compatibility)
        return "server/discover", None

    def agree(self, result: JsonObject, deadline: Deadline) -> None:
        """Speak the newest version that both have."""
        # SHOULD: go on in a version of both sides (2026-07-28/basic/transports/stdio#backward-compatibility)
        revision = offered_instead({"supported": result["supportedVersions"]}, self.revisions)
        if revision is None:
            theirs = ", ".join(map(str, result["supportedVersions"][:10])) or "no version"
            # As the error that says the same: whoever speaks an older version too goes on alike.
            supported = {"supported": result["supportedVersions"]}
            raise ErrorResponse(UnsupportedVersion.code, f"the server speaks {theirs}", supported)
        self.server_info = (result.get("_meta") or {}).get(SERVER_INFO) or {}
        self.instructions = result.get("instructions")
        self.connection.terms = self.terms(revision, server_capabilities(result["capabilities"], revision))

    def close(self, deadline: Deadline, reason: str = "the client was closed") -> None:
        """See `Conversation`; questions that are being answered are given up."""
        self.closing(reason)
        super().close(deadline, reason)

    def usable(self, listed: JsonObject) -> JsonObject:
        """Return the result of `tools/list`: over HTTP with the tools whose calls can be sent."""
        return listed if self._headers is None else self._headers.usable(listed)
