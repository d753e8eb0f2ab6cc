from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref.errors import RequestTimeout
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.typed import json_schema
from mcp_ref.kit.typed.json_schema import DIALECTS, SchemaRefused, prepare
from tests.slow import slow_but


def problems(schema: Any, instance: Any) -> list[str]:
    return prepare(schema, what="the schema").problems(instance)


def refusal(schema: Any) -> str:
    with pytest.raises(SchemaRefused) as caught:
        prepare(schema, what="the inputSchema of tool 'x'")
    return str(caught.value)


def nested(depth: int, keyword: str = "not") -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {keyword: schema}
    return schema


# -- dialects


def test_without_a_dialect_a_schema_is_read_as_2020_12() -> None:
    schema = {"prefixItems": [{"type": "string"}]}
    assert problems(schema, [5]) == ["[0]: 5 is not of type 'string'"]
    assert problems({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, [5]) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_works_when_it_is_declared(dialect: str) -> None:
    for end in ("", "#"):
        schema = {"$schema": dialect + end, "type": "object", "properties": {"a": {"type": "integer"}}}
        assert problems(schema, {"a": 1}) == []
        assert problems(schema, {"a": "1"}) == ["a: '1' is not of type 'integer'"]
    # A format is an annotation: a date and time without a zone, as many a library writes it, is one of these.
    for name in ("date-time", "time", "uri", "email", "ipv4", "regex", "shoe-size"):
        schema = {"$schema": dialect, "type": "string", "format": name}
        assert problems(schema, "2025-11-25T10:15:00 (") == []
        assert problems(schema, 5) == ["5 is not of type 'string'"]


@pytest.mark.parametrize("dialect", ["urn:nothing", "http://json-schema.org/draft-03/schema#", "", 7, None])
def test_a_dialect_that_is_not_supported_is_refused_with_those_that_are(dialect: Any) -> None:
    text = refusal({"$schema": dialect})
    assert text.startswith("the inputSchema of tool 'x' has the dialect ")
    assert "not supported" in text and "draft/2020-12" in text


def test_one_schema_has_one_dialect() -> None:
    other = {"$id": "urn:a", "$schema": "http://json-schema.org/draft-07/schema#"}
    assert "mixes two dialects" in refusal({"$defs": {"a": other}})
    same = {"$id": "urn:a", "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string"}
    assert problems({"$ref": "urn:a", "$defs": {"a": same}}, 5) == ["5 is not of type 'string'"]


# -- validity


WRONG: list[tuple[Any, str]] = [
    *((schema, "must be a JSON object, true or false") for schema in (None, [], "{}", 5)),
    *(({"const": value}, "is not JSON") for value in ({1, 2}, float("nan"), object())),
    *(
        (schema, "is not valid in its dialect https://json-schema.org/draft/2020-12/schema")
        for schema in ({"type": "objekt"}, {"required": "a"}, {"properties": {"a": 5}}, {"minLength": -1})
    ),
]


@pytest.mark.parametrize(("schema", "why"), WRONG)
def test_a_schema_that_is_not_valid_in_its_dialect_is_refused(schema: Any, why: str) -> None:
    assert why in refusal(schema)


def test_the_schema_is_kept_as_it_was_given_and_later_changes_do_not_reach_it() -> None:
    schema = {"$schema": next(iter(DIALECTS)), "unevaluatedProperties": False, "properties": {"a": {"type": "string"}}}
    validator = prepare(schema, what="it")
    assert validator.schema == schema and list(validator.schema) == list(schema)
    schema["properties"] = {}
    assert validator.problems({"a": "x"}) == []


# -- references


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/t", "$defs": {"t": {"type": "string"}}},
        {"$ref": "#t", "$defs": {"t": {"$anchor": "t", "type": "string"}}},
        {"$id": "https://example.com/a/b", "$ref": "c", "$defs": {"t": {"$id": "c", "type": "string"}}},
        {"$ref": "#/$defs/a/$defs/b", "$defs": {"a": {"$defs": {"b": {"type": "string"}}}}},
    ],
)
def test_references_inside_the_schema_are_followed(schema: Any) -> None:
    assert problems(schema, 5) == ["5 is not of type 'string'"]


@pytest.mark.parametrize(
    "reference",
    ["https://example.com/s", "file:///etc/passwd", "other.json", "#/$defs/none", "#none", "http://[x", "#/type/0"],
)
def test_a_reference_out_of_the_schema_is_refused_and_nothing_is_fetched(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr("urllib.request.urlopen", forbidden)
    # That to the metaschema of a known dialect needs no network.
    assert problems({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"minLength": -1}) != []
    assert f"refers to {reference!r}" in refusal({"type": "string", "allOf": [{"$ref": reference}]})
    # also where only another reference leads to it
    hidden = {"$ref": "#/x-own/a", "x-own": {"a": {"$ref": reference}}}
    assert "refers to" in refusal(hidden)


TREE = {"type": "object", "properties": {"child": {"$ref": "#"}}}
LISTED = {"properties": {"a": {"items": {"required": ["b"]}}}, "additionalProperties": False}
FAULTS = ["a[0]: 'b' is a required property", "Additional properties are not allowed ('z' was unexpected)"]


@pytest.mark.parametrize(
    ("schema", "instance", "found"),
    [
        (True, 5, []),
        (False, 5, ["False schema does not allow 5"]),
        (TREE, {"child": {"child": 5}}, ["child.child: 5 is not of type 'object'"]),
        # What only looks like a reference is data.
        ({"const": {"$ref": "https://example.com"}}, {"$ref": "https://example.com"}, []),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": 5}, ["$ref: 5 is not of type 'string'"]),
        (LISTED, {"a": [{}], "z": 1}, FAULTS),
    ],
    ids=["true", "false", "one that holds itself", "a constant", "a name", "problems name the path"],
)
def test_problems_are_told_with_their_paths(schema: Any, instance: Any, found: list[str]) -> None:
    assert problems(schema, instance) == found


# -- bounds


def test_depth_parts_and_text_are_bounded() -> None:
    assert problems(nested(63), 1) is not None
    assert "more than 64 levels deep" in refusal(nested(65))
    assert "more than 10000 parts" in refusal({"enum": [[]] * 10_001})
    assert "is longer than" in refusal({"description": "x" * (1 << 20)})
    # One that holds itself, or is very deep, does not crash us.
    schema: dict[str, Any] = {}
    schema["not"] = schema
    assert "levels deep" in refusal(schema)
    assert "levels deep" in refusal(nested(100_000))


@pytest.mark.parametrize("pattern", ["(", r"\p{L}", "a" * 1001])
def test_a_pattern_compiles_and_is_not_too_long(pattern: str) -> None:
    assert "is not valid in its dialect" in refusal({"properties": {"a": {"pattern": pattern}}})
    assert problems({"const": {"pattern": pattern}}, {"pattern": pattern}) == []


@pytest.mark.parametrize("first", [{}, {"unevaluatedProperties": False}])
def test_a_small_schema_that_means_exponential_work_is_given_up(
    first: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_schema, "MAX_WORK", 50_000)
    definitions: dict[str, Any] = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)}
    schema = first | {"$schema": next(iter(DIALECTS)), "$ref": "#/$defs/a0", "$defs": definitions | {"a40": {}}}
    assert problems(schema, {"a": 1}) == ["needs more than 50000 steps to be checked"]


OBJECTS = [{"a": [number, {"b": str(number)}]} for number in range(8_000)]
HOSTILE: dict[str, tuple[Any, Any]] = {
    "allOf by items": ({"items": {"allOf": [{"type": "object"}] * 500}}, OBJECTS),
    "problems that quote the whole value": ({"anyOf": [{"type": "string"}] * 1_000}, [OBJECTS]),
    "enum by items": ({"items": {"enum": list(range(9_000))}}, list(range(9_000)) * 9),
    "patterns by names": (
        {"items": {"patternProperties": {f"x{number}$": {} for number in range(1_000)}}},
        [{f"n{number}": 1 for number in range(100)}] * 2_000,
    ),
    "unevaluatedItems": ({"contains": {"const": 7}, "unevaluatedItems": {"type": "integer"}}, list(range(40_000))),
    "nested unevaluatedProperties": (
        nested(20, "unevaluatedProperties") | {"allOf": [nested(20, "unevaluatedProperties")] * 20},
        functools.reduce(lambda inner, _: {"a": inner, "b": inner}, range(16), {}),
    ),
}


@pytest.mark.parametrize("name", slow_but(["enum by items"], HOSTILE))
def test_a_check_ends_by_its_deadline_and_by_the_work_that_it_may_do(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, value = HOSTILE[name]
    prepared = prepare(schema, what="the schema")
    began = time.thread_time()
    try:
        found = prepared.problems(value, Deadline(0.2))
    except RequestTimeout as problem:
        assert "checking a value" in str(problem)
    else:
        assert found == [f"needs more than {json_schema.MAX_WORK} steps to be checked"]
    assert time.thread_time() - began < 3
    monkeypatch.setattr(json_schema, "MAX_WORK", 20_000)
    assert prepared.problems(value) == ["needs more than 20000 steps to be checked"]


def test_each_check_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema, "MAX_WORK", -1)
    schema = {"$defs": {"a": {"$dynamicAnchor": "a", "type": "string"}}, "$ref": "#a"}
    for each in (schema, {"unevaluatedProperties": False}, {"type": "string"}):
        assert problems(each, "") == ["needs more than -1 steps to be checked"]


@pytest.mark.slow
def test_many_items_are_unique_or_not_by_one_look_at_each() -> None:
    began = time.thread_time()
    assert problems({"uniqueItems": True}, OBJECTS) == []
    assert problems({"uniqueItems": True}, [*OBJECTS, OBJECTS[0]]) == ["has non-unique elements"]
    colliding: list[Any] = [number * (2**61 - 1) for number in range(20_000)]
    colliding += [[-1 - (number >> bit & 1) for bit in range(14)] for number in range(9_000)]
    assert problems({"uniqueItems": True}, colliding) == []
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 1.0], False), ([0, -0.0], False), ([1, True], True), ([0, False], True), ([1, "1"], True),
        ([None, "None", False, 0, "", [], {}], True), ([1.5, 1.5], False), ([1e300, int(1e300)], False),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False), ([[1], [True]], True), ([["a", "b"], ["b", "a"]], True),
        ([[False, "1"], 1], True), ([{}, {"a": None}], True),
    ],
)  # fmt: skip
def test_items_are_equal_as_json_schema_says(items: list[Any], unique: bool) -> None:
    assert (problems({"uniqueItems": True}, items) == []) is unique
    assert problems({"uniqueItems": False}, items) == []


def test_what_cannot_be_checked_is_a_problem_not_a_crash_and_never_passes() -> None:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    assert problems({"items": {"$ref": "#"}}, value) == ["nested too deeply to be checked"]
    # A schema that leads in a circle, a reference into data, and a number that is not one of JSON.
    assert problems({"$ref": "#"}, 5) == ["nested too deeply to be checked"]
    assert problems({"$ref": "#/enum/0", "enum": [{"type": 5}]}, 1)[0].startswith("cannot be checked")
    assert "cannot be checked" in problems({"multipleOf": 0.1}, float("inf"))[0]
    assert "is not valid in its dialect" in refusal({"multipleOf": float("1e-400")})


def test_problems_are_bounded_in_number_and_length() -> None:
    found = problems({"items": {"type": "string"}}, list(range(100)))
    assert len(found) == 10
    assert len(problems({"type": "string"}, ["x"] * 10_000)[0]) < 400


# -- formats


FORMATS: dict[Callable[[str], bool], tuple[list[str], list[str]]] = {
    # the format: texts of it, and others
    json_schema.is_date: (
        ["2025-11-25", "2024-02-29"], ["20251125", "2025-02-29", "2025-13-01", "2025-11-25\n", "٢٠٢٥-11-25", ""],
    ),
    json_schema.is_time: (
        ["10:15:00Z", "10:15:00.123+05:30", "23:59:60Z", "15:59:60-08:00"],
        ["10:15Z", "10:15:00", "24:00:00Z", "10:60:00Z", "22:59:61Z", "10:15:00+24:00"],
    ),
    json_schema.is_date_time: (
        ["2025-11-25T10:15:00Z", "2025-11-25t10:15:00.5-01:00", "1998-12-31T23:59:60Z"],
        ["2025-11-25", "2025-11-25T10:15:00", "2025-11-25 10:15:00Z", "2025-02-30T10:15:00Z"],
    ),
    json_schema.is_email: (
        ["ada@example.com", "a.b+c@localhost", '"a b"@example.com', "a@[127.0.0.1]", "a@[IPv6:2001:db8::7]"],
        ["ada", "@b.c", "a@", ".a@b.c", "a..b@c", "a b@c", "a@-b.c", "a@[300.0.0.1]", "a@[127.0.0.01]",
         "a@[IPv6::::1]", "a@[fe80::1%eth0]"],
    ),
    json_schema.is_uri: (
        ["https://a.b/c?d#e", "urn:uuid:1", "mailto:a@b.c", "file:///a%20b", "ldap://[2001:db8::7]/c"],
        ["//host/a", "a", "1a:b", "https://a b/", "https://a/%zz", "http://[::1", "http://a:x/", "a:b#c#d", "a:[b]",
         "http://a/?b]", "a:b c", "a:{b}", "a:\\", ""],
    ),
    json_schema.is_uuid: (
        ["550e8400-e29b-41d4-a716-446655440000"],
        ["550e8400e29b41d4a716446655440000", "g50e8400-e29b-41d4-a716-446655440000", ""],
    ),
}  # fmt: skip


@pytest.mark.parametrize("check", FORMATS)
def test_a_format_is_told_from_others(check: Callable[[str], bool]) -> None:
    good, bad = FORMATS[check]
    assert [each for each in good if not check(each)] == []
    assert [each for each in bad if check(each)] == []


# -- multipleOf


@pytest.mark.parametrize(
    ("divisor", "value", "fits"),
    [
        (0.01, 19.99, True), (0.01, 0.07, True), (0.01, 4.35, True), (0.1, 0.3, True), (1e-9, 0.123456789, True),
        (0.01, 4.355, False), (0.01, 0.1 + 0.2, False), (0.1, -0.3, True), (0.1, 0, True), (0.5, 3, True),
        (2, 3, False), (2, 3.0, False), (2, 4.0, True), (3, 10**4000, False), (3, 3 * 10**4000, True),
        (0.3, 3 * 10**4000, True), (1e-308, 1e308, True), (3e-308, 1e308, False), (5e-324, 1.7e308, True),
        (1e308, 5e-324, False), (7, "7.5", True), (2, True, True), (float("1e-300"), float("1e-400"), True),
    ],
)  # fmt: skip
def test_a_multiple_is_one_of_decimal_fractions_and_takes_no_time(divisor: float, value: Any, fits: bool) -> None:
    began = time.thread_time()
    assert (problems({"multipleOf": divisor}, value) == []) is fits
    assert time.thread_time() - began < 1
