"""`mcp-ref diff --traffic`: a program in two revisions, call by call, and programs of which nothing can be told."""

from __future__ import annotations

import re
import runpy
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.lab.cli import main
from mcp_ref.lab.judge.compare import Change
from mcp_ref.lab.testing.align import NOT_COMPARED, align
from mcp_ref.lab.testing.replay import turns_of
from tests.lab.conftest import is_gone
from tests.lab.testing.recording import ROOT
from tests.support.clock import until

OLD, BEFORE, NEW = "2025-06-18", "2025-11-25", "2026-07-28"
PROGRAM = """
import sys
from mcp_ref import Client, Server
revision, trace = sys.argv[1:]
server = Server("s")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
with Client(server, revision=revision, trace=trace) as client:
    client.call_tool("add", {"a": 1, "b": 2})
print("this is not traffic")
"""


HOSTILE = PROGRAM.replace(
    '    client.call_tool("add", {"a": 1, "b": 2})\n',
    '    try:\n        client.call_tool("<u>|", {"<i>|": "<b>|" + revision})\n    except Exception:\n        pass\n',
)


def turns(path: Path, revision: str, text: str = "x", more: Any = lambda client: None) -> Any:
    """Return what is said to a server that asks for a seat, as it is recorded."""
    server = Server("seats")

    @server.tool()
    def book(ctx: Context) -> str:
        answer = ctx.elicit("Which seat?", {"seat": {"type": "string"}})
        return f"{answer['content']['seat']}{text}"

    with Client(server, revision=revision, trace=str(path), elicit=lambda *asked: {"seat": "window"}) as client:
        client.call_tool("book")
        more(client)
    return turns_of(path)[0]


def parts(changes: list[Change]) -> list[str]:
    return [part.partition(" ")[2] for part in dict.fromkeys(change.part for change in changes)]


def of(changes: list[Change], name: str) -> list[str]:
    """The lines of a call, without the values."""
    return [re.sub(r":( [\[{\"].*)?$", "", str(change)) for change in changes if change.part.endswith(f". {name}")]


# -- aligning -----------------------------------------------------------------------------------------------------


def test_the_same_traffic_twice_is_the_same(tmp_path: Path) -> None:
    for revision in (OLD, NEW):
        changes = align(turns(tmp_path / "a", revision), turns(tmp_path / "b", revision))
        assert [change for change in changes if change.was != change.now] == []
        assert "tools/call book" in parts(changes)


def test_a_question_of_a_session_stands_beside_the_rounds_of_one_call(tmp_path: Path) -> None:
    changes = align(turns(tmp_path / "a", BEFORE), turns(tmp_path / "b", NEW))
    assert parts(changes) == ["initialize", "server/discover", "tools/call book"]
    assert of(changes, "tools/call book") == [
        "new   client: tools/call params._meta",
        "gone  server: elicitation/create",
        "gone  client: answer to elicitation/create",
        "new   server: questions to tools/call",
        "new   client: tools/call again",
        "new   server: answer to tools/call result.resultType",
        "new   server: answer to tools/call result._meta",
    ]


def test_between_two_sessions_only_members_differ(tmp_path: Path) -> None:
    changes = align(turns(tmp_path / "a", OLD), turns(tmp_path / "b", BEFORE, "y"))
    told = [str(change) for change in changes if change.was != change.now and change.part.endswith("book")]
    assert told == [
        'new   server: elicitation/create params.mode: "form"',
        'server: answer to tools/call result.content[0].text: "windowx" -> "windowy"',
    ]


def test_a_call_that_one_of_them_does_not_make_is_new(tmp_path: Path) -> None:
    changes = align(turns(tmp_path / "a", OLD), turns(tmp_path / "b", OLD, more=lambda client: client.list_tools()))
    assert {(change.part, bool(change.was)) for change in changes if change.was != change.now} == {
        ("3. tools/list", False)
    }


def test_of_a_long_text_the_place_is_shown_where_it_differs(tmp_path: Path) -> None:
    old, new = (turns(tmp_path / name, OLD, "z" * 5000 + name) for name in "ab")
    (change,) = (each for each in align(old, new) if each.was != each.now)
    assert change.was.endswith('zza"')
    assert change.now.endswith('zzb"')
    assert max(map(len, change)) < 250


def test_what_hides_secrets_and_what_a_side_makes_up_is_not_compared(tmp_path: Path) -> None:
    old, new = turns(tmp_path / "a", NEW), turns(tmp_path / "b", NEW)
    new[-1].sent["params"]["requestState"] += "other"
    new[-1].sent["id"] += 7
    assert not [change for change in align(old, new) if change.was != change.now]
    del new[-1].sent["params"]["requestState"]
    assert [change.name for change in align(old, new) if not change.now] == [
        "client: tools/call again params.requestState"
    ]


def test_null_and_missing_and_true_and_1_are_told_apart(tmp_path: Path) -> None:
    old, new = turns(tmp_path / "a", OLD), turns(tmp_path / "b", OLD)
    old[0].sent["params"] |= {"a": None, "b": 1, "c": 1}
    new[0].sent["params"] |= {"b": True, "c": 1.0}
    told = [str(change) for change in align(old, new) if change.was != change.now]
    assert told == ["gone  client: initialize params.a: null", "client: initialize params.b: 1 -> true"]


def test_a_server_may_answer_anything(tmp_path: Path) -> None:
    old, new = turns(tmp_path / "a", OLD), turns(tmp_path / "b", OLD)
    for odd in (None, [], "x", {"resultType": []}):
        new[0].said[0].message["result"] = odd
        assert "server: answer to initialize result" in {each.name[:35] for each in align(old, new)}


# -- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs are run in this process: how one ends is shown elsewhere."""

    def run(words: list[str], *_: Any) -> None:
        if words[0] == "-m":
            assert main(words[2:]) == 0
        else:
            monkeypatch.setattr(sys, "argv", words)
            runpy.run_path(words[0], run_name="__main__")

    monkeypatch.setattr("mcp_ref.lab.cli.diff._run", run)


def test_a_program_is_run_in_both_revisions(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", BEFORE, NEW, "--traffic", str(program)]) == 0
    told = capsys.readouterr().out
    assert "3. tools/call add\n  new   client: tools/call params._meta" in told
    assert told.endswith(f"\n\n{NOT_COMPARED}\n")
    assert "this is not traffic" not in told


@pytest.mark.usefixtures("in_this_process")
def test_the_demo_is_the_program_of_whoever_names_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", BEFORE, NEW, "--traffic"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^\d+\. tools/call forecast$", told, re.MULTILINE)
    assert "\n  gone  server: elicitation/create" in told
    assert "\n  new   server: questions to tools/call" in told
    assert "\n  same  server: notifications/progress\n" in told


@pytest.mark.usefixtures("in_this_process")
def test_markdown_has_three_cells_a_row_and_no_tags(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(HOSTILE)
    assert main(["diff", OLD, NEW, "--traffic", str(program), "--format", "markdown"]) == 0
    told = capsys.readouterr().out
    assert "&lt;u>" in told
    assert main(["diff", OLD, "2024-11-05", "--traffic", str(program), "--format", "markdown"]) == 0
    told += capsys.readouterr().out
    rows = [line for line in told.splitlines() if line.startswith("| `")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {4}
    assert "<" not in told
    assert main(["diff", OLD, OLD, "--traffic", str(program), "--format", "markdown"]) == 0
    assert "| the same | the same |" in capsys.readouterr().out


@pytest.mark.usefixtures("in_this_process")
def test_the_page_marks_what_is_the_same(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", OLD, BEFORE, "--traffic", str(program), "--format", "html"]) == 0
    assert "<tr class=same><td>server: answer to tools/call<td>the same<td>the same" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("raise SystemExit(3)", 4, "failed with exit code 3"),
        ("import os; os.abort()", 4, "failed with exit code -6"),
        ("import signal; signal.pause()", 4, "had not ended after 1 s"),
        ("print('hello')", 2, "recorded no message; it is given a revision to speak, and the path of its trace"),
        (PROGRAM.replace("revision=revision", "revision='2025-03-26'"), 2, "spoke 2025-03-26"),
        ("import sys; open(sys.argv[2], 'w').write('junk\\n')", 2, "recorded what cannot be read: "),
        ("import os, sys; os.mkdir(sys.argv[2])", 2, "recorded what cannot be read: it is not a file"),
        ("import os, sys; os.mkfifo(sys.argv[2])", 2, "recorded what cannot be read: it is not a file"),
        ("import os, sys; os.symlink('/dev/zero', sys.argv[2])", 2, "recorded what cannot be read: it is not a file"),
    ],
)
def test_a_program_of_which_nothing_can_be_told_is_one_sentence(
    text: str, code: int, says: str, program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program.write_text(text)
    assert main(["diff", OLD, NEW, "--traffic", str(program), "--timeout", "1" if "pause" in text else "60"]) == code
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"mcp-ref: {program}, run for {OLD}, {says}")
    assert said.err.count("\n") == 1


def test_a_message_that_is_too_deep_to_be_compared_is_one_sentence(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns(tmp_path / "t", OLD)
    deep = (tmp_path / "t").read_text("utf-8").replace('"windowx"', "[" * 5_000 + "]" * 5_000)
    assert deep.count("[" * 5_000) == 1
    (tmp_path / "deep").write_text(deep)
    program.write_text(f"import shutil, sys; shutil.copy({str(tmp_path / 'deep')!r}, sys.argv[2])")
    assert main(["diff", OLD, OLD, "--traffic", str(program)]) == 2
    # As it depends on the Python, the trace cannot be read, or be read and not compared.
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "nested too deeply" in told


def test_a_program_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "missing.py")
    assert main(["diff", OLD, NEW, "--traffic", missing]) == 2
    assert capsys.readouterr().err == f"mcp-ref: {missing} cannot be read\n"


STARTS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
open({number!r}, "w").write(str(child.pid) + "\\n")
"""


@pytest.mark.parametrize(("how", "code"), [("by itself", 2), ("too late", 4), ("SIGTERM", 130)])
def test_what_the_program_has_started_is_ended_also_in_a_session_of_its_own(
    tmp_path: Path, program: Path, how: str, code: int
) -> None:
    number = tmp_path / "number"
    program.write_text(STARTS.format(number=str(number)) + "time.sleep(60)\n" * (how != "by itself"))
    words = ["diff", OLD, NEW, "--traffic", str(program), "--timeout", "1" if how == "too late" else "60"]

    def started() -> bool:
        return number.exists() and number.read_text().endswith("\n")

    if how != "SIGTERM":
        assert main(words) == code
    else:
        with subprocess.Popen([sys.executable, "-m", "mcp_ref", *words], stderr=subprocess.DEVNULL, cwd=ROOT) as diff:
            try:
                until(started)
                diff.send_signal(signal.SIGTERM)
                assert diff.wait(60) == code
            finally:
                diff.kill()
    # On a machine that is busy it may have come too late to start anything.
    if started() or how != "too late":
        until(partial(is_gone, int(number.read_text())))
