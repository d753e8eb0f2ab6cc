"""Streamable HTTP, the client's side: messages by POST, a standing stream by GET, the end by DELETE.

Spec:      basic/transports#streamable-http (2025-03-26 ... 2025-11-25); in the stateless shape there are the POSTs
           alone: 2026-07-28/basic/transports/streamable-http
Upholds:   spec_notes/basic/transports.md, the rows on the client's side
Reads:     posting.py, stateless_posting.py, listening.py, client_session.py; calls.py when the first request is sent
Not here:  `initialize` and opening another session (client/client); which shape is spoken, and sending again what was
           lost (client/stateless); authorization

A request is posted, and its reply read, in the thread of its caller. So there is one thread of our own, for the
standing stream, and a server that does not answer holds up nobody else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from mcp_ref.basic import messages
from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.transports.streamable_http.client_session import (
    CLOSED,
    SESSION_ID,
    ClientSession,
    HttpOptions,
    Interrupted,
    checked_options,
    checked_url,
)
from mcp_ref.basic.transports.streamable_http.listening import Listener
from mcp_ref.basic.transports.streamable_http.posting import Post
from mcp_ref.basic.transports.streamable_http.stateless_posting import StatelessPost
from mcp_ref.basic.transports.transport import Inbox, Mirror, Receive
from mcp_ref.errors import HttpStatusError, McpError, Refusal, RemoteProtocolError, TransportClosed
from mcp_ref.revisions import Revision

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.calls import Http, Reply
    from mcp_ref.basic.transports.streamable_http.sockets import Call

__all__ = ["HttpClientTransport"]

JsonObject = dict[str, Any]

log = logging.getLogger(__name__)

_OPENING = 5.0  # seconds that `opened` waits for the standing stream
_FAREWELL = 2.0  # seconds that the DELETE may take


class HttpClientTransport:
    """The client's side of Streamable HTTP.

    Args:
        url: of the server's endpoint, http or https.
        max_message: bytes that an inbound message may have.
        reconnects: attempts in a row to go on with an event stream before it is given up.
        options: `headers`, `verify`, `cert`, `proxies`, `trust_env`, `tap`: see `HttpOptions`.

    Attributes:
        mirror: None, or what makes the headers that repeat what a message says. While it is set, each message goes out
            in the stateless shape, with these headers and nothing of a session. May be set at any time, by any thread.

    Connections are kept alive and shared. A request whose kept connection turns out to be closed by the server is sent
    once more over a fresh one, but only when the server has not seen it (`connections.NotProcessed` says when that is
    certain). A failed request does not end the transport: it is lost by `close()` alone.

    Raises: ValueError: the URL is none of http(s), or a header cannot be sent.
    Spec: basic/transports#streamable-http
    """

    name = "http"

    def __init__(
        self,
        url: str,
        *,
        max_message: int = 64 * 1024 * 1024,
        reconnects: int = 5,
        **options: Unpack[HttpOptions],
    ) -> None:
        self.mirror: Mirror | None = None
        self._url, self._options = checked_url(url), checked_options(options)
        self._limit, self._reconnects = max_message, reconnects
        self._tap = options.get("tap")
        self._refused: HttpStatusError | None = None
        # Guards no field: it is held for a note and what belongs to it, so that `receive` has one message at a time.
        self._routing = threading.Lock()
        self._lock = threading.Lock()  # guards the seven fields below
        self._receive: Receive | None = None
        self._lost: Callable[[McpError], None] | None = None
        self._http: Http | None = None
        self._session = ClientSession()
        self._listener: Listener | None = None
        self._calls: set[Call] = set()
        self._closed = False
        self._over = threading.Event()  # set once close() has done its work

    # -- beginning ------------------------------------------------------------------------------------------------

    def start(self, receive: Receive, lost: Callable[[McpError], None]) -> None:
        """Remember both; nothing is sent, and no thread started. See `Transport.start`.

        Raises: TransportClosed: it was closed before. RuntimeError: it was started before.
        """
        with self._lock:
            if self._closed:
                raise TransportClosed(CLOSED)
            if self._receive is not None:
                raise RuntimeError("a transport is started once")
            self._receive, self._lost = receive, lost

    @property
    def session_id(self) -> str | None:
        """What the server assigned, or None. It is a secret: who knows it can speak in this session."""
        return self._session.id

    @property
    def hangs_up(self) -> bool:
        """Whether a request is given up by the end of its connection: the stateless shape. See `Transport`."""
        return self.mirror is not None

    @property
    def refused(self) -> HttpStatusError | None:
        """How the latest request before an agreement was refused by HTTP, or None: whether to try something older.

        In the stateless shape there is no agreement, and it is the latest request. It is set also where the body held a
        JSON-RPC error, which is then what the request raised; an error that came with 200 is raised alike, and this is
        None.
        """
        return self._refused

    def agreed(self, revision: Revision) -> None:
        """Take the revision that both sides agreed on: its headers go with every request from now on.

        To be called when `initialize` was answered, before `notifications/initialized` is sent.
        """
        with self._lock:
            self._session = self._session.agreed(revision)

    def opened(self, revision: Revision, deadline: Deadline | None = None) -> None:
        """Open the standing stream; to be called when `notifications/initialized` was sent.

        Goes out: GET, in the thread `mcp-sse-listen`. A server without such a stream (405, or any 4xx) is as good.

        Blocks: until the stream is open or refused, so that nothing is missed from then on; at most 5 seconds, or until
            the deadline. A server that is slower is waited for in the background.
        Spec: basic/transports#listening-for-messages-from-the-server
        """
        self.agreed(revision)
        if revision.http != "streamable":
            return
        http = self._loaded()
        with self._lock:
            if self._closed or self._listener is not None:
                return
            listener = Listener(http, self._session, self._deliver, self._reconnects, self._limit)
            self._listener = listener
            listener.start()
        left = None if deadline is None else deadline.left()
        listener.settled.wait(_OPENING if left is None else min(left, _OPENING))

    def _loaded(self) -> Http:
        """What sends. It is imported here: a program that uses no HTTP does not pay for `requests`."""
        from mcp_ref.basic.transports.streamable_http.calls import Http

        with self._lock:
            if self._http is None:
                self._http = Http(self._url, **self._options)
            return self._http

    # -- sending --------------------------------------------------------------------------------------------------

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """POST a notification, a response, or a batch; what comes back for the requests of a batch is delivered.

        Blocks: until the server has accepted it, and answered the requests in it; at most until the deadline.
        Raises: TransportClosed, RequestTimeout, LocalProtocolError (it is not JSON, or in the stateless shape neither
            a request nor a notification; nothing was sent), SessionExpired, HttpStatusError, RemoteProtocolError.
        """
        text = messages.encode(message)
        missing = _requests(message)
        try:
            with self._post(message, deadline, None) as post:
                reply = self._begin(post, message, text)
                post.refusal(reply, None)
                if missing:
                    self._deliver_all(post, reply, missing)
                else:
                    self._loaded().note_reply(reply.facts)
                post.answered = True
        except Interrupted:
            raise TransportClosed(CLOSED) from None

    def _deliver_all(self, post: Post, reply: Reply, missing: set[tuple[type, Any]]) -> None:
        for text in post.messages(reply):
            if text:
                self._deliver(text, post.facts)
                missing -= _responses(text)
            if not missing:
                return
        raise RemoteProtocolError(f"the server's reply lacks the response to {len(missing)} requests")

    def exchange(self, message: JsonObject, inbox: Inbox, deadline: Deadline) -> Iterator[JsonObject]:
        """POST a request, and give what arrives for it; see `Transport.exchange`.

        Messages that come with the reply go to `receive`, and what of them belongs to the request comes back by the
        inbox. An event stream that ends before the response is resumed after its last event. In the stateless shape it
        is not, and the request that ends without a response has its connection closed at once, whatever the reason.

        Raises: SessionExpired (not carried out; it may be sent again in another session), AnswerLost (stateless: it may
            have been carried out), HttpStatusError, TransportClosed, RequestTimeout, RemoteProtocolError,
            LocalProtocolError (the message, or its headers, cannot be sent), and whatever gave the request up.
        """
        text = messages.encode(message)
        with self._post(message, deadline, inbox) as post:
            try:
                yield from inbox.waiting()
                for answer, noted in self._answers(post, message, text):
                    self._deliver(answer, post.facts, noted)
                    for item in inbox.waiting():
                        post.answered = "method" not in item
                        yield item
            except Interrupted:
                yield from inbox.waiting()
                raise TransportClosed(CLOSED) from None
        raise RemoteProtocolError(f"the server's reply lacks the response to {message['method']}")

    def _answers(self, post: Post, message: JsonObject, text: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Each message that comes back: for the peer, and as it came."""
        reply = self._begin(post, message, text)
        refusal = post.refusal(reply, message["id"])
        if refusal is not None:
            yield refusal
        else:
            yield from ((text, text) for text in post.messages(reply))

    @contextmanager
    def _post(self, message: Any, deadline: Deadline, inbox: Inbox | None) -> Iterator[Post]:
        """A POST that `close()` can interrupt, and giving up the request whose inbox it is."""
        http = self._loaded()
        call = http.call(deadline)
        with self._lock:
            if self._closed or self._receive is None:
                raise TransportClosed(CLOSED if self._closed else "the transport has not been started")
            self._calls.add(call)
        if inbox is not None:
            inbox.on_give_up = partial(http.interrupt, call)
        try:
            with closing(self._new_post(http, call, message)) as post:
                yield post
        finally:
            if inbox is not None:
                inbox.on_give_up = None
            with self._lock:
                self._calls.discard(call)

    def _new_post(self, http: Http, call: Call, message: Any) -> Post:
        mirror = self.mirror
        if mirror is None:
            return Post(http, call, self._session, self._reconnects, self._limit)
        return StatelessPost(http, call, message, mirror, self._limit)

    def _begin(self, post: Post, message: Any, text: bytes) -> Reply:
        """Send; before the agreement, remember how it was received."""
        session = post.session
        reply = post.send(text, message)
        if session.revision is None:
            self._refused = None if reply.status < 300 else reply.refusal("a message", b"")
            begun = post.begun(reply)
            with self._lock:
                if self._session is session:
                    self._session = begun
        return reply

    def _deliver(self, text: bytes, facts: Mapping[str, Any], noted: bytes | None = None) -> None:
        """Hand a message to the peer, which only routes; nothing for b""."""
        receive = self._receive
        if not text or receive is None:
            return
        with self._routing:
            if self._tap is not None:
                self._tap.note("receive", noted or text, facts)
            receive(text)
        if self._tap is not None:
            self._tap.deliver()

    # -- ending ---------------------------------------------------------------------------------------------------

    def close(self, deadline: Deadline) -> None:
        """End the session with DELETE, and every connection; see `Transport.close`.

        Whoever waits for a reply gets `TransportClosed`: its socket is shut down, and closed by the caller's own
        thread. So ends `mcp-sse-listen`, which is joined. A second caller waits for the first.

        Blocks: at most until the deadline; 2 seconds of it, or half, are for the DELETE.
        Threads: any, also within `lost`.
        Spec: basic/transports#session-management
        """
        with self._lock:
            first, self._closed = not self._closed, True
            calls, listener, http = list(self._calls), self._listener, self._http
        if not first:
            self._over.wait(deadline.left())
            return
        try:
            if http is not None:
                self._end(http, calls, listener, deadline)
        finally:
            self._over.set()
            if self._lost is not None:
                self._lost(TransportClosed(CLOSED))

    def _end(self, http: Http, calls: list[Call], listener: Listener | None, deadline: Deadline) -> None:
        for call in calls:
            http.interrupt(call)
        if listener is not None:
            listener.stop()
        if self._session.id is not None:
            self._delete(http, self._session.id, deadline)
        if listener is not None:
            listener.join(deadline)
        http.close()

    def _delete(self, http: Http, session_id: str, deadline: Deadline) -> None:
        """SHOULD: tell the server (basic/transports#session-management). It may refuse, and may be gone."""
        left = deadline.left()
        call = http.call(Deadline(_FAREWELL if left is None else min(_FAREWELL, left / 2)))
        try:
            headers = {**self._session.headers(), SESSION_ID: session_id}
            http.note_request("DELETE", headers)
            reply = http.open(call, "DELETE", headers)
            http.note_reply(reply.facts)
            reply.close()
            log.debug("the session was ended with HTTP status %d", reply.status)
        except McpError as problem:
            log.debug("could not end the session: %s", problem)


def _requests(message: Any) -> set[tuple[type, Any]]:
    """The ids of the requests in a batch."""
    batch = message if isinstance(message, list) else []
    return {messages.id_key(entry["id"]) for entry in batch if "method" in entry and "id" in entry}


def _responses(text: bytes) -> set[tuple[type, Any]]:
    """The ids of the responses in what arrived."""
    try:
        found = messages.decode(text)
    except Refusal:
        return set()
    entries = [entry for entry in (found if isinstance(found, list) else [found]) if isinstance(entry, dict)]
    ids = [messages.readable_id(entry) for entry in entries if "method" not in entry]
    return {messages.id_key(value) for value in ids if value is not None}
