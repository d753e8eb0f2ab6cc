"""A peer under test, with a role that answers as the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mcp_ref.connection.connection import Connection
from mcp_ref.errors import McpError, RequestTimeout
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.lifecycle import Lifecycle
from mcp_ref.pages.basic.transports.memory import pair
from mcp_ref.pages.table import METHODS
from mcp_ref.revisions import find_revision
from mcp_ref.wire.negotiated import Negotiated, Role
from mcp_ref.wire.served import ServedRequest
from tests.support.wire import PATIENCE, Wire

EVERYTHING = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}, "roots": {}, "sampling": {}}


class Answerer:
    """A Side: every request is answered by a function of the test, every notification remembered."""

    def __init__(self, answer: Callable[[ServedRequest], Any]) -> None:
        self._answer = answer
        self.taken: list[tuple[str, Any]] = []
        self.lifecycle = Lifecycle("server")
        self.lifecycle.state = "open"
        self.reasons: list[McpError] = []
        self.gone = threading.Event()

    def admit(self, incoming: ServedRequest) -> Any:
        return {} if incoming.method == "ping" else self._answer

    def take(self, method: str, params: Any) -> None:
        self.taken.append((method, params))

    def lost(self, reason: McpError) -> None:
        self.reasons.append(reason)
        self.gone.set()


def terms(revision: str, role: Role = "server") -> Negotiated:
    return Negotiated(role, find_revision(revision), METHODS, EVERYTHING, EVERYTHING)


@contextmanager
def a_peer(
    answer: Callable[[ServedRequest], Any], revision: str = "2025-11-25", role: Role = "server", **options: Any
) -> Iterator[tuple[Connection, Wire]]:
    """A peer, and a wire to it."""
    ours, theirs = pair()
    side = Answerer(answer)
    peer = Connection(theirs, side, terms(revision, role), **options)
    peer.start()
    wire = Wire(ours)
    try:
        yield peer, wire
    finally:
        peer.close(Deadline(PATIENCE))
        ours.close(Deadline(PATIENCE))


class Deaf:
    """A transport whose far side does not read until it is told to."""

    name = "deaf"

    def __init__(self) -> None:
        self.reads = threading.Event()
        self.sent: list[Any] = []

    def start(self, receive: Any, lost: Any) -> None:
        pass

    def send(self, message: Any, deadline: Deadline) -> None:
        if not self.reads.wait(deadline.left()):
            raise RequestTimeout("nobody reads")
        self.sent.append(message)

    def exchange(self, message: Any, pending: Any, deadline: Deadline) -> None:
        self.send(message, deadline)
        pending.sent = True
        pending.take(deadline)

    def close(self, deadline: Deadline) -> None:
        self.reads.set()
