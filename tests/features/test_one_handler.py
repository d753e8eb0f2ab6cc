"""One handler for both eras: what it asks in its body comes to the same result by every way, in all five revisions.

Where a revision has no elicitation (before 2025-06-18), the handlers ask the other questions alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_ref import Context, Server, text
from mcp_ref.pages.client.sampling import reply
from mcp_ref.pages.server.prompts import user as said_by_user
from mcp_ref.revisions import REVISIONS
from tests.features.conftest import Connect, newest
from tests.support.wire import Background

ELICITS = [name for name in REVISIONS if name >= "2025-06-18"]


def said(message: Any) -> str:
    """The text that a model has answered."""
    return str(message["content"]["text"])


def name(ctx: Context) -> str:
    """Whom a trip is for: asked where the revision can, else taken for granted."""
    if "elicitation" not in ctx.peer_capabilities:
        return "Ada"
    return str(ctx.elicit("Your name?", {"name": {"type": "string"}})["content"]["name"])


def build() -> Server:
    """A server whose handlers ask: the same ones for every revision and every transport."""
    server = Server("asking")

    @server.tool()
    def plan(city: str, ctx: Context) -> str:
        [root] = ctx.roots()
        who = name(ctx)
        return f"{root['uri']}: {said(ctx.sample(f'{city} for {who}', max_tokens=10))}"

    @server.tool()
    def tour(cities: list[str], ctx: Context) -> str:
        return ", ".join(said(ctx.sample(city, max_tokens=10)) for city in cities)

    @server.tool()
    def together(ctx: Context) -> str:
        roots, who, idea = ctx.ask_all(
            lambda: [root["uri"] for root in ctx.roots()],
            lambda: name(ctx),
            lambda: said(ctx.sample("anywhere", max_tokens=10)),
        )
        return f"{roots} {who} {idea} {said(ctx.sample(f'then {idea}', max_tokens=10))}"

    @server.prompt()
    def brief(ctx: Context) -> list[Any]:
        return [said_by_user(f"{name(ctx)} in {said(ctx.sample('where', max_tokens=10))}")]

    @server.resource("trip://all")
    def trips(ctx: Context) -> str:
        return f"{len(ctx.roots())} {said(ctx.sample('all', max_tokens=10))}"

    return server


class User:
    """A client's functions, and what they were asked."""

    def __init__(self, folder: Path, name: str = "Ada") -> None:
        self.asked: list[str] = []
        self.options: dict[str, Any] = {"roots": self.roots, "sample": self.sample, "elicit": self.elicit}
        self._folder, self._name = folder, name

    def roots(self) -> list[Path]:
        self.asked.append("roots")
        return [self._folder]

    def sample(self, params: Any) -> Any:
        said = params["messages"][0]["content"]["text"]
        self.asked.append(said)
        return reply(said.upper(), model="m")

    def elicit(self, message: str, schema: Any) -> Any:
        self.asked.append(message)
        return {"name": self._name}


def the_name(connect: Connect) -> list[str]:
    """Return what is asked for a name, in that revision."""
    return ["Your name?"] if str(connect.revision) in ELICITS else []


def test_three_questions_in_the_body_of_a_tool(connect: Connect, tmp_path: Path) -> None:
    user = User(tmp_path)
    result = connect(build(), **user.options).call_tool("plan", {"city": "Lisbon"})
    assert result["content"] == [text(f"{tmp_path.resolve().as_uri()}: LISBON FOR ADA")]
    assert not result.get("isError")
    # Each question once, in the order of the body, however many calls it takes.
    assert user.asked == ["roots", *the_name(connect), "Lisbon for Ada"]


@newest
def test_questions_that_are_asked_together(connect: Connect, tmp_path: Path) -> None:
    user, calls = User(tmp_path), list[Any]()

    def note(event: Any) -> None:
        calls.append((event.direction, (event.message or {}).get("method")))

    result = connect(build(), trace=note, **user.options).call_tool("together")
    connect.close()  # With the recorder, which not every way gives to the client.
    uri = tmp_path.resolve().as_uri()
    assert result["content"] == [text(f"['{uri}'] Ada ANYWHERE THEN ANYWHERE")]
    assert user.asked == ["roots", *the_name(connect), "anywhere", "then ANYWHERE"]
    # Three of them in one result, one in the next.
    assert calls.count(("send", "tools/call")) == (3 if connect.alone else 1)


def test_questions_of_a_prompt_and_of_a_resource(connect: Connect, tmp_path: Path) -> None:
    user = User(tmp_path)
    client = connect(build(), **user.options)
    [message] = client.get_prompt("brief")["messages"]
    assert message["content"] == text("Ada in WHERE")
    [contents] = client.read_resource("trip://all")["contents"]
    assert contents["text"] == "1 ALL"  # type: ignore[typeddict-item]
    assert user.asked == [*the_name(connect), "where", "roots", "all"]


@newest
def test_several_clients_are_asked_at_once_and_none_gets_the_answers_of_another(
    connect: Connect, tmp_path: Path
) -> None:
    server: Server = build()
    clients = [connect(server, **User(tmp_path, name=f"u{number}").options) for number in range(3)]
    calls = [Background(client.call_tool, "plan", {"city": "Oslo"}) for client in clients]
    names = [f"U{number}" if the_name(connect) else "ADA" for number in range(3)]
    assert [call.outcome()["content"][0]["text"].rpartition(" ")[2] for call in calls] == names


@newest
def test_questions_in_a_loop(connect: Connect, tmp_path: Path) -> None:
    user, cities = User(tmp_path), ["Lisbon", "Oslo", "Lisbon", "Linz"]
    result = connect(build(), **user.options).call_tool("tour", {"cities": cities})
    assert result["content"] == [text("LISBON, OSLO, LISBON, LINZ")]
    assert user.asked == cities
