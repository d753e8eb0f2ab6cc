from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_ref.errors import InvalidParams
from mcp_ref.machinery.checking import SchemaMismatch, checker
from mcp_ref.machinery.projection import projector
from mcp_ref.machinery.publishing import json_schema
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import REVISIONS
from mcp_ref.server.prompts import prompt
from mcp_ref.server.resources import resource
from mcp_ref.server.utilities.completion import (
    METHODS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    complete,
    completion,
    completion_complete,
    completion_values,
    prompt_ref,
    resource_ref,
)
from tests.server.fakes import Ctx, FakeCaller, FakeContext, FakeServer


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


def test_a_handler_suggests_for_an_argument_of_a_prompt(server: FakeServer) -> None:
    @completion(server, prompt="plan", argument="city")
    def cities(value: str) -> list[str]:
        return [value + "sbon", value + "ma"]

    assert ask(server, prompt_ref("plan"), "city", "Li") == {"values": ["Lisbon", "Lima"], "total": 2, "hasMore": False}


def test_a_handler_suggests_for_a_variable_of_a_template(server: FakeServer) -> None:
    completion(server, resource="weather://{city}/now", argument="city")(lambda value: [value.upper()])
    assert ask(server, resource_ref("weather://{city}/now"), "city", "a")["values"] == ["A"]


def test_a_handler_with_a_second_parameter_gets_the_arguments_that_are_known(server: FakeServer) -> None:
    @completion(server, prompt="plan", argument="city")
    def cities(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{value} {arguments}"]

    assert ask(server, prompt_ref("plan"), "city", "x", {"arguments": {"country": "PT"}})["values"] == [
        "x {'country': 'PT'}"
    ]
    assert ask(server, prompt_ref("plan"), "city", "x", {})["values"] == ["x {}"]
    assert ask(server, prompt_ref("plan"), "city", "x")["values"] == ["x {}"]


def test_a_handler_with_a_parameter_for_the_context_receives_it(server: FakeServer) -> None:
    @completion(server, prompt="plan", argument="city")
    def cities(ctx: Ctx, value: str, known: dict[str, str]) -> list[str]:
        return [type(ctx).__name__, value]

    assert ask(server, prompt_ref("plan"), "city", "x")["values"] == ["FakeContext", "x"]


def test_fixed_values_are_suggested_by_their_beginning_in_any_case(server: FakeServer) -> None:
    completion_values(server, ["Lisbon", "lima", "Oslo"], prompt="plan", argument="city")
    assert ask(server, prompt_ref("plan"), "city", "LI")["values"] == ["Lisbon", "lima"]
    assert ask(server, prompt_ref("plan"), "city")["values"] == ["Lisbon", "lima", "Oslo"]


def test_an_argument_without_a_handler_has_no_suggestions(server: FakeServer) -> None:
    assert ask(server, prompt_ref("plan"), "city") == {"values": [], "total": 0, "hasMore": False}


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        (prompt_ref("other"), "city"),
        (prompt_ref("plan"), "other"),
        (prompt_ref("plan"), ""),
        (resource_ref("weather://{town}/now"), "town"),
        (resource_ref("weather://{city}/now"), "town"),
        (resource_ref("weather://all"), "city"),
        (resource_ref("plan"), "city"),
    ],
)
def test_what_does_not_exist_is_32602(server: FakeServer, ref: Any, name: str) -> None:
    with pytest.raises(InvalidParams, match="Unknown") as refused:
        ask(server, ref, name)
    assert refused.value.code == -32602


def test_a_reference_of_another_type_is_refused_by_the_check_of_the_params() -> None:
    check = checker(CompleteRequestParams, REVISIONS["2025-11-25"])
    check({"ref": prompt_ref("p"), "argument": {"name": "a", "value": ""}})
    with pytest.raises(SchemaMismatch):
        check({"ref": {"type": "ref/tool", "name": "p"}, "argument": {"name": "a", "value": ""}})
    with pytest.raises(SchemaMismatch):
        check({"ref": prompt_ref("p"), "argument": {"name": "a", "value": 1}})


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


def test_a_client_refuses_more_than_100_values() -> None:
    check = checker(CompleteResult, REVISIONS["2024-11-05"])
    check({"completion": {"values": ["a"] * 100}})
    with pytest.raises(SchemaMismatch):
        check({"completion": {"values": ["a"] * 101}})


# -- registering --------------------------------------------------------------------------------------------------


def no_parameter() -> list[str]:
    return []


def three_parameters(value: str, arguments: dict[str, str], more: str) -> list[str]:
    return []


def by_position(value: str, /) -> list[str]:
    return []


async def asynchronous(value: str) -> list[str]:
    return []


@pytest.mark.parametrize("function", [no_parameter, three_parameters, by_position, asynchronous])
def test_a_function_of_another_shape_is_refused_at_registration(
    server: FakeServer, function: Callable[..., Any]
) -> None:
    with pytest.raises(TypeError):
        completion(server, prompt="plan", argument="city")(function)


def test_annotations_that_exist_for_type_checkers_alone_are_refused_with_the_reason(server: FakeServer) -> None:
    def cities(value: str, known: Missing) -> list[str]:  # type: ignore[name-defined]  # noqa: F821
        return []

    with pytest.raises(TypeError, match=r"cities: a type hint cannot be resolved: .*'Missing'"):
        completion(server, prompt="plan", argument="city")(cities)


def test_a_completion_is_for_a_prompt_or_a_resource_and_registered_once(server: FakeServer) -> None:
    with pytest.raises(TypeError, match="one of prompt= and resource="):
        completion(server, argument="city")
    with pytest.raises(TypeError, match="one of prompt= and resource="):
        completion(server, argument="city", prompt="plan", resource="weather://{city}/now")
    completion_values(server, [], prompt="plan", argument="city")
    with pytest.raises(ValueError, match="taken"):
        completion_values(server, [], prompt="plan", argument="city")


# -- the client's half, and the rows ------------------------------------------------------------------------------


def test_the_client_sends_reference_argument_and_context() -> None:
    result = {"completion": {"values": ["Lisbon"]}}
    caller = FakeCaller(result, result)
    assert complete(caller, prompt_ref("plan"), "city", "Li", arguments={"country": "PT"}) == result
    complete(caller, resource_ref("w://{city}"), "city", "", timeout=2)
    assert caller.asked == [
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "plan"},
                "argument": {"name": "city", "value": "Li"},
                "context": {"arguments": {"country": "PT"}},
            },
            {},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "w://{city}"}, "argument": {"name": "city", "value": ""}},
            {"timeout": 2},
        ),
    ]


def test_the_context_is_left_out_before_2025_06_18() -> None:
    params = {"ref": prompt_ref("p"), "argument": {"name": "a", "value": ""}, "context": {"arguments": {}}}
    project = projector(CompleteRequestParams, REVISIONS["2025-03-26"])
    assert project is not None
    assert "context" not in project(dict(params))
    project = projector(CompleteRequestParams, REVISIONS["2025-06-18"])
    assert "context" in (project(dict(params)) if project else params)


def test_the_capability_is_needed_from_2025_03_26_on() -> None:
    needed = {name: METHODS[0].capability(row) for name, row in REVISIONS.items()}
    assert needed.pop("2024-11-05") is None
    assert set(needed.values()) == {"server.completions"}


def test_the_reference_to_a_template_had_another_name_up_to_2025_03_26() -> None:
    assert "ResourceReference" in str(json_schema(CompleteRequestParams, REVISIONS["2025-03-26"]))
    assert "ResourceTemplateReference" in str(json_schema(CompleteRequestParams, REVISIONS["2025-06-18"]))
