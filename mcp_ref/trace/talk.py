"""What the narrator remembers of one connection: what was agreed, what is open, and what a message refers to.

Spec:      basic/index#messages; basic/utilities/cancellation, basic/utilities/progress; basic/index#_meta,
           basic/patterns/mrtr, basic/patterns/subscriptions (2026-07-28)
Upholds:   nothing by itself: it explains, and checks nothing
Reads:     trace/explain, revisions.py
Not here:  what a message says by itself (trace/explain); the layout (trace/narrate)

Of what every message repeats in the stateless era only the first is told in full: what a request says of its client,
and what a result says of the server. A call that needs input is several requests, told as the rounds of one call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mcp_ref.basic.messages import id_key, is_id
from mcp_ref.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO
from mcp_ref.basic.versioning import SUBSCRIPTION_ID as _SUBSCRIPTION
from mcp_ref.revisions import REVISIONS
from mcp_ref.trace.explain import declared, explain_params, explain_result, implementation, listened, quoted

__all__ = ["Asked", "Talk", "page_in"]

JsonObject = dict[str, Any]
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
class Talk:
    """What is known of one connection: which side records, what was agreed, what is open. Keys begin with who asked."""

    viewpoint: Role
    revision: str | None = None
    asked: dict[Any, Asked] = field(default_factory=dict)
    tokens: dict[Any, Asked] = field(default_factory=dict)
    # Questions that a result has asked, with the request that it answered; by `requestState`, or what else tells them.
    questions: OrderedDict[str, tuple[Asked, JsonObject]] = field(default_factory=OrderedDict)
    envelope: tuple[JsonObject, Any] | None = None
    server: Any = None
    said: set[str] = field(default_factory=set)

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
        if self.envelope is not None and self.envelope[0] == told:
            yield f"_meta as in request {quoted(self.envelope[1])}"
            return
        self.envelope = (told, request_id)
        yield f"_meta: this request is written in revision {quoted(told.get(PROTOCOL_VERSION))}"
        can = declared({"capabilities": told.get(CLIENT_CAPABILITIES)})
        yield f"_meta: the client is {implementation(told.get(CLIENT_INFO))} and declares {can}"

    def kind_of(self, result: Any) -> Iterator[str]:
        """What a result says of itself: of which kind it is, and who the server is, where that was not told yet."""
        if not isinstance(result, dict):
            return
        kind, server = result.get("resultType"), _meta(result).get(SERVER_INFO)
        if server is not None and server != self.server:
            self.server = server
            yield f"_meta: the server is {implementation(server)}"
        if kind == "complete" and kind not in self.said:
            self.said.add(kind)
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
            self.questions[_place(asked.method, asked.params, result.get("requestState"), requests)] = (asked, requests)
            if len(self.questions) > _MOST_ROUNDS:
                self.questions.popitem(last=False)

    def round_of(self, asked: Asked) -> Iterator[str]:
        """Which round of which call a request is, and what it answers."""
        params = asked.params if isinstance(asked.params, dict) else {}
        if "inputResponses" not in params and "requestState" not in params:
            return
        given = params.get("inputResponses")
        given = given if isinstance(given, dict) else {}
        place = _place(asked.method, params, params.get("requestState"), given)
        before, requests = self.questions.get(place, (None, {}))
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
