"""Pagination: the `cursor` of a request for a list, the `nextCursor` of its result.

Spec:      server/utilities/pagination (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/utilities/pagination.md
Not here:  the four lists (server/tools, server/prompts, server/resources)

A cursor of this server names the last entry that the client has got, so it stays right while other entries come and
go. When that very entry is gone, the place is lost: the cursor is refused, and the client starts anew. (An offset
would never be refused; it would skip or repeat entries, and nobody would notice.)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypeVar, cast

from mcp_ref.errors import ErrorResponse, InvalidParams, RemoteProtocolError
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.messages import JsonObject
from mcp_ref.methods import DEFAULT, Caller, Options
from mcp_ref.types import PaginatedRequestParams, Result

MOST_PAGES = 10_000
"""How many pages `walk()` asks for before it takes the list for endless."""

_KEYS = ("uri", "uriTemplate", "name")

Entry = TypeVar("Entry", bound=Mapping[str, object])


class PaginatedResult(Result):
    """What the result of a request for one page of a list holds beside its entries; no `nextCursor`: the last page."""

    nextCursor: NotRequired[str]


# -- the server's half --------------------------------------------------------------------------------------------


def page(entries: Sequence[Entry], params: PaginatedRequestParams, size: int) -> tuple[list[Entry], str | None]:
    """The page of a list that `params["cursor"]` asks for, and the `nextCursor` after it.

    Args:
        entries: the whole list as objects of the wire, each with its own `uri`, `uriTemplate` or `name`, in an order
            that does not change between requests (a registry's own order is one).
        params: the parameters of the request; without `cursor` the first page is meant.
        size: how many entries a page holds, at least 1.

    Returns:
        The entries of the page, and the cursor of the next one, or None after the last.

    Raises:
        InvalidParams: the cursor is none of ours, or the entry that it names is gone.

    Spec: server/utilities/pagination#implementation-guidelines
    """
    cursor = params.get("cursor")
    start = 0 if cursor is None else _position_after(cursor, entries)
    chosen = list(entries[start : start + size])
    more = start + size < len(entries)
    return chosen, _cursor_of(chosen[-1]) if more else None


def _position_after(cursor: str, entries: Sequence[Entry]) -> int:
    """The index of the entry that follows the one named by the cursor."""
    key = _key_in(cursor)
    for index, entry in enumerate(entries):
        if _key_of(entry) == key:
            return index + 1
    # SHOULD: -32602 for a cursor that is not valid (server/utilities/pagination#error-handling)
    raise InvalidParams("Invalid cursor")


def _key_of(entry: Entry) -> object:
    return next(entry[name] for name in _KEYS if name in entry)


def _cursor_of(entry: Entry) -> str:
    return base64.urlsafe_b64encode(str(_key_of(entry)).encode("utf-8", "surrogatepass")).decode("ascii")


def _key_in(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        raise InvalidParams("Invalid cursor") from None


# -- the client's half --------------------------------------------------------------------------------------------


def list_page(self: Caller, method: str, cursor: str | None, options: Options) -> JsonObject:
    """Ask for one page with the list method given, such as `tools/list`; the whole result, as it came.

    Args:
        cursor: the `nextCursor` of the page before, unchanged; None: the first page. An empty string is a cursor.

    Blocks: until the answer, bounded by the options' timeout.
    Threads: any.
    Spec: server/utilities/pagination#request-format
    """
    return self.request(method, None if cursor is None else {"cursor": cursor}, options)


def walk(self: Caller, method: str, field: str, options: Options) -> list[Any]:
    """Ask for all pages with the list method given and return the entries of all of them.

    A cursor that the server refuses, as the list has changed meanwhile, means to begin once more from the first page.

    Args:
        field: the name of the entries in the result, such as "tools".
        options: a number as `timeout` (and as `max_timeout`) bounds the whole walk; with the default each page has it.

    Raises:
        RequestTimeout: before the last page came.
        RemoteProtocolError: a cursor came twice, or there were more than `MOST_PAGES` pages: the list has no end.

    Blocks: until the last page, bounded by the options' timeout.
    Threads: any.
    Spec: server/utilities/pagination#pagination-flow
    """
    left = _Shrinking(options)
    entries: list[Any] = []
    cursor, seen, anew = None, set[str](), False
    for _ in range(MOST_PAGES):
        try:
            result = list_page(self, method, cursor, left(f"while listing with {method}"))
        except ErrorResponse as refusal:
            # SHOULD: begin anew where a cursor is refused (2026-07-28 server/utilities/caching)
            if refusal.code != InvalidParams.code or cursor is None or anew:
                raise
            entries, cursor, seen, anew = [], None, set(), True
            continue
        entries.extend(result[field])
        cursor = result.get("nextCursor")
        # MUST NOT: take an empty string for the end (2026-07-28 server/utilities/pagination#implementation-guidelines)
        if cursor is None:
            return entries
        if cursor in seen:
            raise RemoteProtocolError(f"{method} gave the same nextCursor twice: {cursor!r}")
        seen.add(cursor)
    raise RemoteProtocolError(f"{method} has more than {MOST_PAGES} pages")


class _Shrinking:
    """Options whose number of seconds runs out over several requests: each call gives what is left."""

    def __init__(self, options: Options) -> None:
        self._options = options
        timeout = options.get("timeout", DEFAULT)
        self._deadline = Deadline(None if timeout is DEFAULT else timeout)
        self._latest = Deadline(options.get("max_timeout"))

    def __call__(self, doing: str) -> Options:
        changed: JsonObject = dict(self._options)
        for name, deadline in (("timeout", self._deadline), ("max_timeout", self._latest)):
            left = deadline.check(doing)
            if left is not None:
                changed[name] = left
        return cast(Options, changed)
