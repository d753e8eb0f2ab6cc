"""client/connecting: which requests are sent again when their answer was lost."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.client.reconnect import may_resend
from mcp_ref.errors import AnswerLost, TransportClosed
from mcp_ref.pages.server.tools import KnownTool


def known(**annotations: Any) -> dict[str, KnownTool]:
    return {"t": KnownTool({"name": "t", "inputSchema": {"type": "object"}, "annotations": annotations})}  # type: ignore[typeddict-item]


WITHOUT = {"t": KnownTool({"name": "t", "inputSchema": {"type": "object"}})}


def test_what_only_reads_is_sent_again() -> None:
    for method in ("tools/list", "prompts/get", "resources/read", "completion/complete", "server/discover"):
        assert may_resend(AnswerLost("x"), method, {}, {}, {}), method


@pytest.mark.parametrize(
    ("tools", "again"),
    [
        ({}, False), (WITHOUT, False), (known(), False), (known(readOnlyHint=True), True),
        (known(readOnlyHint="yes"), False),
        (known(idempotentHint=True), True), (known(idempotentHint=False, destructiveHint=False), False),
    ],
)  # fmt: skip
def test_a_tool_is_called_again_where_it_says_that_this_does_no_harm(tools: Any, again: bool) -> None:
    assert may_resend(AnswerLost("x"), "tools/call", {"name": "t"}, {}, tools) is again
    assert not may_resend(AnswerLost("x"), "com.example/pay", {}, {}, tools)
    # The caller decides.
    for chosen in (True, False):
        assert may_resend(AnswerLost("x"), "tools/call", {"name": "t"}, {"resend": chosen}, tools) is chosen


def test_what_never_went_out_is_always_sent() -> None:
    assert may_resend(TransportClosed.before("it died"), "tools/call", {"name": "t"}, {"resend": False}, {})
