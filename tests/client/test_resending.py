"""client/connecting: which requests are sent again when their answer was lost."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.client.reconnect import may_resend
from mcp_ref.errors import AnswerLost, TransportClosed
from mcp_ref.pages.server.tools import KnownTool

READING = ["tools/list", "prompts/get", "resources/read", "completion/complete", "server/discover"]


def known(**annotations: Any) -> dict[str, KnownTool]:
    return {"t": KnownTool({"name": "t", "inputSchema": {"type": "object"}, "annotations": annotations})}  # type: ignore[typeddict-item]


@pytest.mark.parametrize("method", READING)
def test_what_only_reads_is_sent_again(method: str) -> None:
    assert may_resend(AnswerLost("x"), method, {}, {}, {})


WITHOUT: Any = {"t": KnownTool({"name": "t", "inputSchema": {"type": "object"}})}
TOOLS: list[tuple[Any, bool]] = [
    ({}, False), (WITHOUT, False), (known(), False), (known(readOnlyHint=True), True),
    (known(idempotentHint=True), True), (known(idempotentHint=False, destructiveHint=False), False),
    (known(readOnlyHint="yes"), False),
]  # fmt: skip


@pytest.mark.parametrize(("tools", "again"), TOOLS)
def test_a_tool_is_called_again_where_it_says_that_this_does_no_harm(tools: Any, again: bool) -> None:
    assert may_resend(AnswerLost("x"), "tools/call", {"name": "t"}, {}, tools) is again
    assert not may_resend(AnswerLost("x"), "com.example/pay", {}, {}, tools)


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_the_caller_decides(method: str, chosen: bool) -> None:
    assert may_resend(AnswerLost("x"), method, {"name": "t"}, {"resend": chosen}, known(readOnlyHint=True)) is chosen


def test_what_never_went_out_is_always_sent() -> None:
    assert may_resend(TransportClosed.before("it died"), "tools/call", {"name": "t"}, {"resend": False}, {})
