"""client/elicitation by a form: a server asks, a user answers, and both sides hold the values against the form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import ErrorResponse, LocalProtocolError, RemoteProtocolError
from mcp_ref.client.session import DEFAULT_RATES, Answers, ClientContext
from mcp_ref.errors import InputRefused
from mcp_ref.kit.threads.deadline import RateLimited
from mcp_ref.pages.client.elicitation import (
    accept,
    cancel,
    content_problem,
    decline,
    downgrade,
    elicit_request,
    schema_problem,
)
from mcp_ref.revisions import REVISIONS
from mcp_ref.wire.served import ServedRequest
from tests.pages.client import asking
from tests.pages.client.asking import FORMS_ONLY, MODERN, JsonObject, answer_to, in_both_eras, traffic, with_the_result
from tests.pages.server.alone import Reply
from tests.support.clock import Clock

LATEST = REVISIONS[asking.LATEST]
COLOURS = [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]
FIELDS: dict[str, JsonObject] = {
    "name": {"type": "string", "title": "Name", "description": "In full", "minLength": 2, "maxLength": 4},
    "mail": {"type": "string", "format": "email", "default": "ada@example.com"},
    "day": {"type": "string", "format": "date"},
    "age": {"type": "integer", "minimum": 1, "maximum": 120},
    "height": {"type": "number", "minimum": 0, "maximum": 1.7, "default": 1.5},
    "agrees": {"type": "boolean", "default": False},
    "seat": {"type": "string", "enum": ["window", "aisle"], "default": "aisle"},
    "class": {"type": "string", "enum": ["1", "2"], "enumNames": ["First", "Second"]},
    "colour": {"type": "string", "oneOf": COLOURS},
    "days": {"type": "array", "items": {"type": "string", "enum": ["Mo", "Tu", "We"]}, "minItems": 1, "maxItems": 2},
    "bags": {"type": "array", "items": {"anyOf": COLOURS}, "default": ["#f00"]},
}
"""Every kind of field that the page has."""

SEAT = {"seat": {"type": "string", "enum": ["window", "aisle"]}}


def form(**fields: Any) -> JsonObject:
    return {"type": "object", "properties": fields}


# -- the user answers


@in_both_eras
def test_a_form_with_every_kind_of_field_and_its_defaults(revision: str) -> None:
    seen: list[Any] = []
    whole = {**form(**FIELDS), "$schema": "https://json-schema.org/draft/2020-12/schema", "required": ["name", "seat"]}
    typed = {"name": "Ada", "age": 36, "colour": "#f00", "days": ["Mo", "Tu"], "class": "1"}

    def elicit(message: str, schema: JsonObject, ctx: ClientContext) -> Any:
        seen.append((message, schema, ctx.server_info["name"]))
        # None leaves a field empty, whatever its default.
        return {**typed, "mail": None, "day": None}

    result = answer_to(lambda ctx: ctx.elicit("Who?", whole), revision, elicit=elicit)
    assert seen == [("Who?", whole, "asker")]
    defaults = {"height": 1.5, "agrees": False, "seat": "aisle", "bags": ["#f00"]}
    assert result == {"action": "accept", "content": {**defaults, **typed}}


@pytest.mark.parametrize("revision", [FORMS_ONLY, asking.LATEST, MODERN])
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
    assert answer_to(lambda ctx: ctx.elicit("Where?", SEAT), revision, elicit=lambda m, s: returned) == result


def test_a_field_may_be_named_action() -> None:
    fields: Any = {"action": {"type": "string"}}
    for returned in ({"action": "cancel"}, accept({"action": "cancel"})):
        result = answer_to(lambda ctx: ctx.elicit("?", fields), elicit=lambda m, s, returned=returned: returned)
        assert result == {"action": "accept", "content": {"action": "cancel"}}


@in_both_eras
@pytest.mark.parametrize("returned", [{"seat": "roof"}, {}, {"seat": "aisle", "age": 3}, accept({}), "aisle"])
def test_values_that_do_not_fit_the_form_are_not_sent(
    returned: Any, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    messages, trace = traffic()
    with pytest.raises(ErrorResponse if revision == asking.LATEST else InputRefused) as refused:
        answer_to(lambda ctx: ctx.elicit("Where?", SEAT), revision, elicit=lambda m, s: returned, trace=trace)
    assert getattr(refused.value, "code", -32603) == -32603
    assert not any("action" in message.get("result", {}) for message in messages)
    assert len([message for message in messages if message.get("method") == "tools/call"]) == 1


@pytest.mark.parametrize(
    ("fields", "answer", "result"),
    [
        (SEAT, {"action": "accept", "content": {"seat": "roof"}}, "seat"),
        (SEAT, {"action": "accept", "content": {"seat": ["aisle"]}}, "seat"),
        (SEAT, {"action": "accept", "content": {}}, "seat"),
        ({}, {"action": "accept"}, {"action": "accept", "content": {}}),
        (SEAT, {"action": "decline", "content": {"seat": "aisle"}}, {"action": "decline"}),
    ],
)
def test_a_server_does_not_take_values_that_do_not_fit(
    fields: Any, answer: JsonObject, result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, got = with_the_result(answer, lambda ctx: ctx.elicit("Where?", fields), {"elicitation": {}})
    if isinstance(result, str):
        assert isinstance(got, RemoteProtocolError) and result in str(got)
    else:
        assert got == result


def test_a_flood_of_questions_is_refused_without_any_setting() -> None:
    answers = Answers(None, None, lambda message, schema: None, None, None)
    client: Any = SimpleNamespace(revision=LATEST, capabilities={"elicitation": {}})
    rate, clock = DEFAULT_RATES["elicitation/create"], Clock()
    question = ServedRequest(1, "elicitation/create", {"message": "Who?", "requestedSchema": form()}, Reply())
    answers._limits._clock = clock
    for number in (rate.burst, rate.per_second):
        for _ in range(int(number)):
            answers(client, question)
        with pytest.raises(RateLimited, match="Too many"):
            answers(client, question)
        clock.now += 1


# -- which schemas are forms


def test_properties_alone_require_what_has_no_default() -> None:
    def sent(schema: JsonObject) -> Any:
        return elicit_request("?", schema, LATEST)[1]["requestedSchema"]

    fields = {"name": {"type": "string"}, "loud": {"type": "boolean", "default": True}}
    assert sent(fields) == {**form(**fields), "required": ["name"]}
    assert sent({}) == form()
    assert sent(form(type={"type": "string"})) == form(type={"type": "string"})
    assert sent({"type": {"type": "string"}})["properties"] == {"type": {"type": "string"}}


def test_a_form_is_shaped_for_2025_06_18() -> None:
    messages, trace = traffic()
    titled = {"type": "string", "oneOf": [{"const": "v", "title": "Vegan"}], "default": "v"}
    agrees = {"type": "boolean", "default": True}
    whole = {**form(name={"type": "string", "default": "Ada"}, agrees=agrees, meal=titled), "$schema": "urn:any"}
    answer_to(lambda ctx: ctx.elicit("Who?", whole), FORMS_ONLY, elicit=lambda m, s: None, trace=trace)
    [params] = [message["params"] for message in messages if message.get("method") == "elicitation/create"]
    meal = {"type": "string", "enum": ["v"], "enumNames": ["Vegan"]}
    assert params == {"message": "Who?", "requestedSchema": form(name={"type": "string"}, agrees=agrees, meal=meal)}


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array"},
        {"type": ["string", "number"]},
        {"$ref": "#/x"},
        "string",
        {"type": "string", "minLength": "3"},
        {"type": "string", "minLength": -1},
        {"type": "string", "format": "ipv4"},
        {"type": "string", "format": ["email"]},
        {"type": "string", "enum": [1, 2]},
        {"type": "string", "oneOf": [{"const": "a"}]},
        {"type": "number", "maximum": True},
        {"type": "number", "default": "3"},
        {"type": "string", "enum": ["a"], "default": "b"},
        {"type": "string", "maxLength": 1, "default": "long"},
    ],
)
def test_only_flat_objects_of_the_pages_kinds_are_forms(field: Any) -> None:
    problem = schema_problem(form(x=field), LATEST)
    assert problem is not None and problem.startswith("requestedSchema.properties.x: ")
    with pytest.raises(LocalProtocolError, match=r"properties\.x"):
        downgrade(form(x=field), LATEST)


@pytest.mark.parametrize(
    "schema",
    [{"type": "array", "properties": {}}, {"type": "object"}, {**form(), "required": ["x"]},
     {**form(), "required": "x"}, {"type": "object", "properties": []}],
)  # fmt: skip
def test_the_root_is_an_object_with_its_own_required_names(schema: JsonObject) -> None:
    assert schema_problem(schema, LATEST) is not None


@pytest.mark.parametrize(
    "schema",
    [form(x={"type": "number", "multipleOf": 2}), form(x={"type": "string", "minimum": 2}),
     {**form(), "minProperties": 1}, {**form(), "oneOf": []}],
)  # fmt: skip
def test_keywords_that_the_page_does_not_name_are_not_sent_but_tolerated(schema: JsonObject) -> None:
    assert schema_problem(schema, LATEST) is None
    with pytest.raises(LocalProtocolError, match="not a keyword of a form"):
        downgrade(schema, LATEST)


def test_a_pattern_is_not_sent_but_tolerated(caplog: pytest.LogCaptureFixture) -> None:
    schema = form(x={"type": "string", "pattern": "^a"})
    assert schema_problem(schema, LATEST) is None
    assert downgrade(schema, LATEST) == form(x={"type": "string"})
    assert "pattern" in caplog.text


# -- which values fit


VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    # the field: values that fit it, and values that do not
    "name": (["ab", "äöüß"], ["a", "abcde", 12]),
    "mail": (["ada@example.com"], ["ada"]),
    "day": (["2025-11-25"], ["2025-02-30"]),
    "height": ([0, 1.7], [-1, 2, True, "1"]),
    "age": ([1, 2.0], [1.5, float("inf"), 0]),
    "agrees": ([True], [1]),
    "seat": (["aisle"], ["roof", ["aisle"]]),
    "colour": (["#f00"], ["Red"]),
    "days": ([["Mo", "Tu"]], [[], ["Mo", "Tu", "We"], ["Su"], "Mo"]),
    "bags": ([[]], [["Red"]]),
}


@pytest.mark.parametrize("field", VALUES)
def test_values_that_do_not_fit_are_named_by_field_and_not_shown(field: str) -> None:
    fit, unfit = VALUES[field]
    for value in fit:
        assert content_problem(form(x=FIELDS[field]), {"x": value}) is None
    for value in unfit:
        problem = content_problem(form(x=FIELDS[field]), {"x": value})
        assert problem is not None and problem.startswith("x: ")
        assert repr(value) not in problem or field in ("age", "height")


def test_what_is_required_must_be_there_and_what_is_unknown_may() -> None:
    schema = {**form(x={"type": "string"}), "required": ["x"]}
    assert content_problem(schema, {"y": 1}) == "x: missing"
    assert content_problem(schema, {"x": "", "y": 1}) is None
