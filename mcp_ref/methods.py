"""Every method of every page, as one table.

Spec:      schema ClientRequest, ServerRequest, ClientNotification, ServerNotification of each revision
Upholds:   nothing by itself: the rows stand in the page that describes the method
Reads:     the METHODS of each page's module
Not here:  what a row says (basic/methods)
"""

from __future__ import annotations

from typing import Final

from mcp_ref.basic import lifecycle
from mcp_ref.basic.methods import Method
from mcp_ref.basic.patterns import subscription_types
from mcp_ref.basic.utilities import cancellation, ping, progress
from mcp_ref.client import elicitation, roots, sampling
from mcp_ref.server import discover, prompts, resources, tools
from mcp_ref.server.utilities import completion, logging

__all__ = ["METHODS", "method_row"]

_PAGES = (
    lifecycle,
    ping,
    cancellation,
    progress,
    subscription_types,
    discover,
    prompts,
    resources,
    tools,
    completion,
    logging,
    roots,
    sampling,
    elicitation,
)

METHODS: Final[dict[str, Method]] = {row.name: row for page in _PAGES for row in page.METHODS}
"""The rows by wire name, in the order of the specification's pages."""


def method_row(name: str) -> Method | None:
    """The row of a method, or None: what is no row is no method of the protocol."""
    return METHODS.get(name)
