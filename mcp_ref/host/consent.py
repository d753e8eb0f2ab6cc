"""Consent: the one door through which a host lets things pass.

Spec:      architecture, "Host"; index, "Security and Trust & Safety"; server/tools#user-interaction-model,
           client/sampling#user-interaction-model, client/elicitation#user-interaction-model,
           client/roots#implementation-guidelines
Upholds:   spec_notes/architecture.md
Not here:  what is asked about, and what becomes of a refusal (host/host); where decisions are kept
           (host/json_file)

    kind         subject       before
    start        server        a process is started, or a server connected to
    definition   server/tool   a tool whose definition has changed is used; server: its instructions are passed on
    tool         server/tool   a tool is called
    model        URL           anything goes to the model, once a run
    sampling     server        a server's prompt goes to the model; the user may edit it
    answer       server        the model's answer goes to the server; the user may edit it
    form, url    server        a form is shown, a page is opened; the answer is the user's own, and no rule gives it
    again        server        a call is sent again after a page that it required was visited; the user's own as well
    message      server        a view's message joins the conversation; the user's own as well
    skill        server/path   a skill is loaded
    run          server/path   a tool is called that runs on this machine, while that skill is loaded; the user's own
    roots        server        folders are told to a server

Rules come first: of those that match, deny counts before ask before allow, whatever their order. Where no rule matches,
what the user decided earlier counts, if what it was about is still the same. Else the user is asked; and where nobody
is there to be asked, what would be asked is denied.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from mcp_ref.client.entries import matches
from mcp_ref.errors import McpError
from mcp_ref.host.json_file import KeptObject, append_line, user_folder
from mcp_ref.host.pins import Pins
from mcp_ref.kit.process.standard_streams import escaped
from mcp_ref.kit.threads.deadline import Cancel, Deadline
from mcp_ref.kit.threads.one_at_a_time import Turns
from mcp_ref.recording.redact import redact
from mcp_ref.wire.messages import JsonObject

KINDS: Final = {
    "start": "start, or connect to, the server",
    "definition": "use a new or changed definition",
    "tool": "call the tool",
    "model": "send what you say, and what you attach, to the model",
    "sampling": "send this prompt of the server to the model",
    "answer": "send this answer of the model to the server",
    "form": "answer this form of the server",
    "url": "open this page for the server",
    "again": "have you finished there, and should the call be sent again to",
    "roots": "tell the server these folders",
    "skill": "load into the model's context, as the server's words, the skill",
    "message": "say in the conversation, as your words, this message of an app of",
    "run": "call tools that run on this machine, while it follows the skill",
}
# No rule answers for the user, and no answer is remembered.
_THE_USERS_OWN: Final = ("form", "url", "again", "run", "message")
_SAID: Final = {"tool": "definition", "url": "message", "skill": "files"}  # what is said of what is to be allowed
_MAX_LINE: Final = 160
_MAX_RULINGS: Final = 10_000


class Rule(NamedTuple):
    """A rule of three words, such as `Rule("allow", "tool", "files/read_*")`.

    Attributes:
        decision: what holds where it matches.
        kind: of the question.
        pattern: of the whole subject, in which `*` stands for any text.
    """

    decision: Literal["allow", "ask", "deny"]
    kind: str
    pattern: str = "*"


class Answer(NamedTuple):
    """A user's answer to a question.

    Attributes:
        allow: whether it may be.
        remember: "once"; for this "run"; or "always", for as long as what was shown stays the same.
        value: what the user made of it: the values of a form, the prompt or the answer as edited.
        all: remember it for all tools of the server, as they are now.
    """

    allow: bool
    remember: Literal["once", "run", "always"] = "once"
    value: Any = None
    all: bool = False


class Decision(NamedTuple):
    """A decision, and who made it: "rule", "remembered", "user", "nobody", "time-out", "withdrawn" or "failed"."""

    allowed: bool
    by: str
    value: Any = None


class ConsentRefused(McpError):
    """It was not allowed; `kind` and `subject` say what, and `by` who decided (see `Decision`)."""

    def __init__(self, kind: str, subject: str, by: str) -> None:
        refused = "the user refused" if by == "user" else f"consent was refused ({by})"
        super().__init__(f"{refused}: {KINDS[kind]} {subject}")
        self.kind, self.subject, self.by = kind, subject, by


@dataclass(slots=True)
class Question:
    """A question that somebody has to decide.

    Attributes:
        kind, subject: see the module; server: the name in the configuration, "" for the model.
        bound: what tells the server from another of the same name: the fingerprint of how it is started.
        fingerprint: of what is shown; what is remembered is bound to it.
        shown: what it is about, in full: JSON, with texts of the server as they came; what is to be allowed comes last.
        warnings: what stands out in it.
        alike: gives the subjects that `Answer.all` is for, with their fingerprints first.
        origin: who asks for a call of a tool: "model", "user", or what else the user is told.
        withdrawn: used when the answer is no longer needed; attach a callback to end a prompt.
    """

    kind: str
    server: str
    subject: str
    bound: str
    fingerprint: str
    shown: JsonObject
    warnings: Iterable[str] = ()
    alike: Callable[[], Iterable[tuple[str, str, Any]]] = tuple
    origin: str = "model"
    withdrawn: Cancel = field(default_factory=Cancel)

    def lines(self, *, whole: bool = False) -> list[str]:
        """Return the question for a terminal, escaped; what is not the host's own words is set off by `|`.

        However much a server says about a tool or a page, it pushes nothing off the screen: one line of that comes
        first, or with `whole` all of it; then what is to be allowed, in full, and the warnings.
        """
        rest, name = dict(self.shown), "" if whole else _SAID.get(self.kind, "")
        said = rest.pop(name, "")
        said = said.get("description") if isinstance(said, dict) else said
        head = f"{self.server or 'the model'}: {KINDS[self.kind]} {self.subject}?"
        head += "" if self.origin in ("model", "user") else f" {self.origin} asks for it"
        # SHOULD: show the user the inputs of a tool before the call, all of them (server/tools#security-considerations)
        given = json.dumps(rest, indent=2, ensure_ascii=False, default=str).split("\n")
        lines = [*([_cut(f"  | {name}: {said}")] if said else ()), *(f"  | {escaped(line)}" for line in given)]
        # What is long has scrolled the head away.
        again = [escaped(head)] if len(lines) > 12 else []
        return [escaped(head), *lines, *(_cut(f"  ! {warning}") for warning in self.warnings), *again]


def _cut(line: str) -> str:
    return line if len(line := escaped(line)) <= _MAX_LINE else f"{line[:_MAX_LINE]}..."


class Consent:
    """Decides, by rules, by what the user decided earlier, and by asking.

    Args:
        rules: see `Rule`; `add` and `remove` change them later.
        ask: `ask(question)` shows it to the user and returns an `Answer`, or True or False for this once. It runs in a
            thread of its own, `mcp-host-ask`, one question at a time. None: nobody is there.
        keep: where decisions for always, and pins, are kept: True: in a folder of the user's own; a path; False:
            nowhere, beyond this run.
        audit: a path to append JSON Lines to, or a callable that is given each row: who decided what, and how it went.
            Secrets are taken out of arguments; contents are never in it.
        timeout: seconds for the user to answer; then it is denied.

    Threads: any.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        ask: Callable[[Question], Answer | bool] | None = None,
        keep: bool | str | os.PathLike[str] = True,
        audit: str | os.PathLike[str] | Callable[[JsonObject], None] | None = None,
        timeout: float | None = 300,
    ) -> None:
        folder = user_folder() if keep is True else Path(keep).expanduser() if keep else None
        self.ask, self.timeout = ask, timeout
        self.rules: list[Rule] = []
        self._rulings: dict[tuple[str, str], str | None] = {}
        for rule in rules:
            self.add(rule)
        self._kept = KeptObject(folder and folder / "consent.json", str)
        self.pins = Pins(folder and folder / "pins.json")
        self._run: dict[str, str] = {}  # what was decided for this run
        if audit is not None and not callable(audit):
            audit = partial(append_line, audit)
        self._audit = audit
        self._turns = Turns("mcp-host-ask")

    # -- rules

    def add(self, rule: Rule) -> None:
        """Add a rule. Raises: ValueError: it can match nothing."""
        if rule.kind not in KINDS or rule.decision not in ("allow", "ask", "deny"):
            raise ValueError(f"a rule is allow, ask or deny; one of {', '.join(KINDS)}; and a pattern, not {rule!r}")
        self.rules, self._rulings = [*self.rules, rule], {}

    def remove(self, rule: Rule) -> None:
        """Take a rule out; nothing happens if it is not there."""
        self.rules, self._rulings = [each for each in self.rules if each != rule], {}

    def ruling(self, kind: str, subject: str) -> str | None:
        """Return what the rules say: "deny" before "ask" before "allow"; None: no rule matches."""
        key, rulings = (kind, subject), self._rulings
        if key not in rulings:
            if len(rulings) > _MAX_RULINGS:
                rulings.clear()
            found = {rule.decision for rule in self.rules if rule.kind == kind and matches(rule.pattern, subject)}
            rulings[key] = next((word for word in ("deny", "ask", "allow") if word in found), None)
        return rulings[key]

    # -- deciding

    def decide(self, question: Question) -> Decision:
        """Decide a question. Blocks: as long as the user thinks, at most `timeout` seconds; a rule takes no time."""
        ruling, kind = self.ruling(question.kind, question.subject), question.kind
        key = f"{kind} {question.bound[:16]} {question.subject}"
        if ruling == "deny":
            decision = Decision(False, "rule")
        elif ruling == "allow" and kind not in _THE_USERS_OWN:
            decision = Decision(True, "rule")
        elif question.origin == "user":
            decision = Decision(True, "user")
        elif ruling is None and question.fingerprint in (self._run.get(key), self._kept.values.get(key)):
            decision = Decision(True, "remembered")
        elif self.ask is None:
            decision = Decision(False, "nobody")
        else:
            decision = self._ask(question, self.ask)
        self._write(question, {"decision": "allow" if decision.allowed else "deny", "by": decision.by})
        return decision

    def _ask(self, question: Question, ask: Callable[[Question], Answer | bool]) -> Decision:
        answer, problem = self._turns.take(partial(ask, question), question.withdrawn, self.timeout)
        if problem is not None:
            return Decision(False, problem)
        # Nothing but True is a yes; with anything else nothing is remembered, and nothing goes out.
        if not isinstance(answer, Answer) or answer.allow is not True:
            answer = Answer(answer is True)
        if answer.allow and answer.remember != "once" and question.kind not in _THE_USERS_OWN:
            subjects = [(question.subject, question.fingerprint, None), *(question.alike() if answer.all else ())]
            for subject, now, _ in subjects:
                key = f"{question.kind} {question.bound[:16]} {subject}"
                self._run[key] = now
                if answer.remember == "always":
                    self._kept.put(key, now)
        return Decision(answer.allow, "user", answer.value)

    def remembered(self) -> list[str]:
        """Return what was decided for this run or for always, as "kind fingerprint subject"."""
        return sorted({*self._run, *self._kept.values})

    def forget(self, pattern: str) -> int:
        """Forget what was decided about the subjects that a pattern fits; how many decisions that were."""
        keys = [key for key in self.remembered() if matches(pattern, key.split(" ", 2)[2])]
        for key in keys:
            self._run.pop(key, None)
            self._kept.put(key, None)
        return len(keys)

    def revoke(self, kind: str, bound: str, subject: str, *, unless: str) -> None:
        """Forget what was decided about a subject, unless it is bound to that fingerprint."""
        key = f"{kind} {bound[:16]} {subject}"
        if {self._run.get(key, unless), self._kept.values.get(key, unless)} != {unless}:
            self._run.pop(key, None)
            self._kept.put(key, None)

    # -- what is written down

    def note(self, question: Question, outcome: str, began: float, arguments: Any) -> None:
        """Write down how a call of a tool went; `began` by `time.monotonic`."""
        if self._audit is not None:
            took = round((time.monotonic() - began) * 1000, 1)
            self._write(question, {"outcome": outcome, "milliseconds": took, "arguments": redact(arguments)})

    def _write(self, of: Question, more: JsonObject) -> None:
        about = {"server": of.server, "kind": of.kind, "subject": of.subject, "fingerprint": of.fingerprint[:16]}
        about |= {} if of.origin == "model" else {"origin": of.origin}
        if self._audit is not None:
            self._audit({"time": round(time.time(), 3), **about, **more})

    def close(self, deadline: Deadline) -> None:
        """Withdraw every open question: whoever waits for it gets a denial. It may be used again afterwards.

        The thread `mcp-host-ask` finds a sentinel; one whose `ask` does not return is left behind.
        """
        self._turns.close(deadline)
