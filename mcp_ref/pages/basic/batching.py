"""Batches: several messages in one JSON array, in revision 2025-03-26 alone. A client sends them; both sides take them.

Spec:      2025-03-26/basic/index#batching; JSON-RPC 2.0, section 6
Upholds:   spec_notes/basic/index.md, the rows on batching
Not here:  one message (connection/connection); the POST of a batch (streamable_http/server)
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any, Final

from mcp_ref.errors import ErrorResponse, InvalidRequest, LocalProtocolError, McpError, RemoteProtocolError
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.utilities import UNCANCELLABLE
from mcp_ref.pages.basic.versioning import is_stateless
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options, check_options
from mcp_ref.wire.served import WRITE_TIMEOUT, Reply

MAX_BATCH: Final = 10_000
"""Messages in one batch: two bytes of a bigger one can cost a hundred bytes of answer."""

# -- sending one -----------------------------------------------------------------------------------------------------


# What has a peer is of no type here: the peer imports this page.


def request_batch(
    self: Any, calls: Sequence[tuple[str, JsonObject | None]], options: Options | None = None
) -> list[JsonObject | McpError]:
    """Send several requests as one batch, in revision 2025-03-26; the results or errors in the order asked.

    Blocks and raises: as every call, for the whole batch; an error response to one of them is in the list.
        LocalProtocolError: the revision has no batches, or `initialize` is in this one.
    Spec: 2025-03-26/basic/index#batching
    """
    options = options or {}
    check_options(options, "a batch")
    connection = self.session.connection
    if not connection.terms.revision.batching:
        raise LocalProtocolError(f"revision {connection.terms.revision} has no batches")
    if not calls:
        raise LocalProtocolError("a batch must not be empty")
    if len(calls) > MAX_BATCH:
        raise LocalProtocolError(f"a batch has at most {MAX_BATCH:,} messages")
    # `initialize` MUST NOT be part of a batch (2025-03-26/basic/lifecycle#initialization)
    if alone := UNCANCELLABLE & {method for method, _ in calls}:
        raise LocalProtocolError(f"{', '.join(alone)} must not be part of a batch")
    deadline = connection.begin_wait(options)
    batch = [connection.request_type(method, options, deadline) for method, _ in calls]
    results: list[JsonObject | McpError] = []
    try:
        begun = [connection.begin(pending, params) for pending, (_, params) in zip(batch, calls, strict=True)]
        connection.transport.send(begun, deadline)
        for pending in batch:
            pending.sent = True
        for pending in batch:
            try:
                pending.take(deadline)
                results.append(pending.result())
            except (ErrorResponse, RemoteProtocolError) as problem:
                results.append(problem)
        return results
    except BaseException as reason:
        for pending in batch:
            connection.abandon(pending, reason)
        raise


# -- receiving one ---------------------------------------------------------------------------------------------------


def take_batch(self: Any, batch: list[Any], reply: Reply, here: bool, data: bytes) -> None:
    """Route the messages of a batch that has arrived; their answers go out together."""
    if not self.terms.revision.batching:
        # MUST: refuse a batch where the revision has none: a line is one message (for a POST, see
        # SessionEra._answer) (changelog#major-changes)
        raise InvalidRequest("Invalid request: batches exist only in revision 2025-03-26")
    if not batch:
        raise InvalidRequest("Invalid request: a batch must not be empty")
    if len(batch) > MAX_BATCH:
        raise InvalidRequest(f"Invalid request: a batch has at most {MAX_BATCH:,} messages")
    # MUST: a receiver supports batches: their answers are collected in one array (2025-03-26/basic/index#batching)
    answered = wants_answer if self.terms.role == "server" else messages.asks
    collected = BatchReply(reply, sum(map(answered, batch)))
    share = len(data) // len(batch)
    for number, message in enumerate(batch):
        method = message.get("method") if isinstance(message, dict) and "id" in message else None
        if isinstance(message, list):
            refusal = InvalidRequest("Invalid request: a message must be an object")
        # `initialize` MUST NOT be part of a batch (2025-03-26/basic/lifecycle#initialization). Nor is anything
        # stateless.
        elif isinstance(method, str) and (method in UNCANCELLABLE or is_stateless(method, message.get("params"))):
            refusal = InvalidRequest(f"Invalid request: {method} must not be part of a batch")
        else:
            self.route(message, collected, here, data[number * share : (number + 1) * share])
            continue
        self.refuse(messages.readable_id(message), refusal, collected, here, message)


def wants_answer(message: Any) -> bool:
    """Return whether a server answers an entry of a batch: a request, or something that is not a message at all."""
    return (
        not isinstance(message, dict)
        or ("method" in message and "id" in message)
        or not ("method" in message or "result" in message or "error" in message)
    )


class BatchReply(Reply):
    """Collects the answers to one batch, and sends them as one array when the last is there.

    Spec: 2025-03-26/basic/index#batching; JSON-RPC 2.0, section 6
    """

    def __init__(self, reply: Reply, expected: int) -> None:
        self._reply = reply
        self.principal, self.private = reply.principal, reply.private
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

    def require_scopes(self, message: JsonObject, scopes: Collection[str]) -> None:
        """See `Reply`."""
        self._reply.require_scopes(message, scopes)

    def _count_down(self, answer: JsonObject | None, deadline: Deadline) -> None:
        with self._lock:
            self._expected -= 1
            if answer is not None:
                self._answers.append(answer)
            ready = self._expected == 0 and bool(self._answers)
        if ready:
            self._reply.send(self._answers, deadline)
