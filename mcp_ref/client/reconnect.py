"""Reopening: another conversation in place of one that has ended, and sending again what was under way in it.

Spec:      basic/transports#session-management; basic/versioning, 2026-07-28/basic/transports (what ends a connection)
Upholds:   spec_notes/basic/versioning.md, spec_notes/basic/transports.md and spec_notes/basic/transports/stdio.md, the
           rows on what is lost
Not here:  opening one, and the era of a server (client/connecting)

A request whose answer is lost leads to this:

    era         what happened                                  the request goes on
    session     404: the server has ended the session          in a new session, once
    stateless   the connection, or the process, has ended      over a new one
    stateless   the reply broke off, others go on              in the same conversation
    stateless   a refusal that an older server would give      with the era found out again
    either      anything else                                  nowhere: the problem is raised

In the second and third case it is sent again only if that does no harm: see `may_resend`. Otherwise the
call fails at once, and the next one connects.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp_ref.client.connecting import Reconnector, at_most, give_up, names_older_versions, server_key
from mcp_ref.client.session import CLOSING_TIMEOUT, Conversation, Session, Stateless
from mcp_ref.connection.connection import Connection
from mcp_ref.errors import (
    AnswerLost,
    ErrorResponse,
    HeaderMismatch,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    SessionExpired,
    TransportClosed,
    UnsupportedVersion,
)
from mcp_ref.kit.threads.deadline import Deadline, holding
from mcp_ref.kit.threads.era_cache import ERAS
from mcp_ref.pages.basic.lifecycle import offered_instead
from mcp_ref.pages.server.utilities.caching import CACHEABLE
from mcp_ref.pages.server.utilities.pagination import walk
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options
from mcp_ref.wire.transport import is_transport

if TYPE_CHECKING:
    from mcp_ref.client.client import Client

log = logging.getLogger(__name__)

MAX_RESENDS: Final = 2
"""Times that one request is sent again."""

READING: Final = CACHEABLE | {"prompts/get", "completion/complete"}
"""Requests that change nothing."""


def after(
    reconnector: Reconnector, problem: McpError, asked: Conversation, attempts: int, deadline: Deadline
) -> Conversation:
    """Return the conversation in which to send a request again that ended with a problem.

    Args:
        asked: the conversation in which it was sent, and `attempts` how often it was sent in all.
        deadline: of the call, which holds for everything that is done here.

    Blocks: until another conversation is open, at most until the deadline.
    Raises: the problem, if the request must not be sent again, or the server ends again and again; whatever opening
        raises.
    """
    if isinstance(asked, Session):
        # MUST: after a 404 to a session start a new one with initialize, without a session id
        # (basic/transports#session-management)
        if not isinstance(problem, SessionExpired) or attempts > 1:
            raise problem
        log.warning("the server has ended the session; subscriptions and the log level are lost with it")
        return reopen(reconnector, asked, problem, deadline)
    if reconnector.closed or attempts > MAX_RESENDS:
        raise problem
    if asked.connection.closed is not None:
        return reopen(reconnector, asked, problem, deadline)
    if isinstance(problem, HttpStatusError):
        older = problem.status in (400, 404, 405)
    else:
        older = isinstance(problem, ErrorResponse) and names_older_versions(problem)
    if older and reconnector.client.revisions[0].era == "session":
        return reopen(reconnector, asked, problem, deadline, doubted=True)
    if isinstance(problem, AnswerLost):
        return asked
    raise problem


def reopen(
    reconnector: Reconnector, ended: Conversation, reason: McpError, deadline: Deadline, *, doubted: bool = False
) -> Conversation:
    """Return another conversation in place of one that has ended; of several callers who find that out, one opens it.

    Args:
        doubted: it has not ended, but may be of the wrong era; if it is not, the reason is raised.
    """
    client = reconnector.client
    with holding(reconnector.opening, deadline, "waiting for another connection to the server"):
        if reconnector.current is not ended or reconnector.closed:
            return client.session
        if is_transport(client.target):
            raise reason
        if doubted:
            # MAY: probe again if what is known proves wrong
            # (2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions)
            log.info("finding out the era of the server again: %s", reason)
            ERAS.put(server_key(client.target), None)
        elif isinstance(ended, Stateless):
            # SHOULD: restart a server that died (2026-07-28/basic/transports/stdio#unexpected-termination)
            log.warning("lost the connection, opening it again: %s", reason)
            if reconnector.restarts.take(None, "restart"):
                raise reason
        try:
            opened = reconnector.open_next(at_most(client.connect_timeout, deadline))
        except BaseException:
            # Who calls is not the one who will close this client: what has failed is ended here.
            give_up(reconnector, deadline)
            raise
        # The conversation before is kept until the next, for what is still under way in it.
        if reconnector.former is not None:
            reconnector.former.close(at_most(CLOSING_TIMEOUT, deadline))
        if doubted and isinstance(opened, Stateless):
            # Nothing has changed, and others may wait in the conversation before: go on with that one.
            reconnector.former = opened
            raise reason
        reconnector.former, reconnector.current = ended, opened
        client.tool_definitions = {}
    if client.on_reopen is not None:
        client.events.put(client.on_reopen, "on_reopen")
    return opened


def connection_for_stream(self: Client, deadline: Deadline) -> Connection:
    """Return the connection of the conversation that goes on, or of a new one, for a request that stays open.

    Raises: TransportClosed: there may be a connection later. LocalProtocolError: there never will be.
    """
    session = self.session
    if self.reconnector.closed:
        raise LocalProtocolError("the client was closed")
    if (lost := session.connection.closed) is not None and isinstance(session, Stateless):
        session = reopen(self.reconnector, session, TransportClosed.before(lost), deadline)
    return session.connection


def mended(session: Stateless, refusal: ErrorResponse, method: str, options: Options, deadline: Deadline) -> bool:
    """Do what has to be done before a refused request is sent once more; False if nothing helps."""
    if refusal.code == HeaderMismatch.code and method == "tools/call" and session.revision.http == "stateless":
        # SHOULD: list the tools again after a HeaderMismatch, and retry the call
        # (2026-07-28/basic/transports/streamable-http#client-behavior)
        log.info("the headers of a call were refused (%s): listing the tools again", refusal.message)
        waiting: Options = {"timeout": deadline.left(), "cancel": options.get("cancel"), "cached": False}
        walk(session.client, "tools/list", "tools", waiting)
        return True
    # SHOULD: go on in a version of both that an UnsupportedProtocolVersion error names
    # (2026-07-28/basic/versioning#protocol-version-negotiation)
    instead = offered_instead(refusal.data, session.revisions) if refusal.code == UnsupportedVersion.code else None
    if instead is None or instead is session.revision:
        return False
    session.connection.terms = session.terms(instead, session.connection.terms.remote)
    return True


def may_resend(
    lost: McpError, method: str, params: JsonObject | None, options: Options, tools: Mapping[str, Any]
) -> bool:
    """Return whether a request that ended with a problem may be sent again, as another request with another id.

    A request that was refused, or that never went out, was not carried out. If its answer was lost the caller decides
    with `resend=`; otherwise it is sent again if it only reads, or calls a tool that says of itself that this does no
    harm.

    Args:
        tools: the tools that are known by name, for what they say of themselves.
    """
    if not isinstance(lost, TransportClosed) or not lost.sent:
        return True
    if (chosen := options.get("resend")) is not None:
        return chosen
    if method != "tools/call":
        return method in READING
    known = tools.get((params or {}).get("name", ""))
    hints = {} if known is None else known.tool.get("annotations") or {}
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True
