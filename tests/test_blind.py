"""A blind run: both roles, the host, recorder, relay and command line in a Python without the names that Windows lacks.

It shows that nothing there leans on them, and not that Windows would do the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

ROOT = Path(__file__).parent.parent
SERVER = """
import select, sys, threading
from mcp_ref import Context, Server
assert not hasattr(select, "poll")
server = Server("blind")

@server.tool()
def echo(text: str) -> str:
    print("a print harms nothing")
    return text

@server.tool()
def wait(ctx: Context) -> str:
    while not ctx.cancelled:
        threading.Event().wait(0.01)
    return "over"

@server.tool()
def pid() -> str:
    import os
    return str(os.getpid())
"""
CLIENT = """
import os, sys
from mcp_ref import Client, RequestTimeout

def talk(target):
    with Client(target) as client:
        long = "x" * 3_000_000
        assert client.call_tool("echo", {"text": long})["content"][0]["text"] == long
        try:
            client.call_tool("wait", timeout=0.3)
        except RequestTimeout as late:
            print(type(late).__name__)
        print(client.call_tool("echo", {"text": "again"})["content"][0]["text"])
        return int(client.call_tool("pid")["content"][0]["text"])

def threads():
    import threading
    return [each.name for each in threading.enumerate() if each.name.startswith("mcp-")]
"""
OVER = {
    "stdio": """
from mcp_ref import Command
started = talk(Command([sys.executable, "-c", os.environ["SERVER"] + "server.run()"], inherit=True, stderr="ignore"))
try:
    os.kill(started, 0)
except ProcessLookupError:
    print("ended", threads())
""",
    "http": """
with server.serve_http() as service:
    assert talk(service.url) == os.getpid()
print("ended", threads())
""",
    "relay": """
from mcp_ref import Command
line = [sys.executable, "-m", "mcp_ref", "check", "--", sys.executable, "-c", os.environ["SERVER"] + "server.run()"]
started = talk(Command(line, inherit=True, stderr="ignore"))
try:
    os.kill(started, 0)
except ProcessLookupError:
    print("ended", threads())
""",
}
HOST = """
from mcp_ref import Consent, Host, Rule, text_of
entry = {"command": sys.executable, "args": ["-c", os.environ["SERVER"] + "server.run()"], "env": dict(os.environ)}
consent = Consent([Rule("allow", "start"), Rule("allow", "tool", "*")], keep=False)
with Host({"mcpServers": {"one": entry, "other": entry}}, consent=consent) as host:
    print(text_of(host.call("one/echo", {"text": "said"})), text_of(host.call("other/echo", {"text": "twice"})))
    ids = [int(text_of(host.call(f"{each}/pid", {}))) for each in ("one", "other")]
for each in ids:
    try:
        os.kill(each, 0)
    except ProcessLookupError:
        print("ended")
print(threads())
"""
PATHS = [str(ROOT / "tests" / "blind"), str(ROOT)]
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "SERVER": SERVER, "PYTHONWARNINGS": "error::ResourceWarning"}


def _blind(
    *args: str, cwd: Path | None = None, changes: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], cwd=cwd, env={**ENV, **changes}, stdin=subprocess.DEVNULL, capture_output=True,
        encoding=changes.get("PYTHONIOENCODING", "utf-8"), timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("way", OVER)
def test_calls_and_time_limits_and_the_end_need_no_name_that_windows_lacks(way: str) -> None:
    done = _blind("-c", SERVER + CLIENT + OVER[way])
    expected = ["RequestTimeout", "again", "ended []"]
    printed = [line for line in done.stdout.splitlines() if line != "a print harms nothing"]
    assert (done.returncode, printed, done.stderr) == (0, expected, ""), done


def test_a_host_keeps_two_servers_and_ends_them() -> None:
    done = _blind("-c", SERVER + CLIENT + HOST)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, ["said twice", "ended", "ended", "[]"], "")


def test_the_command_line_calls_records_shows_and_teaches(tmp_path: Path) -> None:
    (tmp_path / "blind.py").write_text(SERVER + "server.run()", encoding="utf-8")
    entry = {"command": sys.executable, "args": ["blind.py"], "env": {"PYTHONPATH": ENV["PYTHONPATH"]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"blind": entry}}), encoding="utf-8")
    rules = ["--allow", "start:*", "--allow", "tool:*"]
    server = ["--", sys.executable, "blind.py"]
    for args, said in (
        (["demo"], "mcp_ref show"),
        (["demo", "--http"], "mcp_ref show"),
        (["call", "echo", "text=heard", "--trace", "trace.jsonl", "--inherit", *server], "heard"),
        (["narrate", "trace.jsonl"], 'tool "echo"'),
        (["check", "trace.jsonl"], "0 findings"),
        (["show", "trace.jsonl", "-o", "trace.html"], ""),
        (["host", "mcp.json", "--call", "blind/echo", *rules, "text=hosted"], "hosted"),
        (["learn", "1"], "01_stdout"),
    ):
        done = _blind("-m", "mcp_ref", *args, cwd=tmp_path)
        assert done.returncode == 0 and said in done.stdout and "Traceback" not in done.stderr, (args, done)


def test_what_a_system_refuses_is_one_sentence_and_what_it_allows_works(tmp_path: Path) -> None:
    file = tmp_path / "Eigene Dateien für MCP" / "sərvər.py"
    file.parent.mkdir()
    file.write_text(SERVER + "server.run()", encoding="utf-8")
    (tmp_path / "home").touch()  # in which nothing can be made
    call = ["call", "echo", "text=Žilina", "--inherit", "--"]
    cp1252, home = {"PYTHONIOENCODING": "cp1252"}, {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": ""}
    entry = {"command": sys.executable, "args": [str(file)], "env": {"PYTHONPATH": ENV["PYTHONPATH"]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"one": entry}}), encoding="utf-8")
    hosted = ["host", "mcp.json", "--call", "one/echo", "--allow", "start:*", "--allow", "tool:*", "text=hosted"]
    hosted += ["--allow", "definition:*"]
    for args, changes, code, out, err in (
        ([*call, "nosuch"], {}, 4, "", "the server 'nosuch' could not be started"),
        ([*call, sys.executable, str(file)], {}, 0, "Žilina", ""),
        ([*call, sys.executable, str(file)], cp1252, 0, "Žilina", ""),
        (["call", "echo", "text=Łódź", *call[3:], sys.executable, str(file)], cp1252, 0, "\\u0141ód\\u017a", ""),
        (hosted, home, 0, "hosted", "consent.json is not used"),
    ):
        done = _blind("-m", "mcp_ref", *args, cwd=tmp_path, changes=changes)
        assert (done.returncode, done.stdout.strip()) == (code, out) and "Traceback" not in done.stderr, (args, done)
        files = 2 if args is hosted else 1  # a sentence for each
        assert err in done.stderr and done.stderr.count("\n") <= files, (args, done)


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends a process at once there")
@pytest.mark.parametrize("way", ["", '"http"'])
def test_a_server_that_is_interrupted_ends(way: str) -> None:
    command = [sys.executable, "-c", SERVER + f"server.run({way})"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=ENV, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        assert process.stdin and process.stdout and process.stderr
        if way:
            process.stderr.readline()  # where it listens
        else:
            process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        # The first answer may come before its main thread waits: then it is a program like any other that Ctrl-C ends.
        assert process.wait(10) in ((0,) if way else (0, -signal.SIGINT)), process.stderr.read()
