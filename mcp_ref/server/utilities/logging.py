"""Logging: `logging/setLevel`, `notifications/message`.

Spec:      server/utilities/logging (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/utilities/logging.md
Not here:  the limit on messages per second (server/session); the log of this library itself (Python's `logging`)

    log(ctx, "info", data)             in a server: send a message to the client, if it wants to hear of that level
    log_to_all(server, "info", data)   the same outside a handler, to every client that wants to hear of that level
    logging_set_level(ctx, params)     in a server: note what the client wants to hear of
    set_log_level(client, "warning")   in a client: say it

What goes into a message is read on the other side. It must hold no credentials, nothing that identifies a person and
no details of the system that would help an attacker; no code can see that, so it is the duty of whoever calls `log`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NotRequired, Protocol, Unpack, cast, get_args

from mcp_ref import messages
from mcp_ref.agreement import warn_deprecated
from mcp_ref.errors import LocalProtocolError
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Caller, Method, Options
from mcp_ref.revisions import Revision
from mcp_ref.types import EmptyResult, LoggingLevel, NotificationParams, RequestParams

if TYPE_CHECKING:
    from mcp_ref.server.context import Context

LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""The eight levels of RFC 5424, the least severe first."""


class SetLevelRequestParams(RequestParams):
    """The least level of the messages that the client wants to get."""

    level: LoggingLevel


class LoggingMessageNotificationParams(NotificationParams):
    """A log message. `data` is any JSON value; `logger` is the name of the part of the server that says it."""

    level: LoggingLevel
    logger: NotRequired[str]
    data: Any


def is_at_least(level: str, least: str) -> bool:
    """Whether a level is as severe as another one, or more; `ValueError` where one is none of the eight."""
    return _severity(level) >= _severity(least)


def _severity(level: str) -> int:
    try:
        return LEVELS.index(cast(LoggingLevel, level))
    except ValueError:
        raise ValueError(f"unknown log level {level!r}; known: {', '.join(LEVELS)}") from None


# -- the server's half --------------------------------------------------------------------------------------------


class Listener(Protocol):
    """A conversation with a client that may want log messages."""

    @property
    def revision(self) -> Revision: ...

    @property
    def log_level(self) -> str | None: ...


class Logging(Listener, Protocol):
    """What can send log messages to its client: the `Context` of a handler."""

    def notify(self, method: str, params: JsonObject | None = None) -> None: ...


class Announcing(Protocol):
    """What can send log messages to every client: a `Server`."""

    def announce(self, method: str, params: JsonObject | None, wanted: Callable[[Listener], bool]) -> None: ...


def log(self: Logging, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
    """Send `notifications/message` to the client, unless it asked for more severe messages only.

    A client that asked for nothing gets everything in the session era, and nothing in the stateless era.

    Args:
        level: one of the eight in `LEVELS`.
        data: any JSON value, such as a text or an object. No secrets: see the head of this module.
        logger: the name of the part of your program that says it; the same one each time.

    Raises:
        LocalProtocolError: the level is none of the eight, or the data is not JSON.
        TransportClosed: the client is gone.

    Blocks: until it is written.
    Threads: any, while the handler runs.
    Spec: server/utilities/logging#log-message-notifications
    """
    warn_deprecated("logging", self.revision)
    params = _message(level, data, logger)
    if _is_wanted(level, self):
        self.notify("notifications/message", params)
    else:
        # What is no JSON is found out now, and not by the first client that wants to hear it.
        messages.encode(params)


def log_to_all(self: Announcing, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
    """Send `notifications/message` outside a handler, to each client whose session is open and that wants this level.

    Who wants it, and the arguments: as for `log`.

    Raises:
        LocalProtocolError: the level is none of the eight, or the data is not JSON; also where nobody listens. A client
            that is gone is no error.

    Blocks for nothing: it is written to each by another thread.
    Threads: any.
    Spec: server/utilities/logging#log-message-notifications
    """
    params = _message(level, data, logger)
    messages.encode(params)
    self.announce("notifications/message", params, lambda session: _is_wanted(level, session))


def _message(level: str, data: Any, logger: str | None) -> JsonObject:
    _check_level(level)
    params: JsonObject = {"level": level, "data": data}
    return params if logger is None else {**params, "logger": logger}


def _check_level(level: str) -> None:
    if level not in LEVELS:
        raise LocalProtocolError(f"unknown log level {level!r}; known: {', '.join(LEVELS)}")


def _is_wanted(level: str, listener: Listener) -> bool:
    if listener.log_level is None:
        # MUST NOT: for a request that names no level (2026-07-28 server/utilities/logging#per-request-log-level)
        return listener.revision.era == "session"
    return is_at_least(level, listener.log_level)


def logging_set_level(ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
    """Answer `logging/setLevel`: from now on this session gets messages of that level and above.

    A level that is none of the eight was refused as -32602 before.

    Threads: a worker.
    Spec: server/utilities/logging#setting-log-level
    """
    ctx.set_log_level(params["level"])
    return {}


# -- the client's half --------------------------------------------------------------------------------------------


class Levelled(Caller, Protocol):
    """What can say with each of its requests how much log it wants: a `Client`."""

    def ask_for_logs(self, level: LoggingLevel) -> None: ...


def set_log_level(self: Levelled, level: LoggingLevel, **options: Unpack[Options]) -> None:
    """Ask the server with `logging/setLevel` for messages of this level and above only.

    In the stateless era nothing is sent: from now on each request says so in its `_meta`. There, `log_level=` does it
    for one call.

    Args:
        level: one of the eight in `LEVELS`.

    Raises:
        LocalProtocolError: the level is none of the eight, or the server did not declare `logging`.
        ErrorResponse, RequestTimeout, TransportClosed, RemoteProtocolError: as for every request.

    Blocks: until the server confirms it, bounded by `timeout`.
    Threads: any.
    Spec: server/utilities/logging#setting-log-level
    """
    _check_level(level)
    if self.revision.era == "stateless":
        self.ask_for_logs(level)
    else:
        self.request("logging/setLevel", {"level": level}, options)


METHODS = (
    Method("logging/setLevel", "client", "server/utilities/logging", "say how severe a log message must be to be sent",
           SetLevelRequestParams, EmptyResult, until="2025-11-25", needs="server.logging"),
    Method("notifications/message", "server", "server/utilities/logging", "a log message of the server",
           LoggingMessageNotificationParams, needs="server.logging"),
)  # fmt: skip
