"""Programs that mcp_ref did not write, with the checker between them: every finding stands here, with its reason.

The peers are programs made with the official SDKs for the tests of this folder: what they send to see it refused is
found as well, and is marked so. The rest is what the SDKs do.
"""

from __future__ import annotations

import pytest

from tests.interop.judged import PAIRS, judged
from tests.interop.programs import Pair

ON_PURPOSE = "the program sends it to see it refused"
REVIEWED = {
    # by the programs, on purpose
    ("cursors_go_back_as_they_came", "client"): ON_PURPOSE + ': the cursor is "no such page"',
    ("answers_fit_the_form", "client"): ON_PURPOSE + ": a seat on the roof",
    ("answered_forms_fit", "client"): ON_PURPOSE + ": a seat on the roof",
    ("retries_bring_the_answers", "client"): ON_PURPOSE + ": the state alone",
    ("state_goes_back_as_it_came", "client"): ON_PURPOSE + ": the state changed",
    ("state_is_for_its_request", "client"): ON_PURPOSE + ": the state of another call",
    ("code_32042_is_gone", "server"): "the program raises the error of 2025-11-25, and the SDK sends it in 2026-07-28",
    # by the SDKs
    (
        "missing_arguments_are_32602",
        "server",
    ): "mcp 2 answers a KeyError of a handler of a prompt with code 0 or -32603; no argument is checked before",
    ("missing_arguments_are_refused", "server"): "the SDK for TypeScript, below its McpServer, checks no argument",
    ("schema", "server"): "mcp 2 sends the content of a message as an array in a session of 2024-11-05",
    (
        "input_is_closed_before_signals",
        "client",
    ): "mcp 1.8.1 does not close the input of its server before SIGTERM; TypeScript 2, after its probe, does not wait",
    ("elicits_only_where_declared", "server"): "mcp 2 leaves to its handlers what a client can be asked",
    ("ended_subscriptions_are_announced", "server"): "mcp 2 ends a subscription over stdio with its result alone",
    ("method_header_matches", "client"): "the SDK for TypeScript sends notifications/cancelled without Mcp-Method",
}


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_every_finding_between_peers_that_we_did_not_write_was_reviewed(pair: Pair) -> None:
    found, events = judged(pair)
    assert len(events) > 50
    assert not [str(each) for each in found if (each.rule, each.blame) not in REVIEWED]
    assert all(each.ids for each in found)
