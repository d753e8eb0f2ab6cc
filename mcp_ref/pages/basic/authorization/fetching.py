"""Requests to the servers that take part in authorization: JSON documents, and forms that are answered with JSON.

Spec:      basic/authorization#communication-security; security_best_practices#server-side-request-forgery-ssrf
Upholds:   spec_notes/basic/authorization.md, the rows on communication
Not here:  which addresses may be reached, and how (kit/http/guarded_fetch)

Every failure is an AuthorizationError that names the document and the address; nothing else is tried in its place. A
document does not exist if the status is 4xx, except 408 and 429, which say nothing about it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlencode, urlsplit

from mcp_ref.errors import AuthorizationError, Refusal, RemoteProtocolError, RequestTimeout, TransportClosed
from mcp_ref.kit.http.guarded_fetch import Fetched, Reach, check_url, fetch
from mcp_ref.kit.typed.checking import SchemaMismatch, checker
from mcp_ref.revisions import LATEST_SESSION
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject

if TYPE_CHECKING:
    from mcp_ref.kit.http.http_call import HttpCall
    from mcp_ref.kit.http.http_client import HttpClient

log = logging.getLogger(__name__)

FORM: Final = "application/x-www-form-urlencoded"

_SHOWN: Final = (
    "authorization_endpoint", "authorization_servers", "client_id", "client_name", "code_challenge_method", "error",
    "code_challenge_methods_supported", "expires_in", "grant_type", "grant_types", "issuer", "redirect_uri", "scope",
    "redirect_uris", "registration_endpoint", "resource", "response_type", "scopes_supported", "token_endpoint",
    "token_endpoint_auth_method", "token_type",
)  # fmt: skip
"""The parameters whose values a trace shows. All others may be secret."""

_SECRET: Final = re.compile(r"""((?:token|secret|password|code|assertion)["']?\s*[:=]\s*["']?)[^\s"'&,;<>]+""", re.I)
_LONG_WORD: Final = re.compile(r"[\w.~+-]{16,}")

Note = Callable[[Literal["send", "receive"], Mapping[str, Any]], None]
"""Tells a trace what is sent or received: `note("send", facts)`."""


class Fetcher:
    """Sends requests on behalf of one call, in the thread of that call; or of a server, in any thread.

    Args:
        http: the client that makes the call, for its certificates and proxies; None: a server.
        call: whatever cuts it ends the fetch; None: nothing does.
        reach: the addresses that may be named.

    Raises, from every method: AuthorizationError; and whatever cut the call.
    """

    def __init__(self, http: HttpClient | None, call: HttpCall | None, reach: Reach, note: Note | None = None) -> None:
        self._http, self._call, self._reach, self._note = http, call, reach, note

    def document(self, what: str, url: str, named_by: str, headers: Mapping[str, str] | None = None) -> Any:
        """Fetch a JSON object. None: the server says that it has no such document.

        Args:
            what: the document in words, for errors. named_by: the URL of whoever named this address.
        """
        reply = self._send(what, url, named_by, "GET", {"Accept": "application/json", **(headers or {})}, None, {})
        if 400 <= reply.status < 500 and reply.status not in (408, 429):
            return None
        if reply.status != 200:
            raise AuthorizationError(f"{what}: {shown(url)} answered with HTTP status {reply.status}")
        try:
            return _json(reply)
        except ValueError as problem:
            raise AuthorizationError(f"{what}: {shown(url)} {problem}") from None

    def post(
        self,
        what: str,
        url: str,
        named_by: str,
        form: Mapping[str, str] | None = None,
        document: JsonObject | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Fetched, JsonObject]:
        """Send a form, or JSON. Returns the reply, whatever its status, and its JSON object.

        Instead of what is not one, it has an `error_description` of ours, which says how the body begins.
        """
        body = messages.encode(document) if document is not None else urlencode(form or {}).encode()
        kind = FORM if document is None else "application/json"
        sent = {"Accept": "application/json", "Content-Type": kind, **(headers or {})}
        reply = self._send(what, url, named_by, "POST", sent, body, document or form or {})
        try:
            return reply, _json(reply)
        except ValueError as problem:
            # How the body begins, without what may be secret: a value by its name, or a long word.
            start = _SECRET.sub(r"\1[...]", " ".join(reply.body[:1000].decode("utf-8", "replace").split()))
            but = f", but with {_LONG_WORD.sub('[...]', start)[:120]}" if start else ""
            return reply, {"error_description": f"it {problem}{but}"}

    def _send(
        self,
        what: str,
        url: str,
        named_by: str,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        said: Mapping[str, Any],
    ) -> Fetched:
        usable(what, url, named_by)
        log.debug("%s: %s %s", what, method, shown(url))
        if self._note is not None:
            self._note("send", {"method": method, "what": what, "url": shown(url), "oauth": without_secrets(said)})
        try:
            reply = fetch(url, self._reach, method=method, headers=headers, body=body, via=self._http, outer=self._call)
        except (TransportClosed, RequestTimeout, RemoteProtocolError) as problem:
            raise AuthorizationError(f"{what}: no answer from {shown(url)}: {problem}") from problem
        if self._note is not None:
            try:
                answered = messages.decode(reply.body)
            except Refusal:
                answered = None
            told = {"method": method, "what": what, "status": reply.status, "oauth": without_secrets(answered)}
            self._note("receive", told)
        if 300 <= reply.status < 400:
            # It could lead anywhere: only the address that was named was checked.
            where = shown(reply.headers.get("Location") or "")
            raise AuthorizationError(f"{what}: {shown(url)} redirects to {where!r}, which is not followed")
        return reply


def refuses(reply: Fetched, answer: JsonObject) -> bool:
    """Return whether an answer is a refusal: some servers refuse with status 200."""
    return reply.status not in (200, 201) or not answer.keys().isdisjoint(("error", "error_description"))


def _json(reply: Fetched) -> JsonObject:
    """Return the JSON object of a reply, without members that are null. None may occur twice: that could be read two
    ways.

    Raises: ValueError, whose text says what it did not do.
    """

    def once(pairs: list[tuple[str, Any]]) -> JsonObject:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("a member occurs twice")
        return found

    try:
        messages.decode(reply.body)  # which bounds its depth, and knows more that is not JSON
        found = json.loads(reply.body, object_pairs_hook=once)
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair could not be sent on
    except (Refusal, ValueError) as problem:
        raise ValueError(f"did not answer with JSON: {problem}") from None
    if not isinstance(found, dict):
        raise ValueError("did not answer with a JSON object")
    return {name: value for name, value in found.items() if value is not None}


def without_secrets(said: Any) -> JsonObject:
    """Return what a trace shows of a form, a query or a document: every name, and the values that cannot be secret."""
    said = said if isinstance(said, dict) else {}
    return {name: value if name in _SHOWN else "[redacted]" for name, value in said.items()}


def secrets_in(said: Mapping[str, str]) -> set[str]:
    """Return the values in a form that may be secret."""
    return {value for name, value in said.items() if value and name not in _SHOWN}


def usable(what: str, url: str, named_by: str) -> str:
    """Return the URL, if it is safe to use. Raises: AuthorizationError."""
    # MUST: use authorization server endpoints over https only (basic/authorization#communication-security)
    try:
        return check_url(url, named_by)
    except ValueError as problem:
        raise AuthorizationError(f"{what}: {url[:200]!a} cannot be used: {problem}") from None


def checked(what: str, url: str, wire_type: Any, document: JsonObject) -> Any:
    """Return the document, if it has the members of this type. Raises: AuthorizationError."""
    try:
        checker(wire_type, LATEST_SESSION)(document, "the document")
    except SchemaMismatch as problem:
        raise AuthorizationError(f"{what}: {shown(url)}: {problem}") from None
    return document


def shown(url: str) -> str:
    """Return a URL for a message: without user information and query, and without characters that a terminal acts
    on.
    """
    try:
        parts = urlsplit(url[:500])
    except ValueError:
        return "a malformed URL"
    return ascii(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")[1:-1]
