"""The probe: our own server and client do their duties, its cases are true to the specification; its options."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import REVISIONS, Recorder
from mcp_ref.lab.cli import main
from mcp_ref.lab.testing import cases as functions
from mcp_ref.lab.testing import cases_client, probe_client
from mcp_ref.lab.testing.probe import Probe, cases, judge
from mcp_ref.lab.testing.probe_client import ProbeClient
from mcp_ref.lab.testing.raw_talk import Options, fits
from mcp_ref.lab.testing.reports import Row
from mcp_ref.recording.record import TraceEvent
from tests.lab.testing import full
from tests.lab.testing.faulty import over_stdio
from tests.slow import slow_but

pytestmark = pytest.mark.usefixtures("no_process_is_left")

SHARED = Path(__file__).parents[3].parent / "shared" / "spec"
ALL = [*cases("server"), *cases("client")]
OPTIONS = Options(
    calls="*", reads=True, slow="slow", call=[{"name": "add", "arguments": {"a": 1, "b": 2}}], unknown="no-such-1"
)


def probed(target: Any, revisions: tuple[str, ...] = (), options: Options = OPTIONS) -> list[Row]:
    """Return what comes of probing a server."""
    events: list[TraceEvent] = []
    with Recorder(events.append, exact=True) as recorder:
        probe = Probe(target, options, recorder)
        try:
            rows = [row for revision in probe.find(revisions) for row in probe.run(revision)]
        finally:
            probe.close()
    return judge(rows, events, probe.marks, "server", probe.spoken, probe.chosen)


def unmet(rows: list[Row]) -> list[str]:
    return [f"{row.revision} {row.name}: {row.says}" for row in rows if row.verdict not in ("pass", "skip")]


# -- our own server and client


@pytest.fixture
def url() -> Iterator[str]:
    service = full.server.serve_http(port=0)
    yield service.url
    service.close()


def test_our_server_does_its_duties_over_http(url: str) -> None:
    rows = probed(url)
    assert unmet(rows) == []
    assert sum(row.verdict == "pass" for row in rows) > 90


@pytest.mark.slow
def test_our_server_does_its_duties_in_every_revision_over_http(url: str) -> None:
    assert unmet(probed(url, tuple(REVISIONS))) == []


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_our_server_does_its_duties_over_stdio(revision: str) -> None:
    assert unmet(probed(full.SERVER_COMMAND, (revision,), OPTIONS._replace(inherit=True))) == []


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("http", [False, True])
def test_our_client_does_its_duties(http: bool, revision: str) -> None:
    events: list[TraceEvent] = []
    with Recorder(events.append, exact=True) as recorder:
        probe = ProbeClient(full.CLIENT_COMMAND, http, recorder)
        rows = [row for each in probe.find([revision]) for row in probe.run(each)]
    assert len(rows) > 10 and unmet(judge(rows, events, probe.marks, "client", probe.spoken, probe.chosen)) == []


@pytest.mark.slow
def test_our_client_goes_into_rounds_with_what_it_has_declared() -> None:
    with Recorder() as recorder:
        probe = ProbeClient(full.ANSWERING_COMMAND, False, recorder, timeout=10, only=["rounds"])
        rows = [row for revision in probe.find(["2026-07-28"]) for row in probe.run(revision)]
    assert [(row.name, row.verdict) for row in rows[:2]] == [("rounds/answered", "pass"), ("rounds/no-state", "pass")]


@pytest.mark.slow
def test_our_client_gives_up_where_nobody_answers() -> None:
    hasty = [case.name for case in cases("client", "stdio") if "patience" in case.needs]
    with Recorder() as recorder:
        probe = ProbeClient(full.HASTY_COMMAND, False, recorder, timeout=10, patience=30, only=hasty)
        rows = [row for revision in probe.find() for row in probe.run(revision)]
    assert {row.name for row in rows if row.verdict == "pass"} == {*hasty}
    assert unmet(rows) == []


FLOODS = {
    "long messages": 'say(b\'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\' + b"x" * 1_000_000 + b\'"}}\')',
    "a line without end": "say(b'x' * 1_000_000, b'')",
    "many messages": 'say(b\'{"jsonrpc":"2.0","id":1,"method":"ping"}\')',
}
FLOODING = """
import subprocess, sys, urllib.request
http = "://" in sys.argv[1]
child = None if http else subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
def say(text, end=b"\\n"):
    if http:
        asked = urllib.request.Request(sys.argv[1], text, {{"Content-Type": "application/json"}})
        urllib.request.urlopen(asked).read()
    else:
        child.stdin.write(text + end)
        child.stdin.flush()
say(b'{{"jsonrpc":"2.0","id":1,"method":"ping"}}')
while True:
    {}
"""


@pytest.mark.parametrize(("kind", "http"), [*((kind, False) for kind in FLOODS), ("many messages", True)])
def test_a_client_that_floods_is_not_listened_to_for_long(
    kind: str, http: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_client, "_MAX_SAID", 200)
    events: list[TraceEvent] = []
    with Recorder(events.append, exact=True) as recorder:
        command = [sys.executable, "-c", FLOODING.format(FLOODS[kind]), "{target}"]
        outcome = ProbeClient(command, http, recorder, timeout=2).play("2025-11-25", ())
    assert outcome.code is None
    assert sum(len(json.dumps(each.message)) for each in events if each.direction == "receive") < 5 << 20
    assert len(events) <= 500


# -- the cases


def test_no_two_cases_have_one_name_and_each_has_steps_a_function_or_rules() -> None:
    names = [case.name for case in ALL]
    assert len({(case.role, case.name) for case in ALL}) == len(names)
    known = functions.FUNCTIONS.keys() | cases_client.FUNCTIONS.keys()
    assert known <= {*names}
    assert [case.name for case in ALL if not (case.play or case.rules or case.name in known)] == []


def sentences() -> dict[str, Any]:
    files = [(SHARED / name / "requirements.jsonl").read_text("utf-8").splitlines() for name in REVISIONS]
    return {row["id"]: row for lines in files for line in lines for row in [json.loads(line)]}


@pytest.mark.skipif(not SHARED.exists(), reason="the sentences of the specification are not beside this checkout")
def test_the_sentences_of_the_cases_are_there_and_none_is_held_higher_than_it_says() -> None:
    levels = {id: row["level"] for id, row in sentences().items()}
    headings = {id.rpartition(".")[0] for id in levels} | {f"{name}/server/tools#error-handling" for name in REVISIONS}
    for case in ALL:
        for revision, (level, *ids) in case.sentences.items():
            # A sentence without a keyword has no number: its heading stands for it.
            known = [id in levels or id in headings and level == "SHOULD" for id in ids]
            assert ids and all(known) and all(id.startswith(revision) for id in ids), (case.name, revision)
            assert level == "SHOULD" or any("MUST" in levels[id] for id in ids), (case.name, revision)


@pytest.mark.skipif(not SHARED.exists(), reason="the sentences of the specification are not beside this checkout")
def test_a_sentence_that_binds_the_other_side_fails_nobody() -> None:
    texts = {id: row["text"] for id, row in sentences().items()}
    for case in ALL:
        for level, *ids in case.sentences.values():
            bound = [
                re.match(r"(?:The |MCP )?(client|server)s?\b(?! and)", texts.get(id, ""), re.IGNORECASE) for id in ids
            ]
            others = [found for found in bound if found is not None and found[1].lower() != case.role]
            assert level == "SHOULD" or len(others) < len(ids), case.name


@pytest.mark.parametrize(
    "value, pattern, does",
    [
        ({"a": 1, "b": 2}, {"a": 1}, True), ({"a": 1}, {"a": 1, "b": "*"}, False), (3, [1, 3], True), (2, [1], False),
        (True, 1, False), (1.0, 1, False), (None, "*", True), ([1, 2], {"$has": 2}, True), ([1], {"$has": 2}, False),
        ({"_meta": {}}, {"$only": ["_meta"]}, True), ({"x": 1}, {"$only": ["_meta"]}, False), ([], {}, False),
    ],
)  # fmt: skip
def test_what_fits_a_pattern(value: Any, pattern: Any, does: bool) -> None:
    assert fits(value, pattern) is does


@pytest.mark.parametrize(
    "word", ["frames/not-json", "frames", "basic/index", "2025-11-25/basic/index", "2025-11-25/basic/index#messages.1"]
)
def test_cases_are_chosen_by_name_group_page_or_sentence(word: str) -> None:
    assert any(case.about(word) for case in ALL)
    assert not any(case.about(f"{word}-no") for case in ALL)


# -- the command


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["probe", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_cases_are_listed_and_nothing_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--list")
    assert code == 0 and out.count("\n") == len(cases("server"))
    code, out, _ = run(capsys, "--list", "--client", "--only", "rounds")
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == [
        case.name for case in cases("client") if case.name.startswith("rounds/")
    ]


def test_one_case_is_played_alone(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--only", "ping/empty", "--only", "frames/unknown-method", url)
    assert (code, err) == (0, "")
    assert out == "spoken: 2026-07-28, 2025-11-25\n3 pass, 0 fail, 0 warn, 0 note, 0 skip, 0 error\n"


def test_a_sign_of_life_goes_to_stderr(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("mcp_ref.lab.cli.probe._SIGN_INTERVAL", -1.0)
    _, out, err = run(capsys, "--only", "ping/empty", "--only", "frames/unknown-method", url)
    assert err.splitlines() == [
        "1 of 3: pass 2026-07-28 frames/unknown-method",
        "2 of 3: pass 2025-11-25 frames/unknown-method",
        "3 of 3: pass 2025-11-25 ping/empty",
    ]
    assert out.startswith("spoken: ")


SLOW = """
import json, sys, threading
threading.Event().wait(1.5)
for line in sys.stdin:
    m = json.loads(line)
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    said = {"initialize": {"result": about}, "ping": {"result": {}}}
    if "id" in m:
        unknown = {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **said.get(m["method"], unknown)}), flush=True)
"""


@pytest.mark.slow
def test_a_server_may_take_longer_to_start_than_to_answer(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--timeout", "1", "--only", "ping/empty", "--", sys.executable, "-c", SLOW)
    assert (code, out.splitlines()[0]) == (0, "spoken: 2025-11-25"), err


def test_what_was_never_asked_is_not_green(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--only", "tools/structured", "--", url)
    assert code == 3 and "\nskip  give --call: tools/structured\n" in out


def test_what_is_expected_to_fail_is_a_note_and_fails_when_it_passes(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = tmp_path / "known.txt"
    known.write_text("# known\nping/empty 2025-11-25 it was slow once\n", "utf-8")
    code, out, _ = run(capsys, "--only", "ping", "--expect", str(known), "--", url)
    assert code == 3
    assert "fail  2025-11-25 ping/empty: it passes, and is expected to fail: it was slow once" in out


def test_a_report_has_a_row_for_each_case(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report"
    code, out, _ = run(capsys, "--only", "ping", "--format", "json", "--report", str(file), "--", url)
    assert (code, out) == (0, "")
    assert "ping/empty" in file.read_text("utf-8")


def test_the_traffic_is_recorded_as_it_is(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.jsonl"
    assert run(capsys, "--only", "frames/not-json", "--trace", str(file), "--", url)[0] == 0
    assert '{\\"jsonrpc\\": \\"2.0\\", \\"id\\": 1, \\"method\\": ' in file.read_text("utf-8")


BAD_WORDS = {
    "no case is about 'no/such'": ["--only", "no/such", "--", "x"],
    "probe needs -- and the command of a server": ["--only", "ping"],
    "'server.py' must be a URL, alone": ["server.py"],
    "must be a URL, alone; a command": ["http://127.0.0.1:1/mcp", "--", "x"],
    "nothing may follow the URL of a server": ["--", "http://127.0.0.1:1/mcp", "more"],
    "has no {target} in it": ["--client", "--", sys.executable],
    "a header must be NAME:VALUE": ["--header", "x", "--", "http://127.0.0.1:1/mcp"],
    "No such file": ["--expect", "no-such-file", "--", "x"],
    "Extra data": ["--call", __file__, "--", "x"],
}


@pytest.mark.parametrize("says", BAD_WORDS)
def test_words_that_are_wrong_are_told(says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *BAD_WORDS[says])
    assert (code, out) == (2, "") and says in err, err


def test_a_line_of_expect_that_is_wrong_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.txt"
    known.write_text("ping/empty 2025-11-25\n", "utf-8")
    code, _, err = run(capsys, "--expect", str(known), "--", "x")
    assert code == 2 and "line 1: CASE REVISION REASON" in err


PYTHON = [sys.executable, "-c"]
BAD_PEERS = {
    "could not be started": ["--", "/no/such/program"],
    "exited with code 3": ["--", *PYTHON, "raise SystemExit(3)"],
    "no conversation begins: no answer in 3 s (--timeout)": ["--", *PYTHON, "import signal; signal.pause()"],
    "no conversation begins: ": ["--", *PYTHON, "while True: print('Listening ...')"],
    "no conversation begins: no answer": [
        "--revision", "2025-06-18", "--", *PYTHON,
        "import time\nwhile not time.sleep(0.001): print('{\"jsonrpc\": \"2.0\", \"method\": \"x\"}', flush=True)",
    ],
    "no conversation begins: no answer from http://127.0.0.1:1/mcp": ["--", "http://127.0.0.1:1/mcp"],
    "the client does not speak any revision: the client said nothing": ["--client", "--", *PYTHON, "pass", "{target}"],
    "the client does not start its server": ["--client", "--", *PYTHON, "import signal; signal.pause()", "{target}"],
    "the client could not be started": ["--client", "--", "/no/such/program", "{target}"],
}  # fmt: skip


QUICK = (
    "no conversation begins: no answer from http://127.0.0.1:1/mcp", "could not be started", "exited with code 3",
    "the client could not be started",
)  # fmt: skip


@pytest.mark.parametrize("says", slow_but(QUICK, BAD_PEERS))
def test_a_peer_that_cannot_be_probed_is_told_in_a_sentence(says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--timeout", "0.5", *BAD_PEERS[says])
    assert (code, out) == (4, ""), err
    assert says in err


def test_a_server_that_dies_in_the_middle_of_a_case_fails_it_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--inherit", "--revision", "2025-11-25", "--only", "frames/no-message", "--only", "ping"]
    with over_stdio("frames/no-message") as target:
        code, out, _ = run(capsys, *words, "--", *target)
    assert code == 3
    assert "fail  2025-11-25 frames/no-message: the server" in out and "1 pass, 1 fail" in out
