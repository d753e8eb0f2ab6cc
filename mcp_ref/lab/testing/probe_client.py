"""ProbeClient: starts a client, answers it as a server would, or would not, and says which of its duties it does.

Not here:  what is answered, and what has to come of it (lab/testing/cases.jsonl); servers (lab/testing/probe); the
           process that carries stdio to here (lab/testing/bridge)

    the client's own command, with {target} in it  ->  lab/testing/bridge  ->  a socket  ->  Far, a plain server
                                                   ->  HTTP            ->  HttpServer -^

The client's program is started once for each case, and first once without any, to see that it does its work. A case
changes what the plain server says; what the client has said, and how it ended, is looked at afterwards.
"""

from __future__ import annotations

import json
import secrets
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from mcp_ref import (
    REVISIONS,
    SESSION_REVISIONS,
    STATELESS_REVISIONS,
    HttpLimits,
    HttpRequest,
    JsonObject,
    RequestTimeout,
    TransportClosed,
)
from mcp_ref.facts import Deadline, HttpReply, HttpServer, LineSplitter, http_status, sse
from mcp_ref.lab.testing.cases_client import FUNCTIONS, Outcome
from mcp_ref.lab.testing.marks import end_marked, marked
from mcp_ref.lab.testing.probe import Case, Mark, cases, row_of_case
from mcp_ref.lab.testing.raw_talk import NotApplicable, expect, fits, shown
from mcp_ref.lab.testing.reports import Row
from mcp_ref.lab.words import SERVER_INFO
from mcp_ref.recording.record import Recorder, Tap

_BRIDGE: Final = str(Path(__file__).with_name("bridge.py"))
_POLITE_TIMEOUT: Final = 2.0  # seconds in which a client may answer a request before its own is answered
_MAX_SAID: Final = 10_000  # messages that a client may send in one case,
_MAX_BYTES: Final = 4 << 20  # and the bytes of these and of their headers
_INFO: Final = {"name": "mcp-ref-probe", "version": "0"}
_TOOL: Final = {"name": "one", "description": "One.", "inputSchema": {"type": "object"}}


class Far:
    """A plain server of one revision, with what a case changes; it does no I/O.

    The steps of a case: {"on": METHOD, "result" or "error"}: the answer, the last one again and again; {"before" or
    "after": METHOD, "send": MESSAGE or "raw": TEXT}: more, around the first answer; {"mute": METHOD}: no answer;
    {"hold": METHOD, "seconds"}: the answer comes so late, over stdio; {"twice": METHOD}; {"batch": METHOD}: in a batch.
    """

    def __init__(self, revision: str, steps: Sequence[JsonObject]) -> None:
        self.revision, self.stateless = revision, REVISIONS[revision].era == "stateless"
        self.steps, self.outcome = list(steps), Outcome(revision)
        self._heard = threading.Condition()  # guards the fields below, and the outcome: several threads answer
        self._given: dict[str, int] = {}  # how often a method was answered
        self._asked: list[Any] = []  # the ids of what the client was asked, and has not answered
        self._held: dict[bytes, float] = {}  # answers that come late, by so many seconds
        self._bytes = self._times = 0  # what was taken
        self.full = False  # whether that was too much: nothing more of the client is taken

    def takes(self, size: int, times: int = 1) -> bool:
        """Take so many bytes and messages, and look whether a client may still say as much in one case."""
        with self._heard:
            self._bytes, self._times = self._bytes + size, self._times + times
            self.full = self._bytes > _MAX_BYTES or self._times > _MAX_SAID
            return not self.full

    def answer(self, message: Any, headers: dict[str, str]) -> list[bytes]:
        """Return the texts to write when a message of the client has come, with headers if that was over HTTP."""
        with self._heard:
            if not isinstance(message, dict):
                return []
            self.outcome.said.append(message)
            self.outcome.headers.append(headers)
            if self._held:
                self.outcome.early.append(message)
            method = message.get("method")
            if not isinstance(method, str):
                self._asked = [id for id in self._asked if id != message.get("id")]
                self._heard.notify_all()
                return []
            number = self._given[method] = self._given.get(method, -1) + 1
            answer = self._answer(method, message, number)
            before, after = (
                [self._written(step, message) for step in self.steps if step.get(where) == method and not number]
                for where in ("before", "after")
            )
            return [*before, *answer, *after]

    def in_turn(self, texts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the texts to write, each when its time has come; the writer takes the next one then.

        What follows a question waits for the client's answer, `_POLITE_TIMEOUT` seconds at most: a client that has all
        that it wants may be gone before it has answered.
        """
        for text in texts:
            time.sleep(self._held.get(text, 0))
            with self._heard:
                self._held.pop(text, None)
                self._heard.wait_for(lambda: not self._asked, _POLITE_TIMEOUT)
                sent = _parsed(text)
                asks = isinstance(sent, dict) and "id" in sent and isinstance(sent.get("method"), str)
                self._asked = [sent["id"]] if asks else []
            yield text

    def _answer(self, method: str, message: JsonObject, number: int) -> list[bytes]:
        if "id" not in message or {"mute": method} in self.steps:
            return []
        told = [step for step in self.steps if step.get("on") == method]
        said = told[min(number, len(told) - 1)] if told else self.plain(method, message.get("params") or {})
        body = {name: said[name] for name in ("result", "error") if name in said}
        if self.stateless and isinstance(body.get("result"), dict) and told and "bare" not in said:
            body["result"] = self.complete(body["result"])
        answer: Any = {"jsonrpc": "2.0", "id": message["id"], **body}
        if {"batch": method} in self.steps:
            answer = [{"jsonrpc": "2.0", "method": "notifications/no-such-thing"}, answer]
        text = json.dumps(answer).replace("$large", "x" * (8 << 20)).encode()
        for step in self.steps:
            if step.get("hold") == method:
                self._held[text] = step["seconds"]
        return [text] * (2 if {"twice": method} in self.steps else 1)

    def _written(self, step: JsonObject, message: JsonObject) -> bytes:
        """Return the text of a step; "$id" in it is the id of the message, or of the request that it cancels."""
        if "raw" in step:
            return str(step["raw"]).encode()
        text = json.dumps(step["send"])
        cancelled = message["params"].get("requestId") if isinstance(message.get("params"), dict) else None
        id = message.get("id", cancelled)
        other = json.dumps(str(id) if isinstance(id, int) else int(str(id)) if str(id).isdigit() else f"{id}-other")
        return text.replace('"$id"', json.dumps(id)).replace('"$other"', other).encode()

    def complete(self, result: JsonObject) -> JsonObject:
        """Return a result with what the stateless era wants in it."""
        meta = {SERVER_INFO: _INFO, **(result.get("_meta") or {})}
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result, "_meta": meta}

    def plain(self, method: str, params: JsonObject) -> JsonObject:
        """Return the answer of a plain server to a request."""
        declared: JsonObject = {name: {} for name in ("tools", "resources", "prompts")}
        about = {"capabilities": declared, "serverInfo": _INFO}
        answers: dict[str, JsonObject] = {
            "tools/list": {"tools": [_TOOL]}, "tools/call": {"content": [{"type": "text", "text": "done"}]},
            "resources/list": {"resources": []}, "resources/templates/list": {"resourceTemplates": []},
            "prompts/list": {"prompts": []},
        }  # fmt: skip
        if self.stateless:
            answers["server/discover"] = {"supportedVersions": [self.revision], "capabilities": declared}
            if method == "initialize":
                data = {"supported": [self.revision], "requested": params.get("protocolVersion")}
                return {"error": {"code": -32022, "message": "Unsupported protocol version", "data": data}}
            answers = {name: self.complete(each) for name, each in answers.items()}
        else:
            declared["tools"] = {"listChanged": True}
            answers |= {"initialize": {"protocolVersion": self.revision, **about}, "ping": {}}
        if method in answers:
            return {"result": answers[method]}
        return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


class ProbeClient:
    """Runs cases against a client.

    Args:
        command: of the client, with {target} where the server stands: one word of several, or a part of one. Over stdio
            it becomes the words of a command, or one word of them all; over HTTP a URL.
        http: whether the target is a URL.
        timeout: a third of the seconds that the client's program may take.
        patience: seconds that it may take to give up where nobody answers; 0: that is not asked.
        only: names, groups, pages or sentences of the cases; none: all.
        recorder: is shown the traffic.

    Attributes:
        spoken: the revisions that it was found to speak.

    Threads: one at a time.
    """

    def __init__(
        self,
        command: Sequence[str],
        http: bool,
        recorder: Recorder,
        *,
        timeout: float = 5.0,
        patience: float = 0.0,
        only: Sequence[str] = (),
    ) -> None:
        if not any("{target}" in word for word in command):
            raise ValueError("the command of the client has no {target} in it")
        self.command, self.http, self._recorder = list(command), http, recorder
        self.timeout, self.patience = timeout, patience
        self.chosen = cases("client", "http" if http else "stdio", only)
        self.spoken: list[str] = []
        self.marks: list[Mark] = []
        self._plain: dict[str, Outcome] = {}
        self._case: Case | None = None  # the one that is played

    def find(self, wanted: Sequence[str] = ()) -> list[str]:
        """Return which revisions it speaks: of each era the newest, or which of those that are wanted.

        Raises: TransportClosed: none, and why.
        """
        why = "it never got so far as to ask something"
        left = [*(wanted or (STATELESS_REVISIONS[-1].name, SESSION_REVISIONS[-1].name))]
        for revision in left:
            try:
                outcome = self._plain[revision] = self.play(revision, ())
            except TransportClosed as problem:
                why = str(problem)
                continue
            opened = any(map(partial(_asks_in, revision), outcome.said))
            asked = [each.get("params") or {} for each in outcome.said if each.get("method") == "initialize"][:1]
            offered = next((row.name for row in SESSION_REVISIONS for each in asked
                            if row.name == each.get("protocolVersion")), None)  # fmt: skip
            if outcome.code is None:
                why = "it does not end by itself"
                continue
            if opened:
                self.spoken.append(revision)
            elif not wanted and offered is not None and offered not in left:
                left.append(offered)  # it knows no newer one
        if not self.spoken:
            raise TransportClosed(f"the client does not speak {' or '.join(wanted) or 'any revision'}: {why}")
        return self.spoken

    def run(self, revision: str) -> Iterator[Row]:
        """Yield a row for each case of a revision, as it comes."""
        for case in self.chosen:
            if revision in case.sentences and not case.rules:
                yield row_of_case(case, revision, self._try)

    def _try(self, case: Case, revision: str) -> None:
        """Play each variant of a case. Raises: Unmet, NotApplicable, TransportClosed."""
        if "patience" in case.needs and not self.patience:
            raise NotApplicable("give --patience")
        variants: list[JsonObject] = next((step["each"] for step in case.play if "each" in step), [{}])
        for varied in variants:
            self._try_variant(case, revision, [varied if "each" in step else step for step in case.play])

    def _try_variant(self, case: Case, revision: str, steps: Sequence[JsonObject]) -> None:
        plain = self._plain[revision]
        for step in steps:
            # A case whose place is never reached is not played.
            if "needs" in step:
                plain.first(step["needs"])
        self._case = case
        outcome = self.play(revision, steps, self.patience if "patience" in case.needs else 0.0)
        if (function := FUNCTIONS.get(case.name)) is not None:
            function(outcome, plain)
        for step in steps:
            _look(step, outcome, plain)

    def close(self) -> None:
        """Do nothing: each case has ended what it started."""

    def play(self, revision: str, steps: Sequence[JsonObject], patience: float = 0.0) -> Outcome:
        """Start the client, and answer it until it has ended, for 3 time limits at most, or longer with patience.

        Raises: TransportClosed: it cannot be started, or never comes.
        """
        self.marks.append((self._recorder.seq, self._case))
        limit = max(3 * self.timeout, patience)
        far = Far(revision, steps)
        peer = (_OverHttp if self.http else _OverStdio)(far, self._recorder)
        try:
            # The target stands for several words where it is one, and is one word within another.
            within = shlex.join(peer.target)
            words = [each.replace("{target}", within) for word in self.command
                     for each in (peer.target if word == "{target}" else [word])]  # fmt: skip
            try:
                child = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True, env=marked(mark := secrets.token_hex(8)),
                )  # fmt: skip
            except OSError as problem:
                raise TransportClosed(f"the client could not be started: {problem}") from None
            try:
                peer.serve(limit, child)
                if not peer.overdue and not far.full:
                    with suppress(subprocess.TimeoutExpired):
                        code = child.wait(limit)
                        far.outcome.code = None if far.full else code
            finally:
                end_marked(mark, child)
                child.wait()
        finally:
            peer.close()
        if not far.outcome.said:
            raise TransportClosed("the client said nothing")
        return far.outcome


def _asks_in(revision: str, message: JsonObject) -> bool:
    """Return whether a message shows that the client has begun to work in a revision."""
    if REVISIONS[revision].era == "session":
        return message.get("method") == "notifications/initialized"
    opening = message.get("method") in (None, "initialize", "server/discover")
    return not opening and "_meta" in (message.get("params") or {})


def _look(step: JsonObject, outcome: Outcome, plain: Outcome) -> None:
    """Hold what a client did against a step.

    {"needs": PATTERN} comes also without the case; {"undeclared": CAPABILITY}; {"then": PATTERN} comes; {"never":
    PATTERN} does not; {"next": [PATTERN, PATTERN]}: the second follows the first; {"answered": PATTERN} of an answer;
    {"goes on"}: it does its work as without the case; {"fails": METHOD}: it does not go on from the answer as without
    the case, whether it tells its user by the exit code or not; {"ends"}: by itself, however.
    """
    match step:
        case {"then": pattern}:
            expect(any(fits(each, pattern) for each in outcome.said), f"it never sends {shown(pattern)}")
        case {"never": pattern}:
            came = [each for each in outcome.said if fits(each, pattern)]
            expect(not came, f"it sends {shown(came[:1])}")
        case {"next": [first, second]}:
            place = outcome.first(first)
            follows = outcome.said[place + 1 : place + 2]
            expect(follows and fits(follows[0], second), f"then comes {shown(follows)}")
        case {"undeclared": capability}:
            declared = (outcome.said[outcome.first({"method": "initialize"})].get("params") or {}).get("capabilities")
            if fits(declared, {capability: "*"}):
                raise NotApplicable(f"the client declares {capability}")
        case {"answered": pattern}:
            id = pattern["id"]
            answers = [each for each in outcome.said if "method" not in each and each.get("id") == id]
            expect(answers, f"it does not answer {shown(id)}")
            expect(fits(answers[0], pattern), f"it answers with {shown(answers[0])}")
        case {"fails": method}:
            expect(outcome.code is not None, "it does not end")
            said, usual = ([m["method"] for m in each.said if "id" in m and "method" in m] for each in (outcome, plain))
            if usual[-1] == method and outcome.code == plain.code and said == usual:
                raise NotApplicable(f"the client does nothing after {method}, and ends as it always does")
            changed = said != usual or outcome.code != plain.code
            expect(changed, f"it goes on, and ends with {outcome.code}, as if all were well")
        case {"goes on": _} | {"ends": _}:
            expect(outcome.code is not None, "it does not end")
            same = outcome.code == plain.code
            expect(same or "goes on" not in step, f"it ends with {outcome.code}, not {plain.code}")


# -- over stdio ---------------------------------------------------------------------------------------------------


class _OverStdio:
    """The far end of a bridge.

    Attributes:
        overdue: whether the time was over before the client had ended.
    """

    overdue = False

    def __init__(self, far: Far, recorder: Recorder) -> None:
        self._far, self._recorder = far, recorder
        self._token = secrets.token_hex(8)
        self._listening = socket.create_server(("127.0.0.1", 0))
        how = [name for name in ("watched", "stubborn") if {name: True} in far.steps]
        port = str(self._listening.getsockname()[1])
        self.target = [sys.executable, "-IS", _BRIDGE, port, self._token, *how]

    def serve(self, timeout: float, child: subprocess.Popen[Any]) -> None:
        """Answer until the client ends, or the time is over; a client may start its server more than once."""
        deadline = Deadline(timeout)
        self._listening.settimeout(0.05)
        met = False
        try:
            # The time first: its end is the end of the talk, and so, in a moment, of a client that would not end.
            while deadline.check("waiting") and child.poll() is None:
                with suppress(TimeoutError):
                    link, _ = self._listening.accept()
                    met = True
                    self._talk(link, deadline)
        except RequestTimeout:
            self.overdue = True
        if not met and child.poll() is None:
            raise TransportClosed("the client does not start its server")

    def _talk(self, link: socket.socket, deadline: Deadline) -> None:
        """Answer until the client closes its end, the server dies as the script says, or the time is over."""
        tap, texts = self._recorder.tap("client", "stdio"), SimpleQueue[bytes | None]()

        def write() -> None:
            with suppress(OSError):
                for text in self._far.in_turn(iter(texts.get, None)):
                    tap.note("send", text)
                    link.sendall(text + b"\n")

        writer = threading.Thread(target=write, name="probe-writer")
        splitter = LineSplitter(2 * _MAX_BYTES)

        def lines() -> Iterator[bytes]:
            link.settimeout(deadline.check("waiting"))
            while self._far.takes(len(data := link.recv(65536)), 0) and data:
                yield from splitter.feed(data)
                link.settimeout(deadline.check("waiting"))

        with link, suppress(OSError):
            writer.start()
            try:
                said = lines()
                if next(said, b"").decode("utf-8", "replace") == self._token:
                    all(self._take(line, tap, texts) for line in said)  # to the first of which the server dies
            finally:
                # The writer ends with the link, or once it has waited as long as for an answer of the client.
                texts.put(None)
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)
                writer.join()

    def _take(self, line: bytes, tap: Tap, texts: SimpleQueue[bytes | None]) -> bool:
        """Answer one line, or take note of what the bridge says; False: the server dies of it."""
        if not self._far.takes(0):
            return False
        if line.startswith(b"\0"):
            self._far.outcome.ended.append(line[1:].decode())
            if line == b"\0eof":
                tap.note("receive", None, {"process": {"eof": "client"}})
        elif line.strip():
            tap.note("receive", line)
            message = _parsed(line)
            answers = self._far.answer(message, {})
            if isinstance(message, dict) and {"dies": message.get("method")} in self._far.steps:
                return False
            for text in answers:
                texts.put(text)
        return True

    def close(self) -> None:
        self._listening.close()


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


# -- over HTTP ----------------------------------------------------------------------------------------------------


class _OverHttp:
    """The far end at a URL. Steps of its own: {"status": N, "for": METHOD, "times", "headers", "body"}: instead of an
    answer; {"session": ID}; {"stream": METHOD}: the answer as an event stream; {"cut": METHOD, "retry": MS}: a stream
    that ends before the answer, and goes on by GET."""

    overdue = False

    def __init__(self, far: Far, recorder: Recorder) -> None:
        self._far, self._tap = far, recorder.tap("client", "http")
        self._lock = threading.Lock()  # guards what was `asked`, and the two fields below
        self._refused: dict[str, int] = {}
        self._waiting: list[bytes] = []
        self._http = HttpServer({"/mcp": self._serve}, "127.0.0.1", 0, HttpLimits(max_message=_MAX_BYTES))
        self._http.start()
        self.target = [f"http://127.0.0.1:{self._http.address[1]}/mcp"]

    def serve(self, timeout: float, child: subprocess.Popen[Any]) -> None:
        """Do nothing: each request is served as it comes."""

    def _serve(self, request: HttpRequest, reply: HttpReply) -> None:
        heads = sum(len(name) + len(value) for name, value in request.headers.items())
        if not self._far.takes(len(request.body) + heads):
            reply.send(429, {})
            return
        with self._tap.answering(request, reply) as (request, reply):
            headers = dict(request.headers)
            if request.method != "POST":
                with self._lock:
                    self._far.outcome.asked.append((request.method, {**headers, "at": str(time.monotonic())}))
                    resumes = "last-event-id" in headers
                    waiting, self._waiting = (self._waiting, []) if resumes else ([], self._waiting)
                if request.method == "GET" and waiting:
                    self._stream(reply, {}, waiting)
                else:
                    reply.send(200 if request.method == "DELETE" else 405, {"Allow": "POST"})
                return
            message = _parsed(request.body)
            method = message.get("method") if isinstance(message, dict) else None
            answers = self._far.answer(message, headers)
            if (refusal := self._refusal(method)) is not None:
                reply.send(refusal["status"], refusal.get("headers") or {}, str(refusal.get("body", "")).encode())
                return
            opened = next((step["session"] for step in self._far.steps if "session" in step), None)
            own = {"Mcp-Session-Id": opened} if opened and method == "initialize" else {}
            cut = next((step for step in self._far.steps if step.get("cut") == method), None)
            streamed = {"stream": method} in self._far.steps
            if not isinstance(message, dict) or "id" not in message or "method" not in message:
                reply.send(202, {})
                return
            if cut is not None:
                with self._lock:
                    self._waiting = answers
                self._far.outcome.ended.append(str(time.monotonic()))
                self._stream(reply, own, [], f"id: 1\nretry: {cut['retry']}\ndata: \n\n".encode())
            elif len(answers) == 1 and not streamed:
                said, fails = _parsed(answers[0]), {"error": {"code": "*"}}
                status = http_status(said["error"]["code"]) if self._far.stateless and fits(said, fails) else 200
                reply.send(status, {"Content-Type": "application/json", **own}, answers[0])
            else:
                self._stream(reply, own, answers, b": a comment\r\r" if streamed else b"")

    def _stream(self, reply: HttpReply, own: dict[str, str], texts: Sequence[bytes], first: bytes = b"") -> None:
        reply.open({"Content-Type": sse.CONTENT_TYPE, "Cache-Control": "no-cache", "X-Accel-Buffering": "no", **own})
        if first:
            reply.write(first)
        for text in self._far.in_turn(texts):
            reply.write(sse.encode_event(text.decode()))
        reply.end()

    def _refusal(self, method: Any) -> JsonObject | None:
        for step in self._far.steps:
            if "status" in step and step["for"] == method and isinstance(method, str):
                with self._lock:
                    seen = self._refused[method] = self._refused.get(method, 0) + 1
                if step.get("from", 1) <= seen < step.get("from", 1) + step.get("times", 1):
                    return step
        return None

    def close(self) -> None:
        self._http.close(2)
