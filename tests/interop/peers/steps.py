"""The steps of a client that are the same with each release of the official SDK for Python."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

WAIT = 10


def wire(model: Any) -> Any:
    """Return what came, without what the SDK adds."""
    return model.model_dump(by_alias=True, mode="json", exclude_unset=True)


class Steps:
    """One conversation: what the server asks is answered and noted; the public methods are steps."""

    client: Any

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.logs: list[Any] = []
        self.changes: list[str] = []
        self.news = anyio.Event()

    async def prompts(self) -> Any:
        """The prompts, page by page."""
        raise NotImplementedError

    def tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def until(self, happened: Any) -> None:
        """Wait until a condition holds, looking at each message of the server."""
        with anyio.fail_after(WAIT):
            while not happened():
                await self.news.wait()

    async def call(self, name: str, **arguments: Any) -> Any:
        return wire(await self.client.call_tool(name, arguments))

    async def say(self, name: str, **arguments: Any) -> Any:
        """The JSON in the first block of a result; of one that failed, all of it."""
        result = await self.call(name, **arguments)
        return result if result.get("isError") else json.loads(result["content"][0]["text"])

    async def all_levels(self) -> Any:
        self.logs.clear()
        await self.call("shout")
        await self.until(lambda: len(self.logs) == 8)
        return self.logs[:]

    async def from_error_on(self) -> Any:
        await self.client.set_logging_level("error")
        self.logs.clear()
        await self.call("shout")
        await self.until(lambda: len(self.logs) == 4)
        await self.client.set_logging_level("debug")
        return [message["level"] for message in self.logs]

    async def updates(self) -> Any:
        self.changes.clear()
        await self.client.subscribe_resource("note://text")
        await self.call("touch", uri="note://text")
        await self.call("touch", uri="note://blob")
        await self.until(lambda: self.changes)
        await self.client.unsubscribe_resource("note://text")
        await self.call("touch", uri="note://text")
        await self.client.send_ping()
        return self.changes[:]

    async def list_changes(self) -> Any:
        self.changes.clear()
        await self.call("grow")
        await self.until(lambda: len(self.changes) == 3)
        grown = [prompt["name"] for page in await self.prompts() for prompt in page]
        await self.call("shrink")
        await self.until(lambda: len(self.changes) == 6)
        shrunk = [prompt["name"] for page in await self.prompts() for prompt in page]
        return [self.changes[:3], "grown" in grown, "grown" in shrunk]

    async def roots_changed(self) -> Any:
        self.logs.clear()
        await self.client.send_roots_list_changed()
        await self.until(lambda: self.logs)
        return self.logs[0]

    async def sample(self) -> Any:
        self.asked.clear()
        return [await self.say("sample"), self.asked[:]]


SIMPLE: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "ping": lambda visit: visit.client.send_ping(),
    "add": lambda visit: visit.call("add", a=2, b=40),
    "add_wrong": lambda visit: visit.call("add", a="two"),
    "weather": lambda visit: visit.call("weather", city="Porto"),
    **{
        name: lambda visit, name=name: visit.call(name) for name in ("everything", "fail", "crash", "refuse", "folders")
    },
    "unknown_tool": lambda visit: visit.call("no such tool"),
    "whoami": lambda visit: visit.say("whoami"),
    "ping_back": lambda visit: visit.call("ping_back"),
    "read_text": lambda visit: visit.client.read_resource("note://text"),
    "read_blob": lambda visit: visit.client.read_resource("note://blob"),
    "read_template": lambda visit: visit.client.read_resource("note://user/ada"),
    "read_nothing": lambda visit: visit.client.read_resource("note://nowhere"),
    "greet": lambda visit: visit.client.get_prompt("greet", {"name": "Ada", "tone": "warm"}),
    "greet_nobody": lambda visit: visit.client.get_prompt("greet", {}),
    "talk": lambda visit: visit.client.get_prompt("talk"),
    "unknown_prompt": lambda visit: visit.client.get_prompt("no such prompt"),
}
"""The steps that are one request."""


async def taken(visit: Steps, name: str) -> Any:
    """What a step came to: one of these, or a method of the visit."""
    result = await (SIMPLE[name](visit) if name in SIMPLE else getattr(visit, name)())
    return wire(result) if hasattr(result, "model_dump") else result
