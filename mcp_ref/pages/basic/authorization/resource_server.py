"""Authorization, the server's half: whose token lets a request in, and which scopes it must grant.

Spec:      basic/authorization (2025-03-26 ...): #access-token-usage, #error-handling, #authorization-server-location;
           #protected-resource-metadata-discovery-requirements, #runtime-insufficient-scope-errors (2025-11-25 ...);
           RFC 6750, RFC 9728
Upholds:   spec_notes/basic/authorization.md
Not here:  how challenges and metadata are written (metadata); how tokens are verified (verifiers) and proofs checked
           (dpop); who issues tokens (authorization_server)

    server.run("http", authorization=Protection(verify, authorization_servers=["https://auth.example.com"],
                                                scopes=["notes:read"], resource="https://notes.example.com/mcp"))

    a request                                            the answer
      its Host or Origin is somebody else's                403, before the token is looked at
      it has no token                                      401  Bearer resource_metadata="...", scope="..."
      its Authorization header is malformed                400  Bearer error="invalid_request"
      its token is unknown, expired, for another server    401  Bearer error="invalid_token"; it is not told which
      its token cannot be verified at the moment           503  Retry-After
      its token lacks scopes                               403  Bearer error="insufficient_scope", scope="all of them"

A handler gets a `Principal`, which does not contain the token: it cannot pass the token on.
"""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urljoin, urlsplit

from mcp_ref.errors import Refusal
from mcp_ref.kit.http.guarded_fetch import is_loopback, is_secure
from mcp_ref.kit.http.http_exchange import Endpoint, HttpRefusal, HttpReply, HttpRequest
from mcp_ref.kit.http.scopes import checked_scopes
from mcp_ref.kit.typed.uri_template import covers
from mcp_ref.pages.basic.authorization.metadata import (
    MAX_HEADER,
    PROTECTED_RESOURCE,
    Challenge,
    ProtectedResourceMetadata,
    resource_metadata_url,
)
from mcp_ref.pages.server.resources import ResourceNotFound, find_resource

if TYPE_CHECKING:
    from mcp_ref.pages.basic.authorization.dpop import ProofChecker
    from mcp_ref.server.server import Server

log = logging.getLogger(__name__)

RETRY_AFTER: Final = 5
"""Seconds after which a client may ask again if its token cannot be verified at the moment."""

_CREDENTIALS: Final = re.compile(r"(bearer|dpop)(?: +(.*))?", re.IGNORECASE)
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True)
class Principal:
    """The sender of a request, according to its token. It does not contain the token.

    Two principals are equal if issuer, subject and client are equal, and then `str()` is too. So a token that was
    refreshed, or that grants more, belongs to the same principal: its sessions, the state of its multi round-trip
    requests and its rates go on.

    Attributes:
        subject: the user, or the client if it acts for itself. It is unique within its issuer only.
        issuer: the authorization server.
        client_id: the program that the user allows to act.
        scopes: what the token grants, without the scopes that these imply.
        audience: the URLs of the servers that the token is for. A token for no server lets nobody in.
        expires: when the token ends, in seconds since the epoch. None: it does not end by itself.
        claims: everything that the authorization server says. It may be personal: do not log it.
    """

    subject: str
    issuer: str = ""
    client_id: str = ""
    scopes: frozenset[str] = field(default=frozenset(), compare=False)
    audience: frozenset[str] = field(default=frozenset(), compare=False)
    expires: float | None = field(default=None, compare=False)
    claims: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return json.dumps([self.issuer, self.subject, self.client_id])


Verify = Callable[[str], Principal | None]
"""Says whose an access token is. None: it is not valid. Any exception: that cannot be found out at the moment."""


class InsufficientScope(Refusal, HttpRefusal):
    """403: the token does not grant the scopes that the operation needs; `data` is `{"scopes": [...]}`."""

    def __init__(self, scopes: Sequence[str], challenge: str) -> None:
        headers = {"WWW-Authenticate": challenge}
        HttpRefusal.__init__(self, 403, "Insufficient scope", code=403, headers=headers)
        self.data = {"scopes": list(scopes)}


class Protection:
    """Guards a server on HTTP: `server.run("http", authorization=Protection(...))`.

    Args:
        verify: says whose a token is: see `Verify`, `JwtVerifier` and `Introspection`. It is called in the thread of
            each request, by several at once. Audience and expiry are checked here, whatever it does.
        authorization_servers: the issuers from which clients can get a token.
        scopes: the scopes that every request needs.
        resource: the URL that clients use, which tokens must be issued for. It may be left out if the server listens
            on this machine only.
        implies: for a broader scope, the scopes that it includes, such as `{"notes:write": ["notes:read"]}`.
        dpop: whether tokens that are bound to a key are accepted: "no", "optional", or "required". Such a token lets a
            request in only together with a proof (see `dpop`). A draft; it needs the extra `auth`.

    Raises: ValueError: no issuer is named, a URL is not https (http: on this machine only), or a scope implies itself.
    Threads: any.
    """

    def __init__(
        self,
        verify: Verify,
        *,
        authorization_servers: Sequence[str],
        scopes: Sequence[str] = (),
        resource: str | None = None,
        implies: Mapping[str, Sequence[str]] | None = None,
        dpop: Literal["no", "optional", "required"] = "no",
    ) -> None:
        if dpop not in ("no", "optional", "required"):
            raise ValueError(f"dpop is 'no', 'optional' or 'required', not {dpop!r}")
        # MUST: name at least one entry in `authorization_servers` (basic/authorization#authorization-server-location)
        if isinstance(authorization_servers, str) or not authorization_servers:
            raise ValueError("authorization_servers must be a list of at least one issuer")
        # MUST: serve every authorization server endpoint over https (basic/authorization#communication-security)
        for url in (*authorization_servers, *([] if resource is None else [resource])):
            if not is_secure(url):
                raise ValueError(f"{url!r} must be an https URL without a fragment; http is for this machine alone")
        self.verify, self.resource, self.dpop = verify, resource, dpop
        self.proofs: ProofChecker | None = None
        if dpop != "no":
            from mcp_ref.pages.basic.authorization.dpop import ProofChecker

            self.proofs = ProofChecker()
        self.authorization_servers, self.scopes = list(authorization_servers), checked_scopes(scopes)
        direct = {scope: checked_scopes(narrower) for scope, narrower in (implies or {}).items()}

        def included(scope: str, above: tuple[str, ...]) -> frozenset[str]:
            if scope in above:
                raise ValueError(f"the scope {scope!r} implies itself: {' > '.join((*above, scope))}")
            return frozenset({scope}).union(*(included(each, (*above, scope)) for each in direct.get(scope, ())))

        self._included = {scope: included(scope, ()) for scope in direct}

    @property
    def routes(self) -> dict[str, Endpoint]:
        """Further endpoints to be served, by path."""
        return {}

    def opened(self, base: str) -> None:
        """Take the origin of a server that listens, such as "http://127.0.0.1:8000"."""

    def hosts(self, host: str) -> set[str]:
        """Return the host names that clients use for a server that listens at `host`: the one in `resource`.

        Raises: ValueError: there is no `resource`, and the server can be reached from other machines.
        """
        if self.resource is None and not is_loopback(f"//[{host}]" if ":" in host.strip("[]") else f"//{host}"):
            raise ValueError(f"clients do not know this server as {host!r}: say what tokens are for, by resource=")
        named = urlsplit(self.resource or "").netloc
        return {named.lower().rpartition(":")[0] if re.search(r":[0-9]*$", named) else named.lower()} - {""}

    def door(self, server: Server, path: str, main: str) -> Door:
        """Return the protection of one endpoint of a server."""
        return Door(self, server, path, main)

    def grants(self, held: Collection[str], needed: Collection[str]) -> bool:
        """Return whether a token with the scopes `held` grants all that are `needed`."""
        # MUST: accept a broader scope in place of those it implies (basic/authorization#step-up-authorization-flow)
        return set(held).union(*(self._included.get(scope, ()) for scope in held)).issuperset(needed)


class Door:
    """A `Protection` at one endpoint: who may come in, and what they may do.

    Args:
        path: the path of the endpoint. main: the path of the endpoint that `Protection.resource` names.

    Threads: any, after `open`.
    """

    def __init__(self, protection: Protection, server: Server, path: str, main: str) -> None:
        self._protection, self._server, self._path, self._main = protection, server, path, main
        self.resource = self._metadata = ""
        if protection.resource is not None:
            self.open("")

    def open(self, base: str) -> None:
        """Take the origin at which the server listens. Tokens are for a URL there if `Protection` has no `resource`."""
        self.resource = self._protection.resource or base + self._main
        if self._path != self._main:
            self.resource = self.resource.removesuffix(self._main).rstrip("/") + self._path
        self._metadata = resource_metadata_url(self.resource)
        self._protection.opened(base)

    # -- who sends a request

    def authenticate(self, request: HttpRequest) -> Principal:
        """Return the principal of a request. Raises: HttpRefusal: 400, 401 or 503."""
        # 1. Read the token.
        token, is_bound = self._token_in(request)
        # 2. Whose token is it?
        try:
            principal = self._protection.verify(token)
        except Exception as problem:
            # The text of the exception is not logged: it may contain the token.
            frames = "".join(traceback.format_tb(problem.__traceback__))
            log.error("could not verify a token: %s\n%s", type(problem).__name__, frames)
            headers = {"Retry-After": str(RETRY_AFTER)}
            raise HttpRefusal(503, "The token cannot be verified now", code=503, headers=headers) from None
        # 3. Is it valid, and valid here?
        # MUST: validate the token before the request is processed (basic/authorization#token-handling)
        # MUST: accept only tokens whose audience is this server (basic/authorization#token-handling)
        # MUST: answer 401 to an invalid or expired token (basic/authorization#token-handling)
        why = ""
        if principal is None:
            why = "it is unknown, or its verifier refuses it"
        elif principal.expires is not None and principal.expires <= time.time():
            why = "it has expired"
        # SHOULD: accept upper-case scheme and host (basic/authorization#canonical-server-uri)
        elif canonical(self.resource) not in map(canonical, principal.audience):
            why = f"its audience is {ascii(sorted(principal.audience))[:200]}, and this server is {self.resource}"
        # A token that is bound to a key, and comes without a proof of that key, may be stolen.
        elif is_bound != ("cnf" in principal.claims) or (self._protection.dpop == "required" and not is_bound):
            why = "it must come with a proof if, and only if, it is bound to a key (DPoP)"
        if principal is None or why:
            # Here alone: whoever tries tokens must not learn how far one came.
            log.info("refused a token: %s", why)
            raise self._refusal(401, "The token is not valid here", "invalid_token")
        # 4. Does the sender hold the key that the token is bound to?
        if (proofs := self._protection.proofs) is not None and is_bound:
            proof = "" if "dpop" in request.repeated else request.headers.get("dpop", "")
            # HTTP+SSE has a path of its own for messages.
            url = self.resource if request.path == self._path else urljoin(self.resource, request.path)
            shown, bound = proofs.thumbprint(proof, request.method, url, token), principal.claims["cnf"]
            if shown is None or not isinstance(bound, dict) or bound.get("jkt") != shown:
                raise self._refusal(401, "The proof is not valid for this request", "invalid_dpop_proof")
        return principal

    def _token_in(self, request: HttpRequest) -> tuple[str, bool]:
        """Return the token in the header of a request, and whether it came as one that is bound to a key.

        A token in the query or in the body is ignored. Raises: HttpRefusal: 400 or 401.
        """
        header, repeated = request.headers.get("authorization", ""), "authorization" in request.repeated
        found = None if repeated else _CREDENTIALS.fullmatch(header)
        is_bound = found is not None and found[1].lower() == "dpop"
        if not repeated and (found is None or not found[2] or (is_bound and self._protection.proofs is None)):
            # MUST: answer 401 if authorization is missing (basic/authorization#error-handling). There is no `error`
            # in this challenge, since the client has made none (RFC 6750, section 3.1).
            raise self._refusal(401, "Authorization required")
        if found is None or len(header) > MAX_HEADER or not _TOKEN.fullmatch(found[2]):
            # MUST: answer 400 if the authorization is malformed (basic/authorization#error-handling)
            raise self._refusal(400, "The Authorization header is malformed", "invalid_request")
        return found[2], is_bound

    # -- what they may do

    def authorize(self, principal: Principal, message: Any, more: Collection[str] = ()) -> None:
        """Check that the principal has the scopes that a message or batch needs, and those in `more`.

        Raises: InsufficientScope (403), with all the scopes that are needed.
        """
        needed = self._protection.scopes
        if isinstance(message, dict | list) or more:
            # SHOULD: name all scopes that the operation needs in one challenge
            # (basic/authorization#runtime-insufficient-scope-errors)
            needed = tuple(dict.fromkeys((*needed, *self._needed(message), *more)))
        if not principal.scopes.issuperset(needed) and not self._protection.grants(principal.scopes, needed):
            # MUST: answer 403 if the scopes of the token are insufficient (basic/authorization#error-handling)
            raise InsufficientScope(needed, self._challenge("insufficient_scope", needed))

    def _needed(self, message: Any) -> Iterator[str]:
        """Yield the scopes that a message needs. A malformed message needs none: it is refused later."""
        if isinstance(message, list):
            for entry in message:
                yield from self._needed(entry)
            return
        params = message.get("params") if isinstance(message, dict) else None
        if not isinstance(params, dict):
            return
        method, registered = message.get("method"), self._server.registries
        match method:
            case "tools/call" | "prompts/get" if isinstance(name := params.get("name"), str):
                entry = registered["tools" if method == "tools/call" else "prompts"].get(name)
                yield from () if entry is None else entry.scopes
            case "resources/read" | "resources/subscribe" if isinstance(uri := params.get("uri"), str):
                yield from self._needed_of(uri, below=method == "resources/subscribe")
            case "completion/complete" if isinstance(reference := params.get("ref"), dict):
                features = ("prompts",) if reference.get("type") == "ref/prompt" else ("templates", "resources")
                key = str(reference.get("name" if features == ("prompts",) else "uri"))
                for feature in features:
                    entry = registered[feature].get(key)
                    yield from () if entry is None else entry.scopes
            case "subscriptions/listen" if isinstance(wanted := params.get("notifications"), dict):
                uris = wanted.get("resourceSubscriptions")
                for uri in uris if isinstance(uris, list) else ():
                    yield from self._needed_of(str(uri), below=True)

    def _needed_of(self, uri: str, *, below: bool) -> Iterator[str]:
        """Yield the scopes of a resource. `below`: also those of the resources that a subscription to it covers."""
        try:
            yield from find_resource(self._server, uri)[0].scopes
            anywhere = False
        except ResourceNotFound:
            anywhere = True
        registered = self._server.registries
        for key, entry in (*registered["resources"].items(), *registered["templates"].items()) if below else ():
            start = key.partition("{")[0]
            if covers(uri, start) or (anywhere and uri.startswith(start)):
                yield from entry.scopes

    # -- challenges and metadata

    def _challenge(self, error: str | None, scopes: Sequence[str], words: str | None = None) -> str:
        """Return the value of `WWW-Authenticate`: one challenge for each kind of token that is accepted."""
        # MUST: name `resource_metadata` in the challenge (2025-06-18/basic/authorization#authorization-server-location)
        # SHOULD: name `scope` in the challenge
        # (2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements)
        told = {
            "error": error,
            "error_description": words,
            "scope": " ".join(scopes),
            "resource_metadata": self._metadata,
        }
        parameters = {name: value for name, value in told.items() if value}
        bearer, proofs = str(Challenge("bearer", parameters)), self._protection.proofs
        if proofs is None:
            return bearer
        bound = str(Challenge("dpop", {**parameters, "algs": " ".join(proofs.algorithms)}))
        return bound if self._protection.dpop == "required" else f"{bound}, {bearer}"

    def _refusal(self, status: int, text: str, error: str | None = None) -> HttpRefusal:
        challenge = self._challenge(error, self._protection.scopes, text if error is not None else None)
        return HttpRefusal(status, text, code=status, headers={"WWW-Authenticate": challenge})

    @property
    def routes(self) -> dict[str, Endpoint]:
        """Return what is served beside the endpoint, by path: the metadata, which anybody may read, and further
        routes.
        """
        # MUST: publish protected resource metadata (basic/authorization#authorization-server-location)
        # MUST: publish the metadata at the well-known address with the endpoint's path, which the challenge names too
        # (basic/authorization#protected-resource-metadata-discovery-requirements)
        named = urlsplit(self.resource).path.rstrip("/")
        paths = {PROTECTED_RESOURCE + self._path.rstrip("/"), PROTECTED_RESOURCE + (named or self._path.rstrip("/"))}
        return {**dict.fromkeys(paths, self.tell), **self._protection.routes}

    def tell(self, request: HttpRequest, reply: HttpReply) -> None:
        """Answer with the protected resource metadata (RFC 9728)."""
        document: ProtectedResourceMetadata = {
            "resource": self.resource,
            "authorization_servers": self._protection.authorization_servers,
            "bearer_methods_supported": ["header"],
        }
        if self._protection.scopes:
            document["scopes_supported"] = list(self._protection.scopes)
        if (proofs := self._protection.proofs) is not None:
            document["dpop_signing_alg_values_supported"] = list(proofs.algorithms)
            document["dpop_bound_access_tokens_required"] = self._protection.dpop == "required"
        send_document(request, reply, document)


def send_document(request: HttpRequest, reply: HttpReply, document: Mapping[str, Any]) -> None:
    """Answer with a metadata document, which web pages of every origin may read (RFC 9728, RFC 8414)."""
    headers = {"Access-Control-Allow-Origin": "*"}
    if request.method == "OPTIONS":
        allowed = {"Access-Control-Allow-Methods": "GET", "Access-Control-Allow-Headers": "MCP-Protocol-Version"}
        reply.send(204, {**headers, **allowed})
    elif request.method not in ("GET", "HEAD"):
        reply.send(405, {**headers, "Allow": "GET, HEAD, OPTIONS"})
    else:
        reply.send(200, {**headers, "Content-Type": "application/json"}, json.dumps(document).encode())


@lru_cache(maxsize=1024)
def canonical(url: str) -> str:
    """Return a URL with its scheme and host in lower case, and without a slash after the host if nothing follows it."""
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme.lower()}{mark}{authority.lower()}" + (slash + path if path else "")
