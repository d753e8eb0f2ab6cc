"""What the narrator remembers of one connection: what was agreed, what is open, and what a message refers to.

Spec:      basic/index#messages; basic/utilities/cancellation, basic/utilities/progress; basic/index#_meta,
           basic/patterns/mrtr, basic/patterns/subscriptions (2026-07-28)
Not here:  what a message says by itself (trace/explain); the layout (trace/narrate)

Of what every message repeats in the stateless era only the first is told in full: what a request says of its client,
and what a result says of the server. A call that needs input is several requests, told as the rounds of one call.
"""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TextIO

from mcp_ref.basic.versioning import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    is_modern,
)
from mcp_ref.basic.versioning import SUBSCRIPTION_ID as _SUBSCRIPTION
from mcp_ref.messages import JsonObject, id_key, is_id
from mcp_ref.pages import method_row
from mcp_ref.revisions import REVISIONS
from mcp_ref.trace.explain import (
    declared,
    explain_error,
    explain_exchange,
    explain_headers,
    explain_params,
    explain_result,
    failed,
    implementation,
    listened,
    quoted,
    title,
)
from mcp_ref.trace.record import TraceEvent

Role = Literal["client", "server"]

OTHER: Final[dict[Role, Role]] = {"client": "server", "server": "client"}
_MOVED: Final = {
    "basic/utilities/cancellation": "basic/patterns/cancellation",
    "basic/utilities/progress": "basic/patterns/progress",
    "basic/transports": "basic/transports/streamable-http",
}
_TELLING: Final = (PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES)
_LISTEN: Final = "subscriptions/listen"
_MOST_ROUNDS: Final = 1_000
_MOST_TALKS: Final = 10_000


def page_in(page: str, revision: str) -> str:
    """The path of a page in a revision: some moved with the stateless era."""
    return _MOVED.get(page, page) if REVISIONS[revision].era == "stateless" else page


@dataclass
class Asked:
    """A request that was seen, until it is answered; `round` of which call, where it is not the first of it."""

    request_id: Any
    method: str
    params: Any
    time: float
    cancelled: bool = False
    round: int = 1
    first: Any = None

    def __str__(self) -> str:
        return f"request {quoted(self.request_id)} ({self.method})"


@dataclass
class Common:
    """What is known of everything between the same two sides: a request that stands alone has a `Talk` of its own.

    questions: what a result has asked, with the request that it answered; by `requestState`, or what else tells them.
    """

    questions: OrderedDict[str, tuple[Asked, JsonObject]] = field(default_factory=OrderedDict)
    envelope: tuple[JsonObject, Any] | None = None
    server: Any = None
    said: set[str] = field(default_factory=set)


@dataclass
class Talk:
    """What is known of one connection: which side records, what was agreed, what is open. Keys begin with who asked."""

    viewpoint: Role
    common: Common = field(default_factory=Common)
    revision: str | None = None
    asked: dict[Any, Asked] = field(default_factory=dict)
    tokens: dict[Any, Asked] = field(default_factory=dict)

    def page(self, page: str) -> str:
        """The page, with the revision once it is known."""
        return page if self.revision is None else f"{self.revision}/{page_in(page, self.revision)}"

    def learn(self, revision: Any) -> None:
        """Take note of a revision that is spoken."""
        if isinstance(revision, str) and revision in REVISIONS:
            self.revision = revision

    # -- requests and their answers

    def begin(self, sender: Role, asked: Asked) -> None:
        """Remember a request, and the progress token in it."""
        meta = _meta(asked.params)
        self.learn(meta.get(PROTOCOL_VERSION))
        if is_id(asked.request_id):
            self.asked[sender, id_key(asked.request_id)] = asked
        if is_id(meta.get("progressToken")):
            self.tokens[sender, id_key(meta["progressToken"])] = asked

    def answered(self, asker: Role, request_id: Any) -> Asked | None:
        """Take out the request that is answered, and its progress token."""
        if not is_id(request_id):
            return None
        asked = self.asked.pop((asker, id_key(request_id)), None)
        for key in [key for key, value in self.tokens.items() if value is asked]:
            del self.tokens[key]
        return asked

    def refers(self, method: str, sender: Role, params: JsonObject) -> Iterator[str]:
        """What a notification is about, as far as that was seen."""
        if method == "notifications/progress":
            yield self._progress(sender, params)
        elif method == "notifications/cancelled":
            yield self._cancelled(sender, params)
        elif _SUBSCRIPTION in _meta(params):
            yield from self._tagged(method, params)

    def _progress(self, sender: Role, params: JsonObject) -> str:
        token = params.get("progressToken")
        asked = self.tokens.get((OTHER[sender], id_key(token))) if is_id(token) else None
        total = f" of {quoted(params['total'])}" if "total" in params else ""
        message = f", {quoted(params['message'])}" if "message" in params else ""
        whose = asked or f"token {quoted(token)}, of no open request,"
        return f"{whose} is at {quoted(params.get('progress'))}{total}{message}"

    def _cancelled(self, sender: Role, params: JsonObject) -> str:
        request_id = params.get("requestId")
        reason = f", because {quoted(params['reason'])}" if "reason" in params else ""
        asked = self.asked.get((sender, id_key(request_id))) if is_id(request_id) else None
        theirs = self.asked.get((OTHER[sender], id_key(request_id))) if is_id(request_id) else None
        if theirs is not None and theirs.method == _LISTEN and sender == "server":
            return f"ends the subscription that {theirs} has opened{reason}; its result follows"
        if sender == "server" and _SUBSCRIPTION in _meta(params):
            return f"ends the subscription {quoted(request_id)}, whose result has said so{reason}"
        if asked is None:
            return f"gives up {quoted(request_id)}, no open request of that side{reason}"
        asked.cancelled = True
        return f"gives up {asked}{reason}"

    # -- subscriptions (2026-07-28/basic/patterns/subscriptions)

    def _tagged(self, method: str, params: JsonObject) -> Iterator[str]:
        """Which subscription a notification travels on."""
        name = _meta(params)[_SUBSCRIPTION]
        asked = self.asked.get(("client", id_key(name))) if is_id(name) else None
        if asked is None or asked.method != _LISTEN:
            yield f"tagged with the subscription {quoted(name)}, which is not open"
            return
        if method == "notifications/subscriptions/acknowledged":
            wanted, given = ([*listened(each)] for each in (asked.params, params))
            yield f"the subscription is open; it is named after its request: {quoted(name)}"
            if left_out := [what for what in wanted if what not in given]:
                yield f"not of {', '.join(left_out)}, which was asked for too"
        else:
            late = ", which was given up: to be ignored" if asked.cancelled else ""
            yield f"tagged with the subscription that {asked} has opened{late}"

    # -- what each message of the stateless era says (2026-07-28/basic/index#_meta)

    def envelope_of(self, request_id: Any, params: Any) -> Iterator[str]:
        """What a request says of itself in `_meta`: in full, or that it is the same again."""
        meta = _meta(params)
        told: JsonObject = {key: meta[key] for key in _TELLING if key in meta}
        if PROTOCOL_VERSION not in told and CLIENT_CAPABILITIES not in told:
            return
        if LOG_LEVEL in meta:
            yield f"_meta: wants the log messages of this request, from level {quoted(meta[LOG_LEVEL])} on"
        if self.common.envelope is not None and self.common.envelope[0] == told:
            yield f"_meta as in request {quoted(self.common.envelope[1])}"
            return
        self.common.envelope = (told, request_id)
        yield f"_meta: this request is written in revision {quoted(told.get(PROTOCOL_VERSION))}"
        can = declared({"capabilities": told.get(CLIENT_CAPABILITIES)})
        yield f"_meta: the client is {implementation(told.get(CLIENT_INFO))} and declares {can}"

    def kind_of(self, result: Any) -> Iterator[str]:
        """What a result says of itself: of which kind it is, and who the server is, where that was not told yet."""
        if not isinstance(result, dict):
            return
        kind, server = result.get("resultType"), _meta(result).get(SERVER_INFO)
        if server is not None and server != self.common.server:
            self.common.server = server
            yield f"_meta: the server is {implementation(server)}"
        if kind == "complete" and kind not in self.common.said:
            self.common.said.add(kind)
            yield 'resultType "complete": this is the end of the request'
        elif kind not in (None, "complete", "input_required"):
            yield f"resultType {quoted(kind)}: none of the protocol's own"

    # -- calls of several rounds (2026-07-28/basic/patterns/mrtr)

    def asks_first(self, asked: Asked | None, result: Any) -> Iterator[str]:
        """What a result wants to know before it can be one."""
        if not isinstance(result, dict) or result.get("resultType") != "input_required":
            return
        requests = result.get("inputRequests")
        requests = requests if isinstance(requests, dict) else {}
        yield f"not finished: {'the server has to know something first' if requests else 'but nothing is asked'}"
        for key, request in requests.items():
            method, params = _question(request)
            yield f"{quoted(key)}: {method}: {'; '.join(explain_params(method, params))}".rstrip(": ")
        back = ["with the answers"] if requests else []
        back += ["with requestState as it came (only the server can read it)"] if "requestState" in result else []
        yield f"then the client sends the request again, {', '.join(['with another id', *back])}"
        if asked is not None:
            self.common.questions[_place(asked.method, asked.params, result.get("requestState"), requests)] = (
                asked,
                requests,
            )
            if len(self.common.questions) > _MOST_ROUNDS:
                self.common.questions.popitem(last=False)

    def round_of(self, asked: Asked) -> Iterator[str]:
        """Which round of which call a request is, and what it answers."""
        params = asked.params if isinstance(asked.params, dict) else {}
        if "inputResponses" not in params and "requestState" not in params:
            return
        given = params.get("inputResponses")
        given = given if isinstance(given, dict) else {}
        place = _place(asked.method, params, params.get("requestState"), given)
        before, requests = self.common.questions.get(place, (None, {}))
        if before is None:
            yield "goes on with a call that was asked for input; its earlier rounds were not seen here"
        else:
            first = before.request_id if before.first is None else before.first
            asked.round, asked.first = before.round + 1, first
            yield f"round {asked.round} of the call that request {quoted(first)} began"
        for key, answer in given.items():
            method, question = _question(requests.get(key))
            yield f"answers {quoted(key)}: {'; '.join(explain_result(method, answer, question)) or 'with an object'}"
        if unanswered := [quoted(key) for key in requests if key not in given]:
            yield f"leaves open {', '.join(unanswered)}, which will be asked again"
        if "requestState" in params:
            came = "" if before is None else f" as it came with the result for {quoted(before.request_id)}"
            yield f"requestState goes back{came}"


def _place(method: str, params: Any, state: Any, keys: JsonObject) -> str:
    """What the questions of a result, and the answers to them, have in common."""
    if isinstance(state, str):
        return state
    params = params if isinstance(params, dict) else {}
    return f"{method} {params.get('name', params.get('uri'))} {sorted(map(str, keys))}"


def _question(request: Any) -> tuple[str, JsonObject]:
    """The method and the params of an entry of `inputRequests`."""
    request = request if isinstance(request, dict) else {}
    params = request.get("params")
    return str(request.get("method", "")), params if isinstance(params, dict) else {}


def _meta(holder: Any) -> JsonObject:
    meta = holder.get("_meta") if isinstance(holder, dict) else None
    return meta if isinstance(meta, dict) else {}


# -- narrate ---------------------------------------------------------------------------------------------


_ARROWS: Final = {"client": "C → S", "server": "C ← S", "stderr": "S err"}
_ASCII_ARROWS: Final = {"client": "C>   ", "server": "S<   ", "stderr": "S err"}
_INDENT: Final = " " * 13
_NARROWEST: Final = 60
_BOLD, _DIM, _RED, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"


@dataclass
class _Told:
    """One message in words."""

    head: str
    page: str | None = None
    lines: list[str] = field(default_factory=list)
    failed: bool = False


class Narrator:
    """Puts the events of a trace into words, one after the other.

    It remembers, for each connection by itself, which request an answer belongs to and which revision was agreed on.

    Args:
        viewpoint: the role of the side that recorded; None: learned from the peer's label and from who initializes.
        width: the most characters of a line, at least 60; longer JSON is cut, sentences are wrapped.
        color: marks heads and failures with ANSI escapes.
        full: shows each message whole, however long.
        ascii: writes nothing but ASCII, for a terminal or a file that takes no more.

    Whatever a peer sent, what comes out holds no control characters but line breaks and the escapes of `color`.
    Threads: one at a time; a `Recorder` that has `tell` in its sink sees to that.
    """

    def __init__(
        self,
        *,
        viewpoint: Role | None = None,
        width: int = 100,
        color: bool = False,
        full: bool = False,
        ascii: bool = False,
    ) -> None:
        self._viewpoint = viewpoint
        self._width = max(width, _NARROWEST)
        self._color = color
        self._full = full
        self._ascii = ascii
        self._talks: OrderedDict[Any, Talk] = OrderedDict()
        self._common: dict[tuple[str, str], Common] = {}

    def tell(self, event: TraceEvent) -> str:
        """The lines for one event, joined by line breaks, without one at the end."""
        talk = self._talk(event)
        if event.direction == "stderr":
            return self._layout(event.seq, "stderr", _Told(str(event.message)), None)
        sender = talk.viewpoint if event.direction == "send" else OTHER[talk.viewpoint]
        told = _carried(talk, event.http) if event.message is None else _tell(talk, sender, event.message, event.time)
        if event.http is not None:
            told.lines += explain_headers(event.http, beside=event.message is not None)
        return self._layout(event.seq, sender, told, event.message)

    # -- state

    def _talk(self, event: TraceEvent) -> Talk:
        # Ids belong to one connection. A file without such numbers can hold one for each peer, or is told wrongly.
        sides = (event.peer, event.transport)
        key = sides if event.conn is None else event.conn
        if key not in self._talks:
            common = self._common.setdefault(sides, Common())
            self._talks[key] = Talk(self._viewpoint or ("server" if event.peer == "client" else "client"), common)
            if len(self._talks) > _MOST_TALKS:
                self._talks.popitem(last=False)
        talk = self._talks[key]
        self._talks.move_to_end(key)
        message = event.message
        if self._viewpoint is None and _opens(message):
            talk.viewpoint = "client" if event.direction == "send" else "server"
        return talk

    # -- layout

    def _layout(self, seq: int, who: str, told: _Told, message: Any) -> str:
        arrow = (_ASCII_ARROWS if self._ascii else _ARROWS)[who]
        head = self._head(f"{seq:>4}  {arrow}  ", told)
        lines = [part for line in told.lines for part in self._wrapped(line)]
        if message is not None:
            lines.append(self._marked(self._json(message), _DIM))
        return "\n".join([self._marked(head, _RED if told.failed else _BOLD), *lines])

    def _head(self, start: str, told: _Told) -> str:
        """The first line, with the page at its right end where there is one."""
        if told.page is None:
            return self._line(start + told.head)
        page = f"[{told.page}]"
        room = self._width - len(page) - 2
        return self._line(start + told.head, room).ljust(room) + "  " + self._line(page)

    def _wrapped(self, text: str) -> list[str]:
        """A sentence on as many lines as it takes."""
        hanging = _INDENT + "  "
        wrapped = textwrap.wrap(
            text, self._width, initial_indent=_INDENT, subsequent_indent=hanging, break_on_hyphens=False
        )
        return [self._line(part) for part in wrapped]

    def _json(self, message: Any) -> str:
        try:
            text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=repr)
        except RecursionError:
            text = "[nested too deeply to be shown]"
        return self._line(_INDENT + text, None if self._full else self._width)

    def _line(self, text: str, width: int | None = 0) -> str:
        """One line, cut to a width (None: not cut; 0: that of the narrator), safe to be shown on a terminal."""
        # Cut first, for a message may be long; and again, for escapes are longer than what they stand for.
        text = self._cut(text, width)
        if not text.isprintable():
            text = "".join(char if char.isprintable() else _escaped(char) for char in text)
        if self._ascii:
            text = text.encode("ascii", "backslashreplace").decode()
        return self._cut(text, width)

    def _cut(self, text: str, width: int | None) -> str:
        room = len(text) if width is None else width or self._width
        more = "..." if self._ascii else "…"
        return text if len(text) <= room else text[: room - len(more)] + more

    def _marked(self, text: str, mark: str) -> str:
        return f"{mark}{text}{_PLAIN}" if self._color else text


def narrate(events: Iterable[TraceEvent], narrator: Narrator | None = None) -> Iterator[str]:
    """The lines of each event, as `Narrator.tell` gives them; with a plain `Narrator()` unless one is given."""
    narrator = narrator or Narrator()
    for event in events:
        yield narrator.tell(event)


def narrator_for(out: TextIO, *, full: bool = False) -> Narrator:
    """A narrator that suits a stream: as wide as its terminal, in color but for NO_COLOR, in what it can encode."""
    terminal = out.isatty()
    width = shutil.get_terminal_size().columns if terminal else 120
    encoding = (out.encoding or "utf-8").lower()
    color = terminal and "NO_COLOR" not in os.environ
    return Narrator(width=width, color=color, full=full, ascii=not encoding.startswith("utf"))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def _opens(message: Any) -> bool:
    """Whether only a client can have sent it: the opening of the session era, or a request that stands alone."""
    if not isinstance(message, dict) or "id" not in message:
        return False
    method = message.get("method")
    return isinstance(method, str) and (method == "initialize" or is_modern(method, message.get("params")))


# -- messages -----------------------------------------------------------------------------------------------------


def _tell(talk: Talk, sender: Role, message: Any, at: float) -> _Told:
    if isinstance(message, list):
        return _batch(talk, sender, message, at)
    if not isinstance(message, dict):
        return _Told("not a message: this is neither an object nor a batch of them", failed=True)
    if "method" in message:
        return _request(talk, sender, message, at) if "id" in message else _notification(talk, sender, message)
    if "result" in message or "error" in message:
        return _answer(talk, sender, message, at)
    return _Told("not a message: it has neither method nor result nor error", failed=True)


def _carried(talk: Talk, http: JsonObject | None) -> _Told:
    """What HTTP does without a message."""
    http = http or {}
    return _Told(title(http), talk.page("basic/transports"), [*explain_exchange(http)], failed(http))


def _batch(talk: Talk, sender: Role, members: list[Any], at: float) -> _Told:
    told = [_tell(talk, sender, member, at) for member in members if not isinstance(member, list)]
    lines = [f"- {one.head}" for one in told]
    return _Told(f"batch of {len(members)}", talk.page("basic/index"), lines, any(one.failed for one in told))


def _request(talk: Talk, sender: Role, message: JsonObject, at: float) -> _Told:
    method, params = str(message["method"]), message.get("params")
    asked = Asked(message["id"], method, params, at)
    talk.begin(sender, asked)
    lines = [*_about(talk, sender, method, "request"), *explain_params(method, params), *talk.round_of(asked)]
    lines += talk.envelope_of(message["id"], params)
    return _Told(f"request {quoted(message['id'])}: {method}", _page_of(talk, method), lines)


def _notification(talk: Talk, sender: Role, message: JsonObject) -> _Told:
    method, params = str(message["method"]), message.get("params")
    lines = [*_about(talk, sender, method, "notification"), *explain_params(method, params)]
    if isinstance(params, dict):
        lines += talk.refers(method, sender, params)
    return _Told(f"notification: {method}", _page_of(talk, method), lines)


def _answer(talk: Talk, sender: Role, message: JsonObject, at: float) -> _Told:
    asked = talk.answered(OTHER[sender], message.get("id"))
    what, failed = ("error for", True) if "error" in message else ("response to", False)
    head = f"{what} {quoted(message.get('id'))}: {_whom(asked, at)}"
    method = asked.method if asked else None
    if method == "initialize" and isinstance(message.get("result"), dict):
        talk.learn(message["result"].get("protocolVersion"))
    lines = ["answers a request that was cancelled; to be ignored"] if asked and asked.cancelled else []
    if failed:
        lines += explain_error(message["error"])
    else:
        result = message["result"]
        failed = isinstance(result, dict) and result.get("isError") is True
        lines += [*explain_result(method, result, asked.params if asked else None), *talk.asks_first(asked, result)]
        lines += talk.kind_of(result)
    return _Told(head, _page_of(talk, method) if method else None, lines, failed)


def _whom(asked: Asked | None, at: float) -> str:
    if asked is None:
        return "no request that was seen here"
    return f"{asked.method}, after {_span(at - asked.time)}"


def _span(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


# -- rows and pages -----------------------------------------------------------------------------------------------


def _about(talk: Talk, sender: Role, method: str, kind: str) -> Iterator[str]:
    """What the method's row says of it, and what this message does against its row."""
    row = method_row(method)
    if row is None:
        yield "no method of the specification"
        return
    yield row.about
    if row.kind != kind:
        yield f"sent as a {kind}: by the specification it is a {row.kind}"
    revision = None if talk.revision is None else REVISIONS[talk.revision]
    allowed = row.sender if revision is None else row.sent_by(revision)
    if allowed not in (sender, "both"):
        yield f"sent by the {sender}: by the specification only the {allowed} sends it"
    if revision is not None and not row.exists_in(revision):
        yield f"does not exist in revision {talk.revision}"


def _page_of(talk: Talk, method: str) -> str | None:
    row = method_row(method)
    return None if row is None else talk.page(row.page)
