"""Drives a server over its pipes with as little of its own as possible, and reads what it used.

What is written is made beforehand, and what is read is only counted, so that the server is what the time goes to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).parent.parent.parent


WINDOW = 64
"""Calls in flight, where not one after the other."""


class Run(NamedTuple):
    """The cost of some calls: calls (or notifications) a second, and microseconds of the server's CPU for each."""

    per_second: float
    cpu: float


def command(program: str, tree: Path = ROOT) -> list[str]:
    """Return what starts a server of the benchmarks, as a tree has it."""
    # -P: not with this folder first, whose http.py is not Python's.
    return [sys.executable, "-P", str(tree / "tests" / "benchmarks" / f"{program}_server.py")]


def environment(tree: Path = ROOT) -> dict[str, str]:
    """Return that of this process, but so that compiled modules are kept: a start shall not compile."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(tree)}


INFO = {"name": "driver", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENING}


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def call_line(request_id: int, tool: str, arguments: dict[str, Any], meta: dict[str, Any] | None = None) -> bytes:
    params = {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {})
    return line({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params})


NAMED = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{NAMED}protocolVersion": "2026-07-28",
    f"{NAMED}clientInfo": INFO,
    f"{NAMED}clientCapabilities": {},
}
"""What each request says of itself in the stateless era."""


def cpu_of(process: int) -> float:
    """Return the seconds of CPU that a process has used, also in threads that have ended (Linux)."""
    return time.clock_gettime(~process << 3 | 2)  # as clock_getcpuclockid(3) makes the number of its clock


class Driven:
    """A server under way; in the session era with a session open."""

    def __init__(self, name: str, era: str = "session", tree: Path = ROOT) -> None:
        self._process = subprocess.Popen(
            command(name, tree),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=environment(tree),
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._ids = 0
        self._meta = None if era == "session" else ENVELOPE
        if era == "session":
            os.write(self._in, line(INITIALIZE))
            self._read(1)
            os.write(self._in, line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        self.calls(20, 1)

    def calls(self, count: int, window: int) -> Run:
        """So many calls of `echo`, at most `window` of them without an answer."""
        first, self._ids = self._ids + 1, self._ids + count
        lines = [call_line(first + number, "echo", {"text": "hi"}, self._meta) for number in range(count)]
        used, began = cpu_of(self._process.pid), time.perf_counter()
        sent = answered = 0
        while answered < count:
            if sent < count and sent - answered < window:
                until = min(answered + window, count)
                os.write(self._in, b"".join(lines[sent:until]))
                sent = until
            answered += self._read(1)
        return self._since(used, began, count)

    def notifications(self, count: int) -> Run:
        """One call of `steps`, which sends so many progress notifications."""
        self._ids += 1
        used, began = cpu_of(self._process.pid), time.perf_counter()
        meta = {**(self._meta or {}), "progressToken": self._ids}
        os.write(self._in, call_line(self._ids, "steps", {"count": count}, meta))
        self._read(count + 1)
        return self._since(used, began, count)

    def _read(self, at_least: int) -> int:
        """Read until so many lines have ended; how many did."""
        lines = 0
        while lines < at_least:
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                raise RuntimeError(f"{self._process.args} ended")
            lines += chunk.count(b"\n")
        return lines

    def _since(self, used: float, began: float, count: int) -> Run:
        seconds = time.perf_counter() - began
        return Run(count / seconds, (cpu_of(self._process.pid) - used) / count * 1e6)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
