"""The rules of the checker as data: spec_notes/rules.jsonl, and what is made from it for the package.

python -m tests.lab.judge.rules --write        makes mcp_ref/lab/judge/sentences.json again
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

from tests.test_spec_notes import NOTES, ROOT, expand

SENTENCES = ROOT / "mcp_ref" / "lab" / "judge" / "sentences.json"
FILE = NOTES / "rules.jsonl"


@cache
def rows() -> list[dict[str, Any]]:
    """The rows, with the ids as a list."""
    found = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    return [{**row, "ids": list(expand(row["ids"], ""))} for row in found]


def made() -> str:
    """Return what the package has of them: the rows of each rule by its name."""
    rules: dict[str, list[dict[str, Any]]] = {}
    for row in rows():
        if "rule" in row:
            rules.setdefault(row["rule"], []).append({name: row[name] for name in row if name != "rule"})
    lines = [
        f"{json.dumps(name)}: {json.dumps(rules[name], ensure_ascii=False, separators=(',', ':'))}" for name in rules
    ]
    return '{"rules": {\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__" and "--write" in sys.argv:
    SENTENCES.write_text(made(), "utf-8")
