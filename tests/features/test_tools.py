"""server/tools by every way: what a call brings back, and what it says meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Context, ErrorResponse, LocalProtocolError, Refusal, Server, ToolError, audio, image, text
from tests.eras import plain
from tests.features.conftest import Connect, alive, hearing, stateless_era
from tests.wire import PATIENCE


@dataclass
class Weather:
    city: str
    degrees: int


def test_tools_are_listed_and_called(connect: Connect) -> None:
    server = Server("s", instructions="ask for the weather")

    @server.tool(description="The weather in a city.")
    def forecast(city: str, days: int = 3) -> str:
        return f"{city}: sun for {days} days"

    client = connect(server)
    assert client.revision is connect.revision
    assert (client.server_info["name"], client.instructions) == ("s", "ask for the weather")
    [tool] = client.list_tools()
    assert (tool["name"], tool["description"]) == ("forecast", "The weather in a city.")
    assert tool["inputSchema"]["required"] == ["city"]
    assert client.call_tool("forecast", {"city": "Lisbon"})["content"] == [text("Lisbon: sun for 3 days")]
    assert client.call_tool("forecast", {"city": "東京\n", "days": 1})["content"] == [text("東京\n: sun for 1 days")]


def test_every_kind_of_content_arrives_as_far_as_the_revision_has_it(connect: Connect) -> None:
    server = Server("s")
    blocks: list[Any] = [
        text("seen"),
        image(b"\x89PNG", "image/png"),
        {"type": "resource", "resource": {"uri": "file:///a", "text": "a"}},
        audio(b"la", "audio/wav"),
        {"type": "resource_link", "uri": "file:///c", "name": "c"},
    ]
    server.tool("look")(lambda: blocks)
    content = connect(server).call_tool("look")["content"]
    known = {"2024-11-05": 3, "2025-03-26": 4}.get(str(connect.revision), 5)
    assert content[:known] == blocks[:known]
    assert [block["type"] for block in content[known:]] == ["text"] * (5 - known)


def test_a_tool_that_fails_is_a_result_and_a_refusal_an_error(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def fail(how: str) -> str:
        if how == "refuse":
            raise Refusal("not today", {"open": "tomorrow"}, code=7)
        raise ToolError("no such city") if how == "say" else RuntimeError("broken")

    client = connect(server)
    assert plain(client.call_tool("fail", {"how": "say"})) == {"content": [text("no such city")], "isError": True}
    assert client.call_tool("fail", {"how": "crash"})["isError"] is True
    with pytest.raises(ErrorResponse, match="not today") as refused:
        client.call_tool("fail", {"how": "refuse"})
    assert (refused.value.code, refused.value.data) == (7, {"open": "tomorrow"})
    with pytest.raises(ErrorResponse, match="Unknown tool") as unknown:
        client.call_tool("nothing")
    assert unknown.value.code == -32602


def test_structured_output_arrives_where_the_revision_has_it(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def measured() -> Weather:
        return Weather("Lisbon", 20)

    client = connect(server)
    result = client.call_tool("measured")
    [block] = result["content"]
    assert block["type"] == "text" and "Lisbon" in block["text"]
    if connect.revision.structured_content != "none":
        assert result["structuredContent"] == {"city": "Lisbon", "degrees": 20}
    else:
        assert "structuredContent" not in result


def test_progress_reaches_the_caller_before_the_result(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def climb(ctx: Context) -> str:
        for step in range(1, 4):
            ctx.progress(step, 3, f"step {step}")
        return "up"

    client, heard = connect(server), []
    result = client.call_tool("climb", on_progress=lambda *report: heard.append(report))
    assert result["content"] == [text("up")]
    messages = [None] * 3 if str(connect.revision) == "2024-11-05" else ["step 1", "step 2", "step 3"]
    assert heard == [(step, 3, message) for step, message in zip((1, 2, 3), messages, strict=True)]
    assert client.call_tool("climb")["content"] == [text("up")]
    assert len(heard) == 3


def test_log_messages_come_from_a_call_and_keep_their_order(connect: Connect) -> None:
    server, heard = Server("s"), SimpleQueue[Any]()

    @server.tool()
    def work(ctx: Context) -> str:
        for number in range(20):
            ctx.log("info", {"number": number}, "work")
        return "done"

    client = connect(server, on_log=heard.put)
    client.call_tool("work")
    got = [heard.get(timeout=PATIENCE) for _ in range(20)]
    assert got == [{"level": "info", "data": {"number": number}, "logger": "work"} for number in range(20)]


def test_only_the_level_that_was_asked_for_is_logged(connect: Connect) -> None:
    server, heard = Server("s"), SimpleQueue[Any]()

    @server.tool()
    def work(ctx: Context) -> str:
        for level in ("debug", "warning", "error"):
            ctx.log(level, level)  # type: ignore[arg-type]
        return "done"

    client = connect(server, on_log=heard.put)
    client.set_log_level("error")
    client.call_tool("work")
    client.set_log_level("debug")
    client.call_tool("work")
    assert [heard.get(timeout=PATIENCE)["level"] for _ in range(4)] == ["error", "debug", "warning", "error"]


@stateless_era("the session era has a level for the whole session")
def test_a_call_says_how_much_log_it_wants(connect: Connect) -> None:
    server, heard = Server("s"), SimpleQueue[Any]()

    @server.tool()
    def work(ctx: Context) -> str:
        for level in ("debug", "warning", "error"):
            ctx.log(level, level)  # type: ignore[arg-type]
        return str(ctx.log_level)

    client = connect(server, on_log=heard.put)
    levels = [client.call_tool("work", log_level=level)["content"] for level in ("error", "debug", None)]
    assert levels == [[text("error")], [text("debug")], [text("None")]]
    assert [heard.get(timeout=PATIENCE)["level"] for _ in range(4)] == ["error", "debug", "warning", "error"]
    # Without somebody to hear them none are asked for.
    assert connect(server).call_tool("work")["content"] == [text("None")]
    assert alive(client) and heard.empty()


def test_the_server_tells_that_its_tools_have_changed(connect: Connect) -> None:
    server, heard = Server("s", declare=["tools"]), SimpleQueue[Any]()
    client = connect(server, on_change=lambda method, params: heard.put(method))
    with hearing(client, tools=True):
        assert client.list_tools() == []
        server.tool("new")(lambda: "new")
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"
        assert [tool["name"] for tool in client.list_tools()] == ["new"]
        server.remove_tool("new")
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"
        assert client.list_tools() == []


@stateless_era("the session era tells everybody of every list")
def test_who_does_not_listen_hears_of_no_change(connect: Connect) -> None:
    server, heard = Server("s", declare=["tools", "prompts"]), SimpleQueue[Any]()
    client = connect(server, on_change=lambda method, params: heard.put(method))
    server.tool("new")(lambda: "new")
    with hearing(client, prompts=True):
        server.remove_tool("new")
        server.prompt("p")(lambda: "p")
        assert heard.get(timeout=PATIENCE) == "notifications/prompts/list_changed"
    # What the server has answered later, it has read later than the end of the subscription.
    assert alive(client)
    server.remove_prompt("p")
    assert alive(client) and heard.empty()


def test_what_the_server_did_not_declare_is_not_asked(connect: Connect) -> None:
    client = connect(Server("s"))
    with pytest.raises(LocalProtocolError, match=r"server\.tools"):
        client.call_tool("anything")
    assert alive(client)
