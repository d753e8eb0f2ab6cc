"""Tests of what is kept of tasks, and how much: each of the stores that ship, and the one of the recipe; bounds in
bytes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, InternalError, MemoryTasks, Server, SqliteTasks, Tasks, Url
from mcp_ref.kit.typed.json_text import weigh
from mcp_ref.tasks import running
from mcp_ref.tasks.running import RECORD_SIZE, TaskRun
from tests.features.conftest import until
from tests.features.task_client import LIMIT, engine, said
from tests.features.task_server import store_at
from tests.tasks.test_running import of_a_dead_process

STORES = ["memory", "sqlite", "redis"]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryTasks()
    elif request.param == "sqlite":
        with closing(SqliteTasks(tmp_path / "tasks.db")) as kept:
            yield kept
    else:
        from tests.redis_server import redis_server

        with redis_server(tmp_path) as redis, closing(store_at(redis.url)) as kept:
            yield kept


def record_of(task_id: str, owner: str | None = "ann", **other: Any) -> Any:
    return of_a_dead_process(task_id, owner=owner, **other)


def ended(record: Any, at: float, **other: Any) -> Any:
    return {**record, "version": record["version"] + 1, "updated": at, "outcome": {"result": {}}, "params": {}, **other}


# -- stores -----------------------------------------------------------------------------------------------------------


def test_bytes_are_counted_by_owner_and_in_all(store: Any) -> None:
    assert store.usage() == store.usage("ann") == (0, None)
    a, b, c = record_of("a", size=5), record_of("b", size=70), record_of("c", None, size=600)
    for each in (a, b, c):
        store.create(each)
    assert (store.usage("ann"), store.usage(None), store.usage()) == ((75, None), (600, None), (675, None))
    assert store.replace({**a, "version": 2, "size": 6}, 1) and not store.replace({**a, "version": 2, "size": 1_000}, 1)
    assert (store.usage("ann"), store.usage()) == ((76, None), (676, None))
    for task_id in "abcd":
        store.delete(task_id)
    assert store.usage() == store.usage("ann") == store.usage(None) == (0, None)


def test_what_ended_first_is_named_by_owner_and_in_all(store: Any) -> None:
    a, b, c = record_of("a"), record_of("b"), record_of("c", "bob")
    for each in (a, b, c):
        store.create(each)
    assert (
        store.replace(ended(c, 999.0), 1)
        and store.replace(ended(b, 1_000.0), 1)
        and store.replace(ended(a, 1_001.0), 1)
    )
    assert (store.usage("ann")[1], store.usage("bob")[1], store.usage()[1]) == ("b", "c", "c")
    store.delete("c")
    assert (store.usage("ann")[1], store.usage("bob")[1], store.usage()[1]) == ("b", None, "b")


def test_params_are_there_for_who_runs_it_again_and_go_with_the_end(store: Any) -> None:
    record = record_of(
        "a",
        created=time.time() - 10,
        ttl=1.0,
        holder=store.holder,
        params={"name": "job", "arguments": {"text": "secret"}},
    )
    store.create(record)
    assert store.replace({**record, "version": 2, "message": "working"}, 1)
    assert [each["params"] for each in store.due(time.time())] == [record["params"]]
    assert store.replace(ended({**record, "version": 2}, time.time()), 2)
    assert [each["params"] for each in store.due(time.time())] == [{}]


def test_a_list_reads_no_arguments_no_answers_and_no_results(store: Any) -> None:
    long = "x" * 100_000
    store.create(record_of("a", created=1.0, params={"text": long}, asked={"k": {"method": long}}))
    store.create(record_of("b", created=2.0, outcome={"result": {"content": [{"type": "text", "text": long}]}}))
    failed = {"isError": True, "content": [{"type": "text", "text": "no " + long}, {"type": "image", "data": long}]}
    store.create(record_of("c", created=3.0, outcome={"result": failed}))
    store.create(record_of("d", created=4.0, outcome={"error": {"code": -32603, "message": "no", "data": long}}))
    listed = store.of_owner("ann", None, 10)
    assert [each["id"] for each in listed] == ["a", "b", "c", "d"] and long not in str(listed)
    assert listed[3]["outcome"]["error"]["message"] == "no"
    assert listed[0]["asked"].keys() == {"k"} and listed[1]["outcome"]["result"]["isError"] is False
    assert said(listed[2]["outcome"]["result"]) == ("no " + long)[:1_000]
    assert [each["id"] for each in store.of_owner("ann", (1.0, "a"), 1)] == ["b"]


def test_a_wait_says_whether_the_version_is_another(store: Any) -> None:
    record = record_of("a")
    store.create(record)
    assert store.wait("a", 1, 0) is False and store.wait("a", 2, 0) is True and store.wait("nothing", 1, 0) is True


# -- bounds in bytes --------------------------------------------------------------------------------------------------


@pytest.fixture
def tasks_of() -> Iterator[Callable[..., Tasks]]:
    made: list[Tasks] = []

    def new(**options: Any) -> Tasks:
        made.append(Tasks(**options))
        made[-1].clock = lambda: 1_000.0
        return made[-1]

    yield new
    for tasks in made:
        tasks.close()


def make(tasks: Tasks, owner: str = "ann", text: str = "", again: bool = False) -> Any:
    seed: Any = {"owner": owner, "ttl": None, "about": "job", "method": "tools/call", "params": {"text": text},
                 "again": again, "tries": 0}  # fmt: skip
    run = TaskRun(tasks, seed, lambda run: {})
    run.become()
    return run


def size_of_one() -> int:
    tasks = Tasks()
    tasks.clock = lambda: 1_000.0
    run = make(tasks)
    tasks.close()
    return int(run.record["size"])


SIZE = size_of_one()
"""Of a task without arguments."""


def test_after_close_no_call_becomes_a_task_and_none_begins(tasks_of: Any) -> None:
    tasks = tasks_of()
    before = make(tasks)
    tasks.close()
    with pytest.raises(InternalError, match="shut down"):
        make(tasks)
    with pytest.raises(InternalError, match="shut down"):
        before.start()


def test_so_many_bytes_of_one_owner_are_kept_and_one_more_is_refused(tasks_of: Any) -> None:
    tasks = tasks_of(size_per_owner=2 * SIZE + 100)
    make(tasks)
    with pytest.raises(InternalError, match="Too much is kept") as caught:
        make(tasks, text="x" * 101)
    assert caught.value.data == {"limit": 2 * SIZE + 100}
    make(tasks, text="x" * 100)
    with pytest.raises(InternalError):
        make(tasks)
    make(tasks, "bob")
    assert tasks.store.usage("ann") == (2 * SIZE + 100, None) and tasks._owned == {"ann": 2, "bob": 1}


def test_so_many_bytes_of_all_owners_are_kept_and_one_more_is_refused(tasks_of: Any) -> None:
    tasks = tasks_of(size=3 * SIZE)
    for owner in ("ann", "bob", "eve"):
        make(tasks, owner)
    with pytest.raises(InternalError, match="Too much is kept") as caught:
        make(tasks, "dan")
    assert caught.value.data == {"limit": 3 * SIZE}


def test_what_has_ended_makes_room_for_its_owner_first_and_refuses_nobody(tasks_of: Any) -> None:
    tasks = tasks_of(size_per_owner=2 * SIZE, size=4 * SIZE)
    first, bobs, second = (make(tasks, owner) for owner in ("ann", "bob", "ann"))
    for run in (second, bobs, first):
        assert tasks.end(run.id, {"result": {}})
    third, fourth = make(tasks), make(tasks)
    assert [tasks.store.get(run.id) is None for run in (first, second, third, fourth)] == [True, True, False, False]
    assert tasks.store.get(bobs.id) is not None
    make(tasks, "eve")
    make(tasks, "eve")
    assert tasks.store.get(bobs.id) is None


def test_what_can_never_fit_makes_nobody_forgotten(tasks_of: Any) -> None:
    tasks = tasks_of(size_per_owner=2 * SIZE)
    run = make(tasks)
    tasks.end(run.id, {"result": {}})
    with pytest.raises(InternalError):
        make(tasks, text="x" * 2 * SIZE)
    assert tasks.store.get(run.id) is not None


def test_a_result_for_which_there_is_no_room_is_an_error_of_the_task(tasks_of: Any) -> None:
    tasks = tasks_of(size_per_owner=2 * SIZE)
    run, _ = make(tasks), make(tasks)
    tasks.finish(run, run.id, {"result": {"content": "x" * 2 * SIZE}})
    record = tasks.store.get(run.id)
    assert record is not None and record["outcome"]["error"]["code"] == -32603 and not tasks._unwritten
    assert tasks.store.usage("ann")[0] <= 2 * SIZE


def test_a_result_makes_room_for_itself(tasks_of: Any) -> None:
    tasks = tasks_of(size_per_owner=3 * SIZE)
    before, run = make(tasks), make(tasks)
    tasks.end(before.id, {"result": {}})
    tasks.finish(run, run.id, {"result": {"content": "x" * int(2.2 * SIZE)}})
    record = tasks.store.get(run.id)
    assert record is not None and "result" in record["outcome"] and tasks.store.get(before.id) is None


def test_answers_for_which_there_is_no_room_are_refused(tasks_of: Any) -> None:
    tasks = tasks_of(size_per_owner=SIZE + 10_000)
    run = make(tasks)
    tasks.change(run.id, lambda record: bool(record.update(asked={"k": {}}) or True))
    with pytest.raises(InternalError):
        tasks.answer(run.id, {"k": {"result": {"content": {"name": "x" * 20_000}}}})
    record = tasks.store.get(run.id)
    assert record is not None and record["answered"] == {}
    tasks.answer(run.id, {"k": {"result": {"content": {"name": "x" * 5_000}}}})
    assert SIZE + 5_000 < tasks.store.usage("ann")[0] <= SIZE + 10_000


def test_arguments_are_kept_only_of_what_may_run_again_and_until_it_has_ended(tasks_of: Any) -> None:
    tasks = tasks_of()
    plain, again = make(tasks, text="secret"), make(tasks, text="secret", again=True)
    assert [tasks.store.get(run.id)["params"] for run in (plain, again)] == [{}, {"text": "secret"}]  # type: ignore[index]
    assert tasks.store.usage("ann")[0] >= 2 * SIZE, "both are held while they run"
    for run in (plain, again):
        tasks.end(run.id, {"result": {}})
        record = tasks.store.get(run.id)
        assert record is not None and record["params"] == record["asked"] == record["answered"] == {}
        assert record["size"] < RECORD_SIZE + SIZE


@pytest.mark.parametrize(
    "value",
    [
        [{"a": n} for n in range(10_000)],
        [n / 7 for n in range(10_000)],
        "a" * 100_000,
        "\U0001f600" + "a" * 100_000,
        ", [{" * 20_000,
    ],
    ids=["members", "numbers", "text", "wide", "brackets in a text"],
)
def test_a_value_is_counted_as_about_what_it_takes_in_memory(value: Any) -> None:
    def taken(part: Any) -> int:
        inner = [*part.values()] if isinstance(part, dict) else part if isinstance(part, list) else ()
        return sys.getsizeof(part) + sum(map(taken, inner))

    assert taken(value) / 2 <= weigh(value) <= 4 * taken(value)


# -- places -----------------------------------------------------------------------------------------------------------


def test_one_owner_does_not_hold_up_the_tasks_of_another() -> None:
    server, go_on = Server("jobs", tasks=Tasks(running=4, poll=0.05)), threading.Event()
    server.tool("held", task="required")(lambda: str(go_on.wait(LIMIT)))
    server.tool("quick", task="required")(lambda: "done")

    def client_of(user: str) -> Client:
        return Client(Url(http.url, headers={"X-User": user}), revision="2026-07-28", tasks=True)

    with closing(server), server.serve_http(authenticate=lambda request: request.headers["x-user"]) as http:
        with client_of("ann") as ann, client_of("bob") as bob, client_of("eve") as eve:
            held = [ann.call_tool_as_task("held") for _ in range(10)]
            workers = engine(server).workers
            until(lambda: workers.waiting.running == 2)
            bobs = [bob.call_tool_as_task("held") for _ in range(10)]
            until(lambda: workers.waiting.running == 3)
            assert said(eve.call_tool_as_task("quick").result(LIMIT)) == "done"
            assert workers.waiting.running == 3
            go_on.set()
            for task in (*held, *bobs):
                task.result(LIMIT)


# -- listeners --------------------------------------------------------------------------------------------------------


def test_who_listens_reads_no_record_until_another_process_has_changed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every second the tasks that run here are looked at; that is not for the listener.
    monkeypatch.setattr(running, "SWEEP_INTERVAL", 1e9)

    class Counting(SqliteTasks):
        """Counts what is read."""

        read = compared = looked = 0

        def get(self, task_id: str) -> Any:
            self.read += 1
            return super().get(task_id)

        def wait(self, task_id: str, version: int, timeout: float | None) -> bool:
            self.compared += 1
            return super().wait(task_id, version, timeout)

        def due(self, now: float) -> Any:
            self.looked += 1
            return super().due(now)

    place = tmp_path / "tasks.db"
    store, other, go_on = Counting(place), SqliteTasks(place), threading.Event()
    server = Server("jobs", tasks=Tasks(store, poll=0.05))
    server.tool("held", task="required")(lambda: str(go_on.wait(LIMIT)))

    def looks(number: int) -> None:
        end = store.looked + number
        until(lambda: store.looked >= end)

    with closing(other), closing(server), Client(server, revision="2026-07-28", tasks=True) as client:
        made = [client.call_tool_as_task("held").task_id or "" for _ in range(3)]
        with client.listen(tasks=made) as events:
            for _ in made:
                assert events.get(LIMIT).params["status"] == "working"
            # The first change in the store, whatever it is of, has the listener read all that it listens to.
            other.create(record_of("one", holder=other.holder))
            looks(3)
            before, compared = store.read, store.compared
            looks(5)
            assert (store.read, store.compared) == (before, compared)
            other.create(record_of("another", holder=other.holder))
            looks(3)
            assert store.read == before and store.compared > compared, "nothing has changed of what it listens to"
            assert Tasks(other).end(made[1], {"cancelled": "by another process"})
            changed = events.get(LIMIT).params
            assert (changed["taskId"], changed["status"]) == (made[1], "cancelled")
        go_on.set()


# -- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="Windows does not tell who may read a file")
def test_a_file_that_others_can_read_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "tasks.db"
    with closing(SqliteTasks(place)) as store:
        store.create(record_of("a"))
        assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
    place.chmod(0o644)
    with pytest.raises(PermissionError, match="0600"):
        SqliteTasks(place)
    place.chmod(0o600)
    SqliteTasks(place).close()
    (tmp_path / "link.db").symlink_to(place)
    with pytest.raises(OSError, match=r"link\.db"):
        SqliteTasks(tmp_path / "link.db")
    (tmp_path / "dangling.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(OSError, match=r"dangling\.db"):
        SqliteTasks(tmp_path / "dangling.db")
    assert not (tmp_path / "elsewhere.db").exists()
