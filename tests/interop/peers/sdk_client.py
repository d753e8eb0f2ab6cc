"""A client made with the official SDK (mcp 2) that uses every feature of a server of ours, and prints what it saw.

Usage: python sdk_client.py MODE (URL | COMMAND [ARGUMENT ...])

A URL that ends with /sse is that of an event stream of 2024-11-05.

MODE is "legacy" (it opens with `initialize`) or "auto" (it first asks whether the server speaks the stateless era).
One JSON object is printed, by the names of the methods of `Visit`: what each returned, or `{"error": ...}`.
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
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

# Much of the session era is deprecated in the SDK.
warnings.simplefilter("ignore")

WAIT = 10


def wire(model: Any) -> Any:
    """What came, without what the SDK adds."""
    return model.model_dump(by_alias=True, mode="json", exclude_unset=True)


class Noting:
    """What is seen of HTTP: the session id that the server assigned, and the status of its end."""

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
    """What the SDK's client is pointed at."""
    if command[0].endswith("/sse"):
        return sse_client(command[0])
    if command[0].startswith("http://"):
        return streamable_http_client(command[0], http_client=noting.http)
    # The SDK passes on little of the environment.
    return StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))


class Visit:
    """One conversation: what the server asks is answered and noted; the public methods are the steps, in order."""

    def __init__(self, mode: str, command: list[str]) -> None:
        self.asked: list[Any] = []
        self.logs: list[Any] = []
        self.changes: list[str] = []
        self.news = anyio.Event()
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

    def tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def until(self, happened: Any) -> None:
        """Wait until a condition holds, looking at each message of the server."""
        with anyio.fail_after(WAIT):
            while not happened():
                await self.news.wait()

    # -- the steps

    async def introduction(self) -> Any:
        client = self.client
        info, capabilities = wire(client.server_info), wire(client.server_capabilities)
        return [client.protocol_version, info, capabilities, client.instructions]

    async def ping(self) -> Any:
        return wire(await self.client.send_ping())

    async def tools(self) -> Any:
        return await self.pages(self.client.list_tools, "tools")

    async def resources(self) -> Any:
        return await self.pages(self.client.list_resources, "resources")

    async def prompts(self) -> Any:
        return await self.pages(self.client.list_prompts, "prompts")

    async def templates(self) -> Any:
        return await self.pages(self.client.list_resource_templates, "resourceTemplates")

    async def pages(self, ask: Any, key: str) -> list[list[Any]]:
        found, cursor = [], None
        while True:
            page = wire(await ask(cursor=cursor))
            found.append(page[key])
            cursor = page.get("nextCursor")
            if cursor is None:
                return found

    async def bad_cursor(self) -> Any:
        return wire(await self.client.list_tools(cursor="no such page"))

    async def call(self, name: str, **arguments: Any) -> Any:
        return wire(await self.client.call_tool(name, arguments))

    async def say(self, name: str, **arguments: Any) -> Any:
        """The JSON in the first block of a result; of one that failed, all of it."""
        result = await self.call(name, **arguments)
        return result if result.get("isError") else json.loads(result["content"][0]["text"])

    async def add(self) -> Any:
        return await self.call("add", a=2, b=40)

    async def add_wrong(self) -> Any:
        return await self.call("add", a="two")

    async def weather(self) -> Any:
        return await self.call("weather", city="Porto")

    async def everything(self) -> Any:
        return await self.call("everything")

    async def fail(self) -> Any:
        return await self.call("fail")

    async def crash(self) -> Any:
        return await self.call("crash")

    async def refuse(self) -> Any:
        return await self.call("refuse")

    async def unknown_tool(self) -> Any:
        return await self.call("no such tool")

    async def whoami(self) -> Any:
        return await self.say("whoami")

    async def ping_back(self) -> Any:
        return await self.call("ping_back")

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

    async def read_text(self) -> Any:
        return wire(await self.client.read_resource("note://text"))

    async def read_blob(self) -> Any:
        return wire(await self.client.read_resource("note://blob"))

    async def read_both(self) -> Any:
        return wire(await self.client.read_resource("note://both"))

    async def read_template(self) -> Any:
        return wire(await self.client.read_resource("note://user/ada"))

    async def read_nothing(self) -> Any:
        return wire(await self.client.read_resource("note://nowhere"))

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
        grown = [tool["name"] for page in await self.tools() for tool in page]
        await self.call("shrink")
        await self.until(lambda: len(self.changes) == 6)
        shrunk = [tool["name"] for page in await self.tools() for tool in page]
        return [self.changes[:3], "grown" in grown, "grown" in shrunk]

    async def greet(self) -> Any:
        return wire(await self.client.get_prompt("greet", {"name": "Ada", "tone": "warm"}))

    async def greet_nobody(self) -> Any:
        return wire(await self.client.get_prompt("greet", {}))

    async def talk(self) -> Any:
        return wire(await self.client.get_prompt("talk"))

    async def unknown_prompt(self) -> Any:
        return wire(await self.client.get_prompt("no such prompt"))

    async def complete_prompt(self) -> Any:
        greet = types.PromptReference(name="greet")
        return wire(await self.client.complete(greet, {"name": "name", "value": "ad"}, {"tone": "!"}))

    async def complete_template(self) -> Any:
        template = types.ResourceTemplateReference(uri="note://user/{name}")
        return wire(await self.client.complete(template, {"name": "name", "value": "u"}))

    async def complete_unknown(self) -> Any:
        return wire(await self.client.complete(types.PromptReference(name="nope"), {"name": "name", "value": ""}))

    async def folders(self) -> Any:
        return await self.call("folders")

    async def roots_changed(self) -> Any:
        self.logs.clear()
        await self.client.send_roots_list_changed()
        await self.until(lambda: self.logs)
        return self.logs[0]

    async def sample(self) -> Any:
        self.asked.clear()
        return [await self.say("sample"), self.asked[:]]

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

    async def guarded(self) -> Any:
        return await self.call("guarded")

    async def guarded_again(self) -> Any:
        return await self.call("guarded")


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


async def main() -> None:
    visit = Visit(sys.argv[1], sys.argv[2:])
    async with visit.noting.http:
        async with visit.client:
            seen = {step: await taken(visit, step) for step in STEPS}
        if sys.argv[2].endswith("/mcp"):
            seen["ended"] = await visit.noting.after(sys.argv[2])
    print(json.dumps(seen))


async def taken(visit: Visit, step: str) -> Any:
    """What a step returned, or how it failed."""
    visit.answers.clear()
    return await outcome(getattr(visit, step)())


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
