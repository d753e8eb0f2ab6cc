"""The command line: what each command prints, and what its exit code says."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Self

import pytest

from mcp_ref import Client, Context, Server, TransportClosed, image
from mcp_ref.kit.http.http_exchange import HttpRequest
from mcp_ref.kit.process.running import end_as_by_ctrl_c, end_by_sigterm
from mcp_ref.lab.cli import main, table
from mcp_ref.lab.cli.commands import arguments_of
from mcp_ref.lab.cli.demo import SCENE, Telling, build_server, converse
from mcp_ref.lab.cli.describe import describe
from mcp_ref.lab.cli.table import GROUPS, parser
from mcp_ref.lab.judge.narrate import Narrator
from mcp_ref.pages.table import METHODS
from mcp_ref.recording.record import Recorder, TraceEvent, read_trace
from mcp_ref.revisions import REVISIONS, find_revision
from tests.lab.conftest import At
from tests.slow import slow_but

DEMO = ["--", sys.executable, "-m", "mcp_ref.lab.cli.demo"]
Capture = pytest.CaptureFixture[str]

LITTLE = """
import os
from mcp_ref import Server

server = other = Server("little")

@server.tool()
def die() -> str:
    os._exit(7)

@server.tool()
def double(number: int, label: str = "") -> dict[str, str]:
    return {"twice": f"{label}{number * 2}"}
"""


@pytest.fixture
def little(tmp_path: Path) -> list[str]:
    """The words for a server that is a process of its own."""
    path = tmp_path / "little.py"
    path.write_text(LITTLE, encoding="utf-8")
    return ["--", sys.executable, "-m", "mcp_ref", "serve", str(path)]


@pytest.fixture
def demo(at: At) -> list[str]:
    """The words for the server of the demonstration, in this process."""
    return at(build_server())


def run(*arguments: str) -> int:
    return main(list(arguments))


# -- asking a server


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["tools"], 0, "forecast\n    The weather in a city, day by day.\n    - city: string, required\n", ""),
        (["tools"], 0, "    - days: integer, optional, default 2", ""),
        (["tools", "--json"], 0, '{\n  "tools": [\n    {\n      "name": "forecast",', ""),
        (["call", "forecast", "city=Oslo", "days=3"], 0, "Oslo: sun for 3 days\n",
         "[info] weather: looking at the sky over Oslo"),
        (["call", "--json", "forecast", "--json-args", '{"city": "x", "days": 1}', "city=007"], 0,
         "007: sun for 1 day", ""),
        (["call", "cancel_booking", "number=42"], 1, "Nobody has booked under 42.", ""),
        (["call", "teleport"], 3, "", "(-32602): invalid params: they do not fit, or name what does not exist"),
        (["call", "forcast"], 3, "", "the server does not list a tool 'forcast'; did you mean forecast?\n"),
        (["call", "teleport"], 3, "", "the server does not list a tool 'teleport'\n"),
        (["task", "list"], 3, "", "2025-11-25 alone has it"),
        (["call", "forecast", "city"], 2, "", "key=value"),
        (["call", "forecast", "--json-args", "[]"], 2, "", "JSON object"),
        (["call", "forecast", "--json-args", "{"], 2, "", "--json-args"),
        (["resources"], 0, "trip://bookings", ""), (["resources"], 0, "trip://guide/{city}", ""),
        (["read", "trip://guide/Oslo"], 0, "Oslo is best seen on foot.\n", ""),
        (["prompts"], 0, "plan_trip\n    A prompt to plan a trip with.\n    - city: required\n", ""),
        (["prompt", "plan_trip", "city=Oslo"], 0, "user: Plan three days in Oslo", ""),
        (["complete", "prompt:plan_trip", "city", "L"], 0, "Lisbon\nLjubljana\nLyon\n", ""),
    ],
)  # fmt: skip
def test_what_a_command_prints_and_its_exit_code(
    capsys: Capture, demo: list[str], arguments: list[str], code: int, out: str, err: str
) -> None:
    assert run(*arguments, *demo) == code
    told = capsys.readouterr()
    assert out in told.out
    assert err in told.err


def test_a_call_that_takes_too_long_is_given_up_and_a_server_that_ends_is_told(
    capsys: Capture, at: At, little: list[str]
) -> None:
    held, server = threading.Event(), Server("late")
    server.tool(name="late")(lambda: str(held.wait(60)))
    late = at(server)
    try:
        assert run("call", "late", "--timeout", "0.4", *late) == 4
        assert "timed out" in capsys.readouterr().err
    finally:
        held.set()
    for ends, says in ((["die", *little], "exited with code 7"), (["x", "--", "/no/such/program"], "/no/such/program")):
        assert run("call", *ends) == 4
        assert says in capsys.readouterr().err


def test_opening_may_take_as_long_as_an_answer(monkeypatch: Any) -> None:
    given: list[float] = []

    class Told(Client):
        def connect(self) -> Self:
            given.append(self.connect_timeout or 0)
            raise TransportClosed("as far as this test goes")

    monkeypatch.setattr("mcp_ref.lab.cli.commands.Client", Told)
    assert run("info", "--timeout", "90", *DEMO) == 4
    assert given == [90]


def test_a_list_of_what_the_server_does_not_have_is_empty(capsys: Capture, at: At) -> None:
    bare = at(Server("bare"))
    assert run("prompts", *bare) == 0
    assert capsys.readouterr() == ("", "the server has no prompts\n")
    assert run("prompts", "--json", *bare) == 0
    assert json.loads(capsys.readouterr().out) == {"prompts": []}


def test_a_picture_and_a_blob_go_out_as_their_bytes(capfdbinary: pytest.CaptureFixture[bytes], at: At) -> None:
    server = Server("bytes")
    server.tool(name="picture")(lambda: image(b"\x00\xff", "image/png"))
    server.resource("blob://bytes")(lambda: b"\x00\xff")
    words = at(server)
    for asked in (["call", "picture"], ["read", "blob://bytes"]):
        assert run(*asked, *words) == 0
        assert capfdbinary.readouterr().out == b"\x00\xff"


@pytest.mark.parametrize(
    ("word", "told"), [("tolls", "'tolls'; did you mean tools?"), ("zzz", "'zzz'; --help lists them")]
)
def test_an_unknown_command_is_told_with_the_one_that_is_like_it(capsys: Capture, word: str, told: str) -> None:
    with pytest.raises(SystemExit) as left:
        run(word, "--", "x")
    assert left.value.code == 2 and f"error: no command is called {told}" in capsys.readouterr().err


SCHEMA = {
    "$defs": {"text": {"type": "string"}, "both": {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "integer"}]}},
    "properties": {
        "text": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "optional": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "listed": {"type": ["string", "null"]},
        "reference": {"$ref": "#/$defs/text"},
        "both": {"$ref": "#/$defs/both"},
        "choice": {"enum": ["1", "true", "x"]},
        "one": {"const": "1"},
        "mixed": {"enum": ["1", 1]},
        "any": {},
        "number": {"type": "integer"},
        "list": {"anyOf": [{"type": "string"}, {"type": "array"}]},
        "broken": {"anyOf": [{"type": "string", "pattern": r"\p{L}"}, {"type": "null"}]},
        "lost": {"$ref": "#/$defs/none"},
        "odd": 5,
    },
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=12345", "12345"), ('text="a"', '"a"'), ("day=5", "5"), ("optional=12345", "12345"),
        ("optional=null", None),
        ('optional="a"', '"a"'), ("listed=1.5", "1.5"), ("listed=null", None), ("reference=true", "true"),
        ('reference="a"', '"a"'), ("both=5", 5), ("both=5.5", "5.5"), ("both=x", "x"), ("choice=1", "1"),
        ("choice=true", "true"), ('choice="x"', "x"), ("one=1", "1"), ("mixed=1", 1), ("any=1", 1), ('any="1"', "1"),
        ("any={}", {}), ("any=a b", "a b"), ("number=5", 5), ("number=x", "x"), ("number=1.5", 1.5), ("list=[1]", [1]),
        ("list={}", "{}"), ("broken=5", "5"), ("lost=5", 5), ("odd=5", 5), ("unknown=5", 5), ("unknown==", "="),
    ],
)  # fmt: skip
def test_a_text_stays_one_where_the_parameter_takes_no_other(word: str, value: Any) -> None:
    found = arguments_of([word], SCHEMA)[word.partition("=")[0]]
    assert found == value and type(found) is type(value)


BOTH = ("2025-11-25", "2026-07-28")
in_both_eras = pytest.mark.parametrize("revision", BOTH)
OPENINGS = {"session": ["send", "receive", "send"], "stateless": ["send", "receive"]}
"""The directions of the messages before the first that a user asks for."""


def test_ctrl_c_while_it_starts_is_no_traceback(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(table, "parser", interrupt)
    assert main(["spec"]) == 130
    assert capsys.readouterr() == ("", "")


def test_signals_are_left_alone_after_a_command_and_those_that_are_ignored_stay_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with end_as_by_ctrl_c():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with end_by_sigterm() as interrupted:
                os.kill(os.getpid(), signal.SIGTERM)
                assert interrupted(lambda seconds: False)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # the second one does not keep the first from ending all
    finally:
        signal.signal(signal.SIGHUP, before)
    assert main(["spec", "ping"]) == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("revision", slow_but(BOTH, REVISIONS))
def test_the_traffic_is_recorded_and_told_in_each_revision(capsys: Capture, tmp_path: Path, revision: str) -> None:
    trace = tmp_path / "trace.jsonl"
    era = REVISIONS[revision].era
    assert run("tools", "--revision", revision, "--trace", str(trace), "--narrate", *DEMO) == 0
    told = capsys.readouterr().err
    opening = {"session": f"asks for revision {revision}", "stateless": f'is written in revision "{revision}"'}
    assert opening[era] in told
    assert f"[{revision}/server/tools]" in told
    assert [event.direction for event in read_trace(trace)] == [*OPENINGS[era], "send", "receive", "send", "receive"]
    assert [event.end for event in read_trace(trace) if event.end] == [{"eof": "client"}, {"exit": 0}]
    assert run("narrate", str(trace)) == 0
    assert f"[{revision}/server/tools]" in capsys.readouterr().out


# -- what a server asks, and what it tells of


def asks() -> Server:
    server = Server("asking")

    @server.tool()
    def book(ctx: Context) -> str:
        fields = {
            "seat": {"type": "string", "enum": ["window", "aisle"]},
            "bags": {"type": "integer", "default": 0},
            "meal": {"type": "boolean", "default": False},
        }
        answer = ctx.elicit("Window or aisle?", fields)
        given = sorted(answer.get("content", {}).items())
        return " ".join(f"{name}={value}" for name, value in given) or answer["action"]

    server.resource("trip://bookings")(lambda: "")
    return server


@pytest.fixture
def asking(at: At) -> list[str]:
    return at(asks())


@in_both_eras
def test_a_form_is_filled_in_by_the_answers_that_are_given(capsys: Capture, asking: list[str], revision: str) -> None:
    answers = ["--answer", "seat=aisle", "--answer", "bags=2", "--answer", "meal=yes", "--revision", revision]
    assert run("call", "book", *answers, *asking) == 0
    captured = capsys.readouterr()
    assert captured.out == "bags=2 meal=True seat=aisle\n"
    assert captured.err == "asking asks: Window or aisle?\n" * captured.err.count("\n")
    assert run("call", "book", *answers[2:], *asking) == 0
    captured = capsys.readouterr()
    assert captured.out == "decline\n"
    assert "seat is missing; give --answer seat=..." in captured.err


def test_who_cannot_be_asked_declares_nothing(capsys: Capture, asking: list[str]) -> None:
    assert run("call", "book", *asking) == 3
    told = capsys.readouterr().err
    assert "-32021" in told
    assert "--answer KEY=VALUE" in told.splitlines()[0]


@pytest.mark.skipif(os.name != "posix", reason="terminals are POSIX")
def test_at_a_terminal_each_field_is_asked_for_and_a_wrong_answer_again(asking: list[str]) -> None:
    ours, theirs = os.openpty()
    root = Path(__file__).parents[3]
    unhurried = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests' / 'unhurried'}"}
    try:
        os.write(ours, b"middle\nwindow\n\nno\n")
        done = subprocess.run(
            [sys.executable, "-m", "mcp_ref", "call", "book", *asking],
            stdin=theirs,
            env=unhurried,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (0, "bags=0 meal=False seat=window\n")
    assert done.stderr.splitlines() == [
        "asking asks: Window or aisle?",
        "seat [window, aisle]:",
        "seat: not one of the choices",
        "seat [window, aisle]:",
        "bags (empty: 0):",
        "meal [yes, no] (empty: False):",
    ]


@pytest.fixture
def changing(at: At) -> Iterator[list[str]]:
    """The words for a server whose resource changes all the time."""
    server, over = asks(), threading.Event()

    def change() -> None:
        while not over.wait(0.02):
            server.resource_updated("trip://bookings")

    changes = threading.Thread(target=change)
    changes.start()
    yield at(server)
    over.set()
    changes.join()


@in_both_eras
def test_changes_are_told_in_the_way_of_each_era(capsys: Capture, changing: list[str], revision: str) -> None:
    assert run("listen", "trip://bookings", "--count", "2", "--revision", revision, *changing) == 0
    assert capsys.readouterr().out == "notifications/resources/updated trip://bookings\n" * 2
    assert run("listen", "trip://bookings", "--json", "--count", "1", "--revision", revision, *changing) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", "trip://bookings")


def test_listen_says_which_changes_will_not_be_told(capsys: Capture, changing: list[str]) -> None:
    assert run("listen", "trip://bookings", "--prompts", "--count", "1", *changing) == 0
    assert "does not tell of" in capsys.readouterr().err


@in_both_eras
def test_a_server_without_anything_that_changes_cannot_be_listened_to(capsys: Capture, at: At, revision: str) -> None:
    assert run("listen", "--revision", revision, *at(Server("still"))) == 2
    assert "nothing that could change" in capsys.readouterr().err


# -- over HTTP


def test_a_server_at_the_url_of_an_event_stream_is_asked_like_any_other(capsys: Capture) -> None:
    with build_server().serve_http(sse_path="/sse") as http:
        assert run("call", "forecast", "city=Oslo", "--", str(http.sse_url)) == 0
    assert capsys.readouterr().out == "Oslo: sun for 2 days\n"


@pytest.mark.parametrize(
    ("options", "got"),
    [
        (["--env", "KEPT", "--env", "GIVEN=2=3"], {"KEPT": "1", "GIVEN": "2=3"}),
        (["--inherit"], {"KEPT": "1", "OTHER": "1"}),
    ],
)
def test_a_command_gets_the_variables_that_the_command_line_passes_on(
    options: list[str], got: dict[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.setenv("OTHER", "1")
    program = """
import os
import re
from mcp_ref import Server
server = Server("s")
server.resource("env://all")(lambda: " ".join(f"{k}={v}" for k, v in os.environ.items()))
server.run()
"""
    assert run("read", "env://all", *options, "--", sys.executable, "-c", program) == 0
    told = capsys.readouterr().out.split()
    assert {name: value for name, _, value in (each.partition("=") for each in told) if name in EXPECTED} == got


EXPECTED = {"KEPT", "OTHER", "GIVEN"}


def test_headers_go_with_every_request_and_not_into_the_trace(tmp_path: Path) -> None:
    seen: list[str] = []

    def authenticate(request: HttpRequest) -> None:
        seen.append(request.headers.get("authorization", ""))

    trace = tmp_path / "trace.jsonl"
    with build_server().serve_http(authenticate=authenticate) as http:
        header = ["--header", "Authorization: Bearer swordfish", "--trace", str(trace)]
        assert run("tools", *header, "--", http.url) == 0
    assert set(seen) == {"Bearer swordfish"}
    text = trace.read_text("utf-8")
    assert "swordfish" not in text
    assert '"authorization":"[redacted]"' in text


def test_a_url_that_is_not_a_server_says_what_each_way_came_to(capsys: Capture, demo: list[str]) -> None:
    assert run("tools", "--", f"{demo[1]}/elsewhere") == 3
    ways = capsys.readouterr().err.splitlines()
    assert ["404" in way for way in ways] == [True, True]
    assert [way.startswith("    before that: ") for way in ways] == [False, True]
    assert run("tools", "--", "http://127.0.0.1:1/mcp") == 4
    assert "refused" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_serve_over_http_says_where_and_ends_on_one_interrupt(little: list[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    command = [*little[1:], "--http", "--port", "0", "--sse-path", "/sse", "--trace", str(trace)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        urls = [process.stderr.readline().strip().removeprefix("listening on ") for _ in range(2)]
        assert [url.rpartition("/")[2] for url in urls] == ["mcp", "sse"]
        for url in urls:
            assert run("call", "double", "number=21", "--", url) == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
        assert process.stderr.read() == "Ctrl-C ends it\n"
    assert {event.transport for event in read_trace(trace)} == {"http", "http+sse"}


def test_serve_over_http_says_why_it_cannot_listen(capsys: Capture, little: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run("serve", little[-1], "--http", "--port", str(taken.getsockname()[1])) == 4
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err
    assert run("serve", little[-1], "--http", "--path", "mcp") == 2
    assert "a path must begin with /" in capsys.readouterr().err


# -- the command line itself


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["tools"], "which server?"),
        (["tools", "--", "http://"], "begin with http:// or https:// and a host"),
        (["tools", "--", "ftp://localhost/mcp"], "begin with http:// or https://"),
        (["tools", "--", "http://127.0.0.1:1/mcp", "more"], "nothing may follow the URL"),
        (["tools", "--", "python server.py"], "without quotes: -- python server.py"),
        (["tools", "--header", "Authorization", "--", "http://127.0.0.1:1/mcp"], "NAME:VALUE"),
        (["tools", "--header", "Accept: text/html", "--", "http://127.0.0.1:1/mcp"], "set by the transport"),
        (["tools", "--header", "X-Key: 1", *DEMO], "--header, --token-env and --login are for servers at a URL"),
        (["tools", "--env", "A=1", "--", "http://127.0.0.1:1/mcp"], "--env and --inherit are for servers"),
        (["tools", "--env", "=1", *DEMO], "key=value"),
        (["call", "forecast", "--answer", "city", *DEMO], "key=value"),
        (["tools", "--trace", "/no/such/folder/trace", *DEMO], "cannot write the trace"),
        (["narrate", "/no/such/trace"], "/no/such/trace"),
        (["serve", "/no/such/server.py"], "no such file: /no/such/server.py"),
        (["spec", "tools/cal"], "no method 'tools/cal'; did you mean tools/call?"),
        (["spec", "elicitation/create", "--revision", "2024-11-05"], "does not exist in 2024-11-05"),
    ],
)
def test_a_wrong_command_line_is_2_and_says_why(capsys: Capture, arguments: list[str], problem: str) -> None:
    assert run(*arguments) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["explode"], ["tools", "--revision", "1999-01-01"], ["tools", "--timeout", "0"],
        ["tools", "--timeout", "x"], ["tools", "--odd"], ["tools", "python", "server.py"],
        ["serve", "server.py", "--http", "--port", "70000"], ["listen", "--count", "0"],
    ],
)  # fmt: skip
def test_what_argparse_refuses_is_2_as_well(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(*arguments)
    assert left.value.code == 2


@pytest.mark.parametrize(
    ("text", "command", "says"),
    [
        ("{}\n", "narrate", "a.py:1:"),
        ("server = 1\n", "serve", "no Server called 'server'"),
        ("\nraise ValueError('boom')\n", "serve", 'a.py", line 2'),
        ("\nraise ValueError('boom')\n", "serve", "could not be loaded: ValueError('boom')\n"),
    ],
)
def test_a_file_that_is_no_trace_or_makes_no_server_is_told(
    text: str, command: str, says: str, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    assert run(command, str(tmp_path / "a.py")) == 2
    assert says in capsys.readouterr().err


def test_serve_takes_the_server_by_its_name_and_records_the_traffic_as_it_sees_it(
    capsys: Capture, little: list[str], tmp_path: Path
) -> None:
    trace, served = tmp_path / "trace.jsonl", f"{little[-1]}:other"
    words = ["call", "--json", "double", "number=21", "label=007", *little[:-1], served, "--trace", str(trace)]
    assert run(*words) == 0 and '"twice": "00742"' in capsys.readouterr().out
    assert [event.direction for event in read_trace(trace)] == ["receive", "send"] * 3
    assert run("serve", served, "--trace", "/no/such/folder/trace") == 2
    assert "cannot write the trace" in capsys.readouterr().err


# -- the rows


def test_spec_alone_lists_every_method_with_its_revisions(capsys: Capture) -> None:
    assert run("spec") == 0
    lines = capsys.readouterr().out.splitlines()
    of_extensions = ["tasks/update", "notifications/tasks"]
    assert [line.split()[0] for line in lines[1 : lines.index("")]] == [*METHODS, *of_extensions]
    elicit = next(line for line in lines if line.startswith("elicitation/create "))
    assert elicit.split()[1:] == ["S", ">", "C", "-", "-", "yes", "yes", "result"]
    listen = next(line for line in lines if line.startswith("subscriptions/listen "))
    assert listen.split()[1:] == ["C", ">", "S", "-", "-", "-", "-", "yes"]
    for name in ("tasks/get", "tasks/cancel"):
        assert next(line for line in lines if line.startswith(f"{name} ")).split()[-2:] == ["yes", "extension"]
    assert lines[-1] == "extension  only where both sides declare the extension io.modelcontextprotocol/tasks"


def test_spec_describes_every_method() -> None:
    for method, row in METHODS.items():
        out = "\n".join(describe(method, find_revision(row.until or "2026-07-28")))
        assert out.startswith(f"{method}: {row.about}")
        assert f"page       {row.page}" in out


def test_spec_tells_a_method_of_an_extension_from_one_of_the_protocol_with_its_name(capsys: Capture) -> None:
    assert run("spec", "tasks/get") == 0
    newest = capsys.readouterr().out
    assert "page       extensions/tasks" in newest and "result in 2026-07-28: DetailedTaskResult" in newest
    assert "needs      the extension io.modelcontextprotocol/tasks, declared by both sides" in newest
    assert "in 2025-11-25 another method has this name" in newest
    assert run("spec", "tasks/get", "--revision", "2025-11-25") == 0
    older = capsys.readouterr().out
    assert "page       basic/utilities/tasks" in older and "result in 2025-11-25: GetTaskResult" in older


def test_spec_says_what_is_asked_in_a_result_and_where_a_page_has_moved(capsys: Capture) -> None:
    assert run("spec", "elicitation/create") == 0
    asked = capsys.readouterr().out
    assert "in 2026-07-28 not a message, but asked in the result of tools/call, prompts/get, resources/read" in asked
    assert "params in 2026-07-28" in asked
    assert "elicitationId" not in asked
    assert run("spec", "tools/call") == 0
    assert "InputRequiredResult" in capsys.readouterr().out
    assert run("spec", "tools/call", "--revision", "2025-11-25") == 0
    assert "InputRequiredResult" not in capsys.readouterr().out
    assert run("spec", "notifications/cancelled") == 0
    assert "basic/patterns/cancellation in 2026-07-28" in capsys.readouterr().out


def test_spec_says_since_when_a_member_exists(capsys: Capture) -> None:
    assert run("spec", "tools/call", "--revision", "2025-11-25") == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("    ")}
    assert "(since 2025-06-18)" in lines["structuredContent"]
    assert "(only in 2025-11-25)" in lines["task"]
    assert "required" in lines["name"]
    assert run("spec", "tools/call", "--revision", "2024-11-05") == 0
    assert "structuredContent" not in capsys.readouterr().out


def test_the_usage_of_diff_has_the_order_in_which_it_works(capsys: Capture) -> None:
    """See that what comes right after --traffic is a file."""
    with pytest.raises(SystemExit):
        parser().parse_args(["diff", "--help"])
    usage = re.sub(r"\s+", " ", capsys.readouterr().out.split("\n\n")[0])
    assert usage.startswith("usage: mcp-ref diff OLD NEW [-h] [--traffic [FILE.py]]")
    given = parser().parse_args(["diff", "2025-06-18", "2025-11-25", "--traffic"])
    assert (given.old, given.new, given.traffic) == ("2025-06-18", "2025-11-25", "")


# -- the demonstration


@cache
def demonstrated(*words: str) -> tuple[str, list[TraceEvent]]:
    """What `demo` prints with these words, and its trace."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as out:
        trace = Path(folder) / "trace.jsonl"
        assert run("demo", *words, "--trace", str(trace)) == 0
        return out.getvalue(), list(read_trace(trace))


def method_of(event: TraceEvent) -> str:
    return str(event.message.get("method", "")) if isinstance(event.message, dict) else ""


@pytest.mark.parametrize("revision", slow_but(BOTH, REVISIONS))
def test_the_demonstration_tells_a_whole_conversation(revision: str) -> None:
    out, events = demonstrated("--all", "--revision", revision)
    opening = {"session": "Opening a session", "stateless": "Discovery: nothing is opened"}[REVISIONS[revision].era]
    for heading in (opening, "Tools, with progress", "The server asks", "Giving a call up", "Closing"):
        assert f"== {heading}" in out
    assert "the server exited with code 0" in out
    assert (f"Deprecated in {revision}" in out) is (revision == "2026-07-28")
    told = [int(number) for number in re.findall(r"^ *(\d+)  C [→←] S", out, re.MULTILINE)]
    assert told == [event.seq for event in events]
    methods = {method_of(event) for event in events}
    shown = {"tools/list", "tools/call", "notifications/progress", "notifications/message", "resources/read"}
    shown |= {"notifications/resources/updated", "prompts/get", "completion/complete", "notifications/cancelled"}
    shown |= IN_ERA[REVISIONS[revision].era]
    assert shown <= methods
    has_elicitation = METHODS["elicitation/create"].exists_in(REVISIONS[revision])
    assert ("elicitation/create" in methods) is has_elicitation


def test_the_demonstration_waits_for_a_server_that_is_slow_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the first thing that it shows is a fall-back."""
    made: dict[str, Any] = {}

    def client(target: Any, **options: Any) -> None:
        made.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("mcp_ref.lab.cli.demo.Client", client)
    with pytest.raises(KeyboardInterrupt):
        converse(Recorder(), Telling(Narrator()), None, http=False, whole=False)
    assert made["probe_timeout"] >= 30 and made["connect_timeout"] >= 30


IN_ERA = {
    "session": {
        "initialize", "ping", "logging/setLevel", "resources/subscribe", "roots/list", "sampling/createMessage"},
    "stateless": {"server/discover", "subscriptions/listen", "notifications/subscriptions/acknowledged"},
}  # fmt: skip


def test_the_demonstration_of_the_newest_revision_asks_three_questions_in_rounds() -> None:
    out, _ = demonstrated("--all", "--revision", "2026-07-28")
    for question in ("roots-1", "elicitation-2", "sampling-3"):
        assert f'"{question}": ' in out
        assert f'answers "{question}"' in out
    assert "round 4 of the call that request 9 began" in out
    assert "tagged with the subscription that request 13" in out
    # Each answer stands under the heading of its request.
    for part in out.split("\n== ")[1:]:
        asked, answered = part.count("C → S  request"), part.count("C ← S  response") + part.count("C ← S  error")
        assert asked == answered + part.count("notification: notifications/cancelled"), part


@pytest.mark.parametrize("revision", slow_but(BOTH, REVISIONS))
def test_the_demonstration_goes_the_same_way_over_http(revision: str) -> None:
    (_, stdio), (out, http) = (demonstrated("--all", "--revision", revision, *over) for over in ([], ["--http"]))
    assert "the server exited with code 0" in out
    asked, also = ([method_of(event) for event in events] for events in (stdio, http))
    if REVISIONS[revision].disconnect_is_cancellation:
        # Over HTTP the client hangs up instead.
        asked = [method for method in asked if method != "notifications/cancelled"]
    assert sorted(filter(None, asked)) == sorted(filter(None, also))
    assert {event.transport for event in http} == {"http+sse" if revision == "2024-11-05" else "http"}


MARGIN = " " * 13


class Keyboard(io.StringIO):
    """Standard input that says that it is a terminal, or not, and counts the lines that were read."""

    def __init__(self, terminal: bool, lines: str = "") -> None:
        super().__init__(lines)
        self.terminal, self.asked = terminal, 0

    def isatty(self) -> bool:
        return self.terminal

    def readline(self, size: int | None = -1, /) -> str:
        self.asked += 1
        return super().readline(-1 if size is None else size)


@pytest.mark.parametrize(
    ("keyboard", "asked"), [(Keyboard(True, "\n" * 9), 2), (Keyboard(True), 1), (Keyboard(False, "\n" * 9), 0)]
)
def test_the_demonstration_waits_after_each_scene_at_a_terminal_alone(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, keyboard: Keyboard, asked: int
) -> None:
    def scenes(recorder: Recorder, telling: Telling, *_: Any, **options: Any) -> int:
        for scene in "abc":
            telling.heading(0, f"{SCENE}{scene}")
        return 0

    monkeypatch.setattr("mcp_ref.lab.cli.demo.converse", scenes)
    monkeypatch.setattr(sys, "stdin", keyboard)
    assert run("demo", "--step") == 0
    said = capsys.readouterr()
    assert said.out.count("\n== ") == 3
    assert (keyboard.asked, said.err.count("Enter goes on")) == (asked, asked)


def test_the_demonstration_is_short_and_quotes_the_line_that_caused_a_message() -> None:
    out, _ = demonstrated()
    assert len(out.splitlines()) <= 100
    assert "== One call" in out and "== Prompts" not in out
    before, _, after = out.partition('\n>>> client.call_tool("forecast", {"city": "Lisbon"})\n')
    assert "server/discover" in before and "tools/call" not in before
    assert 'the text: "Lisbon: sun for 2 days"' in after


def test_the_demonstration_shows_a_message_in_twelve_lines_and_in_full_where_asked() -> None:
    short, _ = demonstrated()
    # From the brace that opens a message to the one that closes it, or to where it is cut.
    ends = [line for line in short.splitlines() if line == MARGIN + "}" or line.endswith(" more lines")]
    messages = [part.partition("\n" + end)[0] for part, end in zip(short.split(MARGIN + "{\n")[1:], ends, strict=True)]
    assert [len(message.splitlines()) <= 11 for message in messages] == [True] * 4
    assert f"{MARGIN}... " in short
    full, _ = demonstrated("--full")
    assert "more lines" not in full
    assert '"io.modelcontextprotocol/clientCapabilities": {\n' in full


def test_the_commands_that_the_demonstration_ends_with_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole, *others = demonstrated()[0].partition("To go on:\n")[2].splitlines()
    assert whole.strip() == "python -m mcp_ref demo --all" and len(others) == 2
    for command in others:
        python, _, program, *words = command.split()
        assert (python, program) == ("python", "mcp_ref")
        assert run(*(sys.executable if word == "python" else word for word in words)) == 0
    assert (tmp_path / "oslo.html").is_file()


# -- as a process of its own


def test_help_has_an_example_of_each_command_by_its_use(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told, made = capsys.readouterr().out, parser()
    assert re.findall(r"^(\w+):$", told, re.MULTILINE) == [*GROUPS, "options"]
    assert [*GROUPS] == ["try", "call", "watch", "judge"]
    for row in chain(*GROUPS.values()):
        assert f"  {row.name:<10} {row.about}\n               {row.shown()}\n" in told
        words = row.shown().split(" -- ")[0].split()[1:]
        assert made.parse_args(words).run is row.run
        with pytest.raises(SystemExit):
            made.parse_args([row.name, "--help"])
        usage = capsys.readouterr().out.partition("\n\n")[0]
        assert usage.endswith("-- COMMAND [ARGS...]") == (row.server or row.name == "check")


def test_a_reader_that_goes_away_is_not_a_failure() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_ref", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_an_interrupt_is_130_and_takes_the_server_along(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    command = [sys.executable, "-m", "mcp_ref", "call", "watch", "city=Oslo", "--narrate", "--trace", str(trace), *DEMO]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "tools/call" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert "Traceback" not in process.stderr.read()
