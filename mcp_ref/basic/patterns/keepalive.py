"""KeepAlive: a ping at an interval, whose failure counts as a lost connection.

Spec:      basic/utilities/ping#usage-patterns, #error-handling
Upholds:   spec_notes/basic/utilities/ping.md, the rows on detecting a dead peer
Reads:     basic/patterns/request_response
Not here:  the ping itself (basic/utilities/ping)
"""

from __future__ import annotations

import logging
import threading

from mcp_ref.basic.deadline import Deadline
from mcp_ref.basic.patterns.request_response import Peer
from mcp_ref.errors import ErrorResponse, McpError, RemoteProtocolError, RequestTimeout, TransportClosed

__all__ = ["KeepAlive"]

log = logging.getLogger(__name__)


class KeepAlive:
    """The thread `mcp-ping` of one conversation.

    Args:
        interval: seconds between an answer and the next ping; the answer must come within the same time.

    Threads: `start` by one thread; `stop` and `join` by any, any number of times.
    """

    def __init__(self, peer: Peer, interval: float) -> None:
        self._peer, self._interval = peer, interval
        self._stop = threading.Event()
        # Daemon: it holds nothing that must be put in order at exit.
        self._thread = threading.Thread(target=self._run, name="mcp-ping", daemon=True)

    def start(self) -> None:
        """Begin, as soon as the session is open."""
        if self._thread.ident is None and not self._stop.is_set():
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._peer.request("ping", None, {"timeout": self._interval})
            except (ErrorResponse, RemoteProtocolError):
                continue  # An answer all the same: the peer is there.
            except RequestTimeout:
                # SHOULD: log it, and treat it as a failed connection (basic/utilities/ping#error-handling)
                log.warning("no answer to a ping within %g s: the connection counts as lost", self._interval)
                self._peer.fail(TransportClosed(f"no answer to a ping within {self._interval:g} s"))
                return
            except McpError:
                return

    def stop(self) -> None:
        """Let the thread end: its wait between pings ends by the event."""
        self._stop.set()

    def join(self, deadline: Deadline) -> None:
        """Wait for it, after the peer was closed: that fails a ping which is in flight."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(deadline.left())
