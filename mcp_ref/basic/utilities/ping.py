"""Ping: `ping`.

Spec:      basic/utilities/ping (2024-11-05 ... 2025-11-25); gone in 2026-07-28
Upholds:   spec_notes/basic/utilities/ping.md
Reads:     basic/types
Not here:  asking at an interval (basic/patterns/keepalive)
"""

from __future__ import annotations

from typing import Unpack

from mcp_ref.basic.methods import Caller, Method, Options
from mcp_ref.basic.types import EmptyResult, RequestParams

__all__ = ["METHODS", "answer_ping", "ping"]


def ping(self: Caller, **options: Unpack[Options]) -> None:
    """Ask with `ping` whether the peer still answers.

    Blocks: until the peer answers, at most `timeout` seconds.
    Raises: RequestTimeout, TransportClosed.
    Threads: any.
    Spec: basic/utilities/ping#behavior-requirements
    """
    self.request("ping", None, options)


def answer_ping() -> EmptyResult:
    """The answer: promptly, and empty. It waits for no handler, whatever else this side is doing."""
    # MUST: respond promptly with an empty response (basic/utilities/ping#behavior-requirements)
    return {}


METHODS = (
    Method(
        name="ping",
        kind="request",
        sender="both",
        page="basic/utilities/ping",
        about="ask whether the other side is still there",
        params=RequestParams,
        result=EmptyResult,
        until="2025-11-25",
    ),
)
