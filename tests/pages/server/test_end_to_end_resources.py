"""server/resources, from a Client to a Server and back, in every revision."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, Server
from mcp_ref.pages.server import resources as resources_page
from mcp_ref.pages.server.resources import ResourceNotFound, contents_bytes
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, find_revision
from tests.eras import open_server
from tests.support.wire import PATIENCE

NAMES = list(REVISIONS)
OLDER = [row.name for row in SESSION_REVISIONS]
TITLES = {"2025-06-18", "2025-11-25", "2026-07-28"}
ICONS = {"2025-11-25", "2026-07-28"}

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

    return server


def hears(heard: Heard) -> Callable[[str, Any], None]:
    return lambda method, params: heard.put((method, params))


# -- listing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("name", NAMES)
def test_templates_are_listed_apart_with_what_the_revision_knows(server: Server, name: str) -> None:
    with Client(server, revision=name) as client:
        note, file = client.list_resource_templates()
        assert client.list_resource_templates_page()["resourceTemplates"] == [note, file]
    assert file == {"uriTemplate": "file:///{+path}", "name": "file"}
    newer = ({"title", "_meta"} if name in TITLES else set()) | ({"icons"} if name in ICONS else set())
    assert set(note) == {"uriTemplate", "name"} | newer


# -- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_text_and_bytes_and_several_contents_are_read(server: Server, name: str) -> None:
    with Client(server, revision=name) as client:
        text = client.read_resource("config://app")["contents"]
        several = client.read_resource("file:///a/b")["contents"]
    assert text == [{"uri": "config://app", "mimeType": "application/json", "text": "{}"}]
    assert several[0] == {"uri": "file:///a/b", "text": f"a/b {name}"}
    assert several[1] == {"uri": "file:///a/b", "blob": "AP8="}
    assert contents_bytes(several[1]) == b"\x00\xff"
    assert ("_meta" in several[2]) == (name in TITLES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("uri", ["notes://lost", "nowhere://a", "no uri at all", ""])
def test_what_is_not_there_has_the_code_of_the_revision_and_is_named(server: Server, name: str, uri: str) -> None:
    with Client(server, revision=name) as client:
        with pytest.raises(ErrorResponse, match="Resource not found") as refused:
            client.read_resource(uri)
    assert (refused.value.code, refused.value.data) == (find_revision(name).resource_not_found, {"uri": uri})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "path", ["../etc/passwd", "a/../../etc/passwd", "%2e%2e/etc", "a/..%2f..%2fetc", "/etc/passwd"]
)
def test_no_uri_climbs_out_of_its_folder(server: Server, name: str, path: str) -> None:
    with Client(server, revision=name) as client:
        with pytest.raises(ErrorResponse) as refused:
            client.read_resource(f"file:///{path}")
        assert refused.value.code == find_revision(name).resource_not_found
        assert client.read_resource("file:///etc/passwd..")["contents"]


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, "resources/read") for name in NAMES]
    + [(name, method) for name in OLDER for method in ("resources/subscribe", "resources/unsubscribe")],
)
def test_a_uri_that_is_missing_or_no_string_is_32602_naming_the_path(server: Server, name: str, method: str) -> None:
    with open_server(server, name) as wire:
        for number, params in enumerate(({}, {"uri": 1}, {"uri": None})):
            error = wire.request(number, method, params)["error"]
            assert (error["code"], error["data"]) == (-32602, {"path": "params.uri"})


# -- changes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OLDER)
def test_who_subscribed_is_told_of_the_resource_and_of_what_is_below_it(server: Server, name: str) -> None:
    heard: Heard = SimpleQueue()
    with Client(server, revision=name, on_change=hears(heard)) as client:
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
    assert heard.empty()


@pytest.mark.parametrize("name", OLDER)
def test_subscribing_to_what_is_not_there_is_32002(server: Server, name: str) -> None:
    with Client(server, revision=name) as client:
        with pytest.raises(ErrorResponse) as refused:
            client.subscribe_resource("nowhere://a")
        assert refused.value.code == -32002
        client.unsubscribe_resource("nowhere://a")


def test_a_session_has_so_many_subscriptions_and_no_more(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources_page, "MAX_SUBSCRIPTIONS", 2)
    with Client(server, revision=SESSION_REVISIONS) as client:
        for name in ("a", "b", "a"):
            client.subscribe_resource(f"notes://{name}")
        with pytest.raises(ErrorResponse, match="Too many subscriptions: a session has at most 2") as refused:
            client.subscribe_resource("notes://c")
        assert (refused.value.code, refused.value.data) == (-32602, {"uri": "notes://c"})
        client.unsubscribe_resource("notes://a")
        client.subscribe_resource("notes://c")


def test_the_uris_that_a_session_is_subscribed_to_have_so_many_characters(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources_page, "MAX_SUBSCRIBED", 20)
    with Client(server, revision=SESSION_REVISIONS) as client:
        for name in ("a", "b", "a"):
            client.subscribe_resource(f"notes://{name}")
        with pytest.raises(ErrorResponse, match="with 20 characters"):
            client.subscribe_resource("notes://c")
