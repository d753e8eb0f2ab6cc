"""Roots: `roots/list`, `notifications/roots/list_changed`.

Spec:      client/roots (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/client/roots.md
Not here:  the error for a client without roots (wire/negotiated: what was not declared is -32601)

    roots(ctx)                 in a server: ask the client for its roots
    root_path, is_within       in a server: respect the boundaries
    roots_list(...)            in a client: answer, from `Client(..., roots=...)`
    roots_changed(client)      in a client: tell the server that the list has changed

A root is a boundary that a server should keep to. It is not a lock: the client cannot enforce it, and gives away with
it only where the user works.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict, TypeVar, Unpack, cast

from mcp_ref.errors import LocalProtocolError
from mcp_ref.kit.typed.handlers import call
from mcp_ref.kit.typed.json_schema import is_uri
from mcp_ref.kit.typed.shapes import Format, Until
from mcp_ref.wire.deprecated import warn_deprecated
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method, Options
from mcp_ref.wire.types import Meta, NotificationParams, RequestParams

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_ref.client.client import Client
    from mcp_ref.client.session import ClientContext
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Context


log = logging.getLogger(__name__)

Handler = TypeVar("Handler", bound=Callable[[Any], None])

# -- types ------------------------------------------------------------------------------------------------------------


class Root(TypedDict):
    """A directory or file in which the server may work; `name` is for people."""

    uri: Annotated[str, Format("uri")]
    name: NotRequired[str]
    _meta: NotRequired[Meta]


class ListRootsResult(TypedDict):
    """The answer to `roots/list`. It stopped being a `Result` when it moved into `inputResponses`."""

    roots: list[Root]
    _meta: NotRequired[Annotated[JsonObject, Until("2025-11-25")]]


RootLike = str | os.PathLike[str] | Root
"""A path, a `file://` URI, or a whole `Root`."""

RootsSource = RootLike | Collection[RootLike] | Callable[..., RootLike | Iterable[RootLike]]
"""The roots that `Client(..., roots=...)` takes: one entry or several, or a function `() -> entries` or `(ctx) ->
entries`.
"""

METHODS = (
    Method("roots/list", "server", "client/roots", "ask which directories and files the user has opened to the server",
           RequestParams, ListRootsResult, until="2025-11-25", needs="client.roots"),
    Method("notifications/roots/list_changed", "client", "client/roots", "say that the list of roots has changed",
           NotificationParams, until="2025-11-25", needs="client.roots.listChanged"),
)  # fmt: skip


def _root_problem(uri: str) -> str | None:
    """Return what keeps a URI from being a root; both sides ask."""
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(uri)
    except ValueError:
        return f"a root must be a file:// URI, not {uri!r}"
    # MUST: a root is a `file://` URI (client/roots#root)
    if not uri.lower().startswith("file://"):
        return f"a root must be a file:// URI, not {uri!r}"
    if parts.netloc not in ("", "localhost"):
        return f"a root must be on this host, not {uri!r}"
    if not parts.path or parts.query or parts.fragment:
        return f"a root is a path and nothing else, not {uri!r}"
    path = unquote(parts.path)
    # MUST: validate root URIs to prevent path traversal (client/roots#security-considerations)
    climbs = ".." in re.split(r"[/\\]", path) or "\0" in path
    return f"a root must not climb with `..`, as {uri!r} does" if climbs else None


# -- the server's half ------------------------------------------------------------------------------------------------


def roots(self: Context, **options: Unpack[Options]) -> list[Root]:
    """Ask the client for its roots with `roots/list`.

    A root whose URI is not a path of this host under `file://`, or climbs with `..`, is left out and logged: no
    revision allows another scheme, and a server that took it for a boundary would be wrong.

    Returns: the roots as they came, each with `uri` and perhaps `name`; an empty list means that the user opened
        nothing.
    Raises:
        LocalProtocolError: the client did not declare `roots`.
        ErrorResponse: the client could not say (-32603).
    Blocks: until the client answers, bounded by `timeout`.
    Threads: the handler's own.
    Spec: client/roots#listing-roots
    """
    warn_deprecated("roots", self.revision)
    result = cast(ListRootsResult, self.request("roots/list", None, options))
    kept = [root for root in result["roots"] if _root_problem(root["uri"]) is None]
    if left_out := len(result["roots"]) - len(kept):
        log.warning("left out %d roots of the client that are not paths under file://", left_out)
    return kept


def root_path(root: Root) -> Path:
    """Return the path of a root, percent-decoded, not resolved and not checked to exist.

    Raises: ValueError: its URI is not `file://`, names another host, or climbs with `..`.
    Spec: client/roots#root
    """
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    if (problem := _root_problem(root["uri"])) is not None:
        raise ValueError(problem)
    path = unquote(urlsplit(root["uri"]).path)
    # On Windows file:///C:/x is the path C:/x.
    return Path(path[1:] if os.name == "nt" and re.match(r"/[A-Za-z]:", path) else path)


def is_within(path: str | os.PathLike[str], roots: Iterable[Root]) -> bool:
    """Return whether a path lies in one of the roots (or is one), after `..` and symbolic links are resolved on both
    sides.

    A relative path counts from the working directory. Open the resolved path soon after: a link may be changed
    in between.

    Args:
        path: what the server is about to touch; it need not exist.
        roots: as `roots()` returned them; those without a usable `file://` URI bound nothing.
    Spec: client/roots#security-considerations
    """
    from pathlib import Path

    try:
        resolved = Path(path).resolve()
        bounds = [root_path(root).resolve() for root in roots if _root_problem(root["uri"]) is None]
        # SHOULD: a server respects the boundaries of roots, and checks paths against them (`is_within`)
        # (client/roots#security-considerations)
        return any(resolved.is_relative_to(bound) for bound in bounds)
    except (ValueError, OSError, RuntimeError):
        # A NUL in the path, or links in a circle: nothing that could be opened.
        return False


def when_roots_changed(self: Server, handler: Handler) -> Handler:
    """Return a decorator: call `handler(ctx)` in a worker when a client says that its roots have changed."""
    self.on_roots_changed = handler
    return handler


# -- the client's half ------------------------------------------------------------------------------------------------


def roots_list(handler: RootsSource, ctx: ClientContext, params: JsonObject | None) -> ListRootsResult:
    """Answer `roots/list` from what the user gave as `Client(..., roots=...)`.

    A path becomes an absolute, resolved `file://` URI. A root that cannot be read now is sent all the same and
    logged, for the user named it.

    Args:
        handler: paths, `file://` URIs or `Root` dicts, several or one; or a function returning them, called for each
            request, as `function()` or `function(ctx)`.
    Raises: LocalProtocolError: an entry is not a `file://` URI; the dispatcher answers -32603 for this and for
        whatever the function raises.
    Blocks: as long as the user's function does.
    Spec: client/roots#listing-roots
    """
    answer = all_roots(call(handler, ctx) if callable(handler) else handler)
    for root in answer:
        # SHOULD: check that a root is accessible before exposing it (client/roots#implementation-guidelines)
        if not os.access(root_path(root), os.R_OK):
            log.warning("the root %s cannot be read", root["uri"])
    return {"roots": answer}


def all_roots(entries: Any) -> list[Root]:
    """Return the `Root` of each entry, or of the only one. Raises: as `as_root`."""
    several: Iterable[Any] = [entries] if isinstance(entries, str | os.PathLike | dict) else entries
    return [as_root(each) for each in several]


def as_root(entry: RootLike) -> Root:
    """Return the `Root` for a path, a `file://` URI or a `Root`; a path is made absolute and resolved.

    Raises: LocalProtocolError: a URI of another scheme or host, or one that climbs with `..`.
    Spec: client/roots#root
    """
    from pathlib import Path

    root: Any = dict(entry) if isinstance(entry, dict) else {"uri": os.fspath(entry)}
    uri = root.get("uri")
    # Two slashes tell a URI from a path of Windows, whose drive letter looks like a scheme.
    if not isinstance(entry, dict) and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|file:", uri):
        root["uri"] = uri = Path(uri).resolve().as_uri()
    problem = _root_problem(uri) if isinstance(uri, str) and is_uri(uri) else f"a root needs a URI, not {uri!r}"
    if problem is not None:
        raise LocalProtocolError(problem)
    return cast(Root, root)


def roots_changed(self: Client) -> None:
    """Tell the server with `notifications/roots/list_changed` that the roots have changed; it will ask if it cares.

    Raises: LocalProtocolError: this client did not declare `roots.listChanged`.
    Blocks: until it is written.
    Threads: any.
    Spec: client/roots#root-list-changes
    """
    # MUST: a client that declared `roots.listChanged` tells of changes of its roots (client/roots#root-list-changes)
    self.notify("notifications/roots/list_changed")
