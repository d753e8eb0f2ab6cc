"""The Peer: requests and their responses, in both directions, over one transport.

Spec:      basic/messages (2024-11-05), basic/index#messages, basic/utilities/cancellation, basic/utilities/progress,
           basic/lifecycle#timeouts
Upholds:   spec_notes/basic/index.md, spec_notes/basic/utilities/cancellation.md
Reads:     basic/messages, basic/terms, basic/patterns/requester, workers, reply and side
Not here:  the requests that we send (basic/patterns/requester); which method
           does what (server/session, client/session); what passes at all (basic/terms)

Two tables, which never meet: the requester's rows are the requests that we sent and wait for, `_incoming` those that we
received and have not answered. Ids are keyed with their type, and the two directions number independently.

Whoever pops a row owns what happens to it. An answer pops an incoming row and is then sent; a cancellation that pops it
first means that nothing is sent (the three races of the cancellation page).

`receive` runs in the transport's reader. It only routes: it takes the one lock for a moment, puts into queues, and
neither writes nor runs a user's code, so that a peer which does not read can never stop us from reading.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from mcp_ref.basic import messages
from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.patterns.reply import BatchReply, Incoming, Reply
from mcp_ref.basic.patterns.requester import Requester
from mcp_ref.basic.patterns.side import Side
from mcp_ref.basic.patterns.workers import Workers
from mcp_ref.basic.terms import Terms
from mcp_ref.basic.transports.transport import Transport
from mcp_ref.basic.utilities.cancellation import UNCANCELLABLE
from mcp_ref.basic.versioning import SUBSCRIPTION_ID, is_modern
from mcp_ref.errors import InternalError, InvalidRequest, LocalProtocolError, McpError, Refusal, TransportClosed

__all__ = ["Peer"]

log = logging.getLogger(__name__)

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
        pausing: seconds for which the time of our own calls stands still while we answer the peer's requests (a client
            does: a person who thinks must not use up the call that asked); 0 for never.
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
        pausing: float = 0,
        cap: int = 64,
    ) -> None:
        super().__init__(transport, side, terms, timeout, pausing)
        self._workers = Workers(cap)
        self._pausing = pausing
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
            result = self._side.admit(method, params)
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
                self.take_streamed(message, meta[SUBSCRIPTION_ID], partial(self._side.take, method, params))
            else:
                self._side.take(method, params)
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
        self._pause()
        try:
            result = self._side.answer(incoming)
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
            self._resume()
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

    def _pause(self) -> None:
        if self._pausing:
            with self._lock:
                self._clock.pause()

    def _resume(self) -> None:
        if self._pausing:
            with self._lock:
                self._clock.resume()

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
            self._side.lost(reason)

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
