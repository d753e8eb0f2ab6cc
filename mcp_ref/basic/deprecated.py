"""Deprecated: what the protocol still has, and new programs should do without.

Spec:      deprecated (2026-07-28)
Upholds:   spec_notes/deprecated.md
Reads:     revisions.py
Not here:  the features themselves, which work as before (client/roots, client/sampling, server/utilities/logging,
           basic/transports/http_sse)

A feature of this table is removed at the earliest in a revision of 2027-07-28 or later. Until then its first use by a
handler, in a revision that has the table, is a `DeprecationWarning` on the handler's line. Python shows those of a
program's own main module and of tests; `python -W ignore::DeprecationWarning` shows none.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Final, NamedTuple

from mcp_ref.revisions import Revision

__all__ = ["FEATURES", "DeprecatedFeature", "warn_deprecated"]

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

# What is to be said yet. Taking a row out is one step, so of several threads one says it.
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
    if revision.era == "session" or feature not in _unsaid:
        return
    row = _unsaid.pop(feature, None)
    if row is not None:
        text = f"deprecated in MCP since {row.since}: {feature}; instead, {row.instead}"
        warnings.warn(text, DeprecationWarning, stacklevel=_level_of_the_caller())


def _level_of_the_caller() -> int:
    """How far up the first frame is that is not of this package, counted as `warnings.warn` in our caller does."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
