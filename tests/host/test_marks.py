"""Tests of what a host costs: time to start many servers, and time beside a call."""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, Consent, Host, Rule, Server
from mcp_ref.client.entries import Entry
from tests.host.common import FREE, free, hostile

MAX_ADDED = 100e-6
"""Seconds that `host.call` may add to `client.call_tool`."""


def small() -> Server:
    made = Server("s")
    made.tool("hello")(lambda text: "x")
    return made


def test_a_call_by_the_host_is_three_frames_in_two_files_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks: list[list[traceback.FrameSummary]] = []
    own = Client.call_tool

    def seen(self: Client, *given: Any, **options: Any) -> Any:
        stacks.append(traceback.extract_stack())
        return own(self, *given, **options)

    monkeypatch.setattr(Client, "call_tool", seen)
    with Host([Entry("a", small())], consent=free()) as host:
        host.call("a/hello", {"text": ""})
    above = [frame for frame in stacks[0] if "/mcp_ref/host/" in frame.filename]
    assert len(above) <= 3 and len({frame.filename for frame in above}) <= 2, above


@pytest.mark.slow
def test_a_call_by_the_host_costs_little_more_under_a_hundred_rules(tmp_path: Path) -> None:
    rules = [*FREE, *(Rule("deny", "tool", f"other{number}/*") for number in range(100))]
    entries = [Entry(f"a{number}", small(), revision="2025-11-25") for number in range(20)]
    arguments = {"text": "x" * 256}
    consent = Consent(rules, keep=False, audit=tmp_path / "audit.jsonl")
    with Host(entries, consent=consent) as host:
        client = host.servers["a7"].client
        assert client is not None

        def took(call: Any) -> float:
            began = time.thread_time()
            for _ in range(50):
                call()
            return (time.thread_time() - began) / 50

        # One after the other, many times: the best of each is what a machine without other work would take.
        both = [
            (took(lambda: host.call("a7/hello", arguments)), took(lambda: client.call_tool("hello", arguments)))
            for _ in range(30)
        ]
    added = min(by_host for by_host, _ in both) - min(by_client for _, by_client in both)
    print(f"host.call adds {added * 1e6:.0f} microseconds")
    # Three times as much on a machine that is three times slower.
    assert added < 3 * MAX_ADDED


@pytest.mark.slow
def test_ten_servers_that_need_a_second_are_ready_two_seconds_after_one_alone() -> None:
    def started(number: int) -> float:
        began = time.monotonic()
        with Host([hostile(f"s{each}", "slow") for each in range(number)], consent=free()) as host:
            assert {each.state for each in host.servers.values()} == {"ready"}
            return time.monotonic() - began

    alone, ten = started(1), started(10)
    print(f"one: {alone:.2f} s, ten: {ten:.2f} s")
    assert ten < alone + 2
