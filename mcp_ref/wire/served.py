"""ServedRequest: one request of the peer, and the one answer that it gets.

Spec:      basic/messages#responses; basic/utilities/cancellation
Upholds:   spec_notes/basic/utilities/cancellation.md, spec_notes/basic/utilities/progress.md ("stop after completion")
Not here:  which requests are in flight, and who answers them (connection/connection); batches (basic/batching)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from mcp_ref.errors import HttpStatusError, InternalError, LocalProtocolError, McpError, TransportClosed
from mcp_ref.kit.threads.deadline import Cancel, Deadline, acquire
from mcp_ref.kit.threads.warn_once import outcome
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.transport import Pending

log = logging.getLogger(__name__)

WRITE_TIMEOUT = 60.0
"""Seconds in which the peer must make room for a notification."""


class Reply:
    """The way of the messages that belong to a request. As it stands it is a channel that one client has for itself,
    such as a pipe; a batch and a POST have replies of their own.
    """

    send: Callable[[Any, Deadline], None]  # as of `Transport`
    principal: Any = None  # the sender, as the authentication said
    private = True  # whether one client alone can ask here

    def __init__(self, send: Callable[[Any, Deadline], None]) -> None:
        self.send = send

    def skip(self) -> None:
        """Note that no answer will come."""

    def release(self, retry: int) -> None:
        """Close the connection before the answer, which the client fetches after `retry` milliseconds."""

    def abandoned(self) -> bool:
        """Return whether the client has hung up for good."""
        return False

    def require_scopes(self, message: JsonObject, scopes: Collection[str]) -> None:
        """Refuse a request of that method and params unless its token has these scopes; a pipe has no tokens."""


class ServedRequest(Cancel):
    """One request of the peer while it is served.

    Args:
        gone: tells whether the client has hung up, if that gives the request up.

    Attributes:
        id, method, params: as they came; `params` is an empty dict if there were none.
        reply: where what belongs to it is sent.
        reason: why the request was given up; None while it is not.
        inputs, state: what an earlier round brought: the answers by key, and the handler's own state; both checked.

    Threads: any.
    """

    __slots__ = ("_began", "_ended", "_gone", "_writing", "id", "inputs", "method", "params", "reply", "state",
                 "weight")  # fmt: skip

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
        self.weight = 0  # bytes that it takes, while its handler runs or waits
        self._gone = gone
        self._writing = threading.Lock()  # guards _ended, and is held for the write that belongs to it
        self._ended, self._began = False, time.monotonic()

    @property
    def owner(self) -> str | None:
        """Return the principal; "" over a channel that one client has for itself; None for an unknown one over HTTP."""
        if self.reply.principal is None:
            return "" if self.reply.private else None
        return str(self.reply.principal)

    cancel = Cancel.__call__  # sets the flag, and ends the handler's waits for the peer

    @property
    def cancelled(self) -> bool:
        """Return whether the peer, or the end of the conversation, has given it up: its handler should stop."""
        # MUST: over HTTP a client that closes the stream has cancelled its request
        # (2026-07-28/basic/transports/streamable-http#cancellation;
        # 2026-07-28/basic/patterns/cancellation#transport-specific-cancellation)
        if not self._cancelled and self._gone is not None and not self._ended and self._gone():
            self.cancel("the client has hung up")
        return self._cancelled

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

    def exchange(self, message: JsonObject, pending: Pending, deadline: Deadline) -> None:
        """Send a question of the handler the way of the request's other messages, and wait for the answer.

        Raises: LocalProtocolError: the request is answered.
        """
        acquire(self._writing, deadline, "waiting for another message of the request to be written")
        try:
            if self._ended:
                raise LocalProtocolError("the request was answered: its context can no longer ask anything")
            # SHOULD: messages before the response relate to the request
            # (basic/transports#sending-messages-to-the-server)
            self.reply.send(message, deadline)
        finally:
            self._writing.release()
        pending.sent = True
        pending.take(deadline)

    def finish(self, answer: JsonObject, deadline: Deadline) -> None:
        """Send the answer, once. If the peer is gone, nobody is left to tell."""
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
        if log.isEnabledFor(logging.INFO):
            named = self.params.get("name", self.params.get("uri"))
            log.info("%s", outcome(answer, self.method, named, self.reply.principal, time.monotonic() - self._began))

    def drop(self) -> None:
        """Tell a batch or a POST that waits for the answer that none will come."""
        try:
            self.reply.skip()
        except McpError as problem:
            log.debug("could not end the reply to %s: %s", self.method, problem)
