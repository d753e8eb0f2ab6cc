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
from steps import WAIT, Steps, taken, wire


def streams(command: list[str]) -> Any:
    """The streams to and from the server."""
    if command[0].startswith("http://"):
        return sse_client(command[0])
    # The SDK passes on little of the environment.
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ)))


class Visit(Steps):
    """One conversation: what the server asks is answered and noted; the public methods are the steps, in order."""

    client: ClientSession
    initialized: types.InitializeResult

    def __init__(self) -> None:
        super().__init__()
        self.progressed: list[Any] = []
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

    # -- the steps

    async def introduction(self) -> Any:
        told = wire(self.initialized)
        return [told["protocolVersion"], told["serverInfo"], told["capabilities"], told["instructions"]]

    async def tools(self) -> Any:
        return [wire(await self.client.list_tools())["tools"]]

    async def resources(self) -> Any:
        return [wire(await self.client.list_resources())["resources"]]

    async def prompts(self) -> Any:
        return [wire(await self.client.list_prompts())["prompts"]]

    async def templates(self) -> Any:
        return [wire(await self.client.list_resource_templates())["resourceTemplates"]]

    async def progress(self) -> Any:
        meta = types.RequestParams.Meta(progressToken="steps")
        params = types.CallToolRequestParams(name="count", arguments={"to": 3}, _meta=meta)
        request = types.CallToolRequest(method="tools/call", params=params)
        await self.client.send_request(types.ClientRequest(request), types.CallToolResult)
        await self.until(lambda: len(self.progressed) == 3)
        return [[step["progress"], step["total"], None] for step in self.progressed]

    async def cancel(self) -> Any:
        given_up = self.client._request_id  # the id of the next request; this SDK cannot cancel by itself
        async with anyio.create_task_group() as group:
            group.start_soon(self.client.call_tool, "wait")
            await self.until(lambda: {"level": "info", "data": "waiting"} in self.logs)
            params = types.CancelledNotificationParams(requestId=given_up, reason="no longer wanted")
            cancelled = types.CancelledNotification(method="notifications/cancelled", params=params)
            await self.client.send_notification(types.ClientNotification(cancelled))
            answer = await self.call("was_given_up")
            group.cancel_scope.cancel()
        return answer

    async def complete_prompt(self) -> Any:
        ref = types.PromptReference(type="ref/prompt", name="greet")
        return wire(await self.client.complete(ref, {"name": "name", "value": "ad"}))

    async def complete_template(self) -> Any:
        ref = types.ResourceReference(type="ref/resource", uri="note://user/{name}")
        return wire(await self.client.complete(ref, {"name": "name", "value": "u"}))

    async def sample_refused(self) -> Any:
        self.refuses = True
        return await self.call("sample")

    async def ask(self) -> Any:
        return [await self.say("ask"), []]


STEPS = (
    *("introduction", "ping", "tools", "resources", "prompts", "templates", "add", "add_wrong", "weather"),
    *("everything", "fail", "crash", "refuse", "unknown_tool", "whoami", "ping_back", "progress", "cancel"),
    *("all_levels", "from_error_on", "read_text", "read_blob", "read_template", "read_nothing", "updates"),
    *("list_changes", "greet", "greet_nobody", "talk", "unknown_prompt", "complete_prompt", "complete_template"),
    *("folders", "roots_changed", "sample", "sample_refused", "ask"),
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
        ) as visit.client:
            visit.initialized = await visit.client.initialize()
            for step in STEPS:
                try:
                    with anyio.fail_after(WAIT):
                        seen[step] = await taken(visit, step)
                except McpError as problem:
                    seen[step] = {"error": problem.error.model_dump(mode="json")}
                except Exception as problem:
                    seen[step] = {"failed": repr(problem)}
    print(json.dumps(seen))


if __name__ == "__main__":
    anyio.run(main)
