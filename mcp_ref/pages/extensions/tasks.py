"""Tasks as the extension `io.modelcontextprotocol/tasks`: `tasks/get`, `tasks/update`, `tasks/cancel`,
`notifications/tasks`, and a `tools/call` that is answered with `resultType: "task"`.

Here the server decides, call by call, whether it answers with a task; it only must not to a client that did not declare
the extension in that very request. What a task asks, and what it came to, stands in its state:

    client   tools/call                  ->   {resultType: "task", taskId, status: "working", ...}            server
    client   tasks/get                   ->   ... status: "input_required", inputRequests: {key: question}
    client   tasks/update {key: answer}  ->   {}
    client   tasks/get                   ->   ... status: "completed", result: {...}

Spec:      the extension's own page, specification/draft/tasks (2026-07-28)
Upholds:   spec_notes/extensions/tasks.md
Not here:  the other design, of 2025-11-25, and what a record of a task says (basic/tasks); running tasks
           (tasks/running, server/tasks); the handle of a client (client/tasks)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired, TypedDict, cast

from mcp_ref.errors import InvalidParams
from mcp_ref.kit.typed.checking import SchemaMismatch, checker, projector
from mcp_ref.kit.typed.shapes import RequiredIn
from mcp_ref.pages.basic import tasks as page
from mcp_ref.pages.basic.extensions import Extension, Listen
from mcp_ref.pages.basic.mrtr import KINDS
from mcp_ref.pages.basic.tasks import TaskRequestParams, TaskStatus, open_questions
from mcp_ref.revisions import LATEST_STATELESS, Revision
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method
from mcp_ref.wire.types import EmptyResult, NotificationParams, Result

if TYPE_CHECKING:
    from mcp_ref.server.session import Context
    from mcp_ref.tasks.running import Tasks

NAME: Final = "io.modelcontextprotocol/tasks"
TOLD: Final = "notifications/tasks"

# -- types --------------------------------------------------------------------------------------------------------


class TaskState(TypedDict):
    """The state of a task. `ttlMs`: the milliseconds that it lives, from its creation; null for ever."""

    taskId: str
    status: TaskStatus
    statusMessage: NotRequired[str]
    createdAt: str
    lastUpdatedAt: str
    ttlMs: NotRequired[Annotated[int | None, RequiredIn("2026-07-28", checked=False)]]
    pollIntervalMs: NotRequired[int]


class DetailedTask(TaskState):
    """The same with what belongs to the status: the questions that are open, the result, or the error."""

    inputRequests: NotRequired[JsonObject]
    result: NotRequired[JsonObject]
    error: NotRequired[JsonObject]


class TaskCreatedResult(Result, TaskState):
    """The request has become a task; `resultType` is "task"."""


class DetailedTaskResult(Result, DetailedTask):
    """The state of a task."""


class UpdateTaskRequestParams(TaskRequestParams):
    """Answers to questions of a task, by key."""

    inputResponses: JsonObject


class TasksNotificationParams(NotificationParams, DetailedTask):
    """The state of a task."""


# -- rows ---------------------------------------------------------------------------------------------------------

_ROW: Final[Any] = {"since": "2026-07-28", "extension": NAME}
METHODS = (
    Method("tasks/get", "client", "extensions/tasks", "ask for the state of a task, its questions and its result",
           TaskRequestParams, DetailedTaskResult, **_ROW),
    Method("tasks/update", "client", "extensions/tasks", "answer questions of a task", UpdateTaskRequestParams,
           EmptyResult, **_ROW),
    Method("tasks/cancel", "client", "extensions/tasks", "give a task up", TaskRequestParams, EmptyResult, **_ROW),
    Method(TOLD, "server", "extensions/tasks", "say that the state of a task has changed", TasksNotificationParams,
           **_ROW),
)  # fmt: skip

TASKS: Final = Extension(
    NAME,
    rows=METHODS,
    # MUST: a task in answer to any other method is an invalid response
    # (2026-07-28/extensions/tasks#capability-negotiation)
    result_types={"tools/call": {"task": TaskCreatedResult}},
    # MUST: `Mcp-Name` is the task's id (2026-07-28/extensions/tasks#streamable-http-routing-headers)
    mirrored=dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
    listens={"taskIds": Listen(TOLD, "taskId")},
)
"""The extension, as a client declares it; `served` is the server's."""

# -- the server's half --------------------------------------------------------------------------------------------


def served(tasks: Tasks, result_type: Any) -> Extension:
    """Return the extension with a server's answers.

    Args:
        result_type: of the requests that become tasks.
    """

    def honour(ctx: Context, asked: list[str]) -> list[str]:
        # MAY: agree to tell of some of the tasks asked for (2026-07-28/extensions/tasks#task-status-notifications)
        return [task_id for task_id in asked[:MAX_TOLD] if tasks.has(task_id, ctx.owner)]

    def now(ctx: Context, task_id: str) -> JsonObject | None:
        # A client that asks after the last change would wait for ever: so it is told the present state.
        record = tasks.store.get(task_id)
        return None if record is None else cast(JsonObject, shown(record, tasks, result_type, ctx.revision))

    return TASKS._replace(
        listens={"taskIds": Listen(TOLD, "taskId", honour, now)},
        answers={
            "tasks/get": lambda ctx, params: shown(
                tasks.find(params["taskId"], ctx.owner), tasks, result_type, ctx.revision
            ),
            "tasks/update": lambda ctx, params: tasks_update(tasks, ctx.owner, params, ctx.revision),
            "tasks/cancel": lambda ctx, params: tasks_cancel(tasks, ctx.owner, params),
        },
    )


MAX_TOLD: Final = 1_000
"""Tasks of which one subscription is told."""


def created(record: JsonObject, tasks: Tasks) -> JsonObject:
    """Return the answer to a call that has become a task; the record is in the store already."""
    # MUST: `resultType` is "task", here and nowhere else (2026-07-28/extensions/tasks#polymorphic-results)
    return {"resultType": "task", **_state(record, tasks)}


def _state(record: JsonObject, tasks: Tasks) -> JsonObject:
    # A task MUST NOT be `failed` for anything but a JSON-RPC error; MUST: whatever has a result is `completed`
    # (2026-07-28/extensions/tasks#task-status, #task-execution-errors)
    return cast(JsonObject, page.shown(record, tasks, errors_fail=False, milliseconds="Ms"))


def shown(record: JsonObject, tasks: Tasks, result_type: Any, revision: Revision = LATEST_STATELESS) -> DetailedTask:
    """Return a record as the extension shows a task: for `tasks/get` and for `notifications/tasks`."""
    state = cast(DetailedTask, _state(record, tasks))
    # MUST: the shape is that of the status: with all outstanding `inputRequests`, with `result`, with `error`, or bare
    # (2026-07-28/extensions/tasks#response)
    if asked := open_questions(record):
        state["inputRequests"] = asked
    outcome = record["outcome"] or {}
    if "result" in outcome:
        project = projector(result_type, revision, replies=True)
        state["result"] = {"resultType": "complete", **(project(outcome["result"]) if project else outcome["result"])}
    if "error" in outcome:
        # MUST: a failed task has its error (2026-07-28/extensions/tasks#task-execution-errors)
        state["error"] = outcome["error"]
    return state


def tasks_update(
    tasks: Tasks, owner: str | None, params: UpdateTaskRequestParams, revision: Revision = LATEST_STATELESS
) -> EmptyResult:
    """Answer `tasks/update`: take the answers to open questions, and ignore all others.

    Raises: InvalidParams: the owner has no such task; an answer does not fit its question: then none is taken.
    Spec: 2026-07-28/extensions/tasks#task-update-requests
    """
    given, record = params["inputResponses"], tasks.find(params["taskId"], owner)
    # MAY: a part of the answers is taken; SHOULD: those for other keys are ignored
    # (2026-07-28/extensions/tasks#response)
    answers: JsonObject = {}
    for key, question in open_questions(record).items():
        if key in given:
            try:
                checker(KINDS[question["method"]].result, revision)(given[key], f"params.inputResponses.{key}")
            except SchemaMismatch as mismatch:
                raise InvalidParams(f"Invalid params: {mismatch}", {"path": mismatch.path}) from None
            answers[key] = {"result": given[key]}
    tasks.answer(record["id"], answers)
    # MUST: acknowledge with an empty result (2026-07-28/extensions/tasks#response)
    return {}


def tasks_cancel(tasks: Tasks, owner: str | None, params: TaskRequestParams) -> EmptyResult:
    """Answer `tasks/cancel`, also of a task that has ended, with an acknowledgement.

    Raises: InvalidParams: the owner has no such task.
    Spec: 2026-07-28/extensions/tasks#task-cancellation
    """
    # MUST: acknowledge a cancel with an empty result (2026-07-28/extensions/tasks#response)
    tasks.end(tasks.find(params["taskId"], owner)["id"], {"cancelled": "The task was cancelled by request."})
    return {}
