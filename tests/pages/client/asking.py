"""A server whose handler asks, and a client that answers: either of them real, or both."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from tests.support.wire import PATIENCE, opened, to_client

JsonObject = dict[str, Any]
Question = Callable[[Context], Any]

NAMES = list(REVISIONS)
OLDER = [row.name for row in SESSION_REVISIONS]
BEFORE_AUDIO, BEFORE_ELICITATION, FORMS_ONLY, LATEST, MODERN = NAMES
every_revision = pytest.mark.parametrize("revision", NAMES)
in_both_eras = pytest.mark.parametrize("revision", [LATEST, MODERN])


def asker(question: Question) -> tuple[Server, Queue[Any]]:
    """A server whose tool asks, and the queue that gets what the question comes to: a value or an exception."""
    server, outcome = Server("asker", "1"), Queue[Any]()

    @server.tool()
    def ask(ctx: Context) -> str:
        try:
            outcome.put(question(ctx))
        except Exception as problem:
            outcome.put(problem)
        return "asked"

    return server, outcome


def answer_to(question: Question, revision: str = LATEST, **options: Any) -> Any:
    """Return what the question of a server's handler comes to: the value is returned, the exception raised again."""
    server, outcome = asker(question)
    with Client(server, revision=revision, **options) as client:
        client.call_tool("ask", timeout=PATIENCE)
    got = outcome.get_nowait()
    assert outcome.empty()
    if isinstance(got, Exception):
        raise got
    return got


def with_the_result(result: JsonObject, question: Question, capabilities: JsonObject) -> Any:
    """The request that a question sends, and what the question comes to when the client answers with that result."""
    server, outcome = asker(question)
    with opened(server, LATEST, capabilities) as wire:
        asked = wire.request(1, "tools/call", {"name": "ask"})
        wire.answer(asked["id"], result)
        got = outcome.get(timeout=PATIENCE)
        assert wire.receive()["id"] == 1
    return asked, got


def asked_of(method: str, params: Any, revision: str = LATEST, **options: Any) -> Any:
    """Return what a client answers to a request that is written by hand: its result, or its error."""
    with to_client(revision, **options) as (_, wire):
        response = wire.request(1, method, params)
    return response["result"] if "result" in response else response["error"]


def refused_by(question: Question, error: type[Exception], says: str, revision: str = LATEST, **options: Any) -> Any:
    """Return the error with which a question is refused, none of whose messages has been sent."""
    messages, trace = traffic()
    with pytest.raises(error, match=says) as refused:
        answer_to(question, revision, trace=trace, **options)
    methods = [message.get("method", "") for message in messages]
    assert not [method for method in methods if method.startswith(("roots/", "sampling/", "elicitation/"))]
    return refused.value


def traffic() -> tuple[list[Any], Callable[[Any], None]]:
    """A list, and a trace that puts each message into it."""
    messages: list[Any] = []
    return messages, lambda event: messages.append(event.message)
