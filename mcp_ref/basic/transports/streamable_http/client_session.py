"""What a client is told of HTTP, what it knows of its session, and what it puts into every request of it.

Spec:      basic/transports#session-management, #protocol-version-header, #sending-messages-to-the-server
Upholds:   spec_notes/basic/transports.md, the rows on session ids and on the version header
Reads:     revisions.py
Not here:  when a session begins and ends (client.py)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypedDict
from urllib.parse import urlsplit

from mcp_ref.basic.transports.transport import Tap
from mcp_ref.errors import McpError, RemoteProtocolError
from mcp_ref.revisions import Revision

__all__ = [
    "CLOSED",
    "JSON",
    "SESSION_ID",
    "ClientSession",
    "HttpOptions",
    "Interrupted",
    "checked_headers",
    "checked_options",
    "checked_url",
]

CLOSED = "closed by this side"
"""The reason of an end that `close()` brought about."""

JSON = "application/json"
SESSION_ID = "Mcp-Session-Id"
VERSION = "MCP-Protocol-Version"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_OURS = frozenset(
    ("accept", "accept-encoding", "connection", "content-length", "content-type", "last-event-id")
    + ("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "transfer-encoding")
)
_OUR_PREFIX = "mcp-param-"


class HttpOptions(TypedDict, total=False):
    """What the client's HTTP transports are told beside the URL; each may be left out.

    Attributes:
        headers: sent with every request, such as Authorization.
        verify: whether certificates are checked (they are), or the path of a CA bundle.
        cert: the client's certificate: the path of a file with it and its key, or the two paths.
        proxies: by scheme of the URL, such as {"https": "http://proxy:3128"}; SOCKS proxies are refused.
        trust_env: whether the environment may name proxies and a CA bundle (HTTPS_PROXY, REQUESTS_CA_BUNDLE, ...);
            it may not, unless this says so.
        tap: is shown every message.
    """

    headers: Mapping[str, str] | None
    verify: bool | str
    cert: str | tuple[str, str] | None
    proxies: Mapping[str, str] | None
    trust_env: bool
    tap: Tap | None


class Interrupted(McpError):
    """Another thread has given the call up."""


class ClientSession(NamedTuple):
    """One session, as far as it is known.

    Attributes:
        revision: what was agreed on; None before.
        id: what the server assigned with the answer to `initialize`, or None.
    """

    revision: Revision | None = None
    id: str | None = None

    def headers(self) -> dict[str, str]:
        """The headers that every request of the session has. Before the agreement there are none."""
        headers: dict[str, str] = {}
        if self.revision is None:
            return headers
        # MUST: on all subsequent requests (basic/transports#session-management)
        if self.id is not None:
            headers[SESSION_ID] = self.id
        # MUST: on all subsequent requests (basic/transports#protocol-version-header)
        if self.revision.version_header:
            headers[VERSION] = self.revision.name
        return headers

    def agreed(self, revision: Revision) -> ClientSession:
        """The same session, once the two sides have agreed on a revision."""
        return self._replace(revision=revision, id=self.id if revision.session_header else None)

    def assigned(self, value: str | None) -> ClientSession:
        """The same session with the id that came with a reply to `initialize`.

        Raises: RemoteProtocolError: it has other characters than visible ASCII.
        """
        # MUST: only visible ASCII (basic/transports#session-management)
        if value is not None and not _VISIBLE.fullmatch(value):
            raise RemoteProtocolError(f"the server assigned a session id that is not visible ASCII: {value[:80]!r}")
        return self._replace(id=value)


def checked_url(url: str) -> str:
    """The URL without its fragment; ValueError when it is none of http or https."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the URL of a server begins with http:// or https:// and a host, unlike {url!r}")
    return parts._replace(fragment="").geturl()


def checked_options(options: HttpOptions) -> HttpOptions:
    """A copy of the options, with a copy of the headers.

    Raises: TypeError: there is no such option. ValueError: a header cannot be sent, or a proxy is of SOCKS.
    """
    if unknown := options.keys() - HttpOptions.__annotations__.keys():
        raise TypeError(f"unexpected keyword argument: {', '.join(sorted(unknown))}")
    if any(proxy.lower().startswith("socks") for proxy in (options.get("proxies") or {}).values()):
        raise ValueError("SOCKS proxies are not supported")
    return {**options, "headers": checked_headers(options.get("headers"))}


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of a user's headers.

    Raises: ValueError: a name is none, a value has a line break or cannot be sent as it is, or the transport sets
        this header itself.
    """
    for name, value in (headers or {}).items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"this is not the name of a header: {name!r}")
        if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIX):
            raise ValueError(f"the header {name} is set by the transport")
        # The value itself is not shown: it may be a secret.
        if value != value.strip() or any(character in value for character in "\r\n\0") or not _is_latin_1(value):
            raise ValueError(f"the value of the header {name} cannot be sent: a line break, white space around it, ...")
    return dict(headers or {})


def _is_latin_1(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
