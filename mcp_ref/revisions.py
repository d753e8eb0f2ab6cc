"""The five revisions of the protocol as one table: a line for each rule that changed, a column for each revision.

Spec:      the changelog page of each revision; basic/lifecycle#version-negotiation
Upholds:   every row of the notes that begins "in this revision ..."
Not here:  fields that appeared or vanished (the annotations of the types, read by kit/typed/shapes), and methods
           (the rows of each page)

Code asks `revision.batching`, never `revision >= "2025-03-26"`: a rule that is asked by name can be looked up here, and
its history read in one line. Revisions are compared as dates nowhere else; `Revision.order` exists for the annotations
of fields alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple


class Revision(NamedTuple):
    """One column of the table: what one revision says. `str(revision)` is its name on the wire."""

    name: str  # its name on the wire
    order: int  # 0 for the oldest
    era: Literal["session", "stateless"]  # it opens with `initialize`, or every request stands alone
    batching: bool  # JSON-RPC batches exist, and receivers MUST accept them
    error_id_optional: bool  # the error for an unreadable request has no `id`; before, it is null, as JSON-RPC says
    servers_send_requests: bool  # otherwise they ask through the result of the client's request
    resource_not_found: int  # the error code for a resource that does not exist
    tool_input_errors_are_results: bool  # arguments that do not fit make a result with `isError`; before, -32602
    url_elicitation_error: bool  # the error -32042 exists
    elicitation_modes: bool  # elicitation has a `mode`, and the capability says which (form, url)
    tasks: bool  # a request can ask to become a task, by `params.task`
    sampling_tools: bool  # `tools` and `toolChoice` exist in sampling, behind the capability `sampling.tools`
    structured_content: Literal["none", "object", "any"]  # what it and the root of an `outputSchema` may be
    # the label of a `_meta` prefix that is not `modelcontextprotocol` or `mcp`; after "first" there is another one
    reserved_meta_label: Literal["none", "first", "second"]
    http: Literal["sse", "streamable", "stateless"]  # HTTP+SSE, Streamable HTTP with sessions, or its stateless shape
    version_header: bool  # `MCP-Protocol-Version` is sent: after `initialize` or, in the stateless era, always
    session_header: bool  # `Mcp-Session-Id` exists
    sse_resumption: bool  # event streams can be resumed with `Last-Event-ID`
    priming_event: bool  # the server may begin a stream with an event of empty data and close it before the response
    disconnect_is_cancellation: bool  # a client cancels a request over HTTP by closing its connection
    # the answers to a POST after which a client tries the older HTTP+SSE transport; modern: of the stateless era
    sse_fallback: Literal["none", "any 4xx", "400, 404, 405", "400, 404, 405 without a modern error"]
    # which authorization server a server has: none that the revision knows, itself (at the root of its origin), or the
    # one that its protected resource metadata names
    authorization: Literal["none", "itself", "named"]
    metadata_probing: bool  # a client looks for that metadata at the well-known addresses, if no challenge names one
    openid_discovery: bool  # the metadata of an authorization server may stand where OpenID Connect puts it
    resource_parameter: bool  # a client names the server with `resource` whenever it asks for a token
    pkce_advertised: bool  # a client refuses an authorization server whose metadata does not say that it knows PKCE

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

    # error codes that we send; server/session keeps -32002 and -32042 of handlers out of 2026-07-28
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

FIRST_STREAMABLE: Final = next(row for row in SESSION_REVISIONS if row.http == "streamable")

LATEST_SESSION: Final = SESSION_REVISIONS[-1]

STATELESS_REVISIONS: Final = tuple(row for row in REVISIONS.values() if row.era == "stateless")
"""The revisions in which every request stands alone, oldest first."""

LATEST_STATELESS: Final = STATELESS_REVISIONS[-1]


def find_revision(revision: str | Revision) -> Revision:
    """Return the row of a revision given by name or as itself; `ValueError` naming those that exist otherwise."""
    if isinstance(revision, Revision):
        return revision
    try:
        return REVISIONS[revision]
    except KeyError:
        raise ValueError(f"unknown revision {revision!r}; known: {', '.join(REVISIONS)}") from None


def in_order(names: str | Revision | Sequence[str | Revision]) -> tuple[Revision, ...]:
    """Return the revisions of these names, each once, oldest first; ValueError: no name, or an unknown one."""
    names = [names] if isinstance(names, str | Revision) else names
    rows = sorted({find_revision(name) for name in names}, key=lambda row: row.order)
    if not rows:
        raise ValueError(f"choose one or more of {', '.join(REVISIONS)}; none was given")
    return tuple(rows)
