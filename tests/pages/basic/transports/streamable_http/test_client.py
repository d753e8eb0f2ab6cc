"""basic/transports#streamable-http: the client's side, against servers that are scripted byte by byte."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import queue
import socket
import struct
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Self

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter

from mcp_ref.errors import (
    AnswerLost,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    SessionExpired,
    TransportClosed,
)
from mcp_ref.kit.http import http_client
from mcp_ref.kit.http.http_call import HttpCall
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports.http_sse import SseClientTransport
from mcp_ref.pages.basic.transports.streamable_http import client as transports
from mcp_ref.pages.basic.transports.streamable_http.client import HttpClientTransport
from mcp_ref.pages.basic.transports.streamable_http.headers import mirror
from mcp_ref.revisions import find_revision
from tests.pages.basic.transports.collector import WAIT, Collector, in_thread, soon

from .scripted import (
    END,
    STREAM_HEAD,
    Asked,
    ScriptedServer,
    Wire,
    chunk,
    content,
    event,
    head,
    result,
    status,
    stream,
    then,
)

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}
ASSIGNED = content(result(), "Mcp-Session-Id: abc")
NEWEST = find_revision("2025-11-25")


pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


class Row:
    """A request of a connection, as its transport sees it."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.on_give_up: Callable[[], None] | None = None
        self.sent = False
        self.given_up: McpError | None = None
        self.found: list[dict[str, Any]] = []
        self.arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()  # as `found`, for another thread

    def take(self, deadline: Deadline | None = None) -> bool:
        assert deadline is None, "over HTTP nothing waits here"
        while not (self.queue.empty() or self.answered or self.given_up):
            item = self.queue.get()
            if isinstance(item, McpError):
                self.given_up = item
            else:
                self.found.append(item)
                self.arrived.put(item)
        return self.answered or self.given_up is not None

    @property
    def answered(self) -> bool:
        return bool(self.found) and "method" not in self.found[-1]

    def give_up(self, reason: McpError) -> None:
        self.queue.put(reason)
        if self.on_give_up is not None:
            self.on_give_up()


class Client(Collector):
    """A transport, and as much of a peer as it needs."""

    def __init__(self, server: ScriptedServer | str, **options: Any) -> None:
        super().__init__()
        self.transport = HttpClientTransport(server if isinstance(server, str) else server.url, **options)
        self.inboxes: dict[Any, Row] = {}

    def __enter__(self) -> Self:
        self.transport.start(self.receive, self.lost)
        return self

    def __exit__(self, *exc: object) -> None:
        self.transport.close(soon())
        assert self.ends == 1

    def receive(self, text: bytes) -> None:
        super().receive(text)
        message = json.loads(text)
        if isinstance(message, dict):
            token = message.get("params", {}).get("progressToken")
            inbox = self.inboxes.get(token if "method" in message else message.get("id"))
            if inbox is not None:
                inbox.queue.put(message)

    def call(
        self,
        message: dict[str, Any] = CALL,
        timeout: float | None = WAIT,
        inbox: Row | None = None,
        deadline: Deadline | None = None,
    ) -> Any:
        """All that belongs to the request, the response last."""
        self.inboxes[message["id"]] = inbox = inbox or Row()
        self.transport.exchange(message, inbox, deadline or Deadline(timeout))
        assert inbox.on_give_up is None
        if inbox.given_up is not None:
            raise inbox.given_up
        return inbox.found

    def begin(self, message: dict[str, Any] = CALL, deadline: Deadline | None = None) -> tuple[Row, Callable[[], Any]]:
        """A request that is made in a thread of its own, and what waits for its end."""
        inbox = Row()
        return inbox, in_thread(lambda: self.call(message, inbox=inbox, deadline=deadline))

    def open(self, revision: str = "2025-11-25", listen: bool = False) -> None:
        """Initialize, as far as a transport sees it; where it is to listen too, do that."""
        self.call(INITIALIZE)
        self.transport.agreed(find_revision(revision))
        if listen:
            self.transport.opened(find_revision(revision))


# -- sending -------------------------------------------------------------------------------------------------------


def test_a_message_is_a_post_that_accepts_json_and_event_streams() -> None:
    with ScriptedServer(post=content(result())) as server, Client(server, headers={"X-Key": "k"}) as client:
        assert client.call() == [result()]
        asked = server.request("POST")
    assert asked.path == "/mcp"
    assert asked.json() == CALL
    assert asked.headers["accept"] == "application/json, text/event-stream"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["x-key"] == "k"
    assert "mcp-session-id" not in asked.headers
    assert "mcp-protocol-version" not in asked.headers


@pytest.mark.usefixtures("an_end_is_waited_for_long")
@pytest.mark.parametrize("answer", [status(202), status(200), head(204, length=None)])
def test_a_notification_is_accepted_without_a_body(answer: bytes) -> None:
    with ScriptedServer(post=answer) as server, Client(server) as client:
        client.transport.send(NOTE, soon())
        client.transport.send(NOTE, soon())
        assert [server.request().connection, server.request().connection] == [1, 1]


def test_a_batch_delivers_the_responses_of_its_reply_which_must_lack_none() -> None:
    replies = [content([result(1), result(2)]), stream(event(result(2)), event(result(1))), content([result(1)])]
    batch = [CALL, {**CALL, "id": 2}, NOTE]
    with ScriptedServer(post=replies) as server, Client(server) as client:
        for _ in range(2):
            client.transport.send(batch, soon())
        assert client.message() == [result(1), result(2)]
        assert [client.message(), client.message()] == [result(2), result(1)]
        with pytest.raises(RemoteProtocolError, match="lacks the response to 1 requests"):
            client.transport.send(batch, soon())


URL = "http://127.0.0.1/mcp"


@pytest.mark.parametrize("transport", [HttpClientTransport, SseClientTransport])
def test_both_transports_take_the_same_options_and_refuse_what_nothing_can_be_sent_with(transport: Any) -> None:
    given = {"headers": {"X-Key": "k"}, "verify": False, "cert": None, "proxies": {}, "trust_env": True, "tap": None}
    transport(URL, max_message=1000, **given)
    for url in ("127.0.0.1:80", "ftp://host/", "http://"):
        with pytest.raises(ValueError, match="must begin with http:// or https:// and a host"):
            transport(url)
    for name, value in (("X-A", "a\r\nX-B: b"), ("X A", "a"), ("X-A", " a"), ("X-A", "\u20ac")):
        with pytest.raises(ValueError, match="header"):
            transport(URL, headers={name: value})
    for name in ("Accept", "mcp-name", "Mcp-Param-Region"):
        with pytest.raises(ValueError, match="set by the transport"):
            transport(URL, headers={name: "x"})
    with pytest.raises(TypeError, match="unexpected keyword argument: proxy"):
        transport(URL, proxy="http://proxy/")
    with pytest.raises(ValueError, match="SOCKS"):
        transport(URL, proxies={"http": "socks5://proxy/"})
    with requests.Session() as session, pytest.raises(ValueError, match="set them there"):
        transport(URL, session=session, verify=False)


# -- replies -------------------------------------------------------------------------------------------------------


def test_an_event_stream_is_read_as_it_comes() -> None:
    seen = threading.Event()

    def answer(wire: Wire, asked: Asked) -> None:
        wire.send(STREAM_HEAD, chunk(b": hello\n\n"), event(PROGRESS))
        assert seen.wait(WAIT)
        wire.send(event(result()), END)

    with ScriptedServer(post=answer) as server, Client(server) as client:
        inbox, join = client.begin()
        assert inbox.arrived.get(timeout=WAIT) == PROGRESS
        seen.set()
        assert inbox.arrived.get(timeout=WAIT) == result()
        join()


# Interim responses (RFC 9110 15.2), each with what may stand in its head.
INTERIM = {
    "100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "102": b"HTTP/1.1 102 Processing\r\nX-Progress: 7\r\nX-Progress: 8\r\n\r\n",
    "103": b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nContent-Length: 70\r\n\r\n",
    "104, without a reason": b"HTTP/1.1 104\r\nTransfer-Encoding: chunked\r\n\r\n",
}


def in_pieces(whole: bytes) -> Callable[[Wire, Asked], bool]:
    """An answer that comes a few bytes at a time."""

    def answer(wire: Wire, asked: Asked) -> bool:
        wire.send(*(whole[at : at + 7] for at in range(0, len(whole), 7)))
        return True

    return answer


@pytest.mark.usefixtures("an_end_is_waited_for_long")
@pytest.mark.parametrize("own", [False, True], ids=["ours", "a session of the user's"])
@pytest.mark.parametrize("before", [*INTERIM.values(), b"".join(INTERIM.values()) * 25], ids=[*INTERIM, "100 of them"])
def test_interim_responses_are_read_past_and_nothing_is_sent_twice(before: bytes, own: bool) -> None:
    answers = [before + content(result()), in_pieces(before + stream(event(result(2)))), before + status(202)]
    with ScriptedServer(post=answers) as server, requests.Session() as session:
        with Client(server, **({"session": session} if own else {})) as client:
            assert client.call() == [result()]
            assert client.call({**CALL, "id": 2}) == [result(2)]
            client.transport.send(NOTE, soon())
        assert [server.request("POST").connection for _ in answers] == [1, 1, 1], "its connection is kept, too"
        assert server.asked.empty()


def _packed(wire: Wire, asked: Asked) -> None:
    """Zeros without end, a thousandth of their size."""
    packer = zlib.compressobj(wbits=31)
    zeros = b" " * (1 << 20)
    wire.send(head(200, "Content-Type: application/json", "Content-Encoding: gzip", length=None))
    wire.send(packer.compress(zeros) + packer.flush(zlib.Z_SYNC_FLUSH))
    more = packer.compress(zeros) + packer.flush(zlib.Z_SYNC_FLUSH)
    while True:
        wire.send(more)


def endless(*pieces: bytes) -> Callable[[Wire, Asked], None]:
    """An answer whose last piece is said again and again."""

    def answer(wire: Wire, asked: Asked) -> None:
        wire.send(*pieces)
        with contextlib.suppress(OSError):
            while True:
                wire.send(pieces[-1])

    return answer


JSON = "Content-Type: application/json"
WRONG: dict[str, tuple[Any, str]] = {
    "a request is not merely accepted": (status(202), "status 202 and no content"),
    "there is content": (status(200), "status 200 and no content"),
    "it is of a type": (status(200, body=b"{}"), "status 200 and content without a Content-Type"),
    "it is JSON or an event stream": (status(200, "Content-Type: text/html", body=b"<p>"), "text/html"),
    "it is a message": (status(200, JSON, body=b"hello"), "is not a message: 'hello'"),
    "which is quoted": (status(200, JSON, body=b'{"a": NaN}'), 'lacks the response to tools/call: \'{"a": N'),
    "it is the response": (content(result(77)), "lacks the response to tools/call"),
    "it is bounded": (content(result(text="x" * 5000)), "more than 1000 bytes"),
    "also if it has no end": (endless(head(200, JSON, length=None), b"x" * 10_000), "more than 1000 bytes"),
    "an event is bounded": (stream(event(result(text="x" * 5000))), "more than 1000 bytes"),
    "it is not encoded": (_packed, "encoded with 'gzip', which nobody asked for"),
    "a session id has no blank": (content(result(), "Mcp-Session-Id: a b"), "visible ASCII"),
    "a session id is ASCII": (content(result(), "Mcp-Session-Id: \xe9"), "visible ASCII"),
    "a session id is visible": (content(result(), "Mcp-Session-Id: a\x7f"), "visible ASCII"),
    "it leads to no other host": (status(307, "Location: http://localhost:1/mcp"), "redirects to"),
    "it leads to no other scheme": (status(308, "Location: https://127.0.0.1/"), "redirects to"),
    "it leads to no other method": (status(302, "Location: /x"), "redirects to"),
    "it leads to a URL": (status(307, "Location: http://[::1"), "redirects to"),
    "it leads somewhere": (status(307, "Location: /again"), "more than 3 times"),
    "it begins": (endless(b"".join(INTERIM.values())), "100 interim responses"),
}
"""What must hold of the reply to a request; an answer of which it does not; and what is said then."""


@pytest.mark.parametrize(("answer", "says"), WRONG.values(), ids=WRONG)
def test_a_reply_that_is_wrong_is_refused_and_nothing_is_sent_again(answer: Any, says: str) -> None:
    others: dict[str, type[McpError]] = {"redirects to": HttpStatusError, "100 interim responses": TransportClosed}
    with ScriptedServer(post=answer) as server, Client(server, max_message=1000) as client:
        with pytest.raises(others.get(says, RemoteProtocolError), match=says):
            client.call(timeout=None)
        assert server.asked.qsize() == (4 if "3 times" in says else 1)
        assert server.request("POST").headers["accept-encoding"] == "identity"


def test_a_reply_that_unpacks_to_more_than_the_bound_is_refused() -> None:
    with requests.Session() as session, ScriptedServer(post=_packed) as server:
        with Client(server, session=session, max_message=10_000_000) as client:
            tracemalloc.start()
            with pytest.raises(RemoteProtocolError, match="more than 10000000 bytes"):
                client.call()
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert most < 30_000_000


@pytest.mark.parametrize("lingers", [0.0, http_client._LINGER_TIMEOUT])
def test_a_stream_that_stays_open_after_the_response_holds_nobody_up(
    lingers: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the answer lost where no time is left to wait for the end of its stream."""
    monkeypatch.setattr(http_client, "_LINGER_TIMEOUT", lingers)
    with ScriptedServer(post=then(STREAM_HEAD, event(result()), wait=True)) as server, Client(server) as client:
        assert client.call() == [result()]
        assert client.call() == [result()]


REFUSAL = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}}


@pytest.mark.parametrize(
    ("message", "answer", "code", "says"),
    [
        (NOTE, content(REFUSAL, code=400), 400, "status 400.*no"),
        (CALL, status(404, body=b"Not here"), 404, "Not here"),
        (CALL, content({**REFUSAL, "id": 9}, code=404), 404, "status 404"),
        (CALL, status(404, body=b"[]"), 404, "status 404"),
        (CALL, status(404, body=b"{"), 404, "status 404"),
        (CALL, content(REFUSAL, "WWW-Authenticate: Bearer scope=x", code=401), 401, "Bearer scope=x"),
        (CALL, content(REFUSAL, "WWW-Authenticate: Bearer scope=x", code=403), 403, "Bearer scope=x"),
    ],
)
def test_a_refusal_that_is_no_answer_names_its_status(message: Any, answer: bytes, code: int, says: str) -> None:
    with ScriptedServer(post=answer) as server, Client(server) as client:
        with pytest.raises(HttpStatusError, match=says) as caught:
            client.call() if message is CALL else client.transport.send(message, soon())
    assert (caught.value.status, caught.value.text) == (code, answer.partition(b"\r\n\r\n")[2].decode())
    assert caught.value.challenge == ("Bearer scope=x" if "Bearer" in says else None)


def test_a_redirect_within_the_origin_is_followed() -> None:
    with ScriptedServer(
        post=[status(307, "Location: /other"), status(308, "Location: next"), content(result())]
    ) as server:
        with Client(server) as client:
            assert client.call() == [result()]
        asked = [server.request("POST") for _ in range(3)]
    assert [each.path for each in asked] == ["/mcp", "/other", "/next"]
    assert asked[2].json() == CALL


# -- the session ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revision", "version", "session_id"),
    [
        ("2025-03-26", None, "abc"),
        ("2025-06-18", "2025-06-18", "abc"),
        ("2025-11-25", "2025-11-25", "abc"),
        ("2025-11-25", "2025-11-25", None),
    ],
)
def test_session_and_version_go_with_every_request_after_initialize(
    revision: str, version: str | None, session_id: str | None
) -> None:
    opening = content(result()) if session_id is None else ASSIGNED
    with ScriptedServer(post=[opening, status(202), content(result())]) as server:
        with Client(server) as client:
            client.open(revision)
            client.transport.send(NOTE, soon())
            client.transport.opened(find_revision(revision))
            client.call()
        first, *later = [server.request() for _ in range(server.asked.qsize())]
    assert not {"mcp-session-id", "mcp-protocol-version"} & first.headers.keys()
    assert [each.method for each in later] == ["POST", "GET", "POST", *([] if session_id is None else ["DELETE"])]
    assert {each.headers.get("mcp-session-id") for each in later} == {session_id}
    assert {each.headers.get("mcp-protocol-version") for each in later} == {version}


# -- resuming ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", [END, b"", chunk(b'id: a-3\ndata: {"jsonrpc": "2.0",')], ids=["ended", "broken", "in part"]
)
def test_a_stream_without_the_response_is_resumed_after_the_time_asked_for(end: bytes) -> None:
    """After the last event that came whole: one that came in part is not skipped."""
    ended = time.monotonic()

    def post(wire: Wire, asked: Asked) -> None:
        nonlocal ended
        wire.send(STREAM_HEAD, event(None, id="a-1", retry=300), event(PROGRESS, id="a-2"), end)
        ended = time.monotonic()

    def get(wire: Wire, asked: Asked) -> None:
        nonlocal ended
        ended = time.monotonic() - ended
        wire.send(stream(event(result(), id="a-3")))

    with ScriptedServer(post=[ASSIGNED, post], get=get) as server, Client(server) as client:
        client.open()
        assert client.call() == [PROGRESS, result()]
        asked = [server.request() for _ in range(3)][2]
    assert asked.method == "GET"
    assert asked.headers["last-event-id"] == "a-2"
    assert asked.headers["accept"] == "text/event-stream"
    assert asked.headers["mcp-session-id"] == "abc"
    assert 0.29 <= ended <= 0.7


@pytest.fixture
def trying_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "_MIN_RETRY", 1)


EURO = stream(event(None, id="\u20ac", retry=1))


@pytest.mark.usefixtures("trying_again_at_once")
@pytest.mark.parametrize(
    ("first", "refusal", "gets", "problem"),
    [
        (stream(event(PROGRESS)), status(405), 0, "ended without a response, and cannot be resumed"),
        (then(STREAM_HEAD, event(PROGRESS)), status(405), 0, "broke .* without a response, and cannot be resumed"),
        (stream(), status(405), 0, "ended without a response, and cannot be resumed"),
        (EURO, status(405), 1, "refused to resume it with HTTP status 405"),
        (EURO, status(404), 1, "refused to resume it with HTTP status 404"),
        (EURO, [status(503), then(), stream()], 3, "ended without a response, after 3 reconnects"),
    ],
)
def test_a_stream_that_cannot_be_resumed_is_a_lost_connection_and_no_expired_session(
    first: Any, refusal: Any, gets: int, problem: str
) -> None:
    with ScriptedServer(post=[ASSIGNED, first], get=refusal) as server, Client(server, reconnects=3) as client:
        client.open()
        with pytest.raises(TransportClosed, match=problem) as caught:
            client.call()
        _, _, *asked = [server.request() for _ in range(server.asked.qsize())]
    assert not isinstance(caught.value, SessionExpired)
    # UTF-8, as the standard says; read as latin-1 here.
    tried = [("GET", "\u20ac".encode().decode("latin-1"))] * gets
    assert [(each.method, each.headers["last-event-id"]) for each in asked if each.method == "GET"] == tried


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_the_wait_before_resuming_can_be_given_up(end: str) -> None:
    first = stream(event(PROGRESS, id="1", retry=10**6))
    with ScriptedServer(post=[ASSIGNED, first]) as server, Client(server) as client:
        client.open()
        end_a_call(client, end, lambda: client.texts.get(timeout=WAIT) and client.texts.get(timeout=WAIT))


# -- giving up -----------------------------------------------------------------------------------------------------


def end_a_call(client: Client, end: str, ready: Callable[[], Any]) -> None:
    """A call without a deadline, ended from this thread when it is ready for it."""
    inbox = Row()
    join = in_thread(lambda: client.call(timeout=None, inbox=inbox))
    ready()
    if end == "cancel":
        inbox.give_up(RequestCancelled("enough"))
        outcome = join()
        assert isinstance(outcome, RequestCancelled)
    else:
        client.transport.close(soon())
        outcome = join()
        assert isinstance(outcome, TransportClosed) and not isinstance(outcome, AnswerLost)
        assert "closed by this side" in str(outcome)


AT_ONCE = 10.0
"""Seconds within which a server must have noticed; most of them are for a machine that is busy."""


class Gone:
    """An answer that says a beginning, and then waits for the client to hang up."""

    def __init__(self, *beginning: bytes) -> None:
        self._beginning = beginning
        self.begun, self.noticed = threading.Event(), threading.Event()

    def __call__(self, wire: Wire, asked: Asked) -> None:
        # On a busy machine the client may have hung up before.
        with contextlib.suppress(ConnectionError):
            wire.send(*self._beginning)
        self.begun.set()
        wire.until_gone()
        self.noticed.set()

    def at_once(self) -> bool:
        return self.noticed.wait(AT_ONCE)


BEGUN = {
    "before the reply": (),
    "in its headers": (b"HTTP/1.1 200 OK\r\nContent-",),
    "in a body of known length": (head(200, "Content-Type: application/json", length=100), b"{"),
    "in a body until the end": (head(200, "Content-Type: application/json", length=None), b"{"),
    "in a stream": (STREAM_HEAD, event(PROGRESS)),
    "in an event": (STREAM_HEAD, b"ff\r\ndata: {"),
}


@pytest.mark.usefixtures("an_end_is_waited_for_long")
@pytest.mark.parametrize("where", BEGUN)
@pytest.mark.parametrize("end", ["cancel", "close", "deadline"])
@pytest.mark.parametrize("whose", ["ours", "a session of the user's", "ours, in the stateless era"])
def test_whatever_ends_a_call_closes_its_connection_at_once(where: str, end: str, whose: str) -> None:
    gone = Gone(*BEGUN[where])
    with requests.Session() as session, ScriptedServer(post=gone) as server:
        with Client(server, session=session if "user's" in whose else None) as client:
            if "stateless" in whose:
                client.transport.mirror = lambda message: {"Mcp-Method": message["method"]}
            if end != "deadline":
                end_a_call(client, end, lambda: gone.begun.wait(WAIT))
            for timeout in (0.1, 1, 5) if end == "deadline" else ():
                with pytest.raises(RequestTimeout, match=f"timed out after {timeout} s"):
                    client.call(timeout=timeout)
                # A busy machine may take longer to begin.
                if gone.begun.is_set():
                    break
            assert gone.at_once()


@pytest.fixture
def deaf_url() -> Iterator[str]:
    """Where a connection is never accepted: the queue of those that wait is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(deaf.getsockname())
        yield f"http://127.0.0.1:{deaf.getsockname()[1]}/mcp"
        for sock in waiting:
            sock.close()


@pytest.mark.parametrize("end", ["cancel", "close", "deadline", "a moment before"])
def test_connecting_can_be_ended(deaf_url: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, hold = threading.Event(), HttpCall.hold

    def announced(self: HttpCall, sock: socket.socket) -> None:
        if end == "a moment before":
            self.cut(RequestCancelled("enough"))
        hold(self, sock)
        begun.set()

    monkeypatch.setattr(HttpCall, "hold", announced)
    with Client(deaf_url) as client:
        if end in ("cancel", "close"):
            end_a_call(client, end, lambda: begun.wait(WAIT))
            return
        with pytest.raises(RequestTimeout if end == "deadline" else RequestCancelled, match="0.1 s connecting|enough"):
            client.call(timeout=0.1 if end == "deadline" else None)


@pytest.mark.parametrize(
    "beginning", [b"HTTP/1.1 200 OK\r\nX-Long: ", head(200, "Content-Type: application/json", length=9999)]
)
def test_a_reply_that_drips_in_does_not_move_the_deadline(beginning: bytes) -> None:
    gone = threading.Event()

    def answer(wire: Wire, asked: Asked) -> None:
        wire.send(beginning)
        with contextlib.suppress(OSError):
            while not gone.wait(0.02):
                wire.send(b"x")

    with ScriptedServer(post=answer) as server, Client(server) as client:
        began = time.monotonic()
        with pytest.raises(RequestTimeout):
            client.call(timeout=0.2)
        assert time.monotonic() - began < WAIT


def test_a_server_that_does_not_read_does_not_move_the_deadline() -> None:
    # Nobody accepts, and the system takes what its buffers can hold.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with Client(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp") as client:
            inbox = Row()
            with pytest.raises(RequestTimeout):
                client.call({**CALL, "params": {"text": "x" * 20_000_000}}, timeout=0.2, inbox=inbox)
            assert not inbox.sent


def test_a_request_counts_as_sent_once_it_was_written_whole() -> None:
    sent = []

    def answer(wire: Wire, asked: Asked) -> None:
        sent.append(inbox.sent)
        wire.send(content(result()))

    inbox = Row()
    with ScriptedServer(post=answer) as server:
        with Client(server) as client:
            with pytest.raises(RequestTimeout):
                client.call(timeout=0.0, inbox=inbox)
            assert not inbox.sent
            client.call(inbox=inbox)
        # The server may be quicker than the mark: but for that it is there before the answer.
        assert inbox.sent and server.asked.qsize() == 1
    with Client(server) as client:
        inbox = Row()
        with pytest.raises(TransportClosed):
            client.call(inbox=inbox)
        assert not inbox.sent


def test_the_clock_runs_only_for_calls_with_a_deadline_and_until_the_close() -> None:
    def clocks() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "mcp-http-clock"]

    with ScriptedServer(post=content(result())) as server:
        with Client(server) as client:
            client.call(timeout=None)
            assert clocks() == []
            for _ in range(3):
                client.call(timeout=5)
            assert clocks() == ["mcp-http-clock"]
        assert clocks() == []


def test_a_deadline_that_moves_while_a_read_waits_is_kept() -> None:
    late = threading.Event()
    clock = {"lost": 0.0}
    deadline = Deadline(0.1, clock=lambda: time.monotonic() - clock["lost"])

    def answer(wire: Wire, asked: Asked) -> None:
        clock["lost"] = 100.0
        assert not late.wait(0.2)
        wire.send(content(result()))

    with ScriptedServer(post=answer) as server, Client(server) as client:
        assert client.call(deadline=deadline) == [result()]


def test_a_call_that_was_given_up_before_it_starts_sends_nothing() -> None:
    with ScriptedServer(post=content(result())) as server, Client(server) as client:
        inbox = Row()
        inbox.give_up(RequestCancelled("enough"))
        with pytest.raises(RequestCancelled):
            client.call(inbox=inbox)
        assert server.asked.empty()


@pytest.mark.usefixtures("an_end_is_waited_for_long")
def test_a_handle_used_after_the_call_does_nothing_to_the_next() -> None:
    with ScriptedServer(post=content(result())) as server, Client(server) as client:

        class Kept(Row):
            def take(self, deadline: Deadline | None = None) -> bool:
                give_up.append(self.on_give_up)
                return super().take(deadline)

        give_up: list[Any] = []
        client.call(inbox=Kept())
        give_up[-1]()
        client.call()
        assert [server.request().connection, server.request().connection] == [1, 1]


# -- connections that break -------------------------------------------------------------------------------------


def _reset(wire: Wire, asked: Asked) -> None:
    """Close the connection, so that the client gets a reset."""
    wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("end", [_reset, then()], ids=["reset", "closed in order"])
def test_a_request_that_was_read_is_not_sent_again_however_the_connection_ends(end: Any) -> None:
    # It may have been carried out, however soon the end comes.
    with ScriptedServer(post=[content(result()), end, content(result())]) as server, Client(server) as client:
        assert client.call() == [result()]
        with pytest.raises(TransportClosed):
            client.call()
        assert server.asked.qsize() == 2


def test_a_request_that_a_kept_connection_did_not_take_whole_is_not_sent_again() -> None:
    large = {**CALL, "params": {"text": "x" * 20_000_000}}

    def answer(wire: Wire, asked: Asked) -> None:
        wire.send(content(result()))
        wire.sock.recv(1000)
        _reset(wire, asked)

    with ScriptedServer(post=[answer, content(result())]) as server, Client(server) as client:
        assert client.call() == [result()]
        with pytest.raises(TransportClosed):
            client.call(large, timeout=60)
        assert server.asked.qsize() == 1
        assert client.call() == [result()]


# -- listening -----------------------------------------------------------------------------------------------------


def _listeners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mcp-sse-listen"]


def test_the_standing_stream_is_open_before_opened_returns_and_delivers() -> None:
    go = threading.Event()
    asking = {"jsonrpc": "2.0", "id": 7, "method": "roots/list"}

    def get(wire: Wire, asked: Asked) -> None:
        wire.send(STREAM_HEAD)
        assert go.wait(WAIT)
        wire.send(event(asking))
        wire.until_gone()

    with ScriptedServer(post=ASSIGNED, get=get) as server, Client(server) as client:
        client.open(listen=True)
        assert [server.request().method for _ in range(2)] == ["POST", "GET"]
        client.texts.get(timeout=WAIT)
        go.set()
        assert client.message() == asking


@pytest.mark.parametrize("answer", [status(405), status(401), content({}), status(204)])
def test_a_server_without_a_standing_stream_is_as_good(answer: bytes) -> None:
    with ScriptedServer(post=ASSIGNED, get=answer) as server, Client(server) as client:
        client.open(listen=True)
        client.call()
        assert [server.request().method for _ in range(3)] == ["POST", "GET", "POST"]


def test_a_standing_stream_that_breaks_is_resumed_after_its_last_event() -> None:
    first = then(STREAM_HEAD, event(PROGRESS, id="s-1", retry=1))
    second = then(STREAM_HEAD, event(PROGRESS, id="s-2"), wait=True)
    with ScriptedServer(post=ASSIGNED, get=[first, second]) as server, Client(server) as client:
        client.open(listen=True)
        asked = [server.request() for _ in range(3)][1:]
        for _ in range(3):
            client.texts.get(timeout=WAIT)
    assert [each.headers.get("last-event-id") for each in asked] == [None, "s-1"]


@pytest.mark.usefixtures("trying_again_at_once")
def test_a_standing_stream_that_fails_in_a_row_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    first = stream(event(None, retry=1))
    with ScriptedServer(post=ASSIGNED, get=[first, status(500)]) as server, Client(server, reconnects=2) as client:
        client.open(listen=True)
        for thread in _listeners():
            thread.join(WAIT)
        assert not _listeners()
        assert server.asked.qsize() == 1 + 1 + 2
    assert "given up: the event stream was refused with HTTP status 500" in caplog.text


@pytest.mark.usefixtures("trying_again_at_once")
def test_a_standing_stream_that_brings_events_may_end_as_often_as_it_likes() -> None:
    with ScriptedServer(post=ASSIGNED, get=stream(event(PROGRESS, id="1", retry=1))) as server:
        with Client(server, reconnects=1) as client:
            client.open(listen=True)
            assert [server.request().method for _ in range(5)] == ["POST", "GET", "GET", "GET", "GET"]
            assert _listeners()


def test_a_stream_that_asks_for_no_pause_is_resumed_ten_times_a_second_at_most() -> None:
    again = stream(event(PROGRESS, id="1", retry=0))
    with ScriptedServer(post=[ASSIGNED, again], get=again) as server, Client(server) as client:
        client.open()
        with pytest.raises(RequestTimeout):
            client.call(timeout=0.45)
        assert server.asked.qsize() <= 2 + 4


# -- ending --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [status(200), status(405), then()])
def test_closing_ends_the_session_whatever_the_server_says_to_it(answer: Any) -> None:
    with ScriptedServer(post=ASSIGNED, get=then(STREAM_HEAD, wait=True), delete=answer) as server:
        with Client(server) as client:
            client.open(listen=True)
        assert [server.request().method for _ in range(3)] == ["POST", "GET", "DELETE"]
        assert not _listeners()


def test_a_slow_server_holds_up_neither_opening_nor_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "_OPENING_TIMEOUT", 0.05)
    with ScriptedServer(post=ASSIGNED, get=then(wait=True), delete=then(wait=True)) as server, Client(server) as client:
        client.open(listen=True)
        client.call()
        assert len(_listeners()) == 1
        began = time.monotonic()
        client.transport.close(Deadline(0.3))
        assert time.monotonic() - began < WAIT


def test_after_closing_nothing_is_sent() -> None:
    with ScriptedServer(post=content(result())) as server, Client(server) as client:
        client.transport.close(soon())
        client.transport.close(soon())
        assert client.reason() == "closed by this side"
        for send in (client.call, lambda: client.transport.send(NOTE, soon())):
            with pytest.raises(TransportClosed, match="closed by this side"):
                send()
        client.transport.opened(NEWEST)
        with pytest.raises(TransportClosed):
            client.transport.start(client.receive, client.lost)
        assert server.asked.empty()


# -- a session of the user's ---------------------------------------------------------------------------------------


class Mounted(HTTPAdapter):
    """An adapter of the user's own, which says that it was used."""

    def add_headers(self, request: requests.PreparedRequest, **options: Any) -> None:
        request.headers["X-Mounted"] = "yes"


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.auth = ("ann", "secret")
        session.headers["X-Theirs"] = "yes"
        session.cookies.set("color", "blue")
        session.params = {"q": "1"}
        session.mount("http://", Mounted())
        yield session


@pytest.mark.usefixtures("an_end_is_waited_for_long")
def test_a_session_sends_as_it_was_set_up_and_stays_as_it_is(session: requests.Session) -> None:
    before = {name: getattr(session, name) for name in session.__attrs__}
    headers = dict(session.headers)
    with ScriptedServer(post=[ASSIGNED, stream(event(PROGRESS), event(result()))]) as server:
        with Client(server, session=session, headers={"X-Ours": "yes"}) as client:
            client.open()
            assert client.call() == [PROGRESS, result()]
        assert session.get(server.url, timeout=WAIT).status_code == 405
        *asked, last = [server.request() for _ in range(4)]
        session.close()
    assert {each.connection for each in (*asked, last)} == {1}, "it was not closed"
    assert [each.method for each in asked] == ["POST", "POST", "DELETE"]
    assert asked[1].json() == CALL
    for each in asked:
        assert each.path == "/mcp?q=1"
        assert each.headers["authorization"].startswith("Basic ")
        assert each.headers["cookie"] == "color=blue"
        assert each.headers["x-theirs"] == each.headers["x-ours"] == each.headers["x-mounted"] == "yes"
        assert each.headers["user-agent"].startswith("python-requests")
    # Theirs is the least of what goes out.
    assert asked[1].headers["accept"] == "application/json, text/event-stream"
    assert before == {name: getattr(session, name) for name in session.__attrs__}
    assert headers == session.headers


def test_a_pool_that_blocks_is_not_waited_for(session: requests.Session) -> None:
    session.mount("http://", HTTPAdapter(pool_maxsize=1, pool_block=True))
    with ScriptedServer(post=[then(STREAM_HEAD, event(PROGRESS), wait=True), content(result(2))]) as server:
        with Client(server, session=session) as client:
            inbox, join = client.begin()
            assert inbox.arrived.get(timeout=WAIT) == PROGRESS
            assert client.call({**CALL, "id": 2}) == [result(2)]
            inbox.give_up(RequestCancelled("enough"))
            assert isinstance(join(), RequestCancelled)
    # What is kept is closed when its pool is forgotten.
    session.close()
    gc.collect()


class Canned(requests.adapters.BaseAdapter):
    """An adapter that has no connections."""

    def send(self, request: requests.PreparedRequest, *args: Any, timeout: Any = None, **options: Any) -> Any:  # type: ignore[override]
        self.timeout = timeout
        response = requests.Response()
        response.status_code, response.request, response.url = 200, request, str(request.url)
        body = io.BytesIO(json.dumps(result()).encode())
        headers = {"Content-Type": "application/json"}
        response.raw = urllib3.HTTPResponse(body=body, headers=headers, status=200, preload_content=False)
        return response

    def close(self) -> None:
        pass


def test_an_adapter_of_another_kind_is_given_the_time_that_is_left() -> None:
    with requests.Session() as session, Client("http://nowhere.invalid/mcp", session=session) as client:
        session.mount("http://", canned := Canned())
        assert client.call(timeout=3) == [result()]
        assert all(2 < each <= 3 for each in canned.timeout)


# -- the stateless era ---------------------------------------------------------------------------------------------

VERSION = "2026-07-28"
ODD = {"jsonrpc": "2.0", "method": "notifications/odd"}
SESSION_HEADERS = {"mcp-session-id", "last-event-id"}


class Stateless(Client):
    """A transport that speaks the stateless shape, and as much of a peer as it needs."""

    def __init__(self, server: ScriptedServer | str, **options: Any) -> None:
        super().__init__(server, **options)
        self.transport.mirror = lambda message: mirror(message, VERSION)


@pytest.mark.usefixtures("an_end_is_waited_for_long")
def test_the_headers_are_those_mirrored_from_the_message() -> None:
    with ScriptedServer(post=[status(202), content(result())]) as server, Stateless(server) as client:
        client.transport.send(ODD, soon())
        assert client.call() == [result()]
        note, asked = server.request("POST"), server.request("POST")
    assert (note.json(), asked.json()) == (ODD, CALL)
    assert [each.headers["mcp-method"] for each in (note, asked)] == ["notifications/odd", "tools/call"]
    assert (note.headers.get("mcp-name"), asked.headers["mcp-name"]) == (None, "add")
    for each in (note, asked):
        assert each.headers["mcp-protocol-version"] == VERSION
        assert each.headers["accept"] == "application/json, text/event-stream"
        assert each.headers["content-type"] == "application/json"
    assert (note.connection, asked.connection) == (1, 1), "what was accepted leaves its connection for the next"


@pytest.mark.parametrize("message", [result(), [CALL]])
def test_responses_and_batches_are_not_sent(message: Any) -> None:
    with ScriptedServer() as server, Stateless(server) as client:
        with pytest.raises(LocalProtocolError, match="one request or notification"):
            client.transport.send(message, soon())
        assert server.asked.empty()


@pytest.mark.usefixtures("an_end_is_waited_for_long")
def test_an_answered_request_leaves_its_connection_for_the_next() -> None:
    answers = [content(result()), stream(event(PROGRESS), event(result())), content({**result(), "error": 1}, code=404)]
    with ScriptedServer(post=answers) as server, Stateless(server) as client:
        assert client.call() == [result()]
        assert client.call() == [PROGRESS, result()]
        with pytest.raises(HttpStatusError):
            client.call()
        with pytest.raises(HttpStatusError):
            client.call()
        assert {server.request().connection for _ in range(4)} == {1}


def test_a_session_that_the_server_assigns_is_ignored() -> None:
    not_found = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}
    odd = content(result(), "Mcp-Session-Id: a b\xe9")
    with ScriptedServer(post=[ASSIGNED, odd, content(not_found, code=404), status(404)]) as server:
        with Stateless(server) as client:
            assert client.call() == [result()]
            assert client.call() == [result()]
            assert client.transport.session_id is None
            assert client.call() == [not_found]
            with pytest.raises(HttpStatusError) as caught:
                client.call()
        asked = [server.request("POST") for _ in range(4)]
        # Neither GET nor DELETE.
        assert server.asked.empty()
    assert caught.value.status == 404
    assert not any(each.headers.keys() & SESSION_HEADERS for each in asked)


ERROR = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "1"}}


@pytest.mark.parametrize(
    ("code", "request_id"), [(200, {"id": 1}), *product([400, 404, 500], [{}, {"id": 1}]), (403, {"id": None})]
)
@pytest.mark.parametrize("kind", [Client, Stateless])
def test_an_error_in_the_body_answers_the_request_whatever_the_status(
    kind: type[Client], code: int, request_id: dict[str, Any]
) -> None:
    error = {"jsonrpc": "2.0", **request_id, "error": ERROR}
    with ScriptedServer(post=content(error, code=code)) as server, kind(server) as client:
        assert client.call() == [{**error, "id": 1}]
        refused = client.transport.refused
        assert (refused and refused.status) == (None if code == 200 else code)


LOST = {
    "an empty stream": stream(),
    "a stream that could be resumed in a session": stream(event(PROGRESS, id="7", retry=1)),
    "a stream that breaks": then(STREAM_HEAD, event(PROGRESS, id="7", retry=1)),
    "a stream that breaks in an event": then(STREAM_HEAD, chunk(b'data: {"jsonrpc"')),
    "a body cut off": then(head(200, "Content-Type: application/json", length=100), b"{"),
    "headers cut off": then(b"HTTP/1.1 200 OK\r\nContent-"),
    "no reply": then(),
    "a reset": _reset,
}


@pytest.mark.parametrize("what", LOST)
@pytest.mark.parametrize("kind", [Client, Stateless])
def test_a_reply_that_breaks_off_is_lost_and_neither_resumed_nor_asked_for_again(kind: type[Client], what: str) -> None:
    with ScriptedServer(post=LOST[what], get=stream(event(result()))) as server, kind(server) as client:
        began = time.monotonic()
        with pytest.raises(TransportClosed) as caught:
            client.call()
        assert time.monotonic() - began < AT_ONCE
        assert server.request("POST").json() == CALL
        assert server.asked.empty()
    lost = isinstance(caught.value, AnswerLost) and str(caught.value).startswith("the answer was lost: ")
    assert lost is (kind is Stateless), caught.value


@pytest.mark.parametrize("kind", [Client, Stateless])
def test_what_nobody_at_the_other_end_has_got_is_not_lost(kind: type[Client]) -> None:
    with ScriptedServer() as server:
        pass
    says = r"no answer from http://127.0.0.1:\d+/mcp: "
    with kind(server) as client, pytest.raises(TransportClosed, match=says) as caught:
        client.call()
    assert not isinstance(caught.value, AnswerLost | SessionExpired)


@pytest.mark.usefixtures("an_end_is_waited_for_long")
@pytest.mark.parametrize("more", [(), (event(PROGRESS), event(result()), b"0\r\n\r\n")])
def test_leaving_the_reply_closes_the_connection(more: tuple[bytes, ...]) -> None:
    """Also where all of the reply has come already: nobody has looked at it."""
    gone = Gone(STREAM_HEAD, event(PROGRESS), *more)
    with ScriptedServer(post=[gone, content(result())]) as server, Stateless(server) as client:

        class Leaving(Row):
            def take(self, deadline: Deadline | None = None) -> bool:
                super().take(deadline)
                if self.found and gone.begun.wait(WAIT):
                    self.found, self.given_up = [], RequestCancelled("enough")
                return self.given_up is not None

        began = time.monotonic()
        with pytest.raises(RequestCancelled):
            client.call(inbox=Leaving())
        assert gone.at_once()
        assert time.monotonic() - began < AT_ONCE
        assert client.call() == [result()]
        assert [server.request().connection for _ in range(2)] == [1, 2]


def test_a_lifted_deadline_lets_a_quiet_stream_last() -> None:
    quiet = threading.Event()

    def answer(wire: Wire, asked: Asked) -> None:
        wire.send(STREAM_HEAD, event(PROGRESS), chunk(b": keep-alive\n\n"))
        assert not quiet.wait(0.8)
        wire.send(event(PROGRESS))
        wire.until_gone()

    with ScriptedServer(post=answer) as server, Stateless(server) as client:
        deadline = Deadline(0.6)
        inbox, join = client.begin(deadline=deadline)
        assert inbox.arrived.get(timeout=WAIT) == PROGRESS
        deadline.lift()
        assert inbox.arrived.get(timeout=WAIT) == PROGRESS
        assert client.texts.qsize() == 2
        inbox.give_up(RequestCancelled("enough"))
        assert isinstance(join(), RequestCancelled)
