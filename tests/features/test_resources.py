"""server/resources by every way: who is told of a change, and when."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

from mcp_ref import Server, text
from tests.features.conftest import Connect, alive, hearing, newest
from tests.support.wire import PATIENCE


def library() -> Server:
    """A server with a resource and a template."""
    server = Server("s")
    server.resource("config://app", mime_type="application/json")(lambda: "{}")

    @server.resource("notes://{name}")
    def note(name: str) -> str:
        return f"note {name}"

    return server


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


@newest
def test_a_handler_may_announce_what_it_changed_while_its_call_runs(connect: Connect) -> None:
    server, heard = library(), SimpleQueue[Any]()

    @server.tool()
    def write() -> str:
        server.resource_updated("notes://one")
        return f"written {heard.get(timeout=PATIENCE)}"

    client = connect(server, on_change=lambda method, params: heard.put(params["uri"]))
    with hearing(client, resources=["notes://one"]):
        assert client.call_tool("write")["content"] == [text("written notes://one")]
