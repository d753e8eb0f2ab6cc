"""Discovery, the client's half: from a challenge to the authorization server and its metadata.

Spec:      2025-03-26/basic/authorization#authorization-base-url, #fallbacks-for-servers-without-metadata-discovery;
           basic/authorization#authorization-server-discovery (2025-06-18, 2025-11-25);
           basic/authorization/authorization-server-discovery (2026-07-28); RFC 9728, RFC 8414
Upholds:   spec_notes/basic/authorization.md, the rows on discovery
Not here:  what the documents contain (metadata); the server's half (resource_server)

    401 with resource_metadata=URL      the protected resource metadata is at that URL
    401 without it                      it is at the well-known address of the server's URL, or of its origin
    it is nowhere, and the client       the server is its own authorization server, at its origin
      speaks 2025-03-26
                                        authorization_servers in it names the issuer
    issuer https://host/tenant          https://host/.well-known/oauth-authorization-server/tenant
                                        https://host/.well-known/openid-configuration/tenant
                                        https://host/tenant/.well-known/openid-configuration
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from mcp_ref.errors import AuthorizationError
from mcp_ref.kit.http.http_call import origin_of
from mcp_ref.pages.basic.authorization.fetching import Fetcher, checked, shown, usable
from mcp_ref.pages.basic.authorization.metadata import (
    AUTHORIZATION_SERVER,
    AuthorizationServerMetadata,
    Challenge,
    ProtectedResourceMetadata,
    metadata_urls,
    resource_metadata_url,
    scopes_in,
)
from mcp_ref.revisions import Revision

_RESOURCE = "the protected resource metadata"
_SERVER = "the metadata of the authorization server"


class Discovered(NamedTuple):
    """The place to ask for a token, and the server that the token is for.

    Attributes:
        issuer: the authorization server. It is compared as text.
        metadata: what the authorization server says of itself.
        resource: what `resource` says in every request for a token; None: it is not sent.
        scopes: all scopes of the MCP server, or None.
        rules: the revision whose rules apply.
    """

    issuer: str
    metadata: AuthorizationServerMetadata
    resource: str | None
    scopes: tuple[str, ...] | None
    rules: Revision


def discover(
    fetcher: Fetcher, server: str, challenge: Challenge | None, revisions: Sequence[Revision], preferred: Sequence[str]
) -> Discovered:
    """Find the authorization server of an MCP server.

    Args:
        server: the URL of the MCP server.
        challenge: the one of the 401 or 403, if there was one.
        revisions: the revision that was agreed on, or all that may be, oldest first. The rules of the newest apply.
        preferred: issuers to choose if the server trusts several.

    Raises: AuthorizationError.
    """
    rules = revisions[-1]
    # 1. MUST: use `resource_metadata` in WWW-Authenticate; without it, try the well-known address with the path first
    #    (basic/authorization#protected-resource-metadata-discovery-requirements)
    if challenge is not None and "resource_metadata" in challenge.repeated:
        raise AuthorizationError("the server's challenge names resource_metadata more than once")
    named = challenge.parameters.get("resource_metadata") if challenge is not None else None
    origin = urlsplit(server)._replace(path="", query="", fragment="").geturl()
    places = [named] if named else []
    if named or rules.metadata_probing:
        # Also after what was named: some servers name a place that is 404, and have the document at the usual one.
        places = list(dict.fromkeys((*places, resource_metadata_url(server), resource_metadata_url(origin))))
    for place in places:
        if (document := fetcher.document(_RESOURCE, place, server)) is not None:
            return _named(fetcher, server, place, checked(_RESOURCE, place, ProtectedResourceMetadata, document),
                rules, preferred)  # fmt: skip
    if named:
        raise AuthorizationError(f"{_RESOURCE} is not at {shown(named)}, where the server says it is")
    # 2. In 2025-03-26 an MCP server is its own authorization server. A server without the metadata may be that old.
    older = [revision for revision in revisions if revision.authorization != "named"]
    if not older:
        raise AuthorizationError(f"{shown(server)} wants authorization and does not say by whom: it has no metadata")
    rules = older[-1]
    # SHOULD: send MCP-Protocol-Version with the request for metadata
    # (2025-03-26/basic/authorization#server-metadata-discovery-headers)
    version = {"MCP-Protocol-Version": rules.name}
    place = origin + AUTHORIZATION_SERVER
    # MUST: take the server's URL without its path as the authorization base URL
    # (2025-03-26/basic/authorization#authorization-base-url)
    # MUST: look for the metadata of RFC 8414 there (2025-03-26/basic/authorization#server-metadata-discovery)
    if (document := fetcher.document(_SERVER, place, server, version)) is not None:
        metadata: AuthorizationServerMetadata = checked(_SERVER, place, AuthorizationServerMetadata, document)
        # Nobody has named an issuer that could be compared as text, so a slash at its end makes no difference.
        if metadata["issuer"] not in (origin, f"{origin}/"):
            raise AuthorizationError(f"{_SERVER}: {shown(place)} is of another issuer: {shown(metadata['issuer'])}")
    else:
        # MUST: use the default paths /authorize, /token and /register without metadata
        # (2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery)
        metadata = {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "code_challenge_methods_supported": ["S256"],
        }
    return Discovered(metadata["issuer"], metadata, None, None, rules)


def _named(
    fetcher: Fetcher,
    server: str,
    place: str,
    resource: ProtectedResourceMetadata,
    rules: Revision,
    preferred: Sequence[str],
) -> Discovered:
    """Find the authorization server that the metadata of an MCP server names."""
    # 1. Is the metadata about this server? Otherwise this server would be sent a token that is meant for another.
    mine, theirs = urlsplit(server), urlsplit(usable(_RESOURCE, resource["resource"], server))
    path = theirs.path.rstrip("/")
    fits = origin_of(server) == origin_of(resource["resource"]) and (mine.path.rstrip("/") + "/").startswith(path + "/")
    if not fits or theirs.query not in ("", mine.query):
        raise AuthorizationError(
            f"{_RESOURCE}: {shown(place)} is for another resource: {shown(resource['resource'])}, not {shown(server)}"
        )
    # 2. MUST: find at least one entry in `authorization_servers` (basic/authorization#authorization-server-location)
    issuers = resource.get("authorization_servers") or []
    if not issuers:
        raise AuthorizationError(f"{_RESOURCE}: {shown(place)} has no authorization_servers")
    # Some servers write it with a slash at its end, which its own metadata has not: the user may say which is right.
    named = {each.rstrip("/") for each in issuers}
    issuer = next((each for each in preferred if each.rstrip("/") in named), issuers[0])
    if urlsplit(usable("the issuer", issuer, place)).query:
        raise AuthorizationError(f"the issuer {shown(issuer)} has a query")
    # 3. What does it say of itself?
    return Discovered(
        issuer,
        issuer_metadata(fetcher, issuer, place, openid=rules.openid_discovery),
        # MUST: name this server in `resource`, exactly as it writes itself, since the other side compares text
        # (basic/authorization#resource-parameter-implementation)
        resource["resource"] if rules.resource_parameter else None,
        scopes_in(" ".join(resource.get("scopes_supported") or ())),
        rules,
    )


def issuer_metadata(
    fetcher: Fetcher, issuer: str, named_by: str, *, openid: bool = True
) -> AuthorizationServerMetadata:
    """Return the metadata of an authorization server. Raises: AuthorizationError."""
    # MUST: try the addresses of RFC 8414 and of OpenID Connect Discovery in the order of the page
    # (basic/authorization#authorization-server-metadata-discovery)
    for address in metadata_urls(issuer, openid=openid):
        if (document := fetcher.document(_SERVER, address, named_by)) is not None:
            metadata: AuthorizationServerMetadata = checked(_SERVER, address, AuthorizationServerMetadata, document)
            # A client MUST NOT use metadata whose `issuer` differs, as text, from the one that was asked for
            # (basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery)
            if metadata["issuer"] == issuer:
                return metadata
            alike = metadata["issuer"].rstrip("/") == issuer.rstrip("/")
            hint = f"; if you trust it, name it: issuer={metadata['issuer']!a}" if alike else ""
            told = f"is of another issuer: {shown(metadata['issuer'])}, not {shown(issuer)}{hint}"
            raise AuthorizationError(f"{_SERVER}: {shown(address)} {told}")
    raise AuthorizationError(f"{_SERVER} is missing: {shown(issuer)} has none")
