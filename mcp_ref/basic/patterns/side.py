"""Side: what a peer asks of the role that it serves.

Spec:      basic/index#messages; basic/lifecycle
Upholds:   nothing by itself
Reads:     basic/methods, basic/patterns/reply
Not here:  the two that there are: server/session and client/session
"""

from __future__ import annotations

from typing import Protocol

from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.patterns.reply import Incoming
from mcp_ref.errors import McpError

__all__ = ["Side"]


class Side(Protocol):
    """What a peer asks of the role that it serves: a server's session, or a client."""

    def admit(self, method: str, params: JsonObject) -> JsonObject | None:
        """Decide on a request in the order of arrival; the result where it is known at once, else None.

        Runs in the reader: no user's code, no writing. Raises Refusal.
        """
        ...

    def answer(self, incoming: Incoming) -> JsonObject | None:
        """The result of a request; None where it comes later, by `Peer.finish`. Runs in a worker.

        Raises: Refusal for an error response.
        """
        ...

    def take(self, method: str, params: JsonObject) -> None:
        """Note a notification in the order of arrival. Runs in the reader: no user's code, no writing."""
        ...

    def may_send(self, method: str, *, is_request: bool) -> None:
        """Raise LocalProtocolError where the lifecycle does not allow this message now."""
        ...

    def lost(self, reason: McpError) -> None:
        """Nothing more will arrive. Called once, in whatever thread noticed."""
        ...
