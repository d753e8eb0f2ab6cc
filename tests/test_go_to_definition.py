"""*Go to definition* leads a reader on: from `self.request` in a page to the role's own method."""

from __future__ import annotations

import re
from pathlib import Path

import jedi
import pytest

ROOT = Path(__file__).parent.parent
PROJECT = jedi.Project(ROOT)

STEPS = [
    # page, the text to look for, the name in it that is asked about, where it leads
    ("server/prompts", r"self\.request\(", "request", "mcp_ref.client.client.Client.request"),
    ("server/resources", r"self\.request\(", "request", "mcp_ref.client.client.Client.request"),
    ("server/utilities/completion", r"self\.request\(", "request", "mcp_ref.client.client.Client.request"),
    ("extensions/skills", r"self\.request\(", "request", "mcp_ref.client.client.Client.request"),
    ("client/sampling", r"self\.request\(", "request", "mcp_ref.server.session.Context.request"),
    ("client/roots", r"self\.request\(", "request", "mcp_ref.server.session.Context.request"),
]


@pytest.mark.parametrize(("page", "text", "name", "leads_to"), STEPS, ids=[f"{row[0]} {row[2]}" for row in STEPS])
def test_a_name_in_a_page_leads_to_the_role(page: str, text: str, name: str, leads_to: str) -> None:
    path = ROOT / "mcp_ref" / "pages" / f"{page}.py"
    lines = path.read_text("utf-8").splitlines()
    number, column = next(
        (number, match.start() + match[0].index(name))
        for number, line in enumerate(lines, 1)
        if (match := re.search(text, line))
    )
    found = jedi.Script(path=path, project=PROJECT).goto(number, column, follow_imports=True)
    assert [each.full_name for each in found] == [leads_to]
