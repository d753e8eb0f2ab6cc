from __future__ import annotations

import pytest

from mcp_ref.kit.threads.deadline import Rate, RateLimits
from tests.support.clock import Clock


def test_after_the_time_told_there_is_a_token_and_a_refused_attempt_costs_none() -> None:
    clock = Clock(100.0)
    limits = RateLimits({"x/y": Rate(per_second=2, burst=1)}, clock)
    limits.take("a client", "x/y")
    assert limits.take("a client", "x/y") == limits.take("a client", "x/y") == 0.5
    clock.now += 0.25
    assert limits.take("a client", "x/y") == 0.25
    clock.now += 0.25
    assert limits.take("a client", "x/y") == 0.0
    # Idle time fills the bucket only up to its burst.
    limits = RateLimits({"x/y": Rate(per_second=10, burst=2)}, clock)
    clock.now += 3600
    assert [limits.take("a client", "x/y") for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0)])
def test_a_rate_that_lets_nothing_through_is_refused_when_made(per_second: float, burst: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        Rate(per_second, burst)
