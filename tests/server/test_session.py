"""server/session: one channel carries both eras, word for word; and handlers that ask, in the session era."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from mcp_ref import Context, Server
from mcp_ref.errors import Refusal
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
from tests.pages.server.alone import MODERN, meta, without
from tests.support.wire import CLIENT_INFO, PATIENCE, Wire, opened, play, to_server

FORM: Any = {"name": {"type": "string"}}
ANA: Any = {"action": "accept", "content": {"name": "Ana"}}
SAID: Any = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
ROOTS: Any = {"roots": [{"uri": "file:///a"}]}
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS_CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
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
        first = answered(wire, 1, "tools/call", said)
        opening = wire.request(2, "initialize", OPENING)
        second = answered(wire, 3, "tools/call", said)
        wire.notify("notifications/initialized")
        third = answered(wire, 4, "tools/call", said)
        old = wire.request(5, "tools/call", said)
        fourth = answered(wire, 6, "tools/call", said)
    assert opening["result"]["protocolVersion"] == "2025-11-25"
    for message in (first, second, third, fourth):
        assert era_of(message) == "stateless"
        assert message["result"]["content"][0]["text"] == f"alone {MODERN}"
    assert era_of(old) == "session"
    assert old["result"]["content"][0]["text"] == "wire 2025-11-25"
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


@pytest.mark.parametrize("revision", [revision.name for revision in SESSION_REVISIONS])
def test_no_session_hears_an_error_of_the_other_era(revision: str) -> None:
    server = Server("s", extensions={"com.example/audit": {}})

    @server.tool()
    def code(code: int) -> str:
        raise Refusal("as you like", {"requiredCapabilities": {}}, code=code)

    @server.tool()
    def needs(ctx: Context) -> str:
        return str(ctx.require_extension("com.example/audit"))

    with opened(server, revision) as wire:
        for number in (-32020, -32021, -32022):
            answer = wire.request(number, "tools/call", {"name": "code", "arguments": {"code": number}})
            assert answer["error"] == {"code": -32603, "message": "as you like"}
        assert wire.request(5, "tools/call", {"name": "needs"})["error"]["code"] == -32603
        assert wire.request(6, "tools/call", {"name": "code", "arguments": {"code": 77}})["error"]["code"] == 77


def test_a_modern_server_refuses_an_opening_and_names_its_versions() -> None:
    with to_server(a_server(revisions=[MODERN])) as wire:
        error = wire.request(1, "initialize", OPENING)["error"]
        assert (error["code"], error["data"]) == (-32022, {"supported": [MODERN], "requested": "2025-11-25"})
        assert MODERN in error["message"]
        wire.notify("notifications/initialized")
        assert era_of(answered(wire, 2, "server/discover")) == "stateless"


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
        assert alone["result"]["content"][0]["text"] == "None ['roots']"
        modern(wire, 3, "tools/call", said, envelope=meta(level="debug"))
        assert wire.receive()["params"] == {"level": "error", "data": "x"}
        assert wire.receive()["result"]["content"][0]["text"] == "debug []"
        session = wire.request(4, "tools/call", said)
        assert session["result"]["content"][0]["text"] == "emergency ['sampling']"


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
        assert wire.receive()["result"]["content"][0]["text"] == "slow"
        assert era_of(answered(wire, 1, "tools/list")) == "stateless"


def test_a_modern_server_sends_no_pings() -> None:
    server = a_server(revisions=[MODERN], ping_interval=0.01)
    with to_server(server) as wire:
        wire.notify("notifications/initialized")
        assert era_of(answered(wire, 1, "tools/list")) == "stateless"
        assert not [thread for thread in threading.enumerate() if thread.name == "mcp-ping"]


def test_changes_and_log_messages_outside_a_handler_reach_no_client_that_did_not_ask() -> None:
    server = a_server()
    with to_server(server) as wire:
        assert era_of(answered(wire, 1, "tools/list")) == "stateless"
        server.log("emergency", "to all")
        server.tool("another")(lambda: "")
        server.resource_updated("x://a")
        assert era_of(answered(wire, 2, "tools/list")) == "stateless"
        assert wire.silent()


def test_a_response_of_the_client_answers_nothing() -> None:
    with to_server(a_server(revisions=[MODERN])) as wire:
        wire.answer(1, {"action": "accept"})
        wire.notify("notifications/roots/list_changed")
        wire.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        assert era_of(answered(wire, 1, "tools/list")) == "stateless"
        assert wire.silent()


def test_each_channel_has_a_rate_of_its_own_that_nothing_else_is_bound_to() -> None:
    server = a_server(rates={"tools/call": Rate(per_second=0.001, burst=1)})
    server.tool("asks")(ask_once)
    said = {"name": "asks", "arguments": {}}
    with to_server(server) as one, to_server(server) as other:
        first = answered(one, 1, "tools/call", said, envelope=meta({"roots": {}}))["result"]
        assert answered(one, 2, "tools/call", said)["error"]["code"] == 429
        (key,) = first["inputRequests"]
        retry = {**said, "requestState": first["requestState"], "inputResponses": {key: ROOTS}}
        # Which channel a request comes by says nothing of who asks.
        last = answered(other, 1, "tools/call", retry, envelope=meta({"roots": {}}))["result"]
        assert last["content"][0]["text"] == "1"


def ask_once(ctx: Context) -> str:
    return str(len(ctx.roots()))


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
        assert wire.receive() == {
            "jsonrpc": "2.0",
            "method": TOOLS_CHANGED,
            "params": {"_meta": {SUBSCRIPTION_ID: request_id}},
        }
        server.resource_updated("x://a")
        assert wire.receive() == {
            "jsonrpc": "2.0",
            "method": UPDATED,
            "params": {"uri": "x://a", "_meta": {SUBSCRIPTION_ID: request_id}},
        }


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
        assert server.stateless is not None
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
        got = [wire.receive() for _ in range(3)]
        assert [message.get("method") for message in got] == [TOOLS_CHANGED, None, "notifications/cancelled"]
        assert got[1]["id"] == 5
        meta_of_result = {SUBSCRIPTION_ID: 5, SERVER_INFO: {"name": "s", "version": "0"}}
        assert got[1]["result"] == {"resultType": "complete", "_meta": meta_of_result}
        assert got[2]["params"]["requestId"] == 5
        assert got[2]["params"]["_meta"] == {SUBSCRIPTION_ID: 5}
        assert not isinstance(wire.receive(), dict)
        assert server.stateless is not None
        assert len(server.subscriptions) == 0


# -- a handler that asks by its result, in the session era --------------------------------------------------------


CAN: Any = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


def asking_server() -> Server:
    """A server whose handler asks for three things in two rounds, the second with what the first brought."""
    server = Server("s")

    def plan(ctx: Context) -> Any:
        if ctx.request_state is None:
            questions = {"said": sampling("hi", max_tokens=5), "roots": roots_listing()}
            return input_required(questions, state={"round": (1,)})
        if ctx.request_state == {"round": [1]}:
            said = ctx.input_responses["said"]["content"]["text"]
            state = {"said": said, "roots": len(ctx.input_responses["roots"]["roots"])}
            if ctx.peer_capabilities.get("elicitation") is None:
                return f"{state['said']} {state['roots']}"
            return input_required({"who": elicitation_form("who?", FORM)}, state=state)
        state = ctx.request_state
        return f"{state['said']} {state['roots']} {ctx.input_responses['who']['content']['name']}"

    server.tool("plan")(plan)
    server.prompt("plan")(plan)
    server.resource("x://plan")(plan)
    return server


ANSWERS: Any = {"sampling/createMessage": SAID, "roots/list": ROOTS, "elicitation/create": ANA}


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
@pytest.mark.parametrize("revision", [row.name for row in SESSION_REVISIONS])
def test_in_the_session_era_the_questions_are_requests_and_the_handler_runs_again(revision: str, method: str) -> None:
    with opened(asking_server(), revision, CAN) as wire:
        message = wire.request(1, method, {"name": "plan", "uri": "x://plan"})
        asked = []
        while "method" in message:
            asked.append(message["method"])
            assert "_meta" not in message["params"]
            wire.answer(message["id"], ANSWERS[message["method"]])
            message = wire.receive()
        assert "resultType" not in message["result"]
        forms = revision in ("2025-06-18", "2025-11-25")
        assert asked == ["sampling/createMessage", "roots/list", *["elicitation/create"] * forms]
        assert f"'hi 1{' Ana' * forms}'" in str(message["result"])


def test_the_same_handler_gives_the_same_in_the_stateless_era() -> None:
    with to_server(asking_server()) as wire:
        params: Any = {"name": "plan", "arguments": {}}
        rounds = 0
        while (result := answered(wire, 1, "tools/call", params, envelope=meta(CAN))["result"])[
            "resultType"
        ] == "input_required":
            rounds += 1
            answers = {key: ANSWERS[asked["method"]] for key, asked in result["inputRequests"].items()}
            params = {**params, "inputResponses": answers, "requestState": result["requestState"]}
        assert rounds == 2
        assert result["content"][0]["text"] == "hi 1 Ana"


def test_a_visit_is_asked_for_with_the_id_that_the_session_era_wants() -> None:
    server = Server("s")

    @server.tool()
    def go(ctx: Context) -> Any:
        if not ctx.input_responses:
            return input_required({"go": elicitation_url("sign in", "https://a.example/in")})
        answer = ctx.input_response("go")
        return answer and answer["action"]

    with opened(server, "2025-11-25", CAN) as wire:
        wire.call(1, "go")
        message = wire.receive()
        assert message["params"].pop("elicitationId")
        assert message["params"] == {"mode": "url", "message": "sign in", "url": "https://a.example/in"}
        wire.answer(message["id"], {"action": "decline"})
        assert wire.receive()["result"]["content"][0]["text"] == "decline"


TOOLED: Any = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}


@pytest.mark.parametrize(
    ("revision", "can", "asked"),
    [
        ("2025-11-25", {}, {"who": elicitation_form("who?", FORM)}),
        ("2025-11-25", {"elicitation": {}}, {"go": elicitation_url("go", "https://a.example")}),
        ("2025-06-18", {"elicitation": {}}, {"go": elicitation_url("go", "https://a.example")}),
        ("2025-03-26", CAN, {"who": elicitation_form("who?", FORM)}),
        ("2025-11-25", {"sampling": {}}, {"said": sampling("hi", max_tokens=1, **TOOLED)}),
        ("2025-03-26", {"sampling": {}}, {"said": sampling("hi", max_tokens=1, **TOOLED)}),
        ("2025-11-25", {}, {"roots": roots_listing()}),
        ("2025-11-25", CAN, {"odd": {"method": "ping", "params": {}}}),
    ],
)
def test_what_the_client_did_not_declare_is_not_asked(
    revision: str, can: Any, asked: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    server.tool("t")(lambda: input_required(asked))
    with caplog.at_level(logging.ERROR), opened(server, revision, can) as wire:
        wire.call(1, "t")
        assert wire.receive()["error"] == {"code": -32603, "message": "Internal error"}
    assert "tools/call failed" in caplog.text


def test_a_handler_that_asks_without_end_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    server, runs = Server("s"), []

    @server.tool()
    def more() -> Any:
        runs.append(1)
        return input_required(state=len(runs))

    with caplog.at_level(logging.ERROR), opened(server, "2025-11-25") as wire:
        wire.call(1, "more")
        assert wire.receive()["error"]["code"] == -32603
    assert len(runs) == MAX_ROUNDS + 1
    assert "did not finish" in caplog.text


def test_a_client_that_refuses_a_question_ends_the_call() -> None:
    with opened(asking_server(), "2025-11-25", CAN) as wire:
        wire.call(1, "plan")
        wire.send({"jsonrpc": "2.0", "id": wire.receive()["id"], "error": {"code": -1, "message": "rejected"}})
        assert wire.receive()["error"] == {"code": -32603, "message": "Internal error"}


def test_capabilities_that_a_handler_requires_are_a_local_error_in_the_session_era() -> None:
    server = Server("s", extensions={"com.example/audit": {}})

    @server.tool()
    def needs(ctx: Context) -> str:
        ctx.require("sampling.tools")
        return ""

    with opened(server, "2025-11-25") as wire:
        wire.call(1, "needs")
        result = wire.receive()["result"]
        assert result["isError"] is True
        assert "did not declare sampling.tools" in result["content"][0]["text"]


@pytest.mark.parametrize("revision", [row.name for row in SESSION_REVISIONS])
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"com.example/audit": {"a": 1}}, {"a": 1}),
        ({"com.example/audit": 5}, None),
        ({}, None),
        (None, None),
        (5, None),
    ],
)
def test_extensions_that_come_with_initialize_reach_a_handler(revision: str, given: Any, found: Any) -> None:
    server, seen = Server("s", extensions={"com.example/audit": {}}), list[Any]()

    @server.tool()
    def looks(ctx: Context) -> str:
        seen.append(ctx.extension("com.example/audit"))
        return str(ctx.require_extension("com.example/audit"))

    with opened(server, revision, {"extensions": given}) as wire:
        answer = wire.request(1, "tools/call", {"name": "looks"})
    assert seen == [found] and ("result" in answer) is (found is not None)
