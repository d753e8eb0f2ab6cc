from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref.errors import InvalidParams, RemoteProtocolError, RequestTimeout
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.server.utilities import pagination
from mcp_ref.server.utilities.pagination import list_page, page, walk
from mcp_ref.types import PaginatedRequestParams
from tests.server.fakes import FakeCaller

TOOLS = [{"name": name} for name in "abcdefg"]


class Asker(FakeCaller):
    """A Caller whose peer is a function from a cursor to a result."""

    def __init__(self, answer: Callable[[str | None], JsonObject]) -> None:
        super().__init__()
        self.answer = answer

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        self.asked.append((method, params, options))
        return self.answer((params or {}).get("cursor"))


def pages_of(entries: list[dict[str, str]], size: int) -> list[list[str]]:
    found: list[list[str]] = []
    params: PaginatedRequestParams = {}
    while True:
        chosen, cursor = page(entries, params, size)
        found.append([entry["name"] for entry in chosen])
        if cursor is None:
            return found
        params = {"cursor": cursor}


# -- page ---------------------------------------------------------------------------------------------------------


def test_pages_follow_each_other_without_gap_or_overlap() -> None:
    assert pages_of(TOOLS, 3) == [list("abc"), list("def"), list("g")]


def test_a_list_that_fills_its_pages_exactly_has_no_empty_last_page() -> None:
    assert pages_of(TOOLS, 7) == [list("abcdefg")]


def test_an_empty_list_is_one_empty_page() -> None:
    assert page([], {}, 3) == ([], None)


def test_a_cursor_stays_right_when_other_entries_come_and_go() -> None:
    _, cursor = page(TOOLS, {}, 3)
    changed = [entry for entry in TOOLS if entry["name"] not in "ad"] + [{"name": "h"}]
    assert cursor is not None
    chosen, _ = page(changed, {"cursor": cursor}, 3)
    assert [entry["name"] for entry in chosen] == list("efg")


def test_a_cursor_whose_entry_is_gone_is_refused() -> None:
    _, cursor = page(TOOLS, {}, 3)
    assert cursor is not None
    with pytest.raises(InvalidParams, match="Invalid cursor"):
        page([entry for entry in TOOLS if entry["name"] != "c"], {"cursor": cursor}, 3)


@pytest.mark.parametrize("cursor", ["", "!", "YQ", "é", "/w==", "_w==", "bm9uZQ=="])
def test_an_invalid_cursor_is_32602(cursor: str) -> None:
    with pytest.raises(InvalidParams, match="Invalid cursor") as refused:
        page(TOOLS, {"cursor": cursor}, 3)
    assert refused.value.code == -32602


@pytest.mark.parametrize("field", ["name", "uri", "uriTemplate"])
def test_every_kind_of_list_has_cursors_even_with_keys_beyond_ascii(field: str) -> None:
    entries = [{field: "x://ü/1"}, {field: "x://ü/2"}, {field: "x://\ud800"}]
    chosen, cursor = page(entries, {}, 2)
    assert cursor is not None
    assert chosen == entries[:2]
    assert cursor.isascii()
    assert page(entries, {"cursor": cursor}, 2) == (entries[2:], None)


def test_resources_are_told_apart_by_uri_and_not_by_name() -> None:
    entries = [{"uri": "x://1", "name": "same"}, {"uri": "x://2", "name": "same"}]
    _, cursor = page(entries, {}, 1)
    assert cursor is not None
    assert page(entries, {"cursor": cursor}, 1) == (entries[1:], None)


# -- list_page and walk -------------------------------------------------------------------------------------------


def test_list_page_sends_the_cursor_unchanged_and_none_at_all_for_the_first_page() -> None:
    asker = Asker(lambda cursor: {"tools": [], "_meta": {"seen": cursor}})
    assert list_page(asker, "tools/list", None, {}) == {"tools": [], "_meta": {"seen": None}}
    list_page(asker, "tools/list", "", {})
    assert [params for _, params, _ in asker.asked] == [None, {"cursor": ""}]


def test_walk_gathers_every_page_and_takes_an_empty_string_for_a_cursor() -> None:
    answers: dict[str | None, Any] = {None: (1, ""), "": (2, "x"), "x": (3, None)}

    def answer(cursor: str | None) -> JsonObject:
        entry, following = answers[cursor]
        return {"tools": [entry]} if following is None else {"tools": [entry], "nextCursor": following}

    assert walk(Asker(answer), "tools/list", "tools", {}) == [1, 2, 3]


def test_walk_ends_at_a_null_cursor() -> None:
    assert walk(Asker(lambda _: {"tools": [1], "nextCursor": None}), "tools/list", "tools", {}) == [1]


def test_a_cursor_that_comes_twice_ends_the_walk_as_the_peers_fault() -> None:
    asker = Asker(lambda cursor: {"tools": [1], "nextCursor": "b" if cursor == "a" else "a"})
    with pytest.raises(RemoteProtocolError, match="the same nextCursor twice"):
        walk(asker, "tools/list", "tools", {})
    assert len(asker.asked) == 3


def test_a_list_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "MOST_PAGES", 5)
    asker = Asker(lambda cursor: {"tools": [], "nextCursor": f"{cursor}+"})
    with pytest.raises(RemoteProtocolError, match="more than 5 pages"):
        walk(asker, "tools/list", "tools", {})
    assert len(asker.asked) == 5


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
