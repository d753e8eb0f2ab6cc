"""The forms of elicitation: which `requestedSchema` is one, and which values fit it.

Spec:      client/elicitation#requested-schema (2025-06-18 ... 2026-07-28)
Upholds:   spec_notes/client/elicitation.md, the rows on the requested schema
Reads:     basic/formats
Not here:  the types of the schemas (client/elicitation_types), asking and answering (client/elicitation), the schemas
           of tools (basic/json_schema), which are not restricted

A form is a flat object. Each of its fields is of one kind:

    kind             its mark                                 its values
    string           type "string"                            a string: minLength, maxLength, format
    number, integer  type "number", "integer"                 a number: minimum, maximum
    boolean          type "boolean"                           true or false
    choice           type "string" with enum (or oneOf)       one string of those
    choices          type "array" with items.enum (or anyOf)  several strings of those: minItems, maxItems

2025-06-18 has no `choices`, no `oneOf`, no `$schema`, and a `default` only for booleans.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp_ref.basic.formats import is_date, is_date_time, is_email, is_uri
from mcp_ref.basic.methods import JsonObject
from mcp_ref.errors import LocalProtocolError
from mcp_ref.revisions import Revision

__all__ = [
    "complete_form",
    "content_problem",
    "downgrade",
    "requested_schema",
    "schema_problem",
    "unknown_keyword",
]

_log = logging.getLogger(__name__)


# -- the tables -------------------------------------------------------------------------------------------------

_ANNOTATIONS: Final = frozenset({"type", "title", "description", "default"})
_KEYWORDS: Final[dict[str, frozenset[str]]] = {
    "string": _ANNOTATIONS | {"minLength", "maxLength", "format"},
    "number": _ANNOTATIONS | {"minimum", "maximum"},
    "integer": _ANNOTATIONS | {"minimum", "maximum"},
    "boolean": _ANNOTATIONS,
    "choice": _ANNOTATIONS | {"enum", "enumNames", "oneOf"},
    "choices": _ANNOTATIONS | {"items", "minItems", "maxItems"},
}
"""The keywords of each kind of field."""

# `pattern` stands on the page of 2025-11-25 and in no schema; the others say nothing that a form could show.
_DROPPED: Final = frozenset({"pattern", "$comment", "examples"})
_DROPPED_ROOT: Final = frozenset({"title", "description", "additionalProperties", "$comment"})

_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "email": is_email,
    "uri": is_uri,
    "date": is_date,
    "date-time": is_date_time,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_options(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and _is_text(each.get("const")) and _is_text(each.get("title")) for each in value
    )


def _is_items(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if "anyOf" in value:
        return _is_options(value["anyOf"])
    return value.get("type") == "string" and _is_texts(value.get("enum"))


_SHAPES: Final[dict[str, Callable[[Any], bool]]] = {
    "title": _is_text,
    "description": _is_text,
    "minLength": _is_count,
    "maxLength": _is_count,
    "format": lambda value: isinstance(value, str) and value in _FORMATS,
    "minimum": _is_number,
    "maximum": _is_number,
    "enum": _is_texts,
    "enumNames": _is_texts,
    "oneOf": _is_options,
    "items": _is_items,
    "minItems": _is_count,
    "maxItems": _is_count,
}
"""What the value of each keyword must be. A `default` must fit its own field."""


# -- schemas ----------------------------------------------------------------------------------------------------


def requested_schema(schema: Mapping[str, Any]) -> JsonObject:
    """A whole `requestedSchema` from one, or from a mapping of its properties alone.

    In the short form every field is required that has no `default`. The long form is told by its `type` "object".
    """
    if schema.get("type") == "object":
        return dict(schema)
    required = [name for name, field in schema.items() if not (isinstance(field, dict) and "default" in field)]
    whole: JsonObject = {"type": "object", "properties": dict(schema)}
    return {**whole, "required": required} if required else whole


def _kind(field: Any) -> str | None:
    """The row of the table in the module's docstring that a field is of."""
    kind = field.get("type") if isinstance(field, dict) else None
    if kind == "string":
        return "choice" if "enum" in field or "oneOf" in field else "string"
    if kind == "array":
        return "choices" if _is_items(field.get("items")) else None
    return kind if kind in ("number", "integer", "boolean") else None


def schema_problem(schema: JsonObject, revision: Revision) -> str | None:
    """What keeps a schema from being a form of the revision, as "path: problem"; None if nothing does.

    Unknown keywords are no problem here: see `unknown_keyword`.
    """
    fields, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(fields, dict):
        return 'requestedSchema: a form has type "object" and properties'
    if not _is_texts(required) or not set(required) <= set(fields):
        return "requestedSchema.required: not a list of names of properties"
    problems = ((name, _field_problem(field, revision)) for name, field in fields.items())
    return next((f"requestedSchema.properties.{name}: {problem}" for name, problem in problems if problem), None)


def _field_problem(field: Any, revision: Revision) -> str | None:
    kind = _kind(field)
    if kind is None:
        return "a field is a string, a number, a boolean or a choice of strings, and nothing nested"
    # Choices of several, titled choices and more defaults came with the revision that brought modes.
    if kind == "choices" and not revision.elicitation_modes:
        return f"there is no choice of several values in {revision}"
    for word in sorted(_KEYWORDS[kind] & field.keys() & _SHAPES.keys()):
        if not _SHAPES[word](field[word]):
            return f"{word} is not what it must be"
    if "default" in field:
        problem = _value_problem(field, field["default"])
        return f"default: {problem}" if problem else None
    return None


def unknown_keyword(schema: JsonObject) -> str | None:
    """The first keyword that a form may not hold, as "path: keyword"; None where each is one of the page's."""
    for word in schema:
        if word not in ("$schema", "type", "properties", "required"):
            return f"requestedSchema: {word}"
    for name, field in schema["properties"].items():
        for word in field:
            if word not in _KEYWORDS[_kind(field) or ""]:
                return f"requestedSchema.properties.{name}: {word}"
    return None


def downgrade(schema: JsonObject, revision: Revision) -> JsonObject:
    """The form as the revision can say it; each loss is logged.

    What a form can do without (`pattern`, titles at the root; in 2025-06-18 also `$schema` and most defaults) is
    dropped, and a titled choice becomes `enum` with `enumNames` where that is all there is.

    Raises: LocalProtocolError: what remains is no form of the revision.
    """
    drop = _DROPPED_ROOT if revision.elicitation_modes else _DROPPED_ROOT | {"$schema"}
    reduced = _without(schema, drop, "requestedSchema")
    if isinstance(reduced.get("properties"), dict):
        reduced["properties"] = {name: _reduced(field, revision, name) for name, field in reduced["properties"].items()}
    problem = schema_problem(reduced, revision)
    if problem is None and (word := unknown_keyword(reduced)) is not None:
        problem = f"{word} is no keyword of a form"
    if problem is not None:
        raise LocalProtocolError(problem)
    return reduced


def _reduced(field: Any, revision: Revision, name: str) -> Any:
    if not isinstance(field, dict):
        return field
    drop = _DROPPED
    if not revision.elicitation_modes:
        drop = drop if field.get("type") == "boolean" else drop | {"default"}
        field = _legacy_choice(field) if _is_options(field.get("oneOf")) else field
    return _without(field, drop, f"requestedSchema.properties.{name}")


def _legacy_choice(field: JsonObject) -> JsonObject:
    rest = {word: value for word, value in field.items() if word != "oneOf"}
    options = field["oneOf"]
    return rest | {"enum": [each["const"] for each in options], "enumNames": [each["title"] for each in options]}


def _without(schema: JsonObject, words: frozenset[str], path: str) -> JsonObject:
    lost = sorted(words & schema.keys())
    if lost:
        _log.warning("%s: %s left out, which this revision's forms do not have", path, ", ".join(lost))
    return {word: value for word, value in schema.items() if word not in words}


# -- values -----------------------------------------------------------------------------------------------------


def complete_form(schema: JsonObject, values: Mapping[str, Any]) -> JsonObject:
    """The values with the `default` of each field that is missing; a value None means "left empty" and is removed."""
    # SHOULD: fields are filled with their defaults beforehand (client/elicitation#requested-schema)
    fields = schema["properties"].items()
    defaults = {name: field["default"] for name, field in fields if "default" in field}
    return {name: value for name, value in (defaults | dict(values)).items() if value is not None}


def content_problem(schema: JsonObject, content: JsonObject) -> str | None:
    """What is wrong with the values of a form, as "field: problem", never with the value itself; None if nothing is.

    Fields that the schema does not name are no problem, as in JSON Schema.
    """
    for name in schema.get("required", []):
        if name not in content:
            return f"{name}: missing"
    fields = schema["properties"]
    problems = ((name, _value_problem(fields[name], value)) for name, value in content.items() if name in fields)
    return next((f"{name}: {problem}" for name, problem in problems if problem), None)


def _value_problem(field: JsonObject, value: Any) -> str | None:
    return _CHECKS[_kind(field) or ""](field, value)


def _string(field: JsonObject, value: Any) -> str | None:
    if not isinstance(value, str):
        return "not a string"
    check = _FORMATS.get(field.get("format", ""))
    if check is not None and not check(value):
        return f"not of the format {field['format']}"
    return _range(len(value), field.get("minLength"), field.get("maxLength"), "characters")


def _number(field: JsonObject, value: Any) -> str | None:
    return _range(value, field.get("minimum"), field.get("maximum"), "") if _is_number(value) else "not a number"


def _integer(field: JsonObject, value: Any) -> str | None:
    # JSON does not tell 1.0 from 1.
    whole = _is_number(value) and (isinstance(value, int) or value.is_integer())
    return _number(field, value) if whole else "not an integer"


def _boolean(field: JsonObject, value: Any) -> str | None:
    return None if isinstance(value, bool) else "not true or false"


def _choice(field: JsonObject, value: Any) -> str | None:
    return None if value in _options(field, "oneOf") else "not one of the choices"


def _choices(field: JsonObject, value: Any) -> str | None:
    if not isinstance(value, list) or not all(each in _options(field["items"], "anyOf") for each in value):
        return "not a list of the choices"
    return _range(len(value), field.get("minItems"), field.get("maxItems"), "items")


def _options(field: JsonObject, titled: str) -> list[str]:
    return [each["const"] for each in field[titled]] if titled in field else field["enum"]


def _range(size: float, least: float | None, most: float | None, unit: str) -> str | None:
    if least is not None and size < least:
        return f"less than {least} {unit}".rstrip()
    return f"more than {most} {unit}".rstrip() if most is not None and size > most else None


_CHECKS: Final[dict[str, Callable[[JsonObject, Any], str | None]]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "choice": _choice,
    "choices": _choices,
}
"""One function per kind of field."""
