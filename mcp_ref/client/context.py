"""ClientContext: a server's question while a client answers it.

Spec:      client/roots, client/sampling, client/elicitation; basic/utilities/progress, basic/utilities/cancellation
Upholds:   the rows of those pages that speak of the client
Reads:     the pages' modules, basic/patterns/reply
Not here:  dispatch (client/session)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.patterns.reply import Incoming
from mcp_ref.basic.utilities import progress
from mcp_ref.errors import RequestCancelled
from mcp_ref.revisions import Revision

if TYPE_CHECKING:
    from mcp_ref.client.session import Session
    from mcp_ref.client.stateless import Stateless

__all__ = ["ClientContext"]


class ClientContext:
    """The request of a server that a user's function answers; handed to it when it takes one argument more.

    Threads: any, while the function runs.
    """

    __slots__ = ("_incoming", "_session", "last_progress", "progress_token")

    def __init__(self, session: Session | Stateless, incoming: Incoming) -> None:
        self._session, self._incoming = session, incoming
        self.progress_token = progress.token_of(incoming.params)
        self.last_progress: float | None = None

    # basic/utilities/progress
    progress = progress.progress

    @property
    def revision(self) -> Revision:
        """The revision agreed with the server."""
        return self._session.revision

    @property
    def capabilities(self) -> JsonObject:
        """What this client declared itself, as the agreed revision knows it."""
        return self._session.capabilities

    @property
    def server_info(self) -> JsonObject:
        """The `Implementation` of the server that asks, for the user to see who it is."""
        return self._session.server_info

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of the server's request; empty where there is none."""
        meta: JsonObject = self._incoming.params.get("_meta") or {}
        return meta

    @property
    def cancelled(self) -> bool:
        """Whether the server, or the end of the conversation, has given the request up."""
        return self._incoming.cancelled

    def check_cancelled(self) -> None:
        """Raise RequestCancelled if the request was given up."""
        if self._incoming.cancelled:
            raise RequestCancelled(self._incoming.reason or "cancelled")

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification that belongs to this request; nothing is sent once it is answered or given up."""
        self._session.peer.notify(method, params, self._incoming)
