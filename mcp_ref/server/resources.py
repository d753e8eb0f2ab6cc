"""Resources: `resources/list`, `resources/templates/list`, `resources/read`, `resources/subscribe`,
`resources/unsubscribe`, `notifications/resources/list_changed`, `notifications/resources/updated`.

Spec:      server/resources (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/resources.md
Reads:     server/resource_types, server/resource_handlers (the decorator), utilities/pagination
Not here:  who is told of a change (server/server: `announce`); `subscriptions/listen` (basic/patterns/subscriptions)

    @server.resource("config://app")
    def config() -> str: ...

    @server.resource("users://{user}/profile", mime_type="application/json")
    def profile(user: str) -> str: ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack, cast

from mcp_ref.basic.methods import Caller, Handling, Method, Options
from mcp_ref.basic.types import EmptyResult, NotificationParams, PaginatedRequestParams
from mcp_ref.basic.versioning import is_input_required
from mcp_ref.server.resource_handlers import (
    ResourceEntry,
    ResourceNotFound,
    TemplateEntry,
    read_result,
    remove_resource,
    resource,
)
from mcp_ref.server.resource_types import (
    Contents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceUpdatedNotificationParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
    contents_bytes,
)
from mcp_ref.server.utilities.pagination import list_page, page, walk

__all__ = [
    "METHODS",
    "Contents",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ReadResourceRequestParams",
    "ReadResourceResult",
    "Resource",
    "ResourceNotFound",
    "ResourceTemplate",
    "ResourceUpdatedNotificationParams",
    "SubscribeRequestParams",
    "UnsubscribeRequestParams",
    "contents_bytes",
    "covers",
    "list_resource_templates",
    "list_resource_templates_page",
    "list_resources",
    "list_resources_page",
    "read_resource",
    "remove_resource",
    "resource",
    "resources_list",
    "resources_read",
    "resources_subscribe",
    "resources_templates_list",
    "resources_unsubscribe",
    "subscribe_resource",
    "unsubscribe_resource",
]


# -- the server's half --------------------------------------------------------------------------------------------


def resources_list(ctx: Handling, params: PaginatedRequestParams) -> ListResourcesResult:
    """Answer `resources/list` with one page of the resources that have a URI of their own, in order of registration.

    Raises: InvalidParams for a cursor that is not valid.
    Threads: a worker.
    Spec: server/resources#listing-resources
    """
    entries = [entry.definition for entry in ctx.registered("resources").values()]
    chosen, cursor = page(entries, params, ctx.page_size)
    result: ListResourcesResult = {"resources": chosen}
    if cursor is not None:
        result["nextCursor"] = cursor
    return result


def resources_templates_list(ctx: Handling, params: PaginatedRequestParams) -> ListResourceTemplatesResult:
    """Answer `resources/templates/list` with one page of the templates, in order of registration.

    Raises: InvalidParams for a cursor that is not valid.
    Threads: a worker.
    Spec: server/resources#resource-templates
    """
    entries = [entry.definition for entry in ctx.registered("templates").values()]
    chosen, cursor = page(entries, params, ctx.page_size)
    result: ListResourceTemplatesResult = {"resourceTemplates": chosen}
    if cursor is not None:
        result["nextCursor"] = cursor
    return result


def resources_read(ctx: Handling, params: ReadResourceRequestParams) -> ReadResourceResult:
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
        keywords = entry.handler.keywords(values, ctx)
    except ValueError:
        raise ResourceNotFound(uri, ctx.revision) from None
    try:
        returned = entry.handler.function(**keywords)
    except ResourceNotFound as problem:
        raise ResourceNotFound(problem.uri, ctx.revision) from problem
    if is_input_required(returned):
        return cast(ReadResourceResult, returned)
    return read_result(uri, entry.definition.get("mimeType"), returned)


def _find(ctx: Handling, uri: str) -> tuple[ResourceEntry | TemplateEntry, Mapping[str, str]]:
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


def resources_subscribe(ctx: Handling, params: SubscribeRequestParams) -> EmptyResult:
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


def resources_unsubscribe(ctx: Handling, params: UnsubscribeRequestParams) -> EmptyResult:
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
        uri: one from a list, or from a template with its variables put in (`UriTemplate(...).expand(...)`).

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
    Method(
        name="resources/list",
        kind="request",
        sender="client",
        page="server/resources",
        about="ask for one page of the resources",
        params=PaginatedRequestParams,
        result=ListResourcesResult,
        needs="server.resources",
    ),
    Method(
        name="resources/templates/list",
        kind="request",
        sender="client",
        page="server/resources",
        about="ask for one page of the resource templates",
        params=PaginatedRequestParams,
        result=ListResourceTemplatesResult,
        needs="server.resources",
    ),
    Method(
        name="resources/read",
        kind="request",
        sender="client",
        page="server/resources",
        about="read a resource",
        params=ReadResourceRequestParams,
        result=ReadResourceResult,
        needs="server.resources",
    ),
    Method(
        name="resources/subscribe",
        kind="request",
        sender="client",
        page="server/resources",
        about="ask to be told when a resource changes",
        params=SubscribeRequestParams,
        result=EmptyResult,
        until="2025-11-25",
        needs="server.resources.subscribe",
    ),
    Method(
        name="resources/unsubscribe",
        kind="request",
        sender="client",
        page="server/resources",
        about="ask to be told no more when a resource changes",
        params=UnsubscribeRequestParams,
        result=EmptyResult,
        until="2025-11-25",
        needs="server.resources.subscribe",
    ),
    Method(
        name="notifications/resources/list_changed",
        kind="notification",
        sender="server",
        page="server/resources",
        about="say that the list of resources or templates is another now",
        params=NotificationParams,
        needs="server.resources.listChanged",
    ),
    Method(
        name="notifications/resources/updated",
        kind="notification",
        sender="server",
        page="server/resources",
        about="say that a resource has changed",
        params=ResourceUpdatedNotificationParams,
        needs="server.resources.subscribe",
    ),
)
