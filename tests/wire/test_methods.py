"""The table of methods: complete, and each row in its page's module once."""

from __future__ import annotations

from mcp_ref.pages.table import _TABLES, METHODS, method_row
from mcp_ref.revisions import REVISIONS


def test_a_row_is_found_by_its_wire_name_alone() -> None:
    row = method_row("tools/call")
    assert row is not None and row.page == "server/tools"
    assert method_row("tools/explode") is None
    assert sum(map(len, _TABLES)) == len(METHODS), "no name has two rows"


def test_rows_fit_the_revisions_and_their_capabilities_name_a_role() -> None:
    for row in METHODS.values():
        assert row.since in REVISIONS
        assert row.until is None or REVISIONS[row.since].order <= REVISIONS[row.until].order
        assert row.needs is None or row.needs.split(".")[0] in ("client", "server", "receiver")
        assert (row.kind == "request") == (row.result is not None)
