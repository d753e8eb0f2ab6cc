"""Talk: one conversation with a server, below the level of any client, so that what is sent may be wrong.

Not here:  the cases (lab/testing/cases.jsonl, lab/testing/cases); running them (lab/testing/probe)

    Talk  ->  _Pipe  ->  a process         what comes  ->  the inbox, and the trace that the checker judges
          ->  _Post  ->  a URL

A pattern says what has to come, as JSON: an object fits one that has at least its members; a list fits what fits one of
its elements; "*" fits anything; {"$has": x} a list with x in it; {"$only": [names]} an object without other members;
anything else what is equal to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from mcp_ref import REVISIONS, JsonObject, McpError, Refusal, RequestTimeout, __version__
from mcp_ref.facts import Deadline, HttpCall, HttpClient, StdioClientTransport, messages, mirror, sse
from mcp_ref.lab.words import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcp_ref.recording.record import Recorder, Tap

PROBE: Final = {"name": "mcp-ref-probe", "version": __version__}
_STARTS: Final = 6  # times as long as for an answer may a process take until its first: it has to start
_CLOSE: Final = 5.0  # seconds, at least, for an end: a server may have to be killed, on a machine that is busy
_MAX_HEARD: Final = 64 << 20  # bytes that a server may say in one conversation, with what it takes to keep each line
_KEPT: Final = 512  # bytes that it takes
_LARGE: Final = "x" * (2 << 20)
_DEEP: Final = "[" * 20_000 + "]" * 20_000


class Unmet(Exception):
    """The peer does not do what the sentence says; the text says what it does."""


class Silent(Unmet):
    """Nothing came within the time limit."""


class Gone(Unmet):
    """The peer has ended, or hung up."""


class NotApplicable(Exception):
    """The case says nothing about this peer; the text says why."""


class Options(NamedTuple):
    """The options of a probe.

    Attributes:
        timeout: seconds for each answer, for the first of a process six times as long, and for a process to end when
            its input has ended, there 2 at least.
        only: names, groups, pages or sentences of the cases; none: all.
        calls: "" calls no tool; "*" those that call themselves read-only; else a pattern of names.
        reads: whether listed resources are read. heavy: whether what is large goes to another machine too.
        slow: the name of a tool that takes long, to be cancelled. call: calls to make, with name and arguments.
        headers: of every request to a URL. inherit: whether a command gets our whole environment.
        unknown: a name that nothing has. harmless: what is asked of the session era to see that the server goes on.
    """

    timeout: float = 5.0
    only: Sequence[str] = ()
    calls: str = ""
    reads: bool = False
    heavy: bool = False
    slow: str = ""
    call: Sequence[JsonObject] = ()
    headers: Mapping[str, str] = {}
    inherit: bool = False
    unknown: str = "no-such-thing-at-all"
    harmless: str = "ping"


def expect(true: object, says: str) -> None:
    """Raise Unmet unless it is true."""
    if not true:
        raise Unmet(says)


def fits(value: Any, pattern: Any) -> bool:
    """Return whether a value has the form of a pattern, see the module."""
    if isinstance(pattern, list):
        return any(fits(value, each) for each in pattern)
    if isinstance(pattern, dict):
        if "$has" in pattern:
            return isinstance(value, list) and any(fits(each, pattern["$has"]) for each in value)
        if "$only" in pattern:
            return isinstance(value, dict) and not value.keys() - {*pattern["$only"]}
        return isinstance(value, dict) and all(
            name in value and fits(value[name], each) for name, each in pattern.items()
        )
    return pattern == "*" or (type(value) is type(pattern) and bool(value == pattern))


def shown(value: Any) -> str:
    """Return a value as JSON for a sentence, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."


class _Raw(StdioClientTransport):
    """Writes the bytes that it is given."""

    encode = staticmethod(bytes)  # type: ignore[assignment]
    says_too_much: Callable[[bytes], bool]

    def _skips(self, line: bytes) -> bool:
        # Lines that are not messages are kept, too, for the checker.
        return self.says_too_much(line) or super()._skips(line)

    def piece(self, data: bytes, *lines: bytes) -> None:
        """Write a part of a line, or several lines; the trace is shown those that it ends."""
        with self._write_lock:
            for line in lines:
                self._tap.note("send", line)
            os.write(self._write_fd, data)


class _Pipe:
    """A server as a process."""

    over: Final = "stdio"
    status = 0  # without a reply

    def __init__(self, talk: Talk, command: Sequence[str], tap: Tap, inherit: bool) -> None:
        self._talk = talk
        # A process that is slow to end has as long as for an answer before it gets a signal.
        grace = max(talk.timeout, 0.4 * _CLOSE)
        self.transport = _Raw(command, inherit=inherit, grace=grace, tap=tap, max_message=_MAX_HEARD)
        self.transport.says_too_much = talk.says_too_much
        self.transport.start(lambda data: None if talk.took(data) else None, talk.lost)

    def write(self, raw: bytes, headers: Mapping[str, str | None]) -> None:
        try:
            if b"\n" in raw:  # several messages at once
                self.transport.piece(raw + b"\n", *raw.split(b"\n"))
            else:
                self.transport.send(raw, Deadline(self._talk.timeout))
        except McpError as problem:
            raise Gone(str(problem)) from None

    def close(self) -> int | None:
        """Close its input, and wait; gives its exit code, None where it took a signal to end it."""
        self.transport.close(Deadline(max(2.5 * self._talk.timeout, _CLOSE)))
        return None if any("signal" in each for each in self.transport._ended) else self.transport.exit_code


class _Post:
    """A server at a URL. Each message is a request of its own, and what comes for it is there when `write` returns.

    Attributes:
        session: the id of the session, if the server gives one.
        status, headers: of the last response.
        left_open: whether its event stream went on behind the answer.
    """

    over: Final = "http"

    def __init__(self, talk: Talk, url: str, tap: Tap, own: Mapping[str, str]) -> None:
        self._talk, self._tap = talk, tap
        self.session: str | None = None
        self._http = HttpClient(url, {"headers": dict(own)})
        self.status, self.headers, self.left_open = 0, dict[str, str](), False

    def write(
        self, raw: bytes | None, headers: Mapping[str, str | None], method: str = "POST", events: int | None = None
    ) -> list[Any]:
        """Send a request; gives the events of its response, if that is a stream.

        Args:
            headers: beside the ordinary ones; None leaves one out.
            events: how many of a stream are read; None: until the answer.
        """
        ordinary = {"Content-Type": "application/json", "Accept": f"application/json, {sse.CONTENT_TYPE}"}
        ordinary |= {} if self.session is None else {"Mcp-Session-Id": self.session}
        sent = {name: value for name, value in {**ordinary, **headers}.items() if value is not None}
        facts: JsonObject = {"exchange": self._tap.exchange(), "method": method}
        self._tap.note("send", raw, {**facts, "headers": sent})
        call = HttpCall(Deadline(self._talk.timeout))
        taken: list[Any] = []
        try:
            self._http.begin(call)
            reply = self._http.open(call, method, sent, raw, follow=False)
            self.status, self.headers = reply.status, {k.lower(): v for k, v in reply.headers.items()}
            facts |= {"status": reply.status}
            if reply.content_type != sse.CONTENT_TYPE:
                body = reply.body(_MAX_HEARD)
                self._tap.note("receive", body or None, {**facts, "headers": self.headers})
                if body:
                    self._talk.took(body)
                return taken
            self._tap.note("receive", None, {**facts, "headers": self.headers})
            parser, self.left_open = sse.EventParser(_MAX_HEARD), True
            while events is None or len(taken) < events:
                if not (piece := reply.read()):
                    self.left_open = False
                    break
                for event in parser.feed(piece):
                    taken.append(event)
                    self._tap.note("receive", event.data.encode() or None, facts | sse.event_facts(event))
                    if event.data:
                        answered = self._talk.took(event.data.encode())
                        events = len(taken) if events is None and answered else events
            return taken
        except RequestTimeout:
            if not taken:
                raise Silent(f"no answer in {self._talk.timeout:g} s (--timeout)") from None
            return taken
        except (McpError, sse.EventTooLong) as problem:
            raise Gone(str(problem)) from None
        finally:
            self._http.end(call)

    def close(self) -> None:
        if self.session is not None and not self._talk.stateless:
            with suppress(Unmet):
                self.write(None, self._talk.version, "DELETE")
        self._http.close(Deadline(_CLOSE))


class Talk:
    """One conversation with a server, in one revision.

    Args:
        target: a command, or a URL.
        recorder: is shown everything, as it is.
        how: `headers` of every request to a URL; `inherit`: whether a command gets our whole environment.

    Attributes:
        options: how to probe. timeout: theirs.
        agreed: the revision that the server has named last, or the one that is asked for.
        opening: the result of `initialize` or `server/discover`, {} before.
        heard: what came and was not waited for. allowed: patterns of what may come so.
        ended: whether it was ended.
        link: how it is connected.

    Raises: TransportClosed: the server cannot be started.
    Blocks: `open`, `ask` and their like at most `limit` seconds for each message, `close` 2.5 times as long, or 5
        seconds if that is more.
    Threads: one at a time.
    """

    def __init__(self, target: str | Sequence[str], revision: str, recorder: Recorder, options: Options) -> None:
        self._made_of = target, revision, recorder, options
        self.revision, self.stateless = revision, REVISIONS[revision].era == "stateless"
        self.options, self.timeout = options, options.timeout
        self.agreed = revision
        self.opening: JsonObject = {}
        self.heard: list[Any] = []
        self.allowed: list[Any] = []
        self.ended = False
        self._asked: set[str] = set()  # ids of this case, and of the ones before: an answer to those may come late
        self._past: set[str] = set()
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._size = self._id = 0
        self._met = False  # whether anything was answered yet
        # Any: the cases know which of the two they have.
        self.link: Any = (
            _Post(self, target, recorder.tap("server", "http"), options.headers)
            if isinstance(target, str)
            else _Pipe(self, target, recorder.tap("server", "stdio"), options.inherit)
        )
        self.over = self.link.over

    def another(self) -> Talk:
        """Return a new conversation with the same server, which has not begun."""
        return Talk(*self._made_of)

    def close(self) -> int | None:
        """End it. Returns the exit code of a process; None where it took a signal to end it."""
        self.ended = True
        return self.link.close()  # type: ignore[no-any-return]

    def next_case(self) -> None:
        """Begin another case: answers to earlier requests may still come, and are no longer looked at."""
        self._past |= self._asked
        self._asked.clear()
        self.heard.clear()

    @property
    def capabilities(self) -> JsonObject:
        found = self.opening.get("capabilities")
        return found if isinstance(found, dict) else {}

    @property
    def limit(self) -> float:
        """Seconds for the next answer: a process that has not answered yet may have to start."""
        return self.timeout if self._met or self.over == "http" else _STARTS * self.timeout

    # -- what comes

    def took(self, data: bytes) -> bool:
        """Take a message, or a batch; returns whether an answer is in it. Called by the link, in any thread."""
        if self.says_too_much(data):
            return True
        try:
            message = messages.decode(data)
        except Refusal:
            return False  # the checker says so
        parts = message if isinstance(message, list) else [message]
        for each in parts:
            if fits(each, {"result": {"protocolVersion": [*REVISIONS]}}):
                self.agreed = each["result"]["protocolVersion"]
            self._inbox.put(each)
        return any(isinstance(each, dict) and "method" not in each for each in parts)

    def says_too_much(self, data: bytes) -> bool:
        """Count what it says; more than so much is not looked at. Called by the link."""
        before, self._size = self._size, self._size + len(data) + _KEPT
        if before <= _MAX_HEARD < self._size:
            self.lost(f"it has said more than {_MAX_HEARD >> 20} MiB, counting {_KEPT} bytes more for each line")
        return self._size > _MAX_HEARD

    def lost(self, reason: object) -> None:
        """Take note that nothing more will come. Called by the link."""
        first, *more = str(reason).splitlines() or [""]
        self._inbox.put(Gone(f"{first} {more[-1].strip()}" if more else first))

    def read(self, deadline: Deadline) -> Any:
        """Return the next message, but for what comes late of an earlier case. Raises: Silent, Gone."""
        while True:
            try:
                # Also where messages come without end.
                left = 0.0 if self.over == "http" else deadline.check("waiting")
                message = self._inbox.get(timeout=left)
            except (Empty, RequestTimeout):
                status = f"HTTP {self.link.status} without an answer" if self.over == "http" else ""
                raise Silent(status or f"no answer in {self.limit:g} s (--timeout)") from None
            if isinstance(message, Gone):
                self._inbox.put(message)
                raise message
            answer = isinstance(message, dict) and "method" not in message
            if not (answer and json.dumps(message.get("id")) in self._past):
                return message

    def wait(self, pattern: Any) -> JsonObject:
        """Return the message that fits, of those that were heard, or the next one; what comes before it is heard."""
        return self._first(lambda message: fits(message, pattern))

    def _first(self, wanted: Callable[[Any], bool]) -> JsonObject:
        # Of two answers that a case waits for, the second may have come before the first.
        for place, message in enumerate(self.heard):
            if wanted(message):
                return self.heard.pop(place)  # type: ignore[no-any-return]
        deadline = Deadline(self.limit)
        while not wanted(message := self.read(deadline)):
            self.heard.append(message)
        self._met = True
        return message  # type: ignore[no-any-return]

    # -- what is sent

    def envelope(self) -> JsonObject:
        """Return the `_meta` of every request, where the revision wants it."""
        if not self.stateless:
            return {}
        return {PROTOCOL_VERSION: self.revision, CLIENT_CAPABILITIES: {}, CLIENT_INFO: PROBE}

    def send(self, message: Any, headers: Mapping[str, str | None] | None = None) -> None:
        """Write a message as it is, or any bytes."""
        raw = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        parsed: Any = None
        with suppress(ValueError, RecursionError):
            parsed = json.loads(raw) if isinstance(message, bytes) else message
            for each in parsed if isinstance(parsed, list) else [parsed]:
                if isinstance(each, dict) and each.get("id") is not None:
                    self._asked.add(json.dumps(each["id"]))
        body = parsed if isinstance(parsed, dict) else {}
        opens, method = body.get("method") == "initialize", body.get("method") or self.harmless
        own: dict[str, str | None] = {} if opens else {**self.version}
        if self.over == "http" and self.stateless and not opens:
            # What is wrong in a body has to be found there, so its headers are right.
            sound = isinstance(body.get("method"), str) and isinstance(body.get("params", {}), dict)
            own |= mirror(body, self.revision) if sound else {"Mcp-Method": str(method)}
        self.link.write(raw, own | dict(headers or {}))
        if opens and self.over == "http":
            # An id in any other response is not that of a session.
            self.link.session = self.link.headers.get("mcp-session-id")

    @property
    def version(self) -> dict[str, str]:
        """The header that names the revision, where the revision has it."""
        return {"MCP-Protocol-Version": self.agreed} if REVISIONS[self.agreed].version_header else {}

    def request(self, method: str, params: Any, id: Any, meta: JsonObject | None = None) -> JsonObject:
        """Return a request, with the envelope of the revision; `meta` stands instead of that."""
        message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if isinstance(params, dict):
            meta = {**self.envelope(), **(params.get("_meta") or {})} if meta is None else meta
            params = {**params, "_meta": meta} if meta else params
        return {**message, "params": params} if params else message

    def ask(
        self,
        method: str,
        params: Any = None,
        *,
        id: Any = None,
        meta: JsonObject | None = None,
        beside: JsonObject | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> JsonObject:
        """Send a request, with more members `beside` the ordinary ones, and give its answer."""
        self._id += 1
        id = f"probe-{self._id}" if id is None else id
        self.send(self.request(method, params or {}, id, meta) | (beside or {}), headers)
        return self.answer(id)

    def answer(self, id: Any) -> JsonObject:
        """Return the answer to the request with that id."""
        return self._first(lambda each: isinstance(each, dict) and "method" not in each and fits(each, {"id": id}))

    def result(self, method: str, params: Any = None, **more: Any) -> JsonObject:
        """Return the result of a request. Raises: Unmet: it is refused."""
        answer = self.ask(method, params, **more)
        expect(isinstance(answer.get("result"), dict), f"{method} is refused: {shown(answer.get('error'))}")
        return answer["result"]  # type: ignore[no-any-return]

    def refused(self, method: str, params: Any, *codes: int, **more: Any) -> JsonObject:
        """Return the error of a request. Raises: Unmet: it has a result, or another code."""
        answer = self.ask(method, params, **more)
        expect(fits(answer, {"error": {"code": [*codes]}}), f"{method}: {shown(answer)}, not {codes}")
        return answer["error"]  # type: ignore[no-any-return]

    def entries(self, kind: str) -> list[JsonObject]:
        """Return the entries of `tools/list` and its like, of at most a hundred pages.

        Raises: NotApplicable: it is refused, which is for the case about declared capabilities.
        """
        found: list[JsonObject] = []
        params: JsonObject = {}
        for _ in range(100):
            answer = self.ask(f"{kind}/list", params)
            if not isinstance(result := answer.get("result"), dict):
                raise NotApplicable(f"{kind}/list is refused: {shown(answer.get('error'))}")
            found += [each for each in result.get(kind) or () if isinstance(each, dict)]
            if not isinstance(result.get("nextCursor"), str):
                break
            params = {"cursor": result["nextCursor"]}
        return found

    def filled(self, value: Any) -> Any:
        """Return a step of a case, with the names in its texts filled in."""
        if isinstance(value, str):
            meta = f'"_meta": {json.dumps(self.envelope())}' if self.stateless else ""
            names = {
                "$revision": self.revision, "$harmless": self.harmless, "$unknown": self.options.unknown, "$meta": meta,
                "$large": _LARGE, "$deep": _DEEP,
            }  # fmt: skip
            for name, text in names.items():
                value = value.replace(name, text)
            return value
        if isinstance(value, dict):
            return {name: self.filled(each) for name, each in value.items()}
        return [self.filled(each) for each in value] if isinstance(value, (list, tuple)) else value

    # -- beginning, and going on

    def open(self) -> None:
        """Begin, as a client does. Raises: Unmet: the revision is not agreed on."""
        if self.stateless:
            self.opening = self.result("server/discover")
            expect(fits(self.opening, {"supportedVersions": {"$has": self.revision}}), "it does not speak it")
            return
        self.opening = self.result("initialize", self.introduction())
        agreed = self.opening.get("protocolVersion")
        expect(agreed == self.revision, f"it agrees on {shown(agreed)}")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def introduction(self) -> JsonObject:
        """Return the params of `initialize`."""
        return {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": PROBE}

    @property
    def harmless(self) -> str:
        """A method that every server answers."""
        return "server/discover" if self.stateless else self.options.harmless

    def goes_on(self) -> list[Any]:
        """See that it still answers; gives what it has said, unasked for, until then."""
        self.ask(self.harmless)
        heard, self.heard = self.heard, []
        return heard
