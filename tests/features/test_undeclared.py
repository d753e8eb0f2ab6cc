"""What a server has and did not declare: what it tells is told on; what it has can be asked for, if one says so."""

from __future__ import annotations

import logging
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, LocalProtocolError
from mcp_ref.basic.transports.memory import pair
from mcp_ref.machinery.deadline import Deadline
from tests.wire import PATIENCE, Background, Wire

OPENED: dict[str, Any] = {
    "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}  # fmt: skip


def test_log_messages_and_changes_that_were_not_declared_are_delivered_and_noted_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = SimpleQueue[Any]()
    ours, theirs = pair()
    wire = Wire(ours)
    client = Client(theirs, revision="2025-11-25", on_log=told.put, on_change=lambda *change: told.put(change))
    under_way = Background(client.connect)
    wire.answer(wire.receive()["id"], OPENED)
    assert under_way.outcome() is client
    changed = "notifications/tools/list_changed"
    try:
        with caplog.at_level(logging.INFO, "mcp_ref"):
            for _ in range(2):
                wire.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
                wire.send({"jsonrpc": "2.0", "method": changed})
            # What the revision does not have stays unheard.
            wire.send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"})
            assert [told.get(timeout=PATIENCE) for _ in range(4)] == [{"level": "info", "data": 1}, (changed, {})] * 2
        assert told.empty()
        noted = [record.getMessage() for record in caplog.records if "has not declared" in record.getMessage()]
        assert noted == [
            "the server sends notifications/message, and has not declared server.logging",
            f"the server sends {changed}, and has not declared server.tools.listChanged",
        ]
    finally:
        client.close()
        ours.close(Deadline(PATIENCE))


def test_what_was_not_declared_is_asked_for_only_if_that_is_said() -> None:
    ours, theirs = pair()
    wire = Wire(ours)
    client = Client(theirs, revision="2025-11-25")
    under_way = Background(client.connect)
    wire.answer(wire.receive()["id"], OPENED)
    under_way.outcome()
    assert wire.receive()["method"] == "notifications/initialized"
    try:
        asked = Background(client.subscribe_resource, "a:b", undeclared=True)
        request = wire.receive()
        assert request["method"] == "resources/subscribe"
        wire.answer(request["id"], {})
        assert asked.outcome() is None
        with pytest.raises(LocalProtocolError, match="not declared"):
            client.subscribe_resource("a:b")
        assert wire.silent()
    finally:
        client.close()
        ours.close(Deadline(PATIENCE))
