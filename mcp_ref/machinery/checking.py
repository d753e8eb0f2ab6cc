"""The check of what arrives: a type and a revision, compiled into closures.

Spec:      schema.ts of every revision
Upholds:   "open in what we accept": spec_notes/basic/index.md
Not here:  the answer to a mismatch: -32602 or RemoteProtocolError (peer)

What is open: keys that the revision does not name are not looked at, and an object whose `type` is a string that no
arm of its union names in the revision is kept as it is. A kind that is named must have its fields, but for those whose
absence has a meaning (RequiredIn and Bounds with `checked=False`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from mcp_ref.machinery.shapes import (
    TAGS,
    UNBOUNDED,
    Anything,
    Array,
    Bounds,
    Choice,
    Enumeration,
    Map,
    Object,
    Scalar,
    Shape,
    shape_of,
)
from mcp_ref.revisions import REVISIONS, Revision

Test = Callable[[Any], None]
"""Raises `Wrong` for a value that does not fit."""

_NOUNS = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "a boolean", "null": "null"}
_NOUN_OF_TYPE = {
    bool: "a boolean",
    str: "a string",
    int: "an integer",
    float: "a number",
    dict: "an object",
    list: "an array",
}


class SchemaMismatch(ValueError):
    """A value does not fit its type.

    Attributes:
        path: where, from the root that the caller named: "params.messages[2].content.type".
        problem: what is wrong there: "must be a string, not an integer".
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.path = path
        self.problem = problem


class Check(Protocol):
    """A compiled check: `check(value, "params")`."""

    def __call__(self, value: Any, root: str = "value") -> None:
        """Raise `SchemaMismatch`, its path beginning with `root`, where the value does not fit."""
        ...


def checker(wire_type: Any, revision: Revision) -> Check:
    """The check of an inbound value against a type in a revision; compiled once for each pair.

    Args:
        wire_type: a TypedDict, a union of them, or any other type of the notation.

    Returns:
        A function of the value and the name of its root. It raises `SchemaMismatch` and returns nothing.

    Raises:
        TypeError: the type has something that the notation has not.

    Threads: any; what is returned keeps no state.
    """
    return _checker(wire_type, revision.name)


@functools.cache
def _checker(wire_type: Any, revision_name: str) -> Check:
    test = tester(shape_of(wire_type, REVISIONS[revision_name])) or _accept

    def check(value: Any, root: str = "value") -> None:
        try:
            test(value)
        except Wrong as wrong:
            raise SchemaMismatch(root + wrong.path, wrong.problem) from None

    return check


# -- one test per shape -------------------------------------------------------------------------------------------


class Wrong(Exception):
    """A mismatch on its way up: every container adds its step, the innermost first."""

    def __init__(self, problem: str, *steps: str | int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[str | int] = list(steps)

    @property
    def path(self) -> str:
        return "".join(_step(step) for step in reversed(self.steps))


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else f'["{step}"]'


def tester(shape: Shape) -> Test | None:
    """The test of a shape; None where every value fits."""
    match shape:
        case Scalar():
            return _scalar(shape)
        case Enumeration():
            return _enumeration(shape)
        case Array():
            return _array(shape)
        case Map():
            return _map(shape)
        case Object():
            return _object(shape)
        case Choice():
            return _choice(shape)
    return None


def _accept(value: Any) -> None:
    """Every value fits."""


def _mismatch(expected: str, value: Any, *steps: str | int) -> Wrong:
    return Wrong(f"must be {expected}, not {_noun_of(value)}", *steps)


def _noun_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and not value.is_integer():
        return "a fraction"
    return _NOUN_OF_TYPE.get(type(value), f"a Python {type(value).__name__}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    # JSON Schema counts 5.0 as an integer, and JSON has no booleans among its numbers.
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_KINDS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _string(value: Any) -> None:
    if not isinstance(value, str):
        raise _mismatch("a string", value)


def _scalar(shape: Scalar) -> Test:
    if shape.kind == "string":
        return _string
    fits, noun, bounds = _KINDS[shape.kind], _NOUNS[shape.kind], shape.bounds

    def test(value: Any) -> None:
        if not fits(value):
            raise _mismatch(noun, value)

    return _bounded(test, bounds) if bounds.checked and bounds != UNBOUNDED else test


def _bounded(test: Test, bounds: Bounds) -> Test:
    def test_with_bounds(value: Any) -> None:
        test(value)
        if bounds.minimum is not None and value < bounds.minimum:
            raise Wrong(f"must be at least {bounds.minimum}")
        if bounds.maximum is not None and value > bounds.maximum:
            raise Wrong(f"must be at most {bounds.maximum}")

    return test_with_bounds


def _enumeration(shape: Enumeration) -> Test:
    # With their types, because 1 and True are equal in Python; and a list is not hashable.
    members = {(type(value), value) for value in shape.values}
    types = tuple({type(value) for value in shape.values})

    def test(value: Any) -> None:
        if not isinstance(value, types) or (type(value), value) not in members:
            raise Wrong(f"must be {_expected(shape)}")

    return test


def _array(shape: Array) -> Test:
    item, limit = tester(shape.items), shape.at_most.items if shape.at_most else None

    def test(value: Any) -> None:
        if not isinstance(value, list):
            raise _mismatch("an array", value)
        if limit is not None and len(value) > limit:
            raise Wrong(f"must hold at most {limit} items, not {len(value)}")
        if item is not None:
            _each(item, enumerate(value))

    return test


def _map(shape: Map) -> Test:
    item = tester(shape.values)

    def test(value: Any) -> None:
        if not isinstance(value, dict):
            raise _mismatch("an object", value)
        if item is not None:
            _each(item, value.items())

    return test


def _each(test: Test, items: Iterable[tuple[str | int, Any]]) -> None:
    for step, item in items:
        try:
            test(item)
        except Wrong as wrong:
            wrong.steps.append(step)
            raise


def _object(shape: Object) -> Test:
    required = frozenset(key for key, field in shape.fields.items() if field.demanded)
    in_order = [key for key in shape.fields if key in required]
    find = {key: found for key, field in shape.fields.items() if (found := tester(field.shape))}.get

    def test(value: Any) -> None:
        if not isinstance(value, dict):
            raise _mismatch("an object", value)
        if not value.keys() >= required:
            raise Wrong("is required", next(key for key in in_order if key not in value))
        for key, item in value.items():
            if (field_test := find(key)) is not None:
                try:
                    field_test(item)
                except Wrong as wrong:
                    wrong.steps.append(key)
                    raise

    return test


# -- unions -------------------------------------------------------------------------------------------------------


def _choice(shape: Choice) -> Test | None:
    """The arms are first told apart by the kind of JSON value, then objects by their tag."""
    if any(isinstance(arm, Anything) for arm in shape.here):
        return None
    if len(shape.here) == 1 and not isinstance(shape.here[0], Object):
        return tester(shape.here[0])
    objects = [arm for arm in shape.here if isinstance(arm, Object | Map)]
    arrays = [arm for arm in shape.here if isinstance(arm, Array)]
    scalars = [arm for arm in shape.here if isinstance(arm, Scalar | Enumeration)]
    wrong_kind = _wrong_kind(shape.here)
    of_object = _of_objects(objects, shape) if objects else wrong_kind
    of_array = _first_that_fits(arrays) if arrays else wrong_kind
    of_scalar = _of_scalars(scalars, wrong_kind) if scalars else wrong_kind

    def test(value: Any) -> None:
        if isinstance(value, dict):
            of_object(value)
        elif isinstance(value, list):
            of_array(value)
        else:
            of_scalar(value)

    return test


def _expected(shape: Shape) -> str:
    match shape:
        case Scalar():
            return _NOUNS[shape.kind]
        case Enumeration():
            return " or ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in shape.values)
        case Array():
            return "an array"
    return "an object"


def _wrong_kind(arms: Sequence[Shape]) -> Test:
    expected = " or ".join(dict.fromkeys(_expected(arm) for arm in arms))
    by_value = any(isinstance(arm, Enumeration) for arm in arms)

    def test(value: Any) -> None:
        raise Wrong(f"must be {expected}") if by_value else _mismatch(expected, value)

    return test


def _of_scalars(arms: Sequence[Shape], wrong_kind: Test) -> Test:
    tests = [tester(arm) or _accept for arm in arms]

    def test(value: Any) -> None:
        for arm in tests:
            try:
                return arm(value)
            except Wrong:
                continue
        wrong_kind(value)

    return test


def _of_objects(arms: Sequence[Object | Map], union: Choice) -> Test:
    tag = _tag(arms)
    if tag is None or (len(arms) == 1 and not union.elsewhere):
        return _first_that_fits(arms)
    table: dict[str, list[Object]] = {}
    tagged = [arm for arm in arms if isinstance(arm, Object)]
    for arm in tagged:
        for kind in arm.tags[tag]:
            table.setdefault(kind, []).append(arm)
    untagged = [arm for arm in tagged if not arm.fields[tag].demanded]
    return _tagged(
        tag,
        {kind: _first_that_fits(group) for kind, group in table.items()},
        _first_that_fits(untagged) if untagged else None,
        # A peer's new kind of content is kept; a mode says how to behave and cannot be passed over.
        closed=union.closed or tag != "type",
    )


def _tag(arms: Sequence[Object | Map]) -> str | None:
    """The key that tells the arms apart, where every arm has it in this revision."""
    for tag in TAGS:
        if all(isinstance(arm, Object) and tag in arm.tags and tag in arm.fields for arm in arms):
            return tag
    return None


def _tagged(tag: str, table: dict[str, Test], untagged: Test | None, *, closed: bool) -> Test:
    def test(value: Any) -> None:
        kind = value.get(tag)
        if isinstance(kind, str):
            if (arm := table.get(kind)) is not None:
                arm(value)
            elif closed:
                raise Wrong("must be " + " or ".join(f'"{name}"' for name in table), tag)
        elif tag in value:
            raise _mismatch("a string", kind, tag)
        elif untagged is None:
            raise Wrong("is required", tag)
        else:
            untagged(value)

    return test


def _first_that_fits(arms: Sequence[Shape]) -> Test:
    tests = [tester(arm) or _accept for arm in arms]
    if len(tests) == 1:
        return tests[0]

    def test(value: Any) -> None:
        failures = []
        for arm in tests:
            try:
                return arm(value)
            except Wrong as wrong:
                failures.append(wrong)
        raise _summary(failures)

    return test


def _summary(failures: list[Wrong]) -> Wrong:
    """The one mismatch on which all arms agree, else all of them in one sentence."""
    texts = dict.fromkeys(f"{wrong.path.lstrip('.')} {wrong.problem}".lstrip() for wrong in failures)
    if len(texts) == 1:
        return failures[0]
    return Wrong(f"fits no alternative: {'; or '.join(texts)}")
