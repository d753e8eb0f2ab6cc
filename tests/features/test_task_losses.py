"""Tasks and what is lost: clients that vanish, questions that nobody answers, answers that do not fit, results that no
message can carry."""

from __future__ import annotations

import gc
import json
import threading
from contextlib import closing
from typing import Any

import pytest

from mcp_ref import (
    Cancel,
    Context,
    ErrorResponse,
    InputRefused,
    McpError,
    RequestCancelled,
    RequestTimeout,
    Server,
    Tasks,
    reply,
)
from mcp_ref.pages.basic import tasks as page
from mcp_ref.pages.basic.transports.streamable_http import streams
from tests.features.conftest import address_of, until
from tests.features.task_client import (
    CORE,
    EXTENSION,
    LIMIT,
    NAME,
    client_of,
    connected,
    engine,
    in_both_designs,
    on_http,
    release,
    said,
)  # fmt: skip
from tests.features.task_server import make_server
from tests.pages.basic.transports.streamable_http.raw import Answer, Wire, opened, post
from tests.support.wire import Background


class Raw:
    """A client of 2025-11-25 over HTTP that hangs up when it likes."""

    def __init__(self, url: str) -> None:
        self._address = address_of(url)
        with Wire(self._address) as wire:
            self._session = opened(wire, {"elicitation": {}})

    def send(self, message: Any) -> Wire:
        """Send a message, and read nothing."""
        wire = Wire(self._address)
        wire.send(post(message, mcp_session_id=self._session, mcp_protocol_version=CORE))
        return wire

    def begin(self, method: str, params: Any) -> Wire:
        return self.send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})

    def ask(self, method: str, params: Any) -> Answer:
        with self.begin(method, params) as wire:
            return wire.answer()

    def respond(self, request_id: Any, result: Any) -> None:
        """Answer a question of the server."""
        with self.send({"jsonrpc": "2.0", "id": request_id, "result": result}) as wire:
            assert wire.answer().status == 202

    def call_as_task(self, name: str) -> str:
        return str(self.ask("tools/call", {"name": name, "task": {}}).json["result"]["task"]["taskId"])


def question_on(wire: Wire) -> Any:
    """The question that comes on the stream of an answer."""
    assert wire.head()[1]["content-type"] == "text/event-stream"
    while b"elicitation/create" not in (event := wire.chunk()):
        pass
    return json.loads(event.partition(b"data: ")[2])


# -- clients that vanish --------------------------------------------------------------------------------------------


def test_a_client_that_hangs_up_on_tasks_result_holds_no_thread() -> None:
    server = make_server()
    with on_http(server) as url:
        raw = Raw(url)
        task_id = raw.call_as_task("wait")
        waiting = raw.begin("tasks/result", {"taskId": task_id})
        until(lambda: engine(server).carriers)
        waiting.close()
        until(lambda: not engine(server).carriers)
        assert task_id in engine(server).runs
        release(server)
        assert said(raw.ask("tasks/result", {"taskId": task_id}).json["result"]) == "released"


def test_the_state_of_a_task_is_no_stream() -> None:
    server = make_server()
    with on_http(server) as url:
        raw = Raw(url)
        task_id = raw.call_as_task("wait")
        answer = raw.ask("tasks/get", {"taskId": task_id})
        assert answer.headers["content-type"] == "application/json"
        assert answer.json["result"]["status"] == "working"


def test_the_stream_of_tasks_result_ends_with_the_result() -> None:
    server = make_server()
    with on_http(server) as url, client_of(url):
        raw = Raw(url)
        task_id = raw.call_as_task("ask_one")
        with raw.begin("tasks/result", {"taskId": task_id}) as waiting:
            raw.respond(question_on(waiting)["id"], {"action": "accept", "content": {"name": "Ann"}})
            # Read to its end: it has one, though the session goes on.
            rest = [json.loads(event.partition(b"data: ")[2]) for event in iter(waiting.chunk, b"")]
        assert [said(message["result"]) for message in rest] == ["asked Ann"]


def test_a_client_that_hangs_up_on_a_question_leaves_it_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RESUME_TIMEOUT", 0.0)
    server = make_server()
    with on_http(server) as url:
        raw = Raw(url)
        task_id = raw.call_as_task("ask_one")
        with raw.begin("tasks/result", {"taskId": task_id}) as waiting:
            question_on(waiting)
        until(lambda: not engine(server).carriers)
        with client_of(url) as client:
            assert said(client.task(task_id).result(LIMIT)) == "asked Ann"


def test_a_client_that_can_resume_its_stream_is_waited_for() -> None:
    server = make_server()
    with on_http(server) as url:
        raw = Raw(url)
        with raw.begin("tasks/result", {"taskId": raw.call_as_task("ask_one")}) as waiting:
            question_on(waiting)
        ((carrier,),) = engine(server).carriers.values()
        carrier.look(None)
        assert not carrier.ctx.incoming.cancelled  # type: ignore[attr-defined]


def test_a_client_that_closes_while_it_is_asked_leaves_the_question_to_the_next() -> None:
    server, asked, over = make_server(), threading.Event(), threading.Event()

    def slow(message: str, schema: Any) -> Any:
        asked.set()
        over.wait(LIMIT)
        return {"name": "late"}

    with connected(server) as other:
        one = client_of(server, elicit=slow).connect()
        task = one.call_tool_as_task("ask_one")
        waiting = Background(task.result, LIMIT)
        assert asked.wait(LIMIT)
        one.close(0.2)
        assert said(other.task(task.task_id or "").result(LIMIT)) == "asked Ann"
        over.set()
        assert isinstance(waiting.outcome(), McpError)
        assert not engine(server).carriers


def test_the_error_of_a_task_is_told_though_the_task_is_forgotten_just_then(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected() as client:
        task, forgotten = client.call_tool_as_task("fail", {"how": "protocol"}), ErrorResponse(-32602, "Unknown task")
        monkeypatch.setattr(task, "status", lambda **options: (_ for _ in ()).throw(forgotten))
        with pytest.raises(ErrorResponse, match="it is refused"):
            task.result(LIMIT)


def test_a_handle_that_nobody_has_is_forgotten() -> None:
    with connected() as client:
        handle = client.call_tool_as_task("ask_one", by_hand=True)
        assert client.follower is not None and list(client.follower.by_hand) == [handle.task_id]
        del handle
        gc.collect()
        assert not list(client.follower.by_hand)


# -- questions that nobody answers ----------------------------------------------------------------------------------


@in_both_designs
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_question_that_is_given_up_is_taken_back(revision: str, how: str) -> None:
    server, go_on, give_up = Server("jobs"), threading.Event(), Cancel()

    @server.tool(task="required")
    def ask(ctx: Context) -> str:
        limits: Any = {"timeout": 0.05} if how == "timeout" else {"cancel": give_up}
        with pytest.raises(RequestTimeout if how == "timeout" else RequestCancelled):
            ctx.elicit("Name?", NAME, **limits)
        go_on.wait(LIMIT)
        return "alone"

    with connected(server, revision=revision) as client:
        task = client.call_tool_as_task("ask", by_hand=True)
        if how == "cancel":
            until(lambda: task.status()["status"] == "input_required")
            give_up()
        until(lambda: engine(server).store.get(task.task_id or "")["keys"] == 1)  # type: ignore[index]
        until(lambda: task.status()["status"] == "working")
        go_on.set()
        assert said(task.result(LIMIT)) == "alone"


def test_a_question_that_is_taken_back_ends_at_the_client_too() -> None:
    server, give_up, taken_back = Server("jobs"), Cancel(), threading.Event()

    @server.tool(task="required")
    def ask(ctx: Context) -> str:
        with pytest.raises(RequestCancelled):
            ctx.elicit("Name?", NAME, cancel=give_up)
        return "alone"

    def slow(message: str, schema: Any, ctx: Any) -> Any:
        ctx.on_cancel(lambda reason: taken_back.set())
        give_up()
        assert taken_back.wait(LIMIT)
        return {"name": "late"}

    with connected(server, elicit=slow) as client:
        assert said(client.call_tool_as_task("ask").result(LIMIT)) == "alone"
        assert taken_back.is_set()


def test_several_questions_end_with_the_task_and_what_one_raises_is_raised() -> None:
    server, ended = Server("jobs"), threading.Event()

    @server.tool(task="required")
    def ask(timeout: float, ctx: Context) -> None:
        try:
            ctx.ask_all(lambda: "no question", *[lambda: ctx.elicit("Name?", NAME, timeout=timeout)] * 2)
        finally:
            ended.set()

    with connected(server, revision=EXTENSION) as client:
        first = client.call_tool_as_task("ask", {"timeout": 100}, by_hand=True)
        until(lambda: len(first.status().get("inputRequests", ())) == 2)
        first.cancel()
        assert ended.wait(LIMIT)
        second = client.call_tool_as_task("ask", {"timeout": 0.05}, by_hand=True)
        assert second.result(LIMIT)["isError"] is True


def test_an_answer_that_does_not_fit_is_an_error_for_the_handler_and_ends_no_wait() -> None:
    with connected() as client:
        client.answers = lambda ctx, incoming: {"action": "perhaps"}  # type: ignore[assignment]
        result = client.call_tool_as_task("ask_one").result(LIMIT)
        assert result["isError"] is True and "malformed" in said(result)


# -- results that no message can carry ------------------------------------------------------------------------------


@in_both_designs
def test_a_result_above_the_limit_of_a_message_is_an_error(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_RESULT", 1_000)
    server = Server("jobs")
    server.tool("large", task="required")(lambda: "x" * 1_000)
    with connected(server, revision=revision) as client:
        task = client.call_tool_as_task("large")
        with pytest.raises(ErrorResponse, match="too large") as caught:
            task.result(LIMIT)
        assert (caught.value.code, caught.value.data) == (-32603, {"limit": 1_000})
        assert task.status()["status"] == "failed"


def test_an_answer_of_a_client_that_the_server_does_not_take_is_an_error() -> None:
    server = Server("asks")

    @server.tool()
    def ask(as_task: bool, ctx: Context) -> str:
        if as_task:
            return str(ctx.sample_as_task("Hi", max_tokens=5).result(LIMIT))
        return str(ctx.sample("Hi", max_tokens=5))

    def sample(params: Any) -> Any:
        return reply("x" * 300_000, model="m")

    with on_http(server, max_message=200_000) as url, client_of(url, sample=sample) as client:
        for as_task in (False, True):
            result = client.call_tool("ask", {"as_task": as_task})
            assert result["isError"] and "too large" in said(result)


def test_a_question_that_its_function_fails_to_answer_is_asked_again_by_who_waits_next() -> None:
    tasks, asked = Tasks(poll=0.05), list[str]()

    def fails_first(message: str, schema: Any) -> Any:
        asked.append(message)
        if len(asked) % 2:
            raise RuntimeError("no answer")
        return {"name": "Ann"}

    with closing(make_server(tasks)) as server, client_of(server, EXTENSION, elicit=fails_first) as client:
        task = client.call_tool_as_task("ask_one")
        with pytest.raises(InputRefused):
            task.result(LIMIT)
        assert said(task.result(LIMIT)) == "asked Ann" and len(asked) == 2
        # A plain call is over then, and so is its task.
        with pytest.raises(InputRefused):
            client.call_tool("ask_one")
        until(lambda: not tasks.runs)
