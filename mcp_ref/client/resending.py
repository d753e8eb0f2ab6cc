"""Resending: what becomes of a call whose answer was lost with the connection, in the stateless era.

Spec:      basic/transports/stdio#unexpected-termination; basic/transports/streamable-http; changelog#major-changes
Upholds:   spec_notes/basic/transports/stdio.md, the rows on a server that dies
Reads:     errors.py, basic/methods
Not here:  making another connection (client/client); the session era, where a lost session is lost

A server that dies takes with it what was in flight; nothing says how far it had come. What only reads is sent again. A
tool is called again where it says of itself that this does no harm (`readOnlyHint`, `idempotentHint`), or where the
caller says so (`resend=True`). A request that never went out is always sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import monotonic
from typing import Any, Final

from mcp_ref.basic.methods import JsonObject, Options
from mcp_ref.errors import TransportClosed

__all__ = ["RESENDS", "Restarts", "may_resend"]

RESENDS: Final = 2
"""Times that one call is sent again."""

_READING: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    }
)


def may_resend(
    lost: TransportClosed, method: str, params: JsonObject | None, options: Options | None, tools: Mapping[str, Any]
) -> bool:
    """Whether a request whose connection was lost may be sent again, as another request with another id.

    Args:
        tools: those that are known by name, for what they say of themselves.
    """
    if not lost.sent:
        return True
    chosen = (options or {}).get("resend")
    if chosen is not None:
        return chosen
    if method != "tools/call":
        return method in _READING
    known = tools.get((params or {}).get("name", ""))
    hints = {} if known is None else known.tool.get("annotations") or {}
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


class Restarts:
    """How often a server was started again of late: one that dies at once is not started without end.

    Threads: one at a time.
    """

    def __init__(self, most: int = 5, within: float = 60.0) -> None:
        self._most, self._within = most, within
        self._times: deque[float] = deque()

    def take(self) -> bool:
        """Count one more; False where there were too many."""
        now = monotonic()
        while self._times and self._times[0] < now - self._within:
            self._times.popleft()
        if len(self._times) >= self._most:
            return False
        self._times.append(now)
        return True
