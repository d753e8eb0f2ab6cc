"""Narrating the stateless era: what each message repeats, rounds of one call, subscriptions, hints, new errors."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from mcp_ref import Cancel, Client, Context, RequestCancelled, Server
from mcp_ref.lab.judge.narrate import Narrator, narrate
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
from tests.lab.judge.test_narrate import error, event, notification, request, response
from tests.support.wire import PATIENCE

ENVELOPE = {
    PROTOCOL_VERSION: "2026-07-28",
    CLIENT_INFO: {"name": "reader", "version": "1"},
    CLIENT_CAPABILITIES: {"elicitation": {"form": {}}},
}
SEAT = {"method": "elicitation/create", "params": {"message": "Seat?", "requestedSchema": {"properties": {"seat": {}}}}}


def asked(request_id: Any, method: str, meta: Any = None, **params: Any) -> dict[str, Any]:
    return request(request_id, method, **params, _meta={**ENVELOPE, **(meta or {})})


def wide(*messages: tuple[str, Any]) -> list[str]:
    narrator = Narrator(width=200)
    return [narrator.tell(event(direction, message)) for direction, message in messages]  # type: ignore[arg-type]


# -- what each message says


@pytest.mark.parametrize("refused", [False, True])
def test_a_fall_back_to_a_session_says_why_and_on_which_page_it_stands(refused: bool) -> None:
    refusal = [("receive", error(1, -32601))] * refused
    opening = request(2, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
    _, *told = wide(("send", asked(1, "server/discover")), *refusal, ("send", opening))
    assert "falls back: server/discover has led to no revision so far, and a server of the session era" in told[-1]
    assert "[2025-11-25/basic/lifecycle]" in told[-1] and "does not exist" not in told[-1]


def test_an_answer_after_a_fall_back_stands_on_the_page_of_its_request() -> None:
    opening = request(2, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
    answer = response(1, resultType="complete", supportedVersions=["2026-07-28"], capabilities={})
    assert "[2026-07-28/server/discover]" in wide(
        ("send", asked(1, "server/discover")), ("send", opening), ("receive", answer)
    )[-1]  # fmt: skip


def test_a_page_that_has_no_room_beside_a_heading_stands_below_it() -> None:
    narrator = Narrator(width=60)
    for direction, message in (("send", asked(1, "server/discover")), ("receive", error(1, -32601))):
        told = narrator.tell(event(direction, message)).splitlines()  # type: ignore[arg-type]
    assert "error for 1: server/discover, after" in told[0] and "…" not in told[0]
    assert told[1] == "[2026-07-28/server/discover]".rjust(60)


def test_a_request_says_who_asks_in_full_once_and_then_that_it_is_the_same() -> None:
    first, second, third = wide(
        ("send", asked(1, "server/discover")),
        ("send", asked(2, "tools/list")),
        ("send", asked(3, "tools/list", meta={LOG_LEVEL: "info"})),
    )
    assert "[2026-07-28/server/discover]" in first
    assert '_meta: this request is written in revision "2026-07-28"' in first
    assert '_meta: the client is "reader" "1" and declares the capabilities elicitation.form' in first
    assert "_meta as in request 1" in second
    assert "reader" not in second.split("{")[0]
    assert '_meta: wants the log messages of this request, from level "info" on' in third


CALL = ("send", asked(1, "tools/call", name="t"))
SPOKEN = {"supportedVersions": ["2026-07-28", "2025-11-25"], "capabilities": {"tools": {}}, "instructions": "Ask."}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        # Pages that moved are named as the revision has them, and what it no longer has is said.
        ([CALL, ("send", notification("notifications/cancelled", requestId=1))],
         ["[2026-07-28/basic/patterns/cancellation]"]),
        ([CALL, ("receive", notification("notifications/progress", progressToken=1, progress=1))],
         ["[2026-07-28/basic/patterns/progress]"]),
        ([("send", asked(1, "ping"))], ["does not exist in revision 2026-07-28"]),
        # A method of an extension is not taken for that of the protocol with its name.
        ([("send", asked(1, "tasks/get", taskId="t"))],
         ["ask for the state of a task, its questions and its result", "[2026-07-28/extensions/tasks]"]),
        # Nothing is agreed on.
        ([("send", asked(1, "server/discover")), ("receive", response(1, **SPOKEN))],
         ["speaks 2026-07-28, 2025-11-25; nothing is agreed on, for each request names its own",
          "declares the capabilities tools", 'instructions for the model: "Ask."']),
        # A result may ask for nothing but another try.
        ([CALL, ("receive", response(1, resultType="input_required", requestState="later"))],
         ["not finished: the client is to try again"]),
        ([CALL, ("receive", response(1, resultType="input_required", requestState="later")),
          ("send", asked(2, "tools/call", name="t", requestState="later"))],
         ["round 2 of the call that request 1 began"]),
    ],
)  # fmt: skip
def test_the_last_message_is_told(messages: list[tuple[str, Any]], words: list[str]) -> None:
    told = wide(*messages)[-1]
    assert all(each in told for each in words)
    assert "does not exist" not in told or "does not exist in revision 2026-07-28" in words


def test_a_result_says_who_answers_and_that_it_is_the_end_once() -> None:
    meta = {SERVER_INFO: {"name": "trips", "version": "2"}}
    told = wide(
        ("send", asked(1, "tools/list")),
        ("receive", response(1, resultType="complete", tools=[], _meta=meta)),
        ("send", asked(2, "tools/list")),
        ("receive", response(2, resultType="complete", tools=[], _meta=meta)),
        ("send", asked(3, "tools/list")),
        ("receive", response(3, resultType="odd")),
    )
    assert '_meta: the server is "trips" "2"' in told[1]
    assert 'resultType "complete": this is the end of the request' in told[1]
    assert "_meta:" not in told[3] and "resultType " not in told[3].split("{")[0]
    assert "is not one of the protocol's own" in told[5]


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        ({"ttlMs": 60_000, "cacheScope": "public"}, "may be kept for 60 s (ttlMs); anybody may be given it"),
        ({"ttlMs": 500, "cacheScope": "private"}, "may be kept for 0.5 s (ttlMs), for this user alone"),
        ({"ttlMs": 0, "cacheScope": "private"}, "ttlMs 0: to be asked for again each time"),
        ({"ttlMs": "soon"}, 'ttlMs "soon": to be asked for again'),
    ],
)
def test_a_hint_on_caching_says_how_long_and_for_whom(hint: dict[str, Any], words: str) -> None:
    assert words in wide(("send", asked(1, "tools/list")), ("receive", response(1, tools=[], **hint)))[1]


def test_the_client_is_whoever_asks_without_an_opening() -> None:
    narrator = Narrator()
    assert "C → S" in narrator.tell(event("receive", asked(1, "tools/list"), peer="somebody"))
    assert "C ← S" in narrator.tell(event("send", response(1, tools=[]), peer="somebody"))


# -- rounds


def test_a_call_that_needs_input_is_told_as_rounds_that_belong_together() -> None:
    questions = {"q": SEAT, "r": {"method": "roots/list"}}
    answers = {"q": {"action": "accept", "content": {"seat": "aisle"}}}
    told = wide(
        ("send", asked(4, "tools/call", name="book")),
        ("receive", response(4, resultType="input_required", inputRequests=questions, requestState="s1")),
        ("send", asked(5, "tools/call", name="book", inputResponses=answers, requestState="s1")),
        ("receive", response(5, resultType="input_required", inputRequests={"m": SEAT}, requestState="s2")),
        ("send", asked(6, "tools/call", name="book", inputResponses={"m": {"action": "decline"}}, requestState="s2")),
        ("receive", response(6, resultType="complete", content=[])),
    )
    assert "not finished: the server has to know something first" in told[1]
    assert '"q": elicitation/create: asks the user: "Seat?"; a form with: seat' in told[1]
    assert '"r": roots/list' in told[1]
    assert "sends the request again, with another id, with the answers, with requestState as it came" in told[1]
    assert "(signed, not encrypted: the server trusts it, anybody can read it)" in told[1]
    assert "round 2 of the call that request 4 began" in told[2]
    assert 'answers "q": the user\'s action: "accept", with seat' in told[2]
    assert 'leaves open "r", which will be asked again' in told[2]
    assert "requestState goes back as it came with the result for 4" in told[2]
    assert "round 3 of the call that request 4 began" in told[4]
    assert 'the user\'s action: "decline"' in told[4]


def test_rounds_without_a_state_are_found_by_what_they_ask() -> None:
    told = wide(
        ("send", asked(1, "prompts/get", name="p")),
        ("receive", response(1, resultType="input_required", inputRequests={"q": SEAT})),
        ("send", asked(2, "prompts/get", name="p", inputResponses={"q": {"action": "cancel"}})),
        ("send", asked(3, "tools/call", name="other", inputResponses={"q": {"action": "cancel"}})),
    )
    assert "with another id, with the answers" in told[1]
    assert "requestState" not in told[1].split("{")[0]
    assert "round 2 of the call that request 1 began" in told[2]
    assert "its earlier rounds were not seen here" in told[3]


# -- subscriptions


def tagged(method: str, request_id: Any = 7, **params: Any) -> dict[str, Any]:
    return notification(method, **params, _meta={SUBSCRIPTION_ID: request_id})


def listening(*more: tuple[str, Any]) -> list[str]:
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["trip://x"]}
    granted = {"toolsListChanged": True, "resourceSubscriptions": ["trip://x"]}
    return wide(
        ("send", asked(7, "subscriptions/listen", notifications=wanted)),
        ("receive", tagged("notifications/subscriptions/acknowledged", notifications=granted)),
        ("receive", tagged("notifications/resources/updated", uri="trip://x")),
        *more,
    )


def test_a_subscription_says_what_it_wants_what_it_gets_and_what_travels_on_it() -> None:
    told = listening(("receive", tagged("notifications/tools/list_changed", 8)))
    assert 'to be told: changes of the list of tools, changes of the list of prompts, changes of "trip://x"' in told[0]
    assert 'will be told: changes of the list of tools, changes of "trip://x"' in told[1]
    assert "the subscription is open, and named after its request: 7" in told[1]
    assert "asked for, but will not be told: changes of the list of prompts" in told[1]
    assert "tagged with the subscription that request 7 (subscriptions/listen) opened" in told[2]
    assert "tagged with the subscription 8, which is not open" in told[3]


def test_a_subscription_that_the_client_gives_up_is_over_for_it() -> None:
    told = listening(
        ("send", notification("notifications/cancelled", requestId=7, reason="enough")),
        ("receive", tagged("notifications/tools/list_changed")),
    )
    assert 'gives up request 7 (subscriptions/listen), because "enough"' in told[3]
    assert "which was given up: to be ignored" in told[4]


def test_a_subscription_that_the_server_ends_says_so_twice_in_either_order() -> None:
    end = [
        ("receive", tagged("notifications/cancelled", requestId=7, reason="it closes")),
        ("receive", response(7, resultType="complete", _meta={SUBSCRIPTION_ID: 7})),
    ]
    told = listening(*end)
    assert 'ends the subscription that request 7 (subscriptions/listen) opened, because "it closes"' in told[3]
    assert "the server has ended the subscription" in told[4]
    assert 'ends the subscription 7, whose result has said so, because "it closes"' in listening(*reversed(end))[4]


# -- errors and HTTP


@pytest.mark.parametrize(
    ("code", "data", "words"),
    [
        (
            -32022,
            {"supported": ["2025-11-25"], "requested": "2030-01-01"},
            'asked for "2030-01-01"; the server speaks 2025',
        ),
        (-32021, {"requiredCapabilities": {"sampling": {"tools": {}}}}, "needed: sampling.tools"),
        (-32020, None, "header mismatch"),
        (-32022, {"supported": 7}, "the protocol version is not supported"),
    ],
)
def test_the_new_errors_say_what_is_missing(code: int, data: Any, words: str) -> None:
    failed = error(1, code)
    failed["error"]["data"] = data
    assert words in wide(("send", asked(1, "tools/list")), ("receive", failed))[1]


def test_headers_that_repeat_the_body_are_named_and_arguments_are_not_shown() -> None:
    headers = redact_headers(
        {"Mcp-Method": "tools/call", "Mcp-Name": "book", "Mcp-Param-Api": "hunter2", "X-Other": "hunter2"}
    )
    assert headers == {"mcp-method": "tools/call", "mcp-name": "book", "mcp-param-api": "[redacted]"}
    told = Narrator(width=200).tell(
        TraceEvent(
            1, 0.0, "t", "send", "server", asked(1, "tools/call"), "http", {"method": "POST", "headers": headers}
        )
    )
    assert 'HTTP: POST; its headers repeat Mcp-Method "tools/call", Mcp-Name "book", Mcp-Param-Api' in told


def test_a_name_in_a_header_hides_what_a_name_in_the_body_hides() -> None:
    headers = redact_headers({"Mcp-Name": "https://me:hunter2@host/?token=hunter2"})
    assert "hunter2" not in str(headers)
    assert redact_headers({"Mcp-Name": "=?base64?aHVudGVyMg==?="}) == {"mcp-name": "[encoded]"}


@pytest.mark.parametrize(("status", "words"), [(400, "400 says: the request is wrong"), (404, "404 says: no such")])
def test_a_status_beside_an_error_is_explained(status: int, words: str) -> None:
    http = {"status": status, "method": "POST"}
    assert words in Narrator().tell(TraceEvent(1, 0.0, "t", "receive", "server", error(1, -32601), "http", http))


def test_a_state_is_shown_by_its_beginning_and_the_same_one_looks_the_same() -> None:
    long = "a" * 200
    shown = redact({"requestState": long, "other": long})
    assert shown["other"] == long
    assert shown["requestState"].startswith("aaaaaaaaaaaa... [200 characters, ")
    assert redact({"requestState": long}) == {"requestState": shown["requestState"]}
    assert redact({"requestState": "step 2"}) == {"requestState": "step 2"}
    assert redact({"requestState": 7}) == {"requestState": 7}


# -- a whole conversation


@pytest.mark.parametrize("over_http", [False, True])
def test_a_conversation_is_told_without_a_state_or_an_argument_in_a_header(over_http: bool) -> None:
    server = Server("trips")

    @server.tool()
    def book(city: str, ctx: Context) -> str:
        """Book a trip."""
        seat = ctx.elicit("Seat?", {"seat": {"type": "string"}})
        return f"{city}, {seat['content']['seat']}, {ctx.sample('A line?', max_tokens=9)['content']}"

    events: list[TraceEvent] = []

    def talk(target: Any) -> None:
        with Client(
            target,
            trace=events.append,
            elicit=lambda message, schema: {"seat": "aisle"},
            sample=lambda params: reply("Walk.", model="m"),
        ) as client:
            client.call_tool("book", {"city": "Oslo"})

    if over_http:
        with server.serve_http() as http:
            talk(http.url)
    else:
        talk(server)
    told = "\n".join(narrate(events, Narrator(width=200)))
    assert "round 2 of the call that request 2 began" in told
    assert "round 3 of the call that request 2 began" in told
    states = {event.message["params"]["requestState"] for event in events if _goes_on(event)}
    assert len(states) == 2
    assert all(" characters, " in state for state in states)
    assert ('Mcp-Name "book"' in told) is over_http


def _goes_on(event: TraceEvent) -> bool:
    return isinstance(event.message, dict) and "requestState" in (event.message.get("params") or {})


def test_a_connection_that_is_closed_says_which_request_it_gives_up() -> None:
    server, seen = Server("s"), []

    @server.tool()
    def slow(ctx: Context) -> str:
        ctx.progress(1)
        return "" if gone(ctx) else "nobody hung up"

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


def gone(ctx: Context) -> bool:
    """Whether the client hangs up while it is waited for."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if ctx.cancelled:
            return True
        threading.Event().wait(0.01)
    return False
