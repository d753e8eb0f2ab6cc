"""The open sockets of a client, so that any thread can end what another one waits for.

Spec:      basic/transports#streamable-http
Upholds:   spec_notes/basic/transports.md, the rows on ending what waits
Not here:  connecting and reading (connections.py)

Every socket has a second handle, by which another thread shuts it down; the reader finds the end of it, and closes. A
handle is closed under the lock, hence never shuts down a socket that got the same number later. Which call uses which
socket changes under the lock too, so giving one call up never ends another one that got its connection meanwhile.
"""

from __future__ import annotations

import errno
import http.client
import io
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import requests
import requests.utils
import urllib3
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NameResolutionError, NewConnectionError
from urllib3.util.connection import allowed_gai_family
from urllib3.util.wait import wait_for_write

from mcp_ref._version import __version__
from mcp_ref.errors import HttpStatusError, McpError, RemoteProtocolError, RequestTimeout, TransportClosed
from mcp_ref.machinery.deadline import CLOSED, Deadline, Interrupted

if TYPE_CHECKING:
    from mcp_ref.basic.transports.transport import Tap

log = logging.getLogger(__name__)


"""The reason of an end that `close()` brought about."""


class GivenUp(Exception):
    """The call was interrupted before it had a connection."""


class Call:
    """One HTTP request at a time, sent and read by one thread; others may interrupt it, also before it is sent.

    Attributes:
        deadline: bounds connecting, sending and each read.
        timed_out: what the deadline raised during a read, or None.
        fresh: whether a kept connection must not be used.
        sent: whether the latest request has been sent whole, so that the server may act on it.
        interrupted: set once somebody has given the call up.
        exchange: the number that a trace gives the latest request; 0 without a trace.
    """

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self.timed_out: RequestTimeout | None = None
        self.fresh = self.sent = False
        self.exchange = 0
        self.interrupted = threading.Event()


class Line:
    """One open connection: the handle to shut it down by, and the call that uses it now."""

    def __init__(self, handle: socket.socket, call: Call) -> None:
        self.handle, self.call = handle, call
        self.used, self.open = True, True


class Sockets:
    """The open sockets of one client.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards: _lines and what is in them, each call's `interrupted` being set
        self._lines: set[Line] = set()
        self._current = threading.local()

    @property
    def call(self) -> Call:
        """The call of this thread."""
        call: Call = self._current.call
        return call

    def begin(self, call: Call) -> None:
        """From now on this thread's connections are used by that call."""
        self._current.call = call

    def connecting(self, sock: socket.socket) -> Line:
        """Keep a socket that is connecting."""
        with self._lock:
            if self.call.interrupted.is_set():
                raise GivenUp
            line = Line(sock.dup(), self.call)
            self._lines.add(line)
            return line

    def take(self, line: Line | None) -> None:
        """This thread's call uses the connection; the connection is still to be made when there is no line."""
        with self._lock:
            if self.call.interrupted.is_set():
                raise GivenUp
            if line is not None:
                line.call, line.used = self.call, True

    def leave(self, line: Line) -> None:
        """Nobody uses the connection any more; it is kept for the next call."""
        with self._lock:
            line.used = False
            self._drop_locked(line)

    def closed(self, line: Line) -> None:
        """The connection is closed for further requests; a reply that is still being read keeps its handle."""
        with self._lock:
            line.open = False
            self._drop_locked(line)

    def end(self, call: Call) -> None:
        """The call has no reply to read any more."""
        with self._lock:
            for line in [line for line in self._lines if line.call is call]:
                line.used = False
                self._drop_locked(line)

    def _drop_locked(self, line: Line) -> None:
        if not line.open and not line.used and line in self._lines:
            self._lines.remove(line)
            # A copy that a fork of this process holds would keep the connection open for the server.
            _shut_down(line.handle)
            line.handle.close()

    def interrupt(self, call: Call) -> None:
        """Give a call up: whatever it waits for on its socket ends, and it gets no other one."""
        with self._lock:
            call.interrupted.set()
            for line in self._lines:
                if line.call is call and line.used:
                    _shut_down(line.handle)

    def __len__(self) -> int:
        return len(self._lines)


def _shut_down(handle: socket.socket) -> None:
    try:
        handle.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other side was faster


# -- connections -----------------------------------------------------------------------------------------


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


# -- calls -----------------------------------------------------------------------------------------------


_CHUNK = 1 << 18
_REDIRECTS = 3
_LINGER = 0.02  # seconds that the end of a reply may come after what was wanted of it, for the connection to be kept
_FAILURES = (requests.RequestException, urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, GivenUp)


class Reply:
    """The reply to one HTTP request, as it comes. Whoever has one closes it.

    Attributes:
        method: of the request. status: the HTTP status. headers: in any case.
        content_type: in lower case, without parameters.
    """

    def __init__(self, response: requests.Response, call: Call, sockets: Sockets) -> None:
        self.status, self.headers = response.status_code, response.headers
        self.content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        self.method = response.request.method or ""
        self._raw: urllib3.HTTPResponse = response.raw
        self._call, self._sockets = call, sockets
        self._decode = "Content-Encoding" in response.headers
        self._ended = False

    def read(self) -> bytes:
        """What has come, as soon as there is something; b"" at the end.

        Blocks: until then, at most until the call's deadline; `Http.interrupt` ends it.
        Raises: TransportClosed (the connection broke), RequestTimeout, Interrupted.
        """
        if self._ended:
            return b""
        try:
            data = self._raw.read1(_CHUNK, decode_content=self._decode)
        except _FAILURES as problem:
            raise _explained(problem, self._call, "the connection broke") from problem
        if not data:
            # What is shut down ends like what is complete, where nothing says how long it is.
            if self._call.interrupted.is_set():
                raise Interrupted(CLOSED)
            self._ended = True
        return data

    def body(self, limit: int) -> bytes:
        """All of it. Raises: RemoteProtocolError when it is longer than that; and as `read` does."""
        pieces, size = [], 0
        while data := self.read():
            size += len(data)
            if size > limit:
                raise RemoteProtocolError(f"the server's reply has more than {limit} bytes")
            pieces.append(data)
        return b"".join(pieces)

    def close(self) -> None:
        """Be done with it. Its connection is kept when the end of the reply is there, or comes at once."""
        if not self._ended and not self._call.interrupted.is_set():
            deadline, self._call.deadline = self._call.deadline, Deadline(_LINGER)
            try:
                self.body(_CHUNK)
            except McpError as problem:
                log.debug("the connection is not kept: %s", problem)
            self._call.deadline = deadline
        if not self._ended:
            self._raw.close()
            self._ended = True
        self._sockets.end(self._call)

    @property
    def facts(self) -> dict[str, Any]:
        """What a trace is shown of it."""
        return {**self.origin, "headers": self.headers}

    @property
    def origin(self) -> dict[str, Any]:
        """What a trace is shown of the exchange that an event came by."""
        return {"exchange": self._call.exchange, "method": self.method, "status": self.status}

    def refusal(self, doing: str, body: bytes) -> HttpStatusError:
        """What to raise where the status refuses; names WWW-Authenticate, and a redirect that is not followed."""
        text = str(body[:1000], "utf-8", "replace")[:200]
        if 300 <= self.status < 400:
            text = f"it redirects to {self.headers.get('Location')!r}, and that is not followed"
        challenge = self.headers.get("WWW-Authenticate") if self.status in (401, 403) else None
        return HttpStatusError(self.status, text, challenge=challenge, doing=doing)


class Http:
    """Sends requests to one URL.

    Args:
        url: checked already. The others are the `HttpOptions`, checked too; `tap` is what the `note_` methods show to.

    Raises: TransportClosed: there can be no such host.
    Threads: any.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        verify: bool | str = True,
        cert: str | tuple[str, str] | None = None,
        proxies: Mapping[str, str] | None = None,
        trust_env: bool = False,
        tap: Tap | None = None,
    ) -> None:
        headers = {"User-Agent": f"mcp_ref/{__version__}", **(headers or {})}
        try:
            prepared = requests.Request("GET", url, headers=headers).prepare()
        except requests.RequestException as problem:
            raise TransportClosed(f"no request can be sent to {_shown(url)}: {problem}") from None
        self._url, self._headers = prepared.url or url, prepared.headers
        self._tap = tap
        self._verify, self._cert = verify, cert
        self._proxies = dict(proxies or {})
        if trust_env:
            self._proxies = {**requests.utils.get_environ_proxies(self._url), **self._proxies}
            if verify is True:
                self._verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        self._sockets = Sockets()
        self._adapter = Adapter(self._sockets)

    def call(self, deadline: Deadline) -> Call:
        """What the requests of one thread are sent by."""
        return Call(deadline)

    def interrupt(self, call: Call) -> None:
        """End whatever the call waits for; it raises Interrupted."""
        self._sockets.interrupt(call)

    def hang_up(self, call: Call) -> None:
        """Close the connection on which the call waits for its reply, or reads it, at once; it is over.

        Nothing happens to a connection whose reply has been read to its end: that is kept.
        """
        self._sockets.interrupt(call)
        self._sockets.end(call)

    def close(self) -> None:
        """Close the connections that are kept. Those in use are closed by who reads them."""
        self._adapter.close()

    def note_request(self, call: Call, method: str, headers: Mapping[str, str], message: Any = None) -> None:
        """Show the trace a request, before it is sent; the message that it carries, if any, as a dict or list."""
        if self._tap is not None:
            call.exchange = self._tap.exchange()
            facts = {"exchange": call.exchange, "method": method, "headers": {**self._headers, **headers}}
            self._tap.note("send", message, facts)
            self._tap.deliver()

    def note_reply(self, facts: Mapping[str, Any], body: bytes = b"") -> None:
        """Show the trace a reply, or an event, that brings no message for the peer."""
        if self._tap is not None:
            self._tap.note("receive", body or None, facts)
            self._tap.deliver()

    def note_hang_up(self, call: Call, request_id: Any) -> None:
        """Show the trace that a request is given up by the end of its connection, which no message says."""
        if self._tap is not None:
            self._tap.note("send", None, {"exchange": call.exchange, "hangUp": request_id})
            self._tap.deliver()

    def open(self, call: Call, method: str, headers: Mapping[str, str], body: bytes | None = None) -> Reply:
        """Send a request; gives the reply when its headers are there, whatever its status.

        A redirect is followed within the origin alone, and only by the statuses that keep the method and the body: the
        request carries secrets, and the answer is believed.

        Blocks: until then, at most until the call's deadline (and for as long as the system looks up the host's name);
            `interrupt` ends it.
        Raises: TransportClosed (no connection, or it broke), RequestTimeout, Interrupted, RemoteProtocolError (too many
            redirects).
        """
        url = self._url
        for _ in range(_REDIRECTS + 1):
            reply = self._send(call, self._prepared(method, url, headers, body))
            if call.interrupted.is_set():
                reply.close()
                raise Interrupted(CLOSED)
            target = self._redirect(reply, url)
            if target is None:
                return reply
            reply.close()
            url = target
        raise RemoteProtocolError(f"the server redirects more than {_REDIRECTS} times")

    def _prepared(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> requests.PreparedRequest:
        prepared = requests.PreparedRequest()
        prepared.method, prepared.url, prepared.body = method, url, body
        prepared.headers = CaseInsensitiveDict(self._headers)
        # As bytes: `urllib3` has a string of its own that leaves a header out, and a value may come from anywhere.
        more: dict[str, Any] = {name: value.encode("latin-1") for name, value in headers.items()}
        prepared.headers.update(more)
        if body is not None:
            prepared.headers["Content-Length"] = str(len(body))
        return prepared

    def _send(self, call: Call, prepared: requests.PreparedRequest) -> Reply:
        call.fresh, call.timed_out = False, None
        try:
            try:
                return self._send_once(call, prepared)
            except NotProcessed:
                log.debug("a kept connection was closed by the server: sending once more")
                call.fresh = True
                return self._send_once(call, prepared)
        except _FAILURES as problem:
            self._sockets.end(call)
            raise _explained(problem, call, f"no answer from {_shown(self._url)}") from problem
        except BaseException:
            # Ctrl-C may land where the reply is there already, and nobody has it to close.
            self.hang_up(call)
            raise

    def _send_once(self, call: Call, prepared: requests.PreparedRequest) -> Reply:
        self._sockets.begin(call)
        call.sent = False
        left = call.deadline.check("before the request was sent")
        response = self._adapter.send(
            prepared,
            stream=True,
            # Reading has no time-out here: the connection asks the deadline.
            timeout=None if left is None else (left, None),
            verify=self._verify,
            cert=self._cert,
            proxies=self._proxies,
        )
        return Reply(response, call, self._sockets)

    def _redirect(self, reply: Reply, url: str) -> str | None:
        location = reply.headers.get("Location")
        if reply.status not in (307, 308) or location is None:
            return None
        target = urljoin(url, location)
        return target if _origin(target) == _origin(self._url) else None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _shown(url: str) -> str:
    """The URL for a message: without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _explained(problem: BaseException, call: Call, doing: str) -> McpError:
    if call.interrupted.is_set():
        return Interrupted(CLOSED)
    if call.timed_out is not None:
        return call.timed_out
    root = _root(problem)
    if isinstance(root, RequestTimeout):
        return root
    if isinstance(root, TimeoutError):
        return RequestTimeout(f"timed out connecting or sending: {doing}")
    return TransportClosed(f"{doing}: {root or type(root).__name__}")


def _root(problem: BaseException) -> BaseException:
    """What really happened, under what `urllib3` and `requests` have wrapped around it."""
    while True:
        inner = getattr(problem, "reason", None)
        if not isinstance(inner, BaseException):
            inner = problem.__cause__ or next((arg for arg in problem.args if isinstance(arg, BaseException)), None)
        if inner is None:
            return problem
        problem = inner
