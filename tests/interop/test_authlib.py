"""Grants that are signed statements, at an authorization server made with Authlib: ID-JAG and workload tokens."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import AuthorizationError, Client, EnterpriseManaged, Protection, Registered, WorkloadIdentity
from tests.interop.programs import Served, free_port
from tests.interop.test_oidc_provider import diary, said

pytest.importorskip("authlib", reason="needs Authlib (it is in the extra `test`)")
pytest.importorskip("flask", reason="needs Flask (it is in the extra `test`)")

from joserfc import jwt
from joserfc.jwk import ECKey

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).parent / "peers" / "authlib_as.py"
PLATFORM = ECKey.generate_key("P-256")


@contextmanager
def guarded(kind: str) -> Iterator[tuple[str, str]]:
    """The URL of a server of ours, and the issuer that it trusts."""
    from mcp_ref import Introspection

    issuer = f"http://127.0.0.1:{free_port()}"
    verify = Introspection(f"{issuer}/introspect", "notes-server", "p:s", issuer=issuer)
    protection = Protection(verify, authorization_servers=[issuer], scopes=["notes:read"])
    public = json.dumps(PLATFORM.as_dict(private=False))
    with diary().serve_http(authorization=protection) as http:
        with Served([sys.executable, str(PROGRAM), kind, issuer.rpartition(":")[2], http.url, public]):
            yield http.url, issuer


def test_an_id_token_of_the_companys_identity_provider_lets_a_user_in() -> None:
    def auth(id_token: str) -> EnterpriseManaged:
        notes, idp = Registered("notes-client", "p:s"), Registered("at-idp")
        return EnterpriseManaged(notes, idp=idp, token_endpoint=f"{issuer}/idp", id_token=id_token)

    with guarded("id-jag") as (url, issuer):
        with Client(url, auth=auth("ada's ID token")) as client:
            assert said(client, "whoami") == "ada notes:read"
        with pytest.raises(AuthorizationError, match="invalid_grant"):
            Client(url, auth=auth("somebody else's")).connect()


def test_a_program_that_its_platform_vouches_for_is_let_in() -> None:
    def statement(**changed: Any) -> str:
        now = int(time.time())
        claims = {"iss": "https://platform.example", "sub": "robot", "aud": issuer, "iat": now, "exp": now + 60}
        return jwt.encode({"alg": "ES256"}, {**claims, **changed}, PLATFORM)

    with guarded("jwt-bearer") as (url, issuer):
        with Client(url, auth=WorkloadIdentity(statement)) as client:
            assert said(client, "whoami") == "robot notes:read"
        for changed in ({"exp": 1}, {"aud": "https://other.example"}):
            with pytest.raises(AuthorizationError, match="invalid_grant"):
                Client(url, auth=WorkloadIdentity(statement(**changed))).connect()
