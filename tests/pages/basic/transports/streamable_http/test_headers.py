"""Who is let in (basic/transports#security-warning), and what headers repeat of a message, and how it is compared
(2026-07-28/basic/transports/streamable-http#request-metadata)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.errors import HeaderMismatch, LocalProtocolError
from mcp_ref.kit.http.http_exchange import HttpRefusal, HttpRequest
from mcp_ref.pages.basic.transports.streamable_http.headers import (
    LOOPBACK,
    MirroredHeaders,
    check_accept,
    check_content_type,
    check_host_and_origin,
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


# -- guards: Host, Origin, Content-Type, Accept ------------------------------------------------------------------


def status_of(check: Callable[..., None], headers: dict[str, str], *arguments: Any) -> int:
    try:
        check(HttpRequest("POST", "/mcp", headers), *arguments)
    except HttpRefusal as refusal:
        return refusal.status
    return 200


def check_host(request: HttpRequest, allowed: Any) -> None:
    check_host_and_origin(request, allowed, None)


def check_origin(request: HttpRequest, allowed: Any) -> None:
    check_host_and_origin(request, None, allowed)


OURS = ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]", "[::1]:8000"]
FOREIGN = [
    "evil.example:80",
    "localhost.evil.example",
    "localhost:80@evil.example",
    "evil.example@localhost",
    "[::1].evil.example",
    "localhost:80, evil.example",
    "localhost evil.example",
    "[::2]",
    "[::1",
    "",
]


@pytest.mark.parametrize(("host", "status"), [*((host, 200) for host in OURS), *((host, 403) for host in FOREIGN)])
def test_a_host_of_this_machine_is_let_in_and_none_that_only_looks_like_it(host: str, status: int) -> None:
    for check, headers in ((check_host, {"host": host}), (check_origin, {"origin": f"http://{host}"})):
        assert status_of(check, headers, LOOPBACK) == status
        assert status_of(check, headers, None) == 200, "None lets everybody in"


NAMED = ["https://app.example", "any.example"]


@pytest.mark.parametrize(
    ("origin", "allowed", "status"),
    [
        (None, LOOPBACK, 200),
        *((origin, LOOPBACK, 403) for origin in ("null", "http://localhost:80:80", "http://localhost\\.evil.example")),
        ("https://app.example", NAMED, 200),
        ("https://app.example:8443", NAMED, 403),
        ("http://any.example:1", NAMED, 200),
    ],
)
def test_an_origin_if_there_is_one_is_well_formed_and_named_whole_or_by_its_host(
    origin: str | None, allowed: Any, status: int
) -> None:
    assert status_of(check_origin, {} if origin is None else {"origin": origin}, allowed) == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON ; charset=utf-8", 200),
        ("", 415),
        ("application/json-rpc", 415),
        ("text/plain, application/json", 415),
    ],
)
def test_the_type_of_the_body(kind: str, status: int) -> None:
    assert status_of(check_content_type, {"content-type": kind}) == status


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json, text/event-stream", 200),
        ("TEXT/EVENT-STREAM;q=0.5 ,application/*", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("application/jsonx, text/event-stream", 406),
        ("", 406),
        ("application/json, text/event-stream;q=0", 406),
        ("application/json ; level=1 ; Q=0 , text/event-stream", 406),
        ("application/json, text/*;q=0, */*", 406),
        ("application/json;q=0.001, text/event-stream;q=1.0", 200),
        ("application/json, text/event-stream, */*;q=0", 200),
        ("application/json;" + "; " * 100_000 + ", text/event-stream", 200),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_the_client_accepts(accept: str, status: int) -> None:
    assert status_of(check_accept, {"accept": accept}, "application/json", "text/event-stream") == status


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("two words", "two words"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("\x7f", "=?base64?fw==?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        (-7, "-7"),
        (42.0, "42"),
        (1.5, "1.5"),
        (2**53 - 1, "9007199254740991"),
        (True, "true"),
    ],
)
def test_values_are_written_as_the_page_says(value: Any, header: str) -> None:
    assert encode_value(value) == header


@pytest.mark.parametrize("value", [2**53, -(2**53), "\ud800", 10**400])
def test_a_value_that_no_header_can_carry_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        encode_value(value)


@pytest.mark.parametrize(
    "encoded", ["SGVsbG8", "SGVs!!!bG8=", "SGVsbG8==", "SGVsbG9=", "SGVsbG8=\n", "SGVs-_8=", "/w==", "é"]
)
def test_base64_is_decoded_strictly(encoded: str) -> None:
    with pytest.raises(ValueError):
        decode_value(f"=?base64?{encoded}?=")


@pytest.mark.parametrize("header", ["=?base64?SGVsbG8=", "SGVsbG8=?=", "=?BASE64?SGVsbG8=?=", "=?base64?="])
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


@pytest.mark.parametrize(
    "unmarked",
    [
        schema(a=True),
        {"properties": 5},
        # Names, and data, that look like marks.
        schema(**{"x-mcp-header": {"type": "string"}}),
        schema(a={"default": {"x-mcp-header": ""}, "enum": [{"x-mcp-header": 1}]}),
    ],
)
def test_a_schema_without_marks_mirrors_nothing(unmarked: Any) -> None:
    assert parameters(unmarked) == {}


WITHIN = schema(a=marked("A"))


@pytest.mark.parametrize(
    "broken",
    [
        # What is not a token, what is not one simple type, what is there twice.
        *(schema(a=marked(name)) for name in ("", 5, "two words", "a:b", "é", "a\r\nb", "a\n")),
        *(
            schema(a=marked("A", kind))
            for kind in ("number", "object", ["string", "number"], ["string", "integer"], {})
        ),
        schema(a={"x-mcp-header": "A"}),
        schema(a=marked("Same"), b=marked("sAME")),
        schema(a=marked("A"), b=schema(c=marked("a"))),
        # Where no chain of `properties` leads.
        marked("Root", "object"),
        *(schema(a={"type": "array", keyword: marked("A")}) for keyword in ("items", "contains")),
        schema(a={"type": "array", "prefixItems": [marked("A")]}),
        *({keyword: [WITHIN]} for keyword in ("anyOf", "oneOf", "allOf")),
        *({keyword: WITHIN} for keyword in ("not", "if", "then", "else", "additionalProperties", "propertyNames")),
        *({keyword: {"x": WITHIN}} for keyword in ("$defs", "definitions", "patternProperties", "dependentSchemas")),
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


# -- the server compares ------------------------------------------------------------------------------------------


def checked(message: Any, headers: dict[str, str], repeated: Any = (), version: str = MODERN) -> None:
    MirroredHeaders(headers, repeated).check(message["method"], message.get("params") or {}, version)


def whole(**changed: str | None) -> dict[str, str]:
    usual = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "t"}
    given = {**usual, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"mcp_name": "  t\t"},
        {"mcp_method": " tools/call "},
        {"mcp_name": "=?base64?dA==?="},
        {"mcp_param_unknown": "é\x00"},
        {"mcp_session_id": "stray"},
    ],
)
def test_headers_that_say_the_same_pass(changed: Any) -> None:
    checked(call(), whole(**changed))


WRONG = {
    "mcp_protocol_version": [None, "2025-11-25"],
    "mcp_method": [None, "TOOLS/CALL", "=?base64?dG9vbHMvY2FsbA==?="],
    "mcp_name": [None, "", "T", "t, t", "=?base64?dA?=", "=?base64?IHQg?=", "t\x00", "té"],
}


@pytest.mark.parametrize(("field", "value"), [(field, each) for field, values in WRONG.items() for each in values])
def test_headers_that_say_something_else_are_refused(field: str, value: str | None) -> None:
    with pytest.raises(HeaderMismatch) as refused:
        checked(call(), whole(**{field: value}))
    assert refused.value.code == -32020


def test_a_name_that_the_body_does_not_have_is_refused() -> None:
    nameless = {"method": "tools/call", "params": {"name": 5}}
    with pytest.raises(HeaderMismatch):
        checked(nameless, whole())
    checked(nameless, whole(mcp_name=None))


def arguments(name: str, value: Any, header: str | None, kind: Any = "string", repeated: Any = ()) -> None:
    headers = {} if header is None else {f"mcp-param-{name.lower()}": header}
    given = {} if value is ... else {"a": value}
    MirroredHeaders(headers, repeated).check_arguments(schema(a=marked(name, kind)), given)


@pytest.mark.parametrize("name", ["mcp-protocol-version", "mcp-method", "mcp-name"])
def test_a_header_that_came_twice_is_refused_even_if_the_two_look_like_the_body(name: str) -> None:
    with pytest.raises(HeaderMismatch, match="twice"):
        checked(call(), whole(), repeated={name})
    with pytest.raises(HeaderMismatch, match="twice"):
        arguments("City", "Seattle, WA", "Seattle, WA", repeated={"mcp-param-city"})
    checked({"method": "tools/list"}, whole(mcp_method="tools/list"), repeated={"mcp-name", "x-other"})


def each_with(table: list[tuple[Any, list[str | None]]]) -> list[Any]:
    """The rows of a table of values, each with several headers."""
    return [(value, header) for value, headers in table for header in headers]


REPEATED: list[tuple[Any, list[str | None]]] = [
    ("Hello", ["=?base64?SGVsbG8=?=", " Hello "]),
    ("=?base64?SGVsbG8=", ["=?base64?SGVsbG8="]),
    ("", ["", "=?base64??="]),
    (42, ["42", "42.0", "4.2e1", "=?base64?NDI=?="]),
    (42.0, ["42"]),
    (1.1, ["1.1"]),
    (2**53 - 1, [str(2**53 - 1)]),
    (True, ["true"]),
    (None, [None]),
    (..., [None]),
    ([1], [None]),
]
NOT_REPEATED: list[tuple[Any, list[str | None]]] = [
    ("Hello", [None, "=?base64?SGVsbG8?=", "hello"]),
    ("", [None]),
    ("Hell\xf6", ["Hell\xf6"]),
    ("a\x01", ["a\x01"]),
    ("42", ["42.0"]),
    (0, [None]),
    (42, ["43", "042x", "", "0x2a", "NaN", "1e99999"]),
    (1, ["true"]),
    (True, ["1", "True"]),
    (False, [None]),
    (2**53, [str(2**53)]),
    (None, ["null"]),
    (..., ["x"]),
    ([1], ["[1]"]),
]


@pytest.mark.parametrize(("value", "header"), each_with(REPEATED))
def test_arguments_that_headers_repeat_pass(value: Any, header: str | None) -> None:
    arguments("Text", value, header)


@pytest.mark.parametrize(("value", "header"), each_with(NOT_REPEATED))
def test_arguments_that_headers_do_not_repeat_are_refused(value: Any, header: str | None) -> None:
    with pytest.raises(HeaderMismatch) as refused:
        arguments("Text", value, header)
    assert refused.value.code == -32020 and "Mcp-Param-Text" in refused.value.message


def test_marks_that_break_the_rules_are_not_followed_and_have_no_headers_to_check() -> None:
    assert "Mcp-Param-A" not in mirror(call(a=1), MODERN, schema(a=marked("A", "number")))
    arguments("A", 1.5, None, kind="number")


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans())
def test_what_the_client_writes_the_server_accepts(value: Any) -> None:
    known = schema(a=marked("A"))
    message = call("größe", a=value)
    headers = {name.lower(): text for name, text in mirror(message, MODERN, known).items()}
    compared = MirroredHeaders(headers)
    compared.check(message["method"], message["params"], MODERN)
    compared.check_arguments(known, message["params"]["arguments"])
    for each in headers.values():
        assert each.isascii() and (each.isprintable() or not each) and each.strip() == each, "the value of a field"
