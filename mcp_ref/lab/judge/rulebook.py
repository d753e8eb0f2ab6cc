"""Asking the rules: which of them hold for a message, in which order, and what is found.

Spec:      every page, in the revision that is spoken
Not here:  the rules (lab/judge/rules), when they are asked (lab/judge/check)

A message is looked at in stages: frame, order, shape, the type that the schema of the revision has, meaning. What is
found in one stage ends the look. What the revision spoken does not say is not asked; while that revision is unknown,
only what all revisions say.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise, product
from typing import Any, Final, NamedTuple

from mcp_ref import REVISIONS, JsonObject, Refusal, Revision
from mcp_ref.facts import KINDS, METHODS, InputRequiredResult, SchemaMismatch, checker
from mcp_ref.facts import messages as wire_messages
from mcp_ref.lab.judge.explain import quoted
from mcp_ref.lab.judge.rules import (
    apps,
    authorization,
    features,
    hints,
    http,
    messages,
    session,
    skills,
    stateless,
    tasks,
)
from mcp_ref.lab.judge.rules.apps import View
from mcp_ref.lab.judge.rules.seen import (
    FRAME,
    RULES,
    SCHEMA,
    Declared,
    Exchange,
    Kind,
    Link,
    Redacted,
    Role,
    Said,
    Verdict,
)
from mcp_ref.recording.record import TraceEvent, as_text
from mcp_ref.recording.redact import redact_http

# Each declares its rules when it is imported.
_FILES: Final = (messages, session, features, tasks, skills, apps, stateless, http, authorization, hints)
_OF_MESSAGES: Final = ("request", "notification", "result", "error", "rejection")
_TASK: Final = METHODS["tools/call"].as_task
_METHODS: Final = METHODS.keys() | {method for declared in RULES.values() for method in declared.methods}


class Finding(NamedTuple):
    """One sentence, or several that say the same, that one message breaks.

    Attributes:
        seq: the number of the event.
        conn: the connection, as in `TraceEvent`.
        blame: whose fault it is; None: it is a fault of the checker, whose rule has failed.
        level: "MUST", "SHOULD" or, of a finding that time, taste or a race decides, "HINT".
        rule: its name, a function in lab/judge/rules; or "schema".
        ids: the sentences in the revision spoken, as REVISION/PAGE#SECTION.N; or REVISION/schema#TYPE.
        says: the sentence in our words.
        expected: what would have been right.
        message: the message at fault, as it was recorded.
        http: what HTTP has beside it, as in `TraceEvent`, without secrets.
        request: of a response, what it answers: "3: tools/call, id 1" or, over HTTP without a message, "3: POST".
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
    http: JsonObject | None = None
    request: str = ""

    def __str__(self) -> str:
        rows = {
            "rule": self.rule, "expected": self.expected, "because": _why_text(self.message), "answers": self.request,
            "says so": " ".join(self.ids), "HTTP": _cut(self.http), "message": _cut(self.message),
        }  # fmt: skip
        lines = [f"\n    {name + ':':<9} {text}" for name, text in rows.items() if text]
        return f"{self.seq}: {self.level}, {self.blame or 'the checker'}: {self.says}{''.join(lines)}"


def _cut(value: Any) -> str:
    text = "" if value is None else as_text(value, separators=(",", ":"))
    return text if len(text) <= 500 else text[:497] + "..."


def _why_text(message: Any) -> str:
    """Return why what came is recorded as text."""
    try:
        wire_messages.decode(message if isinstance(message, str) else "null")
    except Refusal as problem:
        return "a byte order mark (BOM) stands before it" if message.startswith("\ufeff") else problem.message
    return ""


class Sentence(NamedTuple):
    """The sentence for which a rule stands in one revision."""

    level: str
    ids: tuple[str, ...]
    says: str


class Place(NamedTuple):
    """The thing that is judged: an event, its sender, the revision, and the method that it is about."""

    event: TraceEvent
    sender: Role
    revision: Revision | None
    method: str = ""


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
        said.faults |= self.ask(kind, link, Place(said.event, said.sender, revision or said.revision, said.about), said)

    def ask(self, kind: Kind, link: Link | View, at: Place, *what: Any) -> set[str]:
        """Ask the rules of `what`, which they are given after the connection; gives the names of those it breaks."""
        named = (kind, at.method if at.method in _METHODS else "", at.sender, str(at.revision or ""), link.http)
        self._times[named] += 1
        broken: set[str] = set()
        last = FRAME
        for rule in rules_for(*named):
            if broken and (rule.stage > last or last == FRAME):
                break
            if rule.having is not None and rule.having not in what[0].body:
                continue
            try:
                verdict = rule.function(link, *what)
            except Redacted:
                self.skipped[rule.name] = "redacted"
            except Exception as problem:
                self.blame_checker(at.event, f"{type(problem).__name__}: {problem}", rule.name)
            else:
                if verdict is not None:
                    culprit, expected = verdict if isinstance(verdict, tuple) else (what[0], verdict)
                    if self.found(rule.name, culprit, expected, at) != "HINT":
                        broken.add(rule.name)
                        last = rule.stage
        return broken

    def found(self, name: str, what: Any, expected: str, at: Place) -> str | None:
        """Add a finding; gives its level, or None if the revision does not say that after all."""
        event, sender, revision, method = at
        message = event.message
        if isinstance(what, Said):
            event, sender, message, method = what.event, what.sender, what.message, what.about or method
            if what.method != "initialize":
                revision = what.revision or revision
            elif revision is None or revision.era == "session":
                # Of a version that nobody knows, every revision with an `initialize` says it.
                known = name == "schema" or str(what.params.get("protocolVersion")) in REVISIONS
                revision = what.revision if known else None
        if name == "schema":
            row = METHODS[what.about]
            result = InputRequiredResult if what.result.get("resultType") == "input_required" else row.result
            wire = row.params if what.method else _TASK if _makes_a_task(what) else result
            ids = (f"{what.revision}/schema#{getattr(wire, '__name__', what.about)}",)
            typed = f"{what.about} has the type that the schema of the revision gives it."
            sentence: Sentence | None = Sentence("MUST", ids, typed)
        else:
            sentence = sentence_of(name, str(revision or ""), method, event.transport.startswith("http"))
        if sentence is None:
            return None
        says = sentence.says
        if revision is None and not _of_an_edition(sentence.ids[0]):
            says += " (Every revision that has it says so; which one is spoken is unknown.)"
        answers = f"{what.seq}: {what.method}" if isinstance(what, Exchange) and what.seq != event.seq else ""
        if isinstance(what, Said) and what.request is not None:
            answers = f"{what.request.event.seq}: {what.request.method}, id {quoted(what.request.id)}"
        self.findings.append(
            Finding(event.seq, event.conn, sender, sentence.level, name, sentence.ids, says, expected, message,
                    event.http and redact_http(event.http), answers)
        )  # fmt: skip
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
    def applied(self) -> Counter[tuple[str, str, Role]]:
        """Return how often each rule was asked: by its name, a sentence in the revision spoken, and who has sent it."""
        counts: Counter[tuple[str, str, Role]] = Counter()
        for (asked, method, sender, spoken, by_http), times in self._times.items():
            # What is a message in a frame has passed these, by a quick look.
            kinds: tuple[Kind, ...] = (asked, "text", "frame") if asked in _OF_MESSAGES else (asked,)
            for kind in kinds:
                for rule in rules_for(kind, method, sender, spoken, by_http) if spoken or kind == "view" else ():
                    ids = [] if (found := sentence_of(rule.name, spoken, method, by_http)) is None else found.ids
                    counts.update({(rule.name, each, sender): times for each in ids})
        return counts


@lru_cache(maxsize=10_000)
def rules_for(kind: Kind, method: str, sender: Role, revision: str, http: bool) -> tuple[Declared, ...]:
    """Return the rules to ask, by stage; where the revision is unknown, those that every revision has."""
    found = [] if (schema := _schema_rule(kind, method, revision)) is None else [schema]
    for rule in RULES.values():
        fits = rule.kind == kind and rule.sender in (None, sender) and (not rule.methods or method in rule.methods)
        if fits and (sentence_of(rule.name, revision, method, http) if revision else _is_everywhere(rule.name)):
            found.append(rule)
    return tuple(sorted(found, key=lambda each: each.stage))


# -- sentences ----------------------------------------------------------------------------------------------------


@cache
def sentences() -> JsonObject:
    """Return the rules of the notes with their sentences, by name; made by `python -m tests.lab.judge.rules
    --write`.

    A revision that nobody has read yet, which stands in "unread" with the one before, says what that says.
    """
    text = resources.files("mcp_ref.lab.judge").joinpath("sentences.json").read_text("utf-8")
    found: JsonObject = json.loads(text)
    rows = [row for each in found["rules"].values() for row in each]
    read = {id.partition("/")[0] for row in rows for id in row["ids"]}
    found["unread"] = [(new, before) for before, new in pairwise(REVISIONS) if new not in read]
    for row, (new, before) in product(rows, found["unread"]):
        row["ids"] += [id.replace(before, new) for id in row["ids"] if id.startswith(before)]
    return found


@lru_cache(maxsize=10_000)
def sentence_of(name: str, revision: str, method: str, http: bool) -> Sentence | None:
    """Return the sentence that a rule stands for; None if the revision does not say it, or not of such a message."""
    levels, ids, says = set(), [], ""
    for row in sentences()["rules"].get(name, ()):
        if method in row.get("methods", (method,)) and row.get("over") != ("stdio" if http else "http"):
            here = [each for each in row["ids"] if each.startswith(revision) or _of_an_edition(each)]
            levels |= {row["level"]} if here else set()
            ids += here
            says = says or (row["says"] if here else "")
    level = next((each for each in ("HINT", "MUST", "SHOULD") if each in levels), None)
    return None if level is None else Sentence(level, tuple(sorted(ids)), says)


@cache
def _is_everywhere(name: str) -> bool:
    """Return whether all revisions have a rule, or it is of an extension that counts its own editions."""
    ids = [each for row in sentences()["rules"].get(name, ()) for each in row["ids"]]
    return {each.partition("/")[0] for each in ids} >= set(REVISIONS) or all(map(_of_an_edition, ids))


def _of_an_edition(sentence: str) -> bool:
    """Return whether a sentence is of an edition of an extension, which holds in whatever revision is spoken."""
    return sentence.partition("/")[0] not in REVISIONS


# -- the schema ---------------------------------------------------------------------------------------------------


def _schema_rule(kind: Kind, method: str, revision: str) -> Declared | None:
    """Return a rule that compares params, or a result, with the type that the revision has."""
    row, spoken = METHODS.get(method), REVISIONS.get(revision)
    judged = kind in ("request", "notification", "result", "asking", "retry")
    if not judged or row is None or spoken is None or not row.exists_in(spoken):
        return None
    wire = row.result if kind == "result" else InputRequiredResult if kind == "asking" else row.params

    def schema(link: Link, said: Said) -> Verdict:
        other = kind == "result" and said.result.get("resultType") in ("input_required", "task")
        if (said.request or said).faults or other:
            return None
        task = link.tasks.get(str(said.request.params.get("taskId"))) if said.request is not None else None
        came = METHODS.get(task.request.method) if task is not None and task.request is not None else None
        # Params that are left out are as good as empty ones: what must be there is missing in either.
        typed = [] if wire is None else [(wire, said.body, "params" if said.method else "result")]
        if kind == "retry":
            typed = [(question.result, answer, "params.inputResponses") for asks, question in KINDS.items()
                     for _, answer in stateless.answers(link, said, asks)]  # fmt: skip
        elif method == "tasks/result" and came is not None and came.result is not None:
            typed = [(came.result, said.result, "result")]
        elif _makes_a_task(said):
            typed = [(_TASK, said.result, "result")]
        try:
            for each, value, where in typed:
                checker(each, spoken, judged)(value, where)
        except SchemaMismatch as problem:
            return str(problem)
        return None

    return Declared("schema", schema, kind, frozenset({method}), None, SCHEMA, None)


def _makes_a_task(said: Said) -> bool:
    return "task" in said.result and said.request is not None and "task" in said.request.params
