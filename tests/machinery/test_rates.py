from __future__ import annotations

import pytest

from mcp_ref.machinery.rates import Rate, RateLimited, TokenBucket


class Hand:
    """A clock moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_passes_and_the_next_one_is_told_how_long_to_wait() -> None:
    bucket = TokenBucket(Rate(per_second=2, burst=3), Hand())
    assert [bucket.take() for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_after_the_time_told_there_is_a_token_and_a_refused_attempt_costs_none() -> None:
    clock = Hand()
    bucket = TokenBucket(Rate(per_second=2, burst=1), clock)
    bucket.take()
    assert bucket.take() == bucket.take() == 0.5
    clock.now += 0.25
    assert bucket.take() == 0.25
    clock.now += 0.25
    assert bucket.take() == 0.0


def test_idle_time_fills_the_bucket_only_up_to_its_burst() -> None:
    clock = Hand()
    bucket = TokenBucket(Rate(per_second=10, burst=2), clock)
    clock.now += 3600
    assert [bucket.take() for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0)])
def test_a_rate_that_lets_nothing_through_is_refused_when_made(per_second: float, burst: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        Rate(per_second, burst)


def test_the_refusal_says_when_to_try_again_with_a_code_outside_the_reserved_range() -> None:
    refusal = RateLimited(0.12341)
    assert refusal.code == 429
    assert refusal.data == {"retryAfter": 0.124}
