"""The way back over Streamable HTTP: the answer to a POST, event streams and how they are resumed, in both eras.

Spec:      basic/transports#sending-messages-to-the-server, #resumability-and-redelivery, #multiple-connections;
           2026-07-28/basic/transports/streamable-http#receiving-messages
Upholds:   spec_notes/basic/transports.md, the rows on answers, on resuming and on several connections
Not here:  the rules of the requests that are answered, and who may use a session (server.py)

The answer to a POST is JSON if the response comes first; an event stream once something goes before it.

A *stream* outlives the connections that carry it: it has an id, and events numbered from 1. Its events are kept in an
`EventStore`, and a client that lost the connection asks for those after the last one that it saw (`Last-Event-ID`).
One connection carries a stream, or none; what is written while none does waits in the store. The stateless era has no
store: a stream is its connection, and ends with it.

In the session era what belongs to no request goes on a *standing* stream, that of a GET, and waits until one is open.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.errors import LocalProtocolError, TransportClosed
from mcp_ref.kit.http.http_exchange import HttpRefusal, HttpReply
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports.sse import COMMENT, CONTENT_TYPE, encode_event
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.served import Reply
from mcp_ref.wire.transport import Lost, Receive, Transport

if TYPE_CHECKING:
    from mcp_ref.recording.record import Tap
    from mcp_ref.server.session import Session

log = logging.getLogger(__name__)

UNREAD_TIMEOUT = 1.0
"""Seconds that a stream's end, or its next connection, waits for a write to a client that does not read."""

LOOK_INTERVAL = 1.0
"""Seconds after which a quiet connection is looked at: has its client hung up?"""

EVENT_COST = 350
"""Bytes of memory that an event takes in a `MemoryEventStore` beside its text."""

JSON = {"Content-Type": "application/json"}
STREAM_HEADERS = {
    "Content-Type": CONTENT_TYPE,
    "Cache-Control": "no-cache, no-transform",
    # SHOULD: send `X-Accel-Buffering: no`, so that proxies do not hold events back
    # (basic/transports/streamable-http#receiving-messages)
    "X-Accel-Buffering": "no",
}


RESUME_TIMEOUT = 30.0
"""Seconds after which nobody is expected to come back for a stream that broke off, where that matters."""

MAX_WAITING = 1_000
"""Messages that wait for a client to open a stream, or to read; one more is refused."""

MAX_STREAMS = 100
"""Streams of one session that can be resumed; the oldest that no connection carries is forgotten first."""


Authorize = Callable[[Any, Any, Collection[str]], None]


# -- what is kept of the events ------------------------------------------------------------------------------------


class EventStore(Protocol):
    """Keeps the events of a server's sessions, so that clients can ask for them again. A program may bring its own.

    `stream` is unique in the store, and its events come with numbers from 1, without gaps.

    Threads: any; a store has a lock of its own.
    """

    def append(self, stream: str, number: int, data: str) -> None:
        """Keep an event. It may be forgotten later, the oldest first."""
        ...

    def after(self, stream: str, number: int) -> list[tuple[int, str]] | None:
        """Return the events of a stream after the one of that number, in order; None if some of them are forgotten.

        Asked only if there were some.
        """
        ...

    def forget(self, stream: str) -> None:
        """Forget the events of a stream: later ones have taken its place, or its session is over."""
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


# -- one stream ----------------------------------------------------------------------------------------------------


class EventStream:
    """One event stream, in the course of several connections.

    Args:
        name: its id, unique in the session.
        store: where its events are kept; None if it cannot be resumed: then events have no ids.
        within: makes the name unique in the store.

    Attributes:
        reply: the connection that carries it now, or None.
        wake: tells the thread that holds the connection to write what waits. Never blocks.
        store, kept_as: where its events are kept, if anywhere, and its name there.

    Threads: any.
    """

    def __init__(self, name: str, store: EventStore | None, *, within: str = "") -> None:
        self.name, self.store, self.kept_as = name, store, within + name
        # Guards what follows, and is held for the writes, so that events keep their order.
        self._lock = threading.RLock()
        self._number = 0
        self.reply: HttpReply | None = None
        self.wake: Callable[[], None] = lambda: None
        self._ended = False

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
                store, known = self.store, after < self._number
                missed = store.after(self.kept_as, after) if store is not None and known else None
            if missed is None:
                return False
            former = self.reply
            self._detach_locked()
            if former is not None:
                former.end(UNREAD_TIMEOUT)
            self.reply = reply
            try:
                reply.open(STREAM_HEADERS)
                if first:
                    reply.write(first)
                if prime:
                    # SHOULD: begin with an event that has an id and an empty `data` field
                    # (basic/transports#sending-messages-to-the-server)
                    self.write(b"")
                for number, data in missed:
                    reply.write(encode_event(data, id=self._id(number)))
                if self._ended:
                    self._end_locked()
            except OSError as problem:
                # A server SHOULD NOT take a disconnection for a cancellation
                # (basic/transports#sending-messages-to-the-server)
                log.debug("the client of stream %s has hung up already: %s", self.name, problem)
                self._detach_locked()
            return True

    @contextmanager
    def _without_waiting(self, patience: float) -> Iterator[None]:
        """Hold the lock; a connection whose write keeps it from us for too long is given up, which ends the write."""
        while not self._lock.acquire(timeout=patience):
            if (reply := self.reply) is not None:
                reply.abort()
            # No time at all would keep this thread busy until the write has ended.
            patience = UNREAD_TIMEOUT
        try:
            yield
        finally:
            self._lock.release()

    def _id(self, number: int) -> str | None:
        # MUST: event ids unique within the session; they name the stream (basic/transports#resumability-and-redelivery)
        return None if self.store is None else f"{self.name}-{number}"

    def write(self, text: bytes, *, last: bool = False) -> bool:
        """Send a message as an event, or keep it for the client to come back for.

        Args:
            text: the message, encoded.
            last: end the stream after it.

        Returns: whether it is on its way or kept; False if there is neither a connection nor a store.
        Blocks: until the client has read enough, for as long as its connection allows.
        """
        data = text.decode("utf-8")
        with self._lock:
            self._number += 1
            if self.store is not None and not self._ended:
                self.store.append(self.kept_as, self._number, data)
            sent = self._put_locked(encode_event(data, id=self._id(self._number)))
            if last:
                self._end_locked()
            return sent or self.store is not None

    def _put_locked(self, data: bytes) -> bool:
        if self.reply is None:
            return False
        try:
            self.reply.write(data)
        except OSError as problem:
            log.debug("the connection of stream %s is gone: %s", self.name, problem)
            self._detach_locked()
            return False
        return True

    def _detach_locked(self) -> None:
        self.reply = None
        self.wake()

    def _end_locked(self, patience: float | None = None) -> None:
        self._ended = True
        if self.reply is not None:
            self.reply.end(patience)
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
            if hang_up and self.reply is not None:
                # Not ended first: the client would think the connection free and lose what it sends over it next.
                self.reply.abort()
                self.reply = None
            self._end_locked(patience)

    def release(self, retry: int) -> None:
        """Close the connection, not the stream: the client comes back after `retry` milliseconds.

        Spec: basic/transports#sending-messages-to-the-server (2025-11-25)
        """
        with self._lock:
            # SHOULD: send an event with `retry` before closing (basic/transports#sending-messages-to-the-server)
            self._put_locked(encode_event(None, retry=retry, id=self._id(self._number) if self._number else None))
            if self.reply is not None:
                self.reply.hang_up()
                self._detach_locked()

    def hold(
        self,
        reply: HttpReply,
        interval: float,
        gone: Callable[[], bool],
        write_waiting: Callable[[], bool | None],
        until: Callable[[], float] | None,
    ) -> bool:
        """Keep a connection's thread here while the connection carries the stream.

        Args:
            interval: seconds between the comments on a quiet stream.
            gone: whether the client has hung up; asked once a second, for a socket on which nobody reads or writes
                tells nobody.
            write_waiting: writes what waits for this thread; called now, and after each `wake`. True: that was all.
            until: gives when the connection is closed, in seconds since the epoch; the stream may go on. None: never.

        Returns: True if all is written and the stream can be ended.
        Blocks: until then, or until the stream ends, another connection takes it over, or the client is gone.
        """
        woken = threading.Event()
        with self._lock:
            if self.reply is not reply:
                return False
            self.wake = woken.set
        quiet = Deadline(interval)
        while True:
            # Cleared first: what comes to wait after the look wakes again.
            woken.clear()
            left = LOOK_INTERVAL if until is None else until() - time.time()
            if left > 0 and write_waiting():
                return True
            over = left <= 0 or gone()
            with self._lock:
                # Looked at first: a connection that has taken the stream over may have longer.
                if self.reply is not reply:
                    return False
                if left <= 0:
                    reply.hang_up()
                # A comment now and then, so that nobody between the two ends closes the connection.
                if over or (not quiet.left() and not self._put_locked(COMMENT)):
                    self._detach_locked()
                    return False
            if not quiet.left():
                quiet = Deadline(interval)
            woken.wait(min(LOOK_INTERVAL, left, quiet.left() or 0.0))


def numbers_of(event_id: str) -> tuple[str, int] | None:
    """Return the stream and the number that an event id of ours names, or None."""
    name, _, number = event_id.rpartition("-")
    return (name, int(number)) if name and number.isascii() and number.isdigit() and len(number) < 18 else None


# -- the answer to a POST ------------------------------------------------------------------------------------------


class HttpReplyBase(Reply):
    """A reply over HTTP, where anybody may ask.

    Attributes:
        authorize: refuses a request whose principal lacks scopes; None: scopes are not looked at.
    """

    private = False
    authorize: Authorize | None = None
    _refused: HttpRefusal | None = None

    def require_scopes(self, message: JsonObject, scopes: Collection[str]) -> None:
        """Refuse a request of that method and params unless the principal's token has these scopes too."""
        if self.authorize is None:
            raise LocalProtocolError("nobody has scopes here: serve with authorization=")
        try:
            self.authorize(self.principal, message, scopes)
        except HttpRefusal as refusal:
            self._refused = refusal
            raise


class PostReply(HttpReplyBase):
    """The answer to one POST: JSON if the answer comes first, an event stream once something goes before it.

    Args:
        new_stream: makes the stream, once one is needed.
        prime: whether that begins with an event that only has an id (2025-11-25).
        headers: asked for more headers of an answer that is JSON, such as the session id.
        gone: whether the client has hung up.

    Attributes:
        status: of an answer that is JSON.
        done: whether nothing more will be sent.
        stream: the event stream, or None.

    Threads: any; the handler's own, and those in which it reports progress.
    """

    def __init__(
        self,
        reply: HttpReply,
        new_stream: Callable[[], EventStream],
        prime: bool = False,
        headers: Callable[[], Mapping[str, str]] = dict,
        gone: Callable[[], bool] = bool,
    ) -> None:
        self._reply, self._new_stream = reply, new_stream
        self._prime, self._headers, self._gone = prime, headers, gone
        self._left: Deadline | None = None  # since the client has hung up: when it is not expected back any more
        self.status = 200
        self._lock = threading.RLock()  # guards the two fields below, and is held for the write that belongs to them
        self.stream: EventStream | None = None
        self.done = False

    def send(self, message: Any, deadline: Deadline) -> None:
        """Send a message that belongs to the request: the answer, or something before it.

        Raises: TransportClosed: the client is gone, and cannot come back for it. LocalProtocolError: it is not JSON;
            nothing of it was sent.
        """
        answer = isinstance(message, list) or "method" not in message
        with self._lock:
            if self.done:
                return
            # MUST: answer a request with `application/json` or `text/event-stream`
            # (basic/transports#sending-messages-to-the-server)
            if answer and self.stream is None:
                body = messages.encode(message)
                self.done = True
                status, headers = self.status, {**JSON, **self._headers()}
                refused = self._refused
                if refused is not None and isinstance(message, dict) and message.get("error", {}).get("code") == 403:
                    # SHOULD: 403 with a challenge for a token without the scopes that the operation needs
                    # (basic/authorization#runtime-insufficient-scope-errors)
                    status, headers = refused.status, {**headers, **refused.headers}
                try:
                    self._reply.send(status, headers, body)
                except OSError as problem:
                    raise TransportClosed(f"the client has hung up: {problem}") from None
            else:
                # Encoded before anything is written: what is not JSON can still be answered with an error.
                texts = [messages.encode(each) for each in (message if isinstance(message, list) else [message])]
                stream, self.done = self.open(), answer
                # SHOULD: the stream of a POST ends with the response
                # (basic/transports/streamable-http#receiving-messages)
                sent = (stream.write(text, last=answer and n == len(texts)) for n, text in enumerate(texts, 1))
                if not all(sent):
                    raise TransportClosed("the client has hung up, and cannot resume the stream")

    def open(self) -> EventStream:
        """Begin the event stream, unless that was done."""
        with self._lock:
            if self.stream is None:
                self.stream = self._new_stream()
                self.stream.attach(self._reply, prime=self._prime)
            return self.stream

    def abandoned(self) -> bool:
        """See `ServedRequest`. A client that can resume the stream has `RESUME_TIMEOUT` to."""
        stream = self.stream
        if not (self._gone() if stream is None or stream.reply is self._reply else stream.reply is None):
            self._left = None
            return False
        if stream is None or stream.store is None:
            return True
        self._left = self._left or Deadline(RESUME_TIMEOUT)
        return self._left.left() == 0.0

    def skip(self) -> None:
        """End the answer without one: the request was cancelled. The POST ends although its handler may go on.

        The connection ends with it: its thread may be that handler's, and no other request should wait for it. The
        client can tell, and sends nothing more over it: the head says so, or the reply breaks off.
        """
        with self._lock:
            if self.done:
                return
            self.done = True
            if self.stream is not None:
                self.stream.end(hang_up=True)
                return
            try:
                self._reply.open({**STREAM_HEADERS, "Connection": "close"})
                self._reply.hang_up()
            except OSError as problem:
                log.debug("the client of a cancelled request has hung up: %s", problem)

    def release(self, retry: int) -> None:
        """Close the connection but not the stream; the client comes back for the rest after `retry` milliseconds."""
        with self._lock:
            if not self.done:
                # MAY: close the connection once an event with an id was sent
                # (basic/transports#sending-messages-to-the-server)
                self.open().release(retry)


# -- the streams of a session --------------------------------------------------------------------------------------


class HttpSession(Transport, Reply):
    """One session: who may use it, and its event streams. It is the `Transport` of the conversation.

    Args:
        principal: who opens it, as the authentication said; nobody else can use it.
        client: the address that opens it, for limits. prefix: see `EndpointOptions.session_prefix`.

    Attributes:
        id: visible ASCII, from a cryptographic source.
        conversation: set once it is connected, before anything else is done with the session.
        store: where events are kept, once the revision is agreed; None if it cannot resume.
        weight: bytes that are taken for what its client said of itself.
        used, busy, ended: of its table: when it was used last, by how many it is used now, whether it was ended.

    Threads: any. What belongs to no request is written by the thread that holds a standing stream, so that nobody else
        waits for the client.
    """

    name = "http"
    private = False
    conversation: Session

    def __init__(self, tap: Tap | None, principal: Any = None, client: str = "", prefix: str = "") -> None:
        # SHOULD: a session id is unique and cryptographically secure; MUST: it is visible ASCII
        # (basic/transports#session-management)
        self.id = prefix + secrets.token_urlsafe(32)
        self.tap, self.principal, self.client, self.weight = tap, principal, client, 0
        self.used, self.busy, self.ended = 0.0, 0, False
        self.store: EventStore | None = None
        self._lost: Lost = lambda reason: None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # guards the five fields below
        self._streams: dict[str, EventStream] = {}
        self._standing: list[EventStream] = []
        # A list: it is short, and there is one in each session.
        self._waiting: list[Callable[[], None]] = []
        self._writer: threading.Thread | None = None
        self._closed = False

    # -- Transport

    def start(self, receive: Receive, lost: Lost) -> None:
        """Remember whom to tell of the end. Messages come from the endpoint, not from here."""
        self._lost = lost

    def send(self, message: Any, deadline: Deadline) -> None:
        """Queue a message that belongs to no request of the client; never blocks.

        Raises: TransportClosed: the session is over, or too much is waiting. LocalProtocolError: it is not JSON.
        """
        text = messages.encode(message)
        if self._closed:
            raise TransportClosed("the session has ended")
        # What the writer itself adds is bounded by what it writes.
        if len(self._waiting) >= MAX_WAITING and self._writer is not threading.current_thread():
            raise TransportClosed(f"{MAX_WAITING} messages wait for the client to open a stream, or to read")
        self.run_soon(partial(self._write, text))

    def close(self, deadline: Deadline) -> None:
        """End every stream, which frees the threads that hold their connections; then tell the peer, once."""
        with self._lock:
            first, self._closed = not self._closed, True
            streams = list(self._streams.values())
        for stream in streams:
            stream.end(deadline.at_most(UNREAD_TIMEOUT))
            self.forget(stream)
        if first:
            self._lost(TransportClosed("the session has ended"))

    # -- what belongs to no request

    def run_soon(self, job: Callable[[], None]) -> None:
        """Give a job that writes to the thread that holds a standing stream, once there is one. Never blocks."""
        with self._lock:
            self._waiting.append(job)
            stream = self._listening_locked()
        if stream is not None:
            stream.wake()

    def _listening_locked(self) -> EventStream | None:
        # MUST: a message is sent on one of the connected streams, and on no other
        # (basic/transports#multiple-connections)
        return next((stream for stream in reversed(self._standing) if stream.reply is not None), None)

    @property
    def listens(self) -> bool:
        """Return whether the client has a standing stream open."""
        with self._lock:
            return self._listening_locked() is not None

    def _write(self, text: bytes) -> None:
        with self._lock:
            stream = self._listening_locked()
        if stream is None or not stream.write(text):
            with self._lock:
                self._waiting.insert(0, partial(self._write, text))

    def write_waiting(self) -> None:
        """Run what waits, in order, while the client has a standing stream open; one thread at a time does."""
        this = threading.current_thread()
        while True:
            with self._lock:
                if self._writer not in (None, this):
                    return
                if not self._waiting or self._listening_locked() is None:
                    # In one step with the look: what comes from here on wakes a holder again, which may be at it
                    # before this thread goes on.
                    self._writer = None
                    break
                self._writer, job = this, self._waiting.pop(0)
            try:
                job()
            except BaseException:
                self._writer = None
                raise

    # -- streams

    def new_stream(self, *, standing: bool = False) -> EventStream:
        """Return another stream of this session; a standing one carries what belongs to no request."""
        with self._lock:
            stream = EventStream(f"s{next(self._numbers)}", self.store, within=f"{self.id}/")
            self._streams[stream.name] = stream
            if standing:
                self._standing.append(stream)
            many = len(self._streams) > MAX_STREAMS
            idle = next((each for each in self._streams.values() if each.reply is None), None) if many else None
            closed = self._closed
        if idle is not None:
            self.forget(idle)
        if closed:
            stream.end()
        return stream

    def forget(self, stream: EventStream) -> None:
        """Forget a stream that nobody will resume any more."""
        with self._lock:
            self._streams.pop(stream.name, None)
            self._standing = [each for each in self._standing if each is not stream]
        if self.store is not None:
            self.store.forget(stream.kept_as)

    def stream(self, name: str) -> EventStream | None:
        """Return the stream of that name, or None."""
        return self._streams.get(name)

    def attached(self) -> int:
        """Return how many connections carry a stream of this session now."""
        with self._lock:
            return sum(stream.reply is not None for stream in self._streams.values())
