"""Breakages: for each of many sentences, one edit of the code that breaks it, and the tests that must then fail.

`breakages.jsonl` beside this file has a row for each: `file`, the code `old` that stands once in the function `in`, the
code `new` in its place (see tests/edits.py), `what` that breaks, and `tests`, of which at least one must fail. So a row
of the notes that names a test cannot be upheld by a test that cannot fail. Each breakage runs in a process of its own,
forked from one that has the heavy libraries but nothing of mcp_ref; the file on disk is never changed.

    python -m tests.test_breakages              run them all
    python -m tests.test_breakages WORD ...     run those whose file or sentence has one of the words
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.edits import edited, place

ROOT = Path(__file__).parent.parent
FILE = Path(__file__).parent / "breakages.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def named(row: dict[str, Any]) -> str:
    return f"{row['file'].removeprefix('mcp_ref/')}: {row['what']}"


def test_each_breakage_fits_the_code_as_it_is() -> None:
    trees = {file: ast.parse((ROOT / file).read_text("utf-8")) for file in {row["file"] for row in ROWS}}
    wrong = []
    for row in ROWS:
        try:
            place(trees[row["file"]], row) if "in" in row else broken(row)
        except ValueError as error:
            wrong.append(f"{named(row)}: {error}")
    assert not wrong, "\n".join(wrong)
    assert all(row["tests"] for row in ROWS)


def broken(row: dict[str, Any]) -> CodeType:
    return compile(edited((ROOT / row["file"]).read_text("utf-8"), row), ROOT / row["file"], "exec")


MODULE = """
def one(a):
    if a:  # a comment
        return f(
            a, 1)
    b = 1
class Two:
    def three(self):
        b = 1
        return f(2, 1)
"""


@pytest.mark.parametrize(
    ("place", "old", "new", "after"),
    [
        ("one", "return f(a, 1)", "pass", "    if a:\n        pass\n    b = 1"),
        ("one", "return f(a, 1)", "", "    if a:\n        pass\n    b = 1"),
        ("one", "if a: return f(a,\n1)\nb = 1", "c\nd = 2", "    c\n    d = 2\nclass"),
        ("Two.three", "f(2, 1)", "0 or g", "        b = 1\n        return 0 or g"),
        ("", "2", "-2", "return f(-2, 1)"),
    ],
)
def test_an_edit_names_a_function_and_code(place: str, old: str, new: str, after: str) -> None:
    row = {"file": "m.py", "in": place, "old": old, "new": new}
    assert after in ast.unparse(edited(MODULE, row)).replace("\n\n", "\n")


@pytest.mark.parametrize(("place", "old"), [("", "b = 1"), ("one", "f(2, 1)"), ("three", "b = 1"), ("one", "return f")])
def test_an_edit_that_fits_not_once_is_an_error(place: str, old: str) -> None:
    with pytest.raises(ValueError, match="exactly once"):
        edited(MODULE, {"file": "m.py", "in": place, "old": old, "new": "pass"})


class Broken(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports one module of mcp_ref with another code."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.path = str(ROOT / row["file"])
        self.name = row["file"].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.code = broken(row)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_filename(self, name: str) -> str:
        return self.path

    def get_data(self, path: str | bytes) -> bytes:
        return Path(os.fsdecode(path)).read_bytes()

    def get_code(self, name: str) -> CodeType:
        return self.code


def run_broken(row: dict[str, Any], output: int) -> int:
    """In a forked process: the exit code of the row's tests against the broken module."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.setpgid(0, 0)
    # No collection of garbage looks at what the other process has made: it took a third of the time.
    gc.freeze()
    gc.unfreeze = lambda: None
    sys.meta_path.insert(0, Broken(row))
    # Only the plugin that is needed, for loading all takes longer than a test.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # Only whether it fails matters; to write down where took a fifth of the time. A test that hangs has noticed it:
    # none needs as long where nothing is broken.
    options = ["-qq", "-x", "--tb=no", "-W", "default", "-p", "no:cacheprovider", "-p", "pytest_timeout", "--timeout=5"]
    return int(pytest.main([*row["tests"], *options]))


PARTS = 12
"""Into how many tests the breakages are split: enough for every process of the test run to get its share."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("part", range(PARTS))
def test_each_breakage_is_noticed(part: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from tests.test_breakages import serve; serve()", str(part), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]


def serve() -> None:
    """The process that the others are forked from; prints what was not noticed."""
    import hypothesis  # noqa: F401
    import jsonschema  # noqa: F401
    import pytest_timeout  # noqa: F401
    import requests  # noqa: F401

    # For what the package imports; the package itself is imported by each child, broken.
    for module in (ROOT / "mcp_ref").rglob("*.py"):
        if module.stem not in ("__init__", "__main__"):
            importlib.import_module(module.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
    for name in [name for name in sys.modules if name == "mcp_ref" or name.startswith("mcp_ref.")]:
        del sys.modules[name]
    part, folder = int(sys.argv[1]), Path(sys.argv[2])
    unnoticed = 0
    words = os.environ.get("MCP_REF_BREAKAGES", "").split()
    rows = [row for row in ROWS if not words or any(word in named(row) for word in words)]
    for number, row in enumerate(rows):
        if number % PARTS != part:
            continue
        log = folder / f"{number}.log"
        with log.open("wb") as file:
            child = os.fork()
            if child == 0:
                code = 99
                try:
                    code = run_broken(row, file.fileno())
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)
        # 1: some tests failed; 2: they could not be collected, which a breakage at import time does.
        if os.waitstatus_to_exitcode(status) not in (1, 2):
            unnoticed += 1
            print(f"not noticed ({status}): {named(row)}: {row['tests']}\n{log.read_text(errors='replace')[-400:]}")
    sys.exit(unnoticed > 0)


if __name__ == "__main__":
    os.environ["MCP_REF_BREAKAGES"] = " ".join(sys.argv[1:])
    sys.exit(pytest.main([__file__, "-q", "-m", "slow", "-n", "auto", "--dist", "worksteal"]))
