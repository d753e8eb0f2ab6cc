"""Standing between two peers: bytes pass as they are, both ways, and are shown to a trace.

Spec:      basic/transports#stdio, basic/transports/streamable-http; RFC 9112 for what a proxy changes
Not here:  judging what is seen (trace/check); the command line (cli/check)

    client  ->  stdin  ->  Pipes  ->  stdin   ->  server's process      client  ->  HttpProxy  ->  server's URL
            <-  stdout <-         <-  stdout  <-

What passes is noted before it is written, for the answer could be noted first otherwise; to note is to remember the
bytes. They are parsed and judged after they have passed. End of input, exit codes, signals and hang-ups pass as well,
and nothing here has a time limit of its own.
"""

from __future__ import annotations

import http.client
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urljoin, urlsplit

from mcp_ref.basic.transports.sse import EventParser, EventTooLong, event_facts
from mcp_ref.messages import JsonObject
from mcp_ref.trace.record import Direction, Recorder

_CHUNK: Final = 65536
_MAX_NOTED: Final = 64 * 1024 * 1024  # bytes of one line or body that are shown to a trace; all of it passes
_AFTER_EXIT: Final = 1.0  # seconds for what a process has written last, if another one holds its pipes open
_SIGNAL_INTERVAL: Final = 0.5  # seconds until a signal is noticed, at most
_LOOK_INTERVAL: Final = 0.05
_PASSED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MAX_CONNS: Final = 10_000  # sessions whose connection is remembered
_HANG_UP: Final = getattr(select, "POLLRDHUP", 0) | getattr(select, "POLLHUP", 0)


class Taps:
    """Shows the traffic of one connection to several recorders."""

    def __init__(self, recorders: Sequence[Recorder], transport: str) -> None:
        self._taps = [recorder.tap("server", transport) for recorder in recorders]

    def note(self, direction: Direction, message: Any, facts: Mapping[str, Any] | None = None) -> None:
        for tap in self._taps:
            tap.note(direction, message, facts)

    def deliver(self) -> None:
        for tap in self._taps:
            tap.deliver()


class Lines:
    """Cuts what passes into lines; of a line beyond the limit only the beginning is kept."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = bytes(self._partial) + line if self._partial else line
            self._partial.clear()
            yield whole[:_MAX_NOTED]
        self._partial += rest[: _MAX_NOTED - len(self._partial)]

    def rest(self) -> bytes:
        """What stands after the last line break."""
        return bytes(self._partial)


# -- stdio --------------------------------------------------------------------------------------------------------


class Pipes:
    """Runs a server as a process and passes standard input, output and error through.

    Args:
        command: the program and its arguments; it gets the environment of this process.
        recorders: are shown what passes.

    Raises: OSError where the program cannot be started.
    """

    def __init__(self, command: Sequence[str], recorders: Sequence[Recorder]) -> None:
        self._tap = Taps(recorders, "stdio")
        self._writing: set[Direction] = set()  # what waits for whoever reads it
        # A group of its own: what Ctrl-C sends to a terminal's group would come to it twice.
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, process_group=0
        )

    def run(self) -> int:
        """Pass everything until the server has exited; returns its exit code, negative for a signal.

        Blocks: until then, until the client has taken what the server wrote last, and at most a second more if another
            process holds its pipes open.
        Threads: the main one, since signals are passed on; it starts three, which end with their pipes. They are
            daemons: nobody else can end the wait for standard input.
        """
        handlers = {number: signal.signal(number, self._pass_signal) for number in _PASSED}
        child = self._child
        assert child.stdin and child.stdout and child.stderr
        pumps = [
            threading.Thread(target=self._pump, name=f"mcp-between-{direction}", daemon=True, args=(direction, *ends))
            for direction, *ends in (
                ("send", 0, child.stdin.fileno(), (child.stdin.close, lambda: os.close(0))),
                ("receive", child.stdout.fileno(), 1, (lambda: os.close(1), child.stdout.close)),
                ("stderr", child.stderr.fileno(), 2, (child.stderr.close,)),
            )
        ]
        for pump in pumps:
            pump.start()
        # A signal that comes just before a wait begins is not noticed until it has ended: so none takes long.
        while (code := child.poll()) is None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_SIGNAL_INTERVAL)
        # From now on a signal is for this process alone.
        for number, handler in handlers.items():
            signal.signal(number, handler)
        # What it has written last is in the pipes still, and may have to wait for the client.
        until = time.monotonic() + _AFTER_EXIT
        for pump, direction in zip(pumps[1:], ("receive", "stderr"), strict=True):
            while pump.is_alive() and (direction in self._writing or time.monotonic() < until):
                pump.join(_LOOK_INTERVAL)
        self._tap.note("receive", None, {"process": {"exit": code}})
        self._tap.deliver()
        return code

    def _pass_signal(self, number: int, _: Any) -> None:
        self._tap.note("send", None, {"process": {"signal": number}})
        self._child.send_signal(number)

    def _pump(self, direction: Direction, read: int, write: int, close: Sequence[Callable[[], None]]) -> None:
        """Pass what comes; then the end, to both sides: whoever goes on writing here gets SIGPIPE, or EPIPE."""
        lines = Lines()
        with suppress(OSError):
            while chunk := os.read(read, _CHUNK):
                for line in lines.feed(chunk):
                    self._note(direction, line)
                rest = memoryview(chunk)
                self._writing.add(direction)
                while rest:
                    rest = rest[os.write(write, rest) :]
                self._writing.discard(direction)
                self._tap.deliver()
        self._writing.discard(direction)
        if lines.rest():
            self._note(direction, lines.rest())
        if direction == "send":
            self._tap.note("send", None, {"process": {"eof": "client"}})
        for end in close:
            with suppress(OSError):
                end()
        self._tap.deliver()

    def _note(self, direction: Direction, line: bytes) -> None:
        if line.strip():
            self._tap.note(direction, line.decode("utf-8", "replace") if direction == "stderr" else line)


# -- HTTP ---------------------------------------------------------------------------------------------------------

_HOP_BY_HOP: Final = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "content-length", "host", "expect",
})  # fmt: skip


_AUTHORIZING: Final = frozenset({"authorize", "token", "register", "revoke", "introspect", "par"})  # ends of paths


class HttpProxy(ThreadingHTTPServer):
    """A reverse proxy on 127.0.0.1: each connection has a thread, each request a connection to the server.

    Args:
        url: of the server's endpoint; requests to any other path go to the same origin.
        recorders: are shown what passes.
        say: is told what a user must know.
        port: to listen on; 0 takes a free one.

    Attributes:
        url: to be given to the client instead.

    Raises: OSError where the port cannot be had; ValueError: it is not the URL of a server.
    """

    daemon_threads = True  # a stream may stay open for ever; the process ends with `serve_forever`
    request_queue_size = 256

    def __init__(self, url: str, recorders: Sequence[Recorder], say: Callable[[str], None], port: int = 0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL of a server begins with http:// or https://, unlike {url!r}")
        self.secure, self.host = parts.scheme == "https", parts.hostname
        self.port, self.origin, self.path = parts.port, f"{parts.scheme}://{parts.netloc}", parts.path or "/"
        self.say, self._recorders = say, recorders
        self._lock = threading.Lock()  # guards _exchanges and _conns
        self._exchanges = 0
        self._conns: dict[str, Taps] = {}  # by session id, or by the URI of an endpoint event
        super().__init__(("127.0.0.1", port), _Passing)
        self.url = f"http://127.0.0.1:{self.server_port}{self.path}"

    def connect(self) -> http.client.HTTPConnection:
        """A connection to the server, without a time limit."""
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        return kind(self.host, self.port)

    def host_for(self, host: str | None) -> str:
        """The `Host` of a request as the server gets it: its own in the place of ours, and any other as it came.

        A page that reaches this by the name of another host (DNS rebinding) is for the server to refuse.
        """
        ours = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}
        return urlsplit(self.origin).netloc if host is None or host.lower() in ours else host

    def taps(self, *names: str | None) -> Taps:
        """What the connection of a session is shown to; a new one unless one of the names is known."""
        with self._lock:
            known = next((self._conns[name] for name in names if name in self._conns), None)
        return known or Taps(self._recorders, "http")

    def know(self, name: str, taps: Taps) -> None:
        """From now on what has this session id, or goes to this URI, belongs to a connection."""
        with self._lock:
            self._conns[name] = taps
            if len(self._conns) > _MAX_CONNS:
                del self._conns[next(iter(self._conns))]

    def next_exchange(self) -> int:
        with self._lock:
            self._exchanges += 1
            return self._exchanges

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke has been passed on as such; anything else is a fault of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Passing(BaseHTTPRequestHandler):
    """One connection of a client.

    Of the request that is passed: its `_body`, the `_taps` that are shown it, the facts of all its events (`_origin`).
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HttpProxy
    _body: bytes
    _taps: Taps
    _origin: JsonObject

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: findings alone are of interest."""

    def setup(self) -> None:
        super().setup()
        self._own: Taps | None = None  # of what belongs to no session
        self._session: Taps | None = None  # of the session that was spoken of last

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._pass
        raise AttributeError(name)

    def _pass(self) -> None:
        """Pass one request, and its reply as it arrives."""
        server = self.server
        try:
            body = self._read_body()
        except ValueError:
            self.send_error(400, "The body has no length that can be read")
            return
        if body is None:
            self.close_connection = True  # the client hung up in the middle of its request
            return
        # 1. To which connection it belongs.
        session = self.headers.get("mcp-session-id")
        if session is not None or self.path in server._conns:
            self._taps = self._session = server.taps(session, self.path)
        elif b'"initialize"' in body:
            self._taps = self._session = server.taps()
        elif self._session is not None and "mcp-method" not in self.headers:
            self._taps = self._session  # whose id has been left out
        else:
            self._taps = self._own = self._own or server.taps()
        # 2. The request.
        self._body, self._origin = body, {"exchange": server.next_exchange(), "method": self.command}
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        if path.rstrip("/") != server.path.rstrip("/") and self.path not in server._conns:
            # It is not the protocol's, and what is said there, as about authorization, is secret, perhaps.
            authorizing = "/.well-known/" in path or path.rpartition("/")[2] in _AUTHORIZING
            self._origin |= {"what": path, "oauth": {}} if authorizing else {"path": path}
        asked = {"query": sorted(dict(parse_qsl(query)))} if query else {}
        self._note("send", body, **asked, headers=dict(self.headers.items()))
        upstream, watched = server.connect(), threading.Event()
        try:
            self._ask(upstream)
            self._taps.deliver()
            self._watch(upstream, watched)
            reply = upstream.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as problem:
            # As the client would have seen it: a connection that is refused, or that breaks off.
            server.say(
                f"{server.origin}: {problem or type(problem).__name__}; the client sees a connection that breaks"
            )
            self._hung_up()
            self._break_off()
        else:
            self._pass_reply(reply)
        finally:
            watched.set()
            upstream.close()
            self._taps.deliver()

    def _read_body(self) -> bytes | None:
        """The body; None if the client hangs up in the middle of it. Raises: ValueError: its length is no number."""
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(max(0, size))
            return body if len(body) == size else None
        parts = []
        while size := int(self.rfile.readline(1000).split(b";")[0], 16):
            parts.append(self.rfile.read(max(0, size)))
            if len(parts[-1]) != size or not self.rfile.readline(10):
                return None
        while self.rfile.readline(_CHUNK).strip():
            continue
        return b"".join(parts)

    def _ask(self, upstream: http.client.HTTPConnection) -> None:
        """Send the request to the server."""
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        upstream.putheader("Host", self.server.host_for(self.headers.get("host")))
        for name, value in self.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                upstream.putheader(name, value)
        if self._body or "content-length" in self.headers or "transfer-encoding" in self.headers:
            upstream.putheader("Content-Length", str(len(self._body)))
        upstream.putheader("Connection", "close")
        upstream.endheaders(self._body or None)

    def _note(self, direction: Direction, body: bytes | bytearray | None, **facts: Any) -> None:
        """Show the request, or something of its reply; a body only if it is one of the protocol's messages."""
        seen = bytes(body) if body and not self._origin.keys() & {"path", "oauth"} else None
        self._taps.note(direction, seen, {**self._origin, **facts})

    # -- clients that hang up

    def _watch(self, upstream: http.client.HTTPConnection, done: threading.Event) -> None:
        """End the wait for the server once the client has hung up: shutting the socket down is what wakes it."""
        client, other = self.connection, upstream.sock

        def watch() -> None:
            poll = select.poll()
            poll.register(client, _HANG_UP)
            while not done.is_set():
                if poll.poll(200):
                    with suppress(OSError):
                        other.shutdown(socket.SHUT_RDWR)
                    return

        if _HANG_UP:
            threading.Thread(target=watch, name="mcp-between-watch", daemon=True).start()

    def _hung_up(self) -> bool:
        """Whether the client is gone, which is noted: in the stateless era that is a message."""
        poll = select.poll()
        poll.register(self.connection, _HANG_UP)
        if not (_HANG_UP and poll.poll(0)):
            return False
        from mcp_ref.errors import Refusal
        from mcp_ref.messages import decode, readable_id

        with suppress(Refusal, RecursionError):
            self._note("send", None, hangUp=readable_id(decode(self._body)))
        return True

    def _break_off(self) -> None:
        """What broke off there breaks off here: without the end that HTTP would give it."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    # -- replies

    def _pass_reply(self, reply: http.client.HTTPResponse) -> None:
        # 1. The head. A reply whose end nothing tells is cut into chunks, or ended with the connection.
        length = reply.getheader("content-length")
        empty = self.command == "HEAD" or reply.status in (204, 304) or reply.status < 200 or length == "0"
        chunked = not empty and length is None and self.request_version == "HTTP/1.1"
        if (session := reply.getheader("mcp-session-id")) is not None:
            self.server.know(session, self._taps)
        facts = {"status": reply.status, "headers": dict(reply.getheaders())}
        kind = (reply.getheader("content-type") or "").partition(";")[0].strip().lower()
        streams = kind == "text/event-stream"
        if streams or empty:
            self._note("receive", None, **facts)
        self.send_response_only(reply.status, reply.reason)
        for name, value in reply.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", length)
        elif chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif not empty:
            self.send_header("Connection", "close")  # which also ends it here
        self.end_headers()
        self.wfile.flush()
        # 2. The body, as it arrives.
        pieces = () if empty else self._events(reply, facts) if streams else self._document(reply, facts)
        try:
            for chunk in pieces:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk)
                self.wfile.flush()
                self._taps.deliver()
            if streams and not empty:
                self._note("receive", None, end="client" if self._hung_up() else "server")
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
        except (OSError, http.client.HTTPException):
            gone = self._hung_up()
            if streams:
                self._note("send" if gone else "receive", None, end="client" if gone else "broken")
            self._break_off()

    def _document(self, reply: http.client.HTTPResponse, facts: JsonObject) -> Iterator[bytes]:
        """The pieces of a body, which is noted as a whole: before its last piece passes, if a length tells which it is.

        Raises: HTTPException: it ends too early.
        """
        seen, left = bytearray(), reply.length
        while chunk := reply.read1(_CHUNK):
            seen += chunk[: _MAX_NOTED - len(seen)]
            left = None if left is None else left - len(chunk)
            if left == 0:
                self._note("receive", seen, **facts, **self._metadata(seen))
            yield chunk
        if left:
            raise http.client.IncompleteRead(b"", left)
        if left is None:
            self._note("receive", seen, **facts, **self._metadata(seen))

    def _metadata(self, body: bytearray) -> JsonObject:
        """The metadata of the resource, which is public, as it is noted."""
        if "/oauth-protected-resource" not in self._origin.get("what", ""):
            return {}
        from mcp_ref.errors import Refusal
        from mcp_ref.messages import decode

        with suppress(Refusal, RecursionError):
            if isinstance(document := decode(bytes(body)), dict):
                return {"oauth": document}
        return {}

    def _events(self, reply: http.client.HTTPResponse, facts: JsonObject) -> Iterator[bytes]:
        """The pieces of an event stream, whose events are noted one by one."""
        parser, first = EventParser(_MAX_NOTED), self.command == "GET"
        while chunk := reply.read1(_CHUNK):
            if first:
                chunk, first = self._rewritten(chunk), False
            with suppress(EventTooLong):
                for event in parser.feed(chunk):
                    if event.event == "endpoint":
                        uri = urlsplit(urljoin(self.path, event.data))
                        self.server.know(uri._replace(scheme="", netloc="").geturl(), self._taps)
                    message = event.data.encode() if event.event == "message" else None
                    self._note("receive", message, status=reply.status, **event_facts(event))
            yield chunk

    def _rewritten(self, chunk: bytes) -> bytes:
        """The beginning of a stream of HTTP+SSE: an absolute URI to post to would lead past this proxy."""
        origin = self.server.origin.encode()
        if b"event: endpoint" not in chunk and b"event:endpoint" not in chunk or origin not in chunk:
            return chunk
        ours = self.server.url[: self.server.url.index("/", len("http://"))]
        self.server.say(f"the endpoint event names {self.server.origin}, and was rewritten to {ours}")
        return chunk.replace(origin, ours.encode(), 1)
