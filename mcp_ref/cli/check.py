"""The command `check`: which sentences of the specification a conversation breaks.

Not here:  judging (trace/check)

Exit codes are those of the command line; 3 also where `--strict` finds something.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any, TextIO

from mcp_ref.cli import shown
from mcp_ref.cli.commands import Exit, UsageError
from mcp_ref.messages import JsonObject
from mcp_ref.trace.check import Checker, Finding, check, sentences
from mcp_ref.trace.narrate import escaped
from mcp_ref.trace.record import TraceEvent, events_of

_LEVELS = {"must": ("MUST", "FAULT"), "should": ("MUST", "FAULT", "SHOULD")}


def run(args: argparse.Namespace) -> Exit:
    """Judge a trace."""
    if args.list:
        shown.put(_listed(args.revision))
        return Exit.OK
    if not args.file:
        raise UsageError("which trace? Name its file, or - for standard input")
    try:
        report = open(args.report, "w", encoding="utf-8") if args.report else nullcontext(sys.stdout)  # noqa: SIM115
        opened = nullcontext(sys.stdin.buffer) if args.file == "-" else open(args.file, "rb")  # noqa: SIM115
    except OSError as problem:
        raise UsageError(str(problem)) from None
    checker = Checker(args.revision)
    with opened as lines, report as out:
        writer = Report(args, checker, out)
        try:
            name = "standard input" if args.file == "-" else args.file
            for finding in check(writer.counted(events_of(lines, name)), checker):
                writer.write(finding)
        except ValueError as problem:
            raise UsageError(str(problem)) from None
        return writer.end()


class Report:
    """Writes findings as they are made, and at the end what was and was not looked at.

    Args:
        args: `--format`, `--level`, `--hints`, `--role`, `--coverage` and `--strict`.
    """

    def __init__(self, args: argparse.Namespace, checker: Checker, out: TextIO) -> None:
        self._args, self._checker, self._out = args, checker, out
        self.events = self.found = 0

    def counted(self, events: Iterable[TraceEvent]) -> Iterator[TraceEvent]:
        for event in events:
            self.events += 1
            yield event

    def write(self, finding: Finding) -> None:
        """Write a finding, if it is one of those that are wanted."""
        args = self._args
        wanted = finding.level in _LEVELS[args.level] or (args.hints and finding.level == "HINT")
        if not wanted or args.role not in (None, finding.blame or args.role):
            return
        self.found += finding.level != "HINT"
        if args.format == "json":
            self._out.write(json.dumps(finding._asdict()) + "\n")
        else:
            self._out.write(escaped(f"{finding}\n    message:  {_cut(finding.message)}", "\n") + "\n")
        self._out.flush()

    def end(self) -> Exit:
        """Say how much was looked at."""
        applied, skipped = self._checker.applied, self._checker.skipped
        reasons = {reason: sorted(name for name in skipped if skipped[name] == reason) for reason in skipped.values()}
        if self._args.format == "json":
            said: JsonObject = {
                "events": self.events,
                "findings": self.found,
                "asked": len(applied),
                "skipped": reasons,
            }
            if self._args.coverage:
                said["applied"] = dict(sorted(applied.items()))
            self._out.write(json.dumps(said) + "\n")
        else:
            what = f"{self.found} finding{'s' * (self.found != 1)} in {self.events} events"
            self._out.write(f"{what}; {len(applied)} rules were asked\n")
            for reason, names in reasons.items():
                title = "not decided: redacted" if reason == "redacted" else f"{reason}: {len(names)} rules not applied"
                self._out.write(f"{title}: {', '.join(names)}\n")
            if self._args.coverage:
                self._out.writelines(f"{applied[name]:>7}  {name}\n" for name in sentences()["rules"])
        return Exit.PROTOCOL if self._args.strict and self.found else Exit.OK


def _cut(message: Any) -> str:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 500 else text[:497] + "..."


def _listed(revision: str | None) -> Iterator[str]:
    """Every rule, with its sentences."""
    for name, rows in sentences()["rules"].items():
        for row in rows:
            ids = [each for each in row["ids"] if revision is None or each.startswith(revision)]
            if ids:
                yield f"{name}: {row['level']}: {row['says']}\n    {' '.join(ids)}"
