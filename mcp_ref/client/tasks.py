"""Tasks of a client: which calls become tasks of the server, and which questions of the server tasks of the client.

    call_tool              follows by itself what the server makes a task, to the end result
    call_tool_as_task      gives a handle (tasks/handle)
    task(id)               the same of a task that another process has begun
    questions of a server  may become tasks of this client (2025-11-25)

Spec:      basic/utilities/tasks (2025-11-25); 2026-07-28/extensions/tasks
Upholds:   spec_notes/basic/utilities/tasks.md, the rows on the requestor
Not here:  the types and the methods (basic/tasks, extensions/tasks); the handle (tasks/handle)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakValueDictionary

from mcp_ref.client.session import Answers, ClientContext
from mcp_ref.errors import InputRefused, LocalProtocolError, McpError, RequestCancelled, RequestTimeout
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic import tasks as page
from mcp_ref.pages.basic.mrtr import KINDS
from mcp_ref.pages.basic.tasks import RELATED, related
from mcp_ref.pages.extensions.tasks import NAME
from mcp_ref.pages.server import tools
from mcp_ref.tasks.handle import ExtensionTask, Reports, TaskHandle, as_task
from mcp_ref.tasks.running import TaskRun, Tasks
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options
from mcp_ref.wire.negotiated import declares
from mcp_ref.wire.served import ServedRequest

if TYPE_CHECKING:
    from mcp_ref.client.client import Client

log = logging.getLogger("mcp_ref.tasks")

_HOSTED: Final = ("sampling/createMessage", "elicitation/create")
"""The questions that a client can make tasks of, if it has the capability of that name."""

MAX_HOSTED: Final = 32
"""Questions of a server that may be tasks of this client at once; one more is refused."""

MAX_KEPT: Final = 32 * 1024 * 1024
"""Bytes that are kept of such tasks, with those that have ended; what ended first is forgotten for a new one."""

MAX_LISTED: Final = 100
"""Tasks on one page of this client's list."""


class Follower(Answers):
    """The part of a client that follows tasks. Questions of tasks reach it before the functions that answer.

    Attributes:
        by_hand: handles whose questions are answered by hand, by the id of their task, as long as somebody has them.

    Threads: any.
    """

    def __init__(self, client: Client, answers: Answers) -> None:
        self._client, self._inner = client, answers
        self.elicitors = answers.elicitors
        self._hosted = [method for method in _HOSTED if method.partition("/")[0] in answers.capabilities]
        self.capabilities = dict(answers.capabilities)
        if self._hosted:
            # MUST: a client that supports tasks declares `tasks` (basic/utilities/tasks#capabilities)
            requests: JsonObject = {
                name: {member: {}} for name, member in (method.split("/") for method in self._hosted)
            }
            self.capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": requests}
        # Those that this client hosts; without one no thread runs.
        self._tasks = Tasks(most=MAX_HOSTED, size_per_owner=MAX_KEPT)
        self._answering = page.answering(self._tasks, lambda method: KINDS[method].result, lambda: MAX_LISTED)
        self.by_hand: WeakValueDictionary[str, TaskHandle] = WeakValueDictionary()

    def __call__(self, ctx: ClientContext, incoming: ServedRequest) -> JsonObject:
        """Answer a question of the server; see `Answers`. At 2025-11-25 it can be a task, of this client."""
        method, params = incoming.method, incoming.params
        if (answer_task := self._answering.get(method)) is not None:
            return cast(JsonObject, answer_task(ctx, params))
        if ctx.revision.tasks and "task" in params and method in self._hosted:
            plain = {key: value for key, value in params.items() if key != "task"}
            own = ServedRequest(incoming.id, method, plain, incoming.reply)
            ttl = page.lifetime(params["task"], self._tasks.ttl)
            seed: JsonObject = {"owner": incoming.owner, "ttl": ttl, "about": method, "method": method,
                                "params": plain, "again": False, "tries": 0}  # fmt: skip
            run = TaskRun(self._tasks, seed, lambda run: page.kept(self._inner(hosted, own)))
            hosted = _HostedContext(ctx, own, run)
            run.cancel.attach(own.cancel)
            run.become()
            run.start()
            return {"task": page.shown(run.record, self._tasks)}
        meta = (params.get("_meta") or {}).get(RELATED)
        task_id = meta.get("taskId") if isinstance(meta, dict) else None
        if not isinstance(task_id, str):
            return self._inner(ctx, incoming)
        handle = self.by_hand.get(task_id)
        answer = self._inner(ctx, incoming) if handle is None else handle.park(incoming)
        # MUST: the answer carries `related-task` as its question did
        # (basic/utilities/tasks#associating-task-related-messages)
        return related(task_id, answer)

    def close(self, timeout: float | None) -> None:
        """End the tasks of this client; see `Tasks.close`."""
        self._tasks.close(5 if timeout is None else timeout)

    def request(self, method: str, params: JsonObject, options: Options) -> JsonObject:
        """Send `tools/call`, and follow what becomes a task to its end.

        A time limit, a `cancel=`, or a question that was refused here ends the wait, and cancels the task.
        """
        deadline = Deadline(options.get("timeout", self._client.timeout))
        # MUST: a tool that requires it is called as a task (basic/utilities/tasks#tool-level-negotiation)
        if self._client.revision.tasks and self._support(params["name"], options) == "required":
            handle = self.start(params["name"], params.get("arguments"), None, options)
        else:
            result = self._client.request(method, params, options)
            # MUST: cope with a result as with a task, whichever comes
            # (2026-07-28/extensions/tasks#capability-negotiation)
            if result.get("resultType") != "task" or options.get("by_hand"):
                return result
            handle = self._created(result, params["name"])
        try:
            return cast(JsonObject, handle.result(deadline.check("calling a tool"), cancel=options.get("cancel")))
        except (InputRefused, RequestTimeout, RequestCancelled):
            try:
                handle.cancel(timeout=5)
            except McpError as problem:
                log.info("could not cancel %s: %s", handle.task_id, problem)
            raise

    def start(
        self, name: str, arguments: JsonObject | None, ttl: float | None, options: Options, push: bool = False
    ) -> TaskHandle:
        """See `handle.call_tool_as_task`."""
        client = self._client
        params: JsonObject = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
        by_hand = options.get("by_hand", False)
        options = cast(Options, {key: value for key, value in options.items() if key != "by_hand"})
        # 1. 2026-07-28: the server decides.
        if not client.revision.servers_send_requests:
            if NAME not in client.server_capabilities.get("extensions", ()):
                raise LocalProtocolError(f"the server did not declare the extension {NAME}")
            if ttl is not None:
                raise LocalProtocolError(f"in {client.revision} the server alone decides how long a task lives")
            return self._created(client.request("tools/call", params, options), name, by_hand=by_hand, push=push)
        # 2. 2025-11-25: the client decides, within what the server and the tool allow.
        if not client.revision.tasks:
            raise LocalProtocolError(f"{client.revision} has no tasks")
        # A client MUST NOT call a tool as a task of a server that does not declare `tasks.requests.tools.call`, or one
        # without `taskSupport` (basic/utilities/tasks#tool-level-negotiation)
        declared = options.get("undeclared") or declares(client.server_capabilities, "tasks.requests.tools.call")
        if not declared:
            raise LocalProtocolError("the server did not declare tasks.requests.tools.call")
        if self._support(name, options) == "forbidden":
            raise LocalProtocolError(f"the tool {name} cannot be called as a task")
        reports, params, options = as_task(params, ttl, options, client.session.connection)
        return self._created(
            client.request("tools/call", params, options)["task"], name, by_hand=by_hand, reports=reports
        )

    def _created(self, state: JsonObject, name: str, **more: Any) -> TaskHandle:
        """Return the handle of what a call was answered with: a task, or in the stateless era also its result."""
        if state.get("resultType", "task") != "task" or "taskId" not in state:
            return ExtensionTask(self._client, None, name, {"status": "completed", "result": state})
        # SHOULD: log the life of tasks, and what they are for (basic/utilities/tasks#audit-and-logging)
        log.info("the server made %s of a call of %s", state["taskId"], name)
        return self.handle(state["taskId"], name, state, **more)

    def handle(
        self, task_id: str, name: str | None = None, state: JsonObject | None = None, *, by_hand: bool = False,
        push: bool = False, reports: Reports | None = None,
    ) -> TaskHandle:  # fmt: skip
        """Return a handle of a task."""
        if not self._client.revision.servers_send_requests:
            return ExtensionTask(self._client, task_id, name, state, by_hand, push=push)
        handle = TaskHandle(self._client, task_id, name, state, by_hand, reports=reports)
        if by_hand:
            self.by_hand[task_id] = handle
        return handle

    def _support(self, name: str, options: Options) -> str:
        """Return the `taskSupport` of a tool, which is listed first if that was never done."""
        client = self._client
        asks = options.get("undeclared") or declares(client.server_capabilities, "tasks.requests.tools.call")
        if name not in client.tool_definitions and asks:
            limits = {name: given for name, given in options.items() if name in ("timeout", "cancel")}
            tools.list_tools(client, **cast(Options, limits))
        known: tools.KnownTool | None = client.tool_definitions.get(name)
        return "forbidden" if known is None else known.tool.get("execution", {}).get("taskSupport", "forbidden")


class _HostedContext(ClientContext):
    """The question of a server that has become a task."""

    def __init__(self, ctx: ClientContext, own: ServedRequest, run: TaskRun) -> None:
        self._connection, self.incoming, self._run, self.last_progress = ctx._connection, own, run, None
        self.revision, self.capabilities, self.server_info = ctx.revision, ctx.capabilities, ctx.server_info

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """See `ClientContext`; nothing is sent once the task has ended."""
        if not self._run.cancel.cancelled:
            self._connection.notify(method, related(cast(str, self._run.id), params or {}))
