"""Violations, each one edit in a sound conversation, with the rule that must find it, and nothing else.

A seed holds in every revision that has its rule, unless it says otherwise. `base` names the rules that the sound
conversation breaks already: what a server owes to a faulty request shows in no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
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


SESSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LAST = ("2026-07-28",)
NEWEST = ("2025-11-25", "2026-07-28")
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
OUT = {**TOOL, "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
STRICT = {"name": "t", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
TEXT = [{"type": "text", "text": "x"}]
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}}
LISTEN = [
    C(1, "subscriptions/listen", notifications={"toolsListChanged": True}),
    N("notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True}, _meta={SUBSCRIPTION_ID: 1}),
]


def tools(*listed: Any) -> list[Line]:
    return [C(1, "tools/list"), S(1, tools=list(listed))]


def asks(id: int, message: Any) -> list[Line]:
    """The rounds of the stateless era around one question."""
    return [
        C(id, "tools/call", name="t"),
        S(id, resultType="input_required", inputRequests={"k": message}, requestState="state-of-it"),
    ]


def again(id: int, answer: Any, **params: Any) -> list[Line]:
    given = {"name": "t", "inputResponses": {"k": answer}, "requestState": "state-of-it", **params}
    return [C(id, "tools/call", **given), S(id, content=TEXT)]


def elicit(**params: Any) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": FORM, **params}}


def sample(*messages: Any, **params: Any) -> dict[str, Any]:
    text = {"role": "user", "content": {"type": "text", "text": "x"}}
    return {"method": "sampling/createMessage", "params": {"maxTokens": 9, "messages": [*messages] or [text], **params}}


SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "t", "input": {}}]}
USED = {"role": "user", "content": [{"type": "tool_result", "toolUseId": "u", "content": TEXT}]}
MIXED = {"role": "user", "content": [*USED["content"], *TEXT]}
WITH_TOOLS = {"tools": [TOOL], "toolChoice": {"mode": "auto"}}


def result_of(tool: Any, **result: Any) -> list[Line]:
    return [*tools(tool), C(2, "tools/call", name="t"), S(2, content=TEXT, **result)]


def edit(line: Line, **members: Any) -> Line:
    return raw(line.sender, {name: value for name, value in {**line.message, **members}.items() if value is not GONE})


# fmt: off
def seeds() -> Iterator[Seed]:
    ping = [C(1, "tools/list"), S(1, tools=[])]
    listing = C(1, "tools/list")

    # -- the frame
    yield Seed("is_json_rpc", ping, [C(1, "tools/list"), edit(S(1, tools=[]), jsonrpc="1.0")], only=SESSIONS)
    yield Seed("is_json_rpc", ping, [C(1, "tools/list"), Line("server", {**S(1, tools=[]).message, "jsonrpc": "1.0"})])
    yield Seed("is_json_rpc", [], [raw("client", {"jsonrpc": "2.0"})])
    yield Seed("is_json_rpc", [], [raw("server", {"jsonrpc": "2.0", "method": 5})])
    yield Seed("is_json_rpc", [], [raw("server", {"jsonrpc": "2.0", "method": "notifications/message", "params": [1]})])
    yield Seed("is_json_rpc", ping, [listing, raw("server", {"jsonrpc": "2.0", "id": 1, "result": 7})])
    for wrong in (1.5, True, [1]):
        yield Seed("request_id_is_string_or_integer", ping, [Line("client", {**listing.message, "id": wrong})])
    yield Seed("id_is_not_null", ping, [Line("client", {**listing.message, "id": None})])
    nobody = E(None, -32601)
    late = [listing, T("notifications/x"), nobody, S(1, tools=[])]
    unread = [raw("client", {"jsonrpc": "2.0", "id": {}, "method": "x"}), nobody]
    yield Seed("notifications_are_not_answered", late, [T("notifications/x"), nobody])
    yield Seed("notifications_are_not_answered", unread, [N("notifications/x"), raw("client", nobody.message)],
               base=("request_id_is_string_or_integer",), only=SESSIONS)
    batched: dict[str, Any] = {"only": ("2025-03-26",)}
    pair = raw("client", [listing.message, C(2, "ping").message])
    yield Seed("batches_are_not_empty", [pair], [raw("client", []), nobody], **batched)
    answered = raw("server", [S(1, tools=[]).message, S(2).message])
    yield Seed("batches_are_received", [pair, answered], [pair, nobody], **batched)
    yield Seed("batches_are_received", [raw("client", "x"), nobody, pair, answered], [pair, E(None, -32600)],
               base=("stdin_has_messages_only",), **batched)
    yield Seed("notification_has_no_id", [], [raw("client", {"jsonrpc": "2.0", "id": 9, "method": "notifications/x"})])
    yield Seed("result_or_error", ping, [listing, raw("server", {"jsonrpc": "2.0", "id": 1})])
    both = {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete"}, "error": {"code": 1, "message": "x"}}
    yield Seed("not_result_and_error", ping, [listing, raw("server", both)])
    yield Seed("is_json_rpc", ping, [listing, raw("server", both)], only=NEWEST)
    for code in ("1", 1.5, None):
        yield Seed("error_code_is_integer", [listing, E(1, 5)], [listing, E(1, code)])
    yield Seed("error_has_code_and_message", [listing, E(1, 5)],
               [listing, raw("server", {"jsonrpc": "2.0", "id": 1, "error": {"code": 5}})])
    yield Seed("error_has_code_and_message", [listing, E(1, 5)],
               [listing, raw("server", {"jsonrpc": "2.0", "id": 1, "error": {"message": "x"}})])

    # -- ids
    yield Seed("id_not_used_before", [*ping, C(2, "tools/list"), S(2, tools=[])],
               [*ping, C(1, "tools/list"), E(1, -32600)])
    yield Seed("id_not_in_flight", [listing, C(2, "tools/list"), S(1, tools=[]), S(2, tools=[])],
               [listing, C(1, "tools/list"), E(1, -32600)])
    for wrong in (2, "1"):
        yield Seed("result_answers_a_request", ping, [listing, S(1, tools=[]), S(wrong, tools=[])])
    yield Seed("result_answers_a_request", ping, [*ping, S(1, tools=[])])
    yield Seed("error_answers_a_request", [listing, E(1, 5)], [listing, E(8, 5)])
    yield Seed("error_answers_a_request", [listing, E(1, 5)], [listing, E(1, 5), E(1, 5)])

    # -- _meta
    for name, rule in (
        ("a..b/x", "meta_prefix_is_dotted"),
        ("a/b/x", "meta_prefix_is_dotted"),
        ("1a/x", "meta_labels_have_the_form"),
        ("a-/x", "meta_labels_have_the_form"),
        ("a.b/-x", "meta_names_have_the_form"),
        ("x.", "meta_names_have_the_form"),
    ):
        sound = [C(1, "tools/list", _meta={"a.b/x-y": 1}), S(1, tools=[])]
        yield Seed(rule, sound, [C(1, "tools/list", _meta={name: 1}), S(1, tools=[])])
        yield Seed(rule, ping, [listing, S(1, tools=[], _meta={name: 1})])
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for name, right, wrong in (
        ("traceparent", parent, "nonsense"),
        ("traceparent", parent, parent.replace("0af7", "0AF7")),
        ("tracestate", "a=1,b=2", "=,=\n"),
        ("baggage", "k=v;p=1, l=w", "no equals sign"),
    ):
        yield Seed("trace_context_has_the_form", [C(1, "tools/list", _meta={name: right}), S(1, tools=[])],
                   [C(1, "tools/list", _meta={name: wrong}), S(1, tools=[])])

    # -- cancellation, progress, ping
    cancel = [C(1, "tools/list"), T("notifications/cancelled", requestId=1)]
    yield Seed("cancels_its_own_request", cancel, [C(1, "tools/list"), T("notifications/cancelled", requestId=7)])
    able = {**SERVER, "tasks": {"requests": {"tools": {"call": {}}}}}
    made_a_task = [C(1, "tools/call", name="t", task={}), cancel[1]]
    yield Seed("tasks_are_cancelled_as_tasks", cancel, made_a_task, server=able)
    over = [N("notifications/cancelled", requestId=1), S(1, _meta={SUBSCRIPTION_ID: 1})]
    yield Seed("server_cancels_subscriptions_only", [*LISTEN, *over],
               [C(1, "tools/list"), N("notifications/cancelled", requestId=1)])
    yield Seed("ended_subscriptions_are_announced", [*LISTEN, *over, C(2, "tools/list"), S(2, tools=[])],
               [*LISTEN, over[1], C(2, "tools/list"), S(2, tools=[])])

    def called(*more: Line, token: Any = "p") -> list[Line]:
        return [C(1, "tools/call", name="t", _meta={"progressToken": token}), *more]

    def progress(number: Any, token: Any = "p") -> Line:
        return N("notifications/progress", progressToken=token, progress=number)

    done = S(1, content=TEXT)
    for wrong in (1.5, None, {}):
        yield Seed("progress_token_is_string_or_integer", called(done), called(done, token=wrong))
    yield Seed("progress_grows", called(progress(1), progress(2), done), called(progress(2), progress(2), done))
    yield Seed("progress_grows", called(progress(1), progress(2), done), called(progress(2), progress(1), done))
    yield Seed("progress_token_was_given", called(progress(1), done), called(progress(1, "q"), done))
    yield Seed("progress_token_was_given", called(progress(1), done), called(progress(1, 7), done, token="7"))
    yield Seed("progress_ends_with_the_request", called(progress(1), done), called(done, progress(1)))
    two = C(2, "tools/call", name="t", _meta={"progressToken": "p"})
    yield Seed("progress_token_unique", called(done, two, S(2, content=TEXT)), called(two, done, S(2, content=TEXT)))
    task = {"taskId": "k", "status": "working", "createdAt": "2025-01-01T00:00:00Z",
        "lastUpdatedAt": "2025-01-01T00:00:00Z", "ttl": None}
    made = [C(1, "tools/call", name="t", task={}, _meta={"progressToken": "p"}), S(1, task=task)]
    told = [C(2, "tasks/get", taskId="k"), S(2, **{**task, "status": "completed"})]
    yield Seed("progress_ends_with_the_task", [*made, progress(1), *told], [*made, *told, progress(1)], server=able)
    yield Seed("pong_is_empty", [C(1, "ping"), S(1)], [C(1, "ping"), S(1, pong=True)])
    yield Seed("ping_is_answered", [C(1, "ping"), S(1)], [C(1, "ping"), E(1, -32601)])
    yield Seed("pong_is_empty", [Q(1, "ping"), A(1)], [Q(1, "ping"), A(1, pong=True)])

    # -- the opening
    info = {"name": "x", "version": "1"}

    def initialize(revision: str, **change: Any) -> Line:
        return C(0, "initialize", **{"protocolVersion": revision, "capabilities": CLIENT, "clientInfo": info, **change})

    def answer(revision: str, **change: Any) -> Line:
        return S(0, **{"protocolVersion": revision, "capabilities": SERVER, "serverInfo": info, **change})

    ready = T("notifications/initialized")
    for revision in SESSIONS:
        one: dict[str, Any] = {"only": (revision,), "opened": False}
        begun = [initialize(revision), answer(revision), ready]
        early = C(9, "tools/list")
        yield Seed("initialize_is_not_cancelled", begun, [begun[0], T("notifications/cancelled", requestId=0)], **one)
        for gone, rule in (
            ("protocolVersion", "initialize_names_the_version"),
            ("capabilities", "initialize_names_the_capabilities"),
            ("clientInfo", "initialize_names_the_client"),
        ):
            yield Seed(rule, begun, [initialize(revision, **{gone: GONE}), E(0, -32602)], **one)
        for gone in ("capabilities", "serverInfo"):
            yield Seed("initialize_is_answered_in_full", begun, [begun[0], answer(revision, **{gone: GONE}), ready],
                       **one)
        yield Seed("client_waits_for_the_answer", [*begun, early, S(9, tools=[])], [begun[0], early, *begun[1:]], **one)
        yield Seed("server_waits_for_initialized", [*begun, Q(5, "roots/list"), A(5, roots=[])],
                   [*begun[:2], Q(5, "roots/list"), ready], **one)
        yield Seed("initialized_is_sent", [*begun, early, S(9, tools=[])], [*begun[:2], early, S(9, tools=[])], **one)
        yield Seed("initialize_comes_first", begun, [early, E(9, -32600), *begun], **one)
        anew = C(8, "initialize", **begun[0].message["params"])
        other = SESSIONS[SESSIONS.index(revision) - 1]
        older = C(8, "initialize", **{**begun[0].message["params"], "protocolVersion": other})
        told = S(8, **{**begun[1].message["result"], "protocolVersion": other})
        one = {"only": (other,), "opened": False}
        same = S(8, **begun[1].message["result"])
        yield Seed("version_is_agreed_once", [*begun, anew, same, ready], [*begun, older, told, ready], **one)
    old, new = "2024-11-05 2025-03-26", "2025-06-18 2025-11-25"
    for revisions in (old.split(), new.split()):
        later = "elicitation/create" if revisions[0] == "2024-11-05" else "subscriptions/listen"
        sender = Q if later.startswith("elicit") else C
        yield Seed("methods_of_the_version", [],
                   [sender(3, later, message="m", requestedSchema=FORM, notifications={})], only=tuple(revisions))
    yield Seed("notifications_of_the_version", [], [N("notifications/elicitation/complete", elicitationId="x")],
               only=("2024-11-05", "2025-03-26", "2025-06-18"))
    yield Seed("notifications_of_the_version", [], [N("notifications/subscriptions/acknowledged", notifications={})],
               only=("2025-11-25",))
    yield Seed("batches_only_where_they_exist", ping, [raw("client", [listing.message])])
    yield Seed("initialize_stands_alone", [initialize("2025-03-26")],
               [raw("client", [initialize("2025-03-26").message])], opened=False)

    # -- capabilities
    without = {name: SERVER[name] for name in SERVER if name != "tools"}
    yield Seed("only_what_was_negotiated", [], [C(1, "tools/list"), E(1, -32601)], server=without)
    yield Seed("only_what_was_negotiated", [], [Q(1, "roots/list"), X(1, -32601)], client={})
    subscribe = [C(1, "resources/subscribe", uri="a:b"), S(1)]
    used = "only_what_was_negotiated_is_used"
    yield Seed(used, [], subscribe, server={**SERVER, "resources": {}})
    yield Seed(used, [], ping, server=without, base=("tools_are_declared",))
    yield Seed(used, [], [Q(1, "roots/list"), A(1, roots=[])], client={}, base=("roots_are_declared",))
    yield Seed("notifies_only_what_was_negotiated", [], [N("notifications/tools/list_changed")],
               server={**SERVER, "tools": {}})
    ask = C(1, "completion/complete", ref={"type": "ref/prompt", "name": "p"}, argument={"name": "a", "value": ""})
    for name, rule, lines in (
        ("tools", "tools_are_declared", ping),
        ("prompts", "prompts_are_declared", [C(1, "prompts/list"), S(1, prompts=[])]),
        ("resources", "resources_are_declared", [C(1, "resources/list"), S(1, resources=[])]),
        ("completions", "completions_are_declared", [ask, S(1, completion={"values": []})]),
        ("logging", "logging_is_declared", [C(1, "logging/setLevel", level="info"), S(1)]),
        ("tools", "changing_tools_are_declared", [N("notifications/tools/list_changed")]),
        ("prompts", "changing_prompts_are_declared", [N("notifications/prompts/list_changed")]),
        ("resources", "changing_resources_are_declared", [N("notifications/resources/list_changed")]),
        ("logging", "log_messages_are_declared", [N("notifications/message", level="info", data=1)]),
    ):
        less = {each: SERVER[each] for each in SERVER if each != name}
        changing = rule.startswith("changing")
        yield Seed(rule, [], lines, server=less, only=SESSIONS, base=(used,))
        if not changing and name != "logging":
            yield Seed(rule, [], lines, server=less, only=LAST)
    logged = C(1, "tools/call", name="t", _meta={LOG_LEVEL: "info"})
    yield Seed("log_messages_are_declared", [logged, done],
               [logged, N("notifications/message", level="info", data=1), done],
               server={name: SERVER[name] for name in SERVER if name != "logging"}, only=LAST)
    for rule, lines in (
        ("roots_are_declared", [Q(1, "roots/list"), A(1, roots=[])]),
        ("sampling_is_declared", [Q(1, **_flat(sample())), A(1, **SAMPLED)]),
        ("elicitation_is_declared", [Q(1, **_flat(elicit())), A(1, action="decline")]),
    ):
        yield Seed(rule, [], lines, client={}, base=(used,))
    yield Seed("unknown_roots_are_32601", [Q(1, "roots/list"), X(1, -32601)], [Q(1, "roots/list"), X(1, -32603)],
               client={}, base=("only_what_was_negotiated",))
    nothing = {name: SERVER[name] for name in SERVER if name != "completions"}
    yield Seed("unknown_completion_is_32601", [ask, E(1, -32601)], [ask, E(1, -32603)], server=nothing,
               base=("only_what_was_negotiated",), only=SESSIONS)
    yield Seed("unknown_completion_is_32601", [ask, E(1, -32601)], [ask, E(1, -32603)], server=nothing, only=LAST)
    for name in ("tools", "prompts", "resources"):
        yield Seed(f"declared_{name}_are_listed", [C(1, f"{name}/list"), S(1, **{name: []})],
                   [C(1, f"{name}/list"), E(1, -32601)])
    yield Seed("elicitation_has_a_mode", [initialize("2025-11-25")],
               [initialize("2025-11-25", capabilities={"elicitation": {"x": {}}})], opened=False)
    wrong_mode = {CLIENT_CAPABILITIES: {"elicitation": {"x": {}}}}
    yield Seed("elicitation_has_a_mode_here", ping, [C(1, "tools/list", _meta=wrong_mode), S(1, tools=[])])
    wrong_name = {CLIENT_CAPABILITIES: {"extensions": {"audit": {}}}}
    yield Seed("extension_names_have_a_prefix", ping, [C(1, "tools/list", _meta=wrong_name), S(1, tools=[])])
    yield Seed("extension_names_have_a_prefix_here", [],
               [C(5, "server/discover"),
               S(5, supportedVersions=["2026-07-28"], capabilities={"extensions": {"x": {}}},
               _meta={"io.modelcontextprotocol/serverInfo": info})])

    # -- what every request of the stateless era says
    for gone, value in ((PROTOCOL_VERSION, GONE), (CLIENT_CAPABILITIES, GONE), (PROTOCOL_VERSION, 5)):
        lists = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
        for method in (*lists, "subscriptions/listen"):
            yield Seed("requests_say_what_they_are", [],
                       [C(1, method, _meta={gone: value}, notifications={}), E(1, -32602)])
    broken = C(1, "tools/call", name="t", _meta={CLIENT_CAPABILITIES: GONE})
    yield Seed("incomplete_requests_are_refused", [broken, E(1, -32602)], [broken, S(1, content=TEXT)],
               base=("requests_say_what_they_are",))
    yield Seed("results_have_a_type", ping, [listing, S(1, tools=[], resultType=GONE)])
    yield Seed("result_types_are_known", ping, [listing, S(1, tools=[], resultType="other")])
    yield Seed("results_name_the_server", [],
               [C(5, "server/discover"), S(5, supportedVersions=["2026-07-28"], capabilities={})])
    for code in (-32000, -32002, -32019):
        yield Seed("codes_of_the_past_are_gone", [listing, E(1, -32603)], [listing, E(1, code)])
    yield Seed("code_32042_is_gone", [listing, E(1, -32603)], [listing, E(1, -32042)])
    for code in (-32023, -32050, -32099):
        yield Seed("reserved_codes_are_left_alone", [listing, E(1, -32603)], [listing, E(1, code)])
    for code in (-32100, -32768, -32604):
        yield Seed("own_codes_are_outside_the_range", [listing, E(1, 7)], [listing, E(1, code)])
    need = {"requiredCapabilities": {"sampling": {}}}
    yield Seed("missing_capabilities_are_named", [listing, E(1, -32021, need)], [listing, E(1, -32021)])
    yield Seed("unsupported_version_lists_others",
               [listing, E(1, -32022, {"supported": ["2026-07-28"], "requested": "x"})], [listing, E(1, -32022)])
    other = C(1, "tools/list", _meta={PROTOCOL_VERSION: "1999-01-01"})
    refused = E(1, -32022, {"supported": ["2026-07-28"], "requested": "1999-01-01"})
    yield Seed("version_is_implemented", [other, refused], [other, S(1, tools=[])])
    third = C(2, "tools/list", _meta={PROTOCOL_VERSION: "1998-01-01"})
    refused_too = E(2, -32022, {"supported": ["2026-07-28"], "requested": "1998-01-01"})
    yield Seed("retries_with_a_supported_version", [other, refused, C(2, "tools/list"), S(2, tools=[])],
               [other, refused, third, refused_too])
    discover = [C(5, "server/discover"), E(5, -32601)]
    yield Seed("discover_is_there", ping, [*ping, *discover])
    yield Seed("discover_was_there", ping, [*discover, *ping], opened=False)
    late = C(7, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
    yield Seed("refused_initialize_names_versions",
               [Line("client", late.message, True), E(7, -32601, {"supported": ["2026-07-28"]})],
               [Line("client", late.message, True), E(7, -32601)])
    yield Seed("no_way_back_after_a_modern_error", [listing, E(1, -32021, need)],
               [listing, E(1, -32021, need), Line("client", late.message, True)])

    # -- rounds
    roots = {"method": "roots/list"}
    rounds = [*asks(1, roots), *again(2, {"roots": []})]
    yield Seed("input_is_asked_where_it_may", rounds,
               [listing, S(1, resultType="input_required", inputRequests={"k": roots})])
    yield Seed("questions_are_of_three_kinds", rounds, asks(1, {"method": "ping"}))
    yield Seed("input_required_asks_something", rounds,
               [C(1, "tools/call", name="t"), S(1, resultType="input_required")])
    for method, question in (("roots", roots), ("sampling", sample())):
        yield Seed("asks_only_what_is_declared", [], asks(1, question),
                   client={name: CLIENT[name] for name in CLIENT if name != method})
    yield Seed("elicits_only_where_declared", [], asks(1, elicit()), client={"roots": {}})
    yield Seed("retries_bring_the_answers", rounds,
               [*rounds[:2], C(2, "tools/call", name="t", requestState="state-of-it"), S(2, content=TEXT)])
    yield Seed("state_goes_back_as_it_came", rounds, [*rounds[:2], *again(2, {"roots": []}, requestState="another")])
    yield Seed("state_goes_back_as_it_came", rounds, [*rounds[:2], *again(2, {"roots": []}, requestState=GONE)])
    bare = [C(1, "tools/call", name="t"), S(1, resultType="input_required", inputRequests={"k": roots})]
    yield Seed("no_state_where_none_came", [*bare, *again(2, {"roots": []}, requestState=GONE)],
               [*bare, *again(2, {"roots": []}, requestState="mine")])
    yield Seed("retries_have_their_own_id", rounds, [*rounds[:2], *again(1, {"roots": []})])
    prompt = [C(1, "prompts/get", name="p"),
                S(1, resultType="input_required", inputRequests={"k": roots}, requestState="q")]
    retry = C(1, "prompts/get", name="p", inputResponses={"k": {"roots": []}}, requestState="q")
    yield Seed("retries_have_their_own_id", prompt, [*prompt, retry, S(1, messages=[])])
    yield Seed("state_is_for_its_request", rounds,
               [*rounds[:2],
               C(2, "tools/call", name="u", inputResponses={"k": {"roots": []}}, requestState="state-of-it"), S(2,
               content=TEXT)])
    for question, answered, rule in (
        (elicit(), {"action": "decline"}, "answered_elicitation_is_declared"),
        (sample(), SAMPLED, "answered_sampling_is_declared"),
        (roots, {"roots": []}, "answered_roots_are_declared"),
    ):
        yield Seed(rule, [*asks(1, question), *again(2, answered)],
                   [*asks(1, question), *again(2, answered, _meta={CLIENT_CAPABILITIES: {}})])
    with_tools = sample(**WITH_TOOLS)
    yield Seed("answered_tools_are_declared", [*asks(1, with_tools), *again(2, SAMPLED)],
               [*asks(1, with_tools), *again(2, SAMPLED, _meta={CLIENT_CAPABILITIES: {"sampling": {}}})])
    yield Seed("answered_roots_are_files", rounds, [*rounds[:2], *again(2, {"roots": [{"uri": "http://x"}]})])
    yield Seed("answered_forms_fit", [*asks(1, elicit()), *again(2, {"action": "accept", "content": {"n": 1}})],
               [*asks(1, elicit()), *again(2, {"action": "accept", "content": {"n": "x"}})])
    tool_use = {**SAMPLED, "content": USE["content"], "stopReason": "toolUse"}
    must, never = (sample(tools=[TOOL], toolChoice={"mode": "required"}),
                   sample(tools=[TOOL], toolChoice={"mode": "none"}))
    yield Seed("answered_with_required_tools", [*asks(1, must), *again(2, tool_use)],
               [*asks(1, must), *again(2, SAMPLED)])
    yield Seed("answered_without_forbidden_tools", [*asks(1, never), *again(2, SAMPLED)],
               [*asks(1, never), *again(2, tool_use)])
    for rule, right, wrong in _QUESTIONS:
        yield Seed(rule, asks(1, right), asks(1, wrong))
    yield Seed("asked_tools_are_declared", [], asks(1, with_tools), client={"sampling": {}})
    yield Seed("asked_context_is_declared", [], asks(1, sample(includeContext="thisServer")), client={"sampling": {}})
    yield Seed("asked_mode_is_supported", [], asks(1, elicit(mode="url", url="https://x/y")),
               client={"elicitation": {"form": {}}})
    yield Seed("servers_send_no_requests", [], [Q(1, "roots/list")])
    yield Seed("clients_send_no_results", [], [A(1, roots=[])])
    yield Seed("clients_send_no_errors", [], [X(1, -32601)])

    # -- subscriptions
    changed = N("notifications/tools/list_changed", _meta={SUBSCRIPTION_ID: 1})
    yield Seed("changes_name_their_subscription", [*LISTEN, changed], [*LISTEN, N("notifications/tools/list_changed")])
    yield Seed("only_changes_that_were_asked_for", [*LISTEN, changed],
               [*LISTEN, N("notifications/prompts/list_changed", _meta={SUBSCRIPTION_ID: 1})])
    yield Seed("acknowledgement_comes_first", [*LISTEN, changed], [LISTEN[0], changed])
    log = N("notifications/message", level="info", data=1)
    yield Seed("logs_only_where_asked_for", [logged, log, done], [C(1, "tools/call", name="t"), log, done])
    yield Seed("logs_are_not_on_subscriptions", [*LISTEN, logged._replace(message={**logged.message, "id": 2}), log],
               [*LISTEN, logged._replace(message={**logged.message, "id": 2}),
               N("notifications/message", level="info", data=1, _meta={SUBSCRIPTION_ID: 1})])
    unknown = C(1, "tools/call", name="t", _meta={LOG_LEVEL: "loud"})
    yield Seed("unknown_levels_of_requests_are_refused", [unknown, E(1, -32602)], [unknown, done], base=("schema",))
    yield Seed("unknown_levels_of_requests_are_32602", [unknown, E(1, -32602)], [unknown, E(1, -32603)],
               base=("schema",))

    # -- caching
    for method, result in (
        ("tools/list", {"tools": []}),
        ("prompts/list", {"prompts": []}),
        ("resources/list", {"resources": []}),
        ("resources/templates/list", {"resourceTemplates": []}),
    ):
        for gone in ("ttlMs", "cacheScope"):
            yield Seed("results_have_caching_hints", [], [C(1, method), S(1, **result, **{gone: GONE})])
    yield Seed("results_have_caching_hints", [], [C(1, "resources/read", uri="a:b"), S(1, contents=[], ttlMs=GONE)])
    yield Seed("results_have_caching_hints", [],
               [C(5, "server/discover"),
               S(5, supportedVersions=["2026-07-28"], capabilities={}, ttlMs=GONE,
               _meta={"io.modelcontextprotocol/serverInfo": info})])
    yield Seed("ttl_is_not_negative", ping, [listing, S(1, tools=[], ttlMs=-1)])
    page = [listing, S(1, tools=[], nextCursor="c", cacheScope="private"), C(2, "tools/list", cursor="c")]
    yield Seed("pages_have_one_scope", [*page, S(2, tools=[])], [*page, S(2, tools=[], cacheScope="public")])

    # -- tools
    yield Seed("tools_have_an_input_schema", tools(TOOL), tools({**TOOL, "inputSchema": None}))
    yield Seed("tools_have_an_input_schema", tools(TOOL), tools({"name": "t"}))
    yield Seed("schemas_are_valid", tools(TOOL),
               tools({**TOOL, "inputSchema": {"type": "object", "properties": {"n": {"type": "wrong"}}}}))
    yield Seed("schemas_are_valid", tools(OUT), tools({**OUT, "outputSchema": {"type": "object", "required": 5}}))
    yield Seed("tool_names_have_128_characters_at_most", tools(TOOL), tools({**TOOL, "name": "x" * 129}))
    yield Seed("tool_names_have_128_characters_at_most", tools(TOOL), tools({**TOOL, "name": ""}))
    for name in ("a b", "a,b", "ä", "a/b"):
        yield Seed("tool_names_are_plain", tools(TOOL), tools({**TOOL, "name": name}))
    yield Seed("tool_names_are_unique", tools(TOOL), tools(TOOL, TOOL))
    a, b = {**TOOL, "name": "a"}, {**TOOL, "name": "b"}
    yield Seed("tools_keep_their_order", [*tools(a, b), C(2, "tools/list"), S(2, tools=[a, b])],
               [*tools(a, b), C(2, "tools/list"), S(2, tools=[b, a])])
    call = [*tools(STRICT), C(2, "tools/call", name="t", arguments={"n": 1}), S(2, content=TEXT)]
    wrongly = C(2, "tools/call", name="t", arguments={"n": "x"})
    yield Seed("tool_inputs_are_validated", call, [*tools(STRICT), wrongly, S(2, content=TEXT)])
    yield Seed("structured_content_conforms", result_of(OUT, structuredContent={"n": 1}), result_of(OUT))
    early = [C(7, "tools/call", name="t"), S(7, structuredContent={"n": 1}, content=TEXT), *tools(OUT)]
    yield Seed("structured_content_conformed", early,
               [C(7, "tools/call", name="t"), S(7, structuredContent={"n": "x"}, content=TEXT), *tools(OUT)])
    yield Seed("structured_content_conforms", result_of(OUT, structuredContent={"n": 1}),
               result_of(OUT, structuredContent={"n": "x"}))
    yield Seed("structured_content_is_also_text", result_of(OUT, structuredContent={"n": 1}),
               [*tools(OUT), C(2, "tools/call", name="t"), S(2, content=[], structuredContent={"n": 1})])
    embedded = [{"type": "resource", "resource": {"uri": "a:b", "text": "x"}}]
    bare_server = {name: SERVER[name] for name in SERVER if name != "resources"}
    yield Seed("embedding_servers_have_resources", [], [C(2, "tools/call", name="t"), S(2, content=embedded)],
               server=bare_server)
    for wrong, rule in (
        ({"p": {"type": "string", "x-mcp-header": ""}}, "header_annotation_is_not_empty"),
        ({"p": {"type": "string", "x-mcp-header": "a b"}}, "header_annotation_is_a_token"),
        ({"p": {"type": "string", "x-mcp-header": "a\nb"}}, "header_annotation_has_no_control_characters"),
        (
            {"p": {"type": "string", "x-mcp-header": "A"}, "q": {"type": "string", "x-mcp-header": "a"}},
            "header_annotation_is_unique",
        ),
        ({"p": {"type": "number", "x-mcp-header": "A"}}, "header_annotation_is_on_a_primitive"),
        ({"p": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}, "header_annotation_is_reachable"),
    ):
        right = {"p": {"type": "string", "x-mcp-header": "A"}}
        yield Seed(rule, tools({"name": "t", "inputSchema": {"type": "object", "properties": right}}),
                   tools({"name": "t", "inputSchema": {"type": "object", "properties": wrong}}))

    # -- prompts and resources
    def prompt_of(block: Any) -> list[Line]:
        return [C(1, "prompts/get", name="p"), S(1, messages=[{"role": "user", "content": block}])]

    for kind, rule in (("image", "images_are_base64_with_a_type"), ("audio", "sounds_are_base64_with_a_type")):
        sound_block = {"type": kind, "data": "eA==", "mimeType": f"{kind}/x"}
        for change in ({"data": "%%"}, {"mimeType": "nothing"}):
            yield Seed(rule, prompt_of(sound_block), prompt_of({**sound_block, **change}))
    block = {"type": "resource", "resource": {"uri": "a:b", "text": "x"}}
    yield Seed("embedded_resources_have_a_uri", prompt_of(block),
               prompt_of({**block, "resource": {"uri": "no uri", "text": "x"}}))
    yield Seed("embedded_resources_have_text_or_blob", prompt_of(block),
               prompt_of({**block, "resource": {"uri": "a:b", "blob": "%%"}}))
    read = C(1, "resources/read", uri="a:b")
    yield Seed("blobs_are_base64", [read, S(1, contents=[{"uri": "a:b", "blob": "eA=="}])],
               [read, S(1, contents=[{"uri": "a:b", "blob": "%%"}])])
    resources = C(1, "resources/list")
    yield Seed("resource_uris_are_uris", [resources, S(1, resources=[{"name": "r", "uri": "my-scheme:x"}])],
               [resources, S(1, resources=[{"name": "r", "uri": "my_scheme:x y"}])])
    known = [C(8, "prompts/list"), S(8, prompts=[{"name": "p", "arguments": [{"name": "a", "required": True}]}])]
    get = C(1, "prompts/get", name="p")
    yield Seed("missing_arguments_are_refused", [*known, get, E(1, -32602)], [*known, get, S(1, messages=[])])
    yield Seed("missing_arguments_are_32602", [*known, get, E(1, -32602)], [*known, get, E(1, -32603)])
    partly = C(1, "completion/complete", ref={"type": "ref/prompt", "name": "p"})
    yield Seed("incomplete_completion_is_32602", [partly, E(1, -32602)], [partly, E(1, -32603)], base=("schema",))
    level = C(1, "logging/setLevel", level="loud")
    yield Seed("unknown_levels_are_refused", [level, E(1, -32602)], [level, S(1)], base=("schema",))
    paged = [listing, S(1, tools=[], nextCursor="cursor")]
    yield Seed("cursors_go_back_as_they_came", [*paged, C(2, "tools/list", cursor="cursor"), S(2, tools=[])],
               [*paged, C(2, "tools/list", cursor="cursor+1"), E(2, -32602)])
    for revision in SESSIONS:
        second = [
            Line(each.sender, {**each.message, "id": 10} if "id" in each.message else each.message)
            for each in (initialize(revision), answer(revision), ready)
        ]
        yield Seed("cursors_stay_in_their_session", [*paged, *second, C(12, "tools/list"), S(12, tools=[])],
                   [*paged, *second, C(12, "tools/list", cursor="cursor"), E(12, -32602)], only=(revision,))

    # -- roots, sampling, elicitation, in a session
    q_roots = Q(1, "roots/list")
    yield Seed("roots_are_file_uris", [q_roots, A(1, roots=[{"uri": "file:///x"}])],
               [q_roots, A(1, roots=[{"uri": "http://x"}])])

    def q(question: Any, answer_: Line) -> list[Line]:
        return [Q(1, **_flat(question)), answer_]

    sampled, declined = A(1, **SAMPLED), A(1, action="decline")
    yield Seed("tool_results_stand_alone", q(sample(USE, USED), sampled), q(sample(USE, MIXED), X(1, -32602)))
    yield Seed("tool_uses_have_results", q(sample(USE, USED), sampled), q(sample(USE), X(1, -32602)))
    yield Seed("missing_results_are_32602", q(sample(USE), X(1, -32602)), q(sample(USE), sampled),
               base=("tool_uses_have_results",))
    yield Seed("mixed_results_are_32602", q(sample(USE, MIXED), X(1, -32602)), q(sample(USE, MIXED), X(1, -32603)),
               base=("tool_results_stand_alone",))
    plain = {"sampling": {}, "elicitation": {"form": {}}}
    yield Seed("tools_only_for_clients_that_take_them", [], q(with_tools, X(1, -32602)), client=plain)
    yield Seed("sampling_tools_are_declared", [], q(with_tools, sampled), client=plain)
    yield Seed("context_only_where_declared", [], q(sample(includeContext="thisServer"), sampled), client=plain)
    yield Seed("required_tools_are_used", q(must, A(1, **tool_use)), q(must, sampled))
    yield Seed("forbidden_tools_are_not_used", q(never, sampled), q(never, A(1, **tool_use)))
    yield Seed("answers_fit_the_form", q(elicit(), A(1, action="accept", content={"n": 1})),
               q(elicit(), A(1, action="accept", content={"n": "x"})))
    yield Seed("elicitation_has_a_message", q(elicit(), declined), q(elicit(message=GONE), X(1, -32602)))
    yield Seed("form_elicitation_is_complete", q(elicit(), declined), q(elicit(requestedSchema=GONE), X(1, -32602)))
    yield Seed("form_elicitation_is_complete", q(elicit(), declined), q(elicit(mode="other"), X(1, -32602)))
    url = {"method": "elicitation/create",
        "params": {"mode": "url", "message": "m", "url": "https://x/y", "elicitationId": "i"}}
    for gone in ("url", "elicitationId"):
        yield Seed("url_elicitation_is_complete", q(url, declined),
                   q({**url, "params": {**url["params"], gone: GONE}}, X(1, -32602)))
    yield Seed("elicitation_url_is_valid", q(url, declined),
               q({**url, "params": {**url["params"], "url": "no url"}}, X(1, -32602)))
    yield Seed("elicitation_mode_is_supported", [], q(url, X(1, -32602)), client=plain)
    yield Seed("undeclared_modes_are_32602", q(url, X(1, -32602)), q(url, declined), client=plain,
               base=("elicitation_mode_is_supported",))
    complete = N("notifications/elicitation/complete", elicitationId="i")
    yield Seed("elicitation_was_begun", [*q(url, declined), complete],
               [*q(url, declined), N("notifications/elicitation/complete", elicitationId="j")])
    call_t = C(1, "tools/call", name="t")
    asked = {"elicitations": [url["params"]]}
    yield Seed("required_elicitations_are_listed", [call_t, E(1, -32042, asked)],
               [call_t, E(1, -32042, {"elicitations": []})])
    yield Seed("required_elicitations_are_urls", [call_t, E(1, -32042, asked)],
               [call_t, E(1, -32042, {"elicitations": [{**url["params"], "elicitationId": GONE}]})])

    # -- text
    yield Seed("stdout_has_messages_only", ping, [raw("server", "Server is ready"), *ping])
    yield Seed("stdin_has_messages_only", ping, [raw("client", "hello"), *ping])
    pretty = json.dumps(S(1, tools=[], resultType="complete").message, indent=1).split("\n")
    yield Seed("no_newline_in_a_message", ping, [listing, *[raw("server", line) for line in pretty]])
# fmt: on


def _flat(question: dict[str, Any]) -> dict[str, Any]:
    return {"method": question["method"], **question.get("params", {})}


_QUESTIONS = [
    ("asked_messages_have_roles", sample(), sample({"content": {"type": "text", "text": "x"}})),
    ("asked_results_alone", sample(USE, USED), sample(USE, MIXED)),
    ("asked_uses_have_results", sample(USE, USED), sample(USE)),
    ("asked_with_a_message", elicit(), elicit(message=GONE)),
    ("asked_forms_are_complete", elicit(), elicit(requestedSchema=GONE)),
    ("asked_urls_are_complete", elicit(mode="url", url="https://x/y"), elicit(mode="url")),
    ("asked_urls_are_valid", elicit(mode="url", url="https://x/y"), elicit(mode="url", url="no url")),
]


# -- over HTTP: the edit is made in the events ------------------------------------------------------------------------


def _post(rows: list[Row], method: str) -> Row:
    return next(row for row in rows if isinstance(row["message"], dict) and row["message"].get("method") == method)


def _reply(rows: list[Row], method: str) -> Row:
    number = _post(rows, method)["http"]["exchange"]
    return next(row for row in rows if row["http"]["exchange"] == number and "status" in row["http"])


def header(method: str, name: str, value: Any, of: Callable[[list[Row], str], Row] = _post) -> Change:
    """A change of a header of a request, or of its reply."""

    def change(rows: list[Row]) -> None:
        headers = of(rows, method)["http"]["headers"]
        headers.pop(name, None)
        if value is not GONE:
            headers[name] = value

    return change


def status(method: str, value: int) -> Change:
    def change(rows: list[Row]) -> None:
        _reply(rows, method)["http"]["status"] = value

    return change


def refuse(method: str, change_: Change, code: int = -32020) -> Change:
    """A change of a request, and the refusal that it deserves."""

    def change(rows: list[Row]) -> None:
        change_(rows)
        reply, request = _reply(rows, method), _post(rows, method)["message"]
        reply["message"] = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}}
        reply["http"]["status"] = 400

    return change


def add(*new: Row) -> Change:
    def change(rows: list[Row]) -> None:
        rows.extend({**row, "http": dict(row["http"])} for row in new)

    return change


def row(sender: str, message: Any, **facts: Any) -> Row:
    return {"sender": sender, "message": message, "http": facts}


MIRRORED = {
    "name": "t",
    "inputSchema": {
        "type": "object",
        "properties": {
            "r": {"type": "string", "x-mcp-header": "Region"},
            "n": {"type": "integer", "x-mcp-header": "Count"},
        },
    },
}


# fmt: off
def task_seeds() -> Iterator[Seed]:
    """Of basic/utilities/tasks, and of the extension."""
    all_ = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    server, part = {**SERVER, "tasks": all_}, {**SERVER, "tasks": {"list": {}, "requests": {}}}
    client = {**CLIENT, "tasks": {"requests": {"elicitation": {"create": {}}}}}
    one: dict[str, Any] = {"only": ("2025-11-25",), "server": server, "client": client}
    state = {"taskId": "k", "status": "working", "ttl": 60_000, "createdAt": "2025-11-25T09:00:00Z"}
    state |= {"lastUpdatedAt": "2025-11-25T09:00:01Z"}
    about = {RELATED: {"taskId": "k"}}
    tool = {**TOOL, "execution": {"taskSupport": "optional"}}
    listed = tools(tool)
    call, done = C(2, "tools/call", name="t", task={}), S(2, content=TEXT)

    def of(support: str) -> list[Line]:
        return tools({**TOOL, "execution": {"taskSupport": support}})

    def made(**more: Any) -> Line:
        return S(2, task={name: each for name, each in {**state, **more}.items() if each is not GONE})

    def get(id: int, **more: Any) -> list[Line]:
        return [C(id, "tasks/get", taskId="k"), S(id, **{**state, **more})]

    begun = [*listed, call, made()]

    # -- who may ask
    plain = C(2, "tools/call", name="t")
    sound = [*listed, plain, done]
    yield Seed("tasks_only_of_who_has_them", sound, [*listed, call, done], **{**one, "server": SERVER})
    yield Seed("tasks_only_of_requests_that_can", sound, [*listed, call, done], **{**one, "server": part})
    asked = Q(7, "elicitation/create", message="m", requestedSchema=FORM, task={})
    answered = A(7, action="decline")
    yield Seed("tasks_only_of_who_has_them", [], [asked, answered], **{**one, "client": CLIENT})
    yield Seed("tasks_only_of_requests_that_can", [], [asked, answered], **{**one, "client": {**CLIENT, "tasks": {}}})
    no = E(2, -32601)
    for support in ("forbidden", "none"):
        can = tools(TOOL) if support == "none" else of(support)
        yield Seed("tools_that_cannot_are_not_tasks", begun, [*can, call, no], **one)
    yield Seed("required_tasks_are_asked_for", [*of("required"), call, made()], [*of("required"), plain, no], **one)
    yield Seed("tasks_of_other_tools_are_32601", [*tools(TOOL), call, no], [*tools(TOOL), call, done],
               base=("tools_that_cannot_are_not_tasks",), **one)
    yield Seed("required_tasks_are_32601", [*of("required"), plain, no], [*of("required"), plain, done],
               base=("required_tasks_are_asked_for",), **one)
    yield Seed("who_has_tasks_declares_them", [*listed, call, done], [*listed, call, made()],
               base=("tasks_only_of_who_has_them",), **{**one, "server": SERVER})
    yield Seed("undeclared_tasks_are_ignored", [*listed, call, done], [*listed, call, made()],
               base=("tasks_only_of_requests_that_can",), **{**one, "server": part})
    yield Seed("accepted_tasks_are_answered_with_a_task", begun, [*listed, call, done], **one)
    shown = A(7, task={**state, "taskId": "c"})
    yield Seed("accepted_tasks_are_answered_with_a_task", [asked, shown], [asked, answered], **one)

    # -- what a task says
    yield Seed("task_ids_are_strings", begun, [*listed, call, made(taskId=5)], **one)
    yield Seed("tasks_begin_as_working", begun, [*listed, call, made(status="completed")], **one)
    for wrong in (GONE, "soon", 5):
        yield Seed("tasks_say_when_they_were_created", begun, [*listed, call, made(createdAt=wrong)], **one)
        yield Seed("tasks_say_when_they_were_updated", [*begun, *get(3)], [*begun, *get(3, lastUpdatedAt=wrong)], **one)
    yield Seed("tasks_say_how_long_they_live", [*begun, *get(3)], [*begun, *get(3, ttl=GONE)], **one)
    again = [C(5, "tools/call", name="t", task={}), S(5, task={**state, "taskId": "l"})]
    same = [again[0], S(5, task=state)]
    yield Seed("task_ids_are_unique", [*begun, *again], [*begun, *same], **one)
    failed = get(3, status="failed", statusMessage="why")
    yield Seed("failed_tasks_say_why", [*begun, *failed], [*begun, *get(3, status="failed")], **one)

    # -- what has ended stays so
    over = get(3, status="completed")
    yield Seed("ended_tasks_stay_ended", [*begun, *over, *get(4, status="completed")], [*begun, *over, *get(4)], **one)
    told = N("notifications/tasks/status", **{**state, "status": "completed"})
    yield Seed("ended_tasks_stay_ended", [*begun, told, *get(4, status="completed")], [*begun, told, *get(4)], **one)
    cancel = [C(5, "tasks/cancel", taskId="k"), S(5, **{**state, "status": "cancelled"})]
    cancelled = get(6, status="cancelled")
    yield Seed("cancelled_tasks_stay_cancelled", [*begun, *cancel, *cancelled], [*begun, *cancel, *get(6)], **one)
    yield Seed("tasks_are_cancelled_before_the_answer", [*begun, *cancel], [*begun, cancel[0], S(5, **state)], **one)
    refused = [cancel[0], E(5, -32602)]
    yield Seed("ended_tasks_are_not_cancelled", [*begun, *over, *refused], [*begun, *over, *cancel], **one)
    yield Seed("cancels_of_ended_tasks_are_32602", [*begun, *over, *refused], [*begun, *over, cancel[0], E(5, 1)],
               **one)
    fetch, fetched = C(6, "tasks/result", taskId="k"), S(6, content=TEXT, _meta=about)
    lost = [*begun, *over, fetch, E(6, -32602)]
    yield Seed("completed_tasks_give_their_result", [*begun, *over, fetch, fetched], lost, **one)
    yield Seed("results_wait_for_the_end", [*begun, fetch, fetched, *get(7, status="completed")],
               [*begun, fetch, fetched, *get(7)], **one)
    second = C(8, "tasks/result", taskId="k")
    other = S(8, content=[{"type": "text", "text": "y"}], _meta=about)
    twice = [*begun, *over, fetch, fetched, second]
    yield Seed("results_stay_the_same", [*twice, S(8, content=TEXT, _meta={**about, "x": 1})], [*twice, other], **one)
    none, page = (S(8, tasks=[], **more) for more in ({}, {"nextCursor": "c"}))
    listing = C(8, "tasks/list")
    for sound in (
        [*begun, *get(3), listing, page, *get(9)], [*begun, *get(3), listing, none],
        [*begun, listing, none, *get(9)], [*begun, *get(3), listing, S(8, tasks=[state]), *get(9)],
        [*begun, *get(3), get(9)[0], listing, none, get(9)[1]],
    ):
        yield Seed("tasks_that_are_shown_are_listed", sound, [*begun, *get(3), listing, none, *get(9)], **one)
    yield Seed("results_name_their_task", [*begun, fetch, fetched], [*begun, fetch, S(6, content=TEXT)], **one)
    yield Seed("results_name_their_task", [*begun, fetch, fetched],
               [*begun, fetch, S(6, content=TEXT, _meta={RELATED: {"taskId": "x"}})], **one)
    for method, answer in (
        ("tasks/get", state), ("tasks/cancel", {**state, "status": "cancelled"}), ("tasks/list", {"tasks": [state]}),
    ):
        params = {} if method == "tasks/list" else {"taskId": "k"}
        right = [C(8, method, **params), S(8, **answer)]
        named = [C(8, method, **params, _meta=about), right[1]]
        yield Seed("requests_name_their_task_once", [*begun, *right], [*begun, *named], **one)
        yield Seed("answers_name_their_task_once", [*begun, *right], [*begun, right[0], S(8, **answer, _meta=about)],
                   **one)
    news = edit(told, params={**told.message["params"], "_meta": about})
    yield Seed("news_name_their_task_once", [*begun, told], [*begun, news], **one)
    # Events are a second apart.
    quick, slow = ([*begun, *get(3, pollInterval=pause), *get(4)] for pause in (500, 5_000))
    yield Seed("tasks_are_polled_slowly", quick, slow, **one)

    # -- the extension
    name = "io.modelcontextprotocol/tasks"
    can = {**CLIENT, "extensions": {name: {}}}
    two: dict[str, Any] = {"only": LAST, "server": {**SERVER, "extensions": {name: {}}}, "client": can}
    new = {name: each for name, each in state.items() if name != "ttl"} | {"ttlMs": 60_000}
    born = [plain, S(2, resultType="task", **new)]
    without = [C(2, "tools/call", name="t", _meta={CLIENT_CAPABILITIES: CLIENT}), born[1]]
    yield Seed("tasks_only_for_who_declares", born, without, **two)
    look = C(3, "tasks/get", taskId="k")
    yield Seed("tasks_are_shown_as_complete", [*born, look, S(3, **new)], [*born, look, S(3, resultType="task", **new)],
               **two)
    for status, member, value in (
        ("completed", "result", {"content": TEXT}), ("failed", "error", {"code": 1, "message": "x"}),
        ("input_required", "inputRequests", {"k": elicit()}),
    ):
        now = {**new, "status": status}
        yield Seed("states_have_what_belongs_to_them", [*born, look, S(3, **now, **{member: value})],
                   [*born, look, S(3, **now)], **two)
    for method, rule in (("tasks/update", "updates_are_acknowledged"), ("tasks/cancel", "cancels_are_acknowledged")):
        more = {"inputResponses": {}} if method == "tasks/update" else {}
        ask = C(3, method, taskId="k", **more)
        yield Seed(rule, [*born, ask, S(3)], [*born, ask, S(3, status="working")], **two)
    lines = [*born, look, S(3, **new)]
    for wrong in ("other", GONE):
        yield Seed("task_header_matches", lines, lines, over="http", change=header("tasks/get", "mcp-name", wrong),
                   **two)
# fmt: on


# fmt: off
def skill_seeds() -> Iterator[Seed]:
    """Of the extension for skills."""
    name, uri, digest = "io.modelcontextprotocol/skills", "skill://a/refunds/SKILL.md", f"sha256:{'0' * 64}"
    able, whole = ({**SERVER, "extensions": {name: settings}} for settings in ({}, {"directoryRead": True}))
    one: dict[str, Any] = {"only": LAST, "server": able}
    own = {"uri": uri, "digest": digest, "size": 9}
    entry = {"uri": uri, "frontmatter": {"name": "refunds", "description": "d"}, "resources": [own]}
    ask, many = C(1, "skills/get", uri=uri), C(1, "skills/list")
    sound = [ask, S(1, skill=entry)]

    bare = {"extensions": {name: {}}, "tools": {}}
    about = {"supportedVersions": list(LAST), "_meta": {SERVER_INFO: {"name": "x", "version": "1"}}}
    discovers = [C(1, "server/discover"), S(1, **about, capabilities={**bare, "resources": {}})]
    lacks = [discovers[0], S(1, **about, capabilities=bare)]
    yield Seed("skills_declare_resources", discovers, lacks, server={**bare, "resources": {}})
    read = C(1, "resources/directory/read", uri="skill://a")
    listed = [read, S(1, resources=[])]
    yield Seed("directory_read_only_where_declared", [], [read, E(1, -32601)], **one)
    yield Seed("directories_are_answered", listed, [read, E(1, -32601)], server=whole)
    file = C(1, "resources/directory/read", uri=uri)
    yield Seed("unknown_directory_is_invalid_params", [file, E(1, -32602)], [file, listed[1]], server=whole)
    for request in (ask, many):
        yield Seed("skills_are_answered", [request, E(1, -32603)], [request, E(1, -32601)], **one)
    none = C(1, "skills/get", uri="skill://a")
    yield Seed("unknown_skill_is_invalid_params", [none, E(1, -32602)], [none, sound[1]], **one)
    yield Seed("skill_is_the_one_asked_for", sound, [C(1, "skills/get", uri="skill://b/SKILL.md"), sound[1]], **one)

    def said(**more: Any) -> list[Line]:
        return [ask, S(1, skill={key: value for key, value in {**entry, **more}.items() if value is not GONE})]

    for wrong in (GONE, "all", None):
        yield Seed("skill_has_resources", said(resources="dynamic"), said(resources=wrong), **one)
    spelled = {**own, "uri": "skill://a/refunds/SKILL%2emd"}
    for listing in ([], [own, own], [own, spelled], [{**own, "uri": "skill://a/refunds/x"}]):
        yield Seed("skill_lists_itself_once", sound, said(resources=listing), **one)
    within = {**own, "uri": "skill://a/refunds/x..y/z.md"}
    for elsewhere in ("file:///etc/passwd", "skill://a/other.md", "skill://a/refunds/../x", "skill://a/refunds/%2e%2e/x"):
        yield Seed("skill_files_lie_within", said(resources=[own, within]),
                   said(resources=[own, {**own, "uri": elsewhere}]), **one)
    for lie in ({"size": GONE}, {"size": "9"}, {"size": -1}, {"digest": GONE}, {"digest": digest.upper()}):
        broken = {key: value for key, value in {**own, **lie}.items() if value is not GONE}
        yield Seed("skill_files_have_size_and_digest", sound, said(resources=[broken]), **one)
    yield Seed("skill_uri_ends_in_its_name", sound, said(frontmatter={"name": "other", "description": "d"}), **one)
    limit = 16 << 20
    yield Seed("skill_within_limits", said(resources=[{**own, "size": limit}]),
               said(resources=[{**own, "size": limit + 1}]), **one)
    files = [{**within, "uri": f"skill://a/refunds/{number}"} for number in range(512)]
    yield Seed("skill_within_limits", said(resources=[own, *files[1:]]), said(resources=[own, *files]), **one)
    other = {**entry, "uri": "skill://b/refunds/SKILL.md", "resources": "dynamic"}

    text = "---\nname: refunds\ndescription: d\n---\n"
    true = {**own, "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", "size": len(text)}

    def shown(id: int, **more: Any) -> list[Line]:
        return [C(id, "skills/get", uri=uri), S(id, skill={**entry, "resources": [true], **more})]

    def file_of(id: int, text: str) -> list[Line]:
        return [C(id, "resources/read", uri=uri), S(id, contents=[{"uri": uri, "text": text}])]

    changed = file_of(2, text.upper())
    yield Seed("skill_bytes_match", [*shown(1), *changed, *shown(3, resources=[own])],
               [*shown(1), *changed, *shown(3)], **one)
    yield Seed("skill_bytes_match", [*shown(1), *file_of(2, text), *shown(3)], [*shown(1), *changed, *shown(3)], **one)
    liar = {"name": "refunds", "description": "d", "license": "MIT"}
    yield Seed("skill_frontmatter_is_identical", [*shown(1), *file_of(2, text)],
               [*shown(1, frontmatter=liar), *file_of(2, text)], **one)
    yield Seed("skill_frontmatter_is_identical", [*shown(1, frontmatter=liar), *changed],
               [*shown(1, frontmatter=liar), *file_of(2, text)], **one)
    yield Seed("skill_names_are_unique", [many, S(1, skills=[entry])], [many, S(1, skills=[entry, other])], **one)
# fmt: on


EDITION = "2026-01-26"
DOCUMENT = {
    "uri": "ui://a/b",
    "mimeType": "text/html;profile=mcp-app",
    "text": "<!-- a --> <!DOCTYPE html><title>x</title>",
}


# fmt: off
def app_seeds() -> Iterator[Seed]:
    """Of the extension for apps: what a client and a server say of them, in every revision."""
    name = "io.modelcontextprotocol/ui"
    right, *wrong = ({**CLIENT, "extensions": {name: each}} for each in (
        {"mimeTypes": [DOCUMENT["mimeType"]]}, {}, {"mimeTypes": "text/html"}, {"mimeTypes": [1]}))
    one: dict[str, Any] = {"client": right}
    for able in wrong:
        for revision in SESSIONS:
            yield Seed("client_says_which_documents_it_shows", opening(revision, right), opening(revision, able),
                       client=right, opened=False, only=(revision,))
        yield Seed("client_says_which_documents_it_shows", tools(TOOL),
                   [C(1, "tools/list", _meta={CLIENT_CAPABILITIES: able}), S(1, tools=[TOOL])], only=LAST, **one)
    shown = {**TOOL, "_meta": {"ui": {"resourceUri": "ui://a/b", "visibility": ["app"]}}}
    elsewhere = {**TOOL, "_meta": {"ui": {"resourceUri": "https://a.example/b"}}}
    yield Seed("app_has_the_scheme_ui", tools(shown), tools(shown, {**elsewhere, "name": "u"}), **one)

    def read(**more: Any) -> list[Line]:
        return [C(2, "resources/read", uri="ui://a/b"), S(2, contents=[{**DOCUMENT, **more}])]

    for kind in (GONE, "text/html", "text/html; profile=mcp-app"):
        yield Seed("app_has_the_type_of_apps", read(), read(mimeType=kind), **one)
    for text in ("", "<html></html>", "<p><!doctype html>"):
        yield Seed("app_is_an_html_document", read(), read(text=text), **one)
    for revision in SESSIONS + LAST:
        code = -32602 if revision in LAST else -32002
        lost = [C(2, "resources/read", uri="ui://a/b"), E(2, code)]
        other = [C(2, "resources/read", uri="ui://a/c"), E(2, code)]
        yield Seed("app_of_a_tool_exists", [*tools(shown), *other], [*tools(shown), *lost], only=(revision,), **one)
    changed = N("notifications/tools/list_changed")
    yield Seed("app_of_a_tool_exists", [*tools(shown), changed, C(2, "resources/read", uri="ui://a/b"), E(2, -32002)],
               [*tools(shown), C(2, "resources/read", uri="ui://a/b"), E(2, -32002)], only=SESSIONS, **one)
    call = [*tools(shown), C(2, "tools/call", name="t")]
    yield Seed("tool_with_an_app_says_it_in_words", [*call, S(2, content=TEXT)], [*call, S(2, content=[])], **one)


def view_seeds() -> Iterator[Seed]:
    """Of what a host and an app that it shows say to each other."""
    one: dict[str, Any] = {"opened": False, "only": (EDITION,), "over": "postMessage"}
    about = {"appInfo": {"name": "x", "version": "1"}, "protocolVersion": EDITION}
    modes = {"availableDisplayModes": ["inline", "pip"]}
    context = {"displayMode": "inline", "availableDisplayModes": ["inline", "fullscreen", "pip"]}

    def answer(id: int, **result: Any) -> Line:
        return raw("host", {"jsonrpc": "2.0", "id": id, "result": result})

    asks = V("ui/initialize", 1, appCapabilities=modes, **about)
    greeted = [asks, answer(1, hostContext=context)]
    ready = [*greeted, V("ui/notifications/initialized")]
    given, done = H("ui/notifications/tool-input", arguments={}), H("ui/notifications/tool-result", content=TEXT)
    part = H("ui/notifications/tool-input-partial", arguments={})
    sound = [*ready, part, given, done, V("ui/notifications/size-changed", height=9), H("ui/resource-teardown", "e")]
    for early in (H("ui/resource-teardown", 7), H("ui/notifications/host-context-changed", theme="dark")):
        yield Seed("app_is_told_nothing_before_it_is_ready", sound, [*greeted, early], **one)
    # Between the page and its sandbox other rules hold, and what was not seen may have come.
    own = H("ui/notifications/sandbox-resource-ready", html="")
    yield Seed("app_is_told_nothing_before_it_is_ready", [asks, own, greeted[1]], [asks, given, greeted[1]], **one)
    yield Seed("app_gets_its_input_once", [given, done], [*ready, given, given], **one)
    yield Seed("app_gets_its_input_first", sound, [*ready, done], **one)
    yield Seed("app_gets_no_part_after_the_whole", sound, [*ready, given, part], **one)
    for able in (GONE, [], "all"):
        params = {"appCapabilities": able} if able is not GONE else {}
        yield Seed("app_says_what_it_can", greeted, [V("ui/initialize", 1, **about, **params), greeted[1]], **one)
    yield Seed("app_is_told_its_context", greeted, [asks, answer(1)], **one)
    refused = raw("host", {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "x"}})
    yield Seed("app_is_told_its_context", [asks, refused], [asks, answer(1, hostContext="dark")], **one)

    def mode(asked: str, got: Any) -> list[Line]:
        named = {} if got is None else {"mode": got}
        return [*ready, V("ui/request-display-mode", 2, mode=asked), answer(2, **named)]

    yield Seed("app_asks_for_a_mode_that_is_offered", mode("pip", "pip"), mode("window", "inline"), **one)
    yield Seed("app_is_told_the_mode_that_holds", mode("pip", "inline"), mode("pip", None), **one)
    yield Seed("app_is_shown_as_it_can_be", mode("fullscreen", "inline"), mode("fullscreen", "fullscreen"), **one)
    fewer = [*ready, H("ui/notifications/host-context-changed", availableDisplayModes=["inline"])]
    yield Seed("app_asks_for_a_mode_that_is_offered", mode("pip", "pip"),
               [*fewer, V("ui/request-display-mode", 2, mode="pip"), answer(2, mode="inline")], **one)
# fmt: on


# fmt: off
def hint_seeds() -> Iterator[Seed]:
    """Of what is a hint at most."""
    ping = [C(1, "tools/list"), S(1, tools=[])]
    unnamed = [C(1, "tools/list", _meta={CLIENT_INFO: GONE}), ping[1]]
    yield Seed("clients_name_themselves", ping, unnamed)
    cancel = [ping[0], T("notifications/cancelled", requestId=1)]
    yield Seed("cancelled_requests_get_no_result", cancel, [*cancel, ping[1]])
    yield Seed("requests_are_answered", [*cancel, C(2, "tools/list"), S(2, tools=[])], [*ping, C(2, "tools/list")])
    yield Seed("requests_are_answered", [Q(1, "roots/list"), A(1, roots=[])], [Q(1, "roots/list")], only=SESSIONS)
    form = {"type": "object", "properties": {"apiKey": {"type": "string"}}}
    right, wrong = ({"message": "m", "requestedSchema": each} for each in (FORM, form))
    declined = A(1, action="decline")
    yield Seed("forms_ask_for_no_secrets", [Q(1, "elicitation/create", **right), declined],
               [Q(1, "elicitation/create", **wrong), declined])
    yield Seed("asked_forms_ask_for_no_secrets", asks(1, elicit()), asks(1, elicit(**wrong)))
    secret = {"type": "object", "properties": {"token": {"type": "string", "x-mcp-header": "Token"}}}
    yield Seed("secrets_are_not_mirrored", ping, tools({**TOOL, "inputSchema": secret}))
    yield Seed("session_ids_cannot_be_guessed", ping, ping, over="http", change=_session_id("1001"))
# fmt: on


RELATED = "io.modelcontextprotocol/related-task"


# fmt: off
def authorization_seeds() -> Iterator[Seed]:
    """Of basic/authorization: what passes between a client and its server."""
    ping = [C(1, "tools/list"), S(1, tools=[])]
    later = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
    metadata = "http://localhost/.well-known/oauth-protected-resource"

    def seed(rule: str, change: Change, **more: Any) -> Seed:
        return Seed(rule, ping, ping, change=change, over="http", **{"only": later, **more})

    def token(rows: list[Row]) -> None:
        for each in rows:
            if each["sender"] == "client" and as_message(each).get("method") != "tools/list":
                each["http"]["headers"]["authorization"] = "Bearer x"

    def in_the_url(rows: list[Row]) -> None:
        _post(rows, "tools/list")["http"]["query"] = ["access_token"]

    def challenged(status: int, challenge: Any) -> Change:
        """The first request is refused, and sent again."""

        def change(rows: list[Row]) -> None:
            first = json.loads(json.dumps(rows[0]))
            first["http"]["exchange"] = 80
            headers = {"content-type": "text/plain"} | ({} if challenge is GONE else {"www-authenticate": challenge})
            rows[:0] = [first, row("server", None, exchange=80, method="POST", status=status, headers=headers)]

        return change

    where, scope = f'resource_metadata="{metadata}"', 'scope="a b"'
    yield seed("authorization_is_sent_each_time", token)
    yield seed("tokens_are_not_in_the_url", in_the_url)
    yield seed("unauthorized_says_where", challenged(401, GONE))
    yield seed("unauthorized_says_where", challenged(401, f"Bearer {scope}"))
    yield seed("challenges_name_the_scopes", challenged(401, f"Bearer {where}"))
    lacks = f'Bearer error="insufficient_scope", {where}'
    yield seed("insufficient_scope_is_403", challenged(400, f"{lacks}, {scope}"))
    yield seed("invalid_tokens_are_401", challenged(403, f'Bearer error="invalid_token", {where}, {scope}'))
    yield seed("insufficient_scope_names_the_scopes", challenged(403, lacks))
    yield seed("insufficient_scope_names_the_metadata", challenged(403, f'Bearer error="insufficient_scope", {scope}'))
    offline = f'Bearer {where}, scope="a offline_access"'
    yield seed("challenges_leave_offline_access_out", challenged(401, offline))
    asked: dict[str, Any] = {"exchange": 70, "method": "GET", "what": "the protected resource metadata"}
    servers = {"authorization_servers": ["https://auth"]}
    for rule, document in (
        ("metadata_names_authorization_servers", {"resource": "x"}),
        ("metadata_names_authorization_servers", {"authorization_servers": []}),
        ("metadata_leaves_offline_access_out", {**servers, "scopes_supported": ["offline_access"]}),
    ):
        yield seed(
            rule, add(row("client", None, **asked, oauth={}), row("server", None, **asked, status=200, oauth=document))
        )
# fmt: on


# fmt: off
def http_seeds() -> Iterator[Seed]:
    ping = [C(1, "tools/list"), S(1, tools=[])]
    streamable = ("2025-03-26", "2025-06-18", "2025-11-25")

    def seed(rule: str, change: Change, lines: list[Line] = ping, **more: Any) -> Seed:
        return Seed(rule, lines, lines, change=change, over="http", **more)

    later = tuple(each for each in REVISIONS if each != "2024-11-05")
    for value in ("application/json", "text/event-stream", GONE):
        yield seed("post_accepts_json_and_streams", header("tools/list", "accept", value))
    progressing = [C(1, "tools/call", name="t", _meta={"progressToken": "p"}),
                     N("notifications/progress", progressToken="p", progress=1), S(1, content=TEXT)]

    def said(number: int, message: Any, **facts: Any) -> Row:
        """Return what a server says to a GET."""
        return row("server", message, exchange=number, method="GET", status=200, **facts)

    def opened(number: int, revision: str, **headers: Any) -> list[Row]:
        """A GET, and the head of its stream."""
        asked = {"mcp-session-id": SESSION_ID, "accept": "text/event-stream"}
        asked |= {"mcp-protocol-version": revision} if REVISIONS[revision].version_header else {}
        get = row("client", None, exchange=number, method="GET", headers={**asked, **headers})
        return [get, said(number, None, headers={"content-type": "text/event-stream"})]

    for revision in streamable:
        one: dict[str, Any] = {"only": (revision,)}
        begun, other = opened(90, revision), opened(91, revision)
        yield seed("get_accepts_streams", add(*opened(90, revision, accept="application/json")), **one)
        yield seed("get_is_answered_with_a_stream_or_405", add(begun[0], said(90, None, headers={})), **one)
        answer = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
        yield seed("no_responses_on_the_standing_stream", _before_the_answer(*begun, said(90, answer)), **one)
        ask = {"jsonrpc": "2.0", "id": 70, "method": "ping"}
        yield seed("messages_go_on_one_stream", add(*begun, said(90, ask), *other, said(91, ask)),
                   base=("id_not_used_before",), **one)
        told = [N("notifications/message", level="info", data=number).message for number in (1, 2)]
        first, second = said(90, told[0], eventId="z"), said(91, told[1], eventId="y")
        again = [*opened(92, revision, **{"last-event-id": "z"}), said(92, told[1], eventId="y")]
        yield seed("streams_replay_their_own", add(*begun, first, *other, second, *again), **one)
        yield seed("event_ids_are_unique", add(*begun, first, *other, said(91, told[1], eventId="z")), **one)
        yield seed("session_id_is_sent", header("tools/list", "mcp-session-id", GONE), **one)
        yield seed("session_id_is_visible_ascii", _session_id("a b"), **one)
        yield seed("new_session_after_404", _after_404, **one)
        yield seed("sessions_that_ended_are_404", _after_delete(200), **one)
        yield seed("sessions_that_ended_are_404", _after_delete(400), **one)
        yield seed("accepted_is_202", status("notifications/initialized", 200), **one)
        yield seed("accepted_is_202", status("notifications/initialized", 204), **one)
        yield seed("messages_are_posted", _by_put, **one)
        yield seed("initialized_was_sent", _without_initialized, **one)
    yield seed("messages_are_posted", _by_put, only=LAST)
    for value in ("text/plain", GONE):
        yield seed("requests_are_answered_with_json_or_a_stream", header("tools/list", "content-type", value, _reply))
    mixed = [C(1, "tools/list").message, {"jsonrpc": "2.0", "id": 5, "result": {}}]
    yield seed("post_has_a_message_or_a_batch", _batch(mixed), [])
    yield seed("post_has_a_message_or_a_batch", _batch([]), [])
    yield seed("post_has_one_message", _batch([{"jsonrpc": "2.0", "method": "notifications/x"}]), [])
    agreed, named = "version_header_is_the_one_agreed", "mcp-protocol-version"
    yield seed("version_header_is_sent", header("tools/list", named, GONE))
    yield seed(agreed, header("tools/list", named, "2025-03-26"), only=("2025-06-18", "2025-11-25"))
    yield seed("unknown_version_headers_are_refused", header("tools/list", named, "x"), base=(agreed,))
    yield seed("streams_are_primed", _unprimed, progressing)
    for rule, only in (
        ("streams_end_with_the_response", ("2025-03-26", "2025-06-18")),
        ("retry_comes_before_the_end", ("2025-11-25",)),
    ):
        yield seed(rule, _cut, progressing, only=only)
    yield seed("retry_is_waited_for", resumed(retry=5_000), progressing)
    yield seed("utf8", _not_utf8)
    yield seed("streams_are_not_buffered", header("tools/call", "x-accel-buffering", GONE, _reply), progressing)
    yield seed("the_response_ends_the_stream", _after_the_response, progressing)
    yield seed("notifications_belong_to_the_request", _other_token,
               [C(7, "tools/call", name="t", _meta={"progressToken": "other"}), *progressing])
    yield seed("servers_send_no_requests", _asked_on_the_stream, progressing)
    yield Seed("clients_send_no_results", ping, [*ping, A(1, roots=[])], over="http")
    yield Seed("clients_send_no_errors", ping, [*ping, X(1, -32601)], over="http")
    ended = [*LISTEN, N("notifications/cancelled", requestId=1), S(1, _meta={SUBSCRIPTION_ID: 1})]
    yield seed("subscriptions_end_with_a_result", _cut, ended)

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
        call = [C(1, "tools/call", name="t"), S(1, content=TEXT)]
        yield seed(rule, refuse("tools/call", header("tools/call", name, value)), call)
        if mismatch:
            yield Seed(mismatch, call, call, change=header("tools/call", name, value), over="http", base=(rule,))
    for name, arguments, value, rule, mismatch in (
        ("region", {"r": "x"}, GONE, "arguments_are_mirrored", "missing_arguments_are_a_mismatch"),
        ("region", {"r": "x"}, "y", "mirrored_values_match", "other_arguments_are_a_mismatch"),
        ("count", {"n": 5}, "6", "mirrored_values_match", "other_arguments_are_a_mismatch"),
        ("region", {"r": "ä"}, "ä", "mirrored_values_are_encoded", "invalid_characters_are_a_mismatch"),
        ("region", {"r": "ä"}, "=?BASE64?w6Q=?=", "base64_marker_is_lower_case", "invalid_characters_are_a_mismatch"),
        ("region", {"r": "=?base64?x?="}, "=?base64?x?=", "what_looks_encoded_is_encoded", ""),
        ("count", {"n": 2**53}, str(2**53), "mirrored_integers_are_safe", ""),
        ("region", {}, "x", "missing_arguments_are_not_mirrored", ""),
    ):
        call = [*tools(MIRRORED), C(2, "tools/call", name="t", arguments=arguments), S(2, content=TEXT)]
        edit_ = header("tools/call", f"mcp-param-{name}", value)
        yield Seed(rule, call if abs(arguments.get("n", 0)) < 2**53 else ping, call, change=refuse("tools/call", edit_),
                   over="http")
        if mismatch:
            yield Seed(mismatch, call, call, change=edit_, over="http", base=(rule,))
    null = [*tools({**MIRRORED, "inputSchema": {"type": "object", "properties": {"r": {"type": ["string", "null"],
                   "x-mcp-header": "Region"}}}}), C(2, "tools/call", name="t", arguments={"r": None}), S(2,
                   content=TEXT)]
    yield seed("null_is_not_mirrored", refuse("tools/call", header("tools/call", "mcp-param-region", "x")), null)
    coded = [*tools(MIRRORED), C(2, "tools/call", name="t", arguments={"r": "ä"}), S(2, content=TEXT)]
    yield seed("encoded_names_are_decoded", refuse("tools/call", lambda rows: None), coded)
    counted = [*tools(MIRRORED), C(2, "tools/call", name="t", arguments={"n": 42}), S(2, content=TEXT)]
    yield seed("integers_are_compared_as_numbers",
               refuse("tools/call", header("tools/call", "mcp-param-count", "42.0")), counted)
    odd = [*tools({"name": "t", "inputSchema": {"type": "object", "properties": {"p": {"type": "number",
                  "x-mcp-header": "A"}}}})]
    yield Seed("unusable_tools_are_not_called", odd, [*odd, C(2, "tools/call", name="t"), S(2, content=TEXT)],
               over="http", base=("header_annotation_is_on_a_primitive",))
    for code, rule in (
        (-32021, "missing_capabilities_are_400"),
        (-32022, "unsupported_versions_are_400"),
        (-32020, "mismatches_are_400"),
    ):
        data = {"requiredCapabilities": {"x": {}}, "supported": ["2026-07-28"], "requested": "x"}
        yield seed(rule, status("tools/list", 200), [C(1, "tools/list"), E(1, code, data)])
    yield seed("unknown_methods_are_404", status("x/y", 200), [C(1, "x/y"), E(1, -32601)])
    lacking = [C(1, "tools/list", _meta={CLIENT_CAPABILITIES: GONE}), E(1, -32602)]
    yield Seed("incomplete_requests_are_400", ping, lacking, over="http", base=("requests_say_what_they_are",))
    cancelled = [*ping, T("notifications/cancelled", requestId=1)]
    yield seed("accepted_is_202", status("notifications/cancelled", 200), cancelled, only=LAST)
    yield seed("accepted_is_202", status("notifications/cancelled", 204), cancelled, only=LAST)
    yield seed("bodies_are_messages", _no_json, only=later)
    for revision in REVISIONS:
        yield Seed("input_is_closed_before_signals", ping, ping, change=_killed, over="stdio", only=(revision,))
    roots = {"method": "roots/list"}
    yield Seed("question_keys_unique", ping,
               [C(1, "tools/call", name="t"), S(1, resultType="input_required", inputRequests={"k": roots})],
               change=_key_twice, over="stdio")
    yield Seed("bodies_are_messages", [], [], change=_no_json, over="http+sse", only=("2024-11-05",))
    yield Seed("first_event_names_the_endpoint", [], [], change=_no_endpoint, over="http+sse")
    yield Seed("first_event_names_the_endpoint", [], [], change=_late_endpoint, over="http")
    yield Seed("messages_are_posted", [], [], change=_by_put, over="http+sse", only=("2024-11-05",))
    yield Seed("initialized_was_sent", [], [], change=_without_initialized, over="http+sse", only=("2024-11-05",))
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
        headers = {**_post(rows, "notifications/initialized")["http"]["headers"], "accept": "text/event-stream"}
        for number, method, answer in ((96, "DELETE", 200), (97, "GET", status)):
            rows.append(row("client", None, exchange=number, method=method, headers=headers))
            kind = {"content-type": "text/event-stream"} if method == "GET" else {}
            rows.append(row("server", None, exchange=number, method=method, status=answer, headers=kind))

    return change


def _by_put(rows: list[Row]) -> None:
    for each in (_post(rows, "tools/list"), _reply(rows, "tools/list")):
        each["http"]["method"] = "PUT"


def _without_initialized(rows: list[Row]) -> None:
    number = _post(rows, "notifications/initialized")["http"]["exchange"]
    rows[:] = [each for each in rows if each["http"]["exchange"] != number]


def _batch(batch: Any) -> Change:
    def change(rows: list[Row]) -> None:
        headers = (
            {**_post(rows, "notifications/initialized")["http"]["headers"]}
            if _has_session(rows)
            else {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
        )
        rows.append(row("client", batch, exchange=80, method="POST", headers=headers))

    return change


def _has_session(rows: list[Row]) -> bool:
    return any(isinstance(each["message"], dict) and each["message"].get("method") == "initialize" for each in rows)


def _unprimed(rows: list[Row]) -> None:
    rows[:] = [each for each in rows if each["message"] is not None or "eventId" not in each["http"]]


def _cut(rows: list[Row]) -> None:
    """The response is lost, and the session goes on."""
    at = next(n for n, each in enumerate(rows) if "end" in each["http"])
    del rows[at - 1]
    if _has_session(rows):
        facts = {**_post(rows, "notifications/initialized")["http"], "exchange": 60}
        answered = {"exchange": 60, "method": "POST", "status": 200, "headers": {"content-type": "application/json"}}
        rows += [row("client", C(60, "ping").message, **facts), row("server", S(60).message, **answered)]


def resumed(retry: int) -> Change:
    """The stream of a call breaks off after an event with `retry`, and the client goes on with it a second later."""

    def change(rows: list[Row]) -> None:
        at = next(n for n, each in enumerate(rows) if "end" in each["http"])
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
    reply = _reply(rows, "tools/list")
    reply["message"], reply["raw"] = (
        '{"jsonrpc": "2.0", "id": 1, "result": {"x": "\ufffd"}}',
        base64.b64encode(b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "\xff"}}').decode(),
    )


def _after_the_response(rows: list[Row]) -> None:
    at = next(n for n, each in enumerate(rows) if "end" in each["http"])
    facts = {name: value for name, value in rows[at - 1]["http"].items() if name != "eventId"}
    rows.insert(at, row("server", {"jsonrpc": "2.0", "method": "notifications/other"}, **facts))


def _other_token(rows: list[Row]) -> None:
    message = next(each for each in rows if as_message(each).get("method") == "notifications/progress")["message"]
    message["params"]["progressToken"] = "other"


def _asked_on_the_stream(rows: list[Row]) -> None:
    at = next(n for n, each in enumerate(rows) if as_message(each).get("method") == "notifications/progress")
    rows[at]["message"] = {"jsonrpc": "2.0", "id": 77, "method": "roots/list"}


def as_message(row: Row) -> dict[str, Any]:
    return row["message"] if isinstance(row["message"], dict) else {}


def _no_json(rows: list[Row]) -> None:
    _post(rows, "tools/list")["message"] = "{'id': 1}"
    rows[:] = [each for each in rows if as_message(each).get("id") != 1]


def _killed(rows: list[Row]) -> None:
    rows.append({"sender": "client", "message": None, "http": None, "end": {"signal": 15}})


def _key_twice(rows: list[Row]) -> None:
    text = json.dumps(rows[-1]["message"]).replace('"k":', '"k": {"method": "roots/list"}, "k":')
    rows[-1]["raw"] = base64.b64encode(text.encode()).decode()


def _no_endpoint(rows: list[Row]) -> None:
    del rows[2]


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
