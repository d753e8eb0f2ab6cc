"""Discovery: `server/discover`.

Spec:      server/discover (2026-07-28)
Upholds:   spec_notes/server/discover.md
Reads:     basic/lifecycle (Introduction, ServerCapabilities), server/utilities/caching
Not here:  finding out by it which era a server is of (client/eras); the session era's `initialize` (basic/lifecycle)

    server_discover(ctx, params)      in a server: which versions it speaks, what it can do, what it is for
    discover(client)                  in a client: ask for that
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, Protocol, Unpack, cast

from mcp_ref.basic.lifecycle import Introduction, ServerCapabilities, server_capabilities
from mcp_ref.basic.methods import Caller, JsonObject, Method, Options
from mcp_ref.basic.types import RequestParams
from mcp_ref.revisions import Revision
from mcp_ref.server.utilities.caching import CacheableResult

__all__ = ["METHODS", "DiscoverResult", "discover", "server_discover"]


class DiscoverResult(CacheableResult):
    """What a server says of itself to whoever asks. Who it is stands in the `_meta` of every result."""

    supportedVersions: list[str]
    capabilities: ServerCapabilities
    instructions: NotRequired[str]


class Introducing(Protocol):
    """The request being served, of a server that can say what it is. `Context` is one."""

    @property
    def revision(self) -> Revision: ...

    @property
    def introduction(self) -> Introduction: ...

    @property
    def supported(self) -> Sequence[Revision]: ...


def server_discover(ctx: Introducing, params: JsonObject) -> DiscoverResult:
    """Answer `server/discover`, with every version that is spoken here, the newest first.

    Spec: server/discover#response
    """
    introduction = ctx.introduction
    result: DiscoverResult = {
        "supportedVersions": [revision.name for revision in reversed(ctx.supported)],
        "capabilities": cast(ServerCapabilities, server_capabilities(introduction.capabilities, ctx.revision)),
    }
    if introduction.instructions is not None:
        result["instructions"] = introduction.instructions
    return result


def discover(self: Caller, **options: Unpack[Options]) -> DiscoverResult:
    """Ask the server for its versions, its capabilities and its instructions, with `server/discover`.

    A client does so once when it connects; `client.server_capabilities` and its siblings tell what came.

    Returns: the whole result; who the server is stands in `_meta`, under "io.modelcontextprotocol/serverInfo".
    Raises: LocalProtocolError: the revision agreed has no such request; ErrorResponse, RequestTimeout, TransportClosed,
        RemoteProtocolError as for every request.
    Blocks: until the answer, bounded by `timeout`; not at all where a fresh one is kept.
    Threads: any.
    Spec: server/discover#request
    """
    return cast(DiscoverResult, self.request("server/discover", None, options))


METHODS = (
    Method(
        name="server/discover",
        kind="request",
        sender="client",
        page="server/discover",
        about="ask which versions the server speaks, what it can do, and what it is for",
        params=RequestParams,
        result=DiscoverResult,
        since="2026-07-28",
    ),
)
