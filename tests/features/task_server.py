"""A server with tasks: `make_server()`, or over stdio `python -m tests.features.task_server [PLACE]`, with short
leases; and the stores that several processes share, each by its place."""

from __future__ import annotations

import sqlite3
import sys
import threading
from typing import Any

from mcp_ref import Context, InvalidParams, Server, SqliteTasks, TaskRule, Tasks, ToolError

LIMIT = 5.0


class Failing(SqliteTasks):
    """Fails while it is told to."""

    broken = False

    def _run(self, statement: str, values: Any = ()) -> Any:
        if self.broken and not statement.startswith("SELECT"):
            raise sqlite3.OperationalError("database or disk is full")
        return super()._run(statement, values)


def store_at(place: Any, **options: Any) -> Any:
    """The store of a file, or of the URL of a Redis server: that of the recipe."""
    if not str(place).startswith("redis://"):
        return SqliteTasks(place, **options)
    from examples.recipes.redis_tasks import RedisTasks

    return RedisTasks(place, **options)


def make_server(tasks: Tasks | None = None, **options: Any) -> Server:
    server = Server("jobs", "1", tasks=tasks or Tasks(poll=0.05), **options)
    server.released = threading.Event()  # type: ignore[attr-defined]

    @server.tool(task=TaskRule("optional", after=None))
    def book(city: str, ctx: Context) -> str:
        """One question before it becomes a task, two after."""
        first = ctx.elicit("Name?", {"name": {"type": "string"}})["content"]["name"]
        ctx.become_task("booking")
        second = ctx.elicit("Seat?", {"seat": {"type": "string"}})["content"]["seat"]
        ctx.status("nearly there")
        third = ctx.elicit("Meal?", {"meal": {"type": "string"}})["content"]["meal"]
        return f"{city}: {first}, {second}, {third}"

    @server.tool(task="required")
    def wait(ctx: Context) -> str:
        """Ends when it is released, or cancelled."""
        for _ in range(6_000):
            ctx.check_cancelled()
            if server.released.wait(0.01):  # type: ignore[attr-defined]
                return "released"
        raise ToolError("nobody came")

    @server.tool(task="optional")
    def deaf() -> str:
        """Looks at no cancellation."""
        server.released.wait(LIMIT)  # type: ignore[attr-defined]
        return "released"

    @server.tool(task="optional")
    def fail(how: str) -> str:
        """Fails, in one of two ways."""
        raise ToolError("it broke") if how == "tool" else InvalidParams("it is refused", {"why": "so"})

    @server.tool(task="optional")
    def ask_two(ctx: Context) -> str:
        """Two questions at once."""
        asks = [lambda: ctx.elicit("Name?", {"name": {"type": "string"}}), ctx.roots]
        name, roots = ctx.ask_all(*asks)
        return f"{name['content']['name']}, {len(roots)} folders"

    @server.tool(task="optional")
    def ask_one(ctx: Context) -> str:
        """One question."""
        return f"asked {ctx.elicit('Name?', {'name': {'type': 'string'}})['content']['name']}"

    @server.tool(task="required")
    def must() -> str:
        """Is always a task."""
        return "done"

    @server.tool(task="required")
    def confirm_delete(filename: str, ctx: Context) -> str:
        """What the example client of the SDK for TypeScript calls first."""
        answer = ctx.elicit(f"Delete {filename}?", {"confirm": {"type": "boolean"}})
        return f"deleted: {answer['content']['confirm']}"

    @server.tool(task="required")
    def write_haiku(topic: str, ctx: Context) -> str:
        """And second."""
        return f"Haiku: {ctx.sample(topic, max_tokens=50)['content']['text']}"

    @server.tool(task="optional")
    def steps(ctx: Context) -> str:
        """Reports how far it is."""
        for done in (1, 2):
            ctx.progress(done, 2, f"step {done}")
        return f"task: {ctx.task_id is not None}"

    @server.tool(task=TaskRule("required", again=True))
    def again(path: str, ctx: Context) -> str:
        """Two questions, and a line in a file for each run; it stays for ever in the first."""
        with open(path, "a", encoding="utf-8") as file:
            file.write("run\n")
        first = ctx.elicit("Name?", {"name": {"type": "string"}})["content"]["name"]
        with open(path, encoding="utf-8") as file:
            if len(file.readlines()) == 1:
                server.released.wait()  # type: ignore[attr-defined]
        second = ctx.elicit("Seat?", {"seat": {"type": "string"}})["content"]["seat"]
        return f"{first}, {second}"

    @server.tool()
    def ask_client(ctx: Context) -> str:
        """Has the client make a task of a question."""
        task = ctx.elicit_as_task("Name?", {"name": {"type": "string"}})
        return f"{task.task_id is not None} {task.result(LIMIT)['content']['name']}"

    @server.tool()
    def plain() -> str:
        """Is never a task."""
        return "plain"

    return server


ANSWERS = {"Name?": {"name": "Ann"}, "Seat?": {"seat": "12A"}, "Meal?": {"meal": "soup"}}


def elicit(message: str, schema: Any) -> Any:
    """Answers every question of these tools."""
    return ANSWERS[message]


if __name__ == "__main__":
    store = None
    if len(sys.argv) > 1 and sys.argv[1] != "--http":
        store = store_at(sys.argv[1], lease=0.5)
    server = make_server(Tasks(store, poll=0.05))
    if "--http" in sys.argv:
        with server.serve_http() as http:
            print(http.url, flush=True)
            http.wait()
    else:
        server.run()
