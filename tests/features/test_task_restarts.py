"""Tasks in a file: several processes, processes that die, and a store that fails."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import ErrorResponse, Server, SqliteTasks, TaskCancelled, Tasks
from tests.features.task_client import (
    CORE,
    EXTENSION,
    LIMIT,
    client_of,
    connected,
    engine,
    in_both_designs,
    release,
    said,
)
from tests.features.task_server import Failing, elicit, make_server, store_at
from tests.support.clock import until
from tests.support.wire import at_once

ROOT = Path(__file__).parents[2]


# -- two processes of one file, which are two servers here ----------------------------------------------------------


@in_both_designs
def test_another_process_carries_the_questions_and_has_the_result(place: str, revision: str) -> None:
    one, two = (make_server(Tasks(store_at(place), poll=0.05)) for _ in range(2))
    with closing(one), closing(two), client_of(one, revision) as first, client_of(two, revision) as second:
        task_id = first.call_tool_as_task("ask_two", by_hand=True).task_id
        assert said(second.task(task_id).result(LIMIT)) == "Ann, 1 folders"
        assert first.task(task_id).status()["status"] == "completed"


def test_another_process_cancels_a_task_and_is_told_of_its_changes(place: str) -> None:
    one, two = (make_server(Tasks(store_at(place), poll=0.05)) for _ in range(2))
    with closing(one), closing(two), client_of(one, EXTENSION) as first, client_of(two, EXTENSION) as second:
        task = first.call_tool_as_task("wait")
        with second.listen(tasks=[task.task_id]) as events:
            assert events.get(LIMIT).params["status"] == "working"
            first.task(task.task_id).cancel()
            assert events.get(LIMIT).params["status"] == "cancelled"
        other = first.call_tool_as_task("wait")
        second.task(other.task_id).cancel()
        until(lambda: not engine(one).runs)
        with pytest.raises(TaskCancelled):
            other.result(LIMIT)


def test_two_answers_and_two_ends_at_once_count_once(place: str) -> None:
    stores = [store_at(place) for _ in range(2)]
    engines = [Tasks(store) for store in stores]
    record: Any = {"id": "x", "owner": "", "created": time.time(), "updated": 0.0, "ttl": None, "version": 1,
                   "outcome": None, "holder": None, "asked": {"k": {}}, "answered": {},
                   "size": 100, "params": {}}  # fmt: skip
    stores[0].create(record)

    def race(engine: Tasks, number: int) -> bool:
        engine.answer("x", {"k": {"result": number}})
        return engine.end("x", {"result": {"number": number}})

    ended = at_once(*(partial(race, engines[n % 2], n) for n in range(8)))
    assert sorted(ended) == [False] * 7 + [True]
    known = stores[1].get("x")
    assert known is not None and known["version"] == 3
    for store in stores:
        store.close()


# -- processes that die ---------------------------------------------------------------------------------------------


def test_a_task_whose_process_was_killed_fails_or_runs_again_with_the_answers_it_had(
    place: str, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "tests.features.task_server", place]
    asked: list[str] = []

    def ask(message: str, schema: Any) -> Any:
        asked.append(message)
        return elicit(message, schema)

    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, place, str(runs)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    lost, again = child.stdout.readline().split()
    with closing(store_at(place)) as store:
        until(lambda: store.get(again)["answered"])
    child.kill()
    child.wait()
    child.stdout.close()
    with client_of(command, elicit=ask) as client:
        with pytest.raises(ErrorResponse) as caught:
            client.task(lost).result(LIMIT)
        assert caught.value.code == -32603 and "has ended" in caught.value.message
        assert said(client.task(again).result(LIMIT)) == "Ann, 12A"
    assert asked == ["Seat?"] and runs.read_text("utf-8") == "run\nrun\n"


HOLDER = """
import sys
from mcp_ref import Client, Tasks
from tests.features.task_server import elicit, make_server, store_at
place, runs = sys.argv[1:]
server = make_server(Tasks(store_at(place, lease=0.5), poll=0.05))
with Client(server, revision="2025-11-25", tasks=True, elicit=elicit) as client:
    lost = client.call_tool_as_task("wait")
    again = client.call_tool_as_task("again", {"path": runs})
    print(lost.task_id, again.task_id, flush=True)
    again.result()
"""


def test_a_slow_process_is_not_taken_for_dead_and_a_dead_one_is(place: str) -> None:
    one, two = store_at(place, lease=1.0), store_at(place, lease=1.0)
    record: Any = {"id": "x", "owner": "", "created": time.time(), "ttl": None, "version": 1, "outcome": None,
                   "updated": time.time(), "size": 100, "params": {}, "asked": {}, "answered": {}}  # fmt: skip
    one.create({**record, "holder": one.holder})
    now = time.time()
    assert two.due(now) == [] and two.due(now + 1e9) == []
    for _ in range(11):
        threading.Event().wait(0.1)
        one.due(now)
        assert two.due(now) == []
    until(lambda: two.due(now))
    one.close()
    two.close()


def test_a_look_for_what_has_expired_leaves_a_task_alone_whose_record_is_being_written(tmp_path: Path) -> None:
    class Slow(SqliteTasks):
        """Another thread looks while it writes."""

        def create(self, record: Any) -> None:
            tasks._swept = 0.0
            tasks._sweep()
            super().create(record)

    tasks = Tasks(Slow(tmp_path / "tasks.db"), poll=0.05)
    server = make_server(tasks)
    with connected(server) as client:
        assert said(client.call_tool_as_task("ask_two").result(LIMIT)) == "Ann, 1 folders"


# -- a store that fails ---------------------------------------------------------------------------------------------


def test_a_disk_that_is_full_refuses_tasks_and_an_outcome_is_written_later(tmp_path: Path) -> None:
    store = Failing(tmp_path / "tasks.db")
    server = make_server(Tasks(store, poll=0.05))
    with connected(server) as client:
        task = client.call_tool_as_task("wait")
        store.broken = True
        with pytest.raises(ErrorResponse) as caught:
            client.call_tool_as_task("wait")
        assert caught.value.code == -32603
        release(server)
        until(lambda: engine(server)._unwritten)
        assert task.status()["status"] == "working"
        store.broken = False
        assert said(task.result(LIMIT)) == "released"


def test_a_file_that_is_not_a_database_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "tasks.db").write_text("this is not a database, and has more than a hundred bytes" * 10, "utf-8")
    (tmp_path / "tasks.db").chmod(0o600)
    with pytest.raises(sqlite3.DatabaseError):
        SqliteTasks(tmp_path / "tasks.db")


def test_a_clock_that_jumps_makes_lives_shorter_or_longer(place: str) -> None:
    now, store = [1_000.0], store_at(place)
    tasks = Tasks(store, ttl=100)
    tasks.clock = store.clock = lambda: now[0]
    server = make_server(tasks)
    with connected(server) as client:
        task = client.call_tool_as_task("steps")
        assert said(task.result(LIMIT)) == "task: True"
        now[0] -= 500
        assert task.status()["status"] == "completed"
        now[0] += 601
        with pytest.raises(ErrorResponse):
            task.status()


def test_a_server_that_closes_in_order_leaves_what_may_run_again(place: str, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    first = make_server(Tasks(store_at(place), poll=0.05))
    with client_of(first, CORE) as client:
        lost, again = client.call_tool_as_task("wait"), client.call_tool_as_task("again", {"path": runs}, by_hand=True)
        until(lambda: Path(runs).exists())
        assert first.close(1) == []
    second = make_server(Tasks(store_at(place), poll=0.05))
    with closing(second), client_of(second, CORE) as client:
        assert client.task(lost.task_id or "").status()["status"] == "failed"
        assert said(client.task(again.task_id or "").result(LIMIT)) == "Ann, 12A"


def test_a_tool_without_again_is_never_run_twice(tmp_path: Path) -> None:
    server = Server("jobs", tasks=Tasks(SqliteTasks(tmp_path / "tasks.db")))
    with closing(server):
        record: Any = {"about": "nothing", "tries": 0, "id": "x", "asked": {}, "answered": {}}
        assert server.tasks is not None and server.tasks.adopt(record) is False


def test_a_database_that_is_locked_refuses_tasks(tmp_path: Path) -> None:
    store = SqliteTasks(tmp_path / "tasks.db")
    store._connection.execute("PRAGMA busy_timeout = 50")
    server = make_server(Tasks(store))
    with (
        closing(server),
        client_of(server, CORE) as client,
        closing(sqlite3.connect(tmp_path / "tasks.db", isolation_level=None)) as other,
    ):
        client.list_tools()
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ErrorResponse) as caught:
            client.call_tool_as_task("wait")
        assert caught.value.code == -32603
        other.execute("ROLLBACK")
        release(server)
        assert said(client.call_tool("wait")) == "released"
