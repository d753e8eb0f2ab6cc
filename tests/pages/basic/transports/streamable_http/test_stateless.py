"""2026-07-28/basic/transports/streamable-http, the server's side: each rule of the page, mostly without a socket."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_ref import Context, Server
from mcp_ref.errors import STATELESS_ERRORS, InvalidParams, MissingClientCapability, Refusal, RequestCancelled
from mcp_ref.pages.basic.transports.streamable_http.server import era_of
from mcp_ref.pages.basic.versioning import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
)
from mcp_ref.revisions import REVISIONS
from tests.pages.basic.transports.collector import Notes
from tests.pages.basic.transports.streamable_http.modern import (
    MODERN,
    ModernFront,
    asked,
    called,
    envelope,
    error_of,
    listening,
    post,
)
from tests.pages.basic.transports.streamable_http.raw import Wire, call, request, until
from tests.pages.basic.transports.streamable_http.raw import post as session_post
from tests.pages.basic.transports.streamable_http.replies import PATIENCE, Front, ListReply

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@pytest.fixture
def server() -> Server:
    server = Server("s", "1", revisions=[MODERN])

    @server.tool()
    def echo(text: str = "hi") -> str:
        return text

    @server.tool()
    def chatty(ctx: Context, then: str = "") -> str:
        ctx.progress(1)
        ctx.progress(2)
        if then:
            raise {"capability": MissingClientCapability("sampling"), "params": InvalidParams("no")}[then]
        return "done"

    @server.tool()
    def refuse(code: int) -> str:
        raise Refusal("as you like", code=code)

    marked = {"region": {"type": "string", "x-mcp-header": "Region"}}

    @server.tool(input_schema={"type": "object", "properties": marked})
    def regional(region: str = "") -> str:
        return region

    return server


@pytest.fixture
def front(server: Server) -> Iterator[ModernFront]:
    with ModernFront(server) as front:
        yield front


def with_token(message: Any) -> Any:
    """The same request, which wants to hear of progress."""
    message["params"]["_meta"]["progressToken"] = "p"
    return message


def text_of(answer: Any) -> Any:
    return answer["result"]["content"][0]["text"]


# -- one request, one answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_id", ["1", ""])
def test_a_request_is_answered_with_json_alone(front: ModernFront, request_id: Any) -> None:
    reply = front.post(called("echo", request_id, text="hé"))
    assert (reply.status, reply.headers, reply.json["id"]) == (200, {"Content-Type": "application/json"}, request_id)
    assert text_of(reply.json) == "hé" and reply.json["result"]["resultType"] == "complete"
    assert reply.json["result"]["_meta"][SERVER_INFO] == {"name": "s", "version": "1"}


def without(key: str) -> Any:
    return asked("server/discover", meta={name: value for name, value in envelope().items() if name != key})


UNKNOWN = asked("server/discover", meta=envelope("v999.0.0"))


@pytest.mark.parametrize(
    ("message", "headers", "status", "code"),
    [
        ({**asked("server/discover"), "params": {}}, {}, 400, -32602),
        (without(PROTOCOL_VERSION), {}, 400, -32602),
        (without(CLIENT_CAPABILITIES), {}, 400, -32602),
        (without(PROTOCOL_VERSION), {"mcp_method": None}, 400, -32602),
        (UNKNOWN, {"mcp_protocol_version": "v999.0.0"}, 400, -32022),
        (UNKNOWN, {}, 400, -32020),
        (asked("server/discover"), {"mcp_protocol_version": None}, 400, -32020),
        (asked("server/discover"), {"mcp_method": "tools/list"}, 400, -32020),
        (asked("no/such"), {}, 404, -32601),
        (asked("no/such"), {"mcp_method": None}, 400, -32020),
        (asked("initialize"), {}, 404, -32601),
        (asked("ping"), {}, 404, -32601),
        (asked("logging/setLevel", {"level": "info"}), {}, 404, -32601),
        (asked("notifications/cancelled", {"requestId": 1}), {}, 404, -32601),
        (called("echo"), {"mcp_name": "regional"}, 400, -32020),
        (called("echo"), {"mcp_name": None}, 400, -32020),
        (called("regional", region="eu"), {}, 400, -32020),
        (called("regional", region="eu"), {"mcp_param_region": "=?base64?ZXU?="}, 400, -32020),
        (called("no_such"), {}, 200, -32602),
        (asked("tools/call", {}), {}, 200, -32602),
        (asked("tools/list", {"cursor": "no such"}), {}, 200, -32602),
        (called("refuse", code=-32021), {}, 400, -32021),
        (called("refuse", code=7), {}, 200, 7),
    ],
)
def test_the_first_thing_that_is_wrong_decides_and_has_a_status(
    front: ModernFront, message: Any, headers: Any, status: int, code: int
) -> None:
    reply = front.post({**message, "id": "which"}, **headers)
    assert error_of(reply) == (status, "which", code)
    assert reply.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("message", "request_id"), [(UNKNOWN, 1), ({"jsonrpc": "2.0", "method": "notifications/x"}, "none")]
)
def test_a_version_that_is_not_spoken_is_refused_with_those_that_are(
    front: ModernFront, message: Any, request_id: Any
) -> None:
    reply = front.post(message, mcp_protocol_version="v999.0.0")
    assert error_of(reply) == (400, request_id, -32022)
    assert reply.json["error"]["data"] == {"supported": [MODERN], "requested": "v999.0.0"}


@pytest.mark.parametrize("header", ["=?base64?ZXU=?=", "eu"])
def test_a_marked_argument_may_be_encoded(front: ModernFront, header: str) -> None:
    assert text_of(front.post(called("regional", region="eu"), mcp_param_region=header).json) == "eu"


def test_headers_of_the_session_era_are_ignored(front: ModernFront) -> None:
    reply = front.post(called("echo"), mcp_session_id="stray", last_event_id="s1-1")
    assert reply.status == 200 and not {name.lower() for name in reply.headers} & {"mcp-session-id"}


# -- what may be POSTed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "request_id", "code"),
    [
        ([], "none", -32600),
        ([asked("server/discover")], "none", -32600),
        ({"jsonrpc": "2.0", "id": 5, "result": {}}, "none", -32600),
        (5, "none", -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "server/discover"}, "none", -32600),
        ({"jsonrpc": "1.0", "id": 5, "method": "server/discover"}, 5, -32600),
        ({"jsonrpc": "2.0", "id": 5, "method": ["a"]}, 5, -32600),
        ({"jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": []}, 5, -32602),
        ({"jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": {"_meta": 5}}, 5, -32602),
        ({"jsonrpc": "2.0", "method": "notifications/x", "params": []}, "none", -32602),
        (b"{", "none", -32700),
        (b"\xff", "none", -32700),
    ],
)
def test_what_is_neither_a_request_nor_a_notification_is_refused(
    front: ModernFront, message: Any, request_id: Any, code: int
) -> None:
    assert error_of(front.post(message)) == (400, request_id, code)


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/unheard-of"])
def test_a_notification_gets_202_and_no_body(front: ModernFront, method: str) -> None:
    reply = front.post({"jsonrpc": "2.0", "method": method}, mcp_method=None)
    assert (reply.status, reply.body, reply.headers) == (202, b"", {})


def test_who_asks_is_told_to_who_answers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    told, identities = list[Any](), iter(["alice", 7, None])
    assert server.stateless is not None
    answer = server.stateless.answer

    def watched(incoming: Any, principal: Any, *more: Any, **source: Any) -> Any:
        told.append(principal)
        return answer(incoming, principal, *more, **source)

    monkeypatch.setattr(server.stateless, "answer", watched)
    with ModernFront(server, authenticate=lambda request: next(identities)) as front:
        assert [front.post(called("echo")).status for _ in range(3)] == [200, 200, 200]
    assert told == ["alice", "7", None]


# -- event streams ------------------------------------------------------------------------------------------------


def test_a_reply_becomes_a_stream_with_the_first_notification(front: ModernFront) -> None:
    reply = front.post(with_token(called("chatty", "c")))
    assert reply.headers["Content-Type"] == "text/event-stream" and reply.headers["X-Accel-Buffering"] == "no"
    assert reply.headers["Cache-Control"].startswith("no-cache") and reply.ended and not reply.hung_up
    first, second, last = reply.messages
    assert [first["params"]["progress"], second["params"]["progress"]] == [1, 2]
    assert last["id"] == "c" and text_of(last) == "done"
    assert {(event.id, event.retry, event.event) for event in reply.events} == {(None, None, "message")}


@pytest.mark.parametrize(("then", "status", "code"), [("capability", 400, -32021), ("params", 200, -32602)])
def test_an_error_has_its_status_only_while_no_stream_is_open(
    front: ModernFront, then: str, status: int, code: int
) -> None:
    assert error_of(front.post(called("chatty", 3, then=then))) == (status, 3, code)
    reply = front.post(with_token(called("chatty", 3, then=then)))
    last = reply.messages[-1]
    assert (reply.status, last["id"], last["error"]["code"], reply.ended) == (200, 3, code, True)


@pytest.mark.parametrize("problem", [SystemExit("secret"), KeyError("secret"), RequestCancelled("secret")])
def test_whatever_a_handler_raises_ends_in_an_answer(
    server: Server, caplog: pytest.LogCaptureFixture, problem: BaseException
) -> None:
    @server.prompt()
    def failing() -> str:
        raise problem

    with ModernFront(server) as front, caplog.at_level(logging.ERROR):
        reply = front.post(asked("prompts/get", {"name": "failing"}))
    assert error_of(reply) == (200, 1, -32603) and b"secret" not in reply.body and caplog.records


def test_a_client_that_breaks_off_within_a_stream_gets_no_more(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    reply = ListReply()

    @server.tool()
    def breaking(ctx: Context) -> str:
        ctx.progress(1)
        reply.broken = True
        ctx.progress(2)
        return "done"

    with ModernFront(server) as front:
        front.post(with_token(called("breaking")), reply)
    assert [each["params"]["progress"] for each in reply.messages] == [1]
    assert caplog.text == "", "a client may leave at any time, which is not a failure of the tool"


@pytest.mark.parametrize("ends", ["stops", "goes on"])
def test_a_handler_is_told_that_its_client_has_hung_up_and_nothing_more_is_sent(server: Server, ends: str) -> None:
    reply, told = ListReply(), list[str]()

    @server.tool()
    def late(ctx: Context) -> str:
        ctx.check_cancelled()
        ctx.progress(1)
        # What is written now would still go out.
        reply.hung_up = True
        try:
            ctx.check_cancelled()
        except RequestCancelled as problem:
            told.append(str(problem))
            if ends == "stops":
                raise
        return "done"

    with ModernFront(server) as front:
        front.post(with_token(called("late")), reply)
    assert told == ["the client has hung up"]
    assert [each["method"] for each in reply.messages] == ["notifications/progress"]
    assert reply.broken, "the connection is closed"


# -- subscriptions ------------------------------------------------------------------------------------------------


def change(server: Server, name: str = "more") -> None:
    server.tool(name)(lambda: "")


def acknowledged(front: ModernFront, message: Any) -> tuple[ListReply, threading.Thread]:
    reply, thread = front.start(message)
    first = reply.wait_for(1)[0]
    assert first["method"] == ACKNOWLEDGED
    return reply, thread


def test_a_subscription_is_a_stream_that_stays_open(server: Server) -> None:
    with ModernFront(server) as front:
        reply, thread = acknowledged(front, listening("1", toolsListChanged=True, promptsListChanged=True))
        assert reply.headers["X-Accel-Buffering"] == "no" and not reply.ended
        change(server)
        assert reply.wait_for(2)[1]["method"] == "notifications/tools/list_changed"
        front.endpoint.close()
        thread.join(PATIENCE)
    first, second, last = reply.messages
    assert first["params"]["notifications"] == {"toolsListChanged": True}
    assert [each["params"]["_meta"][SUBSCRIPTION_ID] for each in (first, second)] == ["1", "1"]
    assert last["id"] == "1" and last["result"]["resultType"] == "complete"
    assert last["result"]["_meta"] == {SUBSCRIPTION_ID: "1", SERVER_INFO: server.info}
    assert reply.ended and not reply.hung_up
    assert len(server.subscriptions) == 0


def test_two_subscriptions_with_one_id_get_what_each_asked_for(server: Server) -> None:
    server.resource("a:b")(lambda: "text")
    with ModernFront(server) as front:
        tools, first = acknowledged(front, listening(1, toolsListChanged=True))
        updates, second = acknowledged(front, listening(1, resourceSubscriptions=["a:b"]))
        server.resource_updated("a:b")
        change(server)
        assert tools.wait_for(2)[1]["method"] == "notifications/tools/list_changed"
        assert updates.wait_for(2)[1]["params"]["uri"] == "a:b"
        front.endpoint.close()
        for thread in (first, second):
            thread.join(PATIENCE)
    assert [len(reply.messages) for reply in (tools, updates)] == [3, 3]


def test_a_quiet_subscription_is_kept_alive_with_comments(server: Server) -> None:
    with server.serve_http(keep_alive=0.01) as http, Wire(http._http.address) as wire:
        wire.send(post(listening(toolsListChanged=True)))
        assert wire.head()[0] == 200 and ACKNOWLEDGED.encode() in wire.chunk()
        assert [wire.chunk() for _ in range(3)] == [b": keep-alive\n\n"] * 3


def test_a_subscription_that_is_refused_takes_no_place(server: Server) -> None:
    with ModernFront(server, max_subscriptions=1) as front:
        for _ in range(2):
            assert error_of(front.post(asked("subscriptions/listen"))) == (200, 1, -32602)
            assert error_of(front.post(listening(toolsListChanged=True), mcp_method=None)) == (400, 1, -32020)
        assert len(server.subscriptions) == 0


def test_a_subscription_that_opens_during_the_end_is_ended_and_one_after_it_refused(server: Server) -> None:
    opened = server.subscriptions.open
    with ModernFront(server) as front:

        def late(*args: Any) -> Any:
            front.endpoint.close(0.01)
            return opened(*args)

        server.subscriptions.open = late  # type: ignore[method-assign]
        reply = front.post(listening(toolsListChanged=True))
        assert [each.get("method") for each in reply.messages] == [ACKNOWLEDGED, None] and reply.ended
        assert error_of(front.post(listening(toolsListChanged=True))) == (503, 1, -32603)


# -- on the wire, and in a trace ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (b"MCP-NAME:   echo  \r\n", 200),
        (b"mcp-name:\techo\r\n", 200),
        (b"Mcp-Name: echo\r\nMcp-Name: echo\r\n", 400),
        (b"Mcp-Name: \xe9cho\r\n", 400),
    ],
)
def test_names_on_the_wire(server: Server, fields: bytes, status: int) -> None:
    whole = post(called("echo")).replace(b"mcp-name: echo\r\n", fields)
    with server.serve_http() as http, Wire(http._http.address) as wire:
        answer = wire.ask(whole)
    assert answer.status == status
    if status == 400:
        assert (answer.json["id"], answer.json["error"]["code"]) == (1, -32020)
        assert answer.headers["content-type"] == "application/json"


def test_a_trace_sees_what_comes_and_what_goes(server: Server) -> None:
    tap = Notes()
    with ModernFront(server, tap=lambda: tap) as front:
        front.post(called("echo"))
        front.post(with_token(called("chatty")))
        front.post(asked("no/such"))
        directions = [direction for direction, _ in tap.notes]
        assert directions == ["receive", "send", "receive", *["send"] * 5, "receive", "send"]
        assert tap.http[0]["headers"]["mcp-method"] == "tools/call"
        sent = [http for direction, http in zip(directions, tap.http, strict=True) if direction == "send"]
        statuses = [http.get("status", http.get("end")) for http in sent]
        assert statuses == [200, 200, 200, 200, 200, "server", 404]
        reply, thread = acknowledged(front, listening(toolsListChanged=True))
        # What goes out on a stream that stays open is noted while it does.
        assert until(lambda: len(tap.notes) == 13)
        front.endpoint.close()
        thread.join(PATIENCE)
    assert len(tap.notes) == 15


# -- one URL for both eras, or for one of them ---------------------------------------------------------------------

LEGACY = [name for name, revision in REVISIONS.items() if revision.era == "session"]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "open",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def speaking(*revisions: str) -> Server:
    """A server with a tool that says which revision is spoken; of all revisions, unless some are named."""
    server = Server("s", revisions=revisions) if revisions else Server("s")

    @server.tool()
    def spoken(ctx: Context) -> str:
        return ctx.revision.name

    return server


@pytest.fixture
def both() -> Iterator[ModernFront]:
    with ModernFront(speaking()) as front:
        yield front


def legacy(
    front: ModernFront, message: Any, session: str | None = None, version: str | None = None, verb: str = "POST"
) -> ListReply:
    """Send what a client of the session era does."""
    return front.ask(verb, message, mcp_session_id=session, mcp_protocol_version=version)


def plain(method: str, **params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


SESSION = [
    INITIALIZE,
    READY,
    plain("tools/call", name="echo", _meta={"progressToken": 1}),
    plain("tools/call", name="echo", _meta={LOG_LEVEL: "debug"}),
    {"jsonrpc": "2.0", "id": 1, "result": {"_meta": envelope()}},
    [plain("tools/list"), asked("tools/list")],
    None,
    {"method": ["unhashable"], "params": {"_meta": envelope()}},
    {"method": "ping", "params": [1]},
    {"method": "ping", "params": {"_meta": []}},
]
STATELESS = [
    asked("initialize"),
    plain("tools/list", _meta={PROTOCOL_VERSION: 5}),
    plain("tools/list", _meta={CLIENT_CAPABILITIES: {}}),
    plain("tools/list", _meta={CLIENT_INFO: {}}),
    plain("server/discover"),
    plain("subscriptions/listen"),
    {"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {PROTOCOL_VERSION: MODERN}}},
]


@pytest.mark.parametrize("header", [None, LEGACY[-1]])
def test_what_says_nothing_of_the_stateless_era_is_of_the_session_era(header: str | None) -> None:
    assert [message for message in SESSION if era_of(message, header) != "session"] == []
    assert [message for message in STATELESS if era_of(message, header) != "stateless"] == []


@pytest.mark.parametrize("version", ["v1", "2025-11-25, 2025-11-25", ""])
def test_a_version_that_nobody_knows_is_told_which_are_spoken(version: str) -> None:
    with Front(Server("s")) as front:
        front.open()
        within = front.post(plain("ping"), mcp_protocol_version=version)
        assert within.status == 400
        assert within.json["error"]["message"].startswith(
            "Unsupported MCP-Protocol-Version; this server speaks 2025-03-26"
        )
        assert "-32022" not in within.body.decode(), "which is of the stateless era"
        # Without a session it is of no era; with a `_meta` beside it the two do not match.
        alone = front.post(plain("ping"), mcp_protocol_version=version, mcp_session_id=None)
        assert (alone.status, alone.json["id"], alone.json["error"]["code"]) == (400, 1, -32022)
        assert MODERN in alone.json["error"]["data"]["supported"]
        both = front.post(asked("ping"), mcp_protocol_version=version)
        assert (both.status, both.json["error"]["code"]) == (400, -32020)
    assert era_of(plain("ping"), version, in_session=True) == "session"
    assert era_of(plain("ping"), MODERN, in_session=True) == "stateless"


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_one_url_serves_sessions_and_requests_that_stand_alone(both: ModernFront, revision: str) -> None:
    assert both.post(asked("server/discover")).status == 200
    opening = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": revision}}  # type: ignore[dict-item]
    reply = legacy(both, opening)
    assert reply.json["result"]["protocolVersion"] == revision
    session = reply.headers["Mcp-Session-Id"]
    assert legacy(both, READY, session).status == 202
    for _ in range(2):
        reply = legacy(both, call("spoken"), session, revision)
        assert reply.json["result"]["content"][0]["text"] == revision
        reply = both.post(called("spoken"), mcp_session_id=session)
        assert reply.json["result"]["content"][0]["text"] == MODERN
    assert legacy(both, b"", session, verb="DELETE").status == 200
    assert legacy(both, call("spoken"), session, revision).status == 404
    assert both.post(called("spoken"), mcp_session_id=session).status == 200


@pytest.mark.parametrize(
    ("message", "headers", "status", "code"),
    [
        (plain("server/discover"), {}, 400, -32602),
        (plain("tools/list"), {"mcp_protocol_version": MODERN}, 400, -32602),
        (asked("tools/list"), {"mcp_protocol_version": None}, 400, -32020),
        (asked("tools/list"), {"mcp_protocol_version": "2025-11-25"}, 400, -32020),
        (asked("tools/list", meta=envelope("2025-11-25")), {"mcp_protocol_version": "2025-11-25"}, 400, -32022),
        ([plain("tools/list")], {"mcp_protocol_version": MODERN}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, {"mcp_protocol_version": MODERN}, 400, -32600),
        (plain("tools/list"), {"mcp_protocol_version": None}, 400, -32600),
        (plain("tools/list"), {"mcp_protocol_version": "2025-11-25"}, 400, -32600),
    ],
)
def test_what_is_half_of_one_era_and_half_of_the_other_is_refused(
    both: ModernFront, message: Any, headers: Any, status: int, code: int
) -> None:
    reply = both.post(message, **headers)
    assert (reply.status, reply.json["error"]["code"]) == (status, code)


@pytest.mark.parametrize("revisions", [[MODERN], [MODERN, "2024-11-05"]])
def test_a_url_of_the_stateless_era_alone_refuses_sessions(revisions: Any) -> None:
    with ModernFront(speaking(*revisions)) as front:
        assert front.post(called("spoken")).json["result"]["content"][0]["text"] == MODERN
        for version in (None, "2025-11-25", MODERN):
            reply = legacy(front, INITIALIZE, version=version)
            assert error_of(reply) == (400, "open", -32022) and MODERN in reply.json["error"]["message"]
            assert reply.json["error"]["data"] == {"supported": revisions, "requested": "2025-11-25"}
        assert error_of(legacy(front, plain("tools/list"), "session", "2025-11-25"))[:1] == (400,)
        for verb in ("GET", "DELETE", "PUT"):
            reply = legacy(front, b"", "session", "2025-11-25", verb)
            assert (reply.status, reply.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("sessions", [False, True])
@pytest.mark.parametrize("message", [asked("server/discover"), listening(toolsListChanged=True)])
def test_a_url_of_the_session_era_alone_refuses_the_stateless_era_with_no_error_of_it(
    message: Any, sessions: bool
) -> None:
    with ModernFront(speaking(*LEGACY), sessions=sessions) as front:
        status, _, code = error_of(front.post(message))
        # A client that can do both takes this for: an earlier server.
        assert status == 400 and code not in STATELESS_ERRORS
        assert legacy(front, INITIALIZE).status == 200


@pytest.mark.parametrize(
    ("revisions", "sse", "posted", "opened"),
    [
        ([*LEGACY, MODERN], None, 200, 200),
        (["2024-11-05", MODERN], "/sse", 200, 400),
        (["2024-11-05"], "/sse", 404, 404),
    ],
)
def test_a_service_serves_what_its_server_speaks(revisions: Any, sse: str | None, posted: int, opened: int) -> None:
    server = speaking(*revisions)
    with server.serve_http(sse_path=sse) as http, Wire(http._http.address) as wire:
        assert wire.ask(post(called("spoken"))).status == posted
        assert wire.ask(session_post(INITIALIZE)).status == opened
        if sse is not None:
            wire.send(request("GET", sse, accept="text/event-stream"))
            assert wire.head()[0] == 200
