"""server/utilities/caching: the hints of a server, and which results a client may keep because of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.pages.server.utilities.caching import CACHEABLE, INVALIDATED_BY, NO_HINT, CacheHint, key_of, seconds_fresh
from mcp_ref.pages.table import METHODS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)

# -- the server says ----------------------------------------------------------------------------------------------


def test_a_hint_becomes_the_two_members_of_a_result() -> None:
    assert CacheHint(1.5, "public").fields() == {"ttlMs": 1500, "cacheScope": "public"}
    assert CacheHint().fields() == NO_HINT == {"ttlMs": 0, "cacheScope": "private"}


# -- what a kept result is found by -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted({*METHODS, "x"}))
def test_results_with_hints_have_a_cache_key_and_no_others(method: str) -> None:
    assert (key_of(method, None) is not None) is (key_of(method, {}) is not None) is (method in CACHEABLE)


@pytest.mark.parametrize("name", ["inputResponses", "requestState"])
@pytest.mark.parametrize("value", [{}, "", None, "state"])
def test_a_retry_with_input_has_no_key(name: str, value: Any) -> None:
    assert key_of("resources/read", {"uri": "x:/a", name: value}) is None


def test_each_page_has_a_key_of_its_own() -> None:
    cursors = [{}, *({"cursor": cursor} for cursor in ("", None, "1", 1, 1.0, True))]
    assert len({key_of("tools/list", params) for params in cursors}) == len(cursors)
    # What is absent, empty or of the envelope alone is the same request.
    assert key_of("tools/list", None) == key_of("tools/list", {}) == key_of("tools/list", {"_meta": {"a": 1}})


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), ENDLESS])
def test_parameters_that_are_not_json_have_no_key(value: Any) -> None:
    assert key_of("tools/list", {"cursor": value}) is None


PARAMS = st.dictionaries(st.sampled_from(["cursor", "uri", "_meta", "other"]), JSON)


@given(st.sampled_from(sorted(CACHEABLE)), PARAMS, st.sampled_from(sorted(CACHEABLE)), PARAMS)
def test_two_requests_have_one_key_only_if_they_are_the_same(
    method: str, params: dict[str, Any], other: str, others: dict[str, Any]
) -> None:
    def text(value: dict[str, Any]) -> str:
        return json.dumps({name: inner for name, inner in value.items() if name != "_meta"}, sort_keys=True)

    assert key_of(method, dict(reversed(params.items()))) == key_of(method, params)
    same = method == other and text(params) == text(others)
    assert (key_of(method, params) == key_of(other, others)) is same


# -- for how long --------------------------------------------------------------------------------------------------


def test_a_time_counts_in_milliseconds() -> None:
    assert seconds_fresh({"ttlMs": 1500}) == seconds_fresh({"ttlMs": 1500, "resultType": "complete"}) == 1.5


STALE: list[Any] = [
    *({"ttlMs": ttl} for ttl in (0, -1, -(10**30), True, False, None, "5000", 5000.0, float("inf"), [], {})),
    *({"ttlMs": 5000, "resultType": kind} for kind in ("input_required", "task", "", None, 1)),
    {"tools": [], "cacheScope": "public"},
]


@pytest.mark.parametrize("result", STALE, ids=str)
def test_without_a_whole_number_above_zero_in_a_complete_result_it_is_stale_at_once(result: Any) -> None:
    assert seconds_fresh(result) == 0.0


def test_a_huge_ttl_is_a_finite_number_of_seconds() -> None:
    assert 10**8 < seconds_fresh({"ttlMs": 10**4000}) < 10**10


def test_notifications_make_results_stale_that_can_be_kept() -> None:
    assert set(INVALIDATED_BY) <= set(METHODS)
    assert frozenset().union(*INVALIDATED_BY.values()) == CACHEABLE - {"server/discover"}
