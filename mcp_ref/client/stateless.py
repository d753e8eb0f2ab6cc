"""Stateless: a client's conversation with a server in the stateless era.

Spec:      basic/versioning, basic/patterns/index, basic/patterns/mrtr, server/utilities/caching,
           server/utilities/logging#per-request-log-level (2026-07-28)
Upholds:   spec_notes/basic/versioning.md, the rows on the client; spec_notes/basic/patterns/mrtr.md, the same
Not here:  which era a server is of (client/connecting); sending again what a broken connection lost (client/client)

One call of the user may be several requests: when the server needs input first, this client's handlers give it, and the
call is sent again with the answers. Nothing is agreed on; what the opening learned (`server/discover`) says only what
is worth sending.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from mcp_ref.agreement import Terms
from mcp_ref.basic.lifecycle import offered_instead
from mcp_ref.basic.mrtr import MOST_ROUNDS, answer_inputs, required_inputs, retry_params
from mcp_ref.basic.transports.transport import MirroringTransport, Transport
from mcp_ref.basic.versioning import SERVER_INFO, envelope, is_input_required
from mcp_ref.client.answers import ClientContext, Setup
from mcp_ref.errors import ErrorResponse, LocalProtocolError, McpError, MethodNotFound, Refusal, RemoteProtocolError
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.deadline import Cancel, Clock, Deadline
from mcp_ref.messages import JsonObject
from mcp_ref.methods import DEFAULT, Options
from mcp_ref.pages import METHODS
from mcp_ref.peer import Peer
from mcp_ref.revisions import Revision
from mcp_ref.server.utilities.caching import CACHEABLE
from mcp_ref.types import client_capabilities, server_capabilities

log = logging.getLogger(__name__)

_PAUSING = 300.0
"""Seconds for which the time of a call stands still while a user answers a question of the server."""

_OLDEST_LEVEL = "debug"

_MOST_NAMED = 10
"""Versions of the server that an error names."""


class Stateless:
    """One connection to a server, over which every request stands alone.

    Args:
        revisions: those of this era that the client speaks, oldest first.

    Attributes:
        peer: its messages.
        server_info, instructions: what the server said of itself.
        tool_definitions: tools by name, as last listed; replaced when the server says that the list has changed.
        log_level: the least level of the log messages that are asked for with each request; None: none are.

    Threads: `open` by one; `ask` and `close` by any; the others belong to the peer.
    """

    def __init__(self, setup: Setup, transport: Transport, revisions: tuple[Revision, ...]) -> None:
        self.setup, self.transport, self._revisions = setup, transport, revisions
        self.server_info: JsonObject = {}
        self.instructions: str | None = None
        self.tool_definitions: dict[str, Any] = {}
        self.log_level: str | None = None if setup.on_log is None else _OLDEST_LEVEL
        # The input schemas of listed tools, for the headers of calls; replaced, never changed in place.
        self._schemas: dict[str, JsonObject] = {}
        # The questions that are being answered, for `close` to give them up.
        self._answering: list[Incoming] = []
        self._over = False
        self.peer = Peer(transport, self, self._terms(revisions[-1], {}), timeout=setup.timeout)
        if isinstance(transport, MirroringTransport):
            transport.mirror = self._mirror

    def _terms(self, revision: Revision, remote: JsonObject) -> Terms:
        introduction = self.setup.introduction
        local = client_capabilities(introduction.capabilities, revision)
        told = envelope(revision, introduction.info, local)
        terms = Terms("client", revision, METHODS, local, remote, told, self.setup.kinds)
        terms.open = True
        return terms

    # -- opening and closing

    def open(self, deadline: Deadline) -> None:
        """`server/discover`: which of our versions the server speaks, and what it can do.

        Blocks: until its answer, at most until the deadline.
        Raises: RequestTimeout, TransportClosed, ErrorResponse, HttpStatusError, RemoteProtocolError (an answer that is
            none; no version in common). The connection is then still to be closed.
        Spec: server/discover#when-to-call
        """
        self.peer.start()
        try:
            result = self._discover(deadline)
        except ErrorResponse as refusal:
            # SHOULD: retry with a version of both (basic/versioning#protocol-version-negotiation)
            instead = offered_instead(refusal.data, self._revisions) if refusal.code == -32022 else None
            if instead is None:
                raise
            self.peer.terms = self._terms(instead, {})
            result = self._discover(deadline)
        revision = offered_instead({"supported": result["supportedVersions"]}, self._revisions)
        if revision is None:
            theirs = ", ".join(map(str, result["supportedVersions"][:_MOST_NAMED])) or "no version"
            # As the error that says the same, so that whoever speaks an older version reads it alike.
            raise ErrorResponse(-32022, f"the server speaks {theirs}", {"supported": result["supportedVersions"]})
        self.server_info = (result.get("_meta") or {}).get(SERVER_INFO) or {}
        self.instructions = result.get("instructions")
        self.peer.terms = self._terms(revision, server_capabilities(result["capabilities"], revision))

    def _discover(self, deadline: Deadline) -> JsonObject:
        return self.peer.request("server/discover", None, {"timeout": deadline.left()})

    def close(self, deadline: Deadline, reason: str = "the client was closed") -> None:
        """End the connection. Idempotent; any thread may call it. Why each thread ends: see `Peer.close`."""
        self._over = True
        for incoming in list(self._answering):
            incoming.cancel(reason)
        self.peer.close(deadline, reason)

    # -- who it is with (client/answers reads this)

    @property
    def revision(self) -> Revision:
        """The revision that requests are written in."""
        return self.peer.terms.revision

    @property
    def capabilities(self) -> JsonObject:
        """What this client declares with each request."""
        return self.peer.terms.local

    # -- asking

    def ask(self, method: str, params: JsonObject | None, options: Options | None) -> JsonObject:
        """The result of a request, after as many rounds as the server needs; see `Client.request`.

        Raises: as `Client.request`; also InputRefused, where a handler of this client refused what the server asked.
        """
        options = cast(Options, {"log_level": self.log_level, **(options or {})})
        if "input_responses" in options or "request_state" in options:
            params = _with_answers(params, options)
        cache = self.setup.cache if method in CACHEABLE else None
        if cache is not None and options.get("cached", True) and (kept := cache.get(method, params)) is not None:
            return self._callable(method, kept)
        asking = None if cache is None else cache.begin(method, params)
        began = time.monotonic()
        try:
            result = self.peer.request(method, params, options)
        except ErrorResponse as refusal:
            if cache is not None and refusal.code == -32602 and "cursor" in (params or {}):
                # SHOULD: discard the pages of a list when a cursor is refused (server/utilities/caching)
                cache.forget_pages(method)
            self._mend(refusal, method, options)
            result = self.peer.request(method, params, options)
        if is_input_required(result) and not options.get("by_hand"):
            # MUST NOT: cache what depends on answers (server/utilities/caching#cache-key)
            return self._in_rounds(method, params, options, result, began)
        if cache is not None and asking is not None:
            cache.put(asking, result)
        return self._callable(method, result)

    def _in_rounds(
        self, method: str, params: JsonObject | None, options: Options, result: JsonObject, began: float
    ) -> JsonObject:
        """The result at last: what the server asks for is answered, and the call sent again, until it has enough."""
        clock = Clock(_PAUSING)
        timeout, most = options.get("timeout", DEFAULT), options.get("max_timeout")
        seconds = self.setup.timeout if timeout is DEFAULT else timeout
        # What progress may extend starts anew with each round: the question was a sign of life as well.
        whole = seconds if seconds is None or most is None else most
        deadline = Deadline(None if whole is None else whole - (time.monotonic() - began), clock=clock)
        for _ in range(MOST_ROUNDS - 1):
            clock.pause()
            try:
                responses = self.answers_to(result, options.get("cancel"))
            finally:
                clock.resume()
            # MUST: a new request, with another id (basic/patterns/mrtr#client-requirements-basic-workflow)
            params = retry_params(params, result, responses)
            left = deadline.left()
            limits = {"timeout": left if left is None or seconds is None else min(seconds, left)}
            if most is not None:
                limits["max_timeout"] = left
            result = self._send(method, params, cast(Options, {**options, **limits}))
            if not is_input_required(result):
                return result
        raise RemoteProtocolError(f"the server asked for input {MOST_ROUNDS} times, and has not answered {method}")

    def answers_to(self, result: JsonObject, cancel: Cancel | None = None) -> JsonObject:
        """What this client's handlers answer to an `input_required` result: the `input_responses` of the next round.

        Args:
            cancel: gives up the call, and with it the questions.
        """
        return answer_inputs(required_inputs(result, self.revision), partial(self._answer, cancel), self.revision)

    def _answer(self, cancel: Cancel | None, method: str, params: JsonObject) -> JsonObject:
        incoming = Incoming(method, method, params, _NoReply())

        def give_up(reason: str | None) -> None:
            incoming.cancel(reason or "cancelled by the caller")

        # Append first, look second: `close` in another thread either finds it or is seen here.
        self._answering.append(incoming)
        if self._over:
            give_up("the client was closed")
        if cancel is not None:
            cancel.attach(give_up)
        try:
            return self.setup.answers(ClientContext(self, incoming), incoming)
        finally:
            self._answering.remove(incoming)
            if cancel is not None:
                cancel.detach(give_up)

    def _send(self, method: str, params: JsonObject | None, options: Options) -> JsonObject:
        """One request; sent once more where the server names what was wrong with it, and that can be mended."""
        try:
            return self.peer.request(method, params, options)
        except ErrorResponse as refusal:
            self._mend(refusal, method, options)
        return self.peer.request(method, params, options)

    def _mend(self, refusal: ErrorResponse, method: str, options: Options) -> None:
        """Do what has to be done before a refused request is sent once more; raise the refusal where nothing helps."""
        if refusal.code == -32020 and method == "tools/call" and self.peer.terms.revision.http == "stateless":
            # SHOULD: list the tools again, and retry (basic/transports/streamable-http#client-behavior)
            log.info("the headers of a call were refused (%s): listing the tools again", refusal.message)
            self._list_again(options)
        elif refusal.code != -32022 or not self._speak_another(refusal.data):
            raise refusal

    def _speak_another(self, data: Any) -> bool:
        """Go on in a version that the server names, where that is another one of ours."""
        instead = offered_instead(data, self._revisions)
        if instead is None or instead is self.revision:
            return False
        self.peer.terms = self._terms(instead, self.peer.terms.remote)
        return True

    def _list_again(self, options: Options) -> None:
        cursor: JsonObject | None = None
        for _ in range(MOST_PAGES):
            waiting = cast(Options, {key: options[key] for key in ("timeout", "cancel") if key in options})
            page = self.peer.request("tools/list", cursor, waiting)
            self._callable("tools/list", page)
            if page.get("nextCursor") is None:
                return
            cursor = {"cursor": page["nextCursor"]}

    def _callable(self, method: str, result: JsonObject) -> JsonObject:
        """A result as the caller gets it: of the tools, those alone whose calls can be sent."""
        if method != "tools/list" or not isinstance(self.transport, MirroringTransport):
            return result
        tools = [tool for tool in result["tools"] if self._can_be_called(tool)]
        self._schemas = {**self._schemas, **{tool["name"]: tool["inputSchema"] for tool in tools}}
        return {**result, "tools": tools}

    def _can_be_called(self, tool: JsonObject) -> bool:
        from mcp_ref.basic.transports.streamable_http.headers import parameters

        try:
            parameters(tool["inputSchema"])
        except ValueError as problem:
            # MUST: leave the tool out; SHOULD: say why (basic/transports/streamable-http#schema-extension)
            log.warning("left out the tool %r, whose x-mcp-header breaks the rules: %s", tool["name"], problem)
            return False
        return True

    def _mirror(self, message: JsonObject) -> Mapping[str, str]:
        """The headers that repeat what a message says."""
        from mcp_ref.basic.transports.streamable_http.headers import mirror

        name = (message.get("params") or {}).get("name") if message["method"] == "tools/call" else None
        return mirror(message, self.revision.name, self._schemas.get(name) if isinstance(name, str) else None)

    # -- what the peer asks (peer)

    def may_send(self, method: str, *, is_request: bool) -> None:
        """Anything, at any time: there is no lifecycle."""

    def admit(self, method: str, params: JsonObject) -> JsonObject | None:
        """Never called: a server of this era sends no requests, and the peer ignores those that come."""
        raise MethodNotFound(f"Method not found: {method}")

    def answer(self, incoming: Incoming) -> JsonObject | None:
        """Never called; see `admit`."""
        raise MethodNotFound(f"Method not found: {incoming.method}")

    def take(self, method: str, params: JsonObject) -> None:
        """Note a notification of the server in the order of arrival, and pass it to the callback it belongs to."""
        try:
            check = self.peer.terms.receiving(method).check
            if check is not None:
                check(params)
        except MethodNotFound:
            log.debug("a notification that this revision does not have: %s", method)
            if method in METHODS:
                return
        except Refusal as refusal:
            log.warning("ignored the notification %s: %s", method, refusal)
            return
        if method == "notifications/tools/list_changed":
            self.tool_definitions = {}
        if self.setup.cache is not None:
            self.setup.cache.changed(method, params)
        if method == "notifications/message":
            if self.setup.on_log is not None:
                self.setup.events.put(partial(self.setup.on_log, params))
        elif self.setup.on_change is not None and method != "notifications/subscriptions/acknowledged":
            self.setup.events.put(partial(self.setup.on_change, method, params))

    def lost(self, reason: McpError) -> None:
        """The server is gone; calls fail from here on, and `close()` is still to be called."""


def _with_answers(params: JsonObject | None, options: Options) -> JsonObject:
    """The params of a round that is driven by hand."""
    given: JsonObject = dict(params or {})
    if (responses := options.get("input_responses")) is not None:
        given["inputResponses"] = responses
    if (state := options.get("request_state")) is not None:
        given["requestState"] = state
    return given


MOST_PAGES = 1_000
"""Pages of a list that are read for the headers of one call."""


class _NoReply:
    """Where the words of a client's handler would go while it answers a question: in this era, nowhere."""

    def send(self, message: Any, deadline: Deadline) -> None:
        """Refuse."""
        raise LocalProtocolError("in this revision nothing is sent while a question of the server is answered")
