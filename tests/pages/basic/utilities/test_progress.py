"""basic/utilities/progress: how far a request has come, in both directions."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, Context, LocalProtocolError, McpError, Server, text_of
from mcp_ref.client.session import ClientContext
from mcp_ref.connection import connection as requester
from mcp_ref.pages.basic.utilities import token_of
from tests.eras import MODERN, open_client, open_server
from tests.support.wire import PATIENCE, Background, opened, to_client

WITH_MESSAGE = ["2025-03-26", "2025-06-18", "2025-11-25", MODERN]
in_both_eras = pytest.mark.parametrize("revision", ["2025-11-25", MODERN])


def a_server(**options: Any) -> Server:
    server = Server("s", **options)

    @server.tool()
    def work(ctx: Context) -> str:
        ctx.progress(0)
        ctx.progress(0.5, 2)
        ctx.progress(2, 2, "done")
        return "ok"

    return server


def call_with(token: Any) -> dict[str, Any]:
    params = {"name": "work", "arguments": {}, "_meta": {"progressToken": token}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


# -- reporting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2024-11-05", *WITH_MESSAGE])
def test_a_server_reports_with_the_token_it_was_given(revision: str) -> None:
    message = {"message": "done"} if revision in WITH_MESSAGE else {}
    with open_server(a_server(), revision) as wire:
        for token in ("", "abc", 0, 7, 2**70):
            wire.send(call_with(token))
            reports = [wire.receive() for _ in range(3)]
            assert wire.receive()["id"] == 1
            assert [report["method"] for report in reports] == ["notifications/progress"] * 3
            assert [report["params"] for report in reports] == [
                {"progressToken": token, "progress": 0},
                {"progressToken": token, "progress": 0.5, "total": 2},
                {"progressToken": token, "progress": 2, "total": 2, **message},
            ]
        # Nothing is reported to a peer that did not ask.
        wire.call(1, "work")
        assert "result" in wire.receive()
        assert wire.silent()


def test_what_is_not_a_token_is_invalid() -> None:
    with opened(a_server(), "2025-11-25") as wire:
        for token in (True, 1.5, None, [], {}):
            wire.send(call_with(token))
            error = wire.receive()["error"]
            assert (error["code"], error["data"]["path"]) == (-32602, "params._meta.progressToken")
            assert token_of({"_meta": {"progressToken": token}}) is None
    assert token_of({"_meta": {"progressToken": 1.0}}) is None


def test_progress_is_a_finite_number_that_increases_and_what_does_not_is_dropped() -> None:
    server, heard = Server("s"), list[float]()

    @server.tool()
    def work(ctx: Context) -> str:
        for value in (-1, 0.25):
            ctx.progress(value)
            for less in (value, value - 1):
                with pytest.warns(UserWarning, match="progress must increase") as warned:
                    ctx.progress(less)
                assert warned[0].filename == __file__, "the line is that of whoever reports"
            for wrong in (float("nan"), float("inf"), True, "1"):
                with pytest.raises(LocalProtocolError):
                    ctx.progress(wrong)  # type: ignore[arg-type]
                with pytest.raises(LocalProtocolError):
                    ctx.progress(1, wrong)  # type: ignore[arg-type]
        ctx.progress(10**400)
        return "done"

    with Client(server) as client:
        called = client.call_tool("work", on_progress=lambda progress, total, message: heard.append(progress))
    assert (text_of(called), heard) == ("done", [-1, 0.25, 10**400])


@in_both_eras
@pytest.mark.parametrize("ended", ["answered", "cancelled"])
def test_nothing_is_sent_after_the_answer_or_a_cancellation(revision: str, ended: str) -> None:
    server, running, go, kept = Server("s"), threading.Event(), threading.Event(), SimpleQueue[Context]()

    @server.tool()
    def work(ctx: Context) -> str:
        running.set()
        assert go.wait(PATIENCE)
        kept.put(ctx)
        return "ok"

    with open_server(server, revision, {"roots": {}}) as wire:
        wire.send(call_with("t"))
        assert running.wait(PATIENCE)
        if ended == "cancelled":
            wire.notify("notifications/cancelled", {"requestId": 1})
        go.set()
        if ended == "answered":
            assert "result" in wire.receive()
        # The answer is on the wire once it is read; its end is noted under the lock that `progress` takes.
        ctx = kept.get(timeout=PATIENCE)
        ctx.progress(1)
        with pytest.raises(McpError):
            ctx.roots()
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()


def test_a_client_reports_progress_of_the_servers_question() -> None:
    def sample(params: Any, ctx: ClientContext) -> Any:
        ctx.progress(1, 2, "thinking")
        return {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}

    with to_client(sample=sample) as (_, wire):
        params = {"messages": [], "maxTokens": 1, "_meta": {"progressToken": 0}}
        wire.send({"jsonrpc": "2.0", "id": 0, "method": "sampling/createMessage", "params": params})
        report = wire.receive()
        assert report["params"] == {"progressToken": 0, "progress": 1, "total": 2, "message": "thinking"}
        assert wire.receive()["id"] == 0


# -- being told ---------------------------------------------------------------------------------------------------


@in_both_eras
def test_a_client_that_asks_is_told_in_the_calling_thread(revision: str) -> None:
    seen: list[Any] = []

    def on_progress(*report: Any) -> None:
        seen.append((*report, threading.current_thread().name))

    with open_client(revision) as (client, wire):
        call = Background(client.request, "x/y", None, {"on_progress": on_progress})
        request = wire.receive()
        token = request["params"]["_meta"]["progressToken"]
        wire.notify("notifications/progress", {"progressToken": token, "progress": 1})
        wire.notify("notifications/progress", {"progressToken": token, "progress": 2.5, "total": 3, "message": "m"})
        wire.answer(request["id"], {})
        assert call.outcome() == {}
    assert seen == [(1, None, None, "test-call"), (2.5, 3, "m", "test-call")]


@in_both_eras
def test_tokens_of_active_requests_differ(revision: str) -> None:
    with open_client(revision) as (client, wire):
        calls = [Background(client.request, "x/y", None, {"on_progress": lambda *report: None}) for _ in range(3)]
        requests = [wire.receive() for _ in calls]
        tokens = [request["params"]["_meta"]["progressToken"] for request in requests]
        assert len(set(tokens)) == 3
        assert {type(token) for token in tokens} <= {str, int}
        for request in requests:
            wire.answer(request["id"], {})
        assert [call.outcome() for call in calls] == [{}] * 3


def test_progress_for_nobody_or_malformed_or_after_the_answer_is_ignored() -> None:
    seen: list[Any] = []
    wrong: list[Any] = [{"total": "much"}, {"message": 5}, *({"progress": value} for value in ("1", True, None))]
    wrong += [{"progressToken": token} for token in ("nobody's", True, [[1]])]
    with to_client() as (client, wire):
        call = Background(client.ping, on_progress=lambda *report: seen.append(report))
        request_id = wire.receive()["id"]
        right = {"progressToken": request_id, "progress": 1}
        for each in wrong:
            wire.notify("notifications/progress", {**right, **each})
        wire.answer(request_id, {})
        wire.notify("notifications/progress", right)
        assert call.outcome() is None
        assert wire.silent()
    assert seen == []


def test_a_flood_of_reports_to_a_slow_callback_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requester, "MAX_UNREAD", 3)
    seen: list[float] = []
    first, go = threading.Event(), threading.Event()

    def slow(value: float, *_: Any) -> None:
        seen.append(value)
        first.set()
        assert go.wait(PATIENCE)

    with to_client() as (client, wire):
        call = Background(client.ping, on_progress=slow)
        request_id = wire.receive()["id"]
        wire.notify("notifications/progress", {"progressToken": request_id, "progress": 0})
        assert first.wait(PATIENCE)
        for number in range(1, 10):
            wire.notify("notifications/progress", {"progressToken": request_id, "progress": number})
        go.set()
        wire.answer(request_id, {})
        assert call.outcome() is None
    assert seen == [0, 1, 2, 3]
