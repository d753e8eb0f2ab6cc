"""A server by the official SDK (mcp 1.30), with tasks of 2025-11-25, over stdio."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

server: Any = Server("sdk-tasks")
server.experimental.enable_tasks()


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    execution = types.ToolExecution(taskSupport=types.TASK_REQUIRED)
    schema: Any = {"type": "object", "properties": {}}
    return [types.Tool(name="book", inputSchema=schema, execution=execution)]


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    context = server.request_context
    context.experimental.validate_task_mode(types.TASK_REQUIRED)

    async def work(task: Any) -> types.CallToolResult:
        await task.update_status("asking")
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        answer = await task.elicit(message="Name?", requestedSchema=form)
        told = await task.create_message(
            messages=[types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say hello"))],
            max_tokens=10,
        )
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=f"{answer.content['name']}: {told.content.text}")]
        )

    return await context.experimental.run_task(work)


async def main() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


asyncio.run(main())
