"""server/utilities/caching by every way that has it: what is kept, for how long, for whom, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref import Client, Context, Server, text
from mcp_ref.client.targets import Url
from mcp_ref.pages.client.sampling import reply
from mcp_ref.pages.server.utilities.caching import CacheHint, ResultCache
from tests.features.conftest import Connect, stateless_era
from tests.support.wire import PATIENCE

every_way = stateless_era("before, no result says how long it may be kept")

MINUTE = {
    method: CacheHint(60)
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
}


class Counting:
    """A server that says how often a resource was read, and a tool's list asked for."""

    def __init__(self, cache: Any = MINUTE) -> None:
        self.server = Server("s", cache=cache)
        self.reads = 0
        self.server.tool("hello")(lambda: "hello")

        @self.server.resource("r://{name}")
        def read(name: str) -> str:
            self.reads += 1
            return f"{name} {self.reads}"

        @self.server.resource("ask://me")
        def ask(ctx: Context) -> str:
            self.reads += 1
            return str(ctx.sample("hello", max_tokens=1)["model"])


def read(client: Client, uri: str = "r://one", **options: Any) -> str:
    return str(client.read_resource(uri, **options)["contents"][0]["text"])  # type: ignore[typeddict-item]


@every_way
def test_a_result_is_kept_as_long_as_the_server_says(connect: Connect) -> None:
    now, counting = [0.0], Counting()
    client = connect(counting.server, cache=ResultCache(clock=lambda: now[0]))
    assert [read(client), read(client), read(client, "r://two")] == ["one 1", "one 1", "two 2"]
    now[0] = 59.9
    assert read(client) == "one 1"
    now[0] = 60.1
    assert [read(client), read(client)] == ["one 3", "one 3"]


def test_the_cache_has_a_switch_for_a_client_and_one_for_a_call() -> None:
    counting = Counting()
    with Client(counting.server, cache=False) as off:
        assert [read(off), read(off)] == ["one 1", "one 2"]
    with Client(counting.server) as client:
        assert [read(client), read(client, cached=False), read(client)] == ["one 3", "one 4", "one 4"]


@every_way
def test_a_change_that_is_listened_for_ends_what_was_kept(connect: Connect) -> None:
    counting = Counting()
    client = connect(counting.server, on_change=lambda *message: None)
    with client.listen(tools=True, resources=["r://one"]) as events:
        assert (read(client), read(client, "r://two")) == ("one 1", "two 2")
        assert len(client.list_tools()) == 1
        counting.server.resource_updated("r://one")
        assert events.get(PATIENCE).params["uri"] == "r://one"
        assert (read(client), read(client, "r://two")) == ("one 3", "two 2")
        counting.server.tool("new")(lambda: "new")
        assert events.get(PATIENCE).method == "notifications/tools/list_changed"
        assert len(client.list_tools()) == 2


@every_way
def test_what_depends_on_an_answer_is_not_kept(connect: Connect) -> None:
    counting = Counting()
    models = iter(["m1", "m2", "m3"])
    client = connect(counting.server, sample=lambda params: reply("", model=next(models)))
    assert [read(client, "ask://me"), read(client, "ask://me")] == ["m1", "m2"]
    assert counting.reads == 4
    # Nor is the question, where it is answered by hand.
    for _ in range(2):
        question: Any = client.read_resource("ask://me", by_hand=True)
        assert question["resultType"] == "input_required"
    answer: Any = {"role": "assistant", "model": "by hand", "content": text("")}
    more: Any = {"input_responses": {"sampling-1": answer}, "request_state": question["requestState"]}
    assert read(client, "ask://me", by_hand=True, **more) == "by hand"
    assert read(client, "ask://me") == "m3"


def test_what_is_private_stays_with_its_client_and_what_is_public_does_not() -> None:
    hints = {"resources/read": CacheHint(60), "tools/list": CacheHint(60, "public")}
    counting, cache = Counting(hints), ResultCache()
    with counting.server.serve_http() as service:

        def of(name: str) -> Client:
            return Client(Url(service.url, headers={"Authorization": name}), cache=cache, timeout=PATIENCE)

        with of("alice") as alice, of("bob") as bob:
            assert [read(alice), read(bob), read(alice)] == ["one 1", "one 2", "one 1"]
            assert len(alice.list_tools()) == 1
            counting.server.tool("new")(lambda: "new")
            assert (len(bob.list_tools()), len(bob.list_tools(cached=False))) == (1, 2)


@pytest.mark.parametrize(("revision", "hints"), [("2025-11-25", MINUTE), ("2026-07-28", None)])
def test_nothing_is_kept_unless_the_server_says_so_as_only_the_stateless_era_can(revision: str, hints: Any) -> None:
    with Client(Counting(hints).server, revision=revision) as client:
        assert [read(client), read(client)] == ["one 1", "one 2"]
