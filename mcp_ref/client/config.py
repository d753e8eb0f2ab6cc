"""Targets: the transport for whatever a client is pointed at.

Spec:      basic/transports
Upholds:   spec_notes/basic/transports.md, on backwards compatibility and custom transports
Not here:  the transports
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mcp_ref.basic.transports.transport import Tap, Transport
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.revisions import Revision

if TYPE_CHECKING:
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Session


class Command(NamedTuple):
    """A server to start as a child process.

    Attributes:
        argv: the program and its arguments.
        env: variables to add to, change in or (None) take out of the environment.
        cwd: its working directory.
        stderr: what becomes of its standard error: "capture" (logged), "inherit", "ignore", or a function of a line.
        grace: seconds that closing waits after each step of the shutdown.

    Spec: basic/transports#stdio
    """

    argv: Sequence[str]
    env: Mapping[str, str | None] | None = None
    cwd: str | os.PathLike[str] | None = None
    stderr: Literal["capture", "inherit", "ignore"] | Callable[[str], None] = "capture"
    grace: float = 2.0


class Url(NamedTuple):
    """A server on HTTP.

    Attributes:
        url: of the MCP endpoint, or of the event stream of an older server.
        headers: more headers of every request.
        options: more arguments of `HttpClientTransport`, such as `verify`, `cert`, `proxies`, `trust_env`.

    Spec: basic/transports#streamable-http
    """

    url: str
    headers: Mapping[str, str] | None = None
    options: Mapping[str, Any] = MappingProxyType({})


class Route(NamedTuple):
    """One way to a target.

    Attributes:
        make: makes the transport.
        revisions: those that go this way, oldest first; all of one era.
        falls_back: whether an HTTP status means: try the next way.
        by_status: whether the transport tells by a status what it cannot do: HTTP.
        once: whether `make` gives the same one again, which was given and cannot be made anew.
    """

    make: Callable[[], Transport]
    revisions: tuple[Revision, ...]
    falls_back: Callable[[int], bool] = lambda status: False
    by_status: bool = False
    once: bool = False

    @property
    def era(self) -> str:
        """The era of its revisions."""
        return self.revisions[0].era


def routes(target: Any, revisions: tuple[Revision, ...], tap: Callable[[str], Tap | None]) -> list[Route]:
    """The ways to a target, the first to be tried first.

    Args:
        revisions: those that the client speaks, oldest first.
        tap: gives what a transport of that name shows its traffic to.

    Raises: TypeError naming what can be a target; ValueError for a URL that is none, or has no way in these revisions.
    """
    from mcp_ref.server.server import Server

    if isinstance(target, Server):
        return _both(lambda: _memory(target, tap("memory")), revisions)
    if isinstance(target, Command | list | tuple) and not isinstance(target, Url):
        command = target if isinstance(target, Command) else Command(target)
        return _both(lambda: _stdio(command, tap("stdio")), revisions)
    if isinstance(target, str | Url):
        return _http(Url(target) if isinstance(target, str) else target, revisions, tap)
    if all(callable(getattr(target, name, None)) for name in ("start", "send", "exchange", "close")):
        return _both(lambda: target, revisions, once=True)
    raise TypeError(
        f"a client's target is a command (a list of strings), a URL, a Server or a transport, not {target!r}"
    )


def _both(make: Callable[[], Transport], revisions: tuple[Revision, ...], *, once: bool = False) -> list[Route]:
    """The same way for both eras, the newer first."""
    eras = ("stateless", "session")
    ways = (tuple(revision for revision in revisions if revision.era == era) for era in eras)
    return [Route(make, way, once=once) for way in ways if way]


def can_be_made_anew(target: Any) -> bool:
    """Whether there can be another connection to a target: a transport that was given is one connection."""
    return not callable(getattr(target, "exchange", None))


def server_key(target: Any, *, whole: bool = False) -> Hashable | None:
    """What tells a server from others: how it is started, or the URL; None where nothing does.

    Args:
        whole: also the environment and the query, which may decide what it answers, and hardly its era.
    """
    if isinstance(target, Command | list | tuple) and not isinstance(target, Url):
        command = target if isinstance(target, Command) else Command(target)
        environment = tuple(sorted((command.env or {}).items(), key=str)) if whole else ()
        return ("stdio", tuple(map(str, command.argv)), str(command.cwd), environment)
    if isinstance(target, str | Url):
        from urllib.parse import urlsplit

        parts = urlsplit(target if isinstance(target, str) else target.url)
        return ("http", parts.scheme.lower(), parts.netloc.lower(), parts.path, parts.query if whole else "")
    return None


_FALLS_BACK: Mapping[str, Callable[[int], bool]] = MappingProxyType(
    {
        "none": lambda status: False,
        "any 4xx": lambda status: 400 <= status < 500,
        "400, 404, 405": lambda status: status in (400, 404, 405),
        "400, 404, 405 without a modern error": lambda status: status in (400, 404, 405),
    }
)


def _http(url: Url, revisions: tuple[Revision, ...], tap: Callable[[str], Tap | None]) -> list[Route]:
    """Streamable HTTP, in its stateless shape and then with sessions, and then the event stream of 2024-11-05."""
    if not url.url.lower().startswith(("http://", "https://")):
        raise ValueError(f"a URL begins with http:// or https://, not {url.url!r}; a command is a list of strings")
    ways = []
    if stateless := tuple(revision for revision in revisions if revision.http == "stateless"):
        ways.append(Route(lambda: _streamable(url, tap("http")), stateless, by_status=True))
    if streamable := tuple(revision for revision in revisions if revision.http == "streamable"):
        falls_back = _FALLS_BACK[streamable[-1].sse_fallback]
        ways.append(Route(lambda: _streamable(url, tap("http")), streamable, falls_back, by_status=True))
    if oldest := tuple(revision for revision in revisions if revision.http == "sse"):
        ways.append(Route(lambda: _sse(url, tap("http+sse")), oldest, by_status=True))
    return ways


def _streamable(url: Url, tap: Tap | None) -> Transport:
    from mcp_ref.basic.transports.streamable_http.client import HttpClientTransport

    return HttpClientTransport(url.url, headers=url.headers, tap=tap, **url.options)


def _sse(url: Url, tap: Tap | None) -> Transport:
    from mcp_ref.basic.transports.http_sse import SseClientTransport

    return SseClientTransport(url.url, headers=url.headers, tap=tap, **url.options)


class _InProcess:
    """The transport to a server in this process; closing it ends the server's half of the conversation too."""

    name = "memory"

    def __init__(self, ours: Transport, session: Session) -> None:
        self._ours, self._session = ours, session
        self.start, self.send, self.exchange = ours.start, ours.send, ours.exchange

    def close(self, deadline: Deadline) -> None:
        """Close our side, which the session notices, and then wait for its handlers."""
        self._ours.close(deadline)
        self._session.close(deadline.left() or 0)


def _memory(server: Server, tap: Tap | None) -> Transport:
    from mcp_ref.basic.transports.memory import pair

    ours, theirs = pair(tap=tap)
    return _InProcess(ours, server.connect(theirs))


def _stdio(command: Command, tap: Tap | None) -> Transport:
    from mcp_ref.basic.transports.stdio import StdioClientTransport

    return StdioClientTransport(
        command.argv, env=command.env, cwd=command.cwd, stderr=command.stderr, grace=command.grace, tap=tap
    )
