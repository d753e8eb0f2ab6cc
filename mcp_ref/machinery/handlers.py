"""Type hints -> shapes; and what a handler returned -> JSON.

Spec:      basic/index#json-schema-usage
Upholds:   the rows on derived schemas of spec_notes/server/tools.md
Not here:  functions, their parameters and docstrings (machinery/handlers); the types of the wire (schema.py)

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
import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NewType,
    NoReturn,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

from mcp_ref.machinery import json_schema as formats
from mcp_ref.machinery.shapes import JsonObject


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

# -- shapes ----------------------------------------------------------------------------------------------


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


# -- string arguments ------------------------------------------------------------------------------------


Convert = Callable[[str], Any]


class StringParameter(NamedTuple):
    """One parameter of a handler: whether a caller must give it, how its string is read, what is said about it."""

    name: str
    required: bool
    convert: Convert
    description: str | None


class StringHandler(NamedTuple):
    """A handler that has been inspected.

    Attributes:
        function: the handler.
        parameters: in the order of its signature, without the context.
        context: the name of the parameter that receives the context, or None.
        open_ended: the handler has `**arguments`, so that names without a parameter of their own are welcome.
    """

    function: Callable[..., Any]
    parameters: tuple[StringParameter, ...]
    context: str | None
    open_ended: bool

    def keywords(self, values: Mapping[str, str], ctx: Any) -> dict[str, Any]:
        """The keyword arguments for a call: the values converted, and the context.

        Raises:
            ValueError: one is missing, unknown or cannot be read; the text names it.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for parameter in self.parameters:
            if parameter.required and parameter.name not in values:
                raise ValueError(f"argument {parameter.name!r} is missing")
        keywords = {name: self._converted(known.get(name), name, value) for name, value in values.items()}
        if self.context is not None:
            keywords[self.context] = ctx
        return keywords

    def _converted(self, parameter: StringParameter | None, name: str, value: str) -> Any:
        if parameter is None:
            # A value must not take the place of the context.
            if not self.open_ended or name == self.context:
                raise ValueError(f"argument {name!r} is unknown")
            return value
        try:
            return parameter.convert(value)
        except ValueError as problem:
            raise ValueError(f"argument {name!r}: {problem}") from None


def inspect_strings(function: Callable[..., Any], context_type: type) -> StringHandler:
    """Read the signature of a handler.

    Raises:
        TypeError: it is a coroutine function, its annotations cannot be evaluated, or it has a parameter that no
            string can fill: positional only, `*args`, or of a type that the head of this module does not name.
    """
    name = getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{name}: a handler is a plain function, not a coroutine function")
    parameters, context, open_ended = list[StringParameter](), None, False
    said = _said_in_docstring(function)
    for parameter in signature_of(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise TypeError(f"{name}: parameter {parameter.name!r} cannot be passed by name")
        elif context_type in (parameter.annotation, *get_args(parameter.annotation)):
            context = parameter.name
        else:
            parameters.append(_read_parameter(parameter, name, said.get(parameter.name)))
    return StringHandler(function, tuple(parameters), context, open_ended)


def summary(function: Callable[..., Any]) -> str | None:
    """The first paragraph of a docstring as one line, or None."""
    first = _doc(function).partition("\n\n")[0]
    return " ".join(first.split()) or None


def _doc(function: Callable[..., Any]) -> str:
    # A partial object would answer with the documentation of its class.
    return inspect.getdoc(function.func if isinstance(function, functools.partial) else function) or ""


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a handler, its annotations evaluated; `TypeError` where they cannot be.

    An annotation imported under `if TYPE_CHECKING` alone is one that cannot.
    """
    name = getattr(function, "__name__", repr(function))
    try:
        return inspect.signature(function, eval_str=True)
    except (NameError, SyntaxError) as problem:
        raise TypeError(f"{name}: its annotations cannot be evaluated: {problem}") from problem


def _read_parameter(parameter: inspect.Parameter, function: str, said: str | None) -> StringParameter:
    annotation, description = parameter.annotation, said
    if get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
        description = next((note for note in notes if isinstance(note, str)), said)
    convert = _converter(annotation)
    if convert is None:
        raise TypeError(f"{function}: parameter {parameter.name!r}: no string can be read as {annotation!r}")
    return StringParameter(parameter.name, parameter.default is parameter.empty, convert, description)


# -- reading strings ----------------------------------------------------------------------------------------------


def _converter(annotation: Any) -> Convert | None:
    """How a string becomes what an annotation says, or None where it cannot."""
    if annotation in _CONVERTERS:
        return _CONVERTERS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _one_of({str(member.value): member for member in annotation} | dict(annotation.__members__))
    if get_origin(annotation) is Literal:
        return _one_of({str(choice): choice for choice in get_args(annotation)})
    if get_origin(annotation) in (Union, types.UnionType):
        arms = [arm for arm in get_args(annotation) if arm is not types.NoneType]
        return _converter(arms[0]) if len(arms) == 1 else None
    return None


def _as_is(text: str) -> str:
    return text


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,300}", text):
        raise ValueError("not an integer")
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", text) or not math.isfinite(
        float(text)
    ):
        raise ValueError("not a number")
    return float(text)


def _one_of(choices: Mapping[str, Any]) -> Convert:
    def convert(text: str) -> Any:
        if text not in choices:
            raise ValueError(f"not one of {', '.join(choices)}")
        return choices[text]

    return convert


_CONVERTERS: dict[Any, Convert] = {
    inspect.Parameter.empty: _as_is,
    Any: _as_is,
    str: _as_is,
    int: _integer,
    float: _number,
    bool: _one_of({"true": True, "false": False}),
}


# -- what a docstring says about parameters -------------------------------------------------------------------------

_SECTION = re.compile(r"(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+.*(?:\n|$)|[ \t]*\n)+)")
_ITEM = re.compile(r"([A-Za-z_]\w*)(?:[ \t]*\([^)\n]*\))?:[ \t]*(.*)")


def _said_in_docstring(function: Callable[..., Any]) -> dict[str, str]:
    """The texts of an `Args:` section by the names of the parameters."""
    section = _SECTION.search(_doc(function))
    lines = inspect.cleandoc("\n" + section[1]).splitlines() if section else []
    said: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        item = None if line[:1].isspace() else _ITEM.fullmatch(line)
        if item:
            current = said[item[1]] = [item[2]]
        else:
            current.append(line.strip())
    return {name: " ".join(texts).strip() for name, texts in said.items() if any(texts)}


# -- signatures ------------------------------------------------------------------------------------------


_BY_POSITION = {
    inspect.Parameter.POSITIONAL_ONLY: "can only be given by position",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of positional arguments",
    inspect.Parameter.VAR_KEYWORD: "takes any keyword arguments",
}


class Signature(NamedTuple):
    """What `inspect_handler()` found; immutable.

    Attributes:
        input_schema: the JSON Schema of the arguments: an object, closed.
        output_schema: the JSON Schema of what it returns; None: nothing is promised, or it was not looked at.
        context_parameter: the name of the parameter that receives the context, or None.
        summary: the first paragraph of the docstring in one line, or None.
        input: the shape behind `input_schema`.
        output: the shape behind `output_schema`.
    """

    input_schema: JsonObject
    output_schema: JsonObject | None
    context_parameter: str | None
    summary: str | None
    input: Shape
    output: Shape | None

    def arguments(self, given: JsonObject) -> dict[str, Any]:
        """Keyword arguments for the handler, in a new dict; what is not given is left to the handler's defaults.

        Raises:
            BadArguments: something is missing, unknown, or does not fit.
        """
        try:
            return self.input.load(given)  # type: ignore[no-any-return]
        except Mismatch as exc:
            raise BadArguments(exc.told()) from None
        except RecursionError:
            raise BadArguments(["nested too deeply to be checked"]) from None

    def output_problems(self, value: Any) -> list[str]:
        """What keeps a JSON value from fitting `output_schema`: "path: problem" strings, empty when nothing does."""
        try:
            if self.output is not None:
                self.output.load(value)
        except Mismatch as exc:
            return exc.told()
        except RecursionError:
            return ["nested too deeply to be checked"]
        return []


def inspect_handler(
    function: Callable[..., Any],
    context_type: type,
    *,
    inputs: bool = True,
    output: bool = True,
) -> Signature:
    """Read the hints, the defaults and the docstring of a handler.

    Args:
        function: a plain function, method or callable object whose parameters can all be given by name.
        context_type: a parameter annotated with it, or with it and None, receives the context and is in no schema.
        inputs: False: the arguments have a schema written by hand, so the hints of the parameters are not read.
        output: False: the result has a schema written by hand, or none. True: it is derived from the return
            annotation. There is none for what promises no structure: `str`, `None`, `Any`, no annotation, a bare
            `list` or `list[Any]`, and mcp_ref's content blocks and results.

    Raises:
        TypeError: the function is a coroutine or generator function, a hint cannot be resolved or has no JSON Schema
            here, or a parameter cannot be given by name; the text names the function, the parameter and the hint.
    """
    name = getattr(function, "__qualname__", repr(function))
    plain = _plain_function(function, name)
    hints = _resolved_hints(plain, context_type, name)
    parameters = inspect.signature(function).parameters
    context = next(
        (each for each in parameters if _is_context(hints.get(each), context_type)),
        None,
    )
    summary, texts = _documented(inspect.getdoc(plain) or "")
    read = [each for each in parameters.values() if inputs and each.name != context]
    taken, input_schema = _input(name, read, hints, texts)
    given, output_schema = _output(name, hints.get("return", Any)) if output else (None, None)
    return Signature(
        input_schema=input_schema,
        output_schema=output_schema,
        context_parameter=context,
        summary=summary,
        input=taken,
        output=given,
    )


# -- the function -------------------------------------------------------------------------------------------------


def _plain_function(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function that carries the hints and the docstring."""
    plain: Any = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    if not inspect.isroutine(plain) and not isinstance(plain, type):
        plain = type(plain).__call__
    found: Callable[..., Any] = inspect.unwrap(plain)
    if inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found):
        raise TypeError(f"{name}: a handler is a plain function; there is no event loop here to run `async def` in")
    if inspect.isgeneratorfunction(found):
        raise TypeError(f"{name}: a handler returns its result; it cannot yield")
    return found


def _resolved_hints(function: Callable[..., Any], context_type: type, name: str) -> dict[str, Any]:
    """The hints, where the context may be named by a string that its module imports for type checkers alone."""
    # Later entries win: the module's own names, and the types of the function that the handler was defined in.
    names = {
        context_type.__name__: context_type,
        **getattr(function, "__globals__", {}),
    }
    try:
        return typing.get_type_hints(function, localns=names, include_extras=True)
    except NameError as exc:
        raise TypeError(f"{name}: a type hint cannot be resolved: {exc}; define it in the module") from None


def _is_context(hint: Any, context_type: type) -> bool:
    arms = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return any(isinstance(arm, type) and issubclass(arm, context_type) for arm in arms)


# -- arguments ----------------------------------------------------------------------------------------------------


def _input(
    name: str,
    parameters: Sequence[inspect.Parameter],
    hints: Mapping[str, Any],
    texts: Mapping[str, str],
) -> tuple[Shape, JsonObject]:
    known = Hints()
    fields = []
    for each in parameters:
        if each.kind in _BY_POSITION:
            raise TypeError(f"{name}: parameter {each.name!r} {_BY_POSITION[each.kind]}; arguments come by name")
        try:
            shape = known.shape(hints.get(each.name, Any))
        except TypeError as exc:
            raise TypeError(f"{name}: parameter {each.name!r}: {exc}") from None
        fields.append(_argument(each, shape, texts.get(each.name)))
    shape = object_shape(fields)
    return shape, shape.schema | ({"$defs": known.definitions} if known.definitions else {})


def _argument(parameter: inspect.Parameter, shape: Shape, text: str | None) -> Field:
    if parameter.default is inspect.Parameter.empty:
        return Field(parameter.name, shape, required=True, description=text)
    default = default_in_json(parameter.default)
    return Field(parameter.name, shape, required=False, description=text, default=default)


# -- the result ---------------------------------------------------------------------------------------------------


def _output(name: str, hint: Any) -> tuple[Shape | None, JsonObject | None]:
    if _is_loose(hint):
        return None, None
    known = Hints(output=True)
    try:
        shape = known.shape(hint)
    except TypeError as exc:
        raise TypeError(f"{name}: the return annotation: {exc}") from None
    schema = shape.schema
    if "$ref" in schema:
        # A root that says `type: object` itself, because 2025-06-18 and 2025-11-25 can carry nothing else.
        schema = known.definitions[schema["$ref"].rpartition("/")[2]] | schema
        del schema["$ref"]
    return shape, schema | ({"$defs": known.definitions} if known.definitions else {})


def _is_loose(hint: Any) -> bool:
    """Whether a return annotation promises no structure."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _is_loose(args[0])
    if origin in (Union, types.UnionType):
        return any(_is_loose(arm) for arm in args if arm is not type(None))
    if origin in (list, tuple) and args:
        # A list of strings is data; one that may also hold blocks is content.
        return any(_is_loose(arm) for arm in args if arm not in (str, ...))
    return hint in (
        str,
        None,
        type(None),
        Any,
        object,
        NoReturn,
        typing.Never,
        list,
        tuple,
    ) or _is_wire_type(hint)


def _is_wire_type(hint: Any) -> bool:
    return typing.is_typeddict(hint) and hint.__module__.startswith("mcp_ref.")


# -- the docstring ------------------------------------------------------------------------------------------------

_HEADING = re.compile(r"(Args|Arguments|Parameters):\s*$")
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)")


def _documented(text: str) -> tuple[str | None, dict[str, str]]:
    """The first paragraph in one line, and the text of each entry under `Args:`."""
    paragraph = text.strip().split("\n\n")[0]
    summary = None if _HEADING.match(paragraph.split("\n")[0]) else " ".join(paragraph.split())
    lines = iter(text.splitlines())
    if not any(_HEADING.match(line) for line in lines):
        return summary or None, {}
    texts: dict[str, str] = {}
    depth = name = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() and not indent:
            break
        entry = _ENTRY.match(line.strip())
        depth = indent if depth is None and line.strip() else depth
        if entry and indent == depth:
            name = entry["name"]
            texts[name] = entry["text"]
        elif name is not None:
            texts[name] = f"{texts[name]} {line.strip()}".strip()
    return summary or None, texts


def call(function: Callable[..., Any], ctx: Any, *arguments: Any) -> Any:
    """Call a user's function with the arguments, and with `ctx` last where it requires one argument more.

    `ctx` says which server asks (`ctx.server_info`) and by which revision. A parameter with a default is left alone.

    Returns: whatever the function returns.
    Raises: whatever the function raises.
    """
    if _required_arguments(function) > len(arguments):
        return function(*arguments, ctx)
    return function(*arguments)


def _required_arguments(function: Callable[..., Any]) -> int:
    """How many positional arguments the function cannot do without; 0 where Python cannot say."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is each.empty for each in parameters)


class BadArguments(ValueError):
    """Arguments that do not fit; `problems` has one "path: problem" for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)
