"""Tasks: a request that is answered with a handle, and whose result is fetched later. `tasks/get`, `tasks/result`,
`tasks/list`, `tasks/cancel`, `notifications/tasks/status`.

A request that can be a task says so with `params.task`. Either side may send one; who executes it is the *receiver*.

    requestor   tools/call {..., task: {ttl}}   ->   {task: {taskId, status: "working", ...}}                 receiver
    requestor   tasks/get {taskId}              ->   the same, as it is now
    requestor   tasks/result {taskId}           ->   blocks; meanwhile the receiver may ask; then what the request
                                                     would have returned

Spec:      basic/utilities/tasks (2025-11-25, experimental)
Upholds:   spec_notes/basic/utilities/tasks.md
Not here:  the other design, of 2026-07-28 (extensions/tasks); running tasks (machinery/tasking), and what of it is a
           server's (server/tasks) or a client's (client/tasks, with the handle)
"""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn, NotRequired, TypedDict, Unpack, cast

from mcp_ref import messages
from mcp_ref.agreement import declares
from mcp_ref.basic.transports.transport import MAX_MESSAGE
from mcp_ref.content import text_of
from mcp_ref.errors import (
    ErrorResponse,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    Refusal,
    RemoteProtocolError,
    RequestCancelled,
)
from mcp_ref.machinery.deadline import Cancel
from mcp_ref.machinery.projection import projector
from mcp_ref.machinery.shapes import RequiredIn, Since, Until
from mcp_ref.machinery.workers import before_block
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Method, Options
from mcp_ref.server.utilities.pagination import PaginatedRequestParams, walk
from mcp_ref.types import NotificationParams, RequestParams, Result

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.client.following import Reports, TaskHandle
    from mcp_ref.client.tasks import Follower
    from mcp_ref.machinery.tasking import TaskRun, Tasks
    from mcp_ref.peer import Peer
    from mcp_ref.server.context import Context
    from mcp_ref.server.session import Session

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
    """Which task is meant."""

    taskId: str


class GetTaskResult(Result, Task):
    """The state of a task."""


class CancelTaskResult(Result, Task):
    """The state of a task that was cancelled."""


class GetTaskPayloadResult(Result):
    """What the request would have returned, such as a `CallToolResult`."""


class ListTasksResult(Result):
    """One page of the requestor's tasks."""

    tasks: list[Task]
    nextCursor: NotRequired[str]


class TaskStatusNotificationParams(NotificationParams, Task):
    """The state of a task."""


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
    """The questions of a task that nobody has answered, by key."""
    if record["outcome"] is not None:
        return {}
    return {key: question for key, question in record["asked"].items() if key not in record["answered"]}


def status_of(record: JsonObject, *, errors_fail: bool) -> TaskStatus:
    """The status of a task, which follows from its outcome and its questions.

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
    """What is said of the state for a person: of one that failed, or was cancelled, why."""
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
    """A point in time as ISO 8601 in UTC, such as "2025-11-25T10:30:00.250Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"


def shown(record: JsonObject, tasks: Tasks, *, errors_fail: bool = True, milliseconds: str = "") -> Task:
    """A record as the page shows a task.

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
    """A result, or params, with the task that it belongs to in `_meta`."""
    # MUST: every request, notification and response of a task carries `io.modelcontextprotocol/related-task`
    # (basic/utilities/tasks#associating-task-related-messages, #related-task-metadata)
    return {**message, "_meta": {**(message.get("_meta") or {}), RELATED: {"taskId": task_id}}}


def unrelated(answer: JsonObject) -> JsonObject:
    """An answer without what `related` adds, as it is outside a task."""
    meta = {key: value for key, value in (answer.get("_meta") or {}).items() if key != RELATED}
    rest = {key: value for key, value in answer.items() if key != "_meta"}
    return {**rest, "_meta": meta} if meta else rest


def kept(result: JsonObject) -> JsonObject:
    """A result as it is kept: a copy, of what JSON can say. Raises: InternalError: no message can carry it."""
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
        self.ctx, self.asks = ctx, hasattr(ctx, "request")
        self._asked, self._cancel = "", Cancel()  # the question that is on its way, and what takes it back

    def give_way(self) -> None:
        """Take back a question that is on its way: a newer one carries it."""
        self._cancel("another tasks/result of this task has come")

    def _is_first(self, task_id: str, tasks: Tasks) -> bool:
        """Whether it is the newest of those whose requestor can be asked. When that one leaves, another takes over."""
        return next((each for each in reversed(tasks.carriers[task_id]) if each.asks), None) is self

    def look(self, record: JsonObject | None) -> None:
        """See the record as it is now; None: it is forgotten. Called after each change, and every second; never blocks.

        A question that needs no answer any more is taken back, and the wait of a client that is gone ends.
        """
        if record is None or self._asked not in open_questions(record):
            self._cancel("the task needs no answer any more")
        # MAY: a stream that answers `tasks/result` is left at any time (basic/utilities/tasks#retrieving-task-results)
        if getattr(self.ctx.incoming.reply, "abandoned", bool)():
            self.ctx.incoming.cancel("the client has hung up")
            self.ctx.incoming.drop()

    def until_end(self, record: JsonObject, tasks: Tasks) -> JsonObject:
        """The record as it is when the task has ended; meanwhile its questions are asked."""
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
    """What answers `tasks/...`, by method, of either side that executes tasks.

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
    """The seconds that a task should live, by its `TaskMetadata`. Raises: InvalidParams: it is no time."""
    if "ttl" not in asked:
        return default
    if not 0 < asked["ttl"] <= MAX_TTL:
        problem = f"Invalid params: params.task.ttl must be above 0, and at most {MAX_TTL}"
        raise InvalidParams(problem, {"path": "params.task.ttl"})
    return asked["ttl"] / 1000


def tasks_get(tasks: Tasks, owner: str | None, params: TaskRequestParams) -> GetTaskResult:
    """Answer `tasks/get` with the state of a task. Raises: InvalidParams: the owner has no such task."""
    # SHOULD NOT: `related-task` in the answer, which has the id (basic/utilities/tasks#related-task-metadata)
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
        try:
            created, task_id = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
            after = (float(created), str(task_id))
        except (ValueError, TypeError):
            # MUST: -32602 for a cursor that is not valid (basic/utilities/tasks#protocol-errors)
            raise InvalidParams("Invalid cursor") from None
    # MUST: list only the tasks of who asks (basic/utilities/tasks#task-isolation-and-access-control)
    # SHOULD: pages of a bounded size (basic/utilities/tasks#task-listing)
    records = [] if owner is None else tasks.store.of_owner(owner, after, page_size + 1)
    result: ListTasksResult = {"tasks": [shown(record, tasks) for record in records[:page_size]]}
    if len(records) > page_size:
        # MUST: `nextCursor` if there are more (basic/utilities/tasks#task-listing)
        last = records[page_size - 1]
        place = json.dumps([last["created"], last["id"]]).encode("ascii")
        result["nextCursor"] = base64.urlsafe_b64encode(place).decode("ascii")
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
    """The id of the task that this call has become; None: it is answered by its result."""
    run: TaskRun | None = getattr(self.conversation, "task", None)
    return None if run is None else run.id


def status(self: Context, message: str) -> None:
    """Say what the task is doing, as its `statusMessage`; outside a task nothing happens."""
    run: TaskRun | None = getattr(self.conversation, "task", None)
    if run is not None:
        run.status(message)


def become_task(self: Context, message: str | None = None) -> None:
    """Answer the call with a task from here on, if its tool and its client have tasks, and it is not one yet.

    Args:
        message: what it is doing, as with `status`.

    Raises: a Refusal, -32603, if the limit of tasks is reached; leave it to go out.
    Spec: 2026-07-28/extensions/tasks#task-creation
    """
    run: TaskRun | None = getattr(self.conversation, "task", None)
    if run is not None and run.become(message) and message is not None:
        run.status(message)


# -- the requestor's half -----------------------------------------------------------------------------------------


def call_tool_as_task(
    self: Client,
    name: str,
    arguments: JsonObject | None = None,
    *,
    ttl: float | None = None,
    push: bool = False,
    **options: Unpack[Options],
) -> TaskHandle:
    """Call a tool with `tools/call`, and return as soon as it is a task, with a handle to follow it by.

    In the stateless era it is the server that decides: where it has answered with the result, the handle has it, and
    its `task_id` is None.

    Args:
        ttl: the seconds that the task should live (2025-11-25 alone); the server may decide otherwise.
        push, and the option by_hand: see `TaskHandle`.
        options: `on_progress` (2025-11-25) is called until the task has ended, by a thread of the client's.

    Raises: LocalProtocolError: the client was not made with `tasks=True`, or the server has no tasks, or the tool
        cannot be one, or there is no `ttl` in this revision; nothing was sent but a listing of the tools.
    Spec: basic/utilities/tasks#creating-tasks, 2026-07-28/extensions/tasks#task-creation
    """
    return _follower(self).start(name, arguments, ttl, options, push)


def task(self: Client, task_id: str, *, by_hand: bool = False, push: bool = False) -> TaskHandle:
    """A handle of a task of this server whose id is known, such as one that another process has kept. Sends nothing."""
    return _follower(self).handle(task_id, by_hand=by_hand, push=push)


def list_tasks(self: Client, **options: Unpack[Options]) -> list[Task]:
    """Ask for all tasks of this client's user with `tasks/list`, page by page.

    Raises: LocalProtocolError: the revision has no such list (2025-11-25 alone), or the server did not declare it.
    Spec: basic/utilities/tasks#listing-tasks
    """
    return walk(self, "tasks/list", "tasks", options)


def as_task(
    params: JsonObject, ttl: float | None, options: Options, peer: Peer
) -> tuple[Reports | None, JsonObject, Options]:
    """The params and options of a request that asks to become a task, and who is told of its progress."""
    from mcp_ref.client.following import Reports

    # MAY: ask for a ttl (basic/utilities/tasks#creating-tasks)
    params = {**params, "task": {} if ttl is None else {"ttl": max(1, round(ttl * 1000))}}
    if (callback := options.get("on_progress")) is None:
        return None, params, options
    # MUST: the token of the request stays that of the progress until the task has ended
    # (2025-11-25/basic/utilities/progress#behavior-requirements)
    reports = Reports(peer, callback)
    params["_meta"] = {**params.get("_meta", {}), "progressToken": reports.token}
    own = ("on_progress", "max_timeout")
    return reports, params, cast(Options, {key: value for key, value in options.items() if key not in own})


def _follower(client: Client) -> Follower:
    if client.follower is None:
        raise LocalProtocolError("this client follows no tasks: make it with Client(..., tasks=True)")
    return client.follower


# -- the requestor's half, of a server's handler (bound by Context) -----------------------------------------------


class _Question(Exception):
    """A caller that asks nobody: what a page's own function would ask is kept, and ends that function."""

    params: JsonObject
    options: Options

    def __init__(self, ctx: Context) -> None:
        self.revision, self.peer_capabilities = ctx.revision, ctx.peer_capabilities

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> NoReturn:
        self.params, self.options = params or {}, options or {}
        raise self


def sample_as_task(self: Context, *arguments: Any, ttl: float | None = None, **options: Any) -> TaskHandle:
    """Ask the client's model as `ctx.sample` does, and return as soon as the client has made a task of it (2025-11-25).

    Args: those of `ctx.sample`; ttl: seconds that the task should live.
    Raises: LocalProtocolError: the client did not declare `tasks.requests.sampling.createMessage`.
    Spec: basic/utilities/tasks#creating-tasks
    """
    from mcp_ref.client.sampling import sample

    return _ask_as_task(self, "sampling/createMessage", lambda draft: sample(draft, *arguments, **options), ttl)


def elicit_as_task(
    self: Context, message: str, schema: Mapping[str, Any], *, ttl: float | None = None, **options: Any
) -> TaskHandle:
    """Ask the user as `ctx.elicit` does, and return as soon as the client has made a task of it (2025-11-25).

    Args: those of `ctx.elicit`; ttl: seconds that the task should live.
    Raises: LocalProtocolError: the client did not declare `tasks.requests.elicitation.create`.
    Spec: basic/utilities/tasks#creating-tasks
    """
    from mcp_ref.client.elicitation import elicit

    return _ask_as_task(self, "elicitation/create", lambda draft: elicit(draft, message, schema, **options), ttl)


def _ask_as_task(ctx: Context, method: str, ask: Callable[[Any], Any], ttl: float | None) -> TaskHandle:
    from mcp_ref.client.following import TaskHandle

    # SHOULD: ask for a task only where the receiver declared that (basic/utilities/tasks#capability-negotiation)
    capability = f"tasks.requests.{method.replace('/', '.')}"
    if not ctx.revision.tasks or not declares(ctx.peer_capabilities, capability):
        raise LocalProtocolError(f"the client did not declare {capability}")
    if ctx.task_id is not None:
        raise LocalProtocolError("a task asks by its own questions, not by tasks of the client")
    draft = _Question(ctx)
    try:
        ask(draft)
    except _Question:
        pass
    conversation = cast("Session", ctx.conversation)
    reports, params, options = as_task(draft.params, ttl, draft.options, conversation.peer)
    state = ctx.request(method, params, options)["task"]
    log.info("the client made %s of %s", state["taskId"], method)
    return TaskHandle(ctx, state["taskId"], None, state, check=conversation.terms.sent[method].check, reports=reports)
