"""Tests of what a server has and did not declare: what it tells is told on; what it has can be asked for, if one says
so.
"""

from __future__ import annotations

import logging
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import LocalProtocolError
from tests.support.wire import PATIENCE, Background, to_client


def test_log_messages_and_changes_that_were_not_declared_are_delivered_and_noted_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = SimpleQueue[Any]()
    changed = "notifications/tools/list_changed"
    caplog.set_level(logging.INFO, "mcp_ref")
    with to_client(on_log=told.put, on_change=lambda *change: told.put(change)) as (_, wire):
        for _ in range(2):
            wire.notify("notifications/message", {"level": "info", "data": 1})
            wire.notify(changed)
        # What the revision does not have stays unheard.
        wire.notify("notifications/subscriptions/acknowledged")
        assert [told.get(timeout=PATIENCE) for _ in range(4)] == [{"level": "info", "data": 1}, (changed, {})] * 2
    assert told.empty()
    noted = [record.getMessage() for record in caplog.records if "has not declared" in record.getMessage()]
    assert noted == [
        "the server sends notifications/message, and has not declared server.logging",
        f"the server sends {changed}, and has not declared server.tools.listChanged",
    ]


def test_what_was_not_declared_is_asked_for_only_if_that_is_said() -> None:
    with to_client() as (client, wire):
        asked = Background(client.subscribe_resource, "a:b", undeclared=True)
        request = wire.receive()
        assert request["method"] == "resources/subscribe"
        wire.answer(request["id"], {})
        assert asked.outcome() is None
        with pytest.raises(LocalProtocolError, match="not declared"):
            client.subscribe_resource("a:b")
        assert wire.silent()
