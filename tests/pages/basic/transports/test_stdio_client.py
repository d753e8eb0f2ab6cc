"""basic/transports#stdio and basic/lifecycle#stdio: the client's side, which launches a server and ends it."""

from __future__ import annotations

import logging
import os
import queue
import re
import select
import signal
import socket
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from mcp_ref.errors import RequestTimeout, TransportClosed
from mcp_ref.kit.process import lines
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports import stdio
from mcp_ref.pages.basic.transports.stdio import StdioClientTransport

from .collector import WAIT, Collector, Notes, in_thread, soon

LOGGER = "mcp_ref"

SAY = """
    import json, os, signal, subprocess, sys
    def say(message):
        print(json.dumps(message), flush=True)
"""


pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


class Server(Collector):
    """A script as a server, and the transport to it."""

    def __init__(self, code: str, *, before: str = SAY, **options: Any) -> None:
        super().__init__()
        self.command = [sys.executable, "-c", textwrap.dedent(before) + textwrap.dedent(code)]
        named_by_a_path = [Path(self.command[0]), *self.command[1:]]
        self.transport = StdioClientTransport(named_by_a_path, **{"inherit": True, **options})

    def __enter__(self) -> Self:
        self.transport.start(self.receive, self.lost)
        return self

    def __exit__(self, *exc: object) -> None:
        self.transport.close(soon())
        assert self.ends == 1


def shown(command: list[str]) -> str:
    """A command as a message names it, on one line."""
    text = " ".join(" ".join(command).split())
    return text if len(text) <= 120 else text[:117] + "..."


def exists(pid: int) -> bool:
    """Whether there is such a process; one that has not been reaped counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Fifo:
    """Knows when the last process that has it open is gone."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def all_gone(self, timeout: float = WAIT) -> bool:
        poll = select.poll()
        poll.register(self.fd, 0)
        return bool(poll.poll(timeout * 1000))


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    fifo = Fifo(tmp_path / "fifo")
    yield fifo
    os.close(fifo.fd)


# -- launching ------------------------------------------------------------------------------------------------------


def test_messages_go_to_standard_in_and_come_from_standard_out():
    with Server("for line in sys.stdin: say({'echo': json.loads(line)})") as server:
        server.transport.send({"text": "a\u2028\n"}, soon())
        assert server.message() == {"echo": {"text": "a\u2028\n"}}


@pytest.mark.parametrize(
    ("command", "options", "problem", "says"),
    [
        *[(each, {}, TypeError, "a command must be a list") for each in ("python server.py", b"python", [])],
        (["true"], {"stderr": "log"}, ValueError, "stderr must be"),
        (["x"], {"inherit": "PATH"}, TypeError, "a list of names"),
    ],
)
def test_what_no_server_can_be_launched_with_is_refused_when_it_is_said(command, options, problem, says):
    with pytest.raises(problem, match=says):
        StdioClientTransport(command, **options)


@pytest.mark.parametrize(
    ("mode", "options", "text"),
    [
        (None, {}, "No such file or directory"),
        (0o644, {"stderr": "inherit"}, "Permission denied"),
        (0o755, {}, "Exec format error"),
        (0o755, {"stderr": "inherit", "cwd": "/nonexistent"}, "No such file or directory: '/nonexistent'"),
    ],
)
def test_what_cannot_be_launched_is_named(tmp_path, mode, options, text):
    program = tmp_path / "the-server"
    if mode is not None:
        program.write_bytes(b"\x7fnothing")
        program.chmod(mode)
    collector = Collector()
    transport = StdioClientTransport([str(program)], **options)
    with pytest.raises(TransportClosed, match=text) as caught:
        transport.start(collector.receive, collector.lost)
    assert f"the server {shown([str(program)])!r} could not be started" in str(caught.value)
    transport.close(soon())
    assert collector.ends == 0


@pytest.mark.parametrize("nth", range(7))
def test_when_the_system_has_no_more_pipes_nothing_is_left_over(monkeypatch, nth):
    if sys.version_info < (3, 11, 4) and nth in (2, 3):
        pytest.skip("before Python 3.11.4 subprocess.Popen itself left open what it had made (gh-87474)")
    calls: list[int] = []

    def until_full(make: Callable[[], Any]) -> Any:
        calls.append(1)
        if len(calls) == nth + 1:
            raise OSError(24, "Too many open files")
        return make()

    server = Server("sys.stdin.read()")
    monkeypatch.setattr(os, "pipe", partial(until_full, os.pipe))
    monkeypatch.setattr(socket, "socketpair", partial(until_full, socket.socketpair))
    with pytest.raises(TransportClosed, match="Too many open files"):
        server.transport.start(server.receive, server.lost)
    assert server.ends == 0


@pytest.mark.parametrize("name", ["mcp-stdio-stderr", "mcp-stdio-reader"])
def test_when_no_thread_can_be_started_nothing_is_left_over(monkeypatch, name):
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    server = Server("sys.stdin.read()")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        server.transport.start(server.receive, server.lost)
    assert server.ends == 0


def test_what_is_left_of_a_flood_does_not_hold_up_the_end(caplog):
    server = Server("print('{}\\n' * 5000, flush=True)\nsys.stdin.read()", stderr="ignore")
    begun = threading.Event()

    def slowly(data: bytes) -> None:
        begun.set()
        server.transport._told.wait(0.01)  # fifty seconds in all

    server.transport.start(slowly, server.lost)
    assert begun.wait(WAIT)
    server.transport.close(Deadline(0.5))
    assert server.ends == 1 and server.transport._child._process.stdout.closed and "still busy" not in caplog.text


def test_close_while_it_is_being_launched(monkeypatch):
    server = Server("sys.stdin.read()")
    launching, go_on = threading.Event(), threading.Event()
    opened = server.transport._open

    def slowly() -> None:
        opened()
        launching.set()
        assert go_on.wait(WAIT)

    monkeypatch.setattr(server.transport, "_open", slowly)
    started = in_thread(lambda: server.transport.start(server.receive, server.lost))
    assert launching.wait(WAIT)
    server.transport.close(Deadline(0.01))
    go_on.set()
    assert isinstance(started(), TransportClosed)
    assert server.ends == 0


@pytest.mark.parametrize(
    ("inherit", "more"),
    [(False, {}), (["KEPT", "UNSET"], {"KEPT": "1"}), (True, {"KEPT": "1", "SECRET": "1"})],
    ids=str,
)
def test_a_server_gets_few_variables_of_ours_unless_it_is_to_inherit_them(monkeypatch, inherit, more):
    for name in ("KEPT", "CHANGED", "REMOVED", "SECRET", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"):
        monkeypatch.setenv(name, "1")
    for name in ("LANG", "LC_TIME", "TZ", "TMPDIR"):
        monkeypatch.setenv(name, "C")
    names = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_TIME", "TZ", "TMPDIR"]
    basic = {name: os.environ[name] for name in names}
    code = "say(dict(os.environ)); sys.stdin.read()"
    with Server(code, env={"CHANGED": "2", "ADDED": "3", "REMOVED": None}, inherit=inherit) as server:
        got = server.message()
    expected = {**basic, **more, "CHANGED": "2", "ADDED": "3"}
    if inherit is True:
        assert got.items() >= expected.items() and "REMOVED" not in got
    else:
        assert {name: value for name, value in got.items() if name != "LC_CTYPE"} == expected


def test_a_server_leads_a_session_in_its_directory_and_inherits_no_descriptor_of_ours(tmp_path):
    code = "say([os.getcwd(), sorted(os.listdir('/proc/self/fd')), os.getpid(), os.getsid(0), os.getpgid(0)]); input()"
    with Server(code, cwd=tmp_path) as server:
        directory, descriptors, pid, session, group = server.message()
    assert directory == str(tmp_path)
    assert pid == session == group
    # The fourth is the listing itself.
    assert descriptors == ["0", "1", "2", "3"]


# -- messages -------------------------------------------------------------------------------------------------------


def test_what_this_side_broke_is_refused_without_waiting_for_the_server(monkeypatch):
    monkeypatch.setattr(lines, "_VERDICT_TIMEOUT", 60)
    with Server("signal.pause()", grace=0.05) as server:
        with pytest.raises(RequestTimeout):
            server.transport.send({"text": "x" * 1_000_000}, Deadline(0.05))
        begun = time.monotonic()
        with pytest.raises(TransportClosed, match="only in part"):
            server.transport.send({"id": 2}, soon())
        assert "only in part" in server.reason()
        assert time.monotonic() - begun < WAIT


def test_a_message_of_which_nothing_was_written_leaves_the_connection_whole():
    code = """
        say({"ready": 1})
        assert signal.sigwait({signal.SIGUSR1})
        say({"read": [len(line) for line in sys.stdin]})
    """
    with Server("signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n" + textwrap.dedent(code)) as server:
        server.message()
        sent = 0
        with pytest.raises(RequestTimeout):
            while True:
                # Of the size that a pipe takes whole or not at all.
                server.transport.send("x" * 4093, Deadline(0.05))
                sent += 1
        os.kill(server.transport._child._process.pid, signal.SIGUSR1)
        server.transport.send("y", soon())
        server.transport.close(soon())
        assert server.message() == {"read": [4096] * sent + [4]}


def test_a_fast_write_asks_for_no_room(monkeypatch):
    with Server("for line in sys.stdin: say(['got', len(line)])") as server:
        monkeypatch.setattr(server.transport._room, "wait", None)
        server.transport.send({"id": 1}, soon())
        assert server.message() == ["got", 9]


def test_what_is_not_a_message_is_skipped_with_one_warning(caplog):
    code = """
        print("Listening ...")
        print("nul" + "x" * 1000)
        say({"id": 1})
        print("  ")
        say([{"id": 2}])
        print("{broken")
        sys.stdout.flush()
        sys.stdin.read()
    """
    with caplog.at_level(logging.DEBUG, LOGGER), Server(code) as server:
        assert [server.message(), server.message(), server.text()] == [{"id": 1}, [{"id": 2}], b"{broken"]
    levels = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in levels] == ["WARNING", "DEBUG"]
    assert "'Listening ...'" in levels[0][1]
    assert len(levels[1][1]) < 500


# -- standard error -------------------------------------------------------------------------------------------------

GRUMBLE = r"""
    sys.stderr.buffer.write(b"one\ntwo\r\nthr\xe9e ")
    sys.stderr.flush()
    say({})
    sys.stdin.read()
"""


def test_standard_error_is_logging_and_no_error(caplog):
    with caplog.at_level(logging.INFO, LOGGER), Server(GRUMBLE) as server:
        assert server.message() == {}
        assert server.ends == 0
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "one"),
        ("INFO", "two"),
        ("INFO", "thr\ufffde "),
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_standard_error_can_go_to_a_function_whose_failure_is_reported_once(caplog, fails):
    lines: queue.Queue[tuple[str, str]] = queue.Queue()

    def take(line: str) -> None:
        lines.put((line, threading.current_thread().name))
        assert not fails

    with Server(GRUMBLE, stderr=take) as server:
        server.message()
        assert [lines.get(timeout=WAIT) for _ in range(2)] == [(line, "mcp-stdio-stderr") for line in ("one", "two")]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * fails


def test_a_function_that_hangs_is_left_behind_and_named(caplog):
    hanging, free = threading.Event(), threading.Event()

    def hang(line: str) -> None:
        hanging.set()
        free.wait(WAIT)

    server = Server(GRUMBLE, stderr=hang, grace=0.05)
    server.transport.start(server.receive, server.lost)
    assert hanging.wait(WAIT)
    server.transport.close(Deadline(0.2))
    assert "mcp-stdio-stderr" in caplog.text
    free.set()
    server.transport.close(soon())


@pytest.mark.parametrize(("stderr", "said"), [("inherit", "one\ntwo"), ("ignore", "")])
def test_standard_error_can_be_inherited_or_ignored(capfd, caplog, stderr, said):
    with caplog.at_level(logging.DEBUG, LOGGER), Server(GRUMBLE, stderr=stderr) as server:
        server.message()
    err = capfd.readouterr().err
    assert (said in err) and (bool(err) is bool(said))
    assert not caplog.records


def test_a_line_of_standard_error_without_end_is_cut():
    lines: queue.Queue[str] = queue.Queue()
    with Server("sys.stderr.write('x' * 100_000); sys.stderr.flush(); sys.stdin.read()", stderr=lines.put):
        size = 0
        while size < 100_000 - 8192:
            size += len(lines.get(timeout=WAIT))


def test_the_tap_sees_messages_and_standard_error():
    tap = Notes()
    code = "for line in sys.stdin: sys.stderr.write('grumble\\n'); sys.stderr.flush(); say({'id': 1, 'result': {}})"
    with Server(code, tap=tap) as server:
        server.transport.send({"id": 1}, soon())
        server.message()
    assert tap.notes[0] == ("send", {"id": 1})
    # Beside the messages: the end of the input, and the exit.
    assert sorted(direction for direction, _ in tap.notes) == ["receive", "receive", "send", "send", "stderr"]
    assert ("stderr", "grumble") in tap.notes


# -- the server ends ------------------------------------------------------------------------------------------------


ENDS = [
    ("say([1])", {}, "exited with code 0$"),
    ("", {}, r"exited with code 0 without having sent a message: [^\n]*$"),
    ("", {"inherit": False}, r"code 0 without .*\n    \(it did not get these variables .* API_KEY"),
    ("sys.exit('no KEY')", {"inherit": []}, r"code 1; its last words:\n    no KEY\n    \(it did not .* API_KEY"),
    ("for n in range(30): print('line', n, file=sys.stderr)", {}, r"words:\n    line 10\n    line 11\n.* line 29$"),
    ("for n in range(10): print(str(n) * 1000, file=sys.stderr)", {}, r"last words:(\n    \d{1000}){8}$"),
    ("os._exit(4)", {"stderr": "inherit"}, "exited with code 4$"),
    ("os.kill(os.getpid(), signal.SIGKILL)", {"stderr": "ignore"}, "was ended by signal 9$"),
    ("os.close(1); sys.stdin.read()", {}, "^lost the connection to .*: it closed its output$"),
]


@pytest.mark.parametrize(("code", "options", "says"), ENDS)
def test_the_reason_says_how_the_server_ended_and_its_last_words(monkeypatch, code, options, says):
    monkeypatch.setenv("API_KEY", "hunter2")
    with Server(code, **options) as server:
        reason = server.reason()
        assert re.search(says, reason, re.DOTALL), reason
        assert f"the server {shown(server.command)!r}" in reason and "hunter2" not in reason
        with pytest.raises(TransportClosed) as caught:
            server.transport.send({"id": 2}, soon())
    assert str(caught.value) == reason


def test_a_write_that_fails_tells_the_last_words_too():
    with Server("sys.stderr.write('no module'); sys.exit(2)") as server:
        words = pytest.raises(TransportClosed, match=r"exited with code 2; its last words:\n    no module")
        with words:
            while True:
                server.transport.send({"id": 1}, soon())


def test_a_server_that_closes_its_input_has_ended_the_connection(monkeypatch):
    monkeypatch.setattr(stdio, "_STDERR_TIMEOUT", 0.01)
    with Server("say({}); os.close(0); say([]); signal.pause()", grace=0.05) as server:
        assert [server.message(), server.message()] == [{}, []]
        with pytest.raises(TransportClosed, match="the peer has stopped reading"):
            server.transport.send({"id": 1}, soon())
        assert "the peer has stopped reading" in server.reason()


def test_another_part_of_the_program_may_wait_for_all_children():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with Server("sys.exit(3)") as server:
            assert "exited with code" in server.reason()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_without_process_descriptors_it_works_the_same(monkeypatch, fifo):
    monkeypatch.delattr(os, "waitid")  # with which the standard library does nothing
    with Server("sys.exit(3)") as server:
        assert "exited with code 3" in server.reason()
    with Server(STUBBORN.format(on_term="signal.SIG_IGN"), grace=0.05) as server:
        pid = server.message()["pid"]
    assert not exists(pid)
    with Server(grandchild(fifo, "sys.stdin.read()"), grace=0.2) as server:
        assert server.message() == {}
        server.transport.close(soon())
        assert fifo.all_gone()


# -- shutdown -------------------------------------------------------------------------------------------------------

STUBBORN = """
    def on_term(*_):
        say({{"got": "SIGTERM"}})
        sys.exit(0)
    signal.signal(signal.SIGTERM, {on_term})
    say({{"pid": os.getpid()}})
    sys.stdin.read()
    say({{"saw": "end of input"}})
    while True:
        signal.pause()
"""


def test_first_standard_in_is_closed_and_nothing_more_if_that_is_enough():
    code = """
        signal.signal(signal.SIGTERM, lambda *_: say({"got": "SIGTERM"}))
        say({"pid": os.getpid()})
        sys.stdin.read()
        say({"saw": "end of input"})
        sys.exit(3)
    """
    with Server(code) as server:
        pid = server.message()["pid"]
        assert server.transport.exit_code is None
        server.transport.close(soon())
        assert not exists(pid) and server.transport.exit_code == 3
        assert server.reason() == "closed by this side"
        assert server.message() == {"saw": "end of input"}
        assert server.texts.empty()
        with pytest.raises(TransportClosed, match="closed by this side"):
            server.transport.send({"id": 1}, soon())


@pytest.mark.parametrize(("on_term", "last"), [("on_term", [{"got": "SIGTERM"}]), ("signal.SIG_IGN", [])])
def test_then_it_gets_sigterm_and_if_that_is_not_enough_sigkill(on_term, last):
    with Server(STUBBORN.format(on_term=on_term), grace=0.3) as server:
        pid = server.message()["pid"]
        server.transport.close(soon())
        assert not exists(pid)
        said = [{"saw": "end of input"}, *last]
        assert [server.message() for _ in said] == said
        assert server.texts.empty()


def test_a_server_with_much_to_say_at_its_end_can_say_it():
    code = "sys.stdin.read(); [say({'text': 'x' * 10_000}) for _ in range(100)]; say({'last': 1})"
    with Server(code) as server:
        server.transport.close(soon())
        for _ in range(100):
            server.text()
        assert server.message() == {"last": 1}


GRANDCHILD = """
    held = os.open({fifo!r}, os.O_WRONLY)
    code = "import signal; {prelude}; print('{{{{}}}}', flush=True); signal.pause()"
    grandchild = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=[held], {options})
"""


def grandchild(fifo: Fifo, then: str, prelude: str = "0", options: str = "") -> str:
    code = textwrap.dedent(GRANDCHILD).format(fifo=fifo.path, prelude=prelude, options=options).replace("{{}}", "{}")
    return code + textwrap.dedent(then)


HOLDS_NO_PIPE = "stdout=open(held, 'wb', closefd=False), stderr=subprocess.DEVNULL"


@pytest.mark.parametrize(
    ("then", "prelude", "options", "ends"),
    [
        ("signal.pause()", "signal.signal(signal.SIGTERM, signal.SIG_IGN)", "", True),
        ("sys.stdin.read()", "0", "", True),
        ("sys.stdin.read()", "0", HOLDS_NO_PIPE, False),
        ("sys.stdin.read()", "0", "start_new_session=True", False),
    ],
)
def test_what_the_server_started_is_ended_with_it_if_it_holds_the_pipes_and_is_of_its_session(
    fifo, then, prelude, options, ends
):
    # Where nothing holds the pipes, the server has time to end before its group is told to.
    grace = WAIT if options == HOLDS_NO_PIPE else 0.1
    with Server(grandchild(fifo, f"say({{'pid': grandchild.pid}}); {then}", prelude, options), grace=grace) as server:
        # The grandchild says an empty word, if it can.
        said = [server.message() for _ in range(1 if options == HOLDS_NO_PIPE else 2)]
        server.transport.close(soon())
        assert server.reason() == "closed by this side"
        assert fifo.all_gone(WAIT if ends else 0) is ends
        if not ends:
            os.kill(next(each["pid"] for each in said if each), signal.SIGKILL)
            assert fifo.all_gone()


@pytest.mark.parametrize(("seconds", "grace"), [(0, 60), (None, 0.05)])
def test_close_is_bounded_by_its_deadline_and_leaves_no_process(seconds, grace):
    with Server(STUBBORN.format(on_term="signal.SIG_IGN"), grace=grace) as server:
        pid = server.message()["pid"]
        before = time.monotonic()
        server.transport.close(Deadline(seconds))
        assert time.monotonic() - before < WAIT
        assert not exists(pid)
