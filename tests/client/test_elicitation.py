from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.client import elicitation
from mcp_ref.client.elicitation import Elicitors
from mcp_ref.errors import InvalidParams, LocalProtocolError, RemoteProtocolError
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.rates import RateLimited
from mcp_ref.roles.client.answers import DEFAULT_RATES, Answers, ClientContext
from tests.client.fakes import FORMS_ONLY, OLDEST, FakeClient, FakeServer
from tests.server.alone import Reply

JsonObject = dict[str, Any]

SEAT = {"seat": {"type": "string", "enum": ["window", "aisle"]}}
FORM = {"type": "object", "properties": SEAT, "required": ["seat"]}
BOTH: JsonObject = {"elicitation": {"form": {}, "url": {}}}


def answer(handler: Any, form: JsonObject = FORM, client: FakeClient | None = None, **params: Any) -> Any:
    asked: Any = {"message": "Which seat?", "requestedSchema": form, **params}
    return elicitation.elicitation_create(Elicitors({}, form=handler), client or FakeClient(BOTH), asked)


# -- the server asks


def test_asks_by_form_and_returns_what_fits() -> None:
    server = FakeServer({"action": "accept", "content": {"seat": "aisle"}}, BOTH)
    assert elicitation.elicit(server, "Which seat?", SEAT, timeout=9) == server.answer
    assert server.sent == [
        ("elicitation/create", {"mode": "form", "message": "Which seat?", "requestedSchema": FORM}),
    ]
    assert server.options == {"timeout": 9}


def test_sends_no_mode_in_2025_06_18() -> None:
    server = FakeServer({"action": "decline"}, {"elicitation": {"url": {}}}, FORMS_ONLY)
    assert elicitation.elicit(server, "Which seat?", FORM) == {"action": "decline"}
    assert server.params == {"message": "Which seat?", "requestedSchema": FORM}


def test_an_empty_capability_means_forms_only() -> None:
    server = FakeServer({"action": "cancel"}, {"elicitation": {}})
    assert elicitation.elicit(server, "Which seat?", SEAT) == {"action": "cancel"}
    with pytest.raises(LocalProtocolError, match="url"):
        elicitation.elicit_url(server, "Go", "https://example.com/")


def test_a_mode_that_was_not_declared_is_not_sent() -> None:
    server = FakeServer(None, {"elicitation": {"url": {}}})
    with pytest.raises(LocalProtocolError, match="form"):
        elicitation.elicit(server, "Which seat?", SEAT)
    assert server.sent == []


def test_only_a_form_is_sent() -> None:
    server = FakeServer(None, BOTH)
    with pytest.raises(LocalProtocolError, match="nested"):
        elicitation.elicit(server, "Where?", {"address": {"type": "object"}})
    assert server.sent == []


@pytest.mark.parametrize("content", [{"seat": "roof"}, {"seat": 3}, {}])
def test_an_accepted_form_that_does_not_fit_names_the_field(content: JsonObject) -> None:
    server = FakeServer({"action": "accept", "content": content}, BOTH)
    with pytest.raises(RemoteProtocolError, match="seat"):
        elicitation.elicit(server, "Which seat?", SEAT)


def test_accepting_a_form_without_values_counts_where_none_is_required() -> None:
    server = FakeServer({"action": "accept"}, BOTH)
    assert elicitation.elicit(server, "Sure?", {}) == {"action": "accept", "content": {}}


def test_values_of_a_refused_form_are_not_handed_on() -> None:
    server = FakeServer({"action": "decline", "content": {"seat": "aisle"}}, BOTH)
    assert elicitation.elicit(server, "Which seat?", SEAT) == {"action": "decline"}


# -- the client answers


def test_the_handler_sees_message_and_form_and_its_values_are_accepted() -> None:
    seen: list[Any] = []

    def handler(message: str, schema: JsonObject) -> JsonObject:
        seen.append((message, schema))
        return {"seat": "window"}

    assert answer(handler) == {"action": "accept", "content": {"seat": "window"}}
    assert seen == [("Which seat?", FORM)]


def test_the_handler_may_ask_which_server_it_is() -> None:
    def handler(message: str, schema: JsonObject, ctx: ClientContext) -> JsonObject:
        return {"who": ctx.server_info["name"]}

    form = {"type": "object", "properties": {"who": {"type": "string"}}}
    assert answer(handler, form)["content"] == {"who": "asker"}


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, {"action": "decline"}),
        (elicitation.decline(), {"action": "decline"}),
        (elicitation.cancel(), {"action": "cancel"}),
        (elicitation.accept({"seat": "aisle"}), {"action": "accept", "content": {"seat": "aisle"}}),
        ({"action": "decline", "content": {"seat": "aisle"}}, {"action": "decline"}),
    ],
)
def test_the_three_actions(returned: Any, result: JsonObject) -> None:
    assert answer(lambda message, schema: returned) == result


def test_a_field_may_be_named_action() -> None:
    form = {"type": "object", "properties": {"action": {"type": "string"}}}
    assert answer(lambda m, s: {"action": "cancel"}, form) == {"action": "accept", "content": {"action": "cancel"}}
    assert answer(lambda m, s: elicitation.accept({"action": "x"}), form)["content"] == {"action": "x"}


def test_defaults_fill_what_the_handler_left_out() -> None:
    form = {"type": "object", "properties": {"seat": {**SEAT["seat"], "default": "aisle"}}, "required": ["seat"]}
    assert answer(lambda m, s: {}, form)["content"] == {"seat": "aisle"}


@pytest.mark.parametrize("returned", [{"seat": "roof"}, {}, {"seat": "aisle", "age": 3}, "aisle", True])
def test_values_that_do_not_fit_are_not_sent(returned: Any) -> None:
    with pytest.raises(LocalProtocolError, match="elicit handler"):
        answer(lambda m, s: returned)


def test_a_request_without_a_mode_is_a_form() -> None:
    def handler(message: str, schema: JsonObject) -> None:
        return None

    assert answer(handler) == answer(handler, mode="form") == {"action": "decline"}


@pytest.mark.parametrize(
    ("capabilities", "mode"),
    [({"elicitation": {}}, "url"), ({"elicitation": {"form": {}}}, "url"), ({"elicitation": {"url": {}}}, "form")],
)
def test_a_mode_that_was_not_declared_is_invalid_params(capabilities: JsonObject, mode: str) -> None:
    handlers = Elicitors({}, form=lambda m, s: {}, url=lambda u, m, h: True)
    asked: Any = {
        "mode": mode,
        "message": "x",
        "requestedSchema": FORM,
        "url": "https://a.example/",
        "elicitationId": "1",
    }
    with pytest.raises(InvalidParams, match="mode"):
        elicitation.elicitation_create(handlers, FakeClient(capabilities), asked)


def test_a_nested_form_is_invalid_params() -> None:
    with pytest.raises(InvalidParams, match=r"params\.requestedSchema\.properties\.x"):
        answer(lambda m, s: {}, {"type": "object", "properties": {"x": {"type": "object"}}})


def test_forms_answer_where_there_are_no_modes() -> None:
    client = FakeClient({"elicitation": {}}, FORMS_ONLY)
    assert answer(lambda m, s: None, FORM, client) == {"action": "decline"}


# -- what is declared


def test_capability_names_the_modes_and_there_is_one_at_least() -> None:
    assert elicitation.capability(form=True, url=True) == {"form": {}, "url": {}}
    assert elicitation.capability(form=False, url=True) == {"url": {}}
    with pytest.raises(ValueError, match="mode"):
        elicitation.capability(form=False, url=False)


def test_rows_say_since_when_and_until_when() -> None:
    rows = {row.name: row for row in elicitation.METHODS}
    create, complete = rows["elicitation/create"], rows["notifications/elicitation/complete"]
    assert not create.exists_in(OLDEST) and create.exists_in(FORMS_ONLY)
    assert not complete.exists_in(FORMS_ONLY) and complete.needs == "client.elicitation.url"


def test_a_flood_of_questions_is_refused_without_any_setting() -> None:
    answers = Answers(None, None, lambda message, schema: None, None, None)
    rate = DEFAULT_RATES["elicitation/create"]
    question = Incoming(1, "elicitation/create", {"message": "Who?", "requestedSchema": FORM}, Reply())
    # No time passes, in which some of the places would come back.
    answers._limits._clock = lambda: 0.0
    for _ in range(rate.burst):
        answers(FakeClient(BOTH), question)  # type: ignore[arg-type]
    with pytest.raises(RateLimited, match="Too many"):
        answers(FakeClient(BOTH), question)  # type: ignore[arg-type]
