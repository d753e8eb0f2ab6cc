"""Type hints -> shapes; and what a handler returned -> JSON.

Spec:      basic/index#json-schema-usage
Upholds:   the rows on derived schemas of spec_notes/server/tools.md
Reads:     server/shapes
Not here:  functions, their parameters and docstrings (server/signatures); the types of the wire (schema.py)

| hint | schema | what the value becomes |
|---|---|---|
| `str`, `int`, `float`, `bool`, `None` | the type | itself; 5.0 is an integer, true is none; an integer is a number |
| `Any`, `object` | `{}` | itself |
| `list[T]`, `Sequence[T]`, `Iterable[T]`, `Collection[T]` | array | list |
| `tuple[T, ...]`, `set[T]`, `frozenset[T]` | array (of `uniqueItems`) | tuple, set, frozenset |
| `tuple[A, B]` | array with `prefixItems` | tuple |
| `dict[str, T]`, `Mapping[str, T]` | object with `additionalProperties` | dict |
| `A | B`, `Optional[A]` | `anyOf` | what the first fitting arm makes of it, in the order written |
| `Literal`, `Enum` | `enum` of the values | the value, the member |
| dataclass, `TypedDict` | object, closed; recursive ones in `$defs` | an instance, a dict |
| `datetime`, `date`, `time`, `UUID`, `Path` | string, with `format` | an instance |
| `Annotated[T, "text"]` | T with that `description` | as T |
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

from mcp_ref.server.shapes import (
    ANYTHING,
    ARRAYS,
    SINGLE,
    Field,
    Shape,
    array_shape,
    choice_shape,
    library_shapes,
    map_shape,
    object_shape,
    tuple_shape,
    union_shape,
)

__all__ = ["Hints", "Unsupported", "default_in_json", "to_json"]

JsonObject = dict[str, Any]


class Unsupported(TypeError):
    """A hint that has no JSON Schema here."""

    def __init__(self, hint: Any, why: str = "has no JSON Schema here") -> None:
        super().__init__(f"{hint if not isinstance(hint, type) else hint.__qualname__} {why}")


class Hints:
    """Turns the hints of one schema into shapes; the recursive ones share the schema's `$defs`.

    Args:
        output: the shapes only check what `to_json()` made, and convert nothing; every field of a dataclass is there.

    Attributes:
        definitions: what belongs into `$defs` at the root of the schema, by name.
    """

    def __init__(self, *, output: bool = False) -> None:
        self.definitions: JsonObject = {}
        self._output = output
        self._names: dict[Any, str] = {}
        self._done: dict[Any, Shape] = {}
        self._recursive: set[Any] = set()

    def shape(self, hint: Any) -> Shape:
        """The shape of a resolved hint; raises `Unsupported`, a `TypeError`, naming the hint."""
        if isinstance(hint, NewType):
            return self.shape(hint.__supertype__)
        origin, args = get_origin(hint), get_args(hint)
        if not args:
            return self._plain(origin or hint)
        if origin is Annotated:
            return self._described(args[0], args[1:])
        if origin in (Union, types.UnionType):
            return union_shape([self.shape(arm) for arm in args])
        if origin is Literal:
            return self._literal(hint, args)
        if origin is tuple and args[-1:] != (...,):
            return tuple_shape([self.shape(each) for each in args])
        if origin in ARRAYS:
            return array_shape(self.shape(args[0]), list if self._output else ARRAYS[origin])
        if origin in (dict, Mapping):
            return self._mapping(hint, args)
        raise Unsupported(hint)

    def _plain(self, hint: Any) -> Shape:
        if hint in SINGLE:
            return SINGLE[hint]
        if hint in ARRAYS:
            return array_shape(ANYTHING, list if self._output else ARRAYS[hint])
        if hint in (dict, Mapping):
            return map_shape(ANYTHING)
        if not isinstance(hint, type):
            raise Unsupported(hint)
        if issubclass(hint, enum.Enum):
            return self._enum(hint)
        if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
            return self._object(hint)
        if hint in library_shapes():
            return library_shapes()[hint]
        raise Unsupported(hint)

    def _described(self, hint: Any, metadata: Sequence[Any]) -> Shape:
        shape = self.shape(hint)
        description = next((each for each in metadata if isinstance(each, str)), None)
        return shape if description is None else Shape(shape.schema | {"description": description}, shape.load)

    def _literal(self, hint: Any, values: Sequence[Any]) -> Shape:
        if any(isinstance(value, bytes | enum.Enum) for value in values):
            raise Unsupported(hint)
        return choice_shape([(value, value) for value in values])

    def _enum(self, hint: type[enum.Enum]) -> Shape:
        members = list(hint)
        if not members or not all(type(member.value) in (str, int, float, bool, type(None)) for member in members):
            raise Unsupported(hint, "has values that are not JSON scalars")
        return choice_shape([(member.value, member) for member in members])

    def _mapping(self, hint: Any, args: Sequence[Any]) -> Shape:
        if args[0] not in (str, Any):
            raise Unsupported(hint, "has keys that are not strings")
        return map_shape(self.shape(args[1]))

    def _object(self, hint: Any) -> Shape:
        if hint in self._done:
            return self._done[hint]
        if hint in self._names:
            # Still being made: it holds itself.
            self._recursive.add(hint)
            return Shape(
                {"$ref": f"#/$defs/{self._names[hint]}"},
                lambda value: self._done[hint].load(value),
            )
        same = sum(known.__name__ == hint.__name__ for known in self._names)
        self._names[hint] = f"{hint.__name__}{same + 1}" if same else hint.__name__
        shape = self._closed(hint)
        if hint in self._recursive:
            self.definitions[self._names[hint]] = shape.schema
            shape = Shape({"$ref": f"#/$defs/{self._names[hint]}"}, shape.load)
        self._done[hint] = shape
        return shape

    def _closed(self, hint: Any) -> Shape:
        try:
            hints = typing.get_type_hints(hint, include_extras=True)
        except NameError as exc:
            raise Unsupported(hint, f"has a field whose hint cannot be resolved: {exc}") from None
        if typing.is_typeddict(hint):
            return object_shape([self._key(hint, name, each) for name, each in hints.items()])
        fields = [each for each in dataclasses.fields(hint) if self._output or each.init]
        return object_shape(
            [self._field(each, hints[each.name]) for each in fields],
            dict if self._output else hint,
        )

    def _key(self, owner: Any, name: str, hint: Any) -> Field:
        required = name in owner.__required_keys__
        # Where annotations are strings, `__required_keys__` has not seen these.
        if get_origin(hint) in (Required, NotRequired):
            required, hint = get_origin(hint) is Required, get_args(hint)[0]
        return Field(name, self.shape(hint), required)

    def _field(self, field: dataclasses.Field[Any], hint: Any) -> Field:
        shape = self.shape(hint)
        if self._output:
            return Field(field.name, shape, required=True)
        if field.default is not dataclasses.MISSING:
            return Field(
                field.name,
                shape,
                required=False,
                default=default_in_json(field.default),
            )
        return Field(field.name, shape, required=field.default_factory is dataclasses.MISSING)


# -- back to JSON -------------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """The JSON value for what a handler returned: dataclasses, enums, dates, sets, and the containers of these.

    A date and time without a zone is taken as local time, because the format `date-time` needs an offset.

    Raises:
        TypeError: something in it has no form in JSON: a key that is not a string, NaN, an object of another class.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is list:
        return [to_json(each) for each in value]
    for base, convert in _TO_JSON:
        if isinstance(value, base):
            return convert(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return _json_of_library(value)


def default_in_json(value: Any) -> tuple[Any, ...]:
    """The JSON value of a default in a tuple, which is empty where it has none."""
    try:
        return (to_json(value),)
    except TypeError:
        return ()


def _json_object(value: Mapping[Any, Any]) -> JsonObject:
    if not all(isinstance(key, str) for key in value):
        raise TypeError("an object with a key that is not a string has no form in JSON")
    return {str(to_json(key)): to_json(each) for key, each in value.items()}


def _json_array(value: Iterable[Any]) -> list[Any]:
    return [to_json(each) for each in value]


def _json_set(value: AbstractSet[Any]) -> list[Any]:
    items = _json_array(value)
    try:
        return sorted(items)
    except TypeError:
        return items


def _json_float(value: float) -> float:
    if not math.isfinite(value):
        raise TypeError(f"{value} has no form in JSON")
    return float(value)


def _json_of_library(value: Any) -> str:
    """What the classes of `library_shapes()` become."""
    from datetime import date, datetime, time
    from pathlib import PurePath
    from uuid import UUID

    if isinstance(value, datetime):
        return (value if value.tzinfo else value.astimezone()).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID | PurePath):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


_TO_JSON: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    (Mapping, _json_object),
    (enum.Enum, lambda value: to_json(value.value)),
    (float, _json_float),
    (str, str.__str__),
    (int, int),
    ((list, tuple), _json_array),
    (AbstractSet, _json_set),
)
"""Classes and what they become, the first that fits; an enum before the str or int that it may be."""
