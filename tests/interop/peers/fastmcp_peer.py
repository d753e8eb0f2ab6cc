"""fastmcp[tasks] 4.1 with tasks of 2026-07-28: `server PORT`, or `client URL`, which follows tasks of our server."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from fastmcp import Client, Context, FastMCP
from fastmcp_tasks import TasksExtension, call_tool_task

ANSWERS: dict[str, Any] = {"Name?": {"name": "Ann"}, "Seat?": {"seat": "12A"}, "Meal?": {"meal": "soup"}}


def serve(port: int) -> None:
    server: Any = FastMCP("fastmcp-tasks")
    server.add_extension(TasksExtension())

    @server.tool(task=True)
    async def book(ctx: Context) -> Any:
        # A task of fastmcp asks by its result, and runs again.
        if not ctx.input_responses:
            form: Any = {"type": "object", "properties": {"name": {"type": "string"}}}
            params = types.ElicitRequestFormParams(message="Name?", requested_schema=form)
            return types.InputRequiredResult(input_requests={"name": types.ElicitRequest(params=params)})
        answer: Any = ctx.input_responses["name"]
        return f"booked for {answer.content['name']}"

    @server.tool(task=True)
    async def slow() -> str:
        await asyncio.sleep(0.3)
        return "done"

    @server.tool(task=True)
    async def quick() -> str:
        return "done"

    server.run(transport="http", host="127.0.0.1", port=port)


async def follow(url: str) -> None:
    async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return ANSWERS[message]

    async with Client(url, elicitation_handler=elicit) as client:
        result = await client.call_tool("steps", {})
        print("followed", result.content[0].text)
        task = await call_tool_task(client, "ask_one", {})
        print("asked", (await task.result()).content[0].text)
        waits = await call_tool_task(client, "wait", {})
        print("status", (await waits.status()).status)
        await waits.cancel()
        print("status", (await waits.status()).status)


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    asyncio.run(follow(sys.argv[2]))
