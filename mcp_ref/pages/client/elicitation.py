"""Elicitation: `elicitation/create`, `notifications/elicitation/complete`, the error -32042.

Spec:      client/elicitation (2025-06-18 ... 2026-07-28)
Upholds:   spec_notes/client/elicitation.md
Not here:  carrying the question: a request of its own in the session era, an entry of `inputRequests` in the stateless
           one (basic/mrtr)

A server asks the user through the client, in one of two modes:

    form   the user fills in the fields of a flat schema       elicit          ->  Client(elicit=...)
    url    the user visits a page, for secrets and payments    elicit_url      ->  Client(open_url=...)
                                                               complete_elicitation: the visit has ended
                                                               UrlElicitationRequired: the call needs a visit first

Each side checks a form once, by `schema_problem`, and its values, by `content_problem`. For every other check, and for
the projection, `requestedSchema` is any object.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypedDict, Unpack, cast

from mcp_ref.errors import ErrorResponse, InvalidParams, LocalProtocolError, Refusal, RemoteProtocolError
from mcp_ref.kit.typed.checking import SchemaMismatch, checker
from mcp_ref.kit.typed.handlers import call
from mcp_ref.kit.typed.json_schema import FORMATS, is_uri
from mcp_ref.kit.typed.shapes import Format, Former, FromRevision, Judged, RequiredIn, Since, Until, object_of, renamed
from mcp_ref.pages.basic.tasks import CreateTaskResult, TaskAugmented
from mcp_ref.revisions import LATEST_SESSION, Revision
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method, Options
from mcp_ref.wire.negotiated import undeclared
from mcp_ref.wire.types import RequestMetaObject

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from mcp_ref.client.client import Client
    from mcp_ref.client.session import ClientContext
    from mcp_ref.server.session import Context


log = logging.getLogger(__name__)

# -- the fields of a form ---------------------------------------------------------------------------------------------


class LabelledField(TypedDict):
    """The texts that every field can show the user."""

    title: NotRequired[str]
    description: NotRequired[str]


class StringSchema(LabelledField):
    """A field of free text; lengths count characters."""

    type: Literal["string"]
    minLength: NotRequired[int]
    maxLength: NotRequired[int]
    format: NotRequired[Literal["email", "uri", "date", "date-time"]]
    default: NotRequired[Annotated[str, Since("2025-11-25")]]


class NumberSchema(LabelledField):
    """A field for a number, or for one without a fraction."""

    type: Literal["number", "integer"]
    minimum: NotRequired[float]
    maximum: NotRequired[float]
    default: NotRequired[Annotated[float, Since("2025-11-25")]]


class BooleanSchema(LabelledField):
    """A field for yes or no."""

    type: Literal["boolean"]
    default: NotRequired[bool]


class Option(TypedDict):
    """One of the values to choose from, and how to show it."""

    const: str
    title: str


class UntitledSingleSelectEnumSchema(LabelledField):
    """One of the listed strings."""

    type: Literal["string"]
    enum: list[str]
    default: NotRequired[str]


class TitledSingleSelectEnumSchema(LabelledField):
    """One of the listed strings, which are shown under other names."""

    type: Literal["string"]
    oneOf: list[Option]
    default: NotRequired[str]


class LegacyTitledEnumSchema(LabelledField):
    """One of the listed strings, with names to show in `enumNames`: the only kind of choice in 2025-06-18."""

    type: Literal["string"]
    enum: list[str]
    enumNames: NotRequired[list[str]]
    default: NotRequired[Annotated[str, Since("2025-11-25")]]


renamed(LegacyTitledEnumSchema, Former("EnumSchema", until="2025-06-18"))


class UntitledItems(TypedDict):
    """The values that can be chosen."""

    type: Literal["string"]
    enum: list[str]


class TitledItems(TypedDict):
    """The values that can be chosen, with the names to show."""

    anyOf: list[Option]


class MultiSelectField(LabelledField):
    """The members that the two fields for several values share."""

    type: Literal["array"]
    minItems: NotRequired[int]
    maxItems: NotRequired[int]
    default: NotRequired[list[str]]


class UntitledMultiSelectEnumSchema(MultiSelectField):
    """Any number of the listed strings."""

    items: UntitledItems


class TitledMultiSelectEnumSchema(MultiSelectField):
    """Any number of the listed strings, which are shown under other names."""

    items: TitledItems


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


# -- requests and results --------------------------------------------------------------------------------------------

Action = Literal["accept", "decline", "cancel"]


class ElicitRequestFormParams(TypedDict):
    """Please fill in a form. Without `mode` it is a form too."""

    mode: NotRequired[Annotated[Literal["form"], Since("2025-11-25")]]
    message: str
    requestedSchema: Annotated[JsonObject, Judged(RequestedSchema)]
    task: NotRequired[TaskAugmented]
    _meta: NotRequired[Annotated[RequestMetaObject, Until("2025-11-25")]]


class ElicitRequestURLParams(TypedDict):
    """Please visit a page."""

    mode: Literal["url"]
    message: str
    elicitationId: NotRequired[Annotated[str, RequiredIn("2025-11-25"), Until("2025-11-25")]]
    url: Annotated[str, Format("uri")]
    task: NotRequired[TaskAugmented]
    _meta: NotRequired[Annotated[RequestMetaObject, Until("2025-11-25")]]


ElicitRequestParams = ElicitRequestFormParams | Annotated[ElicitRequestURLParams, Since("2025-11-25")]


class ElicitResult(TypedDict):
    """The user's action; `content` holds the values of an accepted form."""

    action: Action
    content: NotRequired[
        Annotated[
            dict[str, str | float | bool],
            FromRevision("2025-11-25", dict[str, str | float | bool | list[str]]),
        ]
    ]
    _meta: NotRequired[Annotated[JsonObject, Until("2025-11-25")]]


class ElicitUrlResult(TypedDict):
    """The return value of `elicit_url`: the user's `action`, and the id that `complete_elicitation` takes."""

    action: Action
    elicitationId: str
    _meta: NotRequired[JsonObject]


class ElicitationCompleteParams(TypedDict):
    """The id of a visit to a page that has ended."""

    elicitationId: str


METHODS = (
    Method("elicitation/create", "server", "client/elicitation",
           "ask the user for something: by a form, or by a visit to a page", ElicitRequestParams, ElicitResult,
           since="2025-06-18", until="2025-11-25", needs="client.elicitation", as_task=CreateTaskResult),
    Method("notifications/elicitation/complete", "server", "client/elicitation",
           "say that the user's visit to a page has ended", ElicitationCompleteParams, since="2025-11-25",
           until="2025-11-25", needs="client.elicitation.url"),
)  # fmt: skip


# -- both sides: modes ------------------------------------------------------------------------------------------------


def modes_of(capabilities: JsonObject, revision: Revision) -> set[str]:
    """Return the modes that capabilities declare. Before there were modes, to declare elicitation was to declare
    forms.
    """
    declared = capabilities.get("elicitation")
    if declared is None:
        return set()
    modes = {"form", "url"} & declared.keys() if revision.elicitation_modes else set()
    return modes or {"form"}


def check_mode(self: Context, mode: str) -> None:
    """Refuse a mode that the client does not have.

    Raises: LocalProtocolError: it declared elicitation, but not this mode of it.
    """
    # A client that declared no elicitation at all is the business of `request`.
    if "elicitation" not in self.peer_capabilities:
        return
    # A server MUST NOT send an `elicitation/create` with a mode that the client does not support
    # (client/elicitation#capabilities)
    if mode not in modes_of(self.peer_capabilities, self.revision):
        problem = f"the client has no elicitation mode {mode!r} in {self.revision}"
        raise undeclared(self.revision, f"elicitation.{mode}", problem)


# -- both sides: forms ------------------------------------------------------------------------------------------------


def schema_problem(schema: JsonObject, revision: Revision) -> str | None:
    """Return what keeps a schema from being a form of the revision, as "path: problem"; None if it is one.

    Keywords that a form does not have are tolerated here; `downgrade` sends none.
    """
    fields, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(fields, dict):
        return 'requestedSchema: a form must have type "object" and properties'
    if not isinstance(required, list) or not all(isinstance(name, str) and name in fields for name in required):
        return "requestedSchema.required: must be a list of names of properties"
    problems = ((name, _field_problem(field, revision)) for name, field in fields.items())
    return next((f"requestedSchema.properties.{name}: {problem}" for name, problem in problems if problem), None)


def _field_problem(field: Any, revision: Revision) -> str | None:
    kind = _kind_of(field)
    if kind is None:
        return "a field must be a string, a number, a boolean or a choice of strings, with nothing nested"
    # Choices of several values came with the revision that brought modes.
    if field["type"] == "array" and not revision.elicitation_modes:
        return f"{revision} has no choice of several values"
    try:
        checker(kind, revision)(field, "field")
    except SchemaMismatch as mismatch:
        return str(mismatch).removeprefix("field.")
    for word in ("minLength", "maxLength", "minItems", "maxItems"):
        if field.get(word, 0) < 0:
            return f"{word} must not be negative"
    problem = _value_problem(field, field["default"]) if "default" in field else None
    return problem and f"default: {problem}"


def _kind_of(field: Any) -> type | None:
    """Return the type of a field, by its keywords; None: a form cannot hold it."""
    match field:
        case {"type": "string", "oneOf": _}:
            return TitledSingleSelectEnumSchema
        case {"type": "string", "enum": _}:
            return LegacyTitledEnumSchema
        case {"type": "string"}:
            return StringSchema
        case {"type": "number" | "integer"}:
            return NumberSchema
        case {"type": "boolean"}:
            return BooleanSchema
        case {"type": "array", "items": {"anyOf": _}}:
            return TitledMultiSelectEnumSchema
        case {"type": "array", "items": {"enum": _}}:
            return UntitledMultiSelectEnumSchema
    return None


def content_problem(schema: JsonObject, content: JsonObject) -> str | None:
    """Return what is wrong with the values of a form, as "field: problem", never with the value itself; None if
    nothing is.

    Fields that the schema does not name are allowed, as in JSON Schema.
    """
    fields = schema["properties"]
    missing = ((name, "missing") for name in schema.get("required", []) if name not in content)
    wrong = ((name, _value_problem(fields[name], value)) for name, value in content.items() if name in fields)
    return next((f"{name}: {problem}" for name, problem in (*missing, *wrong) if problem), None)


def _value_problem(field: JsonObject, value: Any) -> str | None:
    """Return what is wrong with the value of a field; None if it fits."""
    options = field.get("items", field)
    titled = options.get("oneOf", options.get("anyOf"))
    choices = options.get("enum") if titled is None else [each["const"] for each in titled]
    size, least, most, unit = value, field.get("minimum"), field.get("maximum"), ""
    match field["type"]:
        case "boolean":
            return None if isinstance(value, bool) else "not true or false"
        case "string" if choices is not None:
            return None if value in choices else "not one of the choices"
        case "string":
            if not isinstance(value, str):
                return "not a string"
            if "format" in field and not FORMATS[field["format"]](value):
                return f"not of the format {field['format']}"
            size, least, most, unit = len(value), field.get("minLength"), field.get("maxLength"), " characters"
        case "array":
            if not isinstance(value, list) or not all(each in choices for each in value):
                return "not a list of the choices"
            size, least, most, unit = len(value), field.get("minItems"), field.get("maxItems"), " items"
        case kind:
            if not isinstance(value, int | float) or isinstance(value, bool):
                return "not a number"
            # JSON does not tell 1.0 from 1.
            if kind == "integer" and isinstance(value, float) and not value.is_integer():
                return "not an integer"
    if least is not None and size < least:
        return f"less than {least}{unit}"
    return f"more than {most}{unit}" if most is not None and size > most else None


# -- the server's half: forms -----------------------------------------------------------------------------------------


def elicit(self: Context, message: str, schema: Mapping[str, Any], **options: Unpack[Options]) -> ElicitResult:
    """Ask the user to fill in a form, with `elicitation/create`.

    Never ask so for a secret, and put no link into a form's texts.

    Args:
        message: why you ask, for the user.
        schema: a `requestedSchema` with `type` "object"; or its properties alone, of which those without a `default`
            are required. What the revision's forms lack is left out if a form can do without it, and logged.
    Returns: `action` "accept" with `content`, which fits the schema; or "decline" or "cancel" without.
    Raises:
        LocalProtocolError: the schema is not a form (flat, fields of the page's kinds), or one that the revision cannot
            say; the client did not declare the form mode; nothing was sent.
        RemoteProtocolError: an accepted form does not fit the schema; the text names the field.
    Blocks: until the user has decided; bounded by `timeout`.
    Threads: the handler's own.
    Spec: client/elicitation#form-mode-elicitation-requests
    """
    check_mode(self, "form")
    method, params = elicit_request(message, schema, self.revision)
    result = self.request(method, params, options)
    if result["action"] != "accept":
        if "content" in result:
            log.warning("ignored the content of an elicitation that was answered %r", result["action"])
        return cast(ElicitResult, {key: value for key, value in result.items() if key != "content"})
    content = result.get("content", {})
    # SHOULD: the server validates the content of a form that it received against the requested schema
    # (client/elicitation#form-mode-security)
    if (problem := content_problem(params["requestedSchema"], content)) is not None:
        raise RemoteProtocolError(f"the accepted form does not fit its schema: {problem}")
    return cast(ElicitResult, {**result, "content": content})


def elicit_request(message: str, schema: Mapping[str, Any], revision: Revision) -> tuple[str, JsonObject]:
    """Return the method and the params with which `elicit` asks. Raises: LocalProtocolError: the schema is not a
    form.
    """
    whole: JsonObject = dict(schema)
    if schema.get("type") != "object":
        whole = {"type": "object", "properties": whole}
        if required := [name for name, field in schema.items() if not (isinstance(field, dict) and "default" in field)]:
            whole["required"] = required
    form = downgrade(whole, revision)
    # MUST: an elicitation has a `message`, and a `mode` unless it is a form (client/elicitation#elicitation-requests)
    params: JsonObject = {"mode": "form"} if revision.elicitation_modes else {}
    # MUST: a form has a `requestedSchema` (client/elicitation#form-mode-elicitation-requests)
    return "elicitation/create", params | {"message": message, "requestedSchema": form}


# `pattern` stands on the page of 2025-11-25 and in no schema; the others say nothing that a form could show.
_DROPPED: Final = frozenset({"pattern", "$comment", "examples"})
_DROPPED_AT_ROOT: Final = frozenset({"title", "description", "additionalProperties", "$comment"})


def downgrade(schema: JsonObject, revision: Revision) -> JsonObject:
    """Return the form as the revision can say it; each loss is logged.

    Whatever a form can do without is dropped (`pattern`, titles at the root; in 2025-06-18 `$schema` and most
    defaults), and a titled choice becomes `enum` with `enumNames` if that is all there is.

    Raises: LocalProtocolError: it is not a form, of the keywords that the page names.
    """
    if (problem := schema_problem(schema, revision)) is not None:
        raise LocalProtocolError(problem)
    form = _in_words_of(RequestedSchema, schema, _DROPPED_AT_ROOT, "requestedSchema", revision)
    form["properties"] = fields = {}
    for name, given in schema["properties"].items():
        field = dict(given)
        if not revision.elicitation_modes and "oneOf" in field:
            options = field.pop("oneOf")
            field |= {"enum": [each["const"] for each in options], "enumNames": [each["title"] for each in options]}
        fields[name] = _in_words_of(_kind_of(field), field, _DROPPED, f"requestedSchema.properties.{name}", revision)
    return form


def _in_words_of(kind: Any, part: JsonObject, dropped: frozenset[str], path: str, revision: Revision) -> JsonObject:
    """Leave out of a part of a form the keywords that it can do without; any other must be one of its kind."""
    shape = object_of(kind, revision)
    lost = part.keys() & (dropped | shape.absent.keys())
    if lost:
        log.warning("%s: %s left out, which forms of %s do not have", path, ", ".join(sorted(lost)), revision)
    if unknown := part.keys() - lost - shape.fields.keys():
        raise LocalProtocolError(f"{path}: {min(unknown)} is not a keyword of a form")
    return {word: value for word, value in part.items() if word not in lost}


# -- the server's half: visits ----------------------------------------------------------------------------------------


def elicit_url(
    self: Context, message: str, url: str, *, elicitation_id: str | None = None, **options: Unpack[Options]
) -> ElicitUrlResult:
    """Ask the user to visit a page, with `elicitation/create` in URL mode: for secrets and payments.

    That page MUST make sure that whoever opens it is the user who was asked. The URL holds nothing about the user, and
    opens nothing that is protected by itself.

    Args:
        message: why the visit is needed, for the user.
        url: an `https` URL; `http` is for development (it is sent, and logged).
        elicitation_id: a string that names this visit and no other; left out: a random one.
    Returns: `action` and `elicitationId`. "accept" means that the user agreed to go there, not that anything is done.
    Raises:
        LocalProtocolError: not a URL to visit, or one with a password in it; the client did not declare the URL mode;
            the revision has none. Nothing was sent.
    Blocks: until the user has agreed or not; bounded by `timeout`.
    Threads: the handler's own.
    Spec: client/elicitation#url-mode-elicitation-requests
    """
    check_mode(self, "url")
    params = url_elicitation(message, url, elicitation_id)
    result = self.request("elicitation/create", cast(JsonObject, params), options)
    # Only an accepted form has values (client/elicitation#response-actions).
    kept = {key: value for key, value in result.items() if key != "content"}
    return cast(ElicitUrlResult, {**kept, "elicitationId": params["elicitationId"]})


class UrlElicitationRequired(Refusal):
    """-32042 (2025-11-25 only): the request needs one or more URL elicitations first.

    Args:
        elicitations: what `url_elicitation` makes: `ElicitRequestURLParams`, each with `mode` "url",
            `message`, `url` and `elicitationId`; at least one.

    Raises: ValueError: the list is empty, or one of them has another mode or no id.
    Spec: client/elicitation#url-elicitation-required-error
    """

    # MUST: the error that asks for a URL elicitation has the code -32042 (client/elicitation#error-handling)
    code = -32042

    def __init__(
        self, elicitations: Sequence[Mapping[str, Any]], message: str = "This request requires more information."
    ) -> None:
        # MUST: -32042 comes with a list of URL elicitations, each with an `elicitationId`
        # (client/elicitation#url-elicitation-required-error)
        if not elicitations or not all(each.get("mode") == "url" and "elicitationId" in each for each in elicitations):
            raise ValueError("the elicitations must be URL elicitations, at least one, each with an elicitationId")
        super().__init__(message, {"elicitations": [dict(each) for each in elicitations]})


def url_elicitation(message: str, url: str, elicitation_id: str | None = None) -> ElicitRequestURLParams:
    """Return the parameters of a URL elicitation; a list of them is what `UrlElicitationRequired` takes.

    Args: as for `elicit_url`.
    Returns: `mode`, `message`, `elicitationId` and `url`.
    Raises: LocalProtocolError: not a URL to visit, or one with a password in it.
    Spec: client/elicitation#url-elicitation-required-error
    """
    from uuid import uuid4

    problem = _url_problem(url)
    # A server MUST NOT put the user's credentials into a URL to visit (client/elicitation#safe-url-handling)
    if problem is None and "@" in _parts(url).netloc:
        problem = "a URL with a user or a password in it"
    if problem is not None:
        raise LocalProtocolError(f"{problem}: {url!r}")
    # SHOULD: use https for URLs to visit, outside development (client/elicitation#safe-url-handling)
    if not _is_protected(url):
        log.warning("an elicitation sends the user to a page over plain http, on %s", _parts(url).hostname)
    # MUST: an elicitation in URL mode has `mode`, `message`, `url`, and `elicitationId`
    # (client/elicitation#url-mode-elicitation-requests)
    return {"mode": "url", "message": message, "elicitationId": elicitation_id or str(uuid4()), "url": url}


def complete_elicitation(self: Context, elicitation_id: str) -> None:
    """Tell the client with `notifications/elicitation/complete` that a visit has ended; it may then ask again.

    It goes to the client that was asked, also after the request that asked is answered: keep `ctx.complete_elicitation`
    for whoever learns that the visit has ended.

    Args: elicitation_id: as in the result of `elicit_url`, or in the entry of the error.
    Raises: LocalProtocolError: the revision has no such notification, or the client did not declare the URL mode.
    Blocks: until it is written.
    Threads: any.
    Spec: client/elicitation#completion-notifications-for-url-mode-elicitation
    """
    # MUST: `notifications/elicitation/complete` has the `elicitationId` of the original request
    # (client/elicitation#completion-notifications-for-url-mode-elicitation)
    # MUST: `notifications/elicitation/complete` goes to the client that was asked, and to no other. A visit mostly
    # outlasts the request that asked for it, so this goes the session's way and not the reply's
    # (client/elicitation#completion-notifications-for-url-mode-elicitation)
    self.conversation.notify("notifications/elicitation/complete", {"elicitationId": elicitation_id})


# -- both sides: URLs -------------------------------------------------------------------------------------------------


def _parts(url: str) -> SplitResult:
    from urllib.parse import urlsplit

    return urlsplit(url)


def _url_problem(url: str) -> str | None:
    """Return what keeps a string from being a URL that a person can visit."""
    # MUST: the `url` of an elicitation is a valid URL (client/elicitation#url-mode-elicitation-requests)
    if not is_uri(url):
        return "not a URL"
    parts = _parts(url)
    return None if parts.scheme in ("http", "https") and parts.hostname else "not an https URL"


def _is_protected(url: str) -> bool:
    """Return whether nobody on the way can read along: encrypted, or not leaving this machine."""
    from mcp_ref.kit.http.guarded_fetch import is_loopback

    parts = _parts(url)
    return parts.scheme == "https" or is_loopback(url) or (parts.hostname or "").endswith(".localhost")


_NUMBER: Final = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$")


def url_warnings(url: str) -> list[str]:
    """Return what a user should be told before visiting a URL, each a short English phrase; empty if nothing stands
    out.

    Spec: client/elicitation#safe-url-handling
    """
    from mcp_ref.kit.http.guarded_fetch import is_loopback

    parts = _parts(url)
    host = parts.hostname or ""
    is_number = ":" in host or _NUMBER.search(host) is not None
    # SHOULD: warn of ambiguous or suspicious URLs, such as Punycode (client/elicitation#safe-url-handling)
    signs = {
        "the address begins with a user name, which can hide the real host": "@" in parts.netloc,
        "the host name has letters that may look like others (Punycode)": "xn--" in host,
        # As browsers read it: where the last part is a number, all of it is an address, be it octal, hex or shortened.
        "the host is a number and not a name": is_number and not is_loopback(url),
        "the host name has percent signs, which can hide the real host": "%" in host,
        "the connection is not encrypted": not _is_protected(url),
    }
    return [warning for warning, given in signs.items() if given]


# -- the client's half ------------------------------------------------------------------------------------------------

FormHandler = Callable[..., ElicitResult | JsonObject | None]
"""The function that `Client(..., elicit=...)` takes: `(message, schema) -> values`, or with `ctx` as a third parameter.

It shows the user which server asks (`ctx.server_info`), lets them fill the form in, review it and say no. It returns
the values of the fields by name, None for no, or `accept(values)`, `decline()` or `cancel()`.
"""

UrlHandler = Callable[..., ElicitResult | bool | None]
"""The function that `Client(..., open_url=...)` takes: `(url, message, host) -> bool`, or with `ctx` as a fourth
parameter.

It shows the user the whole URL, its host and which server asks, and opens it only after a yes, in a browser that
neither this program nor a model can look into. True: they agreed and it is open; False: they refused; None: neither.
`url_warnings(url)` says what is odd about it. Nothing is ever fetched here.
"""

MAX_VISITS: Final = 10_000
"""Visits that are remembered; the oldest is forgotten if a server never reports the end of so many."""


class Elicitors(NamedTuple):
    """The user's functions for the two modes, and the visits under way: what answers `elicitation/create`.

    Attributes:
        visits: the ids of the visits that the user agreed to and that have not been reported as finished.
        form, url: the functions, or None.

    Threads: any; each use of `visits` is one operation on a dict.
    """

    visits: dict[str, bool]
    form: FormHandler | None = None
    url: UrlHandler | None = None


def accept(values: Mapping[str, Any]) -> ElicitResult:
    """Return the answer of a user who submitted the form."""
    return {"action": "accept", "content": dict(values)}


def decline() -> ElicitResult:
    """Return the answer of a user who said no."""
    # MUST: the user can say no, and can close the question (client/elicitation#user-interaction-model)
    return {"action": "decline"}


def cancel() -> ElicitResult:
    """Return the answer of a user who closed the form without a choice."""
    return {"action": "cancel"}


def elicitation_create(handlers: Elicitors, ctx: ClientContext, params: ElicitRequestParams) -> ElicitResult:
    """Answer `elicitation/create` by the functions that the user gave as `Client(..., elicit=..., open_url=...)`.

    Fields of a form that the function left out get their defaults; one with the value None stays empty.

    Args: handlers: see `FormHandler` and `UrlHandler`.
    Raises:
        InvalidParams: a mode that this client did not declare; a schema that is not a form; a URL that is neither
            `https` nor on this machine.
        LocalProtocolError: the function's answer does not fit the form; the dispatcher answers -32603 for this and for
            whatever else the function raises, unless it is a `Refusal`.
    Blocks: as long as the function does.
    Spec: client/elicitation#elicitation-requests, client/elicitation#error-handling
    """
    # MUST: take an `elicitation/create` without `mode` for form mode (client/elicitation#elicitation-requests)
    mode = params.get("mode", "form") if ctx.revision.elicitation_modes else "form"
    handler = handlers.url if mode == "url" else handlers.form
    # MUST: answer -32602 to a mode that the client did not declare (client/elicitation#error-handling)
    if handler is None or mode not in modes_of(ctx.capabilities, ctx.revision):
        raise InvalidParams(f"params.mode: this client did not declare the elicitation mode {mode!r}")
    if mode == "url":
        return visit(handlers, ctx, cast(ElicitRequestURLParams, params))
    form = cast(JsonObject, params)["requestedSchema"]
    if (problem := schema_problem(form, ctx.revision)) is not None:
        raise InvalidParams(f"params.{problem}")
    returned: Any = call(handler, ctx, params["message"], form)
    if returned is None:
        return decline()
    if not isinstance(returned, dict):
        raise LocalProtocolError("an elicit handler must return the values by name, None, decline() or cancel()")
    # Values, or a whole result? A form may have a field named `action`; no field has an object as its value.
    whole = isinstance(returned.get("content"), dict) or "action" not in form["properties"]
    if not whole or returned.get("action") not in ("accept", "decline", "cancel"):
        returned = {"action": "accept", "content": returned}
    if returned["action"] != "accept":
        return {"action": returned["action"]}
    # SHOULD: a client that supports `default` fills the fields with it (client/elicitation#requested-schema)
    defaults = {name: field["default"] for name, field in form["properties"].items() if "default" in field}
    values = defaults | dict(returned.get("content", {}))
    content = {name: value for name, value in values.items() if value is not None}
    extra = content.keys() - form["properties"].keys()
    # SHOULD: the client validates the content of a form that it sends against the requested schema
    # (client/elicitation#form-mode-security)
    problem = f"{min(extra)}: not a field of the form" if extra else content_problem(form, content)
    if problem is not None:
        raise LocalProtocolError(f"the elicit handler's values do not fit the form: {problem}")
    return cast(ElicitResult, {**returned, "content": content})


def visit(handlers: Elicitors, ctx: ClientContext | Client, params: ElicitRequestURLParams) -> ElicitResult:
    """Answer one URL elicitation: let the user decide, and remember the visit if they go.

    Raises: InvalidParams: a URL that is neither `https` nor `http` on this machine (the page allows more, and says
        that servers should not use it); LocalProtocolError: the handler returned something else.
    Blocks: as long as the handler does.
    Spec: client/elicitation#safe-url-handling
    """
    url, name = params["url"], params.get("elicitationId")
    problem = _url_problem(url) or (None if _is_protected(url) else "plain http to another machine")
    if problem is not None:
        raise InvalidParams(f"params.url: {problem}")
    # Before the user is asked: the visit may end, and that be reported, before the handler returns.
    if name is not None:
        handlers.visits[name] = True
    action: Any = None
    try:
        # A client MUST NOT open the URL, or fetch anything of it, without the user's consent; MUST: show the user the
        # whole URL (client/elicitation#safe-url-handling)
        returned: Any = call(cast(UrlHandler, handlers.url), ctx, url, params["message"], _parts(url).hostname)
        actions = {True: "accept", False: "decline", None: "cancel"}
        action = returned.get("action") if isinstance(returned, dict) else actions.get(returned)
        if action not in actions.values():
            raise LocalProtocolError("an open_url handler must return True, False or None")
    finally:
        if name is not None and action != "accept":
            handlers.visits.pop(name, None)
    return {"action": action}


def elicitation_complete(handlers: Elicitors, params: ElicitationCompleteParams) -> bool:
    """Take note of `notifications/elicitation/complete`.

    Returns: whether a visit of that id was under way; if not, the client does nothing more about it.
    Spec: client/elicitation#completion-notifications-for-url-mode-elicitation
    """
    # MUST: ignore `notifications/elicitation/complete` with an id that is unknown or already completed
    # (client/elicitation#completion-notifications-for-url-mode-elicitation)
    return handlers.visits.pop(params["elicitationId"], False)


def required_urls(error: ErrorResponse) -> list[ElicitRequestURLParams]:
    """Return the visits that an error -32042 asks for before the request can be sent again; none for any other error.

    `Client.visit_required` asks the user for each.

    Raises: RemoteProtocolError: the error does not list URL elicitations with an id each.
    Spec: client/elicitation#url-elicitation-required-error
    """
    if error.code != UrlElicitationRequired.code:
        return []
    try:
        # MUST: the error -32042 lists elicitations, all of URL mode and with an `elicitationId`
        # (client/elicitation#url-elicitation-required-error)
        listed: list[ElicitRequestURLParams] = error.data["elicitations"]
        checker(list[ElicitRequestURLParams], LATEST_SESSION)(listed)
    except (SchemaMismatch, TypeError, KeyError):
        text = f"the error {error.code} does not list the URL elicitations that it requires"
        raise RemoteProtocolError(text) from None
    return listed


def visit_required(self: Client, page: ElicitRequestURLParams) -> ElicitResult:
    """Ask the user, with the client's `open_url`, to visit a page that the error -32042 requires.

    Args: page: one of `required_urls(error)`.
    Returns: `action`; "accept" means that they agreed to go there. The call may be sent again when the server has
        told that the visit ended (`on_change` hears of it), or when the user says so, for a server need not tell.
    Raises:
        LocalProtocolError: this client has no `open_url`, or that returned something else.
        RemoteProtocolError: the page has no URL that may be visited.
    Blocks: as long as `open_url` does.
    Threads: any.
    Spec: client/elicitation#url-elicitation-required-error
    """
    if self.answers.elicitors.url is None:
        raise LocalProtocolError("this client has no open_url, so it cannot visit the page that the server requires")
    try:
        return visit(self.answers.elicitors, self, page)
    except InvalidParams as problem:
        raise RemoteProtocolError(f"a page that the server requires cannot be visited: {problem}") from None
