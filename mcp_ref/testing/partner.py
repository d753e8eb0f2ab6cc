"""A partner with a script: what it says to one program, and what must come back. It marks the exercises of `learn`.

Not here:  the same over HTTP (testing/partner_http); the rules (trace/check); how a verdict is shown (cli/learn)

A script is text. Its first line says which role the partner plays (`client`, `server`; `socket`: a client on a Unix
socket), in which revision, and in the stateless era its capabilities; then:

    goal WORDS | IDS | LEVEL: SENTENCE      what the next lines stand for, and what the specification says of it
    > {...}                 the partner says this
    < {...}                 this comes next: members that are not named may be anything, null is one that is missing
    again, end              the program's input ends: it ends too, with 0 and without a word. `again`: it starts again
    prints T, says T        T stands in what it has printed, or in what it has told people on stderr
    shuffle ... sorted      the goals in between come in any order

`$name` and `$#name` are a word and a number that differ each time. "?name" keeps what came ("?name+x": with an x more),
"*" is anything. Nobody waits for silence: after what must not be answered comes a request, and its answer is next.

Everything is read in one thread, with a time limit for each message and a limit for all bytes: what hangs or floods is
ended, and so is what it has started, also outside of its process group where /proc shows it.
"""

from __future__ import annotations

import json
import os
import random
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from mcp_ref.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcp_ref.machinery.running import end_marked, marked
from mcp_ref.revisions import REVISIONS
from mcp_ref.trace.check import Checker
from mcp_ref.trace.record import TraceEvent, as_text
from mcp_ref.trace.rulebook import Finding

OPENING_TIMEOUT: Final = 10.0
"""Seconds until the first message of a program: Python has to start."""

ANSWER_TIMEOUT: Final = 2.0
"""Seconds for each message after it."""

MAX_OUTPUT: Final = 1 << 20
"""Bytes that a program may write to one stream."""

MAX_LINES: Final = 200
"""Lines that a program may say over its connection: no script wants so many."""

# Stands where the command of a server would: it hands its standard streams to the partner, and waits for the end.
_STAND_IN: Final = (
    "import socket, sys; door = socket.socket(socket.AF_UNIX); door.connect(sys.argv[1]); "
    "socket.send_fds(door, [b'.'], [0, 1]); door.recv(1)"
)
_T = TypeVar("_T")


class Unreached(Exception):
    """A goal was not reached; the text says why."""


class Goal(NamedTuple):
    """What a program should do, in words; the ids of the sentences that ask for it, and what the first of them says."""

    words: str
    ids: tuple[str, ...] = ()
    asked: str = ""


class Verdict(NamedTuple):
    """What came of it: the program has passed where nothing was found, and `missed` is None.

    Attributes:
        findings: the sentences that the program broke.
        missed: the first goal that it did not reach, and `why`; `at` is the event that was not wanted, or 0.
        heard: what the partner has said since the program spoke.
        events: all that was said, seen from the client.
    """

    findings: list[Finding]
    missed: Goal | None
    why: str
    at: int
    heard: list[Any]
    events: list[TraceEvent]


_ABSENT: Final = object()


def difference(wanted: Any, came: Any, kept: dict[str, Any], at: str = "") -> str:
    """The first place where what came is not what was wanted, in words; "" if it fits."""
    absent = came is _ABSENT or (came is None and not at)
    came = None if absent else came
    if isinstance(wanted, str) and wanted.startswith("?") and came is not None:
        wanted = kept.setdefault(wanted, came)
    if isinstance(wanted, dict) and isinstance(came, dict):
        pairs = [(f"{at}.{name}".lstrip("."), each, came.get(name, _ABSENT)) for name, each in wanted.items()]
    elif isinstance(wanted, list) and isinstance(came, list) and len(wanted) == len(came):
        pairs = [(f"{at}[{n}]", *pair) for n, pair in enumerate(zip(wanted, came, strict=True))]
    # 1 is not "1", nor is it true.
    elif came is not None if wanted == "*" else wanted == came and isinstance(wanted, bool) == isinstance(came, bool):
        return ""
    else:
        what = "nothing" if wanted is None else "anything" if wanted == "*" else as_text(wanted)
        return f"{at}: expected {what}, got {'nothing' if absent else as_text(came)}"
    return next((found for name, want, come in pairs if (found := difference(want, come, kept, name))), "")


class Partner:
    """One program against one script, over its standard streams or a Unix socket.

    Args:
        script: the lines, as above.
        program: the Python file that is run, in an empty folder.
        seed: for the values that differ each time.
        timeout: seconds for each message but the first (ANSWER_TIMEOUT).

    Attributes:
        said: what the program sent, in its form.
        out: its standard output, where that is not the wire.
    """

    def __init__(self, script: str, program: Path, *, seed: int | None = None, timeout: float | None = None) -> None:
        rolls, made = random.Random(seed), dict[str, str]()

        def value(match: re.Match[str]) -> str:
            fresh = str(rolls.randint(100, 999)) if match[1] else "".join(rolls.choices("bcdfghjkmnpqrstvwxz", k=6))
            return made.setdefault(match[0], fresh)

        def in_any_order(match: re.Match[str]) -> str:
            goals = re.split(r"^(?=goal )", match[1], flags=re.M)
            return "".join(rolls.sample(goals, len(goals)))

        script = re.sub(r"^shuffle\n(.*?)^sorted\n", in_any_order, script, flags=re.M | re.S)
        head, *self._lines = re.sub(r"\$(#?)\w+", value, script).strip().splitlines()
        _, self.plays, self._revision, *capabilities = head.split(" ", 3)
        self.role = "client" if self.plays.endswith("server") else "server"  # of the program
        self._about = {
            PROTOCOL_VERSION: self._revision, CLIENT_INFO: {"name": "partner", "version": "1"},
            CLIENT_CAPABILITIES: json.loads((capabilities or ["{}"])[0]),
        }  # fmt: skip
        self._program, self._timeout = program, timeout or ANSWER_TIMEOUT
        self._goal, self._starts, self._wrong_at, self._spoken = Goal("begins a conversation"), 0, 0, False
        self._kept, self._heard, self._checker = dict[str, Any](), list[Any](), Checker(self._revision, whole=True)
        self._findings, self._events, self.said = list[Finding](), list[TraceEvent](), list[Any]()

    def play(self) -> Verdict:
        """Run the program; at the end nothing of it is left. Blocks: for the time limit, at most, for each line."""
        why = ""
        with tempfile.TemporaryDirectory() as self._folder, ExitStack() as self._closing:
            try:
                self._start()
                while self._lines:
                    self._do(*self._lines.pop(0).partition(" ")[::2])
            except Unreached as problem:
                why = str(problem)
        self._findings += self._checker.end()
        mine = [found for found in self._findings if found.blame == self.role and found.level != "HINT"]
        return Verdict(mine, self._goal if why else None, why, self._wrong_at, self._heard, self._events)

    def _do(self, what: str, rest: str) -> None:
        match what:
            case "goal":
                words, ids, asked = rest.split(" | ")
                self._goal = Goal(words, tuple(ids.split()), asked)
            case ">":
                self._send(rest)
            case "<":
                self._expect(rest)
            case "again" | "end":
                self._stop()
                if what == "again":
                    self._start()
            case "prints" | "says":
                came = (self.out if what == "prints" else self._err).decode(errors="replace")
                if rest not in came:
                    where = "stdout" if what == "prints" else "stderr"
                    raise Unreached(f"expected on {where}: {rest}; got {as_text(came[-300:])}")

    # -- the process

    def _start(self) -> None:
        self._starts, self._at, self._patience = self._starts + 1, 0, max(OPENING_TIMEOUT, self._timeout)
        self._wire, self.out, self._err = bytearray(), bytearray(), bytearray()
        self._selector = self._closing.enter_context(selectors.DefaultSelector())
        self._connect(f"{self._folder}/{self._starts}")

    def _connect(self, where: str) -> None:
        if self.plays == "client":
            self._run([], self._wire)
            self._sink = self._stdin.fileno()
            return
        near = self._closing.enter_context(socket.socket(socket.AF_UNIX))
        near.setblocking(False)
        if self.plays == "server":
            near.bind(where)
            near.listen()
            self._run([sys.executable, "-c", _STAND_IN, where], self.out)
            self._door = self._reach(lambda: self._closing.enter_context(near.accept()[0]))
            self._door.setblocking(False)
            source, self._sink = self._reach(lambda: socket.recv_fds(self._door, 1, 2))[1]
            for each in (source, self._sink):
                self._closing.callback(os.close, each)
        else:
            self._run([where], self.out)
            self._reach(lambda: near.connect(where))
            source = self._sink = near.fileno()
        self._selector.register(source, selectors.EVENT_READ, self._wire)

    def _run(self, words: list[str], out: bytearray) -> None:
        pipe = subprocess.PIPE
        self._child = self._closing.enter_context(subprocess.Popen(
            [sys.executable, str(self._program.resolve()), *words], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0,
            start_new_session=True, cwd=self._folder, env=marked(self._folder),
        ))  # fmt: skip
        self._closing.callback(self._kill, self._child)
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self._stdin = self._child.stdin
        self._selector.register(self._child.stdout, selectors.EVENT_READ, out)
        self._selector.register(self._child.stderr, selectors.EVENT_READ, self._err)

    def _reach(self, attempt: Callable[[], _T], otherwise: str = "the program does not begin a conversation") -> _T:
        """Try until it goes well, as long as the program lives and there is time."""
        until = time.monotonic() + self._patience
        while time.monotonic() < until and self._child.poll() is None:
            with suppress(OSError):
                return attempt()
            if not self._take(0.02):
                time.sleep(0.002)
        self._fail(otherwise)

    def _kill(self, child: subprocess.Popen[bytes]) -> None:
        """End the program, and whatever it has started."""
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        end_marked(self._folder)

    def _fail(self, what: str) -> NoReturn:
        """The program has ended, or must end: say so, with what it said last, and the line where it failed."""
        while self._take(0.1):
            pass
        with suppress(subprocess.TimeoutExpired):
            what += f" (exit code {self._child.wait(0.2)})"
        lines = (self._err.strip() or self.out.strip() or self._wire.strip() or b"nothing").splitlines()
        at = re.findall(re.escape(os.fsencode(self._program.name)) + rb'", line (\d+)', self._err)
        where = f" (line {int(at[-1])})" if at else ""
        raise Unreached(f"{what}; the last that it said: {lines[-1][-200:].decode(errors='replace')}{where}")

    def _take(self, seconds: float) -> bool:
        """Take what the program has written, as soon as there is something; False: nothing came in time."""
        ready = self._selector.select(seconds) if seconds > 0 and self._selector.get_map() else []
        for key, _ in ready:
            data = b""
            with suppress(OSError):
                data = os.read(key.fd, 1 << 16)
            key.data.extend(data)
            if not data:
                self._selector.unregister(key.fileobj)
            if len(key.data) > MAX_OUTPUT:
                end = as_text(key.data[-80:].decode(errors="replace"))
                raise Unreached(f"it wrote more than {MAX_OUTPUT >> 20} MiB; the last that it said: {end}")
        return bool(ready)

    def _open(self) -> bool:
        """Whether more can come over the wire."""
        return any(key.data is self._wire for key in self._selector.get_map().values())

    def _stop(self) -> None:
        """End the program's input. It must end by itself, with 0, and say nothing more."""
        self._stdin.close()
        if self.role == "server" and self.plays != "client":
            self._child.terminate()  # whoever listens is not ended by its input
        why = "the program does not end with its input"
        if (more := self._receive(why)) is not None:
            raise Unreached(f"nothing more should come, but this did: {as_text(more)}")
        if self.plays == "server":
            self._door.close()
        try:
            code = self._child.wait(self._patience)
        except subprocess.TimeoutExpired:
            self._fail(why)
        while self._take(1):
            pass
        if code > 0:
            self._fail("the program fails at its end")

    # -- messages

    def _receive(self, otherwise: str = "") -> Any:
        """The next message; None: there is no more. Lines that are not messages are left to the checker."""
        until = time.monotonic() + self._patience
        while True:
            line, end, _ = self._wire[self._at :].partition(b"\n")
            if not end and self._open():
                if not self._take(until - time.monotonic()):
                    self._fail(otherwise or f"nothing came for {self._patience:.0f} s")
                continue
            if not line and not end:
                return None
            self._at += len(line) + 1
            self.said.append(line.decode(errors="replace"))
            if len(self.said) > MAX_LINES:
                self._fail(f"it said more than {MAX_LINES} lines")
            self._note(False, message := parsed(line))
            if isinstance(message, dict):
                self._patience = self._timeout
                return message

    def _expect(self, rest: str) -> None:
        if (came := self._receive()) is None:
            self._fail("the program has ended")
        self._compare(difference(json.loads(rest), came, self._kept))

    def _compare(self, wrong: str) -> None:
        """Raise Unreached if the message that came last is not the one wanted."""
        if wrong:
            self._wrong_at = len(self._events)
            raise Unreached(wrong)

    def _filled(self, text: str) -> Any:
        """A message of the script, with what was kept, and with what each request has in the stateless era."""
        if not text:
            return None
        text = re.sub(
            r'"(\?\w+)(\+x)?"', lambda m: json.dumps(f"{self._kept[m[1]]}x" if m[2] else self._kept[m[1]]), text
        )
        message = {"jsonrpc": "2.0", **json.loads(text)}
        if REVISIONS[self._revision].era == "stateless" and "method" in message:
            message["params"] = {"_meta": self._about, **message.get("params", {})}
        return message

    def _send(self, rest: str) -> None:
        self._note(True, message := self._filled(rest))
        raw = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        # In two pieces: a line is not what one read gives.
        with suppress(OSError):
            for piece in (raw[:20], raw[20:]):
                os.write(self._sink, piece)

    def _note(self, mine: bool, message: Any, http: dict[str, Any] | None = None) -> None:
        """Tell the checker, as the client sees it."""
        if mine and self._spoken:
            self._heard = []
        self._spoken = not mine
        self._heard += [message] if mine else []
        over, seq = "stdio" if http is None else "http", len(self._events) + 1
        event = TraceEvent(seq, time.time(), "", "receive", "server", message, over, http, self._starts)
        self._events.append(event._replace(direction="send") if mine is (self.role == "server") else event)
        self._findings += self._checker.feed(self._events[-1])


def parsed(data: bytes | bytearray) -> Any:
    """JSON, or the text itself if it is not JSON."""
    try:
        return json.loads(text := data.decode(errors="replace"))
    except (ValueError, RecursionError):
        return text
