"""Judging traffic: which sentences of the specification the events of a trace break, and who broke them.

Spec:      every page, in the revision that is spoken
Not here:  the rules (lab/judge/rules), asking them (lab/judge/rulebook), what is remembered (lab/judge/learning); their
           sentences (sentences.json, made from spec_notes/rules.jsonl); standing between two peers (lab/judge/relay)

    checker = Checker()
    for event in read_trace("trace.jsonl"):
        for finding in checker.feed(event):
            print(finding)

One fault gives one finding. What a finding has touched is silent afterwards: a request in which something was found is
remembered, and of its answer only what a server owes to such a request is asked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from mcp_ref import REVISIONS, STATELESS_REVISIONS, JsonObject, Refusal, RemoteProtocolError, Revision
from mcp_ref.facts import METHODS, declares, is_stateless, messages
from mcp_ref.lab.judge import learning
from mcp_ref.lab.judge.rulebook import Finding, Place, Rulebook
from mcp_ref.lab.judge.rules import session
from mcp_ref.lab.judge.rules.apps import PAGE, View, shows_apps
from mcp_ref.lab.judge.rules.seen import (
    OTHER,
    POST_MESSAGE,
    Exchange,
    Kind,
    Known,
    Latest,
    Link,
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
from mcp_ref.recording.record import TraceEvent

_SSE: Final = REVISIONS["2024-11-05"]
_MAX_TEXT: Final = 200  # lines that may be one message with line breaks in it


class Checker:
    """Judges events, from a file or as they happen. It does no I/O and has no threads.

    Attributes:
        skipped: the rules that were not asked of some message, and why: "revision unknown" or "redacted". It is
            complete after `end`.
        spoken: how many messages there were in each revision; "" for those of which it is not known.

    Args:
        revision: the revision that is spoken where the traffic does not say it; None: unknown.
        whole: whether connections are seen from their beginning, whatever they begin with: as when standing between.

    Threads: one at a time.
    """

    def __init__(self, revision: str | None = None, *, whole: bool = False) -> None:
        self._revision = None if revision is None else REVISIONS[revision]
        self._whole = whole
        self._links: Latest[Link] = Latest()
        self._shared: Latest[Known] = Latest()  # by the two sides
        self._lone: Latest[Link | None] = Latest()  # the client that began last; None: several, without a session id
        self._views: Latest[View] = Latest()  # by the number of the connection, too
        self._rules = Rulebook()
        self.skipped = self._rules.skipped
        self.spoken: Counter[str] = Counter()

    @property
    def applied(self) -> Counter[tuple[str, str, Role]]:
        """Return how often each rule was asked: by its name, a sentence in the revision spoken, and who has sent it."""
        return self._rules.applied

    def feed(self, event: TraceEvent) -> list[Finding]:
        """Return the findings about the event; or, by what it shows, about an earlier one."""
        found = self._rules.findings = []
        if event.direction == "stderr":
            return found
        try:
            if event.transport == POST_MESSAGE:
                self._take_of_view(event)
                return found
            link = self._link(event)
            sender: Role = link.viewpoint if event.direction == "send" else OTHER[link.viewpoint]
            match event.end, event.http:
                case dict() as end, _:
                    link.closed = link.closed or end.get("eof") == "client"
                    if "signal" in end:
                        self._rules.ask("exit", link, Place(event, sender, self._spoken(link)), event)
                case _, None:
                    self._take(link, sender, event, None)
                case _, dict() as http if not http.keys() & {"path", "oauth"}:
                    self._take_http(link, sender, event, http)
                # Other paths, and what is said to an authorization server, stand beside the protocol; the metadata is
                # the server's own.
                case _, dict() as http if "protected" in str(http.get("what")) and http.get("status") == 200:
                    self._judge_later(link, "metadata", as_object(http["oauth"]), event)
        except RecursionError:
            self._rules.blame_checker(event, "nested too deeply to be judged", "nesting")
        return found

    def end(self) -> list[Finding]:
        """Return the findings about connections, once the last event has come."""
        found = self._rules.findings = []
        self._rules.end()
        for link in dict.fromkeys(self._links.values()):
            for sender in link.text:
                self._text_is_over(link, sender)
            last = TraceEvent(link.seq, 0.0, "", "send", "", None, link.transport, None, None)
            at = Place(last, link.viewpoint, self._spoken(link))
            self._rules.ask("end", link, at, last)
            for request in link.asked.values():
                if request.needs and not request.answered and not link.lost and not request.faults:
                    expected = f"nothing: {request.needs} was not declared"
                    self._rules.found("only_what_was_negotiated", request, expected, at)
        return found

    def _take_of_view(self, event: TraceEvent) -> None:
        """Take a message between a host and an app."""
        if (view := self._views.get(event.conn)) is None:
            view = self._views[event.conn] = View()
        message, sender = as_object(event.message), _OF_VIEWS[event.direction]
        said = Said(sender, message, event, None)
        said.belongs(None if said.method else view.answering(said), None)
        self.spoken[PAGE.partition("/")[0]] += 1
        view.whole = said.method == "ui/initialize" if view.whole is None else view.whole
        self._rules.ask("view", view, Place(event, sender, None, said.about), said)
        view.learn(said)

    # -- connections

    def _link(self, event: TraceEvent) -> Link:
        if (link := self._links.get(event.conn)) is None:
            sides = (event.peer, event.transport)
            if (shared := self._shared.get(sides)) is None:
                shared = self._shared[sides] = Known()
            side: Role = "server" if event.peer == "client" else "client"
            link = self._joined(sides, event) or Link(side, event.transport, shared, self._whole)
            self._links[event.conn] = link
            if event.http is not None and as_object(event.message).get("method") == "initialize":
                before = self._lone.get(sides, link)
                self._lone[sides] = link if before is link or (before and before.session_id) else None
                shared.several = shared.several or self._lone[sides] is None
        if not link.settled and (role := recorded_by(event)) is not None:
            link.settled, link.viewpoint, link.whole = True, role, link.whole or not link.began
        link.began = link.began or event.message is not None
        link.seq = event.seq
        return link

    def _joined(self, sides: tuple[str, str], event: TraceEvent) -> Link | None:
        """Return the connection of a client whose server gives no session id: a request by itself belongs to it.

        That is so until another client begins, for nothing tells the two apart.
        """
        headers, message = as_object((event.http or {}).get("headers")), as_object(event.message)
        method = str(message.get("method"))
        alone = headers.keys() & {"mcp-session-id", "mcp-method"} or is_stateless(method, message.get("params"))
        if sides not in self._lone or alone or method == "initialize":
            return None
        link = self._lone[sides]
        if link is None:
            self._rules.skipped.update(dict.fromkeys(_OF_A_SESSION, "several clients without a session id"))
        return link if link and link.introduced and link.session_id is None else None

    def _spoken(self, link: Link, exchange: Exchange | None = None) -> Revision | None:
        """Return the revision of what does not say it."""
        if link.sse:
            return _SSE
        body = None if exchange is None else exchange.body
        revision = (body and body.revision) or link.revision or link.stateless
        if revision is None and exchange is not None:
            revision = REVISIONS.get(exchange.header("mcp-protocol-version") or "")
        return revision or self._revision

    # -- HTTP

    def _take_http(self, link: Link, sender: Role, event: TraceEvent, facts: JsonObject) -> None:
        number = facts.get("exchange", -event.seq)
        exchange = link.exchanges.get(number)
        if exchange is not None:
            self._take_more(link, sender, exchange, event, facts)
        elif sender == "server" or facts.keys() & {"hangUp", "end", "status"}:
            self._take(link, sender, event, None)  # it belongs to a request that was not seen
        else:
            exchange = Exchange(number, facts.get("method", ""), facts.get("headers", {}), event.seq, event.time)
            link.exchanges[number] = exchange
            self._take_request_over_http(link, sender, exchange, event)

    def _take_request_over_http(self, link: Link, sender: Role, exchange: Exchange, event: TraceEvent) -> None:
        if not isinstance(event.message, list):
            self._take(link, sender, event, exchange)
            self._judge_head(link, exchange, event)
            return
        # The messages of a batch are looked at after its head.
        broken = self._judge_batch(link, sender, event, exchange) | self._judge_head(link, exchange, event)
        link.unread += len(event.message) if broken else 0
        for each in () if broken else event.message:
            self._take_message(link, sender, each, event, exchange)

    def _take_more(self, link: Link, sender: Role, exchange: Exchange, event: TraceEvent, facts: JsonObject) -> None:
        """Take what comes after the request: the reply, an event of it, its end."""
        again = link.event_ids.get(str(facts.get("eventId")))
        self._take_reply(link, sender, exchange, event, facts)
        if again is not None and again[1] == event.message and exchange.header("last-event-id") is not None:
            # A stream that is resumed repeats what was lost: it is the message that was judged before.
            return
        refuses = (exchange.status or 0) >= 300
        # Whoever asks nothing gets no answer, which the head says; and what refuses may be any document.
        foreign = (refuses or exchange.faults) and "jsonrpc" not in as_object(event.message)
        if exchange.streams or not foreign and (refuses or exchange.requests):
            self._take(link, sender, event, exchange)
        if "status" in facts:
            exchange.events += event.message is not None
            if refuses:
                learning.refused(link, exchange)

    def _judge_head(self, link: Link, exchange: Exchange, event: TraceEvent) -> set[str]:
        """Judge the method and the headers of a request, after its message; gives the rules that it breaks."""
        body, revision = exchange.body, self._spoken(link, exchange)
        if revision is None and exchange.method == "GET":
            return set()
        if revision is not None and revision.era == "stateless" and exchange.method != "POST" and event.message is None:
            return set()
        if body is not None and body.faults:
            return set()
        broken = self._judge_exchange("head", link, exchange, event)
        exchange.faults |= broken
        if body is not None:
            body.faults |= broken
        return broken

    def _judge_exchange(self, kind: Kind, link: Link, exchange: Exchange, event: TraceEvent) -> set[str]:
        sender: Role = "client" if kind == "head" else "server"
        method = "" if exchange.body is None else exchange.body.method
        at = Place(event, sender, self._spoken(link, exchange), method)
        return self._rules.ask(kind, link, at, exchange, event)

    def _take_reply(self, link: Link, sender: Role, exchange: Exchange, event: TraceEvent, facts: JsonObject) -> None:
        """Take a status, an event of a stream, its end, or a client that hangs up."""
        if "hangUp" in facts:
            if (request := link.asked.get(("client", *key(facts["hangUp"])))) is not None:
                request.cancelled = True
            return
        if "end" in facts:
            exchange.closed, exchange.ended = str(facts["end"]), event.time
            revision = self._spoken(link, exchange)
            if revision is not None and revision.era == "stateless":
                self._judge_exchange("closed", link, exchange, event)
            elif exchange.requests:
                link.cut.append((exchange, event))
            return
        if "status" not in facts or sender == "client":
            return
        if facts.get("event") == "endpoint":
            link.sse = exchange.primed = True
        if exchange.status is None:
            self._take_status(link, exchange, event, facts)
        if not exchange.streams:
            return
        exchange.retry = facts.get("retry", exchange.retry)
        exchange.faults |= self._judge_exchange("event", link, exchange, event)
        exchange.primed = exchange.primed or (event.message is None and "eventId" in facts)
        if "eventId" in facts:
            exchange.last_event = str(facts["eventId"])
            link.event_ids[exchange.last_event] = exchange.number, event.message
        if "id" in as_object(event.message):
            link.delivered[messages.encode(as_object(event.message))] = exchange.number

    def _take_status(self, link: Link, exchange: Exchange, event: TraceEvent, facts: JsonObject) -> None:
        """Take the head of a reply."""
        status: int = facts["status"]
        exchange.status, exchange.answers = status, facts.get("headers", {})
        exchange.streams = exchange.answers.get("content-type", "").startswith("text/event-stream")
        learning.from_reply(link, exchange)
        if status == 401 or "www-authenticate" in exchange.answers:
            self._judge_later(link, "challenge", exchange, event)
        if status < 300 and exchange.method in ("GET", "POST"):
            # The session goes on, so it was not its end that has ended a stream before.
            while link.cut and link.cut[0][1].seq < exchange.seq:
                self._judge_exchange("closed", link, *link.cut.popleft())
        if "headers" in facts:
            when: Kind = "rebuff" if exchange.faults else "reply"
            exchange.faults |= self._judge_exchange(when, link, exchange, event)

    def _judge_later(self, link: Link, kind: Kind, what: Any, event: TraceEvent) -> None:
        """Judge what the server says of authorization, as soon as the revision that it speaks is known."""
        link.shared.waiting.append((kind, what, event))
        self._judge_waiting(link)

    def _judge_waiting(self, link: Link) -> None:
        revision = link.revision or (link.stateless if link.shared.spoke else None)
        while revision is not None and link.shared.waiting:
            kind, what, event = link.shared.waiting.popleft()
            self._rules.ask(kind, link, Place(event, "server", revision), what, event)

    # -- what an event carries

    def _take(self, link: Link, sender: Role, event: TraceEvent, exchange: Exchange | None) -> None:
        """Take a message, a batch, text that is neither, or nothing."""
        match event.message:
            case None:
                return
            case dict() as message:
                self._take_message(link, sender, message, event, exchange)
            case list() as batch:
                # What answers a batch that was found may be one, too.
                if (sender == "client" or not link.unread) and self._judge_batch(link, sender, event, exchange):
                    link.unread += len(batch) if sender == "client" else 0
                    return
                for each in batch:
                    self._take_message(link, sender, each, event, exchange)
            case _:
                # The body of a refusal may be any text.
                is_json = exchange is not None and "json" in exchange.answers.get("content-type", "")
                succeeds = exchange is not None and (exchange.status or 0) < 300
                if sender == "client" or exchange is None or exchange.streams or (is_json and succeeds):
                    self._take_text(link, sender, event)

    def _judge_batch(self, link: Link, sender: Role, event: TraceEvent, exchange: Exchange | None) -> set[str]:
        revision = self._spoken(link, exchange)
        for each in event.message if isinstance(event.message, list) else ():
            if as_object(each).get("method") == "initialize":
                revision = REVISIONS.get(str(as_object(each.get("params")).get("protocolVersion")), revision)
        broken = self._rules.ask("batch", link, Place(event, sender, revision), sender, event)
        if broken:
            link.garbled.add(sender)
        return broken

    def _take_text(self, link: Link, sender: Role, event: TraceEvent) -> None:
        text = str(event.message)
        link.garbled.add(sender)
        link.unread += sender == "client"
        if text.startswith("[nested too deeply"):
            raise RecursionError
        with suppress(ValueError):
            # What is too deep for us is a message all the same.
            json.loads(text if text.rstrip().endswith(("}", "]")) else "")
        # A message that was printed over several lines begins so, and none of its lines is one.
        begins = text.lstrip()[:1] in ("{", "[") and text.rstrip()[-1:] not in ("}", "]")
        waiting = link.text[sender]
        if not waiting and not begins:
            self._judge_text(link, sender, event)
            return
        waiting.append(event)
        joined = "\n".join(str(each.message) for each in waiting)
        try:
            whole = isinstance(json.loads(joined), dict)
        except (ValueError, RecursionError):
            whole = False
        if whole:
            link.text[sender] = []
            self._judge_text(link, sender, waiting[0]._replace(message=joined))
        elif len(waiting) > _MAX_TEXT:
            self._text_is_over(link, sender)

    def _text_is_over(self, link: Link, sender: Role) -> None:
        """Judge the texts that could have been the beginning of a message, and were not."""
        waiting, link.text[sender] = link.text[sender], []
        for event in waiting:
            self._judge_text(link, sender, event)

    def _judge_text(self, link: Link, sender: Role, event: TraceEvent) -> None:
        self._rules.ask("text", link, Place(event, sender, self._spoken(link)), sender, event)

    # -- messages

    def _take_message(
        self, link: Link, sender: Role, message: Any, event: TraceEvent, exchange: Exchange | None
    ) -> None:
        if link.text[sender]:
            self._text_is_over(link, sender)
        if not isinstance(message, dict):
            link.garbled.add(sender)
            self._judge_text(link, sender, event)
            return
        # 1. To what it belongs.
        said = Said(sender, message, event, exchange)
        answers, request = "method" not in message, None
        if answers:
            request = link.answering(said)
            if said.id is None and sender == "server" and exchange is not None and exchange.requests:
                request = exchange.body  # an error without an id answers what was posted
        said.belongs(request, self._revision_of(link, said, request))
        self.spoken[str(said.revision or "")] += 1
        if exchange is not None and exchange.body is None and sender == "client":
            exchange.body = said
        # 2. Its frame.
        if not _is_framed(message):
            self._rules.judge("frame", link, said)
            link.garbled.add(sender)
        if not said.faults and said.own_meta and not _OWN_KEYS.issuperset(said.own_meta):
            self._rules.judge("meta", link, said)
        if event.raw is not None:
            self._rules.judge("raw", link, said)
        # 3. What it is for.
        if answers:
            self._take_answer(link, said, request)
        elif said.method and "id" in message:
            self._take_request(link, said)
        elif said.method and not said.faults:
            said.needs = _undeclared(link, said, said.sender)
            self._rules.judge("notification", link, said)
            learning.from_notification(link, said)
        if not said.faults and shows_apps(link, said):
            self._rules.judge("app", link, said)
        if said.faults and not said.method and request is None and (sender, *said.key) not in link.asked:
            said.answered = True
            link.asked[(sender, *said.key)] = said  # an error may have its id

    def _revision_of(self, link: Link, said: Said, request: Said | None) -> Revision | None:
        if request is not None and request.method == "initialize":
            if "error" in said.message and link.shared.supported:
                return _stateless(*link.shared.supported)
            return REVISIONS.get(str(said.result.get("protocolVersion")), request.revision)
        if request is not None:
            return request.revision
        if said.method == "initialize":
            offered = REVISIONS.get(str(said.params.get("protocolVersion")))
            return offered if offered is not None and offered.era == "session" else REVISIONS["2025-11-25"]
        alone = PROTOCOL_VERSION in said.meta or CLIENT_CAPABILITIES in said.meta
        if alone or (link.revision is None and is_stateless(said.method, said.params)):
            return _stateless(said.meta.get(PROTOCOL_VERSION), str(link.stateless))
        return link.revision or link.offered or self._spoken(link, said.exchange)

    def _take_request(self, link: Link, said: Said) -> None:
        learning.look_up(link, said)
        if not said.faults:
            said.needs = _undeclared(link, said, OTHER[said.sender])
            self._rules.judge("request", link, said)
        if not said.faults and ("inputResponses" in said.params or "requestState" in said.params):
            self._rules.judge("retry", link, said)
        if said.method == "initialize" and link.modern is not None:
            self._rules.judge("retry", link, said, link.modern.revision)
        learning.from_request(link, said)

    def _take_answer(self, link: Link, said: Said, request: Said | None) -> None:
        is_error = "error" in said.message
        if request is None:
            link.lost = True
            if link.unread and said.sender == "server":
                link.unread -= 1
                return
        elif link.known(request).changed > request.event.seq:
            request.tool = None  # it may have been called as it is now
        first = request is not None and not request.answered
        if request is not None and first and not request.faults and _is_of_the_other_era(link, said, request):
            if request.method == "server/discover" and said.code == -32601:
                link.shared.undiscovered = said
            learning.settle(link, said, request)
            return
        if request is not None and request.faults:
            self._rules.judge("rejection", link, said)
        elif not said.faults:
            self._rules.judge("error" if is_error else "result", link, said)
            if not said.faults and said.result.get("resultType") == "input_required":
                self._rules.judge("asking", link, said)
        if request is not None and first:
            learning.settle(link, said, request)
            if is_error:
                learning.from_error(link, said, request)
            elif "frame" not in said.faults:
                learning.from_result(link, said, request)
                self._judge_waiting(link)


_OF_VIEWS: Final[dict[str, Role]] = {"send": "host", "receive": "view"}
_OF_A_SESSION: Final = ("initialized_was_sent", "version_header_is_sent", "version_header_is_the_one_agreed")
_OWN_KEYS: Final = frozenset({
    "progressToken", PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SERVER_INFO, SUBSCRIPTION_ID
})  # fmt: skip


def _stateless(*named: Any) -> Revision:
    """Return the newest stateless revision of those that are named, or of all."""
    return next((each for each in reversed(STATELESS_REVISIONS) if each.name in named), STATELESS_REVISIONS[-1])


def _is_framed(message: JsonObject) -> bool:
    """Return whether a message has the frame that it must have: a quick look, for nearly all have."""
    try:
        return messages.kind_of(message) != "request" or not message["method"].startswith("notifications/")
    except (Refusal, RemoteProtocolError):
        return False


def _is_of_the_other_era(link: Link, said: Said, request: Said) -> bool:
    """Return whether a server that was asked in the stateless era may know nothing of it: it has not shown to be of
    it yet.
    """
    if not request.stateless or said.sender == "client" or link.shared.spoke:
        return False
    proves = said.result.keys() & {"resultType", "supportedVersions"} or session.is_modern_error(said)
    return not proves


def _undeclared(link: Link, said: Said, role: Role) -> str | None:
    """Return the capability that this side needs for a message, and did not declare."""
    needs = _needed(said.method, "" if said.revision is None else said.revision.name, role)
    declared = None if needs is None else link.declared(role, said)
    if needs is None or declared is None or declares(declared, needs.partition(".")[2]):
        return None
    return needs


@lru_cache(maxsize=10_000)
def _needed(method: str, revision: str, role: Role) -> str | None:
    """Return the capability of this side that a method needs, such as "server.tools"."""
    row, spoken = METHODS.get(method), REVISIONS.get(revision)
    needs = row.capability(spoken) if row is not None and spoken is not None and row.exists_in(spoken) else None
    return needs if needs is not None and needs.startswith(role) else None


def check(events: Iterable[TraceEvent], judge: Checker | None = None, *, hints: bool = False) -> Iterator[Finding]:
    """Yield the findings of a trace, in the order in which they can be made; hints only if they are wanted."""
    judge = judge or Checker()
    for event in events:
        yield from (finding for finding in judge.feed(event) if hints or finding.level != "HINT")
    yield from (finding for finding in judge.end() if hints or finding.level != "HINT")
