"""The view of a rule: a message, an HTTP exchange, and what is known of the connection; and how a rule is declared.

Not here:  the rules (the other files of this folder), which sentences they stand for (spec_notes/rules.jsonl), when
           they are asked (lab/judge/check)

A rule is a plain function. It returns None if all is well, or what would have been right:

    @rule("notification", "notifications/progress")
    def progress_grows(link: Link, said: Said) -> Verdict:
        ...
        return f"more than {last}"
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeVar

from mcp_ref import JsonObject, Revision
from mcp_ref.facts import Latest as AnyLatest
from mcp_ref.facts import is_stateless
from mcp_ref.lab.words import CLIENT_CAPABILITIES
from mcp_ref.recording.record import TraceEvent

Role = Literal["client", "server", "view", "host"]
OTHER: Final[dict[Role, Role]] = {"client": "server", "server": "client", "view": "host", "host": "view"}
POST_MESSAGE: Final = "postMessage"
"""The transport between a host, which records it, and an app that it shows, its view."""

Kind = Literal[
    "text", "raw", "batch", "frame", "meta", "request", "retry", "notification", "result", "asking", "error",
    "rejection", "head", "reply", "rebuff", "event", "closed", "challenge", "metadata", "exit", "end", "app",
    "view",
]  # fmt: skip
"""When a rule is asked.

text: what is not a message. raw: any message whose bytes are known. batch: an array. frame: any message. meta: one with
keys in `_meta` that are not the protocol's. retry: a request that goes on with one that was asked for input. asking: a
result that asks for input. rejection: the answer to a request in which something was found; what answers the others is
a result or an error.

Over HTTP: head: a request. reply: its status and headers. rebuff: those of the reply to one in which something was
found. event, closed: of an event stream. challenge: a reply that asks for authorization. metadata: the document that
says where that is to be had. exit: a signal to a process. end: of a connection. app: any message of, or for, a client
that shows apps. view: any between a host and an app that it shows.
"""


MAX_KNOWN: Final = 10_000
"""So many of each kind are remembered: connections, requests, tokens, streams, cursors, tools and so on."""

Value = TypeVar("Value")


class Latest(AnyLatest[Any, Value]):
    """A table of the `MAX_KNOWN` entries that were set last."""

    def __init__(self) -> None:
        super().__init__(MAX_KNOWN)


@dataclass(slots=True)
class Exchange:
    """One HTTP request with its reply.

    Attributes:
        requests: the ids of the requests that it carried and that have no answer on it yet.
        headers: of the request; `answers`: those of the reply. Whoever reads a trace sees to it that they are texts.
        body: the first message that it carried, if any.
        streams: whether the reply is an event stream; `events`: how many messages came on it.
    """

    number: int | str
    method: str
    headers: dict[str, str]
    seq: int
    time: float
    body: Said | None = None
    status: int | None = None
    answers: dict[str, str] = field(default_factory=dict)
    requests: set[Any] = field(default_factory=set)
    streams: bool = False
    events: int = 0
    answered: bool = False
    primed: bool = False
    last_event: str | None = None
    retry: int | None = None
    closed: str | None = None
    ended: float | None = None  # when
    faults: set[str] = field(default_factory=set)

    def header(self, name: str) -> str | None:
        """Return a header of the request; None where it is missing."""
        return self.headers.get(name)


class Said:
    """One message, and who sent it.

    Attributes:
        about: the method that it is about: of a response, that of its request.
        key: its id, as tables have it.
        body: the params, or the result; `own_meta`: the `_meta` in it.
        request: of a response: the request that it answers, if that was seen.
        round: of the call that the request with the id `first` began in the event `began` (lab/judge/narrate).
        revision: the one that holds for it; None while that is unknown.
        faults: the rules that it broke: of a request, they also silence what is said of its answer.
        needs: the capability that it needs and nobody has declared.
        tool: the tool that it calls, as it was listed before; `mirrored`: its arguments that headers repeat.
    """

    __slots__ = ("about", "answered", "began", "body", "cancelled", "event", "exchange", "faults", "first", "id",
                 "key", "message", "meta", "method", "mirrored", "needs", "own_meta", "params", "progress", "request",
                 "result", "revision", "round", "sender", "stateless", "task", "tool")  # fmt: skip

    def __init__(self, sender: Role, message: JsonObject, event: TraceEvent, exchange: Exchange | None) -> None:
        self.sender, self.message, self.event, self.exchange = sender, message, event, exchange
        self.id = message.get("id")
        self.key = key(self.id)
        self.method: str = method if isinstance(method := message.get("method"), str) else ""
        self.about = self.method
        self.params = as_object(message.get("params"))
        self.meta = as_object(self.params.get("_meta"))
        self.result = as_object(message.get("result"))
        self.body = self.params if self.method else self.result
        self.own_meta = self.meta if self.method else as_object(self.result.get("_meta"))
        self.request: Said | None = None
        self.revision: Revision | None = None
        self.stateless = False
        self.faults: set[str] = set()
        self.needs: str | None = None
        self.tool: JsonObject | None = None
        self.mirrored: dict[str, tuple[str, ...]] = {}
        self.task: str | None = None
        self.progress: float | None = None
        self.answered = self.cancelled = False
        self.round, self.first, self.began = 1, self.id, event.seq

    def belongs(self, request: Said | None, revision: Revision | None) -> None:
        """Note what it answers, and which revision holds for it."""
        self.request, self.revision = request, revision
        self.stateless = revision is not None and revision.era == "stateless"
        self.about = self.method if request is None else request.method

    @property
    def asked(self) -> Said:
        """The request that it answers; an empty one if that was not seen."""
        return self.request or Said(self.sender, {}, self.event, None)

    @property
    def error(self) -> JsonObject:
        return as_object(self.message.get("error"))

    @property
    def code(self) -> Any:
        return self.error.get("code")

    @property
    def refused(self) -> bool:
        """Return whether HTTP refuses what this answers: whoever does so need not be the server."""
        return self.exchange is not None and (self.exchange.status or 0) >= 300


class Question(NamedTuple):
    """A result that asked for input: the request that it answered, and its questions by key."""

    request: Said
    state: str | None
    asked: JsonObject


@dataclass(slots=True)
class KnownTask:
    """The last state of a task that its receiver has told.

    Attributes:
        request: the one that became the task; None if that was not seen.
        seq: the event that has said so; `polled`: the time of the last answer to `tasks/get`.
        result: the answer to `tasks/result`; `unlisted`: a whole list that it was not in.
    """

    receiver: Role
    began: float
    request: Said | None = None
    status: str = ""
    state: JsonObject = field(default_factory=dict)
    seq: int = 0
    polled: float | None = None
    result: Said | None = None
    unlisted: Said | None = None


@dataclass(slots=True)
class KnownFile:
    """The last entry of a skill's file; `seq` is the event that told it first.

    Attributes:
        frontmatter: of the entry, if the file is its `SKILL.md`.
        other: a read since then that gave other bytes.
    """

    digest: str
    frontmatter: Any
    seq: int
    other: Said | None = None


@dataclass
class Known:
    """The things that a server has told so far: in the stateless era on any connection to it, else in one session."""

    tools: Latest[JsonObject] = field(default_factory=Latest)
    prompts: Latest[JsonObject] = field(default_factory=Latest)
    called: AnyLatest[str, Said] = field(default_factory=lambda: AnyLatest(100))
    """The last result of each tool that was called before it was listed."""
    order: list[str] | None = None  # the names of the tools in the list that came last, if it came in one page
    cursors: Latest[None] = field(default_factory=Latest)  # each with its method
    scopes: Latest[str] = field(default_factory=Latest)  # of pages, by method and the cursor that leads on
    states: Latest[Question] = field(default_factory=Latest)
    questions: deque[Question] = field(default_factory=lambda: deque(maxlen=100))
    several: bool = False  # whether more than one client without a session id has been seen
    changed: int = 0  # the event that has said last that the tools or the prompts are others now
    skills: Latest[KnownFile] = field(default_factory=Latest)  # what entries say of files, by their URIs
    capabilities: JsonObject | None = None  # the server's; None until it has said them
    supported: list[str] = field(default_factory=list)  # of server/discover
    undiscovered: Said | None = None  # the refusal of server/discover
    spoke: bool = False  # it has answered in the stateless era
    waiting: deque[tuple[Kind, Any, TraceEvent]] = field(default_factory=lambda: deque(maxlen=100))
    """Messages to be judged once the server has said which revision it speaks: challenges, and metadata."""
    users: Latest[Known] = field(default_factory=Latest)  # what each is told, by the header `Authorization`, or None


def recorded_by(event: TraceEvent) -> Role | None:
    """Return which side has recorded a trace, where the event shows it.

    Only a client opens a session, or sends a request that stands alone.
    """
    message = as_object(event.message)
    method = message.get("method") if "id" in message else None
    opens = method == "initialize" or (isinstance(method, str) and is_stateless(method, message.get("params")))
    return ("client" if event.direction == "send" else "server") if opens else None


class Requests:
    """The requests on one connection, by their sender and id, and by progress token."""

    def __init__(self) -> None:
        self.asked: Latest[Said] = Latest()
        self.tokens: Latest[Said] = Latest()

    def note_request(self, said: Said) -> None:
        self.asked[said.sender, *said.key] = said
        if "progressToken" in said.meta:
            self.tokens[said.sender, *key(said.meta["progressToken"])] = said

    def answering(self, said: Said) -> Said | None:
        """Return the request that a response answers."""
        return self.asked.get((OTHER[said.sender], *said.key))

    def cancelling(self, said: Said) -> Said | None:
        """Return the request that a notification gives up."""
        return self.asked.get((said.sender, *key(said.params.get("requestId"))))

    def progressing(self, said: Said) -> Said | None:
        """Return the request whose progress a notification tells."""
        return self.tokens.get((OTHER[said.sender], *key(said.params.get("progressToken"))))


class Link(Requests):
    """The state of one connection.

    Attributes:
        whole: whether it was seen from its beginning; if not, nothing is said of what came before.
        revision: of the session, once it is agreed; None in the stateless era.
        offered: the revision that the client asked for.
    """

    def __init__(self, viewpoint: Role, transport: str, shared: Known, whole: bool) -> None:
        super().__init__()
        self.viewpoint, self.transport, self.shared, self.whole = viewpoint, transport, shared, whole
        self.http = transport.startswith("http")
        self.sse = transport == "http+sse"
        self.seq = 0
        self.began = False
        self.settled = False  # a message has shown which side is the client
        self.session = Known()
        self.revision: Revision | None = None
        self.offered: Revision | None = None
        self.stateless: Revision | None = None
        self.capabilities: dict[Role, JsonObject | None] = {"client": None, "server": None}
        self.introduced = self.opened = False
        self.early: Said | None = None  # the first request before `initialize`
        self.unopened: Said | None = None  # the first request before `notifications/initialized`
        self.used: Latest[None] = Latest()  # ids of requests
        self.logging: Latest[Said] = Latest()  # requests without an answer that ask for log messages
        self.tasks: Latest[KnownTask] = Latest()
        self.results: Latest[Said] = Latest()  # the answers to `tasks/result`, by task
        self.elicitations: Latest[None] = Latest()
        self.subscriptions: Latest[Said] = Latest()
        self.acknowledged: Latest[None] = Latest()
        self.announced: Latest[None] = Latest()  # subscriptions whose end a notifications/cancelled has announced
        self.torn: Latest[Said] = Latest()  # results of the others
        self.exchanges: Latest[Exchange] = Latest()
        self.event_ids: Latest[tuple[int | str, Any]] = Latest()
        self.delivered: Latest[int | str] = Latest()
        self.cut: deque[tuple[Exchange, TraceEvent]] = deque(maxlen=1000)  # streams that ended before the response
        self.session_id: str | None = None
        self.gone: str | None = None  # a session id that was answered with 404
        self.over: tuple[str, int] = ("", 0)  # the session id that has ended last, and the event that shows it
        self.garbled: set[Role] = set()  # sides that sent what has no id that can be read
        self.notified: set[Role] = set()  # sides that sent a notification
        self.authorized = False  # the request before had a token, and was let in
        self.text: dict[Role, list[TraceEvent]] = {"client": [], "server": []}
        self.closed = False  # the input of the server's process
        self.unsupported: list[str] | None = None  # what a refusal of a version has offered instead
        self.modern: Said | None = None  # an error that only a server of the stateless era gives
        self.lost = False  # an answer could not be placed: it may be that of any request
        self.unread = 0  # so many messages of the client could have been any request

    def known(self, said: Said) -> Known:
        """Return what the server has told whoever a message is of or for: it may tell each user something else."""
        user = None if said.exchange is None else said.exchange.header("authorization")
        if not said.stateless or hidden(user):
            return self.session  # which user it is, is hidden: those of one connection are taken for one
        self.shared.users[user] = known = self.shared.users.get(user) or Known()
        return known

    @property
    def scattered(self) -> bool:
        """Return whether parts of the session may come by other connections: over HTTP, of several clients without
        an id.
        """
        return self.http and not self.sse and self.session_id is None and self.shared.several

    def declared(self, role: Role, said: Said) -> JsonObject | None:
        """Return the capabilities of a side that hold for a message; None while they are unknown."""
        if not said.stateless:
            return self.capabilities[role]
        if role == "server":
            return self.known(said).capabilities
        request = said.request or said
        return as_object(request.meta[CLIENT_CAPABILITIES]) if CLIENT_CAPABILITIES in request.meta else None


Verdict = str | tuple[Said, str] | None
"""None: all is well. Otherwise what would have been right; with the message at fault where it is an earlier one."""

Rule = Callable[..., Verdict]

FRAME, ORDER, SHAPE, SCHEMA, MEANING = range(5)


class Declared(NamedTuple):
    """The declaration of a rule: when it applies, and to which messages; `stage` orders them, and one stops the
    next.
    """

    name: str
    function: Rule
    kind: Kind
    methods: frozenset[str]
    sender: Role | None
    stage: int
    having: str | None


RULES: Final[dict[str, Declared]] = {}
"""Every rule by its name."""


def rule(
    kind: Kind,
    *methods: str,
    sender: Role | None = None,
    stage: int = MEANING,
    having: str | None = None,
    name: str = "",
) -> Callable[[Rule], Rule]:
    """Declare a rule.

    Args:
        methods: of the message, or of the request that it answers; none: any.
        sender: of the message; None: either, or what is asked of comes from one side alone.
        having: a member of the params or the result without which there is nothing to ask.
        name: of the rule, if it is not the function's: of a row in a table, or of a second rule that says the same.
    """

    def declare(function: Rule) -> Rule:
        own = name or function.__name__
        RULES[own] = Declared(own, function, kind, frozenset(methods), sender, stage, having)
        return function

    return declare


def rule_of_each(
    kind: Kind, *methods: str, within: Callable[[Said], Iterable[JsonObject]], stage: int = MEANING, name: str = ""
) -> Callable[[Callable[[JsonObject], str | None]], None]:
    """Declare a rule of each object within a message, such as each tool of a list."""

    def declare(function: Callable[[JsonObject], str | None]) -> None:
        def ask(link: Link, said: Said) -> Verdict:
            return next((found for each in within(said) if (found := function(each))), None)

        rule(kind, *methods, stage=stage, name=name or function.__name__)(ask)

    return declare


def refused(name: str, method: str, broken: str, why: str, code: int = -32602) -> None:
    """Declare a rule: a request that breaks the rule `broken` is answered with the error `code`."""

    def ask(link: Link, said: Said) -> Verdict:
        return f"error {code}: {why}" if broken in said.asked.faults and said.code != code else None

    rule("rejection", method, name=name)(ask)


def as_object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[JsonObject]:
    """Return the objects in an array."""
    return [each for each in as_list(value) if isinstance(each, dict)]


def key(value: Any) -> tuple[Any, ...]:
    """Return the key in a table of an id or a token, or of whatever came in its place."""
    return (type(value), value if isinstance(value, (str, int)) else repr(value))


def hidden(value: Any) -> bool:
    """Return whether the trace hides a value."""
    return isinstance(value, str) and ("[redacted" in value or value == "[encoded]")


def shown(value: Value) -> Value:
    """Return a value that the trace does not hide.

    Raises: Redacted.
    """
    if hidden(value):
        raise Redacted
    return value


class Redacted(Exception):
    """A rule needs what the trace hides."""
