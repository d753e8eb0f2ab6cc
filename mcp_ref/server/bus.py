"""A bus: what one process announces reaches the listeners of all. Nothing of MCP.

    bus.publish("weather", message)                 to every subscriber of the topic, in whatever process
    leave = bus.subscribe("weather", receive)       from now on; `receive(None)`: anything may have been missed

A message is a JSON object that says *that* something has changed, so that saying it once is as good as saying it twice:
one that equals another which still waits is not told again. `LocalBus` is one for the servers of a single process.
`RedisBus` is one for any number of processes:

    publish  ->  waiting  ->  mcp-bus  ->  receive, here
                    ^         |     ^
                    |         v     |
                    +------    Redis    ->  other processes

Its one thread tells what waits once in an interval, here and to the others, and hears in between what they say. It
blocks on Redis alone, for `LOOK_INTERVAL` or `REDIS_TIMEOUT` at a time: so `close` ends it.

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
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.threads.warn_once import Complaints
from mcp_ref.kit.typed.shapes import JsonObject
from mcp_ref.pages.basic.subscriptions import LIST_CHANGES, UPDATED

if TYPE_CHECKING:
    from mcp_ref.server.server import Server

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
"""Different messages that wait; one more, and "anything may have been missed" stands for all of them."""

REDIS_TIMEOUT = 1.0
"""Seconds for connecting to Redis, and for one write."""

LOOK_INTERVAL = 0.25
"""Seconds after which the thread looks whether it is to end."""

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
        """Pass each message of a topic to `receive`, which must not block. Call what is returned to end that."""
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
    Threads: any. It has one of its own in each process, from its first use to `close`.
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
        """Start the thread, unless it runs in this process."""
        with self._lock:
            if self._process == os.getpid():
                return
            self._process, self._name, self._local = os.getpid(), secrets.token_hex(8), LocalBus()
            self._tried, self._closing = threading.Event(), threading.Event()
            # What waits to be told here, and to the others: topic and text.
            self._to_tell, self._to_send = dict[tuple[str, str], None](), dict[tuple[str, str], None]()
            # Daemon: a program that forgets close() must still end; it is called then.
            self._thread = threading.Thread(target=self._run, name="mcp-bus", daemon=True)
            atexit.register(self.close, REDIS_TIMEOUT)
            self._thread.start()

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

    def _taken(self, queue: dict[tuple[str, str], None]) -> list[tuple[str, str]]:
        """Return what waits, before it is told: what is said again meanwhile is told again."""
        with self._lock:
            waiting = list(queue)
            queue.clear()
        return waiting

    def _run(self) -> None:
        """Run the thread: tell here, tell the others, hear; connect again and again when the connection is lost."""
        pubsub: Any = None
        attempts, next_attempt, last = 0, 0.0, False
        while not last:
            last = self._closing.is_set()
            for topic, text in self._taken(self._to_tell):
                try:
                    self._local.publish(topic, json.loads(text))
                except Exception:
                    log.exception("a subscriber of %s failed", topic)
            try:
                if pubsub is None and time.monotonic() >= next_attempt:
                    pubsub = self._redis.pubsub()
                    pubsub.subscribe(self._channel)
                    if pubsub.get_message(timeout=REDIS_TIMEOUT) is None:
                        raise TimeoutError("no answer")
                    log.log(logging.WARNING if attempts else logging.DEBUG, "connected to Redis")
                    for topic, _ in self._local.receivers if attempts else ():
                        self._put(topic, MISSED, self._to_tell)
                    attempts = 0
                    self._tried.set()
                if pubsub is None:
                    self._closing.wait(self._interval)
                else:
                    self._exchange(pubsub)
            except Exception as problem:
                # Whatever the package raises, the thread goes on.
                if not attempts:
                    log.warning("no Redis: %s; until it is back, changes are told only within each process", problem)
                with suppress(Exception):
                    pubsub.close()
                pubsub = None
                next_attempt = time.monotonic() + REOPEN_INTERVAL * 2 ** min(attempts, 4) * random.uniform(0.5, 1)
                attempts += 1
                self._tried.set()
        if pubsub is not None:
            pubsub.close()

    def _exchange(self, pubsub: Any) -> None:
        """Tell the others what waits, and hear them for an interval. Raises: whatever the package raises."""
        waiting = self._taken(self._to_send)
        try:
            while waiting:
                self._redis.publish(self._channel, json.dumps([self._name, *waiting[0]]))
                del waiting[0]
        finally:
            for topic, text in waiting:
                self._put(topic, text, self._to_send)
        rest = Deadline(self._interval)
        while (left := rest.left()) and not self._closing.is_set():
            if (message := pubsub.get_message(timeout=min(left, LOOK_INTERVAL))) is not None:
                self._take(message["data"])

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
        """Say what waits to be said, and end for good: the thread looks now and then whether it is to."""
        if self._process == os.getpid():
            self._closing.set()
            atexit.unregister(self.close)
            self._thread.join(timeout)


# -- what a server tells, and hears, by it -----------------------------------------------------------------------


def join_bus(server: Server, bus: Bus) -> None:
    """Listen to the bus from here on, unless another thread has come first."""
    leave = bus.subscribe(server.info["name"], partial(heard, server))
    with server.lock:
        first = server.leave_bus is None
        server.leave_bus = server.leave_bus or leave
    if not first:
        leave()


def heard(server: Server, message: JsonObject | None) -> None:
    """Tell the clients of this process what the bus brings: a change, or that anything may have been missed."""
    if message is None:
        # Each list, and each resource to those who asked for it.
        for method in LIST_CHANGES:
            server.tell_change(method, {})
        for session in server.sessions:
            for uri in session.subscriptions:
                session.announce(UPDATED, {"uri": uri})
        for subscription in list(server.subscriptions):
            for uri in subscription.honoured.get("resourceSubscriptions", ()):
                subscription.put(UPDATED, {"uri": uri})
        return
    match message:
        case {"method": str(method), "params": {"uri": str(uri)}} if method == UPDATED:
            server.tell_change(UPDATED, {"uri": uri})
        case {"method": str(method)} if method in LIST_CHANGES:
            server.tell_change(method, {})
        case _:
            log.warning("the bus delivered a message that no client can be told of: %.80r", message.get("method"))
