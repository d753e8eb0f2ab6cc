"""Authorization, an MCP server's half: whose token lets a request in, and what it must grant.

Spec:      basic/authorization (2025-03-26 ...): #access-token-usage, #error-handling, #authorization-server-location;
           #protected-resource-metadata-discovery-requirements, #runtime-insufficient-scope-errors (2025-11-25 ...);
           RFC 6750, RFC 9728
Upholds:   spec_notes/basic/authorization.md
Not here:  the words of challenges and of the metadata (metadata); what says whose a token is (verifiers); who gives
           tokens (authorization_server)

    server.run("http", authorization=Protection(verify, authorization_servers=["https://auth.example.com"],
                                                scopes=["notes:read"], resource="https://notes.example.com/mcp"))

    a request                                            its answer
      Host or Origin of somebody else                      403, before the token is looked at
      no token                                             401  Bearer resource_metadata="...", scope="..."
      what cannot be a token                               400  Bearer error="invalid_request"
      a token that is unknown, expired, or of another      401  Bearer error="invalid_token": which of these is not told
      nobody can say now whose it is                       503  Retry-After
      scopes are missing                                   403  Bearer error="insufficient_scope", scope="all of them"

What a handler gets is a `Principal`, which has no token: it cannot pass it on.
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
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urljoin, urlsplit

from mcp_ref.basic.authorization.metadata import (
    MAX_HEADER,
    PROTECTED_RESOURCE,
    Challenge,
    ProtectedResourceMetadata,
    resource_metadata_url,
)
from mcp_ref.errors import Refusal
from mcp_ref.machinery.http_server import Endpoint, HttpRefusal, HttpReply, HttpRequest
from mcp_ref.machinery.scopes import checked_scopes
from mcp_ref.server.resources import ResourceNotFound, covers, find_resource

if TYPE_CHECKING:
    from mcp_ref.basic.authorization.dpop import ProofChecker
    from mcp_ref.server.server import Server

log = logging.getLogger(__name__)

RETRY_AFTER: Final = 5
"""Seconds after which a client may ask again while nobody can say whose its token is."""

_CREDENTIALS: Final = re.compile(r"(?i:(bearer|dpop)) +([A-Za-z0-9._~+/-]+=*)")
_SCHEME: Final = re.compile(r"(bearer|dpop)(?: +(?P<rest>.*))?", re.IGNORECASE)


@dataclass(frozen=True)
class Principal:
    """Who sent a request, as its token says. It does not have the token.

    Two are equal if issuer, subject and client are: a token that was refreshed, or that grants more, is of the same
    principal, and `str()` is the same. So sessions, the state of a multi round-trip request and rates go on.

    Attributes:
        subject: the user, or the client where it acts for itself; unique at its issuer alone.
        issuer: the authorization server that says so.
        client_id: the program that the user lets act.
        scopes: what the token grants, without what that implies.
        audience: the servers that the token is for, by their URLs. One that is for nobody lets nobody in.
        expires: until when it counts, in seconds since the epoch; None: it does not end by itself.
        claims: whatever else the authorization server says; not for the log.
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
"""Says whose an access token is; None: nobody's, or not any more. What it raises means that it cannot say now."""


class InsufficientScope(Refusal, HttpRefusal):
    """403: the token does not grant what the operation needs; `data` is `{"scopes": [...]}`."""

    def __init__(self, scopes: Sequence[str], challenge: str) -> None:
        headers = {"WWW-Authenticate": challenge}
        HttpRefusal.__init__(self, 403, "Insufficient scope", code=403, headers=headers)
        self.data = {"scopes": list(scopes)}


class Protection:
    """What guards a server on HTTP: `server.run("http", authorization=Protection(...))`.

    Args:
        verify: says whose a token is; see `Verify`, `JwtVerifier` and `Introspection`. It is called in the thread of
            the request, by several at once. That the token is for this server, and has not expired, is checked here.
        authorization_servers: the issuers that clients can get a token from.
        scopes: those that every request needs.
        resource: the URL that clients use, which is what tokens must be for. May be left out on this machine alone.
        implies: scopes by the broader one that includes them, such as `{"notes:write": ["notes:read"]}`.
        dpop: whether tokens that are bound to a key are understood (`dpop`): "no", "optional" or "required". Such a
            token lets in only together with a proof for the request; it needs the extra `auth`.

    Raises: ValueError: no issuer, a URL that is not https (http: on this machine alone), a scope that includes itself.
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
        # MUST: at least one entry in `authorization_servers` (basic/authorization#authorization-server-location)
        if isinstance(authorization_servers, str) or not authorization_servers:
            raise ValueError("authorization_servers is a list of issuers, at least one")
        # MUST: https for everything of the authorization server (basic/authorization#communication-security)
        for url in (*authorization_servers, *([] if resource is None else [resource])):
            if not is_secure(url):
                raise ValueError(f"{url!r} must be an https URL without a fragment; http is for this machine alone")
        self.verify, self.resource, self.dpop = verify, resource, dpop
        self.proofs: ProofChecker | None = None
        if dpop != "no":
            from mcp_ref.basic.authorization.dpop import ProofChecker

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
        """What is served beside the endpoint, by path."""
        return {}

    def opened(self, base: str) -> None:
        """Told where the server listens: "http://127.0.0.1:8000"."""

    def hosts(self, host: str) -> set[str]:
        """The hosts under which clients know a server that listens at `host`: that of `resource`.

        Raises: ValueError: there is no `resource`, and it does not listen on this machine alone.
        """
        if self.resource is None and not is_loopback(host):
            raise ValueError(f"clients do not know this server as {host!r}: say what tokens are for, by resource=")
        named = urlsplit(self.resource or "").netloc
        return {named.lower().rpartition(":")[0] if re.search(r":[0-9]*$", named) else named.lower()} - {""}

    def door(self, server: Server, path: str, main: str) -> Door:
        """The protection of one endpoint of a server; see `Door`."""
        return Door(self, server, path, main)

    def grants(self, principal: Principal, needed: Collection[str]) -> bool:
        """Whether the token of a principal grants all of these scopes."""
        if principal.scopes.issuperset(needed):
            return True
        # MUST: a broader scope counts for those that it includes (basic/authorization#step-up-authorization-flow)
        held = principal.scopes.union(*(self._included.get(scope, ()) for scope in principal.scopes))
        return held.issuperset(needed)


class Door:
    """A `Protection` at one endpoint: who comes in, and what they may do there.

    Args:
        path: of the endpoint. main: that of the one which `Protection.resource` names.

    Threads: any, once it is open.
    """

    def __init__(self, protection: Protection, server: Server, path: str, main: str) -> None:
        self._protection, self._server, self._path, self._main = protection, server, path, main
        self.resource = self._metadata = ""
        if protection.resource is not None:
            self.open("")

    def open(self, base: str) -> None:
        """Learn where the server listens, which is what tokens are for unless `Protection.resource` says otherwise."""
        self.resource = self._protection.resource or base + self._main
        if self._path != self._main:
            self.resource = self.resource.removesuffix(self._main).rstrip("/") + self._path
        self._metadata = resource_metadata_url(self.resource)
        self._protection.opened(base)

    # -- who asks

    def authenticate(self, request: HttpRequest) -> Principal:
        """Who sent a request. Raises HttpRefusal: 400, 401, 503."""
        # 1. The token. One in the query or the body counts for nothing.
        header, proofs = request.headers.get("authorization", ""), self._protection.proofs
        matched = _CREDENTIALS.fullmatch(header)
        if matched is None or len(header) > MAX_HEADER or "authorization" in request.repeated:
            scheme = _SCHEME.fullmatch(header)
            if "authorization" not in request.repeated and (scheme is None or not scheme["rest"]):
                # MUST: 401 without a token (basic/authorization#error-handling); no `error`: none was made
                raise self._refusal(401, "Authorization required")
            # MUST: 400 for a malformed authorization request (basic/authorization#error-handling)
            raise self._refusal(400, "The Authorization header is malformed", "invalid_request")
        token, is_bound = matched[2], matched[1].lower() == "dpop"
        if is_bound and proofs is None:
            raise self._refusal(401, "Authorization required")
        # 2. Whose it is.
        try:
            principal = self._protection.verify(token)
        except Exception as problem:
            # Without its text, which may have the token in it.
            frames = "".join(traceback.format_tb(problem.__traceback__))
            log.error("could not verify a token: %s\n%s", type(problem).__name__, frames)
            headers = {"Retry-After": str(RETRY_AFTER)}
            raise HttpRefusal(503, "The token cannot be verified now", code=503, headers=headers) from None
        # 3. Does it count, and here?
        # MUST: validate access tokens before anything is done (basic/authorization#token-handling)
        # MUST: that they were issued for this server, by their audience (basic/authorization#token-handling)
        # MUST: 401 for an invalid or expired token (basic/authorization#token-handling)
        if (
            principal is None
            or (principal.expires is not None and principal.expires <= time.time())
            or not (self.resource in principal.audience or self._is_meant(principal.audience))
            # Bound to a key that nobody has shown: it may be stolen.
            or (is_bound != ("cnf" in principal.claims))
            or (self._protection.dpop == "required" and not is_bound)
        ):
            raise self._refusal(401, "The token does not count here", "invalid_token")
        # 4. Has whoever sent it the key that it is bound to?
        if proofs is not None and is_bound:
            proof = "" if "dpop" in request.repeated else request.headers.get("dpop", "")
            # Of HTTP+SSE the messages have a path of their own.
            url = self.resource if request.path == self._path else urljoin(self.resource, request.path)
            shown, bound = proofs.thumbprint(proof, request.method, url, token), principal.claims["cnf"]
            if shown is None or not isinstance(bound, dict) or bound.get("jkt") != shown:
                raise self._refusal(401, "The proof does not count for this request", "invalid_dpop_proof")
        return principal

    def _is_meant(self, audience: Collection[str]) -> bool:
        """Whether one of the URLs is this server's, in another spelling."""
        # SHOULD: accept an upper-case scheme and host (basic/authorization#canonical-server-uri)
        ours = canonical(self.resource)
        return any(canonical(url) == ours for url in audience)

    # -- what they may do

    def authorize(self, principal: Principal, message: Any, more: Collection[str] = ()) -> None:
        """Let a message pass, or a batch. Raises InsufficientScope (403), naming all the scopes that it needs."""
        needed = self._protection.scopes
        if isinstance(message, dict | list) or more:
            # SHOULD: all the scopes of the operation in one challenge
            # (basic/authorization#runtime-insufficient-scope-errors)
            needed = tuple(dict.fromkeys((*needed, *self._needed(message), *more)))
        if not self._protection.grants(principal, needed):
            # MUST: 403 if the scopes of a token do not suffice (basic/authorization#error-handling)
            raise InsufficientScope(needed, self._challenge("insufficient_scope", needed))

    def _needed(self, message: Any) -> Iterator[str]:
        """The scopes of what a message asks for. One that cannot be read asks for nothing, and is refused later."""
        if isinstance(message, list):
            for entry in message:
                yield from self._needed(entry)
            return
        params = message.get("params") if isinstance(message, dict) else None
        if not isinstance(params, dict):
            return
        method, registered = message.get("method"), self._server.registered
        match method:
            case "tools/call" | "prompts/get" if isinstance(name := params.get("name"), str):
                entry = registered("tools" if method == "tools/call" else "prompts").get(name)
                yield from () if entry is None else entry.scopes
            case "resources/read" | "resources/subscribe" if isinstance(uri := params.get("uri"), str):
                yield from self._needed_of(uri, below=method == "resources/subscribe")
            case "completion/complete" if isinstance(reference := params.get("ref"), dict):
                features = ("prompts",) if reference.get("type") == "ref/prompt" else ("templates", "resources")
                key = str(reference.get("name" if features == ("prompts",) else "uri"))
                for feature in features:
                    entry = registered(feature).get(key)
                    yield from () if entry is None else entry.scopes
            case "subscriptions/listen" if isinstance(wanted := params.get("notifications"), dict):
                uris = wanted.get("resourceSubscriptions")
                for uri in uris if isinstance(uris, list) else ():
                    yield from self._needed_of(str(uri), below=True)

    def _needed_of(self, uri: str, *, below: bool) -> Iterator[str]:
        """The scopes of a resource; `below`: also of those that a subscription to it would tell of."""
        try:
            yield from find_resource(self._server, uri)[0].scopes
            anywhere = False
        except ResourceNotFound:
            anywhere = True
        if below:
            for feature in ("resources", "templates"):
                for key, entry in self._server.registered(feature).items():
                    start = key.partition("{")[0]
                    if entry.scopes and (covers(uri, start) or (anywhere and uri.startswith(start))):
                        yield from entry.scopes

    # -- what they are told

    def _challenge(self, error: str | None, scopes: Sequence[str], words: str | None = None) -> str:
        # MUST: `resource_metadata` in the challenge (2025-06-18/basic/authorization#authorization-server-location)
        # SHOULD: `scope` in the challenge
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
        """What is served beside the endpoint, by path: first of all the metadata, which anybody may read."""
        # MUST: publish protected resource metadata (basic/authorization#authorization-server-location)
        # MUST: at the well-known address with the endpoint's path, which the challenge names too
        # (basic/authorization#protected-resource-metadata-discovery-requirements)
        named = urlsplit(self.resource).path.rstrip("/")
        paths = {PROTECTED_RESOURCE + self._path.rstrip("/"), PROTECTED_RESOURCE + (named or self._path.rstrip("/"))}
        return {**dict.fromkeys(paths, self.tell), **self._protection.routes}

    def tell(self, request: HttpRequest, reply: HttpReply) -> None:
        """Answer with the protected resource metadata."""
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
    """Answer with a metadata document, which any page may read (RFC 9728, RFC 8414)."""
    headers = {"Access-Control-Allow-Origin": "*"}
    if request.method == "OPTIONS":
        allowed = {"Access-Control-Allow-Methods": "GET", "Access-Control-Allow-Headers": "MCP-Protocol-Version"}
        reply.send(204, {**headers, **allowed})
    elif request.method not in ("GET", "HEAD"):
        reply.send(405, {**headers, "Allow": "GET, HEAD, OPTIONS"})
    else:
        reply.send(200, {**headers, "Content-Type": "application/json"}, json.dumps(document).encode())


def is_loopback(host: str) -> bool:
    """Whether a host names this machine."""
    try:
        return host.lower() == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_secure(url: str) -> bool:
    """Whether a URL is https, or http on this machine, with nothing in it that does not belong there."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    plain = host and not parts.fragment and "@" not in parts.netloc and url.isascii() and url.isprintable()
    return bool(plain) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


@lru_cache(maxsize=1024)
def canonical(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme.lower()}{mark}{authority.lower()}" + (slash + path if path else "")
