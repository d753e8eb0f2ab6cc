"""A client made with the SDK for Python, of either generation: it lists the tools and calls the last one."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> None:
    target = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(target) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        found = await session.list_tools()
        if found.tools:
            await session.call_tool(found.tools[-1].name, {})


asyncio.run(main())
