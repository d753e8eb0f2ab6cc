"""A server that passes on what another one answered: the client hears who answers it, in its own revision's words."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref import Client, Server
from mcp_ref.pages.basic.versioning import SERVER_INFO

INNER, OUTER = {"name": "inner", "version": "1"}, {"name": "outer", "version": "2"}


@pytest.mark.parametrize("inner_revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("outer_revision", ["2025-11-25", "2026-07-28"])
def test_a_result_that_is_passed_on_names_the_server_that_answers(inner_revision: str, outer_revision: str) -> None:
    inner, outer = Server(**INNER), Server(**OUTER)

    @inner.tool()
    def hello() -> Any:
        return {"content": [], "_meta": {"com.example/kept": 1}}

    with Client(inner, revision=inner_revision) as behind:
        assert (SERVER_INFO in behind.call_tool("hello")["_meta"]) is (inner_revision == "2026-07-28")

        @outer.tool("hello")
        def passes_on() -> Any:
            return behind.call_tool("hello")

        with Client(outer, revision=outer_revision) as client:
            meta = client.call_tool("hello")["_meta"]
    assert meta["com.example/kept"] == 1
    assert meta.get(SERVER_INFO) == (OUTER if outer_revision == "2026-07-28" else None)
