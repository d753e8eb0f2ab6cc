"""client/roots, client/sampling, client/elicitation: a real server asks, a real client answers, in each revision."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
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
    UrlElicitationRequired,
    audio,
    image,
    text,
)
from mcp_ref.errors import InputRefused, MissingClientCapability
from mcp_ref.kit.threads.deadline import Rate
from mcp_ref.pages.client.elicitation import accept, cancel, decline, url_elicitation
from mcp_ref.pages.client.sampling import UserRejected, reply
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, find_revision
from tests.support.wire import PATIENCE, opened, to_client

JsonObject = dict[str, Any]

NAMES = list(REVISIONS)
OLDER = [row.name for row in SESSION_REVISIONS]
BEFORE_AUDIO, BEFORE_ELICITATION, FORMS_ONLY, LATEST, MODERN = NAMES
EARLIER = [BEFORE_AUDIO, BEFORE_ELICITATION]
in_both_eras = pytest.mark.parametrize("revision", [LATEST, MODERN])
URL = "https://mcp.example.com/connect?id=1"
TOOLS: JsonObject = {"sampling": {"tools": {}}}
WEATHER: Any = {"name": "weather", "inputSchema": {"type": "object"}}
USE: Any = {"type": "tool_use", "id": "u-1", "name": "weather", "input": {"city": "Lisbon"}}
RESULT: Any = {"type": "tool_result", "toolUseId": "u-1", "content": [text("sun")]}


def asker(question: Callable[[Context], Any]) -> tuple[Server, Queue[Any]]:
    """A server whose tool asks, and the queue that gets what the question comes to: a value or an exception."""
    server, outcome = Server("asker", "1"), Queue[Any]()

    @server.tool()
    def ask(ctx: Context) -> str:
        try:
            outcome.put(question(ctx))
        except Exception as problem:
            outcome.put(problem)
        return "asked"

    return server, outcome


def answer_to(question: Callable[[Context], Any], revision: str = LATEST, **options: Any) -> Any:
    """Return what the question of a server's handler comes to: the value is returned, the exception raised again."""
    server, outcome = asker(question)
    with Client(server, revision=revision, **options) as client:
        client.call_tool("ask", timeout=PATIENCE)
    got = outcome.get_nowait()
    assert outcome.empty()
    if isinstance(got, Exception):
        raise got
    return got


def with_the_result(result: JsonObject, question: Callable[[Context], Any], capabilities: JsonObject) -> Any:
    """The request that a question sends, and what the question comes to when the client answers with that result."""
    server, outcome = asker(question)
    with opened(server, LATEST, capabilities) as wire:
        asked = wire.request(1, "tools/call", {"name": "ask"})
        wire.answer(asked["id"], result)
        got = outcome.get(timeout=PATIENCE)
        assert wire.receive()["id"] == 1
    return asked, got


def traffic() -> tuple[list[Any], Callable[[Any], None]]:
    """A list, and a trace that puts each message into it."""
    messages: list[Any] = []
    return messages, lambda event: messages.append(event.message)


def params_of(messages: list[Any], method: str) -> list[Any]:
    return [message.get("params") for message in messages if message.get("method") == method]


# -- what is declared -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", NAMES)
def test_a_client_declares_what_it_was_given_functions_for(revision: str) -> None:
    everything: Any = {
        "roots": [],
        "sample": lambda params: {},
        "elicit": lambda message, schema: {},
        "open_url": lambda url, message, host: True,
    }
    assert declared(revision) == {}
    modes: Any = {"elicitation": {"form": {}, "url": {}}} if revision in (LATEST, MODERN) else {}
    modes = {"elicitation": {}} if revision == FORMS_ONLY else modes
    told: Any = {"listChanged": True} if revision in OLDER else {}
    assert declared(revision, **everything) == {"roots": told, "sampling": {}, **modes}
    if revision in (LATEST, MODERN):
        assert declared(revision, open_url=everything["open_url"]) == {"elicitation": {"url": {}}}


def declared(revision: str, **options: Any) -> Any:
    """The capabilities of a client as its server gets them."""
    return answer_to(lambda ctx: ctx.peer_capabilities, revision, **options)


@contextmanager
def undeclared(revision: str, capability: str) -> Iterator[None]:
    """Give what a handler hears that asks for what the client cannot do: in the stateless era it may just let that
    out.
    """
    expected = LocalProtocolError if revision in OLDER else MissingClientCapability
    with pytest.raises(expected, match=capability.replace(".", ".*")):
        yield


# -- roots ------------------------------------------------------------------------------------------------------


def test_a_client_that_declared_a_list_that_stays_tells_no_changes() -> None:
    server = Server("asker", "1")
    with Client(server, revision=LATEST, roots=[], capabilities={"roots": {"listChanged": False}}) as client:
        with pytest.raises(LocalProtocolError, match=r"client\.roots\.listChanged"):
            client.roots_changed()


def test_a_change_that_was_not_declared_is_not_heard() -> None:
    heard: Queue[Any] = Queue()
    server = Server("asker", "1")
    server.roots_changed(lambda ctx: heard.put("changed"))
    with opened(server, LATEST, {"roots": {}}) as wire:
        wire.notify("notifications/roots/list_changed")
        assert wire.request(1, "ping")["result"] == {}
    assert heard.empty()


@pytest.mark.parametrize("revision", NAMES)
@pytest.mark.parametrize("what", ["roots", "sampling"])
def test_a_client_without_roots_or_a_model_is_not_asked(revision: str, what: str) -> None:
    with undeclared(revision, what):
        answer_to(lambda ctx: ctx.roots() if what == "roots" else ctx.sample("hi", max_tokens=5), revision)


@pytest.mark.parametrize("revision", OLDER)
def test_a_client_without_roots_or_a_model_refuses(revision: str) -> None:
    with to_client(revision) as (client, wire):
        assert not client.capabilities.keys() & {"roots", "sampling"}
        assert wire.request(1, "roots/list")["error"]["code"] == -32601
        params = {"messages": [{"role": "user", "content": text("hi")}], "maxTokens": 5}
        assert wire.request(2, "sampling/createMessage", params)["error"]["code"] == -32601


# -- sampling: the request and its answer -----------------------------------------------------------------------


@pytest.mark.parametrize("revision", NAMES)
def test_the_sample_handler_sees_the_whole_request_in_every_revision(revision: str) -> None:
    seen: list[Any] = []

    def sample(params: JsonObject) -> Any:
        seen.append(params)
        return reply("Paris", model="m-1")

    messages: Any = [{"role": "user", "content": text("Capital?")}, {"role": "assistant", "content": text("Of what?")}]
    preferences: Any = {"hints": [{"name": "m"}], "costPriority": 0.5}
    options: Any = {"max_tokens": 10, "system_prompt": "short", "model_preferences": preferences, "temperature": 0.5}
    options |= {"stop_sequences": ["."], "include_context": "none", "metadata": {"seed": 1}}
    result = answer_to(lambda ctx: ctx.sample(messages, **options), revision, sample=sample)
    assert result == {"role": "assistant", "content": text("Paris"), "model": "m-1", "stopReason": "endTurn"}
    request = {"maxTokens": 10, "systemPrompt": "short", "modelPreferences": preferences, "temperature": 0.5}
    assert seen == [
        {"messages": messages, **request, "stopSequences": ["."], "includeContext": "none", "metadata": {"seed": 1}}
    ]


@pytest.mark.parametrize("revision", NAMES)
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
        with pytest.raises(LocalProtocolError, match=refused):
            answer_to(question, revision, sample=echo)
    else:
        assert answer_to(question, revision, sample=echo) == content


@pytest.mark.parametrize("revision", OLDER[:-1])
def test_an_answer_is_given_in_the_blocks_that_the_revision_has(revision: str) -> None:
    def answered(content: Any) -> Any:
        return answer_to(
            lambda ctx: ctx.sample("hi", max_tokens=5), revision, sample=lambda _: reply(content, model="m")
        )

    assert answered([text("a"), text("b")])["content"] == text("a\n\nb")
    sound = answered(audio(b"wav", "audio/wav"))["content"]
    assert sound["type"] == ("text" if revision == BEFORE_AUDIO else "audio")


@pytest.mark.parametrize("revision", OLDER)
def test_the_user_who_refuses_sampling_is_error_minus_one(revision: str) -> None:
    def sample(params: JsonObject) -> Any:
        raise UserRejected

    with pytest.raises(ErrorResponse, match="rejected") as refused:
        answer_to(lambda ctx: ctx.sample("hi", max_tokens=5), revision, sample=sample)
    assert refused.value.code == -1


def test_the_failure_of_a_handler_is_an_internal_error_without_details(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*given: Any) -> Any:
        raise OSError("/home/ada/secret is gone")

    asked: Any = {"messages": [{"role": "user", "content": text("hi")}], "maxTokens": 5}
    with to_client(roots=fail, sample=fail) as (_, wire):
        for method, params in (("roots/list", None), ("sampling/createMessage", asked)):
            assert wire.request(1, method, params)["error"] == {"code": -32603, "message": "Internal error"}


# -- sampling: capabilities, tools, limits ----------------------------------------------------------------------


@pytest.mark.parametrize("revision", NAMES)
def test_what_sampling_can_do_is_declared_where_the_revision_says_it(revision: str) -> None:
    overlay: Any = {"sampling": {"tools": {}, "context": {}}}
    with Client(Server("s"), revision=revision, sample=lambda params: {}, capabilities=overlay) as client:
        assert "sampling" in client.capabilities
        assert ("tools" in client.capabilities["sampling"]) == find_revision(revision).sampling_tools


@pytest.mark.parametrize("revision", NAMES)
def test_tools_are_offered_only_to_a_client_that_declared_them(revision: str) -> None:
    def question(ctx: Context) -> Any:
        return ctx.sample("hi", max_tokens=5, tools=[WEATHER])

    with undeclared(revision, "tools"):
        answer_to(question, revision, sample=lambda params: reply("x", model="m"))


@pytest.mark.parametrize("field", [{"tools": [WEATHER]}, {"toolChoice": {"mode": "auto"}}])
def test_tools_for_a_client_that_did_not_declare_them_are_an_error(field: JsonObject) -> None:
    params = {"messages": [{"role": "user", "content": text("hi")}], "maxTokens": 5, **field}
    with to_client(sample=lambda params: reply("x", model="m")) as (_, wire):
        assert wire.request(1, "sampling/createMessage", params)["error"]["code"] == -32602


@in_both_eras
def test_a_conversation_with_tools(revision: str) -> None:
    seen: list[Any] = []

    def sample(params: JsonObject) -> Any:
        seen.append(params)
        return reply([USE], model="m") if len(params["messages"]) == 1 else reply("It is sunny.", model="m")

    def loop(ctx: Context) -> Any:
        messages: list[Any] = [{"role": "user", "content": text("Weather?")}]
        first = ctx.sample(messages, max_tokens=9, tools=[WEATHER], tool_choice={"mode": "required"})
        assert first["stopReason"] == "toolUse"
        messages += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": [RESULT]}]
        return ctx.sample(messages, max_tokens=9, tools=[WEATHER], tool_choice={"mode": "none"})

    last = answer_to(loop, revision, sample=sample, capabilities=TOOLS)
    assert (last["content"], last["stopReason"]) == (text("It is sunny."), "endTurn")
    assert [params["toolChoice"]["mode"] for params in seen] == ["required", "none"]
    assert all(params["tools"] == [WEATHER] for params in seen)
    assert seen[1]["messages"][1:] == [{"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]}]


@in_both_eras
def test_what_stands_in_the_meta_of_tool_uses_and_results_is_kept(revision: str) -> None:
    use, result = {**USE, "_meta": {"a.example/key": ["use"]}}, {**RESULT, "_meta": {"a.example/key": ["result"]}}
    seen: list[Any] = []

    def sample(params: JsonObject) -> Any:
        seen.append(params["messages"])
        return reply([use], model="m") if len(params["messages"]) == 1 else reply("It is sunny.", model="m")

    def loop(ctx: Context) -> Any:
        messages: list[Any] = [{"role": "user", "content": text("Weather?")}]
        first = ctx.sample(messages, max_tokens=9, tools=[WEATHER])
        messages += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
        return ctx.sample(messages, max_tokens=9, tools=[WEATHER])

    answer_to(loop, revision, sample=sample, capabilities=TOOLS)
    assert seen[1][1:] == [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def test_a_model_that_uses_tools_which_it_must_not_use_is_not_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    def question(ctx: Context) -> Any:
        return ctx.sample("hi", max_tokens=5, tools=[WEATHER], tool_choice={"mode": "none"})

    with pytest.raises(ErrorResponse) as refused:
        answer_to(question, sample=lambda params: reply([USE], model="m"), capabilities=TOOLS)
    assert refused.value.code == -32603


@pytest.mark.parametrize("content", [[text("and")], [RESULT, text("and")]])
def test_tool_results_that_are_missing_or_mixed_are_invalid_params(content: Any) -> None:
    messages = [
        {"role": "user", "content": text("Weather?")},
        {"role": "assistant", "content": [USE]},
        {"role": "user", "content": content},
    ]
    with to_client(sample=lambda params: reply("x", model="m")) as (_, wire):
        error = wire.request(1, "sampling/createMessage", {"messages": messages, "maxTokens": 5})["error"]
    assert error["code"] == -32602
    assert "tool result" in error["message"]


@pytest.mark.parametrize("content", [{"type": "text"}, {"type": "image", "data": "AA=="}, 3])
def test_both_sides_check_the_content_of_messages(content: JsonObject, caplog: pytest.LogCaptureFixture) -> None:
    params = {"messages": [{"role": "user", "content": content}], "maxTokens": 5}
    with to_client(sample=lambda params: reply("x", model="m")) as (_, wire):
        assert wire.request(1, "sampling/createMessage", params)["error"]["code"] == -32602
    answer = {"role": "assistant", "content": content, "model": "m"}
    _, problem = with_the_result(answer, lambda ctx: ctx.sample("hi", max_tokens=5), {"sampling": {}})
    assert isinstance(problem, RemoteProtocolError) and "result.content" in str(problem)


def test_a_server_that_samples_too_often_is_refused() -> None:
    def twice(ctx: Context) -> Any:
        ctx.sample("hi", max_tokens=5)
        return ctx.sample("hi", max_tokens=5)

    rates = {"sampling/createMessage": Rate(per_second=0.001, burst=1)}
    with pytest.raises(ErrorResponse, match="Too many") as refused:
        answer_to(twice, sample=lambda params: reply("x", model="m"), rates=rates)
    assert refused.value.data["retryAfter"] > 1


# -- while a handler of the client runs -------------------------------------------------------------------------


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


# -- elicitation by form ----------------------------------------------------------------------------------------

EVERY_KIND: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "In full", "minLength": 1, "maxLength": 9},
        "mail": {"type": "string", "format": "email", "default": "ada@example.com"},
        "age": {"type": "integer", "minimum": 18, "maximum": 120},
        "height": {"type": "number", "default": 1.7},
        "agrees": {"type": "boolean", "default": True},
        "seat": {"type": "string", "enum": ["window", "aisle"], "default": "aisle"},
        "meal": {"type": "string", "oneOf": [{"const": "v", "title": "Vegan"}, {"const": "x", "title": "Any"}]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["Mon", "Tue"]}, "minItems": 1, "maxItems": 2},
        "bags": {"type": "array", "items": {"anyOf": [{"const": "s", "title": "Small"}]}, "default": ["s"]},
        "class": {"type": "string", "enum": ["1", "2"], "enumNames": ["First", "Second"]},
    },
    "required": ["name", "seat"],
}


@in_both_eras
def test_a_form_with_every_kind_of_field_and_its_defaults(revision: str) -> None:
    seen: list[Any] = []
    typed = {"name": "Ada", "age": 36, "meal": "v", "days": ["Mon", "Tue"], "class": "1"}

    def elicit(message: str, schema: JsonObject) -> Any:
        seen.append((message, schema))
        return typed

    result = answer_to(lambda ctx: ctx.elicit("Who?", EVERY_KIND), revision, elicit=elicit)
    assert seen == [("Who?", EVERY_KIND)]
    defaults = {"mail": "ada@example.com", "height": 1.7, "agrees": True, "seat": "aisle", "bags": ["s"]}
    assert result == {"action": "accept", "content": {**defaults, **typed}}


@pytest.mark.parametrize("revision", [FORMS_ONLY, LATEST, MODERN])
@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ({"seat": "aisle"}, {"action": "accept", "content": {"seat": "aisle"}}),
        (accept({"seat": "aisle"}), {"action": "accept", "content": {"seat": "aisle"}}),
        (decline(), {"action": "decline"}),
        (None, {"action": "decline"}),
        (cancel(), {"action": "cancel"}),
    ],
)
def test_a_user_accepts_declines_or_cancels(revision: str, returned: Any, result: JsonObject) -> None:
    form = {"seat": {"type": "string", "enum": ["window", "aisle"]}}
    assert answer_to(lambda ctx: ctx.elicit("Where?", form), revision, elicit=lambda m, s: returned) == result


WRONG_VALUES: list[Any] = [{"seat": "roof"}, {}, {"seat": "aisle", "age": 3}, accept({}), "aisle"]


@in_both_eras
@pytest.mark.parametrize("returned", WRONG_VALUES)
def test_values_that_do_not_fit_the_form_are_not_sent(
    returned: Any, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    messages, trace = traffic()
    form = {"seat": {"type": "string", "enum": ["window", "aisle"]}}
    with pytest.raises(ErrorResponse if revision == LATEST else InputRefused) as refused:
        answer_to(lambda ctx: ctx.elicit("Where?", form), revision, elicit=lambda m, s: returned, trace=trace)
    assert getattr(refused.value, "code", -32603) == -32603
    assert not any("action" in message.get("result", {}) for message in messages)
    assert len(params_of(messages, "tools/call")) == 1


@pytest.mark.parametrize("content", [{"seat": "roof"}, {"seat": ["aisle"]}, {}])
def test_a_server_does_not_take_values_that_do_not_fit(content: JsonObject, caplog: pytest.LogCaptureFixture) -> None:
    form = {"seat": {"type": "string", "enum": ["window", "aisle"]}}
    accepted = {"action": "accept", "content": content}
    _, problem = with_the_result(accepted, lambda ctx: ctx.elicit("Where?", form), {"elicitation": {}})
    assert isinstance(problem, RemoteProtocolError) and "seat" in str(problem)


def test_a_form_is_shaped_for_2025_06_18() -> None:
    messages, trace = traffic()
    form: JsonObject = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "Ada"},
            "agrees": {"type": "boolean", "default": True},
            "meal": {"type": "string", "oneOf": [{"const": "v", "title": "Vegan"}], "default": "v"},
        },
    }
    answer_to(lambda ctx: ctx.elicit("Who?", form), FORMS_ONLY, elicit=lambda m, s: None, trace=trace)
    [params] = params_of(messages, "elicitation/create")
    assert params == {
        "message": "Who?",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "agrees": {"type": "boolean", "default": True},
                "meal": {"type": "string", "enum": ["v"], "enumNames": ["Vegan"]},
            },
        },
    }


# -- elicitation: modes -----------------------------------------------------------------------------------------

FORM_PARAMS: JsonObject = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
FORMS: JsonObject = {"elicit": lambda m, s: {}}
VISITS: JsonObject = {"open_url": lambda u, m, h: True}
URL_PARAMS: JsonObject = {"mode": "url", "message": "Go", "url": URL, "elicitationId": "e-1"}


@pytest.mark.parametrize(
    ("options", "params"),
    [
        (FORMS, URL_PARAMS),
        (VISITS, {"mode": "form", **FORM_PARAMS}),
        (VISITS, FORM_PARAMS),
        (FORMS, {**FORM_PARAMS, "mode": "dance"}),
    ],
)
def test_a_mode_that_the_client_did_not_declare_is_invalid_params(options: Any, params: JsonObject) -> None:
    with to_client(**options) as (_, wire):
        assert wire.request(1, "elicitation/create", params)["error"]["code"] == -32602


DAYS: JsonObject = {"days": {"type": "array", "items": {"type": "string", "enum": ["Mon", "Tue"]}}}


def who(ctx: Context) -> Any:
    return ctx.elicit("Who?", {})


def visit(ctx: Context) -> Any:
    return ctx.elicit_url("Go", URL)


def visited(ctx: Context) -> Any:
    return ctx.complete_elicitation("e-1")


@pytest.mark.parametrize(
    ("question", "revision", "options", "says"),
    [
        (who, LATEST, {}, r"client\.elicitation"),
        (who, LATEST, VISITS, "'form'"),
        (visit, LATEST, FORMS, "'url'"),
        (visited, LATEST, FORMS, r"client\.elicitation\.url"),
        (lambda ctx: ctx.elicit("When?", DAYS), FORMS_ONLY, FORMS | VISITS, "several"),
        (visit, FORMS_ONLY, FORMS | VISITS, "url"),
        (visited, FORMS_ONLY, FORMS | VISITS, "does not exist"),
        *((each, earlier, FORMS | VISITS, "elicitation/create") for each in (who, visit) for earlier in EARLIER),
    ],
)
def test_what_the_client_did_not_declare_or_the_revision_does_not_have_is_not_asked(
    question: Any, revision: str, options: Any, says: str
) -> None:
    messages, trace = traffic()
    with pytest.raises(LocalProtocolError, match=says):
        answer_to(question, revision, trace=trace, **options)
    assert not [message for message in messages if "elicitation/" in message.get("method", "")]


@pytest.mark.parametrize("revision", EARLIER)
def test_there_is_no_elicitation_before_2025_06_18(revision: str) -> None:
    with to_client(revision, **FORMS, **VISITS) as (client, wire):
        assert "elicitation" not in client.capabilities
        assert wire.request(1, "elicitation/create", FORM_PARAMS)["error"]["code"] == -32601


def test_an_empty_capability_declares_forms_and_nothing_else() -> None:
    def question(ctx: Context) -> str:
        with pytest.raises(LocalProtocolError, match="url"):
            ctx.elicit_url("Go", URL)
        return ctx.elicit("Who?", {})["action"]

    asked, got = with_the_result({"action": "cancel"}, question, {"elicitation": {}})
    assert (asked["params"]["mode"], got) == ("form", "cancel")


# -- elicitation by a visit -------------------------------------------------------------------------------------


@in_both_eras
@pytest.mark.parametrize(("consent", "action"), [(True, "accept"), (False, "decline"), (None, "cancel")])
def test_a_url_is_opened_only_with_the_users_consent(revision: str, consent: Any, action: str) -> None:
    seen: list[Any] = []

    def open_url(url: str, message: str, host: str, ctx: Any) -> Any:
        seen.append((url, message, host, ctx.server_info["name"]))
        return consent

    result = answer_to(lambda ctx: ctx.elicit_url("Log in", URL, elicitation_id="e-1"), revision, open_url=open_url)
    assert result == {"action": action, "elicitationId": "e-1"}
    assert seen == [(URL, "Log in", "mcp.example.com", "asker")]


def test_completion_is_heard_once_and_for_known_visits_alone() -> None:
    heard: Queue[Any] = Queue()
    server = Server("asker", "1")
    visits: list[Context] = []

    @server.tool()
    def connect(ctx: Context) -> str:
        ctx.complete_elicitation("stranger")
        visits.append(ctx)
        return ctx.elicit_url("Log in", URL, elicitation_id="e-1")["action"]

    def on_change(method: str, params: JsonObject) -> None:
        heard.put((method, params))

    with Client(server, revision=LATEST, open_url=lambda u, m, h: True, on_change=on_change) as client:
        assert client.call_tool("connect")["content"] == [text("accept")]
        # The user takes longer than the call.
        visits[0].complete_elicitation("e-1")
        assert heard.get(timeout=PATIENCE) == ("notifications/elicitation/complete", {"elicitationId": "e-1"})
        visits[0].complete_elicitation("e-1")
        server.tool(name="last")(lambda: "")
        assert heard.get(timeout=PATIENCE)[0] == "notifications/tools/list_changed"


def test_the_id_of_a_visit_is_a_text_without_meaning() -> None:
    heard: Queue[Any] = Queue()
    server = Server("asker", "1")
    names = [" ", "E-1", "e-1", "e-1 ", "../e-1", "%65-1", "0", "null", "\u00e9", "e\u0301", '{"a": 1}', "x" * 5_000]

    @server.tool()
    def connect(ctx: Context, name: str) -> str:
        return ctx.elicit_url("Log in", URL, elicitation_id=name)["elicitationId"]

    @server.tool()
    def end(ctx: Context, name: str) -> None:
        ctx.complete_elicitation(name)

    def on_change(method: str, params: JsonObject) -> None:
        heard.put(params["elicitationId"])

    with Client(server, revision=LATEST, open_url=lambda u, m, h: True, on_change=on_change) as client:
        assert [client.call_tool("connect", {"name": name})["content"][0] for name in names] == list(map(text, names))
        for name in reversed(names):
            client.call_tool("end", {"name": name})
            assert heard.get(timeout=PATIENCE) == name


def test_completion_is_told_to_the_client_that_was_asked_alone() -> None:
    heard: Queue[str] = Queue()
    server = Server("asker", "1")

    @server.tool()
    def connect(ctx: Context) -> str:
        answer = ctx.elicit_url("Log in", URL, elicitation_id="e-1")
        ctx.complete_elicitation(answer["elicitationId"])
        return answer["action"]

    messages, trace = traffic()
    visiting: Any = {"revision": LATEST, "open_url": lambda u, m, h: True}
    with Client(server, trace=trace, **visiting) as other:
        with Client(server, on_change=lambda method, _: heard.put(method), **visiting) as client:
            client.call_tool("connect")
            assert heard.get(timeout=PATIENCE) == "notifications/elicitation/complete"
        other.ping()
    assert params_of(messages, "notifications/elicitation/complete") == []


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
@pytest.mark.parametrize("method", ["tools/call", "resources/read", "prompts/get"])
def test_a_visit_that_a_call_requires_is_an_internal_error_where_that_error_does_not_exist(
    revision: str, method: str
) -> None:
    server = Server("asker", "1")

    def guarded() -> str:
        raise UrlElicitationRequired([url_elicitation("Allow it", URL, "e-1")])

    server.tool("guarded")(guarded)
    server.resource("x://guarded")(guarded)
    server.prompt("guarded")(guarded)
    with Client(server, revision=revision) as client:
        params = {"uri": "x://guarded"} if method == "resources/read" else {"name": "guarded"}
        with pytest.raises(ErrorResponse, match=f"visit a page first, which {revision} cannot ask for") as refused:
            client.request(method, params)
    assert (refused.value.code, refused.value.data) == (-32603, None)


def test_a_visit_that_is_required_needs_a_way_to_open_it_and_a_url_to_open() -> None:
    page: Any = URL_PARAMS
    with Client(Server("s")) as client:
        with pytest.raises(LocalProtocolError, match="open_url"):
            client.visit_required(page)
    elsewhere: Any = {**URL_PARAMS, "url": "file:///etc/passwd"}
    asked: list[str] = []
    with Client(Server("s"), open_url=lambda u, m, h: asked.append(u)) as client:
        with pytest.raises(RemoteProtocolError, match="url"):
            client.visit_required(elsewhere)
    assert asked == []
