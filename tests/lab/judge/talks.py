"""Conversations for the tests of the checker, written as short lines and made into the events of a trace.

    C(1, "tools/list")          the client's request 1            S(1, tools=[])       its result
    E(1, -32602)                an error as its answer            N("notifications/message", level="info", data=1)
    Q(1, "roots/list")          a request of the server           A(1, roots=[])       its result
    X(1, -32601)                an error as its answer            T("notifications/cancelled", requestId=1)

Everything that the revision asks for is added: the opening, `_meta`, `resultType`, caching hints, HTTP's headers and
statuses. A member that is GONE is taken out again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mcp_ref.errors import LocalProtocolError
from mcp_ref.pages.basic.transports.streamable_http.headers import mirror
from mcp_ref.pages.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO
from mcp_ref.pages.server.utilities.caching import CACHEABLE
from mcp_ref.recording.record import TraceEvent
from mcp_ref.revisions import REVISIONS

GONE: Any = object()
SESSION_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
Message = dict[str, Any]


class Either(NamedTuple):
    """What a sound conversation has, and a broken one in its place: each a line, or a list of them."""

    sound: Any
    broken: Any


class Line(NamedTuple):
    """A message, and who sends it; `plain`: nothing is added to it."""

    sender: str
    message: Any
    plain: bool = False

    def __or__(self, broken: Any) -> Either:
        return Either(self, broken)

    def __ror__(self, sound: Any) -> Either:
        return Either(sound, self)


def C(id: Any, method: str, **params: Any) -> Line:
    return Line("client", {"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def T(method: str, **params: Any) -> Line:
    return Line("client", {"jsonrpc": "2.0", "method": method, "params": params})


def S(id: Any, **result: Any) -> Line:
    return Line("server", {"jsonrpc": "2.0", "id": id, "result": result})


def E(id: Any, code: Any, data: Any = GONE) -> Line:
    error = {"code": code, "message": "no"} | ({} if data is GONE else {"data": data})
    return Line("server", {"jsonrpc": "2.0", "id": id, "error": error})


def N(method: str, **params: Any) -> Line:
    return Line("server", {"jsonrpc": "2.0", "method": method, "params": params})


def Q(id: Any, method: str, **params: Any) -> Line:
    return Line("server", {"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def A(id: Any, **result: Any) -> Line:
    return Line("client", {"jsonrpc": "2.0", "id": id, "result": result}, True)


def X(id: Any, code: Any) -> Line:
    return Line("client", {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}, True)


def raw(sender: str, message: Any) -> Line:
    return Line(sender, message, True)


def V(method: str, id: Any = GONE, **params: Any) -> Line:
    """Return what an app says to its host: a request with an id, a notification without."""
    return Line("view", _without({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), True)


def H(method: str, id: Any = GONE, **params: Any) -> Line:
    """Return what a host says to an app."""
    return V(method, id, **params)._replace(sender="host")


SERVER = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}
CLIENT = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
}


def opening(revision: str, client: Message | None = None, server: Message | None = None) -> list[Line]:
    """How a conversation begins; with capabilities of both sides, everything unless given."""
    client, server = CLIENT if client is None else client, SERVER if server is None else server
    info = {"name": "x", "version": "1"}
    if REVISIONS[revision].era == "stateless":
        return [
            C("d", "server/discover"),
            S("d", supportedVersions=[revision], capabilities=server, _meta={SERVER_INFO: info}),
        ]
    return [
        C(0, "initialize", protocolVersion=revision, capabilities=client, clientInfo=info),
        S(0, protocolVersion=revision, capabilities=server, serverInfo=info),
        T("notifications/initialized"),
    ]


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(item) for name, item in value.items() if item is not GONE}
    return [_without(item) for item in value] if isinstance(value, list) else value


def full(revision: str, lines: Iterable[Line], declared: Message) -> list[Line]:
    """The lines with what the revision asks for added."""
    made, methods = [], dict[Any, str]()
    stateless = REVISIONS[revision].era == "stateless"
    for line in lines:
        message = line.message
        if isinstance(message, dict) and not line.plain:
            message = dict(message)
            if "method" in message and "id" in message and line.sender == "client":
                methods[repr(message["id"])] = str(message["method"])
                if stateless and "params" in message:
                    meta = {PROTOCOL_VERSION: revision, CLIENT_CAPABILITIES: declared}
                    meta |= {CLIENT_INFO: {"name": "x", "version": "1"}}
                    message["params"] = {**message["params"], "_meta": {**meta, **message["params"].get("_meta", {})}}
            if stateless and isinstance(message.get("result"), dict):
                cacheable = methods.get(repr(message.get("id"))) in CACHEABLE
                cacheable = cacheable and message["result"].get("resultType", "complete") == "complete"
                hints = {"ttlMs": 0, "cacheScope": "private"} if cacheable else {}
                message["result"] = {"resultType": "complete", **hints, **message["result"]}
            message = _without(message)
            if message.get("params") == {}:
                del message["params"]
        made.append(Line(line.sender, message))
    return made


def stdio(lines: Iterable[Line]) -> list[TraceEvent]:
    """The events as a client records them over stdio."""
    return events([{"sender": line.sender, "message": line.message, "http": None} for line in lines], "stdio")


def over_stdio(revision: str, *lines: Line, **declared: Any) -> list[TraceEvent]:
    """A conversation from its opening, over stdio."""
    return stdio(full(revision, [*opening(revision, **declared), *lines], declared.get("client", CLIENT)))


def over_http(revision: str, *lines: Line, tools: Any = None) -> list[Row]:
    """The rows of a conversation from its opening, over HTTP; they share nothing."""
    made = http(revision, full(revision, [*opening(revision), *lines], CLIENT), tools)
    return list(json.loads(json.dumps(made)))


Row = dict[str, Any]


def http(revision: str, lines: Iterable[Line], tools: dict[str, Any] | None = None) -> list[Row]:
    """The events over HTTP, as rows that a test can change before `events` makes them."""
    rules, rows, lines = REVISIONS[revision], list[Row](), list(lines)
    open_: dict[Any, Row] = {}
    number, agreed, event_id = 0, False, 0
    stream = {"content-type": "text/event-stream", "x-accel-buffering": "no"}

    def add(sender: str, message: Any, number: int, **facts: Any) -> None:
        rows.append({"sender": sender, "message": message, "http": {"exchange": number, "method": "POST", **facts}})

    for at, line in enumerate(lines):
        message = line.message if isinstance(line.message, dict) else {}
        if line.sender == "client":
            number += 1
            headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
            if rules.era == "stateless":
                try:
                    schema = (tools or {}).get(str(message.get("params", {}).get("name")))
                    found = mirror({"method": "x", **message}, revision, schema)
                    headers |= {name.lower(): value for name, value in found.items()}
                    if "taskId" in message.get("params", {}):
                        headers["mcp-name"] = message["params"]["taskId"]
                except (LocalProtocolError, AttributeError, TypeError):
                    named = message.get("params", {}).get("name")
                    headers |= {"mcp-protocol-version": revision, "mcp-method": str(message.get("method"))}
                    headers |= {} if named is None else {"mcp-name": named}
            elif agreed:
                headers["mcp-session-id"] = SESSION_ID
                headers |= {"mcp-protocol-version": revision} if rules.version_header else {}
            add("client", line.message, number, headers=headers)
            if "method" in message and "id" in message:
                later = next((n for n in range(at + 1, len(lines)) if _answers(lines[n], message["id"])), len(lines))
                streams = any(each.sender == "server" for each in lines[at + 1 : later])
                open_[repr(message["id"])] = {"number": number, "streams": streams}
                if streams:
                    add("server", None, number, status=200, headers=stream)
                    if rules.priming_event:
                        event_id += 1
                        add("server", None, number, status=200, eventId=f"e{event_id}")
            else:
                add("server", None, number, status=202, headers={})
            continue
        own = open_.get(repr(message.get("id"))) if "method" not in message else None
        streaming = [{"number": number, "streams": True}, *(each for each in open_.values() if each["streams"])]
        found = own or streaming[-1]
        if found["streams"]:
            event_id += 1
            extra = {"eventId": f"e{event_id}"} if rules.sse_resumption else {}
            add("server", line.message, found["number"], status=200, **extra)
        else:
            headers = {"content-type": "application/json"}
            if "result" in message and "serverInfo" in message["result"]:
                agreed = True
                headers |= {"mcp-session-id": SESSION_ID} if rules.session_header else {}
            code = message.get("error", {}).get("code") if rules.era == "stateless" else 0
            status = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}.get(code, 200)
            add("server", line.message, found["number"], status=status, headers=headers)
        if own is not None:
            del open_[repr(message["id"])]
            if own["streams"]:
                add("server", None, own["number"], end="server")
    return rows


def _answers(line: Line, id: Any) -> bool:
    message = line.message
    return line.sender == "server" and isinstance(message, dict) and "method" not in message and message.get("id") == id


def sse(lines: Iterable[Line]) -> list[Row]:
    """The rows over HTTP+SSE: a stream, and a POST for each message of the client."""
    get, kind = {"exchange": 1, "method": "GET"}, "text/event-stream"
    rows: list[Row] = [
        {"sender": "client", "message": None, "http": {**get, "headers": {"accept": kind}}},
        {"sender": "server", "message": None, "http": {**get, "status": 200, "headers": {"content-type": kind}}},
        {"sender": "server", "message": None, "http": {**get, "status": 200, "event": "endpoint"}},
    ]
    for number, line in enumerate(lines, 2):
        if line.sender == "server":
            rows.append({"sender": "server", "message": line.message, "http": {**get, "status": 200}})
            continue
        post = {"exchange": number, "method": "POST"}
        rows.append({"sender": "client", "message": line.message, "http": {**post, "headers": {}}})
        rows.append({"sender": "server", "message": None, "http": {**post, "status": 202, "headers": {}}})
    return rows


def events(rows: Iterable[Row], transport: str = "http") -> list[TraceEvent]:
    return [
        TraceEvent(
            number, float(number), "t", "send" if row["sender"] in ("client", "host") else "receive",
            "view" if transport == "postMessage" else "server", row["message"],
            transport, row["http"], 1, row.get("raw"), row.get("end"),
        )
        for number, row in enumerate(rows, 1)
    ]  # fmt: skip


Change = Callable[[list[Row]], Any]
