"""Subscriptions: `subscriptions/listen`, `notifications/subscriptions/acknowledged`: their types, rows and filters.

Spec:      basic/patterns/subscriptions (2026-07-28)
Upholds:   spec_notes/basic/patterns/subscriptions.md
Reads:     basic/terms, schema
Not here:  the server's half (basic/patterns/subscriptions), the client's (basic/patterns/listening)
"""

from __future__ import annotations

from typing import Final, NotRequired, TypedDict, cast

from mcp_ref.basic.methods import JsonObject, Method
from mcp_ref.basic.terms import declares
from mcp_ref.basic.types import Implementation, NotificationParams, RequestId, RequestParams, ResultType
from mcp_ref.errors import RemoteProtocolError
from mcp_ref.revisions import STATELESS_REVISIONS
from mcp_ref.schema import SchemaMismatch, checker

__all__ = [
    "ACKNOWLEDGED",
    "LISTEN",
    "LIST_CHANGES",
    "METHODS",
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
    "SubscriptionsListenResultMetaObject",
    "UPDATED",
    "acknowledged",
    "honour",
    "unheeded",
]

LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"

LIST_CHANGES: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
"""Which flag of a filter asks for which notification."""

_NEEDS: Final = {
    "toolsListChanged": "tools.listChanged",
    "promptsListChanged": "prompts.listChanged",
    "resourcesListChanged": "resources.listChanged",
    "resourceSubscriptions": "resources.subscribe",
}
"""The capability of the server without which it does not honour a field of a filter."""


class SubscriptionFilter(TypedDict):
    """Which notifications a client asks for, or a server honours; what is left out is not asked for."""

    toolsListChanged: NotRequired[bool]
    promptsListChanged: NotRequired[bool]
    resourcesListChanged: NotRequired[bool]
    resourceSubscriptions: NotRequired[list[str]]


class SubscriptionsListenRequestParams(RequestParams):
    """What to listen for."""

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The part of what was asked for that the server honours."""

    notifications: SubscriptionFilter


SubscriptionsListenResultMetaObject = TypedDict(
    "SubscriptionsListenResultMetaObject",
    {
        "io.modelcontextprotocol/subscriptionId": RequestId,
        "io.modelcontextprotocol/serverInfo": NotRequired[Implementation],
    },
)
"""Which subscription has ended: the id of the request that the result answers."""


class SubscriptionsListenResult(TypedDict):
    """The server has ended the subscription. It says nothing else."""

    _meta: SubscriptionsListenResultMetaObject
    resultType: NotRequired[ResultType]


def honour(asked: SubscriptionFilter, capabilities: JsonObject) -> SubscriptionFilter:
    """The part of a filter that a server with these capabilities honours.

    Spec: basic/patterns/subscriptions#acknowledgment
    """
    honoured: JsonObject = {}
    for field, capability in _NEEDS.items():
        value = asked.get(field)
        # MUST: types that the server does not support are left out (basic/patterns/subscriptions#acknowledgment)
        if value and declares(capabilities, capability):
            honoured[field] = list(dict.fromkeys(value)) if isinstance(value, list) else value
    return cast(SubscriptionFilter, honoured)


def unheeded(asked: SubscriptionFilter, honoured: SubscriptionFilter) -> SubscriptionFilter:
    """What was asked for and is not honoured; empty where all is."""
    wanted, given = cast(JsonObject, asked), cast(JsonObject, honoured)
    rest: JsonObject = {field: flag for field, flag in wanted.items() if flag is True and given.get(field) is not True}
    uris = set(given.get("resourceSubscriptions", ()))
    if missing := [uri for uri in wanted.get("resourceSubscriptions", ()) if uri not in uris]:
        rest["resourceSubscriptions"] = missing
    return cast(SubscriptionFilter, rest)


def acknowledged(message: JsonObject) -> SubscriptionFilter:
    """The filter in an acknowledgement, which must be the first message of a subscription.

    Raises: RemoteProtocolError: it is another message, or malformed.
    """
    # MUST: before any other message of the subscription (basic/patterns/subscriptions#acknowledgment)
    if message.get("method") != ACKNOWLEDGED:
        what = message.get("method") or "the response"
        raise RemoteProtocolError(f"the server sent {what} before it acknowledged the subscription")
    params = message.get("params")
    try:
        checker(SubscriptionsAcknowledgedNotificationParams, STATELESS_REVISIONS[-1])(params, "params")
    except SchemaMismatch as mismatch:
        raise RemoteProtocolError(f"{ACKNOWLEDGED} is malformed: {mismatch}") from None
    return cast(SubscriptionsAcknowledgedNotificationParams, params)["notifications"]


METHODS = (
    Method(
        name=LISTEN,
        kind="request",
        sender="client",
        page="basic/patterns/subscriptions",
        about="ask to be told of changes, until one of the two ends it",
        params=SubscriptionsListenRequestParams,
        result=SubscriptionsListenResult,
        since="2026-07-28",
    ),
    Method(
        name=ACKNOWLEDGED,
        kind="notification",
        sender="server",
        page="basic/patterns/subscriptions",
        about="say which of the changes that were asked for will be told",
        params=SubscriptionsAcknowledgedNotificationParams,
        since="2026-07-28",
    ),
)
