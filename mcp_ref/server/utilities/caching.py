"""Caching: the hints `ttlMs` and `cacheScope` on results.

Spec:      server/utilities/caching (2026-07-28)
Upholds:   nothing of the session era: its page came with 2026-07-28
Reads:     basic/types, schema.py (the notation)
Not here:  the results that carry them (server/tools, server/prompts, server/resources)

The hints belong to the stateless era: the four lists and `resources/read` must have them there, and no earlier
revision knows them.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from mcp_ref.basic.types import Result
from mcp_ref.schema import Bounds, RequiredIn, Since

__all__ = ["CacheableResult"]


class CacheableResult(Result):
    """A result that may be kept: for so many milliseconds, and for one authorization ("private") or for all."""

    ttlMs: NotRequired[Annotated[int, Bounds(0), Since("2026-07-28"), RequiredIn("2026-07-28")]]
    cacheScope: NotRequired[Annotated[Literal["public", "private"], Since("2026-07-28"), RequiredIn("2026-07-28")]]
