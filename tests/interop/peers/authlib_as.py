"""An authorization server made with Authlib and Flask, for grants that are signed statements; and an identity provider.

Usage: python authlib_as.py (id-jag | jwt-bearer) PORT RESOURCE PUBLIC_JWK

It prints its issuer once it listens. The access tokens are opaque, and `/introspect` tells about them.

    id-jag        /idp exchanges the ID token "ada's ID token" for an ID-JAG, and /token takes that from the client
                  "notes-client" with the secret "p:s"
    jwt-bearer    /token takes statements of the platform "https://platform.example", signed with the key PUBLIC_JWK
"""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.drafts.id_jag import IDJAGGrant
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc7523 import JWTBearerGrant
from flask import Flask, jsonify, request
from joserfc.jwk import ECKey
from werkzeug.serving import make_server

kind, port, resource, public = sys.argv[1:]
issuer = f"http://127.0.0.1:{port}"
idp_key = ECKey.generate_key("P-256")
app = Flask(__name__)
tokens: dict[str, dict[str, Any]] = {}
used: set[str] = set()


class KnownClient(ClientMixin):  # type: ignore[misc]
    """The one client: it may use this one grant."""

    client_id = "notes-client"

    def get_client_id(self) -> str:
        return self.client_id

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == "p:s"

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == IDJAGGrant.GRANT_TYPE

    def get_allowed_scope(self, scope: str) -> str:
        return scope


class IdJag(IDJAGGrant):  # type: ignore[misc]
    """Takes what the identity provider below has signed."""

    def get_audiences(self) -> list[str]:
        return [issuer]

    def resolve_issuer_key(self, issuer: str, headers: Any) -> Any:
        return idp_key

    def authenticate_user(self, subject: str) -> str:
        return subject

    def check_jti(self, claims: Any, jti: str) -> bool:
        fresh = jti not in used
        used.add(jti)
        return fresh

    def check_id_jag_permission(self, client: Any, user: str, scopes: Any) -> bool:
        return bool(self.request.id_jag_claims["resource"] == resource)


class JwtBearer(JWTBearerGrant):  # type: ignore[misc]
    """Takes what the platform has signed."""

    def get_audiences(self) -> list[str]:
        return [issuer]

    def resolve_issuer_client(self, issuer: str) -> Any:
        return KnownClient() if issuer == "https://platform.example" else None

    def resolve_client_public_key(self, client: Any) -> Any:
        return ECKey.import_key(json.loads(public))

    def authenticate_user(self, subject: str) -> str:
        return subject

    def has_granted_permission(self, client: Any, user: str) -> bool:
        return True


def save_token(token: dict[str, Any], asked: Any) -> None:
    about = {"sub": asked.user, "client_id": "notes-client", "aud": asked.form.get("resource"), "iss": issuer}
    tokens[token["access_token"]] = {**about, "scope": token["scope"], "exp": int(time.time()) + 600, "active": True}


server = AuthorizationServer(app, query_client=lambda name: KnownClient() if name == "notes-client" else None,
                             save_token=save_token)  # fmt: skip
server.register_grant(IdJag if kind == "id-jag" else JwtBearer)


@app.get("/.well-known/oauth-authorization-server")
def metadata() -> Any:
    methods = ["client_secret_basic"] if kind == "id-jag" else ["none"]
    return jsonify(issuer=issuer, token_endpoint=f"{issuer}/token", grant_types_supported=[IDJAGGrant.GRANT_TYPE],
                   token_endpoint_auth_methods_supported=methods, response_types_supported=[])  # fmt: skip


@app.post("/token")
def token() -> Any:
    return server.create_token_response()


@app.post("/introspect")
def introspect() -> Any:
    assert request.headers["Authorization"] == "Basic " + base64.b64encode(b"notes-server:p%3As").decode()
    return jsonify(tokens.get(request.form["token"], {"active": False}))


@app.post("/idp")
def exchange() -> Any:
    form = request.form
    if form["subject_token"] != "ada's ID token" or form["client_id"] != "at-idp":
        return jsonify(error="invalid_grant"), 400
    assertion = IDJAGGrant.sign(
        idp_key, "https://idp.example", form["audience"], "ada", "notes-client", issued_at=int(time.time()),
        expires_at=int(time.time()) + 60, claims={"resource": form["resource"], "scope": form["scope"]}, alg="ES256",
    )  # fmt: skip
    return jsonify(
        access_token=assertion, issued_token_type="urn:ietf:params:oauth:token-type:id-jag", token_type="N_A"
    )


listening = make_server("127.0.0.1", int(port), app, threaded=True)
print(issuer, flush=True)
listening.serve_forever()
