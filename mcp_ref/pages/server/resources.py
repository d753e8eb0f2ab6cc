"""Resources: `resources/list`, `resources/templates/list`, `resources/read`, `resources/subscribe`,
`resources/unsubscribe`, `notifications/resources/list_changed`, `notifications/resources/updated`.

Spec:      server/resources (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/resources.md
Not here:  which URIs fit a template (kit/typed/uri_template); to whom a change is sent (server/server:
           `announce`); `subscriptions/listen` (basic/subscriptions)

    @server.resource("config://app")
    def config() -> str: ...

    @server.resource("users://{user}/profile", mime_type="application/json")
    def profile(user: str) -> str: ...
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NotRequired, TypedDict, Unpack, cast

from mcp_ref.errors import InvalidParams, Refusal, RemoteProtocolError
from mcp_ref.kit.http.scopes import checked_scopes
from mcp_ref.kit.typed.handlers import F, inspect_handler, string_arguments, to_json
from mcp_ref.kit.typed.json_schema import is_uri
from mcp_ref.kit.typed.shapes import Format, Since
from mcp_ref.pages.server.utilities.caching import CacheableResult, checked_hints
from mcp_ref.pages.server.utilities.pagination import (
    PaginatedRequestParams,
    PaginatedResult,
    answer_list,
    list_page,
    walk,
)
from mcp_ref.revisions import Revision
from mcp_ref.wire.content import Annotations, BlobResourceContents, TextResourceContents, block_type
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method, Options
from mcp_ref.wire.types import (
    EmptyResult,
    Icon,
    Icons,
    InputResponseRequestParams,
    Meta,
    NotificationParams,
    RequestParams,
    is_input_required,
)

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.kit.typed.uri_template import UriTemplate
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Context, Session


# -- types --------------------------------------------------------------------------------------------------------


class Resource(TypedDict):
    """Something to read, identified by its URI. `size` counts bytes before any encoding."""

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
    """Many resources, identified by a template of their URIs; `mimeType` only if all of them have it."""

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
    """The URI of the resource to read."""


class ReadResourceResult(CacheableResult):
    """The contents that were read: usually one entry; several for a resource with parts, such as the files of a
    directory.
    """

    contents: list[Contents]


class SubscribeRequestParams(ResourceRequestParams):
    """The URI of the resource to report changes of."""


class UnsubscribeRequestParams(ResourceRequestParams):
    """The URI of the resource no longer to report changes of."""


class ResourceUpdatedNotificationParams(NotificationParams):
    """The URI that has changed: of a resource that was subscribed to, or of a part of it."""

    uri: Annotated[str, Format("uri")]


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
    Method("resources/unsubscribe", "client", "server/resources", "ask no longer to be told when a resource changes",
           UnsubscribeRequestParams, EmptyResult, until="2025-11-25", needs="server.resources.subscribe"),
    Method("notifications/resources/list_changed", "server", "server/resources",
           "say that resources or templates were added or removed", NotificationParams,
           needs="server.resources.listChanged"),
    Method("notifications/resources/updated", "server", "server/resources", "say that a resource has changed",
           ResourceUpdatedNotificationParams, needs="server.resources.subscribe"),
)  # fmt: skip


# -- the server's half: registering -------------------------------------------------------------------------------


class ResourceEntry(NamedTuple):
    """A registered resource, or template.

    Attributes:
        definition: how it is listed.
        function: what reads it.
        keywords: makes keyword arguments of the values in a URI, which are strings, and the context.
        template: finds the values in a URI; None: it is not a template.
        scopes: those that a token must grant.
        listed: whether it is in the list.
    """

    definition: Resource | ResourceTemplate
    function: Callable[..., Any]
    keywords: Callable[[Mapping[str, str], Any], dict[str, Any]]
    template: UriTemplate | None
    scopes: tuple[str, ...] = ()
    listed: bool = True

    @property
    def argument_names(self) -> Sequence[str]:
        return () if self.template is None else self.template.variables


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
    icons: Sequence[Icon] | None = None,
    scopes: Sequence[str] = (),
    meta: JsonObject | None = None,
    replace: bool = False,
) -> Callable[[F], F]:
    """Offer a function that reads a resource: `@server.resource(uri)`; with `{variables}` in the URI, a template.

    The function has one parameter for each variable, read from strings as their type hints say (kit/typed/handlers has
    the table), and perhaps one annotated with `Context`. It returns

        str                      one text
        bytes                    one blob, which is encoded as base64 here
        dict                     one entry with `text` or `blob`; `uri` and `mimeType` are filled in if missing
        a content block          one entry with what it holds
        a list of these          several entries; an empty list, or None, means that it is empty
        {"contents": [...]}      the whole result
        anything else            one text, its JSON (kit/typed/handlers says how), as `application/json`

    and raises `ResourceNotFound(uri)` if a URI fits the template but names nothing.

    Args:
        uri: a URI with a scheme, or a template; `kit/typed/uri_template` says which templates can be matched, and what
            their values can never be (`..`, for one).
        name: the programmatic name; the function's own by default.
        description: the first paragraph of the docstring by default.
        size: in bytes; for a fixed URI only.
        scopes: those that a token must grant to read it, where the server is served with `authorization=`.
        meta: the `_meta` of the definition.
        replace: take the place of one of that URI.

    Returns: a decorator that returns the function unchanged.
    Raises:
        ValueError: it is not a URI with a scheme, not a template that can be matched, or registered already.
        TypeError: the parameters of the function are not the variables of the template.

    Spec: server/resources#data-types
    """
    if not isinstance(uri, str):
        raise TypeError(f'write @server.resource("scheme:path"), with the URI in the brackets, not {uri!r}')

    def register(function: F) -> F:
        handler = inspect_handler(function, self.context_type)
        is_template = "{" in uri or "}" in uri
        template, variables, may_be_missing = None, tuple[str, ...](), frozenset[str]()
        # MUST: custom URI schemes accord with RFC 3986 (server/resources#custom-uri-schemes)
        if is_template:
            from mcp_ref.kit.typed.uri_template import UriTemplate

            if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
                raise ValueError(f"URI template {uri!r} does not begin with a scheme (RFC 3986)")
            if size is not None:
                raise TypeError(f"URI template {uri!r}: a template has no size")
            template = UriTemplate(uri)
            variables, may_be_missing = template.variables, template.optional
        elif not is_uri(uri):
            raise ValueError(f"{uri!r} is not a URI with a scheme (RFC 3986)")
        if handler.open_ended or handler.parameters.keys() != set(variables):
            needed, found = ", ".join(variables) or "none", ", ".join(sorted(handler.parameters)) or "none"
            raise TypeError(f"{uri!r} has the variables ({needed}), but its handler has the parameters ({found})")
        for parameter in handler.parameters.values():
            if parameter.name in may_be_missing and not parameter.default:
                raise TypeError(f"{uri!r}: a URI may leave {parameter.name!r} out, so the parameter needs a default")
        definition = {
            "uriTemplate" if is_template else "uri": uri,
            "name": name or function.__name__,
            "title": title,
            "description": description or handler.summary,
            "mimeType": mime_type,
            "annotations": annotations,
            "size": size,
            "icons": icons and list(icons),
            "_meta": meta,
        }
        definition = {key: value for key, value in definition.items() if value is not None}
        keywords = string_arguments(handler)
        entry = ResourceEntry(cast(Resource, definition), function, keywords, template, checked_scopes(scopes))
        self.register("templates" if is_template else "resources", uri, entry, replace=replace)
        return function

    return register


def remove_resource(self: Server, uri: str) -> None:
    """Remove a resource, or a template, by the text that it was registered with. Raises: KeyError: it is unknown."""
    self.unregister("templates" if "{" in uri else "resources", uri)


class ResourceNotFound(Refusal):
    """Raised by a handler: the resource does not exist. -32002, or -32602 from 2026-07-28 on; `data` names the URI.

    Args:
        uri: what was asked for.
        revision: whose code to use; a handler leaves it out, and the code is that of the request's revision.

    Spec: server/resources#error-handling
    """

    code = -32002

    def __init__(self, uri: str, revision: Revision | None = None) -> None:
        # SHOULD: answer -32002 for a resource that does not exist (server/resources#error-handling)
        # MUST: answer -32602 for a resource that does not exist, in 2026-07-28
        # (2026-07-28/server/resources#error-handling)
        code = None if revision is None else revision.resource_not_found
        super().__init__("Resource not found", {"uri": uri}, code=code)
        self.uri = uri


# -- the server's half: answering ---------------------------------------------------------------------------------


def resources_list(ctx: Context, params: PaginatedRequestParams) -> ListResourcesResult:
    """Answer `resources/list` with one page of the resources that have a URI of their own.

    Raises: InvalidParams: the cursor is not valid.
    """
    # MUST: `resources/list` is the same for every connection: the registry is all that counts
    # (2026-07-28/server/resources#capabilities)
    listed = {uri: entry for uri, entry in ctx.server.registries["resources"].items() if entry.listed}
    return cast(ListResourcesResult, answer_list(ctx, listed, params, "resources"))


def resources_templates_list(ctx: Context, params: PaginatedRequestParams) -> ListResourceTemplatesResult:
    """Answer `resources/templates/list` with one page of the templates.

    Raises: InvalidParams: the cursor is not valid.
    """
    return cast(ListResourceTemplatesResult, answer_list(ctx, "templates", params, "resourceTemplates"))


def resources_read(ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    """Answer `resources/read`: run the function of that URI, or of the first template that the URI fits.

    Raises:
        ResourceNotFound: nothing serves the URI; or a value in the URI cannot be read as its parameter's type.
        TypeError, ValueError: the function returned what no contents can be made of.

    Blocks: as long as the function does.
    Spec: server/resources#reading-resources
    """
    uri = params["uri"]
    entry, values = find_resource(ctx.server, uri, ctx.revision)
    try:
        keywords = entry.keywords(values, ctx)
    except ValueError:
        raise ResourceNotFound(uri, ctx.revision) from None
    try:
        returned = entry.function(**keywords)
    except ResourceNotFound as problem:
        raise ResourceNotFound(problem.uri, ctx.revision) from problem
    if is_input_required(returned):
        # MAY: answer `resources/read` with a question (2026-07-28/server/resources#reading-resources)
        return cast(ReadResourceResult, returned)
    mime_type = entry.definition.get("mimeType")
    if isinstance(returned, Mapping) and "contents" in returned:
        contents = [_contents(uri, mime_type, part) for part in returned["contents"]]
        return cast(ReadResourceResult, {**checked_hints(returned), "contents": contents})
    # MAY: give several contents for one `resources/read` (2026-07-28/server/resources#reading-resources)
    several = returned if isinstance(returned, list | tuple) else [] if returned is None else [returned]
    if not all(isinstance(part, str | _Bytes) or _is_entry(part) for part in several):
        # Data, as a tool may return it: one text of JSON.
        several = [{"text": json.dumps(to_json(returned), ensure_ascii=False), "mimeType": mime_type or JSON_TYPE}]
    return {"contents": [_contents(uri, mime_type, part) for part in several]}


_Bytes = bytes | bytearray | memoryview
_BLOCKS: Final = ("text", "image", "audio", "resource")
JSON_TYPE: Final = "application/json"


def find_resource(
    server: Server, uri: str, revision: Revision | None = None
) -> tuple[ResourceEntry, Mapping[str, str]]:
    """Return the entry that serves a URI, and the values in it; ResourceNotFound, as the revision has it, if nothing
    does.
    """
    # MUST: validate all resource URIs: one that is not registered and fits no template does not exist
    # (server/resources#security-considerations)
    fixed: ResourceEntry | None = server.registries["resources"].get(uri)
    if fixed is not None:
        return fixed, {}
    for entry in server.registries["templates"].values():
        values = entry.template.match(uri)
        if values is not None:
            return entry, values
    raise ResourceNotFound(uri, revision)


def _is_entry(value: Any) -> bool:
    """Return whether a value holds contents, or is a content block: anything else that JSON can hold is data."""
    return isinstance(value, Mapping) and (
        not value.keys().isdisjoint(("text", "blob")) or block_type(value) in _BLOCKS
    )


def _contents(uri: str, mime_type: str | None, value: Any) -> Contents:
    """Return one entry of the result, from a text, bytes, or a dict with either."""
    if block_type(value) in _BLOCKS:
        # A block says the same in other words.
        value = value["resource"] if value["type"] == "resource" else value
        value = {{"data": "blob"}.get(key, key): part for key, part in value.items() if key != "type"}
    if isinstance(value, str):
        value = {"text": value}
    elif isinstance(value, _Bytes):
        value = {"blob": value}
    elif not isinstance(value, Mapping):
        kind = type(value).__name__
        raise TypeError(f"reading {uri} returned {kind}; it must be str, bytes, a dict or a list of these")
    if ("text" in value) == ("blob" in value):
        raise TypeError(f"reading {uri} returned contents that do not have exactly one of `text` and `blob`")
    filled: JsonObject = {"uri": uri} | ({"mimeType": mime_type} if mime_type is not None else {}) | dict(value)
    # MUST: encode the binary data of a resource properly (server/resources#security-considerations)
    if isinstance(filled.get("blob"), str):
        base64.b64decode(filled["blob"], validate=True)
    elif "blob" in filled:
        filled["blob"] = base64.b64encode(filled["blob"]).decode("ascii")
    return cast(Contents, filled)


# -- the server's half: subscriptions -----------------------------------------------------------------------------

MAX_SUBSCRIPTIONS: Final = 10_000
"""URIs that one client may be subscribed to at once; more are refused."""

MAX_SUBSCRIBED: Final = 4 << 20
"""Characters of these URIs together."""


def resources_subscribe(ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
    """Answer `resources/subscribe`: from now on this session hears of changes of that resource and of what is below it.

    The resource must be one that `resources/read` would look for: registered, or fitting a template. Whether a handler
    finds something there now does not matter, since it may come later.

    Raises: ResourceNotFound; InvalidParams: there are `MAX_SUBSCRIPTIONS` of other URIs.
    Spec: server/resources#subscriptions
    """
    find_resource(ctx.server, params["uri"], ctx.revision)
    session = cast("Session", ctx.conversation)
    with session.changing:
        wanted = session.subscriptions | {params["uri"]}
        # What one client makes us keep stays bounded.
        if len(wanted) > MAX_SUBSCRIPTIONS or sum(map(len, wanted)) > MAX_SUBSCRIBED:
            problem = f"Too many subscriptions: a session has at most {MAX_SUBSCRIPTIONS}"
            problem += f", with {MAX_SUBSCRIBED:,} characters"
            raise InvalidParams(problem, {"uri": params["uri"]})
        session.subscriptions = wanted
    return {}


def resources_unsubscribe(ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
    """Answer `resources/unsubscribe`. Without a subscription it is confirmed as well: the outcome is what was asked."""
    session = cast("Session", ctx.conversation)
    with session.changing:
        session.subscriptions -= {params["uri"]}
    return {}


def resource_updated(self: Server, uri: str) -> None:
    """Send `notifications/resources/updated` to the clients that subscribed to a resource: it has changed.

    Args:
        uri: the resource, or a sub-resource of one that was subscribed to.

    Spec: server/resources#subscriptions
    """
    self.announce_change("notifications/resources/updated", {"uri": uri})


# -- the client's half --------------------------------------------------------------------------------------------


def list_resources(self: Client, **options: Unpack[Options]) -> list[Resource]:
    """Ask for all resources with `resources/list`, page by page; see `list_resource_templates` for templates.

    Raises: RemoteProtocolError: also for pages that have no end.
    Blocks: until the last page; a number as `timeout` bounds them all together.
    Spec: server/resources#listing-resources
    """
    return walk(self, "resources/list", "resources", options)


def list_resources_page(self: Client, cursor: str | None = None, **options: Unpack[Options]) -> ListResourcesResult:
    """Ask for one page of the resources with `resources/list`, and return the whole result.

    Args:
        cursor: the `nextCursor` of the page before; None for the first page.

    Raises: ErrorResponse: -32602 for a cursor that the server does not know.
    Spec: server/resources#listing-resources, server/utilities/pagination#request-format
    """
    return cast(ListResourcesResult, list_page(self, "resources/list", cursor, options))


def list_resource_templates(self: Client, **options: Unpack[Options]) -> list[ResourceTemplate]:
    """Ask for all templates with `resources/templates/list`, page by page; otherwise like `list_resources`.

    Spec: server/resources#resource-templates
    """
    return walk(self, "resources/templates/list", "resourceTemplates", options)


def list_resource_templates_page(
    self: Client, cursor: str | None = None, **options: Unpack[Options]
) -> ListResourceTemplatesResult:
    """Ask for one page of the templates with `resources/templates/list`; otherwise like `list_resources_page`.

    Spec: server/resources#resource-templates, server/utilities/pagination#request-format
    """
    return cast(ListResourceTemplatesResult, list_page(self, "resources/templates/list", cursor, options))


def read_resource(self: Client, uri: str, **options: Unpack[Options]) -> ReadResourceResult:
    """Read a resource with `resources/read`.

    Args:
        uri: one from a list, or from a template with its variables filled in.

    Returns: the whole result: `contents` holds entries with `uri` and either `text` or base64 in `blob`, as they came;
        `contents_bytes` decodes one.
    Raises: ErrorResponse: a resource that does not exist is -32602, or -32002 as before 2026-07-28; take both for it.
    Spec: server/resources#reading-resources
    """
    return cast(ReadResourceResult, self.request("resources/read", {"uri": uri}, options))


def contents_bytes(contents: Contents) -> bytes:
    """Return the bytes of one entry of a result: its blob decoded, or its text in UTF-8.

    Raises: RemoteProtocolError: it has neither, or the blob is not base64.
    """
    parts = cast(JsonObject, contents)
    if isinstance(parts.get("text"), str):
        return cast(bytes, parts["text"].encode("utf-8"))
    try:
        return base64.b64decode(parts["blob"], validate=True)
    except (KeyError, TypeError, ValueError) as problem:
        raise RemoteProtocolError(
            f"the contents of {contents.get('uri')} are neither text nor base64: {problem}"
        ) from None


def subscribe_resource(self: Client, uri: str, **options: Unpack[Options]) -> None:
    """Ask with `resources/subscribe` to hear of changes; they come as `notifications/resources/updated`.

    Args:
        uri: of a resource; a change of one below it is reported, too.

    Raises: LocalProtocolError: also in 2026-07-28, which has `subscriptions/listen` instead.
    Blocks: until the server confirms it.
    Spec: server/resources#subscriptions
    """
    self.request("resources/subscribe", {"uri": uri}, options)


def unsubscribe_resource(self: Client, uri: str, **options: Unpack[Options]) -> None:
    """Ask with `resources/unsubscribe` not to hear of changes any more; one under way may still arrive.

    Otherwise like `subscribe_resource`.
    Spec: server/resources#subscriptions
    """
    self.request("resources/unsubscribe", {"uri": uri}, options)
