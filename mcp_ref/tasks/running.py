"""Tasking: work that goes on after the call that began it was answered.

The contract: `TaskRun.start` has work run in a thread of its own. It begins as the call that it is, whose caller waits
(`milestone`), and at some moment it may `become` a task: then there is a record of it, which the caller is answered
with, and what the work comes to is written there. Whichever comes first counts: the end of the work, or the moment.
A question of a task waits in its record, and its thread waits for the answer beside it; who carries the question to the
client is another matter.

    the caller     start ... milestone                                                  (answered: here is a task)
    the thread     work .......... ask ............................... work ... end      (mcp-task-n)
    anybody                          tasks.answer(id, key, answer)
    the keeper     due: what expires, what a dead process left; outcomes that could not be written   (mcp-tasks)

Nothing of it is left when no task runs: half a second after a task its thread has another one or ends, and so does the
keeper after the last of them.

Not here:  what is kept (tasks/store); what goes on the wire of tasks (basic/tasks, extensions/tasks); whose
           functions run (server/tasks, client/tasks)
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from mcp_ref.errors import InternalError, InvalidParams, Refusal, RequestCancelled, RequestTimeout
from mcp_ref.kit.threads.deadline import Cancel, Deadline, check_seconds
from mcp_ref.kit.threads.warn_once import Complaints
from mcp_ref.kit.threads.workers import Workers, before_block
from mcp_ref.kit.typed.json_text import weigh
from mcp_ref.kit.typed.shapes import JsonObject
from mcp_ref.tasks.store import MemoryTasks, TaskStore, expired

log = logging.getLogger("mcp_ref.tasks")
"""The log of what happens to tasks, and who asked, for an audit: ids, owners and names, and no contents."""

KEEPER_INTERVAL: Final = 0.1
"""Seconds between two looks of the keeper at a store that several processes share."""

IDLE_TIMEOUT: Final = 0.5
"""Seconds for which a thread without a task, and a keeper without tasks, wait for another one before they end."""

LOOK_INTERVAL: Final = 0.5
"""Seconds after which who waits for a change of a record sees that the wait was given up."""

MAX_CARRIERS: Final = 100
"""Who wait for the end of one task at once; one more is refused."""

SWEEP_INTERVAL: Final = 1.0
"""Seconds between two looks for what has expired."""

RECORD_SIZE: Final = 2_000
"""Bytes that a task takes besides what it holds; while it runs twice as many, so that there is room for its end."""

Outcome = JsonObject


class TaskSide:
    """The side that runs tasks: a client, which nobody else asks for them, or the `ServerTasks` of a server."""

    def tell(self, record: JsonObject) -> None:
        """Tell of a record that was changed here, in the thread that has changed it; must not block."""

    def look(self) -> None:
        """Tell of what other processes have changed; called now and then while the store is shared."""

    def adopt(self, record: JsonObject) -> bool:
        """Run a task again that a dead process left; return whether this is done, here or by another process."""
        return False

    def serving(self) -> bool:
        """Return whether somebody is served who may ask for tasks."""
        return False


class Tasks:
    """The rules by which a server runs and keeps tasks: `Server("jobs", tasks=Tasks(store=SqliteTasks("jobs.db")))`.

    A task belongs to whoever is authenticated. Over HTTP without authentication nobody is: then whoever has the id of a
    task can read, answer and cancel it. An id holds 192 random bits, so it cannot be guessed, but keep it secret.

    Args:
        store: where tasks are kept; None: in memory.
        ttl: seconds that a task lives from its creation if nobody says otherwise; longest: the most that anybody gets.
        most: tasks of one owner that have not ended; one more is refused with -32603.
        size: bytes that are kept of all tasks, with those that have ended; size_per_owner: of those of one owner. What
            ended first is forgotten for what is new; if nothing has ended, that is refused with -32603.
        running: handlers that run at once; one that waits for an answer does not count. More wait for their turn. No
            owner has more places than are left to the others: half of them, if nobody else has any.
        poll: seconds between two looks of a client, as a hint for it.

    Attributes:
        side: whose tasks they are.

    Threads: any. `mcp-task-n` runs one task after the other; it and `mcp-tasks` end half a second after the last.
    """

    def __init__(
        self,
        store: TaskStore | None = None,
        *,
        ttl: float | None = 3_600,
        longest: float | None = 86_400,
        most: int = 1_000,
        size: int = 256 << 20,
        size_per_owner: int = 64 << 20,
        running: int = 64,
        poll: float = 1.0,
    ) -> None:
        for name, value in {"ttl": ttl, "longest": longest, "poll": poll}.items():
            check_seconds(name, value)
        if most < 1 or running < 1:
            raise ValueError("most and running must be at least 1")
        self.ttl, self.longest, self.most, self.running, self.poll = ttl, longest, most, running, poll
        self.size, self.size_per_owner = size, size_per_owner
        self.clock: Callable[[], float] = time.time  # of lives, which must survive a restart
        self.store: TaskStore = store if store is not None else MemoryTasks(lambda: self.clock())
        self.workers = Workers(running, _no_thread, name="mcp-task", idle=IDLE_TIMEOUT, shared=True)
        self.side = TaskSide()
        self._complain = Complaints(log)
        self._swept = 0.0  # by the clock that nobody sets
        # Guards the room in the store: held from the look for it to the write, which both have their limits.
        self._room = threading.Lock()
        # Guards the fields below; told when this closes.
        self._changed = threading.Condition(threading.Lock())
        self.runs: dict[str, TaskRun] = {}
        self.carriers: dict[str, tuple[Any, ...]] = {}  # `Waiting`s, by task; replaced, never changed in place
        self._owned: Counter[str | None] = Counter()
        self._closed = False
        self._unwritten: dict[str, Outcome] = {}
        self._keeper: threading.Thread | None = None

    # -- records

    def create(self, run: TaskRun, message: str | None = None) -> JsonObject:
        """Create the record of a call that becomes a task. Raises: InternalError: another one does not fit."""
        owner, ttl = run.seed["owner"], run.seed["ttl"]
        now = self.clock()
        if time.monotonic() - self._swept >= SWEEP_INTERVAL:
            self._sweep()
        # MAY: override the ttl that is asked for (basic/utilities/tasks#ttl-and-resource-management)
        # SHOULD: enforce a maximum ttl (basic/utilities/tasks#resource-management)
        ttl = ttl if self.longest is None else self.longest if ttl is None else min(ttl, self.longest)
        # MUST: the receiver makes a task's id, a unique string; without an authorization context from a cryptographic
        # source, with enough entropy (basic/utilities/tasks#task-id-requirements, #task-isolation-and-access-control)
        record: JsonObject = {
            **run.seed, "id": secrets.token_hex(24), "version": 1, "created": now, "updated": now, "ttl": ttl,
            "asked": {}, "answered": {}, "keys": 0, "replayed": 0, "message": message, "outcome": None,
            "holder": self.store.holder, "size": 2 * RECORD_SIZE,
        }  # fmt: skip
        # Counted also where they are not written: the call holds them.
        record["size"] += weigh(record)
        if not record["again"]:
            record["params"] = {}
        with self._changed:
            # SHOULD: enforce limits on concurrent tasks per requestor (basic/utilities/tasks#resource-management)
            if self._owned[owner] >= self.most:
                self._complain("refused a task of %r: %d have not ended", owner, self.most)
                raise InternalError(f"Too many tasks: at most {self.most} may be under way", {"limit": self.most})
            self._enter_locked(record["id"], run)
        try:
            self._put(owner, record["size"], lambda: self.store.create(record))
        except BaseException as problem:
            self._leave(record["id"])
            if isinstance(problem, Refusal) or not isinstance(problem, Exception):
                raise
            log.error("a task could not be kept: %s", problem)
            raise InternalError("The task could not be kept") from None
        # SHOULD: log the creation of a task, with who asked (basic/utilities/tasks#audit-and-logging)
        log.info("created %s of %r: %s", record["id"], owner, run.seed["about"])
        return record

    def _put(self, owner: str | None, more: int, put: Callable[[], Any]) -> Any:
        """Write what takes so many bytes more, once there is room. Raises: InternalError: no room was made."""
        # SHOULD: limits that keep a requestor from exhausting resources (basic/utilities/tasks#resource-management)
        with self._room:
            for whose, limit in (((owner,), self.size_per_owner), ((), self.size)):
                while more > 0 and (usage := self.store.usage(*whose))[0] + more > limit:
                    if usage[1] is None or more > limit:
                        self._complain("refused %r more bytes of tasks: %d are kept", owner, usage[0])
                        raise InternalError(f"Too much is kept of tasks: at most {limit} bytes", {"limit": limit})
                    log.info("forgot %s, which ended first, to make room", usage[1])
                    self.store.delete(usage[1])
            return put()

    def find(self, task_id: str, owner: str | None) -> JsonObject:
        """Return the record of a task of that owner. Raises: InvalidParams: it is unknown, foreign or expired."""
        record = self.store.get(task_id)
        # MUST: refuse a task of another authorization context (basic/utilities/tasks#task-isolation-and-access-control)
        # MUST: each request for a task is authorized (2026-07-28/extensions/tasks#security-considerations)
        if record is None or record["owner"] not in (None, owner):
            # SHOULD: notice strange patterns, such as many failed look-ups (basic/utilities/tasks#audit-and-logging)
            self._complain("refused %r a task that it does not have", owner)
            # MUST: -32602 for an unknown `taskId`; one text for all of these, so that nothing is learnt from it
            # (basic/utilities/tasks#protocol-errors; 2026-07-28/extensions/tasks#protocol-errors)
            raise InvalidParams("Unknown task, or its time has passed", {"path": "params.taskId"})
        return record

    def wait(self, record: JsonObject, timeout: float | None = LOOK_INTERVAL) -> None:
        """Block until a record is no longer as it was, at most `timeout` seconds."""
        self.store.wait(record["id"], record["version"], timeout)

    def has(self, task_id: str, owner: str | None) -> bool:
        """Return whether `find` would find it."""
        record = self.store.get(task_id)
        return record is not None and record["owner"] in (None, owner)

    def change(self, task_id: str, edit: Callable[[JsonObject], bool]) -> tuple[JsonObject | None, bool]:
        """Edit a record, again if somebody else was faster.

        Returns: the record as it is now, None if it is not there any more; and whether it was changed here.

        Args:
            edit: changes a copy (members are replaced, not changed in place); False: the record is to stay as it is.

        Raises: InternalError: it does not fit.
        """
        while (known := self.store.get(task_id)) is not None:
            record = dict(known)
            if not edit(record):
                return known, False
            record["version"], record["updated"] = known["version"] + 1, max(self.clock(), known["updated"])
            if record["outcome"] is None:
                new = [name for name, value in known.items() if record[name] is not value]
                record["size"] += sum(weigh(record[name]) - weigh(known[name]) for name in new)
            else:
                # What only a run needs goes with it.
                record |= {name: {} for name in ("params", "capabilities", "asked", "answered")}
                record["size"] = RECORD_SIZE + weigh(record)
            replace = partial(self.store.replace, record, known["version"])
            if self._put(record["owner"], record["size"] - known["size"], replace):
                self.side.tell(record)
                if (run := self.runs.get(task_id)) is not None and (tell := run.on_change) is not None:
                    tell(record)
                self._look_at(task_id, record)
                return record, True
        return None, False

    def end(self, task_id: str, outcome: Outcome, *, held_by: str | None = "") -> bool:
        """Write the outcome of a task, unless it has ended already. Returns whether this call has written it.

        Args:
            held_by: the process that ran it; nothing is written if another one has taken it up since. "": whichever.
        """

        def edit(record: JsonObject) -> bool:
            # MUST: ended is ended; who comes second is dropped (basic/utilities/tasks#task-status-lifecycle)
            may_end = record["outcome"] is None and held_by in ("", record["holder"])
            record["outcome"] = outcome if may_end else record["outcome"]
            return may_end

        try:
            record, ended = self.change(task_id, edit)
        except (InternalError, TypeError, ValueError, RecursionError) as problem:
            # Neither room for it, nor a text: what it came to is this.
            outcome = error_of(problem)
            record, ended = self.change(task_id, edit)
        if record is None:
            # Its time has passed, and perhaps nobody looks for that any more: whoever waits for it is told.
            self.store.delete(task_id)
        elif ended:
            # SHOULD: log the end of a task (basic/utilities/tasks#audit-and-logging)
            log.info("ended %s of %r: %s", task_id, record["owner"], next(iter(outcome)))
            self._stop(task_id, outcome.get("cancelled") or "the task has ended")
        return ended

    def _stop(self, task_id: str, reason: str) -> None:
        """Cancel what still runs of a task that has ended."""
        if (run := self.runs.get(task_id)) is not None:
            run.cancel(reason)

    # -- who waits

    @contextmanager
    def carried(self, task_id: str, carrier: Any) -> Iterator[None]:
        """Show this carrier, meanwhile, what becomes of the task; the newest is the last of `carriers`.

        Raises: InternalError: too many wait for it.
        """
        with self._changed:
            if len(others := self.carriers.get(task_id, ())) >= MAX_CARRIERS:
                raise InternalError("Too many requests wait for this task", {"limit": MAX_CARRIERS})
            self.carriers[task_id] = (*others, carrier)
            self._wake_keeper_locked()
        try:
            yield
        finally:
            with self._changed:
                left = tuple(each for each in self.carriers[task_id] if each is not carrier)
                if left:
                    self.carriers[task_id] = left
                else:
                    del self.carriers[task_id]

    def _look_at(self, task_id: str, record: JsonObject | None) -> None:
        for carrier in self.carriers.get(task_id, ()):
            carrier.look(record)

    def answer(self, task_id: str, answers: JsonObject) -> None:
        """Write answers beside the questions that are open; the first to each counts, and any other is ignored."""

        def edit(record: JsonObject) -> bool:
            # SHOULD: ignore answers for keys that are not outstanding (2026-07-28/extensions/tasks#response)
            open_keys = record["asked"].keys() - record["answered"].keys()
            taken = {key: answer for key, answer in answers.items() if key in open_keys}
            record["answered"] = {**record["answered"], **taken}
            return bool(taken) and record["outcome"] is None

        if self.change(task_id, edit)[0] is not None:
            log.info("answered %s", task_id)

    # -- runs

    def _enter_locked(self, task_id: str, run: TaskRun) -> None:
        if self._closed:
            raise InternalError("The task could not be started: the server was shut down")
        self.runs[task_id] = run
        self._owned[run.seed["owner"]] += 1
        self._wake_keeper_locked()

    def _leave(self, task_id: str) -> None:
        with self._changed:
            if (run := self.runs.pop(task_id, None)) is not None:
                self._owned[run.seed["owner"]] -= 1
                if not self._owned[run.seed["owner"]]:
                    del self._owned[run.seed["owner"]]

    def finish(self, run: TaskRun, task_id: str, outcome: Outcome) -> None:
        """Write the outcome of a run; if the store fails, write it again later."""
        try:
            self.end(task_id, outcome, held_by=self.store.holder)
        except Exception as problem:
            log.error("the outcome of %s could not be written, and is kept to be written again: %s", task_id, problem)
            with self._changed:
                self._unwritten[task_id] = outcome
        self._leave(task_id)

    # -- the keeper

    def wake(self) -> None:
        """Look after what other processes leave, if any share the store: somebody is served from here on."""
        with self._changed:
            self._wake_keeper_locked()

    def _needed_locked(self) -> bool:
        return bool(
            self.runs or self.carriers or self._unwritten or (self.store.holder is not None and self.side.serving())
        )

    def _wake_keeper_locked(self) -> None:
        if self._keeper is None and not self._closed and self._needed_locked():
            # Daemon: it ends by itself after the last task, which a user's handler may hold up for ever.
            self._keeper = threading.Thread(target=self._keep, name="mcp-tasks", daemon=True)
            try:
                self._keeper.start()
            except RuntimeError as problem:
                log.error("no thread looks after the tasks: %s", problem)
                self._keeper = None

    def _keep(self) -> None:
        interval = SWEEP_INTERVAL if self.store.holder is None else KEEPER_INTERVAL
        said, seen = "", -1  # of what fails, once: what fails may be a disk that is full; and what was looked at
        while True:
            with self._changed:
                # Bounded; that it closes is told.
                self._changed.wait_for(lambda: self._closed, interval if self._needed_locked() else IDLE_TIMEOUT)
                if self._closed or not self._needed_locked():
                    self._keeper = None
                    return
            try:
                self._sweep()
                if self.store.holder is not None and (now := self.store.seen) != seen:
                    self.side.look()
                    seen = now
                said = ""
            except Exception as problem:
                if str(problem) != said:
                    log.error("the store of tasks fails: %s", problem)
                said = str(problem)

    def _sweep(self) -> None:
        """Forget what has expired, take up or end what a dead process left, and write what could not be written."""
        now, looked = self.clock(), time.monotonic()
        # SHOULD: clean expired tasks up promptly (basic/utilities/tasks#resource-management)
        for record in self.store.due(now):
            if expired(record, now):
                # MAY: delete a task after its ttl, whatever its status
                # (basic/utilities/tasks#ttl-and-resource-management)
                log.info("expired %s of %r", record["id"], record["owner"])
                self._stop(record["id"], "the time of the task has passed")
                self.store.delete(record["id"])
                self._look_at(record["id"], None)
            elif record["id"] not in self.runs and not (record["again"] and self.side.adopt(record)):
                error = error_of(InternalError("The process that ran the task has ended"))
                self.end(record["id"], error, held_by=record["holder"])
        if looked - self._swept < SWEEP_INTERVAL:
            return
        self._swept = looked
        for task_id in {*self.runs, *self.carriers}:
            if (run := self.runs.get(task_id)) is not None and run.id is None:
                continue  # it is becoming a task: its record is being written
            known = self.store.get(task_id)
            if known is None or known["outcome"] is not None or known["holder"] != self.store.holder:
                self._stop(task_id, "the task has ended")
            self._look_at(task_id, known)
        self._write_left()

    def _write_left(self) -> None:
        """Write the outcomes that could not be written."""
        for task_id, outcome in list(self._unwritten.items()):
            self.end(task_id, outcome, held_by=self.store.holder)
            with self._changed:
                self._unwritten.pop(task_id, None)

    # -- ending

    def close(self, timeout: float = 5) -> list[str]:
        """End what runs here, for good; returns what would not end. Idempotent.

        Tasks that may run again, in a store that survives, are left to be taken up. The others fail, -32603.

        Blocks: at most `timeout` seconds. Threads: handlers see that they are cancelled, and their waits end; what is
        still held by a user's code then is left behind as a daemon. The keeper ends first.
        """
        deadline = Deadline(timeout)
        reason = "the server was shut down"
        with self._changed:
            self._closed, keeper = True, self._keeper
            self._changed.notify_all()
        if keeper is not None:
            # So that it takes up nothing any more.
            keeper.join(deadline.left())
        for run in list(self.runs.values()):
            run.stopped = bool(run.seed["again"]) and self.store.holder is not None
            if (task_id := run.id) is not None and not run.stopped:
                # Before the handler is cancelled: what it makes of that would be the outcome otherwise.
                self.finish(run, task_id, error_of(InternalError(f"Internal error: {reason}")))
            run.cancel(reason)
            if task_id is not None and run.stopped:
                try:
                    # Nothing of it changes but the version, which ends its wait for an answer.
                    self.change(task_id, lambda record: record["outcome"] is None)
                except Exception as problem:
                    log.error("%s still waits for an answer: %s", task_id, problem)
        stuck = self.workers.close(deadline)
        for run in list(self.runs.values()):
            if run.id is not None:
                self._leave(run.id)
        try:
            self._write_left()
        except Exception as problem:
            log.error("the outcome of %d tasks is lost: %s", len(self._unwritten), problem)
            self._unwritten.clear()
        self.store.close()
        return stuck


class TaskRun:
    """A call that may become a task, while it runs here.

    Args:
        seed: the members of its record that are known: `owner`, `ttl` (seconds asked for), `about` (a name, for the
            log), `method`, `params`, `again` (whether it may run again, with these params), and what its caller adds.
        work: makes its result. Raises Refusal, or whatever else.
        on_change: as of `Tasks`, for this task.

    Attributes:
        id, record: of the task, the record as it was made; None and empty while it is a call.
        cancel: gives it up.
        outcome: what it came to, if that was before it became a task; an exception, or the result.
        stopped: whether it ends here, and goes on elsewhere: what its work still comes to is nobody's.

    Threads: any.
    """

    def __init__(
        self,
        tasks: Tasks,
        seed: JsonObject,
        work: Callable[[TaskRun], JsonObject],
        on_change: Callable[[JsonObject], None] | None = None,
    ) -> None:
        self.tasks, self.seed, self._work, self.on_change = tasks, seed, work, on_change
        self.owner = seed["owner"]  # by which places are shared
        self.cancel = Cancel()
        self.id: str | None = None
        self.record: JsonObject = {}
        self.outcome: JsonObject | BaseException = {}
        self.stopped = False
        self._replayed: set[str] = set()  # questions of an earlier run whose answers this one was given
        self._milestone = threading.Event()
        # Guards `_replayed`, and what this is: a call, a task (`id`), or over. Held while a call asks or its record is
        # written, which have their limits: so none becomes a task in the middle of a question.
        self._lock = threading.Lock()
        self._over = False

    def become(self, message: str | None = None) -> bool:
        """Become a task, if it is still a call; whether it is one now. Raises: as `Tasks.create`; it is a call then."""
        with self._lock:
            if self.id is None and not self._over:
                self.record = {**self.tasks.create(self, message), "params": {}}
                self.id = self.record["id"]
                self._milestone.set()
            return self.id is not None

    def as_call(self, ask: Callable[[], JsonObject]) -> JsonObject | None:
        """Call `ask`, which does not block, while this is a call, and return what it returns; None: it is a task.

        If `ask` ends the work (by what is not an Exception) it can no longer become a task.
        """
        with self._lock:
            if self.id is not None:
                return None
            try:
                return ask()
            except BaseException as problem:
                self._over = self._over or not isinstance(problem, Exception)
                raise

    def resume(self, task_id: str) -> None:
        """Be a task that a dead process left, whose record names this process already."""
        self.id = task_id
        with self.tasks._changed:
            self.tasks._enter_locked(task_id, self)
        self.start()

    def start(self) -> None:
        """Run in a thread of its own, as soon as there is a place. Raises: InternalError: no thread can be started."""
        self._milestone.clear()
        try:
            if not self.tasks.workers.run(self):
                raise InternalError("The task could not be started: the server was shut down")
        except InternalError as problem:
            # It stays in the queue; whoever takes it from there finds it over.
            self.cancel("the task could not be started")
            if self.id is not None:
                self.tasks.finish(self, self.id, error_of(problem))
            raise

    def milestone(self, timeout: float | None) -> bool:
        """Block until it becomes a task, asks as one, or is over, at most `timeout` seconds. Whether it has."""
        return self._milestone.wait(timeout)

    def __call__(self) -> None:
        """Do the work, in this thread, and leave the outcome where it is looked for."""
        outcome: JsonObject | BaseException
        threading.current_thread().doing = f"the task {self.seed['about']}"  # type: ignore[attr-defined]
        try:
            if self.cancel.cancelled:
                # While it waited for its turn.
                raise RequestCancelled(self.cancel.reason or "cancelled")
            outcome = self._work(self)
        except BaseException as problem:
            # Also what is not an Exception, such as SystemExit: it ends the work, not the process.
            outcome = problem
        with self._lock:
            self._over = True
        if self.id is None:
            self.outcome = outcome
        elif not self.stopped:
            self.tasks.finish(
                self, self.id, error_of(outcome) if isinstance(outcome, BaseException) else {"result": outcome}
            )
        self._milestone.set()
        self.release()

    def release(self) -> None:
        """Forget whose work it was. That knows of this, and would hold what was asked until a cycle is collected."""
        self._work, self.on_change = lambda run: {}, None
        self.cancel._callbacks = []

    # -- what the work does with its task

    def status(self, message: str) -> None:
        """Say what it is doing."""

        def edit(record: JsonObject) -> bool:
            changed = record["outcome"] is None and record["message"] != message
            record["message"] = message
            return changed

        if self.id is not None:
            try:
                self.tasks.change(self.id, edit)
            except Exception as problem:
                log.error("the status of %s could not be written: %s", self.id, problem)

    def ask(self, kind: str, question: JsonObject, timeout: float | None, cancel: Cancel | None = None) -> JsonObject:
        """Put a question into the record, and wait for its answer; it is taken back if nobody waits any longer.

        A task that runs again finds the answers that were given to the same questions before.

        Blocks: until the answer, at most `timeout` seconds. Another task runs in its place meanwhile.
        Raises: RequestTimeout. RequestCancelled: the task has ended, or `cancel` was used.
        """
        assert self.id is not None
        key, deadline = "", Deadline(timeout)

        def put(record: JsonObject) -> bool:
            nonlocal key
            asked = record["asked"]
            with self._lock:
                before = (
                    each for each in list(asked)[: record["replayed"]] if each not in self._replayed or each == key
                )
                key = next((each for each in before if asked[each] == question), "")
                self._replayed |= {key} - {""}
            if key or record["outcome"] is not None:
                return False
            # MUST: a key is unique over the task's whole life (2026-07-28/extensions/tasks#task-update-requests)
            record["keys"] += 1
            key = f"{kind}-{record['keys']}"
            record["asked"] = {**asked, key: question}
            return True

        def take_back(record: JsonObject) -> bool:
            record["asked"] = {each: asked for each, asked in record["asked"].items() if each != key}
            return record["outcome"] is None and key not in record["answered"]

        task_id, (record, _) = self.id, self.tasks.change(self.id, put)
        self._milestone.set()
        try:
            while record is not None and record["outcome"] is None and not self.cancel.cancelled:
                if key in record["answered"]:
                    answer: JsonObject = record["answered"][key]
                    return answer
                if cancel is not None and cancel.cancelled:
                    raise RequestCancelled(cancel.reason or "cancelled by the caller")
                before_block()
                left = deadline.check("waiting for the answer to a question of a task")
                # A handle wakes nobody who waits here, so it is looked at now and then.
                self.tasks.wait(record, left if cancel is None else min(left or LOOK_INTERVAL, LOOK_INTERVAL))
                record = self.tasks.store.get(task_id)
        except (RequestTimeout, RequestCancelled):
            self.tasks.change(task_id, take_back)
            raise
        raise RequestCancelled(self.cancel.reason or "the task has ended")


def _no_thread(problem: RuntimeError) -> None:
    raise InternalError("The task could not be started") from problem


def error_of(problem: BaseException) -> Outcome:
    """Return what goes into a record of an exception: the error that would have been the answer, or that it was
    cancelled.
    """
    if isinstance(problem, RequestCancelled):
        return {"cancelled": str(problem)}
    if not isinstance(problem, Refusal):
        log.error("a task failed: %s", problem, exc_info=problem)
        problem = InternalError("Internal error")
    error: JsonObject = {"code": problem.code, "message": problem.message}
    return {"error": error if problem.data is None else {**error, "data": problem.data}}
