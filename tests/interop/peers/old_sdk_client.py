"""A client made with an old official SDK (mcp 1.8.1, 2024-11-05 only) that does what it is told: driven.py says how.

A URL is that of an event stream. It has no pages, and cannot give up a request by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp.types as types
from driven import Driven, command, wire
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client


class Old(Driven):
    @asynccontextmanager
    async def connected(self, order: dict[str, Any]) -> AsyncIterator[Any]:
        target = order["target"]
        over = sse_client(target[0]) if len(target) == 1 else stdio_client(StdioServerParameters(**command(target)))
        async with (
            over as (read, write),
            ClientSession(
                read,
                write,
                sampling_callback=self.on_sample,
                list_roots_callback=self.on_roots,
                logging_callback=self.on_log,
                message_handler=self.on_message,
                client_info=types.Implementation(name="sdk", version="1.8.1"),
            ) as self.client,
        ):
            told = wire(await self.client.initialize())
            yield [told["protocolVersion"], told["serverInfo"], told["capabilities"], told["instructions"]]

    async def on_sample(self, context: Any, params: Any) -> Any:
        return await self.ask("sampling/createMessage", params, types.CreateMessageResult, types.ErrorData)

    async def on_roots(self, context: Any) -> Any:
        return await self.ask("roots/list", None, types.ListRootsResult, types.ErrorData)

    async def on_log(self, params: Any) -> None:
        self.say(told="notifications/message", params=wire(params))

    async def on_message(self, message: Any) -> None:
        told = getattr(message, "root", None)
        if isinstance(told, types.ProgressNotification):
            self.say(step=[told.params.progress, told.params.total, None])
        elif isinstance(message, types.ServerNotification) and told.method != "notifications/message":
            self.say(told=told.method, params=wire(told.params))

    async def tools_call(self, number: int, params: dict[str, Any]) -> Any:
        meta = types.RequestParams.Meta(progressToken=number) if params.get("progress") else None
        asked = types.CallToolRequestParams(name=params["name"], arguments=params["arguments"], _meta=meta)
        request = types.ClientRequest(types.CallToolRequest(method="tools/call", params=asked))
        mine = self.client._request_id  # that of the next request
        try:
            return await self.client.send_request(request, types.CallToolResult)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                reason = types.CancelledNotificationParams(requestId=mine, reason="no longer wanted")
                cancelled = types.CancelledNotification(method="notifications/cancelled", params=reason)
                await self.client.send_notification(types.ClientNotification(cancelled))
            raise

    async def completion_complete(self, number: int, params: dict[str, Any]) -> Any:
        kind = types.PromptReference if params["ref"]["type"] == "ref/prompt" else types.ResourceReference
        return await self.client.complete(kind.model_validate(params["ref"]), params["argument"])


if __name__ == "__main__":
    anyio.run(Old().drive)
