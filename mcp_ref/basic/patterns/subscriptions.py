"""Subscriptions: the server's half of `subscriptions/listen`.

Spec:      basic/patterns/subscriptions, basic/patterns/cancellation (2026-07-28)
Upholds:   spec_notes/basic/patterns/subscriptions.md
Reads:     basic/patterns/subscription_types (types, rows), basic/patterns/reply, server/resources (`covers`)
Not here:  the client's half (basic/patterns/listening); who flushes (the stateless endpoint over HTTP, a worker over
           stdio); what happened (server/server); subscriptions of the session era (server/resources)

A subscription is a request that stays unanswered: what is sent before its answer are the notifications that it asked
for, and the answer says that the server has ended it.

    publish -> wants? -> put -> pending -> wake ... flush -> the wire          any thread | the transport's thread

What is pending is a set of things to look at again, not a log: the same change twice before it was written is one
message. So a client that does not read costs as much memory as its filter has entries, and holds up nobody.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from mcp_ref.basic import messages
from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.patterns.reply import Incoming
from mcp_ref.basic.patterns.subscription_types import (
    ACKNOWLEDGED,
    LIST_CHANGES,
    LISTEN,
    METHODS,
    UPDATED,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    honour,
)
from mcp_ref.basic.utilities.cancellation import cancelled_params
from mcp_ref.basic.versioning import SUBSCRIPTION_ID
from mcp_ref.errors import InternalError, InvalidParams, LocalProtocolError, McpError
from mcp_ref.server.resources import covers

__all__ = [
    "METHODS",
    "MOST_OPEN",
    "MOST_PENDING",
    "MOST_URIS",
    "Subscription",
    "SubscriptionFilter",
    "Subscriptions",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
]

log = logging.getLogger(__name__)

MOST_OPEN: Final = 10_000
"""Subscriptions that a server has open at once; it refuses more."""

MOST_URIS: Final = 10_000
"""URIs in one filter."""

MOST_PENDING: Final = 10_000
"""Messages that wait for one client. A change below a URI that it asked for is then told as a change of that URI."""

_END: Final[JsonObject] = {}
"""Stands in the queue of a subscription for its closing: the last thing there, and found by one flush alone."""


class Subscription:
    """One `subscriptions/listen` that is open.

    Args:
        incoming: the request; its `notify` carries everything up to the answer.
        asked, honoured: the filter as it came, and the part of it that is honoured.
        forget: told once it gets no more notifications, for whatever reason.

    Attributes:
        id: of the request, its JSON type kept: 1 and "1" are two subscriptions.
        ended: whether `end` was called: a graceful end is under way, or done.
        reason: why, or None.

    What a transport does with it, here over a channel that several subscriptions share:

        def job():                                  # at most one waits to be run
            if subscription.flush():
                incoming.notify(notification("notifications/cancelled", subscription.cancelled_notification()))
                ... send subscription.closing() as the result
        subscription.carry(lambda: have_a_worker_run(job))

    Over HTTP the thread of the POST waits for `wake`, calls `flush`, and looks at `gone`; there is no
    `notifications/cancelled` then.

    Threads: any. `flush` by several at once is the work of one.
    Spec: basic/patterns/subscriptions
    """

    def __init__(
        self,
        incoming: Incoming,
        asked: SubscriptionFilter,
        honoured: SubscriptionFilter,
        forget: Callable[[Subscription], None] | None = None,
    ) -> None:
        self.id, self.incoming, self.asked, self.honoured = incoming.id, incoming, asked, honoured
        self.reason: str | None = None
        self.ended = False
        self._uris = frozenset(honoured.get("resourceSubscriptions", ()))
        self._forget = forget
        self._lock = threading.Lock()  # guards the five fields below, and the change of `ended`
        # MUST: the first message with the subscription's id (basic/patterns/subscriptions#acknowledgment)
        acknowledgement = self._tagged(ACKNOWLEDGED, {"notifications": honoured})
        self._pending: dict[tuple[str, str | None], JsonObject] = {(ACKNOWLEDGED, None): acknowledgement}
        self._wake: Callable[[], None] | None = None
        self._woken = False  # the transport was asked to flush, and has not begun
        self._flushing = False
        self._lost = False

    @property
    def gone(self) -> bool:
        """Whether nobody listens any more: it was cancelled, its client has hung up, or a write failed.

        Over HTTP this asks the connection. What is gone is forgotten, and gets no closing.
        """
        return self.incoming.cancelled or self._lost

    def wants(self, method: str, params: JsonObject) -> bool:
        """Whether a notification is one that was asked for and is honoured; a resource also by one above it."""
        flag = LIST_CHANGES.get(method)
        if flag is not None:
            return self.honoured.get(flag) is True
        return method == UPDATED and self._covering(params["uri"]) is not None

    def _covering(self, uri: str) -> str | None:
        """The URI of the filter that means this one, the longest if there are several."""
        return next((above for above in _at_and_above(uri) if above in self._uris and covers(above, uri)), None)

    def put(self, method: str, params: JsonObject | None = None) -> None:
        """Have a notification sent, if it is wanted; the same one that still waits takes up its news. Never blocks.

        Nothing happens once the subscription has ended or is gone.
        """
        params = params or {}
        # MUST NOT: send what was not asked for (basic/patterns/subscriptions#opening-a-stream)
        if not self.wants(method, params):
            return
        key = (method, params.get("uri"))
        with self._lock:
            if self.ended or self._lost:
                return
            if len(self._pending) >= MOST_PENDING and key not in self._pending:
                params = {**params, "uri": self._covering(params["uri"])} if method == UPDATED else params
                key = (method, params.get("uri"))
            self._pending[key] = self._tagged(method, params)
            wake = self._wake_locked()
        if wake is not None:
            wake()

    def _tagged(self, method: str, params: Any) -> JsonObject:
        # MUST: every message carries the subscription's id (basic/patterns/subscriptions#receiving-notifications)
        meta = {**params.get("_meta", {}), SUBSCRIPTION_ID: self.id}
        return messages.notification(method, {**params, "_meta": meta})

    def _wake_locked(self) -> Callable[[], None] | None:
        """What to call once the lock is released; None where a flush is to come, or looks again before it ends."""
        if self._wake is None or self._woken or self._flushing:
            return None
        self._woken = True
        return self._wake

    def carry(self, wake: Callable[[], None]) -> None:
        """Say how the transport is made to flush; it is woken at once, for the acknowledgement waits.

        Args:
            wake: has `flush` called soon by a thread that may block; called by any thread, and must not block itself.
                It is not called again before that flush begins.
        """
        with self._lock:
            self._wake = wake
            due = self._wake_locked()
        if due is not None:
            due()

    def flush(self) -> bool:
        """Write what is pending, in order.

        Returns: True, once in the subscription's life, to the caller that must send the closing now: the server has
            ended it, and all that was pending is written. Else False.
        Blocks: until the client has read enough, each message for at most a minute; where another thread is flushing,
            not at all.
        """
        if self.gone:
            return False
        with self._lock:
            self._woken = False
            if self._flushing:
                return False
            self._flushing = True
        try:
            message = self._next()
            while message:
                self._write(message)
                message = self._next()
        except BaseException:
            with self._lock:
                self._flushing = False
            self._lose("a write failed")
            raise
        return message is _END

    def _next(self) -> JsonObject | None:
        """The oldest message that waits; at the end of the flush `_END`, once, or None."""
        with self._lock:
            message = self._pending.pop(next(iter(self._pending))) if self._pending else None
            # One step with the look: what is put from here on wakes the transport again.
            self._flushing = bool(message)
            return message

    def _write(self, message: JsonObject) -> None:
        try:
            if self.incoming.notify(message):
                return
            problem: Exception | str = "it was given up"
        except LocalProtocolError as refused:
            log.error("%s is not sent to the subscription %r: %s", message["method"], self.id, refused)
            return
        except (McpError, OSError) as failed:
            problem = failed
        self._lose(str(problem))

    def given_up(self, reason: McpError) -> None:
        """Called by `Incoming.cancel`: the client has cancelled it, or its conversation is over. Never blocks."""
        self._lose(str(reason))

    def _lose(self, reason: str) -> None:
        with self._lock:
            first, self._lost = not self._lost, True
            self._pending.clear()
            wake = self._wake_locked()
        if first:
            log.debug("the subscription %r is gone: %s", self.id, reason)
            self._out()
            if wake is not None:
                wake()

    def _out(self) -> None:
        if self._forget is not None:
            self._forget(self)

    def end(self, reason: str = "the server ends it") -> None:
        """End it gracefully: what is pending is still written, then the closing; nothing is put any more. Idempotent.

        Never blocks: the transport is woken, and the flush that finds nothing left says that the closing is due.
        Spec: basic/patterns/subscriptions#graceful-closure
        """
        with self._lock:
            if self.ended or self._lost:
                return
            self.ended, self.reason = True, reason
            self._pending[(LISTEN, None)] = _END
            wake = self._wake_locked()
        self._out()
        if wake is not None:
            wake()

    def closing(self) -> JsonObject:
        """The result of the request, to be sent once `flush` has said so; the sender adds the server's identity."""
        return {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: self.id}}

    def cancelled_notification(self) -> JsonObject:
        """The params of the `notifications/cancelled` that precedes the closing where subscriptions share a channel.

        Spec: basic/patterns/cancellation; schema CancelledNotification ("on stdio")
        """
        return {**cancelled_params(self.id, self.reason), "_meta": {SUBSCRIPTION_ID: self.id}}


def _at_and_above(uri: str) -> Iterator[str]:
    """A URI, and all that could cover it, the longest first: a subscription is looked up, not searched for."""
    yield uri
    for end in range(len(uri) - 1, -1, -1):
        if uri[end] == "/":
            yield uri[: end + 1]
            yield uri[:end]


class Subscriptions:
    """The open subscriptions of a server, whatever transports they came by.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _open
        # Two clients may use the same id: a subscription is found by itself.
        self._open: dict[Subscription, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, incoming: Incoming, params: SubscriptionsListenRequestParams, capabilities: JsonObject
    ) -> Subscription:
        """Answer `subscriptions/listen` as far as it is answered at once; the transport carries what is returned.

        Args:
            params: checked against their type already.
            capabilities: what the server declares. What it does not declare is not honoured, and never sent.

        Raises: InvalidParams: it names more than 10,000 URIs. InternalError: too many are open.
        Spec: basic/patterns/subscriptions#opening-a-stream
        """
        asked = params["notifications"]
        if len(asked.get("resourceSubscriptions", ())) > MOST_URIS:
            path = "params.notifications.resourceSubscriptions"
            raise InvalidParams(f"Invalid params: {path} has more than {MOST_URIS} URIs", {"path": path})
        subscription = Subscription(incoming, asked, honour(asked, capabilities), self.forget)
        with self._lock:
            if len(self._open) >= MOST_OPEN:
                raise InternalError("Too many subscriptions")
            self._open[subscription] = None
        incoming.asked(subscription.given_up)
        return subscription

    def publish(self, method: str, params: JsonObject | None = None) -> None:
        """Have a notification sent to each that wants it: a copy of its own, with its id. Never blocks."""
        for subscription in self._all():
            subscription.put(method, params)

    def _all(self) -> list[Subscription]:
        with self._lock:
            return list(self._open)

    def forget(self, subscription: Subscription) -> None:
        """Send it nothing more. Nothing happens where it is not open."""
        with self._lock:
            self._open.pop(subscription, None)

    def end_all(self, reason: str = "the server shuts down") -> None:
        """End each gracefully; see `Subscription.end`. Their transports then write the closings."""
        for subscription in self._all():
            subscription.end(reason)
