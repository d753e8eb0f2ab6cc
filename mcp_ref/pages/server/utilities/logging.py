"""Logging: `logging/setLevel`, `notifications/message`.

Spec:      server/utilities/logging (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/utilities/logging.md
Not here:  the limit on messages per second (server/session); the log of this library itself (Python's
           `logging`)

    ctx.log("info", data)              in a handler: send a message to the client, if it wants that level
    server.log("info", data)           outside a handler: send it to every client that wants that level
    client.set_log_level("warning")    in a client: say which levels it wants

What goes into a message is read on the other side. It must hold no credentials, nothing that identifies a person and
no details of the system that would help an attacker; no code can see that, so it is the duty of whoever calls `log`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, Unpack, get_args

from mcp_ref.errors import LocalProtocolError
from mcp_ref.wire import messages
from mcp_ref.wire.deprecated import warn_deprecated
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method, Options
from mcp_ref.wire.types import EmptyResult, LoggingLevel, NotificationParams, RequestParams

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Context, Conversation

LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""The eight levels of RFC 5424, the least severe first."""


# -- types --------------------------------------------------------------------------------------------------------


class SetLevelRequestParams(RequestParams):
    """The least severe level of the messages that the client wants."""

    level: LoggingLevel


class LoggingMessageNotificationParams(NotificationParams):
    """A log message. `data` is any JSON value; `logger` names the part of the server that says it."""

    level: LoggingLevel
    logger: NotRequired[str]
    data: Any


# -- rows ---------------------------------------------------------------------------------------------------------

METHODS = (
    Method("logging/setLevel", "client", "server/utilities/logging", "say how severe a log message must be to be sent",
           SetLevelRequestParams, EmptyResult, until="2025-11-25", needs="server.logging"),
    Method("notifications/message", "server", "server/utilities/logging", "a log message of the server",
           LoggingMessageNotificationParams, needs="server.logging"),
)  # fmt: skip


# -- the server's half --------------------------------------------------------------------------------------------


def log(self: Context, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
    """Send `notifications/message` to the client, unless it asked for more severe messages only.

    A client that asked for no level gets everything in the session era, and nothing in the stateless era.

    Args:
        level: one of the eight in `LEVELS`.
        data: any JSON value, such as a text or an object. No secrets: see the head of this module.
        logger: the name of the part of your program that says it; the same one each time.

    Raises:
        LocalProtocolError: the level is not one of the eight, or the data is not JSON.
        TransportClosed: the client is gone.

    Blocks: until it is written.
    Spec: server/utilities/logging#log-message-notifications
    """
    # New programs SHOULD NOT use log messages (2026-07-28/server/utilities/logging)
    warn_deprecated("logging", self.revision)
    params = _message(level, data, logger)
    if _is_wanted(level, self.conversation):
        self.notify("notifications/message", params)
    else:
        # Data that is not JSON fails now, and not when the first client wants to hear it.
        messages.encode(params)


def log_to_all(self: Server, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
    """Send `notifications/message` outside a handler, to each client whose session is open and that wants this level.

    The arguments, and who wants a level: as in `log`.

    Raises: LocalProtocolError: the level is not one of the eight, or the data is not JSON, even if nobody listens.
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
    # SHOULD: validate the fields of a log message (server/utilities/logging#security)
    if level not in LEVELS:
        raise LocalProtocolError(f"unknown log level {level!r}; known: {', '.join(LEVELS)}")


def _is_wanted(level: LoggingLevel, listener: Conversation) -> bool:
    if listener.log_level is None:
        # A server MUST NOT send log messages for a request that names no level
        # (2026-07-28/server/utilities/logging#per-request-log-level)
        return listener.terms.revision.era == "session"
    return LEVELS.index(level) >= LEVELS.index(listener.log_level)


def logging_set_level(ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
    """Answer `logging/setLevel`: from now on this session gets messages of that level and above.

    A level that is not one of the eight was refused with -32602 when the params were checked.
    Spec: server/utilities/logging#setting-log-level
    """
    # MAY: a client sets the least severe level (server/utilities/logging#setting-log-level)
    ctx.conversation.log_level = params["level"]
    return {}


# -- the client's half --------------------------------------------------------------------------------------------


def set_log_level(self: Client, level: LoggingLevel, **options: Unpack[Options]) -> None:
    """Ask with `logging/setLevel` for messages of this level and above only.

    In the stateless era nothing is sent: from now on each request says so in its `_meta`. There, `log_level=` in a call
    says it for that call.

    Args:
        level: one of the eight in `LEVELS`.

    Raises: LocalProtocolError: also for a level that is not one of the eight.
    Blocks: until the server confirms it.
    Spec: server/utilities/logging#setting-log-level
    """
    _check_level(level)
    if self.revision.era == "stateless":
        self.log_level = level
    else:
        self.request("logging/setLevel", {"level": level}, options)
