"""Handlers whose arguments come as strings: those of prompts and of resource templates. Nothing on the wire.

Spec:      server/prompts#getting-a-prompt, server/resources#resource-templates
Upholds:   "validate prompt arguments before processing" of spec_notes/server/prompts.md
Reads:     nothing
Not here:  tools, whose arguments are JSON (server/signatures)

    str, no annotation      as it came                  int, float      in decimal
    bool                    true or false               Enum            the value, or the name, of a member
    Literal["a", 1]         one of them                 X | None        as X; the default stands for None
"""

from __future__ import annotations

import enum
import functools
import inspect
import math
import re
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

__all__ = ["StringHandler", "StringParameter", "inspect_strings", "signature_of", "summary"]

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
