"""Deprecated features: what is on its way out, since when, and what to use instead.

Spec:      deprecated (2026-07-28)
Upholds:   spec_notes/deprecated.md
Not here:  the features themselves (each page), which work until a revision removes them
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Final, NamedTuple

from mcp_ref.revisions import Revision

_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


class DeprecatedFeature(NamedTuple):
    """One row of the registry.

    Attributes:
        since: the revision that deprecated it.
        instead: what to do instead.
    """

    since: str
    instead: str


FEATURES: Final = {
    "roots": DeprecatedFeature(
        "2026-07-28", "pass directories and files as tool parameters, as resource URIs or in the server's configuration"
    ),
    "sampling": DeprecatedFeature("2026-07-28", "call the API of a model's provider"),
    "logging": DeprecatedFeature(
        "2026-07-28", "log to stderr where the transport is stdio, or use OpenTelemetry to be observed"
    ),
    "Dynamic Client Registration": DeprecatedFeature("2026-07-28", "use Client ID Metadata Documents"),
    'includeContext "thisServer" or "allServers"': DeprecatedFeature("2025-11-25", 'leave it out, or say "none"'),
    "HTTP+SSE": DeprecatedFeature("2025-03-26", "use Streamable HTTP"),
}
"""By name, in the order of the page."""

# What was not said yet. Taking a row out is one step, so that of several threads one says it.
_unsaid = dict(FEATURES)


def warn_deprecated(feature: str, revision: Revision) -> None:
    """Warn that a feature is deprecated, once in this process; the line is that of whoever called into this package.

    Args:
        feature: a name in `FEATURES`.
        revision: of the request. In the session era nothing is said: there the feature has no successor.

    Raises: DeprecationWarning, where Python was told to make errors of warnings.
    Threads: any.
    Spec: deprecated#deprecated
    """
    if revision.era == "session" or (row := _unsaid.pop(feature, None)) is None:
        return
    # The line of the caller: the first frame up that is not of this package.
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    text = f"deprecated in MCP since {row.since}: {feature}; instead, {row.instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=level)
