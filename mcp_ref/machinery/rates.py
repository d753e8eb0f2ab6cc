"""Rate limits: a bucket of tokens, and the refusal when it is empty. Nothing of its own on the wire but that error.

Spec:      server/tools#security-considerations, server/utilities/completion#security,
           server/utilities/logging#security, client/sampling#security-considerations
Upholds:   the rows on rate limiting in the notes of these pages
Not here:  which requests are counted, for whom, and the lock (whoever owns a bucket)

The pages ask for limits and name no error. The code is 429, as HTTP's "Too Many Requests": it lies outside the range
that JSON-RPC keeps, and `data.retryAfter` says after how many seconds another attempt has a chance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from mcp_ref.errors import Refusal


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


class TokenBucket:
    """A bucket that starts full and fills at a rate; each event takes one token out.

    Threads: none of its own locks; the owner calls `take()` with one lock of its own held.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = float(rate.burst)
        self._filled_at = clock()

    def take(self) -> float:
        """Take a token: 0.0 if there was one, else the seconds until there is one (and none was taken)."""
        now = self._clock()
        gained = (now - self._filled_at) * self._rate.per_second
        self._tokens = min(float(self._rate.burst), self._tokens + gained)
        self._filled_at = now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate.per_second


class RateLimited(Refusal):
    """429: too many of these requests; `data` is `{"retryAfter": SECONDS}`.

    Args:
        retry_after: what `TokenBucket.take()` returned, in seconds; rounded up to milliseconds on the wire.
    """

    code = 429

    def __init__(self, retry_after: float, message: str = "Too many requests") -> None:
        super().__init__(message, {"retryAfter": math.ceil(retry_after * 1000) / 1000})
