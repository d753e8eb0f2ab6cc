"""Input responses: a client answers what a result asks for, and asks again with that and the state as it came."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.errors import RemoteProtocolError, RequestCancelled, RequestTimeout, TransportClosed
from mcp_ref.pages.basic.mrtr import answer_inputs, elicitation_form, roots_listing, sampling

FORM = elicitation_form("Who?", {"name": {"type": "string"}})
SAMPLING = sampling("Capital?", max_tokens=9)


# -- what is asked for --------------------------------------------------------------------------------------------


def asking(requests: Any) -> Any:
    return {"resultType": "input_required", "inputRequests": requests}


def nobody(method: str, params: Any) -> Any:
    raise AssertionError("nobody is asked")


@pytest.mark.parametrize("result", [{}, {"inputRequests": []}, {"requestState": 5, "inputRequests": {}}])
def test_a_result_that_breaks_the_page_is_the_servers_fault(result: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        answer_inputs({"resultType": "input_required", **result}, nobody)


@pytest.mark.parametrize(
    "request_",
    [
        None, {}, *({"method": method} for method in (5, [], "ping", "elicitation/create")),
        {"method": "elicitation/create", "params": {"mode": "tea", "message": "m"}},
        {"method": "sampling/createMessage", "params": {"messages": "hello"}}, {"method": "roots/list", "params": None},
    ],
)  # fmt: skip
def test_before_anybody_is_asked_every_question_is_looked_at(request_: Any) -> None:
    asked: list[str] = []

    def answer(method: str, params: Any) -> Any:
        asked.append(method)
        return {"roots": []}

    requests = {"good": roots_listing(), "bad": request_}
    with pytest.raises(RemoteProtocolError):
        answer_inputs(asking(requests), answer)
    assert not asked


# -- answers ------------------------------------------------------------------------------------------------------


def test_each_question_is_answered_under_its_key_in_order() -> None:
    asked: list[Any] = []

    def answer(method: str, params: Any) -> Any:
        asked.append((method, params))
        return {"action": "decline"} if method == "elicitation/create" else {"roots": []}

    requests = {"z": FORM, "a": {"method": "roots/list"}}
    assert answer_inputs(asking(requests), answer) == {"z": {"action": "decline"}, "a": {"roots": []}}
    assert asked == [("elicitation/create", FORM["params"]), ("roots/list", {})]


def test_an_answer_has_only_what_the_revision_has() -> None:
    answers = answer_inputs(asking({"r": roots_listing()}), lambda method, params: {"roots": [], "_meta": {"a": 1}})
    assert answers == {"r": {"roots": []}}


@pytest.mark.parametrize(
    "problem", [RequestCancelled("enough"), RequestTimeout("late"), TransportClosed("gone"), KeyboardInterrupt()]
)
def test_what_ended_the_call_itself_is_not_a_refusal(problem: BaseException) -> None:
    def answer(method: str, params: Any) -> Any:
        raise problem

    with pytest.raises(type(problem)):
        answer_inputs(asking({"s": SAMPLING}), answer)
