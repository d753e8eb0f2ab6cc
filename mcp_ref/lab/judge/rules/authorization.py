"""Authorization, as far as it passes between a client and its server: tokens, challenges, the resource's metadata.

Spec:      basic/authorization (2025-03-26 ... 2026-07-28)
Not here:  what passes between a client and an authorization server: the traffic does not come by here

A challenge comes before a revision is spoken, mostly: it is judged once the server has said its own.
"""

from __future__ import annotations

import re

from mcp_ref import JsonObject
from mcp_ref.lab.judge.rules.seen import Exchange, Link, Verdict, as_list, rule, shown
from mcp_ref.recording.record import TraceEvent


@rule("head")
def authorization_is_sent_each_time(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    asks = exchange.method in ("GET", "POST", "DELETE") and "authorization" not in exchange.headers
    return "Authorization, as in the request before" if asks and link.authorized else None


@rule("head")
def tokens_are_not_in_the_url(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    return "the token in Authorization alone" if "access_token" in as_list((event.http or {}).get("query")) else None


# -- challenges ---------------------------------------------------------------------------------------------------


def _said(exchange: Exchange, name: str) -> str | None:
    """Return a parameter of the challenge; None if it is missing."""
    challenge = exchange.answers.get("www-authenticate", "")
    found = re.search(rf'(?:^|[\s,]){name}\s*=\s*(?:"([^"]*)"|([^\s,"]+))', challenge, re.I)
    value = None if found is None else found[1] if found[1] is not None else found[2]
    shown(challenge), shown(value)
    return value


def _is_foreign(exchange: Exchange) -> bool:
    """Return whether a challenge asks for no token: a gateway before the server wants something for itself."""
    return not re.search(r"(^|,)\s*Bearer\b|^$|^\[redacted", exchange.answers.get("www-authenticate", ""), re.I)


def _lacks_scope(exchange: Exchange) -> bool:
    return _said(exchange, "error") == "insufficient_scope"


@rule("challenge")
def unauthorized_says_where(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    misses = exchange.status == 401 and not _is_foreign(exchange) and _said(exchange, "resource_metadata") is None
    return "WWW-Authenticate with resource_metadata" if misses else None


@rule("challenge")
def challenges_name_the_scopes(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    challenged = exchange.status == 401 and "www-authenticate" in exchange.answers and not _is_foreign(exchange)
    return "scope in WWW-Authenticate" if challenged and _said(exchange, "scope") is None else None


@rule("challenge")
def insufficient_scope_is_403(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    return "403" if _lacks_scope(exchange) and exchange.status != 403 else None


@rule("challenge")
def invalid_tokens_are_401(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    return "401" if exchange.status != 401 and _said(exchange, "error") == "invalid_token" else None


@rule("challenge")
def insufficient_scope_names_the_scopes(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    misses = exchange.status == 403 and _lacks_scope(exchange) and _said(exchange, "scope") is None
    return "scope in WWW-Authenticate, with those that are needed" if misses else None


@rule("challenge")
def insufficient_scope_names_the_metadata(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    misses = _lacks_scope(exchange) and _said(exchange, "resource_metadata") is None
    return "resource_metadata in WWW-Authenticate" if misses else None


_OFFLINE = "offline_access"


@rule("challenge")
def challenges_leave_offline_access_out(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    return f"no {_OFFLINE} in scope" if _OFFLINE in (_said(exchange, "scope") or "").split() else None


# -- metadata of the resource -------------------------------------------------------------------------------------


@rule("metadata")
def metadata_names_authorization_servers(link: Link, document: JsonObject, event: TraceEvent) -> Verdict:
    named = shown(document.get("authorization_servers"))
    return None if isinstance(named, list) and named else "authorization_servers, with one or more"


@rule("metadata")
def metadata_leaves_offline_access_out(link: Link, document: JsonObject, event: TraceEvent) -> Verdict:
    return f"no {_OFFLINE} in scopes_supported" if _OFFLINE in as_list(document.get("scopes_supported")) else None
