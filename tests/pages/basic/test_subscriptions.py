"""The server's half of subscriptions: what is sent to whom, in which order, and what happens at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

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

EVERYTHING: Any = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
ALL: Any = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["file:///a"],
}


class Wire(Reply):
    """The reply of a request: remembers what is written; a write can be held, or made to fail."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.open = threading.Event()
        self.open.set()
        self.held = threading.Event()
        self.problem: BaseException | None = None

    def send(self, message: Any, deadline: Deadline) -> None:
        messages.encode(message)
        if not self.open.is_set():
            self.held.set()
            assert self.open.wait(PATIENCE)
        if self.problem is not None:
            raise self.problem
        self.written.append(message)

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.written]


def listening(
    subscriptions: Subscriptions,
    asked: Any = ALL,
    *,
    request_id: Any = 1,
    capabilities: Any = EVERYTHING,
    gone: Callable[[], bool] | None = None,
) -> tuple[Subscription, ServedRequest, Wire]:
    wire = Wire()
    params: Any = {"notifications": asked}
    incoming = ServedRequest(request_id, "subscriptions/listen", params, wire, gone)
    return subscriptions.open(incoming, params, capabilities), incoming, wire


# -- what is honoured ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "field", "capability"),
    [
        (TOOLS, "toolsListChanged", ("tools", "listChanged")),
        (PROMPTS, "promptsListChanged", ("prompts", "listChanged")),
        (RESOURCES, "resourcesListChanged", ("resources", "listChanged")),
        (UPDATED, "resourceSubscriptions", ("resources", "subscribe")),
    ],
)
@pytest.mark.parametrize("lack", ["capability", "flag", "flag is false", "request"])
def test_what_is_not_supported_or_not_asked_for_is_not_acknowledged_and_never_sent(
    method: str, field: str, capability: tuple[str, str], lack: str
) -> None:
    asked, declared = dict(ALL), {name: dict(members) for name, members in EVERYTHING.items()}
    if lack == "capability":
        del declared[capability[0]]
    elif lack == "flag":
        del declared[capability[0]][capability[1]]
    elif lack == "flag is false":
        declared[capability[0]][capability[1]] = False
    else:
        del asked[field]
    subscriptions = Subscriptions()
    subscription, _, wire = listening(subscriptions, asked, capabilities=declared)
    subscription.put(method, {"uri": "file:///a"} if method == UPDATED else None)
    subscription.flush()
    assert wire.methods == [ACKNOWLEDGED]
    assert field not in wire.written[0]["params"]["notifications"]


@pytest.mark.parametrize("field", ["toolsListChanged", "promptsListChanged", "resourcesListChanged"])
def test_a_flag_that_is_false_asks_for_nothing(field: str) -> None:
    asked: Any = {field: False, "resourceSubscriptions": []}
    assert listening(Subscriptions(), asked)[0].honoured == {}


@pytest.mark.parametrize("uri", ["file:///", "file:///ab", "file:///b", "file:///a.txt", "FILE:///a", ""])
def test_a_change_elsewhere_is_not(uri: str) -> None:
    subscriptions = Subscriptions()
    subscription, _, wire = listening(subscriptions)
    subscription.put(UPDATED, {"uri": uri})
    subscription.flush()
    assert wire.methods == [ACKNOWLEDGED]


URIS = ["", "/", "//", "a", "a/", "a//", "a/b", "a//b", "a/b/", "x:", "x:/", "x:/a?q/b", "x:/a?q", "x:/a", "x:/a#f/g"]


@pytest.mark.parametrize("asked", URIS)
def test_a_uri_is_covered_by_the_longest_that_does(asked: str) -> None:
    for uri in URIS:
        assert covering(uri, {asked, "other:/"}) == (asked if covers(asked, uri) else None), uri
    assert covering("x:/a/b/c", {"x:", "x:/a", "x:/a/b/"}) == "x:/a/b/"


# -- what waits ---------------------------------------------------------------------------------------------------


def test_the_same_change_twice_before_it_is_written_is_one_message() -> None:
    subscription, _, wire = listening(Subscriptions(), {**ALL, "resourceSubscriptions": ["file:///a", "file:///b"]})
    for _ in range(3):
        subscription.put(TOOLS)
        subscription.put(UPDATED, {"uri": "file:///a"})
        subscription.put(UPDATED, {"uri": "file:///b"})
    subscription.flush()
    assert [(message["method"], message["params"].get("uri")) for message in wire.written[1:]] == [
        (TOOLS, None),
        (UPDATED, "file:///a"),
        (UPDATED, "file:///b"),
    ]


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
    wire.open.clear()
    writing = Background(subscription.flush)
    try:
        assert wire.held.wait(PATIENCE)
        subscription.put(TOOLS)
        subscription.end()
        assert subscription.flush() is False
    finally:
        wire.open.set()
    assert writing.outcome() is True
    assert wire.methods == [ACKNOWLEDGED, TOOLS]


def test_one_that_was_cancelled_before_it_was_opened_is_not_kept() -> None:
    subscriptions = Subscriptions()
    incoming = ServedRequest(1, "subscriptions/listen", {}, Wire())
    incoming.cancel("enough")
    params: Any = {"notifications": ALL}
    subscription = subscriptions.open(incoming, params, EVERYTHING)
    assert (len(subscriptions), subscription.gone) == (0, True)


def test_a_cancellation_after_the_end_began_means_that_no_closing_is_due() -> None:
    subscription, incoming, wire = listening(Subscriptions())
    subscription.end()
    incoming.cancel("enough")
    assert subscription.flush() is False
    assert wire.written == []


@pytest.mark.parametrize(
    "problem", [BrokenPipeError("gone"), TransportClosed("gone"), RequestTimeout("it does not read")]
)
def test_one_whose_write_fails_is_forgotten_and_holds_up_no_other(problem: Exception) -> None:
    subscriptions = Subscriptions()
    broken, _, to_broken = listening(subscriptions)
    other, _, to_other = listening(subscriptions)
    to_broken.problem = problem
    broken.put(TOOLS)
    other.put(TOOLS)
    assert broken.flush() is False
    assert (broken.gone, len(subscriptions)) == (True, 1)
    to_broken.problem = None
    broken.put(PROMPTS)
    other.put(PROMPTS)
    assert broken.flush() is False
    other.flush()
    assert to_broken.written == []
    assert to_other.methods == [ACKNOWLEDGED, TOOLS, PROMPTS]


def test_a_write_that_is_interrupted_leaves_nothing_behind() -> None:
    subscriptions = Subscriptions()
    subscription, _, wire = listening(subscriptions)
    wire.problem = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        subscription.flush()
    assert (subscription.gone, len(subscriptions)) == (True, 0)
    assert subscription.flush() is False


def test_a_notification_that_is_not_json_is_left_out_alone() -> None:
    subscription, _, wire = listening(Subscriptions())
    subscription.put(TOOLS, {"bad": object()})
    subscription.put(PROMPTS)
    subscription.flush()
    assert wire.methods == [ACKNOWLEDGED, PROMPTS]
    assert not subscription.gone


# -- races --------------------------------------------------------------------------------------------------------


class Carrier:
    """A transport of one thread, which flushes when it is woken."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.closings = 0
        self.over = False
        self.woken = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self) -> Carrier:
        self.subscription.carry(self.woken.set)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        self.woken.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    def run(self) -> None:
        while not self.over:
            assert self.woken.wait(PATIENCE)
            self.woken.clear()
            self.closings += self.subscription.flush()


def test_the_last_change_always_arrives_whoever_puts_and_flushes_meanwhile() -> None:
    for _ in range(20):
        subscription, _, wire = listening(Subscriptions())
        arrived = {"a": threading.Event(), "b": threading.Event()}

        def remember(message: Any, deadline: Deadline, wire: Wire = wire, arrived: Any = arrived) -> None:
            wire.written.append(message)
            if message["params"].get("last"):
                arrived[message["params"]["uri"][-1]].set()

        wire.send = remember  # type: ignore[method-assign]

        def put(name: str, subscription: Subscription = subscription) -> None:
            for number in range(100):
                subscription.put(UPDATED, {"uri": f"file:///a/{name}", "number": number, "last": number == 99})

        with Carrier(subscription):
            at_once(lambda: put("a"), lambda: put("b"), subscription.flush, subscription.flush)
            assert arrived["a"].wait(PATIENCE) and arrived["b"].wait(PATIENCE)
        assert wire.written[0]["method"] == ACKNOWLEDGED
        for name in ("a", "b"):
            numbers = [m["params"]["number"] for m in wire.written[1:] if m["params"]["uri"][-1] == name]
            assert numbers == sorted(set(numbers))


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

        results = at_once(put, flush, flush, subscription.end, subscription.end, flush)
        results.append(flush())
        written_at_the_closing = [result for result in results if result is not None]
        assert written_at_the_closing == [len(wire.written)]
        assert wire.methods.count(ACKNOWLEDGED) == 1 and wire.methods[0] == ACKNOWLEDGED
        assert len(subscriptions) == 0
