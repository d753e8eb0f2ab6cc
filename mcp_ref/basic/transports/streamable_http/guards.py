"""Guards: what an HTTP request must be before it is looked at as a message.

Spec:      basic/transports#security-warning, #sending-messages-to-the-server, #listening-for-messages-from-the-server
Upholds:   spec_notes/basic/transports.md, the rows on security and on entry;
           spec_notes/basic/transports/streamable-http.md, the same
Reads:     http.py
Not here:  sessions and versions (endpoint.py), limits of the socket (server.py)
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from mcp_ref.basic.transports.streamable_http.http import HttpRefusal, HttpRequest

__all__ = ["LOOPBACK", "check_accept", "check_content_type", "check_host", "check_origin"]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The hosts under which a server on this machine is reached."""


def check_host(request: HttpRequest, allowed: Collection[str] | None) -> None:
    """403 unless the `Host` is one of ours: a page on the web can make a name of its own point at this machine.

    Args:
        allowed: host names without a port, in lower case; None allows all.
    """
    if allowed is not None and _without_port(request.headers.get("host", "")) not in allowed:
        raise HttpRefusal(403, "Host not allowed")


def check_origin(request: HttpRequest, allowed: Collection[str] | None) -> None:
    """403 when a browser says that a page of another origin asks.

    Args:
        allowed: origins such as "https://example.com", or host names, which stand for any scheme and port; None: all.
    """
    # MUST: validate the Origin header on all incoming connections (basic/transports#security-warning)
    origin = request.headers.get("origin")
    if origin is None or allowed is None:
        return
    try:
        host = (urlsplit(origin).netloc or "").lower()
    except ValueError:
        host = ""
    if origin.lower() not in allowed and _without_port(host) not in allowed:
        raise HttpRefusal(403, "Origin not allowed")


def _without_port(host: str) -> str:
    """The name or address in `host` or `host:port`; "" where it is neither, such as one with a user before an @."""
    matched = _HOST.fullmatch(host.strip().lower())
    return "" if matched is None else matched[1]


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@,\[\]]+)(?::[0-9]*)?")


def check_content_type(request: HttpRequest) -> None:
    """415 unless the body says that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpRefusal(415, "Content-Type must be application/json")


def check_accept(request: HttpRequest, *needed: str) -> None:
    """406 unless the client accepts every media type that the page wants it to list."""
    ranges = {part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")}
    for kind in needed:
        # MUST: list application/json and text/event-stream (basic/transports#sending-messages-to-the-server)
        if not ranges & {kind, kind.partition("/")[0] + "/*", "*/*"}:
            raise HttpRefusal(406, f"Not acceptable: Accept must list {' and '.join(needed)}")
