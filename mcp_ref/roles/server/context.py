"""Context: what a handler of a server may do while it runs.

Spec:      server/index; the pages of what it binds: basic/utilities/progress, server/utilities/logging,
           client/elicitation, client/sampling, client/roots
Upholds:   the rows of those pages that speak of the server
Not here:  running the handler, and what the eras do differently: how a question reaches the client, and what a
           request says of its client (roles/server/session)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_ref.agreement import declares, undeclared
from mcp_ref.basic import extensions, mrtr, tasks, utilities
from mcp_ref.client import elicitation, roots, sampling
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.arguments import refuse_attribute
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options, check_options
from mcp_ref.revisions import Revision
from mcp_ref.roles.client import following
from mcp_ref.server.utilities import logging

if TYPE_CHECKING:
    from mcp_ref.roles.server.session import Conversation


class Context(utilities.HandlerContext):
    """The request that a handler serves, and what the handler may do for it.

    A handler gets one by having a parameter annotated with this class. Everything here belongs to that request: what
    is sent through it travels with its reply, and after the answer nothing more is sent.

    Attributes:
        revision: the revision in use with this client.
        server, conversation, incoming: whose handler it is, with whom it speaks, and what it answers; for the pages.

    Threads: any, while the handler runs; the questions (`elicit`, `sample`, `roots`, `request`) block the caller.
    """

    __slots__ = ("conversation", "revision", "server")

    asks = True

    def __init__(self, conversation: Conversation, incoming: Incoming) -> None:
        self.server, self.conversation, self.incoming = conversation.server, conversation, incoming
        self.revision: Revision = conversation.terms.revision
        self.last_progress: float | None = None

    def __repr__(self) -> str:
        return f"<Context of {self.incoming.method}, request {self.incoming.id!r}, {self.revision}>"

    if not TYPE_CHECKING:
        __getattr__ = refuse_attribute  # of what other libraries call it

    # server/utilities/logging
    log = logging.log
    # client/roots
    roots = roots.roots
    # client/sampling
    sample = sampling.sample
    # client/elicitation
    elicit = elicitation.elicit
    elicit_url = elicitation.elicit_url
    complete_elicitation = elicitation.complete_elicitation
    # basic/utilities/tasks
    task_id, status, become_task = property(tasks.task_id), tasks.status, tasks.become_task
    sample_as_task, elicit_as_task = following.sample_as_task, following.elicit_as_task
    # basic/extensions
    extension = extensions.extension
    require_extension = extensions.require_extension
    # basic/patterns/mrtr
    ask_all = mrtr.ask_all
    input_responses = property(mrtr.input_responses)
    input_response = mrtr.input_response
    request_state = property(mrtr.request_state)

    def close_stream(self, retry: int = 1000) -> None:
        """Close the HTTP connection of this request; its answer is kept, and the client comes back for it after `retry`
        milliseconds. Nothing happens without such a connection, or in a revision without such a way.

        Spec: basic/transports#sending-messages-to-the-server (2025-11-25)
        """
        if self.revision.priming_event:
            # SHOULD: say when to come back (basic/transports#sending-messages-to-the-server)
            self.incoming.reply.release(retry)

    # -- who asks

    @property
    def principal(self) -> Any:
        """Who sent this request: the `Principal` of its token, or what `authenticate` returned; None over stdio.

        Spec: basic/authorization#token-handling
        """
        return self.incoming.reply.principal

    @property
    def owner(self) -> str | None:
        """Who owns what this request leaves behind, such as a task; see `Incoming.owner`."""
        return self.incoming.owner

    def require_scopes(self, *scopes: str) -> None:
        """Refuse to go on unless the token of this request grants these scopes, for what depends on arguments.

        Before anything was sent the refusal is the 403 with which a client asks for a wider token; afterwards, and in
        a batch, it is a JSON-RPC error with the scopes in `data`. Over stdio, which has no tokens, nothing happens.

        Raises: a Refusal that goes out as said. LocalProtocolError: served over HTTP without `authorization=`.
        Spec: basic/authorization#runtime-insufficient-scope-errors
        """
        incoming = self.incoming
        incoming.reply.require_scopes({"method": incoming.method, "params": incoming.params}, scopes)

    @property
    def client_info(self) -> JsonObject:
        """What the client said of itself: an `Implementation`."""
        return self.conversation.client_info

    @property
    def log_level(self) -> str | None:
        """The least level of log messages that the client asked for, or None."""
        return self.conversation.log_level

    @property
    def peer_capabilities(self) -> JsonObject:
        """What the client declared, as the revision knows it; in the stateless era, in this request."""
        return self.conversation.client_capabilities

    def require(self, capability: str) -> None:
        """Refuse to go on unless the client declared a capability, such as "sampling" or "elicitation.url".

        In the stateless era the refusal is the error -32021, which says what to declare; in the session era it is
        LocalProtocolError, for nothing can be declared any more.
        """
        if not declares(self.peer_capabilities, capability):
            # MUST: answer -32021 if a request needs what its client did not declare (2026-07-28/basic/index#_meta)
            raise undeclared(self.revision, capability, f"the client did not declare {capability}")

    @property
    def lifespan(self) -> Any:
        """What the function of `@server.lifespan` has yielded; None if there is no such function."""
        return None if (span := self.server.span) is None else span.value

    @property
    def session_key(self) -> str | None:
        """A key for state that belongs to this client: the user whom `authenticate` named; without one the session, or
        the pipe. None over HTTP in the stateless era without `authenticate`: nothing tells clients apart.

        A session says nothing of who uses it: whoever has its id has its state. What belongs to a user needs
        `authenticate`. Spec: client/elicitation#statefulness
        """
        # A user's state MUST NOT hang on the id of a session alone (2025-11-25/client/elicitation#statefulness)
        owner = self.incoming.owner
        return owner or self.conversation.session_key

    @property
    def request_id(self) -> str | int:
        """The id of this request, as the client chose it."""
        return self.incoming.id

    # -- messages of any kind

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        """Send a request to the client and wait for its result: 300 seconds unless the options say otherwise.

        Args:
            method, params: as on the wire; a method of the protocol is checked, another one passes as it is.

        In the stateless era nothing waits: the handler's run ends here, and it runs again from its beginning once the
        client has answered; this call then returns the answer. So do nothing before it that must not be done twice.

        Raises: as a client's calls do; RequestCancelled when this handler's own request is given up.
        """
        if options:
            check_options(options, method)
        return self.conversation.ask(method, params, options, self.incoming)

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification that belongs to this request; nothing is sent once it is answered or given up."""
        self.conversation.notify(method, params, self.incoming)
