"""The command `diff`: what changed between two revisions, in their tables or in the traffic of a program.

Not here:  finding and telling it (lab/judge/compare, lab/testing/align)

A program is run twice, once for each revision, with two arguments: the revision that it is to speak, and the path at
which it is to record:

    revision, trace = sys.argv[1:]
    with Client(target, revision=revision, trace=trace) as client:
        ...

Exit codes: 2 where the file cannot be read, or the program recorded nothing, or spoke another revision; 4 where it
failed, or had not ended in time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp_ref import RequestTimeout, TransportClosed, find_revision
from mcp_ref.lab.cli import render
from mcp_ref.lab.cli.commands import Exit, UsageError
from mcp_ref.lab.judge.compare import FORMATS, UNSEEN, Change, compare, explained, of_part
from mcp_ref.lab.testing.marks import end_marked, marked


def run(args: argparse.Namespace) -> Exit:
    """Compare the revisions that are named, oldest first or not."""
    try:
        old, new = (find_revision(each).name for each in (args.old, args.new))
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    part = args.method is not None or args.page is not None
    if args.traffic is not None and part:
        raise UsageError("--method and --page are of the tables: take --traffic without them")
    if args.traffic is None:
        changes, unseen = compare(old, new), UNSEEN
        if part:
            try:
                changes = [*map(_in_words, of_part(old, new, changes, args.method, args.page))]
            except ValueError as problem:
                raise UsageError(str(problem)) from None
        changes = [*map(explained, changes)]
    else:
        from mcp_ref.lab.testing.align import NOT_COMPARED, align

        try:
            changes = align(*(_traffic(args.traffic, each, args.timeout) for each in (old, new)))
        except RecursionError:
            raise UsageError("a message is nested too deeply to be compared") from None
        unseen = NOT_COMPARED
    render.put(FORMATS[args.format](old, new, changes, unseen))
    return Exit.OK


def _in_words(change: Change) -> Change:
    """Return the change of a member with what the member means."""
    from mcp_ref.lab.judge.fields import MEANINGS

    means = MEANINGS.get(change.name.partition(".")[2]) if change.part == "members" and "." in change.name else None
    return change if means is None else change._replace(name=f"{change.name} ({means.rstrip('.')})")


def _traffic(program: str, revision: str, timeout: float) -> list[Any]:
    """Return what a program, or without a name the demo, says and hears when it is to speak a revision.

    Raises: UsageError, TransportClosed, RequestTimeout: there is nothing to compare.
    """
    from mcp_ref.lab.judge.check import Checker
    from mcp_ref.lab.testing.replay import turns_of
    from mcp_ref.recording.record import read_trace

    if program and not os.access(program, os.R_OK):
        raise UsageError(f"{program} cannot be read")
    with TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.jsonl")
        demo = ["-m", "mcp_ref", "demo", "--all", "--revision", revision, "--trace", trace]
        name = f"{program or 'the demo'}, run for {revision},"
        _run([program, revision, trace] if program else demo, name, timeout, folder)
        # A pipe would never end, nor would a device.
        if os.path.lexists(trace) and not os.path.isfile(trace):
            raise UsageError(f"{name} recorded what cannot be read: it is not a file")
        Path(trace).touch()
        checker = Checker()
        try:
            for event in read_trace(trace):
                checker.feed(event)
            if checker.spoken[revision]:
                return turns_of(trace)[0]
        except (OSError, ValueError) as problem:
            raise UsageError(f"{name} recorded what cannot be read: {problem}") from None
        spoken = " and ".join(filter(None, checker.spoken)) or "no revision that its traffic names"
        if checker.spoken:
            raise UsageError(f"{name} spoke {spoken}")
        raise UsageError(f"{name} recorded no message; it is given a revision to speak, and the path of its trace")


def _run(words: list[str], name: str, timeout: float, folder: str) -> None:
    """Run Python until it has ended, or the seconds are over; then it is ended, with what it has started."""
    # Its errors go where ours go; what it prints is not part of what is told here.
    quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
    process = subprocess.Popen([sys.executable, *words], **quiet, env=marked(folder))
    try:
        if process.wait(timeout):
            raise TransportClosed(f"{name} failed with exit code {process.returncode}")
    except subprocess.TimeoutExpired:
        raise RequestTimeout(f"{name} had not ended after {timeout:g} s") from None
    finally:
        end_marked(folder, process)
        process.wait()
