"""2026-07-28/basic/versioning: one URL for both eras, or for one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_ref import Context, Server
from mcp_ref.errors import STATELESS_ERRORS
from mcp_ref.pages.basic.transports.streamable_http.server import era_of
from mcp_ref.pages.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION
from mcp_ref.revisions import REVISIONS
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
from tests.pages.basic.transports.streamable_http.raw import Wire, call, request
from tests.pages.basic.transports.streamable_http.raw import post as session_post
from tests.pages.basic.transports.streamable_http.replies import Front, ListReply

LEGACY = [name for name, revision in REVISIONS.items() if revision.era == "session"]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "open",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def features(server: Server) -> Server:
    @server.tool()
    def echo(text: str = "hi") -> str:
        return text

    @server.tool()
    def spoken(ctx: Context) -> str:
        return ctx.revision.name

    return server


@pytest.fixture
def server() -> Server:
    return features(Server("s"))


@pytest.fixture
def front(server: Server) -> Iterator[ModernFront]:
    with ModernFront(server) as front:
        yield front


def legacy(
    front: ModernFront, message: Any, session: str | None = None, version: str | None = None, verb: str = "POST"
) -> ListReply:
    """Send what a client of the session era does."""
    return front.ask(verb, message, mcp_session_id=session, mcp_protocol_version=version)


# -- the decision -------------------------------------------------------------------------------------------------


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
def test_a_version_that_nobody_knows_is_told_which_are_spoken(server: Server, version: str) -> None:
    with Front(server) as front:
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


# -- both at once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_one_url_serves_sessions_and_requests_that_stand_alone(front: ModernFront, revision: str) -> None:
    assert front.post(asked("server/discover")).status == 200
    opening = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": revision}}  # type: ignore[dict-item]
    reply = legacy(front, opening)
    assert reply.json["result"]["protocolVersion"] == revision
    session = reply.headers["Mcp-Session-Id"]
    assert legacy(front, READY, session).status == 202
    for _ in range(2):
        reply = legacy(front, call("spoken"), session, revision)
        assert reply.json["result"]["content"][0]["text"] == revision
        reply = front.post(called("spoken"), mcp_session_id=session)
        assert reply.json["result"]["content"][0]["text"] == MODERN
    assert legacy(front, b"", session, verb="DELETE").status == 200
    assert legacy(front, call("spoken"), session, revision).status == 404
    assert front.post(called("spoken"), mcp_session_id=session).status == 200


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
    front: ModernFront, message: Any, headers: Any, status: int, code: int
) -> None:
    reply = front.post(message, **headers)
    assert (reply.status, reply.json["error"]["code"]) == (status, code)


# -- one of them --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revisions", [[MODERN], [MODERN, "2024-11-05"]])
def test_a_url_of_the_stateless_era_alone_refuses_sessions(revisions: Any) -> None:
    with ModernFront(features(Server("s", revisions=revisions))) as front:
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
    with ModernFront(features(Server("s", revisions=LEGACY)), sessions=sessions) as front:
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
    server = features(Server("s", revisions=revisions))
    with server.serve_http(sse_path=sse) as http, Wire(http._http.address) as wire:
        assert wire.ask(post(called("echo"))).status == posted
        assert wire.ask(session_post(INITIALIZE)).status == opened
        if sse is not None:
            wire.send(request("GET", sse, accept="text/event-stream"))
            assert wire.head()[0] == 200
