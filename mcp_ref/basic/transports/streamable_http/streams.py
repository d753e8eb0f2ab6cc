"""Streams: the event streams of one session, what was sent on them, and who reads them now.

Spec:      basic/transports#resumability-and-redelivery, #multiple-connections
Upholds:   spec_notes/basic/transports.md, the rows on resuming
Not here:  which message goes on which stream (exchange.py), the rules of the requests that open one (endpoint.py)

A *stream* outlives the connections that carry it: it has an id, and events numbered from 1. Its events are kept in an
`EventStore`, and a client that lost the connection asks for those after the last one it has seen. A connection is
attached to a stream, or none is; what is written while none is attached waits in the store.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from mcp_ref.basic.transports.sse import COMMENT, CONTENT_TYPE, encode_event
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.http_server import HttpReply

log = logging.getLogger(__name__)

PATIENCE = 1.0
"""Seconds that a stream's end, or its next connection, waits for a write to a client that does not read."""

LOOK = 1.0
"""Seconds after which a held connection is looked at: has its client hung up?"""


class EventStore(Protocol):
    """Keeps the events of one session, so that a client can ask for them again.

    Threads: any; a store has a lock of its own.
    """

    def append(self, stream: str, number: int, data: str) -> None:
        """Keep an event. It may be forgotten later, the oldest first."""
        ...

    def after(self, stream: str, number: int) -> list[tuple[int, str]] | None:
        """The events of a stream after the one numbered so, in order; None when some of them are forgotten.

        Asked only where there were some.
        """
        ...


class MemoryEventStore:
    """An `EventStore` in memory, bounded.

    Args:
        events: how many events are kept, of all streams together.
        size: how many characters they may have, all together.
    """

    def __init__(self, events: int = 10_000, size: int = 16_000_000) -> None:
        self._most, self._largest = events, size
        self._lock = threading.Lock()  # guards the two fields below
        self._events: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._size = 0

    def append(self, stream: str, number: int, data: str) -> None:
        """See `EventStore`."""
        with self._lock:
            self._events[(stream, number)] = data
            self._size += len(data)
            while self._events and (len(self._events) > self._most or self._size > self._largest):
                self._size -= len(self._events.popitem(last=False)[1])

    def after(self, stream: str, number: int) -> list[tuple[int, str]] | None:
        """See `EventStore`."""
        with self._lock:
            # The oldest are forgotten first: where the next one is kept, so are those that follow it.
            if (stream, number + 1) not in self._events:
                return None
            return [(n, text) for (name, n), text in self._events.items() if name == stream and n > number]


class Stream:
    """One event stream of a session, in the course of several connections.

    Args:
        name: its id, unique in the session; the event ids are `NAME-NUMBER`.
        store: where its events are kept; None where the revision cannot resume: then events have no ids.
        standing: whether it carries what belongs to no request.

    Threads: any.
    """

    def __init__(self, name: str, store: EventStore | None, *, standing: bool = False) -> None:
        self.name, self.standing = name, standing
        self._store = store
        # Guards what follows, and is held for the writes, so that events keep their order.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._number = 0
        self._reply: HttpReply | None = None
        self._ended = False

    @property
    def attached(self) -> bool:
        """Whether a connection carries it now."""
        return self._reply is not None

    def attach(self, reply: HttpReply, after: int | None = None, *, prime: bool = False, first: bytes = b"") -> bool:
        """Let a connection carry the stream from now on; one that did before is ended.

        Args:
            after: the number of the last event that the client has; what came later is sent first. None: all is new.
            prime: begin with an event that has an id and no data, for the client to resume after.
            first: an event of the connection, not of the stream, to begin with.

        Returns: False when the events after that one are forgotten; nothing is attached then. A client that is gone
            already is attached to nothing, and may come back.
        """
        with self._without_waiting(PATIENCE):
            missed = self._missed_locked(after)
            if missed is None:
                return False
            former, self._reply = self._reply, reply
            if former is not None:
                former.end(PATIENCE)
            try:
                self._begin_locked(reply, missed, prime, first)
            except OSError as problem:
                # SHOULD NOT: take this for a cancellation (basic/transports#sending-messages-to-the-server)
                log.debug("the client of stream %s has hung up already: %s", self.name, problem)
                self._reply = None
            self._changed.notify_all()
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

    def _missed_locked(self, after: int | None) -> list[tuple[int, str]] | None:
        """The events after that one; None when they are not all kept, or it never was."""
        if after is None or self._store is None or after == self._number:
            return []
        return self._store.after(self.name, after) if after < self._number else None

    def _begin_locked(self, reply: HttpReply, missed: list[tuple[int, str]], prime: bool, first: bytes) -> None:
        reply.open(STREAM_HEADERS)
        if first:
            reply.write(first)
        if prime:
            self._number += 1
            if self._store is not None:
                self._store.append(self.name, self._number, "")
            reply.write(encode_event("", id=self._id(self._number)))
        for number, data in missed:
            reply.write(encode_event(data, id=self._id(number)))
        if self._ended:
            self._reply = None
            reply.end()

    def _id(self, number: int) -> str | None:
        return None if self._store is None else f"{self.name}-{number}"

    def write(self, text: bytes, *, last: bool = False) -> bool:
        """Send a message as an event, or keep it for the client to come back for.

        Args:
            text: the message, encoded.
            last: end the stream after it.

        Returns: whether it is on its way or kept; False when there is neither a connection nor a store.
        """
        data = text.decode("utf-8")
        with self._lock:
            self._number += 1
            if self._store is not None:
                self._store.append(self.name, self._number, data)
            sent = self._put_locked(encode_event(data, id=self._id(self._number)))
            if last:
                self._end_locked()
            return sent or self._store is not None

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
        self._changed.notify_all()

    def _end_locked(self, patience: float | None = None) -> None:
        self._ended = True
        if self._reply is not None:
            self._reply.end(patience)
        self._detach_locked()

    def end(self, patience: float = PATIENCE, *, hang_up: bool = False) -> None:
        """End it: no more messages, and what a connection carries of it ends too.

        Args:
            patience: seconds that a client which does not read has to let go.
            hang_up: close that connection instead, so that nobody uses it again.
        """
        with self._without_waiting(patience):
            if self._ended:
                return
            if hang_up and self._reply is not None:
                # Not ended first: the client would take the connection for free, and lose what it sends over it next.
                self._reply.abort()
                self._reply = None
            self._end_locked(patience)

    def release(self, retry: int | None) -> None:
        """Close the connection, not the stream: the client comes back after `retry` milliseconds.

        Spec: basic/transports#sending-messages-to-the-server (2025-11-25)
        """
        with self._lock:
            if self._reply is None:
                return
            if retry is not None:
                # SHOULD: say when to come back before closing
                self._put_locked(encode_event(None, retry=retry, id=self._id(self._number) if self._number else None))
            if self._reply is not None:
                self._reply.hang_up()
                self._detach_locked()

    def hold(self, reply: HttpReply, interval: float, gone: Any) -> None:
        """Keep a connection's thread here while the connection carries the stream; a comment every `interval` seconds.

        Blocks: until the stream ends, another connection takes it over, or the client is gone, which is looked for
            once a second: a socket on which nobody reads or writes tells nobody.
        """
        quiet = Deadline(interval)
        while True:
            with self._lock:
                if self._reply is reply:
                    self._changed.wait(min(interval, LOOK))
                if self._reply is not reply:
                    return
                due = quiet.left() == 0
                if gone() or (due and not self._put_locked(COMMENT)):
                    self._detach_locked()
                    return
            quiet = Deadline(interval) if due else quiet


STREAM_HEADERS = {
    "Content-Type": CONTENT_TYPE,
    "Cache-Control": "no-cache, no-transform",
}


def numbers_of(event_id: str) -> tuple[str, int] | None:
    """The stream and the number that an event id of ours names, or None."""
    name, _, number = event_id.rpartition("-")
    return (name, int(number)) if name and number.isascii() and number.isdigit() and len(number) < 18 else None


def numbering(prefix: str) -> Iterator[str]:
    """Names for streams: PREFIX1, PREFIX2, ..."""
    count = 0
    while True:
        count += 1
        yield f"{prefix}{count}"
