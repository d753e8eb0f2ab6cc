"""What tasks cost: `python -m tests.benchmarks.tasks` prints one run.

Answering with a handle against the direct call; how soon a result is there after its handler has ended; what a commit
of SQLite adds; a thousand tasks that wait for input; tasks a second. Run it while the machine does nothing else.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_ref import Client, Context, ErrorResponse, MemoryTasks, Server, SqliteTasks, Tasks, TaskStore

ENDS: list[float] = []


def best(call: Callable[[], object], times: int = 100) -> float:
    """Seconds of a call: the best of five runs."""
    runs = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(times):
            call()
        runs.append((time.perf_counter() - began) / times)
    return min(runs)


def make_server() -> Server:
    server = Server("marks", tasks=Tasks())

    @server.tool(task="optional")
    def quick() -> str:
        return "ok"

    @server.tool(task="optional")
    def slow() -> str:
        time.sleep(0.3)
        ENDS.append(time.perf_counter())
        return "ok"

    @server.tool(task="required")
    def ask(ctx: Context) -> str:
        return str(ctx.elicit("Name?", {"name": {"type": "string"}})["content"])

    return server


def answered(way: str, target: Any, revision: str) -> None:
    """A handle against the direct call, and a result after the end of its handler."""
    with Client(target, revision=revision) as plain, Client(target, revision=revision, tasks=True) as client:
        client.call_tool_as_task("quick").result(5)
        direct = best(lambda: plain.call_tool("quick"), 60)
        handle = best(lambda: client.call_tool_as_task("quick"), 60)
        print(f"{way} {revision}: a direct call {direct * 1e6:.0f} us, a handle {handle * 1e6:.0f} us")
        after = []
        for _ in range(5):
            client.call_tool_as_task("slow", push=revision == "2026-07-28").result(5)
            after.append(time.perf_counter() - ENDS[-1])
        print(f"    a result {statistics.median(after) * 1e3:.1f} ms after its handler, at most {max(after) * 1e3:.1f}")


def commit(store: TaskStore) -> float:
    """Seconds of one change of a record."""
    record: dict[str, Any] = {"id": "x", "owner": "", "created": time.time(), "ttl": None, "version": 1,
                              "outcome": None, "holder": store.holder}  # fmt: skip
    store.create(record)

    def change() -> None:
        record["version"] += 1
        store.replace(dict(record), record["version"] - 1)

    return best(change, 300)


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def waiting() -> None:
    """A thousand tasks that wait for input, and one more."""
    server = make_server()
    with Client(server, revision="2026-07-28", tasks=True, elicit=lambda message, schema: {}) as client:
        client.call_tool_as_task("ask", by_hand=True)
        gc.collect()
        before = resident()
        for _ in range(999):
            client.call_tool_as_task("ask", by_hand=True)
        time.sleep(2)
        each, began = (resident() - before) / 999 / 1024, time.process_time()
        time.sleep(3)
        used = (time.process_time() - began) / 3 * 100
        print(f"1,000 tasks that wait: {each:.0f} KB each, {used:.2f} % of a core")
        try:
            client.call_tool_as_task("ask")
        except ErrorResponse as problem:
            print(f"    one more: {problem}")
    began = time.perf_counter()
    server.close(10)
    print(f"    closed in {time.perf_counter() - began:.2f} s; {threading.active_count()} thread is left")


def main() -> None:
    server = make_server()
    for revision in ("2025-11-25", "2026-07-28"):
        answered("memory", server, revision)
        with server.serve_http() as http:
            answered("HTTP", http.url, revision)
    memory, sqlite = commit(MemoryTasks()), commit(SqliteTasks(Path(tempfile.mkdtemp(), "tasks.db")))
    print(f"a commit: in memory {memory * 1e6:.1f} us, sqlite {sqlite * 1e6:.0f} us")
    waiting()
    with Client(server, revision="2026-07-28", tasks=True) as client:
        rates = []
        for _ in range(3):
            began = time.perf_counter()
            for handle in [client.call_tool_as_task("quick") for _ in range(300)]:
                handle.result(5)
            rates.append(300 / (time.perf_counter() - began))
        print(f"{max(rates):.0f} tasks a second, in memory")
    server.close()


if __name__ == "__main__":
    main()
