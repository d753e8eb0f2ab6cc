"""What a handler's signature says: the schema of its arguments, their check and conversion, the schema of its result.

Spec:      server/tools#tool (`inputSchema`, `outputSchema`); basic/index#json-schema-usage
Upholds:   the rows on derived schemas of spec_notes/server/tools.md
Reads:     server/hints (which type hint has which schema), server/shapes
Not here:  schemas that people write (basic/json_schema); what a tool does with all this (server/tools)

A parameter is described by the text in its `Annotated[T, "text"]`, or else by its entry under `Args:` in the docstring,
in Google's style. The derived schemas use nothing that the oldest revision could not hold: `type`, `properties`,
`required`, with `additionalProperties` false.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NoReturn, Union, get_args, get_origin

from mcp_ref.server.hints import Hints, default_in_json
from mcp_ref.server.shapes import Field, Mismatch, Shape, object_shape
from mcp_ref.server.tool_types import BadArguments

__all__ = ["BadArguments", "Signature", "inspect_handler"]

JsonObject = dict[str, Any]

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
