"""The types of the page Resources, and the bytes of what was read.

Spec:      server/resources#data-types (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/resources.md, the rows on contents
Reads:     basic/types, schema.py (the notation), utilities/pagination, utilities/caching
Not here:  the messages (server/resources)
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, NotRequired, TypedDict, cast

from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.types import (
    Annotations,
    BlobResourceContents,
    Icons,
    InputResponseRequestParams,
    Meta,
    NotificationParams,
    RequestParams,
    TextResourceContents,
)
from mcp_ref.errors import RemoteProtocolError
from mcp_ref.schema import Format, Since
from mcp_ref.server.utilities.caching import CacheableResult
from mcp_ref.server.utilities.pagination import PaginatedResult

__all__ = [
    "Contents",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ReadResourceRequestParams",
    "ReadResourceResult",
    "Resource",
    "ResourceTemplate",
    "ResourceUpdatedNotificationParams",
    "SubscribeRequestParams",
    "UnsubscribeRequestParams",
    "contents_bytes",
]


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
