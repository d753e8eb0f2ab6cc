"""Our client in a conversation, with everything that the server asks and tells on record."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from queue import Empty, Queue
from types import TracebackType
from typing import Any, Self

from mcp_ref import Client
from mcp_ref.pages.client.sampling import reply

__all__ = ["WAIT", "Talk", "drained"]

JsonObject = dict[str, Any]

WAIT = 10.0
"""Seconds that a test waits for what should come at once."""


class Talk:
    """A client that declares every capability; tests set what it answers, and read what came.

    Args:
        revisions: those that it knows; none given: all.

    Attributes:
        answers: what it says to "sample", "elicit" and "open": a value, an exception, or a function of the question.
        asked: the questions of the server, as (kind, what was asked).
        logs, changes: the notifications of the server.
        on_log: called with each log message before it is put on record.
    """

    def __init__(self, target: Any, revisions: Sequence[str] = (), *, timeout: float = WAIT, **options: Any) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: Queue[tuple[str, Any]] = Queue()
        self.logs: Queue[JsonObject] = Queue()
        self.changes: Queue[tuple[str, JsonObject]] = Queue()
        self.on_log: Callable[[JsonObject], None] = lambda params: None
        self.roots: list[JsonObject] = [{"uri": "file:///work", "name": "Work"}, {"uri": "file:///home"}]
        self.client = Client(
            target,
            revision=revisions or None,
            timeout=timeout,
            roots=lambda: self.roots,
            sample=lambda params: self._answer("sample", params),
            elicit=lambda message, schema: self._answer("elicit", {"message": message, "schema": schema}),
            open_url=lambda url, message, host: self._answer("open", {"url": url, "message": message, "host": host}),
            capabilities={"sampling": {"tools": {}}},
            on_log=self._logged,
            on_change=lambda method, params: self.changes.put((method, params)),
            **options,
        )
        self.tidy()

    def tidy(self) -> None:
        """Forget what came before, and answer as at first."""
        self.on_log = lambda params: None
        self.answers = {"sample": reply("Paris", model="small-1"), "elicit": None, "open": False}
        for queue in (self.asked, self.logs, self.changes):
            drained(queue)

    def _answer(self, kind: str, question: Any) -> Any:
        self.asked.put((kind, question))
        answer = self.answers[kind]
        if isinstance(answer, BaseException):
            raise answer
        return answer(question) if callable(answer) else answer

    def _logged(self, params: JsonObject) -> None:
        self.on_log(params)
        self.logs.put(params)

    def say(self, name: str, arguments: JsonObject | None = None, **options: Any) -> str:
        """Call a tool, and return the text of its one block."""
        (block,) = self.client.call_tool(name, arguments, **options)["content"]
        assert block["type"] == "text"
        return block["text"]

    def tell(self, name: str, arguments: JsonObject | None = None, **options: Any) -> Any:
        """Call a tool, and return the JSON in its one block."""
        return json.loads(self.say(name, arguments, **options))

    def __enter__(self) -> Self:
        self.client.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.client.close()


def drained(queue: Queue[Any]) -> list[Any]:
    """Return what is in a queue now."""
    found = []
    while True:
        try:
            found.append(queue.get_nowait())
        except Empty:
            return found
