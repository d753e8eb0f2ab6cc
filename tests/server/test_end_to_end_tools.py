"""server/tools from end to end: the real client and the real server, in every revision of both eras."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, LocalProtocolError, RemoteProtocolError, RequestTimeout, Server
from mcp_ref.content import audio, image, text
from mcp_ref.errors import Refusal, ToolError
from mcp_ref.machinery.json_schema import SchemaRefused
from mcp_ref.machinery.rates import Rate
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, find_revision
from tests.eras import hearing, open_client, open_server, plain
from tests.wire import PATIENCE, Wire, opened

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
    """What a client of that revision gets when it calls the function as a tool."""
    with Client(serving(function, **options), revision=name) as client:
        return plain(client.call_tool("t"))


def in_thread(function: Callable[[], Any]) -> SimpleQueue[Any]:
    """Run a call in a thread of its own; the queue gets what it returns or raises."""
    outcome: SimpleQueue[Any] = SimpleQueue()

    def run() -> None:
        try:
            outcome.put(function())
        except Exception as problem:
            outcome.put(problem)

    threading.Thread(target=run, name="test-call").start()
    return outcome


# -- declaring and listing ------------------------------------------------------------------------------------------


@every_revision
def test_a_server_with_tools_declares_them_and_one_without_does_not(name: str) -> None:
    with Client(serving(lambda: "x"), revision=name) as client:
        assert client.server_capabilities["tools"] == {"listChanged": True}
    with Client(Server("s"), revision=name) as client:
        assert "tools" not in client.server_capabilities
        with pytest.raises(LocalProtocolError, match=r"server\.tools"):
            client.list_tools()
    with Client(Server("s", declare=["tools"]), revision=name) as client:
        assert client.list_tools() == []


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
    "2025-11-25": {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta", "icons"},
    "2026-07-28": {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta", "icons"},
}


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


@every_revision
def test_the_list_comes_page_by_page_in_the_order_of_registration(name: str) -> None:
    server = Server("s", page_size=2)
    for tool in "edcba":
        server.tool(tool)(lambda: "x")
    with Client(server, revision=name) as client:
        assert [tool["name"] for tool in client.list_tools()] == list("edcba")
        assert [tool["name"] for tool in client.list_tools_page()["tools"]] == ["e", "d"]


@every_revision
def test_a_change_of_the_list_reaches_the_client_while_it_is_connected(name: str) -> None:
    changes: SimpleQueue[Any] = SimpleQueue()
    server = serving(lambda: "old")
    with (
        Client(server, revision=name, on_change=lambda method, params: changes.put(method)) as client,
        hearing(client, tools=True),
    ):
        client.list_tools()
        server.tool("late")(lambda: "new")
        assert changes.get(timeout=PATIENCE) == "notifications/tools/list_changed"
        assert client.tool_definitions == {}, "what was learnt of the old list is forgotten"
        assert [tool["name"] for tool in client.list_tools()] == ["t", "late"]
        assert client.call_tool("late")["content"] == [text("new")]
        server.remove_tool("t")
        assert changes.get(timeout=PATIENCE) == "notifications/tools/list_changed"
        with pytest.raises(ErrorResponse, match="Unknown tool"):
            client.call_tool("t")


# -- arguments and errors -------------------------------------------------------------------------------------------


@every_revision
def test_an_unknown_tool_is_a_protocol_error_in_every_revision(name: str) -> None:
    with Client(serving(lambda: "x"), revision=name) as client:
        with pytest.raises(ErrorResponse) as caught:
            client.call_tool("T")
    assert caught.value.code == -32602
    assert "T" in caught.value.message


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
def test_a_tool_that_fails_is_a_result_and_not_an_exception(name: str) -> None:
    def fails() -> str:
        raise ToolError("no such city")

    assert result_of(name, fails) == {"content": [text("no such city")], "isError": True}


@every_revision
def test_a_tool_that_breaks_says_so_without_its_traceback(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def breaks() -> str:
        return str(1 / 0)

    result = result_of(name, breaks)
    assert result["isError"] is True
    assert result["content"] == [text("Error executing tool t: division by zero")]
    assert "Traceback" in caplog.text


@every_revision
def test_only_a_refusal_of_the_handler_is_a_protocol_error(name: str) -> None:
    def refuses() -> str:
        raise Refusal("not today", {"day": "Sunday"}, code=-1)

    with pytest.raises(ErrorResponse) as caught:
        result_of(name, refuses)
    assert (caught.value.code, caught.value.message, caught.value.data) == (-1, "not today", {"day": "Sunday"})


@every_revision
def test_calls_above_the_rate_are_refused(name: str) -> None:
    server = Server("s", rates={"tools/call": Rate(per_second=0.001, burst=1)})
    server.tool("t")(lambda: "x")
    with Client(server, revision=name) as client:
        client.call_tool("t")
        with pytest.raises(ErrorResponse) as caught:
            client.call_tool("t")
        client.list_tools()
    assert caught.value.code == 429
    assert caught.value.data["retryAfter"] > 0


@every_revision
def test_a_call_ends_at_its_timeout_and_the_handler_hears_of_it(name: str) -> None:
    heard: SimpleQueue[bool] = SimpleQueue()
    asked = threading.Event()

    def slow(ctx: Context) -> str:
        asked.wait(PATIENCE)
        heard.put(ctx.cancelled)
        return "too late"

    with Client(serving(slow), revision=name) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("t", timeout=0.05)
        asked.set()
        assert heard.get(timeout=PATIENCE) is True


def plain_params(message: JsonObject) -> JsonObject:
    """What a message asks, without what a request of the stateless era says of itself."""
    return {key: value for key, value in message.get("params", {}).items() if key != "_meta"}


@every_revision
def test_every_call_can_be_kept_in_a_trace(name: str) -> None:
    events: SimpleQueue[Any] = SimpleQueue()
    with Client(serving(lambda: "x"), revision=name, trace=events.put) as client:
        client.call_tool("t", {})
    messages = [events.get(timeout=PATIENCE).message for _ in range(events.qsize())]
    assert any(plain_params(message) == {"name": "t", "arguments": {}} for message in messages)
    assert any(message.get("result", {}).get("content") == [text("x")] for message in messages)


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
EMBEDDED_BLOB = {"type": "resource", "resource": {"uri": "file:///b", "blob": "Yg=="}}
LINK = {"type": "resource_link", "uri": "file:///c", "name": "c", "mimeType": "text/plain"}


@every_revision
def test_text_pictures_and_embedded_resources_pass_in_every_revision(name: str) -> None:
    blocks: list[Any] = [text("a"), image(b"\x89", "image/png"), EMBEDDED_TEXT, EMBEDDED_BLOB]
    assert result_of(name, lambda: blocks) == {"content": blocks}


@every_revision
def test_sound_is_a_text_before_2025_03_26(name: str) -> None:
    block = audio(b"la", "audio/wav")
    (got,) = result_of(name, lambda: block)["content"]
    if name == "2024-11-05":
        assert got["type"] == "text"
        assert "audio/wav" in got["text"]
        assert "bGE=" not in got["text"]
    else:
        assert got == block


@every_revision
def test_a_link_to_a_resource_is_a_text_with_its_uri_before_2025_06_18(name: str) -> None:
    (got,) = result_of(name, lambda: LINK)["content"]
    if name in UNSTRUCTURED:
        assert got == text("[resource link: c <file:///c>]")
    else:
        assert got == LINK


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


@every_revision
def test_an_object_is_text_in_every_revision_and_structured_where_that_exists(name: str) -> None:
    def weather() -> Weather:
        return Weather("Lisbon", 20.5)

    result = result_of(name, weather)
    assert result["content"] == [text('{"city": "Lisbon", "degrees": 20.5}')]
    expected = {"city": "Lisbon", "degrees": 20.5} if name in STRUCTURED else None
    assert result.get("structuredContent") == expected


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


@every_revision
def test_the_meta_of_a_result_passes(name: str) -> None:
    result = result_of(name, lambda: {"content": [text("a")], "_meta": {"example.com/k": 1}})
    assert result == {"content": [text("a")], "_meta": {"example.com/k": 1}}


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
        listed = in_thread(client.list_tools)
        answer(wire, "tools/list", {"tools": [described(outputSchema=OBJECT)]})
        listed.get(timeout=PATIENCE)
        called = in_thread(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        assert isinstance(called.get(timeout=PATIENCE), RemoteProtocolError)
        failed = in_thread(lambda: client.call_tool("t"))
        answer(wire, "tools/call", {"content": [], "isError": True})
        assert failed.get(timeout=PATIENCE) == {"content": [], "isError": True}, "a failed call promises nothing"


@pytest.mark.parametrize("name", UNSTRUCTURED)
def test_where_structure_does_not_exist_nothing_is_checked_and_nothing_listed(name: str) -> None:
    with open_client(name, {"tools": {}}) as (client, wire):
        called = in_thread(lambda: client.call_tool("t"))
        answer(wire, "tools/call", {"content": [], "structuredContent": {"n": "one"}})
        assert called.get(timeout=PATIENCE)["structuredContent"] == {"n": "one"}
        client.notify("notifications/x")
        assert wire.receive()["method"] == "notifications/x", "there was no tools/list"


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
        called = in_thread(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        assert isinstance(called.get(timeout=PATIENCE), RemoteProtocolError)


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_definition_is_learnt_by_at_most_one_listing_until_the_list_changes(name: str) -> None:
    result = {"content": [], "structuredContent": {"n": 1}}
    with open_client(name, {"tools": {"listChanged": True}}) as (client, wire):
        first = in_thread(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        answer(wire, "tools/list", {"tools": [described(outputSchema=OBJECT)]})
        assert first.get(timeout=PATIENCE) == result
        second = in_thread(lambda: client.call_tool("t"))
        answer(wire, "tools/call", {**result, "structuredContent": {}})
        assert isinstance(second.get(timeout=PATIENCE), RemoteProtocolError), "checked without listing again"
        wire.notify("notifications/tools/list_changed")
        third = in_thread(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        answer(wire, "tools/list", {"tools": [described()]})
        assert third.get(timeout=PATIENCE) == result


# -- references -----------------------------------------------------------------------------------------------------


@pytest.fixture
def stranger() -> Any:
    """A host that waits to be asked for a schema; the test says whether it was."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def was_asked(stranger: socket.socket) -> bool:
    try:
        stranger.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def url_of(stranger: socket.socket) -> str:
    return f"http://127.0.0.1:{stranger.getsockname()[1]}/schema.json"


@pytest.mark.parametrize("field", ["input_schema", "output_schema"])
def test_a_reference_to_the_network_is_refused_when_registering_and_never_fetched(
    field: str, stranger: socket.socket
) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": url_of(stranger)}}}
    server = Server("s")
    with pytest.raises(SchemaRefused, match="nothing is fetched"):
        server.tool("t", **{field: schema})(lambda a: {"a": a})
    assert not server.registries["tools"]
    assert not was_asked(stranger)


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_reference_to_the_network_in_a_strangers_schema_is_never_fetched(
    name: str, stranger: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"type": "object", "properties": {"n": {"$ref": url_of(stranger)}}}
    result = {"content": [], "structuredContent": {"n": 1}}
    with open_client(name, {"tools": {}}) as (client, wire):
        listed = in_thread(client.list_tools)
        answer(wire, "tools/list", {"tools": [described(outputSchema=schema)]})
        (tool,) = listed.get(timeout=PATIENCE)
        assert tool["outputSchema"] == schema, "the definition is shown as it came"
        called = in_thread(lambda: client.call_tool("t"))
        answer(wire, "tools/call", result)
        assert called.get(timeout=PATIENCE) == result
    assert "results of this tool are not checked" in caplog.text
    assert not was_asked(stranger)


@every_revision
def test_a_reference_inside_the_schema_is_followed(name: str) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "integer"}}}
    with Client(serving(lambda a: a, input_schema=schema), revision=name) as client:
        assert client.call_tool("t", {"a": 1})["content"] == [text("1")]
        assert "integer" in refused(client, {"a": "1"})


def test_every_revision_has_its_row_here() -> None:
    assert set(SHOWN) == set(NAMES)


@pytest.mark.parametrize("revision", OLDER)
def test_the_result_type_of_a_later_revision_is_sent_to_nobody(revision: str) -> None:
    server = Server("s")

    @server.tool()
    def whole() -> Any:
        return {"content": [], "resultType": "complete"}

    with opened(server, revision) as wire:
        wire.call(1, "whole")
        assert wire.receive()["result"] == {"content": []}
