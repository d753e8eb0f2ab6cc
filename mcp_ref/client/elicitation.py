"""The types of elicitation, and its modes.

Spec:      client/elicitation#capabilities, #protocol-messages (2025-06-18 ... 2026-07-28)
Upholds:   spec_notes/client/elicitation.md, the rows on modes and on the requested schema
Not here:  the checks of a form and of its values (client/elicitation); asking and answering (client/elicitation)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired, Protocol, TypedDict, Unpack, cast

from mcp_ref.agreement import undeclared
from mcp_ref.errors import ErrorResponse, InvalidParams, LocalProtocolError, RemoteProtocolError, UrlElicitationRequired
from mcp_ref.machinery.handlers import call
from mcp_ref.machinery.json_schema import is_date, is_date_time, is_email, is_uri
from mcp_ref.machinery.shapes import Format, Former, FromRevision, RequiredIn, Since, Until, renamed
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Answering, Caller, Method, Options
from mcp_ref.revisions import Revision
from mcp_ref.types import RequestMetaObject

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address
    from urllib.parse import SplitResult

    from mcp_ref.server.context import Conversation

log = logging.getLogger(__name__)

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


# -- elicitation form ------------------------------------------------------------------------------------


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
        log.warning("%s: %s left out, which this revision's forms do not have", path, ", ".join(lost))
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

# -- elicitation url -------------------------------------------------------------------------------------


# -- the server asks -------------------------------------------------------------------------------------------


def elicit_url(
    self: Caller, message: str, url: str, *, elicitation_id: str | None = None, **options: Unpack[Options]
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
        ErrorResponse, RequestTimeout, TransportClosed, RemoteProtocolError: as for every request.
    Blocks: until the user has agreed or not; bounded by `timeout`.
    Threads: the handler's own.
    Spec: client/elicitation#url-mode-elicitation-requests
    """
    check_mode(self, "url")
    params = url_elicitation(message, url, elicitation_id)
    result = self.request("elicitation/create", cast(JsonObject, params), options)
    # There is no form, so there are no values (client/elicitation#response-actions).
    kept = {key: value for key, value in result.items() if key != "content"}
    return cast(ElicitUrlResult, {**kept, "elicitationId": params["elicitationId"]})


def url_elicitation(message: str, url: str, elicitation_id: str | None = None) -> ElicitRequestURLParams:
    """The parameters of a URL elicitation; a list of them is what `errors.UrlElicitationRequired` takes.

    Args: as for `elicit_url`.
    Returns: `mode`, `message`, `elicitationId` and `url`.
    Raises: LocalProtocolError: not a URL to visit, or one with a password in it.
    Spec: client/elicitation#url-elicitation-required-error
    """
    problem = _url_problem(url)
    # MUST NOT: credentials in the URL (client/elicitation#safe-url-handling)
    if problem is None and "@" in _parts(url).netloc:
        problem = "a URL with a user or a password in it"
    if problem is not None:
        raise LocalProtocolError(f"{problem}: {url!r}")
    # SHOULD: https outside development (client/elicitation#safe-url-handling)
    if not _is_protected(url):
        log.warning("an elicitation sends the user to a page over plain http, on %s", _parts(url).hostname)
    return {"mode": "url", "message": message, "elicitationId": elicitation_id or _new_id(), "url": url}


def _new_id() -> str:
    from uuid import uuid4

    return str(uuid4())


def complete_elicitation(self: Conversation, elicitation_id: str) -> None:
    """Tell the client with `notifications/elicitation/complete` that a visit has ended; it may then ask again.

    It goes to the client that was asked, also after the request that asked is answered: keep `ctx.complete_elicitation`
    for whoever learns that the visit has ended.

    Args: elicitation_id: as in the result of `elicit_url`, or in the entry of the error.
    Raises: LocalProtocolError: the revision has no such notification, or the client did not declare the URL mode.
    Blocks: until it is written.
    Threads: any.
    Spec: client/elicitation#completion-notifications-for-url-mode-elicitation
    """
    self.notify("notifications/elicitation/complete", {"elicitationId": elicitation_id})


# -- URLs -------------------------------------------------------------------------------------------------------


def _parts(url: str) -> SplitResult:
    from urllib.parse import urlsplit

    return urlsplit(url)


def _url_problem(url: str) -> str | None:
    """What keeps a string from being a URL that a person can visit."""
    # MUST: a valid URL (client/elicitation#url-mode-elicitation-requests)
    if not is_uri(url):
        return "not a URL"
    parts = _parts(url)
    return None if parts.scheme in ("http", "https") and parts.hostname else "not an https URL"


def _is_protected(url: str) -> bool:
    """Whether nobody on the way can read along: encrypted, or not leaving this machine."""
    parts = _parts(url)
    return parts.scheme == "https" or _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    address = _address(host)
    if address is not None:
        return address.is_loopback
    return host == "localhost" or host.endswith(".localhost")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    from ipaddress import ip_address

    try:
        return ip_address(host)
    except ValueError:
        return None


def url_warnings(url: str) -> list[str]:
    """What a user should be told before visiting a URL, each a short English phrase; empty if nothing stands out.

    Spec: client/elicitation#safe-url-handling
    """
    parts = _parts(url)
    host = parts.hostname or ""
    signs = {
        "the address begins with a user name, which can hide the real host": "@" in parts.netloc,
        "the host name has letters that may look like others (Punycode)": "xn--" in host,
        "the host is a number and not a name": _address(host) is not None and not _is_loopback(host),
        "the connection is not encrypted": not _is_protected(url),
    }
    return [warning for warning, given in signs.items() if given]


# -- the client answers ----------------------------------------------------------------------------------------

UrlHandler = Callable[..., ElicitResult | bool | None]
"""What `Client(..., open_url=...)` takes: `(url, message, host) -> bool`, or with `ctx` as a fourth parameter.

It shows the user the whole URL, its host and which server asks, and opens it only after a yes, in a browser that
neither this program nor a model can look into. True: they agreed and it is open; False: they refused; None: neither.
`url_warnings(url)` says what is odd about it. Nothing is ever fetched here.
"""


MOST_PENDING = 10_000
"""Visits that are remembered."""


class PendingUrls:
    """The visits that the user agreed to and that have not been reported as finished.

    Threads: any; each method is one operation on a dict.
    Spec: client/elicitation#completion-notifications-for-url-mode-elicitation
    """

    def __init__(self) -> None:
        self._ids: dict[str, bool] = {}

    def add(self, elicitation_id: str) -> None:
        """Remember a visit; the oldest is forgotten where a server never reports its `MOST_PENDING` ends."""
        self._ids[elicitation_id] = True
        if len(self._ids) > MOST_PENDING:
            self._ids.pop(next(iter(self._ids)), None)

    def complete(self, elicitation_id: str) -> bool:
        """Forget a visit; whether it was known."""
        return self._ids.pop(elicitation_id, False)


def visit(handler: UrlHandler, pending: PendingUrls, ctx: Answering, params: ElicitRequestURLParams) -> ElicitResult:
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
        pending.add(name)
    result: ElicitResult = {"action": "cancel"}
    try:
        result = _consent(call(handler, ctx, url, params["message"], _parts(url).hostname))
    finally:
        if name is not None and result["action"] != "accept":
            pending.complete(name)
    return result


def _consent(returned: Any) -> ElicitResult:
    action = returned.get("action") if isinstance(returned, dict) else _CONSENT.get(returned)
    if action not in _CONSENT.values():
        raise LocalProtocolError("an open_url handler returns True, False or None")
    return cast(ElicitResult, {"action": action})


_CONSENT: Final = {True: "accept", False: "decline", None: "cancel"}


def required_urls(error: ErrorResponse) -> list[ElicitRequestURLParams]:
    """The visits that an error -32042 asks for before the request can be sent again; none for any other error.

    `Client.visit_required` asks the user for each.

    Raises: RemoteProtocolError: the error does not list URL elicitations with an id each.
    Spec: client/elicitation#url-elicitation-required-error
    """
    if error.code != UrlElicitationRequired.code:
        return []
    listed = error.data.get("elicitations") if isinstance(error.data, dict) else None
    # MUST: a list, all of them URL elicitations with an id
    if not isinstance(listed, list) or not all(_is_url_elicitation(each) for each in listed):
        raise RemoteProtocolError(f"the error {error.code} does not list the URL elicitations that it requires")
    return listed


def _is_url_elicitation(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.get("mode") != "url":
        return False
    return all(isinstance(entry.get(key), str) for key in ("message", "url", "elicitationId"))


# -- elicitation -----------------------------------------------------------------------------------------


# -- the server asks --------------------------------------------------------------------------------------------


def elicit(self: Caller, message: str, schema: Mapping[str, Any], **options: Unpack[Options]) -> ElicitResult:
    """Ask the user to fill in a form, with `elicitation/create`.

    Never ask so for a secret, and put no link into a form's texts.

    Args:
        message: why you ask, for the user.
        schema: a `requestedSchema` with `type` "object"; or its properties alone, of which those without a `default`
            are required. What the revision's forms lack is left out where a form can do without it, and logged.
    Returns: `action` "accept" with `content`, which fits the schema; or "decline" or "cancel" without.
    Raises:
        LocalProtocolError: the schema is no form (flat, fields of the page's kinds), or one that the revision cannot
            say; the client did not declare the form mode; nothing was sent.
        RemoteProtocolError: an accepted form does not fit the schema; the text names the field.
        ErrorResponse, RequestTimeout, TransportClosed: as for every request.
    Blocks: until the user has decided; bounded by `timeout`.
    Threads: the handler's own.
    Spec: client/elicitation#form-mode-elicitation-requests
    """
    check_mode(self, "form")
    form = downgrade(requested_schema(schema), self.revision)
    params: JsonObject = {"mode": "form"} if self.revision.elicitation_modes else {}
    params |= {"message": message, "requestedSchema": form}
    return _checked(self.request("elicitation/create", params, options), form)


def _checked(result: JsonObject, form: JsonObject) -> ElicitResult:
    if result["action"] != "accept":
        return cast(ElicitResult, _without_content(result))
    content = result.get("content", {})
    # SHOULD: the server validates what it gets (client/elicitation#form-mode-security)
    problem = content_problem(form, content)
    if problem is not None:
        raise RemoteProtocolError(f"the accepted form does not fit its schema: {problem}")
    return cast(ElicitResult, {**result, "content": content})


def _without_content(result: JsonObject) -> JsonObject:
    if "content" in result:
        log.warning("ignored the content of an elicitation that was answered %r", result["action"])
    return {key: value for key, value in result.items() if key != "content"}


# -- the client answers -----------------------------------------------------------------------------------------

FormHandler = Callable[..., ElicitResult | JsonObject | None]
"""What `Client(..., elicit=...)` takes: `(message, schema) -> values`, or with `ctx` as a third parameter.

It shows the user which server asks (`ctx.server_info`), lets them fill the form in, review it and say no. It returns
the values of the fields by name, None for no, or `accept(values)`, `decline()` or `cancel()`.
"""


class Elicitors:
    """The user's functions for the two modes, and the visits under way: what answers `elicitation/create`."""

    def __init__(self, form: FormHandler | None = None, url: UrlHandler | None = None) -> None:
        self.form, self.url = form, url
        self.pending = PendingUrls()


def accept(values: Mapping[str, Any]) -> ElicitResult:
    """The answer of a user who submitted the form."""
    return {"action": "accept", "content": dict(values)}


def decline() -> ElicitResult:
    """The answer of a user who said no."""
    return {"action": "decline"}


def cancel() -> ElicitResult:
    """The answer of a user who closed the form without a choice."""
    return {"action": "cancel"}


def elicitation_create(handlers: Elicitors, ctx: Answering, params: ElicitRequestParams) -> ElicitResult:
    """Answer `elicitation/create` by the functions that the user gave as `Client(..., elicit=..., open_url=...)`.

    Fields of a form that the function left out get their defaults; one with the value None stays empty.

    Args: handlers: see `FormHandler` and `UrlHandler`.
    Raises:
        InvalidParams: a mode that this client did not declare; a form that is none; a URL that is neither `https` nor
            on this machine.
        LocalProtocolError: the function's answer does not fit the form; the dispatcher answers -32603 for this and for
            whatever else the function raises that is no `Refusal`.
    Blocks: as long as the function does.
    Spec: client/elicitation#elicitation-requests, client/elicitation#error-handling
    """
    # MUST: without `mode` it is a form (client/elicitation#elicitation-requests)
    mode = params.get("mode", "form") if ctx.revision.elicitation_modes else "form"
    handler = handlers.url if mode == "url" else handlers.form
    # MUST: -32602 for a mode that was not declared (client/elicitation#error-handling)
    if handler is None or mode not in modes_of(ctx.capabilities, ctx.revision):
        raise InvalidParams(f"params.mode: this client did not declare the elicitation mode {mode!r}")
    if mode == "url":
        return visit(cast(UrlHandler, handler), handlers.pending, ctx, cast(ElicitRequestURLParams, params))
    return _fill_in(cast(FormHandler, handler), ctx, cast(JsonObject, params))


def _fill_in(handler: FormHandler, ctx: Answering, params: JsonObject) -> ElicitResult:
    form = params["requestedSchema"]
    problem = schema_problem(form, ctx.revision)
    if problem is not None:
        raise InvalidParams(f"params.{problem}")
    answer = _answer(call(handler, ctx, params["message"], form), form)
    if answer["action"] != "accept":
        return {"action": answer["action"]}
    return cast(ElicitResult, {**answer, "content": _content(form, answer.get("content", {}))})


def _answer(returned: Any, form: JsonObject) -> JsonObject:
    """A handler's answer as a result. A form may have a field named `action`; no field has an object as its value."""
    if returned is None:
        return {"action": "decline"}
    if not isinstance(returned, dict):
        raise LocalProtocolError("an elicit handler returns the values by name, None, decline() or cancel()")
    whole = isinstance(returned.get("content"), dict) or "action" not in form["properties"]
    if whole and returned.get("action") in _ACTIONS:
        return returned
    return {"action": "accept", "content": returned}


_ACTIONS: Final = ("accept", "decline", "cancel")


def _content(form: JsonObject, values: Mapping[str, Any]) -> JsonObject:
    content = complete_form(form, values)
    extra = content.keys() - form["properties"].keys()
    # SHOULD: the client validates what it sends (client/elicitation#form-mode-security)
    problem = f"{min(extra)}: no field of the form" if extra else content_problem(form, content)
    if problem is not None:
        raise LocalProtocolError(f"the elicit handler's values do not fit the form: {problem}")
    return content


def elicitation_complete(handlers: Elicitors, ctx: Answering, params: ElicitationCompleteParams) -> bool:
    """Take note of `notifications/elicitation/complete`.

    Returns: whether a visit of that id was under way; where not, the client does nothing more about it.
    Spec: client/elicitation#completion-notifications-for-url-mode-elicitation
    """
    # MUST: ignore ids that are unknown or already completed
    return handlers.pending.complete(params["elicitationId"])


# -- the error -32042 -------------------------------------------------------------------------------------------


class Visiting(Answering, Protocol):
    """A client that can send its user to a page."""

    @property
    def elicitors(self) -> Elicitors:
        """The user's functions, and the visits under way."""
        ...


def visit_required(self: Visiting, page: ElicitRequestURLParams) -> ElicitResult:
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
    if self.elicitors.url is None:
        raise LocalProtocolError("this client has no open_url, and cannot visit what the server requires")
    try:
        return visit(self.elicitors.url, self.elicitors.pending, self, page)
    except InvalidParams as problem:
        raise RemoteProtocolError(f"a page that the server requires cannot be visited: {problem}") from None


METHODS = (
    Method("elicitation/create", "server", "client/elicitation",
           "ask the user for something: by a form, or by a visit to a page", ElicitRequestParams, ElicitResult,
           since="2025-06-18", until="2025-11-25", needs="client.elicitation"),
    Method("notifications/elicitation/complete", "server", "client/elicitation",
           "say that the user's visit to a page has ended", ElicitationCompleteParams, since="2025-11-25",
           until="2025-11-25", needs="client.elicitation.url"),
)  # fmt: skip
