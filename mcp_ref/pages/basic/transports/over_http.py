"""The further duties of a transport over HTTP: it knows how far the session is, and says things in headers.

Spec:      basic/transports#streamable-http; 2026-07-28/basic/transports/streamable-http#request-metadata
Upholds:   spec_notes/basic/transports.md, the rows on custom transports
Not here:  the transports themselves (streamable_http/client, http_sse); what every transport is (wire/transport)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from mcp_ref.revisions import Revision
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.transport import Transport

Mirror = Callable[[JsonObject], Mapping[str, str]]
"""The headers that repeat what a request or notification says; values as they go on the wire. It must not block."""


@runtime_checkable
class SessionTransport(Transport, Protocol):
    """A transport that must know how far the session is: over HTTP each request says its revision and its session."""

    def agreed(self, revision: Revision) -> None:
        """Speak that revision from now on: the answer to `initialize` was acceptable."""
        ...

    def opened(self, revision: Revision) -> None:
        """Open the standing stream, if any: `notifications/initialized` was sent. Blocks until it is open; bounded."""
        ...


@runtime_checkable
class MirroringTransport(Transport, Protocol):
    """A transport that sends headers along with each message, once it is told how to make them.

    Attributes:
        mirror: makes them; None: the transport does as in the session era. May be set at any time.
        hangs_up: see `Transport`; true while `mirror` is set.

    Spec: 2026-07-28/basic/transports/streamable-http#request-metadata
    """

    mirror: Mirror | None

    @property
    def hangs_up(self) -> bool: ...
