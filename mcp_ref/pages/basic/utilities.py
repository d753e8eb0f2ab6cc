"""Ping, cancellation and progress: `ping`, `notifications/cancelled`, `notifications/progress`.

Spec:      basic/utilities/ping (2024-11-05 ... 2025-11-25), basic/utilities/cancellation, basic/utilities/progress;
           basic/patterns/cancellation, basic/patterns/progress (2026-07-28)
Upholds:   spec_notes/basic/utilities/ping.md, spec_notes/basic/utilities/cancellation.md,
           spec_notes/basic/utilities/progress.md
Not here:  giving a request up, and being given up (connection/connection, wire/served); the time limit that progress
           extends (kit/threads/deadline); pings at intervals (connection/keep_alive)
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Annotated, NotRequired, Unpack

from mcp_ref.errors import LocalProtocolError, RequestCancelled
from mcp_ref.kit.typed.shapes import RequiredIn, Since
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Caller, Method, Options
from mcp_ref.wire.types import EmptyResult, NotificationParams, ProgressToken, RequestParams

if TYPE_CHECKING:
    from mcp_ref.wire.served import ServedRequest

# -- ping -----------------------------------------------------------------------------------------------------------


def answer_ping() -> EmptyResult:
    """Answer a ping, without waiting for any handler."""
    # MUST: respond promptly to a ping, with an empty response (basic/utilities/ping#behavior-requirements)
    return {}


def ping(self: Caller, **options: Unpack[Options]) -> None:
    """Ask with `ping` whether the peer still answers."""
    self.request("ping", None, options)


# -- cancellation -----------------------------------------------------------------------------------------------------

# A client MUST NOT cancel its `initialize` request (basic/utilities/cancellation#behavior-requirements)
UNCANCELLABLE = frozenset({"initialize"})
"""To give it up, the transport is closed."""


class CancelledNotificationParams(NotificationParams):
    """The request that the sender gives up, and why. 2025-11-25 makes the id optional, for tasks only."""

    requestId: NotRequired[Annotated[str | int, RequiredIn("2024-11-05", "2025-06-18"), RequiredIn("2026-07-28")]]
    reason: NotRequired[str]


def cancelled_params(request_id: str | int, reason: str | None) -> JsonObject:
    """Return the params that give up a request; `reason` is for a person and may be left out."""
    return {"requestId": request_id} if reason is None else {"requestId": request_id, "reason": reason}


# -- progress ---------------------------------------------------------------------------------------------------------


class ProgressNotificationParams(NotificationParams):
    """The progress of a request. `progress` grows; `total`, if it is known, is what it grows towards."""

    progressToken: ProgressToken
    progress: float
    total: NotRequired[float]
    message: NotRequired[Annotated[str, Since("2025-03-26")]]


def token_of(params: JsonObject | None) -> ProgressToken | None:
    """Return the progress token that a request carries, or None; `0` and `""` are tokens, a boolean is not."""
    meta = params.get("_meta") if params else None
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    # MUST: a `progressToken` is a string or an integer (basic/utilities/progress#progress-flow)
    return token if type(token) is str or type(token) is int else None


# -- what a handler may do in either role -----------------------------------------------------------------------------


class HandlerContext:
    """The request that a user's function answers: a `Context` in a server, a `ClientContext` in a client."""

    __slots__ = ("incoming", "last_progress")

    asks = False  # whether its function can ask the peer something
    incoming: ServedRequest
    last_progress: float | None

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification that belongs to this request; nothing is sent once it is answered or given up."""
        raise NotImplementedError

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of this request; empty if it has none."""
        meta: JsonObject = self.incoming.params.get("_meta") or {}
        return meta

    @property
    def progress_token(self) -> ProgressToken | None:
        """The `progressToken` of this request; None if its sender did not ask for progress."""
        return token_of(self.incoming.params)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report with `notifications/progress` how far this request has come; nothing is sent if its sender did not
        ask, or if the number does not grow, which is a warning.

        Args:
            progress: how much is done, in any unit; larger at each report.
            total: how much there is, in the same unit, if that is known.
            message: what is being done, for a person; left out on the wire before 2025-03-26.

        Blocks: until the notification is written.
        Raises: LocalProtocolError: a number is not finite.
        Threads: any, one at a time, while the request is being served; after its answer nothing is sent.
        Spec: basic/utilities/progress#progress-flow
        """
        for name, value in {"progress": progress, "total": 0 if total is None else total}.items():
            # An integer is finite, also one that is too large for a float.
            if type(value) is not int and not (isinstance(value, float) and math.isfinite(value)):
                raise LocalProtocolError(f"{name} must be a finite number, not {value!r}")
        # MUST: the progress value increases with each notification (basic/utilities/progress#progress-flow)
        if self.last_progress is not None and progress <= self.last_progress:
            # Once for each line of a handler: Python sees to that.
            return warnings.warn("progress must increase with each report; what does not is dropped", stacklevel=2)
        self.last_progress = progress
        # MUST: report only to a progressToken that the request carries (basic/utilities/progress#behavior-requirements)
        if (token := self.progress_token) is None:
            return
        params: JsonObject = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self.notify("notifications/progress", params)

    @property
    def cancelled(self) -> bool:
        """Return whether the peer, or the end of the conversation, has given this request up: stop."""
        return self.incoming.cancelled

    def check_cancelled(self) -> None:
        """Raise RequestCancelled if the request was given up; a long handler calls this now and then."""
        if self.incoming.cancelled:
            raise RequestCancelled(self.incoming.reason or "cancelled")


METHODS = (
    Method("ping", "both", "basic/utilities/ping", "ask whether the other side is still there", RequestParams,
           EmptyResult, until="2025-11-25"),
    Method("notifications/cancelled", "both", "basic/utilities/cancellation",
           "give up a request that is still in flight", CancelledNotificationParams),
    Method("notifications/progress", "both", "basic/utilities/progress", "how far a request has come",
           ProgressNotificationParams, servers_alone="2026-07-28"),
)  # fmt: skip
