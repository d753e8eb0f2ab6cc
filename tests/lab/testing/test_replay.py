"""A recorded server answers as it did, and a recorded client finds what has changed."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref import Client, Context, ErrorResponse, McpError, Recorder, Server, TransportClosed
from mcp_ref.kit.http.http_exchange import HttpLimits, HttpReply, HttpRequest
from mcp_ref.kit.http.http_server import HttpServer
from mcp_ref.lab.cli import main
from mcp_ref.lab.testing import replay as replay_module
from mcp_ref.lab.testing import replay_http
from mcp_ref.lab.testing.replay import Player, Replay, difference, turns_of
from mcp_ref.lab.testing.replay_check import IGNORED, OPAQUE, Compared, against
from mcp_ref.lab.testing.replay_http import ReplayService
from mcp_ref.recording.record import read_trace
from mcp_ref.revisions import REVISIONS
from mcp_ref.wire import messages
from tests.interop import programs
from tests.interop.judged import walk
from tests.lab.testing.recording import ROOT, recorded
from tests.support.wire import at_once

ERAS = ["2025-11-25", "2026-07-28"]
LESSONS = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
WITHOUT_A_RECORDER = {"00", "10", "13", "29", "30", "31", "36"}
"""Lessons that talk by hand, or in other processes."""
SEAT = {"type": "object", "properties": {"seat": {"type": "string"}}, "required": ["seat"]}


def travel() -> Server:
    server = Server("travel", "1", page_size=2)

    @server.tool()
    def forecast(city: str, days: int = 3) -> dict[str, Any]:
        return {"city": city, "days": [{"sky": "sun"} for _ in range(days)]}

    @server.tool()
    def walk(ctx: Context, steps: int) -> str:
        for step in range(steps):
            ctx.progress(step + 1, steps, f"step {step + 1}")
            ctx.log("info", f"at {step + 1}")
        return "there"

    @server.tool()
    def book(ctx: Context, city: str) -> str:
        answer = ctx.elicit("Which seat?", SEAT)
        return f"{city}: {answer.get('content', {}).get('seat', 'none')}"

    @server.resource("travel://cities", name="cities")
    def cities() -> str:
        return "Lisbon, Oslo"

    @server.prompt()
    def plan(city: str) -> str:
        return f"Plan a trip to {city}"

    return server


def talk(client: Client) -> list[Any]:
    """Return what a client sees that does a bit of everything."""
    seen: list[Any] = [client.list_tools(), client.call_tool("forecast", {"city": "Lisbon"})]
    seen.append(client.call_tool("forecast", {"city": "Oslo", "days": 1}))
    steps: list[Any] = []
    seen.append(client.call_tool("walk", {"steps": 2}, on_progress=lambda *step: steps.append(step)))
    seen += [steps, client.call_tool("book", {"city": "Rome"}), client.read_resource("travel://cities")]
    seen.append(client.get_prompt("plan", {"city": "Oslo"}))
    with pytest.raises(ErrorResponse) as refused:
        client.request("tools/call", {"name": "fly", "arguments": {}})
    return [*seen, refused.value.code, str(refused.value)]


def connected(target: Any, revision: str | None, **options: Any) -> Client:
    logs: list[Any] = []
    options = {"elicit": lambda message, schema: {"seat": "aisle"}, "on_log": logs.append, **options}
    return Client(target, revision=revision, timeout=10, **options)


ALL = [*REVISIONS, None]


@pytest.fixture(params=ALL, ids=str)
def revision(request: pytest.FixtureRequest) -> str | None:
    value: str | None = request.param
    return value


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def record(trace: Path, revision: str | None, do: Callable[[Client], Any] = talk, **options: Any) -> Any:
    with Recorder(trace, exact=True) as recorder, connected(travel(), revision, trace=recorder, **options) as client:
        return do(client)


def replayed(replay: Replay, revision: str | None, do: Callable[[Client], Any] = talk) -> Any:
    """Return what a client sees of a recording in which all is found that it asks."""
    with connected(replay, revision) as client:
        seen = do(client)
    assert replay.mismatches == []
    return seen


def without_asking(client: Client) -> list[Any]:
    return [
        client.list_tools(),
        client.call_tool("forecast", {"city": "Lisbon"}),
        client.call_tool("walk", {"steps": 2}),
    ]


def of(revision: str | None) -> Callable[[Client], list[Any]]:
    return without_asking if revision in ("2024-11-05", "2025-03-26") else talk


# -- a recorded server


def test_a_replay_answers_as_the_server_did_in_each_revision(trace: Path, revision: str | None) -> None:
    seen = record(trace, revision, of(revision))
    replay = Replay(trace)
    assert replayed(replay, revision, of(revision)) == seen
    assert (replay.unused, replay.notes) == ([], [])


@pytest.mark.parametrize("revision", ["2025-03-26", *ERAS])
def test_a_replay_answers_over_http_too(trace: Path, revision: str) -> None:
    seen = record(trace, revision, of(revision))
    with served(replay := Replay(trace)) as url, connected(url, revision) as client:
        assert of(revision)(client) == seen
    assert (replay.mismatches, replay.unused) == ([], [])


def test_a_replay_over_http_reads_a_body_in_chunks(trace: Path) -> None:
    record(trace, "2026-07-28")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    body = json.dumps(message).encode()
    with served(Replay(trace)) as url:
        answer = requests.post(url, data=iter([body[:1], body[1:]]), timeout=5)
    assert (answer.json()["id"], "tools" in answer.json()["result"]) == (1, True)


@contextmanager
def served(replay: Replay) -> Iterator[str]:
    service = ReplayService(replay)
    try:
        yield service.url
    finally:
        service.close()


@pytest.mark.parametrize("revision", ERAS)
def test_what_either_side_has_recorded_over_http_is_replayed_in_memory(trace: Path, revision: str) -> None:
    server, own = travel(), trace.with_name("own.jsonl")
    server.trace = Recorder(own, exact=True)
    with server.serve_http(port=0) as service, Recorder(trace, forms=True) as recorder:
        with connected(service.url, revision, trace=recorder) as client:
            seen = talk(client)
    server.trace.close()
    for recording in (trace, own):
        assert replayed(Replay(recording), revision) == seen


@pytest.mark.parametrize("revision", ERAS)
def test_what_is_not_recorded_is_told_with_the_nearest_and_the_first_difference(trace: Path, revision: str) -> None:
    record(trace, revision)
    seq = next(e.seq for e in read_trace(trace) if isinstance(e.message, dict) and "Oslo" in json.dumps(e.message))
    with connected(replay := Replay(trace), revision) as client, pytest.raises(ErrorResponse) as refused:
        client.call_tool("forecast", {"city": "Porto", "days": 1})
    told = f'tools/call: the nearest is event {seq}: params.arguments.city: recorded "Oslo", here "Porto"'
    assert (refused.value.code, replay.mismatches) == (-32603, [told])
    assert told in str(refused.value)


@pytest.mark.parametrize("revision", ERAS)
def test_a_call_is_answered_as_often_as_it_was_recorded_and_a_list_as_often_as_wanted(
    trace: Path, revision: str
) -> None:
    record(trace, revision, without_asking)
    with connected(replay := Replay(trace), revision, cache=False) as client:
        assert client.list_tools() == client.list_tools()
        client.call_tool("forecast", {"city": "Lisbon"})
        with pytest.raises(ErrorResponse, match="recorded 1 time, and asked once more; the last is event"):
            client.call_tool("forecast", {"city": "Lisbon"})
    assert len(replay.mismatches) == 1


def test_what_nobody_asked_for_is_named(trace: Path) -> None:
    record(trace, "2026-07-28", without_asking)
    with connected(replay := Replay(trace), "2026-07-28") as client:
        client.request("tools/call", {"name": "forecast", "arguments": {"city": "Lisbon"}})
    assert [each.partition(": ")[2] for each in replay.unused] == ["tools/list", "tools/list", "tools/call"]


def test_a_strict_replay_wants_the_recorded_order(trace: Path) -> None:
    record(trace, "2026-07-28", without_asking)
    with connected(Replay(trace, strict=True), "2026-07-28") as client:
        with pytest.raises(ErrorResponse, match=r"event \d+, tools/list, comes first"):
            client.call_tool("forecast", {"city": "Lisbon"})
        client.list_tools()
        client.call_tool("forecast", {"city": "Lisbon"})


def test_the_clients_answer_is_compared_with_the_recorded_one(trace: Path) -> None:
    record(trace, "2025-11-25")
    with connected(replay := Replay(trace), "2025-11-25", elicit=lambda message, schema: {"seat": "window"}) as client:
        talk(client)
    told = 'answer.result.content.seat: recorded "aisle", here "window"'
    assert replay.mismatches == [f"the answer to elicitation/create: {told}"]


def test_a_round_with_another_answer_is_not_in_the_recording(trace: Path) -> None:
    record(trace, "2026-07-28")
    with connected(replay := Replay(trace), "2026-07-28", elicit=lambda message, schema: {"seat": "window"}) as client:
        with pytest.raises(ErrorResponse):
            client.call_tool("book", {"city": "Rome"})
    assert 'content.seat: recorded "aisle", here "window"' in replay.mismatches[0]


@pytest.mark.parametrize("meta", [{"progressToken": "another"}, {}], ids=["with a token", "without"])
def test_progress_goes_to_the_token_of_the_live_request(trace: Path, meta: dict[str, Any]) -> None:
    record(trace, "2025-11-25")
    player = Player(turns_of(trace)[0])
    walk = copy.deepcopy(next(turn.sent for turn in player.turns if turn.sent.get("params", {}).get("name") == "walk"))
    walk["params"]["_meta"] = meta
    said = [message for _, message in player.take(walk, lambda message: None)]
    tokens = [each["params"]["progressToken"] for each in said if each.get("method") == "notifications/progress"]
    assert tokens == [*meta.values()] * 2
    assert said[-1]["id"] == walk["id"]


def test_two_requests_at_once_get_each_its_own_answer(trace: Path) -> None:
    def both(client: Client) -> dict[str, Any]:
        cities = ("Lisbon", "Oslo")
        found = at_once(*(partial(client.call_tool, "forecast", {"city": city}) for city in cities))
        return dict(zip(cities, found, strict=True))

    assert record(trace, "2025-11-25", both) == replayed(Replay(trace), "2025-11-25", both)


def test_a_batch_is_taken_apart(trace: Path) -> None:
    def batch(client: Client) -> list[Any]:
        calls = [("tools/call", {"name": "forecast", "arguments": {"city": city}}) for city in ("Lisbon", "Oslo")]
        return client.request_batch(calls)

    seen = record(trace, "2025-03-26", batch)
    with connected(Replay(trace), "2025-03-26") as client:
        assert batch(client) == seen
    with connected(Replay(trace), "2025-03-26") as client:
        city = {"name": "forecast", "arguments": {"city": "Oslo"}}
        assert client.request("tools/call", city) == seen[1]


def test_what_follows_a_request_that_was_given_up_belongs_to_what_was_asked_last(trace: Path) -> None:
    said = [
        ("send", {"id": 1, "method": "tools/call", "params": {"name": "slow"}}),
        ("send", {"method": "notifications/cancelled", "params": {"requestId": 1}}),
        ("send", {"id": 2, "method": "ping"}),
        ("receive", {"id": 2, "result": {}}),
        ("receive", {"method": "notifications/tools/list_changed"}),
    ]
    row = {"time": "2026-01-01T09:00:00Z", "thread": "main", "peer": "server", "transport": "stdio", "conn": 1}
    rows = [
        row | {"seq": seq, "direction": direction, "message": {"jsonrpc": "2.0", **message}}
        for seq, (direction, message) in enumerate(said, 1)
    ]
    trace.write_text("".join(f"{json.dumps(each)}\n" for each in rows), "utf-8")
    player = Player(turns_of(trace)[0])
    answers = [[given for _, given in player.take(each["message"], print)] for each in rows[:3]]
    assert answers == [[], [], [each["message"] for each in rows[3:]]]


NO_MESSAGE = [
    b"no json", b"[1]", b'"text"', b'{"jsonrpc":"2.0","id":1,"method":3}', b"5",
    b'{"jsonrpc":"2.0","id":[],"method":"ping"}',
]  # fmt: skip


def test_what_is_no_message_gets_an_error_over_http_too(trace: Path, caplog: pytest.LogCaptureFixture) -> None:
    record(trace, "2025-11-25", without_asking)
    with served(Replay(trace)) as url:
        opened = requests.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize"}, timeout=5)
        for session in ({}, {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}):
            for message in (*NO_MESSAGE, b'[{"jsonrpc":"2.0","id":1,"method":"ping"},7]'):
                answer = requests.post(url, data=message, headers=session, timeout=5)
                said = answer.json()
                assert answer.status_code == 400
                last = said[-1] if isinstance(said, list) else said
                assert last["error"]["code"] in (-32700, -32600)
                assert len(said) == 2 or not isinstance(said, list) or message == b"[1]"
    assert "Traceback" not in caplog.text


def test_the_sessions_and_what_was_not_recorded_are_kept_up_to_a_bound(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(trace, "2025-11-25", without_asking)
    monkeypatch.setattr(replay_http, "_MAX_SESSIONS", 2)
    monkeypatch.setattr(replay_module, "_MAX_MISMATCHES", 6)
    replay = Replay(trace)
    with served(replay) as url:
        opens = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
        ids = [requests.post(url, json=opens, timeout=5).headers["mcp-session-id"] for _ in range(3)]
        ask = {"jsonrpc": "2.0", "id": 2, "method": "x" * 100_000}
        codes = [requests.post(url, json=ask, headers={"Mcp-Session-Id": id}, timeout=5).status_code for id in ids * 3]
    assert codes == [404, 200, 200] * 3
    assert [len(each) for each in replay.mismatches[3:]] == [1_000] * 3


# -- a random conversation


CITY = st.text("Lisbon Ωslo\n\"'", max_size=8)
ARGUMENTS = st.fixed_dictionaries({}, optional={"city": CITY, "steps": st.integers(0, 2)})
STEP = st.one_of(
    st.tuples(
        st.just("tools/call"),
        st.fixed_dictionaries({"name": st.sampled_from(["forecast", "walk", "fly"]), "arguments": ARGUMENTS}),
    ),
    st.tuples(st.sampled_from(["tools/list", "resources/list"]), st.just({})),
    st.tuples(
        st.just("prompts/get"),
        st.fixed_dictionaries({"name": st.just("plan"), "arguments": st.fixed_dictionaries({"city": CITY})}),
    ),
    st.tuples(
        st.just("resources/read"),
        st.fixed_dictionaries({"uri": st.sampled_from(["travel://cities", "travel://no"])}),
    ),
)


@given(st.sampled_from(ERAS), st.lists(STEP, max_size=6))
def test_any_conversation_that_is_recorded_is_replayed_alike(
    tmp_path_factory: pytest.TempPathFactory, revision: str, steps: list[tuple[str, Any]]
) -> None:
    def do(client: Client) -> list[Any]:
        seen: list[Any] = []
        for method, params in steps:
            try:
                seen.append(client.request(method, copy.deepcopy(params)))
            except McpError as problem:
                seen.append(repr(problem))
        return seen

    trace = tmp_path_factory.mktemp("any") / "trace.jsonl"
    seen = record(trace, revision, do, cache=False)
    with connected(replay := Replay(trace), revision, cache=False) as client:
        assert do(client) == seen
    assert replay.mismatches == []
    assert against(turns_of(trace)[0], travel()).differences == []


# -- edits


def leaves(value: Any, at: str) -> Iterator[tuple[list[Any], str]]:
    """The ways to the values in a message that are compared, and how a difference there is told."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name not in IGNORED | OPAQUE | {"protocolVersion", "clientInfo"}:
                yield from (([name, *way], told) for way, told in leaves(each, f"{at}.{name}"))
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from (([n, *way], told) for way, told in leaves(each, f"{at}[{n}]"))
    else:
        yield [], at


def places(trace: Path) -> Iterator[tuple[int, list[Any], str]]:
    """Where a recording can be edited: the row, the way into it, and what is told."""
    for n, row in enumerate(json.loads(line) for line in trace.read_text("utf-8").splitlines()):
        message = row["message"]
        if "id" not in message:
            continue
        part = next((name for name in ("params", "result", "error") if name in message), "")
        if not part or message.get("method") == "initialize" or ("method" in message and row["direction"] == "receive"):
            continue  # not compared: what a client is, and how a server asks
        told = part if "method" in message else f"answer.{part}"
        yield from ((n, ["message", part, *way], name) for way, name in leaves(message[part], told))


@pytest.mark.parametrize("revision", ERAS)
def test_edits_of_a_recording_are_each_told_at_the_first_difference(trace: Path, revision: str) -> None:
    record(trace, revision)
    rows, turns = trace.read_text("utf-8").splitlines(), turns_of(trace)[0]
    found = list(places(trace))
    chosen = random.Random(7)
    for n, way, told in [chosen.choice(found) for _ in range(40)]:
        row = json.loads(rows[n])
        inner = row
        for name in way[:-1]:
            inner = inner[name]
        inner[way[-1]] = "edited" if not isinstance(inner[way[-1]], str) else inner[way[-1]] + " edited"
        edited = trace.with_name("edited.jsonl")
        edited.write_text("\n".join([*rows[:n], json.dumps(row), *rows[n + 1 :], ""]), "utf-8")
        replay = Replay(edited)
        differences = against(turns, replay, timeout=5).differences
        said = replay.mismatches or differences
        assert f"{told}: " in said[0], said
        assert f"event {row['seq']}" in said[0] or "method" not in row["message"]


# -- a recorded client


def test_the_same_server_shows_no_difference(trace: Path, revision: str | None) -> None:
    record(trace, revision, of(revision))
    turns, _ = turns_of(trace)
    assert against(turns, travel()) == Compared([], sum(turn.answered is not None for turn in turns))


@pytest.mark.parametrize("revision", ["2025-03-26", *ERAS])
def test_the_recorded_client_asks_over_http_too(trace: Path, revision: str) -> None:
    record(trace, revision, of(revision))
    with travel().serve_http(port=0) as service:
        compared = against(turns_of(trace)[0], service.url)
    assert compared.differences == []
    assert compared.answers > 3


@pytest.mark.parametrize("revision", ERAS)
def test_a_server_that_has_changed_is_told_at_the_first_difference_of_each_answer(trace: Path, revision: str) -> None:
    record(trace, revision)
    changed = travel()
    changed.unregister("prompts", "plan")

    @changed.prompt()
    def plan(city: str) -> str:
        return f"A trip to {city}"

    told = against(turns_of(trace)[0], changed).differences
    assert len(told) == 1
    assert 'prompts/get: answer.result.messages[0].content.text: recorded "Plan a trip to Oslo"' in told[0]
    assert against(turns_of(trace)[0], changed, ignore=["text"]).differences == []


def test_a_cursor_that_differs_is_brought_back_as_the_live_server_gave_it(trace: Path) -> None:
    record(trace, "2025-11-25", lambda client: client.list_tools())
    other = trace.with_name("other.jsonl")
    (cursor,) = {
        each.message["result"]["nextCursor"]
        for each in read_trace(trace)
        if isinstance(each.message, dict) and "nextCursor" in each.message.get("result", {})
    }
    other.write_text(trace.read_text("utf-8").replace(cursor, "elsewhere"), "utf-8")
    replay = Replay(other)
    assert against(turns_of(trace)[0], replay).differences == []
    assert replay.mismatches == []


def test_a_server_that_ends_in_between_is_told(trace: Path) -> None:
    record(trace, "2025-11-25")
    opens = next(each for each in read_trace(trace) if each.direction == "receive").message
    program = f"import sys; sys.stdin.readline(); print({json.dumps(json.dumps(opens))}, flush=True)"
    program = program.replace(f'\\"id\\": {opens["id"]}', '\\"id\\": 1')  # type: ignore[index, call-overload]
    told = against(turns_of(trace)[0], [sys.executable, "-c", program]).differences
    assert "the server is gone" in told[-1]


def test_a_server_that_cannot_be_started_is_an_error(trace: Path) -> None:
    record(trace, "2025-11-25")
    with pytest.raises(TransportClosed):
        against(turns_of(trace)[0], ["/nowhere/to/be/found"])


def test_a_server_that_says_nothing_is_told_in_bounded_time(trace: Path) -> None:
    record(trace, "2025-11-25")
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    assert "no answer in 0.2 s" in against(turns_of(trace)[0], silent, timeout=0.2).differences[0]


WRONG: dict[str, str] = {
    "a number": "7", "a list of anything": "[1, null, [], {}]", "text": '"text"', "no JSON": "{]",
    "an odd id": '{"id": []}',
    "an odd method": '{"id": 1, "method": {}}', "a question with an odd id": '{"id": {}, "method": "roots/list"}',
    "no result": '{"id": $id}', "a result that is a list": '{"id": $id, "result": [1]}',
    "an error that is text": '{"id": $id, "error": "bad"}',
    "an odd revision": '{"id": $id, "result": {"protocolVersion": []}}',
    "a revision that nobody knows": '{"id": $id, "result": {"protocolVersion": "2099-01-01"}}',
    "odd members": '{"id": $id, "result": {"nextCursor": {}, "taskId": [], "tools": 5, "content": null}}',
    "an id that is true": '{"id": true, "result": {}}', "an error about nothing": '{"id": null, "error": {"code": 1}}',
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_whatever_a_wrong_server_says_is_a_difference(trace: Path, wrong: str) -> None:
    record(trace, "2025-11-25", without_asking)

    def answer(request: HttpRequest, reply: HttpReply) -> None:
        id = messages.readable_id(json.loads(request.body or b"null"))
        reply.send(200 if id else 202, {"Content-Type": "application/json"}, wrong.replace("$id", str(id)).encode())

    server = HttpServer({"/mcp": answer}, "127.0.0.1", 0, HttpLimits())
    server.start()
    try:
        url = f"http://127.0.0.1:{server.address[1]}/mcp"
        assert against(turns_of(trace)[0], url, timeout=0.1).differences
    finally:
        server.close(5)


# -- what cannot be replayed


def test_what_redaction_hid_is_said_at_the_start_and_fits_anything(trace: Path) -> None:
    with connected(travel(), "2025-11-25", trace=trace) as client:
        seen = talk(client)
    replay = Replay(trace)
    assert [note.partition(": event")[0] for note in replay.notes] == ["is hidden and fits anything"]
    with connected(replay, "2025-11-25", elicit=lambda message, schema: {"seat": "window"}) as client:
        assert talk(client) == seen
    assert replay.mismatches == []


@pytest.mark.parametrize("hidden, given, fits", [
    ("[redacted]", {"any": "thing"}, True),
    ("https://[redacted]@example.com/", "https://user:word@example.com/", True),
    ("https://[redacted]@example.com/", "https://user:word@example.org/", False),
    ("abcdefghijkl... [40 characters, 1a2b]", "abcdefghijklmnopqrstuvwxyz", True),
    ("abcdefghijkl... [40 characters, 1a2b]", "bbcdefghijklmnopqrstuvwxyz", False),
    ("a[redacted]b[redacted]b", "axbb", True), ("a[redacted]b[redacted]b", "axb", False),
    ("ab[redacted]ba", "aba", False), ("[redacted]b[redacted]a", "ab", False), ("[redacted]b[redacted]a", "b\na", True),
])  # fmt: skip
def test_a_text_of_which_parts_are_hidden_is_compared_in_the_others(hidden: str, given: Any, fits: bool) -> None:
    assert (difference(hidden, given, "at") is None) == fits


def test_many_hidden_parts_are_looked_for_in_turn() -> None:
    began = time.thread_time()
    assert difference("[redacted]a" * 2_000, "a" * 4_000 + "b", "at")
    assert time.thread_time() - began < 1


@pytest.mark.parametrize("one, other", [(1, True), (0, False), (1, "1"), ([], {}), ([1], [1, 2]), (None, 0)])
def test_values_of_different_kinds_differ(one: Any, other: Any) -> None:
    assert difference(one, other, "at") is not None


BAD = {
    "empty": (lambda text: "", "no message of a client is in it"),
    "of blank lines": (lambda text: "\n\n", "no message of a client is in it"),
    "no trace": (lambda text: "Dear diary\n", ":1: "),
    "cut off": (lambda text: text[:-40], "Unterminated|not JSON"),
    "of another revision": (lambda text: text.replace("2025-11-25", "2031-01-01"), "'2031-01-01', which is not known"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_file_that_cannot_be_replayed_is_refused_in_one_sentence(
    trace: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record(trace, "2025-11-25", without_asking)
    spoil, says = BAD[how]
    trace.write_text(spoil(trace.read_text("utf-8")), "utf-8")
    with pytest.raises(ValueError, match=says) as refused:
        Replay(trace)
    assert str(trace) in str(refused.value)
    assert main(["replay", str(trace)]) == 2
    assert main(["replay", str(trace), "--against", "--", "true"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing.jsonl"):
        Replay(tmp_path / "nothing.jsonl")
    assert main(["replay", str(tmp_path / "nothing.jsonl")]) == 2


def test_what_only_looks_like_a_replay_is_no_target() -> None:
    with pytest.raises(TypeError, match="a client's target must be"):
        Client(Client(travel()))  # type: ignore[arg-type]


# -- the command


def replaying(trace: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "mcp_ref", "replay", str(trace), *more]


def test_a_recording_that_is_nested_too_deeply_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / "deep.jsonl"
    event = {
        "seq": 1, "time": "2026-01-01T00:00:00.000000Z", "thread": "t", "direction": "send", "peer": "server",
        "transport": "stdio", "message": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"a": "DEEP"}},
    }  # fmt: skip
    deep.write_text(json.dumps(event).replace('"DEEP"', "[" * 5_000 + "]" * 5_000) + "\n", "utf-8")
    assert main(["replay", str(deep)]) == 2
    assert "nested too deeply" in capsys.readouterr().err


def test_the_command_is_a_server_over_stdio(trace: Path) -> None:
    seen = record(trace, "2025-11-25")
    with connected(replaying(trace), "2025-11-25") as client:
        assert talk(client) == seen


def test_the_command_takes_any_line_and_exits_with_3_when_something_was_not_recorded(trace: Path) -> None:
    record(trace, "2025-11-25", without_asking)
    lines = b"\n".join([*NO_MESSAGE, b'{"jsonrpc":"2.0","id":1,"method":"prompts/list"}', b""])
    done = subprocess.run(replaying(trace), input=lines, capture_output=True, timeout=60, check=False)
    assert done.returncode == 3
    codes = [json.loads(line)["error"]["code"] for line in done.stdout.splitlines()]
    assert len(codes) == len(NO_MESSAGE) + 1 and {*codes[:-1]} == {-32700, -32600}
    assert b"not in the recording: prompts/list: the recording has initialize, tools/call, tools/list" in done.stderr
    assert b"not asked for: event 1: initialize" in done.stderr


def test_against_prints_each_difference_and_exits_with_3(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(trace, "2025-11-25", without_asking)
    other, against_it = trace.with_name("other.jsonl"), ["replay", str(trace), "--against"]
    other.write_text(trace.read_text("utf-8").replace("sun", "rain"), "utf-8")
    same = main([*against_it, "--", *replaying(trace)])
    assert (same, capsys.readouterr().out) == (0, "0 differences in 5 answers\n")
    with served(Replay(other)) as url:
        assert main([*against_it, "--", url]) == 3
        assert 'recorded "' in capsys.readouterr().out
    with served(Replay(other)) as url:
        assert main([*against_it, "--ignore", "text", "--ignore", "sky", "--", url]) == 0


@pytest.mark.parametrize("words", [["--against"], ["--", "true"], ["--http", "--against", "--", "true"]])
def test_words_that_do_not_go_together_are_refused(trace: Path, words: list[str]) -> None:
    record(trace, "2025-11-25", without_asking)
    assert main(["replay", str(trace), *words]) == 2


# -- what others have recorded


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_each_recorded_lesson_is_replayed_with_no_difference(lesson: Path, tmp_path: Path) -> None:
    traces = recorded(lesson, tmp_path)
    assert traces or lesson.name[:2] in WITHOUT_A_RECORDER
    for trace in traces:
        alike(trace)


def alike(trace: Path) -> None:
    replay = Replay(trace)
    assert against(turns_of(trace)[0], replay, timeout=5).differences == []
    assert (replay.mismatches, replay.unused) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("words", [*([] if each is None else ["--revision", each] for each in ALL), ["--http"]])
def test_the_recorded_demo_is_replayed_with_no_difference(trace: Path, words: list[str]) -> None:
    assert main(["demo", "--all", "--trace", str(trace), *words]) == 0
    alike(trace)


@pytest.mark.slow
def test_a_client_of_the_official_sdk_sees_no_difference(trace: Path) -> None:
    between = [sys.executable, "-m", "mcp_ref", "check", "--exact", "--trace", str(trace), "--"]
    server = [*between, *programs.our_server("2025-11-25")]
    pair = programs.Pair(programs.NEW_SDK, programs.OURS, "stdio", "2025-11-25")
    seen = walk(pair, server)
    assert len(seen) > 70 and walk(pair, replaying(trace)) == seen
