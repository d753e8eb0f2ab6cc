"""README.md and the guides: what they count is so, and their code runs and prints what they show.

The same holds for the tables under spec_notes/ that are made from the code. A Python block begins with the name of its
program, or goes on with the one before it. What it prints stands in a console block, or beside the line, after `# →`.
The counted and printed parts are written again by `python -m tests.test_readme`, and README.zh.md; read the difference
before keeping it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path

import pytest

import mcp_ref
from mcp_ref import McpError
from mcp_ref.kit.typed import handlers
from mcp_ref.lab import cli
from mcp_ref.lab.cli.describe import mark
from mcp_ref.lab.judge.narrate import METHODS
from mcp_ref.revisions import REVISIONS
from tests import limits, test_glossary
from tests.slow import slow_but
from tests.test_examples import normal
from tests.test_house import FLOORS
from tests.test_reading_core import CORE
from tests.test_spec_notes import ALL, EDITIONS, notes

ROOT = Path(__file__).parent.parent
GUIDES = "examples/guides"
DOCUMENTS = ["README.md", *(f"{GUIDES}/{path.name}" for path in sorted((ROOT / GUIDES).glob("*.md")))]
MAX_LINES = 300

BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# (\w+\.py)\n")
ARROW = re.compile(r"(?<=  # → ).*$", re.MULTILINE)
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
    "mcp_ref/pages/basic/lifecycle.py": "how a session opens, as a table of states",
    "mcp_ref/pages/server/tools.py": "a whole page: types, rows, the server's half, the client's half",
    "mcp_ref/pages/basic/transports/stdio.py": "lines on two pipes, and how a server is ended",
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
        ids = [each for row in note.rows for each in row.ids]
        revisions = [each for each in (*ALL, *EDITIONS) if any(id_.startswith(f"{each}/") for id_ in ids)]
        shown = f"{revisions[0]} to {revisions[-1]}" if len(revisions) > 1 else "".join(revisions)
        rows.append([", ".join(note.pages), shown, ", ".join(map(link, note.code)), link(note.path)])
    return table(["page", "revisions", "files", "note"], iter(rows))


def types_table() -> str:
    """The annotations of a parameter, as the module that reads them has them."""
    lines = [line for line in (handlers.__doc__ or "").splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r" \| (?=[^`]*(?:`[^`]*`[^`]*)*$)", line.strip("| "))] for line in lines]
    return table(["annotation", *rows[0][1:]], ([each.replace(" | ", " \\| ") for each in row] for row in rows[2:]))


def lines_of(file: str) -> int:
    return len(read(file).splitlines())


def read(file: str) -> str:
    return (ROOT / file).read_text("utf-8")


def link(file: str) -> str:
    return f"[{file.removeprefix('mcp_ref/').removeprefix('spec_notes/')}]({file})"


PARTS = {
    "types": ("examples/guides/server_and_client.md", types_table),
    "afternoon": ("README.md", afternoon_table),
    "core": ("examples/guides/reading.md", core_table),
    "methods": ("spec_notes/methods.md", methods_table),
    "rules": ("spec_notes/revisions.md", rules_table),
    "pages": ("spec_notes/pages.md", pages_table),
    "limits": ("spec_notes/limits.md", limits.table),
}
"""The tables that are made: in which file each stands, and what makes it."""


def part(name: str) -> str:
    """A table with its marks; links count from the folder of its file."""
    file, make = PARTS[name]
    made = re.sub(r"(?<=\]\()[^)]+", lambda link: os.path.relpath(link[0], os.path.dirname(file) or "."), make())
    return f"<!-- {name}: begin -->\n{made}<!-- {name}: end -->"


def shown(name: str, text: str) -> str | None:
    found = re.search(f"<!-- {name}: begin -->.*?<!-- {name}: end -->", text, re.DOTALL)
    return found and found[0]


# -- the code that is run


def blocks(kind: str, *files: str) -> list[str]:
    """The blocks of a kind in these files, or in all."""
    texts = map(read, files or DOCUMENTS)
    return [block["body"] for text in texts for block in BLOCK.finditer(text) if block["kind"] == kind]


def programs(*files: str) -> dict[str, list[str]]:
    """The blocks of each program of these documents, or of all; a block without a name goes on with the one before."""
    found: dict[str, list[str]] = {}
    for file in files or DOCUMENTS:
        name = None
        for block in blocks("python", file):
            if named := NAME.match(block):
                name = named[1]
                assert name not in found, f"{file}: there are two programs {name}"
            assert name is not None, f"{file}: the first program has no name"
            found.setdefault(name, []).append(block)
    return found


def played(block: str, folder: Path) -> str:
    """A console block with what its commands print now."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"$ {command}\n{output(command, folder)}" for command in commands)


def output(command: str, folder: Path) -> str:
    """Return what a command prints; it must succeed, or be a tool that fails, and say nothing on stderr."""
    first, _, then = command.partition(" | ")
    names = {"mcp-ref": [sys.executable, "-m", "mcp_ref"], "python": [sys.executable]}
    words = [each for word in shlex.split(first) for each in names.get(word, [word])]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'unhurried'}"}
    # The plugin of this clone, whichever one is installed, and the tests in their order.
    env["PYTEST_ADDOPTS"] = "-p no:mcp_ref -p mcp_ref.lab.testing.plugin -p no:cacheprovider -p no:randomly"
    done = subprocess.run(
        words, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.returncode in (cli.Exit.OK, cli.Exit.TOOL_FAILED)
    if then:
        return subprocess.run(shlex.split(then), input=done.stdout, capture_output=True, text=True, check=True).stdout
    return done.stdout


def write_programs(folder: Path) -> None:
    """Write the programs of all documents."""
    for name, parts in programs().items():
        Path(folder, name).write_text(NAME.sub("", "\n\n".join(parts), count=1), "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_programs(tmp_path)
    return tmp_path


def in_a_console() -> set[str]:
    """The programs whose output a console block shows."""
    return {name for block in blocks("console") for name in re.findall(r"^\$ python (\w+\.py)$", block, re.MULTILINE)}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("document", slow_but(DOCUMENTS[:1], [each for each in DOCUMENTS if blocks("console", each)]))
def test_the_commands_print_what_is_shown(document: str, folder: Path) -> None:
    for block in blocks("console", document):
        assert normal(played(block, folder)) == normal(block)


@pytest.mark.parametrize("name", slow_but(programs("README.md"), sorted(programs().keys() - in_a_console())))
def test_the_other_programs_print_what_stands_beside_their_lines(name: str, folder: Path) -> None:
    assert output(f"python {name}", folder).splitlines() == ARROW.findall("".join(programs()[name]))


def test_the_readme_is_a_front_door() -> None:
    assert lines_of("README.md") <= MAX_LINES


def test_the_server_is_the_one_among_the_examples(folder: Path) -> None:
    _, _, code = (ROOT / "examples" / "weather.py").read_text("utf-8").partition("\n\n")
    assert (folder / "weather.py").read_text("utf-8") == code


# -- what is said of files


@pytest.mark.parametrize("name", PARTS)
def test_the_tables_are_those_of_the_code(name: str) -> None:
    assert shown(name, read(PARTS[name][0])) == part(name)


def test_the_exceptions_are_those_that_a_caller_meets() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", read("README.md").partition("## The exceptions")[2], re.MULTILINE)
    public = {name: getattr(mcp_ref, name) for name in mcp_ref.__all__}
    raised = {name for name, each in public.items() if isinstance(each, type) and issubclass(each, McpError)}
    assert {name.strip("`") for row in rows for name in row.split(", ")} - {"McpError"} == raised - {"McpError"}


def test_the_threads_are_those_that_the_code_starts() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "mcp_ref").rglob("*.py")]
    started = {name.replace("{number}", "n") for text in texts for name in THREAD.findall(text)}
    # The threads of a pool have its name, and a number.
    pools = {name for text in texts for name in POOL.findall(text)}
    started = started - pools | {f"{name}-n" for name in pools}
    assert set(re.findall(r"^\| `(mcp-[a-z-]+)` \|", read("spec_notes/threads.md"), re.MULTILINE)) == started


def test_the_rooms_are_those_of_the_house() -> None:
    (the_map,) = blocks("text", "examples/guides/reading.md")
    floors = [set(line.split("  ")[0].split(", ")) for line in the_map.splitlines()]
    assert floors == [rooms for rooms in reversed(FLOORS) if rooms not in ({"testing", "__main__"}, {"_version"})]


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    text = read("examples/guides/command_line.md")
    assert {int(code) for code in re.findall(r"^\| (\d+) \| [^\[|]*\|$", text, re.MULTILINE)} == set(cli.Exit)


def test_the_frames_are_those_that_were_traced() -> None:
    said = []
    for page in ("walkthrough.md", "walkthrough_stateless.md"):
        walk = read(f"spec_notes/{page}")
        said += re.findall(r"the bytes are written: (\d+) frames in (\d+) files", walk)
        said += [re.findall(r"below the tool's function: (\d+) frames", walk)[0]]
    (session, below, stateless, below_stateless) = said
    text = read("examples/guides/choices.md")
    assert f"there are {session[0]} frames in {session[1]} files, and {below} frames below a tool's function" in text
    assert f"in the stateless era {stateless[0]} and {below_stateless}" in text


def told(lines: Iterator[str], shown: re.Match[str]) -> str:
    return next(lines)


def main() -> None:
    """Write the counted and printed parts again."""
    texts = {file: read(file) for file in [*DOCUMENTS, *(file for file, _ in PARTS.values())]}
    for name, (file, _) in PARTS.items():
        texts[file] = texts[file].replace(shown(name, texts[file]) or "", part(name))
    for document in DOCUMENTS:
        with tempfile.TemporaryDirectory() as folder:
            write_programs(Path(folder))
            for block in blocks("console", document):
                now = played(block, Path(folder))
                if normal(now) != normal(block):
                    texts[document] = texts[document].replace(block, now)
            for name in programs(document).keys() - in_a_console():
                printed = output(f"python {name}", Path(folder)).splitlines()
                beside = chain(printed, repeat(""))
                for block in programs(document)[name]:
                    texts[document] = texts[document].replace(block, ARROW.sub(partial(told, beside), block))
    for file, text in texts.items():
        (ROOT / file).write_text(text, "utf-8")
    test_glossary.write()


if __name__ == "__main__":
    main()
