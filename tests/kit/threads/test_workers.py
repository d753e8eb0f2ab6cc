"""The pool: a cap on handlers, room above it for what is urgent, and an end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, McpError, Server, TransportClosed
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.threads.workers import MAX_URGENT, Worker, Workers, before_block
from mcp_ref.pages.basic.transports.memory import pair
from tests.support.wire import PATIENCE


class Gate:
    """A job that says when it runs, and ends when it is let."""

    def __init__(self, *, blocks: bool = False) -> None:
        self.running, self.go, self.done = threading.Event(), threading.Event(), threading.Event()
        self._blocks = blocks

    def __call__(self) -> None:
        if self._blocks:
            before_block()
        self.running.set()
        assert self.go.wait(PATIENCE)
        self.done.set()

    def runs(self) -> bool:
        return self.running.wait(PATIENCE)


def begun(workers: Workers, job: Gate | None = None, **how: bool) -> Gate:
    """A job that runs already."""
    job = job or Gate()
    workers.run(job, **how)
    assert job.runs()
    return job


def let_go(*jobs: Gate) -> None:
    for job in jobs:
        job.go.set()


@pytest.fixture
def pool() -> Iterator[Callable[[int], Workers]]:
    pools: list[Workers] = []

    def make(cap: int) -> Workers:
        pools.append(Workers(cap))
        return pools[-1]

    yield make
    for each in pools:
        assert each.close(Deadline(PATIENCE)) == []


def test_no_more_jobs_run_than_the_cap_allows(pool: Any) -> None:
    workers = pool(2)
    first, second, third = Gate(), Gate(), Gate()
    for job in (first, second, third):
        workers.run(job)
    assert first.runs() and second.runs()
    assert len(workers.waiting) == 1
    assert not third.running.is_set()
    first.go.set()
    assert third.runs()
    let_go(second, third)


def test_an_urgent_job_passes_those_that_wait_for_a_place(pool: Any) -> None:
    workers, waiting = pool(1), Gate()
    busy = begun(workers)
    workers.run(waiting)
    for _ in range(2):
        urgent = begun(workers, urgent=True)
        urgent.go.set()
        assert urgent.done.wait(PATIENCE)
    assert len(workers.waiting) == 1, "the thread that ran the urgent job must not take a handler above the cap"
    assert not waiting.running.is_set()
    busy.go.set()
    assert waiting.runs()
    waiting.go.set()


def test_no_flood_of_urgent_jobs_makes_a_flood_of_threads(pool: Any) -> None:
    workers = pool(1)
    jobs = [Gate() for _ in range(MAX_URGENT + 5)]
    before = set(threading.enumerate())
    for job in jobs:
        workers.run(job, urgent=True)
    assert all(job.runs() for job in jobs[:MAX_URGENT])
    assert len(set(threading.enumerate()) - before) == MAX_URGENT + 1, "and the one that watches"
    let_go(*jobs)
    assert all(job.done.wait(PATIENCE) for job in jobs)


def test_urgent_jobs_keep_their_order_as_long_as_they_move(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # A hundred times what it is: on a busy machine a job that moves may stand for longer than that.
    monkeypatch.setattr("mcp_ref.kit.threads.workers.STALL_INTERVAL", 0.5)
    workers, order, done = pool(1), list[int](), threading.Semaphore(0)

    def job(number: int) -> None:
        order.append(number)
        done.release()

    for number in range(100):
        workers.run(partial(job, number), urgent=True)
    assert all(done.acquire(timeout=PATIENCE) for _ in range(100))
    assert order == [*range(100)]


def test_what_follows_a_job_that_runs_alone_waits_for_its_end(pool: Any) -> None:
    workers = pool(2)
    alone, urgent, after = Gate(), Gate(), Gate()
    before = begun(workers)
    workers.run(alone, alone=True)
    workers.run(urgent, urgent=True)
    workers.run(after)
    assert alone.runs()
    before.go.set()
    assert before.done.wait(PATIENCE)
    assert not urgent.running.is_set() and not after.running.is_set(), "not in the place of another job either"
    alone.go.set()
    assert urgent.runs() and after.runs()
    let_go(urgent, after)


def test_a_stop_lets_go_what_waits_for_a_job_that_runs_alone() -> None:
    workers, alone, after = Workers(2), Gate(), Gate()
    workers.run(alone, alone=True)
    workers.run(after)
    assert alone.runs()
    workers.stop()
    alone.go.set()
    assert after.runs()
    after.go.set()
    assert workers.close(Deadline(PATIENCE)) == []


def test_a_job_that_blocks_for_the_peer_gives_its_place_up(pool: Any) -> None:
    workers, third = pool(1), Gate()
    blocked = begun(workers, Gate(blocks=True))
    next_one = begun(workers)
    blocked.go.set()
    assert blocked.done.wait(PATIENCE)
    workers.run(third)
    assert not third.running.is_set(), "what gave its place up has none to give back"
    next_one.go.set()
    assert third.runs()
    third.go.set()


def test_a_job_that_fails_frees_its_place(pool: Any) -> None:
    workers = pool(1)

    def fails(problem: BaseException) -> None:
        raise problem

    for problem in (RuntimeError(), SystemExit(), KeyboardInterrupt()):
        workers.run(partial(fails, problem))
    begun(workers).go.set()


def test_what_waits_and_what_a_job_leads_to_still_run_after_a_stop_and_nothing_new(pool: Any) -> None:
    workers, waiting, late, led_to = pool(1), Gate(), Gate(), threading.Event()
    gate = Gate()

    def leads() -> None:
        gate()
        workers.run(led_to.set)

    workers.run(leads)
    assert gate.runs()
    workers.run(waiting)
    workers.stop()
    workers.run(late)
    let_go(gate, waiting)
    assert waiting.done.wait(PATIENCE) and led_to.wait(PATIENCE)
    assert not late.running.is_set()


def test_a_job_may_close_its_own_pool() -> None:
    workers, results = Workers(1), threading.Event()

    def closes() -> None:
        assert workers.close(Deadline(PATIENCE)) == []
        results.set()

    workers.run(closes)
    assert results.wait(PATIENCE)


def test_a_thread_knows_whether_it_is_a_worker(pool: Any) -> None:
    seen: list[bool] = []
    done = threading.Event()
    pool(1).run(lambda: (seen.append(before_block()), done.set()))
    assert done.wait(PATIENCE)
    assert (seen, before_block()) == ([True], False)


# -- no thread to be had


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Give what the next workers find: a thread, or none; from then on none."""
    allowed: list[bool] = []
    start = threading.Thread.start

    def starts(self: threading.Thread) -> None:
        if isinstance(self, Worker) and not (allowed and allowed.pop(0)):
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", starts)
    return allowed


def test_jobs_wait_for_a_free_thread_while_no_other_can_be_had(pool: Any, threads: list[bool]) -> None:
    threads.append(True)
    workers = pool(8)
    gates = [Gate(), Gate(), Gate()]
    for gate in gates:
        workers.run(gate, urgent=True)
    for gate in gates:
        assert gate.runs()
        gate.go.set()
    # And nobody is promised a thread that there is not.
    threads += [True, True, True]
    more = [Gate(), Gate()]
    for gate in more:
        workers.run(gate, urgent=True)
    assert all(gate.runs() for gate in more)
    let_go(*more)


def test_one_thread_runs_more_jobs_than_the_cap_where_no_other_can_be_had(pool: Any, threads: list[bool]) -> None:
    threads.append(True)
    workers, gates = pool(2), [Gate() for _ in range(6)]
    for gate in gates:
        gate.go.set()
        workers.run(gate)
    assert all(gate.done.wait(PATIENCE) for gate in gates), "the watch must not keep the only thread"


def test_without_a_single_thread_a_conversation_ends_and_nothing_raises(threads: list[bool]) -> None:
    server = Server("s")
    ours, theirs = pair()
    session = server.connect(theirs)
    lost: SimpleQueue[McpError] = SimpleQueue()
    ours.start(lambda text: None, lost.put)
    ours.send({"jsonrpc": "2.0", "id": 1, "method": "ping"}, Deadline(PATIENCE))
    assert isinstance(lost.get(timeout=PATIENCE), McpError)
    assert "no thread could be started" in str(session.connection.closed)
    assert session.close() == []
    assert server.sessions == ()


def test_a_client_without_a_single_thread_can_be_closed(threads: list[bool]) -> None:
    code = """import sys; print('{"jsonrpc":"2.0","id":7,"method":"ping"}', flush=True); sys.stdin.read()"""
    client = Client([sys.executable, "-c", code], revision="2025-11-25", timeout=PATIENCE)
    with pytest.raises(TransportClosed, match="no thread could be started"):
        client.connect()
    client.close()
