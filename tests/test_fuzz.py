"""Input that nobody thinks of: whatever arrives, nothing crashes, nothing hangs, and each request has one answer.

The examples are the same in every run (`derandomize`), so that a failure is a failure everywhere. A test of a
connection runs eight times: in either role, in each of the four revisions.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_ref import Client, Context, Server, text
from mcp_ref.errors import McpError, ParseError
from mcp_ref.kit.typed.uri_template import UriTemplate
from mcp_ref.pages.basic.versioning import SUBSCRIPTION_ID
from mcp_ref.pages.client.sampling import reply
from mcp_ref.revisions import SESSION_REVISIONS, find_revision
from mcp_ref.wire import messages
from tests.slow import examples, slow_but
from tests.support.wire import PATIENCE, Background, Wire, opened, to_client, to_server

JsonObject = dict[str, Any]

fuzzed = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)

NAMES = [row.name for row in SESSION_REVISIONS]
LAST = "the last word"
"""The id of the ping that follows each example; no example has it."""

# -- what is sent ---------------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec=None), max_size=20)  # half surrogate pairs too
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
ids = st.sampled_from([0, 1, -1, "", "a", "1", 1.0, 1.5, True, False, None, [], {}, [1], {"a": 1}, 2**64, "\ud800"])
methods = st.sampled_from(
    ["tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list", "resources/subscribe"]
    + ["resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel", "ping"]
    + ["roots/list", "sampling/createMessage", "elicitation/create", "tasks/get", "server/discover", "x/y", "rpc.z", ""]
)
notifications = st.sampled_from(
    ["notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/message"]
    + ["notifications/roots/list_changed", "notifications/tools/list_changed", "notifications/resources/updated"]
    + ["notifications/elicitation/complete", "notifications/tasks/status", "notifications/x"]
)

FORM = {"type": "object", "properties": {"a": {"type": "string"}}}


def message(method: str, **params: Any) -> JsonObject:
    return {"method": method, "params": params} if params else {"method": method}


VALID = [
    message("ping"),
    message("tools/list", cursor="YQ=="),
    message("tools/call", name="echo", arguments={"value": [1]}, _meta={"progressToken": 1}),
    message("tools/call", name="sum", arguments={"numbers": [1, 2], "city": {"name": "x"}}),
    message("resources/read", uri="file:///a/b"),
    message("resources/subscribe", uri="file:///a/b"),
    message("prompts/get", name="greet", arguments={"who": "me"}),
    message("completion/complete", ref={"type": "ref/prompt", "name": "greet"}, argument={"name": "who", "value": "m"}),
    message("logging/setLevel", level="debug"),
    message("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "c"}),
    message("roots/list"),
    message("sampling/createMessage", messages=[{"role": "user", "content": text("hi")}], maxTokens=10),
    message("elicitation/create", message="?", requestedSchema=FORM),
]
TOLD = [
    message("notifications/cancelled", requestId=1, reason="r"),
    message("notifications/progress", progressToken=1, progress=1, total=2, message="m"),
    message("notifications/message", level="info", data={"a": 1}),
    message("notifications/resources/updated", uri="file:///a"),
    message("notifications/tools/list_changed", _meta={}),
    message("notifications/elicitation/complete", elicitationId="1"),
]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


@st.composite
def mutated(draw: Any, originals: list[JsonObject]) -> JsonObject:
    """A valid message of which one to three places were changed, taken away or added to."""
    message = copy.deepcopy(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 3))):
        places = sorted(paths(message), key=repr)
        if not places:
            break
        *way, key = draw(st.sampled_from(places))
        holder: Any = message
        for step in way:
            holder = holder[step]
        what = draw(st.sampled_from(["change", "change", "remove", "add"]))
        if what == "change":
            holder[key] = draw(values)
        elif what == "remove":
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw(texts)] = draw(values)
    return message


requests = st.one_of(
    mutated(VALID), st.fixed_dictionaries({"method": methods}, optional={"params": values}), st.sampled_from(VALID)
)
told = st.one_of(mutated(TOLD), st.fixed_dictionaries({"method": notifications}, optional={"params": values}))
responses = st.one_of(
    st.fixed_dictionaries({}, optional={"result": values, "error": values}),
    st.fixed_dictionaries(
        {"error": st.fixed_dictionaries({"code": scalars, "message": scalars}, optional={"data": values})}
    ),
)


# -- who it is sent to ----------------------------------------------------------------------------------------------


ANSWERS: dict[str, Any] = {
    "roots": ["/tmp"],
    "sample": lambda params: reply("sampled", model="m"),
    "elicit": lambda message, schema: {},
    "open_url": lambda url, message: True,
    "on_log": lambda params: None,
    "on_change": lambda method, params: None,
}
"""A client that answers whatever it can be asked."""


def a_server() -> Server:
    """A server with something behind every method."""
    server = Server("s")

    @server.tool()
    def echo(value: Any = None, ctx: Context | None = None) -> Any:
        return value

    @server.tool()
    def take(value: Any) -> str:
        return "taken"

    @server.tool("sum")
    def total(numbers: list[int], city: dict[str, str | None]) -> int:
        return sum(numbers)

    @server.resource("file:///{+path}")
    def read(path: str) -> str:
        return path

    @server.prompt()
    def greet(who: str) -> str:
        return f"Hello {who}"

    server.completion(prompt="greet", argument="who")(lambda value: [value])
    return server


def answers_until_the_last_word(wire: Wire) -> list[Any]:
    """Ping, and collect what comes before the ping's answer, and anything that still follows it."""
    wire.send({"jsonrpc": "2.0", "id": LAST, "method": "ping"})
    found: list[Any] = []
    while True:
        try:
            message = wire.inbox.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError(f"a ping is not answered any more; before it came {found}") from None
        if isinstance(message, dict) and message.get("id") == LAST:
            assert message == {"jsonrpc": "2.0", "id": LAST, "result": {}}
            return found
        found.append(message)


def collected(wire: Wire, expected: int) -> list[Any]:
    """Return what answers came: as many as expected, however late, and not one more."""
    found = answers_until_the_last_word(wire)
    while len(found) < expected:
        found.append(wire.receive())
    # What comes too much may come late: workers are not in order. A second ping is behind whatever was begun.
    found += answers_until_the_last_word(wire)
    return [each for each in found if is_frame(each)]


def is_frame(message: Any) -> bool:
    """Whether it is an answer; AssertionError if it is not valid JSON-RPC at all."""
    for each in message if isinstance(message, list) else [message]:
        assert isinstance(each, dict), f"not a message: {each!r}"
        assert each["jsonrpc"] == "2.0"
        if "method" in each:
            assert "id" not in each, f"nothing here asks the peer anything: {each}"
            return False
        assert ("result" in each) != ("error" in each)
        if "result" in each:
            assert isinstance(each["result"], dict)
            assert messages.is_id(each["id"])
        else:
            assert type(each["error"]["code"]) is int
            assert isinstance(each["error"]["message"], str)
            assert each["error"]["code"] != -32603, f"an accident of ours: {each}"
            assert each.get("id") is None or messages.is_id(each["id"])
    return True


@contextmanager
def target(role: str, name: str) -> Iterator[Wire]:
    """A wire to a server or to a client that is open in that revision."""
    if role == "server":
        with opened(a_server(), name, {"roots": {"listChanged": True}}) as wire:
            yield wire
    else:
        declared = {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "logging": {},
        }
        with to_client(name, declared, **ANSWERS) as (_, wire):
            yield wire


@pytest.fixture(params=[(role, name) for role in ("server", "client") for name in NAMES], ids="-".join)
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    role, name = request.param
    with target(role, name) as wire:
        wire.revision, wire.role = find_revision(name), role  # type: ignore[attr-defined]
        yield wire


def wants_answer(wire: Wire, message: Any) -> bool:
    """Return whether one is answered. A client answers requests alone, for what else a server prints is noise."""
    if wire.role == "client":  # type: ignore[attr-defined]
        return messages.asks(message)
    if not isinstance(message, dict):
        return True
    return "id" in message if "method" in message else not message.keys() & {"result", "error"}


# -- one message ----------------------------------------------------------------------------------------------------


@fuzzed
@given(st.binary(max_size=60) | st.text('{}[]",:0123456789.eE+-truefalsnd \\u\t\r\x00', max_size=40).map(str.encode))
def test_any_bytes_get_at_most_one_answer(wire: Wire, data: bytes) -> None:
    wire.send_text(data)
    try:
        value = messages.decode(data)
    except ParseError:
        answers = collected(wire, int(wire.role == "server"))  # type: ignore[attr-defined]
        assert [each["error"]["code"] for each in answers] == [-32700] * (wire.role == "server")  # type: ignore[attr-defined]
        return
    expected = 1 if wants_answer(wire, value) else 0
    assert len(collected(wire, expected)) == expected


@fuzzed
@given(values)
def test_any_json_that_is_not_a_message_gets_one_refusal(wire: Wire, value: Any) -> None:
    if isinstance(value, dict):
        value.pop("method", None), value.pop("result", None), value.pop("error", None)
    if isinstance(value, list):
        value = [each for each in value if not isinstance(each, dict)]
    wire.send_text(json.dumps(value))
    if wire.role == "client":  # type: ignore[attr-defined]
        assert collected(wire, 0) == []
        return
    (answer,) = collected(wire, 1)
    for each in answer if isinstance(answer, list) else [answer]:
        assert each["error"]["code"] == -32600


@fuzzed
@given(requests, st.integers(0, 10**9), st.sampled_from(["2.0", "2.0", "2.0", "2.0", "1.0", None, 2.0]))
def test_any_request_gets_exactly_one_answer_with_its_id(wire: Wire, message: Any, number: int, version: Any) -> None:
    sent = {**message, "jsonrpc": version, "id": f"fuzz {number}"}
    if "method" not in sent:
        sent["method"] = "x"
    wire.send_text(json.dumps(sent))
    answers = collected(wire, int(wants_answer(wire, sent)))
    assert [answer["id"] for answer in answers] == [sent["id"]] * wants_answer(wire, sent)


@fuzzed
@given(told, st.sampled_from(["2.0", "2.0", "1.0", None]))
def test_no_notification_gets_an_answer(wire: Wire, message: Any, version: Any) -> None:
    sent = {**message, "jsonrpc": version}
    sent.setdefault("method", "notifications/x")
    sent.pop("id", None)
    wire.send_text(json.dumps(sent))
    assert collected(wire, 0) == []


@fuzzed
@given(responses, ids)
def test_no_response_gets_an_answer(wire: Wire, message: Any, request_id: Any) -> None:
    sent = {"jsonrpc": "2.0", "result": {}, **message, "id": request_id}
    wire.send_text(json.dumps(sent))
    assert collected(wire, 0) == []


@fuzzed
@given(st.lists(requests.map(lambda m: {"jsonrpc": "2.0", "id": 0, "method": "x", **m}) | told | values, max_size=6))
def test_a_batch_gets_one_answer_for_each_request_in_it(wire: Wire, batch: list[Any]) -> None:
    for number, entry in enumerate(batch):
        # Another batch in it is an entry that is not a message; what the entries are called is for us to say.
        if isinstance(entry, dict) and "id" in entry:
            entry["id"] = f"entry {number}"
    wire.send_text(json.dumps(batch))
    if not batch or not wire.revision.batching:  # type: ignore[attr-defined]
        if wire.role == "client":  # type: ignore[attr-defined]
            assert collected(wire, 0) == []
            return
        (answer,) = collected(wire, 1)
        assert answer["error"]["code"] == -32600
        return
    expected = [entry for entry in batch if wants_answer(wire, entry)]
    answers = collected(wire, 1 if expected else 0)
    assert len(answers) == (1 if expected else 0)
    assert all(len(answer) == len(expected) for answer in answers)


@settings(fuzzed, max_examples=examples(50))
@given(requests, st.sampled_from([10, 500, 900, 980, 990]))
def test_before_the_opening_too_every_request_gets_one_answer(message: Any, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    opening = (
        '{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25",'
        f'"capabilities":{{"experimental":{{"a":{{"b":{deep}}}}}}},"clientInfo":{{"name":"c","version":"1"}}}}}}'
    )
    with to_server(a_server()) as wire:
        wire.send_text(json.dumps({"method": "x", **message, "jsonrpc": "2.0", "id": "early"}))
        assert [answer["id"] for answer in collected(wire, 1)] == ["early"]
        wire.notify("notifications/initialized")
        wire.send_text(opening)
        assert len(ping_around(wire, 1)) == 1


# -- depth and size -------------------------------------------------------------------------------------------------

DEPTHS = [10, 100, 300, 500, 900, 950, 980, 990, 1_000, 5_000, 100_000]
SHAPES: list[Callable[[str], str]] = [
    lambda deep: deep,
    lambda deep: f'{{"jsonrpc":"2.0","id":"d","method":"ping","params":{{"a":{deep}}}}}',
    lambda deep: (
        f'{{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{{"name":"take","arguments":{{"value":{deep}}}}}}}'
    ),
    lambda deep: f'{{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{{"name":"sum","arguments":{deep}}}}}',
    lambda deep: f'{{"jsonrpc":"2.0","id":"d","method":"initialize","params":{deep}}}',
    lambda deep: (
        f'{{"jsonrpc":"2.0","id":"d","method":"sampling/createMessage","params":{{"messages":{deep},"maxTokens":1}}}}'
    ),
    lambda deep: (
        '{"jsonrpc":"2.0","id":"d","method":"elicitation/create","params":{"message":"?","requestedSchema":'
        f'{{"type":"object","properties":{deep}}}}}}}'
    ),
    lambda deep: f'{{"jsonrpc":"2.0","id":{deep},"method":"ping"}}',
    lambda deep: f'{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":{deep}}}}}',
    lambda deep: f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{deep}}}',
    lambda deep: f'{{"jsonrpc":"2.0","id":1,"result":{deep}}}',
]


@pytest.mark.parametrize("depth", slow_but([10, 950, 1_000, 100_000], DEPTHS))
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_any_depth_is_refused_or_answered(wire: Wire, depth: int, opening: str) -> None:
    deep = opening * depth + "1" + ("]" if opening == "[" else "}") * depth
    came = asked = 0
    for number, shape in enumerate(SHAPES):
        asks = wants_answer(wire, json.loads(shape("1")))
        wire.send_text(shape(deep))
        client = wire.role == "client"  # type: ignore[attr-defined]
        # A client takes what cannot be read for noise.
        answers = ping_around(wire, 1 if asks and (not client or depth <= 500) else 0)
        if client:
            came, asked = came + len(answers), asked + asks
            assert came <= asked, (number, depth)
            continue
        # What asks is answered, read or not. Anything else is answered only if it is nested too deeply to be read;
        # where that begins is a matter of the stack, and of Python's version (3.12 and later read deeper JSON).
        refused = [answer for answer in answers if answer["error"]["code"] == ParseError.code] if not asks else []
        assert len(answers) == (1 if asks else len(refused)), (number, depth)
        if not asks and not 500 < depth < 100_000:
            assert len(refused) == (depth >= 100_000), (number, depth)


def ping_around(wire: Wire, expected: int) -> list[Any]:
    """As `collected`, where an internal error is an answer as well: what is nested too deeply may end a handler."""

    def answers(found: list[Any]) -> list[Any]:
        # What an earlier request has caused, such as the acknowledgement of a subscription, may come only now.
        return [each for each in found if not (isinstance(each, dict) and "method" in each)]

    found = answers_until_the_last_word(wire)
    while len(answers(found)) < expected:
        found.append(wire.receive())
    return answers(found + answers_until_the_last_word(wire))


@pytest.mark.parametrize("size", slow_but([1_000, 1_000_000], [1_000, 1_000_000, 3_000_000]))
def test_any_size_is_answered(wire: Wire, size: int) -> None:
    big = "x" * size
    for sent in (
        {"jsonrpc": "2.0", "id": "big", "method": "tools/call", "params": {"name": big}},
        {"jsonrpc": "2.0", "id": "big", "method": big},
        {"jsonrpc": "2.0", "id": "big", "method": "ping", "params": {big: big}},
    ):
        wire.send_text(json.dumps(sent))
        (answer,) = collected(wire, 1)
        assert answer["id"] == "big"
    wire.send_text(json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": [0] * (size // 20)}}))
    assert collected(wire, 0) == []


@pytest.mark.parametrize("digits", [10, 4_000, 5_000, 100_000])
def test_numbers_of_any_length_are_refused_or_answered(wire: Wire, digits: int) -> None:
    for number in ("9" * digits, "1e" + "9" * digits, "-0." + "0" * digits + "1"):
        wire.send_text(text := f'{{"jsonrpc":"2.0","id":{number},"method":"ping"}}')
        try:
            read = wants_answer(wire, messages.decode(text.encode()))
        except ParseError:
            read = False
        # A client takes what cannot be read for noise.
        expected = int(read or wire.role == "server")  # type: ignore[attr-defined]
        assert len(collected(wire, expected)) == expected


# -- answers to what a client asked ---------------------------------------------------------------------------------


@pytest.fixture(params=NAMES)
def asking(request: pytest.FixtureRequest) -> Iterator[tuple[Client, Wire]]:
    declared: JsonObject = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
    with to_client(request.param, declared) as pair:
        yield pair


CALLS: list[Callable[[Client], Any]] = [
    lambda client: client.list_tools_page(),
    lambda client: client.call_tool("t", {}),
    lambda client: client.read_resource("file:///a"),
    lambda client: client.get_prompt("p"),
    lambda client: client.complete({"type": "ref/prompt", "name": "p"}, "a", "v"),
    lambda client: client.set_log_level("info"),
    lambda client: client.request("x/y"),
]

results = mutated(
    [
        {
            "tools": [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}],
            "nextCursor": "c",
        },
        {"content": [{"type": "text", "text": "a"}], "structuredContent": {"a": 1}, "isError": False},
        {"contents": [{"uri": "file:///a", "text": "a"}]},
        {"messages": [{"role": "user", "content": {"type": "text", "text": "a"}}]},
        {"completion": {"values": ["a"], "total": 1, "hasMore": False}},
    ]
)
DONE = object()


def attempted(wire: Wire, call: Callable[[], Any]) -> Callable[[], None]:
    """Makes the call, and tells the inbox of its end; of an accident as well."""

    def attempt() -> None:
        try:
            call()
        except McpError:
            pass
        except BaseException as problem:
            wire.inbox.put(problem)
        wire.inbox.put(DONE)

    return attempt


ABOUT = ("requestId", "progressToken", "progress")


def answered(wire: Wire, body: JsonObject, times: int = 1, first: Any = None) -> None:
    """Answer what was asked first, and whatever else is asked, with that body, until the caller has his end."""
    asked = first or wire.receive()
    while asked is not DONE:
        assert isinstance(asked, dict), repr(asked)
        if "id" in asked:
            if first is None:
                # A call is not a subscription: this ends nothing.
                for method in ("notifications/cancelled", "notifications/progress", "notifications/x"):
                    wire.notify(method, {**dict.fromkeys(ABOUT, asked["id"]), "_meta": {SUBSCRIPTION_ID: asked["id"]}})
            filled: JsonObject = {} if "error" in body else {"result": {}}
            for _ in range(times):
                wire.send_text(json.dumps({"jsonrpc": "2.0", **filled, **body, "id": asked["id"]}))
            # What is not a response at all is ignored; this one ends the wait.
            wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 1, "message": "enough"}})
        asked = wire.receive()


@settings(fuzzed, max_examples=examples(60))
@given(responses | results.map(lambda result: {"result": result}), st.sampled_from(CALLS), st.booleans())
def test_whatever_a_server_answers_the_caller_gets_a_result_or_an_mcp_error(
    asking: tuple[Client, Wire], body: Any, call: Callable[[Client], Any], twice: bool
) -> None:
    client, wire = asking
    calling = Background(attempted(wire, lambda: call(client)))
    answered(wire, body, 2 if twice else 1)
    calling.outcome()
    assert collected(wire, 0) == []


# -- there and back -------------------------------------------------------------------------------------------------

proper = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=10,
)


@settings(fuzzed, max_examples=examples(100))
@given(st.dictionaries(st.text(max_size=20), proper, max_size=3))
def test_what_is_encoded_is_one_line_and_decodes_to_itself(message: JsonObject) -> None:
    data = messages.encode(message)
    assert b"\n" not in data and b"\r" not in data
    back = messages.decode(data)
    assert back == message
    assert messages.encode(back) == data


@settings(fuzzed, max_examples=examples(100))
@given(st.binary(max_size=80) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_decoding_gives_a_value_that_can_be_encoded_or_a_parse_error(data: bytes) -> None:
    try:
        value = messages.decode(data)
    except ParseError:
        return
    assert messages.decode(messages.encode(value)) == value


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
TEMPLATES = ["x://{a}/{b}", "x://{a}/in/{b}", "x://h/{a}{?b}", "x://h/{a}.{b}", "file:///{+a}{?b}"]


@settings(fuzzed, max_examples=examples(100))
@given(st.sampled_from(TEMPLATES), words, words)
def test_the_values_put_into_a_template_are_matched_back(template: str, a: str, b: str) -> None:
    values = {"{a}": quote(a, safe=""), "{+a}": quote(a), "{b}": quote(b, safe=""), "{?b}": "?b=" + quote(b, safe="")}
    uri = template
    for expression, value in values.items():
        uri = uri.replace(expression, value)
    found = UriTemplate(template).match(uri)
    # A value may hold what the matcher takes for a border; then it finds no place, or others, but never an error.
    plain = a.isalnum() and b.isalnum()
    assert found == {"a": a, "b": b} or not plain, (uri, found)


@settings(fuzzed, max_examples=examples(100))
@given(st.text("{}+?&/#.;*:,ab%=x\ud800", max_size=16), texts)
def test_any_text_is_a_template_or_refused_and_any_uri_matches_or_not(template: str, uri: str) -> None:
    try:
        read = UriTemplate(template)
    except ValueError:
        return
    assert read.match(uri) is None or isinstance(read.match(uri), dict)
