"""2026-07-28/basic/transports/streamable-http#request-metadata: what is repeated in headers, and how it is compared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.errors import HeaderMismatch, LocalProtocolError
from mcp_ref.pages.basic.transports.streamable_http.headers import (
    MirroredHeaders,
    decode_value,
    encode_value,
    mirror,
    parameters,
)

MODERN = "2026-07-28"


def schema(**properties: Any) -> Any:
    return {"type": "object", "properties": properties}


def marked(name: Any, kind: Any = "string", **more: Any) -> Any:
    return {"type": kind, "x-mcp-header": name, **more}


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("two words", "two words"),
        ("a\tb", "=?base64?YQli?="),
        ("\x7f", "=?base64?fw==?="),
        ("", ""),
        (42, "42"),
        (-7, "-7"),
        (42.0, "42"),
        (1.5, "1.5"),
        (2**53 - 1, "9007199254740991"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_values_are_written_as_the_page_says(value: Any, header: str) -> None:
    assert encode_value(value) == header


@pytest.mark.parametrize("value", [2**53, -(2**53), 1e300, "\ud800", 10**400])
def test_a_value_that_no_header_can_carry_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        encode_value(value)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_encoded_is_a_field_value_and_decodes_to_itself(text: str) -> None:
    header = encode_value(text)
    assert decode_value(header) == text
    assert header.isascii() and (header.isprintable() or not header) and header.strip() == header


@pytest.mark.parametrize(
    "header",
    [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?SGVsbG9=?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVsbG8=\n?=",
        "=?base64?SGVs-_8=?=",
        "=?base64?/w==?=",
        "=?base64?é?=",
    ],
)
def test_base64_is_decoded_strictly(header: str) -> None:
    with pytest.raises(ValueError):
        decode_value(header)


@pytest.mark.parametrize("header", ["SGVsbG8=", "=?base64?SGVsbG8=", "SGVsbG8=?=", "=?BASE64?SGVsbG8=?=", "=?base64?="])
def test_what_is_not_marked_on_both_sides_is_taken_as_it_is(header: str) -> None:
    assert decode_value(header) == header


# -- x-mcp-header -------------------------------------------------------------------------------------------------


def test_marked_properties_are_found_at_any_depth_of_properties() -> None:
    found = parameters(
        schema(
            region=marked("Region"),
            query={"type": "string"},
            where={"type": "object", "properties": {"zone": marked("Zone", "integer"), "deep": schema(b=marked("B"))}},
            maybe=marked("Maybe", ["boolean", "null"]),
        )
    )
    assert found == {"Region": ("region",), "Maybe": ("maybe",), "Zone": ("where", "zone"), "B": ("where", "deep", "b")}


@pytest.mark.parametrize("text", [{}, {"type": "object"}, schema(), schema(a=True), {"properties": 5}])
def test_a_schema_without_marks_mirrors_nothing(text: Any) -> None:
    assert parameters(text) == {}


def test_data_and_names_that_look_like_marks_are_not_marks() -> None:
    assert parameters(schema(**{"x-mcp-header": {"type": "string"}})) == {}
    assert parameters(schema(a={"default": {"x-mcp-header": ""}, "enum": [{"x-mcp-header": 1}]})) == {}


@pytest.mark.parametrize(
    "broken",
    [
        schema(a=marked("")),
        schema(a=marked(5)),
        schema(a=marked(None)),
        schema(a=marked("two words")),
        schema(a=marked("a:b")),
        schema(a=marked("é")),
        schema(a=marked("a\r\nb")),
        schema(a=marked("a\n")),
        schema(a=marked("A", "number")),
        schema(a=marked("A", "object")),
        schema(a=marked("A", "array")),
        schema(a=marked("A", "null")),
        schema(a=marked("A", ["string", "number"])),
        schema(a=marked("A", ["string", "integer"])),
        schema(a=marked("A", {})),
        schema(a={"x-mcp-header": "A"}),
        schema(a=marked("Same"), b=marked("sAME")),
        schema(a=marked("A"), b=schema(c=marked("a"))),
        marked("Root", "object"),
        schema(a={"type": "array", "items": marked("A")}),
        schema(a={"type": "array", "items": [marked("A")]}),
        schema(a={"type": "array", "prefixItems": [marked("A")]}),
        schema(a={"type": "array", "contains": marked("A")}),
        schema(a={"anyOf": [marked("A"), {"type": "null"}]}),
        {"oneOf": [schema(a=marked("A"))]},
        {"allOf": [schema(a=marked("A"))]},
        {"not": schema(a=marked("A"))},
        {"if": schema(a=marked("A"))},
        {"then": schema(a=marked("A"))},
        {"else": schema(a=marked("A"))},
        {"$defs": {"a": marked("A")}, **schema(a={"$ref": "#/$defs/a"})},
        {"definitions": {"a": marked("A")}},
        {"patternProperties": {"x": marked("A")}},
        {"additionalProperties": marked("A")},
        {"dependentSchemas": {"x": schema(a=marked("A"))}},
        {"propertyNames": marked("A")},
    ],
)
def test_a_mark_that_breaks_the_rules_is_refused(broken: Any) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        parameters(broken)


def test_a_schema_of_any_depth_is_walked() -> None:
    deep: Any = marked("A")
    for _ in range(64):
        deep = schema(a=deep)
    assert parameters(deep) == {"A": ("a",) * 64}
    for _ in range(20_000):
        deep = schema(a=deep)
    with pytest.raises(ValueError, match="no chain"):
        parameters(deep)


# -- the client writes --------------------------------------------------------------------------------------------


def call(name: str = "t", **arguments: Any) -> Any:
    return {"id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "get_weather"}, "get_weather"),
        ("prompts/get", {"name": "größe"}, "=?base64?Z3LDtsOfZQ==?="),
        ("resources/read", {"uri": "file:///path/to/file%20name.txt"}, "file:///path/to/file%20name.txt"),
        ("tools/list", {"name": "not mirrored"}, None),
        ("tools/call", {}, None),
        ("server/discover", None, None),
    ],
)
def test_method_and_name_are_repeated(method: str, params: Any, name: str | None) -> None:
    expected = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if name is not None:
        expected["Mcp-Name"] = name
    assert mirror({"method": method, "params": params}, MODERN) == expected


def test_marked_arguments_are_repeated_and_no_others() -> None:
    known = schema(
        region=marked("Region"),
        query={"type": "string"},
        method=marked("Method"),
        flag=marked("Flag", "boolean"),
        none=marked("None", ["string", "null"]),
        absent=marked("Absent"),
        empty=marked("Empty"),
        where=schema(zone=marked("Zone", "integer")),
        lost=schema(inner=marked("Inner")),
    )
    message = call(region="us", query="q", method="m", flag=False, none=None, empty="", where={"zone": 3}, lost=[1])
    headers = mirror(message, MODERN, known)
    assert {name: value for name, value in headers.items() if name.startswith("Mcp-Param-")} == {
        "Mcp-Param-Region": "us",
        "Mcp-Param-Method": "m",
        "Mcp-Param-Flag": "false",
        "Mcp-Param-Empty": "",
        "Mcp-Param-Zone": "3",
    }
    assert headers["Mcp-Method"] == "tools/call"


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (call(zone=2**60), "Mcp-Param-Zone"),
        (call("\udc00"), "Mcp-Name"),
        ({"method": "größe/zeigen"}, "Mcp-Method"),
        ({"method": ""}, "Mcp-Method"),
        ({"method": "a\r\nX: y"}, "Mcp-Method"),
    ],
)
def test_what_cannot_be_repeated_is_not_sent(message: Any, named: str) -> None:
    with pytest.raises(LocalProtocolError, match=named):
        mirror(message, MODERN, schema(zone=marked("Zone", "integer")))


def test_marks_that_break_the_rules_are_not_followed() -> None:
    assert "Mcp-Param-A" not in mirror(call(a=1), MODERN, schema(a=marked("A", "number")))


# -- the server compares ------------------------------------------------------------------------------------------


def checked(message: Any, headers: dict[str, str], repeated: Any = (), version: str = MODERN) -> None:
    MirroredHeaders(headers, repeated).check(message["method"], message.get("params") or {}, version)


def whole(**changed: str | None) -> dict[str, str]:
    usual = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "t"}
    given = {**usual, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    "headers",
    [
        whole(),
        whole(mcp_name="  t\t"),
        whole(mcp_method=" tools/call "),
        whole(mcp_name="=?base64?dA==?="),
        whole(mcp_param_unknown="é\x00"),
        whole(mcp_session_id="stray"),
    ],
)
def test_headers_that_say_the_same_pass(headers: dict[str, str]) -> None:
    checked(call(), headers)


@pytest.mark.parametrize(
    "headers",
    [
        whole(mcp_protocol_version=None),
        whole(mcp_protocol_version="2025-11-25"),
        whole(mcp_method=None),
        whole(mcp_method="TOOLS/CALL"),
        whole(mcp_method="tools/list"),
        whole(mcp_method="=?base64?dG9vbHMvY2FsbA==?="),
        whole(mcp_name=None),
        whole(mcp_name=""),
        whole(mcp_name="T"),
        whole(mcp_name="t, t"),
        whole(mcp_name="=?base64?dA?="),
        whole(mcp_name="=?base64?IHQg?="),
        whole(mcp_name="t\x00"),
        whole(mcp_name="té"),
    ],
)
def test_headers_that_say_something_else_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(HeaderMismatch) as refused:
        checked(call(), headers)
    assert refused.value.code == -32020


@pytest.mark.parametrize("name", ["mcp-protocol-version", "mcp-method", "mcp-name"])
def test_a_header_that_came_twice_is_refused_even_if_the_two_look_like_the_body(name: str) -> None:
    with pytest.raises(HeaderMismatch, match="twice"):
        checked(call(), whole(), repeated={name})
    checked({"method": "tools/list"}, whole(mcp_method="tools/list"), repeated={"mcp-name", "x-other"})


def test_a_name_that_the_body_does_not_have_is_refused() -> None:
    nameless = {"method": "tools/call", "params": {"name": 5}}
    with pytest.raises(HeaderMismatch):
        checked(nameless, whole())
    checked(nameless, whole(mcp_name=None))


def arguments(name: str, value: Any, header: str | None, kind: Any = "string", repeated: Any = ()) -> None:
    headers = {} if header is None else {f"mcp-param-{name.lower()}": header}
    given = {} if value is ... else {"a": value}
    MirroredHeaders(headers, repeated).check_arguments(schema(a=marked(name, kind)), given)


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("Hello", "=?base64?SGVsbG8=?="),
        ("Hello", " Hello "),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("", ""),
        ("", "=?base64??="),
        (42, "42"),
        (42, "42.0"),
        (42.0, "42"),
        (42, "4.2e1"),
        (42, "=?base64?NDI=?="),
        (1.1, "1.1"),
        (2**53 - 1, str(2**53 - 1)),
        (True, "true"),
        (None, None),
        (..., None),
        ([1], None),
    ],
)
def test_arguments_that_headers_repeat_pass(value: Any, header: str | None) -> None:
    arguments("Text", value, header)


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("Hello", None),
        ("", None),
        (0, None),
        (False, None),
        ("Hello", "=?base64?SGVsbG8?="),
        ("Hello", "=?base64?SGVs!!!bG8=?="),
        ("Hello", "hello"),
        ("Hell\xf6", "Hell\xf6"),
        ("a\x01", "a\x01"),
        ("42", "42.0"),
        (42, "43"),
        (42, "042x"),
        (42, ""),
        (42, "0x2a"),
        (42, "NaN"),
        (42, "1e99999"),
        (1, "true"),
        (True, "1"),
        (True, "True"),
        (2**53, str(2**53)),
        (None, "null"),
        (..., "x"),
        ([1], "[1]"),
    ],
)
def test_arguments_that_headers_do_not_repeat_are_refused(value: Any, header: str | None) -> None:
    with pytest.raises(HeaderMismatch) as refused:
        arguments("Text", value, header)
    assert refused.value.code == -32020 and "Mcp-Param-Text" in refused.value.message


def test_an_argument_is_given_once() -> None:
    with pytest.raises(HeaderMismatch, match="twice"):
        arguments("City", "Seattle, WA", "Seattle, WA", repeated={"mcp-param-city"})


def test_a_tool_whose_marks_break_the_rules_has_no_headers_to_check() -> None:
    arguments("A", 1.5, None, kind="number")


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans())
def test_what_the_client_writes_the_server_accepts(value: Any) -> None:
    known = schema(a=marked("A"))
    message = call("größe", a=value)
    headers = {name.lower(): text for name, text in mirror(message, MODERN, known).items()}
    compared = MirroredHeaders(headers)
    compared.check(message["method"], message["params"], MODERN)
    compared.check_arguments(known, message["params"]["arguments"])
