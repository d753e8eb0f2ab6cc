"""A guarded server, and a client of bytes that has tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcp_ref import Context, Server, text
from mcp_ref.pages.basic.authorization.metadata import Challenge, read_challenges
from mcp_ref.pages.basic.authorization.resource_server import Principal, Protection
from mcp_ref.server.http import HttpService
from tests.pages.basic.transports.streamable_http import modern, raw
from tests.pages.basic.transports.streamable_http.raw import Answer, Wire

ISSUER = "https://auth.example"
RESOURCE = "https://notes.example/mcp"
METADATA = "https://notes.example/.well-known/oauth-protected-resource/mcp"


def principal(subject: str = "ada", *scopes: str, **changed: Any) -> Principal:
    usual: dict[str, Any] = {"issuer": ISSUER, "client_id": "script", "audience": frozenset({RESOURCE})}
    return Principal(subject, **{**usual, "scopes": frozenset(scopes), **changed})


class Tokens:
    """A verifier: a table of tokens, and how often it was asked."""

    def __init__(self, **tokens: Principal) -> None:
        self.tokens: dict[str, Principal] = tokens
        self.asked: list[str] = []

    def __call__(self, token: str) -> Principal | None:
        self.asked.append(token)
        return self.tokens.get(token)


def notes(**options: Any) -> tuple[Server, list[str]]:
    """A server, and what its handlers did."""
    server, ran = Server("notes", **options), list[str]()

    @server.tool()
    def read(ctx: Context) -> str:
        ran.append("read")
        return str(ctx.principal and ctx.principal.subject)

    @server.tool(scopes=["notes:write", "notes:list"])
    def add(note: str = "") -> str:
        ran.append("add")
        return note

    @server.tool()
    def remove(which: str, ctx: Context, late: bool = False) -> str:
        if late:
            ctx.progress(1)
            ctx.log("info", "about to")
        ctx.require_scopes(f"remove:{which}")
        ran.append("remove")
        return which

    @server.resource("notes://secret", scopes=["secret"])
    def secret() -> str:
        ran.append("secret")
        return "s"

    @server.resource("notes://of/{user}/private", scopes=["private"])
    def private(user: str) -> str:
        ran.append("private")
        return user

    @server.resource("notes://open")
    def open_one() -> str:
        return "o"

    @server.prompt(scopes=["prompts"])
    def plan(topic: str = "") -> Any:
        ran.append("plan")
        return text(topic)

    return server, ran


@contextmanager
def guarded(verify: Any, server: Server | None = None, path: str = "/mcp", **options: Any) -> Iterator[Guarded]:
    known = {"authorization_servers", "scopes", "resource", "implies", "dpop"}
    protection = {"authorization_servers": [ISSUER], "resource": RESOURCE}
    protection |= {name: value for name, value in options.items() if name in known}
    rest = {name: value for name, value in options.items() if name not in known}
    server = server or notes()[0]
    with server.serve_http(authorization=Protection(verify, **protection), **rest) as service:
        with Wire(service._http.address) as wire:
            yield Guarded(service, wire)


class Guarded:
    """One connection to a guarded server."""

    def __init__(self, service: HttpService, wire: Wire) -> None:
        self.service, self.wire = service, wire

    def ask(self, message: Any, token: str | None = None, **fields: str) -> Answer:
        """A POST of the stateless era if it is a message of that, else of the session era."""
        if token is not None:
            fields.setdefault("authorization", f"Bearer {token}")
        stateless = isinstance(message, dict) and "_meta" in (message.get("params") or {})
        return self.wire.ask((modern.post if stateless else raw.post)(message, **fields))

    def open(self, token: str) -> str:
        return raw.opened(self.wire, authorization=f"Bearer {token}")

    def get(self, path: str, method: str = "GET", **fields: str) -> Answer:
        return self.wire.ask(raw.request(method, path, **fields))


def challenge(answer: Answer) -> tuple[int, Mapping[str, str]]:
    """The status, and the parameters of the one challenge (without that of the metadata, which is always the same)."""
    (found,) = read_challenges(answer.headers["www-authenticate"])
    assert isinstance(found, Challenge) and found.scheme == "bearer"
    assert found.parameters.pop("resource_metadata") == METADATA
    return answer.status, found.parameters


def soon(seconds: float = 60) -> float:
    return time.time() + seconds
