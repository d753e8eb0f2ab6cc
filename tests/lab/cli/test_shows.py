"""Tests of what the command line shows of a server, at a terminal and elsewhere; and that it never ends in a
traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_ref import Client
from mcp_ref.lab.cli import main
from mcp_ref.lab.cli.table import parser as the_parser

ROOT = Path(__file__).parent.parent.parent.parent
DEMO = ["--", sys.executable, "-m", "mcp_ref.lab.cli.demo"]
Capture = pytest.CaptureFixture[str]
BOTH = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])

SERVER = """
import time
from typing import Annotated, Literal
from mcp_ref import Context, Server

server = Server("show", "2.0", instructions="Ask politely. " * 20)
time.sleep({sleep})

Where = Annotated[str, "where to " + "go " * 60]

@server.tool()
def plan(city: Where, days: int = 3, by: Literal["train", "bus"] | None = None) -> str:
    '''Plan a trip.

    In its second paragraph it says more.
    '''
    return "\\u00e9\\u4e2d"

@server.tool()
def steps(ctx: Context) -> str:
    for step in range(1, 4):
        ctx.progress(step, 3, "step \\x1b[2J")
    return "done"

server.run()
"""


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    path = tmp_path / "show.py"
    path.write_text(SERVER.replace("{sleep}", "0"), "utf-8")
    return [sys.executable, str(path)]


def cli(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'unhurried'}"
    env = {**os.environ, "PYTHONPATH": path, "COLUMNS": "60", **options.pop("env", {})}  # type: ignore[dict-item]
    command = [sys.executable, "-m", "mcp_ref", *arguments]
    return subprocess.run(command, env=env, text=True, timeout=90, check=False, **{"capture_output": True, **options})  # type: ignore[call-overload, no-any-return]


def at_a_terminal(*arguments: str, **env: str) -> str:
    """Return what is seen on a terminal that stderr and stdout share."""
    ours, theirs = os.openpty()
    try:
        cli(*arguments, env=env, capture_output=False, stdout=theirs, stderr=theirs)
        return os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)


@BOTH
def test_info_says_who_it_is_and_ping_how_fast(capsys: Capture, server: list[str], revision: str) -> None:
    assert main(["info", "--revision", revision, "--", *server]) == 0
    out = capsys.readouterr().out
    assert out.startswith("show 2.0\nspeaks: " + revision)
    assert "can: logging, tools (listChanged)" in out
    assert "instructions:\n    Ask politely. Ask" in out
    assert main(["ping", "--revision", revision, "--", *server]) == 0
    assert "was answered after" in capsys.readouterr().out


def test_request_sends_any_method_with_any_params(capsys: Capture, server: list[str]) -> None:
    assert main(["request", "tools/call", '{"name": "plan", "arguments": {"city": "Rome"}}', "--", *server]) == 0
    assert json.loads(capsys.readouterr().out)["content"][0]["type"] == "text"
    assert main(["request", "no/such", "--", *server]) == 3
    assert main(["request", "tools/call", "[]", "--", *server]) == 2
    assert main(["request", "tools/call", "{", "--", *server]) == 2


def test_tools_are_shown_with_types_and_descriptions_within_the_width(server: list[str]) -> None:
    lines = cli("tools", "--", *server).stdout.splitlines()
    assert lines[:3] == ["plan", "    Plan a trip.", "    - city: string, required. where to go go go go go go go"]
    assert "    - days: integer, optional, default 3" in lines
    assert '    - by: "train" | "bus" | null, optional, default null' in lines
    assert all(len(line) <= 60 for line in lines)


def test_progress_is_a_bar_at_a_terminal_and_one_line_elsewhere(server: list[str]) -> None:
    seen = at_a_terminal("call", "steps", "--", *server)
    assert "\r[#######.............] 1 of 3 step \\x1b[2J" in seen
    assert seen.count("\n") == 2
    done = cli("call", "steps", "--", *server)
    assert (done.stdout, done.stderr) == ("done\n", "progress: 3 of 3 step \\x1b[2J\n")


def test_errors_and_directions_have_colours_unless_no_color_is_set(server: list[str]) -> None:
    assert "\x1b[31mmcp-ref: " in at_a_terminal("call", "nothing", "--", *server)
    assert "\x1b" not in at_a_terminal("call", "nothing", "--", *server, NO_COLOR="1")
    told = at_a_terminal("ping", "--narrate", "--", *server)
    assert "\x1b[36m" in told and "\x1b[32m" in told


def test_a_server_that_starts_slowly_is_waited_for_with_a_word(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(SERVER.replace("{sleep}", "2"), "utf-8")
    done = cli("call", "steps", "--", sys.executable, str(path), env={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "still waiting" in done.stderr


# -- files of other clients


@pytest.fixture
def config(tmp_path: Path, server: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOW", server[1])
    monkeypatch.setenv("TOKEN", "swordfish")
    servers = {
        "show": {"command": sys.executable, "args": ["${SHOW}"], "env": {"KEY": "${NONE:-text}"}, "type": "stdio"},
        "far": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    }
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return str(path)


def test_a_server_of_a_file_is_asked_by_its_name(capsys: Capture, config: str, server: list[str]) -> None:
    assert main(["call", "steps", "--config", config, "--server", "show"]) == 0
    assert capsys.readouterr().out == "done\n"
    assert main(["tools", "--config", config, "--server", "far"]) == 4
    for arguments, problem in (
        (["--config", config], "--server must be one of: show, far"),
        (["--config", config, "--server", "other"], "--server must be one of: show, far"),
        (["--server", "show"], "--config FILE"),
        (["--config", config, "--server", "show", *DEMO], "names the server and all its options"),
        (["--config", "/no/such/file"], "/no/such/file"),
    ):
        assert main(["tools", *arguments]) == 2
        assert problem in capsys.readouterr().err
    with Client.from_config(config, "show", revision="2025-11-25") as client:
        assert client.server_info["name"] == "show"
    with pytest.raises(ValueError, match="no server 'other'; there are show, far"):
        Client.from_config(config, "other")
    Path(config).write_text('{"mcpServers": {"wrong": {}}}', "utf-8")
    with pytest.raises(ValueError, match="wrong: a server must have either a command or a url"):
        Client.from_config(config, "wrong")
    assert main(["tools", "--config", config]) == 2


# -- traces


def test_a_trace_is_told_from_standard_input_and_as_it_grows(server: list[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    assert cli("ping", "--trace", str(trace), "--", *server).returncode == 0
    told = cli("narrate", str(trace)).stdout
    assert cli("narrate", "-", input=trace.read_text("utf-8")).stdout == told
    first, *rest = trace.read_text("utf-8").splitlines(keepends=True)
    growing = tmp_path / "growing.jsonl"
    growing.write_text(first[:20], "utf-8")
    command = [sys.executable, "-m", "mcp_ref", "narrate", "--follow", str(growing)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as following:
        try:
            with growing.open("a", encoding="utf-8") as more:
                more.write(first[20:] + "".join(rest))
            assert following.stdout is not None
            assert [following.stdout.readline() for _ in range(told.count("\n"))] == told.splitlines(keepends=True)
        finally:
            following.kill()


# -- no traceback


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["spec", "demo"])
def test_a_full_disk_is_an_error_in_one_line(command: str) -> None:
    with open("/dev/full", "w") as full:
        done = cli(command, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["mcp-ref: the output cannot be written: [Errno 28] No space left on device"]


def test_a_command_does_not_fail_because_its_streams_are_closed(server: list[str]) -> None:
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        line = f'"{sys.executable}" -m mcp_ref spec ping {closed}'
        done = subprocess.run(["sh", "-c", line], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                              text=True, timeout=30, check=False)  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


# -- help


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def test_every_argument_has_help() -> None:
    for parser in parsers(the_parser()):
        for action in parser._actions:
            assert action.help or isinstance(action, argparse._SubParsersAction), f"{parser.prog}: {action.dest}"
