"""Incoming: one request of the peer, and the one answer that it gets.

Spec:      basic/messages#responses; basic/utilities/cancellation; 2025-03-26/basic/index#batching
Upholds:   spec_notes/basic/utilities/cancellation.md, spec_notes/basic/utilities/progress.md ("stop after completion")
Not here:  the table of requests in flight (peer)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

from mcp_ref import messages
from mcp_ref.basic.transports.transport import Inbox
from mcp_ref.errors import LocalProtocolError, McpError, Refusal, RequestCancelled
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.messages import JsonObject

log = logging.getLogger(__name__)

WRITE_TIMEOUT = 60.0
"""Seconds in which the peer must make room for a notification."""


class Reply(Protocol):
    """Where the answer to a request goes: the transport itself, the array that answers a batch, or a POST's reply."""

    def send(self, message: Any, deadline: Deadline) -> None: ...


@runtime_checkable
class EndingReply(Reply, Protocol):
    """A reply that must be told when no answer will come: somebody waits for its end."""

    def skip(self) -> None:
        """The request gets no answer."""
        ...


@runtime_checkable
class ReleasingReply(Reply, Protocol):
    """A reply whose connection can be closed before the answer, which the client then fetches."""

    def release(self, retry: int | None) -> None:
        """Close the connection; the client comes back after so many milliseconds."""
        ...


class Incoming:
    """One request of the peer while it is served.

    Args:
        gone: whether the client has hung up, where that gives up the request; None where it does not.

    Attributes:
        id, method, params: as they came; `params` is an empty dict where there were none.
        cancelled: whether the peer, or the end of the conversation, has given it up. Its handler should stop.
        reason: why.
        answers, state: what an earlier round of the request brought, for a handler that asks by its result: the
            answers by key, and its own state. Set by whoever serves it, and never read off the wire unchecked.

    Threads: any.
    """

    __slots__ = (
        *("_asked", "_cancelled", "_ended", "_gone", "_reply", "_writing"),
        *("answers", "id", "key", "method", "params", "reason", "state"),
    )

    def __init__(
        self,
        request_id: messages.RequestId,
        method: str,
        params: JsonObject,
        reply: Reply,
        gone: Callable[[], bool] | None = None,
    ) -> None:
        self.id, self.method, self.params, self._reply = request_id, method, params, reply
        self.key = (type(request_id), request_id)
        self._cancelled, self._gone = False, gone
        self.reason: str | None = None
        self.answers: JsonObject = {}
        self.state: Any = None
        self._asked: list[Callable[[McpError], None]] = []
        self._writing = threading.Lock()  # guards _ended, and is held for the write that belongs to it
        self._ended = False

    @property
    def cancelled(self) -> bool:
        """Whether it was given up; where its client can only hang up, the connection is asked."""
        # MUST: a client that disconnects cancels its request (2026-07-28/basic/transports/streamable-http#cancellation)
        if not self._cancelled and self._gone is not None and not self._ended and self._gone():
            self.cancel("the client has hung up")
        return self._cancelled

    def error(self, refusal: Refusal) -> JsonObject:
        """The error response to this request."""
        return messages.error(self.id, refusal)

    def notify(self, message: JsonObject, deadline: Deadline | None = None) -> bool:
        """Send a notification that belongs to this request; False, unsent, once it is answered or given up."""
        with self._writing:
            # MUST: nothing after completion (basic/utilities/progress#progress-flow)
            if self._ended or self.cancelled:
                return False
            self._reply.send(message, deadline or Deadline(WRITE_TIMEOUT))
            return True

    def finish(self, answer: JsonObject, deadline: Deadline) -> None:
        """Send the answer, once. A peer that is gone is no error here: there is nobody to tell."""
        with self._writing:
            if self._ended:
                return
            try:
                self._reply.send(answer, deadline)
            except OSError as problem:
                log.debug("could not answer %s: %s", self.method, problem)
            self._ended = True

    def drop(self) -> None:
        """Say to a batch, or a POST, that this request gets no answer; elsewhere silence is enough."""
        try:
            if isinstance(self._reply, EndingReply):
                self._reply.skip()
        except McpError as problem:
            log.debug("could not end the reply to %s: %s", self.method, problem)

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """Send a question that this request's handler asks the peer, where the request's other messages go.

        Raises: LocalProtocolError: the request is answered, so that nothing of it can be sent any more.
        """
        left = deadline.left()
        if not self._writing.acquire(timeout=-1 if left is None else left):
            deadline.check("waiting for another message of the request to be written")
        try:
            if self._ended:
                raise LocalProtocolError("the request was answered: its context can ask nothing more")
            # SHOULD: messages before the response relate to the request
            # (basic/transports#sending-messages-to-the-server)
            self._reply.send(message, deadline)
        finally:
            self._writing.release()
        return inbox.until(deadline)

    def release(self, retry: int | None) -> None:
        """Close the connection that the answer would travel on, where the client can fetch it later; else nothing."""
        if isinstance(self._reply, ReleasingReply):
            self._reply.release(retry)

    def asked(self, give_up: Callable[[McpError], None]) -> None:
        """Remember a question that the handler asks the peer, so that cancelling ends the wait for its answer."""
        # Append first, look second: whichever thread comes later sees what the other did.
        self._asked.append(give_up)
        if self.cancelled:
            give_up(RequestCancelled(self.reason or "cancelled"))

    def cancel(self, reason: str) -> None:
        """Raise the flag, and end the handler's waits for the peer. Never blocks: the reader calls it."""
        self.reason, self._cancelled = reason, True
        for give_up in list(self._asked):
            give_up(RequestCancelled(reason))


class BatchReply:
    """Collects the answers to one batch, and sends them as one array when the last is there.

    Spec: 2025-03-26/basic/index#batching; JSON-RPC 2.0, section 6
    """

    def __init__(self, reply: Reply, expected: int) -> None:
        self._reply = reply
        self._lock = threading.Lock()  # guards _expected and _answers
        self._expected = expected
        self._answers: list[JsonObject] = []

    def send(self, message: JsonObject, deadline: Deadline) -> None:
        """Take an answer; a notification, or a request of ours, goes its own way at once.

        Raises: LocalProtocolError: this answer is not JSON. Said now, while it is known whose answer it is.
        """
        if "method" in message:
            self._reply.send(message, deadline)
        else:
            messages.encode(message)
            self._count(message, deadline)

    def skip(self) -> None:
        """One request of the batch was cancelled and gets no answer."""
        self._count(None, Deadline(WRITE_TIMEOUT))

    def _count(self, answer: JsonObject | None, deadline: Deadline) -> None:
        with self._lock:
            self._expected -= 1
            if answer is not None:
                self._answers.append(answer)
            ready = self._expected == 0 and bool(self._answers)
        if ready:
            self._reply.send(self._answers, deadline)
