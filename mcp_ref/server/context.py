"""Context: what a handler of a server may do while it runs.

Spec:      server/index; the pages of what it binds: basic/utilities/progress, server/utilities/logging,
           client/elicitation, client/sampling, client/roots
Upholds:   the rows of those pages that speak of the server
Reads:     the pages' modules, basic/patterns/reply
Not here:  dispatch (server/session); how a question reaches the client (basic/patterns/request_response)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.methods import JsonObject, Options
from mcp_ref.basic.patterns.reply import Incoming
from mcp_ref.basic.utilities import progress
from mcp_ref.client import elicitation, roots, sampling
from mcp_ref.errors import RequestCancelled
from mcp_ref.revisions import Revision
from mcp_ref.server.utilities import logging

if TYPE_CHECKING:
    from mcp_ref.server.session import Session

__all__ = ["Context"]


class Context:
    """The request that a handler serves, and what the handler may do for it.

    A handler gets one by having a parameter annotated with this class. Everything here belongs to that request: what
    is sent through it travels with its reply, and after the answer nothing more is sent.

    Threads: any, while the handler runs; the questions (`elicit`, `sample`, `roots`, `request`) block the caller.
    """

    __slots__ = ("_incoming", "_session", "last_progress", "progress_token")

    def __init__(self, session: Session, incoming: Incoming) -> None:
        self._session, self._incoming = session, incoming
        self.progress_token = progress.token_of(incoming.params)
        self.last_progress: float | None = None

    # basic/utilities/progress
    progress = progress.progress
    # server/utilities/logging
    log = logging.log
    # client/roots
    roots = roots.roots
    # client/sampling
    sample = sampling.sample
    # client/elicitation
    elicit = elicitation.elicit
    elicit_url = elicitation.elicit_url

    def complete_elicitation(self, elicitation_id: str) -> None:
        """See `client.elicitation_url.complete_elicitation`. The one word that may follow the answer."""
        # A visit mostly outlasts the request that asked for it, so this goes the session's way and not the reply's.
        elicitation.complete_elicitation(self._session, elicitation_id)

    # -- basic/utilities/cancellation

    @property
    def cancelled(self) -> bool:
        """Whether the client, or the end of the conversation, has given this request up: stop, nobody will read it."""
        return self._incoming.cancelled

    def check_cancelled(self) -> None:
        """Raise RequestCancelled if the request was given up; a long handler calls this now and then.

        Spec: basic/utilities/cancellation#behavior-requirements
        """
        if self._incoming.cancelled:
            raise RequestCancelled(self._incoming.reason or "cancelled")

    # -- basic/transports (2025-11-25: a server may close a stream and let the client come back)

    def close_stream(self, retry: int = 1000) -> None:
        """Close the HTTP connection of this request; its answer is kept, and the client comes back for it.

        Args:
            retry: milliseconds after which it should.

        Where there is no such connection, or the revision has no such way, nothing happens.
        Spec: basic/transports#sending-messages-to-the-server (2025-11-25)
        """
        if self.revision.priming_event:
            # SHOULD: say when to come back (basic/transports#sending-messages-to-the-server)
            self._incoming.release(retry)

    # -- who asks

    @property
    def revision(self) -> Revision:
        """The revision agreed with this client."""
        return self._session.revision

    @property
    def client_info(self) -> JsonObject:
        """What the client said of itself: an `Implementation`."""
        return self._session.client_info

    @property
    def peer_capabilities(self) -> JsonObject:
        """What the client declared, as the agreed revision knows it."""
        return self._session.peer.terms.remote

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of this request; empty where there is none."""
        meta: JsonObject = self._incoming.params.get("_meta") or {}
        return meta

    @property
    def request_id(self) -> str | int:
        """The id of this request, as the client chose it."""
        return self._incoming.id

    # -- what the pages' halves read (basic/methods Handling)

    @property
    def page_size(self) -> int:
        """How many entries one page of a list holds."""
        return self._session.server.page_size

    def registered(self, feature: str) -> Mapping[str, Any]:
        """A snapshot of one of the server's registries: "tools", "resources", "templates", "prompts", "completions"."""
        return self._session.server.registered(feature)

    @property
    def log_level(self) -> str | None:
        """The least level of log messages that the client asked for, or None."""
        return self._session.log_level

    def set_log_level(self, level: str) -> None:
        """Remember the least level of log messages for this session."""
        self._session.log_level = level

    def subscribe(self, uri: str) -> None:
        """Remember that this session wants to hear of changes of the URI."""
        self._session.subscribe(uri)

    def unsubscribe(self, uri: str) -> None:
        """Forget it again."""
        self._session.unsubscribe(uri)

    # -- messages of any kind

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        """Send a request to the client and wait for its result.

        Args:
            method, params: as on the wire; a method of the protocol is checked, another one passes as it is.
            options: see `mcp_ref.basic.methods.Options`; a question waits 300 seconds where it is not said.

        Blocks: until the answer, at most the timeout. The worker's place is given to another handler meanwhile.
        Raises: LocalProtocolError, ErrorResponse, RemoteProtocolError, RequestTimeout, TransportClosed, and
            RequestCancelled when this handler's own request is given up.
        """
        return self._session.peer.request(method, params, options, self._incoming)

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification that belongs to this request; nothing is sent once it is answered or given up.

        Blocks: until it is written. Raises: LocalProtocolError, TransportClosed.
        """
        self._session.notify(method, params, self._incoming)
