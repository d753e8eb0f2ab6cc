"""Serving: what a server keeps open while it serves, and the ways over HTTP.

Spec:      basic/transports#streamable-http; 2026-07-28/basic/transports/streamable-http
Upholds:   spec_notes/basic/transports.md, the rows on binding to this machine
Not here:  `run`, and one conversation over a transport (roles/server/server); the endpoints and the listening socket
           (roles/server/hosting), which are loaded when somebody asks for them

These are methods of `Server`, bound in its class body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Unpack

from mcp_ref.machinery.running import Lifespan

if TYPE_CHECKING:
    from mcp_ref.roles.server.hosting import HttpOptions, HttpService
    from mcp_ref.roles.server.server import Server
    from mcp_ref.roles.server.wsgi import WsgiApplication


def lifespan(self: Server, function: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
    """Decorator: keep something open while the server serves, such as the connection to a database.

    >>> @server.lifespan
    ... def database():
    ...     with sqlite3.connect("trips.db") as connection:
    ...         yield connection

    The function starts before the first client is served, and goes on behind its `yield` when the last has gone,
    also by Ctrl-C or SIGTERM. What it yields is `ctx.lifespan` in each handler.
    """
    if self.sessions or self.services:
        raise RuntimeError("the server is already serving: register a lifespan before that")
    self.span = Lifespan(function)
    return function


def serve_http(self: Server, host: str = "127.0.0.1", port: int = 0, **options: Unpack[HttpOptions]) -> HttpService:
    """Serve over HTTP in threads of its own, and return at once; close what is returned to end it.

    >>> with server.serve_http() as http:
    ...     print(http.url)

    Args: `HttpOptions` lists them (roles/server/hosting); port 0 takes a free one. `mcp_ref` has what they are made of:
        `limits=HttpLimits(...)`; `authorization=Protection(...)` with `JwtVerifier`, `Introspection` and `Principal`;
        `authenticate=`, a function of an `HttpRequest`, which may raise `HttpRefusal`;
        `event_store=MemoryEventStore`, or an `EventStore` of yours.
    Returns: an `HttpService`. The trace is complete when the last one is closed.
    Raises: OSError: it cannot listen, or write its trace; ValueError: no revision of this server has a way over
        HTTP.
    """
    from mcp_ref.roles.server.hosting import serve

    return serve(self, host, port, options)


def wsgi(self: Server, **options: Unpack[HttpOptions]) -> WsgiApplication:
    """A WSGI application (PEP 3333) that serves both eras: for waitress, gunicorn, or mounted in another one.

    >>> application = server.wsgi(hosts=["mcp.example.com"], origins=["https://mcp.example.com"])

    It serves from its first request on, in the process that gets it; so it may be made before a fork. Each request
    and each stream that a client keeps open takes a thread of the WSGI server's for as long as it lasts.

    Args: see `HttpOptions`; of `limits` only `max_message` has an effect here, and `write` if the WSGI server gives
        access to its sockets.
    """
    from mcp_ref.roles.server.wsgi import WsgiApplication

    return WsgiApplication(self, options)
