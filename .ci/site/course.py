"""Pages of the course: each lesson with its code, its output and its traffic; each exercise with its hints."""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from pathlib import Path

import sources

from mcp_ref.lab.judge.draw import MAX_ARROWS, steps, svg
from mcp_ref.recording.record import read_trace
from tests.lab.testing.recording import recorded

ROOT = sources.ROOT
LESSONS = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
EXERCISES = sorted((ROOT / "examples" / "exercises").glob("[0-9][0-9]_*.py"))
LESSONS_IN_CHINESE = (
    "# 课程\n\n每课是一个能单独运行的程序，例如 `python examples/01_first_server.py`。代码和它的注释是英文。\n\n"
    + "\n".join(f"- [](lessons/{path.stem}.md)" for path in LESSONS)
    + "\n"
)
EXERCISES_IN_CHINESE = """# 练习

每道练习是一个至多四十行的程序，里面有一处错误。在自己的目录里运行 `mcp-ref learn 1` 取得第一道，改好后用
`mcp-ref learn 1 --check` 检查。`MCP_REF_LANG=zh` 让任务和提示以中文显示。
"""
OUTPUT = "\n# Output:\n#\n"


def picture_of(lesson: Path) -> str:
    """The traffic of a lesson as SVG; empty for one that talks by other means than a client of ours."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            traces = recorded(lesson, Path(folder))
        except subprocess.CalledProcessError:
            # What a lesson wants, such as an extra, is not installed.
            return ""
        drawn = [steps(read_trace(trace)) for trace in traces]
    # The first conversations of a lesson, as many as fit into one picture.
    shown, left = list[str](), MAX_ARROWS
    for arrows in drawn:
        if 0 < len(arrows) <= left:
            shown.append("\n".join(svg(arrows)))
            left -= len(arrows)
    more = len(drawn) - len(shown)
    return "\n".join(shown) + (f"<p>{more} more, not drawn.</p>" if shown and more else "")


def lesson(path: Path, index: str) -> str:
    """The page of a lesson, as Markdown, with a link to the list of all."""
    text = path.read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    title, facts, *prose = docstring.split("\n\n")
    code = text.split('"""', 2)[2].strip("\n")
    code, _, output = code.partition(OUTPUT)
    said = "\n".join(line[2:] for line in output.splitlines())
    rows = re.findall(r"(\w+): +(.*(?:\n +.*)*)", facts)
    page = dict(rows).get("Page", "")
    out = [
        f"[The lessons]({index})\n\n# {title.rstrip('.')}\n",
        *(f"- **{name}**: {' '.join(value.split())}" for name, value in rows),
        "",
    ]
    # The last paragraph is the command, which has a line of its own here.
    out += [_note(page), *(f"{each}\n" for each in prose if not each.startswith(f"    python examples/{path.name}"))]
    out += [f"Run it: `python examples/{path.name}`\n", f"```python\n{code.rstrip()}\n```\n"]
    out += ["## What it prints\n", f"```text\n{said.rstrip()}\n```\n"] if said else []
    out += [f"```{{recorded}} lesson:{path.stem} What is said\n```\n"]
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


def title_of(path: Path) -> str:
    """The title of an exercise in Chinese."""
    return path.with_suffix(".txt").read_text("utf-8").partition("\n")[0].removeprefix("title: ")


def listed_in_chinese() -> str:
    """The exercises, as Markdown."""
    return "\n".join(
        ["", *(f"{int(each.name[:2])}. [{title_of(each)}](exercises/{each.stem}.md)" for each in EXERCISES), ""]
    )


def exercise(path: Path, chinese: bool) -> str:
    """The page of an exercise, as Markdown, in one of its two languages."""
    text = path.read_text("utf-8")
    head, _, script = path.with_suffix(".txt").read_text("utf-8").partition("\n\n")
    facts = [line.split(": ", 1) for line in head.splitlines()]
    title, task, page = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")
    number, revision = int(path.name[:2]), script.split(maxsplit=3)[2]
    where = page.split()[1].rstrip(",")
    published = f"https://modelcontextprotocol.io/specification/{revision}/{where}"
    words = (
        "Hint",
        f"Its page: [{where}](../spec_notes/{where.partition('#')[0]}.md), in {revision}",
        "Begin",
        "Mark it",
    )
    if chinese:
        title, task = f"{number}. {title_of(path)}", dict(facts)["task"]
        words = ("提示", f"规范：[{where}]({published})，{revision}", "开始", "检查")
    hints = [value.split(" | ")[chinese] for key, value in facts if key == "hint"]
    code = text.split('"""', 2)[2].strip("\n")
    out = [f"# {title}\n", f"{task}\n", f"- {words[1]}", f"- {words[2]}: `mcp-ref learn {number}`"]
    out += [f"- {words[3]}: `mcp-ref learn {number} --check`\n", f"```python\n{code}\n```\n"]
    out += [f"```{{fold}} {words[0]} {which}\n{hint}\n```\n" for which, hint in enumerate(hints, 1)]
    return "\n".join(out)
