"""Skills by fastmcp, over stdio.

Usage: fastmcp_skills.py server FOLDER                           serves the skills below a folder
       fastmcp_skills.py client COMMAND [ARGUMENT ...]           prints what it read, as one object
"""

from __future__ import annotations

import asyncio
import json
import sys

role, *given = sys.argv[1:]


def serve() -> None:
    from fastmcp import FastMCP
    from fastmcp.skills.provider import SkillsDirectoryProvider

    server = FastMCP("fastmcp")
    server.add_provider(SkillsDirectoryProvider(given[0]))
    server.run(show_banner=False)


async def ask() -> None:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport
    from fastmcp.skills import SkillsClientExtension

    async with Client(StdioTransport(given[0], given[1:]), extensions=[SkillsClientExtension()]) as client:
        listed = await client.list_skills()
        read = {skill.uri: sorted((await client.read_skill(skill.uri)).files) for skill in listed}
        print(json.dumps(read))


if role == "server":
    serve()
else:
    asyncio.run(ask())
