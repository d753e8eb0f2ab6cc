"""A server that is wrong in one thing, and in nothing else: each case of the probe has its fault here.

`over_stdio` gives the command of the server of tests/lab/testing/full with a fault, and `over_http` its URL. Both run
in threads of this process, behind pipes that the bridge of the probe carries, since a test needs twenty of them; a
fault in how a process ends takes a process, `faulty.py CASE`.

A fault is shown each message before the server is, and says what to answer instead; None leaves it to the server. With
`out` it is shown what the server answers, and changes that.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

from mcp_ref.kit.http.http_exchange import HttpReply, HttpRequest
from mcp_ref.kit.http.http_server import HttpServer
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.lab.testing import bridge
from mcp_ref.pages.basic.transports.memory import pair
from tests.lab.testing import full

Answer = list[Any] | None
Fault = Callable[[Any, bytes], Answer]
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def ok(message: Any, result: Any) -> list[Any]:
    return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]


def refused(message: Any, code: int) -> list[Any]:
    return [{"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": "no"}}]


def params(message: Any) -> Any:
    found = message.get("params") if isinstance(message, dict) else None
    return found if isinstance(found, dict) else {}


def on(method: str, answer: Callable[[Any], Answer], where: Callable[[Any], Any] = lambda message: True) -> Fault:
    """Answers requests of a method, those that `where` chooses."""

    def fault(message: Any, raw: bytes) -> Answer:
        fits = isinstance(message, dict) and message.get("method") == method and where(message)
        return answer(message) if fits else None

    return fault


class Dies(Exception):
    """The server ends."""


def ends(where: Callable[[bytes], Any]) -> Fault:
    """Ends the server."""

    def fault(message: Any, raw: bytes) -> Answer:
        if where(raw):
            raise Dies
        return None

    return fault


class Changed:
    """A fault in what the server answers to a method, where `where` chooses the request."""

    def __init__(
        self, method: str, change: Callable[[Any], list[Any]], where: Callable[[Any], Any] = lambda message: True
    ) -> None:
        self._method, self._change, self._where, self._asked = method, change, where, list[Any]()

    def __call__(self, message: Any, raw: bytes) -> Answer:
        if isinstance(message, dict) and message.get("method") == self._method and self._where(message):
            self._asked.append(message.get("id"))
        return None

    def out(self, message: Any) -> list[Any]:
        """Return what is written instead of a message of the server."""
        return self._change(message) if "result" in message and message["id"] in self._asked else [message]


def changed(method: str, change: Callable[[Any], Any], where: Callable[[Any], Any] = lambda message: True) -> Fault:
    """The results of a method are changed."""
    return Changed(method, lambda answer: [{**answer, "result": change(answer["result"])}], where)


def less(*names: str) -> Callable[[Any], Any]:
    """A result without members."""
    return lambda result: {name: value for name, value in result.items() if name not in names}


def before(method: str, *more: Any) -> Fault:
    """Something comes before the answer to a method."""
    return Changed(method, lambda answer: [*more, answer])


def raw(where: Callable[[bytes], Any], answer: Any) -> Fault:
    """Answers a text."""
    return lambda message, raw: [answer] if where(raw) else None


def gives(result: Any) -> Callable[[Any], Answer]:
    return lambda message: ok(message, result)


def says(code: int) -> Callable[[Any], Answer]:
    return lambda message: refused(message, code)


def has(name: str) -> Callable[[Any], bool]:
    return lambda message: name in params(message)


def note(method: str, **about: Any) -> Any:
    return {"jsonrpc": "2.0", "method": method, "params": about}


def too_early(name: str, until: str = "") -> Fault:
    """Refuses a method as long as another has not come, or any other."""
    come: list[Any] = []

    def fault(message: Any, raw: bytes) -> Answer:
        method = message.get("method") if isinstance(message, dict) else None
        early = method == name and (until not in come if until else not come)
        come.append(method)
        return refused(message, -32600) if early else None

    return fault


class Turning:
    """A list that comes in another order each time."""

    def __init__(self) -> None:
        self._turn = 1

    def __call__(self, result: Any) -> Any:
        self._turn = -self._turn
        return {name: each[:: self._turn] if isinstance(each, list) else each for name, each in result.items()}


class Said:
    """A fault in whatever the server says, from the message on that `since` chooses."""

    def __init__(self, change: Callable[[Any], list[Any]], since: Callable[[Any], Any] = lambda message: True) -> None:
        self._change, self._since, self._begun = change, since, False

    def __call__(self, message: Any, raw: bytes) -> Answer:
        self._begun = self._begun or self._since(message)
        return None

    def out(self, message: Any) -> list[Any]:
        return self._change(message) if self._begun else [message]


def other_token(message: Any) -> list[Any]:
    """Progress names a number as a text."""
    token = params(message).get("progressToken") if message.get("method") == "notifications/progress" else None
    return [{**message, "params": {**message["params"], "progressToken": "0"}}] if token == 0 else [message]


def alone(message: Any, raw: bytes) -> Answer:
    """The session era is refused without a word."""
    return refused(message, -32601) if isinstance(message, dict) and message.get("method") == "initialize" else None


def late(message: Any, raw: bytes) -> Answer:
    """A call is answered when it is cancelled."""
    if isinstance(message, dict) and message.get("id") == "slow":
        return []
    about = params(message)
    return ok({"id": "slow"}, {**COMPLETE, "content": []}) if about.get("requestId") == "slow" else None


def called(name: str, **arguments: Any) -> Callable[[Any], bool]:
    """Whether a call is one of a tool with just these arguments."""
    return lambda message: params(message).get("name") == name and params(message).get("arguments") == arguments


def of(name: str, value: Any) -> Callable[[Any], bool]:
    """Whether a param has a value."""
    return lambda message: params(message).get(name) == value


def meta(message: Any) -> Any:
    return params(message).get("_meta") or {}


NONE = "no-such-1"  # what a probe calls what is not there
CHANGED = note("notifications/tools/list_changed", _meta={"io.modelcontextprotocol/subscriptionId": "listen"})
CALL: Any = {**COMPLETE, "content": []}
FALSE: Any = {**COMPLETE, "content": [{"type": "text", "text": "7"}], "structuredContent": 7}
TOOLS = {**COMPLETE, "tools": []}
ABOUT = {"name": "full", "version": "1"}
DISCOVERED = {**COMPLETE, "supportedVersions": ["2026-07-28"], "capabilities": {}, "_meta": {
    "io.modelcontextprotocol/serverInfo": ABOUT}}  # fmt: skip
ASKS = {"resultType": "input_required", "requestState": "s", "inputRequests": {
    "a": {"method": "roots/list", "params": {}}}}  # fmt: skip
FAULTS: dict[str, Callable[[], Fault]] = {
    "opening/version-kept": lambda: changed("initialize", lambda r: {**r, "serverInfo": {"name": "full"}}),
    "opening/version-unknown": lambda: on("initialize", says(-32602), lambda m: "2099" in str(m)),
    "opening/initialize-complete": lambda: on("initialize", says(-32602), has("com.example/more")),
    "opening/request-before-initialized": lambda: too_early("ping", "notifications/initialized"),
    "opening/initialize-not-in-a-batch": lambda: raw(lambda r: r.startswith(b"[{") and b'"initialize"' in r, {
        "jsonrpc": "2.0", "id": "open", "result": {
            "protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": ABOUT}}),
    "opening/discover": lambda: changed("server/discover", less("capabilities")),
    "opening/eras-side-by-side": lambda: alone,
    "ids/kept-as-sent": lambda: Changed("server/discover", lambda a: [{**a, "id": "0"}], lambda m: m["id"] == 0),
    "ids/null": lambda: raw(lambda r: b'"id": null' in r, {"jsonrpc": "2.0", "id": None, "result": TOOLS}),
    "ids/fraction-or-boolean": lambda: raw(lambda r: b":7.5" in r, {"jsonrpc": "2.0", "id": 7.5, "result": {}}),
    "ids/twice-at-once": lambda: ends(lambda r: b'"twice"' in r),
    "ids/many-at-once": lambda: Changed("server/discover", lambda a: [a, a], lambda m: m["id"] == "many-7"),
    "frames/not-json": lambda: raw(lambda r: r.endswith(b'"method": '), {
        "jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}),
    "frames/not-utf8": lambda: raw(lambda r: b"\xff" in r, {"jsonrpc": "2.0", "id": 1, "result": {}}),
    "frames/no-message": lambda: ends(lambda r: r == b"42"),
    "frames/params-not-an-object": lambda: lambda m, r: ok(m, TOOLS) if b'"list"' in r and b"[1]" in r else None,
    "frames/unknown-method": lambda: on("no/such/method", gives(COMPLETE), lambda m: "deep" not in params(m)),
    "frames/unknown-notification": lambda: on("notifications/no-such-thing", says(-32601)),
    "frames/stray-response": lambda: lambda m, r: refused({"id": "nobody"}, -32600) if b'"nobody"' in r else None,
    "frames/members-unknown": lambda: on("server/discover", says(-32600), lambda m: "com.example/more" in m),
    "frames/batch": lambda: raw(lambda r: r.startswith(b"[{") and b'"initialize"' not in r, {
        "jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}),
    "frames/pieces": lambda: ends(lambda r: r.endswith(b"\r")),
    "frames/line-separators": lambda: ends(lambda r: "\u2028".encode() in r),
    "frames/large": lambda: ends(lambda r: len(r) > 1 << 20),
    "frames/deep": lambda: ends(lambda r: b"[" * 1000 in r),
    "frames/same-member-twice": lambda: ends(lambda r: r.endswith(b'"id":2}')),
    "meta/unknown-keys": lambda: lambda m, r: refused(m, -32602) if b"com.example/x" in r else None,
    "ping/empty": lambda: changed("ping", lambda r: {"x": 1}),
    "progress/token-kinds": lambda: Said(other_token),
    "cancel/unknown": lambda: on("notifications/cancelled", says(-32600), of("requestId", "never")),
    "cancel/after-the-end": lambda: on(
        "notifications/cancelled", lambda m: refused({"id": "ended"}, -32600), of("requestId", "ended")),
    "cancel/call": lambda: late,
    "capabilities/undeclared": lambda: changed(
        "initialize", lambda r: {**r, "capabilities": less("logging")(r["capabilities"])}),
    "capabilities/declared": lambda: on("prompts/list", says(-32603), lambda m: not has("cursor")(m)),
    "pagination/unknown-cursor": lambda: on("tools/list", gives(TOOLS), of("cursor", NONE)),
    "pagination/walk": lambda: changed("resources/list", Turning()),
    "tools/list-twice": lambda: changed("tools/list", Turning()),
    "tools/definitions": lambda: changed("tools/list", lambda r: {**r, "tools": [r["tools"][0], *r["tools"]]}),
    "tools/unknown": lambda: on("tools/call", gives({**CALL, "isError": True}), called(NONE)),
    "tools/call-without-name": lambda: on("tools/call", gives(CALL), lambda m: "name" not in params(m)),
    "tools/wrong-arguments": lambda: on("tools/call", gives(FALSE), called("add")),
    "tools/structured": lambda: changed("tools/call", less("structuredContent"), called("add", a=1, b=2)),
    "resources/unknown": lambda: on(
        "resources/read", gives({**COMPLETE, "contents": []}), lambda m: "nosuch:" in params(m)["uri"]),
    "resources/escape": lambda: on(
        "resources/read", gives({**COMPLETE, "contents": []}), lambda m: "passwd" in params(m)["uri"]),
    "resources/read-all": lambda: on("resources/read", says(-32603), of("uri", "note://first")),
    "prompts/unknown": lambda: on("prompts/get", gives({**COMPLETE, "messages": []}), of("name", NONE)),
    "prompts/missing-argument": lambda: on("prompts/get", gives({**COMPLETE, "messages": []}), of("name", "poem")),
    "completion/unknown": lambda: on(
        "completion/complete", gives({**COMPLETE, "completion": {"values": []}}), lambda m: NONE in str(m)),
    "completion/at-most-100": lambda: changed(
        "completion/complete", lambda r: {**r, "completion": {"values": ["x"] * 150}}),
    "logging/unknown-level": lambda: on("logging/setLevel", gives({}), of("level", "loud")),
    "logging/levels": lambda: on("logging/setLevel", says(-32602), of("level", "alert")),
    "logging/unasked": lambda: before("server/discover", note("notifications/message", level="info", data="x")),
    "logging/unknown-level-of-a-request": lambda: on(
        "server/discover", gives(DISCOVERED), lambda m: "loud" in meta(m).values()),
    "stateless/no-envelope": lambda: on("tools/list", gives(TOOLS), lambda m: meta(m).keys() == {
        "io.modelcontextprotocol/protocolVersion"}),
    "stateless/unknown-version": lambda: on("server/discover", says(-32602), lambda m: "2099" in str(m)),
    "stateless/nothing-remembered": lambda: too_early("tools/list"),
    "stateless/results-complete": lambda: changed("server/discover", less("resultType")),
    "stateless/caching-hints": lambda: changed("server/discover", lambda r: {**r, "ttlMs": -1}),
    "stateless/removed-methods": lambda: on("logging/setLevel", gives(COMPLETE)),
    "stateless/forged-state": lambda: on("tools/call", gives(FALSE), lambda m: has("requestState")(m) and (
        called("add", a=1, b=1)(m))),
    "stateless/no-questions-undeclared": lambda: on("tools/call", gives(ASKS), called("add", a=1, b=1)),
    "stateless/listen": lambda: on("subscriptions/listen", lambda m: [CHANGED]),
    "stateless/listen-cancelled": lambda: Said(lambda m: [CHANGED, m], of("requestId", "listen")),
    "stdio/clean-output": lambda: before("server/discover", "Listening ..."),
    "stdio/no-requests": lambda: before("server/discover", {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}),
    "stdio/end-of-input": lambda: lambda m, r: None,
    "stdio/end-in-a-line": lambda: lambda m, r: None,
}  # fmt: skip
"""By the name of the case, what makes its fault."""


def parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def serve(name: str, lines: Iterable[bytes], write: Callable[[bytes], object]) -> None:
    """Serve a client, until its lines end. Raises: Dies."""
    fault: Any = FAULTS[name]()
    lock = threading.Lock()
    ours, theirs = pair()

    def put(text: bytes) -> None:
        with lock, suppress(OSError):
            write(text + b"\n")

    def said(each: Any) -> None:
        put(each.encode() if isinstance(each, str) else json.dumps(each).encode())

    def answered(text: bytes) -> None:
        message = json.loads(text)
        for each in fault.out(message) if hasattr(fault, "out") and isinstance(message, dict) else [message]:
            said(each)

    ours.start(answered, lambda reason: None)
    session = full.server.connect(theirs)
    try:
        for line in lines:
            line = line.removesuffix(b"\n")
            answers = fault(parsed(line), line)
            if answers is None:
                other: Any = ours.other  # type: ignore[attr-defined]
                with other._lock:
                    other._receive(line.rstrip(b"\r"))
            for each in answers or ():
                said(each)
    finally:
        session.close(2)
        ours.close(Deadline(2))


@contextmanager
def over_stdio(name: str) -> Iterator[list[str]]:
    """The command of a server with this fault."""
    if name in ENDS:
        yield [sys.executable, "-m", "tests.lab.testing.faulty", name]
        return
    threads: list[threading.Thread] = []

    def carried(link: socket.socket) -> None:
        with link, link.makefile("rb") as lines, suppress(Dies, OSError):
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            next(lines)  # the token
            serve(name, (line for line in lines if line != b"\n" and not line.startswith(b"\0")), link.sendall)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threads.append(threading.Thread(target=carried, args=listening.accept()[:1]))
                threads[-1].start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield [sys.executable, "-IS", bridge.__file__, str(listening.getsockname()[1]), "token"]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
    for thread in [accepting, *threads]:
        thread.join(5)


ENDS = {
    "stdio/end-of-input": lambda last: last.endswith(b"\n"),
    "stdio/end-in-a-line": lambda last: not last.endswith(b"\n"),
}
"""Cases of a process that ends with 1, and after which last line."""


def main(name: str) -> int:
    """Serve standard input and output. Returns: the exit code."""
    last = [b"\n"]

    def lines() -> Iterator[bytes]:
        for line in sys.stdin.buffer:
            last[0] = line
            yield line

    def write(text: bytes) -> None:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()

    try:
        serve(name, lines(), write)
    except Dies:
        return 1
    return 1 if name in ENDS and ENDS[name](last[0]) else 0


# -- over HTTP ----------------------------------------------------------------------------------------------------

HttpFault = Callable[[HttpRequest, HttpReply], HttpReply | None]
"""Answers a request itself, or returns where the server is to answer it."""


def status(number: int, where: Callable[[HttpRequest], Any], **headers: str) -> HttpFault:
    def fault(request: HttpRequest, reply: HttpReply) -> HttpReply | None:
        if not where(request):
            return reply
        reply.send(number, headers)
        return None

    return fault


def asked(request: HttpRequest) -> Any:
    """The message of a POST, where that is an object."""
    message = parsed(request.body) if request.method == "POST" else None
    return message if isinstance(message, dict) else {}


def asks(*methods: str) -> Callable[[HttpRequest], bool]:
    """Whether a POST has one of these methods."""
    return lambda request: asked(request).get("method") in methods


def harmless(where: Callable[[HttpRequest], Any]) -> HttpFault:
    """Answers what is to be refused."""

    def fault(request: HttpRequest, reply: HttpReply) -> HttpReply | None:
        message = asked(request)
        if "id" not in message or not where(request):
            return reply
        result = DISCOVERED if message["method"] == "server/discover" else {}
        text = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        reply.send(200, {"Content-Type": "application/json"}, text)
        return None

    return fault


class Otherwise:
    """A reply whose whole answers go through a function."""

    def __init__(self, reply: HttpReply, send: Callable[[int, dict[str, str], bytes], object]) -> None:
        self._reply, self._send = reply, send

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self._send(status, dict(headers), body)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reply, name)


def as_text(request: HttpRequest, reply: HttpReply) -> HttpReply | None:
    """Something harmless is answered as text."""
    if not asks("server/discover", "ping")(request):
        return reply
    return Otherwise(reply, lambda status, headers, body: reply.send(
        status, headers | ({"Content-Type": "text/plain"} if status == 200 else {}), body))  # fmt: skip


def stream(reply: HttpReply, *events: str, **headers: str) -> None:
    reply.open({"Content-Type": "text/event-stream", **headers})
    for event in events:
        reply.write(f"{event}\n\n".encode())
    reply.end()


def held_back(request: HttpRequest, reply: HttpReply, **headers: str) -> HttpReply | None:
    """Return what is harmless is answered by a stream, which proxies may buffer unless `headers` forbid it."""

    def send(status: int, own: dict[str, str], body: bytes) -> None:
        if status == 200:
            stream(reply, f"data: {body.decode()}", **headers)
        else:
            reply.send(status, own, body)

    return Otherwise(reply, send) if asked(request).get("id") == "s" else reply


def mixed(request: HttpRequest, reply: HttpReply) -> HttpReply | None:
    """A stream that is resumed has what another one had."""
    if asked(request).get("id") == "resume":
        result = json.dumps({"jsonrpc": "2.0", "id": "resume", "result": {}})
        stream(reply, "id: 1\ndata:", f"id: 2\ndata: {result}")
    elif request.method == "GET" and "last-event-id" in request.headers:
        result = json.dumps({"jsonrpc": "2.0", "id": "of another stream", "result": {}})
        stream(reply, f"id: 3\ndata: {result}")
    else:
        return reply
    return None


class Counted:
    """The ids of sessions are counted up."""

    def __init__(self) -> None:
        self._ids = dict[str, str]()

    def __call__(self, request: HttpRequest, reply: HttpReply) -> HttpReply | None:
        def send(status: int, headers: dict[str, str], body: bytes) -> None:
            for name, value in headers.items():
                if name.lower() == "mcp-session-id":
                    headers[name] = f"{1000 + len(self._ids)}"
                    self._ids[headers[name]] = value
            reply.send(status, headers, body)

        given = request.headers.get("mcp-session-id")
        if given in self._ids:
            request.headers["mcp-session-id"] = self._ids[given]
        return Otherwise(reply, send) if asks("initialize")(request) else reply


def modern(request: HttpRequest, reply: HttpReply) -> HttpReply | None:
    """A server without the session era has something for GET."""
    if asks("initialize")(request):
        data = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        error = {"code": -32022, "message": "no", "data": data}
        text = json.dumps({"jsonrpc": "2.0", "id": asked(request).get("id"), "error": error}).encode()
        reply.send(400, {"Content-Type": "application/json"}, text)
    elif request.method == "GET":
        reply.send(404, {})
    else:
        return reply
    return None


def greets(request: HttpRequest, reply: HttpReply) -> HttpReply | None:
    """A stream of HTTP+SSE does not begin with the endpoint."""
    if request.method != "GET":
        return reply
    stream(reply, f"data: {json.dumps(note('notifications/message', level='info', data='hello'))}")
    return None


GUARDED = {"Authorization": "Bearer good"}
"""The headers of who may come in, where the fault is how others are refused."""

HTTP_FAULTS: dict[str, Callable[[], HttpFault]] = {
    "http/origin": lambda: harmless(
        lambda r: "evil" in r.headers.get("origin", "") and "evil" not in r.headers.get("host", "")),
    "http/rebinding": lambda: harmless(lambda r: "evil" in r.headers.get("host", "")),
    "http/accepted": lambda: status(200, asks("notifications/cancelled")),
    "http/content-type": lambda: as_text,
    "http/get": lambda: status(500, lambda r: r.method == "GET" and "last-event-id" not in r.headers),
    "http/get-refused": lambda: modern,
    "http/unknown-version-header": lambda: harmless(lambda r: r.headers.get("mcp-protocol-version") == "1999-01-01"),
    "http/no-session-id": lambda: harmless(lambda r: asks("ping")(r) and "mcp-session-id" not in r.headers),
    "http/session-id": Counted,
    "http/header-mismatch": lambda: harmless(
        lambda r: r.headers.get("mcp-method") == "prompts/list" and not asks("prompts/list")(r)),
    "http/header-encoded": lambda: status(400, lambda r: r.headers.get("mcp-name", "").startswith("=?")),
    "http/ended-session": lambda: status(200, lambda r: r.method == "DELETE"),
    "http/resume": lambda: mixed,
    "http/stream-headers": lambda: held_back,
    "sse/endpoint": lambda: greets,
    "auth/unauthorized": lambda: status(401, lambda r: r.headers.get("authorization") != GUARDED["Authorization"]),
}  # fmt: skip


@contextmanager
def over_http(name: str) -> Iterator[str]:
    """The URL of a server with this fault."""
    from mcp_ref.pages.basic.transports.streamable_http.server import StreamableEndpoint

    service = full.server.serve_http(port=0)
    endpoint = next(each for each in service._endpoints._endpoints if isinstance(each, StreamableEndpoint))

    fault = HTTP_FAULTS[name]()

    def front(request: HttpRequest, reply: HttpReply) -> None:
        if (left := fault(request, reply)) is not None:
            endpoint(request, left)

    http = HttpServer({"/mcp": front})
    http.start()
    try:
        yield f"http://127.0.0.1:{http.address[1]}/mcp"
    finally:
        http.close(5)
        service.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
