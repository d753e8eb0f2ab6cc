"""server/prompts, from a Client to a Server and back, in every revision."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, Server, audio, image
from mcp_ref.pages.server.prompts import assistant, user
from mcp_ref.revisions import REVISIONS
from tests.eras import open_server, plain
from tests.support.wire import opened

AUDIO = set(REVISIONS) - {"2024-11-05"}
TITLES = LINKS = AUDIO - {"2025-03-26"}
ICONS = TITLES - {"2025-06-18"}

LINK: Any = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "mimeType": "text/plain"}
TEXT_INSIDE: Any = {"type": "resource", "resource": {"uri": "x://a", "mimeType": "text/plain", "text": "t"}}
BLOB_INSIDE: Any = {"type": "resource", "resource": {"uri": "x://b", "mimeType": "image/png", "blob": "AP8="}}

every_revision = pytest.mark.parametrize("name", REVISIONS)


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.prompt(title="Plan a trip", icons=[{"src": "https://example.com/i.png"}], meta={"k": 1})
    def plan_trip(city: Annotated[str, "where to"], days: int = 3) -> str:
        """Plan a trip to a city."""
        return f"Plan {days} days in {city}."

    @server.prompt(arguments=[{"name": "who", "title": "Who", "required": True}, {"name": "from"}])
    def everything(ctx: Context, **arguments: str) -> Any:
        noted: Any = {"type": "text", "text": "noted", "annotations": {"priority": 1, "lastModified": "2025-01-12"}}
        noted["_meta"] = {"k": 1}
        return [
            f"{arguments} {ctx.revision}",
            assistant(image(b"\x00\xff", "image/png")),
            audio(b"\x00", "audio/wav"),
            user(TEXT_INSIDE),
            BLOB_INSIDE,
            LINK,
            noted,
            {"type": "x-scent", "data": {"of": "rain"}},
        ]

    return server


def got(returned: Any) -> Any:
    """Return what a client gets of a prompt that returns that."""
    server = Server("s")
    server.prompt("p", description="d")(lambda: returned)
    with Client(server, revision="2025-11-25") as client:
        return client.get_prompt("p")


@every_revision
def test_a_prompt_is_listed_with_what_the_revision_knows(server: Server, name: str) -> None:
    city = {"name": "city", "description": "where to", "required": True}
    expected: Any = {
        "name": "plan_trip",
        "description": "Plan a trip to a city.",
        "arguments": [city, {"name": "days", "required": False}],
    }
    if name in TITLES:
        expected |= {"title": "Plan a trip", "_meta": {"k": 1}}
    if name in ICONS:
        expected["icons"] = [{"src": "https://example.com/i.png"}]
    who: Any = {"name": "who", "required": True} | ({"title": "Who"} if name in TITLES else {})
    with Client(server, revision=name) as client:
        assert client.list_prompts() == [expected, {"name": "everything", "arguments": [who, {"name": "from"}]}]
        assert client.list_prompts_page()["prompts"] == client.list_prompts()
        assert client.server_capabilities["prompts"] == {"listChanged": True}


@every_revision
def test_a_prompt_is_written_with_its_arguments(server: Server, name: str) -> None:
    with Client(server, revision=name) as client:
        result = client.get_prompt("plan_trip", {"city": "Lisbon", "days": "2"})
        shorter = client.get_prompt("plan_trip", {"city": "Oslo"})
    assert plain(result) == {"description": "Plan a trip to a city.", "messages": [user("Plan 2 days in Lisbon.")]}
    assert shorter["messages"] == [user("Plan 3 days in Oslo.")]


@every_revision
def test_every_kind_of_content_is_carried_or_told_as_text(server: Server, name: str) -> None:
    with Client(server, revision=name) as client:
        messages: Any = client.get_prompt("everything", {"who": "me", "from": "2"})["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", *["user"] * 6]
    text, picture, sound, inside, blob, link, noted, new = (message["content"] for message in messages)
    assert text == {"type": "text", "text": f"{ {'who': 'me', 'from': '2'} } {name}"}
    assert picture == {"type": "image", "data": "AP8=", "mimeType": "image/png"}
    assert (inside, blob) == (TEXT_INSIDE, BLOB_INSIDE)
    if name in AUDIO:
        assert sound == {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
    else:
        assert sound["type"] == "text" and "audio/wav" in sound["text"]
    if name in LINKS:
        assert link == LINK
    else:
        assert link == {"type": "text", "text": "[resource link: a.txt <file:///a.txt>]"}
    newer = name in TITLES
    assert noted["annotations"] == {"priority": 1} | ({"lastModified": "2025-01-12"} if newer else {})
    assert ("_meta" in noted) == newer
    assert new == {"type": "x-scent", "data": {"of": "rain"}}, "a kind that no revision knows is left to the client"


PICTURE = image(b"x", "image/png")


@pytest.mark.parametrize(
    ("returned", "messages"),
    [
        (PICTURE, [user(PICTURE)]),
        (assistant("hi"), [{"role": "assistant", "content": {"type": "text", "text": "hi"}}]),
        ({"role": "assistant", "content": "hi"}, [assistant("hi")]),
        (["a", PICTURE, assistant(PICTURE)], [user("a"), user(PICTURE), assistant(PICTURE)]),
        ([], []),
    ],
)
def test_what_a_handler_returns_becomes_messages(returned: Any, messages: Any) -> None:
    assert got(returned) == {"description": "d", "messages": messages}
    # It may also be the whole result.
    whole = {"messages": returned if isinstance(returned, list) else [returned], "description": "o", "_meta": {"k": 1}}
    assert got(whole) == {**whole, "messages": messages}


# -- what is refused ----------------------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize(
    ("prompt", "arguments", "message"),
    [
        ("other", {}, "Unknown prompt: other"),
        ("plan_trip", {}, "Missing required argument: city"),
        ("plan_trip", None, "Missing required argument: city"),
        ("plan_trip", {"city": "a", "town": "b"}, "Unknown argument: town"),
        ("plan_trip", {"city": "a", "days": "many"}, "'days'"),
        ("everything", {"from": "2"}, "Missing required argument: who"),
        ("everything", {"who": "me", "b": "2"}, "Unknown argument: b"),
    ],
)
def test_what_does_not_fit_is_32602(server: Server, name: str, prompt: str, arguments: Any, message: str) -> None:
    with Client(server, revision=name) as client:
        with pytest.raises(ErrorResponse, match=message) as refused:
            client.get_prompt(prompt, arguments)
    assert refused.value.code == -32602


@every_revision
def test_arguments_that_are_not_strings_are_32602_naming_the_path(server: Server, name: str) -> None:
    with open_server(server, name) as wire:
        error = wire.request(1, "prompts/get", {"name": "plan_trip", "arguments": {"city": 1}})["error"]
        assert (error["code"], error["data"]) == (-32602, {"path": "params.arguments.city"})
        error = wire.request(2, "prompts/get", {"arguments": {}})["error"]
        assert (error["code"], error["data"]) == (-32602, {"path": "params.name"})


WRONG: list[Any] = [
    None,
    {"role": "system", "content": "x"},
    {"role": "user", "content": ["x"]},
    {"type": "image", "mimeType": "image/png"},
    {"type": "image", "data": "AA=="},
    {"type": "image", "data": "not base64", "mimeType": "image/png"},
    {"type": "image", "data": "AA==", "mimeType": "png"},
    {"type": "audio", "data": "A", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"mimeType": "text/plain", "text": "no uri"}},
    {"type": "resource", "resource": {"uri": "x://a"}},
    {"type": "resource", "resource": {"uri": "", "text": "t"}},
    {"type": "resource", "resource": {"uri": "a.txt", "text": "t"}},
    {"type": "resource", "resource": {"uri": "x://a b", "text": "t"}},
    {"type": "resource", "resource": {"uri": "x://[a", "blob": "AA=="}},
    {"type": "resource", "resource": {"uri": "x://a", "blob": "not base64"}},
    {"type": "text"},
    {"messages": [{"role": "user", "content": {"type": "text", "text": 1}}]},
    {"messages": ["a"], "description": 1},
]


@pytest.mark.parametrize("returned", WRONG, ids=str)
def test_what_a_handler_must_not_say_is_32603_and_does_not_go_out(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    server.prompt("wrong")(lambda: returned)
    with opened(server, "2025-11-25") as wire:
        error = wire.request(1, "prompts/get", {"name": "wrong"})["error"]
    assert error == {"code": -32603, "message": "Internal error"}
    # The author finds the reason in the log.
    assert ("a prompt must return" if returned is None else "prompts/get") in caplog.text


def test_a_function_that_cannot_take_the_listed_arguments_is_refused_when_registering(server: Server) -> None:
    a: Any = {"name": "a", "required": True}
    refusals: list[tuple[Any, str]] = [
        ([], "needs a default"), ([{"name": "a"}], "needs a default"), ([a, {"name": "b"}], "no parameter for b"),
        ([a, a], "same name"),
    ]  # fmt: skip
    for arguments, why in refusals:
        with pytest.raises(TypeError, match=why):
            server.prompt("p", arguments=arguments)(lambda a: a)
    with pytest.raises(TypeError, match="listed"):
        server.prompt("p")(lambda **arguments: "")
