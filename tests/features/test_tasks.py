"""Tasks: what a caller sees of them, over every transport."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypedDict

import pytest
import requests

from mcp_ref import (
    Cancel,
    Client,
    Context,
    ErrorResponse,
    Extension,
    HttpRequest,
    InvalidParams,
    LocalProtocolError,
    MemoryTasks,
    Rate,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    Server,
    SqliteTasks,
    TaskCancelled,
    TaskRule,
    Tasks,
    Url,
    reply,
    text,
)
from mcp_ref.client import tasks as hosting
from mcp_ref.pages.basic.mrtr import MAX_ROUNDS
from mcp_ref.pages.basic.tasks import MAX_TTL
from mcp_ref.server.server import DEFAULT_RATE
from mcp_ref.wire.methods import Method
from tests.features.conftest import address_of
from tests.features.task_client import (
    CORE,
    EXTENSION,
    LIMIT,
    connected,
    engine,
    in_both_designs,
    on_http,
    over_http_too,
    refused,
    release,
    said,
    served,
)  # fmt: skip
from tests.features.task_server import elicit, make_server
from tests.pages.basic.transports.streamable_http import modern, raw
from tests.support.clock import until
from tests.support.wire import Background, opened


def asked_two(client: Client) -> Any:
    """A task by hand with both of its questions."""
    task = client.call_tool_as_task("ask_two", by_hand=True)
    until(lambda: len(task.questions) == 2 or not task.status())
    return task


# -- the same handler everywhere ----------------------------------------------------------------------------------


@in_both_designs
@pytest.mark.parametrize(
    ("store", "transport"),
    [
        ("memory", "memory"),
        ("memory", "http"),
        ("sqlite", "memory"),
        pytest.param("sqlite", "stdio", marks=pytest.mark.slow),
    ],
)
def test_a_tool_that_asks_before_and_after_it_is_a_task_gives_one_result(
    transport: str, revision: str, store: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "tasks.db")
    tasks = Tasks(SqliteTasks(path) if store == "sqlite" and transport != "stdio" else None, poll=0.05)
    options: Any = {"revision": revision, "tasks": True, "elicit": elicit}
    with served(transport, make_server(tasks), path) as target, Client(target, **options) as client:
        assert said(client.call_tool("book", {"city": "Oslo"})) == "Oslo: Ann, 12A, soup"
        task = client.call_tool_as_task("book", {"city": "Oslo"})
        # To walk through its states answers its questions, and ends with its end.
        states = [state["status"] for state in task]
        assert (states[0], states[-1]) == ("working", "completed")
        assert said(task.result(LIMIT)) == "Oslo: Ann, 12A, soup"
        assert task.task_id is not None and task.status()["status"] == "completed"


@in_both_designs
def test_a_client_that_follows_no_tasks_gets_results(revision: str) -> None:
    with connected(tasks=False, revision=revision) as client:
        assert said(client.call_tool("book", {"city": "Oslo"})) == "Oslo: Ann, 12A, soup"
        with pytest.raises(LocalProtocolError):
            client.call_tool_as_task("book", {"city": "Oslo"})


@in_both_designs
def test_a_client_asks_for_the_state_no_more_often_than_the_server_wishes(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, asked, chosen = make_server(Tasks(poll=0.2)), list[Any](), list[float]()
    # Chance may make a pause longer, and this the shortest of them.
    monkeypatch.setattr(random, "uniform", lambda low, high: chosen.append(low) or low)

    def count(event: Any) -> None:
        if event.message.get("method") == "tasks/get":
            asked.append(event)
        if len(asked) == 2:
            release(server)

    with connected(server, revision=revision, trace=count) as client:
        task, began = client.call_tool_as_task("wait"), time.monotonic()
        assert [state["status"] for state in task][-1] == "completed"
        assert time.monotonic() - began >= 2 * 0.2 and min(chosen) >= 1


@in_both_designs
def test_questions_can_be_answered_by_hand(revision: str) -> None:
    with connected(revision=revision) as client:
        task = client.call_tool_as_task("ask_two", by_hand=True)
        for _ in task:
            for key, question in list(task.questions.items()):
                form = question["method"] == "elicitation/create"
                task.answer(key, {"action": "accept", "content": {"name": "Zed"}} if form else {"roots": []})
        assert said(task.result(LIMIT)) == "Zed, 0 folders"


@in_both_designs
def test_another_client_goes_on_with_a_task_by_its_id_in_either_design(revision: str) -> None:
    server = make_server()
    with connected(server, revision=revision) as one:
        task_id = one.call_tool_as_task("book", {"city": "Oslo"}).task_id
        with Client(server, revision=CORE, tasks=True, elicit=elicit) as other:
            assert said(other.task(task_id).result(LIMIT)) == "Oslo: Ann, 12A, soup"
            assert [each["taskId"] for each in other.list_tasks()] == [task_id]
        assert said(one.task(task_id).result(LIMIT)) == "Oslo: Ann, 12A, soup"


# -- what is on the wire -------------------------------------------------------------------------------------------


def test_messages_of_a_task_name_it_and_news_of_its_state_do_not() -> None:
    metas, trace, news, ended = list[Any](), list[Any](), list[Any](), threading.Event()

    def ask(message: str, schema: Any, ctx: Any) -> Any:
        metas.append(ctx.meta)
        return elicit(message, schema)

    def on_change(method: str, params: Any) -> None:
        news.append((method, "_meta" in params))
        if params["status"] == "completed":
            ended.set()

    with connected(elicit=ask, trace=trace.append, on_change=on_change) as client:
        task = client.call_tool_as_task("book", {"city": "Oslo"})
        result = task.result(LIMIT)
        assert ended.wait(LIMIT)
    named = {"io.modelcontextprotocol/related-task": {"taskId": task.task_id}}
    assert metas == [named] * 3 and result["_meta"] == named
    answers = [event.message for event in trace if "content" in event.message.get("result", {})]
    assert sum(message["result"].get("_meta") == named for message in answers) == 4
    assert set(news) == {("notifications/tasks/status", False)}


def test_what_names_a_task_by_itself_is_not_marked_as_related_to_it() -> None:
    trace: list[Any] = []
    with connected(trace=trace.append) as client:
        task = client.call_tool_as_task("wait")
        assert client.list_tasks() and task.status()["status"] == "working"
        task.cancel()
        other = {"taskId": task.task_id, "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "another"}}}
        before, status = len(trace), client.request("tasks/get", other)
    assert status["taskId"] == task.task_id and status["status"] == "cancelled" and "_meta" not in status
    assert "related-task" not in str([event.message for event in trace[:before]])


def test_a_task_begins_as_working_and_says_how_long_it_lives() -> None:
    with connected() as client:
        params = {"name": "book", "arguments": {"city": "Oslo"}, "task": {"ttl": 60_000}}
        created = client.request("tools/call", params)["task"]
        assert client.call_tool_as_task("wait", ttl=60).status()["ttl"] == 60_000
        assert created["status"] == "working" and created["ttl"] == 60_000 and created["pollInterval"] == 50
        assert len(created["taskId"]) == 48 and created["createdAt"].endswith("Z")


@pytest.mark.parametrize(("revision", "after_a_tool_error"), [(CORE, "failed"), (EXTENSION, "completed")])
def test_results_and_errors_are_those_of_the_call(revision: str, after_a_tool_error: str) -> None:
    with connected(revision=revision) as client:
        failed = client.call_tool_as_task("fail", {"how": "tool"})
        assert failed.result(LIMIT)["isError"] is True
        assert (failed.status()["status"], failed.status()["statusMessage"]) == (after_a_tool_error, "it broke")
        refused_call = client.call_tool_as_task("fail", {"how": "protocol"})
        with pytest.raises(ErrorResponse) as caught:
            refused_call.result(LIMIT)
        assert (caught.value.code, caught.value.data) == (-32602, {"why": "so"})
        state = refused_call.status()
        assert (state["status"], state["statusMessage"], "result" in state) == ("failed", "it is refused", False)
        assert revision == CORE or state["error"]["code"] == -32602
        wrong = client.call_tool_as_task("book", {"city": 7})
        assert wrong.result(LIMIT)["isError"] is True


@pytest.mark.parametrize(("transport", "somebody_waits"), [("memory", False), ("memory", True), ("http", True)])
def test_on_progress_is_told_until_the_task_has_ended(transport: str, somebody_waits: bool) -> None:
    server, go_on, told, trace = Server("jobs"), threading.Event(), list[Any](), list[Any]()

    @server.tool(task="required")
    def report(ctx: Context) -> str:
        go_on.wait(60)
        for done in (1, 2, 3):
            ctx.progress(done, 3, f"step {done}")
        return "done"

    with connected(server, transport, trace=trace.append) as client:
        task = client.call_tool_as_task("report", on_progress=lambda *report: told.append(report))
        waiting = Background(task.result, LIMIT) if somebody_waits else None
        until(lambda: engine(server).carriers or not somebody_waits)
        go_on.set()
        assert waiting is None or waiting.outcome()["content"] == [text("done")]
        assert [state["status"] for state in task][-1] == "completed"
        until(lambda: len(told) == 3)
        assert told == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
        told.clear()
        client.call_tool("report", on_progress=lambda *report: told.append(report[0]))
        assert told == sorted(told) and (transport == "http" or told == [1, 2, 3])
    sent = [each.message for each in trace if each.message]
    reports = [each["params"] for each in sent if each.get("method") == "notifications/progress"]
    tokens = {each["params"]["_meta"]["progressToken"] for each in sent if each.get("method") == "tools/call"}
    assert reports and {each["progressToken"] for each in reports} <= tokens
    assert all("io.modelcontextprotocol/related-task" in each["_meta"] for each in reports)


def test_a_task_that_was_cancelled_reports_nothing_more() -> None:
    server, told = Server("jobs"), list[Any]()
    began, go_on, over = threading.Event(), threading.Event(), threading.Event()

    @server.tool(task="required")
    def report(ctx: Context) -> str:
        began.set()
        go_on.wait(60)
        ctx.progress(1, 2)
        over.set()
        return "done"

    with connected(server, trace=told.append) as client:
        task = client.call_tool_as_task("report", on_progress=lambda *report: None)
        assert began.wait(60)  # what is cancelled before that never runs
        task.cancel()
        go_on.set()
        assert over.wait(60)
    assert not [event for event in told if event.message.get("method") == "notifications/progress"]


@in_both_designs
def test_a_task_is_answered_with_before_its_tool_has_ended(revision: str) -> None:
    server = make_server()
    with connected(server, revision=revision) as client:
        task = client.call_tool_as_task("wait", timeout=LIMIT)
        assert task.status()["status"] == "working"
        release(server)
        assert said(task.result(LIMIT)) == "released"
        # A required tool is called as a task in any case.
        assert said(client.call_tool("wait")) == "released"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_earlier_revisions_see_nothing_of_tasks(revision: str) -> None:
    with connected(revision=revision, elicit=None) as client:
        assert "tasks" not in client.server_capabilities
        assert not any("execution" in tool for tool in client.list_tools())
        assert said(client.call_tool("plain")) == "plain"
        assert said(client.call_tool("steps")) == "task: False"
        with pytest.raises(LocalProtocolError):
            client.call_tool_as_task("steps")
        assert refused(client, "tools/call", {"name": "wait"}).code == -32601


def test_a_tool_says_whether_it_can_be_a_task() -> None:
    with connected() as client:
        support = {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in client.list_tools()}
        assert support["book"] == "optional" and support["wait"] == "required" and support["plain"] is None
        assert client.server_capabilities["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


# -- what is refused -----------------------------------------------------------------------------------------------


def test_calls_that_do_not_fit_the_tool_are_refused() -> None:
    with connected() as client:
        assert refused(client, "tools/call", {"name": "wait"}).code == -32601
        assert refused(client, "tools/call", {"name": "plain", "task": {}}).code == -32601
        assert refused(client, "tools/call", {"name": "nothing", "task": {}}).code == -32602
        with pytest.raises(LocalProtocolError):
            client.call_tool_as_task("plain")


def test_a_malformed_lifetime_is_refused_with_its_path() -> None:
    with connected() as client:
        for ttl in (True, 1.5, "60", 0, MAX_TTL + 1):
            problem = refused(client, "tools/call", {"name": "steps", "task": {"ttl": ttl}})
            assert problem.code == -32602 and problem.data == {"path": "params.task.ttl"}
        assert client.request("tools/call", {"name": "steps", "task": {"ttl": MAX_TTL}})["task"]["ttl"] == 86_400_000


@pytest.mark.parametrize(
    ("revision", "method"),
    [
        *((CORE, f"tasks/{each}") for each in ("get", "result", "cancel")),
        *((EXTENSION, f"tasks/{each}") for each in ("get", "update", "cancel")),
    ],
)
def test_an_unknown_task_is_refused(revision: str, method: str) -> None:
    with connected(revision=revision) as client:
        unknown = refused(client, method, {"taskId": "nonsense", "inputResponses": {}})
        assert unknown.code == -32602 and "Unknown task" in str(unknown)
        assert refused(client, method, {"taskId": 7, "inputResponses": {}}).data == {"path": "params.taskId"}


def test_a_task_says_when_it_changed() -> None:
    now, tasks = [1_000.0], Tasks(poll=0.05)
    tasks.clock = lambda: now[0]
    with connected(make_server(tasks)) as client:
        task = client.call_tool_as_task("wait")
        now[0] += 10
        task.cancel()
        state = task.status()
    assert (state["createdAt"], state["lastUpdatedAt"]) == ("1970-01-01T00:16:40.000Z", "1970-01-01T00:16:50.000Z")


def test_no_part_of_an_id_can_be_told_beforehand() -> None:
    ids, before = list[str](), random.getstate()
    with connected() as client:
        for _ in range(12):
            # Who knows the state of the random module knows nothing of it.
            random.seed(7)
            ids.append(str(client.call_tool_as_task("must").task_id))
    random.setstate(before)
    # By chance two of these parts are equal once in a hundred million runs.
    assert all(len({each[start : start + 8] for each in ids}) == 12 for start in range(0, 48, 8))


@in_both_designs
def test_a_client_that_hangs_up_has_not_cancelled_its_task(revision: str) -> None:
    server = make_server()
    with on_http(server) as url, Client(url, revision=revision, tasks=True) as client:
        with Client(url, revision=revision, tasks=True) as first:
            task_id = first.call_tool_as_task("wait").task_id
        # Its connections are closed. What it would have said over stdio is said, too.
        client.notify("notifications/cancelled", {"requestId": 1})
        release(server)
        assert said(client.task(str(task_id)).result(LIMIT)) == "released"


def test_a_cancelled_call_does_not_end_the_task_that_it_has_become(monkeypatch: pytest.MonkeyPatch) -> None:
    # The answer to the call waits for the end of its handler, so that there is a call to cancel.
    monkeypatch.setattr("mcp_ref.server.tasks.QUICK", LIMIT)
    server, entered, given_up = Server("jobs", tasks=(tasks := Tasks())), threading.Event(), threading.Event()

    @server.tool(task="optional")
    def late(ctx: Context) -> str:
        call: Any = ctx.conversation
        call.asking.attach(lambda reason: given_up.set())
        entered.set()
        assert given_up.wait(LIMIT)
        ctx.check_cancelled()
        return "done"

    with opened(server, CORE) as wire:
        wire.send({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "late", "task": {}}})
        assert entered.wait(LIMIT)
        wire.notify("notifications/cancelled", {"requestId": "c"})
        (record,) = tasks.store.of_owner("", None, 10)
        assert wire.request(2, "tasks/result", {"taskId": record["id"]})["result"]["content"] == [text("done")]


def test_a_task_asked_for_by_the_other_design_is_ignored() -> None:
    server = make_server()
    with on_http(server) as url:
        for name, capabilities in (("steps", None), ("plain", DECLARED)):
            status, answer = post(url, "tools/call", {"name": name, "task": {}}, capabilities)
            assert (status, answer["result"]["resultType"]) == (200, "complete")
    with closing(make_server()) as server, opened(server, CORE, DECLARED) as wire:
        assert wire.request(1, "tools/call", {"name": "must"})["error"]["code"] == -32601
        assert wire.request(2, "tools/call", {"name": "steps"})["result"]["content"] == [text("task: False")]


def test_a_question_before_a_call_becomes_a_task_is_a_round_of_the_call() -> None:
    server, can = make_server(), {**DECLARED, "elicitation": {"form": {}}}
    with on_http(server) as url:
        call: Any = {"name": "book", "arguments": {"city": "Oslo"}}
        result = post(url, "tools/call", call, can)[1]["result"]
        assert result["resultType"] == "input_required"
        ((key, question),) = result["inputRequests"].items()
        assert question["params"]["message"] == "Name?"
        answers = {key: {"action": "accept", "content": {"name": "Ann"}}}
        call |= {"inputResponses": answers, "requestState": result["requestState"]}
        task = post(url, "tools/call", call, can)[1]["result"]
        assert task["resultType"] == "task" and task["status"] in ("working", "input_required")


def test_updates_and_cancels_are_acknowledged_with_an_empty_result() -> None:
    server = make_server()
    with on_http(server) as url:
        made = post(url, "tools/call", {"name": "wait"}, DECLARED)[1]["result"]
        for method in ("tasks/update", "tasks/cancel", "tasks/cancel"):
            params = {"taskId": made["taskId"], "inputResponses": {}}
            status, answer = post(url, method, params, DECLARED)
            assert (status, answer["result"].keys() - {"_meta"}) == (200, {"resultType"})


def test_two_that_wait_for_one_task_show_its_question_once() -> None:
    shown, looks, answer_it = list[str](), list[str](), threading.Event()

    def ask(message: str, schema: Any) -> Any:
        shown.append(message)
        assert answer_it.wait(LIMIT)
        return elicit(message, schema)

    def look(event: Any) -> None:
        if shown and event.direction == "send" and (event.message or {}).get("method") == "tasks/get":
            looks.append("")
            if len(looks) == 3:
                answer_it.set()

    with connected(revision=EXTENSION, elicit=ask, trace=look) as client:
        task = client.call_tool_as_task("ask_one")
        waiting = [Background(task.result, LIMIT) for _ in range(2)]
        assert [each.outcome()["content"] for each in waiting] == [[text("asked Ann")]] * 2
    assert shown == ["Name?"]


def test_tasks_are_listed_page_by_page() -> None:
    with connected(make_server(page_size=2)) as client:
        made = [client.call_tool_as_task("steps").task_id for _ in range(5)]
        assert [each["taskId"] for each in client.list_tasks()] == made
        for unknown in ("", "nonsense", "WzEsIDJd "):
            assert refused(client, "tasks/list", {"cursor": unknown}).code == -32602


def test_one_task_more_than_the_most_is_refused_and_expired_ones_are_forgotten() -> None:
    now = [1_000.0]
    tasks = Tasks(most=2, longest=50)
    tasks.clock = lambda: now[0]
    with connected(make_server(tasks)) as client:
        first, _ = client.call_tool_as_task("wait", ttl=60), client.call_tool_as_task("wait", ttl=20)
        problem = refused(client, "tools/call", {"name": "wait", "task": {}})
        assert problem.code == -32603 and problem.data == {"limit": 2}
        assert first.status()["ttl"] == 50_000
        now[0] += 49.9
        assert first.status()["status"] == "working" and len(client.list_tasks()) == 1
        now[0] += 0.2
        assert refused(client, "tasks/get", {"taskId": first.task_id}).code == -32602
        tasks._sweep()
        assert not tasks.store._records  # type: ignore[attr-defined]


# -- cancelling ----------------------------------------------------------------------------------------------------


def test_a_cancelled_task_stays_cancelled_and_has_no_result() -> None:
    server = make_server()
    with connected(server) as client:
        task = client.call_tool_as_task("deaf")
        task.cancel()
        server.released.set()  # type: ignore[attr-defined]
        with pytest.raises(TaskCancelled):
            task.result(LIMIT)
        assert task.status()["status"] == "cancelled"
        ended = refused(client, "tasks/cancel", {"taskId": task.task_id})
        assert ended.code == -32602 and "already in terminal status 'cancelled'" in str(ended)
        task.cancel()


@in_both_designs
def test_a_time_limit_of_call_tool_cancels_its_task_and_that_of_a_handle_does_not(revision: str) -> None:
    tasks, give_up, known = Tasks(poll=0.05), Cancel(), threading.Event()

    def look(event: Any) -> None:
        if event.direction == "send" and (event.message or {}).get("method") in ("tasks/get", "tasks/result"):
            known.set()

    with connected(make_server(tasks), revision=revision, trace=look) as client:
        # Long enough for a busy machine to make the task: only a task whose id the client has can it cancel.
        with pytest.raises(RequestTimeout):
            client.call_tool("wait", timeout=1)
        task = client.call_tool_as_task("wait")
        with pytest.raises(RequestTimeout):
            task.result(0.05)
        known.clear()
        calling = Background(client.call_tool, "wait", cancel=give_up)
        assert known.wait(LIMIT)
        give_up()
        assert isinstance(calling.outcome(), RequestCancelled)
        assert task.status()["status"] == "working"
        outcomes = [record["outcome"] for record in tasks.store.of_owner("", None, 10)]
        assert sorted("cancelled" in (outcome or ()) for outcome in outcomes) == [False, True, True]


def test_a_cancellation_ends_the_wait_for_an_answer() -> None:
    asked, ended = threading.Event(), threading.Event()
    server = Server("jobs")

    @server.tool(task="optional")
    def ask(ctx: Context) -> None:
        try:
            ctx.elicit("Name?", {"name": {"type": "string"}})
        finally:
            ended.set()

    def slow(message: str, schema: Any) -> Any:
        asked.set()
        ended.wait(LIMIT)
        return {"name": "late"}

    with connected(server, elicit=slow) as client:
        task = client.call_tool_as_task("ask")
        waiting = Background(task.result, LIMIT)
        assert asked.wait(LIMIT)
        task.cancel()
        assert ended.wait(LIMIT)
        assert isinstance(waiting.outcome(), TaskCancelled)
        assert task.status()["status"] == "cancelled"


def test_a_newer_tasks_result_takes_the_questions_over() -> None:
    first_asked, release = threading.Event(), threading.Event()
    answered: list[str] = []
    server = make_server()

    def first(message: str, schema: Any) -> Any:
        first_asked.set()
        release.wait(LIMIT)
        return {"name": "late", "seat": "late", "meal": "late"}

    def second(message: str, schema: Any) -> Any:
        answered.append(message)
        return elicit(message, schema)

    with connected(server, elicit=first) as one, Client(server, revision=CORE, tasks=True, elicit=second) as other:
        task = one.call_tool_as_task("book", {"city": "Oslo"})
        waiting = Background(task.result, LIMIT)
        assert first_asked.wait(LIMIT)
        assert said(other.task(task.task_id).result(LIMIT)) == "Oslo: Ann, 12A, soup"
        release.set()
        assert waiting.outcome()["content"] == [text("Oslo: Ann, 12A, soup")]
        assert answered == ["Name?", "Seat?", "Meal?"]


# -- whose it is ---------------------------------------------------------------------------------------------------


def test_a_task_belongs_to_who_is_authenticated() -> None:
    server = make_server()

    def who(request: HttpRequest) -> str:
        return request.headers["x-user"]

    with on_http(server, authenticate=who) as url:
        clients = [
            Client(Url(url, headers={"X-User": user}), revision=CORE, tasks=True, elicit=elicit)
            for user in ("ann", "ann", "bob")
        ]
        with clients[0] as ann, clients[1] as ann_again, clients[2] as bob:
            assert "list" in ann.server_capabilities["tasks"]
            task = ann.call_tool_as_task("book", {"city": "Oslo"})
            for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                unknown = refused(bob, method, {"taskId": "nonsense"})
                foreign = refused(bob, method, {"taskId": task.task_id})
                assert (foreign.code, foreign.message, foreign.data) == (unknown.code, unknown.message, unknown.data)
            assert bob.list_tasks() == [] and len(ann_again.list_tasks()) == 1
            assert said(ann_again.task(task.task_id).result(LIMIT)) == "Oslo: Ann, 12A, soup"


def test_without_authentication_tasks_are_not_listed_and_ids_are_enough() -> None:
    server = make_server()
    with on_http(server) as url:
        with Client(url, revision=CORE, tasks=True, elicit=elicit) as one:
            assert "list" not in one.server_capabilities["tasks"]
            task_id = one.call_tool_as_task("book", {"city": "Oslo"}).task_id
        with Client(url, revision=CORE, tasks=True, elicit=elicit) as other:
            assert said(other.task(task_id).result(LIMIT)) == "Oslo: Ann, 12A, soup"
            with pytest.raises(LocalProtocolError):
                other.list_tasks()


# -- rules ---------------------------------------------------------------------------------------------------------


def test_a_malformed_rule_is_refused_when_the_tool_is_registered() -> None:
    server = Server("jobs")
    with pytest.raises(ValueError, match="forbidden"):
        server.tool(task="always")(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ttl"):
        server.tool("x", task=TaskRule(ttl=0))(lambda: None)
    with pytest.raises(ValueError, match="most"):
        Tasks(most=0)


@in_both_designs
def test_a_server_without_tasks_has_no_thread_and_no_method_of_them(revision: str) -> None:
    server = Server("plain")
    server.tool("plain")(lambda: "plain")
    assert server.tasks is None and "tasks/get" not in {**server.handlers["session"], **server.handlers["stateless"]}
    with connected(server, revision=revision) as client:
        assert said(client.call_tool("plain")) == "plain"
        # A client asks for no task of a server that did not declare them.
        with pytest.raises(LocalProtocolError):
            client.call_tool_as_task("plain")
        with pytest.raises(LocalProtocolError):
            client.task("x").status()
        if revision == CORE:
            assert refused(client, "tools/call", {"name": "plain", "task": True}).code == -32602
            assert said(client.request("tools/call", {"name": "plain", "task": {"ttl": 60_000}})) == "plain"


# -- what is told and logged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"])
def test_every_request_for_a_task_has_a_rate_without_any_setting(method: str) -> None:
    assert Server("s").limits.rates[method] is DEFAULT_RATE
    revision = EXTENSION if method == "tasks/update" else CORE
    with connected(make_server(rates={method: Rate(per_second=0.01, burst=1)}), revision=revision) as client:
        params = {} if method == "tasks/list" else {"taskId": "x", "inputResponses": {}}
        with suppress(ErrorResponse):
            client.request(method, params)
        assert refused(client, method, params).code == 429


ASKING = ("/tasks/handle.py", "/client/tasks.py")


def test_the_life_of_a_task_is_logged_without_contents(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "mcp_ref.tasks")
    with connected() as client:
        task = client.call_tool_as_task("book", {"city": "Oslo"})
        task.result(LIMIT)
        for _ in range(3):
            refused(client, "tasks/get", {"taskId": "nonsense"})
        cancelled = client.call_tool_as_task("wait")
        cancelled.cancel()
        assert cancelled.status()["status"] == "cancelled"
    records = [record for record in caplog.records if record.name == "mcp_ref.tasks"]
    # Both roles are in this process: each has to say its part.
    requestor = [record.getMessage() for record in records if record.pathname.endswith(ASKING)]
    receiver = [record.getMessage() for record in records if not record.pathname.endswith(ASKING)]
    for word in ("created", "answered", "ended", "read", "refused"):
        assert any(line.startswith(word) for line in receiver), word
    # Who asks again and again for what is not there causes one warning.
    levels = [record.levelname for record in records if record.getMessage().startswith("refused")]
    assert levels == ["WARNING", "DEBUG", "DEBUG"]
    for line in (
        f"the server made {task.task_id} of a call of book",
        f"got the result of {task.task_id} of book",
        f"the server made {cancelled.task_id} of a call of wait",
        f"asks to cancel {cancelled.task_id} of wait",
        f"saw that {cancelled.task_id} of wait is cancelled",
    ):
        assert line in requestor
    assert not any("Oslo" in line or "Ann" in line for line in (*requestor, *receiver))


def test_the_log_says_whose_a_task_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mcp_ref.tasks")
    server, who = make_server(), list[str]()
    with on_http(server, authenticate=lambda request: who[-1]) as url:
        for name in ("ada", "bob"):
            who.append(name)
            with Client(url, revision=CORE, tasks=True) as client:
                task = client.call_tool_as_task("must")
                task.result(LIMIT)
                refused(client, "tasks/get", {"taskId": "nonsense"})
            for line in (f"created {task.task_id} of '{name}': must", f"ended {task.task_id} of '{name}': result",
                         f"read {task.task_id} by '{name}'"):  # fmt: skip
                assert line in caplog.messages
    assert "refused 'ada' a task that it does not have" in caplog.messages


# -- the extension -------------------------------------------------------------------------------------------------

DECLARED = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
NEEDED = {"requiredCapabilities": DECLARED}


def post(url: str, method: str, params: Any, capabilities: Any = None, **headers: str) -> Any:
    """Send a request by hand; the status and the answer."""
    message = modern.asked(method, params, meta=modern.envelope(**(capabilities or {})))
    name = {"mcp-name": params["taskId"]} if "taskId" in params else {}
    fields = {"Accept": "application/json, text/event-stream", **modern.mirrored(message), **name, **headers}
    answer = requests.post(url, json=message, headers=fields, timeout=LIMIT)
    return answer.status_code, answer.json()


def test_without_the_declaration_there_is_no_task_and_no_method_of_tasks() -> None:
    server = make_server()
    with on_http(server) as url:
        with Client(url, revision=EXTENSION) as client:
            assert client.server_capabilities["extensions"] == {"io.modelcontextprotocol/tasks": {}}
            assert "tasks" not in client.server_capabilities
            assert said(client.call_tool("steps")) == "task: False"
            with pytest.raises(ErrorResponse) as caught, client.listen(tasks=["x"]):
                pass
            assert caught.value.code == -32021
        answers = [post(url, "tools/call", {"name": "wait"})]
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            answers.append(post(url, method, {"taskId": "x", "inputResponses": {}}))
        old = {"tasks": {"requests": {"tools": {"call": {}}}}}
        answers.append(post(url, "tools/call", {"name": "wait", "task": {}}, old))
        for status, answer in answers:
            assert (status, answer["error"]["code"], answer["error"]["data"]) == (400, -32021, NEEDED)
        for method in ("tasks/result", "tasks/list"):
            assert post(url, method, {"taskId": "x"}, DECLARED)[1]["error"]["code"] == -32601
        assert post(url, "tasks/get", {"taskId": "x"}, DECLARED)[1]["error"]["code"] == -32602


def test_what_only_the_other_design_has_is_unknown() -> None:
    with connected(revision=EXTENSION) as client:
        for method in ("tasks/result", "tasks/list"):
            with pytest.raises(LocalProtocolError):
                client.request(method, {"taskId": "x"})
        assert not any("execution" in tool for tool in client.list_tools())
        with pytest.raises(LocalProtocolError):
            client.call_tool_as_task("steps", ttl=60)


def test_a_tool_is_called_as_a_task_without_the_declaration_if_the_caller_says_so(monkeypatch: Any) -> None:
    server = make_server()
    release(server)
    # As servers of the Python SDK 1.23 to 1.26 declare it.
    capability = {"list": {}, "cancel": {}, "requests": {"tools": {}}}
    monkeypatch.setattr(server.tasks, "capability", lambda owner: capability)
    with connected(server) as client:
        assert client.server_capabilities["tasks"] == capability
        with pytest.raises(LocalProtocolError):
            client.call_tool_as_task("wait")
        with pytest.raises(ErrorResponse) as caught:
            client.call_tool("wait")
        assert caught.value.code == -32601
        assert said(client.call_tool("wait", undeclared=True)) == "released"
        task = client.call_tool_as_task("wait", undeclared=True)
        assert said(task.result(LIMIT)) == "released"
        with pytest.raises(LocalProtocolError, match="cannot be called as a task"):
            client.call_tool_as_task("plain", undeclared=True)
        # Now the client knows what the tool says, and it is the declaration that counts.
        assert {"taskSupport": "required"} in [tool.get("execution") for tool in client.list_tools()]
        with pytest.raises(LocalProtocolError, match=r"did not declare tasks\.requests\.tools\.call"):
            client.call_tool_as_task("wait")


# -- servers that answer otherwise -----------------------------------------------------------------------------------


def answering(server: Server, method: str, answer: Any) -> None:
    """Have a server of the session era answer a method by `answer(usual, ctx, params)`."""
    usual = server.handlers["session"][method]
    server.handlers["session"] = {**server.handlers["session"], method: lambda ctx, params: answer(usual, ctx, params)}


def test_a_server_that_refuses_tasks_result_while_the_task_works_is_polled_to_its_end() -> None:
    server, refusals = make_server(), list[str]()

    def impatient(usual: Any, ctx: Any, params: Any) -> Any:
        assert server.tasks is not None
        if server.tasks.tasks.find(params["taskId"], "")["outcome"] is None:
            refusals.append("not yet")
            raise InvalidParams("the task has not completed yet")
        return usual(ctx, params)

    answering(server, "tasks/result", impatient)
    with connected(server) as client:
        task = client.call_tool_as_task("wait")
        with pytest.raises(RequestTimeout):
            task.result(0.2)
        before, waiting = len(refusals), Background(task.result, LIMIT)
        until(lambda: len(refusals) >= before + 2)
        release(server)
        assert said(waiting.outcome()) == "released"
        failing = client.call_tool_as_task("fail", {"how": "protocol"})
        with pytest.raises(ErrorResponse, match="it is refused"):
            failing.result(LIMIT)
        with pytest.raises(ErrorResponse, match="Unknown task"):
            client.task("nonsense").result(LIMIT)


def test_an_empty_result_of_a_cancelled_task_says_that_it_was_cancelled() -> None:
    server = make_server()

    def empty(usual: Any, ctx: Any, params: Any) -> Any:
        return {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}}}

    answering(server, "tasks/result", empty)
    with connected(server) as client:
        task = client.call_tool_as_task("wait")
        task.cancel()
        with pytest.raises(TaskCancelled):
            task.result(LIMIT)
        other = client.call_tool_as_task("wait")
        with pytest.raises(RemoteProtocolError):
            other.result(LIMIT)
        other.cancel()


@pytest.mark.parametrize(("questions", "refused"), [(MAX_ROUNDS, False), (MAX_ROUNDS + 1, True)])
def test_a_task_may_ask_in_so_many_rounds(questions: int, refused: bool) -> None:
    server, asked = Server("asks", tasks=Tasks(poll=0.05)), list[str]()

    @server.tool(task="required")
    def ask(ctx: Context) -> str:
        for _ in range(questions):
            ctx.elicit("Name?", {"name": {"type": "string"}})
        return "done"

    def answer(message: str, schema: Any) -> Any:
        asked.append(message)
        return {"name": "Ann"}

    with connected(server, revision=EXTENSION, elicit=answer) as client:
        if refused:
            task = client.call_tool_as_task("ask")
            with pytest.raises(RemoteProtocolError, match=f"asked for input {questions} times"):
                task.result(LIMIT)
            task.cancel()
        else:
            assert said(client.call_tool("ask")) == "done"
        assert len(asked) == MAX_ROUNDS


def test_the_state_has_what_belongs_to_it_and_nothing_of_the_other_design() -> None:
    answers = {"elicitation/create": {"action": "accept", "content": {"name": "Zed"}}, "roots/list": {"roots": []}}
    with connected(revision=EXTENSION) as client:
        task = asked_two(client)
        state = task.status()
        assert (state["ttlMs"], state["pollIntervalMs"]) == (3_600_000, 50)
        assert not {"ttl", "result", "error"} & set(state)
        first, second = state["inputRequests"]
        task.answer(first, answers[state["inputRequests"][first]["method"]])
        assert set(task.status()["inputRequests"]) == {second}
        task.answer(second, answers[state["inputRequests"][second]["method"]])
        assert said(task.result(LIMIT)) == "Zed, 0 folders"
        done = task.status()
        assert done["result"]["resultType"] == "complete" and "inputRequests" not in done
        assert "io.modelcontextprotocol/related-task" not in done["result"].get("_meta", {})


def test_answers_that_do_not_fit_are_refused_and_others_ignored() -> None:
    with connected(revision=EXTENSION) as client:
        task = asked_two(client)
        (name,) = [key for key, each in task.questions.items() if each["method"] == "elicitation/create"]

        def update(answers: Any) -> Any:
            return client.request("tasks/update", {"taskId": task.task_id, "inputResponses": answers})

        with pytest.raises(ErrorResponse) as wrong:
            update({name: {"action": "perhaps"}, "other": {"ignored": True}})
        assert wrong.value.data == {"path": f"params.inputResponses.{name}.action"}
        assert len(task.status()["inputRequests"]) == 2
        update({"other": {"ignored": True}})
        for answer in ("One", "too late"):
            update({name: {"action": "accept", "content": {"name": answer}}})
        (roots,) = task.status()["inputRequests"]
        task.answer(roots, {"roots": []})
        assert said(task.result(LIMIT)) == "One, 0 folders"


@over_http_too
def test_changes_are_pushed_to_who_listens_and_the_present_state_first(transport: str) -> None:
    with connected(transport=transport, revision=EXTENSION) as client:
        pushed = client.call_tool_as_task("book", {"city": "Oslo"}, push=True)
        assert said(pushed.result(LIMIT)) == "Oslo: Ann, 12A, soup"
        with client.listen(tasks=[pushed.task_id, "nonsense"]) as events:
            assert events.honoured == {"taskIds": [pushed.task_id]}
            event = events.get(LIMIT)
            assert event.method == "notifications/tasks" and event.params["status"] == "completed"
            assert said(event.params["result"]) == "Oslo: Ann, 12A, soup"


@in_both_designs
def test_a_task_can_be_found_when_the_answer_that_names_it_is_sent(revision: str) -> None:
    server, found = make_server(Tasks(store := MemoryTasks(), poll=0.05)), list[bool]()

    def look(event: Any) -> None:
        result = (event.message or {}).get("result") or {}
        if event.direction == "receive" and (named := result.get("task", result).get("taskId")):
            found.append(store.get(named) is not None)

    with connected(server, revision=revision, trace=look) as client:
        client.call_tool_as_task("must").result(LIMIT)
    assert found and all(found)


@over_http_too
def test_who_listens_to_a_task_hears_its_states_and_neither_progress_nor_log_messages(transport: str) -> None:
    server, trace, go_on = Server("jobs"), list[Any](), threading.Event()

    @server.tool(task="required")
    def speak(ctx: Context) -> str:
        assert go_on.wait(LIMIT)
        ctx.progress(1, 2, "half")
        ctx.log("error", "halfway")
        return "done"

    with connected(server, transport, EXTENSION, trace=trace.append, on_log=lambda params: None) as client:
        task = client.call_tool_as_task("speak", on_progress=lambda *report: None)
        with client.listen(tasks=[task.task_id]) as events:
            # The stream is open before the handler has a word to say.
            state = events.get(LIMIT).params["status"]
            assert state == "working"
            go_on.set()
            while state != "completed":
                state = events.get(LIMIT).params["status"]
        assert task.status()["statusMessage"] == "half", "progress is its status message"
    received = [each.message for each in trace if each.direction == "receive" and each.message]
    heard = {each["method"] for each in received if "method" in each}
    assert heard == {"notifications/subscriptions/acknowledged", "notifications/tasks"}


def test_a_task_in_answer_to_another_method_is_an_invalid_response() -> None:
    server = make_server()
    task: Any = {"resultType": "task", "taskId": "x", "status": "working", "ttlMs": None}
    task |= {"createdAt": "", "lastUpdatedAt": ""}
    server.handlers["stateless"] = {**server.handlers["stateless"], "tools/list": lambda ctx, params: task}
    with connected(server, revision=EXTENSION) as client, pytest.raises(RemoteProtocolError):
        client.list_tools()


def test_a_quick_call_never_becomes_a_task_and_a_slow_one_does() -> None:
    server = Server("jobs")
    go_on = threading.Event()

    @server.tool(task=TaskRule("required", after=0.1))
    def job(slow: bool) -> str:
        if slow:
            go_on.wait(LIMIT)
        return "done"

    with connected(server, revision=EXTENSION) as client:
        assert client.call_tool_as_task("job", {"slow": False}).task_id is None
        task = client.call_tool_as_task("job", {"slow": True})
        go_on.set()
        assert task.task_id is not None and said(task.result(LIMIT)) == "done"


def test_a_question_that_the_client_cannot_answer_is_the_error_of_the_task() -> None:
    with connected(revision=EXTENSION, elicit=None) as client:
        task = client.call_tool_as_task("ask_two")
        with pytest.raises(ErrorResponse) as caught:
            task.result(LIMIT)
        assert caught.value.code == -32021 and task.status()["status"] == "failed"


def test_over_http_the_id_of_a_task_is_mirrored_and_compared() -> None:
    server = make_server()
    with on_http(server) as url, Client(url, revision=EXTENSION, tasks=True) as client:
        task = client.call_tool_as_task("steps")
        assert task.task_id is not None
        assert post(url, "tasks/get", {"taskId": task.task_id}, DECLARED)[0] == 200
        status, answer = post(url, "tasks/get", {"taskId": task.task_id}, DECLARED, **{"mcp-name": "other"})
        assert (status, answer["error"]["code"]) == (400, -32020)


def test_a_client_that_hangs_up_before_the_answer_leaves_no_task() -> None:
    server, began, go_on = Server("jobs", tasks=(tasks := Tasks())), threading.Event(), threading.Event()
    ended = threading.Event()

    @server.tool(task=TaskRule("required", after=None))
    def job(ctx: Context) -> None:
        began.set()
        go_on.wait(LIMIT)
        ctx.become_task()
        until(lambda: ctx.cancelled)
        ended.set()

    with on_http(server) as url:
        call = modern.asked("tools/call", {"name": "job"}, meta=modern.envelope(**DECLARED))
        with raw.Wire(address_of(url)) as wire:
            wire.send(modern.post(call))
            assert began.wait(LIMIT)
        go_on.set()
        assert ended.wait(LIMIT)
    assert all("cancelled" in record["outcome"] for record in tasks.store._records.values())  # type: ignore[attr-defined]


def test_an_extension_of_ones_own_has_methods_kinds_and_declarations() -> None:
    row = Method("example/double", "client", "com.example/double", "twice a number", DoubleParams, DoubleResult,
                 since="2026-07-28", extension="com.example/double")  # fmt: skip
    ours = Extension("com.example/double", {"most": 10}, rows=[row], result_types={"tools/call": {"later": None}})
    served_ours = ours._replace(answers={"example/double": lambda ctx, params: {"value": 2 * params["value"]}})
    server = Server("doubles", extensions=[served_ours])
    server.tool("plain")(lambda: {"content": [], "resultType": "later"})
    with Client(server, revision=EXTENSION, extensions=[ours]) as client:
        assert client.request("example/double", {"value": 4})["value"] == 8
        assert client.request("tools/call", {"name": "plain"})["resultType"] == "later"
        problem = refused(client, "example/double", {"value": "four"})
        assert problem.code == -32602 and problem.data == {"path": "params.value"}
    with Client(server, revision=EXTENSION) as client:
        assert refused(client, "example/double", {"value": 4}).code == -32021
    with pytest.raises(ValueError, match=r"answers= of \['com.example/double'\] to the server"):
        Client(server, extensions=[served_ours])
    with Client(Server("other"), revision=EXTENSION, extensions=[ours]) as client, pytest.raises(LocalProtocolError):
        client.request("example/double", {"value": 4})
    with Client(server, revision=CORE, extensions=[ours]) as client:
        assert refused(client, "example/double", {"value": 4}).code == -32601


class DoubleParams(TypedDict):
    value: int


class DoubleResult(TypedDict):
    value: int


# -- tasks that the client hosts -----------------------------------------------------------------------------------


def asking_server() -> Server:
    server = Server("asks")

    @server.tool()
    def ask_model(ctx: Context) -> str:
        task = ctx.sample_as_task("Say hello", max_tokens=10, ttl=60)
        states = [state["status"] for state in task]
        return f"{states[0]}, {states[-1]}, {task.result(LIMIT)['content']['text']}"

    @server.tool()
    def ask_user(ctx: Context, cancel: bool = False) -> str:
        task = ctx.elicit_as_task("Name?", {"name": {"type": "string"}})
        if cancel:
            task.cancel()
        return str(task.result(LIMIT)["content"]["name"])

    return server


def sample(params: Any) -> Any:
    return reply("hello", model="parrot")


@over_http_too
def test_a_client_makes_tasks_of_the_questions_of_a_server(transport: str) -> None:
    trace: list[Any] = []
    with connected(asking_server(), transport, sample=sample, trace=trace.append) as client:
        augmented = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
        assert client.capabilities["tasks"] == {"list": {}, "cancel": {}, "requests": augmented}
        assert said(client.call_tool("ask_model")) == "working, completed, hello"
        assert said(client.call_tool("ask_user")) == "Ann"
    asked = [each.message["method"] for each in trace if each.message and "taskId" in each.message.get("params", {})]
    assert {"tasks/get", "tasks/result"} <= set(asked)


def test_a_server_is_told_of_the_progress_of_a_task_of_its_client() -> None:
    server, told, go_on = Server("asks"), list[Any](), threading.Event()

    def slow(params: Any, ctx: Any) -> Any:
        go_on.wait(60)
        ctx.progress(1, 1, "nearly")
        return sample(params)

    @server.tool()
    def ask_model(ctx: Context) -> str:
        task = ctx.sample_as_task("Say hello", max_tokens=10, on_progress=lambda *report: told.append(report))
        go_on.set()
        return str(task.result(60)["content"]["text"])

    with connected(server, sample=slow) as client:
        assert said(client.call_tool("ask_model")) == "hello"
    assert told == [(1, 1, "nearly")]


def test_a_task_of_the_client_can_be_cancelled_and_fails_with_what_the_function_raises() -> None:
    over = threading.Event()

    def slow(message: str, schema: Any) -> Any:
        over.wait(LIMIT)
        return {"name": "late"}

    with connected(asking_server(), elicit=slow) as client:
        assert "cancelled" in said(client.call_tool("ask_user", {"cancel": True}))
        over.set()

    def fails(params: Any) -> Any:
        raise InvalidParams("no", {"why": "so"})

    with connected(asking_server(), sample=fails) as client:
        assert "no (-32602)" in said(client.call_tool("ask_model"))


@pytest.mark.parametrize(("revision", "tasks"), [(CORE, False), (EXTENSION, True), ("2025-06-18", True)])
def test_a_client_without_tasks_is_asked_for_none(revision: str, tasks: bool) -> None:
    with connected(asking_server(), revision=revision, tasks=tasks, sample=sample) as client:
        assert "tasks" not in client.capabilities
        assert "did not declare tasks.requests" in said(client.call_tool("ask_model"))


def test_a_client_hosts_so_many_tasks_of_a_server_and_so_many_bytes(monkeypatch: Any) -> None:
    monkeypatch.setattr(hosting, "MAX_HOSTED", 3)
    monkeypatch.setattr(hosting, "MAX_KEPT", 100_000)
    over, server, said = threading.Event(), Server("hostile"), list[str]()

    def slow(params: Any) -> Any:
        over.wait(LIMIT)
        return sample(params)

    @server.tool()
    def ask(ctx: Context) -> str:
        def try_it(text: str) -> None:
            try:
                ctx.sample_as_task(text, max_tokens=10)
                said.append("made")
            except ErrorResponse as refusal:
                said.append(f"{refusal.code} {refusal.data}")

        try_it("x" * 100_000)
        for _ in range(4):
            try_it("x")
        return "done"

    with connected(server, sample=slow) as client:
        client.call_tool("ask")
        over.set()
    assert said == ["-32603 {'limit': 100000}", "made", "made", "made", "-32603 {'limit': 3}"]
