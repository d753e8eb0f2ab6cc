"""JSON Schema for the schemas that people write: `inputSchema`, `outputSchema`.

Spec:      basic/index#json-schema-usage (2025-11-25, 2026-07-28)
Upholds:   the rows on JSON Schema of spec_notes/basic/index.md; those on checks of spec_notes/server/tools.md
Reads:     basic/formats; the library jsonschema, when the first schema is prepared (30 ms that a start must not pay)
Not here:  the schemas derived from our own types (schema.py) and from type hints (server/signatures)

Dialects: 2020-12, which is also the default, 2019-09, draft-07, draft-06 and draft-04. One schema has one dialect.

Nothing is ever fetched: a reference must lead to a place in the same schema, or to a metaschema of a dialect above, and
one that does not is refused when the schema is prepared.

Bounds, because a schema may come from a stranger: the depth, the parts and the text of a schema, the length of a
`pattern`, and the references followed in one check (what a small schema needs to become exponential). One thing stays
unbounded: Python's `re` backtracks, so a hostile `pattern` can hold the interpreter for long. Patterns that do this
cannot be told from useful ones such as `^[a-z]+(-[a-z]+)*$`; who does not trust a server runs its client in a process
of its own. `pattern` is read as a regular expression of Python, which knows nearly all that ECMA-262 has, but not
`\\p{...}`.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Final

from mcp_ref.basic import formats

__all__ = ["DIALECTS", "SchemaRefused", "Validator", "prepare"]

DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

DIALECTS: Final = {
    DEFAULT_DIALECT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
"""The dialects supported, by `$schema` without a trailing `#`, and the class of jsonschema that checks each."""

MOST_DEPTH: Final = 64
MOST_PARTS: Final = 10_000
MOST_TEXT: Final = 1 << 20
MOST_PATTERN: Final = 1_000
MOST_REFERENCES: Final = 100_000
MOST_PROBLEMS: Final = 10

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date": formats.is_date,
    "date-time": formats.is_date_time,
    "email": formats.is_email,
    "ipv4": formats.is_ipv4,
    "ipv6": formats.is_ipv6,
    "time": formats.is_time,
    "uri": formats.is_uri,
    "uri-reference": formats.is_uri_reference,
    "uuid": formats.is_uuid,
}

_references_left: ContextVar[list[int]] = ContextVar("_references_left")


class SchemaRefused(ValueError):
    """A schema that cannot be used; the text says which one and why."""


class _TooMuchWork(Exception):
    """A check followed more than `MOST_REFERENCES` references."""


class Validator:
    """A schema ready to check values with; made by `prepare()`.

    Attributes:
        schema: the schema as it was given; a copy, so later changes of the original do not reach it.

    Threads: any, also at the same time.
    """

    __slots__ = ("_compiled", "schema")

    def __init__(self, schema: Any, compiled: Any) -> None:
        self.schema = schema
        self._compiled = compiled

    def problems(self, instance: Any) -> list[str]:
        """What is wrong with a JSON value, such as "city: 5 is not of type 'string'"; empty when it fits.

        At most `MOST_PROBLEMS`. That a value is nested too deeply to be checked, or takes too much work, is one too.
        """
        token = _references_left.set([MOST_REFERENCES])
        try:
            return [_told(error) for error in itertools.islice(self._compiled.iter_errors(instance), MOST_PROBLEMS)]
        except RecursionError:
            return ["nested too deeply to be checked"]
        except _TooMuchWork:
            return [f"needs more than {MOST_REFERENCES} references of the schema to be checked"]
        except Exception as exc:
            # A reference into a part that is no schema is only seen when it is applied; nothing passes unchecked.
            return [f"cannot be checked: {exc}"]
        finally:
            _references_left.reset(token)


def prepare(schema: Any, *, what: str) -> Validator:
    """Check a schema in its dialect and make it ready.

    Args:
        schema: a JSON object, or true or false; without `$schema` it is read as 2020-12.
        what: its name in the text of errors, such as "the inputSchema of tool 'add'".

    Raises:
        SchemaRefused: it is not JSON, not an object or a boolean, too big, of a dialect not supported, not valid in its
            dialect, or it refers to something outside itself.

    Threads: any.
    Spec: basic/index#schema-dialect, basic/index#ref-resolution
    """
    try:
        text = _bounded_text(schema)
        return Validator(json.loads(text), _compiled(json.loads(text)))
    except SchemaRefused as exc:
        raise SchemaRefused(f"{what} {exc}") from None
    except RecursionError:
        raise SchemaRefused(f"{what} is nested too deeply") from None


# -- before the library: is it JSON of a reasonable size ----------------------------------------------------------


def _bounded_text(schema: Any) -> str:
    if not isinstance(schema, dict | bool):
        raise SchemaRefused(f"must be a JSON object, true or false, not {type(schema).__name__}")
    # SHOULD: reasonable bounds (basic/index#composition-keyword-resource-use)
    if len(_containers(schema)) > MOST_PARTS:
        raise SchemaRefused(f"has more than {MOST_PARTS} parts")
    try:
        text = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise SchemaRefused(f"is not JSON: {exc}") from None
    if len(text) > MOST_TEXT:
        raise SchemaRefused(f"is longer than {MOST_TEXT} characters")
    return text


def _containers(value: Any) -> list[Any]:
    """All objects and arrays in a JSON value, up to one more than are allowed; without recursion."""
    found: list[Any] = []
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [each for each in level if isinstance(each, dict | list | tuple)]
        found += level[: MOST_PARTS + 1]
        if not level or len(found) > MOST_PARTS:
            return found
        level = list(itertools.chain.from_iterable(x.values() if isinstance(x, dict) else x for x in level))
    raise SchemaRefused(f"is nested more than {MOST_DEPTH} levels deep")


def _dialect(schema: Any) -> str:
    """The key in DIALECTS for a schema that says `$schema`, or the default."""
    named = schema.get("$schema", DEFAULT_DIALECT) if isinstance(schema, dict) else DEFAULT_DIALECT
    dialect = named.removesuffix("#") if isinstance(named, str) else None
    if dialect not in DIALECTS:
        # MUST: an error saying that the dialect is not supported (basic/index#implementation-requirements)
        raise SchemaRefused(f"has the dialect {named!r}, which is not supported; supported: {', '.join(DIALECTS)}")
    return dialect


# -- with the library ---------------------------------------------------------------------------------------------


def _compiled(schema: Any) -> Any:
    """The validator of jsonschema for a schema, which it may change: the caller keeps none."""
    import jsonschema
    from referencing import Registry

    dialect = _dialect(schema)
    checker = getattr(jsonschema, DIALECTS[dialect])
    try:
        # MUST: valid in its dialect (basic/index#schema-validation)
        checker.check_schema(schema, format_checker=_format_checker("regex"))
    except jsonschema.SchemaError as exc:
        raise SchemaRefused(f"is not valid in its dialect {dialect}: {_told(exc)}") from None
    for part in _parts(schema, dialect):
        _tidy(part)
    return _counting(checker)(schema, registry=Registry(), format_checker=_format_checker("regex", *_FORMATS))


def _parts(schema: Any, dialect: str) -> list[Any]:
    """All schemas in a schema, by its dialect's own rules; refuses references that lead out of it."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
    from referencing.jsonschema import specification_with

    specification = specification_with(dialect)
    own = {id(each) for each in _containers(schema)}
    seen: dict[int, Any] = {}
    todo = [(schema, REGISTRY.resolver_with_root(specification.create_resource(schema)))]
    while todo:
        part, resolver = todo.pop()
        if not isinstance(part, dict) or id(part) not in own or id(part) in seen:
            continue
        seen[id(part)] = part
        if "$schema" in part and _dialect(part) != dialect:
            raise SchemaRefused("mixes two dialects")
        inner = resolver.in_subresource(specification.create_resource(part))
        todo += [(each, inner) for each in specification.subresources_of(part)]
        todo += [_target(part[keyword], inner) for keyword in _REFERENCES if isinstance(part.get(keyword), str)]
    return list(seen.values())


def _target(reference: str, resolver: Any) -> tuple[Any, Any]:
    """What a reference leads to, and the resolver for the references there."""
    from referencing.exceptions import Unresolvable

    try:
        found = resolver.lookup(reference)
    # The library lets more than its own exceptions through where a pointer enters a string or a URI is malformed.
    except (Unresolvable, LookupError, ValueError, TypeError, AttributeError):
        found = None
    if found is None or not isinstance(found.contents, dict | bool):
        # MUST NOT: fetch it; SHOULD reject the schema (basic/index#ref-resolution)
        raise SchemaRefused(f"refers to {reference!r}, which is no schema inside it; nothing is fetched")
    return found.contents, found.resolver


def _tidy(part: dict[str, Any]) -> None:
    """What lets `_counting` see every reference that is followed."""
    # The library changes to its own class wherever it meets `$schema`.
    part.pop("$schema", None)
    # These follow references on their own; after the others they find only what has been counted.
    for keyword in ("unevaluatedItems", "unevaluatedProperties"):
        if keyword in part:
            part[keyword] = part.pop(keyword)


@functools.cache
def _counting(checker: Any) -> Any:
    """The class of jsonschema, with references that count."""
    from jsonschema import validators

    extend: Callable[..., Any] = validators.extend

    def counted(keyword: Callable[..., Any]) -> Callable[..., Any]:
        def check(*args: Any) -> Any:
            left = _references_left.get()
            left[0] -= 1
            if left[0] < 0:
                raise _TooMuchWork
            return keyword(*args)

        return check

    known = checker.VALIDATORS
    return extend(checker, {name: counted(known[name]) for name in _REFERENCES if name in known})


@functools.cache
def _format_checker(*names: str) -> Any:
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    for name in names:
        checker.checks(name)(functools.partial(_has_format, _FORMATS.get(name, _is_pattern)))
    return checker


def _has_format(check: Callable[[str], bool], value: Any) -> bool:
    return not isinstance(value, str) or check(value)


def _is_pattern(value: str) -> bool:
    if len(value) > MOST_PATTERN:
        return False
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


# -- telling ------------------------------------------------------------------------------------------------------


def _told(error: Any) -> str:
    problem = error.message if len(error.message) <= 300 else f"{error.message[:200]} ... {error.message[-80:]}"
    path = _path(error.absolute_path)
    return f"{path}: {problem}" if path else str(problem)


def _path(steps: Iterable[str | int]) -> str:
    """Such as "a.b[0]"; the empty string for the whole value."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
