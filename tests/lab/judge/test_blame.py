"""Who is not to blame: conversations in which the checker finds nothing, each beside one in which it finds a fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_ref.lab.judge.check import Checker, check
from mcp_ref.recording.record import Recorder, TraceEvent
from tests.lab.judge.talks import SERVER, A, C, E, Line, N, Row, S, T, events, full, over_http, over_stdio, raw, stdio

OLD, NEW = "2025-11-25", "2026-07-28"
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}
SAID = {"content": [{"type": "text", "text": "x"}]}


def rules(trace: list[TraceEvent]) -> list[str]:
    return [finding.rule for finding in check(trace, Checker(whole=True))]


def exchange(
    number: int, message: Any, status: int, answer: Any, revision: str = OLD, method: str = "POST"
) -> list[Row]:
    """A request by hand, and its reply."""
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": revision}
    if isinstance(message, dict) and revision == NEW:
        headers["mcp-method"] = str(message.get("method"))
    elif revision == OLD:
        headers["mcp-session-id"] = "0f8fad5b-d9cb-469f-a165-70867728950e"
    kind = {"content-type": "application/json"}
    asked = {"exchange": number, "method": method}
    return [
        {"sender": "client", "message": message, "http": {**asked, "headers": headers}},
        {"sender": "server", "message": answer, "http": {**asked, "status": status, "headers": kind}},
    ]


def error(id: Any, code: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}


def listed(id: Any, schema: Any = FORM, **more: Any) -> list[Line]:
    return [C(id, "tools/list"), S(id, tools=[{"name": "t", "inputSchema": schema, **more}])]


# -- refused by HTTP ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 503])
def test_a_ping_that_http_refuses_is_not_held_against_the_server(status: int) -> None:
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    begun = over_http(OLD)
    assert rules(events([*begun, *exchange(50, ping, status, error(7, -32000))])) == []
    assert rules(events([*begun, *exchange(50, ping, 200, error(7, -32000))])) == ["ping_is_answered"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 503])
def test_an_incomplete_request_may_be_refused_by_http(status: int) -> None:
    bare = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    begun, sent = over_http(NEW), exchange(50, bare, status, error(7, -32000), NEW)
    assert rules(events([*begun, *sent])) == ["requests_say_what_they_are"]
    sent[1]["http"]["status"] = 200
    assert rules(events([*begun, *sent])) == ["requests_say_what_they_are", "incomplete_requests_are_refused"]


@pytest.mark.parametrize("status", [301, 400, 401, 404, 503])
def test_what_http_refuses_with_may_be_any_document(status: int) -> None:
    for body in ({"error": "invalid_token"}, {"message": "no"}, [], [1], {}, "no"):
        for message in (
            C(7, "tools/list").message,
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            None,
        ):
            sent = exchange(50, message, status, body, method="GET" if message is None else "POST")
            assert rules(events([*over_http(OLD), *sent])) == []
    bad = {"jsonrpc": "2.0", "error": {"code": "x", "message": "no"}}
    sent = exchange(50, C(7, "tools/list").message, status, bad)
    assert rules(events([*over_http(OLD), *sent])) == ["error_code_is_integer"]


# -- what could not be read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [{"id": 5}, {"id": 5, "params": {}}, {"id": 5, "method": 1}])
def test_an_error_may_repeat_the_id_of_what_was_not_a_request(message: Any) -> None:
    sent = raw("client", {"jsonrpc": "2.0", **message})
    for trace in (
        over_stdio(OLD, sent, E(5, -32600)),
        events([*over_http(OLD), *exchange(50, sent.message, 400, error(5, -32600))]),
        events([*over_http(OLD), *exchange(50, sent.message, 200, error(5, -32600))]),
    ):
        assert len(rules(trace)) == 1 and not set(rules(trace)) & {"error_answers_a_request", "accepted_is_202"}
    assert rules(over_stdio(OLD, sent, E(5, -32600), C(5, "ping"), S(5)))[1:] == []
    stray = raw("client", {"jsonrpc": "2.0", "id": 5, "result": {}})
    assert rules(over_stdio(OLD, stray, E(5, -32600))) == ["result_answers_a_request"]
    assert "error_answers_a_request" in rules(over_stdio(OLD, sent, E(6, -32600)))


@pytest.mark.parametrize("code", [-32700, -32600])
def test_an_error_may_repeat_the_id_of_what_is_too_deep_to_be_parsed(code: int) -> None:
    deep = '{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": ' + '{"a": ' * 100_000 + "1" + "}" * 100_001
    sent = raw("client", deep)
    for trace in (
        over_stdio(OLD, sent, E(5, code), C(6, "ping"), S(6)),
        events([*over_http(OLD), *exchange(50, deep, 400, error(5, code))]),
        events([*over_http(NEW), *exchange(50, deep, 400, error(5, code), NEW)]),
    ):
        assert rules(trace) == ["nesting"]
    assert rules(over_stdio(OLD, sent, E(5, code), E(5, code))) == ["nesting", "error_answers_a_request"]


@pytest.mark.parametrize("answer", [E(9, -32600), S(9, tools=[]), E(None, -32700)])
def test_what_answers_something_unreadable_is_not_held_against_the_server(answer: Line) -> None:
    for junk in ('{"jsonrpc": "2.0", "id": 9, "method": "tools/list"', "{'id': 9}"):
        trace = over_stdio(OLD, raw("client", junk), answer, C(10, "ping"), S(10))
        assert rules(trace) == ["stdin_has_messages_only"]
    printed = over_stdio(OLD, raw("server", "hello"), raw("client", A(9).message))
    assert rules(printed) == ["stdout_has_messages_only", "result_answers_a_request"]
    deep = over_stdio(OLD, raw("server", "[" * 100_000))
    assert rules(deep) == ["stdout_has_messages_only"]
    again = over_stdio(OLD, raw("client", "{'id': 9}"), answer, S(9, tools=[]))
    assert rules(again)[1:] == ["result_answers_a_request"]


@pytest.mark.parametrize("answer", [[error(5, -32600), error(6, -32600)], [error(None, -32600)]])
def test_what_answers_a_batch_where_there_are_none_is_not_held_against_the_server(answer: list[Any]) -> None:
    batch = raw("client", [C(5, "ping").message, C(6, "ping").message])
    told = over_stdio(OLD, batch, *(raw("server", each) for each in answer))
    assert rules(told) == ["batches_only_where_they_exist"]
    for status in (200, 400):
        posted = exchange(50, batch.message, status, answer if len(answer) > 1 else answer[0])
        assert rules(events([*over_http(OLD), *posted])) == ["post_has_one_message"]


def recorded(*messages: Any, exact: bool) -> list[TraceEvent]:
    """Return what a recorder makes of bytes, or of messages, that pass over stdio."""
    made: list[TraceEvent] = []
    with Recorder(made.append, exact=exact) as recorder:
        tap = recorder.tap("server", "stdio")
        for sender, message in messages:
            tap.note("send" if sender == "client" else "receive", message)
    return made


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("depth", [800, 100_000])
def test_a_deep_message_is_a_message_and_so_is_its_answer(exact: bool, depth: int) -> None:
    deep = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"t","arguments":{"a":%b}}}' % (
        b"[" * depth + b"]" * depth
    )
    begun = [("client" if each.direction == "send" else "server", each.message) for each in over_stdio(OLD)]
    for answer in (error(9, -32600), {"jsonrpc": "2.0", "id": 9, "result": SAID}, error(None, -32700)):
        found = list(check(recorded(*begun, ("client", deep), ("server", answer), exact=exact)))
        assert [(each.rule, each.blame) for each in found if each.blame] == []


# -- what was learned ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [OLD, NEW])
def test_definitions_go_with_list_changed(revision: str) -> None:
    news = N("notifications/tools/list_changed")
    call, answer = C(5, "tools/call", name="t", arguments={"n": "x"}), S(5, **SAID)
    stale = ["tool_inputs_are_validated"]
    listen = [
        C("l", "subscriptions/listen", notifications={"toolsListChanged": True}),
        N("notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True}, _meta=_of("l")),
    ] if revision == NEW else []  # fmt: skip
    news = N("notifications/tools/list_changed", _meta=_of("l")) if revision == NEW else news
    assert rules(over_stdio(revision, *listed(4), *listen, call, answer)) == stale
    assert rules(over_stdio(revision, *listed(4), *listen, news, call, answer)) == []
    # The call was on its way already.
    assert rules(over_stdio(revision, *listed(4), *listen, call, news, answer)) == []
    assert rules(over_stdio(revision, *listed(4), *listen, call, news, *listed(6, TEXT), answer)) == []
    assert rules(over_stdio(revision, *listed(4, TEXT), *listen, news, *listed(6), call, answer)) == stale
    form = {"outputSchema": FORM}
    assert rules(over_stdio(revision, *listed(4, TEXT, **form), *listen, call, answer)) == [
        "structured_content_conforms"
    ]
    assert rules(over_stdio(revision, *listed(4, TEXT, **form), *listen, news, call, answer)) == []


def _of(id: Any) -> dict[str, Any]:
    return {"io.modelcontextprotocol/subscriptionId": id}


def test_the_arguments_of_prompts_go_with_list_changed() -> None:
    prompts = [{"name": "p", "arguments": [{"name": "n", "required": True}]}]
    known = [C(4, "prompts/list"), S(4, prompts=prompts)]
    asked = [C(5, "prompts/get", name="p"), S(5, messages=[])]
    news = N("notifications/prompts/list_changed")
    again = [C(6, "prompts/list"), S(6, prompts=prompts)]
    assert rules(over_stdio(OLD, asked[0], news, *again, asked[1])) == []
    assert rules(over_stdio(OLD, again[0], news, again[1], *asked)) == []
    assert rules(over_stdio(OLD, news, *again, *asked)) == ["missing_arguments_are_refused"]
    assert rules(over_stdio(OLD, *known, *asked)) == ["missing_arguments_are_refused"]
    assert rules(over_stdio(OLD, *known, news, *asked)) == []


def test_whether_a_tool_must_be_a_task_goes_with_list_changed() -> None:
    server = {**SERVER, "tasks": {"requests": {"tools": {"call": {}}}}}
    known, call = listed(4, {"type": "object"}, execution={"taskSupport": "required"}), C(5, "tools/call", name="t")
    trace = [*known, N("notifications/tools/list_changed"), call, S(5, **SAID)]
    assert "required_tasks_are_asked_for" in rules(over_stdio(OLD, *known, call, S(5, **SAID), server=server))
    assert rules(over_stdio(OLD, *trace, server=server)) == []


def test_two_users_of_one_url_may_be_shown_different_tools() -> None:
    def talk(*who: str, conns: int = 1) -> list[str]:
        lines = [*listed(4), *listed(5, TEXT), C(6, "tools/call", name="t", arguments={"n": 1}), S(6, **SAID)]
        made = over_http(NEW, *lines)
        for row in made:
            if "headers" in row["http"] and row["sender"] == "client":
                token = {2: who[0], 3: who[1], 4: who[2]}.get(row["http"]["exchange"])
                row["http"]["headers"] |= {} if token is None else {"authorization": token}
        return rules([event._replace(conn=(event.http or {})["exchange"] % conns) for event in events(made)])

    assert talk("Bearer a", "Bearer b", "Bearer a") == []
    assert talk("Bearer a", "Bearer b", "Bearer b") == ["tool_inputs_are_validated"]
    # A trace that hides the tokens does not say whose they are.
    assert talk(*["[redacted]"] * 3, conns=9) == []
    assert talk(*["[redacted]"] * 3) == ["tool_inputs_are_validated"]


def test_two_users_of_one_url_may_have_different_capabilities() -> None:
    made = over_http(NEW, C(4, "server/discover"), S(4, supportedVersions=[NEW], capabilities={}, _meta=NAMED),
                     *listed(5))  # fmt: skip
    assert rules(events(made)) == ["tools_are_declared"]
    for row in made:
        if row["http"]["exchange"] != 2 and "headers" in row["http"] and row["sender"] == "client":
            row["http"]["headers"]["authorization"] = "Bearer a"
        elif row["sender"] == "client":
            row["http"]["headers"]["authorization"] = "Bearer b"
    assert rules(events(made)) == []


NAMED = {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}}


# -- HTTP ---------------------------------------------------------------------------------------------------------


def streaming(version: str | None) -> list[Row]:
    """A call that is answered on a stream without a priming event, though ids are there."""
    made = over_http(OLD, C(5, "tools/call", name="t"), N("notifications/message", level="info", data=1), S(5, **SAID))
    made = [row for row in made if not (row["message"] is None and "eventId" in row["http"])]
    for row in made:
        if row["sender"] == "client" and isinstance(row["message"], dict) and row["message"].get("id") == 5:
            row["http"]["headers"].pop("mcp-protocol-version")
            row["http"]["headers"] |= {} if version is None else {"mcp-protocol-version": version}
    return made


def test_a_client_that_names_an_older_version_gets_no_priming_event() -> None:
    assert rules(events(streaming(OLD))) == ["streams_are_primed"]
    assert rules(events(streaming("2025-03-26"))) == ["version_header_is_the_one_agreed"]
    assert rules(events(streaming(None))) == ["version_header_is_sent"]
    other = streaming("2025-03-26")
    for row in other:
        if "mcp-protocol-version" in row["http"].get("headers", {}):
            row["http"]["headers"].pop("mcp-session-id")
    assert "streams_are_primed" not in rules(events(other))


def test_the_challenge_of_a_gateway_is_not_the_servers() -> None:
    def talk(challenge: str) -> list[str]:
        refused = exchange(50, None, 401, None, method="GET")
        refused[1]["http"]["headers"] = {"www-authenticate": challenge}
        return rules(events([*over_http(OLD), *refused]))

    assert talk('Basic realm="staff"') == []
    assert talk('Bearer realm="staff"') == ["challenges_name_the_scopes"]
    assert talk('Basic realm="staff", bearer realm="x"') == ["challenges_name_the_scopes"]
    assert talk('Basic realm="bearer of news"') == []


def test_ids_begin_again_with_a_new_session() -> None:
    begun = over_http(OLD, C(1, "ping"), S(1))
    again = json.loads(json.dumps(begun))
    for row in again:
        row["http"]["exchange"] += 100
    gone = exchange(50, C(2, "ping").message | {"params": {}}, 404, None)
    assert rules(events([*begun, *gone, *again])) == []
    assert "id_not_used_before" in rules(events([*begun, *again[3:]]))
    assert "id_not_used_before" in rules([*over_stdio(OLD), *over_stdio(OLD)[:2]])


@pytest.mark.parametrize("named", [True, False])
def test_a_session_without_an_id_may_come_by_several_connections(named: bool) -> None:
    pages = [C(1, "tools/list"), S(1, tools=[], nextCursor="n"), C(2, "tools/list", cursor="n"), S(2, tools=[])]
    made = over_http(OLD, *pages, T("notifications/cancelled", requestId=1))
    for row in made:
        if not named:
            row["http"].get("headers", {}).pop("mcp-session-id", None)
    # The opening, the second page and the cancellation by one connection, the rest by another.
    trace = [event._replace(conn=1 if (event.http or {})["exchange"] in (1, 4, 5) else 2) for event in events(made)]
    faults = {"initialized_was_sent", "cursors_stay_in_their_session", "cancels_its_own_request"}
    assert {finding.rule for finding in check(trace)} & faults == (faults if named else set())


@pytest.mark.parametrize("at", ["client", "server"])
def test_a_server_on_http_may_see_a_cancellation_before_its_request(at: str) -> None:
    """Each comes by a connection of its own; the client itself knows what it sent first."""
    trace = events(over_http(OLD, T("notifications/cancelled", requestId=1), C(1, "tools/list"), S(1, tools=[])))
    if at == "server":
        other = {"send": "receive", "receive": "send"}
        trace = [event._replace(direction=other[event.direction], peer="client") for event in trace]
    found = {finding.rule for finding in check(trace)}
    assert ("cancels_its_own_request" in found) == (at == "client")


# -- one finding for one fault ------------------------------------------------------------------------------------


NEWS = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
LIST = C(7, "tools/list").message
BODIES = ({}, {"ok": True}, error(None, -32600), {"jsonrpc": "2.0", "id": 3, "result": {}}, [], "fine")
WRONG = ["requests_are_answered_with_json_or_a_stream"]


@pytest.mark.parametrize(
    ("method", "message", "status", "kind", "body", "found"),
    [
        *(("POST", NEWS, 202, None, body, ["accepted_is_202"]) for body in BODIES),
        ("POST", NEWS, 202, None, None, []),
        ("GET", None, 200, None, {}, ["get_is_answered_with_a_stream_or_405"]),
        *(("POST", LIST, 200, "text/html", body, WRONG) for body in ({}, [{}], {"error": "no"}, "<html>")),
        ("POST", LIST, 200, "text/html", S(7, tools=[]).message, WRONG),
        *(("DELETE", None, 200, None, body, []) for body in ({}, {"ok": True}, "gone")),
    ],
)
def test_a_body_that_is_not_what_it_should_be_is_one_fault(
    method: str, message: Any, status: int, kind: str | None, body: Any, found: list[str]
) -> None:
    sent = exchange(50, message, status, body, method=method)
    if kind is not None:
        sent[1]["http"]["headers"] = {"content-type": kind}
        sent += exchange(51, C(8, "ping").message, 200, S(8).message)
    assert rules(events([*over_http(OLD), *sent])) == found


def test_a_list_that_is_declared_and_unknown_is_one_fault() -> None:
    (line,) = full(NEW, [C(7, "tools/list")], {})
    sent = exchange(50, line.message, 200, error(7, -32601), NEW)
    assert rules(events([*over_http(NEW), *sent])) == ["declared_tools_are_listed"]


@pytest.mark.parametrize("revision", ["2025-03-26", OLD, NEW])
def test_an_answer_that_comes_twice_is_one_fault(revision: str) -> None:
    made = over_http(
        revision, C(5, "tools/call", name="t"), N("notifications/message", level="info", data=1), S(5, **SAID)
    )
    answer, end = made[-2:]
    again = {**answer, "http": {**answer["http"], "eventId": "e9"}}
    assert len(rules(events([*made[:-1], again, end]))) - len(rules(events(made))) == 1
    if revision == NEW:
        return  # it has no streams for GET
    other = exchange(60, None, 200, None, method="GET")
    other[1]["http"]["headers"] = {"content-type": "text/event-stream"}
    late = {**answer, "http": {**answer["http"], "exchange": 60, "method": "GET", "eventId": "e10"}}
    assert len(rules(events([*made, *other, late]))) - len(rules(events(made))) == 1


# -- tasks --------------------------------------------------------------------------------------------------------

TASKS = {**SERVER, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
CAN = listed(3, {"type": "object"}, execution={"taskSupport": "optional"})


def state(status: str) -> dict[str, Any]:
    when = {"createdAt": "2025-11-25T10:00:00Z", "lastUpdatedAt": "2025-11-25T10:00:00Z"}
    return {"taskId": "a", "status": status, "ttl": None, **when}


def made_a_task(status: str = "working") -> list[Line]:
    return [*CAN, C(4, "tools/call", name="t", task={}), S(4, task=state(status))]


def ended(id: Any, result: Any) -> list[Line]:
    related = {"io.modelcontextprotocol/related-task": {"taskId": "a"}}
    return [C(id, "tasks/result", taskId="a"), S(id, **result, _meta=related)]


def in_tasks(*lines: Line) -> list[str]:
    return rules(over_stdio(OLD, *lines, server=TASKS))


def test_a_task_may_wait_for_input_when_its_answer_goes_out() -> None:
    assert in_tasks(*made_a_task("input_required")) == []
    assert in_tasks(*made_a_task("completed")) == ["tasks_begin_as_working"]


def test_an_error_before_the_task_has_ended_is_too_early() -> None:
    def get(id: Any, status: str) -> list[Line]:
        return [C(id, "tasks/get", taskId="a"), S(id, **state(status))]

    early = [C(6, "tasks/result", taskId="a"), E(6, -32602)]
    assert in_tasks(*made_a_task(), *early, *get(7, "working")) == ["results_wait_for_the_end"]
    assert in_tasks(*made_a_task(), *early, *get(7, "cancelled")) == []
    # Also if what made the task was not seen, or wrong.
    assert in_tasks(*early, *get(7, "working")) == ["results_wait_for_the_end"]
    # It answers an error as the call would have.
    assert in_tasks(*made_a_task(), *get(5, "cancelled"), C(6, "tasks/result", taskId="a"), E(6, -32602)) == []


def test_the_result_of_a_task_has_the_type_of_its_call() -> None:
    done = [C(5, "tasks/get", taskId="a"), S(5, **state("completed"))]
    assert in_tasks(*made_a_task(), *done, *ended(6, SAID)) == []
    assert in_tasks(*made_a_task(), *done, *ended(6, {"answer": 42})) == ["schema"]
    # One finding, also where it comes too early.
    working = [C(7, "tasks/get", taskId="a"), S(7, **state("working"))]
    assert len(in_tasks(*made_a_task(), *ended(6, {"answer": 42}), *working)) == 1
    assert in_tasks(*made_a_task(), *ended(6, SAID), *working) == ["results_wait_for_the_end"]


def test_a_task_that_was_not_made_is_one_fault() -> None:
    tool = listed(3, {"type": "object"}, outputSchema=FORM, execution={"taskSupport": "optional"})
    answer = {"content": [], "_meta": {"modelcontextprotocol.io/task": {"taskId": "a"}}}
    trace = [*tool, C(4, "tools/call", name="t", task={}), S(4, **answer)]
    assert in_tasks(*trace) == ["accepted_tasks_are_answered_with_a_task"]


def test_the_result_of_a_task_whose_call_was_not_seen_may_be_any() -> None:
    assert in_tasks(*ended(6, {"answer": 42})) == []


# -- the eras -----------------------------------------------------------------------------------------------------


def test_over_stdio_the_way_back_is_judged_by_the_page_on_stdio() -> None:
    def talk(code: int, data: Any) -> list[Any]:
        probe = stdio(full(NEW, [C("d", "server/discover"), E("d", code, data)], {}))
        return list(check([*probe, *over_stdio(OLD)]))

    (found,) = talk(-32022, {"supported": [NEW], "requested": NEW})
    assert found.ids == (f"{NEW}/basic/transports/stdio#backward-compatibility.3",)
    assert talk(-32022, {"supported": [OLD], "requested": NEW}) == []
    assert talk(-32601, {}) == []
