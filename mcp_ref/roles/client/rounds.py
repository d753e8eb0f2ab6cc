"""Rounds: a client answers what a server asks before it answers a request, and sends the request again.

Spec:      basic/patterns/mrtr#client-requirements-basic-workflow (2026-07-28)
Upholds:   spec_notes/basic/patterns/mrtr.md, the rows on the client
Not here:  the shapes of questions, answers and state (basic/mrtr); what the user's functions say
           (roles/client/answers); how many rounds there are, and what each sends (roles/client/client); the session era
           (roles/client/session)
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mcp_ref.basic import mrtr
from mcp_ref.errors import LocalProtocolError
from mcp_ref.incoming import Incoming, Reply
from mcp_ref.machinery.deadline import Cancel, Deadline
from mcp_ref.messages import JsonObject
from mcp_ref.roles.client.answers import MAX_PAUSE, ClientContext
from mcp_ref.roles.client.session import Stateless

if TYPE_CHECKING:
    from mcp_ref.roles.client.client import Client


def answers_to(self: Client, result: JsonObject) -> JsonObject:
    """What this client's functions answer to a result that asks for input, for a call that is driven by hand:

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
    """The params of the next round of a request: those that were `asked`, with the answers that the result asks for.

    Args:
        cancel: of the call; gives up the questions too.
    """
    began = time.monotonic()
    responses = _answers(session, result, cancel)
    # A user who thinks must not use up the time of the call. A question is a sign of life, as progress is.
    deadline.postpone(min(time.monotonic() - began, MAX_PAUSE))
    deadline.extend()
    return mrtr.retry_params(asked, result, responses)


def _answers(session: Stateless, result: JsonObject, cancel: Cancel | None = None) -> JsonObject:
    handles = (session.closing,) if cancel is None else (session.closing, cancel)

    def answer(method: str, params: JsonObject) -> JsonObject:
        incoming = Incoming(method, method, params, Reply(_nowhere))
        try:
            for handle in handles:
                handle.attach(incoming.cancel)
            return session.client.answers(ClientContext(session, incoming), incoming)
        finally:
            for handle in handles:
                handle.detach(incoming.cancel)

    return mrtr.answer_inputs(result, answer, session.revision)


def _nowhere(message: Any, deadline: Deadline) -> None:
    """Refuse what a client's function sends while it answers a question: this era has no way for it."""
    raise LocalProtocolError("in this revision nothing can be sent while you answer a question of the server")
