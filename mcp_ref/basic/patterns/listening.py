"""Listening: the client's half of `subscriptions/listen`.

Spec:      basic/patterns/subscriptions, basic/patterns/cancellation (2026-07-28)
Upholds:   spec_notes/basic/patterns/subscriptions.md
Reads:     basic/patterns/subscription_types, basic/patterns/ahead
Not here:  the server's half (basic/patterns/subscriptions); which connection a stream is on, and how it is given up
           there (basic/patterns/requester)

    with client.listen(tools=True, resources=["file:///x"]) as events:
        for event in events: ...

                 open_stream               acknowledged                 response, or notifications/cancelled
    (entered) ---------------> waiting -------------------> listening ----------------------------------------> ended
                                  ^                             | the stream breaks
                                  +---------- back-off <--------+      close(), from everywhere: ended

A stream is read in the thread that iterates. What has no thread cannot be read for a while and then left alone without
a break, so `get`, which waits for a time, has a thread read ahead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn, Protocol, Self, cast
from weakref import WeakSet

from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.patterns.ahead import Ahead
from mcp_ref.basic.patterns.subscription_types import (
    LIST_CHANGES,
    LISTEN,
    UPDATED,
    SubscriptionFilter,
    acknowledged,
    unheeded,
)
from mcp_ref.errors import (
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    TransportClosed,
)

__all__ = ["Event", "Listening", "Opening", "Stream", "listen"]

log = logging.getLogger(__name__)

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
