"""Side: what a peer asks of the role that it serves.

Spec:      basic/index#messages; basic/lifecycle
Not here:  the two that there are: server/session and client/session
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from mcp_ref import messages
from mcp_ref.agreement import Rule, Terms
from mcp_ref.basic.transports.transport import Transport
from mcp_ref.basic.utilities import UNCANCELLABLE, cancelled_params
from mcp_ref.basic.versioning import LOG_LEVEL, SUBSCRIPTION_ID, is_modern
from mcp_ref.errors import (
    ErrorResponse,
    HttpStatusError,
    InternalError,
    InvalidRequest,
    LocalProtocolError,
    McpError,
    Refusal,
    RemoteProtocolError,
    RequestCancelled,
    TransportClosed,
)
from mcp_ref.incoming import WRITE_TIMEOUT, BatchReply, Incoming, Reply
from mcp_ref.machinery.deadline import Cancel, Clock, Deadline
from mcp_ref.machinery.workers import Workers, before_block
from mcp_ref.messages import JsonObject
from mcp_ref.methods import DEFAULT, Options

log = logging.getLogger(__name__)


class Side(Protocol):
    """What a peer asks of the role that it serves: a server's session, or a client."""

    def admit(self, method: str, params: JsonObject) -> JsonObject | None:
        """Decide on a request in the order of arrival; the result where it is known at once, else None.

        Runs in the reader: no user's code, no writing. Raises Refusal.
        """
        ...

    def answer(self, incoming: Incoming) -> JsonObject | None:
        """The result of a request; None where it comes later, by `Peer.finish`. Runs in a worker.

        Raises: Refusal for an error response.
        """
        ...

    def take(self, method: str, params: JsonObject) -> None:
        """Note a notification in the order of arrival. Runs in the reader: no user's code, no writing."""
        ...

    def may_send(self, method: str, *, is_request: bool) -> None:
        """Raise LocalProtocolError where the lifecycle does not allow this message now."""
        ...

    def lost(self, reason: McpError) -> None:
        """Nothing more will arrive. Called once, in whatever thread noticed."""
        ...


# -- row -------------------------------------------------------------------------------------------------


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


# -- requester -------------------------------------------------------------------------------------------


MOST_PROGRESS = 10_000
"""Reports of progress that may wait for a caller whose callback is slow; what comes on top is dropped."""


class Requester:
    """The asking half of a `Peer`, which see for the arguments.

    Threads: `request`, `request_batch` and `notify` by any; the others by the transport's reader.
    """

    def __init__(
        self, transport: Transport, side: Side, terms: Terms, timeout: float | None, clock: Clock | None
    ) -> None:
        self.side, self.terms = side, terms
        self._transport, self._timeout, self._clock = transport, timeout, clock
        # Guards the three fields below, and those of Peer; nothing is sent and no user's code runs inside.
        self._lock = threading.Lock()
        self._rows: dict[tuple[type, Any], Row] = {}
        self._next_id = 1
        self._closed: McpError | None = None

    @property
    def closed(self) -> McpError | None:
        """Why the conversation is over, or None."""
        return self._closed

    def deadline(self, options: Options) -> Deadline:
        """The time limit of a call, as its options (or the peer's own `timeout`) say; it runs from now on."""
        timeout = options.get("timeout", DEFAULT)
        # A handler gives its place up before it waits. The time of its own calls does not stand still: that handler is
        # what makes the time of others do so.
        clock = None if before_block() else self._clock
        return Deadline(
            self._timeout if timeout is DEFAULT else timeout, options.get("max_timeout"), clock or time.monotonic
        )

    def request(
        self,
        method: str,
        params: JsonObject | None,
        options: Options | None = None,
        asker: Incoming | None = None,
        deadline: Deadline | None = None,
    ) -> JsonObject:
        """Send a request and wait for its result.

        Args:
            asker: the request whose handler asks this; cancelling that one ends this one too.
            deadline: of the call that this request is a part of; None: the request is a call by itself.

        Blocks: until the response, at most until the deadline.
        Raises: LocalProtocolError (nothing was sent), ErrorResponse, RemoteProtocolError, RequestTimeout,
            RequestCancelled, TransportClosed.
        """
        options, terms = options or {}, self.terms
        rule = terms.sent.get(method) or terms.sending(method)
        if not terms.open:
            self._check_open()
            self.side.may_send(method, is_request=True)
        deadline = deadline or self.deadline(options)
        row = self._register(method, asker)
        loses = rule.losing is None or not rule.losing.isdisjoint(params or ())
        if loses or options or terms.envelope:
            params = self._dress(params, rule.project if loses else None, options, row.id)
        message = messages.request(row.id, method, params)
        cancel = options.get("cancel")
        try:
            if cancel is not None:
                _attach(cancel, row)
            carrier = self._transport if asker is None else asker
            arriving = carrier.exchange(message, row, deadline)
            row.sent = True
            answer = _answer(arriving, method, options, deadline)
        except BaseException as reason:
            self._abandon(row, reason, asker)
            raise
        finally:
            if cancel is not None:
                cancel.detach(row.cancelled)
        return _result(answer, rule.check)

    def request_batch(
        self, calls: list[tuple[str, JsonObject | None]], options: Options
    ) -> list[JsonObject | McpError]:
        """Send several requests as one JSON-RPC batch; their results or errors, in the order asked.

        Raises: LocalProtocolError where the revision has no batches, or for `initialize` in one; RequestTimeout,
            TransportClosed, RequestCancelled for the whole.
        Spec: 2025-03-26/basic/index#batching
        """
        self._check_open()
        rules = self._check_batch([method for method, _ in calls])
        deadline = self.deadline(options)
        rows = [self._register(method, None) for method, _ in calls]
        cancel = options.get("cancel")
        try:
            batch = [
                messages.request(row.id, row.method, self._dress(params, rule.project, options, row.id))
                for (_, params), rule, row in zip(calls, rules, rows, strict=True)
            ]
            if cancel is not None:
                for row in rows:
                    _attach(cancel, row)
            self._transport.send(batch, deadline)
            for row in rows:
                row.sent = True
            return [_outcome(row, rule.check, options, deadline) for row, rule in zip(rows, rules, strict=True)]
        except BaseException as reason:
            for row in rows:
                self._abandon(row, reason)
            raise
        finally:
            if cancel is not None:
                for row in rows:
                    cancel.detach(row.cancelled)

    def stream(self, method: str, params: JsonObject | None, options: Options, deadline: Deadline) -> Stream:
        """Send a request whose answer ends a stream of notifications that belong to it.

        Blocks: until it is sent, which over HTTP is when the first message is read. Reading the stream blocks until the
            deadline, or for as long as that is lifted.
        Raises: as `request`.
        Spec: 2026-07-28/basic/patterns/subscriptions
        """
        self._check_open()
        rule = self.terms.sending(method)
        row = self._register(method, None)
        row.streams = True
        message = messages.request(row.id, method, self._dress(params, rule.project, options, row.id))
        try:
            arriving = self._transport.exchange(message, row, deadline)
        except BaseException as reason:
            self._abandon(row, reason)
            raise
        row.sent = True
        return Stream(row, arriving, deadline, partial(self._abandon, row))

    def _check_batch(self, methods: list[str]) -> list[Rule]:
        """The rules of the requests of a batch; LocalProtocolError where they may not stand in one."""
        if not self.terms.revision.batching:
            raise LocalProtocolError(f"revision {self.terms.revision} has no batches")
        if not methods:
            raise LocalProtocolError("a batch must not be empty")
        # MUST NOT: initialize in a batch (2025-03-26/basic/lifecycle#initialization)
        if alone := UNCANCELLABLE & set(methods):
            raise LocalProtocolError(f"{', '.join(alone)} must not be part of a batch")
        if not self.terms.open:
            self.side.may_send(methods[0], is_request=True)
        return [self.terms.sending(method) for method in methods]

    def notify(
        self,
        method: str,
        params: JsonObject | None = None,
        reply: Incoming | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Send a notification; one that belongs to a request travels with its reply, and never after its answer.

        Blocks: until it is written, at most until the deadline (None: the peer's timeout).
        Raises: LocalProtocolError (nothing was sent), TransportClosed, RequestTimeout.
        """
        self._check_open()
        terms = self.terms
        rule = terms.notified.get(method) or terms.sending(method, "notification")
        if not terms.open:
            self.side.may_send(method, is_request=False)
        if params is not None and rule.project is not None:
            params = rule.project(params)
        message = messages.notification(method, params)
        if reply is not None:
            reply.notify(message)
        else:
            self._transport.send(message, deadline or Deadline(WRITE_TIMEOUT))

    def _check_open(self) -> None:
        if self._closed is not None:
            raise TransportClosed.before(self._closed)

    def _register(self, method: str, asker: Incoming | None) -> Row:
        """A row in the table of what we wait for; the check for the end and the entry are one step."""
        if asker is not None and asker.cancelled:
            raise RequestCancelled(asker.reason or "cancelled")
        with self._lock:
            if self._closed is not None:
                raise TransportClosed.before(self._closed)
            row = Row()
            row.id, row.method = self._next_id, method
            self._next_id += 1
            self._rows[(int, row.id)] = row
        if asker is not None:
            asker.asked(row.give_up)
        return row

    def _dress(
        self, params: JsonObject | None, project: Callable[[JsonObject], Any] | None, options: Options, row_id: int
    ) -> JsonObject | None:
        """The params as they go out: shaped for the revision, with the `_meta` that was asked for."""
        try:
            if params is not None and project is not None:
                params = project(params)
            asked = options.get("meta") or {}
            for key in asked:
                if key == "progressToken":
                    raise LocalProtocolError("progressToken is set by on_progress, not by meta")
                messages.check_meta_key(key, self.terms.revision.reserved_meta_label)
            # MUST: what a request says of itself goes with each one (2026-07-28/basic/index#_meta)
            meta = {**self.terms.envelope, **asked}
            if meta and self.terms.envelope and (level := options.get("log_level")) is not None:
                meta[LOG_LEVEL] = level
            if options.get("on_progress") is not None or options.get("max_timeout") is not None:
                # MUST: unique among the active requests (basic/utilities/progress#progress-flow); our ids are
                meta["progressToken"] = row_id
            return {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **meta}} if meta else params
        except BaseException:
            self._forget(row_id)
            raise

    def _forget(self, request_id: int) -> Row | None:
        with self._lock:
            return self._rows.pop((int, request_id), None)

    def _abandon(self, row: Row, reason: BaseException, asker: Incoming | None = None) -> None:
        """Forget a request that ended without an answer, and tell the peer where it may be working on it."""
        owned = self._forget(row.id) is not None
        # MUST: only what was issued; MUST NOT: initialize (basic/utilities/cancellation#behavior-requirements)
        if (
            not owned
            or not row.sent
            or row.method in UNCANCELLABLE
            or isinstance(reason, TransportClosed | HttpStatusError)
        ):
            return
        if self.terms.revision.disconnect_is_cancellation and getattr(self._transport, "hangs_up", False):
            # The end of its connection is the signal (2026-07-28/basic/patterns/cancellation).
            log.info("hung up on %s (id %d)", row.method, row.id)
            return
        # The text of an exception that is not ours may hold secrets.
        why = str(reason) if isinstance(reason, McpError) else "given up by its caller"
        log.info("gave up %s (id %d): %s", row.method, row.id, why)
        try:
            rule = self.terms.sending("notifications/cancelled", "notification")
            params = cancelled_params(row.id, why)
            message = messages.notification("notifications/cancelled", rule.project(params) if rule.project else params)
            # Where the question went, if that is still open: on another stream this might arrive before it.
            if asker is None or not asker.notify(message, Deadline(1)):
                self._transport.send(message, Deadline(1))
        except (McpError, OSError) as problem:
            log.debug("could not tell the peer that %s was given up: %s", row.method, problem)

    # -- what comes back ------------------------------------------------------------------------------------------

    def take_progress(self, message: JsonObject, params: JsonObject) -> None:
        """Put a report of progress into the inbox of the request that it is about."""
        token = params["progressToken"]
        with self._lock:
            row = self._rows.get(messages.id_key(token))
        if row is None or row.qsize() >= MOST_PROGRESS:
            log.debug("ignored progress for the token %r", token)
        else:
            row.put(message)

    def take_streamed(self, message: JsonObject, request_id: Any, note: Callable[[], None] = lambda: None) -> None:
        """Put a notification into the inbox of the stream that it belongs to; of one that is over it is ignored.

        Args:
            note: called before whoever reads the stream can know of it.
        """
        with self._lock:
            row = self._rows.get(messages.id_key(request_id)) if messages.is_id(request_id) else None
        if row is None or not row.streams:
            log.debug("ignored %s for the stream %r, which is not open", message["method"], request_id)
            return
        note()
        if message["method"] == "notifications/cancelled":
            # The server has ended it: it needs not be told.
            row.sent = False
        if row.qsize() < MOST_PROGRESS:
            row.put(message)
        else:
            log.warning("dropped %s: nobody reads the stream %r", message["method"], request_id)

    def take_response(self, message: JsonObject) -> None:
        """Put a response into the inbox of the request that it answers, which is answered thereby."""
        try:
            messages.check_response(message)
        except RemoteProtocolError as problem:
            self._take_bad_response(message, problem)
            return
        request_id = message.get("id")
        if request_id is None:
            log.warning("the peer could not read one of our messages: %s", message["error"]["message"])
            return
        with self._lock:
            row = self._rows.pop(messages.id_key(request_id), None)
        if row is None:
            # SHOULD: ignore an answer that comes after the cancellation (basic/utilities/cancellation)
            log.debug("ignored an answer to the id %r, which nothing waits for", request_id)
        else:
            row.put(message)

    def _take_bad_response(self, message: JsonObject, problem: RemoteProtocolError) -> None:
        request_id = messages.readable_id(message)
        row = self._forget(request_id) if type(request_id) is int else None
        if row is None:
            log.warning("ignored a malformed response: %s", problem)
        else:
            row.give_up(problem)

    def _fail_rows(self, reason: McpError) -> bool:
        """End every wait, and let no other begin; whether this was the first reason to."""
        with self._lock:
            first = self._closed is None
            self._closed = self._closed or reason
            waiting, self._rows = list(self._rows.values()), {}
        for row in waiting:
            row.give_up(TransportClosed(str(reason)))
        return first


def _attach(cancel: Cancel, row: Row) -> None:
    """Let the handle end the wait; one that was used before means that nothing is sent."""
    cancel.attach(row.cancelled)
    if cancel.cancelled:
        raise RequestCancelled(cancel.reason or "cancelled by the caller")


def _answer(arriving: Iterator[JsonObject], method: str, options: Options, deadline: Deadline) -> JsonObject:
    """The response to a request; progress before it is handed on, and may extend the deadline up to its maximum."""
    try:
        for message in arriving:
            if "method" not in message:
                return message
            deadline.extend()
            # Reports that wait while the callback is slow must not hold the time limit up.
            deadline.check(f"waiting for the answer to {method}")
            callback, params = options.get("on_progress"), message["params"]
            if callback is not None:
                callback(params["progress"], params.get("total"), params.get("message"))
        raise TransportClosed("the reply ended without a response")
    finally:
        # Who keeps the exception of a refused call keeps this iterator, and with it the connection of the reply.
        if isinstance(arriving, Generator):
            arriving.close()


def _error_response(body: JsonObject) -> ErrorResponse:
    """The one place that turns an error of the peer into an exception."""
    return ErrorResponse(body["code"], body["message"], body.get("data"))


def _result(answer: JsonObject, check: Callable[[Any], None] | None) -> JsonObject:
    if "error" in answer:
        raise _error_response(answer["error"])
    result: JsonObject = answer["result"]
    if check is not None:
        check(result)
    return result


def _outcome(
    row: Row, check: Callable[[Any], None] | None, options: Options, deadline: Deadline
) -> JsonObject | McpError:
    """What became of one request of a batch; only what ends the whole batch is raised."""
    try:
        return _result(_answer(row.until(deadline), row.method, options, deadline), check)
    except (ErrorResponse, RemoteProtocolError) as problem:
        return problem


# -- request response ------------------------------------------------------------------------------------


MAX_IN_FLIGHT = 10_000
"""Requests of the peer that may wait for an answer at once; more are refused, so that a flood stays bounded.

A peer that does not even read that many refusals counts as lost.
"""


class Run(Protocol):
    """Has a job run: by a worker, or here and now."""

    def __call__(self, job: Callable[[], None], *, urgent: bool = False) -> None: ...


def _run_here(job: Callable[[], None], *, urgent: bool = False) -> None:
    job()


class Peer(Requester):
    """One side of one conversation.

    Args:
        transport: what carries the messages; owned from here on.
        side: the role that decides and answers.
        terms: the rules in force; replaced when the two sides agree.
        timeout: seconds that a request waits where its caller does not say; None for no limit.
        clock: of the time limits of our own calls; it stands still while we answer the peer's requests (a client does
            this: a person who thinks must not use up the call that asked). None: time goes on.
        cap: how many handlers may run at once.

    Threads: `request`, `notify` and `close` by any thread; `receive` by the transport's reader alone.
    """

    def __init__(
        self,
        transport: Transport,
        side: Side,
        terms: Terms,
        *,
        timeout: float | None = 60,
        clock: Clock | None = None,
        cap: int = 64,
    ) -> None:
        super().__init__(transport, side, terms, timeout, clock)
        self._workers = Workers(cap)
        # Under the requester's lock:
        self._incoming: dict[tuple[type, Any], Incoming] = {}
        self._held: list[tuple[Callable[[], None], bool]] | None = None
        self._refusing = 0
        self._run: Run = self._workers.run

    def start(self) -> None:
        """Begin to receive. The transport starts its thread as the last thing."""
        self._transport.start(self.receive, self.fail)

    def run(self, job: Callable[[], None]) -> None:
        """Have a worker run a user's code that answers nothing, such as a callback for a notification."""
        if self._workers.waiting < MAX_IN_FLIGHT:
            self._run(job)
        else:
            log.warning("the handlers are too slow: a notification of the peer is dropped")

    def run_soon(self, job: Callable[[], None]) -> None:
        """Have a worker run a job of this library that writes, before any handler's turn."""
        self._run(job, urgent=True)

    def event(self, method: str, params: JsonObject) -> Incoming:
        """A notification of the peer as what a handler's context is made of; it gets no answer."""
        return Incoming(method, method, params, self._transport)

    # -- receiving ------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Route the text of one message (or batch). Blocks for nothing; raises nothing."""
        try:
            message = messages.decode(data)
        except Refusal as refusal:
            self._refuse(None, refusal, self._transport, self._run)
            return
        if isinstance(message, list):
            self._receive_batch(message, self._transport, self._run)
        else:
            self._route(message, self._transport, self._run)

    def deliver(self, message: Any, reply: Reply) -> None:
        """Take in a message (or batch) whose answer goes to `reply`, and answer it in this thread.

        For transports whose messages come one in a thread of their own, as by HTTP.
        Blocks: as long as the handler does.
        """
        if isinstance(message, list):
            self._receive_batch(message, reply, _run_here)
        else:
            self._route(message, reply, _run_here)

    def _route(self, message: Any, reply: Reply, run: Run) -> None:
        try:
            kind = messages.kind_of(message)
            if kind == "response":
                self.take_response(message)
                return
            if kind == "request" and not self.terms.answers:
                # MUST NOT: servers send no requests here, and clients no responses (2026-07-28/basic/patterns/index)
                log.warning("ignored a request of the server: %s has none", self.terms.revision)
                return
            messages.check_request(message)
            if kind == "request":
                self._receive_request(message, reply, run)
            else:
                self._receive_notification(message)
        except Refusal as refusal:
            if isinstance(message, dict) and "method" in message and "id" not in message:
                # MUST NOT: answer a notification (basic/index#notifications)
                log.warning("ignored a malformed notification: %s", refusal)
            else:
                self._refuse(messages.readable_id(message), refusal, reply, run, message)

    def _receive_request(self, message: JsonObject, reply: Reply, run: Run) -> None:
        method, params = message["method"], message.get("params") or {}
        incoming = Incoming(message["id"], method, params, reply)
        # MUST NOT: initialize in a batch (2025-03-26/basic/lifecycle#initialization); the stateless era has no batches
        if isinstance(reply, BatchReply) and (method in UNCANCELLABLE or is_modern(method, params)):
            raise InvalidRequest(f"Invalid request: {method} must not be part of a batch")
        with self._lock:
            if incoming.key in self._incoming:
                raise InvalidRequest(f"Invalid request: id {incoming.id!r} is still in flight")
            # Requests that were cancelled before their turn are no longer in the table, and still wait for a worker.
            if len(self._incoming) >= MAX_IN_FLIGHT or self._workers.waiting >= MAX_IN_FLIGHT:
                raise InternalError("Too many requests in flight")
            if self._closed is None:
                self._incoming[incoming.key] = incoming
        try:
            result = self.side.admit(method, params)
        except Refusal as refusal:
            run(partial(self._finish, incoming, incoming.error(refusal)), urgent=True)
            return
        if result is None:
            run(partial(self._serve, incoming))
        elif method == "initialize" and run is not _run_here:
            self._open(incoming, result)
        else:
            run(partial(self._finish, incoming, messages.response(incoming.id, result)), urgent=True)

    def _open(self, incoming: Incoming, result: JsonObject) -> None:
        """Answer `initialize`, and hold back the answers to whatever follows until that one is on the wire."""
        with self._lock:
            self._held = []
            self._run = self._hold

        def answer() -> None:
            self._finish(incoming, messages.response(incoming.id, result))
            with self._lock:
                held, self._held = self._held or [], None
                self._run = self._workers.run
            for job, urgent in held:
                self._workers.run(job, urgent=urgent)

        self._workers.run(answer, urgent=True)

    def _hold(self, job: Callable[[], None], *, urgent: bool = False) -> None:
        with self._lock:
            if self._held is not None:
                self._held.append((job, urgent))
                return
        self._workers.run(job, urgent=urgent)

    def _receive_notification(self, message: JsonObject) -> None:
        method, params = message["method"], message.get("params") or {}
        if method not in ("notifications/cancelled", "notifications/progress"):
            meta = params.get("_meta")
            if not self.terms.answers and isinstance(meta, dict) and SUBSCRIPTION_ID in meta:
                # MUST: correlate by the subscription's id (2026-07-28/basic/patterns/subscriptions)
                self.take_streamed(message, meta[SUBSCRIPTION_ID], partial(self.side.take, method, params))
            else:
                self.side.take(method, params)
            return
        # SHOULD: ignore what is malformed (basic/utilities/cancellation#error-handling)
        check = self.terms.receiving(method).check
        if check is not None:
            check(params)
        if method == "notifications/cancelled" and not self.terms.answers:
            self.take_streamed(message, params["requestId"])
        elif method == "notifications/cancelled":
            self._receive_cancelled(params)
        else:
            self.take_progress(message, params)

    def _receive_cancelled(self, params: JsonObject) -> None:
        request_id = params.get("requestId")
        incoming = None
        if messages.is_id(request_id):
            with self._lock:
                incoming = self._incoming.get(messages.id_key(request_id))
                if incoming is not None and incoming.method not in UNCANCELLABLE:
                    del self._incoming[incoming.key]
        if incoming is None or incoming.method in UNCANCELLABLE:
            # SHOULD: ignore an unknown or finished id (basic/utilities/cancellation#error-handling)
            log.debug("ignored a cancellation of %r", request_id)
            return
        reason = params.get("reason", "cancelled by the peer")
        log.info("the peer gave up %s (id %r): %s", incoming.method, incoming.id, reason)
        incoming.cancel(reason)
        self._run(incoming.drop, urgent=True)

    def _receive_batch(self, batch: list[Any], reply: Reply, run: Run) -> None:
        if not self.terms.revision.batching:
            refusal = InvalidRequest("Invalid request: batches exist in revision 2025-03-26 alone")
            self._refuse(None, refusal, reply, run)
        elif not batch:
            self._refuse(None, InvalidRequest("Invalid request: a batch must not be empty"), reply, run)
        else:
            # MUST: receive batches (2025-03-26/basic/index#batching)
            collected = BatchReply(reply, sum(1 for message in batch if _wants_answer(message)))
            for message in batch:
                self._route(message, collected, run)

    # -- answering ------------------------------------------------------------------------------------------------

    def _refuse(
        self, request_id: messages.RequestId | None, refusal: Refusal, reply: Reply, run: Run, refused: Any = None
    ) -> None:
        """Answer what never became a request. Where the reader calls this, a worker writes."""
        if not self.terms.answers:
            log.warning("ignored what the server sent: %s", refusal)
            return
        # The stateless era shares the channel, whatever revision its session has.
        modern = isinstance(refused, dict) and is_modern(refused.get("method"), refused.get("params"))
        id_optional = modern or self.terms.revision.error_id_optional
        message = messages.error(request_id, refusal, id_optional=id_optional)
        with self._lock:
            self._refusing += 1
            flooded = self._refusing > MAX_IN_FLIGHT
        if flooded:
            self.fail(TransportClosed("the peer sends what must be refused faster than it reads the refusals"))
        else:
            run(partial(self._send_refusal, reply, message), urgent=True)

    def _send_refusal(self, reply: Reply, message: JsonObject) -> None:
        try:
            reply.send(message, Deadline(self._timeout))
        except (McpError, OSError) as problem:
            log.debug("could not send an answer: %s", problem)
        with self._lock:
            self._refusing -= 1

    def _serve(self, incoming: Incoming) -> None:
        """Run the handler of a request, and send what became of it. The one place that turns exceptions into errors."""
        # SHOULD: stop processing what was cancelled (basic/utilities/cancellation#behavior-requirements)
        if incoming.reason is not None:
            return
        threading.current_thread().doing = f"{incoming.method} (id {incoming.id!r})"  # type: ignore[attr-defined]
        if self._clock is not None:
            self._clock.pause()
        try:
            result = self.side.answer(incoming)
            answer = None if result is None else messages.response(incoming.id, result)
        except Refusal as refusal:
            answer = incoming.error(refusal)
        except BaseException as problem:
            # Also what is no Exception, such as SystemExit: it ends the handler, not the thread and not the process.
            if not incoming.cancelled:
                log.error("%s failed", incoming.method, exc_info=problem)
            # No traceback and no text of ours on the wire: it may hold secrets.
            answer = incoming.error(InternalError("Internal error"))
        finally:
            if self._clock is not None:
                self._clock.resume()
        if answer is not None:
            self._finish(incoming, answer)

    def finish(self, incoming: Incoming, result: JsonObject) -> None:
        """Send the result of a request whose side has answered None: later. Nothing once it was cancelled."""
        self._finish(incoming, messages.response(incoming.id, result))

    def _finish(self, incoming: Incoming, answer: JsonObject) -> None:
        with self._lock:
            # By identity: a peer may have used the id of a cancelled request again, while its handler still ran.
            owned = self._incoming.get(incoming.key) is incoming
            if owned:
                del self._incoming[incoming.key]
        # SHOULD NOT: answer a cancelled request (basic/utilities/cancellation#behavior-requirements)
        if owned:
            try:
                incoming.finish(answer, Deadline(self._timeout))
            except LocalProtocolError as problem:
                log.error("the result of %s is not JSON: %s", incoming.method, problem)
                incoming.finish(incoming.error(InternalError("Internal error")), Deadline(self._timeout))

    # -- ending ---------------------------------------------------------------------------------------------------

    def in_flight(self) -> list[Incoming]:
        """The peer's requests that have no answer yet."""
        with self._lock:
            return list(self._incoming.values())

    def fail(self, reason: McpError) -> None:
        """The conversation is lost: fail what waits. Handlers that run may still finish and try to answer."""
        first = self._fail_rows(reason)
        self._workers.stop()
        if first:
            self.side.lost(reason)

    def close(self, deadline: Deadline, reason: str = "closed on this side", drain: float = 0) -> list[str]:
        """End the conversation; returns the handlers that would not end. Idempotent; any thread may call it.

        Args:
            drain: seconds in which handlers may still finish and answer, before they are cancelled.

        Why each thread ends: callers that wait are failed first; handlers find their cancel flag set and their own
        waits failed, and idle workers a sentinel (what a user's code still holds is left behind as a daemon when
        half of the time has passed); the transport then ends its reader and whatever else it owns, which see.
        """
        self.fail(TransportClosed(reason))
        if drain:
            self._workers.close(Deadline(drain))
        with self._lock:
            unanswered, self._incoming = list(self._incoming.values()), {}
        for incoming in unanswered:
            incoming.cancel(reason)
        left = deadline.left()
        stuck = self._workers.close(Deadline(None if left is None else left / 2))
        for doing in stuck:
            log.warning("left behind at close: %s still runs", doing)
        try:
            self._transport.close(deadline)
        except Exception:
            # Whoever closes this side has more to end than the transport.
            log.exception("closing the transport failed")
        return stuck


def _wants_answer(message: Any) -> bool:
    """Whether an entry of a batch will be answered: a request, or something that is no message at all."""
    return (
        not isinstance(message, dict)
        or ("method" in message and "id" in message)
        or not ("method" in message or "result" in message or "error" in message)
    )
