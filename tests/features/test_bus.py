"""Servers on a bus: what one announces is told to the clients of all, in both eras; over several processes by Redis."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, LocalBus, Server
from mcp_ref.kit.typed.shapes import JsonObject
from tests.features.conftest import address_of, until
from tests.features.test_processes import APPLICATION, KEY
from tests.pages.basic.transports.streamable_http import modern
from tests.redis_server import redis_server
from tests.support.wire import PATIENCE, Background
from tests.under_wsgi import Running, children, under

TOOLS, UPDATED = "notifications/tools/list_changed", "notifications/resources/updated"


def offering(bus: Any, name: str = "s") -> Server:
    server = Server(name, bus=bus, declare=["tools", "prompts"])
    server.resource("note://1")(lambda: "a note")
    return server


@contextmanager
def told(server: Server) -> Iterator[list[tuple[str, str | None]]]:
    """Give what two clients of a server are told, one of each era."""
    heard: list[tuple[str, str | None]] = []

    def hear(method: str, params: JsonObject) -> None:
        heard.append((method, params.get("uri")))

    with (
        Client(server, revision="2025-11-25", on_change=hear) as client,
        Client(server, revision="2026-07-28") as alone,
        alone.listen(tools=True, resources=["note://1"]) as events,
    ):
        client.subscribe_resource("note://1")
        reading = Background(lambda: [hear(*event) for event in events])
        yield heard
        events.close()
        reading.outcome()


def test_a_change_in_one_server_is_told_to_the_clients_of_all_once() -> None:
    bus = LocalBus()
    here, there, other = offering(bus), offering(bus), offering(bus, "other")
    with told(here) as one, told(there) as two, told(other) as three:
        here.tool("added")(lambda: "added")
        until(lambda: len(one) == len(two) == 2)
        there.resource_updated("note://1")
        until(lambda: len(one) == len(two) == 4)
    # Once to each of the two clients of each.
    assert one == two == [(TOOLS, None), (TOOLS, None), (UPDATED, "note://1"), (UPDATED, "note://1")]
    assert three == []


def test_what_is_registered_before_a_server_serves_is_not_a_change() -> None:
    bus = LocalBus()
    with told(offering(bus)) as heard:
        offering(bus).tool("more")(lambda: "more")
        # But a process that serves nobody may know that a resource has changed.
        offering(bus).resource_updated("note://1")
        until(lambda: heard)
    assert set(heard) == {(UPDATED, "note://1")}


def test_listeners_are_told_of_all_when_anything_may_have_been_missed() -> None:
    bus = LocalBus()
    with told(offering(bus)) as heard:
        bus.publish("s", None)
        # The one that asked for it is told of the list of tools and the note, the other one of each list and the note.
        until(lambda: len(heard) == 6)
    lists = ("tools", "prompts", "resources")
    assert set(heard) == {(UPDATED, "note://1"), *((f"notifications/{each}/list_changed", None) for each in lists)}


@pytest.mark.parametrize(
    "message",
    [{}, {"method": 5}, {"method": "notifications/cancelled", "params": {}}, {"method": UPDATED, "params": {"uri": 1}},
     {"method": UPDATED, "params": []}],
)  # fmt: skip
def test_what_nobody_can_be_told_is_ignored(message: JsonObject, caplog: pytest.LogCaptureFixture) -> None:
    bus = LocalBus()
    with told(offering(bus)) as heard:
        bus.publish("s", message)
        bus.publish("s", {"method": TOOLS})
        until(lambda: heard)
    assert "no client can be told of" in caplog.text
    assert set(heard) == {(TOOLS, None)}


def test_a_closed_server_listens_to_the_bus_no_longer() -> None:
    bus = LocalBus()
    server = offering(bus)
    with Client(server):
        assert len(bus.receivers) == 1
    server.close()
    assert bus.receivers == []


# -- four workers and Redis ----------------------------------------------------------------------------------------


class Listeners:
    """Many clients that listen for the list of tools, each on a connection of its own, all in one thread."""

    def __init__(self, url: str, number: int) -> None:
        self._address = address_of(url)
        self._selector, self.heard = selectors.DefaultSelector(), [list[float]() for _ in range(number)]
        self._rest = [b""] * number
        for index in range(number):
            self._open(index)

    def _open(self, index: int) -> None:
        connection = socket.create_connection(self._address, PATIENCE)
        connection.sendall(modern.post(modern.listening(toolsListChanged=True)))
        self._selector.register(connection, selectors.EVENT_READ, index)
        self._rest[index] = b""

    def look(self, until: Callable[[], bool], seconds: float) -> bool:
        """Read what comes until something is true, for at most so many seconds."""
        end = time.monotonic() + seconds
        while not until():
            if (left := end - time.monotonic()) <= 0:
                return False
            for key, _ in self._selector.select(min(left, 0.1)):
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if not data:
                    # The worker is gone: a client asks again.
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
                    self._open(key.data)
                    continue
                *lines, self._rest[key.data] = (self._rest[key.data] + data).split(b"\n")
                for line in lines:
                    if b"acknowledged" in line or b"tools/list_changed" in line:
                        self.heard[key.data].append(time.monotonic())
        return True

    def each(self, messages: int) -> Callable[[], bool]:
        """Whether each has heard so many messages, the acknowledgement counted."""
        return lambda: min(map(len, self.heard)) >= messages

    def more_than(self, before: list[int]) -> Callable[[], bool]:
        """Whether each has heard more than that."""
        return lambda: all(len(now) > then for now, then in zip(self.heard, before, strict=True))

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()


@contextmanager
def on_redis(folder: Path, number: int) -> Iterator[tuple[Running, Listeners]]:
    """Redis, four workers, and listeners that have all been acknowledged."""
    with ExitStack() as stack:
        redis = stack.enter_context(redis_server(folder))
        env = {"MOUNTED_KEYS": KEY, "MOUNTED_BUS": redis.url, "MOUNTED_OPTIONS": '{"sessions": false}'}
        running = stack.enter_context(under("gunicorn", APPLICATION, workers=4, threads=number + 8, env=env))
        listeners = Listeners(running.url, number)
        stack.callback(listeners.close)
        assert listeners.look(listeners.each(1), 60)
        yield running, listeners


@pytest.mark.slow
def test_listeners_over_four_workers_are_told_once_and_by_another_when_theirs_is_killed(tmp_path: Path) -> None:
    with on_redis(tmp_path, 20) as (running, listeners):
        with Client(running.url, revision="2026-07-28", timeout=PATIENCE) as client:
            client.call_tool("change")
        assert listeners.look(listeners.each(2), 60)
        assert not listeners.look(listeners.each(3), 0.5)
        os.kill(children(running.process.pid)[0], signal.SIGKILL)
        listeners.look(lambda: False, 1)
        before = list(map(len, listeners.heard))
        with Client(running.url, revision="2026-07-28", timeout=PATIENCE) as client:
            for _ in range(20):
                # Again for those that were not listening again yet.
                client.call_tool("change")
                if listeners.look(listeners.more_than(before), 1):
                    return
        raise AssertionError("a listener was told nothing")
