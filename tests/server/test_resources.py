from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.errors import InvalidParams, Refusal, RemoteProtocolError
from mcp_ref.machinery.checking import SchemaMismatch, checker
from mcp_ref.machinery.projection import projector
from mcp_ref.machinery.publishing import json_schema
from mcp_ref.machinery.uri_template import covers
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.server.resources import (
    METHODS,
    ListResourcesResult,
    ReadResourceResult,
    ResourceNotFound,
    contents_bytes,
    list_resource_templates,
    list_resource_templates_page,
    list_resources,
    list_resources_page,
    read_resource,
    remove_resource,
    resource,
    resources_list,
    resources_read,
    resources_subscribe,
    resources_templates_list,
    resources_unsubscribe,
    subscribe_resource,
    unsubscribe_resource,
)
from tests.server.fakes import Ctx, FakeCaller, FakeContext, FakeServer


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def read(server: FakeServer, uri: str) -> list[Any]:
    return list(resources_read(FakeContext(server), {"uri": uri})["contents"])


# -- listing ------------------------------------------------------------------------------------------------------


def test_resources_and_templates_are_listed_apart_with_what_was_said_of_them(server: FakeServer) -> None:
    @resource(server, "config://app")
    def config(ctx: Ctx) -> str:
        """The configuration.

        More of it.
        """
        return ""

    resource(
        server,
        "x://{a}",
        name="n",
        title="t",
        description="d",
        mime_type="text/plain",
        annotations={"priority": 1},
        icons=[{"src": "https://example.com/i.png"}],
        meta={"k": 1},
    )(lambda a: a)
    assert resources_list(FakeContext(server), {}) == {
        "resources": [{"uri": "config://app", "name": "config", "description": "The configuration."}]
    }
    assert resources_templates_list(FakeContext(server), {}) == {
        "resourceTemplates": [
            {
                "uriTemplate": "x://{a}",
                "name": "n",
                "title": "t",
                "description": "d",
                "mimeType": "text/plain",
                "annotations": {"priority": 1},
                "icons": [{"src": "https://example.com/i.png"}],
                "_meta": {"k": 1},
            }
        ]
    }


def test_both_lists_come_page_by_page(server: FakeServer) -> None:
    for number in range(3):
        resource(server, f"x://{number}", name="same")(lambda: "")
        resource(server, f"x://{number}/{{v}}", name="same")(lambda v: "")
    ctx = FakeContext(server)
    ctx.server.page_size = 2
    first = resources_list(ctx, {})
    second = resources_list(ctx, {"cursor": first["nextCursor"]})
    assert [each["uri"] for each in first["resources"] + second["resources"]] == ["x://0", "x://1", "x://2"]
    templates = resources_templates_list(ctx, {})
    rest = resources_templates_list(ctx, {"cursor": templates["nextCursor"]})
    assert [each["uriTemplate"] for each in rest["resourceTemplates"]] == ["x://2/{v}"]
    assert "nextCursor" not in second
    assert "nextCursor" not in rest
    with pytest.raises(InvalidParams, match="Invalid cursor"):
        resources_list(ctx, {"cursor": templates["nextCursor"]})


def test_newer_fields_are_left_out_where_the_revision_does_not_have_them() -> None:
    full: JsonObject = {
        "resources": [{"uri": "x://a", "name": "a", "title": "A", "size": 3, "icons": [], "_meta": {}}],
        "ttlMs": 1,
        "cacheScope": "public",
    }

    def keys(revision: str) -> tuple[set[str], set[str]]:
        project = projector(ListResourcesResult, REVISIONS[revision])
        result = project(full) if project else full
        return set(result), set(result["resources"][0])

    assert keys("2024-11-05") == ({"resources"}, {"uri", "name", "size"})
    assert keys("2025-06-18") == ({"resources"}, {"uri", "name", "size", "title", "_meta"})
    assert keys("2025-11-25") == ({"resources"}, {"uri", "name", "size", "title", "_meta", "icons"})
    assert keys("2026-07-28")[0] == {"resources", "ttlMs", "cacheScope"}


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


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
def test_not_found_has_the_code_of_the_revision_and_names_the_uri(server: FakeServer, revision: Revision) -> None:
    @resource(server, "x://{v}")
    def handler(v: str) -> str:
        raise ResourceNotFound(f"x://{v}")

    expected = -32602 if revision.name == "2026-07-28" else -32002
    for uri in ("x://none", "y://none", "no uri at all", ""):
        with pytest.raises(Refusal) as refused:
            resources_read(FakeContext(server, revision), {"uri": uri})
        assert (refused.value.code, refused.value.message) == (expected, "Resource not found")
        assert refused.value.data == {"uri": uri}


@pytest.mark.parametrize(
    "path",
    [
        "../etc/passwd",
        "%2e%2e/etc/passwd",
        "a/%2e%2e%2fetc",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "..%5c..%5cboot.ini",
        "C:/boot.ini",
        "a%00.txt",
    ],
)
def test_a_path_out_of_the_directory_never_reaches_a_handler(server: FakeServer, path: str) -> None:
    @resource(server, "file:///{+path}")
    def file(path: str) -> str:
        raise AssertionError(path)

    @resource(server, "file:///{name}")
    def one(name: str) -> str:
        raise AssertionError(name)

    with pytest.raises(ResourceNotFound):
        read(server, f"file:///{path}")


def test_what_a_handler_raises_passes_to_the_one_place_that_answers(server: FakeServer) -> None:
    @resource(server, "x://{v}")
    def handler(v: str) -> str:
        raise RuntimeError("broken") if v == "b" else Refusal("no", code=7)

    with pytest.raises(RuntimeError, match="broken"):
        read(server, "x://b")
    with pytest.raises(Refusal, match="no"):
        read(server, "x://r")


def test_a_value_error_of_a_handler_is_not_taken_for_a_uri_that_is_not_there(server: FakeServer) -> None:
    @resource(server, "x://{v}")
    def handler(v: str) -> str:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        read(server, "x://b")


# -- subscriptions ------------------------------------------------------------------------------------------------


def test_a_subscription_is_noted_and_forgotten(server: FakeServer) -> None:
    resource(server, "x://a")(lambda: "")
    resource(server, "y://{v}")(lambda v: "")
    ctx = FakeContext(server)
    assert resources_subscribe(ctx, {"uri": "x://a"}) == {}
    resources_subscribe(ctx, {"uri": "y://b"})
    assert ctx.subscriptions == {"x://a", "y://b"}
    assert resources_unsubscribe(ctx, {"uri": "x://a"}) == {}
    assert resources_unsubscribe(ctx, {"uri": "x://never"}) == {}
    assert ctx.subscriptions == {"y://b"}


def test_what_no_handler_serves_cannot_be_subscribed_to(server: FakeServer) -> None:
    ctx = FakeContext(server)
    with pytest.raises(ResourceNotFound):
        resources_subscribe(ctx, {"uri": "x://a"})
    assert not ctx.subscriptions


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
    with pytest.raises(TypeError, match=r"variables \(a, b\), its handler the parameters \(a, c\)"):
        resource(server, "x://{a}/{b}")(lambda a, c: "")
    with pytest.raises(TypeError, match="variables"):
        resource(server, "x://a")(lambda a="": "")
    with pytest.raises(TypeError, match="variables"):
        resource(server, "x://{a}")(lambda **rest: "")
    with pytest.raises(TypeError, match="'q' out, so the parameter needs a default"):
        resource(server, "x://a{?q}")(lambda q: "")
    with pytest.raises(TypeError, match="no size"):
        resource(server, "x://{a}", size=3)(lambda a: "")


def test_a_uri_is_taken_once_until_it_is_removed(server: FakeServer) -> None:
    for uri, handler in (("x://a", lambda: ""), ("x://{v}", lambda v: "")):
        resource(server, uri)(handler)
        with pytest.raises(ValueError, match="taken"):
            resource(server, uri)(handler)
        remove_resource(server, uri)
        resource(server, uri)(handler)
    with pytest.raises(KeyError):
        remove_resource(server, "x://b")


# -- the client's half, and the rows ------------------------------------------------------------------------------


def test_the_client_lists_page_by_page() -> None:
    first: JsonObject = {"resources": [{"uri": "x://1", "name": "1"}], "nextCursor": "n"}
    caller = FakeCaller(first, {"resources": []}, {"resourceTemplates": []}, first, {"resourceTemplates": []})
    assert list_resources(caller) == first["resources"]
    assert list_resource_templates(caller, timeout=None) == []
    assert list_resources_page(caller) == first
    assert list_resource_templates_page(caller, "c") == {"resourceTemplates": []}
    assert caller.asked == [
        ("resources/list", None, {}),
        ("resources/list", {"cursor": "n"}, {}),
        ("resources/templates/list", None, {"timeout": None}),
        ("resources/list", None, {}),
        ("resources/templates/list", {"cursor": "c"}, {}),
    ]


def test_the_client_reads_and_subscribes() -> None:
    caller = FakeCaller({"contents": []}, {}, {})
    assert read_resource(caller, "x://a", timeout=1) == {"contents": []}
    subscribe_resource(caller, "x://a")
    unsubscribe_resource(caller, "x://a")
    assert caller.asked == [
        ("resources/read", {"uri": "x://a"}, {"timeout": 1}),
        ("resources/subscribe", {"uri": "x://a"}, {}),
        ("resources/unsubscribe", {"uri": "x://a"}, {}),
    ]


def test_contents_are_decoded_strictly() -> None:
    assert contents_bytes({"uri": "x://a", "text": "ü"}) == b"\xc3\xbc"
    assert contents_bytes({"uri": "x://a", "blob": "AP8="}) == b"\x00\xff"
    for blob in ("AP8", "A P8=", "AP8=!", "ü"):
        with pytest.raises(RemoteProtocolError, match="x://a"):
            contents_bytes({"uri": "x://a", "blob": blob})


def test_contents_of_both_kinds_pass_the_check_of_the_result() -> None:
    check = checker(ReadResourceResult, REVISIONS["2025-11-25"])
    check({"contents": [{"uri": "x://a", "text": ""}, {"uri": "x://a", "blob": ""}]})


def test_subscribing_is_gone_in_the_stateless_era_and_telling_of_changes_is_not() -> None:
    last = REVISIONS["2026-07-28"]
    assert {row.name for row in METHODS if not row.exists_in(last)} == {"resources/subscribe", "resources/unsubscribe"}
    needs = {row.name: row.needs for row in METHODS}
    assert needs["resources/subscribe"] == needs["notifications/resources/updated"] == "server.resources.subscribe"
    assert needs["notifications/resources/list_changed"] == "server.resources.listChanged"


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
