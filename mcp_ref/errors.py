"""Who is at fault, and the code that goes on the wire.

Spec:      basic/index#responses, basic/messages; the "Error Handling" section of each page
Upholds:   spec_notes/basic/index.md, the rows on errors
Reads:     nothing
Not here:  turning an exception into an error reply (basic/patterns/request_response)

Two families, and they never mix. What *we* raise to the caller says who broke the protocol:

    McpError
      LocalProtocolError     you asked for what the specification forbids here
      RemoteProtocolError    the peer sent what it forbids
      ErrorResponse          the peer answered with an error
      TransportClosed        nothing more will arrive
      RequestTimeout         the deadline passed
      RequestCancelled       somebody on this side gave the request up

What a *handler* raises to answer with is a `Refusal`: it becomes an error response with the code of its class.
An `ErrorResponse` that a handler got from another server is not one, and so can never leak onto this wire.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ErrorResponse",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "McpError",
    "MethodNotFound",
    "ParseError",
    "Refusal",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestTimeout",
    "ToolError",
    "TransportClosed",
    "UrlElicitationRequired",
]

JsonObject = dict[str, Any]


class McpError(Exception):
    """The base of everything that mcp_ref raises to a caller."""


class LocalProtocolError(McpError):
    """You asked for something that the specification forbids here; nothing was sent."""


class RemoteProtocolError(McpError):
    """The peer sent something that the specification forbids."""


class ErrorResponse(McpError):
    """The peer answered a request with a JSON-RPC error.

    Attributes:
        code: the JSON-RPC error code, an integer.
        message: the peer's short text.
        data: whatever the peer added, or None.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class TransportClosed(McpError, ConnectionError):
    """Nothing more will arrive; the text says why (exit code, last lines of stderr)."""


class RequestTimeout(McpError, TimeoutError):
    """The deadline of a request passed; the peer was told to stop where the revision has a way to say so."""


class RequestCancelled(McpError):
    """The request was given up on this side; raised to its caller, and by `Context.check_cancelled()`."""


class ToolError(Exception):
    """Raised by a tool: the call ends with a result whose `isError` is true and whose text is this message."""


class Refusal(Exception):
    """Raised by a handler: the request is answered with a JSON-RPC error.

    Args:
        message: the short text of the error.
        data: any JSON value with details; left out when None.
        code: overrides the code of the class; an integer. Own codes lie outside -32768 ... -32000.
    """

    code = -32603

    def __init__(self, message: str, data: Any = None, *, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        if code is not None:
            self.code = code


class ParseError(Refusal):
    """-32700: what arrived is not JSON."""

    code = -32700


class InvalidRequest(Refusal):
    """-32600: it is JSON but not a request, or not one that is allowed now."""

    code = -32600


class MethodNotFound(Refusal):
    """-32601: the method does not exist in this revision, or its capability was not declared."""

    code = -32601


class InvalidParams(Refusal):
    """-32602: the parameters do not fit; the message names the path that is wrong."""

    code = -32602


class InternalError(Refusal):
    """-32603: the handler failed; no details go on the wire."""

    code = -32603


class UrlElicitationRequired(Refusal):
    """-32042 (2025-11-25 only): the request needs one or more URL elicitations first.

    Args:
        elicitations: `ElicitRequestURLParams` objects, each with `mode` "url", `message`, `url`, `elicitationId`.

    Spec: client/elicitation#url-elicitation-required-error
    """

    code = -32042

    def __init__(self, elicitations: list[JsonObject], message: str = "This request requires more information.") -> None:
        super().__init__(message, {"elicitations": elicitations})
