"""The command `check`: which sentences of the specification a conversation breaks, in a trace or as it happens.

Not here:  judging (trace/check), standing between two peers (trace/between)

Between two peers standard output belongs to the server; findings go to standard error, or to `--report`.

Exit codes are those of the command line; 3 also where `--strict` finds something; 6 where not all could be judged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any, TextIO

from mcp_ref.cli import shown
from mcp_ref.cli.commands import Exit, UsageError, recorded
from mcp_ref.messages import JsonObject
from mcp_ref.trace.check import Checker
from mcp_ref.trace.narrate import escaped
from mcp_ref.trace.record import Recorder, TraceEvent, TruncatedTrace
from mcp_ref.trace.rulebook import Finding, sentences
from mcp_ref.trace.rules.seen import OTHER, Latest

_REPORT_TIMEOUT = 5.0
_SIGNAL_INTERVAL = 0.5
_MAX_PLACES = 5  # at which equal findings are named
_LEVELS = {"must": ("MUST", "FAULT"), "should": ("MUST", "FAULT", "SHOULD")}


def run(args: argparse.Namespace) -> Exit:
    """Judge a trace, or what passes between a client and the server that is named."""
    if args.list:
        shown.put(_listed(args.revision))
        return Exit.OK
    if bool(args.file) + bool(args.target) + bool(args.http) != 1:
        raise UsageError("check TRACE, or -- and the command of a server, or --http and its URL")
    if args.file and (args.trace or args.exact):
        raise UsageError("--trace and --exact are for what happens now; this trace exists")
    default = sys.stdout if args.file else sys.stderr
    try:
        report = open(args.report, "w", encoding="utf-8") if args.report else nullcontext(default)  # noqa: SIM115
    except OSError as problem:
        raise UsageError(str(problem)) from None
    with report as out:
        return _judge_trace(args, out) if args.file else _judge_live(args, out)


def _judge_trace(args: argparse.Namespace, out: TextIO) -> Exit:
    checker = Checker(args.revision)
    writer = Report(args, checker, out)
    try:
        for event in recorded(args.file):
            writer.feed(event)
    except UsageError as problem:
        if not isinstance(problem.__cause__, TruncatedTrace):
            raise
        writer.cut = f"{problem}; this line has no end, what stands before it was judged"
    return writer.end()


def _judge_live(args: argparse.Namespace, out: TextIO) -> Exit:
    """Stand between a client and a server, until the server has exited, or Ctrl-C."""
    from mcp_ref.trace.between import HttpProxy, Pipes

    checker = Checker(args.revision, whole=not args.http)
    writer = Report(args, checker, out)
    try:
        trace = _own_file(args.trace) if args.trace else None
        if trace and args.exact:
            shown.note(f"{trace} will hold everything that is said, secrets too")
        recorders = [Recorder(writer.feed, exact=True)]
        recorders += [Recorder(trace, exact=args.exact)] if trace else []
    except OSError as problem:
        raise UsageError(f"cannot write the trace: {problem}") from None
    code = 0
    try:
        if args.target:
            code = Pipes(args.target, recorders).run()
        else:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends this as Ctrl-C does
            with suppress(KeyboardInterrupt), HttpProxy(args.http, recorders, shown.note, args.port) as proxy:
                shown.note(f"give your client this URL: {proxy.url}")
                while True:
                    # A signal may come to another thread, and this one notices it when it wakes.
                    threading.Event().wait(_SIGNAL_INTERVAL)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    except OSError as problem:
        what = f"{args.target[0]!r} cannot be started" if args.target else f"cannot listen on port {args.port}"
        raise UsageError(f"{what}: {problem.strerror or problem}") from None
    finally:
        for recorder in recorders:
            recorder.close()
    if not args.target:
        return writer.end()
    # Nobody may read what is said here, and the client waits for the exit code all the same.
    saying = threading.Thread(target=writer.end, name="mcp-check-report", daemon=True)
    saying.start()
    saying.join(_REPORT_TIMEOUT)
    if writer.code:
        os._exit(writer.code)
    if code < 0:
        # As the server has ended, so does this.
        with suppress(OSError):  # SIGKILL cannot be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _own_file(path: str) -> str:
    """The path, or one beside it while another process that stands between two peers writes there.

    A client may start several servers, or one several times, by the same line of its configuration.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return path
    root, ending = os.path.splitext(path)
    for number in range(1, 1000):
        own = path if number == 1 else f"{root}-{number}{ending}"
        file = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)  # open, and locked, until this process ends
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        except OSError:
            os.close(file)  # such as a pipe, which nothing can lock
        if own != path:
            shown.note(f"{path} is being written by another process; the trace goes to {own}")
        return own
    raise OSError(f"{path} and all the names beside it are being written")


class Report:
    """Writes findings as they are made, and at the end what was and was not looked at.

    Args:
        args: `--format`, `--level`, `--hints`, `--role`, `--coverage` and `--strict`.
    """

    def __init__(self, args: argparse.Namespace, checker: Checker, out: TextIO) -> None:
        self._args, self._checker, self._out = args, checker, out
        self.events = self.found = 0
        self.cut: str | None = None  # what is wrong with a last line that is not whole
        self._equal: Latest[list[Any]] = Latest()  # of equal findings: how many there are, and the first places

    def feed(self, event: TraceEvent) -> None:
        """Judge an event, and write what is found."""
        self.events += 1
        for finding in self._checker.feed(event):
            self.write(finding)

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
            # Numbers, such as ids, do not make another fault of it.
            same = re.sub(r"\d+", "", finding.expected), finding.rule, finding.blame or "the checker", finding.ids
            count, *places = self._equal.get(same, [0])
            self._equal[same] = [count + 1, *places, finding.seq][: 1 + _MAX_PLACES]
            if not count:
                self._out.write(escaped(str(finding), "\n") + "\n")
        self._out.flush()

    def end(self) -> Exit:
        """Write what only the end shows, and say how much was looked at."""
        for finding in self._checker.end():
            self.write(finding)
        applied, skipped = self._checker.applied, self._checker.skipped
        reasons = {reason: sorted(name for name in skipped if skipped[name] == reason) for reason in skipped.values()}
        asked, spoken = {rule for rule, _, _ in applied}, {sentence[:10] for _, sentence, _ in applied}
        rows = [
            {"sentence": each, "rule": name} | {role: applied[name, each, role] for role in OTHER}
            for name, rule in sentences()["rules"].items() for row in rule for each in row["ids"] if each[:10] in spoken
        ]  # fmt: skip
        unjudged = [each for each in (self.cut, self.unjudged) if each]
        if self._args.format == "json":
            said: JsonObject = {"events": self.events, "findings": self.found, "asked": len(asked), "skipped": reasons}
            said |= {"unjudged": unjudged} | ({"applied": rows} if self._args.coverage else {})
            self._out.write(json.dumps(said) + "\n")
        else:
            for (_, rule, who, _), (count, *places) in self._equal.items():
                if count > 1:
                    where = [*places, "..."][:count]
                    self._out.write(f"{count} times: {rule}, {who}: at {', '.join(map(str, where))}\n")
            what = f"{self.found} finding{'s' * (self.found != 1)} in {self.events} events"
            self._out.write(f"{what}; {len(asked)} rules were asked\n")
            self._out.writelines(f"not all was judged: {escaped(each)}\n" for each in unjudged)
            for reason, names in reasons.items():
                self._out.write(f"not decided, {reason} ({len(names)}): {', '.join(names)}\n")
            if self._args.coverage:
                lines = ("{client:>7} {server:>7}  {sentence}  {rule}\n".format_map(row) for row in rows)
                self._out.writelines([" client  server\n", *lines])
        self._out.flush()
        return self.code

    @property
    def unjudged(self) -> str | None:
        """Why little follows from it that nothing was found."""
        spoken = self._checker.spoken
        unknown = f"the revision of {spoken['']} of {spoken.total()} messages is unknown; --revision can name it"
        return "there was no message to judge" if not spoken else unknown if spoken[""] else None

    @property
    def code(self) -> Exit:
        strict = self._args.strict
        partly = Exit.UNJUDGED if self.cut or (strict and self.unjudged) else Exit.OK
        return Exit.PROTOCOL if strict and self.found else partly


def _listed(revision: str | None) -> Iterator[str]:
    """Every rule, with its sentences."""
    for name, rows in sentences()["rules"].items():
        for row in rows:
            ids = [each for each in row["ids"] if revision is None or each.startswith(revision)]
            if ids:
                yield f"{name}: {row['level']}: {row['says']}\n    {' '.join(ids)}"
