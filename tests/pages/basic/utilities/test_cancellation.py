"""basic/utilities/cancellation: a request given up, in both directions, and the three races."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Cancel, RequestCancelled
from mcp_ref.pages.basic.versioning import SUBSCRIPTION_ID
from mcp_ref.revisions import REVISIONS
from mcp_ref.wire.served import ServedRequest
from tests.eras import MODERN, open_client
from tests.peers import a_peer
from tests.support.wire import PATIENCE, Background, Wire, to_client


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


def ask(wire: Wire, *request_ids: Any) -> None:
    """Send requests, and do not wait."""
    for request_id in request_ids:
        wire.send({"jsonrpc": "2.0", "id": request_id, "method": "tools/list"})


# -- giving up ----------------------------------------------------------------------------------------------------


def test_a_handle_used_before_the_call_or_after_it_sends_nothing() -> None:
    give_up, too_late = Cancel(), Cancel()
    give_up("before the call")
    with to_client() as (client, wire):
        with pytest.raises(RequestCancelled, match="before the call"):
            client.ping(cancel=give_up)
        assert wire.request("next", "ping")["id"] == "next"
        assert wire.silent(), "neither a request nor the cancellation of one that was never issued"
        call = Background(client.ping, cancel=too_late)
        wire.answer(wire.receive()["id"], {})
        assert call.outcome() is None
        too_late()
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()


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
        ask(wire, 1)
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
        ask(wire, 1, 2)
        assert handler.running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 2})
        handler.go.set()
        assert wire.receive()["id"] == 1
        assert wire.request(3, "tools/list")["id"] == 3
        assert [begun.get_nowait(), begun.get_nowait(), begun.empty()] == [1, 3, True]


# -- what is ignored ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_unknown_or_malformed_cancellation_is_ignored(revision: str) -> None:
    handler = Handler()
    with a_peer(handler, revision) as (_, wire):
        ask(wire, 1)
        assert handler.running.wait(PATIENCE)
        for request_id in ("unknown", "1", True, 1.0, [[1]], None):
            wire.notify("notifications/cancelled", {"requestId": request_id})
        for params in ({"requestId": 1, "reason": 5}, {}):
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
    """Each side numbers its own: the server asks with the id of the client's request, and cancels that."""
    with to_client(roots=[]) as (client, wire):
        call = Background(client.ping)
        request_id = wire.receive()["id"]
        assert wire.request(request_id, "roots/list") == {"jsonrpc": "2.0", "id": request_id, "result": {"roots": []}}
        wire.notify("notifications/cancelled", {"requestId": request_id})
        wire.answer(request_id, {})
        assert call.outcome() is None


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/tools/list_changed"])
def test_in_the_stateless_era_a_server_ends_no_call_by_a_notification(method: str) -> None:
    """It cancels subscriptions alone, and nothing but what belongs to one is tagged with its id."""
    told, give_up = list[Any](), Cancel()
    with open_client(MODERN) as (client, wire):
        for ending in ("answered", "given up"):
            options: Any = {"on_progress": lambda *report: told.append(report), "cancel": give_up}
            call = Background(client.request, "x/y", None, options)
            request_id = wire.receive()["id"]
            wire.notify(method, {"requestId": request_id, "_meta": {SUBSCRIPTION_ID: request_id}})
            if ending == "answered":
                wire.notify("notifications/progress", {"progressToken": request_id, "progress": 1})
                wire.answer(request_id, {})
                assert call.outcome() == {}
        give_up("no longer wanted")
        assert isinstance(call.outcome(), RequestCancelled)
        assert wire.receive()["params"] == {"requestId": request_id, "reason": "no longer wanted"}
    assert told == [(1, None, None)]


# -- the three races ----------------------------------------------------------------------------------------------


def test_race_the_cancellation_arrives_after_the_answer_was_sent() -> None:
    with a_peer(lambda incoming: {}) as (_, wire):
        assert wire.request(1, "tools/list")["result"] == {}
        wire.notify("notifications/cancelled", {"requestId": 1})
        assert wire.request(2, "tools/list")["result"] == {}
        assert wire.silent()


def test_race_the_answer_arrives_after_the_cancellation_was_sent(caplog: pytest.LogCaptureFixture) -> None:
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
    assert "ignored an answer" not in caplog.text, "it is no complaint"


def test_both_sides_log_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcp_ref")
    handler, give_up = Handler(), Cancel()
    with a_peer(handler, role="client") as (peer, wire):
        ask(wire, 1)
        assert handler.running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 1, "reason": "the peer's reason"})
        handler.go.set()
        call = Background(peer.request, "x/y", None, {"cancel": give_up})
        wire.receive()
        give_up("our reason")
        call.outcome()
    assert "the peer's reason" in caplog.text and "our reason" in caplog.text


def test_race_cancellation_and_answer_at_the_same_moment_have_one_winner() -> None:
    """Whichever comes first owns the request: one answer or none, never two, and the next one is served."""
    start = threading.Barrier(2, timeout=PATIENCE)

    def answer(incoming: ServedRequest) -> Any:
        start.wait()
        return {}

    with a_peer(answer) as (peer, wire):
        for request_id in range(50):
            ask(wire, request_id)
            start.wait()
            wire.notify("notifications/cancelled", {"requestId": request_id})
            assert peer.unanswered == {}
        answers = [wire.request("end", "ping")["id"]]
        while answers[-1] != "end":
            answers.append(wire.receive()["id"])
    assert len(answers) == len(set(answers))


def test_an_id_used_again_gets_the_answer_of_its_own_handler() -> None:
    """No peer may do this; the late handler of the first request must not answer the second all the same."""
    first, second = Handler({"from": "first"}), Handler({"from": "second"})
    handlers = iter([first, second])
    with a_peer(lambda incoming: next(handlers)(incoming)) as (_, wire):
        ask(wire, 1)
        assert first.running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 1})
        ask(wire, 1)
        assert second.running.wait(PATIENCE)
        first.go.set()
        assert first.ended.wait(PATIENCE)
        assert wire.request("end", "ping")["id"] == "end"
        second.go.set()
        assert wire.receive() == {"jsonrpc": "2.0", "id": 1, "result": {"from": "second"}}
