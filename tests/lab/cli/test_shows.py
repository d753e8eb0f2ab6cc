"""Tests of what the command line shows of a server, at a terminal and elsewhere; and that it never ends in a
traceback.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.lab.cli import commands, main, render
from mcp_ref.lab.cli.table import parser as the_parser
from tests.lab.cli.conftest import Terminal
from tests.lab.conftest import At

DEMO = ["--", sys.executable, "-m", "mcp_ref.lab.cli.demo"]
Capture = pytest.CaptureFixture[str]
Where = Annotated[str, "where to " + "go " * 60]

PROGRAM = """
from mcp_ref import Server
server = Server("show")
server.tool(name="done")(lambda: "done")
server.run()
"""


def show() -> Server:
    server = Server("show", "2.0", instructions="Ask politely. " * 20)

    @server.tool()
    def plan(city: Where, days: int = 3, by: Literal["train", "bus"] | None = None) -> str:
        """Plan a trip.

        In its second paragraph it says more.
        """
        return "\u00e9\u4e2d"

    @server.tool()
    def steps(ctx: Context) -> str:
        for step in range(1, 4):
            ctx.progress(step, 3, "step \x1b[2J")
        return "done"

    return server


@pytest.fixture
def server(at: At) -> list[str]:
    return at(show())


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs a command at a terminal that stderr and stdout share, and gives what is seen there."""

    def seen(*words: str) -> str:
        with monkeypatch.context() as shared:
            shared.setattr(sys, "stdout", screen := Terminal("utf-8"))
            shared.setattr(sys, "stderr", screen)
            main([*words])
            return screen.shown()

    return seen


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_info_says_who_it_is_and_ping_how_fast(capsys: Capture, server: list[str], revision: str) -> None:
    assert main(["info", "--revision", revision, *server]) == 0
    out = capsys.readouterr().out
    assert out.startswith("show 2.0\nspeaks: " + revision)
    assert "can: logging, tools (listChanged)" in out
    assert "instructions:\n    Ask politely. Ask" in out
    assert main(["ping", "--revision", revision, *server]) == 0
    assert "was answered after" in capsys.readouterr().out


def test_request_sends_any_method_with_any_params(capsys: Capture, server: list[str]) -> None:
    assert main(["request", "tools/call", '{"name": "plan", "arguments": {"city": "Rome"}}', *server]) == 0
    assert json.loads(capsys.readouterr().out)["content"][0]["type"] == "text"
    for words, code in ((["no/such"], 3), (["tools/call", "[]"], 2), (["tools/call", "{"], 2)):
        assert main(["request", *words, *server]) == code


def test_tools_are_shown_with_types_and_descriptions_within_the_width(
    capsys: Capture, server: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["tools", *server]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["plan", "    Plan a trip.", "    - city: string, required. where to go go go go go go go"]
    assert "    - days: integer, optional, default 3" in lines
    assert '    - by: "train" | "bus" | null, optional, default null' in lines
    assert all(len(line) <= 60 for line in lines)


def test_progress_is_a_bar_at_a_terminal_and_one_line_elsewhere(
    server: list[str], at_a_terminal: Callable[..., str], capsys: Capture
) -> None:
    seen = at_a_terminal("call", "steps", *server)
    assert "\r[#######.............] 1 of 3 step \\x1b[2J" in seen
    assert seen.count("\n") == 2
    assert main(["call", "steps", *server]) == 0
    assert capsys.readouterr() == ("done\n", "progress: 3 of 3 step \\x1b[2J\n")


def test_errors_and_directions_have_colours_unless_no_color_is_set(
    server: list[str], at_a_terminal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b[31mmcp-ref: " in at_a_terminal("call", "nothing", *server)
    told = at_a_terminal("ping", "--narrate", *server)
    assert "\x1b[36m" in told and "\x1b[32m" in told
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in at_a_terminal("call", "nothing", *server)


def test_a_server_that_starts_slowly_is_waited_for_with_a_word(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    said, note = threading.Event(), render.note

    def told(text: str, **more: Any) -> None:
        note(text, **more)
        if "still waiting" in text:
            said.set()

    monkeypatch.setattr(commands, "_SLOW", 0.01)
    monkeypatch.setattr(render, "note", told)
    assert main(["ping", *at(show(), authenticate=lambda request: said.wait(20) or None)]) == 0
    assert said.is_set()


# -- files of other clients


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "show.py").write_text(PROGRAM, "utf-8")
    monkeypatch.setenv("SHOW", str(tmp_path / "show.py"))
    monkeypatch.setenv("TOKEN", "swordfish")
    servers = {
        "show": {"command": sys.executable, "args": ["${SHOW}"], "env": {"KEY": "${NONE:-text}"}, "type": "stdio"},
        "far": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    }
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return str(path)


def test_a_server_of_a_file_is_asked_by_its_name(capsys: Capture, config: str) -> None:
    assert main(["call", "done", "--config", config, "--server", "show"]) == 0
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


def test_a_trace_is_told_from_standard_input_and_as_it_grows(
    server: list[str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, growing = tmp_path / "trace.jsonl", tmp_path / "growing.jsonl"
    assert main(["ping", "--trace", str(trace), *server]) == 0
    capsys.readouterr()
    assert main(["narrate", str(trace)]) == 0
    told, text = capsys.readouterr().out, trace.read_text("utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["narrate", "-"]) == 0
    assert capsys.readouterr().out == told

    def grow(seconds: float) -> None:
        if growing.read_text("utf-8") == text:
            raise KeyboardInterrupt
        growing.write_text(text, "utf-8")

    growing.write_text(text[:20], "utf-8")
    monkeypatch.setattr(commands, "time", SimpleNamespace(sleep=grow))
    assert main(["narrate", "--follow", str(growing)]) == 130
    assert capsys.readouterr().out == told


# -- no traceback


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_an_error_in_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "mcp_ref", "spec"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["mcp-ref: the output cannot be written: [Errno 28] No space left on device"]


def test_a_command_does_not_fail_because_its_streams_are_closed() -> None:
    line = f'"{sys.executable}" -m mcp_ref spec ping >&- 2>&-'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
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
