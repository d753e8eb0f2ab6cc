"""basic/patterns/mrtr by every way that has it: clients that vanish between rounds, answers that lie, states that are
old, changed or somebody else's."""

from __future__ import annotations

import base64
import json
import threading
from queue import SimpleQueue
from typing import Any, cast

import pytest

from mcp_ref import Client, Context, ErrorResponse, Server, text
from mcp_ref.basic.mrtr import StateKeys, elicitation_form, input_required
from mcp_ref.client.sampling import reply
from mcp_ref.machinery.http_exchange import HttpRefusal
from mcp_ref.roles.client.config import Url
from tests.features.conftest import Connect, stateless_era
from tests.wire import PATIENCE, Background

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
        assert not any(session.peer.unanswered for session in desk.server.sessions)


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


# -- answers that lie ---------------------------------------------------------------------------------------------

WRONG: dict[str, Any] = {
    "no object": ["elicitation-1"],
    "an answer that is not an object": {"elicitation-1": "Ada"},
    "an answer of nothing": {"elicitation-1": {}},
    "an answer of another kind": {"elicitation-1": MODEL},
    "an action that does not exist": {"elicitation-1": {"action": "maybe"}},
    "contents of the wrong type": {"elicitation-1": {"action": "accept", "content": {"name": {"deep": []}}}},
    "null": {"elicitation-1": None},
}


@every_way
@pytest.mark.parametrize("how", WRONG)
def test_an_answer_of_the_wrong_shape_is_refused_and_the_handler_does_not_run(connect: Connect, how: str) -> None:
    desk = Desk()
    client = connect(desk.server, **MAY)
    state = first(client)["requestState"]
    problem = refused(client, state, WRONG[how])
    assert "inputResponses" in problem.data["path"]
    assert desk.runs.qsize() == 1
    # And nobody else is the worse for it.
    assert again(client, state, {"elicitation-1": ADA})["resultType"] == "input_required"


@every_way
@pytest.mark.parametrize(
    "answers",
    [{}, {"elicitation-2": ADA}, {"sampling-2": MODEL}, {"": ADA, "sampling-1": MODEL}, {"elicitation-1.1": ADA}],
    ids=["none", "another number", "the next question", "nonsense", "part of another"],
)
def test_what_was_not_asked_is_not_answered(connect: Connect, answers: Any) -> None:
    desk = Desk()
    client = connect(desk.server, **MAY)
    repeated = again(client, first(client)["requestState"], answers)
    assert list(repeated["inputRequests"]) == ["elicitation-1"]
    assert desk.booked.empty()


@every_way
def test_more_answers_than_were_asked_for_are_ignored(connect: Connect) -> None:
    client = connect(Desk().server, **MAY)
    answers = {"elicitation-1": ADA, "sampling-2": MODEL, "roots-7": {"roots": []}, "x": 1}
    with pytest.raises(ErrorResponse):
        again(client, first(client)["requestState"], answers)
    del answers["x"]
    # The answer to the question that comes next was given before it was asked: it is asked all the same.
    assert list(again(client, first(client)["requestState"], answers)["inputRequests"]) == ["sampling-2"]


@every_way
def test_answers_without_a_state_count_for_nothing(connect: Connect) -> None:
    desk = Desk()
    client = connect(desk.server, **MAY)
    assert list(again(client, None, {"elicitation-1": ADA})["inputRequests"]) == ["elicitation-1"]
    assert desk.booked.empty()


# -- states -------------------------------------------------------------------------------------------------------


def tampered(state: str) -> dict[str, str]:
    body, _, code = state.rpartition(".")
    expires, payload = json.loads(base64.urlsafe_b64decode(body + "=="))
    later = base64.urlsafe_b64encode(json.dumps([expires + 1000, payload]).encode()).decode().rstrip("=")
    return {
        "another time": f"{later}.{code}",
        "no code": body,
        "an empty code": f"{body}.",
        "half a code": f"{body}.{code[:20]}",
        "another letter": f"{body}.{'A' if code[0] != 'A' else 'B'}{code[1:]}",
        "padding": f"{body}=.{code}",
        "blanks": f" {state} ",
        "nothing": "",
        "not ASCII": state + "é",
        "two of them": f"{state}.{state}",
    }


@every_way
def test_a_state_that_was_changed_is_refused_and_nobody_learns_why(connect: Connect) -> None:
    desk = Desk()
    client = connect(desk.server, **MAY)
    for how, state in tampered(first(client)["requestState"]).items():
        problem = refused(client, state)
        assert (problem.message, problem.data) == (REFUSED, None), how
    assert desk.runs.qsize() == 1


@every_way
def test_a_state_is_of_use_for_its_own_request_alone(connect: Connect) -> None:
    client = connect(Desk().server, **MAY)
    state = first(client)["requestState"]
    assert refused(client, state, city="Linz").message == REFUSED
    assert refused(client, state, name="cancel", city="Oslo").message == REFUSED
    with pytest.raises(ErrorResponse, match=REFUSED):
        client.get_prompt(
            "book_prompt",
            {"city": "Oslo"},
            by_hand=True,
            input_responses={"elicitation-1": ADA},
            request_state=state,
        )


@every_way
def test_a_state_expires(connect: Connect) -> None:
    now = [1000.0]
    desk = Desk(state_keys=StateKeys(lifetime=60, clock=lambda: now[0]))
    client = connect(desk.server, **MAY)
    state = first(client)["requestState"]
    now[0] += 59
    second = again(client, state, {"elicitation-1": ADA})
    now[0] += 2
    assert refused(client, state).message == REFUSED
    # Each round has the whole time for itself.
    assert again(client, second["requestState"], {"sampling-2": MODEL})["content"] == [text("Oslo, Ada, m")]


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


def test_the_state_of_one_user_is_of_no_use_to_another() -> None:
    desk = Desk()

    def who(request: Any) -> str:
        name = request.headers.get("authorization")
        if name is None:
            raise HttpRefusal(401, "who are you?")
        return str(name)

    with desk.server.serve_http(authenticate=who) as service:

        def of(name: str) -> Client:
            url = Url(service.url, headers={"Authorization": name})
            return Client(url, revision="2026-07-28", timeout=PATIENCE, **MAY)

        with of("alice") as alice, of("bob") as bob, of("alice") as elsewhere:
            state = first(alice)["requestState"]
            assert refused(bob, state).message == REFUSED
            assert list(again(elsewhere, state, {"elicitation-1": ADA})["inputRequests"]) == ["sampling-2"]


# -- a handler that asks by its result ----------------------------------------------------------------------------


def test_a_handler_that_returns_its_questions_itself_works_in_both_eras(connect: Connect) -> None:
    server = Server("s")

    @server.tool()
    def steps(ctx: Context) -> Any:
        done = ctx.request_state or []
        if len(done) == 2:
            return ", ".join(done)
        if answer := ctx.input_responses.get("who"):
            done = [*done, answer["content"]["name"]]
        if len(done) == 2:
            return input_required(state=done)
        return input_required({"who": elicitation_form(f"Who is number {len(done) + 1}?", FORM)}, state=done)

    client = connect(server, elicit=lambda message, schema: {"name": message.split()[-1]})
    if str(connect.revision) < "2025-06-18":
        with pytest.raises(ErrorResponse):
            client.call_tool("steps")
        return
    assert client.call_tool("steps")["content"] == [text("1?, 2?")]
