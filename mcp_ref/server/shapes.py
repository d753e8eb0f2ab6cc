"""Shapes: a JSON Schema, together with the function that checks a value against it and converts it.

Spec:      basic/index#json-schema-usage
Upholds:   the rows on derived schemas of spec_notes/server/tools.md
Reads:     basic/formats
Not here:  which type hint has which shape (server/hints); schemas that people write (basic/json_schema)

The schema and the check come from the same place, so that they cannot disagree, and neither needs a library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from mcp_ref.basic import formats

__all__ = [
    "ANYTHING",
    "ARRAYS",
    "SINGLE",
    "Field",
    "Mismatch",
    "Shape",
    "array_shape",
    "choice_shape",
    "library_shapes",
    "map_shape",
    "object_shape",
    "tuple_shape",
    "union_shape",
]

JsonObject = dict[str, Any]
Load = Callable[[Any], Any]


class Mismatch(ValueError):
    """A value that does not fit; `problems` are (path, problem) pairs, paths such as ".days" or ".cities[0]"."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(self.told()))

    def under(self, step: str) -> list[tuple[str, str]]:
        """The same problems, seen from one level further out."""
        return [(step + path, problem) for path, problem in self.problems]

    def told(self) -> list[str]:
        """The problems as "path: problem"; without a path where the whole value is meant."""
        return [f"{path.removeprefix('.')}: {problem}" if path else problem for path, problem in self.problems]


class Shape(NamedTuple):
    """A hint's JSON Schema, and the function that checks a JSON value and converts it, or raises `Mismatch`."""

    schema: JsonObject
    load: Load


class Field(NamedTuple):
    """One named member of an object: a parameter, or a field of a dataclass or TypedDict."""

    name: str
    shape: Shape
    required: bool
    description: str | None = None
    default: tuple[Any, ...] = ()
    """The default as a JSON value, where it has one; only shown where it fits."""

    def schema(self) -> JsonObject:
        """The schema of the member."""
        extra: JsonObject = {}
        if self.description and "description" not in self.shape.schema:
            extra["description"] = self.description
        for value in self.default:
            if self._fits(value):
                extra["default"] = value
        return self.shape.schema | extra

    def _fits(self, value: Any) -> bool:
        try:
            self.shape.load(value)
        except Mismatch:
            return False
        return True


def object_shape(fields: Sequence[Field], make: Callable[..., Any] = dict) -> Shape:
    """The shape of a closed object; `make(**members)` builds what it becomes."""
    required = [field.name for field in fields if field.required]
    schema: JsonObject = {"type": "object"}
    if fields:
        schema["properties"] = {field.name: field.schema() for field in fields}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    loads = {field.name: field.shape.load for field in fields}
    return Shape(schema, functools.partial(_load_object, loads, frozenset(required), make))


def _load_object(
    loads: Mapping[str, Load],
    required: frozenset[str],
    make: Callable[..., Any],
    value: Any,
) -> Any:
    if not isinstance(value, dict):
        raise _expected("an object", value)
    members: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for name, item in value.items():
        load = loads.get(name)
        if load is None:
            problems.append((f".{name}", f"unknown; known: {', '.join(loads) or 'none'}"))
            continue
        try:
            members[name] = load(item)
        except Mismatch as exc:
            problems += exc.under(f".{name}")
    problems += [(f".{name}", "missing") for name in required - value.keys()]
    if problems:
        raise Mismatch(sorted(problems))
    return members if make is dict else _made(make, members)


def _made(make: Callable[..., Any], members: dict[str, Any]) -> Any:
    """An instance of a dataclass; what its own check raises is a mismatch like any other."""
    try:
        return make(**members)
    except (TypeError, ValueError) as exc:
        raise Mismatch([("", str(exc))]) from None


# -- single values ------------------------------------------------------------------------------------------------

_KINDS: Final = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
}


def _expected(what: str, value: Any) -> Mismatch:
    got = "null" if value is None else _KINDS.get(type(value), "a number")
    return Mismatch([("", f"expected {what}, got {got}")])


def _load_anything(value: Any) -> Any:
    return value


def _load_str(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _expected("a string", value)


def _load_int(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise _expected("an integer", value)


def _load_float(value: Any) -> float:
    # An int passes for a float in Python too, and making it one could lose digits.
    if isinstance(value, float) or type(value) is int:
        return value
    raise _expected("a number", value)


def _load_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _expected("a boolean", value)


def _load_null(value: Any) -> None:
    if value is not None:
        raise _expected("null", value)


def _text(name: str, fits: Callable[[str], bool], make: Callable[[str], Any]) -> Shape:
    """A string with a format, and what is made of it."""

    def load(value: Any) -> Any:
        if not fits(_load_str(value)):
            raise Mismatch([("", f"expected a string of the format {name}")])
        try:
            return make(value)
        except ValueError as exc:
            # A leap second has the format, and no datetime.
            raise Mismatch([("", str(exc))]) from None

    return Shape({"type": "string", "format": name}, load)


ANYTHING: Final = Shape({}, _load_anything)

SINGLE: Final[dict[Any, Shape]] = {
    str: Shape({"type": "string"}, _load_str),
    int: Shape({"type": "integer"}, _load_int),
    float: Shape({"type": "number"}, _load_float),
    bool: Shape({"type": "boolean"}, _load_bool),
    None: Shape({"type": "null"}, _load_null),
    type(None): Shape({"type": "null"}, _load_null),
    Any: ANYTHING,
    object: ANYTHING,
}


@functools.cache
def library_shapes() -> dict[Any, Shape]:
    """The single values whose classes come from modules that a start should not load (7 ms) where no hint has them."""
    from datetime import date, datetime, time
    from pathlib import Path
    from uuid import UUID

    return {
        datetime: _text("date-time", formats.is_date_time, lambda value: datetime.fromisoformat(value.upper())),
        date: _text("date", formats.is_date, date.fromisoformat),
        time: _text("time", formats.is_time, lambda value: time.fromisoformat(value.upper())),
        UUID: _text("uuid", formats.is_uuid, UUID),
        Path: Shape({"type": "string"}, lambda value: Path(_load_str(value))),
    }


ARRAYS: Final[dict[Any, Callable[[list[Any]], Any]]] = {
    list: list,
    Sequence: list,
    Iterable: list,
    Collection: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    AbstractSet: frozenset,
}


def choice_shape(choices: Sequence[tuple[Any, Any]]) -> Shape:
    """One of some values, given as (JSON value, what it becomes)."""
    # The flag keeps true apart from 1, which are equal in Python and not in JSON.
    made = {(isinstance(value, bool), value): result for value, result in choices}
    values = [value for value, _ in choices]
    told = ", ".join(repr(value) for value in values)

    def load(value: Any) -> Any:
        key = (isinstance(value, bool), value)
        if isinstance(value, str | int | float | None) and key in made:
            return made[key]
        raise Mismatch([("", f"expected one of {told}")])

    kinds = {type(value) for value in values}
    kind = SINGLE[kinds.pop()].schema if len(kinds) == 1 else {}
    return Shape(kind | {"enum": values}, load)


def array_shape(item: Shape, make: Callable[[list[Any]], Any]) -> Shape:
    def load(value: Any) -> Any:
        if not isinstance(value, list):
            raise _expected("an array", value)
        items = [_load_at(f"[{index}]", item.load, each) for index, each in enumerate(value)]
        try:
            made = make(items)
        except TypeError as exc:
            raise Mismatch([("", str(exc))]) from None
        if len(made) != len(items):
            raise Mismatch([("", "has an item twice")])
        return made

    schema: JsonObject = {"type": "array"}
    if item.schema:
        schema["items"] = item.schema
    return Shape(schema | ({"uniqueItems": True} if make in (set, frozenset) else {}), load)


def tuple_shape(items: Sequence[Shape]) -> Shape:
    def load(value: Any) -> Any:
        if not isinstance(value, list):
            raise _expected("an array", value)
        if len(value) != len(items):
            raise Mismatch([("", f"expected {len(items)} items, got {len(value)}")])
        return tuple(
            _load_at(f"[{i}]", item.load, each) for i, (item, each) in enumerate(zip(items, value, strict=True))
        )

    schema: JsonObject = {
        "type": "array",
        "minItems": len(items),
        "maxItems": len(items),
    }
    return Shape(schema | {"prefixItems": [item.schema for item in items]}, load)


def map_shape(item: Shape) -> Shape:
    def load(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _expected("an object", value)
        return {name: _load_at(f".{name}", item.load, each) for name, each in value.items()}

    return Shape(
        {"type": "object"} | ({"additionalProperties": item.schema} if item.schema else {}),
        load,
    )


def union_shape(arms: Sequence[Shape]) -> Shape:
    def load(value: Any) -> Any:
        found: list[Mismatch] = []
        for arm in arms:
            try:
                return arm.load(value)
            except Mismatch as exc:
                found.append(exc)
        # An arm that got into the value says most about it.
        inner = next((exc for exc in found if exc.problems[0][0]), None)
        raise inner or Mismatch([("", " or ".join(str(exc) for exc in found))])

    return Shape({"anyOf": [arm.schema for arm in arms]}, load)


def _load_at(step: str, load: Load, value: Any) -> Any:
    try:
        return load(value)
    except Mismatch as exc:
        raise Mismatch(exc.under(step)) from None
