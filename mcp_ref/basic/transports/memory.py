"""Memory: a client and a server in one process, without threads of their own.

Spec:      basic/transports#custom-transports
Upholds:   spec_notes/basic/transports.md, the rows on custom transports; spec_notes/basic/transports/index.md
Not here:  which of the two is the client (they are alike)

Each message is encoded and given as text to the other side's `receive`, in the thread of the sender. So nothing is
shared but bytes, and what works here works over a pipe.

Why no two threads can wait for each other: a sender holds the lock of its direction while the other side's `receive`
runs; that one only routes, hence takes that side's own locks for a moment, never sends, and so never asks for the lock
of another direction. Nobody asks for the lock of a direction while holding a lock of a side. The order has no circle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from mcp_ref import messages
from mcp_ref.basic.transports.transport import Inbox, Receive, Tap, Transport
from mcp_ref.errors import McpError, TransportClosed
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.pipes import seconds
from mcp_ref.messages import JsonObject

_CLOSED = "one of the two sides closed the connection"


def pair(tap: Tap | None = None, other_tap: Tap | None = None, *, limit: int = 1024) -> tuple[Transport, Transport]:
    """Two transports, connected: what one sends, the other receives.

    Args:
        tap: is shown what the first sends and receives; `other_tap` what the second does.
        limit: messages kept for a side that has not started; `send` waits while there are as many.
    """
    there, back = _Lane(limit, tap, other_tap), _Lane(limit, other_tap, tap)
    link = _Link((there, back))
    return _MemoryTransport(link, there, back), _MemoryTransport(link, back, there)


class _Lane:
    """One direction: what one side sends and the other receives."""

    def __init__(self, limit: int, sender: Tap | None, receiver: Tap | None) -> None:
        self.lock = threading.Lock()  # guards: receive, waiting, closed; the order of deliveries and of notes
        self.receive: Receive | None = None
        self.waiting: list[bytes] = []
        self.closed = False
        self.changed = threading.Event()  # set once it has a receiver, or is closed
        self._limit = limit
        self._sender, self._receiver = sender, receiver

    def put_locked(self, message: Any, text: bytes) -> bool:
        """Deliver or keep a message; False when there is no room for it before the receiver starts."""
        assert self.lock.locked()
        if self.receive is None and len(self.waiting) >= self._limit:
            return False
        if self._sender is not None:
            self._sender.note("send", message)
        if self.receive is None:
            self.waiting.append(text)
        else:
            self._hand_on(self.receive, text)
        return True

    def _hand_on(self, receive: Receive, text: bytes) -> None:
        if self._receiver is not None:
            self._receiver.note("receive", text)
        receive(text)

    def open(self, receive: Receive) -> None:
        """Deliver what was kept, and from now on each message at once."""
        with self.lock:
            for text in self.waiting:
                self._hand_on(receive, text)
            self.waiting.clear()
            self.receive = receive
        self.changed.set()
        self.deliver_notes()

    def deliver_notes(self) -> None:
        """Have both sides' taps hand on what they noted; not under the lock, since that may take a while."""
        for tap in (self._sender, self._receiver):
            if tap is not None:
                tap.deliver()

    def close(self, deadline: Deadline) -> None:
        """Let nothing more in; returns after the delivery that is going on, or at the deadline."""
        locked = self.lock.acquire(timeout=seconds(deadline))
        self.closed = True
        if locked:
            self.lock.release()
        self.changed.set()


class _Link:
    """What both sides share: whether it is over, and who was told."""

    def __init__(self, lanes: tuple[_Lane, _Lane]) -> None:
        self._lanes = lanes
        self._lock = threading.Lock()  # guards: _over, _listeners
        self._over = False
        self._listeners: list[Callable[[McpError], None]] = []

    def join(self, lost: Callable[[McpError], None]) -> None:
        """Have `lost` called at the end; at once if that has come."""
        with self._lock:
            if not self._over:
                self._listeners.append(lost)
                return
        lost(TransportClosed("closed before this side started"))

    def end(self, deadline: Deadline) -> None:
        """Let nothing more through, then tell everybody who joined, once."""
        for lane in self._lanes:
            lane.close(deadline)
        with self._lock:
            self._over = True
            listeners, self._listeners = self._listeners, []
        for lost in listeners:
            lost(TransportClosed(_CLOSED))


class _MemoryTransport:
    """One side of a `pair`; see `Transport`."""

    name = "memory"

    def __init__(self, link: _Link, outward: _Lane, inward: _Lane) -> None:
        self._link = link
        self._outward, self._inward = outward, inward
        self._started = False

    def start(self, receive: Receive, lost: Callable[[McpError], None]) -> None:
        """Deliver what came before, then each message in its sender's thread.

        Raises:
            RuntimeError: it was started before.
        """
        if self._started:
            raise RuntimeError("a transport is started once")
        self._started = True
        self._inward.open(receive)
        self._link.join(lost)

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """Send a request, and give what arrives in its inbox; see `Transport.exchange`."""
        self.send(message, deadline)
        inbox.sent = True
        return inbox.until(deadline)

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """Encode one message (or a batch), and deliver it to the other side.

        Blocks: while another thread's message is delivered, or too many wait for the other side to start; at most until
            the deadline.
        Threads: any, but none that is in `receive`.
        Raises: TransportClosed, RequestTimeout, LocalProtocolError (it is not JSON; nothing was sent). What the other
            side's `receive` raises, which is a mistake in it, comes out here.
        """
        text = messages.encode(message)
        while not self._put(message, text, deadline):
            deadline.check("sending: the other side has not started")
            self._outward.changed.wait(deadline.left())
        self._outward.deliver_notes()

    def _put(self, message: Any, text: bytes, deadline: Deadline) -> bool:
        lane = self._outward
        while not lane.lock.acquire(timeout=seconds(deadline)):
            deadline.check("sending: another message is being delivered")
        try:
            if lane.closed:
                raise TransportClosed(_CLOSED)
            return lane.put_locked(message, text)
        finally:
            lane.lock.release()

    def close(self, deadline: Deadline) -> None:
        """End the connection for both sides; each is told by its `lost`, in this thread; see `Transport.close`.

        There is no thread to end. It waits for deliveries that are going on, which take a moment, since `receive` only
        routes. A message kept for a side that never started is still delivered if it starts, before its `lost`.

        Blocks: at most until the deadline, and as long as both `lost` take.
        Threads: any that is not in `receive`.
        """
        self._link.end(deadline)
