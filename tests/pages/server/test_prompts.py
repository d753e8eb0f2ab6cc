from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.errors import InvalidParams
from mcp_ref.pages.server.prompts import GetPromptResult, assistant, prompt, prompts_get, user
from mcp_ref.wire.content import image
from tests.pages.server.fakes import FakeContext, FakeServer


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def get(server: FakeServer, name: str, **arguments: str) -> GetPromptResult:
    return prompts_get(FakeContext(server), {"name": name, "arguments": arguments})


# -- listing ------------------------------------------------------------------------------------------------------


def test_arguments_can_be_listed_by_hand_and_taken_all_together(server: FakeServer) -> None:
    @prompt(server, arguments=[{"name": "a", "title": "A", "required": True}, {"name": "from"}])
    def anything(**arguments: str) -> str:
        return str(sorted(arguments.items()))

    assert get(server, "anything", a="1", **{"from": "2"})["messages"] == [user("[('a', '1'), ('from', '2')]")]
    with pytest.raises(InvalidParams, match="Missing required argument: a"):
        get(server, "anything")
    with pytest.raises(InvalidParams, match="Unknown argument: b"):
        get(server, "anything", a="1", b="2")


# -- getting ------------------------------------------------------------------------------------------------------

PICTURE = image(b"x", "image/png")


@pytest.mark.parametrize(
    ("returned", "messages"),
    [
        ("hello", [user("hello")]),
        (PICTURE, [{"role": "user", "content": PICTURE}]),
        (assistant("hi"), [{"role": "assistant", "content": {"type": "text", "text": "hi"}}]),
        ({"role": "assistant", "content": "hi"}, [assistant("hi")]),
        (["a", PICTURE, assistant(PICTURE)], [user("a"), user(PICTURE), assistant(PICTURE)]),
        ([], []),
    ],
)
def test_what_a_handler_returns_becomes_messages(server: FakeServer, returned: Any, messages: Any) -> None:
    prompt(server, "p", description="d")(lambda: returned)
    assert get(server, "p") == {"description": "d", "messages": messages}


def test_a_handler_can_return_the_whole_result(server: FakeServer) -> None:
    prompt(server, "p", description="d")(lambda: {"messages": ["a"], "description": "other", "_meta": {"k": 1}})
    assert get(server, "p") == {"messages": [user("a")], "description": "other", "_meta": {"k": 1}}


@pytest.mark.parametrize(
    "returned", [None, 3, {"role": "system", "content": "x"}, {"role": "user", "content": ["x"]}, {}]
)
def test_a_handler_that_returns_something_else_is_wrong(server: FakeServer, returned: Any) -> None:
    prompt(server, "p")(lambda: returned)
    with pytest.raises(TypeError, match="a prompt must return"):
        get(server, "p")


# -- registering --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "needs a default"),
        ([{"name": "a"}], "needs a default"),
        ([{"name": "a", "required": True}, {"name": "b"}], "no parameter for b"),
        ([{"name": "a", "required": True}, {"name": "a", "required": True}], "same name"),
    ],
)
def test_listed_arguments_that_the_function_cannot_take_are_refused(
    server: FakeServer, arguments: Any, why: str
) -> None:
    def function(a: str) -> str:
        return a

    with pytest.raises(TypeError, match=why):
        prompt(server, arguments=arguments)(function)


def test_open_ended_functions_need_a_list(server: FakeServer) -> None:
    def function(**arguments: str) -> str:
        return ""

    with pytest.raises(TypeError, match="listed"):
        prompt(server)(function)
