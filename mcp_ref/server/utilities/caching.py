"""Caching: the hints `ttlMs` and `cacheScope` on results, and the client that keeps what they allow.

Spec:      server/utilities/caching (2026-07-28)
Upholds:   spec_notes/server/utilities/caching.md
Not here:  the results that carry them (server/discover, server/tools, server/prompts, server/resources); where a client
           keeps them, and its lock (server/utilities/caching)

The hints belong to the stateless era: discovery, the four lists and `resources/read` must have them there, and no
earlier revision knows them.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, NamedTuple, NotRequired

from mcp_ref import messages
from mcp_ref.errors import LocalProtocolError, ParseError
from mcp_ref.machinery.shapes import Bounds, RequiredIn, Since
from mcp_ref.messages import JsonObject
from mcp_ref.types import Result


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


# -- result cache ----------------------------------------------------------------------------------------


MOST_CHANGES: Final = 1000
"""How many changes are remembered for the answers under way; one that was asked for before all of them is not kept."""


class Asking(NamedTuple):
    """A request under way, and what was known when it was sent. Made by `CacheView.begin`.

    Attributes:
        key: None where the answer must not be kept.
        uri: what `resources/read` asks for.
        after: the number of the last change before it.
    """

    method: str
    key: str | None
    uri: str | None
    after: int


class _Slot(NamedTuple):
    """The place of an entry; with None as its owner it is for all clients of the server."""

    server: str
    owner: object
    key: str


class _Entry(NamedTuple):
    asking: Asking
    text: bytes
    expires: float

    @property
    def size(self) -> int:
        return len(self.text) + len(self.asking.key or "")


class _Change(NamedTuple):
    """Results that are no longer what the server would answer: of these methods, at or around a URI or all."""

    number: int
    server: str | None
    methods: frozenset[str]
    uri: str | None = None

    def concerns(self, server: str, asking: Asking) -> bool:
        if asking.method not in self.methods or self.server not in (None, server):
            return False
        if self.uri is None or asking.uri is None:
            return True
        # A change below a resource is told to those who subscribed to the resource, so it is a change of that one too.
        from mcp_ref.server.resources import covers  # which imports this page

        return covers(self.uri, asking.uri) or covers(asking.uri, self.uri)


class ResultCache:
    """Results of servers, bounded in number and size; what was not asked for the longest goes first.

    Several clients may share one; each has a view of it, made by `for_`.

    Args:
        entries: how many results are kept at most.
        size: how many bytes their JSON texts and keys may have together. A result larger than that is not kept.
        clock: seconds that never go back. The default may stand still while the machine sleeps; results are then fresh
            for as much longer.

    Raises: ValueError for a bound below 1.
    Threads: any; it has a lock, and no thread of its own. Nothing here blocks.
    """

    def __init__(
        self, *, entries: int = 1000, size: int = 16_000_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if entries < 1 or size < 1:
            raise ValueError(f"a cache holds at least one entry and one byte, not {entries!r} and {size!r}")
        self._most, self._largest = entries, size
        self._clock = clock
        self._lock = threading.Lock()  # guards the four fields below
        self._entries: OrderedDict[_Slot, _Entry] = OrderedDict()
        self._size = 0
        self._changes: deque[_Change] = deque(maxlen=MOST_CHANGES)
        self._number = 0

    def for_(self, server: str, principal: str | None = None) -> CacheView:
        """The part of the cache that a client of one server may see, on behalf of one principal.

        Args:
            server: what tells servers apart: the URL or the command, and with it the revision spoken.
            principal: what tells apart for whom the server answers, such as a digest of all credentials sent with the
                requests; another token is another principal. None: nobody can tell, so what is private is kept for
                this view alone.

        Spec: server/utilities/caching#cache-scope-field
        """
        return CacheView(self, server, principal)

    def clear(self) -> None:
        """Forget everything; an answer that is under way is not kept either."""
        self._change(None, CACHEABLE)

    def __len__(self) -> int:
        """How many results are kept, stale ones too."""
        with self._lock:
            return len(self._entries)

    @property
    def size(self) -> int:
        """The bytes that they take."""
        with self._lock:
            return self._size

    # -- for the views

    def _find(self, slots: tuple[_Slot, ...]) -> bytes | None:
        """The text of the first fresh entry; a stale one is dropped."""
        now = self._clock()
        with self._lock:
            for slot in slots:
                entry = self._entries.get(slot)
                # SHOULD: ask again once the time is over (server/utilities/caching#freshness-calculation)
                if entry is not None and now < entry.expires:
                    self._entries.move_to_end(slot)
                    return entry.text
                self._drop_locked(slot)
        return None

    def _last(self) -> int:
        with self._lock:
            return self._number

    def _keep(self, asking: Asking, slots: tuple[_Slot, ...], slot: _Slot, entry: _Entry | None) -> None:
        """Put an entry into one of the slots of a request, and what was there before into none."""
        with self._lock:
            if self._outdated_locked(asking, slot.server):
                return
            for former in slots:
                self._drop_locked(former)
            if entry is None or entry.size > self._largest:
                return
            self._entries[slot] = entry
            self._size += entry.size
            while len(self._entries) > self._most or self._size > self._largest:
                self._drop_locked(next(iter(self._entries)))

    def _outdated_locked(self, asking: Asking, server: str) -> bool:
        """Whether the answer may be older than a change that concerns it."""
        assert self._lock.locked()
        if self._changes and asking.after < self._changes[0].number - 1:
            return True
        for change in reversed(self._changes):
            if change.number <= asking.after:
                return False
            if change.concerns(server, asking):
                return True
        return False

    def _change(self, server: str | None, methods: frozenset[str], uri: str | None = None) -> None:
        with self._lock:
            self._number += 1
            change = _Change(self._number, server, methods, uri)
            self._changes.append(change)
            for slot, entry in list(self._entries.items()):
                if change.concerns(slot.server, entry.asking):
                    self._drop_locked(slot)

    def _drop_locked(self, slot: _Slot) -> None:
        assert self._lock.locked()
        entry = self._entries.pop(slot, None)
        if entry is not None:
            self._size -= entry.size


class CacheView:
    """What one client sees of a `ResultCache`: public results of its server, private ones of its principal.

    What changes on a server changes for all of its views: to ask once more than needed does no harm.

    Threads: any. Nothing here blocks.
    Spec: server/utilities/caching (2026-07-28)
    """

    def __init__(self, cache: ResultCache, server: str, principal: str | None) -> None:
        self._cache, self._server = cache, server
        self._owner: object = object() if principal is None else principal

    def get(self, method: str, params: JsonObject | None) -> JsonObject | None:
        """The result kept for a request, an object that is the caller's own; None where there is no fresh one."""
        # MUST NOT: serve it for another method or other parameters (server/utilities/caching#cache-key)
        key = key_of(method, params)
        text = None if key is None else self._cache._find(self._slots(key))
        if text is None:
            return None
        try:
            result: JsonObject = messages.decode(text)
        except ParseError:
            # So deep that it was read on the reader's short stack, and cannot be on that of this caller.
            return None
        return result

    def begin(self, method: str, params: JsonObject | None) -> Asking:
        """Say that a request is about to be sent. Each round of a call with input is a request of its own."""
        uri = (params or {}).get("uri")
        return Asking(method, key_of(method, params), uri if isinstance(uri, str) else None, self._cache._last())

    def put(self, asking: Asking, result: JsonObject, received_at: float | None = None) -> None:
        """Keep the answer to a request if it may be kept; in any case it takes the place of an earlier one.

        Not kept, and nothing is replaced, where a change came after `begin`: the answer may be older than that.

        Args:
            asking: what `begin` of this view gave.
            result: as it came from the server, unchanged.
            received_at: when it came, by the clock of the cache; None: now.

        Spec: server/utilities/caching#freshness-calculation
        """
        if asking.key is None:
            return
        private, public = slots = self._slots(asking.key)
        # MUST NOT: share what is private across authorization contexts (server/utilities/caching#cache-scope-field)
        slot = public if is_public(result) else private
        received = self._cache._clock() if received_at is None else received_at
        self._cache._keep(asking, slots, slot, _entry(asking, result, received))

    def changed(self, method: str, params: JsonObject | None) -> None:
        """Take note of a notification of the server: what it concerns is stale at once. Others do nothing.

        `notifications/resources/updated` concerns the resource, those below it and those above it. To be called where
        messages are read, in their order: an answer that comes after the notification must find it noted.

        Spec: server/utilities/caching#interaction-with-notifications
        """
        methods = INVALIDATED_BY.get(method)
        if methods is None:
            return
        uri = (params or {}).get("uri") if "resources/read" in methods else None
        self._cache._change(self._server, methods, uri if isinstance(uri, str) else None)

    def forget_pages(self, method: str) -> None:
        """Forget all pages of a list: the server has refused a cursor (-32602), so the list is to be asked for anew.

        Spec: server/utilities/caching#interaction-with-pagination
        """
        self._cache._change(self._server, frozenset({method}))

    def clear(self) -> None:
        """Forget everything of this server, for all who share the cache."""
        self._cache._change(self._server, CACHEABLE)

    def _slots(self, key: str) -> tuple[_Slot, _Slot]:
        """The private place of a request, and the public one."""
        return _Slot(self._server, self._owner, key), _Slot(self._server, None, key)


def _entry(asking: Asking, result: JsonObject, received: float) -> _Entry | None:
    """What is kept of an answer; None: nothing."""
    seconds = seconds_fresh(result)
    if not seconds:
        return None
    try:
        return _Entry(asking, messages.encode(result), received + seconds)
    except LocalProtocolError:
        return None
