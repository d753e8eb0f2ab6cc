"""The handle of a task: what a client, or a server's handler, follows one by that the other side executes.

    TaskHandle       in the session era: result and questions of the task come to whoever waits in `tasks/result`
    ExtensionTask    in the stateless era: both stand in the state of the task
    call_tool_as_task, sample_as_task, elicit_as_task      ask for a task, and give the handle

Spec:      basic/utilities/tasks (2025-11-25); 2026-07-28/extensions/tasks
Upholds:   spec_notes/basic/utilities/tasks.md, spec_notes/extensions/tasks.md, the rows on the requestor
Not here:  the types and the methods (basic/tasks, extensions/tasks); which calls become tasks (client/tasks)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from mcp_ref.connection.connection import MAX_UNREAD, Connection
from mcp_ref.errors import (
    AnswerLost,
    ErrorResponse,
    InvalidParams,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestCancelled,
    TaskCancelled,
    TransportClosed,
)
from mcp_ref.kit.threads.bounded import BoundedQueue, Weighed
from mcp_ref.kit.threads.deadline import Cancel, Deadline
from mcp_ref.kit.threads.workers import before_block
from mcp_ref.pages.basic import tasks as page
from mcp_ref.pages.basic.mrtr import MAX_ROUNDS
from mcp_ref.pages.basic.tasks import ENDED, Task
from mcp_ref.pages.client.elicitation import check_mode, elicit_request
from mcp_ref.pages.client.sampling import sample_request, waiting
from mcp_ref.pages.server import tools
from mcp_ref.pages.server.utilities.pagination import walk
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options, ProgressCallback
from mcp_ref.wire.negotiated import Check, declares
from mcp_ref.wire.served import ServedRequest

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.server.session import Context, Session

log = logging.getLogger("mcp_ref.tasks")

MAX_PAUSE: Final = 300.0
"""Seconds for which the time limit of a wait stands still while the user answers questions of the task."""

POLL_INTERVAL: Final = 1.0
MIN_POLL_INTERVAL: Final = 0.05
MAX_POLL_INTERVAL: Final = 60.0
"""Seconds between two polls if the server does not say; and the least and the most, whatever it says."""

REPORTS_TIMEOUT: Final = 5.0
"""Seconds that a result waits for the last calls of `on_progress`."""

_NUMBERS: Final = count(1)  # of progress tokens
_AGAIN: Final = {"resend": True}  # what only reads, or changes nothing the second time, if its answer is lost


class Reports:
    """The progress of one task: has its callback run, one report after the other, by a thread of the conversation.

    Attributes:
        token: the `progressToken` of the request that becomes the task.

    Threads: any; forgotten with the handle that has it.
    """

    def __init__(self, connection: Connection, callback: ProgressCallback) -> None:
        self._connection, self._callback, self.token = connection, callback, f"task-{next(_NUMBERS)}"
        self._changed = threading.Condition(threading.Lock())  # guards the two fields below; told when none is left
        self._waiting = BoundedQueue()
        self._telling = False
        connection.progress_sinks[self.token] = self

    def put(self, params: JsonObject) -> None:
        """Take a report; never blocks."""
        with self._changed:
            if not self._waiting.offer(params, params, MAX_UNREAD):
                self._connection.complain("dropped a report of progress: on_progress of a task is too slow")
            first, self._telling = not self._telling, True
        if first:
            self._connection.run(self._tell)

    def _tell(self) -> None:
        while True:
            with self._changed:
                if self._waiting.empty():
                    self._telling = False
                    self._changed.notify_all()
                    return
                params = self._waiting.get()
            if isinstance(params, Weighed):
                params = self._waiting.unpack(params)
            try:
                self._callback(params["progress"], params.get("total"), params.get("message"))
            except Exception:
                log.exception("on_progress of a task failed")

    def wait(self) -> None:
        """Block until what came has been told, at most `REPORTS_TIMEOUT`: the callback is a user's."""
        with self._changed:
            self._changed.wait_for(lambda: not self._telling, REPORTS_TIMEOUT)


class TaskHandle:
    """A task of the server, for whoever follows it: `client.call_tool_as_task(...)`, `client.task(id)`.

    >>> task = client.call_tool_as_task("convert", {"path": "b.pdf"})
    >>> for state in task:
    ...     print(state["status"], state.get("statusMessage"))
    >>> print(task.result()["content"])

    Questions of the task are answered by the functions that the client was given, each of them once, while somebody
    iterates or waits for the result. Only `cancel` cancels the task.

    A server's handler gets one too, of a task of its client: `ctx.sample_as_task(...)`, `ctx.elicit_as_task(...)`.

    Args:
        by_hand: leave questions in `questions`, for `answer`.
        push: be told of changes by `client.listen` instead of asking for them (2026-07-28).

    Attributes:
        task_id: its id, to be kept: another process goes on with `client.task(task_id)`; None: the server has answered
            the call at once (2026-07-28).

    Every call *raises* what calls of the client raise. *Threads*: any.
    """

    def __init__(
        self,
        client: Client | Context,
        task_id: str | None,
        name: str | None,
        state: JsonObject | None,
        by_hand: bool = False,
        check: Check | None = None,
        reports: Reports | None = None,
        push: bool = False,
    ) -> None:
        self._reports, self._push = reports, push
        self._client, self.task_id, self._name, self._state = cast("Client", client), task_id, name, state
        self._by_hand, self._check = by_hand, check
        self._lock = threading.Lock()  # guards the three fields below
        self._answered: set[str] = set()  # keys that were answered, or are being (2026-07-28)
        self._parked: dict[str, tuple[JsonObject, SimpleQueue[JsonObject | None]]] = {}  # questions, for whom they wait
        self._fetching: threading.Thread | None = None
        self._rounds = 0

    def __repr__(self) -> str:
        return f"<TaskHandle {self.task_id}: {(self._state or {}).get('status', 'not asked yet')}>"

    def status(self, **options: Any) -> JsonObject:
        """Return the state of the task as it is now, with `tasks/get`."""
        before, options = (self._state or {}).get("status"), {**_AGAIN, **options}
        self._state = self._client.request("tasks/get", {"taskId": self.task_id}, cast(Options, options))
        # SHOULD: log the life of tasks, from what made them to their end (basic/utilities/tasks#audit-and-logging)
        if self._state["status"] != before:
            log.info("saw that %s of %s is %s", self.task_id, self._name, self._state["status"])
        return self._state

    def result(self, timeout: float | None = None, *, cancel: Cancel | None = None) -> tools.CallToolResult:
        """Return the result of the call; a tool that failed is a result, too.

        Blocks: until the task has ended, at most `timeout` seconds; None: no limit.
        Raises: ErrorResponse: the call ended with that error. TaskCancelled. RequestTimeout: it goes on.
        Spec: basic/utilities/tasks#retrieving-task-results
        """
        deadline, began, ended = Deadline(timeout), time.monotonic(), False
        while True:
            left = deadline.check("waiting for a task")
            options = cast(Options, {**_AGAIN, "timeout": left, "cancel": cancel})
            try:
                result = self._client.request("tasks/result", {"taskId": self.task_id}, options)
                break
            except AnswerLost:
                # MAY: a stream that answers `tasks/result` is left; the task goes on
                # (basic/utilities/tasks#retrieving-task-results)
                self._pause(self.status(), deadline, cancel)
            except ErrorResponse as refusal:
                status = self._status_now()
                if status == "cancelled":
                    raise TaskCancelled(self._said()) from refusal
                if refusal.code != InvalidParams.code or status is None or ended:
                    raise
                # Servers exist that refuse it while the task works. If it has ended since, it is asked once more.
                if not (ended := status in ENDED):
                    self._pause(self._state or {}, deadline, cancel)
        # Servers exist that answer so if the task was cancelled.
        if not result.keys() - {"_meta"} and self._status_now() == "cancelled":
            raise TaskCancelled(self._said())
        return self._checked(result, left, began)

    def _checked(self, result: JsonObject, left: float | None, began: float) -> tools.CallToolResult:
        """Return a result, checked as that of a call."""
        log.info("got the result of %s of %s", self.task_id, self._name)
        if self._reports is not None:
            before_block()
            self._reports.wait()
        check = self._check or self._client.session.connection.terms.sent["tools/call"].check
        if check is not None:
            check(result)
        if self._name is not None:
            tools.check_output(self._client, self._name, cast(tools.CallToolResult, result), {"timeout": left}, began)
        return cast(tools.CallToolResult, result)

    def cancel(self, **options: Any) -> None:
        """Give the task up, with `tasks/cancel`. Nothing happens if it has ended already.

        Spec: basic/utilities/tasks#cancelling-tasks
        """
        params = {"taskId": self.task_id}
        log.info("asks to cancel %s of %s", self.task_id, self._name)
        try:
            self._client.request("tasks/cancel", params, cast(Options, {**_AGAIN, **options}))
        except ErrorResponse:
            if self.status(**options)["status"] not in ENDED:
                raise

    def __iter__(self) -> Iterator[JsonObject]:
        """Yield each new state, the last being one in which it has ended; and again if there are new `questions`.
        Blocks between them."""
        state, seen = self._state or self.status(), set[str]()
        while True:
            seen |= self.questions.keys()
            yield state
            if state["status"] in ENDED:
                return
            before = state
            while state == before and self.questions.keys() <= seen:
                if not (state["status"] == "input_required" and self._see_to(state)):
                    # SHOULD: go on polling until it has ended (basic/utilities/tasks#getting-tasks;
                    # 2026-07-28/extensions/tasks#task-polling)
                    self._pause(state, Deadline(None), None)
                state = self.status()

    # -- questions

    @property
    def questions(self) -> JsonObject:
        """Return the questions that wait for `answer`, by key: each with its `method` and `params`."""
        with self._lock:
            return {key: question for key, (question, _) in self._parked.items()}

    def answer(self, key: str, response: JsonObject) -> None:
        """Answer one of `questions`, with a result such as `{"action": "accept", "content": {...}}`.

        Raises: KeyError: no such question, or it was answered already.
        """
        with self._lock:
            _, answers = self._parked.pop(key)
        answers.put(response)

    def park(self, incoming: ServedRequest) -> JsonObject:
        """Wait until the user answers a question of the server with `answer`, and return that answer."""
        key, answers = str(incoming.id), SimpleQueue[JsonObject | None]()
        with self._lock:
            self._parked[key] = ({"method": incoming.method, "params": incoming.params}, answers)
        before_block()
        incoming.attach(lambda reason: answers.put(None))
        # Bounded by the question: whoever takes it back puts None.
        answer = answers.get()
        with self._lock:
            self._parked.pop(key, None)
        if answer is None:
            raise RequestCancelled(incoming.reason or "the question was withdrawn")
        return answer

    def _see_to(self, state: JsonObject) -> bool:
        """Let the questions of the task be answered while somebody iterates. Returns whether any is being answered."""
        # SHOULD: call `tasks/result` without waiting for the end: questions come to who does
        # (basic/utilities/tasks#input-required-status)

        def fetch() -> None:
            try:
                self._client.request("tasks/result", {"taskId": self.task_id}, cast(Options, {"timeout": None}))
            except McpError as problem:
                log.debug("stopped waiting for %s: %s", self.task_id, problem)

        with self._lock:
            if self._fetching is None or not self._fetching.is_alive():
                # Daemon: it ends with the task, or with the connection of the client.
                self._fetching = threading.Thread(target=fetch, name="mcp-task-result", daemon=True)
                self._fetching.start()
        return False

    # -- waiting

    def _status_now(self) -> str | None:
        """Return its status, if that can be told: it may be forgotten since, or the server be gone."""
        try:
            return str(self.status()["status"])
        except McpError:
            return None

    def _said(self) -> str:
        return str((self._state or {}).get("statusMessage") or "the task was cancelled")

    def _pause(self, state: JsonObject, deadline: Deadline, cancel: Cancel | None) -> None:
        """Wait until it is time for another poll. Raises: RequestTimeout, RequestCancelled."""
        from random import uniform

        given = state.get("pollInterval", state.get("pollIntervalMs"))
        # SHOULD: respect the server's interval (basic/utilities/tasks#ttl-and-resource-management;
        # 2026-07-28/extensions/tasks#task-polling)
        seconds = POLL_INTERVAL if given is None else min(max(given / 1000, MIN_POLL_INTERVAL), MAX_POLL_INTERVAL)
        deadline.check("waiting for a task")
        # Spread a little, and never early: other clients do the same.
        pause = deadline.at_most(seconds * uniform(1.0, 1.1))
        handle, given_up = cancel or Cancel(), SimpleQueue[str | None]()
        before_block()
        handle.attach(given_up.put)
        try:
            with suppress(Empty):
                raise RequestCancelled(given_up.get(timeout=pause) or "cancelled by the caller")
        finally:
            handle.detach(given_up.put)


class ExtensionTask(TaskHandle):
    """The same in the stateless era, where questions and results stand in the state of the task."""

    def status(self, **options: Any) -> JsonObject:
        """See `TaskHandle`; of a call that was answered at once, that it is completed."""
        return self._state if self.task_id is None and self._state is not None else super().status(**options)

    def result(self, timeout: float | None = None, *, cancel: Cancel | None = None) -> tools.CallToolResult:
        """See `TaskHandle`."""
        deadline, began = Deadline(timeout), time.monotonic()
        state = self._watched(deadline) if self._push and self.task_id is not None else None
        while state is None or state["status"] not in ENDED:
            state = self.status(timeout=deadline.check("waiting for a task"), cancel=cancel)
            # SHOULD: go on polling until it has ended (2026-07-28/extensions/tasks#task-polling)
            if state["status"] not in ENDED and not self._see_to(state, deadline):
                self._pause(state, deadline, cancel)
        if state["status"] == "cancelled":
            raise TaskCancelled(self._said())
        if state["status"] == "failed":
            raise ErrorResponse.of(state.get("error") or {})
        if not isinstance(state.get("result"), dict):
            raise RemoteProtocolError("the server says that the task is completed, but gives no result")
        return self._checked(state["result"], deadline.left(), began)

    def _watched(self, deadline: Deadline) -> JsonObject | None:
        """Wait to be told the state in which the task has ended; None: the server no longer tells."""
        try:
            with self._client.listen(tasks=[cast(str, self.task_id)], timeout=deadline.left()) as events:
                if "taskIds" not in cast(JsonObject, events.honoured):
                    return None
                self._state = events.get(deadline.left()).params
                while self._state["status"] not in ENDED:
                    self._see_to(self._state, deadline)
                    self._state = events.get(deadline.left()).params
                return self._state
        except TransportClosed as problem:
            log.info("is no longer told of %s, and asks instead: %s", self.task_id, problem)
        return None

    @property
    def questions(self) -> JsonObject:
        """See `TaskHandle`; those of the state that was seen last."""
        asked: JsonObject = (self._state or {}).get("inputRequests") or {}
        return {key: question for key, question in asked.items() if self._by_hand and key not in self._answered}

    def answer(self, key: str, response: JsonObject) -> None:
        """See `TaskHandle`; with `tasks/update`."""
        if key not in self.questions:
            raise KeyError(key)
        self._update({key: response})

    def _see_to(self, state: JsonObject, deadline: Deadline | None = None) -> bool:
        if self._by_hand:
            return False
        # SHOULD: answer each key once, and never show it twice to a person
        # (2026-07-28/extensions/tasks#task-update-requests, #response)
        with self._lock:
            asked = (state.get("inputRequests") or {}).items()
            new = {key: question for key, question in asked if key not in self._answered}
            self._answered |= new.keys()
        if not new:
            return False
        self._rounds += 1
        if self._rounds > MAX_ROUNDS:
            raise RemoteProtocolError(f"the task asked for input {self._rounds} times, and has not ended")
        began = time.monotonic()
        # MUST: treat a question as the same question outside of a task
        # (2026-07-28/extensions/tasks#task-update-requests)
        try:
            responses = self._client.answers_to({"resultType": "input_required", "inputRequests": new})
        except BaseException:
            # Nobody has answered them: whoever waits next is asked.
            with self._lock:
                self._answered -= new.keys()
            raise
        if deadline is not None:
            # A user who thinks must not use up the time of the wait.
            deadline.postpone(min(time.monotonic() - began, MAX_PAUSE))
        self._update(responses)
        return True

    def _update(self, responses: JsonObject) -> None:
        with self._lock:
            self._answered |= responses.keys()
        params = {"taskId": self.task_id, "inputResponses": responses}
        self._client.request("tasks/update", params, cast(Options, _AGAIN))


# -- asking for a task --------------------------------------------------------------------------------------------


def as_task(
    params: JsonObject, ttl: float | None, options: Options, connection: Connection
) -> tuple[Reports | None, JsonObject, Options]:
    """Return the params and options of a request that asks to become a task, and who is told of its progress."""
    # MAY: ask for a ttl (basic/utilities/tasks#creating-tasks)
    params = {**params, "task": {} if ttl is None else {"ttl": max(1, round(ttl * 1000))}}
    if (callback := options.get("on_progress")) is None:
        return None, params, options
    # MUST: the token of the request stays that of the progress until the task has ended
    # (2025-11-25/basic/utilities/progress#behavior-requirements)
    reports = Reports(connection, callback)
    params["_meta"] = {**params.get("_meta", {}), "progressToken": reports.token}
    own = ("on_progress", "max_timeout")
    return reports, params, cast(Options, {key: value for key, value in options.items() if key not in own})


# -- what a client asks (bound by Client) -------------------------------------------------------------------------


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
    handle: TaskHandle = _follower(self).start(name, arguments, ttl, options, push)
    return handle


def task(self: Client, task_id: str, *, by_hand: bool = False, push: bool = False) -> TaskHandle:
    """Return a handle of a task whose id is known, such as one that another process has kept. Sends nothing."""
    handle: TaskHandle = _follower(self).handle(task_id, by_hand=by_hand, push=push)
    return handle


def list_tasks(self: Client, **options: Unpack[Options]) -> list[Task]:
    """Ask for all tasks of this client's user with `tasks/list`, page by page.

    Raises: LocalProtocolError: the revision has no such list (2025-11-25 alone), or the server did not declare it.
    Spec: basic/utilities/tasks#listing-tasks
    """
    return walk(self, "tasks/list", "tasks", options)


def _follower(client: Client) -> Any:
    if client.follower is None:
        raise LocalProtocolError("this client does not follow tasks: make it with Client(..., tasks=True)")
    return client.follower


# -- what a handler of a server asks (bound by Context) -----------------------------------------------------------


def sample_as_task(self: Context, *arguments: Any, ttl: float | None = None, **options: Any) -> TaskHandle:
    """Ask the client's model as `ctx.sample` does, and return as soon as the client has made a task of it (2025-11-25).

    Args: those of `ctx.sample`; ttl: seconds that the task should live.
    Raises: LocalProtocolError: the client did not declare `tasks.requests.sampling.createMessage`.
    Spec: basic/utilities/tasks#creating-tasks
    """
    _check_tasks(self, "sampling/createMessage")
    asked = sample_request(self.revision, self.peer_capabilities, *arguments, **options)
    return _ask_as_task(self, *asked, ttl, waiting(options))


def elicit_as_task(
    self: Context, message: str, schema: Mapping[str, Any], *, ttl: float | None = None, **options: Any
) -> TaskHandle:
    """Ask the user as `ctx.elicit` does, and return as soon as the client has made a task of it (2025-11-25).

    Args: those of `ctx.elicit`; ttl: seconds that the task should live.
    Raises: LocalProtocolError: the client did not declare `tasks.requests.elicitation.create`.
    Spec: basic/utilities/tasks#creating-tasks
    """
    _check_tasks(self, "elicitation/create")
    check_mode(self, "form")
    return _ask_as_task(self, *elicit_request(message, schema, self.revision), ttl, cast(Options, options))


def _check_tasks(ctx: Context, method: str) -> None:
    # SHOULD: ask for a task only where the receiver declared that (basic/utilities/tasks#capability-negotiation)
    capability = f"tasks.requests.{method.replace('/', '.')}"
    if not ctx.revision.tasks or not declares(ctx.peer_capabilities, capability):
        raise LocalProtocolError(f"the client did not declare {capability}")
    if page.task_id(ctx) is not None:
        raise LocalProtocolError("in a task, ask with ctx.elicit or ctx.sample, not with a task of the client")


def _ask_as_task(ctx: Context, method: str, params: JsonObject, ttl: float | None, options: Options) -> TaskHandle:
    conversation = cast("Session", ctx.conversation)
    reports, params, options = as_task(params, ttl, options, conversation.connection)
    state = ctx.request(method, params, options)["task"]
    log.info("the client made %s of %s", state["taskId"], method)
    return TaskHandle(ctx, state["taskId"], None, state, check=conversation.terms.sent[method].check, reports=reports)
