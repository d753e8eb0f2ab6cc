"""How much of the house one conversation walks through: functions and files of mcp_ref, both sides counted.

    python -m tests.walk                               the whole table
    python -m tests.walk call stdio 2025-11-25         one walk, with the functions in the order of their first call
    python -m tests.walk call stdio 2025-11-25 FILE    the same, followed, as JSON

Followed means: each call with its thread, its caller, the lines that it ran, what it was given and what it returned,
and the messages.

Client and server are two processes. After two warm rounds of the same thing, every function of the package that runs in
either of them counts once. Comprehensions and lambdas count with the function that holds them.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
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

Call = dict[str, Any]


class Tracer:
    """Notes each call of a function of the package once it has begun, in every thread that starts after `start()`.

    Args:
        lines: also which lines ran, what a function was given and what it returned.

    Attributes:
        calls: in the order in which they began: `time`, `thread`, `file`, `name`, `first` (its first line), `n`
            (its number), `parent` (that of its caller; None: not ours, or older) and `under` (file and name of the
            callers that began before `begin()`). With `lines` also `lines`, `given` and `gave`; what records the
            conversation is left out then.
    """

    def __init__(self, lines: bool) -> None:
        import mcp_ref

        self._inside = os.path.dirname(os.path.abspath(mcp_ref.__file__)) + os.sep
        self._lines, self._live = lines, dict[FrameType, Call | None]()
        self._on, self._numbers = False, itertools.count()
        self.calls: list[Call] = []

    def start(self) -> None:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        if self._lines:
            threading.settrace(self._trace)
            sys.settrace(self._trace)

    def begin(self) -> None:
        """Note what is called from now on."""
        self._on = True

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and self._on and frame.f_code.co_filename.startswith(self._inside):
            self._called(frame)
        elif event == "return" and frame in self._live:
            call = self._live.pop(frame)
            if call is not None and self._lines:
                call["gave"] = shown("", arg)

    def _called(self, frame: FrameType) -> None:
        caller, under = frame.f_back, list[tuple[str, str]]()
        while caller is not None and caller not in self._live:
            if caller.f_code.co_filename.startswith(self._inside):
                under.insert(0, self._place(caller))
            caller = caller.f_back
        parent = None if caller is None else self._live[caller]
        file, name = self._place(frame)
        call: Call = {"time": time.time(), "thread": threading.current_thread().name, "file": file, "name": name}
        call |= {"first": frame.f_code.co_firstlineno, "parent": parent and parent["n"], "under": under}
        if self._lines:
            if file.startswith("recording") or (caller is not None and parent is None):
                # What records is no part of the conversation, nor is what it calls.
                self._live[frame] = None
                return
            code = frame.f_code
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            given = [(each, shown(each, frame.f_locals[each])) for each in names if each in frame.f_locals]
            call |= {"lines": [], "given": [each for each in given if each[0] != "self"], "gave": ""}
        call["n"] = next(self._numbers)
        self._live[frame] = call
        self.calls.append(call)

    def _place(self, frame: FrameType) -> tuple[str, str]:
        """The file and the name of its function, or of the one that holds it."""
        code = frame.f_code
        name = code.co_qualname.replace(".<locals>", "").split(".<")[0]
        return code.co_filename.removeprefix(self._inside), name

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not self._on or not frame.f_code.co_filename.startswith(self._inside):
            return None

        def within(frame: FrameType, event: str, arg: Any) -> Any:
            call = self._live.get(frame)
            if event == "line" and call is not None:
                call["lines"].append(frame.f_lineno)
            return within

        return within


def shown(name: str, value: object, most: int = 90) -> str:
    """A value in few characters, without secrets: data as it is, an object by its type."""
    from mcp_ref.recording.redact import redact

    if not isinstance(value, str | int | float | dict | list | tuple | bytes | None):
        return type(value).__name__
    text = repr(redact({name: value})[name])
    return type(value).__name__ if " at 0x" in text else text if len(text) <= most else text[: most - 1] + "…"


def make_server(tracer: Tracer) -> Any:
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
        tracer.begin()
        return "ok"

    @server.tool()
    def save(path: str) -> str:
        Path(path).write_text(json.dumps(tracer.calls))
        return "ok"

    return server


def serve(how: str, follow: bool) -> None:
    """Serve in this process, traced: over stdio, or over HTTP until stdin ends, with the URL as the first line."""
    tracer = Tracer(follow)
    tracer.start()
    server = make_server(tracer)
    if how == "stdio":
        server.run()
    else:
        with server.serve_http() as service:
            print(service.url, flush=True)
            sys.stdin.read()


def once_of(what: str, revision: str, changed: threading.Event) -> Callable[[Any], object]:
    """What a walk does with a client."""

    def subscribe(client: Any) -> None:
        client.subscribe_resource("data://x")
        client.call_tool("change", {})
        assert changed.wait(30)
        changed.clear()
        client.unsubscribe_resource("data://x")

    def listen(client: Any) -> None:
        with client.listen(resources=["data://x"]) as events:
            client.call_tool("change", {})
            next(iter(events))

    if what == "subscribe":
        return subscribe if revision == REVISIONS[0] else listen
    return lambda client: client.call_tool(*{"call": ("echo", {"text": "a"}), "elicit": ("ask", {})}[what])


def walk(what: str, how: str, revision: str, follow: bool = False) -> dict[str, Any]:
    """One walk: the calls of either side as `client` and `server`; followed, also `messages` with their times."""
    from mcp_ref import Client
    from mcp_ref.lab.judge.narrate import Narrator

    changed, never, events = threading.Event(), threading.Event(), list[Any]()
    once, tracer = once_of(what, revision, changed), Tracer(follow)
    command = [sys.executable, "-m", "tests.walk", "--serve", how, *["follow"][: int(follow)]]
    child = None
    target: Any = command
    if how == "http":
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdin is not None and child.stdout is not None
        target = child.stdout.readline().strip()
    tracer.start()
    with Client(
        target,
        revision=revision,
        elicit=lambda message, schema: {"seat": "a"},
        on_change=lambda method, params: changed.set(),
        **({"trace": events.append} if follow else {}),
    ) as client:
        client.list_tools()
        once(client)
        once(client)
        client.call_tool("mark", {})
        never.wait(SETTLING)
        tracer.begin()
        begun = time.time()
        once(client)
        ended = time.time()
        never.wait(SETTLING)
        ran, until = list(tracer.calls), time.time()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "calls.json"
            client.call_tool("save", {"path": str(file)})
            # Without the way of `save` itself.
            served = [call for call in json.loads(file.read_text()) if call["time"] <= until]
    if child is not None and child.stdin is not None:
        child.stdin.close()
        child.wait(20)
    narrator, messages = Narrator(), []
    for event in events:
        sender, told = narrator.told(event)
        if begun <= event.time <= ended and event.message is not None:
            about = {"sender": sender, "head": told.head, "lines": told.lines, "message": event.message}
            messages.append({"time": event.time, **about})
    return {"client": ran, "server": served, "messages": messages, "begun": begun, "ended": ended}


def measure(what: str, how: str, revision: str) -> tuple[int, int, str]:
    """Functions and files of one walk, measured in a process of its own; and what it printed."""
    command = [sys.executable, "-m", "tests.walk", what, how, revision]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    functions, files = json.loads(done.stdout.splitlines()[-1])
    return functions, files, done.stdout


def main(arguments: list[str]) -> None:
    """See the head."""
    if arguments[:1] == ["--serve"]:
        serve(arguments[1], arguments[2:] == ["follow"])
    elif len(arguments) == 4:
        Path(arguments[3]).write_text(json.dumps(walk(*arguments[:3], follow=True)), "utf-8")
    elif len(arguments) == 3:
        walked = walk(*arguments)
        found = dict.fromkeys((call["file"], call["name"]) for call in walked["client"] + walked["server"])
        for file, name in found:
            print("   ", file, name)
        print(json.dumps([len(found), len({file for file, _ in found})]))
    else:
        print("| walk | functions | files |\n|---|--:|--:|")
        for each in WALKS:
            functions, files, _ = measure(*each)
            print(f"| {' '.join(each)} | {functions} | {files} |")


if __name__ == "__main__":
    main(sys.argv[1:])
