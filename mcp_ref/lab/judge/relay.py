"""Standing between two peers: bytes pass as they are, both ways, and are shown to a trace.

Spec:      basic/transports#stdio, basic/transports/streamable-http; RFC 9112 for what a proxy changes
Not here:  judging what is seen (lab/judge/check); the command line (lab/cli/check)

    client  ->  stdin  ->  Pipes  ->  stdin   ->  server's process      client  ->  HttpProxy  ->  server's URL
            <-  stdout <-         <-  stdout  <-

What passes is noted before it is written, for the answer could be noted first otherwise; to note is to remember the
bytes. They are parsed and judged after they have passed. End of input, exit codes, signals and hang-ups pass as well,
and nothing here has a time limit of its own, but for clients over HTTP that neither ask nor read for a minute.

Over HTTP a client meets the server that ours is (kit/http/http_server), with its limits and its strictness. A body
that comes in chunks goes on with a length. Of a reply, an event stream passes as it arrives, and the rest at its end.
The server's origin is replaced by the proxy's in what would lead a client past it: headers, such as where a redirect
leads and where the metadata is, the event `endpoint`, and all that is said about authorization. There it is put back
into what the client asks, so that a token is for the server. Interim responses (1xx) end here.
"""

from __future__ import annotations

import http.client
import itertools
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Self
from urllib.parse import parse_qsl, quote, urljoin, urlsplit

from mcp_ref import HttpLimits, HttpRequest, JsonObject, Refusal
from mcp_ref.facts import HttpReply, HttpServer, Latest, LineSplitter, found_on_path, messages, sse
from mcp_ref.recording.record import Direction, Recorder

_CHUNK: Final = 65536
_MAX_NOTED: Final = 64 * 1024 * 1024  # bytes of one line or event that are shown to a trace, and of one body
_AFTER_EXIT: Final = 1.0  # seconds for what a process has written last, if another one holds its pipes open
_AT_CLOSE: Final = 1.0  # seconds for the exchanges under way to end
_SIGNAL_INTERVAL: Final = 0.5  # seconds until a signal is noticed, at most
_LOOK_INTERVAL: Final = 0.05
_PASSED: Final = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]
_GUARD: Final = """import os, sys; sys.stdin.read(1) or getattr(os, "killpg", os.kill)(int(sys.argv[1]), 9) or print(
    "mcp-ref check was killed, and the server with it: only --report has what it found", file=sys.stderr)"""
_MAX_CONNS: Final = 10_000  # sessions whose connection is remembered
_LIMITS: Final = HttpLimits(max_message=_MAX_NOTED, bodies=4 * _MAX_NOTED, bodies_per_client=4 * _MAX_NOTED, write=60)


class Taps:
    """Shows the traffic of one connection to several recorders."""

    def __init__(self, recorders: Sequence[Recorder], transport: str) -> None:
        self._taps = [recorder.tap("server", transport) for recorder in recorders]

    def note(self, direction: Direction, message: Any, facts: Mapping[str, Any] | None = None) -> None:
        for tap in self._taps:
            tap.note(direction, message, facts)


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
        if sys.platform == "win32":
            command = found_on_path(command, os.environ.get("PATH"))
        # A group of its own: what Ctrl-C sends to a terminal's group would come to it twice.
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, process_group=0
        )
        # Whoever kills this process, or its group, kills the server with it: the pipe ends, and then the guard does so.
        self._guard = subprocess.Popen(
            [sys.executable, "-ISc", _GUARD, str(self._child.pid)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def run(self) -> int:
        """Pass everything until the server has exited; returns its exit code, negative for a signal.

        Blocks: until then, until the client has taken what the server wrote last, and at most a second more if another
            process holds its pipes open.
        Threads: the main one, since signals are passed on; it starts three, which end with their pipes. They are
            daemons: nobody else can end the wait for standard input.
        """
        child = self._child

        def pass_signal(number: int, _: Any) -> None:
            self._tap.note("send", None, {"process": {"signal": number}})
            child.send_signal(number)

        handlers = {number: signal.signal(number, pass_signal) for number in _PASSED}
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
        self._guard.communicate(b".")
        # From now on a signal is for this process alone.
        for number, handler in handlers.items():
            signal.signal(number, handler)
        # What it has written last is in the pipes still, and may have to wait for the client.
        until = time.monotonic() + _AFTER_EXIT
        for pump, direction, end in zip(pumps[1:], ("receive", "stderr"), (child.stdout, child.stderr), strict=True):
            # What can be read is looked at first: a pump says that it has something before it takes that.
            while pump.is_alive() and (_waits(end) or direction in self._writing or time.monotonic() < until):
                pump.join(_LOOK_INTERVAL)
        self._tap.note("receive", None, {"process": {"exit": code}})
        return code

    def _pump(self, direction: Direction, read: int, write: int, close: Sequence[Callable[[], None]]) -> None:
        """Pass what comes; then the end, to both sides: whoever goes on writing here gets SIGPIPE, or EPIPE."""
        lines = LineSplitter(_MAX_NOTED, cut=True)
        with suppress(OSError):
            while chunk := self._read(direction, read):
                for line in lines.feed(chunk):
                    self._note(direction, line)
                rest = memoryview(chunk)
                while rest:
                    rest = rest[os.write(write, rest) :]
                self._writing.discard(direction)
        self._writing.discard(direction)
        self._note(direction, lines.take())
        if direction == "send":
            self._tap.note("send", None, {"process": {"eof": "client"}})
        for end in close:
            with suppress(OSError):
                end()

    def _read(self, direction: Direction, read: int) -> bytes:
        if sys.platform != "win32":
            select.select([read], [], [])
            self._writing.add(direction)
        chunk = os.read(read, _CHUNK)
        self._writing.add(direction)
        return chunk

    def _note(self, direction: Direction, line: bytes) -> None:
        if line.strip():
            self._tap.note(direction, line.decode("utf-8", "replace") if direction == "stderr" else line)


def _waits(end: Any) -> bool:
    """Return whether something can be read from a pipe now; on Windows nobody can tell."""
    if sys.platform != "win32":
        with suppress(OSError, ValueError):  # it has been closed
            return bool(select.select([end], [], [], 0)[0])
    return False


# -- HTTP ---------------------------------------------------------------------------------------------------------

_HOP_BY_HOP: Final = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "content-length", "host", "expect",
})  # fmt: skip
_AUTHORIZING: Final = frozenset({"authorize", "token", "register", "revoke", "introspect", "par"})  # ends of paths


class HttpProxy:
    """A reverse proxy on 127.0.0.1, within `with`: an endpoint of our server that makes a connection for each request.

    Args:
        url: of the server's endpoint; requests to any other path go to the same origin.
        recorders: are shown what passes.
        say: is told what a user must know.
        port: to listen on; 0 takes a free one.

    Attributes:
        url: to be given to the client instead.
        conns: what a session's connection is shown to, by its id, or by the URI of an endpoint event.
        closed: from then on nothing is noted: it is we who hang up.

    Raises: OSError where the port cannot be had; ValueError: it is not the URL of a server.
    """

    def __init__(self, url: str, recorders: Sequence[Recorder], say: Callable[[str], None], port: int = 0) -> None:
        from mcp_ref.facts import FinalResponse  # which takes long, and stdio needs none of it

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL of a server must begin with http:// or https://, not {url!r}")
        self.origin, self.path = f"{parts.scheme}://{parts.netloc}", parts.path or "/"
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.connect = partial(kind, parts.hostname, parts.port)  # without a time limit
        self.response_class = FinalResponse
        self.say, self.recorders, self.closed = say, recorders, False
        self.exchanges = itertools.count(1)
        self.conns: Latest[str | None, Taps] = Latest(_MAX_CONNS)
        self._server = HttpServer(
            {"*": lambda request, reply: _Passing(self, request, reply).run()}, port=port, limits=_LIMITS
        )
        self.port = self._server.address[1]
        self.ours = f"http://127.0.0.1:{self.port}"
        self.url = self.ours + self.path

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True
        self._server.close(_AT_CLOSE)

    def outward(self, text: str, what: str) -> str:
        """Return the text with our origin for the server's; that is said."""
        moved = _moved(text, self.origin, self.ours)
        if moved != text:
            self.say(f"{what} names {self.origin}, and was rewritten to {self.ours}")
        return moved

    def host_for(self, host: str | None) -> str:
        """Return the `Host` of a request as the server gets it: its own in the place of ours, and any other as it came.

        A page that reaches this by the name of another host (DNS rebinding) is for the server to refuse.
        """
        ours = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}
        return urlsplit(self.origin).netloc if host is None or host.lower() in ours else host


def _moved(text: str, there: str, here: str) -> str:
    """Return the text with the origin `here` wherever it names `there`, also within a query."""
    for spelled in (str, partial(quote, safe="")):
        text = re.sub(rf"{re.escape(spelled(there))}(?![\w.@-]|:\d|%3A)", spelled(here), text, flags=re.IGNORECASE)
    return text


class _Passing:
    """One request and its reply: its `_body`, the `_taps` that are shown it, the facts of its events (`_origin`)."""

    def __init__(self, proxy: HttpProxy, request: HttpRequest, reply: HttpReply) -> None:
        self._proxy, self._request, self._reply = proxy, request, reply
        self._streams = False
        path, body, memory = request.path, request.body, request.connection
        self._target = target = f"{path}?{request.query}" if request.query else path
        # 1. To which connection it belongs: of the session that was spoken of last, or of what belongs to none.
        session, conns = request.headers.get("mcp-session-id"), proxy.conns
        if session is not None or target in conns or b'"initialize"' in body:
            known = conns.get(session) or conns.get(target)
            self._taps = memory["session"] = known or Taps(proxy.recorders, "http")
        elif "session" in memory and "mcp-method" not in request.headers:
            self._taps = memory["session"]  # whose id has been left out
        else:
            self._taps = memory["own"] = memory.get("own") or Taps(proxy.recorders, "http")
        # 2. What it is about.
        self._origin: JsonObject = {"exchange": next(proxy.exchanges), "method": request.method}
        if path.rstrip("/") != proxy.path.rstrip("/") and target not in conns:
            # It is not the protocol's, and what is said there, as about authorization, is secret, perhaps.
            authorizing = "/.well-known/" in path or path.rpartition("/")[2] in _AUTHORIZING
            self._origin |= {"what": path, "oauth": {}} if authorizing else {"path": path}
        self._oauth = "oauth" in self._origin
        self._body = self._inward(body.decode("latin-1")).encode("latin-1")

    def _inward(self, text: str) -> str:
        """Return the text with the server's origin for ours, where it is about authorization."""
        return _moved(text, self._proxy.ours, self._proxy.origin) if self._oauth else text

    def run(self) -> None:
        """Pass the request, and its reply as it arrives. Raises: OSError: what broke off there breaks off here."""
        request, proxy = self._request, self._proxy
        asked = {"query": sorted(dict(parse_qsl(request.query)))} if request.query else {}
        self._note("send", self._body, **asked, headers=request.headers)
        upstream, done = proxy.connect(), threading.Event()
        upstream.response_class = proxy.response_class
        try:
            self._ask(upstream)
            # Daemon: it ends with its request.
            threading.Thread(
                target=self._watch, name="mcp-between-watch", daemon=True, args=(upstream.sock, done)
            ).start()
            self._answer(upstream.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as problem:
            gone = self._hung_up()
            if self._streams:
                self._note("send" if gone else "receive", None, end="client" if gone else "broken")
            elif not gone:
                why = str(problem) or type(problem).__name__
                proxy.say(f"{proxy.origin}: {why}; the client sees a connection that breaks")
            raise ConnectionError("the server broke off, or the client") from problem
        finally:
            done.set()
            upstream.close()

    def _ask(self, upstream: http.client.HTTPConnection) -> None:
        """Send the request to the server."""
        request = self._request
        upstream.putrequest(request.method, self._inward(self._target), skip_host=True, skip_accept_encoding=True)
        upstream.putheader("Host", self._proxy.host_for(request.headers.get("host")))
        for name, value in request.headers.items():
            # What is rewritten must not be compressed, and a form on a page of the server's comes from its origin.
            if name not in _HOP_BY_HOP and not (self._oauth and name == "accept-encoding"):
                upstream.putheader(name, self._inward(value))
        if self._body or "content-length" in request.headers:
            upstream.putheader("Content-Length", str(len(self._body)))
        upstream.endheaders(self._body or None)

    def _note(self, direction: Direction, body: bytes | None, **facts: Any) -> None:
        """Show the request, or something of its reply; a body only if it is one of the protocol's messages."""
        if not self._proxy.closed:
            seen = body if not self._origin.keys() & {"path", "oauth"} else None
            self._taps.note(direction, seen or None, {**self._origin, **facts})

    def _watch(self, other: socket.socket, done: threading.Event) -> None:
        """End the wait for the server once the client has hung up: shutting the socket down is what wakes it."""
        while not done.wait(_LOOK_INTERVAL):
            if self._request.gone():
                with suppress(OSError):
                    other.shutdown(socket.SHUT_RDWR)
                return

    def _hung_up(self) -> bool:
        """Return whether the client is gone, which is noted: in the stateless era that is a message."""
        gone = self._request.gone()
        with suppress(Refusal, RecursionError):
            if gone:
                self._note("send", None, hangUp=messages.readable_id(messages.decode(self._body)))
        return gone

    def _answer(self, response: http.client.HTTPResponse) -> None:
        """Pass a reply: an event stream as it arrives, and anything else as a whole.

        Raises: HTTPException: it broke off, or is too long; ValueError: its head cannot be passed; OSError: the client
            is gone.
        """
        proxy, head, status = self._proxy, self._request.method == "HEAD", response.status
        if (session := response.getheader("mcp-session-id")) is not None:
            proxy.conns[session] = self._taps
        fields = [(name, proxy.outward(value, name)) for name, value in response.getheaders()]
        facts = {"status": status, "headers": dict(fields)}
        headers: Any = http.client.HTTPMessage()  # which takes several fields of one name
        for name, value in fields:
            if name.lower() not in {*_HOP_BY_HOP, "date"} or (head and name.lower() == "content-length"):
                headers[name] = value
        kind = (response.getheader("content-type") or "").partition(";")[0].strip().lower()
        self._streams = kind == "text/event-stream" and not (self._oauth or head or status in (204, 304))
        if self._streams:
            self._note("receive", None, **facts)
            self._reply.open(headers, status)
            for chunk in self._events(response):
                self._reply.write(chunk)
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)
            self._note("receive", None, end="client" if self._hung_up() else "server")
            self._reply.end()
            return
        body = response.read(_MAX_NOTED)
        if response.length and not head or len(body) == _MAX_NOTED:
            raise http.client.IncompleteRead(body)
        if self._oauth:
            body = proxy.outward(body.decode("latin-1"), self._origin["what"]).encode("latin-1")
        if "/oauth-protected-resource" in self._origin.get("what", ""):
            # The metadata of the resource is public.
            with suppress(Refusal, RecursionError):
                found = messages.decode(body)
                facts |= {"oauth": found} if isinstance(found, dict) else {}
        self._note("receive", body, **facts)
        self._reply.send(status, headers, body)

    def _events(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        """Yield the pieces of an event stream, whose events are noted one by one."""
        parser, first = sse.EventParser(_MAX_NOTED), self._request.method == "GET"
        while chunk := response.read1(_CHUNK):
            if first and re.search(rb"event: ?endpoint", chunk):
                # An absolute URI to post to.
                chunk = self._proxy.outward(chunk.decode("latin-1"), "the endpoint event").encode("latin-1")
            first = False
            with suppress(sse.EventTooLong):
                for event in parser.feed(chunk):
                    if event.event == "endpoint":
                        uri = urlsplit(urljoin(self._target, event.data))
                        self._proxy.conns[uri._replace(scheme="", netloc="").geturl()] = self._taps
                    message = event.data.encode() if event.event == "message" else None
                    self._note("receive", message, status=response.status, **sse.event_facts(event))
            yield chunk
