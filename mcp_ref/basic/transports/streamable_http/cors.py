"""Pages in a browser: what they must be told before they may use an endpoint on another origin than theirs (CORS).

Spec:      the Fetch standard, "CORS protocol"; basic/transports#security-warning on `Origin`
Not here:  which origins are let in (headers.py), and what they get (each endpoint); metadata, which pages of every
           origin may read (authorization/resource_server)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mcp_ref.basic.transports.streamable_http.headers import allows_origin
from mcp_ref.machinery.http_exchange import Endpoint, HttpReply, HttpRequest


class PageReply:
    """An `HttpReply` that a page may read; see there for the methods."""

    def __init__(self, reply: HttpReply, origin: str) -> None:
        self._reply = reply
        self._told = {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After",
            "Vary": "Origin",
        }
        self.write, self.end, self.hang_up, self.abort = reply.write, reply.end, reply.hang_up, reply.abort

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self._reply.send(status, {**headers, **self._told}, body)

    def open(self, headers: Mapping[str, str], status: int = 200) -> None:
        self._reply.open({**headers, **self._told}, status)


def for_page(request: HttpRequest, reply: HttpReply, origins: Collection[str] | None, methods: str) -> HttpReply | None:
    """The reply as a page may read it, if it is of an origin that is let in; None: it only asked, and was answered.

    Args:
        origins: see `check_host_and_origin`; any other origin gets no header of this kind.
        methods: that the endpoint has, such as "POST, GET".
    """
    origin = request.headers.get("origin")
    if origin is None or not allows_origin(origin, origins):
        return reply
    page = PageReply(reply, origin)
    if request.method != "OPTIONS" or "access-control-request-method" not in request.headers:
        return page
    # Such a question has no `Authorization` yet. A page that is let in may send any header, as any other client may:
    # what is behind `Mcp-Param-` only the tools know, and behind others `authenticate`.
    asked = request.headers.get("access-control-request-headers")
    headers = {} if asked is None else {"Access-Control-Allow-Headers": asked}
    page.send(204, {"Access-Control-Allow-Methods": methods, **headers, "Access-Control-Max-Age": "3600"})
    return None


def for_pages(endpoint: Endpoint, origins: Collection[str] | None, methods: str) -> Endpoint:
    """The endpoint, usable by pages of these origins."""

    def answer(request: HttpRequest, reply: HttpReply) -> None:
        if (page := for_page(request, reply, origins, methods)) is not None:
            endpoint(request, page)

    return answer
