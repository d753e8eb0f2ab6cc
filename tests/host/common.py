"""Shared by tests: what the tests of the host share."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from mcp_ref import Answer, Consent, Question, Rule, Server
from mcp_ref.client.entries import Entry
from mcp_ref.client.targets import Command

PATIENCE = 30.0
FREE = [Rule("allow", kind) for kind in ("start", "tool", "model", "sampling", "answer", "roots", "definition")]


def hostile(name: str, manner: str, *more: str, **about: Any) -> Entry:
    """An entry for the server of bad manners."""
    target = Command([sys.executable, "-m", "tests.host.hostile", manner, *more], grace=0.2)
    return Entry(name, target, **{"revision": "2025-11-25", **about})


def free(**options: Any) -> Consent:
    """Everything is allowed that a rule can allow."""
    return Consent(FREE, **{"keep": False, **options})


def server(name: str = "s", **tools: Any) -> Server:
    """A server of these tools, or of one that says hello."""
    made = Server(name)
    for each, function in (tools or {"hello": lambda: "hello"}).items():
        made.tool(each)(function)
    return made


class User:
    """Answers questions, and remembers them."""

    def __init__(self, *answers: Answer | bool | Callable[[Question], Answer | bool]) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer | bool:
        self.asked.append(question)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(question) if callable(answer) else answer

    @property
    def kinds(self) -> list[str]:
        return [question.kind for question in self.asked]


class Heard:
    """The events that a host tells; `wait` for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.events: list[tuple[str, str, str]] = []

    def __call__(self, server: str, what: str, said: str) -> None:
        with self._changed:
            self.events.append((server, what, said))
            self._changed.notify_all()

    def wait(self, server: str, what: str, said: str) -> str:
        """Until the server has told something that begins so."""
        with self._changed:
            found: list[str] = []

            def fits() -> bool:
                found[:] = [e[2] for e in self.events if e[:2] == (server, what) and e[2].startswith(said)]
                return bool(found)

            assert self._changed.wait_for(fits, PATIENCE), self.events
            return found[0]
