from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest

import mcp_ref
from mcp_ref.content import TextContent, image, text
from mcp_ref.errors import (
    ErrorResponse,
    InvalidParams,
    Refusal,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    ToolError,
)
from mcp_ref.machinery.json_schema import SchemaRefused
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.server import tools
from mcp_ref.server.tools import METHODS, CallToolResult, ToolEntry, display_name, tools_call, tools_list
from tests.server import alone

LATEST = REVISIONS["2025-11-25"]
ALL = list(REVISIONS.values())


class Context:
    """A request being served, and the context of a handler."""

    mask_errors = False

    def __init__(self, entries: Mapping[str, Any], revision: Revision = LATEST, page_size: int = 100) -> None:
        self.registries, self.revision, self.page_size, self.server = {"tools": entries}, revision, page_size, self


class Server:
    """Registers tools, and answers."""

    context_type = Context

    def __init__(self) -> None:
        self.entries: dict[str, ToolEntry] = {}

    def register(self, feature: str, key: str, entry: Any, *, replace: bool = False) -> None:
        assert feature == "tools"
        if key in self.entries:
            raise ValueError(f"there is a tool {key!r} already")
        self.entries[key] = entry

    def unregister(self, feature: str, key: str) -> None:
        del self.entries[key]

    tool = tools.tool
    remove_tool = tools.remove_tool

    def call(self, name: str, arguments: Any = None, revision: Revision = LATEST) -> Any:
        params: Any = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
        return tools_call(Context(self.entries, revision), params)  # type: ignore[arg-type]

    def listed(self, revision: Revision = LATEST) -> list[Any]:
        return list(tools_list(Context(self.entries, revision), {})["tools"])  # type: ignore[arg-type]


@dataclass
class Weather:
    city: str
    wind: float | None = None


def answering(function: Callable[..., Any], **options: Any) -> Server:
    """A server whose only tool, "t", is that function."""
    server = Server()
    server.tool("t", **options)(function)
    return server


def returning(value: Any, **options: Any) -> Server:
    return answering(lambda: value, **options)


def failed(result: Any) -> str:
    assert result["isError"] is True and "structuredContent" not in result
    return str(result["content"][0]["text"])


# -- registering and listing


def test_a_tool_is_listed_with_name_description_and_schema() -> None:
    server = Server()

    @server.tool()
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    assert add(1, 2) == 3
    assert server.listed() == [
        {
            "name": "add",
            "description": "Add two numbers.",
            "inputSchema": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
                "required": ["a"],
                "additionalProperties": False,
            },
        }
    ]


def test_what_is_said_about_a_tool_stands_in_its_definition() -> None:
    icon: Any = {"src": "https://example.com/i.png"}
    server = answering(
        lambda: None,
        title="A tool",
        description="Does it.",
        annotations={"readOnlyHint": True},
        icons=[icon],
        meta={"com.example/x": 1},
    )
    assert server.listed() == [
        {
            "name": "t",
            "title": "A tool",
            "description": "Does it.",
            "annotations": {"readOnlyHint": True},
            "icons": [icon],
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
            "_meta": {"com.example/x": 1},
        }
    ]


def test_tools_are_listed_page_by_page_in_the_order_of_registration() -> None:
    server = Server()
    for name in ("c", "a", "b"):
        server.tool(name)(lambda: None)
    ctx: Any = Context(server.entries, page_size=2)
    first = tools_list(ctx, {})
    assert [tool["name"] for tool in first["tools"]] == ["c", "a"]
    second = tools_list(ctx, {"cursor": first["nextCursor"]})
    assert [tool["name"] for tool in second["tools"]] == ["b"] and "nextCursor" not in second
    with pytest.raises(InvalidParams):
        tools_list(ctx, {"cursor": "?"})


@pytest.mark.parametrize("name", ["getUser", "DATA_EXPORT_v2", "admin.tools.list", "a" * 128])
def test_names_that_follow_the_rule_are_taken_in_silence(name: str, caplog: pytest.LogCaptureFixture) -> None:
    Server().tool(name)(lambda: None)
    assert not caplog.records


@pytest.mark.parametrize("name", ["", "a" * 129, "a b", "a,b", "ä", "a/b"])
def test_names_that_break_the_rule_are_logged_and_taken(name: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    server.tool(name)(lambda: None)
    assert list(server.entries) == [name]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"the tool name {name!r} is not 1 to 128 of" in caplog.text


def test_names_are_unique_and_case_sensitive() -> None:
    server = answering(lambda: None)
    server.tool("T")(lambda: None)
    with pytest.raises(ValueError, match="already"):
        server.tool("t")(lambda: None)


def test_a_tool_can_be_withdrawn() -> None:
    server = answering(lambda: None)
    server.remove_tool("t")
    assert server.listed() == []


def test_a_decorator_without_brackets_and_a_function_without_a_name_are_refused() -> None:
    import functools

    with pytest.raises(TypeError, match="brackets"):
        Server().tool(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no name"):
        Server().tool()(functools.partial(print))


def test_the_display_name_is_the_title_or_that_of_the_annotations_or_the_name() -> None:
    tool: Any = {"name": "n", "title": "T", "annotations": {"title": "A"}, "inputSchema": {"type": "object"}}
    assert display_name(tool) == "T"
    del tool["title"]
    assert display_name(tool) == "A"
    del tool["annotations"]
    assert display_name(tool) == "n"


# -- schemas written by hand

BY_HAND = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"day": {"type": "string", "format": "date"}},
    "required": ["day"],
}


def test_an_input_schema_written_by_hand_is_shown_as_it_is_and_checks_the_arguments() -> None:
    server = answering(lambda day: f"got {day!r}", input_schema=BY_HAND)
    assert server.listed()[0]["inputSchema"] == BY_HAND
    assert server.call("t", {"day": "2025-11-25"})["content"] == [text("got '2025-11-25'")]
    assert failed(server.call("t", {"day": "x"})) == "Invalid arguments for tool t: day: 'x' is not a 'date'"
    assert "'day' is a required property" in failed(server.call("t"))


def test_with_a_schema_by_hand_the_arguments_can_be_taken_together() -> None:
    def together(arguments: JsonObject, ctx: Context) -> str:
        return f"{arguments} {type(ctx).__name__}"

    def spread(**arguments: Any) -> str:
        return f"{arguments}"

    given = {"day": "2025-11-25", "any thing": 1}
    assert answering(together, input_schema=BY_HAND).call("t", given)["content"] == [text(f"{given} Context")]
    assert answering(spread, input_schema=BY_HAND).call("t", given)["content"] == [text(f"{given}")]


def test_a_property_that_the_function_does_not_take_is_refused_when_registering() -> None:
    with pytest.raises(TypeError, match="'day'"):
        answering(lambda other: None, input_schema=BY_HAND)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {},
        True,
        {"type": "object", "$schema": "urn:x"},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/s"}}},
        {"type": "object", "properties": 5},
    ],
)
def test_an_input_schema_that_cannot_be_used_is_refused_when_registering(schema: Any) -> None:
    with pytest.raises(SchemaRefused, match="the inputSchema of tool 't'"):
        answering(lambda **arguments: None, input_schema=schema)


def test_an_output_schema_written_by_hand_is_shown_and_checks_the_result() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    server = returning({"a": 1}, output_schema=schema)
    assert server.listed()[0]["outputSchema"] == schema
    assert server.call("t") == {"content": [text('{"a": 1}')], "structuredContent": {"a": 1}}
    assert "'a' is a required property" in failed(returning({}, output_schema=schema).call("t"))
    with pytest.raises(SchemaRefused, match="the outputSchema of tool 't'"):
        returning(None, output_schema={"type": "objekt"})


# -- calling: errors


@pytest.mark.parametrize("revision", ALL, ids=str)
def test_an_unknown_tool_is_a_protocol_error(revision: Revision) -> None:
    with pytest.raises(InvalidParams, match="Unknown tool: nope") as caught:
        Server().call("nope", revision=revision)
    assert caught.value.code == -32602


@pytest.mark.parametrize("revision", ALL, ids=str)
def test_arguments_that_do_not_fit_are_a_result_since_2025_11_25_and_a_protocol_error_before(
    revision: Revision,
) -> None:
    def f(city: str, days: int) -> None: ...

    told = 'Invalid arguments for tool t: city: missing; days: expected an integer, got a string: "3"'
    if revision.order >= LATEST.order:
        assert failed(answering(f).call("t", {"days": "3"}, revision)) == told
    else:
        with pytest.raises(InvalidParams) as caught:
            answering(f).call("t", {"days": "3"}, revision)
        assert str(caught.value) == told


def test_a_tool_error_is_a_result_with_its_text() -> None:
    def f() -> str:
        raise ToolError("the city is closed")

    assert answering(f).call("t") == {"content": [text("the city is closed")], "isError": True}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ErrorResponse(-32002, "of another server"), "of another server (-32002)"),
        (KeyError("x"), "KeyError: 'x'"),
        (ZeroDivisionError(), "ZeroDivisionError"),
    ],
)
def test_any_other_exception_is_a_result_without_a_traceback_which_is_logged(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    def f() -> str:
        raise error

    told = failed(answering(f).call("t"))
    assert told == f"Error executing tool t: {text}"
    assert caplog.records[0].exc_info is not None


@pytest.mark.parametrize("error", [Refusal("no", code=7), InvalidParams("no"), RequestCancelled("no"), SystemExit()])
def test_refusals_cancellation_and_the_end_of_the_process_pass_through(error: BaseException) -> None:
    def f() -> str:
        raise error

    with pytest.raises(type(error)):
        answering(f).call("t")


# -- calling: arguments


def test_arguments_are_converted_and_defaults_are_the_functions_own() -> None:
    def f(day: date, where: Weather, days: int = 3) -> str:
        return f"{day!r} {where.city} {days}"

    result = answering(f).call("t", {"day": "2025-11-25", "where": {"city": "Lisbon"}})
    assert result["content"] == [text("datetime.date(2025, 11, 25) Lisbon 3")]


def test_the_context_is_passed_and_cannot_be_given_by_the_client() -> None:
    def f(a: int, ctx: Context) -> str:
        return f"{a} {type(ctx).__name__}"

    assert answering(f).call("t", {"a": 1})["content"] == [text("1 Context")]
    assert "ctx: unknown" in failed(answering(f).call("t", {"a": 1, "ctx": {}}))


def test_missing_arguments_count_as_empty_and_task_is_ignored() -> None:
    ctx: Any = Context(returning("x").entries)
    for params in ({"name": "t"}, {"name": "t", "arguments": {}}, {"name": "t", "task": {"ttl": 1}}):
        assert tools_call(ctx, params) == {"content": [text("x")]}  # type: ignore[arg-type]


# -- calling: results without an outputSchema


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, []),
        ("hi", [text("hi")]),
        (text("hi"), [text("hi")]),
        (image(b"x", "image/png"), [image(b"x", "image/png")]),
        (["a", text("b")], [text("a"), text("b")]),
        ((text("b"),), [text("b")]),
        (5, [text("5")]),
        (True, [text("true")]),
        ({"type": "text", "n": 1}, [text('{"type": "text", "n": 1}')]),
        ({"ü": [1]}, [text('{"ü": [1]}')]),
        ([1, "a"], [text('[1, "a"]')]),
        (Weather("x"), [text('{"city": "x", "wind": null}')]),
        (date(2025, 11, 25), [text("2025-11-25")]),
    ],
)
def test_what_a_handler_returns_becomes_content(value: Any, content: list[Any]) -> None:
    assert returning(value).call("t") == {"content": content}


def test_a_whole_result_stays_as_it_is() -> None:
    whole: CallToolResult = {"content": [text("x")], "isError": True, "_meta": {"a": 1}}
    assert returning(whole).call("t") == whole


def test_a_whole_result_with_structured_content_alone_gets_its_text() -> None:
    result = returning({"structuredContent": {"a": 1}}).call("t")
    assert result == {"content": [text('{"a": 1}')], "structuredContent": {"a": 1}}


@pytest.mark.parametrize("value", [{"content": ["no block"]}, {"content": [], "more": 1}, {"isError": True}])
def test_data_that_only_resembles_a_result_is_data(value: Any) -> None:
    assert list(returning(value).call("t")) == ["content"]


def test_what_has_no_form_in_json_is_a_failed_call_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert "has no form in JSON" in failed(returning(object()).call("t"))
    assert caplog.records
    within: list[Any] = []
    within.append(within)
    assert "what contains itself, or is nested too deeply, has no form in JSON" in failed(returning(within).call("t"))


# -- calling: results with an outputSchema


def weather() -> Weather:
    return Weather("Lisbon", 3.5)


def numbers() -> list[int]:
    return [1, 2]


@pytest.mark.parametrize("revision", ALL, ids=str)
def test_an_object_is_structured_where_the_revision_has_it_and_always_repeated_as_text(revision: Revision) -> None:
    server = answering(weather)
    result = server.call("t", revision=revision)
    assert result["content"] == [text('{"city": "Lisbon", "wind": 3.5}')]
    carried = revision.structured_content != "none"
    assert ("outputSchema" in server.listed(revision)[0]) == carried
    assert result.get("structuredContent") == ({"city": "Lisbon", "wind": 3.5} if carried else None)


@pytest.mark.parametrize("revision", ALL, ids=str)
def test_any_other_value_is_structured_in_2026_07_28_alone(revision: Revision) -> None:
    server = answering(numbers)
    result = server.call("t", revision=revision)
    assert result["content"] == [text("[1, 2]")]
    carried = revision.structured_content == "any"
    assert ("outputSchema" in server.listed(revision)[0]) == carried
    assert result.get("structuredContent") == ([1, 2] if carried else None)


def test_structured_content_that_is_not_an_object_is_left_out_where_only_objects_are_allowed() -> None:
    server = returning({"content": [], "structuredContent": [1]})
    assert server.call("t") == {"content": []}
    assert server.call("t", revision=REVISIONS["2026-07-28"]) == {"content": [], "structuredContent": [1]}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"city": 5}, "city: expected a string"),
        ({"content": [text("x")]}, "structuredContent is missing"),
        ({"structuredContent": {"city": 5}}, "city: expected a string"),
    ],
)
def test_output_that_does_not_fit_its_schema_is_our_fault_and_a_failed_call(
    value: Any, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    def f() -> Weather:
        return value  # type: ignore[no-any-return]

    told = failed(answering(f).call("t"))
    assert told.startswith("the tool's output does not fit its outputSchema: ") and problem in told
    assert caplog.records[0].levelno == logging.ERROR


def test_masked_errors_tell_the_name_of_the_tool_alone(caplog: pytest.LogCaptureFixture) -> None:
    server = mcp_ref.Server("s", mask_errors=True)

    @server.tool()
    def broken() -> str:
        raise KeyError("hunter2")

    @server.tool()
    def unfit() -> Weather:
        return {"city": ["hunter2"]}  # type: ignore[return-value]

    @server.tool()
    def honest() -> str:
        raise ToolError("the city is closed")

    assert failed(alone.call(server, "broken")) == "Error executing tool broken"
    assert failed(alone.call(server, "unfit")) == "the tool's output does not fit its outputSchema"
    assert failed(alone.call(server, "honest")) == "the city is closed"
    assert "KeyError: 'hunter2'" in caplog.text


def test_a_whole_result_of_a_tool_with_an_output_schema_may_say_that_it_failed() -> None:
    def f() -> Weather:
        return {"content": [text("no")], "isError": True}  # type: ignore[return-value]

    assert answering(f).call("t") == {"content": [text("no")], "isError": True}


def test_a_tool_that_promises_content_blocks_returns_them() -> None:
    def f() -> list[TextContent | str]:
        return [text("a"), "b"]

    assert "outputSchema" not in answering(f).listed()[0]
    assert answering(f).call("t")["content"] == [text("a"), text("b")]


# -- the client's half


@dataclass
class Peer:
    """A client of a server that answers from a script, and what was sent."""

    answers: dict[str, list[Any]]
    revision: Revision = LATEST
    timeout: float | None = 60.0
    follower: Any = None
    peer_capabilities: JsonObject = field(default_factory=dict)
    tool_definitions: dict[str, Any] = field(default_factory=dict)
    sent: list[tuple[str, Any]] = field(default_factory=list)
    options: list[Options] = field(default_factory=list)

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        self.sent.append((method, params))
        self.options.append(options or {})
        answer = self.answers[method].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        raise AssertionError

    list_tools = tools.list_tools
    list_tools_page = tools.list_tools_page
    call_tool = tools.call_tool

    def methods(self) -> list[str]:
        return [method for method, _ in self.sent]


def described(name: str, output: Any = None) -> JsonObject:
    tool: JsonObject = {"name": name, "inputSchema": {"type": "object"}}
    return tool if output is None else tool | {"outputSchema": output}


OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
GOOD: Any = {"content": [], "structuredContent": {"a": 1}}
BAD = {"content": [], "structuredContent": {"a": "x"}}
BARE: Any = {"content": []}


def peer(*calls: Any, output: Any = OBJECT, listed: bool = True, **more: Any) -> Peer:
    lists = [{"tools": [described("t", output)]}] * 5
    made = Peer({"tools/list": list(lists), "tools/call": list(calls)}, **more)
    if listed:
        made.list_tools()
        made.sent.clear()
    return made


def test_list_tools_walks_all_pages() -> None:
    pages = [{"tools": [described("a")], "nextCursor": "1"}, {"tools": [described("b")]}]
    client = Peer({"tools/list": list(pages)})
    assert [tool["name"] for tool in client.list_tools()] == ["a", "b"]
    assert client.sent == [("tools/list", None), ("tools/list", {"cursor": "1"})]
    assert set(client.tool_definitions) == {"a", "b"}


def test_list_tools_page_is_one_request_and_gives_the_whole_result() -> None:
    client = Peer({"tools/list": [{"tools": [], "nextCursor": "2"}]})
    whole: Any = {"tools": [], "nextCursor": "2"}
    assert client.list_tools_page("1", timeout=3) == whole
    assert client.sent == [("tools/list", {"cursor": "1"})] and client.options == [{"timeout": 3}]


def test_a_list_forgets_the_tools_that_are_gone() -> None:
    client = Peer({"tools/list": [{"tools": [described("a")]}, {"tools": [described("b")]}]})
    client.list_tools()
    client.list_tools()
    assert set(client.tool_definitions) == {"b"}


def test_a_walk_that_a_change_overtook_is_not_remembered() -> None:
    client = Peer({"tools/list": [{"tools": [described("a")]}]})
    request = client.request

    def overtaken(*args: Any) -> JsonObject:
        client.tool_definitions = {}
        return request(*args)

    client.request = overtaken  # type: ignore[method-assign, assignment]
    client.list_tools()
    assert client.tool_definitions == {}


def test_call_tool_sends_name_and_arguments_and_returns_the_whole_result() -> None:
    client = Peer({"tools/call": [BARE, BARE]})
    assert client.call_tool("t", {"a": 1}, timeout=3) == BARE
    assert client.call_tool("t") == BARE
    assert client.sent == [("tools/call", {"name": "t", "arguments": {"a": 1}}), ("tools/call", {"name": "t"})]
    assert client.options == [{"timeout": 3}, {}]


def test_a_failed_call_is_a_result_and_is_not_checked() -> None:
    result: Any = {"content": [text("no")], "isError": True}
    assert peer(result).call_tool("t") == result


def test_a_result_that_fits_the_output_schema_is_returned() -> None:
    client = peer(GOOD)
    assert client.call_tool("t") == GOOD
    assert client.methods() == ["tools/call"]


@pytest.mark.parametrize(
    ("result", "problem"), [(BAD, "a: 'x' is not of type 'integer'"), (BARE, "no structuredContent")]
)
def test_a_result_that_does_not_fit_is_the_servers_fault(result: JsonObject, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        peer(result).call_tool("t")


def test_where_the_tool_was_never_listed_structured_content_makes_the_client_list_once() -> None:
    client = peer(BARE, GOOD, BAD, listed=False)
    client.call_tool("t")
    assert client.methods() == ["tools/call"]
    client.call_tool("t", timeout=3)
    assert client.methods() == ["tools/call", "tools/call", "tools/list"]
    asked: Any = client.options[-1]["timeout"]
    assert 2 < asked <= 3
    with pytest.raises(RemoteProtocolError):
        client.call_tool("t")
    assert client.methods() == ["tools/call", "tools/call", "tools/list", "tools/call"]


def test_a_tool_that_is_not_in_the_list_is_not_looked_for_again() -> None:
    client = peer(GOOD, GOOD)
    client.call_tool("hidden")
    client.call_tool("hidden")
    assert client.methods() == ["tools/call", "tools/call"]


def test_a_result_is_not_lost_because_the_list_fails(caplog: pytest.LogCaptureFixture) -> None:
    client = Peer({"tools/call": [GOOD], "tools/list": [RequestTimeout("late")]})
    assert client.call_tool("t") == GOOD
    assert "late" in caplog.text


def test_the_time_of_a_call_holds_while_its_result_is_checked() -> None:
    slow = {"items": {"allOf": [{"type": "object"}] * 500}}
    value: JsonObject = {"content": [], "structuredContent": [{"a": number} for number in range(20_000)]}
    client = peer(value, output=slow)
    began = time.thread_time()
    with pytest.raises(RequestTimeout, match="checking a value"):
        client.call_tool("t", timeout=0.2)
    assert time.thread_time() - began < 3


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_nothing_is_checked_where_the_revision_has_no_structured_content(revision: str) -> None:
    client = peer(GOOD, listed=False, revision=REVISIONS[revision])
    assert client.call_tool("t") == GOOD
    assert client.methods() == ["tools/call"]


@pytest.mark.parametrize("schema", [{"$schema": "urn:x"}, {"$ref": "https://example.com/s"}, {"type": 5}])
def test_an_output_schema_that_cannot_be_used_is_logged_once_and_not_applied(
    schema: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = peer(GOOD, BARE, output=schema)
    assert client.call_tool("t") == GOOD
    assert client.call_tool("t") == BARE
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


# -- the rows


def test_the_rows_exist_in_every_revision_and_need_the_capability() -> None:
    assert [row.name for row in METHODS] == ["tools/list", "tools/call", "notifications/tools/list_changed"]
    for revision in ALL:
        assert all(row.exists_in(revision) for row in METHODS)
        assert [row.capability(revision) for row in METHODS] == [
            "server.tools",
            "server.tools",
            "server.tools.listChanged",
        ]
