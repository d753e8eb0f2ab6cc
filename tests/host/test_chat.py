"""The chat of the examples: what goes over the wire of a model, and what a model that misbehaves comes to."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Consent, Context, Host, Rule, Server
from mcp_ref.client.entries import Entry
from tests.host.common import User, free
from tests.pages.basic.authorization.world import Answer, Asked, Site, answer

_spec = importlib.util.spec_from_file_location("chat_host", Path(__file__).parents[2] / "examples" / "chat_host.py")
assert _spec is not None and _spec.loader is not None
chat_host: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(chat_host)

FUNCTION = {"name": "a__say", "arguments": '{"text": "hi"}'}


def said(content: str | None = None, *functions: Any, stopped: str | None = None) -> dict[str, Any]:
    calls = [{"id": f"call_{n}", "type": "function", "function": each} for n, each in enumerate(functions)]
    message = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    reason = stopped or ("tool_calls" if calls else "stop")
    return {"model": "small-1", "choices": [{"message": message, "finish_reason": reason}]}


class Endpoint(Site):
    """An endpoint that gives the answers it was given: (status, body), or a body; the last of them again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []
        self.url = f"{self.origins[0]}/v1"

    def usual(self, asked: Asked) -> Answer:
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        status, body = given if isinstance(given, tuple) else (200, given)
        headers = {429: {"Retry-After": "7"}, 302: {"Location": "/other"}}.get(status, {})
        return answer(body, status, **headers)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as made:
        yield made


def server() -> Server:
    made = Server("s", instructions="Say things.")
    made.tool("say", description="Says it.")(lambda text: f"it said {text}")
    return made


@pytest.fixture
def model(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("MY_KEY", "sk-swordfish")
    made = chat_host.OpenAIModel(endpoint.url, [chat_host.Choice("small")], "MY_KEY", timeout=5)
    yield made
    made._http.close()


REQUEST = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}


def test_a_turn_uses_tools_and_what_goes_out_is_what_the_wire_asks_for(endpoint: Endpoint, model: Any) -> None:
    endpoint.answers = [said("first", FUNCTION), said("done")]
    with Host([Entry("a", server())], consent=free(), model=model) as host:
        chat = chat_host.Chat(host)
        chat.say("hello")
    first, second = (asked.json for asked in endpoint.asked)
    assert first["model"] == "small" and first["max_tokens"] == 2048 and first["tool_choice"] == "auto"
    assert first["messages"][0] == {"role": "system", "content": "[server a says of itself] Say things."}
    assert first["messages"][1] == {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    [tool] = first["tools"]
    assert tool["function"]["name"] == "a__say" and tool["function"]["parameters"]["required"] == ["text"]
    assert second["messages"][2]["tool_calls"][0]["function"]["name"] == "a__say"
    assert second["messages"][3] == {"role": "tool", "tool_call_id": "call_0", "content": "it said hi"}
    assert endpoint.asked[0].headers["authorization"] == "Bearer sk-swordfish"
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((429, {}), "HTTP 429, try again in 7 s"), ((500, b"sk-swordfish"), "HTTP 500"), ((401, {}), "HTTP 401"),
        ((302, b""), "HTTP 302"), ((200, b"<html>"), "cannot be read"), ((200, []), "cannot be read"),
        (said("x", {"name": "a__say", "arguments": "[1]"}), "was not offered so"),
        (said("x", {"name": "a__say", "arguments": "{"}), "cannot be read"),
        (said("x", {"name": "rm", "arguments": "{}"}), "'rm', which was not offered"),
        (said("x", stopped="content_filter"), "stopped for content_filter"), ({"choices": []}, "cannot be read"),
    ],
)  # fmt: skip
def test_a_model_that_misbehaves_is_a_clear_error_without_the_key(
    answer: Any, problem: str, endpoint: Endpoint, model: Any
) -> None:
    endpoint.answers = [answer]
    with pytest.raises(chat_host.ModelFailed, match=problem) as raised:
        model.complete({**REQUEST, "tools": [{"name": "a__say", "inputSchema": {}}]}, "small", lambda: False)
    assert "swordfish" not in str(raised.value)
    with Host([Entry("a", server())], consent=free(), model=model) as host:
        chat = chat_host.Chat(host)
        with pytest.raises(chat_host.ModelFailed):
            chat.say("hello")
        # A turn that failed is forgotten, and the next one begins where it began.
        assert chat.messages == []


def test_a_model_that_is_not_there_or_wants_tools_for_ever_ends_the_turn(endpoint: Endpoint, model: Any) -> None:
    endpoint.answers = [said(None, FUNCTION)]
    with Host([Entry("a", server())], consent=free(), model=model) as host:
        with pytest.raises(chat_host.ModelFailed, match="wanted tools 10 times"):
            chat_host.Chat(host).say("hello")
    assert len(endpoint.asked) == 10
    gone = chat_host.OpenAIModel("http://127.0.0.1:1/v1", [chat_host.Choice("small")])
    with pytest.raises(chat_host.ModelFailed, match="ConnectionError at"):
        gone.complete(REQUEST, "small", lambda: False)


def test_a_refused_tool_is_told_to_the_model_and_a_refused_model_hears_nothing(endpoint: Endpoint, model: Any) -> None:
    endpoint.answers = [said(None, FUNCTION), said("a pity")]
    user = User(lambda question: question.kind != "tool")
    with Host([Entry("a", server())], consent=Consent(ask=user, keep=False), model=model) as host:
        chat_host.Chat(host).say("hello")
    assert endpoint.asked[1].json["messages"][-1]["content"] == "[failed] the user refused: call the tool a/say"
    assert user.kinds == ["start", "definition", "model", "tool"] and user.asked[3].shown["arguments"] == {"text": "hi"}
    endpoint.asked.clear()
    consent = free()
    consent.add(Rule("deny", "model"))
    with Host([Entry("a", server())], consent=consent, model=model) as host:
        with pytest.raises(Exception, match="consent was refused"):
            chat_host.Chat(host).say("hello")
    assert endpoint.asked == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_servers_ask_the_same_model_and_learn_only_that_it_failed(endpoint: Endpoint, model: Any) -> None:
    made = Server("s")

    @made.tool()
    def ask(ctx: Context) -> str:
        image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        content = [{"type": "text", "text": "look"}, image, {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}]
        wanted: Any = {"hints": [{"name": "none"}], "speedPriority": 1}
        answer = ctx.sample({"role": "user", "content": content}, max_tokens=5, temperature=0.5, stop_sequences=["."],
                            model_preferences=wanted, system_prompt="be brief")  # type: ignore[typeddict-item]  # fmt: skip
        return f"{answer['model']} {answer.get('stopReason')}"

    model.choices = [chat_host.Choice("slow", speed=0.1), chat_host.Choice("fast", speed=0.9)]
    endpoint.answers = [said("yes", stopped="length"), (500, b"the provider's secret")]
    with Host([Entry("a", made, revision="2025-11-25")], consent=free(), model=model) as host:
        assert host.call("a/ask")["content"][0]["text"] == "small-1 maxTokens"
        failed = host.call("a/ask")
        assert failed["isError"] and "secret" not in str(failed) and "500" not in str(failed)
    asked = endpoint.asked[0].json
    assert asked["max_tokens"] == 5
    assert asked["model"] == "fast" and asked["temperature"] == 0.5 and asked["stop"] == ["."]
    kinds = [part["type"] for part in asked["messages"][1]["content"]]
    assert kinds == ["text", "image_url", "input_audio"] and asked["messages"][0]["content"] == "be brief"


def test_a_model_is_chosen_by_hints_then_priorities_then_the_first() -> None:
    names = [chat_host.Choice("big", 0.9, 0.2, 0.9), chat_host.Choice("tiny", 0.1, 0.9, 0.2)]
    model = chat_host.OpenAIModel("http://x", names)
    for preferences, name in (
        (None, "big"), ({"hints": [{"name": "tin"}], "intelligencePriority": 1}, "tiny"),
        ({"intelligencePriority": 1, "costPriority": 0.1}, "big"), ({"costPriority": 1, "speedPriority": 1}, "tiny"),
    ):  # fmt: skip
        assert model.choose(preferences) == name


def test_what_the_wire_cannot_carry_is_named_and_not_dropped() -> None:
    content = {"type": "hologram"}
    with pytest.raises(chat_host.ModelFailed, match="no hologram"):
        chat_host.to_wire({"messages": [{"role": "user", "content": content}]})
