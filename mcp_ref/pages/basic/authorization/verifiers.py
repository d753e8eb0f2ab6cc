"""Whose an access token is: by its signature (`JwtVerifier`), or by asking the server that issued it (`Introspection`).

Spec:      basic/authorization#token-handling, #access-token-privilege-restriction; RFC 9068, RFC 7519, RFC 8725;
           RFC 7662; RFC 8414 (where the keys are)
Upholds:   spec_notes/basic/authorization.md, the rows on token handling
Not here:  what is checked of every token: its audience, expiry and scopes (resource_server); keys and signatures
           (pages/basic/authorization/jwt)

Both are a `Verify` of resource_server. They remember valid tokens for a while, by their hashes.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_ref.errors import AuthorizationError
from mcp_ref.kit.http.guarded_fetch import Reach, is_loopback, is_secure
from mcp_ref.kit.http.http_call import origin_of
from mcp_ref.kit.threads.bounded_dict import Latest
from mcp_ref.pages.basic.authorization.discovery import issuer_metadata
from mcp_ref.pages.basic.authorization.fetching import Fetcher, refuses, usable
from mcp_ref.pages.basic.authorization.metadata import basic_credentials
from mcp_ref.pages.basic.authorization.resource_server import RETRY_AFTER, Principal

log = logging.getLogger(__name__)

MAX_KNOWN: Final = 1_000
"""Tokens that a verifier remembers. When there are more, it forgets the one that it has known longest."""

JWT_LIFETIME: Final = 300.0
"""Seconds until the signature of a known token is verified again. A token that is revoked still counts until then."""

INTROSPECTION_LIFETIME: Final = 10.0
"""Seconds until the authorization server is asked about a known token again."""

KEYS_LIFETIME: Final = 600.0
"""Seconds after which the keys of an authorization server are fetched again."""

KEYS_INTERVAL: Final = 60.0
"""Seconds that must pass before an unknown key can make the verifier fetch the keys again."""

_KEYS: Final = "the keys of the authorization server"
_ANYWHERE: Final = Fetcher(None, None, Reach(anywhere=True))  # whoever configured this server has named the address


class _Verifier:
    """Verifies tokens, and remembers the valid ones for `lifetime` seconds. Threads: any."""

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        # By the hash of the token; until when it is believed.
        self._known: Latest[bytes, tuple[Principal, float]] = Latest(MAX_KNOWN)

    def __call__(self, token: str) -> Principal | None:
        """See `Verify`. Raises: AuthorizationError: the authorization server cannot be reached, or refuses us."""
        digest, now = hashlib.sha256(token.encode()).digest(), time.time()
        if (known := self._known.get(digest)) is not None and known[1] > now:
            return known[0]
        try:
            principal = self._verify(token)
        except ValueError as problem:
            # The client is not told: whoever tries tokens must not learn how far one came.
            log.info("a token is not valid: %s", problem)
            return None
        self._known[digest] = principal, min(now + self._lifetime, principal.expires or float("inf"))
        return principal

    def _verify(self, token: str) -> Principal:
        """Verify a token that is not known. Raises: ValueError: it is not valid; the text goes into the log."""
        raise NotImplementedError


def _principal(claims: Mapping[str, Any], issuer: str, leeway: float) -> Principal:
    """Return the principal that claims describe (RFC 9068, RFC 7662). Raises: ValueError: they describe nobody."""
    client, audience, ends = claims.get("client_id", claims.get("azp", "")), claims.get("aud"), claims.get("exp")
    # A program that acts for itself may have no `sub`. Several products call the scopes `scp`.
    subject, scopes = claims.get("sub", client), claims.get("scope", claims.get("scp", ""))
    scopes = scopes.split() if isinstance(scopes, str) else scopes
    urls = [audience] if isinstance(audience, str) else audience or []
    lists = isinstance(scopes, list) and isinstance(urls, list) and bool(subject)
    if not lists or not all(isinstance(each, str) for each in (subject, client, *scopes, *urls)):
        raise ValueError("its claims name nobody, or one of sub, client_id, scope and aud is malformed")
    # NaN and Infinity, which Python's parser reads, would never come.
    if ends is not None and not (type(ends) in (int, float) and ends < float("inf")):
        raise ValueError("its exp is not a time")
    expires = None if ends is None else ends + leeway
    return Principal(subject, issuer, client, frozenset(scopes), frozenset(urls), expires, dict(claims))


class JwtVerifier(_Verifier):
    """Verifies access tokens that are JWTs with the keys that their issuer publishes. Needs the extra `auth`.

    Args:
        issuer: the `iss` of the tokens, compared as text.
        jwks_uri: the URL of the issuer's keys. None: the issuer's metadata names it; then it must be a public address,
            or be at the issuer itself.
        algorithms: the signature algorithms that are accepted. `none` and HMAC are never among them.
        types: the values of the header `typ` that are accepted. ID tokens and other JWTs of the same issuer are not
            access tokens; add "jwt" if your authorization server does not tell them apart.
        leeway: seconds by which the issuer's clock may differ from ours.

    Raises: ImportError: PyJWT is missing. ValueError: a URL is not https, or an algorithm has no public keys.
    Blocks: at most 30 seconds for each document, whenever the keys have to be fetched.
    Threads: any. One of them fetches the keys while the others wait.
    """

    def __init__(
        self,
        issuer: str,
        *,
        jwks_uri: str | None = None,
        algorithms: Sequence[str] = ("ES256", "RS256", "EdDSA"),
        types: Sequence[str] = ("at+jwt",),
        leeway: float = 30,
    ) -> None:
        # Imported here, so that a missing package is noticed before the first request.
        from mcp_ref.pages.basic.authorization import jwt

        super().__init__(JWT_LIFETIME)
        if not is_secure(issuer) or not (jwks_uri is None or is_secure(jwks_uri)):
            raise ValueError(f"{issuer!r} and its keys must have https URLs; http is for this machine alone")
        if unknown := [name for name in algorithms if name[:2] not in ("ES", "RS", "PS", "Ed")]:
            raise ValueError(f"not algorithms of public keys: {unknown}")
        self._jwt, self._issuer, self._jwks_uri = jwt, issuer, jwks_uri
        self._algorithms, self._leeway = frozenset(algorithms), leeway
        self._types = frozenset(kind.lower() for kind in types)
        self._changed = threading.Condition()  # guards the fields below; notified when a fetch is over
        self._keys: list[dict[str, Any]] = []
        self._fetching = False
        self._fetched = self._again = float("-inf")  # when the keys were fetched; when they may be fetched again

    def _verify(self, token: str) -> Principal:
        # Nothing that the header says is believed: it only selects among the algorithms, types and keys that we accept
        # (RFC 8725). `jku`, `x5u` and `jwk` are not read at all.
        header = self._jwt.header_of(token) or {}
        kind, algorithm = str(header.get("typ")).lower().removeprefix("application/"), str(header.get("alg"))
        if algorithm not in self._algorithms or kind not in self._types or "crit" in header:
            raise ValueError(f"type {kind[:20]!a} or algorithm {algorithm[:20]!a} is not accepted, or it is not a JWT")
        if (key := self._key(algorithm, header.get("kid"))) is None:
            raise ValueError("no key of the issuer, or more than one, fits it")
        claims = self._jwt.claims_of(token, key, algorithm, self._issuer, self._leeway)
        return _principal(claims, self._issuer, self._leeway)

    def _key(self, algorithm: str, named: Any) -> dict[str, Any] | None:
        """Return the key with this name. Without a name: the one key that fits the algorithm."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._fetching, 60)
                now = time.monotonic()
                found = [key for key in self._keys if self._jwt.fits(key, algorithm)]
                found = [key for key in found if named is None or key.get("kid") == named]
                if now < self._again or (found and now < self._fetched + KEYS_LIFETIME):
                    if not self._keys:
                        raise AuthorizationError("the keys of the authorization server could not be fetched")
                    return found[0] if len(found) == 1 else None
                self._fetching, self._again = True, now + RETRY_AFTER
            keys: list[dict[str, Any]] | None = None
            try:
                keys = self._fetch()
            except AuthorizationError:
                if not self._keys:
                    raise
            finally:
                with self._changed:
                    self._fetching = False
                    if keys is not None:
                        self._keys, self._fetched, self._again = keys, now, now + KEYS_INTERVAL
                    self._changed.notify_all()

    def _fetch(self) -> list[dict[str, Any]]:
        """Fetch the keys that the issuer publishes. Raises: AuthorizationError."""
        url, fetcher = self._jwks_uri, _ANYWHERE
        if url is None:
            metadata = issuer_metadata(fetcher, self._issuer, self._issuer)
            url = usable(_KEYS, metadata.get("jwks_uri", ""), self._issuer)
            # The issuer itself may be anywhere, since whoever configured this server named it. What the issuer names
            # may not.
            if origin_of(url) != origin_of(self._issuer):
                fetcher = Fetcher(None, None, Reach("loopback" if is_loopback(self._issuer) else "global"))
        keys = (fetcher.document(_KEYS, url, self._issuer) or {}).get("keys")
        if not isinstance(keys, list):
            raise AuthorizationError("the authorization server publishes no keys")
        return [key for key in keys if isinstance(key, dict)]


class Introspection(_Verifier):
    """Verifies access tokens of any form by asking the authorization server about them (RFC 7662).

    Args:
        url: the introspection endpoint of the authorization server.
        client_id, secret: the credentials of this server there.
        issuer: the authorization server. An answer that names another `iss` is a refusal.

    Raises: ValueError: the URL is not https.
    Blocks: at most 30 seconds for a token that it has not asked about within the last 10.
    Threads: any.
    """

    def __init__(self, url: str, client_id: str, secret: str, *, issuer: str) -> None:
        super().__init__(INTROSPECTION_LIFETIME)
        if not is_secure(url):
            raise ValueError(f"{url!r} must be an https URL; http is for this machine alone")
        self._url, self._issuer, self._credentials = url, issuer, basic_credentials(client_id, secret)

    def _verify(self, token: str) -> Principal:
        form = {"token": token, "token_type_hint": "access_token"}
        reply, claims = _ANYWHERE.post("the introspection", self._url, self._url, form, headers=self._credentials)
        if refuses(reply, claims):
            raise AuthorizationError(f"the authorization server does not let this server ask: status {reply.status}")
        starts = claims.get("nbf", 0)
        if claims.get("active") is not True or claims.get("iss", self._issuer) != self._issuer:
            raise ValueError("the authorization server calls it inactive, or names another issuer")
        if not isinstance(starts, int | float) or not starts <= time.time() + 30:
            raise ValueError("it is not valid yet (nbf)")
        return _principal(claims, self._issuer, 0)
