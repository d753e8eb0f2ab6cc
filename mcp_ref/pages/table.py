"""Every method of every page, as one table.

Spec:      schema ClientRequest, ServerRequest, ClientNotification, ServerNotification of each revision
Not here:  what a row says (wire/methods)
"""

from __future__ import annotations

from typing import Final

from mcp_ref.pages.basic import lifecycle, subscriptions, tasks, utilities, versioning
from mcp_ref.pages.client import elicitation, roots, sampling
from mcp_ref.pages.server import prompts, resources, tools
from mcp_ref.pages.server.utilities import completion, logging
from mcp_ref.wire.methods import Method

_TABLES = (
    lifecycle.METHODS,
    utilities.METHODS,
    tasks.METHODS,
    subscriptions.METHODS,
    versioning.METHODS,
    prompts.METHODS,
    resources.METHODS,
    tools.METHODS,
    completion.METHODS,
    logging.METHODS,
    roots.METHODS,
    sampling.METHODS,
    elicitation.METHODS,
)

METHODS: Final[dict[str, Method]] = {row.name: row for table in _TABLES for row in table}
"""The rows by wire name, in the order of the specification's pages."""


def method_row(name: str) -> Method | None:
    """Return the row of a method, or None if the protocol has no such method."""
    return METHODS.get(name)
