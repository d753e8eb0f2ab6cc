"""The client's connections: kept alive, shared by all threads, and each can be shut down by another thread.

Spec:      basic/transports#streamable-http
Upholds:   spec_notes/basic/transports.md, the rows on ending what waits
Reads:     sockets.py, basic/deadline
Not here:  what is sent (calls.py, client.py)

`requests` and `urllib3` do the work; three of their habits are changed here.

* Closing a response from another thread does not wake its reader, and before the headers arrive there is no response.
  Here every socket can be shut down by another thread (sockets.py).
* Their time-outs are for each read, and fixed when it begins. Here the socket gets what is left of the call's
  `Deadline` before each read, and when that has moved meanwhile, the wait goes on.
* A kept connection that the server closes while a request is on its way fails like any other. Here it is told apart
  (`NotProcessed`), so that the request can be sent once more.

Importing this module imports `requests`: only calls.py does, when the first request is sent.
"""

from __future__ import annotations

import errno
import http.client
import io
import os
import select
import socket
import time
from functools import partial
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NameResolutionError, NewConnectionError
from urllib3.util.connection import allowed_gai_family
from urllib3.util.wait import wait_for_write

from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.transports.streamable_http.sockets import Call, Line, Sockets
from mcp_ref.errors import RequestTimeout

__all__ = ["Adapter", "NotProcessed"]

_POOL = 256  # connections that are kept when they are not in use
_AT_ONCE = 1.0  # seconds after sending within which a dropped connection means that nobody has looked at the request
_RESET = 250  # milliseconds to wait for the reset that follows the end of a connection which was closed before


class NotProcessed(Exception):
    """A kept connection was dropped, and the server has not seen the request: it may be sent again, whatever it does.

    That is certain where the request could not be sent whole. Otherwise the connection must have ended at once, without
    a byte, and by a reset: so a system answers what comes to a socket that was closed before. A server that reads a
    request and fails over it closes without a reset, and the request fails here too.
    """


# -- reading ------------------------------------------------------------------------------------------------------


class _Patient(io.RawIOBase):
    """What `http.client` reads from: each read waits until the call's deadline, wherever that has moved."""

    def __init__(self, sock: socket.socket, call: Call) -> None:
        self._file = sock.makefile("rb", buffering=0)  # keeps the socket open for as long as the reply is read
        self._sock, self._call = sock, call
        self.heard = False  # whether a byte has come
        self.in_head = True  # whether the headers are not complete

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        deadline = self._call.deadline
        while True:
            try:
                self._sock.settimeout(deadline.check("waiting for the server's reply"))
                count = self._sock.recv_into(buffer)
            except RequestTimeout as problem:
                self._call.timed_out = problem
                raise
            except TimeoutError:
                continue
            if count == 0 and self.heard and self.in_head:
                # `http.client` would take the half for the whole.
                raise ConnectionAbortedError("it ended within the headers")
            self.heard = self.heard or count > 0
            return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Source:
    """Stands for the socket where `http.client` makes its file of it."""

    def __init__(self, reader: _Patient) -> None:
        self._reader = reader

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader, 16384)


# -- connections --------------------------------------------------------------------------------------------------


class _Watched(HTTPConnection):
    """What the two kinds of connection have in common: a line in `Sockets`, and the deadline of the call."""

    sockets: Sockets
    line: Line | None = None
    reused = False
    _unsent = _waiting = _reset = False
    _sent_at = 0.0
    _reader: _Patient | None = None

    def response_class(self, sock: socket.socket, *args: Any, **options: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        """`http.client` calls this for each reply, also for a proxy's to CONNECT."""
        self._reader = _Patient(sock, self.sockets.call)
        return http.client.HTTPResponse(_Source(self._reader), *args, **options)  # type: ignore[arg-type]

    def _new_conn(self) -> socket.socket:
        """As in `urllib3`, but the socket is known to `Sockets` while it connects."""
        try:
            found = socket.getaddrinfo(self._dns_host, self.port, allowed_gai_family(), socket.SOCK_STREAM)
        except socket.gaierror as problem:
            raise NameResolutionError(self.host, self, problem) from problem
        last: OSError | None = None
        for number, (family, kind, protocol, _, address) in enumerate(found):
            try:
                # An address that does not answer must leave time for the others.
                return self._connect(socket.socket(family, kind, protocol), address, len(found) - number)
            except OSError as problem:
                last = problem
        raise NewConnectionError(self, f"Failed to establish a new connection: {last}") from last

    def _connect(self, sock: socket.socket, address: Any, shares: int) -> socket.socket:
        try:
            for option in self.socket_options or ():
                sock.setsockopt(*option)
            sock.setblocking(False)
            started = sock.connect_ex(address)
            # Only now: shutting a socket down before it connects has no effect.
            self.line = self.sockets.connecting(sock)
            if started in (errno.EINPROGRESS, errno.EWOULDBLOCK):
                if not wait_for_write(sock, _seconds(self.sockets.call.deadline, shares)):
                    raise TimeoutError("timed out")
                started = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if started:
                raise OSError(started, os.strerror(started))
            # For the TLS handshake, and a proxy's CONNECT.
            sock.settimeout(_seconds(self.sockets.call.deadline))
        except BaseException:
            sock.close()
            self._forget()
            raise
        return sock

    def request(self, *args: Any, **options: Any) -> None:
        self._unsent, self._reader = True, None
        super().request(*args, **options)
        self.sockets.call.sent = True
        self._unsent, self._sent_at = False, time.monotonic()

    def getresponse(self) -> Any:
        self._waiting, self._reset = True, False
        try:
            response = super().getresponse()
            if self._reader is not None:
                self._reader.in_head = False
            return response
        except ConnectionError as problem:
            if self._is_stale(problem):
                raise NotProcessed from problem
            raise
        finally:
            self._waiting = False

    def _is_stale(self, problem: ConnectionError) -> bool:
        """Whether the server has closed the kept connection before it saw the request: see `NotProcessed`."""
        if not self.reused or self._heard():
            return False
        if self._unsent:
            return True
        if time.monotonic() - self._sent_at > _AT_ONCE:
            return False
        return self._reset or not isinstance(problem, http.client.RemoteDisconnected)

    def _heard(self) -> bool:
        return self._reader is not None and self._reader.heard

    def close(self) -> None:
        # `http.client` comes here when no reply began, while the socket can still be asked.
        if self._waiting and self.reused and not self._heard() and self.sock is not None:
            self._reset = _was_reset(self.sock)
        super().close()
        self._forget()

    def _forget(self) -> None:
        line, self.line = self.line, None
        if line is not None:
            self.sockets.closed(line)


class _Http(_Watched):
    pass


class _Https(_Watched, HTTPSConnection):
    pass


def _seconds(deadline: Deadline, shares: int = 1) -> float | None:
    """What is left as a time-out for a socket, or one of several equal parts of it; never 0, which is not to wait."""
    left = deadline.left()
    return None if left is None else max(left / shares, 0.001)


def _was_reset(sock: socket.socket) -> bool:
    """Whether, after the end of what the server sends, a reset says that it did not take what we sent."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(sock, 0)
    return any(event & select.POLLERR for _, event in poll.poll(_RESET))


class _Pool(HTTPConnectionPool):
    """Tells `Sockets` which call uses which connection."""

    ConnectionCls: Any = _Http
    sockets: Sockets

    def _new_conn(self) -> Any:
        conn: Any = super()._new_conn()
        conn.sockets = self.sockets
        return conn

    def _get_conn(self, timeout: float | None = None) -> Any:
        conn: Any = super()._get_conn(timeout)
        if self.sockets.call.fresh:
            conn.close()
        try:
            self.sockets.take(conn.line)
        except BaseException:
            self._put_conn(conn)
            raise
        conn.reused = conn.sock is not None
        return conn

    def _put_conn(self, conn: Any) -> None:
        if conn is not None and conn.line is not None:
            self.sockets.leave(conn.line)
        super()._put_conn(conn)


class _TlsPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = _Https


class Adapter(HTTPAdapter):
    """A `requests` adapter whose connections can be interrupted; one for each client, used without a session.

    Threads: any; each calls `Sockets.begin` first.
    """

    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets
        self._pools: list[_Pool] = []
        self._makers = {"http": partial(self._pool, _Pool), "https": partial(self._pool, _TlsPool)}
        super().__init__(pool_connections=8, pool_maxsize=_POOL, max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Have the manager make our pools."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self._makers

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """The same for the manager of a proxy."""
        if proxy.lower().startswith("socks"):
            raise requests.exceptions.InvalidProxyURL("SOCKS proxies are not supported")
        manager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = self._makers
        return manager

    def _pool(self, kind: type[_Pool], *args: Any, **options: Any) -> _Pool:
        pool = kind(*args, **options)
        pool.sockets = self._sockets
        self._pools.append(pool)
        return pool

    def close(self) -> None:
        """Close what is kept; what is in use is closed when it is given back."""
        super().close()
        # The manager only drops its pools, which then wait for whoever still has an old reply.
        for pool in self._pools:
            pool.close()
