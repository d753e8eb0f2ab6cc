"""Tasks in a file of SQLite: they survive a restart, and several processes of one machine share them.

The contract is that of `TaskStore`. Which process runs a task stands in its record (`holder`). A process says that it
lives by a lease, which it renews while it looks at `due`; whoever looks finds the tasks of one whose lease has run out.
A slow process whose tasks were taken up meanwhile finds, when it writes, that another has.

Lives of tasks are counted by the clock on the wall, which survives a restart. Leases are not: they are counted by the
clock of the machine since it started, which all of its processes share and nobody sets; after another start nobody's
lease holds.

Not here:  what runs tasks (tasks/running)
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mcp_ref.kit.process.private_files import open_private
from mcp_ref.kit.typed.json_text import decode, encode_ascii
from mcp_ref.kit.typed.shapes import JsonObject
from mcp_ref.tasks.store import Waiters, expired, listed

LEASE_TIMEOUT: Final = 15.0
"""Seconds without a sign of life after which a process counts as dead."""

LEASE_INTERVAL: Final = 5.0
"""Seconds between two signs of life."""

BUSY_TIMEOUT: Final = 5.0
"""Seconds in which another process must let go of the file."""

# Not WITHOUT ROWID, which reads whole rows to compare ids; and what is long comes last, so that the rest is read alone.
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, owner TEXT, created REAL, updated REAL, expires REAL,
    version INTEGER, runs INTEGER, holder TEXT, size INTEGER, listed TEXT, record TEXT, params TEXT);
CREATE INDEX IF NOT EXISTS of_owner ON tasks (owner, created, id);
CREATE INDEX IF NOT EXISTS by_size ON tasks (owner, size);
CREATE INDEX IF NOT EXISTS ended ON tasks (updated) WHERE NOT runs;
CREATE INDEX IF NOT EXISTS ended_of_owner ON tasks (owner, updated) WHERE NOT runs;
CREATE INDEX IF NOT EXISTS by_expiry ON tasks (expires);
CREATE INDEX IF NOT EXISTS by_holder ON tasks (holder) WHERE runs;
CREATE TABLE IF NOT EXISTS holders (id TEXT PRIMARY KEY, boot TEXT, until REAL) WITHOUT ROWID;
"""


_FIELDS: Final = ("id", "owner", "created", "updated", "version", "holder", "size")
_WRITTEN: Final = (*_FIELDS, "expires", "runs", "listed", "record")

# Guards the connections of all stores, and is held for each statement that is run on one. Also while a process forks:
# a child would find the statement of another thread in its middle, where it stays for ever.
_LOCK: Final = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def _boot() -> str:
    """Return what tells this start of the machine from others; "" where that cannot be known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


class SqliteTasks:
    """Tasks in a file: `Server("jobs", tasks=Tasks(store=SqliteTasks("jobs.db")))`. See `TaskStore`.

    The file, which only its owner can read (mode 0600), holds answers and results in clear, and the arguments of what
    may run again. It belongs on a disk of this machine, not on a network's. A record that was written survives the
    process, but not always a failure of the machine just then.

    Args:
        lease: seconds without a sign of life after which a process counts as dead.

    Raises: PermissionError: the file is another user's, or others may read it. OSError: it is a symbolic link.
        sqlite3.Error: the file cannot be opened, or is not a database. So do all calls, where the disk is full, or
        another process keeps the file for more than five seconds: a server then refuses to create a task, -32603, and
        keeps what one has come to until it can be written.
    Threads: any. A connection is opened in each process that uses it, also after a fork.
    """

    def __init__(self, path: str | os.PathLike[str], *, lease: float = LEASE_TIMEOUT) -> None:
        self._path, self._lease = os.fspath(path), lease
        self._boot, self._waiters = _boot(), Waiters()
        self.clock: Callable[[], float] = time.time
        self.holder: str | None = None
        self._process, self.seen = 0, -1
        self._run("SELECT 1")

    def _connect(self) -> None:
        """Open the file in this process."""
        os.close(open_private(Path(self._path), os.O_CREAT | os.O_RDWR))
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_TABLES)
        except BaseException:
            connection.close()
            raise
        # Last: what failed is opened again by whoever comes next, and the connection of a parent is never used.
        self._connection, self._process = connection, os.getpid()
        self.holder = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._renewed, self.seen = -1e9, -1

    def _run(self, statement: str, values: Sequence[Any] = ()) -> tuple[list[Any], int]:
        """Run a statement; its rows, and how many it has changed."""
        with _LOCK:
            if self._process != os.getpid():
                self._connect()
            cursor = self._connection.execute(statement, values)
            return cursor.fetchall(), cursor.rowcount

    def _values(self, record: JsonObject) -> tuple[Any, ...]:
        expires = None if record["ttl"] is None else record["created"] + record["ttl"]
        texts = (encode_ascii(listed(record)), encode_ascii({**record, "params": {}}))
        return (*(record[field] for field in _FIELDS), expires, record["outcome"] is None, *texts)

    def create(self, record: JsonObject) -> None:
        """See `TaskStore`."""
        # The lease comes first: nobody may find the task of a process that has not said yet that it lives.
        self._renew()
        statement = f"INSERT INTO tasks (params, {', '.join(_WRITTEN)}) VALUES (?{', ?' * len(_WRITTEN)})"
        self._run(statement, (encode_ascii(record["params"]), *self._values(record)))

    def get(self, task_id: str) -> JsonObject | None:
        """See `TaskStore`."""
        rows, _ = self._run("SELECT record FROM tasks WHERE id = ?", (task_id,))
        record: JsonObject | None = decode(rows[0][0]) if rows else None
        return None if record is None or expired(record, self.clock()) else record

    def replace(self, record: JsonObject, version: int) -> bool:
        """See `TaskStore`."""
        fields = ", ".join(f"{field} = ?" for field in _WRITTEN) + (", params = '{}'" if record["outcome"] else "")
        values = (*self._values(record), record["id"], version)
        _, changed = self._run(f"UPDATE tasks SET {fields} WHERE id = ? AND version = ?", values)
        if changed == 1:
            self._waiters.tell(record["id"])
        return changed == 1

    def of_owner(self, owner: str, after: tuple[float, str] | None, most: int) -> list[JsonObject]:
        """See `TaskStore`."""
        where = "owner = ? AND (created, id) > (?, ?) AND (expires IS NULL OR expires > ?) ORDER BY created, id LIMIT ?"
        values = (owner, *(after or (0.0, "")), self.clock(), most)
        return [decode(text) for (text,) in self._run(f"SELECT listed FROM tasks WHERE {where}", values)[0]]

    def usage(self, *owner: str | None) -> tuple[int, str | None]:
        """See `TaskStore`."""
        where = "owner IS ?" if owner else "1"
        ((size,),), _ = self._run(f"SELECT coalesce(sum(size), 0) FROM tasks WHERE {where}", owner)
        ended, _ = self._run(f"SELECT id FROM tasks WHERE {where} AND NOT runs ORDER BY updated LIMIT 1", owner)
        return size, next((task_id for (task_id,) in ended), None)

    def wait(self, task_id: str, version: int, timeout: float | None) -> bool:
        """See `TaskStore`."""

        def is_current() -> bool:
            rows, _ = self._run("SELECT version FROM tasks WHERE id = ?", (task_id,))
            return bool(rows) and rows[0][0] == version

        return self._waiters.wait(task_id, is_current, timeout)

    def _renew(self) -> None:
        """Say that this process lives, now and then."""
        now = time.monotonic()
        if self._process != os.getpid() or now - self._renewed >= min(LEASE_INTERVAL, self._lease / 3):
            self._run("SELECT 1")
            self._run("INSERT OR REPLACE INTO holders VALUES (?, ?, ?)", (self.holder, self._boot, now + self._lease))
            self._run("DELETE FROM holders WHERE boot <> ? OR until < ?", (self._boot, now - 3600))
            self._renewed = now

    def due(self, now: float) -> list[JsonObject]:
        """See `TaskStore`."""
        self._renew()
        # What others have written: who waits for just that looks again.
        ((version,),), _ = self._run("PRAGMA data_version")
        if version != self.seen:
            self._waiters.look()
            self.seen = version
        found, _ = self._run("SELECT record, params FROM tasks WHERE expires <= ?", (now,))
        living = "SELECT id FROM holders WHERE boot = ? AND until > ?"
        left = f"SELECT record, params FROM tasks WHERE runs AND holder <> ? AND holder NOT IN ({living})"
        found += self._run(left, (self.holder, self._boot, time.monotonic()))[0]
        return [{**decode(record), "params": decode(params)} for record, params in found]

    def delete(self, task_id: str) -> None:
        """See `TaskStore`."""
        self._run("DELETE FROM tasks WHERE id = ?", (task_id,))
        self._waiters.tell(task_id)

    def close(self) -> None:
        """Close the file, and say that this process does not run its tasks any longer. Idempotent."""
        with _LOCK:
            if self._process == os.getpid():
                with suppress(sqlite3.Error):  # the lease runs out by itself
                    self._run("DELETE FROM holders WHERE id = ?", (self.holder,))
                self._connection.close()
                self._process = 0
