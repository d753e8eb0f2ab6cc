"""The same walks in the stateless era: one call over stdio and over HTTP, traced, counted, written down.

spec_notes/walkthrough_stateless.md shows what is traced here, and a test fails where the two differ. To write it again:

    python -m tests.test_walkthrough_stateless --write
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import test_walkthrough as over_stdio
from tests import test_walkthrough_http as over_http
from tests.test_walkthrough import ROOT, Served, Way, files, silent
from tests.test_walkthrough_http import Post

PAGE = ROOT / "spec_notes" / "walkthrough_stateless.md"
REVISION = "2026-07-28"


class Walks(NamedTuple):
    """The client's way to the write, the two threads of a server over stdio, and the one of a server over HTTP."""

    call: Way
    served: Served
    post: Post


def trace() -> Walks:
    with pytest.MonkeyPatch.context() as monkeypatch:
        call = over_stdio.trace_a_call(monkeypatch, REVISION)
    served = over_stdio.trace_an_answer(REVISION)
    post = over_http.trace_a_post(REVISION)
    return Walks(call, served, post)


PARTS: list[tuple[Callable[[Walks], str], Callable[[Path], str]]] = [
    (lambda walks: over_stdio.block(walks.call, walks.served), over_stdio.written),
    (lambda walks: over_http.block(walks.post), over_http.written),
]
"""The parts of the page: what is traced now, and what the page has."""


@pytest.fixture(scope="module")
def walks() -> Walks:
    return trace()


def test_a_call_is_one_frame_further_from_its_bytes_than_in_the_session_era(walks: Walks) -> None:
    assert [walks.call.stack[0].name, walks.call.stack[-1].name] == ["call_tool", "LineTransport.send"]
    assert len(walks.call.stack) <= 7
    assert len(files(walks.call.stack)) <= 5


def test_few_functions_are_called_from_call_tool_to_the_write(walks: Walks) -> None:
    assert len(walks.call.steps) <= 16, [step.name for step in walks.call.steps]
    assert len(files(walks.call.steps)) <= 8


def test_over_stdio_a_tool_is_one_frame_further_above_its_worker(walks: Walks) -> None:
    reader, worker = walks.served.reader.stack, walks.served.worker.stack
    assert [reader[0].name, worker[0].name] == ["LineTransport._read", "Worker.run"]
    assert len(worker) <= 7
    assert len(reader) <= 7
    assert len(files(reader + worker)) <= 6


def test_over_http_a_tool_is_eight_frames_in_five_files_above_the_loop_that_reads(walks: Walks) -> None:
    stack = walks.post.there.stack
    assert [stack[0].name, stack[-1].name] == ["_Connection.handle", "tools_call"]
    assert len(stack) <= 8
    assert len(files(stack)) <= 5


def test_few_functions_are_called_on_the_way_of_a_post_and_back(walks: Walks) -> None:
    assert len(walks.post.reading.steps) <= 8, [step.name for step in walks.post.reading.steps]
    assert len(walks.post.there.steps) <= 58, [step.name for step in walks.post.there.steps]
    assert len(walks.post.back.steps) <= 26, [step.name for step in walks.post.back.steps]


def test_every_function_on_the_way_but_a_private_helper_says_what_it_does(walks: Walks) -> None:
    assert not silent(walks.call, *walks.served, *walks.post), "say it in a docstring"


def test_the_walkthrough_page_shows_what_is_traced(walks: Walks) -> None:
    for traced, written in PARTS:
        assert written(PAGE) == traced(walks), "python -m tests.test_walkthrough_stateless --write"


def main(arguments: list[str]) -> None:
    """Print what is traced, or write it into the page."""
    walks = trace()
    for traced, written in PARTS:
        if "--write" in arguments:
            PAGE.write_text(PAGE.read_text("utf-8").replace(written(PAGE), traced(walks)), "utf-8")
        else:
            print(traced(walks))


if __name__ == "__main__":
    main(sys.argv[1:])
