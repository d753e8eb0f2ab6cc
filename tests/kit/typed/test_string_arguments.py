from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from datetime import date
from typing import Annotated, Any, Literal

import pytest

from mcp_ref.kit.typed.handlers import inspect_handler, string_arguments


class Ctx:
    """Stands for the context that a server passes."""


class Colour(enum.Enum):
    RED = "r"
    GREEN = 2


class Shade(enum.Enum):
    DARK = (0, 0)


def keywords(handler: Callable[..., Any]) -> Callable[[Mapping[str, str], Any], dict[str, Any]]:
    return string_arguments(inspect_handler(handler, Ctx))


def reading(annotation: Any, text: str) -> Any:
    def handler(value):  # type: ignore[no-untyped-def]
        pass

    handler.__annotations__ = {"value": annotation}
    return keywords(handler)({"value": text}, None)["value"]


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (str, "3", "3"),
        (Any, "3", "3"),
        (int, "-3", -3),
        (float, "2.5", 2.5),
        (float, "1e3", 1000.0),
        (bool, "true", True),
        (bool, "false", False),
        (int | None, "3", 3),
        (str | None, "x", "x"),
        (Colour, "r", Colour.RED),
        (Colour, "2", Colour.GREEN),
        (Colour, "GREEN", Colour.GREEN),
        (Literal["a", 1], "1", 1),
        (Annotated[int, "how many"], "3", 3),
        (date, "2025-11-25", date(2025, 11, 25)),
        # A member whose value is not JSON goes by its name.
        (Shade, "DARK", Shade.DARK),
    ],
)
def test_a_string_becomes_what_the_parameter_says(annotation: Any, text: str, value: Any) -> None:
    read = reading(annotation, text)
    assert (type(read), read) == (type(value), value)


UNREADABLE: list[tuple[Any, list[str]]] = [
    (int, ["3.5", "", "1_000", "٣", "true", "9" * 5000, "[" * 100_000]),
    (float, ["nan", "NaN", "1e9999", ".", ""]),
    (bool, ["1", "True"]),
    (Colour, ["blue"]),
    (Literal["a"], ["b"]),
    (date, ["25.11.2025"]),
]


@pytest.mark.parametrize(("annotation", "texts"), UNREADABLE)
def test_a_string_that_cannot_be_read_is_named(annotation: Any, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError, match="argument 'value': expected .*, got "):
            reading(annotation, text)


def test_no_argument_takes_the_place_of_the_context() -> None:
    def handler(a: str, ctx: Ctx, b: str = "x") -> None: ...

    def open_ended(ctx: Ctx | None = None, **rest: str) -> None: ...

    context = Ctx()
    assert keywords(handler)({"a": "1"}, context) == {"a": "1", "ctx": context}
    assert keywords(open_ended)({"a": "1", "ctx": "2"}, context) == {"a": "1", "ctx": context}


def by_position(a: str, /) -> None: ...
def any_number(*a: str) -> None: ...
def of_a_list(a: list[str]) -> None: ...
def of_two(a: int | str) -> None: ...
def of_nothing(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
async def asynchronous(a: str) -> None: ...


@pytest.mark.parametrize("handler", [by_position, any_number, of_a_list, of_two, of_nothing, asynchronous])
def test_a_function_that_strings_cannot_call_is_refused_at_registration(handler: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=handler.__name__):
        keywords(handler)


class Ge:
    def __init__(self, ge: Any) -> None:
        self.ge = ge


def test_a_number_in_a_string_is_within_its_bounds() -> None:
    assert reading(Annotated[int, Ge(1)], "1") == 1
    with pytest.raises(ValueError, match="argument 'value': 0 is less than the minimum of 1"):
        reading(Annotated[int, Ge(1)], "0")
    with pytest.raises(TypeError, match="a string cannot be read as .*'a' is not of type 'number'"):
        reading(Annotated[int, Ge("a")], "0")
