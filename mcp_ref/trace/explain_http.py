"""What HTTP has beside a message, in words: the request, the status, the event of a stream.

Spec:      basic/transports#streamable-http; basic/transports/streamable-http#request-metadata (2026-07-28);
           RFC 9110 for what a status means
Upholds:   nothing by itself: it explains, and checks nothing
Reads:     trace/explain
Not here:  what is noted (basic/transports/streamable_http/noting), and hidden (trace/redact)

Each function takes the `http` of an event as it came, which may be anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from mcp_ref.trace.explain import quoted

__all__ = ["explain_exchange", "explain_headers", "failed", "title"]

JsonObject = dict[str, Any]

_METHODS: Final = {
    "GET": "asks for an event stream, for what belongs to no request of the client",
    "DELETE": "ends the session",
}
_STATUSES: Final = {
    202: "accepted, and not answered here",
    400: "refused as it stands: what the body or the headers say is wrong",
    401: "the client has to authorize first",
    403: "not allowed: the Host, the Origin or the credentials are refused",
    404: "nothing here by that name: where the request named a session, it is over, and another has to be opened",
    405: "not offered: to a GET, that there is no event stream",
    406: "the client does not accept what is answered here",
    413: "the body is too long",
    415: "the body is of another type than JSON",
    429: "this client has too much open",
    503: "there is no room for more now",
}


def title(http: JsonObject) -> str:
    """A few words for what carries no message."""
    if "hangUp" in http:
        return "HTTP: the connection is closed"
    if "event" in http:
        return f"HTTP event {quoted(http['event'])}"
    if "eventId" in http or "retry" in http:
        return "HTTP event without a message"
    if "status" in http:
        return f"HTTP status {_status(http['status'])}" + (f" for {http['method']}" if "method" in http else "")
    return f"HTTP {http.get('method')}"


def failed(http: JsonObject) -> bool:
    """Whether the status refuses."""
    return isinstance(http.get("status"), int) and http["status"] >= 400


def explain_exchange(http: JsonObject) -> Iterator[str]:
    """What it is for, where there is no message that says so."""
    status = http.get("status")
    if "hangUp" in http:
        yield f"gives up request {quoted(http['hangUp'])}: in this era nothing else says so, and the server stops"
    if status is None and "last-event-id" in _headers(http):
        yield f"goes on with a stream, after event {quoted(_headers(http)['last-event-id'])}"
    elif status is None and http.get("method") in _METHODS:
        yield _METHODS[http["method"]]
    elif isinstance(status, int) and status in _STATUSES:
        yield _STATUSES[status]
    if http.get("event") == "endpoint":
        yield "names the URI that messages are to be posted to"
    if "eventId" in http and "event" not in http:
        yield "gives the place in the stream to come back to"
    if "retry" in http:
        yield f"says to wait {quoted(http['retry'])} ms before connecting again"


def explain_headers(http: JsonObject, *, beside: bool = True) -> Iterator[str]:
    """One line, or none: the session, the revision, the place in a stream; `beside` a message, how it came.

    Another one for a status that says something of the error beside it.
    """
    headers = _headers(http)
    status = http.get("status")
    parts = [str(http.get("method", "")) if status is None else f"status {_status(status)}"] if beside else []
    parts += [str(headers["content-type"])] if status is not None and "content-type" in headers else []
    parts += [f"event {quoted(http['eventId'])}"] if "eventId" in http else []
    parts += [f"revision {headers['mcp-protocol-version']}"] if "mcp-protocol-version" in headers else []
    parts += [f"session {headers['mcp-session-id']}"] if "mcp-session-id" in headers else []
    repeated = [_repeated(name, value) for name, value in headers.items() if str(name).startswith(_REPEATING)]
    if any(parts) or repeated:
        again = f"; its headers repeat {', '.join(repeated)}" if repeated else ""
        yield f"HTTP: {', '.join(filter(None, parts))}{again}"
    if beside and isinstance(status, int) and status in _BESIDE:
        yield f"HTTP: {status} says: {_BESIDE[status]}"


_REPEATING: Final = ("mcp-method", "mcp-name", "mcp-param-")
_BESIDE: Final = {
    400: "the request is wrong as it was sent",
    404: "there is no such method, or no such session",
}


def _repeated(name: str, value: Any) -> str:
    """A header that repeats a member of the body; of an argument only its name."""
    name = "-".join(part.capitalize() for part in name.split("-"))
    return name if name.startswith("Mcp-Param-") else f"{name} {quoted(value)}"


def _status(status: Any) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return quoted(status)


def _headers(http: JsonObject) -> JsonObject:
    headers = http.get("headers")
    return headers if isinstance(headers, dict) else {}
