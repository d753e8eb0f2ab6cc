"""Where tasks are kept: what a store must do, and the one in memory.

The contract: a record is one JSON object, replaced as a whole and never changed in place. Everything that two parties
may do at once (end, cancel, answer, expire, take over) is: read, decide, `replace` over the version that was read. Who
comes second reads again, and finds that it is over. So no state is written over another by accident.

    id, version, owner       who may see it: None for whoever has the id
    created, updated, ttl    seconds since the epoch; seconds that it lives, None for ever
    size                     bytes that it takes, with those of its params while it runs
    method, params           what was asked; params only while it runs, and may be run again
    asked, answered          questions by key, each key once in its life; their answers
    message                  what it is doing, for a person; None
    outcome                  None, {"result": ...}, {"error": ...} or {"cancelled": reason}
    holder                   the process that runs it, for a store that several share

What has an outcome has ended, so a status need not be stored: it is read off.

Not here:  what runs tasks (tasks/running); what goes on the wire of them (basic/tasks, extensions/tasks)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from mcp_ref.kit.typed.shapes import JsonObject


class TaskStore(Protocol):
    """A store of tasks. Any thread may call all of it, and none of it runs a user's code.

    A class may derive from this one: then it needs a `close` only if it has something to close.

    Attributes:
        holder: what tells this process from others that share the store; None: nobody shares it, nothing survives.
        seen: another value, after a `due`, if another process has changed anything since the one before.
    """

    holder: str | None
    seen: int

    def create(self, record: JsonObject) -> None:
        """Keep a record of a new id; when this returns, `get` finds it."""
        ...

    def get(self, task_id: str) -> JsonObject | None:
        """Return the record, perhaps without its params; None: the id is unknown, or the record's time has passed."""
        ...

    def replace(self, record: JsonObject, version: int) -> bool:
        """Put a record in the place of the one of that version; False: that is no longer there. The params stay as they
        are, or go with the end."""
        ...

    def of_owner(self, owner: str, after: tuple[float, str] | None, most: int) -> list[JsonObject]:
        """Return at most so many records of an owner, oldest first, behind the one with that time of creation and that
        id; in short, as `listed` makes them."""
        ...

    def usage(self, *owner: str | None) -> tuple[int, str | None]:
        """Return, of the records of an owner or of all, the sum of `size`, and the id of the one that ended first."""
        ...

    def wait(self, task_id: str, version: int, timeout: float | None) -> bool:
        """Block until the record no longer has that version, at most `timeout` seconds; it may also return early. False
        if it still has it; nothing else of it is read."""
        ...

    def due(self, now: float) -> list[JsonObject]:
        """Return whole records: those whose time has passed, and those that a process has left which died. Called now
        and then while tasks run: it also says that this process lives, and wakes whoever waits for a change by another
        one."""
        ...

    def delete(self, task_id: str) -> None:
        """Forget a record."""
        ...

    def close(self) -> None:
        """Let go of what is open, once nothing runs here any more. Idempotent."""
        return None


def expired(record: JsonObject, now: float) -> bool:
    """Return whether the time of a record has passed."""
    return record["ttl"] is not None and bool(record["created"] + record["ttl"] <= now)


def listed(record: JsonObject) -> JsonObject:
    """Return a record in short: without what was asked, what was answered, and what came of it but the words of a
    failure.
    """
    short = record | {"params": {}, "capabilities": {}}
    short |= {name: dict.fromkeys(record[name], {}) for name in ("asked", "answered")}
    if "result" in (outcome := record["outcome"] or {}):
        failed = outcome["result"].get("isError") is True
        # So much of so many pieces has all that is ever shown of a failure.
        parts = [part.get("resource", part) for part in outcome["result"].get("content", ())] if failed else []
        texts = [{"text": str(part["text"])[:1_000]} for part in parts if "text" in part][:1_000]
        short["outcome"] = {"result": {"isError": failed, "content": texts}}
    elif "error" in outcome:
        short["outcome"] = {"error": {"message": outcome["error"]["message"]}}
    return short


class Waiters:
    """Threads that wait for records to change, each by an event of its own: a change wakes only who waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _waiting
        self._waiting: dict[str, list[tuple[threading.Event, Callable[[], bool]]]] = {}

    def wait(self, task_id: str, is_current: Callable[[], bool], timeout: float | None) -> bool:
        """Block while `is_current`, until it is told otherwise, at most `timeout` seconds. Whether it was."""
        entry = (threading.Event(), is_current)
        with self._lock:
            self._waiting.setdefault(task_id, []).append(entry)
        try:
            # Enter first, look second: a change in between is either seen here or told there.
            return not is_current() or entry[0].wait(timeout)
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


class MemoryTasks(TaskStore):
    """Tasks in memory: they end with the process. See `TaskStore`."""

    holder: str | None = None
    seen = 0

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._waiters = clock, Waiters()
        self._lock = threading.Lock()  # guards the two fields below
        self._records: dict[str, JsonObject] = {}
        # Of each owner, by `(owner,)`, and of all, by `()`: the bytes, and the ids of what has ended, in this order.
        self._shares: dict[tuple[str | None, ...], tuple[int, dict[str, None]]] = {}

    def _count_locked(self, record: JsonObject, sign: int) -> None:
        """Count a record, or what was there before."""
        for key in ((), (record["owner"],)):
            size, ended = self._shares.pop(key, (0, {}))
            ended.pop(record["id"], None)
            if record["outcome"] is not None and sign > 0:
                ended[record["id"]] = None
            if size + sign * record["size"]:
                self._shares[key] = (size + sign * record["size"], ended)

    def create(self, record: JsonObject) -> None:
        """See `TaskStore`."""
        with self._lock:
            self._records[record["id"]] = record
            self._count_locked(record, 1)

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
            self._count_locked(known, -1)
            self._records[record["id"]] = record
            self._count_locked(record, 1)
        self._waiters.tell(record["id"])
        return True

    def of_owner(self, owner: str, after: tuple[float, str] | None, most: int) -> list[JsonObject]:
        """See `TaskStore`."""
        with self._lock:
            known = [each for each in self._records.values() if each["owner"] == owner]
        now, start = self._clock(), after or (0.0, "")
        places = sorted((each["created"], each["id"], each) for each in known if not expired(each, now))
        return [listed(record) for created, task_id, record in places if (created, task_id) > start][:most]

    def usage(self, *owner: str | None) -> tuple[int, str | None]:
        """See `TaskStore`."""
        with self._lock:
            size, ended = self._shares.get(owner, (0, {}))
            return size, next(iter(ended), None)

    def wait(self, task_id: str, version: int, timeout: float | None) -> bool:
        """See `TaskStore`."""

        def is_current() -> bool:
            record = self._records.get(task_id)
            return record is not None and record["version"] == version

        return self._waiters.wait(task_id, is_current, timeout)

    def due(self, now: float) -> list[JsonObject]:
        """See `TaskStore`."""
        with self._lock:
            return [record for record in self._records.values() if expired(record, now)]

    def delete(self, task_id: str) -> None:
        """See `TaskStore`."""
        with self._lock:
            if (known := self._records.pop(task_id, None)) is not None:
                self._count_locked(known, -1)
        self._waiters.tell(task_id)
