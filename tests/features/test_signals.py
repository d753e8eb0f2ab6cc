"""A signal handler may have a thread close the client: nothing hangs, whatever it interrupts."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from mcp_ref import Client, McpError, Server
from tests.support.wire import PATIENCE

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such timer")
MOMENTS = [0.0005 * moment for moment in range(1, 40, 2)]


def build() -> Server:
    server = Server("s")
    server.tool("hello")(lambda: "hello")
    return server


@pytest.fixture
def handled() -> Any:
    """Sets what SIGALRM does."""
    before = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_handler_may_start_a_thread_that_closes_the_client(handled: Any) -> None:
    closing: list[threading.Thread] = []
    client = Client(build())

    def close_it(*_: object) -> None:
        closing.append(threading.Thread(target=client.close))
        closing[-1].start()

    handled(close_it)
    for moment in MOMENTS:
        client = Client(build(), timeout=PATIENCE).connect()
        signal.setitimer(signal.ITIMER_REAL, moment)
        with pytest.raises(McpError, match="closed"):
            while True:
                client.call_tool("hello")
        closing[-1].join(PATIENCE)
        assert not closing[-1].is_alive()
