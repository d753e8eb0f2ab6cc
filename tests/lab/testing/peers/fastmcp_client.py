"""A client made with FastMCP: it lists the tools and calls the last one."""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    async with Client(StdioTransport(sys.argv[1], sys.argv[2:])) as client:
        tools = await client.list_tools()
        if tools:
            await client.call_tool(tools[-1].name, {})


asyncio.run(main())
