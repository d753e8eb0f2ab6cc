"""Memory: a client and a server in one process, without threads of their own.

Each message is encoded and given as text to the other side's `receive`, in the thread of the sender. So nothing is
shared but bytes, and what works here works over a pipe.

Why no two threads can wait for each other: a sender holds the lock of the other side while that side's `receive` runs;
that one only routes, hence takes locks of its own room for a moment, never sends, and so never asks for the lock of a
side. Nobody asks for the lock of a side while holding one. The order has no circle.

Spec:      basic/transports#custom-transports
Upholds:   spec_notes/basic/transports.md, the rows on custom transports; spec_notes/basic/transports/index.md
Not here:  which of the two is the client (they are alike)
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from mcp_ref.errors import RequestTimeout, TransportClosed
from mcp_ref.kit.threads.deadline import Deadline, holding
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.transport import Lost, Receive, Transport

if TYPE_CHECKING:
    from mcp_ref.recording.record import Tap
    from mcp_ref.wire.transport import Connects


_MAX_KEPT = 1024  # messages that wait for a side to start


def pair(tap: Tap | None = None, other_tap: Tap | None = None) -> tuple[Transport, Transport]:
    """Return two transports, connected: what one sends, the other receives.

    Args:
        tap: is shown what the first sends and receives; `other_tap` what the second does.
    """
    one, other = _MemoryTransport(tap), _MemoryTransport(other_tap)
    one.other, other.other = other, one
    return one, other


class _MemoryTransport(Transport):
    """One side of a `pair`; see `Transport`."""

    name = "memory"
    other: _MemoryTransport

    def __init__(self, tap: Tap | None) -> None:
        self._tap = tap
        self._lock = threading.RLock()  # guards the fields below, the order of what arrives here, and that of its notes
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._kept: list[bytes] = []  # what came before the start
        self._closed = False

    def start(self, receive: Receive, lost: Lost) -> None:
        """Deliver what came before, then each message in its sender's thread."""
        with self._lock:
            if self._receive is not None:
                raise RuntimeError("a transport is started once")
            self._receive = receive
            for text in self._kept:
                self._arrive(receive, text)
            self._kept.clear()
            closed = self._closed
            self._lost = None if closed else lost
        if closed:
            lost(TransportClosed("closed before this side started"))

    def _arrive(self, receive: Receive, text: bytes) -> None:
        if self._tap is not None:
            self._tap.note("receive", text)
        receive(text)

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """Encode one message (or a batch), and deliver it to the other side.

        Blocks: while another thread's message is delivered, at most until the deadline.
        Threads: any, but none that is in `receive`. Raises: see `Transport`.
        """
        # MUST: a custom transport keeps the messages and the lifecycle as they are (basic/transports#custom-transports;
        # basic/transports/index#custom-transports)
        text, other = messages.encode(message), self.other
        with holding(other._lock, deadline, "sending: another message is being delivered"):
            if other._closed:
                raise TransportClosed("one of the two sides closed the connection")
            if len(other._kept) >= _MAX_KEPT:
                raise TransportClosed(f"{_MAX_KEPT} messages wait for the other side to start")
            if self._tap is not None:
                self._tap.note("send", message)
            if other._receive is not None:
                other._arrive(other._receive, text)
            else:
                other._kept.append(text)

    def close(self, deadline: Deadline) -> None:
        """End the connection for both sides; each is told by its `lost`, in this thread; see `Transport.close`.

        No thread has to end. What was kept for a side that never started is still delivered if it starts.

        Blocks: at most until the deadline, and as long as both `lost` take. Threads: any that is not in `receive`.
        """
        told: list[Lost] = []
        for side in (self, self.other):
            try:
                with holding(side._lock, deadline, "closing: a message is being delivered"):
                    side._closed = True
                    lost, side._lost = side._lost, None
            except RequestTimeout:
                side._closed, lost = True, side._lost  # it is closed all the same
            if lost is not None:
                told.append(lost)
        for lost in told:
            lost(TransportClosed("one of the two sides closed the connection"))


class InProcess:
    """The transport to a server in this process. Closing it ends the server's half of the conversation too.

    The server's half begins with ours: whoever made this transport holds it by then, and closes it whatever interrupts.
    """

    name = "memory"

    def __init__(self, server: Connects, tap: Tap | None) -> None:
        self._server = server
        self._ours, self._theirs = pair(tap=tap)
        self._session: Any = None
        self.send, self.exchange = self._ours.send, self._ours.exchange

    def start(self, receive: Receive, lost: Lost) -> None:
        """Connect the server; see `Transport.start`. Raises: LocalProtocolError: it serves in another process."""
        self._session = self._server.connect(self._theirs)
        self._ours.start(receive, lost)

    def close(self, deadline: Deadline) -> None:
        """Close our side, which the session notices, and then wait for its handlers."""
        self._ours.close(deadline)
        if self._session is not None:
            self._session.close(deadline.left() or 0)
