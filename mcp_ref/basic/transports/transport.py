"""What a transport is: it carries messages and knows nothing of methods.

Spec:      basic/transports
Upholds:   spec_notes/basic/transports.md, the rows on custom transports
Reads:     basic/deadline
Not here:  stdio, memory: the transports; which message may be sent when (basic/lifecycle)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

from mcp_ref.basic.deadline import Deadline
from mcp_ref.errors import McpError

__all__ = ["Inbox", "Receive", "Tap", "Transport"]

JsonObject = dict[str, Any]
Receive = Callable[[bytes], None]
"""Takes the text of one inbound message. It only routes: it neither blocks, nor writes, nor runs a user's code."""


class Tap(Protocol):
    """What a transport shows its traffic to: `trace.record.Recorder` has such a thing for each connection.

    `note` is called inside the transport's write lock, so that the order of notes is the order on the wire; it must only
    remember. `deliver` is called after the lock is released, and may run a user's code.
    """

    def note(self, direction: Literal["send", "receive", "stderr"], message: Any) -> None:
        """Remember a message (the dict or list that is sent, the bytes that came), or a line of a child's stderr."""
        ...

    def deliver(self) -> None:
        """Hand what was noted to whoever listens."""
        ...


class Inbox(Protocol):
    """Where the messages that belong to one outgoing request arrive."""

    def until(self, deadline: Deadline) -> Iterator[JsonObject]:
        """Each message as it comes, without end.

        Raises:
            RequestTimeout: the deadline passed first.
            McpError: whatever ended the request: `TransportClosed`, `RequestCancelled`.
        """
        ...


class Transport(Protocol):
    """One connection to one peer, in either role.

    Threads: `send` and `exchange` may be called by any thread, also at once; `close` by any thread, any number of times.
    """

    name: str
    """Such as "stdio"; for the trace and for messages."""

    def start(self, receive: Receive, lost: Callable[[McpError], None]) -> None:
        """Begin to deliver: `receive(text)` for each message, one at a time, in order; `lost(reason)` once, at the end.

        Starting a thread is the last thing that it does.
        """
        ...

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """Write one message (or a batch), whole.

        Blocks: until the peer's side has room for it, at most until the deadline.
        Raises: TransportClosed, RequestTimeout, LocalProtocolError (it is not JSON; nothing was written).
        """
        ...

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """Write a request, and give what arrives for it until its response (which the caller recognizes).

        Where replies come on the connection itself this is `send` and then `inbox.until(deadline)`; where each request
        has a reply of its own, as over HTTP, it reads that reply in the calling thread.
        """
        ...

    def close(self, deadline: Deadline) -> None:
        """End the connection and every thread of the transport; returns by the deadline, whatever the peer does."""
        ...
