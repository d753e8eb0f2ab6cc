"""A client made with an old official SDK (mcp 1.8.1, 2024-11-05 only) that uses every feature of a server of ours.

Usage: python old_sdk_client.py (URL | COMMAND [ARGUMENT ...])      the URL is that of an event stream

One JSON object is printed, by the names of the steps: what each returned, or `{"error": ...}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
import mcp.types as types
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import McpError

WAIT = 10


def wire(model: Any) -> Any:
    """What came, without what the SDK adds."""
    return model.model_dump(by_alias=True, mode="json", exclude_unset=True)


def streams(command: list[str]) -> Any:
    """The streams to and from the server."""
    if command[0].startswith("http://"):
        return sse_client(command[0])
    # The SDK passes on little of the environment.
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ)))


class Visit:
    """One conversation: what the server asks is answered and noted; the public methods are the steps, in order."""

    session: ClientSession
    initialized: types.InitializeResult

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.logs: list[Any] = []
        self.changes: list[str] = []
        self.progressed: list[Any] = []
        self.news = anyio.Event()
        self.refuses = False

    # -- what the server asks and tells

    async def on_sample(self, context: Any, params: types.CreateMessageRequestParams) -> Any:
        self.asked.append(wire(params))
        if self.refuses:
            return types.ErrorData(code=-1, message="User rejected sampling request")
        text = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", content=text, model="small-1", stopReason="endTurn")

    async def on_roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///work", name="Work")])

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(wire(params))
        self.tell()

    async def on_message(self, message: Any) -> None:
        if isinstance(message, Exception):
            self.changes.append(repr(message))
        elif isinstance(message, types.ServerNotification):
            if isinstance(message.root, types.ProgressNotification):
                self.progressed.append(wire(message.root.params))
            elif not isinstance(message.root, types.LoggingMessageNotification):
                self.changes.append(message.root.method)
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
        told = wire(self.initialized)
        return [told["protocolVersion"], told["serverInfo"], told["capabilities"], told["instructions"]]

    async def ping(self) -> Any:
        return wire(await self.session.send_ping())

    async def tools(self) -> Any:
        return [wire(await self.session.list_tools())["tools"]]

    async def resources(self) -> Any:
        return [wire(await self.session.list_resources())["resources"]]

    async def prompts(self) -> Any:
        return [wire(await self.session.list_prompts())["prompts"]]

    async def templates(self) -> Any:
        return [wire(await self.session.list_resource_templates())["resourceTemplates"]]

    async def call(self, name: str, **arguments: Any) -> Any:
        return wire(await self.session.call_tool(name, arguments))

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
        meta = types.RequestParams.Meta(progressToken="steps")
        params = types.CallToolRequestParams(name="count", arguments={"to": 3}, _meta=meta)
        request = types.CallToolRequest(method="tools/call", params=params)
        await self.session.send_request(types.ClientRequest(request), types.CallToolResult)
        await self.until(lambda: len(self.progressed) == 3)
        return [[step["progress"], step["total"], None] for step in self.progressed]

    async def cancel(self) -> Any:
        given_up = self.session._request_id  # the id of the next request; this SDK cannot cancel by itself
        async with anyio.create_task_group() as group:
            group.start_soon(self.session.call_tool, "wait")
            await self.until(lambda: {"level": "info", "data": "waiting"} in self.logs)
            params = types.CancelledNotificationParams(requestId=given_up, reason="no longer wanted")
            cancelled = types.CancelledNotification(method="notifications/cancelled", params=params)
            await self.session.send_notification(types.ClientNotification(cancelled))
            answer = await self.call("was_given_up")
            group.cancel_scope.cancel()
        return answer

    async def all_levels(self) -> Any:
        self.logs.clear()
        await self.call("shout")
        await self.until(lambda: len(self.logs) == 8)
        return self.logs[:]

    async def from_error_on(self) -> Any:
        await self.session.set_logging_level("error")
        self.logs.clear()
        await self.call("shout")
        await self.until(lambda: len(self.logs) == 4)
        await self.session.set_logging_level("debug")
        return [message["level"] for message in self.logs]

    async def read_text(self) -> Any:
        return wire(await self.session.read_resource("note://text"))

    async def read_blob(self) -> Any:
        return wire(await self.session.read_resource("note://blob"))

    async def read_template(self) -> Any:
        return wire(await self.session.read_resource("note://user/ada"))

    async def read_nothing(self) -> Any:
        return wire(await self.session.read_resource("note://nowhere"))

    async def updates(self) -> Any:
        self.changes.clear()
        await self.session.subscribe_resource("note://text")
        await self.call("touch", uri="note://text")
        await self.call("touch", uri="note://blob")
        await self.until(lambda: self.changes)
        await self.session.unsubscribe_resource("note://text")
        await self.call("touch", uri="note://text")
        await self.session.send_ping()
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

    async def greet(self) -> Any:
        return wire(await self.session.get_prompt("greet", {"name": "Ada", "tone": "warm"}))

    async def greet_nobody(self) -> Any:
        return wire(await self.session.get_prompt("greet", {}))

    async def talk(self) -> Any:
        return wire(await self.session.get_prompt("talk"))

    async def unknown_prompt(self) -> Any:
        return wire(await self.session.get_prompt("no such prompt"))

    async def complete_prompt(self) -> Any:
        ref = types.PromptReference(type="ref/prompt", name="greet")
        return wire(await self.session.complete(ref, {"name": "name", "value": "ad"}))

    async def complete_template(self) -> Any:
        ref = types.ResourceReference(type="ref/resource", uri="note://user/{name}")
        return wire(await self.session.complete(ref, {"name": "name", "value": "u"}))

    async def folders(self) -> Any:
        return await self.call("folders")

    async def roots_changed(self) -> Any:
        self.logs.clear()
        await self.session.send_roots_list_changed()
        await self.until(lambda: self.logs)
        return self.logs[0]

    async def sample(self) -> Any:
        self.asked.clear()
        return [await self.say("sample"), self.asked[:]]

    async def sample_refused(self) -> Any:
        self.refuses = True
        return await self.call("sample")

    async def ask(self) -> Any:
        return [await self.say("ask"), []]


STEPS = (
    *("introduction", "ping", "tools", "resources", "prompts", "templates", "add", "add_wrong", "weather"),
    *(
        "everything",
        "fail",
        "crash",
        "refuse",
        "unknown_tool",
        "whoami",
        "ping_back",
        "progress",
        "cancel",
        "all_levels",
        "from_error_on",
    ),
    *("read_text", "read_blob", "read_template", "read_nothing", "updates", "list_changes"),
    *(
        "greet",
        "greet_nobody",
        "talk",
        "unknown_prompt",
        "complete_prompt",
        "complete_template",
        "folders",
        "roots_changed",
    ),
    *("sample", "sample_refused", "ask"),
)


async def main() -> None:
    visit = Visit()
    seen: dict[str, Any] = {}
    async with streams(sys.argv[1:]) as (read, write):
        async with ClientSession(
            read,
            write,
            sampling_callback=visit.on_sample,
            list_roots_callback=visit.on_roots,
            logging_callback=visit.on_log,
            message_handler=visit.on_message,
            client_info=types.Implementation(name="old sdk", version="1.8.1"),
        ) as visit.session:
            visit.initialized = await visit.session.initialize()
            for step in STEPS:
                try:
                    with anyio.fail_after(WAIT):
                        seen[step] = await getattr(visit, step)()
                except McpError as problem:
                    seen[step] = {"error": problem.error.model_dump(mode="json")}
                except Exception as problem:
                    seen[step] = {"failed": repr(problem)}
    print(json.dumps(seen))


if __name__ == "__main__":
    anyio.run(main)
