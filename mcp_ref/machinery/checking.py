"""The check of what arrives: a type of the wire and a revision, compiled into closures.

Spec:      schema.ts of every revision
Upholds:   "open in what we accept": spec_notes/basic/index.md
Not here:  the answer to a mismatch: -32602 or RemoteProtocolError (agreement)

`checker(wire_type, revision)` is compiled once; what it returns takes about a microsecond for the params of a call.

What is open: keys that the revision does not name are not looked at, and an object whose `type` is a string that no
arm of its union names in the revision is kept as it is. A kind that is named must have its fields, except those whose
absence has a meaning (RequiredIn and Bounds with `checked=False`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from mcp_ref.machinery import shapes
from mcp_ref.machinery.shapes import TAGS, Kind, Object, Shape, shape_of
from mcp_ref.revisions import Revision

Test = Callable[[Any], None]
"""Raises `SchemaMismatch` for a value that does not fit."""


class SchemaMismatch(ValueError):
    """A value does not fit its type.

    Attributes:
        problem: what is wrong: "must be a string, not an integer".
        steps: where, the innermost first: every container adds its own while the exception passes it.
    """

    def __init__(self, problem: str, *steps: str | int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[str | int] = list(steps)
        self.root = ""

    @property
    def path(self) -> str:
        """Where, from the root that the caller named: "params.messages[2].content.type"."""
        return self.root + "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" if step.isidentifier() else f'["{step}"]'
            for step in reversed(self.steps)
        )

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"


Check = Callable[..., None]
"""A compiled check: `check(value, "params")` raises `SchemaMismatch`, its path beginning with that root."""


@functools.cache
def checker(wire_type: Any, revision: Revision) -> Check:
    """The check of an inbound value against a type in a revision; compiled once for each pair.

    Args:
        wire_type: a TypedDict, a union of them, or any other type of the notation.

    Returns:
        A function of the value and the name of its root. It raises `SchemaMismatch` and returns nothing.

    Raises:
        TypeError: the type has something that the notation does not know.

    Threads: any; what is returned keeps no state.
    """
    test = tester(shape_of(wire_type, revision)) or _accept

    def check(value: Any, root: str = "value") -> None:
        try:
            test(value)
        except SchemaMismatch as mismatch:
            mismatch.root = root
            raise

    return check


# -- the words ----------------------------------------------------------------------------------------------------

PYTHON_TYPES: Final = {kind: python_type for python_type, kind in shapes.KINDS.items()}
NOUNS: Final[dict[type, str]] = {str: "a string", int: "an integer", float: "a number", bool: "a boolean"}
NOUNS.update({type(None): "null", dict: "an object", list: "an array"})
"""What a value of JSON is called in the text of an error."""


def is_of_kind(kind: Kind, value: Any) -> bool:
    """Whether a value is a scalar of a kind: 5.0 is an integer, as JSON Schema has it, and true is not a number."""
    if kind not in ("integer", "number"):
        return isinstance(value, PYTHON_TYPES[kind])
    whole = isinstance(value, int) or (isinstance(value, float) and (kind == "number" or value.is_integer()))
    return whole and not isinstance(value, bool)


def _mismatch(expected: str, value: Any, *steps: str | int) -> SchemaMismatch:
    found = NOUNS.get(type(value), f"a Python {type(value).__name__}")
    if isinstance(value, float) and not value.is_integer():
        found = "a fraction"
    return SchemaMismatch(f"must be {expected}, not {found}", *steps)


def _expected(shape: Shape) -> str:
    match shape:
        case shapes.Scalar():
            return NOUNS[PYTHON_TYPES[shape.kind]]
        case shapes.Enumeration():
            return " or ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in shape.values)
        case shapes.Array():
            return "an array"
    return "an object"


# -- one test per shape -------------------------------------------------------------------------------------------


def tester(shape: Shape) -> Test | None:
    """The test of a shape; None if every value fits."""
    match shape:
        case shapes.Scalar():
            return _scalar(shape)
        case shapes.Enumeration():
            return _enumeration(shape)
        case shapes.Array() | shapes.Map():
            return _container(shape)
        case Object():
            return _object(shape)
        case shapes.Choice():
            return _choice(shape)
    return None


def _accept(value: Any) -> None:
    """Every value fits."""


def _scalar(shape: shapes.Scalar) -> Test:
    """The test of a string, a number, a boolean or null."""
    kind, usual, bounds = shape.kind, PYTHON_TYPES[shape.kind], shape.bounds
    lowest, highest = (bounds.minimum, bounds.maximum) if bounds.checked else (None, None)

    def test(value: Any) -> None:
        # One look is enough for nearly all values.
        if type(value) is not usual and not is_of_kind(kind, value):
            raise _mismatch(_expected(shape), value)

    def test_with_bounds(value: Any) -> None:
        test(value)
        if lowest is not None and value < lowest:
            raise SchemaMismatch(f"must be at least {lowest}")
        if highest is not None and value > highest:
            raise SchemaMismatch(f"must be at most {highest}")

    return test if lowest is highest is None else test_with_bounds


def _enumeration(shape: shapes.Enumeration) -> Test:
    """The test of a value that must be one of some."""
    # With their types, because 1 and True are equal in Python; and a list is not hashable.
    members = {(type(value), value) for value in shape.values}
    types = tuple({type(value) for value in shape.values})

    def test(value: Any) -> None:
        if not isinstance(value, types) or (type(value), value) not in members:
            raise SchemaMismatch(f"must be {_expected(shape)}")

    return test


def _container(shape: shapes.Array | shapes.Map) -> Test:
    """The test of an array, or of an object whose keys are data."""
    test_each, kind = tester(shape.each), (list if isinstance(shape, shapes.Array) else dict)
    limit = shape.at_most.items if isinstance(shape, shapes.Array) and shape.at_most else None

    def test(value: Any) -> None:
        if not isinstance(value, kind):
            raise _mismatch(NOUNS[kind], value)
        if limit is not None and len(value) > limit:
            raise SchemaMismatch(f"must hold at most {limit} items, not {len(value)}")
        if test_each is not None:
            for step, item in value.items() if isinstance(value, dict) else enumerate(value):
                try:
                    test_each(item)
                except SchemaMismatch as mismatch:
                    mismatch.steps.append(step)
                    raise

    return test


def _object(shape: Object) -> Test:
    """The test of an object with named keys: the required ones are there, and each fits."""
    required = frozenset(key for key, field in shape.fields.items() if field.demanded)
    in_order = [key for key in shape.fields if key in required]
    find = {key: found for key, field in shape.fields.items() if (found := tester(field.shape))}.get

    def test(value: Any) -> None:
        if not isinstance(value, dict):
            raise _mismatch("an object", value)
        if not value.keys() >= required:
            raise SchemaMismatch("is required", next(key for key in in_order if key not in value))
        for key, item in value.items():
            if (field_test := find(key)) is not None:
                try:
                    field_test(item)
                except SchemaMismatch as mismatch:
                    mismatch.steps.append(key)
                    raise

    return test


# -- unions -------------------------------------------------------------------------------------------------------


def _choice(shape: shapes.Choice) -> Test | None:
    """The test of a union: arms are told apart by the kind of JSON value first, then objects by their tag."""
    if any(isinstance(arm, shapes.Anything) for arm in shape.here):
        return None
    objects = [arm for arm in shape.here if isinstance(arm, Object | shapes.Map)]
    if len(shape.here) == 1 and not objects:
        return tester(shape.here[0])
    expected = " or ".join(dict.fromkeys(map(_expected, shape.here)))
    by_value = any(isinstance(arm, shapes.Enumeration) for arm in shape.here)

    def refuse(value: Any) -> None:
        raise SchemaMismatch(f"must be {expected}") if by_value else _mismatch(expected, value)

    of_array = _first_that_fits([arm for arm in shape.here if isinstance(arm, shapes.Array)]) or refuse
    scalars = [arm for arm in shape.here if isinstance(arm, shapes.Scalar | shapes.Enumeration)]
    of_scalar = _first_that_fits(scalars, refuse) or refuse
    of_object = _by_tag(shape, objects) or _first_that_fits(objects) or refuse
    # One look is enough for nearly all scalars, such as the id of a request.
    unbounded = [arm for arm in scalars if isinstance(arm, shapes.Scalar) and arm.bounds == shapes.Bounds()]
    usual = {PYTHON_TYPES[arm.kind] for arm in unbounded}

    def test(value: Any) -> None:
        if type(value) in usual:
            return
        of_kind = of_object if isinstance(value, dict) else of_array if isinstance(value, list) else of_scalar
        of_kind(value)

    return test


def _by_tag(shape: shapes.Choice, arms: Sequence[Object | shapes.Map]) -> Test | None:
    """The test of objects that are told apart by the tag that every arm has in this revision; None without such a tag.

    A peer's new kind of content is kept; a mode says how to behave and cannot be passed over.
    """
    tagged = [arm for arm in arms if isinstance(arm, Object)]
    tag = next((tag for tag in TAGS if all(tag in arm.tags and tag in arm.fields for arm in tagged)), None)
    if tag is None or len(tagged) < len(arms) or not (len(arms) > 1 or shape.elsewhere):
        return None
    kinds = dict.fromkeys(kind for arm in tagged for kind in arm.tags[tag])
    by_kind = {kind: _first_that_fits([arm for arm in tagged if kind in arm.tags[tag]]) for kind in kinds}
    untagged = _first_that_fits([arm for arm in tagged if not arm.fields[tag].demanded])
    closed = shape.closed or tag != "type"

    def test(value: Any) -> None:
        kind = value.get(tag)
        if tag not in value and untagged is None:
            raise SchemaMismatch("is required", tag)
        if tag in value and not isinstance(kind, str):
            raise _mismatch("a string", kind, tag)
        arm = by_kind.get(kind) if tag in value else untagged
        if arm is not None:
            arm(value)
        elif closed:
            raise SchemaMismatch("must be " + " or ".join(f'"{name}"' for name in by_kind), tag)

    return test


def _first_that_fits(arms: Sequence[Shape], refuse: Test | None = None) -> Test | None:
    """The test of several arms; if none fits, `refuse` says so, or else one sentence with what each arm said."""
    tests = [tester(arm) or _accept for arm in arms]
    if len(tests) <= 1 and not refuse:
        return tests[0] if tests else None

    def test(value: Any) -> None:
        failures = []
        for arm in tests:
            try:
                return arm(value)
            except SchemaMismatch as mismatch:
                failures.append(mismatch)
        if refuse:
            return refuse(value)
        texts = dict.fromkeys(str(mismatch).lstrip(".").lstrip() for mismatch in failures)
        raise failures[0] if len(texts) == 1 else SchemaMismatch(f"fits no alternative: {'; or '.join(texts)}")

    return test
