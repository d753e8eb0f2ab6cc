"""Each case of the probe fails against a peer that is wrong in that one thing, and only that case does."""

from __future__ import annotations

import json
import socket
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import Recorder
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.lab.testing.cases_client import CURSORS, Outcome, cursors_come_back
from mcp_ref.lab.testing.probe import Probe, cases, judge, row_of_case
from mcp_ref.lab.testing.probe_client import Far, ProbeClient, _look, _OverStdio
from mcp_ref.lab.testing.raw_talk import Unmet
from mcp_ref.lab.testing.reports import Row
from mcp_ref.recording.record import TraceEvent
from tests.lab.testing import faulty, full
from tests.lab.testing.faulty import FAULTS, GUARDED, HTTP_FAULTS, over_http, over_stdio
from tests.lab.testing.test_probe import OPTIONS, probed
from tests.slow import slow_but
from tests.support.clock import until

pytestmark = pytest.mark.usefixtures("no_process_is_left")

LIMIT = 2.0  # a third of the seconds that a client's program with a fault may take; one without ends by itself
PATIENCE = 10.0  # the seconds where the client has to give up by itself, which takes it 3
QUICK = {
    "frames/unknown-method",
    "frames/unknown-notification",
    "ping/answered",
    "stdio/clean-output",
    "http/origin",
    "http/session-id",
    "stdio/end-of-input",
}
SERVERS = sorted(FAULTS.keys() | HTTP_FAULTS.keys())
WITHOUT = {"http/header-case": "the server beneath reads names of headers in lower case before it can be wrong"}
"""Cases that no fault here is for, and why."""
JUDGED: dict[str, set[str]] = {
    "opening/discover": {"schema"},
    "opening/version-kept": {"schema"},
}
"""By the name of a case, the rules by which the checker finds the same fault outside it, too."""
SOMETIMES = {name: {"notifications_are_not_answered"} for name in ("cancel/unknown", "frames/unknown-notification")}
"""And those by which it may: an error without an id may be the answer to a request, if one has come by then."""
BESIDE: dict[str, dict[str, str]] = {
    "stateless/listen": {"stateless/listen-cancelled": "what has not begun is not seen to end"},
    "tools/list-twice": {"pagination/walk": "pages in another order are not the same pages"},
}  # fmt: skip
"""By the name of a case, what else its fault breaks by nature, and why."""


def faulty_rows(name: str, *only: str) -> list[Row]:
    """The rows of all cases of a revision, or some, against the server that has the fault of a case."""
    headers = GUARDED if name == "auth/unauthorized" else {}
    options = OPTIONS._replace(only=only, inherit=True, timeout=5, headers=headers)
    case = next(each for each in cases("server") if each.name == name)
    wanted = () if "stateless alone" in case.needs else ([*case.sentences][-1],)
    with over_http(name) if name in HTTP_FAULTS else over_stdio(name) as target:
        return probed(target, wanted, options)


def beside(name: str, names: list[str]) -> list[str]:
    """The cases that are played beside the fault of one: a third, so that each meets the faults of a third."""
    third = names.index(name) % 3
    return [each for at, each in enumerate(names) if at % 3 == third]


def test_each_case_has_a_fault_or_says_why_not() -> None:
    assert {case.name for case in cases("server")} == {*SERVERS, *WITHOUT}


@pytest.mark.parametrize("name", sorted(QUICK & {*SERVERS}))
def test_a_case_fails_against_a_server_with_its_fault(name: str) -> None:
    rows = [row for row in faulty_rows(name, name) if row.name == name]
    assert unmet(rows) == {name}, rows


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVERS)
def test_only_its_case_fails_against_a_server_with_a_fault(name: str) -> None:
    rows = faulty_rows(name, *beside(name, SERVERS), *BESIDE.get(name, ()))
    assert unmet(rows) - SOMETIMES.get(name, set()) == {name, *JUDGED.get(name, ()), *BESIDE.get(name, ())}, [
        (row.name, row.verdict, row.says) for row in rows if row.verdict not in ("pass", "skip")
    ]
    assert all(row.says and "\n" not in row.says for row in rows if row.verdict in ("fail", "warn"))
    assert sum(row.verdict == "pass" for row in rows) > 4


def unmet(rows: list[Row]) -> set[str]:
    """Return what failed; no case went wrong."""
    assert not [row for row in rows if row.verdict == "error"], rows
    return {row.name for row in rows if row.verdict in ("fail", "warn")}


def test_what_one_case_allows_is_not_allowed_in_the_next_one() -> None:
    assert unmet(faulty_rows("frames/not-json", "ids/null", "frames/not-json")) == {"frames/not-json"}


def test_a_batch_may_be_answered_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [*faulty.refused({"id": "b"}, -32601), *faulty.ok({"id": "a"}, {})]
    monkeypatch.setitem(faulty.FAULTS, "frames/batch", lambda: faulty.raw(lambda raw: raw.startswith(b"[{"), answers))
    assert [(row.name, row.verdict) for row in faulty_rows("frames/batch", "frames/batch")] == [
        ("frames/batch", "pass")
    ]


def endpoint_first(request: Any, reply: Any) -> Any:
    return faulty.stream(reply, "event: endpoint\ndata: /messages") if request.method == "GET" else reply


RIGHT = {
    "sse/endpoint": endpoint_first,
    "http/stream-headers": partial(faulty.held_back, **{"X-Accel-Buffering": "no"}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_server_that_does_what_ours_need_not_do_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HTTP_FAULTS, name, lambda: RIGHT[name])
    assert [(row.name, row.verdict) for row in faulty_rows(name, name)] == [(name, "pass")]


def test_a_server_that_is_gone_is_told_once() -> None:
    service = full.server.serve_http(port=0)
    with Recorder() as recorder:
        probe = Probe(service.url, OPTIONS, recorder)
        assert probe.find() == ["2026-07-28", "2025-11-25"]
        rows = probe.run("2026-07-28")
        assert next(rows).verdict == "pass"
        service.close()
        *rest, last = rows
        assert (last.name, last.verdict, last.ids) == ("server/gone", "fail", ())
        assert {row.verdict for row in rest} <= {"skip"} and len(rest) < 3, rest
        assert list(probe.run("2025-11-25")) == []
        probe.close()


def test_a_server_that_answers_everything_but_a_ping_fails_that_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(faulty.FAULTS, "ping/empty", lambda: faulty.on("ping", lambda message: []))
    with over_stdio("ping/empty") as target:
        only = ("ping", "meta", "frames/unknown-method", "tools/unknown")
        rows = probed(target, ("2025-11-25",), OPTIONS._replace(only=only, timeout=0.5))
    assert unmet(rows) == {"ping/empty"}, rows
    assert sum(row.verdict == "pass" for row in rows) == 3


def test_the_id_of_a_session_comes_with_the_answer_to_initialize_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(request: Any, reply: Any) -> Any:
        message = faulty.parsed(request.body) if request.method == "POST" else None
        if not isinstance(message, dict) or message.get("method") != "ping":
            return reply
        headers = {"Content-Type": "application/json", "Mcp-Session-Id": "of-a-ping"}
        reply.send(200, headers, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode())
        return None

    monkeypatch.setitem(HTTP_FAULTS, "http/no-session-id", lambda: named)
    own = full.server.serve_http(port=0, sessions=False)
    monkeypatch.setattr(faulty.full.server, "serve_http", lambda **more: own)
    rows = faulty_rows("http/no-session-id", "http/no-session-id", "ping")
    assert [(row.name, row.verdict, row.says) for row in rows] == [
        ("ping/empty", "pass", ""), ("http/no-session-id", "skip", "the server has no sessions")
    ]  # fmt: skip


def test_what_a_case_and_a_rule_find_has_one_row_with_the_worse_verdict() -> None:
    rows = faulty_rows("prompts/missing-argument", "prompts/missing-argument")
    (row,) = [row for row in rows if row.verdict != "pass"]
    assert (row.name, row.verdict) == ("prompts/missing-argument", "warn")
    assert row.says.startswith("prompts/get: ") and " missing_arguments_are_refused: " in row.says


# -- clients


@pytest.mark.parametrize(
    "asked, right",
    [
        ([None, *CURSORS], True), ([None, None, *CURSORS[1:]], True), ([None, *CURSORS, None], True),
        ([None, *CURSORS[:3]], False), ([None, "a", *CURSORS[1:]], False), ([None, CURSORS[0].upper()], False),
    ],
)  # fmt: skip
def test_a_client_may_ask_for_the_first_page_again(asked: list[Any], right: bool) -> None:
    said = [{"method": "tools/list", "params": {} if each is None else {"cursor": each}} for each in asked]
    outcome = Outcome("2025-11-25", said=said)
    if right:
        cursors_come_back(outcome, outcome)
    else:
        with pytest.raises(Unmet, match="cursors"):
            cursors_come_back(outcome, outcome)


CLIENTS = sorted(case.name for case in cases("client"))
DECLARING = ("roots/file-uris", "elicitation/answer-fits", "sampling/mixed-results")
"""Cases for a client that declares something."""
LONG = {"cancel/late-answer", "cancel/never-answered", "opening/slow", "rounds/endless", "stdio/stubborn-server"}
"""Cases that take seconds, and are played with their own faults alone."""
JUDGED_CLIENTS = {
    "elicitation/answer-fits": {"schema"},
    "http/accept": {"post_accepts_json_and_streams"},
    "http/version-header": {"post_names_the_version"},
    "ids/unused": {"id_not_used_before"},
    "opening/first": {"initialize_comes_first"},
    "opening/initialized": {"initialized_is_sent"},
    "opening/waits": {"initialized_is_sent"},
    "pagination/end": {"cursors_go_back_as_they_came"},
}
"""Rules by which the checker finds the same fault in the other cases that are played, if they come as far."""
BESIDE_CLIENTS = {
    "opening/waits": {
        "opening/initialized": "what is sent too soon comes before it",
    },
}
ALONE = {"http/get-405": "a client that has given up does nothing more, so that nearly each case fails"}
"""Faults with which no other case is played, and why."""


def played(name: str, fault: str, *only: str) -> list[Row]:
    """The rows of a case, or some, against the client with a fault; "-" has none."""
    case = next(each for each in cases("client") if each.name == name)
    revision = "2025-11-25" if "2025-11-25" in case.sentences else [*case.sentences][-1]
    events: list[TraceEvent] = []
    with Recorder(events.append, exact=True) as recorder:
        probe = ProbeClient(
            command(fault), case.over == "http", recorder, timeout=LIMIT if fault != "-" else 10.0,
            only=only or [name], patience=PATIENCE,
        )  # fmt: skip
        # What it does without the case is what the one without a fault does.
        plain = fault if name in DECLARING else "-"
        with Recorder() as recorder:
            probe._plain[revision] = ProbeClient(command(plain), case.over == "http", recorder).play(revision, ())
        if case.rules:
            probe.play(revision, ())
        rows = list(probe.run(revision))
    return judge(rows, events, probe.marks, "client", [revision], probe.chosen)


def command(fault: str) -> list[str]:
    return [sys.executable, "-I", str(Path(__file__).with_name("faulty_client.py")), fault, "{target}"]


@pytest.mark.parametrize("name", slow_but(QUICK, sorted((QUICK & {*CLIENTS}) | ALONE.keys())))
def test_a_case_fails_against_a_client_with_its_fault(name: str) -> None:
    rows = [row for row in played(name, name) if row.name == name]
    assert unmet(rows) == {name}, rows


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CLIENTS if name not in ALONE])
def test_only_its_case_fails_against_a_client_with_a_fault(name: str) -> None:
    rows = played(name, name, name, *({*beside(name, CLIENTS), *BESIDE_CLIENTS.get(name, ())} - LONG))
    assert unmet(rows) - JUDGED_CLIENTS.get(name, set()) == {name, *BESIDE_CLIENTS.get(name, ())}, [
        (row.name, row.verdict, row.says) for row in rows if row.verdict not in ("pass", "skip")
    ]
    assert sum(row.verdict == "pass" for row in rows) > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LONG | ALONE.keys()))  # the others pass above, beside each fault
def test_a_case_passes_against_a_client_without_a_fault(name: str) -> None:
    rows = [row for row in played(name, "-") if row.name == name]
    assert not unmet(rows), rows


def test_a_client_that_ends_because_the_time_is_over_has_not_ended_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    def talk(link: socket.socket, deadline: Deadline) -> None:
        assert until(lambda: deadline.left() == 0.0)
        link.close()
        ended.append(0)

    with Recorder() as recorder:
        peer = _OverStdio(Far("2026-07-28", []), recorder)
        monkeypatch.setattr(peer, "_talk", talk)
        child: Any = SimpleNamespace(poll=lambda: ended[0] if ended else None)
        with socket.create_connection(peer._listening.getsockname()):
            peer.serve(0.2, child)
        peer.close()
    assert ended and peer.overdue


LISTED = {"method": "tools/list", "id": 1}
CALLED = {"method": "tools/call", "id": 2}
TOLD = {"method": "notifications/cancelled"}


@pytest.mark.parametrize(
    ("usual", "said", "code", "verdict"),
    [
        ([LISTED, CALLED], [LISTED, CALLED], 0, "fail"),
        ([LISTED, CALLED], [LISTED, TOLD, CALLED], 0, "fail"),
        ([LISTED, CALLED], [LISTED], 0, "pass"),  # its program has caught the error
        ([LISTED, CALLED], [LISTED], 1, "pass"),
        ([LISTED], [LISTED], 1, "pass"),
        ([LISTED], [LISTED], 0, "skip"),
        ([LISTED, CALLED], [LISTED], None, "fail"),
    ],
)
def test_a_client_that_handles_the_error_itself_has_not_taken_the_result(
    usual: list[Any], said: list[Any], code: int | None, verdict: str
) -> None:
    (case,) = cases("client", only=["results/unknown-type"])
    plain, outcome = Outcome("2026-07-28", usual, code=0), Outcome("2026-07-28", said, code=code)
    row = row_of_case(case, "2026-07-28", lambda case, _: _look(case.play[-1], outcome, plain))
    assert row.verdict == verdict
