"""The listener for a browser that comes back: one page on 127.0.0.1, read once (RFC 8252).

Contract: `Loopback(port)` listens at once. `wait` gives the query of the first GET of the path that its `accept` wants.
Everything else is answered and forgotten: another path, another method, another `Host` (DNS rebinding), a query that is
not wanted. A connection that says nothing is closed after 5 seconds, and others are served meanwhile. The page shown is
always the same: nothing that came with the request is in it.
"""

from __future__ import annotations

import io
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from mcp_ref.errors import RequestTimeout
from mcp_ref.machinery.http_call import HttpCall
from mcp_ref.machinery.http_exchange import HttpRefusal
from mcp_ref.machinery.http_server import read_head, write_head

_MAX_HEAD: Final = 16_384  # bytes
_HEAD_TIMEOUT: Final = 5.0  # seconds
_MAX_CONNECTIONS: Final = 32
_LOOK_INTERVAL: Final = 0.5  # seconds: not every system wakes who waits for a listening socket that is shut down

_PAGES: Final = {
    200: "You can close this window and go back to the program.",
    400: "This is not the answer that the program waits for.",
    404: "There is nothing here.",
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
    """A listener on 127.0.0.1.

    Args:
        port: 0 for a free one.
        path: of the page. host: what stands before the port in the URL that the browser is given.

    Raises: OSError: the port is taken.
    Threads: one.
    """

    def __init__(self, port: int, path: str, host: str = "127.0.0.1") -> None:
        address = "::1" if host == "[::1]" else "127.0.0.1"
        family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._path, self._host = path or "/", f"{host}:{self.port}"
        self._heads: dict[socket.socket, tuple[bytes, float]] = {}  # what has come of a request, and when it began
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)

    def wait(self, call: HttpCall, timeout: float, accept: Callable[[str], bool]) -> str:
        """The query with which the browser came back.

        Args:
            call: whatever cuts it ends the wait.
            accept: whether a query is the one that is waited for.

        Raises: RequestTimeout; and whatever cut the call.
        """
        until = time.monotonic() + timeout
        try:
            call.hold(self._listener)
            while (now := time.monotonic()) < until:
                if call.reason is not None:
                    raise call.reason
                if (query := self._serve_all(min(_LOOK_INTERVAL, until - now), accept)) is not None:
                    return query
            raise RequestTimeout(f"nobody came back within {timeout:g} s")
        finally:
            for conn in list(self._heads):
                self._drop(conn)
            call.hang_up()

    def close(self) -> None:
        """Give the port up."""
        self._selector.close()
        self._listener.close()

    def _serve_all(self, seconds: float, accept: Callable[[str], bool]) -> str | None:
        """Serve whatever connects or speaks within that time; the query that is waited for, if it has come."""
        late = time.monotonic() - _HEAD_TIMEOUT
        for conn in [conn for conn, (_, began) in self._heads.items() if began < late]:
            self._drop(conn)
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listener:
                self._admit()
            elif (query := self._serve(key.fileobj, accept)) is not None:
                return query
        return None

    def _read(self, data: bytes) -> tuple[int, str]:
        """The status to answer with, and the query."""
        try:
            head = read_head(io.BytesIO(data).readline)
        except HttpRefusal:
            head = None
        if head is None or head.headers.get("host", "").lower() != self._host.lower():
            return 400, ""
        path, _, query = head.target.partition("?")
        if path != self._path:
            return 404, ""
        return (200, query) if head.method == "GET" else (405, "")

    def _answer(self, conn: socket.socket, status: int) -> None:
        page = f"<!doctype html><title>{HTTPStatus(status).phrase}</title><p>{_PAGES[status]}</p>".encode()
        with suppress(OSError):
            conn.send(write_head(status, {**_HEADERS, "Content-Length": str(len(page))}) + page)

    def _admit(self) -> None:
        """Take a connection; the oldest goes where there is one too many."""
        with suppress(OSError):
            conn, _ = self._listener.accept()
            conn.setblocking(False)
            self._heads[conn] = (b"", time.monotonic())
            self._selector.register(conn, selectors.EVENT_READ)
        if len(self._heads) > _MAX_CONNECTIONS:
            self._drop(next(iter(self._heads)))

    def _serve(self, conn: Any, accept: Callable[[str], bool]) -> str | None:
        """Read more of a request, and answer it once its head is whole; the query, if it is the one waited for."""
        if conn not in self._heads:
            # It was dropped since: another one took its place.
            return None
        try:
            data = conn.recv(4096)
        except OSError:
            data = b""
        head, began = self._heads[conn][0] + data, self._heads[conn][1]
        self._heads[conn] = (head, began)
        if data and b"\r\n\r\n" not in head and len(head) <= _MAX_HEAD:
            return None
        status, query = self._read(head)
        wanted = status == 200 and accept(query)
        self._answer(conn, status if status != 200 or wanted else 400)
        self._drop(conn)
        return query if wanted else None

    def _drop(self, conn: socket.socket) -> None:
        self._heads.pop(conn, None)
        self._selector.unregister(conn)
        with suppress(OSError):
            conn.shutdown(socket.SHUT_WR)
        conn.close()
