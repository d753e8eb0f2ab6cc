"""The types of elicitation, and its modes.

Spec:      client/elicitation#capabilities, #protocol-messages (2025-06-18 ... 2026-07-28)
Upholds:   spec_notes/client/elicitation.md, the rows on modes and on the requested schema
Reads:     schema (the notation)
Not here:  the checks of a form and of its values (client/elicitation_form); asking and answering (client/elicitation)
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from mcp_ref.basic.methods import Caller, JsonObject
from mcp_ref.basic.terms import undeclared
from mcp_ref.basic.types import RequestMetaObject
from mcp_ref.revisions import Revision
from mcp_ref.schema import Format, Former, FromRevision, RequiredIn, Since, Until, renamed

__all__ = [
    "Action",
    "BooleanSchema",
    "ElicitRequestFormParams",
    "ElicitRequestParams",
    "ElicitRequestURLParams",
    "ElicitResult",
    "ElicitUrlResult",
    "ElicitationCompleteParams",
    "EnumSchema",
    "LegacyTitledEnumSchema",
    "MultiSelectEnumSchema",
    "NumberSchema",
    "PrimitiveSchemaDefinition",
    "RequestedSchema",
    "SingleSelectEnumSchema",
    "StringSchema",
    "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "UntitledMultiSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
    "capability",
    "check_mode",
    "modes_of",
]


# -- the fields of a form ---------------------------------------------------------------------------------------


class StringSchema(TypedDict):
    """A field of free text; lengths count characters."""

    type: Literal["string"]
    title: NotRequired[str]
    description: NotRequired[str]
    minLength: NotRequired[int]
    maxLength: NotRequired[int]
    format: NotRequired[Literal["email", "uri", "date", "date-time"]]
    default: NotRequired[Annotated[str, Since("2025-11-25")]]


class NumberSchema(TypedDict):
    """A field for a number, or for one without a fraction."""

    type: Literal["number", "integer"]
    title: NotRequired[str]
    description: NotRequired[str]
    minimum: NotRequired[float]
    maximum: NotRequired[float]
    default: NotRequired[Annotated[float, Since("2025-11-25")]]


class BooleanSchema(TypedDict):
    """A field for yes or no."""

    type: Literal["boolean"]
    title: NotRequired[str]
    description: NotRequired[str]
    default: NotRequired[bool]


class Option(TypedDict):
    """One of the values to choose from, and how to show it."""

    const: str
    title: str


class UntitledSingleSelectEnumSchema(TypedDict):
    """One of several strings."""

    type: Literal["string"]
    title: NotRequired[str]
    description: NotRequired[str]
    enum: list[str]
    default: NotRequired[str]


class TitledSingleSelectEnumSchema(TypedDict):
    """One of several strings that are shown under other names."""

    type: Literal["string"]
    title: NotRequired[str]
    description: NotRequired[str]
    oneOf: list[Option]
    default: NotRequired[str]


class UntitledItems(TypedDict):
    """What each chosen value is one of."""

    type: Literal["string"]
    enum: list[str]


class TitledItems(TypedDict):
    """What each chosen value is one of, with the names to show."""

    anyOf: list[Option]


class UntitledMultiSelectEnumSchema(TypedDict):
    """Several of several strings."""

    type: Literal["array"]
    title: NotRequired[str]
    description: NotRequired[str]
    minItems: NotRequired[int]
    maxItems: NotRequired[int]
    items: UntitledItems
    default: NotRequired[list[str]]


class TitledMultiSelectEnumSchema(TypedDict):
    """Several of several strings that are shown under other names."""

    type: Literal["array"]
    title: NotRequired[str]
    description: NotRequired[str]
    minItems: NotRequired[int]
    maxItems: NotRequired[int]
    items: TitledItems
    default: NotRequired[list[str]]


class LegacyTitledEnumSchema(TypedDict):
    """One of several strings, with names to show in `enumNames`: the only choice that 2025-06-18 has."""

    type: Literal["string"]
    title: NotRequired[str]
    description: NotRequired[str]
    enum: list[str]
    enumNames: NotRequired[list[str]]
    default: NotRequired[Annotated[str, Since("2025-11-25")]]


renamed(LegacyTitledEnumSchema, Former("EnumSchema", until="2025-06-18"))

SingleSelectEnumSchema = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema
MultiSelectEnumSchema = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
EnumSchema = (
    Annotated[SingleSelectEnumSchema, Since("2025-11-25")]
    | Annotated[MultiSelectEnumSchema, Since("2025-11-25")]
    | LegacyTitledEnumSchema
)
PrimitiveSchemaDefinition = StringSchema | NumberSchema | BooleanSchema | EnumSchema
"""One field of a form."""

RequestedSchema = TypedDict(
    "RequestedSchema",
    {
        "$schema": NotRequired[Annotated[str, Since("2025-11-25")]],
        "type": Literal["object"],
        "properties": dict[str, PrimitiveSchemaDefinition],
        "required": NotRequired[list[str]],
    },
)
"""A form: a flat object schema."""


# -- requests and results --------------------------------------------------------------------------------------

Task = Annotated[JsonObject, Since("2025-11-25"), Until("2025-11-25")]
Action = Literal["accept", "decline", "cancel"]


class ElicitRequestFormParams(TypedDict):
    """Please fill in a form. Without `mode` it is a form too."""

    mode: NotRequired[Annotated[Literal["form"], Since("2025-11-25")]]
    message: str
    requestedSchema: RequestedSchema
    task: NotRequired[Task]
    _meta: NotRequired[Annotated[RequestMetaObject, Until("2025-11-25")]]


class ElicitRequestURLParams(TypedDict):
    """Please visit a page."""

    mode: Literal["url"]
    message: str
    elicitationId: NotRequired[Annotated[str, RequiredIn("2025-11-25"), Until("2025-11-25")]]
    url: Annotated[str, Format("uri")]
    task: NotRequired[Task]
    _meta: NotRequired[Annotated[RequestMetaObject, Until("2025-11-25")]]


ElicitRequestParams = ElicitRequestFormParams | Annotated[ElicitRequestURLParams, Since("2025-11-25")]


class ElicitResult(TypedDict):
    """What the user did; `content` holds the values of an accepted form."""

    action: Action
    content: NotRequired[
        Annotated[
            dict[str, str | float | bool],
            FromRevision("2025-11-25", dict[str, str | float | bool | list[str]]),
        ]
    ]
    _meta: NotRequired[Annotated[JsonObject, Until("2025-11-25")]]


class ElicitUrlResult(TypedDict):
    """What `elicit_url` returns: the user's `action`, and the id that `complete_elicitation` takes."""

    action: Action
    elicitationId: str
    _meta: NotRequired[JsonObject]


class ElicitationCompleteParams(TypedDict):
    """Which visit to a page has ended."""

    elicitationId: str


# -- modes -----------------------------------------------------------------------------------------------------


def capability(form: bool, url: bool) -> JsonObject:
    """The capability `elicitation` that a client declares: `{"form": {}, "url": {}}`, with one mode at least.

    Raises: ValueError: neither; such a client does not declare `elicitation`.
    """
    # MUST: at least one mode (client/elicitation#capabilities)
    if not form and not url:
        raise ValueError("a client that declares `elicitation` supports a mode of it")
    return {mode: {} for mode, given in (("form", form), ("url", url)) if given}


def modes_of(capabilities: JsonObject, revision: Revision) -> set[str]:
    """The modes that capabilities declare. Before there were modes, to declare elicitation was to declare forms."""
    declared = capabilities.get("elicitation")
    if declared is None:
        return set()
    modes = {"form", "url"} & declared.keys() if revision.elicitation_modes else set()
    return modes or {"form"}


def check_mode(self: Caller, mode: str) -> None:
    """Refuse a mode that the client does not have.

    Raises: LocalProtocolError: it declared elicitation, but not this mode of it.
    """
    # A client that declared no elicitation at all is the business of `request`.
    if "elicitation" not in self.peer_capabilities:
        return
    # MUST NOT: a mode that the client does not support (client/elicitation#capabilities)
    if mode not in modes_of(self.peer_capabilities, self.revision):
        problem = f"the client has no elicitation mode {mode!r} in {self.revision}"
        raise undeclared(self.revision, f"elicitation.{mode}", problem)
