"""The extension for user interfaces, in a server and a client: documents, tools that name them, who may call what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, RemoteProtocolError, Server
from mcp_ref.pages.extensions.apps import APPS, MAX_HTML, MIME_TYPE, NAME, Apps, document, is_for, is_origin, policy
from mcp_ref.revisions import REVISIONS
from tests.support.wire import opened

HTML = "<!doctype html><title>Weather</title>"
URI = "ui://weather/now"
CSP: Any = {"connectDomains": ["https://api.example.com"], "resourceDomains": ["https://*.example.com:8443"]}


def weather(**about: Any) -> tuple[Server, Apps]:
    apps = Apps()
    server = Server("weather", extensions=[apps])

    @server.tool(ui=URI, **about)
    def now(ctx: Context) -> str:
        return f"rain, {'shown' if ctx.renders_apps else 'told'}"

    return server, apps


# -- a server


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("declared", [True, False])
def test_a_handler_knows_whether_its_client_shows_documents_and_gives_text_to_both(
    revision: str, declared: bool
) -> None:
    server, apps = weather()
    apps.html(URI, HTML)
    with Client(server, revision=revision, extensions=[APPS] if declared else None) as client:
        told = client.call_tool("now")["content"]
        assert told == [{"type": "text", "text": f"rain, {'shown' if declared else 'told'}"}]
        assert client.capabilities.get("extensions") == ({NAME: {"mimeTypes": [MIME_TYPE]}} if declared else None)


@pytest.mark.parametrize(
    "extensions",
    [*({NAME: each} for each in ({"mimeTypes": ["text/uri-list"]}, {"mimeTypes": MIME_TYPE}, {}, [], None)), [], "x"],
)
def test_a_client_that_declares_something_else_does_not_show_documents(extensions: Any) -> None:
    server, apps = weather()
    apps.html(URI, HTML)
    with opened(server, "2025-11-25", {"extensions": extensions}) as wire:
        wire.call(2, "now")
        assert wire.receive()["result"]["content"][0]["text"] == "rain, told"


def test_another_extension_is_not_declared_in_the_session_era() -> None:
    with Client(Server("s"), revision="2025-11-25", extensions={"com.example/audit": {}}) as client:
        assert client.capabilities == {}


def test_a_tool_names_its_document_and_who_may_call_it() -> None:
    server, apps = weather(visibility=["app"], meta={"com.example/x": 1})
    apps.html(URI, HTML)
    ui = {"resourceUri": URI, "visibility": ["app"]}
    with Client(server) as client:
        assert client.list_tools()[0]["_meta"] == {"com.example/x": 1, "ui": ui}
    wrong: Any
    for wrong in ({"ui": "https://example.com"}, {"visibility": []}, {"visibility": "app"}, {"visibility": ["user"]}):
        with pytest.raises(ValueError, match="tool 't'"):
            server.tool("t", **wrong)(lambda: "x")


def test_a_document_needs_the_extension() -> None:
    with pytest.raises(ValueError, match=r"tool 't' .* extensions=\[Apps\(\)\]"):
        Server("s").tool("t", ui=URI)(lambda: "x")
    server = Server("s")

    @server.tool()
    def asks(ctx: Context) -> bool:
        return ctx.renders_apps

    with Client(server) as client:
        failed = client.call_tool("asks")
    assert failed["isError"] and "did not declare the extension" in str(failed["content"])


def test_a_server_does_not_start_while_a_document_is_missing() -> None:
    server, apps = weather()
    with pytest.raises(ValueError, match=r"tool 'now' names ui://weather/now, which is not there"):
        Client(server).connect()
    with pytest.raises(ValueError, match="tool 'now'"):
        server.serve_http()
    apps.html(URI, HTML)
    with Client(server) as client:
        assert client.read_resource(URI)["contents"]


@pytest.mark.parametrize("form", ["text", "file", "function", "function of the context"])
def test_a_document_is_read_with_its_type_and_what_it_needs(form: str, tmp_path: Path) -> None:
    file = tmp_path / "now.html"
    file.write_text(HTML)
    sources: dict[str, Any] = {
        "text": HTML,
        "file": file,
        "function": lambda: HTML,
        "function of the context": lambda ctx: f"{HTML}{ctx.revision}",
    }
    server, apps = weather()
    about: Any = {"csp": CSP, "permissions": ["camera"], "prefers_border": False, "domain": "x.example.com"}
    apps.html(URI, sources[form], name="Now", description="The weather.", **about)
    listed = {"uri": URI, "name": "Now", "mimeType": MIME_TYPE, "description": "The weather."}
    about = {"csp": CSP, "permissions": {"camera": {}}, "prefersBorder": False, "domain": "x.example.com"}
    text = HTML + ("2026-07-28" if "context" in form else "")
    with Client(server) as client:
        assert client.list_resources() == [listed]
        [contents] = client.read_resource(URI)["contents"]
        assert contents == {"uri": URI, "mimeType": MIME_TYPE, "text": text, "_meta": {"ui": about}}
        if form == "file":
            file.write_text(HTML + "again")
            [contents] = client.read_resource(URI, cached=False)["contents"]
            assert contents["text"] == HTML + "again"  # type: ignore[typeddict-item]
            file.write_text("no document")
            with pytest.raises(ErrorResponse):
                client.read_resource(URI, cached=False)


def test_a_document_may_stay_out_of_the_list() -> None:
    server, apps = weather()
    apps.html(URI, HTML, listed=False)
    apps.html("ui://weather/listed", HTML)
    with Client(server) as client:
        assert [each["name"] for each in client.list_resources()] == ["weather/listed"]
        assert client.read_resource(URI)["contents"]


def test_a_document_takes_the_place_of_the_one_before_in_every_server() -> None:
    apps = Apps()
    apps.html(URI, HTML)
    one, two = Server("one", extensions=[apps]), Server("two", extensions=[apps])
    apps.html(URI, HTML + "new")
    for server in (one, two):
        with Client(server) as client:
            assert client.read_resource(URI)["contents"][0]["text"] == HTML + "new"  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        *(({"uri": uri}, "begin with ui://") for uri in ("http://weather/now", "ui://", "ui://a b", "ui://{city}")),
        *(({"source": source}, "<!doctype html>") for source in ("<p>hello", "<!doctype htmlx>")),
        ({"permissions": ["cameras"]}, "a permission is one of"),
        ({"csp": {"connect": ["https://a.example"]}}, "csp has lists"),
        ({"csp": {"connectDomains": "https://a.example"}}, "csp has lists"),
        ({"csp": {"connectDomains": ["a.example"]}}, "an origin is as"),
    ],
)
def test_what_is_no_document_is_refused_where_it_is_offered(wrong: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Apps().html(**{"uri": URI, "source": HTML, **wrong})
    with pytest.raises(OSError, match="nowhere"):
        Apps().html(URI, Path("nowhere.html"))


# -- what a host makes of it


DEFAULT = {
    "default-src": "'none'", "script-src": "'self' 'unsafe-inline'", "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data:", "font-src": "'self'", "media-src": "'self' data:", "connect-src": "'none'",
    "frame-src": "'none'", "base-uri": "'self'", "object-src": "'none'", "form-action": "'none'",
}  # fmt: skip


def parts(text: str) -> dict[str, str]:
    return dict(each.split(" ", 1) for each in text.split("; "))


@pytest.mark.parametrize(
    ("key", "changed"),
    [("connectDomains", ["connect-src"]), ("frameDomains", ["frame-src"]), ("baseUriDomains", ["base-uri"]),
     ("resourceDomains", ["script-src", "style-src", "img-src", "font-src", "media-src"])],
)  # fmt: skip
def test_an_origin_opens_what_it_was_declared_for_and_nothing_else(key: str, changed: list[str]) -> None:
    assert parts(policy({})) == DEFAULT
    made: Any = parts(policy({key: ["https://a.example", "https://b.example"]}))  # type: ignore[misc]
    assert [name for name in DEFAULT if made[name] != DEFAULT[name]] == changed
    for name in changed:
        assert made[name].endswith("https://a.example https://b.example") and "'none'" not in made[name]


@pytest.mark.parametrize(
    "wrong",
    [
        "*", "https://*", "https:", "data:", "'unsafe-eval'", "https://a.example;script-src *", "https://a.example b",
        "https://a.example\n", "https://a.example/path", "https://a.example,https://b.example", "", None, 1,
        "javascript://x", "https://*.*.example", "https://a..example",
    ],
)  # fmt: skip
def test_an_origin_is_a_scheme_a_host_and_perhaps_a_port_and_nothing_else_is(wrong: Any) -> None:
    assert not is_origin(wrong)
    assert all(map(is_origin, ("https://a.example", "http://localhost:3000", "wss://x", "https://*.a.example/")))


def read(**changed: Any) -> Any:
    return document(URI, [{"uri": URI, "mimeType": MIME_TYPE, "text": HTML, **changed}])


def test_what_is_declared_and_is_no_origin_is_left_out_of_the_policy() -> None:
    found = read(_meta={"ui": {"csp": {"connectDomains": ["https://a.example", "https://a.example; script-src *"]}}})
    assert parts(found.policy)["connect-src"] == "https://a.example"
    assert found.left_out == ["https://a.example; script-src *"]


def test_a_document_comes_as_text_or_as_a_blob() -> None:
    assert read().html == HTML
    blob = {"uri": URI, "mimeType": MIME_TYPE, "blob": "PCFkb2N0eXBlIGh0bWw+"}
    assert document(URI, [blob]).html == "<!doctype html>"


@pytest.mark.parametrize(
    "wrong",
    [
        {"mimeType": "text/html"}, {"uri": "ui://other"}, {"text": None}, {"text": "x" * (MAX_HTML + 1)},
        {"text": None, "blob": "?"}, {"text": None, "blob": "/w=="}, {"_meta": {"ui": {"csp": []}}},
        {"_meta": {"ui": {"csp": {"connectDomains": [1]}}}}, {"_meta": {"ui": 1}},
    ],
)  # fmt: skip
def test_what_is_no_document_is_not_shown(wrong: Any) -> None:
    with pytest.raises(RemoteProtocolError, match=r"ui://weather/now|ui://other"):
        read(**wrong)
    with pytest.raises(RemoteProtocolError):
        document(URI, [])


@pytest.mark.parametrize(
    ("about", "model", "app"),
    [
        (None, True, True), ({}, True, True), ({"resourceUri": URI}, True, True),
        ({"visibility": ["model"]}, True, False),
        ({"visibility": ["app"]}, False, True), ({"visibility": ["model", "app"]}, True, True),
        ({"visibility": "app"}, True, False), ({"visibility": ["x"]}, True, False), ("x", True, True),
    ],
)  # fmt: skip
def test_a_tool_is_for_both_unless_it_says_otherwise(about: Any, model: bool, app: bool) -> None:
    definition: Any = {"name": "t"} if about is None else {"name": "t", "_meta": {"ui": about}}
    assert (is_for(definition, "model"), is_for(definition, "app")) == (model, app)
