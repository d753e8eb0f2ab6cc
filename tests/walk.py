"""How much of the house one conversation walks through: functions and files of mcp_ref, both sides counted.

    python -m tests.walk                          the whole table
    python -m tests.walk call stdio 2025-11-25    one walk, with the functions in the order of their first call

After two warm rounds of the same thing, every function of the package that runs in either process counts once.
Comprehensions and lambdas count with the function that holds them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

REVISIONS = ("2025-11-25", "2026-07-28")
WALKS = [
    (what, how, revision)
    for what in ("call", "elicit", "subscribe")
    for how in ("stdio", "http")
    for revision in REVISIONS
]
SETTLING = 0.2
"""Seconds in which other threads end what a round began: what they still run belongs to the walk."""

seen: dict[tuple[str, str], None] = {}


def place() -> str:
    import mcp_ref

    return os.path.dirname(os.path.abspath(mcp_ref.__file__)) + os.sep


def watch() -> None:
    """Note each function of the package that runs from here on, in every thread that starts after this."""
    inside = place()

    def hook(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(inside):
            name = frame.f_code.co_qualname.replace(".<locals>", "").split(".<")[0]
            seen.setdefault((frame.f_code.co_filename.removeprefix(inside), name), None)

    threading.setprofile(hook)
    sys.setprofile(hook)


def make_server() -> Any:
    """A server with a tool for each walk, and two that read what was noted in its process."""
    from mcp_ref import Context, Server

    server = Server("walk")

    @server.tool()
    def echo(text: str) -> str:
        return text

    @server.tool()
    def ask(ctx: Context) -> str:
        return str(ctx.elicit("Seat?", {"seat": {"type": "string", "enum": ["a", "b"]}})["content"]["seat"])

    @server.resource("data://x")
    def data() -> str:
        return "1"

    @server.tool()
    def change() -> str:
        server.resource_updated("data://x")
        return "ok"

    @server.tool()
    def mark() -> str:
        seen.clear()
        return "ok"

    @server.tool()
    def save(path: str) -> str:
        Path(path).write_text(json.dumps(list(seen)))
        return "ok"

    return server


def walk(what: str, how: str, revision: str) -> list[tuple[str, str]]:
    """The functions of one walk, as (file, name)."""
    from mcp_ref import Client

    changed, never = threading.Event(), threading.Event()

    def once(client: Client) -> None:
        if what == "call":
            client.call_tool("echo", {"text": "a"})
        elif what == "elicit":
            client.call_tool("ask", {})
        elif revision == REVISIONS[0]:
            client.subscribe_resource("data://x")
            client.call_tool("change", {})
            assert changed.wait(30)
            changed.clear()
            client.unsubscribe_resource("data://x")
        else:
            with client.listen(resources=["data://x"]) as events:
                client.call_tool("change", {})
                next(iter(events))

    def run(target: Any) -> list[tuple[str, str]]:
        with Client(
            target,
            revision=revision,
            elicit=lambda message, schema: {"seat": "a"},
            on_change=lambda method, params: changed.set(),
        ) as client:
            client.list_tools()
            once(client)
            once(client)
            if how == "stdio":
                client.call_tool("mark", {})
            never.wait(SETTLING)
            seen.clear()
            once(client)
            never.wait(SETTLING)
            ran = list(seen)
            if how == "stdio":
                file = Path(tempfile.mkdtemp()) / "seen.json"
                client.call_tool("save", {"path": str(file)})
                ran += [(each[0], each[1]) for each in json.loads(file.read_text())]
            return list(dict.fromkeys(ran))

    watch()
    if how == "stdio":
        return run([sys.executable, "-m", "tests.walk", "--serve"])
    with make_server().serve_http() as service:
        return run(service.url)


def measure(what: str, how: str, revision: str) -> tuple[int, int, str]:
    """Functions and files of one walk, measured in a process of its own; and what it printed."""
    command = [sys.executable, "-m", "tests.walk", what, how, revision]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    functions, files = json.loads(done.stdout.splitlines()[-1])
    return functions, files, done.stdout


def main() -> None:
    """See the head."""
    if sys.argv[1:] == ["--serve"]:
        watch()
        make_server().run()
    elif len(sys.argv) == 4:
        found = walk(*sys.argv[1:])
        for file, name in found:
            print("   ", file, name)
        print(json.dumps([len(found), len({file for file, _ in found})]))
    else:
        print("| walk | functions | files |\n|---|--:|--:|")
        for each in WALKS:
            functions, files, _ = measure(*each)
            print(f"| {' '.join(each)} | {functions} | {files} |")


if __name__ == "__main__":
    main()
