"""The server's half of subscriptions: what is sent to whom, in which order, and what happens at the end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast
from unittest.mock import Mock

import pytest

from mcp_ref.errors import RequestTimeout, TransportClosed
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.typed.uri_template import covers
from mcp_ref.pages.basic import subscriptions as page
from mcp_ref.pages.basic.subscriptions import Subscription, Subscriptions, covering
from mcp_ref.wire import messages
from mcp_ref.wire.served import Reply, ServedRequest
from tests.support.wire import PATIENCE, Background, at_once

ID = "io.modelcontextprotocol/subscriptionId"
TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

LISTS = {"listChanged": True}
EVERYTHING: Any = {"tools": LISTS, "prompts": LISTS, "resources": {"subscribe": True, **LISTS}}
ALL: Any = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
ALL["resourceSubscriptions"] = ["file:///a"]


class Wire(Reply):
    """The reply of a request: remembers what is written, after `before` has been called."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.before: Callable[[], Any] = lambda: None

    def send(self, message: Any, deadline: Deadline) -> None:
        messages.encode(message)
        self.before()
        self.written.append(message)

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.written]


def listening(
    subscriptions: Subscriptions, asked: Any = ALL, capabilities: Any = EVERYTHING
) -> tuple[Subscription, ServedRequest, Wire]:
    wire, params = Wire(), cast(Any, {"notifications": asked})
    incoming = ServedRequest(1, "subscriptions/listen", params, wire)
    return subscriptions.open(incoming, params, capabilities), incoming, wire


# -- what is honoured ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "field", "feature", "flag"),
    [
        (TOOLS, "toolsListChanged", "tools", "listChanged"),
        (PROMPTS, "promptsListChanged", "prompts", "listChanged"),
        (RESOURCES, "resourcesListChanged", "resources", "listChanged"),
        (UPDATED, "resourceSubscriptions", "resources", "subscribe"),
    ],
)
def test_what_is_not_supported_or_not_asked_for_is_not_acknowledged_and_never_sent(
    method: str, field: str, feature: str, flag: str
) -> None:
    for asked, declared in (
        (ALL, {**EVERYTHING, feature: {}}),
        (ALL, {**EVERYTHING, feature: {**EVERYTHING[feature], flag: False}}),
        (ALL, {name: flags for name, flags in EVERYTHING.items() if name != feature}),
        ({name: value for name, value in ALL.items() if name != field}, EVERYTHING),
    ):
        subscription, _, wire = listening(Subscriptions(), asked, declared)
        subscription.put(method, {"uri": "file:///a"} if method == UPDATED else None)
        subscription.flush()
        assert wire.methods == [ACKNOWLEDGED]
        assert field not in wire.written[0]["params"]["notifications"]


def test_a_flag_that_is_false_asks_for_nothing() -> None:
    asked: Any = {**dict.fromkeys(ALL, False), "resourceSubscriptions": []}
    assert listening(Subscriptions(), asked)[0].honoured == {}


def test_a_change_elsewhere_is_not() -> None:
    subscription, _, wire = listening(Subscriptions())
    for uri in ("file:///", "file:///ab", "file:///b", "file:///a.txt", "FILE:///a", ""):
        subscription.put(UPDATED, {"uri": uri})
    subscription.flush()
    assert wire.methods == [ACKNOWLEDGED]


URIS = ["", "/", "//", "a", "a/", "a//", "a/b", "a//b", "a/b/", "x:", "x:/", "x:/a?q/b", "x:/a?q", "x:/a", "x:/a#f/g"]


def test_a_uri_is_covered_by_the_longest_that_does() -> None:
    for asked, uri in itertools.product(URIS, URIS):
        assert covering(uri, {asked, "other:/"}) == (asked if covers(asked, uri) else None), (asked, uri)
    assert covering("x:/a/b/c", {"x:", "x:/a", "x:/a/b/"}) == "x:/a/b/"


# -- what waits ---------------------------------------------------------------------------------------------------


def test_the_same_change_twice_before_it_is_written_is_one_message() -> None:
    subscription, _, wire = listening(Subscriptions(), {**ALL, "resourceSubscriptions": ["file:///a", "file:///b"]})
    for _ in range(3):
        subscription.put(TOOLS)
        for name in "ab":
            subscription.put(UPDATED, {"uri": f"file:///{name}"})
    subscription.flush()
    assert wire.methods == [ACKNOWLEDGED, TOOLS, UPDATED, UPDATED]
    assert [message["params"]["uri"] for message in wire.written[2:]] == ["file:///a", "file:///b"]


def test_what_waits_for_a_client_is_bounded_and_no_change_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_PENDING", 4)
    subscription, _, wire = listening(Subscriptions(), {**ALL, "resourceSubscriptions": ["file:///a", "file:///a/1"]})
    for number in range(100):
        subscription.put(UPDATED, {"uri": f"file:///a/{number}/x"})
    subscription.put(TOOLS)
    subscription.flush()
    told = [message["params"].get("uri") for message in wire.written[1:]]
    assert told == ["file:///a/0/x", "file:///a/1/x", "file:///a/2/x", "file:///a", None]


# -- the end ------------------------------------------------------------------------------------------------------


def test_a_graceful_end_writes_what_waits_and_says_once_that_the_closing_is_due() -> None:
    subscriptions = Subscriptions()
    subscription, _, wire = listening(subscriptions)
    subscription.put(TOOLS)
    subscription.end("maintenance")
    subscription.put(PROMPTS)
    assert len(subscriptions) == 0
    assert subscription.flush() is True
    assert subscription.flush() is False
    assert wire.methods == [ACKNOWLEDGED, TOOLS]
    assert subscription.cancelled_notification() == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "maintenance", "_meta": {ID: 1}},
    }
    assert subscription.closing() == {"resultType": "complete", "_meta": {ID: 1}}
    assert not subscription.gone


def test_one_that_ends_before_it_is_carried_is_acknowledged_all_the_same() -> None:
    subscription, _, wire = listening(Subscriptions())
    subscription.end()
    woken: list[bool] = []
    subscription.carry(lambda: woken.append(True))
    assert woken == [True]
    assert subscription.flush() is True
    assert wire.methods == [ACKNOWLEDGED]


def test_an_end_while_a_flush_writes_is_seen_by_that_flush_alone() -> None:
    subscription, _, wire = listening(Subscriptions())
    subscription.carry(lambda: None)
    held, go = threading.Event(), threading.Event()
    wire.before = lambda: held.set() or go.wait(PATIENCE)
    writing = Background(subscription.flush)
    assert held.wait(PATIENCE)
    subscription.put(TOOLS)
    subscription.end()
    assert subscription.flush() is False
    go.set()
    assert writing.outcome() is True
    assert wire.methods == [ACKNOWLEDGED, TOOLS]


def test_of_one_that_is_cancelled_nothing_is_kept_and_no_closing_is_due() -> None:
    subscriptions = Subscriptions()
    params: Any = {"notifications": ALL}
    incoming = ServedRequest(1, "subscriptions/listen", params, Wire())
    incoming.cancel("before it was opened")
    assert subscriptions.open(incoming, params, EVERYTHING).gone and len(subscriptions) == 0
    subscription, incoming, wire = listening(subscriptions)
    subscription.end()
    incoming.cancel("after the end began")
    assert subscription.flush() is False
    assert wire.written == []


@pytest.mark.parametrize("problem", [BrokenPipeError(), TransportClosed(""), RequestTimeout(""), KeyboardInterrupt()])
def test_one_whose_write_fails_is_forgotten_and_holds_up_no_other(problem: BaseException) -> None:
    subscriptions = Subscriptions()
    (broken, _, to_broken), (other, _, to_other) = listening(subscriptions), listening(subscriptions)
    to_broken.before = Mock(side_effect=[problem, None, None])
    for method in (TOOLS, PROMPTS):
        broken.put(method)
        other.put(method)
        interrupted = method == TOOLS and isinstance(problem, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
            assert broken.flush() is False
        assert (broken.gone, len(subscriptions)) == (True, 1)
        other.flush()
    assert to_broken.written == []
    assert to_other.methods == [ACKNOWLEDGED, TOOLS, PROMPTS]


def test_a_notification_that_is_not_json_is_left_out_alone() -> None:
    subscription, _, wire = listening(Subscriptions())
    subscription.put(TOOLS, {"bad": object()})
    subscription.put(PROMPTS)
    subscription.flush()
    assert wire.methods == [ACKNOWLEDGED, PROMPTS]
    assert not subscription.gone


# -- races --------------------------------------------------------------------------------------------------------


def test_the_last_change_always_arrives_whoever_puts_and_flushes_meanwhile() -> None:
    for _ in range(20):
        subscription, _, wire = listening(Subscriptions())
        woken = threading.Event()
        subscription.carry(woken.set)

        def put(name: str, subscription: Subscription = subscription) -> None:
            for number in range(100):
                subscription.put(UPDATED, {"uri": f"file:///a/{name}", "number": number})

        def flush(subscription: Subscription = subscription, woken: threading.Event = woken) -> None:
            for _ in range(100):
                if woken.is_set():
                    woken.clear()
                    subscription.flush()

        at_once(lambda: put("a"), lambda: put("b"), flush, flush)
        # Whoever carries it was woken for all that still waits.
        flush()
        assert wire.written[0]["method"] == ACKNOWLEDGED
        for name in ("a", "b"):
            numbers = [m["params"]["number"] for m in wire.written[1:] if m["params"]["uri"][-1] == name]
            assert numbers == sorted(set(numbers)) and numbers[-1] == 99


def test_of_many_that_flush_and_end_one_sends_the_closing_and_nothing_follows_it() -> None:
    for _ in range(50):
        subscriptions = Subscriptions()
        subscription, _, wire = listening(subscriptions)
        subscription.carry(lambda: None)

        def flush(subscription: Subscription = subscription, wire: Wire = wire) -> int | None:
            return len(wire.written) if subscription.flush() else None

        def put(subscription: Subscription = subscription) -> None:
            for _ in range(20):
                subscription.put(TOOLS)

        results = [*at_once(put, flush, flush, subscription.end, subscription.end, flush), flush()]
        assert [result for result in results if result is not None] == [len(wire.written)]
        assert wire.methods.count(ACKNOWLEDGED) == 1 and wire.methods[0] == ACKNOWLEDGED
        assert len(subscriptions) == 0
