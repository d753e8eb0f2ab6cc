"""Hosting: a server on HTTP, from its endpoints to its listening socket. (Under another's server: server/wsgi.)

Spec:      basic/transports#streamable-http, #backwards-compatibility; basic/versioning (2026-07-28)
Upholds:   spec_notes/basic/transports.md, the rows on hosting both transports and on binding to this machine
Not here:  the endpoints; what a server answers

Which revision may travel on which transport is `Revision.http`: the event stream of 2024-11-05 carries that revision
alone, and Streamable HTTP those that describe it. A client that opens with another one is answered with one of these.
The stateless era shares the URL of Streamable HTTP.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, TypeVar, cast

from mcp_ref.kit.http.http_exchange import Endpoint, HttpLimits, HttpRequest
from mcp_ref.kit.http.http_server import HttpServer
from mcp_ref.kit.process.running import end_by_sigterm, tell
from mcp_ref.kit.threads.arguments import check_kind, check_limits
from mcp_ref.kit.threads.deadline import Deadline, check_seconds
from mcp_ref.pages.basic.transports.http_sse import SseEndpoint
from mcp_ref.pages.basic.transports.streamable_http.headers import LOOPBACK
from mcp_ref.pages.basic.transports.streamable_http.server import EndpointOptions, StreamableEndpoint
from mcp_ref.pages.basic.transports.streamable_http.streams import EventStore

if TYPE_CHECKING:
    from mcp_ref.pages.basic.authorization.resource_server import Door, Protection
    from mcp_ref.server.server import Server
    from mcp_ref.server.wsgi import WsgiApplication


log = logging.getLogger(__name__)


class HttpOptions(TypedDict, total=False):
    """The options for serving over HTTP.

    path: of the MCP endpoint; "/mcp" by default.
    sse_path: of the event stream for clients of 2024-11-05, such as "/sse"; left out: they are not served.
    messages_path: where those clients POST; "/messages" by default.
    health: a path such as "/health" that answers anybody 200, and 503 while the server drains; left out: none.
    max_message: bytes that a message to the server may have; 4 MiB by default.
    limits: see `HttpLimits`.
    authorization: who has a token for this server is let in; instead of `authenticate`.
    The others are those of `EndpointOptions`.
    """

    path: str
    sse_path: str | None
    messages_path: str
    health: str | None
    max_message: int
    limits: HttpLimits
    hosts: Collection[str] | None
    origins: Collection[str] | None
    authenticate: Callable[[HttpRequest], Any]
    authorization: Protection
    sessions: bool
    session_prefix: str
    idle: float | None
    max_sessions: int
    max_sessions_per_client: int
    max_streams_per_session: int
    max_subscriptions: int
    max_subscriptions_per_client: int
    keep_alive: float
    event_store: Callable[[], EventStore]


class RunOptions(HttpOptions, total=False):
    """The same, and where to listen.

    drain: seconds for which the calls that run may still end after Ctrl-C or SIGTERM; left out: none.
    """

    host: str
    port: int
    drain: float | None


_PATHS: Final = ("path", "sse_path", "messages_path", "health")
_KINDS: Final = {
    "a list of strings": ("hosts", "origins"),
    "a whole number of at least 0": tuple(name for name in HttpOptions.__annotations__ if name.startswith("max_s")),
    "a whole number of at least 1": ("max_message",),
}


class Endpoints:
    """The endpoints of a server on HTTP, by path, and who guards them, whatever front serves them.

    Attributes:
        routes: the endpoints by path.
        path, sse_path: of the MCP endpoint, and of the event stream for clients of 2024-11-05 or None.
        limits: on connections, bodies and waiting.
        protection: what guards them, or None.
        has_sessions: whether some clients open sessions, which live in this process.

    Args:
        host: under which clients on this machine know the server, beside the names that every one has.
    """

    def __init__(self, server: Server, host: str, options: HttpOptions) -> None:
        # 1. The values of options that cannot be meant.
        for kind, kinds in _KINDS.items():
            check_kind(kind, **{name: options.get(name) for name in kinds})
        for name in ("idle", "keep_alive"):
            check_seconds(name, options.get(name))
        paths = {"path": "/mcp"} | {name: each for name in _PATHS if (each := options.get(name)) is not None}
        for name, each in paths.items():
            if not isinstance(each, str) or not re.fullmatch(r"/[^\s?#]*", each):
                raise ValueError(f'{name} must begin with a slash, such as "/mcp", and have no query, not {each!r}')
        if len(set(paths.values())) < len(paths):
            raise ValueError(f"{', '.join(paths)} must be different paths")
        # 2. The endpoints.
        self.path, self.sse_path = path, sse_path = options.pop("path", "/mcp"), options.pop("sse_path", None)
        messages_path, limits = options.pop("messages_path", "/messages"), options.pop("limits", HttpLimits())
        self._draining, health = False, options.pop("health", None)
        self.limits = replace(limits, max_message=options.pop("max_message", limits.max_message))
        self.protection = protection = options.pop("authorization", None)
        # Who listens on another address than this machine's is reached under that name too.
        names = LOOPBACK | {f"[{host}]" if ":" in host else host.lower()}
        if protection is not None:
            if "authenticate" in options:
                raise ValueError("give authorization= or authenticate=, not both: each says who the client is")
            names |= protection.hosts(host)
        else:
            for key, entry in (pair for registry in server.registries.values() for pair in registry.items()):
                if getattr(entry, "scopes", ()):
                    raise ValueError(f"{key} has scopes, which nobody checks without authorization=")
        if unknown := options.keys() - EndpointOptions.__dataclass_fields__:
            names_of_all = ", ".join(sorted(RunOptions.__annotations__))
            raise TypeError(f"no option {', '.join(sorted(unknown))} over HTTP; there are {names_of_all}")
        chosen = EndpointOptions(**{"hosts": names, "origins": names, **options})  # type: ignore[arg-type]
        self._endpoints: list[StreamableEndpoint | SseEndpoint] = []
        self._doors: list[Door] = []
        self.routes: dict[str, Endpoint] = {}

        def options_at(endpoint_path: str) -> EndpointOptions:
            """Return what is chosen for an endpoint, and who is let in there."""
            if protection is None:
                return chosen
            door = protection.door(server, endpoint_path, path)
            self._doors.append(door)
            self.routes.update(door.routes)
            return replace(chosen, authenticate=door.authenticate, authorize=door.authorize)

        streamable = StreamableEndpoint(server, options_at(path), partial(server.tap, "http"))
        if streamable.sessions.revisions or streamable.stateless.revisions:
            self._endpoints.append(streamable)
            self.routes[path] = streamable
        if sse_path is not None:
            sse = SseEndpoint(server, messages_path, options_at(sse_path), partial(server.tap, "http+sse"))
            if sse.revisions:
                self._endpoints.append(sse)
                self.routes |= {sse_path: sse.listen, messages_path: sse.post}
        if health is not None:
            self.routes[health] = lambda request, reply: reply.send(503 if self._draining else 200, {})
        self.has_sessions = chosen.sessions and bool(streamable.sessions.revisions)
        if not self._endpoints:
            raise ValueError("no revision of this server can be served with these options; 2024-11-05 needs sse_path=")

    def open(self, base: str) -> None:
        """Learn where the endpoints are reached: the URL before their paths."""
        for door in self._doors:
            door.open(base)

    def drain(self, timeout: float) -> None:
        """Refuse new calls, and wait for those that run, at most `timeout` seconds."""
        deadline, self._draining = Deadline(timeout), True
        for endpoint in self._endpoints:
            endpoint.drain(deadline.left() or 0.0)

    def close(self, timeout: float) -> None:
        """End every session and subscription; at most `timeout` seconds in all."""
        deadline = Deadline(timeout)
        for endpoint in self._endpoints:
            endpoint.close((deadline.left() or 0.0) / 2)


Service = TypeVar("Service", "HttpService", "WsgiApplication")


def begin_service(server: Server, make: Callable[[], Service]) -> Service:
    """Serve over HTTP from here on, with what `make` gives; `service_ended` is its end."""
    server.take_over()
    if server.span is not None:
        server.span.enter()
    try:
        server.open_recorder()
        service = make()
        with server.lock:
            server.services = (*server.services, service)
    except BaseException:
        if server.span is not None:
            server.span.leave()
        service_ended(server, None, 0)
        raise
    if server.tasks is not None:
        server.tasks.tasks.wake()
    return service


def service_ended(server: Server, service: HttpService | WsgiApplication | None, left: float) -> None:
    """Forget a service that was closed; `left` is the seconds that are left for the trace."""
    with server.lock:
        known, server.services = server.services, tuple(each for each in server.services if each is not service)
    if server.span is not None and service in known:
        server.span.leave()
    if not server.services:
        server.close_recorder(left)


def serve(server: Server, host: str, port: int, options: HttpOptions) -> HttpService:
    """See `Server.serve_http`."""
    service = begin_service(server, lambda: HttpService(server, host, port, options))
    try:
        # Only now: the server knows it, and its `close` would end it.
        service.start()
    except BaseException:
        service.close(1.0)
        raise
    return service


def run(server: Server, options: RunOptions) -> list[str]:
    """See `Server.run`; returns the threads that a handler still holds."""
    host, port = options.pop("host", "127.0.0.1"), options.pop("port", 8000)
    check_limits(drain=(drain := options.pop("drain", None)))
    with end_by_sigterm() as interrupted:
        service = serve(server, host, port, cast(HttpOptions, options))
        urls = "".join(f"listening on {url}\n" for url in (service.url, service.sse_url) if url is not None)

        def wait(seconds: float) -> bool:
            nonlocal urls
            if urls:  # here, since Ctrl-C may come while it is printed
                tell(f"{urls}Ctrl-C ends it")
                urls = ""
            return service.wait(seconds)

        try:
            interrupted(wait)
            # A second Ctrl-C cuts it short.
            with suppress(KeyboardInterrupt):
                service.drain(drain or 0.0)
        finally:
            stuck = service.close(0.6)
    return stuck


class HttpService:
    """A server that listens.

    Attributes:
        protection: what guards it, or None.
        url: of the MCP endpoint. sse_url: of the event stream for clients of 2024-11-05, or None.

    Threads: any; see `HttpServer` for those that it has.
    """

    def __init__(self, server: Server, host: str, port: int, options: HttpOptions) -> None:
        self._server = server
        self._endpoints = endpoints = Endpoints(server, host, options)
        self.protection = endpoints.protection
        self._http = HttpServer(endpoints.routes, host, port, endpoints.limits)
        self._ended = threading.Event()
        bound, port = self._http.address
        if bound != "::1" and not bound.startswith("127."):
            # SHOULD: bind a local server to this machine only, 127.0.0.1, and not to 0.0.0.0
            # (basic/transports#security-warning)
            log.warning("listening on %s: everybody who can reach this machine can reach the server", bound)
        base = f"http://[{bound}]:{port}" if ":" in bound else f"http://{bound}:{port}"
        endpoints.open(base)
        self.sse_url = None if endpoints.sse_path is None else base + endpoints.sse_path
        self.url = base + endpoints.path if endpoints.path in endpoints.routes else str(self.sse_url)

    def start(self) -> None:
        """Begin to serve; once."""
        self._http.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until `close()` was called, at most `timeout` seconds. Returns True if it was."""
        return self._ended.wait(timeout)

    def drain(self, timeout: float) -> None:
        """Refuse new calls with 503, and wait for those that run, at most `timeout` seconds; `close` is still to come.

        What answers the questions of these calls is let in. Subscriptions and streams are not waited for.
        """
        self._endpoints.drain(timeout)

    def close(self, timeout: float = 5) -> list[str]:
        """End every session, every connection, and the listening; returns the threads that a handler still holds.

        Idempotent; any thread may call it. Sessions first: that cancels handlers and ends streams, which frees the
        threads that carry them; the rest find their sockets shut down.
        """
        if self._server.process != os.getpid():
            # Forked from the one that listens: to shut a connection down would do so for both.
            return []
        deadline = Deadline(timeout)
        self._endpoints.close(deadline.left() or 0.0)
        stuck = self._http.close(deadline.left() or 0.0)
        self._ended.set()
        service_ended(self._server, self, deadline.left() or 0.0)
        return stuck

    def __repr__(self) -> str:
        return f"<HttpService at {self.url}{', closed' if self._ended.is_set() else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
