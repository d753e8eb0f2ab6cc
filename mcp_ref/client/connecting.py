"""Connecting: finding out of which era a server is, opening a conversation with it, and opening another one later.

Spec:      basic/versioning#backward-compatibility-with-initialization-based-versions,
           basic/transports/stdio#backward-compatibility, basic/transports/streamable-http#backward-compatibility
Upholds:   spec_notes/basic/versioning.md, the rows on the two eras; spec_notes/basic/transports/stdio.md, the same
Not here:  the only way that there is (client/session); the ways to a URL (client/config); what is said on opening
           (client/session)

The stateless era is tried first, with `server/discover`:

    answer                                              the server is
    a DiscoverResult, or one of the three new errors    of the stateless era
    -32022 that names older versions alone              of the session era, for us
    any other error, or nonsense                        of the session era
    nothing, over stdio                                 not known: it is asked `initialize` as well, see below
    a hang-up, over HTTP                                of the session era
    nothing, over HTTP, in half of the time             not known: it is asked `initialize`; so behave gateways
                                                        in front of a process that the probe has stopped
    its end, over stdio                                 of the session era, and is started again
    HTTP 401, 403, 408, 429, 5xx, no connection         not known: it is raised

A server over stdio that says nothing may be slow, or may be old and ignore what it does not know. After `probe_timeout`
both questions wait on one pipe. A DiscoverResult counts more than a refusal of `initialize`; if both succeed the first
counts, but that a DiscoverResult may come a moment later. A server that was ended, or spoiled, by the probe is started
once more, and asked `initialize` alone.

What was found is remembered for the server: a command that is started alike, or the URL without its query.

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
import os
import threading
from collections.abc import Hashable, Mapping
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from mcp_ref.basic.lifecycle import offered_instead
from mcp_ref.basic.subscriptions import PendingStream
from mcp_ref.basic.transports.transport import MirroringTransport, is_transport
from mcp_ref.client.config import Route, Url, server_key
from mcp_ref.client.session import CLOSING_TIMEOUT, Connection, Conversation, Session, Stateless
from mcp_ref.errors import (
    STATELESS_ERRORS,
    AnswerLost,
    ErrorResponse,
    HeaderMismatch,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    SessionExpired,
    TransportClosed,
    UnsupportedVersion,
)
from mcp_ref.machinery.deadline import Deadline, hold
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.peer import PendingRequest
from mcp_ref.revisions import SESSION_REVISIONS, Revision
from mcp_ref.server.utilities.caching import CACHEABLE
from mcp_ref.server.utilities.pagination import walk

if TYPE_CHECKING:
    from mcp_ref.client.client import Client

log = logging.getLogger(__name__)

SECOND_ANSWER_TIMEOUT: Final = 0.2
"""Seconds in which a server that was slow, and has opened a session, may still answer the probe before."""

MAX_RESENDS: Final = 2
"""Times that one request is sent again."""

MAX_SERVERS_REMEMBERED: Final = 1_000

ABOUT_THE_CLIENT: Final = frozenset({401, 403, 408, 429})
"""HTTP statuses that say who asks, or when, and nothing of what the server speaks."""

READING: Final = CACHEABLE | {"prompts/get", "completion/complete"}
"""Requests that change nothing."""


class EraMemory:
    """The eras of servers, by whatever tells servers apart. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _eras
        self._eras: dict[Hashable, str] = {}

    def get(self, server: Hashable | None) -> str | None:
        """The era of a server, or None."""
        return self._eras.get(server)

    def put(self, server: Hashable | None, era: str | None) -> None:
        """Remember it; None: forget it. A server that cannot be told from others (None) is not remembered."""
        with self._lock:
            self._eras.pop(server, None)
            if server is not None and era is not None:
                self._eras[server] = era
            if len(self._eras) > MAX_SERVERS_REMEMBERED:
                del self._eras[next(iter(self._eras))]


ERAS = EraMemory()
"""What this process knows (SHOULD: keep it for the lifetime of the server process, or of the origin)."""

if hasattr(os, "register_at_fork"):
    # Begun again: its lock may be held by a thread that the new process does not have.
    os.register_at_fork(after_in_child=ERAS.__init__)  # type: ignore[misc]


class _ArrivingRequest(PendingRequest):
    """One of the requests of a race: what comes for it is told to who waits for any of them."""

    arrived: SimpleQueue[_Opening]
    opening: _Opening

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put(item)
        self.arrived.put(self.opening)


class _Opening:
    """The request that opens a conversation over a channel, sent; its answer is waited for elsewhere.

    Args:
        arrived: of another one that is under way over the same channel, to wait for both.

    Attributes:
        failed: whether its answer is a failure; None: it has not come.
    """

    def __init__(
        self, conversation: Conversation, deadline: Deadline, arrived: SimpleQueue[_Opening] | None = None
    ) -> None:
        self.failed: bool | None = None
        self._outcome: JsonObject | McpError = {}
        self.arrived = arrived if arrived is not None else SimpleQueue()
        if arrived is None:
            conversation.peer.start()
        method, params = conversation.opening(conversation.revisions[-1])
        self.pending = _ArrivingRequest(method, {}, deadline)
        self.pending.arrived, self.pending.opening = self.arrived, self
        self._peer = conversation.peer
        try:
            self._arriving = self._peer.transport.exchange(
                self._peer.begin(self.pending, params), self.pending, deadline
            )
        except BaseException as reason:
            self._peer.abandon(self.pending, reason)
            raise

    def arrives(self, until: Deadline) -> bool:
        """Wait for the next answer to any of the openings; whether there was one in time."""
        try:
            first = self.arrived.get(timeout=until.left())
        except Empty:
            return False
        if first.failed is None:
            try:
                first._outcome = first._peer.await_answer(first.pending, first._arriving)
            except BaseException as problem:
                first._peer.abandon(first.pending, problem)
                if not isinstance(problem, McpError):
                    raise
                first._outcome = problem
            first.failed = isinstance(first._outcome, McpError)
        return True

    def result(self) -> JsonObject:
        """What was answered; raises the McpError with which it ended."""
        if isinstance(self._outcome, McpError):
            raise self._outcome
        return self._outcome


# -- the first conversation ---------------------------------------------------------------------------------------


def find_era(connection: Connection, ways: list[Route], deadline: Deadline) -> Conversation:
    """Open a conversation, by one of several ways, in the era that the server turns out to speak."""
    failed: list[McpError] = []
    try:
        if ways[0].revisions[0].era == "session":
            return _initialize(connection, ways, None, deadline, failed)
        opened = _find_era(connection, ways[0], ways[1:], deadline, failed)
    except McpError as problem:
        # The reason is often what an earlier way came to.
        for each in dict.fromkeys(str(each)[:500] for each in failed if str(each) != str(problem)):
            problem.add_note(f"before that: {each}")
        raise
    # SHOULD: remember the era for the lifetime of the server process, or of the origin
    # (basic/versioning#backward-compatibility-with-initialization-based-versions)
    ERAS.put(server_key(connection.client.target), opened.revision.era)
    return opened


def _find_era(
    connection: Connection, newer: Route, older: list[Route], deadline: Deadline, failed: list[McpError]
) -> Conversation:
    client, server = connection.client, server_key(connection.client.target)
    over_http = isinstance(client.target, Url)
    # 1. A server that is known to be of the session era is not probed.
    if ERAS.get(server) == "session":
        try:
            return _initialize(connection, older, None, deadline, failed)
        except (ErrorResponse, HttpStatusError, RemoteProtocolError, TransportClosed) as problem:
            # MAY: persist what was found, re-probing if the assumption later fails
            # (basic/versioning#backward-compatibility-with-initialization-based-versions)
            log.info("the server is no longer what it was known to be: %s", problem)
            ERAS.put(server, None)
            _give_up(connection, deadline)
    # 2. The probe. Over a channel an older server may stay silent: then `initialize` joins it.
    probe = Stateless(client, newer.make(), newer.revisions)
    half = _at_most(None if (left := deadline.left()) is None else left / 2, deadline)
    try:
        connection.note_beginning(probe)
        asked = None if isinstance(probe.transport, MirroringTransport) else _Opening(probe, deadline)
        if asked is None or asked.arrives(_at_most(client.probe_timeout, deadline)):
            return connection.begin(probe, half if over_http else deadline, asked.result if asked else None)
    except McpError as problem:
        ended = isinstance(problem, TransportClosed)
        silent = over_http and isinstance(problem, RequestTimeout) and deadline.left() != 0
        # Over a transport that was given an end is an end, for whatever reason.
        if not (silent or says_session_era(problem, over_http)) or (ended and is_transport(client.target)):
            raise
        log.info("the server is of the session era: %s", problem)
        failed.append(problem)
    else:
        return _race(connection, probe, asked, newer, older, deadline, failed)
    # 3. `initialize`; over stdio on the connection that the probe has left, if it has left one.
    goes_on = not over_http and not ended
    if not goes_on:
        _give_up(connection, deadline)
    try:
        return _initialize(connection, older, probe if goes_on else None, deadline, failed)
    except ErrorResponse as refusal:
        if not silent or refusal.code not in STATELESS_ERRORS:
            raise
        # It was only slow, and of the stateless era.
        _give_up(connection, deadline)
        return connection.begin(Stateless(client, newer.make(), newer.revisions), deadline)


def _race(
    connection: Connection,
    probe: Stateless,
    asked: _Opening,
    newer: Route,
    older: list[Route],
    deadline: Deadline,
    failed: list[McpError],
) -> Conversation:
    """An open conversation with a server that has not answered the probe yet; see the module."""
    log.info("the server has not answered server/discover yet: asking initialize as well")
    peer = probe.peer
    session = Session(connection.client, probe.transport, older[0].revisions, peer)
    also = _Opening(session, deadline, asked.arrived)
    # 1. Until one of them has succeeded, or both have failed.
    until = deadline
    while asked.failed is not False and also.failed is not False and None in (asked.failed, also.failed):
        if not asked.arrives(until):
            break
        if also.failed:
            # It refuses to open a session: an answer to the line before can be but a moment away.
            until = _at_most(connection.client.probe_timeout, deadline)
    if also.failed is False and asked.failed is None:
        # A server of both eras that was slow may answer the second line before the first.
        asked.arrives(_at_most(SECOND_ANSWER_TIMEOUT, deadline))
    # 2. A DiscoverResult: what the session era still says is ignored.
    if asked.failed is False:
        peer.abandon(also.pending, RequestCancelled("the server is of the stateless era"))
        peer.side = probe
        return connection.begin(probe, deadline, asked.result)
    # 3. A session.
    if also.failed is False:
        opened = connection.begin(session, deadline, also.result)
        peer.abandon(asked.pending, RequestCancelled("the session is open"))
        return opened
    # 4. Neither: time is up; or the server was ended, or spoiled, by the probe, and is started once more.
    for opening in (asked, also):
        peer.abandon(opening.pending, RequestTimeout("not answered in time"))
    deadline.check("waiting for the answer to server/discover, and to initialize")
    try:
        also.result()
        raise AssertionError
    except McpError as refusal:
        if is_transport(connection.client.target):
            raise
        failed.append(refusal)
        _give_up(connection, deadline)
        if isinstance(refusal, ErrorResponse) and refusal.code in STATELESS_ERRORS:
            return connection.begin(Stateless(connection.client, newer.make(), newer.revisions), deadline)
        return _initialize(connection, older, None, deadline, failed)


def _initialize(
    connection: Connection, ways: list[Route], probe: Stateless | None, deadline: Deadline, failed: list[McpError]
) -> Session:
    """An open session, by the first of the ways that leads to one; or over the connection of the probe."""
    client = connection.client
    for way in ways:
        transport = way.make() if probe is None else probe.transport
        session = Session(client, transport, way.revisions, None if probe is None else probe.peer)
        try:
            connection.begin(session, deadline)
            return session
        except (TransportClosed, HttpStatusError, ErrorResponse) as problem:
            refused = getattr(transport, "refused", None)
            # An error of the newer era names what its server speaks: the URL does not lead to an older transport
            # (2026-07-28/basic/transports/streamable-http#httpsse-transport-2024-11-05).
            newer = isinstance(problem, ErrorResponse) and problem.code in STATELESS_ERRORS
            if probe is not None and not newer and not is_transport(client.target):
                # The probe, which it has answered, may have ended or spoiled it: once more, with a fresh one.
                failed.append(problem)
                _give_up(connection, deadline)
                return _initialize(connection, ways, None, deadline, failed)
            if newer or refused is None or way is ways[-1] or not way.falls_back(refused.status):
                raise
            log.info("%s; trying the older transport", refused)
            failed.append(problem)
            _give_up(connection, deadline)
    raise AssertionError("there is always a way")


def _give_up(connection: Connection, deadline: Deadline) -> None:
    """End what could not be opened."""
    if connection.beginning is not None:
        connection.beginning.close(_at_most(CLOSING_TIMEOUT, deadline))


def check_era(problem: McpError, revisions: tuple[Revision, ...], over_http: bool) -> None:
    """Raise RemoteProtocolError if the problem shows that a server is older than the only revisions that we speak."""
    if says_session_era(problem, over_http) and not isinstance(problem, TransportClosed):
        names = ", ".join(revision.name for revision in revisions)
        raise RemoteProtocolError(f"the server does not speak {names}, but opens with initialize") from problem


# -- the next one -------------------------------------------------------------------------------------------------


def after(
    connection: Connection, problem: McpError, asked: Conversation, attempts: int, deadline: Deadline
) -> Conversation | None:
    """The conversation in which to send a request again that ended with a problem; None if it must not be sent again.

    Args:
        asked: the conversation in which it was sent, and `attempts` how often it was sent in all.
        deadline: of the call, which holds for everything that is done here.

    Blocks: until another conversation is open, at most until the deadline.
    Raises: whatever opening raises, or the problem if the server ends again and again.
    """
    if isinstance(asked, Session):
        # MUST: after a 404 to a session start a new one with initialize, without a session id
        # (basic/transports#session-management)
        if not isinstance(problem, SessionExpired) or attempts > 1:
            return None
        log.warning("the server has ended the session; subscriptions and the log level are lost with it")
        return reopen(connection, asked, problem, deadline)
    if connection.closed or attempts > MAX_RESENDS:
        return None
    if asked.peer.closed is not None:
        return reopen(connection, asked, problem, deadline)
    if isinstance(problem, HttpStatusError):
        older = problem.status in (400, 404, 405)
    else:
        older = isinstance(problem, ErrorResponse) and names_older_versions(problem)
    if older and connection.client.revisions[0].era == "session":
        return reopen(connection, asked, problem, deadline, doubted=True)
    return asked if isinstance(problem, AnswerLost) else None


def reopen(
    connection: Connection, ended: Conversation, reason: McpError, deadline: Deadline, *, doubted: bool = False
) -> Conversation | None:
    """Another conversation in place of one that has ended; of several callers who find that out, one opens it.

    Args:
        doubted: it has not ended, but may be of the wrong era. None, if it is not.
    """
    client = connection.client
    held: list[bool] = []
    try:
        hold(connection.opening, held, deadline, "waiting for another connection to the server")
        if connection.current is not ended or connection.closed:
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
            log.warning("the connection was lost, and is opened again: %s", reason)
            if connection.restarts.take(None, "restart"):
                raise reason
        try:
            opened = connection.open_next(_at_most(client.connect_timeout, deadline))
        except BaseException:
            # Who calls is not the one who will close this client: what has failed is ended here.
            _give_up(connection, deadline)
            raise
        # The conversation before is kept until the next, for what is still under way in it.
        if connection.former is not None:
            connection.former.close(_at_most(CLOSING_TIMEOUT, deadline))
        if doubted and isinstance(opened, Stateless):
            # Nothing has changed, and others may wait in the conversation before: go on with that one.
            connection.former = opened
            return None
        connection.former, connection.current = ended, opened
        client.tool_definitions = {}
    finally:
        if held:
            connection.opening.release()
    if client.on_reopen is not None:
        client.events.put(client.on_reopen, "on_reopen")
    return connection.current


def open_stream(self: Client, method: str, params: JsonObject | None, deadline: Deadline) -> PendingStream:
    """Send a request whose answer ends a stream, in the conversation that goes on, or in a new one.

    Raises: TransportClosed: there may be a connection later. LocalProtocolError: there never will be.
    """
    session = self.session
    if self.connection.closed:
        raise LocalProtocolError("the client was closed")
    if (lost := session.peer.closed) is not None and isinstance(session, Stateless):
        session = reopen(self.connection, session, TransportClosed.before(lost), deadline) or session
    return PendingStream(session.peer, method, params, deadline)


# -- what a problem says ------------------------------------------------------------------------------------------


def says_session_era(problem: McpError, over_http: bool) -> bool:
    """Whether what a probe came to shows a server of the session era."""
    if isinstance(problem, ErrorResponse):
        # MUST NOT: depend on one specific error code (basic/transports/stdio#backward-compatibility)
        return names_older_versions(problem) or problem.code not in STATELESS_ERRORS
    if isinstance(problem, HttpStatusError):
        return 400 <= problem.status < 500 and problem.status not in ABOUT_THE_CLIENT
    if over_http:
        return isinstance(problem, RemoteProtocolError | AnswerLost)
    return isinstance(problem, RemoteProtocolError | TransportClosed)


def names_older_versions(problem: ErrorResponse) -> bool:
    """Whether an error is the -32022 that names versions of the session era: these are what is left to speak."""
    supported = problem.data.get("supported") if isinstance(problem.data, dict) else None
    named = supported if problem.code == UnsupportedVersion.code and isinstance(supported, list) else []
    return any(revision.name in named for revision in SESSION_REVISIONS)


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
    session.peer.terms = session.terms(instead, session.peer.terms.remote)
    return True


def may_resend(
    lost: McpError, method: str, params: JsonObject | None, options: Options, tools: Mapping[str, Any]
) -> bool:
    """Whether a request that ended with a problem may be sent again, as another request with another id.

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


def _at_most(seconds: float | None, deadline: Deadline) -> Deadline:
    """A deadline after so many seconds, or when the other one passes."""
    left = deadline.left()
    if left is None or seconds is None:
        return Deadline(seconds if left is None else left, within=deadline)
    return Deadline(min(seconds, left), within=deadline)
