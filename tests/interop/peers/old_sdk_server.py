"""A server made with an old official SDK (mcp 1.8.1, 2024-11-05 only) that offers every feature, for our client.

It has no pages: this SDK looks for the cursor outside of `params`. And it makes results of all errors of tools.

Usage: python old_sdk_server.py [stdio | sse [PORT]]      over HTTP it prints its URL
"""

from __future__ import annotations

from typing import Any

import offered
from mcp.server.lowlevel import NotificationOptions, Server
from offered import wire
from serving import run, sse_app, types

offered.PAGE = 100
offered.BLOCKS[:] = [block for block in offered.BLOCKS if block["type"] not in ("audio", "resource_link")]
server: Server[Any] = Server("theirs", version="1.8.1", instructions="Offers everything.")


class Talk:
    """The request under way."""

    @property
    def session(self) -> Any:
        return server.request_context.session

    async def report(self, progress: int, total: int, message: str | None = None) -> None:
        meta = server.request_context.meta
        if meta is not None and meta.progressToken is not None:
            await self.session.send_progress_notification(meta.progressToken, progress, total)


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> list[Any]:
    result = await offered.call_tool(Talk(), {"name": name, "arguments": arguments})
    if result.get("isError"):
        raise RuntimeError(result["content"][0]["text"])
    return types.CallToolResult.model_validate(result).content


def answer(method: str, request: Any, result: Any) -> None:
    """Answer a method as it is offered."""

    async def handle(asked: Any) -> Any:
        params = {} if asked.params is None else wire(asked.params)
        return types.ServerResult(result.model_validate(await offered.METHODS[method](Talk(), params)))

    server.request_handlers[request] = handle


answer("tools/list", types.ListToolsRequest, types.ListToolsResult)
answer("resources/list", types.ListResourcesRequest, types.ListResourcesResult)
answer("resources/templates/list", types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult)
answer("resources/read", types.ReadResourceRequest, types.ReadResourceResult)
answer("resources/subscribe", types.SubscribeRequest, types.EmptyResult)
answer("resources/unsubscribe", types.UnsubscribeRequest, types.EmptyResult)
answer("prompts/list", types.ListPromptsRequest, types.ListPromptsResult)
answer("prompts/get", types.GetPromptRequest, types.GetPromptResult)
answer("completion/complete", types.CompleteRequest, types.CompleteResult)
answer("logging/setLevel", types.SetLevelRequest, types.EmptyResult)


async def roots_changed(notification: Any) -> None:
    offered.roots_told.set()


server.notification_handlers[types.RootsListChangedNotification] = roots_changed

OPTIONS = server.create_initialization_options(
    NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True), offered.EXPERIMENTAL
)
# This SDK answers subscriptions and never says so.
OPTIONS.capabilities.resources.subscribe = True


if __name__ == "__main__":
    run(server, OPTIONS, lambda way: sse_app(server, OPTIONS))
