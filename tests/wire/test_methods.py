"""The table of methods: complete, and each row in its page's module once."""

from __future__ import annotations

import subprocess
import sys

from mcp_ref.pages.table import METHODS, method_row
from mcp_ref.revisions import REVISIONS


def test_a_row_is_found_by_its_wire_name_alone() -> None:
    row = method_row("tools/call")
    assert row is not None
    assert row.page == "server/tools"
    assert method_row("tools/explode") is None


def test_no_name_has_two_rows() -> None:
    from mcp_ref.pages import table as pages

    assert sum(map(len, pages._TABLES)) == len(METHODS)


def test_rows_fit_the_revisions_and_their_capabilities_name_a_role() -> None:
    for row in METHODS.values():
        assert row.since in REVISIONS
        assert row.until is None or REVISIONS[row.since].order <= REVISIONS[row.until].order
        assert row.needs is None or row.needs.split(".")[0] in ("client", "server", "receiver")
        assert (row.kind == "request") == (row.result is not None)


def test_the_table_imports_no_heavy_library() -> None:
    code = (
        "import mcp_ref.pages.table, sys; print([m for m in ('requests', 'jsonschema', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == "[]"
