"""A client by the official SDK (mcp 1.30) that follows a task of our server, whose command it is given."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ANSWERS: dict[str, Any] = {"Name?": {"name": "Ann"}, "Seat?": {"seat": "12A"}, "Meal?": {"meal": "soup"}}


async def elicit(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=ANSWERS[params.message])


async def talk(session: Any) -> None:
    await session.initialize()
    tools = (await session.list_tools()).tools
    support = {tool.name: tool.execution.taskSupport for tool in tools if tool.execution}
    print("support", support["book"], support["wait"])
    created = await session.experimental.call_tool_as_task("book", {"city": "Oslo"}, ttl=60_000)
    print("created", created.task.status)
    result = None
    async for state in session.experimental.poll_task(created.task.taskId):
        print("status", state.status)
        if state.status == "input_required":
            result = await session.experimental.get_task_result(created.task.taskId, types.CallToolResult)
            break
    if result is None:
        result = await session.experimental.get_task_result(created.task.taskId, types.CallToolResult)
    print("result", result.content[0].text)
    waits = await session.experimental.call_tool_as_task("wait", {}, ttl=60_000)
    print("cancelled", (await session.experimental.cancel_task(waits.task.taskId)).status)


async def main() -> None:
    command = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with (
        stdio_client(command) as (reading, writing),
        ClientSession(reading, writing, elicitation_callback=elicit) as session,
    ):
        await talk(session)


asyncio.run(main())
