"""Judging traffic: which sentences of the specification the events of a trace break, and who broke them.

Spec:      every page, in the revision that is spoken
Not here:  the rules (trace/rules), their sentences (sentences.json, made from spec_notes/rules.jsonl); standing between
           two peers (trace/between)

    checker = Checker()
    for event in read_trace("trace.jsonl"):
        for finding in checker.feed(event):
            print(finding)

One fault gives one finding. A message is looked at in stages: frame, order, shape, meaning; what is found in one stage
ends the look at that message. What a finding has touched is silent afterwards: a request in which something was found
is remembered, and of its answer only what a server owes to such a request is asked. What the revision spoken does not
say is not asked; while that revision is unknown, only what all revisions say.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final, NamedTuple

from mcp_ref.agreement import declares
from mcp_ref.basic.tasks import CreateTaskResult
from mcp_ref.basic.versioning import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    is_stateless,
)
from mcp_ref.errors import Refusal, RemoteProtocolError
from mcp_ref.machinery.checking import SchemaMismatch, checker
from mcp_ref.messages import JsonObject, encode, kind_of
from mcp_ref.pages import METHODS
from mcp_ref.revisions import REVISIONS, STATELESS_REVISIONS, Revision
from mcp_ref.trace.record import TraceEvent
from mcp_ref.trace.rules import authorization, features, hints, http, messages, session, stateless, tasks
from mcp_ref.trace.rules.seen import (
    FRAME,
    MEANING,
    OTHER,
    RULES,
    SHAPE,
    Exchange,
    Kind,
    Known,
    KnownTask,
    Link,
    Question,
    Redacted,
    Role,
    Said,
    Verdict,
    as_list,
    as_object,
    key,
    objects,
    row_of,
)

# Each declares its rules when it is imported.
_FILES: Final = (messages, session, features, tasks, stateless, http, authorization, hints)
_METHODS: Final = METHODS.keys() | {method for declared in RULES.values() for method in declared.methods}
_STATELESS: Final = STATELESS_REVISIONS[-1]
_MAX_LINKS: Final = 10_000  # connections that are remembered; the oldest is forgotten
_MAX_OPEN: Final = 10_000  # requests, tokens and exchanges of one connection that are remembered
_MAX_TEXT: Final = 200  # lines that may be one message with line breaks in it


class Finding(NamedTuple):
    """One sentence, or several that say the same, that one message breaks.

    Attributes:
        seq: the number of the event.
        conn: the connection; None in files without such numbers.
        blame: whose fault it is; None: it is a fault of the checker, whose rule has failed.
        level: "MUST", "SHOULD" or, of a finding that time, taste or a race decides, "HINT".
        rule: its name, a function in trace/rules; or "schema".
        ids: the sentences in the revision spoken, as REVISION/PAGE#SECTION.N; or REVISION/schema#TYPE.
        says: the sentence in our words.
        expected: what would have been right.
        message: the message at fault, as it was recorded.
    """

    seq: int
    conn: int | None
    blame: Role | None
    level: str
    rule: str
    ids: tuple[str, ...]
    says: str
    expected: str
    message: Any

    def __str__(self) -> str:
        who = self.blame or "the checker"
        named = f"\n    {' '.join(self.ids)}" if self.ids else ""
        return f"{self.seq}: {self.level}, {who}: {self.says}\n    expected: {self.expected}{named}"


class Sentence(NamedTuple):
    """What a rule stands for in one revision."""

    level: str
    ids: tuple[str, ...]
    says: str


class Checker:
    """Judges events, from a file or as they happen. It does no I/O and has no threads.

    Args:
        revision: the revision that is spoken where the traffic does not say it; None: unknown.
        whole: whether connections are seen from their beginning, whatever they begin with: as when standing between.

    Attributes:
        skipped: the rules that were not asked of some message, with the reason: "revision unknown" or "redacted";
            complete after `end`.

    Threads: one at a time.
    """

    def __init__(self, revision: str | None = None, *, whole: bool = False) -> None:
        self._revision = None if revision is None else REVISIONS[revision]
        self._whole = whole
        self._links: dict[Any, Link] = {}
        self._shared: dict[Any, Known] = {}
        self._findings: list[Finding] = []
        self._asked: dict[tuple[Kind, str, Role, str, bool], Times] = {}
        self._unknown: set[Kind] = set()  # of what was seen while the revision was unknown
        self.skipped: dict[str, str] = {}

    def feed(self, event: TraceEvent) -> list[Finding]:
        """What is wrong with the event; or, by what it shows, with an earlier one."""
        self._findings = []
        if event.direction != "stderr":
            try:
                link = self._link(event)
                link.seq = event.seq
                sender: Role = link.viewpoint if event.direction == "send" else OTHER[link.viewpoint]
                if event.end is not None:
                    link.ends.append(event.end)
                    if "signal" in event.end:
                        self._run("exit", "", sender, link, link.revision or link.stateless, event, event)
                else:
                    self._take(link, sender, event)
            except RecursionError:
                self._blame_checker(event, "nested too deeply to be judged", "nesting")
        return self._findings

    def end(self) -> list[Finding]:
        """What is wrong with connections, once the last event has come."""
        self._findings = []
        for name, declared in RULES.items():
            if declared.kind in self._unknown and not _everywhere(name):
                self.skipped.setdefault(name, "revision unknown")
        for link in self._links.values():
            for sender in OTHER:
                self._text_is_over(link, sender)
            last = TraceEvent(link.seq, 0.0, "", "send", "", None, link.transport, None, None)
            self._run("end", "", link.viewpoint, link, link.revision or link.stateless, last, last)
            for request in link.asked.values():
                if request.needs and not request.answered and not link.lost and not request.faults:
                    expected = f"nothing: {request.needs} was not declared"
                    self._found("only_what_was_negotiated", request, expected, request.event, request.sender, None, "")
        return self._findings

    # -- connections

    def _link(self, event: TraceEvent) -> Link:
        sides = (event.peer, event.transport)
        named = sides if event.conn is None else event.conn
        link = self._links.get(named)
        message = event.message
        if link is None:
            viewpoint: Role = "server" if event.peer == "client" else "client"
            shared = self._shared.setdefault(sides, Known())
            link = self._links[named] = Link(event.conn, viewpoint, event.transport, shared, self._whole)
            if len(self._links) > _MAX_LINKS:
                del self._links[next(iter(self._links))]
        if isinstance(message, dict) and "id" in message:
            # Only a client opens a session, or sends a request that stands alone.
            method = message.get("method")
            if method == "initialize" or (isinstance(method, str) and is_stateless(method, message.get("params"))):
                link.viewpoint = "client" if event.direction == "send" else "server"
                link.whole = link.whole or not link.began
        link.began = link.began or message is not None
        return link

    # -- events

    def _take(self, link: Link, sender: Role, event: TraceEvent) -> None:
        facts, exchange, begins = event.http, None, False
        if facts is not None and "oauth" in facts:
            # What is said to an authorization server stands beside the protocol; the metadata is the server's own.
            if "protected" in str(facts.get("what")) and facts.get("status") == 200:
                self._wait(link, "metadata", as_object(facts["oauth"]), event)
            return
        if facts is not None:
            exchange = link.exchanges.get(facts.get("exchange"))
            # That a stream has ended, or a client hung up, begins nothing.
            begins = exchange is None and not facts.keys() & {"hangUp", "end", "status"}
            if begins and sender == "client":
                exchange = Exchange(
                    facts.get("exchange", -event.seq), str(facts.get("method", "")), as_object(facts.get("headers")),
                    event.seq, event.time,
                )  # fmt: skip
                _remember(link.exchanges, exchange.number, exchange)
            elif exchange is not None:
                again = link.event_ids.get(str(facts.get("eventId")))
                self._take_reply(link, sender, exchange, event, facts)
                if again is not None and again[1] == event.message and exchange.header("last-event-id") is not None:
                    # A stream that is resumed repeats what was lost: it is the message that was judged before.
                    return
        if isinstance(event.message, str):
            json_reply = exchange is not None and "json" in str(exchange.answers.get("content-type"))
            json_reply = json_reply and exchange is not None and (exchange.status or 0) < 300
            if sender == "client" or exchange is None or exchange.streams or json_reply:
                self._take_text(link, sender, event)
        elif isinstance(event.message, list):
            revision = link.revision or self._header_revision(exchange)
            for each in event.message:
                if as_object(each).get("method") == "initialize":
                    revision = REVISIONS.get(str(as_object(each.get("params")).get("protocolVersion")), revision)
            broken = self._run("batch", "", sender, link, revision, event, event)
            if exchange is not None and begins:
                broken |= self._take_head(link, exchange, event)
            if not broken:
                for each in event.message:
                    self._take_message(link, sender, each, event, exchange)
        elif event.message is not None:
            self._take_message(link, sender, event.message, event, exchange)
        if exchange is not None and begins:
            if not isinstance(event.message, list):
                self._take_head(link, exchange, event)
        elif exchange is not None and facts is not None and "status" in facts:
            exchange.events += event.message is not None
            self._give_up(link, exchange)

    def _unsaid(self, link: Link) -> Revision | None:
        """The revision where no message has said it."""
        return REVISIONS["2024-11-05"] if link.sse else self._revision

    def _header_revision(self, exchange: Exchange | None) -> Revision | None:
        return REVISIONS.get(exchange.header("mcp-protocol-version") or "") if exchange is not None else None

    def _take_head(self, link: Link, exchange: Exchange, event: TraceEvent) -> set[str]:
        """A request over HTTP, after its message, and before those of a batch; gives the rules that it breaks."""
        body = exchange.body
        revision = (body.revision if body else None) or link.revision or link.stateless
        revision = revision or self._header_revision(exchange) or self._unsaid(link)
        if exchange.method == "GET" and revision is None:
            return set()
        if revision is not None and revision.era == "stateless" and exchange.method != "POST" and event.message is None:
            return set()
        # Whatever revision is spoken over it: this is the transport of 2024-11-05.
        revision = REVISIONS["2024-11-05"] if link.sse else revision
        broken: set[str] = set()
        if body is None or not body.faults:
            method = body.method if body is not None else ""
            broken = self._run("head", method, "client", link, revision, event, exchange)
            if not broken and body is not None and body.mirrored:
                broken = self._run("mirror", method, "client", link, revision, event, exchange)
            exchange.faults |= broken
            if body is not None:
                body.faults |= broken
        return broken

    def _take_reply(self, link: Link, sender: Role, exchange: Exchange, event: TraceEvent, facts: JsonObject) -> None:
        """A status, an event of a stream, its end, or a client that hangs up."""
        body = exchange.body
        revision = (body.revision if body else None) or link.revision or link.stateless or self._unsaid(link)
        revision = REVISIONS["2024-11-05"] if link.sse else revision
        if "hangUp" in facts:
            request = link.asked.get(("client", *key(facts["hangUp"])))
            if request is not None:
                request.cancelled = True
            return
        if "end" in facts:
            exchange.closed = str(facts["end"])
            if revision is not None and revision.era == "stateless":
                self._run("closed", body.method if body else "", "server", link, revision, event, exchange)
            elif exchange.requests:
                link.cut.append((exchange, event))
            return
        if "status" not in facts or sender != "server":
            return
        if facts.get("event") == "endpoint":
            link.sse = exchange.primed = True
        if exchange.status is None:
            exchange.status = facts["status"] if isinstance(facts["status"], int) else None
            exchange.answers = as_object(facts.get("headers"))
            self._session(link, exchange)
            if exchange.status is not None:
                link.authorized = "authorization" in exchange.headers and exchange.status < 400
            if exchange.status == 401 or "www-authenticate" in exchange.answers:
                self._wait(link, "challenge", exchange, event)
            if exchange.status is not None and exchange.status < 300 and exchange.method in ("GET", "POST"):
                # The session goes on, so it was not its end that has ended a stream before.
                over = [each for each in link.cut if each[0].seq < exchange.seq and each[1].seq < exchange.seq]
                link.cut = [each for each in link.cut if each not in over]
                for cut, ended in over:
                    self._run("closed", "", "server", link, revision, ended, cut)
            if "headers" in facts:
                kind: Kind = "rebuff" if exchange.faults else "reply"
                self._run(kind, body.method if body else "", "server", link, revision, event, exchange)
        if exchange.streams:
            exchange.retry = facts.get("retry", exchange.retry)
            self._run("event", body.method if body else "", "server", link, revision, event, exchange)
            exchange.primed = exchange.primed or (event.message is None and "eventId" in facts)
            if "eventId" in facts:
                exchange.last_event = str(facts["eventId"])
                _remember(link.event_ids, str(facts["eventId"]), (exchange.number, event.message))
            if "id" in as_object(event.message):
                _remember(link.delivered, encode(as_object(event.message)), exchange.number)

    def _wait(self, link: Link, kind: Kind, what: Any, event: TraceEvent) -> None:
        """Judge what the server says of authorization, as soon as the revision that it speaks is known."""
        link.shared.waiting.append((kind, what, event))
        self._settle_waiting(link)

    def _settle_waiting(self, link: Link) -> None:
        revision = link.revision or (link.stateless if link.shared.spoke else None)
        while revision is not None and link.shared.waiting:
            kind, what, event = link.shared.waiting.popleft()
            self._run(kind, "", "server", link, revision, event, what)

    def _give_up(self, link: Link, exchange: Exchange) -> None:
        """HTTP has refused, or led elsewhere, what has no answer: it may come again as it was, its id too."""
        for named in exchange.requests if (exchange.status or 0) >= 300 else ():
            link.used.pop(("client", *named), None)
            if (request := link.asked.get(("client", *named))) is not None:
                request.cancelled = True

    def _session(self, link: Link, exchange: Exchange) -> None:
        """What a reply says of the session."""
        given, sent = exchange.answers.get("mcp-session-id"), exchange.header("mcp-session-id")
        if exchange.body is not None and exchange.body.method == "initialize" and exchange.status == 200:
            link.session_id = given if isinstance(given, str) else None
            link.gone = None
        elif exchange.status == 404 and sent is not None and sent == link.session_id:
            busy = [each for each in link.asked.values() if each.sender == "client" and not each.answered]
            # What was sent at the same time may still come.
            link.gone = sent if len(busy) <= 1 else None

    # -- text that is not a message

    def _take_text(self, link: Link, sender: Role, event: TraceEvent) -> None:
        text = str(event.message)
        if text.startswith("[nested too deeply"):
            raise RecursionError
        waiting = link.text[sender]
        # A message that was printed over several lines begins so, and none of its lines is one.
        if waiting or (text.lstrip()[:1] in ("{", "[") and text.rstrip()[-1:] not in ("}", "]")):
            waiting.append(event)
            joined = "\n".join(str(each.message) for each in waiting)
            try:
                whole = isinstance(json.loads(joined), dict)
            except (ValueError, RecursionError):
                whole = False
            if whole:
                first, link.text[sender] = waiting[0], []
                self._say_text(link, sender, first._replace(message=joined))
            elif len(waiting) > _MAX_TEXT:
                self._text_is_over(link, sender)
            return
        self._say_text(link, sender, event)

    def _text_is_over(self, link: Link, sender: Role) -> None:
        """What could have been the beginning of a message was not."""
        waiting, link.text[sender] = link.text[sender], []
        for event in waiting:
            self._say_text(link, sender, event)

    def _say_text(self, link: Link, sender: Role, event: TraceEvent) -> None:
        self._run("text", "", sender, link, link.revision or link.stateless or self._unsaid(link), event, sender)

    # -- messages

    def _take_message(
        self, link: Link, sender: Role, message: Any, event: TraceEvent, exchange: Exchange | None
    ) -> None:
        if link.text[sender]:
            self._text_is_over(link, sender)
        if not isinstance(message, dict):
            self._run("text", "", sender, link, link.revision or link.stateless, event, sender)
            return
        said = Said(sender, message, event, None)
        said.exchange = exchange
        answers = "method" not in message
        request = link.answering(said) if answers else None
        if answers and said.id is None and exchange is not None and exchange.body is not None and sender == "server":
            request = exchange.body if exchange.requests else None  # an error without an id answers what was posted
        said.revision = self._revision_of(link, said, request)
        if exchange is not None and exchange.body is None and sender == "client":
            exchange.body = said
        if not _is_framed(message):
            said.faults |= self._run("frame", said.method, sender, link, said.revision, event, said)
        if not said.faults and said.own_meta.keys() - _OWN_KEYS:
            said.faults |= self._run("meta", said.method, sender, link, said.revision, event, said)
        if event.raw is not None:
            said.faults |= self._run("raw", said.method, sender, link, said.revision, event, said)
        if answers:
            self._take_answer(link, said, request)
        elif said.method and "id" in message:
            self._take_request(link, said)
        elif said.method and not said.faults:
            self._take_notification(link, said)

    def _revision_of(self, link: Link, said: Said, request: Said | None) -> Revision | None:
        if request is not None and request.method == "initialize":
            return REVISIONS.get(str(said.result.get("protocolVersion")), request.revision)
        if request is not None:
            return request.revision
        if said.method == "initialize":
            offered = REVISIONS.get(str(said.params.get("protocolVersion")))
            return offered if offered is not None and offered.era == "session" else REVISIONS["2025-11-25"]
        alone = PROTOCOL_VERSION in said.meta or CLIENT_CAPABILITIES in said.meta
        if alone or (is_stateless(said.method, said.params) and link.revision is None):
            return _STATELESS
        return (
            link.revision
            or link.offered
            or link.stateless
            or self._header_revision(said.exchange)
            or self._unsaid(link)
        )

    def _take_request(self, link: Link, said: Said) -> None:
        known, session_era = link.known(said), not said.stateless
        if said.method == "tools/call":
            said.tool = known.tools.get(str(said.params.get("name")))
            if link.http and said.tool is not None:
                said.mirrored = features.mirrored_by(said.tool)
        if session_era and said.sender == "client" and said.method not in ("ping", "initialize"):
            if link.offered is None and link.early is None:
                link.early = said
            elif link.introduced and not link.opened and link.unopened is None:
                link.unopened = said
        row, revision = row_of(said), said.revision
        if row is not None and revision is not None and row.exists_in(revision) and not said.faults:
            needs, owner = row.capability(revision), "server" if said.sender == "client" else "client"
            declared = link.declared("server" if owner == "server" else "client", said)
            if needs is not None and declared is not None and needs.startswith(owner):
                said.needs = None if declares(declared, needs.partition(".")[2]) else needs
        if not said.faults:
            said.faults |= self._run("request", said.method, said.sender, link, said.revision, said.event, said)
        if not said.faults and said.params.keys() & {"inputResponses", "requestState"}:
            said.faults |= self._run("retry", said.method, said.sender, link, said.revision, said.event, said)
        if said.method == "initialize" and link.modern is not None:
            said.faults |= self._run("retry", "initialize", said.sender, link, _STATELESS, said.event, said)
        # 2. What is known from now on.
        named = (said.sender, *key(said.id))
        _remember(link.asked, named, said)
        _remember(link.used, named, None)
        if said.exchange is not None:
            said.exchange.requests.add(key(said.id))
        if "progressToken" in said.meta:
            _remember(link.tokens, (said.sender, *key(said.meta["progressToken"])), said)
        if said.stateless:
            link.stateless = said.revision
        if said.method == "initialize" and said.sender == "client":
            link.offered = said.revision
            link.capabilities["client"] = as_object(said.params.get("capabilities"))
            link.introduced, link.opened, link.revision, link.session = False, False, None, Known()
            link.unopened = None
            link.used = {named: None}
        elif said.method == "subscriptions/listen":
            link.subscriptions[key(said.id)] = said
        elif said.method == "elicitation/create" and isinstance(said.params.get("elicitationId"), str):
            link.elicitations.add(said.params["elicitationId"])

    def _take_notification(self, link: Link, said: Said) -> None:
        row, revision = row_of(said), said.revision
        if row is not None and revision is not None and row.exists_in(revision):
            needs, declared = row.capability(revision), link.declared(said.sender, said)
            if needs is not None and declared is not None and needs.startswith(said.sender):
                said.needs = None if declares(declared, needs.partition(".")[2]) else needs
        said.faults |= self._run("notification", said.method, said.sender, link, revision, said.event, said)
        if said.method == "notifications/initialized":
            link.opened = True
        elif said.method == "notifications/cancelled":
            named = key(said.params.get("requestId"))
            if (request := link.asked.get((said.sender, *named))) is not None:
                request.cancelled = True
            link.torn.pop(named, None)
            link.announced |= {named} if said.sender == "server" else set()
        elif said.method == "notifications/progress":
            request = link.tokens.get((OTHER[said.sender], *key(said.params.get("progressToken"))))
            if request is not None and isinstance(said.params.get("progress"), int | float):
                request.progress = said.params["progress"]
        elif said.method == "notifications/subscriptions/acknowledged":
            link.acknowledged.add(key(as_object(said.params.get("_meta")).get(SUBSCRIPTION_ID)))
        elif said.method == "notifications/tools/list_changed":
            link.known(said).order = None
        elif said.method in ("notifications/tasks/status", "notifications/tasks"):
            self._learn_task(link, said, None, said.params)

    def _take_answer(self, link: Link, said: Said, request: Said | None) -> None:
        said.request = request
        if request is not None and request.method == "initialize" and "error" in said.message and link.shared.supported:
            said.revision = _STATELESS
        kind: Kind = "error" if "error" in said.message else "result"
        method, faults = "" if request is None else request.method, set() if request is None else request.faults
        first = request is not None and not request.answered
        if request is not None and request.stateless and said.sender == "server" and not link.shared.spoke:
            # Until it has shown to be of this era, a server may be of the other one, and know nothing of this request.
            proven = said.result.keys() & {"resultType", "supportedVersions"} or session.is_modern_error(said)
            if not proven and not faults and first:
                if request.method == "server/discover" and said.code == -32601:
                    link.shared.undiscovered = said
                self._settle(said, request)
                return
        if faults:
            self._run("rejection", method, said.sender, link, said.revision, said.event, said)
        elif not said.faults:
            said.faults |= self._run(kind, method, said.sender, link, said.revision, said.event, said)
            if not said.faults and said.result.get("resultType") == "input_required":
                said.faults |= self._run("asking", method, said.sender, link, said.revision, said.event, said)
        if request is None or not first:
            link.lost = link.lost or request is None
            return
        self._settle(said, request)
        if kind == "result" and "frame" not in said.faults:
            self._learn(link, said, request)
        elif kind == "error":
            link.unsupported = (
                as_list(as_object(said.error.get("data")).get("supported")) if said.code == -32022 else None
            )
            link.modern = said if session.is_modern_error(said) and said.stateless else None
            if request.method == "server/discover" and said.code == -32601 and not said.faults:
                link.shared.undiscovered = said
            for each in objects(as_object(said.error.get("data")).get("elicitations")):
                link.elicitations.add(str(each.get("elicitationId")))

    def _settle(self, said: Said, request: Said) -> None:
        """Note that a request has its answer."""
        request.answered = True
        for exchange in (said.exchange, request.exchange):
            if exchange is not None:
                exchange.requests.discard(key(said.id))
                exchange.answered = True

    def _learn(self, link: Link, said: Said, request: Said) -> None:
        """What a result tells."""
        result, method, known = said.result, request.method, link.known(request)
        link.unsupported = link.modern = None
        if request.stateless:
            link.shared.spoke, link.shared.undiscovered = True, None
        if method == "initialize":
            agreed = REVISIONS.get(str(result.get("protocolVersion")))
            link.revision = agreed if agreed is not None and agreed.era == "session" else None
            link.capabilities["server"] = as_object(result.get("capabilities"))
            link.introduced, link.early = True, None
        elif method == "server/discover":
            link.shared.capabilities = as_object(result.get("capabilities"))
            link.shared.supported = [each for each in as_list(result.get("supportedVersions")) if isinstance(each, str)]
        elif method == "tools/list":
            tools = objects(result.get("tools"))
            known.tools.update({str(tool.get("name")): tool for tool in tools})
            whole = "cursor" not in request.params and "nextCursor" not in result
            known.order = [str(tool.get("name")) for tool in tools] if whole else None
        elif method == "prompts/list":
            known.prompts.update({str(each.get("name")): each for each in objects(result.get("prompts"))})
        elif method == "subscriptions/listen" and not request.cancelled and key(request.id) not in link.announced:
            link.torn[key(request.id)] = said
        if isinstance(cursor := result.get("nextCursor"), str):
            for each in (known, link.shared):
                each.cursors.setdefault(method, set()).add(cursor)
            if isinstance(result.get("cacheScope"), str):
                _remember(link.shared.scopes, cursor, result["cacheScope"])
        if result.get("resultType") == "input_required":
            state = result.get("requestState")
            asked = Question(request, state if isinstance(state, str) else None, as_object(result.get("inputRequests")))
            link.shared.questions.append(asked)
            if asked.state is not None:
                _remember(link.shared.states, asked.state, asked)
        for state in tasks.states(said):
            self._learn_task(link, said, request, state)
        if method == "tasks/result" and (task := link.tasks.get(str(request.params.get("taskId")))) is not None:
            task.result = said
        if link.shared.waiting:
            self._settle_waiting(link)

    def _learn_task(self, link: Link, said: Said, request: Said | None, state: JsonObject) -> None:
        """What the receiver of a task says of it, in an answer or unasked."""
        name, status = state.get("taskId"), state.get("status")
        if said.faults or not isinstance(name, str) or not isinstance(status, str):
            return
        known = link.tasks.get(name)
        if known is None:
            known = KnownTask(said.sender, said.event.time)
            _remember(link.tasks, name, known)
        if request is not None and "task" in said.result:
            # News of it may have come before.
            known.request, request.task = request, name
        if request is None or request.event.seq >= known.seq:
            known.status, known.state, known.seq = status, state, said.event.seq
        known.polled = said.event.time if said.about == "tasks/get" else known.polled

    # -- rules

    def _run(
        self, kind: Kind, method: str, sender: Role, link: Link, revision: Revision | None, event: TraceEvent, what: Any
    ) -> set[str]:
        """Ask the rules, stage by stage; gives the names of those that are broken."""
        name = "" if revision is None else revision.name
        named = (kind, method if method in _METHODS else "", sender, name, link.http)
        if (found := self._asked.get(named)) is None:
            found = self._asked[named] = Times(_rules(*named))
        found.times += 1
        if revision is None:
            self._unknown.add(kind)
        broken: set[str] = set()
        last, shaped = MEANING, kind not in ("request", "notification", "result")
        given = (link, what) if isinstance(what, Said) or kind in ("end", "exit") else (link, what, event)
        for rule in found.rules:
            if rule.stage > SHAPE and not shaped:
                shaped = True
                if not broken:
                    self._compare(what, broken)
            if broken and (rule.stage > last or last == FRAME):
                break
            try:
                verdict = rule.function(*given)
            except Redacted:
                self.skipped[rule.name] = "redacted"
            except Exception as problem:
                self._blame_checker(event, f"{type(problem).__name__}: {problem}", rule.name)
            else:
                if verdict is not None:
                    culprit, expected = verdict if isinstance(verdict, tuple) else (what, verdict)
                    if self._found(rule.name, culprit, expected, event, sender, revision, method) != "HINT":
                        broken.add(rule.name)
                        last = rule.stage
        if not shaped and not broken:
            self._compare(what, broken)
        return broken

    @property
    def applied(self) -> Counter[str]:
        """How often each rule was asked."""
        counts: Counter[str] = Counter()
        for asked in self._asked.values():
            counts.update({rule.name: asked.times for rule in asked.rules})
        return counts

    def _compare(self, said: Said, broken: set[str]) -> None:
        """Compare params or a result with the type that the revision has."""
        row, revision = row_of(said), said.revision
        if row is None or revision is None or not row.exists_in(revision) or (said.request or said).faults:
            return
        wire = row.result if "result" in said.message else row.params
        if "task" in said.result and said.request is not None and "task" in said.request.params:
            wire = CreateTaskResult
        if wire is None or said.result.get("resultType") in ("input_required", "task"):
            return
        try:
            if "result" in said.message:
                checker(wire, revision)(said.result, "result")
            elif "params" in said.message or said.method in _NEEDING_PARAMS:
                checker(wire, revision)(said.params, "params")
        except SchemaMismatch as problem:
            broken.add("schema")
            ids = (f"{revision}/schema#{getattr(wire, '__name__', said.about)}",)
            self._findings.append(
                Finding(said.event.seq, said.event.conn, said.sender, "MUST", "schema", ids,
                        f"{said.about} has the type that the schema of the revision gives it.", str(problem),
                        said.message)
            )  # fmt: skip

    def _found(
        self,
        name: str,
        what: Any,
        expected: str,
        event: TraceEvent,
        sender: Role,
        revision: Revision | None,
        method: str,
    ) -> str | None:
        """Add a finding; gives its level."""
        message, named = event.message, "" if revision is None else revision.name
        if isinstance(what, Said):
            event, sender, message, method = what.event, what.sender, what.message, what.about or method
            if what.method == "initialize" and revision is not _STATELESS:
                # Of a version that nobody knows, every revision with an `initialize` says it.
                asked = str(what.params.get("protocolVersion"))
                named = what.revision.name if what.revision is not None and asked in REVISIONS else ""
            elif what.method != "initialize" and what.revision is not None:
                named = what.revision.name
        sentence = _sentence(name, named, method, event.transport.startswith("http"))
        if sentence is None:
            return None
        says = (
            sentence.says
            if named
            else f"{sentence.says} (Every revision that has it says so; which one is spoken is unknown.)"
        )
        self._findings.append(
            Finding(event.seq, event.conn, sender, sentence.level, name, sentence.ids, says, expected, message)
        )
        if isinstance(what, Said) and sentence.level != "HINT":
            what.faults.add(name)
        return sentence.level

    def _blame_checker(self, event: TraceEvent, problem: str, name: str) -> None:
        says = "A rule of the checker failed; this is a fault of mcp_ref and says nothing about either peer."
        self._findings.append(Finding(event.seq, event.conn, None, "FAULT", name, (), says, problem, event.message))


_OWN_KEYS: Final = frozenset({
    "progressToken", PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SERVER_INFO, SUBSCRIPTION_ID
})  # fmt: skip


def _is_framed(message: JsonObject) -> bool:
    """Whether a message has the frame that it must have: a quick look, for nearly all have."""
    try:
        return kind_of(message) != "request" or not message["method"].startswith("notifications/")
    except (Refusal, RemoteProtocolError):
        return False


def check(events: Iterable[TraceEvent], judge: Checker | None = None, *, hints: bool = False) -> Iterator[Finding]:
    """The findings of a trace, in the order in which they can be made; hints only if they are wanted."""
    judge = judge or Checker()
    for event in events:
        yield from (finding for finding in judge.feed(event) if hints or finding.level != "HINT")
    yield from judge.end()


_NEEDING_PARAMS: Final = frozenset({
    "initialize", "tools/call", "prompts/get", "resources/read", "resources/subscribe", "resources/unsubscribe",
    "completion/complete", "logging/setLevel", "sampling/createMessage", "elicitation/create", "notifications/progress",
    "notifications/message", "notifications/resources/updated", "subscriptions/listen",
})  # fmt: skip
"""What cannot come without params; of others `params` may be left out altogether."""


# -- sentences ----------------------------------------------------------------------------------------------------


@cache
def sentences() -> JsonObject:
    """What the notes say: rules with their sentences, by name; made by `python -m tests.trace.rules --write`."""
    text = resources.files("mcp_ref.trace").joinpath("sentences.json").read_text("utf-8")
    found: JsonObject = json.loads(text)
    return found


@lru_cache(maxsize=10_000)
def _sentence(name: str, revision: str, method: str, http: bool) -> Sentence | None:
    """What a rule stands for; None if the revision does not say it, or not of such a message."""
    levels, ids, says = set(), [], ""
    for row in sentences()["rules"].get(name, ()):
        if method in row.get("methods", (method,)) and row.get("over") != ("stdio" if http else "http"):
            here = [each for each in row["ids"] if each.startswith(revision)]
            levels |= {row["level"]} if here else set()
            ids += here
            says = says or (row["says"] if here else "")
    level = next((each for each in ("HINT", "MUST", "SHOULD") if each in levels), None)
    return None if level is None else Sentence(level, tuple(sorted(ids)), says)


@cache
def _everywhere(name: str) -> bool:
    """Whether all revisions have a rule."""
    here = {each.partition("/")[0] for row in sentences()["rules"].get(name, ()) for each in row["ids"]}
    return here >= set(REVISIONS)


class Asked(NamedTuple):
    """A rule that is to be asked."""

    name: str
    function: Callable[..., Verdict]
    stage: int


@dataclass(slots=True)
class Times:
    """Rules that are asked together, and how often they were."""

    rules: tuple[Asked, ...]
    times: int = 0


@lru_cache(maxsize=10_000)
def _rules(kind: Kind, method: str, sender: Role, revision: str, http: bool) -> tuple[Asked, ...]:
    """The rules to ask, by stage; where the revision is unknown, those that every revision has."""
    found = []
    for name, declared in RULES.items():
        fits = declared.kind == kind and declared.sender in (None, sender)
        if fits and (not declared.methods or method in declared.methods):
            there = _sentence(name, revision, method, http) is not None if revision else _everywhere(name)
            found += [Asked(name, declared.function, declared.stage)] if there else []
    return tuple(sorted(found, key=lambda each: each.stage))


def _remember(table: dict[Any, Any], name: Any, value: Any) -> None:
    table.pop(name, None)
    table[name] = value
    if len(table) > _MAX_OPEN:
        del table[next(iter(table))]
