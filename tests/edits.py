"""Edits of code, each of a statement or expression in a function; comments, line breaks and spaces do not matter.

A row has as `in` the name of a function or class, such as `Client.request` ("": the module), and as `old` and `new` an
expression, or statements that follow each other. `old` stands there once. A row without `in` replaces plain text.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

Row = dict[str, Any]


def edited(text: str, row: Row) -> ast.Module:
    """Parse the text of a module and make the edit; raises ValueError unless it fits exactly once."""
    if "in" not in row:
        if text.count(row["old"]) != 1:
            raise ValueError("the text to be replaced must stand in the file exactly once")
        return ast.parse(text.replace(row["old"], row["new"]))
    tree = ast.parse(text)
    (owner, field, start), old, new = place(tree, row)
    found = getattr(owner, field)
    line = (found if start is None else found[start]).lineno
    for node in new:
        ast.increment_lineno(node, line - 1)
    if start is None:
        setattr(owner, field, new[0])
    else:
        found[start : start + len(old)] = new or ([] if len(found) > len(old) else _code("pass"))
    return ast.fix_missing_locations(tree)


def place(tree: ast.Module, row: Row) -> tuple[tuple[ast.AST, str, int | None], list[Any], list[Any]]:
    """Find what a row replaces, and parse both; raises ValueError unless it stands there exactly once."""
    scopes = [scope for name, scope in scopes_of(tree) if name == row["in"]]
    old, new = _code(row["old"]), _code(row["new"])
    if (expression := _expression(old)) and (instead := _expression(new)):
        old, new = expression, instead
    places = [place for scope in scopes for place in _places(scope, [*map(ast.dump, old)])]
    if len(places) != 1:
        where = row["in"] or "the module"
        raise ValueError(f"{row['old']!r} must stand in {where} exactly once, not {len(places)} times")
    return places[0], old, new


@lru_cache(maxsize=200)
def scopes_of(tree: ast.Module) -> list[tuple[str, ast.AST]]:
    """Return the module, and each function and class, with its qualified name."""
    return [("", tree), *_named(tree)]


def _code(text: str) -> list[Any]:
    return list(ast.parse(textwrap.dedent(text)).body)


def _expression(statements: list[Any]) -> list[Any]:
    """The expression that a piece of code is; empty if it is more."""
    return [each.value for each in statements if isinstance(each, ast.Expr)] if len(statements) == 1 else []


def _named(node: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Each function and class with its qualified name."""
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{outer}.{child.name}".lstrip(".")
            yield name, child
        yield from _named(child, name)


def _places(scope: ast.AST, old: list[str]) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Where the nodes stand: what holds them, in which field, and from which place of a list on."""
    kinds = [dump.partition("(")[0] for dump in old]
    for owner, (field, value) in ((node, each) for node in ast.walk(scope) for each in ast.iter_fields(node)):
        several = value if isinstance(value, list) else [value]
        for start in range(len(several) - len(old) + 1):
            part = several[start : start + len(old)]
            if [type(node).__name__ for node in part] == kinds and [*map(ast.dump, part)] == old:
                yield owner, field, start if isinstance(value, list) else None
