"""Connecting: finding out of which era a server is, and opening a conversation with it.

Spec:      basic/versioning#backward-compatibility-with-initialization-based-versions,
           basic/transports/stdio#backward-compatibility, basic/transports/streamable-http#backward-compatibility
Upholds:   spec_notes/basic/versioning.md, the rows on the two eras; spec_notes/basic/transports/stdio.md, the same
Not here:  the ways to a URL (client/targets); what is said on opening (client/session); another conversation
           in place of one that has ended (client/reconnect)

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

A server over stdio that says nothing may be slow, or old. After `probe_timeout` it is asked `initialize` on the same
pipe. A session that this opens counts: a server of both eras may take nothing else from then on. A server that refuses
it was slow, and is probed once more; if the probe has ended or spoiled the server, that is started again, once, and
asked `initialize` alone.

What was found is remembered for the server: a command that is started alike, or the URL without its query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcp_ref.client.session import CLOSING_TIMEOUT, Conversation, Session, Stateless
from mcp_ref.client.targets import Command, Route, Url, http_routes
from mcp_ref.errors import (
    STATELESS_ERRORS,
    AnswerLost,
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestTimeout,
    TransportClosed,
    UnsupportedVersion,
)
from mcp_ref.kit.threads.deadline import Deadline, Rate, RateLimits
from mcp_ref.kit.threads.era_cache import ERAS
from mcp_ref.pages.basic.transports.over_http import MirroringTransport
from mcp_ref.revisions import SESSION_REVISIONS, Revision
from mcp_ref.wire.transport import Transport, is_transport

if TYPE_CHECKING:
    from mcp_ref.client.client import Client

log = logging.getLogger(__name__)

RESTARTS: Final = {"restart": Rate(per_second=5 / 60, burst=5)}
"""How often a server is started again: one that dies at once is not started without end."""

ABOUT_THE_CLIENT: Final = frozenset({401, 403, 408, 429})
"""HTTP statuses that say who asks, or when, and nothing of what the server speaks."""


class Reconnector:
    """The conversations of one client, one after the other. Threads: any."""

    def __init__(self, client: Client) -> None:
        self.client = client
        # Held by the one thread that opens a conversation; others wait for it with their own time limit. It guards what
        # follows, and nothing else is acquired by those who wait.
        self.opening = threading.RLock()
        self.current: Conversation | None = None  # that which goes on
        self.former: Conversation | None = None  # the one before, kept until the next for what is under way in it
        self.beginning: Conversation | None = None  # that which is being opened, or was opened last
        self.given_up: list[Conversation] = []  # the last that came to nothing: their processes may be slow to end
        self.restarts, self.closed = RateLimits(RESTARTS), False

    def open(self) -> None:
        """Open the first conversation. Blocks and raises: see `Client.connect`."""
        with self.opening:
            if self.closed:
                raise LocalProtocolError("a client can connect only once; make another one")
            limit = self.client.connect_timeout
            try:
                self.current = self.open_next(Deadline(limit))
                if self.current.connection.closed is not None:
                    # It was lost before it was the one that goes on.
                    self.current.lost(self.current.connection.closed)
            except RequestTimeout as problem:
                # Over stdio the reason may stand on the server's standard error.
                stderr_tail = getattr(self.beginning and self.beginning.transport, "stderr_tail", str)()
                said = f"; the server has said:{stderr_tail}" if stderr_tail else ""
                problem.args = (f"{problem} (connect_timeout={limit}){said}",)
                raise

    def open_next(self, deadline: Deadline) -> Conversation:
        """Open a conversation, by the only way there is, or by the one that client/connecting finds."""
        client, target = self.client, self.client.target
        if isinstance(target, Url):
            ways = http_routes(target, client.revisions, client.tap, deadline)
        else:
            eras = (tuple(row for row in client.revisions if row.era == era) for era in ("stateless", "session"))
            ways = [Route(self._connect, rows) for rows in eras if rows]
        if len(ways) > 1:
            return find_era(self, ways, deadline)
        transport, revisions = ways[0].make(), ways[0].revisions
        if revisions[0].era == "session":
            return self.begin(Session(client, transport, revisions), deadline)
        try:
            return self.begin(Stateless(client, transport, revisions), deadline)
        except McpError as problem:
            check_era(problem, revisions, isinstance(target, Url))
            raise

    def _connect(self) -> Transport:
        """Return a connection to a child process or to a server in this one; or the transport that was given."""
        target, tap = self.client.target, self.client.tap
        if isinstance(target, Command):
            from mcp_ref.pages.basic.transports.stdio import StdioClientTransport

            options = target._asdict()
            return StdioClientTransport(options.pop("argv"), **options, tap=tap("stdio"))
        if is_transport(target):
            given: Transport = target
            return given
        from mcp_ref.pages.basic.transports.memory import InProcess

        return InProcess(target, tap("memory"))

    def begin(self, conversation: Conversation, deadline: Deadline) -> Conversation:
        """Open a conversation. From here on `close()` by another thread can end it."""
        self.beginning, conversation.on_lost = conversation, self.note_lost
        # Looked at second: whichever thread comes later sees what the other did.
        if self.closed:
            conversation.close(Deadline(CLOSING_TIMEOUT))
            raise TransportClosed("the client was closed")
        conversation.open(deadline)
        return conversation

    def note_lost(self, conversation: Conversation, reason: McpError) -> None:
        """Tell the user's `on_close`, once, if the conversation that went on has ended and nobody closed it."""
        on_close = self.client.on_close
        if on_close is not None and conversation is self.current and not self.closed:
            conversation.on_lost = None
            self.client.events.put(partial(on_close, reason), "on_close")

    def close(self, deadline: Deadline) -> None:
        """End every conversation, also one that is being opened. Idempotent; see `Client.close`."""
        self.closed = True
        for conversation in dict.fromkeys((self.former, self.current, self.beginning, *self.given_up)):
            if conversation is not None:
                conversation.close(deadline)


def server_key(target: Any, *, whole: bool = False) -> Hashable | None:
    """Return a key that identifies the server: how it is started, or the URL; None if nothing does.

    Args:
        target: as the client has it: not a list, but a `Command`.
        whole: also the environment and the query, which may decide what it answers, and hardly its era.
    """
    if isinstance(target, Command):
        environment = (*sorted((target.env or {}).items(), key=str), str(target.inherit)) if whole else ()
        return ("stdio", tuple(map(str, target.argv)), str(target.cwd), environment)
    if isinstance(target, Url):
        from urllib.parse import urlsplit

        parts = urlsplit(target.url)
        return ("http", parts.scheme.lower(), parts.netloc.lower(), parts.path, parts.query if whole else "")
    return None


def find_era(reconnector: Reconnector, ways: list[Route], deadline: Deadline) -> Conversation:
    """Open a conversation, by one of several ways, in the era that the server turns out to speak."""
    failed: list[McpError] = []
    try:
        if ways[0].revisions[0].era == "session":
            return _initialize(reconnector, ways, deadline, failed)
        opened = _find_era(reconnector, ways[0], ways[1:], deadline, failed)
    except McpError as problem:
        # The reason is often what an earlier way came to.
        for each in dict.fromkeys(str(each)[:500] for each in failed if str(each) != str(problem)):
            problem.add_note(f"before that: {each}")
        raise
    # SHOULD: remember the era for the lifetime of the server process, or of the origin
    # (basic/versioning#backward-compatibility-with-initialization-based-versions)
    ERAS.put(server_key(reconnector.client.target), opened.revision.era)
    return opened


def _find_era(
    reconnector: Reconnector, newer: Route, older: list[Route], deadline: Deadline, failed: list[McpError]
) -> Conversation:
    client, server = reconnector.client, server_key(reconnector.client.target)
    over_http, given = isinstance(client.target, Url), is_transport(client.target)
    # 1. A server that is known to be of the session era is not probed.
    if ERAS.get(server) == "session":
        try:
            return _initialize(reconnector, older, deadline, failed)
        except (ErrorResponse, HttpStatusError, RemoteProtocolError, TransportClosed) as problem:
            # MAY: persist what was found, re-probing if the assumption later fails
            # (basic/versioning#backward-compatibility-with-initialization-based-versions)
            log.info("the server is no longer what it was known to be: %s", problem)
            ERAS.put(server, None)
            give_up(reconnector, deadline)
    # 2. The probe. Over HTTP half of the time is left for what comes after it.
    transport, left = newer.make(), deadline.left()
    limit: float | None = client.probe_timeout
    if over_http or isinstance(transport, MirroringTransport):
        limit = left if left is None or given else left / 2
    probe = Stateless(client, transport, newer.revisions)
    try:
        return reconnector.begin(probe, at_most(limit, deadline))
    except McpError as problem:
        silent = isinstance(problem, RequestTimeout) and deadline.left() != 0
        ended = isinstance(problem, TransportClosed)
        # Over a transport that was given an end is an end, for whatever reason.
        if not (silent or says_session_era(problem, over_http)) or (ended and given):
            raise
        log.info("server/discover was not answered as in the stateless era, asking initialize: %s", problem)
        failed.append(problem)
    # 3. Over a channel that goes on, `initialize` on the same one.
    if not over_http and not ended:
        try:
            return reconnector.begin(Session(client, transport, older[0].revisions, probe.connection), deadline)
        except (ErrorResponse, HttpStatusError, TransportClosed) as problem:
            refusal = problem
        if silent and isinstance(refusal, ErrorResponse):
            # It was only slow.
            try:
                again = Stateless(client, transport, newer.revisions, probe.connection)
                return reconnector.begin(again, at_most(limit, deadline))
            except McpError as problem:
                failed.append(problem)
        modern = isinstance(refusal, ErrorResponse) and refusal.code in STATELESS_ERRORS
        if given or (modern and not silent):
            raise refusal
        # The probe may have ended or spoiled it.
        failed.append(refusal)
        if isinstance(refusal, TransportClosed):
            # Remembered at once: where the time is too short for two starts, the next attempt needs only one.
            ERAS.put(server, "session")
    # 4. `initialize` alone.
    give_up(reconnector, deadline)
    try:
        return _initialize(reconnector, older, deadline, failed)
    except ErrorResponse as problem:
        if not silent or problem.code not in STATELESS_ERRORS:
            raise
        # It was only slow, and of the stateless era.
        give_up(reconnector, deadline)
        return reconnector.begin(Stateless(client, newer.make(), newer.revisions), deadline)


def _initialize(
    reconnector: Reconnector, ways: list[Route], deadline: Deadline, failed: list[McpError]
) -> Conversation:
    """Return an open session, by the first of the ways that leads to one."""
    for way in ways:
        transport = way.make()
        try:
            return reconnector.begin(Session(reconnector.client, transport, way.revisions), deadline)
        except (TransportClosed, HttpStatusError, ErrorResponse) as problem:
            refused = getattr(transport, "refused", None)
            # An error of the newer era names what its server speaks: the URL does not lead to an older transport
            # (2026-07-28/basic/transports/streamable-http#httpsse-transport-2024-11-05).
            newer = isinstance(problem, ErrorResponse) and problem.code in STATELESS_ERRORS
            if newer or refused is None or way is ways[-1] or not way.falls_back(refused.status):
                raise
            log.info("%s; trying the older transport", refused)
            failed.append(problem)
            give_up(reconnector, deadline)
    raise AssertionError("there is always a way")


def give_up(reconnector: Reconnector, deadline: Deadline) -> None:
    """End what could not be opened."""
    if reconnector.beginning is not None:
        reconnector.given_up = [*reconnector.given_up[-3:], reconnector.beginning]
        reconnector.beginning.close(at_most(CLOSING_TIMEOUT, deadline))


def check_era(problem: McpError, revisions: tuple[Revision, ...], over_http: bool) -> None:
    """Raise RemoteProtocolError if the problem shows that a server is older than the only revisions that we speak."""
    if says_session_era(problem, over_http) and not isinstance(problem, TransportClosed):
        names = ", ".join(revision.name for revision in revisions)
        raise RemoteProtocolError(f"the server does not speak {names}: it expects initialize") from problem


def says_session_era(problem: McpError, over_http: bool) -> bool:
    """Return whether what a probe came to shows a server of the session era."""
    if isinstance(problem, ErrorResponse):
        # The fall-back MUST NOT depend on one specific error code (basic/transports/stdio#backward-compatibility)
        return names_older_versions(problem) or problem.code not in STATELESS_ERRORS
    if isinstance(problem, HttpStatusError):
        return 400 <= problem.status < 500 and problem.status not in ABOUT_THE_CLIENT
    if over_http:
        return isinstance(problem, RemoteProtocolError | AnswerLost)
    return isinstance(problem, RemoteProtocolError | TransportClosed)


def names_older_versions(problem: ErrorResponse) -> bool:
    """Return whether an error is the -32022 that names versions of the session era: these are what is left to speak."""
    supported = problem.data.get("supported") if isinstance(problem.data, dict) else None
    named = supported if problem.code == UnsupportedVersion.code and isinstance(supported, list) else []
    return any(revision.name in named for revision in SESSION_REVISIONS)


def at_most(seconds: float | None, deadline: Deadline) -> Deadline:
    """Return a deadline after so many seconds, or when the other one passes."""
    left = deadline.left()
    if left is None or seconds is None:
        return Deadline(seconds if left is None else left, within=deadline)
    return Deadline(min(seconds, left), within=deadline)
