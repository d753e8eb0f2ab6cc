"""A server on a bus: what one process announces is told to the clients of all that share it.

Spec:      server/tools#list-changed-notification, server/resources#subscriptions; basic/patterns/subscriptions
Upholds:   spec_notes/scaling.md
Not here:  how it gets from one process to another (machinery/bus); who is told (server/server)
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from mcp_ref.basic.subscriptions import LIST_CHANGES, TASK_TOLD, UPDATED
from mcp_ref.messages import JsonObject

if TYPE_CHECKING:
    from mcp_ref.machinery.bus import Bus
    from mcp_ref.server.server import Server

log = logging.getLogger(__name__)


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
        if server.tasks is not None:
            server.tasks.look()
        return
    match message:
        case {"method": str(method), "params": {"uri": str(uri)}} if method == UPDATED:
            server.tell_change(UPDATED, {"uri": uri})
        case {"method": str(method)} if method in LIST_CHANGES:
            server.tell_change(method, {})
        case {"method": str(method), "params": {"taskId": str(task_id)}} if method == TASK_TOLD and server.tasks:
            server.tasks.look(task_id)
        case _:
            log.warning("the bus brings what nobody can be told: %.80r", message.get("method"))
