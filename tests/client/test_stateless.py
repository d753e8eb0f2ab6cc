"""client/session, Stateless: every request stands alone. The test is the server, over a wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse, RemoteProtocolError
from mcp_ref.errors import InputRefused
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.mrtr import MAX_ROUNDS, roots_listing, sampling
from mcp_ref.pages.basic.transports.memory import pair
from mcp_ref.pages.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from tests.eras import MODERN, discovered, open_client
from tests.support.wire import PATIENCE, Background, Wire

OLD, TOOLS = "2025-11-25", {"tools": {"listChanged": True}}
DONE: Any = {"resultType": "complete", "content": []}
STATE = 'e30 "ä" \n\u0000 {"not": "ours"}'


def needs(state: str | None = STATE, **requests: Any) -> Any:
    members = {"inputRequests": requests or None, "requestState": state}
    return {"resultType": "input_required", **{key: value for key, value in members.items() if value is not None}}


def failed(wire: Wire, request: Any, code: int, message: str = "no", data: Any = None) -> None:
    """Send an error response."""
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    wire.send({"jsonrpc": "2.0", "id": request["id"], "error": error})


# -- what a request says of itself --------------------------------------------------------------------------------


def test_every_request_says_its_version_who_asks_and_what_the_client_can_do() -> None:
    functions: Any = {"roots": [], "sample": print, "elicit": print, "open_url": print}
    capabilities: Any = {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", "tracestate": "a=1"}
    with open_client(MODERN, {**TOOLS, "prompts": {}}, info={"name": "mine"}, **functions) as (client, wire):
        named: Any = {client.call_tool: "t", client.get_prompt: "p"}
        for call in (client.discover, client.list_tools_page, *named):
            under_way = Background(call, *([named[call]] if call in named else []), meta=trace, cached=False)
            request = wire.receive()
            said = request["params"]["_meta"]
            assert (said[PROTOCOL_VERSION], said[CLIENT_INFO]["name"]) == (MODERN, "mine")
            assert said[CLIENT_CAPABILITIES] == capabilities
            assert trace.items() <= said.items()
            failed(wire, request, -32603)
            assert isinstance(under_way.outcome(), ErrorResponse)


# -- what comes back ----------------------------------------------------------------------------------------------


def answered(result: Any, method: str = "tools/call", params: Any = None) -> Any:
    """Return what a request comes to whose result this is."""
    with open_client(MODERN, {**TOOLS, "prompts": {}}, result_types=["com.example/later"]) as (client, wire):
        call = Background(client.request, method, params or {"name": "t"})
        wire.answer(wire.receive()["id"], result)
        return call.outcome()


def test_a_result_without_a_kind_is_complete_and_an_unknown_kind_is_an_error() -> None:
    assert answered({"content": []}) == {"content": []}
    assert answered(DONE) == DONE
    assert answered({"resultType": "com.example/later", "job": 1}) == {"resultType": "com.example/later", "job": 1}
    for kind in ("partial", "", None, 5, ["complete"]):
        assert isinstance(answered({**DONE, "resultType": kind}), RemoteProtocolError)


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "server/discover"])
def test_only_three_requests_may_be_answered_with_a_question(method: str) -> None:
    assert isinstance(answered(needs(r=roots_listing()), method, {}), RemoteProtocolError)


@pytest.mark.parametrize(
    ("revision", "code"), [*((MODERN, code) for code in (-32002, -32042, -32050, 7)), (OLD, -32050)]
)
def test_a_code_is_handed_on_as_it_came_and_means_nothing_more(revision: str, code: int) -> None:
    with open_client(revision, TOOLS) as (client, wire):
        call = Background(client.call_tool, "t")
        failed(wire, wire.receive(), code, "theirs", {"x": 1})
        problem = call.outcome()
        assert isinstance(problem, ErrorResponse)
        assert (problem.code, problem.message, problem.data) == (code, "theirs", {"x": 1})
        assert wire.silent()


# -- rounds -------------------------------------------------------------------------------------------------------


def test_each_round_is_a_request_of_its_own_with_the_answers_and_the_state_as_it_came() -> None:
    asked = [needs(r=roots_listing()), needs(None, q=roots_listing()), needs(""), needs(" ä\n==")]
    none: Any = {"roots": []}
    said: Any = [
        {},
        {"inputResponses": {"r": none}, "requestState": STATE},
        {"inputResponses": {"q": none}},
        {"requestState": ""},
        {"requestState": " ä\n=="},
    ]
    with open_client(MODERN, TOOLS, roots=[]) as (client, wire):
        call, requests = Background(client.call_tool, "t", {"a": 1}), []
        for result in (*asked, DONE):
            requests.append(wire.receive())
            wire.answer(requests[-1]["id"], result)
        assert call.outcome() == DONE
    assert len({request["id"] for request in requests}) == 5
    same = requests[0]["params"]
    assert same["arguments"] == {"a": 1}
    for request, more in zip(requests, said, strict=True):
        assert (request["method"], request["params"]) == ("tools/call", {**same, **more})


def test_answers_go_with_their_own_request_alone() -> None:
    with open_client(MODERN, TOOLS, roots=[]) as (client, wire):
        one = Background(client.call_tool, "one")
        wire.answer(wire.receive()["id"], needs(r=roots_listing()))
        again = wire.receive()
        other = Background(client.call_tool, "other")
        beside = wire.receive()
        assert beside["params"].keys().isdisjoint({"inputResponses", "requestState"})
        wire.answer(beside["id"], DONE)
        wire.answer(again["id"], DONE)
        assert one.outcome() == other.outcome() == DONE


def test_questions_without_end_are_given_up() -> None:
    with open_client(MODERN, TOOLS) as (client, wire):
        call = Background(client.call_tool, "t")
        for _ in range(MAX_ROUNDS):
            wire.answer(wire.receive()["id"], needs())
        problem = call.outcome()
        assert isinstance(problem, RemoteProtocolError) and "asked for input" in str(problem)
        assert wire.silent()


def test_a_handler_that_refuses_ends_the_call_and_nothing_is_sent() -> None:
    def refuse() -> Any:
        raise ValueError("not today")

    with open_client(MODERN, TOOLS, roots=refuse) as (client, wire):
        call = Background(client.call_tool, "t")
        wire.answer(wire.receive()["id"], needs(r=roots_listing()))
        problem = call.outcome()
        assert isinstance(problem, InputRefused) and problem.__cause__ is not None
        assert wire.silent()


@pytest.mark.parametrize("field", [{"tools": []}, {"toolChoice": {"mode": "auto"}}])
def test_a_prompt_with_tools_that_were_not_declared_ends_the_call(field: Any) -> None:
    asked: list[Any] = []
    question = sampling("hi", max_tokens=5)
    question["params"] |= field
    with open_client(MODERN, TOOLS, sample=asked.append) as (client, wire):
        call = Background(client.call_tool, "t")
        wire.answer(wire.receive()["id"], needs(s=question))
        problem = call.outcome()
        assert isinstance(problem, InputRefused) and "sampling.tools" in str(problem)
        assert asked == [] and wire.silent()


# -- headers ------------------------------------------------------------------------------------------------------


@contextmanager
def mirroring() -> Iterator[tuple[Client, Wire, Any]]:
    """A client over a transport that repeats in headers what a message says; the transport is given too."""
    ours, theirs = pair()

    class Mirroring:
        name, mirror, hangs_up = "memory", None, False
        start, send, exchange, close = theirs.start, theirs.send, theirs.exchange, theirs.close

    wire, transport = Wire(ours), Mirroring()
    client = Client(transport, revision=MODERN)
    connecting = Background(client.connect)
    wire.answer(wire.receive()["id"], discovered(TOOLS))
    connecting.outcome()
    try:
        yield client, wire, transport
    finally:
        client.close()
        ours.close(Deadline(PATIENCE))


def listed(*schemas: Any) -> Any:
    tools = [{"name": f"t{number}", "inputSchema": schema} for number, schema in enumerate(schemas)]
    return {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}


def list_tools(client: Client, wire: Wire, *schemas: Any) -> Any:
    """Have the client list tools of these schemas."""
    listing = Background(client.list_tools)
    wire.answer(wire.receive()["id"], listed(*schemas))
    return listing.outcome()


def marked(mark: str, kind: str = "string") -> Any:
    return {"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": mark}}}


def test_a_tool_whose_marks_break_the_rules_is_left_out_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with mirroring() as (client, wire, _):
        tools = list_tools(client, wire, {"type": "object"}, marked("a b"), marked("A"), marked("N", "number"))
    assert [tool["name"] for tool in tools] == ["t0", "t2"]
    said = [record.getMessage().partition(", whose x-mcp-header breaks the rules: ") for record in caplog.records]
    assert [(tool, reason) for tool, _, reason in said] == [
        ("left out the tool 't1'", "x-mcp-header of a must be the name of a header, not 'a b'"),
        ("left out the tool 't3'", "x-mcp-header of a must be on a string, an integer or a boolean"),
    ]


def test_over_another_transport_a_mark_means_nothing() -> None:
    with open_client(MODERN, TOOLS) as (client, wire):
        assert [tool["name"] for tool in list_tools(client, wire, marked("a b"))] == ["t0"]


def test_a_listed_tool_is_called_with_the_headers_that_it_asks_for() -> None:
    with mirroring() as (client, wire, transport):
        call: Any = {"method": "tools/call", "params": {"name": "t0", "arguments": {"a": "eu"}}}
        assert "Mcp-Param-Region" not in transport.mirror(call)
        list_tools(client, wire, marked("Region"))
        headers = transport.mirror(call)
        assert headers["MCP-Protocol-Version"] == MODERN
        assert (headers["Mcp-Name"], headers["Mcp-Param-Region"]) == ("t0", "eu")


def test_after_a_header_mismatch_the_tools_are_listed_and_the_call_is_sent_once_more() -> None:
    with mirroring() as (client, wire, transport):
        call = Background(client.call_tool, "t0", {"a": "eu"})
        first = wire.receive()
        assert "Mcp-Param-Region" not in transport.mirror(first)
        failed(wire, first, -32020)
        wire.answer(wire.receive()["id"], {**listed(marked("Other")), "nextCursor": "more"})
        second = wire.receive()
        assert (second["method"], second["params"]["cursor"]) == ("tools/list", "more")
        wire.answer(second["id"], listed(marked("Region")))
        again = wire.receive()
        assert again["id"] != first["id"] and again["params"] == first["params"]
        assert transport.mirror(again)["Mcp-Param-Region"] == "eu"
        failed(wire, again, -32020, "still")
        problem = call.outcome()
        assert isinstance(problem, ErrorResponse) and problem.message == "still"
        assert wire.silent()
