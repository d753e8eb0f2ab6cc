"""The open sockets of a client, so that any thread can end what another one waits for.

Spec:      basic/transports#streamable-http
Upholds:   spec_notes/basic/transports.md, the rows on ending what waits
Reads:     basic/deadline
Not here:  connecting and reading (connections.py)

Every socket has a second handle, by which another thread shuts it down; the reader finds the end of it, and closes. A
handle is closed under the lock, hence never shuts down a socket that got the same number later. Which call uses which
socket changes under the lock too, so giving one call up never ends another one that got its connection meanwhile.
"""

from __future__ import annotations

import socket
import threading

from mcp_ref.basic.deadline import Deadline
from mcp_ref.errors import RequestTimeout

__all__ = ["Call", "GivenUp", "Line", "Sockets"]


class GivenUp(Exception):
    """The call was interrupted before it had a connection."""


class Call:
    """One HTTP request at a time, sent and read by one thread; others may interrupt it, also before it is sent.

    Attributes:
        deadline: bounds connecting, sending and each read.
        timed_out: what the deadline raised during a read, or None.
        fresh: whether a kept connection must not be used.
        sent: whether the latest request has been sent whole, so that the server may act on it.
        interrupted: set once somebody has given the call up.
    """

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self.timed_out: RequestTimeout | None = None
        self.fresh = self.sent = False
        self.interrupted = threading.Event()


class Line:
    """One open connection: the handle to shut it down by, and the call that uses it now."""

    def __init__(self, handle: socket.socket, call: Call) -> None:
        self.handle, self.call = handle, call
        self.used, self.open = True, True


class Sockets:
    """The open sockets of one client.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards: _lines and what is in them, each call's `interrupted` being set
        self._lines: set[Line] = set()
        self._current = threading.local()

    @property
    def call(self) -> Call:
        """The call of this thread."""
        call: Call = self._current.call
        return call

    def begin(self, call: Call) -> None:
        """From now on this thread's connections are used by that call."""
        self._current.call = call

    def connecting(self, sock: socket.socket) -> Line:
        """Keep a socket that is connecting."""
        with self._lock:
            if self.call.interrupted.is_set():
                raise GivenUp
            line = Line(sock.dup(), self.call)
            self._lines.add(line)
            return line

    def take(self, line: Line | None) -> None:
        """This thread's call uses the connection; the connection is still to be made when there is no line."""
        with self._lock:
            if self.call.interrupted.is_set():
                raise GivenUp
            if line is not None:
                line.call, line.used = self.call, True

    def leave(self, line: Line) -> None:
        """Nobody uses the connection any more; it is kept for the next call."""
        with self._lock:
            line.used = False
            self._drop_locked(line)

    def closed(self, line: Line) -> None:
        """The connection is closed for further requests; a reply that is still being read keeps its handle."""
        with self._lock:
            line.open = False
            self._drop_locked(line)

    def end(self, call: Call) -> None:
        """The call has no reply to read any more."""
        with self._lock:
            for line in [line for line in self._lines if line.call is call]:
                line.used = False
                self._drop_locked(line)

    def _drop_locked(self, line: Line) -> None:
        if not line.open and not line.used and line in self._lines:
            self._lines.remove(line)
            # A copy that a fork of this process holds would keep the connection open for the server.
            _shut_down(line.handle)
            line.handle.close()

    def interrupt(self, call: Call) -> None:
        """Give a call up: whatever it waits for on its socket ends, and it gets no other one."""
        with self._lock:
            call.interrupted.set()
            for line in self._lines:
                if line.call is call and line.used:
                    _shut_down(line.handle)

    def __len__(self) -> int:
        return len(self._lines)


def _shut_down(handle: socket.socket) -> None:
    try:
        handle.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other side was faster
