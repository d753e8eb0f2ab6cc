"""Caching: the hints `ttlMs` and `cacheScope` on results, and the client that keeps what they allow.

Spec:      server/utilities/caching (2026-07-28)
Upholds:   spec_notes/server/utilities/caching.md
Reads:     basic/types, schema.py (the notation)
Not here:  the results that carry them (server/discover, server/tools, server/prompts, server/resources); where a client
           keeps them, and its lock (client/result_cache)

The hints belong to the stateless era: discovery, the four lists and `resources/read` must have them there, and no
earlier revision knows them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, NamedTuple, NotRequired

from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.types import Result
from mcp_ref.schema import Bounds, RequiredIn, Since

__all__ = [
    "CACHEABLE",
    "INVALIDATED_BY",
    "CacheHint",
    "CacheableResult",
    "hinted",
    "is_public",
    "key_of",
    "seconds_fresh",
]


class CacheableResult(Result):
    """A result that may be kept: for so many milliseconds, and for one authorization ("private") or for all."""

    # SHOULD: take an absent or negative time for 0 (server/utilities/caching#time-to-live-ttl-field)
    ttlMs: NotRequired[
        Annotated[int, Bounds(0, checked=False), Since("2026-07-28"), RequiredIn("2026-07-28", checked=False)]
    ]
    cacheScope: NotRequired[
        Annotated[Literal["public", "private"], Since("2026-07-28"), RequiredIn("2026-07-28", checked=False)]
    ]


CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""The requests whose complete results carry hints (server/utilities/caching#cacheable-results)."""


# -- the server says ----------------------------------------------------------------------------------------------


class CacheHint(NamedTuple):
    """How long, and by whom, the results of a method may be kept: `Server(cache={"tools/list": CacheHint(60)})`.

    Attributes:
        seconds: for which a client may take a result for fresh; 0: it asks each time.
        scope: "public" where the result holds nothing of a user, so that anybody may be given it; else "private".
    """

    seconds: float = 0
    scope: Literal["public", "private"] = "private"

    def fields(self) -> JsonObject:
        """The members of a result that say so."""
        # MUST: ttlMs >= 0; the same scope on every page of a list, which is why a method has one
        return {"ttlMs": max(0, int(self.seconds * 1000)), "cacheScope": self.scope}


def hinted(result: JsonObject, hint: JsonObject) -> JsonObject:
    """A result with the hints of its method, in place of those that its handler left out or that are none.

    Spec: server/utilities/caching#cacheable-results, #time-to-live-ttl-field
    """
    hints, ttl, scope = dict(hint), result.get("ttlMs"), result.get("cacheScope")
    # MUST: ttlMs >= 0 (server/utilities/caching#time-to-live-ttl-field)
    if type(ttl) is int and ttl >= 0:
        hints["ttlMs"] = ttl
    if scope in ("public", "private"):
        hints["cacheScope"] = scope
    return {**result, **hints}


# -- the client keeps ---------------------------------------------------------------------------------------------

INVALIDATED_BY: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "notifications/tools/list_changed": frozenset({"tools/list"}),
        "notifications/prompts/list_changed": frozenset({"prompts/list"}),
        "notifications/resources/list_changed": frozenset({"resources/list", "resources/templates/list"}),
        "notifications/resources/updated": frozenset({"resources/read"}),
    }
)
"""The requests whose results a notification makes stale (server/utilities/caching#interaction-with-notifications)."""

_LONGEST: Final = 10**12
"""Milliseconds, more than thirty years: a number on the wire has no end, a number of seconds on a clock has."""

_canonical: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def key_of(method: str, params: JsonObject | None) -> str | None:
    """What a kept result is found by: the method, and the parameters that affect the result.

    Args:
        params: those of the request, with or without `_meta`, which does not count. Absent and empty are the same;
            `{"cursor": ""}` is another page.

    Returns: the same text for the same request, whatever the order of its parameters; None: a request whose result is
        not to be kept, or that is no JSON.
    Spec: server/utilities/caching#cache-key
    """
    if method not in CACHEABLE:
        return None
    affecting = {name: value for name, value in (params or {}).items() if name != "_meta"}
    # MUST NOT: keep the result of a retry that carries input (server/utilities/caching#cache-key)
    if "inputResponses" in affecting or "requestState" in affecting:
        return None
    try:
        return f"{method} {_canonical(affecting)}"
    except (TypeError, ValueError, RecursionError):
        return None


def seconds_fresh(result: JsonObject) -> float:
    """For how many seconds after its arrival a result may be taken for fresh; 0: it is stale at once.

    Spec: server/utilities/caching#time-to-live-ttl-field, #cacheable-results
    """
    # Only "complete" is one, and absent means it: "input_required" and kinds that nobody knows are never kept.
    if result.get("resultType", "complete") != "complete":
        return 0.0
    ttl = result.get("ttlMs")
    # SHOULD: take an absent or negative time for 0; no integer is treated alike, and True is none
    if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl <= 0:
        return 0.0
    return min(ttl, _LONGEST) / 1000


def is_public(result: JsonObject) -> bool:
    """Whether a result may be given to others than the one who asked; a scope that is absent or unknown says no.

    Spec: server/utilities/caching#cache-scope-field
    """
    return result.get("cacheScope") == "public"
