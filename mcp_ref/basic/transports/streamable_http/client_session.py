"""What a client knows of its HTTP session, and what it puts into every request of it.

Spec:      basic/transports#session-management, #protocol-version-header, #sending-messages-to-the-server
Upholds:   spec_notes/basic/transports.md, the rows on session ids and on the version header
Reads:     revisions.py
Not here:  when a session begins and ends (client.py)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from mcp_ref.errors import McpError, RemoteProtocolError
from mcp_ref.revisions import Revision

__all__ = ["CLOSED", "JSON", "SESSION_ID", "ClientSession", "Interrupted", "checked_headers", "checked_url"]

CLOSED = "closed by this side"
"""The reason of an end that `close()` brought about."""

JSON = "application/json"
SESSION_ID = "Mcp-Session-Id"
VERSION = "MCP-Protocol-Version"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_OURS = frozenset(
    ("accept", "accept-encoding", "connection", "content-length", "content-type", "last-event-id")
    + ("mcp-protocol-version", "mcp-session-id", "transfer-encoding")
)


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


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of a user's headers.

    Raises: ValueError: a name is none, a value has a line break or cannot be sent as it is, or the transport sets
        this header itself.
    """
    for name, value in (headers or {}).items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"this is not the name of a header: {name!r}")
        if name.lower() in _OURS:
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
