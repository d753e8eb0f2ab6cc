"""The five revisions of the protocol as one table: a line for each rule that changed, a column for each revision.

Spec:      the changelog page of each revision; basic/lifecycle#version-negotiation
Upholds:   every row of the notes that begins "in this revision ..."
Not here:  fields that appeared or vanished (the annotations of the types, read by machinery/shapes), and methods
           (the rows of each page)

Code asks `revision.batching`, never `revision >= "2025-03-26"`: a rule that is asked by name can be looked up here, and
its history read in one line. Revisions are compared as dates nowhere else; `Revision.order` exists for the annotations
of fields alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple


class Revision(NamedTuple):
    """One column of the table: what one revision says. `str(revision)` is its name on the wire.

    Attributes:
        name: its name on the wire.
        order: 0 for the oldest.
        era: "session" (it opens with `initialize`) or "stateless" (every request stands alone).
        batching: JSON-RPC batches exist, and receivers MUST accept them.
        error_id_optional: an error response to an unreadable request leaves `id` out; before, it carries null, as
            JSON-RPC says.
        servers_send_requests: servers send requests of their own; otherwise they ask through the result of the client's
            request.
        resource_not_found: the error code for a resource that does not exist.
        tool_input_errors_are_results: arguments that do not fit `inputSchema` are a result with `isError`; before, a
            -32602 error.
        url_elicitation_error: the error -32042 exists.
        elicitation_modes: elicitation has a `mode`, and the capability says which (form, url).
        tasks: a request can ask to become a task, by `params.task`.
        sampling_tools: `tools` and `toolChoice` exist in sampling, behind the capability `sampling.tools`.
        structured_content: what `structuredContent` and the root of an `outputSchema` may be.
        reserved_meta_label: which label of a `_meta` prefix must not be `modelcontextprotocol` or `mcp`; with "first",
            another label follows it.
        http: the HTTP transport: HTTP+SSE, Streamable HTTP with sessions, or its stateless shape.
        version_header: `MCP-Protocol-Version` exists; it is sent after `initialize` or, in the stateless era, always.
        session_header: `Mcp-Session-Id` exists.
        sse_resumption: event streams can be resumed with `Last-Event-ID`.
        priming_event: the server may begin a stream with an event of empty data and close it before the response.
        disconnect_is_cancellation: a client cancels a request over HTTP by closing its connection.
        sse_fallback: the answers to a POST after which a client tries the older HTTP+SSE transport.
        authorization: which authorization server a server has: none that the revision knows, itself (at the root of its
            origin), or the one that its protected resource metadata names.
        metadata_probing: a client looks for that metadata at the well-known addresses, if no challenge names one.
        openid_discovery: the metadata of an authorization server may stand where OpenID Connect puts it.
        resource_parameter: a client names the server with `resource` whenever it asks for a token.
        pkce_advertised: a client refuses an authorization server whose metadata does not say that it knows PKCE.
    """

    name: str
    order: int
    era: Literal["session", "stateless"]
    batching: bool
    error_id_optional: bool
    servers_send_requests: bool
    resource_not_found: int
    tool_input_errors_are_results: bool
    url_elicitation_error: bool
    elicitation_modes: bool
    tasks: bool
    sampling_tools: bool
    structured_content: Literal["none", "object", "any"]
    reserved_meta_label: Literal["none", "first", "second"]
    http: Literal["sse", "streamable", "stateless"]
    version_header: bool
    session_header: bool
    sse_resumption: bool
    priming_event: bool
    disconnect_is_cancellation: bool
    sse_fallback: Literal["none", "any 4xx", "400, 404, 405", "400, 404, 405 without a modern error"]
    authorization: Literal["none", "itself", "named"]
    metadata_probing: bool
    openid_discovery: bool
    resource_parameter: bool
    pkce_advertised: bool

    def __str__(self) -> str:
        return self.name


_ = False
_4XX, _404, _MODERN = "any 4xx", "400, 404, 405", "400, 404, 405 without a modern error"

# fmt: off
_TABLE: Final[dict[str, tuple[Any, Any, Any, Any, Any]]] = {
    "name":                          ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"),
    "order":                         (0,            1,            2,            3,            4),
    "era":                           ("session",    "session",    "session",    "session",    "stateless"),

    # messages (basic/index); 2024-11-05 is silent on batches, and 2025-03-26 says that earlier ones need not have them
    "batching":                      (_,            True,         _,            _,            _),
    "error_id_optional":             (_,            _,            _,            True,         True),
    "servers_send_requests":         (True,         True,         True,         True,         _),

    # error codes
    # MUST NOT: send -32002 or -32042 in 2026-07-28 (2026-07-28/basic/index#error-codes)
    "resource_not_found":            (-32002,       -32002,       -32002,       -32002,       -32602),
    "tool_input_errors_are_results": (_,            _,            _,            True,         True),
    "url_elicitation_error":         (_,            _,            _,            True,         _),

    # features
    "elicitation_modes":             (_,            _,            _,            True,         True),
    "tasks":                         (_,            _,            _,            True,         _),
    "sampling_tools":                (_,            _,            _,            True,         True),
    "structured_content":            ("none",       "none",       "object",     "object",     "any"),
    "reserved_meta_label":           ("none",       "none",       "first",      "second",     "second"),

    # HTTP (basic/transports)
    "http":                          ("sse",        "streamable", "streamable", "streamable", "stateless"),
    "version_header":                (_,            _,            True,         True,         True),
    "session_header":                (_,            True,         True,         True,         _),
    "sse_resumption":                (_,            True,         True,         True,         _),
    "priming_event":                 (_,            _,            _,            True,         _),
    "disconnect_is_cancellation":    (_,            _,            _,            _,            True),
    "sse_fallback":                  ("none",       _4XX,         _4XX,         _404,         _MODERN),

    # authorization (basic/authorization)
    "authorization":                 ("none",       "itself",     "named",      "named",      "named"),
    "metadata_probing":              (_,            _,            _,            True,         True),
    "openid_discovery":              (_,            _,            _,            True,         True),
    "resource_parameter":            (_,            _,            True,         True,         True),
    "pkce_advertised":               (_,            _,            _,            True,         True),
}
# fmt: on

REVISIONS: Final[dict[str, Revision]] = {
    column[0]: Revision(**dict(zip(_TABLE, column, strict=True))) for column in zip(*_TABLE.values(), strict=True)
}
"""Every revision by its name on the wire, oldest first."""

SESSION_REVISIONS: Final = tuple(row for row in REVISIONS.values() if row.era == "session")
"""The revisions that open with `initialize`, oldest first."""

LATEST_SESSION: Final = SESSION_REVISIONS[-1]

STATELESS_REVISIONS: Final = tuple(row for row in REVISIONS.values() if row.era == "stateless")
"""The revisions in which every request stands alone, oldest first."""


def find_revision(revision: str | Revision) -> Revision:
    """The row of a revision given by name or as itself; `ValueError` naming the five that exist otherwise."""
    if isinstance(revision, Revision):
        return revision
    try:
        return REVISIONS[revision]
    except KeyError:
        raise ValueError(f"unknown revision {revision!r}; known: {', '.join(REVISIONS)}") from None


def in_order(names: Sequence[str | Revision]) -> tuple[Revision, ...]:
    """The revisions of those names, each once, oldest first; ValueError if none is named, or an unknown one."""
    rows = sorted({find_revision(name) for name in names}, key=lambda row: row.order)
    if not rows:
        raise ValueError(f"choose one or more of {', '.join(REVISIONS)}; none was given")
    return tuple(rows)
