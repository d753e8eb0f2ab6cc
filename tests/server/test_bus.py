"""A bus of two: what one says, the other hears; and what becomes of that when Redis is not there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mcp_ref.server import bus as bus_module
from mcp_ref.server.bus import RedisBus
from tests.features.conftest import until
from tests.redis_server import Redis, redis_server

CHANGE, LAST = {"method": "notifications/tools/list_changed", "params": {}}, {"method": "last"}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    with redis_server(tmp_path) as it:
        yield it


@contextmanager
def buses(redis: Redis, number: int = 2, **options: Any) -> Iterator[list[tuple[RedisBus, list[Any]]]]:
    """Some as each process has one, and what each has heard on the topic "s"."""
    made = [(RedisBus(redis.url, **options), list[Any]()) for _ in range(number)]
    try:
        for bus, heard in made:
            bus.subscribe("s", heard.append)
        yield made
    finally:
        for bus, _ in made:
            bus.close()


def raw(redis: Redis) -> Any:
    import redis as package

    return package.Redis.from_url(redis.url)


def test_each_hears_a_change_once_whoever_says_it(redis: Redis) -> None:
    with buses(redis, 3) as made:
        made[0][0].publish("s", CHANGE)
        until(lambda: all(heard == [CHANGE] for _, heard in made))
        # What each heard of itself by Redis would have come before this.
        made[1][0].publish("s", LAST)
        until(lambda: all(heard == [CHANGE, LAST] for _, heard in made))


@pytest.mark.slow
def test_equal_messages_are_told_once_in_an_interval(redis: Redis) -> None:
    with buses(redis, interval=0.1) as made:
        began = time.monotonic()
        while time.monotonic() - began < 0.5:
            made[0][0].publish("s", CHANGE)
        made[0][0].publish("s", LAST)
        until(lambda: all(LAST in heard for _, heard in made))
        for _, heard in made:
            assert 1 <= heard.count(CHANGE) <= (time.monotonic() - began) / 0.1 + 2


def test_servers_of_other_names_and_other_prefixes_hear_nothing_and_a_failure_of_one_holds_up_no_other(
    redis: Redis,
) -> None:
    elsewhere, heard = RedisBus(redis.url, prefix="staging"), list[Any]()
    with buses(redis) as made:
        elsewhere.subscribe("s", heard.append)
        made[1][0].subscribe("t", heard.append)
        made[1][0].subscribe("s", Mock(side_effect=ZeroDivisionError))
        for message in (CHANGE, LAST):
            made[0][0].publish("s", message)
        until(lambda: made[1][1] == [CHANGE, LAST])
        elsewhere.publish("s", {"method": "own"})
        until(lambda: heard == [{"method": "own"}])
        assert made[1][1] == [CHANGE, LAST]
    elsewhere.close()


def test_foreign_bytes_on_the_channel_are_ignored(redis: Redis, caplog: pytest.LogCaptureFixture) -> None:
    with buses(redis) as made, raw(redis) as client:
        for data in (b"\xff\xfe", b"", b"[", b"{}", b"null", b"[1, 2, 3]", b'["a", "s", "not json"]',
                     b'["a", "s", "[1]"]', b'["a", 5, "{}"]', b"[" * 100_000):  # fmt: skip
            client.publish("mcp_ref:changes", data)
        made[0][0].publish("s", CHANGE)
        until(lambda: made[1][1] == [CHANGE])
    assert [record.levelname for record in caplog.records].count("WARNING") == 2  # once in each


@pytest.mark.slow
def test_works_alone_while_redis_is_down_and_tells_the_others_when_it_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server(tmp_path, started=False) as redis, buses(redis) as made:
        made[0][0].publish("s", CHANGE)
        until(lambda: made[0][1] == [CHANGE])
        assert made[1][1] == []
        redis.start()
        # Both are told that they may have missed something; who is there already hears what was said meanwhile.
        until(lambda: None in made[0][1] and None in made[1][1])
        assert sum("no Redis" in record.message for record in caplog.records) == 2  # once in each
        redis.kill()
        until(lambda: caplog.text.count("no Redis") > 2)
        for _, heard in made:
            heard.clear()
        redis.start()
        until(lambda: all(None in heard for _, heard in made))
        made[1][0].publish("s", LAST)
        until(lambda: LAST in made[0][1])


def test_a_connection_that_redis_closes_is_not_mended_in_silence(redis: Redis) -> None:
    with buses(redis) as made, raw(redis) as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        until(lambda: all(heard == [None] for _, heard in made))


@pytest.mark.slow
def test_nobody_waits_for_a_redis_that_does_not_answer(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "MAX_WAITING", 100)
    with buses(redis) as made:
        with redis.stopped():
            began = time.monotonic()
            for number in range(250):
                made[0][0].publish("s", {"method": str(number)})
            assert time.monotonic() - began < 5
            until(lambda: made[0][1])
        # It was too much to be kept.
        until(lambda: None in made[1][1])
        made[0][0].publish("s", LAST)
        until(lambda: LAST in made[1][1])


@pytest.mark.slow
def test_begins_again_in_a_forked_process(redis: Redis) -> None:
    with buses(redis) as made:
        child = os.fork()
        if not child:
            made[0][0].publish("s", CHANGE)
            made[0][0].close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        until(lambda: all(heard == [CHANGE] for _, heard in made))


@pytest.mark.slow
def test_a_process_that_only_publishes_says_all_of_it_before_it_ends(redis: Redis) -> None:
    with buses(redis) as made:
        alone = RedisBus(redis.url)
        for number in range(3):
            alone.publish("s", {"method": str(number)})
        alone.close()
        until(lambda: all(len(heard) == 3 for _, heard in made))


@pytest.mark.slow
@pytest.mark.parametrize("silent", [True, False])
def test_closes_in_time_when_redis_is_gone_or_silent(redis: Redis, silent: bool) -> None:
    with buses(redis, 1) as [(bus, _)], redis.stopped() if silent else nullcontext():
        if silent:
            bus.publish("s", CHANGE)
        else:
            redis.kill()
        began = time.monotonic()
        bus.close(2)
        assert time.monotonic() - began < 8


def test_names_the_extra_when_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "redis", None)
    with pytest.raises(ImportError, match=r"pip install 'mcp_ref\[redis\]'"):
        RedisBus("redis://localhost")


@pytest.mark.slow
def test_what_is_said_again_while_it_is_sent_is_sent_again(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was told of the first change may have asked before the second one."""
    with buses(redis, interval=0.01) as [(bus, _), (_, heard)]:
        send, again = bus._redis.publish, [True]

        def publish(channel: str, text: str) -> None:
            send(channel, text)
            until(lambda: heard)
            if again:
                again.clear()
                bus.publish("s", CHANGE)

        monkeypatch.setattr(bus._redis, "publish", publish)
        bus.publish("s", CHANGE)
        until(lambda: heard == [CHANGE, CHANGE])
