"""Seeded violations between a live client and a live server, with `mcp-ref check` between the two.

python -m tests.lab.judge.live stdio|http         plays a third of them, and prints one line of JSON for each

Whoever plays, plays both sides in turns, so that the order is that of the seed. `mcp-ref check` is imported once; each
conversation has a process of its own, by a fork, with the files of a process of its own.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import queue
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp_ref.lab.cli import main
from mcp_ref.recording.record import TraceEvent
from tests.lab.judge.rules import rows
from tests.lab.judge.seeds import Seed

WITHIN = 60.0
Row = dict[str, Any]

# A server that has a script: reads as many lines as its client has in it, and writes its own.
SERVER = """
import base64, json, sys
out = sys.stdout.buffer
for sender, text in json.load(open(sys.argv[1])):
    line = base64.b64decode(text)
    if sender == "client":
        for _ in range(line.count(b"\\n")):
            sys.stdin.buffer.readline()
    else:
        out.write(line)
        out.flush()
sys.stdin.buffer.read()
"""


HINTS = {row["rule"] for row in rows() if row.get("level") == "HINT"}
"""Rules that are told only to whoever asks for hints."""


def third() -> Iterator[tuple[Seed, str, list[TraceEvent]]]:
    """Every third of the seeds that can be played, over each transport."""
    from tests.lab.judge.test_check import CASES, planted

    numbers = {"stdio": 0, "http": 0}
    for seed, revision in CASES:
        if seed.over in numbers:
            made = planted(seed, revision, seed.broken, seed.change)
            if playable(seed, made):
                numbers[seed.over] += 1
                if numbers[seed.over] % 3 == 0:
                    yield seed, revision, made


def playable(seed: Seed, made: list[TraceEvent]) -> bool:
    """Not what only a trace has: a signal, a request to another server, a time."""
    if (
        seed.rule in HINTS
        or seed.rule == "tasks_are_polled_slowly"
        or any(event.end or "oauth" in (event.http or {}) for event in made)
    ):
        return False
    if seed.over == "stdio":
        return True
    asked: set[int] = set()
    for event in made:
        facts = event.http or {}
        if event.direction == "send":
            if facts["exchange"] in asked or "hangUp" in facts or "end" in facts:
                return False
            asked.add(facts["exchange"])
        elif facts["exchange"] not in asked or facts.get("end", "server") != "server":
            return False
    return True


def line_of(event: TraceEvent) -> bytes:
    if event.raw is not None:
        return base64.b64decode(event.raw)
    return str(event.message).encode() if isinstance(event.message, str) else json.dumps(event.message).encode()


def checked(options: list[str], play: Callable[[int, int, int, int], None], report: Path) -> list[str]:
    """Fork a process that is `mcp-ref check`, play, and read the report; gives the rules that are named."""
    ins, outs, errs = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for number, (reads, writes) in enumerate((ins, outs, errs)):
                os.dup2(writes if number else reads, number)
            os.closerange(3, 64)
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
            code = int(main(["check", "--hints", "--format", "json", "--report", str(report), *options]))
            sys.stderr.flush()
        finally:
            os._exit(code)
    for end in (ins[0], outs[1], errs[1]):
        os.close(end)
    alarm = threading.Timer(WITHIN, os.kill, (child, signal.SIGKILL))
    alarm.start()
    try:
        play(ins[1], outs[0], errs[0], child)
    finally:
        for end in (ins[1], outs[0], errs[0]):
            with suppress(OSError):
                os.close(end)
        os.waitpid(child, 0)
        alarm.cancel()
    rows = [json.loads(row) for row in report.read_text("utf-8").splitlines()]
    return sorted(row["rule"] for row in rows if "rule" in row and row["level"] != "HINT")


def over_stdio(made: list[TraceEvent], folder: Path) -> list[str]:
    lines = [("client" if event.direction == "send" else "server", line_of(event) + b"\n") for event in made]
    script = folder / "script"
    script.write_text(json.dumps([(sender, base64.b64encode(line).decode()) for sender, line in lines]))

    def play(to: int, back: int, said: int, child: int) -> None:
        for sender, line in lines:
            left = line if sender == "client" else b""
            while left:
                left = left[os.write(to, left) :]
            got = b""
            while sender == "server" and len(got) < len(line):
                chunk = os.read(back, len(line) - len(got))
                assert chunk, "the server has ended"
                got += chunk
        os.close(to)
        assert os.read(back, 1) == b""

    command = [sys.executable, "-I", "-S", "-c", SERVER, str(script)]
    return checked(["--", *command], play, folder / "report")


# -- HTTP ---------------------------------------------------------------------------------------------------------


class Upstream(ThreadingHTTPServer):
    """Answers each exchange as it is told to, step by step."""

    daemon_threads = True

    def __init__(self) -> None:
        self.told: dict[str, queue.Queue[Row | None]] = {}
        self.came: queue.Queue[str] = queue.Queue()
        super().__init__(("127.0.0.1", 0), _Answering)


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Upstream

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        steps = self.server.told.setdefault(number := self.headers["x-exchange"], queue.Queue())
        self.server.came.put(number)
        streams = False
        while (step := steps.get(timeout=WITHIN)) is not None and "end" not in step["http"]:
            facts, body = step["http"], step["body"]
            if "headers" in facts:
                streams = facts["headers"].get("content-type", "").startswith("text/event-stream")
                self.send_response_only(facts["status"])
                for name, value in facts["headers"].items():
                    self.send_header(name, value)
                self.send_header(*(("Transfer-Encoding", "chunked") if streams else ("Content-Length", str(len(body)))))
                self.end_headers()
            if streams:
                body = event(facts, body) if body or facts.keys() & {"eventId", "retry", "event"} else b""
                body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.wfile.write(body)
        if streams:
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_PUT = do_DELETE = do_POST


def event(facts: Row, body: bytes) -> bytes:
    """An event of a stream."""
    names = (("event", "event"), ("eventId", "id"), ("retry", "retry"))
    head = "".join(f"{name}: {facts[fact]}\n" for fact, name in names if fact in facts)
    return head.encode() + b"data: " + body + b"\n\n"


def over_http(made: list[TraceEvent], folder: Path) -> list[str]:
    with Upstream() as upstream:
        threading.Thread(target=upstream.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{upstream.server_port}/mcp"

        def play(to: int, back: int, said: int, child: int) -> None:
            try:
                text = b""
                while b"\n" not in text:
                    text += os.read(said, 1000)
                played(made, upstream, urlsplit(text.split()[-1].decode()).port or 0)
            finally:
                os.kill(child, signal.SIGINT)

        try:
            return checked(["--http", url], play, folder / "report")
        finally:
            upstream.shutdown()


def played(made: list[TraceEvent], upstream: Upstream, port: int) -> None:
    """Do what a trace says, one step after the other: each has arrived at its other end before the next."""
    idle: list[http.client.HTTPConnection] = []
    busy: dict[str, tuple[http.client.HTTPConnection, http.client.HTTPResponse | None]] = {}
    for each in made:
        facts = each.http or {}
        name = str(facts["exchange"])
        body = line_of(each) if each.message is not None else b""
        if each.direction == "send":
            connection = idle.pop() if idle else http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN)
            headers = {key: value.encode("latin-1", "replace") for key, value in facts.get("headers", {}).items()}
            connection.request(facts["method"], "/mcp" + "?" * ("query" in facts) + "&".join(
                f"{key}=x" for key in facts.get("query", ())), body, {**headers, "x-exchange": name})  # fmt: skip
            busy[name] = connection, None
            assert upstream.came.get(timeout=WITHIN) == name
            continue
        steps, (connection, reply) = upstream.told[name], busy[name]
        steps.put({"http": facts, "body": body})
        if "end" in facts:
            assert reply is not None and reply.read() == b""
        elif reply is None:
            reply = connection.getresponse()
            busy[name] = connection, reply
            if not str(facts["headers"].get("content-type")).startswith("text/event-stream"):
                steps.put(None)
                assert reply.read() == body
        else:
            sent = event(facts, body) if body or facts.keys() & {"eventId", "retry", "event"} else b""
            assert reply.read(len(sent)) == sent
        if reply.isclosed():
            idle.append(connection)
    for connection, _ in busy.values():
        connection.close()


def play_all(over: str) -> Iterator[Row]:
    for seed, revision, made in third():
        if seed.over == over:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found = (over_stdio if over == "stdio" else over_http)(made, Path(folder))
                except (AssertionError, OSError, queue.Empty, KeyError, http.client.HTTPException) as problem:
                    found = [f"{type(problem).__name__}: {problem}"]
            yield {"rule": seed.rule, "revision": revision, "found": [each for each in found if each not in seed.base]}


if __name__ == "__main__":
    for row in play_all(sys.argv[1]):
        print(json.dumps(row), flush=True)
