"""basic/lifecycle#timeouts: when a call ends without an answer, and what moves that moment."""

from __future__ import annotations

import inspect
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import Client, Context, RequestTimeout, Server
from mcp_ref.client import input_rounds as rounds_module
from mcp_ref.connection import connection as peer_module
from mcp_ref.connection.connection import Connection
from mcp_ref.kit.threads import deadline as deadline_module
from mcp_ref.kit.threads.deadline import Clock, Deadline, Rate, RateLimits, has_ended
from tests.eras import MODERN, open_client
from tests.peers import Answerer, Deaf, terms
from tests.support.clock import Clock as Time
from tests.support.wire import PATIENCE, Background, opened, to_client


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    fake = Time(1000.0)
    for module in (deadline_module, peer_module, rounds_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=fake))
    return fake


FORM: Any = {"type": "object", "properties": {}}


# -- Deadline and Clock -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [3, 2.99986])
def test_a_deadline_passes_and_what_has_passed_is_told_in_milliseconds_at_most(seconds: float) -> None:
    time = Time()
    deadline = Deadline(seconds, clock=time)
    assert deadline.left() == seconds
    time.now += 2
    assert deadline.check("waiting") == seconds - 2
    time.now += 1
    assert deadline.left() == 0
    with pytest.raises(RequestTimeout, match="timed out after 3 s waiting"):
        deadline.check("waiting")


def test_progress_starts_the_timeout_again_up_to_the_maximum() -> None:
    time = Time()
    deadline, without_maximum, lifted = (
        Deadline(10, 25, clock=time),
        Deadline(10, clock=time),
        Deadline(5, 60, clock=time),
    )
    lifted.lift()
    for passed, left, left_without in ((8, 10, 2), (9, 8, 0), (8, 0, 0)):
        time.now += passed
        for each in (deadline, without_maximum, lifted):
            each.extend()
        assert (deadline.left(), without_maximum.left()) == (left, left_without)
    assert lifted.check("waiting") is None, "it never passes and is not set again"


def test_a_pause_counts_up_to_its_limit(time: Time) -> None:
    clock = Clock(300)
    start = clock()
    with clock:
        with clock:
            time.now += 50
            assert clock() == start
        time.now += 50
        assert clock() == start, "the outer pause is still open"
        time.now += 210
        assert clock() == start + 10, "310 seconds have passed"
    assert clock() == start + 10
    time.now += 1
    assert clock() == start + 11


# -- rates ----------------------------------------------------------------------------------------------------------


def test_after_the_time_told_there_is_a_token_and_a_refused_attempt_costs_none() -> None:
    clock = Time(100.0)
    limits = RateLimits({"x/y": Rate(per_second=2, burst=1)}, clock)
    limits.take("a client", "x/y")
    assert limits.take("a client", "x/y") == limits.take("a client", "x/y") == 0.5
    clock.now += 0.25
    assert limits.take("a client", "x/y") == 0.25
    clock.now += 0.25
    assert limits.take("a client", "x/y") == 0.0
    # Idle time fills the bucket only up to its burst.
    limits = RateLimits({"x/y": Rate(per_second=10, burst=2)}, clock)
    clock.now += 3600
    assert [limits.take("a client", "x/y") for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0)])
def test_a_rate_that_lets_nothing_through_is_refused_when_made(per_second: float, burst: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        Rate(per_second, burst)


# -- calls --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("whose", ["call", "client"])
def test_a_call_whose_time_is_over_is_cancelled_and_raises(revision: str, whose: str) -> None:
    limit: Any = {"timeout": 0.5}
    with open_client(revision, **(limit if whose == "client" else {})) as (client, wire):
        call = Background(client.request, "x/y", None, limit if whose == "call" else {})
        request_id = wire.receive()["id"]
        problem = call.outcome()
        assert isinstance(problem, RequestTimeout) and isinstance(problem, TimeoutError)
        cancelled = wire.receive()
        assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", request_id)
        wire.answer(request_id, {})
        # A call may also have no limit at all.
        after = Background(client.request, "x/y", None, {"timeout": None})
        wire.answer(wire.receive()["id"], {"after": 1})
        assert after.outcome() == {"after": 1}


def test_the_default_timeout_is_a_minute_and_ten_seconds_for_the_opening() -> None:
    defaults = {name: each.default for name, each in inspect.signature(Client).parameters.items()}
    assert (defaults["timeout"], defaults["connect_timeout"]) == (60, 10)
    assert inspect.signature(Server).parameters["question_timeout"].default == 300


def test_a_servers_question_has_a_timeout() -> None:
    server = Server("s", question_timeout=0.5)

    @server.tool()
    def ask(ctx: Context) -> str:
        try:
            ctx.roots()
        except RequestTimeout:
            return "too late"
        return "in time"

    with opened(server, "2025-11-25", {"roots": {}}) as wire:
        wire.call(1, "ask")
        assert [wire.receive()["method"] for _ in range(2)] == ["roots/list", "notifications/cancelled"]
        assert wire.receive()["result"]["content"][0]["text"] == "too late"


def test_progress_extends_a_call_up_to_its_maximum(time: Time) -> None:
    """Each report of the reply comes nine seconds after the one before."""

    class Reporting(Deaf):
        def exchange(self, message: Any, pending: Any, deadline: Deadline) -> None:
            while not pending.take():
                time.now += 9
                deadline.check("waiting")
                pending.put({"method": "notifications/progress", "params": {"progress": time.now}})

    seen: list[float] = []
    peer = Connection(Reporting(), Answerer(lambda incoming: {}), terms("2025-11-25"))
    with pytest.raises(RequestTimeout):
        peer.request(
            "x/y", None, {"timeout": 10, "max_timeout": 25, "on_progress": lambda *report: seen.append(report[0])}
        )
    assert seen == [1009, 1018]
    peer.close(Deadline(PATIENCE))


def test_reports_that_wait_for_a_slow_callback_do_not_hold_up_the_time_limit(time: Time) -> None:
    all_here, seen = threading.Event(), list[float]()

    def slow(progress: float, *more: Any) -> None:
        assert all_here.wait(PATIENCE)
        seen.append(progress)
        time.now += 4

    with to_client() as (client, wire):
        call = Background(client.ping, timeout=5, on_progress=slow)
        request_id = wire.receive()["id"]
        for number in range(1, 9):
            wire.notify("notifications/progress", {"progressToken": request_id, "progress": number})
        all_here.set()
        assert isinstance(call.outcome(), RequestTimeout)
    assert seen == [1, 2]


def test_a_maximum_asks_for_progress() -> None:
    with to_client() as (client, wire):
        call = Background(client.ping, max_timeout=100)
        request = wire.receive()
        assert "progressToken" in request["params"]["_meta"]
        wire.answer(request["id"], {})
        assert call.outcome() is None


def test_time_stands_still_while_the_client_answers_a_question(time: Time) -> None:
    asked, go, reported = threading.Event(), threading.Event(), threading.Event()

    def elicit(message: str, schema: Any) -> Any:
        asked.set()
        assert go.wait(PATIENCE)
        return {}

    with to_client(elicit=elicit) as (client, wire):
        call = Background(client.ping, timeout=3, on_progress=lambda *report: reported.set())
        request_id = wire.receive()["id"]
        params = {"message": "?", "requestedSchema": FORM}
        wire.send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
        assert asked.wait(PATIENCE)
        time.now += 100
        # Makes the caller look at the clock while the user thinks.
        wire.notify("notifications/progress", {"progressToken": request_id, "progress": 1})
        assert reported.wait(PATIENCE)
        go.set()
        assert wire.receive()["id"] == "q"
        wire.answer(request_id, {})
        assert call.outcome() is None


def test_the_rounds_of_a_call_share_its_time_which_stands_still_while_the_user_answers(time: Time) -> None:
    """The stateless era: the question is a result, and its answer goes with another request of the same call."""

    def elicit(message: str, schema: Any) -> Any:
        time.now += 100
        return {}

    question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": FORM}}
    asks = {"resultType": "input_required", "inputRequests": {"a": question}}
    with open_client(MODERN, {"tools": {}}, elicit=elicit) as (client, wire):
        call = Background(client.call_tool, "t", timeout=3)
        asked = wire.receive()["id"]
        time.now += 2
        wire.answer(asked, asks)
        again = wire.receive()
        assert again["params"]["inputResponses"] == {"a": {"action": "accept", "content": {}}}
        time.now += 2
        # Makes the caller look at the clock.
        wire.answer(again["id"], asks)
        assert isinstance(call.outcome(), RequestTimeout)


# -- threads ------------------------------------------------------------------------------------------------------


def test_a_thread_whose_start_was_interrupted_is_waited_for() -> None:
    begins, over = threading.Event(), threading.Event()

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    thread: Any = threading.Thread(target=over.wait)
    bootstrap, thread._started = thread._bootstrap, Interrupted()
    thread._bootstrap = lambda: (begins.wait(), bootstrap())
    with pytest.raises(KeyboardInterrupt):
        thread.start()
    assert not has_ended(thread, Deadline(0.01))
    begins.set()
    assert not has_ended(thread, Deadline(0.01))
    over.set()
    assert has_ended(thread, Deadline(PATIENCE))
    assert not thread.is_alive()
    # One that was never started, and the own one, are not waited for.
    assert has_ended(threading.Thread(), Deadline(None))
    assert has_ended(threading.current_thread(), Deadline(None))
