"""The listener for a browser that comes back: one page on 127.0.0.1, read once (RFC 8252).

Contract: `Loopback(port)` listens at once. `wait` gives the query of the first GET of the path that its `accept` wants;
one that comes before `wait` is called is held until then. Everything else is answered and forgotten: another path,
another method, another `Host` (DNS rebinding), a query that is not wanted. A connection that says nothing is closed
after 5 seconds, and others are served meanwhile. The page shown is always the same: nothing that came with the request
is in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from mcp_ref.errors import RequestTimeout
from mcp_ref.kit.http.http_call import HttpCall
from mcp_ref.kit.http.http_exchange import HttpLimits, HttpReply, HttpRequest
from mcp_ref.kit.http.http_server import HttpServer

_HEAD_TIMEOUT: Final = 5.0  # seconds

_PAGES: Final = {
    200: "You can close this window and go back to the program.",
    400: "This is not the answer that the program waits for.",
    405: "There is nothing here.",
}
_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Connection": "close",
}


class Loopback:
    """A listener on this machine, with the threads of an `HttpServer`.

    Args:
        port: 0 for a free one.
        path: of the page. host: what stands before the port in the URL that the browser is given.

    Raises: OSError: the port is taken.
    Threads: one.
    """

    def __init__(self, port: int, path: str, host: str = "127.0.0.1") -> None:
        self._expected = threading.Event()  # set while the two below are what is waited for
        self._accept: Callable[[str], bool] = lambda query: False
        self._call: HttpCall | None = None
        self._query: str | None = None
        limits = HttpLimits(read=_HEAD_TIMEOUT, write=_HEAD_TIMEOUT)
        address = "::1" if host == "[::1]" else "127.0.0.1"
        self._server = HttpServer({path or "/": self._answer}, address, port, limits)
        self.port = self._server.address[1]
        self._host = host.lower()

    def wait(self, call: HttpCall, timeout: float, accept: Callable[[str], bool]) -> str:
        """Return the query with which the browser came back.

        Args:
            call: whatever cuts it ends the wait.
            accept: whether a query is the one that is waited for; called by the server's threads.

        Raises: RequestTimeout; and whatever cut the call.
        """
        if self._call is None:
            # Only now: whoever waits has this listener, and closes it. Connections of before have waited as well.
            self._server.start()
        self._query, self._accept, self._call = None, accept, call
        self._expected.set()
        try:
            call.sleep(timeout)
        finally:
            self._expected.clear()
        if self._query is None:
            raise RequestTimeout(f"nobody came back within {timeout:g} s")
        return self._query

    def _answer(self, request: HttpRequest, reply: HttpReply) -> None:
        if request.headers.get("host", "").lower() != f"{self._host}:{self.port}":
            status = 400
        elif request.method != "GET":
            status = 405
        else:
            status = 200 if self._expected.wait(_HEAD_TIMEOUT) and self._accept(request.query) else 400
        page = f"<!doctype html><title>{HTTPStatus(status).phrase}</title><p>{_PAGES[status]}</p>".encode()
        try:
            reply.send(status, _HEADERS, page)
        finally:
            if status == 200 and self._call is not None:
                # After the page: whoever is woken closes the connection that it goes over.
                self._query = request.query
                self._call.wake()

    def close(self) -> None:
        """Give the port up, and end the threads: none waits for longer than this."""
        self._accept = lambda query: False
        self._expected.set()
        self._server.close(_HEAD_TIMEOUT)
