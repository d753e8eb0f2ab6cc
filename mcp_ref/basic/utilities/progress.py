"""Progress: `notifications/progress`.

Spec:      basic/utilities/progress (2024-11-05 ... 2025-11-25), basic/patterns/progress (2026-07-28)
Upholds:   spec_notes/basic/utilities/progress.md
Reads:     basic/types
Not here:  the token of a request and the callback (basic/patterns/request_response)
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NotRequired, Protocol

from mcp_ref.basic.methods import JsonObject, Method
from mcp_ref.basic.types import NotificationParams, ProgressToken
from mcp_ref.errors import LocalProtocolError
from mcp_ref.schema import Since

__all__ = ["METHODS", "ProgressNotificationParams", "Reporting", "progress", "token_of"]


class ProgressNotificationParams(NotificationParams):
    """How far a request has come. `progress` grows; `total`, where known, is what it grows towards."""

    progressToken: ProgressToken
    progress: float
    total: NotRequired[float]
    message: NotRequired[Annotated[str, Since("2025-03-26")]]


class Reporting(Protocol):
    """What can report progress: the context of a request that is being served."""

    progress_token: ProgressToken | None
    last_progress: float | None

    def notify(self, method: str, params: JsonObject | None = None) -> None: ...


def token_of(params: JsonObject | None) -> ProgressToken | None:
    """The progress token that a request carries, or None; `0` and `""` are tokens, a boolean is none."""
    meta = params.get("_meta") if params else None
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if type(token) is str or type(token) is int else None


def progress(self: Reporting, progress: float, total: float | None = None, message: str | None = None) -> None:
    """Report with `notifications/progress` how far this request has come; does nothing when its sender did not ask.

    Args:
        progress: how much is done, in any unit; larger at each report.
        total: how much there is, in the same unit, where known.
        message: what is being done, for a person; left out on the wire before 2025-03-26.

    Blocks: until the notification is written.
    Raises: LocalProtocolError when progress does not grow or is not a finite number.
    Threads: any, one at a time, while the request is being served; after its answer nothing is sent.
    Spec: basic/utilities/progress#progress-flow
    """
    _check_number("progress", progress)
    if total is not None:
        _check_number("total", total)
    # MUST: increase with each notification (basic/utilities/progress#progress-flow)
    if self.last_progress is not None and progress <= self.last_progress:
        raise LocalProtocolError(f"progress must increase: {progress!r} after {self.last_progress!r}")
    self.last_progress = progress
    if self.progress_token is None:
        return
    params: JsonObject = {"progressToken": self.progress_token, "progress": progress}
    if total is not None:
        params["total"] = total
    if message is not None:
        params["message"] = message
    self.notify("notifications/progress", params)


def _check_number(name: str, value: Any) -> None:
    # An integer is finite, also one that is too large for a float.
    if type(value) is not int and not (isinstance(value, float) and math.isfinite(value)):
        raise LocalProtocolError(f"{name} must be a finite number, not {value!r}")


METHODS = (
    Method(
        name="notifications/progress",
        kind="notification",
        sender="both",
        page="basic/utilities/progress",
        about="how far a request has come",
        params=ProgressNotificationParams,
        servers_alone="2026-07-28",
    ),
)
