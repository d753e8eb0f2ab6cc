"""server/session, Stateless: each request is answered from itself alone.

A list is the reply; no transport is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from mcp_ref import Context, Server
from mcp_ref.errors import (
    ErrorResponse,
    HeaderMismatch,
    InvalidParams,
    LocalProtocolError,
    MissingClientCapability,
    Refusal,
)
from mcp_ref.kit.threads import deadline
from mcp_ref.kit.threads.deadline import Rate
from mcp_ref.pages.basic.mrtr import elicitation_form, elicitation_url, input_required, roots_listing, sampling
from mcp_ref.pages.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO
from mcp_ref.pages.server.resources import ResourceNotFound
from mcp_ref.pages.server.utilities.caching import CACHEABLE, CacheHint
from tests.pages.server.alone import MODERN, Reply, ask, call, meta, refused, retried, without
from tests.support.wire import PATIENCE, Background, at_once

FORM: Any = {"name": {"type": "string"}}
ASKS: Any = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ANA: Any = {"action": "accept", "content": {"name": "Ana"}}
SAID: Any = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
ROOTS: Any = {"roots": [{"uri": "file:///a"}]}


def text_of(result: Any) -> str:
    assert result["resultType"] == "complete", result
    text: str = result["content"][0]["text"]
    return text


def with_tool(function: Callable[..., Any], **options: Any) -> Server:
    """A server whose one tool is `t`."""
    server = Server("s", **options)
    server.tool("t")(function)
    return server


def headers(*wrong: str) -> Any:
    """MirroredHeaders that refuse in these checks."""
    return Mock(**{f"{check}.side_effect": HeaderMismatch("Header mismatch") for check in wrong})


# -- the order of checks ------------------------------------------------------------------------------------------

BAD: Any = {"name": 5, "arguments": []}
GOOD: Any = {"name": "needy", "arguments": {"a": 1}}
UNKNOWN: Any = meta(version="1900-01-01")
ALL_WRONG = headers("check", "check_arguments")
SOME_WRONG = headers("check_arguments")

IN_ORDER: Any = {
    "no version": (-32602, without(UNKNOWN, PROTOCOL_VERSION), ALL_WRONG, "no/such", BAD),
    "level": (-32602, meta(level="verbose"), headers(), "tools/call", GOOD),
    "no capabilities": (-32602, without(UNKNOWN, CLIENT_CAPABILITIES), ALL_WRONG, "no/such", BAD),
    "header": (-32020, UNKNOWN, ALL_WRONG, "no/such", BAD),
    "version": (-32022, UNKNOWN, SOME_WRONG, "no/such", BAD),
    "method": (-32601, meta(), SOME_WRONG, "no/such", BAD),
    "params": (-32602, meta(), SOME_WRONG, "tools/call", BAD),
    "tool": (-32602, meta(), SOME_WRONG, "tools/call", {"name": "nobody"}),
    "header of a parameter": (-32020, meta(), SOME_WRONG, "tools/call", GOOD),
    "capability": (-32021, meta(), headers(), "tools/call", GOOD),
}


@pytest.mark.parametrize("step", IN_ORDER)
def test_of_all_that_is_wrong_the_first_is_named(step: str) -> None:
    code, envelope, mirrored, method, params = IN_ORDER[step]
    server = Server("s")

    @server.tool()
    def needy(ctx: Context, a: int) -> str:
        ctx.require("sampling.tools")
        raise AssertionError("not reached")

    assert refused(server, method, params, envelope=envelope, mirrored=mirrored).code == code


# -- versions -----------------------------------------------------------------------------------------------------


def test_what_is_registered_later_is_there_for_the_next_request() -> None:
    server = Server("s")
    assert refused(server, "tools/list").code == -32601
    server.tool("t")(lambda: "")
    assert [tool["name"] for tool in ask(server, "tools/list")["tools"]] == ["t"]
    server.remove_tool("t")
    assert ask(server, "tools/list")["tools"] == [], "whoever was told of tools finds an empty list"


# -- results ------------------------------------------------------------------------------------------------------


def full_server(**options: Any) -> Server:
    hints = {"tools/list": CacheHint(60, "public"), "resources/read": CacheHint(0.5)}
    server = Server("full", "7", cache=hints, **options)
    server.tool("t")(lambda: "done")
    server.resource("x://a")(lambda: "read")
    server.resource("x://{b}/c")(lambda b: b)
    server.prompt("p")(lambda a: a)
    server.completion_values(["one"], prompt="p", argument="a")
    return server


RESULTS: Any = {
    "server/discover": {},
    "tools/list": {},
    "tools/call": {"name": "t"},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "x://a"},
    "prompts/list": {},
    "prompts/get": {"name": "p", "arguments": {"a": "1"}},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "o"}},
}


@pytest.mark.parametrize("method", RESULTS)
def test_every_result_says_its_kind_and_who_answers_and_what_can_be_cached_for_how_long_and_by_whom(
    method: str,
) -> None:
    server = full_server(page_size=1)
    server.tool("u")(lambda: "")
    pages = [ask(server, method, RESULTS[method])]
    while cursor := pages[-1].get("nextCursor"):
        pages.append(ask(server, method, {"cursor": cursor}))
    assert len(pages) == (2 if method == "tools/list" else 1)
    chosen = {"tools/list": (60_000, "public"), "resources/read": (500, "private")}
    hints = chosen.get(method, (0, "private")) if method in CACHEABLE else (None, None)
    for page in pages:
        assert (page["resultType"], page["_meta"]) == ("complete", {SERVER_INFO: {"name": "full", "version": "7"}})
        assert (page.get("ttlMs"), page.get("cacheScope")) == hints


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_a_question_says_who_asks_and_is_not_to_be_cached(method: str) -> None:
    def asks(ctx: Context) -> str:
        return str(ctx.elicit("?", FORM))

    server = registered(asks, cache={"resources/read": CacheHint(60)})
    result = ask(server, method, {"name": "n", "uri": "x://n"}, envelope=meta(ASKS))
    assert result["resultType"] == "input_required"
    assert result["_meta"] == {SERVER_INFO: {"name": "s", "version": "0"}}
    assert result.keys() == {"resultType", "inputRequests", "requestState", "_meta"}


def test_trace_context_reaches_the_handler_as_it_came_and_what_it_puts_into_meta_stays() -> None:
    def mirrors(ctx: Context) -> Any:
        return {"content": [], "_meta": {"com.example/x": 1, "baggage": ctx.meta["baggage"]}}

    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", "baggage": "a=b"}
    about = call(with_tool(mirrors), "t", envelope=meta(**trace))["_meta"]
    assert about == {"com.example/x": 1, "baggage": "a=b", SERVER_INFO: {"name": "s", "version": "0"}}


# -- errors -------------------------------------------------------------------------------------------------------


def registered(function: Callable[..., Any], **options: Any) -> Server:
    """A server with a function for a tool, a prompt and a resource."""
    server = Server("s", **options)
    server.tool("n")(function)
    server.prompt("n")(function)
    server.resource("x://n")(function)
    return server


def failing(problem: BaseException) -> Server:
    def fail() -> str:
        raise problem

    return registered(fail)


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (ResourceNotFound("x://other"), -32602),
        (Refusal("old", code=-32002), -32602),
        (Refusal("old", {"elicitations": []}, code=-32042), -32603),
        (Refusal("nobody's yet", {"x": 1}, code=-32099), -32603),
        (Refusal("mine", {"x": 1}, code=77), 77),
        (InvalidParams("bad"), -32602),
        (MissingClientCapability("sampling.tools"), -32021),
    ],
)
def test_the_codes_of_earlier_versions_and_reserved_ones_are_never_sent(
    method: str, problem: Refusal, code: int
) -> None:
    refusal = refused(failing(problem), method, {"name": "n", "uri": "x://n"})
    assert (refusal.code, refusal.message, refusal.data) == (code, problem.message, problem.data)


def test_an_error_of_another_server_is_not_passed_on() -> None:
    result = call(failing(ErrorResponse(-32042, "theirs", {"secret": 1})), "n")
    assert result["isError"] is True
    assert "secret" not in str(result)
    with pytest.raises(ErrorResponse):
        ask(failing(ErrorResponse(-32002, "theirs")), "prompts/get", {"name": "n"})


# -- nothing is remembered ----------------------------------------------------------------------------------------


def test_what_one_request_says_of_its_client_is_not_known_to_the_next() -> None:
    seen: list[Any] = []

    def look(ctx: Context) -> str:
        name = ctx.elicit("who?", FORM)["content"]["name"]
        seen.append((ctx.client_info, ctx.log_level, ctx.peer_capabilities, str(ctx.revision)))
        return f"{name} {ctx.roots()}"

    server, can = with_tool(look), {"elicitation": {}}
    first = call(server, "t", envelope=meta(ASKS, level="debug"))
    (key,) = first["inputRequests"]
    with pytest.raises(Refusal) as refusal:
        retried(server, "t", first, {key: ANA}, envelope=without(meta(can), CLIENT_INFO))
    assert (refusal.value.code, refusal.value.data) == (-32021, {"requiredCapabilities": {"roots": {}}})
    assert seen == [({}, None, can, MODERN)]


def test_many_clients_use_the_same_id_at_once() -> None:
    everybody_is_here = threading.Barrier(8, timeout=PATIENCE)

    def mine(ctx: Context, number: int) -> str:
        everybody_is_here.wait()
        ctx.progress(number)
        return f"{number} {ctx.request_id} {ctx.client_info['name']}"

    server = with_tool(mine)

    def client(number: int) -> tuple[str, list[float]]:
        reply = Reply()
        envelope = {**meta(progressToken=1), CLIENT_INFO: {"name": f"c{number}", "version": "1"}}
        said = text_of(call(server, "t", {"number": number}, envelope=envelope, reply=reply))
        return said, [message["params"]["progress"] for message in reply]

    found = at_once(*(partial(client, number) for number in range(8)))
    assert found == [(f"{number} 1 c{number}", [number]) for number in range(8)]


# -- capabilities and extensions ----------------------------------------------------------------------------------


TOOLED: Any = [{"name": "x", "inputSchema": {"type": "object"}}]
NEEDS: list[tuple[Callable[[Context], Any], Any]] = [
    (lambda ctx: ctx.require("roots"), {"roots": {}}),
    (lambda ctx: ctx.require("sampling.tools"), {"sampling": {"tools": {}}}),
    (lambda ctx: ctx.require("elicitation.url"), {"elicitation": {"url": {}}}),
    (lambda ctx: ctx.require_extension("com.example/audit"), {"extensions": {"com.example/audit": {}}}),
    (lambda ctx: ctx.elicit("?", FORM), {"elicitation": {}}),
    (lambda ctx: ctx.elicit_url("?", "https://a.example"), {"elicitation": {"url": {}}}),
    (lambda ctx: ctx.sample("?", max_tokens=1), {"sampling": {}}),
    (lambda ctx: ctx.sample("?", max_tokens=1, tools=TOOLED), {"sampling": {"tools": {}}}),
    (lambda ctx: ctx.roots(), {"roots": {}}),
    (lambda ctx: input_required({"q": elicitation_form("who?", FORM)}), {"elicitation": {}}),
    (lambda ctx: input_required({"q": elicitation_url("go", "https://a.example")}), {"elicitation": {"url": {}}}),
    (lambda ctx: input_required({"q": sampling("hi", max_tokens=1)}), {"sampling": {}}),
    (lambda ctx: input_required({"q": roots_listing()}), {"roots": {}}),
]


@pytest.mark.parametrize(("does", "required"), NEEDS)
def test_what_a_request_needs_and_the_client_did_not_declare_is_named_with_its_nesting(
    does: Callable[[Context], Any], required: Any
) -> None:
    def needs(ctx: Context) -> Any:
        return does(ctx)

    server = with_tool(needs, extensions={"com.example/audit": {}})
    others = {name: {} for name in ASKS if name not in required or required[name]}
    for envelope in (meta(), meta(others)):
        refusal = refused(server, "tools/call", {"name": "t"}, envelope=envelope)
        assert (refusal.code, refusal.data) == (-32021, {"requiredCapabilities": required})
    assert not call(server, "t", envelope=meta(required)).get("isError")


# -- what travels with the answer ---------------------------------------------------------------------------------


def test_a_request_gets_no_log_message_and_no_progress_that_it_did_not_ask_for_however_it_is_sent() -> None:
    def talk(ctx: Context) -> str:
        ctx.log("emergency", "x")
        ctx.notify("notifications/message", {"level": "emergency", "data": "x"})
        ctx.progress(1)
        ctx.notify("notifications/progress", {"progressToken": "another", "progress": 2})
        return ""

    server, reply = with_tool(talk), Reply()
    call(server, "t", reply=reply)
    assert reply == []
    call(server, "t", envelope=meta(progressToken="p"), reply=reply)
    assert [message["params"] for message in reply] == [{"progressToken": "p", "progress": 1}]


def test_what_belongs_to_no_request_does_not_travel_with_one() -> None:
    def tell(ctx: Context) -> str:
        for method in (*(f"{feature}/list_changed" for feature in ("tools", "prompts", "resources", "roots")),
                       "resources/updated", "cancelled", "subscriptions/acknowledged", "elicitation/complete",
                       "initialized"):  # fmt: skip
            with pytest.raises(LocalProtocolError):
                ctx.notify(f"notifications/{method}", {"uri": "x://a"})
        return "told"

    server, reply = with_tool(tell), Reply()
    server.resource("x://a")(lambda: "")
    server.prompt("p")(lambda: "")
    assert text_of(call(server, "t", reply=reply)) == "told"
    assert reply == []


# -- rates --------------------------------------------------------------------------------------------------------

ONE = Rate(per_second=0.001, burst=1)


def test_a_rate_is_one_for_each_principal_and_where_none_is_known_for_each_source() -> None:
    server = with_tool(lambda: "", rates={"tools/call": ONE})
    # A request that is refused before it is one costs nothing.
    refused(server, "tools/call", {"name": "t"}, envelope=meta(version="1900-01-01"), principal="ana")
    refused(server, "tools/call", {"name": 5}, principal="ana")
    for who in ({"principal": "ana"}, {"principal": "bo"}, {}, {"source": "one channel"}):
        assert call(server, "t", **who)["resultType"] == "complete"
        assert refused(server, "tools/call", {"name": "t"}, **who).code == 429
    assert refused(server, "tools/call", {"name": "t"}, source="a third", principal="ana").code == 429


@pytest.mark.parametrize("method", [*RESULTS, "subscriptions/listen"])
def test_every_request_can_have_a_rate(method: str) -> None:
    server, params = full_server(rates={method: ONE}), RESULTS.get(method, {"notifications": {}})
    ask(server, method, params)
    refusal = refused(server, method, params)
    assert refusal.code == 429
    assert refusal.data["retryAfter"] > 0


def test_notifications_that_come_too_often_are_dropped_for_that_principal() -> None:
    def talk(ctx: Context) -> str:
        for number in range(3):
            ctx.log("info", number)
        return ""

    server = with_tool(talk, rates={"notifications/message": ONE})
    for principal in ("ana", "bo"):
        reply = Reply()
        call(server, "t", envelope=meta(level="info"), reply=reply, principal=principal)
        assert [message["params"]["data"] for message in reply] == [0]


def test_the_rates_of_clients_that_went_away_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "MAX_BUCKETS", 2)
    server = with_tool(lambda: "", rates={"tools/call": ONE})
    for principal in ("a", "b", "c"):
        call(server, "t", principal=principal)
    assert refused(server, "tools/call", {"name": "t"}, principal="c").code == 429
    assert call(server, "t", principal="a")["resultType"] == "complete"


# -- asking in the body of a handler ------------------------------------------------------------------------------


ANSWER = {"elicitation-1": ANA}


def who(ctx: Context) -> str:
    ctx.progress(1)
    return str(ctx.elicit("who?", FORM)["content"]["name"])


def test_a_question_is_no_request_on_a_stream_that_is_open() -> None:
    server, can, reply = with_tool(who), {**meta(ASKS), "progressToken": "p"}, Reply()
    result = call(server, "t", envelope=can, reply=reply)
    assert text_of(retried(server, "t", result, ANSWER, envelope=can, reply=reply)) == "Ana"
    assert set(reply.methods()) == {"notifications/progress"} and not [each for each in reply if "id" in each]


def test_the_state_of_one_principal_is_of_no_use_to_another() -> None:
    server, can = with_tool(who), meta(ASKS)
    result = call(server, "t", envelope=can, principal="ana")
    for other in ("bo", None):
        with pytest.raises(InvalidParams, match="requestState"):
            retried(server, "t", result, ANSWER, envelope=can, principal=other)
    assert text_of(retried(server, "t", result, ANSWER, envelope=can, principal="ana")) == "Ana"


def test_a_handler_cannot_report_the_end_of_a_visit_nor_close_a_stream() -> None:
    def tool(ctx: Context) -> str:
        with pytest.raises(LocalProtocolError):
            ctx.complete_elicitation("x")
        ctx.close_stream()
        return "done"

    assert text_of(call(with_tool(tool), "t", envelope=meta(ASKS))) == "done"


# -- subscriptions ------------------------------------------------------------------------------------------------


def test_log_messages_travel_on_no_subscription() -> None:
    server, reply = full_server(), Reply()
    listen = {"notifications": {"toolsListChanged": True}}
    subscription = ask(server, "subscriptions/listen", listen, reply=reply, envelope=meta(level="debug"))

    def talk(ctx: Context) -> str:
        ctx.log("error", "x")
        return ""

    server.tool("talk")(talk)
    own = Reply()
    call(server, "talk", envelope=meta(level="debug"), reply=own)
    server.log("emergency", "to all")
    subscription.flush()
    assert reply.methods() == ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
    assert own.methods() == ["notifications/message"]


# -- the whole ----------------------------------------------------------------------------------------------------


def test_a_list_is_the_same_whoever_asks_and_how_often() -> None:
    server = full_server()
    server.tool("a")(lambda: "")
    cans: Any = ({}, ASKS)
    seen = [ask(server, "tools/list", envelope=meta(can), principal=who) for can in cans for who in ("x", None)]
    assert all(each == seen[0] for each in seen)
    assert [tool["name"] for tool in seen[0]["tools"]] == ["t", "a"]


@pytest.mark.parametrize("first", [True, False])
def test_only_the_handlers_own_thread_asks(first: bool) -> None:
    def tool(ctx: Context) -> str:
        if not first:
            ctx.roots()
        return type(Background(ctx.elicit, "who?", FORM).outcome()).__name__

    server, can = with_tool(tool), meta(ASKS)
    result = call(server, "t", envelope=can)
    if not first:
        result = retried(server, "t", result, {"roots-1": ROOTS}, envelope=can)
    assert text_of(result) == "LocalProtocolError"
