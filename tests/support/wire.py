"""A peer made by hand: it writes any text to the side under test, and reads what that side writes.

Conversations are tested as transcripts: prose, `C>` lines that the client sends, `S<` lines that the server sends.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

from mcp_ref import Client, Server
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports.memory import pair
from mcp_ref.revisions import SESSION_REVISIONS

PATIENCE = 20.0
"""Seconds that a test waits for something that must happen."""


class Wire:
    """The far end of a connection, held by the test."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.inbox: SimpleQueue[Any] = SimpleQueue()
        transport.start(lambda data: self.inbox.put(json.loads(data)), self.inbox.put)

    def send(self, message: Any) -> None:
        """Write a message (a dict or a list), or any text as it is."""
        if isinstance(message, str | bytes):
            self.send_text(message)
        else:
            self.transport.send(message, Deadline(PATIENCE))

    def send_text(self, text: str | bytes) -> None:
        """Write a text that need not be JSON."""
        data = text.encode() if isinstance(text, str) else text
        other = self.transport.other
        with other._lock:
            other._receive(data)

    def receive(self, timeout: float = PATIENCE) -> Any:
        """The next message; AssertionError when none comes."""
        try:
            return self.inbox.get(timeout=timeout)
        except Empty:
            raise AssertionError(f"nothing arrived within {timeout} s") from None

    def silent(self) -> bool:
        """Whether nothing has been written to us. Ask after an answer that must come later than what must not."""
        return self.inbox.empty()

    def request(self, request_id: Any, method: str, params: Any = None) -> Any:
        """Send a request and return the next message."""
        more = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, **more})
        return self.receive()

    def call(self, request_id: Any, tool: str, **arguments: Any) -> None:
        """Send a `tools/call`, and do not wait."""
        params = {"name": tool, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params})

    def answer(self, request_id: Any, result: Any) -> None:
        """Send a successful response."""
        self.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})


@contextmanager
def to_server(server: Server) -> Iterator[Wire]:
    """A wire to a server; the test is its client."""
    ours, theirs = pair()
    session = server.connect(theirs)
    try:
        yield Wire(ours)
    finally:
        ours.close(Deadline(PATIENCE))
        session.close(PATIENCE)


@contextmanager
def opened(server: Server, revision: str, capabilities: Any = None) -> Iterator[Wire]:
    """A wire to a server, after the opening conversation."""
    with to_server(server) as wire:
        params = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": CLIENT_INFO}
        wire.opening = wire.request("open", "initialize", params)["result"]  # type: ignore[attr-defined]
        wire.notify("notifications/initialized")
        yield wire


CLIENT_INFO = {"name": "wire", "version": "1"}
SERVER_INFO = {"name": "wire", "version": "1"}


@contextmanager
def connecting(**options: Any) -> Iterator[tuple[Client, Wire, Background]]:
    """A client that connects, a wire to it, and its opening under way; the test is its server."""
    ours, theirs = pair()
    client = Client(theirs, **options)
    try:
        yield client, Wire(ours), Background(client.connect)
    finally:
        client.close()
        ours.close(Deadline(PATIENCE))


@contextmanager
def to_client(revision: str = "2025-11-25", capabilities: Any = None, **options: Any) -> Iterator[tuple[Client, Wire]]:
    """A connected client, and a wire to it; the test is its server."""
    with connecting(**{"revision": SESSION_REVISIONS, **options}) as (client, wire, opening):
        agreed = {"protocolVersion": revision, "capabilities": capabilities or {}, "serverInfo": SERVER_INFO}
        wire.answer(wire.receive()["id"], agreed)
        assert (outcome := opening.outcome()) is client, outcome
        assert wire.receive()["method"] == "notifications/initialized"
        yield client, wire


class Background:
    """A call in a thread of its own; `outcome()` waits for what it returned or raised."""

    def __init__(self, function: Any, *arguments: Any, **options: Any) -> None:
        self._results: SimpleQueue[Any] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(function, arguments, options), name="test-call")
        self._thread.start()

    def _run(self, function: Any, arguments: Any, options: Any) -> None:
        try:
            self._results.put(function(*arguments, **options))
        except BaseException as problem:
            self._results.put(problem)

    def outcome(self) -> Any:
        """Return what it returned, or the exception that it raised; AssertionError when it does not end."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"the call did not end within {PATIENCE} s"
        return self._results.get_nowait()


def at_once(*jobs: Callable[[], Any]) -> list[Any]:
    """Run each in a thread of its own, all from the same moment on: what they returned, or what the first raised."""
    together = threading.Barrier(len(jobs), timeout=PATIENCE)

    def run(job: Callable[[], Any]) -> Any:
        together.wait()
        return job()

    outcomes = [call.outcome() for call in [Background(run, job) for job in jobs]]
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def play(server: Server, transcript: str) -> None:
    """Hold a conversation with a server: send each `C>` line, and find each `S<` line word for word."""
    with to_server(server) as wire:
        for number, line in enumerate(transcript.splitlines(), 1):
            mark, _, text = line.strip().partition(" ")
            if mark == "C>":
                wire.send_text(text)
            elif mark == "S<":
                got = wire.receive()
                assert got == json.loads(text), f"line {number}: expected {text}, got {json.dumps(got)}"
        assert wire.silent(), f"more than the transcript says: {wire.receive()}"
