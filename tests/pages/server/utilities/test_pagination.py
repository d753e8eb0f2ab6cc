"""server/utilities/pagination, between a Client and a Server, in every revision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse, RemoteProtocolError, RequestTimeout, Server
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.server.utilities import pagination
from mcp_ref.pages.server.utilities.pagination import walk
from mcp_ref.revisions import REVISIONS
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options
from tests.eras import open_client
from tests.pages.server.fakes import FakeCaller
from tests.support.clock import Clock
from tests.support.wire import Background

every_revision = pytest.mark.parametrize("name", REVISIONS)

# -- the server ---------------------------------------------------------------------------------------------------


def paged(size: int) -> Server:
    server = Server("s", page_size=size)
    for number in range(7):
        server.tool(f"t{number}")(lambda: "")
        server.prompt(f"p{number}")(lambda: "")
        server.resource(f"x://{number}", name="same")(lambda: "")
        server.resource(f"x://{number}/{{v}}", name="same")(lambda v: "")
    return server


@every_revision
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


@pytest.mark.parametrize("cursor", ["", "!", "YQ", "é", "/w==", "_w==", "bm9uZQ=="])
def test_an_invalid_cursor_is_32602(cursor: str) -> None:
    with Client(paged(3)) as client, pytest.raises(ErrorResponse, match="Invalid cursor") as refused:
        client.list_tools_page(cursor)
    assert refused.value.code == -32602


@pytest.mark.parametrize("size", [1, 2, 3])
def test_cursors_are_ascii_whatever_the_key(size: int) -> None:
    server, names = Server("s", page_size=size), ["ü1", "ü2", "\ud800", "4"]
    for name in names:
        server.tool(name)(lambda: "")
    with Client(server) as client:
        assert client.list_tools_page()["nextCursor"].isascii()
        assert [each["name"] for each in client.list_tools()] == names


# -- the client ---------------------------------------------------------------------------------------------------


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


@every_revision
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


HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@every_revision
def test_a_null_cursor_is_the_end(name: str) -> None:
    lists = {
        "tools": "tools",
        "prompts": "prompts",
        "resources": "resources",
        "resource_templates": "resourceTemplates",
    }
    with open_client(name, {"tools": {}, "prompts": {}, "resources": {}}) as (client, wire):
        for each, field in lists.items():
            call = Background(getattr(client, f"list_{each}"))
            wire.answer(wire.receive()["id"], {field: [], "nextCursor": None, **HINTS})
            assert call.outcome() == []
            page = Background(getattr(client, f"list_{each}_page"))
            wire.answer(wire.receive()["id"], {field: [], "nextCursor": None, **HINTS})
            assert "nextCursor" not in page.outcome()


@every_revision
@pytest.mark.parametrize(("wrong", "whole"), [(1, True), (10, True), (11, False)])
def test_a_list_is_read_without_the_few_entries_that_do_not_fit(
    name: str, wrong: int, whole: bool, caplog: pytest.LogCaptureFixture
) -> None:
    good = [{"name": name, "inputSchema": {"type": "object"}} for name in "ac"]
    with open_client(name, {"tools": {}}) as (client, wire):
        call = Background(client.list_tools)
        listed = [good[0], {"name": "b", "inputSchema": None}, *[{"inputSchema": {}}] * (wrong - 1), good[1]]
        wire.answer(wire.receive()["id"], {"tools": listed, **HINTS})
        found = call.outcome()
    if whole:
        assert [each["name"] for each in found] == ["a", "c"]
        assert caplog.text.count("left an entry of a list out") == wrong
        assert "result.tools[1].inputSchema" in caplog.text
    else:
        assert isinstance(found, RemoteProtocolError) and "result.tools[1]" in str(found)


class Asker(FakeCaller):
    """A Caller whose peer is a function from a cursor to a result."""

    def __init__(self, answer: Callable[[str | None], JsonObject]) -> None:
        super().__init__()
        self.answer = answer

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        self.asked.append((method, params, options))
        return self.answer((params or {}).get("cursor"))

    def walk(self, **options: Any) -> list[Any]:
        return walk(self, "tools/list", "tools", options)  # type: ignore[arg-type]


def test_each_walk_begins_at_the_first_page_also_after_one_that_failed() -> None:
    asked: list[str | None] = []

    def answer(cursor: str | None) -> JsonObject:
        asked.append(cursor)
        if len(asked) == 2:
            raise ErrorResponse(-32603, "no", None)
        return {"tools": [1], "nextCursor": "x"} if cursor is None else {"tools": [2]}

    asker = Asker(answer)
    with pytest.raises(ErrorResponse):
        asker.walk()
    assert asker.walk() == asker.walk() == [1, 2]
    assert asked == [None, "x"] * 3


def test_a_list_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "MAX_PAGES", 6)
    monkeypatch.setattr(pagination, "MAX_LIST_SIZE", 3 << 20)
    endless = Asker(lambda cursor: {"tools": [], "nextCursor": f"{cursor}+"})
    with pytest.raises(RemoteProtocolError, match="more than 6 pages"):
        endless.walk()
    assert len(endless.asked) == 6
    large = {"tools": ["x" * 1_000_000]}
    huge = Asker(lambda cursor: {**large, "nextCursor": f"{cursor}+"})
    with pytest.raises(RemoteProtocolError, match="the pages of tools/list have more than 3 MiB"):
        huge.walk()
    assert len(huge.asked) == 5
    # One page may have any size.
    assert Asker(lambda cursor: {"tools": ["x" * 4_000_000]}).walk()


def test_one_timeout_bounds_all_pages_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(pagination, "Deadline", lambda timeout: Deadline(timeout, clock=clock))

    def answer(cursor: str | None) -> JsonObject:
        clock.now += 4
        return {"tools": [], "nextCursor": f"{cursor}+"}

    asker = Asker(answer)
    with pytest.raises(RequestTimeout, match="while listing with tools/list"):
        asker.walk(timeout=10, max_timeout=20)
    left: list[Any] = [(10, 20), (6, 16), (2, 12)]
    # Without a number each page has the caller's own limit.
    asker.answer = lambda cursor: {"tools": []}
    asker.walk(meta={"k": 1})
    asker.walk(timeout=None)
    given = [{"timeout": timeout, "max_timeout": maximum} for timeout, maximum in left]
    assert [options for _, _, options in asker.asked] == [*given, {"meta": {"k": 1}}, {"timeout": None}]
