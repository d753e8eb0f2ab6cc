"""Registration: the identity of a client at an authorization server, and how the client proves it.

Spec:      2025-03-26/basic/authorization#dynamic-client-registration;
           basic/authorization#client-registration-approaches (2025-11-25),
           basic/authorization/client-registration (2026-07-28); RFC 7591, RFC 7523;
           draft-ietf-oauth-client-id-metadata-document
Upholds:   spec_notes/basic/authorization.md, the rows on registration
Not here:  what a client asks for (flow, extensions); where registrations are kept
           (pages/basic/authorization/token_store)

    registered beforehand          Registered("id", "secret")      by the owner of the authorization server
    a metadata document            its URL is the client id        if the authorization server supports that
    dynamic registration           POST registration_endpoint      if there is such an endpoint
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, NotRequired, TypedDict
from urllib.parse import unquote_plus, urlsplit

from mcp_ref.errors import AuthorizationError
from mcp_ref.kit.http.guarded_fetch import is_loopback, is_secure
from mcp_ref.pages.basic.authorization.discovery import Discovered
from mcp_ref.pages.basic.authorization.fetching import Fetcher, checked, refuses, secrets_in, shown
from mcp_ref.pages.basic.authorization.metadata import basic_credentials
from mcp_ref.wire.deprecated import warn_deprecated
from mcp_ref.wire.messages import JsonObject

ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

_ENDPOINT: Final = "the registration of this client"


class _Registration(TypedDict):
    client_id: str
    client_secret: NotRequired[str]
    scope: NotRequired[str]
    token_endpoint_auth_method: NotRequired[str]


@dataclass
class Registered:
    """A client that an authorization server knows.

    Args:
        client_id: its id there.
        secret: its secret; None for a public client.
        issuer: the authorization server that knows it; None: the first one that it is used with.
        key: a private key in PEM instead of a secret (`private_key_jwt`; it needs the extra `auth`).
        method: how it authenticates, as `token_endpoint_auth_method` names it; None: in a way that the metadata lists.
    """

    client_id: str
    secret: str | None = field(default=None, repr=False)
    _: KW_ONLY
    issuer: str | None = None
    key: str | bytes | None = field(default=None, repr=False)
    method: str | None = None


def client_metadata(name: str, url: str, redirect_uri: str = "http://127.0.0.1/callback") -> JsonObject:
    """Return the client id metadata document to publish at `url`, for `OAuth(name, document=url)`.

    Spec: basic/authorization#client-id-metadata-documents
    """
    return {"client_id": checked_document(url), **_about(name, redirect_uri), "token_endpoint_auth_method": "none"}


def checked_document(url: str) -> str:
    """Return the URL, if a metadata document can stand there. Raises: ValueError."""
    parts = urlsplit(url)
    dots = {".", ".."} & set(parts.path.split("/"))
    # MUST: publish the document at an https URL with a path (basic/authorization#implementation-requirements)
    if parts.scheme != "https" or parts.path in ("", "/") or dots or not is_secure(url):
        raise ValueError(f"a metadata document must have an https URL with a path and no fragment, not {url!r}")
    return url


def _about(name: str, redirect_uri: str) -> JsonObject:
    # MUST: say "native" in `application_type` if the browser comes back to a program on this machine, by http or https
    # (basic/authorization/client-registration#application-type-and-redirect-uri-constraints)
    native = is_loopback(redirect_uri)
    return {
        "client_name": name,
        "redirect_uris": [redirect_uri],
        # SHOULD: include `refresh_token` in `grant_types` (basic/authorization#refresh-tokens)
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native" if native else "web",
    }


def register(fetcher: Fetcher, found: Discovered, name: str, redirect_uri: str, scopes: tuple[str, ...] | None) -> Any:
    """Register a client (RFC 7591). Returns what the authorization server answered, to be kept.

    Raises: AuthorizationError: the server has no registration endpoint, or it refuses.
    """
    endpoint = found.metadata.get("registration_endpoint")
    if endpoint is None:
        raise AuthorizationError(
            f"{shown(found.issuer)} does not let clients register themselves: have this one registered by its owner and"
            " give OAuth(client=Registered(...)), or document= the URL of a metadata document if that is supported"
        )
    # MAY: register dynamically, which 2026-07-28 deprecates
    # (basic/authorization/client-registration#dynamic-client-registration)
    # Where the authorization server knows no documents there is nothing that the program could do instead.
    if found.metadata.get("client_id_metadata_document_supported"):
        warn_deprecated("Dynamic Client Registration", found.rules)
    methods = found.metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    # We prefer to be a public client: a program on a user's machine could not keep a secret anyway.
    usable = [each for each in ("none", "client_secret_basic", "client_secret_post") if each in methods]
    wanted = _about(name, redirect_uri) | ({"scope": " ".join(scopes)} if scopes else {})
    wanted |= {"token_endpoint_auth_method": usable[0]} if usable else {}
    reply, answer = fetcher.post(_ENDPOINT, endpoint, found.issuer, document=wanted)
    if refuses(reply, answer):
        code = answer.get("error")
        # MUST: handle a registration that is refused because of its redirect URI; SHOULD: say why it is
        # (basic/authorization/client-registration#application-type-and-redirect-uri-constraints)
        about = f" (it was asked to come back to {redirect_uri})" if code == "invalid_redirect_uri" else ""
        raise refused(_ENDPOINT, endpoint, reply.status, answer, about=about)
    checked(_ENDPOINT, endpoint, _Registration, answer)
    return {name: answer[name] for name in _Registration.__annotations__ if name in answer}


def prove(client: Registered, found: Discovered, form: dict[str, str], *, confidential: bool = False) -> dict[str, str]:
    """Authenticate the client in a request for a token: adds to the form, and returns the headers to add.

    Args:
        confidential: whether a client that cannot authenticate is refused.

    Raises: AuthorizationError: the authorization server lists no method that the client can use.
    """
    offered = found.metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    # SHOULD: authenticate by a signed JWT rather than by a secret
    # (extensions/oauth-client-credentials#client-authentication-methods)
    can = ["private_key_jwt"] if client.key else []
    can += ["client_secret_basic", "client_secret_post"] if client.secret else []
    can += [] if confidential else ["none"]
    # The answer to a registration may name a method for which it brought nothing.
    method = client.method if client.method in can else None
    method = method or next((each for each in can if each in offered), None if can != ["none"] else "none")
    if method is None:
        raise AuthorizationError(
            f"{shown(found.issuer)} authenticates clients by {', '.join(map(ascii, offered)) or 'nothing'},"
            f" and this one can only use {' or '.join(can) or 'none: it has no secret and no key'}"
        )
    if method == "private_key_jwt":
        from mcp_ref.pages.basic.authorization.jwt import client_assertion

        algorithms = found.metadata.get("token_endpoint_auth_signing_alg_values_supported")
        try:
            assertion = client_assertion(client.key or "", client.client_id, found.issuer, algorithms)
        except ValueError as problem:
            raise AuthorizationError(f"{shown(found.issuer)}: {problem}") from None
        form |= {"client_assertion_type": ASSERTION, "client_assertion": assertion}
        return {}
    form["client_id"] = client.client_id
    if method == "client_secret_post":
        form["client_secret"] = client.secret or ""
    if method != "client_secret_basic":
        return {}
    # Some authorization servers insist on `client_id` in the form as well.
    return basic_credentials(client.client_id, client.secret or "")


def refused(
    what: str,
    url: str,
    status: int | None,
    answer: Mapping[str, Any],
    form: Mapping[str, str] | None = None,
    client: Registered | None = None,
    about: str = "",
) -> AuthorizationError:
    """Return the error for a refusal of an authorization server: with its code and its words, unless they repeat a
    secret.

    Args:
        status: of HTTP; None: the browser came back with the refusal. about: what else there is to say.
        form, client: what was sent, and by whom.
    """
    secrets = secrets_in(form or {})
    if client is not None and client.secret:
        basic = basic_credentials(client.client_id, client.secret)["Authorization"]
        secrets |= {client.secret, basic.removeprefix("Basic ")}
    told = {name: words for name in ("error", "error_description") if isinstance(words := answer.get(name), str)}
    for name, words in list(told.items()):
        if any(secret in f"{words}\n{unquote_plus(words)}" for secret in secrets) or (name == "error" and words[64:]):
            del told[name]
    said = "" if status is None else f" with HTTP status {status}"
    said += "".join(f": {ascii(words[:200])[1:-1]}" for words in told.values() if words)
    return AuthorizationError(f"{what}: {shown(url)} refused{said}{about}", told.get("error"))
