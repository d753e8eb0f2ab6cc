"""Narrating a trace: each message in words, with what it belongs to, and the page that it stands on.

Spec:      basic/index#messages; basic/utilities/cancellation, basic/utilities/progress; basic/index#_meta,
           basic/patterns/mrtr, basic/patterns/subscriptions (2026-07-28)
Not here:  what a message says by itself (lab/judge/explain); what is recorded (recording/record)

A narrator remembers, for each connection by itself, which requests are open, which progress tokens they have, and which
revision is spoken. In the stateless era every message repeats who sends it: that is told in full once, and a call that
needs input, which takes several requests, is told as the rounds of one call.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from mcp_ref import REVISIONS, JsonObject, Method, Revision
from mcp_ref.facts import METHODS as OF_PAGES
from mcp_ref.facts import TASKS, escaped, messages
from mcp_ref.lab.judge import explain
from mcp_ref.lab.judge.explain import quoted
from mcp_ref.lab.judge.rules import apps
from mcp_ref.lab.judge.rules.seen import (
    OTHER,
    POST_MESSAGE,
    Latest,
    Requests,
    Role,
    Said,
    as_object,
    key,
    recorded_by,
)
from mcp_ref.lab.words import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
)
from mcp_ref.recording.record import TraceEvent, as_text

_MOVED: Final = {
    "basic/utilities/cancellation": "basic/patterns/cancellation",
    "basic/utilities/progress": "basic/patterns/progress",
    "basic/utilities/tasks": "extensions/tasks",
    "basic/transports": "basic/transports/streamable-http",
    "basic/lifecycle": "basic/transports/stdio",  # of it, only how a process ends
}
_CODE: Final = {
    "basic/index": "wire/messages", "server/discover": "pages/basic/versioning",
    "basic/transports": "pages/basic/transports/streamable_http/server", "extensions/apps": "host/apps",
    "basic/transports/streamable-http": "pages/basic/transports/streamable_http/server",
    "basic/utilities/tasks": "pages/basic/tasks", "basic/authorization": "pages/basic/authorization/client",
    "basic/patterns/mrtr": "pages/basic/mrtr", "basic/patterns/subscriptions": "pages/basic/subscriptions",
    **{f"basic/{where}/{name}": "pages/basic/utilities" for where in ("utilities", "patterns")
       for name in ("ping", "cancellation", "progress")},
}  # fmt: skip
_ENVELOPE: Final = (
    "_meta: this request is written in revision {version}",
    ("_meta: the client is {client:implementation} and declares {can:declared}", "_meta: it declares {can:declared}"),
)
_LISTEN: Final = "subscriptions/listen"
_FALLS_BACK: Final = (
    "falls back: server/discover has led to no revision so far, and a server of the session era (legacy) knows "
    "`initialize` alone"
)


_OF_EXTENSIONS: Final = {row.name: row for row in TASKS.rows}
METHODS: Final = {**OF_PAGES, **_OF_EXTENSIONS, **OF_PAGES}
"""Every method that this package knows, those of the protocol first; of two with one name, the protocol's."""


def method_row(name: str, revision: Revision | None) -> Method | None:
    """Return the row of a method in a revision: the protocol's or, if it has none there, an extension's.

    Returns: where the revision is None, or has no such method, the row in `METHODS`; None: nobody knows the method.
    """
    rows = [table[name] for table in (OF_PAGES, _OF_EXTENSIONS) if name in table]
    return next((row for row in rows if revision is None or row.exists_in(revision)), METHODS.get(name))


def page_in(page: str, revision: str) -> str:
    """Return the path of a page in a revision: some moved with the stateless era."""
    return _MOVED.get(page, page) if REVISIONS[revision].era == "stateless" else page


def code_of(page: str | None) -> str | None:
    """Return the module that is a page, such as `mcp_ref/pages/server/tools.py` of `2026-07-28/server/tools`."""
    name = re.sub(r"^\d{4}-\d\d-\d\d/", "", page or "")
    return f"mcp_ref/{_CODE.get(name, f'pages/{name}')}.py" if name else None


@dataclass
class Told:
    """One message in words.

    Attributes:
        request: of a response, what it answers.
        span: the method, and the first event, of the call or subscription of the client that it belongs to.
    """

    head: str
    page: str | None = None
    lines: list[str] = field(default_factory=list)
    failed: bool = False
    request: Said | None = None
    span: tuple[str, int] | None = None


@dataclass
class Repeated:
    """The members that messages of the stateless era repeat, as they were last told; they belong to no connection.

    questions: what a result has asked, with the request that it answered; by `requestState`, or what else tells them.
    """

    envelope: tuple[JsonObject, Any] = field(default_factory=lambda: ({}, None))
    server: Any = None
    complete: bool = False
    questions: Latest[tuple[Said, JsonObject]] = field(default_factory=Latest)


class Talk(Requests):
    """The state of one connection, whose request ids are its own: who records, which revision, what is open."""

    def __init__(self, viewpoint: Role, number: int, repeated: Repeated) -> None:
        super().__init__()
        self.viewpoint, self.number, self.repeated = viewpoint, number, repeated
        self.revision: str | None = None
        # What each exchange over HTTP began with.
        self.exchanges: Latest[str] = Latest()

    def tell(self, sender: Role, message: Any, event: TraceEvent) -> Told:
        """Return a message of an event, or the batch in it, in words."""
        if isinstance(message, list):
            told = [self.tell(sender, each, event) for each in message if not isinstance(each, list)]
            lines = [f"- {each.head}" for each in told]
            page = self.page("basic/index")
            return Told(f"batch of {len(message)}", page, lines, any(each.failed for each in told))
        if isinstance(message, dict) and "method" in message:
            return self._asking(Said(sender, message, event, None), str(message["method"]))
        if isinstance(message, dict) and ("result" in message or "error" in message):
            return self._answer(Said(sender, message, event, None))
        return Told("not a message: it has no method, no result and no error", failed=True)

    def page(self, page: str) -> str:
        """Return the page, with the revision once it is known."""
        return page if self.revision is None else f"{self.revision}/{page_in(page, self.revision)}"

    # -- requests and notifications

    def _asking(self, said: Said, method: str) -> Told:
        self._learn(said.meta.get(PROTOCOL_VERSION))
        kind = "request" if "id" in said.message else "notification"
        lines = [*self._about(said.sender, method, kind), *explain.explain_params(method, said.params)]
        told = Told(f"{kind}: {method}", lines=lines)
        if method == "initialize" and self.revision is not None:
            self._learn(said.params.get("protocolVersion"))
        if kind == "notification":
            told.span = _span(self._listening(said.meta.get(SUBSCRIPTION_ID)))
            told.lines += self._refers(said)
        else:
            told.head = f"request {quoted(said.id)}: {method}"
            self.note_request(said)
            told.lines += [*self._round(said), *self._envelope(said.id, said.meta)]
            told.span = _span(said)
        told.page = self.page(METHODS[method].page) if method in METHODS else None
        return told

    def _about(self, sender: Role, method: str, kind: str) -> Iterator[str]:
        """Yield what the method's row says of it, and what this message does against its row."""
        revision = None if self.revision is None else REVISIONS[self.revision]
        row = method_row(method, revision)
        if row is None:
            yield "not a method of the specification"
            return
        yield row.about
        if row.kind != kind:
            yield f"sent as a {kind}: by the specification it is a {row.kind}"
        allowed = row.sender if revision is None else row.sent_by(revision)
        if allowed not in (sender, "both"):
            yield f"sent by the {sender}: by the specification only the {allowed} sends it"
        if revision is not None and not row.exists_in(revision):
            yield _FALLS_BACK if method == "initialize" else f"does not exist in revision {self.revision}"

    def _refers(self, said: Said) -> Iterator[str]:
        """Yield what a notification is about, as far as that was seen."""
        params, of_server = said.params, said.sender == "server"
        because = f", because {quoted(params['reason'])}" if "reason" in params else ""
        match said.method:
            case "notifications/progress":
                whose, token = _still_open(self.progressing(said)), quoted(params.get("progressToken"))
                name = _name(whose) if whose else f"token {token}, which belongs to no open request,"
                total = f" of {quoted(params['total'])}" if "total" in params else ""
                more = f", {quoted(params['message'])}" if "message" in params else ""
                yield f"{name} is at {quoted(params.get('progress'))}{total}{more}"
            case "notifications/cancelled":
                own, listening = _still_open(self.cancelling(said)), self._listening(params.get("requestId"))
                named = quoted(params.get("requestId"))
                if of_server and listening is not None:
                    yield f"ends the subscription that {_name(listening)} opened{because}; its result follows"
                elif of_server and SUBSCRIPTION_ID in said.meta:
                    yield f"ends the subscription {named}, whose result has said so{because}"
                elif own is None:
                    yield f"gives up {named}, which is not an open request of that side{because}"
                else:
                    own.cancelled = True
                    yield f"gives up {_name(own)}{because}"
            case method if SUBSCRIPTION_ID in said.meta:
                yield from self._tagged(method, params, said.meta[SUBSCRIPTION_ID])

    def _listening(self, name: Any) -> Said | None:
        """Return the request that opened a subscription, if that is open."""
        asked = _still_open(self.asked.get(("client", *key(name))))
        return asked if asked is not None and asked.method == _LISTEN else None

    def _tagged(self, method: str, params: JsonObject, name: Any) -> Iterator[str]:
        """Yield which subscription a notification travels on (2026-07-28/basic/patterns/subscriptions)."""
        asked = self._listening(name)
        if asked is None:
            yield f"tagged with the subscription {quoted(name)}, which is not open"
        elif method == "notifications/subscriptions/acknowledged":
            yield f"the subscription is open, and named after its request: {quoted(name)}"
            wanted, granted = (explain.changes(each.get("notifications")) for each in (asked.params, params))
            if left_out := [change for change in wanted if change not in granted]:
                yield f"asked for, but will not be told: {', '.join(left_out)}"
        else:
            late = ", which was given up: to be ignored" if asked.cancelled else ""
            yield f"tagged with the subscription that {_name(asked)} opened{late}"

    # -- answers

    def _answer(self, said: Said) -> Told:
        message, asked = said.message, _still_open(self.answering(said))
        method, params = (asked.method, asked.params) if asked else (None, None)
        what = "no request that was seen here"
        if asked is not None:
            asked.answered = True
            self._learn(asked.meta.get(PROTOCOL_VERSION))
            took = said.event.time - asked.event.time
            what = f"{method}, after " + (f"{took:.2f} s" if took >= 1 else f"{took * 1000:.1f} ms")
        lines = ["answers a request that was cancelled: to be ignored"] if asked and asked.cancelled else []
        if failed := "error" in message:
            lines += explain.explain_error(message["error"], method)
        else:
            result = as_object(message["result"])
            failed = result.get("isError") is True
            if method == "initialize":
                self._learn(result.get("protocolVersion"))
            lines += explain.explain_result(method, message["result"], params)
            lines += [*self._questions(asked, result), *self._result_type(result)]
        head = f"{'error for' if 'error' in message else 'response to'} {quoted(message.get('id'))}: {what}"
        page = self.page(METHODS[method].page) if method in METHODS else None
        return Told(head, page, lines, failed, asked, _span(asked))

    def _learn(self, revision: Any) -> None:
        if isinstance(revision, str) and revision in REVISIONS:
            self.revision = revision

    # -- what each message of the stateless era repeats (2026-07-28/basic/index#_meta)

    def _envelope(self, request_id: Any, meta: JsonObject) -> Iterator[str]:
        """Yield what a request says of itself in `_meta`: in full, or that it is the same again."""
        keys = {PROTOCOL_VERSION: "version", CLIENT_INFO: "client", CLIENT_CAPABILITIES: "can"}
        said = {name: meta[key] for key, name in keys.items() if key in meta}
        if not said.keys() & {"version", "can"}:
            return
        if LOG_LEVEL in meta:
            yield f"_meta: wants the log messages of this request, from level {quoted(meta[LOG_LEVEL])} on"
        before, where = self.repeated.envelope
        if said == before:
            yield f"_meta as in request {quoted(where)}"
            return
        self.repeated.envelope = said, request_id
        yield from explain.say(_ENVELOPE, said)

    def _result_type(self, result: JsonObject) -> Iterator[str]:
        """Yield lines on the kind of a result, and on the server, where that was not told yet."""
        kind, server = result.get("resultType"), as_object(result.get("_meta")).get(SERVER_INFO)
        if server is not None and server != self.repeated.server:
            self.repeated.server = server
            yield from explain.say(("_meta: the server is {server:implementation}",), {"server": server})
        if kind == "complete" and not self.repeated.complete:
            self.repeated.complete = True
            yield 'resultType "complete": this is the end of the request'
        elif kind == "task":
            yield f'resultType "task", of the extension {TASKS.name}: what the call comes to is fetched later'
        elif kind not in (None, "complete", "input_required"):
            yield f"resultType {quoted(kind)} is not one of the protocol's own"

    # -- calls of several rounds (2026-07-28/basic/patterns/mrtr)

    def _questions(self, asked: Said | None, result: JsonObject) -> Iterator[str]:
        """Yield what a result wants to know before it can be complete."""
        if result.get("resultType") != "input_required":
            return
        requests = as_object(result.get("inputRequests"))
        yield f"not finished: {'the server has to know something first' if requests else 'the client is to try again'}"
        for name, request in requests.items():
            method, params = _question(request)
            yield f"{quoted(name)}: {method}: {'; '.join(explain.explain_params(method, params))}".rstrip(": ")
        parts = ["with another id", "with the answers"] if requests else ["with another id"]
        # It may be encrypted as well, which nobody else can see (2026-07-28/basic/patterns/mrtr#server-requirements).
        state = "with requestState as it came (signed, not encrypted: the server trusts it, anybody can read it)"
        parts += [state] if "requestState" in result else []
        yield f"then the client sends the request again, {', '.join(parts)}"
        if asked is not None:
            place = _place(asked, result.get("requestState"), requests)
            self.repeated.questions[place] = (asked, requests)

    def _round(self, asked: Said) -> Iterator[str]:
        """Yield which round of which call a request is, and what it answers."""
        params = asked.params
        if "inputResponses" not in params and "requestState" not in params:
            return
        given = as_object(params.get("inputResponses"))
        place = _place(asked, params.get("requestState"), given)
        before, requests = self.repeated.questions.get(place, (None, {}))
        if before is None:
            yield "goes on with a call that was asked for input; its earlier rounds were not seen here"
        else:
            asked.round, asked.first, asked.began = before.round + 1, before.first, before.began
            yield f"round {asked.round} of the call that request {quoted(asked.first)} began"
        for name, answer in given.items():
            method, question = _question(requests.get(name))
            told = "; ".join(explain.explain_result(method, answer, question))
            yield f"answers {quoted(name)}: {told or 'with an object'}"
        if unanswered := [quoted(name) for name in requests if name not in given]:
            yield f"leaves open {', '.join(unanswered)}, which will be asked again"
        if "requestState" in params:
            came = "" if before is None else f" as it came with the result for {quoted(before.id)}"
            yield f"requestState goes back{came}"


class ViewTalk(Talk):
    """The conversation of a host with an app that it shows (2026-01-26/extensions/apps)."""

    def tell(self, sender: Role, message: Any, event: TraceEvent) -> Told:
        told = super().tell(sender, message, event)
        told.page = apps.PAGE
        return told

    def _about(self, sender: Role, method: str, kind: str) -> Iterator[str]:
        row = apps.METHODS.get(method)
        if row is None:
            yield "not a method between a host and an app"
            return
        yield row.about
        if row.kind != kind:
            yield f"sent as a {kind}: by the specification it is a {row.kind}"
        if row.sender not in (sender, None):
            yield f"sent by the {sender}: by the specification only the {row.sender} sends it"


def _still_open(asked: Said | None) -> Said | None:
    return asked if asked is not None and messages.is_id(asked.id) and not asked.answered else None


def _span(asked: Said | None) -> tuple[str, int] | None:
    return (asked.method, asked.began) if asked is not None and asked.sender == "client" else None


def _name(asked: Said) -> str:
    return f"request {quoted(asked.id)} ({asked.method})"


def _place(asked: Said, state: Any, keys: JsonObject) -> str:
    """Return the key that the questions of a result, and the answers to them, have in common."""
    if isinstance(state, str):
        return state
    return f"{asked.method} {asked.params.get('name', asked.params.get('uri'))} {sorted(map(str, keys))}"


def _question(request: Any) -> tuple[str, JsonObject]:
    """Return the method and the params of an entry of `inputRequests`."""
    return str(as_object(request).get("method", "")), as_object(as_object(request).get("params"))


# -- narrate ------------------------------------------------------------------------------------------------------


_ARROWS: Final = {"client": "C → S", "server": "C ← S", "view": "V → H", "host": "V ← H", "stderr": "S err"}
_ASCII_ARROWS: Final = {"client": "C>   ", "server": "S<   ", "view": "V>   ", "host": "H<   ", "stderr": "S err"}
_COLORS: Final = {
    "client": "\x1b[36m",
    "server": "\x1b[32m",
    "view": "\x1b[36m",
    "host": "\x1b[32m",
    "stderr": "\x1b[33m",
}
_INDENT: Final = " " * 13
_MIN_WIDTH: Final = 60
_BOLD, _DIM, _RED, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"


class Narrator:
    """Puts the events of a trace into words, one after the other.

    Args:
        width: the most characters of a line, at least 60; longer JSON is cut, sentences are wrapped.
        color: marks heads and failures with ANSI escapes.
        full: shows each message whole, however long.
        ascii: writes nothing but ASCII, for a terminal or a file that takes nothing else.

    Whatever a peer sent, what comes out holds no control characters but line breaks and the escapes of `color`.
    Threads: one at a time; a `Recorder` that has `tell` in its sink sees to that.
    """

    def __init__(
        self,
        *,
        width: int = 100,
        color: bool = False,
        full: bool = False,
        ascii: bool = False,
    ) -> None:
        self._width = max(width, _MIN_WIDTH)
        self._color, self._full, self._ascii = color, full, ascii
        self._talks: Latest[Talk] = Latest()
        self._repeated: dict[tuple[str, str], Repeated] = {}
        self._connections = self._views = 0

    def tell(self, event: TraceEvent) -> str:
        """Return the lines for one event, joined by line breaks, without one at the end."""
        who, told = self.told(event)
        return self._layout(event.seq, who, told, event.message if who != "stderr" else None)

    def told(self, event: TraceEvent) -> tuple[str, Told]:
        """Return who sent it, and the event in words, without a layout.

        Returns: "client", "server", the "stderr" of the server, or, between a host and an app, "view" or "host".
        """
        if event.direction == "stderr":
            return "stderr", Told(str(event.message))
        talk = self._talk(event)
        sender = talk.viewpoint if event.direction == "send" else OTHER[talk.viewpoint]
        http, exchange = event.http or {}, (event.http or {}).get("exchange")
        if event.end is not None:
            told = Told(explain.explain_end(event.end), talk.page("basic/lifecycle"))
        elif event.message is None:
            head, lines = explain.explain_exchange(http, talk.exchanges.get(exchange))
            page = "basic/authorization" if "oauth" in http else "basic/transports"
            told = Told(head, talk.page(page), lines, http.get("status", 0) >= 400)
        else:
            told = talk.tell(sender, event.message, event)
            if "status" not in http and exchange is not None:
                talk.exchanges[exchange] = told.head
        if event.http is not None:
            told.lines += explain.explain_headers(http, beside=event.message is not None)
        if talk.number > 1:
            told.head = f"{'app' if isinstance(talk, ViewTalk) else 'connection'} {talk.number}, {told.head}"
        return sender, told

    def _talk(self, event: TraceEvent) -> Talk:
        """Return the connection of an event."""
        talk = self._talks.get(event.conn)
        if talk is None:
            repeated = self._repeated.setdefault((event.peer, event.transport), Repeated())
            if event.transport == POST_MESSAGE:
                self._views += 1
                talk = ViewTalk("host", self._views, repeated)
            else:
                self._connections += 1
                talk = Talk("server" if event.peer == "client" else "client", self._connections, repeated)
            self._talks[event.conn] = talk
        # The peer's label says which side has recorded, unless who opens shows it.
        talk.viewpoint = recorded_by(event) or talk.viewpoint
        return talk

    # -- layout

    def _layout(self, seq: int, who: str, told: Told, message: Any) -> str:
        head = f"{seq:>4}  {(_ASCII_ARROWS if self._ascii else _ARROWS)[who]}  {told.head}"
        if told.page is None:
            head = self._line(head, self._width)
        else:
            # The page stands at the right end.
            page = f"[{told.page}]"
            room = self._width - len(page) - 2
            ends = "  " if len(head) <= room else "\n" + " " * (self._width - len(page))
            head = self._line(head, self._width).ljust(room) + ends + self._line(page, self._width)
        lines = [self._marked(head, _RED if told.failed else _BOLD + _COLORS[who])]
        for sentence in told.lines:
            parts = textwrap.wrap(sentence, self._width - len(_INDENT), subsequent_indent="  ", break_on_hyphens=False)
            lines += [self._line(_INDENT + part, self._width) for part in parts]
        if message is not None:
            text = as_text(message, separators=(",", ":"))
            lines.append(self._marked(self._line(_INDENT + text, None if self._full else self._width), _DIM))
        return "\n".join(lines)

    def _line(self, text: str, width: int | None) -> str:
        """Return one line, cut to a width (None: not cut), safe to be shown on a terminal."""
        more = "..." if self._ascii else "…"

        def cut(text: str) -> str:
            return text if width is None or len(text) <= width else text[: width - len(more)] + more

        # Cut first, for a message may be long; and again, for escapes are longer than what they stand for.
        text = escaped(cut(text))
        return cut(text.encode("ascii", "backslashreplace").decode() if self._ascii else text)

    def _marked(self, text: str, mark: str) -> str:
        return f"{mark}{text}{_PLAIN}" if self._color else text


def narrate(events: Iterable[TraceEvent], narrator: Narrator | None = None) -> Iterator[str]:
    """Return the lines of each event, as `Narrator.tell` gives them; with a plain `Narrator()` unless one is given."""
    return map((narrator or Narrator()).tell, events)


def narrator_for(out: TextIO, *, full: bool = False) -> Narrator:
    """Return a narrator that suits a stream: as wide as its terminal, in color but for NO_COLOR, in what it can
    encode.
    """
    terminal = out.isatty()
    width = shutil.get_terminal_size().columns if terminal else 120
    color = terminal and "NO_COLOR" not in os.environ
    return Narrator(width=width, color=color, full=full, ascii=not (out.encoding or "utf-8").lower().startswith("utf"))
