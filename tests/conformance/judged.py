"""The official conformance suite with the checker between it and what it tests: who breaks what, by scenario.

python -m tests.conformance.judged --write     makes the table of spec_notes/conformance.md again

What the suite tests is a server of ours (tests/conformance/server.py) and a client of ours (client.py); the other side
is the suite's own. Clients of its scenarios of authorization are not put behind a proxy, for they compare the address
of a server with what it says of itself: what these record themselves is judged instead.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mcp_ref.lab.judge.check import check
from mcp_ref.lab.judge.relay import HttpProxy
from mcp_ref.lab.judge.rulebook import Finding
from mcp_ref.recording.record import Recorder, TraceEvent, read_trace
from mcp_ref.revisions import REVISIONS
from tests.conformance.suite import ENVIRONMENT, HERE, PATIENCE, ROOT, run, serving
from tests.test_where import PROHIBITIONS, said

WITHIN = 240.0
AT_ONCE = 4  # clients; the suite starts those of all scenarios
NOTE = ROOT / "spec_notes" / "conformance.md"
MARK = "|---|---|---|---|"
SETS = ("2025-11-25", "2026-07-28")


class Found(NamedTuple):
    """A finding, and the scenario in which it was made."""

    revision: str
    scenario: str
    finding: Finding


def of_the_server(url: str, revision: str, out: Path) -> tuple[list[Found], dict[str, int]]:
    """Return what is found while the suite plays the client; and the number of events of each scenario."""
    events: list[TraceEvent] = []
    with Recorder(events.append, exact=True) as recorder:
        with HttpProxy(url, [recorder], lambda text: None) as proxy:
            address = proxy.url.replace("127.0.0.1", "localhost")
            run("server", "--url", address, "--requirements", revision, out=out, within=WITHIN)
        recorder.close(30)
        # One scenario follows the other, and the folder of each is called by when it began: to the millisecond, within
        # which one that is skipped can give way to the next.
        folders = sorted(out.iterdir(), key=lambda path: (_time(path.name), path.stat().st_mtime_ns))
        began = [(_time(path.name), _scenario(path.name)) for path in folders]
    times = {event.seq: event.time for event in events}

    def scenario(seq: int) -> str:
        return next((name for at, name in reversed(began) if at <= times[seq]), began[0][1])

    counts = {name: 0 for _, name in began}
    for event in events:
        counts[scenario(event.seq)] += 1
    return [Found(revision, scenario(each.seq), each) for each in check(events)], counts


def _time(folder: str) -> float:
    (at,) = re.findall(r"\d{4}-\d\d-\d\dT[\d-]+Z$", folder)
    return datetime.strptime(at, "%Y-%m-%dT%H-%M-%S-%fZ").replace(tzinfo=UTC).timestamp()


def _scenario(folder: str) -> str:
    return re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", folder).removeprefix("server-")


def of_the_client(revision: str, out: Path) -> tuple[list[Found], dict[str, int]]:
    """Return what is found while the suite plays the server; and the number of events of each scenario."""
    found: list[Found] = []
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as traces, clients(revision, traces) as address:
        command = f"{sys.executable} -I -S {HERE / 'handed.py'} {address}"
        run("client", "--command", command, "--requirements", revision, "--timeout", "120000", out=out, within=WITHIN)
        for path in sorted(Path(traces).iterdir()):
            scenario = path.stem.replace("+", "/")
            events = list(read_trace(path))
            counts[scenario] = len(events)
            found += [Found(revision, scenario, each) for each in check(events)]
    return found, counts


@contextmanager
def clients(revision: str, traces: str) -> Iterator[str]:
    """A process that has imported everything, and becomes the client of a scenario by a fork; gives its address."""
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "clients")
        command = [sys.executable, "-m", "tests.conformance.judged", "--clients", address, revision, traces]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT, cwd=ROOT) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline()
                yield address
            finally:
                process.kill()


def be_clients(address: str, revision: str, traces: str) -> None:
    """Wait for scenarios at the address, until killed."""
    from tests.conformance import client  # imported once, for all

    # Of the era that is meant: a server that is slow must not be taken for an old one.
    era = REVISIONS[revision].era
    spoken = [name for name in REVISIONS if REVISIONS[name].era == era]
    options = {"revision": spoken, "timeout": PATIENCE, "connect_timeout": PATIENCE}
    running = 0
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(100)
        print("ready", flush=True)
        while True:
            if running == AT_ONCE:
                os.wait()
                running -= 1
            asked, _ = listener.accept()
            with asked:
                running += 1
                if os.fork():
                    continue
                code = 1
                try:
                    order = json.loads(asked.makefile("rb").readline())
                    os.environ.update(order["environment"])
                    be_client(partial(client.main, **options), order["url"], traces)
                    code = 0
                finally:
                    asked.send(bytes([code]))
                    os._exit(code)


def be_client(main: Callable[..., None], url: str, traces: str) -> None:
    """Be the client of a scenario, with a trace."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    with Recorder(Path(traces) / f"{scenario.replace('/', '+')}.jsonl", exact=True) as recorder:
        if scenario.startswith("auth/"):
            main(url, trace=recorder)
            return
        with HttpProxy(url, [recorder], lambda text: None) as proxy:
            main(proxy.url)


# -- the table ----------------------------------------------------------------------------------------------------


def table(found: Iterable[Found]) -> list[str]:
    """A line for each sentence that a scenario breaks, and who."""
    told = {}
    for revision, scenario, finding in found:
        level = next((each for each in PROHIBITIONS if each in finding.says), finding.level)
        sentence = f"{finding.blame}: {said(level, finding.says).replace('|', chr(92) + '|')}"
        ids = " ".join(f"`{each.removeprefix(revision + '/')}`" for each in finding.ids)
        told[revision, scenario, finding.rule] = f"| {revision} | {scenario} | {sentence} | {ids} |"
    return [told[each] for each in sorted(told)]


def noted() -> list[str]:
    """The lines of the table in the note."""
    return [line for line in NOTE.read_text("utf-8").splitlines() if line.startswith("| 20")]


def write() -> None:
    """Run everything, and write the table into the note."""
    found: list[Found] = []
    for revision in SETS:
        with serving() as url, tempfile.TemporaryDirectory() as out:
            found += of_the_server(url, revision, Path(out) / "server")[0]
            found += of_the_client(revision, Path(out) / "client")[0]
        print(revision, len(found), flush=True)
    text = NOTE.read_text("utf-8")
    head = text[: text.index(MARK) + len(MARK)]
    NOTE.write_text("\n".join([head, *table(found), ""]), "utf-8")


if __name__ == "__main__" and sys.argv[1] == "--clients":
    be_clients(*sys.argv[2:])
if __name__ == "__main__" and sys.argv[1] == "--write":
    write()
