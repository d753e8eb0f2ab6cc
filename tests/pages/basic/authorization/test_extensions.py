"""Grants without a browser: what goes out, and what ends in an error without another attempt."""

from __future__ import annotations

import importlib
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mcp_ref import (
    AuthorizationError,
    ClientCredentials,
    EnterpriseManaged,
    HttpStatusError,
    Registered,
    WorkloadIdentity,
)
from mcp_ref.pages.basic.authorization.extensions import ID_JAG
from tests.pages.basic.authorization.world import Answer, Asked, World, answer, told

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic", "private_key_jwt"]
        yield world


def pem(key: Any) -> str:
    made: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.decode()


def enterprise(world: World, **more: Any) -> EnterpriseManaged:
    world.at["/idp"] = answer({"access_token": "MARK-jag", "issued_token_type": ID_JAG, "token_type": "N_A"})
    idp = Registered("at-idp")
    endpoint = f"{world.other}/idp"
    return EnterpriseManaged(Registered("mine", "s"), idp=idp, token_endpoint=endpoint, id_token="MARK-id", **more)


GRANTS: dict[str, Any] = {
    "enterprise": enterprise,
    "workload": lambda world: WorkloadIdentity(lambda: "MARK-jwt"),
    "credentials": lambda world: ClientCredentials(Registered("a", "MARK-s")),
}


def test_client_credentials_are_sent_as_the_server_lists(world: World) -> None:
    with world.client(ClientCredentials(Registered("a b", "s:c"))) as client:
        client.call_tool("t")
    (asked,) = world.sent("/token")
    assert asked.form["grant_type"] == "client_credentials" and asked.form["resource"] == world.url
    assert asked.headers["authorization"] == "Basic YSUyMGI6cyUzQWM="


METHODS, ALGORITHMS = (f"token_endpoint_auth_{what}_supported" for what in ("methods", "signing_alg_values"))


@pytest.mark.parametrize(
    ("given", "metadata", "problem"),
    [
        ({"secret": "s"}, {METHODS: ["tls_client_auth"]}, "tls_client_auth.*client_secret_basic or client_secret_post"),
        ({}, {}, "it has no secret and no key$"),
        ({"key": pem(rsa.generate_private_key(65537, 2048))}, {ALGORITHMS: ["ES256"]}, "RS256"),
        ({"key": pem(rsa.generate_private_key(65537, 2048))}, {ALGORITHMS: ["none", "HS256"]}, "RS256"),
        ({"key": "MARK"}, {}, "not a private key"),
    ],
    ids=["no method", "nothing", "another algorithm", "none", "no key"],
)
def test_client_credentials_are_a_key_or_a_secret_and_not_sent_where_no_method_fits(
    world: World, given: Any, metadata: Any, problem: str
) -> None:
    world.metadata |= metadata
    with pytest.raises(AuthorizationError, match=problem) as caught:
        world.client(ClientCredentials(Registered("a", **given))).connect()
    assert world.forms() == [] and "MARK" not in str(caught.value), "a text that is not a key is not quoted"


def test_a_key_signs_for_the_issuer(world: World) -> None:
    import jwt

    key = ec.generate_private_key(ec.SECP256R1())
    with world.client(ClientCredentials(Registered("a", key=pem(key)))):
        pass
    (form,) = world.forms()
    claims = jwt.decode(form["client_assertion"], key.public_key(), ["ES256"], audience=world.issuer)
    assert (claims["iss"], claims["sub"]) == ("a", "a") and claims["jti"] and "client_secret" not in form


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
def test_an_id_token_is_exchanged_for_the_servers_own_grant(world: World, revision: str) -> None:
    if revision == "2025-03-26":  # which knows no metadata of resources
        world.challenge = "Bearer"
    with world.client(enterprise(world, scopes=["read"]), revision=revision) as client:
        client.call_tool("t")
    (exchange,) = [asked.form for asked in world.sent("/idp")]
    assert exchange["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert exchange["requested_token_type"] == ID_JAG and exchange["subject_token"] == "MARK-id"
    assert exchange["audience"] == world.issuer and exchange["resource"] == world.url
    (taken,) = world.forms()
    assert taken["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer" and taken["assertion"] == "MARK-jag"
    assert (exchange["scope"], taken["scope"]) == ("read", "read") and world.visits == []


@pytest.mark.parametrize("endpoint", ["http://idp.example/token", "http://192.168.0.1/token"])
def test_an_identity_provider_is_asked_over_tls_alone(world: World, endpoint: str, monkeypatch: Any) -> None:
    looked_up: list[Any] = []
    auth = EnterpriseManaged(
        Registered("mine", "s"), idp=Registered("at-idp", "MARK"), token_endpoint=endpoint, id_token="MARK"
    )
    client, lookup = world.client(auth), socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **more: looked_up.append(asked) or lookup(*asked, **more))
    with pytest.raises(AuthorizationError, match="cannot be used"):
        client.connect()
    assert world.forms() == [] and not [asked for asked in looked_up if asked[0] != "127.0.0.1"]


@pytest.mark.parametrize("how", GRANTS)
def test_what_a_grant_is_made_of_is_in_no_log_trace_or_url(
    world: World, how: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    world.next_token("MARK-token")
    auth = GRANTS[how](world)
    with world.client(auth, trace=tmp_path / "trace") as client:
        client.list_tools()
        keeper = client.target.options["auth"]
        told = [caplog.text, repr(auth), repr(keeper._token), *(asked.url for asked in world.asked)]
    told.append((tmp_path / "trace").read_text("utf-8"))
    # The secret, in the credentials of HTTP's Basic, is "YTpNQVJLLXM".
    assert not [mark for mark in ("MARK", "YTpNQVJLLXM") if mark in "".join(told)]
    assert any("MARK" in str(asked.form) or "YTpNQVJLLXM" in str(asked.headers) for asked in world.asked)


@pytest.mark.parametrize("kind", [None, "urn:ietf:params:oauth:token-type:access_token"])
def test_another_token_of_the_identity_provider_goes_nowhere(world: World, kind: str | None) -> None:
    auth = enterprise(world)
    world.at["/idp"] = answer({"access_token": "MARK", "issued_token_type": kind})
    assert "something other than an ID-JAG" in str(told(world, auth))
    assert world.forms() == []


@pytest.mark.parametrize("how", GRANTS)
def test_a_refusal_is_an_error_and_nothing_else_is_tried(world: World, how: str) -> None:
    world.at["/token"] = lambda asked: answer({"error": "invalid_grant", "error_description": str(asked.form)}, 400)
    with pytest.raises(AuthorizationError, match="invalid_grant") as caught:
        world.client(GRANTS[how](world)).connect()
    assert "MARK" not in str(caught.value) and caught.value.error == "invalid_grant"
    assert len(world.forms()) == 1 and world.visits == []


@pytest.mark.parametrize("method", [None, "client_secret_basic"])
def test_a_client_with_a_key_and_a_secret_uses_what_it_says(world: World, method: str | None) -> None:
    known = Registered("a", "s", key=pem(ec.generate_private_key(ec.SECP256R1())), method=method)
    with world.client(ClientCredentials(known)):
        (asked,) = world.sent("/token")
    assert ("client_assertion" in asked.form) is (method is None)
    assert ("authorization" in asked.headers) is (method is not None)


@pytest.mark.parametrize("member", ["error", "error_description"])
def test_a_refusal_that_repeats_how_the_client_authenticated_is_not_shown(world: World, member: str) -> None:
    def refuse(asked: Asked) -> Answer:
        sent = asked.form.get("client_assertion") or asked.headers["authorization"].removeprefix("Basic ")
        return answer({member: f"bad: {sent}"}, 400)

    idp = Registered("at-idp", key=pem(ec.generate_private_key(ec.SECP256R1())))
    world.at["/token"] = world.at["/idp"] = refuse
    for auth in (
        ClientCredentials(Registered("a", "MARK-secret")),
        EnterpriseManaged(Registered("b", "s"), idp=idp, token_endpoint=f"{world.issuer}/idp", id_token="id"),
    ):
        with pytest.raises(AuthorizationError, match="refused with HTTP status 400$") as caught:
            world.client(auth).connect()
        assert caught.value.error is None


@pytest.mark.parametrize("how", GRANTS)
def test_credentials_are_of_the_first_issuer(world: World, how: str) -> None:
    with world.client(GRANTS[how](world)) as client:
        world.trust(world.other)
        world.valid = set()
        with pytest.raises(AuthorizationError, match="trusts"):
            client.call_tool("t")
    assert not world.sent("/token", world.other)


def test_what_a_workload_may_do_is_not_widened(world: World) -> None:
    world.needed = {"write": "write"}
    with world.client(WorkloadIdentity("jwt")) as client, pytest.raises(HttpStatusError, match="403"):
        client.call_tool("write")
    assert len(world.forms()) == 1 and "client_id" not in world.forms()[0]


def test_a_program_with_credentials_of_its_own_asks_for_more(world: World) -> None:
    world.needed, world.granted, world.valid = {"write": "write"}, {"token-2": "write"}, {"token-1", "token-2"}
    world.at["/token"] = lambda asked: answer(
        {"access_token": "token-2" if asked.form.get("scope") == "write" else "token-1", "token_type": "Bearer"}
    )
    with world.client(ClientCredentials(Registered("a", "s"))) as client:
        assert client.call_tool("write")["content"][0]["text"] == "token-2"
    assert [form.get("scope") for form in world.forms()] == [None, "write"]


def test_without_the_extra_a_key_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    monkeypatch.delitem(sys.modules, "mcp_ref.pages.basic.authorization.jwt", raising=False)
    with pytest.raises(ImportError, match=r"mcp_ref\[auth\]"):
        importlib.import_module("mcp_ref.pages.basic.authorization.jwt")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("how", "names"),
    [
        ("credentials", ["io.modelcontextprotocol/oauth-client-credentials"]),
        ("enterprise", ["io.modelcontextprotocol/enterprise-managed-authorization"]),
        # The name of this draft is not one that can be declared.
        ("workload", []),
    ],
)
def test_a_final_extension_is_declared_where_there_are_extensions(
    world: World, how: str, names: list[str], revision: str
) -> None:
    with world.client(GRANTS[how](world), revision=revision, extensions={"com.example/own": {}}) as client:
        client.list_tools()
    sent = [asked.json.get("params", {}) for asked in world.sent("/mcp") if asked.method == "POST"]
    for params in sent if revision == "2026-07-28" else sent[:1]:
        known = params.get("capabilities", params.get("_meta", {}).get(CAPABILITIES, {}))
        declared = list(known.get("extensions", {}))
        assert declared == ([*names, "com.example/own"] if revision == "2026-07-28" else [])
