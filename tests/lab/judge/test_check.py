"""The checker: every rule on seeded violations, the rules as data, and what bad input gets."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.lab.cli import main
from mcp_ref.lab.judge.check import Checker, check
from mcp_ref.lab.judge.rulebook import Finding, rules_for
from mcp_ref.lab.judge.rules import seen
from mcp_ref.lab.judge.rules.seen import RULES
from mcp_ref.pages.basic.versioning import SUBSCRIPTION_ID
from mcp_ref.recording.record import TraceEvent, read_trace, to_row
from mcp_ref.revisions import REVISIONS, Revision
from tests.lab.judge import seeds as planting
from tests.lab.judge.rules import SENTENCES, rows
from tests.lab.judge.rules import made as sentences_made
from tests.lab.judge.seeds import OUT, TEXT, TOOL, Seed, again, alter, asks, called, elicit, q, resumed, tools
from tests.lab.judge.talks import (
    GONE,
    SESSION_ID,
    A,
    C,
    E,
    N,
    Q,
    S,
    events,
    full,
    http,
    opening,
    over_http,
    over_stdio,
    raw,
    sse,
    stdio,
)
from tests.lab.judge.test_narrate import json_values
from tests.slow import examples
from tests.test_spec_notes import NOTES, SPEC, notes
from tests.test_where import PROHIBITIONS, reads_wrong


def planted(seed: Seed, revision: str, lines: list[Any], change: Any = None) -> list[TraceEvent]:
    begun = opening(revision, seed.client, seed.server) if seed.opened else []
    whole = full(revision, [*begun, *lines], seed.client) if revision in REVISIONS else lines
    if seed.over in ("stdio", "postMessage"):
        made = [{"sender": line.sender, "message": line.message, "http": None} for line in whole]
    elif seed.over == "http+sse":
        made = sse([*whole, *full(revision, tools(), {})])
    else:
        results = [line.message.get("result", {}) for line in whole if isinstance(line.message, dict)]
        schemas = {each["name"]: each["inputSchema"] for result in results for each in result.get("tools", ())}
        made = http(revision, whole, schemas)
    made = json.loads(json.dumps(made))
    if change is not None:
        change(made)
    return events(made, seed.over)


def holds_in(rule: str, sentence: str) -> Iterable[str]:
    """Return the revisions that a sentence of a rule is of: an edition of an extension holds in all."""
    of = sentence.partition("/")[0]
    return [of] if of in REVISIONS or RULES[rule].kind == "view" else REVISIONS


THERE = {
    (row["rule"], revision)
    for row in rows()
    if "rule" in row
    for each in row["ids"]
    for revision in holds_in(row["rule"], each)
}


def cases() -> Iterator[tuple[Seed, str]]:
    for each in (each for seeds in planting.ALL for each in seeds()):
        yield from ((each, revision) for revision in each.only if (each.rule, revision) in THERE)


def of(seed: Seed, findings: Iterable[Finding]) -> list[Finding]:
    """Return what is found; of hints only those that are meant."""
    return [each for each in findings if each.level != "HINT" or each.rule == seed.rule]


def known(findings: Iterable[Finding]) -> list[str]:
    return sorted(finding.rule for finding in findings)


CASES = list(cases())


@pytest.mark.parametrize("rule", dict.fromkeys(seed.rule for seed, _ in CASES))
def test_finds_a_violation_and_says_nothing_else(rule: str) -> None:
    noted = [(row, each) for row in rows() if row.get("rule") == rule for each in row["ids"]]
    for seed, revision in (each for each in CASES if each[0].rule == rule):
        sound = of(seed, check(planted(seed, revision, seed.sound), hints=True))
        assert set(known(sound)) <= set(seed.base), (revision, sound)
        broken = of(seed, check(planted(seed, revision, seed.broken, seed.change), hints=True))
        found = [each for each in broken if each.rule not in seed.base]
        assert known(found) == [rule], (revision, seed.broken, found)
        (finding,) = found
        # Of these sentences, and of all of them: of some rules the method or the transport chooses.
        request = finding.message if isinstance(finding.message, dict) and "method" in finding.message else {}
        expected = {
            each
            for row, each in noted
            if revision in holds_in(rule, each) or rule == "initialize_names_the_version"
            if row.get("over", seed.over[:4]) in seed.over
            if request.get("method", "") in row.get("methods", [request.get("method", "")]) or not request
        }
        assert finding.ids and set(finding.ids) <= expected
        assert not request or set(finding.ids) == expected
        assert finding.says and finding.expected


def test_every_rule_is_planted_in_every_revision_that_has_it() -> None:
    assert not THERE - {(seed.rule, revision) for seed, revision in CASES}


OPEN = {"x": {"type": "object", "properties": {"y": {"type": "string"}}}}
BLOCK = [{"type": "hologram", "data": "x"}]
STRICTER: dict[str, tuple[list[Any], str, str]] = {
    # what a client lets pass and a judge does not: the conversation, the rule, and what it says
    "a tool's inputSchema without a type": (tools({**TOOL, "inputSchema": {}}), "schema", "Schema.type is required"),
    "a tool of a string": (tools({**TOOL, "inputSchema": {"type": "string"}}), "schema", 'type must be "object"'),
    "a tool of a dialect": (tools({**TOOL, "inputSchema": {"$schema": "x"}}), "schema", "Schema.type is required"),
    "a content block of an unknown type": (
        [C(1, "tools/call", name="t"), S(1, content=BLOCK)], "schema", "result.content[0].type must be"),
    "a nested property in a form": (
        asks(1, elicit(requestedSchema={"type": "object", "properties": OPEN})), "schema", "properties.x.type must be"),
    "an answer of another kind": (
        [*asks(1, elicit()), *again(2, {"action": "perhaps"})], "schema", "inputResponses.action must be"),
    "an answer under another key": (
        [*asks(1, elicit()), C(2, "tools/call", name="t", inputResponses={"other": {"action": "cancel"}},
                               requestState="state-of-it"), S(2, content=TEXT)],
        "retries_bring_the_answers", "inputResponses for k"),
    "an answer under another key, without a state": (
        [C(1, "tools/call", name="t"), S(1, resultType="input_required", inputRequests={"k": elicit()}),
         C(2, "tools/call", name="t", inputResponses={"other": {"action": "cancel"}}), S(2, content=TEXT)],
        "retries_bring_the_answers", "inputResponses for k"),
}  # fmt: skip


@pytest.mark.parametrize("name", STRICTER)
def test_a_judge_is_stricter_than_a_client(name: str) -> None:
    lines, rule, says = STRICTER[name]
    everywhere = name in ("a tool's inputSchema without a type", "a content block of an unknown type")
    for revision in REVISIONS if everywhere else ["2026-07-28"]:
        (finding,) = check(over_stdio(revision, *lines))
        assert finding.rule == rule and says in finding.expected, finding


@pytest.mark.parametrize("side", ["server", "client"])
def test_who_does_not_say_what_it_can_has_one_fault(side: str) -> None:
    hello, welcome, ready = opening("2025-11-25")
    silent = [alter(each, capabilities=GONE) for each in (hello, welcome)]
    hello, welcome = (silent[0], welcome) if side == "client" else (hello, silent[1])
    lines = [
        *tools(TOOL), *called(2), C(3, "resources/list"), S(3, resources=[]), Q(9, "roots/list"), A(9, roots=[]),
        N("notifications/tools/list_changed"),
    ]  # fmt: skip
    told = check(stdio(full("2025-11-25", [hello, welcome, ready, *lines], {})))
    assert [(each.rule, each.blame) for each in told] == [
        ("initialize_names_the_capabilities" if side == "client" else "initialize_is_answered_in_full", side)
    ]


def test_a_call_is_not_held_against_what_a_tool_has_become() -> None:
    call, changed = called(7, {"structuredContent": {"n": "x"}, "content": TEXT}), N("notifications/tools/list_changed")
    for later, found in (
        (tools(OUT), ["structured_content_conformed"]),
        ([changed, *tools(OUT)], []),
        (tools({**OUT, "name": "other"}), []),
    ):
        assert known(check(over_stdio("2025-11-25", *call, *later))) == found


def test_a_change_on_the_stream_of_a_call_does_not_belong_to_it() -> None:
    revision = "2026-07-28"
    made = over_http(revision, C(1, "tools/call", name="t"), N("notifications/tools/list_changed"), S(1, content=TEXT))
    (finding,) = check(events(made))
    assert finding.rule == "notifications_belong_to_the_request"
    assert finding.ids == (f"{revision}/basic/transports/streamable-http#receiving-messages.2",)


# -- the rules as data --------------------------------------------------------------------------------------------


def test_the_sentences_of_the_package_are_made_from_the_notes() -> None:
    assert SENTENCES.read_text("utf-8") == sentences_made(), "run python -m tests.lab.judge.rules --write"


def test_every_rule_is_named_in_the_notes_and_every_name_is_a_rule() -> None:
    assert {row["rule"] for row in rows() if "rule" in row} == set(RULES)


def test_every_sentence_of_a_rule_has_a_row_in_a_note() -> None:
    noted = {each for note in notes() for row in note.rows for each in row.ids}
    assert not [each for row in rows() for each in row["ids"] if each not in noted]


def test_a_rule_says_a_prohibition_as_the_specification_does() -> None:
    levels = {each: row.level for note in notes() for row in note.rows for each in row.ids}
    for row in (each for each in rows() if "says" in each):
        here = {levels[each] for each in row["ids"]}
        forbidden = [level for level in PROHIBITIONS if level in here]
        said = [level for level in PROHIBITIONS if level in row["says"]]
        # What forbids and asks may be said either way.
        assert said == forbidden or (not said and here > set(forbidden)), row
        assert not any(reads_wrong(level, row["says"]) for level in said), row


def sentences_with_a_rule() -> set[str]:
    """Those of the five revisions that a rule decides; a hint decides nothing."""
    decided = {each for row in rows() if row.get("level", "HINT") != "HINT" for each in row["ids"]}
    return {each for each in decided if "/extensions/" not in each}


def test_the_guide_counts_the_sentences_as_they_are() -> None:
    text = " ".join((NOTES.parent / "examples/guides/judging.md").read_text("utf-8").split())
    decided = sentences_with_a_rule()
    undecided = {each for row in rows() if "undecided" in row for each in row["ids"]} - decided
    assert f"for {len(decided)} sentences, each counted in each revision that has it" in text
    assert f"says of {len(undecided)} more why traffic cannot decide them" in text


# These bind, and show in the traffic, though the count has them as a permission, as a hint, or as not to be decided.
ALSO_DECIDABLE = {
    *(f"{name}/basic/transports#session-management.6" for name in ("2025-03-26", "2025-06-18")),
    "2025-11-25/basic/transports#session-management.7",
    "2025-03-26/basic/index#batching.1",
    "2025-06-18/basic/index#responses.4",
    "2025-03-26/basic/authorization#token-handling.3",
    *(f"{name}/basic/authorization#token-handling.4" for name in ("2025-06-18", "2025-11-25")),
    "2026-07-28/basic/authorization/index#token-handling.4",
    "2025-11-25/basic/utilities/tasks#result-retrieval.5",
    "2025-11-25/basic/utilities/tasks#task-listing.4",
    "2026-07-28/basic/transports/stdio#backward-compatibility.3",
}


@pytest.mark.skipif(not (SPEC.parent / "teaching").exists(), reason="the count of what is decidable is not there")
def test_every_sentence_that_is_decidable_has_a_rule_or_a_reason() -> None:
    lines = (SPEC.parent / "teaching" / "decidable.jsonl").read_text("utf-8").splitlines()
    decidable = {
        each
        for line in map(json.loads, lines)
        if line["decidable"] in ("message", "conversation", "bytes")
        for each in line["ids"]
    }
    assert not decidable & ALSO_DECIDABLE
    decidable |= ALSO_DECIDABLE
    assert sentences_with_a_rule() <= decidable <= {each for row in rows() for each in row["ids"]}


# -- bad input ----------------------------------------------------------------------------------------------------


def test_a_trace_that_begins_in_the_middle_is_asked_only_what_all_revisions_say() -> None:
    checker = Checker()
    lines = [S(4, tools=[]), C(5, "tools/list"), S(5, tools="none"), C(6, "x", _meta={"a..b/c": 1})]
    assert not list(check(over_stdio("2025-11-25", *lines)[3:], checker))
    assert {"meta_prefix_is_dotted", "id_not_used_before"} <= set(checker.skipped)
    assert checker.skipped["meta_prefix_is_dotted"] == "revision unknown"
    told = list(check(over_stdio("2025-11-25", *lines)[3:], Checker("2025-11-25")))
    assert known(told) == ["meta_prefix_is_dotted", "schema"]


def test_capabilities_that_were_not_seen_are_not_missed() -> None:
    block = {"type": "resource", "resource": {"uri": "a:b", "text": "x"}}
    lines = [C(5, "tools/call", name="t"), S(5, content=[block])]
    assert not list(check(over_stdio("2025-11-25", *lines)[3:], Checker("2025-11-25")))


def test_a_redacted_value_is_not_decided() -> None:
    seed = next(each for each in planting.http_seeds() if each.rule == "mirrored_values_match")
    made = planted(seed, "2026-07-28", seed.broken, seed.change)
    for event in made:
        for name in (event.http or {}).get("headers", {}):
            if name.startswith("mcp-param-"):
                event.http["headers"][name] = "[redacted]"  # type: ignore[index]
    checker = Checker()
    assert not [each for each in check(made, checker) if each.rule == "mirrored_values_match"]
    assert checker.skipped["mirrored_values_match"] == "redacted"


def test_a_rule_that_raises_blames_the_checker_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(link: Any, said: Any) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setitem(RULES, "tool_names_are_plain", RULES["tool_names_are_plain"]._replace(function=raises))
    rules_for.cache_clear()
    try:
        tools = [{"name": "a", "inputSchema": {"type": "object"}}] * 2
        found = list(check(over_stdio("2025-11-25", C(1, "tools/list"), S(1, tools=tools))))
    finally:
        rules_for.cache_clear()
    assert [(each.blame, each.rule) for each in found] == [
        (None, "tool_names_are_plain"),
        ("server", "tool_names_are_unique"),
    ]
    assert "ZeroDivisionError" in found[0].expected and not found[0].ids


@given(st.data())
@settings(max_examples=examples(300), deadline=None)
def test_no_message_makes_a_rule_fail(data: st.DataObject) -> None:
    seed, revision = data.draw(st.sampled_from(CASES))
    made = planted(seed, revision, seed.broken, seed.change)
    number = data.draw(st.integers(0, len(made) - 1))
    message = json.loads(json.dumps(made[number].message))
    place = message
    while isinstance(place, (dict, list)) and place:
        name = data.draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.integers(0, len(place) - 1))
        if data.draw(st.booleans()):
            place[name] = data.draw(json_values)
            break
        place = place[name]
    made[number] = made[number]._replace(message=message)
    assert not [each for each in check(made) if each.blame is None]


def test_a_client_that_hangs_up_has_sent_no_other_request() -> None:
    """Its headers are those of the request that it gives up, from before there was a session."""
    gone = {"sender": "client", "message": None, "http": {"exchange": 1, "method": "POST", "hangUp": 0}}
    assert not list(check(events([*over_http("2025-11-25"), gone])))


def test_a_hint_silences_nothing_and_is_shown_on_request_only(told: Told) -> None:
    form = {"type": "object", "properties": {"password": {"type": "string"}}}
    lines = [Q(1, "elicitation/create", message="m", requestedSchema=form), A(1, action="perhaps")]
    made = over_stdio("2025-11-25", *lines)
    assert known(check(made, hints=True)) == ["forms_ask_for_no_secrets", "schema"]
    assert known(check(made)) == ["schema"]
    code, text = told(made, "--strict")
    assert code == 3 and "HINT" not in text
    assert "HINT, server: A form MUST NOT ask for passwords" in told(made, "--hints")[1]


def test_a_finding_in_an_unknown_revision_says_so_and_names_all_that_have_the_sentence() -> None:
    (found,) = check(over_stdio("2025-11-25", raw("client", {"jsonrpc": "1.0", "method": "x"}))[3:])
    assert {each.partition("/")[0] for each in found.ids} == set(REVISIONS) and "unknown" in found.says


def without_a_session(*more: Any) -> Iterator[dict[str, Any]]:
    """A conversation with a server that gives no session id: only the exchanges tell what belongs together."""
    for row in over_http("2025-11-25", *more):
        row["http"].get("headers", {}).pop("mcp-session-id", None)
        yield row


def apart(rows: Iterable[dict[str, Any]]) -> list[TraceEvent]:
    """The events, each exchange on a connection of its own."""
    return [event._replace(conn=(event.http or {})["exchange"]) for event in events(rows)]


def test_requests_without_a_session_id_are_one_conversation_until_another_client_begins() -> None:
    rows = list(without_a_session(C(1, "tools/list"), S(1, tools=[]), C(2, "tools/list"), S(2, tools=[])))
    checker = Checker()
    assert not list(check(apart(rows), checker)) and "several" not in "".join(checker.skipped.values())
    wrong = json.loads(json.dumps(rows))
    del wrong[-2]["http"]["headers"]["mcp-protocol-version"]
    assert known(check(apart(wrong))) == ["version_header_is_sent"]
    wrong[-2]["message"]["id"] = wrong[-1]["message"]["id"] = 1
    wrong[-2]["http"]["headers"]["mcp-protocol-version"] = "2025-11-25"
    assert known(check(apart(wrong))) == ["id_not_used_before"]
    unopened = [row for row in rows if (row["message"] or {}).get("method") != "notifications/initialized"]
    assert known(check(apart(unopened))) == ["initialized_was_sent"]
    second = json.loads(json.dumps(rows))
    for row in second:
        row["http"]["exchange"] += 100
    checker = Checker()
    # Two clients at once: each has its ids, and whose a request is cannot be told.
    assert not list(check(apart([*rows[:2], *second[:2], *rows[2:], *second[2:]]), checker))
    assert checker.skipped["version_header_is_sent"] == "several clients without a session id"


def test_requests_without_the_id_of_a_session_belong_to_no_conversation() -> None:
    first = events(over_http("2025-11-25"))
    (stray, answer) = list(without_a_session(C(1, "tools/list"), S(1, tools=[])))[-2:]
    for row in (stray, answer):
        row["http"]["exchange"] = 70
    assert not list(check([*first, *apart([stray, answer])]))


def test_a_client_that_waits_as_long_as_retry_says_is_not_blamed() -> None:
    for retry, blamed in ((1_000, []), (1_049, []), (1_051, ["retry_is_waited_for"])):
        resumed(retry)(rows := over_http("2025-11-25", *planting.PROGRESSING))
        assert known(check(events(rows))) == blamed


def test_an_error_without_an_id_that_may_answer_what_was_unreadable_is_no_answer_to_a_notification() -> None:
    for before in (raw("client", "{"), raw("client", []), C(1.5, "x"), C(1, "x")):
        found = known(check(over_stdio("2025-11-25", before, E(None, -32700))))
        assert "notifications_are_not_answered" not in found and len(found) == (before.message != C(1, "x").message)


@pytest.mark.parametrize(
    ("status", "method", "body", "found"),
    [(404, "GET", None, []), (200, "GET", None, ["sessions_that_ended_are_404"]),
     (401, "POST", [C(7, "tools/list").message], []),
     (400, "POST", [C(7, "tools/list").message], ["batches_are_received"])],
)  # fmt: skip
def test_a_session_that_ended_may_be_answered_with_404_and_a_batch_may_be_refused_to_who_is_not_let_in(
    status: int, method: str, body: Any, found: list[str]
) -> None:
    rows = over_http("2025-03-26")
    headers = {**rows[-2]["http"]["headers"], "accept": "application/json, text/event-stream"}
    kind = {"content-type": "application/json" if body else "text/event-stream"}
    asked = {"exchange": 81, "method": method}
    if body:
        no = E(None, -32600).message
    else:
        no, ended = None, {"exchange": 80, "method": "DELETE"}
        rows.append(planting.row("client", None, **ended, headers=headers))
        rows.append(planting.row("server", None, **ended, status=200, headers={}))
    rows.append(planting.row("client", body, **asked, headers=headers))
    rows.append(planting.row("server", no, **asked, status=status, headers=kind))
    assert known(check(events(rows))) == found


def test_what_a_trace_hides_is_named_as_not_decided() -> None:
    checker = Checker()
    for event in events(json.loads(json.dumps(over_http("2025-11-25")).replace(SESSION_ID, "[redacted 12ab]"))):
        assert not checker.feed(event)
    assert {"session_id_is_visible_ascii", "session_ids_cannot_be_guessed"} <= checker.skipped.keys()
    for number, hidden in ((1, False), ("[redacted]", True)):
        ask = [q(elicit()), A(1, action="accept", content={"n": number})]
        assert not list(check(over_stdio("2025-11-25", *ask), checker := Checker()))
        assert (checker.skipped.get("answers_fit_the_form") == "redacted") is hidden


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_request_that_http_has_refused_is_sent_again_with_its_id(revision: str) -> None:
    made = over_http(revision, C(1, "tools/call", name="t", _meta={"progressToken": 1}))
    again = {**made[-1], "http": {**made[-1]["http"], "exchange": 90}}
    no = planting.row("server", None, exchange=made[-1]["http"]["exchange"], method="POST", status=401, headers={})
    assert not list(check(events([*made, no, again])))
    assert known(check(events([*made, again]))) != []


def test_a_probe_that_an_older_server_refuses_without_an_id_is_not_held_against_it() -> None:
    """A server that has shown to be of the stateless era is held to its codes."""
    asked = over_http("2026-07-28", C(1, "server/discover"))[-1]
    asked["http"]["exchange"] = 90
    no = planting.row("server", E(None, -32000).message, exchange=90, method="POST", status=400, headers={})
    assert not list(check(events([asked, no])))
    assert known(check(events([*over_http("2026-07-28"), asked, no]))) == ["codes_of_the_past_are_gone"]


def test_forgets_the_oldest_of_everything_that_a_peer_can_name_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "MAX_KNOWN", 10)
    checker = Checker()
    elicit = {"message": "m", "mode": "url", "url": "https://x/y"}
    for revision in ("2025-11-25", "2026-07-28"):
        lines: list[Any] = []
        for n in range(30):
            task = {"taskId": f"t{n}", "status": "working", "createdAt": "2025-11-25", "lastUpdatedAt": "2025-11-25"}
            lines += [
                C(f"a{n}", "tools/list", _meta={"progressToken": n}, cursor=f"c{n}"),
                S(f"a{n}", tools=[{"name": f"t{n}", "inputSchema": {}}], nextCursor=f"c{n + 1}", cacheScope="private"),
                C(f"b{n}", "prompts/list"),
                S(f"b{n}", prompts=[{"name": f"p{n}"}]),
                C(f"c{n}", "subscriptions/listen", notifications={}),
                N("notifications/subscriptions/acknowledged", _meta={SUBSCRIPTION_ID: f"c{n}"}),
                N("notifications/cancelled", requestId=f"c{n - 1}"),
                S(f"c{n}", _meta={SUBSCRIPTION_ID: f"c{n}"}),
                Q(f"d{n}", "elicitation/create", elicitationId=f"e{n}", **elicit),
                C(f"f{n}", "tools/call", name="t", task={}),
                S(f"f{n}", task={**task, "ttl": None}),
                C(f"g{n}", "tools/call", name="t"),
                S(f"g{n}", resultType="input_required", inputRequests={}, requestState=f"s{n}"),
            ]
        whole = over_stdio(revision, *lines)
        for conn in range(20):
            for event in whole if conn == 0 else whole[:3]:
                checker.feed(event._replace(conn=(revision, conn)))
        rows = over_http(revision, *lines)
        for event in events([*rows, *(row for row in rows if row["sender"] == "server")]):
            checker.feed(event._replace(conn=(revision, "http")))
    todo, met = [checker._links, checker._shared], set()
    while todo:
        each = todo.pop()
        if id(each) in met or isinstance(each, (str, TraceEvent, type)) or callable(each):
            continue
        met.add(id(each))
        todo += each.values() if isinstance(each, dict) else each if isinstance(each, (list, tuple, set, deque)) else ()
        todo += [getattr(each, name) for name in getattr(type(each), "__slots__", ()) if hasattr(each, name)]
        todo += list(vars(each).values()) if hasattr(each, "__dict__") and not isinstance(each, Revision) else []
        assert not isinstance(each, (dict, list, set)) or len(each) <= 20, each
    assert len(met) > 500


# -- the command --------------------------------------------------------------------------------------------------


def written(path: Path, made: list[TraceEvent]) -> str:
    path.write_text("".join(to_row(event._replace(time=1e9)) + "\n" for event in made), "utf-8")
    return str(path)


Told = Callable[..., tuple[int, str]]


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """Judges a trace by the command, with options: gives the exit code and what is written."""

    def run(made: list[TraceEvent], *options: str) -> tuple[int, str]:
        code = main(["check", *options, written(tmp_path / "t.jsonl", made)])
        return code, capsys.readouterr().out

    return run


def test_the_command_names_the_sentence_and_exits_with_3_if_strict(told: Told) -> None:
    made = over_stdio("2025-11-25", C(1, "ping"), S(1, pong="\x1b[2J"))
    sentence = "2025-11-25/basic/utilities/ping#behavior-requirements.1"
    code, text = told(made)
    assert code == 0 and sentence in text and "1 finding in 5 events" in text and "\x1b" not in text
    assert told(made, "--strict")[0] == 3
    assert told(made, "--strict", "--role", "client")[0] == 0
    code, text = told(made, "--format", "json", "--coverage")
    finding, summary = map(json.loads, text.splitlines())
    assert code == 0 and finding["blame"] == "server" and finding["ids"] == [sentence]
    assert summary["findings"] == 1 and not summary["unjudged"]
    assert {"sentence": sentence, "rule": "pong_is_empty", "client": 0, "server": 1} in summary["applied"]


def test_coverage_counts_what_is_asked_of_every_message_by_sentence_and_side(told: Told) -> None:
    code, text = told(over_stdio("2025-11-25", C(1, "ping"), S(1)), "--coverage")
    rows = {tuple(line.split()) for line in text.splitlines()}
    # initialize, initialized and ping; two results.
    assert code == 0 and ("3", "2", "2025-11-25/basic/index#messages.1", "is_json_rpc") in rows
    assert ("0", "2", "2025-11-25/basic/transports#stdio.4", "stdout_has_messages_only") in rows
    assert ("3", "0", "2025-11-25/basic/transports#stdio.5", "stdin_has_messages_only") in rows
    assert not [row for row in rows if len(row) == 4 and not row[2].startswith("2025-11-25")]
    # What was never asked is shown, too.
    assert any(row[:2] == ("0", "0") for row in rows)
    assert any(row[-5:] == ("sentences", "of", "2025-11-25", "were", "checked") for row in rows)


def test_coverage_is_told_by_sentence_role_and_revision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [written(tmp_path / name, over_stdio(name, C(1, "ping"), S(1))) for name in ("2025-06-18", "2025-11-25")]
    assert main(["check", "--format", "json", "--coverage", *files]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [*told["covered"]] == ["2025-06-18", "2025-11-25"]
    for revision, row in told["covered"].items():
        for role in ("client", "server"):
            asked = {each["sentence"] for each in told["applied"] if each[role]}
            assert row[role] == sum(each.startswith(revision) for each in asked) > 10
        assert row["sentences"] > max(row["client"], row["server"])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ([], "no message came that could be judged"),
        (events([{"sender": "client", "message": None, "http": None, "end": {"eof": "client"}}], "stdio"),
         "no message came that could be judged"),
        (over_stdio("2025-11-25", C(1, "ping"), S(1))[3:], "the revision of 2 of 2 messages is unknown"),
    ],
)  # fmt: skip
def test_strict_fails_with_a_reason_where_nothing_follows_from_finding_nothing(
    made: list[TraceEvent], reason: str, told: Told
) -> None:
    code, text = told(made, "--strict")
    assert code == 6 and f"not all was judged: {reason}" in text
    code, text = told(made, "--strict", "--format", "json")
    assert code == 6 and json.loads(text)["unjudged"][0].startswith(reason)
    assert told(made)[0] == (6 if "no message" in reason else 0)


def test_strict_fails_where_no_rule_was_asked(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checker, "applied", property(lambda self: Counter()))
    code, text = told(over_stdio("2025-11-25", C(1, "ping"), S(1)), "--strict")
    assert code == 6 and "not all was judged: no rule was asked" in text


@pytest.mark.parametrize("revision", REVISIONS)
def test_strict_passes_what_is_whole_and_the_middle_of_it_with_its_revision(revision: str, told: Told) -> None:
    lines = [C(1, "tools/list"), S(1, tools=[])]
    whole = over_stdio(revision, *lines)
    assert told(whole, "--strict")[0] == 0
    if revision != "2024-11-05":
        assert told(events(over_http(revision, *lines)), "--strict")[0] == 0
    assert told(whole[-2:], "--strict", "--revision", revision)[0] == 0
    assert told(whole[-2:], "--strict")[0] == (0 if revision == "2026-07-28" else 6)


def test_a_last_line_that_is_cut_off_is_named_and_what_stands_before_it_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(written(tmp_path / "t.jsonl", over_stdio("2025-11-25", C(1, "ping"), S(1, pong=1), C(2, "ping"))))
    file.write_text(file.read_text("utf-8")[:-20], "utf-8")
    assert main(["check", str(file)]) == 6
    told = capsys.readouterr().out
    assert f"not all was judged: {file}:6: not JSON" in told and "1 finding in 5 events" in told
    assert main(["check", "--strict", str(file)]) == 3
    capsys.readouterr()
    assert main(["narrate", str(file)]) == main(["draw", str(file)]) == 2


def test_a_finding_over_http_names_header_and_status_the_request_the_rule_and_no_secret(told: Told) -> None:
    rows = over_http("2025-11-25", C(1, "ping"), S(1), C(2, "ping"), S(2, pong=1))
    for row in rows:
        if row["sender"] == "client":
            row["http"]["headers"]["authorization"] = "Bearer hunter2"
    rows[-4]["http"]["headers"]["accept"] = "text/plain"
    first, second = re.split(r"^(?=\d+: )", told(events(rows))[1], flags=re.M)[1:]
    assert '"method":"POST"' in first and '"accept":"text/plain"' in first and "rule:     " in first
    assert "answers:" not in first and "hunter2" not in first
    assert '"status":200' in second and "rule:     pong_is_empty\n" in second
    assert f"answers:  {len(rows) - 1}: ping, id 2\n" in second
    assert "hunter2" not in told(events(rows), "--format", "json")[1]
    # A reply without a message answers the request of its exchange.
    made = [row for row in rows[:-4] if row["message"] is None or "id" not in row["message"]][:2]
    made[1]["http"]["status"] = 200
    assert [finding.request for finding in check(events(rows[:2] + made))] == ["3: POST"]


@pytest.mark.parametrize(
    ("text", "because"),
    [('{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}', "NaN is not JSON"),
     ('\ufeff{"jsonrpc":"2.0","id":1,"result":{}}', "a byte order mark (BOM) stands before it"),
     ("Starting...", "Parse error: Expecting value")],
)  # fmt: skip
def test_a_finding_says_why_a_line_is_not_a_message(text: str, because: str, told: Told) -> None:
    _, said = told(over_stdio("2025-11-25", raw("server", text)))
    assert f"because:  {because}" in said.replace("Parse error: NaN", "NaN")


def test_equal_findings_are_written_once_with_their_number_and_the_first_places(told: Told) -> None:
    lines = [line for n in range(1, 31) for line in (C(n, "ping"), S(n, pong=n))]
    made = over_stdio("2025-11-25", *lines, C(31, "tools/call", arguments=1))
    _, text = told(made, "--strict")
    assert text.count("rule:     pong_is_empty") == text.count("rule:     schema") == 1
    assert "30 times: pong_is_empty, server: at 5, 7, 9, 11, 13, ...\n" in text and "31 findings in 64" in text
    assert len(told(made, "--format", "json")[1].splitlines()) == 32


def test_the_command_lists_its_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--list", "--revision", "2024-11-05"]) == 0
    told = capsys.readouterr().out
    assert "2024-11-05/" in told and "2025-" not in told.replace("2025-03-26 alone", "")


# -- no finding in what we do -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_finds_nothing_in_the_demo(revision: str, way: str, tmp_path: Path) -> None:
    file = str(tmp_path / "t.jsonl")
    assert main(["demo", "--all", "--revision", revision, "--trace", file, *(["--http"] if way == "http" else [])]) == 0
    assert not list(check(read_trace(file)))
