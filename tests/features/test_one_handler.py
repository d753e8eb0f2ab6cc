"""One handler for both eras: what it asks in its body comes to the same result by every way, in all five revisions.

Where a revision has no elicitation (before 2025-06-18), the handlers ask the other questions alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_ref import Server, text
from mcp_ref.pages.client.elicitation import decline
from mcp_ref.pages.client.sampling import reply
from mcp_ref.revisions import REVISIONS
from tests.features.conftest import Connect, newest
from tests.features.one_handler import build
from tests.support.wire import Background

ELICITS = [name for name in REVISIONS if name >= "2025-06-18"]


class User:
    """A client's functions, and what they were asked."""

    def __init__(
        self, folder: Path, name: str | None = "Ada", hearing: Callable[[str], None] = lambda said: None
    ) -> None:
        self.asked: list[str] = []
        self._folder, self._name, self._hearing = folder, name, hearing

    def options(self) -> dict[str, Any]:
        return {"roots": self.roots, "sample": self.sample, "elicit": self.elicit}

    def roots(self) -> list[Path]:
        self.asked.append("roots")
        return [self._folder]

    def sample(self, params: Any) -> Any:
        said = params["messages"][0]["content"]["text"]
        self.asked.append(said)
        self._hearing(said)
        return reply(said.upper(), model="m")

    def elicit(self, message: str, schema: Any) -> Any:
        self.asked.append(message)
        return decline() if self._name is None else {"name": self._name}


def the_name(connect: Connect) -> list[str]:
    """Return what is asked for a name, in that revision."""
    return ["Your name?"] if str(connect.revision) in ELICITS else []


def test_three_questions_in_the_body_of_a_tool(connect: Connect, tmp_path: Path) -> None:
    asked = User(tmp_path)
    client = connect(build(), **asked.options())
    result = client.call_tool("plan", {"city": "Lisbon"})
    assert result["content"] == [text(f"{tmp_path.resolve().as_uri()}: LISBON FOR ADA")]
    assert not result.get("isError")
    # Each question once, in the order of the body, however many calls it takes.
    assert asked.asked == ["roots", *the_name(connect), "Lisbon for Ada"]


@newest
def test_questions_that_are_asked_together(connect: Connect, tmp_path: Path) -> None:
    asked, calls = User(tmp_path), list[Any]()
    client = connect(build(), trace=lambda event: calls.append(said_by(event)), **asked.options())
    result = client.call_tool("together")
    connect.close()  # With the recorder, which not every way gives to the client.
    uri = tmp_path.resolve().as_uri()
    assert result["content"] == [text(f"['{uri}'] Ada ANYWHERE THEN ANYWHERE")]
    assert asked.asked == ["roots", *the_name(connect), "anywhere", "then ANYWHERE"]
    # Three of them in one result, one in the next.
    assert calls.count(("send", "tools/call")) == (3 if connect.alone else 1)


def said_by(event: Any) -> Any:
    return event.direction, (event.message or {}).get("method")


def test_questions_of_a_prompt_and_of_a_resource(connect: Connect, tmp_path: Path) -> None:
    asked = User(tmp_path)
    client = connect(build(), **asked.options())
    [message] = client.get_prompt("brief")["messages"]
    assert message["content"] == text("Ada in WHERE")
    [contents] = client.read_resource("trip://all")["contents"]
    assert contents["text"] == "1 ALL"  # type: ignore[typeddict-item]
    assert asked.asked == [*the_name(connect), "where", "roots", "all"]


@newest
def test_several_clients_are_asked_at_once_and_none_gets_the_answers_of_another(
    connect: Connect, tmp_path: Path
) -> None:
    server: Server = build()
    users = [User(tmp_path, name=f"u{number}") for number in range(3)]
    clients = [connect(server, **each.options()) for each in users]
    calls = [Background(client.call_tool, "plan", {"city": "Oslo"}) for client in clients]
    names = [f"U{number}" if the_name(connect) else "ADA" for number in range(3)]
    assert [call.outcome()["content"][0]["text"].rpartition(" ")[2] for call in calls] == names


@newest
def test_questions_in_a_loop(connect: Connect, tmp_path: Path) -> None:
    asked = User(tmp_path)
    cities = ["Lisbon", "Oslo", "Lisbon", "Linz"]
    result = connect(build(), **asked.options()).call_tool("tour", {"cities": cities})
    assert result["content"] == [text("LISBON, OSLO, LISBON, LINZ")]
    assert asked.asked == cities
