"""Users' functions: what their signature, type hints and docstring say, and what goes in and comes out of them.

Spec:      server/tools#tool (`inputSchema`, `outputSchema`), server/prompts#getting-a-prompt,
           server/resources#resource-templates, basic/index#json-schema-usage
Upholds:   the rows on derived schemas of spec_notes/server/tools.md; "validate prompt arguments before processing" of
           spec_notes/server/prompts.md
Not here:  schemas that people write (kit/typed/json_schema); what a page does with a handler (server/*)

`inspect_handler(function, Context)` looks at a function once, when it is registered. A page then asks for:

    json_arguments(handler)     the schema of the arguments of a tool, and the function that checks and converts them
    checked_arguments(handler, schema)    the same for a schema that somebody has written
    json_result(handler)        the schema that the return annotation promises, and the function that checks a result
    string_arguments(handler)   what reads the arguments of a prompt or of a template, which come as strings

and `to_json(value)` makes JSON of what a handler returned. A parameter annotated with the context type receives the
context, and is not an argument. A parameter is described by the text in its `Annotated[T, "text"]`, else by its entry
under `Args:` in the docstring, in Google's style.

| hint | schema | what the value becomes |
|---|---|---|
| `str`, `int`, `float`, `bool`, `None` | the type | itself; 5.0 is an integer, true is not; an integer is a number |
| `Any`, `object` | `{}` | itself |
| `list[T]`, `Sequence[T]`, `Iterable[T]`, `Collection[T]` | array | list |
| `tuple[T, ...]`, `set[T]`, `frozenset[T]` | array (of `uniqueItems`) | tuple, set, frozenset |
| `tuple[A, B]` | array with `prefixItems` | tuple |
| `dict[str, T]`, `Mapping[str, T]` | object with `additionalProperties` | dict |
| `A | B`, `Optional[A]` | `anyOf` | what the first fitting arm makes of it, in the order written |
| `Literal`, `Enum` | `enum` of the values | the value, the member |
| dataclass, `TypedDict` | object, closed; recursive ones in `$defs` | an instance, a dict |
| model of pydantic 2 | its own, its parts in `$defs` | an instance |
| `datetime`, `date`, `UUID` | string, with `format` | an instance |
| `time`, whose offset may be missing; `Path` | string | an instance |
| `Annotated[T, "text"]` | T with that `description` | as T |
| `Annotated[T, Ge(1)]`, `Annotated[T, Field(ge=1)]` | T with that bound | as T |

The bounds and texts of `annotated_types` and pydantic are read by their attributes, and models of pydantic are told by
their methods, so that neither is imported. What else they say in a signature is refused: nothing that it promises goes
unchecked.

Arguments that come as strings can be all of these that are one value: a number, `true` and `false` as JSON writes them,
the value or the name of a member, and `T | None` as T. A parameter without an annotation takes the string as it is.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import itertools
import math
import re
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal, NamedTuple, NewType, NoReturn, TypeVar, get_args, get_origin

from mcp_ref.kit.typed import shapes
from mcp_ref.kit.typed.checking import SchemaMismatch, built, loader, shortened
from mcp_ref.kit.typed.json_schema import FORMATS, SchemaRefused, Validator, prepare
from mcp_ref.kit.typed.json_text import decode
from mcp_ref.kit.typed.publishing import schema_of
from mcp_ref.kit.typed.shapes import KINDS, Field, JsonObject, Object, Shape, is_union, peel

F = TypeVar("F", bound=Callable[..., Any])
"""A user's function, which a decorator gives back as it is."""

# -- a function ---------------------------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """A parameter of a handler that can be given by name; `default` in a tuple of one, empty if it is required."""

    name: str
    hint: Any
    default: tuple[Any, ...]
    description: str | None


class Handler(NamedTuple):
    """The findings of `inspect_handler()`; immutable.

    Attributes:
        function: the handler itself.
        name: what errors call it.
        parameters: by name and in order, without the context.
        context: the name of the parameter that receives the context, or None.
        open_ended: it has `**arguments`, so that names without a parameter of their own are welcome.
        unnamed: what keeps it from being called by names alone, as the text of an error, or None.
        returns: the return annotation; Any without one.
        summary: the first paragraph of the docstring in one line, or None.
    """

    function: Callable[..., Any]
    name: str
    parameters: dict[str, Parameter]
    context: str | None
    open_ended: bool
    unnamed: str | None
    returns: Any
    summary: str | None


def inspect_handler(function: Callable[..., Any], context_type: type, *, may_yield: bool = False) -> Handler:
    """Read the parameters, the hints and the docstring of a handler.

    Args:
        function: a plain function, a method, a partial object or a callable object.
        context_type: a parameter annotated with it, or with it and None, receives the context.
        may_yield: what it returns may be an iterator, so a generator function will do.

    Raises:
        TypeError: it is a coroutine function or a generator function, or a hint cannot be resolved; the text names it.
    """
    name = getattr(function, "__qualname__", repr(function))
    # 1. The function that carries the hints and the docstring.
    plain = _innermost(function)
    if not isinstance(plain, type | types.FunctionType | types.MethodType | types.BuiltinFunctionType):
        plain = _innermost(type(plain).__call__)
    flags = plain.__code__.co_flags if hasattr(plain, "__code__") else 0
    if flags & (_CO_COROUTINE | _CO_ASYNC_GENERATOR):
        raise TypeError(f"{name}: a handler is a plain function, by `def`: no event loop runs here for an `async def`")
    if flags & _CO_GENERATOR and not may_yield:
        raise TypeError(f"{name}: a handler returns its result; it cannot yield")

    # 2. Its hints. The context may be named by a string that the module imports for type checkers alone; of two entries
    #    the later one wins: a name of the module itself.
    names = {context_type.__name__: context_type} | getattr(plain, "__globals__", {})
    try:
        hints = typing.get_type_hints(plain, localns=names, include_extras=True)
    except (NameError, SyntaxError) as exc:
        raise TypeError(f"{name}: a type hint cannot be resolved: {exc}; define it in the module") from None

    # 3. Its parameters.
    first, _, rest = (plain.__doc__ or "").expandtabs().partition("\n")
    summary, texts = _documented(f"{first.strip()}\n{textwrap.dedent(rest)}")
    parameters, context, open_ended, unnamed = dict[str, Parameter](), None, False, None
    for each, kind, default in _parameters_of(function):
        hint = hints.get(each, Any)
        arms = get_args(hint) if is_union(hint) else (hint,)
        if context is None and any(isinstance(arm, type) and issubclass(arm, context_type) for arm in arms):
            context = each
            continue
        if kind in ("by position", "*"):
            unnamed = f"parameter {each!r} can only be given by position; arguments come by name"
            continue
        if kind == "**":
            open_ended = True
            continue
        if each == "ctx" and each not in hints and not default:
            raise TypeError(
                f"{name}: parameter 'ctx' has no type; write `ctx: {context_type.__name__}` for the context"
            )
        if default and hasattr(default[0], "default_factory") and hasattr(default[0], "metadata"):
            raise TypeError(
                f"{name}: parameter {each!r} has a field as its default; write `Annotated[type, Field(...)] = default`"
            )
        notes = [getattr(note, "description", note) for note in peel(hint).notes]
        text = next((note for note in notes if isinstance(note, str)), texts.get(each))
        parameters[each] = Parameter(each, hint, default, text or None)
    return Handler(function, name, parameters, context, open_ended, unnamed, hints.get("return", Any), summary)


def _innermost(function: Any) -> Any:
    """Return the function that partial objects and decorators stand around."""
    while isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, functools.partial) else function.__wrapped__
    return function


# As in `inspect`, which is not imported: it would take 8 ms of the start of every server.
_CO_VARIABLE, _CO_GENERATOR, _CO_COROUTINE, _CO_ASYNC_GENERATOR = 0x04 | 0x08, 0x20, 0x80, 0x200


def _parameters_of(function: Any) -> list[tuple[str, str, tuple[Any, ...]]]:
    """Return, of each parameter, its name, its kind as in `_KINDS`, and its default in a tuple, which may be empty."""
    if isinstance(function, types.MethodType):
        return _parameters_of(function.__func__)[1:]
    if isinstance(function, types.FunctionType) and not vars(function).keys() & {"__wrapped__", "__signature__"}:
        code, by_position = function.__code__, function.__defaults__ or ()
        if not (code.co_posonlyargcount or code.co_flags & _CO_VARIABLE):
            count = code.co_argcount
            defaults = dict(zip(code.co_varnames[count - len(by_position) : count], by_position, strict=True))
            defaults |= function.__kwdefaults__ or {}
            names = code.co_varnames[: count + code.co_kwonlyargcount]
            return [(name, "by name", (defaults[name],) if name in defaults else ()) for name in names]
    # One with `*`, `**` or `/`, a partial object, a decorated function, a callable object, a class.
    import inspect

    parameters = inspect.signature(_undecorated(function)).parameters.values()
    return [
        (each.name, _KINDS[each.kind], () if each.default is each.empty else (each.default,)) for each in parameters
    ]


def _undecorated(function: Any) -> Any:
    """Return a function for `inspect`, which passes over a partial object, and what that binds, if it says what it
    wraps.
    """
    if isinstance(function, functools.partial):
        return functools.partial(_undecorated(function.func), *function.args, **function.keywords)
    decorated = hasattr(function, "__wrapped__") and not hasattr(function, "__signature__")
    return _undecorated(function.__wrapped__) if decorated and not isinstance(function, types.MethodType) else function


_KINDS: Final = ("by position", "by name", "*", "by name", "**")
"""The words of `inspect` for a parameter's kind, in its order."""


def call(function: Callable[..., Any], ctx: Any, *arguments: Any) -> Any:
    """Call a user's function with the arguments, and with `ctx` last if it requires one argument more.

    `ctx` says which server asks (`ctx.server_info`) and by which revision. A parameter with a default is left alone.

    Returns: whatever the function returns.
    Raises: whatever the function raises.
    """
    try:
        required = sum(kind.startswith("by ") and not default for _, kind, default in _parameters_of(function))
    except (TypeError, ValueError):
        required = 0  # Python cannot look into it.
    return function(*arguments, ctx) if required > len(arguments) else function(*arguments)


_HEADING: Final = re.compile(r"(Args|Arguments|Parameters):\s*$")
_ENTRY: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)")


def _documented(text: str) -> tuple[str | None, dict[str, str]]:
    """Return the first paragraph of a docstring in one line, and the text of each entry under `Args:`."""
    paragraph = text.strip().split("\n\n")[0]
    summary = None if _HEADING.match(paragraph.split("\n")[0]) else " ".join(paragraph.split())
    texts: dict[str, str] = {}
    depth = name = None
    # The lines after the heading, if it has one.
    section = itertools.dropwhile(lambda line: not _HEADING.match(line), text.splitlines())
    for line in itertools.islice(section, 1, None):
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


# -- what a page asks for -----------------------------------------------------------------------------------------


def json_arguments(handler: Handler) -> tuple[JsonObject, Callable[[JsonObject], dict[str, Any]]]:
    """Return the `inputSchema` that the hints of a handler say, and what makes keyword arguments of a JSON object.

    The function raises `SchemaMismatch` if something is missing, is unknown or does not fit. What is not given is left
    to the handler's defaults.

    Raises:
        TypeError: a hint has no JSON Schema, or a parameter cannot be given by name; the text names it.
    """
    unnamed = handler.unnamed or (handler.open_ended and "** takes any keyword arguments; arguments come by name")
    if unnamed:
        raise TypeError(f"{handler.name}: {unnamed}")
    hints = _Hints("arguments")
    shape = Object("", make=dict, referenced=False)
    for each in handler.parameters.values():
        try:
            shape.fields[each.name] = hints.field(each.hint, not each.default, each.default, each.description)
        except (TypeError, SchemaRefused) as exc:
            raise TypeError(f"{handler.name}: parameter {each.name!r}: {exc}") from None
    # `properties` even if it is empty: some clients of models look for it.
    return {"type": "object", "properties": {}, **schema_of(shape)}, loader(shape)


def checked_arguments(handler: Handler, schema: Validator) -> Callable[[JsonObject], dict[str, Any]]:
    """Return what checks a JSON object with a schema written by hand, and makes keyword arguments of it, unconverted.

    A function whose only parameter is `arguments` gets them as one dict, unless the schema has a property of that name.

    Raises: TypeError: the schema has properties that the function does not take.
    """
    properties = schema.schema.get("properties", {})
    as_one_dict = list(handler.parameters) == ["arguments"] and not handler.open_ended and "arguments" not in properties
    unknown = properties.keys() - handler.parameters.keys()
    if unknown and not as_one_dict and not handler.open_ended:
        raise TypeError(f"{handler.name}: the inputSchema has {sorted(unknown)}, which the function does not take")

    def arguments(given: JsonObject) -> dict[str, Any]:
        if problems := schema.problems(given):
            raise SchemaMismatch(*(("", problem) for problem in problems))
        return {"arguments": given} if as_one_dict else dict(given)

    return arguments


def json_result(handler: Handler) -> tuple[JsonObject, Callable[[Any], list[str]]] | None:
    """Return the `outputSchema` that the return annotation says, and what checks a JSON value with it.

    The function returns "path: problem" texts: an empty list if the value fits.

    Returns: None for what promises no structure: `str`, `None`, `Any`, no annotation, and mcp_ref's content blocks,
        lists of them, and results.
    Raises: TypeError: the annotation has no JSON Schema.
    """
    if _promises_nothing(handler.returns):
        return None
    try:
        shape = _Hints("result").shape(handler.returns)
    except (TypeError, SchemaRefused) as exc:
        raise TypeError(f"{handler.name}: the return annotation: {exc}") from None
    read = loader(shape)

    def problems(value: Any) -> list[str]:
        try:
            read(value)
        except SchemaMismatch as exc:
            return exc.problems
        return []

    return schema_of(shape), problems


def _promises_nothing(hint: Any) -> bool:
    args = get_args(hint)
    if get_origin(hint) is typing.Annotated:
        return _promises_nothing(args[0])
    if is_union(hint):
        return any(_promises_nothing(arm) for arm in args if arm is not type(None))
    if get_origin(hint) in (list, tuple) and args:
        # A list of strings, or of whatever, is data; one that may hold blocks and nothing else is content.
        return any(_promises_nothing(arm) for arm in args if arm not in (str, Any, object, ...))
    if typing.is_typeddict(hint):
        return bool(hint.__module__.startswith("mcp_ref."))
    return hint in (str, None, type(None), Any, object, NoReturn, typing.Never)


def string_arguments(handler: Handler) -> Callable[[Mapping[str, str], Any], dict[str, Any]]:
    """Return the function that makes keyword arguments of strings and the context: `keywords(values, ctx)`.

    It raises `ValueError` if one cannot be read; the text names it. A handler with `**arguments` gets what has no
    parameter of its own as it came. Whether all are there, and known, the pages have asked before.

    Raises:
        TypeError: a parameter cannot be given by name, or no string can be read as what it is annotated with.
    """
    if handler.unnamed:
        raise TypeError(f"{handler.name}: {handler.unnamed}")
    readers: dict[str, Callable[[str], Any]] = {}
    for each in handler.parameters.values():
        try:
            readers[each.name] = _string_reader(_Hints("strings").shape(each.hint))
        except (TypeError, SchemaRefused) as exc:
            problem = f"a string cannot be read as {each.hint!r}: {exc}"
            raise TypeError(f"{handler.name}: parameter {each.name!r}: {problem}") from None

    def keywords(values: Mapping[str, str], ctx: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in values.items():
            try:
                found[name] = readers[name](value) if name in readers else value
            except ValueError as problem:
                raise ValueError(f"argument {name!r}: {problem}") from None
        # A value must not take the place of the context.
        return found if handler.context is None else found | {handler.context: ctx}

    return keywords


def _string_reader(shape: Shape) -> Callable[[str], Any]:
    """Return what reads a string, as JSON where a number or a boolean is wanted, and checks and converts it like any
    value.
    """
    arms = [arm for arm in shapes.plain_arms(shape) if arm != shapes.Scalar("null")]
    if len(arms) != 1 or not isinstance(arms[0], shapes.Anything | shapes.Scalar | shapes.Enumeration):
        raise TypeError("it is more than one value")
    load = loader(shape)
    is_json = isinstance(arms[0], shapes.Scalar) and arms[0].kind in ("integer", "number", "boolean")

    def read(text: str) -> Any:
        value: Any = text
        if is_json:
            # What is not JSON stays a string, which does not fit.
            with contextlib.suppress(ValueError, RecursionError):
                value = decode(text)
        return load(value)

    return read


# -- from a hint to its shape -------------------------------------------------------------------------------------


class _Unsupported(TypeError):
    """A hint that has no JSON Schema here."""

    def __init__(self, hint: Any, why: str = "") -> None:
        why = why or "has no JSON Schema here; write a dataclass, or give the tool `input_schema=` or `output_schema=`"
        super().__init__(f"{hint if not isinstance(hint, type) else hint.__qualname__} {why}")


_NUMBERS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_BOUNDS: Final = {
    **dict.fromkeys(("integer", "number"), _NUMBERS | {"multiple_of": "multipleOf"}),
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
}
"""By the type of a JSON value: the attributes of notes that bound it, and the words of JSON Schema for them."""

_ARRAYS: Final[dict[Any, Callable[[list[Any]], Any]]] = dict.fromkeys((list, Sequence, Iterable, Collection), list)
_ARRAYS.update({tuple: tuple, set: set, frozenset: frozenset, AbstractSet: frozenset})


@functools.cache
def _library_shapes() -> dict[Any, Shape]:
    """Return the single values whose classes come from modules that a start should not load (7 ms) if no hint names
    them.
    """
    from datetime import date, datetime, time
    from pathlib import Path
    from uuid import UUID

    def of(kind: str, example: str, make: Callable[[str], Any]) -> shapes.Scalar:
        def read(text: str) -> Any:
            if not FORMATS[kind](text):
                raise ValueError(f"expected a string of the format {kind}, such as {example}, got {shortened(text)}")
            # A leap second has the format, and is not a datetime.
            return make(text)

        return shapes.Scalar("string", format=kind, make=read)

    # Without `format`, which would need an offset: a time of Python seldom has one.
    clock = shapes.Scalar("string", make=lambda text: time.fromisoformat(text.upper()))

    return {
        datetime: of("date-time", "2025-11-25T10:15:00Z", lambda text: datetime.fromisoformat(text.upper())),
        date: of("date", "2025-11-25", date.fromisoformat),
        time: shapes.Described(clock, {"examples": ["10:15", "10:15:00Z"]}),
        UUID: of("uuid", "123e4567-e89b-12d3-a456-426614174000", UUID),
        Path: shapes.Scalar("string", make=Path),
    }


# The methods that tell a model of pydantic 2, which is not imported.
_MODEL: Final = ("model_json_schema", "model_validate", "model_dump")


class _Hints:
    """Turns the hints of one schema into shapes; the names of what it refers to are distinct.

    Args:
        purpose: a shape of a result only checks what `to_json()` made: every field of a dataclass is there, and nothing
            is a set. One of strings has no schema.
    """

    def __init__(self, purpose: Literal["arguments", "result", "strings"]) -> None:
        self._purpose = purpose
        self._named: dict[str, list[Any]] = {}
        self._objects: dict[Any, Object] = {}
        self._unfinished: set[Any] = set()

    def shape(self, hint: Any) -> Shape:
        """Return the shape of a resolved hint; raises `_Unsupported`, a `TypeError`, naming the hint."""
        if isinstance(hint, NewType):
            return self.shape(hint.__supertype__)
        origin, args = get_origin(hint), get_args(hint)
        bare = type(None) if hint is None else origin or hint
        if origin is typing.Annotated:
            return _noted(self.shape(args[0]), args[1:])
        if is_union(hint):
            return shapes.Choice(tuple(self.shape(arm) for arm in args))
        if origin is Literal and not any(isinstance(value, bytes | enum.Enum) for value in args):
            return shapes.Enumeration(tuple(map(str, args)) if self._purpose == "strings" else args, args)
        if bare is tuple and args and args[-1] is not ...:
            return shapes.Row(tuple(self.shape(each) for each in args))
        if bare in _ARRAYS:
            make = list if self._purpose == "result" else _ARRAYS[bare]
            return shapes.Array(self.shape(args[0]) if args else shapes.Anything(), make=make)
        if bare in (dict, Mapping):
            if args and args[0] not in (str, Any):
                raise _Unsupported(hint, "has keys that are not strings")
            return shapes.Map(self.shape(args[1]) if args else shapes.Anything())
        if bare in (Any, object):
            return shapes.Anything()
        if bare in KINDS:
            return shapes.Scalar(KINDS[bare])
        if args or not isinstance(bare, type):
            raise _Unsupported(hint)
        if issubclass(bare, enum.Enum):
            values = tuple(member.value for member in bare)
            if self._purpose == "strings":
                members = {str(member.value): member for member in bare} | bare.__members__
                return shapes.Enumeration(tuple(members), tuple(members.values()))
            if not values or not all(type(value) in KINDS for value in values):
                raise _Unsupported(bare, "has values that are not JSON scalars")
            return shapes.Enumeration(values, tuple(bare))
        if self._purpose != "strings" and all(callable(getattr(bare, each, None)) for each in _MODEL):
            return self._model(bare)
        if hasattr(bare, "__dataclass_fields__") or typing.is_typeddict(bare):
            return self._object(bare)
        if bare in _library_shapes():
            return _library_shapes()[bare]
        raise _Unsupported(hint)

    def field(self, hint: Any, required: bool, default: tuple[Any, ...] = (), text: str | None = None) -> Field:
        """Return a member of an object; its default is shown if it fits and has a form in JSON."""
        peeled = peel(hint)
        shape = _noted(self.shape(peeled.bare), peeled.notes)
        try:
            shown = tuple(map(to_json, default))
            for value in shown:
                loader(shape)(value)
        except (TypeError, ValueError):
            shown = ()
        return Field(shape, required, required, text, shown)

    def _name(self, hint: Any) -> str:
        """Return the name of a class in `$defs`, with a number if another class of this schema has it."""
        same = self._named.setdefault(plain := re.sub(r"\W", "_", hint.__name__), [])
        if hint not in same:
            same.append(hint)
        return f"{plain}.{same.index(hint) + 1}" if same[0] is not hint else plain

    def _model(self, hint: Any) -> Shape:
        """Return the shape of a model of pydantic 2, which is told by its methods; its parts are in `$defs` under its
        name.
        """
        name, mode = self._name(hint), "serialization" if self._purpose == "result" else "validation"
        try:
            schema = {**hint.model_json_schema(mode=mode, ref_template=f"#/$defs/{name}.{{model}}")}
            parts = {f"{name}.{each}": part for each, part in schema.pop("$defs", {}).items()}
            # A model that holds itself is one of its parts; written out it tells its type, as the root must.
            if (own := str(schema.get("$ref")).removeprefix("#/$defs/")) in parts:
                schema = parts[own] | {key: value for key, value in schema.items() if key != "$ref"}
            checked = prepare(schema | {"$defs": parts}, what="its schema")
        except Exception as exc:
            raise _Unsupported(hint, f"cannot be used as a model: {exc}") from None

        if mode == "serialization":
            return shapes.Described(shapes.Anything(), checked.schema, checked.problems)
        return shapes.Described(shapes.Anything(), checked.schema, make=functools.partial(built, hint.model_validate))

    def _object(self, hint: Any) -> Object:
        """Return the shape of a dataclass or a TypedDict; one that holds itself is found here while it is being
        made.
        """
        if hint in self._objects:
            self._objects[hint].referenced |= hint in self._unfinished
            return self._objects[hint]
        name, is_dict, is_result = self._name(hint), typing.is_typeddict(hint), self._purpose == "result"
        shape = self._objects[hint] = Object(name, make=dict if is_dict or is_result else hint, referenced=False)
        self._unfinished.add(hint)
        try:
            hints = typing.get_type_hints(hint, include_extras=True)
        except NameError as exc:
            raise _Unsupported(hint, f"has a field whose hint cannot be resolved: {exc}") from None
        if is_dict:
            for key, each in hints.items():
                shape.fields[key] = self.field(each, peel(each).is_required(hint, key))
        else:
            import dataclasses
            import inspect

            for field in dataclasses.fields(hint):
                default = () if is_result or field.default is dataclasses.MISSING else (field.default,)
                required = is_result or (not default and field.default_factory is dataclasses.MISSING)
                if is_result or field.init:
                    shape.fields[field.name] = self.field(hints[field.name], required, default)
            try:
                if not is_result:
                    inspect.signature(hint).bind(**shape.fields)
            except (TypeError, ValueError) as exc:
                raise _Unsupported(hint, f"cannot be made from its fields: {exc}") from None
        self._unfinished.discard(hint)
        return shape


def _noted(shape: Shape, notes: Sequence[Any]) -> Shape:
    """Return a shape with the description and the bounds that its notes say; those of a `Field` stand in its
    `metadata`.
    """
    words, known, bounding = dict[str, Any](), {"description": "description"}, set[str]().union(*_BOUNDS.values())
    fields = [note.metadata for note in notes if isinstance(getattr(note, "metadata", None), list)]
    for part in itertools.chain(notes, *fields):
        if isinstance(part, str):
            words.setdefault("description", part)
            continue
        schema = schema_of(shape)
        types_but_null = {each.get("type", "") for each in schema.get("anyOf", [schema])} - {"null"}
        known |= _BOUNDS.get(" or ".join(types_but_null), {})  # Several types have no bounds in common.
        foreign = type(part).__module__.partition(".")[0] in ("annotated_types", "pydantic")
        members = getattr(part, "__dataclass_fields__", None) or getattr(part, "__dict__", {})
        for name in sorted({"description", "alias", *bounding, *members}):
            value = getattr(part, name, None)
            meant = foreign or name in bounding or (name == "description" and isinstance(value, str))
            if not meant or value is None or value is False:
                continue
            if name not in known or words.setdefault(known[name], value) != value:
                why = "is not understood in this place; check it in the function, or give the tool `input_schema=`"
                raise _Unsupported(f"{name}={value!r} in Annotated", why)
    check = prepare(words, what="what Annotated says").problems if words.keys() - {"description"} else None
    return shapes.Described(shape, words, check) if words else shape


# -- back to JSON -------------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """Return the JSON value for what a handler returned: dataclasses, enums, dates, sets, and the containers of these.

    A date and time without a zone is taken as local time, because the format `date-time` needs an offset.

    Raises:
        TypeError: something in it cannot be written as JSON: a key that is not a string, NaN, an object of another
            class, or one that contains itself.
    """
    try:
        return _to_json(value)
    except RecursionError:
        raise TypeError("what contains itself, or is nested too deeply, cannot be written as JSON") from None


def _to_json(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if isinstance(value, enum.Enum):  # Before the str or int that it may be.
        return _to_json(value.value)
    if isinstance(value, list | tuple):
        return [_to_json(each) for each in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("an object with a key that is not a string cannot be written as JSON")
        return {_to_json(key): _to_json(each) for key, each in value.items()}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value} cannot be written as JSON")
        return float(value)
    if isinstance(value, AbstractSet):
        items = [_to_json(each) for each in value]
        try:
            return sorted(items)
        except TypeError:
            return items
    if all(callable(getattr(kind, each, None)) for each in _MODEL):
        return _to_json(value.model_dump(mode="json", by_alias=True))
    if hasattr(kind, "__dataclass_fields__"):
        import dataclasses

        return {field.name: _to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}

    from datetime import date, datetime, time
    from pathlib import PurePath
    from uuid import UUID

    if isinstance(value, datetime):
        return (value if value.tzinfo else value.astimezone()).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID | PurePath):
        return str(value)
    hint = "; return image(), audio() or text() of it" if isinstance(value, bytes | bytearray) else ""
    hint = f", for it is one of {kind.__module__}; return its tolist()" if hasattr(value, "tolist") else hint
    raise TypeError(f"a value of type {kind.__name__} cannot be written as JSON{hint}")
