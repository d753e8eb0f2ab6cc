"""The types of the page Resources, and the bytes of what was read.

Spec:      server/resources#data-types (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/resources.md, the rows on contents
Not here:  the messages (server/resources)
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NotRequired, TypedDict, TypeVar, Unpack, cast

from mcp_ref.basic.versioning import is_input_required
from mcp_ref.errors import Refusal, RemoteProtocolError
from mcp_ref.machinery.json_schema import is_uri
from mcp_ref.machinery.shapes import Format, Since
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Caller, Method, Options
from mcp_ref.revisions import Revision
from mcp_ref.server.utilities.caching import CacheableResult
from mcp_ref.server.utilities.pagination import PaginatedResult, answer_list, list_page, walk
from mcp_ref.types import (
    Annotations,
    BlobResourceContents,
    EmptyResult,
    Icon,
    Icons,
    InputResponseRequestParams,
    Meta,
    NotificationParams,
    PaginatedRequestParams,
    RequestParams,
    TextResourceContents,
)

if TYPE_CHECKING:
    from mcp_ref.machinery.handlers import Handler
    from mcp_ref.machinery.uri_template import UriTemplate
    from mcp_ref.server.context import Context
    from mcp_ref.server.server import Server


class Resource(TypedDict):
    """Something to read, known by its URI. `size` counts bytes before any encoding."""

    uri: Annotated[str, Format("uri")]
    name: str
    title: NotRequired[Annotated[str, Since("2025-06-18")]]
    description: NotRequired[str]
    mimeType: NotRequired[str]
    annotations: NotRequired[Annotations]
    size: NotRequired[int]
    icons: NotRequired[Icons]
    _meta: NotRequired[Meta]


class ResourceTemplate(TypedDict):
    """Many resources, known by a template of their URIs; `mimeType` only where all of them have it."""

    uriTemplate: Annotated[str, Format("uri-template")]
    name: str
    title: NotRequired[Annotated[str, Since("2025-06-18")]]
    description: NotRequired[str]
    mimeType: NotRequired[str]
    annotations: NotRequired[Annotations]
    icons: NotRequired[Icons]
    _meta: NotRequired[Meta]


Contents = TextResourceContents | BlobResourceContents
"""One of the things that reading a resource gives."""


class ListResourcesResult(PaginatedResult, CacheableResult):
    """One page of the resources."""

    resources: list[Resource]


class ListResourceTemplatesResult(PaginatedResult, CacheableResult):
    """One page of the templates."""

    resourceTemplates: list[ResourceTemplate]


class ResourceRequestParams(RequestParams):
    """The parameters of a request about one resource."""

    uri: Annotated[str, Format("uri")]


class ReadResourceRequestParams(ResourceRequestParams, InputResponseRequestParams):
    """What to read."""


class ReadResourceResult(CacheableResult):
    """What was read: one entry as a rule; several for what has parts, such as the files of a directory."""

    contents: list[Contents]


class SubscribeRequestParams(ResourceRequestParams):
    """What to tell changes of."""


class UnsubscribeRequestParams(ResourceRequestParams):
    """What to tell no more changes of."""


class ResourceUpdatedNotificationParams(NotificationParams):
    """What has changed: what was subscribed to, or a part of it."""

    uri: Annotated[str, Format("uri")]


def contents_bytes(contents: Contents) -> bytes:
    """The bytes of one entry of a result: its blob decoded, or its text in UTF-8.

    Raises:
        RemoteProtocolError: it has neither, or the blob is not base64.
    """
    parts = cast(JsonObject, contents)
    if isinstance(parts.get("text"), str):
        return cast(bytes, parts["text"].encode("utf-8"))
    try:
        return base64.b64decode(parts["blob"], validate=True)
    except (KeyError, binascii.Error, ValueError) as problem:
        raise RemoteProtocolError(
            f"the contents of {contents.get('uri')} are neither text nor base64: {problem}"
        ) from None


# -- resource handlers -----------------------------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])


class ResourceEntry(NamedTuple):
    """A resource with a URI of its own, and the handler that reads it."""

    definition: Resource
    function: Callable[..., Any]
    keywords: Callable[[Mapping[str, str], Any], dict[str, Any]]

    @property
    def argument_names(self) -> tuple[str, ...]:
        return ()


class TemplateEntry(NamedTuple):
    """A template, what finds the values in a URI, and the handler that reads what the URI names."""

    definition: ResourceTemplate
    function: Callable[..., Any]
    keywords: Callable[[Mapping[str, str], Any], dict[str, Any]]
    matcher: UriTemplate

    @property
    def argument_names(self) -> tuple[str, ...]:
        return self.matcher.variables


def resource(
    self: Server,
    uri: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    annotations: Annotations | None = None,
    size: int | None = None,
    icons: list[Icon] | None = None,
    meta: JsonObject | None = None,
) -> Callable[[F], F]:
    """Decorator: a function that reads a resource, or with `{variables}` in the URI all resources of a template.

    The function has one parameter for each variable (see `string_arguments` for their types), and perhaps one
    annotated with the context type. It returns

        str                      one text
        bytes                    one blob, which is encoded as base64 here
        dict                     one entry with `text` or `blob`; `uri` and `mimeType` are filled in where missing
        a list of these          several entries; an empty list means that there is nothing in it
        {"contents": [...]}      the whole result

    and raises `ResourceNotFound(uri)` where a URI fits the template and names nothing.

    Args:
        uri: a URI with a scheme, or a template; `machinery/uri_template` says which templates can be matched, and what
            their values can never be (`..`, for one).
        name: the programmatic name; the function's own by default.
        description: the first paragraph of the docstring by default.
        size: in bytes; for a fixed URI only.

    Raises:
        ValueError: it is no URI with a scheme, no template that can be matched, or registered already.
        TypeError: the parameters of the function are not the variables of the template.

    Threads: any.
    Spec: server/resources#data-types
    """

    def decorate(function: F) -> F:
        from mcp_ref.machinery.handlers import inspect_handler, string_arguments

        handler = inspect_handler(function, self.context_type)
        common: JsonObject = {
            "name": name or function.__name__,
            "title": title,
            "description": description or handler.summary,
            "mimeType": mime_type,
            "annotations": annotations,
            "size": size,
            "icons": icons,
            "_meta": meta,
        }
        given = {key: value for key, value in common.items() if value is not None}
        keywords = string_arguments(handler)
        if "{" in uri or "}" in uri:
            matcher = _check_template(uri, given, handler)
            template = cast(ResourceTemplate, {"uriTemplate": uri, **given})
            self.register("templates", uri, TemplateEntry(template, function, keywords, matcher))
        else:
            # MUST: custom schemes in accordance with RFC 3986 (server/resources#custom-uri-schemes)
            if not is_uri(uri):
                raise ValueError(f"{uri!r} is not a URI with a scheme (RFC 3986)")
            _check_parameters(uri, (), frozenset(), handler)
            self.register("resources", uri, ResourceEntry(cast(Resource, {"uri": uri, **given}), function, keywords))
        return function

    return decorate


def remove_resource(self: Server, uri: str) -> None:
    """Take a resource or a template out again, by the text that it was registered with; `KeyError` if it is not there.

    Threads: any.
    """
    self.unregister("templates" if "{" in uri else "resources", uri)


def _check_template(uri: str, given: JsonObject, handler: Handler) -> UriTemplate:
    from mcp_ref.machinery.uri_template import UriTemplate

    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
        raise ValueError(f"URI template {uri!r} does not begin with a scheme (RFC 3986)")
    if "size" in given:
        raise TypeError(f"URI template {uri!r}: a template has no size")
    matcher = UriTemplate(uri)
    _check_parameters(uri, matcher.variables, matcher.optional, handler)
    return matcher


def _check_parameters(uri: str, variables: tuple[str, ...], optional: frozenset[str], handler: Handler) -> None:
    if handler.open_ended or handler.parameters.keys() != set(variables):
        have = ", ".join(sorted(handler.parameters)) or "none"
        raise TypeError(
            f"{uri!r} has the variables ({', '.join(variables) or 'none'}), its handler the parameters ({have})"
        )
    for name, parameter in handler.parameters.items():
        if name in optional and not parameter.default:
            raise TypeError(f"{uri!r}: a URI may leave {name!r} out, so the parameter needs a default")


# -- what a handler returns or raises ---------------------------------------------------------------------------


class ResourceNotFound(Refusal):
    """Raised by a handler: there is no such resource. -32002, or -32602 from 2026-07-28 on; `data` names the URI.

    Args:
        uri: what was asked for.
        revision: whose code to use; a handler leaves it out, and gets the one of the request.

    Spec: server/resources#error-handling
    """

    code = -32002

    def __init__(self, uri: str, revision: Revision | None = None) -> None:
        code = None if revision is None else revision.resource_not_found
        super().__init__("Resource not found", {"uri": uri}, code=code)
        self.uri = uri


def read_result(uri: str, mime_type: str | None, returned: Any) -> ReadResourceResult:
    """The result of `resources/read` from what a handler returned; see `resource` for the forms.

    Raises: TypeError, or ValueError for a blob that is not base64: the handler is wrong, and its request fails.
    """
    if isinstance(returned, Mapping) and "contents" in returned:
        parts = _several(uri, mime_type, returned["contents"])
        return cast(ReadResourceResult, {**returned, "contents": parts})
    if isinstance(returned, list | tuple):
        return {"contents": _several(uri, mime_type, returned)}
    return {"contents": [_contents(uri, mime_type, returned)]}


def _several(uri: str, mime_type: str | None, values: Iterable[Any]) -> list[Contents]:
    return [_contents(uri, mime_type, value) for value in values]


def _contents(uri: str, mime_type: str | None, value: Any) -> Contents:
    """One entry of the result, from a text, bytes, or a dict with either."""
    if isinstance(value, str):
        value = {"text": value}
    elif isinstance(value, bytes | bytearray | memoryview):
        value = {"blob": value}
    elif not isinstance(value, Mapping):
        raise TypeError(
            f"reading {uri} gave {type(value).__name__}; a resource is str, bytes, a dict or a list of these"
        )
    if ("text" in value) == ("blob" in value):
        raise TypeError(f"reading {uri} gave contents that have not exactly one of `text` and `blob`")
    filled: JsonObject = {"uri": uri} | ({"mimeType": mime_type} if mime_type is not None else {}) | dict(value)
    if "blob" in filled:
        filled["blob"] = _base64(filled["blob"])
    return cast(Contents, filled)


def _base64(blob: Any) -> str:
    # MUST: binary data is properly encoded (server/resources#security-considerations)
    if isinstance(blob, str):
        base64.b64decode(blob, validate=True)
        return blob
    return base64.b64encode(blob).decode("ascii")


# -- resources -------------------------------------------------------------------------------------------


# -- the server's half --------------------------------------------------------------------------------------------


def resources_list(ctx: Context, params: PaginatedRequestParams) -> ListResourcesResult:
    """Answer `resources/list` with one page of the resources that have a URI of their own, in order of registration.

    Raises: InvalidParams for a cursor that is not valid.
    Threads: a worker.
    Spec: server/resources#listing-resources
    """
    return cast(ListResourcesResult, answer_list(ctx, "resources", params, "resources"))


def resources_templates_list(ctx: Context, params: PaginatedRequestParams) -> ListResourceTemplatesResult:
    """Answer `resources/templates/list` with one page of the templates, in order of registration.

    Raises: InvalidParams for a cursor that is not valid.
    Threads: a worker.
    Spec: server/resources#resource-templates
    """
    return cast(ListResourceTemplatesResult, answer_list(ctx, "templates", params, "resourceTemplates"))


def resources_read(ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    """Answer `resources/read` by calling the handler of that URI, or of the first template that the URI fits.

    Raises:
        ResourceNotFound: there is none; or a value in the URI cannot be read as its parameter's type.

    Blocks: as long as the handler does.
    Threads: a worker.
    Spec: server/resources#reading-resources
    """
    uri = params["uri"]
    # MUST: validate all resource URIs: what is not registered and fits no template is nothing
    # (server/resources#security-considerations)
    entry, values = _find(ctx, uri)
    try:
        keywords = entry.keywords(values, ctx)
    except ValueError:
        raise ResourceNotFound(uri, ctx.revision) from None
    try:
        returned = entry.function(**keywords)
    except ResourceNotFound as problem:
        raise ResourceNotFound(problem.uri, ctx.revision) from problem
    if is_input_required(returned):
        return cast(ReadResourceResult, returned)
    return read_result(uri, entry.definition.get("mimeType"), returned)


def _find(ctx: Context, uri: str) -> tuple[ResourceEntry | TemplateEntry, Mapping[str, str]]:
    """The entry that serves a URI, and the values in it."""
    fixed: ResourceEntry | None = ctx.registered("resources").get(uri)
    if fixed is not None:
        return fixed, {}
    template: TemplateEntry
    for template in ctx.registered("templates").values():
        values = template.matcher.match(uri)
        if values is not None:
            return template, values
    raise ResourceNotFound(uri, ctx.revision)


def resources_subscribe(ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
    """Answer `resources/subscribe`: from now on this session hears of changes of that resource and of what is below it.

    The resource must be one that `resources/read` would look for: registered, or fitting a template. Whether a handler
    finds something there now is not asked, for it may come later.

    Raises: ResourceNotFound.
    Threads: a worker.
    Spec: server/resources#subscriptions
    """
    _find(ctx, params["uri"])
    ctx.subscribe(params["uri"])
    return {}


def resources_unsubscribe(ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
    """Answer `resources/unsubscribe`; confirmed too where there was no subscription, for then all is as asked.

    Threads: a worker.
    Spec: server/resources#subscriptions
    """
    ctx.unsubscribe(params["uri"])
    return {}


def covers(subscribed: str, updated: str) -> bool:
    """Whether a subscription to one URI is meant by a change of another: the same, or one below it in its path.

    Spec: schema ResourceUpdatedNotification
    """
    if updated == subscribed:
        return True
    if "?" in subscribed or "#" in subscribed:
        return False
    return updated.startswith(subscribed if subscribed.endswith("/") else subscribed + "/")


# -- the client's half --------------------------------------------------------------------------------------------


def list_resources(self: Caller, **options: Unpack[Options]) -> list[Resource]:
    """Ask with `resources/list` for all resources, page by page.

    Returns: those with a URI of their own; templates are listed by `list_resource_templates`.
    Raises:
        LocalProtocolError: the server did not declare `resources`.
        ErrorResponse, RequestTimeout, TransportClosed, RemoteProtocolError: as for every request; the last also for a
            list without end.
    Blocks: until the last page; a number as `timeout` bounds the whole.
    Threads: any.
    Spec: server/resources#listing-resources
    """
    return walk(self, "resources/list", "resources", options)


def list_resources_page(self: Caller, cursor: str | None = None, **options: Unpack[Options]) -> ListResourcesResult:
    """Ask with `resources/list` for one page, and return the whole result.

    Args:
        cursor: the `nextCursor` of the page before; None: the first page.

    Raises, Blocks, Threads: as for every request; -32602 for a cursor that the server does not know.
    Spec: server/utilities/pagination#request-format
    """
    return cast(ListResourcesResult, list_page(self, "resources/list", cursor, options))


def list_resource_templates(self: Caller, **options: Unpack[Options]) -> list[ResourceTemplate]:
    """Ask with `resources/templates/list` for all templates, page by page.

    Raises, Blocks, Threads: as for `list_resources`.
    Spec: server/resources#resource-templates
    """
    return walk(self, "resources/templates/list", "resourceTemplates", options)


def list_resource_templates_page(
    self: Caller, cursor: str | None = None, **options: Unpack[Options]
) -> ListResourceTemplatesResult:
    """Ask with `resources/templates/list` for one page, and return the whole result.

    Args, Raises, Blocks, Threads: as for `list_resources_page`.
    Spec: server/utilities/pagination#request-format
    """
    return cast(ListResourceTemplatesResult, list_page(self, "resources/templates/list", cursor, options))


def read_resource(self: Caller, uri: str, **options: Unpack[Options]) -> ReadResourceResult:
    """Read a resource with `resources/read`.

    Args:
        uri: one from a list, or from a template with its variables put in.

    Returns:
        The whole result: `contents` holds entries with `uri` and either `text` or base64 in `blob`, as they came;
        `contents_bytes` decodes one.

    Raises:
        LocalProtocolError: the server did not declare `resources`.
        ErrorResponse: not found is -32002 or, from 2026-07-28 on, -32602.
        RequestTimeout, TransportClosed, RemoteProtocolError: as for every request.

    Blocks: until the answer, bounded by `timeout`.
    Threads: any.
    Spec: server/resources#reading-resources
    """
    return cast(ReadResourceResult, self.request("resources/read", {"uri": uri}, options))


def subscribe_resource(self: Caller, uri: str, **options: Unpack[Options]) -> None:
    """Ask with `resources/subscribe` to be told of changes; they come as `notifications/resources/updated`.

    Args:
        uri: of a resource; a change of one below it is told too.

    Raises:
        LocalProtocolError: the server did not declare `resources.subscribe`, or the revision has another way
            (2026-07-28: `subscriptions/listen`).
        ErrorResponse, RequestTimeout, TransportClosed, RemoteProtocolError: as for every request.

    Blocks: until the server confirms it, bounded by `timeout`.
    Threads: any.
    Spec: server/resources#subscriptions
    """
    self.request("resources/subscribe", {"uri": uri}, options)


def unsubscribe_resource(self: Caller, uri: str, **options: Unpack[Options]) -> None:
    """Ask with `resources/unsubscribe` to be told of changes no more; one under way may still arrive.

    Args, Raises, Blocks, Threads: as for `subscribe_resource`.
    Spec: server/resources#subscriptions
    """
    self.request("resources/unsubscribe", {"uri": uri}, options)


# -- rows ---------------------------------------------------------------------------------------------------------

METHODS = (
    Method("resources/list", "client", "server/resources", "ask for one page of the resources", PaginatedRequestParams,
           ListResourcesResult, needs="server.resources"),
    Method("resources/templates/list", "client", "server/resources", "ask for one page of the resource templates",
           PaginatedRequestParams, ListResourceTemplatesResult, needs="server.resources"),
    Method("resources/read", "client", "server/resources", "read a resource", ReadResourceRequestParams,
           ReadResourceResult, needs="server.resources"),
    Method("resources/subscribe", "client", "server/resources", "ask to be told when a resource changes",
           SubscribeRequestParams, EmptyResult, until="2025-11-25", needs="server.resources.subscribe"),
    Method("resources/unsubscribe", "client", "server/resources", "ask to be told no more when a resource changes",
           UnsubscribeRequestParams, EmptyResult, until="2025-11-25", needs="server.resources.subscribe"),
    Method("notifications/resources/list_changed", "server", "server/resources",
           "say that resources or templates were added or removed", NotificationParams,
           needs="server.resources.listChanged"),
    Method("notifications/resources/updated", "server", "server/resources", "say that a resource has changed",
           ResourceUpdatedNotificationParams, needs="server.resources.subscribe"),
)  # fmt: skip
