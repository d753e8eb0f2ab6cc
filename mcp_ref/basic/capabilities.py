"""Capabilities: what a client and a server can do, as they declare it.

Spec:      basic/lifecycle#capability-negotiation (2024-11-05 ... 2025-11-25), basic/versioning and server/discover
           (2026-07-28); schema ClientCapabilities, ServerCapabilities
Upholds:   the rows on capabilities of spec_notes/basic/lifecycle.md
Reads:     basic/methods, schema (the notation)
Not here:  when they are said: once in a session (basic/lifecycle), with every request in the stateless era
           (basic/versioning); what may be sent because of them (basic/terms)
"""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from mcp_ref.basic.methods import JsonObject
from mcp_ref.revisions import Revision
from mcp_ref.schema import Since, Until, projector

__all__ = [
    "ClientCapabilities",
    "ElicitationCapability",
    "ListChanged",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "ServerCapabilities",
    "client_capabilities",
    "server_capabilities",
]


class ListChanged(TypedDict):
    """Whether this side says when the list changes."""

    listChanged: NotRequired[bool]


class RootsCapability(TypedDict):
    """The client has roots; `listChanged` while changes are notified."""

    listChanged: NotRequired[Annotated[bool, Until("2025-11-25")]]


class SamplingCapability(TypedDict):
    """The client samples; `tools`: also with tools; `context`: `includeContext` may ask for more than "none"."""

    context: NotRequired[Annotated[JsonObject, Since("2025-11-25")]]
    tools: NotRequired[Annotated[JsonObject, Since("2025-11-25")]]


class ElicitationCapability(TypedDict):
    """The client asks its user; the modes it has. Neither named: form alone."""

    form: NotRequired[Annotated[JsonObject, Since("2025-11-25")]]
    url: NotRequired[Annotated[JsonObject, Since("2025-11-25")]]


class ResourcesCapability(TypedDict):
    """The server has resources; whether they can be subscribed to, and whether changes of the list are said."""

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
