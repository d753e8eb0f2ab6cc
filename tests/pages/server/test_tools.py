"""server/tools, between a Client and a Server, in every revision of both eras; and each half against a peer by hand."""

from __future__ import annotations

import functools
import json
import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, RemoteProtocolError, RequestTimeout, Server, ToolError, image, text
from mcp_ref.kit.typed.json_schema import SchemaRefused
from mcp_ref.pages.server.tools import check_output
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, find_revision
from mcp_ref.wire.content import text_of
from mcp_ref.wire.messages import JsonObject
from tests.eras import MODERN, open_client, open_server, plain
from tests.pages.server import alone
from tests.support.wire import Background, Wire

NAMES = list(REVISIONS)
STRUCTURED = [row.name for row in REVISIONS.values() if row.structured_content != "none"]
UNSTRUCTURED = [row.name for row in REVISIONS.values() if row.structured_content == "none"]
LATEST = "2025-11-25"

every_revision = pytest.mark.parametrize("name", NAMES)


@dataclass
class Weather:
    city: str
    wind: float | None = None


def serving(function: Callable[..., Any], **options: Any) -> Server:
    """A server whose only tool, "t", is that function."""
    server = Server("s")
    server.tool("t", **options)(function)
    return server


def result_of(function: Callable[..., Any], arguments: Any = None, name: str = LATEST, **options: Any) -> Any:
    """Return what a client of that revision gets when it calls the function as a tool."""
    with Client(serving(function, **options), revision=name) as client:
        return plain(client.call_tool("t", arguments))


def returned(value: Any, name: str = LATEST, hint: Any = None, **options: Any) -> Any:
    """Return what a client gets of a tool that returns that value, and is annotated with that hint."""

    def f():  # type: ignore[no-untyped-def]
        return value

    f.__annotations__ = {} if hint is None else {"return": hint}
    return result_of(f, name=name, **options)


def failed(result: Any) -> str:
    assert result["isError"] is True and "structuredContent" not in result
    return str(result["content"][0]["text"])


# -- registering and listing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "follows"),
    [("getUser", True), ("DATA_EXPORT_v2", True), ("admin.tools-list", True), ("a" * 128, True), ("", False),
     ("a" * 129, False), ("a b", False), ("a,b", False), ("ä", False), ("a/b", False)],
)  # fmt: skip
def test_names_that_break_the_rule_are_logged_and_taken(
    name: str, follows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    server.tool(name)(lambda: None)
    assert list(server.registries["tools"]) == [name]
    assert [record.levelno for record in caplog.records] == ([] if follows else [logging.WARNING])
    assert follows or f"the tool name {name!r} may not work everywhere" in caplog.text


def test_names_are_unique_and_case_sensitive() -> None:
    server = serving(lambda: "t")
    with Client(server) as client:
        with pytest.raises(ErrorResponse, match="Unknown tool: T"):
            client.call_tool("T")
        server.tool("T")(lambda: "T")
        assert [text_of(client.call_tool(name)) for name in "tT"] == ["t", "T"]
    with pytest.raises(ValueError, match="tools already has"):
        server.tool("t")(lambda: None)


def test_a_decorator_without_brackets_and_a_function_without_a_name_are_refused() -> None:
    with pytest.raises(TypeError, match="brackets"):
        Server("s").tool(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no name"):
        Server("s").tool()(functools.partial(print))


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


# -- schemas written by hand ----------------------------------------------------------------------------------------

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
DAY = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}


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
    if find_revision(client.revision.name).tool_input_errors_are_results:
        return failed(client.call_tool("t", arguments))
    with pytest.raises(ErrorResponse) as error:
        client.call_tool("t", arguments)
    assert error.value.code == -32602
    return error.value.message


def test_with_a_schema_by_hand_the_arguments_can_be_taken_together() -> None:
    def together(arguments: JsonObject, ctx: Context) -> str:
        return f"{arguments} {type(ctx).__name__}"

    given = {"day": "2025-11-25", "any thing": 1}
    assert text_of(result_of(together, given, input_schema=DAY)) == f"{given} Context"
    assert text_of(result_of(lambda **arguments: f"{arguments}", given, input_schema=DAY)) == f"{given}"
    with pytest.raises(TypeError, match="'day'"):
        serving(lambda other: None, input_schema=DAY)


@pytest.mark.parametrize(
    "schema",
    [{"type": "string"}, {}, True, {"type": "object", "$schema": "urn:x"}, {"type": "object", "properties": 5},
     {"type": "object", "properties": {"a": {"$ref": "https://example.com/s"}}}],
)  # fmt: skip
def test_an_input_schema_that_cannot_be_used_is_refused_when_registering(schema: Any) -> None:
    with pytest.raises(SchemaRefused, match="the inputSchema of tool 't'"):
        serving(lambda **arguments: None, input_schema=schema)


# -- arguments and errors -------------------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize(
    "arguments",
    [{}, {"days": 1, "city": "x", "more": 1}, {"days": "1", "city": "x"}, {"days": 1, "city": "x", "ctx": {}}],
)
def test_bad_arguments_are_a_protocol_error_up_to_2025_06_18_and_a_result_since(name: str, arguments: Any) -> None:
    called: list[Any] = []

    def forecast(city: str, days: int, ctx: Context) -> str:
        called.append(ctx)
        return city

    with Client(serving(forecast), revision=name) as client:
        assert "Invalid arguments for tool t" in refused(client, arguments)
        assert not called
        assert text_of(client.call_tool("t", {"days": 1, "city": "x"})) == "x" and isinstance(called[0], Context)


@every_revision
@pytest.mark.parametrize(
    "params",
    [{}, {"name": 1}, {"name": "t", "arguments": []}, {"name": "t", "arguments": None}, {"name": "t", "_meta": 1}],
)
def test_a_malformed_call_is_a_protocol_error_in_every_revision(name: str, params: Any) -> None:
    with open_server(serving(lambda: "x"), name) as wire:
        assert wire.request(1, "tools/call", params)["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit("no database"), "SystemExit: no database"), (SystemExit(), "SystemExit"),
        (KeyError("k"), "KeyError: 'k'"), (AssertionError(), "AssertionError"), (ValueError("why"), "why"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", [LATEST, MODERN])
def test_a_tool_that_breaks_says_so_without_its_traceback(
    name: str, error: BaseException, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks() -> str:
        raise error

    assert failed(result_of(breaks, name=name)) == f"Error executing tool t: {told}"
    assert "Traceback" in caplog.text


def test_the_end_of_a_child_that_a_tool_forked_is_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def forks() -> str:
        monkeypatch.setattr(os, "getpid", lambda: 0)
        raise SystemExit(0)

    with pytest.raises(SystemExit):
        alone.call(serving(forks), "t")


def test_masked_errors_tell_the_name_of_the_tool_alone(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", mask_errors=True)

    @server.tool()
    def broken() -> str:
        raise KeyError("hunter2")

    @server.tool()
    def unfit() -> Weather:
        return {"city": ["hunter2"]}  # type: ignore[return-value]

    @server.tool()
    def honest() -> str:
        raise ToolError("the city is closed")

    with Client(server) as client:
        assert failed(client.call_tool("broken")) == "Error executing tool broken"
        assert failed(client.call_tool("unfit")) == "the tool's output does not fit its outputSchema"
        assert failed(client.call_tool("honest")) == "the city is closed"
    assert "KeyError: 'hunter2'" in caplog.text


@every_revision
def test_a_wish_to_run_as_a_task_is_ignored(name: str) -> None:
    with Client(serving(lambda: "at once"), revision=name) as client:
        result = client.request("tools/call", {"name": "t", "task": {"ttl": 1}})
        assert plain(result) == {"content": [text("at once")]}
        assert "execution" not in client.list_tools()[0]


# -- content --------------------------------------------------------------------------------------------------------

EMBEDDED_TEXT = {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "a"}}
LINK = {"type": "resource_link", "uri": "file:///c", "name": "c", "mimeType": "text/plain"}


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, []),
        ("hi", [text("hi")]),
        (text("hi"), [text("hi")]),
        (image(b"x", "image/png"), [image(b"x", "image/png")]),
        (["a", text("b")], [text("a"), text("b")]),
        ((text("b"),), [text("b")]),
        (True, [text("true")]),
        ({"type": "text", "n": 1}, [text('{"type": "text", "n": 1}')]),
        ({"ü": [1]}, [text('{"ü": [1]}')]),
        ([1, "a"], [text('[1, "a"]')]),
        (Weather("x"), [text('{"city": "x", "wind": null}')]),
        (date(2025, 11, 25), [text("2025-11-25")]),
        # What only resembles a result is data.
        ({"content": ["no block"]}, [text('{"content": ["no block"]}')]),
        ({"content": [], "more": 1}, [text('{"content": [], "more": 1}')]),
        ({"isError": True}, [text('{"isError": true}')]),
    ],
)
def test_what_a_handler_returns_becomes_content(value: Any, content: list[Any]) -> None:
    assert returned(value) == {"content": content}


def test_what_has_no_form_in_json_is_a_failed_call_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    within: list[Any] = []
    within.append(within)
    assert "cannot be written as JSON" in failed(returned(object()))
    assert "nested too deeply, cannot be written as JSON" in failed(returned(within))
    assert caplog.records


@every_revision
def test_hints_and_meta_of_content_are_those_of_the_revision(name: str) -> None:
    hints = {"audience": ["user"], "priority": 1, "lastModified": "2025-01-12T15:00:58Z"}
    block = {"type": "text", "text": "a", "annotations": hints, "_meta": {"example.com/k": 1}}
    link = {**LINK, "icons": [{"src": "https://example.com/i.png"}]}
    first, second = returned([block, link], name)["content"]
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

OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@every_revision
@pytest.mark.parametrize(
    ("hint", "value"),
    [(list[int], [1, 2]), (float, 0.5), (bool, True), (list, []), (tuple, ["{}"]), (list[Any], [text("a"), 1])],
)
def test_lists_and_scalars_are_text_alone_and_their_schema_is_not_shown_before_2026_07_28(
    name: str, hint: Any, value: Any
) -> None:
    def f():  # type: ignore[no-untyped-def]
        return value

    f.__annotations__["return"] = hint
    structured = {"structuredContent": value} if name == MODERN else {}
    with Client(serving(f), revision=name) as client:
        assert ("outputSchema" in client.list_tools()[0]) == (name == MODERN)
        assert plain(client.call_tool("t")) == {"content": [text(json.dumps(value))], **structured}


def test_blocks_in_a_list_of_whatever_are_to_be_seen() -> None:
    blocks = ["here", image(b"x", "image/png")]
    shown = {"content": [text("here"), blocks[1]]}
    assert returned(blocks, hint=list) == shown
    assert returned(blocks, MODERN, hint=list) == {**shown, "structuredContent": blocks}
    data = [{"type": "text", "text": "data"}]
    assert json.loads(text_of(returned(data, hint=list[dict[str, str]]))) == data


def test_a_whole_result_with_structured_content_alone_gets_its_text() -> None:
    assert returned({"structuredContent": {"a": 1}}) == {"content": [text('{"a": 1}')], "structuredContent": {"a": 1}}
    # What is not an object is left out where only objects are allowed.
    whole = {"content": [], "structuredContent": [1]}
    assert returned(whole) == {"content": []} and returned(whole, MODERN) == whole
    # Such a result may say that it failed, whatever the outputSchema.
    wrong = {"content": [text("no")], "isError": True}
    assert returned(wrong, hint=Weather) == wrong


@every_revision
def test_output_that_does_not_fit_is_never_sent(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert "outputSchema" in failed(returned({"n": "one"}, name, output_schema=OBJECT))
    assert "tool t" in caplog.text


@pytest.mark.parametrize("name", [row.name for row in SESSION_REVISIONS])
def test_the_result_type_of_a_later_revision_is_sent_to_nobody(name: str) -> None:
    with open_server(serving(lambda: {"content": [], "resultType": "complete"}), name) as wire:
        wire.call(1, "t")
        assert wire.receive()["result"] == {"content": []}


# -- the client's half ----------------------------------------------------------------------------------------------

GOOD: Any = {"content": [], "structuredContent": {"n": 1}}
BARE: Any = {"content": []}
Answer = tuple[str, JsonObject]


def listing(name: str = "t", **more: Any) -> Answer:
    """The answer to `tools/list`, of one tool."""
    return "tools/list", {"tools": [{"name": name, "inputSchema": {"type": "object"}, **more}]}


def outcome(wire: Wire, call: Callable[..., Any], *answers: Answer) -> Any:
    """Return what a call comes to that sends these requests, which are answered so."""
    under_way = Background(call)
    for method, result in answers:
        asked = wire.receive()
        assert asked["method"] == method
        wire.send({"jsonrpc": "2.0", "id": asked["id"], **(result if "error" in result else {"result": result})})
    return under_way.outcome()


def called(client: Client, wire: Wire, result: JsonObject, *more: Answer, tool: str = "t", **options: Any) -> Any:
    """Return what a call of the tool comes to that is answered with this result."""
    return outcome(wire, lambda: client.call_tool(tool, **options), ("tools/call", result), *more)


@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize("result", [{"content": [], "structuredContent": {"n": "one"}}, BARE])
def test_a_result_that_does_not_fit_is_refused_on_receipt(name: str, result: JsonObject) -> None:
    with open_client(name, {"tools": {}}) as (client, wire):
        outcome(wire, client.list_tools, listing(outputSchema=OBJECT))
        assert isinstance(called(client, wire, result), RemoteProtocolError)
        wrong = {"content": [], "isError": True}
        assert called(client, wire, wrong) == wrong, "a failed call promises nothing"
        # A tool that is not in the list is not looked for again.
        assert [called(client, wire, GOOD, tool="hidden") for _ in range(2)] == [GOOD, GOOD]


@pytest.mark.parametrize("name", UNSTRUCTURED)
def test_where_structure_does_not_exist_nothing_is_checked_and_nothing_listed(name: str) -> None:
    result = {"content": [], "structuredContent": {"n": "one"}}
    with open_client(name, {"tools": {}}) as (client, wire):
        assert called(client, wire, result) == result
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
        assert isinstance(called(client, wire, result), RemoteProtocolError)


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_definition_is_learnt_by_at_most_one_listing_until_the_list_changes(name: str) -> None:
    with open_client(name, {"tools": {"listChanged": True}}) as (client, wire):
        assert called(client, wire, GOOD, listing(outputSchema=OBJECT)) == GOOD
        unfit = called(client, wire, {**GOOD, "structuredContent": {}})
        assert isinstance(unfit, RemoteProtocolError), "checked without listing again"
        wire.notify("notifications/tools/list_changed")
        assert called(client, wire, GOOD, listing()) == GOOD
        # A list forgets the tools that are gone, and one that a change overtook is not remembered.
        outcome(wire, client.list_tools, listing("other"))
        assert set(client.tool_definitions) == {"other"}
        walk = Background(client.list_tools)
        asked = wire.receive()["id"]
        wire.notify("notifications/tools/list_changed")
        wire.answer(asked, listing()[1])
        assert len(walk.outcome()) == 1 and client.tool_definitions == {}


@pytest.mark.parametrize("name", [LATEST, MODERN])
def test_a_result_is_not_lost_because_the_list_fails(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with open_client(name, {"tools": {}}) as (client, wire):
        failing = ("tools/list", {"error": {"code": -32603, "message": "late"}})
        assert called(client, wire, GOOD, failing) == GOOD
    assert "late" in caplog.text


def test_the_time_of_a_call_holds_while_its_result_is_checked() -> None:
    slow = {"items": {"allOf": [{"type": "object"}] * 500}}
    result: Any = {"content": [], "structuredContent": [{"a": number} for number in range(20_000)]}
    with open_client(MODERN, {"tools": {}}) as (client, wire):
        outcome(wire, client.list_tools, listing(outputSchema=slow))
        began = time.thread_time()
        with pytest.raises(RequestTimeout, match="checking a value"):
            check_output(client, "t", result, {"timeout": 0.2}, time.monotonic())
        assert time.thread_time() - began < 3


@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize("schema", [{"$schema": "urn:x"}, {"properties": {"n": {"$ref": "http"}}}, {"type": 5}])
def test_an_output_schema_that_cannot_be_used_is_logged_once_and_nothing_is_fetched_for_it(
    name: str, schema: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{stranger.getsockname()[1]}/schema.json"
    schema = json.loads(json.dumps(schema).replace('"http"', json.dumps(url)))
    with stranger, open_client(name, {"tools": {}}) as (client, wire):
        (tool,) = outcome(wire, client.list_tools, listing(outputSchema=schema))
        assert tool["outputSchema"] == schema, "the definition is shown as it came"
        assert [called(client, wire, each) for each in (GOOD, BARE)] == [GOOD, BARE]
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    assert caplog.text.count("results of this tool are not checked") == 1
