"""Recording: every message, in the order of the wire, whatever the sink does."""

from __future__ import annotations

import base64
import io
import json
import logging
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, Server
from mcp_ref.kit.threads import callbacks
from mcp_ref.lab.cli import main
from mcp_ref.recording import record as record_module
from mcp_ref.recording.record import Recorder, TraceEvent, TruncatedTrace, from_row, read_trace, recorder, to_row
from tests.support.clock import until
from tests.support.wire import PATIENCE, at_once

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def carry(recording: Recorder, message: Any, direction: Any = "send") -> None:
    tap = recording.tap("server", "stdio")
    tap.note(direction, message)


def shown(message: Any, direction: Any = "send") -> Any:
    """Return what an event has of the message."""
    events: list[TraceEvent] = []
    with Recorder(events.append) as recording:
        carry(recording, message, direction)
    return events[0].message


def test_an_event_says_what_was_carried_by_whom_and_when() -> None:
    events: list[TraceEvent] = []
    with Recorder(events.append) as recording:
        carry(recording, PING)
        carry(recording, b'{"jsonrpc":"2.0","id":1,"result":{}}\n', "receive")
        carry(recording, "starting", "stderr")
    assert [(event.seq, event.direction, event.message) for event in events] == [
        (1, "send", PING),
        (2, "receive", {"jsonrpc": "2.0", "id": 1, "result": {}}),
        (3, "stderr", "starting"),
    ]
    first = events[0]
    assert (first.peer, first.transport, first.thread) == ("server", "stdio", threading.current_thread().name)
    assert first.time > 1e9


@pytest.mark.parametrize("data", [b"not json\n", b"\xff\xfe", b"42", b'"text"', b'{"a": NaN}', b"[" * 100_000])
def test_what_is_not_an_object_or_array_is_kept_as_text(data: bytes) -> None:
    assert isinstance(shown(data, "receive"), str)


def test_what_is_nested_too_deeply_to_copy_does_not_break_the_conversation() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert shown(deep) == "[nested too deeply to be shown]"


def test_an_event_is_a_copy_from_the_moment_that_it_was_noted() -> None:
    file, message = io.StringIO(), {**PING, "params": {"a": [1]}}
    with Recorder(file) as recording:
        recording.tap("server", "stdio").note("send", message)
        message["params"]["a"].append(2)
        shown(PING)["method"] = "changed"
    assert json.loads(file.getvalue())["message"]["params"] == {"a": [1]}
    assert PING["method"] == "ping"


@pytest.mark.parametrize("problem", [RuntimeError("broken sink"), SystemExit("broken sink")])
def test_a_sink_that_raises_is_logged_and_not_heard_of_by_the_connection_nor_by_the_other_sinks(
    problem: BaseException, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []
    events: list[TraceEvent] = []

    def sink(event: TraceEvent) -> None:
        seen.append(event.seq)
        raise problem

    with caplog.at_level(logging.ERROR), Recorder(sink, tmp_path / "trace.jsonl", events.append) as recording:
        carry(recording, PING)
        carry(recording, PING)
        assert recording.seq == 2
    assert seen == [1, 2]
    assert len(events) == len(list(read_trace(tmp_path / "trace.jsonl"))) == 2
    assert "broken sink" in caplog.text
    assert "failed on event 2" in caplog.text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to offer")
def test_a_full_disk_ends_the_trace_which_the_log_says_once_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    events: list[TraceEvent] = []
    told = Recorder("/dev/full", events.append)
    with told, Client(Server("s"), revision="2025-11-25", trace=told, timeout=PATIENCE) as client:
        for _ in range(20):
            client.ping()
    assert len(events) >= 40
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == [
        "a trace ends before event 1, which could not be written"
    ]


def test_a_file_that_fails_once_is_not_written_again_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = iter([False, True, False])

    def fail(text: str) -> None:
        if next(numbers):
            raise OSError("disk full")

    file = OpenFile(fail)
    with Recorder(file, tmp_path / "trace.jsonl") as recording:
        for _ in range(3):
            carry(recording, PING)
    assert file.numbers() == [1]
    assert [each.seq for each in read_trace(tmp_path / "trace.jsonl")] == [1, 2, 3]
    assert len(caplog.records) == 1


def test_a_line_without_end_is_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "_MAX_LINE", 1_000)
    with pytest.raises(TruncatedTrace, match="/dev/zero:1: not JSON"):
        list(read_trace("/dev/zero"))
    assert main(["narrate", "/dev/zero"]) == 2


def test_what_trace_accepts_becomes_a_recorder(tmp_path: Path) -> None:
    own = Recorder(io.StringIO())
    assert recorder(own) is own
    with recorder(tmp_path / "trace.jsonl") as made:
        carry(made, PING)
    assert len(list(read_trace(tmp_path / "trace.jsonl"))) == 1


class OpenFile(io.StringIO):
    """A text file whose writing does what it is told first."""

    def __init__(self, before: Callable[[str], None]) -> None:
        super().__init__()
        self.before = before

    def write(self, text: str) -> int:
        self.before(text)
        return super().write(text)

    def numbers(self) -> list[int]:
        return [json.loads(line)["seq"] for line in self.getvalue().splitlines()]


def test_a_slow_file_keeps_nobody_who_notes_and_close_waits_for_it_as_long_as_it_may() -> None:
    leave = threading.Event()
    recording = Recorder(file := OpenFile(lambda text: leave.wait(PATIENCE)))
    carry(recording, PING)
    carry(recording, PING)
    recording.close(0.01)
    assert file.numbers() == []
    leave.set()
    recording.close()
    assert file.numbers() == [1, 2]


def test_whoever_notes_more_than_the_disk_takes_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "_MAX_WAITING", 10)
    leave, noted = threading.Event(), list[int]()
    recording = Recorder(file := OpenFile(lambda text: leave.wait(PATIENCE)))

    def flood() -> None:
        for number in range(50):
            carry(recording, PING)
            noted.append(number)

    peer = threading.Thread(target=flood)
    peer.start()
    peer.join(0.1)
    assert len(noted) < 15
    leave.set()
    peer.join(PATIENCE)
    recording.close()
    assert file.numbers() == [*range(1, 51)]


def test_what_was_noted_is_written_though_a_program_ends_without_closing(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom mcp_ref.recording.record import Recorder\n"
        "tap = Recorder(sys.argv[1]).tap('server', 'stdio')\nfor n in range(500): tap.note('send', {'id': n})\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "trace.jsonl"], check=True, timeout=PATIENCE)
    assert len(list(read_trace(tmp_path / "trace.jsonl"))) == 500


def test_many_threads_lose_no_event_and_keep_the_order() -> None:
    seen: list[int] = []
    recording = Recorder(lambda event: seen.append(event.seq))

    def run() -> None:
        tap = recording.tap("server", "stdio")
        for _ in range(500):
            tap.note("send", PING)

    at_once(*[run] * 8)
    recording.close()
    assert seen == list(range(1, 4001))


# -- callables, which a thread of their own calls


def test_callables_are_called_by_a_thread_that_ends_with_the_recorder_and_files_need_none() -> None:
    def threads() -> set[str]:
        return {thread.name for thread in threading.enumerate()}

    seen: list[str] = []
    with Recorder(io.StringIO()) as recording:
        carry(recording, PING)
        assert "mcp-trace" not in threads()
    with Recorder(lambda event: seen.append(threading.current_thread().name)) as recording:
        carry(recording, PING)
    assert seen == ["mcp-trace"] and "mcp-trace" not in threads()


def test_a_slow_callable_keeps_nobody_who_delivers_and_close_waits_for_it_as_long_as_it_may() -> None:
    leave = threading.Event()
    seen: list[int] = []

    def sink(event: TraceEvent) -> None:
        assert leave.wait(timeout=30)
        seen.append(event.seq)

    recording = Recorder(sink)
    carry(recording, PING)
    carry(recording, PING)
    recording.close(timeout=0.05)
    assert seen == []
    leave.set()
    recording.close()
    assert seen == [1, 2]


def test_what_callables_are_too_slow_for_is_lost_with_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "MAX_WAITING", 2)
    entered, leave = threading.Event(), threading.Event()
    seen: list[int] = []

    def sink(event: TraceEvent) -> None:
        entered.set()
        assert leave.wait(timeout=30)
        seen.append(event.seq)

    with caplog.at_level(logging.WARNING), Recorder(sink) as recording:
        carry(recording, PING)
        assert entered.wait(timeout=30)
        for _ in range(4):
            carry(recording, PING)
        until(lambda: "are dropped" in caplog.text)
        leave.set()
    assert seen[:3] == [1, 2, 3] and 4 not in seen
    assert caplog.text.count("are dropped (mcp-trace), from event 4 on") == 1


def test_a_callable_may_close_the_recorder() -> None:
    seen: list[int] = []
    done = threading.Event()

    def sink(event: TraceEvent) -> None:
        seen.append(event.seq)
        recording.close()
        done.set()

    recording = Recorder(sink)
    carry(recording, PING)
    assert done.wait(timeout=30)
    carry(recording, PING)
    recording.close()
    assert seen == [1]


@pytest.mark.parametrize("over_stdio", [False, True])
def test_a_callable_may_ask_the_server_through_the_client_that_it_watches(over_stdio: bool) -> None:
    asked = threading.Event()

    def sink(event: TraceEvent) -> None:
        answered = event.direction == "receive" and isinstance(event.message, dict) and event.message.get("id") == 2
        if answered and not asked.is_set():
            client.discover(timeout=5, cached=False)
            asked.set()

    target: Any = [sys.executable, "-m", "mcp_ref.lab.cli.demo"] if over_stdio else Server("silent")
    with Client(target, trace=sink) as client:
        client.discover(cached=False)
        assert asked.wait(timeout=30)


# -- who closes it


def test_a_server_that_ends_its_run_closes_the_recorder_that_it_made(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    code = f"""
from mcp_ref import Server
seen = []
Server("little", trace=lambda event: seen.append(event.direction)).run()
print(seen)
Server("little", trace={str(path)!r}).run()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(PING) + "\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "['receive', 'send']"
    assert list(read_trace(path)) == []


# -- files


def test_a_file_holds_one_event_in_a_line_and_is_read_back(tmp_path: Path) -> None:
    events: list[TraceEvent] = []
    path = tmp_path / "trace.jsonl"
    with Recorder(path) as recording:
        with Recorder(events.append) as recorder_of_events:
            for message in (PING, {"text": "h\u00e9 \U0001f600 \u2028"}, {"half": "\ud800"}, [PING, PING]):
                carry(recording, message)
                carry(recorder_of_events, message)
    assert len(path.read_bytes().split(b"\n")) == 5
    read = list(read_trace(path))
    assert [event.message for event in read] == [event.message for event in events]
    assert [event.seq for event in read] == [1, 2, 3, 4]


def test_a_row_spells_the_time_in_utc_with_microseconds(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with Recorder(path) as recording:
        carry(recording, PING)
        # Each line is there before the recorder is closed, soon after its event.
        assert until(lambda: path.read_text().endswith("\n"))
        assert [event.message for event in read_trace(path)] == [PING]
    row = json.loads(path.read_text(encoding="utf-8"))
    assert set(row) == {"seq", "time", "thread", "conn", "direction", "peer", "transport", "message"}
    assert row["time"].endswith("Z")
    assert len(row["time"]) == len("2025-11-25T09:00:00.000000Z")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_file_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    Recorder(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_the_user_opened_stays_open(tmp_path: Path) -> None:
    file = io.StringIO()
    with Recorder(file) as recording:
        carry(recording, PING)
    assert json.loads(file.getvalue())["message"] == PING


def test_a_file_in_a_narrow_encoding_gets_escapes(tmp_path: Path) -> None:
    path = tmp_path / "ascii.jsonl"
    with path.open("w", encoding="ascii") as file, Recorder(file) as recording:
        carry(recording, {"text": "\u00e9"})
    assert [event.message for event in read_trace(path)] == [{"text": "\u00e9"}]


def test_secrets_do_not_reach_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with Recorder(path) as recording:
        carry(recording, {"params": {"password": "hunter2"}})
        carry(recording, b'{"result": {"accessToken": "hunter2"}}', "receive")
        carry(recording, b'"password": "hunter2', "receive")
        carry(recording, "login with token=hunter2", "stderr")
    assert "hunter2" not in path.read_text(encoding="utf-8")


GOOD = {"seq": 1, "time": "2025-11-25T09:00:00.000000Z", "thread": "t", "direction": "send", "peer": "server"}
GOOD |= {"transport": "stdio", "message": PING}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "not JSON"),
        ("[]", "not a JSON object"),
        (json.dumps({**GOOD, "time": "yesterday"}), "yesterday"),
        (json.dumps({**GOOD, "time": "2025-11-25T09:00:00"}), "time zone"),
        (json.dumps({**GOOD, "direction": "up"}), "direction"),
        (json.dumps({**GOOD, "message": None}), "message"),
    ],
)
def test_reading_names_the_line_that_is_not_an_event(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(GOOD) + "\n\n" + line + "\n", encoding="utf-8")
    events = read_trace(path)
    assert next(events).message == PING
    with pytest.raises(ValueError, match=rf"trace\.jsonl:3: .*{problem}"):
        next(events)


# -- exact traces -------------------------------------------------------------------------------------------------


def test_an_exact_trace_hides_nothing_and_keeps_bytes_that_json_loses(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("", "utf-8")
    path.chmod(0o644)
    lines = [b'{"password":"x"}', b'{"a": 1}', b'{"a":1,"a":2}', b"not json", b"\xff\xfe", b"[" * 100_000]
    with Recorder(path, exact=True) as recorder:
        tap = recorder.tap("server", "http")
        for line in lines:
            tap.note("receive", line, {"exchange": 1, "headers": {"Authorization": "Bearer x", "X-Own": "y"}})
    assert path.stat().st_mode & 0o777 == 0o600
    first, *others = read_trace(path)
    assert first.message == {"password": "x"} and first.raw is None
    assert first.http == {"exchange": 1, "headers": {"authorization": "Bearer x", "x-own": "y"}}
    assert [base64.b64decode(event.raw or "") if event.raw else event.message for event in others] == [
        b'{"a": 1}', b'{"a":1,"a":2}', "not json", b"\xff\xfe", "[" * 100_000
    ]  # fmt: skip


def test_a_child_process_that_ends_is_recorded_step_by_step() -> None:
    seen: list[TraceEvent] = []
    recorder = Recorder(seen.append)
    tap = recorder.tap("server", "stdio")
    tap.note("send", None, {"process": {"eof": "client"}})
    tap.note("receive", None, {"process": {"exit": 0}})
    recorder.close()
    assert [(event.direction, event.message, event.http, event.end) for event in seen] == [
        ("send", None, None, {"eof": "client"}),
        ("receive", None, None, {"exit": 0}),
    ]
    assert from_row(to_row(seen[0])).end == {"eof": "client"}
