"""The examples: each runs alone, and prints what the comment at its end says.

`python -m tests.test_examples` writes the comments again; read the difference before you keep it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_ref.pages.table import METHODS
from mcp_ref.revisions import REVISIONS
from tests.slow import slow_but

ROOT = Path(__file__).parent.parent
NOTES = ROOT / "spec_notes"
LESSONS = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
MARK = "\n# Output:\n#\n"


def run(path: Path) -> str:
    """Return what the program prints; it must say nothing on stderr, not even a warning."""
    command = [sys.executable, "-W", "error", str(path)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'unhurried'}"}
    env["PYTEST_ADDOPTS"] = "-p no:randomly"  # Where a lesson runs pytest, in the order that it shows.
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return normal(done.stdout)


def normal(text: str) -> str:
    """Text without what differs from run to run: how long an answer took, and the spaces that make up for its width."""
    return re.sub(r", after [0-9.]+ m?s +\[", ", after N ms  [", text)


def comment(text: str) -> str:
    """The lines as a comment."""
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def expected(path: Path) -> str:
    return path.read_text("utf-8").partition(MARK)[2]


@pytest.mark.parametrize("path", slow_but(LESSONS[::4], LESSONS), ids=lambda path: path.stem)
def test_each_example_prints_what_its_last_comment_says(path: Path) -> None:
    assert comment(run(path)) == expected(path)


def test_the_lessons_are_numbered_without_gaps() -> None:
    assert [int(path.name[:2]) for path in LESSONS] == list(range(len(LESSONS)))


TRACKS = {
    "The stateless track": [0, 1, 2, 4, 7, 13, 14, 16, 17],
    "The session track": [10, 3, 5, 6, 8, 11, 12],
}


def test_the_page_of_the_lessons_names_each_of_them_in_one_line_and_no_other() -> None:
    page = (ROOT / "examples" / "README.md").read_text("utf-8")
    listed = re.findall(r"^- \[(\d+)\]\((.+?)\): .+$", page, re.MULTILINE)
    assert sorted(name for _, name in listed) == [path.name for path in LESSONS]
    assert all(int(number) == int(name[:2]) for number, name in listed)


@pytest.mark.parametrize("track", TRACKS)
def test_the_page_of_the_lessons_has_a_track_for_each_era(track: str) -> None:
    page = (ROOT / "examples" / "README.md").read_text("utf-8")
    part = page.partition(f"## {track}")[2].partition("\n## ")[0]
    assert [int(number) for number in re.findall(r"^- \[(\d+)\]", part, re.MULTILINE)] == TRACKS[track]


def test_each_example_says_how_to_run_it() -> None:
    assert all(f"    python examples/{path.name}\n" in path.read_text("utf-8") for path in LESSONS)


HEAD = re.compile(r'"""Lesson \d+: .+\n\nEra: {7}(.+)\nRevision: {2}(.+)\nPage: {6}(.+)\nNeeds: {5}(.+)\n\n')
PAGES = {row.page for row in METHODS.values()} | {
    str(note.relative_to(NOTES).with_suffix("")) for note in NOTES.rglob("*.md")
}


ERAS = {"session": {"session"}, "stateless": {"stateless"}, "both": {"session", "stateless"}}


def test_each_lesson_says_its_era_its_revision_its_pages_and_what_it_needs_and_keeps_to_them() -> None:
    for path in LESSONS:
        text = path.read_text("utf-8")
        found = HEAD.match(text)
        assert found is not None, path
        era, revision, page, needs = found.groups()
        named = set(re.findall(r"\d{4}-\d\d-\d\d", revision)) or {*REVISIONS}
        assert ERAS[era] == {REVISIONS[name].era for name in named}, path
        assert page.startswith("every page") or set(page.split(", ")) <= PAGES, path
        assert all(int(number) < int(path.name[:2]) for number in re.findall(r"\d+", needs.partition(";")[0])), path
        code = text[text.index('"""\n', 3) :].partition(MARK)[0]
        pinned = set(re.findall(r'"(\d{4}-\d\d-\d\d)"', code)) & set(REVISIONS)
        assert path == LESSONS[0] or pinned <= named, path


if __name__ == "__main__":
    for lesson in LESSONS:
        code = lesson.read_text("utf-8").partition(MARK)[0].rstrip("\n")
        lesson.write_text(code + "\n" + MARK + comment(run(lesson)), "utf-8")
