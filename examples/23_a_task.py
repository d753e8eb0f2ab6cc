"""Lesson 23: a call that is answered with a handle: tasks, in both designs.

Era:       both
Revision:  2025-11-25, 2026-07-28
Page:      basic/utilities/tasks, extensions/tasks
Needs:     lessons 5 and 14

A tool that takes long, or has to wait for a person, can be a task. The caller gets a handle at once, looks at the state
of the task when it likes, answers what it asks, and fetches the result in the end. The tool itself is written as any
other: it waits in a thread of its own, and is not run again for a question.

Two designs exist. In 2025-11-25 the client says with `params.task` that a call is to be a task, and questions come
while it waits in `tasks/result`. In 2026-07-28 the server decides, and questions and result stand in the answer to
`tasks/get`.

    python examples/23_a_task.py
"""

from typing import Any

from mcp_ref import Client, Context, Server, TaskCancelled, Tasks, TraceEvent, text_of

server = Server("printer", tasks=Tasks(poll=0.05))


@server.tool(task="optional")
def print_book(title: str, ctx: Context) -> str:
    """Print a book."""
    ctx.status("looking for paper")
    answer = ctx.elicit("Which paper?", {"paper": {"type": "string"}})
    ctx.check_cancelled()
    ctx.status("printing")
    return f"{title}, on {answer.get('content', {})['paper']} paper"


def elicit(message: str, schema: Any) -> Any:
    return {"paper": "thick"}


methods: set[str] = set()


def note(event: TraceEvent) -> None:
    """Name what is sent, for the last line of each part."""
    if event.direction == "send" and isinstance(event.message, dict):
        methods.add(event.message.get("method", ""))


for revision in ("2025-11-25", "2026-07-28"):
    methods.clear()
    with Client(server, revision=revision, tasks=True, elicit=elicit, trace=note) as client:
        # Whether it is a task or not, `call_tool` returns the result.
        print(revision, text_of(client.call_tool("print_book", {"title": "Ulysses"})))

        # The handle: its id can be kept, and another process goes on with `client.task(task_id)`.
        task = client.call_tool_as_task("print_book", {"title": "Emma"})
        same = client.task(task.task_id or "")
        print("  result:", text_of(same.result(timeout=5)))
        print("  status:", task.status()["status"])

        # By hand: the questions wait until somebody answers them.
        task = client.call_tool_as_task("print_book", {"title": "Walden"}, by_hand=True)
        for _ in task:
            for key, question in task.questions.items():
                print("  asks:", question["params"]["message"])
                task.answer(key, {"action": "accept", "content": {"paper": "thin"}})
        print("  result:", text_of(task.result(timeout=5)))

        # Given up: the tool is told, and what it still does is dropped.
        task = client.call_tool_as_task("print_book", {"title": "Dune"}, by_hand=True)
        task.cancel()
        try:
            task.result(timeout=5)
        except TaskCancelled as problem:
            print("  cancelled:", problem)
    print("  sent:", ", ".join(sorted(method for method in methods if method.startswith("tasks/"))))

# Output:
#
# 2025-11-25 Ulysses, on thick paper
#   result: Emma, on thick paper
#   status: completed
#   asks: Which paper?
#   result: Walden, on thin paper
#   cancelled: The task was cancelled by request.
#   sent: tasks/cancel, tasks/get, tasks/result
# 2026-07-28 Ulysses, on thick paper
#   result: Emma, on thick paper
#   status: completed
#   asks: Which paper?
#   result: Walden, on thin paper
#   cancelled: The task was cancelled by request.
#   sent: tasks/cancel, tasks/get, tasks/update
