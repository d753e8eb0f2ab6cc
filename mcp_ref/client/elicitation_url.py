"""Elicitation in URL mode: asking, completion, the error -32042, and what makes a URL fit to be visited.

Spec:      client/elicitation#url-mode-elicitation-requests, #safe-url-handling (2025-11-25 ... 2026-07-28)
Upholds:   spec_notes/client/elicitation.md, the rows on the URL mode
Reads:     client/answering, client/elicitation_types, basic/formats
Not here:  opening a browser (the user's function); fetching anything, which the page forbids
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from mcp_ref.basic.formats import is_uri
from mcp_ref.basic.methods import Answering, Caller, JsonObject, Notifying, Options
from mcp_ref.client.answering import call
from mcp_ref.client.elicitation_types import ElicitRequestURLParams, ElicitResult, ElicitUrlResult, check_mode
from mcp_ref.errors import ErrorResponse, InvalidParams, LocalProtocolError, RemoteProtocolError, UrlElicitationRequired

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address
    from urllib.parse import SplitResult

__all__ = [
    "PendingUrls",
    "UrlHandler",
    "complete_elicitation",
    "elicit_url",
    "required_urls",
    "url_elicitation",
    "url_warnings",
    "visit",
]

_log = logging.getLogger(__name__)


# -- the server asks -------------------------------------------------------------------------------------------


def elicit_url(
    self: Caller, message: str, url: str, *, elicitation_id: str | None = None, **options: Unpack[Options]
) -> ElicitUrlResult:
    """Ask the user to visit a page, with `elicitation/create` in URL mode: for secrets and payments.

    That page MUST make sure that whoever opens it is the user who was asked. The URL holds nothing about the user, and
    opens nothing that is protected by itself.

    Args:
        message: why the visit is needed, for the user.
        url: an `https` URL; `http` is for development (it is sent, and logged).
        elicitation_id: a string that names this visit and no other; left out: a random one.
    Returns: `action` and `elicitationId`. "accept" means that the user agreed to go there, not that anything is done.
    Raises:
        LocalProtocolError: not a URL to visit, or one with a password in it; the client did not declare the URL mode;
            the revision has none. Nothing was sent.
        ErrorResponse, RequestTimeout, TransportClosed, RemoteProtocolError: as for every request.
    Blocks: until the user has agreed or not; bounded by `timeout`.
    Threads: the handler's own.
    Spec: client/elicitation#url-mode-elicitation-requests
    """
    check_mode(self, "url")
    params = url_elicitation(message, url, elicitation_id)
    result = self.request("elicitation/create", cast(JsonObject, params), options)
    # There is no form, so there are no values (client/elicitation#response-actions).
    kept = {key: value for key, value in result.items() if key != "content"}
    return cast(ElicitUrlResult, {**kept, "elicitationId": params["elicitationId"]})


def url_elicitation(message: str, url: str, elicitation_id: str | None = None) -> ElicitRequestURLParams:
    """The parameters of a URL elicitation; a list of them is what `errors.UrlElicitationRequired` takes.

    Args: as for `elicit_url`.
    Returns: `mode`, `message`, `elicitationId` and `url`.
    Raises: LocalProtocolError: not a URL to visit, or one with a password in it.
    Spec: client/elicitation#url-elicitation-required-error
    """
    problem = _url_problem(url)
    # MUST NOT: credentials in the URL (client/elicitation#safe-url-handling)
    if problem is None and "@" in _parts(url).netloc:
        problem = "a URL with a user or a password in it"
    if problem is not None:
        raise LocalProtocolError(f"{problem}: {url!r}")
    # SHOULD: https outside development (client/elicitation#safe-url-handling)
    if not _is_protected(url):
        _log.warning("an elicitation sends the user to a page over plain http, on %s", _parts(url).hostname)
    return {"mode": "url", "message": message, "elicitationId": elicitation_id or _new_id(), "url": url}


def _new_id() -> str:
    from uuid import uuid4

    return str(uuid4())


def complete_elicitation(self: Notifying, elicitation_id: str) -> None:
    """Tell the client with `notifications/elicitation/complete` that a visit has ended; it may then ask again.

    It goes to the client that was asked, also after the request that asked is answered: keep `ctx.complete_elicitation`
    for whoever learns that the visit has ended.

    Args: elicitation_id: as in the result of `elicit_url`, or in the entry of the error.
    Raises: LocalProtocolError: the revision has no such notification, or the client did not declare the URL mode.
    Blocks: until it is written.
    Threads: any.
    Spec: client/elicitation#completion-notifications-for-url-mode-elicitation
    """
    self.notify("notifications/elicitation/complete", {"elicitationId": elicitation_id})


# -- URLs -------------------------------------------------------------------------------------------------------


def _parts(url: str) -> SplitResult:
    from urllib.parse import urlsplit

    return urlsplit(url)


def _url_problem(url: str) -> str | None:
    """What keeps a string from being a URL that a person can visit."""
    # MUST: a valid URL (client/elicitation#url-mode-elicitation-requests)
    if not is_uri(url):
        return "not a URL"
    parts = _parts(url)
    return None if parts.scheme in ("http", "https") and parts.hostname else "not an https URL"


def _is_protected(url: str) -> bool:
    """Whether nobody on the way can read along: encrypted, or not leaving this machine."""
    parts = _parts(url)
    return parts.scheme == "https" or _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    address = _address(host)
    if address is not None:
        return address.is_loopback
    return host == "localhost" or host.endswith(".localhost")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    from ipaddress import ip_address

    try:
        return ip_address(host)
    except ValueError:
        return None


def url_warnings(url: str) -> list[str]:
    """What a user should be told before visiting a URL, each a short English phrase; empty if nothing stands out.

    Spec: client/elicitation#safe-url-handling
    """
    parts = _parts(url)
    host = parts.hostname or ""
    signs = {
        "the address begins with a user name, which can hide the real host": "@" in parts.netloc,
        "the host name has letters that may look like others (Punycode)": "xn--" in host,
        "the host is a number and not a name": _address(host) is not None and not _is_loopback(host),
        "the connection is not encrypted": not _is_protected(url),
    }
    return [warning for warning, given in signs.items() if given]


# -- the client answers ----------------------------------------------------------------------------------------

UrlHandler = Callable[..., ElicitResult | bool | None]
"""What `Client(..., open_url=...)` takes: `(url, message, host) -> bool`, or with `ctx` as a fourth parameter.

It shows the user the whole URL, its host and which server asks, and opens it only after a yes, in a browser that
neither this program nor a model can look into. True: they agreed and it is open; False: they refused; None: neither.
`url_warnings(url)` says what is odd about it. Nothing is ever fetched here.
"""


MOST_PENDING = 10_000
"""Visits that are remembered."""


class PendingUrls:
    """The visits that the user agreed to and that have not been reported as finished.

    Threads: any; each method is one operation on a dict.
    Spec: client/elicitation#completion-notifications-for-url-mode-elicitation
    """

    def __init__(self) -> None:
        self._ids: dict[str, bool] = {}

    def add(self, elicitation_id: str) -> None:
        """Remember a visit; the oldest is forgotten where a server never reports its `MOST_PENDING` ends."""
        self._ids[elicitation_id] = True
        if len(self._ids) > MOST_PENDING:
            self._ids.pop(next(iter(self._ids)), None)

    def complete(self, elicitation_id: str) -> bool:
        """Forget a visit; whether it was known."""
        return self._ids.pop(elicitation_id, False)


def visit(handler: UrlHandler, pending: PendingUrls, ctx: Answering, params: ElicitRequestURLParams) -> ElicitResult:
    """Answer one URL elicitation: let the user decide, and remember the visit if they go.

    Raises: InvalidParams: a URL that is neither `https` nor `http` on this machine (the page allows more, and says
        that servers should not use it); LocalProtocolError: the handler returned something else.
    Blocks: as long as the handler does.
    Spec: client/elicitation#safe-url-handling
    """
    url, name = params["url"], params.get("elicitationId")
    problem = _url_problem(url) or (None if _is_protected(url) else "plain http to another machine")
    if problem is not None:
        raise InvalidParams(f"params.url: {problem}")
    # Before the user is asked: the visit may end, and that be reported, before the handler returns.
    if name is not None:
        pending.add(name)
    result: ElicitResult = {"action": "cancel"}
    try:
        result = _consent(call(handler, ctx, url, params["message"], _parts(url).hostname))
    finally:
        if name is not None and result["action"] != "accept":
            pending.complete(name)
    return result


def _consent(returned: Any) -> ElicitResult:
    action = returned.get("action") if isinstance(returned, dict) else _CONSENT.get(returned)
    if action not in _CONSENT.values():
        raise LocalProtocolError("an open_url handler returns True, False or None")
    return cast(ElicitResult, {"action": action})


_CONSENT: Final = {True: "accept", False: "decline", None: "cancel"}


def required_urls(error: ErrorResponse) -> list[ElicitRequestURLParams]:
    """The visits that an error -32042 asks for before the request can be sent again; none for any other error.

    `Client.visit_required` asks the user for each.

    Raises: RemoteProtocolError: the error does not list URL elicitations with an id each.
    Spec: client/elicitation#url-elicitation-required-error
    """
    if error.code != UrlElicitationRequired.code:
        return []
    listed = error.data.get("elicitations") if isinstance(error.data, dict) else None
    # MUST: a list, all of them URL elicitations with an id
    if not isinstance(listed, list) or not all(_is_url_elicitation(each) for each in listed):
        raise RemoteProtocolError(f"the error {error.code} does not list the URL elicitations that it requires")
    return listed


def _is_url_elicitation(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.get("mode") != "url":
        return False
    return all(isinstance(entry.get(key), str) for key in ("message", "url", "elicitationId"))
