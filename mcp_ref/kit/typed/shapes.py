"""Shapes: what a type says about JSON, for a type of the wire in one revision and for a hint of a user's function.

Spec:      the fields of schema.ts in every revision, and what differs between them
Not here:  the types of the wire (each page, wire/types.py); reading the hints of users' functions (kit/typed/handlers)

`shape_of(wire_type, revision)` is the one place that reads the notation. From a shape are derived the check of what
arrives and the projection of what goes out (kit/typed/checking), the JSON Schema that is shown (kit/typed/publishing)
and, for hints of users, the conversion of arguments (kit/typed/handlers).

The notation, in the fields of a TypedDict and in the arms of a union:

    class Tool(TypedDict):
        name: str
        title: NotRequired[Annotated[str, Since("2025-06-18")]]

    ContentBlock = TextContent | Annotated[AudioContent, Since("2025-03-26")]
    content: Annotated[Block, FromRevision("2025-11-25", Block | list[Block])]

A TypedDict cannot carry attributes, so a call below the class tells its former name:

    renamed(ResourceTemplateReference, Former("ResourceReference", until="2025-03-26"))
"""

from __future__ import annotations

import functools
import itertools
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

from mcp_ref.revisions import REVISIONS, Revision, find_revision

JsonObject = dict[str, Any]


# -- the notation -------------------------------------------------------------------------------------------------


class _Note:
    """A note in a type. Two are equal if they are of one kind and say the same: `typing` merges hints by that."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))


class Since(_Note):
    """The field, or the arm of a union, exists from this revision on."""

    def __init__(self, revision: str) -> None:
        self.revision = revision


class Until(_Note):
    """The field, or the arm of a union, exists up to and including this revision."""

    def __init__(self, revision: str) -> None:
        self.revision = revision


class RequiredIn(_Note):
    """A field declared NotRequired that is nevertheless required from a revision on, up to and including another.

    With `checked=False` it is published so, but what arrives without it is accepted, because the page says what its
    absence means.
    """

    def __init__(self, since: str, until: str | None = None, *, checked: bool = True) -> None:
        self.since, self.until, self.checked = since, until, checked

    def holds(self, revision: Revision) -> bool:
        last = revision if self.until is None else find_revision(self.until)
        return find_revision(self.since).order <= revision.order <= last.order


class FromRevision(_Note):
    """From this revision on the place has another type: `Annotated[Old, FromRevision("2025-11-25", New)]`."""

    def __init__(self, revision: str, type: Any) -> None:
        self.revision, self.type = revision, type


class Bounds(_Note):
    """Inclusive bounds of a number; with `checked=False` they are published, but a number outside is accepted."""

    def __init__(self, minimum: float | None = None, maximum: float | None = None, *, checked: bool = True) -> None:
        self.minimum, self.maximum, self.checked = minimum, maximum, checked


class AtMost(_Note):
    """At most so many items in an array; checked in every revision, published since the one given (None: never)."""

    def __init__(self, items: int, published_since: str | None = None) -> None:
        self.items, self.published_since = items, published_since


class Format(_Note):
    """The `format` of a string as the published schema has it ("uri", "byte", "uri-template"); not checked."""

    def __init__(self, name: str) -> None:
        self.name = name


class Closed(_Note):
    """On a union told apart by `type`: a kind that no arm names is refused; otherwise it would be kept."""


class Judged(_Note):
    """A note for judges alone, which a peer does not hold the place to: `Annotated[JsonObject,
    Judged(ObjectSchema)]`.
    """

    def __init__(self, type: Any) -> None:
        self.type = type


class Former(_Note):
    """The name of a type in the published schemas up to and including a revision; see `renamed`."""

    def __init__(self, name: str, until: str) -> None:
        self.name, self.until = name, until


_FORMER: dict[Any, Former] = {}


def renamed(wire_type: Any, former: Former) -> None:
    """Say that a TypedDict had another name in earlier published schemas. Called once, below the class."""
    _FORMER[wire_type] = former


def published_name(wire_type: Any, revision: Revision) -> str:
    """Return the name under which that revision's schema publishes a TypedDict: that of the class, or its former
    one.
    """
    former = _FORMER.get(wire_type)
    if former is not None and revision.order <= find_revision(former.until).order:
        return former.name
    return str(wire_type.__name__)


# -- the shapes ---------------------------------------------------------------------------------------------------

TAGS: Final = ("type", "mode", "method")
"""The keys by which the protocol tells the arms of a union apart."""

Kind = Literal["string", "integer", "number", "boolean", "null"]

KINDS: Final[dict[type, Kind]] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
"""JSON's name for the values of a Python type."""


class Anything:
    """Any JSON value."""


class Scalar(NamedTuple):
    """A string, number, boolean or null.

    `make` builds what a handler gets from it, such as a date; None: the value itself.
    """

    kind: Kind
    bounds: Bounds = Bounds()
    format: str | None = None
    make: Callable[[Any], Any] | None = None


class Enumeration(NamedTuple):
    """One of these values; `members` are what a handler gets for each (None: a type of the wire)."""

    values: tuple[Any, ...]
    members: tuple[Any, ...] | None = None


class Array(NamedTuple):
    """A list of one shape; a handler gets what `make` builds: a list, a tuple, a set without repetitions."""

    each: Shape
    at_most: AtMost | None = None
    make: Callable[[list[Any]], Any] = list


class Row(NamedTuple):
    """An array with a shape for each place; a handler gets a tuple."""

    places: tuple[Shape, ...]


class Map(NamedTuple):
    """An object whose keys are data."""

    each: Shape


class Described(NamedTuple):
    """A shape with words of its own in the schema: a description, and the bounds that `problems` checks; or a model.

    `make`, if it is given, checks a value instead of the shape, and builds what a handler gets.
    """

    shape: Shape
    words: JsonObject
    problems: Callable[[Any], list[str]] | None = None
    make: Callable[[Any], Any] | None = None


class Choice(NamedTuple):
    """A union; `elsewhere` holds the arms that only other revisions have, as they are there."""

    here: tuple[Shape, ...]
    elsewhere: tuple[Shape, ...] = ()
    closed: bool = False


class Field(NamedTuple):
    """A key of an object, in a revision that has it.

    Attributes:
        demanded: what arrives without it is refused.
        default: the default of a handler's argument in JSON, in a tuple of one; empty: nothing to show.
    """

    shape: Shape
    required: bool
    demanded: bool
    description: str | None = None
    default: tuple[Any, ...] = ()


class Object:
    """An object with named keys: a TypedDict in one revision, a handler's arguments, or a dataclass.

    Attributes:
        name: its name in the `$defs` of a published schema.
        fields: what the revision names, in the order of the class.
        absent: keys that only other revisions name, each with the note that says which.
        tags: the values of a tag that mark it, whether or not the revision has the key.
        make: builds what a handler gets from the members. Such an object is closed: it refuses keys that it does not
            name. None: a type of the wire, which is open.
        referenced: a schema refers to it in `$defs`; otherwise it is written out in its place.
    """

    def __init__(self, name: str, *, make: Callable[..., Any] | None = None, referenced: bool = True) -> None:
        self.name, self.make, self.referenced = name, make, referenced
        self.fields: dict[str, Field] = {}
        self.absent: dict[str, str] = {}
        self.tags: dict[str, tuple[Any, ...]] = {}


Shape = Anything | Scalar | Enumeration | Array | Row | Map | Described | Choice | Object

# -- from a type of the wire to its shape -------------------------------------------------------------------------


class Peeled(NamedTuple):
    """A hint without Annotated and NotRequired; `required` is None if the hint does not say."""

    bare: Any
    notes: tuple[Any, ...]
    required: bool | None

    def note(self, kind: type) -> Any:
        """Return the first note of a class, or None."""
        return next((note for note in self.notes if isinstance(note, kind)), None)

    def is_required(self, owner: Any, key: str) -> bool:
        """Return whether a TypedDict requires this field of it."""
        # Under `from __future__ import annotations` `__required_keys__` counts NotRequired fields: the hint wins.
        return key in owner.__required_keys__ if self.required is None else self.required


def peel(hint: Any) -> Peeled:
    """Take Annotated, Required and NotRequired off a hint."""
    notes: tuple[Any, ...] = ()
    required: bool | None = None
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            notes, hint = notes + hint.__metadata__, hint.__origin__
        elif origin in (typing.NotRequired, typing.Required):
            required, hint = origin is typing.Required, typing.get_args(hint)[0]
        else:
            return Peeled(hint, notes, required)


def is_union(hint: Any) -> bool:
    """Return whether a hint is `A | B`, `Union[A, B]` or `Optional[A]`."""
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


_ALWAYS: Final = range(len(REVISIONS))
"""Spans of time are ranges of the revisions' orders."""


def shape_of(hint: Any, revision: Revision, judged: bool = False) -> Shape:
    """Return the shape of a type of the wire in a revision; judged: of all that is published, also what a peer lets
    pass.

    Raises:
        TypeError: the type uses something that has no counterpart in JSON, or nothing of it exists in the revision.
    """
    here: dict[Any, Shape] = {}
    elsewhere: dict[Any, Shape] = {}
    # An arm that several spans share counts once, and as one that is here if it is: so those come first.
    for peeled, span in sorted(_arms(hint), key=lambda arm: revision.order not in arm[1]):
        if revision.order in span:
            here.setdefault(peeled.bare, _shape_of_arm(peeled, revision, judged))
        elif peeled.bare not in here:
            nearest = list(REVISIONS.values())[span[0] if span[0] > revision.order else span[-1]]
            elsewhere.setdefault(peeled.bare, _shape_of_arm(peeled, nearest, judged))
    if not here:
        raise TypeError(f"nothing of {hint!r} exists in {revision}")
    if len(here) == 1 and not elsewhere:
        return next(iter(here.values()))
    return Choice(tuple(here.values()), tuple(elsewhere.values()), judged or peel(hint).note(Closed) is not None)


def _arms(hint: Any, within: range = _ALWAYS) -> Iterator[tuple[Peeled, range]]:
    """Yield everything that may stand in a place in some revision, and when: arms of unions, types of before and
    after.
    """
    peeled = peel(hint)
    span = _span(peeled, within)
    changes = [
        (find_revision(note.revision).order, note.type) for note in peeled.notes if isinstance(note, FromRevision)
    ]
    if changes:
        # The place had one type up to the first change, and another after each.
        changes = [(0, peeled.bare), *sorted(changes, key=lambda change: change[0]), (_ALWAYS.stop, None)]
        for (start, each), (stop, _) in itertools.pairwise(changes):
            yield from _arms(each, range(max(span.start, start), min(span.stop, stop)))
    elif is_union(peeled.bare):
        for arm in typing.get_args(peeled.bare):
            yield from _arms(arm, span)
    elif span:
        yield peeled, span


def _span(peeled: Peeled, within: range = _ALWAYS) -> range:
    """Return when Since and Until allow it."""
    start, stop = within.start, within.stop
    for note in peeled.notes:
        if isinstance(note, Since):
            start = max(start, find_revision(note.revision).order)
        elif isinstance(note, Until):
            stop = min(stop, find_revision(note.revision).order + 1)
    return range(start, stop)


def _shape_of_arm(peeled: Peeled, revision: Revision, judged: bool) -> Shape:
    """Return the shape of a type that is not a union."""
    if judged and (note := peeled.note(Judged)) is not None:
        return shape_of(note.type, revision, judged)
    bare: Any = type(None) if peeled.bare is None else peeled.bare
    origin, args = typing.get_origin(bare), typing.get_args(bare)
    if bare is Any:
        return Anything()
    if bare in KINDS:
        form = peeled.note(Format)
        bounds = peeled.note(Bounds) or Bounds()
        bounds = Bounds(bounds.minimum, bounds.maximum) if judged else bounds
        return Scalar(KINDS[bare], bounds, form.name if form else None)
    if origin is Literal:
        return Enumeration(args)
    if origin is list:
        return Array(shape_of(args[0], revision, judged), peeled.note(AtMost))
    if origin is dict:
        return Map(shape_of(args[1], revision, judged))
    if typing.is_typeddict(bare):
        return object_of(bare, revision, judged)
    raise TypeError(f"{bare!r} is not a type of the wire")


@functools.cache
def object_of(wire_type: Any, revision: Revision, judged: bool = False) -> Object:
    """Return the shape of a TypedDict in a revision; made once."""
    shape = Object(published_name(wire_type, revision))
    for key, hint in typing.get_type_hints(wire_type, include_extras=True).items():
        peeled = peel(hint)
        if key in TAGS and typing.get_origin(peeled.bare) is Literal:
            shape.tags[key] = typing.get_args(peeled.bare)
        if revision.order not in _span(peeled):
            spans = [note for note in peeled.notes if isinstance(note, Since | Until)]
            shape.absent[key] = ", ".join(f"{type(span).__name__.lower()} {span.revision}" for span in spans)
            continue
        required = peeled.is_required(wire_type, key)
        also = [note for note in peeled.notes if isinstance(note, RequiredIn) and note.holds(revision)]
        demanded = required or any(judged or note.checked for note in also)
        shape.fields[key] = Field(shape_of(hint, revision, judged), required or bool(also), demanded)
    return shape


def plain_arms(shape: Shape) -> list[Shape]:
    """Return the plain shapes of which a value has one."""
    if isinstance(shape, Described):
        return plain_arms(shape.shape)
    return list(itertools.chain(*map(plain_arms, shape.here))) if isinstance(shape, Choice) else [shape]
