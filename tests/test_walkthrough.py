"""How far it is from `call_tool` to the bytes, and from there to a tool's function: traced, counted, written down.

spec_notes/walkthrough.md shows what is traced here, and a test fails where the two differ. To write it again:

    python -m tests.test_walkthrough --write
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from mcp_ref import Client, Server
from mcp_ref.basic.transports.stdio import StdioServerTransport
from mcp_ref.basic.versioning import envelope
from mcp_ref.machinery.pipes import LineSplitter
from mcp_ref.machinery.workers import Workers
from mcp_ref.peer import Peer
from mcp_ref.revisions import REVISIONS, Revision

ROOT = Path(__file__).parent.parent
PACKAGE = str(ROOT / "mcp_ref") + os.sep
PAGE = ROOT / "spec_notes" / "walkthrough.md"
WAIT = 20.0

REVISION = "2025-11-25"
_INFO = {"name": "t", "version": "1"}

ECHO = """
from mcp_ref import Server
server = Server("echo")

@server.tool()
def echo(text: str) -> str:
    return text

server.run()
"""


class Step(NamedTuple):
    """A function of ours that was called."""

    file: str
    name: str
    says: str


class Way(NamedTuple):
    """What one thread did between two points: the functions in order of their first call, and the stack at the end."""

    steps: list[Step]
    stack: list[Step]


class Trace:
    """Collects the functions of mcp_ref that a thread calls, from the first call of one of them until `end()`.

    Args:
        first: the one; None: whichever is called first once the trace is armed.

    Threads: `armed` is set by the test's, the rest is used by the thread that is traced.
    """

    def __init__(self, first: Callable[..., Any] | None = None) -> None:
        self._first = None if first is None else first.__code__
        self._codes: dict[CodeType, None] = {}
        self.armed = False
        self.way: Way | None = None

    def called(self, frame: FrameType) -> None:
        begun = self._codes or self._first in (None, frame.f_code)
        if self.armed and self.way is None and begun and _is_ours(frame):
            self._codes[frame.f_code] = None

    def end(self, frame: FrameType | None) -> None:
        """Remember the stack of this moment; only the first counts."""
        if self._codes and self.way is None:
            stack: list[Step] = []
            while frame is not None:
                stack += [_step(frame.f_code)] if _is_ours(frame) else []
                frame = frame.f_back
            self.way = Way([_step(code) for code in self._codes], stack[::-1])

    def result(self) -> Way:
        assert self.way is not None, "the end was not reached"
        return self.way


def _is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    # To a reader a comprehension is not a function.
    return code.co_filename.startswith(PACKAGE) and not code.co_name.startswith(("<list", "<dict", "<set", "<gen"))


def _step(code: CodeType) -> Step:
    return Step(code.co_filename.removeprefix(PACKAGE), code.co_qualname, _says(code))


def _says(code: CodeType) -> str:
    """The first line of its docstring; else that of what holds it: the class of a method, the function of a closure."""
    module = code.co_filename.removeprefix(str(ROOT) + os.sep).removesuffix(".py").replace(os.sep, ".")
    found: Any = sys.modules[module.removesuffix(".__init__")]
    text = None
    for name in code.co_qualname.partition(".<")[0].split("."):
        found = getattr(found, name, None)
        text = getattr(found, "__doc__", None) or text
    # The first constant of a function that has a docstring is that.
    own = code.co_consts[0] if code.co_consts else None
    text = own if isinstance(own, str) and " " in own else text
    return inspect.cleandoc(text or "").partition("\n")[0]


def files(steps: Iterable[Step]) -> set[str]:
    return {step.file for step in steps}


def trace_a_call(monkeypatch: pytest.MonkeyPatch, revision: str = REVISION) -> Way:
    """The calling thread, from `client.call_tool()` to the write."""
    trace, write = Trace(Client.call_tool), os.write

    def traced_write(fd: int, data: Any) -> int:
        trace.end(sys._getframe(1))
        return write(fd, data)

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            trace.called(frame)

    with Client([sys.executable, "-c", ECHO], revision=revision) as client:
        client.call_tool("echo", {"text": "once, so that what is made at the first use has been made"})
        monkeypatch.setattr(os, "write", traced_write)
        before = sys.getprofile()
        trace.armed = True
        sys.setprofile(profile)
        try:
            client.call_tool("echo", {"text": "and now"})
        finally:
            sys.setprofile(before)
            monkeypatch.undo()
    return trace.result()


class Served(NamedTuple):
    """The two threads of a server that answers a call."""

    reader: Way
    worker: Way


def trace_an_answer(revision: str = REVISION) -> Served:
    """A server's reader, from the read to the hand-over; and its worker, from there to the tool's function."""
    server = Server("echo")
    reader, worker = Trace(LineSplitter.feed), Trace(Peer.answer)
    finished = threading.Semaphore(0)

    @server.tool()
    def echo(text: str) -> str:
        worker.end(sys._getframe(1))
        return text

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        trace = reader if threading.current_thread().name == "mcp-stdio-reader" else worker
        if event == "call":
            trace.called(frame)
        elif event == "c_call" and trace is reader and getattr(arg, "__name__", "") == "put":
            trace.end(frame)
        elif event == "c_call" and frame.f_code is Workers.next_job.__code__ and arg.__name__ == "get":
            finished.release()  # it is idle

    with _Pipes(server, profile, REVISIONS[revision]) as pipes:
        # What is made at the first use is made; and an idle worker takes the call that counts, for a new one would take
        # another way. One job was `initialize`, or `server/discover`.
        pipes.call("once")
        for _ in range(2):
            assert finished.acquire(timeout=WAIT)
        reader.armed = worker.armed = True
        pipes.call("and now")
    return Served(reader.result(), worker.result())


class _Pipes:
    """A server that talks over two pipes with this thread, its own threads profiled."""

    def __init__(self, server: Server, profile: Callable[[FrameType, str, Any], None], revision: Revision) -> None:
        self._server, self._profile, self._revision = server, profile, revision
        self._ids = 0
        self._envelope = {} if revision.era == "session" else {"_meta": envelope(revision, _INFO, {})}

    def __enter__(self) -> _Pipes:
        theirs, out = os.pipe()
        answers, given = os.pipe()
        self._out, self._in = open(out, "wb", buffering=0), open(answers, "rb")
        before = threading.getprofile()
        threading.setprofile(self._profile)
        self._restore = before
        self._session = self._server.connect(StdioServerTransport(read_fd=theirs, write_fd=given))
        if self._revision.era == "stateless":
            self._ask("server/discover", {})
            return self
        hello = {"protocolVersion": str(self._revision), "capabilities": {}, "clientInfo": _INFO}
        self._ask("initialize", hello)
        self._out.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return self

    def call(self, text: str) -> None:
        self._ask("tools/call", {"name": "echo", "arguments": {"text": text}})

    def _ask(self, method: str, params: dict[str, Any]) -> None:
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": {**params, **self._envelope}}
        self._out.write(json.dumps(message).encode() + b"\n")
        answer = json.loads(self._in.readline())
        assert answer["id"] == self._ids and "result" in answer, answer

    def __exit__(self, *_: object) -> None:
        threading.setprofile(self._restore)
        self._session.close(WAIT)
        self._out.close()
        self._in.close()


# -- the page -----------------------------------------------------------------------------------------------------

BEGIN, END = "<!-- traced: begin -->", "<!-- traced: end -->"


def block(call: Way, served: Served) -> str:
    """The part of the page that is traced."""
    parts = [
        "## In the client: from `call_tool` to the write\n",
        *_told(call, "On the stack when the bytes are written"),
        "\n## In the server: the reader, from the read to the hand-over\n",
        *_told(served.reader, "On the stack when the request is handed to a worker"),
        "\n## In the server: the worker, from there to the tool's function\n",
        *_told(served.worker, "On the stack below the tool's function"),
    ]
    return f"{BEGIN}\n\n" + "\n".join(parts) + f"\n\n{END}\n"


def _told(way: Way, heading: str) -> list[str]:
    counted = f"{len(way.steps)} functions in {len(files(way.steps))} files."
    listed = [f"{n}. `{step.file}` `{step.name}`: {step.says}".rstrip(": ") for n, step in enumerate(way.steps, 1)]
    stack = " > ".join(f"`{step.name}`" for step in way.stack)
    return [counted, "", *listed, "", f"{heading}: {len(way.stack)} frames in {len(files(way.stack))} files:", stack]


def written(page: Path = PAGE) -> str:
    """The same part, as the page has it."""
    text = page.read_text("utf-8")
    return text[text.index(BEGIN) : text.index(END) + len(END) + 1]


# -- the tests ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def call() -> Way:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return trace_a_call(monkeypatch)


@pytest.fixture(scope="module")
def served() -> Served:
    return trace_an_answer()


def test_a_call_is_seven_frames_in_four_files_from_its_bytes(call: Way) -> None:
    assert [call.stack[0].name, call.stack[-1].name] == ["call_tool", "LineTransport.send"]
    assert len(call.stack) <= 7
    assert len(files(call.stack)) <= 4


def test_few_functions_are_called_from_call_tool_to_the_write(call: Way) -> None:
    assert len(call.steps) <= 15, [step.name for step in call.steps]
    assert len(files(call.steps)) <= 7


def test_a_tool_is_few_frames_above_its_worker_and_its_worker_above_the_read(served: Served) -> None:
    assert [served.reader.stack[0].name, served.worker.stack[0].name] == ["LineTransport._read", "Worker.run"]
    assert len(served.worker.stack) <= 5
    assert len(served.reader.stack) <= 7
    assert len(files(served.reader.stack + served.worker.stack)) <= 5


def silent(*ways: Way) -> list[Step]:
    """The functions that say nothing of what they do; a private helper may."""
    return [step for way in ways for step in way.steps if not step.says and not step.name.startswith("_")]


def test_every_function_on_the_way_but_a_private_helper_says_what_it_does(call: Way, served: Served) -> None:
    assert not silent(call, *served), "say it in a docstring"


def test_the_walkthrough_page_shows_what_is_traced(call: Way, served: Served) -> None:
    assert written() == block(call, served), "python -m tests.test_walkthrough --write"


def main(arguments: list[str]) -> None:
    """Print what is traced, or write it into the page."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        traced = block(trace_a_call(monkeypatch), trace_an_answer())
    if "--write" not in arguments:
        print(traced)
        return
    text = PAGE.read_text("utf-8")
    PAGE.write_text(text.replace(written(), traced), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
