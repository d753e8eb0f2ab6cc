"""A server as a WSGI application (PEP 3333): under waitress or gunicorn, or mounted in another application.

Spec:      basic/transports#streamable-http; 2026-07-28/basic/transports/streamable-http
Upholds:   spec_notes/scaling.md
Not here:  the endpoints; what WSGI says and what it leaves out (machinery/wsgi)
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.wsgi import Environ, StartResponse, WsgiFront
from mcp_ref.roles.server.hosting import Endpoints, HttpOptions, begin_service, service_ended

if TYPE_CHECKING:
    from mcp_ref.roles.server.server import Server

log = logging.getLogger(__name__)


class WsgiApplication:
    """What `Server.wsgi` returns: an application that a WSGI server calls, once for each request.

    Attributes:
        protection: what guards it, or None.

    Threads: any.
    """

    def __init__(self, server: Server, options: HttpOptions) -> None:
        self._server = server
        self._endpoints = endpoints = Endpoints(server, "localhost", options)
        self.protection = endpoints.protection
        if self.protection is not None:
            if self.protection.resource is None:
                raise ValueError("a WSGI application does not know the URL that clients use: give resource=")
            where = urlsplit(self.protection.resource)
            endpoints.open(f"{where.scheme}://{where.netloc}")
        self._front = WsgiFront(endpoints.routes, endpoints.limits)
        self._starting = threading.Lock()  # guards _process
        self._process: int | None = None  # in which it serves
        self._closed = False

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request, in the thread that calls. Blocks: as long as the handler, or the stream, lasts."""
        if self._process != os.getpid():
            self._serve(environ)
        return self._front(environ, start_response)

    def _serve(self, environ: Environ) -> None:
        """Begin to serve, in this process, unless another thread has."""
        with self._starting:
            if self._process != os.getpid():
                begin_service(self._server, lambda: self)
                self._server.one_of_many = bool(environ.get("wsgi.multiprocess"))
                if self._server.one_of_many and self._endpoints.has_sessions:
                    log.warning("several processes serve, and a session lives in one: give sessions=False, or pin them")
                self._process = os.getpid()
                atexit.register(self.close, 1.0)

    def close(self, timeout: float = 5) -> list[str]:
        """End every session, stream and subscription of this process. The threads are the WSGI server's: none is left.

        Idempotent; any thread. It is called when the process ends, if not before.
        """
        with self._starting:
            if self._process != os.getpid() or self._closed:
                return []
            self._closed = True
        atexit.unregister(self.close)
        deadline = Deadline(timeout)
        self._endpoints.close(deadline.left() or 0.0)
        service_ended(self._server, self, deadline.left() or 0.0)
        return []
