"""Caching: the hints `ttlMs` and `cacheScope` on results, and the client that keeps results as long as they allow.

Spec:      server/utilities/caching (2026-07-28)
Upholds:   spec_notes/server/utilities/caching.md
Not here:  the results that carry the hints (basic/versioning, server/tools, server/prompts, server/resources); when a
           client looks into its cache (client/client)

The hints belong to the stateless era: discovery, the four lists and `resources/read` must have them there, and no
earlier revision knows them.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired
from weakref import WeakSet

from mcp_ref.kit.typed.shapes import Bounds, RequiredIn, Since
from mcp_ref.kit.typed.uri_template import covers
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.types import Result


class CacheableResult(Result):
    """A result that may be kept: for so many milliseconds, and for one authorization ("private") or for everyone."""

    # SHOULD: take an absent or negative ttlMs for 0 (server/utilities/caching#time-to-live-ttl-field)
    ttlMs: NotRequired[
        Annotated[int, Bounds(0, checked=False), Since("2026-07-28"), RequiredIn("2026-07-28", checked=False)]
    ]
    cacheScope: NotRequired[
        Annotated[Literal["public", "private"], Since("2026-07-28"), RequiredIn("2026-07-28", checked=False)]
    ]


_LISTS: Final = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
CACHEABLE: Final = _LISTS | {"server/discover", "resources/read", "skills/list", "skills/get"}
"""The requests whose complete results carry hints (server/utilities/caching#cacheable-results;
extensions/skills#listing-skills, #getting-a-skill)."""


# -- the server's half --------------------------------------------------------------------------------------------


class CacheHint(NamedTuple):
    """A hint how long, and by whom, the results of a method may be kept: `Server(cache={"tools/list": CacheHint(60)})`.

    Attributes:
        seconds: how long a client may take a result for fresh; 0: it asks each time.
        scope: "public" if the result holds nothing of a user, so that anybody may be given it; else "private".
    """

    seconds: float = 0
    scope: Literal["public", "private"] = "private"

    def fields(self) -> JsonObject:
        """Return the members `ttlMs` and `cacheScope`. Raises: ValueError: not a number from 0 on, or an unknown
        scope.
        """
        # MUST: ttlMs is 0 or more (server/utilities/caching#time-to-live-ttl-field)
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(f"the seconds that a result is fresh must be a number from 0 on, not {self.seconds!r}")
        if self.scope not in ("public", "private"):
            raise ValueError(f'the scope of a result must be "public" or "private", not {self.scope!r}')
        # MUST: send the same cacheScope on every page of a list: a hint belongs to a method
        # (server/utilities/caching#interaction-with-pagination)
        return {"ttlMs": int(self.seconds * 1000), "cacheScope": self.scope}


NO_HINT: Final[JsonObject] = {"ttlMs": 0, "cacheScope": "private"}
"""The members of a result for which the server was given no hint."""


def checked_hints(result: Mapping[str, Any]) -> JsonObject:
    """Return a result of a handler's own, without hints that no client may be given; the server's hints stand for
    them.
    """
    ttl = result.get("ttlMs")
    # MUST: ttlMs is 0 or more, also when a handler chose it (server/utilities/caching#time-to-live-ttl-field)
    valid = {"ttlMs": type(ttl) is int and ttl >= 0, "cacheScope": result.get("cacheScope") in ("public", "private")}
    return {key: value for key, value in result.items() if valid.get(key, True)}


# -- the client's half --------------------------------------------------------------------------------------------

INVALIDATED_BY: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "notifications/tools/list_changed": frozenset({"tools/list"}),
        "notifications/prompts/list_changed": frozenset({"prompts/list"}),
        "notifications/resources/list_changed": frozenset(
            {"resources/list", "resources/templates/list", "skills/list", "skills/get"}
        ),
        "notifications/resources/updated": frozenset({"resources/read", "skills/get"}),
    }
)
"""The requests whose results a notification makes stale (server/utilities/caching#interaction-with-notifications)."""

MAX_TTL: Final = 10**12
"""Milliseconds, more than thirty years: a number on the wire may be larger than any clock can count."""

_canonical: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def key_of(method: str, params: JsonObject | None) -> str | None:
    """Return the text by which a kept result is found, made of the method and the parameters that affect the result.

    Args:
        params: those of the request. `_meta` does not count, nor does the order; absent and empty are the same;
            `{"cursor": ""}` is another page.

    Returns: None if the result of this request must not be kept, or if the parameters are not JSON.
    Spec: server/utilities/caching#cache-key
    """
    affecting = {name: value for name, value in (params or {}).items() if name != "_meta"}
    # A client MUST NOT keep the result of a retry with inputResponses or requestState
    # (server/utilities/caching#cache-key)
    if method not in CACHEABLE or "inputResponses" in affecting or "requestState" in affecting:
        return None
    try:
        return f"{method} {_canonical(affecting)}"
    except (TypeError, ValueError, RecursionError):
        return None


def seconds_fresh(result: JsonObject) -> float:
    """Return for how many seconds after its arrival a result is fresh; 0: it is stale at once.

    Spec: server/utilities/caching#time-to-live-ttl-field, #cacheable-results
    """
    # Absent means "complete". A question ("input_required") and kinds that nobody knows are never kept.
    if result.get("resultType", "complete") != "complete":
        return 0.0
    ttl = result.get("ttlMs")
    # SHOULD: take an absent or negative ttlMs for 0; anything but an integer is treated alike
    # (server/utilities/caching#time-to-live-ttl-field)
    return min(ttl, MAX_TTL) / 1000 if type(ttl) is int and ttl > 0 else 0.0


class CacheableRequest:
    """A request whose answer may be kept; `outdated` once something has changed that may not be in the answer yet."""

    def __init__(self, server: str, method: str, uri: str, key: str) -> None:
        self.server, self.method, self.uri, self.key = server, method, uri, key
        self.outdated = False


class _KeptResult(NamedTuple):
    request: CacheableRequest
    text: bytes
    expires: float

    @property
    def size(self) -> int:
        return len(self.text) + len(self.request.key)


_Slot = tuple[str, "CacheView | None", str, str | None]
"""The place of a result: the server, the view it is private to (None: it is public), the key of the request, and whose
it is, if that can change."""


class ResultCache:
    """Results of servers, bounded in number and size; the one that has been unused for longest goes first.

    Several clients may share one, each through a view of its own.

    Args:
        entries: how many results are kept at most.
        size: how many bytes their JSON texts and keys may take together. A result larger than that is not kept.
        clock: seconds that never go back. The default may stand still while the machine sleeps; results are then fresh
            for that much longer.

    Raises: ValueError: a bound below 1.
    Threads: any. Nothing here blocks.
    """

    def __init__(
        self, *, entries: int = 1000, size: int = 16_000_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if entries < 1 or size < 1:
            raise ValueError(f"a cache must hold at least one entry and one byte, not {entries!r} and {size!r}")
        self._max_entries, self._max_size, self._clock = entries, size, clock
        self._lock = threading.Lock()  # guards the three fields below, and `outdated` of requests
        self._results: OrderedDict[_Slot, _KeptResult] = OrderedDict()
        self._size = 0
        self._under_way: WeakSet[CacheableRequest] = WeakSet()

    def for_(self, server: str, owner: Callable[[], str | None] | None = None) -> CacheView:
        """Return the part of the cache that one client of a server may see.

        Args:
            server: what tells servers apart, such as the URL or the command.
            owner: names whose private results count at the moment, if that can change.
        """
        return CacheView(self, server, owner)

    # -- for the views

    def _find(self, slots: Collection[_Slot]) -> bytes | None:
        with self._lock:
            for slot in slots:
                kept = self._results.get(slot)
                # SHOULD: ask again for a result whose `ttlMs` is over (server/utilities/caching#freshness-calculation)
                if kept is not None and self._clock() < kept.expires:
                    self._results.move_to_end(slot)
                    return kept.text
                self._drop_locked(slot)
        return None

    def _keep(self, kept: _KeptResult, slot: _Slot, instead_of: Collection[_Slot]) -> None:
        """Put a result into its slot if it is fresh and fits; in any case what was there before ends."""
        with self._lock:
            if kept.request.outdated:
                return
            for former in instead_of:
                self._drop_locked(former)
            if kept.expires <= self._clock() or kept.size > self._max_size:
                return
            self._results[slot] = kept
            self._size += kept.size
            while len(self._results) > self._max_entries or self._size > self._max_size:
                self._drop_locked(next(iter(self._results)))

    def _drop_locked(self, slot: _Slot) -> None:
        assert self._lock.locked()
        if (kept := self._results.pop(slot, None)) is not None:
            self._size -= kept.size

    def _invalidate(self, server: str, methods: Collection[str], uri: str | None = None) -> None:
        """Forget the results of some methods of a server, at or around a URI or all, and those still under way."""

        def is_stale(request: CacheableRequest) -> bool:
            if request.server != server or request.method not in methods:
                return False
            # A change below a resource is told to those who subscribed to the resource: it changes that one, too.
            return uri is None or covers(uri, request.uri) or covers(request.uri, uri)

        with self._lock:
            for request in self._under_way:
                request.outdated = request.outdated or is_stale(request)
            for slot in [slot for slot, kept in self._results.items() if is_stale(kept.request)]:
                self._drop_locked(slot)


class CacheView:
    """One client's view of a `ResultCache`: the public results of its server, and the private ones of its own.

    What one client hears of a change on a server holds for all of its views: to ask once too often does no harm.

    Threads: any. Nothing here blocks.
    """

    def __init__(self, cache: ResultCache, server: str, owner: Callable[[], str | None] | None = None) -> None:
        self._cache, self._server, self._owner = cache, server, owner

    def get(self, method: str, params: JsonObject | None) -> JsonObject | None:
        """Return the result kept for a request, as a new object; None if none is fresh."""
        # A client MUST NOT serve a result for another method or other parameters (server/utilities/caching#cache-key)
        key = key_of(method, params)
        text = None if key is None else self._cache._find(self._slots(key))
        return None if text is None else messages.decode(text)

    def begin(self, method: str, params: JsonObject | None) -> CacheableRequest | None:
        """Note that a request is about to be sent; gives what `put` needs, or None if the answer must not be kept."""
        key = key_of(method, params)
        if key is None:
            return None
        request = CacheableRequest(self._server, method, str((params or {}).get("uri")), key)
        with self._cache._lock:
            self._cache._under_way.add(request)
        return request

    def put(self, request: CacheableRequest, result: JsonObject) -> None:
        """Keep the answer to a request for as long as it is fresh; it replaces an earlier one.

        Nothing happens if something changed since `begin`: the answer may be older than the change.

        Args:
            result: as it came from the server, unchanged.

        Spec: server/utilities/caching#freshness-calculation
        """
        private, public = slots = self._slots(request.key)
        # MAY: give a public result to anybody (server/utilities/caching#cache-scope-field)
        # A private result MUST NOT be shared across authorization contexts; each client counts as one
        # (server/utilities/caching#cache-scope-field)
        slot = public if result.get("cacheScope") == "public" else private
        expires = self._cache._clock() + seconds_fresh(result)
        self._cache._keep(_KeptResult(request, messages.encode(result), expires), slot, slots)

    def changed(self, method: str, params: JsonObject) -> None:
        """Note a notification of the server: the results that it concerns are stale at once. Others do nothing.

        `notifications/resources/updated` concerns the resource, those below it and those above it. Call it while
        messages are read, in their order: an answer that comes after the notification must find it noted.

        Spec: server/utilities/caching#interaction-with-notifications
        """
        if method in INVALIDATED_BY:
            uri = params["uri"] if method == "notifications/resources/updated" else None
            self._cache._invalidate(self._server, INVALIDATED_BY[method], uri)

    def forget_pages(self, method: str) -> None:
        """Forget all pages of a list: the server has refused a cursor, so the list is asked for from the beginning.

        Spec: server/utilities/caching#interaction-with-pagination
        """
        self._cache._invalidate(self._server, {method})

    def _slots(self, key: str) -> tuple[_Slot, _Slot]:
        """Return the private place of a result, and the public one."""
        owner = None if self._owner is None else self._owner()
        return (self._server, self, key, owner), (self._server, None, key, None)
