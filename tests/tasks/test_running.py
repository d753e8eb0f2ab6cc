"""Running tasks: what two threads, a process that died, or a store that fails may do at the same time."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import (
    Context,
    ErrorResponse,
    InvalidParams,
    RequestCancelled,
    RequestTimeout,
    Server,
    SqliteTasks,
    TaskRule,
    Tasks,
)
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.extensions.tasks import tasks_update
from mcp_ref.tasks import running as tasking
from mcp_ref.tasks.running import TaskRun
from tests.features.conftest import until
from tests.features.task_client import CORE, EXTENSION, LIMIT, NAME, connected, engine, said
from tests.features.task_server import Failing, store_at
from tests.features.test_forks import in_a_child
from tests.features.test_forks import pytestmark as of_forks
from tests.support.wire import Background


def of_a_dead_process(task_id: str, **other: Any) -> Any:
    """A record as a process leaves it that was killed."""
    return {
        "id": task_id, "version": 1, "owner": "", "created": time.time(), "updated": time.time(), "ttl": None,
        "about": "job", "method": "tools/call", "params": {"name": "job"}, "again": True, "tries": 0,
        "revision": CORE, "capabilities": {}, "asked": {}, "answered": {}, "keys": 0, "replayed": 0,
        "message": None, "outcome": None, "holder": "dead", "size": 100, **other,
    }  # fmt: skip


@contextmanager
def jobs(place: str) -> Iterator[tuple[Server, Tasks, list[str]]]:
    """A server with a store that is shared, and the runs of its tool `job`; nobody else looks after the tasks."""
    runs, server = list[str](), Server("jobs", tasks=Tasks(store_at(place), poll=0.05))

    @server.tool(task=TaskRule("required", again=True))
    def job(ctx: Context) -> str:
        runs.append(str(ctx.task_id))
        return "done"

    with closing(server):
        yield server, engine(server), runs


# -- what a dead process has left -----------------------------------------------------------------------------------


def test_two_threads_that_find_the_same_task_of_a_dead_process_run_it_once(place: str, monkeypatch: Any) -> None:
    with jobs(place) as (server, tasks, runs):
        left = of_a_dead_process("x")
        tasks.store.create(left)
        publish = tasks.side.tell

        def another_thread_looks(record: Any) -> None:
            """It was taken, and does not run yet."""
            monkeypatch.setattr(tasks.side, "tell", publish)
            assert tasks.side.adopt(left)
            publish(record)

        monkeypatch.setattr(tasks.side, "tell", another_thread_looks)
        assert tasks.side.adopt(left)
        until(lambda: tasks.store.get("x")["outcome"])  # type: ignore[index]
        assert tasks.workers.close(Deadline(LIMIT)) == [] and runs == ["x"]


def test_a_process_that_cannot_run_a_task_again_leaves_it_to_one_that_has_taken_it(
    place: str, monkeypatch: Any
) -> None:
    with jobs(place) as (server, tasks, _):
        tasks.store.create(of_a_dead_process("x"))

        def too_late(record: Any) -> bool:
            """Meanwhile another process takes it."""
            return not tasks.change("x", lambda latest: bool(latest.update(holder="another") or True))[0]

        monkeypatch.setattr(tasks.side, "adopt", too_late)
        tasks._sweep()
        record = tasks.store.get("x")
        assert record is not None and (record["holder"], record["outcome"]) == ("another", None)


def test_a_task_that_this_process_can_make_nothing_of_fails_and_the_next_one_runs(place: str) -> None:
    with jobs(place) as (server, tasks, runs):
        tasks.store.create(of_a_dead_process("x", revision="of the future"))
        tasks.store.create(of_a_dead_process("y"))
        tasks._sweep()
        until(lambda: tasks.store.get("y")["outcome"])  # type: ignore[index]
        record = tasks.store.get("x")
        assert record is not None and record["outcome"]["error"]["code"] == -32603 and runs == ["y"]


# -- a store that fails, and clocks ---------------------------------------------------------------------------------


@contextmanager
def unwritten(path: Path, hold: bool = True) -> Iterator[tuple[Server, Tasks, Failing, Any]]:
    """A task whose outcome could not be written; its store is whole again."""
    store = Failing(path)
    tasks, go_on = Tasks(store, poll=0.05), threading.Event()
    server = Server("jobs", tasks=tasks)
    server.tool("job", task="required")(lambda: str(go_on.wait(LIMIT)))
    with connected(server) as client:
        task = client.call_tool_as_task("job")
        until(lambda: tasks._swept)
        if hold:
            tasks._swept = time.monotonic() + 1_000  # the keeper does not write it
        store.broken = True
        go_on.set()
        until(lambda: tasks._unwritten)
        if not hold:
            tasks.clock = lambda: time.time() - 3_600
        store.broken = False
        yield server, tasks, store, task


def test_a_store_that_fails_again_and_again_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Counting(Failing):
        """Counts the looks that failed."""

        failed = 0

        def due(self, now: float) -> Any:
            try:
                return super().due(now)
            except sqlite3.Error:
                self.failed += 1
                raise

    store, go_on = Counting(tmp_path / "tasks.db", lease=0.01), threading.Event()
    server = Server("jobs", tasks=Tasks(store, poll=0.05))
    server.tool("job", task="required")(lambda: str(go_on.wait(LIMIT)))
    with connected(server) as client:
        task = client.call_tool_as_task("job")
        store.broken = True
        until(lambda: store.failed >= 3)
        store.broken = False
        go_on.set()
        task.result(LIMIT)
    assert caplog.text.count("the store of tasks fails") == 1


def test_an_outcome_that_could_not_be_written_is_written_at_the_end(tmp_path: Path) -> None:
    with unwritten(tmp_path / "tasks.db") as (server, tasks, _, task):
        server.close(LIMIT)
        with closing(SqliteTasks(tmp_path / "tasks.db")) as after:
            record = after.get(task.task_id)
        assert record is not None and "result" in record["outcome"]


def test_a_store_that_fails_to_the_end_keeps_no_thread(tmp_path: Path) -> None:
    with unwritten(tmp_path / "tasks.db") as (server, tasks, store, task):
        store.broken = True
        server.close(LIMIT)
        assert not tasks._unwritten
        until(lambda: tasks._keeper is None)
        store.broken = False


def test_a_clock_that_is_set_back_keeps_no_outcome_unwritten(tmp_path: Path) -> None:
    with unwritten(tmp_path / "tasks.db", hold=False) as (_, _, _, task):
        assert said(task.result(LIMIT)) == "True"


def test_a_task_that_ends_after_its_time_keeps_no_thread_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasking, "SWEEP_INTERVAL", 10 * LIMIT)
    now, fail, asking = [1_000.0], threading.Event(), list[threading.Thread]()
    tasks = Tasks(ttl=50, poll=0.05)
    tasks.clock = lambda: now[0]
    server = Server("jobs", tasks=tasks)

    @server.tool(task="required")
    def ask(ctx: Context) -> None:
        def elicit() -> None:
            with suppress(RequestCancelled):
                ctx.elicit("Name?", NAME)

        asking.append(threading.Thread(target=elicit))
        asking[0].start()
        fail.wait(LIMIT)
        raise ValueError("no use")

    with connected(server, revision=EXTENSION, elicit=lambda message, schema: {}) as client:
        task = client.call_tool_as_task("ask", by_hand=True)
        until(lambda: task.status()["status"] == "input_required")
        now[0] += 51
        fail.set()
        until(lambda: not tasks.runs)
        asking[0].join(LIMIT)
        assert not asking[0].is_alive()


# -- threads ----------------------------------------------------------------------------------------------------------


def test_a_task_that_waits_for_two_answers_holds_no_place() -> None:
    server = Server("jobs", tasks=Tasks(running=1, poll=0.05))

    @server.tool(task="required")
    def ask(ctx: Context) -> str:
        return str(ctx.ask_all(lambda: ctx.elicit("Name?", NAME), lambda: ctx.elicit("Name?", NAME)))

    server.tool("quick", task="required")(lambda: "done")
    with connected(server, revision=EXTENSION, elicit=lambda message, schema: {}) as client:
        waiting = client.call_tool_as_task("ask", by_hand=True)
        until(lambda: waiting.status()["status"] == "input_required")
        assert said(client.call_tool_as_task("quick").result(LIMIT)) == "done"
        waiting.cancel()


@pytest.mark.parametrize("after", [None, 0.0])
def test_a_call_that_comes_while_its_server_closes_is_refused(after: float | None) -> None:
    server = Server("jobs", tasks=Tasks(poll=0.05))
    server.tool("job", task=TaskRule("optional", after=after))(lambda: "done")
    with connected(server, revision=EXTENSION, timeout=LIMIT) as client:
        engine(server).workers.stop()
        with pytest.raises(ErrorResponse, match="shut down") as caught:
            client.call_tool("job")
        assert caught.value.code == -32603
        until(lambda: not engine(server).runs)


def test_tasks_run_though_there_is_no_thread_to_look_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    server, start = Server("jobs", tasks=Tasks(poll=0.05)), threading.Thread.start
    server.tool("job", task="required")(lambda: "done")

    def no_keeper(self: threading.Thread) -> None:
        if self.name == "mcp-tasks":
            raise RuntimeError("can't start new thread")
        start(self)

    tasks = engine(server)
    with connected(server) as client:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_keeper)
            assert said(client.call_tool_as_task("job").result(LIMIT)) == "done"
        assert tasks._keeper is None
        client.call_tool_as_task("job").result(LIMIT)
        assert tasks._keeper is not None
        until(lambda: not tasks._owned)  # the result is there before its run has left


def test_so_many_wait_for_one_task_and_one_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasking, "MAX_CARRIERS", 3)
    server, go_on = Server("jobs"), threading.Event()
    server.tool("job", task="required")(lambda: str(go_on.wait(LIMIT)))
    with connected(server) as client:
        task = client.call_tool_as_task("job")
        waiting = [Background(task.result, LIMIT) for _ in range(3)]
        until(lambda: [len(each) for each in engine(server).carriers.values()] == [3])
        with pytest.raises(ErrorResponse, match="Too many requests") as caught:
            client.task(task.task_id or "").result(LIMIT)
        assert (caught.value.code, caught.value.data) == (-32603, {"limit": 3})
        go_on.set()
        assert [said(each.outcome()) for each in waiting] == ["True"] * 3


# -- answers ----------------------------------------------------------------------------------------------------------


def test_an_answer_to_a_question_that_is_asked_just_then_is_not_taken_unchecked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks, question = Tasks(), {"method": "elicitation/create", "params": {}}
    before = of_a_dead_process("x", holder=None)
    tasks.store.create({**before, "asked": {"k": question}})
    monkeypatch.setattr(tasks, "find", lambda task_id, owner: before)
    assert tasks_update(tasks, "", {"taskId": "x", "inputResponses": {"k": {"action": "nonsense"}}}) == {}
    record = tasks.store.get("x")
    assert record is not None and record["answered"] == {}
    monkeypatch.undo()
    with pytest.raises(InvalidParams):
        tasks_update(tasks, "", {"taskId": "x", "inputResponses": {"k": {"action": "nonsense"}}})


def test_the_key_of_a_question_that_was_taken_back_is_not_used_again() -> None:
    tasks, question = Tasks(), {"method": "elicitation/create", "params": {}}
    run = TaskRun(tasks, {"owner": "ann", "ttl": None, "about": "job", "again": False, "tries": 0}, lambda run: {})
    run.become()
    keys: list[str] = []
    change = tasks.change

    def noted(task_id: str, edit: Any, *more: Any) -> Any:
        changed = change(task_id, edit, *more)
        record = tasks.store.get(task_id)
        keys.extend(each for each in (record or {}).get("asked", {}) if each not in keys)
        return changed

    tasks.change = noted  # type: ignore[method-assign]
    for _ in range(3):
        with pytest.raises(RequestTimeout):
            run.ask("elicitation", question, 0.01)
        record = tasks.store.get(str(run.id))
        assert record is not None and record["asked"] == {}
    tasks.close()
    assert len(keys) == 3


# -- forks ------------------------------------------------------------------------------------------------------------


@of_forks[0]
@of_forks[1]
def test_a_process_that_forks_while_it_writes_leaves_a_store_that_its_child_can_use(tmp_path: Path) -> None:
    with closing(SqliteTasks(tmp_path / "tasks.db")) as store:
        writing = threading.Event()

        def write() -> int:
            writing.set()
            threading.Event().wait(0.2)
            return 1

        store._connection.create_function("write", 0, write)
        thread = threading.Thread(target=store._run, args=("SELECT write()",))
        thread.start()
        assert writing.wait(LIMIT)
        assert in_a_child(lambda: store.get("x")) == "None"
        thread.join(LIMIT)
