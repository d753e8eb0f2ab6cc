"""Breakages: for each of many sentences, one edit of the code that breaks it, and the tests that must then fail.

`breakages.jsonl` beside this file has a row for each: `file`, the text `old` that stands in it once, the text `new` in
its place, `what` that breaks, and `tests`, of which at least one must fail. So a row of the notes that names a test
cannot be upheld by a test that cannot fail. Each breakage runs in a process of its own, forked from one that has the
heavy libraries but nothing of mcp_ref; the file on disk is never changed.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [json.loads(line) for line in (Path(__file__).parent / "breakages.jsonl").read_text("utf-8").splitlines()]


def named(row: dict[str, Any]) -> str:
    return f"{row['file'].removeprefix('mcp_ref/')}: {row['what']}"


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_a_breakage_fits_the_code_as_it_is(row: dict[str, Any]) -> None:
    text = (ROOT / row["file"]).read_text("utf-8")
    assert text.count(row["old"]) == 1, "the text to be replaced must stand in the file exactly once"
    compile(text.replace(row["old"], row["new"]), row["file"], "exec")
    assert row["tests"]


class Broken(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports one module of mcp_ref with another text."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.path = str(ROOT / row["file"])
        self.name = row["file"].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.text = Path(self.path).read_text("utf-8").replace(row["old"], row["new"])

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_filename(self, name: str) -> str:
        return self.path

    def get_data(self, path: str | bytes) -> bytes:
        return self.text.encode()


def run_broken(row: dict[str, Any], output: int) -> int:
    """In a forked process: the exit code of the row's tests against the broken module."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.setpgid(0, 0)
    sys.meta_path.insert(0, Broken(row))
    # Only the plugin that is needed, for loading all takes longer than a test.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = ["-qq", "-x", "-p", "no:cacheprovider", "-p", "pytest_timeout", "--timeout=20", "-W", "default"]
    return int(pytest.main([*row["tests"], *options]))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_each_breakage_is_noticed(tmp_path: Path) -> None:
    program = "from tests.test_breakages import serve; serve()"
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    halves = [
        subprocess.Popen([sys.executable, "-c", program, str(part), str(tmp_path)], cwd=ROOT, text=True, **piped)
        for part in range(2)
    ]
    try:
        printed = [half.communicate(timeout=1700)[0] for half in halves]
    finally:
        for half in halves:
            half.kill()
    assert [half.returncode for half in halves] == [0, 0], "\n".join(printed)[-8000:]


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
    for number, row in enumerate(ROWS):
        if number % 2 != part:
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
    sys.exit(pytest.main([__file__, "-q", "-m", "slow", *sys.argv[1:]]))
