"""Requester: the requests that we send, and what comes back for them.

Spec:      basic/index#requests, #responses; basic/utilities/cancellation, basic/utilities/progress,
           basic/lifecycle#timeouts; 2025-03-26/basic/index#batching
Upholds:   spec_notes/basic/index.md, spec_notes/basic/utilities/cancellation.md
Reads:     basic/messages, basic/terms, basic/deadline, basic/patterns/workers, reply and side
Not here:  the requests that we receive (basic/patterns/request_response)

A table has a row for each request that waits. A response pops its row and wakes its caller; so do a timeout, a
cancellation and the end of the transport, and only the first of them finds it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

from mcp_ref.basic import messages
from mcp_ref.basic.deadline import Cancel, Clock, Deadline
from mcp_ref.basic.methods import DEFAULT, JsonObject, Options
from mcp_ref.basic.patterns.reply import WRITE_TIMEOUT, Incoming
from mcp_ref.basic.patterns.row import Row, Stream
from mcp_ref.basic.patterns.side import Side
from mcp_ref.basic.patterns.workers import before_block
from mcp_ref.basic.terms import Rule, Terms
from mcp_ref.basic.transports.transport import Transport
from mcp_ref.basic.utilities.cancellation import UNCANCELLABLE, cancelled_params
from mcp_ref.basic.versioning import LOG_LEVEL
from mcp_ref.errors import (
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestCancelled,
    TransportClosed,
)

__all__ = ["Requester"]

log = logging.getLogger(__name__)

MOST_PROGRESS = 10_000
"""Reports of progress that may wait for a caller whose callback is slow; what comes on top is dropped."""


class Requester:
    """The asking half of a `Peer`, which see for the arguments.

    Threads: `request`, `request_batch` and `notify` by any; the others by the transport's reader.
    """

    def __init__(self, transport: Transport, side: Side, terms: Terms, timeout: float | None, pausing: float) -> None:
        self.terms = terms
        self._transport, self._side, self._timeout = transport, side, timeout
        self._clock = Clock(pausing)
        # Guards the three fields below, and those of Peer; nothing is sent and no user's code runs inside.
        self._lock = threading.Lock()
        self._rows: dict[tuple[type, Any], Row] = {}
        self._next_id = 1
        self._closed: McpError | None = None

    def number_from(self, first_id: int) -> None:
        """Begin with another id, before the first request: an answer to one that had it might still come."""
        self._next_id = first_id

    @property
    def next_id(self) -> int:
        """The id of the next request."""
        return self._next_id

    @property
    def closed(self) -> McpError | None:
        """Why the conversation is over, or None."""
        return self._closed

    def request(
        self, method: str, params: JsonObject | None, options: Options | None = None, asker: Incoming | None = None
    ) -> JsonObject:
        """Send a request and wait for its result.

        Args:
            asker: the request whose handler asks this; cancelling that one ends this one too.

        Blocks: until the response, at most the options' `timeout` (or the peer's own).
        Raises: LocalProtocolError (nothing was sent), ErrorResponse, RemoteProtocolError, RequestTimeout,
            RequestCancelled, TransportClosed.
        """
        options, terms = options or {}, self.terms
        rule = terms.sent.get(method) or terms.sending(method)
        if not terms.open:
            self._check_open()
            self._side.may_send(method, is_request=True)
        in_handler = before_block()
        timeout = options.get("timeout", DEFAULT)
        # The time of a call that a handler makes goes on: that handler is what makes the time of others stand still.
        deadline = Deadline(
            self._timeout if timeout is DEFAULT else timeout,
            options.get("max_timeout"),
            time.monotonic if in_handler else self._clock,
        )
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
            answer = _answer(arriving, options, deadline)
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
        before_block()
        timeout = options.get("timeout", DEFAULT)
        deadline = Deadline(self._timeout if timeout is DEFAULT else timeout, options.get("max_timeout"), self._clock)
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
            self._side.may_send(methods[0], is_request=True)
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
            self._side.may_send(method, is_request=False)
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


def _answer(arriving: Iterator[JsonObject], options: Options, deadline: Deadline) -> JsonObject:
    """The response to a request; progress before it is handed on, and may extend the deadline up to its maximum."""
    try:
        for message in arriving:
            if "method" not in message:
                return message
            deadline.extend()
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
        return _result(_answer(row.until(deadline), options, deadline), check)
    except (ErrorResponse, RemoteProtocolError) as problem:
        return problem
