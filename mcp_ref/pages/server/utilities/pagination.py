"""Pagination: the `cursor` of a request for a list, the `nextCursor` of its result.

Spec:      server/utilities/pagination (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/utilities/pagination.md
Not here:  the four lists (server/tools, server/prompts, server/resources), which each are a line or two over these:

    answer_list(ctx, "tools", params, "tools")        in a server: one page of a registry, as the result of `tools/list`
    list_page(client, "tools/list", cursor, options)  in a client: one page, as the server sent it
    walk(client, "tools/list", "tools", options)      in a client: the entries of all pages

A cursor of this server names the last entry that the client has received, so it stays valid while other entries come
and go. If that very entry is removed, the place is lost: the cursor is refused, and the client starts over. (An offset
would never be refused; it would skip or repeat entries, and nobody would notice.)
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NotRequired, cast

from mcp_ref.errors import ErrorResponse, InvalidParams, RemoteProtocolError
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.typed.json_text import weigh
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Caller, Options, check_options
from mcp_ref.wire.types import RequestParams, Result

if TYPE_CHECKING:
    from mcp_ref.server.session import Context

MAX_PAGES = 10_000
"""How many pages `walk()` asks for before it concludes that the list has no end."""

MAX_LIST_SIZE = 256 << 20
"""Bytes that the pages of one list may have together, the first aside."""


class PaginatedRequestParams(RequestParams):
    """The parameters of a request for one page of a list (server/utilities/pagination)."""

    cursor: NotRequired[str]


class PaginatedResult(Result):
    """The members of a list's result beside its entries; without `nextCursor` it is the last page."""

    nextCursor: NotRequired[str]


# -- the server's half --------------------------------------------------------------------------------------------


def answer_list(
    ctx: Context,
    feature: str | Mapping[str, Any],
    params: PaginatedRequestParams,
    field: str,
    show: Callable[[Any], Any] = attrgetter("definition"),
) -> JsonObject:
    """Answer a list request with the page that `params["cursor"]` asks for; without a cursor, with the first.

    Args:
        feature: the registry, such as "templates", or any table. Its entries are listed in its order.
        field: the name of the entries in the result, such as "resourceTemplates".
        show: makes the entry of the wire from the one in the registry.

    Raises: InvalidParams: the cursor is not one of ours, or the entry that it names was removed.
    Spec: server/utilities/pagination#implementation-guidelines
    """
    registry = ctx.server.registries[feature] if isinstance(feature, str) else feature
    keys, start, cursor = list(registry), 0, params.get("cursor")
    if cursor is not None:
        try:
            # SHOULD: provide stable cursors: one names an entry (server/utilities/pagination#implementation-guidelines)
            standard = cursor.replace("-", "+").replace("_", "/")
            key = base64.b64decode(standard, validate=True).decode("utf-8", "surrogatepass")
            start = keys.index(key) + 1
        except ValueError:
            # SHOULD: answer -32602 to an invalid cursor (server/utilities/pagination#error-handling)
            raise InvalidParams("Invalid cursor") from None
    chosen = keys[start : start + ctx.server.page_size]
    result: JsonObject = {field: [show(registry[key]) for key in chosen]}
    if start + len(chosen) < len(keys):
        result["nextCursor"] = base64.urlsafe_b64encode(chosen[-1].encode("utf-8", "surrogatepass")).decode("ascii")
    return result


# -- the client's half --------------------------------------------------------------------------------------------


def list_page(
    self: Caller, method: str, cursor: str | None, options: Options, about: JsonObject | None = None
) -> JsonObject:
    """Ask for one page with a list method such as `tools/list`, and return the whole result.

    Args:
        about: what the list is of, where the method has parameters beside the cursor.
        cursor: the `nextCursor` of the page before; None for the first page. An empty string is a cursor.

    Spec: server/utilities/pagination#request-format
    """
    # MUST: treat a cursor as opaque: it goes back unchanged (server/utilities/pagination#implementation-guidelines)
    return self.request(method, about if cursor is None else {**(about or {}), "cursor": cursor}, options)


def walk(self: Caller, method: str, field: str, options: Options, about: JsonObject | None = None) -> list[Any]:
    """Ask for all pages with a list method, and return the entries of all of them.

    If the server refuses a cursor because the list has changed meanwhile, the walk starts over, once.

    Args:
        field: the name of the entries in the result, such as "tools".
        options: a number as `timeout` (and as `max_timeout`) bounds the whole walk; the client's default bounds each
            page.

    Raises: RemoteProtocolError: a cursor came twice, or there were more than `MAX_PAGES` pages: the list has no end. Or
        it has more than `MAX_LIST_SIZE`.
    Blocks: until the last page, bounded by the options' timeout.
    Spec: server/utilities/pagination#pagination-flow
    """
    check_options(options, method)
    given: JsonObject = dict(options)
    bounded = [name for name in ("timeout", "max_timeout") if isinstance(given.get(name), int | float)]
    deadlines = {name: Deadline(given[name]) for name in bounded}
    entries, size = list[Any](), 0
    cursor, seen, started_over = None, set[str](), False
    # A client MUST NOT rely on a page size; the server decides it (server/utilities/pagination#pagination-model)
    for _ in range(MAX_PAGES):
        left = {name: deadline.check(f"while listing with {method}") for name, deadline in deadlines.items()}
        try:
            result = list_page(self, method, cursor, cast(Options, given | left), about)
        except ErrorResponse as refusal:
            # SHOULD: list again from the first page after a refused cursor
            # (2026-07-28/server/utilities/caching#interaction-with-pagination)
            if refusal.code != InvalidParams.code or cursor is None or started_over:
                raise
            entries, size, cursor, seen, started_over = [], 0, None, set(), True
            continue
        size += weigh(result) if cursor is not None else 0
        if size > MAX_LIST_SIZE:
            raise RemoteProtocolError(f"the pages of {method} have more than {MAX_LIST_SIZE >> 20} MiB")
        entries.extend(result[field])
        cursor = result.get("nextCursor")
        # SHOULD: take a missing nextCursor for the end (server/utilities/pagination#implementation-guidelines)
        # A client MUST NOT take an empty string for the end
        # (2026-07-28/server/utilities/pagination#implementation-guidelines)
        if cursor is None:
            return entries
        if cursor in seen:
            raise RemoteProtocolError(f"{method} gave the same nextCursor twice: {cursor!r}")
        seen.add(cursor)
    raise RemoteProtocolError(f"{method} has more than {MAX_PAGES} pages")
