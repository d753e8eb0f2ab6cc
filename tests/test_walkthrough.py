"""How far it is from `call_tool` to a tool's function, and back to the caller who wakes: counted, and written down.

tests/walk.py follows it over stdio and over HTTP, in each era. spec_notes/walkthrough.md and walkthrough_stateless.md
show it, and a test fails where they differ. To write them again:

    python -m tests.test_walkthrough --write
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_ref.revisions import REVISIONS

ROOT = Path(__file__).parent.parent
PAGES = {
    "2025-11-25": ROOT / "spec_notes" / "walkthrough.md",
    "2026-07-28": ROOT / "spec_notes" / "walkthrough_stateless.md",
}


class Step(NamedTuple):
    """A function of ours that was called."""

    file: str
    name: str
    says: str


class Way(NamedTuple):
    """The steps of one thread between two points: functions in order of their first call, and one's stack."""

    steps: list[Step]
    stack: list[Step]


class Part(NamedTuple):
    """One heading of a page: the calls of one thread, from a function's to the one before another's.

    Attributes:
        stack: the function whose stack is shown, and what has been reached there.
    """

    heading: str
    side: str
    thread: str
    first: str
    after: str
    stack: tuple[str, str] | None


TOOL = ("tools_call", "below the tool's function")
OVER_STDIO = {
    "there": Part(
        "In the client: from `call_tool` to the write", "client", "MainThread",
        "call_tool", "SentRequest.take", ("LineTransport.send", "when the bytes are written"),
    ),
    "reader": Part(
        "In the server: the reader, from the read to the hand-over", "server", "mcp-stdio-reader",
        "LineSplitter.feed", "LineSplitter.feed",
        ("Workers._hand_out_locked", "when the request is handed to a worker"),
    ),
    "worker": Part(
        "In the server: the worker, from there to the tool's function", "server", "mcp-worker",
        "Connection.answer", "_result_of", TOOL,
    ),
    "back": Part(
        "In the server: the same worker, from the tool's result to the write", "server", "mcp-worker",
        "_result_of", "Workers.next_job", ("LineTransport.send", "when the answer is written"),
    ),
    "inbox": Part(
        "In the client: the reader, from the read to the caller's inbox", "client", "mcp-stdio-reader",
        "LineSplitter.feed", "LineSplitter.feed", ("Connection.route", "when the answer is put into the inbox"),
    ),
    "caller": Part(
        "In the client: the caller, from its wake to the result of `call_tool`", "client", "MainThread",
        "SentRequest.result", "", ("SentRequest.take", "when the caller wakes"),
    ),
}  # fmt: skip
OVER_HTTP = {
    "there": Part(
        "In the client: from `call_tool` to the send", "client", "MainThread",
        "call_tool", "HttpResponse.__init__", ("_Connection.request", "when the request is sent"),
    ),
    "reading": Part(
        "In the server: reading the request", "server", "mcp-http",
        "_Connection._next", "StreamableEndpoint.__call__", None,
    ),
    "served": Part(
        "In the server: from the request to the tool's function", "server", "mcp-http",
        "StreamableEndpoint.__call__", "_result_of", TOOL,
    ),
    "back": Part(
        "In the server: from the tool's result to the bytes", "server", "mcp-http",
        "_result_of", "_Connection._next", None,
    ),
    "reply": Part(
        "In the client: from the reply to the result of `call_tool`", "client", "MainThread",
        "HttpResponse.__init__", "", ("FinalResponse._read_status", "when the reply is read"),
    ),
}  # fmt: skip
MARKS = {"traced": ("stdio", OVER_STDIO), "traced over HTTP": ("http", OVER_HTTP)}
"""What a page has between the marks of that name."""


def first_sentence(text: str) -> str:
    """Up to the first full stop, or the end of the paragraph, on one line."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return re.split(r"(?<=[^.\s]\.)\s(?=[A-Z`])", paragraph, maxsplit=1)[0].rstrip(":")


@cache
def sayings(file: str) -> dict[str, str]:
    """What each function of a file says in its first sentence, by its dotted name.

    What an object is made from is told by its class, and a function within another says what that one says.
    """
    found: dict[str, str] = {}

    def look(node: ast.AST, name: str, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                own = f"{name}.{child.name}".lstrip(".")
                says = ast.get_docstring(child) or ""
                inherits = not isinstance(node, ast.ClassDef) or child.name == "__init__"
                found.setdefault(own, first_sentence(says or (outer if inherits else "")))
                look(child, own, says or outer)
            else:
                look(child, name, outer)

    look(ast.parse((ROOT / "mcp_ref" / file).read_text("utf-8")), "", "")
    return found


def step(file: str, name: str) -> Step:
    return Step(file, name, sayings(file)[name])


def files(steps: Iterable[Step]) -> set[str]:
    return {step.file for step in steps}


def way_of(followed: dict[str, Any], part: Part) -> Way:
    """The steps of a part, in the thread that has both of its ends, and the stack that belongs to it."""
    numbered = {call["n"]: call for call in followed[part.side]}
    threads = dict.fromkeys(call["thread"] for call in numbered.values() if call["thread"].startswith(part.thread))
    for thread in threads:
        calls = [call for call in numbered.values() if call["thread"] == thread]
        names = [call["name"] for call in calls]
        for begin in range(len(calls) - 1, -1, -1):
            # A comprehension within it has its name, and is not where it begins.
            within = calls[begin]["parent"] in numbered and numbered[calls[begin]["parent"]]["name"] == part.first
            if names[begin] != part.first or within or (part.after and part.after not in names[begin + 1 :]):
                continue
            end = names.index(part.after, begin + 1) if part.after else len(calls)
            steps = dict.fromkeys((call["file"], call["name"]) for call in calls[begin:end])
            stack: list[Step] = []
            if part.stack is not None:
                call = next(call for call in reversed(calls[:end]) if call["name"] == part.stack[0])
                while call is not None:
                    here = [*call["under"], (call["file"], call["name"])]
                    stack[:0] = [step(*each) for each in here]
                    call = numbered.get(call["parent"])
            return Way([step(*each) for each in steps], stack)
    raise AssertionError(f"{part.first} was not called in a thread {part.thread}")


def ways_of(how: str, revision: str) -> dict[str, Way]:
    """Follow one call, and give its parts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "walk.json"
        subprocess.run(
            [sys.executable, "-m", "tests.walk", "call", how, revision, file], cwd=ROOT, timeout=50, check=True
        )
        followed = json.loads(file.read_text("utf-8"))
    # The server's are left whole: it begins to read a request as soon as it has sent the answer before it.
    followed["client"] = [call for call in followed["client"] if call["time"] >= followed["begun"]]
    return {name: way_of(followed, part) for name, part in dict(MARKS.values())[how].items()}


# -- the pages ----------------------------------------------------------------------------------------------------


def told(ways: dict[str, Way], parts: dict[str, Part]) -> str:
    """Return what a page has between two marks."""
    level = "###" if parts is OVER_HTTP else "##"
    return "\n\n".join(f"{level} {part.heading}\n\n{way_told(ways[name], part)}" for name, part in parts.items())


def way_told(way: Way, part: Part) -> str:
    listed = [f"{n}. `{step.file}` `{step.name}`: {step.says}".rstrip(": ") for n, step in enumerate(way.steps, 1)]
    lines = [f"{len(way.steps)} functions in {len(files(way.steps))} files.", "", *listed]
    if part.stack is not None:
        counted = f"{len(way.stack)} frames in {len(files(way.stack))} files"
        lines += ["", f"On the stack {part.stack[1]}: {counted}:", " > ".join(f"`{step.name}`" for step in way.stack)]
    return "\n".join(lines)


def written(text: str, mark: str) -> str:
    """Return what a page has between two marks."""
    return text.partition(f"<!-- {mark}: begin -->\n\n")[2].partition(f"\n\n<!-- {mark}: end -->\n")[0]


# -- the tests ----------------------------------------------------------------------------------------------------

STACKS = {
    ("stdio", "there"): ("call_tool", (7, 4), (7, 4)),
    ("stdio", "reader"): ("LineTransport._read", (7, 5), (7, 5)),
    ("stdio", "worker"): ("Worker.run", (5, 5), (7, 5)),
    ("stdio", "back"): ("Worker.run", (4, 5), (4, 5)),
    ("stdio", "inbox"): ("LineTransport._read", (3, 3), (3, 3)),
    ("stdio", "caller"): ("call_tool", (7, 4), (7, 4)),
    ("http", "served"): ("_Connection._live", (12, 6), (9, 5)),
    ("http", "reply"): ("call_tool", (9, 5), (10, 5)),
}
"""For each way the outer end of its stack, and the most frames and files: in a session, and without."""

Walks = dict[str, dict[str, Way]]


@pytest.fixture(scope="module", params=PAGES)
def walked(request: pytest.FixtureRequest) -> tuple[str, Walks]:
    return request.param, {how: ways_of(how, request.param) for how in ("stdio", "http")}


def test_few_frames_lie_between_the_two_ends_of_a_way(walked: tuple[str, Walks]) -> None:
    revision, walks = walked
    for (how, name), (first, *bounds) in STACKS.items():
        frames, within = bounds[REVISIONS[revision].era == "stateless"]
        stack = walks[how][name].stack
        assert stack[0].name == first
        assert len(stack) <= frames and len(files(stack)) <= within, stack


def test_over_stdio_the_reader_and_the_worker_are_in_few_files(walked: tuple[str, Walks]) -> None:
    over_stdio = walked[1]["stdio"]
    assert len(files(over_stdio["reader"].stack + over_stdio["worker"].stack)) <= 5


def test_every_function_on_the_way_but_a_private_helper_says_what_it_does(walked: tuple[str, Walks]) -> None:
    silent = [
        step
        for ways in walked[1].values()
        for way in ways.values()
        for step in way.steps
        if not step.says and (not step.name.split(".")[-1].startswith("_") or step.name.endswith("__"))
    ]
    assert not silent, "say it in a docstring"


def test_a_row_has_a_whole_sentence_and_the_docstring_of_a_class_is_not_that_of_its_method() -> None:
    assert first_sentence("Route it, e.g. at once. Then rest.\n\nMore.") == "Route it, e.g. at once."
    assert first_sentence("A first line\nthat goes on: here. And more.") == "A first line that goes on: here."
    said = sayings("kit/process/pipes.py")
    assert said["LineSplitter.feed"] != said["LineSplitter"] == said["LineSplitter.__init__"]


def test_the_walkthrough_pages_show_what_is_traced(walked: tuple[str, Walks]) -> None:
    revision, walks = walked
    text = PAGES[revision].read_text("utf-8")
    traced = {mark: told(walks[how], parts) for mark, (how, parts) in MARKS.items()}
    assert {mark: written(text, mark) for mark in MARKS} == traced, "python -m tests.test_walkthrough --write"


@pytest.mark.parametrize("page", PAGES.values())
def test_what_the_prose_names_is_in_the_code(page: Path) -> None:
    text = page.read_text("utf-8").partition("<!-- traced: begin -->")[0]
    for owner, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", text):
        classes = [path.read_text("utf-8").partition(f"\nclass {owner}") for path in ROOT.glob("mcp_ref/**/*.py")]
        assert any(f"    def {name}(" in after for _, found, after in classes if found), f"{owner}.{name}"


def main(arguments: list[str]) -> None:
    """Print what is traced, or write it into the pages."""
    for revision, page in PAGES.items():
        for mark, (how, parts) in MARKS.items():
            traced = told(ways_of(how, revision), parts)
            if "--write" in arguments:
                text = page.read_text("utf-8")
                page.write_text(text.replace(written(text, mark), traced), "utf-8")
            else:
                print(traced)


if __name__ == "__main__":
    main(sys.argv[1:])
