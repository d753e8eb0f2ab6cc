"""Mistakes of whoever calls: refused where they are made, with what was given and what to write instead."""

from __future__ import annotations

import sys
import traceback
from datetime import datetime
from typing import Any, cast

import pytest

from mcp_ref import (
    Client,
    Command,
    Context,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    Server,
    TransportClosed,
    Url,
    accept,
    audio,
    contents_bytes,
    data_of,
    image,
    text,
    text_of,
)
from tests.features.conftest import until
from tests.support.machine import free_port

CALLS: list[tuple[str, tuple[Any, ...]]] = [("call_tool", ("echo",)), ("list_tools", ()), ("discover", ())]


def connected(server: Server) -> Client:
    return Client(server, revision="2026-07-28")


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
def test_an_unknown_option_of_a_call_is_a_type_error(name: str, arguments: tuple[Any, ...]) -> None:
    server = Server("s")
    with connected(server) as client, pytest.raises(TypeError, match="no option time_out; there are .*timeout"):
        getattr(client, name)(*arguments, time_out=0.1)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_an_unknown_option_of_a_question_is_a_type_error(revision: str) -> None:
    server = Server("s")

    @server.tool()
    def ask(ctx: Context) -> str:
        for question in (lambda: ctx.elicit("?", {}, colour=1), lambda: ctx.sample("?", max_tokens=1, colour=1)):  # type: ignore[call-arg]
            with pytest.raises(TypeError, match="colour"):
                question()
        return "refused"

    with Client(server, revision=revision, elicit=lambda m, s: {}, sample=lambda p: {}) as client:
        assert text_of(client.call_tool("ask")) == "refused"


def test_arguments_of_a_tool_that_are_given_as_options_are_explained() -> None:
    with connected(Server("s")) as client, pytest.raises(TypeError, match="who.*arguments of a tool are one dict"):
        client.call_tool("echo", who="x")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("seconds", "error"),
    [(0, ValueError), (-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (True, TypeError)],
)
def test_a_time_limit_that_is_not_a_positive_number_is_refused_at_once(seconds: Any, error: type[Exception]) -> None:
    for name in ("timeout", "connect_timeout", "probe_timeout", "ping_interval"):
        with pytest.raises(error, match=name):
            Client(Server("s"), **{name: seconds})
    for name in ("question_timeout", "ping_interval"):
        with pytest.raises(error, match=name):
            Server("s", **{name: seconds})
    with connected(Server("s")) as client:
        with pytest.raises(error, match="timeout"):
            client.list_tools(timeout=seconds)
        with pytest.raises(error, match="max_timeout"):
            client.list_tools(max_timeout=seconds)
        with pytest.raises(error, match="timeout"):
            client.listen(tools=True, timeout=seconds)


@pytest.mark.parametrize("seconds", [float("inf"), 1e7])
@pytest.mark.parametrize("way", ["memory", "http"])
def test_a_time_limit_may_be_as_long_as_one_likes(way: str, seconds: float) -> None:
    """Over HTTP the first of these ended the thread that keeps the time limits of all others."""
    server = Server("s")

    @server.tool()
    def wait(ctx: Context) -> None:
        until(lambda: ctx.cancelled)

    with server.serve_http() as service:
        target: Any = server if way == "memory" else service.url
        with Client(target, timeout=seconds, connect_timeout=seconds) as client:
            assert client.list_tools(timeout=seconds)
            if way == "http":
                with pytest.raises(RequestTimeout):
                    client.call_tool("wait", timeout=0.1)
            client.close(seconds)


@pytest.mark.parametrize("target", [None, b"python", [], [1], {"command": "python"}, Command("python x")])
def test_a_target_that_cannot_be_one_is_a_type_error_before_anything_is_done(target: Any) -> None:
    with pytest.raises(TypeError, match="a command"):
        Client(target)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"when": "soon"}, 'when: expected a string of the format date-time, such as 2025-11-25T10:15:00Z, got "so'),
        ({"count": "many"}, 'count: expected an integer, got a string: "many"'),
        ({"count": "9" * 99}, f'count: expected an integer, got a string: "{"9" * 39}…'),
        ({"counts": 1}, "counts: unknown; known: when, count"),
    ],
)
def test_a_wrong_argument_is_shown_shortened_and_with_its_remedy(arguments: dict[str, Any], told: str) -> None:
    server = Server("s")

    @server.tool()
    def plan(when: datetime | None = None, count: int = 1) -> str:
        return "planned"

    with connected(server) as client:
        result = client.call_tool("plan", arguments)
    assert result.get("isError")
    assert told in text_of(result)


def test_the_text_and_the_bytes_of_a_result_have_helpers() -> None:
    server = Server("s")
    picture, sound = image(b"\x89PNG", "image/png"), audio(b"RIFF", "audio/wav")
    embedded = {"type": "resource", "resource": {"uri": "a:b", "text": "of a resource"}}
    server.tool("show")(lambda: [text("one"), picture, sound, embedded, text("two")])
    server.resource("a:b", name="read")(lambda: "contents")
    server.prompt("write")(lambda: ["first", "second"])
    with connected(server) as client:
        assert text_of(client.call_tool("show")) == "one\nof a resource\ntwo"
        assert text_of(client.read_resource("a:b")) == "contents"
        assert text_of(client.get_prompt("write")) == "first\nsecond"
    assert (data_of(picture), data_of(sound)) == (b"\x89PNG", b"RIFF")
    for wrong in ({"type": "image", "data": "%"}, {"type": "audio", "data": None}):
        with pytest.raises(RemoteProtocolError, match=f"the data of a block of {wrong['type']} is not base64"):
            data_of(wrong)  # type: ignore[arg-type]
    for entry in ({"uri": "a:b", "blob": "%"}, {"uri": "a:b"}):
        with pytest.raises(RemoteProtocolError, match="the contents of a:b are neither text nor base64"):
            contents_bytes(entry)  # type: ignore[arg-type]


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "a number as a name": (lambda: Server(cast(Any, 3)), TypeError, r'Server\("weather"\), not 3'),
    "no name": (lambda: Server(""), TypeError, "name of a server must be a string"),
    "a number as a version": (lambda: Server("s", cast(Any, 1.0)), TypeError, "version must be a string, not 1"),
    "a number of workers": (lambda: Server("s", max_workers=0), ValueError, "max_workers must be a whole number"),
    "a feature alone": (lambda: Server("s", declare="tools"), TypeError, "declare must be a list"),
    "a server's info": (lambda: Server("s", info=cast(Any, "me")), TypeError, "info must be a dict, not 'me'"),
    "sse": (lambda: Server("s").run("sse"), ValueError, r"run\(\) knows .*, not 'sse'"),

    "a port for stdio": (lambda: Server("s").run(port=80), ValueError, r"max_message alone, not 'stdio' \['port'\]"),
    "an option of HTTP": (lambda: Server("s").serve_http(prot=80), TypeError, "no option prot over HTTP; there are "),  # type: ignore[call-arg]
    "one host": (lambda: Server("s").serve_http(hosts="a.example"), TypeError, "hosts must be a list of strings"),
    "one origin": (lambda: Server("s").wsgi(origins="http://a"), TypeError, "origins must be a list of strings, not"),
    "no slash": (lambda: Server("s").serve_http(path="mcp"), ValueError, "path must begin with a slash, .*'mcp'"),
    "a query": (lambda: Server("s").serve_http(path="/mcp?a"), ValueError, "path .*and have no query, not"),
    "no slash for SSE": (lambda: Server("s").serve_http(sse_path="sse"), ValueError, "sse_path must begin with a"),
    "one path": (lambda: Server("s").serve_http(sse_path="/a", path="/a"), ValueError, "path, sse_path must be diff"),
    "a size as text": (lambda: Server("s").serve_http(max_message=cast(Any, "4MB")), TypeError, "max_message must be"),
    "no sessions": (lambda: Server("s").serve_http(max_sessions=-1), ValueError, "max_sessions must be a whole"),
    "idle for ever": (lambda: Server("s").serve_http(idle=0), ValueError, "idle must be above 0 seconds, or None"),
    "a line as command": (lambda: Client("python x.py"), ValueError, r"list of strings, \['python', 'x.py'\]"),

    "a file as command": (lambda: Client("x.py"), ValueError, r"list of strings, \['python', 'x.py'\]"),
    "a URL without scheme": (lambda: Client("localhost:8000/mcp"), ValueError, "write 'http://localhost:8000/mcp'"),
    "answers as a dict": (lambda: Client(["x"], elicit=cast(Any, {})), TypeError, "elicit must be a function, not"),
    "one folder": (lambda: Client(["x"], roots="/tmp"), TypeError, "roots must be a list of folders"),
    "a root elsewhere": (lambda: Client(["x"], roots=["https://a.example"]), LocalProtocolError, "a file:// URI"),

    "a number in env": (lambda: Client(Command(["x"], env=cast(Any, {"A": 5}))), TypeError, "variable 'A' in env must"),
    "a number as trace": (lambda: Client(Server("s"), trace=cast(Any, 3)).connect(), TypeError, "trace= takes a path"),
    "no brackets": (lambda: Server("s").prompt(cast(Any, print)), TypeError, r"write @server.prompt\(\)"),
    "proxies": (
        lambda: Client(Url("http://a.example/mcp", options={"proxies": "x"})), TypeError, "proxies must be a dict, not"
    ),
    "options": (lambda: Client(Url("http://a.example/mcp", options=cast(Any, "x"))), TypeError, "options must be a"),
    "its headers": (lambda: Client(Url("http://a.example/mcp", cast(Any, "x"))), TypeError, "headers must be a dict"),
    "cache": (lambda: Client(Server("s"), cache=cast(Any, {})), TypeError, "cache must be a bool or a ResultCache"),
    "old over HTTP": (lambda: Server("s", revisions="2024-11-05").serve_http(), ValueError, "-11-05 needs sse_path="),
    "no URI": (lambda: Server("s").resource(cast(Any, print)), TypeError, r'write @server.resource\("scheme:path"\)'),
    "no type of ctx": (lambda: Server("s").tool("t")(lambda ctx: ""), TypeError, "write `ctx: Context`"),
}  # fmt: skip
"""What somebody new writes, what it raises, and what the error says to write instead."""


@pytest.mark.parametrize(("mistake", "error", "remedy"), MISTAKES.values(), ids=MISTAKES)
def test_a_first_mistake_is_refused_at_once_with_what_would_be_right(
    mistake: Any, error: type[Exception], remedy: str
) -> None:
    with pytest.raises(error, match=remedy):
        mistake()


def test_a_service_given_for_its_url_is_told_its_url() -> None:
    with Server("s").serve_http() as service, pytest.raises(TypeError, match=f"its URL is {service.url}"):
        Client(cast(Any, service))


def test_bytes_that_a_tool_returns_are_told_their_forms() -> None:
    server = Server("s")

    @server.tool()
    def picture() -> Any:
        return b"\x89PNG"

    with connected(server) as client:
        assert "return image(), audio() or text()" in text_of(client.call_tool("picture"))


def test_a_server_that_ends_without_a_word_is_asked_for_its_run() -> None:
    with pytest.raises(TransportClosed, match=r"does the program call server.run\(\)\?"):
        Client([sys.executable, "-c", "from mcp_ref import Server; Server('s')"]).connect()


def test_one_revision_needs_no_list() -> None:
    assert [row.name for row in Server("s", revisions="2025-11-25").revisions] == ["2025-11-25"]


def late() -> None: ...


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_what_is_registered_after_a_client_has_connected_names_what_declares_it(revision: str) -> None:
    server, declaring = Server("s"), Server("s", declare=["tools"])
    with Client(server, revision=revision) as client, Client(declaring, revision=revision) as told:
        for each in (server, declaring):
            each.tool()(late)
        with pytest.raises(LocalProtocolError, match=r'server\.tools, which was not declared;.* declare=\["tools"\]$'):
            client.list_tools()
        assert [tool["name"] for tool in told.list_tools()] == ["late"]


def test_what_only_the_other_era_has_names_the_call_of_this_one() -> None:
    server = Server("s", declare=["resources"])
    with Client(server, revision="2026-07-28") as client, pytest.raises(LocalProtocolError, match=r"client\.listen\("):
        client.subscribe_resource("a:b")
    with Client(server, revision="2025-11-25") as client:
        with pytest.raises(LocalProtocolError, match=r"client\.subscribe_resource\(uri\) and Client\(on_change="):
            client.listen(resources=["a:b"]).__enter__()


def test_what_others_call_a_member_of_the_context_is_told() -> None:
    server = Server("s")
    told = {
        "info": 'Context has no info; write ctx.log("info", data)',
        "report_progress": "Context has no report_progress; write ctx.progress(done, total)",
        "colour": "'Context' object has no attribute 'colour'",
    }

    @server.tool()
    def t(name: str, ctx: Context) -> str:
        with pytest.raises(AttributeError) as raised:
            getattr(ctx, name)
        return str(raised.value)

    with connected(server) as client:
        assert {name: text_of(client.call_tool("t", {"name": name})) for name in told} == told


def test_a_handler_that_asks_something_new_each_time_is_told_as_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    server, runs = Server("s"), iter(range(100))

    @server.tool()
    def t(ctx: Context) -> str:
        ctx.elicit(f"{next(runs)}?", {"a": {"type": "string"}})
        return "never"

    with Client(server, revision="2026-07-28", elicit=lambda message, schema: accept({"a": "b"})) as client:
        with pytest.raises(RemoteProtocolError, match="asked for input 10 times; is each question a new one"):
            client.call_tool("t")
    assert "differs from the question in the round before" in caplog.text


# -- over HTTP ----------------------------------------------------------------------------------------------------


def test_a_question_without_sessions_says_that_nobody_can_declare() -> None:
    problems: list[str] = []
    server = Server("s")

    @server.tool()
    def ask(ctx: Context) -> str:
        try:
            ctx.elicit("Which?", {"type": "object", "properties": {}})
        except LocalProtocolError as problem:
            problems.append(str(problem))
        return "asked"

    with server.serve_http(sessions=False) as http:
        with Client(http.url, revision="2025-11-25", elicit=lambda params: {"action": "decline"}) as client:
            client.call_tool("ask")
    assert problems == [
        "elicitation/create needs the capability client.elicitation, which no client of 2025-11-25 can declare without"
        " sessions (sessions=False)"
    ]
    # With sessions it is the client that has not.
    with server.serve_http() as http, Client(http.url, revision="2025-11-25") as client:
        client.call_tool("ask")
    assert problems[1].endswith("client.elicitation, which was not declared")


def test_a_refused_connection_is_told_in_one_traceback() -> None:
    with pytest.raises(TransportClosed, match="Connection refused") as caught:
        Client(f"http://127.0.0.1:{free_port()}/mcp").connect()
    assert "direct cause" not in "".join(traceback.format_exception(caught.value))
