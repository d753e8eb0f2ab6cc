"""server/session: one channel carries both eras, word for word; and handlers that ask, in the session era."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.errors import LocalProtocolError, Refusal
from mcp_ref.kit.threads.deadline import Rate
from mcp_ref.pages.basic.mrtr import (
    MAX_ROUNDS,
    elicitation_form,
    elicitation_url,
    input_required,
    roots_listing,
    sampling,
)
from mcp_ref.pages.basic.versioning import PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID
from mcp_ref.revisions import SESSION_REVISIONS
from tests.eras import open_server
from tests.pages.server.alone import MODERN, meta, without
from tests.support.wire import CLIENT_INFO, PATIENCE, Wire, opened, play, to_server

FORM: Any = {"name": {"type": "string"}}
SAID: Any = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
ROOTS: Any = {"roots": [{"uri": "file:///a"}]}
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS_CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
OLDER = [revision.name for revision in SESSION_REVISIONS]
OPENING: Any = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT_INFO}


def modern(wire: Wire, request_id: Any, method: str, params: Any = None, *, envelope: Any = None) -> None:
    """Send a request that stands alone, and do not wait."""
    filled = {**(params or {}), "_meta": meta() if envelope is None else envelope}
    wire.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": filled})


def answered(wire: Wire, request_id: Any, method: str, params: Any = None, **options: Any) -> Any:
    """The answer to one."""
    modern(wire, request_id, method, params, **options)
    message = wire.receive()
    assert message["id"] == request_id, message
    return message


def era_of(message: Any) -> str:
    return "stateless" if "resultType" in message["result"] else "session"


def text_of(message: Any) -> str:
    return str(message["result"]["content"][0]["text"])


def a_server(**options: Any) -> Server:
    server = Server("s", **options)

    @server.tool()
    def who(ctx: Context) -> str:
        return f"{ctx.client_info.get('name')} {ctx.revision}"

    server.resource("x://a")(lambda: "")
    return server


def listen(wire: Wire, request_id: Any = "l", **asked: Any) -> Any:
    """Open a subscription; what is honoured."""
    modern(wire, request_id, "subscriptions/listen", {"notifications": asked})
    message = wire.receive()
    assert message["method"] == ACKNOWLEDGED, message
    assert message["params"]["_meta"] == {SUBSCRIPTION_ID: request_id}
    return message["params"]["notifications"]


# -- two eras on one channel --------------------------------------------------------------------------------------


def test_requests_that_stand_alone_are_answered_before_during_and_after_an_opening() -> None:
    said = {"name": "who", "arguments": {}}
    with to_server(a_server()) as wire:
        alone = [answered(wire, 1, "tools/call", said)]
        opening = wire.request(2, "initialize", OPENING)
        alone.append(answered(wire, 3, "tools/call", said))
        wire.notify("notifications/initialized")
        alone.append(answered(wire, 4, "tools/call", said))
        old = wire.request(5, "tools/call", said)
        alone.append(answered(wire, 6, "tools/call", said))
    assert opening["result"]["protocolVersion"] == "2025-11-25"
    assert [(era_of(each), text_of(each)) for each in alone] == [("stateless", f"alone {MODERN}")] * 4
    assert (era_of(old), text_of(old)) == ("session", "wire 2025-11-25")
    assert "_meta" not in old["result"]


def test_the_conversation_word_for_word() -> None:
    server = Server("s", "1")
    server.tool("t", description="d")(lambda: "done")
    play(
        server,
        """
        A client that declares itself in each request needs no opening.
        C> {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}}
        S< {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "content": [{"type": "text", "text": "done"}], "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}}}
        One that does not has to open a session first.
        C> {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}
        S< {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "Invalid request: tools/call is not allowed while the session is 'new'"}}
        C> {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2026-07-28", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}
        S< {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25", "capabilities": {"logging": {}, "tools": {"listChanged": true}}, "serverInfo": {"name": "s", "version": "1"}}}
        Which does not make a version of the other.
        C> {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "t", "_meta": {"io.modelcontextprotocol/protocolVersion": "2025-11-25", "io.modelcontextprotocol/clientCapabilities": {}}}}
        S< {"jsonrpc": "2.0", "id": 2, "error": {"code": -32022, "message": "Unsupported protocol version; this server speaks 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05", "data": {"supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], "requested": "2025-11-25"}}}
        """,  # noqa: E501
    )


@pytest.mark.parametrize("request_id", [None, 1.5, True])
def test_an_error_without_an_id_says_null_only_to_the_era_that_has_it(request_id: Any) -> None:
    with to_server(a_server()) as wire:
        modern(wire, request_id, "server/discover")
        alone = wire.receive()
        wire.send({"jsonrpc": "2.0", "id": request_id, "method": "ping"})
        old = wire.receive()
    assert alone.pop("error")["code"] == old.pop("error")["code"] == -32600
    assert (alone, old) == ({"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": None})


@pytest.mark.parametrize("revision", OLDER)
def test_no_session_hears_an_error_of_the_other_era(revision: str) -> None:
    server = Server("s")

    @server.tool()
    def code(code: int) -> str:
        raise Refusal("as you like", {"requiredCapabilities": {}}, code=code)

    with opened(server, revision) as wire:
        for number, heard in ((-32020, -32603), (-32021, -32603), (-32022, -32603), (77, 77)):
            error = wire.request(number, "tools/call", {"name": "code", "arguments": {"code": number}})["error"]
            assert (error["code"], error["message"]) == (heard, "as you like")
            assert ("data" in error) is (heard == 77)


def test_a_modern_server_refuses_an_opening_and_names_its_versions() -> None:
    with to_server(a_server(revisions=[MODERN])) as wire:
        error = wire.request(1, "initialize", OPENING)["error"]
        assert (error["code"], error["data"]) == (-32022, {"supported": [MODERN], "requested": "2025-11-25"})
        assert MODERN in error["message"]
        assert answered(wire, 2, "initialize")["error"]["data"]["supported"] == [MODERN], "also with an envelope"
        wire.notify("notifications/initialized")
        assert era_of(answered(wire, 3, "server/discover")) == "stateless"


@pytest.mark.parametrize("method", ["ping", "initialize", "logging/setLevel", "resources/subscribe"])
def test_an_envelope_makes_a_removed_method_unknown_also_in_an_open_session(method: str) -> None:
    params = {**OPENING, "level": "info", "uri": "x://a"}
    with opened(a_server(), "2025-11-25") as wire:
        assert answered(wire, 1, method, params)["error"]["code"] == -32601
        if method != "initialize":
            assert wire.request(2, method, params)["result"] == {}


def test_half_an_envelope_is_a_mistake_and_no_request_of_the_session() -> None:
    with opened(a_server(), "2025-11-25") as wire:
        message = answered(wire, 1, "tools/list", envelope=without(meta(), PROTOCOL_VERSION))
    assert message["error"]["code"] == -32602


def test_what_a_session_was_told_is_nothing_to_a_request_that_stands_alone() -> None:
    server = a_server()

    @server.tool()
    def look(ctx: Context) -> str:
        ctx.log("error", "x")
        return f"{ctx.log_level} {sorted(ctx.peer_capabilities)}"

    with opened(server, "2025-11-25", {"sampling": {}}) as wire:
        assert wire.request(1, "logging/setLevel", {"level": "emergency"})["result"] == {}
        said = {"name": "look", "arguments": {}}
        alone = answered(wire, 2, "tools/call", said, envelope=meta({"roots": {}}))
        assert text_of(alone) == "None ['roots']"
        modern(wire, 3, "tools/call", said, envelope=meta(level="debug"))
        assert wire.receive()["params"] == {"level": "error", "data": "x"}
        assert text_of(wire.receive()) == "debug []"
        session = wire.request(4, "tools/call", said)
        assert text_of(session) == "emergency ['sampling']"


def test_two_requests_of_one_channel_run_at_once_and_an_answered_id_is_free() -> None:
    server, release, runs = a_server(), threading.Event(), threading.Event()

    @server.tool()
    def slow() -> str:
        runs.set()
        assert release.wait(PATIENCE)
        return "slow"

    with to_server(server) as wire:
        modern(wire, 1, "tools/call", {"name": "slow", "arguments": {}})
        assert runs.wait(PATIENCE)
        assert era_of(answered(wire, "1", "tools/call", {"name": "who", "arguments": {}})) == "stateless"
        # MUST NOT: an id that is in flight
        assert answered(wire, 1, "tools/list")["error"]["code"] == -32600
        release.set()
        assert text_of(wire.receive()) == "slow"
        assert era_of(answered(wire, 1, "tools/list")) == "stateless"


@pytest.mark.parametrize("revisions", [[MODERN], [*OLDER, MODERN]])
def test_a_client_that_did_not_ask_hears_of_nothing_and_is_not_pinged(revisions: list[str]) -> None:
    server = a_server(revisions=revisions, ping_interval=0.01)
    with to_server(server) as wire:
        for method in ("initialized", "roots/list_changed"):
            wire.notify(f"notifications/{method}")
        wire.answer(1, {"action": "accept"})
        assert era_of(answered(wire, 1, "tools/list")) == "stateless"
        server.log("emergency", "to all")
        server.tool("another")(lambda: "")
        server.resource_updated("x://a")
        assert era_of(answered(wire, 2, "tools/list")) == "stateless"
        assert wire.silent()
        assert not [thread for thread in threading.enumerate() if thread.name == "mcp-ping"]


def test_each_channel_has_a_rate_of_its_own_that_nothing_else_is_bound_to() -> None:
    server = a_server(rates={"tools/call": Rate(per_second=0.001, burst=1)})

    @server.tool()
    def asks(ctx: Context) -> str:
        return str(len(ctx.roots()))

    said, can = {"name": "asks", "arguments": {}}, meta({"roots": {}})
    with to_server(server) as one, to_server(server) as other:
        first = answered(one, 1, "tools/call", said, envelope=can)["result"]
        assert answered(one, 2, "tools/call", said)["error"]["code"] == 429
        (key,) = first["inputRequests"]
        retry = {**said, "requestState": first["requestState"], "inputResponses": {key: ROOTS}}
        # Which channel a request comes by says nothing of who asks.
        assert text_of(answered(other, 1, "tools/call", retry, envelope=can)) == "1"


# -- what goes wrong ----------------------------------------------------------------------------------------------


def test_a_completion_that_asks_is_an_internal_error_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    server = a_server()
    server.prompt("p")(lambda a: a)

    @server.completion(prompt="p", argument="a")
    def complete(value: str, ctx: Context) -> list[str]:
        return [ctx.elicit("secret?", FORM)["action"]]

    params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}
    with caplog.at_level(logging.ERROR), to_server(server) as wire:
        message = answered(wire, 1, "completion/complete", params, envelope=meta({"elicitation": {}}))
    assert message["error"] == {"code": -32603, "message": "Internal error"}
    assert "completion/complete cannot ask its client" in caplog.text


# -- subscriptions over the channel -------------------------------------------------------------------------------


@pytest.mark.parametrize("request_id", ["l", 7, "7", 0])
def test_a_subscription_is_acknowledged_first_and_everything_carries_its_id(request_id: Any) -> None:
    server = a_server()
    with to_server(server) as wire:
        asked = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["x://a"]}
        honoured = listen(wire, request_id, **asked)
        assert honoured == {"toolsListChanged": True, "resourceSubscriptions": ["x://a"]}
        server.tool("later")(lambda: "")
        about = {"_meta": {SUBSCRIPTION_ID: request_id}}
        assert wire.receive() == {"jsonrpc": "2.0", "method": TOOLS_CHANGED, "params": about}
        server.resource_updated("x://a")
        assert wire.receive() == {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": "x://a", **about}}


def test_an_open_session_hears_of_a_change_untagged_and_a_subscription_tagged() -> None:
    server = a_server()
    with opened(server, "2025-11-25") as wire:
        listen(wire, 1, toolsListChanged=True)
        server.tool("later")(lambda: "")
        tagged = sorted("_meta" in message.get("params", {}) for message in (wire.receive(), wire.receive()))
        assert tagged == [False, True]


def test_a_subscription_that_its_client_cancels_gets_nothing_more_not_even_an_answer() -> None:
    server = a_server()
    with to_server(server) as wire:
        listen(wire, 1, toolsListChanged=True)
        listen(wire, "1", resourceSubscriptions=["x://a"])
        wire.notify("notifications/cancelled", {"requestId": 1})
        assert era_of(answered(wire, 2, "tools/list")) == "stateless"
        assert len(server.subscriptions) == 1
        server.tool("later")(lambda: "")
        server.resource_updated("x://a")
        assert wire.receive()["params"]["_meta"] == {SUBSCRIPTION_ID: "1"}
        assert listen(wire, 1) == {}
        assert wire.silent()
    assert len(server.subscriptions) == 0, "the channel that closes takes those with it that are left"


def test_a_server_that_closes_ends_its_subscriptions_with_the_result_and_then_the_cancellation() -> None:
    server = a_server()
    with to_server(server) as wire:
        listen(wire, 5, toolsListChanged=True)
        server.tool("last")(lambda: "")
        assert server.close(PATIENCE) == []
        changed, result, cancelled = (wire.receive() for _ in range(3))
        assert changed["method"] == TOOLS_CHANGED
        meta_of_result = {SUBSCRIPTION_ID: 5, SERVER_INFO: {"name": "s", "version": "0"}}
        assert (result["id"], result["result"]) == (5, {"resultType": "complete", "_meta": meta_of_result})
        assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", 5)
        assert cancelled["params"]["_meta"] == {SUBSCRIPTION_ID: 5}
        assert not isinstance(wire.receive(), dict)
        assert len(server.subscriptions) == 0


# -- a handler that asks by its result, in the session era --------------------------------------------------------


CAN: Any = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


def asking_server() -> Server:
    """A server whose handler asks for three things in two rounds, the second with what the first brought."""
    server = Server("s")

    def plan(ctx: Context) -> Any:
        state, answers = ctx.request_state, ctx.input_responses
        if state is None:
            questions = {"said": sampling("hi", max_tokens=5), "roots": roots_listing()}
            return input_required(questions, state={"round": (1,)})
        if state == {"round": [1]}:
            state = f"{answers['said']['content']['text']} {len(answers['roots']['roots'])}"
            if ctx.peer_capabilities.get("elicitation") is None:
                return state
            return input_required({"who": elicitation_form("who?", FORM)}, state=state)
        return f"{state} {answers['who']['content']['name']}"

    server.tool("plan")(plan)
    server.prompt("plan")(plan)
    server.resource("x://plan")(plan)
    return server


@pytest.mark.parametrize("revision", [*OLDER, MODERN])
def test_a_handler_that_asks_by_its_result_is_run_again_in_every_revision(revision: str) -> None:
    answers: Any = {"sample": lambda params: SAID, "roots": ["/tmp"], "elicit": lambda message, schema: {"name": "Ana"}}
    with Client(asking_server(), revision=revision, **answers) as client:
        for ask in (client.call_tool, client.get_prompt, lambda name: client.read_resource(f"x://{name}")):
            assert f"'hi 1{' Ana' * (revision not in OLDER[:2])}'" in str(ask("plan"))


def test_a_visit_is_asked_for_with_the_id_that_the_session_era_wants() -> None:
    server = Server("s")

    @server.tool()
    def go(ctx: Context) -> Any:
        answer = ctx.input_response("go")
        return answer["action"] if answer else input_required({"go": elicitation_url("in", "https://a.example/in")})

    with opened(server, "2025-11-25", CAN) as wire:
        message = wire.request(1, "tools/call", {"name": "go"})
        assert message["params"].pop("elicitationId")
        assert message["params"] == {"mode": "url", "message": "in", "url": "https://a.example/in"}
        wire.answer(message["id"], {"action": "decline"})
        assert text_of(wire.receive()) == "decline"


TOOLED: Any = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}


@pytest.mark.parametrize(
    ("revision", "can", "asked"),
    [
        ("2025-11-25", {}, roots_listing()),
        ("2025-11-25", {}, elicitation_form("who?", FORM)),
        ("2025-06-18", {"elicitation": {}}, elicitation_url("go", "https://a.example")),
        ("2025-03-26", CAN, elicitation_form("who?", FORM)),
        ("2025-11-25", {"sampling": {}}, sampling("hi", max_tokens=1, **TOOLED)),
        ("2025-11-25", CAN, {"method": "ping", "params": {}}),
    ],
)
def test_what_the_client_did_not_declare_is_not_asked(
    revision: str, can: Any, asked: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    server.tool("t")(lambda: input_required({"q": asked}))
    with opened(server, revision, can) as wire:
        assert wire.request(1, "tools/call", {"name": "t"})["error"] == {"code": -32603, "message": "Internal error"}
    assert "tools/call failed" in caplog.text


def test_a_handler_that_asks_without_end_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    server, runs = Server("s"), []

    @server.tool()
    def more() -> Any:
        runs.append(1)
        return input_required(state=len(runs))

    with opened(server, "2025-11-25") as wire:
        assert wire.request(1, "tools/call", {"name": "more"})["error"]["code"] == -32603
    assert len(runs) == MAX_ROUNDS + 1
    assert "did not finish" in caplog.text


def test_a_client_that_refuses_a_question_ends_the_call() -> None:
    with opened(asking_server(), "2025-11-25", CAN) as wire:
        asked = wire.request(1, "tools/call", {"name": "plan"})
        assert asked["method"] == "sampling/createMessage" and "_meta" not in asked["params"]
        wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "rejected"}})
        assert wire.receive()["error"] == {"code": -32603, "message": "Internal error"}


def test_capabilities_that_a_handler_requires_are_a_local_error_in_the_session_era() -> None:
    server = Server("s")

    @server.tool()
    def needs(ctx: Context) -> None:
        ctx.require("sampling.tools")

    with opened(server, "2025-11-25") as wire:
        assert "did not declare sampling.tools" in text_of(wire.request(1, "tools/call", {"name": "needs"}))


SETTINGS: Any = [({"level": 2}, {"level": 2}), ({}, {}), (None, None)]


@pytest.mark.parametrize(
    ("revision", "given", "found"),
    [*((revision, *row) for revision in (*OLDER, MODERN) for row in SETTINGS), *((each, 5, None) for each in OLDER)],
)
def test_the_settings_of_an_extension_reach_a_handler_in_every_revision(revision: str, given: Any, found: Any) -> None:
    server, seen = Server("s", extensions={"com.example/audit": {"ours": 1}}), list[Any]()

    @server.tool()
    def looks(ctx: Context) -> str:
        seen.append(ctx.extension("com.example/audit"))
        with pytest.raises(LocalProtocolError, match="did not declare the extension"):
            ctx.extension("com.example/other")
        return str(ctx.require_extension("com.example/audit"))

    extensions = {"com.example/other": {}} if given is None else {"com.example/audit": given}
    with open_server(server, revision, {"extensions": extensions}) as wire:
        answer = wire.request(1, "tools/call", {"name": "looks"})
    assert seen == [found] and ("result" in answer) is (found is not None)
