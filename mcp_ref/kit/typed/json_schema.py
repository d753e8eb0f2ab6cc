"""JSON Schema for the schemas that people write (`inputSchema`, `outputSchema`), and the string formats that it names.

Spec:      basic/index#json-schema-usage (2025-11-25, 2026-07-28); client/elicitation#requested-schema (the formats);
           JSON Schema validation, section 7.3
Upholds:   the rows on JSON Schema of spec_notes/basic/index.md; those on checks of spec_notes/server/tools.md; those on
           formats of spec_notes/client/elicitation.md
Not here:  schemas derived from the types of the wire and from type hints (kit/typed/publishing)

`prepare(schema, what=...)` returns a `Validator`, whose `problems(value)` are texts; or it raises `SchemaRefused`. The
library jsonschema is imported with the first schema that is prepared (30 ms that a start must not pay).

Dialects: 2020-12, which is also the default, 2019-09, draft-07, draft-06 and draft-04. One schema has one dialect.
Nothing is ever fetched: a reference must lead to a place in the same schema, or to a metaschema of a dialect above.
`format` is an annotation, as it is by default in 2020-12: the formats below are for forms, and for hints of our own.

Bounds, because a schema may come from a stranger: the depth, the parts and the text of a schema, the length of a
`pattern`, and the work of one check, which every keyword counts for; also its deadline is looked at. One thing stays
unbounded: Python's `re` backtracks, so a hostile `pattern` can hold the interpreter for long. Such patterns cannot be
told from useful ones like `^[a-z]+(-[a-z]+)*$`; whoever does not trust a server runs its client in a process of its
own. `pattern` is read as a regular expression of Python, which knows nearly all that ECMA-262 has, but not `\\p{...}`.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from mcp_ref.errors import RequestTimeout
from mcp_ref.kit.threads.deadline import Deadline

# -- formats: does a string have it? ------------------------------------------------------------------------------

# Texts, which re compiles at the first use and then remembers: most programs use none of them.
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = (
    r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
_UUID = r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_URI = r"[A-Za-z][A-Za-z0-9+.-]*:([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = (
    rf'({_ATOM}(\.{_ATOM})*|"([\x20\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*")'
    rf"@({_LABEL}(\.{_LABEL})*|\[(?P<literal>[0-9A-Za-z:.]+)\])"
)


def _parses(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


def is_date(value: str) -> bool:
    """Return whether a text is a full date of RFC 3339: "2025-11-25"."""
    from datetime import date

    return re.fullmatch(_DATE, value) is not None and _parses(date.fromisoformat, value)


def is_time(value: str) -> bool:
    """Return whether a text is a full time of RFC 3339, with its offset: "10:15:00Z"; any minute may have a leap
    second.
    """
    return re.fullmatch(_TIME, value) is not None


def is_date_time(value: str) -> bool:
    """Return whether a text is a date and time of RFC 3339, with its offset: "2025-11-25T10:15:00Z"."""
    return value[10:11] in ("T", "t") and is_date(value[:10]) and is_time(value[11:])


def is_email(value: str) -> bool:
    """Return whether a text is a mailbox of RFC 5321: a dotted or a quoted local part, then a host name or an address
    in brackets.
    """
    from ipaddress import IPv4Address, IPv6Address

    if (match := re.fullmatch(_EMAIL, value)) is None or (literal := match["literal"]) is None:
        return match is not None
    return _parses(IPv4Address, literal) or _parses(IPv6Address, literal.removeprefix("IPv6:"))


def is_uri(value: str) -> bool:
    """Return whether a text is a URI of RFC 3986, with its scheme."""
    from urllib.parse import urlsplit

    # Reading the port checks it.
    if not re.fullmatch(_URI, value) or value.count("#") > 1 or not _parses(lambda uri: urlsplit(uri).port, value):
        return False
    parts = urlsplit(value)
    # Brackets stand for an address in the authority alone.
    return not re.search(r"[\[\]]", parts.path + parts.query + parts.fragment)


def is_uuid(value: str) -> bool:
    """Return whether a text is a UUID of RFC 4122 in its usual form, with hyphens."""
    return re.fullmatch(_UUID, value) is not None


_ALL = (is_date, is_date_time, is_email, is_uri, is_uuid)
FORMATS: Final = {check.__name__.removeprefix("is_").replace("_", "-"): check for check in _ALL}
"""By the name in `format`: those of forms, and of hints."""

# -- schemas ------------------------------------------------------------------------------------------------------

DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

# MUST: support JSON Schema 2020-12, and document the other dialects that are supported (basic/index#schema-dialect)
DIALECTS: Final = {
    DEFAULT_DIALECT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
"""The dialects supported, by `$schema` without a trailing `#`, and the class of jsonschema that checks each."""

MAX_DEPTH: Final = 64
MAX_PARTS: Final = 10_000
MAX_TEXT: Final = 1 << 20
MAX_PATTERN: Final = 1_000
MAX_WORK: Final = 5_000_000  # in one check: a keyword costs 1 and more, a problem by its text, a reference 50
MAX_PROBLEMS: Final = 10

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

_LOOK_INTERVAL: Final = 2_000  # in work, some 10 ms


class _Budget:
    """The work that one check may still do, and its deadline."""

    def __init__(self, deadline: Deadline | None) -> None:
        self._deadline = deadline
        self.work = MAX_WORK
        self.look_at = MAX_WORK

    def look(self) -> None:
        """Look at the clock, and at what is left. Raises: RequestTimeout, _TooMuchWork."""
        self.look_at = self.work - _LOOK_INTERVAL
        if self._deadline is not None:
            self._deadline.check("checking a value against its schema")
        if self.work < 0:
            raise _TooMuchWork

    def problem(self, found: Any) -> Any:
        """Count a problem: its text may quote the whole value."""
        self.work -= len(found.message) >> 6
        if self.work < self.look_at:
            self.look()
        return found


_budget: ContextVar[_Budget] = ContextVar("_budget")


class SchemaRefused(ValueError):
    """A schema that cannot be used; the text says which one and why."""


class _TooMuchWork(Exception):
    """A check costs more than `MAX_WORK`."""


class Validator:
    """A schema ready to check values with; made by `prepare()`.

    Attributes:
        schema: the schema as it was given; a copy, so later changes of the original do not reach it.

    Threads: any, also at the same time.
    """

    def __init__(self, schema: Any, counting: Any) -> None:
        self.schema, self._counting = schema, counting

    def problems(self, value: Any, deadline: Deadline | None = None) -> list[str]:
        """Return what is wrong with a JSON value, such as "city: 5 is not of type 'string'"; empty when it fits.

        At most `MAX_PROBLEMS`. That a value is nested too deeply to be checked, or takes too much work, is one too.

        Raises: RequestTimeout: the deadline has passed. (It is not looked at for what takes no time worth naming.)
        """
        token = _budget.set(_Budget(deadline))
        try:
            return [_text(error) for error in itertools.islice(self._counting.iter_errors(value), MAX_PROBLEMS)]
        except RecursionError:
            return ["nested too deeply to be checked"]
        except _TooMuchWork:
            return [f"needs more than {MAX_WORK} steps to be checked"]
        except RequestTimeout:
            raise
        except Exception as exc:
            # A reference into a part that is not a schema is only seen when it is applied; nothing passes unchecked.
            return [f"cannot be checked: {exc}"]
        finally:
            _budget.reset(token)


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
        # 1. Is it JSON of a reasonable size?
        if not isinstance(schema, dict | bool):
            raise SchemaRefused(f"must be a JSON object, true or false, not {type(schema).__name__}")
        # SHOULD: bound the depth and the size of a schema (basic/index#composition-keyword-resource-use)
        if len(_containers(schema)) > MAX_PARTS:
            raise SchemaRefused(f"has more than {MAX_PARTS} parts")
        try:
            text = json.dumps(schema, allow_nan=False)
        except (TypeError, ValueError) as exc:
            raise SchemaRefused(f"is not JSON: {exc}") from None
        if len(text) > MAX_TEXT:
            raise SchemaRefused(f"is longer than {MAX_TEXT} characters")
        # 2. Compile a copy, which the library's keywords see with our changes; keep another as it came.
        return Validator(json.loads(text), _compiled(json.loads(text)))
    except SchemaRefused as exc:
        raise SchemaRefused(f"{what} {exc}") from None
    except RecursionError:
        raise SchemaRefused(f"{what} is nested too deeply") from None


def _containers(value: Any) -> list[Any]:
    """Return the objects and arrays in a JSON value, up to one more than are allowed; without recursion."""
    found: list[Any] = []
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [each for each in level if isinstance(each, dict | list | tuple)]
        found += level[: MAX_PARTS + 1]
        if not level or len(found) > MAX_PARTS:
            return found
        level = list(itertools.chain.from_iterable(x.values() if isinstance(x, dict) else x for x in level))
    raise SchemaRefused(f"is nested more than {MAX_DEPTH} levels deep")


def _dialect(schema: Any) -> str:
    """Return the key in DIALECTS for a schema that says `$schema`, or the default."""
    # MUST: a schema without `$schema` is read as 2020-12 (basic/index#implementation-requirements)
    named = schema.get("$schema", DEFAULT_DIALECT) if isinstance(schema, dict) else DEFAULT_DIALECT
    dialect = named.removesuffix("#") if isinstance(named, str) else None
    if dialect not in DIALECTS:
        # MUST: refuse a schema of an unsupported dialect with an error that says so
        # (basic/index#implementation-requirements)
        raise SchemaRefused(f"has the dialect {named!r}, which is not supported; supported: {', '.join(DIALECTS)}")
    return dialect


def _compiled(schema: Any) -> Any:
    """Return a validator of jsonschema for a schema, which counts. The schema is changed: the caller keeps none."""
    import jsonschema
    from referencing import Registry

    dialect = _dialect(schema)
    library = getattr(jsonschema, DIALECTS[dialect])
    try:
        # MUST: a schema is valid in its dialect (basic/index#schema-validation)
        library.check_schema(schema, format_checker=_pattern_checker())
    except jsonschema.SchemaError as exc:
        raise SchemaRefused(f"is not valid in its dialect {dialect}: {_text(exc)}") from None
    for part in _parts(schema, dialect):
        # The library changes to its own class, which does not count references, wherever it meets `$schema`.
        part.pop("$schema", None)
        # These follow references on their own; placed after the others they find only what was counted.
        for keyword in ("unevaluatedItems", "unevaluatedProperties"):
            if keyword in part:
                part[keyword] = part.pop(keyword)
    return _extended(library)(schema, registry=Registry())


def _parts(schema: Any, dialect: str) -> list[Any]:
    """Return the schemas in a schema, by its dialect's own rules; refuses references that lead out of it."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    specification = specification_with(dialect)
    own = {id(each) for each in _containers(schema)}
    seen: dict[int, Any] = {}
    todo = [(schema, REGISTRY.resolver_with_root(specification.create_resource(schema)))]
    while todo:
        part, outer = todo.pop()
        if not isinstance(part, dict) or id(part) not in own or id(part) in seen:
            continue
        seen[id(part)] = part
        if "$schema" in part and _dialect(part) != dialect:
            raise SchemaRefused("mixes two dialects")
        resolver = outer.in_subresource(specification.create_resource(part))
        todo += [(each, resolver) for each in specification.subresources_of(part)]
        for reference in [part[keyword] for keyword in _REFERENCES if isinstance(part.get(keyword), str)]:
            try:
                found = resolver.lookup(reference)
            # The library lets other exceptions through if a pointer enters a string or a URI is malformed.
            except (Unresolvable, LookupError, ValueError, TypeError, AttributeError):
                found = None
            if found is None or not isinstance(found.contents, dict | bool):
                # An implementation MUST NOT fetch what a `$ref` to the network names (basic/index#ref-resolution)
                # SHOULD: reject a schema whose reference leads nowhere (basic/index#ref-resolution)
                raise SchemaRefused(f"refers to {reference!r}, which is not a schema inside it; nothing is fetched")
            todo.append((found.contents, found.resolver))
    return list(seen.values())


@functools.cache
def _extended(library: Any) -> Any:
    """Return the class of jsonschema with keywords that count, and with one that is quicker."""
    from jsonschema import validators

    def counted(name: str, keyword: Callable[..., Any]) -> Callable[..., Any]:
        fixed = 50 if name in _REFERENCES else 1
        squared = name.startswith("unevaluated")

        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            budget = _budget.get()
            # What a keyword does by itself, before it applies others: at worst, each part of its value with each part
            # of the instance; and the library looks for what has been evaluated in a list.
            size = len(instance) if isinstance(instance, dict | list) else 1
            if squared:
                size *= size
            elif isinstance(value, dict | list):
                size *= len(value)
            budget.work -= fixed + (size >> 4)
            if budget.work < budget.look_at:
                budget.look()
            found = keyword(validator, value, instance, schema)
            return found and map(budget.problem, found)

        return check

    extend: Callable[..., Any] = validators.extend
    keywords = {**library.VALIDATORS, "uniqueItems": _unique_items, "multipleOf": _multiple_of}
    return extend(library, {name: counted(name, keyword) for name, keyword in keywords.items()})


def _unique_items(validator: Any, unique: Any, instance: Any, schema: Any) -> Any:
    """Check the keyword `uniqueItems`; the library compares every item with every other one."""
    from jsonschema import ValidationError

    if unique and isinstance(instance, list) and len(set(map(_hashable, instance))) < len(instance):
        yield ValidationError("has non-unique elements")


def _multiple_of(validator: Any, divisor: Any, instance: Any, schema: Any) -> Any:
    """Check the keyword `multipleOf`, of the decimal fractions that JSON writes; the library divides binary ones."""
    from fractions import Fraction

    from jsonschema import ValidationError

    if validator.is_type(instance, "number"):
        # An int as it is: its text may be too long. The exponent of a float is short.
        dividend, by = (Fraction(each if isinstance(each, int) else repr(each)) for each in (instance, divisor))
        if dividend % by:
            yield ValidationError(f"{instance!r} is not a multiple of {divisor!r}")


def _hashable(value: Any) -> Any:
    """Return the same key for JSON values that are equal, and nobody can choose two that collide: only texts are
    hashed.
    """
    if isinstance(value, dict):
        return frozenset((name, _hashable(each)) for name, each in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, str) or value is None:
        return value
    # 1 is 1.0, and not true.
    return type(value) is bool, str(int(value) if value == value // 1 else value)


@functools.cache
def _pattern_checker() -> Any:
    """Return what checks, by the format that a metaschema gives to patterns, that they are of Python, and short."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    checker.checks("regex", raises=(re.error, OverflowError, RecursionError))(
        lambda value: not isinstance(value, str) or (len(value) <= MAX_PATTERN and bool(re.compile(value)))
    )
    return checker


def _text(error: Any) -> str:
    """Return the text, such as "a.b[0]: 5 is not of type 'string'"; without a path for the whole value."""
    problem = error.message if len(error.message) <= 300 else f"{error.message[:200]} ... {error.message[-80:]}"
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    path = "".join(steps).removeprefix(".")
    return f"{path}: {problem}" if path else str(problem)
