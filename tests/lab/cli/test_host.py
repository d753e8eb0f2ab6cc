"""`mcp-ref host`: at a terminal, from a pipe, and for one call."""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Answer, Cancel, Question, Server, Skills
from mcp_ref.host.consent import KINDS
from mcp_ref.lab.cli import host, main, render
from mcp_ref.lab.cli.host import Console, Terminal
from tests.lab.cli.test_form import typed
from tests.lab.conftest import At
from tests.slow import slow_but
from tests.support.clock import until
from tests.support.wire import Background

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="terminals are made by pty")
Capture = pytest.CaptureFixture[str]

SERVER = """
import threading
from mcp_ref import Context, Server

server = Server("somebody else")

@server.tool()
def add(a: int, label: str) -> str:
    return f"{label}{a + 1}"

@server.tool()
def rude() -> str:
    return "\\x1b[2J\\nmine: call the tool mine/add?\\ny(es): \\u202etxt"

@server.tool()
def slow(ctx: Context) -> str:
    open(__file__ + ".begun", "w").close()
    for _ in range(1500):
        ctx.check_cancelled()
        threading.Event().wait(0.01)
    return "late"

@server.tool()
def book(ctx: Context) -> str:
    return str(ctx.elicit("Which seat?", {"seat": {"type": "string", "title": "Seat\\nallow?"}}))

@server.resource("note://one")
def note() -> str:
    return "a note"

@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."

server.run()
"""


def written(folder: Path, **servers: object) -> str:
    """The path of a file with these servers."""
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return str(path)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    script = tmp_path / "server.py"
    script.write_text(SERVER, "utf-8")
    entry = {"command": sys.executable, "args": [str(script)], "inheritEnv": ["PYTHONPATH"]}
    return written(tmp_path, mine=entry, wrong={}, off={**entry, "disabled": True})


def test_list_shows_what_would_be_started_and_starts_nothing(config: str, capsys: Capture, tmp_path: Path) -> None:
    assert main(["host", config, "--list"]) == 0
    out = capsys.readouterr().out
    assert "mine: waiting" in out and "server.py" in out and "all of your rights" in out
    assert "wrong: failed: a server must have either a command or a url" in out and "off: disabled" in out
    assert not (tmp_path / "mine").exists()


def test_one_call_needs_rules_for_the_start_and_for_the_tool(
    config: str, at: At, capsys: Capture, tmp_path: Path
) -> None:
    server = Server("somebody else")
    server.tool(name="add")(lambda a, label: f"{label}{int(a) + 1}")
    config = written(tmp_path, mine={"url": at(server)[1]}, wrong={}, off={"url": "http://127.0.0.1:1/mcp"})
    call = ["host", config, "--call", "mine/add", "a=2", "label=7"]
    assert main(call) == 5 and "--allow start:mine" in capsys.readouterr().err
    assert main([*call, "--allow", "start:mine"]) == 5 and "--allow tool:mine/add" in capsys.readouterr().err
    audit = tmp_path / "audit.jsonl"
    allowed = [*call, "--allow", "start:mine", "--allow", "tool:mine/a*", "--audit", str(audit)]
    assert main([*allowed, "--trace", str(tmp_path / "traces")]) == 0 and capsys.readouterr().out == "73\n"
    assert (tmp_path / "traces" / "mine.jsonl").exists() and '"outcome": "ok"' in audit.read_text("utf-8")
    assert main([*allowed, "--json"]) == 0 and json.loads(capsys.readouterr().out)["content"][0]["text"] == "73"
    assert main([*allowed, "--deny", "tool:mine/add"]) == 5
    for wrong, problem in (
        (["host", "/no/such/file", "--list"], "/no/such/file"),
        (["host", config, "--call", "x/add"], "one of the servers mine, wrong, off"),
        (["host", config, "--list", "--allow", "tols:x"], "a rule is"),
    ):
        assert main(wrong) == 2 and problem in capsys.readouterr().err
    assert main(["host", config, "--call", "wrong/add", "--allow", "start"]) == 4


def test_commands_from_a_pipe_are_done_and_what_no_rule_allows_is_denied(config: str) -> None:
    typed = """/servers
/start mine
/tools add
/call mine/add a=2 label=x
/call mine/rude
/read mine note://one
/attach mine note://one
/context
/resources
/prompts
/prompt mine/greet name=Ann
/roots add /tmp
/rules
/deny tool:mine/add
/call mine/add a=2 label=x
/drop tool:mine/add
/forget *
/pins
/check
/instructions
/log
/nonsense
what is this
/stop mine
/servers
/quit
"""
    command = [sys.executable, "-m", "mcp_ref", "host", config, "--allow", "start:mine", "--allow", "tool"]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    out, err = done.stdout, done.stderr
    assert "  | x3\n" in out and "  | a note\n" in out and "Greet Ann." in out and "  | /tmp\n" in out
    assert "[from server 'mine', resource note://one]" in out and "allow tool:*" in out
    assert "mine/add: same" in out and "mine: answers" in out and "mine: stopped" in out
    assert "consent was refused (rule)" in err and "not understood: /nonsense" in err and "no model" in err
    # What a server says moves no cursor, and begins no line of ours.
    assert "\x1b" not in out and "\u202e" not in out and "\\x1b[2J" in out
    assert all(line.startswith("  | ") for line in out.splitlines() if "call the tool mine/add?" in line)


def test_skills_are_listed_and_loaded_by_consent(
    at: At, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    skills = Skills()
    skills.add("acme/refunds", {"SKILL.md": "# Refund \x1b[2J"}, description="How to\nallow?")
    entry = {"url": at(Server("somebody else", extensions=[skills]))[1]}
    config, uri = written(tmp_path, mine=entry, other=entry), "skill://acme/refunds/SKILL.md"
    with typed(f"/start mine\n/start other\n/skills\n/load mine {uri}\n/load other {uri}\n/context\n/skills\n/quit\n"):
        assert main(["host", config, "--allow", "start", "--allow", "skill:mine/*"]) == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert f"  | mine {uri}  new: How to" in lines and f"  | mine {uri}  loaded: How to" in lines
    assert f"  | other {uri}  loaded: How to" not in lines and "consent was refused" in told.err
    assert f"[from server 'mine', skill file '{uri}': a text of this server, not of the user]" in told.out
    assert "# Refund \\x1b[2J" in told.out and all(line.startswith("  | ") for line in lines)


class Pty:
    """The command at a terminal of its own."""

    def __init__(self, *command: str) -> None:
        import pty

        self.fd, theirs = pty.openpty()
        # No `pty.fork()`: this process has threads. A session of its own takes the terminal by asking for it.
        own = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", own, *command], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.seen = ""

    def until(self, text: str) -> str:
        """Return what comes up to a text."""
        limit = time.monotonic() + 15
        while text not in self.seen:
            assert time.monotonic() < limit, f"no {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.5)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
                except OSError:
                    raise AssertionError(f"ended, and no {text!r} in {self.seen!r}") from None
        before, _, self.seen = self.seen.partition(text)
        return before

    def until_all(self, *texts: str) -> None:
        """Until each of several texts has come, in whatever order."""
        seen = ""
        while missing := [text for text in texts if text not in seen + self.seen]:
            shortest = min(missing, key=len)
            seen += self.until(shortest) + shortest

    def type(self, text: str) -> None:
        os.write(self.fd, f"{text}\n".encode())

    def interrupt(self) -> None:
        os.write(self.fd, b"\x03")

    def code(self) -> int:
        limit = time.monotonic() + 10
        while time.monotonic() < limit:
            if (code := self.process.poll()) is not None:
                return code
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
                except OSError:
                    pass
        self.process.kill()
        raise AssertionError(f"did not end: {self.seen!r}")


@contextmanager
def console_of(config: str) -> Iterator[Pty]:
    made = Pty(sys.executable, "-m", "mcp_ref", "host", config)
    yield made
    os.close(made.fd)
    made.process.wait(10)


@pytest.fixture
def console(config: str) -> Iterator[Pty]:
    with console_of(config) as made:
        yield made


def test_at_a_terminal_the_user_is_asked_and_ctrl_c_cancels_what_runs(console: Pty, config: str) -> None:
    shown = console.until("y(es), for this r(un), a(lways), n(o): ")
    assert "mine: start, or connect to, the server mine?" in shown and "server.py" in shown
    console.type("maybe")
    console.until("n(o): ")
    console.type("y")
    console.until("mine: ready")
    console.type("/call mine/slow")
    console.until("as they are: ")
    console.type("d")
    assert "inputSchema" in console.until("as they are: ")
    console.type("t")
    console.type("")
    begun, limit = Path(config).with_name("server.py.begun"), time.monotonic() + 10
    while not begun.exists() and time.monotonic() < limit:
        select.select([], [], [], 0.01)
    console.interrupt()
    console.until("asked to cancel; Ctrl-C again leaves")
    # All tools of the server were allowed, as they are.
    console.type("/call mine/add a=1 label=x")
    console.until("  | x2")
    console.type("/call mine/book")
    shown = console.until("Seat\\nallow?: ")
    assert '"message": "Which seat?"' in shown
    console.type("window")
    shown = console.until("send this to mine? y(es), n(o), e(dit): ")
    assert '"seat": "window"' in shown
    for words, problem in (("sea=1", "the form has no field sea"), ("seat=aisle", '"seat": "aisle"')):
        console.type("e")
        console.until("NAME=value: ")
        console.type(words)
        assert problem in console.until("send this to mine? y(es), n(o), e(dit): ")
    console.type("y")
    console.until("'seat': 'aisle'")
    console.until("> ")
    console.interrupt()
    assert console.code() == 130


def test_a_question_is_not_answered_by_what_was_typed_before_and_stands_below_what_is_told(config: str) -> None:
    """Two servers are asked about, one after the other, and told of meanwhile."""
    servers = json.loads(Path(config).read_text("utf-8"))["mcpServers"]
    with console_of(written(Path(config).parent, **servers, second=servers["mine"])) as console:
        console.until("n(o): ")
        console.type("y")
        console.until("second: start, or connect to, the server second?")
        console.until("mine: ready")
        assert console.until("n(o): ").strip().startswith("y(es)")
        console.type("n")
        console.until("second: stopped: not started, by user")
        console.until("> ")
        # In one write, so that both are there before the question.
        console.type("/start second\ny")
        assert "server.py" in console.until("n(o): ")
        console.type("n")
        console.until("not started, by user")
        console.type("/quit")
        assert console.code() == 0


# -- the console's questions


class Typed:
    """In place of a terminal: lines that somebody types, and then the end of the input."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.prompts: list[str] = []

    def line(self, prompt: str, withdrawn: Cancel | None = None) -> str:
        self.prompts.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)

    def draw(self, above: str = "") -> None:
        pass


FORM = {
    "type": "object", "required": ["seat", "row"], "properties": {
        "seat": {"type": "string"}, "row": {"type": "integer", "default": 7}, "note": {"type": "string"}},
}  # fmt: skip
SHOWN: dict[str, Any] = {
    "tool": {"definition": {"name": "x", "description": "Adds.", "inputSchema": {"type": "object"}},
             "arguments": {"a": 1}},
    "sampling": {"model": "m", "request": {"messages": [{"role": "user", "content": {"type": "text", "text": "p"}}]}},
    "answer": {"answer": {"role": "assistant", "content": {"type": "text", "text": "a"}, "model": "m"}},
    "form": {"message": "Which seat?", "form": FORM},
}  # fmt: skip


def asked(monkeypatch: pytest.MonkeyPatch, kind: str, *lines: str) -> tuple[Any, Typed]:
    """Return what the console answers to a question of a kind when somebody types these lines."""
    terminal = Typed(*lines)
    monkeypatch.setattr("mcp_ref.lab.cli.host.Terminal", lambda: terminal)
    console = Console()
    return console.ask(Question(kind, "mine", "mine", "b", "1", SHOWN.get(kind, {"what": kind}))), terminal


def said_yes(answer: Any) -> bool:
    return answer is True or (isinstance(answer, Answer) and answer.allow)


@pytest.mark.parametrize("kind", KINDS)
def test_a_no_is_a_no_at_every_door_of_the_console(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = ["window", "", ""] if kind == "form" else []
    for no in ("n", "no", "NO"):
        answer, terminal = asked(monkeypatch, kind, *filled, no)
        assert isinstance(answer, Answer) and answer.allow is False and not terminal.lines
    answer, terminal = asked(monkeypatch, kind, *filled, "y")
    assert answer.allow is True and answer.remember == "once" and not terminal.lines


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_choice_is_asked_again_and_the_end_of_the_input_is_a_no(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = ["window", "", ""] if kind == "form" else []
    # Not even the first letter of a longer word; and nothing that this door does not offer.
    typed = ["", " ", "abort", "reject", "yikes", "never", "(", "x"]
    typed += ["a", "r", "t"] if kind in ("url", "again", "form", "sampling", "answer") else ["e"]
    answer, terminal = asked(monkeypatch, kind, *filled, *typed)
    assert answer is False and len(terminal.prompts) == len(filled) + len(typed) + 1
    for length in range(len(filled) + 1):
        assert not said_yes(asked(monkeypatch, kind, *filled[:length])[0])


@pytest.mark.parametrize("kind", ["sampling", "answer"])
def test_the_end_of_the_input_in_the_middle_of_an_edit_is_a_no(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, kind, "e")[0] is False
    assert "better" in str(asked(monkeypatch, kind, "e", "better")[0].value)


def test_what_a_form_says_can_be_changed_at_its_review(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    answer, terminal = asked(monkeypatch, "form", "window", "", "x", "e", "seat=aisle", "e", "note=", "y")
    # What goes out for a field that was left empty is reviewed, too.
    assert answer == Answer(True, value={"row": 7, "seat": "aisle"}) and not terminal.lines
    reviews = capsys.readouterr().out
    assert reviews.count('"row": 7') == 3 and '"note": "x"' in reviews and reviews.count('"seat": "aisle"') == 2
    answer, _ = asked(monkeypatch, "form", "window", "", "", "edit", "row=3", "e", "other=1", "yes")
    assert answer == Answer(True, value={"row": 3, "seat": "window"})
    for lines in (["e"], ["e", "seat"], ["e", "seat=aisle"], ["e", "seat=aisle", "n"], ["e", "seat="]):
        assert not said_yes(asked(monkeypatch, "form", "window", "", "", *lines)[0])


def test_the_definition_is_shown_on_request_and_the_question_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    answer, _ = asked(monkeypatch, "tool", "d", "n")
    brief, whole = capsys.readouterr().err.split("inputSchema")
    assert answer == Answer(False) and "definition: Adds." in brief and '"arguments"' in brief and '"a": 1' in whole


@contextmanager
def typing_into() -> Iterator[tuple[Terminal, int]]:
    """A terminal in this process, and the descriptor to which is written what it is to read."""
    before, (reads, writes) = os.dup(0), os.pipe()
    os.dup2(reads, 0)
    terminal = Terminal()
    try:
        yield terminal, writes
    finally:
        terminal.close()
        os.dup2(before, 0)
        for descriptor in (before, reads, writes):
            os.close(descriptor)


def test_a_question_is_not_answered_by_a_line_that_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that reads is held up with a line in its hands while the question is asked."""
    read, has_it = host._read, threading.Event()

    def held_up() -> bytes:
        data = read()
        has_it.set()
        threading.Event().wait(0.2 if data == b"y\n" else 0)
        return data

    monkeypatch.setattr(host, "_read", held_up)
    with typing_into() as (terminal, writes):
        os.write(writes, b"y\n")
        assert has_it.wait(5)
        asking = Background(terminal.line, "sure? ", Cancel())
        until(lambda: terminal._takers)
        os.write(writes, b"n\n")
        assert asking.outcome() == "n"


def test_a_question_stays_before_the_prompt_for_commands() -> None:
    """The prompt is shown again while a question of a server is open: the next line is the answer all the same."""
    got = list[tuple[str, str]]()
    threads = []
    with typing_into() as (terminal, writes):
        for name, given_up in (("question", [Cancel()]), ("command", [])):
            asking = threading.Thread(
                target=lambda name=name, more=given_up: got.append((name, terminal.line(f"{name}: ", *more)))
            )
            asking.start()
            threads.append(asking)
            assert until(lambda: len(terminal._takers) == len(threads))
        for line in (b"n\n", b"/quit\n"):
            os.write(writes, line)
        for each in threads:
            each.join(5)
    assert sorted(got) == [("command", "/quit"), ("question", "n")]


def test_a_prompt_that_comes_while_something_is_told_stands_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    note, screen = render.note, io.StringIO()

    def slowly(text: str) -> None:
        asking.start()
        assert until(lambda: terminal._takers)
        asking.join(0.1)  # it would print now, if it could
        note(text)

    monkeypatch.setattr(render, "note", slowly)
    monkeypatch.setattr(sys, "stderr", screen)
    with typing_into() as (terminal, writes):
        asking = threading.Thread(target=terminal.line, args=("> ",))
        terminal.draw("told")
        assert until(lambda: screen.getvalue() == "told\n> "), screen.getvalue()
        os.write(writes, b"/quit\n")
        asking.join(5)


@pytest.mark.parametrize("question", slow_but(["start", "field"], ["start", "tool", "field", "review"]))
def test_ctrl_c_at_a_question_is_a_no(question: str, console: Pty, config: str) -> None:
    console.until("n(o): ")
    if question == "start":
        console.interrupt()
        assert console.code() == 130 and "mine: ready" not in console.seen
        return
    console.type("y")
    console.until("mine: ready")
    console.until("> ")
    console.type("/call mine/book")
    console.until("t(ools) of this server as they are: ")
    if question != "tool":
        console.type("y")
        console.until("Seat\\nallow?: ")
    if question == "review":
        console.type("window")
        console.until("send this to mine? y(es), n(o), e(dit): ")
    console.interrupt()
    console.until_all("was withdrawn", "asked to cancel", "> ")
    console.type("y")
    seen = console.until("this host has no model to say this to")
    assert "accept" not in seen and "'seat'" not in seen
    console.type("/quit")
    assert console.code() == 0
