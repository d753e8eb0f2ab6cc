"""client/roots, client/sampling, client/elicitation by every way: a handler asks the client while its call runs."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Context, ErrorResponse, InputRefused, LocalProtocolError, Server, UrlElicitationRequired, text
from mcp_ref.client.elicitation import decline, required_urls, url_elicitation
from mcp_ref.client.sampling import UserRejected, reply
from mcp_ref.errors import MissingClientCapability
from tests.features.conftest import Connect, session_era, stateless_era, until
from tests.wire import PATIENCE

FORM: Any = {"name": {"type": "string"}, "nights": {"type": "integer"}}


def answers(tmp_path: Path) -> dict[str, Any]:
    """A client's functions for all questions."""
    return {
        "roots": [tmp_path],
        "sample": lambda params: reply(params["messages"][0]["content"]["text"].upper(), model="m"),
        "elicit": lambda message, schema: {"name": message, "nights": 2},
    }


def has_elicitation(connect: Connect) -> bool:
    return str(connect.revision) >= "2025-06-18"


def test_a_tool_samples(connect: Connect, tmp_path: Path) -> None:
    server = Server("s")

    @server.tool()
    def shout(what: str, ctx: Context) -> str:
        message = ctx.sample(what, max_tokens=10)
        return f"{message['content']['text']} by {message['model']}"  # type: ignore[call-overload]

    client = connect(server, **answers(tmp_path))
    assert client.call_tool("shout", {"what": "hello"})["content"] == [text("HELLO by m")]


def test_a_tool_elicits_where_the_revision_has_it(connect: Connect, tmp_path: Path) -> None:
    server = Server("s")

    @server.tool()
    def book(ctx: Context) -> str:
        answer = ctx.elicit("Ada", FORM)
        return f"{answer['action']}: {answer['content']}"

    result = connect(server, **answers(tmp_path)).call_tool("book")
    if has_elicitation(connect):
        assert result["content"] == [text("accept: {'name': 'Ada', 'nights': 2}")]
    else:
        assert result["isError"] and "elicitation" in result["content"][0]["text"]


def test_a_tool_sends_the_user_to_a_page_where_the_revision_has_it(connect: Connect) -> None:
    server, asked, heard = Server("s"), SimpleQueue[Any](), SimpleQueue[Any]()

    @server.tool()
    def log_in(ctx: Context) -> str:
        answer = ctx.elicit_url("Log in", "https://example.com/in", elicitation_id="e-1")
        if not connect.alone:
            ctx.complete_elicitation("e-1")
        return answer["action"]

    def open_url(url: str, message: str, host: str) -> bool:
        asked.put((url, message, host))
        return True

    client = connect(server, open_url=open_url, on_change=lambda *message: heard.put(message))
    if not connect.revision.elicitation_modes:
        assert client.call_tool("log_in")["isError"]
        return
    assert client.call_tool("log_in")["content"] == [text("accept")]
    assert asked.get(timeout=PATIENCE) == ("https://example.com/in", "Log in", "example.com")
    if not connect.alone:
        assert heard.get(timeout=PATIENCE) == ("notifications/elicitation/complete", {"elicitationId": "e-1"})


def test_a_tool_requires_a_visit_first(connect: Connect) -> None:
    server, visited = Server("s"), SimpleQueue[Any]()

    @server.tool()
    def pay() -> str:
        if visited.empty():
            raise UrlElicitationRequired([url_elicitation("Pay", "https://example.com/pay", "e-2")])
        return "paid"

    def open_url(url: str, message: str, host: str) -> bool:
        visited.put(url)
        return True

    client = connect(server, open_url=open_url)
    if connect.revision.url_elicitation_error:
        with pytest.raises(ErrorResponse) as required:
            client.call_tool("pay")
        assert required.value.code == -32042
        [page] = required_urls(required.value)
        assert client.visit_required(page) == {"action": "accept"}
    elif not connect.alone:
        with pytest.raises(ErrorResponse, match="visited first"):
            client.call_tool("pay")
        return
    # In the stateless era the same `raise` is a question, which the client answers before it calls again.
    assert client.call_tool("pay")["content"] == [text("paid")]
    assert visited.qsize() == 1


def test_a_tool_samples_with_tools_where_the_revision_has_them(connect: Connect) -> None:
    server = Server("s")
    weather: Any = {"name": "weather", "inputSchema": {"type": "object"}}
    use: Any = {"type": "tool_use", "id": "u-1", "name": "weather", "input": {"city": "Lisbon"}}

    @server.tool()
    def ask(ctx: Context) -> str:
        return str(ctx.sample("hello", max_tokens=1, tools=[weather])["content"][0]["name"])  # type: ignore[call-overload]

    client = connect(server, sample=lambda params: reply([use], model="m"), capabilities={"sampling": {"tools": {}}})
    result = client.call_tool("ask")
    if connect.revision.sampling_tools:
        assert result["content"] == [text("weather")]
    else:
        assert result["isError"]


def test_a_tool_asks_for_the_roots(connect: Connect, tmp_path: Path) -> None:
    server = Server("s")
    server.tool("where")(where)
    client = connect(server, **answers(tmp_path))
    assert client.call_tool("where")["content"] == [text(tmp_path.resolve().as_uri())]


def where(ctx: Context) -> list[Any]:
    return [text(root["uri"]) for root in ctx.roots()]


def test_three_questions_in_one_handler_come_to_the_same_result_everywhere(connect: Connect, tmp_path: Path) -> None:
    server = Server("s")

    @server.tool()
    def plan(ctx: Context) -> str:
        ctx.progress(1)
        [root] = ctx.roots()
        ctx.progress(2)
        name = ctx.elicit("Ada", FORM)["content"]["name"] if has_elicitation(connect) else "Ada"
        ctx.log("info", "nearly there")
        message = ctx.sample(f"a trip for {name}", max_tokens=10)
        return f"{root['uri']}: {message['content']['text']}"  # type: ignore[call-overload]

    client, reports = connect(server, **answers(tmp_path)), SimpleQueue[Any]()
    result = client.call_tool("plan", on_progress=lambda *report: reports.put(report[0]))
    assert result["content"] == [text(f"{tmp_path.resolve().as_uri()}: A TRIP FOR ADA")]
    # Each run of the handler reports from its beginning: as many runs as there are questions, and one.
    expected = [1, *[1, 2] * 3] if connect.alone else [1, 2]
    assert [reports.get(timeout=PATIENCE) for _ in expected] == expected


@session_era("who refuses to sample ends the call, see the next test")
def test_a_user_may_say_no(connect: Connect) -> None:
    server, heard = Server("s"), SimpleQueue[Any]()

    @server.tool()
    def ask(ctx: Context) -> str:
        try:
            ctx.sample("hello", max_tokens=1)
        except ErrorResponse as refused:
            heard.put(refused.code)
        if has_elicitation(connect):
            heard.put(ctx.elicit("Ada", FORM)["action"])
        return "asked"

    def reject(params: Any) -> Any:
        raise UserRejected

    connect(server, sample=reject, elicit=lambda message, schema: decline()).call_tool("ask")
    assert heard.get(timeout=PATIENCE) == -1
    if has_elicitation(connect):
        assert heard.get(timeout=PATIENCE) == "decline"


@stateless_era("before, the handler is told of the refusal, and goes on")
def test_a_user_who_refuses_ends_the_call_and_one_who_declines_does_not(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def sample_it(ctx: Context) -> str:
        return str(ctx.sample("hello", max_tokens=1)["model"])

    @server.tool()
    def elicit_it(ctx: Context) -> str:
        return str(ctx.elicit("Ada", FORM)["action"])

    def reject(params: Any) -> Any:
        raise UserRejected

    client = connect(server, sample=reject, elicit=lambda message, schema: decline())
    with pytest.raises(InputRefused) as refused:
        client.call_tool("sample_it")
    assert isinstance(refused.value.__cause__, UserRejected)
    assert client.call_tool("elicit_it")["content"] == [text("decline")]


@session_era("see the next test")
def test_what_the_client_did_not_declare_is_not_asked(connect: Connect) -> None:
    server, heard = Server("s"), SimpleQueue[Any]()

    @server.tool()
    def ask(ctx: Context) -> str:
        for question in (ctx.roots, lambda: ctx.sample("hello", max_tokens=1), lambda: ctx.elicit("Ada", FORM)):
            with pytest.raises(LocalProtocolError):
                question()
            heard.put("refused here")
        return "asked"

    assert connect(server).call_tool("ask")["content"] == [text("asked")]
    assert heard.qsize() == 3


@stateless_era("before, nothing can be declared once the session is open")
def test_a_client_is_told_what_to_declare(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def ask(ctx: Context) -> str:
        ctx.roots()
        return "asked"

    @server.tool()
    def try_to_ask(ctx: Context) -> str:
        for question in (ctx.roots, lambda: ctx.sample("hello", max_tokens=1), lambda: ctx.elicit("Ada", FORM)):
            with pytest.raises(MissingClientCapability):
                question()
        return "not asked"

    client = connect(server)
    with pytest.raises(ErrorResponse) as refused:
        client.call_tool("ask")
    assert (refused.value.code, refused.value.data) == (-32021, {"requiredCapabilities": {"roots": {}}})
    assert client.call_tool("try_to_ask")["content"] == [text("not asked")]


@session_era("no server remembers a client's roots: whoever needs them asks in its request")
def test_the_server_hears_that_the_roots_have_changed_and_asks_again(connect: Connect, tmp_path: Path) -> None:
    folders, heard = [tmp_path], SimpleQueue[Any]()
    server = Server("s")

    @server.roots_changed
    def again(ctx: Context) -> None:
        heard.put([root["uri"] for root in ctx.roots()])

    client = connect(server, roots=lambda: folders)
    client.roots_changed()
    assert heard.get(timeout=PATIENCE) == [tmp_path.resolve().as_uri()]
    folders.clear()
    client.roots_changed()
    assert heard.get(timeout=PATIENCE) == []


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
