"""Streamable HTTP, the client's side: a POST for each message, the standing stream, resuming; both eras.

Spec:      basic/transports#streamable-http (2025-03-26 ... 2025-11-25), basic/transports/streamable-http (2026-07-28)
Upholds:   spec_notes/basic/transports.md, spec_notes/basic/transports/streamable-http.md
Not here:  sockets and time limits (kit/http/http_client), which headers repeat a message (headers.py), when the era is
           found out, and when a session is opened again (client/connecting)

    session era      the headers of the session go with each message; 404 says that the session has expired; a stream
                     that ends before the response is resumed after its last event
    stateless era    the headers repeat what the message says; a reply that ends before the response is lost; and
                     closing the connection gives the request up

What a trace is shown of HTTP, beside the message that it carries, if any:

    {"method": "POST", "headers": {...}}                                     a request
    {"method": "POST", "status": 202, "headers": {...}}                      its reply
    {"method": "POST", "status": 200, "eventId": "s1-2", "retry": 500}       an event of its stream
    {"hangUp": 7}                                                            the request 7 is given up by hanging up

Each also has "exchange", the number of the HTTP request to which it belongs.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack
from urllib.parse import urlsplit

from mcp_ref.errors import (
    STATELESS_ERRORS,
    AnswerLost,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    Refusal,
    RemoteProtocolError,
    RequestTimeout,
    SessionExpired,
    TransportClosed,
)
from mcp_ref.kit.http.http_call import HttpCall
from mcp_ref.kit.threads.deadline import CLOSED, Deadline, Interrupted, has_ended, holding
from mcp_ref.pages.basic.transports.over_http import Mirror
from mcp_ref.pages.basic.transports.sse import CONTENT_TYPE, Event, EventParser, EventTooLong, event_facts
from mcp_ref.revisions import Revision
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.transport import MAX_MESSAGE, Lost, Pending, Receive

if TYPE_CHECKING:
    import requests

    from mcp_ref.kit.http.http_client import HttpClient, HttpResponse
    from mcp_ref.pages.basic.authorization.client import Authorizer
    from mcp_ref.recording.record import Tap

log = logging.getLogger(__name__)

JSON = "application/json"
SESSION_ID = "Mcp-Session-Id"
VERSION = "MCP-Protocol-Version"

_OPENING_TIMEOUT = 5.0  # seconds that `opened` waits for the standing stream
_FAREWELL_TIMEOUT = 2.0  # seconds that the DELETE may take
_STEADY = 5.0  # seconds after which a stream that ends without an event has not failed: something between cuts it
_RETRY = 1000  # milliseconds to wait before connecting again, where the server does not say
_MIN_RETRY = 100  # milliseconds to wait at least
_MAX_RETRY = 86_400_000  # milliseconds that a server can make us wait: a day is as good as for ever
_MAX_BACKOFF = 30.0  # seconds to which the wait grows when it fails again and again
_MAX_ERROR_BODY = 1 << 20  # bytes that are read of a body which says why something was refused

_Enough = Callable[[bytes], bool]
"""Is told of each message that was delivered, and b"" after a wait; returns True if no more is to be read."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_OURS = frozenset(
    ("accept", "accept-encoding", "connection", "content-length", "content-type", "last-event-id")
    + ("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "transfer-encoding")
)
_OF_STATELESS_ERA = STATELESS_ERRORS | {-32601, -32602, -32603}
"""Codes by which a server of the stateless era refuses a request that is well-formed."""


# -- options -----------------------------------------------------------------------------------------------------------


class HttpOptions(TypedDict, total=False):
    """The options of both HTTP transports of a client, beside the URL; each may be left out.

    Attributes:
        headers: sent with every request, such as Authorization.
        verify: whether certificates are checked (they are), or the path of a CA bundle.
        cert: the client's certificate: the path of a file with it and its key, or the two paths.
        proxies: by scheme of the URL, such as {"https": "http://proxy:3128"}; SOCKS proxies are refused.
        trust_env: whether the environment may name proxies and a CA bundle (HTTPS_PROXY, REQUESTS_CA_BUNDLE, ...);
            it may not, unless this says so.
        session: a `requests.Session` to send by, as its owner has set it up: its headers, cookies, `auth`, hooks,
            proxies, certificates and adapters; so `verify`, `cert`, `proxies` and `trust_env` are said there. It is not
            closed, and what was set up is not changed; the connections that its pools make for this server are ones
            that can be cut. A call takes some 0.3 ms more. An adapter of your own that is not a
            `requests.adapters.HTTPAdapter` must give a `urllib3.HTTPResponse` as `raw`, and only the time-outs of
            `requests` end its calls, not another thread; what an adapter retries is its owner's choice; and a hook must
            leave the body of a reply unread.
        auth: what authorizes each request, as of `Client`; then neither `headers` nor the session do.
        tap: is shown every message.
    """

    headers: Mapping[str, str] | None
    verify: bool | str
    cert: str | tuple[str, str] | None
    proxies: Mapping[str, str] | None
    trust_env: bool
    session: requests.Session | None
    auth: Any
    tap: Tap | None


def checked_url(url: str) -> str:
    """Return the URL without its fragment; ValueError if it is not one of http or https."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the URL of a server must begin with http:// or https:// and a host, not {url!r}")
    return parts._replace(fragment="").geturl()


def checked_options(options: HttpOptions) -> dict[str, Any]:
    """Return a copy of the options for an `HttpClient`: with a copy of the headers, without `auth` and the tap.

    Raises: TypeError: an unknown option. ValueError: a header cannot be sent, a proxy is of SOCKS, or a session
        is given together with what only it can say.
    """
    checked: dict[str, Any] = {**options, "headers": checked_headers(options.get("headers"))}
    checked.pop("tap", None)
    if checked.pop("auth", None) is not None:
        session = options.get("session")
        named = {*checked["headers"], *(() if session is None else session.headers)}
        if "authorization" in map(str.lower, named) or getattr(session, "auth", None) is not None:
            raise ValueError("auth= must not come with another Authorization, in the headers or in the session")
    if unknown := options.keys() - HttpOptions.__annotations__.keys():
        raise TypeError(f"unexpected keyword argument: {', '.join(sorted(unknown))}")
    if any(proxy.lower().startswith("socks") for proxy in (options.get("proxies") or {}).values()):
        raise ValueError("SOCKS proxies are not supported")
    if options.get("session") is not None and checked.keys() & {"verify", "cert", "proxies", "trust_env"}:
        raise ValueError("a session has its own verify, cert, proxies and trust_env: set them there")
    return checked


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return a copy of a user's headers.

    Raises: ValueError: a name is not one, a value has a line break or cannot be sent as it is, or the transport sets
        this header itself.
    """
    for name, value in (headers or {}).items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"this is not the name of a header: {name!r}")
        if name.lower() in _OURS or name.lower().startswith("mcp-param-"):
            raise ValueError(f"the header {name} is set by the transport")
        # The value itself is not shown: it may be a secret.
        if value != value.strip() or not re.fullmatch(r"[^\r\n\0\u0100-\U0010ffff]*", value):
            raise ValueError(f"the value of the header {name} cannot be sent: a line break, white space around it, ...")
    return dict(headers or {})


# -- the session -------------------------------------------------------------------------------------------------------


class ClientSession(NamedTuple):
    """One session, as far as it is known. In the stateless era it stays as it begins.

    Attributes:
        revision: what was agreed on; None before.
        id: what the server assigned with the answer to `initialize`, or None.
    """

    revision: Revision | None = None
    id: str | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers that every request of the session has; empty before the agreement."""
        headers: dict[str, str] = {}
        if self.revision is not None:
            # MUST: once the server has assigned an Mcp-Session-Id, it goes with every later request
            # (basic/transports#session-management)
            if self.id is not None:
                headers[SESSION_ID] = self.id
            # MUST: MCP-Protocol-Version goes with every request after `initialize`
            # (basic/transports#protocol-version-header; basic/lifecycle#version-negotiation)
            if self.revision.version_header:
                headers[VERSION] = self.revision.name
        return headers


@dataclass
class _Position:
    """The position in an event stream, from one connection to the next.

    Attributes:
        last_id: of the last event; "" before, and behind an event without one.
        retry: milliseconds to wait before the next connection.
        moved: whether this connection has brought an event. began: when its stream did.
    """

    last_id: str = ""
    retry: int = _RETRY
    moved: bool = False
    began: float = 0.0


# -- the transports ----------------------------------------------------------------------------------------------------


class HttpTransport:
    """The half that both HTTP transports of a client share: requests that a trace is shown, and one message at a time.

    Args:
        url: http or https.
        max_message: bytes that an inbound message may have.
        options: see `HttpOptions`.
    """

    def __init__(self, url: str, max_message: int, options: HttpOptions) -> None:
        self._url, self._options, self._tap = checked_url(url), checked_options(options), options.get("tap")
        self._limit = max_message
        self._auth: Authorizer | None = None
        if options.get("auth") is not None:
            from mcp_ref.pages.basic.authorization.client import bind

            self._auth = bind(options["auth"], self._url)
        # Guards no field: it is held for a note and what belongs to it, so that `receive` has one message at a time.
        self._routing = threading.Lock()
        self._lock = threading.Lock()  # guards the fields below, and those of the two classes that say so
        self._receive: Receive = lambda text: None
        self._lost: Lost | None = None
        self._http: HttpClient | None = None  # from `start` on
        self._closed = False
        self._fetched = 0  # the number by which a trace knows what is fetched for authorization at the moment

    def start(self, receive: Receive, lost: Lost) -> None:
        """Make the HTTP client, and remember both; nothing is sent, and no thread started. See `Transport.start`.

        Raises: TransportClosed: it was closed before, or no request can be sent to such a URL. RuntimeError: it was
            started before.
        """
        # Imported here: a program that uses no HTTP does not pay for `requests`.
        from mcp_ref.kit.http.http_client import HttpClient

        with self._lock:
            if self._closed:
                raise TransportClosed(CLOSED)
            if self._http is not None:
                raise RuntimeError("a transport is started once")
            self._receive, self._lost, self._http = receive, lost, HttpClient(self._url, self._options)

    def _begin(self, call: HttpCall) -> None:
        """Begin a call, which is to be ended by `_end_call`. Raises: TransportClosed: not started; Interrupted."""
        if self._http is None:
            raise TransportClosed(CLOSED if self._closed else "the transport has not been started")
        # First begun, then looked whether it may: `close` does it the other way round.
        self._http.begin(call)
        if self._closed:
            raise Interrupted(CLOSED)

    def _end_call(self, call: HttpCall) -> None:
        if self._http is not None:
            self._http.end(call)

    def _open(
        self, call: HttpCall, method: str, headers: Mapping[str, str], text: bytes | None = None, message: Any = None,
        url: str | None = None, agreed: Revision | None = None, operation: str = "",
    ) -> HttpResponse:  # fmt: skip
        """Send a request, which is shown to the trace; the reply is not yet.

        Args:
            agreed: the revision that is spoken, if that is settled.
            operation: what a user waits for, if the message does not say it.

        Raises: HttpStatusError: the server accepts no token of ours; and as `HttpClient.open` does.
        """
        http = self._http
        assert http is not None
        authorized = None if self._auth is None else self._auth.request(
            http, call, method, url or self._url, headers, text, operation or message, agreed, self._note_fetched
        )  # fmt: skip
        while True:
            sent = headers if authorized is None else {**headers, **authorized.headers()}
            if self._tap is not None:
                call.exchange = self._tap.exchange()
                facts = {"exchange": call.exchange, "method": method, "headers": {**http.headers, **sent}}
                self._note("send", facts, message)
            reply = http.open(call, method, sent, text, url=url)
            refused = reply.status in (401, 403)
            if not refused or authorized is None or not authorized.again(reply, partial(self._deliver, reply)):
                return reply
            reply.close()

    def _note_fetched(self, direction: Literal["send", "receive"], facts: Mapping[str, Any]) -> None:
        """Show the trace a request that is sent for authorization, to any server, or its reply."""
        if self._tap is not None:
            if direction == "send":
                self._fetched = self._tap.exchange()
            self._note(direction, {"exchange": self._fetched, **facts})

    def _deliver(self, reply: HttpResponse, text: bytes = b"", event: Event | None = None, noted: bytes = b"") -> None:
        """Hand the message that a reply, or an event of it, brings, if any, to the peer, which only routes.

        A trace is shown both, and what was `noted` instead of the message.
        """
        with self._routing:
            if self._tap is not None:
                facts = {"exchange": reply.exchange, "method": reply.method, "status": reply.status}
                facts |= {"headers": reply.headers} if event is None else event_facts(event)
                self._tap.note("receive", noted or text or None, facts)
            if text:
                self._receive(text)

    def _deliver_events(self, reply: HttpResponse, last_id: str = "") -> Iterator[Event]:
        """Yield each event of a reply, as it comes, after its message, if it has one, was delivered.

        Raises: RemoteProtocolError (an event is too long), and as `HttpResponse.read` does.
        """
        parser = EventParser(self._limit, last_id)
        try:
            while chunk := reply.read():
                for event in parser.feed(chunk):
                    self._deliver(reply, event.data.encode() if event.event == "message" else b"", event)
                    yield event
        except EventTooLong as problem:
            raise RemoteProtocolError(f"the server's event stream: {problem}") from None

    def _note(self, direction: Literal["send", "receive"], facts: Mapping[str, Any], message: Any = None) -> None:
        if self._tap is not None:
            self._tap.note(direction, message or None, facts)

    def _note_stream_end(self, reply: HttpResponse, ended: str) -> None:
        """Show the trace who has ended an event stream: "server", "client", or "broken"."""
        facts = {"exchange": reply.exchange, "method": reply.method, "end": ended}
        self._note("send" if ended == "client" else "receive", facts)


class HttpClientTransport(HttpTransport):
    """The client's side of Streamable HTTP.

    Args:
        url: of the server's endpoint, http or https.
        max_message: bytes that an inbound message may have.
        reconnects: attempts in a row to go on with an event stream before it is given up.
        options: `headers`, `verify`, `cert`, `proxies`, `trust_env`, `session`, `tap`: see `HttpOptions`.

    Attributes:
        mirror: None, or what makes the headers that repeat what a message says. While it is set, each message goes out
            in the shape of the stateless era, with these headers and nothing of a session. Any thread may set it, at
            any time.
        refused: how the latest request before an agreement was refused by HTTP, or None: whether to try something
            older. In the stateless era, without an agreement, it is the latest request. It is set also where the
            body held a JSON-RPC error, which is then what the request raised; an error that came with 200 is raised
            alike, and this is None.

    Connections are kept alive and shared. A request is sent again only when a kept connection was closed before it had
    taken all of it. A failed request does not end the transport: only `close()` does.

    Raises: ValueError: the URL is not one of http(s), or a header cannot be sent.
    Spec: basic/transports#streamable-http
    """

    name = "http"

    def __init__(
        self, url: str, *, max_message: int = MAX_MESSAGE, reconnects: int = 5, **options: Unpack[HttpOptions]
    ) -> None:
        super().__init__(url, max_message, options)
        self.mirror: Mirror | None = None
        self.refused: HttpStatusError | None = None
        self._reconnects = reconnects
        self._session = ClientSession()  # under the lock, as the next one is
        self._listener: threading.Thread | None = None
        self._closing = threading.RLock()  # guards no field: it is held while the session and the connections are ended

    # -- beginning

    @property
    def session_id(self) -> str | None:
        """The id that the server assigned, or None. It is a secret: whoever knows it can speak in this session."""
        return self._session.id

    @property
    def hangs_up(self) -> bool:
        """Return whether a request is given up by the end of its connection: in the stateless era. See `Transport`."""
        return self.mirror is not None

    def agreed(self, revision: Revision) -> None:
        """Take the revision that both sides agreed on: its headers go with every request from now on.

        To be called when `initialize` was answered, before `notifications/initialized` is sent.
        """
        with self._lock:
            self._session = ClientSession(revision, self._session.id if revision.session_header else None)

    def opened(self, revision: Revision) -> None:
        """Open the standing stream; to be called when `notifications/initialized` was sent.

        Goes out: GET, in the thread `mcp-sse-listen`. A server without such a stream (405, or any 4xx) is as good.

        Blocks: until the stream is open or refused, so that nothing is missed from then on; at most 5 seconds. A server
            that is slower is waited for in the background.
        Spec: basic/transports#listening-for-messages-from-the-server
        """
        self.agreed(revision)
        call, settled = HttpCall(Deadline(None)), threading.Event()
        with self._lock:
            if self._closed or self._listener is not None or revision.http != "streamable":
                return
            # Before the thread starts: `close` cuts what has begun.
            self._begin(call)
            # Daemon: a program that ends without close() must end, though the server has not.
            self._listener = threading.Thread(
                target=self._listen, args=(call, settled), name="mcp-sse-listen", daemon=True
            )
            self._listener.start()
        settled.wait(_OPENING_TIMEOUT)

    def _listen(self, call: HttpCall, settled: threading.Event) -> None:
        """Read the standing stream, in the thread `mcp-sse-listen`: it ends when its call is cut."""
        try:
            # MAY: a client listens with GET (basic/transports#listening-for-messages-from-the-server)
            self._stream(call, self._session, None, settled, lambda _: False)
        except Interrupted:
            log.debug("the standing event stream was closed by this side")
        except McpError as problem:
            log.warning("the standing event stream is given up: %s", problem)
        except Exception:
            log.exception("reading the standing event stream failed")
        finally:
            settled.set()
            self._end_call(call)

    # -- sending

    def send(self, message: JsonObject | list[JsonObject], deadline: Deadline) -> None:
        """POST a notification, a response, or a batch; what comes back for the requests of a batch is delivered.

        Blocks: until the server has accepted it, and answered the requests in it; at most until the deadline.
        Raises: TransportClosed, RequestTimeout, LocalProtocolError (it is not JSON, or in the stateless era neither a
            request nor a notification; nothing was sent), SessionExpired, HttpStatusError, RemoteProtocolError.
        """
        text, mirror, call, answered = messages.encode(message), self.mirror, HttpCall(deadline), False
        batch = message if isinstance(message, list) else []
        missing = {messages.id_key(entry["id"]) for entry in batch if "method" in entry and "id" in entry}

        def enough(arrived: bytes) -> bool:
            missing.difference_update(_ids_of_responses(arrived))
            return not missing

        try:
            self._post(call, message, text, mirror, enough)
            if missing:
                raise RemoteProtocolError(f"the server's reply lacks the response to {len(missing)} requests")
            answered = True
        except SessionExpired:
            if isinstance(message, dict) and "method" not in message and self._http is not None:
                # Whoever waits for the request with which the question came would wait in vain.
                why = (
                    "HTTP 404: the server has forgotten the session of an answer; do several processes serve this URL?"
                )
                self._http.cut_all(SessionExpired(why, sent=True))
            raise
        except Interrupted:
            raise TransportClosed(CLOSED) from None
        finally:
            self._end_post(call, message, answered or mirror is None)

    def exchange(self, message: JsonObject, pending: Pending, deadline: Deadline) -> None:
        """POST a request, and read its reply in this thread; see `Transport.exchange`.

        An event stream that ends before the response is resumed after its last event. In the stateless era it is not,
        and a request that ends without a response closes its connection at once, whatever the reason.

        Raises: SessionExpired (not carried out; it may be sent again in another session), AnswerLost (stateless era: it
            may have been carried out), HttpStatusError, TransportClosed, RequestTimeout, RemoteProtocolError,
            LocalProtocolError (the message, or its headers, cannot be sent).
        """
        text, mirror = messages.encode(message), self.mirror
        call = HttpCall(deadline, on_written=partial(setattr, pending, "sent", True))
        pending.on_give_up = partial(call.cut, Interrupted("given up"))
        try:
            # It may have been given up before.
            if not pending.take():
                self._post(call, message, text, mirror, lambda _: pending.take())
        except Interrupted:
            if not pending.take():
                raise TransportClosed(CLOSED) from None
        finally:
            pending.on_give_up = None
            self._end_post(call, message, pending.answered or mirror is None)

    def _post(self, call: HttpCall, message: Any, text: bytes, mirror: Mirror | None, enough: _Enough) -> None:
        """POST a message, and deliver what comes back, until that is enough. Raises: see `exchange`."""
        request_id = message.get("id") if isinstance(message, dict) and "method" in message else None
        # 1. The headers.
        if mirror is None:
            session = self._session
            headers: Mapping[str, str] = session.headers()
        elif isinstance(message, dict) and "method" in message:
            # Without revision and id no session expires, none begins, and nothing can be resumed in it.
            session = ClientSession()
            # MUST: each POST has MCP-Protocol-Version, Mcp-Method and what else repeats the message
            # (basic/transports/streamable-http#sending-messages)
            headers = mirror(message)
        else:
            # MUST: the body of a POST is one request or notification
            # (basic/transports/streamable-http#sending-messages)
            raise LocalProtocolError("a client sends one request or notification at a time, and nothing else")
        # MUST: Accept lists application/json and text/event-stream (basic/transports#sending-messages-to-the-server)
        headers = {"Accept": f"{JSON}, {CONTENT_TYPE}", "Content-Type": JSON, **headers}
        try:
            # 2. Send.
            self._begin(call)
            reply = self._open(call, "POST", headers, text, message, agreed=session.revision)
            # 3. Before the agreement: remember how it was received, and the session that has begun.
            if session.revision is None:
                self.refused = None if reply.status < 300 else reply.refusal("a message", b"")
                assigned = reply.headers.get(SESSION_ID) if mirror is None and self.refused is None else None
                # MUST: a session id consists of visible ASCII (basic/transports#session-management)
                if assigned is not None and not _VISIBLE.fullmatch(assigned):
                    raise RemoteProtocolError(f"the server's session id is not visible ASCII: {assigned[:80]!r}")
                with self._lock:
                    if self._session is session and assigned is not None:
                        self._session = session._replace(id=assigned)
            # 4. Refused: with an error that answers the request, or without.
            if not 200 <= reply.status < 300:
                enough(self._deliver_refusal(reply, session, request_id, mirror is not None))
                return
            # 5. Accepted, without anything to come back.
            if request_id is None and not isinstance(message, list):
                self._deliver(reply)
                return
            # 6. MUST: support JSON and an event stream as the reply (basic/transports#sending-messages-to-the-server)
            if reply.content_type == CONTENT_TYPE:
                self._stream(call, session, reply, threading.Event(), enough)
                return
            body = reply.body(self._limit) if reply.content_type == JSON else reply.read()
            if reply.status == 200 and not (body or reply.measured):
                raise TransportClosed("the reply broke off in its headers")
            if reply.content_type != JSON or body.lstrip()[:1] not in (b"{", b"["):
                raise _not_a_message(reply, body)
            self._deliver(reply, body)
            if not enough(body) and request_id is not None:
                what = f"the response to {message['method']}: {str(body[:200], 'utf-8', 'replace')!r}"
                raise RemoteProtocolError(f"the server's reply lacks {what}")
        except TransportClosed as problem:
            if mirror is None or not call.written:
                raise
            raise AnswerLost(f"the answer was lost: {problem}") from problem

    def _deliver_refusal(self, reply: HttpResponse, session: ClientSession, request_id: Any, stateless: bool) -> bytes:
        """Deliver the error by which a refusal answers the request, and give its text; raise for any other refusal.

        Raises: SessionExpired, HttpStatusError; and as `HttpResponse.body` does.
        """
        # MUST: after a 404, start a new session (basic/transports#session-management)
        if reply.status == 404 and session.revision is not None and session.id is not None:
            self._deliver(reply)
            raise SessionExpired
        body = reply.body(_MAX_ERROR_BODY)
        answer = None if request_id is None else _error_in(body, request_id, reply, stateless)
        if answer is None:
            self._deliver(reply, noted=body)
            raise reply.refusal("a message", body)
        self._deliver(reply, messages.encode(answer), noted=body)
        return body

    def _end_post(self, call: HttpCall, message: Any, done: bool) -> None:
        """End a POST; in the stateless era one that has no answer yet is given up."""
        if not done:
            # MUST: close the stream to cancel (basic/patterns/cancellation#transport-specific-cancellation). Its
            # connection is not kept then, and not waited for: the server stops when it finds the end of it.
            if call.written and self._tap is not None:
                self._note("send", {"exchange": call.exchange, "hangUp": message.get("id")})
            call.hang_up()
        if self._http is not None:
            self._http.end(call)

    def _stream(
        self, call: HttpCall, session: ClientSession, reply: HttpResponse | None, settled: threading.Event,
        enough: _Enough,
    ) -> None:  # fmt: skip
        """Deliver the messages of an event stream, over as many connections as it takes, until that is enough.

        That is asked after each wait, too, since there may be news elsewhere, and after an event without a message.

        Args:
            reply: the stream that a POST has begun; None for the standing stream.
            settled: set once the stream is open, or known to be unavailable for now.

        Raises: TransportClosed (it cannot be resumed, or not any more), RemoteProtocolError (an event is too long), and
            whatever cut the call.
        """
        standing, at, failed = reply is None, _Position(), 0
        if reply is not None:
            self._deliver(reply)
        while True:
            problem, refused = self._connection(call, session, reply, at, standing, settled, enough)
            settled.set()
            if not problem:
                return
            # May it go on? A refusal is final, unless the server itself has failed.
            if 0 < refused < 500 and standing:
                # MUST: a server without this stream answers the GET with 405
                # (basic/transports#listening-for-messages-from-the-server). 404: the session is over, as the next
                # POST will find out.
                log.debug("no standing event stream: HTTP status %d", refused)
                return
            if 0 < refused < 500:
                # Not SessionExpired, though the session may be: the request was accepted, and must not be sent again.
                why = f"the server refused to resume it with HTTP status {refused}"
                raise TransportClosed(f"the event stream ended without a response, and {why}")
            if not standing and not (at.last_id and session.revision is not None and session.revision.sse_resumption):
                raise TransportClosed(f"the event stream {problem} without a response, and cannot be resumed")
            if at.moved or time.monotonic() - at.began > _STEADY:
                failed = 0
            if failed >= self._reconnects:
                raise TransportClosed(f"the event stream {problem} without a response, after {failed} reconnects")
            failed += 1
            # MUST: respect the retry field (basic/transports#sending-messages-to-the-server); longer if it fails.
            wait = max(at.retry, _MIN_RETRY) / 1000
            call.sleep(max(wait, min(_MAX_BACKOFF, wait * 2.0 ** (failed - 1))))
            if enough(b""):
                return
            reply = None

    def _connection(
        self, call: HttpCall, session: ClientSession, reply: HttpResponse | None, at: _Position, standing: bool,
        settled: threading.Event, enough: _Enough,
    ) -> tuple[str, int]:  # fmt: skip
        """Open an event stream, unless that was done, and read one connection of it to its end, or until it is enough.

        Returns: how it ended, for an error, "" if that was enough; and the HTTP status if it was refused, else 0.
        """
        at.moved, problem, refused, ended = False, "ended", 0, "client"
        at.began = time.monotonic()
        try:
            reply = reply or self._get(call, session, at.last_id, settled if standing else None)
            at.began = time.monotonic()  # it may have waited for a token
            if reply.status != 200 or reply.content_type != CONTENT_TYPE:
                refused, problem = reply.status, f"was refused with HTTP status {reply.status}"
            else:
                settled.set()
                # Events without data, or of other types, move the position only.
                for event in self._deliver_events(reply, at.last_id):
                    at.moved, at.last_id = True, event.id or ""
                    at.retry = at.retry if event.retry is None else min(event.retry, _MAX_RETRY)
                    if enough(event.data.encode() if event.event == "message" else b""):
                        return "", 0
            ended = "server"
        except TransportClosed as broke:
            if broke is call.reason:
                raise
            problem, ended = f"broke ({broke})", "broken"
        finally:
            if self._tap is not None and reply is not None and reply.content_type == CONTENT_TYPE:
                self._note_stream_end(reply, ended)
        if reply is not None:
            reply.close()
        return problem, refused

    def _get(
        self, call: HttpCall, session: ClientSession, last_id: str, unavailable: threading.Event | None
    ) -> HttpResponse:
        """Ask for the standing stream, or for the rest of a stream after an event; see `_open`.

        Args:
            unavailable: nobody waits for this stream: where its token is refused, this is set, and it opens with the
                token that somebody's call will get.
        """
        # MUST: Accept lists text/event-stream (basic/transports#listening-for-messages-from-the-server)
        headers = {"Accept": CONTENT_TYPE, **session.headers()}
        if last_id:
            # SHOULD: resume by GET with Last-Event-ID (basic/transports#resumability-and-redelivery).
            # A header goes out as latin-1: this is UTF-8, as the standard says.
            headers["Last-Event-ID"] = last_id.encode("utf-8").decode("latin-1")
        while True:
            try:
                reply = self._open(call, "GET", headers, agreed=session.revision)
                self._deliver(reply)
                return reply
            except HttpStatusError as refusal:
                if unavailable is None or self._auth is None or refusal.status != 401:
                    raise
                unavailable.set()
                self._auth.await_token(call)

    # -- ending

    def close(self, deadline: Deadline) -> None:
        """End the session with DELETE, and every connection; see `Transport.close`.

        Whoever waits for a reply gets `TransportClosed`: its call is cut, and its connection closed by the caller's own
        thread. So ends `mcp-sse-listen`, which is joined, as `mcp-http-clock` is. A second caller waits for the first.

        Blocks: at most until the deadline; 2 seconds of it, or half, are for the DELETE.
        Threads: any, also within `lost`.
        Spec: basic/transports#session-management
        """
        with self._lock:
            self._closed = True
            http, listener = self._http, self._listener
            session, self._session = self._session, ClientSession()
        try:
            # Whoever comes second waits for the first.
            with holding(self._closing, deadline, "closing"):
                if http is not None:
                    http.cut_all(Interrupted(CLOSED))
                    if listener is not None:
                        # It was cut. Before the DELETE, so that a trace has the end of its stream first.
                        has_ended(listener, deadline)
                    if session.id is not None:
                        self._end_session(http, session, deadline)
                    http.close(deadline)
        except RequestTimeout:
            return
        with self._lock:
            lost, self._lost = self._lost, None
        if lost is not None:
            lost(TransportClosed(CLOSED))

    def _end_session(self, http: HttpClient, session: ClientSession, deadline: Deadline) -> None:
        call = HttpCall(Deadline(deadline.at_most(2 * _FAREWELL_TIMEOUT) / 2))
        headers = {**session.headers(), SESSION_ID: str(session.id)}
        try:
            # SHOULD: end the session with DELETE (basic/transports#session-management)
            http.begin(call)
            reply = self._open(call, "DELETE", headers, agreed=session.revision)
            self._deliver(reply)
            log.debug("the session was ended with HTTP status %d", reply.status)
        except McpError as problem:
            # The server MAY refuse it with 405, and may be gone.
            log.debug("could not end the session: %s", problem)
        finally:
            http.end(call)


def _not_a_message(reply: HttpResponse, body: bytes) -> RemoteProtocolError:
    """Return the exception to raise for a reply that is neither JSON that could be a message, nor an event stream."""
    if reply.content_type == JSON:
        return RemoteProtocolError(f"the server's reply is not a message: {str(body[:200], 'utf-8', 'replace')!r}")
    untyped = "content without a Content-Type" if body else "no content"
    what = f"content of type {reply.content_type!r}" if reply.content_type else untyped
    return RemoteProtocolError(f"the server answered with status {reply.status} and {what}, not a message")


def _error_in(body: bytes, request_id: Any, reply: HttpResponse, stateless: bool) -> JsonObject | None:
    """Return the JSON-RPC error in the body of a refusal, as the answer to the request; None if it does not answer
    it.
    """
    asks_to_authorize = reply.status == 401 or (reply.status == 403 and "WWW-Authenticate" in reply.headers)
    try:
        error = messages.decode(body)
        if asks_to_authorize or messages.kind_of(error) != "response" or "error" not in error:
            return None
    except (Refusal, RemoteProtocolError):
        return None
    # MAY: an error without id (basic/transports#sending-messages-to-the-server)
    if error.get("id") not in (None, request_id):
        return None
    # What names no request, or comes with a status that says nothing of the server, must have a code of this era: else
    # it comes from something that speaks another one.
    aside = error.get("id") is None or reply.status in (401, 403)
    if stateless and aside and error["error"]["code"] not in _OF_STATELESS_ERA:
        return None
    return {**error, "id": request_id}


def _ids_of_responses(text: bytes) -> set[tuple[type, Any]]:
    try:
        found = messages.decode(text)
    except Refusal:
        return set()
    entries = [entry for entry in (found if isinstance(found, list) else [found]) if isinstance(entry, dict)]
    ids = [messages.readable_id(entry) for entry in entries if "method" not in entry]
    return {messages.id_key(value) for value in ids if value is not None}
