"""Extensions of authorization: ways to a token that take no browser.

Spec:      the extensions OAuth client credentials and enterprise-managed authorization, both final; workload identity
           federation, a draft, which may change; RFC 6749 (4.4), RFC 7523, RFC 8693
Upholds:   spec_notes/basic/authorization.md, the rows on extensions
Not here:  when a token is asked for, and that it is renewed (client); how a client proves who it is (registration)

    ClientCredentials      a program for itself: it is registered, and has a secret or a key
    EnterpriseManaged      a user who is signed in at the company's identity provider, which decides
    WorkloadIdentity       a program that its platform vouches for

Each has one way, and falls back to no other: what is refused is an AuthorizationError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from mcp_ref.basic.authorization.client import Grant, Job
from mcp_ref.basic.authorization.discovery import Discovered
from mcp_ref.basic.authorization.fetching import shown
from mcp_ref.basic.authorization.flow import Token, request_token
from mcp_ref.basic.authorization.registration import Registered, prove, refused
from mcp_ref.errors import AuthorizationError

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"

_EXCHANGE: Final = "the exchange of the ID token"


class ClientCredentials(Grant):
    """Authorization of a program for itself (`client_credentials`).

    Args:
        client: what was registered beforehand, with a secret or a key.
        scopes, issuer, allow_private: as of `OAuth`.

    Spec: io.modelcontextprotocol/oauth-client-credentials (final)
    """

    steps_up = True
    extension = "io.modelcontextprotocol/oauth-client-credentials"

    def __init__(
        self,
        client: Registered,
        *,
        scopes: Sequence[str] | None = None,
        issuer: str | None = None,
        allow_private: bool = False,
    ) -> None:
        # Credentials belong to the authorization server that gave them.
        super().__init__(client.client_id, scopes=scopes, issuer=issuer or client.issuer, allow_private=allow_private)
        self._client = client

    def obtain(self, job: Job) -> Token:
        """See `Grant`."""
        self.issuer = job.found.issuer
        form = {"grant_type": "client_credentials"} | _scope(job)
        return request_token(job.fetcher, job.found, self._client, form, job.scopes)


class EnterpriseManaged(Grant):
    """Authorization of a user by the company's identity provider (ID-JAG).

    Args:
        client: what was registered beforehand with the server's authorization server.
        idp: who the client is for the identity provider; its `issuer` may be left out.
        token_endpoint: of the identity provider.
        id_token: what it has signed for the user, or a function that gives it.
        scopes, issuer, allow_private: as of `OAuth`.

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
        scopes: Sequence[str] | None = None,
        issuer: str | None = None,
        allow_private: bool = False,
    ) -> None:
        super().__init__(client.client_id, scopes=scopes, issuer=issuer or client.issuer, allow_private=allow_private)
        self._client, self._idp, self._endpoint, self._id_token = client, idp, token_endpoint, id_token

    def obtain(self, job: Job) -> Token:
        """See `Grant`."""
        found = job.found
        self.issuer = found.issuer
        # 1. The identity provider turns the ID token into one that says: this client, for this user, at that server.
        subject = self._id_token() if callable(self._id_token) else self._id_token
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "subject_token": subject,
            "subject_token_type": ID_TOKEN,
            # The authorization server that will take it, and the server that it is for.
            "audience": found.issuer,
            "resource": found.resource or job.keeper.url,
        } | _scope(job)
        provider: Any = {"issuer": self._idp.issuer or self._endpoint}
        if self._idp.secret or self._idp.key:
            provider["token_endpoint_auth_methods_supported"] = ["private_key_jwt", "client_secret_basic"]
        headers = prove(self._idp, Discovered(provider["issuer"], provider, None, None, found.rules), form)
        # The identity provider is the company's, named by whoever wrote this program, not by a server.
        reply, answer = job.fetcher.post(_EXCHANGE, self._endpoint, self._endpoint, form, headers=headers)
        if reply.status != 200:
            raise refused(_EXCHANGE, self._endpoint, reply.status, answer, (subject, self._idp.secret or ""))
        grant = answer.get("access_token")
        if answer.get("issued_token_type") != ID_JAG or not isinstance(grant, str):
            raise AuthorizationError(f"{_EXCHANGE}: {shown(self._endpoint)} gave something else than an ID-JAG")
        # 2. The authorization server takes that in place of the user's consent.
        taken = {"grant_type": JWT_BEARER, "assertion": grant} | _scope(job)
        return request_token(job.fetcher, found, self._client, taken, job.scopes)


class WorkloadIdentity(Grant):
    """Authorization of a program by its platform. An extension in draft: it may change.

    Args:
        token: what the platform has signed for this program, or a function that gives the current one.
        scopes, issuer, allow_private: as of `OAuth`.

    Spec: io.modelcontextprotocol/auth/wif (draft)
    """

    def __init__(
        self,
        token: str | Callable[[], str],
        *,
        scopes: Sequence[str] | None = None,
        issuer: str | None = None,
        allow_private: bool = False,
    ) -> None:
        super().__init__("workload", scopes=scopes, issuer=issuer, allow_private=allow_private)
        self._token = token

    def obtain(self, job: Job) -> Token:
        """See `Grant`."""
        self.issuer = job.found.issuer
        assertion = self._token() if callable(self._token) else self._token
        form = {"grant_type": JWT_BEARER, "assertion": assertion} | _scope(job)
        return request_token(job.fetcher, job.found, None, form, job.scopes)


def _scope(job: Job) -> dict[str, str]:
    return {"scope": " ".join(job.scopes)} if job.scopes else {}
