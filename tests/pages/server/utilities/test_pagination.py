from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref.errors import ErrorResponse, InvalidParams, RemoteProtocolError, RequestTimeout
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.server.utilities import pagination
from mcp_ref.pages.server.utilities.pagination import answer_list, walk
from mcp_ref.revisions import REVISIONS
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options
from tests.eras import open_client
from tests.pages.server.fakes import FakeCaller, FakeContext, FakeServer
from tests.support.wire import Background

NAMES = "abcdefg"


def ask(keys: Iterable[str], cursor: str | None = None, size: int = 3) -> tuple[list[str], str | None]:
    """The keys of one page of a registry, and the cursor of the next page."""
    server = FakeServer()
    for key in keys:
        server.register("templates", key, SimpleNamespace(definition={"uriTemplate": key, "name": "same"}))
    ctx: Any = FakeContext(server)
    ctx.server.page_size = size
    result = answer_list(ctx, "templates", {} if cursor is None else {"cursor": cursor}, "resourceTemplates")
    assert set(result) <= {"resourceTemplates", "nextCursor"}
    return [template["uriTemplate"] for template in result["resourceTemplates"]], result.get("nextCursor")


class Asker(FakeCaller):
    """A Caller whose peer is a function from a cursor to a result."""

    def __init__(self, answer: Callable[[str | None], JsonObject]) -> None:
        super().__init__()
        self.answer = answer

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        self.asked.append((method, params, options))
        return self.answer((params or {}).get("cursor"))


# -- answer_list --------------------------------------------------------------------------------------------------


def test_an_empty_list_is_one_empty_page() -> None:
    assert ask([]) == ([], None)


@pytest.mark.parametrize("cursor", ["", "!", "YQ", "é", "/w==", "_w==", "bm9uZQ=="])
def test_an_invalid_cursor_is_32602(cursor: str) -> None:
    with pytest.raises(InvalidParams, match="Invalid cursor") as refused:
        ask(NAMES, cursor)
    assert refused.value.code == -32602


def test_cursors_are_ascii_whatever_the_key() -> None:
    keys = ["x://ü/1", "x://ü/2", "x://\ud800", "x://4"]
    for size in (1, 2, 3):
        _, cursor = ask(keys, None, size)
        assert cursor is not None and cursor.isascii()
        assert ask(keys, cursor, 9) == (keys[size:], None)


# -- list_page and walk -------------------------------------------------------------------------------------------


def test_each_walk_begins_at_the_first_page_also_after_one_that_failed() -> None:
    asked: list[str | None] = []

    def answer(cursor: str | None) -> JsonObject:
        asked.append(cursor)
        if len(asked) == 2:
            raise ErrorResponse(-32603, "no", None)
        return {"tools": [1], "nextCursor": "x"} if cursor is None else {"tools": [2]}

    asker = Asker(answer)
    with pytest.raises(ErrorResponse):
        walk(asker, "tools/list", "tools", {})
    assert walk(asker, "tools/list", "tools", {}) == walk(asker, "tools/list", "tools", {}) == [1, 2]
    assert asked == [None, "x"] * 3


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("whole", [True, False], ids=["the list", "a page"])
def test_a_null_cursor_is_the_end(revision: str, whole: bool) -> None:
    lists = {
        "tools": ("list_tools", "list_tools_page", "tools"),
        "prompts": ("list_prompts", "list_prompts_page", "prompts"),
        "resources": ("list_resources", "list_resources_page", "resources"),
        "templates": ("list_resource_templates", "list_resource_templates_page", "resourceTemplates"),
    }
    with open_client(revision, {"tools": {}, "prompts": {}, "resources": {}}) as (client, wire):
        for all_pages, one_page, field in lists.values():
            call = Background(getattr(client, all_pages if whole else one_page))
            hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            wire.answer(wire.receive()["id"], {field: [], "nextCursor": None, **hints})
            assert call.outcome() == [] if whole else "nextCursor" not in call.outcome()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("wrong", "whole"), [(1, True), (10, True), (11, False)])
def test_a_list_is_read_without_the_few_entries_that_do_not_fit(
    revision: str, wrong: int, whole: bool, caplog: pytest.LogCaptureFixture
) -> None:
    good = [{"name": name, "inputSchema": {"type": "object"}} for name in "ac"]
    with open_client(revision, {"tools": {}}) as (client, wire):
        call = Background(client.list_tools)
        listed = [good[0], {"name": "b", "inputSchema": None}, *[{"inputSchema": {}}] * (wrong - 1), good[1]]
        hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        wire.answer(wire.receive()["id"], {"tools": listed, **hints})
        found = call.outcome()
    if whole:
        assert [each["name"] for each in found] == ["a", "c"]
        assert (
            caplog.text.count("left an entry of a list out") == wrong and "result.tools[1].inputSchema" in caplog.text
        )
    else:
        assert isinstance(found, RemoteProtocolError) and "result.tools[1]" in str(found)


def test_a_list_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "MAX_PAGES", 5)
    asker = Asker(lambda cursor: {"tools": [], "nextCursor": f"{cursor}+"})
    with pytest.raises(RemoteProtocolError, match="more than 5 pages"):
        walk(asker, "tools/list", "tools", {})
    assert len(asker.asked) == 5


def test_a_list_of_too_many_bytes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "MAX_LIST_SIZE", 3 << 20)
    most = 4
    asker = Asker(lambda cursor: {"tools": ["x" * 1_000_000], **({"nextCursor": f"{cursor}+"} if most else {})})
    with pytest.raises(RemoteProtocolError, match="the pages of tools/list have more than 3 MiB"):
        walk(asker, "tools/list", "tools", {})
    assert len(asker.asked) == 5
    # One page may have any size, and so may the pages of two walks.
    most = 0
    assert len(walk(asker, "tools/list", "tools", {})) == 1


def test_one_timeout_bounds_all_pages_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def deadline(timeout: float | None) -> Deadline:
        return Deadline(timeout, clock=lambda: now[0])

    monkeypatch.setattr(pagination, "Deadline", deadline)

    def answer(cursor: str | None) -> JsonObject:
        now[0] += 4
        return {"tools": [], "nextCursor": f"{cursor}+"}

    asker = Asker(answer)
    with pytest.raises(RequestTimeout, match="while listing with tools/list"):
        walk(asker, "tools/list", "tools", {"timeout": 10, "max_timeout": 20})
    assert [options for _, _, options in asker.asked] == [
        {"timeout": 10, "max_timeout": 20},
        {"timeout": 6, "max_timeout": 16},
        {"timeout": 2, "max_timeout": 12},
    ]


def test_without_a_number_each_page_has_the_callers_own_limit() -> None:
    asker = Asker(lambda _: {"tools": []})
    walk(asker, "tools/list", "tools", {"meta": {"k": 1}})
    walk(asker, "tools/list", "tools", {"timeout": None})
    assert [options for _, _, options in asker.asked] == [{"meta": {"k": 1}}, {"timeout": None}]
