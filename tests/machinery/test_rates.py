from __future__ import annotations

import pytest

from mcp_ref.machinery.rates import Rate, RateLimited, RateLimits


class Hand:
    """A clock moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_passes_and_the_next_one_is_told_how_long_to_wait() -> None:
    limits = RateLimits({"x/y": Rate(per_second=2, burst=3)}, Hand())
    assert [limits.take("a client", "x/y") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_after_the_time_told_there_is_a_token_and_a_refused_attempt_costs_none() -> None:
    clock = Hand()
    limits = RateLimits({"x/y": Rate(per_second=2, burst=1)}, clock)
    limits.take("a client", "x/y")
    assert limits.take("a client", "x/y") == limits.take("a client", "x/y") == 0.5
    clock.now += 0.25
    assert limits.take("a client", "x/y") == 0.25
    clock.now += 0.25
    assert limits.take("a client", "x/y") == 0.0


def test_idle_time_fills_the_bucket_only_up_to_its_burst() -> None:
    clock = Hand()
    limits = RateLimits({"x/y": Rate(per_second=10, burst=2)}, clock)
    clock.now += 3600
    assert [limits.take("a client", "x/y") for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]


def test_each_client_and_each_method_counts_by_itself() -> None:
    once = Rate(per_second=1, burst=1)
    limits = RateLimits({"x/y": once, "x/z": once}, Hand())
    assert [limits.take(client, method) for client in "ab" for method in ("x/y", "x/z", "no rate")] == [0.0] * 6
    assert limits.take("a", "x/y") == 1.0


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0)])
def test_a_rate_that_lets_nothing_through_is_refused_when_made(per_second: float, burst: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        Rate(per_second, burst)


def test_the_refusal_says_when_to_try_again_with_a_code_outside_the_reserved_range() -> None:
    refusal = RateLimited(0.12341)
    assert refusal.code == 429
    assert refusal.data == {"retryAfter": 0.124}
