"""Tests of what a server tells of itself while it runs; how it starts, ends, and what it keeps meanwhile."""

from __future__ import annotations

import http.client
import logging
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcp_ref import Client, Command, Context, Server, Url, image, text, text_of
from mcp_ref.errors import HttpStatusError, McpError

ROOT = Path(__file__).parent.parent.parent
BOTH = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])

PROGRAM = """
import sys
from mcp_ref import Server

server = Server("weather")

@server.lifespan
def database():
    print("begun", file=sys.stderr, flush=True)
    yield "the database"
    print("ended", file=sys.stderr, flush=True)

@server.tool()
def read(ctx: "Context") -> str:
    return ctx.lifespan

try:
    server.run(*sys.argv[1:], **({"port": 0} if len(sys.argv) > 1 else {}))
finally:
    print("finally", file=sys.stderr, flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "weather.py"
    path.write_text(PROGRAM, "utf-8")
    return [sys.executable, str(path)]


def started(command: list[str], **options: Any) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, **options)


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stderr is not None
    return [process.stderr.readline().strip() for _ in range(count)]


def test_http_says_its_url_and_ctrl_c_ends_it_in_order(program: list[str]) -> None:
    with started([*program, "http"]) as process:
        begun, url, how = lines(process, 3)
        assert (begun, how) == ("begun", "Ctrl-C ends it")
        with Client(url.removeprefix("listening on ")) as client:
            assert text_of(client.call_tool("read")) == "the database"
        process.send_signal(signal.SIGINT)
        assert lines(process, 2) == ["ended", "finally"]
        assert process.wait(10) == 0


def test_at_a_terminal_it_says_what_it_waits_for_and_how_to_try_it(program: list[str]) -> None:
    ours, theirs = pty.openpty()
    try:
        with started(program, stdin=theirs, stdout=subprocess.DEVNULL) as process:
            waits, how, begun = lines(process, 3)
            assert "weather waits for an MCP client on standard input" in waits
            assert f"mcp_ref tools -- python {program[1]}" in how
            assert begun == "begun"
            process.send_signal(signal.SIGTERM)
            assert lines(process, 2) == ["ended", "finally"]
    finally:
        os.close(ours)
        os.close(theirs)


def test_in_a_pipe_it_says_nothing(program: list[str]) -> None:
    with started(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        _, said = process.communicate("", 10)
    assert said.split() == ["begun", "ended", "finally"]


# -- lifespan, state


@BOTH
def test_a_lifespan_lasts_from_the_first_client_to_the_last(revision: str) -> None:
    server, told = Server("s"), []

    @server.lifespan
    def database() -> Iterator[list[str]]:
        told.append("begun")
        yield told
        told.append("ended")

    @server.tool()
    def note(ctx: Context, what: str) -> None:
        ctx.lifespan.append(what)

    for _ in range(2):
        with Client(server, revision=revision) as one, Client(server, revision=revision) as other:
            one.call_tool("note", {"what": "one"})
            other.call_tool("note", {"what": "other"})
    assert told == ["begun", "one", "other", "ended"] * 2
    with server.serve_http() as service:
        with Client(service.url, revision=revision) as one:
            one.call_tool("note", {"what": "by http"})
        service.close()
    assert told[8:] == ["begun", "by http", "ended"]


def test_a_lifespan_that_fails_is_raised_by_whoever_serves_and_its_end_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, fail = Server("s"), ["at the start", "at the end"]

    @server.lifespan
    def database() -> Iterator[None]:
        if len(fail) == 2:
            raise ValueError(fail.pop(0))
        yield
        raise ValueError(fail.pop())

    with pytest.raises(ValueError, match="at the start"):
        server.serve_http()
    with Client(server) as client:
        with pytest.raises(RuntimeError, match="already serving"):
            server.lifespan(database)
        client.discover()
    assert "the end of the lifespan failed" in caplog.text


def keyed() -> Server:
    """A server whose tool tells the key of the session."""
    server = Server("s")

    @server.tool()
    def key(ctx: Context) -> str:
        return str(ctx.session_key)

    return server


@BOTH
def test_the_key_of_a_session_is_the_same_in_all_calls_of_a_client_and_no_other(revision: str) -> None:
    server = keyed()
    with Client(server, revision=revision) as one, Client(server, revision=revision) as other:
        keys = [text_of(client.call_tool("key")) for client in (one, one, other, other)]
    assert keys[0] == keys[1] != keys[2] == keys[3]


@BOTH
def test_a_user_has_one_key_whichever_session_and_another_user_another(revision: str) -> None:
    def who(request: Any) -> str:
        return str(request.headers["authorization"])

    with keyed().serve_http(authenticate=who) as service:
        keys = []
        for user in ("ann", "ann", "bob"):
            with Client(Url(service.url, {"Authorization": user}), revision=revision) as client:
                keys.append(text_of(client.call_tool("key")))
    assert keys == ["ann", "ann", "bob"]
    # Without sessions it is who asks, or nobody.
    with keyed().serve_http() as service, Client(service.url, revision="2026-07-28") as client:
        assert text_of(client.call_tool("key")) == "None"


# -- registering


def test_what_is_registered_can_be_replaced_if_that_is_said() -> None:
    server = Server("s")
    for version in ("first", "second"):
        server.tool("t", replace=True)(lambda version=version: version)  # type: ignore[misc]
        server.prompt("p", replace=True)(lambda version=version: version)  # type: ignore[misc]

        @server.resource("a:b", replace=True)
        def read() -> str:
            return version  # noqa: B023

    with Client(server) as client:
        assert text_of(client.read_resource("a:b")) == "second"
        assert len(client.list_tools()) == len(client.list_prompts()) == 1
    with pytest.raises(ValueError, match="replace=True"):
        server.tool("t")(lambda: "third")


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("returned", "contents"),
    [
        (Point(1), [{"uri": "a:b", "mimeType": "application/json", "text": '{"x": 1}'}]),
        ([1, 2], [{"uri": "a:b", "mimeType": "application/json", "text": "[1, 2]"}]),
        (None, []),
        (["one", text("two")], [{"uri": "a:b", "text": "one"}, {"uri": "a:b", "text": "two"}]),
        (image(b"\0", "image/png"), [{"uri": "a:b", "mimeType": "image/png", "blob": "AA=="}]),
        ({"type": "resource", "resource": {"uri": "c:d", "text": "x"}}, [{"uri": "c:d", "text": "x"}]),
    ],
)
def test_a_resource_may_return_what_a_tool_may(returned: Any, contents: list[Any]) -> None:
    server = Server("s")
    server.resource("a:b", name="r")(lambda: returned)
    with Client(server) as client:
        assert client.read_resource("a:b")["contents"] == contents


# -- refusals over HTTP


def test_a_wrong_path_says_which_is_right() -> None:
    with Server("s").serve_http(sse_path="/sse") as service:
        wrong = service.url.removesuffix("/mcp") + "/"
        connection = http.client.HTTPConnection(urlsplit(wrong).netloc, timeout=5)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (
            404, b"Nothing is served at this path; the server is at /mcp and /sse and /messages")  # fmt: skip
        connection.close()
        with pytest.raises(McpError) as refused, Client(wrong):
            pass
    assert isinstance(refused.value, HttpStatusError)
    assert "the server is at /mcp" in str(refused.value)


@pytest.mark.parametrize(("field", "value", "option"), [("Host", "evil.example", "hosts"),
                                                        ("Origin", "https://evil.example", "origins")])  # fmt: skip
def test_a_refused_host_or_origin_names_itself_and_its_option_and_is_logged(
    field: str, value: str, option: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server("s").serve_http() as service, caplog.at_level(logging.DEBUG, "mcp_ref"):
        connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=5)
        connection.request("POST", "/mcp", "{}", {"Content-Type": "application/json", field: value})
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
    told = [record for record in caplog.records if "not allowed" in record.getMessage()]
    # Beside the line that each refusal has.
    logged = [record.getMessage() for record in told if not record.getMessage().startswith("refused ")]
    assert (answer.status, len(logged)) == (403, 1)
    for line in (said, *logged):
        assert f"{field} not allowed (evil.example)" in line
        assert f"{option}=[...]" in line


# -- reprs


def test_what_is_printed_by_its_repr_is_short_and_holds_no_secret() -> None:
    server = Server("weather", "1.0")
    assert repr(server) == "<Server 'weather' 1.0: nothing registered>"

    @server.tool()
    def show(ctx: Context) -> str:
        return repr(ctx)

    assert repr(server) == "<Server 'weather' 1.0: 1 tools>"
    client = Client(server)
    assert repr(client) == "<Client of <Server 'weather' 1.0: 1 tools>: not connected>"
    with client:
        assert repr(client).endswith(": 2026-07-28, weather>")
        assert text_of(client.call_tool("show")).startswith("<Context of tools/call, request ")
    assert repr(client).endswith(": closed>")
    hidden = Url("https://example.com/mcp?key=secret", {"Authorization": "secret"})
    assert repr(hidden) == "<Url https://example.com/mcp>"
    assert repr(Client(hidden)) == "<Client of https://example.com/mcp: not connected>"
    assert repr(Command(["python", "x.py"], {"TOKEN": "secret"})) == "<Command python x.py>"
    with server.serve_http() as service:
        assert repr(service) == f"<HttpService at {service.url}>"
