"""An authorization server in miniature: metadata, keys, introspection; claims for its tokens."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from mcp_ref.kit.http.http_exchange import HttpReply, HttpRequest
from mcp_ref.kit.http.http_server import HttpServer
from tests.pages.basic.authorization.guarded import RESOURCE


def encoded(part: Any) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """An issuer whose publications can be changed; `asked` has the paths that were fetched."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.documents: dict[str, Any] = {}
        self.status = 200
        self.active: dict[str, Any] = {}
        self.server = HttpServer({})
        self.server.start()
        self.url = f"http://127.0.0.1:{self.server.address[1]}"
        self.publish("/.well-known/oauth-authorization-server", {"issuer": self.url, "jwks_uri": f"{self.url}/keys"})
        self.server.endpoints["/introspect"] = self._introspect

    def publish(self, path: str, document: Any) -> None:
        self.documents[path] = document
        self.server.endpoints[path] = self._tell

    def _tell(self, request: HttpRequest, reply: HttpReply) -> None:
        self.asked.append(request.path)
        found = self.documents[request.path]
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        headers = {"Location": f"{self.url}/keys2"} if 300 <= self.status < 400 else {}
        reply.send(self.status, {**headers, "Content-Type": "application/json"}, body)

    def _introspect(self, request: HttpRequest, reply: HttpReply) -> None:
        token = parse_qs(request.body.decode())["token"][0]
        self.asked.append(token)
        expected = "Basic " + base64.b64encode(b"server:p%3As").decode()
        status = self.status if request.headers.get("authorization") == expected else 401
        answer = self.active.get(token, {"active": False})
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        reply.send(status, {"Content-Type": "application/json"}, body)

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {"iss": self.url, "sub": "ada", "client_id": "script", "aud": RESOURCE, "exp": now + 60, "iat": now}
        return {name: value for name, value in {**usual, "scope": "a b", **changed}.items() if value is not None}


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer()
    try:
        yield issuer
    finally:
        issuer.server.close()


Signed = Callable[..., str]
