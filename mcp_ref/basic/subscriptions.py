"""Subscriptions: `subscriptions/listen`, `notifications/subscriptions/acknowledged`: their types, rows and filters.

Spec:      basic/patterns/subscriptions (2026-07-28)
Upholds:   spec_notes/basic/patterns/subscriptions.md
Not here:  the server's half (basic/patterns/subscriptions), the client's (basic/subscriptions)
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, NoReturn, NotRequired, Protocol, Self, TypedDict, TypeVar, cast
from weakref import WeakSet

from mcp_ref import messages
from mcp_ref.agreement import declares
from mcp_ref.basic.utilities import cancelled_params
from mcp_ref.basic.versioning import SUBSCRIPTION_ID
from mcp_ref.errors import (
    ErrorResponse,
    HttpStatusError,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    TransportClosed,
)
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.checking import SchemaMismatch, checker
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.outbox import Outbox
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Method
from mcp_ref.revisions import STATELESS_REVISIONS
from mcp_ref.server.resources import covers
from mcp_ref.types import Implementation, NotificationParams, RequestId, RequestParams, ResultType

log = logging.getLogger(__name__)

LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"

LIST_CHANGES: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
"""Which flag of a filter asks for which notification."""

_NEEDS: Final = {
    "toolsListChanged": "tools.listChanged",
    "promptsListChanged": "prompts.listChanged",
    "resourcesListChanged": "resources.listChanged",
    "resourceSubscriptions": "resources.subscribe",
}
"""The capability of the server without which it does not honour a field of a filter."""


class SubscriptionFilter(TypedDict):
    """Which notifications a client asks for, or a server honours; what is left out is not asked for."""

    toolsListChanged: NotRequired[bool]
    promptsListChanged: NotRequired[bool]
    resourcesListChanged: NotRequired[bool]
    resourceSubscriptions: NotRequired[list[str]]


class SubscriptionsListenRequestParams(RequestParams):
    """What to listen for."""

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The part of what was asked for that the server honours."""

    notifications: SubscriptionFilter


SubscriptionsListenResultMetaObject = TypedDict(
    "SubscriptionsListenResultMetaObject",
    {
        "io.modelcontextprotocol/subscriptionId": RequestId,
        "io.modelcontextprotocol/serverInfo": NotRequired[Implementation],
    },
)
"""Which subscription has ended: the id of the request that the result answers."""


class SubscriptionsListenResult(TypedDict):
    """The server has ended the subscription. It says nothing else."""

    _meta: SubscriptionsListenResultMetaObject
    resultType: NotRequired[ResultType]


def honour(asked: SubscriptionFilter, capabilities: JsonObject) -> SubscriptionFilter:
    """The part of a filter that a server with these capabilities honours.

    Spec: basic/patterns/subscriptions#acknowledgment
    """
    honoured: JsonObject = {}
    for field, capability in _NEEDS.items():
        value = asked.get(field)
        # MUST: types that the server does not support are left out (basic/patterns/subscriptions#acknowledgment)
        if value and declares(capabilities, capability):
            honoured[field] = list(dict.fromkeys(value)) if isinstance(value, list) else value
    return cast(SubscriptionFilter, honoured)


def unheeded(asked: SubscriptionFilter, honoured: SubscriptionFilter) -> SubscriptionFilter:
    """What was asked for and is not honoured; empty where all is."""
    wanted, given = cast(JsonObject, asked), cast(JsonObject, honoured)
    rest: JsonObject = {field: flag for field, flag in wanted.items() if flag is True and given.get(field) is not True}
    uris = set(given.get("resourceSubscriptions", ()))
    if missing := [uri for uri in wanted.get("resourceSubscriptions", ()) if uri not in uris]:
        rest["resourceSubscriptions"] = missing
    return cast(SubscriptionFilter, rest)


def acknowledged(message: JsonObject) -> SubscriptionFilter:
    """The filter in an acknowledgement, which must be the first message of a subscription.

    Raises: RemoteProtocolError: it is another message, or malformed.
    """
    # MUST: before any other message of the subscription (basic/patterns/subscriptions#acknowledgment)
    if message.get("method") != ACKNOWLEDGED:
        what = message.get("method") or "the response"
        raise RemoteProtocolError(f"the server sent {what} before it acknowledged the subscription")
    params = message.get("params")
    try:
        checker(SubscriptionsAcknowledgedNotificationParams, STATELESS_REVISIONS[-1])(params, "params")
    except SchemaMismatch as mismatch:
        raise RemoteProtocolError(f"{ACKNOWLEDGED} is malformed: {mismatch}") from None
    return cast(SubscriptionsAcknowledgedNotificationParams, params)["notifications"]


METHODS = (
    Method(LISTEN, "client", "basic/patterns/subscriptions", "ask to be told of changes, until one of the two ends it",
           SubscriptionsListenRequestParams, SubscriptionsListenResult, since="2026-07-28"),
    Method(ACKNOWLEDGED, "server", "basic/patterns/subscriptions",
           "say which of the changes that were asked for will be told", SubscriptionsAcknowledgedNotificationParams,
           since="2026-07-28"),
)  # fmt: skip

# -- the server's half ----------------------------------------------------------------------------------------------


MAX_OPEN: Final = 10_000
"""Subscriptions that a server has open at once; it refuses more."""

MAX_URIS: Final = 10_000
"""URIs in one filter."""

MAX_PENDING: Final = 10_000
"""Messages that wait for one client; from there on a change is told as a change of the URI that was asked for."""


class Subscription:
    """One `subscriptions/listen` that is open.

    Args:
        incoming: the request; its `notify` carries everything up to the answer.
        honoured: the part of its filter that is honoured.
        forget: told once it gets no more notifications, for whatever reason.

    Attributes:
        id: of the request, its JSON type kept: 1 and "1" are two subscriptions.

    Its transport gives `carry` a function that has `flush` called by a thread that may block; when `flush` returns
    True, the subscription has ended gracefully and the transport sends `closing()` as the result of the request.

    Threads: any.
    Spec: basic/patterns/subscriptions
    """

    def __init__(
        self, incoming: Incoming, honoured: SubscriptionFilter, forget: Callable[[Subscription], None]
    ) -> None:
        self.id, self.incoming, self.honoured = incoming.id, incoming, honoured
        self._uris = frozenset(honoured.get("resourceSubscriptions", ()))
        self._forget = forget
        self._reason: str | None = None
        self._lost = False
        self._outbox: Outbox[JsonObject] = Outbox()
        self.carry = self._outbox.on_work
        # MUST: the acknowledgement is the first message with the subscription's id, and names what is honoured
        # (basic/patterns/subscriptions#acknowledgment)
        self._put_tagged(ACKNOWLEDGED, {"notifications": honoured})

    @property
    def gone(self) -> bool:
        """Whether nobody listens any more: it was cancelled, its client has hung up, or a write failed.

        Over HTTP this asks the connection. A subscription that is gone is forgotten, and gets no closing.
        """
        return self.incoming.cancelled or self._lost

    def put(self, method: str, params: JsonObject | None = None) -> None:
        """Have a notification sent if the filter asks for it; the same one that still waits takes up its news.

        Never blocks. Nothing happens once the subscription has ended or is gone.
        """
        params = params or {}
        # MUST NOT: send a notification that the client did not ask for (basic/patterns/subscriptions#opening-a-stream)
        if method != UPDATED:
            wanted = self.honoured.get(LIST_CHANGES.get(method, ""))
        else:
            wanted = covering(params["uri"], self._uris)
            if wanted is not None and len(self._outbox) >= MAX_PENDING:
                params = {**params, "uri": wanted}
        if wanted is not None:
            self._put_tagged(method, params)

    def _put_tagged(self, method: str, params: Any) -> None:
        # MUST: every notification carries `io.modelcontextprotocol/subscriptionId`, the id of the listen request, in
        # its `_meta` (basic/patterns/subscriptions#receiving-notifications)
        meta = {**params.get("_meta", {}), SUBSCRIPTION_ID: self.id}
        message = messages.notification(method, {**params, "_meta": meta})
        self._outbox.put((method, params.get("uri")), message)

    def flush(self) -> bool:
        """Write what waits, in order. While another thread does, this returns at once.

        Returns: True once in the subscription's life, to the caller that must send the closing now: the server has
            ended it, and all that was put is written.
        Blocks: until the client has read enough, each message for at most a minute.
        """

        def write(message: JsonObject) -> None:
            try:
                if not self.incoming.notify(message):
                    self.lose("it was given up")
            except LocalProtocolError as refused:
                log.error("%s is not sent to the subscription %r: %s", message["method"], self.id, refused)
            except (McpError, OSError) as failed:
                self.lose(failed)
            except BaseException:
                self.lose("a write was interrupted")
                raise

        return not self.gone and self._outbox.flush(write)

    def lose(self, reason: object) -> None:
        """Nobody listens any more: the client has cancelled it, or its connection is over. Never blocks."""
        log.debug("the subscription %r is gone: %s", self.id, reason)
        self._lost = True
        self._forget(self)
        self._outbox.discard()

    def end(self, reason: str = "the server ends it") -> None:
        """End it gracefully: what waits is still written, then the closing. Idempotent; never blocks.

        Spec: basic/patterns/subscriptions#graceful-closure
        """
        self._reason = self._reason or reason
        if self._outbox.close():
            self._forget(self)

    def closing(self) -> JsonObject:
        """The result of the request, to be sent once `flush` has said so; the sender adds the server's identity."""
        return {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: self.id}}

    def cancelled_notification(self) -> JsonObject:
        """The `notifications/cancelled` that goes with the closing where subscriptions share a channel.

        Spec: basic/patterns/cancellation; schema CancelledNotification ("on stdio")
        """
        params = {**cancelled_params(self.id, self._reason), "_meta": {SUBSCRIPTION_ID: self.id}}
        return messages.notification("notifications/cancelled", params)


def covering(uri: str, asked: Container[str]) -> str | None:
    """The one of the URIs asked for that a change of this one concerns: itself, or one above it, the longest first.

    It is looked up, not searched for: whatever covers a URI is a beginning of it that ends before or behind a "/".
    """
    if uri in asked:
        return uri
    for end in range(len(uri) - 1, -1, -1):
        if uri[end] == "/":
            for above in (uri[: end + 1], uri[:end]):
                if above in asked and covers(above, uri):
                    return above
    return None


class Subscriptions:
    """The open subscriptions of a server, whatever transports they came by; iterating gives a snapshot of them.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _open
        # Two clients may use the same id: a subscription is found by itself.
        self._open: dict[Subscription, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Subscription]:
        with self._lock:
            return iter(list(self._open))

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
        if len(asked.get("resourceSubscriptions", ())) > MAX_URIS:
            path = "params.notifications.resourceSubscriptions"
            raise InvalidParams(f"Invalid params: {path} has more than {MAX_URIS} URIs", {"path": path})
        subscription = Subscription(incoming, honour(asked, capabilities), self._forget)
        with self._lock:
            if len(self._open) >= MAX_OPEN:
                raise InternalError("Too many subscriptions")
            self._open[subscription] = None
        incoming.asked(subscription.lose)
        return subscription

    def publish(self, method: str, params: JsonObject | None = None) -> None:
        """Have a notification sent to each that asks for it: a copy of its own, with its id. Never blocks."""
        for subscription in self:
            subscription.put(method, params)

    def _forget(self, subscription: Subscription) -> None:
        with self._lock:
            self._open.pop(subscription, None)


# -- ahead -----------------------------------------------------------------------------------------------


T = TypeVar("T")

MOST_AHEAD: Final = 1000
"""Items that are read ahead; then reading waits."""

_JOIN: Final = 2.0  # seconds that stop() waits for the thread


class Ahead(Generic[T]):
    """Reads ahead, in a daemon thread.

    Args:
        name: of the thread.
        step: gives the next item, or None at the end; it may block, and raise, which ends the reading. Whoever calls
            `stop` has made it return.

    Threads: any.
    """

    def __init__(self, name: str, step: Callable[[], T | None]) -> None:
        self._step = step
        self._changed = threading.Condition()  # guards the three fields below
        self._items: deque[T] = deque()
        self._end: list[BaseException | None] = []
        self._stopped = False
        # Daemon: a step may run a user's code, which must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _run(self) -> None:
        end: BaseException | None = None
        try:
            while (item := self._step()) is not None and self._keep(item):
                pass
        except BaseException as problem:
            end = problem
        with self._changed:
            self._end.append(end)
            self._changed.notify_all()

    def _keep(self, item: T) -> bool:
        """Put it in the queue, when there is room; False: nobody takes it any more."""
        with self._changed:
            # Bounded by stop().
            self._changed.wait_for(lambda: self._stopped or len(self._items) < MOST_AHEAD)
            self._items.append(item)
            self._changed.notify_all()
            return not self._stopped

    def take(self, deadline: Deadline) -> T | None:
        """The next item; None at the end. Raises RequestTimeout, and, once, what ended the reading."""
        with self._changed:
            while not (self._items or self._end or self._stopped):
                if not self._changed.wait(deadline.left()):
                    deadline.check("waiting for an event")
            if self._stopped:
                return None
            if self._items:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            problem, self._end[0] = self._end[0], None
        if problem is not None:
            raise problem
        return None

    def stop(self) -> None:
        """Give nothing more, and wait for the thread: two seconds at most, and not where it calls this itself."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN)


# -- listening -------------------------------------------------------------------------------------------


BACK_OFF: Final = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0)
"""Seconds before each attempt to open a broken stream again. A part is left to chance: other clients do the same."""

STEADY: Final = 5.0
"""Seconds that a stream must have lasted for its break to be the first in a row."""


class Event(NamedTuple):
    """A change that the server told: the notification's method, and its params with the subscription's id in `_meta`.

    The methods are `notifications/tools/list_changed`, `notifications/prompts/list_changed`,
    `notifications/resources/list_changed` and `notifications/resources/updated`, which has a `uri`.
    """

    method: str
    params: JsonObject


class Stream(Protocol):
    """A request that stays open; `requester.stream` gives one."""

    def __iter__(self) -> Iterator[JsonObject]:
        """The messages that belong to it, its response as the last. Raises TransportClosed where that does not come,
        RequestTimeout while the deadline is not lifted, RequestCancelled once it is closed.
        """
        ...

    def lift(self) -> None:
        """Let it last as long as it likes."""
        ...

    def close(self, reason: str) -> None:
        """Give it up, and tell the server as the transport does. Any thread, any number of times."""
        ...


class Opening(Protocol):
    """What opens streams: a `Client`.

    Attributes:
        listenings: those that were entered, for `close()` to end them.
    """

    listenings: WeakSet[Listening]

    def open_stream(self, method: str, params: JsonObject, deadline: Deadline) -> Stream:
        """Send a request that stays open, on the connection that there is; on another where the last one is lost.

        Raises: TransportClosed: there is none now, and there may be one later. LocalProtocolError: there never will be,
            for the client is closed, or the revision has no such request.
        """
        ...


def listen(
    self: Opening,
    *,
    tools: bool = False,
    prompts: bool = False,
    resources: Iterable[str] = (),
    resource_list: bool = False,
    timeout: float | None = 10,
    reopen: bool = True,
    on_reopen: Callable[[], None] | None = None,
) -> Listening:
    """Ask with `subscriptions/listen` to be told of changes, from entering the `with` block to leaving it.

    >>> with client.listen(tools=True, resources=["file:///project/config.json"]) as events:
    ...     for event in events:
    ...         print(event.method)

    Args:
        tools, prompts, resource_list: whether changes of these lists are wanted.
        resources: URIs; a change of a resource, or of one below it, is wanted.
        timeout: seconds for the server to acknowledge it; from then on it has no limit.
        reopen: when the connection breaks, ask again, ten times in a row within a minute at most.
        on_reopen: called, in the thread that iterates, when that has succeeded: changes in between were not told.

    Raises: ValueError: nothing is asked for. TypeError: `resources` is one string.
    Blocks: not at all; entering the block does. Threads: any.
    Spec: basic/patterns/subscriptions
    """
    if isinstance(resources, str):
        raise TypeError(f"resources is a list of URIs, not the string {resources!r}")
    flags = {"toolsListChanged": tools, "promptsListChanged": prompts, "resourcesListChanged": resource_list}
    asked: JsonObject = {flag: True for flag, wanted in flags.items() if wanted}
    if uris := list(dict.fromkeys(resources)):
        asked["resourceSubscriptions"] = uris
    if not asked:
        raise ValueError("listen for something: tools, prompts, resource_list or resources")
    return Listening(self, cast(SubscriptionFilter, asked), timeout=timeout, reopen=reopen, on_reopen=on_reopen)


class Listening:
    """One subscription: a context manager and an iterator of `Event`. `Client.listen` makes it, with its arguments.

    Entering sends the request and waits for the acknowledgement. Iterating blocks for each event, and ends when the
    server ends the subscription or when `close` was called; when the connection breaks for good, it raises.

    Attributes:
        asked, honoured: the filter that was sent, and what the server has acknowledged of it.
        graceful: whether the server has ended it, and said so.

    Raises:
        entering: ErrorResponse: the server refuses. RequestTimeout: it does not acknowledge it in time.
            RemoteProtocolError: it sends something else first. TransportClosed. RequestCancelled: it was closed.
        iterating: TransportClosed: the connection broke, and it was not to be, or could not be, opened again.
            ErrorResponse: the server ended it with an error. RemoteProtocolError.

    Threads: one iterates, or calls `get`; `close` by any.
    Spec: basic/patterns/subscriptions
    """

    def __init__(
        self,
        opening: Opening,
        asked: SubscriptionFilter,
        *,
        timeout: float | None = 10,
        reopen: bool = True,
        on_reopen: Callable[[], None] | None = None,
    ) -> None:
        self.asked, self.honoured = asked, cast(SubscriptionFilter, {})
        self.graceful = False
        self._opening, self._timeout = opening, timeout
        self._reopen, self._on_reopen = reopen, on_reopen
        self._methods = {method for method, flag in LIST_CHANGES.items() if flag in asked}
        if "resourceSubscriptions" in asked:
            self._methods.add(UPDATED)
        # Of the thread that iterates:
        self._messages: Iterator[JsonObject] = iter(())
        self._opened_at = 0.0
        self._attempt = 0
        self._done = False
        self._over = threading.Event()  # set by close()
        self._lock = threading.Lock()  # guards the three fields below
        self._entered = False
        self._stream: Stream | None = None
        self._ahead: Ahead[Event] | None = None

    # -- entering and leaving -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with self._lock:
            if self._entered:
                raise RuntimeError("a subscription is entered once; call listen() for another one")
            self._entered = True
        self._opening.listenings.add(self)
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self, reason: str = "no longer wanted") -> None:
        """End the subscription, and with it the iteration: the server is told. Idempotent.

        Blocks: for the writing of one message, a second at most; for the thread behind `get`, two.
        Threads: any, also while another one iterates.
        Spec: basic/patterns/subscriptions#cancellation
        """
        with self._lock:
            self._over.set()
            stream, self._stream = self._stream, None
            ahead = self._ahead
        if stream is not None:
            stream.close(reason)
        if ahead is not None:
            ahead.stop()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._over.is_set()

    # -- opening --------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Send the request, and wait for its acknowledgement."""
        deadline = Deadline(self._timeout)
        self._check_open()
        stream = self._opening.open_stream(LISTEN, {"notifications": self.asked}, deadline)
        with self._lock:
            self._stream = stream
        # Hold first, look second: `close` in another thread either finds the stream or is seen here.
        try:
            self._check_open()
            arriving = iter(stream)
            self.honoured = acknowledged(_first(arriving))
            stream.lift()
        except BaseException as problem:
            self._give_up(stream, str(problem) if isinstance(problem, McpError) else "given up by its caller")
            raise
        self._messages, self._opened_at = arriving, time.monotonic()
        # SHOULD: check what is honoured (basic/patterns/subscriptions#acknowledgment)
        if refused := self.refused:
            log.warning("the server does not tell of all that was asked for: not of %s", refused)

    def _check_open(self) -> None:
        if self._over.is_set():
            raise RequestCancelled("the subscription was closed")

    def _give_up(self, stream: Stream, reason: str) -> None:
        with self._lock:
            self._stream = None
        stream.close(reason)

    @property
    def refused(self) -> SubscriptionFilter:
        """What was asked for and is not honoured; empty where all is."""
        return unheeded(self.asked, self.honoured)

    def _open_again(self, broke: TransportClosed) -> None:
        """Open a broken stream anew, or raise why it cannot be. Returns also when `close` was called meanwhile."""
        if not self._reopen:
            raise broke
        if time.monotonic() - self._opened_at >= STEADY:
            self._attempt = 0
        latest: McpError = broke
        while self._attempt < len(BACK_OFF):
            from random import uniform

            pause = BACK_OFF[self._attempt] * uniform(0.5, 1)
            self._attempt += 1
            log.info("the subscription broke: %s; asking for it again in %.2f s", latest, pause)
            if self._over.wait(pause):
                return
            try:
                # MUST: ask again over another connection (basic/patterns/subscriptions#graceful-closure)
                self._open()
            except (TransportClosed, RequestTimeout, HttpStatusError) as problem:
                if isinstance(problem, HttpStatusError) and problem.status < 500 and problem.status != 429:
                    raise
                latest = problem
                continue
            if self._on_reopen is not None:
                self._on_reopen()
            return
        raise TransportClosed(f"the subscription broke, and was not to be had again: {latest}") from latest

    # -- reading --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        ahead = self._ahead
        event = self._step() if ahead is None else ahead.take(Deadline(None))
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout: float | None = None) -> Event:
        """One event, as iterating gives it, but waited for at most so many seconds.

        From the first call on the thread `mcp-listen` reads ahead, and iterating takes from what it has read; that
        thread also calls `on_reopen`.

        Raises: RequestTimeout: there was none in that time; ask again. TransportClosed: there will be none any more.
            And as iterating does.
        Blocks: at most `timeout` seconds; None: until there is one, or the end.
        """
        with self._lock:
            ahead = self._ahead
            if ahead is None and self._entered and not self._over.is_set():
                ahead = self._ahead = Ahead("mcp-listen", self._step)
                ahead.start()
        event = self._step() if ahead is None else ahead.take(Deadline(timeout))
        if event is None:
            raise TransportClosed("the subscription has ended")
        return event

    def _step(self) -> Event | None:
        """The next event; None at the end. What it raises ends the iteration too."""
        if not self._entered:
            raise LocalProtocolError("enter it first: `with client.listen(...) as events`")
        try:
            while not self._done and not self._over.is_set():
                event = self._take()
                if event is not None:
                    return event
        except BaseException as problem:
            self._done = True
            # What close() interrupts may fail in many ways, and means one thing.
            if not (isinstance(problem, McpError) and self._over.is_set()):
                raise
        self._done = True
        return None

    def _take(self) -> Event | None:
        """Read one message; the event that it is, or None where it is something else, and has been seen to."""
        try:
            message = next(self._messages, None)
            if message is None:
                raise TransportClosed("the stream ended without a response")
        except TransportClosed as broke:
            with self._lock:
                self._stream = None
            if not self._over.is_set():
                self._open_again(broke)
            return None
        method, params = message.get("method"), message.get("params") or {}
        if method in self._methods and (method != UPDATED or isinstance(params.get("uri"), str)):
            return Event(cast(str, method), params)
        if method is None:
            self._answered(message)
        elif method == "notifications/cancelled":
            # The result may follow, and may not: this says it already (basic/patterns/cancellation).
            self._ended(params.get("reason"))
        else:
            log.warning("ignored %s, which was not asked for, or says nothing", method)
        return None

    def _answered(self, message: JsonObject) -> None:
        """The response: the server has ended the subscription."""
        if "error" in message:
            _raise_error(message["error"])
        kind = message["result"].get("resultType", "complete")
        if kind != "complete":
            raise RemoteProtocolError(f"the server ended the subscription with a result of the kind {kind!r}")
        self._ended(None)

    def _ended(self, reason: Any) -> None:
        log.info("the server has ended the subscription%s", f": {reason}" if reason else "")
        self.graceful = self._done = True
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close("ended by the server")


def _first(arriving: Iterator[JsonObject]) -> JsonObject:
    message = next(arriving, None)
    if message is None:
        raise TransportClosed("the stream ended before the subscription was acknowledged")
    if "error" in message:
        _raise_error(message["error"])
    return message


def _raise_error(body: JsonObject) -> NoReturn:
    raise ErrorResponse(body["code"], body["message"], body.get("data"))
