"""HttpClient: sends the requests of one client, on `requests` and `urllib3`, and reads the responses as they come.

    http = HttpClient("https://host/mcp")
    call = HttpCall(Deadline(60))
    try:
        http.begin(call)
        response = http.open(call, "POST", {"Content-Type": "application/json"}, b"{}")
        text = response.body(1_000_000)
    finally:
        http.end(call)

Contract:
- A call blocks the thread that makes it, at most until its deadline; any other thread may cut it (kit/http/http_call).
- A request is written once, and never sent again. A kept connection is used if the server has not closed it by then.
- Ctrl-C may end a connection. It leaves none that another call would be confused by.
- No cookies, no proxies of the environment unless asked for, and redirects within the origin alone.

    HttpClient.open -> urllib3's pool -> _Connection -> socket
        HttpCall.box <- a second handle <------'

Two private names are used: `_new_conn` of urllib3, as a TCP handshake can be cut in no other way, and `_read_status` of
http.client, which reads past interim responses without a bound, and past 100 alone. Tried with urllib3 2.6 to
2.8 and requests 2.32.2 to 2.34.
"""

from __future__ import annotations

import errno
import http.client
import logging
import os
import queue
import re
import socket
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.exceptions import NewConnectionError
from urllib3.util.wait import wait_for_write

from mcp_ref._version import __version__
from mcp_ref.errors import HttpStatusError, McpError, RemoteProtocolError, RequestTimeout, TransportClosed
from mcp_ref.kit.http.http_call import DeadlineClock, HttpCall, within
from mcp_ref.kit.threads.deadline import CLOSED, Deadline, Interrupted

log = logging.getLogger(__name__)

_MAX_READ = 1 << 18  # bytes that one read gives, also after unpacking
_MAX_IDLE = 256  # connections that are kept
_MAX_REDIRECTS = 3
_MAX_INTERIM = 100  # heads of interim responses before a final one
_LINGER_TIMEOUT = 0.02  # seconds that the end of a response may take, for its connection to be kept

# No retries, since a request is sent once; no time-outs, since there is the clock.
_AS_IT_COMES: dict[str, Any] = {
    "retries": urllib3.Retry(False, redirect=False),
    "timeout": urllib3.Timeout(connect=None, read=None),
    **dict.fromkeys(("redirect", "assert_same_host", "preload_content", "decode_content"), False),
}
_FAILURES = (requests.RequestException, urllib3.exceptions.HTTPError, http.client.HTTPException, OSError)

_sending = threading.local()
"""`.call`: the call whose request this thread sends. Without one, the classes below do as those of urllib3 do."""


class FinalResponse(http.client.HTTPResponse):
    """A response as `http.client` reads it, behind any interim ones, which are read past; for `response_class`.

    Raises: http.client.HTTPException: there are too many of them.
    """

    def _read_status(self) -> tuple[str, int, str]:
        # MUST: parse the interim responses (1xx) before the final one, also those not expected (RFC 9110 15.2). Taken
        # for the final one, a request that the server carries out would be sent again.
        for _ in range(_MAX_INTERIM + 1):
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 100 <= status < 200:
                return version, status, reason
            http.client.parse_headers(self.fp)
        raise http.client.HTTPException(f"more than {_MAX_INTERIM} interim responses")


class _Connection(HTTPConnection):
    """Goes before a connection class of urllib3: requests written in one piece, by connections that a call can cut."""

    response_class = FinalResponse
    call: HttpCall | None = None
    handle: socket.SocketType | None = None  # of the socket, while the connection is kept

    def request(self, *args: Any, **options: Any) -> None:
        """Write a request."""
        call = self.call = getattr(_sending, "call", None)
        if call is None:
            super().request(*args, **options)
            return
        # 1. Put the whole request together. One write wakes the server once, and there is one moment of sending.
        pieces: list[bytes] = []
        self.send = pieces.append  # type: ignore[assignment, method-assign]
        try:
            super().request(*args, **options)
        finally:
            del self.send
        # 2. Connect, unless it is a kept connection, or there was a TLS handshake.
        if self.sock is None:
            self.connect()
        if not call.box:
            handle, self.handle = self.handle, None
            call.hold(handle or _handle_of(self.sock))
        # 3. Write. Where that fails, urllib3 looks whether the server has refused it with a response all the same.
        self.sock.settimeout(None)
        self.sock.sendall(b"".join(pieces))
        # 4. From here on the server may act on it.
        call.written = True
        if call.on_written is not None:
            call.on_written()

    def close(self) -> None:
        """Close the connection. While a call uses it, the handle is the call's."""
        super().close()
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.close()

    def _new_conn(self) -> Any:
        """Open a TCP connection, as urllib3 does, except that the call can be cut meanwhile."""
        call: HttpCall | None = getattr(_sending, "call", None)
        connect = super()._new_conn
        if call is None or connect.__func__ is not HTTPConnection._new_conn:  # type: ignore[attr-defined]
            # A user's own kind of connection, through SOCKS for example, knows how it connects.
            return connect()
        try:
            found = socket.getaddrinfo(self._dns_host, self.port, 0, socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as problem:  # a label of the name may be empty, or too long
            raise NewConnectionError(self, f"Failed to resolve {self.host!r}: {problem}") from problem
        last: OSError | None = None
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                self._connect(call, sock, address)
                return sock
            except BaseException as failed:
                call.hang_up()
                sock.close()
                if call.reason is not None:
                    raise call.reason from failed
                if not isinstance(failed, OSError):
                    raise
                last = failed
        raise NewConnectionError(self, f"Failed to establish a new connection: {last}") from last

    def _connect(self, call: HttpCall, sock: socket.socket, address: Any) -> None:
        """Connect to one address; the clock ends the wait. Raises OSError."""
        if call.admits is not None and not call.admits(str(address[0])):
            # Looked at here, after the name was looked up for the last time: a second answer changes nothing.
            raise PermissionError(f"{address[0]} is not an address that this server may send us to")
        for option in self.socket_options or ():
            sock.setsockopt(*option)
        if self.source_address:
            sock.bind(self.source_address)
        sock.setblocking(False)
        error = sock.connect_ex(address)
        # Only now: shutting a socket down before it connects has no effect.
        call.hold(_handle_of(sock))
        if error in (errno.EINPROGRESS, errno.EWOULDBLOCK):
            wait_for_write(sock)
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        sock.settimeout(None)


def _handle_of(sock: socket.socket) -> socket.SocketType:
    """Return a second handle of a socket; a TLS handshake takes the first one away."""
    return socket.SocketType(socket.AF_INET, socket.SOCK_STREAM, 0, socket.dup(sock.fileno()))


class _IdleConnections:
    """Stands for the `LifoQueue` of a pool, whose condition Ctrl-C can leave locked."""

    def __init__(self) -> None:
        self._idle: deque[_Connection] = deque()
        self._closed = False

    def get(self, block: bool = False, timeout: float | None = None) -> Any:
        """Return the connection that was used last. Without one a pool makes another, whether it may wait or not."""
        try:
            return self._idle.pop()
        except IndexError:
            if block:
                return None
            raise queue.Empty from None

    def put(self, conn: Any, block: bool = False, timeout: float | None = None) -> None:
        """Keep a connection whose response is complete; one whose call was cut is closed instead."""
        call, handle = getattr(conn, "call", None), None
        with suppress(IndexError):
            handle = call and call.box.pop()
        if handle is None or conn.sock is None or len(self._idle) >= _MAX_IDLE:
            if handle is not None:
                handle.close()
            if conn is not None:
                conn.close()
            return
        conn.call, conn.handle = None, handle
        self._idle.append(conn)
        # Put first, look second; `close` does it the other way round, so one of the two closes it.
        if self._closed:
            self.clear()

    def clear(self) -> None:
        """Close them. Threads: any, and several at once."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def close(self) -> None:
        """Close them, and from now on whatever is put here."""
        self._closed = True
        self.clear()


def _watched(pool: Any) -> Any:
    """Return the same pool of urllib3, which makes connections that a call can cut from now on."""
    made_by = pool.ConnectionCls
    if not issubclass(made_by, _Connection):
        # Where two threads do this at once, the later one wins.
        pool.ConnectionCls = type("Connection", (_Connection, made_by), {})
        # What a session of the user's keeps at the moment is closed with that session, or by the server.
        pool.pool = idle = _IdleConnections()
        weakref.finalize(pool, idle.clear)
    return pool


class HttpResponse:
    """The response to one request, as it comes.

    Attributes:
        method: of the request. exchange: the number by which a trace knows both, where there is a trace.
        status: the HTTP status. headers: in any case.
        content_type: in lower case, without parameters.
        measured: whether it says where it ends. If not, and if nothing follows the head, that may have broken off.
    """

    def __init__(self, raw: Any, call: HttpCall, method: str, unpack: bool) -> None:
        self.method, self.exchange = method, call.exchange
        self.status, self.headers = raw.status, raw.headers
        self.content_type = raw.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        self.measured = raw.length_remaining is not None or raw.chunked
        self.ended = False
        self._raw, self._call = raw, call
        self._encoding, self._unpack = raw.headers.get("Content-Encoding", "identity"), unpack

    def read(self) -> bytes:
        """Return what has come, as soon as there is something; b"" at the end.

        Raises: TransportClosed (the connection broke), RequestTimeout, RemoteProtocolError (it has an encoding that was
            not asked for), and whatever cut the call.
        """
        if self.ended:
            return b""
        if self._encoding != "identity" and not self._unpack:
            raise RemoteProtocolError(f"the server's reply is encoded with {self._encoding!r}, which nobody asked for")
        try:
            # A read gives at most that much, even if a small response unpacks to a large one.
            data: bytes = self._raw.read1(_MAX_READ, decode_content=self._unpack) or b""
        except BaseException as problem:
            # After Ctrl-C too: the connection may be kept already.
            self.ended = True
            if isinstance(problem, _FAILURES):
                failure, cause = _explained(problem, self._call, "the connection broke")
                raise failure from cause
            raise
        # A response that was shut down looks complete where nothing says how long it is; and one that is unpacked may
        # go on for long without a wait that could be cut.
        if self._call.reason is not None:
            raise self._call.reason
        self.ended = not data or (not self._unpack and self._raw.isclosed())
        return data

    def body(self, limit: int) -> bytes:
        """Return the whole body. Raises: RemoteProtocolError: it is longer than `limit` bytes; and as `read` does."""
        pieces, size = [], 0
        while data := self.read():
            size += len(data)
            if size > limit:
                raise RemoteProtocolError(f"the server's reply has more than {limit} bytes")
            pieces.append(data)
        return b"".join(pieces)

    def close(self) -> None:
        """Read no further. The connection is kept if the end of the response is there, or comes at once."""
        conn = self._raw.connection
        if not self.ended and self._call.box and conn is not None and conn.sock is not None:
            conn.sock.settimeout(_LINGER_TIMEOUT)
            try:
                self.read() and self.read()
            except McpError as problem:
                log.debug("the connection is not kept: %s", problem)
        self.ended = True
        self._call.hang_up()
        if self._call.hung_up:
            # Else it is kept, and may be another call's by now.
            self._raw.close()

    @property
    def address(self) -> str | None:
        """The address that the response comes from; None once its connection is given back."""
        sock = getattr(self._raw.connection, "sock", None)
        return None if sock is None else str(sock.getpeername()[0])

    def refusal(self, doing: str, body: bytes) -> HttpStatusError:
        """Return the exception to raise where the status refuses; names WWW-Authenticate, and a redirect that is not
        followed.
        """
        text = str(body[:1000], "utf-8", "replace")[:200]
        if 300 <= self.status < 400:
            text = f"it redirects to {_without_query(self.headers.get('Location', ''))!r}, which is not followed"
        challenge = self.headers.get("WWW-Authenticate") if self.status in (401, 403) else None
        return HttpStatusError(self.status, text, challenge=challenge, doing=doing)


class HttpClient:
    """Sends requests to one URL, or to others of its origin.

    Args:
        url: checked already.
        options: each may be left out. `headers`: of every request. `verify`, `cert`, `proxies`: as in `requests`.
            `trust_env`: whether the environment may name proxies and a CA bundle. `session`: what to send by instead,
            as it is, with its headers, cookies, auth, hooks, proxies, certificates and adapters. It stays the caller's,
            and is not closed. If its adapter is an `HTTPAdapter`, the connections of its pools are replaced by ones
            that can be cut; else the time-outs of `requests` bound a call.

    Raises: TransportClosed: no request can be sent to such a URL.
    Threads: any; each call is made by one.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._session: requests.Session | None = options.get("session")
        headers = {} if self._session is not None else {"User-Agent": f"mcp_ref/{__version__}"}
        verify, cert = options.get("verify", True), options.get("cert")
        self._proxies = dict(options.get("proxies") or {})
        # What a client for another origin shares with this one: nothing that is a secret of this origin.
        own = vars(self._session) if self._session is not None else options
        self.shared = {name: own[name] for name in ("verify", "proxies", "trust_env") if name in own}
        if options.get("trust_env"):
            self._proxies = {**requests.utils.get_environ_proxies(url), **self._proxies}
            if verify is True:
                verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        try:
            prepared = requests.Request("GET", url, headers={**headers, **(options.get("headers") or {})}).prepare()
            self._url, self._adapter, self._pool = prepared.url or url, HTTPAdapter(), None
            if self._session is None:
                pool = self._adapter.get_connection_with_tls_context(prepared, verify, self._proxies, cert)
                self._adapter.cert_verify(pool, self._url, verify, cert)  # type: ignore[no-untyped-call]
                self._pool = _watched(pool)
        except (requests.RequestException, OSError) as problem:
            raise TransportClosed(f"no request can be sent to {_shown(url)}: {_without_query(problem)}") from None
        self.headers: dict[str, str] = dict(prepared.headers)
        through = requests.utils.select_proxy(self._url, self._proxies or self.shared.get("proxies"))
        self._named = _shown(self._url) + (f" through the proxy {_shown(through)}" if through else "")
        self._target = self._adapter.request_url(prepared, self._proxies)
        self._clock = DeadlineClock()
        self.begin = self._clock.watch
        weakref.finalize(self, self._clock.stop)

    def open(
        self,
        call: HttpCall,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        url: str | None = None,
        *,
        follow: bool = True,
    ) -> HttpResponse:
        """Send a request; gives the response when its headers are there, whatever its status.

        A redirect is followed within the origin alone, and only by the statuses that keep the method and the body: the
        request carries secrets, and the answer is believed.

        Args:
            call: to which `begin` was applied, and to which `end` will be, whatever happens.
            headers: beside those of every request; as text of latin-1.
            follow: whether redirects are followed.

        Blocks: until then, at most until the call's deadline (and for as long as the system looks up the host's name).
        Raises: TransportClosed (no connection, or it broke), RequestTimeout, RemoteProtocolError (too many redirects),
            and whatever cut the call.
        """
        url = url or self._url
        # Values as bytes: urllib3 has a string of its own that leaves a header out, and a value may come from anywhere.
        merged: dict[str, Any] = {**self.headers, **{name: value.encode("latin-1") for name, value in headers.items()}}
        for _ in range(_MAX_REDIRECTS + 1):
            call.written = False
            # 1. Send.
            _sending.call = call
            try:
                if call.reason is not None:
                    raise call.reason
                raw = self._send(call, method, url, merged, body)
                response = call.response = HttpResponse(raw, call, method, self._session is not None)
                # 2. What is shut down within the headers looks complete.
                if call.reason is not None:
                    raise call.reason
            except _FAILURES as problem:
                failure, cause = _explained(problem, call, f"no answer from {self._named}")
                raise failure from cause
            finally:
                _sending.call = None
            # 3. Follow a redirect.
            location = response.headers.get("Location") if follow and response.status in (307, 308) else None
            target = None if location is None else within(url, location)
            if target is None:
                return response
            response.close()
            url = target
        raise RemoteProtocolError(f"the server redirects more than {_MAX_REDIRECTS} times")

    def _send(self, call: HttpCall, method: str, url: str, headers: dict[str, Any], body: bytes | None) -> Any:
        """Return the response of urllib3."""
        if self._pool is not None:
            target = self._target
            if url != self._url:
                target = self._adapter.request_url(requests.Request(method, url).prepare(), self._proxies)
            return self._pool.urlopen(method, target, body, headers, **_AS_IT_COMES)
        session: Any = self._session
        prepared = session.prepare_request(requests.Request(method, url, headers, data=body))
        # The session's `verify` is given, since the environment has precedence over None.
        how = session.merge_environment_settings(prepared.url, {}, True, session.verify, session.cert)
        adapter = session.get_adapter(prepared.url)
        left = call.deadline.left()
        connect = read = None if left is None else max(left, 0.001)
        if isinstance(adapter, HTTPAdapter):
            _watched(adapter.get_connection_with_tls_context(prepared, how["verify"], how["proxies"], how["cert"]))
            read = None
        return session.send(prepared, timeout=(connect, read), allow_redirects=False, **how).raw

    def end(self, call: HttpCall) -> None:
        """End a call: close its connection, unless its response is complete, or its end comes at once."""
        try:
            if call.response is not None and not call.response.ended:
                # However its end drips in, by now nobody has so much time for it.
                call.deadline = Deadline(_LINGER_TIMEOUT)
                try:
                    self._clock.watch(call)
                except RequestTimeout:
                    # On a busy machine that is over already; the answer is there all the same.
                    call.hang_up()
                call.response.close()
        finally:
            if call.box:
                call.hang_up()
            call.response = None
            # Last: until then the clock, or `close`, ends what Ctrl-C has left here.
            self._clock.calls.discard(call)

    def cut_all(self, reason: McpError) -> None:
        """Cut every call that has begun and not ended."""
        for call in list(self._clock.calls):
            call.cut(reason)

    def close(self, deadline: Deadline) -> None:
        """Cut every call, and close the connections that are kept. Idempotent.

        `mcp-http-clock` ends because it is woken for the last time, and is joined.
        """
        self.cut_all(Interrupted(CLOSED))
        if self._pool is not None:
            if (idle := self._pool.pool) is not None:
                idle.close()
            self._pool.close()
        self._clock.stop()
        self._clock.join(deadline)


def _shown(url: str) -> str:
    """Return the URL for a message: without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _without_query(text: object) -> str:
    """Return text that may quote a URL, without the queries in it."""
    return re.sub(r"\?[^\s'\"<>]*", "?...", str(text))


def _hide_query(record: logging.LogRecord) -> bool:
    """Return what urllib3 logs while it sends for us, without the query of the URL; what it does for others is left
    alone.

    A head that broke off is logged with a traceback; for us it becomes an error, or a status whose head tells enough.
    """
    if getattr(_sending, "call", None) is not None and isinstance(record.args, tuple):
        record.args = tuple(_without_query(arg) if isinstance(arg, str) else arg for arg in record.args)
        return record.name != "urllib3.connection"
    return True


for _name in ("urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry"):
    logging.getLogger(_name).addFilter(_hide_query)


def _explained(problem: BaseException, call: HttpCall, doing: str) -> tuple[McpError, BaseException | None]:
    """Return the exception to raise for a failure: what cut the call, the deadline, or what really happened; and
    from which cause.

    That is the innermost one: urllib3 and requests quote the URL in the texts of those around it, and its query may
    hold a secret.
    """
    if call.reason is not None:
        return call.reason, None
    while True:
        # They wrap it in more than one way.
        inner = getattr(problem, "reason", None)
        if not isinstance(inner, BaseException):
            inner = problem.__cause__ or next((arg for arg in problem.args if isinstance(arg, BaseException)), None)
        if inner is None:
            break
        problem = inner
    text = _without_query(problem)
    # A refused connection has no more to say than the text below.
    cause = problem if text == str(problem) and not isinstance(problem, ConnectionRefusedError) else None
    try:
        call.deadline.check(doing)
    except RequestTimeout as passed:
        return passed, cause
    return TransportClosed(f"{doing}: {text or type(problem).__name__}"), cause
