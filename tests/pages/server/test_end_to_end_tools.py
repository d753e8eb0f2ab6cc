"""server/tools from end to end: the real client and the real server, in every revision of both eras."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse, RemoteProtocolError, Server
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, find_revision
from mcp_ref.wire.content import text
from tests.eras import open_client, open_server, plain
from tests.support.wire import Background, Wire, opened

JsonObject = dict[str, Any]

NAMES = list(REVISIONS)
OLDER = [row.name for row in SESSION_REVISIONS]
STRUCTURED = [row.name for row in REVISIONS.values() if row.structured_content != "none"]
UNSTRUCTURED = [row.name for row in REVISIONS.values() if row.structured_content == "none"]

every_revision = pytest.mark.parametrize("name", NAMES)


@dataclass
class Weather:
    city: str
    degrees: float


def serving(function: Callable[..., Any], **options: Any) -> Server:
    """A server whose only tool, "t", is that function."""
    server = Server("s")
    server.tool("t", **options)(function)
    return server


def result_of(name: str, function: Callable[..., Any], **options: Any) -> Any:
    """Return what a client of that revision gets when it calls the function as a tool."""
    with Client(serving(function, **options), revision=name) as client:
        return plain(client.call_tool("t"))


# -- declaring and listing ------------------------------------------------------------------------------------------


COMPLETE: JsonObject = {
    "title": "The weather",
    "description": "What the sky is doing.",
    "annotations": {"title": "Weather", "readOnlyHint": True, "openWorldHint": False},
    "icons": [{"src": "https://example.com/sun.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    "meta": {"example.com/kind": "sky"},
}

SHOWN = {
    "2024-11-05": {"name", "description", "inputSchema"},
    "2025-03-26": {"name", "description", "inputSchema", "annotations"},
    "2025-06-18": {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta"},
}
SHOWN |= dict.fromkeys(("2025-11-25", "2026-07-28"), SHOWN["2025-06-18"] | {"icons"})


@every_revision
def test_a_definition_has_what_the_revision_knows_and_nothing_newer(name: str) -> None:
    server = Server("s")

    @server.tool(**COMPLETE)
    def weather(city: str) -> Weather:
        return Weather(city, 20)

    with Client(server, revision=name) as client:
        (tool,) = client.list_tools()
    assert tool.keys() == SHOWN[name]
    everything = {**COMPLETE, "_meta": COMPLETE["meta"], "name": "weather"}
    for key in tool.keys() - {"inputSchema", "outputSchema"}:
        assert tool[key] == everything[key]  # type: ignore[literal-required]
    assert tool["inputSchema"]["required"] == ["city"]


BY_HAND: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://example.com/order",
    "title": "An order",
    "type": "object",
    "properties": {
        "items": {"type": "array", "prefixItems": [{"$ref": "#/$defs/item"}], "unevaluatedItems": False},
        "note": {"$ref": "#note"},
        "card": {"type": "string"},
        "address": {"type": "string", "x-unknown": [1, None]},
    },
    "$defs": {"item": {"type": "string", "minLength": 1}, "note": {"$anchor": "note", "type": ["string", "null"]}},
    "dependentRequired": {"card": ["address"]},
    "if": {"required": ["note"]},
    "then": {"minProperties": 2},
    "unevaluatedProperties": False,
}


@every_revision
def test_schemas_by_hand_are_shown_word_for_word_and_applied_as_their_dialect_says(name: str) -> None:
    server = serving(lambda arguments: arguments, input_schema=BY_HAND, output_schema=BY_HAND)
    with Client(server, revision=name) as client:
        (tool,) = client.list_tools()
        assert tool["inputSchema"] == BY_HAND
        assert tool.get("outputSchema") == (BY_HAND if name in STRUCTURED else None)
        good = {"items": ["a"], "note": None}
        assert client.call_tool("t", good).get("structuredContent") == (good if name in STRUCTURED else None)
        for wrong in ({"items": ["a", "b"]}, {"card": "1"}, {"note": "n"}, {"other": 1}, {"items": [""]}):
            assert "arguments" in refused(client, wrong)


def refused(client: Client, arguments: JsonObject) -> str:
    """Call the tool with what it cannot take, and return what is said about it."""
    try:
        result = client.call_tool("t", arguments)
    except ErrorResponse as error:
        assert error.code == -32602
        return error.message
    assert result["isError"] is True
    return str(result["content"][0]["text"])  # type: ignore[typeddict-item]


# -- arguments and errors -------------------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize("arguments", [{}, {"days": 1, "city": "x", "more": 1}, {"days": "1", "city": "x"}])
def test_bad_arguments_are_a_protocol_error_up_to_2025_06_18_and_a_result_since(name: str, arguments: Any) -> None:
    called: list[Any] = []

    def forecast(city: str, days: int) -> str:
        called.append(city)
        return city

    with Client(serving(forecast), revision=name) as client:
        if find_revision(name).tool_input_errors_are_results:
            assert client.call_tool("t", arguments)["isError"] is True
        else:
            with pytest.raises(ErrorResponse) as caught:
                client.call_tool("t", arguments)
            assert caught.value.code == -32602
    assert not called


@every_revision
@pytest.mark.parametrize(
    "params",
    [{}, {"name": 1}, {"name": "t", "arguments": []}, {"name": "t", "arguments": None}, {"name": "t", "_meta": 1}],
)
def test_a_malformed_call_is_a_protocol_error_in_every_revision(name: str, params: Any) -> None:
    with open_server(serving(lambda: "x"), name) as wire:
        assert wire.request(1, "tools/call", params)["error"]["code"] == -32602


@every_revision
def test_a_tool_that_breaks_says_so_without_its_traceback(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def breaks() -> str:
        return str(1 / 0)

    result = result_of(name, breaks)
    assert result["isError"] is True
    assert result["content"] == [text("Error executing tool t: division by zero")]
    assert "Traceback" in caplog.text


@every_revision
def test_a_wish_to_run_as_a_task_is_ignored(name: str) -> None:
    server = serving(lambda: "at once")
    with open_server(server, name) as wire:
        answer = wire.request(1, "tools/call", {"name": "t", "task": {"ttl": 1000}})
        assert plain(answer["result"]) == {"content": [text("at once")]}
    with Client(server, revision=name) as client:
        result = client.request("tools/call", {"name": "t", "task": {"ttl": 1}})
        assert plain(result) == {"content": [text("at once")]}
        assert "execution" not in client.list_tools()[0]


# -- content --------------------------------------------------------------------------------------------------------

EMBEDDED_TEXT = {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "a"}}
LINK = {"type": "resource_link", "uri": "file:///c", "name": "c", "mimeType": "text/plain"}


@every_revision
def test_hints_and_meta_of_content_are_those_of_the_revision(name: str) -> None:
    hints = {"audience": ["user"], "priority": 1, "lastModified": "2025-01-12T15:00:58Z"}
    block = {"type": "text", "text": "a", "annotations": hints, "_meta": {"example.com/k": 1}}
    link = {**LINK, "icons": [{"src": "https://example.com/i.png"}]}
    first, second = result_of(name, lambda: [block, link])["content"]
    assert ("_meta" in first) == (name in STRUCTURED)
    assert ("lastModified" in first["annotations"]) == (name in STRUCTURED)
    assert first["annotations"]["audience"] == ["user"]
    assert ("icons" in second) == ("icons" in SHOWN[name])


@every_revision
def test_a_server_that_embeds_resources_can_declare_them(name: str) -> None:
    server = Server("s", declare=["resources"])
    server.tool("t")(lambda: EMBEDDED_TEXT)
    with Client(server, revision=name) as client:
        assert "resources" in client.server_capabilities
        assert client.call_tool("t")["content"] == [EMBEDDED_TEXT]


# -- structured results ---------------------------------------------------------------------------------------------


def numbers() -> list[int]:
    return [1, 2]


def number() -> float:
    return 0.5


def truth() -> bool:
    return True


@every_revision
@pytest.mark.parametrize(("function", "expected"), [(numbers, "[1, 2]"), (number, "0.5"), (truth, "true")])
def test_lists_and_scalars_are_text_alone_and_their_schema_is_not_shown_before_2026_07_28(
    name: str, function: Callable[..., Any], expected: str
) -> None:
    anything = find_revision(name).structured_content == "any"
    with Client(serving(function), revision=name) as client:
        assert ("outputSchema" in client.list_tools()[0]) == anything
        structured = {"structuredContent": function()} if anything else {}
        assert plain(client.call_tool("t")) == {"content": [text(expected)], **structured}


@every_revision
def test_output_that_does_not_fit_is_never_sent(name: str, caplog: pytest.LogCaptureFixture) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    result = result_of(name, lambda: {"n": "one"}, output_schema=schema)
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert "outputSchema" in result["content"][0]["text"]
    assert "tool t" in caplog.text


OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def described(**more: Any) -> JsonObject:
    return {"name": "t", "inputSchema": {"type": "object"}, **more}


def answer(wire: Wire, method: str, result: JsonObject) -> None:
    """Take the next message, which must be that request, and answer it."""
    asked = wire.receive()
    assert asked["method"] == method
    wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})


@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize("result", [{"content": [], "structuredContent": {"n": "one"}}, {"content": []}])
def test_a_result_that_does_not_fit_is_refused_on_receipt(name: str, result: JsonObject) -> None:
    with open_client(name, {"tools": {}}) as (client, wire):
        listed = Background(client.list_tools)
        answer(wire, "tools/list", {"tools": [described(outputSchema=OBJECT)]})
        listed.outcome()
        called = Background(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        assert isinstance(called.outcome(), RemoteProtocolError)
        failed = Background(lambda: client.call_tool("t"))
        answer(wire, "tools/call", {"content": [], "isError": True})
        assert failed.outcome() == {"content": [], "isError": True}, "a failed call promises nothing"


@pytest.mark.parametrize("name", UNSTRUCTURED)
def test_where_structure_does_not_exist_nothing_is_checked_and_nothing_listed(name: str) -> None:
    with open_client(name, {"tools": {}}) as (client, wire):
        called = Background(lambda: client.call_tool("t"))
        answer(wire, "tools/call", {"content": [], "structuredContent": {"n": "one"}})
        assert called.outcome()["structuredContent"] == {"n": "one"}
        client.notify("notifications/x")
        assert wire.receive()["method"] == "notifications/x", "no tools/list was sent"


@every_revision
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": "text"},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "image", "data": 1, "mimeType": "image/png"}]},
        {"content": [], "isError": "yes"},
    ],
)
def test_a_malformed_result_is_refused_on_receipt(name: str, result: JsonObject) -> None:
    with open_client(name, {"tools": {}}) as (client, wire):
        called = Background(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        assert isinstance(called.outcome(), RemoteProtocolError)


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_definition_is_learnt_by_at_most_one_listing_until_the_list_changes(name: str) -> None:
    result = {"content": [], "structuredContent": {"n": 1}}
    with open_client(name, {"tools": {"listChanged": True}}) as (client, wire):
        first = Background(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        answer(wire, "tools/list", {"tools": [described(outputSchema=OBJECT)]})
        assert first.outcome() == result
        second = Background(lambda: client.call_tool("t"))
        answer(wire, "tools/call", {**result, "structuredContent": {}})
        assert isinstance(second.outcome(), RemoteProtocolError), "checked without listing again"
        wire.notify("notifications/tools/list_changed")
        third = Background(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        answer(wire, "tools/list", {"tools": [described()]})
        assert third.outcome() == result


# -- references -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_reference_to_the_network_in_a_strangers_schema_is_never_fetched(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{stranger.getsockname()[1]}/schema.json"
    schema = {"type": "object", "properties": {"n": {"$ref": url}}}
    result = {"content": [], "structuredContent": {"n": 1}}
    with stranger, open_client(name, {"tools": {}}) as (client, wire):
        listed = Background(client.list_tools)
        answer(wire, "tools/list", {"tools": [described(outputSchema=schema)]})
        (tool,) = listed.outcome()
        assert tool["outputSchema"] == schema, "the definition is shown as it came"
        called = Background(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        assert called.outcome() == result
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    assert "results of this tool are not checked" in caplog.text


@pytest.mark.parametrize("revision", OLDER)
def test_the_result_type_of_a_later_revision_is_sent_to_nobody(revision: str) -> None:
    server = Server("s")

    @server.tool()
    def whole() -> Any:
        return {"content": [], "resultType": "complete"}

    with opened(server, revision) as wire:
        wire.call(1, "whole")
        assert wire.receive()["result"] == {"content": []}
