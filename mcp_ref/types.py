"""Types that several pages share: capabilities, identities, `_meta`, content blocks.

Spec:      basic/lifecycle#capability-negotiation (2024-11-05 ... 2025-11-25), basic/versioning and server/discover
           (2026-07-28); basic/index#_meta, basic/index#icons; server/prompts#data-types; the schema of each revision
Upholds:   the rows on capabilities of spec_notes/basic/lifecycle.md; spec_notes/basic/index.md
Not here:  when they are said: once in a session (basic/lifecycle), with every request in the stateless era
           (basic/versioning); what may be sent because of them (agreement)
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from mcp_ref.machinery.projection import projector
from mcp_ref.machinery.shapes import Bounds, Format, FromRevision, RequiredIn, Since, Until
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import Revision


class ListChanged(TypedDict):
    """Whether this side tells when the list changes."""

    listChanged: NotRequired[bool]


class RootsCapability(TypedDict):
    """The client has roots; `listChanged` while changes are notified."""

    listChanged: NotRequired[Annotated[bool, Until("2025-11-25")]]


class SamplingCapability(TypedDict):
    """The client samples. `tools`: with tools too; `context`: `includeContext` may ask for more than "none"."""

    context: NotRequired[Annotated[JsonObject, Since("2025-11-25")]]
    tools: NotRequired[Annotated[JsonObject, Since("2025-11-25")]]


class ElicitationCapability(TypedDict):
    """The client asks its user, in these modes; if neither is named, by form alone."""

    form: NotRequired[Annotated[JsonObject, Since("2025-11-25")]]
    url: NotRequired[Annotated[JsonObject, Since("2025-11-25")]]


class ResourcesCapability(TypedDict):
    """The server has resources; whether they can be subscribed to, and whether changes of the list are told."""

    subscribe: NotRequired[bool]
    listChanged: NotRequired[bool]


class ClientCapabilities(TypedDict):
    """What a client can do for a server."""

    experimental: NotRequired[dict[str, JsonObject]]
    roots: NotRequired[RootsCapability]
    sampling: NotRequired[SamplingCapability]
    elicitation: NotRequired[Annotated[ElicitationCapability, Since("2025-06-18")]]
    tasks: NotRequired[Annotated[JsonObject, Since("2025-11-25"), Until("2025-11-25")]]
    extensions: NotRequired[Annotated[dict[str, JsonObject], Since("2026-07-28")]]


class ServerCapabilities(TypedDict):
    """What a server can do for a client."""

    experimental: NotRequired[dict[str, JsonObject]]
    logging: NotRequired[JsonObject]
    completions: NotRequired[Annotated[JsonObject, Since("2025-03-26")]]
    prompts: NotRequired[ListChanged]
    resources: NotRequired[ResourcesCapability]
    tools: NotRequired[ListChanged]
    tasks: NotRequired[Annotated[JsonObject, Since("2025-11-25"), Until("2025-11-25")]]
    extensions: NotRequired[Annotated[dict[str, JsonObject], Since("2026-07-28")]]


def client_capabilities(capabilities: JsonObject, revision: Revision) -> JsonObject:
    """A client's capabilities as that revision knows them; used for what goes out and for what came in."""
    project = projector(ClientCapabilities, revision, replies=True)
    return project(capabilities) if project else capabilities


def server_capabilities(capabilities: JsonObject, revision: Revision) -> JsonObject:
    """A server's capabilities as that revision knows them; used for what goes out and for what came in."""
    project = projector(ServerCapabilities, revision, replies=True)
    return project(capabilities) if project else capabilities


# -- types -----------------------------------------------------------------------------------------------


Role = Literal["user", "assistant"]
LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
ProgressToken = str | int
RequestId = str | int
Meta = Annotated[JsonObject, Since("2025-06-18")]
# MUST: take a missing `resultType` for "complete" (2026-07-28/basic/index#resulttype)
ResultType = Annotated[str, Since("2026-07-28"), RequiredIn("2026-07-28", checked=False)]


# -- who one is -----------------------------------------------------------------------------------------------------


class Icon(TypedDict):
    """A picture for a thing with a name (basic/index#icons). `sizes` are strings such as "48x48" or "any"."""

    src: Annotated[str, Format("uri")]
    mimeType: NotRequired[str]
    sizes: NotRequired[list[str]]
    theme: NotRequired[Literal["light", "dark"]]


Icons = Annotated[list[Icon], Since("2025-11-25")]


class Implementation(TypedDict):
    """Who a client or a server is."""

    name: str
    version: str
    title: NotRequired[Annotated[str, Since("2025-06-18")]]
    description: NotRequired[Annotated[str, Since("2025-11-25")]]
    websiteUrl: NotRequired[Annotated[str, Format("uri"), Since("2025-11-25")]]
    icons: NotRequired[Icons]


# -- `_meta`, and what every message may hold -------------------------------------------------------------------------

RequestMetaObject = TypedDict(
    "RequestMetaObject",
    {
        "progressToken": NotRequired[ProgressToken],
        "io.modelcontextprotocol/protocolVersion": NotRequired[
            Annotated[str, Since("2026-07-28"), RequiredIn("2026-07-28")]
        ],
        "io.modelcontextprotocol/clientCapabilities": NotRequired[
            Annotated[ClientCapabilities, Since("2026-07-28"), RequiredIn("2026-07-28")]
        ],
        "io.modelcontextprotocol/clientInfo": NotRequired[Annotated[Implementation, Since("2026-07-28")]],
        "io.modelcontextprotocol/logLevel": NotRequired[Annotated[LoggingLevel, Since("2026-07-28")]],
    },
)
"""`_meta` of a request: open. In the stateless era it says in which revision the request is written, and for whom."""

NotificationMetaObject = TypedDict(
    "NotificationMetaObject", {"io.modelcontextprotocol/subscriptionId": NotRequired[RequestId]}
)
"""`_meta` of a notification in the stateless era: open, with the subscription that it belongs to, if to any."""

ResultMetaObject = TypedDict("ResultMetaObject", {"io.modelcontextprotocol/serverInfo": NotRequired[Implementation]})
"""`_meta` of a result in the stateless era: open, with the server that answers."""


class RequestParams(TypedDict):
    """What the parameters of any request may hold."""

    _meta: NotRequired[Annotated[RequestMetaObject, RequiredIn("2026-07-28")]]


class PaginatedRequestParams(RequestParams):
    """The parameters of a request for one page of a list (server/utilities/pagination)."""

    cursor: NotRequired[str]


class InputResponseRequestParams(RequestParams):
    """The parameters of a request that may be answered by questions, and is then sent again with the answers.

    What an answer must hold follows from its question: basic/patterns/mrtr checks it.
    """

    inputResponses: NotRequired[Annotated[dict[str, JsonObject], Since("2026-07-28")]]
    requestState: NotRequired[Annotated[str, Since("2026-07-28")]]


class NotificationParams(TypedDict):
    """What the parameters of any notification may hold."""

    _meta: NotRequired[Annotated[JsonObject, FromRevision("2026-07-28", NotificationMetaObject)]]


class Result(TypedDict):
    """What any result may hold. `resultType` belongs to the stateless era, and is sent in no earlier revision."""

    _meta: NotRequired[Annotated[JsonObject, FromRevision("2026-07-28", ResultMetaObject)]]
    resultType: NotRequired[ResultType]


class EmptyResult(Result):
    """The result of a request that only needs to be confirmed."""


# -- content ----------------------------------------------------------------------------------------------------------


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
    """What the two kinds of contents of a resource have in common."""

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
"""What a tool's result and a prompt's message are made of."""


def text(value: str) -> TextContent:
    """A text block."""
    return {"type": "text", "text": value}


def image(data: bytes, mime_type: str) -> ImageContent:
    """A picture block from its bytes, which are encoded as base64 here."""
    return {"type": "image", "data": base64.b64encode(data).decode("ascii"), "mimeType": mime_type}


def audio(data: bytes, mime_type: str) -> AudioContent:
    """A sound block from its bytes, which are encoded as base64 here; a text stands in for it before 2025-03-26."""
    return {"type": "audio", "data": base64.b64encode(data).decode("ascii"), "mimeType": mime_type}


def text_of(result: Mapping[str, Any]) -> str:
    """All text in the result of `call_tool`, `read_resource` or `get_prompt`, its pieces joined by newlines.

    What is not text (pictures, sound, links, blobs) is left out; of an embedded resource its text counts.
    """
    parts = [*result.get("content", ()), *result.get("contents", ())]
    parts += [message["content"] for message in result.get("messages", ())]
    inner = [part["resource"] if part.get("type") == "resource" else part for part in parts]
    return "\n".join(str(part["text"]) for part in inner if "text" in part)


def data_of(block: ImageContent | AudioContent) -> bytes:
    """The bytes of a picture or of sound. Raises: ValueError: it is not base64."""
    return base64.b64decode(block["data"], validate=True)


_MIME_TYPE = re.compile(r"[^\s/;]+/[^\s/;]+(\s*;.*)?")


def checked_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Scopes of OAuth, each once. Raises: ValueError: one that cannot be one (RFC 6749, 3.3). TypeError: a string."""
    if isinstance(scopes, str):
        raise TypeError(f"scopes is a list, not the string {scopes!r}")
    for scope in scopes:
        if not re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", scope):
            raise ValueError(f"{scope!r} cannot be a scope")
        # SHOULD NOT: `offline_access` in a challenge, or in `scopes_supported` (basic/authorization#refresh-tokens)
        if scope == "offline_access":
            raise ValueError("offline_access is between a client and the authorization server: no operation needs it")
    return tuple(dict.fromkeys(scopes))


def block_type(block: Any) -> str | None:
    """The `type` of a content block, or None where the value is not one."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


def check_data(block: Any) -> None:
    """Raise ValueError if the data of a content block is not base64, or its MIME type does not have the form of one.

    Args:
        block: one that has the members of its kind.

    Spec: server/prompts#data-types
    """
    if block["type"] == "resource":
        # MUST: an embedded resource holds either text or base64-encoded data (server/prompts#embedded-resources)
        base64.b64decode(block["resource"].get("blob", ""), validate=True)
    elif block["type"] in ("image", "audio"):
        # MUST: image and audio data are base64, with a valid MIME type (server/prompts#image-content;
        # server/prompts#audio-content)
        base64.b64decode(block["data"], validate=True)
        if not _MIME_TYPE.fullmatch(block["mimeType"]):
            raise ValueError(f"{block['mimeType']!r} is not a MIME type")
