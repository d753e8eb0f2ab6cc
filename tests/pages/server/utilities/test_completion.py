from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_ref.pages.server.prompts import prompt
from mcp_ref.pages.server.resources import resource
from mcp_ref.pages.server.utilities.completion import (
    Completion,
    completion,
    completion_complete,
    completion_values,
    prompt_ref,
)
from mcp_ref.wire.messages import JsonObject
from tests.pages.server.fakes import Ctx, FakeContext, FakeServer


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()

    @prompt(server)
    def plan(city: str, country: str = "") -> str:
        return city + country

    @resource(server, "weather://{city}/now")
    def now(city: str) -> str:
        return city

    @resource(server, "weather://all")
    def everything() -> str:
        return ""

    return server


def ask(server: FakeServer, ref: Any, name: str, value: str = "", context: JsonObject | None = None) -> Completion:
    params: Any = {"ref": ref, "argument": {"name": name, "value": value}}
    if context is not None:
        params["context"] = context
    return completion_complete(FakeContext(server), params)["completion"]


# -- handlers -----------------------------------------------------------------------------------------------------


def test_a_handler_with_a_parameter_for_the_context_receives_it(server: FakeServer) -> None:
    @completion(server, prompt="plan", argument="city")
    def cities(ctx: Ctx, value: str, known: dict[str, str]) -> list[str]:
        return [type(ctx).__name__, value]

    assert ask(server, prompt_ref("plan"), "city", "x")["values"] == ["FakeContext", "x"]


def test_fixed_values_are_suggested_by_their_beginning_in_any_case(server: FakeServer) -> None:
    completion_values(server, ["Lisbon", "lima", "Oslo"], prompt="plan", argument="city")
    assert ask(server, prompt_ref("plan"), "city", "LI")["values"] == ["Lisbon", "lima"]
    assert ask(server, prompt_ref("plan"), "city")["values"] == ["Lisbon", "lima", "Oslo"]


# -- at most 100 --------------------------------------------------------------------------------------------------


def endless() -> Iterator[str]:
    return (str(number) for number in itertools.count())


@pytest.mark.parametrize(
    ("returned", "sent", "rest"),
    [
        (["a"] * 100, 100, {"total": 100, "hasMore": False}),
        (["a"] * 101, 100, {"total": 101, "hasMore": True}),
        (("a", "b"), 2, {"total": 2, "hasMore": False}),
        (iter(["a"]), 1, {"total": 1, "hasMore": False}),
        (endless(), 100, {"hasMore": True}),
        ({"values": ["a"], "total": 10, "hasMore": True}, 1, {"total": 10, "hasMore": True}),
        ({"values": ["a"], "total": 10}, 1, {"total": 10, "hasMore": True}),
        ({"values": ["a"] * 200, "total": 5000}, 100, {"total": 5000, "hasMore": True}),
    ],
)
def test_at_most_100_values_go_out_and_the_rest_is_told(
    server: FakeServer, returned: Any, sent: int, rest: JsonObject
) -> None:
    completion(server, prompt="plan", argument="city")(lambda value: returned)
    answer: JsonObject = {**ask(server, prompt_ref("plan"), "city")}
    assert len(answer.pop("values")) == sent
    assert answer == rest


@pytest.mark.parametrize("returned", ["Lisbon", [1], {"values": "Lisbon"}, None])
def test_a_handler_that_does_not_return_strings_is_wrong(server: FakeServer, returned: Any) -> None:
    completion(server, prompt="plan", argument="city")(lambda value: returned)
    with pytest.raises(TypeError):
        ask(server, prompt_ref("plan"), "city")


# -- registering --------------------------------------------------------------------------------------------------


def no_parameter() -> list[str]: ...
def three_parameters(value: str, arguments: dict[str, str], more: str) -> list[str]: ...
def by_position(value: str, /) -> list[str]: ...
async def asynchronous(value: str) -> list[str]: ...


@pytest.mark.parametrize("function", [no_parameter, three_parameters, by_position, asynchronous])
def test_a_function_of_another_shape_is_refused_at_registration(
    server: FakeServer, function: Callable[..., Any]
) -> None:
    with pytest.raises(TypeError):
        completion(server, prompt="plan", argument="city")(function)


def test_a_completion_is_for_a_prompt_or_a_resource_and_registered_once(server: FakeServer) -> None:
    with pytest.raises(TypeError, match="one of prompt= and resource="):
        completion(server, argument="city")
    with pytest.raises(TypeError, match="one of prompt= and resource="):
        completion(server, argument="city", prompt="plan", resource="weather://{city}/now")
    completion_values(server, [], prompt="plan", argument="city")
    with pytest.raises(ValueError, match="taken"):
        completion_values(server, [], prompt="plan", argument="city")
