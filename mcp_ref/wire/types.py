"""Types that several pages share: capabilities, identities, `_meta`.

Spec:      basic/lifecycle#capability-negotiation (2024-11-05 ... 2025-11-25), basic/versioning and server/discover
           (2026-07-28); basic/index#_meta, basic/index#icons; the schema of each revision
Upholds:   the rows on capabilities of spec_notes/basic/lifecycle.md; spec_notes/basic/index.md; spec_notes/schema.md
Not here:  when they are said: once in a session (basic/lifecycle), with every request in the stateless era
           (basic/versioning); what may be sent because of them (negotiated); content blocks (content)
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from mcp_ref.kit.typed.checking import projector
from mcp_ref.kit.typed.shapes import Format, FromRevision, RequiredIn, Since, Until
from mcp_ref.revisions import Revision
from mcp_ref.wire.messages import JsonObject


class ListChanged(TypedDict):
    """A flag whether this side tells when the list changes."""

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
    """A client's capabilities, which a server may use."""

    experimental: NotRequired[dict[str, JsonObject]]
    roots: NotRequired[RootsCapability]
    sampling: NotRequired[SamplingCapability]
    elicitation: NotRequired[Annotated[ElicitationCapability, Since("2025-06-18")]]
    tasks: NotRequired[Annotated[JsonObject, Since("2025-11-25"), Until("2025-11-25")]]
    # In the session era it is no member of the protocol's: some extensions have their clients declare them there.
    extensions: NotRequired[Annotated[Any, FromRevision("2026-07-28", dict[str, JsonObject])]]


class ServerCapabilities(TypedDict):
    """A server's capabilities, which a client may use."""

    experimental: NotRequired[dict[str, JsonObject]]
    logging: NotRequired[JsonObject]
    completions: NotRequired[Annotated[JsonObject, Since("2025-03-26")]]
    prompts: NotRequired[ListChanged]
    resources: NotRequired[ResourcesCapability]
    tools: NotRequired[ListChanged]
    tasks: NotRequired[Annotated[JsonObject, Since("2025-11-25"), Until("2025-11-25")]]
    extensions: NotRequired[Annotated[dict[str, JsonObject], Since("2026-07-28")]]


def client_capabilities(capabilities: JsonObject, revision: Revision) -> JsonObject:
    """Return a client's capabilities as that revision knows them; used for what goes out and for what came in."""
    project = projector(ClientCapabilities, revision, replies=True)
    return project(capabilities) if project else capabilities


def server_capabilities(capabilities: JsonObject, revision: Revision) -> JsonObject:
    """Return a server's capabilities as that revision knows them; used for what goes out and for what came in."""
    project = projector(ServerCapabilities, revision, replies=True)
    return project(capabilities) if project else capabilities


LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
ProgressToken = str | int
RequestId = str | int
Meta = Annotated[JsonObject, Since("2025-06-18")]
# MUST: take a missing `resultType` for "complete" (2026-07-28/basic/index#resulttype)
ResultType = Annotated[str, Since("2026-07-28"), RequiredIn("2026-07-28", checked=False)]


class Icon(TypedDict):
    """A picture for a thing with a name (basic/index#icons). `sizes` are strings such as "48x48" or "any"."""

    src: Annotated[str, Format("uri")]
    mimeType: NotRequired[str]
    sizes: NotRequired[list[str]]
    theme: NotRequired[Literal["light", "dark"]]


Icons = Annotated[list[Icon], Since("2025-11-25")]


class Implementation(TypedDict):
    """The name and version of a client or a server."""

    name: str
    version: str
    title: NotRequired[Annotated[str, Since("2025-06-18")]]
    description: NotRequired[Annotated[str, Since("2025-11-25")]]
    websiteUrl: NotRequired[Annotated[str, Format("uri"), Since("2025-11-25")]]
    icons: NotRequired[Icons]


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

ResultMetaObject = TypedDict(
    "ResultMetaObject",
    {"io.modelcontextprotocol/serverInfo": NotRequired[Annotated[Implementation, Since("2026-07-28")]]},
)
"""`_meta` of a result: open. In the stateless era it says which server answers."""


class RequestParams(TypedDict):
    """The members that the parameters of any request may have."""

    _meta: NotRequired[Annotated[RequestMetaObject, RequiredIn("2026-07-28")]]


class InputResponseRequestParams(RequestParams):
    """The parameters of a request that may be answered by questions, and is then sent again with the answers."""

    inputResponses: NotRequired[Annotated[dict[str, JsonObject], Since("2026-07-28")]]
    requestState: NotRequired[Annotated[str, Since("2026-07-28")]]


class NotificationParams(TypedDict):
    """The members that the parameters of any notification may have."""

    _meta: NotRequired[Annotated[JsonObject, FromRevision("2026-07-28", NotificationMetaObject)]]


class Result(TypedDict):
    """The members that any result may have; `resultType` belongs to the stateless era."""

    _meta: NotRequired[ResultMetaObject]
    resultType: NotRequired[ResultType]


class EmptyResult(Result):
    """The result of a request that only needs to be confirmed."""


def is_input_required(result: Any) -> bool:
    """Return whether the result asks for input instead of completing the request (basic/patterns/mrtr)."""
    return isinstance(result, dict) and result.get("resultType") == "input_required"
