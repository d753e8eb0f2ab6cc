"""Row and Stream: one request that we sent, while its answer is to come.

Spec:      basic/index#requests; basic/patterns/subscriptions (2026-07-28)
Upholds:   spec_notes/basic/index.md
Reads:     basic/deadline, basic/transports/transport (Inbox)
Not here:  the table of rows, and what fills them (basic/patterns/requester)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from queue import Empty, SimpleQueue
from typing import Any

from mcp_ref.basic.deadline import Deadline
from mcp_ref.errors import McpError, RequestCancelled, TransportClosed

__all__ = ["Row", "Stream"]

JsonObject = dict[str, Any]


class Row(SimpleQueue):  # type: ignore[type-arg]
    """A request that we sent: the queue in which what belongs to it arrives. It is the `Inbox` of a transport.

    Attributes:
        streams: whether notifications belong to it, as to a subscription; to another one nothing but progress does.
    """

    id = 0
    method = ""
    sent = False
    streams = False
    on_give_up: Callable[[], None] | None = None

    def until(self, deadline: Deadline) -> Iterator[JsonObject]:
        """See `transports.transport.Inbox`."""
        while True:
            try:
                item = self.get(timeout=deadline.left())
            except Empty:
                # The clock may have stood still meanwhile; then there is time left, and the wait goes on.
                deadline.check(f"waiting for the answer to {self.method}")
                continue
            if isinstance(item, McpError):
                raise item
            yield item

    def waiting(self) -> Iterator[JsonObject]:
        """See `transports.transport.Inbox`."""
        while not self.empty():
            item = self.get_nowait()
            if isinstance(item, McpError):
                raise item
            yield item

    def give_up(self, reason: McpError) -> None:
        """End the wait of whoever reads the inbox, or the socket from which it is filled."""
        self.put(reason)
        interrupt = self.on_give_up
        if interrupt is not None:
            interrupt()

    def cancelled(self, reason: str | None) -> None:
        """End it because the caller's `Cancel` was used."""
        self.give_up(RequestCancelled(reason or "cancelled by the caller"))


class Stream:
    """A request that stays open: iterating gives its notifications, and its response as the last message.

    Attributes:
        id: of the request; its notifications carry it.

    Threads: one reads; `close` by any.
    """

    def __init__(
        self,
        row: Row,
        arriving: Iterator[JsonObject],
        deadline: Deadline,
        abandon: Callable[[BaseException], None],
    ) -> None:
        self.id = row.id
        self._row, self._deadline, self._abandon = row, deadline, abandon
        self._lock = threading.Lock()  # guards the three fields below
        self._arriving = arriving
        self._reading = False
        self._closed: McpError | None = None

    def __iter__(self) -> Iterator[JsonObject]:
        """Each message as it comes.

        Blocks: for each, until the deadline.
        Raises: RequestTimeout, RequestCancelled (it was closed), TransportClosed, RemoteProtocolError.
        """
        try:
            while (message := self._next()) is not None:
                yield message
                if "method" not in message:
                    return
            raise self._closed or TransportClosed("the stream ended without a response")
        except McpError as reason:
            self._abandon(reason)
            raise

    def _next(self) -> JsonObject | None:
        """The next message; None at the end, and once it is closed."""
        with self._lock:
            self._reading, arriving = True, self._arriving
        try:
            return next(arriving, None)
        finally:
            with self._lock:
                self._reading, closed = False, self._closed is not None
            if closed:
                _end(arriving)

    def lift(self) -> None:
        """Let it last as long as it likes from now on."""
        self._deadline.lift()

    def close(self, reason: str) -> None:
        """Give it up: whoever reads gets RequestCancelled, and the peer is told as its transport says."""
        ended = RequestCancelled(reason)
        unread: Iterator[JsonObject] = iter(())
        with self._lock:
            self._closed = ended
            # A generator that another thread runs must not be closed: the interpreter can crash (CPython 3.11). Whoever
            # reads finds the end by itself.
            if not self._reading:
                unread, self._arriving = self._arriving, unread
        self._row.give_up(ended)
        self._abandon(ended)
        _end(unread)


def _end(arriving: Iterator[JsonObject]) -> None:
    if isinstance(arriving, Generator):
        arriving.close()
