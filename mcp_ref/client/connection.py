"""Connection: the conversation of a client that goes on, and the next one when that ends.

Spec:      basic/transports#session-management (2025-03-26 ... 2025-11-25);
           basic/transports/stdio#unexpected-termination, basic/versioning (2026-07-28)
Upholds:   spec_notes/basic/lifecycle.md, the rows on the client; spec_notes/basic/transports/stdio.md, on a server that
           dies
Reads:     client/eras, client/resending, client/targets
Not here:  one conversation (client/session, client/stateless); what a method does (client/client)

    ended by                              then
    the server, over HTTP (404)           another session; what got the 404 is sent again
    the end of a stateless server         another process; what may be sent again is (client/resending)
    a stream that broke, stateless        the same connection; the same rule
    the end of a server with sessions     the calls fail, and the client is of no more use
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.methods import JsonObject, Options
from mcp_ref.basic.patterns.row import Stream
from mcp_ref.basic.transports.transport import Tap
from mcp_ref.client.eras import ERAS, Conversation, connect, names_older_alone
from mcp_ref.client.resending import RESENDS, Restarts, may_resend
from mcp_ref.client.session import Session
from mcp_ref.client.setup import Setup
from mcp_ref.client.stateless import Stateless
from mcp_ref.client.targets import can_be_made_anew, routes, server_key
from mcp_ref.errors import (
    AnswerLost,
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    SessionExpired,
    TransportClosed,
    UnsupportedVersion,
)
from mcp_ref.revisions import Revision

__all__ = ["Connection"]

log = logging.getLogger(__name__)


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

        Raises: see `basic.patterns.listening.Opening`.
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
