"""Pairs of programs with the checker between them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from mcp_ref.lab.judge.check import Checker
from mcp_ref.lab.judge.relay import HttpProxy
from mcp_ref.lab.judge.rulebook import Finding
from mcp_ref.recording.record import Recorder, TraceEvent, read_trace
from tests.interop import programs
from tests.interop.programs import BOTH_ERAS, NEW_SDK, OLD_SDK, OUR_PATH, TYPESCRIPT, TYPESCRIPT_2

OURS = "ours"
WITHIN = 200


class Pair(NamedTuple):
    """A client and a server, over Streamable HTTP ("http"), HTTP+SSE ("sse") or stdio."""

    client: str
    server: str
    way: str

    def __str__(self) -> str:
        return f"{self.client} to {self.server} over {self.way}"


PAIRS = [
    Pair(NEW_SDK, NEW_SDK, "stdio"),
    Pair(NEW_SDK, NEW_SDK, "http"),
    Pair(NEW_SDK, NEW_SDK, "sse"),
    Pair(NEW_SDK, OLD_SDK, "stdio"),
    Pair(OLD_SDK, NEW_SDK, "stdio"),
    Pair(OLD_SDK, OLD_SDK, "stdio"),
    Pair(BOTH_ERAS, BOTH_ERAS, "stdio"),
    Pair(BOTH_ERAS, BOTH_ERAS, "http"),
    Pair(BOTH_ERAS, TYPESCRIPT_2, "stdio"),
    Pair(BOTH_ERAS, TYPESCRIPT_2, "http"),
    Pair(TYPESCRIPT, NEW_SDK, "http"),
    Pair(TYPESCRIPT, TYPESCRIPT_2, "http"),
    Pair(TYPESCRIPT_2, TYPESCRIPT_2, "stdio"),
    Pair(TYPESCRIPT_2, TYPESCRIPT_2, "http"),
    Pair(TYPESCRIPT_2, BOTH_ERAS, "http"),
]


def client_of(peer: str, target: list[str]) -> list[str]:
    if peer in (BOTH_ERAS, TYPESCRIPT_2):
        return programs.their_stateless_client(peer, target)
    return programs.their_client(peer, target)


def judged(pair: Pair) -> tuple[list[Finding], list[TraceEvent]]:
    """Return what is found between two programs, and all that passed."""
    found: list[Finding] = []
    events: list[TraceEvent] = []
    checker = Checker()
    lock = threading.Lock()

    def feed(event: TraceEvent) -> None:
        with lock:
            events.append(event)
            found.extend(checker.feed(event))

    env = {**os.environ, **OUR_PATH}
    if pair.way == "stdio":
        with tempfile.TemporaryDirectory() as folder:
            # A client may start its server several times: each time has a trace of its own. And it passes nothing of
            # its environment on.
            check = [sys.executable, "-m", "mcp_ref", "check", "--exact", "--report", os.devnull]
            line = f"{shlex.join(check)} --trace {folder}/$$.jsonl -- {shlex.join(programs.their_server(pair.server))}"
            whole = ["env", f"PYTHONPATH={OUR_PATH['PYTHONPATH']}", "sh", "-c", f"exec {line}"]
            subprocess.run(client_of(pair.client, whole), env=env, capture_output=True, timeout=WITHIN, check=False)
            for trace in sorted(Path(folder).glob("*.jsonl"), key=lambda path: path.stat().st_mtime):
                one = Checker(whole=True)
                for event in read_trace(trace):
                    events.append(event)
                    found.extend(one.feed(event))
                found.extend(one.end())
    else:
        with programs.serving(pair.server, pair.way) as url, Recorder(feed, exact=True) as recorder:
            assert isinstance(url, str)
            with HttpProxy(url, [recorder], lambda text: None) as proxy:
                command = client_of(pair.client, [proxy.url])
                subprocess.run(command, env=env, capture_output=True, timeout=WITHIN, check=False)
    return [each for each in found + checker.end() if each.level != "HINT"], events
