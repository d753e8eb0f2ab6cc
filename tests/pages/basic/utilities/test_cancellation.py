"""basic/utilities/cancellation: a request given up, in both directions, and the three races."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Cancel, Context, RequestCancelled, Server
from mcp_ref.pages.basic.versioning import SUBSCRIPTION_ID
from mcp_ref.revisions import REVISIONS
from mcp_ref.wire.served import ServedRequest
from tests.eras import MODERN, open_client
from tests.peers import a_peer
from tests.support.wire import PATIENCE, Background, opened, to_client


class Handler:
    """A handler that waits, and says what it saw."""

    def __init__(self, result: Any = None) -> None:
        self.running, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.incoming: ServedRequest | None = None
        self._result = {} if result is None else result

    def __call__(self, incoming: ServedRequest) -> Any:
        self.incoming = incoming
        self.running.set()
        assert self.go.wait(PATIENCE)
        self.ended.set()
        return self._result


# -- giving up ----------------------------------------------------------------------------------------------------


def test_a_handle_used_before_the_call_means_that_nothing_is_sent() -> None:
    give_up = Cancel()
    give_up("too late")
    with to_client() as (client, wire):
        with pytest.raises(RequestCancelled, match="too late"):
            client.ping(cancel=give_up)
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent(), "neither a request nor the cancellation of one that was never issued"


def test_one_handle_gives_several_calls_up_and_only_once() -> None:
    give_up = Cancel()
    with to_client() as (client, wire):
        calls = [Background(client.ping, cancel=give_up) for _ in range(2)]
        ids = {wire.receive()["id"], wire.receive()["id"]}
        give_up("first")
        give_up("second")
        assert all(isinstance(call.outcome(), RequestCancelled) for call in calls)
        cancelled = [wire.receive()["params"] for _ in ids]
        assert {each["requestId"] for each in cancelled} == ids
        assert {each["reason"] for each in cancelled} == {"first"}


def test_a_handle_outlives_the_call_and_then_does_nothing() -> None:
    give_up = Cancel()
    with to_client() as (client, wire):
        call = Background(client.ping, cancel=give_up)
        wire.answer(wire.receive()["id"], {})
        assert call.outcome() is None
        give_up()
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()


def test_the_text_of_a_callers_own_exception_does_not_go_out() -> None:
    def fails(*report: Any) -> None:
        raise ValueError("the password is 1234")

    with to_client() as (client, wire):
        call = Background(client.ping, on_progress=fails)
        request_id = wire.receive()["id"]
        wire.notify("notifications/progress", {"progressToken": request_id, "progress": 1})
        assert isinstance(call.outcome(), ValueError)
        assert wire.receive()["params"] == {"requestId": request_id, "reason": "given up by its caller"}


# -- being given up -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_cancelled_request_is_not_answered_and_its_handler_can_tell(revision: str) -> None:
    handler = Handler()
    with a_peer(handler, revision) as (peer, wire):
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert handler.running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 1, "reason": "never mind"})
        assert handler.incoming is not None
        assert (handler.incoming.cancelled, handler.incoming.reason) == (True, "never mind")
        assert peer.unanswered == {}
        handler.go.set()
        assert handler.ended.wait(PATIENCE)
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()


def test_a_request_cancelled_before_its_turn_is_never_begun() -> None:
    handler, begun = Handler(), SimpleQueue[Any]()

    def answer(incoming: ServedRequest) -> Any:
        begun.put(incoming.id)
        return handler(incoming)

    with a_peer(answer, cap=1) as (_, wire):
        for request_id in (1, 2):
            wire.send({"jsonrpc": "2.0", "id": request_id, "method": "tools/list"})
        assert handler.running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 2})
        handler.go.set()
        assert wire.receive()["id"] == 1
        assert wire.request(3, "tools/list")["id"] == 3
        assert [begun.get_nowait(), begun.get_nowait(), begun.empty()] == [1, 3, True]


def test_a_cancelled_handler_cannot_ask_any_more() -> None:
    server, running, go, left = Server("s"), threading.Event(), threading.Event(), SimpleQueue[str]()

    @server.tool()
    def ask(ctx: Context) -> str:
        running.set()
        assert go.wait(PATIENCE)
        try:
            ctx.roots()
        except RequestCancelled as problem:
            left.put(str(problem))
        return "done"

    with opened(server, "2025-11-25", {"roots": {}}) as wire:
        wire.call(1, "ask")
        assert running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 1, "reason": "enough"})
        go.set()
        assert left.get(timeout=PATIENCE) == "enough"
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent(), "the question was not sent"


def test_both_sides_log_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcp_ref")
    handler, give_up = Handler(), Cancel()
    with a_peer(handler) as (_, wire):
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert handler.running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 1, "reason": "the peer's reason"})
        handler.go.set()
    with to_client() as (client, wire):
        call = Background(client.ping, cancel=give_up)
        wire.receive()
        give_up("our reason")
        call.outcome()
    assert "the peer's reason" in caplog.text
    assert "our reason" in caplog.text


# -- what is ignored ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"requestId": "unknown"},
        {"requestId": 1, "reason": 5},
        {"requestId": True},
        {"requestId": 1.0},
        {"requestId": "1"},
        {"requestId": [[1]]},
        {"requestId": None},
        {},
    ],
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_unknown_or_malformed_cancellation_is_ignored(params: Any, revision: str) -> None:
    handler = Handler()
    with a_peer(handler, revision) as (_, wire):
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert handler.running.wait(PATIENCE)
        wire.notify("notifications/cancelled", params)
        handler.go.set()
        assert wire.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_initialize_cannot_be_cancelled() -> None:
    go = threading.Event()
    with a_peer(lambda incoming: go.wait(PATIENCE) and {"was": "answered"}) as (_, wire):
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "initialize"})
        wire.notify("notifications/cancelled", {"requestId": 1})
        go.set()
        assert wire.receive()["result"] == {"was": "answered"}


def test_a_request_of_the_other_direction_is_not_meant() -> None:
    """The server cancels its own request 1, not the client's request 1 that happens to have the same id."""
    with to_client() as (client, wire):
        call = Background(client.ping)
        request_id = wire.receive()["id"]
        wire.notify("notifications/cancelled", {"requestId": request_id})
        wire.answer(request_id, {})
        assert call.outcome() is None


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/tools/list_changed"])
def test_in_the_stateless_era_a_server_ends_no_call_by_a_notification(method: str) -> None:
    """It cancels subscriptions alone, and nothing but what belongs to one is tagged with its id."""
    told: list[Any] = []
    with open_client(MODERN) as (client, wire):
        call = Background(client.request, "x/y", None, {"on_progress": lambda *report: told.append(report)})
        request_id = wire.receive()["id"]
        wire.notify(method, {"requestId": request_id, "_meta": {SUBSCRIPTION_ID: request_id}})
        wire.notify("notifications/progress", {"progressToken": request_id, "progress": 1})
        wire.answer(request_id, {})
        assert call.outcome() == {}
        assert told == [(1, None, None)]
        give_up = Cancel()
        call = Background(client.request, "x/y", None, {"cancel": give_up})
        request_id = wire.receive()["id"]
        wire.notify(method, {"requestId": request_id, "_meta": {SUBSCRIPTION_ID: request_id}})
        give_up("no longer wanted")
        assert isinstance(call.outcome(), RequestCancelled)
        assert wire.receive()["params"] == {"requestId": request_id, "reason": "no longer wanted"}


# -- the three races ----------------------------------------------------------------------------------------------


def test_race_the_cancellation_arrives_after_the_answer_was_sent() -> None:
    with a_peer(lambda incoming: {}) as (_, wire):
        assert wire.request(1, "tools/list")["result"] == {}
        wire.notify("notifications/cancelled", {"requestId": 1})
        assert wire.request(2, "tools/list")["result"] == {}
        assert wire.silent()


def test_race_the_answer_arrives_after_the_cancellation_was_sent() -> None:
    give_up = Cancel()
    with to_client() as (client, wire):
        call = Background(client.ping, cancel=give_up)
        request_id = wire.receive()["id"]
        give_up()
        assert isinstance(call.outcome(), RequestCancelled)
        wire.answer(request_id, {})
        assert wire.receive()["method"] == "notifications/cancelled"
        again = Background(client.ping)
        wire.answer(wire.receive()["id"], {})
        assert again.outcome() is None


def test_race_cancellation_and_answer_at_the_same_moment_have_one_winner() -> None:
    """Whichever comes first owns the request: one answer or none, never two, and the next one is served."""
    starts: SimpleQueue[threading.Barrier] = SimpleQueue()

    def answer(incoming: ServedRequest) -> Any:
        starts.get(timeout=PATIENCE).wait(PATIENCE)
        return {}

    with a_peer(answer) as (peer, wire):
        for request_id in range(50):
            start = threading.Barrier(2)
            wire.send({"jsonrpc": "2.0", "id": request_id, "method": "tools/list"})
            starts.put(start)
            start.wait(PATIENCE)
            wire.notify("notifications/cancelled", {"requestId": request_id})
            assert peer.unanswered == {}
        wire.send({"jsonrpc": "2.0", "id": "end", "method": "ping"})
        answers = [wire.receive()]
        while answers[-1]["id"] != "end":
            answers.append(wire.receive())
    ids = [each["id"] for each in answers]
    assert len(ids) == len(set(ids))


def test_an_id_used_again_gets_the_answer_of_its_own_handler() -> None:
    """No peer may do this; the late handler of the first request must not answer the second all the same."""
    first, second = Handler({"from": "first"}), Handler({"from": "second"})
    handlers = iter([first, second])

    with a_peer(lambda incoming: next(handlers)(incoming)) as (peer, wire):
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert first.running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 1})
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert second.running.wait(PATIENCE)
        first.go.set()
        assert first.ended.wait(PATIENCE)
        assert wire.request("end", "ping")["id"] == "end"
        second.go.set()
        assert wire.receive() == {"jsonrpc": "2.0", "id": 1, "result": {"from": "second"}}
