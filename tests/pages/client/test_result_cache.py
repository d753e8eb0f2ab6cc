"""server/utilities/caching, the client's half: what is kept, for how long, for whom, and what ends it."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.kit.typed.uri_template import covers
from mcp_ref.pages.server.utilities.caching import CacheableRequest, CacheView, ResultCache
from tests.slow import examples
from tests.support.clock import Clock
from tests.support.wire import at_once

SERVER = "https://example.com/mcp"
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("server/discover", {}), ("tools/list", {}), ("tools/list", {"cursor": "2"}), ("prompts/list", {}),
    ("resources/list", {}), ("resources/templates/list", {}), ("resources/read", {"uri": "x:/a"}),
    ("resources/read", {"uri": "x:/a/b"}), ("resources/read", {"uri": "x:/ab"}),
]  # fmt: skip


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def cache(clock: Clock) -> ResultCache:
    return ResultCache(clock=clock)


@pytest.fixture
def view(cache: ResultCache) -> CacheView:
    return cache.for_(SERVER)


def answer(mark: Any = 0, ttl: Any = 10_000, scope: str = "private") -> dict[str, Any]:
    return {"tools": [{"name": "t"}], "mark": mark, "ttlMs": ttl, "cacheScope": scope, "resultType": "complete"}


def keep(view: CacheView, method: str, params: dict[str, Any] | None = None, **members: Any) -> None:
    put(view, view.begin(method, params), answer(**members))


def put(view: CacheView, request: CacheableRequest | None, result: dict[str, Any]) -> None:
    """Put as a client does: nothing of a request that must not be kept."""
    if request is not None:
        view.put(request, result)


# -- freshness ----------------------------------------------------------------------------------------------------


def test_a_stale_result_no_longer_takes_room(view: CacheView, cache: ResultCache, clock: Clock) -> None:
    keep(view, "tools/list")
    clock.now += 10
    view.get("tools/list", None)
    assert (len(cache._results), cache._size) == (0, 0)


@pytest.mark.parametrize(("method", "params"), REQUESTS)
def test_what_may_be_kept_is_kept(view: CacheView, method: str, params: dict[str, str]) -> None:
    keep(view, method, params)
    assert view.get(method, {**params, "_meta": {"a": 1}}) == answer()


def test_the_result_of_a_retry_with_input_is_neither_kept_nor_replaced_by_a_kept_one(view: CacheView) -> None:
    retry = {"uri": "x:/a", "requestState": "s"}
    keep(view, "resources/read", {"uri": "x:/a"}, mark=1)
    keep(view, "resources/read", retry, mark=2)
    assert view.get("resources/read", retry) is None
    assert view.get("resources/read", {"uri": "x:/a"}) == answer(1)


# -- for whom -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["shared", "PUBLIC", "", None])
def test_an_unknown_scope_counts_as_private(cache: ResultCache, view: CacheView, scope: Any) -> None:
    keep(view, "tools/list", scope=scope)
    assert view.get("tools/list", None) is not None
    assert cache.for_(SERVER).get("tools/list", None) is None


# -- what ends it -------------------------------------------------------------------------------------------------

CHANGES: list[tuple[str, dict[str, Any], set[int]]] = [
    (TOOLS, {}, {1, 2}),
    ("notifications/prompts/list_changed", {}, {3}),
    ("notifications/resources/list_changed", {"uri": "x:/a"}, {4, 5}),
    (UPDATED, {"uri": "x:/a"}, {6, 7}),
    (UPDATED, {"uri": "x:/a/b/c"}, {6, 7}),
    (UPDATED, {"uri": "x:/ab"}, {8}),
    (UPDATED, {"uri": "x:/abc"}, set()),
    ("notifications/message", {"uri": "x:/a"}, set()),
]


def kept(view: CacheView) -> set[int]:
    return {index for index, (method, params) in enumerate(REQUESTS) if view.get(method, params) is not None}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("method", "params", "ended"), CHANGES)
def test_a_notification_ends_what_it_concerns_also_if_the_answer_comes_later(
    view: CacheView, method: str, params: Any, ended: set[int], late: bool
) -> None:
    asked = [view.begin(*request) for request in REQUESTS]
    if late:
        view.changed(method, params)
    for request in asked:
        put(view, request, answer())
    if not late:
        view.changed(method, params)
    assert kept(view) == set(range(len(REQUESTS))) - ended
    if late:
        # An answer that comes too late leaves a newer one.
        again = view.begin("tools/list", None)
        view.changed(TOOLS, {})
        keep(view, "tools/list", mark="new")
        put(view, again, answer("old"))
        assert view.get("tools/list", None) == answer("new")


def test_a_refused_cursor_ends_all_pages_of_that_list_and_nothing_else(view: CacheView) -> None:
    for request in REQUESTS:
        keep(view, *request)
    under_way = view.begin("tools/list", {"cursor": "2"})
    view.forget_pages("tools/list")
    put(view, under_way, answer())
    assert kept(view) == set(range(len(REQUESTS))) - {1, 2}


# -- bounds -------------------------------------------------------------------------------------------------------


def read(view: CacheView, name: str) -> Any:
    return view.get("resources/read", {"uri": name})


def keep_read(view: CacheView, *names: str, **members: Any) -> None:
    for name in names:
        keep(view, "resources/read", {"uri": name}, **members)


def test_the_result_not_asked_for_the_longest_goes_first(clock: Clock) -> None:
    view = ResultCache(entries=2, clock=clock).for_(SERVER)
    keep_read(view, "x:/a", "x:/b")
    read(view, "x:/a")
    keep_read(view, "x:/c")
    assert [read(view, uri) is not None for uri in ("x:/a", "x:/b", "x:/c")] == [True, False, True]


def test_the_sizes_of_texts_and_keys_are_bounded_together(clock: Clock) -> None:
    cache = ResultCache(size=1000, clock=clock)
    view = cache.for_(SERVER)
    names = [f"x:/{letter * 200}" for letter in "abc"]
    keep_read(view, *names, mark="m" * 100)
    assert len(cache._results) == 2 and 600 < cache._size <= 1000
    assert read(view, names[0]) is None
    # One larger than the cache pushes nothing out but the one before it.
    keep_read(view, names[1], mark="m" * 1000)
    assert [read(view, name) is not None for name in names] == [False, False, True]


@pytest.mark.parametrize("bounds", [{"entries": 0}, {"size": 0}, {"entries": -1}])
def test_a_bound_below_one_is_refused(bounds: Any) -> None:
    with pytest.raises(ValueError, match="at least one"):
        ResultCache(**bounds)


# -- whatever happens, in whatever order --------------------------------------------------------------------------


class Given(NamedTuple):
    """An answer as the model remembers it."""

    who: int
    request: int
    began: int
    put: int
    expires: float
    public: bool


class Model:
    """A cache and a list of all that happened to it: what it may serve follows from the list."""

    SERVERS = ("s", "s", "s", "t")

    def __init__(self, entries: int) -> None:
        self.clock = Clock(100.0)
        self.cache = ResultCache(entries=entries, size=5000, clock=self.clock)
        self.views = [self.cache.for_(server) for server in self.SERVERS]
        self.asked: list[tuple[int, int, int, CacheableRequest]] = []
        self.given: list[Given] = []
        self.changes: list[tuple[int, str, set[int]]] = []
        self.step = 0

    def begin(self, who: int, request: int) -> None:
        begun = self.views[who].begin(*REQUESTS[request])
        assert begun is not None
        self.asked.append((who, request, self.step, begun))

    def put(self, which: int, ttl: int, public: bool) -> None:
        if self.asked:
            who, request, began, asking = self.asked.pop(which % len(self.asked))
            self.views[who].put(asking, answer(len(self.given), ttl, "public" if public else "private"))
            self.given.append(Given(who, request, began, self.step, self.clock.now + ttl / 1000, public))

    def change(self, who: int, which: int) -> None:
        method, params, ended = CHANGES[which]
        self.views[who].changed(method, params)
        self.changes.append((self.step, self.SERVERS[who], ended))

    def tick(self, seconds: int) -> None:
        self.clock.now += seconds

    def check(self) -> None:
        assert len(self.cache._results) <= self.cache._max_entries
        assert 0 <= self.cache._size <= 5000
        for who in range(len(self.views)):
            for request, (method, params) in enumerate(REQUESTS):
                got = self.views[who].get(method, params)
                if got is not None:
                    self.check_served(who, request, got["mark"])

    def check_served(self, who: int, request: int, mark: int) -> None:
        given = self.given[mark]
        assert request == given.request
        assert self.SERVERS[who] == self.SERVERS[given.who]
        assert given.public or who == given.who
        assert self.clock.now < given.expires
        assert not self.ended(given, self.step)
        for later in self.given[mark + 1 :]:
            assert (later.who, later.request) != (who, request) or self.ended(later, later.put)

    def ended(self, given: Given, until: int) -> bool:
        """Whether a change concerned what was given, after it was asked for and until then."""
        server = self.SERVERS[given.who]
        return any(
            given.began < step <= until and where == server and given.request in ended
            for step, where, ended in self.changes
        )


WHO = st.integers(0, len(Model.SERVERS) - 1)
STEPS = st.one_of(
    st.tuples(st.just("begin"), WHO, st.sampled_from([1, 6, 7])),
    st.tuples(st.just("put"), st.integers(0, 9), st.sampled_from([0, 1000, 3000, 60_000]), st.booleans()),
    st.tuples(st.just("change"), WHO, st.sampled_from([0, 3, 6])),
    st.tuples(st.just("tick"), st.integers(0, 2)),
)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(STEPS, min_size=5, max_size=40), st.sampled_from([1, 3, 1000]))
def test_nothing_is_served_that_is_stale_of_another_request_or_of_somebody_else(steps: Any, entries: int) -> None:
    model = Model(entries)
    for name, *arguments in steps:
        model.step += 1
        getattr(model, name)(*arguments)
        model.check()


@given(*(st.lists(st.sampled_from(["a", "b", ""]), max_size=3).map(lambda parts: "x:/" + "/".join(parts)),) * 2)
def test_an_update_ends_what_lies_on_one_path_with_it(read_uri: str, updated: str) -> None:
    view = ResultCache(clock=Clock(100.0)).for_(SERVER)
    keep_read(view, read_uri)
    view.changed(UPDATED, {"uri": updated})
    assert (read(view, read_uri) is None) is (covers(read_uri, updated) or covers(updated, read_uri))


def test_many_threads_may_use_one_cache() -> None:
    cache = ResultCache(entries=5, size=3000)

    def work(who: str) -> None:
        view = cache.for_(SERVER)
        for turn in range(300):
            method, params = REQUESTS[turn % len(REQUESTS)]
            keep(view, method, params, mark=who, scope="public" if turn % 4 == 0 else "private", ttl=60_000)
            got = view.get(method, params)
            assert got is None or got["mark"] == who or got["cacheScope"] == "public"
            with cache._lock:
                assert len(cache._results) <= 5 and cache._size <= 3000
            if turn % 10 == 0:
                view.changed(TOOLS, {})

    at_once(*(partial(work, name) for name in ("ann", "bob", "cid", "dee")))
