"""Input requests: what a handler returns to ask by itself."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.errors import LocalProtocolError
from mcp_ref.pages.basic.mrtr import KINDS, elicitation_form, elicitation_url, input_required, roots_listing, sampling
from mcp_ref.pages.server.tools import Tool

ADD: Tool = {"name": "add", "inputSchema": {"type": "object"}}


def test_sampling_has_the_options_of_sample() -> None:
    asked = sampling("Capital?", max_tokens=100, system_prompt="Be brief.", tools=[ADD], timeout=5)
    assert asked == {
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Capital?"}}],
            "maxTokens": 100,
            "systemPrompt": "Be brief.",
            "tools": [ADD],
        },
    }


def test_a_question_is_not_a_json_rpc_message() -> None:
    for request in (roots_listing(), elicitation_form("m", {})):
        assert request.keys() == {"method", "params"} and request["method"] in KINDS


@pytest.mark.parametrize(
    "ask",
    [
        lambda: elicitation_form("m", {"a": {"type": "object"}}),
        lambda: elicitation_url("m", "no url"),
        lambda: sampling([{"role": "user", "content": {"type": "tool_use"}}], max_tokens=1),  # type: ignore[list-item, typeddict-item]
        lambda: sampling("m", max_tokens="many"),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_be_asked_is_not_a_question(ask: Any) -> None:
    with pytest.raises(LocalProtocolError):
        ask()


def test_a_result_holds_questions_or_a_state_or_both() -> None:
    question = roots_listing()
    assert input_required({"r": question}) == {"resultType": "input_required", "inputRequests": {"r": question}}
    assert input_required(state=0) == {"resultType": "input_required", "requestState": 0}
    assert input_required({"r": question}, state={}).keys() == {"resultType", "inputRequests", "requestState"}
    for nothing in (None, {}):
        with pytest.raises(LocalProtocolError):
            input_required(nothing)
