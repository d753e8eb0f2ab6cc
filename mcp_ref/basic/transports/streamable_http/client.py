"""What a trace is shown of HTTP: the request beside a message, the status, the events of a stream.

Spec:      basic/transports#streamable-http
Not here:  which headers are shown, and what is hidden of them (trace/redact)

    {"method": "POST", "headers": {...}}                  a request
    {"status": 202, "headers": {...}}                     an answer; without a message, or with the one in its body
    {"status": 200, "eventId": "s1-2", "retry": 500}      an event of a stream; without a message where it has no data
    {"hangUp": 7}                                         the end of the connection, which gives up the request 7

Each also has "exchange", the number of the HTTP request to which it belongs.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack
from urllib.parse import urlsplit

from mcp_ref import messages
from mcp_ref.basic.transports.sse import CONTENT_TYPE, EventParser, event_facts
from mcp_ref.basic.transports.transport import Inbox, Mirror, Receive, Tap
from mcp_ref.errors import (
    MODERN_ERRORS,
    AnswerLost,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    Refusal,
    RemoteProtocolError,
    SessionExpired,
    TransportClosed,
)
from mcp_ref.machinery.deadline import CLOSED, Deadline, Interrupted
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import Revision

if TYPE_CHECKING:
    from mcp_ref.machinery.http_client import Call, Http, Reply

log = logging.getLogger(__name__)

# -- resuming --------------------------------------------------------------------------------------------


_RETRY = 1000  # milliseconds to wait before connecting again, where the server does not say
_MOST = 86_400_000  # milliseconds that a server can make us wait: a day is as good as for ever
_LONGEST_RETRY = 30.0  # seconds to which the wait grows when it fails again and again


class Position:
    """How far an event stream has been read.

    Args:
        http: sends the GETs, and notes the events that have no message.
        limit: bytes that an event may have.

    Attributes:
        facts: what a trace is shown of the event that brought the message given last.
        last_id: the id of the last event that came whole; None or empty when there is nothing to resume after.
        failed: attempts in a row that brought no event.
    """

    def __init__(self, http: Http, limit: int) -> None:
        self.facts: dict[str, Any] = {}
        self._http = http
        self.last_id: str | None = None
        self.failed = 0
        self._retry = _RETRY
        self._limit = limit

    def headers(self, session: ClientSession) -> dict[str, str]:
        """The headers of a GET that opens the stream, or goes on with it."""
        # MUST: text/event-stream (basic/transports#listening-for-messages-from-the-server)
        headers = {"Accept": CONTENT_TYPE, **session.headers()}
        if self.last_id:
            # A header goes out as latin-1: this is UTF-8, as the standard says.
            headers["Last-Event-ID"] = self.last_id.encode("utf-8").decode("latin-1")
        return headers

    def connect(self, call: Call, session: ClientSession) -> Reply:
        """Send the GET; gives the reply, whatever its status. Raises: see `Http.open`."""
        headers = self.headers(session)
        self._http.note_request(call, "GET", headers)
        reply = self._http.open(call, "GET", headers)
        self._http.note_reply(reply.facts)
        return reply

    def messages(self, reply: Reply) -> Iterator[bytes]:
        """The text of each message that a connection brings, until its end.

        Other types of events are passed over, and so are events without data: those only move the position.

        Raises: TransportClosed (the connection broke), RequestTimeout, Interrupted, RemoteProtocolError (an event is
            too long).
        """
        parser = EventParser(self._limit)
        parser.last_id = self.last_id
        try:
            while chunk := reply.read():
                for event in parser.feed(chunk):
                    self.failed = 0
                    self.last_id = event.id
                    if event.retry is not None:
                        self._retry = min(event.retry, _MOST)
                    facts = {**reply.origin, **event_facts(event)}
                    if event.event == "message" and event.data:
                        self.facts = facts
                        yield event.data.encode("utf-8")
                    else:
                        self._http.note_reply(facts)
        except ValueError as problem:
            raise RemoteProtocolError(f"the server's event stream: {problem}") from None

    def pause(self, call: Call) -> None:
        """Wait for as long as the server asks, and longer each time that it fails.

        Blocks: until then, at most until the call's deadline; `Http.interrupt` ends it.
        Raises: RequestTimeout, Interrupted.
        """
        # MUST: respect the retry field (basic/transports#sending-messages-to-the-server)
        asked = self._retry / 1000
        until = time.monotonic() + max(asked, min(_LONGEST_RETRY, asked * 2.0 ** max(0, self.failed - 1)))
        while (rest := until - time.monotonic()) > 0:
            left = call.deadline.check("waiting to reconnect to an event stream")
            if call.interrupted.wait(min(rest, 3600 if left is None else left)):
                raise Interrupted(CLOSED)


# -- posting ---------------------------------------------------------------------------------------------


_ERROR_BODY = 1 << 20  # bytes that are read of a body which says why something was refused


class Post:
    """One POST and its reply. Used by one thread, which closes it.

    Args:
        session: whose headers go out.
        reconnects: attempts in a row that an event stream may fail to be resumed.
        limit: bytes that a message may have.

    Attributes:
        facts: what a trace is shown beside the message that came last.
        answered: whether all that was wanted has come; set by whoever reads, since only that one knows.
    """

    def __init__(self, http: Http, call: Call, session: ClientSession, reconnects: int, limit: int) -> None:
        self.session, self.answered = session, False
        self._headers: Mapping[str, str] = session.headers()
        self._http, self._call = http, call
        self._reconnects, self._limit = reconnects, limit
        self._reply: Reply | None = None
        self.facts: dict[str, Any] = {}

    def send(self, text: bytes, message: Any) -> Reply:
        """Send the message, and note it; gives the reply, whatever its status. Raises: see `Http.open`."""
        # MUST: both content types (basic/transports#sending-messages-to-the-server)
        headers = {"Accept": f"{JSON}, {CONTENT_TYPE}", "Content-Type": JSON, **self._headers}
        self._http.note_request(self._call, "POST", headers, message)
        self._reply = self._http.open(self._call, "POST", headers, text)
        self.facts = self._reply.facts
        return self._reply

    def close(self) -> None:
        """Be done with the reply."""
        if self._reply is not None:
            self._reply.close()
        else:
            self._http.hang_up(self._call)

    def begun(self, reply: Reply) -> ClientSession:
        """The session as a reply from before the agreement leaves it. Raises: RemoteProtocolError: a bad id."""
        return self.session.assigned(reply.headers.get(SESSION_ID)) if reply.status < 300 else self.session

    def refusal(self, reply: Reply, request_id: messages.RequestId | None) -> tuple[bytes, bytes] | None:
        """None when the message was accepted; else the error that answers it: for the peer, and as it came.

        Raises: SessionExpired, HttpStatusError (the body holds no such error, or asks to authorize); and as
            `Reply.read` does.
        """
        if 200 <= reply.status < 300:
            return None
        # MUST: start a new session (basic/transports#session-management)
        if reply.status == 404 and self.session.revision is not None and self.session.id is not None:
            self._http.note_reply(reply.facts)
            raise SessionExpired
        body = reply.body(_ERROR_BODY)
        asks_to_authorize = reply.status == 401 or (reply.status == 403 and "WWW-Authenticate" in reply.headers)
        answer = None if request_id is None or asks_to_authorize else _answer(body, request_id)
        if answer is None:
            self._http.note_reply(reply.facts, body)
            raise reply.refusal("a message", body)
        return messages.encode(answer), body

    def messages(self, reply: Reply) -> Iterator[bytes]:
        """The text of each message that comes back; b"" when there may be news elsewhere, after a wait.

        The caller stops when the response was among them: only it knows.

        Raises: RemoteProtocolError (no reply to a request), TransportClosed (the stream ended and cannot be resumed),
            RequestTimeout, Interrupted.
        """
        if reply.content_type == JSON:
            body = reply.body(self._limit)
            if body.lstrip()[:1] not in (b"{", b"["):
                raise RemoteProtocolError(f"the server's reply is no message: {str(body[:200], 'utf-8', 'replace')!r}")
            yield body
        elif reply.content_type == CONTENT_TYPE:
            yield from self._stream(reply)
        else:
            # MUST: one of the two (basic/transports#sending-messages-to-the-server)
            what = f"content of type {reply.content_type!r}" if reply.content_type else "no content"
            raise RemoteProtocolError(f"the server answered with status {reply.status} and {what}: that is no message")

    def _stream(self, reply: Reply) -> Iterator[bytes]:
        position = Position(self._http, self._limit)
        current: Reply | None = reply
        while True:
            try:
                if current is not None:
                    for text in position.messages(current):
                        self.facts = position.facts
                        yield text
                found = "ended"
            except TransportClosed as problem:
                found = f"broke ({problem})"
            if current is not None:
                current.close()
            self._check_resumable(position, found)
            position.failed += 1
            position.pause(self._call)
            yield b""
            current = self._resume(position)

    def _check_resumable(self, position: Position, found: str) -> None:
        revision = self.session.revision
        if not position.last_id or revision is None or not revision.sse_resumption:
            raise TransportClosed(f"the event stream {found} without a response, and cannot be resumed")
        if position.failed >= self._reconnects:
            raise TransportClosed(f"the event stream {found} without a response, after {position.failed} reconnects")

    def _resume(self, position: Position) -> Reply | None:
        """The rest of the stream, over a new connection; None when the attempt failed and another may not."""
        self._reply = None
        try:
            reply = position.connect(self._call, self.session)
        except TransportClosed as problem:
            log.debug("could not reconnect to an event stream: %s", problem)
            return None
        self._reply = reply
        if reply.status == 200 and reply.content_type == CONTENT_TYPE:
            return reply
        reply.close()
        if reply.status >= 500:
            return None
        # Not SessionExpired, though the session may be: the request was accepted, so it must not be sent again.
        refused = f"the server refused to resume it with HTTP status {reply.status}"
        raise TransportClosed(f"the event stream ended without a response, and {refused}")


def _answer(body: bytes, request_id: messages.RequestId) -> dict[str, Any] | None:
    """The JSON-RPC error in the body of a refusal, as the answer to the request that was refused."""
    try:
        error = messages.decode(body)
        if messages.kind_of(error) != "response" or "error" not in error:
            return None
    except (Refusal, RemoteProtocolError):
        return None
    # MAY: an error without id (basic/transports#sending-messages-to-the-server)
    return {**error, "id": request_id} if error.get("id") in (None, request_id) else None


# -- stateless posting -----------------------------------------------------------------------------------


_OF_THIS_ERA = MODERN_ERRORS | {-32601, -32602, -32603}
"""Codes by which a server of this era refuses a request that is well-formed."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")


class StatelessPost(Post):
    """One POST and its reply, in the stateless shape. Used by one thread, which closes it.

    Args:
        message: what will be sent.
        mirror: makes the headers that repeat what the message says.
        limit: bytes that a message may have.

    Raises: LocalProtocolError: the message is neither a request nor a notification, or a header cannot be sent as it
        is; and whatever `mirror` raises. Nothing was sent.
    """

    def __init__(self, http: Http, call: Call, message: Any, mirror: Mirror, limit: int) -> None:
        # MUST: one request or notification; MUST NOT: responses (basic/transports/streamable-http#sending-messages)
        if not isinstance(message, dict) or "method" not in message:
            raise LocalProtocolError("a client sends one request or notification at a time, and nothing else")
        # A session without revision and id: so none expires, none begins, and nothing can be resumed in it.
        super().__init__(http, call, ClientSession(), 0, limit)
        # MUST: on each POST (basic/transports/streamable-http#sending-messages)
        self._headers = _checked(mirror(message))
        self._given_up = message.get("id")

    def send(self, text: bytes, message: Any) -> Reply:
        """Send the message; see `Post.send`. Raises: AnswerLost too: it was sent, and no reply came."""
        try:
            return super().send(text, message)
        except TransportClosed as problem:
            if self._call.sent:
                raise _lost(problem) from problem
            raise

    def begun(self, reply: Reply) -> ClientSession:
        """No session. An id that a server assigns nevertheless is not looked at."""
        return self.session

    def refusal(self, reply: Reply, request_id: messages.RequestId | None) -> tuple[bytes, bytes] | None:
        """The error that answers the message; see `Post.refusal`.

        Raises: HttpStatusError too: the body holds an error that names no request and has no code of this era, so it
            comes from something that speaks another one; or it goes with a status that says nothing of the server.
        """
        refusal = super().refusal(reply, request_id)
        if refusal is not None:
            error = messages.decode(refusal[1])
            aside = error.get("id") is None or reply.status in (401, 403)
            if aside and error["error"]["code"] not in _OF_THIS_ERA:
                self._http.note_reply(reply.facts, refusal[1])
                raise reply.refusal("a message", refusal[1])
        return refusal

    def messages(self, reply: Reply) -> Iterator[bytes]:
        """The text of each message that comes back; see `Post.messages`. Raises: AnswerLost too: it broke off."""
        try:
            yield from super().messages(reply)
        except TransportClosed as problem:
            raise _lost(problem) from problem

    def close(self) -> None:
        """Be done with the reply; what has not been answered is given up thereby.

        The connection is not kept then, and not waited for: the server stops when it finds the end of it.
        """
        # MUST: close the stream to cancel (basic/patterns/cancellation#transport-specific-cancellation)
        if not self.answered:
            if self._call.sent:
                self._http.note_hang_up(self._call, self._given_up)
            self._http.hang_up(self._call)
        super().close()


def _lost(problem: TransportClosed) -> AnswerLost:
    return AnswerLost(f"the answer was lost: {problem}")


def _checked(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The same headers; LocalProtocolError for one that would be sent as something else, or not at all."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            # The value itself is not shown: it may be a secret.
            raise LocalProtocolError(f"the header {name!r}, or its value, cannot be sent as it is")
    return headers


# -- listening -------------------------------------------------------------------------------------------


_STEADY = 5.0  # seconds after which a stream that ends without an event has not failed: something between cuts it


class Listener:
    """The thread `mcp-sse-listen`, which reads the standing stream of one session.

    Args:
        deliver: takes the text of each message, and what a trace is shown beside it.
        reconnects: failures in a row after which it gives up.
        limit: bytes that a message may have.

    Attributes:
        settled: set once the stream is open, or it is known that there is none for now.
    """

    def __init__(
        self, http: Http, session: ClientSession, deliver: Callable[[bytes, Any], None], reconnects: int, limit: int
    ) -> None:
        self.settled = threading.Event()
        self._http, self._session, self._deliver = http, session, deliver
        self._reconnects = reconnects
        self._position = Position(http, limit)
        self._call = http.call(Deadline(None))
        # Daemon: a program that ends without close() must end, though the server has not.
        self._thread = threading.Thread(target=self._run, name="mcp-sse-listen", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Shut its connection down, so that the thread ends. Threads: any."""
        self._http.interrupt(self._call)

    def join(self, deadline: Deadline) -> None:
        """Wait for the thread, which waits for nothing but its socket and an event once `stop` was called."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(deadline.left())

    def _run(self) -> None:
        try:
            self._listen()
        except Interrupted:
            log.debug("the standing event stream was closed by this side")
        except McpError as problem:
            log.warning("the standing event stream is given up: %s", problem)
        except Exception:
            log.exception("reading the standing event stream failed")
        finally:
            self.settled.set()

    def _listen(self) -> None:
        position = self._position
        while True:
            began = time.monotonic()
            position.failed += 1
            if not self._read_once():
                return
            self.settled.set()
            if time.monotonic() - began > _STEADY:
                position.failed = 0
            if position.failed > self._reconnects:
                log.warning("the standing event stream is given up after %d failures in a row", position.failed)
                return
            position.pause(self._call)

    def _read_once(self) -> bool:
        """Read over one connection, until it ends; False when the server offers no stream (any more)."""
        reply: Reply | None = None
        try:
            reply = self._position.connect(self._call, self._session)
            if not _is_stream(reply):
                # MAY: 405; and 404 tells that the session is over, which the next POST finds too
                log.debug("no standing event stream: HTTP status %d, %r", reply.status, reply.content_type)
                return reply.status >= 500
            self.settled.set()
            for text in self._position.messages(reply):
                self._deliver(text, self._position.facts)
        except TransportClosed as problem:
            log.debug("the standing event stream broke: %s", problem)
        finally:
            if reply is not None:
                reply.close()
        return True


def _is_stream(reply: Reply) -> bool:
    return reply.status == 200 and reply.content_type == CONTENT_TYPE


# -- client session --------------------------------------------------------------------------------------


JSON = "application/json"
SESSION_ID = "Mcp-Session-Id"
VERSION = "MCP-Protocol-Version"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_OURS = frozenset(
    ("accept", "accept-encoding", "connection", "content-length", "content-type", "last-event-id")
    + ("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "transfer-encoding")
)
_OUR_PREFIX = "mcp-param-"


class HttpOptions(TypedDict, total=False):
    """What the client's HTTP transports are told beside the URL; each may be left out.

    Attributes:
        headers: sent with every request, such as Authorization.
        verify: whether certificates are checked (they are), or the path of a CA bundle.
        cert: the client's certificate: the path of a file with it and its key, or the two paths.
        proxies: by scheme of the URL, such as {"https": "http://proxy:3128"}; SOCKS proxies are refused.
        trust_env: whether the environment may name proxies and a CA bundle (HTTPS_PROXY, REQUESTS_CA_BUNDLE, ...);
            it may not, unless this says so.
        tap: is shown every message.
    """

    headers: Mapping[str, str] | None
    verify: bool | str
    cert: str | tuple[str, str] | None
    proxies: Mapping[str, str] | None
    trust_env: bool
    tap: Tap | None


class ClientSession(NamedTuple):
    """One session, as far as it is known.

    Attributes:
        revision: what was agreed on; None before.
        id: what the server assigned with the answer to `initialize`, or None.
    """

    revision: Revision | None = None
    id: str | None = None

    def headers(self) -> dict[str, str]:
        """The headers that every request of the session has. Before the agreement there are none."""
        headers: dict[str, str] = {}
        if self.revision is None:
            return headers
        # MUST: on all subsequent requests (basic/transports#session-management)
        if self.id is not None:
            headers[SESSION_ID] = self.id
        # MUST: on all subsequent requests (basic/transports#protocol-version-header)
        if self.revision.version_header:
            headers[VERSION] = self.revision.name
        return headers

    def agreed(self, revision: Revision) -> ClientSession:
        """The same session, once the two sides have agreed on a revision."""
        return self._replace(revision=revision, id=self.id if revision.session_header else None)

    def assigned(self, value: str | None) -> ClientSession:
        """The same session with the id that came with a reply to `initialize`.

        Raises: RemoteProtocolError: it has other characters than visible ASCII.
        """
        # MUST: only visible ASCII (basic/transports#session-management)
        if value is not None and not _VISIBLE.fullmatch(value):
            raise RemoteProtocolError(f"the server assigned a session id that is not visible ASCII: {value[:80]!r}")
        return self._replace(id=value)


def checked_url(url: str) -> str:
    """The URL without its fragment; ValueError when it is none of http or https."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the URL of a server begins with http:// or https:// and a host, unlike {url!r}")
    return parts._replace(fragment="").geturl()


def checked_options(options: HttpOptions) -> HttpOptions:
    """A copy of the options, with a copy of the headers.

    Raises: TypeError: there is no such option. ValueError: a header cannot be sent, or a proxy is of SOCKS.
    """
    if unknown := options.keys() - HttpOptions.__annotations__.keys():
        raise TypeError(f"unexpected keyword argument: {', '.join(sorted(unknown))}")
    if any(proxy.lower().startswith("socks") for proxy in (options.get("proxies") or {}).values()):
        raise ValueError("SOCKS proxies are not supported")
    return {**options, "headers": checked_headers(options.get("headers"))}


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of a user's headers.

    Raises: ValueError: a name is none, a value has a line break or cannot be sent as it is, or the transport sets
        this header itself.
    """
    for name, value in (headers or {}).items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"this is not the name of a header: {name!r}")
        if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIX):
            raise ValueError(f"the header {name} is set by the transport")
        # The value itself is not shown: it may be a secret.
        if value != value.strip() or any(character in value for character in "\r\n\0") or not _is_latin_1(value):
            raise ValueError(f"the value of the header {name} cannot be sent: a line break, white space around it, ...")
    return dict(headers or {})


def _is_latin_1(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


# -- client ----------------------------------------------------------------------------------------------


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
        from mcp_ref.machinery.http_client import Http

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
                inbox.sent = True
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
            http.note_request(call, "DELETE", headers)
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
