"""Asking the rules: which of them hold for a message, in which order, and what is found.

Spec:      every page, in the revision that is spoken
Not here:  the rules (trace/rules), when they are asked (trace/check)

A message is looked at in stages: frame, order, shape, the type that the schema of the revision has, meaning. What is
found in one stage ends the look. What the revision spoken does not say is not asked; while that revision is unknown,
only what all revisions say.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final, NamedTuple

from mcp_ref.basic.tasks import CreateTaskResult
from mcp_ref.machinery.checking import SchemaMismatch, checker
from mcp_ref.messages import JsonObject
from mcp_ref.pages import METHODS
from mcp_ref.revisions import REVISIONS, STATELESS_REVISIONS, Revision
from mcp_ref.trace.record import TraceEvent
from mcp_ref.trace.rules import authorization, features, hints, http, messages, session, stateless, tasks
from mcp_ref.trace.rules.seen import FRAME, MEANING, RULES, SCHEMA, Kind, Link, Redacted, Role, Said, Verdict

# Each declares its rules when it is imported.
_FILES: Final = (messages, session, features, tasks, stateless, http, authorization, hints)
_METHODS: Final = METHODS.keys() | {method for declared in RULES.values() for method in declared.methods}


class Finding(NamedTuple):
    """One sentence, or several that say the same, that one message breaks.

    Attributes:
        seq: the number of the event.
        conn: the connection; None in files without such numbers.
        blame: whose fault it is; None: it is a fault of the checker, whose rule has failed.
        level: "MUST", "SHOULD" or, of a finding that time, taste or a race decides, "HINT".
        rule: its name, a function in trace/rules; or "schema".
        ids: the sentences in the revision spoken, as REVISION/PAGE#SECTION.N; or REVISION/schema#TYPE.
        says: the sentence in our words.
        expected: what would have been right.
        message: the message at fault, as it was recorded.
    """

    seq: int
    conn: int | None
    blame: Role | None
    level: str
    rule: str
    ids: tuple[str, ...]
    says: str
    expected: str
    message: Any

    def __str__(self) -> str:
        who = self.blame or "the checker"
        named = f"\n    {' '.join(self.ids)}" if self.ids else ""
        return f"{self.seq}: {self.level}, {who}: {self.says}\n    expected: {self.expected}{named}"


class Sentence(NamedTuple):
    """What a rule stands for in one revision."""

    level: str
    ids: tuple[str, ...]
    says: str


class Asked(NamedTuple):
    """A rule that is to be asked."""

    name: str
    function: Callable[..., Verdict]
    stage: int
    having: str | None = None


class Rulebook:
    """Asks the rules of what has come.

    Attributes:
        findings: what was found; the checker takes them away.
        skipped: the rules that were not asked of some message, with the reason.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.skipped: dict[str, str] = {}
        self._times: Counter[tuple[Kind, str, Role, str, bool]] = Counter()  # what `rules_for` was asked

    def judge(self, kind: Kind, link: Link, said: Said, revision: Revision | None = None) -> None:
        """Ask the rules of a message, in the revision that holds for it unless another is given."""
        broken = self.ask(kind, link, revision or said.revision, said.sender, said.about, said.event, said)
        said.faults |= broken

    def ask(
        self,
        kind: Kind,
        link: Link,
        revision: Revision | None,
        sender: Role,
        method: str,
        event: TraceEvent,
        *what: Any,
    ) -> set[str]:
        """Ask the rules of `what`, which they are given after the connection; gives the names of those it breaks."""
        named = (
            kind, method if method in _METHODS else "", sender, "" if revision is None else revision.name, link.http
        )  # fmt: skip
        self._times[named] += 1
        broken: set[str] = set()
        last = MEANING
        for name, function, stage, having in rules_for(*named):
            if broken and (stage > last or last == FRAME):
                break
            if having is not None and having not in what[0].body and having not in what[0].own_meta:
                continue
            try:
                verdict = function(link, *what)
            except Redacted:
                self.skipped[name] = "redacted"
            except Exception as problem:
                self.blame_checker(event, f"{type(problem).__name__}: {problem}", name)
            else:
                if verdict is not None:
                    culprit, expected = verdict if isinstance(verdict, tuple) else (what[0], verdict)
                    if self.found(name, culprit, expected, event, sender, revision, method) != "HINT":
                        broken.add(name)
                        last = stage
        return broken

    def found(
        self,
        name: str,
        what: Any,
        expected: str,
        event: TraceEvent,
        sender: Role,
        revision: Revision | None,
        method: str,
    ) -> str | None:
        """Add a finding; gives its level, or None if the revision does not say that after all."""
        message = event.message
        if isinstance(what, Said):
            event, sender, message, method = what.event, what.sender, what.message, what.about or method
            if what.method != "initialize":
                revision = what.revision or revision
            elif revision is not STATELESS_REVISIONS[-1]:
                # Of a version that nobody knows, every revision with an `initialize` says it.
                known = name == "schema" or str(what.params.get("protocolVersion")) in REVISIONS
                revision = what.revision if known else None
        if name == "schema":
            sentence: Sentence | None = _sentence_of_the_schema(what)
        else:
            sentence = sentence_of(name, str(revision or ""), method, event.transport.startswith("http"))
        if sentence is None:
            return None
        says = sentence.says
        if revision is None:
            says += " (Every revision that has it says so; which one is spoken is unknown.)"
        self.findings.append(
            Finding(event.seq, event.conn, sender, sentence.level, name, sentence.ids, says, expected, message)
        )
        if isinstance(what, Said) and sentence.level != "HINT":
            what.faults.add(name)
        return sentence.level

    def blame_checker(self, event: TraceEvent, problem: str, name: str) -> None:
        """Add a finding about the checker itself."""
        says = "A rule of the checker failed; this is a fault of mcp_ref and says nothing about either peer."
        self.findings.append(Finding(event.seq, event.conn, None, "FAULT", name, (), says, problem, event.message))

    def end(self) -> None:
        """Name the rules that were skipped because the revision was unknown."""
        kinds = {kind for kind, _, _, spoken, _ in self._times if not spoken}
        for name, declared in RULES.items():
            if declared.kind in kinds and not _is_everywhere(name):
                self.skipped.setdefault(name, "revision unknown")

    @property
    def applied(self) -> Counter[str]:
        """How often each rule was asked."""
        counts: Counter[str] = Counter()
        for named, times in self._times.items():
            counts.update({rule.name: times for rule in rules_for(*named) if rule.name != "schema"})
        return counts


@lru_cache(maxsize=10_000)
def rules_for(kind: Kind, method: str, sender: Role, revision: str, http: bool) -> tuple[Asked, ...]:
    """The rules to ask, by stage; where the revision is unknown, those that every revision has."""
    found = [] if (schema := _schema_rule(kind, method, revision)) is None else [schema]
    for name, declared in RULES.items():
        fits = declared.kind == kind and declared.sender in (None, sender)
        if fits and (not declared.methods or method in declared.methods):
            there = sentence_of(name, revision, method, http) is not None if revision else _is_everywhere(name)
            found += [Asked(name, declared.function, declared.stage, declared.having)] if there else []
    return tuple(sorted(found, key=lambda each: each.stage))


# -- sentences ----------------------------------------------------------------------------------------------------


@cache
def sentences() -> JsonObject:
    """What the notes say: rules with their sentences, by name; made by `python -m tests.trace.rules --write`."""
    text = resources.files("mcp_ref.trace").joinpath("sentences.json").read_text("utf-8")
    found: JsonObject = json.loads(text)
    return found


@lru_cache(maxsize=10_000)
def sentence_of(name: str, revision: str, method: str, http: bool) -> Sentence | None:
    """What a rule stands for; None if the revision does not say it, or not of such a message."""
    levels, ids, says = set(), [], ""
    for row in sentences()["rules"].get(name, ()):
        if method in row.get("methods", (method,)) and row.get("over") != ("stdio" if http else "http"):
            here = [each for each in row["ids"] if each.startswith(revision)]
            levels |= {row["level"]} if here else set()
            ids += here
            says = says or (row["says"] if here else "")
    level = next((each for each in ("HINT", "MUST", "SHOULD") if each in levels), None)
    return None if level is None else Sentence(level, tuple(sorted(ids)), says)


@cache
def _is_everywhere(name: str) -> bool:
    """Whether all revisions have a rule."""
    here = {each.partition("/")[0] for row in sentences()["rules"].get(name, ()) for each in row["ids"]}
    return here >= set(REVISIONS)


# -- the schema ---------------------------------------------------------------------------------------------------

_NEEDING_PARAMS: Final = frozenset({
    "initialize", "tools/call", "prompts/get", "resources/read", "resources/subscribe", "resources/unsubscribe",
    "completion/complete", "logging/setLevel", "sampling/createMessage", "elicitation/create", "notifications/progress",
    "notifications/message", "notifications/resources/updated", "subscriptions/listen",
})  # fmt: skip
"""What cannot come without params; of others `params` may be left out altogether."""


def _schema_rule(kind: Kind, method: str, revision: str) -> Asked | None:
    """A rule that compares params, or a result, with the type that the revision has."""
    row, spoken = METHODS.get(method), REVISIONS.get(revision)
    if kind not in ("request", "notification", "result") or row is None or spoken is None or not row.exists_in(spoken):
        return None
    wire = row.result if kind == "result" else row.params
    fits = None if wire is None else checker(wire, spoken)

    def schema(link: Link, said: Said) -> Verdict:
        if (said.request or said).faults or said.result.get("resultType") in ("input_required", "task"):
            return None
        task = link.tasks.get(str(said.request.params.get("taskId"))) if said.request is not None else None
        came = METHODS.get(task.request.method) if task is not None and task.request is not None else None
        try:
            if method == "tasks/result" and came is not None and came.result is not None:
                checker(came.result, spoken)(said.result, "result")
            elif _makes_a_task(said):
                checker(CreateTaskResult, spoken)(said.result, "result")
            elif fits is not None and kind == "result":
                fits(said.result, "result")
            elif fits is not None and ("params" in said.message or method in _NEEDING_PARAMS):
                fits(said.params, "params")
        except SchemaMismatch as problem:
            return str(problem)
        return None

    return Asked("schema", schema, SCHEMA)


def _makes_a_task(said: Said) -> bool:
    return "task" in said.result and said.request is not None and "task" in said.request.params


def _sentence_of_the_schema(said: Said) -> Sentence:
    row = METHODS[said.about]
    wire = row.params if said.method else CreateTaskResult if _makes_a_task(said) else row.result
    ids = (f"{said.revision}/schema#{getattr(wire, '__name__', said.about)}",)
    return Sentence("MUST", ids, f"{said.about} has the type that the schema of the revision gives it.")
