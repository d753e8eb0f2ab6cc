"""Lesson 24: a task that survives its process.

Era:       session
Revision:  2025-11-25
Page:      basic/utilities/tasks
Needs:     lesson 23

`SqliteTasks` keeps tasks in a file. Here a first process begins a task, whose tool asks something, and dies in the
middle of its work. A second process finds that out, since the lease of the first has run out, and runs the tool again
from the beginning: the answer that was given is there. A tool says with `again=True` that this does no harm; without it
the task fails.

    python examples/24_a_task_that_survives.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp_ref import Client, Context, Server, SqliteTasks, TaskRule, Tasks, text_of

folder = Path(os.environ.get("LESSON_24", "") or tempfile.mkdtemp())
server = Server("printer", tasks=Tasks(SqliteTasks(folder / "tasks.db", lease=0.5), poll=0.05))
asked: list[str] = []


@server.tool(task=TaskRule("required", again=True))
def print_book(title: str, ctx: Context) -> str:
    """Print a book; in the first process the power fails."""
    answer = ctx.elicit("Which paper?", {"paper": {"type": "string"}})
    if "LESSON_24" in os.environ:
        os._exit(9)
    return f"{title}, on {answer.get('content', {})['paper']} paper"


def elicit(message: str, schema: Any) -> Any:
    asked.append(message)
    return {"paper": "thick"}


with Client(server, revision="2025-11-25", tasks=True, elicit=elicit) as client:
    if "LESSON_24" in os.environ:
        task = client.call_tool_as_task("print_book", {"title": "Emma"})
        (folder / "id").write_text(task.task_id or "", "utf-8")
        task.result()

    # The first process: this program again. It ends as if it was killed.
    ended = subprocess.run([sys.executable, __file__], env={**os.environ, "LESSON_24": str(folder)}, check=False)
    print("the first process ended with", ended.returncode)

    task = client.task((folder / "id").read_text("utf-8"))
    print("its result:", text_of(task.result(timeout=10)))
    print("asked here:", asked)
server.close()

# Output:
#
# the first process ended with 9
# its result: Emma, on thick paper
# asked here: []
