"""basic/utilities/ping: an empty answer at once, in both directions, whatever else goes on."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mcp_ref import Server
from mcp_ref.revisions import SESSION_REVISIONS
from tests.support.wire import PATIENCE, opened, to_client


@pytest.mark.parametrize("revision", [row.name for row in SESSION_REVISIONS])
def test_both_sides_answer_with_an_empty_result(revision: str) -> None:
    with opened(Server("s"), revision) as wire:
        assert wire.request("a", "ping") == {"jsonrpc": "2.0", "id": "a", "result": {}}
    with to_client(revision) as (_, wire):
        assert wire.request(0, "ping") == {"jsonrpc": "2.0", "id": 0, "result": {}}


def test_a_ping_is_answered_while_all_handlers_are_busy_and_others_wait() -> None:
    server, running, go = Server("s", max_workers=1), threading.Event(), threading.Event()

    @server.tool()
    def busy() -> str:
        running.set()
        assert go.wait(PATIENCE)
        return "done"

    with opened(server, "2025-11-25") as wire:
        for request_id in range(4):
            wire.call(request_id, "busy")
        assert running.wait(PATIENCE)
        for number in range(20):
            assert wire.request(f"p{number}", "ping")["id"] == f"p{number}"
        go.set()
        assert sorted(wire.receive()["id"] for _ in range(4)) == [0, 1, 2, 3]


def test_a_client_answers_a_ping_while_its_user_thinks() -> None:
    running, go = threading.Event(), threading.Event()

    def elicit(message: str, schema: Any) -> Any:
        running.set()
        assert go.wait(PATIENCE)
        return {}

    with to_client(elicit=elicit) as (_, wire):
        params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        wire.send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
        assert running.wait(PATIENCE)
        assert wire.request("p", "ping") == {"jsonrpc": "2.0", "id": "p", "result": {}}
        go.set()
        assert wire.receive()["id"] == "q"
