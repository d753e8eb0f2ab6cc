"""The authorization code flow: the request that the user's browser carries, its answer, and the requests for tokens.

Spec:      basic/authorization#authorization-flow-steps, #resource-parameter-implementation,
           #authorization-code-protection, #open-redirection; #authorization-response-validation, #refresh-tokens
           (2026-07-28); OAuth 2.1, RFC 7636, RFC 8707, RFC 9207
Upholds:   spec_notes/basic/authorization.md, the rows on the authorization request and its answer
Not here:  which authorization server (discovery), as which client (registration), and when (client)

    1. the browser goes to authorization_endpoint?code_challenge=...&state=...&resource=...
    2. the user consents, and the browser comes back to redirect_uri?code=...&state=...&iss=...
    3. POST token_endpoint, grant_type=authorization_code, code=..., code_verifier=...     a token
    4. POST token_endpoint, grant_type=refresh_token, refresh_token=...                    the next token
"""

from __future__ import annotations

import re
import secrets
import time
from typing import Final, NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from mcp_ref.errors import AuthorizationError
from mcp_ref.pages.basic.authorization.discovery import Discovered
from mcp_ref.pages.basic.authorization.dpop import USE_NONCE, Prover
from mcp_ref.pages.basic.authorization.fetching import Fetcher, refuses, shown, usable
from mcp_ref.pages.basic.authorization.metadata import s256, scopes_in
from mcp_ref.pages.basic.authorization.registration import Registered, prove, refused
from mcp_ref.wire.messages import JsonObject

MAX_LIFETIME: Final = 315_360_000.0
"""The longest lifetime of a token that is believed, in seconds: ten years."""

EARLY: Final = 30.0
"""How many seconds before its end a token is refreshed, or half of its lifetime if that is shorter."""

OFFLINE: Final = "offline_access"

_ACCESS_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,16384}=*")
_TOKENS: Final = "the request for a token"


class Token(NamedTuple):
    """An access token and everything that belongs to it. It is secret, so its `repr` does not show it.

    Attributes:
        access: the token that each request carries. kind: "Bearer" or "DPoP".
        fresh_until: when it should be refreshed, in seconds since the epoch, somewhat before it ends; None: unknown.
        refresh: the refresh token, or None.
        scopes: what was granted, or None if nobody said.
        issuer, resource, client_id: who issued it, for which server, and to which client.
        login: names the login that it comes from. A refreshed token keeps it.
    """

    access: str
    kind: str
    fresh_until: float | None
    refresh: str | None
    scopes: tuple[str, ...] | None
    issuer: str
    resource: str | None
    client_id: str
    login: str

    def __repr__(self) -> str:
        return f"<Token of {self.issuer}>"

    def headers(self) -> dict[str, str]:
        """Return the header that carries the token in each request."""
        # MUST: send the token in the Authorization header; a token MUST NOT stand in the query of a URL
        # (basic/authorization#token-requirements)
        return {"Authorization": f"{self.kind} {self.access}"}

    @property
    def stale(self) -> bool:
        """Return whether it is known to have ended, or to end soon."""
        return self.fresh_until is not None and time.time() >= self.fresh_until

    @classmethod
    def kept(cls, record: JsonObject | None, kind: str) -> Token | None:
        """Return the token in a record of a store; None if the record is not a token of this kind."""
        try:
            token = cls(**(record or {}))
            texts = (token.issuer, token.resource, token.client_id, token.login, token.refresh, *(token.scopes or ()))
            sound = isinstance(token.fresh_until, int | float | None) and all(isinstance(x, str | None) for x in texts)
            fits = token.kind == kind and _ACCESS_TOKEN.fullmatch(token.access)
            return token._replace(scopes=token.scopes and tuple(token.scopes)) if sound and fits else None
        except TypeError:
            return None

    def belongs(self, found: Discovered) -> bool:
        """Return whether this authorization server issued it for this MCP server."""
        return (self.issuer, self.resource) == (found.issuer, found.resource)


class AuthorizationRequest:
    """One authorization request: the URL that the browser is sent to, and the check of what it comes back with.

    Args:
        client: who asks. redirect_uri: where the browser comes back to.
        scopes: what to ask for; None: the request names no scopes.
        prover: makes proofs, if the token is to be bound to a key.

    Attributes:
        url: where the browser is sent. said: the parameters in it.

    Raises: AuthorizationError: it is not safe to ask this authorization server.
    """

    def __init__(
        self,
        found: Discovered,
        client: Registered,
        redirect_uri: str,
        scopes: tuple[str, ...] | None,
        prover: Prover | None = None,
    ) -> None:
        endpoint = found.metadata.get("authorization_endpoint")
        if endpoint is None:
            raise AuthorizationError(f"{shown(found.issuer)} has no authorization_endpoint")
        # The browser is sent to https URLs, and to http on this machine. Any other scheme could run a program.
        usable("the authorization endpoint", endpoint, found.issuer)
        # MUST: refuse an authorization server whose metadata lacks `code_challenge_methods_supported`
        # (basic/authorization#authorization-code-protection)
        methods = found.metadata.get("code_challenge_methods_supported")
        if (methods is None and found.rules.pkce_advertised) or (methods is not None and "S256" not in methods):
            told = "does not say that it supports PKCE" if methods is None else "does not support PKCE with S256"
            raise AuthorizationError(f"{shown(found.issuer)} {told}: a stolen code could be used")
        if prover is not None:
            prover.check_support(found.metadata, shown(found.issuer))
        # MUST: record the issuer of the validated metadata beside the PKCE verifier and `state`
        # (basic/authorization#authorization-response-validation)
        self._found, self._client, self._redirect_uri, self._scopes = found, client, redirect_uri, scopes
        self._prover = prover
        self._state, self._verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect_uri,
            # MUST: use PKCE with S256 (basic/authorization#authorization-code-protection)
            "code_challenge": s256(self._verifier),
            "code_challenge_method": "S256",
            # SHOULD: send `state`, to be compared with what comes back (basic/authorization#open-redirection)
            "state": self._state,
            **({} if prover is None else prover.binding),
        }
        if scopes is not None:
            query["scope"] = " ".join(scopes)
            if OFFLINE in scopes:
                # Without `prompt=consent` no refresh token comes (OpenID Connect Core, section 11).
                query["prompt"] = "consent"
        # MUST: name `resource` in the authorization request (basic/authorization#resource-parameter-implementation)
        if found.resource is not None:
            query["resource"] = found.resource
        parts = urlsplit(endpoint)
        # The endpoint may have a query of its own, in which our parameters must not stand a second time.
        own = [(name, value) for name, value in parse_qsl(parts.query) if name not in query]
        self.said = query
        self.url = parts._replace(query=urlencode([*own, *query.items()])).geturl()

    def is_answer(self, query: str) -> bool:
        """Return whether the browser came back from this request. Nobody else knows its `state`."""
        # SHOULD: discard an answer without `state`, or with another one (basic/authorization#open-redirection)
        states = parse_qs(query, keep_blank_values=True).get("state", [])
        return len(states) == 1 and secrets.compare_digest(states[0].encode(), self._state.encode())

    def code(self, query: str) -> str:
        """Return the code in the query that the browser came back with.

        Raises: AuthorizationError: the answer belongs to another request or issuer, or the user refused.
        """
        answer = parse_qs(query, keep_blank_values=True)
        if not self.is_answer(query):
            raise AuthorizationError("the browser came back without the state that it was sent with")
        if twice := [name for name in ("code", "iss", "error") if len(answer.get(name, [])) > 1]:
            raise AuthorizationError(f"the browser came back with more than one {twice[0]}")
        # MUST: compare `iss` as text before the code is sent anywhere; a client MUST NOT act on or show an error whose
        # `iss` is wrong (basic/authorization#authorization-response-validation)
        issuer = answer.get("iss", [None])[0]
        promised = self._found.metadata.get("authorization_response_iss_parameter_supported", False)
        if issuer is None and promised:
            raise AuthorizationError(f"the answer lacks the iss that {shown(self._found.issuer)} promises")
        if issuer is not None and issuer != self._found.issuer:
            raise AuthorizationError(f"the answer comes from another issuer than {shown(self._found.issuer)}")
        if "error" in answer:
            told = {name: values[0] for name, values in answer.items()}
            raise refused("the authorization request", self._found.issuer, None, told)
        if "code" not in answer or not answer["code"][0]:
            raise AuthorizationError("the browser came back without a code")
        return answer["code"][0]

    def redeem(self, fetcher: Fetcher, code: str) -> Token:
        """Exchange the code for a token. Raises: AuthorizationError."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": self._verifier,
        }
        return request_token(fetcher, self._found, self._client, form, self._scopes, prover=self._prover)


def request_token(
    fetcher: Fetcher,
    found: Discovered,
    client: Registered | None,
    form: dict[str, str],
    scopes: tuple[str, ...] | None,
    before: Token | None = None,
    prover: Prover | None = None,
) -> Token:
    """Ask the token endpoint for a token.

    Args:
        client: who asks. None: the grant itself says who.
        form: the parameters of the grant. scopes: what was asked for.
        before: the token that the new one replaces.
        prover: makes proofs, if the token is to be bound to a key.

    Raises: AuthorizationError, with the code of the authorization server if it refuses.
    """
    endpoint = found.metadata.get("token_endpoint")
    if endpoint is None:
        raise AuthorizationError(f"{shown(found.issuer)} has no token_endpoint")
    # MUST: name `resource` in the token request too (basic/authorization#resource-parameter-implementation)
    if found.resource is not None:
        form["resource"] = found.resource
    # MUST: authenticate by a key or a secret (extensions/oauth-client-credentials#client-authentication-methods)
    confidential = form["grant_type"] not in ("authorization_code", "refresh_token")
    for last in (False, True):
        headers = {} if client is None else prove(client, found, form, confidential=confidential)
        if prover is not None:
            headers |= prover.headers("POST", endpoint)
        reply, answer = fetcher.post(_TOKENS, endpoint, found.issuer, form, headers=headers)
        # A proof that lacked a nonce is made once more.
        wants_nonce = reply.status == 400 and answer.get("error") == USE_NONCE
        if last or not wants_nonce or prover is None or not prover.learn_nonce(endpoint, reply.headers):
            break
    if refuses(reply, answer):
        raise refused(_TOKENS, endpoint, reply.status, answer, form, client)
    # What was answered must be a token that can be sent, of the kind that was asked for.
    wanted = "Bearer" if prover is None else "DPoP"
    access, kind = answer.get("access_token"), answer.get("token_type")
    if not isinstance(kind, str) or kind.lower() != wanted.lower():
        raise AuthorizationError(f"{_TOKENS}: {shown(endpoint)} gave a token of type {str(kind)[:40]!a}, not {wanted}")
    if not isinstance(access, str) or not _ACCESS_TOKEN.fullmatch(access):
        raise AuthorizationError(f"{_TOKENS}: {shown(endpoint)} gave a token that cannot be sent")
    lasts, next_one, granted = answer.get("expires_in"), answer.get("refresh_token"), answer.get("scope")
    if isinstance(lasts, str) and lasts.isdecimal() and len(lasts) < 12:
        lasts = int(lasts)  # several products send it as a string
    if isinstance(lasts, bool) or not isinstance(lasts, int | float) or not 0 <= lasts <= MAX_LIFETIME:
        lasts = None
    if not isinstance(next_one, str) or not next_one:
        next_one = None if before is None else before.refresh
    return Token(
        access,
        wanted,
        None if lasts is None else time.time() + lasts - min(EARLY, lasts / 2),
        next_one,
        # Without `scope` in the answer, everything that was asked for was granted (RFC 6749, section 5.1).
        (scopes_in(granted) or scopes) if granted is not None else scopes,
        found.issuer,
        found.resource,
        "" if client is None else client.client_id,
        secrets.token_hex(8) if before is None else before.login,
    )


def refresh(
    fetcher: Fetcher, found: Discovered, client: Registered, token: Token, prover: Prover | None = None
) -> Token:
    """Get the next token with the refresh token, which stays unless the answer has another one (rotation)."""
    # Without `scope` the new token has the same scopes.
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh or ""}
    return request_token(fetcher, found, client, form, token.scopes, token, prover)
