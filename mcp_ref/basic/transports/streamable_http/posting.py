"""POST: one message to the server, and all that comes back for it.

Spec:      basic/transports#sending-messages-to-the-server, #resumability-and-redelivery (2025-03-26 ... 2025-11-25)
Upholds:   spec_notes/basic/transports.md, the rows on sending and on resuming
Reads:     resuming.py, client_session.py
Not here:  the session and its ends (client.py), the standing stream (listening.py); what differs in the stateless
           shape (stateless_posting.py)

    POST --> 2xx, nothing to read           a notification or a response is accepted
         --> 2xx, JSON                      one message, or an array of them
         --> 2xx, event stream              messages, then the response
               the stream ends before it --> wait, then GET with Last-Event-ID --> event stream
         --> 404, in a session              SessionExpired
         --> refused, JSON-RPC error        the answer to the request
         --> refused                        HttpStatusError
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mcp_ref.basic import messages
from mcp_ref.basic.transports.sse import CONTENT_TYPE
from mcp_ref.basic.transports.streamable_http.client_session import JSON, SESSION_ID, ClientSession
from mcp_ref.basic.transports.streamable_http.resuming import Position
from mcp_ref.errors import Refusal, RemoteProtocolError, SessionExpired, TransportClosed

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.calls import Http, Reply
    from mcp_ref.basic.transports.streamable_http.sockets import Call

__all__ = ["Post"]

log = logging.getLogger(__name__)

_ERROR_BODY = 1 << 20  # bytes that are read of a body which says why something was refused


class Post:
    """One POST and its reply. Used by one thread, which closes it.

    Args:
        session: whose headers go out.
        reconnects: attempts in a row that an event stream may fail to be resumed.
        limit: bytes that a message may have.

    Attributes:
        facts: what a trace is shown beside the message that came last.
        answered: whether all that was wanted has come; set by whoever reads, since only that one knows.
    """

    def __init__(self, http: Http, call: Call, session: ClientSession, reconnects: int, limit: int) -> None:
        self.session, self.answered = session, False
        self._headers: Mapping[str, str] = session.headers()
        self._http, self._call = http, call
        self._reconnects, self._limit = reconnects, limit
        self._reply: Reply | None = None
        self.facts: dict[str, Any] = {}

    def send(self, text: bytes, message: Any) -> Reply:
        """Send the message, and note it; gives the reply, whatever its status. Raises: see `Http.open`."""
        # MUST: both content types (basic/transports#sending-messages-to-the-server)
        headers = {"Accept": f"{JSON}, {CONTENT_TYPE}", "Content-Type": JSON, **self._headers}
        self._http.note_request("POST", headers, message)
        self._reply = self._http.open(self._call, "POST", headers, text)
        self.facts = self._reply.facts
        return self._reply

    def close(self) -> None:
        """Be done with the reply."""
        if self._reply is not None:
            self._reply.close()
        else:
            self._http.hang_up(self._call)

    def begun(self, reply: Reply) -> ClientSession:
        """The session as a reply from before the agreement leaves it. Raises: RemoteProtocolError: a bad id."""
        return self.session.assigned(reply.headers.get(SESSION_ID)) if reply.status < 300 else self.session

    def refusal(self, reply: Reply, request_id: messages.RequestId | None) -> tuple[bytes, bytes] | None:
        """None when the message was accepted; else the error that answers it: for the peer, and as it came.

        Raises: SessionExpired, HttpStatusError (the body holds no such error, or asks to authorize); and as
            `Reply.read` does.
        """
        if 200 <= reply.status < 300:
            return None
        # MUST: start a new session (basic/transports#session-management)
        if reply.status == 404 and self.session.revision is not None and self.session.id is not None:
            self._http.note_reply(reply.facts)
            raise SessionExpired
        body = reply.body(_ERROR_BODY)
        asks_to_authorize = reply.status == 401 or (reply.status == 403 and "WWW-Authenticate" in reply.headers)
        answer = None if request_id is None or asks_to_authorize else _answer(body, request_id)
        if answer is None:
            self._http.note_reply(reply.facts, body)
            raise reply.refusal("a message", body)
        return messages.encode(answer), body

    def messages(self, reply: Reply) -> Iterator[bytes]:
        """The text of each message that comes back; b"" when there may be news elsewhere, after a wait.

        The caller stops when the response was among them: only it knows.

        Raises: RemoteProtocolError (no reply to a request), TransportClosed (the stream ended and cannot be resumed),
            RequestTimeout, Interrupted.
        """
        if reply.content_type == JSON:
            body = reply.body(self._limit)
            if body.lstrip()[:1] not in (b"{", b"["):
                raise RemoteProtocolError(f"the server's reply is no message: {str(body[:200], 'utf-8', 'replace')!r}")
            yield body
        elif reply.content_type == CONTENT_TYPE:
            yield from self._stream(reply)
        else:
            # MUST: one of the two (basic/transports#sending-messages-to-the-server)
            what = f"content of type {reply.content_type!r}" if reply.content_type else "no content"
            raise RemoteProtocolError(f"the server answered with status {reply.status} and {what}: that is no message")

    def _stream(self, reply: Reply) -> Iterator[bytes]:
        position = Position(self._http, self._limit)
        current: Reply | None = reply
        while True:
            try:
                if current is not None:
                    for text in position.messages(current):
                        self.facts = position.facts
                        yield text
                found = "ended"
            except TransportClosed as problem:
                found = f"broke ({problem})"
            if current is not None:
                current.close()
            self._check_resumable(position, found)
            position.failed += 1
            position.pause(self._call)
            yield b""
            current = self._resume(position)

    def _check_resumable(self, position: Position, found: str) -> None:
        revision = self.session.revision
        if not position.last_id or revision is None or not revision.sse_resumption:
            raise TransportClosed(f"the event stream {found} without a response, and cannot be resumed")
        if position.failed >= self._reconnects:
            raise TransportClosed(f"the event stream {found} without a response, after {position.failed} reconnects")

    def _resume(self, position: Position) -> Reply | None:
        """The rest of the stream, over a new connection; None when the attempt failed and another may not."""
        self._reply = None
        try:
            reply = position.connect(self._call, self.session)
        except TransportClosed as problem:
            log.debug("could not reconnect to an event stream: %s", problem)
            return None
        self._reply = reply
        if reply.status == 200 and reply.content_type == CONTENT_TYPE:
            return reply
        reply.close()
        if reply.status >= 500:
            return None
        # Not SessionExpired, though the session may be: the request was accepted, so it must not be sent again.
        refused = f"the server refused to resume it with HTTP status {reply.status}"
        raise TransportClosed(f"the event stream ended without a response, and {refused}")


def _answer(body: bytes, request_id: messages.RequestId) -> dict[str, Any] | None:
    """The JSON-RPC error in the body of a refusal, as the answer to the request that was refused."""
    try:
        error = messages.decode(body)
        if messages.kind_of(error) != "response" or "error" not in error:
            return None
        messages.check_response(error)
    except (Refusal, RemoteProtocolError):
        return None
    # MAY: an error without id (basic/transports#sending-messages-to-the-server)
    return {**error, "id": request_id} if error.get("id") in (None, request_id) else None
