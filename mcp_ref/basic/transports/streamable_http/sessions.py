"""The sessions of a Streamable HTTP endpoint: ids, whose they are, how long they last, how many there may be.

Spec:      basic/transports#session-management
Upholds:   spec_notes/basic/transports.md, the rows on sessions
Not here:  the status codes of requests with a wrong id (endpoint.py); what a session does (server/session)
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from mcp_ref.basic.transports.streamable_http.exchange import ServerEnd
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.http_server import HttpRefusal
from mcp_ref.peer import Peer


class Conversation(Protocol):
    """What the endpoint needs of a session of the server: `server.session.Session` is one."""

    peer: Peer

    @property
    def opened(self) -> bool:
        """Whether `initialize` was answered with a result."""
        ...

    def close(self, timeout: float = 5, drain: float = 0) -> list[str]: ...


class HttpSession:
    """One session: its id, the conversation, and who may use it.

    Attributes:
        id: visible ASCII, from a cryptographic source.
        identity: who opened it, as the authentication said; nobody else can use it.
        client: the address that opened it, for limits.
    """

    def __init__(self, transport: ServerEnd, conversation: Conversation, identity: Any, client: str) -> None:
        # SHOULD: unique and cryptographically secure; MUST: visible ASCII (basic/transports#session-management)
        self.id = secrets.token_urlsafe(32)
        self.transport, self.conversation = transport, conversation
        self.identity, self.client = identity, client
        self.used = time.monotonic()
        self.busy = 0


class HttpSessions:
    """All sessions of an endpoint.

    Args:
        idle: seconds after which a session that nobody uses is ended; None for never.
        most: how many there may be; `most_per_client`: how many one address may have.

    Threads: any.
    """

    def __init__(
        self,
        connect: Callable[[ServerEnd], Conversation],
        *,
        idle: float | None,
        most: int,
        most_per_client: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._idle, self._clock = connect, idle, clock
        self._most, self._most_per_client = most, most_per_client
        self._lock = threading.Lock()  # guards what follows, and `used` and `busy` of each session
        self._sessions: dict[str, HttpSession] = {}
        self._count = 0  # of the sessions, and of those that are being opened
        self._closed = False
        self._per_client: Counter[str] = Counter()
        self._swept = clock()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, transport: ServerEnd, identity: Any, client: str) -> HttpSession:
        """A new session, in use.

        Raises: HttpRefusal: 503 when there are too many, 429 when this client has too many.
        """
        self.sweep()
        self._reserve(client)
        try:
            session = HttpSession(transport, self._connect(transport), identity, client)
        except BaseException:
            with self._lock:
                self._release_locked(client)
            raise
        with self._lock:
            session.used, session.busy = self._clock(), 1
            self._sessions[session.id] = session
            closed = self._closed
        if closed:
            self.end(session)
            raise HttpRefusal(503, "Shutting down")
        return session

    def _reserve(self, client: str) -> None:
        with self._lock:
            if self._count >= self._most:
                raise HttpRefusal(503, "Too many sessions", headers={"Retry-After": "10"})
            if self._per_client[client] >= self._most_per_client:
                raise HttpRefusal(429, "Too many sessions of this client", headers={"Retry-After": "10"})
            self._count += 1
            self._per_client[client] += 1

    def _release_locked(self, client: str) -> None:
        self._count -= 1
        self._per_client[client] -= 1
        if not self._per_client[client]:
            del self._per_client[client]

    def find(self, session_id: str | None) -> HttpSession | None:
        """The session of that id, whoever opened it, for the trace alone; or None."""
        return None if session_id is None else self._sessions.get(session_id)

    def take(self, session_id: str, identity: Any) -> HttpSession:
        """The session of that id, marked as in use until `put_back`.

        Raises: HttpRefusal: 404 when there is none, or it is somebody else's (who must not learn that it exists).
        """
        self.sweep()
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None or session.identity != identity:
                # MUST: 404 once a session is over (basic/transports#session-management)
                raise HttpRefusal(404, "Session not found")
            session.busy += 1
            return session

    def put_back(self, session: HttpSession) -> None:
        """Say that one use of it is over."""
        with self._lock:
            session.busy -= 1
            session.used = self._clock()

    def end(self, session: HttpSession, timeout: float = 5) -> None:
        """End a session: its streams end, its handlers are cancelled, its id is unknown from now on."""
        with self._lock:
            if self._sessions.pop(session.id, None) is None:
                return
            self._release_locked(session.client)
        session.conversation.close(timeout)

    def sweep(self) -> None:
        """End the sessions that nobody has used for too long. Each request does this, at most once a second."""
        now = self._clock()
        if self._idle is None:
            return
        with self._lock:
            if now - self._swept < min(1.0, self._idle):
                return
            self._swept = now
            stale = [each for each in self._sessions.values() if not each.busy and now - each.used > self._idle]
        for session in stale:
            self.end(session, timeout=1)

    def close(self, timeout: float = 5) -> None:
        """End them all, and open no more; at most `timeout` seconds in all."""
        deadline = Deadline(timeout)
        with self._lock:
            self._closed = True
            sessions = list(self._sessions.values())
        for session in sessions:
            self.end(session, deadline.left() or 0.0)
