"""Pages of the course: each lesson with its code, its output and its traffic; each exercise with its hints; the slides."""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from pathlib import Path

import sources
from pictures import raw

from mcp_ref.lab.judge.draw import MAX_ARROWS, steps, svg
from mcp_ref.recording.record import read_trace
from tests.lab.testing.recording import recorded

ROOT = sources.ROOT
LESSONS = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
EXERCISES = sorted((ROOT / "examples" / "exercises").glob("[0-9][0-9]_*.py"))
OUTPUT = "\n# Output:\n#\n"


def picture_of(lesson: Path) -> str:
    """The traffic of a lesson as SVG; empty for one that talks by other means than a client of ours."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            traces = recorded(lesson, Path(folder))
        except subprocess.CalledProcessError:
            # What a lesson wants, such as an extra, is not installed.
            return ""
        drawn = [arrow for trace in traces for arrow in steps(read_trace(trace))]
    if not drawn:
        return ""
    more = f"\n\n{len(drawn) - MAX_ARROWS} more messages are not drawn.\n" if len(drawn) > MAX_ARROWS else "\n"
    return "\n".join(svg(drawn[:MAX_ARROWS])) + more


def lesson(path: Path, picture: str) -> str:
    """The page of a lesson, as Markdown."""
    text = path.read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    title, facts, *prose = docstring.split("\n\n")
    code = text.split('"""', 2)[2].strip("\n")
    code, _, output = code.partition(OUTPUT)
    said = "\n".join(line[2:] for line in output.splitlines())
    rows = re.findall(r"(\w+): +(.*(?:\n +.*)*)", facts)
    page = dict(rows)["Page"] if "Page" in dict(rows) else ""
    out = [f"# {title.rstrip('.')}\n", *(f"- **{name}**: {' '.join(value.split())}" for name, value in rows), ""]
    # The last paragraph is the command, which has a line of its own here.
    out += [_note(page), *(f"{each}\n" for each in prose if not each.startswith(f"    python examples/{path.name}"))]
    out += [f"Run it: `python examples/{path.name}`\n", f"```python\n{code.rstrip()}\n```\n"]
    out += ["## What it prints\n", f"```text\n{said.rstrip()}\n```\n"] if said else []
    out += ["## What is said\n", raw(f'<div class="picture">{picture}</div>')] if picture else []
    return "\n".join(out)


def _note(pages: str) -> str:
    """A line with links to the notes of the pages of a lesson."""
    import gather

    found = [each for each in re.findall(r"[\w/-]+", pages) if f"spec_notes/{each}.md" in gather.DOCUMENTS]
    return (
        "- **Every sentence**: " + ", ".join(f"[{each}](../spec_notes/{each}.md)" for each in found) + "\n"
        if found
        else ""
    )


def exercise(path: Path, chinese: bool) -> str:
    """The page of an exercise, as Markdown, in one of its two languages."""
    text = path.read_text("utf-8")
    head, _, script = path.with_suffix(".txt").read_text("utf-8").partition("\n\n")
    facts = [line.split(": ", 1) for line in head.splitlines()]
    title, task, page = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")
    number, revision = int(path.name[:2]), script.split(maxsplit=3)[2]
    if chinese:
        name, kind = title.split(". ", 1)[1].rpartition(" (")[::2]
        title, task = f"{number}. {dict(facts)['title']}（{kind.rstrip(')')}）", dict(facts)["task"]
    hints = [value.split(" | ")[chinese] for key, value in facts if key == "hint"]
    note = f"spec_notes/{page.split()[1].rstrip(',').partition('#')[0]}"
    words = (
        (
            "提示",
            f"规范：[{page.split()[1]}](https://modelcontextprotocol.io/specification/{revision}/{page.split()[1].rstrip(',')})",
            "开始",
            "检查",
        )
        if chinese
        else ("Hint", f"Its page: [{page.split()[1].rstrip(',')}](../{note}.md), in {revision}", "Begin", "Mark it")
    )
    out = [
        f"# {title}\n",
        f"{task}\n",
        f"- {words[1]}",
        f"- {words[2]}: `mcp-ref learn {number}`",
        f"- {words[3]}: `mcp-ref learn {number} --check`\n",
    ]
    out += [f"```python\n{text.split(chr(34) * 3, 2)[2].strip(chr(10))}\n```\n".replace("\n\n\n```", "\n```")]
    for which, hint in enumerate(hints, 1):
        out += [f"```{{fold}} {words[0]} {which}\n{hint}\n```\n"]
    return "\n".join(out)
