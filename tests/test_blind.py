"""A blind run: client and server, over stdio and HTTP, in a Python that has none of the names that Windows lacks.

It shows that nothing there leans on them, and not that Windows would do the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
}


@pytest.mark.parametrize("way", OVER)
def test_calls_and_time_limits_and_the_end_need_no_name_that_windows_lacks(way: str) -> None:
    paths = [str(ROOT / "tests" / "blind"), str(ROOT)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SERVER": SERVER}
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", SERVER + CLIENT + OVER[way]]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    expected = ["RequestTimeout", "again", "ended []"]
    printed = [line for line in done.stdout.splitlines() if line != "a print harms nothing"]
    assert (done.returncode, printed, done.stderr) == (0, expected, ""), done
