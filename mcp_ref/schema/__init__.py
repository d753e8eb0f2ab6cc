"""Types -> JSON Schema, check, projection, for one revision.

Spec:      schema.ts and schema.json of every revision
Upholds:   the first mark of exactness: nothing of a later revision on an earlier wire
Reads:     errors.py, revisions.py
Not here:  the types (each page's module, basic/types); schemas that users write (basic/json_schema)

    notation      what a type says about the revisions: Since, Until, RequiredIn, FromRevision, ...
    shapes        what a type comes to in one revision
    checking      checker(type, revision): what arrives
    projection    projector(type, revision): what goes out; losing(type, revision): the keys that may be left behind
    publishing    json_schema(type, revision): what the specification publishes
"""

from __future__ import annotations

from mcp_ref.schema.checking import Check, SchemaMismatch, checker
from mcp_ref.schema.notation import (
    AtMost,
    Bounds,
    Closed,
    Format,
    Former,
    FromRevision,
    RequiredIn,
    Since,
    Until,
    published_name,
    renamed,
)
from mcp_ref.schema.projection import losing, projector
from mcp_ref.schema.publishing import json_schema

__all__ = [
    "AtMost",
    "Bounds",
    "Check",
    "Closed",
    "Format",
    "Former",
    "FromRevision",
    "RequiredIn",
    "SchemaMismatch",
    "Since",
    "Until",
    "checker",
    "json_schema",
    "losing",
    "projector",
    "published_name",
    "renamed",
]
