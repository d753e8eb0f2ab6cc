"""server/utilities: completion, logging and pagination between a Client and a Server, in every revision."""

from __future__ import annotations

import json
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, LocalProtocolError, RemoteProtocolError, Server
from mcp_ref.pages.basic.versioning import LOG_LEVEL
from mcp_ref.pages.server.utilities.completion import prompt_ref, resource_ref
from mcp_ref.pages.server.utilities.logging import LEVELS
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from tests.eras import open_client, open_server
from tests.support.wire import PATIENCE, Background, opened

NAMES = list(REVISIONS)
OLDER = [row.name for row in SESSION_REVISIONS]
CONTEXT = {"2025-06-18", "2025-11-25", "2026-07-28"}
TEMPLATE = "weather://{country}/{city}"

Logged = SimpleQueue[dict[str, Any]]


@pytest.fixture
def server() -> Server:
    """A server with completions for a prompt and a template, and a tool that logs."""
    server = Server("s")

    @server.prompt()
    def plan(city: str, country: str = "", other: str = "") -> str:
        return city + country + other

    @server.resource(TEMPLATE)
    def now(country: str, city: str) -> str:
        return country + city

    @server.completion(prompt="plan", argument="city")
    def cities(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{value}-{json.dumps(arguments)}"]

    server.completion_values([f"{number:03}" for number in range(250)], resource=TEMPLATE, argument="city")

    @server.tool()
    def say(level: str, data: Any = None, ctx: Context = None) -> str:  # type: ignore[assignment]
        ctx.log(level, data, "say")  # type: ignore[arg-type]
        return "said"

    return server


# -- completion ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_suggestions_come_for_a_prompt_and_know_the_other_arguments_where_the_revision_has_them(
    server: Server, name: str
) -> None:
    known = {"country": "PT"}
    with Client(server, revision=name) as client:
        answer = client.complete(prompt_ref("plan"), "city", "Li", arguments=known)["completion"]
        plain = client.complete(prompt_ref("plan"), "city", "Li")["completion"]
    assert answer["values"] == [f"Li-{json.dumps(known if name in CONTEXT else {})}"]
    assert plain == {"values": ["Li-{}"], "total": 1, "hasMore": False}


def test_in_2024_11_05_completion_needs_no_capability() -> None:
    server = Server("s")
    server.prompt("p")(lambda a: a)
    with Client(server, revision="2024-11-05") as client:
        assert client.complete(prompt_ref("p"), "a", "")["completion"]["values"] == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("ref", "argument", "message"),
    [
        (prompt_ref("other"), "city", "Unknown prompt: other"),
        (prompt_ref("plan"), "town", "Unknown argument: town"),
        (resource_ref("x://{a}"), "a", "Unknown resource: x://{a}"),
        (resource_ref(TEMPLATE), "town", "Unknown argument: town"),
    ],
)
def test_what_cannot_be_completed_is_32602(server: Server, name: str, ref: Any, argument: str, message: str) -> None:
    with Client(server, revision=name) as client:
        with pytest.raises(ErrorResponse, match=message) as refused:
            client.complete(ref, argument, "")
    assert refused.value.code == -32602


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"argument": {"name": "city"}}, "params.argument.value"),
        ({"argument": {"name": "city", "value": 1}}, "params.argument.value"),
        ({"argument": None}, "params.argument"),
        ({"ref": {"type": "ref/tool", "name": "plan"}}, "params.ref"),
        ({"ref": {"type": "ref/prompt"}}, "params.ref.name"),
        ({"ref": ...}, "params.ref"),
        ({"argument": ...}, "params.argument"),
    ],
)
def test_params_that_do_not_fit_are_32602_naming_the_path(server: Server, name: str, change: Any, path: str) -> None:
    whole = {"ref": prompt_ref("plan"), "argument": {"name": "city", "value": ""}} | change
    params = {name: value for name, value in whole.items() if value is not ...}
    with open_server(server, name) as wire:
        error = wire.request(1, "completion/complete", params)["error"]
    assert error["code"] == -32602
    assert error["data"]["path"].startswith(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_completion_that_fails_is_32603(server: Server, name: str) -> None:
    server.completion(prompt="plan", argument="other")(lambda value: 1 / 0)
    with Client(server, revision=name) as client:
        with pytest.raises(ErrorResponse, match="Internal error") as failed:
            client.complete(prompt_ref("plan"), "other", "")
    assert failed.value.code == -32603


def asked(name: str, completion: Any) -> tuple[Any, Any]:
    """Return what a client makes of an answer to `completion/complete`: the result, or the problem, and what it
    sent.
    """
    with open_client(name, {"completions": {}}) as (client, wire):
        call = Background(client.complete, prompt_ref("p"), "a", "")
        request = wire.receive()
        wire.answer(request["id"], {"completion": completion})
        request["params"].pop("_meta", None)
        return call.outcome(), request["params"]


@pytest.mark.parametrize("name", NAMES)
def test_a_client_takes_an_answer_with_only_what_is_required(name: str) -> None:
    result, params = asked(name, {"values": ["x"]})
    assert result == {"completion": {"values": ["x"]}}
    assert params == {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("completion", [None, {}, {"values": "x"}, {"values": ["x"] * 101}])
def test_a_client_refuses_an_answer_that_does_not_fit(name: str, completion: Any) -> None:
    problem, _ = asked(name, completion)
    assert isinstance(problem, RemoteProtocolError)


# -- logging ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_level_is_heard_until_the_client_asks_for_less(server: Server, name: str) -> None:
    logged: Logged = SimpleQueue()
    with Client(server, revision=name, on_log=logged.put) as client:
        assert client.server_capabilities["logging"] == {}
        for level in LEVELS:
            client.call_tool("say", {"level": level, "data": {"of": level}})
        heard = [logged.get(timeout=PATIENCE) for _ in LEVELS]
        assert heard == [{"level": level, "logger": "say", "data": {"of": level}} for level in LEVELS]
        client.set_log_level("error")
        for level in LEVELS:
            client.call_tool("say", {"level": level})
        heard = [logged.get(timeout=PATIENCE) for _ in range(4)]
        assert [each["level"] for each in heard] == ["error", "critical", "alert", "emergency"]
        client.set_log_level("debug")
        client.call_tool("say", {"level": "debug", "data": [None, 1, "a"]})
        assert logged.get(timeout=PATIENCE)["data"] == [None, 1, "a"]
    assert logged.empty()


@pytest.mark.parametrize("name", OLDER)
def test_a_level_that_does_not_exist_is_32602(name: str) -> None:
    with opened(Server("s"), name) as wire:
        for number, params in enumerate(({"level": "warn"}, {"level": 3}, {})):
            error = wire.request(number, "logging/setLevel", params)["error"]
            assert (error["code"], error["data"]) == (-32602, {"path": "params.level"})
    with Client(Server("s"), revision=name) as client, pytest.raises(LocalProtocolError, match="unknown log level"):
        client.set_log_level("warn")  # type: ignore[arg-type]


def test_what_a_handler_logs_goes_to_the_client_that_it_serves_and_to_no_other(server: Server) -> None:
    logged: Logged = SimpleQueue()
    with Client(server, on_log=logged.put) as client, opened(server, "2025-11-25") as other:
        client.call_tool("say", {"level": "alert", "data": "yours"})
        assert logged.get(timeout=PATIENCE)["data"] == "yours"
        assert other.silent()


@pytest.mark.parametrize("name", NAMES)
def test_a_client_ignores_a_malformed_message(name: str) -> None:
    logged: Logged = SimpleQueue()
    with open_client(name, {"logging": {}}, on_log=logged.put) as (_, wire):
        for params in ({"level": "warn", "data": 1}, {"level": "info"}, {"data": 1}, {"level": "info", "data": "good"}):
            wire.notify("notifications/message", params)
        assert logged.get(timeout=PATIENCE) == {"level": "info", "data": "good"}


@pytest.mark.parametrize(("level", "data", "why"), [("warn", 1, "unknown log level"), ("info", {1, 2}, "JSON")])
def test_what_cannot_be_logged_is_the_callers_fault_also_where_nobody_listens(level: Any, data: Any, why: str) -> None:
    server = Server("s")
    with pytest.raises(LocalProtocolError, match=why):
        server.log(level, data)
    with opened(server, "2025-11-25") as wire:
        with pytest.raises(LocalProtocolError, match=why):
            server.log(level, data)
        assert wire.silent()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wanted", [True, False])
def test_a_handler_that_logs_no_json_hears_it_at_once(server: Server, name: str, wanted: bool) -> None:
    @server.tool()
    def wrong(ctx: Context) -> str:
        with pytest.raises(LocalProtocolError, match="JSON"):
            ctx.log("info", {1, 2})
        return "done"

    with Client(server, revision=name) as client:
        client.set_log_level("info" if wanted else "error")
        assert client.call_tool("wrong")["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.parametrize("name", NAMES)
def test_a_message_travels_before_the_answer_of_the_handler_that_logged(server: Server, name: str) -> None:
    with open_server(server, name) as wire:
        wanted = {"_meta": {LOG_LEVEL: "info"}} if name not in OLDER else {}
        call = {"name": "say", "arguments": {"level": "alert", "data": "loud"}, **wanted}
        message = {"level": "alert", "data": "loud", "logger": "say"}
        notified = wire.request(1, "tools/call", call)
        assert notified == {"jsonrpc": "2.0", "method": "notifications/message", "params": message}
        assert wire.receive()["result"]["content"] == [{"type": "text", "text": "said"}]


# -- pagination ---------------------------------------------------------------------------------------------------


def paged(size: int) -> Server:
    server = Server("s", page_size=size)
    for number in range(7):
        server.tool(f"t{number}")(lambda: "")
        server.prompt(f"p{number}")(lambda: "")
        server.resource(f"x://{number}", name="same")(lambda: "")
        server.resource(f"x://{number}/{{v}}", name="same")(lambda v: "")
    return server


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_every_list_is_walked_whatever_the_size_of_its_pages(name: str, size: int) -> None:
    with Client(paged(size), revision=name) as client:
        assert [each["name"] for each in client.list_tools()] == [f"t{number}" for number in range(7)]
        assert [each["name"] for each in client.list_prompts()] == [f"p{number}" for number in range(7)]
        assert [each["uri"] for each in client.list_resources()] == [f"x://{number}" for number in range(7)]
        found = [each["uriTemplate"] for each in client.list_resource_templates()]
        assert found == [f"x://{number}/{{v}}" for number in range(7)]


def test_a_list_may_change_between_two_pages() -> None:
    server = paged(3)
    with Client(server) as client:
        first = client.list_tools_page()
        server.remove_tool("t0")
        server.tool("t7")(lambda: "")
        second = client.list_tools_page(first["nextCursor"])
        assert [each["name"] for each in second["tools"]] == ["t3", "t4", "t5"]
        server.remove_tool("t5")
        with pytest.raises(ErrorResponse, match="Invalid cursor"):
            client.list_tools_page(second["nextCursor"])


def walked(name: str, pages: list[Any]) -> tuple[Any, list[Any]]:
    """Return what a client's walk came to where the server's pages are these, and the params that it asked with."""
    asked: list[Any] = []
    with open_client(name, {"tools": {}}) as (client, wire):
        walk = Background(client.list_tools)
        for number, cursor in enumerate(pages):
            request = wire.receive()
            asked.append({key: value for key, value in request.get("params", {}).items() if key != "_meta"})
            tools = [] if cursor == "after nothing" else [{"name": str(number), "inputSchema": {"type": "object"}}]
            wire.answer(request["id"], {"tools": tools} | ({} if cursor is None else {"nextCursor": cursor}))
        found = walk.outcome()
        assert wire.silent()
    return str(found) if isinstance(found, Exception) else [each["name"] for each in found], asked


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("pages", "found", "cursors"),
    [
        ([None], ["0"], []),
        (["", " {ä}\n", None], ["0", "1", "2"], ["", " {ä}\n"]),
        (["a", "after nothing", None], ["0", "2"], ["a", "after nothing"]),
        (["a", "b", "a"], "the same nextCursor twice: 'a'", ["a", "b"]),
    ],
    ids=["a server that does not page", "any text is a cursor", "an empty page", "a cursor that comes again"],
)
def test_a_walk_asks_with_each_cursor_as_it_came_until_there_is_none(
    name: str, pages: list[Any], found: Any, cursors: list[str]
) -> None:
    names, asked = walked(name, pages)
    assert found in names if isinstance(found, str) else names == found
    assert asked == [{}, *({"cursor": cursor} for cursor in cursors)]
