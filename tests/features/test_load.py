"""Many calls at once, and big messages, by every way."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

from mcp_ref import Context, Server, text
from mcp_ref.client.sampling import reply
from tests.features.conftest import Connect
from tests.wire import PATIENCE, Background

BIG = "0123456789abcdé\n" * (2**17)
"""Two million characters, one in sixteen of which is not ASCII."""


def test_sixteen_threads_call_at_once_and_each_gets_its_own_answer(connect: Connect) -> None:
    server, together = Server("s"), threading.Barrier(16, timeout=PATIENCE)

    @server.tool()
    def echo(number: int, ctx: Context) -> str:
        if number % 10 == 0:
            # All sixteen are in their handlers at the same time.
            together.wait()
        ctx.progress(number)
        return str(number)

    client = connect(server)

    def calls(first: int) -> list[Any]:
        found = []
        for number in range(first, first + 10):
            reports: list[float] = []
            result = client.call_tool(
                "echo", {"number": number}, on_progress=lambda at, *rest, reports=reports: reports.append(at)
            )
            found.append((result["content"], reports))
        return found

    threads = [Background(calls, 10 * thread) for thread in range(16)]
    for thread, call in enumerate(threads):
        assert call.outcome() == [([text(str(n))], [n]) for n in range(10 * thread, 10 * thread + 10)]


def test_sixteen_handlers_ask_at_once_and_each_gets_its_own_answer(connect: Connect) -> None:
    server = Server("s")
    asking, answering = threading.Barrier(16, timeout=PATIENCE), threading.Barrier(16, timeout=PATIENCE)

    @server.tool()
    def ask(number: int, ctx: Context) -> str:
        asking.wait()
        return str(ctx.sample(str(number), max_tokens=1)["model"])

    def sample(params: Any) -> Any:
        answering.wait()
        return reply("", model=params["messages"][0]["content"]["text"])

    client = connect(server, sample=sample)
    calls = [Background(client.call_tool, "ask", {"number": number}) for number in range(16)]
    assert [call.outcome()["content"] for call in calls] == [[text(str(number))] for number in range(16)]


def test_a_big_message_goes_both_ways(connect: Connect) -> None:
    server = Server("s")
    server.tool("echo")(lambda what: what)
    result = connect(server).call_tool("echo", {"what": BIG})
    assert result["content"] == [text(BIG)]


def test_a_big_question_is_answered_at_length(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def ask(ctx: Context) -> str:
        return str(ctx.sample(BIG, max_tokens=1)["content"]["text"] == BIG)  # type: ignore[call-overload]

    client = connect(server, sample=lambda params: reply(params["messages"][0]["content"]["text"], model="m"))
    assert client.call_tool("ask")["content"] == [text("True")]


def test_several_clients_of_one_server_are_kept_apart(connect: Connect) -> None:
    server = Server("s")
    heard: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(4)]

    @server.tool()
    def whoami(ctx: Context) -> str:
        ctx.log("info", ctx.client_info["name"])
        return str(ctx.client_info["name"])

    clients = [connect(server, info={"name": f"c{number}"}, on_log=heard[number].put) for number in range(4)]
    for number, client in enumerate(clients):
        assert client.call_tool("whoami")["content"] == [text(f"c{number}")]
    assert [queue.get(timeout=PATIENCE)["data"] for queue in heard] == ["c0", "c1", "c2", "c3"]
    assert all(queue.empty() for queue in heard)
    if not connect.alone:
        assert len(server.sessions) == 4
