"""Deadline and Cancel: the two ways in which a call ends before its answer comes; `holding`: a lock with a deadline;
RateLimits: how often somebody may ask.

Spec:      basic/lifecycle#timeouts; basic/utilities/progress; server/tools#security-considerations,
           server/utilities/completion#security, server/utilities/logging#security,
           client/sampling#security-considerations
Upholds:   spec_notes/basic/lifecycle.md, the rows on timeouts; the rows on rate limiting in the notes of other pages
Not here:  what is sent when it passes (connection/connection); which requests are counted, and what tells one client
           from another (server/session, client/session)

Every public call turns its `timeout=` once into a Deadline. Two things can move it: progress, up to a stated
maximum, and a `Clock` that stands still while this side keeps the peer waiting. A stream that is meant to stay open
has it lifted once it is.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager

from mcp_ref.errors import McpError, Refusal, RequestTimeout

log = logging.getLogger(__name__)

_LONGEST_WAIT = 2_000_000.0
"""Seconds that one wait may have: `poll` and sockets take at most 24 days, and locks no infinity."""

SIGNAL_INTERVAL = 0.25
"""Seconds after which a caller waits again: Ctrl-C just before a wait begins is noticed when that wait ends."""


def check_seconds(name: str, value: object) -> None:
    """Raise TypeError or ValueError unless a time limit that a user gave is a positive number, or None for no limit."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, or None for no limit, not {value!r}")
    if not value > 0:
        raise ValueError(f"{name} must be above 0 seconds, or None for no limit, not {value!r}")


class Clock:
    """Seconds that stand still while at least one `with clock:` is open.

    A human who thinks about the server's question must not use up the time of the call that asked it, but only for
    so long: a pause counts up to `limit` seconds, and then the clock goes on.

    Threads: any.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._lock = threading.Lock()  # guards the replacement of _state
        # pauses that are open, when the first of them began, seconds lost so far; replaced as one, read without a lock
        self._state = (0, 0.0, 0.0)

    def __call__(self) -> float:
        """Return the time of this clock, in seconds."""
        pauses, paused_at, lost = self._state
        now = time.monotonic()
        return (max(paused_at, now - self._limit) if pauses else now) - lost

    def __enter__(self) -> None:
        with self._lock:
            pauses, paused_at, lost = self._state
            self._state = (pauses + 1, paused_at if pauses else time.monotonic(), lost)

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            pauses, paused_at, lost = self._state
            if pauses == 1:
                lost += min(time.monotonic() - paused_at, self._limit)
            self._state = (pauses - 1, paused_at, lost)


class Deadline:
    """A point in time, or never.

    Args:
        timeout: seconds from now; None for no limit.
        maximum: seconds from now past which `extend()` never moves it; None: `extend()` does nothing.
        clock: what tells the seconds; `time.monotonic` unless something may stand still.
        within: the deadline that this one is a part of: if this one is postponed, so is that.
    """

    def __init__(
        self,
        timeout: float | None,
        maximum: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        within: Deadline | None = None,
    ) -> None:
        self._clock, self._within = clock, within
        self._timeout = timeout
        self._at = None if timeout is None else clock() + timeout
        self._latest = None if maximum is None else clock() + maximum
        self._lifted = False

    def left(self) -> float | None:
        """Return the seconds left, at least 0.0, and at most 23 days, after which whoever waits asks again; None for no
        limit.
        """
        if self._at is None or self._lifted:
            return None
        left = self._at - self._clock()
        return 0.0 if left < 0 else left if left < _LONGEST_WAIT else _LONGEST_WAIT

    def at_most(self, seconds: float) -> float:
        """Return the seconds left, but at most so many: for a wait that has a bound of its own."""
        left = self.left()
        return seconds if left is None else min(seconds, left)

    def check(self, doing: str) -> float | None:
        """Return the seconds left; raises `RequestTimeout` naming what was being done if the time is up."""
        left = self.left()
        if left == 0.0:
            raise RequestTimeout(f"timed out after {round(self._timeout or 0, 3):g} s {doing}")
        return left

    def extend(self) -> None:
        """Restart the timeout, but never past the maximum given (basic/lifecycle#timeouts: progress may do this)."""
        if self._at is not None and self._latest is not None and self._timeout is not None:
            self._at = max(self._at, min(self._clock() + self._timeout, self._latest))

    def postpone(self, seconds: float) -> None:
        """Move it, its maximum, and what it is within by the time for which this side kept the peer waiting."""
        if self._within is not None:
            self._within.postpone(seconds)
        if self._at is not None:
            self._at += seconds
        if self._latest is not None:
            self._latest += seconds

    def lift(self) -> None:
        """Remove the limit from now on; whoever waits until the deadline goes on waiting. Threads: any.

        Spec: 2026-07-28/basic/patterns/subscriptions#acknowledgment: what follows it comes when it comes
        """
        self._lifted = True


def has_ended(thread: threading.Thread, deadline: Deadline) -> bool:
    """Wait for a thread to end. Returns True if it has, was never started, or is the one that calls.

    Ctrl-C in `Thread.start` leaves one that begins only later, which `join` refuses: that is waited for, too.
    """
    while thread is not threading.current_thread():
        try:
            thread.join(deadline.left())
            return not thread.is_alive()
        except RuntimeError:
            # Those that were started, and have not begun, are among them.
            if thread not in threading.enumerate():
                break
            if deadline.left() == 0.0:
                return False
            time.sleep(0.001)
    return True


class Cancel:
    """A handle to give up a call from another thread: pass it as `cancel=`, then call it.

    >>> give_up = Cancel()
    >>> give_up("the user closed the window")

    The call that holds it raises `RequestCancelled`, and the peer is told as the revision says. One handle may be given
    to several calls; used before a call starts, that call is not sent at all.

    Threads: any thread may call it, any number of times; only the first has an effect.
    """

    __slots__ = ("_callbacks", "_cancelled", "reason")

    def __init__(self) -> None:
        self._cancelled = False
        self.reason: str | None = None
        self._callbacks: list[Callable[[str | None], None]] = []

    @property
    def cancelled(self) -> bool:
        """Return whether it was called."""
        return self._cancelled

    def __call__(self, reason: str | None = None) -> None:
        if self._cancelled:
            return
        self.reason, self._cancelled = reason, True
        for callback in list(self._callbacks):
            callback(reason)

    def attach(self, callback: Callable[[str | None], None]) -> None:
        """Call `callback(reason)` on cancelling; at once if that has happened already. It may be called twice."""
        # Append first, look second: whichever thread comes later sees what the other did.
        self._callbacks.append(callback)
        if self.cancelled:
            callback(self.reason)

    def detach(self, callback: Callable[[str | None], None]) -> None:
        """Undo `attach()`; nothing happens where it was not attached."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)


def acquire(lock: threading.Lock | threading.RLock, deadline: Deadline, doing: str) -> None:
    """Take a lock, which is waited for at most until the deadline.

    Args:
        lock: an `RLock` if the main thread may take it: Ctrl-C between two steps may leave it held, and the main thread
            can take it again all the same.

    Raises: RequestTimeout: the deadline passed first; the text says what was being done.
    """
    # At first without waiting: the lock is free as a rule, and then nobody need look at the clock.
    if not lock.acquire(False):
        while not lock.acquire(timeout=deadline.at_most(_LONGEST_WAIT)):
            deadline.check(doing)


@contextmanager
def holding(lock: threading.Lock | threading.RLock, deadline: Deadline, doing: str) -> Iterator[None]:
    """Hold a lock for a block, which does not run where `acquire` raises."""
    acquire(lock, deadline, doing)
    try:
        yield
    finally:
        lock.release()


CLOSED = "closed by this side"


class Interrupted(McpError):
    """Another thread has given the call up."""


# -- rates --------------------------------------------------------------------------------------------------------

# The pages ask for limits and name no error. The code is 429, as HTTP's "Too Many Requests": it lies outside the range
# that JSON-RPC keeps, and `data.retryAfter` says after how many seconds another attempt has a chance.

MAX_BUCKETS = 10_000
"""Of so many clients and methods the rate is remembered; the one that was quiet the longest is forgotten first."""


class Rate:
    """So many per second in the long run, and at most `burst` at once; `ValueError` unless both are above zero.

    Attributes:
        per_second: a finite number above 0, such as 0.5 for one in two seconds.
        burst: an integer of at least 1.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        if not (per_second > 0 and math.isfinite(per_second)):
            raise ValueError(f"per_second must be a finite number above 0, not {per_second!r}")
        if burst < 1:
            raise ValueError(f"burst must be at least 1, not {burst!r}")
        self.per_second, self.burst = per_second, burst


class RateLimits:
    """Rates by method, counted for each client.

    Threads: any.
    """

    def __init__(self, rates: Mapping[str, Rate], clock: Callable[[], float] = time.monotonic) -> None:
        self.rates, self._clock = rates, clock
        self._lock = threading.Lock()  # guards _full_at and _dropped
        # A bucket of tokens as one number: when it will be full again. The client that was quiet the longest is first.
        self._full_at: OrderedDict[tuple[Hashable, str], float] = OrderedDict()
        self._dropped: set[str] = set()

    def take(self, client: Hashable, method: str) -> float:
        """Take a token: 0.0 if there was one or the method has no rate, else the seconds until there is one."""
        rate = self.rates.get(method)
        if rate is None:
            return 0.0
        now, key = self._clock(), (client, method)
        with self._lock:
            full_at = max(self._full_at.pop(key, now), now)
            # Each token fills in `1 / per_second`; all but one of the burst may be missing.
            wait = full_at - now - (rate.burst - 1) / rate.per_second
            if wait < 1e-6:  # what is less is rounding
                wait, full_at = 0.0, full_at + 1 / rate.per_second
            self._full_at[key] = full_at
            if len(self._full_at) > MAX_BUCKETS:
                self._full_at.popitem(last=False)
        return wait

    def note_dropped(self, method: str) -> None:
        """Log that some notifications of a method are dropped: once, for whoever passes this log on to a client would
        otherwise log about logging without end."""
        with self._lock:
            first = method not in self._dropped
            self._dropped.add(method)
        if first:
            log.warning("rate limit for %s exceeded: dropping some from here on", method)


class RateLimited(Refusal):
    """429: too many of these requests; `data` is `{"retryAfter": SECONDS}`.

    Args:
        retry_after: what `RateLimits.take()` returned, in seconds; rounded up to milliseconds on the wire.
    """

    code = 429

    def __init__(self, retry_after: float, message: str = "Too many requests") -> None:
        super().__init__(message, {"retryAfter": math.ceil(retry_after * 1000) / 1000})
