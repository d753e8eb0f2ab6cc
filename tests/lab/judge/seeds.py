"""Violations, each one edit in a sound conversation, with the rule that must find it, and nothing else.

    seed("pong_is_empty", C(1, "ping"), S(1) | S(1, pong=True))

What stands before the bar is in the sound conversation, what stands behind it in the broken one, and the rest in both.
Without a bar the sound conversation is the opening alone; over HTTP, `change` is the edit, in the rows of the trace.
A seed holds in every revision that has its rule, unless it says otherwise. `base` names the rules that the sound
conversation breaks already: what a server owes to a faulty request shows in no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from mcp_ref.pages.basic.versioning import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
)
from mcp_ref.revisions import REVISIONS
from tests.lab.judge.talks import (
    CLIENT,
    GONE,
    SERVER,
    SESSION_ID,
    A,
    C,
    Change,
    E,
    Either,
    H,
    Line,
    N,
    Q,
    Row,
    S,
    T,
    V,
    X,
    opening,
    raw,
)


class Seed(NamedTuple):
    rule: str
    sound: list[Line]
    broken: list[Line]
    client: dict[str, Any] = CLIENT
    server: dict[str, Any] = SERVER
    opened: bool = True
    base: tuple[str, ...] = ()
    only: tuple[str, ...] = tuple(REVISIONS)
    change: Change | None = None
    over: str = "stdio"


def seed(rule: str, *lines: Any, base: str | tuple[str, ...] = (), **options: Any) -> Seed:
    sound, broken = (list(_side(lines, side)) for side in (0, 1))
    if sound == broken and "change" not in options:
        sound = []
    return Seed(rule, sound, broken, base=(base,) if isinstance(base, str) else base, **options)


def _side(lines: Any, side: int) -> Iterator[Line]:
    for each in lines:
        if isinstance(each, Line):
            yield each
        else:
            yield from _side([each[side]] if isinstance(each, Either) else each, side)


SESSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LAST = ("2026-07-28",)
NEWEST = ("2025-11-25", "2026-07-28")
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
OUT = {**TOOL, "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
STRICT = {"name": "t", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
TEXT = [{"type": "text", "text": "x"}]
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}}
LIST, LISTED, CALL, DONE = C(1, "tools/list"), S(1, tools=[]), C(1, "tools/call", name="t"), S(1, content=TEXT)
LISTEN = [
    C(1, "subscriptions/listen", notifications={"toolsListChanged": True}),
    N("notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True}, _meta={SUBSCRIPTION_ID: 1}),
]
ROOTS = {"method": "roots/list"}
NAMED = {SERVER_INFO: {"name": "x", "version": "1"}}
RELATED = "io.modelcontextprotocol/related-task"


def tools(*listed: Any) -> list[Line]:
    return [LIST, S(1, tools=list(listed))]


def called(id: Any, result: Any = TEXT, **params: Any) -> list[Line]:
    """A call of the tool t, and its result, or the content of it."""
    result = result if isinstance(result, dict) else {"content": result}
    return [C(id, "tools/call", name="t", **params), S(id, **result)]


def asks(id: int, message: Any) -> list[Line]:
    """The rounds of the stateless era around one question."""
    return called(id, {"resultType": "input_required", "inputRequests": {"k": message}, "requestState": "state-of-it"})


def again(id: int, answer: Any, **params: Any) -> list[Line]:
    given = {"name": "t", "inputResponses": {"k": answer}, "requestState": "state-of-it", **params}
    return [C(id, "tools/call", **given), S(id, content=TEXT)]


def elicit(**params: Any) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": FORM, **params}}


def sample(*messages: Any, **params: Any) -> dict[str, Any]:
    text = {"role": "user", "content": {"type": "text", "text": "x"}}
    return {"method": "sampling/createMessage", "params": {"maxTokens": 9, "messages": [*messages] or [text], **params}}


def q(question: dict[str, Any]) -> Line:
    """The same question in a session."""
    return Q(1, question["method"], **question.get("params", {}))


SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "t", "input": {}}]}
USED = {"role": "user", "content": [{"type": "tool_result", "toolUseId": "u", "content": TEXT}]}
MIXED = {"role": "user", "content": [*USED["content"], *TEXT]}
WITH_TOOLS = sample(tools=[TOOL], toolChoice={"mode": "auto"})
MUST_USE, NEVER_USE = (sample(tools=[TOOL], toolChoice={"mode": mode}) for mode in ("required", "none"))
USING = {**SAMPLED, "content": USE["content"], "stopReason": "toolUse"}


def edit(line: Line, **members: Any) -> Line:
    """The line with other members of its message."""
    return line._replace(message={**line.message, **members})


def alter(line: Line, **members: Any) -> Line:
    """The line with other members of its params, or of its result."""
    inner = "params" if "method" in line.message else "result"
    return edit(line, **{inner: {**line.message[inner], **members}})


def bare(sender: str, **members: Any) -> Line:
    return raw(sender, {"jsonrpc": "2.0", **members})


def without(*names: str) -> dict[str, Any]:
    """What a server can do, but for that."""
    return {name: SERVER[name] for name in SERVER if name not in names}


# fmt: off
def seeds() -> Iterator[Seed]:
    # -- the frame
    yield seed("is_json_rpc", LIST, LISTED | edit(LISTED, jsonrpc="1.0"))
    yield seed("is_json_rpc", bare("client"))
    yield seed("is_json_rpc", bare("server", method=5))
    yield seed("is_json_rpc", bare("server", method="notifications/message", params=[1]))
    yield seed("is_json_rpc", LIST, LISTED | bare("server", id=1, result=7))
    for wrong in (1.5, True, [1]):
        yield seed("request_id_is_string_or_integer", LIST | edit(LIST, id=wrong), LISTED | [])
    yield seed("id_is_not_null", LIST | edit(LIST, id=None), LISTED | [])
    nobody, unheard = E(None, -32601), T("notifications/x")
    yield seed("notifications_are_not_answered", LIST | [], unheard, nobody, LISTED | [])
    yield seed("notifications_are_not_answered", bare("client", id={}, method="x") | N("notifications/x"),
               nobody | raw("client", nobody.message), base="request_id_is_string_or_integer", only=SESSIONS)
    batched = partial(seed, only=("2025-03-26",))
    pair = raw("client", [LIST.message, C(2, "ping").message])
    answers = raw("server", [LISTED.message, S(2).message])
    yield batched("batches_are_not_empty", pair | raw("client", []), [] | nobody)
    yield batched("batches_are_received", pair, answers | nobody)
    yield batched("batches_are_received", Either([raw("client", "x"), nobody], []), pair, answers | E(None, -32600),
                  base="stdin_has_messages_only")
    yield seed("notification_has_no_id", bare("client", id=9, method="notifications/x"))
    yield seed("result_or_error", LIST, LISTED | bare("server", id=1))
    both = bare("server", id=1, result={"resultType": "complete"}, error={"code": 1, "message": "x"})
    yield seed("not_result_and_error", LIST, LISTED | both)
    yield seed("is_json_rpc", LIST, LISTED | both, only=NEWEST)
    for code in ("1", 1.5, None):
        yield seed("error_code_is_integer", LIST, E(1, 5) | E(1, code))
    for half in ({"code": 5}, {"message": "x"}):
        yield seed("error_has_code_and_message", LIST, E(1, 5) | bare("server", id=1, error=half))

    # -- ids
    refused = E(1, -32600)
    yield seed("id_not_used_before", LIST, LISTED, edit(LIST, id=2) | LIST, edit(LISTED, id=2) | refused)
    yield seed("id_not_in_flight", LIST, edit(LIST, id=2) | LIST, LISTED | refused, edit(LISTED, id=2) | [])
    for wrong in (2, "1"):
        yield seed("result_answers_a_request", LIST, LISTED, [] | edit(LISTED, id=wrong))
    yield seed("result_answers_a_request", LIST, LISTED, [] | LISTED)
    yield seed("error_answers_a_request", LIST, E(1, 5) | E(8, 5))
    yield seed("error_answers_a_request", LIST, E(1, 5), [] | E(1, 5))

    # -- _meta
    for name, rule in (
        ("a..b/x", "meta_prefix_is_dotted"),
        ("a/b/x", "meta_prefix_is_dotted"),
        ("1a/x", "meta_labels_have_the_form"),
        ("a-/x", "meta_labels_have_the_form"),
        ("a.b/-x", "meta_names_have_the_form"),
        ("x.", "meta_names_have_the_form"),
    ):
        yield seed(rule, alter(LIST, _meta={"a.b/x-y": 1}) | alter(LIST, _meta={name: 1}), LISTED)
        yield seed(rule, LIST, LISTED | alter(LISTED, _meta={name: 1}))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for name, right, wrong in (
        ("traceparent", parent, "nonsense"),
        ("traceparent", parent, parent.replace("0af7", "0AF7")),
        ("tracestate", "a=1,b=2", "=,=\n"),
        ("baggage", "k=v;p=1, l=w", "no equals sign"),
    ):
        yield seed("trace_context_has_the_form",
                   alter(LIST, _meta={name: right}) | alter(LIST, _meta={name: wrong}), LISTED)

    # -- cancellation, progress, ping
    cancel, end = T("notifications/cancelled", requestId=1), N("notifications/cancelled", requestId=1)
    able = {**SERVER, "tasks": {"requests": {"tools": {"call": {}}}}}
    yield seed("cancels_its_own_request", LIST, cancel | alter(cancel, requestId=7))
    yield seed("tasks_are_cancelled_as_tasks", LIST | alter(CALL, task={}), cancel, server=able)
    over = S(1, _meta={SUBSCRIPTION_ID: 1})
    yield seed("server_cancels_subscriptions_only", Either(LISTEN, LIST), end, over | [])
    yield seed("ended_subscriptions_are_announced", LISTEN, end | [], over, edit(LIST, id=2), edit(LISTED, id=2))

    def watched(token: Any = "p", id: int = 1) -> Line:
        return C(id, "tools/call", name="t", _meta={"progressToken": token})

    def progress(number: Any, token: Any = "p") -> Line:
        return N("notifications/progress", progressToken=token, progress=number)

    for wrong in (1.5, None, {}):
        yield seed("progress_token_is_string_or_integer", watched() | watched(wrong), DONE)
    yield seed("progress_grows", watched(), progress(1) | progress(2), progress(2), DONE)
    yield seed("progress_grows", watched(), progress(1) | progress(2), progress(2) | progress(1), DONE)
    yield seed("progress_token_was_given", watched(), progress(1) | progress(1, "q"), DONE)
    yield seed("progress_token_was_given", watched() | watched("7"), progress(1) | progress(1, 7), DONE)
    yield seed("progress_ends_with_the_request", watched(), progress(1) | [], DONE, [] | progress(1))
    yield seed("progress_token_unique", watched(), DONE | [], watched(id=2), [] | DONE, edit(DONE, id=2))
    task = {"taskId": "k", "status": "working", "createdAt": "2025-01-01T00:00:00Z",
            "lastUpdatedAt": "2025-01-01T00:00:00Z", "ttl": None}
    told = [C(2, "tasks/get", taskId="k"), S(2, **{**task, "status": "completed"})]
    yield seed("progress_ends_with_the_task", alter(watched(), task={}), S(1, task=task),
               progress(1) | [], told, [] | progress(1), server=able)
    yield seed("pong_is_empty", C(1, "ping"), S(1) | S(1, pong=True))
    yield seed("pong_is_empty", Q(1, "ping"), A(1) | A(1, pong=True))
    yield seed("ping_is_answered", C(1, "ping"), S(1) | E(1, -32601))

    # -- the opening
    for revision in SESSIONS:
        one = partial(seed, only=(revision,), opened=False)
        hello, welcome, ready = begun = opening(revision)
        early, late = C(9, "tools/list"), S(9, tools=[])
        yield one("initialize_is_not_cancelled", hello, welcome | alter(cancel, requestId=0), ready | [])
        for gone, rule in (
            ("protocolVersion", "initialize_names_the_version"),
            ("capabilities", "initialize_names_the_capabilities"),
            ("clientInfo", "initialize_names_the_client"),
        ):
            yield one(rule, hello | alter(hello, **{gone: GONE}), welcome | E(0, -32602), ready | [])
        for gone in ("capabilities", "serverInfo"):
            yield one("initialize_is_answered_in_full", hello, welcome | alter(welcome, **{gone: GONE}), ready)
        yield one("client_waits_for_the_answer", hello, welcome | early, ready | welcome, early | ready, late | [])
        yield one("server_waits_for_initialized", hello, welcome, ready | [], Q(5, "roots/list"),
                  A(5, roots=[]) | ready)
        yield one("initialized_is_sent", hello, welcome, ready | [], early, late)
        yield one("initialize_comes_first", [] | early, [] | E(9, -32600), begun)
        other = SESSIONS[SESSIONS.index(revision) - 1]
        same = [edit(each, id=8) for each in (hello, welcome)]
        older = [alter(each, protocolVersion=other) for each in same]
        yield seed("version_is_agreed_once", begun, Either(same, older), ready, only=(other,), opened=False)
    yield seed("methods_of_the_version", q(elicit()), only=SESSIONS[:2])
    yield seed("methods_of_the_version", C(3, "subscriptions/listen", notifications={}), only=SESSIONS[2:])
    yield seed("notifications_of_the_version", N("notifications/elicitation/complete", elicitationId="x"),
               only=SESSIONS[:3])
    yield seed("notifications_of_the_version", N("notifications/subscriptions/acknowledged", notifications={}),
               only=SESSIONS[3:])
    yield seed("batches_only_where_they_exist", raw("client", [LIST.message]))
    hello = opening("2025-03-26")[0]
    yield seed("initialize_stands_alone", hello | raw("client", [hello.message]), opened=False)

    # -- capabilities
    used, negotiated = "only_what_was_negotiated_is_used", "only_what_was_negotiated"
    asked = [Q(1, "roots/list"), A(1, roots=[])]
    yield seed(negotiated, LIST, E(1, -32601), server=without("tools"))
    yield seed(negotiated, asked[0], X(1, -32601), client={})
    yield seed(used, C(1, "resources/subscribe", uri="a:b"), S(1), server={**SERVER, "resources": {}})
    yield seed(used, LIST, LISTED, server=without("tools"), base="tools_are_declared")
    yield seed(used, asked, client={}, base="roots_are_declared")
    changed = N("notifications/tools/list_changed")
    yield seed("notifies_only_what_was_negotiated", changed, server={**SERVER, "tools": {}})
    complete = C(1, "completion/complete", ref={"type": "ref/prompt", "name": "p"}, argument={"name": "a", "value": ""})
    log = N("notifications/message", level="info", data=1)
    for name, rule, *lines in (
        ("tools", "tools_are_declared", LIST, LISTED),
        ("prompts", "prompts_are_declared", C(1, "prompts/list"), S(1, prompts=[])),
        ("resources", "resources_are_declared", C(1, "resources/list"), S(1, resources=[])),
        ("completions", "completions_are_declared", complete, S(1, completion={"values": []})),
        ("logging", "logging_is_declared", C(1, "logging/setLevel", level="info"), S(1)),
        ("tools", "changing_tools_are_declared", changed),
        ("prompts", "changing_prompts_are_declared", N("notifications/prompts/list_changed")),
        ("resources", "changing_resources_are_declared", N("notifications/resources/list_changed")),
        ("logging", "log_messages_are_declared", log),
    ):
        yield seed(rule, *lines, server=without(name), only=SESSIONS, base=used)
        if len(lines) > 1 and name != "logging":
            yield seed(rule, *lines, server=without(name), only=LAST)
    logged = alter(CALL, _meta={LOG_LEVEL: "info"})
    yield seed("log_messages_are_declared", logged, [] | log, DONE, server=without("logging"), only=LAST)
    for rule, *lines in (
        ("roots_are_declared", asked),
        ("sampling_is_declared", q(sample()), A(1, **SAMPLED)),
        ("elicitation_is_declared", q(elicit()), A(1, action="decline")),
    ):
        yield seed(rule, *lines, client={}, base=used)
    yield seed("unknown_roots_are_32601", asked[0], X(1, -32601) | X(1, -32603), client={}, base=negotiated)
    for only, base in ((SESSIONS, negotiated), (LAST, ())):
        yield seed("unknown_completion_is_32601", complete, E(1, -32601) | E(1, -32603),
                   server=without("completions"), only=only, base=base)
    for name in ("tools", "prompts", "resources"):
        yield seed(f"declared_{name}_are_listed", C(1, f"{name}/list"), S(1, **{name: []}) | E(1, -32601))
    odd = {"elicitation": {"x": {}}}
    hello = opening("2025-11-25")[0]
    yield seed("elicitation_has_a_mode", hello | alter(hello, capabilities=odd), opened=False)
    yield seed("elicitation_has_a_mode_here", alter(LIST, _meta={CLIENT_CAPABILITIES: odd}), LISTED)
    audit = {CLIENT_CAPABILITIES: {"extensions": {"audit": {}}}}
    yield seed("extension_names_have_a_prefix", alter(LIST, _meta=audit), LISTED)
    discover, spoken = C(5, "server/discover"), S(5, supportedVersions=["2026-07-28"], capabilities={}, _meta=NAMED)
    yield seed("extension_names_have_a_prefix_here", discover, alter(spoken, capabilities={"extensions": {"x": {}}}))

    # -- what every request of the stateless era says
    for name, value in ((PROTOCOL_VERSION, GONE), (CLIENT_CAPABILITIES, GONE), (PROTOCOL_VERSION, 5)):
        for method in ("tools/list", "subscriptions/listen"):
            yield seed("requests_say_what_they_are", C(1, method, _meta={name: value}, notifications={}), E(1, -32602))
    yield seed("incomplete_requests_are_refused", alter(CALL, _meta={CLIENT_CAPABILITIES: GONE}), E(1, -32602) | DONE,
               base="requests_say_what_they_are")
    yield seed("results_have_a_type", LIST, LISTED | alter(LISTED, resultType=GONE))
    yield seed("result_types_are_known", LIST, LISTED | alter(LISTED, resultType="other"))
    yield seed("results_name_the_server", discover, spoken | alter(spoken, _meta=GONE))
    for rule, right, *codes in (
        ("codes_of_the_past_are_gone", -32603, -32000, -32002, -32019),
        ("code_32042_is_gone", -32603, -32042),
        ("reserved_codes_are_left_alone", -32603, -32023, -32050, -32099),
        ("own_codes_are_outside_the_range", 7, -32100, -32768, -32604),
    ):
        yield from (seed(rule, LIST, E(1, right) | E(1, code)) for code in codes)
    needed = E(1, -32021, {"requiredCapabilities": {"sampling": {}}})
    yield seed("missing_capabilities_are_named", LIST, needed | E(1, -32021))

    def tried(id: int, version: str) -> list[Line]:
        return [C(id, "tools/list", _meta={PROTOCOL_VERSION: version}),
                E(id, -32022, {"supported": ["2026-07-28"], "requested": version})]

    request, refusal = refused = tried(1, "1999-01-01")
    yield seed("unsupported_version_lists_others", LIST, refusal | E(1, -32022))
    yield seed("version_is_implemented", request, refusal | LISTED)
    yield seed("retries_with_a_supported_version", refused,
               Either([edit(LIST, id=2), edit(LISTED, id=2)], tried(2, "1998-01-01")))
    yield seed("discover_is_there", LIST, LISTED, [] | discover, [] | E(5, -32601))
    yield seed("discover_was_there", [] | discover, [] | E(5, -32601), LIST, LISTED, opened=False)
    hello = raw("client", C(7, "initialize", protocolVersion="2025-11-25", capabilities={},
                            clientInfo={"name": "x", "version": "1"}).message)
    yield seed("refused_initialize_names_versions", hello,
               E(7, -32601, {"supported": ["2026-07-28"]}) | E(7, -32601))
    yield seed("no_way_back_after_a_modern_error", LIST, needed, [] | hello)

    # -- rounds
    given, decline = {"roots": []}, {"action": "decline"}
    ask_roots = {"resultType": "input_required", "inputRequests": {"k": ROOTS}}
    yield seed("input_is_asked_where_it_may", LIST, LISTED | S(1, **ask_roots))
    yield seed("questions_are_of_three_kinds", asks(1, ROOTS)[0], asks(1, ROOTS)[1] | asks(1, {"method": "ping"})[1])
    yield seed("input_required_asks_something", CALL, S(1, **ask_roots) | S(1, resultType="input_required"))
    for name, question in (("roots", ROOTS), ("sampling", sample())):
        able = {each: CLIENT[each] for each in CLIENT if each != name}
        yield seed("asks_only_what_is_declared", asks(1, question), client=able)
    yield seed("elicits_only_where_declared", asks(1, elicit()), client={"roots": {}})

    def retried(rule: str, question: Any, right: Any, wrong: Any = None, **params: Any) -> Seed:
        """A retry that is wrong in its answer, or in another parameter."""
        return seed(rule, asks(1, question), Either(again(2, right), again(2, wrong or right, **params)))

    yield retried("retries_bring_the_answers", ROOTS, given, inputResponses=GONE)
    for state in ("another", GONE):
        yield retried("state_goes_back_as_it_came", ROOTS, given, requestState=state)
    yield seed("no_state_where_none_came", called(1, ask_roots),
               Either(again(2, given, requestState=GONE), again(2, given, requestState="mine")))
    yield seed("retries_have_their_own_id", asks(1, ROOTS), Either(again(2, given), again(1, given)))
    prompt = [C(1, "prompts/get", name="p"), S(1, **ask_roots, requestState="q")]
    retry = alter(prompt[0], inputResponses={"k": given}, requestState="q")
    yield seed("retries_have_their_own_id", prompt, [] | retry, [] | S(1, messages=[]))
    yield retried("state_is_for_its_request", ROOTS, given, name="u")
    for rule, question, answer in (
        ("answered_elicitation_is_declared", elicit(), decline),
        ("answered_sampling_is_declared", sample(), SAMPLED),
        ("answered_roots_are_declared", ROOTS, given),
    ):
        yield retried(rule, question, answer, _meta={CLIENT_CAPABILITIES: {}})
    yield retried("answered_tools_are_declared", WITH_TOOLS, SAMPLED, _meta={CLIENT_CAPABILITIES: {"sampling": {}}})
    link = {"mode": "url", "url": "https://x/y"}
    yield seed("servers_send_no_requests", Q(1, "roots/list"))
    for over in ("stdio", "http"):
        yield seed("clients_send_no_results", A(1, roots=[]), over=over)
        yield seed("clients_send_no_errors", X(1, -32601), over=over)

    # -- subscriptions
    tools_changed, prompts_changed = (
        N(f"notifications/{name}/list_changed", _meta={SUBSCRIPTION_ID: 1}) for name in ("tools", "prompts"))
    yield seed("changes_name_their_subscription", LISTEN, tools_changed | N("notifications/tools/list_changed"))
    yield seed("only_changes_that_were_asked_for", LISTEN, tools_changed | prompts_changed)
    yield seed("acknowledgement_comes_first", LISTEN[0], LISTEN[1] | [], tools_changed)
    yield seed("logs_only_where_asked_for", logged | CALL, log, DONE)
    tagged = alter(log, _meta={SUBSCRIPTION_ID: 1})
    yield seed("logs_are_not_on_subscriptions", LISTEN, edit(logged, id=2), log | tagged)
    loud = alter(CALL, _meta={LOG_LEVEL: "loud"})
    yield seed("unknown_levels_of_requests_are_refused", loud, E(1, -32602) | DONE, base="schema")
    yield seed("unknown_levels_of_requests_are_32602", loud, E(1, -32602) | E(1, -32603), base="schema")

    # -- caching
    hints = "results_have_caching_hints"
    for method, result in (
        ("tools/list", {"tools": []}),
        ("prompts/list", {"prompts": []}),
        ("resources/list", {"resources": []}),
        ("resources/templates/list", {"resourceTemplates": []}),
    ):
        yield from (seed(hints, C(1, method), S(1, **result, **{gone: GONE})) for gone in ("ttlMs", "cacheScope"))
    yield seed(hints, C(1, "resources/read", uri="a:b"), S(1, contents=[], ttlMs=GONE))
    yield seed(hints, discover, alter(spoken, ttlMs=GONE))
    yield seed("ttl_is_not_negative", LIST, LISTED | alter(LISTED, ttlMs=-1))
    yield seed("pages_have_one_scope", LIST, S(1, tools=[], nextCursor="c", cacheScope="private"),
               C(2, "prompts/list"), S(2, prompts=[], nextCursor="c", cacheScope="public"),
               C(3, "tools/list", cursor="c"), S(3, tools=[]) | S(3, tools=[], cacheScope="public"))

    # -- tools
    for rule, right, *wrong in (
        ("tools_have_an_input_schema", TOOL, {**TOOL, "inputSchema": None}),
        ("tools_have_an_input_schema", TOOL, {"name": "t"}),
        ("schemas_are_valid", TOOL, {**TOOL, "inputSchema": {**FORM, "properties": {"n": {"type": "wrong"}}}}),
        ("schemas_are_valid", OUT, {**OUT, "outputSchema": {"type": "object", "required": 5}}),
        ("tool_names_have_128_characters_at_most", TOOL, {**TOOL, "name": "x" * 129}),
        ("tool_names_have_128_characters_at_most", TOOL, {**TOOL, "name": ""}),
        *(("tool_names_are_plain", TOOL, {**TOOL, "name": name}) for name in ("a b", "a,b", "ä", "a/b")),
        ("tool_names_are_unique", TOOL, TOOL, TOOL),
    ):
        yield seed(rule, LIST, S(1, tools=[right]) | S(1, tools=wrong))
    a, b = {**TOOL, "name": "a"}, {**TOOL, "name": "b"}
    yield seed("tools_keep_their_order", tools(a, b), edit(LIST, id=2), S(2, tools=[a, b]) | S(2, tools=[b, a]))
    yield seed("tool_inputs_are_validated", tools(STRICT),
               Either(called(2, arguments={"n": 1}), called(2, arguments={"n": "x"})))
    fits, fits_not = ({"content": TEXT, "structuredContent": {"n": n}} for n in (1, "x"))
    for wrong in (TEXT, fits_not):
        yield seed("structured_content_conforms", tools(OUT), Either(called(2, fits), called(2, wrong)))
    yield seed("structured_content_conformed", Either(called(7, fits), called(7, fits_not)), tools(OUT))
    yield seed("structured_content_is_also_text", tools(OUT),
               Either(called(2, fits), called(2, {**fits, "content": []})))
    embedded = {"type": "resource", "resource": {"uri": "a:b", "text": "x"}}
    yield seed("embedding_servers_have_resources", called(2, [embedded]), server=without("resources"))

    def marked(**properties: Any) -> Line:
        """A list of a tool whose arguments are in headers."""
        return S(1, tools=[{"name": "t", "inputSchema": {"type": "object", "properties": {
            name: {"type": kind, "x-mcp-header": header} for name, (kind, header) in properties.items()}}}])

    items = {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}
    for rule, wrong in (
        ("header_annotation_is_not_empty", marked(p=("string", ""))),
        ("header_annotation_is_a_token", marked(p=("string", "a b"))),
        ("header_annotation_has_no_control_characters", marked(p=("string", "a\nb"))),
        ("header_annotation_is_unique", marked(p=("string", "A"), q=("string", "a"))),
        ("header_annotation_is_on_a_primitive", marked(p=("number", "A"))),
        ("header_annotation_is_reachable", S(1, tools=[{**TOOL, "inputSchema": {**FORM, "properties": {"p": items}}}])),
    ):
        yield seed(rule, LIST, marked(p=("string", "A")) | wrong)

    # -- prompts and resources
    def shown(block: Any) -> Line:
        return S(1, messages=[{"role": "user", "content": block}])

    get = C(1, "prompts/get", name="p")
    for kind, rule in (("image", "images_are_base64_with_a_type"), ("audio", "sounds_are_base64_with_a_type")):
        block = {"type": kind, "data": "eA==", "mimeType": f"{kind}/x"}
        for change in ({"data": "%%"}, {"mimeType": "nothing"}):
            yield seed(rule, get, shown(block) | shown({**block, **change}))
    for rule, resource in (("embedded_resources_have_a_uri", {"uri": "no uri", "text": "x"}),
                           ("embedded_resources_have_text_or_blob", {"uri": "a:b", "blob": "%%"})):
        yield seed(rule, get, shown(embedded) | shown({**embedded, "resource": resource}))
    right, wrong = (S(1, contents=[{"uri": "a:b", "blob": blob}]) for blob in ("eA==", "%%"))
    yield seed("blobs_are_base64", C(1, "resources/read", uri="a:b"), right | wrong)
    right, wrong = (S(1, resources=[{"name": "r", "uri": uri}]) for uri in ("my-scheme:x", "my_scheme:x y"))
    yield seed("resource_uris_are_uris", C(1, "resources/list"), right | wrong)
    known = [C(8, "prompts/list"), S(8, prompts=[{"name": "p", "arguments": [{"name": "a", "required": True}]}])]
    yield seed("missing_arguments_are_refused", known, get, E(1, -32602) | S(1, messages=[]))
    yield seed("missing_arguments_are_32602", known, get, E(1, -32602) | E(1, -32603))
    refusal, broken = E(1, -32602), partial(seed, base="schema")
    yield broken("incomplete_completion_is_32602", alter(complete, argument=GONE), refusal | E(1, -32603))
    yield broken("unknown_levels_are_refused", C(1, "logging/setLevel", level="loud"), refusal | S(1))
    paged, next_, no = [LIST, S(1, tools=[], nextCursor="cursor")], C(2, "tools/list", cursor="cursor"), E(2, -32602)
    yield seed("cursors_go_back_as_they_came", paged, next_ | alter(next_, cursor="cursor+1"), S(2, tools=[]) | no)
    for revision in SESSIONS:
        second = [edit(each, id=10) if "id" in each.message else each for each in opening(revision)]
        yield seed("cursors_stay_in_their_session", paged, second, edit(LIST, id=2) | next_, S(2, tools=[]) | no,
                   only=(revision,))

    # -- what is asked and answered: in a session, and in a round
    sampled, declined, invalid = A(1, **SAMPLED), A(1, **decline), X(1, -32602)
    url, nameless = (elicit(requestedSchema=GONE, **link, elicitationId=id) for id in ("i", GONE))
    for rule, right, wrong in (
        ("tool_results_stand_alone asked_results_alone", sample(USE, USED), sample(USE, MIXED)),
        ("tool_uses_have_results asked_uses_have_results", sample(USE, USED), sample(USE)),
        ("asked_messages_have_roles", sample(), sample({"content": {"type": "text", "text": "x"}})),
        ("elicitation_has_a_message asked_with_a_message", elicit(), elicit(message=GONE)),
        ("form_elicitation_is_complete asked_forms_are_complete", elicit(), elicit(requestedSchema=GONE)),
        ("form_elicitation_is_complete", elicit(), elicit(mode="other")),
        ("url_elicitation_is_complete", url, elicit(**{**url["params"], "url": GONE})),
        ("url_elicitation_is_complete", url, nameless),
        ("elicitation_url_is_valid", url, elicit(**{**url["params"], "url": "no url"})),
        ("asked_urls_are_complete", elicit(**link), elicit(mode="url")),
        ("asked_urls_are_valid", elicit(**link), elicit(mode="url", url="no url")),
    ):
        answered = sampled if right["method"].startswith("sampling") else declined
        for each in rule.split():
            if each.startswith("asked"):
                yield seed(each, Either(asks(1, right), asks(1, wrong)))
            else:
                yield seed(each, q(right) | q(wrong), answered | invalid)
    accepts, misfits = ({"action": "accept", "content": {"n": n}} for n in (1, "x"))
    files, pages = ({"roots": [{"uri": f"{scheme}:///x"}]} for scheme in ("file", "http"))
    for in_session, in_round, question, right, wrong in (
        ("roots_are_file_uris", "answered_roots_are_files", ROOTS, files, pages),
        ("answers_fit_the_form", "answered_forms_fit", elicit(), accepts, misfits),
        ("required_tools_are_used", "answered_with_required_tools", MUST_USE, USING, SAMPLED),
        ("forbidden_tools_are_not_used", "answered_without_forbidden_tools", NEVER_USE, SAMPLED, USING),
    ):
        yield seed(in_session, q(question), A(1, **right) | A(1, **wrong))
        yield retried(in_round, question, right, wrong)
    plain = {"sampling": {}, "elicitation": {"form": {}}}
    for in_session, in_round, question, answered in (
        ("tools_only_for_clients_that_take_them", "asked_tools_are_declared", WITH_TOOLS, invalid),
        ("sampling_tools_are_declared", "", WITH_TOOLS, sampled),
        ("context_only_where_declared", "asked_context_is_declared", sample(includeContext="thisServer"), sampled),
        ("elicitation_mode_is_supported", "asked_mode_is_supported", url, invalid),
    ):
        yield seed(in_session, q(question), answered, client=plain)
        if in_round:
            yield seed(in_round, asks(1, question), client=plain)
    yield seed("missing_results_are_32602", q(sample(USE)), invalid | sampled, base="tool_uses_have_results")
    yield seed("mixed_results_are_32602", q(sample(USE, MIXED)), invalid | X(1, -32603),
               base="tool_results_stand_alone")
    yield seed("undeclared_modes_are_32602", q(url), invalid | declined, client=plain,
               base="elicitation_mode_is_supported")
    done, undone = (N("notifications/elicitation/complete", elicitationId=id) for id in "ij")
    yield seed("elicitation_was_begun", q(url), declined, done | undone)

    def required(*elicitations: Any) -> Line:
        return E(1, -32042, {"elicitations": [each["params"] for each in elicitations]})

    yield seed("required_elicitations_are_listed", CALL, required(url) | required())
    yield seed("required_elicitations_are_urls", CALL, required(url) | required(nameless))

    # -- text
    yield seed("stdout_has_messages_only", [] | raw("server", "Server is ready"), LIST, LISTED)
    yield seed("stdin_has_messages_only", [] | raw("client", "hello"), LIST, LISTED)
    pretty = json.dumps(alter(LISTED, resultType="complete").message, indent=1).split("\n")
    yield seed("no_newline_in_a_message", LIST, Either(LISTED, [raw("server", line) for line in pretty]))
# fmt: on


# fmt: off
def task_seeds() -> Iterator[Seed]:
    """Of basic/utilities/tasks, and of the extension."""
    able, part = ({**SERVER, "tasks": tasks} for tasks in (
        {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}, {"list": {}, "requests": {}}))
    client = {**CLIENT, "tasks": {"requests": {"elicitation": {"create": {}}}}}
    state = {"taskId": "k", "status": "working", "ttl": 60_000, "createdAt": "2025-11-25T09:00:00Z"}
    state |= {"lastUpdatedAt": "2025-11-25T09:00:01Z"}
    about = {RELATED: {"taskId": "k"}}

    def one(rule: str, *lines: Any, server: Any = able, client: Any = client, base: str = "") -> Seed:
        return seed(rule, *lines, only=("2025-11-25",), server=server, client=client, base=base or ())

    def of(support: str) -> list[Line]:
        return tools({**TOOL, "execution": {"taskSupport": support}})

    def made(**more: Any) -> Line:
        return S(2, task={**state, **more})

    def get(id: int, **more: Any) -> list[Line]:
        return [C(id, "tasks/get", taskId="k"), S(id, **{**state, **more})]

    listed, plain, done, no = of("optional"), edit(CALL, id=2), edit(DONE, id=2), E(2, -32601)
    call = alter(plain, task={})
    begun = [*listed, call, made()]

    # -- who may ask
    whose, which = "tasks_only_of_who_has_them", "tasks_only_of_requests_that_can"
    asked, answered = edit(q(elicit(task={})), id=7), A(7, action="decline")
    for rule, server, declared in ((whose, SERVER, CLIENT), (which, part, {**CLIENT, "tasks": {}})):
        yield one(rule, listed, plain | call, done, server=server)
        yield one(rule, asked, answered, client=declared)
    cannot = "tools_that_cannot_are_not_tasks"
    for tool in (of("forbidden"), tools(TOOL)):
        yield one(cannot, Either(listed, tool), call, made() | no)
    yield one("required_tasks_are_asked_for", of("required"), call | plain, made() | no)
    yield one("tasks_of_other_tools_are_32601", tools(TOOL), call, no | done, base=cannot)
    yield one("required_tasks_are_32601", of("required"), plain, no | done, base="required_tasks_are_asked_for")
    yield one("who_has_tasks_declares_them", listed, call, done | made(), base=whose, server=SERVER)
    yield one("undeclared_tasks_are_ignored", listed, call, done | made(), base=which, server=part)
    yield one("accepted_tasks_are_answered_with_a_task", listed, call, made() | done)
    yield one("accepted_tasks_are_answered_with_a_task", asked, A(7, task={**state, "taskId": "c"}) | answered)

    # -- what a task says
    yield one("task_ids_are_strings", listed, call, made() | made(taskId=5))
    yield one("tasks_begin_as_working", listed, call, made() | made(status="completed"))
    for wrong in (GONE, "soon", 5):
        yield one("tasks_say_when_they_were_created", listed, call, made() | made(createdAt=wrong))
        yield one("tasks_say_when_they_were_updated", begun, Either(get(3), get(3, lastUpdatedAt=wrong)))
    yield one("tasks_say_how_long_they_live", begun, Either(get(3), get(3, ttl=GONE)))
    yield one("task_ids_are_unique", begun, edit(call, id=5), S(5, task={**state, "taskId": "l"}) | S(5, task=state))
    failed = get(3, status="failed")
    yield one("failed_tasks_say_why", begun, failed[0], alter(failed[1], statusMessage="why") | failed[1])

    # -- what has ended stays so
    over, stays = get(3, status="completed"), Either(get(4, status="completed"), get(4))
    told = N("notifications/tasks/status", **{**state, "status": "completed"})
    yield one("ended_tasks_stay_ended", begun, over, stays)
    yield one("ended_tasks_stay_ended", begun, told, stays)
    cancel, cancelled = C(5, "tasks/cancel", taskId="k"), S(5, **{**state, "status": "cancelled"})
    yield one("cancelled_tasks_stay_cancelled", begun, cancel, cancelled, Either(get(6, status="cancelled"), get(6)))
    yield one("tasks_are_cancelled_before_the_answer", begun, cancel, cancelled | S(5, **state))
    yield one("ended_tasks_are_not_cancelled", begun, over, cancel, E(5, -32602) | cancelled)
    yield one("cancels_of_ended_tasks_are_32602", begun, over, cancel, E(5, -32602) | E(5, 1))
    fetch, fetched = C(6, "tasks/result", taskId="k"), S(6, content=TEXT, _meta=about)
    yield one("completed_tasks_give_their_result", begun, over, fetch, fetched | E(6, -32602))
    yield one("results_wait_for_the_end", begun, fetch, fetched, Either(get(7, status="completed"), get(7)))
    same, other = (S(8, content=[{"type": "text", "text": text}], _meta={**about, "x": 1}) for text in "xy")
    yield one("results_stay_the_same", begun, over, fetch, fetched, edit(fetch, id=8), same | other)
    ask, none, more = C(8, "tasks/list"), S(8, tasks=[]), S(8, tasks=[], nextCursor="c")
    first, last = get(3), get(9)
    for sound in (
        [first, ask, more, last], [first, ask, none], [ask, none, last], [first, ask, S(8, tasks=[state]), last],
        [first, last[0], ask, none, last[1]],
    ):
        yield one("tasks_that_are_shown_are_listed", begun, Either(sound, [first, ask, none, last]))
    for meta in (GONE, {RELATED: {"taskId": "x"}}):
        yield one("results_name_their_task", begun, fetch, fetched | alter(fetched, _meta=meta))
    for method, result in (
        ("tasks/get", state), ("tasks/cancel", {**state, "status": "cancelled"}), ("tasks/list", {"tasks": [state]}),
    ):
        ask, answer = C(8, method, **({} if method == "tasks/list" else {"taskId": "k"})), S(8, **result)
        yield one("requests_name_their_task_once", begun, ask | alter(ask, _meta=about), answer)
        yield one("answers_name_their_task_once", begun, ask, answer | alter(answer, _meta=about))
    yield one("news_name_their_task_once", begun, told | alter(told, _meta=about))
    # Events are a second apart.
    yield one("tasks_are_polled_slowly", begun, Either(get(3, pollInterval=500), get(3, pollInterval=5_000)), get(4))

    # -- the extension
    extended = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    two = partial(seed, only=LAST, server={**SERVER, **extended}, client={**CLIENT, **extended})
    new = {name: each for name, each in state.items() if name != "ttl"} | {"ttlMs": 60_000}
    born, look = S(2, resultType="task", **new), C(3, "tasks/get", taskId="k")
    yield two("tasks_only_for_who_declares", plain | alter(plain, _meta={CLIENT_CAPABILITIES: CLIENT}), born)
    yield two("tasks_are_shown_as_complete", plain, born, look, S(3, **new) | S(3, resultType="task", **new))
    for status, more in (
        ("completed", {"result": {"content": TEXT}}), ("failed", {"error": {"code": 1, "message": "x"}}),
        ("input_required", {"inputRequests": {"k": elicit()}}),
    ):
        now = S(3, **{**new, "status": status})
        yield two("states_have_what_belongs_to_them", plain, born, look, alter(now, **more) | now)
    for ask, rule in ((C(3, "tasks/update", taskId="k", inputResponses={}), "updates_are_acknowledged"),
                      (C(3, "tasks/cancel", taskId="k"), "cancels_are_acknowledged")):
        yield two(rule, plain, born, ask, S(3) | S(3, status="working"))
    for wrong in ("other", GONE):
        yield two("task_header_matches", plain, born, look, S(3, **new), over="http",
                  change=header("tasks/get", "mcp-name", wrong))


def skill_seeds() -> Iterator[Seed]:
    """Of the extension for skills."""
    name, uri, digest = "io.modelcontextprotocol/skills", "skill://a/refunds/SKILL.md", f"sha256:{'0' * 64}"
    able, whole = ({**SERVER, "extensions": {name: settings}} for settings in ({}, {"directoryRead": True}))
    one = partial(seed, only=LAST, server=able)
    own = {"uri": uri, "digest": digest, "size": 9}
    matter = {"name": "refunds", "description": "d"}
    entry = {"uri": uri, "frontmatter": matter, "resources": [own]}

    scant = {"extensions": {name: {}}, "tools": {}}
    answer = S(1, supportedVersions=list(LAST), _meta=NAMED, capabilities={**scant, "resources": {}})
    yield seed("skills_declare_resources", C(1, "server/discover"), answer | alter(answer, capabilities=scant),
               server={**scant, "resources": {}})
    read, listed = C(1, "resources/directory/read", uri="skill://a"), S(1, resources=[])
    no, lost = E(1, -32601), E(1, -32602)
    yield one("directory_read_only_where_declared", read, no)
    yield seed("directories_are_answered", read, listed | no, server=whole)
    yield seed("unknown_directory_is_invalid_params", alter(read, uri=uri), lost | listed, server=whole)
    ask, many, shown = C(1, "skills/get", uri=uri), C(1, "skills/list"), S(1, skill=entry)
    for request in (ask, many):
        yield one("skills_are_answered", request, E(1, -32603) | no)
    yield one("unknown_skill_is_invalid_params", alter(ask, uri="skill://a"), lost | shown)
    yield one("skill_is_the_one_asked_for", ask | alter(ask, uri="skill://b/SKILL.md"), shown)

    def listing(right: Any, wrong: Any) -> Either:
        one, other = (S(1, skill={**entry, "resources": each}) for each in (right, wrong))
        return one | other

    within = {**own, "uri": "skill://a/refunds/x..y/z.md"}
    files = [{**within, "uri": f"skill://a/refunds/{number}"} for number in range(512)]
    limit = 16 << 20
    elsewhere = ("file:///etc/passwd", "skill://a/other.md", "skill://a/refunds/../x", "skill://a/refunds/%2e%2e/x")
    lies: Any = ({"size": GONE}, {"size": "9"}, {"size": -1}, {"digest": GONE}, {"digest": digest.upper()})
    for rule, right, *wrongs in (
        ("skill_has_resources", "dynamic", GONE, "all", None),
        ("skill_lists_itself_once", [own], [], [own, own], [own, {**own, "uri": "skill://a/refunds/SKILL%2emd"}],
         [{**own, "uri": "skill://a/refunds/x"}]),
        ("skill_files_lie_within", [own, within], *([own, {**own, "uri": each}] for each in elsewhere)),
        ("skill_files_have_size_and_digest", [own], *([{**own, **lie}] for lie in lies)),
        ("skill_within_limits", [{**own, "size": limit}], [{**own, "size": limit + 1}]),
        ("skill_within_limits", [own, *files[1:]], [own, *files]),
    ):
        for wrong in wrongs:
            yield one(rule, ask, listing(right, wrong))
    misnamed = {**entry, "frontmatter": {**matter, "name": "other"}}
    yield one("skill_uri_ends_in_its_name", ask, shown | S(1, skill=misnamed))
    other = {**entry, "uri": "skill://b/refunds/SKILL.md", "resources": "dynamic"}
    yield one("skill_names_are_unique", many, S(1, skills=[entry]) | S(1, skills=[entry, other]))

    text = "---\nname: refunds\ndescription: d\n---\n"
    true = {**own, "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", "size": len(text)}

    def told(id: int, **more: Any) -> list[Line]:
        return [edit(ask, id=id), S(id, skill={**entry, "resources": [true], **more})]

    def file_of(id: int, text: str) -> list[Line]:
        return [C(id, "resources/read", uri=uri), S(id, contents=[{"uri": uri, "text": text}])]

    kept, changed = file_of(2, text), file_of(2, text.upper())
    liar = told(1, frontmatter={**matter, "license": "MIT"})
    yield one("skill_bytes_match", told(1), changed, Either(told(3, resources=[own]), told(3)))
    yield one("skill_bytes_match", told(1), Either(kept, changed), told(3))
    yield one("skill_frontmatter_is_identical", Either(told(1), liar), kept)
    yield one("skill_frontmatter_is_identical", liar, Either(changed, kept))


EDITION = "2026-01-26"
DOCUMENT = {"uri": "ui://a/b", "mimeType": "text/html;profile=mcp-app",
            "text": "<!-- a --> <!DOCTYPE html><title>x</title>"}


def app_seeds() -> Iterator[Seed]:
    """Of the extension for apps: what a client and a server say of them, in every revision."""
    right, *wrong = ({**CLIENT, "extensions": {"io.modelcontextprotocol/ui": each}} for each in (
        {"mimeTypes": [DOCUMENT["mimeType"]]}, {}, {"mimeTypes": "text/html"}, {"mimeTypes": [1]}))
    one = partial(seed, client=right)
    for able in wrong:
        for revision in SESSIONS:
            yield one("client_says_which_documents_it_shows", Either(opening(revision, right), opening(revision, able)),
                      opened=False, only=(revision,))
        yield one("client_says_which_documents_it_shows", LIST | alter(LIST, _meta={CLIENT_CAPABILITIES: able}),
                  S(1, tools=[TOOL]), only=LAST)
    shown = {**TOOL, "_meta": {"ui": {"resourceUri": "ui://a/b", "visibility": ["app"]}}}
    elsewhere = {**TOOL, "name": "u", "_meta": {"ui": {"resourceUri": "https://a.example/b"}}}
    yield one("app_has_the_scheme_ui", LIST, S(1, tools=[shown]) | S(1, tools=[shown, elsewhere]))
    read, document = C(2, "resources/read", uri="ui://a/b"), S(2, contents=[DOCUMENT])
    for member, rule, wrongs in (
        ("mimeType", "app_has_the_type_of_apps", (GONE, "text/html", "text/html; profile=mcp-app")),
        ("text", "app_is_an_html_document", ("", "<html></html>", "<p><!doctype html>")),
    ):
        yield from (one(rule, read, document | S(2, contents=[{**DOCUMENT, member: each}])) for each in wrongs)
    for only, code in ((SESSIONS, -32002), (LAST, -32602)):
        yield one("app_of_a_tool_exists", tools(shown), alter(read, uri="ui://a/c") | read, E(2, code), only=only)
    changed = N("notifications/tools/list_changed")
    yield one("app_of_a_tool_exists", tools(shown), changed | [], read, E(2, -32002), only=SESSIONS)
    yield one("tool_with_an_app_says_it_in_words", tools(shown), edit(CALL, id=2), edit(DONE, id=2) | S(2, content=[]))


def view_seeds() -> Iterator[Seed]:
    """Of what a host and an app that it shows say to each other."""
    one = partial(seed, opened=False, only=(EDITION,), over="postMessage")
    context = {"displayMode": "inline", "availableDisplayModes": ["inline", "fullscreen", "pip"]}
    params = {"appInfo": {"name": "x", "version": "1"}, "protocolVersion": EDITION}

    def answer(id: int, **result: Any) -> Line:
        return bare("host", id=id, result=result)

    asks = V("ui/initialize", 1, appCapabilities={"availableDisplayModes": ["inline", "pip"]}, **params)
    greeted, ready = answer(1, hostContext=context), V("ui/notifications/initialized")
    given, done = H("ui/notifications/tool-input", arguments={}), H("ui/notifications/tool-result", content=TEXT)
    part = H("ui/notifications/tool-input-partial", arguments={})
    rest = [V("ui/notifications/size-changed", height=9), H("ui/resource-teardown", "e")]
    too_early = "app_is_told_nothing_before_it_is_ready"
    for early in (rest[1], H("ui/notifications/host-context-changed", theme="dark")):
        yield one(too_early, asks, greeted, ready | early, Either([part, given, done, rest], []))
    # Between the page and its sandbox other rules hold, and what was not seen may have come.
    yield one(too_early, asks, H("ui/notifications/sandbox-resource-ready", html="") | given, greeted)
    begun = [asks, greeted, ready]
    yield one("app_gets_its_input_once", Either([], begun), given, done | given)
    yield one("app_gets_its_input_first", begun, part | [], given | [], done)
    yield one("app_gets_no_part_after_the_whole", begun, part | [], given, [] | part)
    for able in (GONE, [], "all"):
        yield one("app_says_what_it_can", asks | V("ui/initialize", 1, appCapabilities=able, **params), greeted)
    refused = bare("host", id=1, error={"code": -32601, "message": "x"})
    yield one("app_is_told_its_context", asks, greeted | answer(1))
    yield one("app_is_told_its_context", asks, refused | answer(1, hostContext="dark"))

    def mode(asked: str) -> Line:
        return V("ui/request-display-mode", 2, mode=asked)

    pip, inline, full = (answer(2, mode=each) for each in ("pip", "inline", "fullscreen"))
    fewer = H("ui/notifications/host-context-changed", availableDisplayModes=["inline"])
    yield one("app_asks_for_a_mode_that_is_offered", begun, mode("pip") | mode("window"), pip | inline)
    yield one("app_asks_for_a_mode_that_is_offered", begun, [] | fewer, mode("pip"), pip | inline)
    yield one("app_is_told_the_mode_that_holds", begun, mode("pip"), inline | answer(2))
    yield one("app_is_shown_as_it_can_be", begun, mode("fullscreen"), inline | full)


def hint_seeds() -> Iterator[Seed]:
    """Of what is a hint at most."""
    cancel = T("notifications/cancelled", requestId=1)
    yield seed("clients_name_themselves", LIST | alter(LIST, _meta={CLIENT_INFO: GONE}), LISTED)
    yield seed("cancelled_requests_get_no_result", LIST, cancel, [] | LISTED)
    yield seed("requests_are_answered", LIST, cancel | LISTED, edit(LIST, id=2), edit(LISTED, id=2) | [])
    yield seed("requests_are_answered", Q(1, "roots/list"), A(1, roots=[]) | [], only=SESSIONS)
    form = elicit(requestedSchema={"type": "object", "properties": {"apiKey": {"type": "string"}}})
    yield seed("forms_ask_for_no_secrets", q(elicit()) | q(form), A(1, action="decline"))
    yield seed("asked_forms_ask_for_no_secrets", Either(asks(1, elicit()), asks(1, form)))
    secret = {"type": "object", "properties": {"token": {"type": "string", "x-mcp-header": "Token"}}}
    yield seed("secrets_are_not_mirrored", tools({**TOOL, "inputSchema": secret}))
    yield seed("session_ids_cannot_be_guessed", LIST, LISTED, over="http", change=_session_id("1001"))
# fmt: on


# -- over HTTP: the edit is made in the events ------------------------------------------------------------------------


def _post(rows: list[Row], method: str) -> Row:
    return next(each for each in rows if _message(each).get("method") == method)


def _reply(rows: list[Row], method: str) -> Row:
    number = _post(rows, method)["http"]["exchange"]
    return next(each for each in rows if each["http"]["exchange"] == number and "status" in each["http"])


def _message(each: Row) -> dict[str, Any]:
    return each["message"] if isinstance(each["message"], dict) else {}


def row(sender: str, message: Any, **facts: Any) -> Row:
    return {"sender": sender, "message": message, "http": facts}


def put(method: str, *path: Any, to: Any, of: Callable[[list[Row], str], Row] = _post) -> Change:
    """A change of one place in a request, or in its reply."""

    def change(rows: list[Row]) -> None:
        place, *names, last = of(rows, method), *path
        for name in names:
            place = place[name]
        place.pop(last, None)
        if to is not GONE:
            place[last] = to

    return change


def header(method: str, name: str, value: Any, of: Callable[[list[Row], str], Row] = _post) -> Change:
    return put(method, "http", "headers", name, to=value, of=of)


def status(method: str, value: int) -> Change:
    return put(method, "http", "status", to=value, of=_reply)


def refuse(method: str, change_: Change) -> Change:
    """A change of a request, and the refusal that it deserves."""

    def change(rows: list[Row]) -> None:
        change_(rows)
        reply, request = _reply(rows, method), _post(rows, method)["message"]
        reply["message"] = E(request["id"], -32020).message
        reply["http"]["status"] = 400

    return change


def add(*new: Row) -> Change:
    return lambda rows: rows.extend({**row, "http": dict(row["http"])} for row in new)


def drop(which: Callable[[Row], bool]) -> Change:
    def change(rows: list[Row]) -> None:
        rows[:] = [each for each in rows if not which(each)]

    return change


def mirrored(*kinds: Any) -> dict[str, Any]:
    """A tool whose arguments are repeated in headers."""
    return {"name": "t", "inputSchema": {"type": "object", "properties": {
        name: {"type": kind, "x-mcp-header": header} for name, kind, header in kinds}}}  # fmt: skip


REGION, COUNT = ("r", "string", "Region"), ("n", "integer", "Count")
PROGRESSING = [C(1, "tools/call", name="t", _meta={"progressToken": "p"}),
               N("notifications/progress", progressToken="p", progress=1), DONE]  # fmt: skip


def seed_of_http(rule: str, change: Change, *lines: Any, **more: Any) -> Seed:
    return seed(rule, lines or (LIST, LISTED), change=change, over="http", **more)


# fmt: off
def authorization_seeds() -> Iterator[Seed]:
    """Of basic/authorization: what passes between a client and its server."""
    one = partial(seed_of_http, only=SESSIONS[1:] + LAST)

    def token(rows: list[Row]) -> None:
        for each in rows:
            if each["sender"] == "client" and _message(each).get("method") != "tools/list":
                each["http"]["headers"]["authorization"] = "Bearer x"

    def challenged(status: int, *challenge: str) -> Change:
        """The first request is refused, and sent again."""

        def change(rows: list[Row]) -> None:
            first = json.loads(json.dumps(rows[0]))
            first["http"]["exchange"] = 80
            headers = {"content-type": "text/plain", "www-authenticate": f"Bearer {', '.join(challenge)}"}
            headers = headers if challenge else {}
            rows[:0] = [first, row("server", None, exchange=80, method="POST", status=status, headers=headers)]

        return change

    where = 'resource_metadata="http://localhost/.well-known/oauth-protected-resource"'
    scope, lacks, bad = 'scope="a b"', 'error="insufficient_scope"', 'error="invalid_token"'
    yield one("authorization_is_sent_each_time", token)
    yield one("tokens_are_not_in_the_url", put("tools/list", "http", "query", to=["access_token"]))
    for rule, status, *challenge in (
        ("unauthorized_says_where", 401),
        ("unauthorized_says_where", 401, scope),
        ("challenges_name_the_scopes", 401, where),
        ("insufficient_scope_is_403", 400, lacks, where, scope),
        ("invalid_tokens_are_401", 403, bad, where, scope),
        ("insufficient_scope_names_the_scopes", 403, lacks, where),
        ("insufficient_scope_names_the_metadata", 403, lacks, scope),
        ("challenges_leave_offline_access_out", 401, where, 'scope="a offline_access"'),
    ):
        yield one(rule, challenged(status, *challenge))
    asked: dict[str, Any] = {"exchange": 70, "method": "GET", "what": "the protected resource metadata"}
    for rule, document in (
        ("metadata_names_authorization_servers", {"resource": "x"}),
        ("metadata_names_authorization_servers", {"authorization_servers": []}),
        ("metadata_leaves_offline_access_out",
         {"authorization_servers": ["https://auth"], "scopes_supported": ["offline_access"]}),
    ):
        told = row("server", None, **asked, status=200, oauth=document)
        yield one(rule, add(row("client", None, **asked, oauth={}), told))


def http_seeds() -> Iterator[Seed]:
    one = seed_of_http

    def said(number: int, message: Any, **facts: Any) -> Row:
        """What a server says to a GET."""
        return row("server", message, exchange=number, method="GET", status=200, **facts)

    def opened(number: int, revision: str, **headers: Any) -> list[Row]:
        """A GET, and the head of its stream."""
        asked = {"mcp-session-id": SESSION_ID, "accept": "text/event-stream"}
        asked |= {"mcp-protocol-version": revision} if REVISIONS[revision].version_header else {}
        get = row("client", None, exchange=number, method="GET", headers={**asked, **headers})
        return [get, said(number, None, headers={"content-type": "text/event-stream"})]

    for value in ("application/json", "text/event-stream", GONE):
        yield one("post_accepts_json_and_streams", header("tools/list", "accept", value))
    ask, *told = (bare("server", **each).message for each in (
        {"id": 70, "method": "ping"},
        *({"method": "notifications/message", "params": {"level": "info", "data": number}} for number in (1, 2))))
    for revision in SESSIONS[1:]:
        begun, other = opened(90, revision), opened(91, revision)
        first, second = said(90, told[0], eventId="z"), said(91, told[1], eventId="y")
        again = [*opened(92, revision, **{"last-event-id": "z"}), said(92, told[1], eventId="y")]
        for rule, change in (
            ("get_accepts_streams", add(*opened(90, revision, accept="application/json"))),
            ("get_is_answered_with_a_stream_or_405", add(begun[0], said(90, None, headers={}))),
            ("no_responses_on_the_standing_stream", _before_the_answer(*begun, said(90, LISTED.message))),
            ("streams_replay_their_own", add(*begun, first, *other, second, *again)),
            ("event_ids_are_unique", add(*begun, first, *other, said(91, told[1], eventId="z"))),
            ("session_id_is_sent", header("tools/list", "mcp-session-id", GONE)),
            ("session_id_is_visible_ascii", _session_id("a b")),
            ("new_session_after_404", _after_404),
            ("sessions_that_ended_are_404", _after_delete(200)),
            ("sessions_that_ended_are_404", _after_delete(400)),
            ("accepted_is_202", status("notifications/initialized", 200)),
            ("accepted_is_202", status("notifications/initialized", 204)),
            ("messages_are_posted", _by_put),
            ("initialized_was_sent", _without_initialized),
        ):
            yield one(rule, change, only=(revision,))
        yield one("messages_go_on_one_stream", add(*begun, said(90, ask), *other, said(91, ask)),
                  base="id_not_used_before", only=(revision,))
    yield one("messages_are_posted", _by_put, only=LAST)
    for value in ("text/plain", GONE):
        yield one("requests_are_answered_with_json_or_a_stream", header("tools/list", "content-type", value, _reply))
    mixed = [LIST.message, {"jsonrpc": "2.0", "id": 5, "result": {}}]
    yield one("post_has_a_message_or_a_batch", _batch(mixed), [])
    yield one("post_has_a_message_or_a_batch", _batch([]), [])
    yield one("post_has_one_message", _batch([{"jsonrpc": "2.0", "method": "notifications/x"}]), [])
    agreed, named = "version_header_is_the_one_agreed", "mcp-protocol-version"
    yield one("version_header_is_sent", header("tools/list", named, GONE))
    yield one(agreed, header("tools/list", named, "2025-03-26"), only=SESSIONS[2:])
    yield one("unknown_version_headers_are_refused", header("tools/list", named, "x"), base=agreed)
    unprimed = drop(lambda each: each["message"] is None and "eventId" in each["http"])
    yield one("streams_are_primed", unprimed, PROGRESSING)
    yield one("streams_end_with_the_response", _cut, PROGRESSING, only=SESSIONS[1:3])
    yield one("retry_comes_before_the_end", _cut, PROGRESSING, only=SESSIONS[3:])
    yield one("retry_is_waited_for", resumed(retry=5_000), PROGRESSING)
    yield one("utf8", _not_utf8)
    yield one("streams_are_not_buffered", header("tools/call", "x-accel-buffering", GONE, _reply), PROGRESSING)
    yield one("the_response_ends_the_stream", _after_the_response, PROGRESSING)
    progress = "notifications/progress"
    yield one("notifications_belong_to_the_request", put(progress, "message", "params", "progressToken", to="other"),
              C(7, "tools/call", name="t", _meta={"progressToken": "other"}), PROGRESSING)
    yield one("servers_send_no_requests", put(progress, "message", to=ask), PROGRESSING)
    yield one("subscriptions_end_with_a_result", _cut,
              LISTEN, N("notifications/cancelled", requestId=1), S(1, _meta={SUBSCRIPTION_ID: 1}))

    # -- headers that repeat the message
    for name, value, rule, mismatch in (
        ("mcp-protocol-version", GONE, "post_names_the_version", "other_headers_are_a_mismatch"),
        ("mcp-protocol-version", "2025-11-25", "version_header_matches", "other_versions_are_a_mismatch"),
        ("mcp-method", GONE, "method_header_matches", "other_headers_are_a_mismatch"),
        ("mcp-method", "tools/list", "method_header_matches", "other_headers_are_a_mismatch"),
        ("mcp-name", GONE, "name_header_matches", "other_headers_are_a_mismatch"),
        ("mcp-name", "u", "name_header_matches", "other_headers_are_a_mismatch"),
        ("mcp-name", "ä", "name_header_is_encoded", ""),
    ):
        change = header("tools/call", name, value)
        yield one(rule, refuse("tools/call", change), CALL, DONE)
        if mismatch:
            yield one(mismatch, change, CALL, DONE, base=rule)
    both, unmirrored = tools(mirrored(REGION, COUNT)), lambda rows: None
    for name, arguments, value, rule, mismatch in (
        ("region", {"r": "x"}, GONE, "arguments_are_mirrored", "missing_arguments_are_a_mismatch"),
        ("region", {"r": "x"}, "y", "mirrored_values_match", "other_arguments_are_a_mismatch"),
        ("count", {"n": 5}, "6", "mirrored_values_match", "other_arguments_are_a_mismatch"),
        ("region", {"r": "ä"}, "ä", "mirrored_values_are_encoded", "invalid_characters_are_a_mismatch"),
        ("region", {"r": "ä"}, "=?BASE64?w6Q=?=", "base64_marker_is_lower_case", "invalid_characters_are_a_mismatch"),
        ("region", {"r": "=?base64?x?="}, "=?base64?x?=", "what_looks_encoded_is_encoded", ""),
        ("count", {"n": 2**53}, str(2**53), "mirrored_integers_are_safe", ""),
        ("count", {"n": 42}, "42.0", "integers_are_compared_as_numbers", ""),
        ("region", {}, "x", "missing_arguments_are_not_mirrored", ""),
    ):
        call, change = called(2, arguments=arguments), header("tools/call", f"mcp-param-{name}", value)
        sound = called(2) if rule == "mirrored_integers_are_safe" else call
        yield one(rule, refuse("tools/call", change), both, Either(sound, call))
        if mismatch:
            yield one(mismatch, change, both, call, base=rule)
    null = [tools(mirrored(("r", ["string", "null"], "Region"))), called(2, arguments={"r": None})]
    yield one("null_is_not_mirrored", refuse("tools/call", header("tools/call", "mcp-param-region", "x")), null)
    yield one("encoded_names_are_decoded", refuse("tools/call", unmirrored), both, called(2, arguments={"r": "ä"}))
    yield seed("unusable_tools_are_not_called", tools(mirrored(("p", "number", "A"))), Either([], called(2)),
               over="http", base="header_annotation_is_on_a_primitive")
    for code, data, rule in (
        (-32021, {"requiredCapabilities": {"x": {}}}, "missing_capabilities_are_400"),
        (-32022, {"supported": ["2026-07-28"], "requested": "x"}, "unsupported_versions_are_400"),
        (-32020, GONE, "mismatches_are_400"),
    ):
        yield one(rule, status("tools/list", 200), LIST, E(1, code, data))
    yield one("unknown_methods_are_404", status("x/y", 200), C(1, "x/y"), E(1, -32601))
    yield seed("incomplete_requests_are_400", alter(LIST, _meta={CLIENT_CAPABILITIES: GONE}), E(1, -32602), over="http",
               base="requests_say_what_they_are")
    cancel = "notifications/cancelled"
    for code in (200, 204):
        yield one("accepted_is_202", status(cancel, code), LIST, LISTED, T(cancel, requestId=1), only=LAST)
    yield one("bodies_are_messages", _no_json, only=SESSIONS[1:] + LAST)
    yield seed("input_is_closed_before_signals", LIST, LISTED, change=_killed)
    yield seed("question_keys_unique", asks(1, ROOTS), change=_key_twice)
    yield one("first_event_names_the_endpoint", _late_endpoint, [])
    sse, no_endpoint = partial(seed, over="http+sse", only=("2024-11-05",)), drop(lambda each: "event" in each["http"])
    for rule, change in (("bodies_are_messages", _no_json), ("first_event_names_the_endpoint", no_endpoint),
                         ("messages_are_posted", _by_put), ("initialized_was_sent", _without_initialized)):
        yield sse(rule, change=change)
# fmt: on


def _before_the_answer(*new: Row) -> Change:
    def change(rows: list[Row]) -> None:
        at = rows.index(_reply(rows, "tools/list"))
        rows[at:] = [{**each, "http": dict(each["http"])} for each in new]

    return change


def _session_id(value: str) -> Change:
    def change(rows: list[Row]) -> None:
        for each in rows:
            if "mcp-session-id" in each["http"].get("headers", {}):
                each["http"]["headers"]["mcp-session-id"] = value

    return change


def _after_404(rows: list[Row]) -> None:
    post, reply = _post(rows, "tools/list"), _reply(rows, "tools/list")
    reply["message"], reply["http"]["status"] = None, 404
    rows.append({**post, "message": {**post["message"], "id": 55}, "http": {**post["http"], "exchange": 95}})


def _after_delete(status: int) -> Change:
    """The session ends, and a GET with its id is answered all the same."""

    def change(rows: list[Row]) -> None:
        headers = {**_in_session(rows)["headers"], "accept": "text/event-stream"}
        kind = {"content-type": "text/event-stream"}
        for number, method, answer, own in ((96, "DELETE", 200, {}), (97, "GET", status, kind)):
            rows.append(row("client", None, exchange=number, method=method, headers=headers))
            rows.append(row("server", None, exchange=number, method=method, status=answer, headers=own))

    return change


def _in_session(rows: list[Row]) -> dict[str, Any]:
    """What HTTP says of a message in a session that has begun."""
    return dict(_post(rows, "notifications/initialized")["http"])


def _has_session(rows: list[Row]) -> bool:
    return any(_message(each).get("method") == "initialize" for each in rows)


def _by_put(rows: list[Row]) -> None:
    for each in (_post(rows, "tools/list"), _reply(rows, "tools/list")):
        each["http"]["method"] = "PUT"


def _without_initialized(rows: list[Row]) -> None:
    number = _in_session(rows)["exchange"]
    drop(lambda each: each["http"]["exchange"] == number)(rows)


def _batch(batch: Any) -> Change:
    stateless = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}

    def change(rows: list[Row]) -> None:
        headers = _in_session(rows)["headers"] if _has_session(rows) else stateless
        rows.append(row("client", batch, exchange=80, method="POST", headers=headers))

    return change


def _end(rows: list[Row]) -> int:
    """Where the first stream ends."""
    return next(number for number, each in enumerate(rows) if "end" in each["http"])


def _cut(rows: list[Row]) -> None:
    """The response is lost, and the session goes on."""
    del rows[_end(rows) - 1]
    if _has_session(rows):
        answered = {"exchange": 60, "method": "POST", "status": 200, "headers": {"content-type": "application/json"}}
        rows.append(row("client", C(60, "ping").message, **{**_in_session(rows), "exchange": 60}))
        rows.append(row("server", S(60).message, **answered))


def resumed(retry: int) -> Change:
    """The stream of a call breaks off after an event with `retry`, and the client goes on with it a second later."""

    def change(rows: list[Row]) -> None:
        at = _end(rows)
        answer, end = rows[at - 1 : at + 1]
        asked, opened = _post(rows, "tools/call")["http"], _reply(rows, "tools/call")["http"]
        again = {"exchange": 90, "method": "GET"}
        rows[at - 1 :] = [
            row("server", None, exchange=asked["exchange"], method="POST", status=200, eventId="r", retry=retry),
            end,
            row("client", None, **again, headers={**asked["headers"], "last-event-id": "r"}),
            row("server", None, **again, status=200, headers=opened["headers"]),
            row("server", answer["message"], **again, status=200, eventId="r2"),
        ]

    return change


def _not_utf8(rows: list[Row]) -> None:
    reply, text = _reply(rows, "tools/list"), b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "\xff"}}'
    reply["message"], reply["raw"] = text.decode("utf-8", "replace"), base64.b64encode(text).decode()


def _after_the_response(rows: list[Row]) -> None:
    at = _end(rows)
    facts = {name: value for name, value in rows[at - 1]["http"].items() if name != "eventId"}
    rows.insert(at, row("server", {"jsonrpc": "2.0", "method": "notifications/other"}, **facts))


def _no_json(rows: list[Row]) -> None:
    _post(rows, "tools/list")["message"] = "{'id': 1}"
    drop(lambda each: _message(each).get("id") == 1)(rows)


def _killed(rows: list[Row]) -> None:
    rows.append({"sender": "client", "message": None, "http": None, "end": {"signal": 15}})


def _key_twice(rows: list[Row]) -> None:
    text = json.dumps(rows[-1]["message"]).replace('"k":', '"k": {"method": "roots/list"}, "k":')
    rows[-1]["raw"] = base64.b64encode(text.encode()).decode()


def _late_endpoint(rows: list[Row]) -> None:
    """The stream of HTTP+SSE, as somebody records it who knows of no such transport, with a message first."""
    get = {"exchange": 1, "method": "GET"}
    told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
    rows[:] = [
        row("client", None, **get, headers={"accept": "text/event-stream"}),
        row("server", None, **get, status=200, headers={"content-type": "text/event-stream"}),
        row("server", told, **get, status=200),
        row("server", None, **get, status=200, event="endpoint"),
    ]


ALL = (seeds, http_seeds, task_seeds, skill_seeds, app_seeds, view_seeds, authorization_seeds, hint_seeds)
