from __future__ import annotations

import gc
from typing import Any

import pytest

from mcp_ref.client.session import DEFAULT_RATES
from mcp_ref.errors import LocalProtocolError
from mcp_ref.pages.client import sampling
from mcp_ref.pages.client.sampling import message_problem
from mcp_ref.wire.content import text
from tests.pages.client.fakes import FORMS_ONLY, FakeClient, FakeServer

JsonObject = dict[str, Any]

ANSWER = {"role": "assistant", "content": text("Paris"), "model": "m-1", "stopReason": "endTurn"}
WITH_TOOLS: JsonObject = {"sampling": {"tools": {}}}


def use(name: str) -> JsonObject:
    return {"type": "tool_use", "id": name, "name": "weather", "input": {}}


def result(name: str) -> JsonObject:
    return {"type": "tool_result", "toolUseId": name, "content": [text("sun")]}


def user(*content: Any) -> JsonObject:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> JsonObject:
    return {"role": "assistant", "content": list(content)}


def params(**more: Any) -> Any:
    return {"messages": [{"role": "user", "content": text("Capital of France?")}], "maxTokens": 10, **more}


# -- the server asks


def test_sampling_has_a_rate_without_any_setting() -> None:
    rate = DEFAULT_RATES["sampling/createMessage"]
    assert 0 < rate.per_second <= 100 and 0 < rate.burst <= 2_000


def test_context_for_a_client_without_it_is_sent_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer(ANSWER, {"sampling": {}})
    sampling.sample(server, "x", max_tokens=1, include_context="thisServer")
    assert "includeContext 'thisServer' for a client without `sampling.context`" in caplog.text
    caplog.clear()
    server.peer_capabilities = {"sampling": {"context": {}}}
    sampling.sample(server, "x", max_tokens=1, include_context="thisServer")
    server.revision = FORMS_ONLY
    sampling.sample(server, "x", max_tokens=1, include_context="allServers")
    assert caplog.text == ""


def test_an_unbalanced_conversation_is_not_sent() -> None:
    server = FakeServer(ANSWER, WITH_TOOLS)
    conversation: Any = [user(text("x")), assistant(use("1"))]
    with pytest.raises(LocalProtocolError, match="tool result missing"):
        sampling.sample(server, conversation, max_tokens=1)
    with pytest.raises(LocalProtocolError, match="a message must be a dict"):
        sampling.sample(server, ["x"], max_tokens=1)  # type: ignore[list-item]
    assert server.sent == []


# -- the rules of messages


def test_tool_results_that_answer_every_use_are_right() -> None:
    single = {"role": "user", "content": result("3")}
    talk = [user(text("x")), assistant(text("let me see"), use("1"), use("2")), user(result("2"), result("1"))]
    assert message_problem([*talk, assistant(use("3")), single, assistant(text("sun"))]) is None


@pytest.mark.parametrize(
    ("talk", "problem"),
    [
        ([assistant(use("1")), user(text("x"), result("1"))], "mixed"),
        ([assistant(use("1"), use("2")), user(result("1"))], "tool result missing for 2"),
        ([assistant(use("1")), user(text("x"))], "tool result missing for 1"),
        ([assistant(use("1")), assistant(text("x"))], "tool result missing for 1"),
        ([assistant(use("1"))], "tool result missing at the end for 1"),
        ([user(result("1"))], "no tool use before it"),
        ([user(use("1"))], "assistant message"),
        ([assistant(result("1"))], "user message"),
    ],
)
def test_tool_uses_and_results_pair_and_stand_alone(talk: list[JsonObject], problem: str) -> None:
    found = message_problem(talk)
    assert found is not None and problem in found


# -- the client answers


def test_a_dict_is_completed() -> None:
    answer = sampling.sampling_create_message(lambda p: {"content": "hi", "model": "m"}, FakeClient(), params())
    assert answer == {"role": "assistant", "content": text("hi"), "model": "m"}


@pytest.mark.parametrize("returned", ["hi", None, {"content": "hi"}, {"model": "m"}])
def test_a_handler_must_name_its_model(returned: Any) -> None:
    with pytest.raises(LocalProtocolError, match="reply"):
        sampling.sampling_create_message(lambda p: returned, FakeClient(), params())


def test_a_reply_with_tool_uses_stopped_for_them() -> None:
    content: Any = [use("1")]
    assert sampling.reply(content, model="m")["stopReason"] == "toolUse"
    assert sampling.reply("x", model="m", stop_reason="refused")["stopReason"] == "refused"


def test_hints_are_taken_in_order_as_parts_of_names() -> None:
    models = ["gemini-pro", "claude-haiku", "claude-sonnet"]
    hints: list[sampling.ModelHint] = [{"name": "gpt"}, {}, {"name": "sonnet"}, {"name": "claude"}]
    assert sampling.choose_model({"hints": hints}, models) == "claude-sonnet"
    assert sampling.choose_model({"hints": [{"name": "claude"}]}, models) == "claude-haiku"
    assert sampling.choose_model({"hints": [{"name": "gpt"}]}, models) is None
    assert sampling.choose_model(None, models) is None


def test_nothing_of_a_request_is_kept_after_it() -> None:
    for marked in ("one", "two"):
        block = text(f"kept? {marked}")
        asked = params(messages=[{"role": "user", "content": block}])
        sampling.sampling_create_message(lambda request: sampling.reply("Paris", model="m"), FakeClient(), asked)
        del asked
        gc.collect()
        # What refers to the text block of the request now is this function alone.
        assert not [each for each in gc.get_referrers(block) if isinstance(each, dict) and "role" in each]
