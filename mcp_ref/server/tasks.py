"""Tasks of a server: which calls of tools become tasks, and the conversation of a handler whose call has become one.

A handler knows of none of this unless it likes to: `ctx.elicit` and its kin, `ctx.progress` and `ctx.check_cancelled`
do the same in a task as outside. It is not run again for a question of its task: it waits in its own thread.

Spec:      basic/utilities/tasks#tool-level-negotiation (2025-11-25)
Upholds:   spec_notes/basic/utilities/tasks.md
Not here:  the methods `tasks/...` (basic/tasks); threads, limits and what is kept (tasks/running)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from mcp_ref.errors import (
    ErrorResponse,
    InternalError,
    McpError,
    MethodNotFound,
    MissingClientCapability,
    TransportClosed,
)
from mcp_ref.kit.threads.deadline import Deadline, check_seconds
from mcp_ref.kit.threads.one_at_a_time import at_once
from mcp_ref.kit.threads.workers import before_block
from mcp_ref.pages.basic import tasks as page
from mcp_ref.pages.basic.mrtr import KINDS, input_request, missing_capability
from mcp_ref.pages.basic.tasks import TaskRule
from mcp_ref.pages.extensions.tasks import NAME, TOLD, created, served, shown
from mcp_ref.pages.server import tools
from mcp_ref.revisions import find_revision
from mcp_ref.server.session import Call, Context, Conversation, Session
from mcp_ref.tasks.running import TaskRun, Tasks, TaskSide
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options
from mcp_ref.wire.negotiated import Negotiated, undeclared
from mcp_ref.wire.served import Reply, ServedRequest

if TYPE_CHECKING:
    from mcp_ref.server.server import Server

log = logging.getLogger(__name__)

QUICK = 0.001
"""Seconds for which the answer to a call that is a task waits for the task's end."""


class ServerTasks(TaskSide):
    """The part of a server that runs tasks.

    Attributes:
        answers: to the methods `tasks/...` of the session era; extension: the same of the stateless era.

    Threads: any.
    """

    def __init__(self, server: Server, tasks: Tasks) -> None:
        if isinstance(tasks.side, ServerTasks):
            raise ValueError("these tasks belong to another server")
        self.server, self.tasks, tasks.side = server, tasks, self
        self._told: dict[str, int] = {}  # the versions of others that were told; one that is lost is told again
        self.extension = served(tasks, tools.CallToolResult)
        self.answers = page.answering(tasks, lambda method: tools.CallToolResult, lambda: server.page_size)

    def serving(self) -> bool:
        """See `TaskSide`."""
        return bool(self.server.sessions or self.server.services)

    def rule(self, task: str | TaskRule) -> TaskRule | None:
        """Return the rule of a tool, as it was given to `tool`. Raises: ValueError, TypeError: it cannot be one."""
        rule = task if isinstance(task, TaskRule) else TaskRule(cast(Any, task))
        if rule.support not in ("forbidden", "optional", "required"):
            raise ValueError(f'a tool\'s task must be "forbidden", "optional" or "required", not {rule.support!r}')
        check_seconds("after", rule.after or None)
        check_seconds("ttl", rule.ttl)
        return None if rule.support == "forbidden" else rule

    def capability(self, owner: str | None) -> JsonObject:
        """Return the capability `tasks`.

        Args:
            owner: who asks; None: that is not known.
        """
        # MUST: a server that supports tasks declares `tasks` (basic/utilities/tasks#capabilities)
        declared: JsonObject = {"cancel": {}, "requests": {"tools": {"call": {}}}}
        # A receiver that cannot tell requestors apart SHOULD NOT declare `tasks.list`
        # (basic/utilities/tasks#task-isolation-and-access-control)
        return declared if owner is None else {"list": {}, **declared}

    def tools_call(self, ctx: Context, params: tools.CallToolRequestParams) -> JsonObject:
        """Answer `tools/call`: with the result, or with a task. See `server.tools.tools_call`.

        Raises: MethodNotFound, or in the stateless era MissingClientCapability: that is not how the tool is called.
        Spec: basic/utilities/tasks#tool-level-negotiation, 2026-07-28/extensions/tasks#capability-negotiation
        """
        entry: tools.ToolEntry | None = ctx.server.registries["tools"].get(params["name"])
        rule = None if entry is None else entry.task
        asked = params.get("task") if ctx.revision.tasks else None
        # A server MUST NOT answer with a task if this request does not declare the extension; a client that declares
        # only the `tasks` of 2025-11-25 does not (2026-07-28/extensions/tasks#capability-negotiation,
        # #backward-compatibility)
        declared = {} if ctx.revision.servers_send_requests else ctx.peer_capabilities.get("extensions") or {}
        follows = asked is not None or NAME in declared
        if entry is not None and asked is not None and rule is None:
            # SHOULD: -32601 if a tool without `taskSupport` is called as a task
            # (basic/utilities/tasks#tool-level-negotiation)
            raise MethodNotFound(f"The tool {params['name']} cannot be called as a task")
        if rule is not None and not follows and rule.support == "required":
            if not ctx.revision.servers_send_requests:
                # MUST: -32021 if a call cannot be answered without a task
                # (2026-07-28/extensions/tasks#capability-negotiation)
                raise MissingClientCapability({"extensions": {NAME: {}}})
            # MUST: -32601 if a tool that requires it is not called as a task
            # (basic/utilities/tasks#tool-level-negotiation)
            raise MethodNotFound(f"The tool {params['name']} can only be called as a task")
        if rule is None or not follows:
            return cast(JsonObject, tools.tools_call(ctx, params))
        ttl = page.lifetime(asked or {}, rule.ttl or self.tasks.ttl)
        call = TaskCall(self, ctx, rule, ttl)
        try:
            return self._begin(call, 0.0 if asked is not None else rule.after)
        finally:
            if call.task.id is None:
                call.task.release()

    def _begin(self, call: TaskCall, after: float | None) -> JsonObject:
        """Run a call that becomes a task after so many seconds; its answer: the task, or what it returned before."""
        run = call.task
        # 1. At once. MUST: an accepted request is answered with a `CreateTaskResult`; SHOULD: as soon as possible
        # (basic/utilities/tasks#result-retrieval)
        if after == 0:
            run.become()
        run.start()
        before_block()
        # 2. Or later: whichever comes first, the end, a question, the handler's word, or the time. What is quick has
        # ended after a moment, and whoever asks finds it so at the first look.
        # SHOULD: finish the rounds of a call before it becomes a task (2026-07-28/extensions/tasks#task-creation)
        if not run.milestone(QUICK if after == 0 else after) and run.id is None:
            try:
                run.become()
            except BaseException:
                run.cancel("it cannot be a task")
                raise
            run.milestone(None)
        if run.id is None:
            if isinstance(call.origin, Call):
                call.origin.run_here()
            if isinstance(run.outcome, BaseException):
                raise run.outcome
            return run.outcome
        call.known = True
        # 3. The task is in the store: a server MUST NOT answer before `tasks/get` would find it
        # (2026-07-28/extensions/tasks#task-creation)
        # MUST: a task begins as `working` (basic/utilities/tasks#task-status-lifecycle)
        if isinstance(call.origin, Session):
            return {"task": page.shown(run.record, self.tasks)}
        # If the answer cannot be written nobody knows of the task. So it ends.
        task_id = run.id
        call.asking.attach(lambda reason: self.tasks.finish(run, task_id, {"cancelled": reason}))
        return created(run.record, self.tasks)

    def tell(self, record: JsonObject) -> None:
        """Tell the subscriptions of this process the state of a task. (Other processes look into the store.)"""
        latest: JsonObject | None = record if self.server.subscriptions else None
        # Again if it has changed meanwhile: the news of another thread must not be overtaken by this.
        while latest is not None:
            record = latest
            params = cast(JsonObject, shown(record, self.tasks, tools.CallToolResult))
            for subscription in list(self.server.subscriptions):
                subscription.put(TOLD, params, ("taskIds", record["id"]))
            latest = self.tasks.store.get(record["id"])
            if latest is not None and latest["version"] == record["version"]:
                return

    def look(self) -> None:
        """Tell the subscriptions what other processes have changed."""
        asked = {
            each
            for subscription in list(self.server.subscriptions)
            for name, each in subscription.also
            if name == "taskIds"
        }
        self._told = {task_id: version for task_id, version in self._told.items() if task_id in asked}
        for task_id in asked:
            is_new = self.tasks.store.wait(task_id, self._told.get(task_id, 0), 0)
            if is_new and (record := self.tasks.store.get(task_id)) is not None:
                self._told[task_id] = record["version"]
                self.tell(record)

    def adopt(self, record: JsonObject) -> bool:
        """Run a task again that a dead process left; return whether this is done, here or by another process."""
        entry: tools.ToolEntry | None = self.server.registries["tools"].get(record["about"])
        if entry is None or entry.task is None or record["tries"] >= MAX_TRIES:
            return False
        # Made before it is taken: what this process can make nothing of is not left in its name.
        incoming = ServedRequest(record["id"], record["method"], record["params"], _NoClient(record["owner"]))
        try:
            call = TaskCall(self, Context(_Left(self.server, record), incoming), entry.task, record["ttl"])
        except Exception as problem:
            log.error("%s of %s cannot be run again: %s", record["id"], record["about"], problem)
            return False
        answered = {key: question for key, question in record["asked"].items() if key in record["answered"]}

        def take(latest: JsonObject) -> bool:
            latest |= {"holder": self.tasks.store.holder, "asked": answered, "replayed": len(answered)}
            latest["tries"] += 1
            return bool(latest["version"] == record["version"])

        if self.tasks.change(record["id"], take)[1]:
            log.info("runs %s of %s again", record["id"], record["about"])
            call.task.resume(record["id"])
        return True


MAX_TRIES = 5
"""Processes that may die of one task; afterwards it fails."""


class _Left(Conversation):
    """Stands for the client of a task that a dead process left: nobody. The record says what the task may ask."""

    def __init__(self, server: Server, record: JsonObject) -> None:
        revision = find_revision(record["revision"])
        self.server, self.terms = server, Negotiated("server", revision, {}, {}, {})
        self.client_info, self.client_capabilities = {}, record["capabilities"]
        self.log_level = self.source = self.session_key = None


class _NoClient(Reply):
    """The reply to a call that was answered by another process."""

    def __init__(self, owner: str | None) -> None:
        self.principal, self.private = owner or None, owner == ""

    def send(self, message: Any, deadline: Deadline) -> None:
        """Refuse."""
        raise TransportClosed("the call was answered by another process")


class TaskCall(Conversation):
    """With whom the handler of a call that may become a task speaks: as any other, until it has become one.

    Attributes:
        origin, asking: the conversation by which the call came, and its request.
        task: its run, which may be a task.
        known: whether the client can know of the task: its call is being answered.
    """

    task: TaskRun

    def __init__(self, among: ServerTasks, ctx: Context, rule: TaskRule, ttl: float | None) -> None:
        origin, incoming = ctx.conversation, ctx.incoming
        self.server, self.terms, self.origin = origin.server, origin.terms, origin
        self.client_info, self.client_capabilities = origin.client_info, origin.client_capabilities
        self.log_level, self.source, self.session_key = origin.log_level, origin.source, origin.session_key
        self._among, self.asking, self.known = among, incoming, False
        params = {key: value for key, value in incoming.params.items() if key in ("name", "arguments", "_meta")}
        seed: JsonObject = {
            "owner": incoming.owner, "ttl": ttl, "about": params["name"], "method": incoming.method, "params": params,
            "again": rule.again, "tries": 0, "revision": self.terms.revision.name,
            "capabilities": self.client_capabilities,
        }  # fmt: skip
        self.task = run = TaskRun(among.tasks, seed, self._work, self._tell)

        def given_up() -> bool:
            # A receiver MUST NOT take `notifications/cancelled`, or the end of a stream, for the end of a task
            # (2025-11-25/basic/utilities/cancellation#behavior-requirements)
            return run.id is None and incoming.cancelled

        # What the handler looks at: given up by the caller while it is a call, and with the task afterwards.
        self._own = ServedRequest(incoming.id, incoming.method, params, incoming.reply, given_up)
        self._own.inputs, self._own.state = incoming.inputs, incoming.state
        self.task.cancel.attach(self._own.cancel)

    def _tell(self, record: JsonObject) -> None:
        """Tell the conversation that made the task of its change, if that can be told anything now."""
        if isinstance(self.origin, Session) and self.known:
            # MAY: notify of a change of status, without `related-task` (basic/utilities/tasks#task-notifications)
            shown = page.shown(record, self._among.tasks)
            self.origin.announce("notifications/tasks/status", cast(JsonObject, shown))

    def _work(self, run: TaskRun) -> JsonObject:
        if isinstance(self.origin, Call):
            self.origin.run_here()
        ctx = Context(self, self._own)
        ctx.check_cancelled()  # it may have waited for its turn
        result = cast(JsonObject, tools.tools_call(ctx, cast(Any, self._own.params)))
        if run.id is None:
            return result
        if result.get("resultType") != "input_required":
            return page.kept(result)
        log.error("the tool %s returned a question as its result, which a task cannot do", run.seed["about"])
        raise InternalError("Internal error")

    def ask(
        self, method: str, params: JsonObject | None, options: Options | None, incoming: ServedRequest
    ) -> JsonObject:
        """Return the client's answer to a question: of the call, or, once it is a task, of that."""
        answered = self.task.as_call(lambda: self.origin.ask(method, params, options, self.asking))
        if answered is not None:
            return answered
        revision = self.terms.revision
        question = input_request(method, params, revision)
        missing = missing_capability(question, self.client_capabilities, revision)
        if missing is not None:
            raise undeclared(revision, missing, f"the client did not declare {missing}")
        limits = options or {}
        answer = self.task.ask(KINDS[method].name, question, limits.get("timeout"), limits.get("cancel"))
        if "error" in answer:
            raise ErrorResponse.of(answer["error"])
        return cast(JsonObject, messages.decode(messages.encode(answer["result"])))

    def ask_all(self, asks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Ask several questions at once, each in a thread of its own; what one raises is raised when all have ended."""
        if self.task.id is None:
            return self.origin.ask_all(asks)
        before_block()
        # Bounded: each question by its answer, its time limit, and the end of the task.
        returned = [found for _, found in at_once(lambda ask: ask(), asks, None)]
        for found in returned:
            if isinstance(found, Exception):
                raise found
        return returned

    def notify(self, method: str, params: JsonObject | None = None, of: ServedRequest | None = None) -> None:
        """Send a notification along with the reply of the call.

        That of a task goes to whoever waits for its result; if nobody does, to the conversation that made the task.
        """
        task_id, tasks = self.task.id, self._among.tasks
        if task_id is None:
            return self.origin.notify(method, params, self.asking)
        if self.task.cancel.cancelled:
            # MUST: progress ends with the task (2025-11-25/basic/utilities/progress#behavior-requirements)
            return None
        if not isinstance(self.origin, Session):
            # Of what a handler says in the stateless era that is kept which can be looked at.
            if method == "notifications/progress" and (params or {}).get("message"):
                # A server MUST NOT send progress of a task where its state is pushed; it has none in this design
                # (2026-07-28/extensions/tasks#task-status-notifications)
                self.task.status((params or {})["message"])
            elif method == "notifications/message":
                log.info("the task %s of %s: %s", task_id, self.task.seed["about"], (params or {}).get("data"))
            return None
        # MUST: the `progressToken` of the call stays valid for its task
        # (2025-11-25/basic/utilities/progress#behavior-requirements)
        params, carriers = page.related(task_id, params or {}), tasks.carriers.get(task_id)
        try:
            if carriers:
                carriers[-1].ctx.notify(method, params)
                return None
            # Over HTTP it would go on another stream than the result: if one is open, and if it may come after the end.
            listens = getattr(self.origin.connection.transport, "listens", None)
            if listens is None or (listens and method != "notifications/progress"):
                self.origin.notify(method, params)
        except McpError as problem:
            log.debug("could not tell %s of %s: %s", method, task_id, problem)
        return None
