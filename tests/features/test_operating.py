"""Tests of what whoever runs a server does with it: drain it, ask whether it is well, read its log."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from mcp_ref import Client, Context, HttpRefusal, HttpRequest, Server, text
from mcp_ref.errors import McpError
from mcp_ref.pages.basic.transports.streamable_http.client import HttpClientTransport
from mcp_ref.server.http import HttpService
from tests.pages.basic.transports.streamable_http.raw import until
from tests.support.machine import free_port
from tests.support.wire import PATIENCE, Background

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import sys
from mcp_ref import Context, Server
server = Server("s")

@server.tool()
def ask(ctx: Context) -> str:
    print("running", flush=True)
    return ctx.elicit("Go on?", {"type": "object", "properties": {}})["action"]

server.run("http", port=int(sys.argv[1]), drain=float(sys.argv[2]) or None, health="/health")
"""


class Slow:
    """A tool that runs until it may leave."""

    def __init__(self) -> None:
        self.server, self.running, self.leave = Server("s"), threading.Semaphore(0), threading.Event()
        self.server.tool()(self.slow)
        self.server.tool("hello")(lambda: "hello")

    def slow(self) -> str:
        self.running.release()
        assert self.leave.wait(PATIENCE)
        return "done"


@contextmanager
def served(slow: Slow, **options: Any) -> Iterator[HttpService]:
    with slow.server.serve_http(**options) as service:
        try:
            yield service
        finally:
            slow.leave.set()


# -- draining -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_drain_waits_for_the_calls_that_run_and_lets_no_others_begin(revision: str) -> None:
    slow = Slow()
    with served(slow, health="/health") as service, Client(service.url, revision=revision, timeout=PATIENCE) as client:
        call = Background(client.call_tool, "slow")
        assert slow.running.acquire(timeout=PATIENCE)
        draining = Background(service.drain, PATIENCE)
        health = service.url.replace("/mcp", "/health")
        assert until(lambda: requests.get(health, timeout=PATIENCE).status_code == 503)
        with pytest.raises(McpError, match="shutting down"):
            client.call_tool("hello")
        slow.leave.set()
        assert call.outcome()["content"] == [text("done")]
        assert draining.outcome() is None


def test_a_drain_ends_in_time_and_at_once_if_nothing_runs() -> None:
    slow = Slow()
    with served(slow) as service, Client(service.url, timeout=PATIENCE) as client, client.listen(tools=True):
        began = time.monotonic()
        # A subscription is not waited for.
        service.drain(PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2
    slow = Slow()
    with served(slow) as service, Client(service.url, timeout=PATIENCE) as client:
        call = Background(client.call_tool, "slow")
        assert slow.running.acquire(timeout=PATIENCE)
        service.drain(0.1)
        slow.leave.set()
        assert call.outcome()["content"] == [text("done")]


@pytest.mark.parametrize(("number", "drain"), [(signal.SIGTERM, PATIENCE), (signal.SIGINT, 0)])
def test_a_signal_lets_a_call_end_and_its_question_be_answered(number: int, drain: float, tmp_path: Path) -> None:
    program, port, asked, answered = tmp_path / "server.py", free_port(), threading.Event(), threading.Event()
    program.write_text(PROGRAM)

    def elicit(message: str, schema: Any) -> Any:
        asked.set()
        assert answered.wait(PATIENCE)
        return {"action": "decline"}

    command = [sys.executable, str(program), str(port), str(drain)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True) as process:
        try:
            assert process.stderr is not None and "listening" in process.stderr.readline()
            url = f"http://127.0.0.1:{port}/mcp"
            # The stream of a call is not asked for again, from a server that has ended.
            transport = HttpClientTransport(url, reconnects=0)
            with Client(transport, revision="2025-11-25", elicit=elicit, timeout=PATIENCE) as client:
                call = Background(client.call_tool, "ask")
                assert asked.wait(PATIENCE)
                process.send_signal(number)
                if drain:
                    health = url.replace("/mcp", "/health")
                    assert until(lambda: requests.get(health, timeout=PATIENCE).status_code == 503)
                else:
                    process.wait(PATIENCE)
                answered.set()
                outcome = call.outcome()
                assert (outcome["content"] == [text("decline")]) if drain else isinstance(outcome, McpError)
            assert process.wait(PATIENCE) == 0
        finally:
            answered.set()
            process.kill()


def test_a_drain_over_the_oldest_transport_waits_as_well() -> None:
    slow = Slow()
    with served(slow, sse_path="/sse") as service:
        with Client(str(service.sse_url), revision="2024-11-05", timeout=PATIENCE) as client:
            call = Background(client.call_tool, "slow")
            assert slow.running.acquire(timeout=PATIENCE)
            draining = Background(service.drain, PATIENCE)
            slow.leave.set()
            assert (call.outcome()["content"], draining.outcome()) == ([text("done")], None)


@pytest.mark.parametrize("drain", [-1, 0, "5", True])
def test_a_drain_is_a_number_of_seconds(drain: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="drain must be"):
        Server("s").run("http", port=0, drain=drain)


# -- health -------------------------------------------------------------------------------------------------------


def test_anybody_may_ask_whether_the_server_is_well() -> None:
    def nobody(request: HttpRequest) -> None:
        raise HttpRefusal(401, "who are you?")

    with Server("s").serve_http(health="/health", authenticate=nobody) as service:
        url = service.url.replace("/mcp", "/health")
        answer = requests.get(url, headers={"Host": "10.0.0.7:8000"}, timeout=PATIENCE)
        assert (answer.status_code, answer.content) == (200, b"")
    with Server("s").serve_http() as service:
        assert requests.get(service.url.replace("/mcp", "/health"), timeout=PATIENCE).status_code == 404
    for wrong in ("health", "/mcp", "/a b"):
        with pytest.raises(ValueError, match="health"):
            Server("s").serve_http(health=wrong)


# -- the log ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", ["http", "memory"])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_each_request_is_one_line_of_the_log(over: str, revision: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool()
    def hello(ctx: Context, name: str) -> str:
        return f"hello {name}"

    with caplog.at_level(logging.INFO, "mcp_ref.wire.served"), server.serve_http() as service:
        with Client(service.url if over == "http" else server, revision=revision, timeout=PATIENCE) as client:
            client.call_tool("hello", {"name": "a secret"})
            with pytest.raises(McpError):
                client.call_tool("forged\nline", {})
            client.list_tools()
    lines = [record.getMessage() for record in caplog.records if record.name == "mcp_ref.wire.served"]
    assert lines[-3].startswith("answered in 0.") and lines[-3].endswith(" s: tools/call 'hello'")
    assert lines[-2].startswith("refused (-32602: ") and lines[-2].endswith(r"tools/call 'forged\nline'")
    assert lines[-1].endswith(" s: tools/list")
    assert "a secret" not in "".join(lines) and not any("\n" in line for line in lines)


def test_each_refusal_of_http_is_one_line_and_who_asks_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def authenticate(request: HttpRequest) -> str:
        if "authorization" not in request.headers:
            raise HttpRefusal(401, "who are you?")
        return "ada"

    server = Server("s")
    server.tool("hello")(lambda: "hello")
    with caplog.at_level(logging.INFO, "mcp_ref"), server.serve_http(authenticate=authenticate) as service:
        headers = {"Content-Type": "application/json", "Accept": "*/*"}
        requests.post(service.url, data="{", headers=headers, timeout=PATIENCE)
        headers["Authorization"] = "x"
        requests.post(service.url, data="{", headers=headers, timeout=PATIENCE)
        requests.post(service.url, data='{"jsonrpc": "2.0", "id": []}', headers=headers, timeout=PATIENCE)
        ping = '{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}'
        requests.post(service.url, data=ping, headers=headers, timeout=PATIENCE)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "refused POST '/mcp' of 127.0.0.1: 401 'who are you?'"
    assert lines[1].startswith("refused POST '/mcp' of 127.0.0.1: 400 'Parse error")
    assert lines[2].startswith("refused POST '/mcp' of 127.0.0.1: 400 ") and len(lines) == 4
    assert lines[3].startswith("refused (-32602: ") and " of 'ada' in 0." in lines[3]
