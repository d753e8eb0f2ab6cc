"""Signed statements (JWT), by PyJWT: the one module that imports it, which comes with the extra `auth`.

Contract: the algorithm follows from the key, never from what a stranger says; there is no `none` and no HMAC.

Spec: RFC 7515, RFC 7518, RFC 7519, RFC 7523, RFC 7638; RFC 8725
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

try:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
except ImportError:
    raise ImportError("signatures need PyJWT and cryptography: pip install 'mcp_ref[auth]'") from None

ASSERTION_LIFETIME: Final = 60.0  # seconds

_CURVES: Final = {256: "ES256", 384: "ES384", 521: "ES512"}


def algorithms_of(key: Any) -> list[str]:
    """Return the algorithms that a key can sign with, the usual one first."""
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size in _CURVES:
        return [_CURVES[key.curve.key_size]]
    if isinstance(key, rsa.RSAPrivateKey):
        return ["RS256", "PS256"]
    return ["EdDSA"] if isinstance(key, ed25519.Ed25519PrivateKey) else []


def client_assertion(pem: str | bytes, client_id: str, audience: str, allowed: Sequence[str] | None) -> str:
    """Return the signed statement with which a client proves who it is (`private_key_jwt`).

    Args:
        pem: its private key. audience: the issuer of the authorization server.
        allowed: the algorithms that the authorization server knows; None: it does not say.

    Raises: ValueError: this is not a private key, or it signs by none of these algorithms.
    """
    try:
        key = load_pem_private_key(pem.encode() if isinstance(pem, str) else pem, None)
    except (TypeError, ValueError):
        # Without the reason, which may quote the key.
        raise ValueError("this is not a private key in PEM, without a password") from None
    can = algorithms_of(key)
    algorithm = next((each for each in can if allowed is None or each in allowed), None)
    if algorithm is None:
        raise ValueError(f"the key signs by {' or '.join(can) or 'nothing'}, and that is not among {allowed!r}")
    now = time.time()
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": int(now),
        "exp": int(now + ASSERTION_LIFETIME),
        "jti": secrets.token_urlsafe(24),
    }
    return jwt.encode(claims, key, algorithm)  # type: ignore[arg-type]


# -- keys of our own ----------------------------------------------------------------------------------------------


def new_key() -> str:
    """Return a new private key for ES256, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


class SigningKey:
    """A private key that `new_key` has made, with what others may know of it.

    Attributes:
        public: the public key (JWK). thumbprint: names it (RFC 7638).
    """

    def __init__(self, pem: str) -> None:
        key = load_pem_private_key(pem.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("this is not a key for ES256")
        self._key = key
        self.public = dict(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True))
        self.thumbprint = _thumbprint(self.public)

    def sign(self, claims: dict[str, Any], header: dict[str, Any]) -> str:
        """Return a statement with this header, signed by ES256."""
        return jwt.encode(claims, self._key, "ES256", header)


def _thumbprint(public: Mapping[str, Any]) -> str:
    named = {"EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x"), "RSA": ("e", "kty", "n")}[public["kty"]]
    text = json.dumps({name: public[name] for name in named}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


# -- what somebody else has signed --------------------------------------------------------------------------------


MAX_TOKEN: Final = 8_192
"""Characters that a token may have before anything of it is read."""

_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_WRONG: Final = (
    jwt.PyJWTError,
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    RecursionError,
)  # by what is in a token
_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def header_of(token: str) -> dict[str, Any] | None:
    """Return the header of a token, of which nothing is to be believed yet; None if it is not a JWT."""
    if len(token) > MAX_TOKEN or not _COMPACT.fullmatch(token):
        return None
    try:
        return dict(jwt.get_unverified_header(token))
    except _WRONG:
        return None


def fits(key: Mapping[str, Any], algorithm: str) -> bool:
    """Return whether a public key (JWK) is one that signatures of the algorithm are checked with."""
    curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}.get(algorithm)
    # A key that is told to others with its private part is nobody's.
    private = not _PRIVATE.isdisjoint(key)
    kind = {"ES": "EC", "RS": "RSA", "PS": "RSA", "Ed": "OKP"}.get(algorithm[:2])
    usable = key.get("use", "sig") == "sig" and key.get("alg", algorithm) == algorithm and not private
    return usable and key.get("kty") == kind and key.get("crv") == curve


def claims_of(token: str, key: Mapping[str, Any], algorithm: str, issuer: str, leeway: float) -> dict[str, Any]:
    """Return what a token says.

    Raises: ValueError: it is not signed with the key, comes from another issuer, or does not count now. It names the
        check that failed, and does not quote the token.
    """
    options: Any = {"require": ["exp", "iss", "sub", "aud"], "verify_aud": False}
    try:
        public = jwt.PyJWK(dict(key), algorithm)
        return dict(jwt.decode(token, public, [algorithm], options, issuer=issuer, leeway=leeway))
    except _WRONG as problem:
        raise ValueError(type(problem).__name__) from None


def self_signed(token: str, kind: str, algorithms: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """Return what a statement says that has its own public key in its header (`jwk`), and the thumbprint of that key.

    None if its type or its algorithm is another one, or the signature is not by that key. Its time is not looked at.
    """
    header = header_of(token) or {}
    key, algorithm = header.get("jwk"), str(header.get("alg"))
    if header.get("typ") != kind or algorithm not in algorithms or "crit" in header:
        return None
    if not isinstance(key, dict) or not fits(key, algorithm):
        return None
    options: Any = {"verify_aud": False, "verify_iat": False}
    try:
        claims = jwt.decode(token, jwt.PyJWK(key, algorithm), [algorithm], options)
        return _thumbprint(key), dict(claims)
    except _WRONG:
        return None
