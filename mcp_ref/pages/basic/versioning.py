"""Versioning and discovery: the `_meta` of every request and of every result; `server/discover`.

Spec:      basic/versioning, basic/index#_meta, basic/index#resulttype, server/discover (2026-07-28)
Upholds:   spec_notes/basic/versioning.md, spec_notes/server/discover.md
Not here:  the session era's opening (basic/lifecycle); answering such a request (server/session); finding out
           the era of a server (client/connecting); the headers that repeat this over HTTP (streamable_http/headers)

A request declares its protocol version and its client's capabilities, and is answered from that alone:

    client   envelope(...)       ->   params._meta   ->   read_envelope(params)     server
    client   result["_meta"]     <-                  <-   complete(result, ...)     server
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NotRequired, Unpack, cast

from mcp_ref.errors import InvalidParams
from mcp_ref.pages.server.utilities.caching import CacheableResult
from mcp_ref.revisions import Revision
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Caller, Method, Options
from mcp_ref.wire.types import RequestParams, ServerCapabilities, server_capabilities

_PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = _PREFIX + "protocolVersion"
CLIENT_CAPABILITIES: Final = _PREFIX + "clientCapabilities"
CLIENT_INFO: Final = _PREFIX + "clientInfo"
LOG_LEVEL: Final = _PREFIX + "logLevel"
SERVER_INFO: Final = _PREFIX + "serverInfo"
SUBSCRIPTION_ID: Final = _PREFIX + "subscriptionId"

_TELLING: Final = frozenset({PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO})
_ONLY_HERE: Final = frozenset({"server/discover", "subscriptions/listen"})


class Envelope(NamedTuple):
    """A request's statement about its sender, in `_meta`. It holds for that request alone."""

    version: str  # the protocol version it is written in, as declared; nobody may know it
    client_capabilities: JsonObject
    client_info: JsonObject  # an `Implementation`; empty if the client did not say
    log_level: str | None  # the least level of log messages that it wants to hear; None: of none


def is_stateless(method: Any, params: Any) -> bool:
    """Return whether a message is of the stateless era: by its `_meta`, or by a method that exists there alone."""
    if isinstance(method, str) and method in _ONLY_HERE:
        return True
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and not _TELLING.isdisjoint(meta)


class InvalidEnvelope(InvalidParams):
    """A key of `_meta` that every request must have is missing or wrong."""


def read_envelope(params: JsonObject) -> Envelope:
    """Read the envelope of a request; InvalidEnvelope names the key that is missing or of the wrong type."""
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        raise _bad_meta("_meta", meta, "an object")
    # MUST: answer -32602 to a request without the required keys of `_meta` (basic/index#_meta)
    version, capabilities = meta.get(PROTOCOL_VERSION), meta.get(CLIENT_CAPABILITIES)
    if not isinstance(version, str):
        raise _bad_meta(f"_meta['{PROTOCOL_VERSION}']", version, "a string")
    if not isinstance(capabilities, dict):
        raise _bad_meta(f"_meta['{CLIENT_CAPABILITIES}']", capabilities, "an object")
    info, level = meta.get(CLIENT_INFO, {}), meta.get(LOG_LEVEL)
    if not isinstance(info, dict):
        raise _bad_meta(f"_meta['{CLIENT_INFO}']", info or "", "an object")
    if level is not None and not isinstance(level, str):
        raise _bad_meta(f"_meta['{LOG_LEVEL}']", level, "a string")
    return Envelope(version, capabilities, info, level)


def _bad_meta(path: str, value: Any, wanted: str) -> InvalidEnvelope:
    problem = "is missing" if value is None else f"must be {wanted}"
    return InvalidEnvelope(f"Invalid params: params.{path} {problem}", {"path": f"params.{path}"})


def complete(result: JsonObject, server_info: JsonObject) -> JsonObject:
    """Add a `resultType` ("complete" unless it has one) and the server's identity to a result."""
    # MUST: every result says in `resultType` of which kind it is (2026-07-28/basic/index#resulttype;
    # 2026-07-28/basic/index#result-responses)
    # SHOULD: every result names the server in `_meta`, under `io.modelcontextprotocol/serverInfo` (basic/index#_meta)
    # Whoever passes on the result of another server answers all the same.
    meta = {**(result.get("_meta") or {}), SERVER_INFO: server_info}
    return {"resultType": "complete", **result, "_meta": meta}


def envelope(revision: Revision, info: JsonObject, capabilities: JsonObject) -> JsonObject:
    """Return the members that a client puts into the `_meta` of each of its requests."""
    # MUST: a client that answers roots or sampling declares `roots` or `sampling` in the `_meta` of each request
    # (client/roots#capabilities; client/sampling#capabilities)
    return {PROTOCOL_VERSION: revision.name, CLIENT_INFO: info, CLIENT_CAPABILITIES: capabilities}


class DiscoverResult(CacheableResult):
    """A server's introduction to any client that asks. Its name stands in the `_meta` of every result."""

    supportedVersions: list[str]
    capabilities: ServerCapabilities
    instructions: NotRequired[str]


def server_discover(ctx: Any, params: JsonObject) -> DiscoverResult:
    """Answer `server/discover`, with every version that is spoken here, the newest first."""
    # MUST: every server of the stateless era answers `server/discover` (basic/versioning#protocol-version-negotiation;
    # server/discover#)
    introduction = ctx.server.introduction()
    result: DiscoverResult = {
        "supportedVersions": [revision.name for revision in reversed(ctx.server.revisions)],
        "capabilities": cast(ServerCapabilities, server_capabilities(introduction.capabilities, ctx.revision)),
    }
    if introduction.instructions is not None:
        result["instructions"] = introduction.instructions
    return result


def discover(self: Caller, **options: Unpack[Options]) -> DiscoverResult:
    """Ask the server for its versions, its capabilities and its instructions, with `server/discover`.

    Returns: the whole result; who the server is stands in `_meta`, under "io.modelcontextprotocol/serverInfo".
    Raises: LocalProtocolError: the revision in use has no such request.
    Blocks: not at all if a fresh answer is kept.
    Spec: server/discover#request
    """
    return cast(DiscoverResult, self.request("server/discover", None, options))


METHODS = (
    Method("server/discover", "client", "server/discover",
           "ask which versions the server speaks, what it can do, and what it is for", RequestParams, DiscoverResult,
           since="2026-07-28"),
)  # fmt: skip
