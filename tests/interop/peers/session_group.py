"""The `ClientSessionGroup` of the official SDK in the cases of tests/interop/test_host.py: prints what came of each."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.session_group import ClientSessionGroup

ROOT = str(Path(__file__).resolve().parents[3])


def server(manner: str) -> StdioServerParameters:
    env = {"PYTHONPATH": ROOT}
    return StdioServerParameters(command=sys.executable, args=["-m", "tests.host.hostile", manner], env=env)


def text(result: Any) -> str:
    return str(result.content[0].text)


async def outcome(case: Any) -> str:
    try:
        return str(await case)
    except BaseException as problem:
        return f"raised {type(problem).__name__}"


async def equal_names() -> str:
    async with ClientSessionGroup() as group:
        await group.connect_to_server(server("echo"))
        await group.connect_to_server(server("echo"))
        return "connected"


async def one_dead() -> str:
    async with ClientSessionGroup() as group:
        for manner in ("dies-at-start", "echo"):
            await group.connect_to_server(server(manner))
        return text(await group.call_tool("echo", {}))


async def changed() -> str:
    for manner in ("echo", "changed"):
        async with ClientSessionGroup() as group:
            await group.connect_to_server(server(manner))
            said = f"called, {group.tools['echo'].description}"
            await group.call_tool("echo", {})
    return said


async def environment() -> str:
    os.environ["SECRET"] = "swordfish"
    async with ClientSessionGroup() as group:
        await group.connect_to_server(server("echo"))
        return f"SECRET: {'SECRET' in json.loads(text(await group.call_tool('environment', {})))}"


async def main() -> None:
    for case in (equal_names, one_dead, changed, environment):
        print(json.dumps([case.__name__, await outcome(case())]), flush=True)


asyncio.run(main())
