"""Requests that stand alone, put to a server with a list for a reply."""

from __future__ import annotations

from typing import Any

from mcp_ref import Server
from mcp_ref.errors import Refusal
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION
from mcp_ref.wire import messages
from mcp_ref.wire import served as replies
from mcp_ref.wire.served import ServedRequest

MODERN = "2026-07-28"
INFO = {"name": "alone", "version": "1"}


def meta(capabilities: Any = None, *, version: Any = MODERN, level: str | None = None, **more: Any) -> Any:
    """The `_meta` of a request; `more` holds other keys, such as `progressToken`."""
    leveled = {} if level is None else {LOG_LEVEL: level}
    envelope = {PROTOCOL_VERSION: version, CLIENT_INFO: INFO, CLIENT_CAPABILITIES: capabilities or {}}
    return {**envelope, **leveled, **more}


def without(envelope: Any, key: str) -> Any:
    """An envelope that lacks a key."""
    return {name: value for name, value in envelope.items() if name != key}


class Reply(list[Any], replies.Reply):
    """Where the messages of one request go: a list, of what is JSON."""

    def send(self, message: Any, deadline: Deadline) -> None:
        self.append(messages.decode(messages.encode(message)))

    def methods(self) -> list[str]:
        return [message["method"] for message in self]


def ask(
    server: Server,
    method: str,
    params: Any = None,
    *,
    envelope: Any = None,
    reply: Reply | None = None,
    request_id: Any = 1,
    **answering: Any,
) -> Any:
    """The result of a request, or what opens a stream; `answering` is for `Stateless.answer`."""
    assert server.stateless is not None
    filled = {**(params or {}), "_meta": meta() if envelope is None else envelope}
    incoming = ServedRequest(request_id, method, filled, Reply() if reply is None else reply)
    return server.stateless.answer(incoming, **answering)


def call(server: Server, tool: str, arguments: Any = None, /, *, more: Any = None, **options: Any) -> Any:
    """The result of a `tools/call`; `more` holds other members of its params."""
    return ask(server, "tools/call", {"name": tool, "arguments": arguments or {}, **(more or {})}, **options)


def refused(server: Server, method: str, params: Any = None, **options: Any) -> Refusal:
    """The refusal of a request."""
    try:
        result = ask(server, method, params, **options)
    except Refusal as refusal:
        messages.encode(messages.error(1, refusal))
        return refusal
    raise AssertionError(f"{method} was answered: {result}")


def retried(server: Server, tool: str, result: Any, responses: Any, **options: Any) -> Any:
    """Send a call again, with the answers to what its result asked."""
    assert result["resultType"] == "input_required", result
    state = {"requestState": result["requestState"]} if "requestState" in result else {}
    return call(server, tool, more={**state, "inputResponses": responses}, **options)
