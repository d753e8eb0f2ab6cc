"""Where a client stands in an event stream, so that it can go on reading it over another connection.

Spec:      basic/transports#resumability-and-redelivery
Upholds:   spec_notes/basic/transports.md, the rows on resuming
Reads:     sse.py
Not here:  the requests that open a stream (posting.py, listening.py)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.transports.sse import CONTENT_TYPE, EventParser
from mcp_ref.basic.transports.streamable_http.client_session import CLOSED, ClientSession, Interrupted
from mcp_ref.basic.transports.streamable_http.noting import event_facts
from mcp_ref.errors import RemoteProtocolError

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.calls import Http, Reply
    from mcp_ref.basic.transports.streamable_http.sockets import Call

__all__ = ["Position"]

_RETRY = 1000  # milliseconds to wait before connecting again, where the server does not say
_MOST = 86_400_000  # milliseconds that a server can make us wait: a day is as good as for ever
_LONGEST = 30.0  # seconds to which the wait grows when it fails again and again


class Position:
    """How far an event stream has been read.

    Args:
        http: sends the GETs, and notes the events that have no message.
        limit: bytes that an event may have.

    Attributes:
        facts: what a trace is shown of the event that brought the message given last.
        last_id: the id of the last event that came whole; None or empty when there is nothing to resume after.
        failed: attempts in a row that brought no event.
    """

    def __init__(self, http: Http, limit: int) -> None:
        self.facts: dict[str, Any] = {}
        self._http = http
        self.last_id: str | None = None
        self.failed = 0
        self._retry = _RETRY
        self._limit = limit

    def headers(self, session: ClientSession) -> dict[str, str]:
        """The headers of a GET that opens the stream, or goes on with it."""
        # MUST: text/event-stream (basic/transports#listening-for-messages-from-the-server)
        headers = {"Accept": CONTENT_TYPE, **session.headers()}
        if self.last_id:
            # A header goes out as latin-1: this is UTF-8, as the standard says.
            headers["Last-Event-ID"] = self.last_id.encode("utf-8").decode("latin-1")
        return headers

    def connect(self, call: Call, session: ClientSession) -> Reply:
        """Send the GET; gives the reply, whatever its status. Raises: see `Http.open`."""
        headers = self.headers(session)
        self._http.note_request("GET", headers)
        reply = self._http.open(call, "GET", headers)
        self._http.note_reply(reply.facts)
        return reply

    def messages(self, reply: Reply) -> Iterator[bytes]:
        """The text of each message that a connection brings, until its end.

        Other types of events are passed over, and so are events without data: those only move the position.

        Raises: TransportClosed (the connection broke), RequestTimeout, Interrupted, RemoteProtocolError (an event is
            too long).
        """
        parser = EventParser(self._limit)
        parser.last_id = self.last_id
        try:
            while chunk := reply.read():
                for event in parser.feed(chunk):
                    self.failed = 0
                    self.last_id = event.id
                    if event.retry is not None:
                        self._retry = min(event.retry, _MOST)
                    facts = {"method": reply.method, "status": reply.status, **event_facts(event)}
                    if event.event == "message" and event.data:
                        self.facts = facts
                        yield event.data.encode("utf-8")
                    else:
                        self._http.note_reply(facts)
        except ValueError as problem:
            raise RemoteProtocolError(f"the server's event stream: {problem}") from None

    def pause(self, call: Call) -> None:
        """Wait for as long as the server asks, and longer each time that it fails.

        Blocks: until then, at most until the call's deadline; `Http.interrupt` ends it.
        Raises: RequestTimeout, Interrupted.
        """
        # MUST: respect the retry field (basic/transports#sending-messages-to-the-server)
        asked = self._retry / 1000
        until = time.monotonic() + max(asked, min(_LONGEST, asked * 2.0 ** max(0, self.failed - 1)))
        while (rest := until - time.monotonic()) > 0:
            left = call.deadline.check("waiting to reconnect to an event stream")
            if call.interrupted.wait(min(rest, 3600 if left is None else left)):
                raise Interrupted(CLOSED)
