"""HTTP+SSE, the client's side: the transport of 2024-11-05, for servers of that time.

Spec:      2024-11-05/basic/transports#http-with-sse; basic/transports#backwards-compatibility of later revisions
Upholds:   spec_notes/basic/transports.md, the rows on HTTP+SSE
Reads:     sse.py, streamable_http (calls, client_session)
Not here:  the server's side (http_sse); when this transport is tried (client/targets)

One GET is held open for as long as the conversation lasts. Its first event names the URI for everything that the client
sends, each message by a POST of its own; whatever the server says comes on the stream, answers too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import urljoin, urlsplit

from mcp_ref.basic import messages
from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.transports.sse import CONTENT_TYPE, Event, EventParser
from mcp_ref.basic.transports.streamable_http.client_session import (
    HttpOptions,
    Interrupted,
    checked_options,
    checked_url,
)
from mcp_ref.basic.transports.streamable_http.noting import event_facts
from mcp_ref.basic.transports.transport import Inbox, Lost, Receive
from mcp_ref.errors import McpError, RemoteProtocolError, RequestTimeout, TransportClosed

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.calls import Http, Reply

__all__ = ["SseClientTransport"]

log = logging.getLogger(__name__)

JsonObject = dict[str, Any]

_CLOSED = "the transport is closed"


class SseClientTransport:
    """The client's side of HTTP+SSE.

    Args:
        url: of the event stream.
        max_message: bytes that an inbound message may have.
        opening: seconds in which the stream must have named the URI to send to.
        options: `headers`, `verify`, `cert`, `proxies`, `trust_env`, `tap`: see `HttpOptions`.

    Raises: ValueError: the URL is none of http(s), or a header cannot be sent.
    Threads: `send` and `close` by any; the stream is read by `mcp-sse-listen`.
    """

    name = "http+sse"

    def __init__(
        self,
        url: str,
        *,
        max_message: int = 64 * 1024 * 1024,
        opening: float = 10,
        **options: Unpack[HttpOptions],
    ) -> None:
        self._url, self._options = checked_url(url), checked_options(options)
        self._limit, self._opening, self._tap = max_message, opening, options.get("tap")
        self._lock = threading.Lock()  # guards the four fields below
        self._closed = False
        self._lost: Lost | None = None
        self._problem: McpError | None = None
        self._posting: Http | None = None
        self._named = threading.Event()  # set once the URI is known, or never will be
        self._noting = threading.Lock()  # held for a note, and for the routing of what came
        self._receive: Receive = lambda data: None
        # Daemon: a program that ends without close() must end, though the server has not.
        self._thread = threading.Thread(target=self._listen, name="mcp-sse-listen", daemon=True)

    def start(self, receive: Receive, lost: Lost) -> None:
        """Open the stream, and learn where to send; see `Transport.start`.

        Blocks: until the `endpoint` event has come, at most `opening` seconds.
        Raises: TransportClosed, RequestTimeout, HttpStatusError, RemoteProtocolError (no stream, or a URI elsewhere).
        """
        from mcp_ref.basic.transports.streamable_http.calls import Http

        self._stream = Http(self._url, **self._options)
        self._call = self._stream.call(Deadline(None))
        self._receive = receive
        self._thread.start()
        named = self._named.wait(self._opening)
        problem = self._problem or (None if named else RequestTimeout(f"no endpoint event within {self._opening:g} s"))
        if problem is not None:
            self._end(Deadline(1))
            raise problem
        with self._lock:
            self._lost = lost
            over = self._problem
        if over is not None:
            self._tell(over)

    # -- the stream -----------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        try:
            self._read()
            problem: McpError = TransportClosed("the server has ended the event stream")
        except Interrupted:
            problem = TransportClosed(_CLOSED)
        except McpError as reason:
            problem = reason
        except Exception as reason:
            log.exception("reading the event stream failed")
            problem = TransportClosed(f"reading the event stream failed: {reason}")
        with self._lock:
            self._problem = problem
        self._named.set()
        self._tell(problem)

    def _read(self) -> None:
        headers = {"Accept": CONTENT_TYPE, "Cache-Control": "no-store"}
        self._stream.note_request("GET", headers)
        reply = self._stream.open(self._call, "GET", headers)
        self._stream.note_reply(reply.facts)
        try:
            if reply.status != 200 or reply.content_type != CONTENT_TYPE:
                raise reply.refusal("the event stream", reply.body(1000) if reply.status >= 400 else b"")
            for event in _events(reply, self._limit):
                self._take(event)
        finally:
            reply.close()

    def _take(self, event: Event) -> None:
        if event.event == "endpoint":
            self._stream.note_reply(_facts(event))
            self._name(event.data)
        elif event.event == "message" and event.data:
            with self._noting:
                if self._tap is not None:
                    self._tap.note("receive", event.data.encode(), _facts(event))
                self._receive(event.data.encode())
            if self._tap is not None:
                self._tap.deliver()

    def _name(self, uri: str) -> None:
        """Take the URI of the `endpoint` event, relative or absolute; another origin would be given our messages."""
        target = urljoin(self._url, uri)
        if _origin(target) != _origin(self._url):
            raise RemoteProtocolError(f"the server names another origin to send to: {uri!r}")
        from mcp_ref.basic.transports.streamable_http.calls import Http

        with self._lock:
            self._posting = self._posting or Http(checked_url(target), **self._options)
        self._named.set()

    def _tell(self, reason: McpError) -> None:
        """Say that nothing more will arrive, once, and only to who was told that it had begun."""
        with self._lock:
            lost, self._lost = self._lost, None
        if lost is not None:
            lost(reason)

    # -- sending --------------------------------------------------------------------------------------------------

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """POST one message to the URI that the server has named.

        Blocks: until the server has accepted it, at most until the deadline.
        Raises: TransportClosed, RequestTimeout, HttpStatusError, LocalProtocolError (it is not JSON).
        """
        text = messages.encode(message)
        posting = self._posting
        if self._closed or posting is None or self._problem is not None:
            raise TransportClosed(str(self._problem or _CLOSED))
        headers = {"Content-Type": "application/json"}
        posting.note_request("POST", headers, message)
        try:
            # MUST: by POST to that endpoint (2024-11-05/basic/transports#http-with-sse)
            reply = posting.open(posting.call(deadline), "POST", headers, text)
        except Interrupted:
            raise TransportClosed(_CLOSED) from None
        posting.note_reply(reply.facts)
        try:
            if not 200 <= reply.status < 300:
                raise reply.refusal("a message", reply.body(1000))
        finally:
            reply.close()

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """POST a request; its answer comes on the stream."""
        self.send(message, deadline)
        return inbox.until(deadline)

    # -- ending ---------------------------------------------------------------------------------------------------

    def close(self, deadline: Deadline) -> None:
        """Close the stream, which ends the conversation. Idempotent; any thread may call it.

        `mcp-sse-listen` ends because its socket is shut down under it, and is joined.
        """
        self._end(deadline)
        self._tell(TransportClosed(_CLOSED))

    def _end(self, deadline: Deadline) -> None:
        with self._lock:
            self._closed = True
            posting = self._posting
        if self._thread.ident is None:
            return
        self._stream.interrupt(self._call)
        if self._thread is not threading.current_thread():
            self._thread.join(deadline.left())
        self._stream.close()
        if posting is not None:
            posting.close()


def _events(reply: Reply, limit: int) -> Iterator[Event]:
    parser = EventParser(limit)
    while data := reply.read():
        yield from parser.feed(data)


def _facts(event: Event) -> dict[str, Any]:
    return {"method": "GET", "status": 200, **event_facts(event)}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
