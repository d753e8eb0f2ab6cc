"""Eras: finding out whether a server opens with `initialize`, or has every request stand alone.

Spec:      basic/versioning#backward-compatibility-with-initialization-based-versions,
           basic/transports/stdio#backward-compatibility, basic/transports/streamable-http#backward-compatibility
Upholds:   spec_notes/basic/versioning.md, the rows on the two eras
Not here:  the ways to a target (client/config)

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
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, Literal

from mcp_ref.basic.transports.transport import Mirror, MirroringTransport, Receive, SessionTransport, Tap, Transport
from mcp_ref.client.answers import Setup
from mcp_ref.client.config import Route, can_be_made_anew, routes, server_key
from mcp_ref.client.session import Session
from mcp_ref.client.stateless import Stateless
from mcp_ref.errors import (
    MODERN_ERRORS,
    AnswerLost,
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestTimeout,
    SessionExpired,
    TransportClosed,
    UnsupportedVersion,
)
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.peer import Stream
from mcp_ref.revisions import Revision

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


# -- resending -------------------------------------------------------------------------------------------


RESENDS: Final = 2
"""Times that one call is sent again."""

_READING: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    }
)


def may_resend(
    lost: TransportClosed, method: str, params: JsonObject | None, options: Options | None, tools: Mapping[str, Any]
) -> bool:
    """Whether a request whose connection was lost may be sent again, as another request with another id.

    Args:
        tools: those that are known by name, for what they say of themselves.
    """
    if not lost.sent:
        return True
    chosen = (options or {}).get("resend")
    if chosen is not None:
        return chosen
    if method != "tools/call":
        return method in _READING
    known = tools.get((params or {}).get("name", ""))
    hints = {} if known is None else known.tool.get("annotations") or {}
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


class Restarts:
    """How often a server was started again of late: one that dies at once is not started without end.

    Threads: one at a time.
    """

    def __init__(self, most: int = 5, within: float = 60.0) -> None:
        self._most, self._within = most, within
        self._times: deque[float] = deque()

    def take(self) -> bool:
        """Count one more; False where there were too many."""
        now = monotonic()
        while self._times and self._times[0] < now - self._within:
            self._times.popleft()
        if len(self._times) >= self._most:
            return False
        self._times.append(now)
        return True


# -- connection ------------------------------------------------------------------------------------------


class Connection:
    """The conversations of one client, one after the other.

    Args:
        target, revisions: what to connect to, and in which revisions, oldest first.
        timeout: seconds for each opening.
        tap: gives what a transport of that name shows its traffic to.
        reopened: called after another conversation was opened.

    Attributes:
        current: the conversation that goes on; None before the first.
        closed: whether it is over.

    Threads: any.
    """

    def __init__(
        self,
        setup: Setup,
        target: object,
        revisions: tuple[Revision, ...],
        timeout: float | None,
        tap: Callable[[str], Tap | None],
        reopened: Callable[[], None],
    ) -> None:
        self._setup, self._target, self._revisions, self._timeout = setup, target, revisions, timeout
        self._tap, self._reopened = tap, reopened
        # Guards the opening of conversations, and so what follows; held while one is opened.
        self._lock = threading.Lock()
        self.current: Conversation | None = None
        self._former: Conversation | None = None
        self._beginning: Conversation | None = None
        self._restarts = Restarts()
        self.closed = False

    def open(self) -> None:
        """Open the first conversation. Blocks and raises: see `Client.connect`."""
        with self._lock:
            if self._beginning is not None or self.closed:
                raise LocalProtocolError("a client connects once; make another one")
            self._open_locked()

    def _open_locked(self) -> None:
        """Try the ways to the target, and go on with the first that works."""
        ways = routes(self._target, self._revisions, self._tap)
        opened = connect(self._setup, ways, server_key(self._target), Deadline(self._timeout), self._begun)
        if isinstance(opened, Stateless) and isinstance(self.current, Stateless):
            # What each request says stays as it was chosen.
            opened.log_level = self.current.log_level
        # The one before is kept until the next, for what is under way in it.
        if self._former is not None:
            self._former.close(Deadline(1))
        self._former, self.current = self.current, opened

    def _begun(self, conversation: Conversation) -> None:
        """Remember what is being opened, for `close()` by another thread."""
        self._beginning = conversation
        # Looked at second: whichever thread comes later sees what the other did.
        if self.closed:
            conversation.close(Deadline(1))
            raise TransportClosed("the client was closed")

    def live(self) -> Conversation:
        """The conversation that goes on; LocalProtocolError before there is one, TransportClosed after `close()`."""
        if self.current is None and self.closed:
            raise TransportClosed("the client was closed")
        if self.current is None:
            raise LocalProtocolError("the client is not connected: call connect(), or use it in a with statement")
        return self.current

    def reopen(self, ended: Conversation, reason: McpError | None = None, *, doubted: bool = False) -> Conversation:
        """Open another conversation where one has ended; of several callers who find that out, one does.

        Args:
            doubted: it has not ended, but may be of the wrong era; so this is no restart, and may change nothing.

        Blocks: until it is open. Raises: whatever opening raises; the reason, where it ends again and again.
        """
        with self._lock:
            if self.current is not ended or self.closed:
                return self.live()
            if not can_be_made_anew(self._target):
                raise reason or SessionExpired()
            if isinstance(ended, Session):
                # MUST: start a new session with initialize, without a session id (basic/transports#session-management)
                log.warning("the server has ended the session; subscriptions and the log level are lost with it")
            elif doubted:
                log.info("finding out the era of the server anew: %s", reason)
            elif self._restarts.take():
                # SHOULD: restart a server that died (2026-07-28/basic/transports/stdio#unexpected-termination)
                log.warning("the connection was lost, and is made anew: %s", reason)
            else:
                raise reason or TransportClosed("the server ends again and again")
            try:
                self._open_locked()
            except BaseException:
                # Who called is not the one who will close this client: what has failed is ended here.
                if self._beginning is not None:
                    self._beginning.close(Deadline(1))
                raise
            opened = self.live()
        if not (doubted and isinstance(opened, Stateless)):
            self._reopened()
        return opened

    def ask_again(
        self,
        asked: Conversation,
        problem: TransportClosed | HttpStatusError | ErrorResponse,
        method: str,
        params: JsonObject | None,
        options: Options | None,
    ) -> JsonObject:
        """Send a request again whose answer was lost, as another request, where that is allowed; else raise.

        Args:
            asked: the conversation in which it was lost, and `problem` how.

        Spec: 2026-07-28/changelog#major-changes, /basic/transports/stdio#unexpected-termination
        """
        tools = asked.tool_definitions
        for _ in range(RESENDS):
            found = self._next(asked, problem)
            if found is None:
                raise problem
            if isinstance(problem, TransportClosed) and not may_resend(problem, method, params, options, tools):
                raise problem
            asked = found
            try:
                # MUST: as a new request, with another id (2026-07-28/changelog#major-changes)
                return asked.ask(method, params, options)
            except (TransportClosed, HttpStatusError, ErrorResponse) as again:
                problem = again
        raise problem

    def _next(self, asked: Conversation, problem: McpError) -> Conversation | None:
        """The conversation to go on with after a problem; None where there is none."""
        if not isinstance(asked, Stateless) or self.closed:
            return None
        if isinstance(problem, HttpStatusError | ErrorResponse):
            if not self._shows_another_era(problem):
                return None
            # MAY: find out the era anew when it proves wrong (2026-07-28/basic/versioning)
            ERAS.forget(server_key(self._target))
            found = self.reopen(asked, problem, doubted=True)
            return None if isinstance(found, Stateless) and self._goes_on(asked, found) else found
        if asked.peer.closed is not None:
            return self.reopen(asked, problem)
        return asked if isinstance(problem, AnswerLost) else None

    def _goes_on(self, asked: Conversation, found: Conversation) -> bool:
        """Go on with the one before, where the next is of the same era: it was not wrong, and others may wait in it."""
        with self._lock:
            alike = self.current is found and self._former is asked
            if alike:
                self.current, self._former = asked, found
        return alike

    def _shows_another_era(self, problem: HttpStatusError | ErrorResponse) -> bool:
        """Whether a refusal says that the server is not, or no more, of the stateless era."""
        if self._revisions[0].era != "session":
            return False
        if isinstance(problem, HttpStatusError):
            return problem.status in (400, 404, 405)
        return problem.code == UnsupportedVersion.code and names_older_alone(problem.data)

    def open_stream(self, method: str, params: JsonObject | None, deadline: Deadline) -> Stream:
        """Send a request whose answer ends a stream, in the conversation that goes on, or in a new one.

        Raises: TransportClosed: there is no connection now, and there may be one later. LocalProtocolError: there never
            will be, for the client is closed, or the revision has no such request.
        """
        conversation = self.live()
        if conversation.peer.closed is not None and isinstance(conversation, Stateless) and not self.closed:
            conversation = self.reopen(conversation, TransportClosed.before(conversation.peer.closed))
        if self.closed:
            raise LocalProtocolError("the client was closed")
        return conversation.peer.stream(method, params, {}, deadline)

    def close(self, deadline: Deadline) -> None:
        """End every conversation, also one that is being opened. Idempotent; see `Client.close`."""
        self.closed = True
        for conversation in dict.fromkeys((self._former, self.current, self._beginning)):
            if conversation is not None:
                conversation.close(deadline)
