"""The client's HTTP requests and their replies, on `requests`.

Spec:      basic/transports#sending-messages-to-the-server
Upholds:   spec_notes/basic/transports.md
Reads:     connections.py, sockets.py
Not here:  what the messages are (posting.py, listening.py)

Prepared requests go through one adapter, without the work that a `requests.Session` does for each call; so there are
no cookies, and no redirects but those followed here.
"""

from __future__ import annotations

import http.client
import logging
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import requests.utils
import urllib3
from requests.structures import CaseInsensitiveDict

from mcp_ref._version import __version__
from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.transports.streamable_http.client_session import CLOSED, Interrupted
from mcp_ref.basic.transports.streamable_http.connections import Adapter, NotProcessed
from mcp_ref.basic.transports.streamable_http.sockets import Call, GivenUp, Sockets
from mcp_ref.basic.transports.transport import Tap
from mcp_ref.errors import HttpStatusError, McpError, RemoteProtocolError, RequestTimeout, TransportClosed

__all__ = ["Http", "Reply"]

log = logging.getLogger(__name__)

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
        return {"method": self.method, "status": self.status, "headers": self.headers}

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

    def note_request(self, method: str, headers: Mapping[str, str], message: Any = None) -> None:
        """Show the trace a request, before it is sent; the message that it carries, if any, as a dict or list."""
        if self._tap is not None:
            self._tap.note("send", message, {"method": method, "headers": {**self._headers, **headers}})
            self._tap.deliver()

    def note_reply(self, facts: Mapping[str, Any], body: bytes = b"") -> None:
        """Show the trace a reply, or an event, that brings no message for the peer."""
        if self._tap is not None:
            self._tap.note("receive", body or None, facts)
            self._tap.deliver()

    def note_hang_up(self, request_id: Any) -> None:
        """Show the trace that a request is given up by the end of its connection, which no message says."""
        if self._tap is not None:
            self._tap.note("send", None, {"hangUp": request_id})
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
