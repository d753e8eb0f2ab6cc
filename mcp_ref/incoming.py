"""Incoming: one request of the peer, and the one answer that it gets.

Spec:      basic/messages#responses; basic/utilities/cancellation
Upholds:   spec_notes/basic/utilities/cancellation.md, spec_notes/basic/utilities/progress.md ("stop after completion")
Not here:  which requests are in flight, and who answers them (peer); sending a batch
           (basic/batching)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from mcp_ref import messages
from mcp_ref.basic.transports.transport import Inbox
from mcp_ref.errors import HttpStatusError, InternalError, LocalProtocolError, McpError, TransportClosed
from mcp_ref.machinery.deadline import Cancel, Deadline, holding
from mcp_ref.messages import JsonObject

log = logging.getLogger(__name__)

WRITE_TIMEOUT = 60.0
"""Seconds in which the peer must make room for a notification."""

MAX_BATCH: Final = 10_000
"""Messages in one batch: two bytes of a bigger one can cost a hundred bytes of answer."""


class Reply(Protocol):
    """Where the answer to a request goes: the transport itself, the array that answers a batch, or a POST's reply.

    It may have `skip()`, called when no answer will come; `release(retry)`, to close the connection before the answer,
    which the client fetches after so many milliseconds; `abandoned()`, whether the client has hung up for good;
    `principal`, who is asking; and `require_scopes(message, scopes)`, which raises a refusal unless they have these.
    """

    def send(self, message: Any, deadline: Deadline) -> None: ...


class Incoming(Cancel):
    """One request of the peer while it is served.

    Args:
        gone: tells whether the client has hung up, if that gives the request up.

    Attributes:
        id, method, params: as they came; `params` is an empty dict if there were none.
        reply: where what belongs to it is sent.
        reason: why the request was given up; None while it is not.
        inputs, state: what an earlier round brought, for a handler that asks by its result: the answers by key, and
            its own state; both checked.

    Threads: any.
    """

    __slots__ = ("_ended", "_gone", "_writing", "id", "inputs", "method", "params", "reply", "state")

    def __init__(
        self,
        request_id: messages.RequestId,
        method: str,
        params: JsonObject,
        reply: Reply,
        gone: Callable[[], bool] | None = None,
    ) -> None:
        # What `Cancel` begins with, written out: every request comes by here.
        self._callbacks, self._cancelled, self.reason = [], False, None
        self.id, self.method, self.params, self.reply = request_id, method, params, reply
        self.inputs: JsonObject = {}
        self.state: Any = None
        self._gone = gone
        self._writing = threading.Lock()  # guards _ended, and is held for the write that belongs to it
        self._ended = False

    # -- who asks

    @property
    def owner(self) -> str | None:
        """Who owns this request, as far as that can be told: the principal; "" over a channel that one client has for
        itself, such as a pipe; None over HTTP if nobody was asked who they are."""
        principal = getattr(self.reply, "principal", "")
        return None if principal is None else str(principal)

    # -- giving it up: sets the flag, and ends the handler's waits for the peer

    cancel = Cancel.__call__

    @property
    def cancelled(self) -> bool:
        """Whether the peer, or the end of the conversation, has given it up: its handler should stop."""
        # MUST: over HTTP a client that closes the stream has cancelled its request
        # (2026-07-28/basic/transports/streamable-http#cancellation;
        # 2026-07-28/basic/patterns/cancellation#transport-specific-cancellation)
        if not self._cancelled and self._gone is not None and not self._ended and self._gone():
            self.cancel("the client has hung up")
        return self._cancelled

    # -- what is sent for it

    def notify(self, message: JsonObject, deadline: Deadline | None = None) -> bool:
        """Send a notification that belongs to this request; False, unsent, once it is answered or given up."""
        with self._writing:
            # MUST: progress stops once the request is answered (basic/utilities/progress#progress-flow;
            # basic/utilities/progress#implementation-notes)
            if self._ended or self.cancelled:
                return False
            try:
                self.reply.send(message, deadline or Deadline(WRITE_TIMEOUT))
            except TransportClosed:
                if self._gone is None:
                    raise
                # Not the handler's mistake: its client has given the request up, as `cancelled` would find next.
                self.cancel("the client has hung up")
                return False
            return True

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """Send a question that this request's handler asks the peer, to where the request's other messages go.

        Raises: LocalProtocolError: the request is answered, so that nothing of it can be sent any more.
        """
        with holding(self._writing, deadline, "waiting for another message of the request to be written"):
            if self._ended:
                raise LocalProtocolError("the request was answered: its context can ask nothing more")
            # SHOULD: messages before the response relate to the request
            # (basic/transports#sending-messages-to-the-server)
            self.reply.send(message, deadline)
        inbox.sent = True
        return inbox.until(deadline)

    def finish(self, answer: JsonObject, deadline: Deadline) -> None:
        """Send the answer, once. If the peer is gone, that is not an error here: nobody is left to tell."""
        with self._writing:
            if self._ended:
                return
            try:
                try:
                    self.reply.send(answer, deadline)
                except LocalProtocolError as problem:
                    log.error("the result of %s is not JSON: %s", self.method, problem)
                    self.reply.send(messages.error(self.id, InternalError("Internal error")), deadline)
                except HttpStatusError as refusal:
                    if refusal.status != 413:
                        raise
                    log.error("the answer to %s is too long for the server, which would wait in vain", self.method)
                    self.reply.send(messages.error(self.id, InternalError("The answer is too large")), deadline)
            except (McpError, OSError) as problem:
                log.debug("could not answer %s: %s", self.method, problem)
                self.cancel("its answer could not be sent")
            self._ended = True

    def drop(self) -> None:
        """Tell whoever waits for the answer, such as a batch or a POST, that none will come."""
        try:
            getattr(self.reply, "skip", lambda: None)()
        except McpError as problem:
            log.debug("could not end the reply to %s: %s", self.method, problem)


def wants_answer(message: Any) -> bool:
    """Whether an entry of a batch will be answered: a request, or something that is not a message at all."""
    return (
        not isinstance(message, dict)
        or ("method" in message and "id" in message)
        or not ("method" in message or "result" in message or "error" in message)
    )


class BatchReply:
    """Collects the answers to one batch, and sends them as one array when the last is there.

    Spec: 2025-03-26/basic/index#batching; JSON-RPC 2.0, section 6
    """

    def __init__(self, reply: Reply, expected: int) -> None:
        self._reply = reply
        self.principal = getattr(reply, "principal", None)
        self.require_scopes = getattr(reply, "require_scopes", None)
        self._lock = threading.Lock()  # guards _expected and _answers
        self._expected = expected
        self._answers: list[JsonObject] = []

    def send(self, message: JsonObject, deadline: Deadline) -> None:
        """Collect an answer; a notification, or a request of ours, goes its own way at once.

        Raises: LocalProtocolError: this answer is not JSON. Raised now, while it is known whose answer it is.
        """
        if "method" in message:
            self._reply.send(message, deadline)
        else:
            messages.encode(message)
            self._count_down(message, deadline)

    def skip(self) -> None:
        """Expect one answer less: a request of the batch was cancelled."""
        self._count_down(None, Deadline(WRITE_TIMEOUT))

    def _count_down(self, answer: JsonObject | None, deadline: Deadline) -> None:
        with self._lock:
            self._expected -= 1
            if answer is not None:
                self._answers.append(answer)
            ready = self._expected == 0 and bool(self._answers)
        if ready:
            self._reply.send(self._answers, deadline)
