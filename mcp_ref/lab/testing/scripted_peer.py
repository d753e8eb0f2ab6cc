"""A partner with a script: what it says to one program, and what must come back. It marks the exercises of `learn`.

Not here:  the same over HTTP (lab/testing/scripted_http); the rules (lab/judge/check); how a verdict is shown
           (lab/cli/learn)

A script is text. Its first line says which role the partner plays (`client`, `server`; `socket`: a client on a Unix
socket), in which revision, and in the stateless era its capabilities; then:

    goal WORDS              what the next lines stand for
    > {...}                 the partner says this
    < {...}                 this comes next: members that are not named may be anything, null is one that is missing
    or {...}                or else this
    ! {...} | ID | LEVEL: SENTENCE      if what came instead is this, it breaks the sentence
    end                     the program's input ends: it ends too, with 0 and without a word
    again, elsewhere        it starts again; `elsewhere`: as another copy, in a folder of its own
    prints T, says T        T stands in what it has printed, or in what it has told people on stderr
    shuffle ... sorted      the goals in between come in any order

`$name` and `$#name` are a word and a number that differ each time. "?name" keeps what came; "?name+x" is that with an
x more, and "?name~a~b" with b for a, also inside base64 and hex, as a forger would. "*" is anything. Nobody waits for
silence: after what must not be answered comes a request, and its answer is next.

Everything is read in one thread, with a time limit for each message and a limit for all bytes: what hangs or floods is
ended, and so is what it has started, also outside of its process group where /proc shows it.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from mcp_ref import REVISIONS
from mcp_ref.lab.judge.check import Checker
from mcp_ref.lab.judge.rulebook import Finding
from mcp_ref.lab.testing.marks import end_marked, marked
from mcp_ref.lab.words import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcp_ref.recording.record import TraceEvent, as_text

OPENING_TIMEOUT: Final = 10.0
"""Seconds until the first message of a program: Python has to start."""

ANSWER_TIMEOUT: Final = 2.0
"""Seconds for each message after it."""

READING_TIMEOUT: Final = 0.5
"""Seconds until a program has read the beginning of a message; then it gets the rest all the same."""

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


class Verdict(NamedTuple):
    """The verdict on a program: it passes if nothing was found and `missed` is None.

    Attributes:
        findings: the sentences that the program broke.
        missed: the first goal that it did not reach, in words, and `why`; `at` is the event that was not wanted, or 0.
        broke: the id and the words of the sentence that this event breaks, if it breaks one.
        heard: what the partner has said since the program spoke.
        events: all that was said, seen from the client.
    """

    findings: list[Finding]
    missed: str | None
    why: str
    at: int
    broke: tuple[str, str] | None
    heard: list[Any]
    events: list[TraceEvent]


_ABSENT: Final = object()
_ENCODINGS: Final[list[tuple[Callable[[str], bytes], Callable[[bytes], str]]]] = [
    (str.encode, bytes.decode), (bytes.fromhex, bytes.hex),
    (lambda text: base64.b64decode(text + "=="), lambda data: base64.b64encode(data).decode()),
]  # fmt: skip


def difference(wanted: Any, came: Any, kept: dict[str, Any], at: str = "") -> str:
    """Return the first place where what came is not what was wanted, in words; "" if it fits."""
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
        what = "anything" if wanted == "*" else as_text(wanted)
        told = f": expected {what}, got " if wanted is not None else " must not be there; it is "
        return at + told + ("nothing" if absent else as_text(came))
    return next((found for name, want, come in pairs if (found := difference(want, come, kept, name))), "")


def forged(text: str, old: str, new: str) -> str:
    """Return what somebody who may write makes of a text: `new` for `old`, also inside base64 or hex; or else an x
    more.
    """
    for part in (text, *re.split(r"[.:|]", text)):
        for decode, encode in _ENCODINGS:
            with suppress(ValueError):
                if old.encode() in (inner := decode(part)):
                    return text.replace(part, encode(inner.replace(old.encode(), new.encode())))
    return text + "x"


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
        self._program, self._timeout = program.resolve(), timeout or ANSWER_TIMEOUT
        self._goal, self._starts, self._wrong_at, self._spoken = "begins a conversation", 0, 0, False
        self._broke: tuple[str, str] | None = None
        self._kept, self._heard, self._checker = dict[str, Any](), list[Any](), Checker(self._revision, whole=True)
        self._findings, self._events, self.said = list[Finding](), list[TraceEvent](), list[Any]()

    def play(self) -> Verdict:
        """Run the program; at the end nothing of it is left. Blocks: for the time limit, at most, for each line."""
        why = ""
        with tempfile.TemporaryDirectory() as self._folder, ExitStack() as self._closing:
            self._place = self._folder
            try:
                self._start()
                while self._lines:
                    self._do(*self._lines.pop(0).partition(" ")[::2])
            except Unreached as problem:
                why = str(problem)
        self._findings += self._checker.end()
        mine = [found for found in self._findings if found.blame == self.role and found.level != "HINT"]
        return Verdict(mine, self._goal if why else None, why, self._wrong_at, self._broke, self._heard, self._events)

    def _do(self, what: str, rest: str) -> None:
        match what:
            case "goal":
                self._goal = rest
            case ">":
                self._send(rest)
            case "<":
                self._expect(rest)
            case "end":
                self._stop()
            case "again" | "elsewhere":
                if what == "elsewhere":
                    # It shares nothing with the first but its text.
                    self._place = tempfile.mkdtemp(dir=self._folder)
                    self._program = Path(shutil.copy(self._program, self._place))
                self._start()
            case "prints" | "says":
                rest = re.sub(r"\?\w+", lambda m: self._kept.get(m[0], m[0]), rest)
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
        if sys.platform == "win32":
            self._fail("a server or a transport of yours is played with on Linux and macOS alone, by a Unix socket")
        near = self._closing.enter_context(socket.socket(socket.AF_UNIX))
        near.setblocking(False)
        if self.plays == "server":
            near.bind(where)
            near.listen()
            self._run([sys.executable, "-c", _STAND_IN, where], self.out)
            self._door: socket.socket = self._reach(lambda: self._closing.enter_context(near.accept()[0]))
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
            [sys.executable, str(self._program), *words], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0,
            start_new_session=True, cwd=self._place, env=marked(self._folder),
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
        end_marked(self._folder, child if child.poll() is None else None)

    def _fail(self, what: str) -> NoReturn:
        """Say that the program has ended, or must end, with what it said last, and the line where it failed."""
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
        """Return whether more can come over the wire."""
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
        """Return the next message, or None at the end. Lines that are not messages are left to the checker."""
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
        self._compare(rest, came)

    def _compare(self, rest: str, came: Any) -> None:
        """Raise Unreached unless the last message is one that is wanted, and find the sentence that it breaks."""

        def following(sign: str) -> Iterator[str]:
            while self._lines and self._lines[0].startswith(sign):
                yield self._lines.pop(0).removeprefix(sign)

        others, breaches = ([*following(sign)] for sign in ("or ", "! "))
        if all(wrong := [self._unlike(each, came) for each in (rest, *others)]):
            self._wrong_at = len(self._events)
            found = (each.rsplit(" | ", 2) for each in breaches)
            self._broke = next(((name, says) for like, name, says in found if not self._unlike(like, came)), None)
            raise Unreached(wrong[0])

    def _unlike(self, wanted: str, came: Any) -> str:
        return difference(json.loads(wanted), came, self._kept)

    def _filled(self, text: str) -> Any:
        """Return a message of the script, with what was kept, and with what each request has in the stateless era."""
        if not text:
            return None

        def brought(match: re.Match[str]) -> str:
            kept, (_, more, old, new) = self._kept[match[1]], match.groups()
            made = forged(kept, old, new) if old else f"{kept}{more}" if more else kept
            # It may be, by chance, what came at another time.
            return json.dumps(f"{made}x" if old and made in self._kept.values() else made)

        text = re.sub(r'"(\?\w+)(?:\+([^"]+)|~([^"~]+)~([^"]+))?"', brought, text)
        message = {"jsonrpc": "2.0", **json.loads(text)}
        if REVISIONS[self._revision].era == "stateless" and "method" in message:
            message["params"] = {"_meta": self._about, **message.get("params", {})}
        return message

    def _send(self, rest: str) -> None:
        self._note(True, message := self._filled(rest))
        raw = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        # In two pieces, the second once the first was read: one read gives neither a line nor whole characters.
        cut = 1 + next((at for at, byte in enumerate(raw) if byte > 127), 19)
        until = time.monotonic() + READING_TIMEOUT
        with suppress(OSError):
            os.write(self._sink, raw[:cut])
            if sys.platform != "win32":  # there nobody can say whether it was read
                import fcntl
                import termios

                unread = termios.TIOCOUTQ if self.plays == "socket" else termios.FIONREAD
                while any(fcntl.ioctl(self._sink, unread, bytes(4))) and time.monotonic() < until:
                    self._take(0.001)
        with suppress(OSError):
            os.write(self._sink, raw[cut:])

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
    """Return JSON, or the text itself if it is not JSON."""
    try:
        return json.loads(text := data.decode(errors="replace"))
    except (ValueError, RecursionError):
        return text
