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
from urllib.parse import parse_qsl, urlsplit

from mcp_ref.basic.transports.sse import EventParser, EventTooLong, event_facts
from mcp_ref.messages import JsonObject
from mcp_ref.trace.record import Direction, Recorder

_CHUNK: Final = 65536
_MAX_NOTED: Final = 64 * 1024 * 1024  # bytes of one line or body that are shown to a trace; all of it passes
_AFTER_EXIT: Final = 1.0  # seconds for what a process has written last, if another one holds its pipes open
_SIGNAL_INTERVAL: Final = 0.5  # seconds until a signal is noticed, at most
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
        # A group of its own: what Ctrl-C sends to a terminal's group would come to it twice.
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, process_group=0
        )

    def run(self) -> int:
        """Pass everything until the server has exited; returns its exit code, negative for a signal.

        Blocks: until then, and at most a second more if another process holds its pipes open.
        Threads: the main one, since signals are passed on; it starts three, which end with their pipes. The one that
            reads standard input is a daemon: nobody else can end its wait.
        """
        child = self._child
        assert child.stdin and child.stdout and child.stderr
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._pass_signal)
        pumps = [
            threading.Thread(target=self._pump, name=f"mcp-between-{name}", daemon=True, args=(read, write, *how))
            for name, read, write, how in (
                ("in", 0, child.stdin.fileno(), ("send", child.stdin.close)),
                ("out", child.stdout.fileno(), 1, ("receive", lambda: os.close(1))),
                ("err", child.stderr.fileno(), 2, ("stderr", lambda: None)),
            )
        ]
        for pump in pumps:
            pump.start()
        # A signal that comes just before a wait begins is not noticed until it has ended: so none takes long.
        while (code := child.poll()) is None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_SIGNAL_INTERVAL)
        # What it has written last is in the pipes still.
        until = time.monotonic() + _AFTER_EXIT
        for pump in pumps[1:]:
            pump.join(max(0.0, until - time.monotonic()))
        self._tap.note("receive", None, {"process": {"exit": code}})
        self._tap.deliver()
        return code

    def _pass_signal(self, number: int, _: Any) -> None:
        self._tap.note("send", None, {"process": {"signal": number}})
        self._child.send_signal(number)

    def _pump(self, read: int, write: int, direction: Direction, end: Callable[[], None]) -> None:
        """Pass what comes; then the end. That a reader is gone is passed on by not reading any further."""
        lines = Lines()
        with suppress(OSError):
            while chunk := os.read(read, _CHUNK):
                for line in lines.feed(chunk):
                    self._note(direction, line)
                rest = memoryview(chunk)
                while rest:
                    rest = rest[os.write(write, rest) :]
                self._tap.deliver()
        if lines.rest():
            self._note(direction, lines.rest())
        if direction == "send":
            self._tap.note("send", None, {"process": {"eof": "client"}})
        with suppress(OSError):
            end()
        # Whoever writes here gets what the other side's end gives: SIGPIPE, or EPIPE.
        with suppress(OSError):
            if read == 0:
                os.close(0)
            elif direction == "receive" and self._child.stdout is not None:
                self._child.stdout.close()
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
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HttpProxy

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
        body = self._body()
        session = self.headers.get("mcp-session-id")
        if session is not None or self.path in server._conns:
            taps = self._session = server.taps(session, self.path)
        elif b'"initialize"' in body:
            taps = self._session = server.taps()
        elif self._session is not None and "mcp-method" not in self.headers:
            taps = self._session  # whose id has been left out
        else:
            taps = self._own = self._own or server.taps()
        origin: JsonObject = {"exchange": server.next_exchange(), "method": self.command}
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        if path != server.path and ("/.well-known/" in path or path.rpartition("/")[2] in _AUTHORIZING):
            # What is said about authorization is not the protocol's, and is secret, perhaps.
            origin |= {"what": path, "oauth": {}}
        facts = {**origin, "query": sorted(dict(parse_qsl(query)))} if query else origin
        taps.note("send", self._seen(origin, body), {**facts, "headers": dict(self.headers.items())})
        upstream = server.connect()
        watched = threading.Event()
        try:
            try:
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                upstream.putheader("Host", server.host_for(self.headers.get("host")))
                for name, value in self.headers.items():
                    if name.lower() not in _HOP_BY_HOP:
                        upstream.putheader(name, value)
                if body or "content-length" in self.headers or "transfer-encoding" in self.headers:
                    upstream.putheader("Content-Length", str(len(body)))
                upstream.putheader("Connection", "close")
                upstream.endheaders(body or None)
                taps.deliver()
                self._watch(upstream, watched)
                reply = upstream.getresponse()
            except (OSError, http.client.HTTPException) as problem:
                # As the client would have seen it: a connection that is refused, or that breaks off.
                server.say(
                    f"{server.origin}: {problem or type(problem).__name__}; the client sees a connection that breaks"
                )
                self._hung_up(taps, origin, body)
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
            self._pass_reply(reply, taps, origin, body)
        finally:
            watched.set()
            upstream.close()
            taps.deliver()

    def _seen(self, origin: JsonObject, body: bytes | bytearray) -> bytes | None:
        """A body as it is noted: only messages of the protocol are."""
        return (bytes(body) or None) if "oauth" not in origin else None

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline(1000).split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline(10)
        while self.rfile.readline(_CHUNK).strip():
            continue
        return b"".join(parts)

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

    def _hung_up(self, taps: Taps, origin: JsonObject, body: bytes) -> bool:
        """Whether the client is gone, which is noted: in the stateless era that is a message."""
        poll = select.poll()
        poll.register(self.connection, _HANG_UP)
        if not (_HANG_UP and poll.poll(0)):
            return False
        from mcp_ref.errors import Refusal
        from mcp_ref.messages import decode, readable_id

        with suppress(Refusal, RecursionError):
            taps.note("send", None, {**origin, "hangUp": readable_id(decode(body))})
        return True

    def _pass_reply(self, reply: http.client.HTTPResponse, taps: Taps, origin: JsonObject, body: bytes) -> None:
        server, headers = self.server, reply.getheaders()
        kind = (reply.getheader("content-type") or "").partition(";")[0].strip().lower()
        facts = {**origin, "status": reply.status, "headers": dict(headers)}
        if (session := reply.getheader("mcp-session-id")) is not None:
            server.know(session, taps)
        streams = kind == "text/event-stream"
        length = reply.getheader("content-length")
        empty = self.command == "HEAD" or reply.status in (204, 304) or reply.status < 200 or length == "0"
        chunked = not empty and length is None and self.request_version == "HTTP/1.1"
        # 1. The head.
        if streams or empty:
            taps.note("receive", None, facts)
        self.send_response_only(reply.status, reply.reason)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", length)
        elif chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif not empty:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.flush()
        if empty:
            return
        # 2. The body, as it arrives.
        events, seen, left = EventParser(_MAX_NOTED), bytearray(), None if length is None else int(length)
        first = streams and self.command == "GET"
        ended = "server"
        try:
            while chunk := reply.read1(_CHUNK):
                if first:
                    chunk, first = self._rewritten(chunk), False
                if streams:
                    self._note_events(events, chunk, taps, facts)
                else:
                    seen += chunk[: _MAX_NOTED - len(seen)]
                    left = None if left is None else left - len(chunk)
                    if left == 0:
                        taps.note("receive", self._seen(origin, seen), self._told(facts, seen))
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk)
                self.wfile.flush()
                taps.deliver()
            if left:
                raise http.client.IncompleteRead(b"", left)
            if not streams and left is None:
                taps.note("receive", self._seen(origin, seen), self._told(facts, seen))
            if streams:
                taps.note("receive", None, {**origin, "end": "client" if self._hung_up(taps, origin, body) else ended})
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
        except (OSError, http.client.HTTPException):
            gone = self._hung_up(taps, origin, body)
            if streams:
                taps.note("send" if gone else "receive", None, {**origin, "end": "client" if gone else "broken"})
            # What broke off there breaks off here: without the end that HTTP would give it.
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def _told(self, facts: JsonObject, body: bytearray) -> JsonObject:
        """What is noted of a reply: with the metadata of the resource, which is public."""
        if "/oauth-protected-resource" not in facts.get("what", ""):
            return facts
        from mcp_ref.errors import Refusal
        from mcp_ref.messages import decode

        with suppress(Refusal, RecursionError):
            if isinstance(document := decode(bytes(body)), dict):
                return {**facts, "oauth": document}
        return facts

    def _note_events(self, parser: EventParser, chunk: bytes, taps: Taps, facts: JsonObject) -> None:
        origin = {name: each for name, each in facts.items() if name != "headers"}
        with suppress(EventTooLong):
            for event in parser.feed(chunk):
                is_message = event.event == "message" and event.data
                if event.event == "endpoint":
                    self.server.know(urlsplit(event.data)._replace(scheme="", netloc="").geturl(), taps)
                seen = self._seen(origin, event.data.encode()) if is_message else None
                taps.note("receive", seen, {**origin, **event_facts(event)})

    def _rewritten(self, chunk: bytes) -> bytes:
        """The beginning of a stream of HTTP+SSE: an absolute URI to post to would lead past this proxy."""
        origin = self.server.origin.encode()
        if b"event: endpoint" not in chunk and b"event:endpoint" not in chunk or origin not in chunk:
            return chunk
        ours = self.server.url[: self.server.url.index("/", len("http://"))]
        self.server.say(f"the endpoint event names {self.server.origin}, and was rewritten to {ours}")
        return chunk.replace(origin, ours.encode(), 1)
