"""A store of tasks on Redis, for servers on several machines: a task outlives its process, and any can answer for it.

Needs: redis, redis-server

    python examples/recipes/redis_tasks.py

Everything is below one prefix. The times are seconds since the epoch, an owner is written as JSON.

    record:ID       a hash: the record, the record in short, and its params
    of:OWNER        the ids of an owner, by the time of creation
    expires         ids by the time at which their lives end
    ended[:OWNER]   ids by the time at which they ended
    size[:OWNER]    the sum of bytes
    running         the holder of each id that has not ended
    holder:HOLDER   is there while that process lives
    writes          how often anything was written
"""

import json
import os
import secrets
import subprocess
import time
from typing import Any

import redis

from mcp_ref import Client, Server, Tasks, text_of
from mcp_ref.tasks.store import Waiters, expired, listed

PORT = os.environ.setdefault("RECIPE_REDIS_PORT", "6399")
Record = dict[str, Any]


class RedisTasks:
    """See `TaskStore`. Make one in each process.

    Args:
        lease: seconds without a sign of life after which a process counts as dead.
    """

    def __init__(self, url: str, *, prefix: str = "tasks:", lease: float = 15.0) -> None:
        self._redis: Any = redis.Redis.from_url(url, decode_responses=True, socket_timeout=5)
        self._prefix, self._lease, self._waiters = prefix, lease, Waiters()
        self.holder: str | None = secrets.token_hex(8)
        self.seen, self.clock = -1, time.time
        self._live()

    def _key(self, *parts: str) -> str:
        return self._prefix + ":".join(parts)

    def _live(self) -> None:
        self._redis.set(self._key("holder", str(self.holder)), 1, px=int(self._lease * 1000))

    def _put(self, task_id: str, version: int | None, record: Record | None) -> bool:
        """Put a record in the place of the one of that version. None, for either: there is none."""
        with self._redis.pipeline() as writing:
            # What another process writes to it from here on makes `execute` fail.
            writing.watch(key := self._key("record", task_id))
            text = writing.hget(key, "record")
            known = None if text is None else json.loads(text)
            if (known and known["version"]) != version:
                return False
            writing.multi()
            writing.incr(self._key("writes"))
            for each, sign in ((known, -1), (record, 1)):
                if each is None:
                    continue
                owner, ended = json.dumps(each["owner"]), each["outcome"] is not None
                places = {self._key("of", owner): each["created"]}
                if each["ttl"] is not None:
                    places[self._key("expires")] = each["created"] + each["ttl"]
                for of in ((), (owner,)):
                    writing.incrby(self._key("size", *of), sign * each["size"])
                    if ended:
                        places[self._key("ended", *of)] = each["updated"]
                for name, score in places.items():
                    writing.zadd(name, {task_id: score}) if sign > 0 else writing.zrem(name, task_id)
                writing.hdel(self._key("running"), task_id)
                if sign > 0 and not ended:
                    writing.hset(self._key("running"), task_id, each["holder"] or "")
            if record is None:
                writing.delete(key)
            else:
                values = {"record": {**record, "params": {}}, "listed": listed(record), "version": record["version"]}
                if known is None or record["outcome"] is not None:
                    values["params"] = record["params"] if known is None else {}
                writing.hset(key, mapping={name: json.dumps(value) for name, value in values.items()})
            try:
                writing.execute()
            except redis.WatchError:
                return False
        self._waiters.tell(task_id)
        return True

    def _read(self, ids: list[str], *fields: str) -> list[list[Any]]:
        reading = self._redis.pipeline()
        for task_id in ids:
            reading.hmget(self._key("record", task_id), fields)
        return [[json.loads(text) for text in row] for row in reading.execute() if None not in row]

    def create(self, record: Record) -> None:
        self._live()
        self._put(record["id"], None, record)

    def get(self, task_id: str) -> Record | None:
        return next((row[0] for row in self._read([task_id], "record") if not expired(row[0], self.clock())), None)

    def replace(self, record: Record, version: int) -> bool:
        return self._put(record["id"], version, record)

    def of_owner(self, owner: str, after: tuple[float, str] | None, most: int) -> list[Record]:
        start = after or (0.0, "")
        places = self._redis.zrangebyscore(self._key("of", json.dumps(owner)), start[0], "inf", withscores=True)
        gone = set(self._redis.zrangebyscore(self._key("expires"), 0, self.clock()))
        ids = [task_id for task_id, created in places if (created, task_id) > start and task_id not in gone]
        return [record for (record,) in self._read(ids[:most], "listed")]

    def usage(self, *owner: str | None) -> tuple[int, str | None]:
        of = [json.dumps(each) for each in owner]
        oldest = self._redis.zrange(self._key("ended", *of), 0, 0)
        return int(self._redis.get(self._key("size", *of)) or 0), oldest[0] if oldest else None

    def wait(self, task_id: str, version: int, timeout: float | None) -> bool:
        key = self._key("record", task_id)
        return self._waiters.wait(task_id, lambda: self._redis.hget(key, "version") == str(version), timeout)

    def due(self, now: float) -> list[Record]:
        self._live()
        if (writes := int(self._redis.get(self._key("writes")) or 0)) != self.seen:
            self._waiters.look()
            self.seen = writes
        running = self._redis.hgetall(self._key("running"))
        dead = {each for each in set(running.values()) if not self._redis.exists(self._key("holder", each))}
        left = [task_id for task_id, holder in running.items() if holder in dead]
        rows = self._read([*self._redis.zrangebyscore(self._key("expires"), 0, now), *left], "record", "params")
        return [{**record, "params": params} for record, params in rows]

    def delete(self, task_id: str) -> None:
        for (version,) in self._read([task_id], "version"):
            if not self._put(task_id, version, None):
                self.delete(task_id)

    def close(self) -> None:
        self._redis.delete(self._key("holder", str(self.holder)))
        self._redis.close()


if __name__ == "__main__":
    with subprocess.Popen(["redis-server", "--port", PORT, "--save", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if b"Ready to accept" in line)
        servers = [Server("printer", tasks=Tasks(RedisTasks(f"redis://127.0.0.1:{PORT}"))) for _ in range(2)]
        for server in servers:
            server.tool("print", task="required")(lambda: "three pages")
        with Client(servers[0], tasks=True) as one, Client(servers[1], tasks=True) as other:
            print(text_of(other.task(one.call_tool_as_task("print").task_id or "").result(10)))
        for server in servers:
            server.close()
        process.terminate()

# Output: three pages
