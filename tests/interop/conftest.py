"""Shared by tests: what the tests with programs of others share: a conversation for each module, and tests for some
revisions only.

A test is marked with the revisions that have what it tests, and is not collected for the others:

    @pytest.mark.since("2025-06-18")        that revision and later ones
    @pytest.mark.until("2025-06-18")        that revision and earlier ones
    @pytest.mark.not_old                    not with the old SDK, which cannot do it
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
from mcp_ref.revisions import find_revision
from tests.conftest import threads_are_gone
from tests.interop.programs import BOTH_ERAS, HERE, NEW_SDK, OLD_SDK, Pairing

QUICK = {Pairing(NEW_SDK, None), Pairing(BOTH_ERAS, None)}


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


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "since(revision): what is tested exists from that revision on")
    config.addinivalue_line("markers", "until(revision): what is tested exists up to that revision")
    config.addinivalue_line("markers", "not_old: the old SDK cannot do what is tested")
    config.addinivalue_line("markers", "stateful: what is tested needs a session")
    config.addinivalue_line("markers", "streams: what is tested needs an event stream for each answer")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and _parameters(item).get("session") not in QUICK:
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(180))
    without = [item for item in items if not _applies(item)]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in without]


def _applies(item: pytest.Item) -> bool:
    marks = {mark.name: mark.args for mark in item.iter_markers()}
    if not marks.keys() & {"since", "until", "not_old", "stateful", "streams"}:
        return True
    pairing = _pairing(item)
    order = find_revision(pairing.agreed).order
    return not (
        ("since" in marks and order < find_revision(*marks["since"]).order)
        or ("until" in marks and order > find_revision(*marks["until"]).order)
        or ("not_old" in marks and pairing.peer == OLD_SDK)
        or ("stateful" in marks and pairing.way == "stateless")
        or ("streams" in marks and pairing.way in ("json", "stateless"))
    )


def _pairing(item: Any) -> Pairing:
    found = _parameters(item)["session"]
    assert isinstance(found, Pairing)
    return found


def _parameters(item: Any) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}
