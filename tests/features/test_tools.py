"""server/tools by every way: what a call brings back, and what it says meanwhile."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Context, ErrorResponse, LocalProtocolError, Refusal, Server, ToolError, UrlElicitationRequired, text
from mcp_ref.pages.client.elicitation import required_urls, url_elicitation
from mcp_ref.pages.client.sampling import reply
from tests.eras import plain
from tests.features.conftest import Connect, hearing, newest, until
from tests.support.wire import PATIENCE, Background

BIG = "0123456789abcdé\n" * 2**17


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


def test_the_server_tells_that_its_tools_and_prompts_have_changed(connect: Connect) -> None:
    server, heard = Server("s", declare=["tools", "prompts"]), SimpleQueue[Any]()
    client = connect(server, on_change=lambda method, params: heard.put(method))
    with hearing(client, tools=True, prompts=True):
        assert client.list_tools() == []
        server.tool("new")(lambda: "new")
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"
        assert [tool["name"] for tool in client.list_tools()] == ["new"]
        server.remove_tool("new")
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"
        assert client.list_tools() == []
        server.prompt("new")(lambda: "new")
        assert heard.get(timeout=PATIENCE) == "notifications/prompts/list_changed"


def test_a_tool_requires_a_visit_first(connect: Connect) -> None:
    server, visited, heard = Server("s"), SimpleQueue[Any](), SimpleQueue[Any]()
    ended: list[Any] = []

    @server.tool()
    def pay(ctx: Context) -> str:
        if visited.empty():
            ended.append(ctx.complete_elicitation)
            raise UrlElicitationRequired([url_elicitation("Pay", "https://example.com/pay", "e-2")])
        return "paid"

    def open_url(url: str, message: str, host: str) -> bool:
        visited.put(url)
        return True

    client = connect(server, open_url=open_url, on_change=lambda method, params: heard.put(params))
    if connect.revision.url_elicitation_error:
        with pytest.raises(ErrorResponse) as required:
            client.call_tool("pay")
        assert required.value.code == -32042
        [page] = required_urls(required.value)
        assert page == {"mode": "url", "message": "Pay", "url": "https://example.com/pay", "elicitationId": "e-2"}
        assert client.visit_required(page) == {"action": "accept"}
        ended[0]("e-2")
        assert heard.get(timeout=PATIENCE) == {"elicitationId": "e-2"}
    elif not connect.alone:
        with pytest.raises(ErrorResponse, match="visit a page first"):
            client.call_tool("pay")
        return
    # In the stateless era the same `raise` is a question, which the client answers before it calls again.
    assert client.call_tool("pay")["content"] == [text("paid")]
    assert visited.qsize() == 1


@newest
def test_a_client_that_answers_may_call_the_server_itself(connect: Connect) -> None:
    server = Server("s")
    server.tool("inner")(lambda: "inner")

    @server.tool()
    def outer(ctx: Context) -> str:
        return str(ctx.sample("go on", max_tokens=1)["content"]["text"])  # type: ignore[call-overload]

    def sample(params: Any) -> Any:
        return reply(client.call_tool("inner")["content"][0]["text"], model="m")  # type: ignore[typeddict-item]

    client = connect(server, sample=sample)
    assert client.call_tool("outer")["content"] == [text("inner")]


@newest
def test_after_the_answer_a_handler_cannot_ask(connect: Connect) -> None:
    server, kept = Server("s"), SimpleQueue[Context]()

    @server.tool()
    def leave(ctx: Context) -> str:
        kept.put(ctx)
        return "left"

    connect(server, roots=[]).call_tool("leave")
    ctx = kept.get(timeout=PATIENCE)
    with pytest.raises(LocalProtocolError, match="answered"):
        until(lambda: ctx.roots() is None)


@newest
def test_sixteen_threads_call_at_once_and_each_gets_its_own_answer(connect: Connect) -> None:
    server, together = Server("s"), threading.Barrier(16, timeout=PATIENCE)

    @server.tool()
    def echo(number: int, ctx: Context) -> str:
        if number % 10 == 0:
            # All sixteen are in their handlers at the same time.
            together.wait()
        ctx.progress(number)
        return str(number)

    client = connect(server)

    def calls(first: int) -> list[Any]:
        found = []
        for number in range(first, first + 10):
            reports: list[float] = []
            result = client.call_tool(
                "echo", {"number": number}, on_progress=lambda at, *rest, reports=reports: reports.append(at)
            )
            found.append((result["content"], reports))
        return found

    threads = [Background(calls, 10 * thread) for thread in range(16)]
    for thread, call in enumerate(threads):
        assert call.outcome() == [([text(str(n))], [n]) for n in range(10 * thread, 10 * thread + 10)]


@newest
def test_a_big_message_goes_both_ways(connect: Connect) -> None:
    server = Server("s")
    server.tool("echo")(lambda what: what)
    result = connect(server).call_tool("echo", {"what": BIG})
    assert result["content"] == [text(BIG)]
