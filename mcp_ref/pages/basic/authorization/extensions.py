"""Extensions of authorization: ways to get a token without a browser.

Spec:      the extensions OAuth client credentials and enterprise-managed authorization (both final), and workload
           identity federation (a draft, which may change); RFC 6749 (4.4), RFC 7523, RFC 8693
Upholds:   spec_notes/extensions/oauth-client-credentials.md, spec_notes/extensions/enterprise-managed-authorization.md;
           spec_notes/basic/authorization.md, the section on extensions
Not here:  when a token is needed, and its renewal (client); how a client authenticates (registration); DPoP (dpop)

    ClientCredentials      a program acts for itself: it was registered, and has a secret or a key
    EnterpriseManaged      a user is signed in at the company's identity provider, which decides
    WorkloadIdentity       the platform that runs a program vouches for it

Each of them has one way to a token, and tries no other: a refusal is an AuthorizationError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Unpack

from mcp_ref.errors import AuthorizationError
from mcp_ref.pages.basic.authorization.client import Grant, GrantOptions, Job
from mcp_ref.pages.basic.authorization.discovery import Discovered
from mcp_ref.pages.basic.authorization.fetching import refuses, shown
from mcp_ref.pages.basic.authorization.flow import Token, request_token
from mcp_ref.pages.basic.authorization.registration import Registered, prove, refused

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"

_EXCHANGE: Final = "the exchange of the ID token"


class ClientCredentials(Grant):
    """Authorization of a program that acts for itself (`client_credentials`).

    Args:
        client: its identity, registered beforehand, with a secret or a key.
        scopes, issuer, allow_private: see `OAuth`; they are given by name.

    Spec: io.modelcontextprotocol/oauth-client-credentials (final)
    """

    steps_up = True
    extension = "io.modelcontextprotocol/oauth-client-credentials"

    def __init__(self, client: Registered, **options: Unpack[GrantOptions]) -> None:
        # Credentials belong to the authorization server that gave them.
        super().__init__(client.client_id, **options)
        self.issuer, self._client = self.issuer or client.issuer, client

    def obtain(self, job: Job) -> Token:
        """See `Grant`."""
        self.issuer = job.found.issuer
        form = {"grant_type": "client_credentials"} | _scope(job)
        return request_token(job.fetcher, job.found, self._client, form, job.scopes)


class EnterpriseManaged(Grant):
    """Authorization of a user by the company's identity provider (ID-JAG).

    Args:
        client: the identity of this client at the server's authorization server, registered beforehand.
        idp: the identity of this client at the identity provider. Its `issuer` may be left out.
        token_endpoint: the token endpoint of the identity provider.
        id_token: the ID token of the user, or a function that returns it.
        scopes, issuer, allow_private: see `OAuth`; they are given by name.

    Spec: io.modelcontextprotocol/enterprise-managed-authorization (final)
    """

    extension = "io.modelcontextprotocol/enterprise-managed-authorization"

    def __init__(
        self,
        client: Registered,
        *,
        idp: Registered,
        token_endpoint: str,
        id_token: str | Callable[[], str],
        **options: Unpack[GrantOptions],
    ) -> None:
        super().__init__(client.client_id, **options)
        self.issuer = self.issuer or client.issuer
        self._client, self._idp, self._endpoint, self._id_token = client, idp, token_endpoint, id_token

    def obtain(self, job: Job) -> Token:
        """See `Grant`."""
        found = job.found
        self.issuer = found.issuer
        # 1. The identity provider exchanges the ID token for a statement: this client may act for this user there.
        subject = self._id_token() if callable(self._id_token) else self._id_token
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "subject_token": subject,
            "subject_token_type": ID_TOKEN,
            # MUST: name in `audience` the issuer of the authorization server that will accept the statement, and in
            # `resource` the MCP server that it is for (extensions/enterprise-managed-authorization#4-token-exchange)
            "audience": found.issuer,
            "resource": found.resource or job.keeper.url,
        } | _scope(job)
        provider: Any = {"issuer": self._idp.issuer or self._endpoint}
        if self._idp.secret or self._idp.key:
            provider["token_endpoint_auth_methods_supported"] = ["private_key_jwt", "client_secret_basic"]
        headers = prove(self._idp, Discovered(provider["issuer"], provider, None, None, found.rules), form)
        # No server has named this address: whoever wrote this program did.
        # MUST: ask over https alone
        # (extensions/enterprise-managed-authorization#73-transport-security-and-endpoint-authentication)
        reply, answer = job.fetcher.post(_EXCHANGE, self._endpoint, self._endpoint, form, headers=headers)
        if refuses(reply, answer):
            raise refused(_EXCHANGE, self._endpoint, reply.status, answer, form, self._idp)
        grant = answer.get("access_token")
        if answer.get("issued_token_type") != ID_JAG or not isinstance(grant, str):
            raise AuthorizationError(f"{_EXCHANGE}: {shown(self._endpoint)} gave something other than an ID-JAG")
        # 2. The authorization server accepts the statement in place of the user's consent.
        taken = {"grant_type": JWT_BEARER, "assertion": grant} | _scope(job)
        return request_token(job.fetcher, found, self._client, taken, job.scopes)


class WorkloadIdentity(Grant):
    """Authorization of a program by the platform that runs it. A draft: it may change.

    Args:
        token: the JWT that the platform issued to this program, or a function that returns the current one.
        scopes, issuer, allow_private: see `OAuth`; they are given by name.

    Spec: io.modelcontextprotocol/auth/wif (draft)
    """

    def __init__(self, token: str | Callable[[], str], **options: Unpack[GrantOptions]) -> None:
        super().__init__("workload", **options)
        self._token = token

    def obtain(self, job: Job) -> Token:
        """See `Grant`."""
        self.issuer = job.found.issuer
        assertion = self._token() if callable(self._token) else self._token
        form = {"grant_type": JWT_BEARER, "assertion": assertion} | _scope(job)
        return request_token(job.fetcher, job.found, None, form, job.scopes)


def _scope(job: Job) -> dict[str, str]:
    return {"scope": " ".join(job.scopes)} if job.scopes else {}
