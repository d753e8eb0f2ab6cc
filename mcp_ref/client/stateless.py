"""Stateless: a client's conversation with a server in the stateless era.

Spec:      basic/versioning, basic/patterns/index, server/discover (2026-07-28)
Upholds:   spec_notes/basic/versioning.md, the rows on the client; spec_notes/basic/patterns/mrtr.md, the same
Not here:  which era a server is of, and what is sent again (client/connecting); the rounds of one call, and the results
           that are kept (client/client)

Nothing is agreed on: each request says in its `_meta` which version it is written in and what its client can do. What
the opening learned (`server/discover`) says only what is worth sending.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_ref.agreement import Terms
from mcp_ref.basic.lifecycle import offered_instead
from mcp_ref.basic.mrtr import answer_inputs
from mcp_ref.basic.transports.transport import MirroringTransport, Transport
from mcp_ref.basic.versioning import SERVER_INFO, envelope
from mcp_ref.client.answers import ClientContext
from mcp_ref.client.session import Conversation
from mcp_ref.errors import ErrorResponse, HeaderMismatch, LocalProtocolError, UnsupportedVersion
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.deadline import Cancel, Deadline
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.pages import METHODS
from mcp_ref.revisions import Revision
from mcp_ref.server.utilities.pagination import walk
from mcp_ref.types import client_capabilities, server_capabilities

if TYPE_CHECKING:
    from mcp_ref.client.client import Client

log = logging.getLogger(__name__)

MAX_VERSIONS_NAMED = 10
"""Versions of the server that an error names."""


class Stateless(Conversation):
    """The conversation in the stateless era: every request stands alone.

    Threads: `open` by one; `answers_to`, `mend`, `usable` and `close` by any; the others belong to the peer.
    """

    def __init__(self, client: Client, transport: Transport, revisions: tuple[Revision, ...]) -> None:
        super().__init__(client, transport, revisions)
        # Without a lifecycle, anything may be sent and received from the first moment.
        self.lifecycle.state = "open"
        # The input schemas of listed tools, for the headers of calls; replaced, never changed in place.
        self._schemas: dict[str, JsonObject] = {}
        # Gives up the questions that are being answered.
        self._closing = Cancel()
        if isinstance(transport, MirroringTransport):
            transport.mirror = self._mirror

    def terms(self, revision: Revision, remote: JsonObject | None = None) -> Terms:
        """See `Conversation`."""
        introduction = self.client.introduction
        local = client_capabilities(introduction.capabilities, revision)
        said = envelope(revision, introduction.info, local)
        terms = Terms("client", revision, METHODS, local, remote or {}, said, self.client.result_types)
        terms.open = True
        return terms

    # -- opening and closing

    def opening(self, asked: Revision) -> tuple[str, JsonObject | None]:
        """`server/discover`."""
        self.peer.terms = self.terms(asked)
        return "server/discover", None

    def agree(self, result: JsonObject, deadline: Deadline) -> None:
        """Speak the newest version that both have."""
        revision = offered_instead({"supported": result["supportedVersions"]}, self.revisions)
        if revision is None:
            theirs = ", ".join(map(str, result["supportedVersions"][:MAX_VERSIONS_NAMED])) or "no version"
            # As the error that says the same: whoever speaks an older version too goes on alike.
            supported = {"supported": result["supportedVersions"]}
            raise ErrorResponse(UnsupportedVersion.code, f"the server speaks {theirs}", supported)
        self.server_info = (result.get("_meta") or {}).get(SERVER_INFO) or {}
        self.instructions = result.get("instructions")
        self.peer.terms = self.terms(revision, server_capabilities(result["capabilities"], revision))

    def close(self, deadline: Deadline, reason: str = "the client was closed") -> None:
        """See `Conversation`; questions that are being answered are given up."""
        self._closing(reason)
        super().close(deadline, reason)

    # -- one call (Client.request)

    def answers_to(self, result: JsonObject, cancel: Cancel | None = None) -> JsonObject:
        """What this client's functions answer to an `input_required` result: the `inputResponses` of the next round.

        Args:
            cancel: gives up the call, and with it the questions.
        """
        handles = (self._closing,) if cancel is None else (self._closing, cancel)

        def answer(method: str, params: JsonObject) -> JsonObject:
            incoming = Incoming(method, method, params, _NoReply())

            def give_up(reason: str | None) -> None:
                incoming.cancel(reason or "cancelled by the caller")

            try:
                for handle in handles:
                    handle.attach(give_up)
                return self.client.answers(ClientContext(self, incoming), incoming)
            finally:
                for handle in handles:
                    handle.detach(give_up)

        return answer_inputs(result, answer, self.revision)

    def mend(self, refusal: ErrorResponse, method: str, options: Options, deadline: Deadline) -> bool:
        """Do what has to be done before a refused request is sent once more; False if nothing helps."""
        if refusal.code == HeaderMismatch.code and method == "tools/call" and self.revision.http == "stateless":
            # SHOULD: list the tools again after a HeaderMismatch, and retry the call
            # (basic/transports/streamable-http#client-behavior)
            log.info("the headers of a call were refused (%s): listing the tools again", refusal.message)
            waiting: Options = {"timeout": deadline.left(), "cancel": options.get("cancel"), "cached": False}
            walk(self.client, "tools/list", "tools", waiting)
            return True
        # SHOULD: go on in a version of both that an UnsupportedProtocolVersion error names
        # (basic/versioning#protocol-version-negotiation)
        instead = offered_instead(refusal.data, self.revisions) if refusal.code == UnsupportedVersion.code else None
        if instead is None or instead is self.revision:
            return False
        self.peer.terms = self.terms(instead, self.peer.terms.remote)
        return True

    def usable(self, method: str, result: JsonObject) -> JsonObject:
        """A result as the caller gets it: over HTTP `tools/list` holds only the tools whose calls can be sent."""
        if method != "tools/list" or not isinstance(self.transport, MirroringTransport):
            return result
        from mcp_ref.basic.transports.streamable_http.headers import parameters

        tools = []
        for tool in result["tools"]:
            try:
                parameters(tool["inputSchema"])
                tools.append(tool)
            except ValueError as problem:
                # MUST: leave a tool whose x-mcp-header is invalid out of the result of tools/list; SHOULD: log the tool
                # and the reason (basic/transports/streamable-http#schema-extension)
                log.warning("left out the tool %r, whose x-mcp-header breaks the rules: %s", tool["name"], problem)
        self._schemas = {**self._schemas, **{tool["name"]: tool["inputSchema"] for tool in tools}}
        return {**result, "tools": tools}

    def _mirror(self, message: JsonObject) -> Mapping[str, str]:
        """The headers that repeat what a message says."""
        from mcp_ref.basic.transports.streamable_http.headers import mirror

        name = (message.get("params") or {}).get("name") if message["method"] == "tools/call" else None
        # MUST: a client that supports `x-mcp-header` repeats the arguments so marked in headers
        # (basic/transports/streamable-http#custom-headers-from-tool-parameters)
        return mirror(
            message, self.peer.terms.revision.name, self._schemas.get(name) if isinstance(name, str) else None
        )


class _NoReply:
    """Where the words of a client's function would go while it answers a question: in this era, nowhere."""

    def send(self, message: Any, deadline: Deadline) -> None:
        """Refuse."""
        raise LocalProtocolError("in this revision nothing is sent while a question of the server is answered")
