"""The rows of `tests/limits.py`: each names a value of the code and tests that exist, and none is forgotten."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

from mcp_ref import Client, HttpLimits, Server
from mcp_ref.pages.basic.transports.streamable_http.server import EndpointOptions
from tests.limits import MET, NOT_MET

ROOT = Path(__file__).parent.parent
CONSTANT = re.compile(r"^(MAX_[A-Z_]+(?<!_INTERVAL))\b[^=\n]*= ", re.MULTILINE)
ROWS = [row for rows in MET.values() for row in rows]


def those_of_the_code() -> set[str]:
    """Return what looks like a limit: constants by their names, and options that are numbers and have a default."""
    found = set()
    for path in (ROOT / "mcp_ref").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "mcp_ref").with_suffix("").parts)
        if not module.startswith(("lab.cli.", "lab.judge.", "recording.")):
            found |= {f"{module}:{name}" for name in CONSTANT.findall(path.read_text("utf-8"))}
    for options in (HttpLimits, EndpointOptions):
        module = options.__module__.removeprefix("mcp_ref.")
        found |= {
            f"{module}:{options.__name__}.{field.name}"
            for field in dataclasses.fields(options)
            if field.type in ("int", "float", "float | None") and field.name != "keep_alive"
        }
    for role in (Client, Server):
        module = role.__module__.removeprefix("mcp_ref.")
        found |= {
            f"{module}:{role.__name__}({name})"
            for name, parameter in inspect.signature(role).parameters.items()
            if type(parameter.default) in (int, float)
        }
    return found


def test_no_limit_of_the_code_is_forgotten() -> None:
    """A new one belongs into a table of `tests/limits.py`, with tests at it and beyond, or into `NOT_MET`."""
    missing = those_of_the_code() - {row.source for row in ROWS}
    assert {each for each in missing if re.split(r"\W", each.rstrip(")"))[-1] not in NOT_MET} == set()


def test_a_limit_has_a_value_and_tests_that_exist() -> None:
    assert all(row.value > 0 and row.tests for row in ROWS)
    for file, name in {tuple(test.split("::")) for row in ROWS for test in row.tests}:
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), (file, name)
