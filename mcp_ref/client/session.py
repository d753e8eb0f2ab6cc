"""Session: one conversation of a client with its server, in the session era.

Spec:      basic/lifecycle; the notifications of the server's pages
Upholds:   spec_notes/basic/lifecycle.md, the rows on the client
Not here:  what a method does (each page's module); which transport is tried, and when another session is opened
           (client/client)

A client has one session at a time. Over HTTP the server may end it, and the client then opens another one: a new
object, so that nothing of the old one can be mistaken for something of the new.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, cast

from mcp_ref.agreement import Terms
from mcp_ref.basic.lifecycle import Lifecycle, accept_answer, initialize_params, offered_instead
from mcp_ref.basic.transports.transport import SessionTransport, Transport
from mcp_ref.basic.utilities import KeepAlive, answer_ping
from mcp_ref.client import elicitation
from mcp_ref.client.answers import ClientContext, Setup
from mcp_ref.errors import ErrorResponse, McpError, MethodNotFound, Refusal
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.messages import JsonObject
from mcp_ref.pages import METHODS
from mcp_ref.peer import Peer
from mcp_ref.revisions import Revision
from mcp_ref.types import client_capabilities, server_capabilities

log = logging.getLogger(__name__)

_BEFORE_THE_ANSWER: JsonObject = {"logging": {}}
"""The server may log before it has answered `initialize` (basic/lifecycle#initialization)."""

_PAUSING = 300.0
"""Seconds for which the time of our calls stands still while a user answers a question of the server."""


class Session:
    """One conversation.

    Args:
        revisions: those that the client speaks over this transport, oldest first.
        first_id: of the requests, where earlier ones were used up on the same connection.

    Attributes:
        peer: its messages; `ask`: sends a request and waits for its result.
        server_info, instructions: what the server said of itself.
        tool_definitions: tools by name, as last listed; replaced when the server says that the list has changed.

    Threads: `open` by one; `close` by any; the others belong to the peer.
    """

    def __init__(
        self, setup: Setup, transport: Transport, revisions: tuple[Revision, ...], *, first_id: int = 1
    ) -> None:
        self.setup, self.transport, self._revisions = setup, transport, revisions
        self.server_info: JsonObject = {}
        self.instructions: str | None = None
        self.tool_definitions: dict[str, Any] = {}
        self._lifecycle = Lifecycle("client")
        self.may_send = self._lifecycle.send
        self.peer = Peer(transport, self, self._terms(revisions[-1]), timeout=setup.timeout, pausing=_PAUSING)
        self.peer.number_from(first_id)
        self.ask = self.peer.request
        self._keep_alive = KeepAlive(self.peer, setup.ping_interval) if setup.ping_interval else None

    def _terms(self, asked: Revision) -> Terms:
        """The rules while `initialize` is under way: those of the revision asked for."""
        return Terms("client", asked, METHODS, self.setup.introduction.capabilities, _BEFORE_THE_ANSWER)

    # -- opening and closing (basic/lifecycle)

    def open(self, deadline: Deadline) -> None:
        """`initialize`, its answer, `notifications/initialized`; the peer's terms are then those agreed.

        Blocks: until the session is open, at most until the deadline.
        Raises: RequestTimeout, TransportClosed, ErrorResponse, RemoteProtocolError (no revision in common). The session
            is then still to be closed.
        """
        self.peer.start()
        result = self._ask(deadline)
        agreed = accept_answer(result, self._revisions)
        local = client_capabilities(self.setup.introduction.capabilities, agreed)
        remote = server_capabilities(result["capabilities"], agreed)
        self.server_info, self.instructions = result["serverInfo"], result.get("instructions")
        self.peer.terms = Terms("client", agreed, METHODS, local, remote)
        self._lifecycle.agreed()
        if isinstance(self.transport, SessionTransport):
            self.transport.agreed(agreed)
        self.peer.notify("notifications/initialized", deadline=deadline)
        self.peer.terms.open = True
        if isinstance(self.transport, SessionTransport):
            self.transport.opened(agreed)
        if self._keep_alive is not None:
            self._keep_alive.start()

    def _ask(self, deadline: Deadline) -> JsonObject:
        asked = self._revisions[-1]
        try:
            return self._initialize(asked, deadline)
        except ErrorResponse as refusal:
            instead = offered_instead(refusal.data, self._revisions)
            if instead is None or instead is asked:
                raise
            self._lifecycle.refused()
            return self._initialize(instead, deadline)

    def _initialize(self, asked: Revision, deadline: Deadline) -> JsonObject:
        self.peer.terms = self._terms(asked)
        params = initialize_params(self.setup.introduction, asked)
        return self.peer.request("initialize", params, {"timeout": deadline.left()})

    def close(self, deadline: Deadline, reason: str = "the client was closed") -> None:
        """End the conversation. Idempotent; any thread may call it.

        Why each thread ends: see `Peer.close` for the workers and the transport; `mcp-ping` waits on an event that is
        set here.
        """
        self._lifecycle.close()
        if self._keep_alive is not None:
            self._keep_alive.stop()
        self.peer.close(deadline, reason)
        if self._keep_alive is not None:
            self._keep_alive.join(deadline)

    # -- who it is with (client/answers reads this)

    @property
    def revision(self) -> Revision:
        """The revision agreed with the server."""
        return self.peer.terms.revision

    @property
    def capabilities(self) -> JsonObject:
        """What this client declared, as the agreed revision knows it."""
        return self.peer.terms.local

    # -- what the peer asks (peer)

    def admit(self, method: str, params: JsonObject) -> JsonObject | None:
        """Decide on a request of the server in the order of arrival; a ping is answered at once."""
        self._lifecycle.receive(method, is_request=True)
        return dict(answer_ping()) if method == "ping" else None

    def answer(self, incoming: Incoming) -> JsonObject:
        """Have the user's function answer a question of the server."""
        check, project, _ = self.peer.terms.receiving(incoming.method)
        if check is not None:
            check(incoming.params)
        result = self.setup.answers(ClientContext(self, incoming), incoming)
        return project(result) if project is not None else result

    def take(self, method: str, params: JsonObject) -> None:
        """Note a notification of the server in the order of arrival, and pass it to the callback it belongs to."""
        try:
            self._lifecycle.receive(method, is_request=False)
            check = self.peer.terms.receiving(method).check
            if check is not None:
                check(params)
        except MethodNotFound:
            log.debug("a notification that is not agreed on: %s", method)
            if method in METHODS:
                return
        except Refusal as refusal:
            log.warning("ignored the notification %s: %s", method, refusal)
            return
        self._pass_on(method, params)

    def _pass_on(self, method: str, params: JsonObject) -> None:
        if method == "notifications/tools/list_changed":
            self.tool_definitions = {}
        if method == "notifications/elicitation/complete":
            ended = cast(elicitation.ElicitationCompleteParams, params)
            if not elicitation.elicitation_complete(self.setup.answers.elicitors, self, ended):
                return
        if method == "notifications/message":
            if self.setup.on_log is not None:
                self.setup.events.put(partial(self.setup.on_log, params))
        elif self.setup.on_change is not None:
            self.setup.events.put(partial(self.setup.on_change, method, params))

    def lost(self, reason: McpError) -> None:
        """The server is gone; calls fail from here on, and `close()` is still to be called."""
        self._lifecycle.close()
