"""Servers over stdio that are slow to start, made with both SDKs of both eras: met in the newest era that they know."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import pytest

from mcp_ref import Client
from tests.conftest import PROBE_TIMEOUT
from tests.interop import programs
from tests.interop.programs import NEW_SDK, OLD_SDK

NEW, OLD, OLDEST = "2026-07-28", "2025-11-25", "2024-11-05"


def typescript(era: str) -> list[str]:
    return programs.typescript("ts_stateless_server.mjs", "stdio", "0", era, package="server")


# Their commands, the revision that is agreed on, and how often they are started.
THEIRS = {
    "mcp 2": (partial(programs.their_server, NEW_SDK), NEW, 1),
    "mcp 1.8.1": (partial(programs.their_server, OLD_SDK), OLDEST, 2),  # the probe stops it
    "typescript 2, both": (partial(typescript, "both"), NEW, 1),
    "typescript 2, stateless": (partial(typescript, "stateless"), NEW, 1),
    "typescript 2, session": (partial(typescript, "session"), OLD, 1),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", [2, 6])
@pytest.mark.parametrize("peer", THEIRS)
def test_a_server_is_met_in_its_newest_era_however_long_it_starts(peer: str, start: int, tmp_path: Path) -> None:
    command, expected, starts = THEIRS[peer]
    log = tmp_path / "log"
    slowly = ["sh", "-c", f"echo started >> {log}; sleep {start}; exec {shlex.join(command())}"]
    # Far more than it takes: a busy machine is allowed for.
    with Client(slowly, probe_timeout=PROBE_TIMEOUT, connect_timeout=60) as client:
        assert str(client.revision) == expected
        assert client.call_tool("add", {"a": 2, "b": 40})["content"][0]["text"] == "42"  # type: ignore[typeddict-item]
    assert log.read_text().count("started") == starts
