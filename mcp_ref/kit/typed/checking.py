"""The two ways of a JSON value past its type: the check of what arrives, and the projection of what goes out. Both are
compiled, from the shape of the type in a revision, into closures.

Spec:      schema.ts of every revision
Upholds:   "open in what we accept", "exact in what we send": spec_notes/basic/index.md; "all inputs are checked":
           spec_notes/server/tools.md
Not here:  the answer to a mismatch: -32602 or RemoteProtocolError (wire/negotiated); reading hints
           (kit/typed/handlers); whether a method or a capability may be used at all (the method rows)

`checker(wire_type, revision)` is compiled once; what it returns takes about a microsecond for the params of a call.
`loader(shape)` is the same for a handler's arguments, which are converted on the way: it returns what the handler gets.

What is open in a type of the wire: keys that the revision does not name are not looked at, and an object whose `type`
is a string that no arm of its union names in the revision is kept as it is. A kind that is named must have its fields,
except those whose absence has a meaning (RequiredIn and Bounds with `checked=False`). A handler's objects are closed.
A judge is stricter: for it nothing that the schema says is open.

`projector(wire_type, revision)` leaves nothing of another revision in what is sent. What only another one has:

    a key of an object               left out
    an arm of a union, in a reply    a text block that says what was here
    an arm of a union, in a request  LocalProtocolError
    an array where one may stand     of one: that one. Of several: LocalProtocolError in a request; in a reply the texts
                                     joined if all are texts, else the first

Every loss is logged: a key at INFO, content at WARNING. A key that no revision names, and user data (a place typed
`Any` or `dict[str, Any]`), passes untouched. The input is never changed.
"""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Final, NamedTuple

from mcp_ref.errors import LocalProtocolError
from mcp_ref.kit.typed import shapes
from mcp_ref.kit.typed.shapes import TAGS, JsonObject, Kind, Object, Shape, shape_of
from mcp_ref.revisions import Revision

log = logging.getLogger(__name__)

Load = Callable[[Any], Any]
"""Raises `SchemaMismatch` for a value that does not fit; returns what a handler gets of it."""


class SchemaMismatch(ValueError):
    """A value does not fit its type. Its text tells the first problem.

    Attributes:
        found: a path such as ".days" or ".cities[0]", empty for the whole value, and the problem there; at least one.
        root: what the caller calls the whole value.
    """

    def __init__(self, *found: tuple[str, str]) -> None:
        super().__init__(found)
        self.found, self.root = found, ""

    def under(self, step: str | int) -> SchemaMismatch:
        """Return the same, seen from one level further out."""
        return SchemaMismatch(*((_step(step) + path, problem) for path, problem in self.found))

    @property
    def path(self) -> str:
        """Where, from the root that the caller named: "params.messages[2].content.type"."""
        return (self.root + self.found[0][0]).removeprefix(".")

    @property
    def problem(self) -> str:
        """Return what is wrong there: "must be a string, not an integer"."""
        return self.found[0][1]

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, as "path: problem", in the order of the paths."""
        ordered = sorted(self.found, key=lambda each: each[0])
        return [f"{path.removeprefix('.')}: {problem}" if path else problem for path, problem in ordered]

    def __str__(self) -> str:
        return f"{self.path} {self.problem}".lstrip()


def _step(step: str | int) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}" if step.isidentifier() else f'["{step}"]'


def said(problem: BaseException) -> str:
    """Give the text of an exception, with its class if that alone would be a key, an exit code or nothing."""
    text, name = str(problem), type(problem).__name__
    return f"{name}: {text}" if text and isinstance(problem, KeyError | SystemExit) else text or name


def built(make: Callable[..., Any], /, *given: Any, **members: Any) -> Any:
    """Return what a user's class makes of a value; whatever it raises against that is a mismatch.

    Raises: SchemaMismatch: of a model of pydantic each problem in its place, else the one text.
    """
    try:
        return make(*given, **members)
    except Exception as exc:
        problem: Any = exc
    try:
        found = [("".join(map(_step, each["loc"])), str(each["msg"])) for each in problem.errors()]
    except Exception:
        found = []
    raise SchemaMismatch(*(found[:MAX_TOLD] or [("", said(problem))]))


class _OtherKind(SchemaMismatch):
    """The whole value is of another kind, or none of those that are named."""


Check = Callable[..., None]
"""A compiled check: `check(value, "params")` raises `SchemaMismatch`, its path beginning with that root."""


MAX_LEFT_OUT = 10
"""Entries of a page that are left out because they do not fit."""


def check_page(check: Check, page: dict[str, Any], root: str) -> None:
    """Check a page of a list as servers are known to write it: a few entries that do not fit are taken out of it, so
    that they hide none of the others, and a `nextCursor` of null, which stands for none."""
    if page.get("nextCursor", "") is None:
        del page["nextCursor"]
    for left_out in range(MAX_LEFT_OUT + 1):
        try:
            return check(page, root)
        except SchemaMismatch as mismatch:
            entry = re.match(r"\w+\.(\w+)\[(\d+)\]", mismatch.path)
            if entry is None or left_out == MAX_LEFT_OUT:
                raise
            log.warning("left an entry of a list out: %s", mismatch)
            del page[entry[1]][int(entry[2])]


@functools.cache
def checker(wire_type: Any, revision: Revision, judged: bool = False) -> Check:
    """Return the check of an inbound value against a type in a revision; compiled once for each pair.

    Args:
        wire_type: a TypedDict, a union of them, or any other type of the notation.
        judged: for a judge, who holds a message to all that the schema says; a peer lets some of it pass.

    Returns:
        A function of the value and the name of its root. It raises `SchemaMismatch` and returns nothing.

    Raises:
        TypeError: the type has something that the notation does not know.

    Threads: any; what is returned keeps no state.
    """
    test = tester(shape_of(wire_type, revision, judged))

    def check(value: Any, root: str = "value") -> None:
        try:
            test(value)
        except SchemaMismatch as mismatch:
            mismatch.root = root
            raise

    return check


@functools.cache
def tester(shape: Shape) -> Load:
    """Return the check of a shape of the wire; what it returns is not used."""
    return _Compiler(converts=False).compile(shape) or _same


def loader(shape: Shape) -> Load:
    """Return what checks a handler's argument, and makes of it what the handler gets."""
    load = _Compiler(converts=True).compile(shape) or _same

    def read(value: Any) -> Any:
        try:
            return load(value)
        except RecursionError:
            raise SchemaMismatch(("", "nested too deeply to be checked")) from None

    return read


def _same(value: Any) -> Any:
    """Return the value: every one fits."""
    return value


# -- the words ----------------------------------------------------------------------------------------------------

PYTHON_TYPES: Final = {kind: python_type for python_type, kind in shapes.KINDS.items()}
NOUNS: Final[dict[type, str]] = {str: "a string", int: "an integer", float: "a number", bool: "a boolean"}
NOUNS.update({type(None): "null", dict: "an object", list: "an array"})
"""The nouns for values of JSON in the text of an error."""

MAX_TOLD: Final = 10  # problems that a model of pydantic tells of one value
MAX_SHOWN: Final = 40
"""Characters of a wrong value that an error shows."""


def shortened(value: Any) -> str:
    """Return a JSON value as an error shows it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def is_of_kind(kind: Kind, value: Any) -> bool:
    """Return whether a value is a scalar of a kind: 5.0 is an integer, as JSON Schema has it, and true is not a
    number.
    """
    if kind not in ("integer", "number"):
        return isinstance(value, PYTHON_TYPES[kind])
    whole = isinstance(value, int) or (isinstance(value, float) and (kind == "number" or value.is_integer()))
    return whole and not isinstance(value, bool)


_KINDS: Final[dict[type, type]] = {shapes.Array: list, shapes.Row: list, shapes.Map: dict, Object: dict}
"""The Python types of arrays and objects; other shapes are of scalars."""


def _may_be(shape: Shape, kind: type) -> bool:
    """Return whether a value of a kind may fit: `dict`, `list`, or `object` for scalars."""
    return any(
        isinstance(arm, shapes.Anything) or _KINDS.get(type(arm), object) is kind for arm in shapes.plain_arms(shape)
    )


def _expected(shape: Shape) -> str:
    if isinstance(shape, shapes.Scalar):
        return NOUNS[PYTHON_TYPES[shape.kind]]
    if isinstance(shape, shapes.Enumeration):
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in shape.values)
    return NOUNS[_KINDS[type(shape)]]


class _Compiler:
    """One closure per shape; None for one that every value fits, unchanged.

    Args:
        converts: for a handler, whose errors show the wrong value; False: for a type of the wire.
    """

    def __init__(self, *, converts: bool) -> None:
        self._converts = converts
        self._known: dict[Object, Load] = {}

    def compile(self, shape: Shape) -> Load | None:
        match shape:
            case shapes.Scalar():
                return self._scalar(shape)
            case shapes.Enumeration():
                return self._enumeration(shape)
            case shapes.Array() | shapes.Row() | shapes.Map():
                return self._container(shape)
            case shapes.Described():
                inner, problems = shape.make or self.compile(shape.shape), shape.problems
                if problems is None:
                    return inner

                def load(value: Any) -> Any:
                    """Load the value, whose type is told first, and check that it is within bounds."""
                    loaded = value if inner is None else inner(value)
                    if found := problems(value):
                        raise SchemaMismatch(*(("", problem) for problem in found))
                    return loaded

                return load
            case Object():
                return self._known.get(shape) or self._object(shape)
            case shapes.Choice():
                return self._choice(shape)
        return None

    def _mismatch(self, expected: str, value: Any) -> _OtherKind:
        found = NOUNS.get(type(value), f"a Python {type(value).__name__}")
        if isinstance(value, float) and not value.is_integer():
            found = "a fraction"
        if not self._converts:
            return _OtherKind(("", f"must be {expected}, not {found}"))
        shown = "" if value is None else f": {shortened(value)}"
        return _OtherKind(("", f"expected {expected}, got {found}{shown}"))

    def _none_of(self, expected: str, value: Any) -> _OtherKind:
        shown = f"expected {expected}, got {shortened(value)}" if self._converts else f"must be {expected}"
        return _OtherKind(("", shown))

    # -- one check per shape

    def _scalar(self, shape: shapes.Scalar) -> Load:
        """Compile a string, a number, a boolean or null; or what is made of it, such as a date."""
        kind, usual, make, bounds = shape.kind, PYTHON_TYPES[shape.kind], shape.make, shape.bounds
        expected = _expected(shape)
        lowest, highest = (bounds.minimum, bounds.maximum) if bounds.checked else (None, None)

        def load(value: Any) -> Any:
            # One look is enough for nearly all values.
            if type(value) is not usual:
                if not is_of_kind(kind, value):
                    raise self._mismatch(expected, value)
                # 5.0 is an integer too. An integer for a number stays one: making it a float could lose digits.
                value = int(value) if usual is int else value
            if lowest is not None and value < lowest:
                raise SchemaMismatch(("", f"must be at least {lowest}"))
            if highest is not None and value > highest:
                raise SchemaMismatch(("", f"must be at most {highest}"))
            try:
                return value if make is None else make(value)
            except ValueError as exc:
                raise SchemaMismatch(("", str(exc))) from None

        return load

    def _enumeration(self, shape: shapes.Enumeration) -> Load:
        """Compile one of some values, or the member that it stands for."""
        expected, members = _expected(shape), shape.values if shape.members is None else shape.members
        # The flag keeps true apart from 1, which are equal in Python and not in JSON.
        made = {(isinstance(v, bool), v): member for v, member in zip(shape.values, members, strict=True)}

        def load(value: Any) -> Any:
            try:
                return made[isinstance(value, bool), value]
            except (KeyError, TypeError):  # A list is not hashable.
                raise self._none_of(expected, value) from None

        return load

    def _container(self, shape: shapes.Array | shapes.Row | shapes.Map) -> Load:
        """Compile an array, one with a shape for each place, or an object whose keys are data."""
        kind = dict if isinstance(shape, shapes.Map) else list
        make = shape.make if isinstance(shape, shapes.Array) else tuple
        limit = shape.at_most.items if isinstance(shape, shapes.Array) and shape.at_most else None
        count = len(shape.places) if isinstance(shape, shapes.Row) else None
        places = [self.compile(place) or _same for place in shape.places] if isinstance(shape, shapes.Row) else []
        load_each = None if isinstance(shape, shapes.Row) else self.compile(shape.each)
        as_it_is = load_each is None and not self._converts
        load_each = load_each or _same

        def load(value: Any) -> Any:
            if not isinstance(value, kind):
                raise self._mismatch(NOUNS[kind], value)
            if limit is not None and len(value) > limit:
                raise SchemaMismatch(("", f"must hold at most {limit} items, not {len(value)}"))
            if count is not None and len(value) != count:
                raise SchemaMismatch(("", f"expected {count} items, got {len(value)}"))
            if as_it_is:
                return value
            items = []
            steps = value.items() if isinstance(value, dict) else enumerate(value)
            for step, item in steps:
                try:
                    items.append(places[step](item) if places else load_each(item))
                except SchemaMismatch as mismatch:
                    raise mismatch.under(step) from None
            if isinstance(value, dict):
                return dict(zip(value, items, strict=True))
            if make is list:
                return items
            made = built(make, items)
            if len(made) != len(items):
                raise SchemaMismatch(("", "has an item twice"))
            return made

        return load

    def _object(self, shape: Object) -> Load:
        """Compile an object with named keys; all its problems are told at once. A closed one becomes a dict or an
        instance.
        """
        fields, make = shape.fields, shape.make
        loads: dict[str, Load] = {}
        # What most members are: scalars that stay as they are, told by their type.
        scalars = {key: field.shape for key, field in fields.items() if isinstance(field.shape, shapes.Scalar)}
        usual = {key: PYTHON_TYPES[s.kind] for key, s in scalars.items() if not s.make and s.bounds == shapes.Bounds()}
        demanded = dict.fromkeys(key for key, field in fields.items() if field.demanded).keys()
        find = loads.get

        def load(value: Any) -> Any:
            if not isinstance(value, dict):
                raise self._mismatch("an object", value)
            found = [] if value.keys() >= demanded else [(_step(k), "is required") for k in demanded if k not in value]
            members = dict(value) if make else value
            for key, item in value.items():
                if type(item) is usual.get(key):
                    continue
                if (load_member := find(key)) is not None:
                    try:
                        loaded = load_member(item)
                        if make:
                            members[key] = loaded
                    except SchemaMismatch as mismatch:
                        found += mismatch.under(key).found
                elif make and key not in fields:
                    found.append((_step(key), f"unknown; known: {', '.join(fields) or 'none'}"))
            if found:
                raise SchemaMismatch(*found)
            return members if make is None or make is dict else built(make, **members)

        # It is known before its fields are, for it may hold itself.
        self._known[shape] = load
        loads |= {key: inner for key, field in fields.items() if (inner := self.compile(field.shape))}
        return load

    # -- unions

    def _choice(self, shape: shapes.Choice) -> Load | None:
        """Compile a union. Its arms are told apart by the kind of JSON value first, then objects by their tag; of the
        others the first that fits counts, in the order written."""
        if not self._converts and any(isinstance(arm, shapes.Anything) for arm in shape.here):
            return None
        tagged = self._by_tag(shape)
        if len(shape.here) == 1 and tagged is None:
            return self.compile(shape.here[0])
        arms = [arm for arm in shapes.plain_arms(shape) if not isinstance(arm, shapes.Anything)]
        by_value = any(isinstance(arm, shapes.Enumeration) for arm in arms)
        expected = " or ".join(dict.fromkeys(map(_expected, arms)))
        refusal = functools.partial(self._none_of if by_value else self._mismatch, expected)
        of_dict, of_list, of_scalar = (
            self._first_that_fits([arm for arm in shape.here if _may_be(arm, kind)], refusal)
            for kind in (dict, list, object)
        )
        # One look is enough for nearly all scalars, such as the id of a request.
        scalars = [] if self._converts else [arm for arm in shape.here if isinstance(arm, shapes.Scalar)]
        usual = {PYTHON_TYPES[arm.kind] for arm in scalars if arm.bounds == shapes.Bounds()}

        def load(value: Any) -> Any:
            if type(value) in usual:
                return value
            if isinstance(value, dict):
                return of_dict(value) if tagged is None else tagged(value)
            return of_list(value) if isinstance(value, list) else of_scalar(value)

        return load

    def _by_tag(self, shape: shapes.Choice) -> Load | None:
        """Compile objects that are told apart by the tag that every arm has in this revision; None without such a tag.

        A peer's new kind of content is kept; a mode says how to behave and cannot be passed over.
        """
        arms = [arm for arm in shape.here if _may_be(arm, dict)]
        tagged = [arm for arm in arms if isinstance(arm, Object)]
        tag = next((tag for tag in TAGS if all(tag in arm.tags and tag in arm.fields for arm in tagged)), None)
        if tag is None or not tagged or len(tagged) < len(arms) or not (len(arms) > 1 or shape.elsewhere):
            return None
        kinds = dict.fromkeys(kind for arm in tagged for kind in arm.tags[tag])
        by_kind = {kind: self._first_that_fits([arm for arm in tagged if kind in arm.tags[tag]]) for kind in kinds}
        without = [arm for arm in tagged if not arm.fields[tag].demanded]
        untagged = self._first_that_fits(without) if without else None
        closed = shape.closed or tag != "type"

        def load(value: Any) -> Any:
            kind = value.get(tag)
            if tag not in value and untagged is None:
                raise SchemaMismatch((f".{tag}", "is required"))
            if tag in value and not isinstance(kind, str):
                raise self._mismatch("a string", kind).under(tag)
            arm = by_kind.get(kind) if tag in value else untagged
            if arm is not None:
                return arm(value)
            if closed:
                raise SchemaMismatch((f".{tag}", "must be " + " or ".join(f'"{name}"' for name in by_kind)))
            return value

        return load

    def _first_that_fits(self, arms: Sequence[Shape], refusal: Callable[[Any], SchemaMismatch] = _OtherKind) -> Load:
        """Return what the first fitting arm makes of a value. If none fits: what they say, if any of them has seen
        more than that it is another kind of value; or else the refusal."""
        loads = [self.compile(arm) or _same for arm in arms]
        if len(loads) == 1 and isinstance(arms[0], Object):
            return loads[0]

        def load(value: Any) -> Any:
            failures = []
            for load_arm in loads:
                try:
                    return load_arm(value)
                except _OtherKind:
                    continue
                except SchemaMismatch as mismatch:
                    failures.append(mismatch)
            said = {str(mismatch): mismatch for mismatch in failures}
            if len(said) > 1:
                raise SchemaMismatch(("", f"fits no alternative: {'; or '.join(said)}"))
            raise next(iter(said.values()), None) or refusal(value)

        return load


# -- the projection -----------------------------------------------------------------------------------------------

Projection = Callable[[Any], Any]
"""Returns the value itself if nothing is lost, else a changed copy."""


@functools.cache
def projector(
    wire_type: Any, revision: Revision, *, replies: bool = False
) -> Callable[[JsonObject], JsonObject] | None:
    """Return the projection of an outbound object to a revision; compiled once for each type, revision and direction.

    Args:
        wire_type: a TypedDict or a union of them: the type of the params or of the result.
        replies: True for a result, in which content of another revision becomes a text block; False for the params of
            a request or a notification, in which it is an error.

    Returns:
        None if the type has nothing that the revision lacks. Else a function that returns its argument itself if
        nothing is lost, a copy without the losses otherwise, and raises `LocalProtocolError` as told above.

    Raises:
        TypeError: the type has something that the notation does not know.

    Threads: any; what is returned keeps no state.
    """
    return _Projection(revision, replies).projection(shape_of(wire_type, revision))


@functools.cache
def losing(wire_type: Any, revision: Revision, *, replies: bool = False) -> frozenset[str] | None:
    """Return the keys at which an object may lose something; one that has none of them goes out as it is.

    With it a caller saves the projection of what is mostly sent: few calls of a tool have a key that a revision lacks.

    Returns: the empty set if `projector` returns None; None for a union, of which only the projection can tell.
    Raises: TypeError: as for `projector`.
    Threads: any.
    """
    shape, compiler = shape_of(wire_type, revision), _Projection(revision, replies)
    if compiler.projection(shape) is None:
        return frozenset()
    if not isinstance(shape, Object):
        return None
    return frozenset(shape.absent) | {key for key, field in shape.fields.items() if compiler.projection(field.shape)}


class _Projection(NamedTuple):
    """One function per shape that can lose something; None for the others."""

    revision: Revision
    replies: bool

    def projection(self, shape: Shape) -> Projection | None:
        match shape:
            case shapes.Array() | shapes.Map():
                return self._container(shape)
            case Object():
                return self._object(shape)
            case shapes.Choice():
                return self._choice(shape)
        return None

    def _container(self, shape: shapes.Array | shapes.Map) -> Projection | None:
        """Return the projection of an array, or of an object whose keys are data."""
        inner, kind = self.projection(shape.each), dict if isinstance(shape, shapes.Map) else (list, tuple)
        if inner is None:
            return None

        def project(value: Any) -> Any:
            if not isinstance(value, kind):
                return value
            old = value.values() if isinstance(value, dict) else value
            new = [inner(item) for item in old]
            if all(map(is_, new, old)):
                return value
            return dict(zip(value, new, strict=True)) if isinstance(value, dict) else new

        return project

    def _object(self, shape: Object) -> Projection | None:
        absent = frozenset(shape.absent)
        inner = [(key, p) for key, field in shape.fields.items() if (p := self.projection(field.shape))]
        if not absent and not inner:
            return None

        def project(value: Any) -> Any:
            """Leave out of an object what its revision does not have; the object given is not changed."""
            if not isinstance(value, dict):
                return value
            result = value
            if not absent.isdisjoint(value):
                for key in value.keys() & absent:
                    log.info("%s.%s (%s) is left out: not in %s", shape.name, key, shape.absent[key], self.revision)
                result = {key: item for key, item in value.items() if key not in absent}
            for key, project_field in inner:
                if key in value and (new := project_field(value[key])) is not value[key]:
                    result = dict(value) if result is value else result
                    result[key] = new
            return result

        return project

    # -- unions

    def _choice(self, shape: shapes.Choice) -> Projection | None:
        of_object = self._object_of_choice(shape)
        array = next((arm for arm in shape.here if isinstance(arm, shapes.Array)), None)
        of_array = self.projection(array) if array else None
        if array is None and of_object and any(isinstance(arm, shapes.Array) for arm in shape.elsewhere):
            of_array = self._only_one
        if of_array is None:
            return of_object

        def project(value: Any) -> Any:
            if isinstance(value, list | tuple):
                value = of_array(value)
            return value if of_object is None else of_object(value)

        return project

    def _only_one(self, blocks: Sequence[Any]) -> Any:
        """Return what stands for an array in a revision that has only one."""
        if len(blocks) == 1:
            return blocks[0]
        if not self.replies:
            raise LocalProtocolError(f"{self.revision} has one value here, not an array of {len(blocks)}")
        if all(isinstance(block, dict) and block.get("type") == "text" for block in blocks):
            log.warning("%d text blocks are joined: %s has one here", len(blocks), self.revision)
            return {"type": "text", "text": "\n\n".join(str(block.get("text", "")) for block in blocks)}
        log.warning("the first of %d values is kept: %s has one here", len(blocks), self.revision)
        return blocks[0]

    def _object_of_choice(self, shape: shapes.Choice) -> Projection | None:
        here = [arm for arm in shape.here if isinstance(arm, Object)]
        elsewhere = [arm for arm in shape.elsewhere if isinstance(arm, Object)]
        if any(isinstance(arm, shapes.Map) for arm in shape.here):
            elsewhere = []  # What may be any object cannot be foreign.
        inner = {arm: self.projection(arm) for arm in here}
        if not elsewhere and not any(inner.values()):
            return None
        tag = next((tag for tag in TAGS if all(tag in arm.tags for arm in here + elsewhere)), "")
        text = next((arm for arm in here if "text" in arm.tags.get("type", ())), None)

        def project(block: Any) -> Any:
            if not isinstance(block, dict):
                return block
            arm = next((arm for arm in here + elsewhere if _is_meant(arm, block, tag)), None)
            if arm is not None and arm not in inner:
                # Content that the revision does not have: a text block takes its place.
                what = next((str(block[tag]) for tag in TAGS if isinstance(block.get(tag), str)), arm.name)
                if not self.replies or text is None:
                    raise LocalProtocolError(f"{self.revision} has no {what} ({arm.name}) here")
                log.warning("%s is replaced by a text: not in %s", arm.name, self.revision)
                kept = {"annotations": block["annotations"]} if "annotations" in block else {}
                arm, block = text, {"type": "text", "text": _describe(what, block)} | kept
            project_arm = inner[arm] if arm is not None else None
            return block if project_arm is None else project_arm(block)

        return project


def _describe(what: str, block: JsonObject) -> str:
    if what == "resource_link":
        return f"[resource link: {block.get('name')} <{block.get('uri')}>]"
    kind = f" ({block['mimeType']})" if "mimeType" in block else ""
    name = f" {block['name']}" if "name" in block else ""
    return f"[{what}{kind}{name}: this revision of the protocol cannot carry it]"


def _is_meant(arm: Object, value: JsonObject, tag: str) -> bool:
    """Return whether an object is meant for an arm of a union: by the tag, else by the keys that the arm requires."""
    if tag in value:
        return value[tag] in arm.tags[tag]
    return all(key in value for key, field in arm.fields.items() if field.required)
