"""The work of the pytest plugin while a test runs: traffic that is judged, answers from a script, ways to a server.

Spec:      the whole: the checker has the sentences
Not here:  fixtures, markers and options (lab/testing/plugin), which load this when a test asks for it
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from mcp_ref import Client, Command, JsonObject, Server, Url, UserRejected, decline, reply
from mcp_ref.facts import Deadline, replace, shown_target
from mcp_ref.lab.judge.check import Checker
from mcp_ref.lab.judge.narrate import Narrator, narrate
from mcp_ref.lab.judge.rulebook import Finding, sentences
from mcp_ref.lab.testing.authorization_server import AuthorizationServer
from mcp_ref.lab.testing.replay import Replay
from mcp_ref.lab.testing.replay_http import ReplayService
from mcp_ref.recording.record import Recorder, TraceEvent, to_row, without_secrets

GRACE: Final = 5.0
"""Seconds in which threads end after the last client was closed, and in which the recorder hands over what it has."""
EXITS: Final = "server_exits_with_its_input"
"""The rule of a server that has to be ended by a signal; it is not the checker's, for it breaks no sentence."""
_MAX_LINES: Final = 40  # of the traffic, below a failure


class Unreachable(Exception):
    """A server that cannot be met as the test wants it; the text says why."""


class Traffic:
    """The traffic between a test's clients and their servers: recorded exactly, and judged as it happens.

    Args:
        allow: rules of the checker, ids of their sentences, or `EXITS`, that may be broken.

    Attributes:
        allowed: those of them that were broken.
        replays: recordings that answer in this test; what they were asked and do not hold is a problem.
        answers: the answers from a script, or None.
        passed: whether the test has ended, and well.
        warnings: after `close`, what it has found that fails nothing.

    Raises: ValueError, as `allow` does: no such rule.
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._allow, self.allowed = set[str](), set[str]()
        for rule in allow:
            self.allow(rule)
        self.warnings: list[str] = []
        self.replays: list[Replay] = []
        self.answers: Answers | None = None
        self.passed = False
        self._events: list[TraceEvent] = []
        self._found: list[Finding] = []
        self._checker = Checker()
        self._before = set(threading.enumerate())
        self._taken = threading.Condition()  # guards the events and the findings
        self.recorder = Recorder(self._take, exact=True)

    def _take(self, event: TraceEvent) -> None:
        with self._taken:
            self._events.append(event)
            self._found += self._checker.feed(event)
            self._taken.notify_all()

    @property
    def events(self) -> list[TraceEvent]:
        """All that was said until now. Blocks: until the recorder has handed it over."""
        with self._taken:
            seq = self.recorder.seq
            self._taken.wait_for(lambda: len(self._events) >= seq, GRACE)
            return list(self._events)

    @property
    def findings(self) -> list[Finding]:
        """Return the findings until now that are not allowed. Hints are left out."""
        _, wrong = self.events, []
        with self._taken:
            for found in self._found:
                allowed = self._allow & {found.rule, *found.ids}
                self.allowed |= allowed
                wrong += [] if allowed or found.level == "HINT" else [found]
        return wrong

    def allow(self, rule: str) -> None:
        """Let a rule, or the sentence of an id, be broken in this test. Raises: ValueError: no such rule."""
        known = {each for name, rows in sentences()["rules"].items() for row in rows for each in (name, *row["ids"])}
        if rule not in known | {EXITS, "schema"}:
            raise ValueError(f"allow: {rule!r} names neither a rule nor a sentence; mcp-ref check --list shows them")
        self._allow.add(rule)

    def narrate(self) -> str:
        """Return the traffic in words."""
        return "\n".join(narrate(self.events, Narrator(width=110)))

    def told(self) -> str:
        """Return the last lines of it, for below a failure."""
        return "\n".join(self.narrate().splitlines()[-_MAX_LINES:])

    def save(self, path: Path, *, exact: bool = False, forms: bool = False) -> None:
        """Write a trace, in one step."""
        events = self.events if exact else [without_secrets(each, forms=forms) for each in self.events]
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, (f"{to_row(each)}\n" for each in events))

    def surprises(self) -> list[str]:
        """Return the surprises of a test, and the probable cause if it has failed."""
        asked = self.answers.surprises if self.answers else []
        return [*asked, *(f"not in the recording: {each}" for replay in self.replays for each in replay.mismatches)]

    def close(self) -> list[str]:
        """Stop recording, after the last client was closed; returns what it has left behind. Blocks: 5 s at most."""
        self.recorder.close(GRACE)
        self._found += self._checker.end()
        ends = [(each.conn, each.end) for each in self._events if each.end is not None]
        signals = [end["signal"] for _, end in ends if "signal" in end]
        self.allowed |= self._allow & {EXITS for _ in signals}
        if EXITS not in self._allow:
            self.warnings = [f"{EXITS}: the server had to be ended by signal {number}" for number in signals]
        ended = {conn for conn, end in ends if "exit" in end}
        left = ["the process of a server is left" for conn, end in ends if "eof" in end and conn not in ended]
        deadline = Deadline(GRACE)
        stray = [each for each in set(threading.enumerate()) - self._before if each.name.startswith("mcp-")]
        for thread in stray:
            thread.join(deadline.left())
        names = sorted(thread.name for thread in stray if thread.is_alive())
        return left + [f"threads are left: {', '.join(names)}"] * bool(names)


class Answers:
    """A script of answers to a server's questions: each is given once, in the order of the script.

    Attributes:
        roots: folders, as `Client(roots=)` takes them.
        asked: the questions so far: ("elicit", message, schema), ("sample", params) or ("roots",).
    """

    def __init__(self) -> None:
        self.roots: list[Any] = []
        self.asked: list[tuple[Any, ...]] = []
        self.surprises: list[str] = []
        self._lock = threading.Lock()  # guards the three lists, and the script
        self._script: dict[str, list[Any]] = {"elicit": [], "sample": []}

    def elicit(self, *forms: Any) -> None:
        """Add answers to forms: values, `decline()`, `cancel()`, or functions of the message and the schema."""
        self._script["elicit"] += forms

    def sample(self, *texts: Any) -> None:
        """Add answers of the model: texts, what `reply` makes, or functions of the params."""
        self._script["sample"] += texts

    def unasked(self) -> list[str]:
        """Return the answers that are left, in words."""
        left = [(kind, each) for kind, script in self._script.items() for each in script]
        return [f"scripted, and never asked for: {kind}: {each!r}" for kind, each in left]

    def options(self) -> JsonObject:
        """Return the options of a `Client` that answers so."""
        return {
            "elicit": lambda message, schema: self._answer("elicit", decline(), message, schema),
            "sample": self._sample,
            "roots": self._list_roots,
        }

    def _sample(self, params: Any) -> Any:
        answer = self._answer("sample", UserRejected("no answer was scripted"), params)
        return reply(answer, model="scripted") if isinstance(answer, str) else answer

    def _list_roots(self) -> list[Any]:
        with self._lock:
            self.asked.append(("roots",))
        return self.roots

    def _answer(self, kind: str, otherwise: Any, *question: Any) -> Any:
        with self._lock:
            self.asked.append((kind, *question))
            if not self._script[kind]:
                self.surprises.append(f"the server asked what no answer was scripted for: {kind}: {question[0]!r:.200}")
                answer = otherwise
            else:
                answer = self._script[kind].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer(*question) if callable(answer) else answer


class Recorded(Replay):
    """A recorded server for the program under test; a client of the plugin may have it as its target.

    Args:
        stack: ends what this starts.
    """

    def __init__(self, trace: Path, stack: ExitStack, **options: Any) -> None:
        super().__init__(trace, **options)
        self._stack, self._url = stack, ""
        self.command = [sys.executable, "-m", "mcp_ref", "replay", str(trace)]

    @property
    def url(self) -> str:
        """Return where it answers over HTTP, from now on."""
        if not self._url:
            service = ReplayService(self)
            self._stack.callback(service.close)
            self._url = service.url
        return self._url


class Login:
    """A user's login at an `AuthorizationServer`: called, it returns an `OAuth` that logs in without a browser."""

    def __init__(self, server: AuthorizationServer, user: str) -> None:
        self.server, self.user = server, user
        self.revoke, self.expire = server.revoke, server.expire

    def __call__(self, **options: Any) -> Any:
        from mcp_ref import OAuth

        return OAuth("pytest", visit=self.server.sign_in(self.user), **options)


# -- the way to a server ------------------------------------------------------------------------------------------

_PLACES: Final[dict[int, tuple[Any, str, Path]]] = {}
"""The objects that were named as module:object, by id: each with its name, and the folder to import it from."""


def target_of(text: str, root: Path) -> Any:
    """Return the target of a text: a URL, module:object (imported from `root`), or a command. Raises: Unreachable."""
    if re.match(r"https?://", text, re.IGNORECASE):
        return text
    if not re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*", text):
        return shlex.split(text)
    module, _, name = text.partition(":")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as problem:
        raise Unreachable(f"{text} is not there: {problem}") from None
    _PLACES[id(found)] = found, text, root
    return found


def reached(target: Any, over: str | None, stack: ExitStack, *, strict: bool) -> Any:
    """Return the target for a client that goes over a transport; what that has to start ends with the stack.

    Args:
        strict: whether a target that has one transport alone must have this one.

    Raises: Unreachable: the target cannot be reached that way.
    """
    if over is None or (isinstance(target, Server | Replay) and over == "memory"):
        return target
    if isinstance(target, Server) and over in ("http", "sse"):
        service = stack.enter_context(target.serve_http(sse_path="/sse"))
        return service.sse_url if over == "sse" else service.url
    if isinstance(target, Server) and id(target) in _PLACES:
        _, text, root = _PLACES[id(target)]
        program = "import importlib as i; getattr(i.import_module({!r}), {!r}).run()".format(*text.split(":"))
        # It imports what the tests would import.
        path = {"PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])}
        return Command([sys.executable, "-c", program], env=path, cwd=root, inherit=True)
    known = Client(target).target
    fits = over == "http" if isinstance(known, Url) else over == "stdio" and isinstance(known, Command)
    if fits or (not strict and not isinstance(target, Server)):
        return target
    hint = "; name it as module:object" if isinstance(target, Server) else ""
    raise Unreachable(f"the server {shown_of(target)} cannot be met over {over}{hint}")


def shown_of(target: Any) -> str:
    """Return a target in a sentence."""
    return shown_target(Client(target).target)
