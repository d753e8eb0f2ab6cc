"""Seeded violations over HTTP, live: the proxy of `mcp-ref check` stands between a client and a server.

Whoever plays, plays both sides in turns, so that the order is that of the seed.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest

from mcp_ref.lab.judge.check import check
from mcp_ref.recording.record import TraceEvent
from tests.lab.judge.rules import rows
from tests.lab.judge.seeds import Seed
from tests.lab.judge.test_between import Answering, head, proxied
from tests.lab.judge.test_check import CASES, planted
from tests.slow import slow_but
from tests.support.wire import PATIENCE

HINTS = {row["rule"] for row in rows() if row.get("level") == "HINT"}
Step = tuple[dict[str, Any], bytes]


def playable() -> Iterator[tuple[Seed, str, list[TraceEvent]]]:
    """Each seed over HTTP, but for what only a trace has: a request to another server, an exchange that has two."""
    # Two requests at once, without a session, are of two clients to a proxy.
    left_out = {*HINTS, "notifications_belong_to_the_request"}
    for seed, revision in CASES:
        if seed.over == "http" and seed.rule not in left_out:
            made = planted(seed, revision, seed.broken, seed.change)
            asked = [event.http["exchange"] for event in made if event.http and event.direction == "send"]
            facts = [event.http or {} for event in made]
            if len(asked) == len(set(asked)) and not any({"oauth", "hangUp"} & set(each) for each in facts):
                yield seed, revision, made


def bytes_of(event: TraceEvent) -> bytes:
    if event.raw is not None:
        return base64.b64decode(event.raw)
    if event.message is None:
        return b""
    return (event.message if isinstance(event.message, str) else json.dumps(event.message)).encode()


def in_stream(facts: dict[str, Any], body: bytes) -> bytes:
    """What an event of a stream looks like, if this is one."""
    names = {"event": "event", "eventId": "id", "retry": "retry"}
    fields = "".join(f"{names[each]}: {facts[each]}\n" for each in names if each in facts).encode()
    return fields + b"data: " + body + b"\n\n" if body or fields else b""


def play(made: list[TraceEvent]) -> list[TraceEvent]:
    """Do what a trace says: each step has arrived at its other end before the next; gives what the proxy has seen."""
    told: dict[str, Queue[Step]] = {}
    came: Queue[str] = Queue()

    def answer(handler: Answering, _: bytes) -> None:
        name = handler.headers["x-exchange"]
        came.put(name)
        facts, body = told[name].get(timeout=PATIENCE)
        streams = str(facts["headers"].get("content-type")).startswith("text/event-stream")
        frame = ("Transfer-Encoding", "chunked") if streams else ("Content-Length", str(len(body)))
        head(handler, facts["status"], *facts["headers"].items(), frame)
        while streams and "end" not in facts:
            body = in_stream(facts, body)
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(body), body) if body else b"")
            facts, body = told[name].get(timeout=PATIENCE)
        handler.wfile.write(b"0\r\n\r\n" if streams else body)

    with proxied(answer) as (_, proxy, seen):
        idle: list[http.client.HTTPConnection] = []
        busy: dict[str, tuple[http.client.HTTPConnection, http.client.HTTPResponse | None]] = {}
        for each in made:
            facts, body = each.http or {}, bytes_of(each)
            name = str(facts["exchange"])
            if each.direction == "send":
                connection = idle.pop() if idle else http.client.HTTPConnection("127.0.0.1", proxy.port, PATIENCE)
                headers = {key: value.encode("latin-1", "replace") for key, value in facts.get("headers", {}).items()}
                query = "".join(f"?{key}=x" for key in facts.get("query", ()))
                told[name] = Queue()
                connection.request(facts["method"], f"/mcp{query}", body, {**headers, "x-exchange": name})
                busy[name] = connection, None
                assert came.get(timeout=PATIENCE) == name
                continue
            connection, reply = busy[name]
            told[name].put((facts, body))
            if reply is None:
                reply = connection.getresponse()
                busy[name] = connection, reply
                streams = str(facts["headers"].get("content-type")).startswith("text/event-stream")
                assert streams or reply.read() == body
            else:
                sent = in_stream(facts, body) if "end" not in facts else b""
                assert reply.read(len(sent) or None) == sent
            if reply.isclosed():
                idle.append(connection)
        for connection, _ in busy.values():
            connection.close()
    return seen


@pytest.mark.parametrize("part", slow_but([0], range(4)))
def test_finds_a_violation_as_it_happens_and_says_nothing_else(part: int) -> None:
    seeds = list(playable())
    assert len(seeds) > 150
    for seed, revision, made in seeds[part::4]:
        assert {each.rule for each in check(play(made))} - set(seed.base) == {seed.rule}, (seed.rule, revision)
