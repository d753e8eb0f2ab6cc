"""How far it is from `call_tool` to a tool's function, and back to the caller who wakes: traced, counted, written down.

It is traced over stdio and over HTTP, in each era. spec_notes/walkthrough.md and walkthrough_stateless.md show it,
and a test fails where they differ. To write them again:

    python -m tests.test_walkthrough --write
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from mcp_ref import Client, Server
from mcp_ref.connection.connection import Connection, SentRequest
from mcp_ref.kit.http.http_server import _Connection
from mcp_ref.kit.process.pipes import LineSplitter
from mcp_ref.kit.threads.workers import Workers
from mcp_ref.pages.basic.transports.stdio import StdioServerTransport
from mcp_ref.pages.basic.transports.streamable_http.server import StreamableEndpoint
from mcp_ref.pages.basic.versioning import envelope
from mcp_ref.revisions import REVISIONS, Revision
from tests.pages.basic.transports.streamable_http import modern
from tests.pages.basic.transports.streamable_http.raw import Wire, call, opened, post

ROOT = Path(__file__).parent.parent
PACKAGE = str(ROOT / "mcp_ref") + os.sep
WAIT = 20.0

PAGES = {
    "2025-11-25": ROOT / "spec_notes" / "walkthrough.md",
    "2026-07-28": ROOT / "spec_notes" / "walkthrough_stateless.md",
}
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
    """The steps of one thread between two points: functions in order of their first call, and the stack at the end."""

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
            self.way = Way([_step(code) for code in self._codes], stack_of(frame))

    def result(self) -> Way:
        assert self.way is not None, "the end was not reached"
        return self.way


def stack_of(frame: FrameType | None) -> list[Step]:
    """Our functions that are running, the outermost first."""
    stack: list[Step] = []
    while frame is not None:
        stack += [_step(frame.f_code)] if _is_ours(frame) else []
        frame = frame.f_back
    return stack[::-1]


def _is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    # To a reader a comprehension is not a function.
    return code.co_filename.startswith(PACKAGE) and not code.co_name.startswith(("<list", "<dict", "<set", "<gen"))


def _step(code: CodeType) -> Step:
    return Step(code.co_filename.removeprefix(PACKAGE), code.co_qualname, _says(code))


def _says(code: CodeType) -> str:
    """The first sentence of its docstring, whole; a function within another says what that one says, which made it."""
    module = code.co_filename.removeprefix(str(ROOT) + os.sep).removesuffix(".py").replace(os.sep, ".")
    found: Any = sys.modules[module.removesuffix(".__init__")]
    *outer, name = code.co_qualname.partition(".<")[0].split(".")
    for each in outer:
        found = getattr(found, each, None)
    text = getattr(getattr(found, name, None), "__doc__", None)
    if name == "__init__":
        # What an object is made from is told by its class.
        text = getattr(found, "__doc__", None)
    # The first constant of a function that has a docstring is that; Python 3.14 says by a flag whether it has one.
    flag = getattr(inspect, "CO_HAS_DOCSTRING", 0)
    own = code.co_consts[0] if code.co_consts and code.co_flags & flag == flag else None
    return first_sentence(own if isinstance(own, str) and " " in own else text or "")


def first_sentence(text: str) -> str:
    """Up to the first full stop, or the end of the paragraph, on one line."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return re.split(r"(?<=[^.\s]\.)\s(?=[A-Z`])", paragraph, maxsplit=1)[0].rstrip(":")


def files(steps: Iterable[Step]) -> set[str]:
    return {step.file for step in steps}


class Called(NamedTuple):
    """A call: the way to the write, the reader as far as the inbox, and the caller from there to its result."""

    there: Way
    reader: Way
    caller: Way


def trace_a_call(revision: str) -> Called:
    """The calling thread, from `call_tool` to the write and from its wake to the return; and the reader in between.

    The stack of the caller is that of the moment at which it wakes.
    """
    there, reader, caller = Trace(Client.call_tool), Trace(LineSplitter.feed), Trace()
    at_wake: list[Step] = []

    def profile_reader(frame: FrameType, event: str, arg: Any) -> None:
        if threading.current_thread().name == "mcp-stdio-reader":
            if event == "call":
                reader.called(frame)
            elif event == "c_call" and arg.__name__ == "put":
                reader.end(frame)

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            there.called(frame)
            caller.called(frame)
        elif event == "c_call" and arg is os.write:
            there.end(frame)
        elif event == "c_return" and frame.f_code is SentRequest.take.__code__ and arg.__name__ == "get":
            caller.armed, at_wake[:] = True, stack_of(frame)
        elif event == "return" and frame.f_code is Client.call_tool.__code__:
            caller.end(frame)

    before, before_here = threading.getprofile(), sys.getprofile()
    threading.setprofile(profile_reader)
    try:
        with Client([sys.executable, "-c", ECHO], revision=revision) as client:
            client.call_tool("echo", {"text": "once, so that what is made at the first use has been made"})
            there.armed = reader.armed = True
            sys.setprofile(profile)
            client.call_tool("echo", {"text": "and now"})
            sys.setprofile(before_here)
    finally:
        sys.setprofile(before_here)
        threading.setprofile(before)
    return Called(there.result(), reader.result(), Way(caller.result().steps, at_wake))


class Served(NamedTuple):
    """The two threads of a server that answers a call; `back` is the worker's way from the tool to the write."""

    reader: Way
    worker: Way
    back: Way


def trace_an_answer(revision: str) -> Served:
    """A server's reader, as far as the hand-over; and its worker, from there to the tool and back to the write."""
    server = Server("echo")
    reader, worker, back = Trace(LineSplitter.feed), Trace(Connection.answer), Trace()
    finished = threading.Semaphore(0)

    @server.tool()
    def echo(text: str) -> str:
        worker.end(sys._getframe(1))
        back.armed = worker.way is not None
        return text

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        trace = reader if threading.current_thread().name == "mcp-stdio-reader" else worker
        if event == "call":
            trace.called(frame)
            if trace is worker:
                back.called(frame)
        elif event == "c_call" and trace is worker and arg is os.write:
            back.end(frame)
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
    return Served(reader.result(), worker.result(), back.result())


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


class Post(NamedTuple):
    """One POST in the thread of its connection: reading it, the way to the tool, and the way back to the next read."""

    reading: Way
    there: Way
    back: Way


def trace_a_post(revision: str) -> Post:
    """The thread of a connection, from the loop that reads requests to the tool's function, and to its next read."""
    server = Server("echo")
    reading, there, back = Trace(_Connection._next), Trace(StreamableEndpoint.__call__), Trace()
    finished = threading.Event()

    @server.tool()
    def echo(text: str) -> str:
        there.end(sys._getframe(1))
        back.armed = there.way is not None
        return text

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or threading.current_thread().name == "mcp-http-accept":
            return
        if frame.f_code is StreamableEndpoint.__call__.__code__:
            reading.end(frame.f_back)
        elif frame.f_code is _Connection._next.__code__ and back.armed:
            back.end(frame.f_back)
            finished.set()
        for trace in (reading, there, back):
            trace.called(frame)

    before = threading.getprofile()
    threading.setprofile(profile)
    try:
        with server.serve_http() as http, Wire(http._http.address) as wire:
            if REVISIONS[revision].era == "stateless":
                asked = modern.post(modern.called("echo", text="hi"))
            else:
                asked = post(call("echo", text="hi"), mcp_session_id=opened(wire))
            # What is made at the first use is made before.
            wire.ask(asked)
            reading.armed = there.armed = True
            for _ in range(2):
                wire.ask(asked)
            assert finished.wait(WAIT)
    finally:
        threading.setprofile(before)
    return Post(reading.result(), _since_the_loop(there.result()), back.result())


class Posted(NamedTuple):
    """The caller of a client, which sends the request and reads the reply itself; `back` has the stack of that read."""

    there: Way
    back: Way


def trace_a_caller(revision: str) -> Posted:
    """The calling thread: from `client.call_tool()` to the send, and from the reply's first bytes to its return."""
    server = Server("echo")
    there, back = Trace(Client.call_tool), Trace()
    at_read: list[Step] = []

    @server.tool()
    def echo(text: str) -> str:
        return text

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            there.called(frame)
            back.called(frame)
        elif event == "c_call" and arg.__name__ in ("send", "sendall", "sendmsg"):
            there.end(frame)
        elif event == "c_return" and arg.__name__ == "recv_into" and there.way is not None and not at_read:
            back.armed, at_read[:] = True, stack_of(frame)
        elif event == "return" and frame.f_code is Client.call_tool.__code__:
            back.end(frame)

    before = sys.getprofile()
    with server.serve_http() as http, Client(http.url, revision=revision) as client:
        client.call_tool("echo", {"text": "once, so that what is made at the first use has been made"})
        there.armed = True
        sys.setprofile(profile)
        try:
            client.call_tool("echo", {"text": "and now"})
        finally:
            sys.setprofile(before)
    return Posted(there.result(), Way(back.result().steps, at_read))


def _since_the_loop(way: Way) -> Way:
    """Without what is below the loop over the requests: the thread itself."""
    at = [step.name for step in way.stack].index("_Connection.handle")
    return Way(way.steps, way.stack[at:])


# -- the pages ----------------------------------------------------------------------------------------------------


def over_stdio(called: Called, served: Served) -> str:
    """The part of the page that is traced."""
    parts = [
        "## In the client: from `call_tool` to the write\n",
        *_told(called.there, "On the stack when the bytes are written"),
        "\n## In the server: the reader, from the read to the hand-over\n",
        *_told(served.reader, "On the stack when the request is handed to a worker"),
        "\n## In the server: the worker, from there to the tool's function\n",
        *_told(served.worker, "On the stack below the tool's function"),
        "\n## In the server: the same worker, from the tool's result to the write\n",
        *_told(served.back, "On the stack when the answer is written"),
        "\n## In the client: the reader, from the read to the caller's inbox\n",
        *_told(called.reader, "On the stack when the answer is put into the inbox"),
        "\n## In the client: the caller, from its wake to the result of `call_tool`\n",
        *_told(called.caller, "On the stack when the caller wakes"),
    ]
    return "\n".join(parts)


def over_http(traced: Post, posted: Posted) -> str:
    """The part of the page that is traced."""
    stack = "On the stack below the tool's function"
    parts = [
        "### In the client: from `call_tool` to the send\n",
        *_told(posted.there, "On the stack when the request is sent"),
        "\n### In the server: reading the request\n",
        *_told(traced.reading, stack)[:-3],
        "\n### In the server: from the request to the tool's function\n",
        *_told(traced.there, stack),
        "\n### In the server: from the tool's result to the bytes\n",
        *_told(traced.back, stack)[:-3],
        "\n### In the client: from the reply to the result of `call_tool`\n",
        *_told(posted.back, "On the stack when the reply is read"),
    ]
    return "\n".join(parts)


def _told(way: Way, heading: str) -> list[str]:
    counted = f"{len(way.steps)} functions in {len(files(way.steps))} files."
    listed = [f"{n}. `{step.file}` `{step.name}`: {step.says}".rstrip(": ") for n, step in enumerate(way.steps, 1)]
    stack = " > ".join(f"`{step.name}`" for step in way.stack)
    return [counted, "", *listed, "", f"{heading}: {len(way.stack)} frames in {len(files(way.stack))} files:", stack]


class Walks(NamedTuple):
    """One call in one revision: over stdio the client's threads and the server's; over HTTP as well."""

    called: Called
    served: Served
    post: Post
    posted: Posted

    @property
    def ways(self) -> dict[str, Way]:
        """Each by the name that it has below."""
        parts = self._asdict().items()
        return {f"{name}.{field}": way for name, part in parts for field, way in part._asdict().items()}

    def parts(self) -> dict[str, str]:
        """The parts of a page that are traced, by the words in their marks."""
        return {
            "traced": over_stdio(self.called, self.served),
            "traced over HTTP": over_http(self.post, self.posted),
        }


def walk(revision: str) -> Walks:
    return Walks(trace_a_call(revision), trace_an_answer(revision), trace_a_post(revision), trace_a_caller(revision))


def written(text: str, mark: str) -> str:
    """Return what a page has between two marks."""
    return text.partition(f"<!-- {mark}: begin -->\n\n")[2].partition(f"\n\n<!-- {mark}: end -->\n")[0]


# -- the tests ----------------------------------------------------------------------------------------------------

STACKS = {
    "called.there": ("call_tool", "LineTransport.send", (7, 4), (7, 4)),
    "served.reader": ("LineTransport._read", None, (7, 5), (7, 5)),
    "served.worker": ("Worker.run", "tools_call", (5, 5), (7, 5)),
    "served.back": ("Worker.run", "LineTransport.send", (4, 5), (4, 5)),
    "called.reader": ("LineTransport._read", "Connection.route", (3, 3), (3, 3)),
    "called.caller": ("call_tool", "SentRequest.take", (7, 4), (7, 4)),
    "post.there": ("_Connection.handle", "tools_call", (12, 6), (8, 5)),
}
"""For each way the two ends of its stack, and the most frames and files: in a session, and without."""


@pytest.fixture(scope="module", params=PAGES)
def walked(request: pytest.FixtureRequest) -> tuple[str, Walks]:
    return request.param, walk(request.param)


@pytest.mark.parametrize("name", STACKS)
def test_few_frames_lie_between_the_two_ends_of_a_way(walked: tuple[str, Walks], name: str) -> None:
    revision, walks = walked
    first, last, *bounds = STACKS[name]
    frames, within = bounds[REVISIONS[revision].era == "stateless"]
    stack = walks.ways[name].stack
    assert stack[0].name == first and last in (None, stack[-1].name)
    assert len(stack) <= frames and len(files(stack)) <= within, stack


def test_over_stdio_the_reader_and_the_worker_are_in_few_files(walked: tuple[str, Walks]) -> None:
    served = walked[1].served
    assert len(files(served.reader.stack + served.worker.stack)) <= 5


def test_over_http_the_caller_reads_the_reply_itself_within_call_tool(walked: tuple[str, Walks]) -> None:
    posted = walked[1].posted
    assert posted.there.stack[0].name == posted.back.stack[0].name == "call_tool"
    assert "HttpClientTransport.exchange" in [step.name for step in posted.back.stack]


def test_every_function_on_the_way_but_a_private_helper_says_what_it_does(walked: tuple[str, Walks]) -> None:
    silent = [
        step
        for way in walked[1].ways.values()
        for step in way.steps
        if not step.says and (not step.name.split(".")[-1].startswith("_") or step.name.endswith("__"))
    ]
    assert not silent, "say it in a docstring"


def test_a_row_has_a_whole_sentence_and_the_docstring_of_a_class_is_not_that_of_its_method() -> None:
    assert first_sentence("Route it, e.g. at once. Then rest.\n\nMore.") == "Route it, e.g. at once."
    assert first_sentence("A first line\nthat goes on: here. And more.") == "A first line that goes on: here."
    assert _says(LineSplitter.feed.__code__) not in (LineSplitter.__doc__ or "")


def test_the_walkthrough_pages_show_what_is_traced(walked: tuple[str, Walks]) -> None:
    revision, walks = walked
    text = PAGES[revision].read_text("utf-8")
    assert {mark: written(text, mark) for mark in walks.parts()} == walks.parts(), (
        "python -m tests.test_walkthrough --write"
    )


@pytest.mark.parametrize("page", PAGES.values())
def test_what_the_prose_names_is_in_the_code(page: Path) -> None:
    text = page.read_text("utf-8").partition("<!-- traced: begin -->")[0]
    for owner, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", text):
        classes = [path.read_text("utf-8").partition(f"\nclass {owner}") for path in ROOT.glob("mcp_ref/**/*.py")]
        assert any(f"    def {name}(" in after for _, found, after in classes if found), f"{owner}.{name}"


def main(arguments: list[str]) -> None:
    """Print what is traced, or write it into the pages."""
    for revision, page in PAGES.items():
        for mark, traced in walk(revision).parts().items():
            if "--write" in arguments:
                text = page.read_text("utf-8")
                page.write_text(text.replace(written(text, mark), traced), "utf-8")
            else:
                print(traced)


if __name__ == "__main__":
    main(sys.argv[1:])
