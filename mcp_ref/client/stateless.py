"""Stateless: a client's conversation with a server in the stateless era.

Spec:      basic/versioning, basic/patterns/index, server/discover (2026-07-28)
Upholds:   spec_notes/basic/versioning.md, the rows on the client; spec_notes/basic/patterns/mrtr.md, the same
Not here:  which era a server is of, and what is sent again (client/connecting); the rounds of one call, and the results
           that are kept (client/client); the headers that repeat a request over HTTP (streamable_http/headers)

Nothing is agreed on: each request says in its `_meta` which version it is written in and what its client can do. What
the opening learned (`server/discover`) says only what is worth sending.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_ref.agreement import Terms
from mcp_ref.basic.extensions import kinds_of, rows_with
from mcp_ref.basic.lifecycle import offered_instead
from mcp_ref.basic.mrtr import answer_inputs
from mcp_ref.basic.transports.transport import MirroringTransport, Transport
from mcp_ref.basic.versioning import SERVER_INFO, envelope
from mcp_ref.client.answers import ClientContext
from mcp_ref.client.session import Conversation
from mcp_ref.errors import ErrorResponse, LocalProtocolError, UnsupportedVersion
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.deadline import Cancel, Deadline
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Method
from mcp_ref.pages import METHODS
from mcp_ref.revisions import Revision
from mcp_ref.types import client_capabilities, server_capabilities

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.headers import RequestHeaders
    from mcp_ref.client.client import Client

log = logging.getLogger(__name__)

MAX_VERSIONS_NAMED = 10
"""Versions of the server that an error names."""


class Stateless(Conversation):
    """The conversation in the stateless era: every request stands alone.

    Threads: `open` by one; `answers_to`, `usable` and `close` by any; the others belong to the peer.
    """

    def __init__(self, client: Client, transport: Transport, revisions: tuple[Revision, ...]) -> None:
        super().__init__(client, transport, revisions)
        # Without a lifecycle, anything may be sent and received from the first moment.
        self.lifecycle.state = "open"
        # Gives up the questions that are being answered.
        self._closing = Cancel()
        self._headers: RequestHeaders | None = None
        if isinstance(transport, MirroringTransport):
            from mcp_ref.basic.transports.streamable_http.headers import RequestHeaders

            self._headers = RequestHeaders(self)
            transport.mirror = self._headers.mirror

    def terms(self, revision: Revision, remote: JsonObject | None = None) -> Terms:
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
        terms = Terms("client", revision, rows, local, remote or {}, said, kinds)
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
        """What this client's functions answer to an `input_required` result; `cancel` gives up the questions too."""
        handles = (self._closing,) if cancel is None else (self._closing, cancel)

        def answer(method: str, params: JsonObject) -> JsonObject:
            incoming = Incoming(method, method, params, _NoReply())
            try:
                for handle in handles:
                    handle.attach(incoming.cancel)
                return self.client.answers(ClientContext(self, incoming), incoming)
            finally:
                for handle in handles:
                    handle.detach(incoming.cancel)

        return answer_inputs(result, answer, self.revision)

    def usable(self, listed: JsonObject) -> JsonObject:
        """The result of `tools/list` as the caller gets it: over HTTP with the tools whose calls can be sent."""
        return listed if self._headers is None else self._headers.usable(listed)


class _NoReply:
    """Where the words of a client's function would go while it answers a question: in this era, nowhere."""

    def send(self, message: Any, deadline: Deadline) -> None:
        """Refuse."""
        raise LocalProtocolError("in this revision nothing is sent while a question of the server is answered")
