"""How far it is from an HTTP request to a tool's function, and what the whole takes: traced, counted, written down.

spec_notes/walkthrough.md shows what is traced here, and a test fails where the two differ. To write it again:

    python -m tests.test_walkthrough_http --write
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

from mcp_ref import Server
from mcp_ref.basic.transports.streamable_http.server import StreamableEndpoint
from mcp_ref.machinery.http_server import _Connection
from mcp_ref.revisions import REVISIONS
from tests.basic.transports.streamable_http import modern
from tests.basic.transports.streamable_http.raw import Wire, call, opened, post
from tests.test_walkthrough import PAGE, REVISION, WAIT, Trace, Way, _told, files, silent


class Post(NamedTuple):
    """One POST in the thread of its connection: reading it, the way to the tool, and the way back to the next read."""

    reading: Way
    there: Way
    back: Way


def trace_a_post(revision: str = REVISION) -> Post:
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


def _since_the_loop(way: Way) -> Way:
    """Without what is below the loop over the requests: the thread itself."""
    at = [step.name for step in way.stack].index("_Connection.handle")
    return Way(way.steps, way.stack[at:])


# -- the page -----------------------------------------------------------------------------------------------------

BEGIN, END = "<!-- traced over HTTP: begin -->", "<!-- traced over HTTP: end -->"


def block(traced: Post) -> str:
    """The part of the page that is traced."""
    stack = "On the stack below the tool's function"
    parts = [
        "### Reading the request\n",
        *_told(traced.reading, stack)[:-3],
        "\n### From the request to the tool's function\n",
        *_told(traced.there, stack),
        "\n### From the result to the bytes\n",
        *_told(traced.back, stack)[:-3],
    ]
    return f"{BEGIN}\n\n" + "\n".join(parts) + f"\n\n{END}\n"


def written(page: Path = PAGE) -> str:
    """The same part, as the page has it."""
    text = page.read_text("utf-8")
    return text[text.index(BEGIN) : text.index(END) + len(END) + 1]


# -- the tests ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def traced() -> Post:
    return trace_a_post()


def test_a_tool_is_twelve_frames_in_six_files_above_the_loop_that_reads(traced: Post) -> None:
    assert [traced.there.stack[0].name, traced.there.stack[-1].name] == ["_Connection.handle", "tools_call"]
    assert len(traced.there.stack) <= 12
    assert len(files(traced.there.stack)) <= 6


def test_few_functions_are_called_on_the_way_there_and_back(traced: Post) -> None:
    assert len(traced.reading.steps) <= 8, [step.name for step in traced.reading.steps]
    assert len(traced.there.steps) <= 53, [step.name for step in traced.there.steps]
    assert len(traced.back.steps) <= 26, [step.name for step in traced.back.steps]


def test_every_function_on_the_way_but_a_private_helper_says_what_it_does(traced: Post) -> None:
    assert not silent(*traced), "say it in a docstring"


def test_the_walkthrough_page_shows_what_is_traced(traced: Post) -> None:
    assert written() == block(traced), "python -m tests.test_walkthrough_http --write"


def main(arguments: list[str]) -> None:
    """Print what is traced, or write it into the page."""
    traced = block(trace_a_post())
    if "--write" not in arguments:
        print(traced)
        return
    text = PAGE.read_text("utf-8")
    PAGE.write_text(text.replace(written(), traced), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
