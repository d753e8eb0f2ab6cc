"""basic/index#messages and 2025-03-26/basic/index#batching: requests and their one answer, in both directions."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from mcp_ref import (
    Cancel,
    ErrorResponse,
    LocalProtocolError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    Server,
    TransportClosed,
)
from mcp_ref.connection import connection as peer_module
from mcp_ref.connection.connection import Connection, SentRequest
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.threads.workers import MAX_URGENT
from mcp_ref.pages.basic import batching
from tests.peers import Answerer, Deaf, a_peer, terms
from tests.support.wire import CLIENT_INFO, PATIENCE, Background, opened, to_client, to_server

WITHOUT_BATCHES = ["2024-11-05", "2025-06-18", "2025-11-25"]


def a_server() -> Server:
    server = Server("s")

    def fail(problem: BaseException) -> Any:
        raise problem

    server.prompt("broken")(lambda: fail(RuntimeError("the password is 1234")))
    server.prompt("quits")(lambda: fail(SystemExit("the password is 1234")))
    server.prompt("asks_elsewhere")(lambda: fail(ErrorResponse(-32001, "another server's secret", {"token": 1})))
    return server


def test_a_close_that_ctrl_c_ends_is_finished_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_peer(lambda incoming: {}) as (peer, wire):
        waiting = Background(peer.request, "ping", {}, {"timeout": None})
        assert wire.receive()["method"] == "ping"
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(SentRequest, "give_up", Mock(side_effect=KeyboardInterrupt))
            peer.close(Deadline(PATIENCE))
        peer.close(Deadline(PATIENCE))
        assert isinstance(waiting.outcome(), TransportClosed)
        assert len(peer.side.reasons) == 1


# -- ids ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_id", ["", "1", "a b", 0, 1, -5, 2**70])
def test_an_id_is_echoed_with_its_type(request_id: Any) -> None:
    with to_server(Server("s")) as wire:
        answer = wire.request(request_id, "ping")
    assert answer == {"jsonrpc": "2.0", "id": request_id, "result": {}}
    assert type(answer["id"]) is type(request_id)


@pytest.mark.parametrize("request_id", [None, True, 1.0, 1.5, [], {}])
def test_what_is_not_an_id_is_refused_without_one(request_id: Any) -> None:
    for revision, known in (("2025-06-18", {"id": None}), ("2025-11-25", {})):
        with opened(Server("s"), revision) as wire:
            answer = wire.request(request_id, "ping")
            assert answer.pop("error")["code"] == -32600
            assert answer == {"jsonrpc": "2.0", **known}


def test_we_never_use_an_id_twice() -> None:
    with to_client() as (client, wire):
        seen = []
        for _ in range(3):
            call = Background(client.ping)
            request = wire.receive()
            seen.append(request["id"])
            wire.answer(request["id"], {})
            call.outcome()
    assert len(set(seen)) == 3


def test_an_answer_goes_to_the_request_of_its_id_and_type() -> None:
    with to_client() as (client, wire):
        call = Background(client.request, "x/any")
        request_id = wire.receive()["id"]
        wire.answer(str(request_id), {"from": "a string"})
        wire.answer(float(request_id), {"from": "a float"})
        wire.answer(request_id + 1000, {"from": "nowhere"})
        wire.send({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}})
        wire.answer(request_id, {"from": "the id"})
        assert call.outcome() == {"from": "the id"}


# -- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [{"result": {}, "error": {"code": 1, "message": "x"}}, {"result": [1]}])
def test_a_malformed_response_is_the_peers_fault(members: Any) -> None:
    with to_client() as (client, wire):
        call = Background(client.ping)
        wire.send({"jsonrpc": "2.0", "id": wire.receive()["id"], **members})
        assert isinstance(call.outcome(), RemoteProtocolError)
        assert wire.request("end", "ping")["result"] == {}
        assert wire.silent()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"id": "1", "result": {}}, "ignored an answer to the id '1', which no request had"),
        ({"id": 0, "result": {}}, "ignored an answer to the id 0, which no request had"),
        ({"id": None, "error": {"code": -32600, "message": "odd"}}, "could not read one of our messages: odd"),
    ],
)
def test_a_time_out_names_the_answer_that_belonged_to_no_request(
    answer: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with a_peer(lambda incoming: {}, role="client") as (peer, wire):
        call = Background(peer.request, "tools/list", None, {"timeout": 0.2})
        wire.receive()
        for _ in range(3):
            wire.send({"jsonrpc": "2.0", **answer})
        assert says in str(call.outcome())
        again = Background(peer.request, "tools/list", None, {"timeout": 0.05})
        assert isinstance(problem := again.outcome(), RequestTimeout) and says not in str(problem)
    assert [each.levelname for each in caplog.records if says in each.message] == ["WARNING"]


def test_a_result_is_a_result_also_with_a_member_called_error() -> None:
    with to_client() as (client, wire):
        call = Background(client.request, "x/any")
        wire.answer(wire.receive()["id"], {"error": {"code": 1, "message": "x"}})
        assert call.outcome() == {"error": {"code": 1, "message": "x"}}


# -- error codes --------------------------------------------------------------------------------------------------


UNREADABLE = ["{", '{"a": NaN}', "[" * 100_000, '{"id":' + "9" * 5000 + "}"]
NO_REQUEST = ['{"jsonrpc": "2.0", "id": 1}', '{"jsonrpc": "1.0", "id": 1, "method": "ping"}']
UNKNOWN = ["no/such", "tools/list", "roots/list", "notifications/initialized", "notifications/cancelled"]


def test_what_is_wrong_with_a_message_is_said_by_its_code() -> None:
    params = '{"jsonrpc": "2.0", "id": 1, "method": "%s", "params": {"requestId": 1}}'
    with opened(Server("s"), "2025-11-25") as wire:
        for texts, code, known in (
            (UNREADABLE, -32700, None), (NO_REQUEST, -32600, 1), ([params % name for name in UNKNOWN], -32601, 1),
        ):  # fmt: skip
            for text in texts:
                wire.send_text(text)
                answer = wire.receive()
                assert (answer["error"]["code"], answer.get("id")) == (code, known), text[:100]
                assert wire.request("next", "ping")["result"] == {}


def test_a_handler_that_fails_is_an_internal_error_without_any_detail() -> None:
    with opened(a_server(), "2025-11-25") as wire:
        for name in ("broken", "quits", "asks_elsewhere"):
            error = wire.request(1, "prompts/get", {"name": name})["error"]
            assert error == {"code": -32603, "message": "Internal error"}
        assert wire.request(2, "ping")["result"] == {}


# -- notifications ------------------------------------------------------------------------------------------------


def test_a_notification_is_never_answered() -> None:
    names = ["no/such", "notifications/cancelled", "notifications/initialized", "tools/list", "ping", 5]
    frames: list[Any] = [{"method": name} for name in names]
    with opened(a_server(), "2025-11-25") as wire:
        for message in (*frames, {"method": "ping", "params": [1]}, {"method": "ping", "jsonrpc": "1.0"}):
            wire.send({"jsonrpc": "2.0", **message})
            assert wire.request("end", "ping")["id"] == "end", message
        assert wire.silent()


# -- floods -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancelled", [False, True], ids=["waiting", "cancelled before their turn"])
def test_a_flood_of_requests_is_refused_and_those_before_it_are_answered(
    cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "MAX_IN_FLIGHT", 3)
    go = threading.Event()
    with a_peer(lambda incoming: go.wait(PATIENCE) and {}, cap=1) as (_, wire):
        for number in range(3 + cancelled):
            wire.send({"jsonrpc": "2.0", "id": number, "method": "tools/list"})
            if cancelled and number:
                wire.notify("notifications/cancelled", {"requestId": number})
                wire.request(f"after {number}", "ping")  # what the cancellation leaves to do is done
        assert wire.request("more", "tools/list")["error"]["code"] == -32603
        go.set()
        assert sorted(wire.receive()["id"] for _ in range(1 if cancelled else 3)) == ([0] if cancelled else [0, 1, 2])
        assert wire.request("again", "tools/list")["result"] == {}


@contextmanager
def over(transport: Deaf) -> Iterator[Connection]:
    """A peer over a transport of the test."""
    peer = Connection(transport, Answerer(lambda incoming: {}), terms("2025-11-25"))
    peer.start()
    try:
        yield peer
    finally:
        transport.reads.set()
        peer.close(Deadline(PATIENCE))


def test_a_peer_that_floods_and_does_not_read_is_given_up_with_few_threads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(peer_module, "MAX_IN_FLIGHT", 20)
    monkeypatch.setattr(peer_module, "REFUSAL_TIMEOUT", 0.05)
    with over(Deaf()) as peer:
        before = threading.active_count()
        for _ in range(20):
            peer.receive(b"not json")
        assert not peer.side.gone.is_set()
        peer.receive(b"not json")
        assert peer.side.gone.is_set() and "does not read the refusals" in caplog.text
        assert threading.active_count() - before <= MAX_URGENT + 1


def test_a_peer_that_floods_and_reads_gets_all_of_its_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "MAX_IN_FLIGHT", 3)
    transport = Deaf()
    with over(transport) as peer:
        flood = Background(lambda: [peer.receive(b"not json") for _ in range(100)])
        transport.reads.set()
        flood.outcome()
    assert len(transport.sent) == 100 and [str(each) for each in peer.side.reasons] == ["closed on this side"]


# -- what a client does not answer --------------------------------------------------------------------------------


NOISE = [
    '{"level": "info", "msg": "listening"}', "[INFO] started", '{"id": 1, "method": "GET"}', "[]", "[5]", "{",
    '{"jsonrpc": "1.0", "id": 1, "method": "ping"}', '{"jsonrpc": "2.0", "id": 1}',
]  # fmt: skip


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-11-25", "2026-07-28"])
def test_a_client_answers_no_noise(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    with a_peer(lambda incoming: {}, revision, "client") as (peer, wire):
        for text in NOISE * 20:
            wire.send_text(text)
        call = Background(peer.request, "tools/list")
        request = wire.receive()
        assert request["method"] == "tools/list"
        wire.answer(request["id"], {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
        assert call.outcome()["tools"] == []
        assert wire.silent()
    assert [each.message.partition(":")[0] for each in caplog.records] == ["ignored what the server sent"]


def test_a_client_refuses_a_request_that_says_so_however_malformed() -> None:
    with a_peer(lambda incoming: {}, "2025-03-26", "client") as (_, wire):
        for message in ({"id": 1, "method": 5}, {"id": [], "method": "ping"}):
            wire.send({"jsonrpc": "2.0", **message})
            assert wire.receive()["error"]["code"] == -32600
        wire.send([5, {"log": "line"}, {"jsonrpc": "2.0", "id": 2, "method": "ping"}, []])
        assert [each["id"] for each in wire.receive()] == [2]


# -- batches ------------------------------------------------------------------------------------------------------


def test_a_mixed_batch_is_answered_with_one_array() -> None:
    members: list[Any] = [
        {"id": 1, "method": "ping"},
        {"method": "notifications/roots/list_changed"},
        {"id": "x", "method": "no/such"},
        {"id": 99, "result": {}},
        {"id": 2, "method": "prompts/get", "params": {"name": "broken"}},
    ]
    with opened(a_server(), "2025-03-26") as wire:
        wire.send([5, *({"jsonrpc": "2.0", **each} for each in members)])
        answers = {answer["id"]: answer for answer in wire.receive()}
        assert answers[1]["result"] == {}
        assert [answers[key]["error"]["code"] for key in ("x", None, 2)] == [-32601, -32600, -32603]
        assert len(answers) == 4
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()


def test_a_batch_has_so_many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry that is not a message is answered: without a bound 2 MB of them took a minute, and 600 MB."""
    monkeypatch.setattr(batching, "MAX_BATCH", 3)
    with opened(a_server(), "2025-03-26") as wire:
        wire.send([1] * 3)
        assert len(wire.receive()) == 3
        for number in (4, 0):
            wire.send([1] * number)
            answer = wire.receive()
            assert (answer["id"], answer["error"]["code"]) == (None, -32600), number
    with to_client("2025-03-26") as (client, _), pytest.raises(LocalProtocolError, match="at most 3 messages"):
        client.request_batch([("ping", None)] * 4)


def test_initialize_in_a_batch_is_refused() -> None:
    server = Server("s", revisions=["2025-03-26"])
    params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": CLIENT_INFO}
    with to_server(server) as wire:
        wire.send([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}])
        assert [answer["error"]["code"] for answer in wire.receive()] == [-32600]
        assert "result" in wire.request(2, "initialize", params)


@pytest.mark.parametrize("pings", [1, 0])
def test_a_cancelled_request_of_a_batch_has_no_answer_in_the_array(pings: int) -> None:
    running, go = threading.Event(), threading.Event()
    with a_peer(lambda incoming: running.set() or go.wait(PATIENCE) and {}, "2025-03-26") as (_, wire):
        others = [{"jsonrpc": "2.0", "id": 0, "method": "ping"}] * pings
        wire.send([*others, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}])
        assert running.wait(PATIENCE)
        wire.notify("notifications/cancelled", {"requestId": 2})
        if pings:
            assert wire.receive() == [{"jsonrpc": "2.0", "id": 0, "result": {}}]
        go.set()
        # Where nothing is left to answer no array goes out.
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()


def test_one_answer_that_is_not_json_does_not_spoil_the_others_of_its_batch() -> None:
    with a_peer(lambda incoming: {"a": {1}} if incoming.id == 1 else {}, "2025-03-26") as (_, wire):
        wire.send([{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in (1, 2)])
        answers = {answer["id"]: answer for answer in wire.receive()}
    assert answers[1]["error"]["code"] == -32603
    assert answers[2]["result"] == {}


@pytest.mark.parametrize("revision", WITHOUT_BATCHES)
def test_a_batch_is_refused_where_the_revision_has_none(revision: str) -> None:
    with opened(a_server(), revision) as wire:
        wire.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
        answer = wire.receive()
        assert answer["error"]["code"] == -32600
        assert answer.get("id") is None
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()


def test_a_batch_that_we_send_gives_results_and_errors_in_order() -> None:
    with to_client("2025-03-26", {"tools": {}}) as (client, wire):
        call = Background(client.request_batch, [("ping", None), ("tools/list", {}), ("x/y", {"a": 1}), ("ping", None)])
        asked = wire.receive()
        assert asked[2] == {"jsonrpc": "2.0", "id": asked[2]["id"], "method": "x/y", "params": {"a": 1}}
        said = [{"error": {"code": -32603, "message": "no"}}, {"result": {"b": 2}}, {"result": [], "error": 1}]
        wire.send(
            [{"jsonrpc": "2.0", "id": each["id"], **how} for each, how in zip(asked[1:], said, strict=True)][::-1]
        )
        wire.answer(asked[0]["id"], {})
        one, two, three, four = call.outcome()
    assert (one, three) == ({}, {"b": 2})
    assert isinstance(two, ErrorResponse)
    assert isinstance(four, RemoteProtocolError)


@pytest.mark.parametrize("ended", [RequestTimeout, RequestCancelled])
def test_what_is_left_of_a_batch_is_cancelled_when_nobody_waits_for_it(ended: type[Exception]) -> None:
    give_up = Cancel()
    options: Any = {"timeout": 0.5} if ended is RequestTimeout else {"cancel": give_up}
    with to_client("2025-03-26") as (client, wire):
        call = Background(client.request_batch, [("ping", None), ("ping", None)], options)
        first, second = wire.receive()
        wire.answer(first["id"], {})
        if ended is RequestCancelled:
            # What has been read before this is answered is the answer to the first.
            assert wire.request("next", "ping")["result"] == {}
            give_up("enough")
        assert isinstance(call.outcome(), ended)
        cancelled = wire.receive()
        assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", second["id"])
        assert wire.silent()


@pytest.mark.parametrize("calls", [[], [("ping", None), ("initialize", {})]])
def test_a_batch_that_must_not_be_is_not_sent(calls: Any) -> None:
    with to_client("2025-03-26") as (client, wire):
        with pytest.raises(LocalProtocolError):
            client.request_batch(calls)
        assert wire.silent()


# -- what goes out ------------------------------------------------------------------------------------------------


def test_meta_of_the_caller_travels_beside_the_token() -> None:
    with to_client() as (client, wire):
        options: Any = {"meta": {"com.example/a": 1}, "on_progress": lambda *report: None}
        call = Background(client.request, "x/y", {"_meta": {"b": 2}}, options)
        request = wire.receive()
        assert request["params"]["_meta"] == {"com.example/a": 1, "b": 2, "progressToken": request["id"]}
        wire.answer(request["id"], {})
        call.outcome()


@pytest.mark.parametrize(
    ("params", "key"),
    [({"a": {1}}, "b"), *((None, key) for key in ("progressToken", "io.modelcontextprotocol/x", "-"))],
)
def test_what_is_not_json_or_not_the_callers_to_set_is_refused_and_nothing_is_sent(params: Any, key: str) -> None:
    with to_client() as (client, wire):
        with pytest.raises(LocalProtocolError):
            client.request("x/y", params, {"meta": {key: 1}})
        assert wire.request("end", "ping")["id"] == "end"
        assert wire.silent()


class Exchanges(Deaf):
    """A transport whose exchange is a function of the test; what is sent without one is read."""

    def __init__(self, exchange: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.reads.set()
        self._exchange = exchange

    def exchange(self, message: Any, pending: Any, deadline: Any) -> None:
        self._exchange(message, pending)


def test_what_carries_an_answer_is_let_go_though_the_error_in_it_is_kept() -> None:
    let_go: list[Any] = []

    class Carried:
        pass

    def carry(message: Any, pending: Any) -> None:
        carried = Carried()
        let_go.append(weakref.ref(carried))
        pending.put({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "no"}})
        assert pending.take() and carried

    with over(Exchanges(carry)) as peer:
        with pytest.raises(ErrorResponse) as kept:
            peer.request("ping", None, {})
        assert let_go[0]() is None and kept.value.__traceback__ is not None


# -- endings ------------------------------------------------------------------------------------------------------


def test_an_exchange_that_returns_without_an_answer_has_lost_it() -> None:
    with over(Exchanges(lambda message, pending: setattr(pending, "sent", True))) as peer:
        with pytest.raises(TransportClosed, match="ended without a response"):
            peer.request("x/y")


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("problem", [LocalProtocolError("no"), RequestTimeout("slow"), KeyboardInterrupt()])
def test_a_request_is_cancelled_where_its_exchange_ends_only_if_it_was_sent(
    problem: BaseException, written: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")

    def ends(message: Any, pending: Any) -> None:
        pending.sent = written
        raise problem

    transport = Exchanges(ends)
    with over(transport) as peer:
        with pytest.raises(type(problem)):
            peer.request("x/y")
        assert [message["method"] for message in transport.sent] == ["notifications/cancelled"] * written
        peer.receive(b'{"jsonrpc": "2.0", "id": 1, "result": {}}')
    assert "which nothing waits for" in caplog.text, "nothing of it is left behind"


# -- streams ------------------------------------------------------------------------------------------------------


SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
CHANGED = "notifications/tools/list_changed"


def listen(peer: Connection, seen: list[Any], give_up: Cancel) -> Background:
    """Open a stream that another thread reads."""
    row = SentRequest("subscriptions/listen", {"cancel": give_up}, Deadline(PATIENCE))
    row.on_notification = seen.append
    return Background(peer.request, row.method, {"notifications": {}}, pending=row)


def test_a_stream_that_is_given_up_ends_behind_what_has_come_and_the_peer_is_told() -> None:
    with a_peer(lambda incoming: {}, "2026-07-28", "client") as (peer, wire):
        for number in range(14):
            seen, give_up = list[Any](), Cancel()
            reading = listen(peer, seen, give_up)
            request_id = wire.receive()["id"]
            for _ in range(number % 7):
                wire.notify(CHANGED, {"_meta": {SUBSCRIPTION_ID: request_id}})
            give_up("no longer wanted")
            assert isinstance(reading.outcome(), RequestCancelled)
            assert [each["method"] for each in seen] == [CHANGED] * (number % 7)
            told = wire.receive()
            assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", request_id)


def test_a_stream_that_was_given_up_before_is_not_asked_for() -> None:
    with a_peer(lambda incoming: {}, "2026-07-28", "client") as (peer, wire):
        give_up = Cancel()
        give_up()
        assert isinstance(listen(peer, [], give_up).outcome(), RequestCancelled)
        assert wire.silent()


def test_a_stream_that_the_peer_cancels_has_ended_and_a_response_after_that_is_ignored() -> None:
    with a_peer(lambda incoming: {}, "2026-07-28", "client") as (peer, wire):
        reading = listen(peer, [], Cancel())
        request_id = wire.receive()["id"]
        wire.notify("notifications/cancelled", {"requestId": request_id, "reason": "maintenance"})
        assert reading.outcome()["reason"] == "maintenance"
        wire.answer(request_id, {"resultType": "complete"})
        assert wire.silent() and not peer._pending


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 99, "result": 5},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": []},
        {"jsonrpc": "2.0", "error": {"code": 1, "message": "x" * 10_000}},
    ],
)
def test_a_peer_can_cause_one_warning_of_a_kind_and_the_others_are_counted(
    message: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "mcp_ref.connection.connection")
    with opened(Server("s"), "2025-11-25") as wire:
        for _ in range(20):
            wire.send(message)
        assert wire.request("end", "ping")["id"] == "end"
    said = [each for each in caplog.records if "malformed" in each.message or "could not read" in each.message]
    assert [each.levelname for each in said] == ["WARNING"] + ["DEBUG"] * 19
    assert "(number 20)" in caplog.text
    assert max(map(len, caplog.messages)) < 500
