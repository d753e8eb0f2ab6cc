"""Tokens that are bound to a key (DPoP): which proofs a server takes, and what a client sends where (RFC 9449)."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_ref import AuthorizationError, HttpStatusError, MemoryStore, OAuth, Protection
from mcp_ref.pages.basic.authorization.metadata import read_challenges
from tests.pages.basic.authorization.guarded import METADATA, RESOURCE, Guarded, Tokens, guarded, principal
from tests.pages.basic.authorization.world import World, answer, told
from tests.pages.basic.transports.streamable_http import modern
from tests.pages.basic.transports.streamable_http.modern import called

jwt = pytest.importorskip("jwt", reason="needs the extra auth")

from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

from mcp_ref.pages.basic.authorization import dpop  # noqa: E402
from mcp_ref.pages.basic.authorization.jwt import new_key, self_signed  # noqa: E402

KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any = KEY) -> dict[str, Any]:
    return dict(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True))


def hashed(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def thumbprint(key: Any = KEY) -> str:
    public = jwk(key)
    return hashed(f'{{"crv":"P-256","kty":"EC","x":"{public["x"]}","y":"{public["y"]}"}}')


def proof(*, key: Any = KEY, algorithm: str = "ES256", header: dict[str, Any] | None = None, **changed: Any) -> str:
    """A proof for a POST with the token "ada"; a claim that is None is left out."""
    claims = {
        "jti": hashed(str(time.perf_counter())), "htm": "POST", "htu": RESOURCE, "iat": time.time(),
        "ath": hashed("ada"), **changed,
    }  # fmt: skip
    claims = {name: value for name, value in claims.items() if value is not None}
    return str(jwt.encode(claims, key, algorithm, {"typ": "dpop+jwt", "jwk": jwk(), **(header or {})}))


# -- the server's half -------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Guarded]:
    bound = principal("ada", claims={"cnf": {"jkt": thumbprint()}})
    other = principal("bob", claims={"cnf": {"x5t#S256": "x"}})
    with guarded(Tokens(ada=bound, bob=other, free=principal()), dpop="optional") as server:
        yield server


def ask(server: Guarded, sent: str | None, token: str = "ada", scheme: str = "DPoP") -> Any:
    fields = {} if sent is None else {"dpop": sent}
    return server.ask(called("read"), authorization=f"{scheme} {token}", **fields)


def refusal(answer: Any) -> tuple[int, str | None]:
    """The status, and the error of the challenge for proofs."""
    first = read_challenges(answer.headers["www-authenticate"])[0]
    assert first.scheme == "dpop" and first.parameters["algs"].split() == list(dpop.ALGORITHMS)
    assert first.parameters["resource_metadata"] == METADATA
    return answer.status, first.parameters.get("error")


def test_a_proof_lets_a_bound_token_in(server: Guarded) -> None:
    assert ask(server, proof()).status == 200
    assert ask(server, proof(), scheme="dpop").json["result"]["content"][0]["text"] == "ada"
    assert ask(server, None, "free", "Bearer").status == 200, "others go on as before"


def test_a_bound_token_is_not_a_bearer_token_nor_a_bearer_token_a_bound_one(server: Guarded) -> None:
    for token in ("ada", "bob"):
        for sent in (proof(), None):
            assert refusal(ask(server, sent, token, "Bearer")) == (401, "invalid_token")
    assert refusal(ask(server, proof(ath=hashed("free")), "free")) == (401, "invalid_token")


WRONG: list[dict[str, Any]] = [
    {"htm": "GET"}, {"htm": "post"}, {"htm": None},
    {"htu": "https://other.example/mcp"}, {"htu": "https://notes.example:8443/mcp"}, {"htu": RESOURCE + "/more"},
    {"htu": "http://notes.example/mcp"}, {"htu": None}, {"htu": 7}, {"htu": "https://["},
    {"ath": hashed("other")}, {"ath": None},
    {"iat": None}, {"iat": "now"}, {"iat": True}, {"iat": 10**400},
    {"jti": None}, {"jti": ""}, {"jti": 7}, {"jti": "\ud800", "htm": "GET"},
    {"header": {"typ": "JWT"}}, {"header": {"typ": None}}, {"header": {"crit": ["b64"]}},
    {"header": {"jwk": None}}, {"header": {"jwk": {}}}, {"header": {"jwk": jwk(OTHER)}}, {"header": {"jwk": "x"}},
    {"header": {"jwk": {**jwk(), "d": "AA"}}}, {"header": {"jwk": {"kty": "oct", "k": "AA"}}},
    {"key": OTHER}, {"key": OTHER, "header": {"jwk": jwk(OTHER)}},
    {"key": b"k" * 32, "algorithm": "HS256"}, {"key": None, "algorithm": "none"},
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_wrong_proof_and_what_is_none_let_nobody_in(server: Guarded) -> None:
    wrong = {str(changed): proof(**changed) for changed in WRONG}
    wrong |= {text: text for text in ("", "x", "a.b.c", "\u00e9", proof() + "A", proof()[:-8], "x" * 9_000)}
    for name, sent in wrong.items():
        assert refusal(ask(server, sent)) == (401, "invalid_dpop_proof"), name
    # Nor do two that are right.
    whole = modern.post(called("read"), authorization="DPoP ada", dpop=proof())
    whole = whole.replace(b"\r\ndpop: ", f"\r\nDPoP: {proof()}\r\ndpop: ".encode(), 1)
    assert refusal(server.wire.ask(whole)) == (401, "invalid_dpop_proof")


def test_a_proof_counts_for_five_minutes(server: Guarded) -> None:
    for apart in (-301, 301, float("inf"), float("nan")):
        assert refusal(ask(server, proof(iat=time.time() + apart))) == (401, "invalid_dpop_proof")
    for apart in (-290, 290):
        assert ask(server, proof(iat=time.time() + apart)).status == 200


def test_a_proof_counts_once(server: Guarded) -> None:
    sent = proof()
    assert ask(server, sent).status == 200
    assert refusal(ask(server, sent)) == (401, "invalid_dpop_proof")
    for strange in ("same", "\ud800"):
        assert ask(server, proof(jti=strange)).status == 200
    assert refusal(ask(server, proof(jti="same", htu=f"{RESOURCE}?a=b"))) == (401, "invalid_dpop_proof")


def test_the_url_of_a_proof_is_that_of_the_resource_without_query_and_fragment(server: Guarded) -> None:
    for url in (f"{RESOURCE}?a=b", f"{RESOURCE}#x", "HTTPS://Notes.Example/mcp", "https://notes.example:443/mcp"):
        assert ask(server, proof(htu=url)).status == 200


def test_the_metadata_and_the_challenge_say_what_is_needed() -> None:
    for kind, schemes in (("no", ["bearer"]), ("optional", ["dpop", "bearer"]), ("required", ["dpop"])):
        with guarded(Tokens(free=principal()), dpop=kind) as server:
            told = server.get("/.well-known/oauth-protected-resource/mcp").json
            assert told.get("dpop_bound_access_tokens_required") == {"no": None, "optional": False}.get(kind, True)
            refused = server.ask(called("read"))
            assert [each.scheme for each in read_challenges(refused.headers["www-authenticate"])] == schemes
            assert refused.status == 401
            assert ask(server, None, "free", "Bearer").status == (401 if kind == "required" else 200)
    with guarded(Tokens(free=principal())) as server:
        assert ask(server, proof(), "free").status == 401, "a scheme that is not known here"
    with pytest.raises(ValueError, match="dpop is"):
        Protection(Tokens(), authorization_servers=["https://a"], dpop="perhaps")  # type: ignore[arg-type]


def test_the_proofs_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpop, "MAX_PROOFS", 3)
    checker = dpop.ProofChecker()
    proofs = [proof(jti=str(number)) for number in range(5)]
    assert all(checker.thumbprint(each, "POST", RESOURCE, "ada") == thumbprint() for each in proofs)
    assert len(checker._seen) == 3
    assert checker.thumbprint(proofs[-1], "POST", RESOURCE, "ada") is None


# -- the client's half -------------------------------------------------------------------------------------------------


class BindingWorld(World):
    """Gives tokens that are bound to the key of a proof, and lets nobody in without one.

    `nonces` has the nonce that a proof must have, by path; `proofs` what each proof said, after its path.
    """

    def __init__(self) -> None:
        super().__init__()
        self.metadata["dpop_signing_alg_values_supported"] = ["ES256"]
        self.token["token_type"] = "DPoP"
        self.checker = dpop.ProofChecker()
        self.nonces: dict[str, str] = {}
        self.proofs: list[tuple[str, dict[str, Any]]] = []
        self.bound: set[str] = set()  # thumbprints of the keys that tokens were given for

    def usual(self, asked: Any) -> Any:
        if asked.path not in ("/token", "/mcp") or "dpop" not in asked.headers:
            return super().usual(asked)
        found = self_signed(asked.headers["dpop"], "dpop+jwt", ["ES256"])
        assert found is not None
        shown, claims = found
        self.proofs.append((asked.path, claims))
        if (nonce := self.nonces.get(asked.path)) is not None and claims.get("nonce") != nonce:
            headers = {"DPoP-Nonce": nonce, "WWW-Authenticate": 'DPoP error="use_dpop_nonce"'}
            return answer({"error": "use_dpop_nonce"}, 400 if asked.path == "/token" else 401, **headers)
        if asked.path == "/token":
            assert (claims["htm"], claims["htu"], "ath" in claims) == ("POST", f"{self.issuer}/token", False)
            self.bound.add(shown)
            return super().usual(asked)
        token = asked.headers["authorization"].removeprefix("DPoP ")
        checked = self.checker.thumbprint(asked.headers["dpop"], asked.method, self.url, token)
        if checked is None or checked not in self.bound:
            return answer({}, 401, **{"WWW-Authenticate": 'DPoP error="invalid_dpop_proof"'})
        asked.headers["authorization"] = f"Bearer {token}"
        return super().usual(asked)


@pytest.fixture
def world() -> Iterator[BindingWorld]:
    with BindingWorld() as world:
        yield world


def bound(world: World, **options: Any) -> OAuth:
    return world.login(dpop=True, **options)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_request_has_a_proof_of_its_own_also_that_for_a_refresh(world: BindingWorld, revision: str) -> None:
    world.token |= {"expires_in": 3600, "refresh_token": "refresh-1"}
    with world.client(bound(world), revision=revision) as client:
        client.list_tools()
        world.next_token()
        client.call_tool("t")
    assert world.visits[0]["dpop_jkt"] in world.bound and len(world.visits) == 1
    assert [form["grant_type"] for form in world.forms()] == ["authorization_code", "refresh_token"]
    paths = [path for path, _ in world.proofs]
    assert paths.count("/token") == 2 and paths.count("/mcp") >= 3
    assert len({claims["jti"] for _, claims in world.proofs}) == len(world.proofs)
    (unproved,) = [asked for asked in world.sent("/mcp") if "dpop" not in asked.headers]
    assert "authorization" not in unproved.headers


def test_a_nonce_is_learnt_from_the_refusal_and_kept_for_its_server(world: BindingWorld) -> None:
    world.nonces = {"/token": "nonce-of-token", "/mcp": "nonce-of-mcp"}
    with world.client(bound(world)) as client:
        client.call_tool("t")
        client.call_tool("t")
    seen = [(path, claims.get("nonce")) for path, claims in world.proofs]
    assert seen[:2] == [("/token", None), ("/token", "nonce-of-token")]
    # Both are at one origin here, so the first proof for the server has the other's nonce.
    assert seen[2:4] == [("/mcp", "nonce-of-token"), ("/mcp", "nonce-of-mcp")]
    assert {nonce for _, nonce in seen[4:]} == {"nonce-of-mcp"}
    assert len({claims["jti"] for _, claims in world.proofs}) == len(world.proofs)


def test_nonces_are_kept_by_origin() -> None:
    prover = dpop.Prover(new_key())
    assert prover.learn_nonce("https://a.example/token", {"DPoP-Nonce": "n"})
    for bad in ("", "a b", "a\r\nX: y", "x" * 2_000):
        assert not prover.learn_nonce("https://a.example/token", {"DPoP-Nonce": bad})
    assert not prover.learn_nonce("https://a.example/token", {})
    for url, expected in (("https://a.example:443/mcp", "n"), ("https://b.example/token", None)):
        made = jwt.decode(prover.headers("GET", url)["DPoP"], options={"verify_signature": False})
        assert made.get("nonce") == expected


@pytest.mark.parametrize("path", ["/token", "/mcp"])
def test_a_new_nonce_each_time_gets_one_more_attempt(world: BindingWorld, path: str) -> None:
    def refuse(asked: Any) -> Any:
        world.nonces[path] = f"nonce-{len(world.proofs)}"
        return world.usual(asked)

    world.at[path] = refuse
    error = AuthorizationError if path == "/token" else HttpStatusError
    with pytest.raises(error, match="use_dpop_nonce" if path == "/token" else "401"):
        world.client(bound(world)).connect()
    assert len(world.visits) == 1
    assert [each for each, _ in world.proofs].count(path) == 2


@pytest.mark.parametrize("sent", ["Bearer", None])
def test_a_token_that_is_not_bound_is_refused(world: BindingWorld, sent: str | None) -> None:
    world.token["token_type"] = sent
    assert "not DPoP" in str(told(world, bound(world)))


@pytest.mark.parametrize("known", [None, ["RS256"]])
def test_an_authorization_server_that_does_not_bind_tokens_is_refused(world: BindingWorld, known: Any) -> None:
    world.metadata["dpop_signing_alg_values_supported"] = known
    with pytest.raises(AuthorizationError, match="does not bind tokens|dpop_signing"):
        world.client(bound(world)).connect()
    assert world.visits == []


def test_the_key_is_kept_beside_the_tokens(world: BindingWorld) -> None:
    store = MemoryStore()
    for _ in range(2):
        with world.client(bound(world, store=store)) as client:
            client.call_tool("t")
    assert len(world.visits) == 1 and len(world.bound) == 1
    # The same store without proofs, and without the key: a token that is bound to it is not used.
    world.token["token_type"] = "Bearer"
    with world.client(world.login(store=store)) as client:
        client.call_tool("t")
    assert len(world.visits) == 2


def test_nothing_of_it_is_loaded_without_it() -> None:
    code = """
import sys
from mcp_ref import OAuth, Protection
OAuth("a"), Protection(str, authorization_servers=["https://a"])
assert not {"jwt", "cryptography", "mcp_ref.pages.basic.authorization.jwt"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
