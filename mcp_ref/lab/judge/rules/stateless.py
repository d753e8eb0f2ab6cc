"""The rules of the stateless era: the envelope of requests, kinds of results, rounds, subscriptions, caching.

Spec:      basic/index#_meta, basic/index#resulttype, basic/index#error-codes, basic/patterns/mrtr,
           basic/patterns/subscriptions, server/utilities/caching, server/utilities/logging (2026-07-28)
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mcp_ref import JsonObject, Refusal
from mcp_ref.facts import CACHEABLE, MAY_ASK, read_envelope
from mcp_ref.lab.judge.rules import features
from mcp_ref.lab.judge.rules.seen import (  # fmt: skip
    FRAME,
    ORDER,
    SHAPE,
    Link,
    Question,
    Said,
    Verdict,
    as_list,
    as_object,
    key,
    objects,
    rule,
)
from mcp_ref.lab.words import CLIENT_CAPABILITIES, LOG_LEVEL, SERVER_INFO, STATELESS_ERRORS, SUBSCRIPTION_ID

# -- who says what ------------------------------------------------------------------------------------------------


@rule("request", sender="server", stage=FRAME)
def servers_send_no_requests(link: Link, said: Said) -> Verdict:
    return "an InputRequiredResult, as the answer to a request of the client"


@rule("error", sender="client", stage=FRAME, name="clients_send_no_errors")
@rule("result", sender="client", stage=FRAME)
def clients_send_no_results(link: Link, said: Said) -> Verdict:
    return "no response: the answers go with the request when it is sent again"


@rule("request", sender="client", stage=SHAPE)
def requests_say_what_they_are(link: Link, said: Said) -> Verdict:
    try:
        read_envelope(said.params)
    except Refusal as problem:
        return str(problem).removeprefix("Invalid params: ")
    return None


@rule("rejection")
def incomplete_requests_are_refused(link: Link, said: Said) -> Verdict:
    broken = "requests_say_what_they_are" in said.asked.faults
    return "error -32602" if broken and said.code != -32602 and not said.refused else None


@rule("result", stage=SHAPE)
def results_have_a_type(link: Link, said: Said) -> Verdict:
    return None if isinstance(said.result.get("resultType"), str) else 'resultType, such as "complete"'


@rule("result", stage=SHAPE)
def result_types_are_known(link: Link, said: Said) -> Verdict:
    kind = said.result.get("resultType")
    declared = link.declared("server", said)
    if not isinstance(kind, str) or kind in ("complete", "input_required"):
        return None
    if declared is None or declared.get("extensions"):
        return None
    return f'"complete" or "input_required": the server declares no extension that would have {kind!r}'


@rule("result", "server/discover")
def results_name_the_server(link: Link, said: Said) -> Verdict:
    return None if SERVER_INFO in as_object(said.result.get("_meta")) else f"{SERVER_INFO} in _meta"


# -- errors -------------------------------------------------------------------------------------------------------


_RESERVED = ", ".join(map(str, sorted(STATELESS_ERRORS, reverse=True)))
_CODES = {
    "codes_of_the_past_are_gone": ({*range(-32019, -31999)}, "a code outside -32019 to -32000"),
    "code_32042_is_gone": ({-32042}, "an InputRequiredResult with an elicitation in URL mode"),
    "reserved_codes_are_left_alone": (
        {*range(-32099, -32019)} - {-32042, *STATELESS_ERRORS}, f"one of {_RESERVED}, or a code outside this range"
    ),
    "own_codes_are_outside_the_range": (
        {*range(-32768, -32099)} - {-32700, *range(-32603, -32599)}, "a code outside -32768 to -32000"
    ),
}  # fmt: skip
"""The codes that no error has."""


def _has_one_of(codes: set[int], expected: str, link: Link, said: Said) -> Verdict:
    return expected if type(said.code) is int and said.code in codes else None


for _name, _row in _CODES.items():
    rule("error", name=_name)(partial(_has_one_of, *_row))


@rule("error")
def missing_capabilities_are_named(link: Link, said: Said) -> Verdict:
    named = as_object(said.error.get("data")).get("requiredCapabilities")
    return "data.requiredCapabilities" if said.code == -32021 and not (isinstance(named, dict) and named) else None


# -- rounds (basic/patterns/mrtr) ---------------------------------------------------------------------------------

_ASKING = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


@rule("asking", stage=ORDER)
def input_is_asked_where_it_may(link: Link, said: Said) -> Verdict:
    return f"a complete result: only {', '.join(MAY_ASK)} may ask" if said.about not in MAY_ASK else None


@rule("asking", stage=SHAPE)
def questions_are_of_three_kinds(link: Link, said: Said) -> Verdict:
    questions = said.result.get("inputRequests", {})
    for each in questions.values() if isinstance(questions, dict) else [None]:
        if not isinstance(each, dict) or each.get("method") not in _ASKING:
            return f"requests that are one of {', '.join(_ASKING)}"
    return None


@rule("asking", stage=SHAPE)
def input_required_asks_something(link: Link, said: Said) -> Verdict:
    nothing = not said.result.keys() & {"inputRequests", "requestState"}
    return "inputRequests, or requestState, or both" if nothing else None


@rule("asking")
def asks_only_what_is_declared(link: Link, said: Said) -> Verdict:
    return _undeclared(link, said, "sampling/createMessage", "roots/list")


@rule("asking")
def elicits_only_where_declared(link: Link, said: Said) -> Verdict:
    return _undeclared(link, said, "elicitation/create")


def _undeclared(link: Link, said: Said, *methods: str) -> Verdict:
    declared = link.declared("client", said)
    for each in features.questions(said) if declared is not None else ():
        if each.get("method") in methods and _ASKING[each["method"]] not in (declared or {}):
            return f"no {each['method']}: the request does not declare {_ASKING[each['method']]}"
    return None


def asked_messages_have_roles(params: JsonObject, link: Link, said: Said) -> Verdict:
    for message in objects(params.get("messages")):
        if message.get("role") not in ("user", "assistant") or "content" not in message:
            return 'a role, "user" or "assistant", and a content'
    return None


def asked_tools_are_declared(params: JsonObject, link: Link, said: Said) -> Verdict:
    declared = link.declared("client", said)
    undeclared = features.samples_with_tools(params, declared) and "sampling" in (declared or {})
    return "no tools: the request does not declare sampling.tools" if undeclared else None


features.asked("asked_messages_have_roles", "sampling/createMessage", asked_messages_have_roles, SHAPE)
features.asked("asked_tools_are_declared", "sampling/createMessage", asked_tools_are_declared)


def question_of(link: Link, said: Said) -> Question | None:
    """Return what a request answers, if it goes on with one that was asked for input."""
    params, known = said.params, link.shared
    if isinstance(state := params.get("requestState"), str) and state in known.states:
        return known.states[state]
    answers = as_object(params.get("inputResponses"))
    same = [each for each in reversed(known.questions) if _same(each, said)] if answers else []
    return next((each for each in same if answers.keys() <= each.asked.keys()), same[0] if same else None)


_ROUND = ("_meta", "inputResponses", "requestState")


def _same(question: Question, said: Said) -> bool:
    before = question.request
    same = {name: value for name, value in before.params.items() if name not in _ROUND}
    return before.method == said.method and same == {n: v for n, v in said.params.items() if n not in _ROUND}


@rule("retry", *MAY_ASK, sender="client")
def retries_bring_the_answers(link: Link, said: Said) -> Verdict:
    question = question_of(link, said)
    answers = as_object(said.params.get("inputResponses"))
    if question is None or question.asked.keys() <= answers.keys():
        return None
    return f"inputResponses for {', '.join(question.asked)}"


@rule("retry", *MAY_ASK, sender="client")
def state_goes_back_as_it_came(link: Link, said: Said) -> Verdict:
    state, question = said.params.get("requestState"), question_of(link, said)
    if question is not None:
        return None if state == question.state or question.state is None else "the requestState of that result"
    given = [each for each in link.shared.questions if _same(each, said) and each.state is not None]
    return "requestState as it came" if isinstance(state, str) and given else None


@rule("retry", *MAY_ASK, sender="client")
def no_state_where_none_came(link: Link, said: Said) -> Verdict:
    question = question_of(link, said)
    if question is None or question.state is not None or "requestState" not in said.params:
        return None
    return "no requestState: the result had none"


@rule("retry", *MAY_ASK, sender="client")
def retries_have_their_own_id(link: Link, said: Said) -> Verdict:
    question = question_of(link, said)
    if question is None or question.request.key != said.key or question.request.event.conn != said.event.conn:
        return None
    return "another id: it is another request"


@rule("retry", sender="client")
def state_is_for_its_request(link: Link, said: Said) -> Verdict:
    question = link.shared.states.get(str(said.params.get("requestState")))
    if question is None or question.request.method == said.method and _names(question.request) == _names(said):
        return None
    return f"a requestState only with the request that it came for, {question.request.method}"


def _names(said: Said) -> Any:
    return said.params.get("name", said.params.get("uri"))


def _answered_undeclared(method: str, link: Link, said: Said) -> Verdict:
    declared = link.declared("client", said)
    lacks = declared is not None and _ASKING[method] not in declared
    wrong = lacks and answers(link, said, method)
    return f"{_ASKING[method]} in {CLIENT_CAPABILITIES}: the request answers it" if wrong else None


for _name, _method in {
    "answered_elicitation_is_declared": "elicitation/create",
    "answered_sampling_is_declared": "sampling/createMessage",
    "answered_roots_are_declared": "roots/list",
}.items():
    rule("retry", *MAY_ASK, sender="client", name=_name)(partial(_answered_undeclared, _method))


def answers(link: Link, said: Said, method: str) -> list[tuple[JsonObject, JsonObject]]:
    """Return the questions of a method that a request answers, each with its answer."""
    question = question_of(link, said)
    given = as_object(said.params.get("inputResponses")) if question is not None else {}
    pairs = [(as_object(question.asked.get(name)), as_object(answer)) for name, answer in given.items() if question]
    return [(as_object(asked.get("params")), answer) for asked, answer in pairs if asked.get("method") == method]


@rule("retry", *MAY_ASK, sender="client")
def answered_tools_are_declared(link: Link, said: Said) -> Verdict:
    declared = link.declared("client", said)
    for params, _ in answers(link, said, "sampling/createMessage"):
        if features.samples_with_tools(params, declared) and "sampling" in (declared or {}):
            return f"sampling.tools in {CLIENT_CAPABILITIES}: the request answers with tools"
    return None


def _answer(name: str, method: str, misfit: features.Misfit) -> None:
    """Make a rule of a session's result one for an answer within a request."""

    def ask(link: Link, said: Said) -> Verdict:
        given = answers(link, said, method)
        return next((found for params, answer in given if (found := misfit(params, answer, said))), None)

    rule("retry", *MAY_ASK, sender="client", name=name)(ask)


for _given in features.ANSWERS:
    _answer(*_given)

# -- subscriptions ------------------------------------------------------------------------------------------------

_CHANGES = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions",
}


def _listening(link: Link, said: Said) -> Said | None:
    return link.subscriptions.get(key(said.meta.get(SUBSCRIPTION_ID)))


@rule("notification", *_CHANGES, sender="server")
def changes_name_their_subscription(link: Link, said: Said) -> Verdict:
    return None if SUBSCRIPTION_ID in said.meta or _is_astray(link, said) else f"{SUBSCRIPTION_ID} in _meta"


def _is_astray(link: Link, said: Said) -> bool:
    """Return whether a change is told on the stream of a request that asks for something else."""
    body = said.exchange.body if link.http and said.exchange is not None and said.exchange.streams else None
    return said.method in _CHANGES and body is not None and body.method != "subscriptions/listen"


@rule("notification", *_CHANGES, sender="server")
def only_changes_that_were_asked_for(link: Link, said: Said) -> Verdict:
    request = _listening(link, said)
    if request is None:
        return None
    wanted = as_object(request.params.get("notifications")).get(_CHANGES[said.method])
    return None if wanted is True or as_list(wanted) else f"nothing: {_CHANGES[said.method]} was not asked for"


@rule("notification", *_CHANGES, sender="server")
def acknowledgement_comes_first(link: Link, said: Said) -> Verdict:
    request = _listening(link, said)
    early = request is not None and request.key not in link.acknowledged
    return "notifications/subscriptions/acknowledged before it" if early else None


@rule("notification", sender="server")
def notifications_belong_to_the_request(link: Link, said: Said) -> Verdict:
    body = None if said.exchange is None else said.exchange.body
    if not link.http or body is None or said.exchange is None or not said.exchange.streams:
        return None
    if _is_astray(link, said):
        return f"what belongs to {body.method}: changes go on the stream of subscriptions/listen"
    named = said.params.get("progressToken") if said.method == "notifications/progress" else None
    if named is not None and named != body.meta.get("progressToken"):
        return f"the progressToken of this request, {body.meta.get('progressToken')!r}"
    named = said.meta.get(SUBSCRIPTION_ID) if body.method == "subscriptions/listen" else None
    return f"the subscription of this request, {body.id!r}" if named is not None and named != body.id else None


@rule("notification", "notifications/message", sender="server")
def logs_only_where_asked_for(link: Link, said: Said) -> Verdict:
    if said.exchange is not None:
        body = said.exchange.body
        asked = body is None or LOG_LEVEL in body.meta or body.method == "subscriptions/listen"
    else:
        asked = not link.whole or bool(link.logging)
    return None if asked else f"no log message: no request has {LOG_LEVEL}"


@rule("notification", "notifications/message", sender="server")
def logs_are_not_on_subscriptions(link: Link, said: Said) -> Verdict:
    body = None if said.exchange is None else said.exchange.body
    listening = SUBSCRIPTION_ID in said.meta or (body is not None and body.method == "subscriptions/listen")
    return "the stream of the request that asked for it" if listening else None


@rule("end")
def ended_subscriptions_are_announced(link: Link, event: Any) -> Verdict:
    # Over HTTP the end of the stream says so.
    for result in link.torn.values() if not link.http else ():
        if result.event.seq < link.seq:
            return result, "notifications/cancelled with the id of subscriptions/listen beside it"
    return None


# -- caching ------------------------------------------------------------------------------------------------------


@rule("result", *sorted(CACHEABLE), stage=SHAPE)
def results_have_caching_hints(link: Link, said: Said) -> Verdict:
    if said.result.get("resultType") != "complete" or {"ttlMs", "cacheScope"} <= said.result.keys():
        return None
    return "ttlMs and cacheScope"


@rule("result", stage=SHAPE, having="ttlMs")
def ttl_is_not_negative(link: Link, said: Said) -> Verdict:
    ttl = said.result.get("ttlMs")
    return "0 or more" if isinstance(ttl, int | float) and ttl < 0 else None


@rule("result", *sorted(CACHEABLE))
def pages_have_one_scope(link: Link, said: Said) -> Verdict:
    page, now = (said.asked.method, str(said.asked.params.get("cursor"))), said.result.get("cacheScope")
    before = link.shared.scopes.get(page)
    return f"{before!r}, as on the page before" if before is not None and now != before else None
