"""Tasks: what a caller sees of them, over every transport."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from mcp_ref import (
    Cancel,
    Client,
    Context,
    ErrorResponse,
    HttpRequest,
    LocalProtocolError,
    Rate,
    RequestCancelled,
    RequestTimeout,
    Server,
    TaskCancelled,
    TaskRule,
    Tasks,
    Url,
)
from tests.features.task_server import elicit, make_server

CORE = "2025-11-25"
LIMIT = 5.0


@contextmanager
def served(transport: str, server: Server) -> Iterator[Any]:
    """What a client is given as its target."""
    with closing(server):
        if transport == "memory":
            yield server
        elif transport == "http":
            with server.serve_http() as http:
                yield http.url
        else:
            yield [sys.executable, "-m", "tests.features.task_server"]


@contextmanager
def connected(
    server: Server | None = None, transport: str = "memory", revision: str = CORE, **options: Any
) -> Iterator[Client]:
    options = {"tasks": True, "elicit": elicit, "roots": ["/"], **options}
    with served(transport, server or make_server()) as target, Client(target, revision=revision, **options) as client:
        yield client


def refused(client: Client, method: str, params: Any) -> ErrorResponse:
    with pytest.raises(ErrorResponse) as caught:
        client.request(method, params)
    return caught.value


def wait_until(handle: Any, status: str) -> None:
    for state in handle:
        if state["status"] == status:
            return
    raise AssertionError(f"never {status}")


# -- the same handler everywhere ----------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["memory", "http", "stdio"])
def test_a_tool_that_asks_before_and_after_it_is_a_task_gives_one_result(transport: str) -> None:
    with connected(transport=transport) as client:
        assert client.call_tool("book", {"city": "Oslo"})["content"][0]["text"] == "Oslo: Ann, 12A, soup"
        task = client.call_tool_as_task("book", {"city": "Oslo"})
        assert task.result(LIMIT)["content"][0]["text"] == "Oslo: Ann, 12A, soup"
        assert task.status()["status"] == "completed"


def test_a_client_that_follows_no_tasks_gets_results() -> None:
    with connected(tasks=False) as client:
        assert client.call_tool("book", {"city": "Oslo"})["content"][0]["text"] == "Oslo: Ann, 12A, soup"
        with pytest.raises(LocalProtocolError):
            client.call_tool_as_task("book", {"city": "Oslo"})


def test_call_tool_calls_a_required_tool_as_a_task() -> None:
    server = make_server()
    server.released.set()  # type: ignore[attr-defined]
    with connected(server) as client:
        assert client.call_tool("wait")["content"][0]["text"] == "released"


def test_several_questions_of_a_task_are_open_at_once() -> None:
    with connected() as client:
        task = client.call_tool_as_task("ask_two")
        assert task.result(LIMIT)["content"][0]["text"] == "Ann, 1 folders"


def test_an_iteration_ends_with_the_end_and_answers_questions() -> None:
    with connected(make_server(Tasks(poll=0.05))) as client:
        states = list(client.call_tool_as_task("book", {"city": "Rome"}))
        assert states[0]["status"] == "working" and states[-1]["status"] == "completed"


def test_questions_can_be_answered_by_hand() -> None:
    with connected(make_server(Tasks(poll=0.05))) as client:
        task = client.call_tool_as_task("ask_two", by_hand=True)
        wait_until(task, "input_required")
        for state in task:
            for key, question in task.questions.items():
                form = question["method"] == "elicitation/create"
                task.answer(key, {"action": "accept", "content": {"name": "Zed"}} if form else {"roots": []})
            if state["status"] == "completed":
                break
        assert task.result(LIMIT)["content"][0]["text"] == "Zed, 0 folders"


def test_another_client_goes_on_with_a_task_by_its_id() -> None:
    server = make_server()
    with connected(server) as one, Client(server, revision=CORE, tasks=True, elicit=elicit) as other:
        task_id = one.call_tool_as_task("book", {"city": "Oslo"}).task_id
        assert other.task(task_id).result(LIMIT)["content"][0]["text"] == "Oslo: Ann, 12A, soup"
        assert [each["taskId"] for each in other.list_tasks()] == [task_id]


# -- what is on the wire -------------------------------------------------------------------------------------------


def test_messages_of_a_task_name_it() -> None:
    metas: list[Any] = []

    def ask(message: str, schema: Any, ctx: Any) -> Any:
        metas.append(ctx.meta)
        return elicit(message, schema)

    trace: list[Any] = []
    with connected(elicit=ask, trace=trace.append) as client:
        task = client.call_tool_as_task("book", {"city": "Oslo"})
        result = task.result(LIMIT)
    named = {"io.modelcontextprotocol/related-task": {"taskId": task.task_id}}
    assert metas == [named] * 3 and result["_meta"] == named
    answers = [event.message for event in trace if "content" in event.message.get("result", {})]
    assert sum(message["result"].get("_meta") == named for message in answers) == 4


def test_a_task_begins_as_working_and_says_how_long_it_lives() -> None:
    with connected() as client:
        params = {"name": "book", "arguments": {"city": "Oslo"}, "task": {"ttl": 60_000}}
        created = client.request("tools/call", params)["task"]
        assert created["status"] == "working" and created["ttl"] == 60_000 and created["pollInterval"] == 1_000
        assert len(created["taskId"]) == 32 and created["createdAt"].endswith("Z")


def test_results_and_errors_are_those_of_the_call() -> None:
    with connected() as client:
        failed = client.call_tool_as_task("fail", {"how": "tool"})
        assert failed.result(LIMIT)["isError"] is True
        assert (failed.status()["status"], failed.status()["statusMessage"]) == ("failed", "it broke")
        refused_call = client.call_tool_as_task("fail", {"how": "protocol"})
        with pytest.raises(ErrorResponse) as caught:
            refused_call.result(LIMIT)
        assert (caught.value.code, caught.value.data) == (-32602, {"why": "so"})
        assert refused_call.status()["status"] == "failed"
        wrong = client.call_tool_as_task("book", {"city": 7})
        assert wrong.result(LIMIT)["isError"] is True


def test_progress_goes_on_after_the_answer_with_the_token_of_the_call() -> None:
    trace: list[Any] = []
    with connected(trace=trace.append) as client:
        task = client.call_tool_as_task("steps", on_progress=lambda *report: None)
        task.result(LIMIT)
    sent = [each.message for each in trace if each.message.get("method") == "notifications/progress"]
    token = next(each.message["params"]["_meta"]["progressToken"] for each in trace
                 if each.message.get("method") == "tools/call")  # fmt: skip
    assert {message["params"]["progressToken"] for message in sent} == {token}
    assert all("io.modelcontextprotocol/related-task" in message["params"]["_meta"] for message in sent)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_earlier_revisions_see_nothing_of_tasks(revision: str) -> None:
    with connected(revision=revision, elicit=None) as client:
        assert "tasks" not in client.server_capabilities
        assert not any("execution" in tool for tool in client.list_tools())
        assert client.call_tool("plain")["content"][0]["text"] == "plain"
        assert client.call_tool("steps")["content"][0]["text"] == "task: False"
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


@pytest.mark.parametrize("ttl", [True, 1.5, "60", 0, -1])
def test_a_lifetime_that_is_none_is_refused_with_its_path(ttl: Any) -> None:
    with connected() as client:
        problem = refused(client, "tools/call", {"name": "steps", "task": {"ttl": ttl}})
        assert problem.code == -32602 and problem.data == {"path": "params.task.ttl"}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_an_unknown_task_is_refused(method: str) -> None:
    with connected() as client:
        assert refused(client, method, {"taskId": "nonsense"}).code == -32602
        assert refused(client, method, {"taskId": 7}).data == {"path": "params.taskId"}


@pytest.mark.parametrize("cursor", ["", "nonsense", "W10=", "WzEsIDJd "])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with connected() as client:
        assert refused(client, "tasks/list", {"cursor": cursor}).code == -32602


def test_tasks_are_listed_page_by_page() -> None:
    with connected(make_server(page_size=2)) as client:
        made = [client.call_tool_as_task("steps").task_id for _ in range(5)]
        assert [each["taskId"] for each in client.list_tasks()] == made


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
        tasks._sweep(now[0])
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
        assert refused(client, "tasks/cancel", {"taskId": task.task_id}).code == -32602
        task.cancel()


def test_a_time_limit_of_call_tool_cancels_its_task_and_that_of_a_handle_does_not() -> None:
    with connected() as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("wait", timeout=0.1)
        task = client.call_tool_as_task("wait")
        with pytest.raises(RequestTimeout):
            task.result(0.05)
        give_up = Cancel()
        threading.Timer(0.05, give_up).start()
        with pytest.raises(RequestCancelled):
            client.call_tool("wait", cancel=give_up)
        assert task.status()["status"] == "working"
        assert sorted(each["status"] for each in client.list_tasks()) == ["cancelled", "cancelled", "working"]


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
        waiting = threading.Thread(target=lambda: pytest.raises(TaskCancelled, task.result, LIMIT))
        waiting.start()
        assert asked.wait(LIMIT)
        task.cancel()
        assert ended.wait(LIMIT)
        waiting.join(LIMIT)
        assert task.status()["status"] == "cancelled"


def test_a_server_that_closes_ends_its_tasks() -> None:
    server = make_server()
    with connected(server) as client:
        task = client.call_tool_as_task("wait")
        server.tasks.close()  # type: ignore[union-attr]
        state = task.status()
        assert state["status"] == "failed" and "shut down" in state["statusMessage"]


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
        results: list[Any] = []
        waiting = threading.Thread(target=lambda: results.append(task.result(LIMIT)))
        waiting.start()
        assert first_asked.wait(LIMIT)
        assert other.task(task.task_id).result(LIMIT)["content"][0]["text"] == "Oslo: Ann, 12A, soup"
        release.set()
        waiting.join(LIMIT)
        assert results[0]["content"][0]["text"] == "Oslo: Ann, 12A, soup"
        assert answered == ["Name?", "Seat?", "Meal?"]


# -- whose it is ---------------------------------------------------------------------------------------------------


def test_a_task_belongs_to_who_is_authenticated() -> None:
    server = make_server()

    def who(request: HttpRequest) -> str:
        return request.headers["x-user"]

    with closing(server), server.serve_http(authenticate=who) as http:
        clients = [
            Client(Url(http.url, headers={"X-User": user}), revision=CORE, tasks=True, elicit=elicit)
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
            assert ann_again.task(task.task_id).result(LIMIT)["content"][0]["text"] == "Oslo: Ann, 12A, soup"


def test_without_authentication_tasks_are_not_listed_and_ids_are_enough() -> None:
    server = make_server()
    with closing(server), server.serve_http() as http:
        with Client(http.url, revision=CORE, tasks=True, elicit=elicit) as one:
            assert "list" not in one.server_capabilities["tasks"]
            task_id = one.call_tool_as_task("book", {"city": "Oslo"}).task_id
        with Client(http.url, revision=CORE, tasks=True, elicit=elicit) as other:
            assert other.task(task_id).result(LIMIT)["content"][0]["text"] == "Oslo: Ann, 12A, soup"
            with pytest.raises(LocalProtocolError):
                other.list_tasks()


# -- rules ---------------------------------------------------------------------------------------------------------


def test_a_rule_that_is_none_is_refused_when_the_tool_is_registered() -> None:
    server = Server("jobs")
    with pytest.raises(ValueError, match="forbidden"):
        server.tool(task="always")(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ttl"):
        server.tool("x", task=TaskRule(ttl=0))(lambda: None)
    with pytest.raises(ValueError, match="most"):
        Tasks(most=0)


def test_a_server_without_tasks_has_no_thread_and_no_method_of_them() -> None:
    server = Server("plain")
    server.tool("plain")(lambda: "plain")
    assert server.tasks is None and "tasks/get" not in server.answers
    with connected(server) as client:
        assert refused(client, "tools/call", {"name": "plain", "task": True}).code == -32602
        assert client.request("tools/call", {"name": "plain"})["content"][0]["text"] == "plain"


# -- what is told and logged ---------------------------------------------------------------------------------------


def test_changes_are_told_without_related_task() -> None:
    told: list[Any] = []
    ended = threading.Event()

    def on_change(method: str, params: Any) -> None:
        told.append((method, params))
        if params["status"] == "completed":
            ended.set()

    with connected(on_change=on_change) as client:
        client.call_tool_as_task("book", {"city": "Oslo"}).result(LIMIT)
        assert ended.wait(LIMIT)
    assert {method for method, _ in told} == {"notifications/tasks/status"}
    assert all("_meta" not in params for _, params in told)


def test_requests_for_tasks_have_rates() -> None:
    with connected(make_server(rates={"tasks/get": Rate(per_second=0.01, burst=1)})) as client:
        task = client.call_tool_as_task("steps")
        task.status()
        assert refused(client, "tasks/get", {"taskId": task.task_id}).code == 429


def test_the_life_of_a_task_is_logged_without_contents(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mcp_ref.tasks")
    with connected() as client:
        task = client.call_tool_as_task("book", {"city": "Oslo"})
        task.result(LIMIT)
        refused(client, "tasks/get", {"taskId": "nonsense"})
    said = [record.getMessage() for record in caplog.records if record.name == "mcp_ref.tasks"]
    for word in ("created", "answered", "ended", "read", "refused", "the server made"):
        assert any(line.startswith(word) for line in said), word
    assert not any("Oslo" in line or "Ann" in line for line in said)
