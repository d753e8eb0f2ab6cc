"""The command `probe`: drives a server, or a client, through its duties, and says of each what came of it.

Not here:  the cases and running them (lab/testing/probe); the forms of a report (lab/testing/reports)

Exit codes are those of the command line; 3 where a MUST is broken (with `--strict` also a SHOULD), or where something
that `--expect` names has passed; 4 where the peer cannot be reached, or speaks no revision.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from mcp_ref import REVISIONS, STATELESS_REVISIONS, TransportClosed
from mcp_ref.facts import escaped
from mcp_ref.lab.cli import render
from mcp_ref.lab.cli.commands import Exit, UsageError, headers_of, url_of
from mcp_ref.lab.testing.cases import FUNCTIONS
from mcp_ref.lab.testing.probe import Case, Probe, cases, judge
from mcp_ref.lab.testing.probe_client import ProbeClient
from mcp_ref.lab.testing.raw_talk import Options
from mcp_ref.lab.testing.reports import Row, Verdict, report
from mcp_ref.recording.record import Recorder, TraceEvent

_SIGN_INTERVAL: Final = 10.0  # seconds


def run(args: argparse.Namespace) -> Exit:
    """Probe the peer behind `--`, and report."""
    known = cases("client" if args.client else "server")
    for word in args.only:
        if not any(case.about(word) for case in known):
            raise UsageError(f"no case is about {word!r}; mcp-ref probe --list has them all")
    if args.list:
        render.put(
            f"{case.name:<36} {case.says} ({case.over}; {', '.join(case.needs) or 'anything'})"
            for case in known if not args.only or any(map(case.about, args.only))
        )  # fmt: skip
        return Exit.OK
    if args.url and (args.target or args.client or "://" not in args.url):
        raise UsageError(f"{args.url!r} must be a URL, alone; a command comes after --")
    args.target = args.target or [args.url][: bool(args.url)]
    if not args.target:
        raise UsageError("probe needs -- and the command of a server, or its URL; with --client that of a client")
    expected = expected_of(args.expect) if args.expect else {}
    rows = weighed(_probed(args), expected)
    told = args.format == "text"
    text = "".join(f"{line}\n" for line in _told(rows, known)) if told else report(rows, "probe", args.format)
    if args.report:
        try:
            Path(args.report).write_text(text, "utf-8")
        except OSError as problem:
            raise UsageError(str(problem)) from None
    else:
        render.put([text.rstrip("\n")])
    worst = ("fail", "error", "warn") if args.strict else ("fail", "error")
    nothing = not any(row.verdict in ("pass", "fail", "warn", "note") for row in rows)
    return Exit.PROTOCOL if nothing or any(row.verdict in worst for row in rows) else Exit.OK


def _probed(args: argparse.Namespace) -> list[Row]:
    """Return a row for each case, and for each rule that was broken."""
    events: list[TraceEvent] = []
    try:
        with Recorder(events.append, *([args.trace] if args.trace else []), exact=True) as recorder:
            probe: Any
            if args.client:
                more = {"timeout": args.timeout, "patience": args.patience, "only": args.only}
                try:
                    probe = ProbeClient(args.target, args.http, recorder, **more)
                except ValueError as problem:
                    raise UsageError(str(problem)) from None
            else:
                seed = random.Random(args.seed) if args.seed is not None else secrets.SystemRandom()
                options = Options(
                    args.timeout, args.only, args.allow_calls or "", args.allow_reads, args.heavy,
                    args.slow_tool or "", _calls(args.call), headers_of(args.header), args.inherit,
                    f"no-such-{seed.getrandbits(32):08x}",
                )  # fmt: skip
                probe = Probe(url_of(args.target) or args.target, options, recorder)
            try:
                rows = list(_of_each(probe, args))
            finally:
                probe.close()
    except OSError as problem:
        if isinstance(problem, TransportClosed):
            raise
        raise UsageError(str(problem)) from None
    return judge(rows, events, probe.marks, "client" if args.client else "server", probe.spoken, probe.chosen)


def _of_each(probe: Any, args: argparse.Namespace) -> Iterator[Row]:
    try:
        spoken = probe.find(list(REVISIONS) if args.revision == "all" else [args.revision] if args.revision else ())
    except TransportClosed:
        if not args.client:
            # A guarded server: whether it says so rightly can be seen without a token.
            yield from (row for row in probe.run(STATELESS_REVISIONS[-1].name, guarded=True) if row.verdict != "skip")
        raise
    played = [case for case in probe.chosen if case.play or case.name in FUNCTIONS or not case.rules]
    total, told = sum(each in case.sentences for each in spoken for case in played), time.monotonic()
    for number, row in enumerate((row for each in spoken for row in probe.run(each)), 1):
        # A log needs a sign of life, and not a line for each case.
        if sys.stderr.isatty() or time.monotonic() > told + _SIGN_INTERVAL:
            render.note(f"{number} of {total}: {row.verdict} {row.revision} {row.name}")
            told = time.monotonic()
        yield row


def _calls(path: str | None) -> list[Any]:
    if path is None:
        return []
    try:
        calls = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path}: {problem}") from None
    if not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in calls):
        raise UsageError(f'{path}: each line is {{"name": ..., "arguments": {{...}}}}')
    return calls


def expected_of(path: str) -> dict[tuple[str, str], str]:
    """Return the expected failures: by case and revision the reason."""
    found = {}
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path}: {problem}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, revision, reason = [*line.split(maxsplit=2), "", ""][:3]
        if revision not in REVISIONS or not reason:
            raise UsageError(f"{path}, line {number}: CASE REVISION REASON, not {line!r}")
        found[name, revision] = reason
    return found


def weighed(rows: Iterable[Row], expected: dict[tuple[str, str], str]) -> list[Row]:
    """Return the rows, in which what was expected to fail is a note, and a failure where it passes."""
    taken = []
    for row in rows:
        reason = expected.get((row.name, row.revision))
        if reason and row.verdict in ("fail", "warn"):
            row = row._replace(verdict="note", says=f"expected ({reason}): {row.says}")
        elif reason and row.verdict == "pass":
            row = row._replace(verdict="fail", says=f"it passes, and is expected to fail: {reason}")
        taken.append(row)
    return taken


def _told(rows: Sequence[Row], known: Sequence[Case]) -> Iterator[str]:
    """Yield a line for each row that did not pass, and the sum."""
    says = {case.name: case.says for case in known}
    yield f"spoken: {', '.join(dict.fromkeys(row.revision for row in rows if row.revision)) or 'no revision'}"
    for row in rows:
        if row.verdict in ("pass", "skip"):
            continue
        yield f"{row.verdict:<5} {row.revision} {row.name}: {escaped(row.says)}"
        yield f"      {re.sub('[*]', '', says.get(row.name, ''))} {' '.join(row.ids)}".rstrip()
    for reason in dict.fromkeys(row.says for row in rows if row.verdict == "skip"):
        names = dict.fromkeys(row.name for row in rows if row.verdict == "skip" and row.says == reason)
        yield f"skip  {escaped(reason)}: {', '.join(names)}"
    yield ", ".join(f"{sum(row.verdict == kind for row in rows)} {kind}" for kind in get_args(Verdict))
