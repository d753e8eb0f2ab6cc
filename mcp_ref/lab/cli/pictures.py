"""The commands `draw` and `show`: a trace as a picture, and as a page.

Not here:  what is drawn (lab/judge/draw), the page (lab/judge/show)
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from mcp_ref.lab.cli import render
from mcp_ref.lab.cli.commands import Exit, UsageError, recorded
from mcp_ref.lab.judge.check import check
from mcp_ref.lab.judge.draw import MAX_ARROWS, mermaid, steps, svg
from mcp_ref.lab.judge.rulebook import Finding
from mcp_ref.recording.record import TraceEvent


def draw(args: argparse.Namespace) -> Exit:
    events, findings = _read(args.file)
    wrong = {finding.seq for finding in findings if finding.blame is not None and finding.level != "HINT"}
    drawn = [
        step for step in steps(events, http=args.http, wrong=wrong)
        if args.first <= step.event.seq <= (args.last or step.event.seq)
    ]  # fmt: skip
    if args.format == "mermaid" and len(drawn) > MAX_ARROWS and not args.all:
        render.note(
            f"{len(drawn)} arrows: the first {MAX_ARROWS} are drawn; --from and --to choose others, --all draws all"
        )
    _write(args.output, svg(drawn) if args.format == "svg" else mermaid(drawn, all=args.all))
    return Exit.OK


def show(args: argparse.Namespace) -> Exit:
    from mcp_ref.lab.judge.show import page

    events, findings = _read(args.file)
    _write(args.output, [page(events, findings, Path(args.file).name)])
    return Exit.OK


def _read(file: str) -> tuple[list[TraceEvent], list[Finding]]:
    """Return the events of a trace, and what is wrong with them."""
    events = list(recorded(file))
    return events, list(check(events))


def _write(path: str | None, lines: Iterable[str]) -> None:
    text = "\n".join(lines) + "\n"
    if path is None:
        sys.stdout.write(text)
        return
    try:
        # What a trace says is as private in a picture: 0600, as of the trace, where the file is new.
        with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
    except OSError as problem:
        raise UsageError(str(problem)) from None
