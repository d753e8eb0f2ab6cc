"""Narrating: a trace in words, each answer with what it answers, each method with its page."""

from __future__ import annotations

import io
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.trace.narrate import Narrator, narrate, narrator_for
from mcp_ref.trace.record import TraceEvent
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


def test_the_opening_says_what_was_asked_what_came_and_what_both_declare() -> None:
    narrator = Narrator(width=140)
    asked = narrator.tell(event("send", INITIALIZE))
    got = narrator.tell(event("receive", INITIALIZED, 0.002))
    assert "C → S  request 0: initialize" in asked
    assert "asks for revision 2025-11-25" in asked
    assert "roots.listChanged, sampling" in asked
    assert "C ← S  response to 0: initialize, after 2.0 ms" in got
    assert "asked for 2025-11-25, got 2025-06-18" in got
    assert "declares the capabilities tools" in got


def test_the_page_carries_the_revision_once_it_is_agreed() -> None:
    told = opened().tell(event("send", request(1, "ping")))
    assert "[2025-06-18/basic/utilities/ping]" in told.splitlines()[0]
    assert "ask whether the other side is still there" in told
    assert "[basic/utilities/ping]" in Narrator().tell(event("send", request(1, "ping")))


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


def test_ids_of_different_json_types_are_different() -> None:
    narrator = opened()
    narrator.tell(event("send", request("1", "ping")))
    assert "no request that was seen" in narrator.tell(event("receive", response(1)))
    assert 'response to "1": ping' in narrator.tell(event("receive", response("1")))


def test_progress_names_the_request_that_asked_for_it() -> None:
    narrator = opened()
    asked = narrator.tell(event("send", request(7, "tools/call", name="slow", _meta={"progressToken": "p"})))
    assert 'under token "p"' in asked
    moved = narrator.tell(
        event("receive", notification("notifications/progress", progressToken="p", progress=1, total=4))
    )
    assert "request 7 (tools/call) is at 1 of 4" in moved
    narrator.tell(event("receive", response(7, content=[])))
    late = narrator.tell(event("receive", notification("notifications/progress", progressToken="p", progress=2)))
    assert "which belongs to no open request" in late


def test_cancelling_names_the_request_and_a_late_answer_says_so() -> None:
    narrator = opened()
    narrator.tell(event("send", request(7, "tools/call", name="slow")))
    gone = narrator.tell(event("send", notification("notifications/cancelled", requestId=7, reason="bored")))
    assert 'gives up request 7 (tools/call), because "bored"' in gone
    assert "was cancelled: to be ignored" in narrator.tell(event("receive", response(7, content=[])))
    again = narrator.tell(event("send", notification("notifications/cancelled", requestId=8)))
    assert "which is not an open request" in again


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


def test_minus_one_means_a_rejection_as_the_answer_to_sampling_alone() -> None:
    narrator = opened()
    narrator.tell(event("receive", request(1, "sampling/createMessage", messages=[], maxTokens=9)))
    assert "-1, the user rejected the request" in narrator.tell(event("send", error(1, -1)))
    narrator.tell(event("send", request(1, "tools/call", name="pay")))
    assert "-1, a code of the peer's own" in narrator.tell(event("receive", error(1, -1)))


def test_ids_that_are_none_belong_to_nobody() -> None:
    narrator = opened()
    narrator.tell(event("send", request(None, "ping")))
    assert "no request that was seen" in narrator.tell(event("receive", response(None)))
    late = narrator.tell(event("receive", notification("notifications/progress", progress=1)))
    assert "no open request" in late


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


def test_notable_members_of_results_are_pointed_out() -> None:
    narrator = opened()
    narrator.tell(event("send", request(1, "tools/call", name="t", arguments={"a": 1})))
    failed = narrator.tell(event("receive", response(1, content=[{"type": "text", "text": "no"}], isError=True)))
    assert "isError: the tool failed" in failed
    assert "content: text" in failed
    narrator.tell(event("send", request(2, "tools/list")))
    listed = narrator.tell(event("receive", response(2, tools=[{"name": "a"}, {"name": "b"}], nextCursor="c1")))
    assert "tools (2): a, b" in listed
    assert 'nextCursor "c1"' in listed
    assert 'cursor "c1"' in narrator.tell(event("send", request(3, "tools/list", cursor="c1")))


PING = request(1, "ping")
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
