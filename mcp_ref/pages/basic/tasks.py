"""Tasks: a request that is answered with a handle, and whose result is fetched later. `tasks/get`, `tasks/result`,
`tasks/list`, `tasks/cancel`, `notifications/tasks/status`.

A request that can be a task says so with `params.task`. Either side may send one; who executes it is the *receiver*.

    requestor   tools/call {..., task: {ttl}}   ->   {task: {taskId, status: "working", ...}}                 receiver
    requestor   tasks/get {taskId}              ->   the same, as it is now
    requestor   tasks/result {taskId}           ->   blocks; meanwhile the receiver may ask; then what the request
                                                     would have returned

Spec:      basic/utilities/tasks (2025-11-25, experimental)
Upholds:   spec_notes/basic/utilities/tasks.md
Not here:  the other design, of 2026-07-28 (extensions/tasks); running tasks (tasks/running), and what of it is a
           server's (server/tasks) or a client's (client/tasks); asking for one, and following it
           (tasks/handle)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypedDict, cast

from mcp_ref.errors import (
    ErrorResponse,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    Refusal,
    RemoteProtocolError,
    RequestCancelled,
)
from mcp_ref.kit.threads.deadline import Cancel
from mcp_ref.kit.threads.workers import before_block
from mcp_ref.kit.typed.checking import projector
from mcp_ref.kit.typed.shapes import RequiredIn, Since, Until
from mcp_ref.pages.server.utilities.pagination import PaginatedRequestParams
from mcp_ref.wire import messages
from mcp_ref.wire.content import text_of
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method, Options
from mcp_ref.wire.transport import MAX_MESSAGE
from mcp_ref.wire.types import NotificationParams, RequestParams, Result

if TYPE_CHECKING:
    from mcp_ref.server.session import Context
    from mcp_ref.tasks.running import TaskRun, Tasks

RELATED: Final = "io.modelcontextprotocol/related-task"
"""The key of `_meta` that says to which task a message belongs."""

MAX_RESULT: Final = MAX_MESSAGE - (64 << 10)
"""Bytes that a result may have: what a message may, but for what stands around it."""

MAX_TTL: Final = 10**15
"""Milliseconds that anybody may ask a task to live: some 30,000 years."""

log = logging.getLogger("mcp_ref.tasks")

# -- types --------------------------------------------------------------------------------------------------------

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
ENDED: Final = frozenset({"completed", "failed", "cancelled"})


class Task(TypedDict):
    """The state of a task. `ttl`: the milliseconds that it lives, from its creation; null for ever."""

    taskId: str
    status: TaskStatus
    statusMessage: NotRequired[str]
    createdAt: str
    lastUpdatedAt: str
    # Servers exist that leave out a null.
    ttl: NotRequired[Annotated[int | None, RequiredIn("2025-11-25", checked=False)]]
    pollInterval: NotRequired[int]


class TaskMetadata(TypedDict):
    """The request is to become a task; `ttl`: the milliseconds that it should live."""

    ttl: NotRequired[int]


TaskAugmented = Annotated[TaskMetadata, Since("2025-11-25"), Until("2025-11-25")]


class CreateTaskResult(Result):
    """The request has become a task; its result has to be fetched."""

    task: Task


class TaskRequestParams(RequestParams):
    """The id of a task."""

    taskId: str


class GetTaskResult(Result, Task):
    """The state of a task."""


class CancelTaskResult(Result, Task):
    """The state of a task that was cancelled."""


class GetTaskPayloadResult(Result):
    """The result that the request would have returned, such as a `CallToolResult`."""


class ListTasksResult(Result):
    """One page of the requestor's tasks."""

    tasks: list[Task]
    nextCursor: NotRequired[str]


class TaskStatusNotificationParams(NotificationParams, Task):
    """The state of a task."""


class TaskRule(NamedTuple):
    """A rule for when a call of a tool becomes a task: `@server.tool(task=TaskRule("required", ttl=7200))`.

    Attributes:
        support: "optional": it also answers clients that follow no tasks, as any other tool. "required": it refuses
            them. "forbidden": it is never a task.
        after: seconds that a call may take before it becomes one; None: only when the handler calls
            `ctx.become_task()`. At 2025-11-25, where the client asks for a task, it is one at once.
        ttl: seconds that the task lives, if the client does not say.
        again: whether it may be run again, from its beginning, if the process that runs it dies and the store survives
            that; it then finds the answers that were given to its questions.
    """

    support: Literal["forbidden", "optional", "required"] = "optional"
    after: float | None = 0.0
    ttl: float | None = None
    again: bool = False


# -- rows ---------------------------------------------------------------------------------------------------------

_PAGE: Final = "basic/utilities/tasks"
_ALONE: Final[Any] = {"since": "2025-11-25", "until": "2025-11-25"}
METHODS = (
    Method("tasks/get", "both", _PAGE, "ask for the state of a task", TaskRequestParams, GetTaskResult,
           needs="receiver.tasks", **_ALONE),
    Method("tasks/result", "both", _PAGE, "wait for what a task comes to", TaskRequestParams, GetTaskPayloadResult,
           needs="receiver.tasks", **_ALONE),
    Method("tasks/list", "both", _PAGE, "ask for one page of the tasks", PaginatedRequestParams, ListTasksResult,
           needs="receiver.tasks.list", **_ALONE),
    Method("tasks/cancel", "both", _PAGE, "give a task up", TaskRequestParams, CancelTaskResult,
           needs="receiver.tasks.cancel", **_ALONE),
    Method("notifications/tasks/status", "both", _PAGE, "say that the state of a task has changed",
           TaskStatusNotificationParams, **_ALONE),
)  # fmt: skip


# -- what a record says -------------------------------------------------------------------------------------------


def open_questions(record: JsonObject) -> JsonObject:
    """Return the questions of a task that nobody has answered, by key."""
    if record["outcome"] is not None:
        return {}
    return {key: question for key, question in record["asked"].items() if key not in record["answered"]}


def status_of(record: JsonObject, *, errors_fail: bool) -> TaskStatus:
    """Return the status of a task, which follows from its outcome and its questions.

    Args:
        errors_fail: whether a result with `isError` is a failure, as here; in the other design it is not.
    """
    if (outcome := record["outcome"]) is None:
        # SHOULD: `input_required` while messages are needed from the requestor
        # (basic/utilities/tasks#input-required-status)
        return "input_required" if open_questions(record) else "working"
    if "cancelled" in outcome:
        return "cancelled"
    # SHOULD: a tool call whose result has `isError` is `failed` (basic/utilities/tasks#task-execution-errors)
    failed = "error" in outcome or (errors_fail and outcome["result"].get("isError") is True)
    return "failed" if failed else "completed"


def message_of(record: JsonObject) -> str | None:
    """Return what is said of the state for a person: of one that failed, or was cancelled, why."""
    outcome = record["outcome"] or {}
    # SHOULD: `statusMessage` says why a task failed (basic/utilities/tasks#task-execution-errors;
    # 2026-07-28/extensions/tasks#task-execution-errors)
    if "error" in outcome:
        return str(outcome["error"]["message"])
    if "cancelled" in outcome:
        return str(outcome["cancelled"])
    failed = outcome.get("result", {}).get("isError") is True
    return text_of(outcome["result"])[:1_000] if failed else cast("str | None", record["message"])


def timestamp(seconds: float) -> str:
    """Return a point in time as ISO 8601 in UTC, such as "2025-11-25T10:30:00.250Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"


def shown(record: JsonObject, tasks: Tasks, *, errors_fail: bool = True, milliseconds: str = "") -> Task:
    """Return a record as the page shows a task.

    Args:
        errors_fail: see `status_of`; milliseconds: "Ms" in the other design, whose names of durations end so.
    """
    # MUST: `createdAt` and `lastUpdatedAt` in ISO 8601, and the actual `ttl`, in every task
    # (basic/utilities/tasks#ttl-and-resource-management)
    ttl, message = record["ttl"], message_of(record)
    state = {
        "taskId": record["id"],
        "status": status_of(record, errors_fail=errors_fail),
        "createdAt": timestamp(record["created"]),
        "lastUpdatedAt": timestamp(record["updated"]),
        f"ttl{milliseconds}": None if ttl is None else max(1, round(ttl * 1000)),
        # MAY: suggest a `pollInterval` (basic/utilities/tasks#ttl-and-resource-management)
        f"pollInterval{milliseconds}": max(1, round(tasks.poll * 1000)),
    }
    return cast(Task, state if message is None else {**state, "statusMessage": message})


def related(task_id: str, message: JsonObject) -> JsonObject:
    """Return a result, or params, with the task that it belongs to in `_meta`."""
    # MUST: every request, notification and response of a task carries `io.modelcontextprotocol/related-task`
    # (basic/utilities/tasks#associating-task-related-messages, #related-task-metadata)
    return {**message, "_meta": {**(message.get("_meta") or {}), RELATED: {"taskId": task_id}}}


def unrelated(answer: JsonObject) -> JsonObject:
    """Return an answer without what `related` adds, as it is outside a task."""
    meta = {key: value for key, value in (answer.get("_meta") or {}).items() if key != RELATED}
    rest = {key: value for key, value in answer.items() if key != "_meta"}
    return {**rest, "_meta": meta} if meta else rest


def kept(result: JsonObject) -> JsonObject:
    """Return a result as it is kept: a copy, of what JSON can say. Raises: InternalError: no message can carry it."""
    text = messages.encode(result)
    if len(text) > MAX_RESULT:
        # An answer that is too long would end the connection of whoever asks for it, again and again.
        raise InternalError(f"The result is too large: {len(text)} bytes", {"limit": MAX_RESULT})
    return cast(JsonObject, messages.decode(text))


# -- the receiver's half ------------------------------------------------------------------------------------------


class Waiting:
    """A `tasks/result` that waits. The newest of a task carries its questions to the requestor, as long as it waits.

    Attributes:
        ctx: a `Context` of a server's handler, or a `ClientContext`, which asks nothing.
        asks: whether its requestor can be asked.
    """

    def __init__(self, ctx: Any) -> None:
        self.ctx, self.asks = ctx, ctx.asks
        self._asked, self._cancel = "", Cancel()  # the question that is on its way, and what takes it back

    def give_way(self) -> None:
        """Take back a question that is on its way: a newer one carries it."""
        self._cancel("another tasks/result of this task has come")

    def _is_first(self, task_id: str, tasks: Tasks) -> bool:
        """Return whether it is the newest of those whose requestor can be asked. When that one leaves, another takes
        over.
        """
        return next((each for each in reversed(tasks.carriers[task_id]) if each.asks), None) is self

    def look(self, record: JsonObject | None) -> None:
        """See the record as it is now; None: it is forgotten. Called after each change, and every second; never blocks.

        A question that needs no answer any more is taken back, and the wait of a client that is gone ends.
        """
        if record is None or self._asked not in open_questions(record):
            self._cancel("the task no longer needs an answer")
        # MAY: a stream that answers `tasks/result` is left at any time (basic/utilities/tasks#retrieving-task-results)
        if self.ctx.incoming.reply.abandoned():
            self.ctx.incoming.cancel("the client has hung up")
            self.ctx.incoming.drop()

    def until_end(self, record: JsonObject, tasks: Tasks) -> JsonObject:
        """Return the record as it is when the task has ended; meanwhile its questions are asked."""
        task_id, owner = record["id"], self.ctx.incoming.owner
        with tasks.carried(task_id, self):
            for older in tasks.carriers[task_id][:-1]:
                older.give_way()
            while record["outcome"] is None:
                self.ctx.check_cancelled()
                key, question = next(iter(open_questions(record).items()), ("", None))
                if question is None or not self._is_first(task_id, tasks):
                    before_block()
                    tasks.wait(record)
                else:
                    self._ask(task_id, key, question, tasks)
                record = tasks.find(task_id, owner)
        return record

    def _ask(self, task_id: str, key: str, question: JsonObject, tasks: Tasks) -> None:
        """Have the requestor answer a question of the task. Raises: what a transport raises."""
        # Entered first, looked at second: who takes it back in between is seen here, or sees it.
        self._asked, self._cancel = key, (cancel := Cancel())
        self.look(tasks.store.get(task_id))
        if not self._is_first(task_id, tasks):
            return
        # MUST: the question carries `related-task` (basic/utilities/tasks#input-required-status)
        params, options = related(task_id, question["params"]), Options(timeout=None, cancel=cancel)
        try:
            answer = {"result": unrelated(self.ctx.request(question["method"], params, options))}
        except RequestCancelled:
            return  # it was taken back; the caller looks again
        except ErrorResponse as refusal:
            answer = {"error": {"code": refusal.code, "message": refusal.message, "data": refusal.data}}
        except RemoteProtocolError as problem:
            # Asked again it would answer the same.
            answer = {"error": {"code": InternalError.code, "message": f"The answer is malformed: {problem}"}}
        except LocalProtocolError as problem:
            # This requestor cannot be asked; another conversation of the same owner may be.
            log.info("cannot ask %s of %s here: %s", question["method"], task_id, problem)
            self.asks = False
            return
        tasks.answer(task_id, {key: answer})


def answering(
    tasks: Tasks, result_type: Callable[[str], Any], page_size: Callable[[], int]
) -> dict[str, Callable[[Any, Any], Any]]:
    """Return what answers `tasks/...`, by method, of either side that executes tasks.

    Args:
        result_type: of a method that becomes a task; page_size: of lists.
    """
    return {
        "tasks/get": lambda ctx, params: tasks_get(tasks, ctx.incoming.owner, params),
        "tasks/result": lambda ctx, params: tasks_result(tasks, ctx, result_type, params),
        "tasks/list": lambda ctx, params: tasks_list(tasks, ctx.incoming.owner, page_size(), params),
        "tasks/cancel": lambda ctx, params: tasks_cancel(tasks, ctx.incoming.owner, params),
    }


def lifetime(asked: TaskMetadata, default: float | None) -> float | None:
    """Return the seconds that a task should live. Raises: InvalidParams: its `TaskMetadata` has no length of time."""
    if "ttl" not in asked:
        return default
    if not 0 < asked["ttl"] <= MAX_TTL:
        problem = f"Invalid params: params.task.ttl must be above 0, and at most {MAX_TTL}"
        raise InvalidParams(problem, {"path": "params.task.ttl"})
    return asked["ttl"] / 1000


def tasks_get(tasks: Tasks, owner: str | None, params: TaskRequestParams) -> GetTaskResult:
    """Answer `tasks/get` with the state of a task. Raises: InvalidParams: the owner has no such task."""
    # An answer to `tasks/get` SHOULD NOT have `related-task` (basic/utilities/tasks#related-task-metadata)
    return cast(GetTaskResult, shown(tasks.find(params["taskId"], owner), tasks))


def tasks_result(tasks: Tasks, ctx: Any, result_type: Callable[[str], Any], params: TaskRequestParams) -> JsonObject:
    """Answer `tasks/result` with what the request would have returned, once that is there.

    Meanwhile it asks the requestor what the task asks: here is where a question of the task gets its answer. A newer
    `tasks/result` of the same task takes the questions over, also one that is on its way; the first answer counts.

    Args:
        ctx: a `Context`, or a `ClientContext`, which asks nothing.
        result_type: of the method that became the task.

    Raises: InvalidParams: the owner has no such task. A Refusal: the error that the request came to, or -32603 for one
        that was cancelled.
    Blocks: until the task has ended, or was forgotten, or the client is gone for good. No place of a worker is held.
    Spec: basic/utilities/tasks#result-retrieval, #input-required-status
    """
    task_id, owner = params["taskId"], ctx.incoming.owner
    record = tasks.find(task_id, owner)
    # MUST: block until the task has ended (basic/utilities/tasks#result-retrieval)
    if record["outcome"] is None:
        record = Waiting(ctx).until_end(record, tasks)
    # SHOULD: log the retrieval of a result (basic/utilities/tasks#audit-and-logging)
    log.info("read %s by %r", task_id, owner)
    # MUST: return what the request would have returned, result or that very error
    # (basic/utilities/tasks#result-retrieval, #task-execution-errors)
    outcome = record["outcome"]
    if "error" in outcome:
        raise Refusal(outcome["error"]["message"], outcome["error"].get("data"), code=outcome["error"]["code"])
    if "cancelled" in outcome:
        # The page has no result for this.
        raise InternalError(f"The task was cancelled: {outcome['cancelled']}")
    project = projector(result_type(record["method"]), ctx.revision, replies=True)
    # MUST: the result of `tasks/result` carries `related-task` (basic/utilities/tasks#related-task-metadata)
    return related(task_id, project(outcome["result"]) if project else outcome["result"])


def tasks_list(tasks: Tasks, owner: str | None, page_size: int, params: PaginatedRequestParams) -> ListTasksResult:
    """Answer `tasks/list` with one page of the owner's tasks, oldest first. Raises: InvalidParams: a bad cursor."""
    after, cursor = None, params.get("cursor")
    if cursor is not None:
        # As in other lists it names the last entry of the page before; if that is forgotten the client starts over.
        last = tasks.store.get(cursor)
        if last is None or last["owner"] != owner:
            # MUST: -32602 for a cursor that is not valid (basic/utilities/tasks#protocol-errors)
            raise InvalidParams("Invalid cursor")
        after = (last["created"], last["id"])
    # MUST: list only the tasks of who asks (basic/utilities/tasks#task-isolation-and-access-control)
    # SHOULD: pages of a bounded size (basic/utilities/tasks#task-listing)
    records = [] if owner is None else tasks.store.of_owner(owner, after, page_size + 1)
    result: ListTasksResult = {"tasks": [shown(record, tasks) for record in records[:page_size]]}
    if len(records) > page_size:
        # MUST: `nextCursor` if there are more (basic/utilities/tasks#task-listing)
        result["nextCursor"] = records[page_size - 1]["id"]
    return result


def tasks_cancel(tasks: Tasks, owner: str | None, params: TaskRequestParams) -> CancelTaskResult:
    """Answer `tasks/cancel` with the state of the task, which is `cancelled`. What its handler still does is dropped.

    Raises: InvalidParams: the owner has no such task, or it has ended.
    Spec: basic/utilities/tasks#task-cancellation
    """
    record = tasks.find(params["taskId"], owner)
    # MUST: be `cancelled` before the answer, and stay so; SHOULD: stop the work
    # (basic/utilities/tasks#task-cancellation)
    if not tasks.end(record["id"], {"cancelled": "The task was cancelled by request."}):
        status = status_of(tasks.find(params["taskId"], owner), errors_fail=True)
        # MUST: -32602 for a task that has ended (basic/utilities/tasks#task-cancellation, #protocol-errors)
        raise InvalidParams(f"Cannot cancel task: already in terminal status '{status}'", {"path": "params.taskId"})
    return cast(CancelTaskResult, shown(tasks.find(params["taskId"], owner), tasks))


# -- what a handler does with its task (bound by Context) ---------------------------------------------------------


def task_id(self: Context) -> str | None:
    """Return the id of the task that this call has become; None: it is answered by its result."""
    run: TaskRun | None = self.conversation.task
    return None if run is None else run.id


def status(self: Context, message: str) -> None:
    """Say what the task is doing, as its `statusMessage`; outside a task nothing happens."""
    run: TaskRun | None = self.conversation.task
    if run is not None:
        run.status(message)


def become_task(self: Context, message: str | None = None) -> None:
    """Answer the call with a task from here on, if its tool and its client have tasks, and it is not one yet.

    Args:
        message: what it is doing, as with `status`.

    Raises: a Refusal, -32603, if the limit of tasks is reached; leave it to go out.
    Spec: 2026-07-28/extensions/tasks#task-creation
    """
    run: TaskRun | None = self.conversation.task
    if run is not None and run.become(message) and message is not None:
        run.status(message)
