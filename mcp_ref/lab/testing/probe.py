"""Probe: drives a server through its duties, case by case, and says of each whether it does what the sentence says.

Not here:  what is sent and what has to come (lab/testing/cases.jsonl; lab/testing/cases, where that takes a function);
           one conversation (lab/testing/raw_talk); clients (lab/testing/probe_client); the command (lab/cli/probe)

Cases share a conversation as long as the server goes on: after each it is asked something harmless, and what it has
said until that answer is what the case caused. So silence is shown without waiting. A case that fails, or needs its
own, gets a new one; and where an answer may come and need not, what comes late must not meet the next case, so that
gets a new one, too. All traffic is judged by the checker, and each rule that was broken is a row of its own.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from itertools import groupby, product
from typing import Any, Final, NamedTuple

from mcp_ref import REVISIONS, SESSION_REVISIONS, STATELESS_REVISIONS, JsonObject, McpError, TransportClosed
from mcp_ref.facts import guarded_fetch
from mcp_ref.lab.judge.check import Checker
from mcp_ref.lab.judge.rulebook import Finding, sentences
from mcp_ref.lab.judge.rules.seen import Role
from mcp_ref.lab.testing.cases import FUNCTIONS, LISTS
from mcp_ref.lab.testing.raw_talk import Gone, NotApplicable, Options, Silent, Talk, Unmet, expect, fits, shown
from mcp_ref.lab.testing.reports import Row, Verdict, row_of
from mcp_ref.recording.record import Recorder, TraceEvent


class Case(NamedTuple):
    """One thing that a peer has to do.

    Attributes:
        name: such as "frames/not-json"; what stands before the slash is its group.
        role: whose duty it is.
        says: that duty, in a sentence.
        over: "stdio", "http" or "any".
        needs: what has to be there, see `Probe`.
        sentences: by the revision: the level, and the sentences.
        play: the steps, see `Probe.play`; or lab/testing/cases has a function; or there is the checker alone.
        rules: of the checker, which this case is about.
        provokes: rules of the checker that what the case sends makes a server break, rightly.
        wrong: rules of the checker that what the case sends breaks, on purpose.
    """

    name: str
    role: str
    says: str
    sentences: dict[str, list[str]]
    over: str = "any"
    needs: Sequence[str] = ()
    play: Sequence[JsonObject] = ()
    rules: Sequence[str] = ()
    provokes: Sequence[str] = ()
    wrong: Sequence[str] = ()

    def about(self, word: str) -> bool:
        """Return whether a word means it: its name, its group, a page or a sentence."""
        ids = [id for _, *ids in self.sentences.values() for id in ids]
        pages = [page for id in ids for page in (id, id.partition("#")[0], id.partition("#")[0].partition("/")[2])]
        return word in (self.name, self.name.partition("/")[0], *pages)


def cases(role: str, over: str = "", only: Sequence[str] = ()) -> list[Case]:
    """Return the cases for a "server" or a "client": those over one transport, and about a word, if such are given."""
    text = resources.files("mcp_ref.lab.testing").joinpath("cases.jsonl").read_text("utf-8")
    found = [case for line in text.splitlines() if (case := Case(**json.loads(line))).role == role]
    for case, (revision, before) in product(found, sentences()["unread"]):
        if before in case.sentences:
            case.sentences[revision] = [each.replace(before, revision) for each in case.sentences[before]]
    return [
        case
        for case in found
        if over in ("", case.over) or case.over == "any"
        if not only or any(map(case.about, only))
    ]


def row_of_case(case: Case, revision: str, attempt: Callable[[Case, str], None]) -> Row:
    """Return what comes of a case that is tried: Unmet and NotApplicable say it, anything else is a fault of the
    case.
    """
    began, (level, *ids) = time.monotonic(), case.sentences[revision]
    verdict: Any
    # What is shown by silence is asked twice: the machine may have been busy.
    for last in (False, True):
        verdict, says = "pass", ""
        try:
            attempt(case, revision)
        except NotApplicable as why:
            verdict, says = "skip", str(why)
        except (Unmet, TransportClosed) as why:
            if isinstance(why, Silent) and not last:
                continue
            verdict, says = "fail" if "MUST" in level else "warn", str(why)
        except Exception as why:  # the other cases go on
            verdict, says = "error", f"{type(why).__name__}: {why}"
        break
    return Row(case.name, verdict, says, tuple(ids), revision, seconds=time.monotonic() - began)


class Probe:
    """Runs cases against a server.

    Args:
        target: a command, or a URL.
        recorder: is shown the traffic, as it is; its events are to be given to `judge`.

    Attributes:
        spoken: the revisions that it was found to speak. chosen: the cases. marks: for `judge`.

    What a case can need: "fresh", a conversation that has not begun; "own", one that it may spoil; a capability that
    the server declares, such as "tools", or with "!" one that it does not; "sessions"; "calls", "reads", "slow" and
    "call", an option; "heavy", a command, this machine, or that option; "local", a URL of this machine; "stateless
    alone", a server without the session era.

    Blocks: `run` for the time limit of a case at most six times over, for each case.
    Threads: one at a time. `close` ends what is running; the threads of the talk end with their process.
    """

    def __init__(self, target: str | Sequence[str], options: Options, recorder: Recorder) -> None:
        self.target, self.options, self._recorder = target, options, recorder
        self.spoken: list[str] = []
        self._talk: Talk | None = None
        self.chosen = cases("server", "http" if isinstance(target, str) else "stdio", options.only)
        self.marks: list[Mark] = []
        self._gone = ""  # why no conversation begins any more

    def talk(self, revision: str) -> Talk:
        """Return a new conversation, which has not begun."""
        return Talk(self.target, revision, self._recorder, self.options)

    def find(self, wanted: Sequence[str] = ()) -> list[str]:
        """Return which revisions it speaks: of each era the newest, or which of those that are wanted.

        Raises: TransportClosed: none, and why.
        """
        why, silent = "", True
        for revision in wanted or (STATELESS_REVISIONS[-1].name, SESSION_REVISIONS[-1].name):
            try:
                self.open(revision)
                self.spoken.append(revision)
            except Unmet as problem:
                why, silent = str(problem), silent and isinstance(problem, Silent | Gone)
                # A server of the session era names another one that it speaks.
                other = self._talk.opening.get("protocolVersion") if self._talk else None
                if not wanted and any(other == each.name for each in SESSION_REVISIONS):
                    self.spoken.append(str(other))
            self.close()
        self._alone = not wanted and all(REVISIONS[each].era == "stateless" for each in self.spoken)
        if not self.spoken:
            speaks = f"it does not speak {' or '.join(wanted) or 'any revision'}"
            raise TransportClosed(f"{'no conversation begins' if silent else speaks}: {why}")
        return self.spoken

    def open(self, revision: str) -> Talk:
        """Return a new conversation, which has begun. Raises: Unmet."""
        self.close()
        self._talk = self.talk(revision)
        try:
            self._talk.open()
            # What it says to `notifications/initialized` is not the fault of a case; the checker has it.
            try:
                self._talk.goes_on()
            except Silent:
                # Who answers everything but a ping breaks that sentence alone.
                lists = [name for name in LISTS if name in self._talk.capabilities]
                if self.options.harmless != "ping" or not lists:
                    raise
                self.options = self._talk.options = self.options._replace(harmless=LISTS[lists[0]])
                self._talk.goes_on()
        except McpError as problem:
            raise Gone(str(problem)) from None
        return self._talk

    def _reopen(self, revision: str) -> None:
        """Open a conversation in a revision that the server has spoken; if it cannot be, twice, the server is gone."""
        for _ in range(2):
            try:
                self.open(revision)
                self._gone = ""
                return
            except (Unmet, TransportClosed) as why:
                self._gone = str(why)

    def close(self) -> None:
        """End the conversation."""
        if (talk := self._talk) is not None:
            self._talk = None
            talk.close()

    # -- running cases

    def run(self, revision: str, *, guarded: bool = False) -> Iterator[Row]:
        """Yield a row for each case of a revision, as it comes; of a guarded server those of authorization."""
        for case in () if self._gone else self.chosen:
            played = case.play or case.name in FUNCTIONS
            if not played or revision not in case.sentences or guarded and not case.name.startswith("auth/"):
                continue
            yield row_of_case(case, revision, self._try)
            if self._gone and not guarded:
                # The cases that are left say nothing about a server that is no longer there.
                yield Row("server/gone", "fail", f"no conversation begins any more: {self._gone}", (), revision)
                break
        self.close()

    def _try(self, case: Case, revision: str) -> None:
        """Play one case; raises Unmet, NotApplicable. What the case has spoilt by then is closed."""
        own, whole = {"fresh", "own"} & {*case.needs}, False
        if own:
            self.close()
        try:
            if "fresh" in case.needs:
                self._talk = self.talk(revision)
            elif self._talk is None or self._talk.revision != revision:
                self._reopen(revision)
            if self._gone:
                raise NotApplicable("the server is gone")
            talk = self._talk
            assert talk is not None
            talk.next_case()
            self.marks.append((self._recorder.seq, case))
            self._check(case.needs, talk)
            self.play(case, talk)
            whole = True
        except NotApplicable:
            whole = True
            raise
        except (Gone, TransportClosed):
            # The case may have ended more than its conversation.
            self._reopen(revision)
            raise
        finally:
            if own or not whole or (self._talk is not None and self._talk.allowed):
                self.close()

    def _check(self, needs: Sequence[str], talk: Talk) -> None:
        """Raise NotApplicable if a need is not met."""
        here = not isinstance(self.target, str) or guarded_fetch.is_loopback(self.target)
        met = self.options._asdict() | {"heavy": here or self.options.heavy, "local": here}
        met |= {"sessions": talk.over == "http" and talk.link.session, "stateless alone": self._alone}
        for need in needs:
            if need in _UNMET and not met[need]:
                raise NotApplicable(_UNMET[need])
            if need not in ("fresh", "own", *_UNMET) and not declares(talk.capabilities, need):
                without = need.startswith("!")
                raise NotApplicable(f"the server declares {need[1:]}" if without else f"the server has no {need}")

    def play(self, case: Case, talk: Talk) -> None:
        """Take the steps of a case, then see that the server goes on, and has said nothing that is not allowed.

        A step is an object; "in" limits it to "http", "stdio", "session", "stateless", or a capability, as in a need.
        The others:
            {"ask": METHOD, "params", "id", "meta", "beside", "headers", "answer": PATTERN}: a request, and its answer.
            {"send": MESSAGE, "headers"}, {"raw": TEXT}, {"bytes": TEXT of Latin-1}: anything, as it is.
            {"answer": PATTERN}: the next answer, or the one with the pattern's id, fits.
            {"may": PATTERN}: an answer that may come, and need not.
            {"opened": PATTERN}: the result of the opening fits.
            {"http": METHOD, "headers", "events"}: a request without a body.
            {"status": [...]}, {"type": [...]}: the status and the media type of the last response over HTTP.
        """
        era = "stateless" if talk.stateless else "session"
        if (function := FUNCTIONS.get(case.name)) is not None:
            function(talk)
        for step in talk.filled(case.play):
            where = step.get("in", era)
            if where not in (era, talk.over) and (where in _PLACES or not declares(talk.capabilities, where)):
                continue
            if "may" in step:
                talk.allowed.append(step["may"])
            else:
                _take(step, talk)
        if "fresh" in case.needs or talk.ended:
            return
        for message in talk.goes_on():
            answer = not isinstance(message, dict) or "method" not in message
            expect(not answer or fits(message, talk.allowed), f"it answers with {shown(message)}")


# -- what the checker says ----------------------------------------------------------------------------------------

Mark = tuple[int, Case | None]
"""From which event on which case was played; None: what a client does without any."""


def judge(
    rows: Sequence[Row],
    events: Sequence[TraceEvent],
    marks: Sequence[Mark],
    role: Role,
    spoken: Sequence[str],
    about: Sequence[Case],
) -> list[Row]:
    """Return the rows of the cases, one for each that is about rules alone, and one for each other rule that the peer
    broke.

    One fault has one row: what the checker finds by the sentence of a case that has failed already, or in such cases
    alone, stands in theirs.

    Args:
        rows: of the cases that were played.
        role: of the peer. spoken: the revisions that were spoken.
        about: the cases that were chosen.
    """
    findings, spoke = list[Finding](), Counter[str]()
    # In each case a client meets another server: what the one has shown does not bind the next.
    starts = [start for start, _ in marks] if role == "client" else []
    for _, part in groupby(events, lambda event: bisect_left(starts, event.seq)):
        checker = Checker(whole=True)
        findings += [*(each for event in part for each in checker.feed(event)), *checker.end()]
        spoke += checker.spoken
    broken: dict[tuple[str, str], Row] = {}
    seen: dict[tuple[str, str], dict[str, None]] = {}
    for finding in findings:
        case = next((each for start, each in reversed(marks) if start < finding.seq), None)
        own = finding.blame not in (role, None)
        known = () if case is None else case.wrong if own else case.provokes
        if finding.level == "HINT" or finding.rule in known:
            continue
        row = row_of(finding)
        if own:
            says = f"The probe did what it must not do: {row.says}"
            row = row._replace(name=f"probe/{row.name}", verdict="note", says=says)
        broken.setdefault((row.revision, row.name), row)
        seen.setdefault((row.revision, row.name), {})["opening" if case is None else case.name] = None
    judged = {(row.revision, row.name): row for row in rows}
    for revision in spoken:
        for case in about:
            if case.rules and revision in case.sentences and not (case.play or case.name in FUNCTIONS):
                verdict: Verdict = "pass" if spoke[revision] else "skip"
                judged[revision, case.name] = Row(case.name, verdict, "", tuple(case.sentences[revision][1:]), revision)
    for (revision, rule), row in broken.items():
        places = seen[revision, rule]
        homes = [case.name for case in about if rule in case.rules and (revision, case.name) in judged]
        if not homes and row.verdict != "note":
            homes = [name for name in places if (revision, name) in judged and judged[revision, name].faulty]
            same = [name for name in homes if {*judged[revision, name].ids} & {*row.ids}]
            homes = same or (homes if len(homes) == len(places) else [])
        row = row._replace(says=f"{row.says} Seen in {', '.join(places)}.")
        if homes:
            home = judged[revision, homes[0]]
            worse = next(verdict for verdict in ("error", "fail", "warn") if verdict in (home.verdict, row.verdict))
            says = f"{home.says} {row.name}: {row.says}".strip()
            row = home._replace(verdict=worse, says=says, ids=tuple(dict.fromkeys([*home.ids, *row.ids])))
        judged[revision, row.name] = row
    return [*judged.values()]


_PLACES: Final = ("http", "stdio", "session", "stateless")
_UNMET: Final = {
    "calls": "give --allow-calls", "reads": "give --allow-reads", "slow": "give --slow-tool", "call": "give --call",
    "heavy": "not on another machine without --heavy", "local": "the server is on another machine",
    "sessions": "the server has no sessions", "stateless alone": "the server speaks the session era too",
}  # fmt: skip
"""Needs that are not capabilities, and what is said of one that is not met."""


def declares(capabilities: JsonObject, name: str) -> bool:
    """Return whether capabilities have a name, such as "resources.subscribe"; with "!" before it, whether they lack
    it.
    """
    value: Any = capabilities
    for part in name.lstrip("!").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return (value in (None, False)) is name.startswith("!")


def _take(step: JsonObject, talk: Talk) -> None:
    """Take one step of a case, see `Probe.play`. Raises: Unmet."""
    headers = step.get("headers") or {}
    match step:
        case {"ask": method, "answer": pattern}:
            more = {name: step.get(name) for name in ("id", "meta", "beside")}
            answer = talk.ask(method, step.get("params"), **more, headers=headers)
            expect(fits(answer, pattern), f"{method} is answered with {shown(answer)}")
        case {"send": message}:
            if isinstance(message, dict) and {"id", "method"} <= message.keys() and message["method"] != "initialize":
                message |= talk.request(message["method"], message.get("params", {}), message["id"])
            talk.send(message, headers)
        case {"raw": text}:
            talk.send(text.encode(), headers)
        case {"bytes": text}:
            talk.send(text.encode("latin-1"), headers)
        case {"answer": pattern}:
            answer = talk.wait({"id": pattern["id"]} if "id" in pattern else [{"result": "*"}, {"error": "*"}])
            expect(fits(answer, pattern), f"it answers with {shown(answer)}")
        case {"opened": pattern}:
            expect(fits(talk.opening, pattern), f"it begins with {shown(talk.opening)}")
        case {"http": method}:
            talk.link.write(None, headers, method, step.get("events", 0))
        case {"type": kinds}:
            kind = talk.link.headers.get("content-type", "").partition(";")[0].strip().lower()
            expect(kind in kinds, f"Content-Type: {kind!r}")
        case _ if talk.over == "http":
            expect(talk.link.status in step["status"], f"HTTP {talk.link.status}")
