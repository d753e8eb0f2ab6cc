"""The listener for a browser that comes back: one page on 127.0.0.1, read once (RFC 8252).

Contract: `Loopback(port)` listens at once. `wait` gives the query of the first GET of the path that its `accept` wants.
Everything else is answered and forgotten: another path, another method, another `Host` (DNS rebinding), a query that is
not wanted. A connection that says nothing is closed after 5 seconds, and others are served meanwhile. The page shown is
always the same: nothing that came with the request is in it.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from mcp_ref.errors import RequestTimeout
from mcp_ref.machinery.http_call import HttpCall

_MAX_HEAD: Final = 16_384  # bytes
_HEAD_TIMEOUT: Final = 5.0  # seconds
_MAX_CONNECTIONS: Final = 32
_LOOK_INTERVAL: Final = 0.5  # seconds: not every system wakes who waits for a listening socket that is shut down

_PAGES: Final = {
    200: ("OK", "You can close this window and go back to the program."),
    400: ("Bad Request", "This is not the answer that the program waits for."),
    404: ("Not Found", "There is nothing here."),
    405: ("Method Not Allowed", "There is nothing here."),
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
        self._listener = socket.create_server(("::1" if host == "[::1]" else "127.0.0.1", port),
            family=socket.AF_INET6 if host == "[::1]" else socket.AF_INET)  # fmt: skip
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._path, self._host = path or "/", f"{host}:{self.port}"

    def wait(self, call: HttpCall, timeout: float, accept: Callable[[str], bool]) -> str:
        """The query with which the browser came back.

        Args:
            call: whatever cuts it ends the wait.
            accept: whether a query is the one that is waited for.

        Raises: RequestTimeout; and whatever cut the call.
        """
        until, heads = time.monotonic() + timeout, dict[socket.socket, tuple[bytes, float]]()
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            try:
                call.hold(self._listener)
                while (now := time.monotonic()) < until:
                    if call.reason is not None:
                        raise call.reason
                    for conn in [conn for conn, (_, began) in heads.items() if now - began > _HEAD_TIMEOUT]:
                        self._drop(selector, heads, conn)
                    for key, _ in selector.select(min(_LOOK_INTERVAL, until - now)):
                        if key.fileobj is self._listener:
                            self._admit(selector, heads)
                        elif (query := self._serve(selector, heads, key.fileobj, accept)) is not None:
                            return query
                raise RequestTimeout(f"nobody came back within {timeout:g} s")
            finally:
                for conn in list(heads):
                    self._drop(selector, heads, conn)
                call.hang_up()

    def close(self) -> None:
        """Give the port up."""
        self._listener.close()

    def _read(self, head: bytes) -> tuple[int, str]:
        """The status to answer with, and the query."""
        lines = head.decode("latin-1").split("\r\n")
        method, _, rest = lines[0].partition(" ")
        target, _, version = rest.partition(" ")
        path, _, query = target.partition("?")
        hosts = [line.partition(":")[2].strip().lower() for line in lines[1:] if line.lower().startswith("host:")]
        if not version.startswith("HTTP/1.") or b"\r\n\r\n" not in head or hosts != [self._host.lower()]:
            return 400, ""
        if path != self._path:
            return 404, ""
        return (200, query) if method == "GET" else (405, "")

    def _answer(self, conn: socket.socket, status: int) -> None:
        reason, text = _PAGES[status]
        page = f"<!doctype html><title>{reason}</title><p>{text}</p>".encode()
        head = (
            f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
            "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
            "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nConnection: close\r\n\r\n"
        )
        with suppress(OSError):
            conn.send(head.encode() + page)

    def _admit(self, selector: selectors.BaseSelector, heads: dict[socket.socket, tuple[bytes, float]]) -> None:
        """Take a connection; the oldest goes where there is one too many."""
        with suppress(OSError):
            conn, _ = self._listener.accept()
            conn.setblocking(False)
            heads[conn] = (b"", time.monotonic())
            selector.register(conn, selectors.EVENT_READ)
        if len(heads) > _MAX_CONNECTIONS:
            self._drop(selector, heads, next(iter(heads)))

    def _serve(self, selector: selectors.BaseSelector, heads: dict[socket.socket, tuple[bytes, float]],
               conn: Any, accept: Callable[[str], bool]) -> str | None:  # fmt: skip
        """Read more of a request, and answer it once its head is whole; the query, if it is the one waited for."""
        if conn not in heads:
            return None
        try:
            data = conn.recv(4096)
        except OSError:
            data = b""
        head, began = heads[conn][0] + data, heads[conn][1]
        heads[conn] = (head, began)
        if data and b"\r\n\r\n" not in head and len(head) <= _MAX_HEAD:
            return None
        status, query = self._read(head)
        wanted = status == 200 and accept(query)
        self._answer(conn, status if status != 200 or wanted else 400)
        self._drop(selector, heads, conn)
        return query if wanted else None

    def _drop(
        self, selector: selectors.BaseSelector, heads: dict[socket.socket, tuple[bytes, float]], conn: socket.socket
    ) -> None:
        heads.pop(conn, None)
        selector.unregister(conn)
        with suppress(OSError):
            conn.shutdown(socket.SHUT_WR)
        conn.close()
