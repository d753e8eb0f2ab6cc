"""A client of the stateless era in miniature: messages with an envelope, headers that repeat them, an endpoint."""

from __future__ import annotations

import json
import threading
from typing import Any

from mcp_ref import Server
from mcp_ref.kit.http.http_exchange import HttpRequest
from mcp_ref.pages.basic.transports.streamable_http.headers import mirror
from mcp_ref.pages.basic.transports.streamable_http.server import EndpointOptions, StreamableEndpoint
from mcp_ref.pages.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from tests.pages.basic.transports.streamable_http import raw
from tests.pages.basic.transports.streamable_http.replies import BOTH, PATIENCE, ListReply

MODERN = "2026-07-28"


def envelope(version: str = MODERN, **capabilities: Any) -> Any:
    """The `_meta` of a request."""
    return {
        PROTOCOL_VERSION: version,
        CLIENT_INFO: {"name": "modern", "version": "1"},
        CLIENT_CAPABILITIES: capabilities,
    }


def asked(method: str, params: Any = None, request_id: Any = 1, meta: Any = None) -> Any:
    """A request; `meta` instead of the whole envelope."""
    filled = {**(params or {}), "_meta": envelope() if meta is None else meta}
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": filled}


def called(name: str, request_id: Any = 1, **arguments: Any) -> Any:
    return asked("tools/call", {"name": name, "arguments": arguments}, request_id)


def listening(request_id: Any = 1, **notifications: Any) -> Any:
    return asked("subscriptions/listen", {"notifications": notifications}, request_id)


def mirrored(message: Any, version: str = MODERN, schema: Any = None) -> dict[str, str]:
    """The headers that belong to a message, in lower case; none for what is not a message."""
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return {"mcp-protocol-version": version}
    return {name.lower(): value for name, value in mirror(message, version, schema).items()}


def post(message: Any, **fields: str) -> bytes:
    """The bytes of a POST, with the headers that belong to it."""
    return raw.post(message, **{**{name.replace("-", "_"): v for name, v in mirrored(message).items()}, **fields})


class ModernFront:
    """The endpoint of a server, as `HttpService` builds it, without a socket."""

    def __init__(self, server: Server, *, tap: Any = lambda: None, **options: Any) -> None:
        self.endpoint = StreamableEndpoint(server, EndpointOptions(**options), tap)

    def __enter__(self) -> ModernFront:
        return self

    def __exit__(self, *exception: object) -> None:
        self.endpoint.close(PATIENCE)

    def ask(
        self,
        message: Any,
        reply: ListReply | None = None,
        *,
        verb: str = "POST",
        **headers: str | None,
    ) -> ListReply:
        """One POST of a message with its headers; others given with underscores, None leaves one out."""
        reply = reply or ListReply()
        usual = {"host": "localhost:1", "content-type": "application/json", "accept": BOTH, **mirrored(message)}
        changed = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
        kept = {name: value for name, value in changed.items() if value is not None}
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.endpoint(HttpRequest(verb, "/mcp", kept, body, gone=lambda: reply.hung_up), reply)
        return reply

    def start(self, message: Any, reply: ListReply | None = None, **options: Any) -> tuple[ListReply, threading.Thread]:
        """The same in a thread of its own."""
        reply = reply or ListReply()
        thread = threading.Thread(target=self.ask, args=(message, reply), kwargs=options)
        thread.start()
        return reply, thread


def error_of(reply: ListReply) -> tuple[int | None, Any, int]:
    """Status, id and code of an answer that is an error."""
    body = reply.json
    return reply.status, body.get("id", "none"), body["error"]["code"]
