"""Eras: finding out whether a server opens with `initialize`, or has every request stand alone.

Spec:      basic/versioning#backward-compatibility-with-initialization-based-versions,
           basic/transports/stdio#backward-compatibility, basic/transports/streamable-http#backward-compatibility
Upholds:   spec_notes/basic/versioning.md, the rows on the two eras
Reads:     client/session and client/stateless, which are the two conversations; client/targets (Route)
Not here:  the ways to a target (client/targets)

The newer era is tried first, with `server/discover`:

    answer                                              the server is
    a DiscoverResult, or one of the three new errors    of the stateless era
    -32022 that names older versions alone              of the session era, for us
    any other error, or nonsense                        of the session era
    nothing, over stdio; a hang-up, over HTTP           of the session era
    its end, over stdio                                 of the session era, and is started again
    HTTP 401, 403, 408, 429, 5xx, no connection         not known: it is raised

What was found is remembered for the server: a process that is started alike, or the URL without its
query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.transports.transport import Mirror, MirroringTransport, Receive, SessionTransport, Transport
from mcp_ref.client.session import Session
from mcp_ref.client.setup import Setup
from mcp_ref.client.stateless import Stateless
from mcp_ref.client.targets import Route
from mcp_ref.errors import (
    MODERN_ERRORS,
    AnswerLost,
    ErrorResponse,
    HttpStatusError,
    McpError,
    RemoteProtocolError,
    RequestTimeout,
    TransportClosed,
)

__all__ = ["ERAS", "EraMemory", "connect", "names_older_alone"]

log = logging.getLogger(__name__)

Era = Literal["session", "stateless"]
Conversation = Session | Stateless

_MOST_REMEMBERED = 1_000

_OF_ANY_ERA = frozenset({401, 403, 408, 429})
"""Statuses that say who asks, or when, and nothing of what is spoken."""


class EraMemory:
    """What is known of servers, by whatever tells them apart.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _eras
        self._eras: dict[Hashable, Era] = {}

    def get(self, server: Hashable | None) -> Era | None:
        """The era of a server, or None."""
        return self._eras.get(server)

    def put(self, server: Hashable | None, era: Era) -> None:
        """Remember it; nothing is remembered of what cannot be told apart (None)."""
        with self._lock:
            if server is not None:
                self._eras.pop(server, None)
                self._eras[server] = era
                if len(self._eras) > _MOST_REMEMBERED:
                    del self._eras[next(iter(self._eras))]

    def forget(self, server: Hashable | None) -> None:
        """Find it out anew the next time: what was remembered has proved wrong."""
        with self._lock:
            self._eras.pop(server, None)


ERAS = EraMemory()
"""What this process knows (SHOULD: keep it for the lifetime of the server process, or origin)."""


class _Legacy(Exception):
    """The server is of the session era.

    Args:
        found: what the probe came to.
        kept: the connection that it can be spoken with on.
        silent: it has said nothing at all, and may as well be slow.
    """

    def __init__(self, found: McpError, kept: tuple[Transport, int] | None, silent: bool = False) -> None:
        self.found, self.kept, self.silent = found, kept, silent


def connect(
    setup: Setup,
    routes: list[Route],
    server: Hashable | None,
    deadline: Deadline,
    began: Callable[[Conversation], None],
) -> Conversation:
    """Try the ways to a server, and hold the opening conversation on the first that works.

    Args:
        routes: the ways, those of the stateless era first.
        server: what the era is remembered by.
        began: is told of each conversation before it opens, so that somebody else can close it.

    Blocks: until one is open, at most until the deadline.
    Raises: whatever the last way raised; what those before it came to is in its notes.
    """
    newer = [route for route in routes if route.era == "stateless"]
    older = [route for route in routes if route.era == "session"]
    remembered = ERAS.get(server)
    failed: list[Conversation] = []
    tried: list[McpError] = []

    def begun(conversation: Conversation) -> None:
        failed.append(conversation)
        began(conversation)

    kept: tuple[Transport, int] | None = None
    silent = False
    if newer and not (older and remembered == "session"):
        try:
            found = _open_newer(setup, newer[0], bool(older), deadline, began)
            ERAS.put(server, "stateless")
            return found
        except _Legacy as legacy:
            log.info("the server is of the session era")
            kept, silent = legacy.kept, legacy.silent
            tried.append(legacy.found)
    try:
        with _told(tried):
            opened = _open_older(setup, older, kept, deadline, begun, tried)
    except (ErrorResponse, HttpStatusError, RemoteProtocolError, TransportClosed) as problem:
        if silent and isinstance(problem, ErrorResponse):
            # It refuses `initialize`: so it was slow, not old.
            failed[-1].close(Deadline(1))
            return _open_newer(setup, newer[0], False, deadline, began)
        if remembered != "session" or not newer:
            raise
        # MAY persist, re-probing if the assumption later fails (basic/versioning)
        ERAS.forget(server)
        failed[-1].close(Deadline(1))
        return connect(setup, routes, server, deadline, began)
    ERAS.put(server, "session")
    return opened


@contextmanager
def _told(tried: list[McpError]) -> Iterator[None]:
    """Have what is raised name what the ways before came to: the reason is often there."""
    try:
        yield
    except McpError as problem:
        for each in dict.fromkeys(str(each)[:500] for each in tried if str(each) != str(problem)):
            problem.add_note(f"before that: {each}")
        raise


# -- the stateless era --------------------------------------------------------------------------------------------


def _open_newer(
    setup: Setup, route: Route, may_fall_back: bool, deadline: Deadline, began: Callable[[Conversation], None]
) -> Stateless:
    """The conversation, once the server has said that it can hold it.

    Raises: _Legacy where it is of the session era; RemoteProtocolError instead where that is of no use to the caller.
    """
    transport = route.make()
    handover = transport if route.by_status else _handed(transport)
    conversation = Stateless(setup, handover, route.revisions)
    began(conversation)
    # A server that stays silent, over stdio, must leave time for the opening of the other era.
    patience = _shorter(deadline, setup.probe_timeout) if may_fall_back and not route.by_status else deadline
    try:
        conversation.open(patience)
        return conversation
    except McpError as problem:
        if not _says_legacy(problem, route.by_status, deadline):
            raise
        if not may_fall_back and isinstance(problem, TransportClosed):
            # It may have ended for any reason.
            raise
        if not may_fall_back:
            names = ", ".join(revision.name for revision in route.revisions)
            raise RemoteProtocolError(f"the server does not speak {names}, but opens with initialize") from problem
        log.debug("no server of the stateless era: %s", problem)
        if not isinstance(handover, _Handover) or isinstance(problem, TransportClosed):
            if route.once:
                raise
            conversation.close(Deadline(1))
            raise _Legacy(problem, None) from None
        if isinstance(handover, _MirroringHandover):
            handover.mirror = None
        kept = handover, conversation.peer.next_id
        raise _Legacy(problem, kept, isinstance(problem, RequestTimeout)) from None


def _shorter(deadline: Deadline, seconds: float) -> Deadline:
    left = deadline.left()
    return Deadline(seconds if left is None else min(seconds, left / 2))


def _says_legacy(problem: McpError, over_http: bool, deadline: Deadline) -> bool:
    """Whether what a probe came to shows a server of the session era."""
    if isinstance(problem, ErrorResponse):
        if problem.code == -32022:
            return names_older_alone(problem.data)
        # MUST NOT: depend on one specific code (basic/transports/stdio#backward-compatibility)
        return problem.code not in MODERN_ERRORS
    if isinstance(problem, HttpStatusError):
        return 400 <= problem.status < 500 and problem.status not in _OF_ANY_ERA
    if over_http:
        return isinstance(problem, RemoteProtocolError | AnswerLost)
    if isinstance(problem, RequestTimeout):
        return deadline.left() != 0.0
    return isinstance(problem, RemoteProtocolError | TransportClosed)


def names_older_alone(data: Any) -> bool:
    """Whether the data of a -32022 name versions of the session era: that is what is left to speak."""
    from mcp_ref.revisions import SESSION_REVISIONS

    supported = data.get("supported") if isinstance(data, dict) else None
    return isinstance(supported, list) and any(revision.name in supported for revision in SESSION_REVISIONS)


# -- the session era ----------------------------------------------------------------------------------------------


def _open_older(
    setup: Setup,
    routes: list[Route],
    kept: tuple[Transport, int] | None,
    deadline: Deadline,
    began: Callable[[Conversation], None],
    tried: list[McpError],
) -> Session:
    for route in routes:
        transport, first_id = kept if kept is not None else (route.make(), 1)
        session = Session(setup, transport, route.revisions, first_id=first_id)
        began(session)
        try:
            session.open(deadline)
            return session
        except (HttpStatusError, ErrorResponse) as problem:
            refused = getattr(transport, "refused", None)
            # An error of the newer era names what its server speaks: there is no older transport behind it
            # (2026-07-28/basic/transports/streamable-http#httpsse-transport-2024-11-05).
            newer = isinstance(problem, ErrorResponse) and problem.code in MODERN_ERRORS
            if newer or refused is None or route is routes[-1] or not route.falls_back(refused.status):
                raise
            log.info("%s; trying the older transport", refused)
            tried.append(problem)
            session.close(Deadline(1))
        except TransportClosed:
            # It may have ended over the probe, after it had answered: once more with a fresh one.
            if kept is None or route.once:
                raise
            session.close(Deadline(1))
            return _open_older(setup, routes, None, deadline, began, tried)
    raise AssertionError("there is no way to the server")


class _Handover:
    """A transport that one conversation can leave to the next, with the connection that it has.

    Threads: as the transport's; `start` by one at a time.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport, self.name = transport, transport.name
        self.send, self.exchange, self.close = transport.send, transport.exchange, transport.close
        self._receive: Receive = lambda text: None
        self._lost: Callable[[McpError], None] = lambda reason: None
        self._started = False

    def start(self, receive: Receive, lost: Callable[[McpError], None]) -> None:
        """Deliver to this one from now on; the first time, start the transport."""
        self._receive, self._lost = receive, lost
        if not self._started:
            self._started = True
            self._transport.start(lambda text: self._receive(text), lambda reason: self._lost(reason))


class _MirroringHandover(_Handover):
    """The same for HTTP that was given as a transport: it has headers made, and hears how far the conversation is."""

    def __init__(self, transport: MirroringTransport) -> None:
        super().__init__(transport)
        self._mirroring = transport
        if isinstance(transport, SessionTransport):
            self.agreed, self.opened = transport.agreed, transport.opened

    @property
    def mirror(self) -> Mirror | None:
        """See `MirroringTransport`."""
        return self._mirroring.mirror

    @mirror.setter
    def mirror(self, made: Mirror | None) -> None:
        self._mirroring.mirror = made

    @property
    def hangs_up(self) -> bool:
        """See `Transport`."""
        return self._mirroring.hangs_up


def _handed(transport: Transport) -> _Handover:
    return _MirroringHandover(transport) if isinstance(transport, MirroringTransport) else _Handover(transport)
