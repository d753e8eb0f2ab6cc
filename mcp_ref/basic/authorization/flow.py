"""The authorization code flow: the request that the user's browser takes, its answer, and requests for tokens.

Spec:      basic/authorization#authorization-flow-steps, #resource-parameter-implementation,
           #authorization-code-protection, #open-redirection; #authorization-response-validation, #refresh-tokens
           (2026-07-28); OAuth 2.1, RFC 7636, RFC 8707, RFC 9207
Upholds:   spec_notes/basic/authorization.md, the rows on the authorization request and its answer
Not here:  whom to ask (discovery), who asks (registration), when (client)

    1. the browser goes to authorization_endpoint?code_challenge=...&state=...&resource=...
    2. the user consents, and it comes back to redirect_uri?code=...&state=...&iss=...
    3. POST token_endpoint, grant_type=authorization_code, code=..., code_verifier=...     a token
    4. POST token_endpoint, grant_type=refresh_token, refresh_token=...                    the next one
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from typing import Final, NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from mcp_ref.basic.authorization.discovery import Discovered
from mcp_ref.basic.authorization.dpop import USE_NONCE, Prover
from mcp_ref.basic.authorization.fetching import Fetcher, shown, usable
from mcp_ref.basic.authorization.metadata import scopes_in
from mcp_ref.basic.authorization.registration import Registered, prove, refused
from mcp_ref.errors import AuthorizationError
from mcp_ref.messages import JsonObject

MAX_LIFETIME: Final = 315_360_000.0
"""Seconds that a token can last, as far as it is believed: ten years."""

EARLY: Final = 30.0
"""Seconds before its end at which a token is renewed, or half of its life if that is shorter."""

OFFLINE: Final = "offline_access"

_ACCESS_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,16384}=*")
_TOKENS: Final = "the request for a token"


class Token(NamedTuple):
    """An access token, and all that belongs to it. It is secret, and so is not shown.

    Attributes:
        access: goes with each request. kind: "Bearer" or "DPoP".
        fresh_until: seconds since the UNIX epoch, some time before it ends; None: that is not known.
        refresh: what the next one is asked for with, or None.
        scopes: what was granted, or None if nobody said.
        issuer, resource, client_id: where, for what and by whom it was asked for.
        login: names the authorization that it comes from; a refreshed token has the same.
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
        """What each request has."""
        # MUST: in the Authorization header; MUST NOT: in the query (basic/authorization#token-requirements)
        return {"Authorization": f"{self.kind} {self.access}"}

    @property
    def stale(self) -> bool:
        """Whether it ends soon, or has ended, as far as is known."""
        return self.fresh_until is not None and time.time() >= self.fresh_until

    @classmethod
    def kept(cls, record: JsonObject | None, kind: str) -> Token | None:
        """A token as it was kept in a store; None if that is not one of this kind."""
        try:
            token = cls(**record) if record is not None else None
        except TypeError:
            return None
        if token is None or not isinstance(token.access, str) or not _ACCESS_TOKEN.fullmatch(token.access):
            return None
        if token.kind != kind:
            return None
        return token._replace(scopes=None if token.scopes is None else tuple(token.scopes))


class AuthorizationRequest:
    """One authorization request: where the browser goes, and whether what it comes back with is the answer.

    Args:
        client: who asks. redirect_uri: where the browser comes back to.
        scopes: what is asked for; None: nothing is said.
        prover: makes proofs, if the token is to be bound to a key.

    Raises: AuthorizationError: the authorization server is not one that it is safe to ask.
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
        # Only https, and http on this machine: no other scheme gets to the browser (security best practices).
        usable("the authorization endpoint", endpoint, found.issuer)
        # MUST: refuse an authorization server that does not say that it knows PKCE; MUST: use S256
        # (basic/authorization#authorization-code-protection)
        methods = found.metadata.get("code_challenge_methods_supported")
        if (methods is None and found.rules.pkce_advertised) or (methods is not None and "S256" not in methods):
            told = "does not say that it knows PKCE" if methods is None else "does not know PKCE with S256"
            raise AuthorizationError(f"{shown(found.issuer)} {told}: a stolen code could be used")
        if prover is not None:
            prover.check_support(found.metadata, shown(found.issuer))
        # MUST: remember the issuer of the validated metadata, beside the verifier and the state
        # (basic/authorization#authorization-response-validation)
        self._found, self._client, self._redirect_uri, self._scopes = found, client, redirect_uri, scopes
        self._prover = prover
        self._state, self._verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self._verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect_uri,
            # MUST: PKCE with S256 (basic/authorization#authorization-code-protection)
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            # SHOULD: state, to be compared with what comes back (basic/authorization#open-redirection)
            "state": self._state,
            **({} if prover is None else prover.binding),
        }
        if scopes is not None:
            query["scope"] = " ".join(scopes)
            if OFFLINE in scopes:
                # OpenID Connect Core, section 11: without consent there is no refresh token.
                query["prompt"] = "consent"
        # MUST: resource in the authorization request (basic/authorization#resource-parameter-implementation)
        if found.resource is not None:
            query["resource"] = found.resource
        parts = urlsplit(endpoint)
        # Of what the endpoint has in its own query, nothing may stand beside ours.
        own = [(name, value) for name, value in parse_qsl(parts.query) if name not in query]
        self.said = query
        self.url = parts._replace(query=urlencode([*own, *query.items()])).geturl()

    def is_answer(self, query: str) -> bool:
        """Whether the browser came back from this request: by `state`, which nobody else knows."""
        # SHOULD: drop an answer without state, or with another (basic/authorization#open-redirection)
        states = parse_qs(query, keep_blank_values=True).get("state", [])
        return len(states) == 1 and secrets.compare_digest(states[0].encode(), self._state.encode())

    def code(self, query: str) -> str:
        """The code that the browser came back with.

        Raises: AuthorizationError: the answer is not of this request or this issuer, or the user has refused.
        """
        answer = parse_qs(query, keep_blank_values=True)
        if not self.is_answer(query):
            raise AuthorizationError("the browser came back without the state that it was sent with")
        if twice := [name for name in ("code", "iss", "error") if len(answer.get(name, [])) > 1]:
            raise AuthorizationError(f"the browser came back with more than one {twice[0]}")
        # MUST: compare iss, as text, before the code goes anywhere; MUST NOT: act on or show the fields of an error
        # whose iss is wrong (basic/authorization#authorization-response-validation)
        issuer = answer.get("iss", [None])[0]
        promised = self._found.metadata.get("authorization_response_iss_parameter_supported", False)
        if issuer is None and promised:
            raise AuthorizationError(f"the answer lacks the iss that {shown(self._found.issuer)} promises")
        if issuer is not None and issuer != self._found.issuer:
            raise AuthorizationError(f"the answer is of another issuer than {shown(self._found.issuer)}")
        if "error" in answer:
            told: JsonObject = {name: answer[name][0] for name in ("error", "error_description") if name in answer}
            failed = refused("the authorization request", self._found.issuer, 302, told, ())
            raise AuthorizationError(str(failed).replace(" with HTTP status 302", ""), failed.error)
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
    """POST to the token endpoint.

    Args:
        client: who asks; None: the grant itself says it.
        form: the grant. scopes: what was asked for.
        before: the token that this one replaces.
        prover: makes proofs, if the token is to be bound to a key.

    Raises: AuthorizationError, with the code of OAuth if the authorization server refuses.
    """
    endpoint = found.metadata.get("token_endpoint")
    if endpoint is None:
        raise AuthorizationError(f"{shown(found.issuer)} has no token_endpoint")
    # MUST: resource in the token request too (basic/authorization#resource-parameter-implementation)
    if found.resource is not None:
        form["resource"] = found.resource
    confidential = form["grant_type"] not in ("authorization_code", "refresh_token")
    nonces = 0 if prover is None else 1  # that are learnt: the request is made again once
    while True:
        headers = {} if client is None else prove(client, found, form, confidential=confidential)
        if prover is not None:
            headers |= prover.headers("POST", endpoint)
        reply, answer = fetcher.post(_TOKENS, endpoint, found.issuer, form, headers=headers)
        wants_nonce = reply.status == 400 and answer.get("error") == USE_NONCE
        if not nonces or not wants_nonce or prover is None or not prover.learn_nonce(endpoint, reply.headers):
            break
        nonces -= 1
    if reply.status != 200:
        hidden = {value for name, value in form.items() if name not in ("grant_type", "resource", "scope")}
        secret = () if client is None else (client.secret or "",)
        raise refused(_TOKENS, endpoint, reply.status, answer, (*hidden, *secret))
    kind = "Bearer" if prover is None else "DPoP"
    return _token_in(answer, endpoint, found, kind, "" if client is None else client.client_id, scopes, before)


def refresh(
    fetcher: Fetcher, found: Discovered, client: Registered, token: Token, prover: Prover | None = None
) -> Token:
    """The next token, by the refresh token. It keeps the refresh token unless there is another one (rotation)."""
    # Without scope: then it has the same as before.
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh or ""}
    return request_token(fetcher, found, client, form, token.scopes, token, prover)


def _token_in(
    answer: JsonObject, endpoint: str, found: Discovered, wanted: str, client_id: str,
    scopes: tuple[str, ...] | None, before: Token | None,
) -> Token:  # fmt: skip
    """The token in an answer of a token endpoint."""
    access, kind = answer.get("access_token"), answer.get("token_type")
    if not isinstance(kind, str) or kind.lower() != wanted.lower():
        raise AuthorizationError(f"{_TOKENS}: {shown(endpoint)} gave a token of type {str(kind)[:40]!a}, not {wanted}")
    if not isinstance(access, str) or not _ACCESS_TOKEN.fullmatch(access):
        raise AuthorizationError(f"{_TOKENS}: {shown(endpoint)} gave a token that cannot be sent")
    lasts, next_one, granted = answer.get("expires_in"), answer.get("refresh_token"), answer.get("scope")
    if isinstance(lasts, str) and lasts.isdecimal() and len(lasts) < 12:
        lasts = int(lasts)  # several products quote it
    if isinstance(lasts, bool) or not isinstance(lasts, int | float) or not 0 <= lasts <= MAX_LIFETIME:
        lasts = None
    if before is not None and (not isinstance(next_one, str) or not next_one):
        next_one = before.refresh
    return Token(
        access,
        wanted,
        None if lasts is None else time.time() + lasts - min(EARLY, lasts / 2),
        next_one if isinstance(next_one, str) and next_one else None,
        # What was granted is what was asked for, unless the answer says otherwise (RFC 6749, section 5.1).
        (scopes_in(granted) or scopes) if granted is not None else scopes,
        found.issuer,
        found.resource,
        client_id,
        secrets.token_hex(8) if before is None else before.login,
    )
