"""A client made with the official SDK (mcp 2) that uses every feature of the stateless era of a server of ours.

Usage: python sdk_stateless_client.py (URL | COMMAND [ARGUMENT ...])

It asks for the stateless era first (`auto`). One JSON object is printed, by the names of the methods of
`StatelessVisit`: what each returned, or `{"error": ...}`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.subscriptions import Subscription
from sdk_client import WAIT, Visit, outcome, taken, target, wire

LOG_LEVEL = "io.modelcontextprotocol/logLevel"
ADA = types.ElicitResult(action="accept", content={"name": "Ada"})
PORTO = types.ElicitResult(action="accept", content={"city": "Porto"})


class StatelessVisit(Visit):
    """One conversation in the stateless era. `posts`: the headers of each call over HTTP, and its status."""

    def __init__(self, command: list[str]) -> None:
        super().__init__("auto", command)
        self.command = command
        self.posts: list[dict[str, Any]] = []
        self.noting.http.event_hooks = {"response": [self.note]}

    async def note(self, response: Any) -> None:
        headers = response.request.headers
        if headers.get("mcp-method") == "tools/call":
            repeated = {name: value for name, value in headers.items() if name.startswith("mcp-")}
            self.posts.append({**repeated, "status": response.status_code})

    async def on_elicit(self, context: Any, params: Any) -> Any:
        self.asked.append(wire(params))
        if self.answers:
            return self.answers.pop(0)
        return PORTO if "city" in params.message else ADA

    # -- server/discover, basic/versioning

    async def discover(self) -> Any:
        result = self.client.session.discover_result
        assert result is not None
        return wire(result)

    async def unsupported(self) -> Any:
        return await self.client.session.send_discover("2099-01-01")

    async def removed(self) -> Any:
        return wire(await self.client.send_ping())

    async def without_capabilities(self) -> Any:
        """How calls end that need something the client has not declared."""
        async with Client(target(self.command, self.noting), mode="2026-07-28", read_timeout_seconds=WAIT) as bare:
            found = []
            for name in ("needs", "asks_form", "sample", "folders"):
                found.append(await outcome(bare.call_tool(name)))
            return found

    # -- server/utilities

    async def quiet(self) -> Any:
        self.logs.clear()
        await self.call("shout")
        return self.logs[:]

    async def loud(self) -> Any:
        self.logs.clear()
        await self.client.call_tool("shout", meta={LOG_LEVEL: "error"})
        return self.logs[:]

    async def cancel(self) -> Any:
        async def wait() -> None:
            await self.client.call_tool("wait", meta={LOG_LEVEL: "info"})

        self.logs.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await self.until(lambda: self.logs)
            group.cancel_scope.cancel()
        return await self.call("was_given_up")

    async def kept(self) -> Any:
        """The texts of a resource read twice, read after it changed, and how often it was read at the server."""
        texts = []

        async def read() -> None:
            result = await self.client.read_resource("note://counted")
            texts.append(wire(result)["contents"][0]["text"])

        async with self.client.listen(resource_subscriptions=["note://counted"]) as listening:
            await read()
            await read()
            await self.call("touch", uri="note://counted")
            await anext(listening)
            await read()
        return [*texts, await self.say("how_often", what="note://counted")]

    async def hints(self) -> Any:
        found = [await self.client.list_tools(), await self.client.list_prompts()]
        found.append(await self.client.read_resource("note://text"))
        return [[wire(each)["ttlMs"], wire(each)["cacheScope"]] for each in found]

    # -- basic/patterns/subscriptions

    async def listens(self) -> Any:
        everything = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
        async with self.client.listen(**everything, resource_subscriptions=["note://text"]) as listening:
            await self.call("grow")
            events = [await self.event(listening) for _ in range(3)]
            grown = "grown" in [tool["name"] for page in await self.tools() for tool in page]
            await self.call("touch", uri="note://blob")
            await self.call("touch", uri="note://text")
            events.append(await self.event(listening))
            await self.call("touch_below", uri="note://text")
            events.append(await self.event(listening))
            honoured = wire(listening.honored)
        await self.call("shrink")
        return [honoured, events, grown]

    async def listens_twice(self) -> Any:
        async with self.client.listen(resource_subscriptions=["note://text"]) as one:
            async with self.client.listen(resource_subscriptions=["note://blob"]) as other:
                await self.call("touch", uri="note://text")
                await self.call("touch", uri="note://blob")
                return [await self.event(one), await self.event(other)]

    async def let_go(self) -> Any:
        async with self.client.listen(tools_list_changed=True) as listening:
            await self.call("let_go")
            return [await self.event(listening) async for _ in listening]

    async def event(self, listening: Subscription) -> Any:
        with anyio.fail_after(WAIT):
            event = await anext(listening)
        return [type(event).__name__, *vars(event).values()]

    # -- basic/patterns/mrtr

    async def folders(self) -> Any:
        return await self.call("folders")

    async def three(self) -> Any:
        self.asked.clear()
        return [await self.say("three"), len(self.asked), await self.say("how_often", what="three")]

    async def together(self) -> Any:
        return [await self.say("together"), await self.say("how_often", what="together")]

    async def many(self) -> Any:
        return [await self.call("many", to=4), await self.say("how_often", what="many")]

    async def too_many(self) -> Any:
        try:
            return await self.call("many", to=20)
        except RuntimeError as problem:
            return str(problem)

    async def by_hand(self) -> Any:
        return await self.call("by_hand")

    async def asking_prompt(self) -> Any:
        return wire(await self.client.get_prompt("asking"))

    async def asking_note(self) -> Any:
        return wire(await self.client.read_resource("note://asking"))

    async def refused_by_user(self) -> Any:
        self.answers.append(types.ErrorData(code=-1, message="no"))
        return await self.call("ask")

    async def one_round(self) -> Any:
        """The first round alone, the same again without answers, and with a state that is not the server's."""
        first = await self.round()
        again = await self.round(request_state=first["requestState"])
        lies = await outcome(self.round(request_state=first["requestState"] + "x"))
        elsewhere = await outcome(self.round("together", request_state=first["requestState"]))
        return [first, again, lies, elsewhere]

    async def round(self, name: str = "three", **given: Any) -> Any:
        session = self.client.session
        return wire(await session.call_tool(name, {}, allow_input_required=True, **given))

    async def visit(self) -> Any:
        self.asked.clear()
        self.answers.append(types.ElicitResult(action="accept"))
        return [await self.call("guarded"), self.asked[:]]

    # -- basic/transports/streamable-http

    async def headers(self) -> Any:
        arguments = {"region": "Açores", "count": 7, "fast": True, "where": {"zone": "a b"}, "rest": "unseen"}
        await self.tools()
        self.posts.clear()
        return [await self.say("route", **arguments), self.posts[:]]

    async def moved_header(self) -> Any:
        await self.tools()
        await self.call("move_header", to="Area")
        self.posts.clear()
        return [await self.say("route", region="north"), self.posts[:]]


STEPS = (
    *("introduction", "discover", "unsupported", "removed", "without_capabilities"),
    *("tools", "resources", "prompts", "templates", "bad_cursor", "add", "add_wrong", "weather", "everything"),
    *("fail", "crash", "refuse", "unknown_tool", "whoami", "progress", "quiet", "loud", "cancel"),
    *("read_text", "read_blob", "read_template", "read_nothing", "kept", "hints"),
    *("greet", "greet_nobody", "talk", "unknown_prompt", "complete_prompt", "complete_template"),
    *("listens", "listens_twice", "let_go"),
    *("folders", "sample", "sample_refused", "sample_with_tools", "ask", "ask_declined", "ask_wrong", "visit"),
    *("three", "together", "many", "too_many", "by_hand", "asking_prompt", "asking_note", "refused_by_user"),
    *("one_round", "headers", "moved_header"),
)


async def main() -> None:
    visit = StatelessVisit(sys.argv[1:])
    async with visit.noting.http, visit.client:
        seen = {step: await taken(visit, step) for step in STEPS}
    print(json.dumps(seen))


if __name__ == "__main__":
    anyio.run(main)
