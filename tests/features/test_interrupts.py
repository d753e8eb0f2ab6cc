"""Ctrl-C at any moment: the next call works or says why not, none hangs, and nothing is left behind.

A thread sends the signal after a random time, 1,000 times in each transport and era, while calls and whole connections
are made.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import pytest

from mcp_ref import Client, Command, McpError, Server
from tests.pages.basic.transports.streamable_http.raw import until
from tests.support.machine import held
from tests.support.wire import PATIENCE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signal can be sent to a thread here"),
    # What Ctrl-C has caught between two steps is closed when it is forgotten, and says so.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def conditions_are_never_left_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C at the end of `Condition.__enter__`, which is Python code, leaves the lock of an `Event` locked for ever.

    Nobody who starts a thread can help that. Here `with` gets the lock's own methods, which are one step each.
    """
    for name in ("__enter__", "__exit__"):
        monkeypatch.setattr(threading.Condition, name, property(attrgetter(f"_lock.{name}")))


PROGRAM = "from tests.features.test_interrupts import build; build().run()"
REVISIONS = ["2025-11-25", "2026-07-28"]


def build() -> Server:
    server = Server("s")

    @server.tool()
    def echo(text: str) -> str:
        return text

    return server


@contextmanager
def target(way: str) -> Iterator[Any]:
    server = build()
    if way == "memory":
        yield server
    elif way == "stdio":
        yield Command([sys.executable, "-c", PROGRAM], inherit=True, stderr="ignore")
    else:
        with server.serve_http() as service:
            yield service.url
    assert until(lambda: not server.sessions or way == "http")
    assert all(not session.connection.unanswered for session in server.sessions)


class Interrupter:
    """Sends SIGINT to the thread that makes it, a random time after each `arm`; `seconds` at most."""

    def __init__(self, seconds: float, seed: int) -> None:
        self._seconds, self._random, self._thread_id = seconds, random.Random(seed), threading.get_ident()
        self._go, self._over = threading.Semaphore(0), threading.Event()
        self.sent, self._arrived = threading.Event(), False
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _interrupt(self, *_: object) -> None:
        self._arrived = True
        raise KeyboardInterrupt

    def _run(self) -> None:
        while self._go.acquire() and not self._over.wait(self._random.random() * self._seconds):
            signal.pthread_kill(self._thread_id, signal.SIGINT)
            self.sent.set()

    def during(self, job: Callable[[], object]) -> bool:
        """Run a job again and again until the signal comes; whether it was seen. (Python ignores it in a finalizer.)"""
        try:
            self._arrived = False
            self.sent.clear()
            self._go.release()
            while not (self.sent.is_set() and self._arrived):
                job()
        except KeyboardInterrupt:
            return True
        return False

    def close(self) -> None:
        self._over.set()
        self._go.release()
        self._thread.join()
        signal.signal(signal.SIGINT, self._before)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("way", ["memory", "stdio", "http"])
def test_after_ctrl_c_in_a_call_the_next_one_works_or_says_why_not(way: str, revision: str) -> None:
    outcomes = Counter[str]()
    longest = 0.0

    def call(text: str = "again") -> str:
        return str(client.call_tool("echo", {"text": text})["content"][0]["text"])

    with target(way) as where:
        client = Client(where, revision=revision, timeout=PATIENCE).connect()
        call()
        before = held()
        interrupter = Interrupter(0.003, 7)
        try:
            for number in range(1_000):
                interrupter.during(call)
                began = time.monotonic()
                try:
                    assert call(str(number)) == str(number)
                    outcomes["works"] += 1
                except McpError as problem:
                    outcomes[f"{type(problem).__name__}: {problem}"] += 1
                    client.close()
                    client = Client(where, revision=revision, timeout=PATIENCE).connect()
                longest = max(longest, time.monotonic() - began)
                assert not client.session.connection._pending
        finally:
            interrupter.close()
        assert until(lambda: held()[1] <= before[1] + 2), (held(), before)
        client.close()
    print(f"{way} {revision}: {dict(outcomes)}, at most {longest:.3f} s")
    assert longest < PATIENCE
    # Over stdio Ctrl-C within a write ends the connection, which says so; the next one works.
    assert outcomes["works"] > (700 if way == "stdio" else 900)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("way", "moments"), [("memory", 100), ("stdio", 6), ("http", 100)])
def test_ctrl_c_in_a_connection_from_its_opening_to_its_end_leaves_nothing(
    way: str, moments: int, revision: str
) -> None:
    clients: list[Client] = []

    def live() -> None:
        clients.append(Client(where, revision=revision, timeout=PATIENCE))
        with clients[-1] as client:
            client.call_tool("echo", {"text": "x"})

    with target(way) as where:
        live()
        before = held()
        interrupter = Interrupter(0.3 if way == "stdio" else 0.02, 7)
        try:
            for _ in range(moments):
                interrupter.during(live)
                # Whoever was interrupted closes, and may be interrupted in that; a second time it works.
                clients[-1].close()
                clients.clear()
        finally:
            interrupter.close()
        live()
        assert until(lambda: held()[1] <= before[1] + 2), (held(), before)
