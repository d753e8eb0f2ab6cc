"""A client made with the official SDK (mcp 2) that does what it is told: driven.py says how.

A mode is "legacy" (it opens with `initialize`), "auto" (it first asks whether the server speaks the stateless era), or
a version. A URL that ends with /sse is that of an event stream of 2024-11-05.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from driven import WAIT, Driven, command, wire
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters

EVENTS = {
    "ToolsListChanged": "notifications/tools/list_changed",
    "ResourcesListChanged": "notifications/resources/list_changed",
    "PromptsListChanged": "notifications/prompts/list_changed",
    "ResourceUpdated": "notifications/resources/updated",
}


class Newest(Driven):
    @asynccontextmanager
    async def connected(self, order: dict[str, Any]) -> AsyncIterator[Any]:
        target = order["target"]
        over: Any = StdioServerParameters(**command(target))
        if len(target) == 1:
            over = sse_client(target[0]) if target[0].endswith("/sse") else target[0]
        able: dict[str, Any] = {
            "sampling_callback": self.on_sample,
            "sampling_capabilities": types.SamplingCapability(tools=types.SamplingToolsCapability()),
            "list_roots_callback": self.on_roots,
            "elicitation_callback": self.on_elicit,
        }
        async with Client(
            over,
            mode=order["mode"],
            read_timeout_seconds=WAIT,
            logging_callback=self.on_log,
            message_handler=self.on_message,
            client_info=types.Implementation(name="sdk", version="2", title="The SDK"),
            **(able if order["able"] else {}),
        ) as self.client:
            client, words = self.client, self.client.instructions
            yield [client.protocol_version, wire(client.server_info), wire(client.server_capabilities), words]

    async def on_sample(self, context: Any, params: Any) -> Any:
        answer = types.CreateMessageResultWithTools if params.tools else types.CreateMessageResult
        return await self.ask("sampling/createMessage", params, answer, types.ErrorData)

    async def on_roots(self, context: Any) -> Any:
        return await self.ask("roots/list", None, types.ListRootsResult, types.ErrorData)

    async def on_elicit(self, context: Any, params: Any) -> Any:
        return await self.ask("elicitation/create", params, types.ElicitResult, types.ErrorData)

    async def on_log(self, params: Any) -> None:
        self.say(told="notifications/message", params=wire(params))

    async def on_message(self, message: Any) -> None:
        if hasattr(message, "method") and message.method != "notifications/message":
            self.say(told=message.method, params=wire(message.params))

    async def tools_call(self, number: int, params: dict[str, Any]) -> Any:
        name, arguments, meta = params["name"], params["arguments"], params.get("_meta")
        if params.get("by_hand"):
            state = params.get("requestState")
            call = self.client.session.call_tool
            return await call(name, arguments, allow_input_required=True, request_state=state)

        async def step(*given: Any) -> None:
            self.say(step=given)

        callback = {"progress_callback": step} if params.get("progress") else {}
        return await self.client.call_tool(name, arguments, meta=meta, **callback)

    async def completion_complete(self, number: int, params: dict[str, Any]) -> Any:
        kind = types.PromptReference if params["ref"]["type"] == "ref/prompt" else types.ResourceTemplateReference
        arguments = params.get("context", {}).get("arguments")
        return await self.client.complete(kind.model_validate(params["ref"]), params["argument"], arguments)

    async def subscriptions_listen(self, number: int, params: dict[str, Any]) -> Any:
        lists = {f"{page}_list_changed": f"{page}ListChanged" in params for page in ("tools", "prompts", "resources")}
        how = "given up"
        try:
            uris = params.get("resourceSubscriptions")
            async with self.client.listen(**lists, resource_subscriptions=uris) as listening:
                self.say(id=number, result=wire(listening.honored))
                async for event in listening:
                    self.say(listen=number, told=EVENTS[type(event).__name__], params=vars(event))
                how = "graceful"
        finally:
            with anyio.CancelScope(shield=True):
                self.say(listen=number, ended=how)


if __name__ == "__main__":
    anyio.run(Newest().drive)
