"""Types -> JSON Schema, check, projection, for one revision.

Spec:      schema.ts and schema.json of every revision
Upholds:   the first mark of exactness: nothing of a later revision on an earlier wire
Reads:     errors.py, revisions.py
Not here:  the types (each page's module, basic/types); schemas that users write (basic/json_schema)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "AtMost",
    "Bounds",
    "Format",
    "Former",
    "FromRevision",
    "RequiredIn",
    "Since",
    "Until",
]


# -- the notation: what a type says about the revisions ---------------------------------------------------------


@dataclass(frozen=True)
class Since:
    """The field, or the arm of a union, exists from this revision on."""

    revision: str


@dataclass(frozen=True)
class Until:
    """The field, or the arm of a union, exists up to and including this revision."""

    revision: str


@dataclass(frozen=True)
class RequiredIn:
    """A field declared NotRequired that is nevertheless required in these revisions."""

    revisions: tuple[str, ...]

    def __init__(self, *revisions: str) -> None:
        object.__setattr__(self, "revisions", revisions)


@dataclass(frozen=True)
class FromRevision:
    """From this revision on the field has another type: `Annotated[Old, FromRevision("2025-11-25", New)]`."""

    revision: str
    type: Any


@dataclass(frozen=True)
class Bounds:
    """Inclusive bounds of a number."""

    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class AtMost:
    """At most so many items in an array; checked in what we send and receive, published since the revision given."""

    items: int
    published_since: str | None = None


@dataclass(frozen=True)
class Format:
    """The `format` of a string as the published schema has it ("uri", "byte", "uri-template")."""

    name: str


@dataclass(frozen=True)
class Former:
    """Class attribute `FORMER = Former("OldName", until="2025-03-26")`: the type's name in earlier published schemas."""

    name: str
    until: str
