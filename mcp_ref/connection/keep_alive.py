"""KeepAlive: pings at intervals, for a client or a server that was given `ping_interval=`.

Spec:      basic/utilities/ping#implementation-considerations, #error-handling (2024-11-05 ... 2025-11-25)
Upholds:   spec_notes/basic/utilities/ping.md, the rows on the sender
Not here:  one ping, and its answer (basic/utilities)
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from mcp_ref.errors import ErrorResponse, McpError, RemoteProtocolError, RequestTimeout, TransportClosed
from mcp_ref.kit.threads.deadline import Deadline, has_ended

if TYPE_CHECKING:
    from mcp_ref.connection.connection import Connection

log = logging.getLogger(__name__)


class KeepAlive:
    """The thread `mcp-ping` of one conversation.

    Args:
        interval: seconds between an answer and the next ping; the answer must come within the same time.
    """

    def __init__(self, connection: Connection, interval: float) -> None:
        self._connection, self._interval = connection, interval
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, as soon as the session is open."""
        if self._thread is None and not self._stop.is_set():
            # Daemon: it holds nothing that must be put in order at exit.
            self._thread = threading.Thread(target=self._run, name="mcp-ping", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._connection.request("ping", None, {"timeout": self._interval})
            except (ErrorResponse, RemoteProtocolError):
                continue  # An answer all the same: the peer is there.
            except RequestTimeout:
                # SHOULD: log it, and treat it as a failed connection (basic/utilities/ping#error-handling)
                log.warning("no answer to a ping within %g s: the connection counts as lost", self._interval)
                self._connection.fail(TransportClosed(f"no answer to a ping within {self._interval:g} s"))
                return
            except McpError:
                return

    def stop(self) -> None:
        """Let the thread end: its wait between pings ends by the event."""
        self._stop.set()

    def join(self, deadline: Deadline) -> None:
        """Wait for it, after the peer was closed: that fails a ping which is in flight."""
        if self._thread is not None:
            has_ended(self._thread, deadline)
