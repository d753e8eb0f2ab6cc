"""server/utilities/completion, between a Client and a Server, in every revision."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, RemoteProtocolError, Server
from mcp_ref.pages.server.utilities.completion import prompt_ref, resource_ref
from mcp_ref.revisions import REVISIONS
from tests.eras import open_client, open_server
from tests.support.wire import Background

CONTEXT = {"2025-06-18", "2025-11-25", "2026-07-28"}
TEMPLATE = "weather://{country}/{city}"
CITY: Any = {"prompt": "plan", "argument": "city"}

every_revision = pytest.mark.parametrize("name", REVISIONS)


@pytest.fixture
def server() -> Server:
    """A server with a prompt and a template."""
    server = Server("s")

    @server.prompt()
    def plan(city: str, country: str = "", other: str = "") -> str:
        return city + country + other

    @server.resource(TEMPLATE)
    def now(country: str, city: str) -> str:
        return country + city

    return server


def completed(
    server: Server, value: str = "", ref: Any = None, argument: str = "city", name: str = "", **more: Any
) -> Any:
    """Return what is suggested for that value."""
    with Client(server, **({"revision": name} if name else {})) as client:
        return client.complete(ref or prompt_ref("plan"), argument, value, **more)["completion"]


@every_revision
def test_suggestions_come_for_a_prompt_and_know_the_other_arguments_where_the_revision_has_them(
    server: Server, name: str
) -> None:
    @server.completion(**CITY)
    def cities(value: str, arguments: dict[str, str], ctx: Context) -> list[str]:
        return [f"{value}-{json.dumps(arguments)}-{ctx.revision}"]

    known = {"country": "PT"}
    answer = completed(server, "Li", name=name, arguments=known)
    assert answer["values"] == [f"Li-{json.dumps(known if name in CONTEXT else {})}-{name}"]
    assert completed(server, "Li", name=name) == {"values": [f"Li-{{}}-{name}"], "total": 1, "hasMore": False}


def test_in_2024_11_05_completion_needs_no_capability(server: Server) -> None:
    assert completed(server, name="2024-11-05")["values"] == []


def test_fixed_values_are_suggested_by_their_beginning_in_any_case(server: Server) -> None:
    server.completion_values(["Lisbon", "lima", "Oslo"], resource=TEMPLATE, argument="city")
    assert completed(server, "LI", resource_ref(TEMPLATE))["values"] == ["Lisbon", "lima"]
    assert completed(server, "", resource_ref(TEMPLATE))["values"] == ["Lisbon", "lima", "Oslo"]


@every_revision
@pytest.mark.parametrize(
    ("ref", "argument", "message"),
    [
        (prompt_ref("other"), "city", "Unknown prompt: other"),
        (prompt_ref("plan"), "town", "Unknown argument: town"),
        (resource_ref("x://{a}"), "a", "Unknown resource: x://{a}"),
        (resource_ref(TEMPLATE), "town", "Unknown argument: town"),
    ],
)
def test_what_cannot_be_completed_is_32602(server: Server, name: str, ref: Any, argument: str, message: str) -> None:
    server.completion(prompt="other", argument="city")(lambda value: ["what belongs to no prompt"])
    with pytest.raises(ErrorResponse, match=message) as refused:
        completed(server, "", ref, argument, name)
    assert refused.value.code == -32602


@every_revision
@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"argument": {"name": "city"}}, "params.argument.value"),
        ({"argument": {"name": "city", "value": 1}}, "params.argument.value"),
        ({"argument": None}, "params.argument"),
        ({"ref": {"type": "ref/tool", "name": "plan"}}, "params.ref"),
        ({"ref": {"type": "ref/prompt"}}, "params.ref.name"),
        ({"ref": ...}, "params.ref"),
        ({"argument": ...}, "params.argument"),
    ],
)
def test_params_that_do_not_fit_are_32602_naming_the_path(server: Server, name: str, change: Any, path: str) -> None:
    server.completion(**CITY)(lambda value: [])
    whole = {"ref": prompt_ref("plan"), "argument": {"name": "city", "value": ""}} | change
    params = {name: value for name, value in whole.items() if value is not ...}
    with open_server(server, name) as wire:
        error = wire.request(1, "completion/complete", params)["error"]
    assert error["code"] == -32602
    assert error["data"]["path"].startswith(path)


# -- at most 100 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "sent", "rest"),
    [
        (["a"] * 100, 100, {"total": 100, "hasMore": False}),
        (["a"] * 101, 100, {"total": 101, "hasMore": True}),
        (("a", "b"), 2, {"total": 2, "hasMore": False}),
        (iter(["a"]), 1, {"total": 1, "hasMore": False}),
        (itertools.repeat("a"), 100, {"hasMore": True}),
        ({"values": ["a"], "total": 10, "hasMore": True}, 1, {"total": 10, "hasMore": True}),
        ({"values": ["a"], "total": 10}, 1, {"total": 10, "hasMore": True}),
        ({"values": ["a"] * 200, "total": 5000}, 100, {"total": 5000, "hasMore": True}),
    ],
)
def test_at_most_100_values_go_out_and_the_rest_is_told(server: Server, returned: Any, sent: int, rest: Any) -> None:
    server.completion(**CITY)(lambda value: returned)
    answer = completed(server)
    assert len(answer.pop("values")) == sent
    assert answer == rest


@every_revision
def test_a_completion_that_fails_is_32603(server: Server, name: str) -> None:
    answers = iter(["Lisbon", [1], {"values": "Lisbon"}, None])
    server.completion(**CITY)(lambda value: next(answers))
    # The last of them finds no answer left, and raises.
    for _ in range(5):
        with pytest.raises(ErrorResponse, match="Internal error") as failed:
            completed(server, name=name)
        assert failed.value.code == -32603


# -- registering --------------------------------------------------------------------------------------------------


def no_parameter() -> list[str]: ...
def three_parameters(value: str, arguments: dict[str, str], more: str) -> list[str]: ...
def by_position(value: str, /) -> list[str]: ...
async def asynchronous(value: str) -> list[str]: ...


@pytest.mark.parametrize("function", [no_parameter, three_parameters, by_position, asynchronous])
def test_a_function_of_another_shape_is_refused_at_registration(server: Server, function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError):
        server.completion(**CITY)(function)


@pytest.mark.parametrize("both", [{}, {"prompt": "plan", "resource": TEMPLATE}])
def test_a_completion_is_for_a_prompt_or_a_resource(server: Server, both: Any) -> None:
    with pytest.raises(TypeError, match="one of prompt= and resource="):
        server.completion(argument="city", **both)


# -- the client ---------------------------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize("completion", [{"values": ["x"]}, None, {}, {"values": "x"}, {"values": ["x"] * 101}])
def test_a_client_takes_an_answer_with_only_what_is_required_and_refuses_one_that_does_not_fit(
    name: str, completion: Any
) -> None:
    with open_client(name, {"completions": {}}) as (client, wire):
        call = Background(client.complete, prompt_ref("p"), "a", "")
        request = wire.receive()
        wire.answer(request["id"], {"completion": completion})
        request["params"].pop("_meta", None)
        assert request["params"] == {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}
        if completion == {"values": ["x"]}:
            assert call.outcome() == {"completion": completion}
        else:
            assert isinstance(call.outcome(), RemoteProtocolError)
