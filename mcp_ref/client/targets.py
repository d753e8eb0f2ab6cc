"""Targets: what a client can be pointed at, and the ways to a URL.

Spec:      basic/transports
Upholds:   spec_notes/basic/transports.md, on backwards compatibility and custom transports
Not here:  files that name servers (client/entries); the transports; what only connects to one of
           them (client/session)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from mcp_ref.kit.threads.arguments import check_kind
from mcp_ref.revisions import Revision
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.transport import MAX_MESSAGE, Transport

if TYPE_CHECKING:
    import requests

    from mcp_ref.kit.threads.deadline import Deadline
    from mcp_ref.recording.record import Tap
    from mcp_ref.wire.transport import Connects


class Command(NamedTuple):
    """A server to start as a child process.

    Attributes:
        argv: the program and its arguments.
        env: variables to add to, change in or (None) take out of its environment.
        inherit: what else it gets of ours. False: HOME, LOGNAME, PATH, SHELL, TERM, USER, LANG, LC_*, TZ and TMPDIR
            alone, or what Windows has for these, since the rest may hold secrets that are not the server's business;
            names: those as well; True: everything.
        cwd: its working directory; None: ours.
        stderr: what becomes of its standard error. "capture": each line is logged at level INFO, and so is
            not seen unless logging is set up for that; "inherit": it goes where ours goes; "ignore": nowhere; a
            function: it is called with each line, in a thread of its own.
            Captured or given to a function, the last 20 lines are quoted when the server ends by itself.
        grace: seconds that closing waits after closing its input, and again after SIGTERM, if there is time.
        max_message: bytes that a message of the server may have; a longer one ends the connection.

    Spec: basic/transports#stdio
    """

    argv: Sequence[str]
    env: Mapping[str, str | None] | None = None
    cwd: str | os.PathLike[str] | None = None
    stderr: Literal["capture", "inherit", "ignore"] | Callable[[str], None] = "capture"
    grace: float = 2.0
    inherit: bool | Sequence[str] = False
    max_message: int = MAX_MESSAGE

    def __repr__(self) -> str:
        return f"<Command {shown_target(self)}>"


class Url(NamedTuple):
    """A server on HTTP.

    Attributes:
        url: of the MCP endpoint, or of the event stream of an older server.
        headers: more headers of every request.
        options: more arguments of `HttpClientTransport`, such as `max_message`, `verify`, `cert`, `proxies`,
            `trust_env`, `session`.

    Spec: basic/transports#streamable-http
    """

    url: str
    headers: Mapping[str, str] | None = None
    options: Mapping[str, Any] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"<Url {shown_target(self)}>"


class Route(NamedTuple):
    """One way to a target.

    Attributes:
        make: makes the transport.
        revisions: those that go this way, oldest first; all of one era.
    """

    make: Callable[[], Transport]
    revisions: tuple[Revision, ...]

    def falls_back(self, status: int) -> bool:
        """Return whether an HTTP status in answer to `initialize` means: try the older transport."""
        # SHOULD: fall back to HTTP+SSE on 400, 404 or 405; up to 2025-06-18 on any 4xx
        # (basic/transports#backwards-compatibility)
        any_4xx = self.revisions[-1].sse_fallback == "any 4xx"
        return 400 <= status < 500 if any_4xx else status in (400, 404, 405)


Target: TypeAlias = "Sequence[str] | str | Command | Url | Connects | Transport"
"""A command or a URL, plain or with more about it; a server in this process; a transport."""


def shown_target(target: Any) -> str:
    """Return a target in a few words, without what may be secret: environment, headers, the query of a URL."""
    if isinstance(target, Command):
        text = " ".join(map(str, target.argv))
        return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
    return target.url.partition("?")[0] if isinstance(target, Url) else repr(target)


MAX_SHOWN: Final = 80


def authorized(target: Any, auth: Any, revisions: tuple[Revision, ...]) -> tuple[Url, dict[str, dict[str, Any]]]:
    """Return the URL of a server with what authorizes the requests to it, and the extensions that are used for that.

    Raises: ValueError: it is not a URL. TypeError, AuthorizationError: see `bind`.
    """
    from mcp_ref.pages.basic.authorization.client import bind

    # An implementation SHOULD NOT follow the pages of authorization over stdio; credentials come from the environment
    # there (basic/authorization#protocol-requirements)
    if not isinstance(target, Url):
        raise ValueError("auth= is for servers at a URL; others take credentials from their environment")
    authorizer = bind(auth, target.url, revisions)
    using: dict[str, dict[str, Any]] = {authorizer.extension: {}} if authorizer.extension else {}
    return target._replace(options={**target.options, "auth": authorizer}), using


def owner_of(target: Any) -> Callable[[], str | None] | None:
    """Return what names the login by which a client of that target is authorized at the moment; None: nothing does."""
    authorizer = target.options.get("auth") if isinstance(target, Url) else None
    return None if authorizer is None else lambda: authorizer.owner


def known_url(url: Any, session: requests.Session | None) -> Url:
    """Return a URL as a `Url`, checked, with the session to send by. Raises: ValueError, TypeError: it cannot be
    one.
    """
    if not isinstance(url, str | Url):
        raise ValueError("a requests.Session can only be used with a URL")
    known = Url(url) if isinstance(url, str) else url
    check_url(known.url)
    check_kind("a dict", headers=known.headers, options=known.options)
    check_kind("a dict", proxies=known.options.get("proxies"))
    return known if session is None else known._replace(options={**known.options, "session": session})


def not_a_target(target: Any) -> TypeError:
    """Return the error that says what a client's target is."""
    # What serve_http() returned, for one.
    hint = f"; its URL is {target.url}" if isinstance(getattr(target, "url", None), str) else ""
    return TypeError(
        f"a client's target must be a command (a list of strings), a URL, a Server or a transport, not {target!r}{hint}"
    )


def check_url(url: Any) -> None:
    """Raise ValueError, or TypeError for what is not text, unless it can be the URL of a server."""
    if not isinstance(url, str):
        raise TypeError(f"a URL must be a string, not {url!r}")
    if url.lower().startswith(("http://", "https://")):
        return
    if re.match(r"[\w.-]+(:\d+)?/|[\w.-]+:\d+$|localhost\b", url) and "\\" not in url and " " not in url:
        instead = f"; write {f'http://{url}'!r}"
    else:
        words = url.split()
        if len(words) == 1 and url.endswith(".py"):
            words = ["python", url]
        instead = f"; a command is a list of strings, {words!r}" if words else ""
    raise ValueError(f"a URL must begin with http:// or https://, not {url!r}{instead}")


def http_routes(
    url: Url, revisions: tuple[Revision, ...], tap: Callable[[str], Tap | None], deadline: Deadline
) -> list[Route]:
    """Return the routes: streamable HTTP, in its stateless shape and then with sessions, and then the event stream of
    2024-11-05.

    Args:
        revisions: those that the client speaks, oldest first.
        tap: gives the tap of a trace for the name of a transport.
        deadline: of the opening, which for the event stream is longer than a request.
    """

    def streamable() -> Transport:
        from mcp_ref.pages.basic.transports.streamable_http.client import HttpClientTransport

        return HttpClientTransport(url.url, headers=url.headers, tap=tap("http"), **url.options)

    def sse() -> Transport:
        from mcp_ref.pages.basic.transports.http_sse import SseClientTransport

        opening = deadline.left()
        return SseClientTransport(url.url, headers=url.headers, tap=tap("http+sse"), opening=opening, **url.options)

    shapes = {"stateless": streamable, "streamable": streamable, "sse": sse}
    ways = ((make, tuple(row for row in revisions if row.http == shape)) for shape, make in shapes.items())
    return [Route(make, rows) for make, rows in ways if rows]


def merged(first: JsonObject, second: JsonObject) -> JsonObject:
    """Return two sets of capabilities as one: objects that both have are merged, else the second counts."""
    both = dict(first)
    for key, value in second.items():
        mine = both.get(key)
        both[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both
