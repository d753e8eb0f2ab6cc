"""From a shape to the JSON Schema that shows it: of a type of the wire as its revision publishes it, of a handler's
arguments and result as a tool's definition carries them.

Spec:      schema.json of every revision; server/tools#tool
Upholds:   the comparison with the published schemas, name by name (spec_notes/basic/index.md); the rows on derived
           schemas of spec_notes/server/tools.md
Not here:  schemas that users write (kit/typed/json_schema)

`json_schema(wire_type, revision)` and `schema_of(shape)` return a new object each time, which the caller may change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mcp_ref.kit.typed import shapes
from mcp_ref.kit.typed.shapes import JsonObject, Object, Shape, shape_of
from mcp_ref.revisions import REVISIONS, Revision


def json_schema(wire_type: Any, revision: Revision) -> JsonObject:
    """Return the JSON Schema of a type in a revision.

    Returns:
        The schema of the type itself, with `$defs` for the TypedDicts inside it, which stand there as
        `{"$ref": "#/$defs/NAME"}` under the names of that revision.

    Raises:
        TypeError: the type has something that the notation does not know, or two TypedDicts in it share a name.

    Threads: any.
    """
    return schema_of(shape_of(wire_type, revision), revision)


def schema_of(shape: Shape, revision: Revision | None = None) -> JsonObject:
    """Return the JSON Schema of a shape, with `$defs` for what it refers to; the root itself is always written out.

    Args:
        revision: the one that publishes it; None for a user's types, which no revision limits.
    """
    writing = _Writing(revision, {})
    schema = writing.write_object(shape) if isinstance(shape, Object) else writing.write(shape)
    if writing.referenced:
        schema["$defs"] = {name: writing.referenced[name][1] for name in sorted(writing.referenced)}
    return schema


class _Writing(NamedTuple):
    """One schema being written, and what it refers to so far, by name."""

    revision: Revision | None
    referenced: dict[str, tuple[Shape, JsonObject]]

    def write(self, shape: Shape) -> JsonObject:
        match shape:
            case shapes.Anything():
                return {}
            case shapes.Scalar():
                words = {"minimum": shape.bounds.minimum, "maximum": shape.bounds.maximum, "format": shape.format}
                return {"type": shape.kind} | {word: value for word, value in words.items() if value is not None}
            case shapes.Enumeration():
                kinds = {shapes.KINDS[type(value)] for value in shape.values}
                kind = {"type": kinds.pop()} if len(kinds) == 1 else {}
                if len(shape.values) == 1 and shape.members is None:
                    return kind | {"const": shape.values[0]}
                return kind | {"enum": list(shape.values)}
            case shapes.Array():
                items = self.write(shape.each)
                schema: JsonObject = {"type": "array"} | ({"items": items} if items else {})
                limit = shape.at_most
                if limit and limit.published_since and self.revision:
                    published = self.revision.order >= REVISIONS[limit.published_since].order
                    schema |= {"maxItems": limit.items} if published else {}
                return schema | ({"uniqueItems": True} if shape.make in (set, frozenset) else {})
            case shapes.Row():
                count = {"minItems": len(shape.places), "maxItems": len(shape.places)}
                return {"type": "array"} | count | {"prefixItems": [self.write(place) for place in shape.places]}
            case shapes.Map():
                values = self.write(shape.each)
                return {"type": "object"} | ({"additionalProperties": values} if values else {})
            case shapes.Described():
                described = self.write(shape.shape) | shape.words
                self.referenced.update({name: (shape, part) for name, part in described.pop("$defs", {}).items()})
                return described
            case shapes.Choice():
                arms = [self.write(arm) for arm in shape.here]
                return {"anyOf": arms} if len(arms) > 1 else arms[0]
            case Object(referenced=False):
                return self.write_object(shape)
        known, schema = self.referenced.get(shape.name, (None, {}))
        if known is None:
            # The place in `$defs` is taken before it is filled: the object may hold itself.
            self.referenced[shape.name] = (shape, schema)
            schema.update(self.write_object(shape))
        elif known is not shape:
            raise TypeError(f"two types are called {shape.name}")
        return {"$ref": f"#/$defs/{shape.name}"}

    def write_object(self, shape: Object) -> JsonObject:
        """Return the schema of an object in its place, not a reference to it."""
        properties: JsonObject = {}
        for key, field in shape.fields.items():
            properties[key] = self.write(field.shape)
            if field.description:
                properties[key].setdefault("description", field.description)
            if field.default:
                properties[key]["default"] = field.default[0]
        required = [key for key, field in shape.fields.items() if field.required]
        schema: JsonObject = {"type": "object"}
        if shape.make is None:
            return schema | {"properties": properties} | ({"required": sorted(required)} if required else {})
        schema |= ({"properties": properties} if properties else {}) | ({"required": required} if required else {})
        return schema | {"additionalProperties": False}
