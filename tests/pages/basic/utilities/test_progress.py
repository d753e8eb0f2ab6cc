"""basic/utilities/progress: how far a request has come, in both directions."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import Client, Context, LocalProtocolError, Server, text_of
from mcp_ref.client.session import ClientContext
from mcp_ref.connection import connection as requester
from mcp_ref.pages.basic.utilities import HandlerContext, token_of
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


@pytest.mark.parametrize("token", ["", "abc", 0, 7, 2**70])
@pytest.mark.parametrize("revision", WITH_MESSAGE)
def test_a_server_reports_with_the_token_it_was_given(token: Any, revision: str) -> None:
    with open_server(a_server(), revision) as wire:
        wire.send(call_with(token))
        reports = [wire.receive() for _ in range(3)]
        assert wire.receive()["id"] == 1
    assert [report["method"] for report in reports] == ["notifications/progress"] * 3
    assert [report["params"] for report in reports] == [
        {"progressToken": token, "progress": 0},
        {"progressToken": token, "progress": 0.5, "total": 2},
        {"progressToken": token, "progress": 2, "total": 2, "message": "done"},
    ]


def test_the_message_is_left_out_before_2025_03_26() -> None:
    with opened(a_server(), "2024-11-05") as wire:
        wire.send(call_with("t"))
        assert [sorted(wire.receive()["params"]) for _ in range(3)] == [
            ["progress", "progressToken"],
            ["progress", "progressToken", "total"],
            ["progress", "progressToken", "total"],
        ]
        assert "result" in wire.receive()


def test_nothing_is_reported_to_a_peer_that_did_not_ask() -> None:
    with opened(a_server(), "2025-11-25") as wire:
        wire.call(1, "work")
        assert "result" in wire.receive()
        assert wire.silent()


def test_a_fraction_is_not_a_token() -> None:
    assert token_of({"_meta": {"progressToken": 1.0}}) is None


@pytest.mark.parametrize("token", [True, 1.5, None, [], {}])
def test_what_is_not_a_token_is_invalid(token: Any) -> None:
    with opened(a_server(), "2025-11-25") as wire:
        wire.send(call_with(token))
        error = wire.receive()["error"]
        assert (error["code"], error["data"]["path"]) == (-32602, "params._meta.progressToken")
    assert token_of({"_meta": {"progressToken": token}}) is None


class Recorder(HandlerContext):
    """Remembers what is sent."""

    progress_token: Any = "t"

    def __init__(self, method: str = "tools/call") -> None:
        self.incoming = SimpleNamespace(method=method, params={"name": "count"})  # type: ignore[assignment]
        self.last_progress: float | None = None
        self.sent: list[Any] = []

    def notify(self, method: str, params: Any = None) -> None:
        self.sent.append(params["progress"])


@pytest.mark.parametrize("values", [(1, 1), (1, 0.5), (0, -1), (0.1, 0.1)])
def test_progress_that_does_not_increase_is_dropped(values: Any) -> None:
    recorder = Recorder()
    recorder.progress(values[0])
    with pytest.warns(UserWarning, match="progress must increase") as warned:
        recorder.progress(values[1])
    recorder.progress(2)
    assert recorder.sent == [values[0], 2]
    assert warned[0].filename == __file__, "the line is that of whoever reports"


@pytest.mark.filterwarnings("ignore:progress must increase")
def test_a_tool_goes_on_after_progress_that_does_not_increase() -> None:
    server = Server("s")

    @server.tool()
    def thirds(ctx: Context) -> str:
        for i in range(7):
            ctx.progress(int(i / 3), 3)
        return "done"

    with Client(server) as client:
        assert text_of(client.call_tool("thirds")) == "done"
        heard: list[float] = []
        client.call_tool("thirds", on_progress=lambda progress, total, message: heard.append(progress))
    assert heard == [0, 1, 2]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1", None])
def test_progress_is_a_finite_number(value: Any) -> None:
    recorder = Recorder()
    with pytest.raises(LocalProtocolError):
        recorder.progress(value)
    if value is not None:
        with pytest.raises(LocalProtocolError):
            recorder.progress(1, value)
    assert recorder.sent == []


def test_progress_may_be_a_whole_number_of_any_size_or_a_fraction() -> None:
    recorder = Recorder()
    for value in (-1, 0.25, 10**400):
        recorder.progress(value)
    assert recorder.sent == [-1, 0.25, 10**400]


@in_both_eras
def test_nothing_is_sent_after_the_answer(revision: str) -> None:
    server, kept = Server("s"), []

    @server.tool()
    def work(ctx: Context) -> str:
        kept.append(ctx)
        return "ok"

    with open_server(server, revision) as wire:
        wire.send(call_with("t"))
        assert "result" in wire.receive()
        # The answer is on the wire once it is read; its end is noted under the lock that `progress` takes.
        kept[0].progress(1)
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()


@in_both_eras
def test_nothing_is_sent_after_a_cancellation(revision: str) -> None:
    server, running, go, done = Server("s"), threading.Event(), threading.Event(), threading.Event()

    @server.tool()
    def work(ctx: Context) -> str:
        running.set()
        assert go.wait(PATIENCE)
        ctx.progress(1)
        done.set()
        return "ok"

    with open_server(server, revision) as wire:
        wire.send(call_with("t"))
        assert running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 1})
        go.set()
        assert done.wait(PATIENCE)
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
    threads: set[str] = set()

    def on_progress(*report: Any) -> None:
        seen.append(report)
        threads.add(threading.current_thread().name)

    with open_client(revision) as (client, wire):
        call = Background(client.request, "x/y", None, {"on_progress": on_progress})
        request = wire.receive()
        token = request["params"]["_meta"]["progressToken"]
        wire.notify("notifications/progress", {"progressToken": token, "progress": 1})
        wire.notify("notifications/progress", {"progressToken": token, "progress": 2.5, "total": 3, "message": "m"})
        wire.answer(request["id"], {})
        assert call.outcome() == {}
    assert seen == [(1, None, None), (2.5, 3, "m")]
    assert threads == {"test-call"}


def test_a_request_without_a_callback_carries_no_token() -> None:
    with to_client() as (client, wire):
        call = Background(client.ping)
        request = wire.receive()
        assert "params" not in request
        wire.answer(request["id"], {})
        call.outcome()


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"progressToken": "nobody's"},
        {"progress": "1"},
        {"progress": True},
        {"progress": None},
        {"total": "much"},
        {"message": 5},
        {"progressToken": True},
        {"progressToken": [[1]]},
    ],
)
def test_progress_for_nobody_or_malformed_is_ignored(wrong: Any) -> None:
    seen: list[Any] = []
    with to_client() as (client, wire):
        call = Background(client.ping, on_progress=lambda *report: seen.append(report))
        request_id = wire.receive()["id"]
        wire.notify("notifications/progress", {"progressToken": request_id, "progress": 1, **wrong})
        wire.answer(request_id, {})
        assert call.outcome() is None
        assert wire.silent()
    assert seen == []


def test_progress_after_the_answer_is_ignored() -> None:
    seen: list[Any] = []
    with to_client() as (client, wire):
        call = Background(client.ping, on_progress=lambda *report: seen.append(report))
        request_id = wire.receive()["id"]
        wire.answer(request_id, {})
        wire.notify("notifications/progress", {"progressToken": request_id, "progress": 1})
        assert call.outcome() is None
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
