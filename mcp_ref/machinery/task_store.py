"""Where tasks are kept: what a store must do, and the one in memory.

The contract: a record is one JSON object, replaced as a whole and never changed in place. Everything that two parties
may do at once (end, cancel, answer, expire, take over) is: read, decide, `replace` over the version that was read. Who
comes second reads again, and finds that it is over. So no state is written over another by accident.

    id, version, owner       who may see it: None for whoever has the id
    created, updated, ttl    seconds since the epoch; seconds that it lives, None for ever
    method, params           what was asked
    asked, answered          questions by key, each key once in its life; their answers
    message                  what it is doing, for a person; None
    outcome                  None, {"result": ...}, {"error": ...} or {"cancelled": reason}
    holder                   the process that runs it, for a store that several share

What has an outcome has ended, so a status need not be stored: it is read off.

Not here:  what runs tasks (machinery/tasking); what goes on the wire of them (basic/tasks, extensions/tasks)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from mcp_ref.errors import InternalError
from mcp_ref.machinery.shapes import JsonObject

MAX_RECORDS: Final = 100_000
"""Tasks that a store in memory keeps, with those that have ended; one more is refused."""


class TaskStore(Protocol):
    """What keeps tasks. All of it may be called by any thread, and none of it runs a user's code.

    Attributes:
        holder: what tells this process from others that share the store; None: nobody shares it, nothing survives.
    """

    holder: str | None

    def create(self, record: JsonObject) -> None:
        """Keep a record of a new id; when this returns, `get` finds it."""
        ...

    def get(self, task_id: str) -> JsonObject | None:
        """The record; None: the id is unknown, or the record's time has passed."""
        ...

    def replace(self, record: JsonObject, version: int) -> bool:
        """Put a record in the place of the one of that version; False: that is no longer there."""
        ...

    def of_owner(self, owner: str, after: tuple[float, str] | None, most: int) -> list[JsonObject]:
        """At most so many records of an owner, oldest first, behind the one with that time of creation and that id."""
        ...

    def wait(self, task_id: str, version: int, timeout: float | None) -> None:
        """Block until the record no longer has that version, at most `timeout` seconds; it may also return early."""
        ...

    def due(self, now: float) -> list[JsonObject]:
        """Records whose time has passed, and those that a process has left which died. Called every now and then while
        tasks run: it also says that this process lives, and wakes who waits for what another one has changed."""
        ...

    def delete(self, task_id: str) -> None:
        """Forget a record."""
        ...


def expired(record: JsonObject, now: float) -> bool:
    """Whether the time of a record has passed."""
    return record["ttl"] is not None and bool(record["created"] + record["ttl"] <= now)


class Waiters:
    """Threads that wait for records to change, each by an event of its own: a change wakes only who waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _waiting
        self._waiting: dict[str, list[tuple[threading.Event, Callable[[], bool]]]] = {}

    def wait(self, task_id: str, is_current: Callable[[], bool], timeout: float | None) -> None:
        """Block while `is_current`, until it is told otherwise, at most `timeout` seconds."""
        entry = (threading.Event(), is_current)
        with self._lock:
            self._waiting.setdefault(task_id, []).append(entry)
        try:
            # Enter first, look second: a change in between is either seen here or told there.
            if is_current():
                entry[0].wait(timeout)
        finally:
            with self._lock:
                left = [each for each in self._waiting.pop(task_id, ()) if each is not entry]
                if left:
                    self._waiting[task_id] = left

    def tell(self, task_id: str) -> None:
        """Wake who waits for that record."""
        with self._lock:
            waiting = list(self._waiting.get(task_id, ()))
        for event, _ in waiting:
            event.set()

    def look(self) -> None:
        """Wake all whose record was changed elsewhere."""
        with self._lock:
            waiting = [entry for entries in self._waiting.values() for entry in entries]
        for event, is_current in waiting:
            if not is_current():
                event.set()


class MemoryTasks:
    """Tasks in memory: they end with the process. See `TaskStore`."""

    holder: str | None = None

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._waiters = clock, Waiters()
        self._lock = threading.Lock()  # guards _records
        self._records: dict[str, JsonObject] = {}

    def create(self, record: JsonObject) -> None:
        """See `TaskStore`. Raises: InternalError: there are too many."""
        with self._lock:
            if len(self._records) >= MAX_RECORDS:
                raise InternalError("Too many tasks are kept", {"limit": MAX_RECORDS})
            self._records[record["id"]] = record

    def get(self, task_id: str) -> JsonObject | None:
        """See `TaskStore`."""
        record = self._records.get(task_id)
        return None if record is None or expired(record, self._clock()) else record

    def replace(self, record: JsonObject, version: int) -> bool:
        """See `TaskStore`."""
        with self._lock:
            known = self._records.get(record["id"])
            if known is None or known["version"] != version:
                return False
            self._records[record["id"]] = record
        self._waiters.tell(record["id"])
        return True

    def of_owner(self, owner: str, after: tuple[float, str] | None, most: int) -> list[JsonObject]:
        """See `TaskStore`."""
        with self._lock:
            known = [each for each in self._records.values() if each["owner"] == owner]
        now, start = self._clock(), after or (0.0, "")
        listed = sorted((each["created"], each["id"], each) for each in known if not expired(each, now))
        return [record for created, task_id, record in listed if (created, task_id) > start][:most]

    def wait(self, task_id: str, version: int, timeout: float | None) -> None:
        """See `TaskStore`."""

        def is_current() -> bool:
            record = self._records.get(task_id)
            return record is not None and record["version"] == version

        self._waiters.wait(task_id, is_current, timeout)

    def due(self, now: float) -> list[JsonObject]:
        """See `TaskStore`."""
        with self._lock:
            return [record for record in self._records.values() if expired(record, now)]

    def delete(self, task_id: str) -> None:
        """See `TaskStore`."""
        with self._lock:
            self._records.pop(task_id, None)
        self._waiters.tell(task_id)
