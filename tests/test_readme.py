"""README.md: what it names is there, what it counts is so, and its code runs and prints what it shows.

The counted and printed parts are written again by `python -m tests.test_readme`; read the difference before keeping it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_ref import cli
from mcp_ref.cli.describe import mark
from mcp_ref.revisions import REVISIONS
from mcp_ref.trace.narrate import METHODS
from tests import limits
from tests.test_house import MEMBERS, ROOMS
from tests.test_reading_core import CORE
from tests.test_spec_notes import ALL, notes

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXT = README.read_text("utf-8")

BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
PART = re.compile(r"(<!-- (\w+): begin -->\n).*?(<!-- \2: end -->)", re.DOTALL)
SENDERS = {"client": "C", "server": "S", "both": "C, S"}
RULES = ("batching", "error_id_optional", "servers_send_requests", "resource_not_found",
         "tool_input_errors_are_results", "structured_content", "elicitation_modes",
         "url_elicitation_error", "sampling_tools", "disconnect_is_cancellation")  # fmt: skip
THREAD = re.compile(r'(?:name=f?|Ahead\(|CallbackThread\(|Turns\()"(mcp-[a-z-]+(?:\{number\})?)"')
POOL = re.compile(r'(?:name: str = |Workers\([^)]*name=)"(mcp-[a-z-]+)"')


# -- the tables that are made


def table(heads: list[str], rows: Iterator[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def methods_table() -> str:
    """Each method and its revisions, with those that stand in the result of another one, or in an extension."""
    said = {"yes": "yes", "-": "", "result": "in results", "extension": "extension"}
    rows = (
        [f"`{row.name}`", SENDERS[row.sender]] + [said[mark(row.name, each)] for each in REVISIONS.values()]
        for row in METHODS.values()
    )
    return table(["method", "from", *REVISIONS], rows)


def rules_table() -> str:
    """Each rule that differs between the revisions, as far as a user can tell."""
    said = {True: "yes", False: "", "none": ""}
    rows = (
        [f"`{rule}`"] + [said.get(getattr(each, rule), str(getattr(each, rule))) for each in REVISIONS.values()]
        for rule in RULES
    )
    return table(["column of `revisions.py`", *REVISIONS], rows)


AFTERNOON = {
    "examples/00_mcp_in_one_file.py": "the whole protocol in one file: both roles, both eras, tools only",
    "mcp_ref/basic/lifecycle.py": "how a session opens, as a table of states",
    "mcp_ref/server/tools.py": "a whole page: types, rows, the server's half, the client's half",
    "mcp_ref/basic/transports/stdio.py": "lines on two pipes, and how a server is ended",
}


def afternoon_table() -> str:
    """The first files to read."""
    rows = [[link(file), f"{lines_of(file):,}", about] for file, about in AFTERNOON.items()]
    rows.append(["", f"{sum(map(lines_of, AFTERNOON)):,}", ""])
    return table(["file", "lines", "what to look for"], iter(rows))


def core_table() -> str:
    """The files of the reading core, in the order of reading."""
    rows = [
        [str(number), link(file), f"{lines_of(file):,}", about] for number, (file, about) in enumerate(CORE.items(), 1)
    ]
    rows.append(["", "", f"{sum(map(lines_of, CORE)):,}", ""])
    return table(["", "file", "lines", "what to look for"], iter(rows))


def pages_table() -> str:
    """Each page with the revisions that have it, the files that answer it, and its note."""
    rows = []
    for note in notes():
        revisions = [each for each in ALL if any(id_.startswith(f"{each}/") for row in note.rows for id_ in row.ids)]
        shown = f"{revisions[0]} to {revisions[-1]}" if len(revisions) > 1 else "".join(revisions)
        rows.append([", ".join(note.pages), shown, ", ".join(map(link, note.code)), link(note.path)])
    return table(["page", "revisions", "files", "note"], iter(rows))


def lines_of(file: str) -> int:
    return len((ROOT / file).read_text("utf-8").splitlines())


def link(file: str) -> str:
    return f"[{file.removeprefix('mcp_ref/').removeprefix('spec_notes/')}]({file})"


PARTS = {
    "methods": methods_table,
    "rules": rules_table,
    "afternoon": afternoon_table,
    "core": core_table,
    "pages": pages_table,
    "limits": limits.table,
}


# -- the code that is run


def blocks(kind: str) -> list[str]:
    return [block["body"] for block in BLOCK.finditer(TEXT) if block["kind"] == kind]


def played(block: str, folder: Path) -> str:
    """A console block with what its commands print now."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"$ {command}\n{output(command, folder)}" for command in commands)


def output(command: str, folder: Path) -> str:
    """What a command prints; it must succeed, or be a tool that fails, and say nothing on stderr."""
    words: list[str] = []
    for word in shlex.split(command):
        words += (
            [sys.executable, "-m", "mcp_ref"] if word == "mcp-ref" else [sys.executable if word == "python" else word]
        )
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'unhurried'}"}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.returncode in (cli.Exit.OK, cli.Exit.TOOL_FAILED)
    return done.stdout


def steady(text: str) -> str:
    """Text without what differs from run to run: how long an answer took."""
    return re.sub(r", after [0-9.]+ m?s +\[", ", after N ms  [", text)


def write_programs(folder: Path) -> None:
    """Each Python block begins with the name of its file."""
    for block in blocks("python"):
        name, _, code = block.partition("\n")
        Path(folder, name.removeprefix("# ")).write_text(code, "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_programs(tmp_path)
    return tmp_path


@pytest.mark.timeout(240)
def test_the_programs_run_and_the_commands_print_what_is_shown(folder: Path) -> None:
    for block in blocks("console"):
        assert steady(played(block, folder)) == steady(block)


def test_the_server_is_the_one_among_the_examples(folder: Path) -> None:
    _, _, code = (ROOT / "examples" / "weather.py").read_text("utf-8").partition("\n\n")
    assert (folder / "weather.py").read_text("utf-8") == code


# -- what is said of files


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", TEXT))))
def test_links_lead_somewhere(link: str) -> None:
    assert link.startswith("https://") or (ROOT / link).exists()


@pytest.mark.parametrize("name", PARTS)
def test_the_tables_are_those_of_the_code(name: str) -> None:
    found = {part[2]: part[0] for part in PART.finditer(TEXT)}
    assert found[name] == f"<!-- {name}: begin -->\n{PARTS[name]()}<!-- {name}: end -->"


def test_the_threads_are_those_that_the_code_starts() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "mcp_ref").rglob("*.py")]
    started = {name.replace("{number}", "n") for text in texts for name in THREAD.findall(text)}
    # The threads of a pool have its name, and a number.
    pools = {name for text in texts for name in POOL.findall(text)}
    started = started - pools | {f"{name}-n" for name in pools}
    assert set(re.findall(r"^\| `(mcp-[a-z-]+)` \|", TEXT, re.MULTILINE)) == started


def test_the_rooms_are_those_of_the_house() -> None:
    (the_map,) = blocks("text")
    rooms = {room.removesuffix("/") for room in {**ROOMS, **MEMBERS}} - {"_version", "__main__", "errors", "revisions"}
    assert set(re.findall(r"^(\w+) ", the_map, re.MULTILINE)) == rooms | {"facts"}


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    codes = set(cli.Exit)
    assert {int(code) for code in re.findall(r"^\| (\d+) \| [^\[|]*\|$", TEXT, re.MULTILINE)} == codes


def test_the_frames_are_those_that_were_traced() -> None:
    said = []
    for page in ("walkthrough.md", "walkthrough_stateless.md"):
        walk = (ROOT / "spec_notes" / page).read_text("utf-8")
        said += re.findall(r"the bytes are written: (\d+) frames in (\d+) files", walk)
        said += [re.findall(r"below the tool's function: (\d+) frames", walk)[0]]
    (session, below, stateless, below_stateless) = said
    assert f"there are {session[0]} frames in {session[1]} files, and {below} frames below a tool's function" in TEXT
    assert f"in the stateless era {stateless[0]} and {below_stateless}" in TEXT


def main() -> None:
    """Write the counted and printed parts again."""
    text = PART.sub(lambda part: part[1] + PARTS[part[2]]() + part[3], TEXT)
    with tempfile.TemporaryDirectory() as folder:
        write_programs(Path(folder))
        for block in blocks("console"):
            text = text.replace(block, played(block, Path(folder)))
    README.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
