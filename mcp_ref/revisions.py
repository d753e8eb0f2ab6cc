"""The five revisions of the protocol as one table of facts.

Spec:      the changelog page of each revision; basic/lifecycle#version-negotiation
Upholds:   every row of the notes that begins "in this revision ..."
Not here:  fields that appeared or vanished (the annotations of the types, read by schema.py), and methods
           (the rows of each page's module)

One row per revision, one named column per rule that changed. Code asks `revision.batching`, never
`revision >= "2025-03-26"`: a rule that is asked by name can be looked up here, and its history read in one line.
Revisions are compared as dates nowhere else; `Revision.order` exists for the field annotations alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple


class Revision(NamedTuple):
    """One row: what a revision says where the revisions differ. `str(revision)` is its name on the wire."""

    name: str
    order: int
    era: Literal["session", "stateless"]

    # -- messages (basic/index)
    batching: bool
    """JSON-RPC batches exist: receivers MUST accept them."""
    error_id_optional: bool
    """An error response to an unreadable request leaves `id` out; before, it carries null as JSON-RPC says."""
    servers_send_requests: bool
    """Servers send requests of their own; else they ask through the result of the client's request."""

    # -- error codes
    resource_not_found: int
    tool_input_errors_are_results: bool
    """Arguments that do not fit `inputSchema` are a result with `isError`; before, a -32602 error."""
    url_elicitation_error: bool
    """The error -32042 exists."""

    # -- features
    completions_capability: bool
    """`completions` is a capability; before, completion needs none."""
    elicitation_modes: bool
    """Elicitation has a `mode`, and the capability says which (form, url)."""
    sampling_tools: bool
    """`tools` and `toolChoice` in sampling, behind the capability `sampling.tools`."""
    structured_content: Literal["none", "object", "any"]
    """What `structuredContent` and the root of an `outputSchema` may be."""
    reserved_meta_label: Literal["none", "first", "second"]
    """Which label of a `_meta` prefix must not be `modelcontextprotocol` or `mcp`; "first": one more label follows."""

    # -- HTTP (basic/transports)
    http: Literal["sse", "streamable", "stateless"]
    version_header: bool
    """`MCP-Protocol-Version` exists and is sent after `initialize` (or, stateless, always)."""
    session_header: bool
    sse_resumption: bool
    priming_event: bool
    """The server may begin a stream with an event of empty data and close it before the response."""
    origin_refusal_is_403: bool
    disconnect_is_cancellation: bool
    sse_fallback: Literal["none", "any 4xx", "400, 404, 405", "400, 404, 405 without a modern error"]

    def __str__(self) -> str:
        return self.name


_2024_11_05 = Revision(
    name="2024-11-05",
    order=0,
    era="session",
    batching=False,  # silent; the page says only "JSON-RPC 2.0", and 2025-03-26 that earlier ones need not support it
    error_id_optional=False,
    servers_send_requests=True,
    resource_not_found=-32002,
    tool_input_errors_are_results=False,
    url_elicitation_error=False,
    completions_capability=False,
    elicitation_modes=False,
    sampling_tools=False,
    structured_content="none",
    reserved_meta_label="none",
    http="sse",
    version_header=False,
    session_header=False,
    sse_resumption=False,
    priming_event=False,
    origin_refusal_is_403=False,
    disconnect_is_cancellation=False,
    sse_fallback="none",
)

_2025_03_26 = Revision(
    name="2025-03-26",
    order=1,
    era="session",
    batching=True,
    error_id_optional=False,
    servers_send_requests=True,
    resource_not_found=-32002,
    tool_input_errors_are_results=False,
    url_elicitation_error=False,
    completions_capability=True,
    elicitation_modes=False,
    sampling_tools=False,
    structured_content="none",
    reserved_meta_label="none",
    http="streamable",
    version_header=False,
    session_header=True,
    sse_resumption=True,
    priming_event=False,
    origin_refusal_is_403=False,
    disconnect_is_cancellation=False,
    sse_fallback="any 4xx",
)

_2025_06_18 = Revision(
    name="2025-06-18",
    order=2,
    era="session",
    batching=False,
    error_id_optional=False,
    servers_send_requests=True,
    resource_not_found=-32002,
    tool_input_errors_are_results=False,
    url_elicitation_error=False,
    completions_capability=True,
    elicitation_modes=False,
    sampling_tools=False,
    structured_content="object",
    reserved_meta_label="first",
    http="streamable",
    version_header=True,
    session_header=True,
    sse_resumption=True,
    priming_event=False,
    origin_refusal_is_403=False,
    disconnect_is_cancellation=False,
    sse_fallback="any 4xx",
)

_2025_11_25 = Revision(
    name="2025-11-25",
    order=3,
    era="session",
    batching=False,
    error_id_optional=True,
    servers_send_requests=True,
    resource_not_found=-32002,
    tool_input_errors_are_results=True,
    url_elicitation_error=True,
    completions_capability=True,
    elicitation_modes=True,
    sampling_tools=True,
    structured_content="object",
    reserved_meta_label="second",
    http="streamable",
    version_header=True,
    session_header=True,
    sse_resumption=True,
    priming_event=True,
    origin_refusal_is_403=True,
    disconnect_is_cancellation=False,
    sse_fallback="400, 404, 405",
)

_2026_07_28 = Revision(
    name="2026-07-28",
    order=4,
    era="stateless",
    batching=False,
    error_id_optional=True,
    servers_send_requests=False,
    resource_not_found=-32602,
    tool_input_errors_are_results=True,
    url_elicitation_error=False,
    completions_capability=True,
    elicitation_modes=True,
    sampling_tools=True,
    structured_content="any",
    reserved_meta_label="second",
    http="stateless",
    version_header=True,
    session_header=False,
    sse_resumption=False,
    priming_event=False,
    origin_refusal_is_403=True,
    disconnect_is_cancellation=True,
    sse_fallback="400, 404, 405 without a modern error",
)

REVISIONS: Final[dict[str, Revision]] = {
    row.name: row for row in (_2024_11_05, _2025_03_26, _2025_06_18, _2025_11_25, _2026_07_28)
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
    """The revisions of those names, each once, oldest first; ValueError where there is none, or an unknown one."""
    rows = sorted({find_revision(name) for name in names}, key=lambda row: row.order)
    if not rows:
        raise ValueError(f"choose one or more of {', '.join(REVISIONS)}; none was given")
    return tuple(rows)
