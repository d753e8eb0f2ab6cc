"""An MCP server and an authorization server in threads, which a test makes as hostile as it likes; and a browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from mcp_ref import AuthorizationError, Client, OAuth

WAIT = 20.0
Answer = tuple[int, dict[str, str], bytes]


class Asked(NamedTuple):
    """A request as it came; `path` is without the query, `url` is not."""

    host: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    url: str

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode(), keep_blank_values=True).items()}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(value: Any, status: int = 200, **headers: str) -> Answer:
    """An HTTP response with JSON; bytes are a text that need not be JSON."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return status, {"Content-Type": "application/json", **headers}, body


def present(members: dict[str, Any]) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in members.items() if value is not None}


class Site:
    """A web server on 127.0.0.1 (or on these addresses), which a test makes as hostile as it likes.

    `at` has answers by path, in place of the usual ones: an answer, or a function of what was asked. A status of 0
    breaks the connection. `asked` has all that came.
    """

    def __init__(self, *addresses: str) -> None:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_all(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                host = f"http://{self.headers['Host']}"
                asked = Asked(host, self.command, self.path.partition("?")[0], headers, body, self.path)
                with site.lock:
                    site.asked.append(asked)
                made = site.at.get(asked.path, site.usual)
                status, more, text = made(asked) if callable(made) else made
                try:
                    if status == 0:
                        raise ConnectionAbortedError
                    self.send_response(status)
                    for name, value in more.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    self.close_connection = True

            do_GET = do_POST = do_DELETE = handle_all

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.lock = threading.Lock()
        self.asked: list[Asked] = []
        self.at: dict[str, Answer | Callable[[Asked], Answer]] = {}
        self._servers = [ThreadingHTTPServer((address, 0), Handler) for address in addresses or ("127.0.0.1",)]
        self._threads = [threading.Thread(target=each.serve_forever, args=(0.005,)) for each in self._servers]
        self.origins = [f"http://{each.server_address[0]}:{each.server_address[1]}" for each in self._servers]  # type: ignore[str-bytes-safe]

    def usual(self, asked: Asked) -> Answer:
        return answer({}, 404)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join(WAIT)

    def paths(self, host: str | None = None) -> list[str]:
        """The paths that were asked for, on one host or both."""
        return [asked.path for asked in self.asked if host in (None, asked.host)]

    def sent(self, path: str, host: str | None = None) -> list[Asked]:
        """What was sent to a path, on one host or both."""
        return [asked for asked in self.asked if asked.path == path and host in (None, asked.host)]


class World(Site):
    """The MCP server at `url`, and its authorization server at `issuer`, on 127.0.0.1; another one on 127.0.0.2.

    `resource`, `metadata`, `token` and `came_back` are what they say, to be changed by a test (None: without that
    member).
    """

    def __init__(self) -> None:
        super().__init__("127.0.0.1", "127.0.0.2")
        self.issuer, self.other = self.origins
        self.url = f"{self.issuer}/mcp"
        self.challenge = f'Bearer resource_metadata="{self.issuer}/.well-known/oauth-protected-resource/mcp"'
        self.resource: dict[str, Any] = {"resource": self.url, "authorization_servers": [self.issuer]}
        self.metadata = self.metadata_of(self.issuer)
        self.token: dict[str, Any] = {"access_token": "token-1", "token_type": "Bearer"}
        self.valid = {"token-1"}
        self.visits: list[dict[str, str]] = []
        self.came_back: dict[str, Any] = {}
        self.needed: dict[str, str] = {}  # scopes by the name of a tool, which a token must have
        self.granted: dict[str, str] = {}  # scopes by token

    def metadata_of(self, issuer: str) -> dict[str, Any]:
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "registration_endpoint": f"{issuer}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }

    # -- what the servers answer

    def usual(self, asked: Asked) -> Answer:
        if asked.path == "/mcp":
            return self.mcp(asked)
        if asked.path == "/.well-known/oauth-protected-resource/mcp":
            return answer(present(self.resource))
        if asked.path == "/.well-known/oauth-authorization-server":
            return answer(present(self.metadata) if asked.host == self.issuer else self.metadata_of(asked.host))
        if asked.path == "/register":
            known = {"client_id": f"client-of-{urlsplit(asked.host).hostname}"}
            return answer({**json.loads(asked.body), **known}, 201)
        return answer(present(self.token)) if asked.path == "/token" else answer({}, 404)

    def mcp(self, asked: Asked) -> Answer:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.valid:
            return answer({}, 401, **{"WWW-Authenticate": self.challenge})
        if asked.method != "POST":
            return answer({}, 405)
        message = json.loads(asked.body)
        params = message.get("params") or {}
        tool = params.get("name", "")
        if (scope := self.needed.get(tool)) and scope not in self.granted.get(token, "").split():
            told = f'Bearer error="insufficient_scope", scope="{scope}"'
            return answer({}, 403, **{"WWW-Authenticate": told})
        if "id" not in message:
            return answer({}, 202)
        if message["method"] == "initialize":
            result = {"capabilities": {"tools": {}}, "serverInfo": {"name": "world", "version": "1"}}
            result["protocolVersion"] = params["protocolVersion"]
            made = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            return answer(made, **{"Mcp-Session-Id": "session"})
        results: dict[str, Any] = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "instructions": ""},
            "tools/list": {"tools": [], "ttlMs": 60_000, "cacheScope": "private"},
            "tools/call": {"content": [{"type": "text", "text": token}]},
        }
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **results[message["method"]]}
        return answer({"jsonrpc": "2.0", "id": message["id"], "result": result})

    # -- the user

    def visit(self, url: str) -> str:
        """The browser: it is sent back with a code at once, and with what `came_back` changes (None: left out)."""
        self.visits.append({name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})
        asked = self.visits[-1]
        origin = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
        back = present({"code": "the-code", "state": asked["state"], "iss": origin, **self.came_back})
        return f"{asked['redirect_uri']}?{urlencode(back, doseq=True)}"

    def login(self, **options: Any) -> OAuth:
        """The login of the user in the browser."""
        return OAuth("tests", **{"visit": self.visit, **options})

    def client(self, auth: Any = None, **options: Any) -> Client:
        """A client of the MCP server."""
        options = {"revision": "2026-07-28", "timeout": WAIT, **options}
        return Client(self.url, auth=auth or self.login(), **options)

    # -- what a test does, and looks at

    def next_token(self, token: str = "token-2", *others: str) -> None:
        """Give this token from now on; no token is valid but this one, and the others."""
        self.token["access_token"], self.valid = token, {token, *others}

    def trust(self, issuer: str) -> None:
        """The MCP server trusts this authorization server from now on."""
        self.resource["authorization_servers"] = [issuer]

    def forms(self) -> list[dict[str, str]]:
        """Return what was sent to the token endpoint."""
        return [asked.form for asked in self.sent("/token")]


def told(world: World, auth: Any = None, **options: Any) -> AuthorizationError:
    """The error with which a client cannot connect."""
    with pytest.raises(AuthorizationError) as caught:
        world.client(auth, **options).connect()
    return caught.value
