"""Calls with rounds over four workers, one of which is killed every second.

    python -m tests.features.killing --calls 20000

Each call asks a question, and so takes two requests, which any two workers may answer. It must end once: with its own
answer, or with an error that the client documents for a lost connection.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter

from mcp_ref import Client, McpError, TransportClosed, text_of
from tests.under_wsgi import children, under

CLIENTS = 16


def run(calls: int) -> tuple[Counter[str], int]:
    """How many calls ended how, and how many workers were killed meanwhile."""
    env = {"MOUNTED_KEYS": "k" * 43, "MOUNTED_OPTIONS": '{"sessions": false}'}
    ended, lock, numbers, over, killed = Counter[str](), threading.Lock(), itertools.count(), threading.Event(), 0
    connected = threading.Barrier(CLIENTS + 1)

    def note(how: str) -> None:
        with lock:
            ended[how] += 1

    def ask(url: str) -> None:
        with Client(url, revision="2026-07-28", elicit=lambda message, schema: {"seat": message}, timeout=20) as client:
            connected.wait(20)
            while (number := next(numbers)) < calls:
                try:
                    answer = text_of(client.call_tool("book", {"city": str(number)}))
                    note("answered" if answer == f"{number}: Where?" else f"the answer of another: {answer}")
                except TransportClosed as lost:
                    # AnswerLost is one: the request was sent, and its answer will not come.
                    note(type(lost).__name__)
                except McpError as problem:
                    note(f"{type(problem).__name__}: {problem}")

    # Forked from one that is ready: a worker that is killed is replaced at once, however busy the machine is.
    options = ["--preload"]
    with under("gunicorn", "tests.features.mounted:application", workers=4, options=options, env=env) as running:
        threads = [threading.Thread(target=ask, args=(running.url,)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        connected.wait(20)
        while any(thread.is_alive() for thread in threads):
            over.wait(1)
            if workers := children(running.process.pid):
                os.kill(random.choice(workers), signal.SIGKILL)
                killed += 1
        for thread in threads:
            thread.join()
    return ended, killed


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--calls", type=int, default=20_000)
    asked, began = options.parse_args().calls, time.monotonic()
    outcomes, dead = run(asked)
    print(f"{asked:,} calls in {time.monotonic() - began:.0f} s, {dead} workers killed: {dict(outcomes)}")
