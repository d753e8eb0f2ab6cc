"""Who is not to blame: conversations in which the checker finds nothing, each beside one in which it finds a fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_ref.lab.judge.check import Checker, check
from mcp_ref.pages.basic.versioning import SUBSCRIPTION_ID
from mcp_ref.recording.record import Recorder, TraceEvent
from tests.lab.judge.seeds import LISTEN, NAMED, RELATED, TEXT
from tests.lab.judge.talks import (
    SERVER,
    SESSION_ID,
    A,
    C,
    E,
    Line,
    N,
    Row,
    S,
    T,
    events,
    full,
    over_http,
    over_stdio,
    raw,
    stdio,
)

OLD, NEW = "2025-11-25", "2026-07-28"
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WORDS = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}
SAID = {"content": TEXT}
REFUSED = [400, 404, 503]


def rules(trace: list[TraceEvent]) -> list[str]:
    return [finding.rule for finding in check(trace, Checker(whole=True))]


def piped(*lines: Line, revision: str = OLD, **declared: Any) -> list[str]:
    """What is found in a conversation over stdio."""
    return rules(over_stdio(revision, *lines, **declared))


def posted(*rows: Row, revision: str = OLD) -> list[str]:
    """What is found over HTTP, where these rows come after the opening."""
    return rules(events([*over_http(revision), *rows]))


def exchange(
    number: int, message: Any, status: int, answer: Any, revision: str = OLD, method: str = "POST", **headers: str
) -> list[Row]:
    """A request by hand, and its reply, with these headers."""
    own = {"accept": "application/json, text/event-stream", "mcp-protocol-version": revision}
    if isinstance(message, dict) and revision == NEW:
        own["mcp-method"] = str(message.get("method"))
    elif revision == OLD:
        own["mcp-session-id"] = SESSION_ID
    asked = {"exchange": number, "method": method}
    kind = {name.replace("_", "-"): value for name, value in headers.items()} or {"content-type": "application/json"}
    return [
        {"sender": "client", "message": message, "http": {**asked, "headers": own}},
        {"sender": "server", "message": answer, "http": {**asked, "status": status, "headers": kind}},
    ]


def error(id: Any, code: int) -> dict[str, Any]:
    return dict(E(id, code).message)


def listed(id: Any, schema: Any = FORM, **more: Any) -> list[Line]:
    return [C(id, "tools/list"), S(id, tools=[{"name": "t", "inputSchema": schema, **more}])]


# -- refused by HTTP ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revision", "method", "found", "more"),
    [(OLD, "ping", [], "ping_is_answered"),
     (NEW, "tools/list", ["requests_say_what_they_are"], "incomplete_requests_are_refused")],
)  # fmt: skip
def test_a_request_that_http_refuses_is_not_held_against_the_server(
    revision: str, method: str, found: list[str], more: str
) -> None:
    bare, answer = {"jsonrpc": "2.0", "id": 7, "method": method}, error(7, -32000)
    for status in REFUSED:
        assert posted(*exchange(50, bare, status, answer, revision), revision=revision) == found
    assert posted(*exchange(50, bare, 200, answer, revision), revision=revision) == [*found, more]


@pytest.mark.parametrize("status", [301, 401, 503])
def test_what_http_refuses_with_may_be_any_document(status: int) -> None:
    news = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    for body in ({"error": "invalid_token"}, {"message": "no"}, [], [1], {}, "no"):
        for message, method in ((C(7, "tools/list").message, "POST"), (news, "POST"), (None, "GET")):
            assert posted(*exchange(50, message, status, body, method=method)) == []
    bad = {"jsonrpc": "2.0", "error": {"code": "x", "message": "no"}}
    assert posted(*exchange(50, C(7, "tools/list").message, status, bad)) == ["error_code_is_integer"]


# -- what could not be read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [{"id": 5}, {"id": 5, "params": {}}, {"id": 5, "method": 1}])
def test_an_error_may_repeat_the_id_of_what_was_not_a_request(message: Any) -> None:
    sent, no = raw("client", {"jsonrpc": "2.0", **message}), E(5, -32600)
    for found in (
        piped(sent, no), *(posted(*exchange(50, sent.message, status, no.message)) for status in (400, 200))
    ):  # fmt: skip
        assert len(found) == 1 and not {"error_answers_a_request", "accepted_is_202"} & set(found)
    assert piped(sent, no, C(5, "ping"), S(5))[1:] == []
    assert piped(raw("client", S(5).message), no) == ["result_answers_a_request"]
    assert "error_answers_a_request" in piped(sent, E(6, -32600))


@pytest.mark.parametrize("code", [-32700, -32600])
def test_an_error_may_repeat_the_id_of_what_is_too_deep_to_be_parsed(code: int) -> None:
    deep = '{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": ' + '{"a": ' * 100_000 + "1" + "}" * 100_001
    sent = raw("client", deep)
    assert piped(sent, E(5, code), C(6, "ping"), S(6)) == ["nesting"]
    for revision in (OLD, NEW):
        assert posted(*exchange(50, deep, 400, error(5, code), revision), revision=revision) == ["nesting"]
    assert piped(sent, E(5, code), E(5, code)) == ["nesting", "error_answers_a_request"]


@pytest.mark.parametrize("answer", [E(9, -32600), S(9, tools=[]), E(None, -32700)])
def test_what_answers_something_unreadable_is_not_held_against_the_server(answer: Line) -> None:
    for junk in ('{"jsonrpc": "2.0", "id": 9, "method": "tools/list"', "{'id': 9}"):
        assert piped(raw("client", junk), answer, C(10, "ping"), S(10)) == ["stdin_has_messages_only"]
    assert piped(raw("client", junk), answer, S(9, tools=[]))[1:] == ["result_answers_a_request"]
    assert piped(raw("server", "hello"), A(9)) == ["stdout_has_messages_only", "result_answers_a_request"]
    assert piped(raw("server", "[" * 100_000)) == ["stdout_has_messages_only"]


@pytest.mark.parametrize("answer", [[error(5, -32600), error(6, -32600)], [error(None, -32600)]])
def test_what_answers_a_batch_where_there_are_none_is_not_held_against_the_server(answer: list[Any]) -> None:
    batch = raw("client", [C(5, "ping").message, C(6, "ping").message])
    assert piped(batch, *(raw("server", each) for each in answer)) == ["batches_only_where_they_exist"]
    for status in (200, 400):
        body = answer if len(answer) > 1 else answer[0]
        assert posted(*exchange(50, batch.message, status, body)) == ["post_has_one_message"]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("depth", [800, 20_000])
def test_a_deep_message_is_a_message_and_so_is_its_answer(exact: bool, depth: int) -> None:
    deep = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"t","arguments":{"a":%b}}}' % (
        b"[" * depth + b"]" * depth
    )
    for answer in (error(9, -32600), S(9, **SAID).message, error(None, -32700)):
        made: list[TraceEvent] = []
        with Recorder(made.append, exact=exact) as recorder:
            tap = recorder.tap("server", "stdio")
            for each in over_stdio(OLD):
                tap.note(each.direction, each.message)
            tap.note("send", deep)
            tap.note("receive", answer)
        assert [(each.rule, each.blame) for each in check(made) if each.blame] == []


# -- what was learned ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [OLD, NEW])
def test_definitions_go_with_list_changed(revision: str) -> None:
    news, listen = N("notifications/tools/list_changed"), list[Line]()
    if revision == NEW:
        listen, news = LISTEN, N("notifications/tools/list_changed", _meta={SUBSCRIPTION_ID: 1})
    call, answer = C(5, "tools/call", name="t", arguments={"n": "x"}), S(5, **SAID)
    structured = listed(4, WORDS, outputSchema=FORM)
    for known, lines, found in (
        (listed(4), [call, answer], ["tool_inputs_are_validated"]),
        (listed(4), [news, call, answer], []),
        # The call was on its way already.
        (listed(4), [call, news, answer], []),
        (listed(4), [call, news, *listed(6, WORDS), answer], []),
        (listed(4, WORDS), [news, *listed(6), call, answer], ["tool_inputs_are_validated"]),
        (structured, [call, answer], ["structured_content_conforms"]),
        (structured, [news, call, answer], []),
    ):
        assert piped(*known, *listen, *lines, revision=revision) == found


def test_the_arguments_of_prompts_go_with_list_changed() -> None:
    asks, shows = C(4, "prompts/list"), S(4, prompts=[{"name": "p", "arguments": [{"name": "n", "required": True}]}])
    call, answer, news = C(5, "prompts/get", name="p"), S(5, messages=[]), N("notifications/prompts/list_changed")
    for lines, found in (
        ([call, news, asks, shows, answer], []),
        ([asks, news, shows, call, answer], []),
        ([asks, shows, news, call, answer], []),
        ([news, asks, shows, call, answer], ["missing_arguments_are_refused"]),
        ([asks, shows, call, answer], ["missing_arguments_are_refused"]),
    ):
        assert piped(*lines) == found


def test_two_users_of_one_url_may_be_shown_different_tools() -> None:
    def talk(*who: str, conns: int = 1) -> list[str]:
        lines = [*listed(4), *listed(5, WORDS), C(6, "tools/call", name="t", arguments={"n": 1}), S(6, **SAID)]
        made = over_http(NEW, *lines)
        for row in made:
            if row["sender"] == "client" and row["http"]["exchange"] > 1:
                row["http"]["headers"]["authorization"] = who[row["http"]["exchange"] - 2]
        return rules([event._replace(conn=(event.http or {})["exchange"] % conns) for event in events(made)])

    assert talk("Bearer a", "Bearer b", "Bearer a") == []
    assert talk("Bearer a", "Bearer b", "Bearer b") == ["tool_inputs_are_validated"]
    # A trace that hides the tokens does not say whose they are.
    assert talk(*["[redacted]"] * 3, conns=9) == []
    assert talk(*["[redacted]"] * 3) == ["tool_inputs_are_validated"]


def test_two_users_of_one_url_may_have_different_capabilities() -> None:
    spoken = S(4, supportedVersions=[NEW], capabilities={}, _meta=NAMED)
    made = over_http(NEW, C(4, "server/discover"), spoken, *listed(5))
    assert rules(events(made)) == ["tools_are_declared"]
    for row in made:
        if row["sender"] == "client":
            row["http"]["headers"]["authorization"] = "Bearer b" if row["http"]["exchange"] == 2 else "Bearer a"
    assert rules(events(made)) == []


# -- HTTP ---------------------------------------------------------------------------------------------------------


def streaming(version: str | None) -> list[Row]:
    """A call that is answered on a stream without a priming event, though ids are there."""
    made = over_http(OLD, C(5, "tools/call", name="t"), N("notifications/message", level="info", data=1), S(5, **SAID))
    made = [row for row in made if not (row["message"] is None and "eventId" in row["http"])]
    for row in made:
        if row["sender"] == "client" and row["message"].get("id") == 5:
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


@pytest.mark.parametrize(
    ("challenge", "found"),
    [('Basic realm="staff"', []), ('Bearer realm="staff"', ["challenges_name_the_scopes"]),
     ('Basic realm="staff", bearer realm="x"', ["challenges_name_the_scopes"]), ('Basic realm="bearer of news"', [])],
)  # fmt: skip
def test_the_challenge_of_a_gateway_is_not_the_servers(challenge: str, found: list[str]) -> None:
    assert posted(*exchange(50, None, 401, None, method="GET", www_authenticate=challenge)) == found


def test_ids_begin_again_with_a_new_session() -> None:
    begun = over_http(OLD, C(1, "ping"), S(1))
    again = json.loads(json.dumps(begun))
    for row in again:
        row["http"]["exchange"] += 100
    gone = exchange(50, C(2, "ping").message, 404, None)
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
WRONG = ["requests_are_answered_with_json_or_a_stream"]


@pytest.mark.parametrize(
    ("method", "message", "status", "kind", "bodies", "found"),
    [
        ("POST", NEWS, 202, "", [None], []),
        ("POST", NEWS, 202, "", [{}, {"ok": 1}, error(None, -32600), S(3).message, [], "fine"], ["accepted_is_202"]),
        ("GET", None, 200, "", [{}], ["get_is_answered_with_a_stream_or_405"]),
        ("POST", LIST, 200, "text/html", [{}, [{}], {"error": "no"}, "<html>", S(7, tools=[]).message], WRONG),
        ("DELETE", None, 200, "", [{}, "gone"], []),
    ],
)
def test_a_body_that_is_not_what_it_should_be_is_one_fault(
    method: str, message: Any, status: int, kind: str, bodies: list[Any], found: list[str]
) -> None:
    # Without an answer to what was asked, the conversation goes on.
    headers, later = {"content_type": kind}, exchange(51, C(8, "ping").message, 200, S(8).message)
    for body in bodies:
        sent = exchange(50, message, status, body, OLD, method, **(headers if kind else {}))
        assert posted(*sent, *(later if kind else [])) == found


def test_a_list_that_is_declared_and_unknown_is_one_fault() -> None:
    (line,) = full(NEW, [C(7, "tools/list")], {})
    sent = exchange(50, line.message, 200, error(7, -32601), NEW)
    assert posted(*sent, revision=NEW) == ["declared_tools_are_listed"]


@pytest.mark.parametrize("revision", ["2025-03-26", OLD, NEW])
def test_an_answer_that_comes_twice_is_one_fault(revision: str) -> None:
    news = N("notifications/message", level="info", data=1)
    made = over_http(revision, C(5, "tools/call", name="t"), news, S(5, **SAID))
    answer, end = made[-2:]

    def adds(*rows: Row) -> int:
        return len(rules(events([*made[:-1], *rows]))) - len(rules(events(made)))

    assert adds({**answer, "http": {**answer["http"], "eventId": "e9"}}, end) == 1
    if revision != NEW:  # which has no streams for GET
        late = {**answer, "http": {**answer["http"], "exchange": 60, "method": "GET", "eventId": "e10"}}
        other = exchange(60, None, 200, None, method="GET", content_type="text/event-stream")
        assert adds(end, *other, late) == 1


# -- tasks --------------------------------------------------------------------------------------------------------


def in_tasks(*lines: Line) -> list[str]:
    tasks = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    return piped(*lines, server={**SERVER, "tasks": tasks})


def state(status: str) -> dict[str, Any]:
    when = {"createdAt": "2025-11-25T10:00:00Z", "lastUpdatedAt": "2025-11-25T10:00:00Z"}
    return {"taskId": "a", "status": status, "ttl": None, **when}


def tool(support: str, **more: Any) -> list[Line]:
    return listed(3, {"type": "object"}, execution={"taskSupport": support}, **more)


def made_a_task(status: str = "working") -> list[Line]:
    return [*tool("optional"), C(4, "tools/call", name="t", task={}), S(4, task=state(status))]


def get(id: Any, status: str) -> list[Line]:
    return [C(id, "tasks/get", taskId="a"), S(id, **state(status))]


def ended(id: Any, result: Any) -> list[Line]:
    return [C(id, "tasks/result", taskId="a"), S(id, **result, _meta={RELATED: {"taskId": "a"}})]


EARLY = [C(6, "tasks/result", taskId="a"), E(6, -32602)]
PLAIN = [C(5, "tools/call", name="t"), S(5, **SAID)]
NOT_MADE = {"content": [], "_meta": {"modelcontextprotocol.io/task": {"taskId": "a"}}}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        # Whether a tool must be a task goes with list_changed.
        ([*tool("required"), *PLAIN], ["required_tasks_are_asked_for", "required_tasks_are_32601"]),
        ([*tool("required"), N("notifications/tools/list_changed"), *PLAIN], []),
        # A task may wait for input when its answer goes out.
        (made_a_task("input_required"), []),
        (made_a_task("completed"), ["tasks_begin_as_working"]),
        # An error before the task has ended is too early, also if what made the task was not seen, or wrong.
        ([*made_a_task(), *EARLY, *get(7, "working")], ["results_wait_for_the_end"]),
        ([*made_a_task(), *EARLY, *get(7, "cancelled")], []),
        ([*EARLY, *get(7, "working")], ["results_wait_for_the_end"]),
        # It answers an error as the call would have.
        ([*made_a_task(), *get(5, "cancelled"), *EARLY], []),
        # The result of a task has the type of its call, if that was seen; what comes too early is one fault.
        ([*made_a_task(), *get(5, "completed"), *ended(6, SAID)], []),
        ([*made_a_task(), *get(5, "completed"), *ended(6, {"answer": 42})], ["schema"]),
        (ended(6, {"answer": 42}), []),
        ([*made_a_task(), *ended(6, SAID), *get(7, "working")], ["results_wait_for_the_end"]),
        ([*made_a_task(), *ended(6, {"answer": 42}), *get(7, "working")], ["schema"]),
        # A task that was not made is one fault.
        ([*tool("optional", outputSchema=FORM), C(4, "tools/call", name="t", task={}), S(4, **NOT_MADE)],
         ["accepted_tasks_are_answered_with_a_task"]),
    ],
)  # fmt: skip
def test_a_task_is_not_blamed_for_what_comes_around_it(lines: list[Line], found: list[str]) -> None:
    assert in_tasks(*lines) == found


# -- the eras -----------------------------------------------------------------------------------------------------


def test_over_stdio_the_way_back_is_judged_by_the_page_on_stdio() -> None:
    def talk(code: int, data: Any) -> list[Any]:
        probe = stdio(full(NEW, [C("d", "server/discover"), E("d", code, data)], {}))
        return list(check([*probe, *over_stdio(OLD)]))

    (found,) = talk(-32022, {"supported": [NEW], "requested": NEW})
    assert found.ids == (f"{NEW}/basic/transports/stdio#backward-compatibility.3",)
    assert talk(-32022, {"supported": [OLD], "requested": NEW}) == []
    assert talk(-32601, {}) == []
