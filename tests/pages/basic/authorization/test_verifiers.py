"""Whose a token is: signatures, keys, and what an authorization server says of a token (RFC 9068, 8725, 7662)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from mcp_ref import AuthorizationError
from mcp_ref.pages.basic.authorization import verifiers
from mcp_ref.pages.basic.authorization.verifiers import Introspection, JwtVerifier
from tests.pages.basic.authorization.guarded import RESOURCE, guarded
from tests.pages.basic.authorization.issuer import Issuer, encoded
from tests.pages.basic.transports.streamable_http.modern import called
from tests.support.wire import at_once

jwt = pytest.importorskip("jwt", reason="needs the extra auth")
pytest.importorskip("cryptography", reason="needs the extra auth")

from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: E402

EC, EC384 = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1())
RSA, ED = rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()
PEM = EC.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def jwk(key: Any, kid: str | None = "k", **more: Any) -> dict[str, Any]:
    """The public key as an authorization server publishes it."""
    algorithms = jwt.algorithms
    kinds = {ec.EllipticCurvePrivateKey: algorithms.ECAlgorithm, rsa.RSAPrivateKey: algorithms.RSAAlgorithm}
    algorithm = next((each for kind, each in kinds.items() if isinstance(key, kind)), algorithms.OKPAlgorithm)
    found = dict(algorithm.to_jwk(key.public_key(), as_dict=True))
    return {**found, **({} if kid is None else {"kid": kid}), **more}


def signed(claims: Any, key: Any = EC, algorithm: str = "ES256", **header: Any) -> str:
    whole = {"typ": "at+jwt", "kid": "k", **header}
    return str(jwt.encode(claims, key, algorithm, {name: value for name, value in whole.items() if value is not None}))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as found:
        found.publish("/keys", {"keys": [jwk(EC)]})
        yield found


def test_a_token_of_the_issuer_says_whose_it_is_and_is_verified_once(issuer: Issuer, monkeypatch: Any) -> None:
    claims, verify = issuer.claims(exp=int(time.time()) + 60), JwtVerifier(issuer.url)
    principal = verify(signed(claims))
    assert principal is not None
    assert (principal.subject, principal.issuer, principal.client_id) == ("ada", issuer.url, "script")
    assert (principal.scopes, principal.audience) == ({"a", "b"}, {RESOURCE})
    assert principal.expires == claims["exp"] + 30
    assert issuer.paths() == ["/.well-known/oauth-authorization-server", "/keys"]
    token = signed(claims)
    known = verify(token)
    monkeypatch.setattr(verify, "_verify", lambda token: pytest.fail("it is known"))
    assert verify(token) is known


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (ED, "EdDSA"), (EC, "ES256")], ids=["RSA", "Ed", "EC"])
def test_the_usual_algorithms(issuer: Issuer, key: Any, algorithm: str) -> None:
    issuer.publish("/keys", {"keys": [jwk(EC384, "x"), jwk(key, "k"), jwk(key, "enc", use="enc")]})
    assert JwtVerifier(issuer.url)(signed(issuer.claims(), key, algorithm)) is not None
    by_type = JwtVerifier(issuer.url, types=["JWT"])
    assert by_type(signed(issuer.claims(), key, algorithm, kid=None, typ="JWT")) is not None


WRONG_CLAIMS = [
    {"exp": -40}, {"exp": None}, {"exp": "soon"}, {"nbf": 40}, {"iat": 40}, {"iss": "https://other.example"},
    {"iss": None}, {"sub": None}, {"sub": 7}, {"aud": None}, {"aud": 7}, {"aud": [7]}, {"scope": 7}, {"client_id": 7},
    {"exp": float("inf")}, {"exp": float("nan")}, {"sub": ""},
]  # fmt: skip


WITHIN_THE_LEEWAY = [{"exp": -20}, {"nbf": 20}, {"iat": 20}, {"client_id": None}]


def test_claims_count_within_the_leeway_and_wrong_ones_do_not(issuer: Issuer) -> None:
    verify = JwtVerifier(issuer.url)
    for changed in WRONG_CLAIMS:
        assert verify(signed(issuer.claims(**_from_now(changed)))) is None, changed
    assert verify(signed(issuer.claims(iss=issuer.url + "/"))) is None, "with one slash more it is another issuer"
    for changed in WITHIN_THE_LEEWAY:
        assert verify(signed(issuer.claims(**_from_now(changed)))) is not None, changed


def _from_now(claims: dict[str, Any]) -> dict[str, Any]:
    now = int(time.time())
    return {k: now + v if k in ("exp", "nbf", "iat") and type(v) is int else v for k, v in claims.items()}


def forged(issuer: Issuer) -> dict[str, str]:
    """Tokens that no issuer gave out."""
    right = signed(issuer.claims())
    head, body, signature = right.split(".")

    def made(header: Any, mac: bytes | None = None) -> str:
        text = f"{encoded({'typ': 'at+jwt', 'kid': 'k', **header})}.{body}"
        return f"{text}.{encoded(mac if mac is not None else hmac.new(PEM, text.encode(), hashlib.sha256).digest())}"

    raw = base64.urlsafe_b64decode(signature + "==")
    der = EC.sign(f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))
    other = ec.generate_private_key(ec.SECP256R1())
    return {
        "none": made({"alg": "none"}, b""),
        "HS256 keyed with the public key": made({"alg": "HS256"}),
        "no alg": made({}),
        "an alg that is a list": made({"alg": ["ES256"]}),
        "a typ that is a list": made({"alg": "ES256", "typ": ["at+jwt"]}),
        "a header nested too deep": f"{encoded(b'{' + b'[' * 2_500)}.{body}.{signature}",
        "alg unlike the key's": made({"alg": "RS256"}, raw),
        "ES384": signed(issuer.claims(), EC384, "ES384"),
        "another key": signed(issuer.claims(), other),
        "the attacker's key in the header": signed(issuer.claims(), other, jwk=jwk(other), kid=None),
        "jku": signed(issuer.claims(), other, jku=f"{issuer.url}/evil", x5u=f"{issuer.url}/evil"),
        "crit": signed(issuer.claims(), crit=["exp"]),
        "empty signature": f"{head}.{body}.",
        "stripped": f"{head}.{body}",
        "DER": f"{head}.{body}.{encoded(der)}",
        "r = 0": f"{head}.{body}.{encoded(bytes(32) + raw[32:])}",
        "padding": right + "=",
        "junk": right[:10] + "!" + right[10:],
        "four parts": right + ".x",
        "another body": f"{head}.{encoded(issuer.claims(sub='root'))}.{signature}",
        "a list": f"{encoded([])}.{body}.{signature}",
        "a body that is a list": jwt.api_jws.encode(b"[]", EC, "ES256", {"typ": "at+jwt", "kid": "k"}),
        "an ID token": signed(issuer.claims(), typ="JWT"),
        "no type": signed(issuer.claims(), typ=None),
    }


def test_the_log_says_which_check_failed(issuer: Issuer, caplog: Any) -> None:
    caplog.set_level("INFO", "mcp_ref")
    other = ec.generate_private_key(ec.SECP256R1())
    for changed, header, reason in (
        ({"exp": -40}, {}, "ExpiredSignatureError"),
        ({"iss": "https://other.example"}, {}, "InvalidIssuerError"),
        ({"scope": 7}, {}, "one of sub, client_id, scope and aud is malformed"),
        ({}, {"typ": "JWT"}, "type 'jwt' or algorithm 'ES256' is not accepted"),
        ({}, {"kid": "other"}, "no key of the issuer"),
        ({}, {"key": other}, "InvalidSignatureError"),
    ):
        caplog.clear()
        token = signed(issuer.claims(**_from_now(changed)), **header)
        assert JwtVerifier(issuer.url)(token) is None
        (said,) = caplog.messages
        assert said.startswith("a token is not valid: ") and reason in said and "ada" not in said
        assert not any(part in said for part in token.split("."))


def test_forged_tokens_are_nobodys(issuer: Issuer) -> None:
    verify = JwtVerifier(issuer.url)
    assert verify(signed(issuer.claims())) is not None
    assert {name for name, token in forged(issuer).items() if verify(token) is not None} == set()
    assert "/evil" not in issuer.paths()


def test_an_unknown_key_is_looked_for_once_a_minute(issuer: Issuer, monkeypatch: Any) -> None:
    verify = JwtVerifier(issuer.url, jwks_uri=f"{issuer.url}/keys")
    assert [verify(signed(issuer.claims(), kid=f"k{n}")) for n in range(50)] == [None] * 50
    assert issuer.paths() == ["/keys"]
    issuer.publish("/keys", {"keys": [jwk(EC, "new")]})
    monkeypatch.setattr(verify, "_again", 0.0)
    assert verify(signed(issuer.claims(), kid="new")) is not None
    assert issuer.paths() == ["/keys", "/keys"]


def test_many_threads_fetch_the_keys_once(issuer: Issuer) -> None:
    verify = JwtVerifier(issuer.url)
    found = at_once(*(partial(verify, signed(issuer.claims(jti=str(n)))) for n in range(16)))
    assert (None in found, issuer.paths().count("/keys")) == (False, 1)


def test_what_is_remembered_is_bounded(issuer: Issuer, monkeypatch: Any) -> None:
    monkeypatch.setattr(verifiers, "MAX_KNOWN", 3)
    verify = JwtVerifier(issuer.url)
    for number in range(100):
        assert verify(f"garbage.{number}.x") is None
    assert (issuer.paths(), len(verify._known)) == ([], 0), "garbage is not asked about, and not remembered"
    for number in range(5):
        assert verify(signed(issuer.claims(jti=str(number)))) is not None
    assert len(verify._known) == 3


def test_without_the_authorization_server_known_tokens_go_on_and_others_get_503(issuer: Issuer) -> None:
    verify = JwtVerifier(issuer.url)
    known = signed(issuer.claims())
    with guarded(verify, authorization_servers=[issuer.url]) as server:
        assert server.ask(called("read"), known).status == 200
        issuer.close()
        verify._again = verify._fetched = float("-inf")
        assert server.ask(called("read"), known).status == 200
        # Its old keys are better than none.
        assert server.ask(called("read"), signed(issuer.claims(jti="2"))).status == 200
    with guarded(JwtVerifier(issuer.url), authorization_servers=[issuer.url]) as server:
        for _ in range(2):
            answer = server.ask(called("read"), known)
            assert (answer.status, "retry-after" in answer.headers) == (503, True)


def test_metadata_that_cannot_be_used(issuer: Issuer) -> None:
    for metadata in (
        {"issuer": "https://other.example", "jwks_uri": f"{issuer.url}/keys"}, {"issuer": issuer.url},
        {"issuer": issuer.url, "jwks_uri": "http://10.0.0.1/keys"},
        {"issuer": issuer.url, "jwks_uri": "https://169.254.169.254/keys"},
        {"issuer": issuer.url, "jwks_uri": 7}, [], b"<html>", b"[" * 100_000,
    ):  # fmt: skip
        issuer.publish("/.well-known/oauth-authorization-server", metadata)
        with pytest.raises(AuthorizationError):
            JwtVerifier(issuer.url)(signed(issuer.claims()))
    assert "/keys" not in issuer.paths()


def test_keys_are_not_fetched_by_a_redirect_and_of_two_that_fit_none_is_chosen(issuer: Issuer) -> None:
    verify = JwtVerifier(issuer.url, jwks_uri=f"{issuer.url}/keys")
    issuer.publish("/keys2", {"keys": [jwk(EC)]})
    issuer.status = 302
    with pytest.raises(AuthorizationError):
        verify(signed(issuer.claims()))
    assert "/keys2" not in issuer.paths()
    issuer.status = 200
    issuer.publish("/keys", {"keys": [jwk(EC, None), jwk(ec.generate_private_key(ec.SECP256R1()), None)]})
    assert JwtVerifier(issuer.url)(signed(issuer.claims(), kid=None)) is None


def test_mistakes_of_configuration() -> None:
    for wrong in ({"issuer": "http://auth.example"}, {"issuer": "https://a", "jwks_uri": "http://a"},
                  {"issuer": "https://a", "algorithms": ["HS256"]}):  # fmt: skip
        with pytest.raises(ValueError):
            JwtVerifier(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        Introspection("http://auth.example/introspect", "a", "b", issuer="https://a")


# -- introspection ------------------------------------------------------------------------------------------------


def introspection(issuer: Issuer, secret: str = "p:s") -> Introspection:
    return Introspection(f"{issuer.url}/introspect", "server", secret, issuer=issuer.url)


def test_an_active_token_is_asked_about_once_in_ten_seconds(issuer: Issuer, monkeypatch: Any) -> None:
    issuer.active["opaque"] = {"active": True, "username": "Ada", **issuer.claims(exp=None)}
    verify = introspection(issuer)
    for _ in range(3):
        principal = verify("opaque")
        assert principal is not None and (principal.subject, principal.scopes) == ("ada", {"a", "b"})
    assert [asked.form["token"] for asked in issuer.asked] == ["opaque"]
    issuer.active.clear()
    later = time.time() + 10.1
    monkeypatch.setattr(time, "time", lambda: later)
    assert verify("opaque") is None


def test_what_is_not_active_here_is_nobodys(issuer: Issuer) -> None:
    for changed in (
        {"active": False}, {"active": "true"}, {"active": 1}, {"iss": "https://other.example"}, {"nbf": 4e9},
        {"nbf": "x"}, {"aud": [1]}, {"sub": None, "client_id": None}, {"exp": True}, {"exp": "4000000000"},
    ):  # fmt: skip
        issuer.active["opaque"] = issuer.claims(**{"active": True, **changed})
        assert introspection(issuer)("opaque") is None, changed


def test_through_the_door(issuer: Issuer) -> None:
    issuer.active |= {
        "fine": issuer.claims(active=True),
        "nowhere": issuer.claims(active=True, aud=None),
        "elsewhere": issuer.claims(active=True, aud="https://other.example"),
        "bound": issuer.claims(active=True, cnf={"jkt": "x"}),
        "html": b"<html>",
        "list": b"[]",
    }
    expected = {"fine": 200, "nowhere": 401, "elsewhere": 401, "bound": 401, "unknown": 401, "html": 503, "list": 503}
    with guarded(introspection(issuer), authorization_servers=[issuer.url]) as server:
        assert {token: server.ask(called("read"), token).status for token in expected} == expected
    with guarded(introspection(issuer, "wrong"), authorization_servers=[issuer.url]) as server:
        assert server.ask(called("read"), "fine").status == 503


def test_no_secret_is_in_a_log(issuer: Issuer, caplog: Any) -> None:
    caplog.set_level(1)
    with guarded(introspection(issuer, "marked-secret"), authorization_servers=[issuer.url]) as server:
        assert server.ask(called("read"), "marked-token").status == 503
    assert "marked" not in caplog.text
    assert json.dumps(repr(introspection(issuer, "marked-secret"))).count("marked") == 0
