from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.errors import LocalProtocolError
from mcp_ref.pages.client.elicitation import (
    Elicitors,
    content_problem,
    downgrade,
    elicit,
    elicitation_create,
    schema_problem,
)
from tests.pages.client.fakes import LATEST, FakeClient, FakeServer

JsonObject = dict[str, Any]

COLOURS = [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]
FIELDS: dict[str, JsonObject] = {
    "string": {"type": "string", "minLength": 2, "maxLength": 4, "title": "T", "description": "D"},
    "email": {"type": "string", "format": "email"},
    "day": {"type": "string", "format": "date"},
    "number": {"type": "number", "minimum": 0, "maximum": 1.5},
    "integer": {"type": "integer", "minimum": 1},
    "boolean": {"type": "boolean", "default": False},
    "choice": {"type": "string", "enum": ["a", "b"]},
    "legacy": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
    "titled": {"type": "string", "oneOf": COLOURS},
    "choices": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2},
    "titled choices": {"type": "array", "items": {"anyOf": COLOURS}},
}


def form(**fields: Any) -> JsonObject:
    return {"type": "object", "properties": fields}


# -- schemas


def test_every_kind_of_the_page_is_a_form_and_is_sent_unchanged() -> None:
    whole = {**form(**FIELDS), "$schema": "https://json-schema.org/draft/2020-12/schema", "required": ["string"]}
    assert schema_problem(whole, LATEST) is None
    assert downgrade(whole, LATEST) == whole


def sent(schema: JsonObject) -> Any:
    """The form that a server sends if its handler gives this schema."""
    server = FakeServer({"action": "cancel"}, {"elicitation": {}})
    elicit(server, "?", schema)
    return server.params["requestedSchema"]


def test_properties_alone_require_what_has_no_default() -> None:
    fields = {"name": {"type": "string"}, "loud": {"type": "boolean", "default": True}}
    assert sent(fields) == {"type": "object", "properties": fields, "required": ["name"]}
    assert sent({}) == {"type": "object", "properties": {}}
    assert sent(form(type={"type": "string"})) == form(type={"type": "string"})
    assert sent({"type": {"type": "string"}})["properties"] == {"type": {"type": "string"}}


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array", "items": {"type": "number"}},
        {"type": "array"},
        {"type": "null"},
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
    [
        {"type": "array", "properties": {}},
        {"type": "object"},
        {**form(), "required": ["x"]},
        {**form(), "required": "x"},
        {"type": "object", "properties": []},
    ],
)
def test_the_root_is_an_object_with_its_own_required_names(schema: JsonObject) -> None:
    assert schema_problem(schema, LATEST) is not None


@pytest.mark.parametrize(
    "schema",
    [
        form(x={"type": "number", "multipleOf": 2}),
        form(x={"type": "string", "minimum": 2}),
        {**form(), "minProperties": 1},
        {**form(), "oneOf": []},
    ],
)
def test_keywords_that_the_page_does_not_name_are_not_sent_but_tolerated(schema: JsonObject) -> None:
    assert schema_problem(schema, LATEST) is None
    with pytest.raises(LocalProtocolError, match="not a keyword of a form"):
        downgrade(schema, LATEST)


def test_a_pattern_is_not_sent_but_tolerated(caplog: pytest.LogCaptureFixture) -> None:
    schema = form(x={"type": "string", "pattern": "^a"})
    assert schema_problem(schema, LATEST) is None
    assert downgrade(schema, LATEST) == form(x={"type": "string"})
    assert "pattern" in caplog.text


# -- values


FIT: dict[str, list[Any]] = {
    "string": ["ab", "äöüß"],
    "email": ["ada@example.com"],
    "day": ["2025-11-25"],
    "number": [0, 1.5],
    "integer": [1, 2.0],
    "boolean": [True],
    "choice": ["a"],
    "titled": ["#f00"],
    "choices": [["a", "b"]],
    "titled choices": [[]],
}


@pytest.mark.parametrize(("field", "value"), [(field, each) for field in FIT for each in FIT[field]])
def test_values_that_fit(field: str, value: Any) -> None:
    assert content_problem(form(x=FIELDS[field]), {"x": value}) is None


DO_NOT_FIT: dict[str, list[Any]] = {
    "string": ["a", "abcde", 12],
    "email": ["ada"],
    "day": ["2025-02-30"],
    "number": [-1, 2, True, "1"],
    "integer": [1.5, float("inf"), 0],
    "boolean": [1],
    "choice": ["c", ["a"]],
    "titled": ["Red"],
    "choices": [[], ["a", "b", "c"], ["d"], "a"],
    "titled choices": [["Red"]],
}


@pytest.mark.parametrize(("field", "value"), [(field, each) for field in DO_NOT_FIT for each in DO_NOT_FIT[field]])
def test_values_that_do_not_fit_are_named_by_field_and_not_shown(field: str, value: Any) -> None:
    problem = content_problem(form(x=FIELDS[field]), {"x": value})
    assert problem is not None and problem.startswith("x: ")
    assert repr(value) not in problem or field in ("number", "integer")


def test_what_is_required_must_be_there_and_what_is_unknown_may() -> None:
    schema = {**form(x={"type": "string"}), "required": ["x"]}
    assert content_problem(schema, {"y": 1}) == "x: missing"
    assert content_problem(schema, {"x": "", "y": 1}) is None


def test_defaults_fill_what_is_missing_and_none_leaves_it_empty() -> None:
    schema = form(a={"type": "string", "default": "x"}, b={"type": "boolean", "default": False}, c={"type": "string"})

    def content(returned: Any) -> Any:
        asked: Any = {"message": "?", "requestedSchema": schema}
        client = FakeClient({"elicitation": {}})
        return elicitation_create(Elicitors({}, lambda message, schema: returned), client, asked)["content"]

    assert content({}) == {"a": "x", "b": False}
    assert content({"a": None, "b": True, "c": None}) == {"b": True}
