"""Messages: requests, responses, notifications, errors, batches.

Spec:      basic/messages (2024-11-05), basic/index#messages (2025-03-26 ...); JSON-RPC 2.0
Upholds:   spec_notes/basic/index.md
Not here:  which message may be sent when (basic/lifecycle), ids in flight (connection/connection), the keys of `_meta`
           (basic/meta), what counts as JSON (kit/typed/json_text)

    message      = request | notification | response | error
    request      = {"jsonrpc": "2.0", "id": ID, "method": STRING, "params"?: OBJECT}
    notification = {"jsonrpc": "2.0", "method": STRING, "params"?: OBJECT}
    response     = {"jsonrpc": "2.0", "id": ID, "result": OBJECT}
    error        = {"jsonrpc": "2.0", "id"?: ID | null, "error": {"code": INTEGER, "message": STRING, "data"?: ANY}}
    ID           = STRING | INTEGER                  (not a boolean, though Python says it is an int)
"""

from __future__ import annotations

from typing import Any, Literal, TypeGuard

from mcp_ref.errors import InvalidParams, InvalidRequest, LocalProtocolError, ParseError, Refusal, RemoteProtocolError
from mcp_ref.kit.typed import json_text
from mcp_ref.kit.typed.shapes import JsonObject as JsonObject

RequestId = str | int
Kind = Literal["request", "notification", "response"]


def decode(data: bytes | str) -> Any:
    """Read one message's text; ParseError also for `NaN`, huge integers, too many values, or too deep a nesting."""
    try:
        # MUST: messages are UTF-8 (basic/transports#; basic/transports/index#messages)
        text = data if isinstance(data, str) else str(data, "utf-8")
        if len(text) > json_text.MAX_VALUES:
            json_text.check_count(text)
        return json_text.decode(text)
    except RecursionError:
        raise ParseError("Parse error: nested too deeply") from None
    except ValueError as problem:
        raise ParseError(f"Parse error: {problem}") from None


def encode(message: JsonObject | list[JsonObject]) -> bytes:
    """Write one message as UTF-8, without any line break in it; LocalProtocolError if it is not JSON."""
    try:
        # MUST: messages are UTF-8 (basic/transports#; basic/transports/index#messages)
        return json_text.encode(message).encode("utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair is not a character; JSON can still carry it as an escape.
        return json_text.encode_ascii(message).encode("ascii")
    except (TypeError, ValueError, RecursionError) as problem:
        raise LocalProtocolError(f"this cannot be sent as JSON: {problem}") from None


def request(request_id: RequestId, method: str, params: JsonObject | None) -> JsonObject:
    """Return a request; `params` is left out when None."""
    if params is None:
        return {"jsonrpc": "2.0", "id": request_id, "method": method}
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, params: JsonObject | None) -> JsonObject:
    """Return a notification; `params` is left out when None."""
    if params is None:
        # A notification MUST NOT have an `id` (basic/index#notifications; basic/messages#notifications)
        return {"jsonrpc": "2.0", "method": method}
    return {"jsonrpc": "2.0", "method": method, "params": params}


def response(request_id: RequestId, result: JsonObject) -> JsonObject:
    """Return the successful answer to a request."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error(request_id: RequestId | None, refusal: Refusal, *, id_optional: bool = False) -> JsonObject:
    """Return the answer that refuses a request. Without a readable id `id` is null, as JSON-RPC 2.0 says, or left out
    where the schema makes it optional (`Revision.error_id_optional`)."""
    # MUST: an error response has an `error` with a `code` and a `message` (basic/index#error-responses;
    # basic/messages#responses)
    body: JsonObject = {"code": refusal.code, "message": refusal.message}
    if refusal.data is not None:
        body["data"] = refusal.data
    if request_id is None and id_optional:
        return {"jsonrpc": "2.0", "error": body}
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def is_id(value: Any) -> TypeGuard[RequestId]:
    """Return whether a value can be a request id: a string or an integer, and not a boolean."""
    return type(value) is str or type(value) is int


def id_key(value: RequestId) -> tuple[type, RequestId]:
    """Return the key of any id in a table: `1` and `True` and `1.0` are equal in Python, and different ids."""
    return (type(value), value)


def readable_id(message: Any) -> RequestId | None:
    """Return the id of whatever arrived, if it has one that can be answered."""
    value = message.get("id") if isinstance(message, dict) else None
    return value if is_id(value) else None


def asks(message: Any) -> bool:
    """Return whether a value says of itself that it is a request, however malformed."""
    return isinstance(message, dict) and message.get("jsonrpc") == "2.0" and "method" in message and "id" in message


def kind_of(message: Any) -> Kind:
    """Tell a request, a notification and a response apart by their members, and check the frame.

    Raises: InvalidRequest, InvalidParams: it is not a message, or a malformed request or notification.
        RemoteProtocolError: a malformed response.
    """
    if not isinstance(message, dict):
        raise InvalidRequest("Invalid request: a message must be an object")
    id_type = type(message.get("id"))
    if "method" in message:
        # MUST: every message is JSON-RPC 2.0, and says so in `jsonrpc` (basic/index#messages; basic/messages#)
        if message.get("jsonrpc") != "2.0":
            raise InvalidRequest('Invalid request: jsonrpc must be "2.0"')
        # MUST: the id of a request is a string or an integer, never null (basic/messages#requests)
        if "id" in message and id_type is not str and id_type is not int:
            raise InvalidRequest("Invalid request: id must be a string or an integer")
        if not isinstance(message["method"], str):
            raise InvalidRequest("Invalid request: method must be a string")
        params = message.get("params", {})
        if not isinstance(params, dict):
            raise InvalidParams("Invalid params: params must be an object")
        if not isinstance(params.get("_meta", {}), dict):
            raise InvalidParams("Invalid params: params._meta must be an object")
        return "request" if "id" in message else "notification"
    if not ("result" in message or "error" in message):
        raise InvalidRequest("Invalid request: neither method nor result nor error")
    if message.get("jsonrpc") != "2.0":
        raise RemoteProtocolError('a response must say jsonrpc "2.0"')
    # A response MUST NOT have both a result and an error (basic/messages#responses)
    if "result" in message and "error" in message:
        raise RemoteProtocolError("a response must have either a result or an error, and not both")
    if "result" in message:
        if not isinstance(message["result"], dict):
            raise RemoteProtocolError("the result of a response must be an object")
    else:
        error = message["error"]
        # MUST: an error has an integer code and a message (basic/messages#responses)
        if not isinstance(error, dict) or type(error.get("code")) is not int or type(error.get("message")) is not str:
            raise RemoteProtocolError("the error of a response must have an integer code and a string message")
        if message.get("id") is None:
            return "response"
    # MUST: a response has the id of its request (basic/messages#responses)
    if id_type is not str and id_type is not int:
        raise RemoteProtocolError("the id of a response must be a string or an integer")
    return "response"
