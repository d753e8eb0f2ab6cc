"""One owner floods a server with tasks, while another one calls.

    python -m tests.soak.tasks --seconds 60 --store sqlite

The server runs in a process of its own, and so does the flood: threads that make tasks of calls with large arguments,
of slow ones that fill the places, and of quick ones whose results are kept. At the end:

- the memory and the file of the server have stayed within bounds;
- the other owner's tasks were answered in about twice the time that they took alone, by the median;
- none of the other owner's tasks was refused, or forgotten before it was read.

The last line says what there was, and the exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from mcp_ref import Client, HttpRequest, McpError, Server, SqliteTasks, TaskRule, Tasks, Url

SIZE, SIZE_PER_OWNER = 96 << 20, 32 << 20
MAX_MEMORY = SIZE_PER_OWNER + (192 << 20)
"""Bytes by which the server may grow: what is kept of the owner who floods, and what messages under way take."""

MAX_DISK = 4 * SIZE_PER_OWNER
"""Bytes of the file, with the one that SQLite writes ahead."""

WORK = 0.1
"""Seconds that a task of the other owner works."""


def serve(path: str) -> None:
    """Serve until the end of the input; says its URL first."""
    tasks = Tasks(SqliteTasks(path) if path else None, size=SIZE, size_per_owner=SIZE_PER_OWNER, poll=0.05)
    server = Server("jobs", tasks=tasks)

    def who(request: HttpRequest) -> str:
        return request.headers["x-user"]

    server.tool("keep", task="required")(lambda text: text)
    server.tool("hold", task=TaskRule("required", again=True))(lambda text: time.sleep(4))
    server.tool("work", task="required")(lambda: time.sleep(WORK))
    with server.serve_http(authenticate=who) as http:
        print(http.url, flush=True)
        sys.stdin.read()


def flood(url: str, threads: int) -> None:
    """Make tasks, as fast as they are taken, until the end of the input; says how many, and what was refused."""
    counts: Counter[str] = Counter()

    def call(number: int) -> None:
        with Client(Url(url, headers={"X-User": "flood"}), revision="2026-07-28", tasks=True) as client:
            for turn in range(number, 1 << 60, threads):
                name, size = ("hold", 1 << 20) if turn % 4 == 0 else ("keep", (3 << 20, 1 << 10)[turn % 2])
                try:
                    client.call_tool_as_task(name, {"text": "x" * size})
                    counts["made"] += 1
                except McpError as problem:
                    counts[str(problem)[:40]] += 1

    for number in range(threads):
        threading.Thread(target=call, args=(number,), daemon=True).start()
    sys.stdin.read()
    print(dict(counts), flush=True)


def memory_of(process: int) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(seconds: float, store: str, threads: int, times: float) -> int:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as open_things:
        path = str(Path(folder, "tasks.db")) if store == "sqlite" else ""

        def start(*arguments: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "tests.soak.tasks", *arguments]
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            return open_things.enter_context(child)

        server = start("--serve", path)
        assert server.stdout is not None and server.stdin is not None
        url = server.stdout.readline().strip()
        client = open_things.enter_context(
            Client(Url(url, headers={"X-User": "other"}), revision="2026-07-28", tasks=True, timeout=60)
        )
        most, disk = 0, 0

        def measure(seconds: float) -> list[float]:
            nonlocal most, disk
            took, end = list[float](), time.monotonic() + seconds
            while time.monotonic() < end:
                began = time.monotonic()
                client.call_tool("work")
                took.append(time.monotonic() - began)
                most = max(most, memory_of(server.pid))
                disk = max(disk, sum(each.stat().st_size for each in Path(folder).iterdir()))
            return sorted(took)

        alone = measure(min(seconds / 4, 10))
        before, most = memory_of(server.pid), 0
        flooding = start("--flood", url, "--threads", str(threads))
        during = measure(seconds)
        said, _ = flooding.communicate()
        client.close()
        server.stdin.close()

    def slowest(took: list[float]) -> float:
        return took[len(took) * 19 // 20]

    before_it, meanwhile = statistics.median(alone), statistics.median(during)
    print(f"the flood: {said.strip()}")
    print(
        f"the other owner: {len(during)} tasks; {before_it * 1000:.0f} ms alone, {meanwhile * 1000:.0f} ms meanwhile "
        f"({meanwhile / before_it:.2f} times); the slowest but one of twenty {slowest(alone) * 1000:.0f} and "
        f"{slowest(during) * 1000:.0f} ms, the slowest {during[-1] * 1000:.0f} ms"
    )
    wrong = {
        "memory": most - before > MAX_MEMORY,
        "disk": disk > MAX_DISK,
        "time": meanwhile > times * before_it,
    }
    print(f"memory: {before >> 20} MiB before, {most >> 20} MiB at most; disk: {disk >> 20} MiB at most; "
          f"wrong: {', '.join(name for name, is_wrong in wrong.items() if is_wrong) or 'nothing'}")  # fmt: skip
    return int(any(wrong.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument(
        "--times", type=float, default=2.2, help="how much longer another owner may wait, in the median"
    )
    parser.add_argument("--serve", metavar="PATH")
    parser.add_argument("--flood", metavar="URL")
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve)
    elif given.flood is not None:
        flood(given.flood, given.threads)
    else:
        sys.exit(main(given.seconds, given.store, given.threads, given.times))
