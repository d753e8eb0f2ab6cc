from __future__ import annotations

import functools
from typing import Annotated, Any

import pytest

from mcp_ref.content import image
from mcp_ref.errors import InvalidParams, Refusal
from mcp_ref.machinery.checking import SchemaMismatch, checker
from mcp_ref.machinery.projection import projector
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import REVISIONS
from mcp_ref.server.prompts import (
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    assistant,
    get_prompt,
    list_prompts,
    list_prompts_page,
    prompt,
    prompts_get,
    prompts_list,
    remove_prompt,
    user,
)
from tests.server.fakes import Ctx, FakeCaller, FakeContext, FakeServer


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def get(server: FakeServer, name: str, **arguments: str) -> GetPromptResult:
    return prompts_get(FakeContext(server), {"name": name, "arguments": arguments})


# -- listing ------------------------------------------------------------------------------------------------------


def test_a_prompt_is_listed_with_what_its_function_says(server: FakeServer) -> None:
    @prompt(server)
    def plan_trip(city: Annotated[str, "Where to"], ctx: Ctx, days: int = 3) -> str:
        """Plan a trip.

        Args:
            days: How long
        """
        return ""

    assert prompts_list(FakeContext(server), {}) == {
        "prompts": [
            {
                "name": "plan_trip",
                "description": "Plan a trip.",
                "arguments": [
                    {"name": "city", "required": True, "description": "Where to"},
                    {"name": "days", "required": False, "description": "How long"},
                ],
            }
        ]
    }


def test_what_the_decorator_is_told_wins(server: FakeServer) -> None:
    icons: Any = [{"src": "https://example.com/i.png"}]

    @prompt(server, "review", title="Review", description="d", icons=icons, meta={"k": 1})
    def function() -> str:
        """Not this."""
        return ""

    assert prompts_list(FakeContext(server), {})["prompts"] == [
        {"name": "review", "title": "Review", "description": "d", "icons": icons, "_meta": {"k": 1}}
    ]


def test_arguments_can_be_listed_by_hand_and_taken_all_together(server: FakeServer) -> None:
    @prompt(server, arguments=[{"name": "a", "title": "A", "required": True}, {"name": "from"}])
    def anything(**arguments: str) -> str:
        return str(sorted(arguments.items()))

    assert get(server, "anything", a="1", **{"from": "2"})["messages"] == [user("[('a', '1'), ('from', '2')]")]
    with pytest.raises(InvalidParams, match="Missing required argument: a"):
        get(server, "anything")
    with pytest.raises(InvalidParams, match="Unknown argument: b"):
        get(server, "anything", a="1", b="2")


def test_titles_icons_and_meta_are_left_out_where_the_revision_does_not_have_them() -> None:
    full: JsonObject = {
        "prompts": [
            {
                "name": "p",
                "title": "P",
                "arguments": [{"name": "a", "title": "A"}],
                "icons": [{"src": "https://example.com/i.png"}],
                "_meta": {"k": 1},
            }
        ]
    }

    def keys(revision: str) -> set[str]:
        project = projector(ListPromptsResult, REVISIONS[revision])
        listed = (project(full) if project else full)["prompts"][0]
        assert ("title" in listed) == ("title" in listed["arguments"][0])
        return set(listed)

    assert keys("2025-03-26") == {"name", "arguments"}
    assert keys("2025-06-18") == {"name", "arguments", "title", "_meta"}
    assert keys("2025-11-25") == {"name", "arguments", "title", "_meta", "icons"}


def test_prompts_are_listed_page_by_page_in_order_of_registration(server: FakeServer) -> None:
    for name in "cab":
        prompt(server, name)(lambda: "")
    ctx = FakeContext(server)
    ctx.server.page_size = 2
    first = prompts_list(ctx, {})
    second = prompts_list(ctx, {"cursor": first["nextCursor"]})
    assert [each["name"] for each in first["prompts"] + second["prompts"]] == ["c", "a", "b"]
    assert "nextCursor" not in second
    with pytest.raises(InvalidParams, match="Invalid cursor"):
        prompts_list(ctx, {"cursor": "page2"})


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
    with pytest.raises(TypeError, match="a prompt returns"):
        get(server, "p")


def test_arguments_are_converted_and_defaults_stand_in(server: FakeServer) -> None:
    @prompt(server)
    def plan(city: str, ctx: Ctx, days: int = 3) -> str:
        return f"{city} {days + 1} {type(ctx).__name__}"

    assert get(server, "plan", city="Oslo")["messages"] == [user("Oslo 4 FakeContext")]
    assert get(server, "plan", city="Oslo", days="7")["messages"] == [user("Oslo 8 FakeContext")]
    assert prompts_get(FakeContext(server), {"name": "plan", "arguments": {"city": "a"}})


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("other", {}, "Unknown prompt: other"),
        ("plan", {}, "Missing required argument: city"),
        ("plan", {"city": "a", "town": "b"}, "Unknown argument: town"),
        ("plan", {"city": "a", "ctx": "b"}, "Unknown argument: ctx"),
        ("plan", {"city": "a", "days": "many"}, "argument 'days': \"many\" is not an integer"),
    ],
)
def test_what_does_not_fit_is_32602_and_named(
    server: FakeServer, name: str, arguments: dict[str, str], text: str
) -> None:
    @prompt(server)
    def plan(city: str, ctx: Ctx, days: int = 3) -> str:
        raise AssertionError("not to be called")

    with pytest.raises(InvalidParams, match=text) as refused:
        get(server, name, **arguments)
    assert refused.value.code == -32602


def test_argument_values_are_strings_only() -> None:
    check = checker(GetPromptRequestParams, REVISIONS["2024-11-05"])
    check({"name": "p", "arguments": {"a": "1"}})
    with pytest.raises(SchemaMismatch):
        check({"name": "p", "arguments": {"a": 1}})


def test_what_a_handler_raises_passes_to_the_one_place_that_answers(server: FakeServer) -> None:
    def fail(error: Exception) -> str:
        raise error

    for error in (Refusal("no", code=7), RuntimeError("broken")):
        prompt(server, str(error))(functools.partial(fail, error))
        with pytest.raises(type(error)) as raised:
            get(server, str(error))
        assert raised.value is error


# -- registering --------------------------------------------------------------------------------------------------


def test_a_name_is_taken_once_until_it_is_removed(server: FakeServer) -> None:
    prompt(server, "p")(lambda: "1")
    with pytest.raises(ValueError, match="taken"):
        prompt(server, "p")(lambda: "2")
    remove_prompt(server, "p")
    prompt(server, "p")(lambda: "3")
    with pytest.raises(KeyError):
        remove_prompt(server, "q")


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


# -- the client's half --------------------------------------------------------------------------------------------


def test_the_client_lists_and_gets() -> None:
    first: JsonObject = {"prompts": [{"name": "a"}], "nextCursor": "n"}
    second: JsonObject = {"prompts": [{"name": "b"}]}
    caller = FakeCaller(first, second, first, {"messages": []}, {"messages": []})
    assert list_prompts(caller) == [{"name": "a"}, {"name": "b"}]
    assert list_prompts_page(caller, "c") == first
    assert get_prompt(caller, "a", {"x": "1"}, timeout=5) == {"messages": []}
    get_prompt(caller, "a")
    assert caller.asked == [
        ("prompts/list", None, {}),
        ("prompts/list", {"cursor": "n"}, {}),
        ("prompts/list", {"cursor": "c"}, {}),
        ("prompts/get", {"name": "a", "arguments": {"x": "1"}}, {"timeout": 5}),
        ("prompts/get", {"name": "a"}, {}),
    ]
