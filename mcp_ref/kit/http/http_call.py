"""HttpCall: an HTTP request that another thread, or the clock, can end. No sockets are read or written here.

Contract: `cut(reason)` ends whatever the call waits for, at once and whatever that is: a connection, a TLS handshake, a
server that does not read or does not answer, the pause before another attempt. Whoever waits raises the reason.

*How a call is cut.* A connection has a second handle of its socket, which is in the `box` of the call that uses it.
Whoever takes the handle out decides: the pool of idle connections, when the response is complete, and then the
connection is kept, with the handle; or `cut`, and then the socket is shut down, so that every wait on it ends. Taking
out of a `deque` is atomic: it needs no lock, and a connection that went on to another call is never shut down for the
first one.

*A deadline is a cut by the clock.* So it bounds the whole call, however the bytes drip in, and it may move while
somebody waits. Sockets have no time-out of their own while they are read.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from mcp_ref.errors import McpError, RequestTimeout
from mcp_ref.kit.threads.deadline import Deadline, has_ended

if TYPE_CHECKING:
    from mcp_ref.kit.http.http_client import HttpResponse

_SHORTEST_SLEEP = 0.005  # seconds that the clock sleeps at least: a deadline that stands still would keep it busy


class HttpCall:
    """One HTTP request after the other, and their responses. Used by one thread; any other may cut it.

    Args:
        deadline: bounds everything. It may move to a later time meanwhile.
        on_written: called when a request has been written whole, so that the server may act on it.

    Attributes:
        reason: what the call raises once it was cut, else None.
        written: whether the latest request has been written whole.
        hung_up: whether its connection was shut down, so that nobody keeps it.
        response: the latest one. exchange: the number by which a trace knows it, where there is a trace.
        box: holds the handle of the socket that is in use, if any.
        inner: the call that this one waits for, if any; it is cut together with this one.
        admits: whether a connection to an address may be made; None: to any.
        token: what the latest request was authorized with, if anything.
    """

    def __init__(self, deadline: Deadline, on_written: Callable[[], None] | None = None) -> None:
        self.deadline, self.on_written = deadline, on_written
        self.reason: McpError | None = None
        self.written = self.hung_up = False
        self.response: HttpResponse | None = None
        self.exchange = 0
        self.box: deque[socket.SocketType] = deque()
        self.inner: HttpCall | None = None
        self.admits: Callable[[str], bool] | None = None
        self.token: object = None
        self._woken: SimpleQueue[None] = SimpleQueue()

    def hold(self, handle: socket.SocketType) -> None:
        """Put a handle of the socket that is used from here on into the box. Raises: the reason, if it has been cut."""
        self.box.append(handle)
        self.hung_up = False
        # Put first, look second; `cut` does it the other way round, so one of the two sees the other.
        if self.reason is not None:
            raise self.reason

    def cut(self, reason: McpError) -> None:
        """End whatever the call waits for, now and next. The first reason counts. Threads: any."""
        self.reason = self.reason or reason
        self._woken.put(None)
        self.hang_up()
        if (inner := self.inner) is not None:
            inner.cut(reason)

    def hang_up(self) -> None:
        """Shut the connection down, unless it is kept already; the call may go on over another one."""
        # Each handle is taken once: whoever looks at the box at the same time finds the next one, or none.
        with suppress(IndexError):
            while True:
                taken = self.box.pop()
                self.hung_up = True
                with suppress(OSError):  # the server has hung up first
                    taken.shutdown(socket.SHUT_RDWR)
                taken.close()

    def begin_inner(self, deadline: Deadline) -> HttpCall:
        """Return another call, for what this one has to wait for; `inner` is to be None again when it is over.

        Raises: the reason, if this call has been cut.
        """
        inner = self.inner = HttpCall(deadline)
        # Put first, look second, as in `hold`.
        if self.reason is not None:
            raise self.reason
        return inner

    def sleep(self, seconds: float | None) -> None:
        """Wait, at most until `wake`; None: without a limit. Raises: the reason, as soon as the call is cut."""
        try:
            self._woken.get(timeout=seconds)
        except Empty:
            return
        if self.reason is not None:
            raise self.reason

    def wake(self) -> None:
        """End the `sleep` of the call, or its next one. Threads: any."""
        self._woken.put(None)


class DeadlineClock:
    """The calls that are under way, and the thread `mcp-http-clock`, which cuts those whose deadline has passed.

    The thread starts with the first call that has a deadline. It sleeps until the next deadline, and `stop` wakes it.
    """

    def __init__(self) -> None:
        self.calls: set[HttpCall] = set()
        self._rings: SimpleQueue[bool] = SimpleQueue()  # wakes the thread; False: for the last time
        self._next = float("inf")  # when it wakes by itself
        self._lock = threading.Lock()  # guards the start of the thread
        # Daemon: a program that ends without close() must end, and this thread waits for no one.
        self._thread = threading.Thread(target=self._run, name="mcp-http-clock", daemon=True)

    def watch(self, call: HttpCall) -> None:
        """Cut the call when its deadline passes, until it is taken out of `calls`. Raises: RequestTimeout."""
        self.calls.add(call)
        left = call.deadline.check("before the request was sent")
        if left is not None and time.monotonic() + left < self._next:
            with self._lock:
                if self._thread.ident is None:
                    self._thread.start()
            self._rings.put(True)

    def _run(self) -> None:
        running = True
        while running:
            # Whoever adds a call from here on rings, since any deadline is earlier than this.
            self._next, sleep = float("inf"), None
            for call in list(self.calls):
                doing = "waiting for the server's reply" if call.written else "connecting or sending"
                try:
                    left = call.deadline.check(doing)
                except RequestTimeout as passed:
                    self.calls.discard(call)
                    call.cut(passed)
                    continue
                if left is not None:
                    sleep = max(_SHORTEST_SLEEP, left if sleep is None else min(left, sleep))
            if sleep is not None:
                self._next = time.monotonic() + sleep
            with suppress(Empty):
                running = self._rings.get(timeout=sleep)

    def stop(self) -> None:
        """Tell the thread to end."""
        self._rings.put(False)

    def join(self, deadline: Deadline) -> None:
        """Wait for the thread to end after `stop`; it waits for nothing else, and runs no user's code."""
        has_ended(self._thread, deadline)


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Return the origin of a URL: scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def within(url: str, named: str) -> str | None:
    """Return the URL that the server at `url` names, perhaps in part; None if that is of another origin, or not a
    URL.
    """
    try:
        target = urljoin(url, named)
        return target if origin_of(target) == origin_of(url) else None
    except ValueError:
        return None
