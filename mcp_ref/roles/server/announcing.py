"""Announcing: how a change, and whatever belongs to no request, reaches the clients that want to hear of it.

Spec:      server/tools#list-changed-notification, server/resources#subscriptions; basic/patterns/subscriptions
Upholds:   spec_notes/scaling.md
Not here:  what waits for one client (machinery/outbox); how a change gets to another process (machinery/bus)

    announce_change     a change, to the clients of both eras; with a bus, to those of all processes that share it
      tell_change       the same, to the clients of this process: the sessions, and the subscriptions
        announce        to every open session that wants it
          queue_for     to one session; another thread writes it
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_ref.basic.subscriptions import LIST_CHANGES, UPDATED
from mcp_ref.errors import McpError
from mcp_ref.machinery.uri_template import covers
from mcp_ref.messages import JsonObject

if TYPE_CHECKING:
    from mcp_ref.machinery.bus import Bus
    from mcp_ref.roles.server.server import Server
    from mcp_ref.roles.server.session import Session

log = logging.getLogger(__name__)

MAX_ANNOUNCEMENTS: Final = 1_000
"""Announcements that wait for one client. From there on log messages are dropped, and updates told by the URI above."""


def announce_change(self: Server, method: str, params: JsonObject) -> None:
    """Announce a change to the clients of both eras; with a bus, to those of all processes that share it."""
    if self.bus is None:
        self.tell_change(method, params)
    elif self.leave_bus is not None or params:
        # The list of what is registered before anybody is served is not a change: every process begins with it.
        self.bus.publish(self.info["name"], {"method": method, "params": params})


def tell_change(self: Server, method: str, params: JsonObject) -> None:
    """Tell the clients of this process of a change: the sessions that want it, and the subscriptions."""
    uri = params.get("uri")
    self.announce(
        method,
        params or None,
        lambda session: uri is None or any(covers(asked, uri) for asked in session.subscriptions),
    )
    for subscription in [] if self.stateless is None else list(self.stateless.subscriptions):
        subscription.put(method, params)


def announce(self: Server, method: str, params: JsonObject | None, wanted: Callable[[Session], bool]) -> None:
    """Queue a notification for every open session that wants it; never blocks, whether or not clients read."""
    if self.process != os.getpid():
        self.take_over()
    for session in self.sessions:
        if session.lifecycle.state == "open" and session.peer.closed is None and wanted(session):
            session.announce(method, params)


# -- one session --------------------------------------------------------------------------------------------------


def queue_for(self: Session, method: str, params: JsonObject | None = None) -> None:
    """Queue a notification that belongs to no request; another thread writes it. Never blocks.

    One that still waits, with the same method and `uri`, takes up the news; log messages are told one by one.
    """
    uri = (params or {}).get("uri")
    if len(self.announcements.waiting) >= MAX_ANNOUNCEMENTS:
        if method == "notifications/message":
            self.server.limits.note_dropped(method)
            return
        if uri is not None:
            uri = next((above for above in self.subscriptions if covers(above, uri)), uri)
            params = {"uri": uri}
    token = (params or {}).get("progressToken", (params or {}).get("taskId"))
    key = object() if method == "notifications/message" else (method, uri, token)
    self.announcements.put(key, (method, params))


def write_queued(session: Session) -> None:
    """Write what waits for one session; for a thread that may block."""

    def write(announcement: tuple[str, JsonObject | None]) -> None:
        try:
            session.notify(*announcement)
        except (McpError, OSError) as problem:
            log.debug("could not announce %s: %s", announcement[0], problem)

    session.announcements.flush(write)


# -- several processes --------------------------------------------------------------------------------------------


def join_bus(server: Server, bus: Bus) -> None:
    """Listen to the bus from here on, unless another thread has come first."""
    leave = bus.subscribe(server.info["name"], partial(heard, server))
    with server.lock:
        first = server.leave_bus is None
        server.leave_bus = server.leave_bus or leave
    if not first:
        leave()


def heard(server: Server, message: JsonObject | None) -> None:
    """Tell the clients of this process what the bus brings: a change, or that anything may have been missed."""
    if message is None:
        # Each list, and each resource to those who asked for it.
        for method in LIST_CHANGES:
            server.tell_change(method, {})
        for session in server.sessions:
            for uri in session.subscriptions:
                session.announce(UPDATED, {"uri": uri})
        for subscription in [] if server.stateless is None else list(server.stateless.subscriptions):
            for uri in subscription.honoured.get("resourceSubscriptions", ()):
                subscription.put(UPDATED, {"uri": uri})
        return
    match message:
        case {"method": str(method), "params": {"uri": str(uri)}} if method == UPDATED:
            server.tell_change(UPDATED, {"uri": uri})
        case {"method": str(method)} if method in LIST_CHANGES:
            server.tell_change(method, {})
        case _:
            log.warning("the bus delivered a message that no client can be told of: %.80r", message.get("method"))
