"""Multi round-trip requests: a handler is run until all that it asked is answered; and what a lying client gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.errors import InvalidParams, LocalProtocolError, Refusal, RemoteProtocolError
from mcp_ref.pages.basic.mrtr import (
    MAX_STATE,
    InputNeeded,
    Rounds,
    StateKeys,
    elicitation_form,
    elicitation_url,
    input_required,
    roots_listing,
    sampling,
)
from mcp_ref.pages.client.elicitation import UrlElicitationRequired, elicit, elicit_url, url_elicitation
from mcp_ref.pages.client.roots import roots
from mcp_ref.pages.client.sampling import reply, sample
from mcp_ref.revisions import STATELESS_REVISIONS
from tests.slow import examples

LATEST = STATELESS_REVISIONS[-1]
KEYS = StateKeys([b"k" * 32])
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
CALL = {"name": "book", "arguments": {"city": "Bern"}}
NAME = {"name": {"type": "string"}}


class Asking:
    """A handler's context, as far as it asks."""

    revision = LATEST
    elicit, elicit_url, sample, roots = elicit, elicit_url, sample, roots

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.ask_all = rounds.ask_all
        self.peer_capabilities = EVERYTHING

    def request(self, method: str, params: Any = None, options: Any = None) -> Any:
        return self.rounds.ask(method, params)

    def notify(self, method: str, params: Any = None) -> None:
        raise AssertionError("nothing is told here")

    def name(self, message: str) -> Any:
        """Return what the user answers to a form of one field, or what they did instead."""
        answer = self.elicit(message, NAME)
        return answer.get("content", {}).get("name", answer["action"])


Handler = Callable[[Any], Any]


def rounds_of(params: Any = CALL, method: str = "tools/call", *, principal: str | None = "ann", **more: Any) -> Rounds:
    declared = more.get("capabilities", EVERYTHING)
    return Rounds(more.get("keys", KEYS), "here", principal, method, params, declared, LATEST)


def run(handler: Handler, params: Any = CALL, **more: Any) -> Any:
    """One round, as server/session runs it: the open questions as a result, or what the handler returned."""
    rounds = rounds_of(params, **more)
    returned = None
    try:
        returned = handler(Asking(rounds))
    except InputNeeded:
        assert rounds.questions
    except UrlElicitationRequired as required:
        rounds.ask_urls(required.data["elicitations"])
    return rounds.outcome({}) if rounds.questions else returned


def again(result: Any, responses: Any, params: Any = CALL) -> Any:
    return {**params, "inputResponses": responses, "requestState": result["requestState"]}


def rounds_with(handler: Handler, *responses: Any) -> Any:
    """What the last of several rounds comes to; each is answered with the next of the responses."""
    result = run(handler)
    for each in responses:
        result = run(handler, again(result, each))
    return result


def accept(name: str) -> Any:
    return {"action": "accept", "content": {"name": name}}


def answer(request: Any) -> Any:
    """Return what an honest client answers: a name that repeats the message, a text, one root."""
    if request["method"] == "elicitation/create":
        return accept(f"<{request['params']['message']}>")
    if request["method"] == "roots/list":
        return {"roots": [{"uri": "file:///home"}]}
    return reply("four", model="m")


def converse(handler: Handler, params: Any = CALL, *, most: int = 10) -> tuple[Any, list[list[str]]]:
    """Rounds until the handler returns: what it returned, and the keys that were asked in each round."""
    asked: list[list[str]] = []
    current = params
    for _ in range(most):
        result = run(handler, current)
        if not (isinstance(result, dict) and result.get("resultType") == "input_required"):
            return result, asked
        asked.append(list(result["inputRequests"]))
        current = again(result, {key: answer(request) for key, request in result["inputRequests"].items()}, params)
    raise AssertionError(f"no end after {asked}")


# -- handlers written for a session work unchanged ----------------------------------------------------------------


def test_a_question_ends_the_run_and_is_the_result() -> None:
    result = run(lambda ctx: ctx.name("Who?"))
    schema = {"type": "object", "properties": NAME, "required": ["name"]}
    params = {"mode": "form", "message": "Who?", "requestedSchema": schema}
    assert result["resultType"] == "input_required" and isinstance(result["requestState"], str)
    assert result["inputRequests"] == {"elicitation-1": {"method": "elicitation/create", "params": params}}


def test_arguments_may_change_after_they_were_asked_with() -> None:
    def handler(ctx: Any) -> Any:
        conversation = [{"role": "user", "content": [{"type": "text", "text": "1"}]}]
        first = ctx.sample(conversation, max_tokens=1)
        conversation[0]["content"].append({"type": "text", "text": "2"})
        first["content"]["text"] += " and more"
        conversation.append({"role": "assistant", "content": first["content"]})
        return ctx.sample(conversation, max_tokens=1)["content"]["text"]

    assert converse(handler) == ("four", [["sampling-1"], ["sampling-2"]])


TEXTS = tuple({"type": "text", "text": text} for text in "ab")


@pytest.mark.parametrize(
    ("handler", "returned", "asked"),
    [
        (lambda ctx: ctx.elicit_url("Pay", "https://pay.example/1")["action"], "accept", "elicitation-1"),
        (lambda ctx: ctx.sample({"role": "user", "content": TEXTS}, max_tokens=1)["model"], "m", "sampling-1"),
        (lambda ctx: (ctx.ask_all(), ctx.name("Who?")), ([], "<Who?>"), "elicitation-2"),
    ],
    ids=["an id that is made again in each run", "tuples, which are arrays on the wire", "nothing asked together"],
)
def test_one_question_in_one_round(handler: Handler, returned: Any, asked: str) -> None:
    assert converse(handler) == (returned, [[asked]])


@given(st.lists(st.sampled_from(["elicit", "sample", "roots", "all"]), max_size=5))
@settings(deadline=None, max_examples=examples(40))
def test_questions_in_any_order_lead_to_the_result(kinds: list[str]) -> None:
    def one(ctx: Any, kind: str, n: int) -> Any:
        if kind == "elicit":
            return ctx.name(f"{n}?")
        if kind == "sample":
            return ctx.sample(f"{n}?", max_tokens=1)["model"]
        if kind == "roots":
            return len(ctx.roots())
        return ctx.ask_all(lambda: ctx.name(f"{n}?"), lambda: [ctx.roots(), ctx.name(f"{n}!")][1])

    expected = {"elicit": lambda n: f"<{n}?>", "sample": lambda n: "m", "roots": lambda n: 1}
    returned, asked = converse(lambda ctx: [one(ctx, kind, n) for n, kind in enumerate(kinds)], most=20)
    assert returned == [[f"<{n}?>", f"<{n}!>"] if kind == "all" else expected[kind](n) for n, kind in enumerate(kinds)]
    assert len(asked) == len(kinds) + kinds.count("all")


# -- asked together -----------------------------------------------------------------------------------------------


def both(ctx: Any) -> Any:
    return ctx.ask_all(lambda: ctx.name("Who?"), lambda: ctx.roots()[0]["uri"])


def test_what_is_missing_is_asked_again_and_what_is_there_is_not() -> None:
    second = rounds_with(both, {"roots-1.2.1": {"roots": [{"uri": "file:///home"}]}})
    assert list(second["inputRequests"]) == ["elicitation-1.1.1"]
    assert run(both, again(second, {"elicitation-1.1.1": accept("Ann")})) == ["Ann", "file:///home"]


def test_together_within_together() -> None:
    def handler(ctx: Any) -> Any:
        inner = lambda: ctx.ask_all(lambda: ctx.name("b"), lambda: ctx.name("c"))  # noqa: E731
        return ctx.ask_all(lambda: ctx.name("a"), inner), ctx.name("d")

    returned, asked = converse(handler)
    assert returned == (["<a>", ["<b>", "<c>"]], "<d>")
    assert asked == [["elicitation-1.1.1", "elicitation-1.2.1.1.1", "elicitation-1.2.1.2.1"], ["elicitation-2"]]


def test_one_that_fails_does_not_take_back_what_another_asked() -> None:
    told: dict[str, str] = {}

    def handler(ctx: Any) -> Any:
        told.clear()
        return ctx.ask_all(lambda: told.update(name=ctx.name("Who?")), lambda: told["name"])[1]

    rounds = rounds_of()
    with pytest.raises(KeyError):
        handler(Asking(rounds))
    assert rounds.questions
    assert run(handler, again(rounds.outcome({}), {"elicitation-1.1.1": accept("Ann")})) == "Ann"


# -- changed questions --------------------------------------------------------------------------------------------


def test_a_changed_question_takes_all_later_answers_with_it() -> None:
    price = [10]

    def handler(ctx: Any) -> Any:
        return ctx.name(f"Pay {price[0]}?"), ctx.name("To whom?"), ctx.name("Sure?")

    third = rounds_with(handler, {"elicitation-1": accept("yes")}, {"elicitation-2": accept("Ann")})
    price[0] = 20
    changed = run(handler, again(third, {"elicitation-3": accept("sure")}))
    assert changed["inputRequests"]["elicitation-1"]["params"]["message"] == "Pay 20?"
    more = run(handler, again(changed, {"elicitation-1": accept("well"), "elicitation-3": accept("sure")}))
    assert list(more["inputRequests"]) == ["elicitation-2"], "To whom was answered for another price"


# -- handlers that catch what ends them ---------------------------------------------------------------------------


def test_what_is_asked_after_it_was_caught_is_not_asked() -> None:
    caught: list[str] = []

    def handler(ctx: Any) -> Any:
        for question in ("a", "b"):
            try:
                ctx.name(question)
            except InputNeeded:
                caught.append(question)
        with pytest.raises(InputNeeded):
            ctx.ask_all(lambda: caught.append("never"))
        raise ValueError("and this is nobody's business")

    rounds = rounds_of()
    with pytest.raises(ValueError, match="nobody"):
        handler(Asking(rounds))
    assert rounds.questions and caught == ["a", "b"]
    assert list(rounds.outcome({})["inputRequests"]) == ["elicitation-1"]


def test_caught_within_one_of_several_it_is_still_asked_for() -> None:
    def quiet(ctx: Any, question: str) -> Any:
        try:
            return ctx.name(question)
        except BaseException:
            return ctx.name("and this?")

    handler = lambda ctx: ctx.ask_all(lambda: quiet(ctx, "a"), lambda: quiet(ctx, "b"))  # noqa: E731
    assert converse(handler) == (["<a>", "<b>"], [["elicitation-1.1.1", "elicitation-1.2.1"]])


# -- who may ask, and what ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["tools/list", "completion/complete"])
def test_other_requests_cannot_ask(method: str) -> None:
    rounds = rounds_of({}, method)
    for ask in (
        lambda: rounds.ask("roots/list", None),
        lambda: rounds.ask_all(lambda: 1),
        lambda: rounds.ask_urls([{"mode": "url", "message": "m", "url": "https://a.example"}]),
        lambda: rounds.outcome(input_required(state=1)),
    ):
        with pytest.raises(LocalProtocolError, match=f"{method} cannot ask .*tools/call, prompts/get, resources/read"):
            ask()
    assert not rounds.questions


def test_other_requests_ignore_what_is_not_for_them() -> None:
    rounds = rounds_of({"requestState": 5, "inputResponses": None}, "tools/list")
    assert (rounds.responses, rounds.state) == ({}, None)


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        *((method, {}, "elicitation/create, sampling/createMessage, roots/list") for method in ("tools/call", 5)),
        *(("elicitation/create", params, None) for params in (None, [], {"message": "m"}, {"m": {1}})),
        *(("elicitation/create", {"message": "m", **more}, None) for more in ({"mode": "tea"}, {"requestedSchema": 5})),
    ],
)
def test_only_three_things_can_be_asked_and_each_in_its_form(method: Any, params: Any, says: str | None) -> None:
    rounds = rounds_of()
    with pytest.raises(LocalProtocolError, match=says):
        rounds.ask(method, params)
    assert not rounds.questions


FORM: Any = elicitation_form("Who?", NAME)


def test_to_declare_elicitation_and_no_mode_is_to_declare_forms() -> None:
    rounds = rounds_of(capabilities={"elicitation": {}})
    with pytest.raises(InputNeeded):
        rounds.ask(FORM["method"], FORM["params"])
    assert rounds.questions


# -- answers that lie ---------------------------------------------------------------------------------------------


ONE = 'inputResponses["elicitation-1"]'
UNFIT: list[tuple[Any, str]] = [
    *((each, "inputResponses") for each in (None, [])),
    *(({"elicitation-1": each}, ONE) for each in (None, 12345)),
    *(({"elicitation-1": each}, f"{ONE}.action") for each in ({}, {"action": "shrug"}, {"roots": []})),
    ({"elicitation-1": {"action": "accept", "content": 5}}, f"{ONE}.content"),
    ({"elicitation-1": accept("Ann"), "other": "x"}, "inputResponses.other"),
]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        *(({"inputResponses": responses}, path) for responses, path in UNFIT),
        *(({"requestState": state}, "requestState") for state in (None, 5, ["x"])),
    ],
)
def test_an_answer_or_a_state_that_does_not_fit_is_refused_with_its_path(given: Any, path: str) -> None:
    asked = again(run(lambda ctx: ctx.name("Who?")), {})
    with pytest.raises(InvalidParams) as caught:
        rounds_of({**asked, **given})
    assert caught.value.data == {"path": f"params.{path}"} and path in caught.value.message


def test_an_answer_of_an_earlier_round_cannot_be_replaced() -> None:
    handler = lambda ctx: (ctx.name("a"), ctx.name("b"))  # noqa: E731
    last = {"elicitation-1": accept("X"), "elicitation-2": accept("B")}
    assert rounds_with(handler, {"elicitation-1": accept("A")}, last) == ("A", "B")


def test_a_form_that_does_not_fit_is_the_handlers_to_see() -> None:
    def handler(ctx: Any) -> Any:
        try:
            return ctx.elicit("How many?", {"n": {"type": "integer"}})["content"]
        except RemoteProtocolError:
            return ctx.elicit("How many, as a number?", {"n": {"type": "integer"}})["content"]

    many, five = ({"action": "accept", "content": {"n": n}} for n in ("many", 5))
    assert rounds_with(handler, {"elicitation-1": many}, {"elicitation-2": five}) == {"n": 5}


def test_answers_that_are_too_large_to_carry_are_the_clients_fault() -> None:
    handler = lambda ctx: (ctx.name("a"), ctx.name("b"))  # noqa: E731
    large = again(run(handler), {"elicitation-1": accept("x" * MAX_STATE)})
    with pytest.raises(InvalidParams, match=r"params\.inputResponses"):
        run(handler, large)


# -- what raised -32042 in a session ------------------------------------------------------------------------------


def pay(ctx: Any) -> Any:
    raise UrlElicitationRequired(
        [url_elicitation("Pay", "https://pay.example/"), url_elicitation("Sign", "https://sign.example/")]
    )


AGREED = {"url-1": {"action": "accept"}, "url-2": {"action": "accept"}}


def test_what_is_still_required_is_asked_again() -> None:
    for responses in (AGREED, {"url-1": {"action": "accept"}}, {}):
        result = rounds_with(pay, responses, responses)
        assert list(result["inputRequests"]) == ["url-1", "url-2"] and "elicitationId" not in str(result)
        assert run(lambda ctx: "paid", again(result, AGREED)) == "paid"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_decline_counts_also_where_other_pages_are_required_now(action: str) -> None:
    declined = again(run(pay), {**AGREED, "url-2": {"action": action}})

    def other(ctx: Any) -> Any:
        raise UrlElicitationRequired([url_elicitation("Sign", "https://sign.example/?token=2")])

    with pytest.raises(Refusal, match="did not visit") as refusal:
        run(other, declined)
    assert refusal.value.code == -32603


def test_answers_before_a_visit_are_kept() -> None:
    paid = False

    def handler(ctx: Any) -> Any:
        name = ctx.name("Who?")
        return name if paid else pay(ctx)

    asked = run(handler, again(run(handler), {"elicitation-1": accept("Ann")}))
    assert list(asked["inputRequests"]) == ["url-1", "url-2"]
    paid = True
    assert run(handler, again(asked, AGREED)) == "Ann"


def test_a_visit_is_not_asked_beside_an_open_question() -> None:
    def handler(ctx: Any) -> Any:
        try:
            ctx.name("Who?")
        except BaseException:
            pay(ctx)

    assert list(run(handler)["inputRequests"]) == ["elicitation-1"]


# -- handlers that return an InputRequiredResult themselves -------------------------------------------------------


def test_sampling_has_the_options_of_sample() -> None:
    tool: Any = {"name": "add", "inputSchema": {"type": "object"}}
    asked = sampling("Capital?", max_tokens=100, system_prompt="Be brief.", tools=[tool], timeout=5)
    messages = [{"role": "user", "content": {"type": "text", "text": "Capital?"}}]
    params = {"messages": messages, "maxTokens": 100, "systemPrompt": "Be brief.", "tools": [tool]}
    # It is not a message of JSON-RPC.
    assert asked == {"method": "sampling/createMessage", "params": params}


@pytest.mark.parametrize(
    "ask",
    [
        lambda: elicitation_form("m", {"a": {"type": "object"}}),
        lambda: elicitation_url("m", "no url"),
        lambda: sampling([{"role": "user", "content": {"type": "tool_use"}}], max_tokens=1),  # type: ignore[list-item, typeddict-item]
        lambda: sampling("m", max_tokens="many"),  # type: ignore[arg-type]
        lambda: input_required(),
        lambda: input_required({}),
    ],
)
def test_what_could_not_be_asked_is_not_a_question(ask: Any) -> None:
    with pytest.raises(LocalProtocolError):
        ask()


def test_a_result_holds_questions_or_a_state_or_both() -> None:
    question = roots_listing()
    assert input_required({"r": question}) == {"resultType": "input_required", "inputRequests": {"r": question}}
    assert input_required(state=0) == {"resultType": "input_required", "requestState": 0}
    assert input_required({"r": question}, state={}).keys() == {"resultType", "inputRequests", "requestState"}


@pytest.mark.parametrize("state", [0, "", False, "Zürich", {"step": 1, "of": [1, 2]}])
def test_a_handlers_state_comes_back_once(state: Any) -> None:
    sealed = rounds_of().outcome(input_required(state=state))
    assert sealed["resultType"] == "input_required" and "inputRequests" not in sealed
    assert isinstance(sealed["requestState"], str)
    second = rounds_of({**CALL, "requestState": sealed["requestState"]})
    assert second.state == state
    assert "requestState" not in second.outcome(input_required({"a": FORM})), "unless it is given again"


def test_both_ways_of_asking_go_together() -> None:
    def handler(ctx: Any) -> Any:
        who = ctx.name("Who?")
        if ctx.rounds.state is None:
            return ctx.rounds.outcome(input_required({"town": FORM}, state="asked"))
        town = ctx.rounds.responses.get("town") or ctx.rounds.state
        return who, town, ctx.name("Sure?")

    second = run(handler, again(run(handler), {"elicitation-1": accept("Ann")}))
    assert list(second["inputRequests"]) == ["town"]
    third = run(handler, again(second, {"town": accept("Bern")}))
    assert list(third["inputRequests"]) == ["elicitation-2"]
    # What came for the handler itself is its own to keep; its state and the recorded answers are still there.
    assert run(handler, again(third, {"elicitation-2": accept("yes")})) == ("Ann", "asked", "yes")


def test_what_a_handler_does_to_its_state_is_not_kept() -> None:
    sealed = rounds_of().outcome(input_required(state={"names": []}))

    def handler(ctx: Any) -> Any:
        ctx.rounds.state["names"].append("Ann")
        ctx.name("Who?")

    result = run(handler, {**CALL, "requestState": sealed["requestState"]})
    assert rounds_of({**CALL, "requestState": result["requestState"]}).state == {"names": []}


def test_its_questions_are_shaped_for_the_revision() -> None:
    page = {"method": "elicitation/create", "params": url_elicitation("Pay", "https://pay.example/")}
    sealed = rounds_of().outcome({"resultType": "input_required", "inputRequests": {"pay": page}, "_meta": {"a": 1}})
    assert "elicitationId" not in sealed["inputRequests"]["pay"]["params"]
    assert sealed["_meta"] == {"a": 1}


@pytest.mark.parametrize(
    "result",
    [
        {}, {"inputRequests": {}}, {"requestState": None}, {"requestState": {1, 2}}, {"requestState": "x" * MAX_STATE},
        {"inputRequests": [FORM]}, {"inputRequests": {1: FORM}}, {"inputRequests": {"a": "Who?"}},
        *({"inputRequests": {"a": asked}} for asked in ({}, {"method": "tools/call", "params": {}}, {"method": []})),
        {"inputRequests": {"a": {"method": "elicitation/create"}}},
        {"inputRequests": {"a": FORM | {"params": {"message": "?", "requestedSchema": {"type": "object"}}}}},
    ],
    ids=range(13),
)  # fmt: skip
def test_a_result_that_asks_for_nothing_is_not_sent(result: Any) -> None:
    with pytest.raises(LocalProtocolError):
        rounds_of().outcome({"resultType": "input_required", **result})
