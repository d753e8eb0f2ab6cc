"""The contract of a transport: it carries messages and knows nothing of methods.

Spec:      basic/transports
Upholds:   spec_notes/basic/transports.md, the rows on custom transports; spec_notes/basic/transports/index.md
Not here:  stdio, memory: the transports; which message may be sent when (basic/lifecycle)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mcp_ref.errors import McpError
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.wire.messages import JsonObject

MAX_MESSAGE = 64 << 20
"""Bytes that an inbound message may have, unless `max_message` says otherwise; a server over HTTP takes less."""

Receive = Callable[[bytes], None]
"""Takes the text of one inbound message. It only routes: it neither blocks, nor writes, nor runs a user's code."""

Lost = Callable[[McpError], None]
"""Is told once that nothing more will arrive, and why."""


class Pending(Protocol):
    """One outgoing request. What belongs to it arrives by `receive`, as all does; its caller's thread handles it."""

    sent: bool
    """Set by `exchange` once the peer may have seen some of the request: only then is it told of a cancellation."""

    on_give_up: Callable[[], None] | None
    """Set by an `exchange` that blocks elsewhere than in `take`: called, by any thread, when the request is given up.

    Set it first, and call `take()` then, so that giving up in between is not missed; None again at the end.
    """

    @property
    def answered(self) -> bool:
        """Return whether the request is over because its response has come."""
        ...

    def take(self, deadline: Deadline | None = None) -> bool:
        """Handle what has come for the request: with a deadline wait for it until the request is over.

        Returns: True once the request is over, however it ended. That is kept for its caller: neither an answer, nor
            why it was given up, nor what the user's callback raised comes out here.
        Raises: RequestTimeout: the deadline passed first.
        """
        ...


class Transport(Protocol):
    """One connection to one peer, in either role.

    A class may derive from this one: then it need not have an `exchange` if replies come on the connection itself.

    It may have `hangs_up`: true if each request has a connection of its own, whose end tells the server to give it up;
    and `run_soon(job)`, which runs a job that writes once there is somebody to write to.

    Threads: `send` and `exchange` by any, also at once; `close` by any, any number of times.
    """

    name: str
    """Such as "stdio"; for the trace and for messages."""

    def start(self, receive: Receive, lost: Lost) -> None:
        """Begin to deliver: `receive(text)` for each message, one at a time, in order; `lost(reason)` once, at the end.

        Called once. Both may be called before this returns. When it raises, `lost` is not, and nothing is left open.

        Raises: TransportClosed: nobody is there to talk to, such as a command that cannot be launched; it was closed.
        """
        ...

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """Write one message (or a batch), whole.

        Blocks: until the peer's side has room for it, at most until the deadline.
        Raises: TransportClosed, RequestTimeout, LocalProtocolError (it is not JSON; nothing was written).
        """
        ...

    def exchange(self, message: JsonObject, pending: Pending, deadline: Deadline) -> None:
        """Write a request, and return when it is over; raise what ends it early.

        If each request has a reply of its own, as over HTTP, the calling thread reads it: it gives each message to
        `receive`, and calls `pending.take()` after it until that returns True. If replies come on the connection:
        """
        self.send(message, deadline)
        pending.sent = True
        pending.take(deadline)

    def close(self, deadline: Deadline) -> None:
        """End the connection and every thread of the transport; returns by the deadline, whatever the peer does.

        Of one that was started `lost` is called, by any thread, unless it has been; it may call `close` itself.
        """
        ...


class Connects(Protocol):
    """Takes conversations in this process: a `Server`, or a recording that answers.

    `connect` begins one and returns what ends it by `close(timeout)`.
    """

    def connect(self, transport: Transport) -> Any: ...


def is_transport(value: Any) -> bool:
    """Return whether a value is a transport. It is one connection: there cannot be another one by the same object."""
    return all(callable(getattr(value, name, None)) for name in ("start", "send", "exchange", "close"))
