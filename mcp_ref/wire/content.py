"""Content: the blocks of which a tool's result, a prompt and a sampled message are made.

Spec:      server/tools#tool-result, server/prompts#data-types, client/sampling#data-types, server/resources#data-types
Upholds:   spec_notes/server/prompts.md, the rows on data types
Not here:  what holds them (server/tools, server/prompts, server/resources, client/sampling)
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from mcp_ref.errors import RemoteProtocolError
from mcp_ref.kit.typed.json_schema import is_uri
from mcp_ref.kit.typed.shapes import Bounds, Format, FromRevision, Since, Until
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.types import Icons, Meta

Role = Literal["user", "assistant"]

# -- types --------------------------------------------------------------------------------------------------------


class Annotations(TypedDict):
    """Hints on a piece of content. `priority` runs from 0 to 1; `lastModified` is an ISO 8601 date and time."""

    audience: NotRequired[list[Role]]
    priority: NotRequired[Annotated[float, Bounds(0, 1)]]
    lastModified: NotRequired[Annotated[str, Since("2025-06-18")]]


class TextContent(TypedDict):
    """Text for the model or the user."""

    type: Literal["text"]
    text: str
    annotations: NotRequired[Annotations]
    _meta: NotRequired[Meta]


class ImageContent(TypedDict):
    """A picture; `data` is base64."""

    type: Literal["image"]
    data: Annotated[str, Format("byte")]
    mimeType: str
    annotations: NotRequired[Annotations]
    _meta: NotRequired[Meta]


class AudioContent(TypedDict):
    """Sound; `data` is base64."""

    type: Literal["audio"]
    data: Annotated[str, Format("byte")]
    mimeType: str
    annotations: NotRequired[Annotations]
    _meta: NotRequired[Meta]


class ResourceContents(TypedDict):
    """The members that both kinds of contents of a resource share."""

    uri: Annotated[str, Format("uri")]
    mimeType: NotRequired[str]
    _meta: NotRequired[Meta]


class TextResourceContents(ResourceContents):
    """Contents that are text."""

    text: str


class BlobResourceContents(ResourceContents):
    """Contents that are bytes; `blob` is base64."""

    blob: Annotated[str, Format("byte")]


class EmbeddedResource(TypedDict):
    """The contents of a resource inside a message."""

    type: Literal["resource"]
    resource: TextResourceContents | BlobResourceContents
    annotations: NotRequired[Annotations]
    _meta: NotRequired[Meta]


class ResourceLink(TypedDict):
    """A resource that the client may read, named and not embedded; the fields of `Resource` with a type."""

    type: Literal["resource_link"]
    uri: Annotated[str, Format("uri")]
    name: str
    title: NotRequired[str]
    description: NotRequired[str]
    mimeType: NotRequired[str]
    annotations: NotRequired[Annotations]
    size: NotRequired[int]
    icons: NotRequired[Icons]
    _meta: NotRequired[JsonObject]


ContentBlock = (
    TextContent
    | ImageContent
    | Annotated[AudioContent, Since("2025-03-26")]
    | EmbeddedResource
    | Annotated[ResourceLink, Since("2025-06-18")]
)
"""The parts of a tool's result and of a prompt's message."""

AnySchema = TypedDict("AnySchema", {"$schema": NotRequired[Annotated[str, Since("2025-11-25")]]})


class InputSchema(AnySchema):
    """The published form of a tool's `inputSchema`, which a client keeps as it is: it describes an object."""

    type: Literal["object"]
    properties: NotRequired[Annotated[dict[str, JsonObject], Until("2025-11-25")]]
    required: NotRequired[Annotated[list[str], Until("2025-11-25")]]


OutputSchema = Annotated[InputSchema, FromRevision("2026-07-28", AnySchema)]
"""And of its `outputSchema`, which may describe anything in the end."""


# -- making and reading them ----------------------------------------------------------------------------------------


def text(value: str) -> TextContent:
    """Return a text block."""
    return {"type": "text", "text": value}


def image(data: bytes, mime_type: str) -> ImageContent:
    """Return a picture block from its bytes, which are encoded as base64 here."""
    return {"type": "image", "data": base64.b64encode(data).decode("ascii"), "mimeType": mime_type}


def audio(data: bytes, mime_type: str) -> AudioContent:
    """Return a sound block from its bytes, which are encoded as base64 here; a text stands in for it before
    2025-03-26.
    """
    return {"type": "audio", "data": base64.b64encode(data).decode("ascii"), "mimeType": mime_type}


def text_of(result: Mapping[str, Any]) -> str:
    """Return all text in the result of `call_tool`, `read_resource` or `get_prompt`, its pieces joined by newlines.

    What is not text (pictures, sound, links, blobs) is left out; of an embedded resource its text counts.
    """
    parts = [*result.get("content", ()), *result.get("contents", ())]
    parts += [message["content"] for message in result.get("messages", ())]
    inner = [part["resource"] if part.get("type") == "resource" else part for part in parts]
    return "\n".join(str(part["text"]) for part in inner if "text" in part)


def data_of(block: ImageContent | AudioContent) -> bytes:
    """Return the bytes of a picture or of sound. Raises: RemoteProtocolError: it has none, or they are not base64."""
    try:
        return base64.b64decode(block["data"], validate=True)
    except (KeyError, TypeError, ValueError) as problem:
        raise RemoteProtocolError(f"the data of a block of {block_type(block)} is not base64: {problem}") from None


def block_type(block: Any) -> str | None:
    """Return the `type` of a content block, or None where the value is not one."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


_BLOCK_FIELDS: Final = {
    "text": {"text"},
    "image": {"data", "mimeType"},
    "audio": {"data", "mimeType"},
    "resource": {"resource"},
    "resource_link": {"uri", "name"},
}


def is_block(value: Any) -> bool:
    """Return whether a value is a content block with all that its kind requires."""
    fields = _BLOCK_FIELDS.get(block_type(value) or "")
    return fields is not None and fields <= value.keys()


_MIME_TYPE = re.compile(r"[^\s/;]+/[^\s/;]+(\s*;.*)?")


def check_data(block: Any) -> None:
    """Raise ValueError if the data of a content block is not base64, or its MIME type or URI does not have that form.

    Args:
        block: one that has the members of its kind.

    Spec: server/prompts#data-types
    """
    if block["type"] == "resource":
        # MUST: an embedded resource has a valid URI, and text or base64 data (server/prompts#embedded-resources)
        if not is_uri(block["resource"]["uri"]):
            raise ValueError(f"{block['resource']['uri']!r} is not a URI")
        base64.b64decode(block["resource"].get("blob", ""), validate=True)
    elif block["type"] in ("image", "audio"):
        # MUST: image and audio data are base64, with a valid MIME type (server/prompts#image-content;
        # server/prompts#audio-content)
        base64.b64decode(block["data"], validate=True)
        if not _MIME_TYPE.fullmatch(block["mimeType"]):
            raise ValueError(f"{block['mimeType']!r} is not a MIME type")
