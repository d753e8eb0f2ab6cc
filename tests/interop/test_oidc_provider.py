"""A certified authorization server that we did not write (oidc-provider), between a client and a server of ours.

The browser is a session of requests, which fills in the two forms of the authorization server. What is tested is what
neither side of ours decides alone: which metadata is read, which parameters are accepted, what the tokens look like.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
import requests

from mcp_ref import (
    AuthorizationError,
    Client,
    ClientCredentials,
    Context,
    FileStore,
    HttpStatusError,
    Introspection,
    JwtVerifier,
    OAuth,
    Protection,
    Registered,
    Server,
    client_metadata,
)
from tests.interop.programs import Served, free_port, typescript

pytest.importorskip("jwt", reason="needs the extra auth")

pytestmark = pytest.mark.slow
WAIT = 10.0
INTROSPECTS = {
    "client_id": "notes-server", "client_secret": "p:s", "redirect_uris": [], "response_types": [],
    "grant_types": ["client_credentials"], "token_endpoint_auth_method": "client_secret_basic",
}  # fmt: skip


class Browser:
    """A user who signs in as ada and agrees to everything. `asked` has the parameters of each authorization request."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self._session = requests.Session()

    def visit(self, url: str) -> str:
        """Go there, fill in what is shown, and say where that leads back to."""
        self.asked.append({name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})
        back = self.asked[-1]["redirect_uri"]
        reply = self._session.get(url, allow_redirects=False, timeout=WAIT)
        for _ in range(20):
            if (place := reply.headers.get("Location")) is not None:
                url = urljoin(url, place)
                if url.startswith(back):
                    return url
                reply = self._session.get(url, allow_redirects=False, timeout=WAIT)
                continue
            assert reply.status_code == 200, reply.text
            (action,) = re.findall(r'<form[^>]* action="([^"]*)"', reply.text)
            form = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', reply.text))
            form |= {"login": "ada", "password": "x"} if form["prompt"] == "login" else {}
            reply = self._session.post(urljoin(url, action), form, allow_redirects=False, timeout=WAIT)
        raise AssertionError("the browser is sent in circles")

    def close(self) -> None:
        self._session.close()


class Place(NamedTuple):
    """A guarded server, whom it trusts, and a browser."""

    url: str
    issuer: str
    browser: Browser

    def oauth(self, **options: Any) -> OAuth:
        return OAuth("My script", visit=self.browser.visit, **options)

    def client(self, auth: Any, **options: Any) -> Client:
        return Client(self.url, auth=auth, **{"timeout": WAIT, **options})


def diary() -> Server:
    server = Server("diary")

    @server.tool()
    def whoami(ctx: Context) -> str:
        return f"{ctx.principal.subject} {' '.join(sorted(ctx.principal.scopes))}"

    @server.tool(scopes=["notes:write"])
    def write() -> str:
        return "written"

    return server


def jwts(issuer: str) -> Any:
    return JwtVerifier(issuer)


def opaque(issuer: str) -> Any:
    return Introspection(f"{issuer}/token/introspection", "notes-server", "p:s", issuer=issuer)


@contextmanager
def place(
    verifier: Callable[[str], Any] = jwts, dpop: Literal["no", "optional", "required"] = "no", **env: Any
) -> Iterator[Place]:
    issuer = f"http://127.0.0.1:{free_port()}"
    env.setdefault("AS_CLIENTS", [INTROSPECTS])
    told = {name: value if isinstance(value, str) else json.dumps(value) for name, value in env.items()}
    protection = Protection(verifier(issuer), authorization_servers=[issuer], scopes=["notes:read"], dpop=dpop)
    browser = Browser()
    with diary().serve_http(authorization=protection) as http:
        command = typescript("as.mjs", issuer.rpartition(":")[2], http.url, package="../oidc-provider")
        with Served(command, told):
            try:
                yield Place(http.url, issuer, browser)
            finally:
                browser.close()


def said(client: Client, tool: str) -> str:
    result = client.call_tool(tool)
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


@pytest.mark.parametrize("kind", ["jwt", "opaque"])
def test_a_client_registers_itself_logs_in_and_steps_up(kind: str) -> None:
    with place(jwts if kind == "jwt" else opaque, AS_TOKENS=kind) as there, there.client(there.oauth()) as client:
        assert said(client, "whoami") == "ada notes:read"
        assert said(client, "write") == "written"
        assert said(client, "whoami") == "ada notes:read notes:write"
    scopes = [asked["scope"].split() for asked in there.browser.asked]
    assert scopes == [["notes:read", "offline_access"], ["notes:read", "offline_access", "notes:write"]]
    assert {asked["resource"] for asked in there.browser.asked} == {there.url}


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_a_token_that_ends_is_refreshed_without_the_user_and_its_refresh_token_rotates(
    revision: str, tmp_path: Any
) -> None:
    def kept() -> set[str]:
        found = (json.loads(path.read_text())["value"] for path in (tmp_path / "store").glob("*.json"))
        return {value["refresh"] for value in found if "refresh" in value}

    with place(opaque, AS_TOKENS="opaque", AS_LIFETIME="2") as there:
        auth = there.oauth(store=FileStore(tmp_path / "store"))
        with there.client(auth, revision=revision) as client:
            said(client, "whoami")
            before = kept()
            until = time.monotonic() + WAIT
            while kept() == before and time.monotonic() < until:
                # The token lasts for two seconds, and is renewed after one of them.
                assert said(client, "whoami") == "ada notes:read"
            assert len(kept()) == 1 and not kept() & before
        # The next start of the program goes on with it.
        with there.client(there.oauth(store=FileStore(tmp_path / "store"))) as client:
            assert said(client, "whoami") == "ada notes:read"
    assert len(there.browser.asked) == 1


@pytest.mark.parametrize(("kind", "nonces"), [("jwt", True), ("opaque", False)])
def test_a_token_is_bound_to_the_key_of_the_client(kind: str, nonces: bool) -> None:
    env = {"AS_NONCE": "yes"} if nonces else {}
    with place(jwts if kind == "jwt" else opaque, "required", AS_TOKENS=kind, AS_LIFETIME="2", **env) as there:
        with there.client(there.oauth(dpop=True)) as client:
            until = time.monotonic() + 2.5  # past one refresh
            while time.monotonic() < until:
                assert said(client, "whoami") == "ada notes:read"
            assert said(client, "write") == "written"
        # Without the key the same token is of no use.
        token = client.target.options["auth"]._token
        assert token.kind == "DPoP"
        with pytest.raises(HttpStatusError, match="401"):
            there.client(token.access).connect()
    assert len(there.browser.asked) == 2


def test_a_client_may_be_its_metadata_document() -> None:
    url = "https://client.example/about.json"
    with place(AS_DOCUMENTS={url: client_metadata("My script", url)}) as there:
        with there.client(there.oauth(document=url)) as client:
            assert said(client, "whoami") == "ada notes:read"
    assert [asked["client_id"] for asked in there.browser.asked] == [url]


@pytest.mark.parametrize("how", ["client_secret_basic", "client_secret_post", "private_key_jwt"])
def test_a_program_gets_a_token_for_itself(how: str) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from jwt.algorithms import ECAlgorithm

    about = {**INTROSPECTS, "client_id": "robot", "scope": "notes:read notes:write", "token_endpoint_auth_method": how}
    robot = Registered("robot", "p:s", method=how)
    if how == "private_key_jwt":
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        robot = Registered("robot", key=pem)
        del about["client_secret"]
        about["jwks"] = {"keys": [{**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "use": "sig", "kid": "robot"}]}
    with place(AS_CLIENTS=[about]) as there, there.client(ClientCredentials(robot)) as client:
        assert said(client, "whoami") == "robot notes:read"
        assert said(client, "write") == "written"
    assert there.browser.asked == []


def test_a_token_for_another_server_lets_nobody_in_and_is_not_given() -> None:
    with place() as there, place() as other:
        with pytest.raises(AuthorizationError, match="invalid_target"):
            # The other server's metadata names an authorization server that does not know it.
            auth = other.oauth(issuer=there.issuer)
            protection = Protection(jwts(there.issuer), authorization_servers=[there.issuer], scopes=["notes:read"])
            with diary().serve_http(authorization=protection) as http, Client(http.url, auth=auth) as client:
                client.list_tools()


def test_a_client_that_was_registered_with_a_secret_logs_in() -> None:
    about = {
        "client_id": "mine", "client_secret": "p:s/%+ ", "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
        "application_type": "native", "token_endpoint_auth_method": "client_secret_basic",
    }  # fmt: skip
    with place(AS_CLIENTS=[about]) as there:
        with there.client(there.oauth(client=Registered("mine", "p:s/%+ "))) as client:
            assert said(client, "whoami") == "ada notes:read"
        with pytest.raises(AuthorizationError, match="invalid_client"):
            there.client(there.oauth(client=Registered("mine", "wrong"))).connect()
