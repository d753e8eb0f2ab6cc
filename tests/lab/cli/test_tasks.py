"""The command line with tasks: `call --task`, `task get`, `task result`, `task cancel`, `task list`."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from mcp_ref import HttpRequest
from mcp_ref.lab.cli import main
from tests.features.task_server import make_server
from tests.lab.conftest import At

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_call_as_a_task_tells_its_states_and_prints_its_result(capsys: Capture, at: At, revision: str) -> None:
    words = at(make_server())
    assert main(["call", "ask_one", "--task", "--revision", revision, "--answer", "name=Ann", *words]) == 0
    out, err = capsys.readouterr()
    assert out == "asked Ann\n" and err.startswith("task ") and "completed" in err


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_task_is_looked_at_given_up_and_listed(capsys: Capture, revision: str) -> None:
    server = make_server()

    def who(request: HttpRequest) -> str:
        return "ann"

    with closing(server), server.serve_http(authenticate=who) as http:
        from mcp_ref import Client

        def run(*words: str) -> str:
            assert main(["task", *words, "--revision", revision, "--", http.url]) == 0
            return capsys.readouterr().out

        with Client(http.url, revision=revision, tasks=True) as client:
            done, waits = client.call_tool_as_task("must"), client.call_tool_as_task("wait")
        # An id that begins with "-" would be taken for an option.
        assert f"{done.task_id}{waits.task_id}".isalnum()
        assert run("result", done.task_id or "") == "done\n"
        assert json.loads(run("get", waits.task_id or ""))["status"] == "working"
        assert json.loads(run("cancel", waits.task_id or ""))["status"] == "cancelled"
        if revision == "2025-11-25":
            assert [line.split()[1] for line in run("list").splitlines()] == ["completed", "cancelled"]
        assert main(["task", "get", "nonsense", "--revision", revision, "--", http.url]) == 3
        assert main(["task", "get", "--revision", revision, "--", http.url]) == 2
