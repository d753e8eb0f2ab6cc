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

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
MARK = "\n# Output:\n#\n"


def run(path: Path) -> str:
    """What the program prints; it must say nothing on stderr, not even a warning."""
    command = [sys.executable, "-W", "error", str(path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
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


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_each_example_prints_what_its_last_comment_says(path: Path) -> None:
    assert comment(run(path)) == expected(path)


def test_the_lessons_are_numbered_without_gaps() -> None:
    assert [int(path.name[:2]) for path in LESSONS] == list(range(len(LESSONS)))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_each_example_says_how_to_run_it(path: Path) -> None:
    assert f"    python examples/{path.name}\n" in path.read_text("utf-8")


if __name__ == "__main__":
    for lesson in LESSONS:
        code = lesson.read_text("utf-8").partition(MARK)[0].rstrip("\n")
        lesson.write_text(code + "\n" + MARK + comment(run(lesson)), "utf-8")
