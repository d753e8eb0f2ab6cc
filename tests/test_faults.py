"""Faults, one by one: each thing that a transport does is made to fail, or to hang, in the middle of a conversation.

Whatever happens, `close()` returns in time, no thread is left, and a caller sees nothing but an McpError.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, Context, McpError, RequestTimeout, Server, TransportClosed
from mcp_ref.client.targets import Command
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.mrtr import InputNeeded
from mcp_ref.pages.basic.transports.memory import pair
from mcp_ref.revisions import SESSION_REVISIONS
from mcp_ref.wire.transport import Pending, Receive, Transport
from tests.support.wire import PATIENCE, Background

JsonObject = dict[str, Any]

ROOT = Path(__file__).parent.parent
SHORT = 0.1
"""Seconds that a call of these conversations waits where something is made to fail."""
BOUND = 1.5
"""Seconds in which closing must be over."""


class Faulty:
    """A transport that counts what it does, and fails or hangs at one of these steps.

    Between the other transport and its receiver it has a reader of its own, as a pipe or a socket would have, so that
    what goes wrong with one message is not felt by its sender.
    """

    name = "faulty"

    def __init__(self, inner: Transport, at: int = 0, how: type[Exception] | None = None) -> None:
        self.steps: list[str] = []
        self._inner, self._at, self._how = inner, at, how
        self._counting = threading.Lock()
        self._released = threading.Event()
        self._inbox: SimpleQueue[bytes | McpError] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="mcp-faulty-reader", daemon=True)

    def _step(self, what: str, deadline: Deadline | None = None) -> None:
        with self._counting:
            self.steps.append(what)
            now = len(self.steps) == self._at
        if not now:
            return
        if self._how is not None:
            raise self._how(f"made to fail at {what}")
        if not self._released.wait(None if deadline is None else deadline.left()):
            raise RequestTimeout(f"made to hang at {what}")
        raise TransportClosed(f"closed while it hung at {what}")

    def start(self, receive: Receive, lost: Callable[[McpError], None]) -> None:
        self._step("start")
        self._receive, self._lost = receive, lost
        self._inner.start(self._inbox.put, self._inbox.put)
        self._reader.start()

    def _read(self) -> None:
        try:
            while isinstance(item := self._inbox.get(), bytes):
                self._step("receive")
                self._receive(item)
            reason = item
        except OSError as problem:
            reason = TransportClosed(str(problem))
        try:
            self._step("lost")
        except OSError:
            return  # What nobody is told must be found out by closing.
        self._lost(reason)

    def send(self, message: Any, deadline: Deadline) -> None:
        self._step("send", deadline)
        self._inner.send(message, deadline)

    def exchange(self, message: JsonObject, pending: Pending, deadline: Deadline) -> None:
        self._step("exchange", deadline)
        self._inner.send(message, deadline)
        pending.sent = True
        pending.take(deadline)

    def close(self, deadline: Deadline) -> None:
        try:
            self._step("close", deadline)
        finally:
            self._released.set()
            self._inner.close(Deadline(1))
            if self._reader.ident is not None and self._reader is not threading.current_thread():
                self._reader.join(1)


class Conversation:
    """A client and a server that say a little of everything; either may have a faulty transport.

    Attributes:
        revision: what the client is pinned to.
        problems: what reached a caller, on either side.
    """

    revision: Any = SESSION_REVISIONS

    def __init__(self, at: int = 0, how: type[Exception] | None = None, *, faulty: str = "client") -> None:
        ours, theirs = pair()
        self.problems: list[BaseException] = []
        self.answers: list[Any] = []
        transport = Faulty(ours if faulty == "client" else theirs, at, how)
        self.transport = transport
        self.limit = SHORT if at else PATIENCE
        self.server = Server("s", question_timeout=self.limit)
        self.server.tool("talk")(self.talk)
        self._theirs = theirs if faulty == "client" else transport
        self.client = Client(
            ours if faulty == "server" else transport,
            revision=self.revision,
            timeout=self.limit,
            connect_timeout=2 * self.limit,
            roots=[],
            on_log=self.answers.append,
            on_change=lambda method, params: self.answers.append(method),
        )

    def talk(self, ctx: Context) -> str:
        """Everything that a handler does with a peer."""
        self.attempt(lambda: ctx.progress(1, 2, "half"))
        self.attempt(lambda: ctx.log("info", "a word"))
        self.attempt(lambda: ctx.roots())
        return "said"

    def attempt(self, call: Callable[[], Any]) -> None:
        try:
            self.answers.append(call())
        except InputNeeded:
            raise
        except BaseException as problem:
            self.problems.append(problem)

    def hold(self) -> None:
        """From connecting to closing; a call that fails does not keep the next from being tried."""
        self.attempt(lambda: self.server.connect(self._theirs))
        self.attempt(self.client.connect)
        self.attempt(self.client.ping)
        self.attempt(self.client.list_tools)
        self.attempt(lambda: self.client.call_tool("talk", on_progress=lambda *told: self.answers.append(told)))
        self.attempt(self.client.roots_changed)
        self.attempt(lambda: self.server.tool("late")(lambda: "x"))
        self.attempt(self.client.ping)

    def run(self) -> None:
        """Hold it in a thread of its own, then close both sides here: each in time."""
        thread = threading.Thread(target=self.hold, name="test-conversation", daemon=True)
        thread.start()
        thread.join(1 if self.limit == SHORT else PATIENCE)
        for close in (lambda: self.client.close(BOUND), lambda: self.server.close(BOUND)):
            began = time.monotonic()
            self.attempt(close)
            assert time.monotonic() - began < BOUND + PATIENCE, "close() took too long"
        thread.join(BOUND)
        assert not thread.is_alive(), "a caller still waits after close()"


class Alone(Conversation):
    """The same in the stateless era: a probe, a call that takes two rounds, and a subscription."""

    revision: Any = "2026-07-28"

    def hold(self) -> None:
        self.attempt(lambda: self.server.connect(self._theirs))
        self.attempt(self.client.connect)
        self.attempt(self.client.list_tools)
        self.attempt(lambda: self.client.call_tool("talk", on_progress=lambda *told: self.answers.append(told)))
        self.attempt(self.listen)
        self.attempt(self.client.discover)

    def listen(self) -> str:
        """Hear of one change, and end the subscription."""
        with self.client.listen(tools=True, timeout=self.limit) as events:
            self.server.tool("late")(lambda: "x")
            return events.get(self.limit).method


class Undecided(Alone):
    """A client that finds out of which era its server is."""

    revision: Any = None


def ours() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("mcp-")}


def left_over(before: set[threading.Thread]) -> list[str]:
    """The threads of ours that are new, and do not end within a second."""
    new = ours() - before
    for thread in new:
        thread.join(1)
    return [thread.name for thread in new if thread.is_alive()]


SWEPT: list[tuple[type[Conversation], str, int]] = [
    (Conversation, "client", 20),
    (Conversation, "server", 20),
    (Alone, "client", 21),
    (Alone, "server", 21),
    (Undecided, "client", 5),
    (Undecided, "server", 5),
]
"""Who is made to fail, and at how many of its steps: at all; of a client that is undecided, at those of its opening."""

HOW = (TransportClosed, RequestTimeout, OSError, None)
CASES = [
    pytest.param(
        *(kind, side, at, how),
        id=f"{kind.__name__}-{side}-{at}-{how.__name__ if how else 'hang'}",
        marks=() if HOW[at % len(HOW)] is how else pytest.mark.slow,
    )
    for kind, side, most in SWEPT
    for at in range(1, most + 1)
    for how in HOW
]
"""Each step fails in each way; by default in one of them, by turns."""


@pytest.mark.parametrize(("kind", "side", "most"), SWEPT)
def test_without_a_fault_the_conversation_is_held_to_its_end(kind: type[Conversation], side: str, most: int) -> None:
    conversation = kind(faulty=side)
    conversation.run()
    assert conversation.problems == []
    assert "notifications/tools/list_changed" in conversation.answers
    assert (1, 2, "half") in conversation.answers
    assert len(conversation.transport.steps) == (21 if kind is Undecided else most)


@pytest.mark.parametrize(("kind", "side", "at", "how"), CASES)
def test_whatever_fails_closing_is_in_time_and_leaves_no_thread(
    kind: type[Conversation], side: str, at: int, how: type[Exception] | None
) -> None:
    before = ours()
    conversation = kind(at, how, faulty=side)
    conversation.run()
    # A transport that breaks its contract is not hidden: what it raises itself, its caller sees.
    allowed = (McpError, OSError) if how is OSError else McpError
    assert [problem for problem in conversation.problems if not isinstance(problem, allowed)] == []
    assert left_over(before) == []
    assert conversation.server.sessions == ()


def test_the_opening_is_bounded_to_its_last_message() -> None:
    """`notifications/initialized` belongs to connecting, not to the calls that wait longer."""
    near, far = pair()
    server = Server("s")
    server.connect(far)
    transport = Faulty(near, 4)  # start, exchange initialize, receive its answer, send initialized
    began = time.monotonic()
    with pytest.raises(RequestTimeout, match="hang at send"):
        Client(transport, revision=SESSION_REVISIONS, timeout=60, connect_timeout=0.5).connect()
    assert time.monotonic() - began < PATIENCE
    server.close()


# -- handlers that do not end ---------------------------------------------------------------------------------------


def script(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def run(code: str, stdin: str = "", timeout: float = 10) -> subprocess.CompletedProcess[str]:
    """Run a program with the package in reach; TimeoutExpired is the failure of the test."""
    return subprocess.run(script(code), input=stdin, capture_output=True, text=True, cwd=ROOT, timeout=timeout)


DEAF = """
    import logging, threading, time
    from mcp_ref import Client, RequestTimeout, Server
    logging.basicConfig(level=logging.WARNING)
    server, started = Server("s"), threading.Event()

    @server.tool()
    def deaf() -> str:
        started.set()
        while True:
            time.sleep(60)
"""


def test_a_handler_that_ignores_cancellation_does_not_keep_a_program_alive() -> None:
    done = run(
        DEAF
        + """
    client = Client(server).connect()
    while not started.is_set():
        try:
            client.call_tool("deaf", timeout=0.1)
        except RequestTimeout:
            pass
    print("timed out")
    client.close(timeout=0.5)
    print("closed")
    """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["timed out", "closed"]
    assert "left behind at close: tools/call" in done.stderr


def test_a_handler_that_ignores_cancellation_does_not_keep_a_server_alive() -> None:
    """Over stdio: the input ends while the handler runs, and the process leaves without it."""
    opening = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        '"clientInfo":{"name":"c","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"deaf"}}\n'
    )
    done = run(DEAF + "\n    server.run()\n", opening)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1, "only initialize was answered"
    assert "left behind at close: tools/call (id 2) still runs" in done.stderr


# -- a child process ------------------------------------------------------------------------------------------------

CHILD = """
    import json, os, sys, time
    def say(message):
        sys.stdout.write(json.dumps(message) + "\\n")
        sys.stdout.flush()
    def answer(request, result):
        say({"jsonrpc": "2.0", "id": request["id"], "result": result})
    def read():
        return json.loads(sys.stdin.readline())
    info = {"name": str(os.getpid()), "version": "1"}
"""

OPENINGS = {
    "2025-06-18": """
    answer(read(), {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    read()
    """,
    "2026-07-28": """
    said = {"io.modelcontextprotocol/serverInfo": info}
    answer(read(), {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "_meta": said})
    """,
}
"""What a child says first, by what its client is pinned to."""


class Ended:
    """The outcome of a call to a child, and of closing."""

    def __init__(self, revision: str, code: str, call: Callable[[Client], Any]) -> None:
        before = ours()
        self.problem: BaseException | None = None
        code = CHILD + OPENINGS[revision] + "\n" + textwrap.indent(textwrap.dedent(code), "    ")
        client = Client(Command(script(code), grace=0.3), revision=revision)
        client.connect()
        try:
            call(client)
        except Exception as problem:
            self.problem = problem
        began = time.monotonic()
        client.close(BOUND)
        assert time.monotonic() - began < BOUND + PATIENCE, "close() took too long"
        assert left_over(before) == []
        with pytest.raises(ProcessLookupError):  # A zombie would still be found.
            os.kill(int(client.server_info["name"]), 0)


@pytest.fixture(params=OPENINGS)
def child(request: pytest.FixtureRequest) -> Callable[..., Ended]:
    """Runs a child that opens so, and then does what its code says."""
    return partial(Ended, request.param)


FLOOD = """
try:
    while True:
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
except BrokenPipeError:
    os._exit(0)
"""
BIG = {"a": "x" * 300_000}
CHILDREN: dict[str, tuple[str, Any, str | None]] = {
    "is killed in the middle of a call": ("read(); os.kill(os.getpid(), 9)", {}, "was ended by signal 9"),
    "dies in the middle of a message": (
        'read(); os.write(1, b\'{"jsonrpc": "2.0", "id"\'); os._exit(3)',
        {},
        "exited with code 3",
    ),
    "closes its output early and lives on": ("read(); os.close(1); time.sleep(60)", {}, "closed its output"),
    "never answers": ("while read(): pass", {}, None),
    "never answers and ignores every word": (
        "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(60)",
        {},
        None,
    ),
    "stops reading": ("time.sleep(60)", BIG, None),
    "floods its output while nobody asks": (FLOOD, {}, None),
}
"""What a child does after the opening, what it is called with, and what the caller is told; None: the time is over."""


@pytest.mark.parametrize("what", CHILDREN)
def test_a_child_that_goes_wrong_is_told_of_and_closed_in_time(child: Callable[..., Ended], what: str) -> None:
    code, arguments, told = CHILDREN[what]
    limit = SHORT if told is None else PATIENCE
    problem = child(code, lambda client: client.call_tool("t", arguments, timeout=limit)).problem
    assert isinstance(problem, RequestTimeout if told is None else TransportClosed)
    assert (told or "") in str(problem)


def test_a_child_that_stops_reading_and_a_caller_that_waits_when_it_is_closed(child: Callable[..., Ended]) -> None:
    """Closing frees a caller who is in the middle of writing."""
    writing: list[Background] = []

    def call(client: Client) -> None:
        writing.append(Background(client.call_tool, "t", BIG, timeout=PATIENCE))
        with pytest.raises(RequestTimeout):
            client.call_tool("t", timeout=SHORT)  # Behind the one that is being written.

    child("time.sleep(60)", call)
    assert isinstance(writing[0].outcome(), TransportClosed)


def test_a_client_that_vanishes_in_the_middle_of_a_message_ends_the_server() -> None:
    done = run("from mcp_ref import Server\nServer('s').run()", '{"jsonrpc":"2.0","id":1,"met')
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
