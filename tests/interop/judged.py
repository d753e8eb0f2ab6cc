"""Pairs of programs that we did not write: every conversation of theirs, and what the checker finds in between."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from mcp_ref.lab.judge.check import Checker
from mcp_ref.lab.judge.relay import HttpProxy
from mcp_ref.lab.judge.rulebook import Finding
from mcp_ref.recording.record import Recorder, TraceEvent, read_trace
from tests.interop import programs, test_conversations
from tests.interop.programs import BOTH_ERAS, NEW_SDK, OLD_SDK, OUR_PATH, OURS, TYPESCRIPT, TYPESCRIPT_2, Pair
from tests.interop.talk import Drivers, Theirs

PAIRS = [
    *(Pair(NEW_SDK, NEW_SDK, way) for way in ("stdio", "http", "sse")),
    Pair(NEW_SDK, OLD_SDK),
    Pair(OLD_SDK, NEW_SDK),
    Pair(OLD_SDK, OLD_SDK),
    Pair(BOTH_ERAS, BOTH_ERAS),
    Pair(BOTH_ERAS, TYPESCRIPT_2, "http"),
    Pair(TYPESCRIPT, NEW_SDK, "http"),
    Pair(TYPESCRIPT, TYPESCRIPT_2, "http"),
    Pair(TYPESCRIPT_2, TYPESCRIPT_2),
    Pair(TYPESCRIPT_2, BOTH_ERAS, "http"),
]


def walk(pair: Pair, target: list[str]) -> list[Any]:
    """Have a client of others hold every conversation with a server: what came of its requests.

    Not all end well with a server of others, for it is asked whatever ours is; only the old one would not survive it.
    """
    with Drivers() as drivers, Theirs(drivers.of(pair.client), target) as talk:
        talk.pair = pair if pair.server == OLD_SDK else pair._replace(server=OURS)
        for name, conversation in vars(test_conversations).items():
            if name.startswith("test_") and programs.applies(getattr(conversation, "pytestmark", ()), talk.pair):
                talk.tidy()
                try:
                    conversation(talk)
                except (Exception, pytest.skip.Exception, pytest.fail.Exception):
                    pass
        return talk.came


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

    with programs.serving(pair) as target:
        if pair.way != "stdio":
            with Recorder(feed, exact=True) as recorder, HttpProxy(target[0], [recorder], lambda text: None) as proxy:
                walk(pair, [proxy.url])
        else:
            with tempfile.TemporaryDirectory() as folder:
                # A client may start its server several times: each time has a trace of its own.
                check = [sys.executable, "-m", "mcp_ref", "check", "--exact", "--report", os.devnull]
                line = f"{shlex.join(check)} --trace {folder}/$$.jsonl -- {shlex.join(target)}"
                walk(pair, ["env", f"PYTHONPATH={OUR_PATH['PYTHONPATH']}", "sh", "-c", f"exec {line}"])
                for trace in sorted(Path(folder).glob("*.jsonl"), key=lambda path: path.stat().st_mtime):
                    one = Checker(whole=True)
                    for event in read_trace(trace):
                        events.append(event)
                        found.extend(one.feed(event))
                    found.extend(one.end())
    return [each for each in found + checker.end() if each.level != "HINT"], events
