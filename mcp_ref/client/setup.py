"""Setup: what every conversation of one client has in common, whatever its era.

Spec:      client/index (2024-11-05); basic/versioning (2026-07-28)
Upholds:   nothing by itself
Reads:     basic/lifecycle (Introduction), client/answers, client/events
Not here:  the conversations (client/session, client/stateless)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mcp_ref.basic.lifecycle import Introduction
from mcp_ref.basic.methods import JsonObject
from mcp_ref.client.answers import Answers
from mcp_ref.client.events import Events

if TYPE_CHECKING:
    from mcp_ref.client.result_cache import CacheView

__all__ = ["Setup"]


class Setup(NamedTuple):
    """What a client was given.

    Attributes:
        introduction: what the client says of itself.
        answers: the user's functions for the server's questions.
        events, on_log, on_change: the user's callbacks, and the thread that calls them.
        timeout: seconds that a call waits where it does not say.
        ping_interval: seconds between pings, or None.
        cache: the results that may be used again, or None.
        kinds: values of `resultType` that an extension has, beside those of the protocol.
        probe_timeout: seconds in which a server must say that it is of the stateless era.
    """

    introduction: Introduction
    answers: Answers
    events: Events
    on_log: Callable[[JsonObject], None] | None
    on_change: Callable[[str, JsonObject], None] | None
    timeout: float | None
    ping_interval: float | None
    cache: CacheView | None = None
    kinds: frozenset[str] = frozenset()
    probe_timeout: float = 5.0
