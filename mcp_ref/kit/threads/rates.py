"""Rate limits: a bucket of tokens, and the refusal when it is empty. Nothing of its own on the wire but that error.

Spec:      server/tools#security-considerations, server/utilities/completion#security,
           server/utilities/logging#security, client/sampling#security-considerations
Upholds:   the rows on rate limiting in the notes of these pages
Not here:  which requests are counted, and what tells one client from another (server/session,
           client/session)

The pages ask for limits and name no error. The code is 429, as HTTP's "Too Many Requests": it lies outside the range
that JSON-RPC keeps, and `data.retryAfter` says after how many seconds another attempt has a chance.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping

from mcp_ref.errors import Refusal

log = logging.getLogger(__name__)

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
