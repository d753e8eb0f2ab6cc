"""Tables that forget the oldest entry, and what is made of an object once."""

from __future__ import annotations

from typing import Any

from mcp_ref.kit.threads.bounded_dict import Latest, once


def test_a_table_forgets_the_entry_that_was_set_first() -> None:
    table: Latest[str, int] = Latest(2)
    for name in ("a", "b", "a", "c"):
        table[name] = len(table)
    assert list(table) == ["a", "c"]
    # One that is not full forgets nothing.
    table = Latest(2)
    table["a"] = table["b"] = table["a"] = 1
    assert table == {"b": 1, "a": 1}


def test_what_is_made_of_an_object_is_made_once() -> None:
    made: list[Any] = []
    get = once(lambda part: made.append(part) or len(made))  # type: ignore[func-returns-value]
    one, equal = {"a": 1}, {"a": 1}
    assert (get(one), get(one), get(equal), get(one)) == (1, 1, 2, 1)
    # An object that came to have the id of another is not taken for it.
    get = once(lambda part: part["name"])
    assert [get({"name": number}) for number in range(3000)] == list(range(3000))
