"""Whose an access token is: by its signature (`JwtVerifier`), or by asking who gave it out (`Introspection`).

Spec:      basic/authorization#token-handling, #access-token-privilege-restriction; RFC 9068, RFC 7519, RFC 8725;
           RFC 7662; RFC 8414 (where the keys are)
Upholds:   spec_notes/basic/authorization.md, the rows on token handling
Not here:  what is asked of every token, its audience, expiry and scopes (resource_server); keys and signatures
           (machinery/jwt)

Both are a `Verify` of resource_server. They keep what they have found for a while, by the hash of the token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from mcp_ref.basic.authorization.metadata import AUTHORIZATION_SERVER, OPENID
from mcp_ref.basic.authorization.resource_server import RETRY_AFTER, Principal, is_secure
from mcp_ref.errors import McpError
from mcp_ref.machinery.guarded_fetch import Reach, check_url, fetch, is_loopback
from mcp_ref.machinery.http_call import origin_of

MAX_KNOWN: Final = 1_000
"""Tokens that a verifier remembers; the one that it has known the longest is forgotten first."""

JWT_LIFETIME: Final = 300.0
"""Seconds for which a token is believed without another look at its signature: one that is revoked counts so long."""

INTROSPECTION_LIFETIME: Final = 10.0
"""The same for a token of which the authorization server has said that it counts."""

KEYS_LIFETIME: Final = 600.0
"""Seconds after which the keys of an authorization server are fetched again."""

KEYS_INTERVAL: Final = 60.0
"""Seconds between two fetches because of a key that is not known."""


class _Known:
    """Principals by the hashes of their tokens. Threads: any."""

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        self._lock = threading.Lock()  # guards _found
        self._found: dict[bytes, tuple[Principal, float]] = {}

    def get(self, token: str) -> Principal | None:
        found = self._found.get(hashlib.sha256(token.encode()).digest())
        return found[0] if found is not None and found[1] > time.time() else None

    def put(self, token: str, principal: Principal) -> Principal:
        until = min(time.time() + self._lifetime, principal.expires or float("inf"))
        with self._lock:
            self._found[hashlib.sha256(token.encode()).digest()] = principal, until
            if len(self._found) > MAX_KNOWN:
                del self._found[next(iter(self._found))]
        return principal


def _principal(claims: Mapping[str, Any], issuer: str, leeway: float) -> Principal | None:
    """Whom claims speak of (RFC 9068, RFC 7662); None if they speak of nobody."""
    subject, client = claims.get("sub"), claims.get("client_id", claims.get("azp", ""))
    subject = client if subject is None else subject
    granted, audience, ends = claims.get("scope", claims.get("scp", "")), claims.get("aud"), claims.get("exp")
    scopes = granted.split() if isinstance(granted, str) else granted
    urls = [audience] if isinstance(audience, str) else audience or []
    texts = isinstance(scopes, list) and isinstance(urls, list) and all(isinstance(x, str) for x in (*scopes, *urls))
    if not texts or not subject or not isinstance(subject, str) or not isinstance(client, str):
        return None
    if not isinstance(ends, int | float | None) or isinstance(ends, bool):
        return None
    return Principal(
        subject,
        issuer,
        client,
        frozenset(scopes),
        frozenset(urls),
        None if ends is None else ends + leeway,
        dict(claims),
    )


def _document(url: str, reach: Reach, **request: Any) -> dict[str, Any] | None:
    """A JSON object; None if there is none at that URL. Raises: ConnectionError: nobody can say."""
    try:
        reply = fetch(url, reach, **request)
        if 400 <= reply.status < 500:
            return None
        found = json.loads(reply.body) if reply.status == 200 else None
    except (McpError, ValueError, RecursionError) as problem:
        raise ConnectionError(f"no document from the authorization server: {problem}") from problem
    if not isinstance(found, dict):
        raise ConnectionError(f"the authorization server answered with status {reply.status}, or with no JSON object")
    return found


class JwtVerifier:
    """Verifies access tokens that are JWTs, with the keys that their issuer publishes; needs the extra `auth`.

    Args:
        issuer: of the tokens, exactly as they have it.
        jwks_uri: where its keys are; None: where its metadata says, which must be a public address unless the issuer
            itself is there.
        algorithms: of signatures that count. None and HMAC are never among them.
        types: what the header `typ` may say. ID tokens and others of the same issuer are no access tokens; name "jwt"
            if your authorization server does not keep them apart.
        leeway: seconds by which clocks may differ.

    Raises: ImportError: PyJWT is not there. ValueError: a URL that is not https, an algorithm that cannot be.
    Blocks: for at most 30 seconds each time that keys have to be fetched.
    Threads: any; one at a time fetches, while the others wait.
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
        # Here, so that it is missed before the first request.
        from mcp_ref.machinery import jwt

        if not is_secure(issuer) or not (jwks_uri is None or is_secure(jwks_uri)):
            raise ValueError(f"{issuer!r} and its keys must have https URLs; http is for this machine alone")
        if unknown := [name for name in algorithms if name[:2] not in ("ES", "RS", "PS", "Ed")]:
            raise ValueError(f"not algorithms of public keys: {unknown}")
        self._jwt, self._issuer, self._jwks_uri = jwt, issuer, jwks_uri
        self._algorithms, self._leeway = frozenset(algorithms), leeway
        self._types = frozenset(kind.lower() for kind in types)
        self._known = _Known(JWT_LIFETIME)
        self._changed = threading.Condition()  # guards the four fields below; told when a fetch is over
        self._keys: list[dict[str, Any]] = []
        self._fetching = False
        self._fetched = self._again = float("-inf")  # when keys were fetched; when they may be asked for again

    def __call__(self, token: str) -> Principal | None:
        """See `Verify`. Raises: ConnectionError: the keys cannot be fetched."""
        if (known := self._known.get(token)) is not None:
            return known
        # MUST NOT: believe a header before the signature: the algorithm and the type are ours to choose, and keys come
        # from the issuer alone (RFC 8725)
        header = self._jwt.header_of(token) or {}
        kind, algorithm, named = header.get("typ"), header.get("alg"), header.get("kid")
        if (
            algorithm not in self._algorithms
            or "crit" in header
            or str(kind).lower().removeprefix("application/") not in self._types
        ):
            return None
        key = self._key(algorithm, named)
        claims = None if key is None else self._jwt.claims_of(token, key, algorithm, self._issuer, self._leeway)
        principal = None if claims is None else _principal(claims, self._issuer, self._leeway)
        return None if principal is None else self._known.put(token, principal)

    def _key(self, algorithm: str, named: Any) -> dict[str, Any] | None:
        """The one key of that name, or without a name the one that fits."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._fetching, 60)
                now = time.monotonic()
                found = [key for key in self._keys if self._jwt.fits(key, algorithm)]
                found = [key for key in found if named is None or key.get("kid") == named]
                if now < self._again or (found and now < self._fetched + KEYS_LIFETIME):
                    if not self._keys:
                        raise ConnectionError("the keys of the authorization server could not be fetched")
                    return found[0] if len(found) == 1 else None
                self._fetching, self._again = True, now + RETRY_AFTER
            keys: list[dict[str, Any]] | None = None
            try:
                keys = self._fetch()
            except ConnectionError:
                if not self._keys:
                    raise
            finally:
                with self._changed:
                    self._fetching = False
                    if keys is not None:
                        self._keys, self._fetched, self._again = keys, now, now + KEYS_INTERVAL
                    self._changed.notify_all()

    def _fetch(self) -> list[dict[str, Any]]:
        """The keys that the issuer publishes. Raises: ConnectionError."""
        anywhere = Reach(anywhere=True)
        url, reach = self._jwks_uri, anywhere
        if url is None:
            parts = urlsplit(self._issuer)
            origin, path = parts._replace(path="", query="").geturl(), parts.path.rstrip("/")
            places = (AUTHORIZATION_SERVER + path, OPENID + path, path + OPENID)
            found = (_document(origin + place, anywhere) for place in dict.fromkeys(places))
            metadata = next((each for each in found if each is not None), {})
            if metadata.get("issuer") != self._issuer:
                raise ConnectionError("the authorization server has no metadata, or that of another issuer")
            try:
                url = check_url(metadata.get("jwks_uri"), self._issuer)
            except ValueError as problem:
                raise ConnectionError(f"jwks_uri cannot be used: {problem}") from None
            # Whoever configured the issuer meant it; where else it sends us was not said by them.
            if origin_of(url) != origin_of(self._issuer):
                reach = Reach("loopback" if is_loopback(self._issuer) else "global")
        keys = (_document(url, reach) or {}).get("keys")
        if not isinstance(keys, list):
            raise ConnectionError("the authorization server publishes no keys")
        return [key for key in keys if isinstance(key, dict)]


class Introspection:
    """Verifies access tokens of any form by asking their authorization server (RFC 7662).

    Args:
        url: its introspection endpoint.
        client_id, secret: what this server is known by there.
        issuer: of the tokens; an answer that names another one counts for nothing.

    Raises: ValueError: the URL is not https.
    Blocks: for at most 30 seconds for a token that was not asked about within the last 10.
    Threads: any.
    """

    def __init__(self, url: str, client_id: str, secret: str, *, issuer: str) -> None:
        if not is_secure(url):
            raise ValueError(f"{url!r} must be an https URL; http is for this machine alone")
        self._url, self._issuer = url, issuer
        pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        self._known = _Known(INTROSPECTION_LIFETIME)

    def __call__(self, token: str) -> Principal | None:
        """See `Verify`. Raises: ConnectionError: the authorization server cannot be asked, or refuses this server."""
        if (known := self._known.get(token)) is not None:
            return known
        form = urlencode({"token": token, "token_type_hint": "access_token"}).encode()
        claims = _document(self._url, Reach(anywhere=True), method="POST", headers=self._headers, body=form)
        if claims is None:
            raise ConnectionError("the authorization server does not let this server ask")
        starts = claims.get("nbf", 0)
        if claims.get("active") is not True or claims.get("iss", self._issuer) != self._issuer:
            return None
        if not isinstance(starts, int | float) or starts > time.time() + 30:
            return None
        principal = _principal(claims, self._issuer, 0)
        return None if principal is None else self._known.put(token, principal)
