"""The functions of users: what their hints and docstrings say, and what goes in and comes out of them."""

from __future__ import annotations

import enum
import functools
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar
from uuid import UUID

import jsonschema
import pytest

from mcp_ref.kit.typed.checking import SchemaMismatch
from mcp_ref.kit.typed.handlers import call, inspect_handler, json_arguments, json_result, string_arguments, to_json
from mcp_ref.wire.content import ContentBlock, TextContent


class Context:
    """Stands for the context that a server passes."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Point:
    x: int
    y: Annotated[int, "how far up"] = 0
    tags: list[str] = field(default_factory=list)


@dataclass
class Node:
    value: int
    children: list[Node] = field(default_factory=list)


class Weather(TypedDict):
    city: str
    wind: NotRequired[float]


class Partial(TypedDict, total=False):
    a: int


UserId = NewType("UserId", int)


@pytest.fixture
def pydantic() -> Any:
    return pytest.importorskip("pydantic", reason="needs pydantic, which comes with the official SDK")


class Read(NamedTuple):
    """Everything that can be read from a function of a user."""

    input_schema: dict[str, Any]
    arguments: Callable[[dict[str, Any]], dict[str, Any]]
    output_schema: dict[str, Any] | None
    output_problems: Callable[[Any], list[str]]
    context: str | None
    summary: str | None


def inspect(function: Callable[..., Any]) -> Read:
    handler = inspect_handler(function, Context)
    schema, problems = json_result(handler) or (None, lambda value: [])
    return Read(*json_arguments(handler), schema, problems, handler.context, handler.summary)


def of_hint(hint: Any) -> Callable[..., Any]:
    """A function with one parameter `v` of that hint."""

    def f(v):  # type: ignore[no-untyped-def]
        return v

    f.__annotations__ = {"v": hint}
    return f


def of(hint: Any) -> Read:
    return inspect(of_hint(hint))


def schema_in(hint: Any) -> Any:
    """Return the schema of a hint, as it stands in that of the arguments."""
    return of(hint).input_schema["properties"]["v"]


def problems_of(function: Callable[..., Any], given: dict[str, Any]) -> list[str]:
    """Return what is wrong with arguments."""
    with pytest.raises(SchemaMismatch) as caught:
        inspect(function).arguments(given)
    return caught.value.problems


def returning(hint: Any) -> Read:
    def f():  # type: ignore[no-untyped-def]
        return None

    f.__annotations__ = {"return": hint}
    return inspect(f)


# -- the schema of the arguments


def test_the_schema_has_properties_required_and_is_closed() -> None:
    def forecast(city: str, days: int = 3) -> str:
        """Forecast for a city.

        More about it.
        """
        return city

    found = inspect(forecast)
    assert found.input_schema == closed({"city": TEXT, "days": INTEGER | {"default": 3}}, required=["city"])
    assert found.summary == "Forecast for a city."
    assert found.output_schema is None and found.context is None


def test_without_parameters_only_the_empty_object_is_accepted() -> None:
    found = inspect(lambda: "")
    assert found.input_schema == closed({})
    assert found.arguments({}) == {}
    with pytest.raises(SchemaMismatch):
        found.arguments({"a": 1})


def array(**words: Any) -> dict[str, Any]:
    return {"type": "array", **words}


def closed(properties: dict[str, Any], **words: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **words, "additionalProperties": False}


NUMBER, INTEGER, TEXT, NULL = ({"type": kind} for kind in ("number", "integer", "string", "null"))
POINT = closed({"x": INTEGER, "y": INTEGER | {"description": "how far up", "default": 0}, "tags": array(items=TEXT)})
POINT |= {"required": ["x"]}
ROW = array(minItems=2, maxItems=2, prefixItems=[INTEGER, TEXT])
INTEGERS = {"type": "object", "additionalProperties": INTEGER}
WEATHER = closed({"city": TEXT, "wind": NUMBER}, required=["city"])
A_TIME, OF_DAY = datetime(2025, 11, 25, 10, tzinfo=UTC), {"type": "string", "examples": ["10:15", "10:15:00Z"]}
TIMES = [
    ("10:00:00Z", time(10, tzinfo=UTC)), ("10:15:00.5", time(10, 15, 0, 500_000)), ("10:15z", time(10, 15, tzinfo=UTC)),
    ("23:00+05:30", time(23, tzinfo=timezone(timedelta(minutes=330)))),
]  # fmt: skip
NO_TIMES = ["10 o'clock", "25:00", "2025-11-25T10:15:00Z", "", 5]
AN_ID = UUID(int=0x123E4567E89B12D3A456426614174000)
HINTS: list[tuple[Any, dict[str, Any], list[tuple[Any, Any]], list[Any]]] = [
    (str, TEXT, [("a", "a")], [5, None, ["a"]]),
    (int, INTEGER, [(5, 5), (5.0, 5)], [5.5, "5", True]),
    (float, NUMBER, [(5.5, 5.5), (5, 5)], ["5", False]),
    (bool, {"type": "boolean"}, [(True, True)], [1, 0, "true"]),
    (None, NULL, [(None, None)], [0]),
    (Any, {}, [(5, 5), ({"a": [1]}, {"a": [1]})], []),
    (list, array(), [([1, "a"], [1, "a"])], ["a"]),
    (list[int], array(items=INTEGER), [([1, 2.0], [1, 2])], [["1"], {}]),
    (Sequence[str], array(items=TEXT), [(["a"], ["a"])], ["a"]),
    (tuple[int, ...], array(items=INTEGER), [([1], (1,))], [[None]]),
    (set[str], array(items=TEXT, uniqueItems=True), [(["a"], {"a"})], [["a", "a"]]),
    (tuple[int, str], ROW, [([1, "a"], (1, "a"))], [[1], [1, "a", 2], ["a", 1]]),
    (dict, {"type": "object"}, [({"a": 1}, {"a": 1})], [[]]),
    (dict[str, int], INTEGERS, [({"a": 1}, {"a": 1})], [{"a": ""}]),
    (Mapping[str, Any], {"type": "object"}, [({"a": 1}, {"a": 1})], [5]),
    (int | None, {"anyOf": [INTEGER, NULL]}, [(None, None), (1, 1)], ["1"]),
    (Optional[str], {"anyOf": [TEXT, NULL]}, [(None, None), ("a", "a")], [1]),  # noqa: UP045
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, [("a", "a")], ["c", 1, []]),
    (Literal[1, "a"], {"enum": [1, "a"]}, [(1, 1)], [True, "1"]),
    (Color, {"type": "string", "enum": ["red", "blue"]}, [("red", Color.RED)], ["RED", None, {}]),
    (Size, {"type": "integer", "enum": [1, 2]}, [(2, Size.LARGE)], [3, True]),
    (UserId, INTEGER, [(7, 7)], ["7"]),
    (Annotated[int, "how many"], INTEGER | {"description": "how many"}, [(7, 7)], ["7"]),
    (Point, POINT, [({"x": 1}, Point(1)), ({"x": 1, "tags": ["a"]}, Point(1, 0, ["a"]))], [{}, {"x": 1, "z": 2}, 5]),
    (Weather, WEATHER, [({"city": "x"}, {"city": "x"})], [{"wind": 1}, {"city": "x", "wind": None}]),
    (Partial, closed({"a": INTEGER}), [({}, {})], [{"b": 1}]),
    (datetime, TEXT | {"format": "date-time"}, [("2025-11-25T10:00:00z", A_TIME)], ["2025-11-25T10:00:00", "x", 5]),
    (date, TEXT | {"format": "date"}, [("2025-11-25", date(2025, 11, 25))], ["25.11.2025"]),
    (time, OF_DAY, TIMES, NO_TIMES),
    (UUID, TEXT | {"format": "uuid"}, [(str(AN_ID), AN_ID)], ["1"]),
    (Path, TEXT, [("a/b", Path("a/b"))], [5]),
]


@pytest.mark.parametrize(("hint", "schema", "good", "bad"), HINTS, ids=lambda each: str(each)[:40])
def test_the_schema_of_a_hint_its_check_and_the_library_agree(
    hint: Any, schema: dict[str, Any], good: list[tuple[Any, Any]], bad: list[Any]
) -> None:
    found = of(hint)
    assert found.input_schema["properties"]["v"] == schema
    jsonschema.Draft202012Validator.check_schema(found.input_schema)
    formats = jsonschema.FormatChecker(formats=["date"])
    library = jsonschema.Draft202012Validator(found.input_schema, format_checker=formats)
    for value, converted in good:
        result = found.arguments({"v": value})["v"]
        assert result == converted and type(result) is type(converted)
        assert library.is_valid({"v": value})
    for value in bad:
        with pytest.raises(SchemaMismatch):
            found.arguments({"v": value})
        if schema.get("format") in (None, "date") and hint is not time:
            assert not library.is_valid({"v": value})


def test_a_dataclass_that_holds_itself_goes_to_defs() -> None:
    found = of(Node)
    assert schema_in(Node) == {"$ref": "#/$defs/Node"} and list(found.input_schema["$defs"]) == ["Node"]
    value = {"value": 1, "children": [{"value": 2}]}
    assert found.arguments({"v": value}) == {"v": Node(1, [Node(2)])}
    assert jsonschema.Draft202012Validator(found.input_schema).is_valid({"v": value})
    deep: dict[str, Any] = {"value": 1}
    for _ in range(5000):
        deep = {"value": 1, "children": [deep]}
    with pytest.raises(SchemaMismatch, match="nested too deeply"):
        found.arguments({"v": deep})


def test_a_default_is_shown_only_where_it_is_json_and_fits() -> None:
    def f(a: Color = Color.RED, b: int = None, c: Any = object(), d: Point = Point(1)) -> None:  # type: ignore  # noqa: B008
        return None

    found = inspect(f)
    shown = {name: value.get("default", "-") for name, value in found.input_schema["properties"].items()}
    assert shown == {"a": "red", "b": "-", "c": "-", "d": {"x": 1, "y": 0, "tags": []}}
    assert "required" not in found.input_schema and found.arguments({}) == {}


# -- descriptions


def test_parameters_are_described_by_their_annotation_or_by_the_docstring() -> None:
    def f(city: str, days: Annotated[int, "1 to 7"], unit: str = "C") -> None:
        """Forecast
        for a city.

        Longer.

        Args:
            city: where it is,
                in English.
            days (int): not this one.
            unit (str, optional): C or F: as you like

        Returns:
            nothing: at all
        """

    found = inspect(f)
    assert found.summary == "Forecast for a city."
    texts = {name: value["description"] for name, value in found.input_schema["properties"].items()}
    assert texts == {"city": "where it is, in English.", "days": "1 to 7", "unit": "C or F: as you like"}


def test_a_missing_docstring_or_one_that_only_lists_arguments_gives_no_summary() -> None:
    def bare(a: int) -> None: ...

    def listed(a: int) -> None:
        """
        Args:
            a: the first.
        """

    assert inspect(bare).summary is None
    assert inspect(listed).summary is None
    assert inspect(listed).input_schema["properties"]["a"]["description"] == "the first."


# -- the context


def test_the_context_parameter_is_found_and_left_out() -> None:
    def plain(ctx: Context, a: int) -> None: ...

    def optional(a: int, *, ctx: Context | None = None) -> None: ...

    for function in (plain, optional):
        assert inspect(function).context == "ctx"
        assert list(inspect(function).input_schema["properties"]) == ["a"]

    class Ctx:
        """Of a name that only type checkers resolve in the handler's module."""

    def f(c: Ctx, a: int) -> None: ...

    assert inspect_handler(f, Ctx).context == "c"


# -- what is a function


@pytest.mark.parametrize(
    "hint", [bytes, complex, object.__class__, [int], Callable[[], int], dict[int, str], Literal[b"x"], "Nowhere"]
)
def test_a_hint_that_has_no_schema_is_named_with_its_function_and_parameter(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"of_hint\.<locals>\.f: .*('v'|Nowhere)") as refused:
        of(hint)
    remedy = "bytes has no JSON Schema here; write a dataclass, or give the tool `input_schema="
    assert hint is not bytes or remedy in str(refused.value)


def test_functions_that_cannot_be_called_by_names_or_run_in_an_event_loop_or_yield_are_refused() -> None:
    def star(*args: int) -> None: ...

    def stars(**kwargs: int) -> None: ...

    def positional(a: int, /) -> None: ...

    async def coroutine() -> None: ...

    def generator():  # type: ignore[no-untyped-def]
        yield 1

    async def both():  # type: ignore[no-untyped-def]
        yield 1

    for function in (star, stars, positional):
        with pytest.raises(TypeError, match="arguments come by name"):
            inspect(function)
    for function in (coroutine, generator, both):
        with pytest.raises(TypeError, match="a handler"):
            inspect(function)


class Keeper:
    """An object."""

    def method(self, a: int, b: int, c: str = "c") -> str:
        return f"{a} {b} {c}"

    __call__ = method


def decorated(function: Any) -> Any:
    return functools.wraps(function)(lambda *args, **keywords: function(*args, **keywords))


def test_what_is_bound_already_is_not_an_argument_whatever_a_decorator_says() -> None:
    def f(a: int, b: int, c: str = "c") -> str:
        """A function."""
        return f"{a} {b} {c}"

    named = functools.update_wrapper(functools.partial(f, 1), f)
    for function in (
        named, functools.partial(named), decorated(named), functools.partial(decorated(f), 1),
        decorated(functools.partial(f, 1)), decorated(decorated(named)), functools.partial(Keeper(), 1),
        functools.update_wrapper(functools.partial(decorated(f), 1), f),
        functools.update_wrapper(functools.partial(Keeper().method, 1), f),
        decorated(functools.partial(Keeper().method, 1)),
    ):  # fmt: skip
        found = inspect(function)
        types = {name: each["type"] for name, each in found.input_schema["properties"].items()}
        assert types == {"b": "integer", "c": "string"}
        assert function(**found.arguments({"b": 2})) == "1 2 c"
    once = inspect(functools.lru_cache(f))
    assert once.input_schema["properties"]["a"] == INTEGER and once.summary == "A function."


def test_the_parameters_of_a_plain_function_are_those_that_inspect_finds() -> None:
    def plain(a, b: str = "b", *, c: bool, d: list[int] | None = None) -> None:  # type: ignore[no-untyped-def]
        e = a  # noqa: F841

    class Owner:
        def method(self, a, b: str = "b", *, c: bool, d: list[int] | None = None) -> None: ...  # type: ignore[no-untyped-def]

        __call__ = method

    for function in (plain, Owner().method, Owner(), decorated(plain)):
        found = inspect_handler(function, Context)
        defaults = {each.name: each.default for each in found.parameters.values()}
        assert defaults == {"a": (), "b": ("b",), "c": (), "d": (None,)}
        assert found.unnamed is None and not found.open_ended
        assert inspect(function).input_schema["required"] == ["a", "c"]
        assert inspect(function).input_schema["properties"]["a"] == {}

    def varied(a: int, /, b: int = 1, *rest: int, c: int = 2, **more: int) -> None: ...

    found = inspect_handler(varied, Context)
    assert [*found.parameters] == ["b", "c"] and found.unnamed and found.open_ended


PLAIN = """
import logging, sys  # which needs dataclasses itself in Python 3.14
before = {*sys.modules}
from mcp_ref import Server

server = Server("s")

@server.tool()
def add(a: int, *, b: int = 2) -> dict[str, int]:
    return {"sum": a + b}

@server.prompt()
def greet(name: str) -> str:
    return name

print({"inspect", "dataclasses", "jsonschema", "requests"} & sys.modules.keys() - before or "none")
"""


def test_registering_plain_functions_imports_nothing_that_is_slow_to_import() -> None:
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "none\n"


# -- problems


def test_all_problems_are_told_with_their_paths() -> None:
    def f(city: str, days: int, where: Point, more: list[Point] | None = None) -> None: ...

    assert problems_of(f, {"days": "3", "where": {"x": 1.5}, "typo": 1, "more": [{"x": 1}, {}]}) == [
        "city: is required",
        'days: expected an integer, got a string: "3"',
        "more[1].x: is required",
        "typo: unknown; known: city, days, where, more",
        "where.x: expected an integer, got a fraction: 1.5",
    ]
    # A union tells all its arms.
    assert problems_of(of_hint(int | None), {"v": "x"}) == ['v: expected an integer or null, got a string: "x"']


@dataclass
class Picky:
    how: str

    def __post_init__(self) -> None:
        if self.how == "assert":
            raise AssertionError
        {"value": 0, "zero": 1 / (self.how != "zero")}[self.how]

    def __hash__(self) -> int:
        raise LookupError("no hash")


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (Picky, {"how": "assert"}, "v: AssertionError"),
        (Picky, {"how": "other"}, "v: KeyError: 'other'"),
        (list[Picky], [{"how": "value"}, {"how": "zero"}], "v[1]: division by zero"),
        (set[Picky], [{"how": "value"}], "v: no hash"),
    ],
)
def test_what_a_dataclass_itself_refuses_is_a_problem(hint: Any, value: Any, problem: str) -> None:
    assert problems_of(of_hint(hint), {"v": value})[0].startswith(problem)


@dataclass
class Scaled:
    x: int
    scale: InitVar[int]


@dataclass
class ScaledByDefault:
    x: int
    scale: InitVar[int] = 2


def test_a_dataclass_that_its_fields_cannot_make_is_refused_when_registering() -> None:
    for hint in (Scaled, list[Scaled], Scaled | None):
        with pytest.raises(TypeError, match=r"'v': Scaled cannot be made from its fields: .*'scale'"):
            of(hint)
    assert of(ScaledByDefault).arguments({"v": {"x": 1}})["v"] == ScaledByDefault(1)
    # Whoever returns one has made it.
    assert returning(Scaled).output_problems({"x": 1}) == []


# -- the schema of the result


@pytest.mark.parametrize(
    "hint",
    [str, None, Any, object, TextContent, ContentBlock, list[TextContent], list[str | TextContent],
     str | None, TextContent | str, Annotated[str, "text"], tuple[TextContent, ...], str | Point],
)  # fmt: skip
def test_a_return_type_without_structure_has_no_output_schema(hint: Any) -> None:
    assert returning(hint).output_schema is None


@pytest.mark.parametrize(
    ("hint", "kind"),
    [(Point, "object"), (Weather, "object"), (dict[str, int], "object"), (list[int], "array"), (list[str], "array"),
     (list, "array"), (list[Any], "array"), (tuple, "array"), (int, "integer"), (bool, "boolean"), (Color, "string")],
)  # fmt: skip
def test_a_return_annotation_gives_an_output_schema(hint: Any, kind: str) -> None:
    schema = returning(hint).output_schema
    assert schema is not None and schema["type"] == kind
    jsonschema.Draft202012Validator.check_schema(schema)


def test_a_dataclass_that_is_returned_promises_all_its_fields_and_is_an_object_at_the_root() -> None:
    found = returning(Point)
    assert found.output_schema is not None
    assert found.output_schema["required"] == ["x", "y", "tags"]
    assert found.output_problems(to_json(Point(1))) == []
    assert found.output_problems({"x": "1", "y": 2, "tags": []}) == ['x: expected an integer, got a string: "1"']
    recursive = returning(Node)
    assert recursive.output_schema is not None and recursive.output_schema["type"] == "object"
    value, library = to_json(Node(1, [Node(2)])), jsonschema.Draft202012Validator(recursive.output_schema)
    assert recursive.output_problems(value) == [] and library.is_valid(value)
    assert not library.is_valid({"value": 1, "children": [{}]})


@pytest.mark.parametrize("value", [time(10, 15), time(10, 15, tzinfo=UTC), time(10, 15, 0, 7), datetime(2025, 11, 25)])
def test_a_time_that_is_returned_fits_its_schema_and_one_without_a_zone_gets_one(value: Any) -> None:
    found = returning(type(value))
    assert found.output_problems(to_json(value)) == []
    assert found.output_problems("noon") != []
    if isinstance(value, datetime):
        assert of(datetime).arguments({"v": to_json(value)})["v"].tzinfo is not None


def test_a_return_annotation_without_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="the return annotation: bytes"):
        returning(bytes)


# -- bounds


@dataclass(frozen=True)
class Ge:
    """As in the package annotated_types, whose classes are told by this name."""

    ge: Any


@dataclass(frozen=True)
class Len:
    min_length: int = 0
    max_length: int | None = None


@dataclass(frozen=True)
class Predicate:
    func: Callable[[Any], bool]


class FieldInfo:
    """The value that `Field(...)` of pydantic returns."""

    __slots__ = ("alias", "default_factory", "description", "metadata")

    def __init__(self, *metadata: Any, description: str | None = None, alias: str | None = None) -> None:
        self.metadata, self.description, self.alias, self.default_factory = list(metadata), description, alias, None


class Marker:
    """A note of a user's own, which says nothing of bounds."""

    metadata = {"unit": "cm"}

    def description(self) -> str:
        return "not a text"


Ge.__module__ = Len.__module__ = Predicate.__module__ = "annotated_types"
FieldInfo.__module__ = "pydantic.fields"
SOME, STARS = array(items=INTEGER, uniqueItems=True), FieldInfo(Ge(1), description="stars")


@pytest.mark.parametrize(
    ("hint", "schema", "good", "bad"),
    [
        (Annotated[int, STARS], INTEGER | {"minimum": 1, "description": "stars"}, 1, 0),
        (Annotated[float, FieldInfo(Ge(0))], NUMBER | {"minimum": 0}, 0.5, -0.5),
        (Annotated[str, Len(1, 2)], TEXT | {"minLength": 1, "maxLength": 2}, "a", ""),
        (Annotated[set[int], Len(1)], SOME | {"minItems": 1}, [1], []),
        (Annotated[int | None, Ge(1)], {"anyOf": [INTEGER, NULL], "minimum": 1}, None, 0),
        (list[Annotated[int, Ge(1)]], array(items=INTEGER | {"minimum": 1}), [1], [0]),
        # A note of somebody else is left alone.
        (Annotated[int, Marker(), Point(1), "a text"], INTEGER | {"description": "a text"}, 1, "1"),
    ],
)
def test_the_bounds_of_a_hint_are_shown_and_kept(hint: Any, schema: Any, good: Any, bad: Any) -> None:
    found = of(hint)
    assert schema_in(hint) == schema
    assert jsonschema.Draft202012Validator(found.input_schema).is_valid({"v": good})
    assert not jsonschema.Draft202012Validator(found.input_schema).is_valid({"v": bad})
    found.arguments({"v": good})
    with pytest.raises(SchemaMismatch, match=r"^v"):
        found.arguments({"v": bad})


def test_a_result_keeps_its_bounds_and_a_field_describes_a_parameter() -> None:
    assert returning(Annotated[int, Ge(1)]).output_problems(0) == ["0 is less than the minimum of 1"]
    described = inspect_handler(of_hint(Annotated[int, STARS]), Context).parameters["v"]
    assert described.description == "stars"


@pytest.mark.parametrize(
    ("hint", "names"),
    [
        (Annotated[str, Predicate(str.isdigit)], "func="),
        (Annotated[int, FieldInfo(alias="w")], "alias='w'"),
        (Annotated[str, Ge(1)], "ge=1"),
        (Annotated[date, Ge(date(2025, 11, 25))], "ge="),
        (Annotated[int, Ge(1), Ge(2)], "ge=2"),
        (Annotated[int, Ge(float("inf"))], "not JSON"),
        (Annotated[int | str, Ge(1)], "ge=1"),
    ],
)
def test_a_bound_that_is_not_understood_is_refused(hint: Any, names: str) -> None:
    with pytest.raises(TypeError, match=names):
        of(hint)


def test_a_field_as_a_default_is_refused_with_what_to_write() -> None:
    def f(v: int = FieldInfo(Ge(1))) -> int:  # type: ignore[assignment]
        return v

    def g(v: dict[str, Any] = defaultdict(list)) -> None: ...  # noqa: B006

    assert inspect(g).arguments({}) == {}
    with pytest.raises(TypeError, match=r"parameter 'v'.*Annotated\[type, Field\(...\)\] = default"):
        inspect(f)


# -- pydantic


def test_pydantic_and_annotated_types_are_read_as_they_are(pydantic: Any) -> None:
    field = pydantic.Field(ge=1, le=5, description="stars")
    assert schema_in(Annotated[int, field]) == INTEGER | {"minimum": 1, "maximum": 5, "description": "stars"}
    assert schema_in(Annotated[str, pydantic.StringConstraints(min_length=1)]) == TEXT | {"minLength": 1}
    for unread in (pydantic.StringConstraints(min_length=1, strip_whitespace=True), pydantic.AfterValidator(str)):
        with pytest.raises(TypeError, match="is not understood in this place"):
            of(Annotated[str, unread])


def read_model(function: Any) -> tuple[Read, jsonschema.Draft202012Validator]:
    """Return what is read from a function, and what a stranger would check its arguments with."""
    found = inspect(function)
    jsonschema.Draft202012Validator.check_schema(found.input_schema)
    return found, jsonschema.Draft202012Validator(found.input_schema)


def test_a_model_of_pydantic_is_a_parameter_and_a_result(pydantic: Any) -> None:
    class Address(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        street: str = pydantic.Field(min_length=1, description="with its number")

    class Order(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        "An order."

        to: Address
        when: datetime | None = None
        items: list[int] = pydantic.Field(default_factory=list, alias="lines")

        @pydantic.field_validator("items")
        @classmethod
        def few(cls, value: list[int]) -> list[int]:
            if len(value) > 2:
                raise ValueError("too many")
            return value

    OtherOrder, Home = Order, Address

    class Address(pydantic.BaseModel):  # type: ignore[misc, name-defined, no-redef]
        planet: str

    class Order(pydantic.BaseModel):  # type: ignore[misc, name-defined, no-redef]
        to: Address

    def f(v, w=None, x=(), y=OtherOrder(to=Home(street="1 Way"))):  # type: ignore[no-untyped-def]  # noqa: B008
        return v

    f.__annotations__ = {
        "v": OtherOrder, "w": Annotated[Order | None, "far"], "x": list[OtherOrder], "y": OtherOrder,
        "return": OtherOrder,
    }  # fmt: skip
    found, library = read_model(f)
    # 1. Two models of one name, each with a part of one name, keep their own.
    assert list(found.input_schema["$defs"]) == ["Order.2.Address", "Order.Address"]
    assert found.input_schema["properties"]["v"]["description"] == "An order."
    assert found.input_schema["properties"]["w"]["description"] == "far"
    assert found.input_schema["properties"]["y"]["default"] == {"to": {"street": "1 Way"}, "when": None, "lines": []}
    given = {
        "v": {"to": {"street": "1 Way"}, "when": "2025-11-25T10:15:00", "lines": [1, "2"]},
        "w": {"to": {"planet": "Mars"}},
        "x": [{"to": {"street": "2 Way"}}],
    }
    assert not library.is_valid({**given, "w": {"to": {"street": "1 Way"}}})
    assert not library.is_valid({**given, "x": [{"to": {"planet": "Mars"}}]})
    # 2. What the function gets.
    made = found.arguments(given)
    assert made["v"] == OtherOrder(to=Home(street="1 Way"), when=datetime(2025, 11, 25, 10, 15), lines=[1, 2])
    assert isinstance(made["w"], Order) and isinstance(made["x"][0], OtherOrder)
    assert found.arguments({"v": made["v"].model_dump(by_alias=True), "w": None})["w"] is None
    # 3. What is wrong, each in its place.
    wrong = {
        "v": {"to": {"street": ""}, "when": "soon", "lines": [1, 2, 3]},
        "w": {"to": 5},
        "x": [{"to": {"street": "1"}}, {"lines": ["x"]}],
        "z": 1,
    }
    problems = problems_of(f, wrong)
    assert [each.partition(":")[0] for each in problems] == [
        "v.lines", "v.to.street", "v.when", "w.to", "x[1].lines[0]", "x[1].to", "z",
    ]  # fmt: skip
    assert problems[0] == "v.lines: Value error, too many"
    many = problems_of(f, {"v": {"to": {"street": "1"}, "lines": ["x"] * 10_000}})
    assert len(many) == 10 and many[9].startswith("v.lines[9]: Input should be")
    # 4. What it returns.
    assert found.output_schema is not None and found.output_schema["type"] == "object"
    value = to_json([made["v"]])[0]
    assert value == {"to": {"street": "1 Way"}, "when": "2025-11-25T10:15:00", "lines": [1, 2]}
    assert found.output_problems(value) == [] and json.dumps(value)
    assert jsonschema.Draft202012Validator(found.output_schema).is_valid(value)
    assert found.output_problems({"to": {}}) == ["to: 'street' is a required property"]
    # 5. An argument that comes as a string is none.
    with pytest.raises(TypeError, match="a string cannot be read as"):
        string_arguments(inspect_handler(of_hint(Order), Context))


def test_models_that_hold_themselves_are_generic_or_are_not_objects_keep_their_schemas(pydantic: Any) -> None:
    T = TypeVar("T")

    class Tree(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        value: int
        children: list["Tree"] = []  # noqa: UP037

    class Box(pydantic.BaseModel, Generic[T]):  # type: ignore[misc, name-defined]
        held: T

    class Names(pydantic.RootModel[dict[str, Tree]]):  # type: ignore[misc, name-defined]
        pass

    class Cat(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        kind: Literal["cat"]
        tree: Tree | None = None

    class Dog(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        kind: Literal["dog"]

    class Pet(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        pet: Cat | Dog = pydantic.Field(discriminator="kind")

    Tree.model_rebuild(_types_namespace={"Tree": Tree})
    tree = {"value": 1, "children": [{"value": 2, "children": []}]}
    good: list[tuple[Any, Any, Any]] = [
        (Tree, tree, {"value": 1, "children": [{"value": "x"}]}),
        (Box[int], {"held": 1}, {"held": "x"}),
        (Box[Tree], {"held": tree}, {"held": {"value": "x"}}),
        (Names, {"a": tree}, {"a": {}}),
        (Pet, {"pet": {"kind": "cat", "tree": tree}}, {"pet": {"kind": "cow"}}),
    ]
    for hint, value, bad in good:
        found, library = read_model(of_hint(hint))
        made = found.arguments({"v": value})["v"]
        assert isinstance(made, hint) and to_json(made).items() >= value.items()
        assert library.is_valid({"v": value}) and not library.is_valid({"v": bad})
        with pytest.raises(SchemaMismatch, match=r"^v"):
            found.arguments({"v": bad})
        # Also beside others, in whatever order, and as a result, whose root is an object.
        several = of(dict[str, hint] | list[Box[int]] | list[hint] | None)  # type: ignore[valid-type]
        assert isinstance(several.arguments({"v": [value]})["v"][0], hint)
        output = returning(hint).output_schema
        assert output is not None and output["type"] == "object"
        assert jsonschema.Draft202012Validator(output).is_valid(to_json(made))
        assert not jsonschema.Draft202012Validator(output).is_valid(bad)


class Broken(ValueError):
    """An error that only looks like one of pydantic."""

    def errors(self) -> Any:
        return [{"loc": 5}]


def looking_like_a_model(schema: Any, refuses: Any = None) -> Any:
    """A class that has the methods of a model, and does in them what it likes."""

    class Alike:
        @classmethod
        def model_json_schema(cls, **options: Any) -> Any:
            if isinstance(schema, Exception):
                raise schema
            return schema

        @classmethod
        def model_validate(cls, value: Any) -> Any:
            if refuses is not None:
                raise refuses
            return value

        def model_dump(self, **options: Any) -> Any:
            return self

    return Alike


@pytest.mark.parametrize(
    "schema",
    [None, [], {"type": "objekt"}, {"$ref": "#/$defs/none"}, {"const": object()}, RuntimeError("not now"), {"$defs": 5},
     {"$defs": {"a": 5}}, {"enum": [[]] * 10_001}],
    ids=lambda each: repr(each)[:30],
)  # fmt: skip
def test_a_model_without_a_schema_that_can_be_used_is_refused_when_registering(schema: Any) -> None:
    for hint in (looking_like_a_model(schema), list[looking_like_a_model(schema)]):  # type: ignore[misc]
        with pytest.raises(TypeError, match=r"'v': .*Alike cannot be used as a model"):
            of(hint)


@pytest.mark.parametrize(
    ("refuses", "problem"),
    [(Broken("no"), "v: no"), (KeyError("k"), "v: KeyError: 'k'"), (ValueError(), "v: ValueError")],
)
def test_whatever_a_model_raises_is_a_problem(refuses: Exception, problem: str) -> None:
    hint = looking_like_a_model({"type": "object", "description": "what it is"}, refuses)
    assert problems_of(of_hint(hint), {"v": {}}) == [problem]
    # A schema that is shown twice is not shared.
    schema_in(dict[str, hint])["additionalProperties"]["description"] = "changed"
    assert schema_in(hint)["description"] == "what it is"


# -- values to JSON


class NumberOfAnother:
    """As a number or an array of numpy."""

    def tolist(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Point(1), {"x": 1, "y": 0, "tags": []}),
        ([Color.RED, Size.LARGE], ["red", 2]),
        ({"b", "a"}, ["a", "b"]),
        ((1, None, True, 1.5), [1, None, True, 1.5]),
        ({"d": date(2025, 11, 25)}, {"d": "2025-11-25"}),
        (datetime(2025, 11, 25, tzinfo=UTC), "2025-11-25T00:00:00+00:00"),
        (Path("a"), "a"),
        (UUID(int=0), "00000000-0000-0000-0000-000000000000"),
    ],
)
def test_values_become_json(value: Any, expected: Any) -> None:
    assert to_json(value) == expected


@pytest.mark.parametrize(
    ("value", "why"),
    [
        *((value, "cannot be written as JSON$") for value in (object(), {1: 2}, float("nan"), [object()], Point)),
        (b"x", "written as JSON; return image"),
        ([looking_like_a_model({})()], "contains itself"),
        ({"n": [NumberOfAnother()]}, rf"of type NumberOfAnother .*JSON, .* {__name__}; return its tolist\(\)"),
    ],
)
def test_a_value_without_a_form_in_json_is_a_type_error(value: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        to_json(value)


# -- arguments that come as strings


class Colour(enum.Enum):
    RED = "r"
    GREEN = 2
    DARK = (0, 0)


CTX = Context()


def keywords(handler: Callable[..., Any], **values: str) -> dict[str, Any]:
    return string_arguments(inspect_handler(handler, Context))(values, CTX)


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (str, "3", "3"), (Any, "3", "3"), (int, "-3", -3), (float, "2.5", 2.5), (float, "1e3", 1000.0),
        (bool, "true", True), (bool, "false", False), (int | None, "3", 3), (str | None, "x", "x"),
        (Literal["a", 1], "1", 1), (Annotated[int, "how many"], "3", 3), (date, "2025-11-25", date(2025, 11, 25)),
        (Annotated[int, Ge(1)], "1", 1),
        # A member goes by its value or its name, and one whose value is not JSON by its name.
        (Colour, "r", Colour.RED), (Colour, "2", Colour.GREEN), (Colour, "GREEN", Colour.GREEN),
        (Colour, "DARK", Colour.DARK),
    ],
)  # fmt: skip
def test_a_string_becomes_what_the_parameter_says(hint: Any, text: str, value: Any) -> None:
    read = keywords(of_hint(hint), v=text)["v"]
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("hint", "texts"),
    [
        (int, ["3.5", "", "1_000", "٣", "true", "9" * 5000, "[" * 100_000]),
        (float, ["nan", "NaN", "1e9999", ".", ""]),
        (bool, ["1", "True"]),
        (Colour, ["blue"]),
        (Literal["a"], ["b"]),
        (date, ["25.11.2025"]),
    ],
)
def test_a_string_that_cannot_be_read_is_named(hint: Any, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError, match="argument 'v': expected .*, got "):
            keywords(of_hint(hint), v=text)
    with pytest.raises(ValueError, match="argument 'v': 0 is less than the minimum of 1"):
        keywords(of_hint(Annotated[int, Ge(1)]), v="0")


def test_no_argument_takes_the_place_of_the_context() -> None:
    def handler(a: str, ctx: Context, b: str = "x") -> None: ...

    def open_ended(ctx: Context | None = None, **rest: str) -> None: ...

    assert keywords(handler, a="1") == {"a": "1", "ctx": CTX}
    assert keywords(open_ended, a="1", ctx="2") == {"a": "1", "ctx": CTX}


def by_position(a: str, /) -> None: ...
def any_number(*a: str) -> None: ...
def of_a_list(a: list[str]) -> None: ...
def of_two(a: int | str) -> None: ...
def of_nothing(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def of_no_bound(a: Annotated[int, Ge("a")]) -> None: ...
async def asynchronous(a: str) -> None: ...


@pytest.mark.parametrize("handler", [by_position, any_number, of_a_list, of_two, of_nothing, of_no_bound, asynchronous])
def test_a_function_that_strings_cannot_call_is_refused_at_registration(handler: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=handler.__name__):
        keywords(handler)


# -- functions that may take the context


def two(first: Any, second: Any) -> tuple[Any, Any]:
    return first, second


def defaulted(first: Any, second: Any = None) -> tuple[Any, Any]:
    return first, second


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (two, ["a"], ("a", CTX)), (functools.partial(two, "a"), [], ("a", CTX)), (two, ["a", "b"], ("a", "b")),
        (defaulted, ["a"], ("a", None)), (lambda *values: values, ["a"], ("a",)),
        # One that Python cannot look into gets none.
        (dict, [[("a", 1)]], {"a": 1}),
    ],
)  # fmt: skip
def test_a_function_that_requires_one_argument_more_gets_the_context(
    function: Any, arguments: list[Any], result: Any
) -> None:
    assert call(function, CTX, *arguments) == result
