"""The JSON Schema of a type, as its revision publishes it.

Spec:      schema.json of every revision
Upholds:   the comparison with the published schemas, name by name
Not here:  schemas that users write (machinery/json_schema)
"""

from __future__ import annotations

import functools
from typing import Any

from mcp_ref.machinery.shapes import (
    Anything,
    Array,
    Choice,
    Enumeration,
    JsonObject,
    Map,
    Object,
    Scalar,
    Shape,
    shape_of,
)
from mcp_ref.revisions import REVISIONS, Revision


def json_schema(wire_type: Any, revision: Revision) -> JsonObject:
    """The JSON Schema of a type in a revision.

    Returns:
        The schema of the type itself, with `$defs` for the TypedDicts inside it, which stand there as
        `{"$ref": "#/$defs/NAME"}` under the names of that revision. A new object each time.

    Raises:
        TypeError: the type has something that the notation has not, or two TypedDicts in it share a name.

    Threads: any.
    """
    shape = shape_of(wire_type, revision)
    defs: dict[str, tuple[Object, JsonObject]] = {}
    schema = _of_object(shape, revision, defs) if isinstance(shape, Object) else _schema(shape, revision, defs)
    if defs:
        schema["$defs"] = {name: defs[name][1] for name in sorted(defs)}
    return schema


def _schema(shape: Shape, revision: Revision, defs: dict[str, tuple[Object, JsonObject]]) -> JsonObject:
    inner = functools.partial(_schema, revision=revision, defs=defs)
    match shape:
        case Anything():
            return {}
        case Scalar():
            return _of_scalar(shape)
        case Enumeration():
            return _of_enumeration(shape)
        case Array():
            return {"type": "array", "items": inner(shape.items)} | _limit(shape, revision)
        case Map():
            return {"type": "object", "additionalProperties": inner(shape.values)}
        case Choice():
            arms = [inner(arm) for arm in shape.here]
            return {"anyOf": arms} if len(arms) > 1 else arms[0]
        case Object():
            return _reference(shape, revision, defs)


def _of_scalar(shape: Scalar) -> JsonObject:
    words = {"minimum": shape.bounds.minimum, "maximum": shape.bounds.maximum, "format": shape.format}
    return {"type": shape.kind} | {word: value for word, value in words.items() if value is not None}


def _of_enumeration(shape: Enumeration) -> JsonObject:
    kinds = {str: "string", bool: "boolean", int: "integer"}
    types = sorted({kinds[type(value)] for value in shape.values})
    kind: JsonObject = {"type": types[0]} if len(types) == 1 else {"type": types}
    if len(shape.values) == 1:
        return kind | {"const": shape.values[0]}
    return kind | {"enum": list(shape.values)}


def _limit(shape: Array, revision: Revision) -> JsonObject:
    limit = shape.at_most
    if limit is None or limit.published_since is None or revision.order < REVISIONS[limit.published_since].order:
        return {}
    return {"maxItems": limit.items}


def _reference(shape: Object, revision: Revision, defs: dict[str, tuple[Object, JsonObject]]) -> JsonObject:
    known = defs.get(shape.name)
    if known is None:
        defs[shape.name] = (shape, _of_object(shape, revision, defs))
    elif known[0] is not shape:
        raise TypeError(f"two types are called {shape.name}")
    return {"$ref": f"#/$defs/{shape.name}"}


def _of_object(shape: Object, revision: Revision, defs: dict[str, tuple[Object, JsonObject]]) -> JsonObject:
    schema: JsonObject = {"type": "object"}
    schema["properties"] = {key: _schema(field.shape, revision, defs) for key, field in shape.fields.items()}
    required = sorted(key for key, field in shape.fields.items() if field.required)
    return schema | ({"required": required} if required else {})
