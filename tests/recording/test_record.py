"""Recording: every message, in the order of the wire, whatever the sink does."""

from __future__ import annotations

import base64
import io
import json
import logging
import os
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


def carry(recording: Recorder, *messages: Any, direction: Any = "send") -> None:
    for message in messages:
        recording.tap("server", "stdio").note(direction, message)


def shown(message: Any, direction: Any = "send") -> TraceEvent:
    """Return the event of a message."""
    events: list[TraceEvent] = []
    with Recorder(events.append) as recording:
        carry(recording, message, direction=direction)
    return events[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def test_an_event_says_what_was_carried_by_whom_and_when() -> None:
    events: list[TraceEvent] = []
    with Recorder(events.append) as recording:
        carry(recording, PING)
        carry(recording, b'{"jsonrpc":"2.0","id":1,"result":{}}\n', direction="receive")
        carry(recording, "starting", direction="stderr")
    assert [(event.seq, event.direction, event.message) for event in events] == [
        (1, "send", PING),
        (2, "receive", {"jsonrpc": "2.0", "id": 1, "result": {}}),
        (3, "stderr", "starting"),
    ]
    first = events[0]
    assert (first.peer, first.transport, first.thread) == ("server", "stdio", threading.current_thread().name)
    assert first.time > 1e9


@pytest.mark.parametrize("data", [b"not json\n", b"\xff\xfe", b"42", b'{"a": NaN}', b"[" * 100_000])
def test_what_is_not_an_object_or_array_is_kept_as_text(data: bytes) -> None:
    assert isinstance(shown(data, "receive").message, str)


def test_what_is_nested_too_deeply_to_copy_does_not_break_the_conversation() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert shown(deep).message == "[nested too deeply to be shown]"


def test_an_event_is_a_copy_from_the_moment_that_it_was_noted() -> None:
    file, message = io.StringIO(), {**PING, "params": {"a": [1]}}
    with Recorder(file) as recording:
        carry(recording, message)
        message["params"]["a"].append(2)
        shown(PING).message["method"] = "changed"
    assert json.loads(file.getvalue())["message"]["params"] == {"a": [1]}
    assert PING["method"] == "ping"


@pytest.mark.parametrize("problem", [RuntimeError("broken sink"), SystemExit("broken sink")])
def test_a_sink_that_raises_is_logged_and_not_heard_of_by_the_connection_nor_by_the_other_sinks(
    problem: BaseException, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []
    events: list[TraceEvent] = []

    def sink(event: TraceEvent) -> None:
        seen.append(event.seq)
        raise problem

    with caplog.at_level(logging.ERROR), Recorder(sink, path, events.append) as recording:
        carry(recording, PING, PING)
        assert recording.seq == 2
    assert seen == [1, 2] and len(events) == len(list(read_trace(path))) == 2
    assert "broken sink" in caplog.text and "failed on event 2" in caplog.text


class OpenFile(io.StringIO):
    """A text file whose writing does what it is told first."""

    def __init__(self, before: Callable[[str], Any]) -> None:
        super().__init__()
        self.before = before

    def write(self, text: str) -> int:
        self.before(text)
        return super().write(text)

    def numbers(self) -> list[int]:
        return [json.loads(line)["seq"] for line in self.getvalue().splitlines()]


def test_a_file_that_fails_once_is_not_written_again_and_the_others_go_on(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = iter([False, True, False])

    def fail(text: str) -> None:
        if next(numbers):
            raise OSError("disk full")

    file = OpenFile(fail)
    with Recorder(file, path) as recording:
        carry(recording, PING, PING, PING)
    assert file.numbers() == [1]
    assert [each.seq for each in read_trace(path)] == [1, 2, 3]
    assert [each.getMessage() for each in caplog.records] == ["a trace ends before event 2, which could not be written"]


@pytest.mark.parametrize("to_file", [True, False])
def test_a_slow_sink_keeps_nobody_who_notes_and_close_waits_for_it_as_long_as_it_may(to_file: bool) -> None:
    leave, seen = threading.Event(), list[int]()

    def sink(event: TraceEvent) -> None:
        assert leave.wait(PATIENCE)
        seen.append(event.seq)

    file = OpenFile(lambda text: leave.wait(PATIENCE))
    recording = Recorder(file if to_file else sink)
    carry(recording, PING, PING)
    recording.close(0.01)
    assert file.numbers() == seen == []
    leave.set()
    recording.close()
    assert (file.numbers() if to_file else seen) == [1, 2]


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


def test_many_threads_lose_no_event_and_keep_the_order() -> None:
    seen: list[int] = []
    with Recorder(lambda event: seen.append(event.seq)) as recording:
        at_once(*[lambda: carry(recording, *[PING] * 500)] * 8)
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


def test_what_callables_are_too_slow_for_is_lost_with_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "MAX_WAITING", 2)
    entered, leave, seen = threading.Event(), threading.Event(), list[int]()

    def sink(event: TraceEvent) -> None:
        entered.set()
        assert leave.wait(PATIENCE)
        seen.append(event.seq)

    with caplog.at_level(logging.WARNING), Recorder(sink) as recording:
        carry(recording, PING)
        assert entered.wait(PATIENCE)
        carry(recording, *[PING] * 4)
        until(lambda: "are dropped" in caplog.text)
        leave.set()
    assert seen[:3] == [1, 2, 3] and 4 not in seen
    assert caplog.text.count("are dropped (mcp-trace), from event 4 on") == 1


def test_a_callable_may_close_the_recorder() -> None:
    seen, done = list[int](), threading.Event()

    def sink(event: TraceEvent) -> None:
        seen.append(event.seq)
        recording.close()
        done.set()

    recording = Recorder(sink)
    carry(recording, PING)
    assert done.wait(PATIENCE)
    carry(recording, PING)
    recording.close()
    assert seen == [1]


def test_a_callable_may_ask_the_server_through_the_client_that_it_watches() -> None:
    asked = threading.Event()

    def sink(event: TraceEvent) -> None:
        answered = event.direction == "receive" and isinstance(event.message, dict) and event.message.get("id") == 2
        if answered and not asked.is_set():
            client.discover(timeout=PATIENCE, cached=False)
            asked.set()

    with Client(Server("silent"), trace=sink) as client:
        client.discover(cached=False)
        assert asked.wait(PATIENCE)


# -- who closes it


def test_what_trace_accepts_becomes_a_recorder(path: Path) -> None:
    own = Recorder(io.StringIO())
    assert recorder(own) is own
    with recorder(path) as made:
        carry(made, PING)
    assert len(list(read_trace(path))) == 1


def test_a_server_that_ends_its_run_closes_its_recorder_and_what_nobody_closes_is_written_all_the_same(
    path: Path,
) -> None:
    program = f"""
from mcp_ref import Server
from mcp_ref.recording.record import Recorder
seen = []
Server("little", trace=lambda event: seen.append(event.direction)).run()
print(seen)
tap = Recorder({str(path)!r}).tap("server", "stdio")
for number in range(500): tap.note("send", {{"id": number}})
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(PING) + "\n", capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "['receive', 'send']"
    assert len(list(read_trace(path))) == 500


# -- files


def test_a_file_holds_one_event_in_a_line_and_is_read_back(path: Path) -> None:
    messages = [PING, {"text": "h\u00e9 \U0001f600 \u2028"}, {"half": "\ud800"}, [PING, PING]]
    with Recorder(path) as recording:
        carry(recording, *messages)
    assert len(path.read_bytes().split(b"\n")) == 5
    read = list(read_trace(path))
    assert [event.message for event in read] == [shown(each).message for each in messages]
    assert [event.seq for event in read] == [1, 2, 3, 4]


def test_a_row_spells_the_time_in_utc_with_microseconds(path: Path) -> None:
    with Recorder(path) as recording:
        carry(recording, PING)
        # Each line is there before the recorder is closed, soon after its event.
        assert until(lambda: path.read_text().endswith("\n"))
        assert [event.message for event in read_trace(path)] == [PING]
    row = json.loads(path.read_text(encoding="utf-8"))
    assert set(row) == {"seq", "time", "thread", "conn", "direction", "peer", "transport", "message"}
    assert row["time"].endswith("Z") and len(row["time"]) == len("2025-11-25T09:00:00.000000Z")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("exact", [False, True])
def test_a_file_is_created_for_its_owner_alone_and_made_so_where_it_is_to_be_exact(exact: bool, path: Path) -> None:
    if exact:
        path.touch(0o644)
    Recorder(path, exact=exact).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_the_user_opened_stays_open_and_gets_escapes_where_it_needs_them(path: Path) -> None:
    with path.open("w", encoding="ascii") as file:
        with Recorder(file) as recording:
            carry(recording, {"text": "\u00e9"})
        assert not file.closed
    assert [event.message for event in read_trace(path)] == [{"text": "\u00e9"}]


def test_secrets_do_not_reach_the_file(path: Path) -> None:
    with Recorder(path) as recording:
        carry(recording, {"params": {"password": "hunter2"}})
        carry(recording, b'{"result": {"accessToken": "hunter2"}}', b'"password": "hunter2', direction="receive")
        carry(recording, "login with token=hunter2", direction="stderr")
    assert "hunter2" not in path.read_text(encoding="utf-8")


GOOD = json.loads(to_row(shown(PING)))


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
def test_reading_names_the_line_that_is_not_an_event(path: Path, line: str, problem: str) -> None:
    path.write_text(json.dumps(GOOD) + "\n\n" + line + "\n", encoding="utf-8")
    events = read_trace(path)
    assert next(events).message == PING
    with pytest.raises(ValueError, match=rf"trace\.jsonl:3: .*{problem}"):
        next(events)


def test_a_line_without_end_is_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "_MAX_LINE", 1_000)
    with pytest.raises(TruncatedTrace, match="/dev/zero:1: not JSON"):
        list(read_trace("/dev/zero"))
    assert main(["narrate", "/dev/zero"]) == 2


def test_an_exact_trace_hides_nothing_and_keeps_bytes_that_json_loses(path: Path) -> None:
    lines = [b'{"password":"x"}', b'{"a": 1}', b'{"a":1,"a":2}', b"not json", b"\xff\xfe", b"[" * 100_000]
    with Recorder(path, exact=True) as recorder:
        tap = recorder.tap("server", "http")
        for line in lines:
            tap.note("receive", line, {"exchange": 1, "headers": {"Authorization": "Bearer x", "X-Own": "y"}})
    first, *others = read_trace(path)
    assert first.message == {"password": "x"} and first.raw is None
    assert first.http == {"exchange": 1, "headers": {"authorization": "Bearer x", "x-own": "y"}}
    assert [base64.b64decode(event.raw or "") if event.raw else event.message for event in others] == [
        b'{"a": 1}', b'{"a":1,"a":2}', "not json", b"\xff\xfe", "[" * 100_000
    ]  # fmt: skip


def test_a_child_process_that_ends_is_recorded_step_by_step() -> None:
    seen: list[TraceEvent] = []
    ends = [("send", {"eof": "client"}), ("receive", {"exit": 0})]
    with Recorder(seen.append) as recording:
        tap = recording.tap("server", "stdio")
        for direction, end in ends:
            tap.note(direction, None, {"process": end})  # type: ignore[arg-type]
    assert [(event.direction, event.message, event.http, event.end) for event in seen] == [
        (direction, None, None, end) for direction, end in ends
    ]
    assert from_row(to_row(seen[0])).end == {"eof": "client"}
