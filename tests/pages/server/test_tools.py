from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

import mcp_ref
from mcp_ref.errors import InvalidParams, Refusal, RequestCancelled, RequestTimeout, ToolError
from mcp_ref.kit.typed.json_schema import SchemaRefused
from mcp_ref.pages.server import tools
from mcp_ref.pages.server.tools import tools_call
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.wire.content import image, text, text_of
from mcp_ref.wire.messages import JsonObject
from tests.pages.server import alone
from tests.pages.server.fakes import Ctx, FakeCaller, FakeContext, FakeServer

LATEST = REVISIONS["2025-11-25"]


class Server(FakeServer):
    """Registers tools, and answers."""

    tool = tools.tool
    process = os.getpid()

    def call(self, name: str, arguments: Any = None, revision: Revision = LATEST) -> Any:
        params: Any = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
        return tools_call(FakeContext(self, revision), params)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("name", ["getUser", "DATA_EXPORT_v2", "admin.tools.list", "a" * 128])
def test_names_that_follow_the_rule_are_taken_in_silence(name: str, caplog: pytest.LogCaptureFixture) -> None:
    Server().tool(name)(lambda: None)
    assert not caplog.records


@pytest.mark.parametrize("name", ["", "a" * 129, "a b", "a,b", "ä", "a/b"])
def test_names_that_break_the_rule_are_logged_and_taken(name: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    server.tool(name)(lambda: None)
    assert list(server.registries["tools"]) == [name]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"the tool name {name!r} may not work everywhere" in caplog.text


def test_names_are_unique_and_case_sensitive() -> None:
    server = answering(lambda: None)
    with pytest.raises(InvalidParams, match="Unknown tool: T"):
        server.call("T")
    server.tool("T")(lambda: None)
    with pytest.raises(ValueError, match="taken"):
        server.tool("t")(lambda: None)


def test_a_decorator_without_brackets_and_a_function_without_a_name_are_refused() -> None:
    import functools

    with pytest.raises(TypeError, match="brackets"):
        Server().tool(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no name"):
        Server().tool()(functools.partial(print))


# -- schemas written by hand

BY_HAND = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"day": {"type": "string", "format": "date"}},
    "required": ["day"],
}


def test_with_a_schema_by_hand_the_arguments_can_be_taken_together() -> None:
    def together(arguments: JsonObject, ctx: Ctx) -> str:
        return f"{arguments} {type(ctx).__name__}"

    def spread(**arguments: Any) -> str:
        return f"{arguments}"

    given = {"day": "2025-11-25", "any thing": 1}
    assert answering(together, input_schema=BY_HAND).call("t", given)["content"] == [text(f"{given} FakeContext")]
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


# -- calling: errors


@pytest.mark.parametrize("error", [Refusal("no", code=7), InvalidParams("no"), RequestCancelled("no")])
def test_refusals_and_cancellation_pass_through(error: BaseException) -> None:
    def f() -> str:
        raise error

    with pytest.raises(type(error)):
        answering(f).call("t")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit("no database"), "SystemExit: no database"), (SystemExit(3), "SystemExit: 3"),
        (SystemExit(), "SystemExit"), (KeyError("k"), "KeyError: 'k'"), (AssertionError(), "AssertionError"),
        (ValueError("why"), "why"),
    ],
)  # fmt: skip
def test_a_tool_that_raises_anything_else_tells_the_model_why(error: BaseException, told: str) -> None:
    def f() -> str:
        raise error

    assert failed(answering(f).call("t")) == f"Error executing tool t: {told}"


def test_the_end_of_a_child_that_a_tool_forked_is_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def forks() -> str:
        monkeypatch.setattr(os, "getpid", lambda: 0)
        raise SystemExit(0)

    with pytest.raises(SystemExit):
        answering(forks).call("t")


# -- calling: arguments


def test_the_context_is_passed_and_cannot_be_given_by_the_client() -> None:
    def f(a: int, ctx: Ctx) -> str:
        return f"{a} {type(ctx).__name__}"

    assert answering(f).call("t", {"a": 1})["content"] == [text("1 FakeContext")]
    assert "ctx: unknown" in failed(answering(f).call("t", {"a": 1, "ctx": {}}))


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


def test_a_whole_result_with_structured_content_alone_gets_its_text() -> None:
    result = returning({"structuredContent": {"a": 1}}).call("t")
    assert result == {"content": [text('{"a": 1}')], "structuredContent": {"a": 1}}


@pytest.mark.parametrize("value", [{"content": ["no block"]}, {"content": [], "more": 1}, {"isError": True}])
def test_data_that_only_resembles_a_result_is_data(value: Any) -> None:
    assert list(returning(value).call("t")) == ["content"]


def test_what_has_no_form_in_json_is_a_failed_call_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert "cannot be written as JSON" in failed(returning(object()).call("t"))
    assert caplog.records
    within: list[Any] = []
    within.append(within)
    assert "nested too deeply, cannot be written as JSON" in failed(returning(within).call("t"))


# -- calling: results with an outputSchema


def test_structured_content_that_is_not_an_object_is_left_out_where_only_objects_are_allowed() -> None:
    server = returning({"content": [], "structuredContent": [1]})
    assert server.call("t") == {"content": []}
    assert server.call("t", revision=REVISIONS["2026-07-28"]) == {"content": [], "structuredContent": [1]}


@pytest.mark.parametrize("hint", [list, list[Any], tuple])
@pytest.mark.parametrize("value", [[], ["a", "b"], ["{}"], [1, "a", None], [text("a"), 1]])
def test_a_list_of_whatever_is_json_in_every_revision(value: list[Any], hint: Any) -> None:
    def f():  # type: ignore[no-untyped-def]
        return value

    f.__annotations__["return"] = hint
    for revision in REVISIONS.values():
        result = answering(f).call("t", revision=revision)
        assert json.loads(text_of(result)) == value
        assert ("structuredContent" in result) is (revision.structured_content == "any")


def test_blocks_in_a_list_of_whatever_are_to_be_seen() -> None:
    blocks = ["here", image(b"x", "image/png")]

    def f() -> list:  # type: ignore[type-arg]
        return blocks

    def g() -> list[dict[str, str]]:
        return [{"type": "text", "text": "data"}]

    assert answering(f).call("t") == {"content": [text("here"), blocks[1]]}
    newest = REVISIONS["2026-07-28"]
    shown = {"content": [text("here"), blocks[1]], "structuredContent": blocks}
    assert answering(f).call("t", revision=newest) == shown
    assert json.loads(text_of(answering(g).call("t"))) == g()


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


# -- the client's half


class Peer(FakeCaller):
    """A client of a server that answers with these results, one after the other."""

    timeout, follower = 60.0, None
    list_tools, list_tools_page, call_tool = tools.list_tools, tools.list_tools_page, tools.call_tool

    def __init__(self, *results: Any) -> None:
        super().__init__(*results)
        self.tool_definitions: dict[str, Any] = {}


def listing(name: str, **more: Any) -> JsonObject:
    """A list of one tool."""
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}, **more}]}


OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
GOOD: Any = {"content": [], "structuredContent": {"a": 1}}
BARE: Any = {"content": []}


def listed(*results: Any, output: Any = OBJECT) -> Peer:
    """One that has listed the tool "t"."""
    client = Peer(listing("t", outputSchema=output), *results)
    client.list_tools()
    return client


def test_a_list_forgets_the_tools_that_are_gone() -> None:
    client = Peer(listing("a"), listing("b"))
    client.list_tools()
    client.list_tools()
    assert set(client.tool_definitions) == {"b"}


def test_a_walk_that_a_change_overtook_is_not_remembered() -> None:
    class Overtaken(Peer):
        def request(self, *asked: Any) -> JsonObject:
            self.tool_definitions = {}
            return super().request(*asked)

    client = Overtaken(listing("a"))
    client.list_tools()
    assert client.tool_definitions == {}


def test_a_tool_that_is_not_in_the_list_is_not_looked_for_again() -> None:
    client = listed(GOOD, GOOD)
    client.call_tool("hidden")
    client.call_tool("hidden")
    assert [method for method, *_ in client.asked] == ["tools/list", "tools/call", "tools/call"]


def test_a_result_is_not_lost_because_the_list_fails(caplog: pytest.LogCaptureFixture) -> None:
    assert Peer(GOOD, RequestTimeout("late")).call_tool("t") == GOOD
    assert "late" in caplog.text


def test_the_time_of_a_call_holds_while_its_result_is_checked() -> None:
    slow = {"items": {"allOf": [{"type": "object"}] * 500}}
    client = listed({"content": [], "structuredContent": [{"a": number} for number in range(20_000)]}, output=slow)
    began = time.thread_time()
    with pytest.raises(RequestTimeout, match="checking a value"):
        client.call_tool("t", timeout=0.2)
    assert time.thread_time() - began < 3


@pytest.mark.parametrize("schema", [{"$schema": "urn:x"}, {"$ref": "https://example.com/s"}, {"type": 5}])
def test_an_output_schema_that_cannot_be_used_is_logged_once_and_not_applied(
    schema: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = listed(GOOD, BARE, output=schema)
    assert client.call_tool("t") == GOOD
    assert client.call_tool("t") == BARE
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
