"""GET: the standing event stream, on which the server sends what belongs to no request of ours.

Spec:      basic/transports#listening-for-messages-from-the-server
Upholds:   spec_notes/basic/transports.md, the rows on listening
Reads:     resuming.py, client_session.py
Not here:  streams that answer a POST (posting.py)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.transports.sse import CONTENT_TYPE
from mcp_ref.basic.transports.streamable_http.client_session import ClientSession, Interrupted
from mcp_ref.basic.transports.streamable_http.resuming import Position
from mcp_ref.errors import McpError, TransportClosed

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.calls import Http, Reply

__all__ = ["Listener"]

log = logging.getLogger(__name__)

_STEADY = 5.0  # seconds after which a stream that ends without an event has not failed: something between cuts it


class Listener:
    """The thread `mcp-sse-listen`, which reads the standing stream of one session.

    Args:
        deliver: takes the text of each message, and what a trace is shown beside it.
        reconnects: failures in a row after which it gives up.
        limit: bytes that a message may have.

    Attributes:
        settled: set once the stream is open, or it is known that there is none for now.
    """

    def __init__(
        self, http: Http, session: ClientSession, deliver: Callable[[bytes, Any], None], reconnects: int, limit: int
    ) -> None:
        self.settled = threading.Event()
        self._http, self._session, self._deliver = http, session, deliver
        self._reconnects = reconnects
        self._position = Position(http, limit)
        self._call = http.call(Deadline(None))
        # Daemon: a program that ends without close() must end, though the server has not.
        self._thread = threading.Thread(target=self._run, name="mcp-sse-listen", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Shut its connection down, so that the thread ends. Threads: any."""
        self._http.interrupt(self._call)

    def join(self, deadline: Deadline) -> None:
        """Wait for the thread, which waits for nothing but its socket and an event once `stop` was called."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(deadline.left())

    def _run(self) -> None:
        try:
            self._listen()
        except Interrupted:
            log.debug("the standing event stream was closed by this side")
        except McpError as problem:
            log.warning("the standing event stream is given up: %s", problem)
        except Exception:
            log.exception("reading the standing event stream failed")
        finally:
            self.settled.set()

    def _listen(self) -> None:
        position = self._position
        while True:
            began = time.monotonic()
            position.failed += 1
            if not self._read_once():
                return
            self.settled.set()
            if time.monotonic() - began > _STEADY:
                position.failed = 0
            if position.failed > self._reconnects:
                log.warning("the standing event stream is given up after %d failures in a row", position.failed)
                return
            position.pause(self._call)

    def _read_once(self) -> bool:
        """Read over one connection, until it ends; False when the server offers no stream (any more)."""
        reply: Reply | None = None
        try:
            reply = self._position.connect(self._call, self._session)
            if not _is_stream(reply):
                # MAY: 405; and 404 tells that the session is over, which the next POST finds too
                log.debug("no standing event stream: HTTP status %d, %r", reply.status, reply.content_type)
                return reply.status >= 500
            self.settled.set()
            for text in self._position.messages(reply):
                self._deliver(text, self._position.facts)
        except TransportClosed as problem:
            log.debug("the standing event stream broke: %s", problem)
        finally:
            if reply is not None:
                reply.close()
        return True


def _is_stream(reply: Reply) -> bool:
    return reply.status == 200 and reply.content_type == CONTENT_TYPE
