"""Workers: the threads in which a user's handlers run.

The contract: `run` never blocks; each job runs once, in a thread of this pool, and at most `cap` that need a place run
at once. Threads are grown on demand, and kept: one handler runs at once, and as soon as it holds up the next one for
five milliseconds, more do. Two things keep a bounded pool from deadlock when handlers wait for handlers: a worker that
is about to wait for the peer gives its place up first (`before_block`), and urgent jobs, the answers to pings and
refusals, are above the cap. Of these a few run at once: they only write, and while the peer does not read, no number of
threads would help.

Spec:      nothing: what basic/utilities/ping and basic/utilities/cancellation ask ("promptly") is decided here
Upholds:   spec_notes/basic/utilities/ping.md, the row on promptness
Not here:  what a job does (peer)
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from mcp_ref.machinery.deadline import Deadline, has_ended
from mcp_ref.machinery.forks import opened_elsewhere

log = logging.getLogger(__name__)

Job = Any  # called without arguments

MAX_URGENT = 4
"""Urgent jobs of one conversation that run at once, above the cap."""

NAMELESS = "a notification, or a refusal"
"""What a worker is said to do where the job has not set `doing`."""

AT_ONCE = 1
"""Handlers that run at once without waiting. Python runs one at a time, so more would only take turns, which costs.

A handler that blocks is another matter: then the first job in the queue does not move, and more are let in.
"""

STALL_INTERVAL = 0.005
"""Seconds for which the queue may stand still; each time that it does, twice as many may run."""


class Workers:
    """A pool of daemon threads `mcp-worker-n` that belongs to one conversation, or `mcp-task-n` of a side's tasks.

    Args:
        cap: how many jobs run at once, those that wait for the peer and urgent ones not counted.
        hopeless: called, in the thread that called `run`, when the system gives the pool not even one thread. If the
            pool has some and gets no further one, jobs wait for one of these.
        name: of the threads; idle: seconds without a job after which one ends; None: with the pool.
        shared: jobs have an `owner`, and no owner holds more places than are left to the others.

    Attributes:
        waiting: the jobs that wait for a place; `urgent`: those that wait for one of the few threads above the cap, so
            that an urgent job never stands behind one that waits for a place. For others to look at only.

    A job is put into the queue of the threads only when one of them is sure to take it next: one that is idle, or a new
    one.

    Threads: `run` and `close` by any thread.
    """

    def __init__(
        self,
        cap: int = 64,
        hopeless: Callable[[RuntimeError], None] | None = None,
        name: str = "mcp-worker",
        idle: float | None = None,
        shared: bool = False,
    ) -> None:
        self.name, self.idle, self._shared = name, idle, shared
        self._cap, self._hopeless, self._process = cap, hopeless, os.getpid()
        self._jobs: SimpleQueue[tuple[Job, bool | None] | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # guards the ten fields below
        self._threads: list[Worker] = []
        # Threads that wait for a job and have not been promised one; less than 0: promised jobs that lack a thread.
        self._idle = 0
        self._places: list[Job] = []  # the jobs that hold one
        self._urgent = 0  # urgent jobs that run
        self.waiting: deque[Job] = deque()
        self.urgent: deque[Job] = deque()
        self._width = AT_ONCE  # places that are handed out without waiting
        self._watching = False
        self._closed = False
        self._problem: RuntimeError | None = None

    def run(self, job: Job, *, urgent: bool = False) -> bool:
        """Give `job` to a worker; never blocks. An urgent job needs no place; it must not wait for a handler.

        After `close()` the job is dropped, for its conversation is over; but one that another job leads to still runs,
        in that job's thread, so that what was begun is finished. Returns whether it runs, or will.
        """
        if self._threads and self._process != os.getpid():
            raise opened_elsewhere("the pool of threads", self._process)
        with self._lock:
            closed = self._closed
            if not closed:
                (self.urgent if urgent else self.waiting).append(job)
                self._promise_locked()
            problem, self._problem = self._problem, None
        if problem is not None and self._hopeless is not None:
            self._hopeless(problem)
        if closed and threading.current_thread() in self._threads:
            job()
            return True
        return not closed

    def _promise_locked(self) -> None:
        """Hand out what may run now: urgent jobs first, and each to a thread of its own."""
        while True:
            place: bool | None  # whether the job holds a place; None for the watch, which holds nothing
            if self.urgent and self._urgent < MAX_URGENT:
                job, place = self.urgent.popleft(), False
                self._urgent += 1
            elif len(self._places) < min(self._width, self._cap) and (number := self._first_locked()) is not None:
                job, place = self.waiting[number], True
                del self.waiting[number]
                self._places.append(job)
            elif self.waiting and len(self._places) < self._cap and not self._watching:
                job, place = self._watch, None
                self._watching = True
            else:
                return
            self._jobs.put((job, place))
            if self._idle <= 0:
                # Entered before it starts: one that Ctrl-C kept out of the list would never be told to end.
                self._threads.append(worker := Worker(self, len(self._threads) + 1))
                try:
                    worker.start()
                    continue
                except RuntimeError as problem:
                    # No thread can be started: the job waits for the next one that is free, if any.
                    log.warning("could not start a thread: %s", problem)
                    self._threads.remove(worker)
                    self._problem = None if self._threads else problem
            self._idle -= 1

    def _first_locked(self) -> int | None:
        """Where the first job waits whose owner may have one more place."""
        if not self._shared:
            return 0 if self.waiting else None
        held, free = Counter(job.owner for job in self._places), self._cap - len(self._places)
        return next((number for number, job in enumerate(self.waiting) if held[job.owner] < free), None)

    def _watch(self) -> None:
        """Let more jobs run at once as long as the one that is first in the queue does not move.

        Bounded: each look lasts `STALL_INTERVAL`, and there are looks only while jobs wait; `stop` ends one early.
        """
        while True:
            with self._lock:
                if not self.waiting or self._closed:
                    self._watching, self._width = False, AT_ONCE
                    return
                first = self.waiting[0]
            self._stopping.wait(STALL_INTERVAL)
            with self._lock:
                if self.waiting and self.waiting[0] is first:
                    self._width = min(2 * max(self._width, len(self._places)), self._cap)
                    self._promise_locked()

    def finished(self, job: Job, place: bool | None, gave_up: bool) -> None:
        """Called by a worker after each job: it is idle, and what it held goes to a job that waits."""
        with self._lock:
            self._idle += 1
            if place and not gave_up:
                self._places.remove(job)
            elif place is False:
                self._urgent -= 1
            self._promise_locked()

    def may_leave(self, worker: Worker) -> bool:
        """Let an idle worker end, unless it was promised a job."""
        with self._lock:
            free = self._idle > 0
            if free:
                self._idle -= 1
                self._threads.remove(worker)
            return free

    def stop(self) -> None:
        """Stop taking jobs from outside; each thread ends after those that are waiting, for it finds a sentinel.

        Called again it goes on where Ctrl-C has ended it; a sentinel too many does no harm.
        """
        with self._lock:
            self._closed = True
            self._stopping.set()
            for queue in (self.urgent, self.waiting):
                while queue:
                    self._jobs.put((queue.popleft(), None))
            for _ in self._threads:
                self._jobs.put(None)

    def close(self, deadline: Deadline) -> list[str]:
        """Stop, and wait for the threads; returns what those that did not end in time are running.

        Why they end: an idle worker finds a sentinel; one whose handler waits for the peer has its wait failed by its
        conversation; one that runs a user's code cannot be stopped, and is left behind as a daemon when the deadline
        passes. Idempotent; a worker that calls it does not wait for itself.
        """
        self.stop()
        return [thread.doing for thread in list(self._threads) if not has_ended(thread, deadline)]


class Worker(threading.Thread):
    """One thread of a pool."""

    def __init__(self, pool: Workers, number: int) -> None:
        # Daemon: a user's handler cannot be stopped, and must not keep the process alive.
        super().__init__(name=f"{pool.name}-{number}", daemon=True)
        self._pool = pool
        self._holds_place: Job | None = None
        self.doing = NAMELESS

    def run(self) -> None:
        jobs, finished = self._pool._jobs, self._pool.finished
        while True:
            try:
                # Bounded by the pool's close(), which sends the sentinel.
                item = jobs.get(timeout=self._pool.idle)
            except Empty:
                if self._pool.may_leave(self):
                    return
                continue
            if item is None:
                return
            job, place = item
            self._holds_place = job if place else None
            try:
                job()
            except BaseException:
                # Also what is not an Exception, such as SystemExit: it ends the job, not the thread with its place.
                log.exception("a job failed in %s", self.name)
            self.doing = NAMELESS
            finished(job, place, self._holds_place is None)

    def give_place_up(self) -> None:
        """Let another job run in the place of this one, which is about to block."""
        if (job := self._holds_place) is not None:
            self._holds_place = None
            with self._pool._lock:
                self._pool._places.remove(job)
                self._pool._promise_locked()


def before_block() -> bool:
    """Say that this thread is about to wait for a peer, and give the place of a worker up; whether it is a worker."""
    thread = threading.current_thread()
    if isinstance(thread, Worker):
        thread.give_place_up()
        return True
    return False
