"""basic/transports#session-management: ids, identities, caps, idle sessions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mcp_ref import Server
from mcp_ref.revisions import SESSION_REVISIONS
from tests.pages.basic.transports.streamable_http.replies import PATIENCE, Front
from tests.support.clock import Clock

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Clients(Front):
    """Several clients at one endpoint, and a clock."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("s", revisions=list(SESSION_REVISIONS))
        super().__init__(self.server, **options)
        self.clock = Clock()
        self.endpoint.sessions._clock = self.clock
        self.endpoint.sessions._swept = 0.0

    def session(self) -> str:
        """The id of a new session."""
        reply = self.initialize()
        assert reply.status == 200, reply.body
        return reply.headers["Mcp-Session-Id"]

    def ping(self, session: str) -> int | None:
        """The status of a ping in a session."""
        return self.post(PING, mcp_session_id=session).status


def test_the_cap_holds_while_many_open_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Semaphore(0), threading.Event()

    with Clients(max_sessions=2) as clients:
        connect = clients.server.connect

        def slowly(*args: Any, **options: Any) -> Any:
            entered.release()
            assert leave.wait(PATIENCE)
            return connect(*args, **options)

        monkeypatch.setattr(clients.server, "connect", slowly)
        threads = [threading.Thread(target=clients.initialize) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert all(entered.acquire(timeout=PATIENCE) for _ in threads)
        assert clients.initialize().status == 503
        leave.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(clients.endpoint.sessions._open) == 2


def test_a_session_that_cannot_be_begun_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise RuntimeError("no")

    with Clients(max_sessions=1, max_sessions_per_client=1) as clients:
        with monkeypatch.context() as patched:
            patched.setattr(clients.server, "connect", fail)
            for _ in range(3):
                with pytest.raises(RuntimeError):
                    clients.initialize()
        clients.session()


def test_each_use_gives_a_session_its_whole_time_again() -> None:
    with Clients(idle=60) as clients:
        session = clients.session()
        assert clients.ping(session) == 200
        for clients.clock.now in (50, 100, 150):
            assert clients.ping(session) == 200
        clients.clock.now = 211
        assert clients.ping(session) == 404


def test_sessions_last_for_ever_if_that_is_wanted() -> None:
    with Clients(idle=None) as clients:
        session = clients.session()
        clients.clock.now = 1e9
        assert clients.ping(session) == 200


def test_after_the_close_there_are_none_and_none_is_opened() -> None:
    with Clients() as clients:
        clients.session()
        clients.endpoint.close(1)
        clients.endpoint.close(1)
        assert clients.server.sessions == ()
        assert clients.initialize().status == 503


def test_a_session_that_opens_during_the_close_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with Clients() as clients:
        connect = clients.server.connect

        def late(*args: Any, **options: Any) -> Any:
            clients.endpoint.close(1)
            return connect(*args, **options)

        monkeypatch.setattr(clients.server, "connect", late)
        clients.initialize()
        assert clients.server.sessions == () and len(clients.endpoint.sessions._open) == 0
