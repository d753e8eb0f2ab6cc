"""What a server is made with: features and cache hints, checked as they are given.

Spec:      server/index; server/utilities/caching
Upholds:   the rows of those pages on what a server declares
Reads:     server/utilities/caching
Not here:  what becomes of them (server/server)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.rate_limit import Rate
from mcp_ref.server.utilities.caching import CACHEABLE, CacheHint

__all__ = ["ALWAYS_ASK", "CHANGES", "DEFAULT_RATES", "FEATURES", "checked_hints", "known_features"]

FEATURES: Final = ("tools", "resources", "templates", "prompts", "completions")

CHANGES: Final = {
    "tools": "notifications/tools/list_changed",
    "resources": "notifications/resources/list_changed",
    "templates": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}
"""What is said when an entry of a feature comes or goes."""

ALWAYS_ASK: Final = CacheHint().fields()
"""The hints where none were chosen: fresh for no time, and for nobody else."""


DEFAULT_RATES: Final[Mapping[str, Rate]] = MappingProxyType(
    {
        "tools/call": Rate(per_second=50_000, burst=50_000),
        "completion/complete": Rate(per_second=50_000, burst=50_000),
        "notifications/message": Rate(per_second=50_000, burst=50_000),
        "notifications/progress": Rate(per_second=50_000, burst=50_000),
    }
)
"""Per conversation. Generous: only a flood meets them. Give `rates=` to set your own."""


def known_features(features: Sequence[str]) -> set[str]:
    """The features as a set; ValueError naming those that are none."""
    if unknown := set(features) - set(FEATURES):
        raise ValueError(f"unknown features {sorted(unknown)}; known: {', '.join(FEATURES)}")
    return set(features)


def checked_hints(hints: Mapping[str, CacheHint] | None) -> dict[str, JsonObject]:
    """The members of results that say how long they may be kept, by method; ValueError for other methods or values.

    Spec: server/utilities/caching#cacheable-results (2026-07-28)
    """
    if unknown := set(hints or ()) - CACHEABLE:
        raise ValueError(f"no results to cache: {sorted(unknown)}; there are {sorted(CACHEABLE)}")
    for hint in (hints or {}).values():
        if not (math.isfinite(hint.seconds) and hint.seconds >= 0):
            raise ValueError(f"a result is fresh for a number of seconds, from 0 on, not for {hint.seconds!r}")
        if hint.scope not in ("public", "private"):
            raise ValueError(f'the scope of a result is "public" or "private", not {hint.scope!r}')
    return {method: hint.fields() for method, hint in (hints or {}).items()}
