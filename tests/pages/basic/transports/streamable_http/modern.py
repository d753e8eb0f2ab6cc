"""A client of the stateless era in miniature: messages with an envelope, headers that repeat them, an endpoint."""

from __future__ import annotations

import threading
from typing import Any

from mcp_ref.pages.basic.transports.streamable_http.headers import mirror
from mcp_ref.pages.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from tests.pages.basic.transports.streamable_http import raw
from tests.pages.basic.transports.streamable_http.replies import Front, ListReply

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


class ModernFront(Front):
    """An endpoint and a client that sends with each message the headers that belong to it."""

    def post(self, message: Any, reply: ListReply | None = None, **headers: str | None) -> ListReply:
        fields = {name.replace("-", "_"): value for name, value in mirrored(message).items()}
        return super().post(message, reply, **{**fields, **headers})

    def is_gone(self, reply: ListReply) -> bool:
        return reply.hung_up

    def start(self, message: Any) -> tuple[ListReply, threading.Thread]:
        """A POST in a thread of its own."""
        reply = ListReply()
        thread = threading.Thread(target=self.post, args=(message, reply))
        thread.start()
        return reply, thread


def error_of(reply: ListReply) -> tuple[int | None, Any, int]:
    """Status, id and code of an answer that is an error."""
    body = reply.json
    return reply.status, body.get("id", "none"), body["error"]["code"]
