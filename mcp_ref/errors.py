"""Who is at fault, and the code that goes on the wire.

Spec:      basic/index#responses, basic/messages; the "Error Handling" section of each page
Upholds:   spec_notes/basic/index.md, the rows on errors
Not here:  turning an exception into an error reply (connection/connection)

Two families, and they never mix. What *we* raise to the caller says who broke the protocol:

    McpError
      LocalProtocolError     you asked for what the specification forbids here
      RemoteProtocolError    the peer sent what it forbids
        HttpStatusError      it refused an HTTP request with a status
      ErrorResponse          the peer answered with an error
      TransportClosed        nothing more will arrive
        SessionExpired       the server has ended the session; another one may be opened
        AnswerLost           the stream of one request broke off before its answer
      AuthorizationError     no token could be had for the server, or a peer broke the rules of authorization
      RequestTimeout         the deadline passed
      RequestCancelled       somebody on this side gave the request up
      TaskCancelled          the task was cancelled, so it has no result
      InputRefused           the server asked for input, and our own handler refused it

What a *handler* raises to answer with is a `Refusal`: it becomes an error response with the code of its class.
An `ErrorResponse` that a handler got from another server is not a `Refusal`, and so can never leak onto this wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

# An implementation MUST NOT use -32020 to -32099 for anything but what the protocol defines them for
# (2026-07-28/basic/index#error-codes)
STATELESS_ERRORS: Final = frozenset({-32020, -32021, -32022})
"""The codes by which a client knows a server of the stateless era (2026-07-28/basic/index#error-codes)."""


class McpError(Exception):
    """The base of everything that mcp_ref raises to a caller."""


class LocalProtocolError(McpError):
    """You asked for something that the specification forbids here; nothing was sent."""


class RemoteProtocolError(McpError):
    """The peer sent something that the specification forbids."""


class HttpStatusError(RemoteProtocolError):
    """The server refused an HTTP request with a status, and without a JSON-RPC error that answers it.

    Args: text: the beginning of the body; challenge: the WWW-Authenticate header of a 401 or 403, or None.
    """

    def __init__(self, status: int, text: str = "", *, challenge: str | None = None, doing: str = "a request") -> None:
        asks = f", and asks to authorize with WWW-Authenticate: {challenge}" if challenge else ""
        who = "a proxy" if status == 407 else "the server"
        super().__init__(f"{who} refused {doing} with HTTP status {status}{asks}" + (f": {text}" if text else ""))
        self.status, self.text, self.challenge = status, text, challenge


class ErrorResponse(McpError):
    """The peer answered a request with a JSON-RPC error: its code, its short text, and whatever it added, or None."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        # A receiver MUST NOT read a meaning into codes from -32000 to -32019, other than -32002: the code is passed on
        # as a number (2026-07-28/basic/index#error-codes)
        super().__init__(f"{message} ({code})")
        self.code, self.message, self.data = code, message, data

    @classmethod
    def of(cls, error: Mapping[str, Any]) -> ErrorResponse:
        """Return the exception for the `error` of a response or of a task."""
        return cls(error.get("code", -32603), error.get("message", ""), error.get("data"))


class AuthorizationError(McpError):
    """No token for the server was obtained: the user refused, or a peer broke the rules; the text says which and where.

    Attributes:
        error: the code of OAuth that an authorization server answered with, such as "access_denied"; or None.
    """

    def __init__(self, message: str, error: str | None = None) -> None:
        super().__init__(message)
        self.error = error


class TransportClosed(McpError, ConnectionError):
    """Nothing more will arrive; the text says why (exit code, last lines of stderr)."""

    sent = True  # False if it is certain that the request never went out

    @classmethod
    def before(cls, reason: object) -> TransportClosed:
        """Return the end that had come before there was anything to send."""
        closed = cls(str(reason))
        closed.sent = False
        return closed


class SessionExpired(TransportClosed):
    """The server has ended the HTTP session (404); a `Client` sends the request that was refused again, in another one.

    Attributes:
        sent: True if the request had been accepted, and what was refused belongs to it: it is not sent again then.
    """

    def __init__(self, text: str = "the server has ended the session", *, sent: bool = False) -> None:
        super().__init__(text)
        self.sent = sent


class AnswerLost(TransportClosed):
    """The event stream of one request ended before its answer. `Options.resend` says whether it may be sent again."""


class RequestTimeout(McpError, TimeoutError):
    """The deadline of a request passed; the peer was told to stop where the revision has a way to say so."""


class RequestCancelled(McpError):
    """The request was given up on this side; raised to its caller, and by `Context.check_cancelled()`."""


class TaskCancelled(McpError):
    """The task was cancelled, here or by the server, and so has no result."""


class InputRefused(McpError):
    """The server asked for input, and this client's own handler refused (`__cause__`); nothing was sent."""


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
        self.message, self.data = message, data
        if code is not None:
            # MUST: the code of an error is an integer (basic/index#responses)
            if type(code) is not int:
                raise TypeError(f"the code of an error must be an integer, not {code!r}")
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


# -- of the stateless era (2026-07-28/basic/index#error-codes)


class HeaderMismatch(Refusal):
    """-32020: an HTTP header is missing, malformed, or does not match the body."""

    code = -32020


class MissingClientCapability(Refusal):
    """-32021: the client did not declare, in this request, a capability that answering it needs.

    Args: needed: such as "sampling.tools", or a whole `ClientCapabilities` object.
    """

    code = -32021

    def __init__(self, needed: str | Mapping[str, Any]) -> None:
        required: dict[str, Any] = {} if isinstance(needed, str) else dict(needed)
        named = needed if isinstance(needed, str) else ", ".join(required)
        for member in reversed(needed.split(".") if isinstance(needed, str) else ()):
            required = {member: required}
        # MUST: -32021 names in `data.requiredCapabilities` what the client would have to declare
        # (2026-07-28/basic/index#_meta)
        super().__init__(f"Missing required client capability: {named}", {"requiredCapabilities": required})


class UnsupportedVersion(Refusal):
    """-32022: the request declares a protocol version that is not served here, and `supported` are."""

    code = -32022

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        # MUST: -32022 lists in `data.supported` the versions that are supported
        # (2026-07-28/basic/versioning#protocol-version-negotiation)
        data = {"supported": list(supported), "requested": requested}
        super().__init__(f"Unsupported protocol version; this server speaks {', '.join(supported)}", data)
