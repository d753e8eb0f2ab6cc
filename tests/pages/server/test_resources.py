from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.errors import RemoteProtocolError
from mcp_ref.kit.typed.checking import SchemaMismatch, checker
from mcp_ref.kit.typed.publishing import json_schema
from mcp_ref.kit.typed.uri_template import covers
from mcp_ref.pages.server.resources import (
    ReadResourceResult,
    ResourceNotFound,
    contents_bytes,
    resource,
    resources_read,
)
from mcp_ref.revisions import REVISIONS
from mcp_ref.wire.messages import JsonObject
from tests.pages.server.fakes import Ctx, FakeContext, FakeServer


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def read(server: FakeServer, uri: str) -> list[Any]:
    return list(resources_read(FakeContext(server), {"uri": uri})["contents"])


# -- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "contents"),
    [
        ("text", [{"text": "text"}]),
        (b"\x00\xff", [{"blob": "AP8="}]),
        (bytearray(b"\x00"), [{"blob": "AA=="}]),
        ({"text": "t", "_meta": {"k": 1}}, [{"text": "t", "_meta": {"k": 1}}]),
        ({"blob": b"\x00"}, [{"blob": "AA=="}]),
        ({"blob": "AA=="}, [{"blob": "AA=="}]),
        (["a", b"\x00", {"text": "b"}], [{"text": "a"}, {"blob": "AA=="}, {"text": "b"}]),
        ([], []),
    ],
)
def test_what_a_handler_returns_becomes_contents(server: FakeServer, returned: Any, contents: list[JsonObject]) -> None:
    resource(server, "x://a", mime_type="m/n")(lambda: returned)
    assert read(server, "x://a") == [{"uri": "x://a", "mimeType": "m/n", **each} for each in contents]


def test_contents_keep_their_own_uri_and_mime_type_and_none_is_made_up(server: FakeServer) -> None:
    resource(server, "x://dir", name="d")(lambda: [{"uri": "x://dir/1", "mimeType": "a/b", "text": ""}, "2"])
    assert read(server, "x://dir") == [
        {"uri": "x://dir/1", "mimeType": "a/b", "text": ""},
        {"uri": "x://dir", "text": "2"},
    ]


def test_a_handler_can_return_the_whole_result(server: FakeServer) -> None:
    resource(server, "x://a")(lambda: {"contents": ["t"], "_meta": {"k": 1}})
    result = resources_read(FakeContext(server), {"uri": "x://a"})
    assert result == {"contents": [{"uri": "x://a", "text": "t"}], "_meta": {"k": 1}}


@pytest.mark.parametrize(
    "returned", [object(), {1: 2}, {"text": "a", "blob": "AA=="}, {"blob": "not base64"}, [float("nan")]]
)
def test_a_handler_that_returns_something_else_is_wrong(server: FakeServer, returned: Any) -> None:
    resource(server, "x://a")(lambda: returned)
    with pytest.raises((TypeError, ValueError)):
        read(server, "x://a")


def test_a_uri_of_its_own_comes_before_templates_and_these_in_order_of_registration(server: FakeServer) -> None:
    resource(server, "x://{any}")(lambda any: f"first {any}")
    resource(server, "x://{other}/")(lambda other: f"second {other}")
    resource(server, "x://{+rest}")(lambda rest: f"third {rest}")
    resource(server, "x://a")(lambda: "fixed")
    texts = [read(server, uri)[0]["text"] for uri in ("x://a", "x://b", "x://b/", "x://b/c")]
    assert texts == ["fixed", "first b", "second b", "third b/c"]


def test_values_are_decoded_and_converted_and_the_context_is_passed(server: FakeServer) -> None:
    @resource(server, "x://{city}/{day}{?unit}")
    def forecast(ctx: Ctx, city: str, day: int, unit: str = "C") -> str:
        return f"{city} {day + 1} {unit} {type(ctx).__name__}"

    assert read(server, "x://S%C3%A3o/1")[0]["text"] == "São 2 C FakeContext"
    assert read(server, "x://a/1?unit=F")[0]["text"] == "a 2 F FakeContext"
    with pytest.raises(ResourceNotFound):
        read(server, "x://a/monday")


def test_a_value_error_of_a_handler_is_not_taken_for_a_uri_that_is_not_there(server: FakeServer) -> None:
    @resource(server, "x://{v}")
    def handler(v: str) -> str:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        read(server, "x://b")


# -- subscriptions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscribed", "updated", "told"),
    [
        ("x://a/b", "x://a/b", True),
        ("x://a/b", "x://a/b/c", True),
        ("x://a/b/", "x://a/b/c", True),
        ("file:///", "file:///a", True),
        ("x://a/b", "x://a/bc", False),
        ("x://a/b", "x://a", False),
        ("x://a/b/", "x://a/b", False),
        ("x://a?q=b", "x://a?q=b/c", False),
        ("x://a#b", "x://a#b/c", False),
    ],
)
def test_a_subscription_covers_the_resource_and_what_is_below_it(subscribed: str, updated: str, told: bool) -> None:
    assert covers(subscribed, updated) is told


# -- registering --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["", "a", "/a/b", "no spaces://a b", "1x://a", "x://ü", "x://%zz", "x://a\\b"])
def test_a_malformed_uri_is_refused_at_registration(server: FakeServer, uri: str) -> None:
    with pytest.raises(ValueError, match="URI"):
        resource(server, uri)(lambda: "")


@pytest.mark.parametrize("uri", ["{scheme}://a", "a/{b}", "x://{a", "x://{a}{b}", "x://}"])
def test_a_template_that_cannot_be_matched_is_refused_at_registration(server: FakeServer, uri: str) -> None:
    with pytest.raises(ValueError, match="URI template"):
        resource(server, uri)(lambda a, b: "")


def test_variables_and_parameters_must_be_the_same(server: FakeServer) -> None:
    with pytest.raises(TypeError, match=r"variables \(a, b\), but its handler has the parameters \(a, c\)"):
        resource(server, "x://{a}/{b}")(lambda a, c: "")
    with pytest.raises(TypeError, match="variables"):
        resource(server, "x://a")(lambda a="": "")
    with pytest.raises(TypeError, match="variables"):
        resource(server, "x://{a}")(lambda **rest: "")
    with pytest.raises(TypeError, match="'q' out, so the parameter needs a default"):
        resource(server, "x://a{?q}")(lambda q: "")
    with pytest.raises(TypeError, match="no size"):
        resource(server, "x://{a}", size=3)(lambda a: "")


# -- the client's half, and the rows ------------------------------------------------------------------------------


def test_contents_are_decoded_strictly() -> None:
    assert contents_bytes({"uri": "x://a", "text": "ü"}) == b"\xc3\xbc"
    assert contents_bytes({"uri": "x://a", "blob": "AP8="}) == b"\x00\xff"
    for blob in ("AP8", "A P8=", "AP8=!", "ü"):
        with pytest.raises(RemoteProtocolError, match="x://a"):
            contents_bytes({"uri": "x://a", "blob": blob})


def test_caching_hints_are_required_in_the_stateless_era_and_their_absence_is_borne() -> None:
    last = REVISIONS["2026-07-28"]
    assert json_schema(ReadResourceResult, last)["required"] == ["cacheScope", "contents", "resultType", "ttlMs"]
    check = checker(ReadResourceResult, last)
    for hints in ({}, {"ttlMs": -1}, {"ttlMs": 5, "cacheScope": "public"}):
        check({"contents": [], "resultType": "complete", **hints})
    for hints in ({"ttlMs": "5"}, {"ttlMs": 0.5}, {"cacheScope": "shared"}):
        with pytest.raises(SchemaMismatch, match=next(iter(hints))):
            check({"contents": [], **hints})
    checker(ReadResourceResult, REVISIONS["2025-11-25"])({"contents": [], "ttlMs": "of no meaning there"})
