"""Connection: one side of one conversation. It sends our requests, and routes every message that arrives.

Spec:      basic/messages (2024-11-05), basic/index#messages; basic/utilities/cancellation, basic/utilities/progress;
           basic/lifecycle#timeouts
Upholds:   spec_notes/basic/index.md, spec_notes/basic/utilities/cancellation.md
Not here:  one request of the other side, and its reply (wire/served); which method does what (server/session,
           client/session); what may pass at all (wire/negotiated); batches (basic/batching); streams
           (basic/subscriptions)

    a request of ours                                a request of theirs
      begin       a row in the table                   receive         decoded, then routed
      exchange    the transport writes it              _take_request   a row; the role admits it, in order of arrival
      take        the caller's thread waits            answer          a worker runs the handler, and sends the answer
      route       the response pops the row
      result      what is returned, or raised

Two tables, which never meet: `_pending` has the requests that we sent and wait for, `unanswered` those that we received
and have not answered. Whoever pops a row owns what happens to it: a response, a timeout, a cancellation and the end of
the transport race for a row of ours, an answer and a cancellation for a row of theirs; only the first finds it.

`receive` runs in the transport's reader. It only routes: it takes the one lock for a moment, puts into queues, and
neither writes nor runs a user's code: who does not read cannot stop us before thousands of refusals wait for it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from queue import Empty
from typing import Any, Protocol
from weakref import WeakValueDictionary

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
    RequestTimeout,
    TransportClosed,
)
from mcp_ref.kit.threads.bounded import BoundedQueue, Weighed
from mcp_ref.kit.threads.deadline import SIGNAL_INTERVAL, Clock, Deadline
from mcp_ref.kit.threads.forks import check_process, end_child
from mcp_ref.kit.threads.warn_once import Complaints
from mcp_ref.kit.threads.workers import Workers, before_block
from mcp_ref.kit.typed.json_text import weigh_text
from mcp_ref.pages.basic.batching import take_batch
from mcp_ref.pages.basic.lifecycle import Lifecycle
from mcp_ref.pages.basic.meta import check_meta_key
from mcp_ref.pages.basic.utilities import UNCANCELLABLE, cancelled_params
from mcp_ref.pages.basic.versioning import LOG_LEVEL, SUBSCRIPTION_ID, is_stateless
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject, RequestId
from mcp_ref.wire.methods import Options
from mcp_ref.wire.negotiated import Check, Negotiated
from mcp_ref.wire.served import WRITE_TIMEOUT, Reply, ServedRequest
from mcp_ref.wire.transport import Transport

log = logging.getLogger(__name__)

MAX_IN_FLIGHT = 10_000
"""Requests of the peer that may wait for an answer at once; more are refused. Nothing more is read while that many
refusals wait to be written; a peer that reads none of them in `REFUSAL_TIMEOUT` counts as lost."""

MAX_IN_FLIGHT_SIZE = 256 << 20  # bytes of those whose handlers run or wait
REFUSAL_TIMEOUT = 30.0  # seconds
_NO_CLOCK = nullcontext()

MAX_UNREAD = 10_000
"""Notifications that may wait for the caller of one request, whose callback is slow; any more are dropped."""

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"

Answerer = Callable[[ServedRequest], JsonObject | None]
"""Makes the result of a request, in a worker; None if it comes later, by `answer`. Raises Refusal to refuse it."""


class Role(Protocol):
    """The decisions that a connection leaves to its role: a server's session, or a client's conversation."""

    lifecycle: Lifecycle
    """Says which messages may be sent while it is not open."""

    def admit(self, incoming: ServedRequest) -> JsonObject | Answerer:
        """Decide on a request in the order of arrival: its result if that is known at once, else who will answer it.

        Runs in the reader, as `take` does: no user's code, no writing. Raises Refusal.
        """
        ...

    def take(self, method: str, params: JsonObject) -> None:
        """Note a notification in the order of arrival."""
        ...

    def lost(self, reason: McpError) -> None:
        """Take note that nothing more will arrive. Called once, in whatever thread noticed."""
        ...


class SentRequest(BoundedQueue):
    """A request that we send: the queue in which its messages arrive, and how it ended. See `transport.Pending`.

    Args:
        asker: the request of the peer whose handler asks this, if any.

    Attributes:
        on_notification: takes the notifications that belong to it, as to a subscription; None: only progress does.

    Threads: `take` and `result` by its caller's; the others by any.
    """

    id = 0  # until it has one
    sent = False  # whether the peer may be working on it, so that it must be told when the request is given up
    check: Check | None = None  # of its result
    on_give_up: Callable[[], None] | None = None
    on_notification: Callable[[JsonObject], None] | None = None
    outcome: JsonObject | BaseException | None = None  # the message that ended it, or what else did

    def __init__(self, method: str, options: Options, deadline: Deadline, asker: ServedRequest | None = None) -> None:
        self.method, self.options, self.deadline, self.asker = method, options, deadline, asker
        # What can give it up.
        self.handles = [each for each in (options.get("cancel"), asker) if each is not None]

    @property
    def answered(self) -> bool:
        """See `transport.Pending`."""
        return isinstance(self.outcome, dict) and "method" not in self.outcome

    def take(self, deadline: Deadline | None = None) -> bool:
        """See `transport.Pending`."""
        while self.outcome is None:
            try:
                item = self.get_nowait() if deadline is None else self.get(timeout=deadline.at_most(SIGNAL_INTERVAL))
            except Empty:
                if deadline is None:
                    return False
                # The clock may have stood still meanwhile; then there is time left, and the wait goes on.
                deadline.check(f"waiting for the answer to {self.method}")
                continue
            if isinstance(item, Weighed):
                item = self.unpack(item)
            if isinstance(item, McpError) or item.get("method") in (None, CANCELLED):
                self.outcome = item
                continue
            try:
                (self.on_notification or self.note_progress)(item)
            except BaseException as problem:
                # Not raised here: a transport would take it for a failure of its own.
                self.outcome = problem
        return True

    def note_progress(self, message: JsonObject) -> None:
        """Hand on a report of progress. Raises: RequestTimeout, whatever the callback raises."""
        # MAY: progress starts the time-out again; SHOULD: progress extends it only up to a maximum
        # (basic/lifecycle#timeouts)
        self.deadline.extend()
        # Reports that wait while the callback is slow must not hold the time limit up.
        self.deadline.check(f"waiting for the answer to {self.method}")
        callback, params = self.options.get("on_progress"), message["params"]
        if callback is not None:
            callback(params["progress"], params.get("total"), params.get("message"))

    def result(self) -> JsonObject:
        """Return the result, or raise what ended the request. The one place that raises ErrorResponse."""
        # Forgotten: an exception that is kept would keep this request, and this request the exception.
        outcome, self.outcome = self.outcome, None
        if outcome is None:
            raise TransportClosed("the reply ended without a response")
        if isinstance(outcome, BaseException):
            raise outcome
        self.sent = False  # it is answered, whatever the answer is worth
        for handle in self.handles:
            handle.detach(self.cancelled)
        if "error" in outcome:
            error = outcome["error"]
            raise ErrorResponse(error["code"], error["message"], error.get("data"))
        if "method" in outcome:
            return dict(outcome["params"])  # the server has ended a stream by `notifications/cancelled`
        result: JsonObject = outcome["result"]
        if self.check is not None and self.on_notification is None:
            self.check(result)
        return result

    def give_up(self, reason: McpError) -> None:
        """End the wait of its caller, or the read of the socket for which that one waits."""
        self.put(reason)
        if (interrupt := self.on_give_up) is not None:
            interrupt()

    def cancelled(self, reason: str | None) -> None:
        """End the wait because one of the handles was used."""
        self.give_up(RequestCancelled(reason or "cancelled by the caller"))


class Connection:
    """One side of one conversation.

    Args:
        transport: what carries the messages; owned from here on.
        side: the role that decides and answers.
        terms: the rules in force; replaced when the two sides agree.
        timeout: seconds that a request waits if its caller does not say; None for no limit.
        clock: of the time limits of our own calls; it stands still while we answer the peer's requests (a client does
            this: a person who thinks must not use up the call that asked). None: time goes on.
        cap: how many handlers may run at once.

    Attributes:
        side, terms: may be replaced: a connection on which one era was tried goes on in the other.
        closed: why the conversation is over, or None. process: the id of the one in which it goes on.
        unanswered: the peer's requests that have no answer yet, by id; to be looked at only.

    What every request raises: LocalProtocolError (nothing was sent), ErrorResponse, RemoteProtocolError,
    RequestTimeout, RequestCancelled, TransportClosed.

    Threads: any, but for `receive`, which the transport's reader alone calls.
    """

    request_type = SentRequest  # for a page, which cannot import this module

    def __init__(
        self,
        transport: Transport,
        side: Role,
        terms: Negotiated,
        *,
        timeout: float | None = 60,
        clock: Clock | None = None,
        cap: int = 64,
    ) -> None:
        self.side, self.terms = side, terms
        self.transport, self._timeout, self._clock = transport, timeout, clock
        self.channel = transport if isinstance(transport, Reply) else Reply(transport.send)
        self._workers = Workers(cap, self._no_thread)
        self.complain = Complaints(log)
        self.process = os.getpid()
        self._lock = threading.Lock()  # guards changes of what follows; nothing is sent and no user code runs inside
        self._refusals = threading.Semaphore(MAX_IN_FLIGHT)  # what may wait to be written
        self._pending: dict[Any, SentRequest] = {}
        self.unanswered: dict[RequestId, ServedRequest] = {}
        self._handled_size = 0  # bytes of requests whose handlers have not ended
        self._next_id = 1
        # By token, whose `put(params)` takes the progress of what was answered with a task; forgotten with its handle.
        self.progress_sinks: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.closed: McpError | None = None
        self._side_told = False  # whether the side was told of it

    def start(self) -> None:
        """Begin to receive. The transport starts its thread as the last thing."""
        self.transport.start(self.receive, self.fail)

    # -- asking ---------------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        params: JsonObject | None = None,
        options: Options | None = None,
        asker: ServedRequest | None = None,
        deadline: Deadline | None = None,
        pending: SentRequest | None = None,
    ) -> JsonObject:
        """Send a request and wait for its result, at most until the deadline.

        Args:
            asker: the request whose handler asks this; cancelling that one ends this one too.
            deadline: of the call that this request is a part of; None: the request is a call by itself.
            pending: of the same method and options, where more is to be known of it than it comes to.
        """
        options = options or {}
        # SHOULD: every request has a time-out, which can be set for each
        # (basic/lifecycle#timeouts; 2026-07-28/basic/patterns/cancellation#timeouts)
        if pending is None:
            pending = SentRequest(method, options, deadline or self.begin_wait(options), asker)
        try:
            message = self.begin(pending, params)
            (asker or self.transport).exchange(message, pending, pending.deadline)
            return pending.result()
        except BaseException as reason:
            self.abandon(pending, reason)
            raise

    def begin_wait(self, options: Options) -> Deadline:
        """Begin a call: give the place of a worker to another handler, and start the time limit of the call."""
        if self.process != os.getpid():
            # Before any lock: another thread of the process that was forked may have held it.
            check_process("the conversation", self.process)
        in_handler = before_block()
        # The time of a handler's own calls goes on, for that handler is what makes the time of others stand still.
        clock = time.monotonic if in_handler or self._clock is None else self._clock
        return Deadline(options.get("timeout", self._timeout), options.get("max_timeout"), clock)

    def begin(self, pending: SentRequest, params: JsonObject | None) -> JsonObject:
        """Enter a request into the table, and give the message that is to be sent."""
        # 1. May it be sent? What is asked often is one look-up.
        method, options, terms = pending.method, pending.options, self.terms
        undeclared = options.get("undeclared", False)
        rule = terms.sending("request", method, undeclared=True) if undeclared else terms.sent[method]
        pending.check = rule.task_check if rule.task_check and params and "task" in params else rule.check
        lifecycle = self.side.lifecycle
        if lifecycle.state != "open" and self.closed is None:
            lifecycle.send(method, is_request=True)
        # 2. The row. The check for the end is one step with it, so that none is left waiting after the end.
        with self._lock:
            if self.closed is not None:
                raise TransportClosed.before(self.closed)
            # A requestor MUST NOT use an id again in the same session (basic/index#requests);
            # so a call that brings answers has another id, too (2026-07-28/server/tools#input-required-tool-results)
            pending.id = self._next_id
            self._next_id += 1
            self._pending[pending.id] = pending
        # 3. Who may give it up. A handle that was used already means that nothing is sent.
        for handle in pending.handles:
            handle.attach(pending.cancelled)
            if handle.cancelled:
                raise RequestCancelled(handle.reason or "cancelled by the caller")
        # 4. The params, as the revision has them.
        loses = rule.losing is None or not rule.losing.isdisjoint(params or ())
        if loses and params is not None and rule.project is not None:
            params = rule.project(params)
        # 5. What `_meta` says.
        if options or terms.envelope:
            asked = options.get("meta") or {}
            for key in asked:
                if key == "progressToken":
                    raise LocalProtocolError("progressToken is set by on_progress, not by meta")
                check_meta_key(key, terms.revision.reserved_meta_label)
            # MUST: each request, those of later rounds too, says in `_meta` its protocol version and what its client
            # can do (2026-07-28/basic/index#_meta; 2026-07-28/basic/patterns/mrtr#)
            meta = {**terms.envelope, **asked}
            if terms.envelope and (level := options.get("log_level")) is not None:
                meta[LOG_LEVEL] = level
            if options.get("on_progress") is not None or options.get("max_timeout") is not None:
                # MUST: a `progressToken` is unique among the active requests: we choose the id of the request
                # (basic/utilities/progress#progress-flow)
                meta["progressToken"] = pending.id
            if meta:
                params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **meta}}
        return messages.request(pending.id, method, params)

    def abandon(self, pending: SentRequest, reason: BaseException) -> None:
        """Forget a request that ended without an answer, and tell the peer if it may be working on it."""
        if not pending.id:
            return  # it was never begun; in a process that was forked, the lock may be held for ever
        if isinstance(reason, RequestTimeout) and (complaint := self.complain.take_last()):
            reason.args = (f"{reason}; before that: {complaint}",)
        for handle in pending.handles:
            handle.detach(pending.cancelled)
        with self._lock:
            owned = self._pending.pop(pending.id, None) is not None
        # MUST: cancel only a request that was issued and is still in progress; a client MUST NOT cancel `initialize`
        # (basic/utilities/cancellation#behavior-requirements)
        if not owned or not pending.sent or pending.method in UNCANCELLABLE:
            return
        if isinstance(reason, TransportClosed | HttpStatusError):
            return
        if self.terms.revision.disconnect_is_cancellation and getattr(self.transport, "hangs_up", False):
            # SHOULD: over HTTP, closing the stream of the answer cancels the request
            # (2026-07-28/basic/patterns/cancellation#timeouts)
            log.info("hung up on %s (id %d)", pending.method, pending.id)
            return
        # The text of an exception that is not ours may hold secrets.
        why = str(reason) if isinstance(reason, McpError) else "given up by its caller"
        log.info("gave up %s (id %d): %s", pending.method, pending.id, why)
        try:
            # SHOULD: send `notifications/cancelled` for a request that timed out (basic/lifecycle#timeouts)
            # MUST: over stdio a client that gives a request up says so, with the request's id
            # (2026-07-28/basic/patterns/cancellation#transport-specific-cancellation;
            # 2026-07-28/basic/transports/stdio#cancellation)
            rule = self.terms.notified[CANCELLED]
            params = cancelled_params(pending.id, why)
            message = messages.notification(CANCELLED, rule.project(params) if rule.project else params)
            # To where the question went, if that is still open: on another stream this might arrive before it.
            if pending.asker is None or not pending.asker.notify(message, Deadline(1)):
                self.transport.send(message, Deadline(1))
        except (McpError, OSError) as problem:
            log.debug("could not tell the peer that %s was given up: %s", pending.method, problem)

    def notify(
        self,
        method: str,
        params: JsonObject | None = None,
        of: ServedRequest | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Send a notification; one of a request of the peer travels with its reply, and never after its answer.

        Blocks: until it is written, at most until the deadline (None: a minute). Raises: as a request does.
        """
        if self.process != os.getpid():
            check_process("the conversation", self.process)
        if self.closed is not None:
            raise TransportClosed.before(self.closed)
        rule = self.terms.notified[method]
        if self.side.lifecycle.state != "open":
            self.side.lifecycle.send(method, is_request=False)
        if params is not None and rule.project is not None:
            params = rule.project(params)
        message = messages.notification(method, params)
        if of is not None:
            of.notify(message)
        else:
            self.transport.send(message, deadline or Deadline(WRITE_TIMEOUT))

    # -- receiving ------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, reply: Reply | None = None) -> None:
        """Route the text of one message (or batch). Raises nothing; blocks for nothing but a flood of refusals.

        Args:
            reply: where answers go, if not simply to the transport.
        """
        try:
            message = messages.decode(data)
        except Refusal as refusal:
            self.refuse(None, refusal, reply or self.channel, here=False)
            return
        self.route(message, reply or self.channel, here=False, data=data)

    def route(self, message: Any, reply: Reply, here: bool = True, data: bytes = b"") -> None:
        """Put a response into the queue of its request; pass anything else on by its kind.

        Args:
            here: whether the calling thread answers requests, to `reply`, as over HTTP; else a worker does.
            data: its text; none over HTTP, whose bodies have a bound of their own.
        """
        problem: RemoteProtocolError | None = None
        try:
            if isinstance(message, list):
                take_batch(self, message, reply, here, data)
                return
            kind = messages.kind_of(message)
            if kind == "request":
                self._take_request(message, reply, here, data)
                return
            if kind == "notification":
                self._take_notification(message)
                return
        except RemoteProtocolError as malformed:
            problem = malformed
        except Refusal as refusal:
            if isinstance(message, dict) and "method" in message and "id" not in message:
                # A receiver MUST NOT answer a notification (basic/index#notifications)
                self.complain("ignored a malformed notification: %s", refusal)
            else:
                self.refuse(messages.readable_id(message), refusal, reply, here, message)
            return
        # A response: who waits for it gets it, or what is wrong with it.
        request_id = message.get("id") if problem is None else messages.readable_id(message)
        with self._lock:
            pending = self._pending.pop(request_id, None)
        if problem is not None:
            if pending is not None:
                pending.give_up(problem)
            else:
                self.complain("ignored a malformed response: %s", problem)
            return
        if pending is not None:
            pending.put(message)
        elif request_id is None:
            self.complain("the peer could not read one of our messages: %.300s", message["error"]["message"])
        elif type(request_id) is not int or not 0 < request_id < self._next_id:
            self.complain("ignored an answer to the id %.100r, which no request had", request_id)
        else:
            # SHOULD: ignore an answer that comes after the cancellation
            # (basic/utilities/cancellation#behavior-requirements)
            log.debug("ignored an answer to the id %r, which nothing waits for", request_id)

    def _take_request(self, message: JsonObject, reply: Reply, here: bool, data: bytes) -> None:
        method, params = message["method"], message.get("params") or {}
        if not self.terms.takes_requests:
            # A server MUST NOT send requests, or a client responses (2026-07-28/basic/patterns/index#;
            # 2026-07-28/basic/transports/stdio#sending-messages)
            self.complain("ignored a request: servers send none in %s", self.terms.revision)
            return
        incoming, workers = ServedRequest(message["id"], method, params, reply), self._workers
        # What is alone has room, and is not weighed.
        incoming.weight = weigh_text(data) if self._handled_size else 1
        with self._lock:
            if incoming.id in self.unanswered:
                raise InvalidRequest(f"Invalid request: id {incoming.id!r} is still in flight")
            # Requests that were cancelled before their turn are no longer in the table, and still wait for a worker.
            waiting = max(len(self.unanswered), len(workers.waiting) + len(workers.urgent))
            if waiting >= MAX_IN_FLIGHT or self._handled_size + incoming.weight > MAX_IN_FLIGHT_SIZE:
                raise InternalError("Too many requests in flight")
            self._handled_size += incoming.weight
            if self.closed is None:
                self.unanswered[incoming.id] = incoming
        answer: JsonObject | Refusal | Answerer
        try:
            answer = self.side.admit(incoming)
        except Refusal as refusal:
            answer = refusal
        job = partial(self.answer, incoming, answer)
        if here:
            job()
        else:
            # Whatever follows waits until the answer to `initialize` is on the wire.
            alone = method == "initialize" and isinstance(answer, dict)
            workers.run(job, urgent=not callable(answer), alone=alone)

    def _take_notification(self, message: JsonObject) -> None:
        method, params = message["method"], message.get("params") or {}
        if method in (CANCELLED, PROGRESS) and (check := self.terms.received[method].check) is not None:
            # SHOULD: ignore malformed cancellations (basic/utilities/cancellation#error-handling)
            check(params)
        if method == CANCELLED and self.terms.takes_requests:
            self._take_cancelled(params)
            return
        pending: SentRequest | None
        if method == PROGRESS:
            token = params["progressToken"]
            # Only our own ids are in the table, and `1.0` and `True` are others, though Python says they are equal.
            pending = self._pending.get(token) if type(token) is int else None
            if pending is None and (sink := self.progress_sinks.get(token)) is not None:
                sink.put(params)  # the request was answered with a task
        elif method == CANCELLED:
            pending = self._take_from_stream(method, params, params["requestId"])
        elif not self.terms.takes_requests and (stream := (params.get("_meta") or {}).get(SUBSCRIPTION_ID)) is not None:
            # MUST: over stdio a client tells subscriptions apart by the `subscriptionId` in `_meta`
            # (2026-07-28/basic/patterns/subscriptions#receiving-notifications;
            # 2026-07-28/basic/transports/stdio#receiving-messages)
            pending = self._take_from_stream(method, params, stream)
        else:
            self.side.take(method, params)
            return
        if pending is None:
            log.debug("ignored %s: no request waits for it", method)
        elif pending.empty():
            pending.put(message)
        elif not pending.offer(message, params, MAX_UNREAD):
            self.complain("dropped %s: nobody reads what comes for the request %r", method, pending.id)

    def _take_from_stream(self, method: str, params: JsonObject, request_id: Any) -> SentRequest | None:
        """Return the request to whose stream a notification belongs; None: no such stream is open."""
        pending = self._pending.get(request_id) if type(request_id) is int else None
        if pending is None or pending.on_notification is None:
            return None
        # The role first: it has noted the change before whoever reads the stream can know of it.
        if method == CANCELLED:
            with self._lock:
                self._pending.pop(request_id, None)  # the server has ended it: it need not be told
        else:
            self.side.take(method, params)
        return pending

    def _take_cancelled(self, params: JsonObject) -> None:
        request_id = params.get("requestId")
        with self._lock:
            incoming = self.unanswered.get(request_id) if messages.is_id(request_id) else None
            # MUST: cope with a cancellation that arrives when the answer is already under way
            # (basic/utilities/cancellation#timing-considerations)
            # A client MUST NOT cancel `initialize` (basic/utilities/cancellation#behavior-requirements)
            if incoming is not None and incoming.method not in UNCANCELLABLE:
                del self.unanswered[incoming.id]
        if incoming is None or incoming.method in UNCANCELLABLE:
            # SHOULD: ignore an unknown or finished id (basic/utilities/cancellation#error-handling)
            log.debug("ignored a cancellation of %r", request_id)
            return
        reason = params.get("reason", "cancelled by the peer")
        # SHOULD: log the reason of a cancellation (basic/utilities/cancellation#implementation-notes)
        log.info("the peer gave up %s (id %r): %s", incoming.method, incoming.id, reason)
        incoming.cancel(reason)
        self._workers.run(incoming.drop, urgent=True)

    # -- answering ------------------------------------------------------------------------------------------------

    def answer(self, incoming: ServedRequest, answer: JsonObject | Refusal | Answerer) -> None:
        """Send the answer to a request, once it is made; nothing if the request was cancelled.

        The one place that turns what a handler raises into an error response.
        """
        result = answer if isinstance(answer, dict | Refusal) else None
        # SHOULD: stop processing what was cancelled (basic/utilities/cancellation#behavior-requirements)
        if callable(answer) and incoming.reason is None:
            threading.current_thread().doing = f"{incoming.method} (id {incoming.id!r})"  # type: ignore[attr-defined]
            try:
                with self._clock or _NO_CLOCK:
                    result = answer(incoming)
            except Refusal as refusal:
                result = refusal
            except BaseException as problem:
                if self.process != os.getpid():
                    raise  # to kit/threads/workers, which ends the child
                # Also what is not an Exception, such as SystemExit: it ends the handler, not the thread.
                if not incoming.cancelled:
                    shown = None if isinstance(problem, TransportClosed) else problem
                    log.error("%s failed: %s", incoming.method, problem, exc_info=shown)
                # MUST: handle sensitive data appropriately: no traceback and no text of ours goes on the wire
                # (client/sampling#security-considerations)
                result = InternalError("Internal error")
            if self.process != os.getpid():
                end_child(None)  # the handler has forked, and its child answers nothing
        with self._lock:
            self._handled_size -= incoming.weight
            incoming.weight = 0
            # By identity: the peer may use the id of a cancelled request again while its handler still runs.
            owned = result is not None and self.unanswered.get(incoming.id) is incoming
            if owned:
                del self.unanswered[incoming.id]
        # A receiver SHOULD NOT answer a cancelled request (basic/utilities/cancellation#behavior-requirements)
        if owned and result is not None:
            if isinstance(result, Refusal):
                response = messages.error(incoming.id, result)
            else:
                response = messages.response(incoming.id, result)
            incoming.finish(response, Deadline(self._timeout))

    def refuse(
        self, request_id: RequestId | None, refusal: Refusal, reply: Reply, here: bool, refused: Any = None
    ) -> None:
        """Answer what never became a request: in this thread, or in a worker if the reader calls."""
        if self.terms.role == "client" and not (self.terms.takes_requests and messages.asks(refused)):
            # A server that prints is answered nothing: one that prints what it reads would never come to an end.
            self.complain("ignored what the server sent: %s", refusal)
            return
        # The stateless era shares the channel, whatever revision its session has.
        stateless = isinstance(refused, dict) and is_stateless(refused.get("method"), refused.get("params"))
        id_optional = stateless or self.terms.revision.error_id_optional
        answer = messages.error(request_id, refusal, id_optional=id_optional)
        incoming = ServedRequest("", "a message that was refused", {}, reply)

        def write() -> None:
            incoming.finish(answer, Deadline(self._timeout))
            self._refusals.release()

        if not self._refusals.acquire(timeout=REFUSAL_TIMEOUT if self.closed is None else 0):
            self.complain(problem := "the peer does not read the refusals of what it sends")
            self.fail(TransportClosed(problem))
        elif here:
            write()
        else:
            self._workers.run(write, urgent=True)

    # -- jobs of the role -----------------------------------------------------------------------------------------

    def run(self, job: Callable[[], None]) -> None:
        """Give a worker user code that answers nothing, such as a callback for a notification."""
        if len(self._workers.waiting) < MAX_IN_FLIGHT:
            self._workers.run(job)
        else:
            self.complain("the handlers are too slow: a notification of the peer is dropped")

    def run_soon(self, job: Callable[[], None]) -> None:
        """Give a worker a job of this library that writes, ahead of every handler."""
        self._workers.run(job, urgent=True)

    # -- ending ---------------------------------------------------------------------------------------------------

    def fail(self, reason: McpError) -> None:
        """Fail what waits: the conversation is lost. Handlers that run may still finish and try to answer."""
        with self._lock:
            self.closed = self.closed or reason
            waiting = list(self._pending.values())
        for pending in waiting:
            pending.give_up(TransportClosed(str(reason)))
        self._workers.stop()
        # Forgotten at the end: after Ctrl-C on the way here the next one does all of it again.
        with self._lock:
            self._pending.clear()
            told, self._side_told = self._side_told, True
        if not told:
            self.side.lost(self.closed)

    def _no_thread(self, problem: RuntimeError) -> None:
        """End the conversation, so that the peer is not kept waiting: nothing can be answered."""
        self.fail(TransportClosed(f"no thread could be started: {problem}"))
        self.transport.close(Deadline(0))

    def close(self, deadline: Deadline, reason: str = "closed on this side", drain: float = 0) -> list[str]:
        """End the conversation; returns the handlers that would not end. Idempotent; any thread may call it.

        Args:
            drain: seconds in which handlers may still finish and answer, before they are cancelled.

        Why each thread ends: callers that wait are failed first; handlers find their cancel flag set and their own
        waits failed, idle workers a sentinel (what a user's code holds after half of the time is left behind); the
        transport ends its reader and whatever else it owns.
        """
        if self.process != os.getpid():
            return []
        self.fail(TransportClosed(reason))
        if drain:
            self._workers.close(Deadline(drain))
        with self._lock:
            unanswered, self.unanswered = list(self.unanswered.values()), {}
        for incoming in unanswered:
            incoming.cancel(reason)
        left = deadline.left()
        stuck = self._workers.close(Deadline(None if left is None else left / 2))
        for doing in stuck:
            log.warning("left behind at close: %s still runs", doing)
        try:
            self.transport.close(deadline)
        except Exception:
            # Whoever closes this side has more to end than the transport.
            log.exception("closing the transport failed")
        return stuck
