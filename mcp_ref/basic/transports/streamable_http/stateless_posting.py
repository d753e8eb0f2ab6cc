"""POST in the stateless shape: a request stands alone, and its connection is all that holds it.

Spec:      basic/transports/streamable-http, basic/patterns/cancellation (2026-07-28)
Upholds:   spec_notes/basic/transports/streamable-http.md, the rows on the client's side
Reads:     posting.py, which does what both shapes have in common
Not here:  which headers a message has (mirroring.py, which the client's conversation asks); sending a request again

What differs from posting.py:

    headers                     those mirrored from the message, and nothing of a session
    404, a session id           say nothing of a session: there is none to expire or to begin
    the reply breaks off        AnswerLost: nothing is resumed
    the request is given up     its connection is closed at once, and so the server learns of it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mcp_ref.basic import messages
from mcp_ref.basic.transports.streamable_http.client_session import ClientSession
from mcp_ref.basic.transports.streamable_http.posting import Post
from mcp_ref.basic.transports.transport import Mirror
from mcp_ref.errors import MODERN_ERRORS, AnswerLost, LocalProtocolError, TransportClosed

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.calls import Http, Reply
    from mcp_ref.basic.transports.streamable_http.sockets import Call

__all__ = ["StatelessPost"]

_OF_THIS_ERA = MODERN_ERRORS | {-32601, -32602, -32603}
"""Codes by which a server of this era refuses a request that is well-formed."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")


class StatelessPost(Post):
    """One POST and its reply, in the stateless shape. Used by one thread, which closes it.

    Args:
        message: what will be sent.
        mirror: makes the headers that repeat what the message says.
        limit: bytes that a message may have.

    Raises: LocalProtocolError: the message is neither a request nor a notification, or a header cannot be sent as it
        is; and whatever `mirror` raises. Nothing was sent.
    """

    def __init__(self, http: Http, call: Call, message: Any, mirror: Mirror, limit: int) -> None:
        # MUST: one request or notification; MUST NOT: responses (basic/transports/streamable-http#sending-messages)
        if not isinstance(message, dict) or "method" not in message:
            raise LocalProtocolError("a client sends one request or notification at a time, and nothing else")
        # A session without revision and id: so none expires, none begins, and nothing can be resumed in it.
        super().__init__(http, call, ClientSession(), 0, limit)
        # MUST: on each POST (basic/transports/streamable-http#sending-messages)
        self._headers = _checked(mirror(message))
        self._given_up = message.get("id")

    def send(self, text: bytes, message: Any) -> Reply:
        """Send the message; see `Post.send`. Raises: AnswerLost too: it was sent, and no reply came."""
        try:
            return super().send(text, message)
        except TransportClosed as problem:
            if self._call.sent:
                raise _lost(problem) from problem
            raise

    def begun(self, reply: Reply) -> ClientSession:
        """No session. An id that a server assigns nevertheless is not looked at."""
        return self.session

    def refusal(self, reply: Reply, request_id: messages.RequestId | None) -> tuple[bytes, bytes] | None:
        """The error that answers the message; see `Post.refusal`.

        Raises: HttpStatusError too: the body holds an error that names no request and has no code of this era, so it
            comes from something that speaks another one; or it goes with a status that says nothing of the server.
        """
        refusal = super().refusal(reply, request_id)
        if refusal is not None:
            error = messages.decode(refusal[1])
            aside = error.get("id") is None or reply.status in (401, 403)
            if aside and error["error"]["code"] not in _OF_THIS_ERA:
                self._http.note_reply(reply.facts, refusal[1])
                raise reply.refusal("a message", refusal[1])
        return refusal

    def messages(self, reply: Reply) -> Iterator[bytes]:
        """The text of each message that comes back; see `Post.messages`. Raises: AnswerLost too: it broke off."""
        try:
            yield from super().messages(reply)
        except TransportClosed as problem:
            raise _lost(problem) from problem

    def close(self) -> None:
        """Be done with the reply; what has not been answered is given up thereby.

        The connection is not kept then, and not waited for: the server stops when it finds the end of it.
        """
        # MUST: close the stream to cancel (basic/patterns/cancellation#transport-specific-cancellation)
        if not self.answered:
            if self._call.sent:
                self._http.note_hang_up(self._given_up)
            self._http.hang_up(self._call)
        super().close()


def _lost(problem: TransportClosed) -> AnswerLost:
    return AnswerLost(f"the answer was lost: {problem}")


def _checked(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The same headers; LocalProtocolError for one that would be sent as something else, or not at all."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            # The value itself is not shown: it may be a secret.
            raise LocalProtocolError(f"the header {name!r}, or its value, cannot be sent as it is")
    return headers
