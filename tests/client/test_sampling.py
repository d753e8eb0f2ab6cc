from __future__ import annotations

import gc
from typing import Any

import pytest

from mcp_ref.client import sampling
from mcp_ref.client.answers import DEFAULT_RATES, ClientContext
from mcp_ref.client.sampling import message_problem
from mcp_ref.content import text
from mcp_ref.errors import InvalidParams, LocalProtocolError
from tests.client.fakes import FORMS_ONLY, FakeClient, FakeServer

JsonObject = dict[str, Any]

ANSWER = {"role": "assistant", "content": text("Paris"), "model": "m-1", "stopReason": "endTurn"}
TOOL: Any = {"name": "weather", "inputSchema": {"type": "object"}}
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


def test_a_string_is_one_user_message() -> None:
    server = FakeServer(ANSWER, {"sampling": {}})
    assert sampling.sample(server, "Capital of France?", max_tokens=10) == ANSWER
    assert server.sent == [("sampling/createMessage", params())]


def test_options_are_named_as_on_the_wire_and_kept_apart_from_the_waiting() -> None:
    server = FakeServer(ANSWER, WITH_TOOLS)
    message: sampling.SamplingMessage = {"role": "user", "content": text("x")}
    sampling.sample(
        server,
        message,
        max_tokens=10,
        system_prompt="short",
        model_preferences={"hints": [{"name": "m"}]},
        stop_sequences=["."],
        temperature=0.5,
        tools=[TOOL],
        tool_choice={"mode": "auto"},
        include_context="none",
        metadata={"a": 1},
        timeout=5,
    )
    assert server.params == {
        "messages": [message],
        "maxTokens": 10,
        "systemPrompt": "short",
        "modelPreferences": {"hints": [{"name": "m"}]},
        "stopSequences": ["."],
        "temperature": 0.5,
        "tools": [TOOL],
        "toolChoice": {"mode": "auto"},
        "includeContext": "none",
        "metadata": {"a": 1},
    }
    assert server.options == {"timeout": 5}


def test_no_tools_for_a_client_that_did_not_declare_them() -> None:
    server = FakeServer(ANSWER, {"sampling": {}})
    with pytest.raises(LocalProtocolError, match=r"sampling\.tools"):
        sampling.sample(server, "x", max_tokens=1, tools=[TOOL])
    with pytest.raises(LocalProtocolError, match=r"sampling\.tools"):
        sampling.sample(server, "x", max_tokens=1, tool_choice={"mode": "none"})
    assert server.sent == []


def test_no_tools_in_a_revision_without_them() -> None:
    server = FakeServer(ANSWER, WITH_TOOLS, FORMS_ONLY)
    with pytest.raises(LocalProtocolError, match="2025-06-18"):
        sampling.sample(server, "x", max_tokens=1, tools=[TOOL])


def test_sampling_has_a_rate_without_any_setting() -> None:
    rate = DEFAULT_RATES["sampling/createMessage"]
    assert 0 < rate.per_second <= 1_000 and 0 < rate.burst <= 10_000


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
    with pytest.raises(LocalProtocolError, match="a message is a dict"):
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


def test_the_handler_gets_the_whole_request_and_its_reply_is_the_result() -> None:
    seen: list[Any] = []

    def handler(request: Any) -> Any:
        seen.append(request)
        return sampling.reply("Paris", model="m-1")

    asked = params(systemPrompt="short", modelPreferences={"hints": [{"name": "m"}]})
    assert sampling.sampling_create_message(handler, FakeClient(), asked) == ANSWER
    assert seen == [asked]


def test_the_handler_may_ask_which_server_it_is() -> None:
    def handler(request: Any, ctx: ClientContext) -> Any:
        return sampling.reply(ctx.server_info["name"], model="m")

    answer = sampling.sampling_create_message(handler, FakeClient(), params())
    assert answer["content"] == text("asker")


def test_a_dict_is_completed() -> None:
    answer = sampling.sampling_create_message(lambda p: {"content": "hi", "model": "m"}, FakeClient(), params())
    assert answer == {"role": "assistant", "content": text("hi"), "model": "m"}


@pytest.mark.parametrize("returned", ["hi", None, {"content": "hi"}, {"model": "m"}])
def test_a_handler_must_name_its_model(returned: Any) -> None:
    with pytest.raises(LocalProtocolError, match="reply"):
        sampling.sampling_create_message(lambda p: returned, FakeClient(), params())


def test_the_user_who_refuses_is_error_minus_one() -> None:
    def handler(request: Any) -> Any:
        raise sampling.UserRejected

    with pytest.raises(sampling.UserRejected) as caught:
        sampling.sampling_create_message(handler, FakeClient(), params())
    assert (caught.value.code, caught.value.message) == (-1, "User rejected sampling request")


@pytest.mark.parametrize("field", [{"tools": [TOOL]}, {"toolChoice": {"mode": "none"}}])
def test_undeclared_tools_are_an_error(field: JsonObject) -> None:
    client = FakeClient({"sampling": {}})
    with pytest.raises(InvalidParams, match=next(iter(field))):
        sampling.sampling_create_message(lambda p: sampling.reply("x", model="m"), client, params(**field))
    client.capabilities = WITH_TOOLS
    sampling.sampling_create_message(lambda p: sampling.reply("x", model="m"), client, params(**field))


def test_tool_results_that_are_mixed_or_missing_are_invalid_params() -> None:
    asked = params()
    asked["messages"] = [assistant(use("1")), user(result("1"), text("x"))]
    with pytest.raises(InvalidParams, match=r"messages\[1\]"):
        sampling.sampling_create_message(lambda p: sampling.reply("x", model="m"), FakeClient(WITH_TOOLS), asked)


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


def test_capability_names_only_what_is_supported() -> None:
    assert sampling.capability() == {}
    assert sampling.capability(tools=True, context=True) == {"tools": {}, "context": {}}


def test_nothing_of_a_request_is_kept_after_it() -> None:
    for marked in ("one", "two"):
        block = text(f"kept? {marked}")
        asked = params(messages=[{"role": "user", "content": block}])
        sampling.sampling_create_message(lambda request: sampling.reply("Paris", model="m"), FakeClient(), asked)
        del asked
        gc.collect()
        # What refers to the text block of the request now is this function alone.
        assert not [each for each in gc.get_referrers(block) if isinstance(each, dict) and "role" in each]
