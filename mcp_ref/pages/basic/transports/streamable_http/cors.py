"""Pages in a browser: what they must be told before they may use an endpoint on another origin than theirs (CORS).

Spec:      the Fetch standard, "CORS protocol"; basic/transports#security-warning on `Origin`
Not here:  which origins are let in (headers.py), and what they get (each endpoint); metadata, which pages of every
           origin may read (authorization/resource_server)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mcp_ref.kit.http.http_exchange import HttpRefusal, HttpReply, HttpRequest
from mcp_ref.pages.basic.transports.streamable_http.headers import allows_origin


class PageReply:
    """An `HttpReply` that has these headers as well; see there for the methods."""

    def __init__(self, reply: HttpReply, told: Mapping[str, str]) -> None:
        self._reply, self._told = reply, told
        self.write, self.end, self.hang_up, self.abort = reply.write, reply.end, reply.hang_up, reply.abort

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self._reply.send(status, {**headers, **self._told}, body)

    def open(self, headers: Mapping[str, str], status: int = 200) -> None:
        self._reply.open({**headers, **self._told}, status)


def for_page(request: HttpRequest, reply: HttpReply, origins: Collection[str] | None, methods: str) -> HttpReply:
    """Return the reply as a page may read it, if it is of an origin that is let in.

    Args:
        origins: see `check_host_and_origin`; any other origin gets no header of this kind.
        methods: that the endpoint has, such as "POST, GET".

    Raises: HttpRefusal: 204, which answers a browser that only asks what its page may do.
    """
    origin = request.headers.get("origin")
    if origin is None or not allows_origin(origin, origins):
        return reply
    told = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
    if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
        # There is no `Authorization` yet. A page that is let in may send any header, as any other client may: what is
        # behind `Mcp-Param-` only the tools know, and others may be what `authenticate` looks at.
        if (asked := request.headers.get("access-control-request-headers")) is not None:
            told["Access-Control-Allow-Headers"] = asked
        more = {"Access-Control-Allow-Methods": methods, "Access-Control-Max-Age": "3600"}
        raise HttpRefusal(204, "what a page may do", headers=told | more)
    told["Access-Control-Expose-Headers"] = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"
    return PageReply(reply, told)
