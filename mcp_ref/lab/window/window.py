"""A host with a face: what servers offer, calls, their apps, their questions, and the traffic with what is wrong in it.

Spec:      architecture, "Host"; server/tools#user-interaction-model; specification/2026-01-26/apps#sandbox-proxy
Upholds:   spec_notes/extensions/apps.md, the rows on the sandbox
Not here:  what may pass (host/consent); the conversation with an app (host/apps); the page itself, its style and its
           script (page.html)

    browser   POST /act       what the user does; its answer is what is wrong with that, or nothing         Window.do
    browser   GET /events     everything that happens, as an event stream                                   Window.tell
    browser   GET /           the page, with a policy that lets nothing in but its own style and script
    frame     GET /KEY        at another port, and so of another origin: the sandbox of one app, with its policy, which
                              the document that is put into it inherits

Every request for what happens needs the token of this start, in a header; it stands in the fragment of the address,
which no browser sends. One user, 127.0.0.1 alone.

    a thread mcp-window   waits for                  ended by
    of a start            the servers that start     their start; `Host.close`
    of a call             its answer                 the answer, its time limit, Cancel, `Host.close`
    of a view             a message for the app      the end of the view
    of the lists          a change of the servers    the end of the window
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Final

from mcp_ref import (
    APPS,
    REVISIONS,
    Answer,
    AppCall,
    AppView,
    Cancel,
    Consent,
    Entry,
    Host,
    HttpLimits,
    HttpRefusal,
    HttpRequest,
    JsonObject,
    McpError,
    Question,
    Rule,
    find_revision,
    prompt_ref,
    resource_ref,
    text,
)
from mcp_ref.facts import HttpReply, HttpServer, content_problem
from mcp_ref.lab.judge.check import Checker
from mcp_ref.lab.judge.compare import compare, explained
from mcp_ref.lab.judge.narrate import Narrator, code_of
from mcp_ref.lab.judge.rules.seen import POST_MESSAGE, as_object
from mcp_ref.recording.record import TraceEvent, as_text

MAX_KEPT: Final = 5_000
"""Events that are told to a page that is opened again."""
MAX_WAITING: Final = 20_000
"""Events that wait for a page that does not read; then its stream ends, and the page asks for it again."""
MAX_BYTES: Final = 64 << 20
"""Bytes of the events that are kept, and of those that wait for one page."""
MAX_APPS: Final = 8
"""Apps that are open at once, and results that are kept to open one; then the oldest goes."""
MAX_SHOWN: Final = 200_000
"""Characters of a message, or of a result, that the page gets."""
MAX_CALLS: Final = 32
"""Calls at once."""
_COMPLETE: Final = 5.0  # seconds for the values that an argument could have
_ALIVE: Final = 10.0  # seconds without an event after which a stream says that it is there
_LISTS: Final = ("tools", "prompts", "resources", "resource_templates")
_PLAIN: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_NO_PERMISSIONS: Final = "camera=(), microphone=(), geolocation=(), clipboard-read=(), clipboard-write=()"

_HERE: Final = resources.files("mcp_ref.lab.window")
SANDBOX: Final = _HERE.joinpath("sandbox.html").read_text("utf-8")
"""The sandbox proxy: it holds the document in a frame without an origin, and passes messages on in both directions."""


class Window:
    """The host, the server of the page, and the server of the sandboxes.

    Args:
        entries: the servers. allowed: the names of those that are started unasked, since the user has typed them.
        port: of the page; 0 takes a free one.

    Attributes:
        address: of the page, with the token behind `#`.

    Raises: OSError: it cannot listen there.
    Threads: any.
    """

    def __init__(self, entries: list[Entry], allowed: list[str], port: int = 0) -> None:
        self._token = secrets.token_urlsafe(24)
        self._lock = threading.Lock()  # guards the fields below
        self._numbers, self._told, self._size = count(1), deque[tuple[int, bytes]](), 0
        self._pages: list[_Lines] = []
        self._calls: dict[str, Cancel] = {}
        self._results: dict[str, AppCall] = {}  # what can be opened as an app
        self._questions: dict[int, tuple[Question, SimpleQueue[JsonObject | None]]] = {}
        self._views: dict[str, AppView] = {}  # by their keys, which nobody can guess
        self._lists: dict[str, list[JsonObject]] = {name: [] for name in _LISTS}
        self._closed, self._changed = False, threading.Event()
        self._began = time.time()
        html = _HERE.joinpath("page.html").read_text("utf-8")
        style, script = (re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)[0] for tag in ("style", "script"))
        limits = HttpLimits(connections=200, connections_per_client=200, read=3_600)
        self._sandboxes = HttpServer({"*": self._sandbox}, limits=limits)
        # A name of its own beside a port of its own: it is not even of the same site.
        self._sandbox_origin = f"http://localhost:{self._sandboxes.address[1]}"
        endpoints = {"/": self._page, "/act": self._act, "/events": self._events}
        try:
            self._server = HttpServer(endpoints, port=port, limits=limits)
        except OSError:
            self._sandboxes.close()
            raise
        self._origin = f"http://127.0.0.1:{self._server.address[1]}"
        self._html = html.encode()
        self._policy = (
            f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; connect-src 'self'; "
            f"img-src data:; media-src data:; frame-src {self._sandbox_origin}; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        )
        self.address = f"{self._origin}/#{self._token}"
        # The user is the model, so what they have typed needs no question of its own.
        rules = [Rule("allow", "model"), Rule("allow", "answer"), *(Rule("allow", "start", name) for name in allowed)]
        self.consent = Consent(rules, ask=self._ask, keep=False)
        self.host = Host(
            entries, consent=self.consent, model=self, extensions=[APPS], tasks=True, on_event=self._heard,
            trace=self._trace,
        )  # fmt: skip

    def start(self) -> None:
        """Serve the page, and start the servers beside that."""
        self._server.start()
        self._sandboxes.start()
        self._begin(self.host.start)
        self._begin(self._follow)

    def close(self) -> None:
        """End everything. Blocks: for a few seconds at most. Each thread ends as the table above says."""
        with self._lock:
            self._closed, pages = True, list(self._pages)
        self._changed.set()
        self.host.close()  # withdraws the open questions, and ends calls and views
        for each in pages:
            each.put(None)
        self._server.close()
        self._sandboxes.close()

    def _begin(self, job: Callable[[], object]) -> None:
        # Daemon: each waits for what `close` ends.
        threading.Thread(target=job, name="mcp-window", daemon=True).start()

    # -- what the page is told

    def tell(self, what: str, about: JsonObject, *, keep: bool = True) -> None:
        """Tell every page that is open, and with `keep` those that are opened later."""
        text = json.dumps(about, default=repr, separators=(",", ":"))
        with self._lock:
            number = next(self._numbers)
            line = f"id: {number}\nevent: {what}\ndata: {text}\n\n".encode()
            if keep:
                self._told.append((number, line))
                self._size += len(line)
                while len(self._told) > MAX_KEPT or self._size > MAX_BYTES:
                    self._size -= len(self._told.popleft()[1])
            for each in list(self._pages):
                if not each.add(line):
                    self._pages.remove(each)
                    each.put(None)

    def _trace(self, name: str) -> Callable[[TraceEvent], None]:
        """Return what takes the traffic with a server, and tells it in words, with what is wrong in it."""
        narrator, checker = Narrator(), Checker()

        def tell(event: TraceEvent) -> None:
            who, told = narrator.told(event)
            message = as_object(event.message)
            lane = f"{name} app" if event.transport == POST_MESSAGE else name
            self.tell("traffic", {
                "lane": lane, "seq": event.seq, "at": event.time - self._began, "who": who, "head": told.head[:300],
                "lines": [line[:1_000] for line in told.lines[:40]], "page": told.page, "failed": told.failed,
                "method": str(message.get("method", "")), "message": shown(event.message),
                "partner": told.request.event.seq if told.request else None, "code": code_of(told.page),
            })  # fmt: skip
            for finding in checker.feed(event):
                self.tell("finding", {
                    "lane": lane, "seq": finding.seq, "level": finding.level, "blame": finding.blame,
                    "says": finding.says, "expected": finding.expected, "ids": finding.ids,
                })  # fmt: skip

        return tell

    def _heard(self, server: str, what: str, said: str) -> None:
        self.tell("heard", {"server": server, "what": what, "said": said[:2_000]})
        if what in ("state", "changed"):
            self._changed.set()

    def _follow(self) -> None:
        """Tell the pages how the servers are, and what they offer, whenever that has changed."""
        while self._changed.wait() and not self._closed:
            self._changed.clear()
            self.tell("state", self._state(), keep=False)
            with suppress(McpError):
                lists = {
                    name: [
                        {"name": row.name, "server": row.server, "state": row.state, "definition": row.definition}
                        for row in getattr(self.host, name)()
                    ]
                    for name in _LISTS
                }
                with self._lock:
                    self._lists = lists
                self.tell("state", self._state(), keep=False)

    def _state(self) -> JsonObject:
        servers = []
        for name, hosted in self.host.servers.items():
            client = hosted.client
            about: JsonObject = {"name": name, "state": hosted.state, "problem": hosted.problem, "shown": hosted.shown}
            if client is not None:
                about |= {
                    "revision": client.revision.name, "info": client.server_info,
                    "capabilities": client.server_capabilities, "instructions": client.instructions,
                }  # fmt: skip
            servers.append(about)
        with self._lock:
            return {"servers": servers, "revisions": [*REVISIONS], "sandbox": self._sandbox_origin, **self._lists}

    # -- what the host asks

    def _ask(self, question: Question) -> Answer | bool:
        answer: SimpleQueue[JsonObject | None] = SimpleQueue()
        with self._lock:
            self._questions[number := next(self._numbers)] = question, answer
        question.withdrawn.attach(lambda reason: answer.put(None))
        self.tell("question", _dialog(number, question), keep=False)
        given = answer.get()  # bounded by `Consent.timeout`, which withdraws the question
        with self._lock:
            del self._questions[number]
        self.tell("answered", {"question": number}, keep=False)
        if given is None or given.get("allow") is not True:
            return False
        if question.kind == "sampling":
            # The user who answers as the model gives their reply in the place of a model's name.
            return Answer(True, "once", {"model": given["value"]})
        return Answer(True, "run" if given.get("remember") == "run" else "once", given.get("value"))

    # -- the model is the user: `Host(model=)` is this window

    url = "you, in this window"

    def choose(self, preferences: object) -> str:
        """Return the name of the model; see `Model`."""
        return "you"

    def complete(self, request: JsonObject, name: str, cancelled: Callable[[], bool]) -> Any:
        """Return the reply that the user has typed; see `Model`."""
        return {"role": "assistant", "content": text(name), "model": "you", "stopReason": "endTurn"}

    # -- what the user does

    def do(self, asked: JsonObject) -> JsonObject:
        """Do what the page asks for, and return an object: with `problem` if it cannot be done.

        Raises: KeyError, TypeError, ValueError: the page would not say that.
        """
        match asked["do"]:
            case "state":
                with self._lock:
                    questions = [_dialog(number, each) for number, (each, _) in self._questions.items()]
                return {**self._state(), "questions": questions}
            case "call" | "read" | "prompt":
                return self._begin_call(asked)
            case "cancel":
                if (cancel := self._calls.get(asked["call"])) is not None:
                    cancel("the user pressed Cancel")
            case "answer":
                question, answer = self._questions.get(asked["question"], (None, None))
                if question is None or answer is None:
                    return {"problem": "The question is no longer open."}
                if asked["allow"] is True and question.kind == "form":
                    problem = content_problem(question.shown["form"], asked["value"])
                    if problem is not None:
                        return {"problem": problem}
                if asked["allow"] is True and question.kind == "sampling" and not isinstance(asked["value"], str):
                    return {"problem": "A reply is a text."}
                answer.put(asked)
            case "complete":
                return self._complete(asked)
            case "revision":
                self._speak(asked["server"], asked["revision"])
            case "compare":
                changes = map(explained, compare(asked["was"], asked["now"]))
                return {"changes": [{"part": each.part, "says": str(each)} for each in changes]}
            case "start" | "stop" as what:
                name = self.host.servers[asked["server"]].name
                self._begin(lambda: getattr(self.host, what)(name))
            case "open":
                return self._open(asked)
            case "view":
                self._views[asked["view"]].receive(asked["message"])
            case "close":
                self._begin(self._views.pop(asked["view"]).close)
            case _:
                raise ValueError
        return {}

    def _speak(self, name: str, revision: str | None) -> None:
        """Speak to a server in another revision from now on; None: in the newest that it knows."""
        hosted = self.host.servers[name]
        wanted = None if revision is None else find_revision(revision).name

        def again() -> None:
            self.host.stop(name)
            hosted.entry = hosted.entry._replace(revision=wanted)
            self.host.start(name)

        self._begin(again)

    def _complete(self, asked: JsonObject) -> JsonObject:
        """Return the values that an argument could have; none if the server does not say."""
        client = self.host.servers[asked["server"]].client
        if client is None or "completions" not in (client.server_capabilities or {}):
            return {"values": []}
        ref = prompt_ref(asked["prompt"]) if "prompt" in asked else resource_ref(asked["template"])
        try:
            found = client.complete(
                ref, asked["name"], asked["value"], arguments=asked["arguments"], timeout=_COMPLETE
            )  # fmt: skip
        except McpError as problem:
            return {"values": [], "problem": str(problem)}
        return {"values": found["completion"]["values"]}

    def _begin_call(self, asked: JsonObject) -> JsonObject:
        key, name, cancel = str(asked["call"]), str(asked["name"]), Cancel()
        arguments, server = as_object(asked.get("arguments")), str(asked["server"])

        def progress(done: float, total: float | None, text: str | None) -> None:
            self.tell("progress", {"call": key, "done": done, "total": total, "text": text}, keep=False)

        jobs: dict[str, Callable[[], JsonObject]] = {
            "read": lambda: self.host.read(server, name, cancel=cancel),
            "prompt": lambda: self.host.prompt(name, arguments, cancel=cancel),
            "call": lambda: self._call(key, AppCall(name, arguments), cancel, progress),
        }
        with self._lock:
            if len(self._calls) >= MAX_CALLS:
                return {"problem": f"{MAX_CALLS} calls are under way."}
            self._calls[key] = cancel
        self._begin(lambda: self._run(key, jobs[asked["do"]]))
        return {}

    def _run(self, key: str, job: Callable[[], JsonObject]) -> None:
        began = time.monotonic()
        try:
            told: JsonObject = {"result": shown(job())}
        except (McpError, OSError, ValueError, TypeError) as problem:
            told = {"problem": str(problem), "kind": type(problem).__name__}
        with self._lock:
            self._calls.pop(key, None)
        self.tell("result", {"call": key, "seconds": time.monotonic() - began, **told}, keep=False)

    def _call(self, key: str, call: AppCall, cancel: Cancel, progress: Callable[..., None]) -> JsonObject:
        """Call a tool as the user, and keep the result for an app."""
        result = self.host.call(
            call.name, call.arguments, by="user", cancel=cancel, max_timeout=600, on_progress=progress
        )
        with self._lock:
            self._results[key] = call._replace(result=result)
            if len(self._results) > MAX_APPS:
                del self._results[next(iter(self._results))]
        return result

    # -- apps

    def _open(self, asked: JsonObject) -> JsonObject:
        """Open the app of a call that was made; of those that are open, the oldest makes room."""
        with self._lock:
            found = self._results.get(asked["call"])
        if found is None:
            return {"problem": "The result of that call is no longer kept."}
        context = {"theme": "dark" if asked.get("theme") == "dark" else "light", "platform": "web"}
        try:
            view = self.host.open_app(found, context=context)
        except McpError as problem:
            return {"problem": str(problem)}
        with self._lock:
            self._views[key := secrets.token_urlsafe(24)] = view
            oldest = self._views.pop(next(iter(self._views))) if len(self._views) > MAX_APPS else None
        if oldest is not None:
            self._begin(oldest.close)
        self._begin(lambda: self._post(key, view))
        # MUST: send the document once the sandbox is ready: the page does (2026-01-26/extensions/apps#sandbox-proxy)
        return {
            "view": key, "url": f"{self._sandbox_origin}/{key}", "uri": view.document.uri, "html": view.document.html,
            "csp": view.document.origins, "policy": view.document.policy,
        }  # fmt: skip

    def _post(self, key: str, view: AppView) -> None:
        """Pass to the page what goes to a view, until that is closed."""
        while (message := view.next()) is not None:
            self.tell("view", {"view": key, "message": message}, keep=False)
        self._views.pop(key, None)
        self.tell("gone", {"view": key}, keep=False)

    # -- the two servers

    def _guard(self, request: HttpRequest, method: str) -> None:
        """Let in what comes from the page of this start alone."""
        if request.headers.get("host") != self._origin.removeprefix("http://"):
            raise HttpRefusal(403, "not by this name")
        if request.headers.get("origin", self._origin) != self._origin:
            raise HttpRefusal(403, "not from this page")
        if request.method != method:
            raise HttpRefusal(405, f"{method} alone", headers={"Allow": method})
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            raise HttpRefusal(401, "the token is missing, or of another start")

    def _page(self, request: HttpRequest, reply: HttpReply) -> None:
        if request.headers.get("host") != self._origin.removeprefix("http://"):
            raise HttpRefusal(403, "not by this name")
        if request.method != "GET":
            raise HttpRefusal(405, "GET alone", headers={"Allow": "GET"})
        more = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": self._policy}
        reply.send(200, {**_PLAIN, **more, "Cross-Origin-Opener-Policy": "same-origin"}, self._html)

    def _act(self, request: HttpRequest, reply: HttpReply) -> None:
        self._guard(request, "POST")
        try:
            said = self.do(json.loads(request.body))
        except (ValueError, KeyError, TypeError, RecursionError) as problem:
            raise HttpRefusal(400, f"not understood: {type(problem).__name__}") from None
        reply.send(200, {**_PLAIN, "Content-Type": "application/json"}, json.dumps(said, default=repr).encode())

    def _events(self, request: HttpRequest, reply: HttpReply) -> None:
        self._guard(request, "GET")
        last = request.headers.get("last-event-id", "0")
        seen, waiting = int(last) if last.isdecimal() else 0, _Lines()
        with self._lock:
            for number, line in self._told:
                if number > seen:
                    waiting.add(line)
            self._pages.append(waiting)
        reply.open({**_PLAIN, "Content-Type": "text/event-stream"})
        try:
            while not request.gone() and (event := waiting.next()) is not None:
                reply.write(event)
        finally:
            with self._lock:
                self._pages = [each for each in self._pages if each is not waiting]
        reply.end()

    def _sandbox(self, request: HttpRequest, reply: HttpReply) -> None:
        view = self._views.get(request.path.removeprefix("/"))
        by_name = request.headers.get("host") == self._sandbox_origin.removeprefix("http://")
        if view is None or not by_name or request.method != "GET":
            raise HttpRefusal(404, "nothing here")
        # MUST: the sandbox has an origin of its own, and a view is reached through it alone; the document inherits its
        # policy (2026-01-26/extensions/apps#sandbox-proxy, #security-implications-mitigations)
        policy = f"{view.document.policy}; frame-ancestors {self._origin}"
        more = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy}
        html = SANDBOX.replace("{{page}}", self._origin)
        reply.send(200, {**_PLAIN, **more, "Permissions-Policy": _NO_PERMISSIONS}, html.encode())


class _Lines(SimpleQueue[bytes | None]):
    """The events that wait for one page; None is the end of its stream. Whoever adds one has the window's lock."""

    _came = _went = 0  # bytes

    def add(self, line: bytes) -> bool:
        """Add an event; False if too much waits already."""
        if self.qsize() >= MAX_WAITING or self._came - self._went > MAX_BYTES:
            return False
        self._came += len(line)
        self.put(line)
        return True

    def next(self) -> bytes | None:
        """Return the next event, or a sign of life after a while without one."""
        line: bytes | None
        try:
            line = self.get(timeout=_ALIVE)
        except Empty:
            return b": it is there\n\n"
        self._went += len(line or b"")
        return line


def _dialog(number: int, question: Question) -> JsonObject:
    return {
        "question": number, "kind": question.kind, "server": question.server, "subject": question.subject,
        "head": question.lines()[0], "shown": shown(question.shown), "warnings": list(question.warnings),
    }  # fmt: skip


def shown(value: Any) -> Any:
    """Return a value as the page gets it: one that is too long as the beginning of its text."""
    text = as_text(value)
    return value if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ... ({len(text)} characters)"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
