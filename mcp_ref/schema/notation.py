"""The notation: what a type of the wire says about the revisions.

Spec:      the fields of schema.ts in every revision, and what differs between them
Upholds:   nothing by itself: the types say it, the three derivations do it
Reads:     revisions.py
Not here:  the types (each page's module, basic/types)

    class Tool(TypedDict):
        name: str
        title: NotRequired[Annotated[str, Since("2025-06-18")]]

    ContentBlock = TextContent | Annotated[AudioContent, Since("2025-03-26")]
    content: Annotated[Block, FromRevision("2025-11-25", Block | list[Block])]

A TypedDict cannot carry attributes, so a former name is told by a call below the class:

    renamed(ResourceTemplateReference, Former("ResourceReference", until="2025-03-26"))
"""

from __future__ import annotations

from typing import Any

from mcp_ref.revisions import REVISIONS, Revision

__all__ = [
    "AtMost",
    "Bounds",
    "Closed",
    "Format",
    "Former",
    "FromRevision",
    "RequiredIn",
    "Since",
    "Until",
    "published_name",
    "renamed",
]


class _Note:
    """A note in a type. Two are equal where they are of one kind and say the same: `typing` merges hints by that."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, vars(self).values()))})"


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
