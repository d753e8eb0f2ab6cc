"""Input responses: how a client answers an `input_required` result, and asks again.

Spec:      basic/patterns/mrtr#client-requirements-basic-workflow (2026-07-28)
Upholds:   spec_notes/basic/patterns/mrtr.md, the rows on the client's requirements
Reads:     basic/patterns/input_requests, schema
Not here:  the answers themselves (client/answers); sending (client/stateless); the server's half (basic/patterns/mrtr)

    result -> required_inputs -> answer_inputs -> retry_params -> the same request again, with an id of its own
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.patterns.input_requests import KINDS
from mcp_ref.errors import InputRefused, RemoteProtocolError, RequestCancelled, RequestTimeout, TransportClosed
from mcp_ref.revisions import STATELESS_REVISIONS, Revision
from mcp_ref.schema import SchemaMismatch, checker, projector

__all__ = ["MOST_ROUNDS", "answer_inputs", "required_inputs", "retry_params"]

MOST_ROUNDS: Final = 10
"""How often a client sends one request again before it takes the questions for endless."""

_LATEST: Final = STATELESS_REVISIONS[-1]


def required_inputs(result: JsonObject, revision: Revision = _LATEST) -> JsonObject:
    """The questions of an `input_required` result by their keys; empty where there are none: then simply ask again.

    Raises: RemoteProtocolError: it has neither questions nor a state, one of them is of the wrong type, or a question
        is none that the revision knows.
    Spec: basic/patterns/mrtr#inputrequiredresult
    """
    if "inputRequests" not in result and "requestState" not in result:
        raise RemoteProtocolError("the server's input_required result has neither inputRequests nor requestState")
    if not isinstance(result.get("requestState", ""), str):
        raise RemoteProtocolError("the requestState of the server's input_required result is no string")
    requests = result.get("inputRequests", {})
    if not isinstance(requests, dict):
        raise RemoteProtocolError("the inputRequests of the server's input_required result are no object")
    for key, request in requests.items():
        _check_question(key, request, revision)
    return requests


def _check_question(key: str, request: Any, revision: Revision) -> None:
    method = request.get("method") if isinstance(request, dict) else None
    if not isinstance(method, str) or method not in KINDS:
        raise RemoteProtocolError(f"the server asks for what {revision} does not have: {method!r}, as {key!r}")
    try:
        checker(KINDS[method].params, revision)(request.get("params", {}), "params")
    except SchemaMismatch as mismatch:
        raise RemoteProtocolError(f"the server's {method}, as {key!r}, does not fit {revision}: {mismatch}") from None


def answer_inputs(
    requests: JsonObject, answer: Callable[[str, JsonObject], JsonObject], revision: Revision = _LATEST
) -> JsonObject:
    """Answer the questions of an `input_required` result one after the other, in their order.

    Args:
        requests: by key, each `{"method": ..., "params": ...}`.
        answer: called with a method and its params (`{}` where the server sent none); returns a result.

    Returns: the `inputResponses` of the next round: each answer as a bare object under the key of its question.
    Raises:
        RemoteProtocolError: one of them is no question; nobody was asked anything.
        InputRefused: `answer` raised: nothing is to be sent again. `__cause__` is what it raised; RequestCancelled,
            RequestTimeout and TransportClosed pass as they are.
    Blocks: as long as `answer` does.
    Threads: any; `answer` is called in this one.
    Spec: basic/patterns/mrtr#client-requirements-basic-workflow
    """
    for key, request in requests.items():
        _check_question(key, request, revision)
    # MUST: construct what was asked for before the retry (basic/patterns/mrtr#client-requirements-basic-workflow)
    return {key: _answered(key, request, answer, revision) for key, request in requests.items()}


def _answered(
    key: str, request: JsonObject, answer: Callable[[str, JsonObject], JsonObject], revision: Revision
) -> JsonObject:
    method = request["method"]
    try:
        result = answer(method, request.get("params", {}))
    except (RequestCancelled, RequestTimeout, TransportClosed):
        raise
    except Exception as problem:
        why = str(problem) or type(problem).__name__
        raise InputRefused(f"{method}, which the server needs first, was refused here: {why}") from problem
    project = projector(KINDS[method].result, revision, replies=True)
    return project(result) if project else result


def retry_params(params: JsonObject | None, result: JsonObject, responses: JsonObject) -> JsonObject:
    """The params of the next round: those of the request, with the answers and the state of the result before.

    What an earlier round added is dropped. The state is echoed as it is, and only if there is one.

    Spec: basic/patterns/mrtr#client-requirements-basic-workflow
    """
    again = {key: value for key, value in (params or {}).items() if key not in ("inputResponses", "requestState")}
    if responses:
        again["inputResponses"] = responses
    # MUST: the exact value; MUST NOT: one where the server gave none
    if "requestState" in result:
        again["requestState"] = result["requestState"]
    return again
