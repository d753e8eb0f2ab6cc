"""The traces of authorization on the wire between a client and an MCP server: challenges, and two metadata documents.

Spec:      basic/authorization#authorization-server-discovery (2025-06-18 ...), #scope-challenge-handling (2025-11-25
           ...); RFC 6750 (section 3), RFC 9728, RFC 8414
Upholds:   spec_notes/basic/authorization.md
Not here:  who fetches the documents (discovery) and who serves them (resource_server, authorization_server); what a
           client does about a challenge (client)

    HTTP/1.1 401 Unauthorized
    WWW-Authenticate: Bearer resource_metadata="https://host/.well-known/oauth-protected-resource/mcp", scope="read"

    the protected resource metadata of https://host/mcp      {"resource": ..., "authorization_servers": [ISSUER]}
    the authorization server metadata of ISSUER              {"issuer": ISSUER, "token_endpoint": ..., ...}
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NotRequired, TypedDict
from urllib.parse import quote, urlsplit

MAX_HEADER: Final = 16_384
"""How many bytes of a WWW-Authenticate or Authorization header are read."""

MAX_SCOPES: Final = 8_192
"""How many characters the scopes of a challenge may have together."""

PROTECTED_RESOURCE: Final = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME: Final = re.compile(rf"[ \t,]*({_TOKEN})(?=[ \t,]|$)(?![ \t]*=)")
_CREDENTIALS: Final = re.compile(r"[ \t]+([A-Za-z0-9._~+/-]+=*)[ \t]*(?=,|$)")
_PARAMETER: Final = re.compile(rf'[ \t,]*({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))[ \t]*(?=,|$)')
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


class ProtectedResourceMetadata(TypedDict):
    """An MCP server's statement about itself, above all which authorization servers it trusts (RFC 9728, section 2)."""

    resource: str
    authorization_servers: NotRequired[list[str]]
    scopes_supported: NotRequired[list[str]]
    bearer_methods_supported: NotRequired[list[str]]
    resource_name: NotRequired[str]
    resource_documentation: NotRequired[str]
    dpop_signing_alg_values_supported: NotRequired[list[str]]
    dpop_bound_access_tokens_required: NotRequired[bool]


class AuthorizationServerMetadata(TypedDict):
    """An authorization server's statement about itself (RFC 8414; OpenID Connect Discovery uses the same names)."""

    issuer: str
    authorization_endpoint: NotRequired[str]
    token_endpoint: NotRequired[str]
    registration_endpoint: NotRequired[str]
    revocation_endpoint: NotRequired[str]
    jwks_uri: NotRequired[str]
    scopes_supported: NotRequired[list[str]]
    response_types_supported: NotRequired[list[str]]
    grant_types_supported: NotRequired[list[str]]
    token_endpoint_auth_methods_supported: NotRequired[list[str]]
    token_endpoint_auth_signing_alg_values_supported: NotRequired[list[str]]
    code_challenge_methods_supported: NotRequired[list[str]]
    authorization_response_iss_parameter_supported: NotRequired[bool]
    client_id_metadata_document_supported: NotRequired[bool]
    authorization_grant_profiles_supported: NotRequired[list[str]]
    dpop_signing_alg_values_supported: NotRequired[list[str]]


class Challenge:
    """One challenge of a `WWW-Authenticate` header: its scheme in lower case, and its parameters by lower-case name.

    Attributes:
        repeated: the names that occur more than once. The first value counts.
    """

    def __init__(self, scheme: str, parameters: Mapping[str, str], repeated: Iterable[str] = ()) -> None:
        self.scheme, self.parameters, self.repeated = scheme, dict(parameters), frozenset(repeated)

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """Return the scopes that it names, each once; None if it names none, or if what it names cannot be scopes."""
        return scopes_in(self.parameters.get("scope"))

    def __str__(self) -> str:
        """Return the text that goes into the header."""
        scheme = {"bearer": "Bearer", "dpop": "DPoP"}.get(self.scheme, self.scheme)
        escaped = {name: re.sub(r'(["\\])', r"\\\1", value) for name, value in self.parameters.items()}
        quoted = ", ".join(f'{name}="{value}"' for name, value in escaped.items())
        return f"{scheme} {quoted}".rstrip()


def read_challenges(header: str | None) -> list[Challenge]:
    """Return the challenges of a `WWW-Authenticate` header, or of several that were joined by commas.

    The list ends at the first part that cannot be read. Nothing is raised, whatever a stranger sends.
    """
    text, at, found = (header or "")[:MAX_HEADER], 0, []
    while scheme := _SCHEME.match(text, at):
        at, parameters, repeated = scheme.end(), dict[str, str](), set[str]()
        if (credentials := _CREDENTIALS.match(text, at)) is not None and not _PARAMETER.match(text, at):
            at = credentials.end()
        while parameter := _PARAMETER.match(text, at):
            at, name = parameter.end(), parameter[1].lower()
            if name in parameters:
                repeated.add(name)
            value = parameter[3] if parameter[2] is None else re.sub(r"\\(.)", r"\1", parameter[2])
            parameters.setdefault(name, value)
        found.append(Challenge(scheme[1].lower(), parameters, repeated))
    return found


def scopes_in(text: Any) -> tuple[str, ...] | None:
    """Return the scopes in a `scope` parameter, each once and in order; None if the text is malformed (RFC 6749,
    3.3).
    """
    if not isinstance(text, str) or len(text) > MAX_SCOPES:
        return None
    scopes = tuple(dict.fromkeys(text.split(" ")))
    return scopes if all(map(_SCOPE.fullmatch, scopes)) else None


def resource_metadata_url(resource: str) -> str:
    """Return the address of the protected resource metadata for a URL: the well-known path, then the URL's own (RFC
    9728).
    """
    parts = urlsplit(resource)
    path = PROTECTED_RESOURCE + parts.path.rstrip("/")
    return parts._replace(path=path, fragment="").geturl()


def metadata_urls(issuer: str, *, openid: bool = True) -> list[str]:
    """Return where the metadata of an authorization server may stand, in the order in which it is looked for.

    Args:
        openid: whether the addresses of OpenID Connect Discovery are among them.
    """
    parts = urlsplit(issuer)
    path, origin = parts.path.rstrip("/"), parts._replace(path="", query="").geturl()
    # MUST: try RFC 8414 with the path inserted, OpenID Connect with the path inserted, and with the path appended
    # (basic/authorization#authorization-server-metadata-discovery)
    places = [AUTHORIZATION_SERVER + path, OPENID + path, path + OPENID] if openid else [AUTHORIZATION_SERVER + path]
    return [origin + place for place in dict.fromkeys(places)]


def s256(text: str) -> str:
    """Return the SHA-256 of a text in base64url: a code challenge (RFC 7636), or the hash of a token (RFC 9449)."""
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def basic_credentials(client_id: str, secret: str) -> dict[str, str]:
    """Return the header of `client_secret_basic`: both parts are form-encoded first (RFC 6749, section 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
