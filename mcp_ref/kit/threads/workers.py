"""Workers: the threads in which a user's handlers run.

The contract: `run` never blocks; each job runs once, in a thread of this pool, and at most `cap` handlers run at once,
those that wait for the peer not counted. Threads are grown on demand, and kept: one handler runs at once, and as soon
as it holds up the next one for five milliseconds, more do. Two things keep a bounded pool from deadlock when handlers
wait for handlers: a worker that is about to wait for the peer gives its place up first (`before_block`), and urgent
jobs, such as the answers to pings and refusals, have a lane of their own. A few of these run at once: they only write,
and while the peer does not read, no number of threads would help.

    run              a job enters its lane; if the lane has a place free, an idle worker, or a new one, gets the job
    Worker.run       the job runs; then its place goes to the next job in a lane, in the same thread; when none may
                     run, the worker is idle, and waits at its inbox
    before_block     the place goes to the next job at once, in another thread

Spec:      nothing: what basic/utilities/ping and basic/utilities/cancellation ask ("promptly") is decided here
Upholds:   spec_notes/basic/utilities/ping.md, the row on promptness
Not here:  what a job does (connection/connection)
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from mcp_ref.kit.threads.deadline import Deadline, has_ended
from mcp_ref.kit.threads.forks import check_process, end_child

log = logging.getLogger(__name__)

Job = Any  # called without arguments

MAX_URGENT = 4
"""Urgent jobs of one conversation that run at once, above the cap."""

NAMELESS = "a notification, or a refusal"
"""The doing of a worker whose job has not set `doing`."""

AT_ONCE = 1
"""Jobs of a lane that run at once, as long as they move. Python runs one at a time: more would take turns, which costs.

A job that blocks is another matter: then the first one that waits does not move, and more are let in.
"""

STALL_INTERVAL = 0.005
"""Seconds for which a lane may stand still; each time that it does, twice as many of its jobs may run."""


class Lane(deque[Job]):
    """Jobs that wait, in order; and how many run: `running`, of `places` for now, and of `cap` if these do not end."""

    def __init__(self, cap: int) -> None:
        super().__init__()
        self.running, self.places, self.cap = 0, AT_ONCE, cap


class SharedLane(Lane):
    """Jobs that have an `owner`: nobody holds more places than are left to the others.

    It is empty, as far as its pool is concerned, while no job that waits may have a place.
    """

    def __init__(self, cap: int, threads: list[Worker]) -> None:
        super().__init__(cap)
        self._threads = threads

    def _first(self) -> int | None:
        held = Counter(worker.job.owner for worker in self._threads if worker.lane is self)
        return next((number for number, job in enumerate(self) if held[job.owner] < self.cap - self.running), None)

    def __bool__(self) -> bool:
        return self._first() is not None

    def popleft(self) -> Job:
        """Return the first job whose owner may have one more place."""
        number = self._first()
        assert number is not None
        job = self[number]
        del self[number]
        return job


class Workers:
    """A pool of daemon threads `mcp-worker-n` that belongs to one conversation, or `mcp-task-n` of a side's tasks.

    Args:
        cap: how many jobs run at once, those that wait for the peer and urgent ones not counted.
        hopeless: called, in the thread that called `run`, when the system gives the pool not even one thread. If the
            pool has some and gets no further one, jobs wait for one of these.
        name: of the threads; idle: seconds without a job after which one ends; None: with the pool.
        shared: see `SharedLane`.

    Attributes:
        urgent, waiting: the jobs that wait, of either kind. For others to look at only.

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
        self.name, self.idle = name, idle
        self._hopeless, self.process = hopeless, os.getpid()
        self._lock = threading.Lock()  # guards the fields below, those of the lanes, and the lane of each worker
        self._threads: list[Worker] = []
        self.waiting = SharedLane(cap, self._threads) if shared else Lane(cap)
        self.urgent = Lane(MAX_URGENT)
        self._lanes = self.urgent, self.waiting
        self._idle: list[Worker] = []  # at their inbox, or about to be, with nothing in it; the last one is woken first
        self._watching = self._gated = self._closed = False

    def run(self, job: Job, *, urgent: bool = False, alone: bool = False) -> bool:
        """Give `job` to a worker; never blocks. An urgent job needs no place; it must not wait for a handler.

        After `close()` the job is dropped, for its conversation is over; but one that another job leads to still runs,
        in that job's thread, so that what was begun is finished. Returns True if it runs, or will.

        Args:
            alone: it runs at once, and whatever has not begun waits until it has ended.
        """
        if self._threads and self.process != os.getpid():
            check_process("the pool of threads", self.process)
        problem = None
        with self._lock:
            closed = self._closed
            if not closed:
                try:
                    if alone:
                        (self._idle.pop() if self._idle else self._new_locked()).inbox.put(
                            partial(self._run_alone, job)
                        )
                        self._gated = True
                    else:
                        (self.urgent if urgent else self.waiting).append(job)
                        self._hand_out_locked()
                except RuntimeError as no_thread:
                    # What waits is taken by the next worker that has nothing else to do, if any.
                    log.warning("could not start a thread: %s", no_thread)
                    problem = no_thread
        if problem is not None and not self._threads and self._hopeless is not None:
            self._hopeless(problem)
        if closed and threading.current_thread() in self._threads:
            job()
            return True
        return not closed

    def _hand_out_locked(self) -> None:
        """Give each job that may run now to a worker of its own; urgent jobs go first. Raises: as `_new_locked`."""
        if self._gated:
            return
        for lane in self._lanes:
            while lane and lane.running < lane.places and (self._idle or not self._closed):
                # The one that became idle last: its memory is warm.
                worker = self._idle.pop() if self._idle else self._new_locked()
                worker.job, worker.lane = lane.popleft(), lane
                lane.running += 1
                worker.inbox.put(worker.job)
            if lane and lane.running < lane.cap and not (self._watching or self._closed):
                (self._idle.pop() if self._idle else self._new_locked()).inbox.put(self._watch)
                self._watching = True

    def _new_locked(self) -> Worker:
        """Start one more worker. Raises: RuntimeError: the system gives no thread."""
        # Entered before it starts: one that Ctrl-C kept out of the list would never be told to end.
        self._threads.append(worker := Worker(self, len(self._threads) + 1))
        try:
            worker.start()
        except RuntimeError:
            # Or Ctrl-C in `start` has spoiled the lock on which it waits: then the thread is there.
            if worker not in threading.enumerate():
                self._threads.remove(worker)
                raise
        return worker

    def _run_alone(self, job: Job) -> None:
        try:
            job()
        finally:
            with self._lock, suppress(RuntimeError):  # no thread for what waits: the next free one takes it
                self._gated = False
                self._hand_out_locked()

    def _watch(self) -> None:
        """Let more jobs run as long as the one that waits first in its lane does not move. This job needs no place."""
        while True:
            with self._lock:
                if self._closed or not any(self._lanes):
                    self._watching = False
                    if not self._closed:
                        self.urgent.places = self.waiting.places = AT_ONCE
                    return
                first = [lane[0] if lane else None for lane in self._lanes]
            time.sleep(STALL_INTERVAL)
            with self._lock:
                for lane, job in zip(self._lanes, first, strict=True):
                    if lane and lane[0] is job:
                        lane.places = min(2 * max(lane.places, lane.running), lane.cap)
                try:
                    self._hand_out_locked()
                except RuntimeError:
                    self._watching = False
                    return  # it is the only thread, and needed

    def next_job(self, worker: Worker) -> Job | None:
        """Return the next job of a worker, for which it may have to wait; None: it may end."""
        with self._lock:
            if worker.lane is not None:
                worker.lane.running -= 1
                worker.lane = None
            for lane in self._lanes:
                if lane and lane.running < lane.places and not self._gated:
                    worker.job, worker.lane = lane.popleft(), lane
                    lane.running += 1
                    return worker.job
            if self._closed:
                return None
            self._idle.append(worker)
        try:
            # Bounded by the pool's `stop`, which sends None.
            return worker.inbox.get(timeout=self.idle)
        except Empty:
            with self._lock:
                if worker in self._idle:
                    self._idle.remove(worker)
                    self._threads.remove(worker)
                    return None
            return worker.inbox.get()  # it was given a job in this very moment

    def stop(self) -> None:
        """Stop taking jobs from outside; each thread ends after those that wait. Idempotent."""
        with self._lock:
            self._closed, self._gated = True, False
            for lane in self._lanes:
                lane.places = lane.cap
            self._hand_out_locked()
            self._idle.clear()
            for worker in self._threads:
                worker.inbox.put(None)

    def close(self, deadline: Deadline) -> list[str]:
        """Stop, and wait for the threads; returns what those that did not end in time are running.

        Why they end: an idle worker finds None, and the one that watches looks every 5 ms; one whose handler waits for
        the peer has its wait failed by its conversation; one that runs a user's code cannot be stopped, and is left
        behind as a daemon when the deadline passes. Idempotent; a worker that calls it does not wait for itself.
        """
        self.stop()
        return [thread.doing for thread in list(self._threads) if not has_ended(thread, deadline)]


class Worker(threading.Thread):
    """One thread of a pool."""

    def __init__(self, pool: Workers, number: int) -> None:
        # Daemon: a user's handler cannot be stopped, and must not keep the process alive.
        super().__init__(name=f"{pool.name}-{number}", daemon=True)
        self.pool, self.inbox = pool, SimpleQueue[Job | None]()
        self.doing = NAMELESS
        self.lane: Lane | None = None  # in which it holds a place
        self.job: Job = None  # for which it holds that

    def run(self) -> None:
        job = self.inbox.get()  # it is started to get one
        while job is not None:
            problem = None
            try:
                job()
            except BaseException as raised:
                # Also what is not an Exception, such as SystemExit: it ends the job, not the thread with its place.
                log.exception("a job failed in %s", self.name)
                problem = raised
            if self.pool.process != os.getpid():
                end_child(problem)
            self.doing = NAMELESS
            job = self.pool.next_job(self)


def before_block() -> bool:
    """Say that this thread is about to wait for a peer, and give the place of a worker up. Returns True in a worker."""
    worker = threading.current_thread()
    if not isinstance(worker, Worker):
        return False
    with worker.pool._lock:
        if worker.lane is not None:
            worker.lane.running -= 1
            worker.lane = None
            with suppress(RuntimeError):  # no thread for another one: it waits
                worker.pool._hand_out_locked()
    return True
