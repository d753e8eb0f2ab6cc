"""What a rule is given: a message, an HTTP exchange, and what is known of the connection; and how a rule is declared.

Not here:  the rules (the other files of this folder), which sentences they stand for (spec_notes/rules.jsonl), when
           they are asked (trace/check)

A rule is a plain function. It returns None if all is well, or what would have been right:

    @rule("notification", "notifications/progress")
    def progress_grows(link: Link, said: Said) -> Verdict:
        ...
        return f"more than {last}"
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from mcp_ref.messages import JsonObject, id_key
from mcp_ref.methods import Method
from mcp_ref.pages import METHODS
from mcp_ref.revisions import Revision
from mcp_ref.trace.record import TraceEvent

Role = Literal["client", "server"]
OTHER: Final[dict[Role, Role]] = {"client": "server", "server": "client"}

Kind = Literal[
    "text", "raw", "batch", "frame", "meta", "request", "retry", "notification", "result", "asking", "error",
    "rejection", "head", "mirror", "reply", "rebuff", "event", "closed", "challenge", "metadata", "exit", "end",
]  # fmt: skip
"""When a rule is asked.

text: what is not a message. raw: any message whose bytes are known. batch: an array. frame: any message. meta: one with
keys in `_meta` that are not the protocol's. retry: a request that goes on with one that was asked for input. asking: a
result that asks for input. rejection: the answer to a request in which something was found; what answers the others is
a result or an error.

Over HTTP: head: a request. mirror: one that calls a tool with `x-mcp-header`. reply: its status and headers. rebuff:
those of the reply to one in which something was found. event, closed: of an event stream. challenge: a reply that asks
for authorization. metadata: the document that says where that is to be had. exit: a signal to a process. end: of a
connection.
"""


@dataclass(slots=True)
class Exchange:
    """One HTTP request with its reply.

    Attributes:
        requests: the ids of the requests that it carried and that have no answer on it yet.
        body: the first message that it carried, if any.
        events: how many messages came on its event stream.
    """

    number: int
    method: str
    headers: JsonObject
    seq: int
    time: float
    body: Said | None = None
    status: int | None = None
    answers: JsonObject = field(default_factory=dict)
    requests: set[Any] = field(default_factory=set)
    events: int = 0
    answered: bool = False
    primed: bool = False
    last_event: str | None = None
    retry: int | None = None
    closed: str | None = None
    faults: set[str] = field(default_factory=set)

    @property
    def streams(self) -> bool:
        """Whether the reply is an event stream."""
        return str(self.answers.get("content-type", "")).startswith("text/event-stream")

    def header(self, name: str) -> str | None:
        """A header of the request; None where it is missing."""
        value = self.headers.get(name)
        return value if isinstance(value, str) else None


class Said:
    """One message, and who sent it.

    Attributes:
        request: of a response: the request that it answers, if that was seen.
        revision: the one that holds for it; None while that is unknown.
        faults: the rules that it broke: of a request, they also silence what is said of its answer.
        needs: the capability that a request needs and the other side has not declared.
        tool: the tool that it calls, as it was listed before.
    """

    __slots__ = ("answered", "cancelled", "event", "exchange", "faults", "message", "meta", "method", "mirrored",
                 "needs", "params", "progress", "request", "result", "revision", "sender", "task", "tool")  # fmt: skip

    def __init__(self, sender: Role, message: JsonObject, event: TraceEvent, revision: Revision | None) -> None:
        self.sender, self.message, self.event, self.revision = sender, message, event, revision
        self.method: str = method if isinstance(method := message.get("method"), str) else ""
        self.params = as_object(message.get("params"))
        self.meta = as_object(self.params.get("_meta"))
        self.result = as_object(message.get("result"))
        self.request: Said | None = None
        self.exchange: Exchange | None = None
        self.faults: set[str] = set()
        self.needs: str | None = None
        self.tool: JsonObject | None = None
        self.task: str | None = None
        self.progress: float | None = None
        self.mirrored: dict[str, tuple[str, ...]] = {}  # the arguments that headers repeat
        self.answered = self.cancelled = False

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def error(self) -> JsonObject:
        return as_object(self.message.get("error"))

    @property
    def own_meta(self) -> JsonObject:
        """`_meta` of the params, or of the result."""
        return self.meta if self.method else as_object(self.result.get("_meta"))

    @property
    def code(self) -> Any:
        return self.error.get("code")

    @property
    def stateless(self) -> bool:
        return self.revision is not None and self.revision.era == "stateless"

    @property
    def about(self) -> str:
        """The method that a message is about: of a response, that of its request."""
        return self.request.method if self.request is not None else self.method


class Question(NamedTuple):
    """A result that asked for input: the request that it answered, and its questions by key."""

    request: Said
    state: str | None
    asked: JsonObject


@dataclass(slots=True)
class KnownTask:
    """What the receiver of a task has said of it last.

    Attributes:
        request: the one that became the task; None if that was not seen.
        seq: the event that has said so; `polled`: the time of the last answer to `tasks/get`.
        result: the answer to `tasks/result`.
    """

    receiver: Role
    began: float
    request: Said | None = None
    status: str = ""
    state: JsonObject = field(default_factory=dict)
    seq: int = 0
    polled: float | None = None
    result: Said | None = None


@dataclass
class Known:
    """What a server has told so far: in the stateless era on any connection to it, else in one session."""

    tools: dict[str, JsonObject] = field(default_factory=dict)
    prompts: dict[str, JsonObject] = field(default_factory=dict)
    order: list[str] | None = None  # the names of the tools in the list that came last, if it came in one page
    cursors: dict[str, set[str]] = field(default_factory=dict)  # by method
    scopes: dict[str, str] = field(default_factory=dict)  # of the pages of a list, by the cursor that leads on
    states: dict[str, Question] = field(default_factory=dict)
    questions: deque[Question] = field(default_factory=lambda: deque(maxlen=100))
    capabilities: JsonObject | None = None  # the server's; None until it has said them
    supported: list[str] = field(default_factory=list)  # of server/discover
    undiscovered: Said | None = None  # the refusal of server/discover
    spoke: bool = False  # it has answered in the stateless era
    waiting: deque[tuple[Kind, Any, TraceEvent]] = field(default_factory=lambda: deque(maxlen=100))
    """What is judged once the server has said which revision it speaks: challenges, and metadata."""


class Link:
    """What is known of one connection.

    Attributes:
        whole: whether it was seen from its beginning; if not, nothing is said of what came before.
        revision: of the session, once it is agreed; None in the stateless era.
        offered: the revision that the client asked for.
    """

    def __init__(self, number: Any, viewpoint: Role, transport: str, shared: Known, whole: bool) -> None:
        self.number, self.viewpoint, self.transport, self.shared, self.whole = (
            number, viewpoint, transport, shared, whole
        )  # fmt: skip
        self.began = False
        self.session = Known()
        self.revision: Revision | None = None
        self.offered: Revision | None = None
        self.stateless: Revision | None = None
        self.capabilities: dict[Role, JsonObject | None] = {"client": None, "server": None}
        self.introduced = self.opened = False
        self.early: Said | None = None  # the first request before `initialize`
        self.unopened: Said | None = None  # the first request before `notifications/initialized`
        self.asked: dict[Any, Said] = {}
        self.used: dict[Any, None] = {}  # ids of requests, the last so many
        self.tokens: dict[Any, Said] = {}
        self.exchanges: dict[Any, Exchange] = {}
        self.session_id: str | None = None
        self.gone: str | None = None  # a session id that was answered with 404
        self.sse = transport == "http+sse"
        self.event_ids: dict[str, tuple[int, Any]] = {}
        self.delivered: dict[Any, int] = {}
        self.subscriptions: dict[Any, Said] = {}
        self.acknowledged: set[Any] = set()
        self.torn: dict[Any, Said] = {}  # results of subscriptions that no notifications/cancelled has announced
        self.announced: set[Any] = set()
        self.cut: list[tuple[Exchange, TraceEvent]] = []  # streams that have ended before the response, so far
        self.elicitations: set[str] = set()
        self.tasks: dict[str, KnownTask] = {}
        self.authorized = False  # the request before had a token, and was let in
        self.text: dict[Role, list[TraceEvent]] = {"client": [], "server": []}
        self.ends: list[JsonObject] = []
        self.unsupported: list[str] | None = None  # what a refusal of a version has offered instead
        self.modern: Said | None = None  # an error that only a server of the stateless era gives
        self.lost = False  # an answer could not be placed: it may be that of any request
        self.seq = 0

    @property
    def http(self) -> bool:
        return self.transport.startswith("http")

    def known(self, said: Said) -> Known:
        return self.shared if said.stateless else self.session

    def answering(self, said: Said) -> Said | None:
        """The request that a response answers."""
        return self.asked.get((OTHER[said.sender], *key(said.id)))

    def declared(self, role: Role, said: Said) -> JsonObject | None:
        """The capabilities of a side that hold for a message; None while they are unknown."""
        if not said.stateless:
            return self.capabilities[role]
        if role == "server":
            return self.shared.capabilities
        from mcp_ref.basic.versioning import CLIENT_CAPABILITIES

        request = said.request or said
        return as_object(request.meta[CLIENT_CAPABILITIES]) if CLIENT_CAPABILITIES in request.meta else None


Verdict = str | tuple[Said, str] | None
"""None: all is well. Otherwise what would have been right; with the message at fault where it is an earlier one."""

Rule = Callable[..., Verdict]

FRAME, ORDER, SHAPE, MEANING = range(4)


class Declared(NamedTuple):
    """How a rule was declared: when it is asked, and of which methods; `stage` orders them, and one stops the next."""

    function: Rule
    kind: Kind
    methods: frozenset[str]
    sender: Role | None
    stage: int


RULES: Final[dict[str, Declared]] = {}
"""Every rule by its name."""


def rule(kind: Kind, *methods: str, sender: Role | None = None, stage: int = MEANING) -> Callable[[Rule], Rule]:
    """Declare a rule; `methods`: of the message, or of the request that it answers; none: any."""

    def declare(function: Rule) -> Rule:
        RULES[function.__name__] = Declared(function, kind, frozenset(methods), sender, stage)
        return function

    return declare


def as_object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[JsonObject]:
    """The objects in an array."""
    return [each for each in as_list(value) if isinstance(each, dict)]


def key(value: Any) -> tuple[Any, ...]:
    """What finds an id or a token in a table, or whatever came in its place."""
    return id_key(value) if isinstance(value, (str, int)) else (type(value), repr(value))


def row_of(said: Said) -> Method | None:
    return METHODS.get(said.about)


def hidden(value: Any) -> bool:
    """Whether the trace hides a value."""
    return isinstance(value, str) and (value.startswith("[redacted") or value == "[encoded]")


class Redacted(Exception):
    """A rule needs what the trace hides."""
