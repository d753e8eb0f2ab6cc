"""basic/patterns/mrtr by every way that has it: clients that vanish between rounds, answers that lie, states that are
old, changed or somebody else's."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any, cast

import pytest

from mcp_ref import Client, Context, ErrorResponse, Server, elicitation_form, input_required, text
from mcp_ref.pages.client.sampling import reply
from tests.features.conftest import Connect, stateless_era
from tests.support.wire import PATIENCE, Background

REFUSED = "Invalid or expired requestState"
FORM: Any = {"name": {"type": "string"}}
ADA: Any = {"action": "accept", "content": {"name": "Ada"}}
MODEL: Any = {"role": "assistant", "model": "m", "content": text("hello")}
MAY: Any = {"capabilities": {"elicitation": {"form": {}}, "sampling": {}}}
"""What lets a client be asked, though a test answers for it by hand."""

every_way = stateless_era("in the session era the answers to a handler's questions go to that handler, which waits")


class Desk:
    """A server with a tool that asks twice; `runs` are those of its handler, `booked` those that came to their end."""

    def __init__(self, name: str = "s", **options: Any) -> None:
        self.server = Server(name, **options)
        self.runs, self.booked = SimpleQueue[Any](), SimpleQueue[Any]()
        self.server.tool("hello")(lambda: "hello")

        @self.server.tool()
        def book(city: str, ctx: Context) -> str:
            self.runs.put(city)
            who = ctx.elicit("Who?", FORM)["content"]["name"]
            model = ctx.sample(f"{city} for {who}", max_tokens=1)["model"]
            self.booked.put(who)
            return f"{city}, {who}, {model}"

        @self.server.tool()
        def cancel(city: str, ctx: Context) -> str:
            return str(ctx.elicit("Who?", FORM)["content"]["name"])

        @self.server.prompt()
        def book_prompt(city: str, ctx: Context) -> str:
            return str(ctx.elicit("Who?", FORM)["content"]["name"])


def first(client: Client, city: str = "Oslo") -> dict[str, Any]:
    """The result of the first round: a question."""
    result = cast(dict[str, Any], client.call_tool("book", {"city": city}, by_hand=True))
    assert result["resultType"] == "input_required" and list(result["inputRequests"]) == ["elicitation-1"]
    return result


def again(client: Client, state: str | None, answers: Any, name: str = "book", **arguments: Any) -> Any:
    """Another round, by hand."""
    more: Any = {"input_responses": answers} | ({} if state is None else {"request_state": state})
    return client.call_tool(name, arguments or {"city": "Oslo"}, by_hand=True, **more)


def refused(client: Client, state: Any, answers: Any = None, **options: Any) -> ErrorResponse:
    with pytest.raises(ErrorResponse) as problem:
        again(client, state, {"elicitation-1": ADA} if answers is None else answers, **options)
    assert problem.value.code == -32602
    return problem.value


# -- one after the other ------------------------------------------------------------------------------------------


@every_way
def test_rounds_are_driven_by_hand_and_another_client_may_continue_them(connect: Connect) -> None:
    desk = Desk()
    question = first(connect(desk.server, **MAY))
    second = again(connect(desk.server, **MAY), question["requestState"], {"elicitation-1": ADA})
    assert list(second["inputRequests"]) == ["sampling-2"]
    last = again(connect(desk.server, **MAY), second["requestState"], {"sampling-2": MODEL})
    assert last["content"] == [text("Oslo, Ada, m")]
    assert (desk.runs.qsize(), desk.booked.qsize()) == (3, 1)


@every_way
def test_a_function_may_ask_by_its_result_whatever_it_serves(connect: Connect) -> None:
    server = Server("s")

    def greet(ctx: Context) -> Any:
        if ctx.request_state is None:
            return input_required({"who": elicitation_form("Who?", FORM)}, state=1)
        return f"hello {ctx.input_responses['who']['content']['name']}"

    server.tool("greet")(greet)
    server.prompt("greet")(greet)
    server.resource("x://greet")(greet)
    ways: dict[str, Any] = {
        "tool": lambda client, **options: client.call_tool("greet", **options),
        "prompt": lambda client, **options: client.get_prompt("greet", **options),
        "resource": lambda client, **options: client.read_resource("x://greet", **options),
    }
    client = connect(server, elicit=lambda message, schema: {"name": "Ada"})
    for way, ask in ways.items():
        question = ask(client, by_hand=True)
        assert (question["resultType"], list(question["inputRequests"])) == ("input_required", ["who"]), way
        assert "hello Ada" in str(ask(client)), way


@every_way
def test_of_clients_that_vanish_between_rounds_nothing_is_left(connect: Connect) -> None:
    desk = Desk(max_workers=2)
    for _ in range(5):
        client = connect(desk.server, **MAY)
        for _ in range(20):
            first(client)
        client.close()
    assert (desk.runs.qsize(), desk.booked.qsize()) == (100, 0)
    # No handler waits for them, and there is room for the next.
    client = connect(desk.server, elicit=lambda message, schema: {"name": "Ada"}, sample=lambda p: reply("", model="m"))
    assert client.call_tool("book", {"city": "Oslo"})["content"] == [text("Oslo, Ada, m")]
    if connect.transport == "http":
        assert desk.server.sessions == ()
    else:
        assert not any(session.connection.unanswered for session in desk.server.sessions)


@every_way
def test_the_same_state_may_be_presented_twice_and_at_once(connect: Connect) -> None:
    desk = Desk()
    client = connect(desk.server, **MAY)
    question = first(client)
    together = threading.Barrier(4, timeout=PATIENCE)

    def answer(number: int) -> Any:
        together.wait()
        given = {"action": "accept", "content": {"name": f"n{number}"}}
        second = again(client, question["requestState"], {"elicitation-1": given})
        return again(client, second["requestState"], {"sampling-2": MODEL})["content"]

    calls = [Background(answer, number) for number in range(4)]
    assert [call.outcome() for call in calls] == [[text(f"Oslo, n{number}, m")] for number in range(4)]


# -- states -------------------------------------------------------------------------------------------------------


KEYS = [bytes([number]) * 32 for number in range(3)]


@every_way
def test_servers_that_share_keys_go_on_with_each_others_rounds_and_others_do_not(connect: Connect) -> None:
    before, after = Desk(state_keys=KEYS[:1]), Desk(state_keys=[KEYS[1], KEYS[0]])
    alone, stranger, namesake = Desk(), Desk(state_keys=[KEYS[2]]), Desk("other", state_keys=KEYS)
    state = first(connect(before.server, **MAY))["requestState"]
    second = again(connect(after.server, **MAY), state, {"elicitation-1": ADA})
    # Sealed with the new key now, which the first of them does not have.
    assert refused(connect(before.server, **MAY), second["requestState"]).message == REFUSED
    for other in (alone, stranger, namesake):
        assert refused(connect(other.server, **MAY), state).message == REFUSED
        assert other.runs.empty()


# -- a handler that asks by its result ----------------------------------------------------------------------------


@every_way
def test_what_was_not_asked_is_not_answered(connect: Connect) -> None:
    desk = Desk()
    client = connect(desk.server, **MAY)
    # Answers without a state count for nothing.
    result = again(client, None, {"elicitation-1": ADA})
    for given in ({}, {"sampling-2": MODEL}, {"": ADA, "sampling-1": MODEL}, {"elicitation-1.1": ADA}):
        assert list(result["inputRequests"]) == ["elicitation-1"]
        result = again(client, result["requestState"], given)
    assert list(result["inputRequests"]) == ["elicitation-1"]
    assert desk.booked.empty()
