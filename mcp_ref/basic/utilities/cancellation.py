"""Cancellation: `notifications/cancelled`.

Spec:      basic/utilities/cancellation (2024-11-05 ... 2025-11-25), basic/patterns/cancellation (2026-07-28)
Upholds:   spec_notes/basic/utilities/cancellation.md
Reads:     basic/types
Not here:  the tables of requests in flight and the races between an answer and a cancellation
           (basic/patterns/request_response)
"""

from __future__ import annotations

from typing import Annotated, NotRequired

from mcp_ref.basic.methods import JsonObject, Method
from mcp_ref.basic.types import NotificationParams
from mcp_ref.schema import RequiredIn

__all__ = ["METHODS", "UNCANCELLABLE", "CancelledNotificationParams", "cancelled_params"]

UNCANCELLABLE = frozenset({"initialize"})
"""MUST NOT be cancelled by clients (basic/utilities/cancellation#behavior-requirements); the transport is closed."""


class CancelledNotificationParams(NotificationParams):
    """Which request the sender gives up, and why. 2025-11-25 makes the id optional, for tasks only."""

    requestId: NotRequired[Annotated[str | int, RequiredIn("2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28")]]
    reason: NotRequired[str]


def cancelled_params(request_id: str | int, reason: str | None) -> JsonObject:
    """The params that give up a request; `reason` is for a person and may be left out."""
    return {"requestId": request_id} if reason is None else {"requestId": request_id, "reason": reason}


METHODS = (
    Method(
        name="notifications/cancelled",
        kind="notification",
        sender="both",
        page="basic/utilities/cancellation",
        about="give up a request that is still in flight",
        params=CancelledNotificationParams,
    ),
)
