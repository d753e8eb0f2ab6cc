"""Telling a trace: for each event who says what to whom, what it answers, and which page describes it.

Spec:      the page of each method, as its row names it; basic/index#messages
Upholds:   nothing by itself: it explains, and checks nothing
Reads:     methods.py (the rows), trace/explain, trace/explain_http, trace/talk, trace/record (the events)
Not here:  what a method's members say (trace/explain), what HTTP does (trace/explain_http), what a message refers to
           (trace/talk); recording (trace/record)

       3  C → S  request 2: tools/list                                  [2025-11-25/server/tools]
                 ask for one page of the tools
                 {"jsonrpc":"2.0","id":2,"method":"tools/list"}
       4  C ← S  response to 2: tools/list, after 0.4 ms                [2025-11-25/server/tools]
                 tools (2): forecast, book
                 {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"forecast","inputSchema":{...
"""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from mcp_ref.basic.versioning import is_modern
from mcp_ref.methods import method_row
from mcp_ref.revisions import REVISIONS
from mcp_ref.trace.explain import explain_error, explain_params, explain_result, quoted
from mcp_ref.trace.explain_http import explain_exchange, explain_headers, failed, title
from mcp_ref.trace.record import TraceEvent
from mcp_ref.trace.talk import OTHER, Asked, Role, Talk

__all__ = ["Narrator", "narrate", "narrator_for"]

JsonObject = dict[str, Any]

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

    It remembers what it was told, for each peer by itself: which request an answer belongs to, and which revision they
    agreed on.

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
        self._talks: dict[tuple[str, str], Talk] = {}

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
        key = (event.peer, event.transport)
        if key not in self._talks:
            self._talks[key] = Talk(self._viewpoint or ("server" if event.peer == "client" else "client"))
        talk = self._talks[key]
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
