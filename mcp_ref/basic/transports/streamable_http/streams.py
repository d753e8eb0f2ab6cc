"""Event streams of Streamable HTTP: what is sent on one, and how a client resumes one that broke off.

Spec:      basic/transports#resumability-and-redelivery, #multiple-connections
Upholds:   spec_notes/basic/transports.md, the rows on resuming
Not here:  which message goes on which stream, and the rules of the requests that open one (server.py)

A *stream* outlives the connections that carry it: it has an id, and events numbered from 1. Its events are kept in an
`EventStore`, and a client that lost the connection asks for those after the last one that it saw (`Last-Event-ID`).
One connection carries a stream, or none; what is written while none does waits in the store. The stateless era has no
store: a stream is its connection, and ends with it.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from mcp_ref.basic.transports.sse import COMMENT, CONTENT_TYPE, encode_event
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.http_exchange import HttpReply

log = logging.getLogger(__name__)

UNREAD_TIMEOUT = 1.0
"""Seconds that a stream's end, or its next connection, waits for a write to a client that does not read."""

LOOK_INTERVAL = 1.0
"""Seconds after which a quiet connection is looked at: has its client hung up?"""

EVENT_COST = 350
"""Bytes of memory that an event takes in a `MemoryEventStore` beside its text."""

STREAM_HEADERS = {
    "Content-Type": CONTENT_TYPE,
    "Cache-Control": "no-cache, no-transform",
    # SHOULD: send `X-Accel-Buffering: no`, so that proxies do not hold events back
    # (basic/transports/streamable-http#receiving-messages)
    "X-Accel-Buffering": "no",
}


class EventStore(Protocol):
    """Keeps the events of a server's sessions, so that clients can ask for them again. A program may bring its own.

    `stream` is unique in the store, and its events come with numbers from 1, without gaps.

    Threads: any; a store has a lock of its own.
    """

    def append(self, stream: str, number: int, data: str) -> None:
        """Keep an event. It may be forgotten later, the oldest first."""
        ...

    def after(self, stream: str, number: int) -> list[tuple[int, str]] | None:
        """The events of a stream after the one of that number, in order; None if some of them are forgotten.

        Asked only if there were some.
        """
        ...

    def forget(self, stream: str) -> None:
        """Nobody will ask for the events of a stream any more: its answer was delivered, or its session is over."""
        ...


class MemoryEventStore:
    """An `EventStore` in memory, bounded.

    Args:
        size: bytes of memory that the events of all streams may take together; the oldest go first.
    """

    def __init__(self, size: int = 64 << 20) -> None:
        self._largest = size
        self._lock = threading.Lock()  # guards the three fields below
        self._events: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._last: dict[str, int] = {}  # the number of the last event of each stream that has some
        self._size = 0

    def append(self, stream: str, number: int, data: str) -> None:
        """See `EventStore`."""
        with self._lock:
            self._events[(stream, number)] = data
            self._last[stream] = number
            self._size += sys.getsizeof(data) + EVENT_COST
            while self._size > self._largest:
                (oldest, n), text = self._events.popitem(last=False)
                self._size -= sys.getsizeof(text) + EVENT_COST
                if n == self._last[oldest]:
                    del self._last[oldest]

    def after(self, stream: str, number: int) -> list[tuple[int, str]] | None:
        """See `EventStore`."""
        with self._lock:
            # The oldest are forgotten first: if the next one is kept, so are those that follow it.
            if (stream, number + 1) not in self._events:
                return None
            return [(n, self._events[(stream, n)]) for n in range(number + 1, self._last[stream] + 1)]

    def forget(self, stream: str) -> None:
        """See `EventStore`."""
        with self._lock:
            number = self._last.pop(stream, 0)
            while (text := self._events.pop((stream, number), None)) is not None:
                self._size -= sys.getsizeof(text) + EVENT_COST
                number -= 1


class EventStream:
    """One event stream, in the course of several connections.

    Args:
        name: its id, unique in the session.
        store: where its events are kept; None if it cannot be resumed: then events have no ids.
        standing: whether it carries what belongs to no request.
        within: makes the name unique in the store.

    Attributes:
        kept_as: its name in the store.
        ended_on: the connection that carried it to its end, or None; who asks for it takes it away.

    Threads: any.
    """

    def __init__(self, name: str, store: EventStore | None, *, standing: bool = False, within: str = "") -> None:
        self.name, self.standing = name, standing
        self._store, self.kept_as = store, within + name
        # Guards what follows, and is held for the writes, so that events keep their order.
        self._lock = threading.Lock()
        self._number = 0
        self._reply: HttpReply | None = None
        self._wake_holder: Callable[[], None] = lambda: None
        self._ended = False
        self.ended_on: HttpReply | None = None

    @property
    def attached(self) -> bool:
        """Whether a connection carries it now."""
        return self._reply is not None

    def carried_by(self, reply: HttpReply) -> bool:
        """Whether that is the connection which carries it now."""
        return self._reply is reply

    @property
    def resumable(self) -> bool:
        """Whether its events are kept, for a client to come back for them."""
        return self._store is not None

    def attach(self, reply: HttpReply, after: int | None = None, *, prime: bool = False, first: bytes = b"") -> bool:
        """Let a connection carry the stream from now on; one that did before is ended.

        Args:
            after: the number of the last event that the client has; what came later is sent first. None: all is new.
            prime: begin with an event that has an id and no data, for the client to resume after.
            first: an event of the connection, not of the stream, to begin with.

        Returns: False if the events after that one are forgotten; nothing is attached then. A client that is already
            gone is attached to nothing, and may come back.
        """
        with self._without_waiting(UNREAD_TIMEOUT):
            missed: list[tuple[int, str]] | None = []
            if after is not None and after != self._number:
                # MAY: replay what would have been sent after `Last-Event-ID`, on that stream
                # (basic/transports#resumability-and-redelivery)
                store, known = self._store, after < self._number
                missed = store.after(self.kept_as, after) if store is not None and known else None
            if missed is None:
                return False
            former = self._reply
            self._detach_locked()
            if former is not None:
                former.end(UNREAD_TIMEOUT)
            self._reply = reply
            try:
                reply.open(STREAM_HEADERS)
                if first:
                    reply.write(first)
                if prime:
                    # SHOULD: begin with an event that has an id and an empty `data` field
                    # (basic/transports#sending-messages-to-the-server)
                    self._write_locked("")
                for number, data in missed:
                    reply.write(encode_event(data, id=self._id(number)))
                if self._ended:
                    self._end_locked()
            except OSError as problem:
                # SHOULD NOT: take a disconnection for a cancellation (basic/transports#sending-messages-to-the-server)
                log.debug("the client of stream %s has hung up already: %s", self.name, problem)
                self._detach_locked()
            return True

    @contextmanager
    def _without_waiting(self, patience: float) -> Iterator[None]:
        """Hold the lock; a connection whose write keeps it from us for too long is given up."""
        if not self._lock.acquire(timeout=patience):
            reply = self._reply
            if reply is not None:
                reply.abort()
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    def _id(self, number: int) -> str | None:
        # MUST: event ids unique within the session; they name the stream (basic/transports#resumability-and-redelivery)
        return None if self._store is None else f"{self.name}-{number}"

    def write(self, text: bytes, *, last: bool = False) -> bool:
        """Send a message as an event, or keep it for the client to come back for.

        Args:
            text: the message, encoded.
            last: end the stream after it.

        Returns: whether it is on its way or kept; False if there is neither a connection nor a store.
        Blocks: until the client has read enough, for as long as its connection allows.
        """
        with self._lock:
            sent = self._write_locked(text.decode("utf-8"))
            if last:
                self._end_locked()
            return sent or self._store is not None

    def _write_locked(self, data: str) -> bool:
        self._number += 1
        if self._store is not None and not self._ended:
            self._store.append(self.kept_as, self._number, data)
        return self._put_locked(encode_event(data, id=self._id(self._number)))

    def _put_locked(self, data: bytes) -> bool:
        if self._reply is None:
            return False
        try:
            self._reply.write(data)
        except OSError as problem:
            log.debug("the connection of stream %s is gone: %s", self.name, problem)
            self._detach_locked()
            return False
        return True

    def _detach_locked(self) -> None:
        self._reply = None
        self._wake_holder()

    def _end_locked(self, patience: float | None = None) -> None:
        self._ended = True
        if self._reply is not None:
            self.ended_on = self._reply
            self._reply.end(patience)
        self._detach_locked()

    def end(self, patience: float = UNREAD_TIMEOUT, *, hang_up: bool = False) -> None:
        """End it: it takes no further messages, and what a connection carries of it ends too.

        Args:
            patience: seconds that a client which does not read has to let go.
            hang_up: close that connection instead, so that nobody uses it again.
        """
        with self._without_waiting(patience):
            if self._ended:
                return
            if hang_up and self._reply is not None:
                # Not ended first: the client would think the connection free and lose what it sends over it next.
                self._reply.abort()
                self._reply = None
            self._end_locked(patience)

    def release(self, retry: int | None) -> None:
        """Close the connection, not the stream: the client comes back after `retry` milliseconds.

        Spec: basic/transports#sending-messages-to-the-server (2025-11-25)
        """
        with self._lock:
            if self._reply is not None and retry is not None:
                # SHOULD: send an event with `retry` before closing (basic/transports#sending-messages-to-the-server)
                self._put_locked(encode_event(None, retry=retry, id=self._id(self._number) if self._number else None))
            if self._reply is not None:
                self._reply.hang_up()
                self._detach_locked()

    def wake(self) -> None:
        """Tell the thread that holds the connection to write what waits. Never blocks."""
        self._wake_holder()

    def hold(
        self,
        reply: HttpReply,
        interval: float,
        gone: Callable[[], bool],
        write_waiting: Callable[[], object],
        until: Callable[[], float] | None = None,
    ) -> None:
        """Keep a connection's thread here while the connection carries the stream.

        Args:
            interval: seconds between the comments on a quiet stream.
            gone: whether the client has hung up; asked once a second, for a socket on which nobody reads or writes
                tells nobody.
            write_waiting: writes what waits for this thread; called now, and after each `wake`.
            until: gives when the connection is closed, in seconds since the epoch; the stream may go on. None: never.

        Blocks: until the stream ends, another connection takes it over, or the client is gone.
        """
        woken = threading.Event()
        with self._lock:
            if self._reply is not reply:
                return
            self._wake_holder = woken.set
        quiet = Deadline(interval)
        while True:
            # Cleared first: what comes to wait after the look wakes again.
            woken.clear()
            left = LOOK_INTERVAL if until is None else until() - time.time()
            if left <= 0:
                self.release(None)
                return
            write_waiting()
            hung_up = gone()
            with self._lock:
                if self._reply is not reply:
                    return
                # A comment now and then, so that nobody between the two ends closes the connection.
                if hung_up or (not quiet.left() and not self._put_locked(COMMENT)):
                    self._detach_locked()
                    return
            if not quiet.left():
                quiet = Deadline(interval)
            woken.wait(min(LOOK_INTERVAL, left, quiet.left() or 0.0))


def numbers_of(event_id: str) -> tuple[str, int] | None:
    """The stream and the number that an event id of ours names, or None."""
    name, _, number = event_id.rpartition("-")
    return (name, int(number)) if name and number.isascii() and number.isdigit() and len(number) < 18 else None
