"""Shared by tests: what the tests with programs of others share: a conversation for each module, and tests for some
revisions only.

A test is marked with the revisions that have what it tests, and is not collected for the others:

    @pytest.mark.since("2025-06-18")        that revision and later ones
    @pytest.mark.until("2025-06-18")        that revision and earlier ones
    @pytest.mark.not_old                    not with the old SDK, which cannot do it
    @pytest.mark.our_client, .our_server    only with ours in that role
    @pytest.mark.stateful                   not with a server without sessions: it forgets, and cannot ask
    @pytest.mark.streams                    nor with one that answers in JSON: it cannot ask or tell while it answers

Programs of others are slow to start, and most are only there after `.ci/peers`. So these tests are all `slow`, but for
those of the conversations with the newest SDK for Python, over stdio, in each era: these run with the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_ref import Client
from tests.conftest import threads_are_gone
from tests.interop.programs import BOTH_ERAS, HERE, MARKS, NEW_SDK, OURS, Pair, applies
from tests.interop.talk import Drivers

QUICK = {Pair(NEW_SDK, OURS), Pair(BOTH_ERAS, OURS), Pair(OURS, BOTH_ERAS)}


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    # A conversation is shared by the tests of a module, so its threads may outlive a test, and not the module.
    yield from threads_are_gone()


@pytest.fixture(scope="module", autouse=True)
def connecting_may_take_long() -> Iterator[None]:
    # Programs of others start slowly, and more so on a busy machine.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Client.__init__.__kwdefaults__, "connect_timeout", 60)
        # The old SDK over stdio goes on after an unknown request only with the next line.
        patch.setitem(Client.__init__.__kwdefaults__, "probe_timeout", 10)
        yield


@pytest.fixture(scope="session")
def drivers() -> Iterator[Drivers]:
    """The clients of others, each started once."""
    with Drivers() as drivers:
        yield drivers


def pytest_configure(config: pytest.Config) -> None:
    for name in MARKS:
        config.addinivalue_line("markers", f"{name}: see tests/interop/conftest.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    without = []
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        pair = _pair(item)
        if pair not in QUICK:
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(180))
        if pair is not None and not applies(item.iter_markers(), pair):
            without.append(item)
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in without]


def _pair(item: Any) -> Pair | None:
    found = item.callspec.params.get("session") if hasattr(item, "callspec") else None
    return found if isinstance(found, Pair) else None
