"""basic/transports#streamable-http, the server's side: each rule of the page as data, mostly without a socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.errors import TransportClosed
from mcp_ref.kit.http.http_exchange import HttpRefusal, HttpRequest
from mcp_ref.pages.basic.transports.streamable_http.streams import MemoryEventStore
from mcp_ref.revisions import SESSION_REVISIONS
from mcp_ref.server.http import HttpService
from tests.pages.basic.transports.streamable_http import raw
from tests.pages.basic.transports.streamable_http.modern import error_of
from tests.pages.basic.transports.streamable_http.raw import until
from tests.pages.basic.transports.streamable_http.replies import PATIENCE, Front, ListReply
from tests.support.clock import Clock
from tests.support.wire import Background

STREAMABLE = ["2025-03-26", "2025-06-18", "2025-11-25"]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def server() -> Server:
    server = Server("s", revisions=list(SESSION_REVISIONS))

    @server.tool()
    def echo(text: str) -> str:
        return text

    @server.tool()
    def chatty(ctx: Context) -> str:
        ctx.log("info", "working")
        return "done"

    @server.tool()
    def ask(ctx: Context) -> str:
        return str(len(ctx.roots()))

    return server


@pytest.fixture
def front(server: Server) -> Iterator[Front]:
    """In a session of 2025-11-25."""
    with Front(server) as front:
        yield front.open(capabilities={"roots": {}})


def call(name: str, **arguments: Any) -> Any:
    return {"name": name, "arguments": arguments}


# -- entry --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        (b"{", -32700, "none"),
        (b"\xff", -32700, "none"),
        (b"7", -32600, "none"),
        (b"[]", -32600, "none"),
        ({**PING, "jsonrpc": "1.0"}, -32600, 1),
        ({**PING, "method": 7}, -32600, 1),
        ({**PING, "params": [1]}, -32602, 1),
    ],
)
def test_what_is_not_a_message_is_400_with_an_error_that_has_its_id_if_that_could_be_read(
    front: Front, body: Any, code: int, request_id: Any
) -> None:
    assert error_of(front.post(body)) == (400, request_id, code)


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "HEAD"])
def test_other_methods_are_405(front: Front, method: str) -> None:
    reply = front.ask(method)
    assert (reply.status, reply.headers["Allow"]) == (405, "POST, GET, DELETE")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example.com"}, 403),
        ({"host": "evil.example.com"}, 403),
        ({"accept": None}, 406),
        ({"accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 406),
        ({"content_type": "text/plain"}, 415),
    ],
)
@pytest.mark.parametrize("revisions", [STREAMABLE, ["2026-07-28"]], ids=["the session era", "the stateless era"])
def test_the_guards_stand_before_everything_else(revisions: list[str], headers: Any, status: int) -> None:
    """See that they are asked; test_headers.py has what each of them lets in."""
    with Front(Server("s", revisions=revisions)) as front:
        assert front.post(PING, **headers).status == status


# -- what a POST is answered with ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("revision", "primed"), [("2025-03-26", False), ("2025-06-18", False), ("2025-11-25", True)])
def test_an_answer_is_json_or_a_stream_if_the_handler_speaks_before_it_answers(
    server: Server, revision: str, primed: bool
) -> None:
    """A priming event begins the streams of 2025-11-25 alone."""
    with Front(server) as front:
        only = front.open(revision).request("7", "tools/call", call("echo", text="hi"))
        assert only.headers["Content-Type"] == "application/json"
        assert only.json == {"jsonrpc": "2.0", "id": "7", "result": {"content": [{"type": "text", "text": "hi"}]}}
        reply = front.request(7, "tools/call", call("chatty"))
        assert reply.headers["Content-Type"] == "text/event-stream"
        assert (reply.events[0].data == "") is primed
        assert [message.get("method") for message in reply.messages] == ["notifications/message", None]
        assert reply.messages[-1]["id"] == 7
        assert reply.ended, "the stream ends after the response"


def test_notifications_and_responses_are_202_without_a_body(front: Front) -> None:
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "method": "notifications/made-up"},
        {"jsonrpc": "2.0", "id": 99, "result": {}},
    ):
        reply = front.post(message)
        assert (reply.status, reply.body) == (202, b"")


def test_a_question_travels_on_the_stream_of_the_request_it_belongs_to(front: Front) -> None:
    standing, _ = front.listen()
    reply = ListReply()
    asking = Background(front.request, 7, "tools/call", call("ask"), reply)
    question = reply.wait_for(1)[0]
    assert question["method"] == "roots/list"
    assert front.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}).status == 202
    assert asking.outcome() is reply
    assert reply.wait_for(2)[1]["result"]["content"][0]["text"] == "0"
    assert standing.messages == []


def test_what_belongs_to_no_request_goes_on_one_standing_stream(server: Server, front: Front) -> None:
    first, _ = front.listen()
    second, _ = front.listen()
    server.tool("later")(lambda: "x")
    assert until(lambda: first.messages + second.messages)
    server.log("info", "later")
    assert until(lambda: len(first.messages + second.messages) > 1)
    heard = {each["method"] for each in first.messages + second.messages}
    assert heard == {"notifications/tools/list_changed", "notifications/message"}


@pytest.mark.parametrize("listens", [True, False])
def test_what_belongs_to_no_request_does_not_go_on_the_open_stream_of_a_post(server: Server, listens: bool) -> None:
    leave = threading.Event()

    @server.tool()
    def slow(ctx: Context) -> str:
        ctx.log("info", "of the call")
        leave.wait(PATIENCE)
        return "done"

    with Front(server) as front:
        front.open()
        if listens:
            standing, _ = front.listen()
        reply = ListReply()
        calling = Background(front.request, 7, "tools/call", call("slow"), reply)
        assert reply.wait_for(1)
        server.tool("later")(lambda: "x")
        if not listens:
            standing, _ = front.listen()
        # It has found its way, while the stream of the POST was open.
        assert standing.wait_for(1, 5)[0]["method"] == "notifications/tools/list_changed"
        leave.set()
        assert calling.outcome() is reply
        said = [message.get("method", "the answer") for message in reply.messages]
        assert said == ["notifications/message", "the answer"]


def test_a_client_that_hangs_up_has_not_cancelled(server: Server, front: Front) -> None:
    finished = threading.Event()

    @server.tool()
    def note(ctx: Context) -> str:
        ctx.log("info", "first")
        finished.set()
        return str(ctx.cancelled)

    reply = ListReply()
    reply.broken = True
    front.request(7, "tools/call", call("note"), reply)
    assert finished.is_set()
    rest = front.ask("GET", accept="text/event-stream", last_event_id="s1-0")
    assert rest.messages[-1]["result"]["content"][0]["text"] == "False"


# -- batches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("revision", "status"), [("2025-03-26", 202), ("2025-06-18", 400), ("2025-11-25", 400)])
def test_a_batch_is_answered_with_an_array_or_202_at_2025_03_26_and_refused_later(
    server: Server, revision: str, status: int
) -> None:
    asking = [{**PING, "id": 1}, {"jsonrpc": "2.0", "method": "notifications/x"}, {**PING, "id": "1"}]
    with Front(server) as front:
        front.open(revision)
        assert front.post([{"jsonrpc": "2.0", "id": number, "result": {}} for number in (5, 6)]).status == status
        reply = front.post(asking)
        if status == 202:
            assert reply.json == [{"jsonrpc": "2.0", "id": each, "result": {}} for each in (1, "1")]
        else:
            assert reply.status == 400


# -- sessions and versions ----------------------------------------------------------------------------------------


def test_the_session_id_is_long_random_and_visible_ascii(server: Server) -> None:
    with Front(server) as front:
        ids = {front.initialize().headers["Mcp-Session-Id"] for _ in range(20)}
        assert len(ids) == 20
        assert all(len(each) >= 32 and all("!" <= character <= "~" for character in each) for each in ids)
        # No part is the same in any two.
        assert all(len({each[start : start + 8] for each in ids}) == 20 for start in range(0, 32, 8))


@pytest.mark.parametrize(("session", "status"), [(None, 400), ("nobody", 404)])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_an_id_is_required_once_it_was_given_and_has_to_be_that_of_a_session(
    front: Front, method: str, session: str | None, status: int
) -> None:
    accept = {"accept": "text/event-stream"} if method == "GET" else {}
    assert front.ask(method, PING, mcp_session_id=session, **accept).status == status


def test_delete_ends_the_session_and_its_streams(front: Front) -> None:
    standing, thread = front.listen()
    assert front.ask("DELETE").status == 200
    thread.join(PATIENCE)
    assert standing.ended
    assert front.post(PING).status == 404
    assert len(front.endpoint.sessions._open) == 0


def test_a_refused_initialize_leaves_no_session(server: Server) -> None:
    with Front(server) as front:
        reply = front.request(1, "initialize", {"protocolVersion": 5})
        assert reply.json["error"]["code"] == -32602
        assert "Mcp-Session-Id" not in reply.headers
        assert len(front.endpoint.sessions._open) == 0
        assert server.sessions == ()


@pytest.mark.parametrize("how", ["closed", "lost"])
def test_a_session_that_the_server_has_ended_is_404(server: Server, front: Front, how: str) -> None:
    [session] = server.sessions
    if how == "closed":
        session.close()
    else:
        session.connection.fail(TransportClosed("no answer to a ping"))
    assert [front.post(PING).status, front.ask("GET", accept="text/event-stream").status] == [404, 404]
    assert (len(front.endpoint.sessions._open), server.sessions) == (0, ())


def test_a_session_belongs_to_who_opened_it_and_the_authentication_can_refuse(server: Server) -> None:
    def authenticate(request: HttpRequest) -> str:
        if "authorization" not in request.headers:
            raise HttpRefusal(401, "Who are you?", headers={"WWW-Authenticate": "Bearer"})
        return request.headers["authorization"]

    with Front(server, authenticate=authenticate) as front:
        reply = front.post(PING)
        assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
        front.headers["authorization"] = "alice"
        front.open()
        assert front.post(PING).status == 200
        assert front.post(PING, authorization="mallory").status == 404


def test_there_may_be_so_many_sessions(server: Server) -> None:
    with Front(server, max_sessions=0) as front:
        assert front.post({**PING, "method": "initialize"}, mcp_session_id=None).status == 503
    with Front(server, max_sessions_per_client=0) as front:
        assert front.post({**PING, "method": "initialize"}, mcp_session_id=None).status == 429


@pytest.mark.parametrize(
    ("spoken", "revision", "header", "status"),
    [
        (STREAMABLE, "2025-03-26", "1999-01-01", 200),
        (STREAMABLE, "2025-06-18", "1999-01-01", 400),
        (STREAMABLE, "2025-11-25", "1999-01-01", 400),
        (["2025-06-18"], "2025-06-18", "2025-11-25", 400),
    ],
)
def test_a_version_header_that_is_not_spoken_is_400_where_the_header_exists_and_none_is_the_sessions_own(
    spoken: list[str], revision: str, header: str, status: int
) -> None:
    with Front(Server("s", revisions=spoken)) as front:
        front.open(revision)
        assert front.post(PING, mcp_protocol_version=header).status == status
        assert front.post(PING, mcp_protocol_version=None).status == 200


def test_the_oldest_revision_is_agreed_on_by_who_asks_for_it_here_and_nothing_younger_follows(server: Server) -> None:
    with Front(server) as front:
        assert front.initialize("2024-11-05").json["result"]["protocolVersion"] == "2024-11-05"
        opened = front.open("2024-11-05")
        assert opened.post(PING, mcp_protocol_version=None).status == 200
        # It has no batches, and knows nothing of titles.
        assert opened.post([PING], mcp_protocol_version=None).status == 400
    with Front(Server("s", revisions=["2025-06-18"])) as front:
        assert front.initialize("2024-11-05").json["result"]["protocolVersion"] == "2025-06-18"


# -- standing streams and resuming --------------------------------------------------------------------------------


def test_a_get_must_accept_an_event_stream(front: Front) -> None:
    assert front.ask("GET", accept="application/json").status == 406


def test_there_may_be_so_many_streams(server: Server) -> None:
    with Front(server, max_streams_per_session=2) as front:
        front.open()
        first, _ = front.listen()
        second, _ = front.listen()
        assert (first.status, second.status) == (200, 200)
        assert front.ask("GET", accept="text/event-stream").status == 429


@pytest.mark.parametrize("revision", STREAMABLE)
def test_event_ids_are_unique_and_name_their_stream_which_is_resumed_after_them(server: Server, revision: str) -> None:
    with Front(server) as front:
        front.open(revision)
        whole, other = (front.request(number, "tools/call", call("chatty")) for number in (7, 8))
        ids = [str(event.id) for event in whole.events + other.events]
        assert len(set(ids)) == len(ids)
        streams = [{str(event.id).partition("-")[0] for event in reply.events} for reply in (whole, other)]
        assert [len(each) for each in streams] == [1, 1] and streams[0] != streams[1]
        first = next(event for event in whole.events if event.data)
        rest = front.ask("GET", accept="text/event-stream", last_event_id=first.id)
        assert [message.get("id") for message in rest.messages] == [7], "nothing of another stream is replayed"
        assert rest.ended and other.messages[-1]["id"] == 8


UNKNOWN = ["s1", "-2", "s1-", "s1-x", "s1-²", "s999-1", "s1-99999999999999999999"]


def test_events_that_are_unknown_or_forgotten_are_not_passed_over_in_silence(server: Server) -> None:
    with Front(server, event_store=lambda: MemoryEventStore(size=1000)) as front:
        front.open()
        forgotten = front.request(7, "tools/call", call("chatty")).events[0].id
        for number in range(3):
            front.request(number, "tools/call", call("chatty"))
        for last in (*UNKNOWN, forgotten):
            assert front.ask("GET", accept="text/event-stream", last_event_id=last).status == 400, last


@pytest.mark.parametrize("revision", STREAMABLE)
def test_a_stream_that_is_closed_early_says_when_to_come_back_and_earlier_revisions_close_none(
    server: Server, revision: str
) -> None:
    @server.tool()
    def later(ctx: Context) -> None:
        ctx.close_stream()

    with Front(server) as front:
        reply = front.open(revision).request(7, "tools/call", call("later"))
        if revision == "2025-11-25":
            assert reply.events[-1].retry == 1000
        else:
            assert reply.json["id"] == 7


# -- without sessions ---------------------------------------------------------------------------------------------


def test_without_sessions_each_post_stands_alone(server: Server) -> None:
    with Front(server, sessions=False) as front:
        opening = front.initialize()
        assert "Mcp-Session-Id" not in opening.headers
        assert front.notify("notifications/initialized").status == 202
        assert front.request(1, "tools/call", call("echo", text="x")).json["result"]["content"][0]["text"] == "x"
        assert front.ask("GET", accept="text/event-stream").status == 405
        assert front.ask("DELETE").status == 405
        assert front.post(PING, mcp_protocol_version="1999-01-01").status == 400
        assert server.sessions == ()


def test_2025_03_26_is_assumed_where_neither_header_nor_session_says_another(server: Server) -> None:
    with Front(server, sessions=False) as front:
        # It alone has batches.
        assert [answer["id"] for answer in front.post([PING]).json] == [1]
        assert front.post([PING], mcp_protocol_version="2025-11-25").status == 400
    with Front(Server("s", revisions=["2025-11-25"]), sessions=False) as front:
        assert front.post(PING).status == 400
        assert front.post(PING, mcp_protocol_version="2025-11-25").status == 200


def test_nothing_of_a_request_is_repeated_in_a_refusal(front: Front) -> None:
    reply = front.post(PING, mcp_session_id="<script>", origin="http://evil.example.com/<script>")
    assert b"script" not in reply.body
    assert "script" not in json.dumps(reply.headers)


# -- idle sessions, and the end ------------------------------------------------------------------------------------


class Clients(Front):
    """Several clients at one endpoint, and a clock."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("s", revisions=list(SESSION_REVISIONS))
        super().__init__(self.server, **options)
        self.clock = Clock()
        self.endpoint.sessions._clock = self.clock
        self.endpoint.sessions._swept = 0.0

    def session(self) -> str:
        """The id of a new session."""
        reply = self.initialize()
        assert reply.status == 200, reply.body
        return reply.headers["Mcp-Session-Id"]

    def ping(self, session: str) -> int | None:
        """The status of a ping in a session."""
        return self.post(PING, mcp_session_id=session).status


def test_the_cap_holds_while_many_open_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Semaphore(0), threading.Event()

    with Clients(max_sessions=2) as clients:
        connect = clients.server.connect

        def slowly(*args: Any, **options: Any) -> Any:
            entered.release()
            assert leave.wait(PATIENCE)
            return connect(*args, **options)

        monkeypatch.setattr(clients.server, "connect", slowly)
        threads = [threading.Thread(target=clients.initialize) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert all(entered.acquire(timeout=PATIENCE) for _ in threads)
        assert clients.initialize().status == 503
        leave.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(clients.endpoint.sessions._open) == 2


def test_a_session_that_cannot_be_begun_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise RuntimeError("no")

    with Clients(max_sessions=1, max_sessions_per_client=1) as clients:
        with monkeypatch.context() as patched:
            patched.setattr(clients.server, "connect", fail)
            for _ in range(3):
                with pytest.raises(RuntimeError):
                    clients.initialize()
        clients.session()


def test_each_use_gives_a_session_its_whole_time_again_if_that_is_bounded() -> None:
    for idle, left in ((60, 404), (None, 200)):
        with Clients(idle=idle) as clients:
            session = clients.session()
            assert clients.ping(session) == 200
            for clients.clock.now in (50, 100, 150):
                assert clients.ping(session) == 200
            clients.clock.now = 211
            assert clients.ping(session) == left


def test_after_the_close_there_are_none_and_none_is_opened() -> None:
    with Clients() as clients:
        clients.session()
        clients.endpoint.close(1)
        clients.endpoint.close(1)
        assert clients.server.sessions == ()
        assert clients.initialize().status == 503


def test_a_session_that_opens_during_the_close_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with Clients() as clients:
        connect = clients.server.connect

        def late(*args: Any, **options: Any) -> Any:
            clients.endpoint.close(1)
            return connect(*args, **options)

        monkeypatch.setattr(clients.server, "connect", late)
        clients.initialize()
        assert clients.server.sessions == () and len(clients.endpoint.sessions._open) == 0


# -- over real sockets, and nothing is left ------------------------------------------------------------------------


def address(service: HttpService) -> tuple[str, int]:
    return service._http.address


def listening(service: HttpService, session: str) -> raw.Wire:
    """A client with a standing stream."""
    wire = raw.Wire(address(service))
    wire.send(raw.request("GET", accept="text/event-stream", mcp_session_id=session))
    status, headers = wire.head()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    return wire


def test_a_server_listens_on_this_machine_unless_it_is_told_otherwise_and_then_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Server("s").serve_http() as service:
        assert service.url.startswith("http://127.0.0.1:") and caplog.text == ""
    with Server("s").serve_http(host="0.0.0.0"):
        assert "everybody who can reach this machine" in caplog.text


def test_a_standing_stream_carries_what_belongs_to_no_request_and_comments(server: Server) -> None:
    with server.serve_http(keep_alive=0.01) as service, raw.Wire(address(service)) as other:
        with listening(service, raw.opened(other)) as wire:
            server.tool("later")(lambda: "x")
            came = b""
            while b"list_changed" not in came or b": keep-alive" not in came:
                came += wire.chunk()


@pytest.mark.parametrize("rude", [True, False])
def test_a_client_that_vanishes_from_its_streams_leaves_the_session_and_nothing_else(
    server: Server, rude: bool
) -> None:
    before = raw.descriptors()
    with server.serve_http(keep_alive=0.01) as service, raw.Wire(address(service)) as other:
        session = raw.opened(other)
        for _ in range(20):
            wire = listening(service, session)
            wire.reset() if rude else wire.close()
        assert until(lambda: len(service._http._connections) == 1)
        assert other.ask(raw.post(PING, mcp_session_id=session)).status == 200
        end = server.sessions[0].connection.transport
        assert until(lambda: end.attached() == 0)  # type: ignore[attr-defined]
    assert until(lambda: not raw.http_threads() and raw.descriptors() <= before) and server.sessions == ()


def test_a_server_without_a_way_over_http_says_so() -> None:
    with pytest.raises(ValueError, match="no revision.*can be served"):
        Server("s", revisions=["2024-11-05"]).serve_http()
    with Server("s", revisions=["2024-11-05"]).serve_http(sse_path="/sse") as service, Client(service.url) as client:
        assert (service.url, str(client.revision)) == (service.sse_url, "2024-11-05")


def test_run_serves_until_the_close(server: Server) -> None:
    running = Background(server.run, "http", port=0)
    assert until(lambda: server.services)
    with raw.Wire(address(server.services[0])) as wire:
        raw.opened(wire)
        server.close(PATIENCE)
    assert running.outcome() is None and raw.http_threads() == []
