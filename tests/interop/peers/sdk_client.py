"""A client made with the official SDK (mcp 2) that uses every feature of a server of ours, and prints what it saw.

Usage: python sdk_client.py MODE (URL | COMMAND [ARGUMENT ...])

A URL that ends with /sse is that of an event stream of 2024-11-05.

MODE is "legacy" (it opens with `initialize`), "auto" (it first asks whether the server speaks the stateless era), or
"stateless" (the same, and it uses what that era has). One JSON object is printed, by the names of the methods of
`Visit` or `StatelessVisit`: what each returned, or `{"error": ...}`.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import Subscription
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from steps import SIMPLE, WAIT, Steps, taken, wire

# Much of the session era is deprecated in the SDK.
warnings.simplefilter("ignore")


class Noting:
    """The things seen of HTTP: the session id that the server assigned, and the status of its end."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.ended: int | None = None
        self.http = create_mcp_http_client()
        self.http.event_hooks = {"response": [self.note]}

    async def note(self, response: Any) -> None:
        self.id = self.id or response.headers.get("mcp-session-id")
        if response.request.method == "DELETE":
            self.ended = response.status_code

    async def after(self, url: str) -> list[Any]:
        """The status of the end, and that of a request in the session that has ended."""
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {"Mcp-Session-Id": str(self.id), "Accept": "application/json, text/event-stream"}
        return [self.ended, (await self.http.post(url, json=ping, headers=headers)).status_code]


def target(command: list[str], noting: Noting) -> Any:
    """Return what the SDK's client is pointed at."""
    if command[0].endswith("/sse"):
        return sse_client(command[0])
    if command[0].startswith("http://"):
        return streamable_http_client(command[0], http_client=noting.http)
    # The SDK passes on little of the environment.
    return StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))


class Visit(Steps):
    """One conversation: what the server asks is answered and noted; the public methods are the steps, in order."""

    def __init__(self, mode: str, command: list[str]) -> None:
        super().__init__()
        self.answers: list[Any] = []
        self.noting = Noting()
        self.client = Client(
            target(command, self.noting),
            mode=mode,
            read_timeout_seconds=WAIT,
            sampling_callback=self.on_sample,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            list_roots_callback=self.on_roots,
            elicitation_callback=self.on_elicit,
            logging_callback=self.on_log,
            message_handler=self.on_message,
            client_info=types.Implementation(name="sdk", version="2", title="The SDK"),
        )

    # -- what the server asks and tells

    async def on_sample(self, context: Any, params: types.CreateMessageRequestParams) -> Any:
        self.asked.append(wire(params))
        if self.answers:
            return self.answers.pop(0)
        if params.tools and len(params.messages) == 1:
            use = types.ToolUseContent(id="use-1", name="lookup", input={"word": "tea"})
            return types.CreateMessageResultWithTools(
                role="assistant", content=[use], model="small-1", stop_reason="toolUse"
            )
        text = types.TextContent(text="Paris")
        return types.CreateMessageResult(role="assistant", content=text, model="small-1", stop_reason="endTurn")

    async def on_roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///work", name="Work")])

    async def on_elicit(self, context: Any, params: Any) -> Any:
        self.asked.append(wire(params))
        return self.answers.pop(0)

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(wire(params))
        self.tell()

    async def on_message(self, message: Any) -> None:
        self.changes.append(getattr(message, "method", repr(message)))
        self.tell()

    # -- the steps

    async def introduction(self) -> Any:
        client = self.client
        info, capabilities = wire(client.server_info), wire(client.server_capabilities)
        return [client.protocol_version, info, capabilities, client.instructions]

    async def tools(self) -> Any:
        return await self.pages(self.client.list_tools, "tools")

    async def prompts(self) -> Any:
        return await self.pages(self.client.list_prompts, "prompts")

    async def pages(self, ask: Any, key: str) -> list[list[Any]]:
        found, cursor = [], None
        while True:
            page = wire(await ask(cursor=cursor))
            found.append(page[key])
            cursor = page.get("nextCursor")
            if cursor is None:
                return found

    async def progress(self) -> Any:
        return (await self.progressing("count", to=3))[0]

    async def hang_up(self) -> Any:
        return await self.progressing("hang_up")

    async def progressing(self, name: str, **arguments: Any) -> list[Any]:
        """The progress of a call, and its result."""
        steps: list[Any] = []

        async def step(progress: float, total: float | None, message: str | None) -> None:
            steps.append([progress, total, message])

        result = await self.client.call_tool(name, arguments, progress_callback=step)
        return [steps, wire(result)]

    async def cancel(self) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(self.client.call_tool, "wait")
            await self.until(lambda: {"level": "info", "data": "waiting"} in self.logs)
            group.cancel_scope.cancel()
        return await self.call("was_given_up")

    async def complete_prompt(self) -> Any:
        greet = types.PromptReference(name="greet")
        return wire(await self.client.complete(greet, {"name": "name", "value": "ad"}, {"tone": "!"}))

    async def complete_template(self) -> Any:
        template = types.ResourceTemplateReference(uri="note://user/{name}")
        return wire(await self.client.complete(template, {"name": "name", "value": "u"}))

    async def sample_refused(self) -> Any:
        self.answers.append(types.ErrorData(code=-1, message="User rejected sampling request"))
        return await self.call("sample")

    async def sample_with_tools(self) -> Any:
        self.asked.clear()
        return [await self.say("sample_with_tools"), self.asked[:]]

    async def ask(self) -> Any:
        self.asked.clear()
        content = {"name": "Ada", "age": 36, "seat": "aisle"}
        self.answers.append(types.ElicitResult(action="accept", content=content))
        return [await self.say("ask"), self.asked[:]]

    async def ask_declined(self) -> Any:
        self.answers.append(types.ElicitResult(action="decline"))
        return await self.say("ask")

    async def ask_wrong(self) -> Any:
        self.answers.append(types.ElicitResult(action="accept", content={"name": "", "age": 200, "seat": "roof"}))
        return await self.call("ask")

    async def visit(self) -> Any:
        self.asked.clear()
        self.changes.clear()
        self.answers.append(types.ElicitResult(action="accept"))
        answer = await self.say("visit")
        if answer.get("action") == "accept":
            await self.until(lambda: self.changes)
        return [answer, self.asked[:], self.changes[:]]


SIMPLE |= {
    "resources": lambda visit: visit.pages(visit.client.list_resources, "resources"),
    "templates": lambda visit: visit.pages(visit.client.list_resource_templates, "resourceTemplates"),
    "bad_cursor": lambda visit: visit.client.list_tools(cursor="no such page"),
    "read_both": lambda visit: visit.client.read_resource("note://both"),
    "complete_unknown": lambda visit: visit.client.complete(
        types.PromptReference(name="nope"), {"name": "name", "value": ""}
    ),
    **dict.fromkeys(("guarded", "guarded_again"), lambda visit: visit.call("guarded")),
    "removed": lambda visit: visit.client.send_ping(),
    "by_hand": lambda visit: visit.call("by_hand"),
    "asking_prompt": lambda visit: visit.client.get_prompt("asking"),
    "asking_note": lambda visit: visit.client.read_resource("note://asking"),
}

STEPS = (
    *("introduction", "ping", "tools", "resources", "prompts", "templates", "bad_cursor", "add", "add_wrong"),
    *("weather", "everything", "fail", "crash", "refuse", "unknown_tool", "whoami", "ping_back", "progress"),
    *("hang_up", "cancel"),
    *("all_levels", "from_error_on", "read_text", "read_blob", "read_both", "read_template", "read_nothing"),
    *("updates", "list_changes", "greet", "greet_nobody", "talk", "unknown_prompt"),
    *("complete_prompt", "complete_template", "complete_unknown", "folders", "roots_changed"),
    *("sample", "sample_refused", "sample_with_tools", "ask", "ask_declined", "ask_wrong"),
    *("visit", "guarded", "guarded_again"),
)


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

    async def without_capabilities(self) -> Any:
        """How calls end that need something the client did not declare."""
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


STATELESS_STEPS = (
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
    alone = sys.argv[1] == "stateless"
    visit = StatelessVisit(sys.argv[2:]) if alone else Visit(sys.argv[1], sys.argv[2:])
    async with visit.noting.http:
        async with visit.client:
            seen = {step: await tried(visit, step) for step in (STATELESS_STEPS if alone else STEPS)}
        if sys.argv[2].endswith("/mcp") and not alone:
            seen["ended"] = await visit.noting.after(sys.argv[2])
    print(json.dumps(seen))


async def tried(visit: Visit, step: str) -> Any:
    """What a step returned, or how it failed."""
    visit.answers.clear()
    return await outcome(taken(visit, step))


async def outcome(doing: Any) -> Any:
    """What something returned, or how it failed."""
    try:
        with anyio.fail_after(WAIT):
            return await doing
    except MCPError as problem:
        return {"error": {"code": problem.code, "message": problem.message, "data": problem.error.data}}
    except Exception as problem:
        return {"failed": repr(problem)}


if __name__ == "__main__":
    anyio.run(main)
