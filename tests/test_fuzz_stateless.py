"""Input that nobody thinks of, in the stateless era: requests that stand alone, and what a server says to a client.

As tests/test_fuzz.py: nothing crashes, nothing hangs, each request has one answer, and that has the code of the first
thing that is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref import Client, Context, Server
from mcp_ref.errors import InvalidParams, ParseError
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports.memory import pair
from mcp_ref.pages.basic.versioning import LOG_LEVEL, PROTOCOL_VERSION, SUBSCRIPTION_ID, is_stateless, read_envelope
from mcp_ref.pages.table import METHODS
from mcp_ref.revisions import REVISIONS
from mcp_ref.wire import messages
from tests.eras import MODERN, discovered, envelope, open_client
from tests.slow import examples
from tests.support.wire import PATIENCE, SERVER_INFO, Background, Wire, to_server
from tests.test_fuzz import (
    ANSWERS,
    DEPTHS,
    DONE,
    a_server,
    answered,
    attempted,
    collected,
    fuzzed,
    methods,
    mutated,
    ping_around,
    requests,
    responses,
    results,
    scalars,
    texts,
    told,
    values,
)

JsonObject = dict[str, Any]

CAN: JsonObject = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
KNOWN = {row.name for row in METHODS.values() if row.kind == "request" and row.exists_in(REVISIONS[MODERN])}


def alone(method: str, **params: Any) -> JsonObject:
    return {"method": method, "params": {**params, "_meta": envelope(CAN)}}


ASKED = {"elicitation-1": {"action": "accept", "content": {"city": "x"}}}
VALID = [
    alone("server/discover"),
    alone("tools/list", cursor="YQ=="),
    alone("tools/call", name="echo", arguments={"value": [1]}),
    alone("tools/call", name="sum", arguments={"numbers": [1, 2], "city": {"name": "x"}}),
    alone("tools/call", name="ask", arguments={}),
    alone("tools/call", name="ask", arguments={}, inputResponses=ASKED, requestState="eyJhIjoxfQ.AAAA"),
    alone("resources/read", uri="file:///a/b"),
    alone("prompts/get", name="greet", arguments={"who": "me"}),
    alone("completion/complete", ref={"type": "ref/prompt", "name": "greet"}, argument={"name": "who", "value": "m"}),
]
LISTENS = [
    alone("subscriptions/listen", notifications={"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}),
    alone("subscriptions/listen", notifications={"promptsListChanged": True, "resourcesListChanged": False}),
]

modern = st.one_of(
    mutated(VALID),
    st.sampled_from(VALID),
    methods.map(alone),
    st.builds(
        lambda method, version: {"method": method, "params": {"_meta": envelope(CAN, version)}},
        methods,
        st.sampled_from([*REVISIONS, "2099-01-01", "2026-7-28"]) | texts,
    ),
    st.builds(lambda method, params: {"method": method, "params": params}, methods, values),
)


# -- requests to a server -------------------------------------------------------------------------------------------


def an_asking_server() -> Server:
    server = a_server()

    @server.tool()
    def ask(ctx: Context) -> str:
        return str(ctx.elicit("Where?", {"city": {"type": "string"}}))

    return server


@pytest.fixture
def wire() -> Iterator[Wire]:
    # It is never opened: what has no envelope is of the session era, where a ping is answered at any time.
    with to_server(an_asking_server()) as wire:
        yield wire


def expected_code(message: JsonObject) -> int | None:
    """The code of what is wrong with a request before anybody looks at its own params; None: nothing."""
    params = message.get("params", {})
    try:
        version = read_envelope(params).version
    except InvalidParams:
        return -32602
    if version != MODERN:
        return -32022
    return None if message["method"] in KNOWN else -32601


def check(message: JsonObject, answer: JsonObject) -> None:
    """The answer to a request of the stateless era has what it must have."""
    code = answer["error"]["code"] if "error" in answer else None
    if isinstance(message.get("params"), dict) and is_stateless(message["method"], message["params"]):
        wrong = expected_code(message)
        if wrong is not None:
            assert code == wrong, (message, answer)
        else:
            assert code in (None, -32602, -32021, 429), (message, answer)
        if code == -32022:
            assert answer["error"]["data"]["supported"] == [*reversed(REVISIONS)]
            assert answer["error"]["data"]["requested"] == message["params"]["_meta"][PROTOCOL_VERSION]
    if code is None and "resultType" in answer["result"]:
        assert answer["result"]["resultType"] in ("complete", "input_required")


@settings(fuzzed, max_examples=examples(160))
@given(modern, st.integers(0, 10**9))
def test_any_request_that_stands_alone_gets_exactly_one_answer_with_its_id(
    wire: Wire, message: JsonObject, number: int
) -> None:
    sent = {"method": "x", **message, "jsonrpc": "2.0", "id": f"fuzz {number}"}
    if sent["method"] == "initialize":
        # On this channel nothing is opened: its ping is to be answered alike at all times.
        sent["method"] = "initialise"
    wire.send_text(json.dumps(sent))
    (answer,) = collected(wire, 1)
    assert answer["id"] == sent["id"]
    if isinstance(sent["method"], str):
        check(sent, answer)


@settings(fuzzed, max_examples=examples(60))
@given(mutated([*LISTENS, *LISTENS]) | st.sampled_from(LISTENS))
def test_any_listen_is_acknowledged_or_refused(wire: Wire, message: JsonObject) -> None:
    sent = {"method": "x", **message, "jsonrpc": "2.0", "id": "listen"}
    wire.send_text(json.dumps(sent))
    first = wire.receive()
    if "method" in first:
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["_meta"][SUBSCRIPTION_ID] == "listen"
        wire.notify("notifications/cancelled", {"requestId": "listen"})
    else:
        assert first["error"]["code"] in (-32600, -32601, -32602, -32022), first
        if isinstance(sent["method"], str):
            check(sent, first)
    assert collected(wire, 0) == []


STATES = st.text(max_size=60) | st.binary(max_size=40).map(lambda data: data.hex()) | values


@settings(fuzzed, max_examples=examples(60))
@given(st.integers(0, 200), STATES, st.booleans(), values | st.just(ASKED), st.booleans())
def test_a_state_that_was_changed_is_refused_and_answers_of_any_shape_are_taken_or_refused(
    wire: Wire, place: int, other: Any, whole: bool, answers: Any, good: bool
) -> None:
    sent = {"jsonrpc": "2.0", "id": 1, **alone("tools/call", name="ask", arguments={})}
    wire.send(sent)
    state = wire.receive()["result"]["requestState"]
    place %= len(state)
    changed = other if whole else state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1 :]
    params = {**sent["params"], "inputResponses": answers, "requestState": state if good else changed}
    wire.send_text(json.dumps({**sent, "id": 2, "params": params}))
    (answer,) = collected(wire, 1)
    if "error" in answer:
        assert answer["error"]["code"] == -32602, answer
    elif not good:
        # The last characters of base64 may hold bits that mean nothing.
        assert not whole and place >= len(state) - 1, (state, changed, answer)
    else:
        assert answer["result"]["resultType"] in ("complete", "input_required")


SHAPES: list[Callable[[str, str], str]] = [
    lambda meta, deep: f'{{"method":"tools/list","params":{{"_meta":{{{meta},"a":{deep}}}}}}}',
    lambda meta, deep: f'{{"method":"server/discover","params":{{"_meta":{{{meta}}},"a":{deep}}}}}',
    lambda meta, deep: (
        f'{{"method":"tools/call","params":{{"_meta":{{{meta}}},"name":"ask","arguments":{{}},"inputResponses":{deep}}}}}'
    ),
    lambda meta, deep: (
        f'{{"method":"tools/call","params":{{"_meta":{{{meta}}},"name":"ask","arguments":{{"a":{deep}}}}}}}'
    ),
    lambda meta, deep: (
        f'{{"method":"tools/call","params":{{"_meta":{{{meta}}},"name":"ask","inputResponses":{{"elicitation-1":{deep}}}}}}}'
    ),
    lambda meta, deep: f'{{"method":"subscriptions/listen","params":{{"_meta":{{{meta}}},"notifications":{deep}}}}}',
    lambda meta, deep: (
        '{"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        f'"io.modelcontextprotocol/clientCapabilities":{{"a":{deep}}}}}}}}}'
    ),
]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_any_depth_in_a_request_that_stands_alone_is_refused_or_answered(wire: Wire, depth: int, opening: str) -> None:
    deep = opening * depth + "1" + ("]" if opening == "[" else "}") * depth
    meta = json.dumps(envelope(CAN))[1:-1]
    for number, shape in enumerate(SHAPES):
        text = '{"jsonrpc":"2.0","id":"d",' + shape(meta, deep)[1:]
        wire.send_text(text)
        try:
            messages.decode(text)
        except ParseError:
            pass  # It has an answer as well, though no id.
        # A filter of nothing but unknown members is acknowledged, which is not an answer.
        listens = "subscriptions/listen" in text and opening != "["
        found = ping_around(wire, 0 if listens else 1)
        assert len(found) == 1 or (listens and not found), (number, depth)
        wire.notify("notifications/cancelled", {"requestId": "d"})


# -- what a server says to a client ---------------------------------------------------------------------------------

DECLARED: JsonObject = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {},
    "completions": {},
    "logging": {},
}


@pytest.fixture
def asking() -> Iterator[tuple[Client, Wire]]:
    with open_client(MODERN, DECLARED, **ANSWERS) as both:
        yield both


def still_there(client: Client, wire: Wire) -> None:
    """Whether the client still sends, and hears the answer; and has sent nothing before."""
    calling = Background(client.request, "x/last", None, {"timeout": PATIENCE})
    asked = wire.receive()
    assert asked["method"] == "x/last", f"nobody asked for this: {asked}"
    wire.answer(asked["id"], {})
    assert calling.outcome() == {}, calling


QUESTIONS: JsonObject = {
    "a": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}},
    "b": {"method": "elicitation/create", "params": {"mode": "url", "message": "?", "url": "https://a.example"}},
    "c": {"method": "roots/list"},
    "d": {
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 1},
    },
}
MORE: list[JsonObject] = [
    {"resultType": "input_required", "inputRequests": QUESTIONS, "requestState": "s"},
    {"resultType": "input_required", "inputRequests": {"a": QUESTIONS["a"]}},
    {"resultType": "input_required", "requestState": "s"},
    {"resultType": "complete", "tools": [], "ttlMs": 60_000, "cacheScope": "public", "nextCursor": "c"},
    {"resultType": "complete", "contents": [{"uri": "file:///a", "text": "a"}], "ttlMs": 1, "cacheScope": "private"},
    discovered(DECLARED, MODERN, "2025-11-25"),
]
refusals = mutated(
    [
        {"code": -32022, "message": "m", "data": {"supported": [MODERN, "2025-11-25"], "requested": MODERN}},
        {"code": -32021, "message": "m", "data": {"requiredCapabilities": {"sampling": {"tools": {}}}}},
        {"code": -32020, "message": "m"},
        {"code": -32602, "message": "m", "data": {"path": "params.cursor"}},
    ]
)
bodies = st.one_of(
    responses,
    (results | mutated(MORE) | st.sampled_from(MORE)).map(lambda result: {"result": result}),
    refusals.map(lambda error: {"error": error}),
)

CALLS: list[Callable[[Client, bool], Any]] = [
    lambda client, cached: client.discover(cached=cached),
    lambda client, cached: client.list_tools_page(cached=cached),
    lambda client, cached: client.list_tools_page("c", cached=cached),
    lambda client, cached: client.list_tools(cached=cached),
    lambda client, cached: client.call_tool("t", {}),
    lambda client, cached: client.call_tool("t", {}, by_hand=True),
    lambda client, cached: client.read_resource("file:///a", cached=cached),
    lambda client, cached: client.get_prompt("p"),
    lambda client, cached: client.complete({"type": "ref/prompt", "name": "p"}, "a", "v"),
    lambda client, cached: client.call_tool("t", {}, on_progress=lambda *told: None),
    lambda client, cached: client.request("x/y"),
]


@settings(fuzzed, max_examples=examples(120))
@given(bodies, st.sampled_from(CALLS), st.booleans(), st.booleans())
def test_whatever_a_server_answers_the_caller_gets_a_result_or_an_mcp_error(
    asking: tuple[Client, Wire], body: Any, call: Callable[[Client, bool], Any], cached: bool, twice: bool
) -> None:
    client, wire = asking
    calling = Background(attempted(wire, lambda: call(client, cached)))
    answered(wire, body, 2 if twice else 1)
    calling.outcome()
    still_there(client, wire)


SAID = [
    {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "r"}},
    {"method": "notifications/subscriptions/acknowledged", "params": {"notifications": {"toolsListChanged": True}}},
    {"method": "notifications/tools/list_changed", "params": {"_meta": {SUBSCRIPTION_ID: 1}}},
    {"method": "notifications/resources/updated", "params": {"uri": "file:///a", "_meta": {SUBSCRIPTION_ID: 1}}},
    {"method": "notifications/message", "params": {"level": "info", "data": {"a": 1}}},
]


@settings(fuzzed, max_examples=examples(80))
@given(st.binary(max_size=40) | values | requests | modern | told | responses | mutated(SAID) | st.lists(told))
def test_whatever_a_server_sends_unasked_the_client_says_nothing_and_goes_on(
    asking: tuple[Client, Wire], what: Any
) -> None:
    client, wire = asking
    if isinstance(what, dict):
        what = {"jsonrpc": "2.0", **what}
    wire.send_text(what if isinstance(what, bytes) else json.dumps(what))
    still_there(client, wire)


@settings(fuzzed, max_examples=examples(60))
@given(st.lists(mutated(SAID) | st.sampled_from(SAID) | told, max_size=4), bodies, st.booleans())
def test_whatever_a_server_says_on_a_subscription_it_ends_or_raises_an_mcp_error(
    asking: tuple[Client, Wire], said: list[JsonObject], last: JsonObject, acknowledges: bool
) -> None:
    client, wire = asking

    def listen() -> None:
        with client.listen(tools=True, resources=["file:///a"], timeout=PATIENCE, reopen=False) as events:
            assert all(isinstance(event.params, dict) for event in events)

    calling = Background(attempted(wire, listen))
    asked = wire.receive()
    for message in [*([SAID[1]] if acknowledges else []), *said]:
        params = message.get("params")
        if isinstance(params, dict) and isinstance(params.get("_meta", {}), dict):
            params = {**params, "_meta": {SUBSCRIPTION_ID: asked["id"], **params.get("_meta", {})}}
            params["_meta"] = {key: asked["id"] if value == 1 else value for key, value in params["_meta"].items()}
        wire.send_text(json.dumps({"jsonrpc": "2.0", **message, **({} if params is None else {"params": params})}))
    answered(wire, last, first=asked)
    calling.outcome()
    still_there(client, wire)


# -- the opening ----------------------------------------------------------------------------------------------------

discoveries = mutated(
    [
        {"result": discovered(DECLARED, MODERN)},
        {"result": discovered(DECLARED, "2025-11-25", "2099-01-01")},
        {"error": {"code": -32022, "message": "m", "data": {"supported": ["2025-11-25"], "requested": MODERN}}},
        {"error": {"code": -32601, "message": "Method not found: server/discover"}},
    ]
)
openings = mutated([{"result": {"protocolVersion": "2025-11-25", "capabilities": DECLARED, "serverInfo": SERVER_INFO}}])


@settings(fuzzed, max_examples=examples(60))
@given(discoveries | responses, openings | responses, texts, scalars)
def test_whatever_the_opening_is_answered_with_the_client_is_connected_or_raises_an_mcp_error(
    probed: JsonObject, opened: JsonObject, text: str, instructions: Any
) -> None:
    ours, theirs = pair()
    wire = Wire(ours)
    client = Client(theirs, connect_timeout=PATIENCE)
    calling = Background(attempted(wire, client.connect))
    if isinstance(probed.get("result"), dict):
        probed = {"result": {"instructions": instructions, text: instructions, **probed["result"]}}
    while (asked := wire.receive()) is not DONE:
        assert isinstance(asked, dict | ConnectionError), repr(asked)
        if not isinstance(asked, dict) or "id" not in asked:
            continue
        body = probed if asked["method"] == "server/discover" else opened
        filled: JsonObject = {} if "error" in body else {"result": {}}
        wire.send_text(json.dumps({"jsonrpc": "2.0", **filled, **body, "id": asked["id"]}))
        wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 1, "message": "enough"}})
    calling.outcome()
    client.close()
    ours.close(Deadline(PATIENCE))


@settings(fuzzed, max_examples=examples(60))
@given(st.sampled_from([LOG_LEVEL, PROTOCOL_VERSION]), values)
def test_an_envelope_of_any_shape_is_read_or_refused(key: str, value: Any) -> None:
    try:
        read_envelope({"_meta": {**envelope(CAN), key: value}})
    except InvalidParams as refusal:
        assert refusal.code == -32602
        messages.encode(messages.error(1, refusal))
