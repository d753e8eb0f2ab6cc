"""The command `check`: which sentences of the specification conversations break, in traces or as they happen.

Not here:  judging (lab/judge/check), standing between two peers (lab/judge/relay)

Between two peers standard output belongs to the server; findings go to standard error, or to `--report`, a file that is
whole after each event: many clients end their servers with SIGKILL.

Exit codes are those of the command line; 3 also where `--strict` finds something; 6 where nothing came to
judge, a trace is cut off, or, with `--strict`, not all could be judged.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any, TextIO

from mcp_ref import REVISIONS, JsonObject
from mcp_ref.facts import escaped
from mcp_ref.lab.cli import render
from mcp_ref.lab.cli.commands import Exit, UsageError, recorded, recorder_of
from mcp_ref.lab.judge.check import Checker
from mcp_ref.lab.judge.rulebook import Finding, sentences
from mcp_ref.lab.judge.rules.seen import OTHER, Latest, Role
from mcp_ref.recording.record import Recorder, TraceEvent, TruncatedTrace

_REPORT_TIMEOUT = 5.0
_SIGNAL_INTERVAL = 0.5
_MAX_PLACES = 5  # at which equal findings are named
_LEVELS = {"must": ("MUST", "FAULT"), "should": ("MUST", "FAULT", "SHOULD")}


def run(args: argparse.Namespace) -> Exit:
    """Judge traces, or what passes between a client and the server that is named."""
    if args.list:
        for name, rules in sentences()["rules"].items():
            asked = [(row, [each for each in row["ids"] if each.startswith(args.revision or "")]) for row in rules]
            render.put(f"{name}: {row['level']}: {row['says']}\n    {' '.join(ids)}" for row, ids in asked if ids)
        return Exit.OK
    if bool(args.files) + bool(args.target) + bool(args.http) != 1:
        raise UsageError("check needs a TRACE, or -- and the command of a server, or --http and its URL")
    if args.files and (args.trace or args.exact):
        raise UsageError("--trace and --exact are for what happens now; this trace exists")
    default = sys.stdout if args.files else sys.stderr
    try:
        report = open(args.report, "w", encoding="utf-8") if args.report else nullcontext(default)  # noqa: SIM115
    except OSError as problem:
        raise UsageError(str(problem)) from None
    with report as out:
        return _judge_traces(args, out) if args.files else _judge_live(args, out)


def _judge_traces(args: argparse.Namespace, out: TextIO) -> Exit:
    writer = Report(args, out)
    for file in args.files:
        writer.begin(Checker(args.revision), file)
        try:
            for event in recorded(file):
                writer.feed(event)
        except UsageError as problem:
            if not isinstance(problem.__cause__, TruncatedTrace):
                raise
            writer.is_cut(f"{problem}; this line is cut off, and all lines before it were judged")
    return writer.end()


def _judge_live(args: argparse.Namespace, out: TextIO) -> Exit:
    """Stand between a client and a server, until the server has exited, or Ctrl-C."""
    from mcp_ref.lab.judge.relay import HttpProxy, Pipes

    writer = Report(args, out)
    writer.begin(Checker(args.revision, whole=not args.http))
    try:
        args.trace = args.trace and _own_file(args.trace)
    except OSError as problem:
        raise UsageError(f"cannot write the trace: {problem}") from None
    recorders = [Recorder(writer.feed, exact=True)] + ([recorder_of(args)] if args.trace else [])
    code = 0
    writer.live = recorders[0] if args.report and os.path.isfile(args.report) else None
    try:
        if args.target:
            code = Pipes(args.target, recorders).run()
        else:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends this as Ctrl-C does
            with suppress(KeyboardInterrupt), HttpProxy(args.http, recorders, render.note, args.port) as proxy:
                render.note(f"give your client this URL: {proxy.url}")
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
    if writer.code and not (code and writer.code is Exit.UNJUDGED):
        os._exit(writer.code)
    if code < 0:
        # As the server has ended, so does this.
        with suppress(OSError):  # SIGKILL cannot be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _own_file(path: str) -> str:
    """Return the path, or one beside it while another process that stands between two peers writes there.

    A client may start several servers, or one several times, by the same line of its configuration.
    """
    if sys.platform == "win32":
        return path
    import fcntl

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
            render.note(f"{path} is being written by another process; the trace goes to {own}")
        return own
    raise OSError(f"{path} and all names like it are being written")


class Report:
    """Writes findings as they are made, and at the end what was and was not looked at.

    Attributes:
        unjudged: why little follows from it that nothing was found.
        live: what the events come from, if the report is a file that is to be whole after each of them.

    Args:
        args: `--format`, `--level`, `--hints`, `--role`, `--ignore`, `--baseline`, `--coverage` and `--strict`.

    Raises: UsageError for a rule that does not exist, and for a baseline that is not the output of `--format json`.
    """

    def __init__(self, args: argparse.Namespace, out: TextIO) -> None:
        self._args, self._out = args, out
        self.events = self.found = 0
        self.unjudged: list[str] = []
        self._several = len(args.files) > 1
        self._checker, self._file = Checker(), ""
        self._partly = False  # a trace has no message, or a last line that is not whole
        self._applied: Counter[tuple[str, str, Role]] = Counter()
        self._skipped: dict[str, str] = {}
        self._equal: Latest[list[Any]] = Latest()  # of equal findings: how many there are, and the first places
        self._rows: dict[Any, tuple[Finding, str]] = {}  # for JUnit and SARIF: the first of equal findings, its file
        self._silenced: set[str] = set()  # the rules of findings that were not wanted
        if unknown := set(args.ignore) - sentences()["rules"].keys() - {"schema"}:
            raise UsageError(f"--ignore: no rule is called {', '.join(sorted(unknown))}; check --list shows them")
        self._known = set(_baseline(args.baseline)) if args.baseline else set()
        self.live: Recorder | None = None

    def begin(self, checker: Checker, file: str = "") -> None:
        """Judge what follows by this checker; it is what stands in the file, if there is one."""
        if self._file:
            self._finish()
        self._checker, self._file = checker, file

    def is_cut(self, why: str) -> None:
        """Note that the last line of the trace is not whole."""
        self.unjudged.append(why)
        self._partly = True

    def feed(self, event: TraceEvent) -> None:
        """Judge an event, and write what is found."""
        self.events += 1
        for finding in self._checker.feed(event):
            self.write(finding)
        # Whatever comes next writes over this end of the report; where more waits already, that writes it.
        if self.live is not None and self.live.seq == event.seq:
            at, cut = self._out.tell(), copy.copy(self)
            cut._applied, cut._skipped = self._applied + self._checker.applied, {**self._checker.skipped}
            cut.unjudged = [*self.unjudged, "check was killed, or goes on still"]
            cut._sum_up()
            self._out.seek(at)

    def write(self, finding: Finding) -> None:
        """Write a finding, if it is one of those that are wanted."""
        args = self._args
        wanted = finding.level in _LEVELS[args.level] or (args.hints and finding.level == "HINT")
        same = _same(finding._asdict())
        wanted = wanted and finding.rule not in args.ignore and same not in self._known
        if not wanted or args.role not in (None, finding.blame or args.role):
            self._silenced.add(finding.rule)
            return
        self.found += finding.level != "HINT"
        if args.format == "json":
            self._out.write(json.dumps(finding._asdict() | ({"file": self._file} if self._several else {})) + "\n")
        elif args.format != "text":
            self._rows.setdefault(same, (finding, self._file))
        else:
            where = f"{self._file}:" if self._several else ""
            count, *places = self._equal.get(same, [0])
            self._equal[same] = [count + 1, *places, f"{where}{finding.seq}"][: 1 + _MAX_PLACES]
            if not count:
                self._out.write(escaped(f"{where}{finding}", "\n") + "\n")
        self._out.flush()

    def _finish(self) -> None:
        """Write what only the end of a trace shows, and add up what was looked at in it."""
        for finding in self._checker.end():
            self.write(finding)
        self._applied += self._checker.applied
        self._skipped |= self._checker.skipped
        spoken, where = self._checker.spoken, f"{self._file}: " if self._several else ""
        if not spoken:
            self.is_cut(f"{where}no message came that could be judged")
        elif spoken[""]:
            unknown = f"the revision of {spoken['']} of {spoken.total()} messages is unknown; --revision can name it"
            self.unjudged.append(where + unknown)

    def end(self) -> Exit:
        """Write what only the end shows, and say how much was looked at."""
        self._finish()
        if not (self._applied or self.unjudged):
            self.unjudged.append("no rule was asked of any message")
        self._sum_up()
        return self.code

    def _sum_up(self) -> None:
        applied, skipped, unjudged = self._applied, self._skipped, self.unjudged
        reasons = {reason: sorted(name for name in skipped if skipped[name] == reason) for reason in skipped.values()}
        asked, spoken = {rule for rule, _, _ in applied}, {sentence[:10] for _, sentence, _ in applied}
        rows = [
            {"sentence": each, "rule": name} | {role: applied[name, each, role] for role in _sides(each)}
            for name, rule in sentences()["rules"].items() for row in rule for each in row["ids"] if each[:10] in spoken
        ]  # fmt: skip
        covered: dict[str, dict[str, int]] = {}
        for revision in sorted(spoken):
            mine = [row for row in rows if row["sentence"].startswith(revision)]
            counts: dict[str, int] = {
                role: len({row["sentence"] for row in mine if row[role]}) for role in _sides(revision)
            }
            covered[revision] = {"sentences": len({row["sentence"] for row in mine}), **counts}
        if self._args.format == "json":
            said: JsonObject = {"events": self.events, "findings": self.found, "asked": len(asked), "skipped": reasons}
            said |= {"unjudged": unjudged}
            said |= {"applied": rows, "covered": covered} if self._args.coverage else {}
            self._out.write(json.dumps(said) + "\n")
        elif self._args.format != "text":
            self._out.write(self._document())
        else:
            self._out.writelines(
                f"{count} times: {rule}, {who}: at {escaped(', '.join([*places, '...'][:count]))}\n"
                for (_, rule, who, _), (count, *places) in self._equal.items() if count > 1
            )  # fmt: skip
            what = f"{self.found} finding{'s' * (self.found != 1)} in {self.events} events"
            what += f" of {len(self._args.files)} traces" if self._several else ""
            self._out.write(f"{what}; {len(asked)} rules were checked\n")
            self._out.writelines(f"not all was judged: {escaped(each)}\n" for each in unjudged)
            for reason, names in reasons.items():
                self._out.write(f"not decided, {reason} ({len(names)}): {', '.join(names)}\n")
            if self._args.coverage:
                self._out.write(" client  server" + "    view    host" * any("view" in row for row in rows) + "\n")
                self._out.writelines(f"{_counts(row)}  {row['sentence']}  {row['rule']}\n" for row in rows)
                self._out.writelines(
                    f"{_counts(each)}  of {each['sentences']} sentences of {revision} were checked\n"
                    for revision, each in covered.items()
                )
        self._out.flush()
        if self.live is not None:
            self._out.truncate()

    def _document(self) -> str:
        """Return JUnit or SARIF: each finding, each rule that was asked and silent, and what was not judged."""
        from mcp_ref.lab.testing.reports import Row, report, row_of

        asked: dict[tuple[str, str], tuple[str, ...]] = {}
        for rule, sentence, _ in self._applied:
            where = rule, sentence.partition("/")[0]
            asked[where] = (*asked.get(where, ()), *([sentence] if sentence not in asked.get(where, ()) else []))
        found = [row_of(finding, file) for finding, file in self._rows.values()]
        broken = {(row.name, row.revision) for row in found}
        rows = [Row("judged", "error", each) for each in self.unjudged] + found
        for (rule, revision), ids in sorted(asked.items()):
            # What was found and not reported is not a success.
            kind, says = ("skip", "not reported") if rule in self._silenced else ("pass", "asked, and silent")
            rows += [] if (rule, revision) in broken else [Row(rule, kind, says, ids, revision)]  # type: ignore[arg-type]
        for rule in sorted(sentences()["rules"].keys() - {rule for rule, _ in broken | asked.keys()}):
            rows.append(Row(rule, "skip", self._skipped.get(rule, "never asked")))
        return report(rows, "check", self._args.format)

    @property
    def code(self) -> Exit:
        strict = self._args.strict
        partly = Exit.UNJUDGED if self._partly or (strict and self.unjudged) else Exit.OK
        return Exit.PROTOCOL if strict and self.found else partly


def _sides(sentence: str) -> list[Role]:
    """Return who may be asked of a sentence, or of a revision; of apps, a host and the app, too."""
    return list(OTHER) if sentence.partition("/")[0] not in REVISIONS else ["client", "server"]


def _counts(row: Mapping[str, Any]) -> str:
    return " ".join(f"{row[role]:>7}" for role in OTHER if role in row)


def _same(finding: JsonObject) -> tuple[Any, ...]:
    """Return the key of equal findings; numbers, such as ids, do not make another fault of it."""
    expected = re.sub(r"\d+", "", finding["expected"])
    return expected, finding["rule"], finding["blame"] or "the checker", tuple(finding["ids"])


def _baseline(path: str) -> Iterator[tuple[Any, ...]]:
    """Yield the findings that an earlier `check --format json` has written."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        yield from (_same(row) for row in rows if "rule" in row)
    except OSError as problem:
        raise UsageError(str(problem)) from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"{path} is not what check --format json writes") from None
