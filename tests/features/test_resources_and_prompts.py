"""server/resources, server/prompts, server/utilities/completion and pagination by every way."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import ErrorResponse, Server, image, text
from mcp_ref.server.prompts import assistant, user
from mcp_ref.server.resources import ResourceNotFound, contents_bytes
from mcp_ref.server.utilities.completion import prompt_ref, resource_ref
from tests.features.conftest import Connect, alive, hearing
from tests.wire import PATIENCE


def library() -> Server:
    """A server with a resource, a template, a prompt and completions."""
    server = Server("s")
    server.resource("config://app", mime_type="application/json")(lambda: "{}")

    @server.resource("notes://{name}")
    def note(name: str) -> Any:
        if name == "lost":
            raise ResourceNotFound(f"notes://{name}")
        return b"\x00\xff" if name == "bytes" else f"note {name}"

    @server.prompt(description="A trip.")
    def trip(city: str, days: str = "3") -> list[Any]:
        return [user(f"{days} days in {city}"), assistant("Gladly."), user(image(b"\x89", "image/png"))]

    server.completion_values(["Lisbon", "Linz", "Oslo"], prompt="trip", argument="city")
    server.completion_values(["one", "other", "two"], resource="notes://{name}", argument="name")
    return server


# -- resources ----------------------------------------------------------------------------------------------------


def test_resources_and_templates_are_listed_and_read(connect: Connect) -> None:
    client = connect(library())
    assert [resource["uri"] for resource in client.list_resources()] == ["config://app"]
    assert [template["uriTemplate"] for template in client.list_resource_templates()] == ["notes://{name}"]
    assert client.read_resource("config://app")["contents"] == [
        {"uri": "config://app", "mimeType": "application/json", "text": "{}"}
    ]
    [words] = client.read_resource("notes://one")["contents"]
    [data] = client.read_resource("notes://bytes")["contents"]
    assert (words["text"], contents_bytes(data)) == ("note one", b"\x00\xff")  # type: ignore[typeddict-item]


@pytest.mark.parametrize("uri", ["notes://lost", "nothing://here"])
def test_a_resource_that_does_not_exist_is_an_error(connect: Connect, uri: str) -> None:
    with pytest.raises(ErrorResponse) as missing:
        connect(library()).read_resource(uri)
    assert (missing.value.code, missing.value.data) == (connect.revision.resource_not_found, {"uri": uri})


def test_only_who_subscribed_hears_that_a_resource_was_updated(connect: Connect) -> None:
    server, heard, other = library(), SimpleQueue[Any](), SimpleQueue[Any]()
    client = connect(server, on_change=lambda method, params: heard.put((method, params.get("uri"))))
    # Only who is known to be there is told.
    bystander = connect(server, on_change=lambda method, params: other.put(method))
    with hearing(bystander, resource_list=True), hearing(client, resource_list=True):
        assert alive(bystander)
        with hearing(client, resources=["notes://one"]):
            server.resource_updated("notes://two")
            server.resource_updated("notes://one")
            assert heard.get(timeout=PATIENCE) == ("notifications/resources/updated", "notes://one")
        server.resource_updated("notes://one")
        server.remove_resource("config://app")
        assert heard.get(timeout=PATIENCE)[0] == "notifications/resources/list_changed"
        assert other.get(timeout=PATIENCE) == "notifications/resources/list_changed"
        assert client.list_resources() == []


def test_a_handler_may_announce_what_it_changed_while_its_call_runs(connect: Connect) -> None:
    server, heard = library(), SimpleQueue[Any]()

    @server.tool()
    def write() -> str:
        server.resource_updated("notes://one")
        return f"written {heard.get(timeout=PATIENCE)}"

    client = connect(server, on_change=lambda method, params: heard.put(params["uri"]))
    with hearing(client, resources=["notes://one"]):
        assert client.call_tool("write")["content"] == [text("written notes://one")]


# -- prompts ------------------------------------------------------------------------------------------------------


def test_prompts_are_listed_and_filled_in(connect: Connect) -> None:
    client = connect(library())
    [prompt] = client.list_prompts()
    assert [(each["name"], each.get("required")) for each in prompt["arguments"]] == [("city", True), ("days", False)]
    result = client.get_prompt("trip", {"city": "Lisbon"})
    assert result["description"] == "A trip."
    assert result["messages"] == [
        {"role": "user", "content": text("3 days in Lisbon")},
        {"role": "assistant", "content": text("Gladly.")},
        {"role": "user", "content": image(b"\x89", "image/png")},
    ]
    with pytest.raises(ErrorResponse, match="city") as missing:
        client.get_prompt("trip")
    assert missing.value.code == -32602


def test_the_server_tells_that_its_prompts_have_changed(connect: Connect) -> None:
    server, heard = library(), SimpleQueue[Any]()
    client = connect(server, on_change=lambda method, params: heard.put(method))
    with hearing(client, prompts=True):
        assert len(client.list_prompts()) == 1
        server.remove_prompt("trip")
        assert heard.get(timeout=PATIENCE) == "notifications/prompts/list_changed"
        assert client.list_prompts() == []


# -- utilities ----------------------------------------------------------------------------------------------------


def test_arguments_are_completed(connect: Connect) -> None:
    client = connect(library())
    cities = client.complete(prompt_ref("trip"), "city", "Li")["completion"]
    assert cities == {"values": ["Lisbon", "Linz"], "total": 2, "hasMore": False}
    names = client.complete(resource_ref("notes://{name}"), "name", "o")["completion"]
    assert names["values"] == ["one", "other"]


def test_long_lists_come_in_pages(connect: Connect) -> None:
    server = Server("s", page_size=4)
    for number in range(10):
        server.tool(f"t{number}")(lambda: "t")
        server.resource(f"r://{number}")(lambda: "r")
        server.resource(f"r{number}://{{x}}")(lambda x: x)
        server.prompt(f"p{number}")(lambda: "p")
    client = connect(server)
    first = client.list_tools_page()
    assert [tool["name"] for tool in first["tools"]] == ["t0", "t1", "t2", "t3"]
    assert [tool["name"] for tool in client.list_tools_page(first["nextCursor"])["tools"]][0] == "t4"
    lists = [client.list_tools(), client.list_resources(), client.list_resource_templates(), client.list_prompts()]
    assert [len(each) for each in lists] == [10] * 4
    with pytest.raises(ErrorResponse) as bad:
        client.list_tools_page("no cursor of yours")
    assert bad.value.code == -32602
