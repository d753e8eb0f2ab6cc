"""client/sampling: a server asks for a message of the client's model, in each revision."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import (
    Client,
    Context,
    ErrorResponse,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    Server,
    audio,
    image,
    text,
)
from mcp_ref.client.session import DEFAULT_RATES
from mcp_ref.kit.threads.deadline import Rate
from mcp_ref.pages.client import sampling
from mcp_ref.pages.client.sampling import UserRejected, message_problem, reply
from mcp_ref.revisions import REVISIONS
from tests.pages.client.asking import (
    BEFORE_AUDIO,
    BEFORE_ELICITATION,
    LATEST,
    NAMES,
    OLDER,
    JsonObject,
    answer_to,
    asked_of,
    every_revision,
    in_both_eras,
    refused_by,
    with_the_result,
)
from tests.support.wire import PATIENCE

TOOLS: JsonObject = {"sampling": {"tools": {}}}
WEATHER: Any = {"name": "weather", "inputSchema": {"type": "object"}}


def hi(ctx: Context) -> Any:
    return ctx.sample("hi", max_tokens=5)


def always(params: Any) -> Any:
    return reply("x", model="m")


def use(name: str, **more: Any) -> Any:
    return {"type": "tool_use", "id": name, "name": "weather", "input": {}, **more}


def result(name: str, **more: Any) -> Any:
    return {"type": "tool_result", "toolUseId": name, "content": [text("sun")], **more}


def user(*content: Any) -> Any:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> Any:
    return {"role": "assistant", "content": list(content)}


# -- the request and its answer


@every_revision
def test_the_sample_handler_sees_the_whole_request_in_every_revision(revision: str) -> None:
    seen: list[Any] = []

    def sample(params: JsonObject) -> Any:
        seen.append(params)
        return reply("Paris", model="m-1")

    messages: Any = [{"role": "user", "content": text("Capital?")}, {"role": "assistant", "content": text("Of what?")}]
    preferences: Any = {"hints": [{"name": "m"}], "costPriority": 0.5}
    options: Any = {"max_tokens": 10, "system_prompt": "short", "model_preferences": preferences, "temperature": 0.5}
    options |= {"stop_sequences": ["."], "include_context": "none", "metadata": {"seed": 1}}
    got = answer_to(lambda ctx: ctx.sample(messages, **options), revision, sample=sample)
    assert got == {"role": "assistant", "content": text("Paris"), "model": "m-1", "stopReason": "endTurn"}
    request = {"maxTokens": 10, "systemPrompt": "short", "modelPreferences": preferences, "temperature": 0.5}
    assert seen == [
        {"messages": messages, **request, "stopSequences": ["."], "includeContext": "none", "metadata": {"seed": 1}}
    ]


@every_revision
@pytest.mark.parametrize(
    ("content", "since", "refused"),
    [
        (text("hi"), NAMES[0], ""),
        (image(b"png", "image/png"), NAMES[0], ""),
        (audio(b"wav", "audio/wav"), BEFORE_ELICITATION, "audio"),
        ([text("a"), text("b")], LATEST, "one value"),
    ],
    ids=["text", "an image", "audio", "several blocks"],
)
def test_content_goes_both_ways_in_the_revisions_that_have_it(
    revision: str, content: Any, since: str, refused: str
) -> None:
    def question(ctx: Context) -> Any:
        return ctx.sample({"role": "user", "content": content}, max_tokens=5)["content"]

    def echo(params: JsonObject) -> Any:
        return reply(params["messages"][0]["content"], model="m")

    if revision < since:
        refused_by(question, LocalProtocolError, refused, revision, sample=echo)
    else:
        assert answer_to(question, revision, sample=echo) == content


@pytest.mark.parametrize("revision", OLDER[:-1])
def test_an_answer_is_given_in_the_blocks_that_the_revision_has(revision: str) -> None:
    def answered(content: Any) -> Any:
        return answer_to(hi, revision, sample=lambda _: reply(content, model="m"))["content"]

    assert answered([text("a"), text("b")]) == text("a\n\nb")
    assert answered(audio(b"wav", "audio/wav"))["type"] == ("text" if revision == BEFORE_AUDIO else "audio")


def test_a_handler_must_name_its_model() -> None:
    # A dict is completed.
    completed = answer_to(hi, sample=lambda params: {"content": "hi", "model": "m"})
    assert completed == {"role": "assistant", "content": text("hi"), "model": "m"}
    returned: Any
    for returned in ("hi", None, {"content": "hi"}, {"model": "m"}):
        with pytest.raises(ErrorResponse) as refused:
            answer_to(hi, sample=lambda params, returned=returned: returned)
        assert refused.value.code == -32603
    assert reply([use("1")], model="m")["stopReason"] == "toolUse"
    assert reply("x", model="m", stop_reason="refused")["stopReason"] == "refused"


@pytest.mark.parametrize("revision", OLDER)
def test_the_user_who_refuses_sampling_is_error_minus_one(revision: str) -> None:
    def sample(params: JsonObject) -> Any:
        raise UserRejected

    with pytest.raises(ErrorResponse, match="rejected") as refused:
        answer_to(hi, revision, sample=sample)
    assert refused.value.code == -1


@pytest.mark.parametrize("content", [{"type": "text"}, {"type": "image", "data": "AA=="}, 3])
def test_both_sides_check_the_content_of_messages(content: Any, caplog: pytest.LogCaptureFixture) -> None:
    params = {"messages": [{"role": "user", "content": content}], "maxTokens": 5}
    assert asked_of("sampling/createMessage", params, sample=always)["code"] == -32602
    answer = {"role": "assistant", "content": content, "model": "m"}
    _, problem = with_the_result(answer, hi, {"sampling": {}})
    assert isinstance(problem, RemoteProtocolError) and "result.content" in str(problem)


def test_a_call_that_a_handler_makes_has_its_own_time_and_that_goes_on() -> None:
    given_up = threading.Event()
    server = Server("asker", "1")

    @server.tool()
    def ask(ctx: Context) -> str:
        block: Any = ctx.sample("hi", max_tokens=5)["content"]
        return str(block["text"])

    @server.tool()
    def slow() -> str:
        assert given_up.wait(PATIENCE)
        return "late"

    def sample(params: JsonObject) -> Any:
        with pytest.raises(RequestTimeout):
            client.call_tool("slow", timeout=0.2)
        given_up.set()
        return reply("gave up", model="m")

    with Client(server, sample=sample) as client:
        assert client.call_tool("ask", timeout=PATIENCE)["content"] == [text("gave up")]


# -- context, models, limits


def test_context_for_a_client_without_it_is_sent_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def told(revision: str, **sampling: Any) -> str:
        caplog.clear()
        seen: list[Any] = []
        answer_to(
            lambda ctx: ctx.sample("x", max_tokens=1, include_context="thisServer"),
            revision,
            sample=lambda params: seen.append(params["includeContext"]) or always(params),  # type: ignore[func-returns-value]
            capabilities={"sampling": sampling},
        )
        assert seen == ["thisServer"]
        return caplog.text

    assert "includeContext 'thisServer' for a client without `sampling.context`" in told(LATEST)
    assert told(LATEST, context={}) == told("2025-06-18") == ""


def test_hints_are_taken_in_order_as_parts_of_names() -> None:
    models = ["gemini-pro", "claude-haiku", "claude-sonnet"]
    hints: list[sampling.ModelHint] = [{"name": "gpt"}, {}, {"name": "sonnet"}, {"name": "claude"}]
    assert sampling.choose_model({"hints": hints}, models) == "claude-sonnet"
    assert sampling.choose_model({"hints": [{"name": "claude"}]}, models) == "claude-haiku"
    assert sampling.choose_model({"hints": [{"name": "gpt"}]}, models) is None
    assert sampling.choose_model(None, models) is None


def test_a_server_that_samples_too_often_is_refused() -> None:
    default = DEFAULT_RATES["sampling/createMessage"]
    assert 0 < default.per_second <= 100 and 0 < default.burst <= 2_000
    rates = {"sampling/createMessage": Rate(per_second=0.001, burst=1)}
    with pytest.raises(ErrorResponse, match="Too many") as refused:
        answer_to(lambda ctx: (hi(ctx), hi(ctx)), sample=always, rates=rates)
    assert refused.value.data["retryAfter"] > 1


# -- tools


@in_both_eras
def test_a_conversation_with_tools(revision: str) -> None:
    seen: list[Any] = []
    used, got = use("1", _meta={"a.example/key": ["use"]}), result("1", _meta={"a.example/key": ["result"]})

    def sample(params: JsonObject) -> Any:
        seen.append(params)
        return reply([used], model="m") if len(params["messages"]) == 1 else reply("It is sunny.", model="m")

    def loop(ctx: Context) -> Any:
        messages: list[Any] = [{"role": "user", "content": text("Weather?")}]
        first = ctx.sample(messages, max_tokens=9, tools=[WEATHER], tool_choice={"mode": "required"})
        assert first["stopReason"] == "toolUse"
        messages += [{"role": "assistant", "content": first["content"]}, user(got)]
        return ctx.sample(messages, max_tokens=9, tools=[WEATHER], tool_choice={"mode": "none"})

    last = answer_to(loop, revision, sample=sample, capabilities=TOOLS)
    assert (last["content"], last["stopReason"]) == (text("It is sunny."), "endTurn")
    assert [params["toolChoice"]["mode"] for params in seen] == ["required", "none"]
    assert all(params["tools"] == [WEATHER] for params in seen)
    # What stands in the `_meta` of tool uses and results is kept.
    assert seen[1]["messages"][1:] == [assistant(used), user(got)]


def test_a_model_that_uses_tools_which_it_must_not_use_is_not_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    def question(ctx: Context) -> Any:
        return ctx.sample("hi", max_tokens=5, tools=[WEATHER], tool_choice={"mode": "none"})

    with pytest.raises(ErrorResponse) as refused:
        answer_to(question, sample=lambda params: reply([use("1")], model="m"), capabilities=TOOLS)
    assert refused.value.code == -32603


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
def test_tool_uses_and_results_pair_and_stand_alone(talk: list[Any], problem: str) -> None:
    found = message_problem(talk)
    assert found is not None and problem in found
    # Neither side lets such a conversation pass.
    error = asked_of("sampling/createMessage", {"messages": talk, "maxTokens": 5}, sample=always, capabilities=TOOLS)
    assert error["code"] == -32602 and problem in error["message"]
    question = lambda ctx: ctx.sample(talk, max_tokens=1)  # noqa: E731
    refused_by(question, LocalProtocolError, problem, sample=always, capabilities=TOOLS)


def test_a_message_is_a_dict() -> None:
    with pytest.raises(LocalProtocolError, match="a message must be a dict"):
        sampling.sample_request(REVISIONS[LATEST], TOOLS, ["x"], max_tokens=1)  # type: ignore[list-item]


def test_nothing_of_a_request_is_kept_after_it() -> None:
    client: Any = SimpleNamespace(revision=REVISIONS[LATEST], capabilities={})
    for marked in ("one", "two"):
        block = text(f"kept? {marked}")
        asked: Any = {"messages": [{"role": "user", "content": block}], "maxTokens": 10}
        sampling.sampling_create_message(always, client, asked)
        del asked
        gc.collect()
        # What refers to the text block of the request now is this function alone.
        assert not [each for each in gc.get_referrers(block) if isinstance(each, dict) and "role" in each]
