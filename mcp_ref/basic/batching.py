"""Batches: several messages in one JSON array, in revision 2025-03-26 alone. A client sends one here.

Spec:      2025-03-26/basic/index#batching; JSON-RPC 2.0, section 6
Upholds:   spec_notes/basic/index.md, the rows on batching
Not here:  a batch that arrives (peer), and the array that answers it (incoming); the POST of a batch
           (streamable_http/server)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_ref.basic.utilities import UNCANCELLABLE
from mcp_ref.errors import ErrorResponse, LocalProtocolError, McpError, RemoteProtocolError
from mcp_ref.incoming import MAX_BATCH
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options, check_options
from mcp_ref.peer import PendingRequest

if TYPE_CHECKING:
    from mcp_ref.callers import Client


def request_batch(
    self: Client, calls: Sequence[tuple[str, JsonObject | None]], options: Options | None = None
) -> list[JsonObject | McpError]:
    """Send several requests as one batch, in revision 2025-03-26; the results or errors in the order asked.

    Blocks and raises: as every call, for the whole batch; an error response to one of them is in the list.
        LocalProtocolError: the revision has no batches, or `initialize` is in this one.
    Spec: 2025-03-26/basic/index#batching
    """
    options = options or {}
    check_options(options, "a batch")
    peer = self.session.peer
    if not peer.terms.revision.batching:
        raise LocalProtocolError(f"revision {peer.terms.revision} has no batches")
    if not calls:
        raise LocalProtocolError("a batch must not be empty")
    if len(calls) > MAX_BATCH:
        raise LocalProtocolError(f"a batch has at most {MAX_BATCH:,} messages")
    # MUST NOT: `initialize` is part of a batch (2025-03-26/basic/lifecycle#initialization)
    if alone := UNCANCELLABLE & {method for method, _ in calls}:
        raise LocalProtocolError(f"{', '.join(alone)} must not be part of a batch")
    deadline = peer.deadline(options)
    batch = [PendingRequest(method, options, deadline) for method, _ in calls]
    results: list[JsonObject | McpError] = []
    try:
        begun = [peer.begin(pending, params) for pending, (_, params) in zip(batch, calls, strict=True)]
        peer.transport.send(begun, deadline)
        for pending in batch:
            pending.sent = True
        for pending in batch:
            try:
                results.append(peer.await_answer(pending, pending.until(deadline)))
            except (ErrorResponse, RemoteProtocolError) as problem:
                results.append(problem)
        return results
    except BaseException as reason:
        for pending in batch:
            peer.abandon(pending, reason)
        raise
