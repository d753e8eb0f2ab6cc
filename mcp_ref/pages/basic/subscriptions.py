"""Subscriptions: `subscriptions/listen`, `notifications/subscriptions/acknowledged`.

A client asks to be told of changes. The request stays open: the acknowledgement comes first, then a notification for
each change, and the response is the end.

Spec:      basic/patterns/subscriptions (2026-07-28)
Upholds:   spec_notes/basic/patterns/subscriptions.md
Not here:  `resources/subscribe` of the session era (server/resources); carrying a subscription over HTTP
           (streamable_http/server); what waits to be written (kit/threads/outbox)
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NotRequired, Self, TypedDict, cast

from mcp_ref.errors import (
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
from mcp_ref.kit.threads.deadline import Deadline, check_seconds, has_ended
from mcp_ref.kit.threads.forks import check_process
from mcp_ref.kit.threads.outbox import Outbox
from mcp_ref.kit.typed.checking import SchemaMismatch, checker
from mcp_ref.kit.typed.uri_template import covers
from mcp_ref.pages.basic.utilities import cancelled_params
from mcp_ref.pages.basic.versioning import SUBSCRIPTION_ID, complete
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method
from mcp_ref.wire.negotiated import declares
from mcp_ref.wire.served import WRITE_TIMEOUT, ServedRequest
from mcp_ref.wire.types import Implementation, NotificationParams, RequestId, RequestParams, ResultType

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.connection.connection import Connection, SentRequest

log = logging.getLogger(__name__)

LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
TASK_TOLD: Final = "notifications/tasks"

LIST_CHANGES: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
"""Which flag of a filter asks for which notification."""

_FIELDS: Final = {**LIST_CHANGES, UPDATED: "resourceSubscriptions", TASK_TOLD: "taskIds"}
"""Which field of a filter does."""

_NEEDS: Final = {
    "toolsListChanged": "tools.listChanged",
    "promptsListChanged": "prompts.listChanged",
    "resourcesListChanged": "resources.listChanged",
    "resourceSubscriptions": "resources.subscribe",
}
"""The capability of the server without which it does not honour a field of a filter."""


class SubscriptionFilter(TypedDict):
    """The notifications that a client asks for, or a server honours; a kind that is left out is not asked for."""

    toolsListChanged: NotRequired[bool]
    promptsListChanged: NotRequired[bool]
    resourcesListChanged: NotRequired[bool]
    resourceSubscriptions: NotRequired[list[str]]


class SubscriptionsListenRequestParams(RequestParams):
    """The notifications to listen for."""

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

MAX_LISTENED: Final = 64 << 20
"""Characters of the URIs and ids in all of their filters."""

MAX_URIS: Final = 10_000
"""URIs in one filter."""

About = tuple[str, str]
"""A field of a filter that an extension has, and one of the values in it."""

MAX_PENDING: Final = 10_000
"""Messages that wait for one client; from there on a change is told as a change of the URI that was asked for."""


class Subscription:
    """One `subscriptions/listen` that is open.

    Args:
        incoming: the request; its `notify` carries everything up to the answer.
        honoured: the part of its filter that is honoured.
        forget: called once it gets no further notifications, for whatever reason.

    Attributes:
        id: of the request, its JSON type kept: 1 and "1" are two subscriptions.
        also: what extensions tell it of: fields of the filter, each with a value; and what was written of it last.

    Its transport gives `carry` a function that has `flush` called by a thread that may block; when `flush` returns
    True, the subscription has ended gracefully and the transport sends `closing()` as the result of the request.

    Threads: any.
    Spec: basic/patterns/subscriptions
    """

    def __init__(self, incoming: ServedRequest, honoured: SubscriptionFilter, among: Subscriptions) -> None:
        self.id, self.incoming, self.honoured = incoming.id, incoming, honoured
        self._uris = frozenset(honoured.get("resourceSubscriptions", ()))
        self._among = among
        self.also: dict[About, int | None] = {}
        self._reason: str | None = None
        self._lost = False
        self._outbox: Outbox[tuple[JsonObject, About | None]] = Outbox()
        self.carry = self._outbox.on_work
        # MUST: the acknowledgement is the first message with the subscription's id, and names what is honoured
        # (basic/patterns/subscriptions#acknowledgment)
        self._put_tagged(ACKNOWLEDGED, {"notifications": honoured})

    @property
    def gone(self) -> bool:
        """Return whether nobody listens any more: it was cancelled, its client has hung up, or a write failed.

        Over HTTP this asks the connection. A subscription that is gone is forgotten, and gets no closing.
        """
        return self.incoming.cancelled or self._lost

    def put(self, method: str, params: JsonObject | None = None, about: About | None = None) -> None:
        """Queue a notification if the filter asks for it; it takes the place of the same one that still waits.

        Args:
            about: of an extension, what in the filter asks for it.

        Never blocks. Nothing happens once the subscription has ended or is gone.
        """
        params = params or {}
        # A server MUST NOT send a notification that the client did not ask for
        # (basic/patterns/subscriptions#opening-a-stream)
        wanted: object
        if about is not None:
            wanted = about if about in self.also else None
        elif method != UPDATED:
            wanted = self.honoured.get(LIST_CHANGES.get(method, ""))
        else:
            wanted = covering(params["uri"], self._uris)
            if wanted is not None and len(self._outbox.waiting) >= MAX_PENDING:
                params = {**params, "uri": wanted}
        if wanted is not None:
            self._put_tagged(method, params, about)

    def _put_tagged(self, method: str, params: Any, about: About | None = None) -> None:
        # MUST: every notification carries `io.modelcontextprotocol/subscriptionId`, the id of the listen request, in
        # its `_meta` (basic/patterns/subscriptions#receiving-notifications; basic/index#_meta)
        meta = {**params.get("_meta", {}), SUBSCRIPTION_ID: self.id}
        message = messages.notification(method, {**params, "_meta": meta})
        self._outbox.put((method, about or params.get("uri")), (message, about))

    def flush(self) -> bool:
        """Write what waits, in order. While another thread does, this returns at once.

        Returns: True once in the subscription's life, to the caller that must send the closing now: the server has
            ended it, and all that was put is written.
        Blocks: until the client has read enough, each message for at most a minute.
        """

        def write(waiting: tuple[JsonObject, About | None]) -> None:
            message, about = waiting
            if about is not None:
                # A state that several threads have read, each for a reason of its own, is told once.
                before, self.also[about] = self.also[about], hash(messages.encode(message))
                if before == self.also[about]:
                    return
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
        """End it: the client has cancelled it, or its connection is over. Never blocks."""
        log.debug("the subscription %r is gone: %s", self.id, reason)
        self._lost = True
        self._among.pop(self, None)
        self._outbox.discard()

    def end(self, reason: str = "the server ends it") -> None:
        """End it gracefully: what waits is still written, then the closing. Idempotent; never blocks.

        Spec: basic/patterns/subscriptions#graceful-closure
        """
        self._reason = self._reason or reason
        if self._outbox.close():
            self._among.pop(self, None)

    def closing(self) -> JsonObject:
        """Return the result of the request, to be sent once `flush` has said so; the sender adds the server's
        identity.
        """
        return {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: self.id}}

    def cancelled_notification(self) -> JsonObject:
        """Return the `notifications/cancelled` that goes with the closing where subscriptions share a channel.

        Spec: basic/patterns/cancellation; schema CancelledNotification ("on stdio")
        """
        # MUST: over stdio, where nothing can be closed, a server that ends a subscription says so by
        # `notifications/cancelled` with its id (basic/patterns/cancellation#;
        # basic/patterns/cancellation#behavior-requirements)
        params = {**cancelled_params(self.id, self._reason), "_meta": {SUBSCRIPTION_ID: self.id}}
        return messages.notification("notifications/cancelled", params)


def covering(uri: str, asked: Container[str]) -> str | None:
    """Return the one of the URIs asked for that a change of this one concerns: itself, or one above it, the longest
    first.

    It is looked up, not searched for: whatever covers a URI is a beginning of it that ends before or behind a "/".
    """
    if uri in asked:
        return uri
    ends = (end for end in range(len(uri) - 1, -1, -1) if uri[end] == "/")
    beginnings = (above for end in ends for above in (uri[: end + 1], uri[:end]))
    return next((above for above in beginnings if above in asked and covers(above, uri)), None)


class Subscriptions(dict[Subscription, int]):
    """The open subscriptions of a server, whatever transports they came by.

    Two clients may use the same id: a subscription is found by itself.

    Threads: any; each use is one operation on a dict. The values are the characters in their filters.
    """

    def open(
        self,
        incoming: ServedRequest,
        params: SubscriptionsListenRequestParams,
        capabilities: JsonObject,
        also: Mapping[str, Sequence[str]] | None = None,
    ) -> Subscription:
        """Answer `subscriptions/listen` as far as it is answered at once; the transport carries what is returned.

        Args:
            params: checked against their type already.
            capabilities: what the server declares. What it does not declare is not honoured, and never sent.
            also: what is honoured of the fields of extensions.

        Raises: InvalidParams: it names more than 10,000 URIs. InternalError: too many are open.
        Spec: basic/patterns/subscriptions#opening-a-stream
        """
        asked = params["notifications"]
        if len(asked.get("resourceSubscriptions", ())) > MAX_URIS:
            path = "params.notifications.resourceSubscriptions"
            raise InvalidParams(f"Invalid params: {path} has more than {MAX_URIS} URIs", {"path": path})
        honoured: JsonObject = {}
        for field, capability in _NEEDS.items():
            value = asked.get(field)
            # MUST: the acknowledgement leaves out the types of notification that the server does not support
            # (basic/patterns/subscriptions#acknowledgment)
            if value and declares(capabilities, capability):
                honoured[field] = list(dict.fromkeys(value)) if isinstance(value, list) else value
        honoured |= also or {}
        size = sum(len(each) for values in honoured.values() if isinstance(values, list) for each in values)
        if len(self) >= MAX_OPEN or sum(list(self.values())) + size > MAX_LISTENED:
            raise InternalError("Too many subscriptions")
        subscription = Subscription(incoming, cast(SubscriptionFilter, honoured), self)
        subscription.also = {(name, each): None for name, values in (also or {}).items() for each in values}
        self[subscription] = size
        incoming.attach(subscription.lose)
        return subscription


class ChannelSubscriptions:
    """The subscriptions of one client over a channel that other messages share, such as stdio.

    Args:
        server_info: the `Implementation` of the server, for the result that ends each of them.
        over: whether the server closes already, so that each ends at once.

    Threads: any. A worker writes each time that there is something to write; none is held up in between.
    """

    def __init__(self, connection: Connection, server_info: JsonObject, over: bool = False) -> None:
        self._connection, self._server_info = connection, server_info
        self._open: set[Subscription] = set()
        self._changed = threading.Condition(threading.Lock())  # guards _open and _over; told when one of _open goes
        self._over = over

    def carry(self, subscription: Subscription) -> None:
        """Write what a subscription has to say, from now to its end."""
        with self._changed:
            self._open.add(subscription)
        subscription.carry(partial(self._connection.run_soon, partial(self._write, subscription)))
        if self._over:
            subscription.end("the server closes")
            if self._connection.closed is not None:
                self._write(subscription)  # here: the workers take nothing more

    def _write(self, subscription: Subscription) -> None:
        """Write what is pending; at the end the two messages that the pages ask for, in this order."""
        ended = subscription.flush()
        try:
            if ended:
                # SHOULD: a server that ends a subscription answers the `subscriptions/listen` request with an empty
                # result (basic/patterns/subscriptions#graceful-closure). It goes first: some clients take what comes
                # next for a loss of the subscription and read no further.
                self._connection.answer(subscription.incoming, complete(subscription.closing(), self._server_info))
                if not subscription.gone:
                    # MUST: over stdio a server ends a subscription with `notifications/cancelled` and the id of its
                    # request (basic/patterns/cancellation#behavior-requirements)
                    self._connection.transport.send(subscription.cancelled_notification(), Deadline(WRITE_TIMEOUT))
        except (McpError, OSError) as problem:
            log.debug("could not say that the subscription %r has ended: %s", subscription.id, problem)
        finally:
            if ended or subscription.gone:
                with self._changed:
                    self._open.discard(subscription)
                    self._changed.notify_all()

    def end(self, timeout: float) -> None:
        """End all of them. Blocks: until that is written, at most `timeout` seconds."""
        with self._changed:
            still_open, self._over = list(self._open), True
        for subscription in still_open:
            subscription.end("the server closes")
        if self._connection.closed is not None:
            # Workers take nothing more; but a client that has closed its end may go on reading. Daemon: it may not.
            last_words: Callable[[], object] = partial(list, map(self._write, still_open))
            threading.Thread(target=last_words, name="mcp-farewell", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: not self._open, timeout)


# -- the client's half ----------------------------------------------------------------------------------------------


REOPEN_INTERVALS: Final = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0)
"""Seconds before each attempt to reopen a broken stream. A part is left to chance: other clients do the same."""

STEADY_INTERVAL: Final = 5.0
"""Seconds that a stream must have lasted for its break to be the first in a row."""

_JOIN_TIMEOUT = 2.0  # seconds that close() waits for the thread that reads


class Event(NamedTuple):
    """A change that the server told: the notification's method, and its params with the subscription's id in `_meta`.

    The methods are `notifications/tools/list_changed`, `notifications/prompts/list_changed`,
    `notifications/resources/list_changed` and `notifications/resources/updated`, which has a `uri`.
    """

    method: str
    params: JsonObject


def listen(
    self: Client,
    *,
    tools: bool = False,
    prompts: bool = False,
    resources: Iterable[str] = (),
    resource_list: bool = False,
    tasks: Iterable[str] = (),
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
        tasks: ids of tasks (extensions/tasks); their present state is told first.
        timeout: seconds for the server to acknowledge it; from then on it has no limit.
        reopen: when the connection breaks, ask again, ten times in a row within a minute at most.
        on_reopen: called, in the thread that iterates, when that has succeeded: changes in between were not told.

    Raises: ValueError: nothing is asked for. TypeError: `resources` is one string.
    Blocks: not at all; entering the block does. Threads: any.
    Spec: basic/patterns/subscriptions
    """
    if isinstance(resources, str):
        raise TypeError(f"resources must be a list of URIs, not the string {resources!r}")
    check_seconds("timeout", timeout)
    flags = {"toolsListChanged": tools, "promptsListChanged": prompts, "resourcesListChanged": resource_list}
    asked: JsonObject = {flag: True for flag, wanted in flags.items() if wanted}
    if uris := list(dict.fromkeys(resources)):
        asked["resourceSubscriptions"] = uris
    if task_ids := list(dict.fromkeys(tasks)):
        asked["taskIds"] = task_ids
    if not asked:
        raise ValueError("listen for at least one of tools, prompts, resource_list, resources and tasks")
    return Listening(self, cast(SubscriptionFilter, asked), timeout, reopen, on_reopen)


class Listening(Iterator[Event]):
    """One subscription: a context manager and an iterator of `Event`. `Client.listen` makes it, with its arguments.

    Entering sends the request and waits for the acknowledgement. Iterating blocks for each event, and ends when the
    server ends the subscription or when `close` was called; when the connection breaks for good, it raises.

    Attributes:
        asked, honoured: the filter that was sent, and what the server has acknowledged of it.
        graceful: whether the server has ended it, and said so. closed: whether `close` was called.

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
        client: Client,
        asked: SubscriptionFilter,
        timeout: float | None,
        reopen: bool,
        on_reopen: Callable[[], None] | None,
    ) -> None:
        self.asked, self.honoured = asked, cast(SubscriptionFilter, {})
        self.graceful = self.closed = False
        self._client, self._timeout, self._reopen, self._on_reopen = client, timeout, reopen, on_reopen
        self._opened_at: float | None = None  # when the present stream was acknowledged; of the thread that reads
        self._ended = False  # of the thread that iterates
        self._changed = threading.Condition()  # guards `closed` and the fields below, and tells of changes
        self._process: int | None = None  # in which it was entered
        self._thread: threading.Thread | None = None
        self._opened = False  # whether a stream was acknowledged
        self._pending: SentRequest | None = None  # the stream
        # At most one: an event; True: another stream was opened; or the end: False: the server says so; or a problem.
        self._found: list[Event | bool | BaseException] = []

    # -- opening and closing

    def __enter__(self) -> Self:
        with self._changed:
            if self._process is not None:
                raise RuntimeError("a subscription can be entered only once; call listen() for another one")
            self._process = os.getpid()
            # Daemon: a program that ends without close() must end, though the server has not.
            self._thread = threading.Thread(target=self._run, name="mcp-listen", daemon=True)
        self._client.listenings.add(self)
        try:
            self._thread.start()
            with self._changed:
                self._changed.wait_for(lambda: self._opened or self._found or self.closed)
            if not self._opened and self._next(None) is None:
                raise RequestCancelled("the subscription was closed")
        except BaseException:
            self.close("given up by its caller")
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def refused(self) -> SubscriptionFilter:
        """The part of the filter that the server does not honour; empty if it honours all."""
        asked, honoured = cast(JsonObject, self.asked), cast(JsonObject, self.honoured)
        rest: JsonObject = {flag: True for flag in asked if asked[flag] is True and honoured.get(flag) is not True}
        told = frozenset(honoured.get("resourceSubscriptions", ()))
        if untold := [uri for uri in asked.get("resourceSubscriptions", ()) if uri not in told]:
            rest["resourceSubscriptions"] = untold
        return cast(SubscriptionFilter, rest)

    def close(self, reason: str = "no longer wanted") -> None:
        """End the subscription, and with it the iteration: the server is told. Idempotent.

        The thread `mcp-listen` ends because its stream, its pause before the next attempt, or its wait for the one who
        iterates does.

        Blocks: for that thread, which may have one message to write, for two seconds at most.
        Threads: any, also while another one iterates.
        Spec: basic/patterns/subscriptions#cancellation
        """
        if self._process not in (None, os.getpid()):
            return
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            pending, thread = self._pending, self._thread
        if pending is not None:
            pending.give_up(RequestCancelled(reason))
        if thread is not None:
            has_ended(thread, Deadline(_JOIN_TIMEOUT))

    # -- reading

    def __next__(self) -> Event:
        event = self._next(None)
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout: float | None = None) -> Event:
        """Return one event, as iterating gives it, but waited for at most so many seconds.

        Raises: RequestTimeout: there was none in that time; ask again. TransportClosed: there will be none any more.
            And as iterating does.
        Blocks: at most `timeout` seconds, and for `on_reopen`; None: until there is one, or the end.
        """
        event = self._next(timeout)
        if event is None:
            raise TransportClosed("the subscription has ended")
        return event

    def _next(self, timeout: float | None) -> Event | None:
        """Return the next event, None at the end. What ends it early is raised once."""
        if self._process is None:
            raise LocalProtocolError("enter it first: `with client.listen(...) as events`")
        if self._process != os.getpid():
            check_process("the subscription", self._process)
        deadline = Deadline(timeout)
        while not self._ended:
            with self._changed:
                while not self._changed.wait_for(lambda: self._found or self.closed, deadline.left()):
                    deadline.check("waiting for an event")
                found = None if self.closed else self._found.pop()
                self._changed.notify_all()
            if isinstance(found, Event):
                return found
            if found is not True:
                self._ended, self.graceful = True, found is False
                if isinstance(found, BaseException):
                    raise found
            elif self._on_reopen is not None:
                self._on_reopen()
        return None

    # -- the thread `mcp-listen`

    def _run(self) -> None:
        """Read one stream after another, until the server ends one, or it can go on no longer."""
        attempt, end = 0, cast(bool | BaseException, False)
        try:
            while (broke := self._read_stream()) is not None:
                if self._opened_at is not None and time.monotonic() - self._opened_at >= STEADY_INTERVAL:
                    attempt = 0
                if attempt == len(REOPEN_INTERVALS):
                    raise TransportClosed(f"the subscription broke and could not be reopened: {broke}") from broke
                from random import uniform

                pause = REOPEN_INTERVALS[attempt] * uniform(0.5, 1)
                attempt += 1
                log.info("the subscription broke: %s; asking for it again in %.2f s", broke, pause)
                with self._changed:
                    self._changed.wait_for(lambda: self.closed, pause)
        except BaseException as problem:
            end = problem
        self._put(end)

    def _put(self, found: Event | bool | BaseException) -> None:
        """Hand over what was found once what was found before is taken: until then nothing more is read."""
        with self._changed:
            self._changed.wait_for(lambda: not self._found or self.closed)
            self._found[:] = [found]
            self._changed.notify_all()

    def _read_stream(self) -> McpError | None:
        """Ask for a stream, and read it. Returns None if the server has ended it; a problem, if it may be asked again.

        Raises: what ends the subscription.
        """
        again, self._opened_at, deadline = self._opened, None, Deadline(self._timeout)
        try:
            # MUST: after the connection was lost the client sends `subscriptions/listen` again on a new one
            # (basic/patterns/subscriptions#graceful-closure)
            connection = self._client.connection_for_stream(deadline)
            pending = connection.request_type(LISTEN, {}, deadline)
            pending.on_notification = self._notice
            with self._changed:
                if self.closed:
                    raise RequestCancelled("the subscription was closed")
                self._pending = pending
            ended = connection.request(LISTEN, {"notifications": self.asked}, pending=pending)
        except (TransportClosed, RequestTimeout, HttpStatusError) as problem:
            passes = not isinstance(problem, HttpStatusError) or problem.status >= 500 or problem.status == 429
            if self._reopen and (isinstance(problem, TransportClosed) if self._opened_at else again and passes):
                return problem
            raise
        # The end: the server says it with the response or with `notifications/cancelled`; after the one, the other may
        # follow or not.
        if self._opened_at is None:
            raise RemoteProtocolError("the server ended the subscription before it acknowledged it")
        kind = ended.get("resultType", "complete")
        if kind != "complete":
            raise RemoteProtocolError(f"the server ended the subscription with a result of the kind {kind!r}")
        log.info("the server has ended the subscription%s", f": {ended['reason']}" if "reason" in ended else "")
        return None

    def _notice(self, message: JsonObject) -> None:
        """Take a notification of the stream: first the acknowledgement, which lifts the deadline; then events."""
        method, params, connection = message["method"], message.get("params") or {}, self._client.session.connection
        if self._opened_at is not None:
            if _FIELDS.get(method) in self.asked and (method != UPDATED or isinstance(params.get("uri"), str)):
                self._put(Event(method, params))
            else:
                connection.complain("ignored %s, which was not asked for, or says nothing", method)
            return
        # MUST: `notifications/subscriptions/acknowledged` comes before any other message of the subscription
        # (basic/patterns/subscriptions#acknowledgment)
        if method != ACKNOWLEDGED:
            raise RemoteProtocolError(f"the server sent {method} before it acknowledged the subscription")
        try:
            checker(SubscriptionsAcknowledgedNotificationParams, connection.terms.revision)(params, "params")
        except SchemaMismatch as mismatch:
            raise RemoteProtocolError(f"{ACKNOWLEDGED} is malformed: {mismatch}") from None
        self.honoured = params["notifications"]
        self._opened_at = time.monotonic()
        # SHOULD: the client looks at which of the notifications it asked for the server will send
        # (basic/patterns/subscriptions#acknowledgment)
        if refused := self.refused:
            log.warning("the server will not report everything that was asked for; it leaves out %s", refused)
        with self._changed:
            assert self._pending is not None
            self._pending.deadline.lift()
            again, self._opened = self._opened, True
            self._changed.notify_all()
        if again:
            self._put(True)
