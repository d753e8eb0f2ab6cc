"""What a client declares of roots, sampling and elicitation in each revision, and what it is not asked without that."""

from __future__ import annotations

from queue import Queue
from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse, LocalProtocolError, Server, text
from mcp_ref.errors import MissingClientCapability
from mcp_ref.pages.client.sampling import reply
from mcp_ref.revisions import find_revision
from tests.pages.client.asking import (
    FORMS_ONLY,
    LATEST,
    MODERN,
    NAMES,
    OLDER,
    JsonObject,
    answer_to,
    asked_of,
    every_revision,
    refused_by,
    with_the_result,
)
from tests.support.wire import opened

URL = "https://mcp.example.com/connect?id=1"
WEATHER: Any = {"name": "weather", "inputSchema": {"type": "object"}}
FORMS: JsonObject = {"elicit": lambda m, s: {}}
VISITS: JsonObject = {"open_url": lambda u, m, h: True}
MODEL: JsonObject = {"sample": lambda params: reply("x", model="m")}
DAYS: JsonObject = {"days": {"type": "array", "items": {"type": "string", "enum": ["Mon", "Tue"]}}}


@every_revision
def test_a_client_declares_what_it_was_given_functions_for(revision: str) -> None:
    def declared(**options: Any) -> Any:
        return answer_to(lambda ctx: ctx.peer_capabilities, revision, **options)

    assert declared() == {}
    modes: Any = {"elicitation": {"form": {}, "url": {}}} if revision in (LATEST, MODERN) else {}
    modes = {"elicitation": {}} if revision == FORMS_ONLY else modes
    told: Any = {"listChanged": True} if revision in OLDER else {}
    assert declared(roots=[], **MODEL, **FORMS, **VISITS) == {"roots": told, "sampling": {}, **modes}
    if revision in (LATEST, MODERN):
        assert declared(**VISITS) == {"elicitation": {"url": {}}}
    more = declared(**MODEL, capabilities={"sampling": {"tools": {}, "context": {}}})["sampling"]
    assert ("tools" in more) == find_revision(revision).sampling_tools


# -- the server does not ask ------------------------------------------------------------------------------------


def who(ctx: Any) -> Any:
    return ctx.elicit("Who?", {})


def visit(ctx: Any) -> Any:
    return ctx.elicit_url("Go", URL)


def visited(ctx: Any) -> Any:
    return ctx.complete_elicitation("e-1")


@every_revision
@pytest.mark.parametrize(
    ("question", "options", "capability"),
    [
        (lambda ctx: ctx.roots(), {}, "roots"),
        (lambda ctx: ctx.sample("hi", max_tokens=5), {}, "sampling"),
        (lambda ctx: ctx.sample("hi", max_tokens=5, tools=[WEATHER]), MODEL, "tools"),
    ],
    ids=["roots", "a model", "tools"],
)
def test_a_client_without_roots_or_a_model_or_tools_is_not_asked(
    revision: str, question: Any, options: Any, capability: str
) -> None:
    # In the stateless era a handler may just let that out.
    expected = LocalProtocolError if revision in OLDER else MissingClientCapability
    refused_by(question, expected, capability, revision, **options)


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
        *((each, earlier, FORMS | VISITS, "elicitation/create") for each in (who, visit) for earlier in NAMES[:2]),
    ],
)
def test_what_the_client_did_not_declare_or_the_revision_does_not_have_is_not_asked(
    question: Any, revision: str, options: Any, says: str
) -> None:
    refused_by(question, LocalProtocolError, says, revision, **options)


def test_an_empty_capability_declares_forms_and_nothing_else() -> None:
    def question(ctx: Any) -> str:
        with pytest.raises(LocalProtocolError, match="url"):
            visit(ctx)
        return str(who(ctx)["action"])

    asked, got = with_the_result({"action": "cancel"}, question, {"elicitation": {}})
    assert (asked["params"]["mode"], got) == ("form", "cancel")


# -- the client does not answer ---------------------------------------------------------------------------------

SAMPLE: JsonObject = {"messages": [{"role": "user", "content": text("hi")}], "maxTokens": 5}
FORM: JsonObject = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
VISIT: JsonObject = {"mode": "url", "message": "Go", "url": URL, "elicitationId": "e-1"}
NESTED = {"type": "object", "properties": {"x": {"type": "object"}}}


@pytest.mark.parametrize("revision", OLDER)
def test_a_client_without_roots_or_a_model_refuses(revision: str) -> None:
    for method, params in (("roots/list", None), ("sampling/createMessage", SAMPLE)):
        assert asked_of(method, params, revision)["code"] == -32601
    if revision in NAMES[:2]:
        assert asked_of("elicitation/create", FORM, revision, **FORMS, **VISITS)["code"] == -32601


@pytest.mark.parametrize("field", [{"tools": [WEATHER]}, {"toolChoice": {"mode": "auto"}}])
def test_tools_for_a_client_that_did_not_declare_them_are_an_error(field: JsonObject) -> None:
    assert asked_of("sampling/createMessage", SAMPLE | field, **MODEL)["code"] == -32602


@pytest.mark.parametrize(
    ("options", "params"),
    [
        (FORMS, VISIT),
        (VISITS, {"mode": "form", **FORM}),
        (VISITS, FORM),
        (FORMS, {**FORM, "mode": "dance"}),
        (FORMS, {**FORM, "requestedSchema": NESTED}),
    ],
)
def test_a_mode_that_the_client_did_not_declare_is_invalid_params(options: Any, params: JsonObject) -> None:
    error = asked_of("elicitation/create", params, **options)
    assert error["code"] == -32602
    assert params.get("requestedSchema") != NESTED or "params.requestedSchema.properties.x" in error["message"]


def test_a_request_without_a_mode_is_a_form() -> None:
    for mode in ({}, {"mode": "form"}):
        answered = asked_of("elicitation/create", FORM | mode, elicit=lambda message, schema: None)
        assert answered == {"action": "decline"}


# -- changes of roots -------------------------------------------------------------------------------------------


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


def test_the_failure_of_a_handler_is_an_internal_error_without_details(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*given: Any) -> Any:
        raise OSError("/home/ada/secret is gone")

    for method, params in (("roots/list", None), ("sampling/createMessage", SAMPLE)):
        error = asked_of(method, params, roots=fail, sample=fail)
        assert error == {"code": -32603, "message": "Internal error"}
    with pytest.raises(ErrorResponse, match="^Internal error"):
        answer_to(lambda ctx: ctx.roots(), roots=fail)
