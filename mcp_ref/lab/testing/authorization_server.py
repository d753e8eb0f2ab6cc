"""A small authorization server beside an MCP server, in memory. It is for lessons and tests.

Spec:      2025-03-26/basic/authorization, where an MCP server is its own authorization server; what the later pages ask
           of authorization servers; RFC 6749, 7009, 7591, 7636, 8252, 8414, 8707, 9207
Upholds:   spec_notes/basic/authorization.md, the rows on authorization servers
Not here:  the metadata of the MCP server, challenges and scopes (resource_server)

NOT FOR PRODUCTION: it forgets everything when it ends, lets anybody guess passwords, and keeps no records. Run a real
authorization server instead, and name its issuer in `Protection`.

    GET  /.well-known/oauth-authorization-server     its metadata
    POST /register                                   a client describes itself
    GET  /authorize                                  a page that asks the user: who are you, may this program do that?
    POST /authorize                                  the user's answer; the browser goes back to the client with a code
    POST /token                                      a code or a refresh token, in exchange for an access token
    POST /revoke                                     a token is no longer needed
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from mcp_ref import HttpRefusal, HttpRequest, McpError, Principal, Protection
from mcp_ref.facts import HttpReply, Latest, canonical, checked_scopes, guarded_fetch, send_document

if TYPE_CHECKING:
    from mcp_ref import Server

CODE_LIFETIME: Final = 60.0
ACCESS_LIFETIME: Final = 600.0
TICKET_LIFETIME: Final = 600.0
REFRESH_LIFETIME: Final = 30 * 86_400.0

MAX_BODY: Final = 64 * 1024
MAX_KEPT: Final = 1_000
"""How many clients can be registered, and how many questions and codes are kept: the oldest is forgotten first."""

_METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
}


Endpoint: TypeAlias = Callable[[HttpRequest, HttpReply], None]


class OAuthError(Exception):
    """A refusal with an error code of OAuth, such as "invalid_grant"."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.status = error, status


def _not_valid() -> OAuthError:
    return OAuthError("invalid_grant", "it is not valid, or not for this client")


class KnownClient(NamedTuple):
    """A client that may ask users for their consent. `secret` is a hash."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    method: str = "none"
    secret: bytes = hashlib.sha256().digest()


@dataclass(eq=False)
class Consent:
    """The permission that a user gave a client. All tokens that come from it are revoked together."""

    client: str
    subject: str
    scopes: tuple[str, ...]
    audience: frozenset[str]
    revoked: bool = False


Granted = tuple[Consent, tuple[str, ...]]
"""A consent, and the scopes of it that a token gets."""


@dataclass(eq=False)
class Question:
    """An authorization request: first a question to the user, then a code."""

    client: KnownClient
    params: Mapping[str, str]
    scopes: tuple[str, ...]
    audience: frozenset[str]
    subject: str | None
    browser: str
    until: float
    grant: Consent | None = None


@dataclass
class IssuedToken:
    """An access token or a refresh token, and whether it was used up."""

    grant: Consent
    scopes: tuple[str, ...]
    until: float
    refreshes: bool
    used: bool = False


class AuthorizationServer:
    """An authorization server beside an MCP server: `server.run("http", authorization=login.protection())`.

    >>> login = AuthorizationServer(users={"ada": "a password"}, scopes=["notes:read", "notes:write"])
    >>> server.run("http", authorization=login.protection(scopes=["notes:read"]))

    Args:
        users: passwords by name.
        scopes: all scopes that can be granted. A client that names none gets those that every request needs.
        login: instead of `users`: says who sits at the browser of a request. It may raise an HttpRefusal, such as 302
            with the `Location` of a third party's login that leads back here.
        alive: whether a third party still vouches for a user; asked whenever a token is verified.
        documents: whether a client id may be the https URL of a metadata document; or a function that decides by URL.

    Threads: any.
    Spec: 2025-03-26/basic/authorization
    """

    def __init__(
        self,
        *,
        users: Mapping[str, str] | None = None,
        scopes: Sequence[str] = (),
        login: Callable[[HttpRequest], str] | None = None,
        alive: Callable[[str], bool] = lambda subject: True,
        documents: bool | Callable[[str], bool] = False,
    ) -> None:
        if (users is None) == (login is None):
            raise ValueError("say who the users are: by users=, or by login=")
        self._users, self._login, self._alive, self._documents = dict(users or {}), login, alive, documents
        self.issuer, self.scopes = "", checked_scopes(scopes)
        self._protection: Protection | None = None
        self._doors: list[Any] = []
        self._lock = threading.Lock()  # guards the four fields below
        self._clients: dict[str, KnownClient] = {}
        self._questions: Latest[str, Question] = Latest(MAX_KEPT)
        self._codes: Latest[bytes, Question] = Latest(MAX_KEPT)
        self._tokens: dict[bytes, IssuedToken] = {}

    def protection(self, **options: Any) -> Protection:
        """Return the `Protection` of the MCP server beside it, for one server. Options: `scopes`, `resource`,
        `implies`.
        """
        self._protection = _Own(self, options)
        return self._protection

    def verify(self, token: str) -> Principal | None:
        """See `resource_server.Verify`."""
        found = self._tokens.get(_hash(token))
        if found is None or found.refreshes or found.until <= time.time() or self._ended(found.grant):
            return None
        grant = found.grant
        return Principal(grant.subject, self.issuer, grant.client, frozenset(found.scopes), grant.audience, found.until)

    def sign_in(self, user: str) -> Callable[[str], str]:
        """Return a visit for tests, in place of a browser: `OAuth("tests", visit=login.sign_in("ada"))`.

        Returns: what visits the page of a login, signs in one of `users` and allows what is asked; it returns the URL
            that the browser would come back to.
        """
        password = self._users[user]

        def visit(url: str) -> str:
            import requests

            with requests.Session() as browser:
                page = browser.get(url, timeout=10)
                (ticket,) = re.findall('name=ticket value="([^"]*)"', page.text)
                form = {"ticket": ticket, "user": user, "password": password, "answer": "allow"}
                reply = browser.post(page.url.partition("?")[0], form, allow_redirects=False, timeout=10)
                return reply.headers["Location"]

        return visit

    def revoke(self) -> None:
        """Take back everything that users have allowed until now; for tests."""
        for token in list(self._tokens.values()):
            token.grant.revoked = True

    def expire(self) -> None:
        """End the access tokens that there are; refresh tokens go on. For tests."""
        for token in list(self._tokens.values()):
            token.until = token.until if token.refreshes else 0.0

    def _ended(self, grant: Consent) -> bool:
        # MUST: check that the third party's authorization is still valid
        # (2025-03-26/basic/authorization#session-binding-requirements)
        grant.revoked = grant.revoked or not self._alive(grant.subject)
        return grant.revoked

    # -- metadata and registration

    @property
    def routes(self) -> dict[str, Endpoint]:
        """Its endpoints, at the paths that a client uses if it finds no metadata."""
        # MUST: serve /authorize, /token and /register at these default paths
        # (2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery)
        # SHOULD: publish the metadata of RFC 8414 (2025-03-26/basic/authorization#server-metadata-discovery)
        answers = {
            "/authorize": self._authorize,
            "/token": self._token,
            "/register": self._register,
            "/revoke": self._revoke,
        }
        routes: dict[str, Endpoint] = {path: partial(_answered, answer) for path, answer in answers.items()}
        return {"/.well-known/oauth-authorization-server": self._tell, **routes}

    def _tell(self, request: HttpRequest, reply: HttpReply) -> None:
        issuer = self.issuer
        # MUST: publish metadata, which says that PKCE is there
        # (basic/authorization#authorization-code-protection)
        document = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "registration_endpoint": f"{issuer}/register",
            "revocation_endpoint": f"{issuer}/revoke",
            "scopes_supported": list(self.scopes),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": list(_METHODS),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": bool(self._documents),
        }
        send_document(request, reply, document)

    def _register(self, request: HttpRequest, reply: HttpReply) -> None:
        """Register a client (RFC 7591)."""
        asked = _json(request.body)
        client = _client_of(asked, secrets.token_urlsafe(16), asked.get("token_endpoint_auth_method", _METHODS[1]))
        secret = secrets.token_urlsafe(32) if client.method != "none" else ""
        with self._lock:
            if len(self._clients) >= MAX_KEPT:
                raise HttpRefusal(503, "Too many clients")
            self._clients[client.id] = client._replace(secret=_hash(secret))
        document = {
            "client_id": client.id,
            "client_name": client.name,
            "redirect_uris": client.redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": client.method,
            "client_id_issued_at": int(time.time()),
        }
        told = {"client_secret": secret, "client_secret_expires_at": 0} if secret else {}
        _send_json(reply, {**document, **told}, 201)

    def _client(self, client_id: str) -> KnownClient | None:
        """Return the client with this id: one that is registered, or the metadata document at that URL."""
        if client_id in self._clients or not self._documents or "://" not in client_id:
            return self._clients.get(client_id)
        # MUST: accept only https URLs with a path as ids of documents (basic/authorization#implementation-requirements)
        allowed = self._documents if callable(self._documents) else lambda url: True
        try:
            url = guarded_fetch.check_url(client_id, self.issuer)
            if len(urlsplit(url).path) < 2 or not allowed(url):
                return None
            # SHOULD: consider which addresses a stranger could make this server fetch (SSRF)
            # (basic/authorization#authorization-server-abuse-protection)
            reach = guarded_fetch.Reach("loopback" if guarded_fetch.is_loopback(self.issuer) else "global")
            reply = guarded_fetch.fetch(url, reach)
            document = _json(reply.body) if reply.status == 200 else {}
            # MUST: check that `client_id` in the document is its URL (basic/authorization#implementation-requirements)
            return _client_of(document, url, "none") if document.get("client_id") == url else None
        except (OAuthError, McpError, ValueError):
            return None

    # -- the user's consent

    def _authorize(self, request: HttpRequest, reply: HttpReply) -> None:
        if request.method == "GET":
            self._ask(request, reply)
        else:
            self._answer(request, reply)

    def _ask(self, request: HttpRequest, reply: HttpReply) -> None:
        """Show the user who asks for what. Errors go to the client once its identity and redirect URI are known."""
        # 1. Which client is it, and where does the answer go? If that is wrong, only the user is told.
        params = _form(request.query.encode())
        client = self._client(params.get("client_id", ""))
        place = params.get("redirect_uri", "")
        if client is None or not any(_same_place(each, place) for each in client.redirect_uris):
            # MUST: validate redirect URIs exactly (basic/authorization#open-redirection)
            raise OAuthError(
                "invalid_request", "This program, or the place it wants you to go back to, is not known here."
            )
        # 2. What does it ask for?
        try:
            if params.get("response_type") != "code":
                raise OAuthError("unsupported_response_type", "response_type must be code")
            challenge = params.get("code_challenge", "") if params.get("code_challenge_method") == "S256" else ""
            if re.fullmatch(r"[A-Za-z0-9_-]{43}", challenge) is None:
                # MUST: require PKCE with S256 (basic/authorization#authorization-code-protection)
                raise OAuthError("invalid_request", "code_challenge by S256 is needed")
            scopes = tuple(dict.fromkeys(params.get("scope", "").split())) or self._needed()
            if unknown := [scope for scope in scopes if scope not in (*self.scopes, *self._needed(), "offline_access")]:
                raise OAuthError("invalid_scope", f"unknown scopes: {len(unknown)}")
            audience = self._audience(params.get("resource"))
        except OAuthError as problem:
            self._go_back(reply, params, {"error": problem.error, "error_description": str(problem)})
            return
        # 3. Ask the user. Only this browser can answer the question, and only once.
        subject = self._login(request) if self._login is not None else None
        ticket, browser = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        asked = Question(client, params, scopes, audience, subject, browser, time.time() + TICKET_LIFETIME)
        with self._lock:
            self._questions[ticket] = asked
        # MUST: ask for consent for each client, whatever the user consented to before
        # (basic/authorization#confused-deputy-problem)
        _send_page(reply, 200, _question(asked, ticket), {"Set-Cookie": self._cookie(browser)})

    def _answer(self, request: HttpRequest, reply: HttpReply) -> None:
        """Take the user's answer, and send the browser back to the client."""
        form = _form(request.body)
        with self._lock:
            asked = self._questions.pop(form.get("ticket", ""), None)
        cookies = dict(part.strip().partition("=")[::2] for part in request.headers.get("cookie", "").split(";"))
        shown = cookies.get(self._cookie("").partition("=")[0], "")
        if (
            asked is None
            or asked.until <= time.time()
            or not hmac.compare_digest(asked.browser.encode(), shown.encode())
        ):
            raise OAuthError("invalid_request", "This question was answered already, or asked elsewhere. Start again.")
        if form.get("answer") != "allow":
            self._go_back(reply, asked.params, {"error": "access_denied"})
            return
        subject = self._login(request) if self._login is not None else form.get("user", "")
        expected = self._users.get(subject, secrets.token_urlsafe())
        if self._login is None and not hmac.compare_digest(expected.encode(), form.get("password", "").encode()):
            raise OAuthError("access_denied", "Name or password are wrong. Start again.", 403)
        if self._login is not None and subject != asked.subject:
            raise OAuthError("access_denied", "Somebody else was asked. Start again.", 403)
        code = secrets.token_urlsafe(32)
        asked.grant = Consent(asked.client.id, subject, asked.scopes, asked.audience)
        asked.until = time.time() + CODE_LIFETIME
        with self._lock:
            self._codes[_hash(code)] = asked
        self._go_back(reply, asked.params, {"code": code})

    def _go_back(self, reply: HttpReply, params: Mapping[str, str], answer: Mapping[str, str]) -> None:
        # SHOULD: send `iss` in every answer, errors included (basic/authorization#authorization-response-validation)
        answer = {**answer, **({"state": params["state"]} if "state" in params else {}), "iss": self.issuer}
        place = params["redirect_uri"]
        reply.send(303, {**_HEADERS, "Location": f"{place}{'&' if '?' in place else '?'}{urlencode(answer)}"})

    def _cookie(self, value: str) -> str:
        secure = self.issuer.startswith("https:")
        name = "__Host-mcp-consent" if secure else "mcp-consent"
        return f"{name}={value}; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")

    def _needed(self) -> tuple[str, ...]:
        return () if self._protection is None else self._protection.scopes

    def _audience(self, resource: str | None) -> frozenset[str]:
        """Return the servers that a token is for: the one that is named, or all of them (2025-03-26 has no
        `resource`).
        """
        ours = [door.resource for door in self._doors]
        found = [each for each in ours if resource is None or canonical(each) == canonical(resource)]
        if not found:
            raise OAuthError("invalid_target", "resource is not one of the servers here")
        return frozenset(found)

    # -- tokens

    def _token(self, request: HttpRequest, reply: HttpReply) -> None:
        """Exchange a code or a refresh token for tokens."""
        form = _form(request.body)
        client = self._authenticated(request, form)
        exchanges = {"authorization_code": self._redeem_locked, "refresh_token": self._refresh_locked}
        if (exchange := exchanges.get(form.get("grant_type", ""))) is None:
            raise OAuthError("unsupported_grant_type", "authorization_code or refresh_token")
        now, access, refresh = time.time(), secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        with self._lock:
            grant, scopes = exchange(form, client, now)
        if self._ended(grant):
            raise _not_valid()
        with self._lock:
            self._tokens = {name: each for name, each in self._tokens.items() if each.until > now}
            # SHOULD: issue short-lived access tokens (basic/authorization#token-theft)
            self._tokens[_hash(access)] = IssuedToken(grant, scopes, now + ACCESS_LIFETIME, False)
            self._tokens[_hash(refresh)] = IssuedToken(grant, scopes, now + REFRESH_LIFETIME, True)
        told = {"access_token": access, "token_type": "Bearer", "expires_in": int(ACCESS_LIFETIME)}
        _send_json(reply, {**told, "refresh_token": refresh, "scope": " ".join(scopes)})

    def _redeem_locked(self, form: Mapping[str, str], client: KnownClient, now: float) -> Granted:
        """Return the consent of a code, and its scopes. A code counts once."""
        asked = self._codes.get(_hash(form.get("code", "")))
        if asked is None or asked.grant is None:
            raise _not_valid()
        # A code that is used twice was stolen: the tokens from its first use are revoked (RFC 6749).
        asked.grant.revoked = asked.grant.revoked or asked.until <= now
        same = ("redirect_uri", "resource") if "resource" in form else ("redirect_uri",)
        verifier = form.get("code_verifier", "")
        challenge = base64.urlsafe_b64encode(_hash(verifier)).rstrip(b"=").decode()
        if (
            asked.grant.revoked
            or asked.client.id != client.id
            or any(form.get(name) != asked.params.get(name) for name in same)
            # MUST: 43 to 128 of these characters (RFC 7636, section 4.1): a short one could be guessed
            or not re.fullmatch(r"[A-Za-z0-9._~-]{43,128}", verifier)
            or not hmac.compare_digest(challenge, asked.params["code_challenge"])
        ):
            raise _not_valid()
        asked.until = 0
        return asked.grant, asked.grant.scopes

    def _refresh_locked(self, form: Mapping[str, str], client: KnownClient, now: float) -> Granted:
        """Return the consent of a refresh token, and the scopes that are asked for. The token counts once."""
        held = self._tokens.get(_hash(form.get("refresh_token", "")))
        if held is None or not held.refreshes or held.grant.client != client.id or held.until <= now:
            raise _not_valid()
        # MUST: rotate the refresh tokens of public clients. One that is used twice was stolen, and revokes all
        # (basic/authorization#token-theft)
        grant, scopes = held.grant, tuple(form.get("scope", "").split()) or held.grant.scopes
        grant.revoked = grant.revoked or held.used
        if grant.revoked:
            raise _not_valid()
        if not set(scopes) <= set(grant.scopes):
            raise OAuthError("invalid_scope", "more than was granted")
        if not grant.audience & self._audience(form.get("resource")):
            raise OAuthError("invalid_target", "another server than was granted")
        held.used = True
        return grant, scopes

    def _authenticated(self, request: HttpRequest, form: Mapping[str, str]) -> KnownClient:
        """Return the client of a request, authenticated by the method that it was registered with."""
        scheme, _, pair = request.headers.get("authorization", "").partition(" ")
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        method = "client_secret_post" if secret else "none"
        if scheme:
            try:
                decoded = base64.b64decode(pair if scheme.lower() == "basic" else "").decode()
            except ValueError:
                decoded = ""
            named, _, given = decoded.partition(":")
            if secret or client_id not in ("", unquote(named)):
                raise OAuthError("invalid_request", "credentials twice")
            client_id, secret, method = unquote(named), unquote(given), "client_secret_basic"
        client = self._client(client_id)
        if client is None or client.method != method or not hmac.compare_digest(client.secret, _hash(secret)):
            raise OAuthError("invalid_client", "unknown, or not authenticated as it was registered", 401)
        return client

    def _revoke(self, request: HttpRequest, reply: HttpReply) -> None:
        """Revoke a token (RFC 7009). A refresh token takes all tokens of the same consent with it."""
        form = _form(request.body)
        client = self._authenticated(request, form)
        with self._lock:
            found = self._tokens.get(_hash(form.get("token", "")))
            if found is not None and found.grant.client == client.id:
                found.until, found.grant.revoked = 0, found.grant.revoked or found.refreshes
        _send_json(reply, {})


class _Own(Protection):
    """The protection of an MCP server that has its authorization server beside it."""

    def __init__(self, server: AuthorizationServer, options: Mapping[str, Any]) -> None:
        # A placeholder: the issuer is known once the server listens.
        super().__init__(server.verify, authorization_servers=["http://localhost"], **options)
        self._server = server

    @property
    def routes(self) -> dict[str, Endpoint]:
        return self._server.routes

    def door(self, server: Server, path: str, main: str) -> Any:
        door = super().door(server, path, main)
        self._server._doors.append(door)
        return door

    def opened(self, base: str) -> None:
        # MUST: use the MCP server's URL without its path as the authorization base URL
        # (2025-03-26/basic/authorization#authorization-base-url)
        parts = urlsplit(self.resource or base)
        self._server.issuer = f"{parts.scheme}://{parts.netloc}"
        self.authorization_servers = [self._server.issuer]


# -- what is read and written -------------------------------------------------------------------------------------


def _answered(answer: Endpoint, request: HttpRequest, reply: HttpReply) -> None:
    """Answer a request, and turn a refusal into a page if a user sees it, else into JSON."""
    seen = request.path == "/authorize"
    try:
        if request.method not in (("GET", "POST") if seen else ("POST",)):
            raise HttpRefusal(405, "Method not allowed", headers={"Allow": "GET, POST" if seen else "POST"})
        if len(request.body) > MAX_BODY:
            raise HttpRefusal(413, "Content too large")
        answer(request, reply)
    except HttpRefusal as refusal:
        reply.send(refusal.status, {**_HEADERS, **refusal.headers}, refusal.message.encode())
    except OAuthError as problem:
        if seen:
            _send_page(reply, problem.status, f"<p>{html.escape(str(problem))}</p>")
        else:
            challenge = {"WWW-Authenticate": "Basic"} if problem.status == 401 else {}
            _send_json(reply, {"error": problem.error, "error_description": str(problem)}, problem.status, challenge)


def _send_json(reply: HttpReply, document: Any, status: int = 200, more: Mapping[str, str] | None = None) -> None:
    reply.send(status, {**_HEADERS, "Content-Type": "application/json", **(more or {})}, json.dumps(document).encode())


def _send_page(reply: HttpReply, status: int, body: str, more: Mapping[str, str] | None = None) -> None:
    page = f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Authorization</title><body>{body}"
    reply.send(
        status, {**_HEADERS, "Content-Type": "text/html; charset=utf-8", **(more or {})}, page.encode(errors="replace")
    )


def _question(asked: Question, ticket: str) -> str:
    """Return the body of the page that asks the user."""
    host = urlsplit(asked.params["redirect_uri"]).netloc
    who = "<p><input name=user placeholder=Name> <input name=password type=password placeholder=Password>"
    # MUST: show the host of the redirect URI; SHOULD: warn if that is this machine, where any program can listen
    # (basic/authorization#localhost-redirect-uri-risks)
    warning = (
        "<p>That is a program on this computer. Go on only if you have just started it."
        if guarded_fetch.is_loopback(f"//{host}")
        else ""
    )
    return (
        f"<h1>{html.escape(asked.client.name)}</h1><p>wants to use this server for you"
        f"{' as ' + html.escape(asked.subject) if asked.subject is not None else ''}, and will get: "
        f"{html.escape(' '.join(asked.scopes)) or 'access'}.<p>It is at <b>{html.escape(host)}</b>.{warning}"
        f'<form method=post action=/authorize><input type=hidden name=ticket value="{ticket}">'
        f"{who if asked.subject is None else ''}"
        "<p><button name=answer value=allow>Allow</button> <button name=answer value=deny>Deny</button></form>"
    )


def _form(data: bytes) -> dict[str, str]:
    """Return the parameters of a query or a form. None may occur twice."""
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=64, errors="strict")
    except ValueError:
        raise OAuthError("invalid_request", "malformed") from None
    if len(dict(pairs)) < len(pairs):
        raise OAuthError("invalid_request", "a parameter came twice")
    return dict(pairs)


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise OAuthError("invalid_client_metadata", "not a JSON object")
    return found


def _client_of(document: Mapping[str, Any], client_id: str, method: Any) -> KnownClient:
    """Return a client as it describes itself. Raises: OAuthError."""
    uris = document.get("redirect_uris")
    # MUST: accept redirect URIs only if they are https, or on this machine (basic/authorization#communication-security)
    if not isinstance(uris, list) or not uris or not all(map(guarded_fetch.is_secure, uris)):
        raise OAuthError("invalid_redirect_uri", "redirect_uris must be https URLs, or http on this machine")
    if method not in _METHODS:
        raise OAuthError("invalid_client_metadata", f"token_endpoint_auth_method must be one of {', '.join(_METHODS)}")
    return KnownClient(client_id, str(document.get("client_name", client_id))[:200], tuple(uris), method)


def _same_place(registered: str, asked: str) -> bool:
    """Return whether a redirect URI equals the registered one as text; on this machine the port may differ (RFC
    8252).
    """
    if registered == asked:
        return True
    one, other = urlsplit(registered), urlsplit(asked) if guarded_fetch.is_secure(asked) else urlsplit("")
    on_this_machine = one.scheme == "http" and guarded_fetch.is_loopback(registered)
    return on_this_machine and asked == one._replace(netloc=other.netloc).geturl() and one.hostname == other.hostname


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
