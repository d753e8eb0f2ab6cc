"""Tests of what the notes on 2026-07-28 say and no other test shows: small statements of several pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse, Server
from mcp_ref.errors import STATELESS_ERRORS, Refusal
from mcp_ref.kit.threads.deadline import RateLimited
from mcp_ref.kit.threads.workers import Workers
from mcp_ref.pages.basic.versioning import CLIENT_INFO, SERVER_INFO
from mcp_ref.pages.client.sampling import UserRejected
from mcp_ref.pages.server.utilities.caching import CacheHint
from mcp_ref.pages.server.utilities.pagination import walk
from tests.eras import discovered, open_client
from tests.pages.server.alone import MODERN, ask, meta, without
from tests.pages.server.fakes import FakeCaller
from tests.support.wire import PATIENCE, Background, connecting

# -- server/utilities/caching: the server -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ({}, (60_000, "public")),
        ({"ttlMs": 5, "cacheScope": "private"}, (5, "private")),
        ({"ttlMs": 0}, (0, "public")),
        *(({"ttlMs": ttl, "cacheScope": "odd"}, (60_000, "public")) for ttl in (-5, 1.5, True, "7")),
    ],
)
def test_hints_of_a_handler_that_are_none_are_replaced_by_those_of_the_method(own: Any, sent: Any) -> None:
    server = Server("s", cache={"resources/read": CacheHint(60, "public")})
    server.resource("x://a")(lambda: {"contents": [{"uri": "x://a", "text": "t"}], **own})
    result = ask(server, "resources/read", {"uri": "x://a"})
    assert (result["ttlMs"], result["cacheScope"]) == sent


# -- server/utilities/caching: the client -------------------------------------------------------------------------


def counted() -> tuple[list[str], Any]:
    """A trace, and the methods that the client sends whose trace it is; all of them once that is closed."""
    sent: list[str] = []
    return sent, lambda event: sent.append(event.message["method"]) if event.direction == "send" else None


@pytest.mark.parametrize(
    ("hint", "says"),
    [*((CacheHint(each), "must be a number from 0 on") for each in (-1, float("inf"))),
     (CacheHint(1, "Public"), "scope")],  # type: ignore[arg-type]
)  # fmt: skip
def test_a_hint_is_a_number_of_seconds_and_one_of_two_scopes(hint: CacheHint, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Server("s", cache={"tools/list": hint})


def test_the_end_of_its_time_is_not_a_reason_to_ask_for_a_result() -> None:
    server = Server("s", cache={"tools/list": CacheHint(0.02)})
    server.tool("t")(lambda: "done")
    sent, trace = counted()
    with Client(server, revision=MODERN, trace=trace) as client:
        client.list_tools()
        over = time.monotonic() + 0.1
        while time.monotonic() < over:
            client.call_tool("t")
    # The trace is whole once the client is closed.
    assert sent[:2] == ["server/discover", "tools/list"] and set(sent[2:]) == {"tools/call"}


def test_a_list_can_be_asked_for_again_from_the_beginning() -> None:
    server = Server("s", page_size=1, cache={"tools/list": CacheHint(60)})
    server.tool("a")(lambda: "")
    server.tool("b")(lambda: "")
    sent, trace = counted()
    with Client(server, revision=MODERN, trace=trace) as client:
        for cached in (True, True, False):
            assert [tool["name"] for tool in client.list_tools(cached=cached)] == ["a", "b"]
    assert sent.count("tools/list") == 4


def test_a_list_whose_cursor_is_refused_is_begun_again_once() -> None:
    refused = ErrorResponse(-32602, "Invalid cursor")

    def page(tool: int, cursor: str | None) -> Any:
        return {"tools": [tool], **({"nextCursor": cursor} if cursor else {})}

    def walked(*answers: Any) -> tuple[Any, list[Any]]:
        caller = FakeCaller(*answers)
        try:
            found: Any = walk(caller, "tools/list", "tools", {})
        except ErrorResponse as problem:
            found = problem.code
        return found, [(params or {}).get("cursor") for _, params, _ in caller.asked]

    assert walked(page(1, "x"), refused, page(2, "y"), page(3, None)) == ([2, 3], [None, "x", None, "y"])
    assert walked(page(1, "x"), refused, page(1, "x"), refused) == (-32602, [None, "x", None, "x"])
    assert walked(refused) == (-32602, [None])
    assert walked(page(1, "x"), ErrorResponse(-32603, "Internal error")) == (-32603, [None, "x"])


def test_a_cursor_that_the_server_forgot_ends_the_pages_that_were_kept() -> None:
    server = Server("s", page_size=1, cache={"tools/list": CacheHint(60)})
    for name in "abc":
        server.tool(name)(lambda: "")
    with Client(server, revision=MODERN) as client:
        first = client.list_tools_page()
        server.remove_tool("a")
        # The first page is still fresh, but its cursor is of no use any longer.
        assert client.list_tools_page()["tools"][0]["name"] == "a"
        assert [tool["name"] for tool in client.list_tools()] == ["b", "c"]
        with pytest.raises(ErrorResponse, match="cursor"):
            client.list_tools_page(first["nextCursor"])


# -- server/tools#x-mcp-header ------------------------------------------------------------------------------------


def test_a_tool_whose_marks_break_the_rules_is_not_registered() -> None:
    """Which marks do is in transports/streamable_http/test_headers.py."""
    server = Server("s")

    def schema(kind: str) -> Any:
        return {"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": "A"}}}

    with pytest.raises(ValueError, match="the inputSchema of tool 't': x-mcp-header"):
        server.tool("t", input_schema=schema("number"))(lambda **arguments: "")
    assert "tools" not in ask(server, "server/discover")["capabilities"]
    server.tool("t", input_schema=schema("string"))(lambda **arguments: "")


# -- who the two sides are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("info", [None, {"name": "", "version": ""}, {"name": "mcp-ref", "version": "9", "odd": [1]}])
def test_nothing_is_decided_by_who_the_other_side_says_it_is(info: Any) -> None:
    server = Server("s")
    server.tool("t")(lambda: "done")
    said = without(meta(), CLIENT_INFO) | ({} if info is None else {CLIENT_INFO: info})
    usual = ask(server, "tools/call", {"name": "t"})
    assert ask(server, "tools/call", {"name": "t"}, envelope=said) == usual
    with connecting(revision=MODERN) as (client, wire, opening):
        about = {} if info is None else {SERVER_INFO: info}
        wire.answer(wire.receive()["id"], {**discovered({"tools": {}}), "_meta": about})
        assert opening.outcome() is client
        assert (client.server_info, client.server_capabilities) == (info or {}, {"tools": {}})


# -- basic/transports/stdio ---------------------------------------------------------------------------------------


def test_a_client_answers_no_request_of_the_server_and_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, run = list[Any](), Workers.run
    monkeypatch.setattr(Workers, "run", lambda self, job, **how: jobs.append(job) or run(self, job, **how))
    with open_client(MODERN, {"tools": {}}, roots=[]) as (client, wire):
        jobs.clear()
        for method in ("ping", "roots/list", "sampling/createMessage", "no/such"):
            wire.send_text(f'{{"jsonrpc": "2.0", "id": 1, "method": "{method}"}}')
        wire.send_text('{"jsonrpc": "2.0", "id": 7}')
        # It is a worker that would answer, sooner or later.
        assert jobs == []
        call = Background(client.call_tool, "t", timeout=PATIENCE)
        request = wire.receive()
        assert request["method"] == "tools/call"
        wire.answer(request["id"], {"resultType": "complete", "content": []})
        assert call.outcome()["content"] == []
        assert wire.silent()
    assert "ignored what the server sent" in caplog.text


# -- the codes of errors (basic/index#error-codes) ----------------------------------------------------------------


def refusals(kind: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    yield kind
    for each in kind.__subclasses__():
        yield from refusals(each)


def test_our_codes_are_those_of_json_rpc_those_of_the_page_and_outside_of_its_range() -> None:
    codes = {each.code for each in refusals() if each.__module__.startswith("mcp_ref.")}
    outside = {code for code in codes if not -32768 <= code <= -32000}
    # -32002 and -32042 are of the session era, and replaced in this one.
    assert codes - outside - {-32002, -32042} == {-32700, -32600, -32601, -32602, -32603} | STATELESS_ERRORS
    assert outside == {RateLimited.code, UserRejected.code} == {429, -1}
