"""Input rounds: the client's answers to a result that asks for input, and the next round of its call.

Spec:      basic/patterns/mrtr#client-requirements-basic-workflow (2026-07-28)
Upholds:   spec_notes/basic/patterns/mrtr.md, the rows on the client
Not here:  sealing and running again (basic/mrtr); the functions that answer (client/session)
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from mcp_ref.client.session import ClientContext, Stateless
from mcp_ref.errors import LocalProtocolError
from mcp_ref.kit.threads.deadline import Cancel, Deadline
from mcp_ref.pages.basic import mrtr
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.served import Reply, ServedRequest

if TYPE_CHECKING:
    from mcp_ref.client.client import Client

MAX_PAUSE: Final = 300.0
"""Seconds for which the time limit of a call stands still while the user answers a question of the server."""


def answers_to(self: Client, result: JsonObject) -> JsonObject:
    """Return what this client's functions answer to a result that asks for input, for a call that is driven by hand:

    >>> result = client.call_tool("book", {}, by_hand=True)
    >>> while result.get("resultType") == "input_required":
    ...     answers = client.answers_to(result)
    ...     result = client.call_tool("book", {}, by_hand=True, input_responses=answers,
    ...                               request_state=result["requestState"])

    The state may be kept meanwhile, and the next round be sent by another process. The session era has no such results.
    """
    session = self.session
    if not isinstance(session, Stateless):
        raise LocalProtocolError(f"in {session.revision} a result cannot ask for input")
    return _answers(session, result)


def next_round(
    session: Stateless, asked: JsonObject | None, result: JsonObject, cancel: Cancel | None, deadline: Deadline
) -> JsonObject:
    """Return the params of the next round: those that were `asked`, with the answers; `cancel` gives these up too."""
    began = time.monotonic()
    responses = _answers(session, result, cancel)
    # A user who thinks must not use up the time of the call. A question is a sign of life, as progress is.
    deadline.postpone(min(time.monotonic() - began, MAX_PAUSE))
    deadline.extend()
    return mrtr.retry_params(asked, result, responses)


def _answers(session: Stateless, result: JsonObject, cancel: Cancel | None = None) -> JsonObject:
    handles = (session.closing,) if cancel is None else (session.closing, cancel)

    def nowhere(message: Any, deadline: Deadline) -> None:
        raise LocalProtocolError("in this revision nothing can be sent while you answer a question of the server")

    def answer(method: str, params: JsonObject) -> JsonObject:
        incoming = ServedRequest(method, method, params, Reply(nowhere))
        try:
            for handle in handles:
                handle.attach(incoming.cancel)
            return session.client.answers(ClientContext(session, incoming), incoming)
        finally:
            for handle in handles:
                handle.detach(incoming.cancel)

    return mrtr.answer_inputs(result, answer, session.revision)
