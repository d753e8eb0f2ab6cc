"""Narrating: a trace in words, each answer with what it answers, each method with its page, in both eras."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref import Cancel, Client, Context, RequestCancelled, Server
from mcp_ref.lab.judge.narrate import Narrator, narrate, narrator_for
from mcp_ref.pages.basic.versioning import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
)
from mcp_ref.pages.client.sampling import reply
from mcp_ref.recording.record import TraceEvent
from mcp_ref.recording.redact import redact, redact_headers
from tests.lab.judge.talks import A, C, E, Line, N, Q, S, T, X, events, raw, stdio
from tests.slow import examples
from tests.support.clock import until


def told(*lines: Line, **options: Any) -> list[str]:
    """What is told of each message; each comes a second after the one before."""
    narrator = Narrator(**{"width": 200, **options})
    return [narrator.tell(event) for event in stdio(lines)]


def words_of(line: Line, **options: Any) -> str:
    return told(line, **options)[0]


INITIALIZE = C(0, "initialize", protocolVersion="2025-11-25", clientInfo={"name": "reader", "version": "1"},
               capabilities={"roots": {"listChanged": True}, "sampling": {}})  # fmt: skip
INITIALIZED = S(0, protocolVersion="2025-06-18", serverInfo={"name": "weather", "version": "2"},
                capabilities={"tools": {"listChanged": False}})  # fmt: skip
PING = C(1, "ping")
SLOW = C(7, "tools/call", name="slow", _meta={"progressToken": "p"})
GIVEN_UP = T("notifications/cancelled", requestId=7, reason="bored")
DONE = S(7, content=[])
BATCH = raw("client", [PING.message, T("notifications/progress", progressToken=1).message])
NOBODY = ["no request that was seen"]


def asked(id: Any, method: str, meta: Any = None, **params: Any) -> Line:
    """A request of the stateless era."""
    client = {CLIENT_INFO: {"name": "reader", "version": "1"}, CLIENT_CAPABILITIES: {"elicitation": {"form": {}}}}
    return C(id, method, **params, _meta={PROTOCOL_VERSION: "2026-07-28", **client, **(meta or {})})


DISCOVER, LIST, CALL = asked(1, "server/discover"), asked(1, "tools/list"), asked(1, "tools/call", name="t")
SPOKEN = {"supportedVersions": ["2026-07-28", "2025-11-25"], "capabilities": {"tools": {}}, "instructions": "Ask."}
LATER = S(1, resultType="input_required", requestState="later")
FALL_BACK = ["falls back: server/discover has led to no revision so far, and a server of the session era",
             "[2025-11-25/basic/lifecycle]"]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([PING], ["C → S", "[basic/utilities/ping]", "ask whether the other side is still there"]),
        ([C(1, "tools/explode")], ["not a method of the specification"]),
        ([T("ping")], ["by the specification it is a request"]),
        ([C(2, "roots/list")], ["only the server sends it"]),
        ([BATCH], ["batch of 2", "- request 1: ping", "- notification: notifications/progress"]),
        ([raw("server", "Hello!")], ["not a message"]),
        # The opening says what was asked, what came, and what both declare; then the page carries the revision.
        ([INITIALIZE], ["C → S  request 0: initialize", "asks for revision 2025-11-25", "roots.listChanged, sampling"]),
        ([INITIALIZE, INITIALIZED], ["C ← S  response to 0: initialize, after 1.00 s",
                                     "asked for 2025-11-25, got 2025-06-18", "declares the capabilities tools"]),
        ([INITIALIZE, INITIALIZED, PING], ["[2025-06-18/basic/utilities/ping]"]),
        # Ids of different JSON types are different, and invalid ones belong to nobody.
        ([C("1", "ping"), S(1)], NOBODY),
        ([C("1", "ping"), S("1")], ['response to "1": ping']),
        ([C(None, "ping"), S(None)], NOBODY),
        # An answer names the request of the other side.
        ([C(1, "tools/list"), Q(1, "roots/list"), A(1, roots=[])], ["response to 1: roots/list"]),
        ([C(1, "tools/list"), Q(1, "roots/list"), S(1, tools=[])], ["response to 1: tools/list, after 2.00 s"]),
        ([C(1, "tools/list"), S(1, tools=[]), S(1, tools=[])], NOBODY),
        # Progress and cancellation name the request.
        ([SLOW], ['under token "p"']),
        ([SLOW, N("notifications/progress", progressToken="p", progress=1, total=4)],
         ["request 7 (tools/call) is at 1 of 4"]),
        ([SLOW, DONE, N("notifications/progress", progressToken="p", progress=2)], ["belongs to no open request"]),
        ([N("notifications/progress", progress=1)], ["no open request"]),
        ([SLOW, GIVEN_UP], ['gives up request 7 (tools/call), because "bored"']),
        ([SLOW, GIVEN_UP, DONE], ["was cancelled: to be ignored"]),
        ([GIVEN_UP], ["which is not an open request"]),
        # An error code may mean something as the answer to one method alone.
        ([Q(1, "sampling/createMessage", messages=[], maxTokens=9), X(1, -1)], ["-1, the user rejected the request"]),
        ([C(1, "tools/call", name="pay"), E(1, -1)], ["-1, a code of the peer's own"]),
        # Notable members of results.
        ([SLOW, S(7, content=[{"type": "text", "text": "no"}], isError=True)],
         ["isError: the tool failed", "content: text"]),
        ([C(2, "tools/list"), S(2, tools=[{"name": "a"}, {"name": "b"}], nextCursor="c1")],
         ["tools (2): a, b", 'nextCursor "c1"']),
        ([C(3, "tools/list", cursor="c1")], ['cursor "c1"']),
        # Pages that moved are named as the revision has them, and what it no longer has is said.
        ([CALL, T("notifications/cancelled", requestId=1)], ["[2026-07-28/basic/patterns/cancellation]"]),
        ([CALL, N("notifications/progress", progressToken=1, progress=1)], ["[2026-07-28/basic/patterns/progress]"]),
        ([asked(1, "ping")], ["does not exist in revision 2026-07-28"]),
        # A method of an extension is not taken for that of the protocol with its name.
        ([asked(1, "tasks/get", taskId="t")],
         ["ask for the state of a task, its questions and its result", "[2026-07-28/extensions/tasks]"]),
        # Nothing is agreed on.
        ([DISCOVER, S(1, **SPOKEN)],
         ["speaks 2026-07-28, 2025-11-25; nothing is agreed on, for each request names its own",
          "declares the capabilities tools", 'instructions for the model: "Ask."']),
        # A fall back to a session says why, and stands on its own page; what answers late on that of its request.
        ([DISCOVER, INITIALIZE], FALL_BACK),
        ([DISCOVER, E(1, -32601), INITIALIZE], FALL_BACK),
        ([DISCOVER, INITIALIZE, S(1, **SPOKEN)], ["[2026-07-28/server/discover]"]),
        # A result may ask for nothing but another try.
        ([CALL, LATER], ["not finished: the client is to try again"]),
        ([CALL, LATER, asked(2, "tools/call", name="t", requestState="later")],
         ["round 2 of the call that request 1 began"]),
        # Hints on caching say how long and for whom.
        *(([LIST, S(1, tools=[], **hints)], [words]) for hints, words in (
            ({"ttlMs": 60_000, "cacheScope": "public"}, "may be kept for 60 s (ttlMs); anybody may be given it"),
            ({"ttlMs": 500, "cacheScope": "private"}, "may be kept for 0.5 s (ttlMs), for this user alone"),
            ({"ttlMs": 0, "cacheScope": "private"}, "ttlMs 0: to be asked for again each time"),
            ({"ttlMs": "soon"}, 'ttlMs "soon": to be asked for again'),
        )),
        # Errors say what is missing.
        *(([LIST, E(1, code, data)], [words]) for code, data, words in (
            (-32022, {"supported": ["2025-11-25"], "requested": "x"}, 'asked for "x"; the server speaks 2025'),
            (-32021, {"requiredCapabilities": {"sampling": {"tools": {}}}}, "needed: sampling.tools"),
            (-32020, None, "header mismatch"),
            (-32022, {"supported": 7}, "the protocol version is not supported"),
        )),
    ],
)  # fmt: skip
def test_the_last_message_is_told(lines: list[Line], words: list[str]) -> None:
    *_, last = told(*lines)
    assert [each for each in words if each not in last] == []
    assert "does not exist" not in last or "does not exist in revision 2026-07-28" in words


@pytest.mark.parametrize("begins", [[INITIALIZE, INITIALIZED], [LIST, S(1, tools=[])]])
def test_the_viewpoint_is_learned_from_who_begins(begins: list[Line]) -> None:
    narrator, other = Narrator(), {"send": "receive", "receive": "send"}
    first, second = (
        narrator.tell(event._replace(direction=other[event.direction], peer="somebody")) for event in stdio(begins)
    )
    assert "C → S" in first and "C ← S" in second
    assert "C ← S" in Narrator().tell(stdio([PING])[0]._replace(peer="client"))


@pytest.mark.parametrize(
    ("code", "meaning"),
    [(-32700, "not JSON"), (-32600, "invalid request"), (-32601, "method not found"), (-32602, "invalid params")]
    + [(-32603, "internal error"), (-32002, "resource not found"), (-32042, "URL elicitation"), (-1, "peer's own")]
    + [(-32020, "headers"), (-32021, "capability"), (-32022, "version"), (-32050, "reserves"), (7, "of the peer's own")]
    + [("x", "integer code")],
)
def test_an_error_says_what_its_code_means(code: Any, meaning: str) -> None:
    *_, last = told(INITIALIZE, INITIALIZED, PING, E(1, code))
    assert "error for 1: ping" in last and meaning in last and '"no"' in last


def test_connections_after_the_first_are_numbered_and_keep_their_ids_apart() -> None:
    narrator = Narrator(width=140)
    said = stdio([PING, C(1, "tools/list"), S(1, tools=[]), S(1)])
    first, second, third, last = (
        narrator.tell(event._replace(conn=conn)) for event, conn in zip(said, (7, 9, 9, 7), strict=True)
    )
    assert "connection" not in first + last and "response to 1: ping" in last
    assert "connection 2, request 1: tools/list" in second
    assert "connection 2, response to 1: tools/list" in third


# -- how it is written --------------------------------------------------------------------------------------------


def test_long_messages_are_cut_unless_they_are_wanted_in_full() -> None:
    line = C(1, "ping", _meta={"long": "x" * 500})
    assert all(len(each) <= 80 for each in words_of(line, width=80).splitlines())
    assert "x" * 500 in words_of(line, width=80, full=True)


def test_sentences_are_wrapped_and_not_cut_and_a_page_that_has_no_room_stands_below() -> None:
    capabilities = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")}
    result = S(0, protocolVersion="2025-06-18", capabilities=capabilities, serverInfo={"name": "s", "version": "1"})
    assert all(len(line) <= 60 for line in words_of(result, width=60).splitlines())
    words = told(INITIALIZE, result, width=60)[1].split()
    assert {"tools.listChanged,", "prompts.listChanged,", "resources.listChanged"} <= set(words)
    heading, page, *_ = told(DISCOVER, E(1, -32601), width=60)[1].splitlines()
    assert "error for 1: server/discover, after" in heading and "…" not in heading
    assert page == "[2026-07-28/server/discover]".rjust(60)


def test_nothing_that_a_peer_sends_reaches_the_terminal_as_a_control_character() -> None:
    nasty = "\x1b[2J\x07\u202e\x9b31m\ud800\r\n"
    printed = stdio([raw("server", nasty)])[0]._replace(direction="stderr")
    for said in (words_of(Q(nasty, nasty, name=nasty)), Narrator().tell(printed)):
        assert said.replace("\n", "").isprintable()
    assert "S err  Traceback" in Narrator().tell(printed._replace(message="Traceback"))


def test_a_narrator_suits_its_stream_and_writes_ascii_and_colors_where_they_are_wanted() -> None:
    line = C(1, "ping", _meta={"a": "\u20ac" * 100})
    assert words_of(line, ascii=True).isascii() and "C>" in words_of(line, ascii=True)
    assert words_of(line, color=True).startswith("\x1b[1m")
    assert "\x1b[31m" in words_of(E(1, -32603), color=True)
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert narrator_for(narrow).tell(stdio([line])[0]).isascii()
    assert "C → S" in narrator_for(io.StringIO()).tell(stdio([line])[0])


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
def test_any_json_at_all_can_be_told(method: Any, id: Any, body: Any) -> None:
    said = [
        raw("client", {"id": id, "method": method, "params": body}),
        raw("client", {"method": method, "params": body}),
        raw("server", {"id": id, "result": body}),
        raw("server", {"id": id, "error": body}),
        raw("server", body if isinstance(body, (dict, list)) else str(body)),
    ]
    assert all(each.replace("\n", "").isprintable() for each in told(*said))


# -- what each message of the stateless era repeats ---------------------------------------------------------------


def test_a_request_says_who_asks_in_full_once_and_then_that_it_is_the_same() -> None:
    first, second, third = told(DISCOVER, asked(2, "tools/list"), asked(3, "tools/list", meta={LOG_LEVEL: "info"}))
    assert "[2026-07-28/server/discover]" in first
    assert '_meta: this request is written in revision "2026-07-28"' in first
    assert '_meta: the client is "reader" "1" and declares the capabilities elicitation.form' in first
    assert "_meta as in request 1" in second
    assert "reader" not in second.split("{")[0]
    assert '_meta: wants the log messages of this request, from level "info" on' in third


def test_a_result_says_who_answers_and_that_it_is_the_end_once() -> None:
    whole = {"resultType": "complete", "tools": [], "_meta": {SERVER_INFO: {"name": "trips", "version": "2"}}}
    _, first, _, second, _, third = told(
        LIST, S(1, **whole), asked(2, "tools/list"), S(2, **whole), asked(3, "tools/list"), S(3, resultType="odd")
    )
    assert '_meta: the server is "trips" "2"' in first
    assert 'resultType "complete": this is the end of the request' in first
    assert "_meta:" not in second and "resultType " not in second.split("{")[0]
    assert "is not one of the protocol's own" in third


# -- rounds

SEAT = {"method": "elicitation/create", "params": {"message": "Seat?", "requestedSchema": {"properties": {"seat": {}}}}}


def asks(id: int, questions: Any, **state: Any) -> Line:
    return S(id, resultType="input_required", inputRequests=questions, **state)


def test_a_call_that_needs_input_is_told_as_rounds_that_belong_together() -> None:
    answers = {"q": {"action": "accept", "content": {"seat": "aisle"}}}
    _, first, second, _, third, _ = told(
        asked(4, "tools/call", name="book"),
        asks(4, {"q": SEAT, "r": {"method": "roots/list"}}, requestState="s1"),
        asked(5, "tools/call", name="book", inputResponses=answers, requestState="s1"),
        asks(5, {"m": SEAT}, requestState="s2"),
        asked(6, "tools/call", name="book", inputResponses={"m": {"action": "decline"}}, requestState="s2"),
        S(6, resultType="complete", content=[]),
    )
    for said, words in (
        (first, "not finished: the server has to know something first"),
        (first, '"q": elicitation/create: asks the user: "Seat?"; a form with: seat'),
        (first, '"r": roots/list'),
        (first, "sends the request again, with another id, with the answers, with requestState as it came"),
        (first, "(signed, not encrypted: the server trusts it, anybody can read it)"),
        (second, "round 2 of the call that request 4 began"),
        (second, 'answers "q": the user\'s action: "accept", with seat'),
        (second, 'leaves open "r", which will be asked again'),
        (second, "requestState goes back as it came with the result for 4"),
        (third, "round 3 of the call that request 4 began"),
        (third, 'the user\'s action: "decline"'),
    ):
        assert words in said


def test_rounds_without_a_state_are_found_by_what_they_ask() -> None:
    cancel = {"q": {"action": "cancel"}}
    _, asking, own, other = told(
        asked(1, "prompts/get", name="p"),
        asks(1, {"q": SEAT}),
        asked(2, "prompts/get", name="p", inputResponses=cancel),
        asked(3, "tools/call", name="other", inputResponses=cancel),
    )
    assert "with another id, with the answers" in asking and "requestState" not in asking.split("{")[0]
    assert "round 2 of the call that request 1 began" in own
    assert "its earlier rounds were not seen here" in other


# -- subscriptions


def tagged(method: str, id: Any = 7, **params: Any) -> Line:
    return N(method, **params, _meta={SUBSCRIPTION_ID: id})


def listening(*more: Line) -> list[str]:
    granted = {"toolsListChanged": True, "resourceSubscriptions": ["trip://x"]}
    return told(
        asked(7, "subscriptions/listen", notifications={**granted, "promptsListChanged": True}),
        tagged("notifications/subscriptions/acknowledged", notifications=granted),
        tagged("notifications/resources/updated", uri="trip://x"),
        *more,
    )


def test_a_subscription_says_what_it_wants_what_it_gets_and_what_travels_on_it() -> None:
    wants, gets, own, other = listening(tagged("notifications/tools/list_changed", 8))
    assert 'to be told: changes of the list of tools, changes of the list of prompts, changes of "trip://x"' in wants
    assert 'will be told: changes of the list of tools, changes of "trip://x"' in gets
    assert "the subscription is open, and named after its request: 7" in gets
    assert "asked for, but will not be told: changes of the list of prompts" in gets
    assert "tagged with the subscription that request 7 (subscriptions/listen) opened" in own
    assert "tagged with the subscription 8, which is not open" in other


def test_the_end_of_a_subscription_is_told_whoever_ends_it() -> None:
    by_client = listening(GIVEN_UP, tagged("notifications/tools/list_changed"))
    assert 'gives up request 7 (subscriptions/listen), because "bored"' in by_client[3]
    assert "which was given up: to be ignored" in by_client[4]
    # The server says so twice, in either order.
    end = [tagged("notifications/cancelled", requestId=7, reason="it closes"),
           S(7, resultType="complete", _meta={SUBSCRIPTION_ID: 7})]  # fmt: skip
    by_server = listening(*end)
    assert 'ends the subscription that request 7 (subscriptions/listen) opened, because "it closes"' in by_server[3]
    assert "the server has ended the subscription" in by_server[4]
    assert 'ends the subscription 7, whose result has said so, because "it closes"' in listening(*reversed(end))[4]


# -- HTTP, and what is hidden -------------------------------------------------------------------------------------


def on_http(line: Line | None, **http: Any) -> str:
    row = {"sender": line.sender if line else "client", "message": line.message if line else None, "http": http}
    return Narrator(width=200).tell(events([row])[0])


def test_headers_that_repeat_the_body_are_named_and_arguments_are_not_shown() -> None:
    headers = redact_headers(
        {"Mcp-Method": "tools/call", "Mcp-Name": "book", "Mcp-Param-Api": "hunter2", "X-Other": "hunter2"}
    )
    assert headers == {"mcp-method": "tools/call", "mcp-name": "book", "mcp-param-api": "[redacted]"}
    assert 'HTTP: POST; its headers repeat Mcp-Method "tools/call", Mcp-Name "book", Mcp-Param-Api' in on_http(
        CALL, method="POST", headers=headers
    )  # fmt: skip


def test_a_name_in_a_header_hides_what_a_name_in_the_body_hides() -> None:
    headers = redact_headers({"Mcp-Name": "https://me:hunter2@host/?token=hunter2"})
    assert "hunter2" not in str(headers)
    assert redact_headers({"Mcp-Name": "=?base64?aHVudGVyMg==?="}) == {"mcp-name": "[encoded]"}


@pytest.mark.parametrize(("status", "words"), [(400, "400 says: the request is wrong"), (404, "404 says: no such")])
def test_a_status_beside_an_error_is_explained(status: int, words: str) -> None:
    assert words in on_http(E(1, -32601), status=status, method="POST")


def test_a_message_has_one_line_of_http() -> None:
    headers = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": "[redacted 0a1b]"}
    said = on_http(PING, method="POST", headers=headers)
    assert "HTTP: POST, revision 2025-11-25, session [redacted 0a1b]" in said


@pytest.mark.parametrize(
    ("http", "words"),
    [
        ({"method": "GET"}, "asks for an event stream"),
        ({"method": "GET", "headers": {"last-event-id": "a-1"}}, 'after event "a-1"'),
        ({"method": "DELETE"}, "ends the session"),
        ({"status": 202}, "accepted"),
        ({"status": 404, "method": "POST"}, "HTTP status 404 Not Found for POST"),
        ({"status": 299}, "HTTP status 299"),
        ({"event": "endpoint"}, "posted to"),
        ({"eventId": "s1-1"}, "the place in the stream"),
        ({}, "HTTP"),
    ],
)
def test_what_carries_no_message_is_told_in_words(http: dict[str, Any], words: str) -> None:
    assert words in on_http(None, **http)


def test_a_state_is_shown_by_its_beginning_and_the_same_one_looks_the_same() -> None:
    long = "a" * 200
    shown = redact({"requestState": long, "other": long})
    assert shown["other"] == long
    assert shown["requestState"].startswith("aaaaaaaaaaaa... [200 characters, ")
    assert redact({"requestState": long}) == {"requestState": shown["requestState"]}
    for state in ("step 2", 7):
        assert redact({"requestState": state}) == {"requestState": state}


# -- whole conversations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over_http", [False, True])
def test_a_conversation_is_told_without_a_state_or_an_argument_in_a_header(over_http: bool) -> None:
    server, seen = Server("trips"), list[TraceEvent]()

    @server.tool()
    def book(city: str, ctx: Context) -> str:
        """Book a trip."""
        seat = ctx.elicit("Seat?", {"seat": {"type": "string"}})
        return f"{city}, {seat['content']['seat']}, {ctx.sample('A line?', max_tokens=9)['content']}"

    def talk(target: Any) -> None:
        answers: Any = {"elicit": lambda *_: {"seat": "aisle"}, "sample": lambda _: reply("Walk.", model="m")}
        with Client(target, trace=seen.append, **answers) as client:
            client.call_tool("book", {"city": "Oslo"})

    if over_http:
        with server.serve_http() as http:
            talk(http.url)
    else:
        talk(server)
    text = "\n".join(narrate(seen, Narrator(width=200)))
    assert "round 2 of the call that request 2 began" in text and "round 3 of the call that request 2 began" in text
    params = [event.message.get("params") or {} for event in seen if isinstance(event.message, dict)]
    states = {each["requestState"] for each in params if "requestState" in each}
    assert len(states) == 2 and all(" characters, " in state for state in states)
    assert ('Mcp-Name "book"' in text) is over_http


def test_a_connection_that_is_closed_says_which_request_it_gives_up() -> None:
    server, seen = Server("s"), list[TraceEvent]()

    @server.tool()
    def slow(ctx: Context) -> str:
        ctx.progress(1)
        return str(until(lambda: ctx.cancelled))

    give_up = Cancel()
    with server.serve_http() as http, Client(http.url, revision="2026-07-28", trace=seen.append) as client:
        with pytest.raises(RequestCancelled):
            client.call_tool("slow", {}, cancel=give_up, on_progress=lambda *_: give_up("enough"))
    (closing,) = [each for each in seen if each.http and "hangUp" in each.http]
    (asking,) = [each for each in seen if isinstance(each.message, dict) and each.message.get("method") == "tools/call"]
    assert asking.http is not None
    given_up = {"hangUp": 2, "exchange": asking.http["exchange"]}
    assert (closing.direction, closing.message, closing.http) == ("send", None, given_up)
    assert "gives up request 2" in Narrator(width=200).tell(closing)
