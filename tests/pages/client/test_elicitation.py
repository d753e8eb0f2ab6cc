from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.client.session import DEFAULT_RATES, Answers, ClientContext
from mcp_ref.errors import InvalidParams
from mcp_ref.kit.threads.deadline import RateLimited
from mcp_ref.pages.client import elicitation
from mcp_ref.pages.client.elicitation import Elicitors
from mcp_ref.wire.served import ServedRequest
from tests.pages.client.fakes import FakeClient, FakeServer
from tests.pages.server.alone import Reply

JsonObject = dict[str, Any]

SEAT = {"seat": {"type": "string", "enum": ["window", "aisle"]}}
FORM = {"type": "object", "properties": SEAT, "required": ["seat"]}
BOTH: JsonObject = {"elicitation": {"form": {}, "url": {}}}


def answer(handler: Any, form: JsonObject = FORM, client: FakeClient | None = None, **params: Any) -> Any:
    asked: Any = {"message": "Which seat?", "requestedSchema": form, **params}
    return elicitation.elicitation_create(Elicitors({}, form=handler), client or FakeClient(BOTH), asked)


# -- the server asks


def test_accepting_a_form_without_values_counts_where_none_is_required() -> None:
    server = FakeServer({"action": "accept"}, BOTH)
    assert elicitation.elicit(server, "Sure?", {}) == {"action": "accept", "content": {}}


def test_values_of_a_refused_form_are_not_handed_on() -> None:
    server = FakeServer({"action": "decline", "content": {"seat": "aisle"}}, BOTH)
    assert elicitation.elicit(server, "Which seat?", SEAT) == {"action": "decline"}


# -- the client answers


def test_the_handler_may_ask_which_server_it_is() -> None:
    def handler(message: str, schema: JsonObject, ctx: ClientContext) -> JsonObject:
        return {"who": ctx.server_info["name"]}

    form = {"type": "object", "properties": {"who": {"type": "string"}}}
    assert answer(handler, form)["content"] == {"who": "asker"}


def test_a_field_may_be_named_action() -> None:
    form = {"type": "object", "properties": {"action": {"type": "string"}}}
    assert answer(lambda m, s: {"action": "cancel"}, form) == {"action": "accept", "content": {"action": "cancel"}}
    assert answer(lambda m, s: elicitation.accept({"action": "x"}), form)["content"] == {"action": "x"}


def test_a_request_without_a_mode_is_a_form() -> None:
    def handler(message: str, schema: JsonObject) -> None:
        return None

    assert answer(handler) == answer(handler, mode="form") == {"action": "decline"}


def test_a_nested_form_is_invalid_params() -> None:
    with pytest.raises(InvalidParams, match=r"params\.requestedSchema\.properties\.x"):
        answer(lambda m, s: {}, {"type": "object", "properties": {"x": {"type": "object"}}})


# -- how often


def test_a_flood_of_questions_is_refused_without_any_setting() -> None:
    answers = Answers(None, None, lambda message, schema: None, None, None)
    rate = DEFAULT_RATES["elicitation/create"]
    question = ServedRequest(1, "elicitation/create", {"message": "Who?", "requestedSchema": FORM}, Reply())
    now = [0.0]
    answers._limits._clock = lambda: now[0]
    for number in (rate.burst, rate.per_second):
        for _ in range(int(number)):
            answers(FakeClient(BOTH), question)  # type: ignore[arg-type]
        with pytest.raises(RateLimited, match="Too many"):
            answers(FakeClient(BOTH), question)  # type: ignore[arg-type]
        now[0] += 1
