"""DPoP: tokens that count only together with a proof of who holds their key. An extension in draft: it may change.

Spec:      the extension DPoP (a draft); RFC 9449, RFC 7638
Upholds:   spec_notes/basic/authorization.md, the section on extensions
Not here:  keys and signatures (pages/basic/authorization/jwt); when a request is sent again (client); the challenges
           (resource_server)

    the request for a token     DPoP: a proof                                        {"token_type": "DPoP", ...}
    a request                   Authorization: DPoP TOKEN, DPoP: a proof with the hash of the token
    400 or 401 use_dpop_nonce   the same once more, with the DPoP-Nonce of the answer in the proof

A proof is a statement about one request (its method, its URL, now), signed with a key that stands in it. The
authorization server writes the thumbprint of that key into the token, so that whoever steals the token cannot use it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from mcp_ref.errors import AuthorizationError
from mcp_ref.kit.http.http_call import origin_of
from mcp_ref.kit.threads.bounded_dict import Latest
from mcp_ref.pages.basic.authorization.metadata import s256

ALGORITHMS: Final = ("ES256", "EdDSA", "RS256")
"""Algorithms of proofs that count; ours are made with the first one."""

PROOF_WINDOW: Final = 300.0
"""Seconds by which the time in a proof may differ from ours, either way."""

MAX_PROOFS: Final = 100_000
"""Proofs that are remembered, so that none counts twice; beyond that the oldest is forgotten first."""

USE_NONCE: Final = "use_dpop_nonce"

_TYPE: Final = "dpop+jwt"
_NONCE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,1024}")


# -- the client's half ---------------------------------------------------------------------------------------------


class Prover:
    """Makes the proofs of one client. Threads: any.

    Args:
        pem: its private key, which must be kept for as long as the tokens that are bound to it.

    Raises: ImportError: PyJWT is not there.
    """

    def __init__(self, pem: str) -> None:
        from mcp_ref.pages.basic.authorization.jwt import SigningKey

        self._key = SigningKey(pem)
        self._nonces: dict[tuple[Any, ...], str] = {}  # by origin: what one server wants is not for another

    @property
    def binding(self) -> dict[str, str]:
        """Return what an authorization request says, so that the code too is bound to the key (RFC 9449, section
        10).
        """
        return {"dpop_jkt": self._key.thumbprint}

    def headers(self, method: str, url: str, token: str | None = None) -> dict[str, str]:
        """Return the proof for one request, with its token if there is one. Each one has a `jti` of its own."""
        claims = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": urlsplit(url)._replace(query="", fragment="").geturl(),
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = s256(token)
        if (nonce := self._nonces.get(origin_of(url))) is not None:
            claims["nonce"] = nonce
        return {"DPoP": self._key.sign(claims, {"typ": _TYPE, "jwk": self._key.public})}

    def learn_nonce(self, url: str, headers: Mapping[str, str]) -> bool:
        """Take the nonce that an answer brings, for the next proof; False if it brings none."""
        nonce = headers.get("DPoP-Nonce") or ""
        if not _NONCE.fullmatch(nonce):
            return False
        self._nonces[origin_of(url)] = nonce
        return True

    @staticmethod
    def check_support(metadata: Mapping[str, Any], who: str) -> None:
        """Raise AuthorizationError if the authorization server does not bind tokens to keys such as this one."""
        if ALGORITHMS[0] not in metadata.get("dpop_signing_alg_values_supported", ()):
            raise AuthorizationError(f"{who} does not bind tokens to a key by DPoP with {ALGORITHMS[0]}")


# -- the server's half ---------------------------------------------------------------------------------------------


class ProofChecker:
    """Says whose key a proof shows, once for each proof. Threads: any.

    Raises: ImportError: PyJWT is not there.
    """

    algorithms: Final = ALGORITHMS

    def __init__(self) -> None:
        from mcp_ref.pages.basic.authorization import jwt

        self._jwt = jwt
        self._lock = threading.Lock()  # guards _seen
        self._seen: Latest[bytes, None] = Latest(MAX_PROOFS)  # proofs by their hash

    def thumbprint(self, proof: str, method: str, url: str, token: str) -> str | None:
        """Return the thumbprint of the key that signed a proof; None if it is not a proof for this request, or came
        before.

        Args:
            url: of the endpoint, as clients know it. token: the access token that came with the proof.
        """
        found = self._jwt.self_signed(proof, _TYPE, self.algorithms)
        if found is None:
            return None
        thumbprint, claims = found
        made, named, now = claims.get("iat"), claims.get("jti"), time.time()
        if isinstance(made, bool) or not isinstance(made, int | float):
            return None
        if not now - PROOF_WINDOW <= made <= now + PROOF_WINDOW:
            return None
        if not isinstance(named, str) or not named or claims.get("htm") != method or claims.get("ath") != s256(token):
            return None
        if _without_query(claims.get("htu")) != _without_query(url):
            return None
        digest = hashlib.sha256(f"{thumbprint} {named}".encode(errors="surrogatepass")).digest()
        with self._lock:
            if digest in self._seen:
                return None
            self._seen[digest] = None
        return thumbprint


def _without_query(url: Any) -> tuple[Any, ...] | None:
    """Return what is compared of a URL: its origin and its path (RFC 9449, section 4.3)."""
    try:
        return (*origin_of(url), urlsplit(url).path or "/") if isinstance(url, str) else None
    except ValueError:
        return None
