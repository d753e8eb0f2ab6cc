"""Fetching what a stranger has named: https, no redirects, no address of a network that the stranger cannot see itself.

Contract: `fetch` sends one request, and reads at most 1 MiB of its response within 30 seconds. Whoever names a URL may
make this machine send a request (server-side request forgery), so:

- `check_url` allows https, and http only if the URL and whoever named it are on this machine;
- `Reach` allows addresses of the internet, and beside them only those of the kind that the first server itself has. It
  is asked when the connection is made, so a name that resolves differently a second time gains nothing. Through a proxy
  the address cannot be known, unless the URL has it literally;
- it sends neither cookies nor anybody's headers, and a redirect is a response like any other.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from mcp_ref.errors import TransportClosed
from mcp_ref.kit.http.http_call import HttpCall
from mcp_ref.kit.threads.deadline import Deadline

if TYPE_CHECKING:
    from mcp_ref.kit.http.http_client import HttpClient

MAX_DOCUMENT: Final = 1 << 20  # bytes
FETCH_TIMEOUT: Final = 30.0  # seconds

Kind = Literal["global", "private", "loopback", "other"]

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_URL: Final = re.compile(r"[!#-;=?-\[\]_a-z~]{1,8192}")
"""The characters that a URL can have, and no backslash, which some read as a slash."""


class Fetched(NamedTuple):
    """A response, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Reach(NamedTuple):
    """The addresses to which a server may send us.

    Attributes:
        kind: of the server's own address. A server on this machine, or in a private network, may name its neighbours.
        private: whether it may name addresses in private networks wherever it is itself.
        anywhere: whether it may name every address.
    """

    kind: Kind = "global"
    private: bool = False
    anywhere: bool = False

    def admits(self, address: str) -> bool:
        """Return whether a connection to an address may be made."""
        kind = kind_of(address)
        admitted = {"global", self.kind, "private" if self.private else "global"} - {"other"}
        return self.anywhere or kind in admitted


def kind_of(address: str) -> Kind:
    """Return what an IP address is; "other" for link-local, unspecified, multicast and reserved ones, and for other
    text.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "other"
    if isinstance(ip, ipaddress.IPv6Address):
        # Some lead to an IPv4 address elsewhere: that is nobody's neighbour. Site-local ones pass for global in Python.
        there = (
            ipaddress.IPv4Address(ip.packed[12:]) if ip in _NAT64 else ip.sixtofour or (ip.teredo or [None, None])[1]
        )
        if ip.is_site_local or (there is not None and not there.is_global):
            return "other"
        ip = ip.ipv4_mapped or there or ip
    if ip.is_loopback:
        return "loopback"
    if ip.is_link_local or ip.is_unspecified or ip.is_multicast or ip.is_reserved:
        return "other"
    return "global" if ip.is_global else "private"


def is_loopback(url: str) -> bool:
    """Return whether the host of a URL (or of "//HOST") is this machine, by its name or by its literal address."""
    host = (urlsplit(url).hostname or "").lower()
    return host == "localhost" or kind_of(host) == "loopback"


def is_secure(url: str) -> bool:
    """Return whether a URL is https, or http on this machine, and has nothing in it that does not belong there."""
    try:
        return bool(check_url(url, url))
    except ValueError:
        return False


def check_url(url: Any, named_by: str) -> str:
    """Return the URL, if it may be fetched, or shown to a user's browser.

    Args:
        named_by: the URL of whoever names it.

    Raises: ValueError: it is not https (or http on this machine, named by somebody there), it has user information or a
        fragment, or it has characters that a URL cannot have.
    """
    if not isinstance(url, str) or not _URL.fullmatch(url):
        raise ValueError("it is not a URL")
    parts = urlsplit(url)
    local = is_loopback(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and local and is_loopback(named_by)):
        raise ValueError("it is not https")
    if not parts.hostname or "@" in parts.netloc or "#" in url:
        raise ValueError("it has no host, or user information, or a fragment")
    _ = parts.port  # ValueError
    return url


def fetch(
    url: str,
    reach: Reach,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    via: HttpClient | None = None,
    outer: HttpCall | None = None,
) -> Fetched:
    """Send a request to a URL that `check_url` has allowed; gives the response, whatever its status.

    Args:
        via: the client on whose behalf this is fetched: it is closed together with it, and has its `shared` options.
        outer: the call that waits for this; whatever cuts it ends the fetch.

    Blocks: at most 30 seconds.
    Raises: TransportClosed, RequestTimeout, RemoteProtocolError (it is too long, or encoded), and whatever cut `outer`.
    """
    import requests

    from mcp_ref.kit.http.http_client import HttpClient

    shared: Mapping[str, Any] = {} if via is None else via.shared
    proxies = dict(shared.get("proxies") or {})
    if shared.get("trust_env"):
        proxies = {**requests.utils.get_environ_proxies(url), **proxies}
    proxied = requests.utils.select_proxy(url, proxies) is not None
    if proxied and (literal := _literal(urlsplit(url).hostname or "")) and not reach.admits(literal):
        raise TransportClosed(f"{literal} is not an address that this server may send us to")
    client = HttpClient(url, shared)
    call = HttpCall(Deadline(FETCH_TIMEOUT)) if outer is None else outer.begin_inner(Deadline(FETCH_TIMEOUT))
    try:
        call.admits = None if proxied else reach.admits
        (via or client).begin(call)
        response = client.open(call, method, headers or {}, body, follow=False)
        return Fetched(response.status, response.headers, response.body(MAX_DOCUMENT))
    finally:
        (via or client).end(call)
        client.close(Deadline(1))
        if outer is not None:
            outer.inner = None


def _literal(host: str) -> str | None:
    """Return the address that a host is, in any of its ways to write it; None for a name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        # 2130706433, 0x7f.1 and 0177.0.0.1 are addresses too.
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None
