"""Servers over stdio that start slowly, or do not survive what they do not know: each ends in the right era."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, Command, RequestTimeout
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports.stdio import StdioClientTransport
from tests.conftest import PROBE_TIMEOUT
from tests.support.wire import PATIENCE

BOTH, MODERN, OLD = "2025-11-25 2026-07-28", "2026-07-28", "2025-11-25"

SERVER = """
import sys, time
open(sys.argv[1], "a").write("started\\n")
time.sleep(float(sys.argv[2]))
from tests.features.era_server import build
build(sys.argv[3:]).run()
"""

OLD_SERVER = """
import json, sys, time
time.sleep({slow})
open(sys.argv[1], "a").write("started\\n")
info = {{"name": "old", "version": "1"}}
answer = {{"result": {{"protocolVersion": "2025-03-26", "capabilities": {{}}, "serverInfo": info}}}}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "server/discover":
        {probed}
    if "id" in message:
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **answer}}), flush=True)
"""
# As the official SDK 1.0 to 1.8: what reads has died, and the process hangs until the next line.
MORTAL = OLD_SERVER.format(slow=0, probed="sys.stdin.readline(); sys.exit(1)")
# Slow to start; two starts do not fit into the time.
SLOW_MORTAL = OLD_SERVER.format(slow=1.2, probed="sys.stdin.readline(); sys.exit(1)")
SPOILED = OLD_SERVER.format(slow=0, probed='answer = {"error": {"code": -32600, "message": "spoiled"}}')


@pytest.fixture(autouse=True)
def silence_is_noticed_as_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Client.__init__.__kwdefaults__, "probe_timeout", PROBE_TIMEOUT)


def starts(path: Path) -> int:
    return path.read_text("utf-8").count("started")


def old(program: str, log: Path, **options: Any) -> Command:
    return Command([sys.executable, "-S", "-E", "-c", program, str(log)], **options)


@pytest.mark.parametrize("spoken", [BOTH, *(pytest.param(each, marks=pytest.mark.slow) for each in (MODERN, OLD))])
def test_a_server_that_starts_slowly_is_started_once(tmp_path: Path, spoken: str) -> None:
    log = tmp_path / "log"
    command = Command([sys.executable, "-c", SERVER, str(log), "1.5", *spoken.split()])
    with Client(command, probe_timeout=PROBE_TIMEOUT) as client:
        # One of both eras has opened the session that it was asked for meanwhile.
        assert client.revision.name == (MODERN if spoken == MODERN else OLD)
        assert client.call_tool("hello")["content"]
    assert starts(log) == 1


@pytest.mark.parametrize("program", [MORTAL, SPOILED], ids=["it dies", "it refuses everything"])
def test_a_server_that_the_probe_has_killed_or_spoiled_is_started_once_more(tmp_path: Path, program: str) -> None:
    log = tmp_path / "log"
    with Client(old(program, log)) as client:
        assert client.revision.name == "2025-03-26"
    assert starts(log) == 2


def test_a_server_that_was_given_up_and_is_slow_to_end_has_ended_with_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, busy, join = list[Any](), True, StdioClientTransport._join

    def joined(transport: Any, deadline: Deadline) -> bool:
        closing.append(transport)
        return not busy and join(transport, deadline)

    monkeypatch.setattr(StdioClientTransport, "_join", joined)
    with Client(old(MORTAL, tmp_path / "log")):
        process, busy = closing[0]._child._process, False
        assert not process.stdout.closed
    assert process.stdout.closed and process.stderr.closed and process.returncode is not None


@pytest.mark.slow
def test_a_slow_server_that_dies_of_the_probe_costs_the_time_once_and_is_met_at_the_next_attempt(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    command = old(SLOW_MORTAL, log, grace=0.2)
    began = time.monotonic()
    with pytest.raises(RequestTimeout, match="connect_timeout=2.2"), Client(command, connect_timeout=2.2):
        pass
    assert time.monotonic() - began < 2.2 + 2
    with Client(command, connect_timeout=PATIENCE) as client:
        assert client.revision.name == "2025-03-26"
    assert starts(log) == 2, "one for the probe, and one for the attempt that knew"


def test_a_time_out_names_its_option_and_what_the_server_has_said() -> None:
    silent = "import sys, time; print('cannot find the key', file=sys.stderr, flush=True); time.sleep(60)"
    command = Command([sys.executable, "-S", "-I", "-c", silent], grace=0.2)
    with pytest.raises(RequestTimeout) as timed_out, Client(command, connect_timeout=2):
        pass
    assert "connect_timeout=2" in str(timed_out.value)
    assert "the server has said:\n    cannot find the key" in str(timed_out.value)


def test_a_client_that_is_pinned_to_one_era_teaches_the_others_nothing(tmp_path: Path) -> None:
    command = Command([sys.executable, "-c", SERVER, str(tmp_path / "log"), "0", *BOTH.split()])
    with Client(command, revision=OLD) as client:
        assert client.revision.name == OLD
    # However slow the machine is.
    with Client(command, probe_timeout=PATIENCE) as client:
        assert client.revision.name == MODERN
