"""Narrating: a trace in words, each answer with what it answers, each method with its page."""

from __future__ import annotations

import io
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.lab.judge.narrate import Narrator, narrate, narrator_for
from mcp_ref.recording.record import TraceEvent
from tests.slow import examples


def event(
    direction: Literal["send", "receive", "stderr"], message: Any, at: float = 0.0, peer: str = "server"
) -> TraceEvent:
    return TraceEvent(1, at, "MainThread", direction, peer, message, "stdio")


def request(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def response(request_id: Any, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error(request_id: Any, code: Any, message: str = "no") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


INITIALIZE = request(
    0,
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={"roots": {"listChanged": True}, "sampling": {}},
    clientInfo={"name": "reader", "version": "1"},
)
INITIALIZED = response(
    0,
    protocolVersion="2025-06-18",
    capabilities={"tools": {"listChanged": False}},
    serverInfo={"name": "weather", "version": "2"},
)


def opened(**options: Any) -> Narrator:
    narrator = Narrator(width=140, **options)
    narrator.tell(event("send", INITIALIZE))
    narrator.tell(event("receive", INITIALIZED, 0.002))
    return narrator


PING = request(1, "ping")
SLOW = ("send", request(7, "tools/call", name="slow", _meta={"progressToken": "p"}))
GIVEN_UP = ("send", notification("notifications/cancelled", requestId=7, reason="bored"))
LISTED = response(2, tools=[{"name": "a"}, {"name": "b"}], nextCursor="c1")
NOBODY = ["no request that was seen"]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        # The opening says what was asked, what came, and what both declare; then the page carries the revision.
        ([("send", INITIALIZE)],
         ["C → S  request 0: initialize", "asks for revision 2025-11-25", "roots.listChanged, sampling"]),
        ([("send", INITIALIZE), ("receive", INITIALIZED)],
         ["C ← S  response to 0: initialize, after 0.0 ms", "asked for 2025-11-25, got 2025-06-18",
          "declares the capabilities tools"]),
        ([("send", PING)], ["[basic/utilities/ping]", "ask whether the other side is still there"]),
        ([("send", INITIALIZE), ("receive", INITIALIZED), ("send", PING)], ["[2025-06-18/basic/utilities/ping]"]),
        # Ids of different JSON types are different, and invalid ones belong to nobody.
        ([("send", request("1", "ping")), ("receive", response(1))], NOBODY),
        ([("send", request("1", "ping")), ("receive", response("1"))], ['response to "1": ping']),
        ([("send", request(None, "ping")), ("receive", response(None))], NOBODY),
        # Progress and cancellation name the request.
        ([SLOW], ['under token "p"']),
        ([SLOW, ("receive", notification("notifications/progress", progressToken="p", progress=1, total=4))],
         ["request 7 (tools/call) is at 1 of 4"]),
        ([SLOW, ("receive", response(7, content=[])),
          ("receive", notification("notifications/progress", progressToken="p", progress=2))],
         ["which belongs to no open request"]),
        ([("receive", notification("notifications/progress", progress=1))], ["no open request"]),
        ([SLOW, GIVEN_UP], ['gives up request 7 (tools/call), because "bored"']),
        ([SLOW, GIVEN_UP, ("receive", response(7, content=[]))], ["was cancelled: to be ignored"]),
        ([GIVEN_UP], ["which is not an open request"]),
        # An error code may mean something as the answer to one method alone.
        ([("receive", request(1, "sampling/createMessage", messages=[], maxTokens=9)), ("send", error(1, -1))],
         ["-1, the user rejected the request"]),
        ([("send", request(1, "tools/call", name="pay")), ("receive", error(1, -1))], ["-1, a code of the peer's own"]),
        # Notable members of results.
        ([SLOW, ("receive", response(7, content=[{"type": "text", "text": "no"}], isError=True))],
         ["isError: the tool failed", "content: text"]),
        ([("send", request(2, "tools/list")), ("receive", LISTED)], ["tools (2): a, b", 'nextCursor "c1"']),
        ([("send", request(3, "tools/list", cursor="c1"))], ['cursor "c1"']),
    ],
)  # fmt: skip
def test_the_last_message_is_told(messages: list[tuple[Any, Any]], words: list[str]) -> None:
    narrator = Narrator(width=140)
    *_, told = [narrator.tell(event(direction, message)) for direction, message in messages]
    assert all(each in told for each in words)


def test_the_viewpoint_is_learned_from_who_initializes() -> None:
    narrator = Narrator()
    assert "C → S" in narrator.tell(event("receive", INITIALIZE, peer="somebody"))
    assert "C ← S" in narrator.tell(event("send", INITIALIZED, peer="somebody"))


def test_an_answer_names_the_request_of_the_other_side_only() -> None:
    narrator = opened()
    narrator.tell(event("send", request(1, "tools/list")))
    narrator.tell(event("receive", request(1, "roots/list")))
    assert "response to 1: roots/list" in narrator.tell(event("send", response(1, roots=[]), 1.5))
    assert "response to 1: tools/list, after 2.00 s" in narrator.tell(event("receive", response(1, tools=[]), 2.0))
    assert "no request that was seen" in narrator.tell(event("receive", response(1, tools=[])))


@pytest.mark.parametrize(
    ("code", "meaning"),
    [(-32700, "not JSON"), (-32600, "invalid request"), (-32601, "method not found"), (-32602, "invalid params")]
    + [(-32603, "internal error"), (-32002, "resource not found"), (-32042, "URL elicitation"), (-1, "peer's own")]
    + [(-32020, "headers"), (-32021, "capability"), (-32022, "version"), (-32050, "reserves"), (7, "of the peer's own")]
    + [("x", "integer code")],
)
def test_an_error_says_what_its_code_means(code: Any, meaning: str) -> None:
    narrator = opened()
    narrator.tell(event("send", request(1, "ping")))
    told = narrator.tell(event("receive", error(1, code, "their words")))
    assert "error for 1: ping" in told
    assert meaning in told
    assert '"their words"' in told


def test_connections_after_the_first_are_numbered_and_keep_their_ids_apart() -> None:
    narrator = Narrator(width=140)
    told = [
        narrator.tell(event(direction, message)._replace(conn=conn))
        for conn, direction, message in [
            (7, "send", request(1, "ping")),
            (9, "send", request(1, "tools/list")),
            (9, "receive", response(1, tools=[])),
            (7, "receive", response(1)),
        ]
    ]
    assert "connection" not in told[0] + told[3]
    assert "connection 2, request 1: tools/list" in told[1]
    assert "connection 2, response to 1: tools/list" in told[2]
    assert "response to 1: ping" in told[3]


BATCH = [PING, notification("notifications/progress", progressToken=1)]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (event("send", PING), ["C → S"]),
        (event("send", PING, peer="client"), ["C ← S"]),
        (event("send", request(1, "tools/explode")), ["not a method of the specification"]),
        (event("send", notification("ping")), ["by the specification it is a request"]),
        (event("send", request(2, "roots/list")), ["only the server sends it"]),
        (event("send", BATCH), ["batch of 2", "- request 1: ping", "- notification: notifications/progress"]),
        (event("receive", "Hello!"), ["not a message"]),
        (event("stderr", "Traceback"), ["S err  Traceback"]),
    ],
)
def test_one_event_is_told(told: TraceEvent, words: list[str]) -> None:
    text = Narrator().tell(told)
    assert all(each in text for each in words)


def test_long_messages_are_cut_unless_they_are_wanted_in_full() -> None:
    message = request(1, "ping", _meta={"long": "x" * 500})
    assert all(len(line) <= 80 for line in Narrator(width=80).tell(event("send", message)).splitlines())
    assert "x" * 500 in Narrator(width=80, full=True).tell(event("send", message))


def test_sentences_are_wrapped_and_not_cut() -> None:
    capabilities = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")}
    result = response(
        0, protocolVersion="2025-06-18", capabilities=capabilities, serverInfo={"name": "s", "version": "1"}
    )
    told = Narrator(width=60).tell(event("receive", result))
    assert all(len(line) <= 60 for line in told.splitlines())
    narrator = Narrator(width=60)
    narrator.tell(event("send", INITIALIZE))
    words = narrator.tell(event("receive", result)).split()
    assert {"tools.listChanged,", "prompts.listChanged,", "resources.listChanged"} <= set(words)


def test_nothing_that_a_peer_sends_reaches_the_terminal_as_a_control_character() -> None:
    nasty = "\x1b[2J\x07\u202e\x9b31m\ud800\r\n"
    message = request(nasty, nasty, name=nasty)
    for told in (Narrator().tell(event("receive", message)), Narrator().tell(event("stderr", nasty))):
        assert told.replace("\n", "").isprintable()


def test_ascii_and_color() -> None:
    told = Narrator(ascii=True).tell(event("send", request(1, "ping", _meta={"a": "\u00e9" * 100})))
    assert told.isascii()
    assert "C>" in told
    assert Narrator(color=True).tell(event("send", request(1, "ping"))).startswith("\x1b[1m")
    assert "\x1b[31m" in Narrator(color=True).tell(event("receive", error(1, -32603)))


def test_a_narrator_suits_its_stream() -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert narrator_for(narrow).tell(event("send", request(1, "ping", _meta={"a": "\u20ac"}))).isascii()
    assert "C → S" in narrator_for(io.StringIO()).tell(event("send", request(1, "ping")))


def test_narrate_tells_every_event() -> None:
    assert len(list(narrate([event("send", INITIALIZE), event("receive", INITIALIZED)]))) == 2


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
members = st.sampled_from([
    "protocolVersion", "capabilities", "clientInfo", "serverInfo", "tools", "content", "contents", "messages",
    "nextCursor", "isError", "completion", "ref", "argument", "arguments", "_meta", "progressToken", "requestId",
    "requestedSchema", "url", "resultType", "inputRequests", "inputResponses", "requestState", "supportedVersions",
    "notifications", "ttlMs", "cacheScope", "code", "data", "roots", "prompts", "resources", "name", "uri", "level",
    "total", "message",
])  # fmt: skip
methods = st.sampled_from(
    ["initialize", "tools/list", "tools/call", "prompts/list", "completion/complete", "notifications/progress"]
    + ["notifications/cancelled", "sampling/createMessage", "elicitation/create", "notifications/message", "roots/list"]
    + ["server/discover", "subscriptions/listen", "notifications/subscriptions/acknowledged"]
)


@settings(max_examples=examples(150), deadline=None)
@given(methods | json_values, json_values, json_values | st.dictionaries(members, json_values))
def test_any_json_at_all_can_be_told(method: Any, request_id: Any, body: Any) -> None:
    narrator = Narrator()
    for direction, message in (
        ("send", {"id": request_id, "method": method, "params": body}),
        ("send", {"method": method, "params": body}),
        ("receive", {"id": request_id, "result": body}),
        ("receive", {"id": request_id, "error": body}),
        ("receive", body if isinstance(body, (dict, list)) else str(body)),
    ):
        told = narrator.tell(event(direction, message))  # type: ignore[arg-type]
        assert told.replace("\n", "").isprintable()
