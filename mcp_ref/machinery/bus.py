"""A bus: what one process announces reaches the listeners of all. Nothing of MCP.

    bus.publish("weather", message)                 to every subscriber of the topic, in whatever process
    leave = bus.subscribe("weather", receive)       from now on; `receive(None)`: anything may have been missed

A message is a JSON object that says *that* something has changed, so that saying it once is as good as saying it twice:
one that equals another which still waits is not told again. `LocalBus` is one for the servers of a single process.
`RedisBus` is one for any number of processes:

    publish  ->  waiting  ->  mcp-bus-tell  ->  receive, here
                    ^              |
                    |              v
               mcp-bus-hear  <-  Redis  ->  other processes

    thread         blocks on                          ended by
    mcp-bus-tell   an event; a write to Redis         the event; the time-out of the socket
    mcp-bus-hear   Redis, `LOOK_INTERVAL` at a time   the end of that

Redis keeps nothing: who is not connected misses what is said. So whoever was not, for whatever reason, is told None
when it is again. What it had to say itself was kept, and is said then.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import random
import secrets
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from mcp_ref.machinery.complaints import Complaints
from mcp_ref.machinery.shapes import JsonObject

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
"""Different messages that wait; one more, and "anything may have been missed" stands for all of them."""

REDIS_TIMEOUT = 1.0
"""Seconds for connecting to Redis, and for one write."""

LOOK_INTERVAL = 0.25
"""Seconds after which the thread that hears looks whether it is to end."""

REOPEN_INTERVAL = 0.1
"""Seconds before the first attempt to reach Redis again; doubled four times at most. A part is left to chance."""

MISSED = "null"
"""The text of the message that stands for all that may have been missed."""

Receive = Callable[[JsonObject | None], None]


class Bus(Protocol):
    """Carries messages between the servers that share it. Threads: any."""

    def publish(self, topic: str, message: JsonObject) -> None:
        """Send a message to the subscribers of a topic, those of this process too. Never blocks, never fails."""
        ...

    def subscribe(self, topic: str, receive: Receive) -> Callable[[], None]:
        """Have each message of a topic given to `receive`, which must not block; what is returned ends that."""
        ...


class LocalBus:
    """A `Bus` for the servers of one process: each message is given to them at once, in the thread that publishes."""

    def __init__(self) -> None:
        self.receivers: list[tuple[str, Receive]] = []  # each use is one operation on a list

    def publish(self, topic: str, message: JsonObject | None) -> None:
        """See `Bus`; None: anything may have been missed."""
        for of, receive in list(self.receivers):
            if of == topic:
                receive(message)

    def subscribe(self, topic: str, receive: Receive) -> Callable[[], None]:
        """See `Bus`."""
        self.receivers.append((topic, receive))
        return partial(self.receivers.remove, (topic, receive))


class RedisBus:
    """A `Bus` for all processes that name the same Redis and the same prefix. Needs the extra `redis`.

    Args:
        url: such as "redis://localhost:6379/0"; "rediss://" for TLS. Redis need not be there yet.
        prefix: begins the name of the channel. Whoever may write to it can have every client ask for its lists again.
        interval: seconds in which equal messages are told once, here and to the others.

    Raises: ImportError: the package `redis` is missing. ValueError: the URL is not one of Redis.
    Threads: any. It has two of its own in each process, from its first use to `close`.
    """

    def __init__(self, url: str, *, prefix: str = "mcp_ref", interval: float = 0.1) -> None:
        try:
            import redis
        except ImportError:
            raise ImportError("RedisBus needs the package redis: pip install 'mcp_ref[redis]'") from None
        self._channel, self._interval = f"{prefix}:changes", interval
        # No attempt but ours: a connection that was mended in silence would hide what was missed meanwhile.
        limits = {"socket_timeout": REDIS_TIMEOUT, "socket_connect_timeout": REDIS_TIMEOUT, "socket_keepalive": True}
        self._redis: Any = redis.Redis.from_url(url, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0), **limits)
        self._complain, self._process = Complaints(log), 0
        self._lock = threading.Lock()  # guards the beginning, and the two dicts

    def _begin(self) -> None:
        """Start the threads, unless they run in this process."""
        with self._lock:
            if self._process == os.getpid():
                return
            self._process, self._name, self._local = os.getpid(), secrets.token_hex(8), LocalBus()
            self._tried, self._there, self._closing, self._work = (threading.Event() for _ in range(4))
            # What waits to be told here, and to the others: topic and text.
            self._to_tell, self._to_send = dict[tuple[str, str], None](), dict[tuple[str, str], None]()
            # Daemon: a program that forgets close() must still end; it is called then.
            self._hearing = threading.Thread(target=self._hear, name="mcp-bus-hear", daemon=True)
            self._telling = threading.Thread(target=self._tell, name="mcp-bus-tell", daemon=True)
            atexit.register(self.close, REDIS_TIMEOUT)
            self._hearing.start()
            self._telling.start()

    def publish(self, topic: str, message: JsonObject) -> None:
        """See `Bus`. What waits when Redis is lost is sent when it is there again."""
        self._begin()
        self._put(topic, json.dumps(message, sort_keys=True), self._to_tell, self._to_send)

    def subscribe(self, topic: str, receive: Receive) -> Callable[[], None]:
        """See `Bus`. Blocks: until Redis has answered, for a second or two at most."""
        self._begin()
        leave = self._local.subscribe(topic, receive)
        self._tried.wait(2 * REDIS_TIMEOUT)
        return leave

    def _put(self, topic: str, text: str, *queues: dict[tuple[str, str], None]) -> None:
        with self._lock:
            for queue in queues:
                queue[topic, text] = None
                if len(queue) > MAX_WAITING:
                    topics = {topic for topic, _ in queue}
                    queue.clear()
                    queue.update({(topic, MISSED): None for topic in topics})
        self._work.set()

    def _tell(self) -> None:
        """The thread that tells what waits, here and then to the others: at most once in an interval."""
        last = False
        while not last:
            self._work.wait()
            last = self._closing.is_set()
            self._work.clear()
            with self._lock:
                # Taken before it is told: what is said again meanwhile is told again.
                here, others = list(self._to_tell), list(self._to_send)[::-1] if self._there.is_set() else []
                self._to_tell.clear()
                if others:
                    self._to_send.clear()
            for topic, text in here:
                try:
                    self._local.publish(topic, json.loads(text))
                except Exception:
                    log.exception("a subscriber of %s failed", topic)
            try:
                while others:
                    self._redis.publish(self._channel, json.dumps([self._name, *others[-1]]))
                    others.pop()
            except Exception:
                # Whatever the package raises, the thread goes on, and the other one says what is wrong.
                for topic, text in others[::-1]:
                    self._put(topic, text, self._to_send)
            self._closing.wait(self._interval)

    def _hear(self) -> None:
        """The thread that takes what the others say, and connects again and again when the connection is lost."""
        attempt, missed = 0, False
        while not self._closing.is_set():
            pubsub = self._redis.pubsub()
            try:
                pubsub.subscribe(self._channel)
                if pubsub.get_message(timeout=REDIS_TIMEOUT) is None:
                    raise TimeoutError("no answer")
                log.log(logging.WARNING if attempt else logging.DEBUG, "connected to Redis")
                for event in (self._there, self._tried, self._work):
                    event.set()
                for topic, _ in self._local.receivers if missed else ():
                    self._put(topic, MISSED, self._to_tell)
                attempt, missed = 0, True
                while not self._closing.is_set():
                    if (message := pubsub.get_message(timeout=LOOK_INTERVAL)) is not None:
                        self._take(message["data"])
            except Exception as problem:
                if not attempt:
                    log.warning("no Redis: %s; until it is there, changes are told within each process alone", problem)
                self._there.clear()
                self._tried.set()
                self._closing.wait(REOPEN_INTERVAL * 2 ** min(attempt, 4) * random.uniform(0.5, 1))
                attempt, missed = attempt + 1, True
            finally:
                pubsub.close()

    def _take(self, data: Any) -> None:
        """Take what has come by the channel, to which others may write too."""
        try:
            name, topic, text = json.loads(data)
            ours = isinstance(json.loads(text), dict | None) and isinstance(topic, str)
        except (ValueError, TypeError, RecursionError):
            ours = False
        if not ours:
            self._complain("ignored what did not come from a bus on the channel %s", self._channel)
        elif name != self._name:
            self._put(topic, text, self._to_tell)

    def close(self, timeout: float = 5) -> None:
        """Say what waits to be said, and end for good: one thread is woken, the other looks now and then."""
        if self._process == os.getpid():
            self._tried.wait(timeout / 3)
            self._closing.set()
            self._work.set()
            atexit.unregister(self.close)
            self._telling.join(timeout / 3)
            self._hearing.join(timeout / 3)
