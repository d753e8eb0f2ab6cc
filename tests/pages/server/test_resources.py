"""server/resources, from a Client to a Server and back, in every revision."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, RemoteProtocolError, Server
from mcp_ref.kit.typed.checking import SchemaMismatch, checker
from mcp_ref.kit.typed.publishing import json_schema
from mcp_ref.kit.typed.uri_template import covers
from mcp_ref.pages.server import resources as resources_page
from mcp_ref.pages.server.resources import ReadResourceResult, ResourceNotFound, contents_bytes
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, find_revision
from tests.eras import open_server
from tests.support.wire import PATIENCE

OLDER = [row.name for row in SESSION_REVISIONS]
LATEST = "2025-11-25"
TITLES = {"2025-06-18", "2025-11-25", "2026-07-28"}
ICONS = TITLES - {"2025-06-18"}

every_revision = pytest.mark.parametrize("name", REVISIONS)
every_session = pytest.mark.parametrize("name", OLDER)

Heard = SimpleQueue[tuple[str, Any]]


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.resource(
        "config://app",
        title="Configuration",
        description="d",
        mime_type="application/json",
        annotations={"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"},
        size=2,
        icons=[{"src": "https://example.com/i.png"}],
        meta={"k": 1},
    )
    def config() -> str:
        return "{}"

    @server.resource("notes://{name}", title="Note", icons=[{"src": "https://example.com/i.png"}], meta={"k": 1})
    def note(name: str) -> str:
        if name == "lost":
            raise ResourceNotFound(f"notes://{name}")
        return f"note {name}"

    @server.resource("file:///{+path}")
    def file(path: str, ctx: Context) -> list[Any]:
        return [f"{path} {ctx.revision}", b"\x00\xff", {"uri": f"file:///{path}/part", "text": "t", "_meta": {"k": 1}}]

    @server.resource("days://{city}/{day}{?unit}")
    def forecast(city: str, day: int, unit: str = "C") -> str:
        return f"{city} {day + 1} {unit}"

    return server


def read(server: Server, *uris: str) -> list[Any]:
    """Return the contents of each."""
    with Client(server, revision=LATEST) as client:
        return [content for uri in uris for content in client.read_resource(uri)["contents"]]


def offering(returned: Any, mime_type: str | None = None) -> Server:
    """A server whose only resource, "x://a", gives that."""
    server = Server("s")
    server.resource("x://a", mime_type=mime_type)(lambda: returned)
    return server


# -- listing ------------------------------------------------------------------------------------------------------


@every_revision
def test_a_resource_is_listed_with_what_the_revision_knows(server: Server, name: str) -> None:
    expected: Any = {
        "uri": "config://app",
        "name": "config",
        "description": "d",
        "mimeType": "application/json",
        "annotations": {"audience": ["user"], "priority": 0.5},
        "size": 2,
    }
    if name in TITLES:
        expected |= {"title": "Configuration", "_meta": {"k": 1}}
        expected["annotations"]["lastModified"] = "2025-01-12T15:00:58Z"
    if name in ICONS:
        expected["icons"] = [{"src": "https://example.com/i.png"}]
    with Client(server, revision=name) as client:
        assert client.list_resources() == [expected]
        assert client.list_resources_page()["resources"] == [expected]
        # Templates are listed apart.
        note, file, days = client.list_resource_templates()
        assert client.list_resource_templates_page()["resourceTemplates"] == [note, file, days]
    assert file == {"uriTemplate": "file:///{+path}", "name": "file"}
    newer = ({"title", "_meta"} if name in TITLES else set()) | ({"icons"} if name in ICONS else set())
    assert set(note) == {"uriTemplate", "name"} | newer


# -- reading ------------------------------------------------------------------------------------------------------


@every_revision
def test_text_and_bytes_and_several_contents_are_read(server: Server, name: str) -> None:
    with Client(server, revision=name) as client:
        text = client.read_resource("config://app")["contents"]
        several = client.read_resource("file:///a/b")["contents"]
    assert text == [{"uri": "config://app", "mimeType": "application/json", "text": "{}"}]
    assert several[0] == {"uri": "file:///a/b", "text": f"a/b {name}"}
    assert several[1] == {"uri": "file:///a/b", "blob": "AP8="}
    assert contents_bytes(several[1]) == b"\x00\xff"
    assert ("_meta" in several[2]) == (name in TITLES)


@every_revision
@pytest.mark.parametrize("uri", ["notes://lost", "nowhere://a", "no uri at all", "", "days://a/monday"])
def test_what_is_not_there_has_the_code_of_the_revision_and_is_named(server: Server, name: str, uri: str) -> None:
    with Client(server, revision=name) as client:
        with pytest.raises(ErrorResponse, match="Resource not found") as refused:
            client.read_resource(uri)
    assert (refused.value.code, refused.value.data) == (find_revision(name).resource_not_found, {"uri": uri})


@every_revision
def test_no_uri_climbs_out_of_its_folder(server: Server, name: str) -> None:
    with Client(server, revision=name) as client:
        for path in ("../etc/passwd", "a/../../etc/passwd", "%2e%2e/etc", "a/..%2f..%2fetc", "/etc/passwd"):
            with pytest.raises(ErrorResponse) as refused:
                client.read_resource(f"file:///{path}")
            assert refused.value.code == find_revision(name).resource_not_found
        assert client.read_resource("file:///etc/passwd..")["contents"]


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, "resources/read") for name in REVISIONS]
    + [(name, method) for name in OLDER for method in ("resources/subscribe", "resources/unsubscribe")],
)
def test_a_uri_that_is_missing_or_no_string_is_32602_naming_the_path(server: Server, name: str, method: str) -> None:
    with open_server(server, name) as wire:
        for number, params in enumerate(({}, {"uri": 1}, {"uri": None})):
            error = wire.request(number, method, params)["error"]
            assert (error["code"], error["data"]) == (-32602, {"path": "params.uri"})


@pytest.mark.parametrize(
    ("returned", "contents"),
    [
        (bytearray(b"\x00"), [{"blob": "AA=="}]),
        ({"text": "t", "_meta": {"k": 1}}, [{"text": "t", "_meta": {"k": 1}}]),
        ({"blob": b"\x00"}, [{"blob": "AA=="}]),
        ({"blob": "AA=="}, [{"blob": "AA=="}]),
        (["a", b"\x00", {"text": "b"}], [{"text": "a"}, {"blob": "AA=="}, {"text": "b"}]),
        ([], []),
    ],
)
def test_what_a_handler_returns_becomes_contents(returned: Any, contents: list[Any]) -> None:
    expected = [{"uri": "x://a", "mimeType": "m/n", **each} for each in contents]
    assert read(offering(returned, "m/n"), "x://a") == expected
    # A handler can also return the whole result.
    whole = {"contents": returned if isinstance(returned, list) else [returned], "_meta": {"k": 1}}
    with Client(offering(whole, "m/n"), revision=LATEST) as client:
        assert client.read_resource("x://a") == {"contents": expected, "_meta": {"k": 1}}


def test_contents_keep_their_own_uri_and_mime_type_and_none_is_made_up() -> None:
    part = {"uri": "x://a/1", "mimeType": "a/b", "text": ""}
    assert read(offering([part, "2"]), "x://a") == [part, {"uri": "x://a", "text": "2"}]


@pytest.mark.parametrize(
    "returned", [object(), {1: 2}, {"text": "a", "blob": "AA=="}, {"blob": "not base64"}, [float("nan")]]
)
def test_a_handler_that_returns_something_else_is_wrong(returned: Any) -> None:
    with pytest.raises(ErrorResponse) as failed:
        read(offering(returned), "x://a")
    assert (failed.value.code, failed.value.message) == (-32603, "Internal error")


def test_a_uri_of_its_own_comes_before_templates_and_these_in_order_of_registration() -> None:
    server = Server("s")
    server.resource("x://{any}")(lambda any: f"first {any}")
    server.resource("x://{other}/")(lambda other: f"second {other}")
    server.resource("x://{+rest}")(lambda rest: f"third {rest}")
    server.resource("x://a")(lambda: "fixed")
    texts = [each["text"] for each in read(server, "x://a", "x://b", "x://b/", "x://b/c")]
    assert texts == ["fixed", "first b", "second b", "third b/c"]


def test_the_values_of_a_uri_are_decoded_and_converted(server: Server) -> None:
    texts = [each["text"] for each in read(server, "days://S%C3%A3o/1", "days://a/1?unit=F")]
    assert texts == ["São 2 C", "a 2 F"]


def test_a_value_error_of_a_handler_is_not_taken_for_a_uri_that_is_not_there(server: Server) -> None:
    @server.resource("x://{v}")
    def handler(v: str) -> str:
        raise ValueError("mine")

    with pytest.raises(ErrorResponse, match="Internal error"):
        read(server, "x://b")


def test_contents_are_decoded_strictly() -> None:
    assert contents_bytes({"uri": "x://a", "text": "ü"}) == b"\xc3\xbc"
    for blob in ("AP8", "A P8=", "AP8=!", "ü"):
        with pytest.raises(RemoteProtocolError, match="x://a"):
            contents_bytes({"uri": "x://a", "blob": blob})


# -- changes ------------------------------------------------------------------------------------------------------


@every_session
def test_who_subscribed_is_told_of_the_resource_and_of_what_is_below_it(server: Server, name: str) -> None:
    heard: Heard = SimpleQueue()
    on_change: Callable[[str, Any], None] = lambda method, params: heard.put((method, params))  # noqa: E731
    with Client(server, revision=name, on_change=on_change) as client:
        client.subscribe_resource("file:///project")
        for uri in ("file:///project", "file:///projects", "config://app", "file:///project/src/main.rs"):
            server.resource_updated(uri)
        assert heard.get(timeout=PATIENCE) == ("notifications/resources/updated", {"uri": "file:///project"})
        assert heard.get(timeout=PATIENCE)[1] == {"uri": "file:///project/src/main.rs"}
        client.unsubscribe_resource("file:///project")
        server.resource_updated("file:///project")
        client.subscribe_resource("config://app")
        server.resource_updated("config://app")
        assert heard.get(timeout=PATIENCE)[1] == {"uri": "config://app"}
        with pytest.raises(ErrorResponse) as refused:
            client.subscribe_resource("nowhere://a")
        assert refused.value.code == -32002
        client.unsubscribe_resource("nowhere://a")
    assert heard.empty()


@pytest.mark.parametrize(
    ("subscribed", "updated", "told"),
    [
        ("x://a/b", "x://a/b", True), ("x://a/b", "x://a/b/c", True), ("x://a/b/", "x://a/b/c", True),
        ("file:///", "file:///a", True), ("x://a/b", "x://a/bc", False), ("x://a/b", "x://a", False),
        ("x://a/b/", "x://a/b", False), ("x://a?q=b", "x://a?q=b/c", False), ("x://a#b", "x://a#b/c", False),
    ],
)  # fmt: skip
def test_a_subscription_covers_the_resource_and_what_is_below_it(subscribed: str, updated: str, told: bool) -> None:
    assert covers(subscribed, updated) is told


@pytest.mark.parametrize(
    ("bound", "size", "message"),
    [("MAX_SUBSCRIPTIONS", 2, "Too many subscriptions: a session has at most 2"),
     ("MAX_SUBSCRIBED", 20, "with 20 characters")],
)  # fmt: skip
def test_a_session_has_so_many_subscriptions_and_no_more(
    server: Server, monkeypatch: pytest.MonkeyPatch, bound: str, size: int, message: str
) -> None:
    monkeypatch.setattr(resources_page, bound, size)
    with Client(server, revision=SESSION_REVISIONS) as client:
        for name in ("a", "b", "a"):
            client.subscribe_resource(f"notes://{name}")
        with pytest.raises(ErrorResponse, match=message) as refused:
            client.subscribe_resource("notes://c")
        assert (refused.value.code, refused.value.data) == (-32602, {"uri": "notes://c"})
        client.unsubscribe_resource("notes://a")
        client.subscribe_resource("notes://c")


# -- registering --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["", "a", "/a/b", "no spaces://a b", "1x://a", "x://ü", "x://%zz", "x://a\\b"])
def test_a_malformed_uri_is_refused_at_registration(server: Server, uri: str) -> None:
    with pytest.raises(ValueError, match="URI"):
        server.resource(uri)(lambda: "")


@pytest.mark.parametrize("uri", ["{scheme}://a", "a/{b}", "x://{a", "x://{a}{b}", "x://}"])
def test_a_template_that_cannot_be_matched_is_refused_at_registration(server: Server, uri: str) -> None:
    with pytest.raises(ValueError, match="URI template"):
        server.resource(uri)(lambda a, b: "")


def test_variables_and_parameters_must_be_the_same(server: Server) -> None:
    refusals: list[tuple[str, Any, str]] = [
        ("x://{a}/{b}", lambda a, c: "", r"variables \(a, b\), but its handler has the parameters \(a, c\)"),
        ("x://a", lambda a="": "", "variables"),
        ("x://{a}", lambda **rest: "", "variables"),
        ("x://a{?q}", lambda q: "", "'q' out, so the parameter needs a default"),
    ]
    for uri, function, why in refusals:
        with pytest.raises(TypeError, match=why):
            server.resource(uri)(function)
    with pytest.raises(TypeError, match="no size"):
        server.resource("x://{a}", size=3)(lambda a: "")


# -- the rows -----------------------------------------------------------------------------------------------------


def test_caching_hints_are_required_in_the_stateless_era_and_their_absence_is_borne() -> None:
    last = REVISIONS["2026-07-28"]
    assert json_schema(ReadResourceResult, last)["required"] == ["cacheScope", "contents", "resultType", "ttlMs"]
    check = checker(ReadResourceResult, last)
    for hints in ({}, {"ttlMs": -1}, {"ttlMs": 5, "cacheScope": "public"}):
        check({"contents": [], "resultType": "complete", **hints})
    for hints in ({"ttlMs": "5"}, {"ttlMs": 0.5}, {"cacheScope": "shared"}):
        with pytest.raises(SchemaMismatch, match=next(iter(hints))):
            check({"contents": [], **hints})
    checker(ReadResourceResult, REVISIONS[LATEST])({"contents": [], "ttlMs": "of no meaning there"})
