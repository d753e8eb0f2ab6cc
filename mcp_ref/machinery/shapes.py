"""The notation: what a type of the wire says about the revisions.

Spec:      the fields of schema.ts in every revision, and what differs between them
Not here:  the types (each page's module, types)

    class Tool(TypedDict):
        name: str
        title: NotRequired[Annotated[str, Since("2025-06-18")]]

    ContentBlock = TextContent | Annotated[AudioContent, Since("2025-03-26")]
    content: Annotated[Block, FromRevision("2025-11-25", Block | list[Block])]

A TypedDict cannot carry attributes, so a former name is told by a call below the class:

    renamed(ResourceTemplateReference, Former("ResourceReference", until="2025-03-26"))
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from mcp_ref.revisions import REVISIONS, Revision


class _Note:
    """A note in a type. Two are equal where they are of one kind and say the same: `typing` merges hints by that."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, vars(self).values()))})"


JsonObject = dict[str, Any]


class Since(_Note):
    """The field, or the arm of a union, exists from this revision on."""

    def __init__(self, revision: str) -> None:
        self.revision = revision


class Until(_Note):
    """The field, or the arm of a union, exists up to and including this revision."""

    def __init__(self, revision: str) -> None:
        self.revision = revision


class RequiredIn(_Note):
    """A field declared NotRequired that is nevertheless required in these revisions.

    `checked` False: so it is published, but what arrives without it is accepted, because the page says what its absence
    means.
    """

    def __init__(self, *revisions: str, checked: bool = True) -> None:
        self.revisions, self.checked = revisions, checked


class FromRevision(_Note):
    """From this revision on the place has another type: `Annotated[Old, FromRevision("2025-11-25", New)]`."""

    def __init__(self, revision: str, type: Any) -> None:
        self.revision, self.type = revision, type


class Bounds(_Note):
    """Inclusive bounds of a number; `checked` False: published, but a number outside of them is accepted."""

    def __init__(self, minimum: float | None = None, maximum: float | None = None, *, checked: bool = True) -> None:
        self.minimum, self.maximum, self.checked = minimum, maximum, checked


UNBOUNDED = Bounds()


class AtMost(_Note):
    """At most so many items in an array; checked in every revision, published since the one given (None: never)."""

    def __init__(self, items: int, published_since: str | None = None) -> None:
        self.items, self.published_since = items, published_since


class Format(_Note):
    """The `format` of a string as the published schema has it ("uri", "byte", "uri-template"); not checked."""

    def __init__(self, name: str) -> None:
        self.name = name


class Closed(_Note):
    """On a union told apart by `type`: a kind that no arm names is refused, where otherwise it would be kept."""


class Former(_Note):
    """The name of a type in the published schemas up to and including a revision; see `renamed`."""

    def __init__(self, name: str, until: str) -> None:
        self.name, self.until = name, until


_FORMER: dict[Any, Former] = {}


def renamed(wire_type: Any, former: Former) -> None:
    """Say that a TypedDict had another name in earlier published schemas. Called once, below the class."""
    _FORMER[wire_type] = former


def published_name(wire_type: Any, revision: Revision) -> str:
    """The name under which that revision's schema publishes a TypedDict: that of the class, or its former one."""
    former = _FORMER.get(wire_type)
    if former is not None and revision.order <= REVISIONS[former.until].order:
        return former.name
    return str(wire_type.__name__)


# -- shapes ----------------------------------------------------------------------------------------------


TAGS = ("type", "mode")
"""The keys by which the protocol tells the arms of a union apart."""


class Anything:
    """Any JSON value."""


class Scalar(NamedTuple):
    """A string, number, boolean or null. `int` is "integer", `float` is "number"."""

    kind: Literal["string", "integer", "number", "boolean", "null"]
    bounds: Bounds = UNBOUNDED
    format: str | None = None


class Enumeration(NamedTuple):
    """One of these values."""

    values: tuple[Any, ...]


class Array(NamedTuple):
    """A list of one shape."""

    items: Shape
    at_most: AtMost | None = None


class Map(NamedTuple):
    """An object whose keys are data."""

    values: Shape


class Field(NamedTuple):
    """A key of an object, in a revision that has it; `demanded`: what arrives without it is refused."""

    shape: Shape
    required: bool
    demanded: bool


class Object:
    """A TypedDict in one revision.

    Attributes:
        name: its name in the published schema of the revision.
        fields: what the revision names, in the order of the class.
        absent: keys that only other revisions name, each with the note that says which.
        tags: the values of `type` or `mode` that mark it, whether or not the revision has the key.
    """

    def __init__(
        self, name: str, fields: Mapping[str, Field], absent: Mapping[str, str], tags: Mapping[str, tuple[str, ...]]
    ) -> None:
        self.name, self.fields, self.absent, self.tags = name, fields, absent, tags


class Choice(NamedTuple):
    """A union in one revision; `elsewhere` holds the arms of other revisions as they are there."""

    here: tuple[Shape, ...]
    elsewhere: tuple[Shape, ...]
    closed: bool


Shape = Anything | Scalar | Enumeration | Array | Map | Object | Choice

_SCALARS: dict[Any, Literal["string", "integer", "number", "boolean", "null"]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    None: "null",
    type(None): "null",
}


class _Peeled(NamedTuple):
    """A hint without Annotated and NotRequired; `required` is None where the hint does not say."""

    bare: Any
    notes: tuple[Any, ...]
    required: bool | None

    def note(self, kind: type) -> Any:
        return next((note for note in self.notes if isinstance(note, kind)), None)


class _Arm(NamedTuple):
    """One type that may stand in a place: in `home`, which is the revision asked for where `here` is true."""

    peeled: _Peeled
    home: Revision
    here: bool


def shape_of(hint: Any, revision: Revision) -> Shape:
    """The shape of a type in a revision.

    Raises:
        TypeError: the type uses something that has no counterpart in JSON, or nothing of it exists in the revision.
    """
    arms = list(_arms(hint, revision, here=True))
    here = [arm for arm in arms if arm.here]
    elsewhere: list[_Arm] = []
    for arm in arms:
        # An arm that is here, or that two spans of time share, counts once.
        if arm.peeled.bare not in [known.peeled.bare for known in here + elsewhere]:
            elsewhere.append(arm)
    if not here:
        raise TypeError(f"nothing of {hint!r} exists in {revision}")
    if len(here) == 1 and not elsewhere:
        return _plain(here[0])
    closed = _peel(hint).note(Closed) is not None
    return Choice(tuple(map(_plain, here)), tuple(map(_plain, elsewhere)), closed)


def _peel(hint: Any) -> _Peeled:
    notes: tuple[Any, ...] = ()
    required: bool | None = None
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            notes, hint = notes + hint.__metadata__, hint.__origin__
        elif origin in (typing.NotRequired, typing.Required):
            required, hint = origin is typing.Required, typing.get_args(hint)[0]
        else:
            return _Peeled(hint, notes, required)


def _nearest(notes: tuple[Any, ...], revision: Revision) -> Revision:
    """The revision itself where Since and Until allow it, else the nearest one that they allow."""
    for note in notes:
        if isinstance(note, Since) and revision.order < REVISIONS[note.revision].order:
            return REVISIONS[note.revision]
        if isinstance(note, Until) and revision.order > REVISIONS[note.revision].order:
            return REVISIONS[note.revision]
    return revision


def _arms(hint: Any, revision: Revision, *, here: bool) -> Iterator[_Arm]:
    """Everything that may stand in a place in any revision: arms of unions, types of before and after."""
    peeled = _peel(hint)
    home = _nearest(peeled.notes, revision)
    here = here and home is revision
    changes = [note for note in peeled.notes if isinstance(note, FromRevision)]
    if changes:
        yield from _arms_over_time(peeled.bare, changes, home, here=here)
    elif typing.get_origin(peeled.bare) in (typing.Union, types.UnionType):
        for arm in typing.get_args(peeled.bare):
            yield from _arms(arm, home, here=here)
    else:
        yield _Arm(peeled, home, here)


def _arms_over_time(first: Any, changes: list[FromRevision], home: Revision, *, here: bool) -> Iterator[_Arm]:
    """The arms of a place whose type changed: those of the type in force, and those of the others."""
    changes = sorted(changes, key=lambda change: REVISIONS[change.revision].order)
    orders = [REVISIONS[change.revision].order for change in changes]
    in_force = sum(order <= home.order for order in orders)
    rows = list(REVISIONS.values())
    for index, hint in enumerate([first, *(change.type for change in changes)]):
        if index == in_force:
            yield from _arms(hint, home, here=here)
        else:
            order = orders[index] - 1 if index < in_force else orders[index - 1]
            yield from _arms(hint, rows[order], here=False)


def _plain(arm: _Arm) -> Shape:
    """The shape of a type that is no union."""
    bare, home = arm.peeled.bare, arm.home
    origin = typing.get_origin(bare)
    if bare is Any:
        return Anything()
    if bare in _SCALARS:
        return _scalar(arm.peeled)
    if origin is Literal:
        return Enumeration(typing.get_args(bare))
    if origin is list:
        return Array(shape_of(typing.get_args(bare)[0], home), arm.peeled.note(AtMost))
    if origin is dict:
        return Map(shape_of(typing.get_args(bare)[1], home))
    if typing.is_typeddict(bare):
        return _object(bare, home.name)
    raise TypeError(f"{bare!r} is not a type of the wire")


def _scalar(peeled: _Peeled) -> Scalar:
    form = peeled.note(Format)
    return Scalar(_SCALARS[peeled.bare], peeled.note(Bounds) or UNBOUNDED, form.name if form else None)


@functools.cache
def _object(wire_type: Any, revision_name: str) -> Object:
    revision = REVISIONS[revision_name]
    fields: dict[str, Field] = {}
    absent: dict[str, str] = {}
    hints = typing.get_type_hints(wire_type, include_extras=True)
    for key, hint in hints.items():
        peeled = _peel(hint)
        if _nearest(peeled.notes, revision) is revision:
            fields[key] = Field(shape_of(hint, revision), *_requirement(wire_type, key, peeled, revision))
        else:
            absent[key] = _span(peeled)
    return Object(published_name(wire_type, revision), fields, absent, _tags(hints))


def _requirement(wire_type: Any, key: str, peeled: _Peeled, revision: Revision) -> tuple[bool, bool]:
    """Whether the revision requires a key, and whether it is demanded of what arrives."""
    # Where annotations are strings, CPython counts NotRequired fields as required: the hint has the last word.
    declared = key in wire_type.__required_keys__ if peeled.required is None else peeled.required
    also = peeled.note(RequiredIn)
    here = also is not None and revision.name in also.revisions
    return declared or here, declared or (here and also.checked)


def _span(peeled: _Peeled) -> str:
    spans = [note for note in peeled.notes if isinstance(note, Since | Until)]
    return ", ".join(f"{type(span).__name__.lower()} {span.revision}" for span in spans)


def _tags(hints: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    tags = {}
    for key in TAGS:
        bare = _peel(hints[key]).bare if key in hints else None
        if typing.get_origin(bare) is Literal:
            tags[key] = typing.get_args(bare)
    return tags
